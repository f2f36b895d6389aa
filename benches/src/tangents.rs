//! What forward mode costs: value and one tangent beside the primal, eight of them in one run
//! beside eight runs, and what it takes to have it; and what a pullback of eight seeds costs beside
//! eight.
//!
//! Primal and tangent function are called as users call them, through the guarded entry, in turns,
//! and the minimum of each counts. Before, the tangent is compared with the reference: its product
//! with a seed of one is the sum of the gradient's entries along a direction of ones.

use std::time::{Duration, Instant};

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Mode, Options, Request, ResultActivity};
use brolga_driver::memory::Block;

use crate::Configuration;
use crate::measure::{Effort, in_turns};
use crate::plain::PlainModule;
use crate::prepared::{Failure, argument, requests};
use crate::problem::{Input, Problem};

/// What the tangent of one problem costs.
#[derive(Clone, Debug)]
pub struct TangentRow {
    /// The problem.
    pub name: &'static str,
    /// One call of the primal.
    pub primal_ns: f64,
    /// One call of the tangent function.
    pub tangent_ns: f64,
    /// One call of the tangent function for eight directions.
    pub eight_ns: f64,
    /// One forward pass and eight pullbacks.
    pub pullbacks_ns: f64,
    /// One forward pass and one pullback of eight seeds.
    pub pullback_ns: f64,
    /// From the program to a tangent function that can be called.
    pub ready_us: f64,
    /// From the primal in CLIF to code that can be called: what Cranelift takes without Brolga.
    pub cranelift_us: f64,
}

/// Check a problem, then measure it.
///
/// # Errors
/// See [`Failure`].
pub fn measure(problem: &Problem, how: Configuration, effort: Effort) -> Result<TangentRow, Failure> {
    let failed = |error| Failure::Run { name: problem.name, error };
    let how = Configuration { mode: Mode::Tangent, ..how };
    let (program, all) = requests(problem)?;
    let results = vec![ResultActivity::Active; program.funcs[all[0].func].signature.returns.len()];
    let request = Request { results, ..all[0].clone() };
    let rule = DerivedRule::new(&program, &request, &how.options()).map_err(failed)?;
    let wide = Options { width: EIGHT as u32, ..how.options() };
    let wide = DerivedRule::new(&program, &request, &wide).map_err(failed)?;
    let (mut blocks, mut shadows) = (Vec::new(), Vec::new());
    let mut calls = [(&rule, 1), (&wide, EIGHT)].map(|(rule, width)| {
        let first = shadows.len();
        let args: Vec<Arg> = problem.args.iter().map(|i| argument(i, width, &mut blocks, &mut shadows)).collect();
        along_ones(problem, &mut shadows[first..]);
        let values = args.iter().map(|a| a.value.clone()).collect();
        let ones = (0..width).flat_map(|_| request.args.iter().map(|a| one(a.activity))).collect();
        TangentCall { rule, args, values, ones, out: Vec::new(), tangents: Vec::new() }
    });
    for call in &mut calls {
        call.tangent().map_err(failed)?;
        check(problem, call)?;
    }
    // `check` has seen that nothing traps.
    let [primal_ns, tangent_ns, eight_ns] =
        in_turns(&mut calls, [|c| drop(c[0].primal()), |c| drop(c[0].tangent()), |c| drop(c[1].tangent())], effort);
    let [pullbacks_ns, pullback_ns] = back(problem, &program, &request, how, effort)?;
    let [ready_us, cranelift_us] = until_ready(problem, &program, &request, how, effort)?;
    Ok(TangentRow {
        name: problem.name,
        primal_ns,
        tangent_ns,
        eight_ns,
        pullbacks_ns,
        pullback_ns,
        ready_us,
        cranelift_us,
    })
}

/// Directions of a batch.
const EIGHT: usize = 8;

/// A forward pass, and pullbacks until there are eight gradients.
struct SeedsCall<'r> {
    rule: &'r DerivedRule,
    args: Vec<Arg>,
    seeds: Vec<DataValue>,
    out: Vec<DataValue>,
    cotangents: Vec<Option<DataValue>>,
}

impl SeedsCall<'_> {
    fn run(&mut self) -> Result<(), brolga::Error> {
        // SAFETY: pointers are to blocks that are as large as the problem says, shadows as many
        // times as large as there are seeds.
        unsafe {
            let mut pullback = self.rule.forward_into(&self.args, &mut self.out)?;
            for _ in 0..EIGHT / self.rule.width() {
                pullback.call_into(&self.seeds, &mut self.cotangents)?;
            }
        }
        Ok(())
    }
}

