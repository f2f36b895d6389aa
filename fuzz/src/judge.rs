//! Whether the engine does right by a program.
//!
//! The tape oracle goes first: it says whether the program ends in reasonable time, what it returns
//! and what its gradient is. Then the engine may refuse with a diagnostic that users are told
//! about; otherwise its primal, its gradient and every promise about forward pass and pullback must
//! hold. Of a program with the line [`SECOND`] second derivatives are asked for instead of those
//! promises.

use brolga::{DerivedRule, Effort, Error, MemoryMode, Mode, Options, Untracked};
use brolga_driver::inputs::oracle_args;
use brolga_driver::protocol::{Share, derive, dump_violations, violations};
use brolga_driver::value::{Item, Num};
use brolga_driver::{Directive, File, Invocation, Memory, Outcome, compare, run};
use brolga_ir::panics;
use brolga_oracle::{Limits, Oracle, OracleError, OracleOutcome};

mod second;
mod verdict;

pub use verdict::{Finding, Verdict};
use verdict::{checked, failure, is_trivial, refusal, template, wrong};

/// A line that asks for second derivatives.
pub const SECOND: &str = "; order 2";

/// Instructions after which a program is not worth waiting for.
const FUEL: u64 = 300_000;

/// How much to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoroughness {
    /// What programs compute.
    Usual,
    /// Also the text of every stage, which takes most of the time and hardly ever shows anything.
    Full,
}

/// Judge the first `; grad:` line of a file's text.
pub fn judge(text: &str, care: Thoroughness) -> Verdict {
    match panics::catch(|| try_judge(text, care)) {
        Ok(Ok(verdict) | Err(verdict)) => verdict,
        Err(panic) => wrong(format!("panic {}", template(&panic)), panic),
    }
}

fn try_judge(text: &str, care: Thoroughness) -> Result<Verdict, Verdict> {
    let file = File::parse("random", text).map_err(|e| wrong("program", e.to_string()))?;
    if let Some(d) = file.malformed.0.first() {
        return Err(wrong("program", d.to_string()));
    }
    let call = first_call(&file)?;
    let tol = if compare::uses_f32(&file.program, call.func) { 1e-4 } else { 1e-9 };

    // The oracle works in memory of its own.
    let memory = Memory::new(&call).map_err(failure)?;
    let tape = match tape(&file, &call, &memory) {
        Ok(tape) => tape,
        Err(OracleError::Trap { code, .. }) => return Err(trap(&file, &call, &code.to_string())),
        Err(error) => return Err(unjudged(&error)),
    };

    // Runs may change data objects, so every run has a rule of its own.
    let rule = || derive(&file.program, &call.request(), &Options::full());
    let first = match rule() {
        Ok(rule) => rule,
        Err(error) => return Err(left_to_the_run(&file, &call, &tape, tol).err().unwrap_or_else(|| refusal(error))),
    };
    let outcome = run::gradient(&first, &call).map_err(checked)?;
    if tape.nan_sign {
        return Err(Verdict::Unjudged("the sign of a NaN decides".to_owned()));
    }
    compare_primals(&call, &memory, &rule().map_err(failure)?, &tape)?;
    let wild = text.lines().any(|l| l == "; wild");
    compare_gradients(&outcome, &tape, tol, wild)?;
    if text.lines().any(|l| l == SECOND) {
        return second::judge(&file, &call, &outcome, wild);
    }
    if !file.program.has_writable_data() {
        interleave(&call, &rule().map_err(failure)?, &outcome)?;
    }

    let broken = violations(&file.program, &call, tol, Share::All).map_err(as_calls)?;
    if let Some(first) = broken.first() {
        return Err(wrong(format!("protocol {}", template(first)), broken.join("; ")));
    }
    other_options(&file, &call, &outcome, tol)?;
    let modes: &[MemoryMode] = if care == Thoroughness::Full { &[MemoryMode::Leave, MemoryMode::Restore] } else { &[] };
    for &memory in modes {
        let options = Options { memory, ..Options::full() };
        let broken = dump_violations(&file.program, &call.request(), &options).map_err(failure)?;
        if let Some(first) = broken.first() {
            return Err(wrong(format!("dump {}", template(first)), first.clone()));
        }
    }
    Ok(if is_trivial(&call, &outcome) { Verdict::Trivial } else { Verdict::Useful })
}

