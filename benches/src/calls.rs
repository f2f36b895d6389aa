//! What the gradient of a call costs: any call of any file, CLIF or WebAssembly, as the driver
//! reads it.
//!
//! Primal and gradient take turns in one memory, and the minimum of each counts; native code and an
//! adjoint written by hand, if there are any, have their turns in memory of their own. Before every
//! call the buffers get their contents again, outside of the time that is taken, since a program
//! may overwrite them; a gradient's time begins with putting the shadows to what they are at first.
//! Primal and gradient go through [`DerivedRule`], which catches traps, and the adjoint through
//! what does for programs that are not differentiated.
//!
//! A call that leaves something after (a block that is never freed) cannot be repeated for ever:
//! one that fails gets fresh memory, and only if it fails there as well, that is an error.

use std::time::{Duration, Instant};

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{DerivedRule, Error, Program};
use brolga_driver::timing::{RepeatedCall, TimedCall};
use brolga_driver::{Invocation, Item};

use crate::by_hand::ByHand;
use crate::measure::Effort;
use crate::{Configuration, Failure};

/// What one call costs.
#[derive(Clone, Debug)]
pub struct CallRow {
    /// What was called.
    pub name: String,
    /// One call of the same program as native code, if there is one.
    pub native_ns: Option<f64>,
    /// One call of the primal.
    pub primal_ns: f64,
    /// One gradient.
    pub gradient_ns: f64,
    /// One call of the adjoint written by hand, if there is one.
    pub hand_ns: Option<f64>,
    /// Bytes that are recorded, at most at a time.
    pub tape_bytes: usize,
    /// From the program to derived functions in CLIF.
    pub differentiate_us: f64,
    /// From there to machine code, the primal included.
    pub compile_us: f64,
}

/// Differentiate and compile a call, and make what repeats it: with how long either takes.
///
/// # Errors
/// What the program or the host refuses.
pub fn repeated<'a>(
    program: &Program,
    call: &'a Invocation,
    how: Configuration,
) -> Result<(RepeatedCall<'a>, [Duration; 2]), Error> {
    let (request, options) = (call.request(), brolga::Options { memory: call.memory, ..how.options() });
    let isa = brolga::jit::host_isa(&options)?;
    let start = Instant::now();
    let derivation = brolga_transform::derive(program, &request, &options, &*isa)?;
    let differentiate = start.elapsed();
    let start = Instant::now();
    let rule = DerivedRule::from_derivation(derivation, &request, &options)?;
    let compile = start.elapsed();
    Ok((RepeatedCall::new(rule, call)?, [differentiate, compile]))
}

/// What the last gradient has left: by argument, cotangents of what is active.
pub fn elements(r: &RepeatedCall<'_>) -> Vec<Option<Vec<f64>>> {
    let floats = |item: Item| item.nums().iter().map(|x| x.as_f64()).collect();
    r.outcome().gradient.into_iter().map(|item| item.map(floats)).collect()
}

/// Something else that is timed in turns with a call.
pub trait Competitor {
    /// Run it once: how long it took, and the first result as a float, if it is one.
    fn run(&mut self) -> (Duration, f64);
}

/// Measure a call; `beside` is the same program as native code, `hand` its adjoint written by hand.
///
/// # Errors
/// [`Failure::Call`]; native code has to give the same number, to nine digits, and the adjoint
/// every element of the gradient.
pub fn measure(
    name: &str,
    program: &Program,
    call: &Invocation,
    mut beside: Option<&mut dyn Competitor>,
    mut hand: Option<&mut ByHand>,
    how: Configuration,
    effort: Effort,
) -> Result<CallRow, Failure> {
    let failed = |e: Error| Failure::Call { name: name.to_owned(), message: e.to_string() };
    let (mut r, [differentiate, compile]) = repeated(program, call, how).map_err(failed)?;
    if let Some(hand) = &mut hand {
        r.time(TimedCall::Gradient, 1).map_err(failed)?;
        hand.run().map_err(failed)?;
        hand.compare(&elements(&r))?;
    }
    let [mut native, mut primal, mut gradient, mut by_hand] = [Duration::MAX; 4];
    let start = Instant::now();
    let mut round = 0;
    while round < effort.rounds.min(5) || start.elapsed() < effort.budget {
        primal = primal.min(r.time(TimedCall::Primal, 1).map_err(failed)?);
        let value = match r.results() {
            [DataValue::F64(x), ..] => Some(x.as_f64()),
            _ => None,
        };
        gradient = gradient.min(r.time(TimedCall::Gradient, 1).map_err(failed)?);
        if let Some(hand) = &mut hand {
            by_hand = by_hand.min(hand.run().map_err(failed)?);
        }
        if let Some(beside) = &mut beside {
            let (time, same) = beside.run();
            native = native.min(time);
            // False where either is NaN.
            let agrees = |value: f64| (value - same).abs() <= 1e-9 * (1.0 + value.abs());
            if let Some(value) = value.filter(|v| !agrees(*v)) {
                let message = format!("the value is {value}, but {same} in native code");
                return Err(Failure::Call { name: name.to_owned(), message });
            }
        }
        round += 1;
    }
    let ns = |d: Duration| d.as_nanos() as f64;
    Ok(CallRow {
        name: name.to_owned(),
        native_ns: beside.is_some().then_some(ns(native)),
        primal_ns: ns(primal).max(1.0),
        gradient_ns: ns(gradient).max(1.0),
        hand_ns: hand.is_some().then_some(ns(by_hand).max(1.0)),
        tape_bytes: r.tape_bytes(),
        differentiate_us: ns(differentiate) / 1e3,
        compile_us: ns(compile) / 1e3,
    })
}
