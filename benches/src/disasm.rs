//! Machine code, to see why something is slower than it could be.
//!
//! What is printed is Cranelift's own listing of what it emits, compiled as rules are: by the same back end with the same flags,
//! and without the mid-end where a derived function is too large for it.

use std::fmt::Write;

use brolga::cranelift_codegen::Context;
use brolga::cranelift_codegen::control::ControlPlane;
use brolga::cranelift_codegen::ir::Function;
use brolga::{Error, Options, jit};

use crate::How;
use crate::prepared::{Failure, derive, options, requests};
use crate::problem::{Problem, Size};
use crate::selected;

/// Primal, derivative and adjoint by hand of all problems whose name contains `filter`.
///
/// # Errors
/// [`Failure::Unknown`], and what cannot be derived or compiled.
pub fn text(filter: Option<&str>, how: How) -> Result<String, Failure> {
    let mut all = String::new();
    for make in selected(filter)? {
        let problem = make(Size::Full);
        all += &problem_text(&problem, how)?;
    }
    Ok(all)
}

fn problem_text(problem: &Problem, how: How) -> Result<String, Failure> {
    let (program, requests) = requests(problem)?;
    let derivation = derive(problem, &program, &requests[0], how)?;
    let mut functions = Vec::new();
    let body_of = |symbol: &str| program.func(symbol).and_then(|key| program.funcs[key].body.clone());
    functions.extend(body_of(problem.func).map(|body| ("primal", problem.func.to_owned(), body, None)));
    if let Some(whole) = derivation.whole {
        // With the door that it is called through.
        let func = derivation.doors.into_iter().next().unwrap_or(whole.func);
        functions.push(("derivative", whole.symbol, func, Some(whole.twice)));
    }
    for whole in derivation.wholes {
        functions.push(("of a call", whole.symbol, whole.func, Some(whole.twice)));
    }
    for pair in derivation.pairs {
        functions.push(("forward pass", pair.forward_symbol, pair.forward, Some(false)));
        functions.push(("pullback", pair.pullback_symbol, pair.pullback, Some(false)));
    }
    let hand = problem.hand.and_then(|symbol| Some((symbol, body_of(symbol)?)));
    functions.extend(hand.map(|(symbol, body)| ("by hand", symbol.to_owned(), body, None)));
    let mut text = String::new();
    for (what, symbol, function, derived) in functions {
        let listing = listing(function, derived, how).map_err(|error| Failure::Run { name: problem.name, error })?;
        text += &format!("; {what}: %{symbol}, {listing}\n");
    }
    Ok(text)
}

/// The size, then the listing, with the number of instructions at the head of each block.
fn listing(function: Function, derived: Option<bool>, how: How) -> Result<String, Error> {
    let plain = derived.is_some_and(|twice| jit::is_better_plain(&function, twice));
    let how = if derived.is_some() { how } else { How::default() };
    let isa = jit::host_isa(&Options { optimize: !plain, ..options(how) })?;
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
