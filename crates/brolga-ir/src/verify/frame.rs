//! Frame discipline: slots of the activation frame are kept before they are restored.
//!
//! **Question.** When the reverse half reads a place, has the forward half written it, on every
//! path, with a value of the same type, and do no two places overlap? **Answer.** The reverse of a
//! block runs only if the block has run, and all of the forward half comes before. So what the
//! reverse of B restores is kept if every path from the entry to B, or every path from B to an
//! exit, comes by a block that keeps it: dominators and postdominators of the primal say so if one
//! block does, and a search for a path that avoids all of them if it takes several. What a rerun
//! loop keeps is kept for its own reverse, or where it dominates. **Cost.** Linear, but for that
//! search: once per place.

use cranelift_codegen::ir::{self, Type, types};
use cranelift_entity::EntityRef;

use super::fault::{Faults, Rule};
use super::mirror::Mirror;
use super::view::{GraphContext, View};
use crate::InstId;
use crate::block::{CfgBlock, Role};
use crate::inst::{AdOp, FrameSlot};
use crate::lower::{FrameHome, FrameLayout};
use crate::map::{HashMap, IndexMap};

const RULE: Rule = Rule::KeepDominatesRestore;

/// That a block keeps something in a place.
#[derive(Clone, Copy)]
struct SlotWrite {
    /// The block of the primal.
    of: ir::Block,
    /// The loop that is rerun, if it is kept there.
    rerun: Option<ir::Block>,
    /// Position of the block in its graph.
    at: usize,
}

/// What is kept in a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaceUse {
    Value(Type),
    Number,
}

/// An instruction that restores a slot.
struct Restore<'g> {
    /// The block, and its position in its graph.
    block: &'g CfgBlock,
    at: usize,
    id: InstId,
    slot: FrameSlot,
    wanted: PlaceUse,
}

#[derive(Default)]
struct KeptPlace {
    keeps: Vec<SlotWrite>,
    stored_use: Option<PlaceUse>,
    /// Blocks to which there is a path from the entry that avoids all that keep it, and blocks from
    /// which there is such a path to an exit.
    avoided: Option<(Vec<bool>, Vec<bool>)>,
}

/// Whether what is restored has been kept.
pub fn check(mirror: &Mirror<'_, '_>, known: GraphContext<'_>, faults: &mut Faults) {
    let mut slots: HashMap<FrameSlot, KeptPlace> = HashMap::default();
    let mut sizes: IndexMap<FrameSlot, u32> = IndexMap::default();
    collect_keeps(mirror, mirror.forward, known, (&mut slots, &mut sizes), faults);
    if !std::ptr::eq(mirror.forward, mirror.reverse) {
        collect_keeps(mirror, mirror.reverse, known, (&mut slots, &mut sizes), faults);
    }
    for (at, block) in mirror.reversed() {
        for (&id, inst) in block.insts.iter() {
            let (slot, wanted) = match (&inst.op, &inst.defs[..]) {
                (AdOp::Restore(slot), [def]) => (*slot, PlaceUse::Value(def.1)),
                (AdOp::RestoreBlock(slot), _) => (*slot, PlaceUse::Number),
                _ => continue,
            };
            let restore = Restore { at, block, id, slot, wanted };
            check_restore(mirror, slots.entry(slot).or_default(), &restore, faults);
        }
    }
    if let Some(frame) = known.frame {
        overlaps(frame, &sizes, faults);
    }
}

type Places<'s> = (&'s mut HashMap<FrameSlot, KeptPlace>, &'s mut IndexMap<FrameSlot, u32>);

/// Collect what the blocks of a graph keep.
fn collect_keeps(
    mirror: &Mirror<'_, '_>,
    view: &View<'_>,
    known: GraphContext<'_>,
    places: Places<'_>,
    faults: &mut Faults,
) {
    let (slots, sizes) = places;
    for (at, block) in view.reached() {
        let (of, rerun) = match block.role {
            Role::Forward(b) => (b, None),
            Role::Rerun(header, b) => (b, Some(header)),
            _ => continue,
        };
        if std::ptr::eq(view, mirror.reverse) && !std::ptr::eq(mirror.forward, mirror.reverse) && rerun.is_none() {
            continue;
        }
        for (&id, inst) in block.insts.iter() {
            let (slot, stored_use, size) = match inst.op {
                AdOp::Keep(slot, v) => {
                    let ty = view.type_of(v).unwrap_or(types::I64);
                    (slot, PlaceUse::Value(ty), ty.bytes())
                }
                AdOp::KeepBlock(slot, _) => (slot, PlaceUse::Number, known.id_bytes),
                _ => continue,
            };
            let all = slots.entry(slot).or_default();
            if *all.stored_use.get_or_insert(stored_use) != stored_use {
                faults.add(RULE, block.id, Some(id), format!("values of two types are kept in {slot}"));
            }
            all.keeps.push(SlotWrite { of, rerun, at });
            sizes.insert(slot, size);
        }
    }
}

