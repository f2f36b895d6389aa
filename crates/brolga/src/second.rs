//! Second derivatives: Hessian-vector products, by forward mode over the gradient, or by reverse
//! mode over the tangent.
//!
//! **Question.** How does the gradient change along a direction of the inputs?
//!
//! **Answer.** A [`HessianRule`] derives the gradient of a request as a function
//! ([`brolga_transform::nested`]), and that function in forward mode. One call gives the value, the
//! gradient, and the derivative of the gradient along one direction of the inputs (or along
//! several, side by side): the product of the Hessian of `Σ seed · result + Σ shadow · final
//! contents` with it.
//!
//! A gradient that puts cotangents together from pieces cannot be derived again. A tangent can: its
//! pieces move as those of the primal do, and it is the outer derivative that puts cotangents
//! together. So where the gradient is refused, the rule is the gradient of the tangent. By the
//! inputs that is the product, and by the direction it is the gradient. Its record is that of value
//! and tangent, and there is one direction in each call.
//!
//! Memory takes part four times: as it is, its direction, its shadow (where the gradient is added,
//! as ever), and the tangent of the shadow (where the product is added).
//!
//! A gradient that keeps records keeps them on a typed tape, whose memory ([`Workspace`]) and its
//! tangent belong to the rule: a call takes one from those that are free, or makes one.
//!
//! **Errors.** Where both modes are refused, what is reported is what was said of forward mode over
//! the gradient.
//!
//! **Cost.** A call costs about as much as two gradients, whatever the number of inputs. To make a
//! rule, two derivations, one over the other; where these are refused, two more.

use std::sync::{Arc, Mutex, PoisonError};

use brolga_ir::{
    ArgActivity, ArgSpec, Diagnostic, Diagnostics, Elem, MemoryMode, Mode, Options, Program, Promises, Request,
    ResultActivity,
};
use brolga_runtime::Workspace;
use brolga_transform::called::resolved;
use brolga_transform::nested::{NestedDerivative, NestedParam, NestedResult, gradient, tangent};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{Signature, Type, types};

use crate::jit::host_isa;
use crate::{Arg, DerivedRule, Error, Run};

/// The direction of one argument.
///
/// ```
/// # use brolga::{Arg, ArgSpec, HessianRule, Mode, Options, Request, cranelift_codegen::data_value::DataValue};
/// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
/// # let mut program = brolga::Program::new();
/// # let product = program.define("product", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
/// # use brolga::second::{ArgDirection, HessianProducts};
/// # let double = |x: f64| DataValue::F64(x.into());
/// let rule = HessianRule::new(&program, &Request::new(product, [ArgSpec::ACTIVE; 2]), &Options::default())?;
/// let args = [3.0, 5.0].map(|x| Arg::new(double(x)));
/// let mut out = HessianProducts::default();
/// // SAFETY: the function accesses no memory.
/// unsafe { rule.product(&args, &[ArgDirection::Still, ArgDirection::Value(double(2.0))], &[double(1.0)], &mut out) }?;
/// // The derivative of x y by x is y, which moves by two.
/// assert_eq!((&out.cotangents[0], &out.products[0]), (&Some(double(5.0)), &Some(double(2.0))));
/// assert_eq!(ArgDirection::default(), ArgDirection::Still);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ArgDirection {
    /// It does not move.
    #[default]
    Still,
    /// Of a float by value, of its type.
    Value(DataValue),
    /// Of memory: addresses of two blocks as large as the primal; of several directions at once, of
    /// blocks as many times as large, laid out as the shadows of [`DerivedRule::tangent`] are.
    Memory {
        /// Holds the direction. Afterwards it holds the tangent of what the function has left.
        tangent: u64,
        /// Tangent of the shadow: the product is added to it. Usually zeros at first.
        product: u64,
    },
}

/// What a call of a [`HessianRule`] returns; what belongs to memory is in memory.
///
/// ```
/// # use brolga::{Arg, ArgSpec, HessianRule, Mode, Options, Request, cranelift_codegen::data_value::DataValue};
/// # let text = "function %cube(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 v2 = fmul v1, v0 return v2 }";
/// # let mut program = brolga::Program::new();
/// # let cube = program.define("cube", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
/// # use brolga::second::{ArgDirection, HessianProducts};
/// # let double = |x: f64| DataValue::F64(x.into());
/// let rule = HessianRule::new(&program, &Request::new(cube, [ArgSpec::ACTIVE]), &Options::default())?;
/// let mut out = HessianProducts::default();
/// // SAFETY: the function accesses no memory.
/// unsafe { rule.product(&[Arg::new(double(2.0))], &[ArgDirection::Value(double(0.5))], &[double(1.0)], &mut out) }?;
/// let HessianProducts { values, cotangents, products } = out; // x³, 3x², and half of 6x
/// assert_eq!((values, cotangents, products), (vec![double(8.0)], vec![Some(double(12.0))], vec![Some(double(6.0))]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HessianProducts {
    /// The primal's results.
    pub values: Vec<DataValue>,
    /// One entry for each argument: its cotangent, if it is active.
    pub cotangents: Vec<Option<DataValue>>,
    /// The same of the Hessian-vector product; of several, one direction after the other.
    pub products: Vec<Option<DataValue>>,
}

