//! Exclusive accesses: between which addresses a task's pullback adds cotangents.
//!
//! **Question.** Tasks of a fork work on rows of one array. Which bytes of its shadow does each
//! touch? Where no two tasks touch the same, none needs pending sums for them.
//!
//! **Answer.** Scalar evolution ([`crate::primal::scev`]). An address in a nest of loops is a first
//! address plus, for each loop, a step times the iterations done. Where first address, steps and
//! trip counts are known when the delta is recorded, the forward pass tells the run time, which
//! compares tasks when the fork is over (`brolga_runtime::forks::pending`):
//!
//! ```text
//!   for i in lo..hi { for j in 0..n { … x[n i + j] … } }
//!       ─►   first x + 8 n lo, 8 bytes, step 8 n for hi - lo, step 8 for n iterations
//! ```
//!
//! Only deltas all of whose uses in the pullback are such accesses have extents. **Errs** on the
//! side of too many bytes: branches in loops are not looked at.
//!
//! **Cost.** A walk through the pullback, and a sum for each access by a recorded delta.
//!
//! **Source.** W. Pugh: The Omega test (1991) asks more; symbolic bounds as in Rugina and Rinard,
//! "Symbolic bounds analysis of pointers, array indices, and accessed memory regions" (2000).

use brolga_analysis::{LoopId, RootKind};
use brolga_ir::BlockId;
use brolga_ir::block::{CfgBlocks, Role};
use brolga_ir::inst::{AdInst, AdOp, Arith, ShadowPlace, Shape, Val};
use brolga_ir::map::{HashMap, HashSet, IndexMap};
use cranelift_codegen::ir;
use smallvec::SmallVec;

use crate::facts::Facts;
use crate::primal::scev::{AffineContext, Atom, Sum};
use crate::shadow::strides::around;

/// Loops that an extent may go through: as many as the run time is told of.
pub(super) const MOST_LOOPS: usize = 3;

/// Extents of one record that the run time is told of.
const MOST_EXTENTS: usize = 4;

/// Bytes that accesses in one nest of loops touch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Extent {
    /// The lowest address that the first iterations touch.
    pub first: Sum,
    /// How many bytes from there they touch at most.
    pub bytes: i64,
    /// For each loop by how many bytes an iteration moves on, and how many iterations there are.
    pub steps: SmallVec<[(Sum, Sum); MOST_LOOPS]>,
}

/// What pullbacks touch by a delta that a block of the forward graph records.
pub(super) type Extents = IndexMap<(BlockId, ir::Value), SmallVec<[Extent; 1]>>;

/// An access of the pullback by a delta.
struct ShadowUse {
    inst: ir::Inst,
    addr: ir::Value,
    off: i32,
    bytes: u32,
}

/// A block that records deltas, and which values it has at hand.
struct RecordSite {
    block: ir::Block,
    defined: HashSet<Val>,
}

/// Deltas that an instruction records, but those of the function's own stack slots, which no other
/// strand adds to.
pub(super) fn recorded<'i>(facts: &'i Facts<'_>, inst: &'i AdInst) -> impl Iterator<Item = (ir::Value, Val)> {
    let names: &[Val] = match &inst.op {
        AdOp::Push(names, _) => names,
        AdOp::Keep(_, name) => std::slice::from_ref(name),
        _ => &[],
    };
    names.iter().filter_map(|&name| match name {
        Val::Delta(r) if !matches!(facts.pointers.roots.get(&r), Some(RootKind::Slot(_))) => Some((r, name)),
        _ => None,
    })
}

/// Find the extents of deltas.
pub(super) fn extents(forward: &CfgBlocks, pullback: &CfgBlocks, facts: &Facts<'_>) -> Extents {
    let accesses = accesses(pullback);
    let mut found = Extents::default();
    let mut unknown: HashSet<ir::Value> = HashSet::default();
    for block in forward.blocks.values() {
        let Role::Forward(primal) = block.role else { continue };
        let mut site = RecordSite { block: primal, defined: HashSet::default() };
        for inst in block.insts.values() {
            for (root, _) in recorded(facts, inst) {
                let of = match facts.pointers.roots.get(&root) {
                    Some(RootKind::Data(_)) => None,
                    _ => accesses.get(&root).and_then(|all| all.as_deref()).and_then(|all| site.extents(facts, all)),
                };
                match of {
                    Some(of) => _ = found.insert((block.id, root), of),
                    None => _ = unknown.insert(root),
                }
            }
            site.defined.extend(inst.defs.iter().map(|d| d.0));
        }
    }
    // What is popped of one record is read as what is popped of another.
    found.retain(|(_, root), _| !unknown.contains(root));
    found
}

