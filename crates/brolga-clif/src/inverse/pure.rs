//! Loops that store nothing: where they can run again.
//!
//! **Question.** A sum over other memory is added to a state. Can it be computed once more?
//! **Answer.** What it reads is the same at that time if nothing behind it, in the list of pieces
//! that it is one of, stores to a state that it reads: pieces are undone from behind, so all of the
//! list that is still to be undone lies in front of it.
//!
//! **Cost.** A walk over the pieces.

use cranelift_codegen::ir::{Block, Inst};

use super::structure::{PureLoop, UndoPart};
use super::view::{MemoryRoot, View};
use crate::map::{HashMap, HashSet};

/// The loops of a function that store nothing.
#[derive(Default)]
pub(super) struct PureLoops<'p> {
    /// Each with the states that are stored to behind it.
    pub all: Vec<(&'p PureLoop, HashSet<usize>)>,
    by_block: HashMap<Block, usize>,
    /// Those in front of what is undone.
    pub visible: HashSet<usize>,
}

impl<'p> PureLoops<'p> {
    pub fn of(view: &View<'_>, parts: &'p [UndoPart]) -> Self {
        let mut this = Self::default();
        this.find(view, parts);
        this
    }

    /// States that pieces store to; loops in them are found.
    fn find(&mut self, view: &View<'_>, parts: &'p [UndoPart]) -> HashSet<usize> {
        let mut stored = HashSet::default();
        for part in parts.iter().rev() {
            match part {
                UndoPart::Straight(insts) => {
                    let stores = insts.iter().filter(|&&i| view.func.dfg.insts[i].opcode().can_store());
                    let state = |&i: &Inst| match view.place(view.address(i)) {
                        Some(MemoryRoot::State(s)) => Some(s),
                        _ => None,
                    };
                    stored.extend(stores.filter_map(state));
                }
                UndoPart::Again(of) => stored.extend(self.find(view, &of.body)),
                UndoPart::Choice { then, other, .. } => {
                    stored.extend(self.find(view, then));
                    stored.extend(self.find(view, other));
                }
                UndoPart::Pure(of) => {
                    self.by_block.extend(of.blocks.iter().map(|&b| (b, self.all.len())));
                    self.all.push((of, stored.clone()));
                }
            }
        }
        stored
    }

    /// The loop that a block is of.
    pub fn around(&self, block: Option<Block>) -> Option<usize> {
        self.by_block.get(&block?).copied()
    }

    /// From now on, whether a list's loops are in front of what is undone.
    pub fn show(&mut self, part: &UndoPart, visible: bool) {
        let UndoPart::Pure(of) = part else { return };
        let number = self.by_block[&of.header];
        if visible {
            self.visible.insert(number);
        } else {
            self.visible.remove(&number);
        }
    }
}
