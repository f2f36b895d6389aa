//! Statistics of time loops: what loops of a run have done, in numbers.
//!
//! **Question.** How many steps ran, were recorded and were reversed, and how many states did that
//! take?
//!
//! **Answer.** [`LoopStats`] adds up what all time loops of a run have done: steps, states kept and
//! put back, in memory and in a file, and the most that one loop had at a time. A [`LoopPlan`] says
//! how loops that began in one place were reversed.
//!
//! **Cost.** Some additions for each loop.

use brolga_schedules::{Selection, Stats};

/// What the time loops of a run have done, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopStats {
    /// Steps that ran without being recorded, in both halves.
    pub forward: u128,
    /// Steps that were recorded.
    pub taped: u128,
    /// Steps that were reversed.
    pub reversed: u128,
    /// States that were kept.
    pub stores: u64,
    /// States that were put back.
    pub restores: u64,
    /// States that were written to the file of the run. They are not among those that were kept.
    pub disk_writes: u64,
    /// States that were read from there.
    pub disk_reads: u64,
    /// Most bytes of the file.
    pub disk_bytes: u64,
    /// Most states of one loop in memory at a time.
    pub max_slots: u64,
    /// Most bytes of one loop at a time: states, and what its steps have recorded.
    pub max_bytes: u64,
}

impl LoopStats {
    /// Add those of one loop, which took so many bytes.
    pub(crate) fn add(&mut self, stats: &Stats, bytes: u64) {
        self.forward += stats.forward;
        self.taped += stats.taped;
        self.reversed += stats.reversed;
        self.stores += stats.stores;
        self.restores += stats.restores;
        self.disk_writes += stats.disk_writes;
        self.disk_reads += stats.disk_reads;
        self.max_slots = self.max_slots.max(stats.max_slots);
        self.max_bytes = self.max_bytes.max(bytes);
    }
}

/// How time loops that began in one place were reversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopPlan {
    /// An address in generated code: where they began.
    pub site: usize,
    /// How many runs of a loop there were.
    pub runs: u64,
    /// Steps of the last one that its forward pass recorded.
    pub recorded: u64,
    /// How its other steps were reversed, if there were any.
    pub selection: Option<Selection>,
}