/// Accesses by each delta that is read; none if it is read for anything else. Loops hold deltas,
/// by way of copies.
fn accesses(pullback: &CfgBlocks) -> HashMap<ir::Value, Option<Vec<ShadowUse>>> {
    let mut found: HashMap<ir::Value, Option<Vec<ShadowUse>>> = HashMap::default();
    let insts = || pullback.blocks.values().flat_map(|b| b.insts.values());
    let copied = |inst: &AdInst| match &inst.op {
        AdOp::Arith(Arith::Copy, args, _) if matches!(args[0], Val::Delta(_)) => Some((inst.defs[0].0, args[0])),
        _ => None,
    };
    let copies: HashMap<Val, Val> = insts().filter_map(copied).collect();
    for inst in insts() {
        let access = access(inst);
        inst.each_read(|read| {
            let name = copies.get(&read).copied().unwrap_or(read);
            let Val::Delta(root) = name else { return };
            let carried = matches!(inst.op, AdOp::Hold(to, _) if to == name) || copied(inst).is_some();
            let all = found.entry(root).or_insert_with(|| Some(Vec::new()));
            match (&access, all.as_mut()) {
                (Some((by, access)), Some(all)) if *by == read && read == name => all.push(ShadowUse { ..*access }),
                _ if carried => {}
                _ => *all = None,
            }
        });
    }
    found
}

/// The delta by which an instruction accesses a shadow, and where, if it does nothing else with it.
fn access(inst: &AdInst) -> Option<(Val, ShadowUse)> {
    let (place, bytes) = match &inst.op {
        AdOp::AddMem { place, shape, fresh: false, .. }
        | AdOp::TakeMem { place, shape }
        | AdOp::PeekMem { place, shape }
            if !matches!(shape, Shape::Bytes { .. } | Shape::Demand { .. }) =>
        {
            (place, shape.bytes())
        }
        AdOp::ZeroMem { place, bytes, cuts: None, .. } | AdOp::Poison { place, bytes, .. } => (place, *bytes),
        _ => return None,
    };
    let &ShadowPlace { addr: Val::Primal(addr), delta, off, .. } = place else { return None };
    Some((delta, ShadowUse { inst: inst.at?, addr, off, bytes }))
}

impl RecordSite {
    /// What these accesses touch.
    fn extents(&self, facts: &Facts<'_>, accesses: &[ShadowUse]) -> Option<SmallVec<[Extent; 1]>> {
        let mut all: SmallVec<[Extent; 1]> = SmallVec::new();
        for access in accesses {
            let extent = self.extent(facts, access)?;
            let (common, at) = extent.first.clone().split_constant();
            let beside = all.iter_mut().find_map(|e| {
                let (same, first) = e.first.clone().split_constant();
                (same == common && e.steps == extent.steps).then_some((e, first))
            });
            match beside {
                Some((e, first)) => {
                    let (from, to) = (first.min(at), (first.checked_add(e.bytes)?).max(at.checked_add(extent.bytes)?));
                    (e.first, e.bytes) = (common.plus(&Sum::constant(from), 1), to.checked_sub(from)?);
                }
                None => all.push(extent),
            }
        }
        (all.len() <= MOST_EXTENTS).then_some(all)
    }

    /// What one access touches.
    fn extent(&self, facts: &Facts<'_>, access: &ShadowUse) -> Option<Extent> {
        let (func, loops) = (facts.func(), facts.loops);
        let b = func.layout.inst_block(access.inst)?;
        // A record is of one iteration of the loops around it.
        let mut nest: SmallVec<[LoopId; 4]> = around(loops, b);
        nest.retain(|l| !loops.contains(*l, self.block));
        if loops.irreducible.contains(b) || nest.len() > MOST_LOOPS {
            return None;
        }
        let affine = AffineContext { func, loops };
        let sum = affine.sum(access.addr, &nest).plus(&Sum::constant(access.off.into()), 1);
        let atoms: Vec<Atom> = nest.iter().map(|&l| Atom::TripCount(l)).collect();
        let (factors, first) = sum.factors(&atoms)?;
        let mut steps = SmallVec::new();
        for (k, step) in factors.into_iter().enumerate().filter(|(_, step)| *step != Sum::default()) {
            let (trips, asks_first) = affine.iterations(nest[k], &nest[..k])?;
            // Its header runs once more than its body.
            if asks_first && loops.loops[nest[k]].header == b {
                return None;
            }
            steps.push((step, trips));
        }
        let known = |s: &Sum| s.atoms().all(|a| matches!(a, Atom::Value(v) if self.has(facts, v, nest.first())));
        let all_known = known(&first) && steps.iter().all(|(step, trips)| known(step) && known(trips));
        all_known.then_some(Extent { first, bytes: access.bytes.into(), steps })
    }

    /// Whether a value is at hand here, and the same in all iterations of a loop.
    fn has(&self, facts: &Facts<'_>, v: ir::Value, l: Option<&LoopId>) -> bool {
        let Some(def) = facts.cfg.def_block[v] else { return false };
        let here = || {
            let is_param = matches!(facts.func().dfg.value_def(v), ir::ValueDef::Param(..));
            is_param || self.defined.contains(&Val::Primal(v))
        };
        let varies = l.is_some_and(|&l| facts.loops.contains(l, def));
        !varies && facts.loops.dominates(def, self.block) && (def != self.block || here())
    }
}
