//! What reversible functions cost, beside the same functions by tape.
//!
//! The functions of `ir-tests/reversible/paper.rs` and problems in CLIF take the same arguments,
//! but for lengths. Both are called through the guarded entry, in turns; the minimum of each
//! counts. Before, their gradients are compared.
//!
//! A step of an integrator is measured within a long loop of CLIF, whose calls are undone, and
//! within a short one whose tape fits the cache. A method that forgets is run back by Bennett's
//! recursion, and by a time loop with as many states.

use std::time::Duration;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::drivers::{Argument, Derivatives, Point};
use brolga::{DerivedRule, InverseCheck, LoopStats, Options, Program};
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::timing::{RepeatedCall, TimedCall};
use brolga_driver::{BoundArg, File, Invocation, run};

use crate::calls::elements;
use crate::measure::{Effort, in_turns};
use crate::problem::{Input, Problem, Size};
use crate::problems::{irregular, standard};
use crate::{Configuration, Failure};

/// One function.
#[derive(Clone, Debug)]
pub struct ReversibleRow {
    /// Its name.
    pub name: String,
    /// The function in CLIF.
    pub plain_ns: f64,
    /// Its gradient by tape, with the value.
    pub tape_ns: f64,
    /// The reversible function.
    pub call_ns: f64,
    /// Its inverse.
    pub uncall_ns: f64,
    /// Its gradient, with the value.
    pub gradient_ns: f64,
    /// Bytes on the tape.
    pub tape_bytes: usize,
    /// Bytes that the gradient of the reversible function keeps.
    pub bytes: usize,
}

/// A step of a loop.
#[derive(Clone, Debug)]
pub struct StepRow {
    /// How it is gone back.
    pub how: &'static str,
    /// Steps of the loop.
    pub steps: u64,
    /// A step of the loop alone.
    pub primal_ns: f64,
    /// A step of its gradient.
    pub step_ns: f64,
    /// Bytes that a step keeps.
    pub bytes: f64,
    /// Steps that run forwards, for each of the loop.
    pub forward: f64,
}

/// A Hessian of a reversible function, by forward mode over its gradient.
#[derive(Clone, Debug)]
pub struct HessianRow {
    /// The function.
    pub name: &'static str,
    /// How many inputs there are.
    pub inputs: usize,
    /// Value and gradient.
    pub gradient_ns: f64,
    /// The Hessian.
    pub hessian_ns: f64,
}

/// How far steps of the planets that are undone lead from where they began, without checks.
#[derive(Clone, Debug)]
pub struct DriftRow {
    /// Steps, there and back.
    pub steps: u64,
    /// The distance of the places, relative to where they were.
    pub drift: f64,
    /// The same by functions that were written by hand.
    pub by_hand: f64,
}

/// What was aimed at, beside what is.
#[derive(Clone, Debug)]
pub struct TargetRow {
    /// A ratio.
    pub what: &'static str,
    /// It is to be at most this.
    pub target: f64,
    /// It is this.
    pub found: f64,
}

/// All that was measured.
#[derive(Clone, Debug, Default)]
pub struct ReversibleReport {
    /// Functions.
    pub functions: Vec<ReversibleRow>,
    /// Steps of loops.
    pub steps: Vec<StepRow>,
    /// Hessians.
    pub hessians: Vec<HessianRow>,
    /// Drift.
    pub drifts: Vec<DriftRow>,
}

