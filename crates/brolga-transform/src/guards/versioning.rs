//! Speculation by function versioning: a second pullback, without guarded products, for runs in
//! which every watched factor is finite.
//!
//! **Problem.** A cotangent of zero contributes zero, whatever it is multiplied by: a *strong
//! zero*. Each product is guarded for that, three or four instructions for a multiplication,
//! although zero times a finite number is zero anyway.
//!
//! **Answer.** The forward half *watches* the numbers by which cotangents are going to be
//! multiplied: it adds them up in one variable, an instruction for a number. The sum is finite only
//! if all of them were. (It may overflow although they were, or depend on the order in which
//! [`brolga_clif::vectorise`] adds; then guards are asked for nothing, and the gradient is the
//! same.) The pullback is there twice, with its guards and without those that are not needed if all
//! watched numbers are finite; the variable decides where the halves meet. The first is for rare
//! runs, so its blocks are cold, and nothing that makes code longer is done to them. What is
//! watched, for the product
//! - `z̄ x`: `x`;
//! - `z̄ / y` in the reverse of `z = x / y`: `z`, which is finite only if `y` is neither zero nor
//!   NaN;
//! - `z̄ / 2s` in the reverse of `s = sqrt x`: `s`, which must not be zero either, unless that
//!   follows from what else is watched: a divisor of which it is a factor was not zero. In the
//!   innermost loops it is a NaN in the sum if it is zero; elsewhere the least of such numbers is
//!   kept.
//!
//! A sum, a difference or a product is finite only if both of its operands are, and so on for a
//! chain of them: in the chain that is computed from a number, it is enough to watch the end; a
//! product is the beginning of one. If chains from a number have several ends, one is watched that
//! serves most products. A chain goes on where the number is passed to another block, or read
//! there, if that block runs whenever the number has been computed, in the same iteration of the
//! same loop: four terms of a stencil, each after a condition, are watched as their sum. (Not out
//! of a block that an iteration may pass by which does little else: it would watch for the others.)
//! What a loop adds up is watched after the loop. Rows that may or may not lie one after another
//! are watched, too ([`crate::shadow::monotone_rows`]). So that no forward code lives on for being
//! watched alone, only what [`crate::dce`] has left there is.
//!
//! **Where.** In straight code, in loops, and in functions that call themselves, if at most a third
//! as many instructions are spent as saved, and those that are left are a fifth of all, by a guess
//! at trip counts. What is added up over the iterations of a loop is a chain. If there
//! is a loop around an innermost one that is not long, each run of the inner one has a sum of its
//! own. It lives in a register, and the processor goes on to the next run while it is still adding
//! for the last: then an addition is an instruction again.
//!
//! **Invariant.** Where it is taken, the pullback without guards gives the same numbers, apart from
//! the signs of zeros.
//!
//! **Cost.** In the run an instruction for each watched number, and the code of a second pullback.
//! Here each chain is followed once; whether a block always runs after another is a walk over at
//! most 64 blocks, once for each pair. Functions of more than 12 000 statements or 512 blocks are
//! not looked at.

use std::cell::RefCell;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use brolga_analysis::cfg::edge_args;
use brolga_analysis::uses::Use;
use brolga_analysis::{CalleeKind, KnownRule, LoopId};
use brolga_ir::block::{Fragment, Ids};
use brolga_ir::inst::{AdInst, AdOp, Arith, Defs, Sum, Val};
use brolga_ir::map::{HashMap, IndexMap, IndexSet};
use brolga_ir::{Mode, Pass};
use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::{EntitySet, SecondaryMap};
use smallvec::SmallVec;

use crate::facts::Facts;
use crate::facts::overwrites::{Order, Rows};
use crate::guards::rows;
use crate::translate::stmt::{AdStmt, AdStmts, Guard, Numbers, RootGuards};

/// Instructions of a function beyond which it is not worth the code.
const MOST: usize = 12_000;
/// Instructions that must be saved in a run, for a pullback that is there twice to be worth
/// compiling; and which part of all.
const LEAST: f64 = 16.0;
/// What it costs to ask whether all numbers were finite: at once, or later, by what has been left
/// in the frame.
const ASKED: f64 = 3.0;
const ASKED_LATER: f64 = 7.0;
const PART: f64 = 0.2;
/// How many instructions must be saved for each that is spent.
const MARGIN: f64 = 3.0;
/// Instructions of an iteration without a block, up to which it does little else than pass it by.
const SHORT: usize = 16;
/// Instructions of an innermost loop up to which each run of it has a sum of its own.
const SUMMED: usize = 64;
/// Instructions of a block that take longer than to add to a number in memory.
const LONG: usize = 40;
/// Blocks that are looked at between one that runs and another that runs whenever it has.
const MOST_BLOCKS: usize = 64;
/// Blocks of a function in which nothing runs more than once, beyond which it is not worth the
/// code.
const MOST_ACYCLIC_BLOCKS: usize = 64;
/// Blocks of any other.
const MOST_CYCLIC_BLOCKS: usize = 512;
/// Ends that are known of the chains from one number.
const MOST_ENDS: usize = 4;
/// Iterations that a loop is taken to have.
const ITERATIONS: f64 = 8.0;

