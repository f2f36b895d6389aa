//! Call-graph reachability: which functions a derivation is of, by calls and by addresses.
//!
//! **Question.** Which functions may a run of the root come to?
//!
//! **Answer.** A known C function whose address is taken has no body that could be derived, and one
//! that has a rule of the user's is not derived: such a function gets one that calls it, a *thunk*;
//! its address stands for it as before.
//!
//! **Cost.** One walk over the call graph. To name a chain of calls, one more, breadth first.

use brolga_analysis::calls::summarise;
use brolga_ir::driver::Driver;
use brolga_ir::map::{HashMap, IndexMap, IndexSet};
use brolga_ir::names::{Names, THUNK};
use brolga_ir::program::{addresses, symbol_of};
use brolga_ir::{Diagnostics, FuncKey, Program};
use brolga_rules::math_rule;
use cranelift_codegen::ir::{self, InstBuilder, Opcode, UserFuncName};
use cranelift_entity::EntitySet;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use crate::primal::normalise::NormalisedPrimal;

/// Functions that the root reaches. A known function whose address is taken gets a thunk with a
/// body, so that it can be derived like anything else.
pub(crate) fn reach(program: &mut Program, root: FuncKey) -> Vec<FuncKey> {
    let mut reached = summarise::reachable(program, root);
    let mut thunks = Vec::new();
    for &k in &reached {
        let Some(body) = &program.funcs[k].body else { continue };
        for (symbol, sig) in addresses(body) {
            let defined = program.func(&symbol).map(|f| &program.funcs[f]);
            let is_known = match defined {
                Some(f) if f.rule.is_some() => true,
                _ => defined.is_none_or(|f| f.body.is_none()) && math_rule(&symbol).is_some(),
            };
            if is_known {
                thunks.push((symbol, body.dfg.signatures[sig].clone()));
            }
        }
        let in_data = program.functions_in_data(body).into_iter().map(|f| &program.funcs[f]);
        thunks.extend(in_data.filter(|f| f.rule.is_some()).map(|f| (f.symbol.clone(), f.signature.clone())));
    }
    for (symbol, sig) in thunks {
        let name = format!("{symbol}{THUNK}");
        if program.func(&name).is_none() {
            let k = program.define(&name, thunk(&name, &symbol, &sig), |_| 0).expect("the name is new");
            reached.push(k);
        }
    }
    reached
}

/// With functions of the program that derived functions call by a rule of the user's, or to undo a
/// call: no primal needs to.
pub(crate) fn with_called_by_rules<'a>(
    program: &Program,
    mut keys: Vec<FuncKey>,
    derived: impl Iterator<Item = &'a ir::Function>,
    names: &Names,
) -> Vec<FuncKey> {
    let calls_more = |k: &FuncKey| {
        let f = &program.funcs[*k];
        f.rule.is_some() || f.adjoint.is_some() || matches!(f.driver, Some(Driver::Inverse(_)))
    };
    if !keys.iter().any(calls_more) {
        return keys;
    }
    let mut known = EntitySet::new();
    known.extend(keys.iter().copied());
    for func in derived {
        for callee in func.dfg.ext_funcs.values() {
            let spelled = symbol_of(func, &callee.name);
            let Some(key) = program.func(names.symbol(&spelled).unwrap_or(&spelled)) else { continue };
            if program.funcs[key].body.is_some() && !known.contains(key) {
                keys.extend(summarise::reachable(program, key).into_iter().filter(|&k| known.insert(k)));
            }
        }
    }
    keys
}

/// A function that only calls another one.
fn thunk(name: &str, symbol: &str, sig: &ir::Signature) -> ir::Function {
    let mut f = ir::Function::with_name_signature(UserFuncName::testcase(name), sig.clone());
    let mut ctx = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut f, &mut ctx);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_all_blocks();
    let signature = b.import_signature(sig.clone());
    let name = ir::ExternalName::testcase(symbol);
    let callee = b.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
    let args = b.block_params(block).to_vec();
    let call = b.ins().call(callee, &args);
    let results = b.inst_results(call).to_vec();
    b.ins().return_(&results);
    f
}

/// The symbol whose address stands for a function: a thunk stands for what it calls.
pub(crate) fn primal_symbol(program: &Program, k: FuncKey) -> String {
    let s = &program.funcs[k].symbol;
    s.strip_suffix(THUNK).unwrap_or(s).to_owned()
}

/// Functions with a body whose address is taken, in order of discovery.
pub(crate) fn addressed(program: &Program, normalised: &IndexMap<FuncKey, NormalisedPrimal>) -> Vec<FuncKey> {
    let mut out: IndexSet<FuncKey> = IndexSet::default();
    for (symbol, _) in normalised.values().flat_map(|n| addresses(&n.func)) {
        let is_derived = |k: FuncKey| program.funcs[k].body.is_some() && program.funcs[k].rule.is_none();
        let defined = program.func(&symbol).filter(|&k| is_derived(k));
        out.extend(defined.or_else(|| program.func(&format!("{symbol}{THUNK}"))));
    }
    let in_data = normalised.values().flat_map(|n| program.functions_in_data(&n.func));
    out.extend(in_data.filter_map(|k| match program.funcs[k].rule {
        Some(_) => program.func(&format!("{}{THUNK}", program.funcs[k].symbol)),
        None => Some(k),
    }));
    out.into_iter().filter(|k| normalised.contains_key(k)).collect()
}

/// Whether a function calls others through pointers.
pub(crate) fn calls_indirectly(func: &ir::Function) -> bool {
    func.layout.blocks().any(|b| func.layout.block_insts(b).any(|i| func.dfg.insts[i].opcode() == Opcode::CallIndirect))
}

/// Say through which function a callee's problem was reached.
pub(crate) fn with_chain(mut e: Diagnostics, program: &Program, root: FuncKey, func: FuncKey) -> Diagnostics {
    if root != func {
        let chain = call_chain(program, root, func).join(" -> ");
        for d in &mut e.0 {
            d.notes.push(format!("reached by {chain}"));
        }
    }
    e
}

/// How many functions a chain of calls names at its start, and at its end.
const CHAIN_ENDS: (usize, usize) = (3, 4);

/// A shortest chain of calls between two functions, by name; what is in the middle of a long one is
/// left out.
fn call_chain(program: &Program, root: FuncKey, func: FuncKey) -> Vec<String> {
    let mut from: HashMap<FuncKey, FuncKey> = HashMap::default();
    let mut queue = std::collections::VecDeque::from([root]);
    while let Some(k) = queue.pop_front() {
        if k == func {
            break;
        }
        let Some(body) = &program.funcs[k].body else { continue };
        for r in body.dfg.ext_funcs.keys() {
            if let Some(c) = program.callee(body, r)
                && c != root
                && !from.contains_key(&c)
            {
                from.insert(c, k);
                queue.push_back(c);
            }
        }
    }
    let mut chain = vec![func];
    while let Some(&k) = from.get(chain.last().expect("never empty")) {
        chain.push(k);
    }
    let name = |k: FuncKey| program.funcs[k].source_name().unwrap_or_else(|| format!("%{}", program.funcs[k].symbol));
    let mut names: Vec<_> = chain.iter().rev().map(|&k| name(k)).collect();
    let (start, end) = (CHAIN_ENDS.0, names.len().saturating_sub(CHAIN_ENDS.1));
    if end > start + 1 {
        names.splice(start..end, [format!("… {} more …", end - start)]);
    }
    names
}
