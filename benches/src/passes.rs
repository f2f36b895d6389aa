//! Ablation: what each pass is worth, by gradients with all of them and without one.
//!
//! *Problem.* A pass that buys nothing is code to be maintained for nothing, and what one buys
//! changes as others come.
//!
//! *Method.* For each problem and each pass the gradient is derived without that pass. If that
//! gives the same functions, to the letter, the pass has no part in it; else both are checked and
//! take turns, all variants of a problem within one process, and the minimum of each counts, as
//! everywhere here.

use std::time::{Duration, Instant};

use brolga::{Options, Pass};
use brolga_driver::timing::{RepeatedCall, TimedCall};
use brolga_transform::Derivation;

use crate::calls::repeated;
use crate::measure::Effort;
use crate::prepared::{Failure, PreparedProblem, derive, requests};
use crate::problem::{Problem, Size};
use crate::wasm::WasmProblem;
use crate::{Configuration, selection};

/// One problem without one pass.
#[derive(Clone, Debug)]
pub struct Part {
    /// The problem.
    pub problem: String,
    /// How long its gradient takes without the pass, in multiples of how long it takes with all.
    pub time: f64,
    /// Bytes that are recorded with all passes, and without this one.
    pub tape: [usize; 2],
}

/// What one pass is worth: a part for each problem whose derivative is another one without it.
pub type PassGain = (Pass, Vec<Part>);

/// Measure all passes on the problems whose names contain `filter`. What `how` turns off stays off.
///
/// # Errors
/// [`Failure`]: an unknown filter, or a problem that is refused or wrong with one of its passes
/// turned off.
pub fn run(filter: Option<&str>, how: Configuration, effort: Effort) -> Result<Vec<PassGain>, Failure> {
    let (problems, programs) = selection(filter)?;
    let mut all: Vec<PassGain> = Pass::ALL.iter().map(|&p| (p, Vec::new())).collect();
    for make in problems {
        of_problem(&make(Size::Full), how, effort, &mut all)?;
    }
    for program in programs {
        of_program(&program, how, effort, &mut all)?;
    }
    Ok(all)
}

/// Everything that was derived, as text.
fn text(derivation: &Derivation) -> String {
    let Derivation { combined, joint, pairs, .. } = derivation;
    let ones = combined.iter().chain(joint).map(|w| &w.func);
    let pairs = pairs.iter().flat_map(|p| [&p.forward, &p.pullback]);
    ones.chain(pairs).map(|f| f.display().to_string()).collect()
}

/// The passes without which something else is derived, by number.
fn parted(
    how: Configuration,
    mut derived: impl FnMut(Configuration) -> Result<Derivation, Failure>,
) -> Result<Vec<(usize, Configuration)>, Failure> {
    let with_all = text(&derived(how)?);
    let mut found = Vec::new();
    for (i, &pass) in Pass::ALL.iter().enumerate() {
        let without = Configuration { disabled: how.disabled.set(pass, true), ..how };
        if without.disabled != how.disabled && text(&derived(without)?) != with_all {
            found.push((i, without));
        }
    }
    Ok(found)
}

/// Let all take turns, the first of which is with all passes: what each takes at least.
fn take_turns<T>(
    all: &mut [T],
    effort: Effort,
    mut once: impl FnMut(&mut T) -> Result<Duration, Failure>,
) -> Result<Vec<f64>, Failure> {
    let mut best = vec![Duration::MAX; all.len()];
    let (start, budget) = (Instant::now(), effort.budget.mul_f64(all.len() as f64 / 4.0));
    let mut round = 0;
    while round < effort.rounds.min(5) || start.elapsed() < budget {
        for (best, one) in best.iter_mut().zip(all.iter_mut()) {
            *best = (*best).min(once(one)?);
        }
        round += 1;
    }
    Ok(best.into_iter().map(|d| (d.as_nanos() as f64).max(1.0)).collect())
}

fn put(all: &mut [PassGain], problem: &str, parted: &[(usize, Configuration)], times: &[f64], tapes: &[usize]) {
    for (k, (pass, _)) in parted.iter().enumerate() {
        let (time, tape) = (times[k + 1] / times[0], [tapes[0], tapes[k + 1]]);
        all[*pass].1.push(Part { problem: problem.to_owned(), time, tape });
    }
}

fn of_problem(problem: &Problem, how: Configuration, effort: Effort, all: &mut [PassGain]) -> Result<(), Failure> {
    let (program, requests) = requests(problem)?;
    let parted = parted(how, |how| derive(problem, &program, &requests[0], how))?;
    let mut variants = Vec::new();
    for how in std::iter::once(how).chain(parted.iter().map(|p| p.1)) {
        let mut p = PreparedProblem::new(problem, how)?;
        p.check()?;
        // The second call is the estimate.
        p.gradient();
        let start = Instant::now();
        p.gradient();
        let once = start.elapsed().max(Duration::from_nanos(20));
        let batch = (effort.batch.as_nanos() / once.as_nanos()).clamp(1, 100_000) as u32;
        variants.push((p, batch));
    }
    let times = take_turns(&mut variants, effort, |(p, batch)| {
        let start = Instant::now();
        (0..*batch).for_each(|_| p.gradient());
        // Durations have whole nanoseconds, and some calls take few.
        Ok(start.elapsed() * 1000 / *batch)
    })?;
    let tapes: Vec<usize> = variants.iter().map(|(p, _)| p.tape_bytes()).collect();
    put(all, problem.name, &parted, &times, &tapes);
    Ok(())
}

fn of_program(program: &WasmProblem, how: Configuration, effort: Effort, all: &mut [PassGain]) -> Result<(), Failure> {
    let (file, call) = program.call("O2")?;
    let failed = |e: brolga::Error| Failure::Call { name: program.name(), message: e.to_string() };
    let isa = brolga::jit::host_isa(&how.options()).map_err(failed)?;
    let parted = parted(how, |how| {
        let options = Options { memory: call.memory, ..how.options() };
        brolga_transform::derive(&file.program, &call.request(), &options, &*isa).map_err(|d| failed(d.into()))
    })?;
    let hows = std::iter::once(how).chain(parted.iter().map(|p| p.1));
    let mut variants: Vec<RepeatedCall<'_>> =
        hows.map(|how| Ok(repeated(&file.program, &call, how)?.0)).collect::<Result<_, _>>().map_err(failed)?;
    let times = take_turns(&mut variants, effort, |r| r.time(TimedCall::Gradient, 1).map_err(failed))?;
    let tapes: Vec<usize> = variants.iter().map(RepeatedCall::tape_bytes).collect();
    put(all, &program.name(), &parted, &times, &tapes);
    Ok(())
}
