//! Passes over Cranelift IR.
//!
//! ```text
//! vectorise        several iterations of a loop at a time, in the lanes of vectors
//! slp_divisions    two divisions by one number as one
//! inverse          the function that undoes a function on memory
//! loop_rotate      loops test at their ends
//! licm_gvn         loop-invariant code motion and value numbering, in short functions
//! loop_layout      the two above, in order
//! simplify_cfg     blocks are joined, what has no use goes
//! verified         Cranelift's verifier between passes
//! linear, pure     what passes ask: sums of multiples of values; which instructions may move
//! shape, map       flow graph, dominators and loops of a function; tables of entities
//! ```
//!
//! **Question.** Cranelift compiles fast and leaves loops as they are. Which of what it does not do
//! pays for code that is made by a tool, with many small loops over arrays? **Answer.** The passes
//! above. Each takes a function and changes it; each can be used alone.
//!
//! A pass knows nothing of derivatives. What the CLIF of a function does not tell, the caller says:
//! which loops may add up in another order, which accesses touch memory that no other access
//! touches ([`vectorise::LoopPolicy`]), and by two marks in the function what is a log ([`marks`]).
//!
//! **Invariant.** Results and memory stay, bit for bit, but for what a caller allows; so does
//! whether a function traps.
//!
//! **Cost.** What each pass costs, and what it costs or saves a run, is said in its file.

pub mod inverse;
pub mod licm_gvn;
pub mod linear;
pub mod loop_layout;
pub mod loop_rotate;
mod map;
pub mod marks;
pub mod pure;
pub mod shape;
pub mod simplify_cfg;
pub mod slp_divisions;
pub mod vectorise;
pub mod verified;
