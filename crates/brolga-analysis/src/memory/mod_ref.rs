//! Mod/ref analysis: what memory a function may write to, and what it reads, for its callers.
//!
//! **Question.** Which bytes does a call change that its caller can see?
//!
//! **Answer.** An *effect* for each function, joined over its calls until nothing changes.
//!
//! **Lattice.** An effect is a short list of [`Region`]s, none of which lies within another: bytes
//! at some distance from where a parameter points, or anywhere, and in which
//! [blocks](crate::memory::points_to) of the program's allocator that may be. A function's effect
//! is the join of its own writes and of those of the functions that it calls, seen through the
//! arguments that it passes. Regions about the same parameter and the same blocks become one with a
//! span that has both in it, but for what lies before where the parameter points: in
//! WebAssembly those are globals and sizes, and after is all of memory.
//!
//! **Not seen** by callers are the function's own stack slots, which are gone when it has returned,
//! and the blocks that it has allocated itself, C's as well as the program's. They did not exist
//! before the call, and whatever is loaded from them after it is loaded after these writes. If
//! their bytes were another block's before, that has been released, which is a write to it.
//!
//! **Errs** on the side of anything: calls through pointers, functions of the embedder, whatever is
//! not known to be harmless. Spans that keep growing through recursion have no bounds.
//!
//! What a call of the program's allocator writes is taken on trust where it is not plain to see
//! ([`MOST_STATE`]): nothing that the program reads ([`Allocator`]) but what lies before
//! memory (its size), and the block that is released.
//!
//! In WebAssembly it tells functions that only compute, or only write globals, from those that
//! write to memory, and which arrays the latter write to.
//!
//! What a function *loads* is told in the same way, and says what may be written before it runs
//! without its noticing ([`crate::calls::joint`]). What it *reads* is a set of parameters: a load
//! whose address is made from a parameter reads through that, any other reads what is not a
//! parameter's. It serves to tell what is worth knowing of a call ([`crate::memory::preserved`]);
//! nothing relies on it.
//!
//! **Cost.** Rounds over all functions until nothing changes, [`MOST_ROUNDS`] at most, with
//! [`MOST_PARTS`] regions for each function.

use brolga_ir::map::HashMap;
use brolga_ir::{Allocator, FuncKey, Program};
use brolga_rules::{MathKind, MemFn};
use cranelift_codegen::ir::{self, InstructionData, Opcode};
use smallvec::{SmallVec, smallvec};

use crate::lattice::points_to_set::{REST, Set};
use crate::memory::points_to::{self, Blocks, PointerFlow};
use crate::query::callee::CalleeKind;

use crate::body::Body;
use crate::memory::alias::{self, Origin, Place, Places};

/// The first byte and after the last, from some address; `None` if there are no bounds.
pub type ByteRange = Option<(i64, i64)>;

/// Bytes that a function may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region {
    /// The parameter from which their distance is measured. `None` is anywhere.
    pub through: Option<usize>,
    /// That distance.
    pub span: ByteRange,
    /// What is in none of these blocks is not written: those that parameters lead to, or the rest.
    pub within: Set,
}

impl Region {
    const ANYTHING: Self = Self { through: None, span: None, within: REST };

    /// Of a write to a place; `None` if callers do not see it.
    fn of(place: &Place) -> Option<Self> {
        let within = place.within_blocks() & REST;
        match place.origin {
            _ if place.is_new() => None,
            Origin::Slot(_) | Origin::Alloc(_) => None,
            Origin::Param(i) => Some(Self { through: Some(i), span: place.span(), within }),
            Origin::Data(_) | Origin::Unknown => Some(Self { through: None, span: None, within }),
        }
    }

    /// Whether it lies before where the parameter points.
    fn in_front(&self) -> bool {
        self.span.is_some_and(|s| s.1 <= 0)
    }

    fn covers(&self, other: &Self) -> bool {
        let spans = match (self.span, other.span) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(a), Some(b)) => a.0 <= b.0 && b.1 <= a.1,
        };
        other.within & !self.within == 0 && (self.through.is_none() || self.through == other.through && spans)
    }

    /// Both, if they are measured from the same address.
    fn join(&self, other: &Self) -> Self {
        let span = self.span.zip(other.span).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1)));
        Self { through: self.through, span, within: self.within | other.within }
    }
}

/// Parts beyond which they are joined.
const MOST_PARTS: usize = 8;

/// Parts of memory, none of which lies within another, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Regions(Vec<Region>);

impl Regions {
    fn add(&mut self, part: Region) {
        if self.0.iter().any(|p| p.covers(&part)) {
            return;
        }
        let key = |p: &Region| (p.through, p.within, p.in_front());
        let same = self.0.iter().find(|p| key(p) == key(&part));
        let part = same.map_or(part, |p| p.join(&part));
        self.0.retain(|p| !part.covers(p));
        self.0.push(part);
        self.0.sort_unstable();
        if self.0.len() > MOST_PARTS {
            self.merge();
        }
    }

