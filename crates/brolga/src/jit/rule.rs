//! A compiled derivative: how it is made, and what is to be known of it.
//!
//! **Question.** A caller has a program and a request. How does it get code, and what can it ask of
//! that?
//!
//! **Answer.** [`DerivedRule::new`] derives and compiles, with the effort that the options say; all
//! clones share one `RuleData`, with the code, the entry points (`RootEntries`), the pool of tapes
//! and the captures. Where the effort is [tiered](Effort::Tiered), [`DerivedRule::settle`] or
//! enough calls make a second rule, which serves the calls after it. Methods say what there is: the
//! signature, the CLIF, the bytes of code, addresses, loops that record all iterations, shadows
//! that are overwritten.
//!
//! **Errors.** [`Error::Diagnostics`] for what the program cannot be derived for; [`Error::Usage`]
//! for options and results that are not for rules. A panic on an input becomes an internal error.
//!
//! **Cost.** One derivation and compilation; with tiers, one quick and one full. The primal is
//! compiled when it is called first, and text is made when it is asked for first. A clone is a
//! reference. Until a rule is settled, each call reads the clock twice.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use brolga_ir::driver::Driver;
use brolga_ir::{Effort, Mode, Options, Program, Request, ResultActivity, TapeKind};
use brolga_runtime::{CaptureTable, DataSpan, DerivedPair, Plan, Pool, StateFolder};
use brolga_transform::{Abi, Derivation, LoopOutcome};
use cranelift_codegen::ir::{Signature, Type};

use super::compile::{self, CompiledModule, ModuleAddition};
use super::isa::host_isa;
use super::tasks;
use super::tiers::{Sharing, Tier, Tiers, tiered};
use super::traps::{CodeMap, RunContext};
use crate::Error;

/// What clones of a rule share.
pub(super) struct RuleData {
    pub(super) compiled: Arc<CompiledModule>,
    /// If it is the second derivative in that module: where its functions lie, and all others.
    pub(super) added: Option<ModuleAddition>,
    pub(super) program: Program,
    pub(super) request: Request,
    /// The root's derivative: forward pass and pullback, or the combined function.
    pub(super) emitted: compile::RootBodies,
    /// The same as text, once it has been asked for.
    pub(super) clif: OnceLock<(String, String)>,
    /// One per argument: its shadow is overwritten.
    pub(super) overwrites: Vec<bool>,
    /// Loops that were to be reversed from states.
    pub(super) loops: Vec<LoopOutcome>,
    /// Why tasks of forks run one after the other.
    pub(super) one_tape: Option<String>,
    pub(super) signature: Signature,
    pub(super) abi: Abi,
    pub(super) pool: Arc<Pool>,
    /// The primal and its entry point, once it has been called, or has failed to compile.
    pub(super) primal: OnceLock<Result<(ModuleAddition, usize), Error>>,
    pub(super) derived: RootEntries,
    pub(super) cotangent_types: Vec<Type>,
    /// How many derivatives a run computes.
    pub(super) width: usize,
    pub(super) debug: bool,
    /// States of loops lie in memory of arguments, whose lengths the run time has to know.
    pub(super) keeps_objects: bool,
    /// Whether the program forks.
    pub(super) forks: bool,
    /// Whether a function moves floats in pieces.
    pub(super) pieces: bool,
    /// Whether a function makes numbers of integers in memory.
    pub(super) numbers: bool,
    /// Of which sizes floats are that are moved as integers which may be none.
    pub(super) guessed: u8,
    /// Bytes of the tape beyond its limit.
    pub(super) spare: usize,
    /// If it was made with little effort, until calls have paid for more.
    pub(super) tiers: Option<Tiers<DerivedRule>>,
}

impl RuleData {
    /// What names that which has stopped a run.
    pub(super) fn of_runs(&self) -> RunContext<'_> {
        RunContext { code: self.code(), program: &self.program, loops: &self.loops }
    }

    /// Where a loop is, in words.
    pub(super) fn place(&self, l: &LoopOutcome) -> String {
        let origin = self.program.origin(l.func, l.inst);
        format!("loop at {}", self.program.place(origin.func, origin.inst))
    }

    /// Where all lies that the derivative may run.
    pub(super) fn code(&self) -> &CodeMap {
        self.added.as_ref().map_or(&self.compiled.code, |added| &added.code)
    }
}

/// Where states of time loops go that memory has no room for.
fn state_folder(options: &Options) -> Option<Arc<StateFolder>> {
    let folder = options.checkpoint_dir.clone()?;
    Some(Arc::new(StateFolder { folder, most: options.checkpoint_limit }))
}

