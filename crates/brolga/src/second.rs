//! Second derivatives: Hessian-vector products, by forward mode over the gradient.
//!
//! A [`HessianRule`] derives the gradient of a request as a function
//! ([`brolga_transform::nested`]), and that function in forward mode. One call gives the value, the
//! gradient, and the derivative of the gradient along one direction of the inputs: the product of
//! the Hessian of `Σ seed · result + Σ shadow · final contents` with it. It costs about as much as
//! two gradients, whatever the number of inputs.
//!
//! Memory takes part four times: as it is, its direction, its shadow (where the gradient is added,
//! as ever), and the tangent of the shadow (where the product is added).
//!
//! A gradient that keeps records keeps them on a typed tape, whose memory ([`Workspace`]) and its
//! tangent belong to the rule: a call takes one from those that are free, or makes one.

use std::sync::{Arc, Mutex, PoisonError};

use brolga_ir::{ArgActivity, ArgSpec, Elem, Mode, Options, Program, Promises, Request, ResultActivity};
use brolga_runtime::Workspace;
use brolga_transform::nested::{Nested, NestedParam, NestedResult, gradient};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::Signature;

use crate::jit::host_isa;
use crate::{Arg, DerivedRule, Error, Run};

/// The direction of one argument.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Along {
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Second {
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
/// # use brolga::second::{Along, Second};
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
/// let along = [Along::Memory { tangent: at(&mut direction), product: at(&mut product) }, Along::Still];
/// let mut out = Second::default();
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
    /// Derive twice, and compile. The options' mode and what they say of memory are not asked:
    /// memory is left as the function leaves it. No argument's shadow is taken to be fresh. The
    /// [width](Options::width) says along how many directions one call goes.
    ///
    /// # Errors
    /// [`Error::Diagnostics`] with every problem of the program as asked. Problems of the second
    /// derivation have the lines of the program, and name instructions of the gradient.
    pub fn new(program: &Program, request: &Request, options: &Options) -> Result<Self, Error> {
        let isa = host_isa(options)?;
        let inner = Options { mode: Mode::Combined, width: 1, ..options.settled() };
        let nested = crate::quiet::caught("derive", program, || Ok(gradient(program, request, &inner, &*isa)?))?;
        let rule = DerivedRule::new(
            &nested.program,
            &forward_request(request, &nested),
            &Options { mode: Mode::Tangent, ..options.clone() },
        )?;
        let Nested { params, results, .. } = nested;
        let primal = program.funcs[request.func].signature.clone();
        let (request, capacity) = (request.clone(), options.tape_limit);
        Ok(Self { rule, params, results, primal, request, capacity, free: Arc::default() })
    }

    /// The rule of forward mode behind it.
    pub fn rule(&self) -> &DerivedRule {
        &self.rule
    }

    /// Value, gradient and Hessian-vector product along one direction. `args` are those of
    /// [`DerivedRule::gradient`], with shadows; `along` and `seeds` have one entry per argument and
    /// per result. Of several directions `along` has the entries one direction after the other; for
    /// memory each has the same, which is that of all.
    ///
    /// # Errors
    /// [`Error::Usage`] for what does not fit; [`Error::Trap`] if the primal traps, or if a
    /// derivative depends on bits that are not followed.
    ///
    /// # Safety
    /// As for [`DerivedRule::forward`]; and the two blocks of [`Along::Memory`] must be as large as
    /// the primal and laid out alike.
    pub unsafe fn product(
        &self,
        args: &[Arg],
        along: &[Along],
        seeds: &[DataValue],
        out: &mut Second,
    ) -> Result<Run, Error> {
        self.check(args, along, seeds)?;
        let mut tape = self.tape()?;
        let mut given = Vec::with_capacity(self.params.len());
        let (n, width) = (args.len(), self.rule.width());
        let mut directions = vec![None; self.params.len() * width];
        for (at, role) in self.params.iter().enumerate() {
            given.push(match *role {
                NestedParam::Primal(i) => {
                    for (k, along) in along.iter().skip(i).step_by(n).enumerate() {
                        if let Along::Value(v) = along {
                            directions[k * self.params.len() + at] = Some(v.clone());
                        }
                    }
                    let shadow = if let Along::Memory { tangent, .. } = along[i] { tangent } else { 0 };
                    Arg { shadow, ..args[i].clone() }
                }
                NestedParam::Shadow(i) => {
                    let Along::Memory { product, .. } = along[i] else { unreachable!("checked before") };
                    Arg { value: DataValue::I64(args[i].shadow as i64), shadow: product, ..args[i].clone() }
                }
                NestedParam::Seed(k) => Arg::new(seeds[k].clone()),
                NestedParam::Direction(_) => unreachable!("a gradient has seeds"),
                NestedParam::Workspace => {
                    let tape = tape.as_mut().expect("there is one if it is a parameter");
                    Arg::duplicated(tape.address(0), tape.address(1))
                }
            });
        }
        let (mut values, mut tangents) = (std::mem::take(&mut out.values), Vec::new());
        // SAFETY: our contract; the tape is ours until it is given back.
        let run = unsafe { self.rule.tangent(&given, &directions, &mut values, &mut tangents) };
        self.free.lock().unwrap_or_else(PoisonError::into_inner).extend(tape);
        let run = run?;
        out.cotangents.clear();
        out.cotangents.resize(n, None);
        out.products.clear();
        out.products.resize(n * width, None);
        for (r, (given, value)) in self.results.iter().zip(&values).enumerate() {
            let NestedResult::Cotangent(i) = *given else { continue };
            out.cotangents[i] = Some(value.clone());
            for k in 0..width {
                out.products[k * n + i] = tangents[k * self.results.len() + r].take();
            }
        }
        values.truncate(self.primal.returns.len());
        out.values = values;
        Ok(run)
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

    fn check(&self, args: &[Arg], along: &[Along], seeds: &[DataValue]) -> Result<(), Error> {
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
                (ArgActivity::Duplicated, Along::Memory { .. }) if *given != along[i] => {
                    "is a pointer: all directions lie in the same memory, side by side"
                }
                (ArgActivity::Duplicated, Along::Memory { .. })
                | (ArgActivity::Active, Along::Still | Along::Value(_))
                | (ArgActivity::Const, Along::Still) => continue,
                (ArgActivity::Duplicated, _) => "is a pointer: its direction is `Along::Memory`, also if it is zero",
                (ArgActivity::Active, _) => "is a float by value: its direction is `Along::Value` or `Along::Still`",
                (ArgActivity::Const, _) => "is constant, and has no direction: `Along::Still`",
            };
            return Err(Error::Usage(format!("argument {i} {wrong}")));
        }
        Ok(())
    }
}

/// The request of forward mode: what is active or duplicated is so again, shadows are duplicated,
/// seeds constant, and of the results the cotangents have tangents.
fn forward_request(request: &Request, nested: &Nested) -> Request {
    // What is apart from all other memory has a shadow that is.
    let apart = |i: usize| Promises { noalias: request.args[i].promises.noalias, ..Promises::default() };
    let spec = |i: usize| ArgSpec { promises: apart(i), ..request.args[i] };
    let args = nested.params.iter().map(|role| match *role {
        NestedParam::Primal(i) | NestedParam::Shadow(i) => spec(i),
        NestedParam::Seed(_) | NestedParam::Direction(_) => ArgSpec::CONST,
        NestedParam::Workspace => ArgSpec::duplicated(Elem::Pointer),
    });
    let results = nested.results.iter().map(|r| match r {
        NestedResult::Value(_) | NestedResult::Shadow(_) => ResultActivity::Const,
        NestedResult::Cotangent(_) | NestedResult::Tangent(_) => ResultActivity::Active,
    });
    Request { results: results.collect(), ..Request::new(nested.func, args) }
}
