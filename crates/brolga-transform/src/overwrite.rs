//! Shadows that are stored, not added to.
//!
//! **Problem.** The reverse of `z = load a` is `shadow[a] += z̄`: a load, an addition and a store, after somebody has filled
//! the shadow with zeros. Where the caller says that a shadow holds nothing before the call (`Request::fresh`), and nothing
//! else is ever added to that place, a store is enough, and the zeros are, too, for nothing. That is what an adjoint written
//! by hand does.
//!
//! **Algorithm.** For each argument whose memory the function only reads and that no other pointer reaches (`noalias`): find
//! all loads of it by following its uses. If the pointer goes anywhere else (into a call, into memory), nothing is known. All
//! active loads must be in one nest of loops, at addresses that differ by constants ([`crate::affine`]), and that are never
//! the same in two turns: the innermost loop steps over as many bytes as they cover together, each outer one over what the
//! whole loop in it has covered. Of loads of the same place in one block the last is the first in reverse; it stores, the
//! others add. Where only a run can tell whether turns read the same place, it is asked ([`crate::ascending`]).
//!
//! **Who zeroes.** An argument is *overwritten* if every place that the function reads is stored to. Then the zeros may be
//! left out. Beyond that it is asked that the nest runs whenever the function does, reads in every turn, and leaves no gaps,
//! so that what is left alone are places before and behind what was read, not some in the middle.
//!
//! **Wrapping.** Sums are modulo 2⁶⁴, so a loop comes back to a place after 2⁶⁴ / stride turns, and a turn need not access anything, nor run the loop in it. No run has
//! 2⁵¹ turns of a loop. That is enough for steps of up to [`SHORT_STEP`] bytes, of the innermost loop and of those around it up to the first that runs in each turn of all loops
//! around that: turns that are counted there have been made. Longer steps are followed where each turn of each loop accesses: on their way round, addresses come
//! through those that no process has, and fault ([`comes_round`]).

use brolga_analysis::contents::Use;
use brolga_analysis::{LoopId, Loops, ParamMode};
use brolga_ir::map::IndexMap;
use cranelift_codegen::ir::{self, InstructionData, Opcode};
use cranelift_entity::EntitySet;
use smallvec::SmallVec;

use crate::affine::{Affine, Atom, Sum};
use crate::ascending::{Order, Rows};
use crate::facts::Facts;
use crate::own::own;
use crate::summed::Total;

/// What is stored.
#[derive(Clone, Debug, Default)]
pub struct Overwrites {
    /// Loads whose reverse stores.
    pub stores: EntitySet<ir::Inst>,
    /// Stores whose reverse need not clear what it takes ([`crate::own`]).
    pub spent: EntitySet<ir::Inst>,
    /// Loads of arrays that are only added up, and their stores, each with its sum ([`crate::summed`]).
    pub summed: IndexMap<ir::Inst, Total>,
    /// Slots whose shadows the forward pass leaves alone.
    pub untouched: EntitySet<ir::StackSlot>,
    /// One per parameter: its shadow need not hold zeros before the call.
    pub whole: Vec<bool>,
    /// Loads whose reverse stores if a run finds that rows ascend ([`crate::ascending`]).
    pub rows: Vec<Rows>,
}

/// An access and its place.
pub(crate) struct Access {
    pub inst: ir::Inst,
    pub block: ir::Block,
    /// Address without its constant.
    pub at: Sum,
    /// First byte.
    pub first: i64,
    pub bytes: i64,
}

/// Look at the arguments whose shadows hold nothing before the call.
pub fn overwrites(facts: &Facts<'_>) -> Overwrites {
    let params = &facts.variant.params;
    let mut out = Overwrites { whole: vec![false; params.len()], ..Overwrites::default() };
    for (i, mode) in params.iter().enumerate() {
        let said = |list: &[bool]| list.get(i).copied().unwrap_or(false);
        if matches!(mode, ParamMode::Dup { .. }) && said(&facts.variant.fresh) && said(&facts.variant.noalias) {
            argument(facts, i, &mut out);
        }
    }
    // What comes in pieces comes later than it seems, and is added.
    if facts.activity.moves_pieces(facts.program) {
        out = Overwrites { whole: vec![false; params.len()], ..Overwrites::default() };
    } else {
        own(facts, &mut out);
    }
    out
}

