//! Inspector/executor for the rows of a sparse matrix: if they ascend, each entry is read once and
//! its shadow is stored, not added to.
//!
//! **Problem.** A sparse matrix has the entries of its `i`-th row at `row[i]` to `row[i + 1]`. An
//! adjoint by hand relies on it that no two rows overlap, so that each entry is read once, and its
//! shadow is stored instead of cleared and added to ([`crate::shadow::store_for_add`]). In the
//! program nothing says so: `row` is data.
//!
//! **Answer.** The forward half reads `row` anyway, and asks: each row ends where the next begins,
//! as one sees without running it, so rows are disjoint and leave no gaps if none ends before it
//! begins. That is an addition to what is watched ([`crate::guards::versioning`]): the pullback
//! that is taken if all numbers are finite and all rows ascend stores; the other one, for rare
//! runs, adds. Where no row is passed by, the shadow need not have been cleared: what rare runs add
//! to, they clear first, by the reverse of the same loops with nothing but that in it.
//!
//! **Where.** In a loop in a loop, which is in no other, in functions that have both halves. The
//! inner loop goes up by one from `low` to `high` at addresses that are a multiple of what it
//! counts; and `high` is the next iteration's `low`, either handed on as such or loaded from where
//! that is going to be loaded, in memory that is not written.
//!
//! **Invariant.** Rows from `low` up to `high`, where no `high` is below its `low` in the order in
//! which the loop compares, are one run of numbers from the first `low` up to the last `high`.
//! Where no row is passed by, an iteration for each of them has been made by then, so they are
//! fewer than would come round to the same address ([`crate::shadow::store_for_add`]). Where rows
//! may be passed by, each `high` is asked to be below 2⁵¹ as well: then all that are read are, but
//! for what lies in the first row, of which that holds as for any loop.
//!
//! **Cost.** In the run a comparison for each row.
//!
//! **Source.** Inspectors and executors: Saltz, Mirchandaney and Crowley, *Run-time parallelization
//! and scheduling of loops* (1991).

use brolga_analysis::LoopId;
use brolga_analysis::cfg::edge_args;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstructionData, Opcode, types};

use crate::facts::Facts;
use crate::facts::overwrites::Order;
use crate::primal::induction::{exit_test, induction};
use crate::primal::scev::{AffineContext, Atom};
use crate::shadow::access::ShadowAccess;
use crate::shadow::strides::{LONG_STEP, SHORT_STEP, each_iteration, is_fixed};

impl Order {
    /// What has to be asked so that reads at one address (and constants beside it) are of places
    /// that differ from iteration to iteration, and by how many bytes they differ.
    pub(crate) fn of_rows(
        facts: &Facts<'_>,
        affine: AffineContext<'_>,
        live: &[&ShadowAccess],
        nest: &[LoopId],
    ) -> Option<(Order, i64)> {
        let &[outer, inner] = nest else { return None };
        let (func, loops) = (facts.func(), facts.loops);
        let lp = &loops.loops[inner];
        let [(from, to)] = lp.exits[..] else { return None };
        let (test, low) = (0..func.dfg.block_params(lp.header).len()).find_map(|i| {
            let iv = induction(func, loops, inner, i)?;
            let test = exit_test(func, loops, inner, &iv, from, to)?;
            let asked_first = from == lp.header && !test.of_next;
            let exact = test.cc == IntCC::Equal && (asked_first || test.of_next && from == lp.latches[0]);
            let counts = iv.step == 1 && func.dfg.value_type(iv.var) == types::I64 && (asked_first || exact);
            counts.then_some((test, iv.start))
        })?;
        let high = test.bound;
        let cc = match test.cc {
            IntCC::UnsignedGreaterThanOrEqual => IntCC::UnsignedLessThan,
            _ => IntCC::SignedLessThan,
        };
        // The iteration that only asks reads the place where the next row begins.
        if !test.of_next && live.iter().any(|r| r.block == lp.header) {
            return None;
        }
        // An element further for each iteration, from where the row begins.
        let (factors, rest) = live[0].at.factors(&[Atom::TripCount(inner)])?;
        let passed_by = !each_iteration(loops, outer, lp.header);
        let all_access = !passed_by && live.iter().all(|r| each_iteration(loops, inner, r.block));
        let longest = if all_access { LONG_STEP } else { SHORT_STEP };
        let stride = factors[0].as_constant().filter(|&s| s > 0 && s.unsigned_abs() <= longest)?;
        let beside = rest.plus(&affine.sum(low, nest), stride.wrapping_neg());
        if !is_fixed(&affine, &beside, outer) || !is_next(facts, affine, low, high, outer) {
            return None;
        }
        let home = |v| facts.cfg.def_block[v].filter(|&b| loops.innermost[b] == Some(outer));
        let (a, b) = (home(low)?, home(high)?);
        let block = if loops.dominates(a, b) { b } else { a };
        let order = Order { low, high, cc, near: passed_by, block };
        each_iteration(loops, outer, block).then_some((order, stride))
    }
}

/// Whether `high` is what `low` is in the next iteration of a loop.
fn is_next(facts: &Facts<'_>, affine: AffineContext<'_>, low: ir::Value, high: ir::Value, l: LoopId) -> bool {
    let func = facts.func();
    let lp = &facts.loops.loops[l];
    if let ir::ValueDef::Param(b, i) = func.dfg.value_def(low)
        && b == lp.header
    {
        return edge_args(func, lp.latches[0], b)[i] == high;
    }
    let load = |v: ir::Value| {
        let inst = func.dfg.value_def(v).inst()?;
        let InstructionData::Load { opcode: Opcode::Load, arg, .. } = func.dfg.insts[inst] else { return None };
        let off = brolga_analysis::query::access_offset(func, inst);
        let at = affine.sum(arg, &[l]).plus(&crate::primal::scev::Sum::constant(off.into()), 1);
        // Nothing writes there afterwards.
        facts.reload.contains(inst).then_some(at)
    };
    let (Some(low), Some(high)) = (load(low), load(high)) else { return false };
    let Some((factors, rest)) = low.factors(&[Atom::TripCount(l)]) else { return false };
    is_fixed(&affine, &rest, l)
        && factors[0].as_constant().is_some_and(|step| high.plus(&low, -1).as_constant() == Some(step))
}
