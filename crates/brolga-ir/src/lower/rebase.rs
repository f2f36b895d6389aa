//! Addresses of shadows that start from where the shadow starts.
//!
//! **Problem.** The shadow of what is at `base + i` is at `base + i + delta`. The processor adds two numbers in an access for
//! nothing, but not three, so each access of a shadow has an addition of its own where the primal has none: WebAssembly's addresses are all of
//! the form `memory + i`.
//!
//! **Answer.** Where base and delta are both known when the function begins, their sum is computed there, once, and the shadow is at
//! `shadow + i`. What is not used any more is not compiled: Cranelift emits code for what has a use.
//!
//! **Why here.** In the graph an access names address and delta, and has to: all passes compare those. And while blocks are
//! being lowered, a variable in a loop is still a parameter of the loop's header, whatever it turns out to be.
//!
//! **Invariant.** Every address is the number that it was: addition of integers wraps.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, ValueDef};

use crate::map::HashMap;

/// Rewrite these sums of an address and a delta.
pub fn rebase(func: &mut ir::Function, shadows: &[ir::Value]) {
    let entry = func.layout.entry_block().expect("a function has a body");
    let end = func.layout.last_inst(entry).expect("a block has a terminator");
    let mut starts: HashMap<(ir::Value, ir::Value), ir::Value> = HashMap::default();
    for &shadow in shadows {
        let Some((inst, [address, delta])) = sum(func, shadow) else { continue };
        let Some((_, [x, y])) = sum(func, address) else { continue };
        let (base, rest) = if is_in(func, x, entry) { (x, y) } else { (y, x) };
        let fixed = is_in(func, base, entry) && is_in(func, delta, entry);
        if !fixed || is_in(func, rest, entry) || func.layout.inst_block(inst) == Some(entry) {
            continue;
        }
        let start = *starts
            .entry((base, delta))
            .or_insert_with(|| FuncCursor::new(func).at_inst(end).ins().iadd(base, delta));
        let InstructionData::Binary { args, .. } = &mut func.dfg.insts[inst] else { unreachable!("a sum") };
        *args = [start, rest];
    }
}

/// The sum that a value is.
fn sum(func: &ir::Function, v: ir::Value) -> Option<(ir::Inst, [ir::Value; 2])> {
    let inst = func.dfg.value_def(v).inst()?;
    match func.dfg.insts[inst] {
        InstructionData::Binary { opcode: Opcode::Iadd, args } => Some((inst, args.map(|a| func.dfg.resolve_aliases(a)))),
        _ => None,
    }
}

fn is_in(func: &ir::Function, v: ir::Value, block: ir::Block) -> bool {
    match func.dfg.value_def(v) {
        ValueDef::Param(b, _) => b == block,
        ValueDef::Result(inst, _) => func.layout.inst_block(inst) == Some(block),
        ValueDef::Union(..) => false,
    }
}
