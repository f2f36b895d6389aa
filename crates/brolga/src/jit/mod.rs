//! Derived rules: compiled forward pass and pullback.
//!
//! A [`DerivedRule`] is a pair of closures over one captures tuple. The captures are immutable;
//! everything that a run writes lives in a tape segment, taken from a pool for each forward run and
//! kept by its [`Pullback`]. So a rule is re-entrant, threads may share one, and a second call
//! allocates nothing.
//!
//! By default a rule is made with little effort, and another one, which is faster, takes its place
//! when its calls have paid for it (`tiers.rs`).

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use brolga_ir::inst::Check;
use brolga_ir::{ArgActivity, Effort, Mode, Options, Program, Request, ResultActivity, TapeKind};
use brolga_runtime::pieces::Stuck;
use brolga_runtime::{CaptureTable, DataSpan, DerivedPair, Lease, Plan, Pool, call_guarded};
use brolga_transform::{Abi, Derivation};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{Signature, Type};

use crate::{Error, Trap};

mod batch;
mod compile;
mod declared;
mod isa;
mod memory;
mod primal;
mod runs;
mod sincos;
mod tangent;
mod tiers;
mod traps;
mod units;

use compile::{Added, Compiled};
use declared::Places;
use tiers::{Tiers, tiered};
use traps::{CodeMap, Phase};

pub use isa::host_isa;
// For measurements alone.
#[doc(hidden)]
pub use compile::{is_better_plain, one_call_of_two};
#[doc(hidden)]
pub use isa::plain_isa;
pub use primal::Primal;
pub use runs::{Pullback, Run};

/// One argument of a call.
#[derive(Clone, Debug)]
pub struct Arg {
    /// The primal value; a pointer is an `I64` address.
    pub value: DataValue,
    /// Address of the shadow of a duplicated pointer. Ignored for other arguments.
    pub shadow: u64,
    /// Bytes behind a pointer, and as many behind its shadow, if the caller says so. Then an
    /// overlap of shadows with primals is refused, and a debug run checks every access of a shadow.
    pub len: Option<u64>,
    /// What the caller knows to be in memory behind a pointer when a run begins. Only programs ask
    /// that move floats in pieces, of memory that holds floats of several sizes.
    pub floats: Option<Arc<[Floats]>>,
}

/// Floats in memory, as the caller of a function has put them there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floats {
    /// Where they begin: bytes from the pointer.
    pub offset: u64,
    /// How many bytes they have together.
    pub len: u64,
    /// Bytes of each, 4 or 8. They lie at multiples of that. 0 if they are constants of the
    /// program, whose meaning is not known: if their cotangents cannot be put together, their
    /// shadow is NaN (as a double, and as singles), and the pullback does not trap.
    pub size: u32,
}

impl Arg {
    /// An argument without a shadow.
    pub fn new(value: DataValue) -> Self {
        Self { value, shadow: 0, len: None, floats: None }
    }

    /// A pointer and its shadow.
    pub fn duplicated(primal: u64, shadow: u64) -> Self {
        Self { shadow, ..Self::new(DataValue::I64(primal as i64)) }
    }

    /// A pointer and its shadow, with the length of both in bytes.
    pub fn duplicated_len(primal: u64, shadow: u64, len: u64) -> Self {
        Self::duplicated(primal, shadow).with_len(len)
    }

    /// The same argument, with floats that are known to lie behind it. It is taken on trust.
    pub fn with_floats(self, floats: Arc<[Floats]>) -> Self {
        Self { floats: Some(floats), ..self }
    }

    /// The same argument, with a declared length in bytes.
    pub fn with_len(self, len: u64) -> Self {
        Self { len: Some(len), ..self }
    }
}