impl ReversibleReport {
    /// What the paper's numbers, and a sixth of the tape, are beside what was measured.
    pub fn targets(&self) -> Vec<TargetRow> {
        let mut found = Vec::new();
        let mut say = |what, target, of: Option<f64>| found.extend(of.map(|found| TargetRow { what, target, found }));
        let most = |of: &dyn Fn(&ReversibleRow) -> f64| self.functions.iter().map(of).reduce(f64::max);
        say("un-call, of a call: the slowest", 1.1, most(&|r| r.uncall_ns / r.call_ns));
        let embed = self.functions.iter().find(|r| r.name == "embed");
        say("gradient of the embedding, of its call", 3.1, embed.map(|r| r.gradient_ns / r.call_ns));
        let tape = self.steps.iter().find(|r| r.how == "tape");
        let long = |how: &str| self.steps.iter().find(|r| r.how == how && r.steps == STEPS[1]);
        let of_step = |how| Some(long(how)?.step_ns / tape?.step_ns);
        say("2^17 steps by tolerance, of a taped step in the cache", 2.5, of_step("by tolerance"));
        say("2^17 steps exactly, of a taped step in the cache", 2.5, of_step("exactly"));
        say("bytes of a step exactly, of a taped one", 1.0 / 6.0, (|| Some(long("exactly")?.bytes / tape?.bytes))());
        found
    }
}

const PAPER: &str = include_str!("../../ir-tests/reversible/paper.rev");
const PHYSICS: &str = include_str!("../../ir-tests/reversible/physics.rev");

/// A loop of steps: states, what is read, and how often. `STEP` is what is called.
const LOOP: &str = "\
function %steps(i64, i64, i64, i64, i64, i64) {
    fn0 = %STEP(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64, v5: i64):
    v6 = iconst.i64 1
    jump block1(v5)
block1(v7: i64):
    brif v7, block2, block3
block2:
    call fn0(v0, v1, v2, v3, v4)
    v8 = isub v7, v6
    jump block1(v8)
block3:
    return
}
";

/// Steps and then as many inverses.
const THERE_AND_BACK: &str = "\
function %there_and_back(i64, i64, i64, i64, i64, i64) {
    fn0 = %leap__do(i64, i64, i64, i64, i64)
    fn1 = %leap__undo(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64, v5: i64):
    v6 = iconst.i64 1
    jump block1(v5)
block1(v7: i64):
    brif v7, block2, block3(v5)
block2:
    call fn0(v0, v1, v2, v3, v4)
    v8 = isub v7, v6
    jump block1(v8)
block3(v9: i64):
    brif v9, block4, block5
block4:
    call fn1(v0, v1, v2, v3, v4)
    v10 = isub v9, v6
    jump block3(v10)
block5:
    return
}
";

/// The loss of the embedding as a value, of a place on the stack.
const EMBEDDING: &str = "\
function %embedding(i64, i64, i64, i64, i64, i64, i64) -> f64 {
    ss0 = explicit_slot 8, align = 8
    fn0 = %embed(i64, i64, i64, i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64, v5: i64, v6: i64):
    v7 = stack_addr.i64 ss0
    v8 = f64const 0.0
    store v8, v7
    call fn0(v7, v0, v1, v2, v3, v4, v5, v6)
    v9 = load.f64 v7
    return v9
}
";

/// A time loop whose step computes a new state beside the old one, and puts it into its place.
const TIME_LOOP: &str = "\
function %forget(i64, i64, i64) {
    ss0 = explicit_slot 800, align = 8
    fn0 = %heat__do(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = stack_addr.i64 ss0
    v4 = iconst.i64 0
    v5 = iconst.i64 100
    v6 = iconst.i64 1
    v7 = iconst.i64 3
    v8 = f64const 0.0
    jump block1(v4)
block1(v9: i64):
    v10 = ishl v9, v7
    v11 = iadd v3, v10
    store v8, v11
    v12 = iadd v9, v6
    v13 = icmp slt v12, v5
    brif v13, block1(v12), block2
block2:
    call fn0(v3, v0, v1, v6, v5)
    jump block3(v4)
block3(v14: i64):
    v15 = ishl v14, v7
    v16 = iadd v3, v15
    v17 = load.f64 v16
    v18 = iadd v0, v15
    store v17, v18
    v19 = iadd v14, v6
    v20 = icmp slt v19, v5
    brif v20, block3(v19), block4
block4:
    return
}

