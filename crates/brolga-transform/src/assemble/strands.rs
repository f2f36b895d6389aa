//! Pending sums of strands: which shadows the pullback of a task adds to.
//!
//! **Problem.** Pullbacks of tasks that run at the same time add to shadows that they share. Atomic
//! additions are slow, and give other bits in another order.
//!
//! **Answer.** Privatisation. Each strand has memory of its own in place of shadows that it does
//! not own, full of zeros, which is added up when the fork is over. It is as far from the primal as
//! another delta says, so code that adds stays as it is: where the forward pass records a delta, it
//! records that one.
//!
//! ```text
//!   v7' = load_delta v3+8            ─►   v7' = load_delta v3+8
//!   push (v7')                            d1 = call %brolga_pending(seg, v7, v7')
//!                                         push (v7')          the record has d1
//! ```
//!
//! Of a delta all of whose uses are in extents that are known ([`super::exclusive`]) the address of
//! a place is recorded, in which the run time puts the delta when it has compared all tasks:
//!
//! ```text
//!   push (v7')                       ─►   c1 = call %brolga_pending_within(seg, v7, v7', …)
//!                                         push (v7')          the record has c1
//!   pop (v7')                        ─►   pop (d2); v7' = delta in d2
//! ```
//!
//! What reads cotangents gathers first what is pending elsewhere (`brolga_ir::lower`, `settle`).
//!
//! **Before and after.** The forward pass has its own names, and its effects; the pullback finds
//! other numbers in its records, or where they are.
//!
//! **Cost.** A call for each delta that is recorded.
//!
//! **Source.** T. Smeding, M. Vákár: Parallel dual-numbers reverse AD. Journal of Functional
//! Programming (2025).

use brolga_analysis::RootKind;
use brolga_ir::InstId;
use brolga_ir::block::{CfgBlock, CfgBlocks, Ids};
use brolga_ir::inst::{AdInst, AdOp, Arith, Callee, Tape, Val};
use brolga_ir::map::{HashMap, HashSet, IndexMap};
use cranelift_codegen::ir::{self, types::I64};

use crate::assemble::exclusive::{Extent, MOST_LOOPS, extents, recorded};
use crate::facts::Facts;
use crate::primal::scev::{Atom, Sum};
use crate::translate::convert::helper_call;

/// The helpers that tell how far pending sums are: of what lies at an address, and of a data
/// object, whose address may not be known yet where its delta is.
const PENDING: [&str; 2] = ["brolga_pending", "brolga_pending_data"];

/// The helper that is told what a pullback touches, and tells where its delta will be.
const PENDING_WITHIN: &str = "brolga_pending_within";

/// Ask for the pending sums of all deltas that a forward pass records. What the pullback touches by
/// some is known ([`super::exclusive`]): their records say where the delta will be.
pub(super) fn ask(forward: &mut CfgBlocks, pullback: &mut CfgBlocks, facts: &Facts<'_>, ids: &mut Ids) {
    let extents = extents(forward, pullback, facts);
    for block in forward.blocks.values_mut() {
        if !block.insts.values().any(|i| recorded(facts, i).next().is_some()) {
            continue;
        }
        let mut asked: IndexMap<ir::Value, Sequence> = IndexMap::default();
        for inst in block.insts.values() {
            for (root, delta) in recorded(facts, inst).filter(|(root, _)| !asked.contains_key(root)).collect::<Vec<_>>()
            {
                let mut asking = Asking { insts: Vec::new(), ids, at: inst.at };
                match extents.get(&(block.id, root)) {
                    Some(extents) => extents.iter().for_each(|e| asking.within(root, delta, e)),
                    None => asking.pending(facts, root, delta),
                }
                asked.insert(root, asking.insts);
            }
        }
        put_early(block, asked.into_values());
    }
    let by_place: HashSet<Val> = extents.keys().map(|&(_, root)| Val::Delta(root)).collect();
    if !by_place.is_empty() {
        look_up(pullback, &by_place, ids);
    }
}

