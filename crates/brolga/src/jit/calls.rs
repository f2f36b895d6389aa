//! Calls of rules: the primal, the forward pass, and the gradient in one call.
//!
//! **Question.** Arguments, shadows and seeds are values of Rust. How do they get into generated
//! code, and results and cotangents out of it?
//!
//! **Answer.** What is given is checked against signature and request, and written to ABI values
//! ([`AbiValue`]): arguments, deltas of shadows, the tape, seeds. An entry point runs on the ABI
//! values and leaves results there. [`DerivedRule::gradient`] runs one function of both halves, or
//! a pair one after the other; [`DerivedRule::forward`] runs the first half, and gives a
//! [`Pullback`] that owns the tape. After the last half it is asked whether all cotangents that
//! moved in pieces have come together.
//!
//! **Errors.** [`Error::Usage`] for what does not fit; [`Error::Trap`] where the code traps, and
//! for floats whose bits could not be followed.
//!
//! **Safety.** The caller says that pointers are valid, and that shadows are as large as what they
//! are shadows of and laid out alike.
//!
//! **Cost.** A check and a copy of 16 bytes for each argument, seed and result. In the steady state
//! the calls that write to vectors of the caller's allocate nothing; of floats that move in pieces,
//! the places are listed for each call.

use brolga_ir::inst::Check;
use brolga_ir::{ArgActivity, ResultActivity};
use brolga_runtime::pieces::StrayPieces;
use brolga_runtime::{Lease, WorkAndSpan};
use cranelift_codegen::data_value::DataValue;

use super::abi_values::{AbiValue, any_nan, check_args, enter, fits, read, with_abi_values, write};
use super::arg::Arg;
use super::declared::{self, ShadowPlaces};
use super::rule::{DerivedRule, RootEntries};
use super::runs::{Pullback, Run};
use super::traps::{Phase, explained};
use crate::{Error, Trap};

impl DerivedRule {
    /// Call an entry point; everything is passed and returned in ABI values.
    pub(super) unsafe fn enter(&self, phase: Phase, entry: usize, abi_values: &mut [AbiValue]) -> Result<(), Error> {
        // SAFETY: our contract.
        unsafe { enter(self.0.code(), &self.0.program, phase, entry, abi_values) }
    }

    /// Whether every cotangent that moved in pieces has been put together again. Only here it is
    /// known that none is still to come.
    pub(super) fn all_arrived(
        &self,
        tape: Option<&mut Lease>,
        places: &ShadowPlaces,
        before: &[u8],
        is_unknown: impl FnOnce() -> bool,
    ) -> Result<(), Error> {
        let mut tape = tape;
        // Of memory of which it is not known what it holds, what is still poisoned holds integers.
        let of_floats = tape.as_ref().is_some_and(|tape| tape.has_poison()) && places.any_poison(true);
        let poisoned = tape.as_mut().is_some_and(|tape| tape.forget_poison());
        let (at, holds) = (|window| places.at(window as u64), |byte| places.has_float(byte as u64));
        let ended = tape.map_or(Ok(()), |tape| tape.end_pullback(&at, &holds));
        let message = match ended {
            Err(StrayPieces(at)) => {
                PIECES_LEFT.to_owned() + &at.and_then(|at| places.tell(at as u64)).unwrap_or_default()
            }
            Ok(()) if places.other_floats_have_moved(before) => OTHER_FLOATS.to_owned(),
            Ok(()) if of_floats || poisoned && (is_unknown() || places.any_poison(false)) => UNKNOWN.to_owned(),
            Ok(()) => return Ok(()),
        };
        Err(self.untracked("pullback", message))
    }

    /// Bits of floats were not followed, of which there is more to say than an instruction.
    pub(super) fn untracked(&self, phase: &'static str, message: String) -> Error {
        let primal = &self.0.program.funcs[self.0.request.func];
        Error::Trap(Box::new(Trap {
            code: Check::UntrackedBits.name().to_owned(),
            function: primal.symbol.clone(),
            source_name: primal.source_name(),
            block: None,
            inst: None,
            inst_text: None,
            line: None,
            inlined: Vec::new(),
            phase,
            message,
        }))
    }

