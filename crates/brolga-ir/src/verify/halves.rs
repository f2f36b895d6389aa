//! Halves: which instructions belong to the forward half, which to the reverse half.
//!
//! **Question.** Does the forward half only compute and record, does the reverse half only restore
//! and add to cotangents, and does control never come back from the one to the other? A loop that
//! the reverse half reruns records for its own reverse. **Answer.** A match over [`AdOp`] by the
//! role of the block; the edges. **Cost.** Linear.

use super::fault::{Faults, Rule};
use super::view::{GraphKind, View};
use crate::block::Role;
use crate::inst::{AdOp, Tape};

/// The halves that an instruction may be in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AllowedHalves {
    Both,
    Forward,
    Reverse,
    /// The forward half, and loops that the reverse half reruns.
    Recorded,
}

fn belongs(op: &AdOp) -> AllowedHalves {
    match op {
        AdOp::EnterFrame
        | AdOp::LeaveFrame
        | AdOp::NextIteration
        | AdOp::SlotDelta(_)
        | AdOp::DataDelta(_)
        | AdOp::LoadOld { .. }
        | AdOp::LoadTangent { .. }
        | AdOp::StoreTangent { .. }
        | AdOp::Piece { .. }
        | AdOp::Moved(..)
        | AdOp::Series(..)
        | AdOp::WatchFrom(_)
        | AdOp::WatchJoin(_)
        | AdOp::Watch { .. }
        | AdOp::WatchFlag(_)
        | AdOp::Watched => AllowedHalves::Forward,
        AdOp::Keep(..) | AdOp::KeepBlock(..) | AdOp::Push(..) => AllowedHalves::Recorded,
        AdOp::OpenFrame
        | AdOp::CloseFrame
        | AdOp::LoadTaskDelta(_)
        | AdOp::StoreOld { .. }
        | AdOp::Hold(..)
        | AdOp::Held(_)
        | AdOp::Restore(_)
        | AdOp::RestoreBlock(_)
        | AdOp::PeekBlock
        | AdOp::Pop(..)
        | AdOp::TakeCt(_)
        | AdOp::AddCt(..)
        | AdOp::ZeroCt(_)
        | AdOp::AddMem { .. }
        | AdOp::TakeMem { .. }
        | AdOp::Poison { .. }
        | AdOp::Call { tape: Tape::Above, .. } => AllowedHalves::Reverse,
        AdOp::Primal(_)
        | AdOp::Arith(..)
        | AdOp::SlotAddr(..)
        | AdOp::LoadDelta { .. }
        | AdOp::StoreDelta { .. }
        | AdOp::PeekMem { .. }
        | AdOp::ZeroMem { .. }
        | AdOp::Call { .. }
        | AdOp::Lookup { .. }
        | AdOp::TrapIf(..)
        | AdOp::TrapIfBytes(_) => AllowedHalves::Both,
    }
}

/// Whether each half has its own instructions, and the forward half comes first.
pub fn check(view: &View<'_>, kind: GraphKind, faults: &mut Faults) {
    for (b, block) in view.reached() {
        let forward = block.role.is_forward();
        let expected = match kind {
            GraphKind::Lifted | GraphKind::Forward | GraphKind::Tangent => forward,
            GraphKind::Pullback | GraphKind::Clearing => !forward,
            GraphKind::Combined => true,
        };
        if !expected {
            faults.add(Rule::Halves, block.id, None, format!("a block of role {:?} in a {kind:?} graph", block.role));
        }
        let reruns = matches!(block.role, Role::Rerun(..));
        for (&id, inst) in block.insts.iter() {
            let fits = match belongs(&inst.op) {
                AllowedHalves::Both => true,
                AllowedHalves::Forward => forward,
                AllowedHalves::Reverse => !forward,
                AllowedHalves::Recorded => forward || reruns,
            };
            if !fits {
                let half = if forward { "forward" } else { "reverse" };
                faults.add(Rule::Halves, block.id, Some(id), format!("{:?} in the {half} half", inst.op));
            }
        }
        for to in view.edges.of(b).filter(|&to| !forward && view.blocks[to].role.is_forward()) {
            let what = format!("the reverse half goes on to {}, which is of the forward half", view.blocks[to].id);
            faults.add(Rule::Halves, block.id, None, what);
        }
    }
}
