//! Punned cells: places that hold a pointer and a float at different times, across calls.
//!
//! **Question.** The shadow of a place is the address of a shadow while a pointer is there, and a
//! cotangent while a float is. A function that stores a float has to know whether a pointer may
//! have been there before; that may be its caller's doing, or another callee's. One that stores a
//! pointer has to know whether a float may have been there: on the way back its cotangent is.
//!
//! **Answer.** For each function, the places behind its parameters and in data objects where it
//! loads or stores a pointer, or stores a float that is no constant: by constant offset, since
//! fields of one struct have different ones. Callees' places are the caller's where they are after
//! what it passes. Facts only grow and offsets are bounded by [`FAR`], so recursion converges. A
//! function that is called through a pointer may be any whose address is taken.
//!
//! **On which side it errs.** A place that is reached by other than constant offsets, or through a
//! pointer that was loaded, is not followed. [`PunnedCells::floats`] and [`PunnedCells::pointers`]
//! follow all addresses that are made from a parameter, so they say rather too much.
//!
//! **Cost.** Rounds over all functions until nothing changes.

use std::collections::{BTreeMap, BTreeSet};

use brolga_ir::map::HashMap;
use brolga_ir::{DataKey, FuncKey};
use cranelift_codegen::ir::{self};

use crate::lattice::kinds::Kinds;
use crate::query::cell::{Base, Cell};

/// Places further from what was passed are not followed.
const FAR: i64 = 1024;

/// What a place holds at one time or another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellContents {
    /// Pointers, or floats that are stored there.
    pub kinds: Kinds,
    /// Parameters that are stored there: pointers if the caller passes pointers.
    pub(crate) params: BTreeSet<usize>,
}

/// Places by offset.
pub type ContentsAt = BTreeMap<i64, CellContents>;