/// A compiled second derivative. Cheap to clone.
///
/// ```
/// # use brolga::{Arg, ArgSpec, Elem, HessianRule, Options, Request};
/// # use brolga::second::{ArgDirection, HessianProducts};
/// # use brolga::cranelift_codegen::data_value::DataValue;
/// # use brolga::{Program, FuncKey};
/// # fn program() -> (Program, FuncKey) {
/// #     let text = "function %f(i64, f64) -> f64 {
/// #         block0(v0: i64, v1: f64):
/// #             v2 = load.f64 v0
/// #             v3 = fmul v2, v2
/// #             v4 = fmul v3, v1
/// #             return v4
/// #     }";
/// #     let mut program = Program::new();
/// #     let f = cranelift_reader::parse_functions(text).unwrap().remove(0);
/// #     let key = program.define("f", f, |_| 0).unwrap();
/// #     (program, key)
/// # }
/// let (program, f) = program(); // double f(const double *x, double a) { return a * x[0] * x[0]; }
/// let request = Request::new(f, [ArgSpec::duplicated(Elem::F64), ArgSpec::CONST]);
/// let rule = HessianRule::new(&program, &request, &Options::default())?;
/// let double = |x: f64| DataValue::F64(x.into());
/// let (x, mut gradient, mut direction, mut product) = ([3.0_f64], [0.0_f64], [0.5_f64], [0.0_f64]);
/// let at = |x: &mut [f64]| x.as_mut_ptr() as u64;
/// let args = [Arg::duplicated(x.as_ptr() as u64, at(&mut gradient)), Arg::new(double(2.0))];
/// let along = [ArgDirection::Memory { tangent: at(&mut direction), product: at(&mut product) }, ArgDirection::Still];
/// let mut out = HessianProducts::default();
/// // SAFETY: the function reads one number, and each of the four blocks has one.
/// let run = unsafe { rule.product(&args, &along, &[double(1.0)], &mut out) }?;
/// // 2x², 4x, and 4 times the direction.
/// assert_eq!((out.values, gradient, product), (vec![double(18.0)], [12.0], [2.0]));
/// assert_eq!((run.tape_bytes(), rule.rule().width()), (0, 1));
/// # Ok::<(), brolga::Error>(())
/// ```
#[derive(Clone)]
pub struct HessianRule {
    rule: DerivedRule,
    /// Whether it is in reverse mode, over a tangent.
    reverse: bool,
    /// Whether it returns the primal's results.
    values: bool,
    params: Vec<NestedParam>,
    results: Vec<NestedResult>,
    primal: Signature,
    request: Request,
    /// Bytes of each channel of a tape.
    capacity: usize,
    /// Tapes that no call uses.
    free: Arc<Mutex<Vec<Workspace>>>,
}

