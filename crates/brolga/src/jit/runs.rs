//! Runs of a derivative: what a forward pass leaves for its pullback, and what can be asked of a
//! run of one function for both.
//!
//! **Question.** A forward pass has recorded. What owns the tape, how is it run back, and what has
//! the run done?
//!
//! **Answer.** A [`Pullback`] owns the tape and the rule whose code has recorded it, and may be
//! called with one set of seeds after the other. A [`Run`] of one function for both halves owns its
//! tape until it is dropped. Both say how many bytes were recorded, what time loops and inverses
//! have done ([`LoopReport`]), and what the run has added to shadows of data objects.
//!
//! **Errors.** [`Error::Usage`] for seeds that do not fit; [`Error::Trap`] where a cotangent cannot
//! be followed; an internal error if a debug run finds that more was pushed than popped.
//!
//! **Cost.** A call writes seeds and reads cotangents, and from the second one on fills the shadows
//! of data objects with zeros. It allocates nothing if the caller's vector has room, unless floats
//! of another size may have moved.

use std::time::Instant;

use brolga_ir::FuncKey;
use brolga_ir::time_loop::step_of;
use brolga_runtime::{InverseStats, Lease, LoopStats, Selection, WorkAndSpan};
use cranelift_codegen::data_value::DataValue;

use super::abi_values::{any_nan, with_abi_values, write};
use super::declared::ShadowPlaces;
use super::rule::{DerivedRule, RootEntries};
use super::traps::{Phase, explained};
use crate::Error;

/// A finished run of a combined function: what can still be asked about it. Dropping it gives its
/// tape back.
///
/// ```
/// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
/// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
/// # let mut program = brolga::Program::new();
/// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
/// # let double = |x: f64| DataValue::F64(x.into());
/// # let (mut values, mut slopes) = (Vec::new(), Vec::new());
/// let options = Options { mode: Mode::Combined, ..Options::default() };
/// let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &options)?;
/// // SAFETY: the function accesses no memory.
/// let run = unsafe { rule.gradient(&[Arg::new(double(3.0))], &[double(1.0)], &mut values, &mut slopes) }?;
/// // A square needs no tape, and there are no loops, inverses or data objects.
/// assert_eq!(run.tape_bytes(), 0);
/// assert_eq!((run.loop_stats(), run.inverse_stats()), Default::default());
/// assert!(run.loop_plans().is_empty() && run.data_shadow("state").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Run {
    pub(super) rule: DerivedRule,
    /// `None` if the function has no use for one.
    pub(super) tape: Option<Lease>,
}

impl Run {
    /// Bytes that the run recorded on the tape, at most at a time.
    pub fn tape_bytes(&self) -> usize {
        self.tape.as_ref().map_or(0, |t| t.bytes_used())
    }

    /// What the run's time loops have done, all together.
    pub fn loop_stats(&self) -> LoopStats {
        self.tape.as_ref().map_or_else(LoopStats::default, |t| t.loop_stats())
    }

    /// How its time loops were reversed, by steps.
    pub fn loop_plans(&self) -> Vec<LoopReport> {
        self.tape.as_ref().map_or_else(Vec::new, |t| loop_plans(&self.rule, t))
    }

    /// What calls that inverses undo have done, all together.
    pub fn inverse_stats(&self) -> InverseStats {
        self.tape.as_ref().map_or_else(InverseStats::default, |t| t.inverse_stats())
    }

    /// The shadow of a writable data object: what the run has added to it.
    pub fn data_shadow(&self, symbol: &str) -> Option<&[u8]> {
        data_shadow(&self.rule, self.tape.as_ref()?, symbol)
    }
}

/// How the time loops of a step were reversed, as far as its forward pass has decided that.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopReport {
    /// What it is called: `loop of %step`, or the place of a loop that is not marked.
    pub name: String,
    /// How many loops there were.
    pub runs: u64,
    /// Steps of the last one that the forward pass recorded.
    pub recorded: u64,
    /// How its other steps were reversed, if there were any, and what that was to cost.
    pub selection: Option<Selection>,
}

fn loop_plans(rule: &DerivedRule, tape: &Lease) -> Vec<LoopReport> {
    let (code, program) = (rule.0.code(), &rule.0.program);
    let name = |owner: FuncKey| match rule.0.loops.iter().find(|l| l.driver == Ok(owner)) {
        Some(outlined) => rule.0.place(outlined),
        None => format!("loop of %{}", step_of(&program.funcs[owner].symbol)),
    };
    let report = |plan: &brolga_runtime::LoopPlan| LoopReport {
        name: name(code.owner(plan.site)),
        runs: plan.runs,
        recorded: plan.recorded,
        selection: plan.selection,
    };
    tape.loop_plans().iter().map(report).collect()
}