/// What clones of a rule share.
struct Inner {
    compiled: Arc<Compiled>,
    /// If it is the second derivative in that module: where its functions lie, and all others.
    added: Option<Added>,
    program: Program,
    request: Request,
    /// The root's derivative: forward pass and pullback, or the combined function.
    emitted: compile::Shown,
    /// The same as text, once it has been asked for.
    clif: OnceLock<(String, String)>,
    /// One per argument: its shadow is overwritten.
    overwrites: Vec<bool>,
    signature: Signature,
    abi: Abi,
    pool: Arc<Pool>,
    /// The primal and its entry point, once it has been called, or has failed to compile.
    primal: OnceLock<Result<(Added, usize), Error>>,
    derived: Derived,
    cotangent_types: Vec<Type>,
    /// How many derivatives a run computes.
    width: usize,
    debug: bool,
    /// Whether a function moves floats in pieces.
    pieces: bool,
    /// Of which sizes floats are that are moved as integers which may be none.
    guessed: u8,
    /// Bytes of the tape beyond its limit.
    spare: usize,
    /// If it was made with little effort, until calls have paid for more.
    tiers: Option<Tiers>,
}

impl Inner {
    /// Where all lies that the derivative may run.
    fn code(&self) -> &CodeMap {
        self.added.as_ref().map_or(&self.compiled.code, |added| &added.code)
    }
}

/// The address of a function or data object, for the derivative that was compiled first, or for the
/// one that was added.
fn address(compiled: &Compiled, added: Option<&Added>, symbol: &str) -> Option<usize> {
    added.map_or_else(|| compiled.address(symbol), |added| added.address(symbol))
}

/// What a derivative shares functions and data objects of the program with.
#[derive(Clone, Copy)]
enum Beside<'a> {
    /// It is alone in its module.
    Nothing,
    /// A second derivative is to come into its module; functions of the program are compiled for
    /// both, with these options.
    Second { primals: &'a Options },
    /// It comes into the module of the first.
    First(&'a DerivedRule),
}

/// Entry points of the root's derivative.
enum Derived {
    Pair { forward: usize, pullback: usize },
    Combined { entry: usize, results: bool, segment: bool },
    Tangent { entry: usize, segment: bool },
}

/// A compiled derivative. Cheap to clone; clones share code and captures, which are immutable, so
/// threads may share one.
#[derive(Clone)]
pub struct DerivedRule(Arc<Inner>);

/// An argument or result in memory: large enough for any CLIF value, aligned for vectors.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Cell([u8; 16]);

thread_local! {
    /// Cells of finished calls, so that a call in the steady state allocates nothing.
    static CELLS: RefCell<Vec<Vec<Cell>>> = const { RefCell::new(Vec::new()) };
}

fn with_cells<R>(n: usize, f: impl FnOnce(&mut [Cell]) -> R) -> R {
    let mut cells = CELLS.with(|c| c.borrow_mut().pop()).unwrap_or_default();
    cells.clear();
    cells.resize(n, Cell([0; 16]));
    let r = f(&mut cells);
    CELLS.with(|c| c.borrow_mut().push(cells));
    r
}

fn write(cell: &mut Cell, v: &DataValue) {
    let n = v.ty().bytes() as usize;
    v.write_to_slice_ne(&mut cell.0[..n]);
}

fn read(cell: &Cell, ty: Type) -> DataValue {
    DataValue::read_from_slice_ne(&cell.0[..ty.bytes() as usize], ty)
}

/// Whether a value may be passed for a type. Vectors of values know their size only.
fn fits(v: &DataValue, ty: Type) -> bool {
    v.ty() == ty || v.ty().is_vector() && ty.is_vector() && v.ty().bytes() == ty.bytes()
}

fn check_args<'a>(signature: &Signature, args: impl ExactSizeIterator<Item = &'a DataValue>) -> Result<(), Error> {
    let params = &signature.params;
    if args.len() != params.len() {
        return Err(Error::Usage(format!("{} arguments are given, {} are wanted", args.len(), params.len())));
    }
    for (i, (a, p)) in args.zip(params).enumerate() {
        if !fits(a, p.value_type) {
            return Err(Error::Usage(format!("argument {i} has type {}, {} is wanted", a.ty(), p.value_type)));
        }
    }
    Ok(())
}

