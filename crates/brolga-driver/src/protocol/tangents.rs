//! Promises of forward mode (`Mode::Tangent`) against the gradient and against dual numbers.
//!
//! **Question.** Does forward mode compute the primal, and tangents that fit everything else?
//!
//! **Answer.** The value and what is left in memory must be the primal's, bit for bit. For random
//! seeds ȳ and a random direction ẋ, ⟨ȳ, Jẋ⟩ of forward mode must be ⟨Jᵀȳ, ẋ⟩ of the gradient. Each
//! tangent must be what the oracle's dual numbers say, which know the program and no rule. A second
//! run, and one that was derived with little effort, must give the same bits.
//!
//! **Cost.** Three derivations, four runs, and one of the oracle.

use brolga::{Effort, Error, MemoryMode, Mode, Options, Program};
use brolga_oracle::Oracle;

use super::subject::{derive, reseeded};
use crate::bind::Invocation;
use crate::compare::close;
use crate::inputs::{Input, flatten, inputs, oracle_args, oracle_tangents};
use crate::memory::Memory;
use crate::noise::Noise;
use crate::run::{Outcome, gradient};
use crate::tangent::{Direction, Tangents, tangents};
use crate::value::{Item, Num, decode_all, from_data};

/// What forward mode gets wrong.
pub(super) fn violations(program: &Program, call: &Invocation, tol: f64) -> Result<Vec<String>, Error> {
    let call = reseeded(call, 7);
    let options = Options { mode: Mode::Tangent, ..Options::as_calls() };
    let rule = match derive(program, &call.request(), &options) {
        Ok(rule) => rule,
        Err(e) => return Ok(vec![format!("forward mode: {e}")]),
    };
    let inputs = inputs(&call);
    let mut noise = Noise::new(9);
    let direction: Vec<f64> = inputs.iter().map(|_| noise.unit()).collect();
    let along = Direction::along(&call, &inputs, &direction);
    let mut found = Vec::new();
    let reverse = Options { memory: call.memory, ..Options::as_calls() };
    let back = gradient(&derive(program, &call.request(), &reverse)?, &call)?;
    let forward = match tangents(&rule, &call, &along) {
        Ok(forward) => forward,
        // Another direction may lose digits where the gradient's does not.
        Err(Error::Trap(t)) if t.code == "untracked_bits" => return Ok(Vec::new()),
        Err(e) => return Ok(vec![format!("forward mode: {e}")]),
    };
    if !same_items(&forward.value, &back.value) {
        found.push(format!("forward mode returns {:?}, the primal {:?}", forward.value, back.value));
    }
    let left = |b: &[Option<Vec<Num>>]| b.iter().map(|b| b.clone().map(Item::Many)).collect::<Vec<_>>();
    let (is, want) = (left(&forward.buffers), left(&back.buffers));
    if call.memory == MemoryMode::Leave && !is.iter().zip(&want).all(|(a, b)| same_items(a.as_slice(), b.as_slice())) {
        found.push("forward mode leaves other numbers in memory than the primal".to_owned());
    }
    found.extend(dot_product(&call, &forward, &back, &inputs, &direction, tol));
    found.extend(against_dual_numbers(program, &call, &forward, &inputs, &direction, tol));
    for (what, effort) in [("a second run", None), ("little effort", Some(Effort::Quick))] {
        let stateful = program.has_writable_data();
        let rule = match effort {
            None if !stateful => Ok(rule.clone()),
            _ => {
                let effort = effort.unwrap_or(options.effort);
                derive(program, &call.request(), &Options { effort, ..options.clone() })
            }
        };
        match rule.and_then(|rule| tangents(&rule, &call, &along)) {
            Ok(other) if same_tangents(&other, &forward) => {}
            Ok(other) => found.push(format!("forward mode, {what}: {:?}, else {:?}", other.results, forward.results)),
            Err(e) => found.push(format!("forward mode, {what}: {e}")),
        }
    }
    Ok(found)
}

