//! A function at a point: derivatives as flat vectors, with memory that is managed here.
//!
//! **Problem.** A rule takes addresses, and a function may write to the memory behind them. To ask
//! for one derivative after the other, a caller keeps primal, shadow and second shadows of each
//! buffer, and restores them before each run.
//!
//! **Answer.** A [`Point`] has the arguments by their contents. Each run gets a fresh copy. Inputs
//! are flattened in the order of arguments: the lanes of active floats, the elements of buffers.
//! Outputs are the lanes of float results, then the elements of the buffers that are named as
//! outputs. Rules are made when they are asked for first.
//!
//! **Cost.** A rule is derived and compiled when it is asked for first, for one direction and for
//! each width of a batch. Each run copies all buffers, and allocates shadows of those that hold
//! floats.

use std::sync::OnceLock;

use brolga_ir::{ArgSpec, Elem, FuncKey, Mode, Options, Program, Request};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{Type, types};

use super::dense::{Lane, WIDTH, some_at_a_time, width_for};
use super::derivatives::{Derivatives, MOST_ORDER, Products, RowProducts, fits, taylor_options, with_values};
use crate::second::{ArgDirection, HessianProducts, HessianRule};
use crate::{Arg, DerivedRule, Error, Pullback};

/// One argument, by its contents.
///
/// ```
/// # use brolga::{Error, Options, drivers::{Argument, Derivatives, Point}, cranelift_codegen::data_value::DataValue};
/// # let text = "function %f(i64, f64) -> f64 { block0(v0: i64, v1: f64): v2 = load.f64 v0 v3 = fmul v2, v1 return v3 }";
/// # let mut program = brolga::Program::new();
/// # let f = program.define("f", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
/// // double f(const double *x, double a) { return x[0] * a; }
/// let gradient = |a: Argument| -> Result<Vec<f64>, Error> {
///     let arguments = vec![Argument::Floats(vec![3.0]), a];
///     // SAFETY: the function reads one number.
///     Ok(unsafe { Point::new(&program, f, arguments, &Options::default()) }?.value_and_gradient()?.1)
/// };
/// let a = DataValue::F64(2.0.into());
/// assert_eq!(gradient(Argument::Active(a.clone()))?, [2.0, 3.0]);
/// assert_eq!(gradient(Argument::Const(a))?, [2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A value that is not differentiated.
    Const(DataValue),
    /// A float, or a vector of floats.
    Active(DataValue),
    /// A pointer to 64-bit floats.
    Floats(Vec<f64>),
    /// A pointer to 32-bit floats.
    Singles(Vec<f32>),
    /// A pointer to memory that is not differentiated.
    Bytes(Vec<u8>),
}

/// A function with its arguments.
///
/// ```
/// # use brolga::{Options, Program, drivers::{Derivatives, Argument, Point}};
/// # use brolga::cranelift_codegen::{data_value::DataValue, ir};
/// # fn program() -> (Program, brolga::FuncKey) {
/// #     let mut program = Program::new();
/// #     let mut f = ir::Function::new();
/// #     let float = ir::AbiParam::new(ir::types::F64);
/// #     f.signature.params.extend([float, float]);
/// #     f.signature.returns.push(float);
/// #     let b = f.dfg.make_block();
/// #     let x = f.dfg.append_block_param(b, ir::types::F64);
/// #     let y = f.dfg.append_block_param(b, ir::types::F64);
/// #     f.layout.append_block(b);
/// #     use brolga::cranelift_codegen::cursor::{Cursor, FuncCursor};
/// #     use ir::InstBuilder;
/// #     let mut pos = FuncCursor::new(&mut f).at_bottom(b);
/// #     let xx = pos.ins().fmul(x, x);
/// #     let z = pos.ins().fmul(xx, y);
/// #     pos.ins().return_(&[z]);
/// #     let key = program.define("product", f, |_| 0).unwrap();
/// #     (program, key)
/// # }
/// let (program, product) = program(); // (x, y) -> x² y
/// let float = |x: f64| Argument::Active(DataValue::F64(x.into()));
/// // SAFETY: the function accesses no memory.
/// let mut at = unsafe { Point::new(&program, product, vec![float(3.0), float(5.0)], &Options::default()) }?;
/// assert_eq!(at.value_and_gradient()?, (45.0, vec![30.0, 9.0]));
/// assert_eq!(at.jvp(&[1.0, 0.0])?, (vec![45.0], vec![30.0]));
/// assert_eq!(at.jacobian()?, [[30.0, 9.0]]);
/// assert_eq!(at.hessian(&[1.0])?, [[10.0, 6.0], [6.0, 0.0]]);
/// # Ok::<(), brolga::Error>(())
/// ```
pub struct Point {
    program: Program,
    request: Request,
    inputs: Vec<Argument>,
    outputs: Vec<usize>,
    options: Options,
    params: Vec<Type>,
    returns: Vec<Type>,
    rules: LazyRules,
}

