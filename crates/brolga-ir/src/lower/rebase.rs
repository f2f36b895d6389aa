//! Addresses of shadows that start from where the shadow starts.
//!
//! **Problem.** The shadow of what is at `base + i` is at `base + i + delta`. The processor adds two numbers in an access for
//! nothing, but not three, so each access of a shadow has an addition of its own where the primal has none: WebAssembly's addresses are all of
//! the form `memory + i`.
//!
//! **Answer.** Where base and delta are known before the block of the access, in one block or with the help of the entry, their sum is
//! computed there, and the shadow is at `shadow + i`. What is not used any more is not compiled: Cranelift emits code for what has a use.
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
    let mut starts: HashMap<(ir::Value, ir::Value), ir::Value> = HashMap::default();
    for &shadow in shadows {
        let Some((inst, [address, delta])) = sum(func, shadow) else { continue };
        let Some((_, [x, y])) = sum(func, address) else { continue };
        let here = func.layout.inst_block(inst);
        let known = |base| together(func, base, delta).filter(|&b| Some(b) != here);
        let Some((base, rest, block)) = [(x, y), (y, x)].into_iter().find_map(|(p, q)| Some((p, q, known(p)?))) else {
            continue;
        };
        let start = starts.entry((base, delta)).or_insert_with(|| {
            let at = behind(func, block, base, delta);
            FuncCursor::new(func).at_inst(at).ins().iadd(base, delta)
        });
        let InstructionData::Binary { args, .. } = &mut func.dfg.insts[inst] else { unreachable!("a sum") };
        *args = [*start, rest];
    }
}

/// The sum that a value is.
fn sum(func: &ir::Function, v: ir::Value) -> Option<(ir::Inst, [ir::Value; 2])> {
    let inst = func.dfg.value_def(v).inst()?;
    match func.dfg.insts[inst] {
        InstructionData::Binary { opcode: Opcode::Iadd, args } => {
            Some((inst, args.map(|a| func.dfg.resolve_aliases(a))))
        }
        _ => None,
    }
}

fn home(func: &ir::Function, v: ir::Value) -> Option<ir::Block> {
    match func.dfg.value_def(v) {
        ValueDef::Param(b, _) => Some(b),
        ValueDef::Result(inst, _) => func.layout.inst_block(inst),
        ValueDef::Union(..) => None,
    }
}

/// The block in which the later of two values is defined, if that is plain: one block defines both, or the entry defines one.
fn together(func: &ir::Function, x: ir::Value, y: ir::Value) -> Option<ir::Block> {
    let (x, y) = (home(func, x)?, home(func, y)?);
    let entry = func.layout.entry_block();
    match () {
        () if x == y || Some(x) == entry => Some(y),
        () if Some(y) == entry => Some(x),
        () => None,
    }
}

/// The first instruction of a block by which both values are there.
fn behind(func: &ir::Function, block: ir::Block, x: ir::Value, y: ir::Value) -> ir::Inst {
    let last = [x, y]
        .into_iter()
        .filter_map(|v| func.dfg.value_def(v).inst())
        .filter(|&i| func.layout.inst_block(i) == Some(block))
        .max_by(|&i, &j| func.layout.pp_cmp(i, j));
    let next = match last {
        Some(inst) => func.layout.next_inst(inst),
        None => func.layout.first_inst(block),
    };
    next.expect("a block has a terminator")
}
