//! Dead-code elimination in straight-line code: what is needed in a graph without branches.
//!
//! **Problem.** In such a graph nothing decides about anything, and what is read has been written
//! before. To number all items, to list who reads whom and to ask on which branches a block depends
//! takes a seventh of deriving a long block, and is of no use there.
//!
//! **Answer.** One walk from the end to the front. An instruction is needed if it has an effect,
//! if a name that it defines is read after it by one that is needed, or if it writes a cell that
//! is; then what it reads is needed. The definition before a use is the one that it means, so
//! in a block of the pullback part, where names may be defined again, a name that has found its
//! definition is not wanted any more. What has found none at the block's head is what the forward
//! part defines, or if it does not, whatever blocks of the pullback part in front do.
//!
//! **Invariants.** What is found is what the search for all graphs finds ([`super::LiveSearch`]); a
//! debug build asks both. What only that one can tell is said by `None`: blocks that are run again,
//! whose names are their own, memory that is given back if it is still made, frames that are left.
//!
//! **Cost.** Linear: one walk, with a table by name.

use brolga_ir::block::{CfgBlock, CfgBlocks, Role, Term};
use brolga_ir::inst::{AdOp, Val};
use brolga_ir::map::HashSet;
use cranelift_codegen::ir;
use cranelift_entity::SecondaryMap;

use super::items::each_operand;
use super::uses::{DceCell, KnownPrimal, Use, cells_read, use_of};
use crate::val_map::ValMap;

/// What is needed.
#[derive(Debug)]
pub(super) struct NeededItems {
    /// The blocks in the order in which they run, by their place in the graph.
    order: Vec<usize>,
    /// By block, as they are in the graph: whether each of its parameters and instructions is
    /// needed.
    items: Vec<Vec<bool>>,
}

impl NeededItems {
    /// Whether it is the same as was found in another way.
    pub(super) fn is(&self, items: &[Vec<bool>]) -> bool {
        self.items == items
    }

    /// Remove everything else.
    pub(super) fn sweep(self, graph: &mut CfgBlocks) {
        let next = self.order[1..].iter().map(|&b| &self.items[b][..]).chain([&[][..]]);
        for (&b, next) in self.order.iter().zip(next) {
            let block = &mut graph.blocks[b];
            let mut needed = self.items[b].iter();
            block.params.retain(|_| needed.next() == Some(&true));
            block.insts.retain(|_, _| needed.next() == Some(&true));
            if let Term::Jump(target) = &mut block.term {
                let mut needed = next.iter();
                target.args.retain(|_| needed.next() == Some(&true));
            }
        }
    }
}

/// What is needed, if the blocks follow each other.
pub(super) fn needed(graph: &CfgBlocks, known: KnownPrimal<'_>) -> Option<NeededItems> {
    let order = chain(graph)?;
    let mut found: Vec<_> = graph.blocks.values().map(|b| vec![false; b.params.len() + b.insts.len()]).collect();
    let mut wanted = NeededNames {
        graph,
        names: ValMap::new(known.primal.dfg.num_values()),
        here: ValMap::default(),
        open: Vec::new(),
        forward: None,
        cts: SecondaryMap::new(),
        cells: HashSet::default(),
    };
    let (mut reads, mut next) = (Vec::new(), None);
    for (number, &b) in order.iter().enumerate().rev() {
        let block = &graph.blocks[b];
        let at = WalkPoint { role: block.role, block: number as u32 + 1 };
        match &block.term {
            Term::Jump(target) => {
                let params: &[bool] = next.map_or(&[], |n: usize| &found[n]);
                target.args.iter().zip(params).filter(|x| *x.1).for_each(|(&v, _)| wanted.read(at, v));
            }
            Term::Return(values) => values.iter().for_each(|&v| wanted.read(at, v)),
            _ => {}
        }
        let params = block.params.len();
        for (k, inst) in block.insts.values().enumerate().rev() {
            // All that it defines, since each definition ends the search for its name.
            let is_wanted = inst.defs.iter().filter(|d| wanted.takes(at, d.0)).count() != 0;
            let needed = match use_of(inst, known) {
                Use::Effect => true,
                Use::Value => is_wanted,
                Use::Writes(ref cell) => is_wanted || wanted.has(cell),
                Use::With(_) => return None,
            };
            if needed {
                if matches!(inst.op, AdOp::LeaveFrame) {
                    return None;
                }
                found[b][params + k] = true;
                each_operand(inst, known.primal, |v| wanted.read(at, v));
                cells_read(&inst.op, known.private, &mut reads);
                reads.iter().for_each(|cell| wanted.want(cell));
                reads.clear();
            }
        }
        for (k, p) in block.params.iter().enumerate() {
            // Those of the entry are the signature.
            found[b][k] = wanted.takes(at, p.0) || number == 0;
        }
        wanted.leave(at);
        next = Some(b);
    }
    Some(NeededItems { order, items: found })
}

