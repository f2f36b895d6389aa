//! A function of flat vectors: derivatives at any point, from any thread, compiled once.
//!
//! **Problem.** Solvers and samplers ask for values and derivatives at one point after the other,
//! from several threads, into vectors of theirs. A [`Point`](super::Point) has its arguments by
//! their contents, and copies them for each run.
//!
//! **Answer.** A [`FlatFunction`] is told what each parameter is, and not where. A call gives one
//! slice for each parameter that varies ([`FlatFunction::at`]), and derived code works on these
//! slices. Rules are made when they are asked for first, and shared by all threads.
//!
//! **Cost.** A derivation when a rule is asked for first. A call is one run, which reads inputs
//! where they are, fills outputs and derivatives with zeros, and copies seeds and directions.

use std::sync::OnceLock;

use brolga_ir::{ArgSpec, Elem, FuncKey, MemoryMode, Mode, Options, Program, Request};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{Type, types};

use super::dense::some_at_a_time;
use super::derivatives::{Derivatives, Products, RowProducts, fits, taylor_options, with_values};
use super::point::{
    AlignedBytes, Argument, LazyRules, RowPullback, made, no_writable_data, pull_rows, unless_too_wide, wide,
};
use crate::second::{ArgDirection, HessianProducts, HessianRule};
use crate::{Arg, DerivedRule, Error, Primal, Pullback};

/// What a parameter of a [`FlatFunction`] is.
///
/// ```
/// # use {brolga::{Error, Options, drivers::{Argument, Derivatives, FlatFunction, FlatParam}}, cranelift_reader::parse_functions};
/// # let text = "function %f(f64, f64, i64) { block0(v0: f64, v1: f64, v2: i64): v3 = fmul v0, v1 store v3, v2 return }";
/// # let mut program = brolga::Program::new(); let f = program.define("f", parse_functions(text)?.remove(0), |_| 0)?;
/// # let five = brolga::cranelift_codegen::data_value::DataValue::F64(5.0.into());
/// // void f(double x, double a, double *y) { *y = x * a; }, where a is five
/// let params = vec![FlatParam::Input(1), FlatParam::Fixed(Argument::Const(five)), FlatParam::Output(1)];
/// // SAFETY: it writes one float to its output.
/// let f = unsafe { FlatFunction::new(&program, f, params, &Options::default()) }?;
/// assert_eq!(f.at(&[&[3.0]])?.value_and_gradient()?, (15.0, vec![5.0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum FlatParam {
    /// Inputs: this many 64-bit floats behind a pointer, or one by value. The function does not
    /// write there.
    Input(usize),
    /// Floats that each call gives, as [`Self::Input`], by which nothing is differentiated.
    Given(usize),
    /// Outputs: this many 64-bit floats behind a pointer. They are zeros when the function begins.
    Output(usize),
    /// What is the same in each call and is not differentiated: a value, or the contents of a
    /// buffer. The function does not write there.
    Fixed(Argument),
}

/// A function of flat vectors of 64-bit floats.
///
/// Its inputs are those of its [`FlatParam::Input`]s, one after the other. Its outputs are the
/// floats that it returns, then those of its [`FlatParam::Output`]s.
///
/// ```
/// # use brolga::{Options, Program, cranelift_codegen::data_value::DataValue};
/// # use brolga::drivers::{Argument, Derivatives, FlatFunction, FlatParam, FlatPoint};
/// # fn program() -> (Program, brolga::FuncKey) {
/// #     let text = "function %product(i64, f64) -> f64 {
/// #         block0(v0: i64, v1: f64):
/// #             v2 = load.f64 v0
/// #             v3 = load.f64 v0+8
/// #             v4 = fmul v2, v2
/// #             v5 = fmul v4, v3
/// #             v6 = fmul v5, v1
/// #             return v6
/// #     }";
/// #     let mut program = Program::new();
/// #     let f = cranelift_reader::parse_functions(text).unwrap().remove(0);
/// #     let key = program.define("product", f, |_| 0).unwrap();
/// #     (program, key)
/// # }
/// let (program, product) = program(); // double product(double *x, double a): a x₀² x₁
/// let params = vec![FlatParam::Input(2), FlatParam::Given(1)];
/// // SAFETY: it reads two floats behind its pointer.
/// let f = unsafe { FlatFunction::new(&program, product, params, &Options::default()) }?;
///
/// let gradients = std::thread::scope(|scope| {
///     let f = &f;
///     let at = |x: [f64; 2]| move || f.at(&[&x, &[10.0]])?.value_and_gradient();
///     [[3.0, 5.0], [1.0, 2.0]].map(|x| scope.spawn(at(x))).map(|t| t.join().expect("no panic"))
/// });
/// let [there, here] = gradients;
/// assert_eq!((there?, here?), ((450.0, vec![300.0, 90.0]), (20.0, vec![40.0, 10.0])));
///
/// let mut gradient = [0.0; 2]; // a vector of the caller's
/// assert_eq!(f.at(&[&[3.0, 5.0], &[1.0]])?.gradient_into(&mut gradient)?, 45.0);
/// assert_eq!(gradient, [30.0, 9.0]);
/// assert_eq!(f.at(&[&[3.0, 5.0], &[1.0]])?.hessian(&[1.0])?, [[10.0, 6.0], [6.0, 0.0]]);
///
/// assert_eq!((f.inputs(), f.outputs()), (2, 1));
/// let given: [&[f64]; 2] = [&[3.0, 5.0], &[1.0]];
/// let at: FlatPoint = f.at(&given)?;
/// let (mut value, mut tangent) = ([0.0], [0.0]);
/// at.value_into(&mut value)?;
/// at.jvp_into(&[1.0, 0.5], &mut value, &mut tangent)?;
/// at.vjp_into(&[2.0], &mut value, &mut gradient)?;
/// assert_eq!((value, tangent, gradient), ([45.0], [34.5], [60.0, 18.0]));
/// # Ok::<(), brolga::Error>(())
/// ```
pub struct FlatFunction {
    program: Program,
    request: Request,
    parameters: Vec<FlatParam>,
    types: Vec<Type>,
    returns: Vec<Type>,
    options: Options,
    /// Contents of fixed buffers, by parameter.
    fixed: Vec<Option<AlignedBytes>>,
    inputs: usize,
    results: usize,
    outputs: usize,
    primal: OnceLock<Primal>,
    rules: LazyRules,
}

