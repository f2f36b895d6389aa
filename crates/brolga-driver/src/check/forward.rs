//! Check of forward mode against two things that are not: differences of the primal along one
//! random direction, and the gradient.
//!
//! **Question.** Are the tangents of a call right?
//!
//! **Answer.** The number that is compared is the derivative of the objective along the direction:
//! `Σ seed · tangent of a result + Σ initial shadow · tangent of a final element`. Where a slope is
//! infinite, a number is NaN, or terms cancel, nothing is said ([`ForwardCheck::holds`]).
//!
//! **Cost.** One run of forward mode, one of the tape, and those of the primal that differences
//! take along one line, however many inputs there are.

use brolga::{DerivedRule, Error, Mode, Program};
use brolga_oracle::fd::{self, Verdict};

use super::{DotProduct, Tolerances, terms_of};
use crate::bind::Invocation;
use crate::inputs::{direction, inputs, noise_of_grid, objective, size, with_inputs};
use crate::jacobian::RuleSource;
use crate::noise::Noise;
use crate::run::Outcome;
use crate::tangent::{Direction, Tangents, tangents};
use crate::value::{decode_all, from_data};

/// What was found out about forward mode.
#[derive(Clone, Copy, Debug)]
pub struct ForwardCheck {
    /// The derivative along the direction: by forward mode, and by the gradient.
    pub product: DotProduct,
    /// Differences of the primal along the direction, if they were asked for.
    pub difference: Option<Verdict>,
    /// Whether neither disagrees; `None` if an infinite slope, NaN, or terms that cancel leave that
    /// open.
    pub holds: Option<bool>,
}

/// Forward mode of `call`, whose gradient is `outcome`.
///
/// # Errors
/// If it cannot be derived, or does not run.
pub fn forward(
    program: &Program,
    call: &Invocation,
    outcome: &Outcome,
    rules: RuleSource<'_>,
    tolerances: Tolerances,
    differences: bool,
) -> Result<ForwardCheck, Error> {
    let inputs = inputs(call);
    let mut noise = Noise::new(2);
    let direction = direction(&inputs, &mut noise);
    let found = tangents(&rules(Mode::Tangent, 1)?, call, &Direction::along(call, &inputs, &direction))?;
    let (forward, forward_size) = terms_of(&weighted(call, &found));
    let gradient = super::flatten(outcome, &inputs);
    let (reverse, reverse_size) = terms_of(&gradient.iter().copied().zip(direction.clone()).collect::<Vec<_>>());
    let agrees =
        forward == reverse || (forward - reverse).abs() <= tolerances.tape * (1.0 + forward_size.max(reverse_size));
    let product = DotProduct { forward, reverse, holds: agrees };
    let tape = super::on_tape(program, call).ok();
    let noise = tape.as_ref().map_or(0.0, |t| t.noise_at(tolerances)).max(noise_of_grid(call));
    let line = || along_the_line(program, call, &direction, rules, tolerances, noise);
    let difference = differences.then(line).transpose()?;
    let close = |v: Verdict| v.accepts(forward, tolerances.differences);
    // Terms that cancel lose what the sums might say of each other.
    let lost: f64 = tape.map_or(0.0, |t| {
        let by = super::flatten(&t.rounding, &inputs);
        by.iter().zip(&direction).map(|(r, d)| super::LOST * r * d.abs()).sum()
    });
    let cancels = lost > tolerances.tape * (1.0 + forward.abs()) && (forward - reverse).abs() <= lost;
    // Where a slope is infinite they say nothing, either.
    let holds = match forward.is_finite() && reverse.is_finite() && !cancels {
        true => Some(agrees && difference.is_none_or(close)),
        false => agrees.then_some(true),
    };
    Ok(ForwardCheck { product, difference, holds })
}

/// Seeds and tangents, shadows and tangents.
fn weighted(call: &Invocation, found: &Tangents) -> Vec<(f64, f64)> {
    let mut terms = Vec::new();
    for ((seed, ty), tangent) in call.seeds.iter().zip(&call.returns).zip(&found.results) {
        let (seed, Some(tangent)) = (from_data(seed, *ty), tangent) else { continue };
        terms.extend(seed.nums().iter().zip(tangent.nums()).map(|(s, t)| (s.as_f64(), t.as_f64())));
    }
    for arg in (0..call.args.len()).filter(|a| call.owns_shadow(*a)) {
        let (Some((_, elem, _, shadow)), Some(tangent)) = (call.buffer(arg), &found.of_buffers[arg]) else { continue };
        terms.extend(call.pairs(arg, &decode_all(elem, shadow), tangent));
    }
    terms
}

fn along_the_line(
    program: &Program,
    call: &Invocation,
    direction: &[f64],
    rules: RuleSource<'_>,
    tolerances: Tolerances,
    noise: f64,
) -> Result<Verdict, Error> {
    let inputs = inputs(call);
    let shared_rule = rules(Mode::Combined, 1)?;
    let stateful = program.has_writable_data();
    let at = |t: f64| -> Result<f64, Error> {
        let moved: Vec<f64> = inputs.iter().zip(direction).map(|(i, d)| i.value + t * d).collect();
        let call = with_inputs(call, &inputs, &moved);
        let fresh: DerivedRule;
        let rule = if stateful {
            fresh = rules(Mode::Combined, 1)?;
            &fresh
        } else {
            &shared_rule
        };
        objective(rule, &call)
    };
    let f32_inputs = inputs.iter().any(|i| i.f32);
    let options =
        fd::Options { precision: tolerances.precision, f32_inputs, noise, steps: 0.0, size: size(&inputs), unit: 0.0 };
    Ok(fd::derivative(at, 0.0, &options))
}
