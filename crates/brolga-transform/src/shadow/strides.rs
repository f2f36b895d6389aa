//! Strides: how far an address moves from iteration to iteration, and whether accesses of different
//! iterations are apart.
//!
//! **Question.** May two iterations of a nest of loops access the same byte? **Answer.** By the sum
//! of an address ([`crate::primal::scev`]): each loop moves it by a multiple of a number, and where
//! that is more than the loops further in cover together, they do not. **Errs** on the side of yes.
//!
//! **Cost.** Linear in the products of a sum and in the loops of the nest; quadratic in the reads
//! of one iteration.

use brolga_analysis::{LoopId, Loops};
use cranelift_codegen::ir;
use smallvec::SmallVec;

use brolga_analysis::memory::alias::Origin;

use crate::facts::Facts;
use crate::primal::scev::{AffineContext, Atom, Sum};
use crate::shadow::access::ShadowAccess;

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

/// By how many bytes an address in these blocks of the innermost loop differs from iteration to
/// iteration; `i64::MAX` outside of loops. `None` if two iterations may read the same place.
pub(crate) fn stride(affine: &AffineContext<'_>, at: &Sum, blocks: &[ir::Block], nest: &[LoopId]) -> Option<i64> {
    let Some(&innermost) = nest.last() else { return Some(i64::MAX) };
    // What moves the address: each loop by itself, or several of them together.
    let mut movers: Vec<(Atom, usize)> = Vec::new();
    for a in at.atoms() {
        if let Atom::Walk(l, outer) = a {
            let place = |x| nest.iter().position(|&n| n == x);
            movers.push((a, place(outer)?));
            // The last iteration of each run only asks whether there is another; what it holds is
            // where the next run begins.
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
    let mut atoms: Vec<Atom> = nest[..first_walk].iter().map(|&l| Atom::TripCount(l)).collect();
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
    // The iteration that only asks reads the place where the next run of the loop begins.
    let header = affine.loops.loops[innermost].header;
    if factors.len() > 1 && blocks.contains(&header) {
        return None;
    }
    // From the inside out: a loop steps over what a whole run of the loop in it has covered.
    for k in (0..factors.len() - 1).rev() {
        if k + 1 == first_walk {
            // A walk is over when its outer loop is, whose iterations are not counted.
            return None;
        }
        let trips = affine.trips(nest[k + 1], &nest[..=k])?;
        let covered = factors[k + 1].times(&trips);
        if covered != factors[k] {
            return None;
        }
    }
    stride.checked_abs()
}

/// No run makes two to the power of this many iterations: three weeks at an iteration a nanosecond.
pub(crate) const MOST_ITERATIONS: u32 = 51;

/// The longest step of which a run does not make so many that they sum up to half of all addresses.
pub(crate) const SHORT_STEP: u64 = 1 << (63 - MOST_ITERATIONS);

/// The longest step that cannot lead over all addresses that no process has.
pub(crate) const LONG_STEP: u64 = 1 << 32;

/// Constants that are farther from zero, added to what iterations make, might sum up to all
/// addresses.
const FAR: u64 = 1 << 61;

/// Whether iterations of a nest of loops may come to a place again since sums are modulo 2⁶⁴:
/// iterations of its loops, from the outside in, step by `factors`, and accesses are in these
/// blocks of the innermost loop.
fn comes_round(loops: &Loops, factors: &[Sum], blocks: &[ir::Block], nest: &[LoopId]) -> bool {
    let at_most = |s: &Sum, most: u64| s.as_constant().is_some_and(|c| c != 0 && c.unsigned_abs() <= most);
    // Of a pointer that walks through the nest only the innermost loop's iterations count.
    let nest = if factors.len() < nest.len() { &nest[nest.len() - 1..] } else { nest };
    let passed_by = nest.windows(2).position(|w| !each_iteration(loops, w[0], loops.loops[w[1]].header));
    let all_access = || blocks.iter().all(|&b| each_iteration(loops, nest[nest.len() - 1], b));
    let longest = if passed_by.is_none() && all_access() { LONG_STEP } else { SHORT_STEP };
    !factors[passed_by.unwrap_or(factors.len() - 1)..].iter().all(|s| at_most(s, longest))
}

/// Whether each iteration of a loop that comes to its latch has run a block.
pub(crate) fn each_iteration(loops: &Loops, l: LoopId, b: ir::Block) -> bool {
    loops.loops[l].latches.iter().all(|&latch| loops.dominates(b, latch))
}

/// Whether a sum is the same in all iterations of a loop.
pub(crate) fn is_fixed(affine: &AffineContext<'_>, s: &Sum, l: LoopId) -> bool {
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

/// Which of these reads in one iteration store, if no two of them overlap but those of the same
/// place in one block; and whether they leave no gap.
pub(crate) fn disjoint(live: &[&ShadowAccess], stride: i64) -> Option<(Vec<ir::Inst>, bool)> {
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

/// The loops around a block in which a piece of memory stays the same one.
pub(crate) fn nest(facts: &Facts<'_>, origin: Origin, block: ir::Block) -> SmallVec<[LoopId; 4]> {
    let mut nest = around(facts.loops, block);
    if let Origin::Alloc(call) = origin {
        let made = facts.func().layout.inst_block(call).expect("it is in the layout");
        nest.retain(|l| !facts.loops.loops[*l].blocks.contains(made));
    }
    nest
}
