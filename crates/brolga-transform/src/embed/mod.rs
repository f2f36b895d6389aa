//! Embedding: a derivative as functions of another module.
//!
//! **Problem.** What is derived runs on the run time: on its tape, its tables, its helpers, by a
//! calling convention of its own. A frontend has a module of its own, into which it compiles for
//! some target, with its flags, and wants functions there that it can call.
//! **Answer.** [`embed`] derives a [`Spec`] without the run time ([`TapeKind::Workspace`]). What
//! comes out becomes functions that name each other, and what they need of the module, by symbols:
//!
//! ```text
//! helpers     are bodies in CLIF                               (standalone::prelude)
//! halves      of what is called by address: functions compare  (standalone::indirect)
//! room        a tape whose size is known is on the stack; otherwise the caller gives memory, and
//!             a run that does not fit returns a status          (room)
//! results     more than registers hold go through memory        (returns)
//! roots       have the signature of the spec                    (signature, root)
//! outputs     that are added to have no derivative before       (consumed)
//! ```
//!
//! Before: `f__gradient(x, y, δx, seg, r̄) -> (r, ȳ) fast`. After: `f__gradient(x, shadow of x, y,
//! r̄) -> (r, ȳ)` in the target's convention.
//!
//! **Cost.** That of a derivation; each step walks the functions once.
//! **Source.** Signatures and activities are Enzyme's and those of rustc's `std::autodiff`.

mod checks;
mod consumed;
mod growth;
mod heap;
mod nesting;
mod returns;
mod room;
mod root;
mod signature;

pub use nesting::{EmbeddedDerivative, define as define_nested};
pub use room::{HEADER, LACKING, Room};
pub use signature::{DerivedSignature, ParamRole, ResultRole, StructLayout, c_type};

use std::borrow::Cow;
use std::collections::BTreeSet;

use brolga_analysis::Variant;
use brolga_ir::lower::is_half;
use brolga_ir::program::{functions_used, symbol_of};
use brolga_ir::spec::{Derivative, Spec};
use brolga_ir::{DataKey, Diagnostics, Elem, FuncKey, Options, Program, TapeKind};
use brolga_rules::OF_C;
use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;

use crate::called::resolved;
use crate::clif::dead_segment_arg;
use crate::derived::Derivation;
use crate::pipeline::all_variants::DerivationInput;
use crate::pipeline::inline_rollback::attempt;
use crate::stand_in::none_is_derived;
use crate::standalone::derived_func::{DerivedFunc, duplicated};
use crate::standalone::pieces;
use crate::standalone::prelude::{self, Helpers};
use crate::standalone::{as_written, indirect};

/// A function of an [`EmbeddedFunctions`] derivative. It names functions and data by their symbols.
#[derive(Clone, Debug)]
pub struct EmbeddedFunction {
    /// Its own symbol.
    pub symbol: String,
    /// The function. Locations are those of [`brolga_ir::program`]: one more than the number of an
    /// instruction of `of`, with the top bit set for checks.
    pub func: ir::Function,
    /// Whose derivative it is.
    pub of: FuncKey,
}

/// A derivative as functions of another module.
#[derive(Clone, Debug)]
pub struct EmbeddedFunctions {
    /// All that is new, in no particular order but that roots come first: the gradient or the
    /// tangent, or the forward pass and the pullback, and where these keep blocks of the heap the
    /// function that frees them.
    pub functions: Vec<EmbeddedFunction>,
    /// One for each root.
    pub signatures: Vec<DerivedSignature>,
    /// What the tape needs.
    pub room: Room,
    /// What it is the derivative of, and what was asked for.
    pub func: FuncKey,
    /// The spec, with an activity for each result.
    pub spec: Spec,
    /// Data objects whose shadows the functions name, and by which symbols.
    pub shadows: Vec<(DataKey, String)>,
    /// The program: what was given, and thunks.
    pub program: Program,
}

impl EmbeddedFunctions {
    /// Functions that it calls and that are neither its own nor have a body in the program: those
    /// of C, and the program's own imports. A JIT has to find them.
    pub fn imports(&self) -> BTreeSet<String> {
        let own: BTreeSet<&str> = self.functions.iter().map(|f| f.symbol.as_str()).collect();
        let of_program = |s: &str| self.program.func(s).map(|k| &self.program.funcs[k]);
        let has_body = |s: &str| of_program(s).is_some_and(|f| f.body.is_some() && !f.stand_in);
        let mut found = BTreeSet::new();
        for EmbeddedFunction { func, .. } in &self.functions {
            for r in functions_used(func).iter() {
                let name = &func.dfg.ext_funcs[r].name;
                let symbol = symbol_of(func, name);
                let is_libcall = matches!(name, ir::ExternalName::LibCall(_));
                if !is_libcall && !own.contains(symbol.as_str()) && !has_body(&symbol) {
                    found.insert(symbol.strip_prefix(OF_C).unwrap_or(&symbol).to_owned());
                }
            }
        }
        found
    }
}