impl FlatParam {
    fn spec(&self, ty: Type) -> ArgSpec {
        match self {
            Self::Input(_) if ty == types::F64 => ArgSpec::ACTIVE,
            Self::Input(_) => ArgSpec::duplicated(Elem::F64).noalias().fresh(),
            Self::Output(_) => ArgSpec::duplicated(Elem::F64).noalias(),
            Self::Given(_) | Self::Fixed(_) => ArgSpec::CONST,
        }
    }

    /// What is wrong with it for a parameter of this type.
    fn misfit(&self, ty: Type) -> Option<String> {
        match self {
            Self::Fixed(Argument::Const(v) | Argument::Active(v)) if v.ty() == ty => None,
            Self::Fixed(Argument::Const(v) | Argument::Active(v)) => Some(format!("a value of type {}", v.ty())),
            _ if ty == types::I64 => None,
            Self::Input(1) | Self::Given(1) if ty == types::F64 => None,
            Self::Input(n) | Self::Given(n) if ty == types::F64 => Some(format!("{n} floats")),
            _ => Some("a buffer".to_owned()),
        }
    }
}

impl FlatFunction {
    /// A function, and what its parameters are. The options' mode and what they say of memory are
    /// not asked.
    ///
    /// ```
    /// # use {brolga::{Error, Options, drivers::{Argument, Derivatives, FlatFunction, FlatParam}}, cranelift_reader::parse_functions};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new(); let product = program.define("product", parse_functions(text)?.remove(0), |_| 0)?;
    /// let too_few = vec![FlatParam::Input(1)];
    /// // SAFETY: it is refused.
    /// let refused = unsafe { FlatFunction::new(&program, product, too_few, &Options::default()) };
    /// assert!(matches!(refused, Err(Error::Usage(message)) if message.starts_with("1 parameters are given, 2 are wanted")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for parameters that do not fit the function, for results that are floats
    /// of another type than `f64`, or if the program has data objects that may be written.
    ///
    /// # Safety
    /// Whatever the function accesses through its pointers lies within what `parameters` says, and
    /// it writes to outputs alone. It relies on no alignment but that of floats.
    pub unsafe fn new(
        program: &Program,
        func: FuncKey,
        parameters: Vec<FlatParam>,
        options: &Options,
    ) -> Result<Self, Error> {
        no_writable_data(program)?;
        let signature = &program.funcs[func].signature;
        let of = |all: &[cranelift_codegen::ir::AbiParam]| all.iter().map(|p| p.value_type).collect::<Vec<_>>();
        let (types, returns) = (of(&signature.params), of(&signature.returns));
        fits(parameters.len(), types.len(), "parameters", "one per parameter of the function")?;
        for (i, (parameter, &ty)) in parameters.iter().zip(&types).enumerate() {
            if let Some(what) = parameter.misfit(ty) {
                return Err(Error::Usage(format!("parameter {i} is an {ty}, and {what} is said of it")));
            }
        }
        if let Some(ty) = returns.iter().find(|t| t.lane_type().is_float() && **t != types::F64) {
            return Err(Error::Usage(format!("a result is an {ty}, and results are 64-bit floats, or no floats")));
        }
        let count = |of: fn(&FlatParam) -> usize| parameters.iter().map(of).sum::<usize>();
        let inputs = count(|p| if let FlatParam::Input(n) = p { *n } else { 0 });
        let written = count(|p| if let FlatParam::Output(n) = p { *n } else { 0 });
        let results = returns.iter().filter(|t| **t == types::F64).count();
        let fixed = parameters.iter().map(|p| if let FlatParam::Fixed(a) = p { a.block() } else { None }).collect();
        let request = Request::new(func, parameters.iter().zip(&types).map(|(p, ty)| p.spec(*ty)));
        let options = Options { memory: MemoryMode::Leave, width: 1, ..options.clone() };
        Ok(Self {
            program: program.clone(),
            request,
            parameters,
            types,
            returns,
            options,
            fixed,
            inputs,
            results,
            outputs: results + written,
            primal: OnceLock::new(),
            rules: LazyRules::default(),
        })
    }

