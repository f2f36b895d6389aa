//! Second derivatives of one call: what `hvp` and `hessian` print.
//!
//! The objective is that of a gradient: `Σ seed · result + Σ initial shadow · final contents`. So
//! with several active results, or with initial shadows, the Hessian is that of their weighted sum.

use brolga::second::{Along, HessianRule, Second};
use brolga::{ArgActivity, Error, Mode};
use cranelift_codegen::data_value::DataValue;

use crate::bind::{BoundArg, Invocation};
use crate::inputs::{Input, inputs};
use crate::memory::{Block, Memory};
use crate::run::{Outcome, collect, undamaged};
use crate::tangent::Direction;
use crate::value::{Item, decode_all, from_data};

/// What a call and its second derivative produced.
#[derive(Clone, Debug, PartialEq)]
pub struct Products {
    /// Value, buffers and gradient.
    pub first: Outcome,
    /// One per argument: the Hessian-vector product, of the shape of the gradient.
    pub products: Vec<Option<Item>>,
}

/// Value, gradient and Hessian-vector product once, in fresh memory.
///
/// # Errors
/// As of [`HessianRule::product`].
pub fn products(rule: &HessianRule, call: &Invocation, direction: &Direction) -> Result<Products, Error> {
    let memory = Memory::new(call)?;
    let mut blocks: Vec<Option<[Block; 2]>> = Vec::new();
    for (i, arg) in call.args.iter().enumerate() {
        blocks.push(match arg {
            BoundArg::Buffer { data, .. } => {
                let still = vec![0; data.len()];
                Some([Block::new(direction.of_buffer(i).unwrap_or(&still)), Block::new(&still)])
            }
            _ => None,
        });
    }
    let along: Vec<Along> = (0..call.args.len())
        .map(|i| match (call.activity(i), call.buffer(i)) {
            (ArgActivity::Duplicated, Some((owner, ..))) => {
                let [tangent, product] = blocks[owner].as_ref().expect("the owner of a buffer is a buffer");
                Along::Memory { tangent: tangent.address(), product: product.address() }
            }
            _ => direction.of_value(i).map_or(Along::Still, |v: &DataValue| Along::Value(v.clone())),
        })
        .collect();
    let mut out = Second::default();
    // SAFETY: as in `run::gradient_in`; the blocks are as large as the buffers.
    let run = unsafe { rule.product(&memory.arguments(), &along, &call.seeds, &mut out) }?;
    undamaged(&memory)?;
    let damaged = |b: &Option<[Block; 2]>| b.iter().flatten().any(|b| !b.is_intact());
    if let Some(i) = blocks.iter().position(damaged) {
        return Err(Error::Usage(format!("the second shadow of argument {i} was written out of bounds")));
    }
    let first = collect(call, &memory, &out.values, &out.cotangents, run.tape_bytes());
    let product = |i: usize| match call.activity(i) {
        ArgActivity::Const => None,
        ArgActivity::Active => out.products[i].as_ref().map(|v| from_data(v, call.params[i])),
        ArgActivity::Duplicated => {
            let (owner, elem, ..) = call.buffer(i)?;
            blocks[owner].as_ref().map(|[_, product]| Item::Many(decode_all(elem, product.bytes())))
        }
    };
    Ok(Products { first, products: (0..call.args.len()).map(product).collect() })
}

/// A Hessian: rows and columns are inputs, in the order of arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Hessian {
    /// One per result.
    pub value: Vec<Item>,
    /// What rows and columns belong to.
    pub inputs: Vec<Input>,
    /// One entry per input.
    pub gradient: Vec<f64>,
    /// Row by row.
    pub entries: Vec<Vec<f64>>,
}

/// The Hessian of a call, one product for each input; `step` is called before each, with its number
/// and how many there are.
///
/// # Errors
/// As [`products`].
pub fn hessian(rule: &HessianRule, call: &Invocation, step: &mut dyn FnMut(usize, usize)) -> Result<Hessian, Error> {
    let inputs = inputs(call);
    let n = inputs.len();
    let mut first = None;
    let mut of = |along: &[f64]| {
        let found = products(rule, call, &Direction::along(call, &inputs, along))?;
        let column = flat(&found.products, &inputs);
        first.get_or_insert(found.first);
        Ok::<_, Error>(column)
    };
    let mut done = 0;
    let entries = brolga::drivers::by_columns(n, n, |along| {
        step(done, n);
        done += 1;
        of(along)
    })?;
    let first = match first {
        Some(first) => first,
        None => products(rule, call, &Direction::zero(call))?.first,
    };
    Ok(Hessian { gradient: flat(&first.gradient, &inputs), value: first.value, inputs, entries })
}

/// The numbers of some inputs, in their order.
pub fn flat(items: &[Option<Item>], inputs: &[Input]) -> Vec<f64> {
    let entry = |i: &Input| Some(items.get(i.arg)?.as_ref()?.nums().get(i.index.unwrap_or(0))?.as_f64());
    inputs.iter().map(|i| entry(i).unwrap_or(f64::NAN)).collect()
}

/// The rule of a call's second derivatives.
///
/// # Errors
/// As [`HessianRule::new`].
pub fn rule(program: &brolga::Program, call: &Invocation, options: &brolga::Options) -> Result<HessianRule, Error> {
    if call.wasm.is_some() {
        let message =
            "second derivatives of WebAssembly modules are not supported: memory of an instance has one shadow";
        return Err(Error::Usage(message.to_owned()));
    }
    let options = brolga::Options { mode: Mode::Combined, ..options.clone() };
    crate::quiet::catch(|| HessianRule::new(program, &call.request(), &options))
        .unwrap_or_else(|message| Err(Error::Internal { stage: "derive", message }))
}
