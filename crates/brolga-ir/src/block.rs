//! `CfgBlock`: the builder-local block graph in which forward pass and pullback are assembled.
//!
//! **Question.** Derived code grows in pieces, block by block and edge by edge. In which form, so
//! that nothing has to be renumbered?
//!
//! **Answer.** Blocks ([`CfgBlock`]) have stable ids ([`Ids`]) and are kept in the order in which
//! they will be laid out ([`CfgBlocks`]). Edges are the targets of terminators ([`Term`]); nothing
//! is renumbered while a graph grows, and [`crate::lower`] makes CLIF of it in one go when it is
//! complete. Instructions are in a [`Fragment`], each under its name.
//!
//! **Cost.** An instruction is appended in place. The memory of the longest block of a graph is
//! kept for the next graph of the same thread ([`CfgBlocks::recycle`]), unless it is too long to
//! hold on to.
//!
//! **Source.** Mooncake's `CFGBlock`.

use std::cell::Cell;

use crate::graph::Edges;
use crate::map::Table;
use cranelift_codegen::ir::{self, TrapCode, Type};
use cranelift_entity::PrimaryMap;

use crate::inst::{AdInst, Val};
use crate::{BlockId, Dv, InstId, pages};

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A primal block, or its forward version.
    Forward(ir::Block),
    /// The reverse of a primal block.
    Reverse(ir::Block),
    /// The reverse of one edge: sends the cotangents of block parameters to the branch arguments.
    Edge(ir::Block, ir::Block),
    /// Where the reverse half begins to run the loop of a header once more, forwards.
    Begin(ir::Block),
    /// In the loop of a header that the reverse half runs forwards: a block of the loop, after it
    /// the reverses of its statements unless whole iterations are reversed.
    Rerun(ir::Block, ir::Block),
    /// Loads captures and finds the frame.
    Entry,
    /// Returns the cotangents of the arguments.
    Exit,
}

/// A branch target with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Where to.
    pub block: BlockId,
    /// One per parameter of the block.
    pub args: Vec<Val>,
}

/// How a block ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// Go on.
    Jump(Target),
    /// Two ways.
    If(Val, Target, Target),
    /// `br_table`: index, default, entries.
    Table(Val, Target, Vec<Target>),
    /// By block number, as recorded.
    Switch(Val, Vec<(u32, BlockId)>),
    /// Leave the function.
    Return(Vec<Val>),
    /// Trap.
    Trap(TrapCode),
}

impl Term {
    /// All targets, in order.
    pub fn targets(&self) -> impl Iterator<Item = &Target> + Clone {
        let (first, second, rest): (_, _, &[Target]) = match self {
            Term::Jump(t) => (Some(t), None, &[]),
            Term::If(_, a, b) => (Some(a), Some(b), &[]),
            Term::Table(_, d, ts) => (Some(d), None, ts),
            Term::Switch(..) | Term::Return(_) | Term::Trap(_) => (None, None, &[]),
        };
        first.into_iter().chain(second).chain(rest)
    }

    /// All targets, in order, to be changed.
    pub fn targets_mut(&mut self) -> impl Iterator<Item = &mut Target> {
        let (first, second, rest): (_, _, &mut [Target]) = match self {
            Term::Jump(t) => (Some(t), None, &mut []),
            Term::If(_, a, b) => (Some(a), Some(b), &mut []),
            Term::Table(_, d, ts) => (Some(d), None, ts),
            Term::Switch(..) | Term::Return(_) | Term::Trap(_) => (None, None, &mut []),
        };
        first.into_iter().chain(second).chain(rest)
    }

    /// Ids of all blocks it may go to.
    pub fn successors(&self) -> impl Iterator<Item = BlockId> + Clone {
        let cases: &[(u32, BlockId)] = if let Term::Switch(_, cases) = self { cases } else { &[] };
        self.targets().map(|t| t.block).chain(cases.iter().map(|c| c.1))
    }
}

/// A basic block of derived code.
#[derive(Clone, Debug, PartialEq)]
pub struct CfgBlock {
    /// Its name.
    pub id: BlockId,
    /// What it is for.
    pub role: Role,
    /// Parameters.
    pub params: Vec<(Val, Type)>,
    /// Instructions in order, each under its name.
    pub insts: Fragment,
    /// Its end.
    pub term: Term,
    /// The primal terminator it stems from.
    pub term_at: Option<ir::Inst>,
    /// Whether it is there for rare runs.
    pub cold: bool,
}

/// A whole graph. The first block is the entry.
#[derive(Clone, Debug)]
pub struct CfgBlocks {
    /// Symbol of the function that this will become.
    pub symbol: String,
    /// Its signature.
    pub signature: ir::Signature,
    /// Blocks in layout order.
    pub blocks: Table<BlockId, CfgBlock>,
}

impl Role {
    /// Whether a block of this role belongs to the forward half.
    pub fn is_forward(self) -> bool {
        matches!(self, Role::Forward(_))
    }