/// An argument of a call.
#[derive(Clone, Debug)]
pub(crate) struct PassedPointer {
    /// Where it points, if it has a shadow.
    pub(crate) cell: Option<Cell>,
    /// The parameters that it may be made from.
    pub(crate) from: BTreeSet<usize>,
    /// It is a pointer for certain.
    pub(crate) pointer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PunnedTarget {
    Direct(FuncKey),
    Signature(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct PunnedCall {
    pub(crate) inst: ir::Inst,
    pub(crate) target: PunnedTarget,
    pub(crate) args: Vec<PassedPointer>,
}

/// Parameters behind which something is stored, at whatever place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreTargets {
    pub(crate) floats: BTreeSet<usize>,
    pub(crate) pointers: BTreeSet<usize>,
}

/// What one function does by itself.
#[derive(Clone, Debug, Default)]
pub struct LocalCells {
    pub(crate) places: BTreeMap<Base, ContentsAt>,
    pub(crate) stored: StoreTargets,
    pub(crate) calls: Vec<PunnedCall>,
    pub(crate) params: BTreeMap<Base, usize>,
    pub(crate) data: BTreeMap<Base, DataKey>,
    pub(crate) addressed: Vec<(u64, FuncKey)>,
}

/// What all functions do, their callees included.
#[derive(Clone, Debug, Default)]
pub struct PunnedCells {
    funcs: HashMap<FuncKey, (Vec<ContentsAt>, StoreTargets)>,
    data: HashMap<DataKey, ContentsAt>,
    addressed: HashMap<u64, BTreeSet<FuncKey>>,
}

impl PunnedCells {
    /// Whether `f` or what it calls stores a float somewhere behind its parameter `i`.
    pub fn floats(&self, f: FuncKey, i: usize) -> bool {
        self.funcs.get(&f).is_some_and(|t| t.1.floats.contains(&i))
    }

    /// The same of pointers.
    pub fn pointers(&self, f: FuncKey, i: usize) -> bool {
        self.funcs.get(&f).is_some_and(|t| t.1.pointers.contains(&i))
    }

    /// From what functions do by themselves.
    pub fn compute(locals: &BTreeMap<FuncKey, LocalCells>) -> Self {
        let mut all = PunnedCells::default();
        for local in locals.values() {
            for &(signature, f) in &local.addressed {
                all.addressed.entry(signature).or_default().insert(f);
            }
        }
        loop {
            let mut changed = false;
            for (&f, local) in locals {
                let mut params = vec![ContentsAt::new(); local.params.len()];
                let near: Vec<_> =
                    local.everything(&all).filter(|x| x.1.unsigned_abs() <= FAR.unsigned_abs()).collect();
                for (base, off, held) in near {
                    if let Some(&i) = local.params.get(&base) {
                        note(&mut params[i], off, &held);
                    } else if let Some(&key) = local.data.get(&base) {
                        changed |= note(all.data.entry(key).or_default(), off, &held);
                    }
                }
                let mut stored = local.stored.clone();
                for call in &local.calls {
                    for g in all.targets(call.target) {
                        let Some((_, there)) = all.funcs.get(&g) else { continue };
                        for (here, there) in
                            [(&mut stored.floats, &there.floats), (&mut stored.pointers, &there.pointers)]
                        {
                            here.extend(there.iter().filter_map(|&i| call.args.get(i)).flat_map(|a| &a.from));
                        }
                    }
                }
                let new = (params, stored);
                if all.funcs.get(&f) != Some(&new) {
                    all.funcs.insert(f, new);
                    changed = true;
                }
            }
            if !changed {
                return all;
            }
        }
    }

    fn targets(&self, t: PunnedTarget) -> Vec<FuncKey> {
        match t {
            PunnedTarget::Direct(f) => vec![f],
            PunnedTarget::Signature(s) => self.addressed.get(&s).into_iter().flatten().copied().collect(),
        }
    }

    /// The places that a call reaches, in the caller's terms.
    fn reached(&self, call: &PunnedCall) -> Vec<(Cell, CellContents)> {
        let mut out = Vec::new();
        for f in self.targets(call.target) {
            let Some((params, _)) = self.funcs.get(&f) else { continue };
            for (arg, places) in call.args.iter().zip(params) {
                let Some((base, at)) = arg.cell else { continue };
                for (off, held) in places {
                    let mut here = CellContents { kinds: held.kinds, params: BTreeSet::new() };
                    for stored in held.params.iter().filter_map(|&j| call.args.get(j)) {
                        if stored.pointer {
                            here.kinds = here.kinds.join(Kinds::POINTER);
                        }
                        here.params.extend(&stored.from);
                    }
                    out.push(((base, at.wrapping_add(*off)), here));
                }
            }
        }
        out
    }
}

fn note(places: &mut ContentsAt, off: i64, held: &CellContents) -> bool {
    let e = places.entry(off).or_default();
    let old = e.clone();
    e.kinds = e.kinds.join(held.kinds);
    e.params.extend(&held.params);
    *e != old
}

impl LocalCells {
    pub(crate) fn note(&mut self, (base, off): Cell, held: &CellContents) {
        note(self.places.entry(base).or_default(), off, held);
    }

    /// Its own places and those of its callees.
    fn everything<'a>(&'a self, all: &'a PunnedCells) -> impl Iterator<Item = (Base, i64, CellContents)> + 'a {
        let local = self.places.iter().flat_map(|(b, ps)| ps.iter().map(|(off, h)| (*b, *off, h.clone())));
        let calls = self.calls.iter().flat_map(|call| all.reached(call));
        local.chain(calls.map(|((b, off), h)| (b, off, h)))
    }
}

/// Where pointers are in the places that a function knows, its callees' doings included.
#[derive(Clone, Debug, Default)]
pub struct PointerCells {
    places: BTreeMap<Base, ContentsAt>,
    /// Floats that calls store, and pointers that they store or load.
    stored: HashMap<ir::Inst, Vec<(Cell, u32)>>,
    pointers: HashMap<ir::Inst, Vec<Cell>>,
}

impl PointerCells {
    /// For one variant of a function.
    pub fn compute(local: &LocalCells, all: &PunnedCells) -> Self {
        let mut here = PointerCells::default();
        for (base, off, held) in local.everything(all) {
            note(here.places.entry(base).or_default(), off, &held);
        }
        for (base, key) in &local.data {
            for (off, held) in all.data.get(key).into_iter().flatten() {
                note(here.places.entry(*base).or_default(), *off, held);
            }
        }
        for call in &local.calls {
            let floats = all.reached(call).into_iter().filter(|x| x.1.kinds.has_float());
            let width = |k: Kinds| if k.has(Kinds::F64) { 8 } else { 4 };
            here.stored.insert(call.inst, floats.map(|(cell, h)| (cell, width(h.kinds))).collect());
            let pointers = all.reached(call).into_iter().filter(|x| x.1.kinds.has(Kinds::POINTER));
            here.pointers.insert(call.inst, pointers.map(|x| x.0).collect());
        }
        here
    }

    /// Whether a pointer may be in some of these bytes at one time or another.
    pub fn pointer(&self, (base, off): Cell, bytes: u32) -> bool {
        let places = self.places.get(&base).into_iter();
        places
            .flat_map(|ps| ps.range(off.saturating_sub(7)..off.saturating_add(i64::from(bytes))))
            .any(|(_, h)| h.kinds.has(Kinds::POINTER))
    }

    /// Whether a float that is no constant is stored in some of the eight bytes of a pointer at one
    /// time or another.
    pub fn float(&self, (base, off): Cell) -> bool {
        let places = self.places.get(&base).into_iter();
        places.flat_map(|ps| ps.range(off.saturating_sub(7)..off.saturating_add(8))).any(|(&o, h)| {
            let width = if h.kinds.has(Kinds::F64) { 8 } else { 4 };
            h.kinds.has_float() && o + width > off
        })
    }

    /// The places where a call has to do with pointers.
    pub fn pointers_of(&self, call: ir::Inst) -> &[Cell] {
        self.pointers.get(&call).map_or(&[], |s| s)
    }

    /// The places, with their sizes, where a call stores floats.
    pub fn stored_by(&self, call: ir::Inst) -> &[(Cell, u32)] {
        self.stored.get(&call).map_or(&[], |s| s)
    }
}
