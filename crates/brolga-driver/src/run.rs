//! Runs: one call through primal, forward pass and pullback, and what came out.
//!
//! **Question.** What does a call leave: results, buffers, cotangents, and how much was recorded?
//!
//! **Answer.** An [`Outcome`], read from memory when all is done ([`collect`]). [`gradient`] runs a
//! rule in fresh memory, [`primal`] the function alone, [`executed`] a debug run that counts
//! instructions. Outcomes are compared bit by bit ([`Outcome::same_gradient`]), but for signs of
//! zeros ([`Outcome::equal_gradient`]), or but for roundings ([`Outcome::apart`]).
//!
//! **Errors.** A store outside of a buffer or a shadow is found when the run is over.
//!
//! **Cost.** Memory for the call, one run, and a copy of what is in memory then.

use brolga::{
    ArgActivity, DerivedRule, Error, InverseStats, LoopReport, LoopStats, Mode, Options, Primal, Program, WorkAndSpan,
};
use cranelift_codegen::data_value::DataValue;

use crate::bind::Invocation;
use crate::memory::Memory;
use crate::value::{Item, Num, close, decode_all, from_data};

/// What a call and its pullback produced.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// One per result.
    pub value: Vec<Item>,
    /// One per argument: what is in the buffer when all is done.
    pub buffers: Vec<Option<Vec<Num>>>,
    /// One per argument: the cotangent, or the shadow after the pullback; `None` where the argument
    /// is constant.
    pub gradient: Vec<Option<Item>>,
    /// Bytes that the forward pass recorded.
    pub tape_bytes: usize,
    /// What time loops have done.
    pub loops: LoopStats,
    /// How they were reversed.
    pub plans: Vec<LoopReport>,
    /// What calls have done that others undo.
    pub inverses: InverseStats,
}

impl Outcome {
    /// Whether gradients agree bit by bit.
    pub fn same_gradient(&self, other: &Self) -> bool {
        same_all(&self.gradient, &other.gradient)
    }

    /// Whether gradients agree bit by bit, but for signs of zeros.
    pub fn equal_gradient(&self, other: &Self) -> bool {
        let equal = |a: &Num, b: &Num| a.same_bits(*b) || a.as_f64() == 0.0 && b.as_f64() == 0.0;
        self.gradient.len() == other.gradient.len()
            && self.gradient.iter().zip(&other.gradient).all(|(a, b)| match (a, b) {
                (Some(a), Some(b)) => {
                    a.nums().len() == b.nums().len() && a.nums().iter().zip(b.nums()).all(|(a, b)| equal(a, b))
                }
                (None, None) => true,
                _ => false,
            })
    }

    /// Where gradients are further apart than roundings explain, such as those of another order of
    /// additions: argument, element, and the two numbers.
    pub fn apart(&self, other: &Self, tol: f64) -> Option<(usize, usize, f64, f64)> {
        self.gradient.iter().zip(&other.gradient).enumerate().find_map(|(arg, (a, b))| {
            let (a, b) = (a.as_ref()?.nums(), b.as_ref()?.nums());
            let scale = b.iter().map(|n| n.as_f64().abs()).filter(|x| x.is_finite()).fold(1.0, f64::max);
            let i = a.iter().zip(b).position(|(a, b)| {
                let (a, b) = (a.as_f64(), b.as_f64());
                !close(a, b, tol) && (a.is_nan() != b.is_nan() || (a - b).abs() > tol * scale)
            })?;
            Some((arg, i, a[i].as_f64(), b[i].as_f64()))
        })
    }

    /// Whether results agree bit by bit.
    pub fn same_value(&self, other: &Self) -> bool {
        self.value.len() == other.value.len() && self.value.iter().zip(&other.value).all(|(a, b)| a.same_bits(b))
    }
}

/// Whether two lists of optional items agree bit by bit.
pub fn same_all(a: &[Option<Item>], b: &[Option<Item>]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| match (a, b) {
            (Some(a), Some(b)) => a.same_bits(b),
            (None, None) => true,
            _ => false,
        })
}

/// Value and gradient once, in fresh memory.
pub fn gradient(rule: &DerivedRule, call: &Invocation) -> Result<Outcome, Error> {
    let mut memory = Memory::new(call)?;
    gradient_in(rule, call, &mut memory)
}