/// The address of a function or data object, for the derivative that was compiled first, or for the
/// one that was added.
fn address(compiled: &CompiledModule, added: Option<&ModuleAddition>, symbol: &str) -> Option<usize> {
    added.map_or_else(|| compiled.address(symbol), |added| added.address(symbol))
}

/// Entry points of the root's derivative.
pub(super) enum RootEntries {
    Pair { forward: usize, pullback: usize },
    Combined { entry: usize, results: bool, segment: bool },
    Tangent { entry: usize, segment: bool },
}

/// A compiled derivative. Cheap to clone; clones share code and captures, which are immutable, so
/// threads may share one.
///
/// ```
/// use brolga::cranelift_codegen::data_value::DataValue;
/// use brolga::{Arg, ArgSpec, DerivedRule, Options, Program, Request};
/// let text = "function %square(f64) -> f64 {
///     block0(v0: f64):
///         v1 = fmul v0, v0
///         return v1
/// }";
/// let mut program = Program::new();
/// let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0).unwrap();
/// let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
/// // Before many calls: do not wait until they have paid for it.
/// rule.settle();
/// assert!(rule.is_settled());
/// let double = |x: f64| DataValue::F64(x.into());
/// let (mut values, mut cotangents) = (Vec::new(), Vec::new());
/// // SAFETY: the function accesses no memory.
/// unsafe { rule.gradient(&[Arg::new(double(3.0))], &[double(1.0)], &mut values, &mut cotangents) }?;
/// assert_eq!((values, cotangents), (vec![double(9.0)], vec![Some(double(6.0))]));
/// // What a pointer to a function would hold.
/// assert!(rule.address_of("square").is_some() && rule.address_of("cube").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DerivedRule(pub(super) Arc<RuleData>);

impl DerivedRule {
    /// Differentiate and compile. By default ([`Effort::Tiered`]) the rule is there soon, and
    /// becomes faster when its calls have taken as long as that takes.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// let request = Request::new(square, [ArgSpec::ACTIVE]);
    /// assert_eq!(DerivedRule::new(&program, &request, &Options::default())?.width(), 1);
    /// let typed = Options { tape: TapeKind::Typed, ..Options::default() };
    /// assert!(matches!(DerivedRule::new(&program, &request, &typed), Err(Error::Usage(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Diagnostics`] with every problem of the program as asked; [`Error::Usage`] for
    /// [`TapeKind::Typed`].
    pub fn new(program: &Program, request: &Request, options: &Options) -> Result<Self, Error> {
        if options.tape == TapeKind::Typed {
            let message = "a typed tape (TapeKind::Typed) is for derivatives that are derived again, not for rules";
            return Err(Error::Usage(message.to_owned()));
        }
        if request.results.contains(&ResultActivity::Duplicated) {
            let message = "a result is duplicated, but a rule returns no shadows (those of an `AdModule` do)";
            return Err(Error::Usage(message.to_owned()));
        }
        match options.effort {
            Effort::Tiered(made) => tiered(program, request, options, made),
            _ => Self::make(program, request, options, Sharing::Nothing),
        }
    }

    /// Whether this is a clone of another rule.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// let again = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// assert!(rule.is(&rule.clone()) && !rule.is(&again));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The rule for the next call.
    pub(super) fn now(&self) -> &Self {
        self.0.tiers.as_ref().and_then(Tiers::second).unwrap_or(self)
    }

