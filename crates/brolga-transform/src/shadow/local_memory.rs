//! Dead-store elimination on shadows of memory that does not escape: clears without a reader,
//! additions to nothing.
//!
//! **Problem.** The reverse of a store takes the shadow of its place and leaves zero, for what the
//! place held before; the reverse of a load adds to what is there. An array that is written once
//! and then read needs neither: the shadow is not read after the store's reverse, and what the
//! first of the loads in reverse adds to is the zero that the shadow began with.
//!
//! **Answer.** For each [private](brolga_analysis::memory::escape) object of memory that holds no
//! pointers, all accesses are known. In terms of the primal, where the reverse runs the other way:
//! - a store need not *clear* if none of the accesses that read the shadow of its place (loads that
//!   add, stores that take) can come before it: neither another one, nor itself in an earlier
//!   iteration;
//! - a load may *store* if no load that adds to its place can come after it: neither another one,
//!   nor itself in a later iteration.
//!
//! What can come before what is told by the edges between blocks; of a block from `malloc`, no way
//! through its `malloc` counts, since after it there is another block. Whether two accesses can
//! meet in one place is told by their distances from the start of the object, as sums over the
//! iterations of loops ([`crate::primal::scev`]); whether one meets itself, by the same means as
//! for arguments ([`crate::shadow::store_for_add`]).
//!
//! **Why both hold together.** A shadow is zero when the reverse begins: it has been cleared, or
//! was just made. Where a load stores, only takes have been at its place, each of which has left
//! zero, or does not clear because nothing, this load included, comes after it in reverse. What is
//! left in the shadow at the end is cleared before it is used again, when a frame is opened, or
//! with the reverse of `malloc`.
//!
//! **Invariants.** Only addresses that are the start of the object plus a sum without other
//! pointers are compared; if there is any other access that might touch the object (a copy, an
//! address that may be of another object), nothing is changed.
//!
//! **Cost.** One walk over all accesses. Those of one object are compared in pairs, if there are no
//! more than 64.

use brolga_analysis::memory::alias::{Origin, Places};
use brolga_analysis::memory::escape::PrivateObject;
use brolga_analysis::{CalleeKind, MemRole};
use brolga_ir::map::HashMap;
use brolga_rules::{MathKind, MemFn};
use cranelift_codegen::ir::{self, InstructionData};
use cranelift_entity::EntitySet;

use crate::facts::Facts;
use crate::facts::overwrites::Overwrites;
use crate::primal::scev::{AffineContext, Atom, Sum};
use crate::shadow::access::{Event, ShadowAccess, ShadowEffect};
use crate::shadow::contract_array::contract_array;
use crate::shadow::strides::{disjoint, nest, stride};
use brolga_ir::Pass;

/// More accesses than that to one object are not compared.
const MOST_ACCESSES: usize = 64;

/// Find the stores that need not clear, the loads that may store, and the slots whose shadows the
/// forward pass leaves alone.
pub(crate) fn local_memory(facts: &Facts<'_>, out: &mut Overwrites) {
    let mut touching: Vec<Option<Vec<ir::Inst>>> = facts.private.origins.iter().map(|_| Some(Vec::new())).collect();
    let func = facts.func();
    for &inst in facts.cfg.all_insts() {
        let plain = match func.dfg.insts[inst] {
            InstructionData::Load { arg, .. } => Some(arg),
            InstructionData::Store { args: [_, p], .. } => Some(p),
            InstructionData::Call { .. } if !frees(facts, inst) => None,
            _ => continue,
        };
        match plain {
            Some(p) => {
                for &object in facts.private.leads(p) {
                    let list = &mut touching[object as usize];
                    if facts.private.within(p) != Some(object) {
                        *list = None;
                    } else if let Some(l) = list {
                        l.push(inst);
                    }
                }
            }
            None => {
                for &a in func.dfg.inst_args(inst) {
                    facts.private.leads(a).iter().for_each(|&object| touching[object as usize] = None);
                }
            }
        }
    }
    for (object, insts) in touching.into_iter().enumerate() {
        // What is in an argument's shadow is the caller's.
        let Some(insts) = insts.filter(|_| !matches!(facts.private.origins[object], Origin::Param(_))) else {
            continue;
        };
        let Some(events) = events(facts, &insts) else { continue };
        if let Origin::Slot(slot) = facts.private.origins[object] {
            out.untouched.insert(slot);
        }
        let mut bases = Bases::default();
        let events: Option<Vec<Event>> = events
            .into_iter()
            .map(|(inst, does)| event(facts, object as PrivateObject, &mut bases, inst, does))
            .take(MOST_ACCESSES + 1)
            .collect();
        if let Some(events) = events.filter(|e| e.len() <= MOST_ACCESSES) {
            compare(facts, object as PrivateObject, &events, out);
            if facts.options.runs(Pass::ContractArrays) {
                contract_array(facts, facts.private.origins[object], &events, out);
            }
        }
    }
}