/// The same statements for runs that are watched.
pub(crate) struct WatchedStmts {
    /// Forward fragments, with what is watched in them.
    pub watching: AdStmts,
    /// Reverse fragments without the guards that are not needed then, of their own names, which
    /// store what is read once.
    pub free: AdStmts,
    /// Reverse fragments that clear what those with guards add to, where other code would have to
    /// ([`crate::shadow::monotone_rows`]).
    pub clearing: Option<AdStmts>,
}

/// What to watch so that products can do without guards, if it is worth it. `live` are values that
/// the forward half computes.
pub(crate) fn watched(
    facts: &Facts<'_>,
    stmts: &AdStmts,
    live: &dyn Fn(ir::Value) -> bool,
    ids: &mut Ids,
) -> Option<WatchedStmts> {
    if !facts.options.runs(Pass::VersionGuards) || is_too_large(facts, stmts) {
        return None;
    }
    let chains = ProductChains {
        facts,
        live,
        follows: RefCell::default(),
        ends: RefCell::default(),
        recursive: calls_itself(facts),
        order: in_order(facts),
    };
    let placed = stmts.values().map(|stmt| (stmt, facts.func().layout.inst_block(stmt.primal)));
    let placed: Vec<(&AdStmt, ir::Block)> = placed.filter_map(|(stmt, b)| Some((stmt, b?))).collect();
    let guarded = placed.iter().flat_map(|&(stmt, b)| stmt.guards.iter().map(move |g| (stmt.primal, g, b)));
    if guarded.clone().next().is_none() && facts.overwrites.rows.is_empty() {
        return None;
    }
    let guards: Vec<(ir::Inst, &Guard, ir::Block, Vec<Vec<WatchedNumber>>)> = guarded
        .map(|(inst, g, b)| (inst, g, b, chains.options(inst, &g.needs, b)))
        .filter(|g| !g.3.is_empty())
        .collect();
    let roots = chains.roots(&placed);
    // What many ask for is cheap for each of them.
    let mut popular: HashMap<WatchedNumber, f64> = HashMap::default();
    let watchable = roots.iter().flatten().flat_map(|r| &r.1);
    for place in guards.iter().flat_map(|g| &g.3).chain(watchable).flatten() {
        *popular.entry(*place).or_default() += 1.0;
    }
    let cost =
        |p: &WatchedNumber| chains.iterations(p.block) * if p.not_zero && !is_least(facts, p) { 4.0 } else { 1.0 };
    let mut chosen: IndexMap<WatchedNumber, ir::Inst> = IndexMap::default();
    let (mut superfluous, mut masks) = (IndexSet::<Val>::default(), IndexSet::<Val>::default());
    let mut saved = 0.0;
    let mut choose = |inst: ir::Inst, options: &[Vec<WatchedNumber>]| {
        let price = |option: &Vec<WatchedNumber>| -> f64 {
            option.iter().filter(|p| !chosen.contains_key(*p)).map(|p| cost(p) / popular[p]).sum()
        };
        let best = options.iter().min_by(|x, y| price(x).total_cmp(&price(y))).expect("there is one").clone();
        for place in best {
            chosen.entry(place).or_insert(inst);
        }
    };
    for (inst, guard, b, options) in &guards {
        choose(*inst, options);
        superfluous.insert(guard.guarded);
        saved += chains.iterations(*b) * if masks.insert(guard.mask) { 4.0 } else { 1.0 };
    }
    // Where no root is at an edge, no cotangent is infinite for that.
    if let Some(roots) = &roots {
        roots.iter().for_each(|(inst, options)| choose(*inst, options));
        for (stmt, b) in &placed {
            superfluous.extend(stmt.roots.products.iter().copied());
            saved += chains.iterations(*b) * 4.0 * stmt.roots.products.len() as f64;
        }
    }
    // A function that is called many times leaves the flag and looks it up as often.
    let flag = if facts.mode == Mode::Split { ASKED_LATER } else { ASKED };
    let calls = if chains.recursive { ITERATIONS } else { 1.0 };
    let spent: f64 = chosen.keys().map(cost).sum::<f64>() + calls * flag;
    // Rows that are asked about: a load and an addition of each iteration, for a comparison and an
    // operation of each row; a few more where the forward half has nothing else to do with rows.
    let rows: &[Rows] = if facts.mode == Mode::Split { &[] } else { &facts.overwrites.rows };
    let orders: IndexSet<Order> = rows.iter().map(|r| r.order).collect();
    let price = |o: &Order| if live(o.low) && live(o.high) { 2.0 } else { 8.0 } * chains.iterations(o.block);
    let spent = spent + orders.iter().map(price).sum::<f64>();
    let loads = rows.iter().flat_map(|r| &r.loads).filter_map(|&i| facts.func().layout.inst_block(i));
    saved += loads.map(|b| 2.0 * chains.iterations(b)).sum::<f64>();
    let cost_of_block = |&b: &ir::Block| chains.iterations(b) * facts.func().layout.block_insts(b).count() as f64;
    let of: f64 = facts.cfg.blocks.iter().map(cost_of_block).sum();
    let worth_it = saved >= MARGIN * spent && saved - spent >= f64::max(LEAST, PART * of);
    if superfluous.is_empty() && rows.is_empty() || facts.options.runs(Pass::CostModel) && !worth_it {
        return None;
    }
    Some(versions(facts, stmts, WatchedChoice { chosen, superfluous, orders, rows }, ids))
}

