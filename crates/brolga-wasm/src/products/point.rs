//! An exported function at a point: derivatives as flat vectors.
//!
//! **Problem.** A function changes the memory of its instance, so that to ask for one derivative
//! after another, memory has to be put back each time, and shadows filled and read.
//!
//! **Answer.** A [`Point`] keeps a copy of what the instance held when it was made, and puts it
//! back before each run (a copy of all of memory). Inputs are the active parameters in their order,
//! then the floats in memory that are named; outputs are the float results, then those that are
//! named.
//!
//! **Cost.** Each kind of derivative is derived once for each width. A run first puts memory back
//! and clears its shadows.

use brolga::drivers::support::{Lane, WIDTH, fits, some_at_a_time, taylor_options, width_for};
use brolga::drivers::{Derivatives, MOST_ORDER, Products, RowProducts};
use brolga::{ArgActivity, Mode, Options};
use wasmparser::ValType;

use crate::error::Error;
use crate::gradient::{Gradient, Pullback, default_activity, options};
use crate::host::region::Image;
use crate::instance::Instance;
use crate::module::Module;
use crate::products::second::Hessian;
use crate::val::Val;

/// Floats in memory.
///
/// ```
/// # use brolga_wasm::Range;
/// assert_eq!(Range { at: 64, n: 3, size: 8 }, Range::f64(64, 3));
/// ```
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
    ///
    /// ```
    /// assert_eq!(brolga_wasm::Range::f64(64, 3).size, 8);
    /// ```
    pub fn f64(at: u32, n: usize) -> Self {
        Self { at, n, size: 8 }
    }

    /// Singles from an address on.
    ///
    /// ```
    /// assert_eq!(brolga_wasm::Range::f32(64, 3).size, 4);
    /// ```
    pub fn f32(at: u32, n: usize) -> Self {
        Self { at, n, size: 4 }
    }

    fn bytes(self) -> std::ops::Range<usize> {
        self.at as usize..self.at as usize + self.n * self.size
    }

    /// Write floats as one derivative of a shadow of a width.
    fn put(self, to: &mut [u8], floats: &[f64], Lane { k, width }: Lane) {
        let places = to[self.of_width(width)].chunks_exact_mut(self.size).skip(k).step_by(width);
        for (place, x) in places.zip(floats) {
            match self.size {
                4 => place.copy_from_slice(&(*x as f32).to_le_bytes()),
                _ => place.copy_from_slice(&x.to_le_bytes()),
            }
        }
    }

    /// Read one derivative from a shadow of a width.
    fn get(self, from: &[u8], into: &mut Vec<f64>, Lane { k, width }: Lane) {
        let single = |b: &[u8]| f32::from_le_bytes(b.try_into().expect("four bytes")).into();
        let double = |b: &[u8]| f64::from_le_bytes(b.try_into().expect("eight bytes"));
        let places = from[self.of_width(width)].chunks_exact(self.size).skip(k).step_by(width);
        into.extend(places.map(if self.size == 4 { single } else { double }));
    }

    /// Bytes of a shadow of a width.
    fn of_width(self, width: usize) -> std::ops::Range<usize> {
        let std::ops::Range { start, end } = self.bytes();
        start * width..end * width
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
    pairs: RulesByWidth<Gradient>,
    tangents: RulesByWidth<Gradient>,
    seconds: RulesByWidth<Hessian>,
    /// By order.
    series: [Option<Gradient>; MOST_ORDER + 1],
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
fn spread(params: &[ValType], inputs: &[Range], flat: &[f64], into: &mut [u8], lane: Lane) -> Vec<Option<Val>> {
    let (mut rest, mut values) = (flat, Vec::new());
    for &ty in params {
        let coordinate = if is_float(ty) { rest.split_off_first() } else { None };
        values.push(coordinate.map(|x| value(ty, *x)));
    }
    for range in inputs {
        let coordinates;
        (coordinates, rest) = rest.split_at(range.n);
        range.put(into, coordinates, lane);
    }
    values
}

/// A rule for several derivatives at once, if there is one; kept by the logarithm of its width.
fn wide<R: Clone>(
    cells: &mut RulesByWidth<R>,
    several: usize,
    make: impl FnOnce(u32) -> Result<R, Error>,
) -> Result<Option<R>, Error> {
    if several < 2 {
        return Ok(None);
    }
    let width = width_for(several);
    let cell = &mut cells[width.ilog2() as usize];
    if cell.is_none() {
        *cell = Some(unless_too_wide(make(width as u32))?);
    }
    Ok(cell.clone().flatten())
}

fn unless_too_wide<T>(found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Err(e) if e.is_too_wide() => Ok(None),
        found => found.map(Some),
    }
}

/// Rules by the logarithms of their widths, as far as they have been asked for; nothing where there
/// is no batch.
type RulesByWidth<R> = [Option<Option<R>>; WIDTH.ilog2() as usize + 1];

