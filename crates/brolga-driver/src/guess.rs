//! Guessed activities, for a function that no line calls.
//!
//! **Problem.** A call says by its arguments what is a buffer. `dump` and `; error:` name a
//! function alone, and in CLIF a pointer is an integer like any other (unless the program says that
//! only the instance is one).
//!
//! **Answer.** The body says it ([`request`]): an `i64` parameter whose value, with offsets added,
//! is the address of a load or a store, here or in a function that it is passed to, counts as a
//! pointer with a shadow; other integers are constant, floats are active.
//!
//! **Cost.** For each parameter rounds over the body until no value more is made of it; each
//! function that is called is looked at once.

use std::collections::{HashMap, HashSet};

use brolga::{ArgActivity, FuncKey, Program, Request};
use cranelift_codegen::ir::{self, Opcode, types};

use crate::bind::default_activity;

/// What to ask for if the caller does not say.
pub fn request(program: &Program, func: FuncKey) -> Request {
    let signature = &program.funcs[func].signature;
    let vmctx = |p: &ir::AbiParam| p.purpose == ir::ArgumentPurpose::VMContext;
    if program.vmctx_pointers_only {
        let activity =
            |p: &ir::AbiParam| if vmctx(p) { ArgActivity::Duplicated } else { default_activity(p.value_type) };
        return Request::new(func, signature.params.iter().map(activity));
    }
    let pointers = pointer_params(program, func, &mut HashMap::new());
    Request::new(
        func,
        signature
            .params
            .iter()
            .enumerate()
            .map(|(i, p)| if pointers.contains(&i) { ArgActivity::Duplicated } else { default_activity(p.value_type) }),
    )
}

/// Parameters that serve as addresses in the body, or in those of functions that it calls.
fn pointer_params(program: &Program, key: FuncKey, known: &mut Pointers) -> HashSet<usize> {
    if let Some(found) = known.get(&key) {
        return found.clone();
    }
    // Of a function that calls itself, what it does besides decides.
    known.insert(key, HashSet::new());
    let Some(func) = &program.funcs[key].body else { return HashSet::new() };
    let Some(entry) = func.layout.entry_block() else { return HashSet::new() };
    let params = func.dfg.block_params(entry).to_vec();
    let is_pointer =
        |&i: &usize| func.dfg.value_type(params[i]) == types::I64 && is_address((program, func), params[i], known);
    let found: HashSet<usize> = (0..params.len()).filter(is_pointer).collect();
    known.insert(key, found.clone());
    found
}

/// Parameters of functions that serve as addresses.
type Pointers = HashMap<FuncKey, HashSet<usize>>;

/// Whether `param`, or a sum that it is part of, is dereferenced. Follows block parameters; one set
/// of values suffices, since it only grows.
fn is_address((program, func): (&Program, &ir::Function), param: ir::Value, known: &mut Pointers) -> bool {
    let dfg = &func.dfg;
    let mut derived = HashSet::from([param]);
    loop {
        let before = derived.len();
        for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
            let args: Vec<_> = dfg.inst_args(inst).iter().map(|v| dfg.resolve_aliases(*v)).collect();
            let opcode = dfg.insts[inst].opcode();
            let address = match opcode {
                _ if opcode.can_load() && !opcode.is_call() => args.first(),
                _ if opcode.can_store() && !opcode.is_call() => args.get(1),
                _ => None,
            };
            if address.is_some_and(|a| derived.contains(a)) {
                return true;
            }
            if let ir::InstructionData::Call { func_ref, .. } = dfg.insts[inst]
                && args.iter().any(|a| derived.contains(a))
                && let Some(callee) = program.callee(func, func_ref)
            {
                let pointers = pointer_params(program, callee, known);
                if args.iter().enumerate().any(|(i, a)| derived.contains(a) && pointers.contains(&i)) {
                    return true;
                }
            }
            if matches!(opcode, Opcode::Iadd | Opcode::Isub | Opcode::Select)
                && args.iter().any(|a| derived.contains(a))
            {
                derived.extend(dfg.inst_results(inst));
            }
            for call in dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
                let params = dfg.block_params(call.block(&dfg.value_lists));
                for (arg, param) in call.args(&dfg.value_lists).zip(params) {
                    if arg.as_value().is_some_and(|v| derived.contains(&dfg.resolve_aliases(v))) {
                        derived.insert(*param);
                    }
                }
            }
        }
        if derived.len() == before {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use brolga::ArgActivity::{Active, Const, Duplicated};

    #[test]
    fn pointers_are_found_through_loops_and_sums() {
        let file = crate::File::parse(
            "test.clif",
            "function %sum(i64, i64, f64, i32) -> f64 system_v {
block0(v0: i64, v1: i64, v2: f64, v3: i32):
    jump block1(v0, v1, v2)
block1(v4: i64, v5: i64, v6: f64):
    v7 = iconst.i64 8
    v8 = iadd v4, v7
    v9 = load.f64 v8
    v10 = fadd v6, v9
    v11 = iconst.i64 1
    v12 = isub v5, v11
    brif v12, block1(v8, v12, v10), block2
block2:
    return v10
}",
        )
        .unwrap();
        let request = super::request(&file.program, file.defined("sum").unwrap());
        assert_eq!(request.args, [Duplicated, Const, Active, Const].map(Into::into));
    }
}