/// Finds the loads of an argument that store, and whether they overwrite its shadow. `None`: nothing is known.
fn argument(facts: &Facts<'_>, i: usize, out: &mut Overwrites) -> Option<()> {
    let func = facts.func();
    let entry = facts.cfg.blocks[0];
    let pointer = func.dfg.block_params(entry)[i];
    let loads = loads(facts, pointer)?;
    let block = |inst| func.layout.inst_block(inst).expect("it is in the layout");
    let active = |inst| facts.is_active(func.dfg.first_result(inst));
    let first = block(*loads.iter().find(|&&l| active(l))?);
    let nest = around(facts.loops, first);
    // What has one address in all turns of a loop is read in each of them.
    let moves = |addr| nest.last().is_none_or(|&l| facts.loops.contains(l, facts.cfg.def_block[addr].unwrap_or(entry)));
    if !loads.iter().filter(|&&l| active(l)).all(|&l| moves(func.dfg.inst_args(l)[0])) {
        return None;
    }
    let affine = Affine { func, loops: facts.loops };
    let reads: Vec<Access> = loads
        .iter()
        .map(|&inst| {
            let addr = func.dfg.inst_args(inst)[0];
            let (at, c) = affine.sum(addr, &nest).split_constant();
            let off = i64::from(brolga_analysis::activity::offset(func, inst));
            let bytes = i64::from(func.dfg.value_type(func.dfg.first_result(inst)).bytes());
            Access { inst, block: block(inst), at, first: c.wrapping_add(off), bytes }
        })
        .collect();
    let live: Vec<&Access> = reads.iter().filter(|r| active(r.inst)).collect();
    let one_nest = live.iter().all(|r| around(facts.loops, r.block) == nest && r.at == live[0].at);
    // Blocks on other cycles run who knows how often; an address that two pointers lead to belongs to neither.
    let once = reads.iter().all(|r| !facts.loops.irreducible.contains(r.block));
    let (own, _) = live[0].at.factors(&[Atom::Value(pointer)])?;
    if !one_nest || !once || own[0].as_constant() != Some(1) {
        return None;
    }
    let blocks: Vec<ir::Block> = live.iter().map(|r| r.block).collect();
    let stride = stride(&affine, &live[0].at, &blocks, &nest);
    let rows = if stride.is_none() && facts.options.ideas.ascending {
        Order::of_rows(facts, affine, &live, &nest)
    } else {
        None
    };
    let (chosen, covered) = disjoint(&live, stride.or(rows.as_ref().map(|r| r.1))?)?;

    let l = facts.loops;
    let returns = || facts.cfg.blocks.iter().filter(|&&b| facts.cfg.succs[b].is_empty() && returns(func, b));
    let start = nest.first().map_or(first, |&l0| l.loops[l0].header);
    let always = returns().all(|&r| l.dominates(start, r))
        && live.iter().all(|r| {
            nest.is_empty() && returns().all(|&b| l.dominates(r.block, b))
                || !nest.is_empty()
                    && (0..nest.len())
                        .all(|k| each_turn(l, nest[k], nest.get(k + 1).map_or(r.block, |&inner| l.loops[inner].header)))
        });
    let whole = covered && always && live.len() == reads.len();
    match rows {
        None => {
            out.stores.extend(chosen);
            out.whole[i] = whole;
        }
        Some((order, _)) => out.rows.push(Rows { order, loads: chosen, whole: whole.then_some(i) }),
    }
    Some(())
}

fn returns(func: &ir::Function, b: ir::Block) -> bool {
    func.layout.last_inst(b).is_some_and(|i| func.dfg.insts[i].opcode().is_return())
}