    /// How many inputs there are.
    ///
    /// ```
    /// # use {brolga::{Error, Options, drivers::{Argument, Derivatives, FlatFunction, FlatParam}}, cranelift_reader::parse_functions};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new(); let product = program.define("product", parse_functions(text)?.remove(0), |_| 0)?;
    /// # // SAFETY: the function accesses no memory.
    /// # let f = unsafe { FlatFunction::new(&program, product, vec![FlatParam::Input(1); 2], &Options::default()) }?;
    /// assert_eq!(f.inputs(), 2); // of x y
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// How many outputs there are.
    ///
    /// ```
    /// # use {brolga::{Error, Options, drivers::{Argument, Derivatives, FlatFunction, FlatParam}}, cranelift_reader::parse_functions};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new(); let product = program.define("product", parse_functions(text)?.remove(0), |_| 0)?;
    /// # // SAFETY: the function accesses no memory.
    /// # let f = unsafe { FlatFunction::new(&program, product, vec![FlatParam::Input(1); 2], &Options::default()) }?;
    /// assert_eq!(f.outputs(), 1); // of x y
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The function at a point: one slice for each [`FlatParam::Input`] and [`FlatParam::Given`],
    /// in their order.
    ///
    /// ```
    /// # use {brolga::{Error, Options, drivers::{Argument, Derivatives, FlatFunction, FlatParam}}, cranelift_reader::parse_functions};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new(); let product = program.define("product", parse_functions(text)?.remove(0), |_| 0)?;
    /// # // SAFETY: the function accesses no memory.
    /// # let f = unsafe { FlatFunction::new(&program, product, vec![FlatParam::Input(1); 2], &Options::default()) }?;
    /// assert_eq!(f.at(&[&[3.0], &[5.0]])?.value()?, 15.0);
    /// assert!(f.at(&[&[3.0, 5.0]]).is_err()); // one slice per parameter
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for slices that do not fit.
    pub fn at<'a>(&'a self, given: &'a [&'a [f64]]) -> Result<FlatPoint<'a>, Error> {
        let wanted = self.parameters.iter().filter_map(|p| match p {
            FlatParam::Input(n) | FlatParam::Given(n) => Some(*n),
            _ => None,
        });
        fits(given.len(), wanted.clone().count(), "slices", "one per parameter that is an input or is given")?;
        for (slice, n) in given.iter().zip(wanted) {
            fits(slice.len(), n, "floats", "as was said of the parameter")?;
        }
        Ok(FlatPoint { function: self, given })
    }

    /// Flat inputs as slices for [`Self::at`], of a function that is given nothing else.
    ///
    /// ```
    /// # use {brolga::{Error, Options, drivers::{Argument, Derivatives, FlatFunction, FlatParam}}, cranelift_reader::parse_functions};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new(); let product = program.define("product", parse_functions(text)?.remove(0), |_| 0)?;
    /// # // SAFETY: the function accesses no memory.
    /// # let f = unsafe { FlatFunction::new(&program, product, vec![FlatParam::Input(1); 2], &Options::default()) }?;
    /// assert_eq!(f.at(&f.split(&[3.0, 5.0])?)?.value()?, 15.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for more or fewer inputs, or if there is a [`FlatParam::Given`].
    pub fn split<'x>(&self, inputs: &'x [f64]) -> Result<Vec<&'x [f64]>, Error> {
        fits(inputs.len(), self.inputs, "floats", "one per input")?;
        let mut rest = inputs;
        let mut slices = Vec::with_capacity(1);
        for (i, parameter) in self.parameters.iter().enumerate() {
            match parameter {
                FlatParam::Input(n) => {
                    let slice;
                    (slice, rest) = rest.split_at(*n);
                    slices.push(slice);
                }
                FlatParam::Given(_) => {
                    let message = format!("parameter {i} is given with each call, beside the inputs: make it fixed");
                    return Err(Error::Usage(message));
                }
                FlatParam::Output(_) | FlatParam::Fixed(_) => {}
            }
        }
        Ok(slices)
    }

    fn rule<'a>(&'a self, cell: &'a OnceLock<DerivedRule>, mode: Mode) -> Result<&'a DerivedRule, Error> {
        made(cell, || DerivedRule::new(&self.program, &self.request, &Options { mode, ..self.options.clone() }))
    }

    /// Seeds of results.
    fn seeds(&self, mut seeds: &[f64]) -> Vec<DataValue> {
        let mut seed = |ty: &Type| match (*ty, seeds) {
            (types::F64, [first, rest @ ..]) => {
                seeds = rest;
                DataValue::F64((*first).into())
            }
            (ty, _) => DataValue::read_from_slice_ne(&[0; 16], ty),
        };
        self.returns.iter().map(&mut seed).collect()
    }

    /// Floats among results, or their tangents.
    fn put_results<'r>(&self, results: impl Iterator<Item = Option<&'r DataValue>>, outputs: &mut [f64]) {
        let floats = results.zip(&self.returns).filter(|(_, ty)| **ty == types::F64);
        outputs.iter_mut().zip(floats).for_each(|(place, (result, _))| *place = result.map_or(0.0, float));
    }

    /// What belongs to inputs by value, beside what derived code has put where inputs are memory.
    fn put_inputs(&self, values: &[Option<DataValue>], inputs: &mut [f64]) {
        let mut at = 0;
        for (parameter, value) in self.parameters.iter().zip(values) {
            if let Some(value) = value {
                inputs[at] = float(value);
            }
            at += if let FlatParam::Input(n) = parameter { *n } else { 0 };
        }
    }

    /// Directions of inputs by value.
    fn directions(&self, along: &[f64]) -> Vec<Option<DataValue>> {
        let mut at = 0;
        let mut direction = |(parameter, ty): (&FlatParam, &Type)| {
            let FlatParam::Input(n) = parameter else { return None };
            at += n;
            (*ty == types::F64).then(|| DataValue::F64(along[at - n].into()))
        };
        self.parameters.iter().zip(&self.types).map(&mut direction).collect()
    }
}