/// Derive what a spec asks for, for the target `isa`. Of the options, those of the tape do not
/// count, nor those that the spec has. Imports that are named like derivatives of the program's
/// functions are these ([`mod@crate::called`]).
///
/// # Errors
/// AD0010 where the spec does not fit the function, AD0174 for a debug run and where a helper of
/// the run time has no body in CLIF, and as [`derive`](crate::derive::derive()).
pub fn embed(
    program: &Program,
    func: FuncKey,
    spec: &Spec,
    options: &Options,
    isa: &dyn TargetIsa,
) -> Result<EmbeddedFunctions, Diagnostics> {
    checks::target(program, func, isa)?;
    embedded(resolved(program, &[func], isa)?, func, spec, options, isa)
}

/// The same of a program whose imports are what their module says, whatever their names are.
///
/// # Errors
/// As [`embed`].
pub fn embed_as_named(
    program: &Program,
    func: FuncKey,
    spec: &Spec,
    options: &Options,
    isa: &dyn TargetIsa,
) -> Result<EmbeddedFunctions, Diagnostics> {
    checks::target(program, func, isa)?;
    embedded(Cow::Borrowed(program), func, spec, options, isa)
}

fn embedded(
    program: Cow<'_, Program>,
    func: FuncKey,
    spec: &Spec,
    options: &Options,
    isa: &dyn TargetIsa,
) -> Result<EmbeddedFunctions, Diagnostics> {
    checks::no_debug_run(&program, func, options)?;
    let spec = &checks::settled(&program, func, spec)?;
    let prepared = consumed::prepared(program, func, spec, isa)?;
    let found = derived(&prepared, spec, options, isa).map_err(|d| prepared.problems(d))?;
    let (program, of) = (&*prepared.program, prepared.func);
    let primal = program.funcs[func].signature.clone();
    let (variant, n_roots) = match &found.combined {
        Some(w) => (w.variant.clone(), 1),
        None => (found.pairs[0].variant.clone(), 2),
    };
    let helpers = match spec.derivative {
        Derivative::Pair => Helpers::Pair { growing: spec.growing },
        _ => Helpers::Workspace { growing: spec.growing, marks: marks(&found) },
    };
    let mut derived = derived_funcs(&found, helpers, isa);
    with_made(&mut derived, program, helpers, isa);
    // In memory of modules floats lie anywhere.
    let moves_pieces = !program.confined && pieces::put_in(&mut derived, spec.growing, isa);
    if moves_pieces {
        let root = &mut derived[n_roots - 1];
        match spec.derivative {
            Derivative::Tangent => pieces::poison_at_end(root, &deltas(spec, &variant), isa),
            _ => pieces::check_at_end(root, isa),
        }
        pieces::put_in(&mut derived, spec.growing, isa);
    }
    checks::no_helpers(program, &derived).map_err(|d| prepared.problems(d))?;
    let mut into = found.program.clone();
    let before = into.funcs.len();
    indirect::tables(&mut into, &found.captures, derived.iter().map(|p| &p.func), isa)?;
    for k in into.funcs.keys().skip(before) {
        if let Some(body) = &into.funcs[k].body {
            let symbol = into.funcs[k].symbol.clone();
            derived.push(DerivedFunc { symbol, func: body.clone(), of, segment: None });
        }
    }
    let shadows = checks::shadows(&into, &derived);
    let growing = Some(isa).filter(|_| spec.growing);
    let room = room::settle(&mut derived, n_roots, spec.derivative, moves_pieces, growing);
    let is_pair = spec.derivative == Derivative::Pair;
    heap::free_at_end(&mut derived, is_pair, isa);
    // With this flag Cranelift returns any number of results, of functions of the module, too.
    if !isa.flags().enable_multi_ret_implicit_sret() {
        returns::through_memory(&mut derived, n_roots);
    }
    let roots = root::Roots { spec, primal: &primal, variant: &variant, room, moves_pieces, isa };
    let mut signatures = roots.make(&mut derived[..n_roots]);
    if let Some(release) = heap::release(&derived, isa).filter(|_| is_pair) {
        signatures.push(roots.release());
        derived.insert(n_roots, release);
    }
    checks::verified(&into, &derived, isa)?;
    let functions = derived.into_iter().map(|DerivedFunc { symbol, mut func, of, .. }| {
        func.name = ir::UserFuncName::testcase(symbol.as_str());
        EmbeddedFunction { symbol, func, of: if of == prepared.func { prepared.of } else { of } }
    });
    let functions = functions.collect();
    Ok(EmbeddedFunctions { functions, signatures, room, func, spec: spec.clone(), shadows, program: into })
}