    /// The header of the loop that a block runs again, or prepares to: the names of primal values
    /// are seen by all such blocks.
    pub fn rerun_header(self) -> Option<ir::Block> {
        match self {
            Role::Begin(header) | Role::Rerun(header, _) => Some(header),
            _ => None,
        }
    }
}

impl CfgBlocks {
    /// Where each block leads to, by position.
    ///
    /// # Panics
    /// If a successor is no block.
    pub fn edges(&self) -> Edges {
        let at = |s: BlockId| self.blocks.get_index_of(&s).expect("a successor is a block");
        let mut edges = Edges::with_capacity(self.blocks.len(), 2 * self.blocks.len());
        for block in self.blocks.values() {
            edges.push(block.term.successors().map(at));
        }
        edges
    }

    /// It is of no use any more: the next graph of this thread gets the memory of its longest
    /// block.
    pub fn recycle(self) {
        let blocks = self.blocks.into_iter().map(|(_, b)| b.insts.0).chain([SPARE.take()]);
        if let Some(mut longest) = blocks.filter(|b| b.capacity() <= *SPARE_CAPACITY.end()).max_by_key(Vec::capacity) {
            longest.clear();
            SPARE.set(longest);
        }
    }

    /// Say of all blocks that they are there for rare runs.
    pub fn make_cold(&mut self) {
        self.blocks.values_mut().for_each(|b| b.cold = true);
    }

    /// The entry block.
    pub fn entry(&self) -> BlockId {
        self.blocks[0].id
    }
}

/// Hands out ids. One per derivation, so the same input gives the same names.
#[derive(Debug, Default)]
pub struct Ids {
    blocks: PrimaryMap<BlockId, ()>,
    insts: PrimaryMap<InstId, ()>,
    dvs: PrimaryMap<Dv, ()>,
}

impl Ids {
    /// How many block ids there are.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// A fresh block id.
    pub fn block(&mut self) -> BlockId {
        self.blocks.push(())
    }

    /// A fresh instruction id.
    pub fn inst(&mut self) -> InstId {
        self.insts.push(())
    }

    /// A fresh derived value.
    pub fn dv(&mut self) -> Dv {
        self.dvs.push(())
    }
}

/// A sequence of derived instructions, each under its name. A name stands for one instruction, so
/// it need not be looked up: it is there to be printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fragment(Vec<(InstId, AdInst)>);

/// Instructions from which on the memory of a block is kept for the next one, since what the system
/// gives anew it has to clear first; and most, since a thread should not hold on to megabytes.
const SPARE_CAPACITY: std::ops::RangeInclusive<usize> = 256..=1 << 14;

thread_local! {
    /// Memory of a long block that is gone.
    static SPARE: Cell<Vec<(InstId, AdInst)>> = const { Cell::new(Vec::new()) };
}

impl Fragment {
    /// An empty one with room for so many.
    pub fn with_capacity(n: usize) -> Self {
        if !SPARE_CAPACITY.contains(&n) {
            return Self(pages::with_capacity(n));
        }
        let mut memory = SPARE.take();
        memory.reserve(n);
        Self(memory)
    }

    /// Append copies.
    pub fn extend_from(&mut self, others: &Self) {
        self.0.extend_from_slice(&others.0);
    }

    /// All instructions, no larger than they are; what is left is empty, and has room for as many.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let mut taken = Vec::with_capacity(self.0.len());
        taken.append(&mut self.0);
        Self(taken)
    }

    /// Append an instruction.
    // Where it is made, so that it is made in its place: to pass it on copies 80 bytes twice, each
    // time waiting for what has just been written.
    #[inline(always)]
    pub fn insert(&mut self, name: InstId, inst: AdInst) {
        self.0.push((name, inst));
    }

    /// Names and instructions in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&InstId, &AdInst)> + ExactSizeIterator + Clone {
        self.0.iter().map(|(name, inst)| (name, inst))
    }

    /// The instruction at a position.
    pub fn get(&self, at: usize) -> Option<&AdInst> {
        self.0.get(at).map(|x| &x.1)
    }

    /// The instructions in order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &AdInst> + ExactSizeIterator + Clone {
        self.0.iter().map(|x| &x.1)
    }

    /// The instructions in order, to be changed.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut AdInst> {
        self.0.iter_mut().map(|x| &mut x.1)
    }

    /// Keep some.
    pub fn retain(&mut self, mut wanted: impl FnMut(&InstId, &mut AdInst) -> bool) {
        self.0.retain_mut(|(name, inst)| wanted(name, inst));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Extend<(InstId, AdInst)> for Fragment {
    fn extend<I: IntoIterator<Item = (InstId, AdInst)>>(&mut self, insts: I) {
        self.0.extend(insts);
    }
}

impl FromIterator<(InstId, AdInst)> for Fragment {
    fn from_iter<I: IntoIterator<Item = (InstId, AdInst)>>(insts: I) -> Self {
        Self(insts.into_iter().collect())
    }
}

impl IntoIterator for Fragment {
    type Item = (InstId, AdInst);
    type IntoIter = std::vec::IntoIter<(InstId, AdInst)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