fn float(value: &DataValue) -> f64 {
    if let DataValue::F64(x) = value { x.as_f64() } else { unreachable!("floats have 64 bits") }
}

/// A [`FlatFunction`] at a point. It has all that [`Derivatives`] has, and calls that write to
/// vectors of the caller's.
///
/// ```
/// # use {brolga::{Error, Options, drivers::{Argument, Derivatives, FlatFunction, FlatParam}}, cranelift_reader::parse_functions};
/// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
/// # let mut program = brolga::Program::new(); let product = program.define("product", parse_functions(text)?.remove(0), |_| 0)?;
/// # // SAFETY: the function accesses no memory.
/// # let f = unsafe { FlatFunction::new(&program, product, vec![FlatParam::Input(1); 2], &Options::default()) }?;
/// let mut at = f.at(&[&[3.0], &[5.0]])?; // of x y
/// assert_eq!((at.value()?, at.jacobian()?, at.hessian(&[1.0])?), (15.0, vec![vec![5.0, 3.0]], vec![vec![0.0, 1.0], vec![1.0, 0.0]]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct FlatPoint<'a> {
    function: &'a FlatFunction,
    given: &'a [&'a [f64]],
}

/// Where the outputs of a call lie, the shadows of its inputs and of its outputs, each in one
/// piece.
#[derive(Clone, Copy)]
struct Vectors {
    outputs: *mut f64,
    inward: *mut f64,
    outward: *mut f64,
    /// Of how many directions the shadows are.
    width: usize,
}