/// A derivative by all floats.
fn derived(module: &Module, name: &str, options: &Options) -> Result<Gradient, Error> {
    let activity: Vec<ArgActivity> = module.function(name)?.1.params().iter().map(|t| default_activity(*t)).collect();
    Gradient::with_options(module, name, &activity, options)
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
            pairs: Default::default(),
            tangents: Default::default(),
            seconds: Default::default(),
            series: Default::default(),
        })
    }

    fn rule(&mut self, mode: Mode) -> Result<Gradient, Error> {
        let options = Options { mode, ..options() };
        let cell = match mode {
            Mode::Tangent => &mut self.tangent,
            Mode::Split => &mut self.pair,
            _ => &mut self.gradient,
        };
        if cell.is_none() {
            *cell = Some(derived(self.instance.module(), &self.name, &options)?);
        }
        Ok(cell.clone().expect("it has just been made"))
    }

    fn begin(&mut self) {
        self.instance.state.region.put_back(&self.image);
        self.clear();
    }

    fn clear(&mut self) {
        self.instance.clear_shadow();
        self.instance.clear_batches();
    }

    fn gather(&self, values: &[Option<Val>], memory: &[u8], lane: Lane) -> Vec<f64> {
        let mut flat: Vec<f64> = values.iter().flatten().map(|v| number(*v)).collect();
        self.inputs.iter().for_each(|range| range.get(memory, &mut flat, lane));
        flat
    }

    /// Seeds of results; those of memory go to the shadow of a width.
    fn seed(&mut self, flat: &[f64], lane: Lane) -> Result<Vec<Val>, Error> {
        fits(flat.len(), self.outputs(), "seeds", "one per output")?;
        let mut rest = flat;
        let mut seeds = Vec::new();
        for &ty in &self.results {
            let coordinate = if is_float(ty) { rest.split_off_first() } else { None };
            seeds.push(value(ty, coordinate.copied().unwrap_or(0.0)));
        }
        for range in &self.outputs {
            let coordinates;
            (coordinates, rest) = rest.split_at(range.n);
            range.put(self.instance.shadows_mut(lane.width)?, coordinates, lane);
        }
        Ok(seeds)
    }

    fn gather_outputs(&self, values: impl Iterator<Item = Option<Val>>, memory: &[u8], lane: Lane) -> Vec<f64> {
        let floats = values.zip(&self.results).filter(|(_, ty)| is_float(**ty));
        let mut flat: Vec<f64> = floats.map(|(v, _)| v.map_or(0.0, number)).collect();
        self.outputs.iter().for_each(|range| range.get(memory, &mut flat, lane));
        flat
    }

    fn outputs_now(&self, values: &[Val]) -> Vec<f64> {
        self.gather_outputs(values.iter().map(|v| Some(*v)), self.instance.memory(), Lane::ONLY)
    }

    /// A run of a rule of forward mode along these directions, and nothing in those that are left:
    /// the outputs, and for each the outputs' derivatives.
    fn along(&mut self, rule: &Gradient, along: &[Vec<f64>]) -> Result<(Vec<f64>, Vec<Vec<f64>>), Error> {
        let width = rule.rule.width();
        self.begin();
        let mut directions = vec![vec![None; self.params.len()]; width];
        for (k, flat) in along.iter().enumerate() {
            fits(flat.len(), self.inputs(), "directions", "one per input")?;
            let shadow = self.instance.shadows_mut(width)?;
            directions[k] = spread(&self.params, &self.inputs, flat, shadow, Lane { k, width });
        }
        let found = self.instance.tangents(rule, &self.args, &directions)?;
        let value = self.outputs_now(&found[0].values);
        let shadow = self.instance.shadows(width);
        let one = |k: usize| {
            let tangents = self.gather_outputs(found[k].tangents.iter().copied(), shadow, Lane { k, width });
            rule.rule.known_tangents(&tangents).map(|()| tangents)
        };
        Ok((value, (0..width).map(one).collect::<Result<_, _>>()?))
    }

    /// Products of the Hessian along these directions, by a rule of second derivatives.
    fn second(&mut self, rule: &Hessian, seeds: &[f64], along: &[Vec<f64>]) -> Result<Vec<Products>, Error> {
        let width = rule.width();
        self.begin();
        let seeds = self.seed(seeds, Lane::ONLY)?;
        let mut directions = vec![vec![None; self.params.len()]; width];
        for (k, flat) in along.iter().enumerate() {
            fits(flat.len(), self.inputs(), "directions", "one per input")?;
            let tangents = self.instance.tangents_mut(width)?;
            directions[k] = spread(&self.params, &self.inputs, flat, tangents, Lane { k, width });
        }
        let found = self.instance.products(rule, &self.args, &directions, &seeds)?;
        let value = self.outputs_now(&found[0].values);
        let gradient = self.gather(&found[0].cotangents, self.instance.shadow(), Lane::ONLY);
        let products = self.instance.products_left(width);
        let one = |k: usize| Products {
            value: value.clone(),
            gradient: gradient.clone(),
            product: self.gather(&found[k].products, products, Lane { k, width }),
        };
        Ok((0..along.len()).map(one).collect())
    }

    /// Gradients of one pullback, of these seeds.
    fn rows(&mut self, pullback: &mut Pullback, rows: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Error> {
        let width = pullback.gradient.rule.width();
        self.clear();
        let zeros = vec![0.0; self.outputs()];
        let of = |k: usize| self.seed(rows.get(k).unwrap_or(&zeros), Lane { k, width });
        let seeds = (0..width).map(of).collect::<Result<Vec<_>, _>>()?;
        let cotangents = self.instance.pullbacks(pullback, &seeds)?;
        let shadow = self.instance.shadows(width);
        Ok((0..rows.len()).map(|k| self.gather(&cotangents[k], shadow, Lane { k, width })).collect())
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
        let rule = self.rule(Mode::Tangent)?;
        let (value, mut tangents) = self.along(&rule, &[along.to_vec()])?;
        Ok((value, tangents.remove(0)))
    }

    fn jvps(&mut self, along: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Error> {
        let batch = |this: &mut Self, some: &[Vec<f64>]| {
            let (module, name) = (this.instance.module().clone(), this.name.clone());
            let make = |width| derived(&module, &name, &Options { mode: Mode::Tangent, width, ..options() });
            let Some(rule) = wide(&mut this.tangents, some.len(), make)? else { return Ok(None) };
            let found = unless_too_wide(this.along(&rule, some))?;
            Ok(found.map(|(_, tangents)| tangents.into_iter().take(some.len()).collect()))
        };
        some_at_a_time(self, along, batch, |this, along| Ok(this.jvp(along)?.1))
    }

    fn taylor(&mut self, along: &[f64], order: usize) -> Result<Vec<Vec<f64>>, Error> {
        let options = taylor_options(&options(), order)?;
        if self.series[order].is_none() {
            self.series[order] = Some(derived(self.instance.module(), &self.name, &options)?);
        }
        let rule = self.series[order].clone().expect("it has just been made");
        // The first coefficient of the path is the direction, others are zero.
        let (value, coefficients) = self.along(&rule, &[along.to_vec()])?;
        Ok(std::iter::once(value).chain(coefficients).collect())
    }

    fn vjp(&mut self, seeds: &[f64]) -> Result<(Vec<f64>, Vec<f64>), Error> {
        let rule = self.rule(Mode::Combined)?;
        self.begin();
        let seeds = self.seed(seeds, Lane::ONLY)?;
        let found = self.instance.gradient(&rule, &self.args, &seeds)?;
        Ok((self.outputs_now(&found.values), self.gather(&found.cotangents, self.instance.shadow(), Lane::ONLY)))
    }

    fn pulled<R>(&mut self, run: impl FnOnce(&mut RowProducts<'_, Error>) -> Result<R, Error>) -> Result<R, Error> {
        let (module, name, rows) = (self.instance.module().clone(), self.name.clone(), self.outputs());
        let make = |width| derived(&module, &name, &Options { mode: Mode::Split, width, ..options() });
        let forward = |this: &mut Self, rule: &Gradient| {
            this.begin();
            Ok::<_, Error>(this.instance.forward(rule, &this.args)?.1)
        };
        let first = match wide(&mut self.pairs, rows, make)? {
            Some(rule) => unless_too_wide(forward(self, &rule))?,
            None => None,
        };
        let one = |this: &mut Self| {
            let rule = this.rule(Mode::Split)?;
            forward(this, &rule)
        };
        let mut back = first.map_or_else(|| one(self), Ok)?;
        run(&mut |rows| {
            let mut found = Vec::with_capacity(rows.len());
            while found.len() < rows.len() {
                let some = &rows[found.len()..rows.len().min(found.len() + back.gradient.rule.width())];
                match self.rows(&mut back, some) {
                    Err(e) if back.gradient.rule.width() > 1 && e.is_too_wide() => back = one(self)?,
                    some => found.extend(some?),
                }
            }
            Ok(found)
        })
    }

    fn hvp(&mut self, seeds: &[f64], along: &[f64]) -> Result<Products, Error> {
        let rule = match &self.second {
            Some(rule) => rule.clone(),
            None => self.second.insert(Hessian::new(self.instance.module(), &self.name)?).clone(),
        };
        Ok(self.second(&rule, seeds, &[along.to_vec()])?.remove(0))
    }

    fn hvps(&mut self, seeds: &[f64], along: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Error> {
        let batch = |this: &mut Self, some: &[Vec<f64>]| {
            let (module, name, params) = (this.instance.module().clone(), this.name.clone(), this.params.clone());
            let activity: Vec<ArgActivity> = params.iter().map(|t| default_activity(*t)).collect();
            let make = |width| Hessian::with_options(&module, &name, &activity, &Options { width, ..options() });
            let Some(rule) = wide(&mut this.seconds, some.len(), make)? else { return Ok(None) };
            let found = unless_too_wide(this.second(&rule, seeds, some))?;
            Ok(found.map(|all| all.into_iter().map(|p| p.product).collect()))
        };
        some_at_a_time(self, along, batch, |this, along| Ok(this.hvp(seeds, along)?.product))
    }
}