/// Whether a function of forward mode marks pieces, which have to be looked for from then on.
fn marks(found: &Derivation) -> bool {
    let whole = found.combined.iter().chain(&found.joint).map(|w| &w.func);
    let funcs = whole.chain(found.pairs.iter().map(|p| &p.forward));
    let mut called = funcs
        .flat_map(|f| functions_used(f).iter().map(|r| symbol_of(f, &f.dfg.ext_funcs[r].name)).collect::<Vec<_>>());
    called.any(|symbol| symbol == pieces::MARK)
}

/// Which parameters of a derivative are deltas, and what their pointers lead to.
fn deltas(spec: &Spec, variant: &Variant) -> Vec<(usize, Option<Elem>)> {
    let n = variant.params.len();
    duplicated(variant).enumerate().map(|(k, i)| (n + k, spec.params[i].elem)).collect()
}

/// What is derived without the run time.
fn derived(
    prepared: &consumed::PreparedProgram<'_>,
    spec: &Spec,
    options: &Options,
    isa: &dyn TargetIsa,
) -> Result<Derivation, Diagnostics> {
    let program = &*prepared.program;
    let primal = &program.funcs[prepared.func].signature;
    let options = Options {
        mode: spec.mode(primal.returns.len()),
        tape: TapeKind::Workspace,
        strong_zero: spec.strong_zero,
        debug: false,
        ..options.clone()
    }
    .settled();
    let request = &spec.request(prepared.func, primal);
    let found = attempt(DerivationInput { program, request, options: &options, isa })?.1;
    found.verify(isa)?;
    none_is_derived(&found)?;
    Ok(found)
}

/// With functions that an earlier derivation has made and these call as they are, by their
/// addresses, too.
fn with_made(derived: &mut Vec<DerivedFunc>, program: &Program, helpers: Helpers, isa: &dyn TargetIsa) {
    let mut seen = BTreeSet::new();
    let mut at = 0;
    while at < derived.len() {
        let func = &derived[at].func;
        let used = functions_used(func);
        let keys = used.iter().filter_map(|r| program.func(&symbol_of(func, &func.dfg.ext_funcs[r].name)));
        let keys: Vec<FuncKey> = keys.filter(|&k| is_made(program, k) && seen.insert(k)).collect();
        for of in keys {
            let f = &program.funcs[of];
            let func = prelude::expanded(f.body.clone().expect("it was made"), helpers, isa);
            derived.push(DerivedFunc { symbol: f.symbol.clone(), func, of, segment: None });
        }
        at += 1;
    }
}

/// Whether an earlier derivation has made a function, or one that finds such by address; or
/// whether it is ours.
fn is_made(program: &Program, func: FuncKey) -> bool {
    let f = &program.funcs[func];
    program.made.contains(func) || f.body.is_some() && (is_half(&f.symbol) || f.symbol == consumed::UNTRACKED)
}

/// The derived functions with bodies of helpers in them: what was asked for comes first. Where
/// others call that as well, they call a copy.
fn derived_funcs(found: &Derivation, helpers: Helpers, isa: &dyn TargetIsa) -> Vec<DerivedFunc> {
    let mut out = Vec::new();
    let mut put = |symbol: &str, func: &ir::Function, variant: &Variant, segment: Option<usize>| {
        let func = prelude::expanded(as_written(func.clone(), &found.names), helpers, isa);
        out.push(DerivedFunc { symbol: symbol.to_owned(), func, of: variant.func, segment });
    };
    let behind = |variant: &Variant| Some(dead_segment_arg::position(variant));
    if let Some(w) = &found.combined {
        put(&w.symbol, &w.func, &w.variant, behind(&w.variant));
    }
    let own = usize::from(found.combined.is_none());
    for (i, p) in found.pairs.iter().enumerate() {
        // The root's two functions get another signature.
        let called = i < own && found.is_called(p);
        let as_root = |symbol: &str| if i < own { format!("{symbol}__root") } else { symbol.to_owned() };
        put(&as_root(&p.forward_symbol), &p.forward, &p.variant, behind(&p.variant));
        put(&as_root(&p.pullback_symbol), &p.pullback, &p.variant, Some(0));
        if called {
            put(&p.forward_symbol, &p.forward, &p.variant, behind(&p.variant));
            put(&p.pullback_symbol, &p.pullback, &p.variant, Some(0));
        }
    }
    for w in &found.joint {
        // One that asks for no workspace has lost the parameter.
        put(&w.symbol, &w.func, &w.variant, behind(&w.variant).filter(|_| w.segment));
    }
    out
}

/// The body of an intrinsic that primal code may call where no import provides it.
pub fn intrinsic(symbol: &str, isa: &dyn TargetIsa) -> Option<ir::Function> {
    matches!(symbol, "brolga_with_value" | "brolga_with_valuef").then(|| prelude::of_workspace(symbol, isa))
}