function %heat_loop(i64, i64, i64) {
    fn0 = %forget(i64, i64, i64)
    fn1 = %brolga_time_loop(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = iconst.i64 800
    call fn1(v3, v0, v4, v1, v2)
    return
}
";

fn failed(name: &str) -> impl Fn(&dyn std::fmt::Display) -> Failure {
    move |e| Failure::Call { name: name.to_owned(), message: e.to_string() }
}

fn file(name: &'static str, text: &str) -> Result<File, Failure> {
    File::parse(name, text).map_err(|problems| Failure::File { name, problems })
}

/// Reversible functions, and others that call them.
fn joined(rev: &'static str, clif: &str) -> Result<File, Failure> {
    let mut all = file("paper.rev", rev)?;
    all.define(clif).map_err(|problems| Failure::File { name: "loop.clif", problems })?;
    Ok(all)
}

fn bound(file: &File, text: &str) -> Result<Invocation, Failure> {
    let name = text.split('(').next().unwrap_or_default();
    let (call, clauses) = call_with_clauses(text).map_err(|e| failed(name)(&e.diagnostic("AD0008", None)))?;
    file.bind(text, &call, &clauses).map_err(|e| failed(name)(&e.diagnostic("AD0008", None)))
}

/// A call that is repeated.
fn repeated<'a>(program: &Program, call: &'a Invocation, options: &Options) -> Result<RepeatedCall<'a>, Failure> {
    let rule = DerivedRule::new(program, &call.request(), options);
    rule.and_then(|rule| RepeatedCall::new(rule, call)).map_err(|e| failed(&call.symbol)(&e))
}

fn time(of: &mut RepeatedCall<'_>, what: TimedCall, name: &str) -> Result<f64, Failure> {
    of.time(what, 1).map(|t: Duration| t.as_nanos() as f64).map_err(|e| failed(name)(&e))
}

/// Arguments of a problem as text, and which of them are constant.
fn arguments(problem: &Problem) -> Vec<(String, &'static str)> {
    let list = |all: &mut dyn Iterator<Item = String>| all.collect::<Vec<_>>().join(", ");
    let one = |input: &Input| match input {
        Input::Active(x) => (format!("{x:?}"), "active"),
        Input::Floats(x) => (format!("[{}]", list(&mut x.iter().map(|x| format!("{x:?}")))), "duplicated"),
        Input::ConstFloats(x) => (format!("[{}]", list(&mut x.iter().map(|x| format!("{x:?}")))), "const"),
        Input::Longs(n) => (format!("i64[{}]", list(&mut n.iter().map(i64::to_string))), "const"),
        Input::Int(n) => (n.to_string(), "const"),
        other => unreachable!("{other:?}"),
    };
    problem.args.iter().map(one).collect()
}

/// Lengths of the arguments that are named, and the problem.
fn problems() -> Vec<(Problem, Vec<usize>)> {
    let embed =
        |d| Problem { name: ["embed", "embed (10)"][usize::from(d == 10)], ..irregular::embed(Size::Length(d)) };
    vec![
        (standard::gmm(Size::Full), vec![1, 2, 3]),
        (standard::ba(Size::Full), vec![0, 1, 3]),
        (irregular::spdot(Size::Full), vec![1, 2, 4]),
        (irregular::spmv(Size::Full), vec![1, 2]),
        (embed(5), vec![0, 1]),
        (embed(10), vec![0, 1]),
    ]
}

fn length(input: &Input) -> usize {
    match input {
        Input::Floats(x) | Input::ConstFloats(x) => x.len(),
        Input::Longs(n) => n.len(),
        _ => 1,
    }
}

/// Measure those whose name contains the filter.
///
/// # Errors
/// [`Failure::Call`], also where gradients differ.
pub fn run(filter: Option<&str>, how: Configuration, effort: Effort) -> Result<ReversibleReport, Failure> {
    let wanted = |name: &str| filter.is_none_or(|f| name.contains(f));
    let mut report = ReversibleReport::default();
    for (problem, lengths) in problems().iter().filter(|p| wanted(p.0.name)) {
        report.functions.push(function(problem, lengths, how, effort)?);
        if problem.name.starts_with("embed") {
            report.hessians.push(hessian(problem, how, effort)?);
        }
    }
    if wanted("leapfrog") {
        report.steps.extend(leapfrog(how)?);
        report.drifts.extend(drifts()?);
    }
    if wanted("heat") {
        report.steps.extend(heat(how)?);
    }
    Ok(report)
}