/// Instructions with their names.
type Sequence = Vec<(InstId, AdInst)>;

/// Put sequences into a block, each after what it reads: fewer values live across its calls there
/// than before the record.
fn put_early(block: &mut CfgBlock, sequences: impl Iterator<Item = Sequence>) {
    let mut ready_at: HashMap<Val, usize> = HashMap::default();
    let mut first = 0;
    for (at, inst) in block.insts.values().enumerate() {
        ready_at.extend(inst.defs.iter().map(|d| (d.0, at + 1)));
        first = if matches!(inst.op, AdOp::EnterFrame) { at + 1 } else { first };
    }
    let mut places: Vec<(usize, Sequence)> = Vec::new();
    for sequence in sequences {
        let mut at = first;
        for (_, inst) in &sequence {
            inst.each_read(|v| at = at.max(ready_at.get(&v).copied().unwrap_or(0)));
        }
        places.push((at, sequence));
    }
    places.sort_by_key(|p| p.0);
    let mut places = places.into_iter().peekable();
    for (at, (id, inst)) in std::mem::take(&mut block.insts).into_iter().enumerate() {
        while let Some((_, sequence)) = places.next_if(|p| p.0 <= at) {
            sequence.into_iter().for_each(|(id, inst)| block.insts.insert(id, inst));
        }
        block.insts.insert(id, inst);
    }
}

/// Where a pullback reads from a record where a delta is, it loads that.
fn look_up(pullback: &mut CfgBlocks, by_place: &HashSet<Val>, ids: &mut Ids) {
    for block in pullback.blocks.values_mut() {
        for (id, mut inst) in std::mem::take(&mut block.insts) {
            let reads = matches!(inst.op, AdOp::Pop(..) | AdOp::Restore(_));
            let mut places: Vec<(Val, Val)> = Vec::new();
            for def in inst.defs.iter_mut().filter(|d| reads && by_place.contains(&d.0)) {
                let place = Val::D(ids.dv());
                places.push((std::mem::replace(&mut def.0, place), place));
            }
            let at = inst.at;
            block.insts.insert(id, inst);
            for (delta, place) in places {
                let op = AdOp::LoadTaskDelta(place);
                block.insts.insert(ids.inst(), AdInst { defs: [(delta, I64)].into(), op, at });
            }
        }
    }
}

/// Instructions before a record.
struct Asking<'i> {
    insts: Sequence,
    ids: &'i mut Ids,
    at: Option<ir::Inst>,
}

impl Asking<'_> {
    fn put(&mut self, op: AdOp) -> Val {
        let name = Val::D(self.ids.dv());
        self.insts.push((self.ids.inst(), AdInst { defs: [(name, I64)].into(), op, at: self.at }));
        name
    }

    fn arith(&mut self, op: Arith, args: &[Val]) -> Val {
        self.put(AdOp::Arith(op, args.into(), I64))
    }

    fn number(&mut self, n: i64) -> Val {
        self.arith(Arith::Iconst(n), &[])
    }

    /// For a delta of which no more is known.
    fn pending(&mut self, facts: &Facts<'_>, root: ir::Value, delta: Val) {
        let (helper, whose) = match facts.pointers.roots.get(&root) {
            Some(RootKind::Data(key)) => (PENDING[1], self.number(key.as_u32().into())),
            _ => (PENDING[0], Val::Primal(root)),
        };
        let args = [None, Some(whose), Some(delta)];
        self.put(helper_call(helper, &args, &[I64; 3], [I64].into_iter(), Tape::Aside));
    }

    /// For one whose pullback touches this.
    fn within(&mut self, root: ir::Value, delta: Val, extent: &Extent) {
        let mut args = vec![None, Some(Val::Primal(root)), Some(delta)];
        let (first, bytes) = (self.sum(&extent.first), self.number(extent.bytes));
        args.extend([Some(first), Some(bytes)]);
        for (step, trips) in &extent.steps {
            let (step, trips) = (self.sum(step), self.sum(trips));
            args.extend([Some(step), Some(trips)]);
        }
        // Loops that do not move the address.
        for _ in extent.steps.len()..MOST_LOOPS {
            let (step, trips) = (self.number(0), self.number(1));
            args.extend([Some(step), Some(trips)]);
        }
        let types = vec![I64; args.len()];
        self.put(helper_call(PENDING_WITHIN, &args, &types, [I64].into_iter(), Tape::Aside));
    }

    /// A sum of values that are at hand.
    fn sum(&mut self, sum: &Sum) -> Val {
        let mut total = None;
        for (atoms, c) in sum.products() {
            let mut product = if c == 1 && !atoms.is_empty() { None } else { Some(self.number(c)) };
            for atom in atoms {
                let Atom::Value(v) = atom else { unreachable!("an extent is a sum of values") };
                let v = Val::Primal(*v);
                product = Some(product.map_or(v, |p| self.arith(Arith::Imul, &[p, v])));
            }
            let product = product.expect("there is a factor");
            total = Some(total.map_or(product, |t| self.arith(Arith::Iadd, &[t, product])));
        }
        total.unwrap_or_else(|| self.number(0))
    }
}

