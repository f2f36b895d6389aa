//! Capture analysis: whether the address of memory that a function makes can be found in memory.
//!
//! **Question.** A function passes the address of a stack slot on, to have results put there. May
//! what another instruction loads be that address?
//!
//! **Answer.** Only if the address is *captured*: something made from it is stored as a value, is
//! returned, or is passed to code that may do so. Functions of the program are followed, parameter
//! by parameter; what the known memory functions return is made from what they are given; any other
//! call captures all of its arguments.
//!
//! ```text
//!   v1 = stack_addr.i64 ss0
//!   call %fill(v1)             %fill stores floats to its argument: not captured
//!   store v1, v2+8             captured
//! ```
//!
//! [Escape analysis](crate::memory::escape) asks for more: that no other code reads what is there.
//!
//! **Cost.** For each function and parameter that is followed, rounds over the function until
//! nothing is added. It is asked of functions that have slots, and are told of memory that stays.
//!
//! **Source.** LLVM's `nocapture`.

use brolga_ir::{FuncKey, Program};
use brolga_rules::{MathKind, MemFn};
use cranelift_codegen::ir::{self, InstructionData};
use cranelift_entity::EntitySet;

use crate::query::callee::CalleeKind;
use crate::query::stored_operand;

/// Whether an address that some instructions of a function give may be captured.
pub fn captures(program: &Program, func: &ir::Function, gives: impl Fn(ir::Inst) -> bool) -> bool {
    let Some(mut work) = passed_on(program, func, &made_from(program, func, &[], gives)) else { return true };
    let mut at = 0;
    while let Some(&(k, param)) = work.get(at) {
        at += 1;
        let Some(body) = program.funcs[k].body.as_ref() else { return true };
        let entry = body.layout.entry_block().expect("a body has a block");
        let made = made_from(program, body, &body.dfg.block_params(entry)[param..=param], |_| false);
        let Some(passed) = passed_on(program, body, &made) else { return true };
        for next in passed {
            if !work.contains(&next) {
                work.push(next);
            }
        }
    }
    false
}

/// Parameters of functions of the program that are given one of these values; `None` if one is
/// captured here.
fn passed_on(program: &Program, func: &ir::Function, made: &EntitySet<ir::Value>) -> Option<Vec<(FuncKey, usize)>> {
    let mut found = Vec::new();
    for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
        let op = func.dfg.insts[inst].opcode();
        let is_made = |v: ir::Value| made.contains(func.dfg.resolve_aliases(v));
        let args = func.dfg.inst_args(inst);
        let mut given = (0..args.len()).filter(|&i| is_made(args[i])).peekable();
        if given.peek().is_none() {
            continue;
        }
        if op.is_call() {
            match (CalleeKind::of(program, func, inst), &func.dfg.insts[inst]) {
                (Some(CalleeKind::Derived(k)), InstructionData::Call { .. }) => found.extend(given.map(|i| (k, i))),
                (Some(CalleeKind::Known(rule)), _) if matches!(rule.kind, MathKind::Memory(_)) => {}
                _ => return None,
            }
        } else if stored_operand(func, inst).is_some_and(is_made) || op.is_return() || op == ir::Opcode::StackSwitch {
            return None;
        }
    }
    Some(found)
}

/// Values that are made from these, and from what some instructions give, other than by loads and
/// by calls of anything but the memory functions that return what they are given.
pub fn made_from(
    program: &Program,
    body: &ir::Function,
    these: &[ir::Value],
    gives: impl Fn(ir::Inst) -> bool,
) -> EntitySet<ir::Value> {
    let mut made_from = EntitySet::new();
    made_from.extend(these.iter().copied());
    let holds = |set: &EntitySet<ir::Value>, v: ir::Value| set.contains(body.dfg.resolve_aliases(v));
    loop {
        let mut grows = false;
        for i in body.layout.blocks().flat_map(|b| body.layout.block_insts(b)) {
            let made =
                gives(i) || passes_on(program, body, i) && body.dfg.inst_args(i).iter().any(|&v| holds(&made_from, v));
            if made {
                for &v in body.dfg.inst_results(i) {
                    grows |= made_from.insert(v);
                }
            }
        }
        for b in body.layout.blocks() {
            let Some(last) = body.layout.last_inst(b) else { continue };
            for call in body.dfg.insts[last].branch_destination(&body.dfg.jump_tables, &body.dfg.exception_tables) {
                let to = call.block(&body.dfg.value_lists);
                let params = body.dfg.block_params(to);
                for (&p, arg) in params.iter().zip(call.args(&body.dfg.value_lists)) {
                    if arg.as_value().is_some_and(|v| holds(&made_from, v)) {
                        grows |= made_from.insert(p);
                    }
                }
            }
        }
        if !grows {
            return made_from;
        }
    }
}

/// Whether the results of an instruction may be made from its operands.
fn passes_on(program: &Program, body: &ir::Function, inst: ir::Inst) -> bool {
    let op = body.dfg.insts[inst].opcode();
    if !op.is_call() {
        return !op.can_load();
    }
    match CalleeKind::of(program, body, inst) {
        Some(CalleeKind::Known(rule)) => {
            matches!(rule.kind, MathKind::Memory(MemFn::Memcpy | MemFn::Memmove | MemFn::Memset | MemFn::Realloc))
        }
        _ => false,
    }
}
