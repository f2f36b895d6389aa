//! What is recorded, and where.
//!
//! **Question.** The reverse fragments read names of the forward pass: primal values, deltas, what
//! forward fragments hand over. How does each get into each reverse block?
//!
//! **Answer**, the cheapest first:
//! - constants are made again;
//! - what was defined in a block that runs at most once per call is *kept* in the activation frame
//!   ([`FrameHome`] says where that is), whoever reads it, and so is what a once-block reads of a
//!   loop; with little effort not if one instruction computes it from what the reverse of the block
//!   has anyway;
//! - integers that run backwards are *carried* ([`invert`]); so is what a loop reads from outside
//!   of it: one variable holds it while the pullback is in the loop, set where the pullback enters
//!   the loop from behind;
//! - what an induction variable was at the end of its loop follows from the bound that it was
//!   compared with;
//! - pure and cheap arithmetic is computed again (*rematerialised*), and memory that no later store
//!   clobbers is reloaded; so is a quotient whose reverse divides by the same number, where much
//!   less is recorded by that ([`brolga_clif::slp_divisions`]);
//! - everything else is pushed on the tape by the block whose reverse reads it, as one record per
//!   execution (Mooncake's comms stack). Which values those are is a minimum cut ([`min_cut`])
//!   between what must be recorded and what is read, by bytes; but where long chains of floats
//!   would be computed again to save a few bytes for each, what is read is recorded as it is, and
//!   so is what stands at the end of a chain that a long turn would wait for
//!   ([`is_waited_for`](brolga_rules::cost::is_waited_for)), even if all of it could be had for
//!   nothing.
//!
//! The predecessor of a loop's header is the block that enters the loop if its induction variable
//! has its first value, else the latch. The predecessor of a block behind a branch follows from the
//! branch's condition, if that is to be had for nothing, or is kept in a frame that does not get
//! longer by it. Otherwise it is in a frame slot if the block runs at most once, else it is the
//! last bytes of the predecessor's record, where the reverse block looks before the predecessor's
//! reverse pops it.
//!
//! Loops that are run again ([`crate::plan::rerun_loops`]) block by block are not planned: what
//! they read is read by the block that enters them. If they are reversed turn by turn, a turn is to
//! them what a call is to a function.
//!
//! Blocks are planned from the innermost loops outwards, since a loop asks the blocks behind it for
//! what it is to hold.
//!
//! **Invariants.** A record is pushed at the end of its block and popped at the start of the
//! reverse of that block, so on every path pops mirror pushes. A block pushes a number only if some
//! successor in a loop reads it. Every choice gives the same value, bit for bit, so no choice
//! changes a gradient; a loop that is run again adds up in another order.

pub mod liveness;
pub mod rerun_loops;
pub mod table;

mod chains;
pub(crate) mod invert;
mod min_cut;
mod planner;
pub(crate) mod predecessors;
pub mod remarks;
mod val_set;

use brolga_ir::inst::Val;
#[expect(unused_imports, reason = "named in the documentation above")]
use brolga_ir::lower::FrameHome;
use brolga_ir::map::IndexMap;
use cranelift_codegen::ir::Type;

use crate::facts::Facts;
use crate::plan::table::{Again, Plan};
use crate::translate::stmt::AdStmts;

/// Plan a function. `again` are loops that are run again ([`crate::plan::rerun_loops`]).
pub fn plan(facts: &Facts<'_>, stmts: &AdStmts, aux: &IndexMap<Val, Type>, watched: bool, again: Vec<Again>) -> Plan {
    let mut planner = planner::Planner::new(facts, stmts, aux, again);
    if watched {
        planner.flag();
    }
    planner.finish()
}
