//! Escape analysis of stack slots, for drivers: states that are gone when a pullback runs.
//!
//! **Question.** A driver's pullback puts states back, and runs primal functions on them again
//! ([`crate::template`]). A state in a stack slot is there as long as the function runs that has
//! the slot. Which drivers may be given the address of one whose forward pass has returned by then?
//!
//! **Answer.** Those that a call reaches which is passed an address made from a slot's, and if such
//! an address is stored, all that the function reaches. A root that is one function with its
//! pullback does not return between the two, so its slots do not count, unless it is called, too.
//! But the shadow of a pointer in a slot is gone when its second half begins, so drivers whose
//! steps load pointers do count. Such drivers are ordinary functions: their pair is made of their
//! body.
//!
//! **Before and after.** `%f` keeps a pendulum in a slot, and runs a time loop on it. Its gradient
//! in one function has a template of the loop. Its forward pass and pullback, or those of a
//! function that calls `%f`, record all steps.
//!
//! **Cost.** A pass over the functions that have slots and reach a driver.

use brolga_analysis::calls::summarise::reachable;
use brolga_analysis::memory::capture::made_from;
use brolga_analysis::query::access_address;
use brolga_ir::driver::Driver;
use brolga_ir::{FuncKey, Mode, Program};
use cranelift_codegen::ir::{self, Opcode, types};
use cranelift_entity::EntitySet;

/// Let drivers be ordinary functions whose state may lie on a stack that is gone.
pub(crate) fn derive_from_bodies(program: &mut Program, keys: &[FuncKey], root: FuncKey, mode: Mode) {
    let keeps_state = |k: &FuncKey| matches!(program.funcs[*k].driver, Some(Driver::Steps(_) | Driver::Inverse(_)));
    if !keys.iter().any(keeps_state) {
        return;
    }
    let is_called = keys.iter().any(|&k| program.funcs[k].body.is_some() && calls(program, k).any(|c| c == root));
    let stays = matches!(mode, Mode::Gradient | Mode::Combined) && !is_called;
    let mut gone: Vec<FuncKey> = Vec::new();
    for &k in keys {
        let only_if_pointers = k == root && stays;
        for from in given_slots(program, k) {
            let drivers = reachable(program, from).into_iter().filter(keeps_state);
            gone.extend(drivers.filter(|&d| !only_if_pointers || loads_pointers(program, d)));
        }
    }
    for k in gone {
        program.func_mut(k).driver = None;
    }
}

/// Functions that a function calls by name.
fn calls(program: &Program, k: FuncKey) -> impl Iterator<Item = FuncKey> + '_ {
    let body = program.funcs[k].body.as_ref();
    body.into_iter().flat_map(move |body| insts(body).filter_map(move |i| callee(program, body, i)))
}

fn callee(program: &Program, body: &ir::Function, inst: ir::Inst) -> Option<FuncKey> {
    match body.dfg.insts[inst] {
        ir::InstructionData::Call { func_ref, .. } | ir::InstructionData::TryCall { func_ref, .. } => {
            program.callee(body, func_ref)
        }
        _ => None,
    }
}

fn insts(body: &ir::Function) -> impl Iterator<Item = ir::Inst> + '_ {
    body.layout.blocks().flat_map(|b| body.layout.block_insts(b))
}

/// From where on a function's slots may be reached: functions that are called with an address made
/// from a slot's; itself, if one is stored or passed to a pointer.
fn given_slots(program: &Program, k: FuncKey) -> Vec<FuncKey> {
    let Some(body) = program.funcs[k].body.as_ref().filter(|body| !body.sized_stack_slots.is_empty()) else {
        return Vec::new();
    };
    let of_slots = made_from_slots(program, body);
    let mut found = Vec::new();
    for i in insts(body) {
        let op = body.dfg.insts[i].opcode();
        let args = body.dfg.inst_args(i);
        let given = if op.can_store() && !op.is_call() { &args[..args.len().min(1)] } else { args };
        if !given.iter().any(|&v| of_slots.contains(body.dfg.resolve_aliases(v))) {
            continue;
        }
        if op.is_call() {
            found.push(callee(program, body, i).unwrap_or(k));
        } else if op.can_store() {
            found.push(k);
        }
    }
    found
}

/// Whether a function, or one that it reaches, may use what it loads as an address.
fn loads_pointers(program: &Program, k: FuncKey) -> bool {
    !program.vmctx_pointers_only
        && reachable(program, k).into_iter().filter_map(|k| program.funcs[k].body.as_ref()).any(|body| {
            let words = |&v: &ir::Value| body.dfg.value_type(v) == types::I64;
            let loads =
                |i: ir::Inst| body.dfg.insts[i].opcode().can_load() && body.dfg.inst_results(i).iter().any(words);
            let loaded = made_from(program, body, &[], loads);
            insts(body).any(|i| {
                let args = body.dfg.inst_args(i).iter().copied().filter(|_| body.dfg.insts[i].opcode().is_call());
                let mut used = access_address(body, i).into_iter().chain(args);
                used.any(|v| loaded.contains(body.dfg.resolve_aliases(v)))
            })
        })
}

/// Values that may be addresses in slots. What a call returns, or a load finds, has been passed or
/// stored: that counts already.
fn made_from_slots(program: &Program, body: &ir::Function) -> EntitySet<ir::Value> {
    made_from(program, body, &[], |i| body.dfg.insts[i].opcode() == Opcode::StackAddr)
}
