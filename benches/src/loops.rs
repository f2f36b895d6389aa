//! What time loops cost: a step of a long loop within a budget of bytes, beside a step of a short
//! loop that is derived as a loop, whose tape fits the cache.
//!
//! The loops are those of `ir-tests/wasm/src/simulations.c`, each of which is there as a time loop
//! and as a plain one. Both give the same gradient for the short length, which is compared first.
//! Gradients of the short loops take turns, and the minimum of each counts; a long one runs once.

use std::time::{Duration, Instant};

use brolga::{DerivedRule, Error, LoopStats, Options};
use brolga_driver::timing::{RepeatedCall, TimedCall};

use crate::calls::elements;
use crate::measure::Effort;
use crate::wasm::{WasmArg, WasmProblem, noise};
use crate::{Configuration, Failure};

/// A loop of some length, within some budget.
struct LoopCase {
    name: &'static str,
    export: &'static str,
    /// The same steps as a plain loop.
    plain: &'static str,
    args: Vec<WasmArg>,
    /// How many steps the short loop has, and the long one.
    steps: [i32; 2],
    budget: usize,
}

/// What one step of a time loop costs.
#[derive(Clone, Debug)]
pub struct LoopRow {
    /// The simulation.
    pub name: &'static str,
    /// Steps of the loop.
    pub steps: i32,
    /// Bytes that it may take.
    pub budget: usize,
    /// A step of the primal of the short loop.
    pub primal_ns: f64,
    /// A step of the gradient of the short loop that is derived as a loop.
    pub plain_ns: f64,
    /// A step of the gradient within the budget.
    pub loop_ns: f64,
    /// What the run has done.
    pub stats: LoopStats,
}

/// Lengths and budgets; those of the short loops fit their budgets.
fn cases() -> Vec<LoopCase> {
    let bodies = || {
        let at = (0..10).map(f64::from).flat_map(|i| [3.0 * i, (3.0 * i).sin(), 0.1 * i]).collect();
        vec![WasmArg::Floats(at), WasmArg::Floats(noise(1, 10, 0.5, 1.5))]
    };
    let plate = || vec![WasmArg::Floats(noise(2, 4096, -1.0, 1.0)), WasmArg::Floats(noise(3, 4096, 0.05, 0.2))];
    let mebi = |n: usize| n << 20;
    let nbody = |long, budget| LoopCase {
        name: "nbody",
        export: "bodies",
        plain: "bodies_plain",
        args: bodies(),
        steps: [200, long],
        budget: mebi(budget),
    };
    let heat = |long, budget| LoopCase {
        name: "heat",
        export: "plate",
        plain: "plate_plain",
        args: plate(),
        steps: [40, long],
        budget: mebi(budget),
    };
    vec![
        nbody(200, 16),
        nbody(1_000_000, 16),
        nbody(1_000_000, 1),
        nbody(10_000_000, 64),
        heat(40, 64),
        heat(100_000, 64),
    ]
}

/// Measure those whose name contains the filter.
///
/// # Errors
/// [`Failure::Call`], also where the loops' gradients differ.
pub fn run(filter: Option<&str>, how: Configuration, effort: Effort) -> Result<Vec<LoopRow>, Failure> {
    cases().iter().filter(|c| filter.is_none_or(|f| c.name.contains(f))).map(|c| c.measure(how, effort)).collect()
}

impl LoopCase {
    fn measure(&self, how: Configuration, effort: Effort) -> Result<LoopRow, Failure> {
        let failed = |message: String| Failure::Call { name: self.name.to_owned(), message };
        let [short, long] = self.steps;
        let calls = [(self.plain, short), (self.export, short), (self.export, long)].map(|(export, steps)| {
            let args = self.args.iter().cloned().chain([WasmArg::Int(steps)]).collect();
            WasmProblem { program: "simulations", export, args }.call("O2")
        });
        let mut files = Vec::new();
        for call in calls {
            files.push(call?);
        }
        let options = Options { memory_budget: self.budget, ..how.options() };
        let mut runs = Vec::new();
        for (file, call) in &files {
            let rule = DerivedRule::new(&file.program, &call.request(), &options);
            let run = rule.and_then(|rule| RepeatedCall::new(rule, call));
            runs.push(run.map_err(|e| failed(e.to_string()))?);
        }
        let mut time = |k: usize, what| runs[k].time(what, 1).map_err(|e: Error| failed(e.to_string()));
        let [mut primal, mut plain, mut own] = [Duration::MAX; 3];
        let start = Instant::now();
        while start.elapsed() < effort.budget {
            primal = primal.min(time(0, TimedCall::Primal)?);
            plain = plain.min(time(0, TimedCall::Gradient)?);
            own = own.min(time(1, TimedCall::Gradient)?);
        }
        let once = time(2, TimedCall::Gradient)?;
        if long != short {
            own = once;
        }
        self.compare(&elements(&runs[0]), &elements(&runs[1]))?;
        let a_step = |time: Duration, steps: i32| time.as_nanos() as f64 / f64::from(steps);
        Ok(LoopRow {
            name: self.name,
            steps: long,
            budget: self.budget,
            primal_ns: a_step(primal, short),
            plain_ns: a_step(plain, short),
            loop_ns: a_step(own, long),
            stats: runs[2].loops(),
        })
    }

    /// The gradients of the short loops are the same, to 13 digits.
    fn compare(&self, plain: &[Option<Vec<f64>>], own: &[Option<Vec<f64>>]) -> Result<(), Failure> {
        let floats = |all: &[Option<Vec<f64>>]| all.iter().flatten().flatten().copied().collect::<Vec<f64>>();
        let (plain, own) = (floats(plain), floats(own));
        let largest = plain.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
        match plain.iter().zip(&own).find(|(x, y)| (*x - *y).abs() > 1e-13 * largest) {
            None if plain.len() == own.len() && largest > 0.0 => Ok(()),
            found => {
                let message = format!("the gradients of the plain loop and of the time loop differ: {found:?}");
                Err(Failure::Call { name: self.name.to_owned(), message })
            }
        }
    }
}
