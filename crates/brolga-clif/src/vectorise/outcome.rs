//! Outcome of vectorisation: what it is allowed to do with loops, and what has become of each.
//!
//! **Question.** What may vectorisation rely on that the function does not say, and what did it do?
//!
//! **Answer.** A [`LoopPolicy`] is said by the caller: which sums may be added in another order,
//! which accesses are known not to meet, whether there are vectors. A [`VectorReport`] says of each
//! loop how it is run ([`VectorShape`]), or why iteration by iteration; [`told`] makes a sentence
//! of that.
//!
//! **Cost.** A call of the caller's answer for each two accesses that are compared. A sentence is
//! made where it is asked for.

use cranelift_codegen::ir;
use cranelift_entity::EntitySet;

/// How loops may be run.
#[derive(Clone, Copy)]
pub struct LoopPolicy<'a> {
    /// Of which header's loop sums may be added in another order.
    pub reorder: &'a dyn Fn(ir::Block) -> bool,
    /// Sums that may be added up in any order.
    pub watched: &'a EntitySet<ir::Value>,
    /// Loads and stores in memory that no other load or store touches.
    pub shadows: &'a EntitySet<ir::Inst>,
    /// Of two of these: whether they are known never to be to the same bytes, in any two
    /// iterations.
    pub apart: &'a dyn Fn(ir::Inst, ir::Inst) -> bool,
    /// Whether it is only done where there are enough iterations.
    pub worth: bool,
    /// Whether the target has vectors, and they are wanted.
    pub lanes: bool,
    /// In which header's loop places that are added to iteration by iteration may be in registers.
    pub stay: &'a dyn Fn(ir::Block) -> bool,
}

impl LoopPolicy<'_> {
    /// Whether two accesses are known not to meet.
    pub(super) fn apart(&self, a: ir::Inst, b: ir::Inst) -> bool {
        match (self.shadows.contains(a), self.shadows.contains(b)) {
            (true, true) => (self.apart)(a, b),
            (a, b) => a != b,
        }
    }
}

/// What became of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorReport {
    /// The loop's header.
    pub header: ir::Block,
    /// How many iterations are run at a time and under which conditions, or why only one is.
    pub outcome: Result<VectorShape, &'static str>,
}

/// How a loop is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorShape {
    /// Iterations at a time.
    pub at_a_time: u32,
    /// Pairs of accesses that are compared before.
    pub tests: usize,
    /// Sums that are split.
    pub sums: usize,
    /// Places in memory that are in registers meanwhile.
    pub cells: usize,
}

/// What became of a loop, or of its reverse, as a sentence; `whose` names it.
pub fn told(whose: &str, outcome: &Result<VectorShape, &'static str>) -> String {
    match outcome {
        Ok(VectorShape { at_a_time, tests, sums, cells }) => {
            let met = match tests {
                0 => String::new(),
                1 => " where two accesses do not meet".to_owned(),
                n => format!(" where {n} pairs of accesses do not meet"),
            };
            let sums = if *sums == 0 { "" } else { ", adding up in partial sums" };
            let cells = match cells {
                0 => String::new(),
                1 => ", with one place in memory in a register".to_owned(),
                n => format!(", with {n} places in memory in registers"),
            };
            let how = if *at_a_time == 1 {
                "iteration by iteration".to_owned()
            } else {
                format!("{at_a_time} iterations at a time")
            };
            format!("{whose} runs {how}{met}{sums}{cells}")
        }
        Err(why) => format!("{whose} runs iteration by iteration, since {why}"),
    }
}
