//! Use counts of a graph: one look at all of it, before it is lowered.
//!
//! **Problem.** A cotangent is a frontend variable, so that it finds its way through blocks, and a
//! variable costs as much as ten instructions.
//!
//! **Answer.** One that begins as zero in a block and is asked for nowhere else has no way to find:
//! what it is at present is enough. In straight code that is all of them. The same look lists what
//! asks for the others ([`super::births`]), what is kept in variables, and what of the tape is
//! used.
//!
//! **Cost.** One walk over the graph.

use cranelift_codegen::ir::{self, Type};
use cranelift_codegen::packed_option::PackedOption;
use cranelift_entity::SecondaryMap;
use cranelift_frontend::Variable;

use super::births::{CotangentEvent, CotangentUse, Flow};
use crate::block::CfgBlocks;
use crate::inst::{AdOp, FrameSlot, Sum, Tape, Val};
use crate::map::one_each;

/// Where a primal value's cotangent is while a graph is lowered.
#[derive(Clone, Copy, Default)]
pub(super) enum Cotangent {
    /// It is not asked for.
    #[default]
    Nowhere,
    /// It begins as zero in a block, which is named by its number, and it is asked for nowhere
    /// else.
    Within(u32),
    /// In a variable.
    Shared(PackedOption<Variable>),
    /// The same, as far as the block has come.
    Now(ir::Value),
}

/// What a graph asks for, before it is lowered.
#[derive(Default)]
pub(super) struct GraphNeeds {
    pub cts: SecondaryMap<ir::Value, Cotangent>,
    /// What asks for cotangents.
    pub asks: Vec<CotangentEvent>,
    /// Primal values that are watched, and the sums that they are added to.
    pub watched: Vec<(ir::Value, Sum)>,
    /// Whether there are flags that are watched.
    pub flags: bool,
    /// Instructions that read what is kept or held, the types of what they read, and the positions
    /// of their blocks.
    pub frame_reads: Vec<(FrameRead, Type, u32)>,
    /// Instructions that keep a value in a variable, and the positions of their blocks.
    pub keeps: Vec<(FrameSlot, u32)>,
    /// Whether the tape is touched, but for a frame on it.
    pub uses_tape: bool,
    /// Whether records are written or read here.
    pub records: bool,
    /// Whether both halves are here.
    pub by_iteration: bool,
}

/// So many values that are kept cost as much to be followed through blocks, each by itself.
const MANY: usize = 6;

/// What is kept from one place of a graph to another.
pub(super) enum FrameRead {
    /// A value in a place of the frame.
    Value(FrameSlot),
    /// The number of a block in one.
    Block(FrameSlot),
    /// What a held variable has.
    Held(Val),
}

impl GraphNeeds {
    /// Look at a graph; the primal has so many values.
    pub(super) fn in_graph(graph: &CfgBlocks, values: usize) -> Self {
        let mut seen = GraphNeeds { cts: one_each(values), ..GraphNeeds::default() };
        for (n, block) in (0..).zip(graph.blocks.values()) {
            for inst in block.insts.values() {
                let ty = inst.defs.first().map(|d| d.1);
                match (&inst.op, ty) {
                    (AdOp::ZeroCt(v), _) => {
                        seen.asked(CotangentEvent { value: *v, block: n, what: CotangentUse::Zero })
                    }
                    (AdOp::TakeCt(v), _) => {
                        seen.asked(CotangentEvent { value: *v, block: n, what: CotangentUse::Take })
                    }
                    (AdOp::AddCt(v, _), _) => {
                        seen.asked(CotangentEvent { value: *v, block: n, what: CotangentUse::Add })
                    }
                    (AdOp::Watch { value: Val::Primal(v), sum, .. }, _) => seen.watched.push((*v, *sum)),
                    (AdOp::WatchFlag(_), _) => seen.flags = true,
                    (AdOp::Restore(slot), Some(ty)) => seen.frame_reads.push((FrameRead::Value(*slot), ty, n)),
                    (AdOp::RestoreBlock(slot), Some(ty)) => seen.frame_reads.push((FrameRead::Block(*slot), ty, n)),
                    (AdOp::Held(name), Some(ty)) => seen.frame_reads.push((FrameRead::Held(*name), ty, n)),
                    (AdOp::Keep(slot, _), _) if slot.as_variable().is_some() => seen.keeps.push((*slot, n)),
                    (AdOp::NextIteration, _) => seen.by_iteration = true,
                    (AdOp::Push(..) | AdOp::Pop(..) | AdOp::PeekBlock, _) => {
                        (seen.uses_tape, seen.records) = (true, true);
                    }
                    (AdOp::Call { tape: Tape::Moves, .. }, _) => seen.uses_tape = true,
                    _ => {}
                }
            }
        }
        seen
    }