/// Whether a function has more statements or blocks than pay for a second version.
fn is_too_large(facts: &Facts<'_>, stmts: &AdStmts) -> bool {
    // What is alive for long has an entry for each block, and there are twice as many of both.
    let most = if is_straight(facts) { MOST_ACYCLIC_BLOCKS } else { MOST_CYCLIC_BLOCKS };
    facts.options.runs(Pass::CostModel) && (stmts.len() > MOST || facts.cfg.blocks.len() > most)
}

/// What is watched, and what that saves.
struct WatchedChoice<'f> {
    /// Numbers, each with an instruction that asks for it.
    chosen: IndexMap<WatchedNumber, ir::Inst>,
    /// Products that need no guard then.
    superfluous: IndexSet<Val>,
    /// Rows that are asked about, and the order of each.
    rows: &'f [Rows],
    orders: IndexSet<Order>,
}

/// The statements that watch, and those that rely on it.
fn versions(facts: &Facts<'_>, stmts: &AdStmts, choice: WatchedChoice<'_>, ids: &mut Ids) -> WatchedStmts {
    let WatchedChoice { chosen, superfluous, orders, rows } = choice;
    let mut watching: AdStmts =
        stmts.values().map(|s| half(s, s.before.clone(), s.after.clone(), Fragment::default())).collect();
    watch_all(facts, &mut watching, chosen, &summed_loops(facts), ids);
    orders.into_iter().for_each(|o| rows::ask(facts, &mut watching, o, ids));
    let stores: IndexSet<ir::Inst> = rows.iter().flat_map(|r| r.loads.iter().copied()).collect();
    let clearing = rows.iter().any(|r| r.argument.is_some()).then(|| rows::clearing(rows, stmts, ids));
    let free = |s: &AdStmt| {
        let mut rvs = renamed(&s.rvs, &superfluous, ids);
        if stores.contains(&s.primal) {
            rows::storing(&mut rvs);
        }
        half(s, Fragment::default(), Fragment::default(), rvs)
    };
    WatchedStmts { watching, free: stmts.values().map(free).collect(), clearing }
}

/// A statement with other fragments and without guards.
fn half(stmt: &AdStmt, before: Fragment, after: Fragment, rvs: Fragment) -> (ir::Inst, AdStmt) {
    let (guards, roots) = (vec![], RootGuards::default());
    (stmt.primal, AdStmt { primal: stmt.primal, before, keep: stmt.keep, after, rvs, guards, roots })
}

/// Watch all that was chosen, each for the sake of a statement, in `watching`.
fn watch_all(
    facts: &Facts<'_>,
    watching: &mut AdStmts,
    chosen: IndexMap<WatchedNumber, ir::Inst>,
    summed: &EntitySet<LoopId>,
    ids: &mut Ids,
) {
    let mut apart = IndexSet::default();
    for (place, asks) in chosen {
        let sum = match facts.loops.innermost[place.block] {
            _ if place.not_zero && is_least(facts, &place) => Sum::Least,
            Some(l) if summed.contains(l) && facts.loops.loops[l].parent.is_some() => {
                apart.insert(l);
                Sum::Loop(facts.loops.loops[l].header)
            }
            Some(_) if is_passed_by(facts, place.block) || waits_for_call(facts, &place) => Sum::Aside,
            _ => Sum::OfFunction,
        };
        watch(facts, watching, place, asks, sum, ids);
    }
    apart.into_iter().for_each(|l| run_apart(facts, watching, l, ids));
}

/// Whether nothing runs more than once in a call.
fn is_straight(facts: &Facts<'_>) -> bool {
    facts.loops.loops.is_empty() && !calls_itself(facts)
}

/// How many blocks come before each.
fn in_order(facts: &Facts<'_>) -> SecondaryMap<ir::Block, usize> {
    let mut order = SecondaryMap::new();
    facts.cfg.blocks.iter().enumerate().for_each(|(n, &b)| order[b] = n);
    order
}

