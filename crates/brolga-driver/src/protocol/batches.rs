//! Promise of batches ([`Options::width`]) against a run for each derivative, bit for bit.
//!
//! **Question.** Does a batch give what the runs give that it stands for?
//!
//! **Answer.** A batch of directions of forward mode, and one of seeds of a pullback, are compared
//! with single runs. Widths are with and without a rest beside vectors, another one for each
//! function, with either effort. One of the directions is zero, so that its guards are needed.
//!
//! **Cost.** Two rules of a width, two without, a run of each wide one, and as many of the others
//! as the batch has derivatives.

use brolga::{Effort, Error, MemoryMode, Mode, Options, Program};

use super::subject::{derive, reseeded};
use crate::batch::{batch, gradients};
use crate::bind::Invocation;
use crate::inputs::inputs;
use crate::noise::Noise;
use crate::run::{Outcome, gradient};
use crate::tangent::{Direction, Tangents, tangents};
use crate::value::{Item, Num};

/// Where a batch gives something else than the runs that it stands for.
pub(super) fn violations(program: &Program, call: &Invocation) -> Vec<String> {
    let seed = call.symbol.bytes().fold(call.args.len(), |sum, b| sum + usize::from(b));
    let width = [2, 3, 4, 5, 7, 8, 13, 64][seed % 8];
    let effort = if seed / 8 % 2 == 0 { Effort::Full } else { Effort::Quick };
    let of = |mode, width| Options { mode, width, effort, ..Options::as_calls() };
    let [forward, reverse] = [Mode::Tangent, Mode::Split].map(|mode| [of(mode, width), of(mode, 1)]);
    [directions(program, call, &forward), seeds(program, call, &reverse)].into_iter().flatten().collect()
}

/// Directions of forward mode.
fn directions(program: &Program, call: &Invocation, [wide, one]: &[Options; 2]) -> Option<String> {
    let (call, inputs) = (&reseeded(call, 7), inputs(call));
    let mut noise = Noise::new(11);
    let directions: Vec<Direction> = (0..wide.width)
        .map(|k| {
            // One of them is zero, so that its guards are needed.
            let by: Vec<f64> = inputs.iter().map(|_| if k == 1 { 0.0 } else { noise.unit() }).collect();
            Direction::along(call, &inputs, &by)
        })
        .collect();
    let all = |options: &Options| batch(&derive(program, &call.request(), options)?, call, &directions);
    let singles = |options: &Options| {
        let one = UnsharedRule::new(program, call, options)?;
        directions.iter().map(|d| tangents(&one.rule()?, call, d)).collect()
    };
    apart("directions", wide, all(wide), singles(one), same_tangents)
}

/// Seeds of one pullback.
fn seeds(program: &Program, call: &Invocation, [wide, one]: &[Options; 2]) -> Option<String> {
    if call.memory == MemoryMode::Restore {
        return None;
    }
    let mut calls: Vec<Invocation> = (0..wide.width).map(|k| reseeded(call, u64::from(k) + 3)).collect();
    // One of them is as it is written.
    calls[1] = call.clone();
    let all = |options: &Options| gradients(&derive(program, &call.request(), options)?, &calls);
    let singles = |options: &Options| {
        let one = UnsharedRule::new(program, call, options)?;
        calls.iter().map(|call| gradient(&one.rule()?, call)).collect()
    };
    apart("seeds", wide, all(wide), singles(one), same_outcome)
}

/// A rule whose data objects are as at the start.
struct UnsharedRule<'a> {
    program: &'a Program,
    call: &'a Invocation,
    options: &'a Options,
    shared_rule: brolga::DerivedRule,
}

impl<'a> UnsharedRule<'a> {
    fn new(program: &'a Program, call: &'a Invocation, options: &'a Options) -> Result<Self, Error> {
        Ok(Self { program, call, options, shared_rule: derive(program, &call.request(), options)? })
    }

    fn rule(&self) -> Result<brolga::DerivedRule, Error> {
        if self.program.has_writable_data() {
            return derive(self.program, &self.call.request(), self.options);
        }
        Ok(self.shared_rule.clone())
    }
}

fn apart<T: std::fmt::Debug>(
    what: &str,
    wide: &Options,
    all: Result<Vec<T>, Error>,
    singles: Result<Vec<T>, Error>,
    same: fn(&T, &T) -> bool,
) -> Option<String> {
    let name = format!("{} {what} at once, {:?}", wide.width, wide.effort);
    let (all, singles) = match (all, singles) {
        (Ok(all), Ok(singles)) => (all, singles),
        (Err(e), _) if e.has_no_batch() => return None,
        (Err(Error::Trap(a)), Err(Error::Trap(b))) if a.code == b.code => return None,
        // Frames are larger.
        (Err(Error::Trap(a)), Ok(_)) if a.code == "stk_ovf" => return None,
        (a, b) => return Some(format!("{name}: {:?}, one by one {:?}", a.err(), b.err())),
    };
    let mut pairs = all.iter().zip(&singles).enumerate();
    pairs.find_map(|(k, (is, want))| {
        (!same(is, want)).then(|| format!("{name}: number {k} is {is:?}, by itself {want:?}"))
    })
}

/// The same bits, but for what a NaN says; addresses differ between runs.
fn same_nums(a: &[Num], b: &[Num]) -> bool {
    let same = |a: &Num, b: &Num| !a.is_float() || a.same_bits(*b) || a.as_f64().is_nan() && b.as_f64().is_nan();
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

fn same_items<'a>(
    a: impl ExactSizeIterator<Item = Option<&'a [Num]>>,
    b: impl ExactSizeIterator<Item = Option<&'a [Num]>>,
) -> bool {
    a.len() == b.len()
        && a.zip(b).all(|(a, b)| match (a, b) {
            (Some(a), Some(b)) => same_nums(a, b),
            (a, b) => a.is_none() == b.is_none(),
        })
}

fn optional(all: &[Option<Item>]) -> impl ExactSizeIterator<Item = Option<&[Num]>> {
    all.iter().map(|item| item.as_ref().map(Item::nums))
}

fn buffers(all: &[Option<Vec<Num>>]) -> impl ExactSizeIterator<Item = Option<&[Num]>> {
    all.iter().map(|b| b.as_deref())
}

fn values(all: &[Item]) -> impl ExactSizeIterator<Item = Option<&[Num]>> {
    all.iter().map(|item| Some(item.nums()))
}

fn same_tangents(a: &Tangents, b: &Tangents) -> bool {
    same_items(values(&a.value), values(&b.value))
        && same_items(buffers(&a.buffers), buffers(&b.buffers))
        && same_items(optional(&a.results), optional(&b.results))
        && same_items(buffers(&a.of_buffers), buffers(&b.of_buffers))
}

fn same_outcome(a: &Outcome, b: &Outcome) -> bool {
    same_items(values(&a.value), values(&b.value))
        && same_items(buffers(&a.buffers), buffers(&b.buffers))
        && same_items(optional(&a.gradient), optional(&b.gradient))
}
