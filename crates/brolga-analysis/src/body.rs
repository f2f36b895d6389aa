//! A normalised function, with what every analysis asks of one.
//!
//! **Question.** What is handed from analysis to analysis?
//!
//! **Answer.** A [`Body`]: the function, its edges and its uses, computed once.
//!
//! **Cost.** Three references, which are copied.

use cranelift_codegen::ir;

use crate::cfg::Cfg;
use crate::uses::Uses;

/// A normalised function, with what all analyses ask of one.
#[derive(Clone, Copy)]
pub struct Body<'a> {
    /// It.
    pub func: &'a ir::Function,
    /// Its edges.
    pub cfg: &'a Cfg,
    /// All uses.
    pub uses: &'a Uses,
}