/// The Hessian of the embedding.
fn hessian(problem: &Problem, how: Configuration, effort: Effort) -> Result<HessianRow, Failure> {
    let name = problem.name;
    let rev = joined(PAPER, EMBEDDING)?;
    let func = rev.program.func("embedding").ok_or_else(|| failed(name)(&"there is no %embedding"))?;
    let mut args: Vec<Argument> = problem
        .args
        .iter()
        .map(|input| match input {
            Input::Floats(x) => Argument::Floats(x.clone()),
            Input::Longs(n) => Argument::Bytes(n.iter().flat_map(|n| n.to_ne_bytes()).collect()),
            Input::Int(n) => Argument::Const(DataValue::I64(*n)),
            other => unreachable!("{other:?}"),
        })
        .collect();
    let inputs = length(&problem.args[0]);
    args.extend([inputs, length(&problem.args[1])].map(|n| Argument::Const(DataValue::I64(n as i64))));
    // SAFETY: buffers are as long as the numbers after them say.
    let mut at = unsafe { Point::new(&rev.program, func, args, &how.options()) }.map_err(|e| failed(name)(&e))?;
    let ours = at.hessian(&[1.0]).map_err(|e| failed(name)(&e))?;
    let symmetric = |i: usize, k: usize| (ours[i][k] - ours[k][i]).abs() <= 1e-9 * (1.0 + ours[i][k].abs());
    if !(0..inputs).all(|i| (0..i).all(|k| symmetric(i, k))) {
        return Err(failed(name)(&"its Hessian is not symmetric"));
    }
    let [gradient_ns, hessian_ns] = in_turns(
        &mut at,
        [|at: &mut Point| drop(at.value_and_gradient()), |at: &mut Point| drop(at.hessian(&[1.0]))],
        effort,
    );
    Ok(HessianRow { name, inputs, gradient_ns, hessian_ns })
}

/// The planets there and back.
fn drifts() -> Result<Vec<DriftRow>, Failure> {
    let file = joined(PHYSICS, THERE_AND_BACK)?;
    let norm = |all: &mut dyn Iterator<Item = f64>| all.map(|x| x * x).sum::<f64>().sqrt();
    let by_hand = [(4, 1.1e-17), (10, 1.0e-14), (12, 1.3e-13), (16, 1.1e-11), (17, 3.1e-11)];
    let mut rows = Vec::new();
    for (power, by_hand) in by_hand {
        let steps = 1_u64 << power;
        let call = bound(&file, &format!("%there_and_back({}, {steps})", planets()?))?;
        let found = run::primal(&file.program, &call).map_err(|e| failed("leapfrog")(&e))?;
        let is: Vec<f64> = found.buffers[0].iter().flatten().map(|n| n.as_f64()).collect();
        let was: Vec<f64> = call.buffer(0).map_or_else(Vec::new, |b| {
            b.2.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes"))).collect()
        });
        let drift = norm(&mut is.iter().zip(&was).map(|(a, b)| a - b)) / norm(&mut was.iter().copied());
        rows.push(DriftRow { steps, drift, by_hand });
    }
    Ok(rows)
}

/// Places, speeds and masses of the planets, as the file lists them.
fn planets() -> Result<&'static str, Failure> {
    let line = PHYSICS.lines().find_map(|l| l.strip_prefix("; call: %orbit([0.0], "));
    line.and_then(|l| l.split(", 16) ").next()).ok_or_else(|| failed("leapfrog")(&"no call is listed"))
}

