//! Width inference: lane widths of integers that carry float bits.
//!
//! **Question.** An integer of eight bytes that carries floats may be one double or two singles.
//! Which?
//!
//! **Answer.** From where integers become or were floats, along moves, both ways. Across calls as
//! far as the callees say what becomes of their parameters and where their results come from, and
//! which of them they hand on ([`Link`]): a callee that returns what it is given need not know
//! whose bits they are, but its callers on both sides do. What instructions say comes first; then
//! what callers say, what else lies in the same place, and what callees say, each only of what has
//! no width by then.
//!
//! ```text
//! v1 = load.i64 v0        8: v2 says so, by way of v1
//! v2 = bitcast.f64 v1
//! store v1, v3            8
//! ```
//!
//! **Cost.** Moves are collected once; each value gets a width at most once.

use std::collections::hash_map::Entry;

use brolga_ir::inst::Shape;
use brolga_ir::map::{HashMap, one_each};
use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::{EntitySet, SecondaryMap};
use smallvec::SmallVec;

use super::ulp::Steps;
use crate::kinds::contents::Contents;
use crate::kinds::loaded_bits::moves_half;
use crate::kinds::pointers::{PointerInput, Pointers};
use crate::lattice::kinds::Kinds;
use crate::query::callee::CalleeKind;
use crate::query::cell::{Base, Cell, cell_of};
use crate::query::{access_address, access_offset, is_plain_integer};
use crate::summary::{End, Link, Summaries};
use crate::variant::{ParamMode, ResultMode};

/// What is known before.
#[derive(Clone, Copy)]
pub struct LaneInput<'a> {
    /// The function, and modes of its parameters.
    pub of: &'a PointerInput<'a>,
    /// Modes of its results.
    pub results: &'a [ResultMode],
    /// Pointers and deltas.
    pub pointers: &'a Pointers,
    /// What memory holds.
    pub contents: &'a Contents,
    /// Numbers that are added to floats' bits.
    pub steps: &'a Steps,
}

/// Integers that have the same bits, in whole or in part.
#[derive(Default)]
struct BitEqualities {
    pairs: Vec<(ir::Value, ir::Value)>,
    /// One is a half of the other.
    halves: Vec<(ir::Value, ir::Value)>,
    /// By way of a callee, which moves floats of so many bytes.
    links: Vec<(ir::Value, ir::Value, u32)>,
}

/// Lane widths of the integers of a function; zero where none is known.
pub fn lanes(i: &LaneInput<'_>) -> SecondaryMap<ir::Value, u32> {
    let (mut lane, hints, moves) = collect(i);
    settle(i.of.func, &moves, &mut lane, Halves::BothWays);
    // Of what has a width by now, others only think that they know another.
    for hints in hints {
        for (v, width) in hints {
            if lane[v] == 0 {
                lane[v] = width;
            }
        }
        settle(i.of.func, &moves, &mut lane, Halves::OfWords);
    }
    lane
}