/// What all accesses to an object do to its shadow, if none of them is about pointers.
fn events(facts: &Facts<'_>, insts: &[ir::Inst]) -> Option<Vec<(ir::Inst, ShadowEffect)>> {
    let func = facts.func();
    let mut found = Vec::new();
    for &inst in insts {
        let store = matches!(func.dfg.insts[inst], InstructionData::Store { .. });
        let address = func.dfg.inst_args(inst)[usize::from(store)];
        if facts.held_pointers(address) {
            return None;
        }
        let in_place = facts.in_place.contains(inst);
        let does = match (facts.activity.mem[inst], store) {
            (MemRole::Pointer, _) => return None,
            (MemRole::Float(_), true) if in_place => ShadowEffect::Reads,
            (MemRole::Float(_), true) => ShadowEffect::Takes,
            (MemRole::Float(_), false) if !in_place && facts.is_active(func.dfg.first_result(inst)) => {
                ShadowEffect::Adds
            }
            (MemRole::Kill { checked: true, .. }, true) => ShadowEffect::Reads,
            (MemRole::Kill { checked: false, .. }, true) => ShadowEffect::Clears,
            (MemRole::Float(_) | MemRole::Kill { .. }, false) | (MemRole::None, _) => continue,
        };
        found.push((inst, does));
    }
    Some(found)
}

/// Where an address in a block leads in an object of memory.
#[derive(Clone)]
struct Base {
    /// Distance from the start of the object, without its constant.
    at: Sum,
    constant: i64,
    /// By how much it differs from iteration to iteration ([`stride`]).
    stride: Option<i64>,
}

/// What is known of the addresses of an object: several accesses have one, at different offsets.
type Bases = HashMap<(ir::Value, ir::Block), Option<Base>>;

/// An access with its distance from the start of the object; `None` if that is not known to be one.
fn event(
    facts: &Facts<'_>,
    object: PrivateObject,
    bases: &mut Bases,
    inst: ir::Inst,
    does: ShadowEffect,
) -> Option<Event> {
    let func = facts.func();
    let block = func.layout.inst_block(inst)?;
    let args = func.dfg.inst_args(inst);
    let store = matches!(func.dfg.insts[inst], InstructionData::Store { .. });
    let address = args[usize::from(store)];
    let base = bases.entry((address, block)).or_insert_with(|| base(facts, object, address, block)).as_ref()?;
    let offset = brolga_analysis::query::access_offset(func, inst);
    let ty = func.dfg.value_type(if store { args[0] } else { func.dfg.first_result(inst) });
    let first = base.constant.wrapping_add(i64::from(offset));
    let access = ShadowAccess { inst, block, at: base.at.clone(), first, bytes: i64::from(ty.bytes()) };
    let moves = base.stride.is_some_and(|s| disjoint(&[&access], s).is_some());
    Some(Event { does, access, moves })
}

/// Where an address leads, if that is in the object, at a distance that is known.
fn base(facts: &Facts<'_>, object: PrivateObject, address: ir::Value, block: ir::Block) -> Option<Base> {
    let func = facts.func();
    if facts.loops.irreducible.contains(block) {
        return None;
    }
    let origin = facts.private.origins[object as usize];
    let affine = AffineContext { func, loops: facts.loops };
    let nest = nest(facts, origin, block);
    let sum = affine.sum(address, &nest);
    // The start of the object is in it, once, and nothing else that leads there.
    let mut start = None;
    for a in sum.atoms() {
        if let Atom::Value(v) = a
            && !facts.private.leads(v).is_empty()
        {
            if start.is_some() {
                return None;
            }
            start = Some(v);
        }
    }
    let start = start?;
    let from = match (func.dfg.insts[func.dfg.value_def(start).inst()?], origin) {
        (InstructionData::StackAddr { stack_slot, offset, .. }, Origin::Slot(s)) if s == stack_slot => {
            i32::from(offset)
        }
        (InstructionData::Call { .. }, Origin::Alloc(call)) if func.dfg.first_result(call) == start => 0,
        _ => return None,
    };
    let (factors, rest) = sum.factors(&[Atom::Value(start)])?;
    if factors[0].as_constant() != Some(1) {
        return None;
    }
    let (at, c) = rest.split_constant();
    let stride = stride(&affine, &at, &[block], &nest);
    Some(Base { at, constant: c.wrapping_add(i64::from(from)), stride })
}

