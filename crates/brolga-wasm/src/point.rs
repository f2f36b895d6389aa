//! An exported function at a point: derivatives as flat vectors.
//!
//! **Problem.** A function changes the memory of its instance, so that to ask for one derivative
//! after another, memory has to be put back each time, and shadows filled and read.
//!
//! **Answer.** A [`Point`] keeps a copy of what the instance held when it was made, and puts it
//! back before each run (a copy of all of memory). Inputs are the active parameters in their order,
//! then the floats in memory that are named; outputs are the float results, then those that are
//! named.

use brolga::drivers::{Derivatives, Products, RowProducts, fits, one_by_one};
use brolga::{ArgActivity, Mode};
use wasmparser::ValType;

use crate::error::Error;
use crate::gradient::{Gradient, default_activity, options};
use crate::instance::Instance;
use crate::region::Image;
use crate::second::Hessian;
use crate::val::Val;

/// Floats in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The address of the first.
    pub at: u32,
    /// How many there are.
    pub n: usize,
    /// Bytes of each, 4 or 8.
    pub size: usize,
}

impl Range {
    /// Doubles from an address on.
    pub fn f64(at: u32, n: usize) -> Self {
        Self { at, n, size: 8 }
    }

    /// Singles from an address on.
    pub fn f32(at: u32, n: usize) -> Self {
        Self { at, n, size: 4 }
    }

    fn bytes(self) -> std::ops::Range<usize> {
        self.at as usize..self.at as usize + self.n * self.size
    }

    fn put(self, to: &mut [u8], floats: &[f64]) {
        for (place, x) in to[self.bytes()].chunks_exact_mut(self.size).zip(floats) {
            match self.size {
                4 => place.copy_from_slice(&(*x as f32).to_le_bytes()),
                _ => place.copy_from_slice(&x.to_le_bytes()),
            }
        }
    }

    fn get(self, from: &[u8], into: &mut Vec<f64>) {
        let single = |b: &[u8]| f32::from_le_bytes(b.try_into().expect("four bytes")).into();
        let double = |b: &[u8]| f64::from_le_bytes(b.try_into().expect("eight bytes"));
        into.extend(from[self.bytes()].chunks_exact(self.size).map(if self.size == 4 { single } else { double }));
    }
}

/// A function of an instance with its arguments.
///
/// ```
/// use brolga_wasm::brolga::drivers::Derivatives;
/// use brolga_wasm::{Instance, Module, Point, Range, Val};
///
/// # fn main() -> Result<(), brolga_wasm::Error> {
/// // x² y, of a double in memory and one by value.
/// let module = Module::new(r#"(module (memory (export "memory") 1)
///     (func (export "f") (param $x i32) (param $y f64) (result f64)
///         (f64.mul (local.get $y) (f64.mul (f64.load (local.get $x)) (f64.load (local.get $x))))))"#)?;
/// let mut instance = Instance::new(&module)?;
/// let x = instance.alloc_f64(&[3.0])?;
/// let args = [Val::I32(x as i32), Val::F64(5.0)];
/// let mut at = Point::new(&mut instance, "f", &args, &[Range::f64(x, 1)], &[])?;
/// // Parameters first: (y, x).
/// assert_eq!(at.value_and_gradient()?, (45.0, vec![9.0, 30.0]));
/// assert_eq!(at.jvp(&[0.0, 1.0])?, (vec![45.0], vec![30.0]));
/// assert_eq!(at.hessian(&[1.0])?, [[0.0, 6.0], [6.0, 10.0]]);
/// # Ok(())
/// # }
/// ```
pub struct Point<'a> {
    instance: &'a mut Instance,
    name: String,
    args: Vec<Val>,
    params: Vec<ValType>,
    results: Vec<ValType>,
    inputs: Vec<Range>,
    outputs: Vec<Range>,
    image: Image,
    gradient: Option<Gradient>,
    pair: Option<Gradient>,
    tangent: Option<Gradient>,
    second: Option<Hessian>,
}