impl FlatPoint<'_> {
    fn args(&self, vectors: Vectors) -> Vec<Arg> {
        let f = self.function;
        let Vectors { outputs, mut inward, outward, width } = vectors;
        let (mut outputs, mut outward) = (outputs.wrapping_add(f.results), outward.wrapping_add(f.results * width));
        let piece = |of: &mut *mut f64, n: usize| {
            let begin = *of;
            *of = begin.wrapping_add(n);
            begin as u64
        };
        let mut given = self.given.iter();
        let mut next = || given.next().expect("they were counted");
        let arg = |(i, parameter): (usize, &FlatParam)| match parameter {
            FlatParam::Fixed(Argument::Const(v) | Argument::Active(v)) => Arg::new(v.clone()),
            FlatParam::Fixed(_) => {
                let block = f.fixed[i].as_ref().expect("a buffer has contents");
                Arg::new(DataValue::I64(block.address() as i64))
            }
            FlatParam::Output(n) => {
                let shadow = piece(&mut outward, *n * width);
                Arg::duplicated_len(piece(&mut outputs, *n), shadow, 8 * *n as u64)
            }
            FlatParam::Input(n) => {
                let (slice, shadow) = (next(), piece(&mut inward, *n * width));
                match f.types[i] {
                    types::F64 => Arg::new(DataValue::F64(slice[0].into())),
                    _ => Arg::duplicated_len(slice.as_ptr() as u64, shadow, 8 * *n as u64),
                }
            }
            FlatParam::Given(_) => match (next(), f.types[i]) {
                (slice, types::F64) => Arg::new(DataValue::F64(slice[0].into())),
                (slice, _) => Arg::new(DataValue::I64(slice.as_ptr() as i64)),
            },
        };
        f.parameters.iter().enumerate().map(arg).collect()
    }

    /// The outputs.
    ///
    /// ```
    /// # use {brolga::{Error, Options, drivers::{Argument, Derivatives, FlatFunction, FlatParam}}, cranelift_reader::parse_functions};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new(); let product = program.define("product", parse_functions(text)?.remove(0), |_| 0)?;
    /// # // SAFETY: the function accesses no memory.
    /// # let f = unsafe { FlatFunction::new(&program, product, vec![FlatParam::Input(1); 2], &Options::default()) }?;
    /// let mut outputs = [0.0];
    /// f.at(&[&[3.0], &[5.0]])?.value_into(&mut outputs)?;
    /// assert_eq!(outputs, [15.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if there are more or fewer; otherwise those of [`Derivatives::jvp`].
    pub fn value_into(&self, outputs: &mut [f64]) -> Result<(), Error> {
        let f = self.function;
        fits(outputs.len(), f.outputs, "floats", "one per output")?;
        let primal = made(&f.primal, || Primal::new(&f.program, &[f.request.func], &f.options))?;
        outputs.fill(0.0);
        let none = std::ptr::null_mut();
        let args = self.args(Vectors { outputs: outputs.as_mut_ptr(), inward: none, outward: none, width: 1 });
        let args: Vec<DataValue> = args.into_iter().map(|a| a.value).collect();
        // SAFETY: promised to `new`; lengths have been compared.
        let results = unsafe { primal.call(f.request.func, &args) }?;
        f.put_results(results.iter().map(Some), outputs);
        Ok(())
    }

    /// The value of a function of one output.
    ///
    /// ```
    /// # use {brolga::{Error, Options, drivers::{Argument, Derivatives, FlatFunction, FlatParam}}, cranelift_reader::parse_functions};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new(); let product = program.define("product", parse_functions(text)?.remove(0), |_| 0)?;
    /// # // SAFETY: the function accesses no memory.
    /// # let f = unsafe { FlatFunction::new(&program, product, vec![FlatParam::Input(1); 2], &Options::default()) }?;
    /// assert_eq!(f.at(&[&[3.0], &[5.0]])?.value()?, 15.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Self::value_into`].
    pub fn value(&self) -> Result<f64, Error> {
        let mut value = [0.0];
        self.value_into(&mut value)?;
        Ok(value[0])
    }

    /// The value of a function of one output, and its gradient into a vector.
    ///
    /// ```
    /// # use {brolga::{Error, Options, drivers::{Argument, Derivatives, FlatFunction, FlatParam}}, cranelift_reader::parse_functions};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new(); let product = program.define("product", parse_functions(text)?.remove(0), |_| 0)?;
    /// # // SAFETY: the function accesses no memory.
    /// # let f = unsafe { FlatFunction::new(&program, product, vec![FlatParam::Input(1); 2], &Options::default()) }?;
    /// let mut gradient = [0.0; 2];
    /// assert_eq!(f.at(&[&[3.0], &[5.0]])?.gradient_into(&mut gradient)?, 15.0);
    /// assert_eq!(gradient, [5.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Self::vjp_into`].
    pub fn gradient_into(&self, gradient: &mut [f64]) -> Result<f64, Error> {
        let mut value = [0.0];
        self.vjp_into(&[1.0], &mut value, gradient)?;
        Ok(value[0])
    }

    /// [`Derivatives::jvp`] into vectors: the outputs, and their tangents.
    ///
    /// ```
    /// # use {brolga::{Error, Options, drivers::{Argument, Derivatives, FlatFunction, FlatParam}}, cranelift_reader::parse_functions};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new(); let product = program.define("product", parse_functions(text)?.remove(0), |_| 0)?;
    /// # // SAFETY: the function accesses no memory.
    /// # let f = unsafe { FlatFunction::new(&program, product, vec![FlatParam::Input(1); 2], &Options::default()) }?;
    /// let (mut outputs, mut tangents) = ([0.0], [0.0]);
    /// f.at(&[&[3.0], &[5.0]])?.jvp_into(&[1.0, 0.5], &mut outputs, &mut tangents)?;
    /// assert_eq!(tangents, [5.0 + 0.5 * 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for vectors that do not fit; otherwise those of [`Derivatives::jvp`].
    pub fn jvp_into(&self, along: &[f64], outputs: &mut [f64], tangents: &mut [f64]) -> Result<(), Error> {
        let f = self.function;
        fits(along.len(), f.inputs, "directions", "one per input")?;
        fits(outputs.len(), f.outputs, "floats", "one per output")?;
        fits(tangents.len(), f.outputs, "tangents", "one per output")?;
        let rule = f.rule(&f.rules.tangent, Mode::Tangent)?;
        outputs.fill(0.0);
        tangents.fill(0.0);
        let inward = along.as_ptr().cast_mut();
        let outward = tangents.as_mut_ptr();
        let args = self.args(Vectors { outputs: outputs.as_mut_ptr(), inward, outward, width: 1 });
        let (mut results, mut found) = (Vec::new(), Vec::new());
        // SAFETY: as in `value_into`; what is not written has a tangent that is not written.
        drop(unsafe { rule.tangent(&args, &f.directions(along), &mut results, &mut found) }?);
        f.put_results(results.iter().map(Some), outputs);
        f.put_results(found.iter().map(Option::as_ref), tangents);
        rule.known_tangents(tangents)
    }

    /// [`Derivatives::vjp`] into vectors: the outputs, and the product of seeds with the Jacobian.
    ///
    /// ```
    /// # use {brolga::{Error, Options, drivers::{Argument, Derivatives, FlatFunction, FlatParam}}, cranelift_reader::parse_functions};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new(); let product = program.define("product", parse_functions(text)?.remove(0), |_| 0)?;
    /// # // SAFETY: the function accesses no memory.
    /// # let f = unsafe { FlatFunction::new(&program, product, vec![FlatParam::Input(1); 2], &Options::default()) }?;
    /// let (mut outputs, mut cotangents) = ([0.0], [0.0; 2]);
    /// f.at(&[&[3.0], &[5.0]])?.vjp_into(&[2.0], &mut outputs, &mut cotangents)?;
    /// assert_eq!(cotangents, [10.0, 6.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Self::jvp_into`].
    pub fn vjp_into(&self, seeds: &[f64], outputs: &mut [f64], cotangents: &mut [f64]) -> Result<(), Error> {
        let f = self.function;
        fits(seeds.len(), f.outputs, "seeds", "one per output")?;
        fits(outputs.len(), f.outputs, "floats", "one per output")?;
        fits(cotangents.len(), f.inputs, "cotangents", "one per input")?;
        let rule = f.rule(&f.rules.gradient, Mode::Combined)?;
        // Seeds of memory are consumed.
        let mut outward = seeds.to_vec();
        outputs.fill(0.0);
        cotangents.fill(0.0);
        let inward = cotangents.as_mut_ptr();
        let outward = outward.as_mut_ptr();
        let args = self.args(Vectors { outputs: outputs.as_mut_ptr(), inward, outward, width: 1 });
        let (mut results, mut by_value) = (Vec::new(), Vec::new());
        // SAFETY: as in `value_into`.
        drop(unsafe { rule.gradient(&args, &f.seeds(seeds), &mut results, &mut by_value) }?);
        f.put_results(results.iter().map(Some), outputs);
        f.put_inputs(&by_value, cotangents);
        Ok(())
    }
}

