//! One problem, differentiated again and again: what a profiler is pointed at.
//!
//! `cargo run --release -p benches --example stages -- [--quick] FILTER
//! [read|derive|compile|primal|all] [SECONDS] [LENGTH]` prints the shortest and the mean time of
//! each part in microseconds. With a length FILTER is of the series of growing code, such as
//! `straight`. Instead of seconds `20x` is that many iterations, so that `perf stat` counts the
//! same work each time. Instead of a part, `size` says how many instructions are derived.
use std::time::{Duration, Instant};

use benches::prepared::{derive, requests};
use benches::problems::SERIES;
use benches::{Configuration, Problem, Size};
use brolga::cranelift_codegen::Context;
use brolga::cranelift_codegen::control::ControlPlane;
use brolga::cranelift_codegen::ir::Function;
use brolga::{DerivedRule, Effort, Program, Request};

fn main() {
    let (efforts, args): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|a| a == "--quick");
    let effort = if efforts.is_empty() { Effort::Full } else { Effort::Quick };
    let arg = |i: usize, default: &str| args.get(i).cloned().unwrap_or_else(|| default.to_owned());
    let filter = arg(0, "embed");
    let what = arg(1, "all");
    let enough = match arg(2, "1") {
        n if n.ends_with('x') => {
            StopCriterion::Iterations(n.trim_end_matches('x').parse().expect("a number of iterations"))
        }
        n => StopCriterion::Seconds(n.parse().expect("seconds")),
    };
    let problems: Vec<Problem> = match args.get(3) {
        Some(n) => {
            let n = Size::Length(n.parse().expect("a length"));
            SERIES.iter().filter(|s| s.code && s.name.contains(&*filter)).map(|s| (s.make)(n)).collect()
        }
        None => benches::selected(Some(&filter).filter(|f| *f != "-").map(|f| &**f))
            .expect("a problem")
            .into_iter()
            .map(|make| make(Size::Small))
            .collect(),
    };
    for problem in &problems {
        one(problem, &what, enough, effort);
    }
}

/// A part of the way to a gradient: its name, and how long it takes this time.
type Part<'a> = (&'static str, Box<dyn FnMut() -> Duration + 'a>);

/// When to stop.
#[derive(Clone, Copy)]
enum StopCriterion {
    Seconds(f64),
    Iterations(u32),
}

fn one(problem: &Problem, what: &str, enough: StopCriterion, effort: Effort) {
    let how = Configuration { mode: brolga::Mode::Gradient, effort, ..Configuration::default() };
    let (program, all) = requests(problem).expect("it can be read");
    let wanted = &all[0];
    let isa = brolga::jit::host_isa(&brolga::Options::full()).expect("the host");
    let body = program.funcs[wanted.func].body.as_ref().expect("a body");
    let mut parts: Vec<Part<'_>> = Vec::new();
    let timed = |name: &str| what == "all" || what == name;
    if timed("read") {
        parts.push(("read", Box::new(|| clock(|| drop(requests(problem))))));
    }
    if timed("primal") {
        parts.push((
            "primal",
            Box::new(|| {
                let mut context = Context::for_function(body.clone());
                clock(|| assert!(context.compile(&*isa, &mut ControlPlane::default()).is_ok()))
            }),
        ));
    }
    if timed("derive") {
        parts.push(("derive", Box::new(|| clock(|| drop(derive(problem, &program, wanted, how))))));
    }
    if timed("compile") {
        parts.push((
            "compile",
            Box::new(|| {
                let derivation = derive(problem, &program, wanted, how).expect("it can be derived");
                let mut rule = None;
                let took = clock(|| rule = Some(DerivedRule::from_derivation(derivation, wanted, &how.options())));
                drop(rule);
                took
            }),
        ));
    }
    print!("{:14} {:7}", problem.name, size(body).0);
    if what == "size" {
        return println!("{}", derived_size(problem, &program, wanted, how));
    }
    let mut found = vec![(Duration::MAX, Duration::ZERO, 0_u32); parts.len()];
    let start = Instant::now();
    let more = |iterations: u32| match enough {
        StopCriterion::Seconds(s) => iterations < 2 || start.elapsed().as_secs_f64() < s,
        StopCriterion::Iterations(n) => iterations < n,
    };
    while found.iter().all(|f| more(f.2)) {
        for (part, found) in parts.iter_mut().zip(&mut found) {
            let took = (part.1)();
            *found = (found.0.min(took), found.1 + took, found.2 + 1);
        }
    }
    let us = |d: Duration| d.as_nanos() as f64 / 1e3;
    for ((name, _), (least, sum, n)) in parts.iter().zip(found) {
        print!("  {name} {:9.1} ({:9.1})", us(least), us(sum) / f64::from(n));
    }
    println!();
}

/// Instructions of what is compiled, of those the ones in blocks for rare runs and in blocks that
/// run iterations in lanes, and blocks.
fn derived_size(problem: &Problem, program: &Program, wanted: &Request, how: Configuration) -> String {
    let found = derive(problem, program, wanted, how).expect("it can be derived");
    let pairs = found.pairs.iter().flat_map(|p| [&p.forward, &p.pullback]);
    let all = found.combined.iter().chain(&found.joint).map(|w| &w.func).chain(pairs).map(size);
    let (insts, cold, lanes, blocks) = all.fold((0, 0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2, a.3 + b.3));
    format!("  derived {insts:7}  cold {cold:6}  lanes {lanes:6}  blocks {blocks:5}")
}

fn size(func: &Function) -> (usize, usize, usize, usize) {
    let lanes = brolga_clif::vectorise::in_front(func);
    let mut found = (0, 0, 0, 0);
    for b in func.layout.blocks() {
        let n = func.layout.block_insts(b).count();
        found.0 += n;
        found.1 += if func.layout.is_cold(b) { n } else { 0 };
        found.2 += if lanes.contains(b) { n } else { 0 };
        found.3 += 1;
    }
    found
}

fn clock(f: impl FnOnce()) -> Duration {
    let t = Instant::now();
    f();
    t.elapsed()
}
