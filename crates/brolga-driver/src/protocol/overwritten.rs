//! Promise of `fresh`: shadows that hold nothing before the call.
//!
//! **Question.** Where a derivative may store cotangents instead of adding them, does it store the
//! same numbers, whatever was there?
//!
//! **Answer.** Where no two arguments share memory, all buffers that the primal only reads are
//! declared `noalias` and `fresh`. What the derived rule says that it overwrites is then filled
//! with NaNs, which neither a sum nor a forgotten place survives unnoticed; the rest holds zeros.
//! Every place must hold the number that is added to zeros without these claims, or, where that is
//! zero, still the NaN: a place that the primal does not read is left alone.
//!
//! **Cost.** One run of the primal, and three pairs of rules with a run of each.

use brolga::{ArgActivity, Error, Mode, Options, Pass, PassSet, Program};

use super::subject::derive;
use super::unmoored::run_anywhere;
use crate::bind::{BoundArg, Invocation};
use crate::run::{Outcome, primal};
use crate::value::{Num, decode_all};

/// What comes out otherwise than by adding to zeros.
pub(super) fn violations(program: &Program, call: &Invocation) -> Result<Vec<String>, Error> {
    let shared = call.args.iter().any(|a| matches!(a, BoundArg::Same(_)));
    if shared || call.wasm.is_some() {
        return Ok(Vec::new());
    }
    let after = primal(program, call)?;
    let fresh: Vec<bool> = (0..call.args.len())
        .map(|i| match &call.args[i] {
            BoundArg::Buffer { elem, data, .. } if elem.is_float() && call.activity(i) == ArgActivity::Duplicated => {
                let before = decode_all(*elem, data);
                let left = after.buffers[i].as_deref().unwrap_or_default();
                before.len() == left.len() && before.iter().zip(left).all(|(a, b)| a.same_bits(*b))
            }
            _ => false,
        })
        .collect();
    if !fresh.contains(&true) {
        return Ok(Vec::new());
    }
    let added = filled(call, &fresh, 0);
    let mut claimed = added.clone();
    for (spec, _) in claimed.specs.iter_mut().zip(&fresh).filter(|(_, fresh)| **fresh) {
        *spec = spec.noalias().fresh();
    }
    let mut found = Vec::new();
    // Stored or added to, a loop may be run in another way, and so add up in another order.
    let usual = Pass::REORDERING.without(Pass::RerunLoops.into());
    // Whatever it is worth, a run is asked whether rows ascend.
    let asked = usual.and(PassSet::of(&[Pass::CostModel, Pass::RerunLoops]));
    for (mode, disabled) in [(Mode::Split, usual), (Mode::Gradient, usual), (Mode::Gradient, asked)] {
        let options = Options { mode, disabled, ..Options::as_calls() };
        let expected = run_anywhere(&derive(program, &call.request(), &options)?, &added)?;
        let rule = derive(program, &claimed.request(), &options)?;
        let over: Vec<bool> = (0..fresh.len()).map(|i| rule.overwrites(i)).collect();
        let outcome = run_anywhere(&rule, &filled(&claimed, &over, 0xff))?;
        found.extend(differences(&expected, &outcome, &over).into_iter().map(|d| format!("{mode:?}, fresh: {d}")));
    }
    Ok(found)
}

/// The call with other bytes in some shadows.
fn filled(call: &Invocation, which: &[bool], byte: u8) -> Invocation {
    let mut out = call.clone();
    for (arg, &fill) in out.args.iter_mut().zip(which) {
        if let (true, BoundArg::Buffer { shadow, .. }) = (fill, arg) {
            shadow.fill(byte);
        }
    }
    out
}

fn differences(expected: &Outcome, outcome: &Outcome, over: &[bool]) -> Vec<String> {
    let mut found = Vec::new();
    for (i, (e, o)) in expected.gradient.iter().zip(&outcome.gradient).enumerate() {
        let (Some(e), Some(o)) = (e, o) else { continue };
        let agrees = |(e, o): (&Num, &Num)| {
            let zero = e.as_f64() == 0.0;
            e.same_bits(*o) || zero && (o.as_f64() == 0.0 || over[i] && o.as_f64().is_nan())
        };
        if let Some(k) = e.nums().iter().zip(o.nums()).position(|p| !agrees(p)) {
            let (e, o) = (e.nums()[k], o.nums()[k]);
            let how = if over[i] { "stored" } else { "added to zero" };
            found.push(format!("element {k} of argument {i} is {o:?} where {how}, {e:?} without claims"));
        }
    }
    found
}
