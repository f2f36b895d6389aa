//! The clock: interleaved rounds, the minimum of each kind.

use std::time::{Duration, Instant};

use brolga::DerivedRule;
use brolga::cranelift_codegen::Context;
use brolga::cranelift_codegen::control::ControlPlane;

use crate::Configuration;
use crate::prepared::{Failure, PreparedProblem, derive, requests};
use crate::problem::Problem;

/// What one problem costs.
#[derive(Clone, Debug)]
pub struct MeasuredRow {
    /// The problem.
    pub name: &'static str,
    /// What it stands for.
    pub about: &'static str,
    /// One call of the primal.
    pub primal_ns: f64,
    /// One gradient: shadows zeroed, then what was derived.
    pub gradient_ns: f64,
    /// The same through [`DerivedRule`].
    pub guarded_ns: f64,
    /// One call of the adjoint written by hand, if there is one.
    pub hand_ns: Option<f64>,
    /// Bytes that a forward pass records.
    pub tape_bytes: usize,
    /// How often the innermost loop runs.
    pub iterations: usize,
    /// From the program to CLIF of what was derived.
    pub differentiate_us: f64,
    /// From there to machine code that can be called; the primal is not compiled, since it has not
    /// been called.
    pub compile_us: f64,
    /// From the primal in CLIF to its machine code: what Cranelift takes without Brolga.
    pub primal_compile_us: f64,
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
pub fn measure(problem: &Problem, how: Configuration, effort: Effort) -> Result<MeasuredRow, Failure> {
    let mut p = PreparedProblem::new(problem, how)?;
    p.check()?;
    let [primal_ns, gradient_ns, hand_ns, guarded_ns] = run_times(&mut p, effort);
    let [differentiate_us, compile_us, primal_compile_us] = compile_times(problem, how, effort)?;
    Ok(MeasuredRow {
        name: problem.name,
        about: problem.about,
        primal_ns,
        gradient_ns,
        guarded_ns,
        hand_ns: p.has_hand().then_some(hand_ns),
        tape_bytes: p.tape_bytes(),
        iterations: problem.iterations,
        differentiate_us,
        compile_us,
        primal_compile_us,
    })
}

/// Primal, gradient, hand-written adjoint, guarded gradient: nanoseconds a call.
fn run_times(p: &mut PreparedProblem<'_>, effort: Effort) -> [f64; 4] {
    // `check` has seen that nothing traps.
    in_turns(p, [|p| p.primal(), |p| p.gradient(), |p| p.hand(), |p| drop(p.guarded())], effort)
}

/// The least that a call of each takes, in nanoseconds: batches of each are called in turns.
pub(crate) fn in_turns<S, const N: usize>(state: &mut S, calls: [fn(&mut S); N], effort: Effort) -> [f64; N] {
    let mut batches = [1; N];
    for (batch, call) in batches.iter_mut().zip(calls) {
        // The first call warms caches and the tape, the second is the estimate.
        time(state, call, 1);
        let once = time(state, call, 1).max(Duration::from_nanos(20));
        *batch = (effort.batch.as_nanos() / once.as_nanos()).clamp(1, 100_000) as usize;
    }
    let mut best = [f64::INFINITY; N];
    let (start, mut round) = (Instant::now(), 0);
    while round < effort.rounds || start.elapsed() < effort.budget {
        for ((best, call), batch) in best.iter_mut().zip(calls).zip(batches) {
            *best = best.min(time(state, call, batch).as_nanos() as f64 / batch as f64);
        }
        round += 1;
    }
    best
}

fn time<S>(state: &mut S, call: fn(&mut S), batch: usize) -> Duration {
    let start = Instant::now();
    for _ in 0..batch {
        call(state);
    }
    start.elapsed()
}

/// Differentiate, compile, compile the primal alone: microseconds.
fn compile_times(problem: &Problem, how: Configuration, effort: Effort) -> Result<[f64; 3], Failure> {
    let failed = |error| Failure::Run { name: problem.name, error };
    let (program, requests) = requests(problem)?;
    // All results alike.
    let request = &requests[0];
    let isa = brolga::jit::host_isa(&how.options()).map_err(failed)?;
    let mut best = [Duration::MAX; 3];
    let start = Instant::now();
    let mut round = 0;
    while round == 0 || (round < effort.rounds && start.elapsed() < effort.budget) {
        let t = Instant::now();
        let derivation = derive(problem, &program, request, how)?;
        best[0] = best[0].min(t.elapsed());
        let t = Instant::now();
        let rule = DerivedRule::from_derivation(derivation, request, &how.options()).map_err(failed)?;
        best[1] = best[1].min(t.elapsed());
        drop(rule);
        if let Some(body) = &program.funcs[request.func].body {
            let mut context = Context::for_function(body.clone());
            let t = Instant::now();
            // `DerivedRule` has just compiled it.
            drop(context.compile(&*isa, &mut ControlPlane::default()));
            best[2] = best[2].min(t.elapsed());
        }
        round += 1;
    }
    Ok(best.map(|d| d.as_nanos() as f64 / 1e3))
}