/// Rules that are made when they are first asked for.
#[derive(Default)]
pub(super) struct LazyRules {
    pub(super) gradient: OnceLock<DerivedRule>,
    pub(super) pair: OnceLock<DerivedRule>,
    pub(super) tangent: OnceLock<DerivedRule>,
    pub(super) second: OnceLock<HessianRule>,
    /// By the logarithm of their widths; nothing where there is no batch.
    pub(super) tangents: [OnceLock<Option<DerivedRule>>; WIDTH.ilog2() as usize + 1],
    pub(super) seconds: [OnceLock<Option<HessianRule>>; WIDTH.ilog2() as usize + 1],
    /// By order.
    pub(super) series: [OnceLock<DerivedRule>; MOST_ORDER + 1],
    pub(super) pairs: [OnceLock<Option<DerivedRule>>; WIDTH.ilog2() as usize + 1],
}

/// A rule for several directions at once, if there is one.
pub(super) fn wide<R>(
    cells: &[OnceLock<Option<R>>],
    directions: usize,
    make: impl FnOnce(u32) -> Result<R, Error>,
) -> Result<Option<&R>, Error> {
    if directions < 2 {
        return Ok(None);
    }
    let width = width_for(directions);
    let make = || match make(width as u32) {
        Err(e) if e.has_no_batch() => Ok(None),
        made => made.map(Some),
    };
    Ok(made(&cells[width.ilog2() as usize], make)?.as_ref())
}

/// Results of a batch, if nothing was too wide for it.
pub(super) fn unless_too_wide<T>(found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Err(e) if e.is_too_wide() => Ok(None),
        found => found.map(Some),
    }
}

/// What is made when it is first asked for. Threads that ask at once may make it twice.
pub(super) fn made<R>(cell: &OnceLock<R>, make: impl FnOnce() -> Result<R, Error>) -> Result<&R, Error> {
    if cell.get().is_none() {
        let _ = cell.set(make()?);
    }
    Ok(cell.get().expect("it has just been made"))
}

/// Bytes that are aligned for vectors.
#[derive(Clone)]
pub(super) struct AlignedBytes {
    words: Vec<u128>,
    len: usize,
}

impl AlignedBytes {
    fn zeros(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(16).max(1)], len }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the words are initialised, and as long.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.len) }
    }

    pub(super) fn address(&self) -> u64 {
        self.words.as_ptr() as u64
    }
}

/// Memory, by argument.
type PerArgument = Vec<Option<AlignedBytes>>;

/// Whether one run leaves nothing that another one would see.
pub(super) fn no_writable_data(program: &Program) -> Result<(), Error> {
    let Some(object) = program.data.values().find(|d| d.writable) else { return Ok(()) };
    Err(Error::Usage(format!(
        "the program may write to `%{}`, so that one run would see what another one has left: make a rule for each \
         run (`DerivedRule`, `HessianRule`), or pass a buffer",
        object.symbol
    )))
}

/// Write floats as one derivative of a block of a width, in which those of a float lie in a row.
fn put(single: bool, block: &mut [u8], floats: &[f64], Lane { k, width }: Lane) {
    match single {
        true => {
            let places = block.chunks_exact_mut(4).skip(k).step_by(width);
            places.zip(floats).for_each(|(place, x)| place.copy_from_slice(&(*x as f32).to_ne_bytes()));
        }
        false => {
            let places = block.chunks_exact_mut(8).skip(k).step_by(width);
            places.zip(floats).for_each(|(place, x)| place.copy_from_slice(&x.to_ne_bytes()));
        }
    }
}

