//! What a loop reads anew in each turn of another one is watched once.
//!
//! **Problem.** A forward half that watches numbers ([`crate::guards::versioning`]) pays for each
//! of them each time. A solver reads its matrix in every iteration, a mixture its factors for every
//! point: the same numbers from the same places, and if they were finite in the first turn of the
//! outer loop, so they are in all others.
//!
//! **Answer.** In front of the inner loop stands a copy of it that does nothing but find the way,
//! read those numbers and watch them, and only the outer loop's first turn comes by:
//!
//! ```text
//! outer(…, first):  …                          one on the way into the outer loop, zero on the way back
//! entry:            goes to `asks` instead of the inner loop
//! asks:             if first, copy(…), inner(…)
//! copy:             the inner loop, without what is not needed; leaves for `goes_on`
//! goes_on:          jump inner(…)
//! ```
//!
//! **Which.** The outer loop is the one right around the inner one, which has one entry. Whether a
//! turn of the outer loop comes by there, all branches and traps of the inner loop, and the
//! addresses of what is read must be *the same in each turn* of the outer loop: made by pure
//! operations of what is computed outside of that, of parameters of the inner loop's own blocks,
//! and of loads from memory that nobody writes afterwards ([`Facts::reload`]). A parameter is the
//! same if the branches before it are, since the way is. Of several loops around each other the
//! outermost pair is taken.
//!
//! **Why that is all there is.** A load that is in the outer loop, and behind which nobody writes
//! where it has read, reads what it would read in front of the inner loop: whatever is written in
//! the outer loop can come behind it. So the copy takes the way that the inner loop takes, in this
//! turn and in all later ones, and reads what that reads.
//!
//! **What changes.** A load that faults does so before the inner loop begins, not in its course;
//! what it may have stored until then is not stored. Traps of the inner loop are in the copy, too,
//! so that nothing is read that a trap is in front of; other functions are not called in such a
//! loop.
//!
//! **Invariants.** Blocks of the copy define names of the primal once more. They see no names of
//! theirs but their own ([`Role::Once`]), and come before the inner loop in the graph, so that
//! whoever goes through that in order has the loop's own names when he comes to those who read
//! them.

use std::cell::RefCell;

use brolga_analysis::{CalleeKind, Loop, LoopId};
use brolga_ir::BlockId;
use brolga_ir::block::{CfgBlock, CfgBlocks, Fragment, Ids, Role, Target, Term};
use brolga_ir::inst::{AdInst, AdOp, Args, Arith, Defs, Sum, Val};
use brolga_ir::lift::{BlockMap, lift_block};
use brolga_ir::map::{HashMap, IndexMap, IndexSet, Table};
use brolga_rules::is_pure;
use cranelift_codegen::ir::{self, InstructionData, Opcode, ValueDef, types};

use crate::facts::Facts;

/// Most values that a copy is made of, and most instructions of the loop.
const MOST: usize = 200;
const MOST_INSTS: usize = 1000;

/// Numbers to be watched in a copy of each of these loops.
pub type Nests = IndexMap<LoopId, IndexSet<ir::Value>>;

/// Which numbers can be watched once.
pub struct Once<'a, 'f> {
    facts: &'a Facts<'f>,
    /// What decides on the way through a loop, if that is the same in each turn of the loop around
    /// it.
    ways: RefCell<HashMap<LoopId, Option<Vec<ir::Value>>>>,
    found: RefCell<HashMap<ir::Value, Option<LoopId>>>,
}

impl<'a, 'f> Once<'a, 'f> {
    /// Nothing has been asked yet.
    pub fn new(facts: &'a Facts<'f>) -> Self {
        Self { facts, ways: RefCell::default(), found: RefCell::default() }
    }

    /// The inner loop in a copy of which a number can be watched.
    pub fn loop_of(&self, v: ir::Value) -> Option<LoopId> {
        let facts = self.facts;
        if facts.reload.is_empty() || facts.func().dfg.value_def(v).inst().is_none() {
            return None;
        }
        if let Some(&known) = self.found.borrow().get(&v) {
            return known;
        }
        let around: Vec<LoopId> = facts.loops.around(facts.cfg.def_block[v]?).collect();
        let inner = around.split_last().map_or(&[][..], |x| x.1).iter().rev();
        let found = inner.copied().find(|&l| self.way(l) && needed(facts, l, [v]).is_some());
        self.found.borrow_mut().insert(v, found);
        found
    }

    /// Whether the way through a loop is the same in each turn of the one around it.
    fn way(&self, l: LoopId) -> bool {
        if let Some(known) = self.ways.borrow().get(&l) {
            return known.is_some();
        }
        let found = deciding(self.facts, l).filter(|v| needed(self.facts, l, v.iter().copied()).is_some());
        let is = found.is_some();
        self.ways.borrow_mut().insert(l, found);
        is
    }
}