    /// Run the primal alone, as compiled by the same Cranelift.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// # let double = |x: f64| DataValue::F64(x.into());
    /// // SAFETY: the function accesses no memory.
    /// assert_eq!(unsafe { rule.primal(&[double(3.0)]) }?, [double(9.0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for arguments that do not fit, [`Error::Trap`] if it traps.
    ///
    /// # Safety
    /// Pointers among the arguments must be valid for what the primal does with them.
    pub unsafe fn primal(&self, args: &[DataValue]) -> Result<Vec<DataValue>, Error> {
        let mut results = Vec::with_capacity(self.0.signature.returns.len());
        // SAFETY: our contract.
        unsafe { self.primal_into(args, &mut results) }?;
        Ok(results)
    }

    /// [`Self::primal`] into a vector of the caller's: allocates nothing if that has room.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// # let double = |x: f64| DataValue::F64(x.into());
    /// let mut values = Vec::new();
    /// // SAFETY: the function accesses no memory.
    /// unsafe { rule.primal_into(&[double(3.0)], &mut values) }?;
    /// assert_eq!(values, [double(9.0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::primal`].
    ///
    /// # Safety
    /// As [`Self::primal`].
    pub unsafe fn primal_into(&self, args: &[DataValue], results: &mut Vec<DataValue>) -> Result<(), Error> {
        check_args(&self.0.signature, args.iter())?;
        let inner = &*self.0;
        let (primal, entry) = self.compiled_primal()?;
        let returns = &inner.signature.returns;
        with_abi_values(args.len().max(returns.len()), |abi_values| {
            for (c, a) in abi_values.iter_mut().zip(args) {
                write(c, a);
            }
            // SAFETY: our contract.
            unsafe { enter(&primal.code, &inner.program, Phase::Primal, *entry, abi_values) }?;
            results.clear();
            results.extend(abi_values.iter().zip(returns).map(|(c, r)| read(c, r.value_type)));
            Ok(())
        })
    }

    /// Run the forward pass: the primal results, bit for bit, and the pullback of this run.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// # let double = |x: f64| DataValue::F64(x.into());
    /// // SAFETY: the function accesses no memory.
    /// let (values, mut pullback) = unsafe { rule.forward(&[Arg::new(double(3.0))]) }?;
    /// assert_eq!(values, [double(9.0)]);
    /// // SAFETY: the function accesses no memory.
    /// assert_eq!(unsafe { pullback.call(&[double(1.0)]) }?, [Some(double(6.0))]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Self::primal`]; also if a duplicated argument has no shadow, if a shadow overlaps a
    /// primal as far as their lengths are declared, or if the tape is full.
    ///
    /// # Safety
    /// As for [`Self::primal`]; every shadow must be as large as its primal and laid out alike, and
    /// stay valid while the pullback is used.
    pub unsafe fn forward(&self, args: &[Arg]) -> Result<(Vec<DataValue>, Pullback), Error> {
        let mut results = Vec::with_capacity(self.0.signature.returns.len());
        // SAFETY: our contract.
        let pullback = unsafe { self.forward_into(args, &mut results) }?;
        Ok((results, pullback))
    }

    /// A tape for a run with these arguments.
    pub(super) fn begin(&self, args: &[Arg]) -> Result<Lease, Error> {
        let inner = &*self.0;
        let mut tape = inner.pool.lease().map_err(|e| Error::Usage(e.to_string()))?;
        if inner.debug || inner.keeps_objects {
            declared::register(args, &inner.request.args, &mut tape);
        }
        if let Some(Arg { value: DataValue::I64(base), floats: Some(all), .. }) = args.first().filter(|_| inner.numbers)
        {
            tape.know_floats(*base as u64, all.clone());
        }
        if let Some(instance) = inner.program.instance.as_ref().and_then(|i| declared::shared(i, args.first()?)) {
            tape.share_instance(instance);
        }
        if inner.program.unaligned_doubles {
            tape.doubles_may_lie_across();
        }
        Ok(tape)
    }

