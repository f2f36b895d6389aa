//! Places of singles: stores of constants there are stored over no part of a double.
//!
//! **Question.** In memory with floats of both sizes a number is stored over four bytes. Is it
//! stored over half a double, whose other half then stands for nothing?
//!
//! **Answer.** Not where it is stored as a single, and this function loads or stores a single with
//! a derivative in the very cell, and nothing longer or shorter there: `float sum = 0`, beside a
//! count, in a frame.
//!
//! **Cost.** One walk over the accesses of the function, on the first question.
//!
//! **Trusts** that a function that reads a single reads what was stored as one
//! (docs/KNOWN-LIMITS.md).

use std::collections::BTreeSet;

use brolga_analysis::query::cell::{Base, Cell, cell_of};
use brolga_analysis::query::{access_address, access_bytes, access_offset};
use brolga_ir::map::{HashMap, HashSet};
use cranelift_codegen::ir::{self, Opcode, types};

/// Bytes of one.
const SINGLE: u32 = 4;

/// Bytes of the longest access.
const MOST_BYTES: i64 = 16;

/// Places that a function accesses as singles.
#[derive(Debug, Default)]
pub(super) struct SingleCells(HashSet<Cell>);

impl SingleCells {
    /// Those of a function.
    pub(super) fn of(func: &ir::Function, is_active: impl Fn(ir::Value) -> bool) -> Self {
        let mut singles: HashSet<Cell> = HashSet::default();
        let mut accesses: HashMap<Base, BTreeSet<(i64, i64)>> = HashMap::default();
        for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
            let op = func.dfg.insts[inst].opcode();
            let (true, Some(addr)) = (op.can_load() || op.can_store(), access_address(func, inst)) else { continue };
            let (base, at) = cell_of(func, addr, access_offset(func, inst));
            accesses.entry(base).or_default().insert((at, at.saturating_add(access_bytes(func, inst).into())));
            let value = match op {
                Opcode::Load => func.dfg.first_result(inst),
                Opcode::Store => func.dfg.inst_args(inst)[0],
                _ => continue,
            };
            if func.dfg.value_type(value) == types::F32 && is_active(value) {
                singles.insert((base, at));
            }
        }
        singles.retain(|&(base, at)| {
            let end = at.saturating_add(SINGLE.into());
            let near = accesses[&base].range((at.saturating_sub(MOST_BYTES), 0)..(end, 0));
            near.into_iter().all(|&(from, to)| to <= at || (from, to) == (at, end))
        });
        Self(singles)
    }

    /// Whether a store is to one of them.
    pub(super) fn has(&self, func: &ir::Function, store: ir::Inst) -> bool {
        let Some(addr) = access_address(func, store) else { return false };
        let value = func.dfg.inst_args(store).first().filter(|_| func.dfg.insts[store].opcode() == Opcode::Store);
        value.is_some_and(|&v| func.dfg.value_type(v) == types::F32)
            && self.0.contains(&cell_of(func, addr, access_offset(func, store)))
    }
}