fn data_shadow<'a>(rule: &DerivedRule, tape: &'a Lease, symbol: &str) -> Option<&'a [u8]> {
    let key = rule.0.program.data_object(symbol)?;
    rule.0.program.data[key].writable.then(|| tape.global_shadows().bytes(key.as_u32() as usize))?
}

/// The pullback of one forward run. May be called several times with different seeds; it owns the
/// run's tape.
///
/// ```
/// # use brolga::{Arg, ArgSpec, DerivedRule, Elem, Options, Request};
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
/// let request = Request::new(f, [ArgSpec::duplicated(Elem::F64), ArgSpec::ACTIVE]);
/// let rule = DerivedRule::new(&program, &request, &Options::default())?;
/// let double = |x: f64| DataValue::F64(x.into());
/// let (x, mut shadow) = ([3.0_f64], [0.0_f64]);
/// let at = Arg::duplicated_len(x.as_ptr() as u64, shadow.as_mut_ptr() as u64, 8);
/// let args = [at, Arg::new(double(2.0))];
/// let (mut values, mut cotangents) = (Vec::new(), Vec::new());
/// // SAFETY: the function reads one number, and the shadow is as long; both outlive the pullback.
/// let mut pullback = unsafe { rule.forward_into(&args, &mut values) }?;
/// for seed in [1.0, 10.0] {
///     // SAFETY: the same.
///     unsafe { pullback.call_into(&[double(seed)], &mut cotangents) }?;
///     assert_eq!(cotangents, [None, Some(double(9.0 * seed))]);
/// }
/// assert_eq!((values[0].clone(), shadow), (double(18.0), [12.0 * 11.0]));
/// assert!(pullback.tape_bytes() > 0 && pullback.data_shadow("state").is_none());
/// // SAFETY: the same.
/// unsafe { rule.primal_into(&[args[0].value.clone(), double(1.0)], &mut values) }?;
/// assert_eq!(values, [double(9.0)]);
/// # Ok::<(), brolga::Error>(())
/// ```
pub struct Pullback {
    pub(super) rule: DerivedRule,
    pub(super) tape: Lease,
    /// It has been called before, so that shadows of data objects hold what that call left there.
    pub(super) called: bool,
    pub(super) places: ShadowPlaces,
    /// What the forward run and the last call have executed.
    pub(super) executed: [WorkAndSpan; 2],
}

impl Pullback {
    /// Cotangents of the arguments for the given cotangents of the results (one per result; those
    /// of results that are not floats are ignored). Returns one entry per argument: `Some` for
    /// active arguments. Shadows accumulate.
    ///
    /// A rule of a [width](brolga_ir::Options::width) takes as many sets of seeds at once, and
    /// returns as many sets of cotangents, one after the other. Its shadows are laid out as those
    /// of [`DerivedRule::tangent`].
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// # let double = |x: f64| DataValue::F64(x.into());
    /// // SAFETY: the function accesses no memory.
    /// let (_, mut pullback) = unsafe { rule.forward(&[Arg::new(double(3.0))]) }?;
    /// for seed in [1.0, 0.5] {
    ///     // SAFETY: the same.
    ///     assert_eq!(unsafe { pullback.call(&[double(seed)]) }?, [Some(double(6.0 * seed))]);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for seeds that do not fit; [`Error::Trap`] if a cotangent reached something
    /// that cannot be followed.
    ///
    /// # Safety
    /// The memory that was passed to the forward run, primal and shadow, must still be valid.
    pub unsafe fn call(&mut self, seeds: &[DataValue]) -> Result<Vec<Option<DataValue>>, Error> {
        let mut out = Vec::with_capacity(self.rule.0.request.args.len());
        // SAFETY: our contract.
        unsafe { self.call_into(seeds, &mut out) }?;
        Ok(out)
    }