/// Whether a function calls itself: each of its blocks then runs many times, as those of a loop do.
fn calls_itself(facts: &Facts<'_>) -> bool {
    facts.cfg.calls.iter().any(|&inst| match facts.func().dfg.insts[inst] {
        ir::InstructionData::Call { func_ref, .. } => {
            facts.program.callee(facts.func(), func_ref) == Some(facts.variant.func)
        }
        _ => false,
    })
}

/// Watch a value in a block: when it is computed if that is there, else before the statement that
/// asks.
fn watch(facts: &Facts<'_>, stmts: &mut AdStmts, place: WatchedNumber, asks: ir::Inst, sum: Sum, ids: &mut Ids) {
    let WatchedNumber { value: v, block: b, not_zero, .. } = place;
    let func = facts.func();
    let op = AdOp::Watch { value: Val::Primal(v), not_zero, sum };
    let new = |at| AdInst { defs: Defs::default(), op, at: Some(at) };
    if let Some(inst) = func.dfg.value_def(v).inst().filter(|&i| func.layout.inst_block(i) == Some(b)) {
        let stmt = stmts.get_mut(&inst).expect("every instruction is a statement");
        stmt.after.insert(ids.inst(), new(inst));
        return;
    }
    let here = func.layout.inst_block(asks) == Some(b);
    let first = if here { asks } else { func.layout.first_inst(b).expect("a block has a terminator") };
    let stmt = stmts.get_mut(&first).expect("every instruction is a statement");
    stmt.before.insert(ids.inst(), new(first));
}

/// The sum of a loop begins before it, and joins that of the function behind it, in blocks of
/// its own ([`crate::primal::loop_simplify`]).
fn run_apart(facts: &Facts<'_>, stmts: &mut AdStmts, l: LoopId, ids: &mut Ids) {
    let func = facts.func();
    let l = &facts.loops.loops[l];
    let mut put = |inst: Option<ir::Inst>, op: AdOp| {
        let at = inst.expect("a block has a terminator");
        let before = &mut stmts.get_mut(&at).expect("every instruction is a statement").before;
        let all = std::mem::take(before);
        before.insert(ids.inst(), AdInst { defs: Defs::default(), op, at: Some(at) });
        before.extend(all);
    };
    l.entries.iter().for_each(|&b| put(func.layout.last_inst(b), AdOp::WatchFrom(l.header)));
    l.exits.iter().for_each(|e| put(func.layout.first_inst(e.1), AdOp::WatchJoin(l.header)));
}

/// Whether the sum of what is watched in a block is better in memory: if an iteration of the loop
/// around it can pass it by and does little else, while the block is so long that nothing waits for
/// a store to be read again. A sum that is carried past it in a register lies on the stack where
/// registers are few, as they are around such a block, and each iteration loads and stores it, also
/// those that watch nothing.
fn is_passed_by(facts: &Facts<'_>, b: ir::Block) -> bool {
    facts.cfg.insts(b).len() >= LONG && can_be_passed(facts, b, 2 * SHORT)
}

/// Whether the least of a number that must not be zero is kept, instead of a sum: where no vector
/// of it is formed, since the loop around it, if any, has another one in it.
fn is_least(facts: &Facts<'_>, place: &WatchedNumber) -> bool {
    let inner = |l: LoopId| facts.loops.loops.values().any(|x| x.parent == Some(l));
    facts.loops.innermost[place.block].is_none_or(inner) && !facts.func().dfg.value_type(place.value).is_vector()
}

/// Whether a number comes from an inner loop, and is watched in a block that calls. Cranelift adds
/// after the call what is asked for after it. So the number would be alive across the call, where
/// it can only be in memory, and the inner loop would store it in each iteration.
fn waits_for_call(facts: &Facts<'_>, place: &WatchedNumber) -> bool {
    let is_call = |&i: &ir::Inst| facts.func().dfg.insts[i].opcode().is_call();
    facts.cfg.def_block[place.value] != Some(place.block) && facts.cfg.insts(place.block).iter().any(is_call)
}

/// Whether an iteration of the loop around a block can pass it by, with so many instructions at
/// most.
fn can_be_passed(facts: &Facts<'_>, b: ir::Block, most: usize) -> bool {
    let insts = |b: ir::Block| facts.cfg.insts(b).len();
    let Some(l) = facts.loops.innermost[b].map(|l| &facts.loops.loops[l]) else { return false };
    // The shortest iteration without the block.
    let mut work = BinaryHeap::from([Reverse((insts(l.header), l.header))]);
    let mut seen: EntitySet<ir::Block> = EntitySet::new();
    while let Some(Reverse((so_far, x))) = work.pop() {
        if x == b || so_far > most || !seen.insert(x) {
            continue;
        }
        if l.latches.contains(&x) {
            return true;
        }
        let next = facts.cfg.succs[x].iter().filter(|s| l.blocks.contains(**s));
        work.extend(next.map(|&s| Reverse((so_far + insts(s), s))));
    }
    false
}