impl Derivatives for FlatPoint<'_> {
    type Error = Error;

    fn inputs(&self) -> usize {
        self.function.inputs
    }

    fn outputs(&self) -> usize {
        self.function.outputs
    }

    fn jvp(&mut self, along: &[f64]) -> Result<(Vec<f64>, Vec<f64>), Error> {
        let (mut outputs, mut tangents) = (vec![0.0; self.outputs()], vec![0.0; self.outputs()]);
        self.jvp_into(along, &mut outputs, &mut tangents)?;
        Ok((outputs, tangents))
    }

    fn vjp(&mut self, seeds: &[f64]) -> Result<(Vec<f64>, Vec<f64>), Error> {
        let (mut outputs, mut cotangents) = (vec![0.0; self.outputs()], vec![0.0; self.inputs()]);
        self.vjp_into(seeds, &mut outputs, &mut cotangents)?;
        Ok((outputs, cotangents))
    }

    fn pulled<R>(&mut self, run: impl FnOnce(&mut RowProducts<'_, Error>) -> Result<R, Error>) -> Result<R, Error> {
        let f = self.function;
        let make = |width| {
            DerivedRule::new(&f.program, &f.request, &Options { mode: Mode::Split, width, ..f.options.clone() })
        };
        let first = match wide(&f.rules.pairs, f.outputs, make)? {
            Some(rule) => unless_too_wide(FlatRows::new(*self, rule))?,
            None => None,
        };
        let one = || FlatRows::new(*self, f.rule(&f.rules.pair, Mode::Split)?);
        pull_rows(first, one, run)
    }

    fn jvps(&mut self, along: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Error> {
        some_at_a_time(self, along, |this, some| this.batch(some), |this, along| Ok(this.jvp(along)?.1))
    }

    fn hvp(&mut self, seeds: &[f64], along: &[f64]) -> Result<Products, Error> {
        let f = self.function;
        let rule = made(&f.rules.second, || HessianRule::new(&f.program, &f.request, &with_values(&f.options, 1)))?;
        let (value, gradient, mut products) = self.products(rule, seeds, &[along])?;
        Ok(Products { value, gradient, product: products.remove(0) })
    }

    fn taylor(&mut self, along: &[f64], order: usize) -> Result<Vec<Vec<f64>>, Error> {
        let f = self.function;
        let options = taylor_options(&f.options, order)?;
        let rule = made(&f.rules.series[order], || DerivedRule::new(&f.program, &f.request, &options))?;
        // The first coefficient of the path is the direction, others are zero.
        let mut path = vec![along.to_vec()];
        path.resize(order, vec![0.0; f.inputs]);
        let (value, mut found) = self.run_batch(rule, &path)?;
        found.insert(0, value);
        Ok(found)
    }

    fn hvps(&mut self, seeds: &[f64], along: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Error> {
        let f = self.function;
        let batch = |this: &mut Self, some: &[Vec<f64>]| {
            let make = |width| HessianRule::new(&f.program, &f.request, &with_values(&f.options, width));
            let Some(rule) = wide(&f.rules.seconds, some.len(), make)? else { return Ok(None) };
            Ok(unless_too_wide(this.products(rule, seeds, some))?.map(|(.., products)| products))
        };
        some_at_a_time(self, along, batch, |this, along| Ok(this.hvp(seeds, along)?.product))
    }
}

/// Vectors side by side, as a batch of a width has them; those that are missing are zeros.
fn side_by_side(vectors: &[impl AsRef<[f64]>], n: usize, width: usize) -> Vec<f64> {
    let mut all = vec![0.0; n * width];
    for (k, vector) in vectors.iter().enumerate() {
        all.iter_mut().skip(k).step_by(width).zip(vector.as_ref()).for_each(|(place, x)| *place = *x);
    }
    all
}

/// Number `k` of vectors side by side.
fn nth(all: &[f64], k: usize, width: usize) -> Vec<f64> {
    all.iter().skip(k).step_by(width).copied().collect()
}

/// Value, gradient, and the product with each of some directions.
type AllProducts = (Vec<f64>, Vec<f64>, Vec<Vec<f64>>);

/// Several directions at once.
impl FlatPoint<'_> {
    /// Tangents along all of these directions in one run, if that can be.
    fn batch(&self, along: &[Vec<f64>]) -> Result<Option<Vec<Vec<f64>>>, Error> {
        let f = self.function;
        let make = |width| {
            DerivedRule::new(&f.program, &f.request, &Options { mode: Mode::Tangent, width, ..f.options.clone() })
        };
        let Some(rule) = wide(&f.rules.tangents, along.len(), make)? else { return Ok(None) };
        Ok(unless_too_wide(self.run_batch(rule, along))?.map(|(_, found)| found))
    }

    /// Outputs, and their derivatives along each of these directions, of a rule of a width.
    fn run_batch(&self, rule: &DerivedRule, along: &[Vec<f64>]) -> Result<(Vec<f64>, Vec<Vec<f64>>), Error> {
        let (f, width) = (self.function, rule.width());
        for along in along {
            fits(along.len(), f.inputs, "directions", "one per input")?;
        }
        let (mut outputs, mut tangents) = (vec![0.0; f.outputs], vec![0.0; f.outputs * width]);
        let mut inward = side_by_side(along, f.inputs, width);
        let (inputs, outward) = (inward.as_mut_ptr(), tangents.as_mut_ptr());
        let args = self.args(Vectors { outputs: outputs.as_mut_ptr(), inward: inputs, outward, width });
        let directions = self.directions_of(along, width);
        let (mut results, mut found) = (Vec::new(), Vec::new());
        // SAFETY: as in `value_into`; shadows are as many times as large.
        drop(unsafe { rule.tangent(&args, &directions, &mut results, &mut found) }?);
        f.put_results(results.iter().map(Some), &mut outputs);
        let one = |k: usize| {
            let mut one = nth(&tangents, k, width);
            f.put_results(found.iter().skip(k * f.returns.len()).map(Option::as_ref), &mut one);
            rule.known_tangents(&one).map(|()| one)
        };
        Ok((outputs, (0..along.len()).map(one).collect::<Result<_, _>>()?))
    }

    /// Directions of inputs by value, one direction after the other.
    fn directions_of(&self, along: &[impl AsRef<[f64]>], width: usize) -> Vec<Option<DataValue>> {
        let mut all: Vec<_> = along.iter().flat_map(|along| self.function.directions(along.as_ref())).collect();
        all.resize(self.function.parameters.len() * width, None);
        all
    }

    /// Value, gradient, and products with all of these directions, by a rule of a width.
    fn products(&self, rule: &HessianRule, seeds: &[f64], along: &[impl AsRef<[f64]>]) -> Result<AllProducts, Error> {
        let (f, width) = (self.function, rule.rule().width());
        fits(seeds.len(), f.outputs, "seeds", "one per output")?;
        for along in along {
            fits(along.as_ref().len(), f.inputs, "directions", "one per input")?;
        }
        let (mut value, mut outward) = (vec![0.0; f.outputs], seeds.to_vec());
        let (mut gradient, mut product) = (vec![0.0; f.inputs], vec![0.0; f.inputs * width]);
        let tangents_of_inputs = side_by_side(along, f.inputs, width);
        // Of outputs: their tangents, and what becomes of those of their seeds.
        let (mut tangents, mut of_seeds) = (vec![0.0; f.outputs * width], vec![0.0; f.outputs * width]);
        let (inward, shadows) = (gradient.as_mut_ptr(), outward.as_mut_ptr());
        let vectors = Vectors { outputs: value.as_mut_ptr(), inward, outward: shadows, width: 1 };
        let (mut inner, mut outer) = (0, f.results);
        let directions = self.directions_of(along, width);
        let mut direction = |(i, parameter): (usize, &FlatParam)| match parameter {
            FlatParam::Input(n) => {
                inner += n;
                let memory = |of: *const f64| of.wrapping_add((inner - n) * width) as u64;
                match f.types[i] {
                    types::F64 => ArgDirection::Still,
                    _ => ArgDirection::Memory {
                        tangent: memory(tangents_of_inputs.as_ptr()),
                        product: memory(product.as_mut_ptr()),
                    },
                }
            }
            FlatParam::Output(n) => {
                outer += n;
                let memory = |of: *mut f64| of.wrapping_add((outer - n) * width) as u64;
                ArgDirection::Memory { tangent: memory(tangents.as_mut_ptr()), product: memory(of_seeds.as_mut_ptr()) }
            }
            FlatParam::Given(_) | FlatParam::Fixed(_) => ArgDirection::Still,
        };
        let one: Vec<ArgDirection> = f.parameters.iter().enumerate().map(&mut direction).collect();
        let of = |(at, direction): (usize, Option<DataValue>)| {
            direction.map_or_else(|| one[at % one.len()].clone(), ArgDirection::Value)
        };
        let along_all: Vec<ArgDirection> = directions.into_iter().enumerate().map(of).collect();
        let mut out = HessianProducts::default();
        // SAFETY: as in `value_into`; each vector is as long as there are inputs or outputs, times
        // the directions.
        drop(unsafe { rule.product(&self.args(vectors), &along_all, &f.seeds(seeds), &mut out) }?);
        f.put_results(out.values.iter().map(Some), &mut value);
        f.put_inputs(&out.cotangents, &mut gradient);
        let n = f.parameters.len();
        let one = |k: usize| {
            let mut one = nth(&product, k, width);
            f.put_inputs(&out.products[k * n..][..n], &mut one);
            one
        };
        Ok((value, gradient, (0..along.len()).map(one).collect()))
    }
}

/// The pullback of a function of vectors at a point.
struct FlatRows<'a> {
    at: FlatPoint<'a>,
    _outputs: Vec<f64>,
    inward: Vec<f64>,
    outward: Vec<f64>,
    pullback: Pullback,
    width: usize,
}