/// Read one derivative of a block of a width.
fn get(single: bool, block: &[u8], into: &mut Vec<f64>, Lane { k, width }: Lane) {
    let float = |b: &[u8]| f64::from(f32::from_ne_bytes(b.try_into().expect("four bytes")));
    let double = |b: &[u8]| f64::from_ne_bytes(b.try_into().expect("eight bytes"));
    match single {
        true => into.extend(block.chunks_exact(4).skip(k).step_by(width).map(float)),
        false => into.extend(block.chunks_exact(8).skip(k).step_by(width).map(double)),
    }
}

/// Along nothing.
const NO_DIRECTION: &[&[f64]] = &[];

/// Floats of a type in bytes.
fn decode(single: bool, bytes: &[u8]) -> Vec<f64> {
    match single {
        true => bytes.chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().expect("four bytes")).into()).collect(),
        false => bytes.chunks_exact(8).map(|b| f64::from_ne_bytes(b.try_into().expect("eight bytes"))).collect(),
    }
}

fn encode(single: bool, floats: &[f64]) -> Vec<u8> {
    match single {
        true => floats.iter().flat_map(|&x| (x as f32).to_ne_bytes()).collect(),
        false => floats.iter().flat_map(|x| x.to_ne_bytes()).collect(),
    }
}

/// A value from its lanes.
fn value(ty: Type, lanes: &[f64]) -> DataValue {
    DataValue::read_from_slice_ne(&encode(ty.lane_type() == types::F32, lanes), ty)
}

fn lanes(ty: Type, value: &DataValue) -> Vec<f64> {
    let mut bytes = [0; 16];
    let n = ty.bytes() as usize;
    value.write_to_slice_ne(&mut bytes[..n]);
    decode(ty.lane_type() == types::F32, &bytes[..n])
}

fn is_float(ty: Type) -> bool {
    matches!(ty.lane_type(), types::F32 | types::F64)
}

impl Argument {
    /// Floats that are inputs.
    fn count(&self, ty: Type) -> usize {
        match self {
            Self::Const(_) | Self::Bytes(_) => 0,
            Self::Active(_) => ty.lane_count() as usize,
            Self::Floats(all) => all.len(),
            Self::Singles(all) => all.len(),
        }
    }

    pub(super) fn block(&self) -> Option<AlignedBytes> {
        let mut block = AlignedBytes::zeros(self.bytes());
        match self {
            Self::Const(_) | Self::Active(_) => return None,
            Self::Floats(all) => put(false, block.bytes_mut(), all, Lane::ONLY),
            Self::Singles(all) => {
                let places = block.bytes_mut().chunks_exact_mut(4);
                places.zip(all).for_each(|(place, x)| place.copy_from_slice(&x.to_ne_bytes()));
            }
            Self::Bytes(all) => block.bytes_mut().copy_from_slice(all),
        }
        Some(block)
    }

    /// Bytes of what it leads to.
    fn bytes(&self) -> usize {
        match self {
            Self::Const(_) | Self::Active(_) => 0,
            Self::Floats(all) => 8 * all.len(),
            Self::Singles(all) => 4 * all.len(),
            Self::Bytes(all) => all.len(),
        }
    }

    fn has_shadow(&self) -> bool {
        matches!(self, Self::Floats(_) | Self::Singles(_))
    }

    fn is_single(&self) -> bool {
        matches!(self, Self::Singles(_))
    }

    fn spec(&self) -> ArgSpec {
        match self {
            Self::Const(_) | Self::Bytes(_) => ArgSpec::CONST,
            Self::Active(_) => ArgSpec::ACTIVE,
            Self::Floats(_) => ArgSpec::duplicated(Elem::F64),
            Self::Singles(_) => ArgSpec::duplicated(Elem::F32),
        }
    }
}

