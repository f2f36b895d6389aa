//! How long it takes until there is a gradient: to differentiate and to compile, beside what
//! Cranelift takes for the primal.
//!
//! *Problem.* To derive and to compile take from a tenth of a millisecond on, on a machine where
//! other things happen, and what counts is their ratio to Cranelift's own work on the primal.
//!
//! *Method.* As for run times, all kinds take turns, and the minimum of each counts.
//! *Differentiate* and *compile* are what a program pays that asks for the gradient and calls
//! nothing else: from the program to CLIF, and from there to code that has been verified and can be
//! called. *Cranelift* is the same of the primal, without Brolga: it is verified, compiled in a
//! module of its own, and can be called. *Alone* is no more than `Context::compile` of it: no
//! verifier, no module, no memory for code. Both have the flags that are the default, whatever is
//! derived. *First* is everything from the text of the file on: it is read, and the gradient is
//! called once.

use std::time::{Duration, Instant};

use brolga::cranelift_codegen::Context;
use brolga::cranelift_codegen::control::ControlPlane;
use brolga::{DerivedRule, Options};

use crate::Configuration;
use crate::measure::Effort;
use crate::plain::PlainModule;
use crate::prepared::{Failure, PreparedProblem, derive, requests};
use crate::problem::{Problem, Size};
use crate::problems::SERIES;

/// What one problem takes to get ready: microseconds.
#[derive(Clone, Debug)]
pub struct Latency {
    /// The problem, and how long it is if it is one of a series.
    pub name: String,
    /// Instructions of the primal.
    pub insts: usize,
    /// From the primal in CLIF to code that can be called: what Cranelift takes without Brolga.
    pub cranelift_us: f64,
    /// `Context::compile` of the primal, and nothing else.
    pub alone_us: f64,
    /// From the program to CLIF of what was derived.
    pub differentiate_us: f64,
    /// From there to machine code that can be called: verified and compiled.
    pub compile_us: f64,
    /// From the text of the file to the first gradient.
    pub first_us: f64,
}

impl Latency {
    /// To differentiate and to compile, as a multiple of what Cranelift takes until the primal can
    /// be called.
    pub fn ratio(&self) -> f64 {
        (self.differentiate_us + self.compile_us) / self.cranelift_us
    }

    /// The same as a multiple of `Context::compile`.
    pub fn to_alone(&self) -> f64 {
        (self.differentiate_us + self.compile_us) / self.alone_us
    }
}

/// Measure a problem.
///
/// # Errors
/// See [`Failure`].
pub fn measure(problem: &Problem, asked: Configuration, effort: Effort) -> Result<Latency, Failure> {
    let how = first_tier(asked);
    let failed = |error| Failure::Run { name: problem.name, error };
    let (program, all) = requests(problem)?;
    let wanted = &all[0];
    let isa = brolga::jit::host_isa(&Configuration::default().options()).map_err(failed)?;
    let body = program.funcs[wanted.func].body.as_ref().ok_or_else(|| {
        failed(brolga::Error::Usage(format!("%{} has no body, so there is nothing to differentiate", problem.func)))
    })?;
    // Outside of the clock: memory for the arguments, and what is right.
    let mut prepared = PreparedProblem::new(problem, how)?;
    let mut best = [Duration::MAX; 5];
    let start = Instant::now();
    let mut round = 0;
    // A program that wants a gradient has no adjoint beside it.
    let alone = Problem { clif: without(&problem.clif, problem.hand).into(), hand: None, ..problem.clone() };
    while round < 2 || (round < effort.rounds && start.elapsed() < effort.budget) {
        let mut context = Context::for_function(body.clone());
        let t = Instant::now();
        // A rule has compiled it before.
        drop(context.compile(&*isa, &mut ControlPlane::default()));
        best[0] = best[0].min(t.elapsed());
        let t = Instant::now();
        let derivation = derive(problem, &program, wanted, how)?;
        best[1] = best[1].min(t.elapsed());
        let t = Instant::now();
        let rule = DerivedRule::from_derivation(derivation, wanted, &how.options()).map_err(failed)?;
        best[2] = best[2].min(t.elapsed());
        drop(rule);
        let t = Instant::now();
        let (program, all) = requests(&alone)?;
        let rule = DerivedRule::new(&program, &all[0], &asked.options()).map_err(failed)?;
        prepared.first(&rule)?;
        best[3] = best[3].min(t.elapsed());
        let t = Instant::now();
        let ready = PlainModule::ready(&program, all[0].func, isa.clone()).map_err(failed)?;
        best[4] = best[4].min(t.elapsed());
        drop(ready);
        round += 1;
    }
    let [alone_us, differentiate_us, compile_us, first_us, cranelift_us] = best.map(|d| d.as_nanos() as f64 / 1e3);
    let insts = body.layout.blocks().map(|b| body.layout.block_insts(b).count()).sum();
    let name = problem.name.to_owned();
    Ok(Latency { name, insts, cranelift_us, alone_us, differentiate_us, compile_us, first_us })
}

/// What is made first.
fn first_tier(how: Configuration) -> Configuration {
    match how.options().tiers() {
        Some((Options { disabled, effort, inline, .. }, _)) => Configuration { disabled, effort, inline, ..how },
        None => how,
    }
}

/// A text without one of its functions.
fn without(clif: &str, symbol: Option<&str>) -> String {
    let function = symbol.and_then(|symbol| clif.find(&format!("function %{symbol}(")));
    let Some(from) = function else { return clif.to_owned() };
    let to = clif[from..].find("\n}").map_or(clif.len(), |end| from + end + 2);
    format!("{}{}", &clif[..from], &clif[to..])
}

/// Measure code of growing length, with branches and without, up to 100 000 instructions.
///
/// # Errors
/// As [`measure`].
pub fn scaling(how: Configuration, effort: Effort) -> Result<Vec<Latency>, Failure> {
    let mut rows = Vec::new();
    for series in SERIES.iter().filter(|s| s.code) {
        for &n in series.lengths {
            let row = measure(&(series.make)(Size::Length(n)), how, effort)?;
            rows.push(Latency { name: format!("{}, {n}", series.name), ..row });
        }
    }
    Ok(rows)
}
