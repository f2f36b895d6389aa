//! Questions about the primal, answered as plain facts.
//!
//! Each analysis is a file with a pure function from a normalised function (and what is known about its callees and
//! arguments) to a table. None of them emits an instruction.
//!
//! - [`bits`]: bitwise operations that mean something for floats.
//! - [`cfg`]: predecessors, successors, which blocks run at most once per call.
//! - [`in_place`]: additions in place, which leave a cotangent where it is.
//! - [`kept`]: which memory a callee's pullback may read again.
//! - [`late`]: which releases of blocks can wait until the pullback is done.
//! - [`graph`]: dominators and cycles of numbered nodes.
//! - [`loops`]: dominators and natural loops.
//! - [`places`]: which bytes an access may touch, as far as its address tells.
//! - [`effects`]: what memory a function may write to, for callers.
//! - [`clobber`]: which loads read memory that nobody writes afterwards.
//! - [`modes`]: what a derived function receives and returns for each parameter and result.
//! - [`blocks`]: which blocks of the program's own allocator an address may be in.
//! - [`callee`]: what a call goes to.
//! - [`private`]: memory that a function makes for itself and shows to nobody.
//! - [`plain`]: which functions of the program's own allocator are called as they are.
//! - [`offsets`]: which integer parameters are places in an instance's memory.
//! - [`pointers`]: which integers are pointers, and where their shadows come from.
//! - [`mod@cell`]: places that have a name.
//! - [`contents`]: what memory behind a pointer holds: doubles, singles, pointers, integers.
//! - [`activity`]: which values carry a cotangent, of which shape; what is refused.
//! - [`reach`]: the last store to a place before a load, where that is certain.
//! - [`rewind`]: which loads a pullback that undoes every write can do again, and where.
//! - [`roots`]: whose cotangent may be infinite because of a root at zero.
//! - [`summary`]: what a callee's parameters are, for callers.
//! - [`turns`]: places that hold pointers and floats by turns, across calls.
//! - [`whole`]: which calls can be derived whole, in the reverse half.

pub mod activity;
pub mod bits;
pub mod blocks;
pub mod callee;
pub mod cell;
pub mod cfg;
pub mod clobber;
pub mod constant;
pub mod contents;
pub mod effects;
pub mod in_place;
pub mod kept;
pub mod late;
pub mod loops;
pub mod modes;
pub mod offsets;
pub mod places;
pub mod plain;
pub mod pointers;
pub mod private;
pub mod reach;
pub mod results;
pub mod rewind;
pub mod roots;
pub mod summary;
pub mod turns;
pub mod unit;
pub mod whole;

pub use activity::{Activity, CopyRole, MemRole};
pub use blocks::Blocks;
pub use callee::CalleeKind;
pub use cfg::Cfg;
pub use contents::Contents;
pub use kept::Kept;
pub use loops::{Loop, LoopId, Loops};
pub use modes::{ParamMode, ResultMode, Variant};
pub use pointers::{Delta, Pointers, RootKind};
pub use private::Private;
pub use summary::Summaries;
