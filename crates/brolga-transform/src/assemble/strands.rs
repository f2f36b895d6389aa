//! Pending sums of strands: which shadows the pullback of a task adds to.
//!
//! **Problem.** Pullbacks of tasks that run at the same time add to shadows that they share. Atomic
//! additions are slow, and give other bits in another order.
//!
//! **Answer.** Privatisation. Each strand has memory of its own in place of shadows that it does
//! not own, full of zeros, which is added up when the fork is over. It is as far from the primal as
//! another delta says, so code that adds stays as it is: where the forward pass records a delta, it
//! records that one.
//!
//! ```text
//!   v7' = load_delta v3+8            ─►   v7' = load_delta v3+8
//!   push (v7')                            d1 = call %brolga_pending(seg, v7, v7')
//!                                         push (v7')          the record has d1
//! ```
//!
//! What reads cotangents gathers first what is pending elsewhere (`brolga_ir::lower`, `settle`).
//!
//! **Before and after.** The forward pass has its own names, and its effects; the pullback finds
//! other numbers in its records.
//!
//! **Cost.** A call for each delta that is recorded.
//!
//! **Source.** T. Smeding, M. Vákár: Parallel dual-numbers reverse AD. Journal of Functional
//! Programming (2025).

use brolga_analysis::RootKind;
use brolga_ir::block::{CfgBlocks, Ids};
use brolga_ir::inst::{AdInst, AdOp, Arith, Callee, Tape, Val};
use cranelift_codegen::ir::{self, types::I64};

use crate::facts::Facts;
use crate::translate::convert::helper_call;

/// The helper that tells how far pending sums are.
const PENDING: &str = "brolga_pending";

/// Deltas that an instruction records, but those of the function's own stack slots, which no other
/// strand adds to.
fn recorded<'i>(facts: &'i Facts<'_>, inst: &'i AdInst) -> impl Iterator<Item = (ir::Value, Val)> + 'i {
    let names: &[Val] = match &inst.op {
        AdOp::Push(names, _) => names,
        AdOp::Keep(_, name) => std::slice::from_ref(name),
        _ => &[],
    };
    names.iter().filter_map(|&name| match name {
        Val::Delta(r) if !matches!(facts.pointers.roots.get(&r), Some(RootKind::Slot(_))) => Some((r, name)),
        _ => None,
    })
}

/// Ask for the pending sums of all deltas that a forward pass records.
pub(super) fn ask(graph: &mut CfgBlocks, facts: &Facts<'_>, ids: &mut Ids) {
    for block in graph.blocks.values_mut() {
        if !block.insts.values().any(|i| recorded(facts, i).next().is_some()) {
            continue;
        }
        for (id, inst) in std::mem::take(&mut block.insts) {
            for (root, delta) in recorded(facts, &inst) {
                let args = [None, Some(Val::Primal(root)), Some(delta)];
                let op = helper_call(PENDING, &args, &[I64; 3], [I64].into_iter(), Tape::Aside);
                block.insts.insert(ids.inst(), AdInst { defs: [(Val::D(ids.dv()), I64)].into(), op, at: inst.at });
            }
            block.insts.insert(id, inst);
        }
    }
}

/// Forget those that are not recorded after all.
pub(super) fn forget_unused(graph: &mut CfgBlocks, facts: &Facts<'_>) {
    for block in graph.blocks.values_mut() {
        let kept: Vec<Val> = block.insts.values().flat_map(|i| recorded(facts, i)).map(|(_, delta)| delta).collect();
        block.insts.retain(|_, inst| match &inst.op {
            AdOp::Call { callee: Callee::Symbol(s), args, .. } if &**s == PENDING => {
                args[2].is_some_and(|delta| kept.contains(&delta))
            }
            _ => true,
        });
    }
}

/// Sizes of the floats whose cotangents a pullback adds to shadows, in bytes. Pending sums have no
/// types, so a program may have floats of one size there.
pub(crate) fn float_sizes(pullback: &CfgBlocks) -> FloatSizes {
    let mut found = FloatSizes::default();
    for inst in pullback.blocks.values().flat_map(|b| b.insts.values()) {
        match &inst.op {
            AdOp::AddMem { shape, .. } | AdOp::TakeMem { shape, .. } | AdOp::PeekMem { shape, .. } => {
                found.note(shape.lane_bytes());
            }
            // The last argument is the size of an element, or zero.
            AdOp::Call { callee: Callee::Symbol(s), args, .. }
                if matches!(&**s, "brolga_memmove_rev" | "brolga_move_rev") =>
            {
                let size = args.last().copied().flatten();
                let is_it = |i: &&AdInst| i.defs.first().map(|d| d.0) == size;
                let def = pullback.blocks.values().flat_map(|b| b.insts.values()).find(is_it);
                found.note(match def.map(|i| &i.op) {
                    Some(AdOp::Arith(Arith::Iconst(bytes), ..)) => *bytes as u32,
                    _ => 0,
                });
            }
            _ => {}
        }
    }
    found
}

/// Sizes of floats.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FloatSizes {
    singles: bool,
    doubles: bool,
    others: bool,
}

impl FloatSizes {
    fn note(&mut self, bytes: u32) {
        match bytes {
            4 => self.singles = true,
            8 => self.doubles = true,
            _ => self.others = true,
        }
    }

    /// Those of both.
    pub fn join(&mut self, more: Self) {
        self.singles |= more.singles;
        self.doubles |= more.doubles;
        self.others |= more.others;
    }

    /// The size that all have.
    pub fn only(self) -> Option<u8> {
        match self {
            Self { others: true, .. } | Self { singles: true, doubles: true, .. } => None,
            Self { singles: true, .. } => Some(4),
            _ => Some(8),
        }
    }
}