/// A reverse fragment with names of its own, without some guards.
fn renamed(rvs: &Fragment, superfluous: &IndexSet<Val>, ids: &mut Ids) -> Fragment {
    let mut names: SmallVec<[(Val, Val); 8]> = SmallVec::new();
    let mut out = Fragment::with_capacity(rvs.len());
    for inst in rvs.values() {
        let mut inst = inst.clone();
        if inst.defs.first().is_some_and(|d| superfluous.contains(&d.0))
            && let AdOp::Arith(op @ (Arith::KeepWhere | Arith::Select), args, _) = &mut inst.op
        {
            // What is selected where a root is at an edge comes before the product.
            let product = if *op == Arith::Select { args[2] } else { args[0] };
            *op = Arith::Copy;
            *args = [product].into();
        }
        inst.rename(|v| names.iter().find(|n| n.0 == v).map_or(v, |n| n.1));
        for (name, _) in &mut inst.defs {
            if matches!(name, Val::D(_)) {
                let new = Val::D(ids.dv());
                names.push((*name, new));
                *name = new;
            }
        }
        out.insert(ids.inst(), inst);
    }
    out
}

/// A number that is watched, and where.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct WatchedNumber {
    value: ir::Value,
    block: ir::Block,
    not_zero: bool,
}

/// Ends of chains.
type Ends = SmallVec<[ir::Value; MOST_ENDS]>;

/// Which numbers are finite if others are.
struct ProductChains<'a, 'f> {
    facts: &'a Facts<'f>,
    live: &'a dyn Fn(ir::Value) -> bool,
    /// What has been found out by [`ProductChains::always_follows`].
    follows: RefCell<HashMap<(ir::Block, ir::Block), bool>>,
    /// What has been found out by [`ProductChains::end`]: none where nothing can be watched.
    ends: RefCell<HashMap<ir::Value, Ends>>,
    /// Whether the function calls itself.
    recursive: bool,
    /// The order of blocks.
    order: SecondaryMap<ir::Block, usize>,
}

/// Loops each run of which has a sum of its own: innermost ones that are not long and do not call.
/// Their sum lives in a register. One for the whole function is spilled in a loop that needs its
/// registers, and each of its additions then waits for a store of the iteration before.
fn summed_loops(facts: &Facts<'_>) -> EntitySet<LoopId> {
    let (func, loops) = (facts.func(), facts.loops);
    let mut insts: SecondaryMap<LoopId, usize> = SecondaryMap::new();
    for &b in &facts.cfg.blocks {
        loops.around(b).for_each(|l| insts[l] += facts.cfg.insts(b).len());
    }
    let mut outer = EntitySet::new();
    outer.extend(loops.loops.values().filter_map(|l| l.parent));
    let calls = facts.cfg.calls.iter().filter_map(|&i| func.layout.inst_block(i));
    outer.extend(calls.flat_map(|b| loops.around(b)));
    let mut summed = EntitySet::new();
    summed.extend(loops.loops.keys().filter(|&l| insts[l] <= SUMMED && !outer.contains(l)));
    summed
}

impl ProductChains<'_, '_> {
    /// What may be watched so that a product needs no guard: one of these.
    fn options(&self, stmt: ir::Inst, needs: &Numbers, b: ir::Block) -> Vec<Vec<WatchedNumber>> {
        let func = self.facts.func();
        let mut options = Vec::new();
        let each = |v: ir::Value| self.ends(v).into_iter().rev().map(|end| self.places(end, b));
        // What a product is finite for, its factors are.
        if matches!(func.dfg.insts[stmt].opcode(), Opcode::Fmul | Opcode::Fma) {
            options.extend(each(func.dfg.first_result(stmt)));
        }
        match (&needs.finite[..], needs.nonzero) {
            (&[v], None) => {
                options.extend(each(v));
                options.extend(self.finite_of(v).into_iter().flat_map(each));
            }
            _ => options.extend(self.operands(needs, b)),
        }
        let mut seen: SmallVec<[Vec<WatchedNumber>; 4]> = SmallVec::new();
        for option in options {
            if !seen.contains(&option) {
                seen.push(option);
            }
        }
        seen.into_vec()
    }

    /// The numbers themselves, or what follows from them.
    fn operands(&self, needs: &Numbers, b: ir::Block) -> Option<Vec<WatchedNumber>> {
        let mut numbers = needs.finite.to_vec();
        let mut places = Vec::new();
        if let Some(s) = needs.nonzero {
            match self.divides(s) {
                Some(finite) => numbers = finite,
                None if (self.live)(s) => {
                    let place = WatchedNumber { value: s, block: self.place(s, b), not_zero: true };
                    if !is_least(self.facts, &place) {
                        numbers.clear();
                    }
                    places.push(place);
                }
                None => return None,
            }
        }
        for v in numbers {
            places.extend(self.places(self.end(v)?, b));
        }
        Some(places)
    }