    /// Whether the rule stays as it is: nothing faster is going to take its place.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// let options = Options { effort: Effort::Full, ..Options::default() };
    /// assert!(DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &options)?.is_settled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_settled(&self) -> bool {
        self.0.tiers.as_ref().is_none_or(Tiers::is_settled)
    }

    /// What calls take before a rule of full effort takes the place of one of little effort, unless
    /// there is none to come.
    #[doc(hidden)]
    pub fn price(&self) -> Option<Duration> {
        self.0.tiers.as_ref().map(Tiers::price)
    }

    /// Count what has been spent on calls that went past [`Self::gradient`] and [`Self::forward`],
    /// as by callers of code by its address.
    pub fn count(&self, spent: Duration) {
        if let Some(tiers) = &self.0.tiers {
            tiers.count(self, spent);
        }
    }

    /// Make the rule of full effort now, if one is to come. If it cannot be made, as for want of
    /// memory, that is no error: the first one runs on.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// rule.settle();
    /// assert!(rule.is_settled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn settle(&self) {
        if let Some(tiers) = &self.0.tiers {
            tiers.make(self);
        }
    }

    /// Call, and count what that takes.
    pub(super) fn counted<R>(&self, call: impl FnOnce() -> R) -> R {
        if self.is_settled() {
            return call();
        }
        let begin = Instant::now();
        let found = call();
        self.count(begin.elapsed());
        found
    }

    /// Compile a derivation, as it is: an effort that is [tiered](Effort::Tiered) is a full one.
    ///
    /// # Errors
    /// As [`Self::new`].
    #[doc(hidden)]
    pub fn from_derivation(d: Derivation, request: &Request, options: &Options) -> Result<Self, Error> {
        Self::compiled(d, request, options, Sharing::Nothing)
    }

    fn compiled(
        mut d: Derivation,
        request: &Request,
        options: &Options,
        beside: Sharing<'_, Self>,
    ) -> Result<Self, Error> {
        let primals = if let Sharing::Second { primals } = beside { Some(primals) } else { None };
        let (compiled, added, emitted) = match beside {
            Sharing::First(first) => {
                let compiled = Arc::clone(&first.0.compiled);
                let (added, emitted) = compile::add_second(&compiled, &mut d, request.func, options)?;
                (compiled, Some(added), emitted)
            }
            _ => {
                let (compiled, emitted) = compile::compile(&mut d, request.func, options, primals)?;
                (Arc::new(compiled), None, emitted)
            }
        };
        let address = |s: &str| address(&compiled, added.as_ref(), s);
        let at = |s: &str| address(s).expect("every symbol that was declared has an address");
        let pairs = d
            .captures
            .iter()
            .filter_map(|a| {
                // A function whose address compiled code has not taken cannot be called through a
                // pointer.
                Some(DerivedPair {
                    primal: address(&a.symbol)? as *const u8,
                    forward: at(&a.forward) as *const u8,
                    pullback: at(&a.pullback) as *const u8,
                    signature: a.signature,
                })
            })
            .collect();
        let captures =
            CaptureTable::new(pairs).map_err(|e| Error::Internal { stage: "captures", message: e.to_string() })?;
        let globals = d
            .program
            .data
            .values()
            .map(|o| DataSpan { address: address(&o.symbol).unwrap_or(0), size: o.bytes.len() })
            .collect();
        let f = &d.program.funcs[request.func];
        let (variant, returns, derived) = match d.combined {
            Some(w) => {
                let n = if w.results { f.signature.returns.len() } else { 0 };
                let entry = at(&format!("{}.entry", w.symbol));
                // Shadows of data are part of a run.
                let segment = w.segment || options.debug || d.program.data.values().any(|o| o.writable);
                let returns = w.func.signature.returns[n..].to_vec();
                let derived = match options.mode {
                    Mode::Tangent => RootEntries::Tangent { entry, segment },
                    _ => RootEntries::Combined { entry, results: w.results, segment },
                };
                (w.variant, returns, derived)
            }
            None => {
                let p = d.pairs.into_iter().next().expect("the first pair is the root's");
                let entry = |s: &str| at(&format!("{s}.entry"));
                let (forward, pullback) = (entry(&p.forward_symbol), entry(&p.pullback_symbol));
                let returns = p.pullback.signature.returns.clone();
                (p.variant, returns, RootEntries::Pair { forward, pullback })
            }
        };
        let pool = Pool::new(Plan {
            capacity: options.tape_limit.saturating_add(d.spare),
            captures: Some(Arc::new(captures)),
            globals,
            width: options.width as usize,
            states: state_folder(options),
            executor: tasks::executor(&d.program, options)?,
            task_floats: d.task_floats,
        });
        Ok(Self(Arc::new(RuleData {
            primal: OnceLock::new(),
            abi: Abi::of(&variant, &f.signature),
            cotangent_types: returns.iter().map(|r| r.value_type).collect(),
            derived,
            emitted,
            clif: OnceLock::new(),
            signature: f.signature.clone(),
            request: request.clone(),
            overwrites: d.overwrites,
            loops: d.loops,
            one_tape: d.one_tape,
            pieces: d.pieces,
            numbers: d.numbers,
            guessed: d.guessed,
            spare: d.spare,
            width: options.width as usize,
            debug: options.debug,
            keeps_objects: d.program.funcs.values().any(|f| f.driver.as_ref().is_some_and(Driver::keeps_objects)),
            forks: tasks::forks(&d.program),
            pool: Arc::new(pool),
            program: d.program,
            compiled,
            added,
            tiers: None,
        })))
    }

    /// The primal signature.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// assert_eq!(rule.signature(), &program.funcs[square].signature);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn signature(&self) -> &Signature {
        &self.0.signature
    }

    /// The root's derivative as CLIF, as the next call runs it: forward pass and pullback, or the
    /// combined function and nothing. If nothing else calls them, they take their arguments from
    /// memory, and leave results there, 16 bytes each.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// let options = Options { mode: Mode::Combined, ..Options::default() };
    /// let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &options)?;
    /// let (both, none) = rule.clif();
    /// assert!(both.contains("fmul") && none.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clif(&self) -> (&str, &str) {
        let inner = &*self.now().0;
        let text = |i: usize| inner.emitted.get(i).map(|f| f.display().to_string()).unwrap_or_default();
        let (a, b) = inner.clif.get_or_init(|| (text(0), text(1)));
        (a, b)
    }

    /// Bytes that can be recorded beyond [`Options::tape_limit`]: for the frame of a root that a
    /// callee serves ([`Derivation::spare`](brolga_transform::Derivation::spare)), and that
    /// otherwise would be on the stack.
    #[doc(hidden)]
    pub fn spare(&self) -> usize {
        self.now().0.spare
    }

    /// Bytes of machine code: of the derivative and what it calls, and of the primal once it has
    /// been called. What has been compiled with little effort stays there when something faster has
    /// taken its place, and counts.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// assert!(rule.code_bytes() > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn code_bytes(&self) -> usize {
        let module_code = self.0.primal.get().and_then(|p| p.as_ref().ok()).map(|p| &p.0.code);
        let bytes = module_code.unwrap_or_else(|| self.0.code()).code_bytes();
        match self.0.tiers.as_ref().and_then(Tiers::second) {
            // In one module, the later has it all.
            Some(second) if second.0.added.is_some() => bytes.max(second.code_bytes()),
            second => bytes + second.map_or(0, Self::code_bytes),
        }
    }

    /// The primal, which is compiled when it is asked for: a caller of gradients only should not
    /// wait for it.
    pub(super) fn compiled_primal(&self) -> Result<&(ModuleAddition, usize), Error> {
        let inner = &*self.0;
        // It is made once, so that it is made to be fast, whatever is derived.
        let options = inner.tiers.as_ref().map(Tiers::full);
        let add = || compile::add_primal(&inner.compiled, &inner.program, inner.request.func, options);
        let made = || crate::error::caught("compile", &inner.program, add);
        inner.primal.get_or_init(made).as_ref().map_err(Clone::clone)
    }

    /// Loops that were to be reversed from states ([`Options::checkpoints`]) and stay as they are:
    /// where each is, and why. They record all iterations.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// assert!(rule.loops_that_stay().is_empty()); // it has no loops
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn loops_that_stay(&self) -> Vec<String> {
        let loops = self.0.loops.iter();
        loops.filter_map(|l| Some(format!("{} {}", self.0.place(l), l.driver.as_ref().err()?))).collect()
    }

    /// Why tasks of the program's forks run one after the other in the derivative, on one tape;
    /// nothing if they run on threads, or if there are none.
    ///
    /// ```
    /// # use brolga::{ArgSpec, DerivedRule, Options, Request};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// assert_eq!(rule.tasks_on_one_tape(), None); // it has no tasks
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tasks_on_one_tape(&self) -> Option<&str> {
        self.0.one_tape.as_deref()
    }

    /// Whether the shadow of an argument that was declared [`fresh`](crate::Promises::fresh) is
    /// overwritten: it may hold anything before the call. Otherwise the caller fills it with zeros.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// assert!(!rule.overwrites(0)); // a float by value has no shadow
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn overwrites(&self, arg: usize) -> bool {
        self.0.overwrites.get(arg).copied().unwrap_or(false)
    }

    /// The address of a function or data object of the program, as the compiled code sees it. If
    /// the derivative has no use for it, the primal is compiled.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let rule = DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// assert!(rule.address_of("square").is_some_and(|address| address != 0));
    /// assert_eq!(rule.address_of("cube"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn address_of(&self, symbol: &str) -> Option<u64> {
        let found = address(&self.0.compiled, self.0.added.as_ref(), symbol);
        found.or_else(|| self.compiled_primal().ok()?.0.address(symbol)).map(|a| a as u64)
    }
}

impl Tier for DerivedRule {
    fn make(program: &Program, request: &Request, options: &Options, beside: Sharing<'_, Self>) -> Result<Self, Error> {
        let isa = host_isa(options)?;
        // A panic on an input is a bug of ours; an embedder should hear of it as an error.
        crate::error::caught("derive", program, || {
            let d = brolga_transform::derive_unverified(program, request, options, &*isa)?;
            Self::compiled(d, request, options, beside)
        })
    }

    fn with(mut self, tiers: Tiers<Self>) -> Self {
        Arc::get_mut(&mut self.0).expect("it has no clones yet").tiers = Some(tiers);
        self
    }

    fn settle(&self) {
        DerivedRule::settle(self);
    }

    fn link_primal(&self) {
        let _ = self.compiled_primal();
    }

    fn keeps(&self, second: &Self) -> bool {
        let overwrites = |i: usize| second.overwrites(i) || !self.overwrites(i);
        (0..self.0.request.args.len()).all(overwrites)
    }
}