/// The ends that moves lead from one to another, whatever is known of their lanes.
pub fn links(i: &LaneInput<'_>) -> Vec<Link> {
    let (func, cfg, moves) = (i.of.func, i.of.cfg, collect(i).2);
    let mut ends: Vec<(End, ir::Value)> = Vec::new();
    let formal = func.dfg.block_params(cfg.blocks[0]).iter().enumerate();
    ends.extend(formal.map(|(n, &v)| (End::Param(n), v)));
    for &b in &cfg.blocks {
        let last = func.layout.last_inst(b).expect("a block has a terminator");
        if func.dfg.insts[last].opcode() == Opcode::Return {
            ends.extend(func.dfg.inst_args(last).iter().enumerate().map(|(n, &v)| (End::Result(n), v)));
        }
    }
    ends.retain(|&(_, v)| is_plain(i, v));
    let mut found = Vec::new();
    if !ends.iter().any(|e| matches!(e.0, End::Result(_))) {
        return found;
    }
    for bytes in [4, 8] {
        let mut next: SecondaryMap<ir::Value, SmallVec<[ir::Value; 4]>> = SecondaryMap::new();
        let full_width = moves.pairs.iter().copied();
        let halves = moves.halves.iter().copied().filter(|_| bytes == 4);
        let calls = moves.links.iter().filter(|l| l.2 == bytes).map(|l| (l.0, l.1));
        for (x, y) in full_width.chain(halves).chain(calls) {
            if [x, y].iter().all(|&v| func.dfg.value_type(v).bytes() >= bytes) {
                next[x].push(y);
                next[y].push(x);
            }
        }
        for &(from, v) in ends.iter().filter(|e| func.dfg.value_type(e.1).bytes() >= bytes) {
            let (mut seen, mut work) = (EntitySet::new(), vec![v]);
            while let Some(v) = work.pop() {
                if seen.insert(v) {
                    work.extend(&next[v]);
                }
            }
            let reached = ends.iter().filter(|&&(to, w)| from < to && seen.contains(w));
            found.extend(reached.map(|&(to, _)| Link { ends: (from, to), bytes }));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether a value is an integer that may carry a float's bits.
fn is_plain(i: &LaneInput<'_>, v: ir::Value) -> bool {
    Shape::of_float(i.of.func.dfg.value_type(v)).is_none() && !i.pointers.address.contains(v)
}

/// What is said of a word by the width of its halves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Halves {
    /// That it is two singles, if one half is known to be one.
    BothWays,
    /// Nothing: what is only thought of a half (it may be any small number that a word is made of)
    /// is not thought of the word.
    OfWords,
}

/// Widths that are known less certainly than others: from callers; from what is in the same place
/// of memory; and from callees, and what else is in memory.
type Hints = [Vec<(ir::Value, u32)>; 3];

/// What instructions say, and how values are moved.
fn collect(i: &LaneInput<'_>) -> (SecondaryMap<ir::Value, u32>, Hints, BitEqualities) {
    let mut hints = Hints::default();
    let (func, cfg) = (i.of.func, i.of.cfg);
    let mut lane: SecondaryMap<ir::Value, u32> = one_each(func.dfg.num_values());
    let ty = |v: ir::Value| func.dfg.value_type(v);
    let is_float = |v: ir::Value| Shape::of_float(ty(v)).is_some();
    let BitEqualities { mut pairs, mut halves, mut links } = BitEqualities::default();
    let mut places: HashMap<Cell, ir::Value> = HashMap::default();
    for (n, &v) in func.dfg.block_params(cfg.blocks[0]).iter().enumerate() {
        if let ParamMode::Bits { shape, .. } = i.of.params[n]
            && !matches!(shape, Shape::Bytes { .. })
        {
            hints[0].push((v, shape.lane_bytes()));
        }
    }
    for &b in &cfg.blocks {
        for &s in &cfg.succs[b] {
            pairs.extend(cfg.args(b, s).iter().copied().zip(func.dfg.block_params(s).iter().copied()));
        }
        for &inst in cfg.insts(b) {
            let args = func.dfg.inst_args(inst);
            let results = func.dfg.inst_results(inst);
            match func.dfg.insts[inst].opcode() {
                Opcode::Bitcast => {
                    let (x, r) = (args[0], results[0]);
                    for (f, n) in [(x, r), (r, x)] {
                        if let Some(s) = Shape::of_float(ty(f))
                            && !is_float(n)
                        {
                            lane[n] = s.lane_bytes();
                        }
                    }
                    pairs.push((x, r));
                }
                Opcode::Select | Opcode::SelectSpectreGuard | Opcode::Bitselect | Opcode::Blendv => {
                    pairs.extend(args[1..].iter().map(|&a| (a, results[0])));
                }
                Opcode::Band
                | Opcode::Bor
                | Opcode::Bxor
                | Opcode::Bnot
                | Opcode::Shuffle
                | Opcode::Swizzle
                | Opcode::Splat
                | Opcode::Insertlane
                | Opcode::Extractlane
                | Opcode::ScalarToVector
                | Opcode::Isplit
                | Opcode::Iconcat
                | Opcode::X86Pshufb => {
                    pairs.extend(args.iter().flat_map(|&a| results.iter().map(move |&r| (a, r))));
                }
                Opcode::Uextend | Opcode::Ireduce | Opcode::Ishl | Opcode::Ushr if moves_half(func, inst) => {
                    halves.push((args[0], results[0]));
                }
                Opcode::Iadd | Opcode::Isub | Opcode::Ushr | Opcode::Sshr | Opcode::Udiv | Opcode::Sdiv => {
                    pairs.extend(i.steps.of(inst).map(|n| (args[n], results[0])));
                }
                Opcode::Load | Opcode::Store | Opcode::AtomicLoad | Opcode::AtomicStore => {
                    of_access(i, inst, &mut hints, &mut pairs, &mut places);
                }
                Opcode::Call => of_call(i, inst, &mut hints[2], &mut links),
                Opcode::Return => {
                    for (n, &v) in args.iter().enumerate() {
                        if let ResultMode::Bits(s) = i.results[n]
                            && !matches!(s, Shape::Bytes { .. })
                        {
                            hints[0].push((v, s.lane_bytes()));
                        }
                    }
                }
                _ => {}
            }
        }
    }
    pairs.retain(|&(x, y)| !is_float(x) && !is_float(y));
    (lane, hints, BitEqualities { pairs, halves, links })
}

/// What an access says: the width of what memory holds there, and what else lies in that place.
fn of_access(
    i: &LaneInput<'_>,
    inst: ir::Inst,
    hints: &mut Hints,
    pairs: &mut Vec<(ir::Value, ir::Value)>,
    places: &mut HashMap<Cell, ir::Value>,
) {
    let func = i.of.func;
    let addr = access_address(func, inst).expect("an access has an address");
    let v = func.dfg.inst_results(inst).first().copied().unwrap_or(func.dfg.inst_args(inst)[0]);
    if !is_plain(i, v) {
        return;
    }
    let cell = cell_of(func, addr, access_offset(func, inst));
    if i.pointers.root(v).is_none() {
        let over = i.contents.float_overlaps(cell, func.dfg.value_type(v).bytes());
        let k = match over {
            Kinds::NONE => kinds_at(func, i.contents, i.of.summaries, inst, addr),
            over => over,
        };
        if let Some(shape) = k.shape(func.dfg.value_type(v).bytes()) {
            hints[1 + usize::from(over == Kinds::NONE)].push((v, shape.lane_bytes()));
        }
    }
    // What lies in one place is one thing; memory of which nothing is known is
    // taken as one place.
    let place = match i.contents.of_class(addr) {
        Kinds::NONE => (Base::Value(i.contents.find(addr)), 0),
        _ => cell,
    };
    match places.entry(place) {
        Entry::Occupied(first) => pairs.push((*first.get(), v)),
        Entry::Vacant(first) => drop(first.insert(v)),
    }
}

/// What a call says: the widths that a derived callee knows of, and values that it moves.
fn of_call(
    i: &LaneInput<'_>,
    inst: ir::Inst,
    hints: &mut Vec<(ir::Value, u32)>,
    links: &mut Vec<(ir::Value, ir::Value, u32)>,
) {
    let func = i.of.func;
    let (args, results) = (func.dfg.inst_args(inst), func.dfg.inst_results(inst));
    let ty = |v: ir::Value| func.dfg.value_type(v);
    let Some(CalleeKind::Derived(f)) = CalleeKind::of(i.of.program, func, inst) else { return };
    let mut learn = |v: ir::Value, bytes: u32| {
        let fits = ty(v).bytes() >= bytes;
        if bytes != 0 && fits && Shape::of_float(ty(v)).is_none() && !i.pointers.address.contains(v) {
            hints.push((v, bytes));
        }
    };
    args.iter().enumerate().for_each(|(n, &v)| learn(v, i.of.summaries.param_lane(f, n)));
    results.iter().enumerate().for_each(|(n, &v)| learn(v, i.of.summaries.result_lane(f, n)));
    let end = |e: End| match e {
        End::Param(n) => args[n],
        End::Result(n) => results[n],
    };
    let linked = i.of.summaries.links(f).iter().map(|l| (end(l.ends.0), end(l.ends.1), l.bytes));
    links.extend(linked.filter(|l| is_plain(i, l.0) && is_plain(i, l.1)));
}

/// Carry lanes along moves. Those are in the order of the program, which most chains of them
/// follow, or go against.
fn settle(func: &ir::Function, moves: &BitEqualities, lane: &mut SecondaryMap<ir::Value, u32>, halves: Halves) {
    let bytes = |v: ir::Value| func.dfg.value_type(v).bytes();
    // A half of a word can be one single, never part of a double.
    let full_width = moves.pairs.iter().map(|&(x, y)| (x, y, [4, 8]));
    let split = moves.halves.iter().map(|&(x, y)| (x, y, [4, 4]));
    let calls = moves.links.iter().map(|&(x, y, n)| (x, y, [n, n]));
    let all: Vec<_> = full_width.chain(split).chain(calls).collect();
    let half_of_word = |x, y| halves == Halves::BothWays || bytes(x) >= bytes(y);
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for &(x, y, widths) in all.iter().chain(all.iter().rev()) {
            for (from, to) in [(x, y), (y, x)] {
                let width = lane[from];
                if lane[to] == 0 && widths.contains(&width) && bytes(to) >= width && half_of_word(from, to) {
                    lane[to] = width;
                    changed = true;
                }
            }
        }
    }
}

/// What the place of an access holds: by cell, by class, or by alias region (a frontend's regions
/// mean the same thing in all functions of a program).
pub(super) fn kinds_at(
    func: &ir::Function,
    contents: &Contents,
    summaries: &Summaries,
    inst: ir::Inst,
    addr: ir::Value,
) -> Kinds {
    if is_plain_integer(func, inst) {
        return Kinds::INT;
    }
    let k = contents.at(cell_of(func, addr, access_offset(func, inst)), addr);
    if k.moved() != Kinds::NONE {
        return k;
    }
    let region = func.dfg.insts[inst].alias_region(&func.dfg).map(|r| func.dfg.alias_regions[r].user_id);
    region.map_or(k, |r| k.join(summaries.region(r)))
}

/// What memory holds where an access leads, as far as the function, its callers and its callees
/// see: there, or elsewhere in what cannot be told apart from it.
pub fn kinds_around(
    func: &ir::Function,
    contents: &Contents,
    summaries: &Summaries,
    inst: ir::Inst,
    addr: ir::Value,
) -> Kinds {
    let region = func.dfg.insts[inst].alias_region(&func.dfg).map(|r| func.dfg.alias_regions[r].user_id);
    contents.of_class(addr).join(region.map_or(Kinds::NONE, |r| summaries.region(r)))
}