    /// What may be watched so that each root is within its domain; none if that is not known of all
    /// of them.
    fn roots(&self, placed: &[(&AdStmt, ir::Block)]) -> Option<Vec<(ir::Inst, Vec<Vec<WatchedNumber>>)>> {
        if self.facts.roots.foreign || placed.iter().any(|p| p.0.roots.open) {
            return None;
        }
        let within = |&(stmt, b): &(&AdStmt, ir::Block)| {
            let needs = stmt.roots.finite.as_ref()?;
            Some((stmt.primal, self.options(stmt.primal, needs, b)))
        };
        let all: Vec<_> = placed.iter().filter_map(within).collect();
        all.iter().all(|r| !r.1.is_empty()).then_some(all)
    }

    /// How often a block is taken to run.
    fn iterations(&self, b: ir::Block) -> f64 {
        let loops = &self.facts.loops;
        ITERATIONS
            .powi(loops.innermost[b].map_or(0, |l| loops.loops[l].depth.min(9)) as i32 + i32::from(self.recursive))
    }

    /// Where to watch a value for the sake of a statement in a block. What a loop adds up is
    /// infinite or NaN at its end if it ever was, and so is what is computed from that after the
    /// loop.
    fn places(&self, mut v: ir::Value, b: ir::Block) -> Vec<WatchedNumber> {
        let at = |(value, block)| WatchedNumber { value, block, not_zero: false };
        let mut places = vec![at((v, self.place(v, b)))];
        while let Some(exits) = self.sum(v) {
            places = exits.iter().copied().map(at).collect();
            let [(value, exit_target)] = exits[..] else { break };
            let Some(end) = self
                .users_in(value, exit_target)
                .find_map(|(inst, z)| (self.passes(inst, value) && (self.live)(z)).then(|| self.end(z)).flatten())
            else {
                break;
            };
            v = end;
            places = vec![at((v, self.facts.cfg.def_block[v].expect("a value is defined in a block")))];
        }
        places
    }

    /// The value after its loop, on all ways out, if each iteration computes it from what it was
    /// before.
    fn sum(&self, v: ir::Value) -> Option<Vec<(ir::Value, ir::Block)>> {
        let (func, loops) = (self.facts.func(), &self.facts.loops);
        let home = self.facts.cfg.def_block[v]?;
        let l = &loops.loops[loops.innermost[home]?];
        let [latch] = l.latches[..] else { return None };
        let i = edge_args(func, latch, l.header).iter().position(|&a| a == v)?;
        let before = func.dfg.block_params(l.header)[i];
        if !(self.live)(before) || !self.made_of(v, before, 0) {
            return None;
        }
        let carried_out = |&(from, to): &(ir::Block, ir::Block)| match from {
            _ if loops.dominates(home, from) => Some((v, to)),
            _ if from == l.header => Some((before, to)),
            _ => None,
        };
        l.exits.iter().map(carried_out).collect()
    }

    /// Whether a value is infinite or NaN if another one is.
    fn made_of(&self, v: ir::Value, other: ir::Value, depth: u32) -> bool {
        let func = self.facts.func();
        v == other
            || depth < 8
                && func.dfg.value_def(v).inst().is_some_and(|inst| {
                    let op = func.dfg.insts[inst].opcode();
                    func.dfg
                        .inst_args(inst)
                        .iter()
                        .enumerate()
                        .any(|(k, &a)| passes_on(op, k) && self.made_of(a, other, depth + 1))
                })
    }

    /// Where to watch a value for the sake of a statement in a block: there, unless it is computed
    /// less often, or later.
    fn place(&self, v: ir::Value, b: ir::Block) -> ir::Block {
        let home = self.facts.cfg.def_block[v].expect("a value is defined in a block");
        let loops = &self.facts.loops;
        let around = loops.innermost[b].is_none_or(|l| loops.around(home).any(|x| x == l));
        if around && loops.dominates(home, b) { b } else { home }
    }

    /// The end of a chain that is finite only if this is. Of several the last: those that it serves
    /// as well are most.
    fn end(&self, v: ir::Value) -> Option<ir::Value> {
        self.ends(v).last().copied()
    }

