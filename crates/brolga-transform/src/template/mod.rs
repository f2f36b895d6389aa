//! Templates: derived pairs of drivers ([`brolga_ir::driver`]).
//!
//! **Question.** A driver has a body, and its pair is not made of it. Of what is it made?
//! **Answer.** Of calls, written as CLIF: of the pair that a call drives ([`call`]), or of steps
//! and their gradient, as the run time says ([`steps`]), or of a call, what undoes it, and its
//! gradient ([`inverse`]). The variant is that of the call. Analyses, forward mode, combined
//! functions and derivatives that are derived again are those of the body.
//!
//! **Invariant.** Where a template does not apply, the pair is made of the body, which gives the
//! same cotangents.

mod call;
mod inverse;
mod steps;

use brolga_analysis::calls::summarise::reachable;
use brolga_analysis::{RootKind, Variant};
use brolga_ir::driver::{Driver, StateLength, StatePart};
use brolga_ir::inst::{AdInst, AdOp, Callee, Check, Val};
use brolga_ir::lower::CHECK_SRCLOC;
use brolga_ir::names::Names;
use brolga_ir::{Diagnostic, Diagnostics, FuncKey, Program};
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, Signature, TrapCode, UserFuncName, types};
use cranelift_frontend::FunctionBuilder;

use crate::derived::DerivedPair;
use crate::facts::{Context, Facts};
use crate::program::variants::Worklist;
use crate::translate::stmt::{AdStmt, AdStmts, PairSymbols};

/// The pair of a variant, if it is one of a driver to which a template applies.
pub(crate) fn pair(
    cx: Context<'_>,
    variant: &Variant,
    symbols: &PairSymbols,
    work: &mut Worklist<'_>,
    names: &mut Names,
) -> Option<DerivedPair> {
    // The pullback of what is undone is given more than a pullback is.
    let undone = |func| Variant { func, ..variant.clone() }.is_undone(cx.program, cx.options);
    let (forward, pullback) = match cx.program.funcs[variant.func].driver.as_ref()? {
        Driver::Call(driven) if !undone(*driven) => call::pair(cx, variant, *driven, symbols, work, names),
        Driver::Steps(of) if variant.keeps_states(cx.options) => steps::pair(cx, variant, of, symbols, work, names),
        Driver::Inverse(of) if variant.is_undone(cx.program, cx.options) => {
            inverse::pair(cx, variant, of, symbols, work, names)
        }
        Driver::Call(_) | Driver::Steps(_) | Driver::Inverse(_) => return None,
    };
    Some(DerivedPair {
        variant: variant.clone(),
        forward_symbol: symbols.forward.clone(),
        pullback_symbol: symbols.pullback.clone(),
        forward,
        pullback,
        frame: 0,
    })
}

/// Where a function stores a pointer, or copies some, to memory that outlives it. The shadow is
/// then the shadow of one time, and a state that is put back is of another.
pub(crate) fn stored_pointer(facts: &Facts<'_>, stmts: &AdStmts) -> Option<ir::Inst> {
    let outlives = |delta: &Val| match delta {
        Val::Delta(root) => !matches!(facts.pointers.roots.get(root), Some(RootKind::Slot(_))),
        _ => true,
    };
    let stores = |i: &AdInst| match &i.op {
        AdOp::StoreDelta { delta, .. } => outlives(delta),
        AdOp::Call { callee: Callee::Symbol(s), args, .. } if &**s == "brolga_copy_shadow" => {
            args[1].as_ref().is_none_or(outlives)
        }
        _ => false,
    };
    let found = |(&inst, stmt): (&ir::Inst, &AdStmt)| {
        let all = stmt.before.values().chain(stmt.after.values());
        all.into_iter().any(stores).then_some(inst)
    };
    stmts.iter().filter_map(found).min()
}

