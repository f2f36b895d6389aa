//! Errors between a program and its gradient, and traps of runs.
//!
//! **Question.** What can go wrong, and whose is it to mend?
//!
//! **Answer.** [`Error`] has a class for each answer: the input is outside of what is supported
//! ([`Error::Diagnostics`]), the primal trapped or a run-time check failed ([`Error::Trap`]), the
//! caller broke a documented precondition ([`Error::Usage`]). Anything else is a bug in Brolga and
//! says so ([`Error::Internal`]). A [`Trap`] names the instruction of the primal, as far as it is
//! known. [`Error::has_no_batch`] and [`Error::is_too_wide`] say where one direction may do if
//! several do not. `caught` makes an internal error of a panic.
//!
//! **Cost.** None, where nothing goes wrong. A trap is boxed, so that a result that holds none is
//! short.

use brolga_ir::{Diagnostics, Program, panics};
use cranelift_codegen::ir;

/// Run a stage of the work on a program, with stack enough for that; a panic becomes an internal
/// error.
pub(crate) fn caught<R: Send>(
    stage: &'static str,
    program: &Program,
    f: impl FnOnce() -> Result<R, Error> + Send,
) -> Result<R, Error> {
    let bodies = program.funcs.values().filter_map(|f| f.body.as_ref());
    let insts = bodies.map(|body| body.dfg.num_insts()).sum();
    brolga_runtime::ample(insts, || panics::catch(f)).unwrap_or_else(|message| Err(Error::Internal { stage, message }))
}

/// A run that did not finish: the primal trapped, or one of our own run-time checks failed.
///
/// ```
/// # use brolga::{Error, Options, Primal, cranelift_codegen::data_value::DataValue};
/// # let text = "function %f(i32) -> i32 { block0(v0: i32): v1 = sdiv v0, v0 return v1 }";
/// # let mut program = brolga::Program::new();
/// # let f = program.define("f", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
/// let primal = Primal::new(&program, &[f], &Options::default())?;
/// // SAFETY: the function accesses no memory.
/// let Err(Error::Trap(trap)) = (unsafe { primal.call(f, &[DataValue::I32(0)]) }) else { panic!("it divides by zero") };
/// assert_eq!((&trap.code[..], &trap.function[..], trap.phase), ("int_divz", "f", "primal"));
/// assert!(trap.to_string().starts_with("trap int_divz: "));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Trap code in CLIF's spelling (`int_divz`, `heap_oob`, `user3`), or for our own checks
    /// `tape_full`, `unknown_callee`, `untracked_bits`, ….
    pub code: String,
    /// Symbol of the primal function.
    pub function: String,
    /// What its source calls it, if that is known and is not the symbol.
    pub source_name: Option<String>,
    /// Block of the primal instruction.
    pub block: Option<ir::Block>,
    /// The primal instruction.
    pub inst: Option<ir::Inst>,
    /// Its text.
    pub inst_text: Option<String>,
    /// Where the instruction stands in the input: see [`brolga_ir::position`].
    pub line: Option<u32>,
    /// The calls that were replaced by the bodies of what they call, if the function had been put
    /// into others so ([`brolga_ir::Inline`]): the innermost first, as `%f, block0, inst3, line
    /// 12`.
    pub inlined: Vec<String>,
    /// Whether it happened in `primal`, `forward` or `pullback`.
    pub phase: &'static str,
    /// One sentence that explains the code.
    pub message: String,
}

impl std::fmt::Display for Trap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "trap {}: {}", self.code, self.message)?;
        write!(f, "\n  --> %{}", self.function)?;
        if let Some(b) = self.block {
            write!(f, ", {b}")?;
        }
        if let Some(i) = self.inst {
            write!(f, ", {i}")?;
        }
        if let Some(l) = self.line {
            write!(f, ", {}", brolga_ir::position(l))?;
        }
        write!(f, " ({})", self.phase)?;
        if let Some(t) = &self.inst_text {
            write!(f, "\n   |  {t}")?;
        }
        for note in self.notes() {
            write!(f, "\n  note: {note}")?;
        }
        Ok(())
    }
}

