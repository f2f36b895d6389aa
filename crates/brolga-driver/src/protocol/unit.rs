//! A seed that is known to be one.
//!
//! Where a call has one result that is a float, and its seed is one, rules that know it beforehand (`Request::unit_seed`) must give the
//! same numbers as those that are told: in two functions and in one.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Error, Ideas, MemoryMode, Mode, Options, Program};

use super::{derive, describe, run_anywhere};
use crate::bind::Invocation;
use crate::value::is_float;

/// What comes out otherwise than where the seed is an argument.
pub fn violations(program: &Program, call: &Invocation) -> Result<Vec<String>, Error> {
    let mut floats = call.returns.iter().zip(&call.seeds).filter(|(ty, _)| is_float(**ty));
    let (Some((ty, seed)), None) = (floats.next(), floats.next()) else { return Ok(Vec::new()) };
    let one = match seed {
        DataValue::F64(x) => x.as_f64() == 1.0,
        DataValue::F32(x) => x.as_f32() == 1.0,
        _ => false,
    };
    if !ty.is_float() || !one || call.wasm.is_some() {
        return Ok(Vec::new());
    }
    let expected = run_anywhere(&derive(program, &call.request(), &Options::default())?, call)?;
    let mut request = call.request();
    request.unit_seed = true;
    let mut found = Vec::new();
    for (mode, memory, summed) in [
        (Mode::Gradient, MemoryMode::Leave, true),
        (Mode::Combined, MemoryMode::Leave, false),
        (Mode::Split, MemoryMode::Restore, true),
    ] {
        let ideas = Ideas { again: false, summed, ..Ideas::default() };
        let rule = derive(program, &request, &Options { mode, memory, ideas, ..Options::default() })?;
        let outcome = run_anywhere(&rule, call)?;
        if !outcome.equal_gradient(&expected) {
            found.push(format!("{mode:?}, a seed that is one: {}, else {}", describe(&outcome), describe(&expected)));
        }
    }
    Ok(found)
}