impl Point {
    /// A function with its arguments. The options' mode is not asked.
    ///
    /// ```
    /// # use brolga::{Error, Options, drivers::{Argument, Derivatives, Point}, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %f(i64, f64) -> f64 { block0(v0: i64, v1: f64): v2 = load.f64 v0 v3 = fmul v2, v1 return v3 }";
    /// # let mut program = brolga::Program::new();
    /// # let f = program.define("f", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// let only_one = vec![Argument::Floats(vec![3.0])];
    /// // SAFETY: it is refused.
    /// let Err(Error::Usage(message)) = (unsafe { Point::new(&program, f, only_one, &Options::default()) }) else { panic!() };
    /// assert_eq!(message, "1 arguments are given, 2 are wanted");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for arguments that do not fit the function, or if the program has data
    /// objects that may be written.
    ///
    /// # Safety
    /// Whatever the function accesses through these arguments lies within them. They may be
    /// overwritten: each run has a copy of its own.
    pub unsafe fn new(
        program: &Program,
        func: FuncKey,
        inputs: Vec<Argument>,
        options: &Options,
    ) -> Result<Self, Error> {
        no_writable_data(program)?;
        let signature = &program.funcs[func].signature;
        let types = |all: &[cranelift_codegen::ir::AbiParam]| all.iter().map(|p| p.value_type).collect::<Vec<_>>();
        let (params, returns) = (types(&signature.params), types(&signature.returns));
        if params.len() != inputs.len() {
            let message = format!("{} arguments are given, {} are wanted", inputs.len(), params.len());
            return Err(Error::Usage(message));
        }
        for (i, (input, &ty)) in inputs.iter().zip(&params).enumerate() {
            let (fits, what) = match input {
                Argument::Const(v) | Argument::Active(v) if v.ty().bytes() != ty.bytes() => {
                    (false, "a value of another type")
                }
                Argument::Const(_) => (true, ""),
                Argument::Active(_) => (is_float(ty), "active, which only floats are"),
                _ => (ty == types::I64, "a buffer"),
            };
            if !fits {
                return Err(Error::Usage(format!("argument {i} is an {ty}, and {what} is given for it")));
            }
        }
        let request = Request::new(func, inputs.iter().map(Argument::spec));
        let options = Options { width: 1, ..options.clone() };
        let (program, rules) = (program.clone(), LazyRules::default());
        Ok(Self { program, request, inputs, outputs: Vec::new(), options, params, returns, rules })
    }

    /// The same, with the contents of these arguments' buffers as outputs, as the function leaves
    /// them.
    ///
    /// ```
    /// # use brolga::{Error, Options, drivers::{Argument, Derivatives, Point}, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %f(i64) { block0(v0: i64): v1 = load.f64 v0 v2 = fmul v1, v1 store v2, v0 return }";
    /// # let mut program = brolga::Program::new();
    /// # let f = program.define("f", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// // void f(double *x) { x[0] = x[0] * x[0]; }
    /// let x = vec![Argument::Floats(vec![3.0])];
    /// // SAFETY: the function reads and writes one number.
    /// let mut at = unsafe { Point::new(&program, f, x, &Options::default()) }?.with_outputs(&[0])?;
    /// assert_eq!(at.jvp(&[1.0])?, (vec![9.0], vec![6.0]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for an argument that is no buffer of floats, or is named twice.
    pub fn with_outputs(mut self, arguments: &[usize]) -> Result<Self, Error> {
        if let Some(i) = arguments.iter().find(|i| !self.inputs.get(**i).is_some_and(Argument::has_shadow)) {
            let message = format!("argument {i} is no buffer of floats, so it cannot be an output");
            return Err(Error::Usage(message));
        }
        if let Some(i) = arguments.iter().enumerate().find_map(|(k, i)| arguments[..k].contains(i).then_some(i)) {
            return Err(Error::Usage(format!("argument {i} is named twice as an output")));
        }
        self.outputs = arguments.to_vec();
        Ok(self)
    }

    fn rule<'a>(&'a self, cell: &'a OnceLock<DerivedRule>, mode: Mode) -> Result<&'a DerivedRule, Error> {
        made(cell, || DerivedRule::new(&self.program, &self.request, &Options { mode, ..self.options.clone() }))
    }

