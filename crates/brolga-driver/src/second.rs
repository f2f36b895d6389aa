//! Second derivatives of one call: what `hvp` and `hessian` print.
//!
//! **Question.** What is the product of a call's Hessian with a direction, and what are all its
//! entries?
//!
//! **Answer.** [`products_along`] runs a rule of second derivatives along several directions at
//! once, where that can be; second shadows hold the tangents of memory and its products.
//! [`hessian`] takes a product for each input, or, if a pattern says which entries may be other
//! than zero, for each colour of it.
//!
//! The objective is that of a gradient: `Σ seed · result + Σ initial shadow · final contents`. So
//! with several active results, or with initial shadows, the Hessian is that of their weighted sum.
//!
//! **Cost.** A run for each few directions, in fresh memory; for each buffer two second shadows, as
//! many times as large as there are directions in the run. A rule is derived once for each width,
//! or for each run where runs leave traces in data objects.

use brolga::drivers::Star;
use brolga::drivers::support::Lane;
use brolga::second::{ArgDirection, HessianProducts, HessianRule};
use brolga::{ArgActivity, Error, Mode};
use brolga_wasm::Instance;
use cranelift_codegen::data_value::DataValue;

use crate::batch::in_batches;
use crate::bind::{BoundArg, Invocation};
use crate::inputs::{Input, inputs};
use crate::memory::{Block, Memory, failure};
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
    Ok(batch(rule, call, std::slice::from_ref(direction))?.remove(0))
}

/// The same along each of these directions, as many of them in one run as drivers go along
/// ([`brolga::drivers::support::WIDTH`]) where that can be.
///
/// # Errors
/// As of [`products`].
pub fn products_along(
    rule: FreshHessian<'_>,
    call: &Invocation,
    directions: &[Direction],
) -> Result<Vec<Products>, Error> {
    in_batches(directions, |width, chunk| batch(&rule(width as u32)?, call, chunk))
}

/// One run in fresh memory, along at most as many directions as the rule has lanes.
fn batch(rule: &HessianRule, call: &Invocation, directions: &[Direction]) -> Result<Vec<Products>, Error> {
    let width = rule.rule().width();
    let mut memory = Memory::new(call)?;
    let mut places = SecondShadows::blocks(call, directions, width);
    places.instance = memory.instance_mut().map(|(instance, at)| places.put(instance, at, width)).transpose()?;
    let along = |k: usize| {
        let written = (0..call.args.len()).map(|i| match (call.activity(i), call.buffer(i)) {
            (ArgActivity::Duplicated, Some((owner, ..))) if call.wasm.is_none() => places.along(owner),
            _ => {
                let value = directions.get(k).and_then(|d| d.of_value(i));
                value.map_or(ArgDirection::Still, |v: &DataValue| ArgDirection::Value(v.clone()))
            }
        });
        places.instance.iter().cloned().chain(written).collect::<Vec<_>>()
    };
    let along: Vec<ArgDirection> = (0..width).flat_map(along).collect();
    let mut out = HessianProducts::default();
    // SAFETY: as in `run::gradient_in`; the blocks are as large as the buffers.
    let run = unsafe { rule.product(&memory.arguments(), &along, &call.seeds, &mut out) }?;
    undamaged(&memory)?;
    if let Some(i) = places.blocks.iter().position(|b| b.iter().flatten().any(|b| !b.is_intact())) {
        return Err(Error::Usage(format!("the second shadow of argument {i} was written out of bounds")));
    }
    let first = collect(call, &memory, &out.values, &out.cotangents, run.tape_bytes());
    if let Some((instance, at)) = memory.instance_mut() {
        let found = instance.products_left(width);
        for (place, at) in places.blocks.iter_mut().zip(at) {
            if let (Some([_, product]), Some(at)) = (place, at) {
                let (n, at) = (product.bytes().len(), *at as usize * width);
                product.bytes_mut().copy_from_slice(&found[at..at + n]);
            }
        }
    }
    let given = call.hidden() + call.args.len();
    let product = |i: usize, k: usize| match call.activity(i) {
        ArgActivity::Const => None,
        ArgActivity::Active => {
            out.products[k * given + call.hidden() + i].as_ref().map(|v| from_data(v, call.params[i]))
        }
        ArgActivity::Duplicated => {
            let (owner, elem, ..) = call.buffer(i)?;
            let [_, product] = places.blocks[owner].as_ref()?;
            Some(Item::Many(decode_all(elem, &call.of_direction(i, product.bytes(), Lane { k, width }))))
        }
    };
    let one =
        |k: usize| Products { first: first.clone(), products: (0..call.args.len()).map(|i| product(i, k)).collect() };
    Ok((0..directions.len()).map(one).collect())
}

/// Where second shadows lie.
struct SecondShadows {
    /// By argument: tangent and product of what it owns; of an instance, a copy.
    blocks: Vec<Option<[Block; 2]>>,
    /// Those of the instance of a module.
    instance: Option<ArgDirection>,
}