/// The loops around a block, outermost first.
pub(crate) fn around(loops: &Loops, b: ir::Block) -> SmallVec<[LoopId; 4]> {
    let mut out = SmallVec::new();
    let mut at = loops.innermost[b];
    while let Some(l) = at {
        out.push(l);
        at = loops.loops[l].parent;
    }
    out.reverse();
    out
}

/// All loads through a pointer, in layout order; `None` if it is used for anything else.
fn loads(facts: &Facts<'_>, pointer: ir::Value) -> Option<Vec<ir::Inst>> {
    let func = facts.func();
    let mut seen: EntitySet<ir::Value> = EntitySet::new();
    let mut found: EntitySet<ir::Inst> = EntitySet::new();
    let mut work = vec![pointer];
    while let Some(v) = work.pop() {
        if !seen.insert(v) {
            continue;
        }
        for u in facts.uses.of(v) {
            match *u {
                Use::Inst(inst, _) => match func.dfg.insts[inst] {
                    InstructionData::Load { opcode: Opcode::Load, .. } => {
                        found.insert(inst);
                    }
                    InstructionData::Binary { opcode: Opcode::Iadd | Opcode::Isub, .. } => {
                        work.push(func.dfg.first_result(inst));
                    }
                    InstructionData::IntCompare { .. } => {}
                    _ => return None,
                },
                Use::Edge(_, param) => work.push(param),
            }
        }
    }
    let insts = facts.cfg.all_insts().iter().copied();
    Some(insts.filter(|i| found.contains(*i)).collect())
}

/// By how many bytes an address in these blocks of the innermost loop differs from turn to turn; `i64::MAX` outside of loops. `None` if two
/// turns may read the same place.
pub(crate) fn stride(affine: &Affine<'_>, at: &Sum, blocks: &[ir::Block], nest: &[LoopId]) -> Option<i64> {
    let Some(&innermost) = nest.last() else { return Some(i64::MAX) };
    // Who moves: each loop by itself, or several of them together.
    let mut movers: Vec<(Atom, usize)> = Vec::new();
    for a in at.atoms() {
        if let Atom::Walk(l, outer) = a {
            let place = |x| nest.iter().position(|&n| n == x);
            movers.push((a, place(outer)?));
            // The last turn of each run only asks whether there is another; what it holds is where the next run begins.
            let lp = &affine.loops.loops[l];
            let asks_first = lp.exits.iter().all(|e| e.0 == lp.header) && !blocks.contains(&lp.header);
            if l != innermost || !asks_first {
                return None;
            }
        }
    }
    let first_walk = match movers[..] {
        [] => nest.len(),
        [(_, outer)] => outer,
        _ => return None,
    };
    let mut atoms: Vec<Atom> = nest[..first_walk].iter().map(|&l| Atom::Turns(l)).collect();
    atoms.extend(movers.iter().map(|m| m.0));
    let (factors, rest) = at.factors(&atoms)?;
    // What is left may not change in the nest.
    let fixed = |s: &Sum| is_fixed(affine, s, nest[0]);
    if !fixed(&rest) || !factors.iter().all(fixed) || comes_round(affine.loops, &factors, blocks, nest) {
        return None;
    }
    let stride = factors.last()?.as_constant()?;
    if stride == 0 || stride == i64::MIN {
        return None;
    }
    // The turn that only asks reads the place where the next run of the loop begins.
    let header = affine.loops.loops[innermost].header;
    if factors.len() > 1 && blocks.contains(&header) {
        return None;
    }
    // From the inside out: a loop steps over what a whole run of the loop in it has covered.
    for k in (0..factors.len() - 1).rev() {
        if k + 1 == first_walk {
            // A walk is over when its outer loop is, whose turns nobody counts.
            return None;
        }
        let trips = affine.trips(nest[k + 1], &nest[..=k])?;
        let covered = factors[k + 1].times(&trips);
        if covered != factors[k] {
            return None;
        }
    }
    Some(stride.abs())
}