/// Refuse functions with a state that store pointers: those that do, and where.
pub(crate) fn check(program: &Program, drivers: &[FuncKey], stored: &[(FuncKey, ir::Inst)]) -> Result<(), Diagnostics> {
    let mut problems = Diagnostics::default();
    for &driver in drivers {
        let what = match program.funcs[driver].driver {
            Some(Driver::Steps(_)) => "a step of a time loop stores a pointer",
            Some(Driver::Inverse(_)) => "a function that is undone by an inverse stores a pointer",
            _ => continue,
        };
        let reached = reachable(program, driver);
        for &(func, inst) in stored.iter().filter(|s| reached.contains(&s.0)) {
            let d = Diagnostic::new("AD0190", what);
            let d = d.note("states are put back, and shadows of pointers are not");
            let d = d.help("keep an index in place of the pointer, or call the function as any other");
            problems.push(d.at(program, func, inst));
        }
    }
    problems.or_ok(())
}

/// A function of a template, and its parameters.
fn begin<'b>(
    func: &'b mut ir::Function,
    cx: &'b mut cranelift_frontend::FunctionBuilderContext,
) -> (FunctionBuilder<'b>, Vec<ir::Value>) {
    func.params.ensure_base_srcloc(ir::SourceLoc::new(0));
    let mut b = FunctionBuilder::new(func, cx);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let params = b.block_params(block).to_vec();
    (b, params)
}

fn empty(names: &mut Names, symbol: &str, signature: Signature) -> ir::Function {
    ir::Function::with_name_signature(UserFuncName::testcase(names.spell(symbol)), signature)
}

/// A call of a function by its symbol.
fn call_of(
    b: &mut FunctionBuilder<'_>,
    names: &mut Names,
    symbol: &str,
    signature: Signature,
    args: &[ir::Value],
) -> Vec<ir::Value> {
    let signature = b.import_signature(signature);
    let name = ir::ExternalName::testcase(names.spell(symbol));
    let callee = b.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
    let call = b.ins().call(callee, args);
    b.inst_results(call).to_vec()
}

/// A call of a helper, which returns one word.
fn helper(
    cx: Context<'_>,
    b: &mut FunctionBuilder<'_>,
    names: &mut Names,
    symbol: &str,
    args: &[ir::Value; 3],
) -> ir::Value {
    let mut sig = Signature::new(cx.isa.default_call_conv());
    sig.params.extend([types::I64; 3].map(AbiParam::new));
    sig.returns.push(AbiParam::new(types::I64));
    call_of(b, names, symbol, sig, args)[0]
}

/// The address of words that are put on the stack; shorter numbers have no sign.
fn cells_at(b: &mut FunctionBuilder<'_>, cells: &[ir::Value]) -> ir::Value {
    let size = 8 * cells.len() as u32;
    let slot = b.create_sized_stack_slot(ir::StackSlotData::new(ir::StackSlotKind::ExplicitSlot, size, 3));
    for (i, &v) in cells.iter().enumerate() {
        let v = if b.func.dfg.value_type(v) == types::I64 { v } else { b.ins().uextend(types::I64, v) };
        b.ins().stack_store(types::I64, v, slot, 8 * i as i32);
    }
    b.ins().stack_addr(types::I64, slot, 0)
}

/// Address and length of a part of the state.
fn bounds(b: &mut FunctionBuilder<'_>, part: &StatePart, given: &[ir::Value]) -> [ir::Value; 2] {
    let mut address = b.ins().iconst(types::I64, part.offset);
    for &p in &part.address {
        let p = if b.func.dfg.value_type(given[p]) == types::I64 {
            given[p]
        } else {
            b.ins().uextend(types::I64, given[p])
        };
        address = b.ins().iadd(address, p);
    }
    let length = match part.length {
        StateLength::Bytes(n) => b.ins().iconst(types::I64, i64::from(n)),
        StateLength::Param(p) if b.func.dfg.value_type(given[p]) == types::I64 => given[p],
        StateLength::Param(p) => b.ins().sextend(types::I64, given[p]),
    };
    [address, length]
}

/// Trap with a check of ours, which is no instruction of the program's.
fn trap_if(b: &mut FunctionBuilder<'_>, fault: ir::Value, check: Check) {
    b.set_srcloc(ir::SourceLoc::new(CHECK_SRCLOC));
    b.ins().trapnz(fault, TrapCode::unwrap_user(check as u8));
    b.set_srcloc(ir::SourceLoc::default());
}