impl HessianRule {
    /// Derive twice, and compile: in forward mode over the gradient, or where that is refused in
    /// reverse mode over the tangent. With [`Mode::Gradient`] a call returns no values, and does
    /// not compute what only they need; other modes, and what the options say of memory, are not
    /// asked: memory is left as the function leaves it. No argument's shadow is taken to be fresh.
    /// The [width](Options::width) says along how many directions one call goes.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, HessianRule, Mode, Options, Request, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %cube(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 v2 = fmul v1, v0 return v2 }";
    /// # let mut program = brolga::Program::new();
    /// # let cube = program.define("cube", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # use brolga::second::{ArgDirection, HessianProducts};
    /// # let double = |x: f64| DataValue::F64(x.into());
    /// let options = Options { mode: Mode::Gradient, ..Options::default() };
    /// let rule = HessianRule::new(&program, &Request::new(cube, [ArgSpec::ACTIVE]), &options)?;
    /// let mut out = HessianProducts::default();
    /// // SAFETY: the function accesses no memory.
    /// unsafe { rule.product(&[Arg::new(double(2.0))], &[ArgDirection::Value(double(1.0))], &[double(1.0)], &mut out) }?;
    /// assert_eq!((out.values, out.products), (vec![], vec![Some(double(12.0))]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Diagnostics`] with every problem of the program as asked. Problems of the second
    /// derivation have the lines of the program, and name instructions of the gradient.
    pub fn new(program: &Program, request: &Request, options: &Options) -> Result<Self, Error> {
        let reverse = if options.mode == Mode::Gradient { Mode::Gradient } else { Mode::Combined };
        let isa = host_isa(options)?;
        let called = crate::error::caught("derive", program, || Ok(resolved(program, &[request.func], &*isa)?))?;
        let program = &*called;
        let first = match Self::nested(program, request, options, reverse) {
            Err(Error::Diagnostics(first)) => first,
            found => return found,
        };
        if first.0.iter().any(|d| d.code == "AD0180") {
            return Err(Error::Diagnostics(first));
        }
        if options.width > 1 {
            let d = Diagnostic::new("AD0180", "a second derivative in reverse mode has no batch of directions")
                .note(format!("in forward mode over the gradient it is refused: {}", first.0[0].message))
                .help("ask for one direction at a time (a width of 1), as drivers do");
            return Err(Error::Diagnostics(Diagnostics::from(d)));
        }
        Self::nested(program, request, options, Mode::Tangent).map_err(|e| match e {
            Error::Diagnostics(_) => Error::Diagnostics(first),
            e => e,
        })
    }

    /// The other mode over this one.
    fn nested(program: &Program, request: &Request, options: &Options, inner: Mode) -> Result<Self, Error> {
        let isa = host_isa(options)?;
        let (nest, outer): (fn(_, _, &_, _) -> _, _) = match inner {
            Mode::Tangent => (tangent, Mode::Combined),
            _ => (gradient, Mode::Tangent),
        };
        let of_inner = Options { mode: inner, width: 1, ..options.settled() };
        let nested = crate::error::caught("derive", program, || Ok(nest(program, request, &of_inner, &*isa)?))?;
        let values = options.mode != Mode::Gradient;
        let options = Options { mode: outer, memory: MemoryMode::Leave, ..options.clone() };
        let rule = DerivedRule::new(&nested.program, &outer_request(request, &nested), &options)?;
        let NestedDerivative { params, results, .. } = nested;
        let primal = program.funcs[request.func].signature.clone();
        let (request, capacity) = (request.clone(), options.tape_limit);
        Ok(Self {
            rule,
            values,
            reverse: inner == Mode::Tangent,
            params,
            results,
            primal,
            request,
            capacity,
            free: Arc::default(),
        })
    }

