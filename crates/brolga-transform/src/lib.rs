//! The pipeline of Brolga: from CLIF to a forward pass and a pullback.
//!
//! ```text
//! inline       calls of short functions replaced by what they call
//! normalise    the primal in the form that the rest relies on
//! reread       bits of floats that are cut in pieces come from where the float does
//! exponents    an exponent that is put in the place of another is a number added
//! partners     a sine that is multiplied has its cosine beside it
//! canonical    loops in a form that can be run backwards by counting
//! ahead        what a loop has loaded a turn ahead can be loaded where it was
//! facts        every analysis, run in order
//! affine       addresses as sums of products
//! overwrite    shadows that are stored, not added to
//! stmt, rules  each statement becomes a forward fragment and a reverse fragment
//! liveness     where cotangents mean something
//! again        loops that the reverse half runs forwards
//! plan         what is recorded, and where: frame or stack
//! forward      the primal plus forward fragments plus records
//! pullback     reverse fragments, predecessor switches, edges
//! combined     forward blocks and reverse blocks in one function
//! prune        what a derived graph computes for nobody is removed
//! room         loops ask once whether there is room on the tape
//! lanes        loops run several turns at a time
//! slp          what is stored to neighbours is computed in lanes
//! quotients    two divisions by one number are one of two lanes
//! shape        how emitted loops are laid out:
//! rotate       loops that ask at their end
//! hoist        what loops of short functions do not change is computed in front of them
//! orient       branches at the edge of other loops, turned for Cranelift
//! derive       all of it, for a function and everything that it calls (worklist: by name)
//! served       a root that does what one of its callees does calls that
//! segments     what nobody asks for is not passed on
//! tail         a call of itself that a function ends with is a jump
//! door         what Rust calls takes its arguments from memory
//! tidy         and is rid of what Cranelift need not look at
//! fallback     the same with less inlining, where that is in the way
//! ```
//!
//! The only place that writes derived CLIF is `brolga_ir::lower`; this crate makes the graphs that it lowers. `room`, `lanes`, `slp`, `hoist`, `orient`, `tail` and `door`
//! change what was lowered; `served` makes a function that only calls.

mod abi;
pub mod affine;
pub mod again;
pub mod ahead;
pub mod ascending;
pub mod asked;
mod block_args;
mod by_name;
pub mod canonical;
pub mod combined;
pub mod common;
pub mod derive;
pub mod door;
mod exponents;
pub mod facts;
pub mod fallback;
pub mod finite;
pub mod forward;
pub mod hoist;
pub mod inline;
pub mod lanes;
pub mod liveness;
pub mod loops;
pub mod normalise;
mod once;
pub mod orient;
pub mod overwrite;
pub mod own;
mod partners;
pub mod parts;
pub mod plan;
pub mod preaccumulate;
mod promote;
pub mod prune;
pub mod pullback;
pub mod quotients;
mod reached;
pub mod reread;
pub mod room;
pub mod rotate;
pub mod rules;
mod segments;
mod served;
pub mod shape;
pub mod slp;
pub mod stmt;
pub mod summed;
mod tail;
pub mod tidy;
pub mod upper_halves;
mod wide;
mod worklist;

pub use abi::Abi;
pub use derive::{
    Addressable, Derivation, DerivedPair, DerivedWhole, Emitted, Stages, derive, derive_unverified, derive_with,
};
