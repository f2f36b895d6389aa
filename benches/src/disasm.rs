//! Machine code, to see why something is slower than it could be.
//!
//! What is printed is Cranelift's own listing of what it emits, compiled as rules are: by the same
//! back end with the same flags, and without the mid-end where a derived function is too large for
//! it.

use std::fmt::Write;

use brolga::cranelift_codegen::Context;
use brolga::cranelift_codegen::control::ControlPlane;
use brolga::cranelift_codegen::ir::Function;
use brolga::{Error, FuncKey, Options, Program, jit};
use brolga_analysis::calls::summarise;
use brolga_driver::Invocation;
use brolga_transform::Derivation;
use brolga_transform::program::codegen_units::UnitRole;

use crate::Configuration;
use crate::prepared::{Failure, derive, requests};
use crate::problem::{Problem, Size};
use crate::selection;

/// Primal, derivative and adjoint by hand of all problems and programs in C whose name contains
/// `filter`.
///
/// # Errors
/// [`Failure::Unknown`], and what cannot be derived or compiled.
pub fn text(filter: Option<&str>, how: Configuration) -> Result<String, Failure> {
    let (problems, programs) = selection(filter)?;
    let mut all = String::new();
    for make in problems {
        all += &problem_text(&make(Size::Full), how)?;
    }
    for program in programs {
        all += &program.machine_code(how)?;
    }
    Ok(all)
}

fn problem_text(problem: &Problem, how: Configuration) -> Result<String, Failure> {
    let (program, requests) = requests(problem)?;
    let derivation = derive(problem, &program, &requests[0], how)?;
    let mut functions: Vec<_> = body_of(&program, "primal", problem.func).into_iter().collect();
    let failed = |error| Failure::Run { name: problem.name, error };
    functions.extend(derived(derivation, how).map_err(failed)?);
    functions.extend(problem.hand.and_then(|symbol| body_of(&program, "by hand", symbol)));
    listings(&program, functions, how).map_err(failed)
}

/// Of a call: the primal with everything that it calls, and what is derived.
///
/// # Errors
/// What cannot be derived or compiled.
pub fn of_call(program: &Program, call: &Invocation, how: Configuration) -> Result<String, Error> {
    let (request, options) = (call.request(), Options { memory: call.memory, ..how.options() });
    let derivation = brolga_transform::derive(program, &request, &options, &*jit::host_isa(&options)?)?;
    listings(program, reached(program, "primal", call.func).chain(derived(derivation, how)?), how)
}

/// Of an adjoint by hand: everything that it calls.
///
/// # Errors
/// What cannot be compiled.
pub fn of_hand(program: &Program, func: FuncKey, how: Configuration) -> Result<String, Error> {
    listings(program, reached(program, "by hand", func), how)
}

/// A function whose machine code is wanted.
struct WantedFunc {
    /// What it is.
    what: &'static str,
    symbol: String,
    func: Function,
    /// Of what is derived: whether its pullback is there twice.
    derived: Option<bool>,
}

fn body_of(program: &Program, what: &'static str, symbol: &str) -> Option<WantedFunc> {
    let func = program.funcs[program.func(symbol)?].body.clone()?;
    Some(WantedFunc { what, symbol: symbol.to_owned(), func, derived: None })
}

fn reached<'p>(program: &'p Program, what: &'static str, root: FuncKey) -> impl Iterator<Item = WantedFunc> + 'p {
    let all = summarise::reachable_in(program, root, |k| program.funcs[k].body.as_ref()).into_iter();
    all.filter_map(move |k| {
        let func = program.funcs[k].body.clone()?;
        Some(WantedFunc { what, symbol: program.funcs[k].symbol.clone(), func, derived: None })
    })
}

fn derived(mut derivation: Derivation, how: Configuration) -> Result<Vec<WantedFunc>, Error> {
    let isa = jit::host_isa(&how.options())?;
    let parts = derivation.codegen_units().into_iter();
    let taken = parts.map(|part| {
        let what = match part.role {
            UnitRole::Entry(..) => "entry of a task",
            UnitRole::Root => "derivative",
            UnitRole::Joint(_) => "of a call",
            UnitRole::Forward(_) => "forward pass",
            UnitRole::Pullback(_) => "pullback",
        };
        let func = derivation.take(&part, &*isa)?;
        let symbol = part.symbol.trim_end_matches(".entry").to_owned();
        Ok(WantedFunc { what, symbol, func, derived: Some(part.versioned) })
    });
    taken.collect()
}

fn listings(
    program: &Program,
    functions: impl IntoIterator<Item = WantedFunc>,
    how: Configuration,
) -> Result<String, Error> {
    let mut text = String::new();
    for WantedFunc { what, symbol, mut func, derived } in functions {
        jit::one_call_of_two(&mut func, program);
        text += &format!("; {what}: %{symbol}, {}\n", listing(func, derived, how)?);
    }
    Ok(text)
}

/// The size, then the listing, with the number of instructions at the head of each block.
fn listing(function: Function, derived: Option<bool>, how: Configuration) -> Result<String, Error> {
    let plain = derived.is_some_and(|twice| jit::is_better_plain(&function, twice));
    let how = if derived.is_some() { how } else { Configuration::default() };
    let isa = if plain { jit::plain_isa() } else { jit::host_isa(&how.options()) }?;
    let mut context = Context::for_function(function);
    context.set_disasm(true);
    let code = context
        .compile(&*isa, &mut ControlPlane::default())
        .map_err(|e| Error::Internal { stage: "disasm", message: format!("{:?}", e.inner) })?;
    let listing = code.vcode.as_deref().unwrap_or_default();
    let is_label = |line: &str| line.starts_with("block") && line.ends_with(':');
    let is_inst = |line: &&str| line.starts_with("  ") && !line.trim().is_empty();
    let lines: Vec<&str> = listing.lines().collect();
    let mut text = format!(
        "{} bytes, {} instructions in {} blocks, frame of {} bytes\n",
        code.code_info().total_size,
        lines.iter().filter(|l| is_inst(l)).count(),
        lines.iter().filter(|l| is_label(l)).count(),
        code.buffer.frame_layout().map_or(0, |f| f.frame_to_fp_offset)
    );
    for (i, line) in lines.iter().enumerate() {
        if is_label(line) {
            let n = lines[i + 1..].iter().take_while(|l| !is_label(l)).filter(|l| is_inst(l)).count();
            writeln!(text, "{line}  ; {n}").expect("strings grow");
        } else {
            writeln!(text, "{line}").expect("strings grow");
        }
    }
    Ok(text)
}