/// No run makes two to the power of this many turns: three weeks at a turn a nanosecond.
pub(crate) const MOST_TURNS: u32 = 51;
/// The longest step of which a run does not make so many that they sum up to half of all addresses.
pub(crate) const SHORT_STEP: u64 = 1 << (63 - MOST_TURNS);
/// The longest step that cannot lead over all addresses that no process has.
pub(crate) const LONG_STEP: u64 = 1 << 32;
/// Constants that are farther from zero, added to what turns make, might sum up to all addresses.
const FAR: u64 = 1 << 61;

/// Whether turns of a nest of loops may come to a place again since sums are modulo 2⁶⁴: turns of its loops, from the outside in, step by `factors`, and accesses
/// are in these blocks of the innermost loop.
fn comes_round(loops: &Loops, factors: &[Sum], blocks: &[ir::Block], nest: &[LoopId]) -> bool {
    let at_most = |s: &Sum, most: u64| s.as_constant().is_some_and(|c| c != 0 && c.unsigned_abs() <= most);
    // Of a pointer that walks through the nest only the innermost loop's turns count.
    let nest = if factors.len() < nest.len() { &nest[nest.len() - 1..] } else { nest };
    let passed_by = nest.windows(2).position(|w| !each_turn(loops, w[0], loops.loops[w[1]].header));
    let all_access = || blocks.iter().all(|&b| each_turn(loops, nest[nest.len() - 1], b));
    let longest = if passed_by.is_none() && all_access() { LONG_STEP } else { SHORT_STEP };
    !factors[passed_by.unwrap_or(factors.len() - 1)..].iter().all(|s| at_most(s, longest))
}

/// Whether each turn of a loop that comes to its latch has run a block.
pub(crate) fn each_turn(loops: &Loops, l: LoopId, b: ir::Block) -> bool {
    loops.loops[l].latches.iter().all(|&latch| loops.dominates(b, latch))
}

/// Whether a sum is the same in all turns of a loop.
pub(crate) fn is_fixed(affine: &Affine<'_>, s: &Sum, l: LoopId) -> bool {
    s.atoms().all(|a| match a {
        Atom::Value(v) => {
            let b = match affine.func.dfg.value_def(v) {
                ir::ValueDef::Param(b, _) => Some(b),
                ir::ValueDef::Result(i, _) => affine.func.layout.inst_block(i),
                ir::ValueDef::Union(..) => None,
            };
            b.is_some_and(|b| !affine.loops.contains(l, b))
        }
        _ => false,
    })
}

/// Which of these reads in one turn store, if no two of them overlap but those of the same place in one block; and whether
/// they leave no gap.
pub(crate) fn disjoint(live: &[&Access], stride: i64) -> Option<(Vec<ir::Inst>, bool)> {
    let looped = stride != i64::MAX;
    if live.iter().any(|r| r.first.unsigned_abs() >= FAR) {
        return None;
    }
    // In layout order, so that of reads of one place the last remains.
    let mut places: Vec<(i64, i64, ir::Block, ir::Inst)> = Vec::new();
    for r in live {
        let first = if looped { r.first.rem_euclid(stride) } else { r.first };
        let same = |p: &&mut (i64, i64, ir::Block, ir::Inst)| p.0 == first && p.1 == r.bytes && p.2 == r.block;
        if let Some(p) = places.iter_mut().find(same)
            && live.iter().any(|q| q.inst == p.3 && q.first == r.first)
        {
            p.3 = r.inst;
        } else {
            places.push((first, r.bytes, r.block, r.inst));
        }
    }
    places.sort_unstable_by_key(|p| p.0);
    let mut covered = true;
    for w in places.windows(2) {
        let end = w[0].0.checked_add(w[0].1)?;
        if w[1].0 < end {
            return None;
        }
        covered &= w[1].0 == end;
    }
    if looped {
        let last = places.last()?;
        if last.0 + last.1 > stride {
            return None;
        }
        covered &= places[0].0 == 0 && last.0 + last.1 == stride;
    }
    Some((places.into_iter().map(|p| p.3).collect(), covered))
}
