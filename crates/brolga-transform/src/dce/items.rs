//! Numbering for dead-code elimination: all that a derived graph consists of, and what each item
//! reads.
//!
//! **Question.** Which definition does each use in a derived graph mean?
//!
//! **Answer.** A name is looked up for every operand there is, so names are indices into tables
//! ([`crate::val_map`]), and lists of items are chains through one pool ([`UseChains`]): a list is
//! mostly of one item, and an allocation for each costs more than all else that is done here.
//!
//! **Cost.** One walk over the graph, with a table by name.

use brolga_ir::block::{CfgBlock, CfgBlocks, Role, Term};
use brolga_ir::inst::{AdInst, AdOp, Val};
use brolga_ir::map::HashMap;
use cranelift_codegen::ir;

use super::control_dependence::Control;
use crate::val_map::ValMap;

/// An item: a block parameter, an instruction or a terminator, by number. A block's parameters come
/// first, then its instructions, then its terminator.
pub(super) type ItemId = usize;

/// A list in [`UseChains`]: one more than where its last entry is; none if it is empty.
#[derive(Clone, Copy, Default)]
struct Chain(u32);

/// Lists of items, in one pool: each entry with the one before it.
#[derive(Default)]
struct UseChains(Vec<(u32, Chain)>);

impl UseChains {
    fn add(&mut self, to: &mut Chain, item: ItemId) {
        self.0.push((item as u32, *to));
        *to = Chain(self.0.len() as u32);
    }

    fn iter(&self, chain: Chain) -> impl Iterator<Item = ItemId> + '_ {
        let at = |chain: Chain| self.0.get((chain.0 as usize).wrapping_sub(1));
        std::iter::successors(at(chain), move |entry| at(entry.1)).map(|entry| entry.0 as usize)
    }
}

/// The items that define each name, for uses in other blocks.
struct DefinedNames {
    /// Those of the forward part, and derived values.
    global: ValMap<Chain>,
    /// Those of the pullback part.
    local: ValMap<Chain>,
    /// Those of each loop that the pullback part runs again, by its header.
    rerun: HashMap<(ir::Block, Val), Chain>,
}

impl DefinedNames {
    fn define(&mut self, chains: &mut UseChains, role: Role, name: Val, item: ItemId) {
        let items = match (role.rerun_header(), name) {
            (_, Val::D(_)) => self.global.at(name),
            (Some(header), _) => self.rerun.entry((header, name)).or_default(),
            _ if role.is_forward() => self.global.at(name),
            _ => self.local.at(name),
        };
        chains.add(items, item);
    }

    /// What a use means that no definition comes before in its block.
    fn meant(&self, role: Role, name: Val) -> Chain {
        let rerun = role.rerun_header().and_then(|header| self.rerun.get(&(header, name)).copied());
        let known = |chain: &Chain| chain.0 != 0;
        rerun.or_else(|| Some(self.global.get(name)).filter(known)).unwrap_or_else(|| self.local.get(name))
    }
}

/// What has been defined so far in the present block. Others have left theirs behind, which is told
/// by the block. Derived values, which are most, are defined once, so where does not matter.
struct BlockDefs(ValMap<(u32, u32)>);

impl BlockDefs {
    fn define(&mut self, block: usize, name: Val, item: ItemId) {
        if !matches!(name, Val::D(_)) {
            *self.0.at(name) = (block as u32 + 1, item as u32);
        }
    }

    fn get(&self, block: usize, name: Val) -> Option<ItemId> {
        let (of, item) = self.0.get(name);
        (of == block as u32 + 1).then_some(item as usize)
    }
}

/// All items of a graph and what each reads.
pub(super) struct Items<'g> {
    /// The blocks, in the order of [`Control::blocks`].
    pub blocks: Vec<&'g CfgBlock>,
    /// The first item of each block.
    pub first: Vec<ItemId>,
    /// The block of each item.
    pub block: Vec<u32>,
    /// The items that each item reads; for a parameter, the arguments on all edges.
    reads: Vec<Chain>,
    chains: UseChains,
    names: DefinedNames,
}