    /// The ends of chains that are finite only if this is, in the order in which they are computed,
    /// the last ones of many. What is added to a number in memory at last is watched before that:
    /// Cranelift makes a load a part of the addition only where the sum has one reader.
    fn ends(&self, v: ir::Value) -> Ends {
        let mut ends = self.ends.borrow_mut();
        // From where it is not known yet: an end is known if those of all that come next are.
        let mut work: Vec<ir::Value> = vec![v];
        while let Some(&v) = work.last() {
            if ends.contains_key(&v) {
                work.pop();
                continue;
            }
            let next: SmallVec<[(Option<ir::Inst>, ir::Value); 4]> = self.next(v);
            let open: SmallVec<[ir::Value; 4]> = next.iter().map(|n| n.1).filter(|z| !ends.contains_key(z)).collect();
            if !open.is_empty() {
                work.extend(open);
                continue;
            }
            let of = |&(inst, z): &(Option<ir::Inst>, ir::Value)| {
                let found = &ends[&z];
                let in_memory = found[..] == [z] && inst.is_some_and(|i| self.adds_to_memory(i, v));
                if in_memory { Ends::from([v].as_slice()) } else { found.clone() }
            };
            let mut found: Ends = next.iter().flat_map(of).collect();
            if found.is_empty() {
                found.push(v);
            }
            found.retain(|v| (self.live)(*v));
            found.sort_unstable_by(|&x, &y| self.in_order(x, y));
            found.dedup();
            let many = found.len().saturating_sub(MOST_ENDS);
            ends.insert(v, found[many..].into());
        }
        ends[&v].clone()
    }

    /// What is computed from a value, or what it is passed to, and is finite only if it is.
    fn next(&self, v: ir::Value) -> SmallVec<[(Option<ir::Inst>, ir::Value); 4]> {
        let users = self.users(v).chain(self.later_users(v));
        let computed = users.filter(|&(inst, z)| z != v && self.passes(inst, v) && (self.live)(z));
        let mut next: SmallVec<_> = computed.map(|(inst, z)| (Some(inst), z)).collect();
        if next.is_empty() {
            next.extend(self.passed(v).map(|p| (None, p)));
        }
        next
    }

    /// Whether the result of an instruction is infinite or NaN if this operand is.
    fn passes(&self, inst: ir::Inst, v: ir::Value) -> bool {
        let func = self.facts.func();
        let op = func.dfg.insts[inst].opcode();
        let circular = || {
            let rule = CalleeKind::of(self.facts.program, func, inst);
            let Some(CalleeKind::Known(KnownRule::OfTable(rule))) = rule else { return false };
            matches!(&*rule.symbol, "sin" | "cos" | "tan" | "sinf" | "cosf" | "tanf")
        };
        let mut operands = func.dfg.inst_args(inst).iter().enumerate().filter(|(_, a)| **a == v);
        operands.any(|(k, _)| passes_on(op, k) || op == Opcode::Call && circular())
    }

    /// Of what is a number for every number: that.
    fn finite_of(&self, v: ir::Value) -> Option<ir::Value> {
        let func = self.facts.func();
        let inst = func.dfg.value_def(v).inst()?;
        match CalleeKind::of(self.facts.program, func, inst)? {
            CalleeKind::Known(KnownRule::OfTable(rule)) => {
                let bounded =
                    matches!(&*rule.symbol, "tanh" | "atan" | "erf" | "erfc" | "tanhf" | "atanf" | "erff" | "erfcf");
                bounded.then(|| func.dfg.inst_args(inst)[0])
            }
            _ => None,
        }
    }

    /// The order in which values are computed.
    fn in_order(&self, x: ir::Value, y: ir::Value) -> Ordering {
        let def_block = &self.facts.cfg.def_block;
        let block = |v: ir::Value| def_block[v].map(|b| self.order[b]);
        let in_block = || self.facts.func().layout.pp_cmp(self.point(x), self.point(y));
        block(x).cmp(&block(y)).then_with(in_block).then(x.cmp(&y))
    }

    /// Where a value is defined.
    fn point(&self, v: ir::Value) -> ir::ProgramPoint {
        match self.facts.func().dfg.value_def(v) {
            ir::ValueDef::Param(b, _) => b.into(),
            def => def.unwrap_inst().into(),
        }
    }

    /// Whether an instruction adds a number to one that is loaded for that alone.
    fn adds_to_memory(&self, inst: ir::Inst, v: ir::Value) -> bool {
        let func = self.facts.func();
        let loaded = |&a: &ir::Value| {
            let load = func.dfg.value_def(a).inst();
            a != v
                && load.is_some_and(|l| func.dfg.insts[l].opcode() == Opcode::Load)
                && self.facts.uses.of(a).len() == 1
                && self.users(a).next().is_some()
        };
        func.dfg.insts[inst].opcode() == Opcode::Fadd && func.dfg.inst_args(inst).iter().any(loaded)
    }

