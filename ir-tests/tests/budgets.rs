//! Loops within budgets: all outermost loops of each function of `cases` are reversed from states,
//! in several budgets. What comes out is, bit for bit, what recording all of their steps gives, and
//! but for roundings what the ordinary derivation gives.

use brolga::{Checkpoints, DerivedRule, Error, Mode, Options, Program};
use brolga_driver::run::Outcome;
use brolga_driver::{Directive, File, Invocation, Item, Num, run};

/// What a run gives, or why it gives nothing.
fn outcome(program: &Program, call: &Invocation, options: &Options) -> Result<Outcome, String> {
    DerivedRule::new(program, &call.request(), options).and_then(|rule| run::gradient(&rule, call)).map_err(|e| match e
    {
        Error::Trap(trap) => trap.code,
        Error::Diagnostics(found) => found.0.iter().map(|d| d.code).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    })
}

fn within(mode: Mode, bytes: usize) -> Options {
    let checkpoints = Checkpoints { outermost: true, around: Vec::new() };
    Options { mode, memory_budget: bytes, checkpoints, ..Options::default() }
}

/// All floats of a gradient.
fn numbers(found: &Outcome) -> Vec<f64> {
    let float = |n: &Num| match *n {
        Num::F64(x) => Some(x),
        Num::F32(x) => Some(x.into()),
        _ => None,
    };
    found.gradient.iter().flatten().flat_map(Item::nums).filter_map(float).collect()
}

/// Whether two gradients differ by roundings only.
fn near(a: &Outcome, b: &Outcome, single: bool) -> bool {
    let (a, b) = (numbers(a), numbers(b));
    let largest = a.iter().chain(&b).filter(|x| x.is_finite()).fold(1.0_f64, |m, x| m.max(x.abs()));
    let tolerance = if single { 1e-4 } else { 1e-11 };
    let same = |(x, y): (&f64, &f64)| {
        x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan() || (x - y).abs() <= tolerance * largest
    };
    a.len() == b.len() && a.iter().zip(&b).all(same)
}

#[test]
fn budgets_change_no_bit() {
    let (mut compared, mut loops, mut kept, mut wrong) = (0, 0, 0, Vec::new());
    for path in ir_tests::cases::files(std::path::Path::new(env!("CARGO_MANIFEST_DIR"))) {
        if path.components().any(|c| matches!(c.as_os_str().to_str(), Some("errors" | "real" | "nested"))) {
            continue;
        }
        let file = File::read(&path).expect("it is read");
        for d in &file.directives {
            let Directive::Grad(line) = d else { continue };
            let Ok(call) = Invocation::bind(&file.program, &line.text, &line.call, &line.clauses) else { continue };
            for mode in [Mode::Split, Mode::Combined] {
                let plain = outcome(&file.program, &call, &Options { mode, ..Options::default() });
                let all = outcome(&file.program, &call, &within(mode, 1 << 30));
                let name = || format!("{} {} {mode:?}", path.display(), line.text);
                let (plain, all) = match (plain, all) {
                    (Ok(plain), Ok(all)) => (plain, all),
                    (Err(a), Err(b)) if a == b => continue,
                    (a, b) => {
                        wrong.push(format!("{}:\n  {a:?}\n  {b:?}", name()));
                        continue;
                    }
                };
                if all.loops == Default::default() {
                    continue;
                }
                loops += 1;
                let single = file.text.contains("f32");
                if !near(&plain, &all, single) {
                    wrong.push(format!("{}, as written:\n  {plain:?}\n  {all:?}", name()));
                }
                for bytes in [1 << 7, 1 << 10, 1 << 13] {
                    match outcome(&file.program, &call, &within(mode, bytes)) {
                        Ok(found) => {
                            compared += 1;
                            kept += usize::from(found.loops.stores > 0);
                            if !found.same_gradient(&all) || found.value != all.value {
                                wrong.push(format!("{}, {bytes} bytes:\n  {all:?}\n  {found:?}", name()));
                            }
                        }
                        // Two states do not fit.
                        Err(e) if e == "time_loop" => {}
                        Err(e) => wrong.push(format!("{}, {bytes} bytes: {e}", name())),
                    }
                }
            }
        }
    }
    println!("{loops} runs with loops, {compared} of them in budgets, {kept} with states");
    assert!(wrong.is_empty(), "{} of {compared}: {}", wrong.len(), wrong.join("\n"));
    assert!(loops > 300 && kept > 300, "{loops} {kept}");
}