/// The loop around a loop, and the block from which it is entered, if there is one.
fn entered<'a>(facts: &'a Facts<'_>, l: LoopId) -> Option<(&'a Loop, ir::Block)> {
    let loops = &facts.loops.loops;
    let outer = &loops[loops[l].parent?];
    let [entry] = loops[l].entries[..] else { return None };
    outer.blocks.contains(entry).then_some((outer, entry))
}

/// What decides whether a turn of a loop comes by a block.
fn guards(facts: &Facts<'_>, l: &Loop, mut b: ir::Block) -> Option<Vec<ir::Value>> {
    let func = facts.func();
    let mut found = Vec::new();
    while !l.latches.iter().all(|&latch| facts.loops.dominates(b, latch)) {
        let [before] = facts.cfg.preds[b][..] else { return None };
        b = before;
        found.extend(decides(func, func.layout.last_inst(b)?));
    }
    Some(found)
}

/// What decides whether a loop is entered, and on the way through it.
fn deciding(facts: &Facts<'_>, l: LoopId) -> Option<Vec<ir::Value>> {
    let func = facts.func();
    let inner = &facts.loops.loops[l];
    let (outer, entry) = entered(facts, l)?;
    let mut found = guards(facts, outer, entry)?;
    found.extend(decides(func, func.layout.last_inst(entry)?));
    let mut count = 0;
    for &b in facts.cfg.blocks.iter().filter(|b| inner.blocks.contains(**b)) {
        if facts.loops.irreducible.contains(b) {
            return None;
        }
        for &inst in facts.cfg.insts(b) {
            count += 1;
            let computes = || match CalleeKind::of(facts.program, func, inst) {
                Some(CalleeKind::Known(rule)) => rule.only_computes(),
                _ => false,
            };
            if count > MOST_INSTS || func.dfg.insts[inst].opcode().is_call() && !computes() {
                return None;
            }
            found.extend(decides(func, inst));
        }
    }
    Some(found)
}

/// What a branch or a trap asks about.
fn decides(func: &ir::Function, inst: ir::Inst) -> Option<ir::Value> {
    match func.dfg.insts[inst] {
        InstructionData::Brif { arg, .. }
        | InstructionData::BranchTable { arg, .. }
        | InstructionData::CondTrap { arg, .. } => Some(arg),
        _ => None,
    }
}

/// These and all that they are made of, as far as that is in the loop around a loop; none if that
/// is not the same in each turn of it.
fn needed(facts: &Facts<'_>, l: LoopId, of: impl IntoIterator<Item = ir::Value>) -> Option<IndexSet<ir::Value>> {
    let func = facts.func();
    let inner = &facts.loops.loops[l];
    let (outer, _) = entered(facts, l)?;
    let mut found: IndexSet<ir::Value> = IndexSet::default();
    let mut work: Vec<ir::Value> = of.into_iter().collect();
    while let Some(v) = work.pop() {
        if !outer.blocks.contains(facts.cfg.def_block[v]?) || !found.insert(v) {
            continue;
        }
        match func.dfg.value_def(v) {
            ValueDef::Param(b, i) if inner.blocks.contains(b) => {
                work.extend(facts.cfg.preds[b].iter().map(|&p| facts.cfg.args(p, b)[i]));
            }
            ValueDef::Result(inst, _) => {
                let op = func.dfg.insts[inst].opcode();
                if !(is_pure(op) || op == Opcode::Load && facts.reload.contains(inst)) {
                    return None;
                }
                work.extend(func.dfg.inst_args(inst));
            }
            ValueDef::Param(..) | ValueDef::Union(..) => return None,
        }
        if found.len() > MOST {
            return None;
        }
    }
    Some(found)
}

/// Put copies of loops into a forward graph, and watch there.
pub fn watch_once(facts: &Facts<'_>, nests: &Nests, graph: &mut CfgBlocks, map: &BlockMap, ids: &mut Ids) {
    if nests.is_empty() {
        return;
    }
    let mut firsts: HashMap<ir::Block, Val> = HashMap::default();
    let mut copies: HashMap<BlockId, Vec<CfgBlock>> = HashMap::default();
    // Who enters an outer loop tells it so, before another copy is put in between.
    for &l in nests.keys() {
        let (outer, _) = entered(facts, l).expect("found as such");
        firsts.entry(outer.header).or_insert_with(|| first_turn(facts, outer, graph, map, ids));
    }
    for (&l, values) in nests {
        let header = facts.loops.loops[l].header;
        let (outer, _) = entered(facts, l).expect("found as such");
        let first = firsts[&outer.header];
        copies.insert(map[&header], copy(facts, (l, values), first, graph, map, ids));
    }
    let all = graph.blocks.len() + copies.values().map(Vec::len).sum::<usize>();
    let before = std::mem::replace(&mut graph.blocks, Table::with_capacity(all, ids.blocks()));
    for (id, block) in before {
        for block in copies.remove(&id).into_iter().flatten() {
            graph.blocks.insert(block.id, block);
        }
        graph.blocks.insert(id, block);
    }
}

