//! Inputs of a call: one list of numbers, for oracles that move them.
//!
//! **Question.** Which numbers does the objective of a call depend on, and what is it where they
//! are others?
//!
//! **Answer.** An [`Input`] is a lane of an active argument or an element of a duplicated buffer of
//! floats. A buffer that is passed twice is one set of inputs. The objective whose gradient a
//! pullback computes is
//!
//! ```text
//! L = Σ seed · result + Σ initial shadow · final contents
//! ```
//!
//! which is what [`objective`] evaluates: by running the primal, which knows nothing of
//! derivatives. [`with_inputs`] is the call with other numbers, [`flatten`] the gradient in their
//! order.
//!
//! A fixed-point number is a multiple of [`GRID`], and is moved to one. What is no number of its
//! list's type (an integer among floats) is not moved.
//!
//! **Cost.** A walk over the buffers of the call; for moved inputs a copy of it.

use brolga::{ArgActivity, DerivedRule, Error};
use brolga_oracle::{Activity, BufferRef, Elem, OracleArg, Tangent};
use brolga_reversible::PlaceWord;

use crate::bind::{BoundArg, Invocation};
use crate::memory::Memory;
use crate::noise::Noise;
use crate::run::{Outcome, primal_in};
use crate::text::ElemType;
use crate::value::{Num, decode_all, from_data, to_data};

/// One number that the result depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input {
    /// The argument.
    pub arg: usize,
    /// Lane or element; `None` for a scalar.
    pub index: Option<usize>,
    /// Its value.
    pub value: f64,
    /// Whether it is a 32-bit float.
    pub f32: bool,
    /// What it is, where a type says that.
    pub word: Option<PlaceWord>,
}

impl Input {
    /// Whether it is no number of its list's type, but an integer or two singles, say: it is not
    /// moved.
    pub fn is_other(&self) -> bool {
        match self.word {
            None => false,
            Some(word) if self.f32 => word != PlaceWord::F32,
            Some(word) => !matches!(word, PlaceWord::F64 | PlaceWord::Q43),
        }
    }

    /// Whether it is a fixed-point number: a multiple of [`GRID`].
    pub fn on_grid(&self) -> bool {
        self.word == Some(PlaceWord::Q43)
    }
}

/// A random direction.
pub fn direction(inputs: &[Input], noise: &mut Noise) -> Vec<f64> {
    let one = |i: &Input, x: f64| if i.is_other() { 0.0 } else { x };
    inputs.iter().map(|i| one(i, noise.unit())).collect()
}

/// The unit of fixed-point numbers.
pub const GRID: f64 = 1.0 / (1_u64 << 43) as f64;

/// By how much roundings to fixed-point numbers may move what a call is asked for; nothing of a
/// call without such numbers. A sum of a few is as far from that of numbers as this.
pub fn noise_of_grid(call: &Invocation) -> f64 {
    const ROUNDINGS: f64 = 8.0;
    if !call.words.iter().flatten().any(|w| w.contains(&PlaceWord::Q43)) {
        return 0.0;
    }
    let seeds = |i: usize| match call.buffer(i) {
        Some((owner, elem, _, shadow)) if owner == i && elem.is_float() => decode_all(elem, shadow),
        _ => vec![],
    };
    let sum: f64 = (0..call.args.len()).flat_map(seeds).map(|n| n.as_f64().abs()).filter(|x| x.is_finite()).sum();
    ROUNDINGS * GRID * sum.max(1.0)
}

/// The nearest fixed-point number.
pub fn on_grid(x: f64) -> f64 {
    (x / GRID).round() * GRID + 0.0
}

impl Input {
    /// Name to show: `1[3]`.
    pub fn name(&self) -> String {
        match self.index {
            Some(i) => format!("{}[{i}]", self.arg),
            None => self.arg.to_string(),
        }
    }
}

/// The largest magnitude of any of them.
pub fn size(inputs: &[Input]) -> f64 {
    inputs.iter().filter(|i| !i.is_other()).map(|i| i.value.abs()).filter(|x| x.is_finite()).fold(0.0, f64::max)
}

/// The inputs of a call, in order.
pub fn inputs(call: &Invocation) -> Vec<Input> {
    let mut out = Vec::new();
    for arg in 0..call.args.len() {
        let mut push = |index, n: Num, word| {
            out.push(Input { arg, index, value: n.as_f64(), f32: matches!(n, Num::F32(_)), word });
        };
        match (&call.args[arg], call.activity(arg)) {
            (BoundArg::Value(v), ArgActivity::Active) => {
                let ty = call.params[arg];
                for (i, n) in from_data(v, ty).nums().iter().enumerate() {
                    push(ty.is_vector().then_some(i), *n, None);
                }
            }
            (_, ArgActivity::Duplicated) if call.owns_shadow(arg) => {
                let Some((_, elem, data, _)) = call.buffer(arg).filter(|b| b.1.is_float()) else { continue };
                for (i, n) in decode_all(elem, data).into_iter().enumerate() {
                    push(Some(i), n, call.word(arg, i));
                }
            }
            _ => {}
        }
    }
    out
}