/// Call an entry point; everything is passed and returned in cells.
///
/// # Safety
/// `entry` is an entry point in `code`, and the pointers among its arguments are valid for what it
/// does with them.
unsafe fn enter(
    code: &CodeMap,
    program: &Program,
    phase: Phase,
    entry: usize,
    cells: &mut [Cell],
) -> Result<(), Error> {
    // SAFETY: an entry point takes a pointer to as many cells as it has arguments or results; the
    // caller vouches for the pointers in them. Ranges hold generated code only.
    unsafe {
        let f: brolga_runtime::Entry = std::mem::transmute(entry);
        call_guarded(f, cells.as_mut_ptr().cast(), &code.ranges)
    }
    .map_err(|raw| Error::Trap(Box::new(code.explain(program, &raw, phase))))
}

impl DerivedRule {
    /// Differentiate and compile. By default ([`Effort::Tiered`]) the rule is there soon, and
    /// becomes faster when its calls have taken as long as that takes.
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
            _ => Self::beside(program, request, options, Beside::Nothing),
        }
    }

    fn beside(program: &Program, request: &Request, options: &Options, beside: Beside<'_>) -> Result<Self, Error> {
        let isa = host_isa(options)?;
        // A panic on an input is a bug of ours; an embedder should hear of it as an error.
        crate::quiet::caught("derive", program, || {
            let d = brolga_transform::derive_unverified(program, request, options, &*isa)?;
            Self::compiled(d, request, options, beside)
        })
    }

    /// Whether this is a clone of another rule.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The first of two rules, which has not been handed out yet.
    fn with(mut self, tiers: Tiers) -> Self {
        Arc::get_mut(&mut self.0).expect("nobody has seen it").tiers = Some(tiers);
        self
    }

    /// The rule for the next call.
    fn now(&self) -> &Self {
        self.0.tiers.as_ref().and_then(Tiers::second).unwrap_or(self)
    }

    /// Whether the rule stays as it is: nothing faster is going to take its place.
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
    pub fn settle(&self) {
        if let Some(tiers) = &self.0.tiers {
            tiers.make(self);
        }
    }

    /// Call, and count what that takes.
    fn counted<R>(&self, call: impl FnOnce() -> R) -> R {
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
        Self::compiled(d, request, options, Beside::Nothing)
    }

    fn compiled(mut d: Derivation, request: &Request, options: &Options, beside: Beside<'_>) -> Result<Self, Error> {
        let primals = if let Beside::Second { primals } = beside { Some(primals) } else { None };
        let (compiled, added, emitted) = match beside {
            Beside::First(first) => {
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
                    Mode::Tangent => Derived::Tangent { entry, segment },
                    _ => Derived::Combined { entry, results: w.results, segment },
                };
                (w.variant, returns, derived)
            }
            None => {
                let p = d.pairs.into_iter().next().expect("the first pair is the root's");
                let entry = |s: &str| at(&format!("{s}.entry"));
                let (forward, pullback) = (entry(&p.forward_symbol), entry(&p.pullback_symbol));
                let returns = p.pullback.signature.returns.clone();
                (p.variant, returns, Derived::Pair { forward, pullback })
            }
        };
        let pool = Pool::new(Plan {
            capacity: options.tape_limit.saturating_add(d.spare),
            captures: Some(Arc::new(captures)),
            globals,
            width: options.width as usize,
        });
        Ok(Self(Arc::new(Inner {
            primal: OnceLock::new(),
            abi: Abi::of(&variant, &f.signature),
            cotangent_types: returns.iter().map(|r| r.value_type).collect(),
            derived,
            emitted,
            clif: OnceLock::new(),
            signature: f.signature.clone(),
            request: request.clone(),
            overwrites: d.overwrites,
            pieces: d.pieces,
            guessed: d.guessed,
            spare: d.spare,
            width: options.width as usize,
            debug: options.debug,
            pool: Arc::new(pool),
            program: d.program,
            compiled,
            added,
            tiers: None,
        })))
    }

    /// The primal signature.
    pub fn signature(&self) -> &Signature {
        &self.0.signature
    }

    /// The root's derivative as CLIF, as the next call runs it: forward pass and pullback, or the
    /// combined function and nothing. If nothing else calls them, they take their arguments from
    /// memory, and leave results there, 16 bytes each.
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
    pub fn code_bytes(&self) -> usize {
        let whole = self.0.primal.get().and_then(|p| p.as_ref().ok()).map(|p| &p.0.code);
        let own = whole.unwrap_or_else(|| self.0.code()).code_bytes();
        match self.0.tiers.as_ref().and_then(Tiers::second) {
            // In one module, the later has it all.
            Some(second) if second.0.added.is_some() => own.max(second.code_bytes()),
            second => own + second.map_or(0, Self::code_bytes),
        }
    }

    /// The primal, which is compiled when it is asked for: who wants gradients only should not wait
    /// for it.
    fn compiled_primal(&self) -> Result<&(Added, usize), Error> {
        let inner = &*self.0;
        // It is made once, so that it is made to be fast, whatever is derived.
        let options = inner.tiers.as_ref().map(Tiers::full);
        let add = || compile::add_primal(&inner.compiled, &inner.program, inner.request.func, options);
        let made = || crate::quiet::caught("compile", &inner.program, add);
        inner.primal.get_or_init(made).as_ref().map_err(Clone::clone)
    }

    /// Whether the shadow of an argument that was declared [`fresh`](crate::Promises::fresh) is
    /// overwritten: it may hold anything before the call. Otherwise the caller fills it with zeros.
    pub fn overwrites(&self, arg: usize) -> bool {
        self.0.overwrites.get(arg).copied().unwrap_or(false)
    }

    /// The address of a function or data object of the program, as the compiled code sees it. If
    /// the derivative has no use for it, the primal is compiled.
    pub fn address_of(&self, symbol: &str) -> Option<u64> {
        let found = address(&self.0.compiled, self.0.added.as_ref(), symbol);
        found.or_else(|| self.compiled_primal().ok()?.0.address(symbol)).map(|a| a as u64)
    }

    /// Call an entry point; everything is passed and returned in cells.
    unsafe fn enter(&self, phase: Phase, entry: usize, cells: &mut [Cell]) -> Result<(), Error> {
        // SAFETY: our contract.
        unsafe { enter(self.0.code(), &self.0.program, phase, entry, cells) }
    }

    /// Whether every cotangent that moved in pieces has been put together again. Only here it is
    /// known that none is still to come.
    fn all_arrived(&self, tape: Option<&mut Lease>, places: &Places, before: &[u8]) -> Result<(), Error> {
        let (at, holds) = (|window| places.at(window as u64), |byte| places.has_float(byte as u64));
        let ended = tape.map_or(Ok(()), |tape| tape.end_pullback(&at, &holds));
        let message = match ended {
            Err(Stuck(at)) => PIECES_LEFT.to_owned() + &at.and_then(|at| places.tell(at as u64)).unwrap_or_default(),
            Ok(()) if places.other_floats_have_moved(before) => OTHER_FLOATS.to_owned(),
            Ok(()) => return Ok(()),
        };
        Err(self.untracked("pullback", message))
    }

    /// Bits of floats were not followed, of which there is more to say than an instruction.
    fn untracked(&self, phase: &'static str, message: String) -> Error {
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
        with_cells(args.len().max(returns.len()), |cells| {
            for (c, a) in cells.iter_mut().zip(args) {
                write(c, a);
            }
            // SAFETY: our contract.
            unsafe { enter(&primal.code, &inner.program, Phase::Primal, *entry, cells) }?;
            results.clear();
            results.extend(cells.iter().zip(returns).map(|(c, r)| read(c, r.value_type)));
            Ok(())
        })
    }

    /// Run the forward pass: the primal results, bit for bit, and the pullback of this run.
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
    fn begin(&self, args: &[Arg]) -> Result<Lease, Error> {
        let inner = &*self.0;
        let mut tape = inner.pool.lease().map_err(|e| Error::Usage(e.to_string()))?;
        if inner.debug {
            declared::register(args, &inner.request.args, &mut tape);
        }
        if inner.program.unaligned_doubles {
            tape.doubles_may_lie_across();
        }
        Ok(tape)
    }

    /// What the caller has said of floats in memory, if a pullback is going to ask.
    fn places(&self, args: &[Arg]) -> Places {
        let known = if self.0.pieces { Places::of(args, &self.0.request.args) } else { Places::default() };
        known.beside(args, self.0.guessed)
    }

    fn check_args(&self, args: &[Arg]) -> Result<(), Error> {
        let inner = &*self.0;
        check_args(&inner.signature, args.iter().map(|a| &a.value))?;
        if inner.debug && !brolga_runtime::guard::handlers_are_in_place() {
            let message = "the signal handlers that turn traps into errors have been replaced: let the new ones pass on what \
                           they do not know, or call `brolga::install_handlers` behind them";
            return Err(Error::Usage(message.to_owned()));
        }
        declared::check(args, &inner.request, inner.debug, inner.width as u64, |i| self.overwrites(i))
    }

    /// Write arguments, deltas and the tape to the first cells.
    fn fill(&self, cells: &mut [Cell], args: &[Arg], tape: Option<&mut Lease>) -> Result<(), Error> {
        for (c, a) in cells.iter_mut().zip(args) {
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
            write(&mut cells[args.len() + k], &DataValue::I64(delta));
        }
        write(&mut cells[args.len() + deltas.len()], &DataValue::I64(tape.map_or(0, |t| t.as_mut_ptr() as i64)));
        Ok(())
    }

    fn check_seeds(&self, seeds: &[DataValue]) -> Result<(), Error> {
        let (returns, width) = (&self.0.signature.returns, self.0.width);
        if seeds.len() != returns.len() * width {
            let (is, want) = (seeds.len(), returns.len() * width);
            let each = if width == 1 { "" } else { ", one per result, in each set" };
            return Err(Error::Usage(format!("{is} seeds are given, {want} are wanted{each}")));
        }
        (0..width).try_for_each(|k| self.check_set(&seeds[k * returns.len()..][..returns.len()]))
    }

    /// One set of seeds.
    fn check_set(&self, seeds: &[DataValue]) -> Result<(), Error> {
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

    /// Cotangents by argument, from cells that hold those of active arguments one after the other.
    fn cotangents(&self, cells: &[Cell], out: &mut Vec<Option<DataValue>>) {
        let inner = &*self.0;
        let n = inner.request.args.len();
        out.clear();
        out.resize(n * inner.width, None);
        if inner.width == 1 {
            for (k, &i) in inner.abi.cotangents.iter().enumerate() {
                out[i] = Some(read(&cells[k], inner.cotangent_types[k]));
            }
        } else {
            let params = &inner.signature.params;
            self.read_wide(cells, &inner.abi.cotangents, params, |k, i, ct| out[k * n + i] = Some(ct));
        }
        debug_assert!(
            inner.request.args.iter().zip(&*out).all(|(a, o)| (a.activity == ArgActivity::Active) == o.is_some())
        );
    }

    /// Value and gradient at once: `results` are the primal's (none in
    /// [`Mode::Gradient`]), `cotangents` one entry per argument as from
    /// [`Pullback::call`], for one seed per result. A rule that was derived split runs its two
    /// functions one after the other. In the steady state this allocates nothing.
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
        self.counted(|| unsafe { self.now().gradient_once(args, seeds, results, cotangents) })
    }

    /// The same, of this rule.
    unsafe fn gradient_once(
        &self,
        args: &[Arg],
        seeds: &[DataValue],
        results: &mut Vec<DataValue>,
        cotangents: &mut Vec<Option<DataValue>>,
    ) -> Result<Run, Error> {
        let inner = &*self.0;
        if let Derived::Tangent { .. } = inner.derived {
            return Err(Error::Usage(FORWARD_MODE.to_owned()));
        }
        let Derived::Combined { entry, results: wanted, segment } = inner.derived else {
            // SAFETY: our contract.
            let mut pullback = unsafe { self.forward_once(args, results) }?;
            // SAFETY: our contract.
            unsafe { pullback.call_once(seeds, cotangents) }?;
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
        with_cells(n, |cells| {
            self.fill(cells, args, tape.as_mut())?;
            for (c, &i) in cells[fixed..].iter_mut().zip(&inner.abi.seeds) {
                write(c, &seeds[i]);
            }
            // SAFETY: our contract; the segment is ours alone.
            unsafe { self.enter(Phase::Combined, entry, cells) }?;
            self.all_arrived(tape.as_mut(), &places, &before)?;
            results.clear();
            results.extend(cells.iter().zip(returns).map(|(c, r)| read(c, r.value_type)));
            self.cotangents(&cells[returns.len()..], cotangents);
            Ok(Run { rule: self.clone(), tape })
        })
    }

    /// [`Self::forward`] into a vector of the caller's. In the steady state (the tape of an earlier
    /// run has been given back, the vector has room) this allocates nothing.
    ///
    /// # Errors
    /// As [`Self::forward`].
    ///
    /// # Safety
    /// As [`Self::forward`].
    pub unsafe fn forward_into(&self, args: &[Arg], results: &mut Vec<DataValue>) -> Result<Pullback, Error> {
        // SAFETY: our contract.
        self.counted(|| unsafe { self.now().forward_once(args, results) })
    }

    /// The same, of this rule.
    unsafe fn forward_once(&self, args: &[Arg], results: &mut Vec<DataValue>) -> Result<Pullback, Error> {
        let inner = &*self.0;
        let Derived::Pair { forward, .. } = inner.derived else {
            let whole = "this rule was derived as one function (Mode::Combined): call `gradient`, or derive it split";
            let forward_mode = matches!(inner.derived, Derived::Tangent { .. });
            return Err(Error::Usage(if forward_mode { FORWARD_MODE } else { whole }.to_owned()));
        };
        self.check_args(args)?;
        let mut tape = self.begin(args)?;
        let returns = &inner.signature.returns;
        let n = (args.len() + inner.abi.deltas.len() + 1).max(returns.len() + inner.abi.n_result_deltas);
        with_cells(n, |cells| {
            self.fill(cells, args, Some(&mut tape))?;
            // SAFETY: our contract; the segment is ours alone.
            unsafe { self.enter(Phase::Forward, forward, cells) }?;
            results.clear();
            results.extend(cells.iter().zip(returns).map(|(c, r)| read(c, r.value_type)));
            Ok(Pullback { rule: self.clone(), tape, called: false, places: self.places(args) })
        })
    }
}

/// What is said of a rule that has no pullback.
const FORWARD_MODE: &str = "this rule was derived in forward mode (Mode::Tangent): call `tangent`";

/// What is said of cotangents that moved in pieces and did not come together.
const PIECES_LEFT: &str = "a cotangent that moved in pieces could not be put together again: a part of a float was moved without the others, or \
                           one float was made of two";

/// What is said where floats have moved that are of another size than those of the program.
const OTHER_FLOATS: &str = "words of memory were moved, or overwritten with numbers, as floats of the size that the program itself loads and stores, but what lies \
                            there are floats of another size, as the caller has said: their cotangents cannot be told apart. Load or store one of them as a float in \
                            the program";