fn is_float(ty: ValType) -> bool {
    default_activity(ty) == ArgActivity::Active
}

fn number(v: Val) -> f64 {
    match v {
        Val::F64(x) => x,
        Val::F32(x) => x.into(),
        _ => 0.0,
    }
}

fn value(ty: ValType, x: f64) -> Val {
    match ty {
        ValType::F32 => Val::F32(x as f32),
        ValType::F64 => Val::F64(x),
        other => Val::from_bits(other, 0),
    }
}

/// Flat inputs as values, and floats in memory.
fn spread(params: &[ValType], inputs: &[Range], flat: &[f64], into: &mut [u8]) -> Vec<Option<Val>> {
    let (mut rest, mut values) = (flat, Vec::new());
    for &ty in params {
        let own = if is_float(ty) { rest.split_off_first() } else { None };
        values.push(own.map(|x| value(ty, *x)));
    }
    for range in inputs {
        let own;
        (own, rest) = rest.split_at(range.n);
        range.put(into, own);
    }
    values
}

impl<'a> Point<'a> {
    /// The function exported as `name`, with these arguments; `inputs` are floats in memory that it
    /// is differentiated by, `outputs` floats in memory that belong to its value, as it leaves
    /// them.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such function, or for floats outside of memory, or of
    /// another size than 4 or 8.
    pub fn new(
        instance: &'a mut Instance,
        name: &str,
        args: &[Val],
        inputs: &[Range],
        outputs: &[Range],
    ) -> Result<Self, Error> {
        let (_, ty) = instance.module().function(name)?;
        let (params, results) = (ty.params().to_vec(), ty.results().to_vec());
        for range in inputs.iter().chain(outputs) {
            if range.bytes().end as u64 > instance.memory_size() || ![4, 8].contains(&range.size) {
                let Range { at, n, size } = range;
                return Err(Error::Usage(format!("{n} floats of {size} bytes at {at} do not lie in memory")));
            }
        }
        for (what, all) in [("inputs", inputs), ("outputs", outputs)] {
            let apart = |a: &Range, b: &Range| a.bytes().end <= b.bytes().start || b.bytes().end <= a.bytes().start;
            if (0..all.len()).any(|i| all[..i].iter().any(|a| !apart(a, &all[i]))) {
                return Err(Error::Usage(format!("two ranges of {what} overlap: each float is named once")));
            }
        }
        Ok(Self {
            image: instance.state.region.image(),
            instance,
            name: name.to_owned(),
            args: args.to_vec(),
            params,
            results,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            gradient: None,
            pair: None,
            tangent: None,
            second: None,
        })
    }

    fn rule(&mut self, mode: Mode) -> Result<Gradient, Error> {
        let cell = match mode {
            Mode::Tangent => &mut self.tangent,
            Mode::Split => &mut self.pair,
            _ => &mut self.gradient,
        };
        if let Some(rule) = cell {
            return Ok(rule.clone());
        }
        let activity: Vec<ArgActivity> = self.params.iter().map(|t| default_activity(*t)).collect();
        let options = brolga::Options { mode, ..options() };
        let rule = Gradient::with_options(self.instance.module(), &self.name, &activity, &options)?;
        Ok(cell.insert(rule).clone())
    }

    fn begin(&mut self) {
        self.instance.state.region.put_back(&self.image);
        self.instance.clear_shadow();
    }

    fn gather(&self, values: &[Option<Val>], memory: &[u8]) -> Vec<f64> {
        let mut flat: Vec<f64> = values.iter().flatten().map(|v| number(*v)).collect();
        self.inputs.iter().for_each(|range| range.get(memory, &mut flat));
        flat
    }

