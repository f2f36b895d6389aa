//! Recompute all: no state is kept but the initial one.
//!
//! **Question.** What is the least memory that a loop can be reversed with?
//!
//! **Answer.** One state and the tape of one block. For each block the loop runs again from its
//! beginning: revolve with one slot.
//!
//! **Cost.** `l (l − 1) / 2` blocks without a tape.
//!
//! **When.** For a few blocks, or to have something to compare with.
