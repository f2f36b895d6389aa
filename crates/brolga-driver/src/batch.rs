//! Batches of one call: several directions of forward mode at once, and several seeds of reverse
//! mode.
//!
//! **Question.** What are the tangents along each of several directions?
//!
//! **Answer.** [`along_each`] runs a rule of a width ([`Options::width`]) as often as needed, each
//! time along eight of them: with more lanes than registers hold a run is no faster. Where a
//! program has no batches (AD0180): a run for each direction. The numbers are the same, bit for
//! bit. [`gradients`] does the same for calls that differ in seeds and initial shadows, in one run.
//!
//! **Cost.** A run for each eight directions, with shadows that are as many times as large as their
//! primals.
//!
//! [`Options::width`]: brolga::Options

use brolga::drivers::support::{Lane, width_for};
use brolga::{ArgActivity, DerivedRule, Error};
use cranelift_codegen::data_value::DataValue;

use crate::bind::{BoundArg, Invocation, zero};
use crate::memory::Memory;
use crate::run::{Outcome, contents, items, undamaged};
use crate::tangent::{Direction, Tangents, tangents};
use crate::value::{Item, decode_all, from_data};

/// Value and tangents along each of these directions. `rule` gives one of forward mode, of a width,
/// whose data objects are as at the start.
///
/// # Errors
/// Those of `rule`, and of [`DerivedRule::tangent`].
pub fn along_each(
    call: &Invocation,
    directions: &[Direction],
    rule: impl Fn(u32) -> Result<DerivedRule, Error>,
) -> Result<Vec<Tangents>, Error> {
    in_batches(directions, |width, chunk| match chunk {
        [along] if width == 1 => Ok(vec![tangents(&rule(1)?, call, along)?]),
        _ => batch(&rule(width as u32)?, call, chunk),
    })
}

/// What `run` finds along each of these directions: it is given as many of them at once as drivers
/// go along ([`brolga::drivers::support::WIDTH`]), or where that cannot be one at a time, and the
/// width.
///
/// # Errors
/// Those of `run`.
pub(crate) fn in_batches<T>(
    directions: &[Direction],
    run: impl Fn(usize, &[Direction]) -> Result<Vec<T>, Error>,
) -> Result<Vec<T>, Error> {
    if directions.len() > 1 {
        let width = width_for(directions.len());
        let found: Result<Vec<_>, _> = directions.chunks(width).map(|chunk| run(width, chunk)).collect();
        match found {
            Err(e) if e.is_too_wide() => {}
            found => return Ok(found?.into_iter().flatten().collect()),
        }
    }
    let found: Result<Vec<_>, _> = directions.chunks(1).map(|along| run(1, along)).collect();
    Ok(found?.into_iter().flatten().collect())
}

/// Value and tangents of one run, in fresh memory, along at most as many directions as the rule has
/// lanes.
///
/// # Errors
/// As of [`DerivedRule::tangent`].
pub fn batch(rule: &DerivedRule, call: &Invocation, directions: &[Direction]) -> Result<Vec<Tangents>, Error> {
    let width = rule.width();
    let mut memory = Memory::of_width(call, width)?;
    let (n, hidden) = (call.args.len(), call.hidden());
    let mut given = vec![None; (hidden + n) * width];
    for (k, direction) in directions.iter().enumerate() {
        for i in 0..n {
            given[k * (hidden + n) + hidden + i] = direction.of_value(i).cloned();
            if let (Some(bytes), Some(b)) = (direction.of_buffer(i), memory.buffer_mut(i)) {
                call.interleave(i, b.shadow.bytes_mut(), bytes, Lane { k, width });
            }
        }
    }
    let (mut value, mut found) = (Vec::new(), Vec::new());
    // SAFETY: as in `run::gradient_in`; shadows are as many times as large as their primals.
    unsafe { rule.tangent(&memory.arguments(), &given, &mut value, &mut found) }?;
    undamaged(&memory)?;
    let of_buffer = |i: usize, k: usize| {
        let b = memory.shadow(i).filter(|b| b.elem.is_float())?;
        Some(decode_all(b.elem, &call.of_direction(i, b.shadow.bytes(), Lane { k, width })))
    };
    let one = |k: usize| Tangents {
        value: items(call, &value),
        buffers: contents(call, &memory),
        results: found[k * call.returns.len()..]
            .iter()
            .zip(&call.returns)
            .map(|(t, ty)| t.as_ref().map(|t| from_data(t, *ty)))
            .collect(),
        of_buffers: (0..n).map(|i| of_buffer(i, k)).collect(),
    };
    Ok((0..directions.len()).map(one).collect())
}

/// Value and gradients of one forward pass and one pullback, in fresh memory: of calls that are the
/// same but for seeds and initial shadows, at most as many as the rule has lanes.
///
/// # Errors
/// As of [`DerivedRule::gradient`].
pub fn gradients(rule: &DerivedRule, calls: &[Invocation]) -> Result<Vec<Outcome>, Error> {
    let (width, call) = (rule.width(), &calls[0]);
    let mut memory = Memory::of_width(call, width)?;
    let mut seeds = Vec::with_capacity(width * call.returns.len());
    for (k, call) in calls.iter().enumerate() {
        seeds.extend_from_slice(&call.seeds);
        for (i, arg) in call.args.iter().enumerate() {
            if let (BoundArg::Buffer { shadow, .. }, Some(b)) = (arg, memory.buffer_mut(i)) {
                call.interleave(i, b.shadow.bytes_mut(), shadow, Lane { k, width });
            }
        }
    }
    seeds.extend((calls.len()..width).flat_map(|_| call.returns.iter().map(|ty| zero(*ty))));
    let (mut value, mut found) = (Vec::new(), Vec::new());
    // SAFETY: as in `batch`.
    let run = unsafe { rule.gradient(&memory.arguments(), &seeds, &mut value, &mut found) }?;
    undamaged(&memory)?;
    let n = call.hidden() + call.args.len();
    let one = |k: usize| Outcome {
        value: items(call, &value),
        buffers: contents(call, &memory),
        gradient: gradient_of(call, &memory, &found[k * n..][..n], Lane { k, width }),
        tape_bytes: run.tape_bytes(),
        loops: run.loop_stats(),
        plans: run.loop_plans(),
        inverses: run.inverse_stats(),
    };
    Ok((0..calls.len()).map(one).collect())
}

/// One of the gradients of a pullback of a width, by argument: cotangents that were returned, or
/// are in memory.
pub fn gradient_of(
    call: &Invocation,
    memory: &Memory,
    cotangents: &[Option<DataValue>],
    lane: Lane,
) -> Vec<Option<Item>> {
    let of = |i: usize| match call.activity(i) {
        ArgActivity::Const => None,
        ArgActivity::Active => cotangents[call.hidden() + i].as_ref().map(|v| from_data(v, call.params[i])),
        ArgActivity::Duplicated => {
            let b = memory.shadow(i)?;
            Some(Item::Many(decode_all(b.elem, &call.of_direction(i, b.shadow.bytes(), lane))))
        }
    };
    (0..call.args.len()).map(of).collect()
}
