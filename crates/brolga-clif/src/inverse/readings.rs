//! What reads a state, and where it can be read again: loads, calls, and loops that store nothing.
//!
//! **Question.** A sum over other numbers is added to a state. Can it be computed once more?
//! **Answer.** What it reads is the same at that time if nothing stores to a state that it reads
//! from there to what is undone: pieces are undone backwards, so what comes later is as
//! it was. While a loop is counted all of its iterations lie between ([`Readings::counting`]).
//!
//! **Cost.** A walk over the pieces.

use cranelift_codegen::ir::{Block, Inst, Value, ValueDef};

use super::structure::{PureLoop, UndoPart};
use super::view::View;
use crate::map::{HashMap, HashSet};

/// What reads.
#[derive(Clone, Copy)]
pub(super) enum Reading<'p> {
    /// A loop that stores nothing.
    Loop(&'p PureLoop),
    /// A load or a call.
    Inst(Inst),
}

/// A list of pieces, by where it begins.
type PartList = *const UndoPart;

struct ReadAt<'p> {
    of: Reading<'p>,
    /// The piece that it is in.
    list: PartList,
    part: usize,
    /// States that the same piece stores to after it.
    stored: HashSet<usize>,
}

/// What of a function reads.
#[derive(Default)]
pub(super) struct Readings<'p> {
    all: Vec<ReadAt<'p>>,
    by_block: HashMap<Block, usize>,
    by_inst: HashMap<Inst, usize>,
    /// The states that each piece stores to.
    stored: HashMap<PartList, Vec<HashSet<usize>>>,
    /// The piece of a list that is undone.
    undone: HashMap<PartList, usize>,
    /// States that loops store to which are being counted.
    pub counting: Vec<HashSet<usize>>,
}

impl<'p> Readings<'p> {
    pub(super) fn of(view: &View<'_>, parts: &'p [UndoPart]) -> Self {
        let mut this = Self::default();
        this.find(view, parts);
        this
    }

    fn find(&mut self, view: &View<'_>, parts: &'p [UndoPart]) {
        let list = parts.as_ptr();
        for (part, of) in parts.iter().enumerate() {
            match of {
                UndoPart::Straight(insts) => {
                    let mut stored = HashSet::default();
                    for &inst in insts.iter().rev() {
                        if view.reads(inst) {
                            self.by_inst.insert(inst, self.all.len());
                            let of = Reading::Inst(inst);
                            self.all.push(ReadAt { of, list, part, stored: stored.clone() });
                        }
                        stored.extend(view.states_stored(inst));
                    }
                }
                UndoPart::Loop(of) => self.find(view, &of.body),
                UndoPart::Choice { then, other, .. } => {
                    self.find(view, then);
                    self.find(view, other);
                }
                UndoPart::Call(..) => {}
                UndoPart::Pure(of) => {
                    self.by_block.extend(of.blocks.iter().map(|&b| (b, self.all.len())));
                    let of = Reading::Loop(of);
                    self.all.push(ReadAt { of, list, part, stored: HashSet::default() });
                }
            }
        }
        let stored_by = parts.iter().map(|part| stored(view, std::slice::from_ref(part))).collect();
        self.stored.insert(list, stored_by);
    }

    /// What reads.
    pub(super) fn reading(&self, number: usize) -> Reading<'p> {
        self.all[number].of
    }

    /// States that are stored to between what reads and what is undone; none if it lies after.
    pub(super) fn stored_since(&self, number: usize) -> Option<HashSet<usize>> {
        let of = &self.all[number];
        let until = self.undone.get(&of.list).copied().filter(|&at| at >= of.part)?;
        let between = self.stored[&of.list][of.part + 1..=until].iter().chain(&self.counting);
        Some(between.flatten().chain(&of.stored).copied().collect())
    }

    /// The loop, load or call that a value is of.
    pub(super) fn around(&self, view: &View<'_>, v: Value) -> Option<usize> {
        let of_loop = view.block_of(v).and_then(|b| self.by_block.get(&b));
        let of_inst = || match view.func.dfg.value_def(view.resolved(v)) {
            ValueDef::Result(inst, _) => self.by_inst.get(&inst),
            _ => None,
        };
        of_loop.or_else(of_inst).copied()
    }

    /// From now on this piece of a list is undone, and those after it have been.
    pub(super) fn undo(&mut self, parts: &[UndoPart], part: usize) {
        self.undone.insert(parts.as_ptr(), part);
    }

    /// All of a list has been undone.
    pub(super) fn undone(&mut self, parts: &[UndoPart]) {
        self.undone.remove(&parts.as_ptr());
    }
}

/// The states that pieces store to.
pub(super) fn stored(view: &View<'_>, parts: &[UndoPart]) -> HashSet<usize> {
    let of = |part: &UndoPart| match part {
        UndoPart::Straight(insts) => insts.iter().flat_map(|&i| view.states_stored(i)).collect(),
        UndoPart::Loop(of) => stored(view, &of.body),
        UndoPart::Choice { then, other, .. } => stored(view, then).union(&stored(view, other)).copied().collect(),
        UndoPart::Call(inst, _) => view.states_stored(*inst),
        UndoPart::Pure(_) => HashSet::default(),
    };
    parts.iter().flat_map(of).collect()
}