impl Trap {
    /// What else is known of the place, in sentences.
    ///
    /// ```
    /// # use brolga::Trap;
    /// let trap = Trap {
    ///     source_name: Some("mean(xs)".to_owned()),
    ///     inlined: vec!["%main, block0, inst2".to_owned()],
    /// #   code: "int_divz".to_owned(), function: "mean".to_owned(), block: None, inst: None, inst_text: None, line: None,
    /// #   phase: "primal", message: "a division by zero".to_owned(),
    ///     // what every trap has
    /// };
    /// let notes: Vec<String> = trap.notes().collect();
    /// assert_eq!(notes, ["inlined into %main, block0, inst2", "the function is mean(xs)"]);
    /// ```
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let inlined = self.inlined.iter().map(|call| format!("inlined into {call}"));
        inlined.chain(self.source_name.iter().map(|name| format!("the function is {name}")))
    }
}

impl Error {
    /// Whether a program was refused because it cannot be derived for several directions at once
    /// (AD0180): for one it can be, unless something else is said.
    ///
    /// ```
    /// use brolga::{Diagnostic, Diagnostics, Error};
    /// let refused = |code| Error::from(Diagnostics::from(Diagnostic::new(code, "it has no derivative")));
    /// assert!(refused("AD0180").has_no_batch() && !refused("AD0150").has_no_batch());
    /// ```
    pub fn has_no_batch(&self) -> bool {
        matches!(self, Error::Diagnostics(all) if all.0.iter().any(|d| d.code == "AD0180"))
    }

    /// Whether one direction at a time may do where several at once do not: they are refused, or
    /// their frames have filled the stack.
    ///
    /// ```
    /// # use brolga::{Diagnostic, Diagnostics, Error, Trap};
    /// # let stopped = |code: &str| Error::Trap(Box::new(Trap {
    /// #     code: code.to_owned(), function: "f".to_owned(), source_name: None, block: None, inst: None, inst_text: None,
    /// #     line: None, inlined: Vec::new(), phase: "forward", message: String::new(),
    /// # }));
    /// assert!(stopped("stk_ovf").is_too_wide() && !stopped("int_divz").is_too_wide());
    /// assert!(Error::from(Diagnostics::from(Diagnostic::new("AD0180", "it has no batch"))).is_too_wide());
    /// ```
    pub fn is_too_wide(&self) -> bool {
        self.has_no_batch() || matches!(self, Error::Trap(t) if t.code == "stk_ovf")
    }
}

/// Anything that can go wrong between a program and its gradient.
///
/// ```
/// # use brolga::{ArgSpec, DerivedRule, Error, Mode, Options, Program, Request};
/// # use brolga::cranelift_codegen::data_value::DataValue;
/// // A function that divides integers, and one that calls what is not known.
/// let text = "function %f(i32, f64) -> i32 {
///     block0(v0: i32, v1: f64):
///         v2 = sdiv v0, v0
///         return v2
/// }
/// function %g(f64) -> f64 {
///     fn0 = %mystery(f64) -> f64
///     block0(v0: f64):
///         v1 = call fn0(v0)
///         return v1
/// }";
/// let mut program = Program::new();
/// let funcs = cranelift_reader::parse_functions(text).expect("it is CLIF");
/// let names = ["f", "g"].into_iter().zip(funcs);
/// let keys: Vec<_> = names.map(|(name, func)| program.define(name, func, |_| 0).expect("they are new")).collect();
/// let derive = |f, args: Vec<ArgSpec>| {
///     DerivedRule::new(&program, &Request::new(f, args), &Options { mode: Mode::Split, ..Options::default() })
/// };
/// let Err(e) = derive(keys[1], vec![ArgSpec::ACTIVE]) else { panic!("no rule is known") };
/// assert!(matches!(&e, Error::Diagnostics(all) if all.0[0].code == "AD0150"));
/// assert!(!e.has_no_batch() && !e.is_too_wide());
///
/// let rule = derive(keys[0], vec![ArgSpec::CONST, ArgSpec::ACTIVE])?;
/// // SAFETY: there is no memory.
/// let Err(Error::Trap(trap)) = (unsafe { rule.primal(&[DataValue::I32(0), DataValue::F64(0.0.into())]) }) else {
///     panic!("it divides by zero")
/// };
/// assert_eq!((&trap.code[..], &trap.function[..], trap.notes().count()), ("int_divz", "f", 0));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The program cannot be differentiated as asked; every problem is listed.
    #[error("{0}")]
    Diagnostics(#[from] Diagnostics),
    /// The run did not finish. The rule can be called again.
    #[error("{0}")]
    Trap(Box<Trap>),
    /// Wrong number or type of arguments, seeds or shadows.
    #[error("{0}")]
    Usage(String),
    /// A bug in Brolga.
    #[error("internal error in stage {stage}: {message}")]
    Internal {
        /// The stage that failed.
        stage: &'static str,
        /// What happened, with the dump where there is one.
        message: String,
    },
}