    /// Numbers that are finite only if this is not zero: a quotient by it, or one by a product of
    /// which it is a factor, and that product.
    fn divides(&self, s: ir::Value) -> Option<Vec<ir::Value>> {
        let func = self.facts.func();
        let op = |i: ir::Inst| func.dfg.insts[i].opcode();
        let by =
            |s: ir::Value| move |x: &(ir::Inst, ir::Value)| op(x.0) == Opcode::Fdiv && func.dfg.inst_args(x.0)[1] == s;
        if let Some((_, quotient)) = self.users(s).find(|x| by(s)(x) && (self.live)(x.1)) {
            return Some(vec![quotient]);
        }
        self.users(s)
            .filter(|x| op(x.0) == Opcode::Fmul)
            .find_map(|(_, product)| self.users(product).find(by(product)).map(|(_, quotient)| vec![product, quotient]))
    }

    /// What is computed from a value in other blocks, whenever it has been computed itself.
    fn later_users(&self, v: ir::Value) -> impl Iterator<Item = (ir::Inst, ir::Value)> + '_ {
        let home = self.facts.cfg.def_block[v].expect("a value is defined in a block");
        let func = self.facts.func();
        self.facts.uses.of(v).iter().filter_map(move |u| {
            let &Use::Inst(i, ..) = u else { return None };
            let &[z] = func.dfg.inst_results(i) else { return None };
            let b = func.layout.inst_block(i).filter(|&b| b != home)?;
            // Deciding takes a walk.
            (func.dfg.value_type(z).is_float() && self.always_follows(home, b)).then_some((i, z))
        })
    }

    /// The parameter of another block that a value is passed to, whenever it has been computed.
    fn passed(&self, v: ir::Value) -> Option<ir::Value> {
        let home = self.facts.cfg.def_block[v]?;
        let (func, cfg) = (self.facts.func(), self.facts.cfg);
        self.facts.uses.of(v).iter().find_map(|u| {
            let &Use::Edge(from, p) = u else { return None };
            let to = cfg.def_block[p]?;
            let only = func.layout.last_inst(from).is_some_and(|i| func.dfg.insts[i].opcode() == Opcode::Jump);
            let always =
                || (from == home || self.always_follows(home, from)) && (to == home || self.always_follows(home, to));
            (only && to != home && (self.live)(p) && always()).then_some(p)
        })
    }

    /// Whether a block runs whenever another one has run, in the same iteration of the loop that is
    /// around both, unless there is a trap.
    fn always_follows(&self, b: ir::Block, later: ir::Block) -> bool {
        let (func, loops, cfg) = (self.facts.func(), &self.facts.loops, self.facts.cfg);
        if later == b || loops.innermost[b] != loops.innermost[later] || self.is_rare(b) {
            return false;
        }
        let l = loops.innermost[b].map(|l| &loops.loops[l]);
        if l.is_some_and(|l| later == l.header) {
            return false;
        }
        if let Some(&known) = self.follows.borrow().get(&(b, later)) {
            return known;
        }
        // Ways from the one that do not come by the other.
        let ends = |x: ir::Block| func.layout.last_inst(x).map(|i| func.dfg.insts[i].opcode());
        let mut seen: EntitySet<ir::Block> = EntitySet::new();
        let mut work = vec![b];
        let (mut always, mut steps) = (true, 0);
        while let Some(x) = work.pop().filter(|_| always) {
            steps += 1;
            always &= ends(x) != Some(Opcode::Return) && steps <= MOST_BLOCKS;
            for &s in &cfg.succs[x] {
                if s == later || ends(s) == Some(Opcode::Trap) {
                    continue;
                }
                always &= l.is_none_or(|l| s != l.header && l.blocks.contains(s));
                if seen.insert(s) {
                    work.push(s);
                }
            }
        }
        self.follows.borrow_mut().insert((b, later), always);
        always
    }

    /// Whether an iteration that passes a block by does so little else that it had better not
    /// watch.
    fn is_rare(&self, b: ir::Block) -> bool {
        is_passed_by(self.facts, b) || can_be_passed(self.facts, b, SHORT)
    }

    /// What is computed from a value in a block.
    fn users_in(&self, v: ir::Value, b: ir::Block) -> impl Iterator<Item = (ir::Inst, ir::Value)> + '_ {
        let func = self.facts.func();
        self.facts.uses.of(v).iter().filter_map(move |u| match u {
            Use::Inst(i, ..) if func.layout.inst_block(*i) == Some(b) => match func.dfg.inst_results(*i) {
                [z] => Some((*i, *z)),
                _ => None,
            },
            _ => None,
        })
    }

    /// What is computed from a value in the block that defines it.
    fn users(&self, v: ir::Value) -> impl Iterator<Item = (ir::Inst, ir::Value)> + '_ {
        let home = self.facts.cfg.def_block[v].expect("a value is defined in a block");
        self.users_in(v, home)
    }
}

/// Whether the result of an operation is infinite or NaN if this operand is.
fn passes_on(op: Opcode, operand: usize) -> bool {
    use Opcode::*;
    matches!(op, Fadd | Fsub | Fmul | Fneg | Fma | Sqrt) || op == Fdiv && operand == 0
}