/// Where in the primal a block of the reverse half stands: all paths to an exit come by it; none
/// for the end of the function.
fn stands(role: Role) -> Option<ir::Block> {
    match role {
        Role::Reverse(b) | Role::Edge(b, _) | Role::Begin(b) | Role::Rerun(_, b) => Some(b),
        Role::Forward(_) | Role::Entry | Role::Exit => None,
    }
}

/// A slot is restored, with the type of what is kept there, and only where it has been kept.
fn check_restore(mirror: &Mirror<'_, '_>, slot: &mut KeptPlace, restore: &Restore<'_>, faults: &mut Faults) {
    let &Restore { at, block, id, slot: name, wanted } = restore;
    if slot.stored_use.is_some_and(|stored_use| stored_use != wanted) {
        faults.add(RULE, block.id, Some(id), format!("{name} is restored as something else than is kept there"));
    }
    let primal = &mirror.primal;
    let b = stands(block.role);
    let rerun = b.and_then(|b| mirror.rerun[b]);
    let counts = |k: &&SlotWrite| k.rerun.is_none() || k.rerun == rerun;
    let reaches = |k: &SlotWrite| {
        let same_graph = k.rerun.is_some() || std::ptr::eq(mirror.forward, mirror.reverse);
        let by_primal = match b {
            Some(b) => k.of == b || primal.before.dominates(k.of.index(), b.index()),
            None => false,
        };
        let after = b.map_or(primal.succs.len(), |b| b.index());
        by_primal
            || same_graph && mirror.reverse.dominates(k.at, at)
            || b.is_some() && primal.after.dominates(k.of.index(), after)
    };
    if slot.keeps.iter().filter(counts).any(reaches) {
        return;
    }
    let keepers: Vec<usize> = slot.keeps.iter().filter(counts).map(|k| k.of.index()).collect();
    let (from_entry, to_exit) = slot.avoided.get_or_insert_with(|| {
        let without = |edges: &crate::graph::Edges, from: &[usize]| {
            let keeps = |b: usize| keepers.contains(&b);
            let left: crate::graph::Edges = (0..edges.len())
                .map(|b| if keeps(b) { vec![] } else { edges.of(b).filter(|&s| !keeps(s)).collect() })
                .collect();
            left.reached(from.iter().copied().filter(|&b| !keeps(b)))
        };
        (without(&primal.succs, &[primal.entry]), without(&primal.preds, &primal.exits))
    });
    let avoids = match b {
        Some(b) => from_entry[b.index()] && to_exit[b.index()],
        None => primal.exits.iter().any(|&e| from_entry[e]),
    };
    if avoids {
        faults.add(RULE, block.id, Some(id), format!("{name} is restored, and not kept on every path"));
    }
}

/// Whether places lie in the frame, and apart from each other.
fn overlaps(frame: &FrameLayout, sizes: &IndexMap<FrameSlot, u32>, faults: &mut Faults) {
    let places = sizes.iter().filter(|(s, _)| s.as_variable().is_none()).map(|(s, &size)| (s.0, size));
    let shadows = frame.slots.values().flatten();
    let slots = shadows.flat_map(|p| [Some((p.shadow, p.size)), p.primal.map(|at| (at, p.size))]).flatten();
    let header = (frame.home == FrameHome::Tape).then_some((0, 8));
    let mut all: Vec<(u32, u32)> = places.chain(slots).chain(header).filter(|p| p.1 > 0).collect();
    all.sort_unstable();
    for pair in all.windows(2) {
        if pair[0].0 + pair[0].1 > pair[1].0 {
            let what =
                format!("two places of the frame overlap: {} bytes at {}, and {}", pair[0].1, pair[0].0, pair[1].0);
            faults.add_unlocated(RULE, what);
        }
    }
    if let Some(&(at, size)) = all.last().filter(|p| p.0 + p.1 > frame.size) {
        faults
            .add_unlocated(RULE, format!("{size} bytes at {at} are not in the frame, which has {} bytes", frame.size));
    }
}
