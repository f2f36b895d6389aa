//! When the frontend may know that it has seen all that leads to a block.
//!
//! **Problem.** A block that is not sealed yet gets a parameter for every variable that is read in it or behind it. When it is sealed the frontend
//! looks at what comes along each edge, and takes a parameter back that always gets the same. Not if that is a parameter of
//! another block which is not sealed, and turns out to be the first one by another name: then both stay, through a nest of loops, for each variable.
//!
//! **Answer.** A block is sealed as soon as all that lead to it are filled, but the head of a loop not before what leads back to it is sealed: inner
//! loops before outer ones.
//!
//! **Invariants.** Who waits has been filled before whom it waits for, so nobody waits in a circle. Each block is sealed once; all are but those
//! that nothing leads to and what only they lead to.

use smallvec::SmallVec;

use crate::block::CfgBlocks;

/// What is sealed, by position.
pub(super) struct Seals<'a> {
    graph: &'a CfgBlocks,
    states: Vec<State>,
}

#[derive(Clone, Default)]
struct State {
    /// Edges that lead here from blocks that are not filled.
    waiting: usize,
    filled: bool,
    sealed: bool,
    /// What leads back here, and was filled later.
    back: SmallVec<[usize; 2]>,
    /// Who waits for this to be sealed.
    after: SmallVec<[usize; 2]>,
}

impl<'a> Seals<'a> {
    pub(super) fn new(graph: &'a CfgBlocks) -> Self {
        let mut all = Self { graph, states: vec![State::default(); graph.blocks.len()] };
        for block in graph.blocks.values() {
            for s in block.term.successors() {
                let s = all.at(s);
                all.states[s].waiting += 1;
            }
        }
        all
    }

    fn at(&self, block: crate::BlockId) -> usize {
        self.graph.blocks.get_index_of(&block).expect("a successor is a block")
    }

    /// A block has been filled. Which are to be sealed now, in this order?
    pub(super) fn filled(&mut self, i: usize) -> SmallVec<[usize; 4]> {
        self.states[i].filled = true;
        let mut now = SmallVec::new();
        let mut work: SmallVec<[usize; 4]> = SmallVec::new();
        // The entry, that nothing leads to.
        if self.states[i].waiting == 0 {
            work.push(i);
        }
        for s in self.graph.blocks[i].term.successors() {
            let s = self.at(s);
            let state = &mut self.states[s];
            if state.filled {
                state.back.push(i);
            }
            state.waiting -= 1;
            if state.waiting == 0 {
                work.push(s);
            }
        }
        while let Some(s) = work.pop() {
            if self.states[s].sealed {
                continue;
            }
            let wait = self.states[s].back.iter().find(|&&p| p != s && !self.states[p].sealed).copied();
            match wait {
                Some(p) => self.states[p].after.push(s),
                None => {
                    self.states[s].sealed = true;
                    now.push(s);
                    work.extend(std::mem::take(&mut self.states[s].after));
                }
            }
        }
        now
    }
}
