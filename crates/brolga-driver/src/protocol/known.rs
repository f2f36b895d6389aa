//! Promise of known seeds: seeds that are known beforehand.
//!
//! **Question.** Does a rule that was told its seeds give what one gives that takes them?
//!
//! **Answer.** Where a seed is one or zero, a rule that was told so (`Request::results`) must give
//! the same numbers as one that is given the seed: in one function without the value, and, one call
//! like this and the next like that, in two functions or in one.
//!
//! **Cost.** Three rules, and a run of each. Nothing where no seed is one or zero.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Error, MemoryMode, Mode, Options, Pass, Program, ResultActivity};

use super::subject::derive;
use super::unmoored::{describe, run_anywhere};
use crate::bind::Invocation;

/// What comes out otherwise than where all seeds are arguments.
pub(super) fn violations(program: &Program, call: &Invocation) -> Result<Vec<String>, Error> {
    let results: Vec<ResultActivity> = call.seeds.iter().map(activity).collect();
    if call.wasm.is_some() || results.iter().all(|r| *r == ResultActivity::Active) {
        return Ok(Vec::new());
    }
    let expected = run_anywhere(&derive(program, &call.request(), &Options::as_calls())?, call)?;
    let mut request = call.request();
    request.results = results;
    let other = match call.symbol.len() % 2 {
        0 => (Mode::Combined, MemoryMode::Leave),
        _ => (Mode::Split, MemoryMode::Restore),
    };
    let mut found = Vec::new();
    for (mode, memory) in [(Mode::Gradient, MemoryMode::Leave), other] {
        let disabled = Pass::REORDERING;
        let rule = derive(program, &request, &Options { mode, memory, disabled, ..Options::as_calls() })?;
        let outcome = run_anywhere(&rule, call)?;
        if !outcome.equal_gradient(&expected) {
            let (is, want) = (describe(&outcome), describe(&expected));
            found.push(format!("{mode:?}, with seeds that are known: {is}, else {want}"));
        }
    }
    Ok(found)
}

fn activity(seed: &DataValue) -> ResultActivity {
    let x = match seed {
        DataValue::F64(x) => x.as_f64(),
        DataValue::F32(x) => x.as_f32().into(),
        _ => return ResultActivity::Active,
    };
    match x {
        1.0 => ResultActivity::Unit,
        0.0 => ResultActivity::Const,
        _ => ResultActivity::Active,
    }
}