/// Value and gradient once, in `memory`.
pub fn gradient_in(rule: &DerivedRule, call: &Invocation, memory: &mut Memory) -> Result<Outcome, Error> {
    // SAFETY: every pointer among the arguments is to a live block of `memory`, whose shadow has
    // the same size. Whether the code stays inside its buffers is the file's business; `damage`
    // finds out afterwards.
    let (mut value, mut cotangents) = (Vec::new(), Vec::new());
    let run = unsafe { rule.gradient(&memory.arguments(), &call.seeds, &mut value, &mut cotangents) }?;
    let outcome = collect(call, memory, &value, &cotangents, run.tape_bytes());
    undamaged(memory)?;
    Ok(Outcome { loops: run.loop_stats(), plans: run.loop_plans(), inverses: run.inverse_stats(), ..outcome })
}

/// What the derivative of a call executes: its forward pass and its pullback, in a debug run.
pub fn executed(program: &Program, call: &Invocation, options: &Options) -> Result<[WorkAndSpan; 2], Error> {
    let options = Options { mode: Mode::Split, debug: true, ..options.clone() };
    let rule = DerivedRule::new(program, &call.request(), &options)?;
    let memory = Memory::new(call)?;
    // SAFETY: as in `gradient_in`.
    let mut pullback = unsafe { rule.forward(&memory.arguments()) }?.1;
    // SAFETY: as in `gradient_in`.
    unsafe { pullback.call(&call.seeds) }?;
    undamaged(&memory)?;
    Ok(pullback.executed())
}

/// Run a call without differentiating anything, in fresh memory.
pub fn primal(program: &Program, call: &Invocation) -> Result<Outcome, Error> {
    let primal = Primal::new(program, &[call.func], &Options::default())?;
    let memory = Memory::new(call)?;
    // SAFETY: as in `gradient_in`.
    let value = unsafe { primal.call(call.func, &memory.values()) }?;
    undamaged(&memory)?;
    let gradient = vec![None; call.args.len()];
    let (value, buffers) = (items(call, &value), contents(call, &memory));
    let (loops, plans, inverses) = Default::default();
    Ok(Outcome { value, buffers, gradient, tape_bytes: 0, loops, plans, inverses })
}

/// Run the primal alone, in `memory`.
pub fn primal_in(rule: &DerivedRule, call: &Invocation, memory: &mut Memory) -> Result<Vec<Item>, Error> {
    // SAFETY: as in `gradient_in`.
    let value = unsafe { rule.primal(&memory.values()) }?;
    undamaged(memory)?;
    Ok(items(call, &value))
}

/// Results of a call as items.
pub fn items(call: &Invocation, value: &[DataValue]) -> Vec<Item> {
    value.iter().zip(&call.returns).map(|(v, ty)| from_data(v, *ty)).collect()
}

/// What is in memory, together with what was returned.
pub fn collect(
    call: &Invocation,
    memory: &Memory,
    value: &[DataValue],
    cotangents: &[Option<DataValue>],
    tape_bytes: usize,
) -> Outcome {
    let gradient = (0..call.args.len()).map(|i| match call.activity(i) {
        ArgActivity::Const => None,
        ArgActivity::Active => cotangents.get(i + call.hidden())?.as_ref().map(|v| from_data(v, call.params[i])),
        ArgActivity::Duplicated => memory.shadow(i).map(|b| Item::Many(decode_all(b.elem, b.shadow.bytes()))),
    });
    let (value, buffers, gradient) = (items(call, value), contents(call, memory), gradient.collect());
    let (loops, plans, inverses) = Default::default();
    Outcome { value, buffers, gradient, tape_bytes, loops, plans, inverses }
}

/// Contents of the buffers, by argument.
pub fn contents(call: &Invocation, memory: &Memory) -> Vec<Option<Vec<Num>>> {
    (0..call.args.len()).map(|i| call.decode(i, memory.buffer(i)?.primal.bytes())).collect()
}

pub(crate) fn undamaged(memory: &Memory) -> Result<(), Error> {
    match memory.damage() {
        None => Ok(()),
        Some(message) => Err(Error::Usage(message)),
    }
}