impl<'g> Items<'g> {
    /// Number them, and find out.
    pub(super) fn collect(graph: &'g CfgBlocks, primal: &ir::Function, control: &Control) -> Self {
        let blocks: Vec<&CfgBlock> = control.blocks.iter().map(|b| &graph.blocks[b]).collect();
        let values = primal.dfg.num_values();
        let size: usize = blocks.iter().map(|b| b.params.len() + b.insts.len() + 1).sum();
        let mut items = Items {
            first: Vec::with_capacity(blocks.len()),
            block: Vec::with_capacity(size),
            reads: Vec::new(),
            // Most define one name and read one or two.
            chains: UseChains(Vec::with_capacity(3 * size)),
            names: DefinedNames { global: ValMap::new(values), local: ValMap::new(values), rerun: HashMap::default() },
            blocks,
        };
        for (b, block) in items.blocks.iter().enumerate() {
            let first = items.block.len();
            items.first.push(first);
            let size = block.params.len() + block.insts.len() + 1;
            items.block.resize(first + size, b as u32);
            let params = block.params.iter().map(|p| p.0).enumerate();
            let insts = block.insts.values().enumerate();
            let insts = insts.flat_map(|(k, i)| i.defs.iter().map(move |d| (block.params.len() + k, d.0)));
            for (k, name) in params.chain(insts) {
                items.names.define(&mut items.chains, block.role, name, first + k);
            }
        }
        items.reads.resize(items.block.len(), Chain::default());
        let mut here = BlockDefs(ValMap::new(values));
        for b in 0..items.blocks.len() {
            let block = items.blocks[b];
            let first = items.first[b];
            for (k, p) in block.params.iter().enumerate() {
                here.define(b, p.0, first + k);
            }
            let mut at = first + block.params.len();
            for inst in block.insts.values() {
                each_operand(inst, primal, |v| items.reads(at, &here, b, v));
                inst.defs.iter().for_each(|d| here.define(b, d.0, at));
                at += 1;
            }
            match &block.term {
                Term::If(v, ..) | Term::Table(v, ..) | Term::Switch(v, _) => items.reads(at, &here, b, *v),
                Term::Return(vs) => vs.iter().for_each(|&v| items.reads(at, &here, b, v)),
                Term::Jump(_) | Term::Trap(_) => {}
            }
            for target in block.term.targets() {
                let to = control.position(target.block);
                for (k, &v) in target.args.iter().enumerate() {
                    items.reads(items.first[to] + k, &here, b, v);
                }
            }
        }
        items
    }

    /// An item reads a name, where the block has come so far.
    fn reads(&mut self, item: ItemId, here: &BlockDefs, block: usize, name: Val) {
        if let Some(read) = here.get(block, name) {
            self.chains.add(&mut self.reads[item], read);
            return;
        }
        let mut chain = self.names.meant(self.blocks[block].role, name);
        while let Some(&(read, before)) = self.chains.0.get((chain.0 as usize).wrapping_sub(1)) {
            self.chains.add(&mut self.reads[item], read as usize);
            chain = before;
        }
    }

    /// What an item reads.
    pub(super) fn read_by(&self, item: ItemId) -> impl Iterator<Item = ItemId> + '_ {
        self.chains.iter(self.reads[item])
    }

    /// What a use means that no definition comes before in its block.
    pub(super) fn meant(&self, role: Role, name: Val) -> impl Iterator<Item = ItemId> + '_ {
        self.chains.iter(self.names.meant(role, name))
    }

    /// The item of a block's terminator.
    pub(super) fn term(&self, block: usize) -> ItemId {
        self.first.get(block + 1).copied().unwrap_or(self.block.len()) - 1
    }
}

/// Every name that an instruction reads.
pub(super) fn each_operand(inst: &AdInst, primal: &ir::Function, mut f: impl FnMut(Val)) {
    match inst.op {
        AdOp::Primal(i) => primal.dfg.inst_args(i).iter().for_each(|&v| f(Val::Primal(v))),
        _ => inst.each_read(f),
    }
}