/// A parameter of a loop's header that is not zero in the first turn.
fn first_turn(facts: &Facts<'_>, l: &Loop, graph: &mut CfgBlocks, map: &BlockMap, ids: &mut Ids) -> Val {
    let first = Val::D(ids.dv());
    let header = map[&l.header];
    graph.blocks[&header].params.push((first, types::I8));
    for p in &facts.cfg.preds[l.header] {
        let block = &mut graph.blocks[&map[p]];
        let v = Val::D(ids.dv());
        let op = AdOp::Arith(Arith::Iconst(i64::from(!l.latches.contains(p))), Args::default(), types::I8);
        block.insts.insert(ids.inst(), AdInst { defs: [(v, types::I8)].into(), op, at: block.term_at });
        for target in block.term.targets_mut().filter(|t| t.block == header) {
            target.args.push(v);
        }
    }
    first
}

/// The copy of a loop, with what is in front of it and behind it.
fn copy(
    facts: &Facts<'_>,
    (l, values): (LoopId, &IndexSet<ir::Value>),
    first: Val,
    graph: &mut CfgBlocks,
    map: &BlockMap,
    ids: &mut Ids,
) -> Vec<CfgBlock> {
    let func = facts.func();
    let inner = &facts.loops.loops[l];
    let header = inner.header;
    let (_, entry) = entered(facts, l).expect("found as such");
    let roots = deciding(facts, l).expect("found as such").into_iter().chain(values.iter().copied());
    let needed = needed(facts, l, roots).expect("found as such");
    let (asks, goes_on) = (ids.block(), ids.block());
    let ours: Vec<ir::Block> = facts.cfg.blocks.iter().copied().filter(|b| inner.blocks.contains(*b)).collect();
    let mut to: BlockMap = ours.iter().flat_map(|&b| &facts.cfg.succs[b]).map(|&s| (s, goes_on)).collect();
    for &b in &ours {
        to.insert(b, ids.block());
    }
    let is_needed = |name: Val| matches!(name, Val::Primal(v) if needed.contains(&v));
    // Arguments of a primal edge, as far as the copy has parameters for them.
    let args = |from: ir::Block, b: ir::Block| -> Vec<Val> {
        let wanted = func.dfg.block_params(b).iter().zip(facts.cfg.args(from, b));
        wanted.filter(|(p, _)| needed.contains(*p)).map(|(_, &a)| Val::Primal(a)).collect()
    };
    let term_at = func.layout.last_inst(entry);
    let way = &mut graph.blocks[&map[&entry]].term;
    let target = way.targets_mut().find(|t| t.block == map[&header]).expect("it is entered from there");
    let into = std::mem::replace(target, Target { block: asks, args: vec![] });
    let bare = |id, term| CfgBlock {
        id,
        role: Role::Once(header, entry),
        params: vec![],
        insts: Fragment::default(),
        term,
        term_at,
        cold: false,
    };
    let once = Target { block: to[&header], args: args(entry, header) };
    let mut blocks = vec![bare(asks, Term::If(first, once, into.clone()))];
    for &b in &ours {
        let mut block = lift_block(func, b, to[&b], Role::Once(header, b), &to, ids);
        block.params.retain(|p| is_needed(p.0));
        for target in block.term.targets_mut() {
            let s = ours.iter().find(|s| to[*s] == target.block);
            target.args = s.map_or_else(Vec::new, |&s| args(b, s));
        }
        let mut insts = Fragment::default();
        for (id, inst) in std::mem::take(&mut block.insts) {
            let at = inst.at;
            let traps = at.is_some_and(|i| matches!(func.dfg.insts[i], InstructionData::CondTrap { .. }));
            let watched = inst.defs.iter().map(|d| d.0).find(|d| matches!(d, Val::Primal(v) if values.contains(v)));
            if traps || inst.defs.iter().any(|d| is_needed(d.0)) {
                insts.insert(id, inst);
            }
            if let Some(value) = watched {
                let op = AdOp::Watch { value, not_zero: false, sum: Sum::Whole };
                insts.insert(ids.inst(), AdInst { defs: Defs::default(), op, at });
            }
        }
        block.insts = insts;
        blocks.push(block);
    }
    blocks.push(bare(goes_on, Term::Jump(into)));
    blocks
}
