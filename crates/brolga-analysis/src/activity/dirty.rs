//! Dirty blocks of a fixed point: which blocks an analysis has to look at again.
//!
//! **Question.** A fixed point walks over the blocks until nothing changes. In most rounds few
//! blocks have anything new to read. Which?
//!
//! **Answer.** Looks are counted. Each block has the number of its last look, and a change that one
//! block reads sets that to zero. Most changes are of that kind, but some may be seen by any block:
//! those note the number of looks so far. A block is open if its last look is not after that.
//!
//! **Cost.** A constant number of steps for each change and each question, also where a change
//! opens all blocks.

use cranelift_codegen::ir;
use cranelift_entity::SecondaryMap;

/// Blocks that are to be looked at. At first all are.
pub(super) struct OpenBlocks {
    /// When each block was last looked at; 0 if something that it reads has changed since.
    seen: SecondaryMap<ir::Block, u32>,
    /// When something changed that any of them may read.
    changed: u32,
    /// How many looks there were.
    now: u32,
}

impl OpenBlocks {
    pub(super) fn new(func: &ir::Function) -> Self {
        let mut seen = SecondaryMap::new();
        seen.resize(func.dfg.num_blocks());
        Self { seen, changed: 0, now: 0 }
    }

    /// Something changed that a block reads.
    pub(super) fn one(&mut self, b: ir::Block) {
        self.seen[b] = 0;
    }

    /// Something changed that any block may read.
    pub(super) fn all(&mut self) {
        self.changed = self.now;
    }

    /// Whether a block is open; what changes from now on opens it again.
    pub(super) fn take(&mut self, b: ir::Block) -> bool {
        let open = self.seen[b] <= self.changed;
        if open {
            self.now += 1;
            self.seen[b] = self.now;
        }
        open
    }
}
