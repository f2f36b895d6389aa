//! Loops within budgets: all outermost loops of each function of `cases` are reversed from states,
//! in several budgets. What comes out is, bit for bit, what recording all of their steps gives, and
//! but for roundings what the ordinary derivation gives.

use brolga::{Checkpoints, DerivedRule, Error, Mode, Options, Program};
use brolga_driver::run::Outcome;
use brolga_driver::{Directive, File, Invocation, Item, Num, run};
use brolga_testing::shares;
use ir_tests::cases::at_least;

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

/// Results and memory, in which NaNs are alike.
fn told(found: &Outcome) -> String {
    format!("{:?} {:?}", found.value, found.buffers)
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

/// What was compared, and what differed.
#[derive(Default)]
struct Found {
    loops: usize,
    compared: usize,
    kept: usize,
    wrong: Vec<String>,
}

impl Found {
    /// One call: as written, with all steps recorded, and in each budget.
    fn compare(&mut self, file: &File, call: &Invocation, mode: Mode, budgets: &[usize]) {
        let name = |what: &str| format!("{} {} {mode:?}, {what}", file.name, call.symbol);
        let plain = outcome(&file.program, call, &Options { mode, ..Options::default() });
        let (plain, all) = match (plain, outcome(&file.program, call, &within(mode, 1 << 30))) {
            (Ok(plain), Ok(all)) => (plain, all),
            (Err(a), Err(b)) if a == b => return,
            (a, b) => return self.wrong.push(format!("{}\n  {a:?}\n  {b:?}", name("as written or not"))),
        };
        if all.loops == Default::default() {
            return;
        }
        self.loops += 1;
        if !near(&plain, &all, file.text.contains("f32")) {
            self.wrong.push(format!("{}:\n  {plain:?}\n  {all:?}", name("as written")));
        }
        for bytes in budgets {
            match outcome(&file.program, call, &within(mode, *bytes)) {
                Ok(found) => {
                    self.compared += 1;
                    self.kept += usize::from(found.loops.stores > 0);
                    if !found.same_gradient(&all) || told(&found) != told(&all) {
                        self.wrong.push(format!("{}:\n  {all:?}\n  {found:?}", name(&bytes.to_string())));
                    }
                }
                // Two states do not fit.
                Err(e) if e == "time_loop" => {}
                Err(e) => self.wrong.push(format!("{}: {e}", name(&bytes.to_string()))),
            }
        }
    }

    fn check(self, loops: usize, kept: usize) {
        let Self { wrong, compared, .. } = &self;
        println!("{} runs with loops, {compared} of them in budgets, {} with states", self.loops, self.kept);
        assert!(wrong.is_empty(), "{} of {compared}: {}", wrong.len(), wrong[..wrong.len().min(6)].join("\n"));
        assert!(self.loops > loops && self.kept > kept, "{} {}", self.loops, self.kept);
    }
}

#[test]
fn budgets_change_no_bit() {
    let mut all = Found::default();
    for line in ir_tests::cases::lines(&["errors", "real", "nested"], 0) {
        for mode in [Mode::Split, Mode::Combined] {
            all.compare(&line.file, &line.call, mode, &[1 << 7, 1 << 10, 1 << 13]);
        }
    }
    all.check(at_least(300), at_least(300));
}

#[test]
fn budgets_change_no_bit_of_modules() {
    let mut all = Found::default();
    let modules = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("wasm/O2");
    let mut paths: Vec<_> = std::fs::read_dir(modules).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths.retain(|p| p.extension().is_some_and(|e| e == "wasm"));
    for path in paths.iter().step_by(shares(3)) {
        let file = File::read(path).expect("it is read");
        for d in &file.directives {
            let Directive::Grad(line) = d else { continue };
            let call = file.bind(&line.text, &line.call, &line.clauses).expect("it is a call of the file");
            all.compare(&file, &call, Mode::Combined, &[65_000]);
        }
    }
    all.check(at_least(90), at_least(60));
}