fn same_tangents(a: &Tangents, b: &Tangents) -> bool {
    let same = |a: &Num, b: &Num| a.same_bits(*b) || a.as_f64() == b.as_f64();
    let results = a.results.iter().zip(&b.results).all(|(a, b)| match (a, b) {
        (Some(a), Some(b)) => a.nums().iter().zip(b.nums()).all(|(a, b)| same(a, b)),
        (a, b) => a.is_none() == b.is_none(),
    });
    results
        && a.of_buffers.iter().zip(&b.of_buffers).all(|(a, b)| match (a, b) {
            (Some(a), Some(b)) => a.iter().zip(b).all(|(a, b)| same(a, b)),
            (a, b) => a.is_none() == b.is_none(),
        })
}

fn same_items(a: &[Item], b: &[Item]) -> bool {
    // Addresses differ between two runs.
    let same = |a: &Num, b: &Num| !a.is_float() || a.same_bits(*b) || a.as_f64().is_nan() && b.as_f64().is_nan();
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.nums().iter().zip(b.nums()).all(|(a, b)| same(a, b)))
}

fn product(terms: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let terms = terms.filter(|(s, _)| *s != 0.0).map(|(s, t)| s * t);
    terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()))
}

/// ⟨ȳ, Jẋ⟩ against ⟨Jᵀȳ, ẋ⟩.
fn dot_product(
    call: &Invocation,
    forward: &Tangents,
    back: &Outcome,
    inputs: &[Input],
    direction: &[f64],
    tol: f64,
) -> Option<String> {
    let mut terms = Vec::new();
    for ((seed, ty), tangent) in call.seeds.iter().zip(&call.returns).zip(&forward.results) {
        let Some(tangent) = tangent else { continue };
        let seed = from_data(seed, *ty);
        terms.extend(seed.nums().iter().zip(tangent.nums()).map(|(s, t)| (s.as_f64(), t.as_f64())));
    }
    for arg in (0..call.args.len()).filter(|a| call.owns_shadow(*a)) {
        let (Some((_, elem, _, shadow)), Some(left)) = (call.buffer(arg), &forward.of_buffers[arg]) else { continue };
        terms.extend(call.pairs(arg, &decode_all(elem, shadow), left));
    }
    let (forward, forward_size) = product(terms.into_iter());
    let gradient = flatten(back, inputs);
    let (reverse, reverse_size) = product(gradient.into_iter().zip(direction.iter().copied()));
    let finite = forward.is_finite() && reverse.is_finite();
    let holds = (forward - reverse).abs() <= tol * (1.0 + forward_size.max(reverse_size));
    (finite && !holds).then(|| format!("forward mode: the product is {forward:?}, by the gradient {reverse:?}"))
}

/// Each tangent against the oracle's.
fn against_dual_numbers(
    program: &Program,
    call: &Invocation,
    forward: &Tangents,
    inputs: &[Input],
    direction: &[f64],
    tol: f64,
) -> Option<String> {
    let hidden = call.hidden();
    let dual = oracle_tangents(call, inputs, direction);
    let memory = Memory::new(call).ok()?;
    let args = oracle_args(call, &memory);
    // SAFETY: as in `check::tape_gradient`.
    let r = unsafe { Oracle::new(call.interpreted(program)).tangent(call.func, &args, &dual) }.ok()?;
    let scale = |all: &[f64]| all.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(1.0, f64::max);
    let apart = |is: &[Num], says: &[f64]| {
        let scale = scale(says);
        is.iter().zip(says).position(|(a, b)| {
            let a = a.as_f64();
            let near = close(a, *b, tol) || (a - b).abs() <= tol * scale;
            b.is_finite() && !near
        })
    };
    for (k, (is, says)) in forward.results.iter().zip(&r.results).enumerate() {
        let (Some(is), Some(says)) = (is, says) else { continue };
        if let Some(i) = apart(is.nums(), says) {
            let (is, says) = (is.nums()[i].as_f64(), says[i]);
            return Some(format!("the tangent of result {k} is {is:?}, by dual numbers {says:?}"));
        }
    }
    for (arg, is) in forward.of_buffers.iter().enumerate() {
        let (Some(is), Some(says)) = (is, r.buffers.get(hidden + arg).and_then(Option::as_ref)) else { continue };
        if let Some(i) = apart(is, says) {
            let (is, says) = (is[i].as_f64(), says[i]);
            return Some(format!("the tangent of element {i} of argument {arg} is {is:?}, by dual numbers {says:?}"));
        }
    }
    None
}
