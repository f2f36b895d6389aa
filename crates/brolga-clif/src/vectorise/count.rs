//! Trip counts of affine loops: how often a loop's body runs.
//!
//! **Question.** How many iterations does a loop have, as far as that is known when it is entered?
//!
//! **Answer.** It goes on while a comparison holds of an integer in constant steps and a number
//! that does not change. The step goes in the direction of the comparison, and is a power of two.
//!
//! **Cost.** A look at the test of the loop.

use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{InstructionData, Type, Value, types};

use crate::linear::LinearForm;
use crate::vectorise::affine_loop::{Home, Loop, Steps};

/// How many iterations there are.
pub struct Count {
    /// What is tested, when the loop is entered.
    pub first: LinearForm,
    /// By how much it grows each iteration.
    pub step: i64,
    /// Its type.
    pub ty: Type,
    /// It goes on while this holds of it and the bound.
    pub goes_on: IntCC,
    /// `None` is zero.
    pub bound: Option<Value>,
}

/// What says how many iterations a loop has.
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
