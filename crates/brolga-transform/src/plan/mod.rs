//! Record or recompute: what the forward half records for the reverse half, and where.
//!
//! **Question.** The reverse fragments read names of the forward pass: primal values, deltas, what
//! forward fragments hand over. How does each get into each reverse block?
//!
//! **Answer.** By the first way of a list that has it ([`table::Way::LIST`]; [`ways`] says when a
//! way does): constants, the activation frame ([`FrameHome`] says where that is), variables that
//! are inverted ([`invert`]) or held in a loop, final values of loops, loads and arithmetic that
//! are done again (*rematerialised*). Everything else is pushed on the tape by the block whose
//! reverse reads it, as one record per execution (Mooncake's comms stack). Which values those are
//! is a minimum cut ([`min_cut`]) between what must be recorded and what is read, by bytes; but
//! where long chains of floats would be computed again to save a few bytes for each, what is read
//! is recorded as it is, and so is what stands at the end of a chain that a long iteration would
//! wait for ([`recompute_cost`], [`is_waited_for`](brolga_rules::cost::is_waited_for)), even if no
//! record is needed for any of it.
//!
//! The predecessor of a loop's header is the block that enters the loop if its induction variable
//! has its first value, else the latch. The predecessor of a block after a branch follows from the
//! branch's condition, if that is to be had for nothing, or is kept in a frame that does not get
//! longer by it. Otherwise it is in a frame slot if the block runs at most once, else it is the
//! last bytes of the predecessor's record, where the reverse block looks before the predecessor's
//! reverse pops it.
//!
//! Loops that are run again ([`crate::plan::rerun_loops`]) block by block are not planned: what
//! they read is read by the block that enters them. If they are reversed iteration by iteration, an
//! iteration is to them what a call is to a function.
//!
//! Blocks are planned from the innermost loops outwards, since a loop asks the blocks after it for
//! what it is to hold.
//!
//! **Invariants.** A record is pushed at the end of its block and popped at the start of the
//! reverse of that block, so on every path pops mirror pushes. A block pushes a number only if some
//! successor in a loop reads it. Every choice gives the same value, bit for bit, so no choice
//! changes a gradient; a loop that is run again adds up in another order.
//!
//! **Cost.** A block is planned again whenever its needs have grown ([`planner`]), and each time a
//! minimum cut is looked for in what that block needs ([`min_cut`]).

pub mod liveness;
pub mod rerun_loops;
pub mod table;

pub(crate) mod invert;
mod min_cut;
mod offers;
mod planner;
pub(crate) mod predecessors;
mod recompute_cost;
pub mod remarks;
mod val_set;
mod ways;

use brolga_ir::inst::Val;
#[expect(unused_imports, reason = "named in the documentation above")]
use brolga_ir::lower::FrameHome;
use brolga_ir::map::IndexMap;
use cranelift_codegen::ir::Type;

use crate::facts::Facts;
use crate::plan::table::{Plan, Rerun};
use crate::translate::stmt::AdStmts;

/// Plan a function. `rerun` are loops that are run again ([`crate::plan::rerun_loops`]).
pub fn plan(facts: &Facts<'_>, stmts: &AdStmts, aux: &IndexMap<Val, Type>, watched: bool, reruns: Vec<Rerun>) -> Plan {
    let mut planner = planner::Planner::new(facts, stmts, aux, reruns);
    if watched {
        planner.flag();
    }
    planner.finish()
}