/// The call of the first `; grad:` line.
fn first_call(file: &File) -> Result<Invocation, Verdict> {
    let line = file.directives.iter().find_map(|d| if let Directive::Grad(line) = d { Some(line) } else { None });
    let line = line.ok_or_else(|| wrong("program", "there is no `; grad:` line"))?;
    Invocation::bind(&file.program, &line.text, &line.call, &line.clauses).map_err(|e| wrong("program", e.to_string()))
}

fn tape(file: &File, call: &Invocation, memory: &Memory) -> Result<OracleOutcome, OracleError> {
    let limits = Limits { fuel: FUEL, depth: 1000, nodes: 1_000_000 };
    let oracle = Oracle::new(&file.program).limits(limits);
    // SAFETY: generated programs stay inside of their buffers, which are those of `memory`.
    unsafe { oracle.gradient(call.func, &oracle_args(call, memory), &call.seeds) }
}

fn unjudged(error: &OracleError) -> Verdict {
    match error {
        OracleError::Fuel { .. } | OracleError::Depth { .. } | OracleError::Nodes { .. } => Verdict::TooLong,
        OracleError::Untracked { .. } => Verdict::Unjudged(error.to_string()),
        e => wrong("oracle", e.to_string()),
    }
}

/// A program that ends with a trap: primal and forward pass must too, and again when they are
/// called again.
fn trap(file: &File, call: &Invocation, code: &str) -> Verdict {
    let rule = || derive(&file.program, &call.request(), &Options::full());
    let check = || -> Result<Verdict, Verdict> {
        let rule = rule().map_err(refusal)?;
        for _ in 0..2 {
            let primal = run::primal_in(&rule, call, &mut Memory::new(call).map_err(failure)?).err();
            let gradient = run::gradient(&rule, call).err();
            for (who, error) in [("primal", primal), ("forward", gradient)] {
                match error {
                    Some(Error::Trap(t)) if t.code == code && t.phase == who => {}
                    Some(e) => return Err(wrong(format!("trap of the {who}"), format!("{code} expected, found {e}"))),
                    None => return Err(wrong(format!("no trap of the {who}"), format!("{code} expected"))),
                }
            }
        }
        Ok(Verdict::Traps)
    };
    check().unwrap_or_else(|v| v)
}

/// What is refused for operations on bits may also trap where a cotangent arrives at one; if it
/// does not, the gradient is right.
fn left_to_the_run(file: &File, call: &Invocation, tape: &OracleOutcome, tol: f64) -> Result<(), Verdict> {
    let options = Options { untracked: Untracked::Trap, ..Options::full() };
    let Ok(rule) = derive(&file.program, &call.request(), &options) else { return Ok(()) };
    match run::gradient(&rule, call).map_err(checked) {
        Ok(outcome) if !tape.nan_sign => compare_gradients(&outcome, tape, tol, false),
        Ok(_) | Err(Verdict::Refused(_)) => Ok(()),
        Err(other) => Err(other),
    }
}

/// What can be derived where callees are part of their callers may be refused where they are not:
/// less is known of it. The protocol asks for both.
fn as_calls(error: Error) -> Verdict {
    match error {
        Error::Diagnostics(_) => refusal(error),
        _ => checked(error),
    }
}

fn compare_primals(
    call: &Invocation,
    oracle_memory: &Memory,
    rule: &DerivedRule,
    tape: &OracleOutcome,
) -> Result<(), Verdict> {
    let mut memory = Memory::new(call).map_err(failure)?;
    let value = run::primal_in(rule, call, &mut memory).map_err(failure)?;
    let expected = run::items(call, &tape.values);
    if value.len() != expected.len() || value.iter().zip(&expected).any(|(a, b)| !same_value(a, b)) {
        return Err(wrong("primal", format!("the primal returns {value:?}, the interpreter {expected:?}")));
    }
    let buffers = (run::contents(call, &memory), run::contents(call, oracle_memory));
    for (i, (a, b)) in buffers.0.iter().zip(&buffers.1).enumerate() {
        if let (Some(a), Some(b)) = (a, b)
            && !same_value(&Item::Many(a.clone()), &Item::Many(b.clone()))
        {
            return Err(wrong("primal", format!("buffer {i} is {a:?}, in the interpreter {b:?}")));
        }
    }

    Ok(())
}