    fn primals(&self) -> PerArgument {
        self.inputs.iter().map(Argument::block).collect()
    }

    fn args(&self, primals: &PerArgument, shadows: &PerArgument) -> Vec<Arg> {
        let arg = |(i, input): (usize, &Argument)| match (input, &primals[i], &shadows[i]) {
            (Argument::Const(v) | Argument::Active(v), ..) => Arg::new(v.clone()),
            (_, Some(p), Some(s)) => Arg::duplicated_len(p.address(), s.address(), p.len as u64),
            (_, p, _) => Arg::new(DataValue::I64(p.as_ref().map_or(0, AlignedBytes::address) as i64)),
        };
        self.inputs.iter().enumerate().map(arg).collect()
    }

    /// Flat inputs as values and blocks.
    fn spread(&self, flat: &[f64]) -> Result<(Vec<Option<DataValue>>, PerArgument), Error> {
        self.spread_all(&[flat], 1)
    }

    /// Flat inputs of several directions as values, one direction after the other, and blocks of a
    /// width.
    fn spread_all(
        &self,
        along: &[impl AsRef<[f64]>],
        width: usize,
    ) -> Result<(Vec<Option<DataValue>>, PerArgument), Error> {
        let n = self.inputs.len();
        let mut values = vec![None; n * width];
        let zeros = |input: &Argument| input.has_shadow().then(|| AlignedBytes::zeros(input.bytes() * width));
        let mut blocks: PerArgument = self.inputs.iter().map(zeros).collect();
        for (k, along) in along.iter().enumerate() {
            let mut rest = along.as_ref();
            fits(rest.len(), self.inputs(), "directions", "one per input")?;
            for (i, (input, &ty)) in self.inputs.iter().zip(&self.params).enumerate() {
                let coordinates;
                (coordinates, rest) = rest.split_at(input.count(ty));
                match &mut blocks[i] {
                    Some(block) => put(input.is_single(), block.bytes_mut(), coordinates, Lane { k, width }),
                    None if matches!(input, Argument::Active(_)) => values[k * n + i] = Some(value(ty, coordinates)),
                    None => {}
                }
            }
        }
        Ok((values, blocks))
    }

    /// Flat inputs from values and from one derivative of blocks of a width.
    fn gather(&self, values: &[Option<DataValue>], blocks: &PerArgument, lane: Lane) -> Vec<f64> {
        let mut flat = Vec::with_capacity(self.inputs());
        for (i, input) in self.inputs.iter().enumerate() {
            match (&values[i], &blocks[i]) {
                (Some(v), _) => flat.extend(lanes(self.params[i], v)),
                (None, Some(b)) if input.has_shadow() => get(input.is_single(), b.bytes(), &mut flat, lane),
                _ => {}
            }
        }
        flat
    }

    /// Flat outputs as seeds, and as one derivative of shadows of a width, which hold zeros.
    fn spread_outputs(&self, flat: &[f64], shadows: &mut PerArgument, lane: Lane) -> Result<Vec<DataValue>, Error> {
        fits(flat.len(), self.outputs(), "seeds", "one per output")?;
        let (mut seeds, mut rest) = (Vec::new(), flat);
        for &ty in &self.returns {
            let coordinates;
            (coordinates, rest) = rest.split_at(if is_float(ty) { ty.lane_count() as usize } else { 0 });
            seeds.push(if coordinates.is_empty() {
                DataValue::read_from_slice_ne(&[0; 16], ty)
            } else {
                value(ty, coordinates)
            });
        }
        for &i in &self.outputs {
            let coordinates;
            (coordinates, rest) = rest.split_at(self.inputs[i].count(self.params[i]));
            let shadow = shadows[i].as_mut().expect("an output is a buffer");
            put(self.inputs[i].is_single(), shadow.bytes_mut(), coordinates, lane);
        }
        Ok(seeds)
    }