    /// The rule of the outer derivative after it: in forward mode, or in reverse mode.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, HessianRule, Mode, Options, Request, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %cube(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 v2 = fmul v1, v0 return v2 }";
    /// # let mut program = brolga::Program::new();
    /// # let cube = program.define("cube", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # use brolga::second::{ArgDirection, HessianProducts};
    /// # let double = |x: f64| DataValue::F64(x.into());
    /// let options = Options { width: 4, ..Options::default() };
    /// let second = HessianRule::new(&program, &Request::new(cube, [ArgSpec::ACTIVE]), &options)?;
    /// assert_eq!(second.rule().width(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rule(&self) -> &DerivedRule {
        &self.rule
    }

    /// Value, gradient and Hessian-vector product along one direction. `args` are those of
    /// [`DerivedRule::gradient`], with shadows; `along` and `seeds` have one entry per argument and
    /// per result. Of several directions `along` has the entries one direction after the other; for
    /// memory each has the same, which is that of all.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, HessianRule, Mode, Options, Request, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %cube(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 v2 = fmul v1, v0 return v2 }";
    /// # let mut program = brolga::Program::new();
    /// # let cube = program.define("cube", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # use brolga::second::{ArgDirection, HessianProducts};
    /// # let double = |x: f64| DataValue::F64(x.into());
    /// let options = Options { width: 2, ..Options::default() };
    /// let rule = HessianRule::new(&program, &Request::new(cube, [ArgSpec::ACTIVE]), &options)?;
    /// let along = [1.0, 0.5].map(|x| ArgDirection::Value(double(x)));
    /// let mut out = HessianProducts::default();
    /// // SAFETY: the function accesses no memory.
    /// unsafe { rule.product(&[Arg::new(double(2.0))], &along, &[double(1.0)], &mut out) }?;
    /// assert_eq!(out.products, [12.0, 6.0].map(|x| Some(double(x))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for what does not fit; [`Error::Trap`] if the primal traps, or if a
    /// derivative depends on bits that are not followed.
    ///
    /// # Safety
    /// As for [`DerivedRule::forward`]; and the two blocks of [`ArgDirection::Memory`] must be as
    /// large as the primal and laid out alike.
    pub unsafe fn product(
        &self,
        args: &[Arg],
        along: &[ArgDirection],
        seeds: &[DataValue],
        out: &mut HessianProducts,
    ) -> Result<Run, Error> {
        self.check(args, along, seeds)?;
        let mut tape = self.tape()?;
        let given: Vec<Arg> =
            self.params.iter().map(|role| self.argument(*role, args, along, seeds, &mut tape)).collect();
        let (mut values, mut derivatives) = (std::mem::take(&mut out.values), Vec::new());
        let reverse = self.reverse;
        let run = if reverse {
            let seeds = self.seeds(seeds);
            // SAFETY: our contract; the tape is ours until it is given back.
            unsafe { self.rule.gradient(&given, &seeds, &mut values, &mut derivatives) }
        } else {
            let directions = self.directions(args.len(), along);
            // SAFETY: the same.
            unsafe { self.rule.tangent(&given, &directions, &mut values, &mut derivatives) }
        };
        self.free.lock().unwrap_or_else(PoisonError::into_inner).extend(tape);
        let run = run?;
        let (n, width) = (args.len(), self.rule.width());
        if !reverse {
            // SAFETY: our contract.
            unsafe { self.rule.all_known(self.floats(args, along)) }?;
        }
        out.cotangents.clear();
        out.cotangents.resize(n, None);
        out.products.clear();
        out.products.resize(n * width, None);
        if reverse {
            for (role, derivative) in self.params.iter().zip(derivatives) {
                match *role {
                    NestedParam::Primal(i) => out.products[i] = derivative,
                    NestedParam::Direction(i) => out.cotangents[i] = derivative,
                    _ => {}
                }
            }
        } else {
            for (r, (given, value)) in self.results.iter().zip(&values).enumerate() {
                let NestedResult::Cotangent(i) = *given else { continue };
                out.cotangents[i] = Some(value.clone());
                for k in 0..width {
                    out.products[k * n + i] = derivatives[k * self.results.len() + r].take();
                }
            }
        }
        values.truncate(if self.values { self.primal.returns.len() } else { 0 });
        out.values = values;
        Ok(run)
    }

    /// Products in memory where floats are known to be: the address, the size of a float, and the
    /// bytes of all.
    fn floats<'a>(&self, args: &'a [Arg], along: &'a [ArgDirection]) -> impl Iterator<Item = (u64, u32, u64)> + 'a {
        let width = self.rule.width() as u64;
        let elems: Vec<Option<Elem>> = self.request.args.iter().map(|a| a.elem).collect();
        args.iter().zip(along).zip(elems).flat_map(move |((arg, along), elem)| {
            let ArgDirection::Memory { product, .. } = *along else { return Vec::new() };
            let size = match elem {
                Some(Elem::F64) => 8,
                Some(Elem::F32) => 4,
                _ => 0,
            };
            let by_length = arg.len.filter(|_| size != 0).map(|len| (0, size, len));
            let said = arg.floats.iter().flat_map(|f| f.iter()).filter(|f| f.size != 0);
            let all = by_length.into_iter().chain(said.map(|f| (f.offset, f.size, f.len)));
            all.map(|(at, size, len)| (product.wrapping_add(at * width), size, len * width)).collect()
        })
    }

    /// An argument of the outer derivative, with its shadow.
    fn argument(
        &self,
        role: NestedParam,
        args: &[Arg],
        along: &[ArgDirection],
        seeds: &[DataValue],
        tape: &mut Option<Workspace>,
    ) -> Arg {
        let memory = |i: usize| match along[i] {
            ArgDirection::Memory { tangent, product } => Some((tangent, product)),
            _ => None,
        };
        let reverse = self.reverse;
        match role {
            NestedParam::Primal(i) => {
                let shadow = memory(i).map_or(0, |(tangent, product)| if reverse { product } else { tangent });
                Arg { shadow, ..args[i].clone() }
            }
            NestedParam::Shadow(i) => {
                let (tangent, product) = memory(i).expect("checked before");
                let gradient = args[i].shadow;
                let (value, shadow) = if reverse { (tangent, gradient) } else { (gradient, product) };
                Arg { value: DataValue::I64(value as i64), shadow, ..args[i].clone() }
            }
            NestedParam::Seed(k) => Arg::new(seeds[k].clone()),
            NestedParam::Direction(i) => Arg::new(match &along[i] {
                ArgDirection::Value(v) => v.clone(),
                _ => zero(self.primal.params[i].value_type),
            }),
            NestedParam::Workspace => {
                let tape = tape.as_mut().expect("there is one if it is a parameter");
                Arg::duplicated(tape.address(0), tape.address(1))
            }
        }
    }

    /// Tangents of floats by value, for each direction and parameter of the gradient.
    fn directions(&self, n: usize, along: &[ArgDirection]) -> Vec<Option<DataValue>> {
        let one = |k: usize, role: &NestedParam| match *role {
            NestedParam::Primal(i) => match &along[k * n + i] {
                ArgDirection::Value(v) => Some(v.clone()),
                _ => None,
            },
            _ => None,
        };
        (0..self.rule.width()).flat_map(|k| self.params.iter().map(move |role| one(k, role))).collect()
    }

    /// Seeds of tangents: those of the results. Values have none.
    fn seeds(&self, of: &[DataValue]) -> Vec<DataValue> {
        let one = |r: &NestedResult| match *r {
            NestedResult::Tangent(k) => of[k].clone(),
            NestedResult::Value(k) => zero(self.primal.returns[k].value_type),
            NestedResult::Shadow(_) | NestedResult::Cotangent(_) => zero(types::I64),
        };
        self.results.iter().map(one).collect()
    }

    /// An empty tape, if the gradient has one.
    fn tape(&self) -> Result<Option<Workspace>, Error> {
        if !self.params.contains(&NestedParam::Workspace) {
            return Ok(None);
        }
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut tape = match free {
            Some(tape) => tape,
            None => Workspace::new(self.capacity, 2, self.rule.width()).map_err(|e| Error::Usage(e.to_string()))?,
        };
        tape.reset();
        Ok(Some(tape))
    }

    fn check(&self, args: &[Arg], along: &[ArgDirection], seeds: &[DataValue]) -> Result<(), Error> {
        let (params, width) = (self.primal.params.len(), self.rule.width());
        let counts = [
            (args.len(), params, "arguments are given"),
            (along.len(), params * width, "directions are given"),
            (seeds.len(), self.primal.returns.len(), "seeds are given"),
        ];
        if let Some((is, want, what)) = counts.into_iter().find(|(is, want, _)| is != want) {
            return Err(Error::Usage(format!("{is} {what}, {want} are wanted")));
        }
        for (at, given) in along.iter().enumerate() {
            let i = at % params;
            let wrong = match (self.request.args[i].activity, given) {
                (ArgActivity::Duplicated, ArgDirection::Memory { .. }) if *given != along[i] => {
                    "is a pointer: all directions lie in the same memory, side by side"
                }
                (ArgActivity::Duplicated, ArgDirection::Memory { .. })
                | (ArgActivity::Active, ArgDirection::Still | ArgDirection::Value(_))
                | (ArgActivity::Const, ArgDirection::Still) => continue,
                (ArgActivity::Duplicated, _) => {
                    "is a pointer: its direction is `ArgDirection::Memory`, also if it is zero"
                }
                (ArgActivity::Active, _) => {
                    "is a float by value: its direction is `ArgDirection::Value` or `ArgDirection::Still`"
                }
                (ArgActivity::Const, _) => "is constant, and has no direction: `ArgDirection::Still`",
            };
            return Err(Error::Usage(format!("argument {i} {wrong}")));
        }
        Ok(())
    }
}