fn compare_gradients(outcome: &Outcome, tape: &OracleOutcome, tol: f64, wild: bool) -> Result<(), Verdict> {
    let expected: Vec<Option<&Vec<f64>>> =
        tape.arg_lanes.iter().zip(&tape.shadows).map(|(lanes, shadow)| lanes.as_ref().or(shadow.as_ref())).collect();
    let largest = expected.iter().flatten().flat_map(|v| v.iter()).map(|x| x.abs()).filter(|x| x.is_finite());
    let scale = largest.fold(1.0, f64::max);
    for (arg, (a, b)) in outcome.gradient.iter().zip(&expected).enumerate() {
        let (Some(a), Some(b)) = (a, b) else { continue };
        for (i, (a, b)) in a.nums().iter().zip(b.iter()).enumerate() {
            let a = a.as_f64();
            // Outside of the domain nothing is promised, and what is finite in spite of it may
            // depend on the order.
            if wild && !(a.is_finite() && b.is_finite()) {
                continue;
            }
            // Nor does the tape know what it loses by rounding, in a program with numbers of any
            // size.
            let off = tape.rounding.get(arg).and_then(|r| r.as_ref()?.get(i)).copied().unwrap_or(0.0);
            if wild && (a - b).abs() <= off {
                continue;
            }
            if !compare::close(a / scale, b / scale, tol) {
                return Err(wrong(
                    "gradient",
                    format!("argument {arg}, element {i}: gradient {a:?}, the tape says {b:?} (largest {scale:?})"),
                ));
            }
        }
    }
    Ok(())
}

/// Two runs whose pullbacks are called in the order of the runs, and one that is dropped: none
/// disturbs the others.
fn interleave(call: &Invocation, rule: &DerivedRule, expected: &Outcome) -> Result<(), Verdict> {
    let memory = || Memory::new(call).map_err(failure);
    let memories = [memory()?, memory()?, memory()?];
    let mut runs = Vec::new();
    for memory in &memories {
        // SAFETY: as in `run::gradient_in`; the memories outlive the pullbacks.
        runs.push(unsafe { rule.forward(&memory.arguments()) }.map_err(failure)?);
    }
    runs.truncate(2);
    for (memory, (value, pullback)) in memories.iter().zip(&mut runs) {
        // SAFETY: as above.
        let cotangents = unsafe { pullback.call(&call.seeds) }.map_err(failure)?;
        let outcome = run::collect(call, memory, value, &cotangents, 0);
        if !outcome.same_gradient(expected) {
            let detail = format!("{:?} instead of {:?}", outcome.gradient, expected.gradient);
            return Err(wrong("interleaved runs", detail));
        }
    }
    Ok(())
}

/// Whether values agree bit by bit, except that one NaN is as good as another.
fn same_value(a: &Item, b: &Item) -> bool {
    let same = |a: Num, b: Num| a.same_bits(b) || a.is_float() && a.as_f64().is_nan() && b.as_f64().is_nan();
    a.nums().len() == b.nums().len() && a.nums().iter().zip(b.nums()).all(|(a, b)| same(*a, *b))
}

/// Options that must not change a gradient.
fn other_options(file: &File, call: &Invocation, expected: &Outcome, tol: f64) -> Result<(), Verdict> {
    let others = [
        ("with little effort", Options { effort: Effort::Quick, ..Options::full() }),
        ("with run-time checks", Options { debug: true, ..Options::full() }),
    ];
    for (what, options) in others {
        let rule = derive(&file.program, &call.request(), &options).map_err(failure)?;
        let outcome = run::gradient(&rule, call).map_err(failure)?;
        if !agree(&outcome, expected, tol) {
            let detail = format!("{:?} instead of {:?}", outcome.gradient, expected.gradient);
            return Err(wrong(format!("options {what}"), detail));
        }
    }
    // A second call of a rule must not show from the numbers that another one has taken its place.
    let options = Options { mode: Mode::Gradient, ..Options::default() };
    let outcome = |settled: bool| {
        let rule = derive(&file.program, &call.request(), &options).map_err(failure)?;
        if settled {
            rule.settle();
        }
        run::gradient(&rule, call).map_err(failure)
    };
    let (first, second) = (outcome(false)?, outcome(true)?);
    if !agree(&first, expected, tol) || !second.equal_gradient(&first) {
        let detail =
            format!("{:?} at first, then {:?}, instead of {:?}", first.gradient, second.gradient, expected.gradient);
        return Err(wrong("tiers", detail));
    }
    Ok(())
}

fn agree(a: &Outcome, b: &Outcome, tol: f64) -> bool {
    let numbers = |o: &Outcome| -> Vec<f64> {
        o.gradient.iter().flatten().flat_map(|g| g.nums().iter().map(|n| n.as_f64())).collect()
    };
    let (a, b) = (numbers(a), numbers(b));
    let scale = b.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(1.0, f64::max);
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| compare::close(a / scale, b / scale, tol))
}
