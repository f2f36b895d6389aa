//! The clock: interleaved rounds, the minimum of each kind.

use std::time::{Duration, Instant};

use brolga::{DerivedRule, Error};

use crate::prepared::{Failure, Prepared, options, request};
use crate::problem::Problem;

/// What one problem costs.
#[derive(Clone, Debug)]
pub struct Row {
    /// The problem.
    pub name: &'static str,
    /// What it stands for.
    pub about: &'static str,
    /// One call of the primal.
    pub primal_ns: f64,
    /// One forward pass and one pullback.
    pub gradient_ns: f64,
    /// One call of the adjoint written by hand, if there is one.
    pub hand_ns: Option<f64>,
    /// Bytes that a forward pass records.
    pub tape_bytes: usize,
    /// How often the innermost loop runs.
    pub iterations: usize,
    /// From the program to forward pass and pullback in CLIF.
    pub differentiate_us: f64,
    /// From there to machine code, for primal, forward pass and pullback together.
    pub compile_us: f64,
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds at least.
    pub rounds: usize,
    /// How long one batch of calls should take.
    pub batch: Duration,
    /// Rounds go on until this much time is spent on a problem.
    pub budget: Duration,
}

impl Default for Effort {
    fn default() -> Self {
        Self { rounds: 40, batch: Duration::from_micros(500), budget: Duration::from_secs(1) }
    }
}

/// Check a problem, then measure it.
///
/// # Errors
/// See [`Failure`].
pub fn measure(problem: &Problem, effort: Effort) -> Result<Row, Failure> {
    let failed = |error| Failure::Run { name: problem.name, error };
    let mut p = Prepared::new(problem)?;
    p.check()?;
    let (primal_ns, gradient_ns, hand_ns) = run_times(&mut p, effort).map_err(failed)?;
    let (differentiate_us, compile_us) = compile_times(problem, effort)?;
    Ok(Row {
        name: problem.name,
        about: problem.about,
        primal_ns,
        gradient_ns,
        hand_ns: p.has_hand().then_some(hand_ns),
        tape_bytes: p.tape_bytes(),
        iterations: problem.iterations,
        differentiate_us,
        compile_us,
    })
}

/// One of the things that are timed in turns.
type Call = fn(&mut Prepared<'_>) -> Result<(), Error>;

/// Primal, gradient, hand-written adjoint: nanoseconds a call.
fn run_times(p: &mut Prepared<'_>, effort: Effort) -> Result<(f64, f64, f64), Error> {
    let calls: [Call; 3] = [|p| p.primal().map(drop), |p| p.gradient().map(drop), |p| p.hand().map(drop)];
    let mut batches = [1; 3];
    for (batch, call) in batches.iter_mut().zip(calls) {
        // The first call warms caches and the tape, the second is the estimate.
        time(p, call, 1)?;
        let once = time(p, call, 1)?.max(Duration::from_nanos(20));
        *batch = (effort.batch.as_nanos() / once.as_nanos()).clamp(1, 100_000) as usize;
    }
    let mut best = [f64::INFINITY; 3];
    let start = Instant::now();
    let mut round = 0;
    while round < effort.rounds || start.elapsed() < effort.budget {
        for ((best, call), batch) in best.iter_mut().zip(calls).zip(batches) {
            *best = best.min(time(p, call, batch)?.as_nanos() as f64 / batch as f64);
        }
        round += 1;
    }
    Ok((best[0], best[1], best[2]))
}

fn time(p: &mut Prepared<'_>, call: Call, batch: usize) -> Result<Duration, Error> {
    let start = Instant::now();
    for _ in 0..batch {
        call(p)?;
    }
    Ok(start.elapsed())
}

/// Differentiate, compile: microseconds.
fn compile_times(problem: &Problem, effort: Effort) -> Result<(f64, f64), Failure> {
    let failed = |error| Failure::Run { name: problem.name, error };
    let (program, request) = request(problem)?;
    let options = options();
    let isa = brolga::jit::host_isa(options.optimize).map_err(failed)?;
    let (mut differentiate, mut compile) = (Duration::MAX, Duration::MAX);
    let start = Instant::now();
    let mut round = 0;
    while round == 0 || (round < effort.rounds && start.elapsed() < effort.budget) {
        let t = Instant::now();
        let derivation = brolga_transform::derive(&program, &request, &options, &*isa).map_err(|d| failed(d.into()))?;
        differentiate = differentiate.min(t.elapsed());
        let t = Instant::now();
        let rule = DerivedRule::from_derivation(derivation, &request, &options).map_err(failed)?;
        compile = compile.min(t.elapsed());
        drop(rule);
        round += 1;
    }
    Ok((differentiate.as_nanos() as f64 / 1e3, compile.as_nanos() as f64 / 1e3))
}