/// Forget those that are not recorded after all.
pub(super) fn forget_unused(graph: &mut CfgBlocks, facts: &Facts<'_>) {
    for block in graph.blocks.values_mut() {
        let recorded_deltas: Vec<Val> =
            block.insts.values().flat_map(|i| recorded(facts, i)).map(|(_, delta)| delta).collect();
        block.insts.retain(|_, inst| match &inst.op {
            AdOp::Call { callee: Callee::Symbol(s), args, .. } if PENDING.contains(&&**s) || **s == *PENDING_WITHIN => {
                args[2].is_some_and(|delta| recorded_deltas.contains(&delta))
            }
            _ => true,
        });
    }
}

/// Sizes of the floats whose cotangents a pullback adds to shadows, in bytes. Pending sums have no
/// types, so a program may have floats of one size there.
pub(crate) fn float_sizes(pullback: &CfgBlocks) -> FloatSizes {
    let mut found = FloatSizes::default();
    for inst in pullback.blocks.values().flat_map(|b| b.insts.values()) {
        match &inst.op {
            AdOp::AddMem { shape, .. } | AdOp::TakeMem { shape, .. } | AdOp::PeekMem { shape, .. } => {
                found.note(shape.lane_bytes());
            }
            // The last argument is the size of an element, or zero.
            AdOp::Call { callee: Callee::Symbol(s), args, .. }
                if matches!(&**s, "brolga_memmove_rev" | "brolga_move_rev") =>
            {
                let size = args.last().copied().flatten();
                let is_it = |i: &&AdInst| i.defs.first().map(|d| d.0) == size;
                let def = pullback.blocks.values().flat_map(|b| b.insts.values()).find(is_it);
                found.note(match def.map(|i| &i.op) {
                    Some(AdOp::Arith(Arith::Iconst(bytes), ..)) => *bytes as u32,
                    _ => 0,
                });
            }
            _ => {}
        }
    }
    found
}

/// Sizes of floats.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FloatSizes {
    singles: bool,
    doubles: bool,
    others: bool,
}

impl FloatSizes {
    fn note(&mut self, bytes: u32) {
        match bytes {
            4 => self.singles = true,
            8 => self.doubles = true,
            _ => self.others = true,
        }
    }

    /// Those of both.
    pub(crate) fn join(&mut self, more: Self) {
        self.singles |= more.singles;
        self.doubles |= more.doubles;
        self.others |= more.others;
    }

    /// The size that all have.
    pub(crate) fn only(self) -> Option<u8> {
        match self {
            Self { others: true, .. } | Self { singles: true, doubles: true, .. } => None,
            Self { singles: true, .. } => Some(4),
            _ => Some(8),
        }
    }
}