    /// One part for each parameter, or one.
    fn merge(&mut self) {
        let mut merged: Vec<Region> = Vec::new();
        for part in std::mem::take(&mut self.0) {
            match merged.last_mut() {
                // They are in order of their parameters.
                Some(last) if last.through == part.through => *last = last.join(&part),
                _ => merged.push(part),
            }
        }
        self.0 = if merged.len() > MOST_PARTS { vec![Region::ANYTHING] } else { merged };
    }

    /// The join, in which what grows has no bounds if so.
    fn joined(&self, other: &Self, unbounded: bool) -> Self {
        let mut all = self.clone();
        for part in &other.0 {
            let known = self.0.iter().any(|p| p.covers(part));
            all.add(if unbounded && !known { Region { span: None, ..*part } } else { *part });
        }
        all
    }
}

/// What a function does to memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    writes: Regions,
    loads: Regions,
    /// What it reads: parameters, and the rest.
    pub reads: Set,
}

impl Effect {
    /// It writes nothing that its caller could see.
    pub fn is_nothing(&self) -> bool {
        self.writes.0.is_empty()
    }

    /// What it may write.
    pub fn writes(&self) -> &[Region] {
        &self.writes.0
    }

    /// What it may read that is not constant and not its own.
    pub fn loads(&self) -> &[Region] {
        &self.loads.0
    }

    /// The join, in which what grows has no bounds if so.
    fn joined(&self, other: &Self, unbounded: bool) -> Self {
        Self {
            writes: self.writes.joined(&other.writes, unbounded),
            loads: self.loads.joined(&other.loads, unbounded),
            reads: self.reads | other.reads,
        }
    }
}

/// Rounds after which spans that still grow have no bounds.
const BOUNDED_ROUNDS: usize = 8;
/// Rounds after which what still changes is taken to be anything.
const MOST_ROUNDS: usize = 64;
/// Bytes of state that an allocator may write at places that do not vary, to be believed. What
/// writes to more is taken to write to all that lies before memory.
const MOST_STATE: i64 = 1 << 16;
/// Before memory, from where the instance pointer points.
const FRONT: (i64, i64) = (-(1 << 40), 0);