    fn asked(&mut self, ask: CotangentEvent) {
        let ct = &mut self.cts[ask.value];
        *ct = match *ct {
            Cotangent::Nowhere if ask.what == CotangentUse::Zero => Cotangent::Within(ask.block),
            Cotangent::Within(b) if b == ask.block => Cotangent::Within(b),
            _ => Cotangent::Shared(None.into()),
        };
        self.asks.push(ask);
    }

    /// Whether several blocks share so much that it is worth while to find out how they lie to each
    /// other.
    pub(super) fn shares(&self) -> bool {
        self.keeps.len() >= MANY || self.asks.iter().any(|a| matches!(self.cts[a.value], Cotangent::Shared(_)))
    }

    /// The variables that have one value where they are read: what one block keeps that runs once,
    /// before all that read it.
    pub(super) fn constant(&self, flow: &Flow<'_>) -> Variables<u32> {
        let mut by = Variables::default();
        let mut by_several: Vec<FrameSlot> = Vec::new();
        for &(slot, block) in &self.keeps {
            if by.get(slot).is_some() {
                by_several.push(slot);
            }
            by.set(slot, block);
        }
        by_several.into_iter().for_each(|slot| by.remove(slot));
        for (read, _, block) in &self.frame_reads {
            if let FrameRead::Value(slot) = read
                && by.get(*slot).is_some_and(|&k| !flow.precedes_acyclic(k as usize, *block as usize))
            {
                by.remove(*slot);
            }
        }
        by
    }
}

/// Something for each frame slot that is a variable; these are numbered densely.
#[derive(Clone, Debug)]
pub(super) struct Variables<T>(Vec<Option<T>>);

impl<T> Default for Variables<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Variables<T> {
    /// What there is for a slot: nothing for one that is no variable.
    pub(super) fn get(&self, slot: FrameSlot) -> Option<&T> {
        self.0.get(slot.as_variable()? as usize)?.as_ref()
    }

    pub(super) fn set(&mut self, slot: FrameSlot, it: T) {
        let at = slot.as_variable().expect("it is a variable") as usize;
        if at >= self.0.len() {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at] = Some(it);
    }

    fn remove(&mut self, slot: FrameSlot) {
        if let Some(it) = slot.as_variable().and_then(|at| self.0.get_mut(at as usize)) {
            *it = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::ir::types;

    use super::super::births::tests::graph;
    use super::*;
    use crate::block::Ids;
    use crate::inst::{AdInst, Defs};

    /// Whether a variable has one value that these blocks keep and those read.
    fn is_constant(edges: &[&[usize]], keeps: &[usize], reads: &[usize]) -> bool {
        let (mut graph, mut ids) = (graph(edges), Ids::default());
        let (slot, value) = (FrameSlot::variable(1), Val::D(ids.dv()));
        let blocks: Vec<_> = graph.blocks.keys().copied().collect();
        let mut put = |b: usize, defs: Defs, op: AdOp| {
            graph.blocks[&blocks[b]].insts.insert(ids.inst(), AdInst { defs, op, at: None });
        };
        keeps.iter().for_each(|&b| put(b, Defs::default(), AdOp::Keep(slot, value)));
        reads.iter().for_each(|&b| put(b, [(value, types::F64)].into(), AdOp::Restore(slot)));
        GraphNeeds::in_graph(&graph, 0).constant(&Flow::of(&graph.edges())).get(slot).is_some()
    }

    #[test]
    fn what_is_kept_once_before_all_that_read_it_is_no_variable() {
        let straight: &[&[usize]] = &[&[1], &[2], &[]];
        assert!(is_constant(straight, &[0], &[1, 2]) && is_constant(straight, &[1], &[2]));
        let branch: &[&[usize]] = &[&[1, 2], &[3], &[3], &[]];
        assert!(is_constant(branch, &[0], &[1, 2, 3]));
        assert!(!is_constant(branch, &[1], &[3]), "not on all ways");
        assert!(!is_constant(branch, &[1], &[1, 2]), "for one of them only");
        assert!(!is_constant(branch, &[1, 2], &[3]), "by two");
        assert!(!is_constant(straight, &[0, 1], &[2]), "the later");
        let cycle: &[&[usize]] = &[&[1], &[2, 3], &[1], &[]];
        assert!(is_constant(cycle, &[0], &[2, 3]), "in a loop, from before it");
        assert!(!is_constant(cycle, &[1], &[3]), "another in each iteration");
    }
}