    /// Seeds of results; those of memory go to the shadow.
    fn seed(&mut self, flat: &[f64]) -> Result<Vec<Val>, Error> {
        fits(flat.len(), self.outputs(), "seeds", "one per output")?;
        let mut rest = flat;
        let mut seeds = Vec::new();
        for &ty in &self.results {
            let own = if is_float(ty) { rest.split_off_first() } else { None };
            seeds.push(value(ty, own.copied().unwrap_or(0.0)));
        }
        for range in &self.outputs {
            let own;
            (own, rest) = rest.split_at(range.n);
            range.put(self.instance.shadow_mut(), own);
        }
        Ok(seeds)
    }

    fn gather_outputs(&self, values: impl Iterator<Item = Option<Val>>, memory: &[u8]) -> Vec<f64> {
        let floats = values.zip(&self.results).filter(|(_, ty)| is_float(**ty));
        let mut flat: Vec<f64> = floats.map(|(v, _)| v.map_or(0.0, number)).collect();
        self.outputs.iter().for_each(|range| range.get(memory, &mut flat));
        flat
    }

    fn outputs_now(&self, values: &[Val]) -> Vec<f64> {
        self.gather_outputs(values.iter().map(|v| Some(*v)), self.instance.memory())
    }
}

impl Derivatives for Point<'_> {
    type Error = Error;

    fn inputs(&self) -> usize {
        let by_value = self.params.iter().filter(|ty| is_float(**ty)).count();
        by_value + self.inputs.iter().map(|r| r.n).sum::<usize>()
    }

    fn outputs(&self) -> usize {
        let results = self.results.iter().filter(|ty| is_float(**ty)).count();
        results + self.outputs.iter().map(|r| r.n).sum::<usize>()
    }

    fn jvp(&mut self, along: &[f64]) -> Result<(Vec<f64>, Vec<f64>), Error> {
        fits(along.len(), self.inputs(), "directions", "one per input")?;
        let rule = self.rule(Mode::Tangent)?;
        self.begin();
        let directions = spread(&self.params, &self.inputs, along, self.instance.shadow_mut());
        let found = self.instance.tangent(&rule, &self.args, &directions)?;
        let tangents = self.gather_outputs(found.tangents.into_iter(), self.instance.shadow());
        Ok((self.outputs_now(&found.values), tangents))
    }

    fn vjp(&mut self, seeds: &[f64]) -> Result<(Vec<f64>, Vec<f64>), Error> {
        let rule = self.rule(Mode::Combined)?;
        self.begin();
        let seeds = self.seed(seeds)?;
        let found = self.instance.gradient(&rule, &self.args, &seeds)?;
        Ok((self.outputs_now(&found.values), self.gather(&found.cotangents, self.instance.shadow())))
    }

    fn pulled<R>(&mut self, run: impl FnOnce(&mut RowProducts<'_, Error>) -> Result<R, Error>) -> Result<R, Error> {
        let rule = self.rule(Mode::Split)?;
        self.begin();
        let (_, mut pullback) = self.instance.forward(&rule, &self.args)?;
        run(&mut one_by_one(|seeds: &[f64]| {
            self.instance.clear_shadow();
            let seeds = self.seed(seeds)?;
            let cotangents = self.instance.pullback(&mut pullback, &seeds)?;
            Ok(self.gather(&cotangents, self.instance.shadow()))
        }))
    }

    fn hvp(&mut self, seeds: &[f64], along: &[f64]) -> Result<Products, Error> {
        fits(along.len(), self.inputs(), "directions", "one per input")?;
        let rule = match &self.second {
            Some(rule) => rule.clone(),
            None => self.second.insert(Hessian::new(self.instance.module(), &self.name)?).clone(),
        };
        self.begin();
        self.instance.clear_second();
        let seeds = self.seed(seeds)?;
        let directions = spread(&self.params, &self.inputs, along, self.instance.tangent_mut()?);
        let found = self.instance.product(&rule, &self.args, &directions, &seeds)?;
        let value = self.outputs_now(&found.values);
        let gradient = self.gather(&found.cotangents, self.instance.shadow());
        let product = self.instance.product_mut()?.to_vec();
        Ok(Products { value, gradient, product: self.gather(&found.products, &product) })
    }
}
