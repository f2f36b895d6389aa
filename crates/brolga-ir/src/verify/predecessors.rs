//! Reverse control flow: a block's reverse goes to the reverse of the predecessor that entered the
//! block.
//!
//! **Question.** Where a reverse goes several ways, is each of them the reverse of an edge of the
//! primal, are all predecessors there, and does a number lead to the block that has left it?
//! **Answer.** From the target of each way to the predecessor that it stands for; of that, what its
//! forward version leaves: a number in the frame ([`AdOp::KeepBlock`]), or with its record, which
//! is on top of the tape when the reverse looks ([`AdOp::PeekBlock`]). **Cost.** Linear in edges,
//! but for a sorted list of a block's predecessors.

use cranelift_codegen::ir;
use cranelift_entity::EntityRef;

use super::fault::{Faults, Rule};
use super::mirror::Mirror;
use crate::block::{CfgBlock, Role, Term};
use crate::inst::{AdOp, FrameSlot, Tape};

const RULE: Rule = Rule::Predecessors;

/// Where the number of a switch comes from.
#[derive(Clone, Copy)]
enum Number {
    Frame(FrameSlot),
    Tape,
}

/// Whether all ways back are those of the primal.
pub fn check(mirror: &Mirror<'_, '_>, faults: &mut Faults) {
    for (_, block) in mirror.reversed() {
        match (block.role, &block.term) {
            (Role::Reverse(s), Term::Switch(..)) => {
                numbered(mirror, block, Some(s), faults);
                covered(mirror, block, s, faults);
            }
            (Role::Reverse(s), Term::If(..) | Term::Table(..)) => covered(mirror, block, s, faults),
            (Role::Entry, Term::Switch(..)) => numbered(mirror, block, None, faults),
            _ => {}
        }
        peeks(block, faults);
    }
}

/// The number on top of the tape is looked at when the block's own records are gone.
fn peeks(block: &CfgBlock, faults: &mut Faults) {
    let mut peeked = None;
    for (&id, inst) in block.insts.iter() {
        match inst.op {
            AdOp::PeekBlock => peeked = Some(id),
            AdOp::Pop(..) | AdOp::Call { tape: Tape::Moves, .. } if peeked.is_some() => {
                faults.add(RULE, block.id, peeked, "it looks at the tape before the block's own record is gone");
            }
            _ => {}
        }
    }
}

/// Each way leads along an edge of the primal, and each predecessor is on one.
fn covered(mirror: &Mirror<'_, '_>, block: &CfgBlock, s: ir::Block, faults: &mut Faults) {
    let mut ways: Vec<ir::Block> = Vec::new();
    for to in block.term.successors() {
        let found = mirror.ways(s, to);
        if found.is_empty() {
            faults.add(RULE, block.id, None, format!("{to}, where it goes, reverses no edge into {s}"));
        }
        ways.extend(found);
    }
    ways.sort_unstable();
    for p in mirror.primal.preds.of(s.index()).map(|p| ir::Block::from_u32(p as u32)) {
        if ways.binary_search(&p).is_err() {
            faults.add(RULE, block.id, None, format!("it has no way back to {p}, which leads to {s}"));
        }
    }
}

/// The reverse of `s`, or the entry of a pullback, asks for a number that its predecessors leave.
fn numbered(mirror: &Mirror<'_, '_>, block: &CfgBlock, s: Option<ir::Block>, faults: &mut Faults) {
    let Term::Switch(on, cases) = &block.term else { return };
    let asks = block.insts.values().rev().find(|i| i.defs.iter().any(|d| d.0 == *on));
    let number = match asks.map(|i| &i.op) {
        Some(AdOp::RestoreBlock(slot)) => Number::Frame(*slot),
        Some(AdOp::PeekBlock) => Number::Tape,
        _ => return faults.add(RULE, block.id, None, format!("{on}, which it asks, is no number of a block")),
    };
    for &(n, to) in cases {
        let from = match (s, mirror.reverse.graph.blocks[&to].role) {
            (Some(s), _) => mirror.ways(s, to),
            (None, Role::Reverse(p)) => vec![p],
            (None, _) => vec![],
        };
        let leaves = |p: &ir::Block| {
            let inside = s.is_some_and(|s| mirror.rerun[s].is_some() && mirror.rerun[s] == mirror.rerun[*p]);
            let recorder = if inside { mirror.rerun_block[*p] } else { mirror.forward_of[*p] };
            recorder.is_some_and(|b| leaves(b, number, n))
        };
        if !from.iter().any(leaves) {
            let place = if matches!(number, Number::Tape) { "on top of the tape" } else { "in the frame" };
            faults.add(RULE, block.id, None, format!("no block that {to} goes back to leaves the number {n} {place}"));
        }
    }
}

/// Whether a block leaves a number where it is looked for.
fn leaves(block: &CfgBlock, number: Number, n: u32) -> bool {
    match number {
        Number::Frame(slot) => {
            let mut ids = block.insts.values().filter_map(|i| match i.op {
                AdOp::KeepBlock(of, id) if of == slot => Some(id),
                _ => None,
            });
            ids.next_back() == Some(n)
        }
        Number::Tape => {
            let touches = block.insts.values().rev().find_map(|i| match &i.op {
                AdOp::Push(_, id) => Some(*id),
                AdOp::Call { tape: Tape::Moves, .. } => Some(None),
                _ => None,
            });
            touches.flatten() == Some(n)
        }
    }
}
