//! Two levels: every P-th state in a file, and revolve in memory in between.
//!
//! **Question.** Memory is short, and files are not. What goes where?
//!
//! **Answer.** What [`crate::periodic`] keeps evenly goes to files, and the slots in between are in
//! memory. Each file is written once. It is read whenever its stretch begins anew, which are at
//! most as many times as a block of it runs.
//!
//! **Cost.** The same counts as [`crate::periodic`], with as many files as stretches.
//!
//! **Source.** G. Aupy, J. Herrmann, P. Hovland, Y. Robert: Optimal multistage algorithm for
//! adjoint computation. SIAM Journal on Scientific Computing 38 (2016), for how near to the optimum
//! periods come.

pub use crate::periodic::untaped;
