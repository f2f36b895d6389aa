//! Array contraction: the shadow of an array that is filled and then only added up is one scalar.
//!
//! **Problem.** After `a[i] = f(x[i])` for all `i`, `s += a[k]` for all `k`. In reverse, the second
//! loop fills the shadow of `a` with one number, the cotangent of `s`, and the first reads it back.
//! An adjoint by hand has neither the shadow nor the second loop.
//!
//! **Answer.** The number goes into a variable where the reverse of the second loop ends, and the
//! reverse of each store takes it from there. Nothing asks for the shadow then, nor for the array
//! where only a gradient is wanted, nor for the number of its elements: [`crate::dce`] removes
//! them.
//!
//! **Which arrays.** A [private](brolga_analysis::memory::escape) piece of memory, made outside of
//! loops, so that there is one of it, of which all accesses are known
//! ([`crate::shadow::local_memory`]), and
//! - it is read by one load only, in an outermost loop, in each iteration of it, from the first
//!   element to the last, and what is read is added to a sum that the loop carries, and used for
//!   nothing else;
//! - the sum leaves the loop as it is when the last element has been added, so that its cotangent
//!   is the same in every iteration;
//! - each store is to an element that the loop reads, and never to the same one twice: it steps
//!   over elements as the load does, and as many times in all;
//! - nothing overwrites an element between its store and the load. If it did, the cotangent would
//!   be zero.
//!
//! **Invariants.** The variable is zero until the loop has run in reverse. If it has not run, on a
//! way around it, the array has not been read, and zero is right. Numbers are the same as with the
//! shadow, bit for bit, since what is put there is stored, or added to zero.
//!
//! ```text
//! shadow of a[k] += s̄            for all k              t = s̄
//! x̄[i] += f'(x[i]) · shadow of a[i]           ⟶        x̄[i] += f'(x[i]) · t
//! ```
//!
//! **Cost.** For each array that one load reads a look at each of its accesses, of which there are
//! at most 64.
//!
//! **Source.** Array contraction, of a shadow (Wolfe, *High performance compilers for parallel
//! computing*, 1996).

use brolga_analysis::LoopId;
use brolga_analysis::memory::alias::Origin;
use brolga_analysis::uses::Use;
use cranelift_codegen::ir::{self, InstructionData, Opcode};

use crate::facts::Facts;
use crate::facts::overwrites::{ArraySum, Overwrites};
use crate::primal::scev::{AffineContext, Atom, Sum};
use crate::shadow::access::{Event, ShadowEffect};
use crate::shadow::strides::around;

/// Sums whose loop is left by an edge.
pub(crate) fn left<'a>(facts: &'a Facts<'_>, from: ir::Block, to: ir::Block) -> impl Iterator<Item = ArraySum> + 'a {
    let all = facts.overwrites.summed.iter();
    all.filter(move |(inst, t)| **inst == t.load && t.exit == (from, to)).map(|x| *x.1)
}

/// Look at a piece of memory: if it is only added up, note its load and its stores.
pub(crate) fn contract_array(facts: &Facts<'_>, origin: Origin, events: &[Event], out: &mut Overwrites) {
    let func = facts.func();
    if let Origin::Alloc(call) = origin
        && !func.layout.inst_block(call).is_some_and(|b| facts.cfg.is_acyclic(b))
    {
        return;
    }
    let mut loads = events.iter().filter(|e| e.does == ShadowEffect::Adds);
    let (Some(load), None) = (loads.next(), loads.next()) else { return };
    let Some((total, iterations)) = total(facts, load) else { return };
    let last = |e: &Event| out.spent.contains(e.access.inst);
    let fits = |e: &Event| match e.does {
        ShadowEffect::Adds => true,
        ShadowEffect::Takes => last(e) && within(facts, load, &iterations, e),
        ShadowEffect::Clears => last(e),
        ShadowEffect::Reads => false,
    };
    if events.iter().all(fits) {
        let both = events.iter().filter(|e| matches!(e.does, ShadowEffect::Adds | ShadowEffect::Takes));
        out.summed.extend(both.map(|e| (e.access.inst, total)));
    }
}