fn function(
    problem: &Problem,
    lengths: &[usize],
    how: Configuration,
    effort: Effort,
) -> Result<ReversibleRow, Failure> {
    let all = arguments(problem);
    let texts = all.iter().map(|a| a.0.clone()).collect::<Vec<_>>().join(", ");
    let activities = all.iter().map(|a| a.1).collect::<Vec<_>>().join(", ");
    let plain = file(problem.name, &problem.clif)?;
    let by_tape = bound(&plain, &format!("%{}({texts}) activity {activities}", problem.func))?;
    let rev = file("paper.rev", PAPER)?;
    let more: String = lengths.iter().map(|&i| format!(", {}", length(&problem.args[i]))).collect();
    let consts = ", const".repeat(lengths.len());
    let text =
        format!("%{}([0.0], {texts}{more}) activity duplicated, {activities}{consts} shadow 0=[1.0]", problem.func);
    let call = bound(&rev, &text)?;
    let back = undone(&rev, &call)?;
    let options = Options { inverse_check: InverseCheck::Off, ..how.options() };
    let mut tape = repeated(&plain.program, &by_tape, &options)?;
    let mut own = repeated(&rev.program, &call, &options)?;
    let mut other = repeated(&rev.program, &back, &options)?;
    let name = problem.name;
    let mut best = [f64::INFINITY; 5];
    let start = std::time::Instant::now();
    while start.elapsed() < effort.budget {
        let now = [
            time(&mut tape, TimedCall::Primal, name)?,
            time(&mut tape, TimedCall::Gradient, name)?,
            time(&mut own, TimedCall::Primal, name)?,
            time(&mut other, TimedCall::Primal, name)?,
            time(&mut own, TimedCall::Gradient, name)?,
        ];
        best.iter_mut().zip(now).for_each(|(best, now)| *best = best.min(now));
    }
    compare(name, &elements(&tape), &elements(&own)[1..])?;
    let [plain_ns, tape_ns, call_ns, uncall_ns, gradient_ns] = best;
    let (tape_bytes, bytes) = (tape.tape_bytes(), own.tape_bytes());
    Ok(ReversibleRow { name: name.to_owned(), plain_ns, tape_ns, call_ns, uncall_ns, gradient_ns, tape_bytes, bytes })
}

/// The call that undoes another one, of the state that that has left.
fn undone(file: &File, call: &Invocation) -> Result<Invocation, Failure> {
    let symbol = format!("{}__inverse", call.symbol);
    let func = file.program.func(&symbol).ok_or_else(|| failed(&symbol)(&"there is none"))?;
    let found = run::primal(&file.program, call).map_err(|e| failed(&symbol)(&e))?;
    let mut back = Invocation { func, symbol, ..call.clone() };
    for (arg, left) in back.args.iter_mut().zip(&found.buffers) {
        let (BoundArg::Buffer { elem, data, .. }, Some(left)) = (arg, left) else { continue };
        let words = data.chunks_exact_mut(elem.bytes()).zip(left);
        words.for_each(|(word, n)| n.encode(*elem, word));
    }
    Ok(back)
}

/// Gradients are the same, to ten digits.
fn compare(name: &str, a: &[Option<Vec<f64>>], b: &[Option<Vec<f64>>]) -> Result<(), Failure> {
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        let (Some(a), Some(b)) = (a, b) else { continue };
        let largest = a.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
        if let Some(found) =
            a.iter().zip(b).find(|(x, y)| (*x - *y).abs() > 1e-10 * largest || x.is_nan() != y.is_nan())
        {
            return Err(failed(name)(&format!("gradients of argument {i} differ: {found:?}")));
        }
    }
    Ok(())
}

/// A loop that goes back in some way.
struct Way {
    how: &'static str,
    /// What is called in each step.
    step: &'static str,
    check: InverseCheck,
}

/// Steps of a loop whose tape fits the cache, and of a long one.
const STEPS: [u64; 2] = [64, 1 << 17];