/// One forward pass with eight pullbacks, and with one of eight seeds: nanoseconds.
fn back(
    problem: &Problem,
    program: &brolga::Program,
    request: &Request,
    how: Configuration,
    effort: Effort,
) -> Result<[f64; 2], Failure> {
    let failed = |error| Failure::Run { name: problem.name, error };
    let of = |width: usize| {
        let options = Options { mode: Mode::Split, width: width as u32, ..how.options() };
        DerivedRule::new(program, request, &options).map_err(failed)
    };
    let rules = [of(1)?, of(EIGHT)?];
    let (mut blocks, mut shadows) = (Vec::new(), Vec::new());
    let mut calls = [&rules[0], &rules[1]].map(|rule| {
        let width = rule.width();
        let args = problem.args.iter().map(|i| argument(i, width, &mut blocks, &mut shadows)).collect();
        let returns = &program.funcs[request.func].signature.returns;
        let one = |r: &brolga::cranelift_codegen::ir::AbiParam| match r.value_type {
            brolga::cranelift_codegen::ir::types::F64 => DataValue::F64(1.0.into()),
            ty => DataValue::read_from_slice_ne(&[0; 16], ty),
        };
        let seeds = (0..width).flat_map(|_| returns.iter().map(one)).collect();
        SeedsCall { rule, args, seeds, out: Vec::new(), cotangents: Vec::new() }
    });
    for call in &mut calls {
        call.run().map_err(failed)?;
    }
    // They have run before.
    Ok(in_turns(&mut calls, [|c| drop(c[0].run()), |c| drop(c[1].run())], effort))
}

fn one(activity: ArgActivity) -> Option<DataValue> {
    (activity == ArgActivity::Active).then(|| DataValue::F64(1.0.into()))
}

/// Shadows of ones.
pub(crate) fn along_ones(problem: &Problem, shadows: &mut [Block]) {
    let inputs = problem.args.iter().filter(|i| matches!(i, Input::Floats(_) | Input::Singles(_)));
    for (input, shadow) in inputs.zip(shadows) {
        match input {
            Input::Singles(_) => {
                shadow.bytes_mut().chunks_exact_mut(4).for_each(|c| c.copy_from_slice(&1_f32.to_ne_bytes()))
            }
            _ => shadow.bytes_mut().chunks_exact_mut(8).for_each(|c| c.copy_from_slice(&1_f64.to_ne_bytes())),
        }
    }
}

struct TangentCall<'r> {
    rule: &'r DerivedRule,
    args: Vec<Arg>,
    values: Vec<DataValue>,
    ones: Vec<Option<DataValue>>,
    out: Vec<DataValue>,
    tangents: Vec<Option<DataValue>>,
}

impl TangentCall<'_> {
    fn primal(&mut self) -> Result<(), brolga::Error> {
        // SAFETY: pointers are to blocks that are as large as the problem says.
        unsafe { self.rule.primal_into(&self.values, &mut self.out) }
    }

    fn tangent(&mut self) -> Result<(), brolga::Error> {
        // SAFETY: as for the primal; every shadow is as large as its primal.
        unsafe { self.rule.tangent(&self.args, &self.ones, &mut self.out, &mut self.tangents) }.map(drop)
    }
}

/// Compare with the gradients of the reference, result by result.
fn check(problem: &Problem, call: &TangentCall<'_>) -> Result<(), Failure> {
    let rows = (call.tangents.len() / call.rule.width()).max(1);
    let gradient = &problem.reference.gradient;
    for (k, tangent) in call.tangents.iter().enumerate() {
        let Some(DataValue::F64(is)) = tangent else { continue };
        let k = k % rows;
        let row = &gradient[k * gradient.len() / rows..(k + 1) * gradient.len() / rows];
        let (want, size) = row.iter().fold((0.0, 1.0), |(sum, size), x| (sum + x, size + x.abs()));
        let is = is.as_f64();
        // Written so that NaN is wrong.
        let right = (is - want).abs() <= 100.0 * problem.tolerance * size;
        if !right {
            return Err(Failure::Wrong { name: problem.name, what: "the tangent", element: k, is, want });
        }
    }
    Ok(())
}

/// Until the tangent function can be called with little effort, and until the primal can be without
/// Brolga, as in [`crate::latency`]: microseconds.
fn until_ready(
    problem: &Problem,
    program: &brolga::Program,
    request: &Request,
    how: Configuration,
    effort: Effort,
) -> Result<[f64; 2], Failure> {
    let failed = |error| Failure::Run { name: problem.name, error };
    let quick = Options { effort: brolga::Effort::Quick, ..how.options() };
    let isa = brolga::jit::host_isa(&Configuration::default().options()).map_err(failed)?;
    let mut best = [Duration::MAX; 2];
    let (start, mut round) = (Instant::now(), 0);
    while round == 0 || (round < effort.rounds && start.elapsed() < effort.budget) {
        let t = Instant::now();
        drop(DerivedRule::new(program, request, &quick).map_err(failed)?);
        best[0] = best[0].min(t.elapsed());
        let t = Instant::now();
        drop(PlainModule::ready(program, request.func, isa.clone()).map_err(failed)?);
        best[1] = best[1].min(t.elapsed());
        round += 1;
    }
    Ok(best.map(|d| d.as_nanos() as f64 / 1e3))
}
