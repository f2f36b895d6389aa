//! The two halves of a derivative beside the primal that both follow.
//!
//! **Question.** Which block of the primal does a block of either half stand for, by which blocks
//! can that be entered, and which loops does the reverse half rerun? **Answer.** The roles of
//! blocks, the primal's edges, and its dominators from both ends. **Cost.** Linear.

use cranelift_codegen::ir;
use cranelift_codegen::ir::Opcode;
use cranelift_entity::{EntityRef, SecondaryMap};

use super::view::{Dominators, View};
use crate::BlockId;
use crate::block::{CfgBlock, Role, Term};
use crate::graph::Edges;

/// Control flow of the primal; nodes are the numbers of its blocks.
pub struct Primal {
    /// Where each block leads to.
    pub succs: Edges,
    /// The same, the other way.
    pub preds: Edges,
    /// The entry.
    pub entry: usize,
    /// Blocks that return.
    pub exits: Vec<usize>,
    /// Blocks from which an exit can be reached.
    pub returning: Vec<bool>,
    /// Dominators, from the entry.
    pub before: Dominators,
    /// Postdominators; a last node joins all exits.
    pub after: Dominators,
}

impl Primal {
    /// Look at a function.
    pub fn of(func: &ir::Function) -> Self {
        let n = func.dfg.num_blocks();
        let at = |b: usize| ir::Block::from_u32(b as u32);
        let last = |b: usize| func.layout.is_block_inserted(at(b)).then(|| func.layout.last_inst(at(b))).flatten();
        let to = |b: usize| last(b).map(|_| func.block_successors(at(b)).map(ir::Block::index).collect::<Vec<_>>());
        let succs: Edges = (0..n).map(|b| to(b).unwrap_or_default()).collect();
        let preds = succs.reversed();
        let returns = |b: &usize| last(*b).is_some_and(|i| func.dfg.insts[i].opcode() == Opcode::Return);
        let exits: Vec<usize> = (0..n).filter(returns).collect();
        let returning = preds.reached(exits.iter().copied());
        let entry = func.layout.entry_block().map_or(0, ir::Block::index);
        let before = Dominators::of(&succs, &preds, entry);
        // With a node that leads back to all exits.
        let back: Edges = (0..n).map(|b| preds.of(b).collect()).chain([exits.clone()]).collect();
        let after = Dominators::of(&back, &back.reversed(), n);
        Self { succs, preds, entry, exits, returning, before, after }
    }
}

/// Both halves; in a combined function both are of one graph.
pub struct Mirror<'v, 'g> {
    /// Where the forward half is.
    pub forward: &'v View<'g>,
    /// Where the reverse half is.
    pub reverse: &'v View<'g>,
    /// The primal that they follow.
    pub primal: Primal,
    /// The header of the loop that is rerun, for each of its blocks.
    pub rerun: SecondaryMap<ir::Block, Option<ir::Block>>,
    /// The forward version of each block.
    pub forward_of: SecondaryMap<ir::Block, Option<&'g CfgBlock>>,
    /// The block of a rerun loop that runs each block again.
    pub rerun_block: SecondaryMap<ir::Block, Option<&'g CfgBlock>>,
    /// Blocks of the reverse half, by position, that clear shadows and leave the tape alone.
    pub clearing: Vec<bool>,
    /// How often the reverse half is there: in versions with guards and without.
    pub versions: usize,
}

impl<'v, 'g> Mirror<'v, 'g> {
    /// Look at both.
    pub fn of(forward: &'v View<'g>, reverse: &'v View<'g>, primal: &ir::Function) -> Self {
        let mut mirror = Mirror {
            forward,
            reverse,
            primal: Primal::of(primal),
            rerun: SecondaryMap::new(),
            forward_of: SecondaryMap::new(),
            rerun_block: SecondaryMap::new(),
            clearing: Vec::new(),
            versions: 0,
        };
        for (_, block) in forward.reached() {
            if let Role::Forward(b) = block.role {
                mirror.forward_of[b] = Some(block);
            }
        }
        let mut ends = Vec::new();
        for (at, block) in reverse.reached() {
            match (block.role, &block.term) {
                (Role::Rerun(header, b), _) => {
                    mirror.rerun[b] = Some(header);
                    mirror.rerun_block[b] = Some(block);
                }
                (Role::Exit, Term::Jump(t)) if reverse.graph.blocks[&t.block].role != Role::Exit => ends.push(at),
                (role, Term::Return(_)) if !role.is_forward() => mirror.versions += 1,
                _ => {}
            }
        }
        mirror.clearing = vec![false; reverse.blocks.len()];
        if !ends.is_empty() {
            let preds = reverse.edges.reversed();
            while let Some(b) = ends.pop() {
                if !reverse.blocks[b].role.is_forward() && !std::mem::replace(&mut mirror.clearing[b], true) {
                    ends.extend(preds.of(b));
                }
            }
        }
        mirror
    }

    /// Blocks of the reverse half, with their positions.
    pub fn reversed(&self) -> impl Iterator<Item = (usize, &'g CfgBlock)> + '_ {
        self.reverse.reached().filter(|(_, b)| !b.role.is_forward())
    }

    /// Where the reverse half finds what a block has recorded: in its forward version, or where it
    /// runs again.
    pub fn recorder(&self, b: ir::Block) -> Option<&'g CfgBlock> {
        if self.rerun[b].is_some() { self.rerun_block[b] } else { self.forward_of[b] }
    }

    /// The predecessors of `s` that a block of the reverse half stands for, as a way back from the
    /// reverse of `s`; none if it is no such way.
    pub fn ways(&self, s: ir::Block, to: BlockId) -> Vec<ir::Block> {
        let (before, role) = (self.primal.preds.of(s.index()), self.reverse.graph.blocks[&to].role);
        // The shorter of two lists: tables make one of them long.
        let precedes = |p: ir::Block| {
            let mut after = self.primal.succs.of(p.index());
            if after.len() < before.len() {
                after.any(|x| x == s.index())
            } else {
                before.clone().any(|x| x == p.index())
            }
        };
        match role {
            Role::Edge(p, of) if of == s && precedes(p) => vec![p],
            Role::Reverse(p) if precedes(p) => vec![p],
            // After the loop, or where it is left.
            Role::Begin(header) => {
                let preds = before.map(|p| ir::Block::from_u32(p as u32));
                preds.filter(|&p| self.rerun[p] == Some(header)).collect()
            }
            _ => Vec::new(),
        }
    }
}