/// The planets: by the ways that there are, in turns; by tape the short loop only.
fn leapfrog(how: Configuration) -> Result<Vec<StepRow>, Failure> {
    let given = planets()?;
    // Each number in proportion: the smallest ones drift by more than 1e-8 in the long loop.
    let tolerance = InverseCheck::Within(1e-7.into());
    let ways = [
        Way { how: "tape", step: "leap__do", check: InverseCheck::Off },
        Way { how: "unchecked", step: "leap", check: InverseCheck::Off },
        Way { how: "by tolerance", step: "leap", check: tolerance },
        Way { how: "exactly", step: "leap", check: InverseCheck::Record },
    ];
    let seeds: Vec<&str> = (0..30).map(|i| if i % 3 == 0 { "1.0" } else { "-0.5" }).collect();
    let mut rows = Vec::new();
    for steps in STEPS {
        let ways = || ways.iter().filter(|w| steps == STEPS[0] || w.step == "leap");
        let mut calls = Vec::new();
        for way in ways() {
            let file = joined(PHYSICS, &LOOP.replace("STEP", way.step))?;
            let call = bound(&file, &format!("%steps({given}, {steps}) shadow 0=[{}]", seeds.join(", ")))?;
            calls.push((way, file, call));
        }
        let mut all = Vec::new();
        for (way, file, call) in &calls {
            let options = Options { inverse_check: way.check, ..how.options() };
            all.push((way, repeated(&file.program, call, &options)?, [f64::INFINITY; 2]));
        }
        for _ in 0..((1 << 18) / steps).clamp(2, 400) {
            for (way, of, [primal, gradient]) in &mut all {
                *primal = primal.min(time(of, TimedCall::Primal, way.how)?);
                *gradient = gradient.min(time(of, TimedCall::Gradient, way.how)?);
            }
        }
        let n = steps as f64;
        rows.extend(all.iter().map(|(way, of, [primal, gradient])| {
            let bytes = (of.tape_bytes() as u64 + of.inverses().max_bytes) as f64 / n;
            StepRow { how: way.how, steps, primal_ns: primal / n, step_ns: gradient / n, bytes, forward: 1.0 }
        }));
    }
    Ok(rows)
}

/// Heat on a ring, 2^10 steps: Bennett's recursion, and a time loop with as many states.
fn heat(how: Configuration) -> Result<Vec<StepRow>, Failure> {
    let (power, cells) = (10, 100);
    let steps = 1_u64 << power;
    let list = |f: &dyn Fn(usize) -> f64| (0..cells).map(|i| format!("{:?}", f(i))).collect::<Vec<_>>().join(", ");
    let (at, seeds) = (list(&|i| (0.3 * i as f64).sin()), list(&|i| (0.7 * i as f64).cos()));
    let zeros = list(&|_| 0.0);
    let file = joined(PHYSICS, TIME_LOOP)?;
    let text = format!("%heat([{zeros}], [{at}], [0.2], {steps}, {cells}) shadow 0=[{seeds}]");
    let bennett = bound(&file, &text)?;
    let revolve = bound(&file, &format!("%heat_loop([{at}], [0.2], {steps}) shadow 0=[{seeds}]"))?;
    let options = Options { inverse_check: InverseCheck::Off, ..how.options() };
    // As many states as the recursion has.
    let states = (power as usize + 2) * cells * 8;
    let mut by_recursion = repeated(&file.program, &bennett, &options)?;
    let mut by_states = repeated(&file.program, &revolve, &Options { memory_budget: states, ..options })?;
    let row = |how, of: &mut RepeatedCall<'_>| {
        let [mut primal, mut gradient] = [f64::INFINITY; 2];
        for _ in 0..5 {
            primal = primal.min(time(of, TimedCall::Primal, how)? / steps as f64);
            gradient = gradient.min(time(of, TimedCall::Gradient, how)? / steps as f64);
        }
        let loops: LoopStats = of.loops();
        let (forward, bytes) = match loops.forward {
            0 => (1.5_f64.powi(power), states as f64),
            n => (n as f64 / steps as f64, loops.max_bytes as f64),
        };
        let bytes = bytes / steps as f64;
        Ok(StepRow { how, steps, primal_ns: primal, step_ns: gradient, bytes, forward })
    };
    let rows = vec![row("heat, Bennett", &mut by_recursion)?, row("heat, revolve", &mut by_states)?];
    compare("heat", &elements(&by_states)[..1], &elements(&by_recursion)[1..2])?;
    Ok(rows)
}
