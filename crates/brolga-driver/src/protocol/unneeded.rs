//! Promise of `no_need`: memory that is not read after the call.
//!
//! **Question.** Where the caller does not read what the function writes, are value and gradient
//! still right?
//!
//! **Answer.** Where no two arguments share memory and the function writes to one, all buffers are
//! declared `noalias` and `no_need`. Then less may be written, and what has no use need not be
//! computed; but the values that are returned and the gradient must be what they are without these
//! claims.
//!
//! **Cost.** One run of the primal, and two rules with a run of each, for each of three modes.

use brolga::{Error, Mode, Options, Pass, Program};

use super::subject::derive;
use super::unmoored::{describe, run_anywhere};
use crate::bind::{BoundArg, Invocation};
use crate::run::primal;
use crate::value::decode_all;

/// What comes out otherwise than where everything is written.
pub(super) fn violations(program: &Program, call: &Invocation) -> Result<Vec<String>, Error> {
    let shared = call.args.iter().any(|a| matches!(a, BoundArg::Same(_)));
    if shared || call.wasm.is_some() {
        return Ok(Vec::new());
    }
    let after = primal(program, call)?;
    let writes = |i: usize| match (&call.args[i], &after.buffers[i]) {
        (BoundArg::Buffer { elem, data, .. }, Some(left)) => {
            let before = decode_all(*elem, data);
            before.len() != left.len() || !before.iter().zip(left).all(|(a, b)| a.same_bits(*b))
        }
        _ => false,
    };
    if !(0..call.args.len()).any(writes) {
        return Ok(Vec::new());
    }
    let mut claimed = call.clone();
    let buffers = call.args.iter().map(|a| matches!(a, BoundArg::Buffer { .. }));
    for (spec, _) in claimed.specs.iter_mut().zip(buffers).filter(|(_, buffer)| *buffer) {
        *spec = spec.noalias().no_need();
    }
    let mut found = Vec::new();
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        let options = Options { mode, disabled: Pass::REORDERING, ..Options::as_calls() };
        let expected = run_anywhere(&derive(program, &call.request(), &options)?, call)?;
        let outcome = run_anywhere(&derive(program, &claimed.request(), &options)?, &claimed)?;
        if !outcome.equal_gradient(&expected) || mode != Mode::Gradient && !outcome.same_value(&expected) {
            let (is, want) = (describe(&outcome), describe(&expected));
            found.push(format!("{mode:?}, with memory that is not needed: {is}, else {want}"));
        }
    }
    Ok(found)
}