    /// Flat outputs from results, or their tangents, and one derivative of blocks of a width.
    fn gather_outputs<'a>(
        &self,
        results: impl Iterator<Item = Option<&'a DataValue>>,
        blocks: &PerArgument,
        lane: Lane,
    ) -> Vec<f64> {
        let mut flat = Vec::with_capacity(self.outputs());
        for (result, &ty) in results.zip(&self.returns).filter(|(_, ty)| is_float(**ty)) {
            flat.extend(result.map_or_else(|| vec![0.0; ty.lane_count() as usize], |v| lanes(ty, v)));
        }
        for &i in &self.outputs {
            let block = blocks[i].as_ref().expect("an output is a buffer");
            get(self.inputs[i].is_single(), block.bytes(), &mut flat, lane);
        }
        flat
    }
}

/// Several directions at once.
impl Point {
    /// Tangents along all of these directions in one run, if that can be.
    fn batch(&self, along: &[Vec<f64>]) -> Result<Option<Vec<Vec<f64>>>, Error> {
        let make = |width| {
            let options = Options { mode: Mode::Tangent, width, ..self.options.clone() };
            DerivedRule::new(&self.program, &self.request, &options)
        };
        let Some(rule) = wide(&self.rules.tangents, along.len(), make)? else { return Ok(None) };
        let width = rule.width();
        let (directions, shadows) = self.spread_all(along, width)?;
        let primals = self.primals();
        let (mut values, mut tangents) = (Vec::new(), Vec::new());
        // SAFETY: promised to `new`; shadows are as many times as large as primals.
        let run = unsafe { rule.tangent(&self.args(&primals, &shadows), &directions, &mut values, &mut tangents) };
        let Some(_) = unless_too_wide(run)? else { return Ok(None) };
        let one = |k: usize| {
            let of_returns = tangents.iter().skip(k * self.returns.len()).map(Option::as_ref);
            let tangents = self.gather_outputs(of_returns, &shadows, Lane { k, width });
            rule.known_tangents(&tangents).map(|()| tangents)
        };
        (0..along.len()).map(one).collect::<Result<_, _>>().map(Some)
    }

    /// Hessian-vector products along all of these directions in one run, if that can be.
    fn second_batch(&self, seeds: &[f64], along: &[Vec<f64>]) -> Result<Option<Vec<Vec<f64>>>, Error> {
        let make = |width| HessianRule::new(&self.program, &self.request, &with_values(&self.options, width));
        let Some(rule) = wide(&self.rules.seconds, along.len(), make)? else { return Ok(None) };
        let width = rule.rule().width();
        let mut shadows = self.spread_all(NO_DIRECTION, 1)?.1;
        let seeds = self.spread_outputs(seeds, &mut shadows, Lane::ONLY)?;
        let (directions, tangents) = self.spread_all(along, width)?;
        let (primals, products) = (self.primals(), self.spread_all(NO_DIRECTION, width)?.1);
        let of = |(at, direction): (usize, &Option<DataValue>)| {
            let i = at % self.inputs.len();
            match (direction, &tangents[i], &products[i]) {
                (Some(v), ..) => ArgDirection::Value(v.clone()),
                (_, Some(t), Some(p)) => ArgDirection::Memory { tangent: t.address(), product: p.address() },
                _ => ArgDirection::Still,
            }
        };
        let given: Vec<ArgDirection> = directions.iter().enumerate().map(of).collect();
        let mut out = HessianProducts::default();
        // SAFETY: as in `batch`.
        let run = unsafe { rule.product(&self.args(&primals, &shadows), &given, &seeds, &mut out) };
        let Some(_) = unless_too_wide(run)? else { return Ok(None) };
        let n = self.inputs.len();
        let one = |k: usize| self.gather(&out.products[k * n..][..n], &products, Lane { k, width });
        Ok(Some((0..along.len()).map(one).collect()))
    }
}

impl Derivatives for Point {
    type Error = Error;

    fn inputs(&self) -> usize {
        self.inputs.iter().zip(&self.params).map(|(i, ty)| i.count(*ty)).sum()
    }

    fn outputs(&self) -> usize {
        let lanes = |ty: &Type| if is_float(*ty) { ty.lane_count() as usize } else { 0 };
        let results: usize = self.returns.iter().map(lanes).sum();
        results + self.outputs.iter().map(|&i| self.inputs[i].count(self.params[i])).sum::<usize>()
    }