fn compare(facts: &Facts<'_>, object: PrivateObject, events: &[Event], out: &mut Overwrites) {
    let origin = facts.private.origins[object as usize];
    let mut reachable: HashMap<ir::Block, EntitySet<ir::Block>> = HashMap::default();
    let layout = &facts.func().layout;
    let mut precedes = |a: &Event, b: &Event| {
        let (from, to) = (a.access.block, b.access.block);
        let in_front = from == to && layout.pp_cmp(a.access.inst, b.access.inst).is_lt();
        if from == to && same_place(a, b) {
            // They meet in one iteration only.
            return in_front;
        }
        in_front || reachable.entry(from).or_insert_with(|| reached(facts, origin, from)).contains(to)
    };
    for e in events {
        match e.does {
            ShadowEffect::Takes | ShadowEffect::Clears => {
                let looks = |r: &Event| r.does != ShadowEffect::Clears;
                if !events.iter().any(|r| looks(r) && precedes(r, e) && meet(facts, origin, r, e)) {
                    out.spent.insert(e.access.inst);
                }
            }
            ShadowEffect::Adds => {
                let adds = |r: &Event| r.does == ShadowEffect::Adds;
                if !events.iter().any(|r| adds(r) && precedes(e, r) && meet(facts, origin, r, e)) {
                    out.stores.insert(e.access.inst);
                }
            }
            ShadowEffect::Reads => {}
        }
    }
}

/// Whether two different accesses of one block touch the same bytes in each iteration, and others
/// in every other iteration.
fn same_place(a: &Event, b: &Event) -> bool {
    let (x, y) = (&a.access, &b.access);
    x.inst != y.inst && a.moves && b.moves && x.at == y.at && x.first == y.first && x.bytes == y.bytes
}

/// Whether two accesses may touch a common byte of one object, at any times.
fn meet(facts: &Facts<'_>, origin: Origin, a: &Event, b: &Event) -> bool {
    if a.access.inst == b.access.inst {
        return !a.moves;
    }
    let func = facts.func();
    let places = Places { program: facts.program, func, cfg: facts.cfg, blocks: &facts.blocks };
    if places.apart(&places.of_access(a.access.inst), &places.of_access(b.access.inst)) {
        return false;
    }
    let nests = (nest(facts, origin, a.access.block), nest(facts, origin, b.access.block));
    if nests.0 != nests.1 || a.access.at != b.access.at {
        return true;
    }
    let affine = AffineContext { func, loops: facts.loops };
    let (both, blocks) = ([&a.access, &b.access], [a.access.block, b.access.block]);
    let apart = stride(&affine, &a.access.at, &blocks, &nests.0).and_then(|s| disjoint(&both, s));
    // Of two in the same place only one is chosen.
    apart.is_none_or(|(chosen, _)| chosen.len() < 2)
}

/// Blocks that can run after a block while the object is the same.
fn reached(facts: &Facts<'_>, origin: Origin, from: ir::Block) -> EntitySet<ir::Block> {
    let made = match origin {
        Origin::Alloc(call) => facts.func().layout.inst_block(call),
        _ => None,
    };
    let mut seen = EntitySet::new();
    let mut work = facts.cfg.succs[from].to_vec();
    while let Some(b) = work.pop() {
        if Some(b) != made && seen.insert(b) {
            work.extend(&facts.cfg.succs[b]);
        }
    }
    seen
}

/// Whether a call gives memory back, which has nothing to do with its shadow.
fn frees(facts: &Facts<'_>, call: ir::Inst) -> bool {
    match CalleeKind::of(facts.program, facts.func(), call) {
        Some(CalleeKind::Known(r)) => matches!(r.kind, MathKind::Memory(MemFn::Free)),
        _ => false,
    }
}