/// The sum that a load's elements are added to, and the number of iterations of its loop, each of
/// which reads the next element.
fn total(facts: &Facts<'_>, load: &Event) -> Option<(ArraySum, Sum)> {
    let func = facts.func();
    let InstructionData::Load { opcode: Opcode::Load, arg, .. } = func.dfg.insts[load.access.inst] else {
        return None;
    };
    let in_loop = facts.loops.innermost[load.access.block]?;
    let l = &facts.loops.loops[in_loop];
    let ([latch], [exit]) = (&l.latches[..], &l.exits[..]) else { return None };
    if l.parent.is_some() || !facts.cfg.is_acyclic(*l.entries.first()?) || !facts.sure(arg) {
        return None;
    }
    let step = Sum::default().plus(&Sum::atom(Atom::TripCount(in_loop)), load.access.bytes);
    if load.access.at != step {
        return None;
    }
    let (iterations, asks) = AffineContext { func, loops: facts.loops }.iterations(in_loop, &[])?;
    if asks && load.access.block == l.header {
        return None;
    }
    let sum = func.dfg.block_params(l.header).iter().find_map(|&p| {
        let members = members(facts, in_loop, p, load.access.inst)?;
        let final_sum = if exit.0 == *latch { *members.last()? } else { p };
        let used_outside = |v: ir::Value| facts.uses.of(v).iter().any(|u| !used_in(facts, in_loop, u));
        let in_time = exit.0 == *latch || exit.0 == l.header;
        (in_time && members.iter().all(|&m| m == final_sum || !used_outside(m))).then_some(final_sum)
    })?;
    let returns = |b: &&ir::Block| func.layout.last_inst(**b).is_some_and(|i| func.dfg.insts[i].opcode().is_return());
    let always = facts.cfg.blocks.iter().filter(returns).all(|&b| facts.loops.dominates(exit.1, b));
    Some((ArraySum { load: load.access.inst, sum, exit: *exit, always }, iterations))
}

/// If a parameter of a loop's header goes through nothing but additions, in each iteration, one of
/// which adds what is loaded: all sums on the way, the parameter first.
fn members(facts: &Facts<'_>, in_loop: LoopId, start: ir::Value, load: ir::Inst) -> Option<Vec<ir::Value>> {
    let func = facts.func();
    let element = func.dfg.first_result(load);
    if facts.uses.of(element).len() != 1 {
        return None;
    }
    let (mut members, mut found) = (vec![start], false);
    loop {
        let mut inside = facts.uses.of(*members.last()?).iter().filter(|u| used_in(facts, in_loop, u));
        let (Some(&only), None) = (inside.next(), inside.next()) else { return None };
        match only {
            Use::Edge(_, to) => return (found && to == start).then_some(members),
            Use::Inst(inst, _) => {
                let InstructionData::Binary { opcode: Opcode::Fadd, args } = func.dfg.insts[inst] else { return None };
                found |= args.contains(&element);
                members.push(func.dfg.first_result(inst));
            }
        }
    }
}

fn used_in(facts: &Facts<'_>, in_loop: LoopId, u: &Use) -> bool {
    let blocks = &facts.loops.loops[in_loop].blocks;
    match *u {
        Use::Inst(inst, _) => facts.func().layout.inst_block(inst).is_some_and(|b| blocks.contains(b)),
        Use::Edge(_, to) => facts.cfg.def_block[to].is_some_and(|b| blocks.contains(b)),
    }
}

/// Whether a store whose places are all different is to elements that the load reads.
fn within(facts: &Facts<'_>, load: &Event, iterations: &Sum, store: &Event) -> bool {
    let (func, loops) = (facts.func(), facts.loops);
    let (a, b) = (&load.access, &store.access);
    let nest = around(loops, b.block);
    let Some(&innermost) = nest.last() else { return false };
    let InstructionData::Store { opcode: Opcode::Store, .. } = func.dfg.insts[b.inst] else { return false };
    if b.first != a.first || b.bytes != a.bytes {
        return false;
    }
    let affine = AffineContext { func, loops };
    let walks = Atom::Walk(innermost, nest[0]);
    if b.at.atoms().any(|x| x == walks) {
        return b.at == Sum::default().plus(&Sum::atom(walks), b.bytes) && affine.counts(iterations, &nest);
    }
    let atoms: Vec<Atom> = nest.iter().map(|&l| Atom::TripCount(l)).collect();
    let Some((factors, rest)) = b.at.factors(&atoms) else { return false };
    // That an outer loop steps over what the inner one has covered was asked before: where it does
    // not, stores meet, and clear.
    let steps = factors.last().and_then(Sum::as_constant) == Some(b.bytes);
    // In several loops, an access is not in the header of the innermost, which may run once more.
    let all = || match affine.iterations(nest[0], &[]) {
        Some((t, asks)) if !(asks && b.block == loops.loops[nest[0]].header) => Some(t.times(&factors[0])),
        _ => None,
    };
    rest == Sum::default() && steps && all() == Some(Sum::default().plus(iterations, b.bytes))
}