    /// [`Self::call`] into a vector of the caller's: allocates nothing if that has room.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// # let double = |x: f64| DataValue::F64(x.into());
    /// // SAFETY: the function accesses no memory.
    /// let (_, mut pullback) = unsafe { rule.forward(&[Arg::new(double(3.0))]) }?;
    /// let mut slopes = Vec::with_capacity(1);
    /// // SAFETY: the same.
    /// unsafe { pullback.call_into(&[double(1.0)], &mut slopes) }?;
    /// assert_eq!(slopes, [Some(double(6.0))]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::call`].
    ///
    /// # Safety
    /// As [`Self::call`].
    pub unsafe fn call_into(&mut self, seeds: &[DataValue], out: &mut Vec<Option<DataValue>>) -> Result<(), Error> {
        if self.rule.is_settled() {
            // SAFETY: our contract.
            return unsafe { self.call_uncounted(seeds, out) };
        }
        let begin = Instant::now();
        // SAFETY: our contract.
        let called = unsafe { self.call_uncounted(seeds, out) };
        self.rule.count(begin.elapsed());
        called
    }

    /// The same. It is not counted.
    pub(super) unsafe fn call_uncounted(
        &mut self,
        seeds: &[DataValue],
        out: &mut Vec<Option<DataValue>>,
    ) -> Result<(), Error> {
        let inner = &*self.rule.0;
        let RootEntries::Pair { pullback, .. } = inner.derived else { unreachable!("only a pair makes pullbacks") };
        self.rule.check_seeds(seeds)?;
        // Shadows of arguments are the caller's to reset; those of data objects are ours, and each
        // call begins with zeros. Pointers' shadows among them are not read again: the forward pass
        // has recorded what it needs of them.
        if std::mem::replace(&mut self.called, true) {
            self.tape.global_shadows_mut().zero();
        }
        self.tape.begin_pullback();
        self.tape.reset_counts();
        let before = self.places.other_floats();
        let seg = self.tape.as_mut_ptr() as i64;
        let (params, returns) = (&inner.signature.params, &inner.signature.returns);
        let n = (1 + self.rule.room(&inner.abi.seeds, returns)).max(self.rule.room(&inner.abi.cotangents, params));
        with_abi_values(n, |abi_values| {
            write(&mut abi_values[0], &DataValue::I64(seg));
            self.rule.write_wide(&mut abi_values[1..], &inner.abi.seeds, returns, |k, i| {
                Some(&seeds[k * returns.len() + i])
            });
            // SAFETY: our contract; the tape was recorded by this rule's forward pass and belongs
            // to this pullback.
            unsafe { self.rule.enter(Phase::Pullback, pullback, abi_values) }
                .map_err(|e| explained(self.rule.0.of_runs(), Phase::Pullback, e, Some(&self.tape)))?;
            self.executed[1] = self.tape.executed();
            self.rule.cotangents(abi_values, out);
            self.rule.all_arrived(Some(&mut self.tape), &self.places, &before, || any_nan(out))?;
            let left = self.tape.bytes_left();
            debug_assert!(inner.debug || left == 0, "a pullback pops everything that its forward pass pushed");
            if inner.debug && left != 0 {
                let message = format!("{left} bytes of the tape were pushed and not popped");
                return Err(Error::Internal { stage: "pullback", message });
            }
            Ok(())
        })
    }

    /// How many instructions of derived code the forward run has executed, and the last call of
    /// this, as CLIF has them; all zero but in a [debug run](brolga_ir::Options::debug). Functions
    /// that are called as they are do not count.
    pub fn executed(&self) -> [WorkAndSpan; 2] {
        self.executed
    }

    /// What time loops have done so far, all together: the forward run's, and all calls of this.
    pub fn loop_stats(&self) -> LoopStats {
        self.tape.loop_stats()
    }

    /// How the time loops of the forward run are reversed, by steps.
    pub fn loop_plans(&self) -> Vec<LoopReport> {
        loop_plans(&self.rule, &self.tape)
    }

    /// What calls that inverses undo have done so far, all together.
    pub fn inverse_stats(&self) -> InverseStats {
        self.tape.inverse_stats()
    }

    /// Bytes that the forward run recorded.
    pub fn tape_bytes(&self) -> usize {
        self.tape.bytes_used()
    }

    /// The recorded bytes, to be damaged by tests of what a debug run notices.
    #[doc(hidden)]
    #[doc(hidden)]
    pub fn tape_mut(&mut self) -> &mut [u8] {
        self.tape.tape_mut()
    }

    /// The shadow of a writable data object, as the last call left it.
    pub fn data_shadow(&self, symbol: &str) -> Option<&[u8]> {
        data_shadow(&self.rule, &self.tape, symbol)
    }
}
