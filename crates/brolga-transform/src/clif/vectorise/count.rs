//! Trip counts of loops that may be vectorised, and the chain of values that a sum goes through.

use brolga_ir::map::HashMap;
use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{self, InstructionData, Opcode, Value, types};
use smallvec::SmallVec;

use crate::clif::vectorise::affine_loop::{Home, Loop, Steps};
use crate::clif::vectorise::body::{Count, ValueKind};

/// What is done to a sum on the way from one value to another, in order; and whether that is
/// nothing but additions.
pub fn chain(
    steps: &Steps<'_>,
    kinds: &HashMap<Value, ValueKind>,
    i: usize,
    from: Value,
    to: Value,
) -> Option<(Vec<ir::Inst>, bool)> {
    let func = steps.func;
    let (mut chain, mut adds, mut at) = (Vec::new(), true, to);
    while at != from {
        let inst = func.dfg.value_def(at).inst().expect("a sum ends where it begins");
        let args = steps.args(inst);
        let sums: SmallVec<[usize; 2]> =
            (0..args.len()).filter(|&k| kinds.get(&args[k]) == Some(&ValueKind::Sum(i))).collect();
        let [k] = sums[..] else { return None };
        adds &= match func.dfg.insts[inst].opcode() {
            Opcode::Fadd => true,
            Opcode::Fsub => k == 0,
            _ => false,
        };
        chain.push(inst);
        at = args[k];
    }
    chain.reverse();
    Some((chain, adds))
}

/// What says how many turns a loop has.
pub fn count(steps: &mut Steps<'_>, l: &Loop) -> Option<Count> {
    let cond = steps.args(l.test)[0];
    let compared = match steps.home(cond) {
        Home::Inside(inst) => Some(inst),
        _ => None,
    };
    let (mut goes_on, x, bound) = match compared.map(|i| (i, steps.func.dfg.insts[i])) {
        Some((inst, InstructionData::IntCompare { cond, .. })) => {
            let args = steps.args(inst);
            if steps.is_fixed(args[1]) {
                (cond, args[0], Some(args[1]))
            } else {
                (cond.swap_args(), args[1], Some(args[0]))
            }
        }
        _ => (IntCC::NotEqual, cond, None),
    };
    if l.goes_on_if_not {
        goes_on = goes_on.complement();
    }
    if bound.is_some_and(|b| !steps.is_fixed(b)) {
        return None;
    }
    let ty = steps.ty(x);
    let first = steps.linear(x)?;
    let mut step = steps.step_of(&first)?;
    if ty == types::I32 {
        step = i64::from(step as i32);
    }
    let fits = match goes_on {
        IntCC::NotEqual => true,
        IntCC::SignedLessThan | IntCC::SignedLessThanOrEqual => step > 0,
        IntCC::UnsignedLessThan | IntCC::UnsignedLessThanOrEqual => step > 0,
        IntCC::SignedGreaterThan | IntCC::SignedGreaterThanOrEqual => step < 0,
        IntCC::UnsignedGreaterThan | IntCC::UnsignedGreaterThanOrEqual => step < 0,
        IntCC::Equal => false,
    };
    let fits = fits && step.unsigned_abs().is_power_of_two() && step.unsigned_abs() < 1 << 16;
    fits.then_some(Count { first, step, ty, goes_on, bound })
}