    /// What the caller has said of floats in memory, if a pullback is going to ask.
    pub(super) fn places(&self, args: &[Arg]) -> ShadowPlaces {
        let known = if self.0.pieces || self.0.numbers {
            ShadowPlaces::of(args, &self.0.request.args)
        } else {
            ShadowPlaces::default()
        };
        known.beside(args, self.0.guessed)
    }

    pub(super) fn check_args(&self, args: &[Arg]) -> Result<(), Error> {
        let inner = &*self.0;
        check_args(&inner.signature, args.iter().map(|a| &a.value))?;
        if inner.debug && !brolga_runtime::traps::handlers_are_in_place() {
            let message = "the signal handlers that turn traps into errors have been replaced: let the new ones pass on what \
                           they do not know, or call `brolga::install_handlers` behind them";
            return Err(Error::Usage(message.to_owned()));
        }
        let width = inner.width as u64;
        declared::check(args, &inner.request, inner.debug, inner.forks, width, |i| self.overwrites(i))
    }

    /// Write arguments, deltas and the tape to the first ABI values.
    pub(super) fn fill(
        &self,
        abi_values: &mut [AbiValue],
        args: &[Arg],
        tape: Option<&mut Lease>,
    ) -> Result<(), Error> {
        for (c, a) in abi_values.iter_mut().zip(args) {
            write(c, &a.value);
        }
        let deltas = &self.0.abi.deltas;
        for (k, &i) in deltas.iter().enumerate() {
            let DataValue::I64(p) = args[i].value else { unreachable!("checked before") };
            let delta = match (args[i].shadow, p) {
                // Nothing can be behind a null pointer.
                (0, 0) => 0,
                (0, _) => return Err(Error::Usage(format!("argument {i} is duplicated, but has no shadow"))),
                (s, p) => (s as i64).wrapping_sub(p.wrapping_mul(self.0.width as i64)),
            };
            if delta == 0 && args[i].shadow != 0 && self.0.width != 1 {
                let message = format!("the shadow of argument {i} lies at {} times its address: move it", self.0.width);
                return Err(Error::Usage(message));
            }
            write(&mut abi_values[args.len() + k], &DataValue::I64(delta));
        }
        write(&mut abi_values[args.len() + deltas.len()], &DataValue::I64(tape.map_or(0, |t| t.as_mut_ptr() as i64)));
        Ok(())
    }

    pub(super) fn check_seeds(&self, seeds: &[DataValue]) -> Result<(), Error> {
        let (returns, width) = (&self.0.signature.returns, self.0.width);
        if seeds.len() != returns.len() * width {
            let (is, want) = (seeds.len(), returns.len() * width);
            let each = if width == 1 { "" } else { ", one per result, in each set" };
            return Err(Error::Usage(format!("{is} seeds are given, {want} are wanted{each}")));
        }
        (0..width).try_for_each(|k| self.check_set(&seeds[k * returns.len()..][..returns.len()]))
    }

    /// One set of seeds.
    pub(super) fn check_set(&self, seeds: &[DataValue]) -> Result<(), Error> {
        let returns = &self.0.signature.returns;
        for (i, activity) in self.0.request.results.iter().enumerate() {
            let (want, name) = match activity {
                ResultActivity::Active | ResultActivity::Duplicated => continue,
                ResultActivity::Unit => (1.0, "one"),
                ResultActivity::Const => (0.0, "zero"),
            };
            let is = match seeds[i] {
                DataValue::F64(x) => x.as_f64(),
                DataValue::F32(x) => x.as_f32().into(),
                _ => continue,
            };
            if is != want {
                let message =
                    format!("seed {i} is {}, but the derivative was asked for with a seed of {name}", seeds[i]);
                return Err(Error::Usage(message));
            }
        }
        for &i in &self.0.abi.seeds {
            if !fits(&seeds[i], returns[i].value_type) {
                let (is, want) = (seeds[i].ty(), returns[i].value_type);
                return Err(Error::Usage(format!("seed {i} has type {is}, {want} is wanted")));
            }
        }
        Ok(())
    }