/// The request of the outer derivative: what is active or duplicated is so again, shadows are
/// duplicated, seeds constant and directions active, and of the results the cotangents and the
/// tangents have derivatives.
fn outer_request(request: &Request, nested: &NestedDerivative) -> Request {
    // What is apart from all other memory has a shadow that is.
    let apart = |i: usize| Promises { noalias: request.args[i].promises.noalias, ..Promises::default() };
    let spec = |i: usize| ArgSpec { promises: apart(i), ..request.args[i] };
    let args = nested.params.iter().map(|role| match *role {
        NestedParam::Primal(i) | NestedParam::Shadow(i) | NestedParam::Direction(i) => spec(i),
        NestedParam::Seed(_) => ArgSpec::CONST,
        NestedParam::Workspace => ArgSpec::duplicated(Elem::Pointer),
    });
    let results = nested.results.iter().map(|r| match r {
        NestedResult::Value(_) | NestedResult::Shadow(_) => ResultActivity::Const,
        NestedResult::Cotangent(_) | NestedResult::Tangent(_) => ResultActivity::Active,
    });
    Request { results: results.collect(), ..Request::new(nested.func, args) }
}

fn zero(ty: Type) -> DataValue {
    DataValue::read_from_slice_ne(&[0; 16][..ty.bytes() as usize], ty)
}