/// The same call with other values for its inputs.
pub fn with_inputs(call: &Invocation, inputs: &[Input], values: &[f64]) -> Invocation {
    let mut moved = call.clone();
    for (input, value) in inputs.iter().zip(values).filter(|(i, _)| !i.is_other()) {
        let lane = input.index.unwrap_or(0);
        let owner = call.buffer(input.arg).map_or(input.arg, |b| b.0);
        match &mut moved.args[owner] {
            BoundArg::Value(v) => {
                let ty = call.params[input.arg];
                let mut lanes = from_data(v, ty).nums().to_vec();
                lanes[lane] = Num::F64(*value);
                *v = to_data(ty, |i| lanes[i]).expect("an active argument is a float");
            }
            BoundArg::Buffer { elem, data, .. } => {
                let n = elem.bytes();
                let value = if input.on_grid() { on_grid(*value) } else { *value };
                Num::F64(value).encode(*elem, &mut data[lane * n..(lane + 1) * n]);
            }
            BoundArg::Same(_) => unreachable!("the owner of a buffer is a buffer"),
        }
    }
    moved
}

/// The part of a gradient that belongs to these inputs, in their order.
pub fn flatten(outcome: &Outcome, inputs: &[Input]) -> Vec<f64> {
    let entry = |i: &Input| {
        let item = outcome.gradient.get(i.arg)?.as_ref()?;
        item.nums().get(i.index.unwrap_or(0)).map(|n| n.as_f64())
    };
    // A missing cotangent is no number, so that it agrees with nothing.
    inputs.iter().map(|i| entry(i).unwrap_or(f64::NAN)).collect()
}

/// The objective at the inputs of `call`.
pub fn objective(rule: &DerivedRule, call: &Invocation) -> Result<f64, Error> {
    let mut memory = Memory::new(call)?;
    let value = primal_in(rule, call, &mut memory)?;
    let mut sum = 0.0;
    for ((item, seed), ty) in value.iter().zip(&call.seeds).zip(&call.returns) {
        let seed = from_data(seed, *ty);
        for (v, s) in item.nums().iter().zip(seed.nums()) {
            sum += strong_product(s.as_f64(), v.as_f64(), v.is_float());
        }
    }
    for arg in (0..call.args.len()).filter(|a| call.owns_shadow(*a)) {
        let (Some((_, elem, _, shadow)), Some(buffer)) = (call.buffer(arg), memory.buffer(arg)) else { continue };
        let (seeds, values) = (decode_all(elem, shadow), decode_all(elem, buffer.primal.bytes()));
        sum += call.pairs(arg, &seeds, &values).into_iter().map(|(s, v)| strong_product(s, v, true)).sum::<f64>();
    }
    Ok(sum)
}

/// A seed of zero takes its value out of the objective, also where that is not finite.
fn strong_product(seed: f64, value: f64, float: bool) -> f64 {
    if seed == 0.0 || !float { 0.0 } else { seed * value }
}

/// One tangent per argument of the oracle's, the instance's among them: a direction has a number
/// for each input.
pub(crate) fn oracle_tangents(call: &Invocation, inputs: &[Input], direction: &[f64]) -> Vec<Tangent> {
    let hidden = call.hidden();
    let mut tangents = vec![Tangent::Zero; hidden + call.args.len()];
    for (input, x) in inputs.iter().zip(direction) {
        match (&mut tangents[hidden + input.arg], call.buffer(input.arg).is_some()) {
            (Tangent::Lanes(t) | Tangent::Buffer(t), _) => t.push(*x),
            (t @ Tangent::Zero, true) => *t = Tangent::Buffer(vec![*x]),
            (t @ Tangent::Zero, false) => *t = Tangent::Lanes(vec![*x]),
        }
    }
    tangents
}

/// The call's arguments as the oracle takes them, over `memory`; hidden ones first.
pub fn oracle_args(call: &Invocation, memory: &Memory) -> Vec<OracleArg> {
    let hidden = call.hidden();
    let values = memory.values();
    let instance: Vec<OracleArg> = values[..hidden].iter().cloned().map(OracleArg::constant).collect();
    let written = values.into_iter().skip(hidden).enumerate().map(|(i, value)| match call.activity(i) {
        ArgActivity::Const => OracleArg::constant(value),
        ArgActivity::Active => OracleArg::active(value),
        ArgActivity::Duplicated => {
            let Some((_, elem, data, shadow)) = call.buffer(i) else { return OracleArg::constant(value) };
            let buffer = memory.buffer(i).expect("a duplicated argument has a buffer");
            let reference = BufferRef {
                addr: buffer.primal.address() as usize,
                len_bytes: data.len(),
                elem: match elem {
                    ElemType::F64 => Elem::F64,
                    ElemType::F32 => Elem::F32,
                    ElemType::Int(_) => Elem::Bytes,
                },
            };
            let shadow = elem.is_float().then(|| decode_all(elem, shadow).iter().map(|n| n.as_f64()).collect());
            let integers = (0..data.len() / elem.bytes()).filter(|&k| call.is_integer(i, k)).collect();
            OracleArg { value, activity: Activity::Duplicated, buffer: Some(reference), shadow, integers }
        }
    });
    instance.into_iter().chain(written).collect()
}