impl SecondShadows {
    fn blocks(call: &Invocation, directions: &[Direction], width: usize) -> Self {
        let block = |(i, arg): (usize, &BoundArg)| match arg {
            BoundArg::Buffer { data, .. } => {
                let still = vec![0; data.len() * width];
                let mut tangents = Block::new(&still);
                for (k, direction) in directions.iter().enumerate() {
                    if let Some(bytes) = direction.of_buffer(i) {
                        call.interleave(i, tangents.bytes_mut(), bytes, Lane { k, width });
                    }
                }
                Some([tangents, Block::new(&still)])
            }
            _ => None,
        };
        Self { blocks: call.args.iter().enumerate().map(block).collect(), instance: None }
    }

    /// Directions into an instance, for which there is one argument.
    fn put(&self, instance: &mut Instance, at: &[Option<u32>], width: usize) -> Result<ArgDirection, Error> {
        let tangents = instance.tangents_mut(width).map_err(failure)?;
        for (block, at) in self.blocks.iter().zip(at) {
            if let (Some([block, _]), Some(at)) = (block, at) {
                let (n, at) = (block.bytes().len(), *at as usize * width);
                tangents[at..at + n].copy_from_slice(block.bytes());
            }
        }
        let tangent = tangents.as_ptr() as u64;
        let product = instance.products_mut(width).map_err(failure)?.as_ptr() as u64;
        Ok(ArgDirection::Memory { tangent, product })
    }

    fn along(&self, owner: usize) -> ArgDirection {
        let [tangent, product] = self.blocks[owner].as_ref().expect("the owner of a buffer is a buffer");
        ArgDirection::Memory { tangent: tangent.address(), product: product.address() }
    }
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

/// The Hessian of a call, one product for each input, or fewer if a pattern is given; `step` is
/// called before each run, with how many products there are and how many are to be.
///
/// # Errors
/// As [`products`].
pub fn hessian(
    rule: FreshHessian<'_>,
    call: &Invocation,
    pattern: Option<&Star>,
    step: &mut dyn FnMut(usize, usize),
) -> Result<Hessian, Error> {
    let inputs = inputs(call);
    let n = inputs.len();
    let runs = pattern.map_or(n, Star::products);
    let (mut first, mut done) = (None, 0);
    let mut of = |along: &[Vec<f64>]| {
        step(done, runs);
        done += along.len();
        let directions: Vec<_> = along.iter().map(|along| Direction::along(call, &inputs, along)).collect();
        let found = products_along(rule, call, &directions)?;
        let columns = found.iter().map(|p| flat(&p.products, &inputs)).collect();
        first.get_or_insert_with(|| found[0].first.clone());
        Ok::<_, Error>(columns)
    };
    let entries = match pattern {
        Some(star) => star.pattern().dense(&star.hessian(&mut of)?),
        None => brolga::drivers::by_columns(n, n, &mut of)?,
    };
    let first = match first {
        Some(first) => first,
        None => products(&rule(1)?, call, &Direction::zero(call))?.first,
    };
    Ok(Hessian { gradient: flat(&first.gradient, &inputs), value: first.value, inputs, entries })
}

/// The numbers of some inputs, in their order.
pub fn flat(items: &[Option<Item>], inputs: &[Input]) -> Vec<f64> {
    let entry = |i: &Input| Some(items.get(i.arg)?.as_ref()?.nums().get(i.index.unwrap_or(0))?.as_f64());
    inputs.iter().map(|i| if i.is_other() { 0.0 } else { entry(i).unwrap_or(f64::NAN) }).collect()
}

/// How to get the rule of a call's second derivatives, of a width, whose data objects are as at the
/// start.
pub type FreshHessian<'a> = &'a dyn Fn(u32) -> Result<HessianRule, Error>;

/// Rules of a call's second derivatives: one for all runs, or, where runs leave traces in data
/// objects, another one each time.
pub fn rules<'a>(
    program: &'a brolga::Program,
    call: &'a Invocation,
    options: &'a brolga::Options,
) -> impl Fn(u32) -> Result<HessianRule, Error> + 'a {
    let cache = std::cell::RefCell::new(Vec::<(u32, HessianRule)>::new());
    move |width| {
        let known = cache.borrow().iter().find(|(of, _)| *of == width).map(|(_, rule)| rule.clone());
        if let Some(known) = known {
            return Ok(known);
        }
        let made = rule(program, call, &brolga::Options { width, ..options.clone() })?;
        if !program.has_writable_data() {
            cache.borrow_mut().push((width, made.clone()));
        }
        Ok(made)
    }
}

/// The rule of a call's second derivatives.
///
/// # Errors
/// As [`HessianRule::new`].
pub fn rule(program: &brolga::Program, call: &Invocation, options: &brolga::Options) -> Result<HessianRule, Error> {
    let options = brolga::Options { mode: Mode::Combined, ..options.clone() };
    brolga_ir::panics::catch(|| HessianRule::new(program, &call.request(), &options))
        .unwrap_or_else(|message| Err(Error::Internal { stage: "derive", message }))
}