    fn jvp(&mut self, along: &[f64]) -> Result<(Vec<f64>, Vec<f64>), Error> {
        let (directions, shadows) = self.spread(along)?;
        let rule = self.rule(&self.rules.tangent, Mode::Tangent)?;
        let primals = self.primals();
        let (mut values, mut tangents) = (Vec::new(), Vec::new());
        // SAFETY: promised to `new`; shadows are as large as primals.
        drop(unsafe { rule.tangent(&self.args(&primals, &shadows), &directions, &mut values, &mut tangents) }?);
        let value = self.gather_outputs(values.iter().map(Some), &primals, Lane::ONLY);
        let tangents = self.gather_outputs(tangents.iter().map(Option::as_ref), &shadows, Lane::ONLY);
        rule.known_tangents(&tangents)?;
        Ok((value, tangents))
    }

    fn jvps(&mut self, along: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Error> {
        some_at_a_time(self, along, |this, some| this.batch(some), |this, along| Ok(this.jvp(along)?.1))
    }

    fn taylor(&mut self, along: &[f64], order: usize) -> Result<Vec<Vec<f64>>, Error> {
        let options = taylor_options(&self.options, order)?;
        let rule = made(&self.rules.series[order], || DerivedRule::new(&self.program, &self.request, &options))?;
        // The first coefficient of the path is the direction, others are zero.
        let (directions, shadows) = self.spread_all(&[along], order)?;
        let primals = self.primals();
        let (mut values, mut found) = (Vec::new(), Vec::new());
        // SAFETY: as in `batch`.
        drop(unsafe { rule.tangent(&self.args(&primals, &shadows), &directions, &mut values, &mut found) }?);
        let coefficients = |k: usize| {
            let of_returns = found.iter().skip(k * self.returns.len()).map(Option::as_ref);
            let all = self.gather_outputs(of_returns, &shadows, Lane { k, width: order });
            rule.known_tangents(&all).map(|()| all)
        };
        let value = self.gather_outputs(values.iter().map(Some), &primals, Lane::ONLY);
        std::iter::once(Ok(value)).chain((0..order).map(coefficients)).collect()
    }

    fn hvps(&mut self, seeds: &[f64], along: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Error> {
        let batch = |this: &mut Self, some: &[Vec<f64>]| this.second_batch(seeds, some);
        some_at_a_time(self, along, batch, |this, along| Ok(this.hvp(seeds, along)?.product))
    }

    fn vjp(&mut self, seeds: &[f64]) -> Result<(Vec<f64>, Vec<f64>), Error> {
        let mut shadows = self.spread_all(NO_DIRECTION, 1)?.1;
        let seeds = self.spread_outputs(seeds, &mut shadows, Lane::ONLY)?;
        let rule = self.rule(&self.rules.gradient, Mode::Combined)?;
        let primals = self.primals();
        let (mut values, mut cotangents) = (Vec::new(), Vec::new());
        // SAFETY: as in `jvp`.
        drop(unsafe { rule.gradient(&self.args(&primals, &shadows), &seeds, &mut values, &mut cotangents) }?);
        Ok((
            self.gather_outputs(values.iter().map(Some), &primals, Lane::ONLY),
            self.gather(&cotangents, &shadows, Lane::ONLY),
        ))
    }

    fn pulled<R>(&mut self, run: impl FnOnce(&mut RowProducts<'_, Error>) -> Result<R, Error>) -> Result<R, Error> {
        let make = |width| {
            let options = Options { mode: Mode::Split, width, ..self.options.clone() };
            DerivedRule::new(&self.program, &self.request, &options)
        };
        let first = match wide(&self.rules.pairs, self.outputs(), make)? {
            Some(rule) => unless_too_wide(PointRows::new(self, rule))?,
            None => None,
        };
        let one = || PointRows::new(self, self.rule(&self.rules.pair, Mode::Split)?);
        pull_rows(first, one, run)
    }

    fn hvp(&mut self, seeds: &[f64], along: &[f64]) -> Result<Products, Error> {
        let mut shadows = self.spread_all(NO_DIRECTION, 1)?.1;
        let seeds = self.spread_outputs(seeds, &mut shadows, Lane::ONLY)?;
        let (directions, tangents) = self.spread(along)?;
        let make = || HessianRule::new(&self.program, &self.request, &with_values(&self.options, 1));
        let rule = made(&self.rules.second, make)?;
        let (primals, products) = (self.primals(), self.spread_all(NO_DIRECTION, 1)?.1);
        let of = |i: usize| match (&directions[i], &tangents[i], &products[i]) {
            (Some(v), ..) => ArgDirection::Value(v.clone()),
            (_, Some(t), Some(p)) => ArgDirection::Memory { tangent: t.address(), product: p.address() },
            _ => ArgDirection::Still,
        };
        let along: Vec<ArgDirection> = (0..self.inputs.len()).map(of).collect();
        let mut out = HessianProducts::default();
        // SAFETY: as in `jvp`.
        drop(unsafe { rule.product(&self.args(&primals, &shadows), &along, &seeds, &mut out) }?);
        Ok(Products {
            value: self.gather_outputs(out.values.iter().map(Some), &primals, Lane::ONLY),
            gradient: self.gather(&out.cotangents, &shadows, Lane::ONLY),
            product: self.gather(&out.products, &products, Lane::ONLY),
        })
    }
}

/// A forward pass whose pullback is called for some rows after others.
pub(super) trait RowPullback {
    /// How many rows one call has.
    fn width(&self) -> usize;

    /// Products with these seeds, as many as the width at most.
    fn rows(&mut self, seeds: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Error>;
}

/// Products with seeds, as many at a time as `back` has: `first`, if there is one, and `one` where
/// that takes more memory than a tape may have.
pub(super) fn pull_rows<B: RowPullback, R>(
    first: Option<B>,
    one: impl Fn() -> Result<B, Error>,
    run: impl FnOnce(&mut RowProducts<'_, Error>) -> Result<R, Error>,
) -> Result<R, Error> {
    let mut back = first.map_or_else(&one, Ok)?;
    run(&mut |rows| {
        let mut found = Vec::with_capacity(rows.len());
        while found.len() < rows.len() {
            let some = &rows[found.len()..rows.len().min(found.len() + back.width())];
            match unless_too_wide(back.rows(some))? {
                Some(some) => found.extend(some),
                None => back = one()?,
            }
        }
        Ok(found)
    })
}

/// The pullback of a function at a point.
struct PointRows<'a> {
    point: &'a Point,
    _primals: PerArgument,
    shadows: PerArgument,
    pullback: Pullback,
    width: usize,
}

impl<'a> PointRows<'a> {
    fn new(point: &'a Point, rule: &DerivedRule) -> Result<Self, Error> {
        let (primals, width) = (point.primals(), rule.width());
        let shadows = point.spread_all(NO_DIRECTION, width)?.1;
        // SAFETY: as in `jvp`; the blocks live as long as the pullback.
        let (_, pullback) = unsafe { rule.forward(&point.args(&primals, &shadows)) }?;
        Ok(Self { point, _primals: primals, shadows, pullback, width })
    }
}

impl RowPullback for PointRows<'_> {
    fn width(&self) -> usize {
        self.width
    }

    fn rows(&mut self, rows: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Error> {
        let (point, width) = (self.point, self.width);
        let zeros = vec![0.0; point.outputs()];
        let mut all = Vec::with_capacity(width * point.returns.len());
        self.shadows.iter_mut().flatten().for_each(|shadow| shadow.bytes_mut().fill(0));
        for k in 0..width {
            let row = rows.get(k).unwrap_or(&zeros);
            all.extend(point.spread_outputs(row, &mut self.shadows, Lane { k, width })?);
        }
        // SAFETY: primal and shadow are those of the forward pass, and live as long as this.
        let cotangents = unsafe { self.pullback.call(&all) }?;
        let n = point.inputs.len();
        let one = |k: usize| point.gather(&cotangents[k * n..][..n], &self.shadows, Lane { k, width });
        Ok((0..rows.len()).map(one).collect())
    }
}
