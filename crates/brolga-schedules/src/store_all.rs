//! Store all: one tape of the whole loop.
//!
//! **Question.** What if the tape of all steps fits?
//!
//! **Answer.** All steps are one block, which is taped as the loop runs. A pullback can be called
//! again, as the tape is still there. With joint steps the initial state is kept, and the reverse
//! half runs all steps once more.
//!
//! **Cost.** `n` steps on the tape; no step runs twice, or with joint steps each does.
//!
//! **When.** Wherever it fits. The number of steps need not be known.