/// The blocks one after the other, if each of them leads to one other, and all are reached.
fn chain(graph: &CfgBlocks) -> Option<Vec<usize>> {
    let mut order = Vec::with_capacity(graph.blocks.len());
    let mut at = 0;
    while order.len() < graph.blocks.len() {
        let block = graph.blocks.get_index(at)?;
        order.push(at);
        if block.role.rerun_header().is_some() {
            return None;
        }
        match &block.term {
            Term::Jump(target) => at = graph.blocks.get_index_of(&target.block)?,
            Term::Return(_) | Term::Trap(_) => return (order.len() == graph.blocks.len()).then_some(order),
            Term::If(..) | Term::Table(..) | Term::Switch(..) => return None,
        }
    }
    None
}

/// Where the walk is.
#[derive(Clone, Copy)]
struct WalkPoint {
    role: Role,
    /// The block's number from one on.
    block: u32,
}

impl WalkPoint {
    /// Whether names of this kind may be defined again here.
    fn is_local(self, name: Val) -> bool {
        !self.role.is_forward() && !matches!(name, Val::D(_))
    }
}

/// What has been read and not yet been defined.
struct NeededNames<'g> {
    graph: &'g CfgBlocks,
    /// Names that some block in front defines.
    names: ValMap<bool>,
    /// Names that the present block of the pullback part may define: its number.
    here: ValMap<u32>,
    /// All that were put there.
    open: Vec<Val>,
    /// What the forward part defines, once that has been asked for.
    forward: Option<ValMap<bool>>,
    /// Cells: those of cotangents, and others.
    cts: SecondaryMap<ir::Value, bool>,
    cells: HashSet<DceCell>,
}

impl NeededNames<'_> {
    fn read(&mut self, at: WalkPoint, name: Val) {
        if !at.is_local(name) {
            *self.names.at(name) = true;
        } else if std::mem::replace(self.here.at(name), at.block) != at.block {
            self.open.push(name);
        }
    }

    /// Whether an instruction after wants this definition of a name.
    fn takes(&mut self, at: WalkPoint, name: Val) -> bool {
        if !at.is_local(name) {
            return self.names.get(name);
        }
        let here = self.here.at(name);
        if *here == at.block {
            *here = 0;
            return true;
        }
        self.names.get(name) && !self.forward().get(name)
    }

    /// At the head of a block.
    fn leave(&mut self, at: WalkPoint) {
        for name in std::mem::take(&mut self.open) {
            if self.here.get(name) == at.block {
                *self.names.at(name) = true;
            }
        }
    }

    fn forward(&mut self) -> &ValMap<bool> {
        let is_forward = |b: &&CfgBlock| b.role.is_forward();
        self.forward.get_or_insert_with(|| {
            let mut found = ValMap::default();
            for block in self.graph.blocks.values().filter(is_forward) {
                let defs = block.insts.values().flat_map(|i| i.defs.iter().map(|d| d.0));
                block.params.iter().map(|p| p.0).chain(defs).for_each(|name| *found.at(name) = true);
            }
            found
        })
    }

    fn want(&mut self, cell: &DceCell) {
        match cell {
            DceCell::Ct(v) => self.cts[*v] = true,
            _ => drop(self.cells.insert(*cell)),
        }
    }

    fn has(&self, cell: &DceCell) -> bool {
        match cell {
            DceCell::Ct(v) => self.cts[*v],
            _ => self.cells.contains(cell),
        }
    }
}