    /// Cotangents by argument, from ABI values that hold those of active arguments one after the
    /// other.
    pub(super) fn cotangents(&self, abi_values: &[AbiValue], out: &mut Vec<Option<DataValue>>) {
        let inner = &*self.0;
        let n = inner.request.args.len();
        out.clear();
        out.resize(n * inner.width, None);
        if inner.width == 1 {
            for (k, &i) in inner.abi.cotangents.iter().enumerate() {
                out[i] = Some(read(&abi_values[k], inner.cotangent_types[k]));
            }
        } else {
            let params = &inner.signature.params;
            self.read_wide(abi_values, &inner.abi.cotangents, params, |k, i, ct| out[k * n + i] = Some(ct));
        }
        debug_assert!(
            inner.request.args.iter().zip(&*out).all(|(a, o)| (a.activity == ArgActivity::Active) == o.is_some())
        );
    }

    /// Value and gradient at once: `results` are the primal's (none in
    /// [`Mode::Gradient`](crate::Mode::Gradient)), `cotangents` one entry per argument as from
    /// [`Pullback::call`], for one seed per result. A rule that was derived split runs its two
    /// functions one after the other. In the steady state this allocates nothing.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// # let double = |x: f64| DataValue::F64(x.into());
    /// let (mut values, mut slopes) = (Vec::new(), Vec::new());
    /// // SAFETY: the function accesses no memory.
    /// unsafe { rule.gradient(&[Arg::new(double(3.0))], &[double(0.5)], &mut values, &mut slopes) }?;
    /// assert_eq!((values, slopes), (vec![double(9.0)], vec![Some(double(3.0))]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Self::forward`] and [`Pullback::call`].
    ///
    /// # Safety
    /// As for [`Self::forward`].
    pub unsafe fn gradient(
        &self,
        args: &[Arg],
        seeds: &[DataValue],
        results: &mut Vec<DataValue>,
        cotangents: &mut Vec<Option<DataValue>>,
    ) -> Result<Run, Error> {
        // SAFETY: our contract.
        self.counted(|| unsafe { self.now().gradient_uncounted(args, seeds, results, cotangents) })
    }

    /// The same, of this rule.
    pub(super) unsafe fn gradient_uncounted(
        &self,
        args: &[Arg],
        seeds: &[DataValue],
        results: &mut Vec<DataValue>,
        cotangents: &mut Vec<Option<DataValue>>,
    ) -> Result<Run, Error> {
        let inner = &*self.0;
        if let RootEntries::Tangent { .. } = inner.derived {
            return Err(Error::Usage(FORWARD_MODE.to_owned()));
        }
        let RootEntries::Combined { entry, results: wanted, segment } = inner.derived else {
            // SAFETY: our contract.
            let mut pullback = unsafe { self.forward_uncounted(args, results) }?;
            // SAFETY: our contract.
            unsafe { pullback.call_uncounted(seeds, cotangents) }?;
            return Ok(Run { rule: pullback.rule, tape: Some(pullback.tape) });
        };
        self.check_seeds(seeds)?;
        self.check_args(args)?;
        let mut tape = if segment { Some(self.begin(args)?) } else { None };
        let returns = if wanted { &inner.signature.returns[..] } else { &[] };
        let fixed = args.len() + inner.abi.deltas.len() + 1;
        let n = (fixed + inner.abi.seeds.len()).max(returns.len() + inner.abi.cotangents.len());
        let places = self.places(args);
        let before = places.other_floats();
        with_abi_values(n, |abi_values| {
            self.fill(abi_values, args, tape.as_mut())?;
            for (c, &i) in abi_values[fixed..].iter_mut().zip(&inner.abi.seeds) {
                write(c, &seeds[i]);
            }
            // SAFETY: our contract; the segment is ours alone.
            unsafe { self.enter(Phase::Combined, entry, abi_values) }
                .map_err(|e| explained(self.0.of_runs(), Phase::Combined, e, tape.as_ref()))?;
            self.cotangents(&abi_values[returns.len()..], cotangents);
            self.all_arrived(tape.as_mut(), &places, &before, || any_nan(cotangents))?;
            results.clear();
            results.extend(abi_values.iter().zip(returns).map(|(c, r)| read(c, r.value_type)));
            Ok(Run { rule: self.clone(), tape })
        })
    }

