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
use brolga_transform::nested::{Given, Nested, Role, gradient};
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
    /// Of memory: addresses of two blocks as large as the primal.
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
    /// The same of the Hessian-vector product.
    pub products: Vec<Option<DataValue>>,
}

/// A compiled second derivative. Cheap to clone.
#[derive(Clone)]
pub struct HessianRule {
    rule: DerivedRule,
    params: Vec<Role>,
    results: Vec<Given>,
    primal: Signature,
    request: Request,
    /// Bytes of each channel of a tape.
    capacity: usize,
    /// Tapes that no call uses.
    free: Arc<Mutex<Vec<Workspace>>>,
}

impl HessianRule {
    /// Derive twice, and compile. The options' mode and what they say of memory are not asked:
    /// memory is left as the function leaves it. No argument's shadow is taken to be fresh.
    ///
    /// # Errors
    /// [`Error::Diagnostics`] with every problem of the program as asked. Problems of the second
    /// derivation have the lines of the program, and name instructions of the gradient.
    pub fn new(program: &Program, request: &Request, options: &Options) -> Result<Self, Error> {
        let isa = host_isa(options)?;
        let inner = Options { mode: Mode::Combined, ..options.settled() };
        let nested = crate::quiet::caught("derive", program, || Ok(gradient(program, request, &inner, &*isa)?))?;
        let rule = DerivedRule::new(
            &nested.program,
            &again(request, &nested),
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
    /// per result.
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
        let mut directions = Vec::with_capacity(self.params.len());
        for role in &self.params {
            let (arg, direction) = match *role {
                Role::Primal(i) => match &along[i] {
                    Along::Still => (Arg { shadow: 0, ..args[i].clone() }, None),
                    Along::Value(v) => (args[i].clone(), Some(v.clone())),
                    Along::Memory { tangent, .. } => (Arg { shadow: *tangent, ..args[i].clone() }, None),
                },
                Role::Shadow(i) => {
                    let Along::Memory { product, .. } = along[i] else { unreachable!("checked before") };
                    (Arg { value: DataValue::I64(args[i].shadow as i64), shadow: product, ..args[i].clone() }, None)
                }
                Role::Seed(k) => (Arg::new(seeds[k].clone()), None),
                Role::Direction(_) => unreachable!("a gradient has seeds"),
                Role::Workspace => {
                    let tape = tape.as_mut().expect("there is one if it is a parameter");
                    (Arg::duplicated(tape.address(0), tape.address(1)), None)
                }
            };
            given.push(arg);
            directions.push(direction);
        }
        let (mut values, mut tangents) = (std::mem::take(&mut out.values), Vec::new());
        // SAFETY: our contract; the tape is ours until it is given back.
        let run = unsafe { self.rule.tangent(&given, &directions, &mut values, &mut tangents) };
        self.free.lock().unwrap_or_else(PoisonError::into_inner).extend(tape);
        let run = run?;
        out.cotangents.clear();
        out.cotangents.resize(args.len(), None);
        out.products.clone_from(&out.cotangents);
        for ((given, value), tangent) in self.results.iter().zip(&values).zip(tangents) {
            if let Given::Cotangent(i) = *given {
                (out.cotangents[i], out.products[i]) = (Some(value.clone()), tangent);
            }
        }
        values.truncate(self.primal.returns.len());
        out.values = values;
        Ok(run)
    }

    /// An empty tape, if the gradient has one.
    fn tape(&self) -> Result<Option<Workspace>, Error> {
        if !self.params.contains(&Role::Workspace) {
            return Ok(None);
        }
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut tape = match free {
            Some(tape) => tape,
            None => Workspace::new(self.capacity, 2).map_err(|e| Error::Usage(e.to_string()))?,
        };
        tape.reset();
        Ok(Some(tape))
    }

    fn check(&self, args: &[Arg], along: &[Along], seeds: &[DataValue]) -> Result<(), Error> {
        let params = self.primal.params.len();
        let counts = [
            (args.len(), params, "arguments are given"),
            (along.len(), params, "directions are given"),
            (seeds.len(), self.primal.returns.len(), "seeds are given"),
        ];
        if let Some((is, want, what)) = counts.into_iter().find(|(is, want, _)| is != want) {
            return Err(Error::Usage(format!("{is} {what}, {want} are wanted")));
        }
        for (i, (spec, along)) in self.request.args.iter().zip(along).enumerate() {
            let wrong = match (spec.activity, along) {
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
fn again(request: &Request, nested: &Nested) -> Request {
    let spec = |i: usize| ArgSpec { promises: Promises::default(), ..request.args[i] };
    let args = nested.params.iter().map(|role| match *role {
        Role::Primal(i) | Role::Shadow(i) => spec(i),
        Role::Seed(_) | Role::Direction(_) => ArgSpec::CONST,
        Role::Workspace => ArgSpec::duplicated(Elem::Pointer),
    });
    let results = nested.results.iter().map(|r| match r {
        Given::Value(_) => ResultActivity::Const,
        Given::Cotangent(_) | Given::Tangent(_) => ResultActivity::Active,
    });
    Request { results: results.collect(), ..Request::new(nested.func, args) }
}