/// The effects of normalised functions, with their [`flows`](points_to::flows).
pub fn compute(
    program: &Program,
    funcs: &HashMap<FuncKey, Body<'_>>,
    flows: &HashMap<FuncKey, PointerFlow>,
) -> HashMap<FuncKey, Effect> {
    let mut order: Vec<FuncKey> = funcs.keys().copied().collect();
    order.sort_unstable();
    let blocks: HashMap<FuncKey, Blocks> = order
        .iter()
        .map(|&k| (k, Blocks::of_function(program, k, funcs[&k].func, funcs[&k].cfg, flows, &[])))
        .collect();
    let mut all: HashMap<FuncKey, Effect> = order.iter().map(|&k| (k, Effect::default())).collect();
    for round in 0.. {
        let mut changed = false;
        for &k in &order {
            let places = Places { program, func: funcs[&k].func, cfg: funcs[&k].cfg, blocks: &blocks[&k] };
            let mut now = all[&k].joined(&of_function(places, &all), round >= BOUNDED_ROUNDS);
            if now != all[&k] {
                if round >= MOST_ROUNDS {
                    now.writes.add(Region::ANYTHING);
                    now.loads.add(Region::ANYTHING);
                    now.reads = REST;
                }
                all.insert(k, now);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    all
}

fn of_function(places: Places<'_>, all: &HashMap<FuncKey, Effect>) -> Effect {
    let mut effect = Effect::default();
    for &b in &places.cfg.blocks {
        for inst in places.func.layout.block_insts(b) {
            written(places, inst, all).iter().filter_map(Region::of).for_each(|part| effect.writes.add(part));
            loaded(places, inst, all).iter().filter_map(Region::of).for_each(|part| effect.loads.add(part));
            effect.reads |= read(places, inst, all);
        }
    }
    effect
}

/// What an instruction reads, as far as it could be read again.
fn read(places: Places<'_>, inst: ir::Inst, all: &HashMap<FuncKey, Effect>) -> Set {
    let (program, func) = (places.program, places.func);
    match func.dfg.insts[inst] {
        InstructionData::Load { arg, .. } => alias::leads_to(places, arg) & REST,
        // An allocator is told nothing.
        InstructionData::Call { .. } if points_to::allocator_of(program, func, inst).is_some() => 0,
        InstructionData::Call { func_ref, .. } => {
            let effect = program.callee(func, func_ref).and_then(|k| all.get(&k));
            effect.map_or(0, |e| alias::through(places, func.dfg.inst_args(inst), e.reads) & REST)
        }
        _ => 0,
    }
}

/// The places that an instruction may read from, but for what is constant.
pub fn loaded(places: Places<'_>, inst: ir::Inst, all: &HashMap<FuncKey, Effect>) -> SmallVec<[Place; 2]> {
    let (program, func) = (places.program, places.func);
    let callee = match (func.dfg.insts[inst], CalleeKind::of(program, func, inst)) {
        (InstructionData::Load { flags, .. }, _) if func.dfg.mem_flags[flags].readonly() => return smallvec![],
        (data, None) if !data.opcode().can_load() => return smallvec![],
        (_, None) => return smallvec![places.of_access(inst)],
        (_, Some(CalleeKind::Known(r))) if matches!(r.kind, MathKind::Expr(_)) => return smallvec![],
        (_, Some(CalleeKind::Derived(k))) => Some(k),
        (_, Some(CalleeKind::Computes(_))) => called(program, func, inst),
        (_, Some(_)) => None,
    };
    let args = func.dfg.inst_args(inst);
    match callee.and_then(|k| all.get(&k)) {
        Some(effect) => effect.loads.0.iter().map(|part| through(places, args, part)).collect(),
        None => smallvec![Place::ANYWHERE.within(places.blocks.through(args, REST))],
    }
}

/// The places that an instruction may write to. A block that is freed counts as written.
pub fn written(places: Places<'_>, inst: ir::Inst, all: &HashMap<FuncKey, Effect>) -> SmallVec<[Place; 2]> {
    let (program, func) = (places.program, places.func);
    let op = func.dfg.insts[inst].opcode();
    if op.is_call() {
        let args = func.dfg.inst_args(inst);
        let anything = || smallvec![Place::ANYWHERE.within(places.blocks.through(args, REST))];
        let callee = match CalleeKind::of(program, func, inst) {
            Some(CalleeKind::Known(r)) => {
                return match r.kind {
                    MathKind::Memory(MemFn::Malloc | MemFn::Calloc | MemFn::Memcmp | MemFn::FreeAtEnd)
                    | MathKind::Expr(_)
                    | MathKind::Inactive => smallvec![],
                    MathKind::Memory(MemFn::Memcpy | MemFn::Memmove | MemFn::Memset) => {
                        smallvec![places.of_range(args[0], args[2])]
                    }
                    MathKind::Memory(MemFn::Free) if matches!(places.origin(args[0]), Origin::Alloc(_)) => {
                        smallvec![places.of_address(args[0]).unbounded()]
                    }
                    MathKind::Memory(MemFn::Realloc | MemFn::Free) | MathKind::Writes(..) => anything(),
                };
            }
            Some(CalleeKind::Derived(k) | CalleeKind::Plain(k)) => Some(k),
            Some(CalleeKind::Computes(_)) => called(program, func, inst),
            Some(CalleeKind::Host | CalleeKind::Missing(_) | CalleeKind::Indirect(_)) | None => None,
        };
        // Those of an allocator that is called as it is are not asked.
        let effect = callee.and_then(|k| all.get(&k));
        return match (points_to::allocator_of(program, func, inst), effect) {
            (Some(kind), effect) => by_allocator(places, args, kind, effect),
            (None, Some(effect)) => effect.writes.0.iter().map(|part| through(places, args, part)).collect(),
            (None, None) => anything(),
        };
    }
    if op.can_store() {
        return smallvec![places.of_access(inst)];
    }
    if op == Opcode::Fence { smallvec![Place::ANYWHERE] } else { smallvec![] }
}

/// What a part of a callee's memory is here, where these are its arguments.
fn through(places: Places<'_>, args: &[ir::Value], part: &Region) -> Place {
    let place = match (part.through, part.span) {
        (Some(i), Some(span)) => places.of_address(args[i]).shifted(span),
        (Some(i), None) => places.of_address(args[i]).unbounded(),
        (None, _) => Place::ANYWHERE,
    };
    place.within(places.blocks.through(args, part.within))
}

/// What the program sees of a call of its allocator. Even if nothing is done with a block that is
/// released, its bytes may be given out again.
fn by_allocator(
    places: Places<'_>,
    args: &[ir::Value],
    kind: Allocator,
    effect: Option<&Effect>,
) -> SmallVec<[Place; 2]> {
    let mut found = smallvec![];
    if let Allocator::Release { pointer } | Allocator::Reallocate { pointer } = kind {
        found.push(Place::ANYWHERE.within(places.blocks.of(args[pointer])));
    }
    if matches!(kind, Allocator::Release { .. }) {
        return found;
    }
    let instance = places.of_address(args[0]);
    let small = |p: &Region| p.through == Some(0) && p.span.is_some_and(|s| s.1 - s.0 <= MOST_STATE);
    match effect {
        // It is plain to see what that is, so that the program may read it after all: how far an
        // arena is used, say.
        Some(effect) if effect.writes.0.iter().all(small) => {
            found.extend(effect.writes.0.iter().filter_map(|p| p.span).map(|s| instance.shifted(s)));
        }
        _ => found.push(instance.shifted(FRONT)),
    }
    found
}

/// The function of the program that a direct call goes to.
fn called(program: &Program, func: &ir::Function, inst: ir::Inst) -> Option<FuncKey> {
    match func.dfg.insts[inst] {
        InstructionData::Call { func_ref, .. } => program.callee(func, func_ref),
        _ => None,
    }
}
