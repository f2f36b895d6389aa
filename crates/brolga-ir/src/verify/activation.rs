//! Activation: one frame is opened and closed on every path.
//!
//! **Question.** On every path, is the frame opened once, used while it is open, and closed once
//! before the function returns? **Answer.** A state for each block, which all edges into it agree
//! on:
//!
//! ```text
//! forward pass   outside ─EnterFrame─► recording ─LeaveFrame─► left ─return
//! pullback       outside ─OpenFrame─► reversing ─CloseFrame─► closed ─return
//! both in one    outside ─EnterFrame─► recording ─Iteration─► reversing ─CloseFrame─► closed ─return
//! tangent        outside ─EnterFrame─► recording ─return
//! ```
//!
//! The results that a combined function has kept are restored after the end of its frame, which is
//! on no tape. **Cost.** Linear: one walk.

use super::fault::{Faults, Rule};
use super::view::{GraphKind, View};
use crate::block::Term;
use crate::inst::{AdOp, Tape};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Outside,
    Recording,
    Left,
    Reversing,
    Closed,
}

/// The state after an instruction; none if it must not be where it is.
fn state_after(state: State, op: &AdOp, kind: GraphKind) -> Option<State> {
    let combined = kind == GraphKind::Combined;
    let (ok, next) = match op {
        AdOp::EnterFrame => (state == State::Outside && kind != GraphKind::Pullback, State::Recording),
        AdOp::LeaveFrame => (state == State::Recording && kind == GraphKind::Forward, State::Left),
        AdOp::OpenFrame => (state == State::Outside && kind == GraphKind::Pullback, State::Reversing),
        AdOp::NextIteration => (state == State::Recording && combined, State::Reversing),
        AdOp::CloseFrame => (state == State::Reversing, State::Closed),
        AdOp::Restore(_) => (state == State::Reversing || combined && state == State::Closed, state),
        AdOp::RestoreBlock(_) | AdOp::PeekBlock | AdOp::Pop(..) => (state == State::Reversing, state),
        AdOp::Keep(..) | AdOp::KeepBlock(..) | AdOp::Push(..) | AdOp::Call { tape: Tape::Moves, .. } => {
            (matches!(state, State::Recording | State::Reversing), state)
        }
        _ => (true, state),
    };
    ok.then_some(next)
}

/// Whether one frame is opened and closed on every path.
pub fn check(view: &View<'_>, kind: GraphKind, faults: &mut Faults) {
    let end = match kind {
        GraphKind::Lifted => State::Outside,
        GraphKind::Tangent => State::Recording,
        GraphKind::Forward => State::Left,
        GraphKind::Pullback | GraphKind::Combined => State::Closed,
        // What clears is part of another function.
        GraphKind::Clearing => return,
    };
    let mut states: Vec<Option<State>> = vec![None; view.blocks.len()];
    states[0] = Some(State::Outside);
    let mut work = vec![(0, State::Outside)];
    while let Some((b, mut state)) = work.pop() {
        let block = view.blocks[b];
        for (&id, inst) in block.insts.iter() {
            match state_after(state, &inst.op, kind) {
                Some(next) => state = next,
                None => {
                    let op = format!("{:?}", inst.op);
                    let op = op.split(['(', ' ']).next().unwrap_or_default();
                    return faults.add(
                        Rule::OneFrame,
                        block.id,
                        Some(id),
                        format!("{op} where the frame is {state:?}"),
                    );
                }
            }
        }
        if b == 0 && state == State::Outside && end != State::Outside {
            return faults.add(Rule::OneFrame, block.id, None, "the first block opens no frame");
        }
        if matches!(block.term, Term::Return(_)) && state != end {
            let what = format!("the function returns where the frame is {state:?}, not {end:?}");
            return faults.add(Rule::OneFrame, block.id, None, what);
        }
        for to in view.edges.of(b) {
            match states[to] {
                None => {
                    states[to] = Some(state);
                    work.push((to, state));
                }
                Some(other) if other != state => {
                    let what = format!("the frame is {state:?} on the way from {}, and {other:?} else", block.id);
                    return faults.add(Rule::OneFrame, view.blocks[to].id, None, what);
                }
                Some(_) => {}
            }
        }
    }
}