    /// [`Self::forward`] into a vector of the caller's. In the steady state (the tape of an earlier
    /// run has been given back, the vector has room) this allocates nothing.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// # let double = |x: f64| DataValue::F64(x.into());
    /// let mut values = Vec::new();
    /// // SAFETY: the function accesses no memory.
    /// let mut pullback = unsafe { rule.forward_into(&[Arg::new(double(3.0))], &mut values) }?;
    /// assert_eq!(values, [double(9.0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::forward`].
    ///
    /// # Safety
    /// As [`Self::forward`].
    pub unsafe fn forward_into(&self, args: &[Arg], results: &mut Vec<DataValue>) -> Result<Pullback, Error> {
        // SAFETY: our contract.
        self.counted(|| unsafe { self.now().forward_uncounted(args, results) })
    }

    /// The same, of this rule.
    pub(super) unsafe fn forward_uncounted(
        &self,
        args: &[Arg],
        results: &mut Vec<DataValue>,
    ) -> Result<Pullback, Error> {
        let inner = &*self.0;
        let RootEntries::Pair { forward, .. } = inner.derived else {
            let one_function =
                "this rule was derived as one function (Mode::Combined): call `gradient`, or derive it split";
            let forward_mode = matches!(inner.derived, RootEntries::Tangent { .. });
            return Err(Error::Usage(if forward_mode { FORWARD_MODE } else { one_function }.to_owned()));
        };
        self.check_args(args)?;
        let mut tape = self.begin(args)?;
        let returns = &inner.signature.returns;
        let n = (args.len() + inner.abi.deltas.len() + 1).max(returns.len() + inner.abi.n_result_deltas);
        with_abi_values(n, |abi_values| {
            self.fill(abi_values, args, Some(&mut tape))?;
            // SAFETY: our contract; the segment is ours alone.
            unsafe { self.enter(Phase::Forward, forward, abi_values) }
                .map_err(|e| explained(self.0.of_runs(), Phase::Forward, e, Some(&tape)))?;
            results.clear();
            results.extend(abi_values.iter().zip(returns).map(|(c, r)| read(c, r.value_type)));
            let (executed, places) = ([tape.executed(), WorkAndSpan::default()], self.places(args));
            Ok(Pullback { rule: self.clone(), tape, called: false, places, executed })
        })
    }
}

/// What is said of a rule that has no pullback.
const FORWARD_MODE: &str = "this rule was derived in forward mode (Mode::Tangent): call `tangent`";

/// What is said of cotangents that moved in pieces and did not come together.
const PIECES_LEFT: &str = "a cotangent that moved in pieces could not be put together again: a part of a float was moved without the others, or \
                           one float was made of two";

/// What is said where a cotangent is not known.
const UNKNOWN: &str = "the bits of a float have become a number, by a conversion of an integer, or were stored as an integer in memory that has no \
                       shadow, and how what follows depends on the float is not known: its cotangents are NaN. Use float instructions, or a function \
                       of the C library by name; give the memory a shadow (duplicated)";

/// What is said where floats have moved that are of another size than those of the program.
const OTHER_FLOATS: &str = "words of memory were moved, or overwritten with numbers, as floats of the size that the program itself loads and stores, but what lies \
                            there are floats of another size, as the caller has said: their cotangents cannot be told apart. Load or store one of them as a float in \
                            the program";
