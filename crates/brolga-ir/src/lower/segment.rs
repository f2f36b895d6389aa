//! Offsets in the segment that generated code relies on.
//!
//! **Question.** Where in a segment are the positions of the tape, the tables and the accounts that
//! generated code reads and writes?
//!
//! **Answer.** At these offsets. A workspace, which has no tables, uses some of the same places for
//! other words; [`field`] is where the positions of a channel are.
//!
//! **Invariant.** The run time tests that it agrees.
//!
//! **Cost.** None: they are immediates of loads and stores.

use super::typed::{Channel, Position};

/// Where the forward pass records next.
pub const TOP: i32 = 0;
/// End of the tape.
pub const LIMIT: i32 = 8;
/// Where the pullback reads next.
pub const CURSOR: i32 = 16;
/// Table of the deltas of writable data objects.
pub const GLOBALS: i32 = 24;
/// The captures tuple.
pub const CAPTURES: i32 = 32;
/// In a workspace ([`TapeKind::Workspace`](crate::TapeKind::Workspace)), which has no tables: not
/// zero if a run did not fit.
pub const STATUS: i32 = GLOBALS;
/// In a workspace: the end of what a forward pass has recorded; or, where a run did not fit, how
/// many bytes there were too few.
pub const RECORDED: i32 = CAPTURES;
/// The highest position of what functions of both halves have recorded and given back.
pub const PEAK: i32 = 40;
/// At how many places cotangents wait that have come in pieces.
pub const WAITING: i32 = 48;
/// Of a task that runs back: not zero if there may be pending sums that it reads.
pub const PENDING_SUMS: i32 = 56;
/// In a workspace: the first of the blocks that are freed when the run is over.
pub const BLOCKS: i32 = PENDING_SUMS;
/// Whether a number was made of what was found where an integer had been computed and stored.
pub const ASKED: i32 = 192 + 2 * 1024;
/// How many instructions a debug run has executed.
pub const EXECUTED: i32 = ASKED + 8;
/// 64 bytes that cotangents of inactive memory are added to.
pub const SINK: i32 = 64;
/// 64 bytes of zeros.
pub const ZEROS: i32 = 128;
/// In place of [`SINK`] and [`ZEROS`] where as many bytes are not enough: for a batch of
/// derivatives ([`WIDTHS`](crate::options::WIDTHS)), as many as the widest has of a vector.
pub const WIDE_SINK: i32 = 192;
/// See [`WIDE_SINK`].
pub const WIDE_ZEROS: i32 = 192 + 1024;
/// In a workspace: the root of the account of pieces of tangents.
pub const TANGENTS: i32 = 192;
/// In a workspace: nodes of records of pieces that are free, the first that was never used, and
/// the end of them.
pub const RECORDS_FREE: i32 = 200;
/// See [`RECORDS_FREE`].
pub const RECORDS: i32 = 208;
/// See [`RECORDS_FREE`].
pub const RECORDS_END: i32 = 216;
/// In a workspace: whether pieces were to be a number, and were none.
pub const RECORDS_LOST: i32 = 224;
/// In a workspace that may grow: the function that makes it longer, what that is given, and where
/// the caller's memory begins.
pub const GROW: i32 = 232;
/// See [`GROW`].
pub const GROW_CONTEXT: i32 = 240;
/// See [`GROW`].
pub const BEGIN: i32 = 248;
/// The channels of a typed tape: a top, a limit and a cursor each.
pub const CHANNELS: i32 = 192;
/// Added to a size of floats: the run time keeps account of parts of them.
pub const ACCOUNT: i64 = 0x100;
/// Added to a size of floats that are settled: an integer was moved there.
pub const MOVED: i32 = 0x400;
/// Added to a size of floats: no digits stay where they are.
pub const STRICT: i64 = 0x200;

/// Where a position in a channel is.
pub const fn field(channel: Channel, position: Position) -> i32 {
    let within = match position {
        Position::Top => TOP,
        Position::Limit => LIMIT,
        Position::Cursor => CURSOR,
    };
    match channel {
        Channel::Mixed => within,
        c => CHANNELS + 24 * (c.index() as i32 - 1) + within,
    }
}