impl<'a> FlatRows<'a> {
    fn new(at: FlatPoint<'a>, rule: &DerivedRule) -> Result<Self, Error> {
        let (f, width) = (at.function, rule.width());
        let mut outputs = vec![0.0; f.outputs];
        let (mut inward, mut outward) = (vec![0.0; f.inputs * width], vec![0.0; f.outputs * width]);
        let (inputs, seeds) = (inward.as_mut_ptr(), outward.as_mut_ptr());
        let args = at.args(Vectors { outputs: outputs.as_mut_ptr(), inward: inputs, outward: seeds, width });
        // SAFETY: as in `value_into`; the vectors live as long as the pullback.
        let (_, pullback) = unsafe { rule.forward(&args) }?;
        Ok(Self { at, _outputs: outputs, inward, outward, pullback, width })
    }
}

impl RowPullback for FlatRows<'_> {
    fn width(&self) -> usize {
        self.width
    }

    fn rows(&mut self, rows: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Error> {
        let (f, width) = (self.at.function, self.width);
        for seeds in rows {
            fits(seeds.len(), f.outputs, "seeds", "one per output")?;
        }
        self.outward.copy_from_slice(&side_by_side(rows, f.outputs, width));
        self.inward.fill(0.0);
        let zeros = vec![0.0; f.outputs];
        let seeds: Vec<_> = (0..width).flat_map(|k| f.seeds(rows.get(k).unwrap_or(&zeros))).collect();
        // SAFETY: the memory is that of the forward pass, and lives as long as this.
        let by_value = unsafe { self.pullback.call(&seeds) }?;
        let n = f.parameters.len();
        let one = |k: usize| {
            let mut row = nth(&self.inward, k, width);
            f.put_inputs(&by_value[k * n..][..n], &mut row);
            row
        };
        Ok((0..rows.len()).map(one).collect())
    }
}
