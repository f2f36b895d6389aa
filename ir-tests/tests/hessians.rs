//! Hessian-vector products of the facade, for each call of `cases`, against the oracle of the
//! *primal* ([`on_oracle`]), which knows no derived text.
//!
//! What is refused is counted by code and may only become less. Where forward mode over the
//! gradient gives a number, it is the oracle's; the value and the gradient are those of a rule of
//! first order, bit for bit.

use std::collections::{BTreeMap, BTreeSet};

use brolga::{Error, Mode, Options};
use brolga_driver::batch::batch;
use brolga_driver::check::second::on_oracle;
use brolga_driver::inputs::{Input, inputs};
use brolga_driver::noise::Noise;
use brolga_driver::protocol::derive;
use brolga_driver::second::{flat, hessian, products, products_along, rule, rules};
use brolga_driver::sparsity;
use brolga_driver::tangent::Direction;
use brolga_driver::{Directive, File, Invocation, compare};
use brolga_testing::budget::{Depth, asked, depth, is_quick};
use ir_tests::cases::at_least;

/// So many calls may be refused; it only rises with new cases of floats in pieces.
const REFUSED: usize = 33;

/// So many products may be no numbers where the oracle has one: at kinks and poles of the first
/// derivative, where there is none.
const POLES: usize = 4;

/// The same of Taylor coefficients.
const POLES_OF_SERIES: usize = 3;

#[derive(Default)]
struct Tally {
    calls: usize,
    compared: usize,
    /// Entries of Hessians that are not zero.
    entries: usize,
    /// Series that were compared.
    series: usize,
    /// Numbers of products with several directions at once.
    batched: usize,
    /// By codes: how many, and the first.
    refused: BTreeMap<String, (usize, String)>,
    wrong: Vec<String>,
    poles: Vec<String>,
    poles_of_series: Vec<String>,
}

#[test]
fn products_are_those_of_the_primal() {
    let mut tally = Tally::default();
    for line in ir_tests::cases::lines(&["errors", "real"], 0) {
        judge(&mut tally, &line.file, &line.call, &line.name(), false);
    }
    tally.print();
    assert!(tally.wrong.is_empty(), "{} are wrong", tally.wrong.len());
    assert!(tally.poles.len() <= POLES, "{} at poles, not {POLES} at most", tally.poles.len());
    let poles = tally.poles_of_series;
    assert!(poles.len() <= POLES_OF_SERIES, "no numbers: {poles:?}, not {POLES_OF_SERIES} at most");
    let refused: usize = tally.refused.values().map(|r| r.0).sum();
    assert!(refused <= REFUSED, "{refused} refused, not {REFUSED} at most");
    assert!(tally.compared > at_least(1000) && tally.entries > at_least(1000), "{} {}", tally.compared, tally.entries);
    assert!(tally.batched > at_least(1000) && tally.series > at_least(1000), "{} {}", tally.batched, tally.series);
}

/// So many calls of modules may be refused, or trap where the gradient does not: bytes of vectors
/// in another order (`digits`).
const REFUSED_IN_MODULES: usize = 1;

/// More of them where all modules are looked at: doubles at odd addresses that are copied as
/// integers (`copies` at `-O0`, each of the ways to ask for a product).
const REFUSED_IN_A_CENSUS: usize = 8;

/// The same as [`POLES`], of modules: roots at zero, without an optimiser.
const POLES_IN_MODULES: usize = 12;

/// Modules that take seconds to derive twice.
const LONG: [&str; 5] = ["eigen", "gp", "ode", "precise", "resampled"];

/// The same of modules, whose buffers lie in the memory of an instance: every call of some, and of
/// each function of those with an optimiser one product; `cargo xtask census` looks at all modules.
/// In quick tests those of some.
#[test]
fn products_of_modules() {
    let mut tally = Tally::default();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("wasm");
    let census = asked::<u8>("BROLGA_CENSUS").is_some();
    let most = if census { REFUSED_IN_A_CENSUS } else { REFUSED_IN_MODULES };
    for path in ir_tests::modules(&root) {
        let whole = ir_tests::NESTED_MODULES.iter().any(|name| path == root.join(name));
        let long = path.starts_with(root.join("O0")) || LONG.iter().any(|n| path.file_stem().is_some_and(|s| s == *n));
        if whole || census || !is_quick() && !long {
            calls_of(&mut tally, &File::read(&path).expect("it is read"), &path, (!whole).then_some(usize::MAX));
        }
    }
    tally.print();
    let refused: usize = tally.refused.values().map(|r| r.0).sum();
    assert!(tally.wrong.is_empty(), "{} are wrong", tally.wrong.len());
    assert!(refused <= most, "{refused} refused of {}", tally.calls);
    assert!(tally.poles.len() <= POLES_IN_MODULES, "{} at poles", tally.poles.len());
    assert!(tally.poles_of_series.is_empty());
    assert!(tally.compared > 500 && tally.entries > 50, "{} {}", tally.compared, tally.entries);
    assert!(tally.batched > 500 && tally.series > 15, "{} {}", tally.batched, tally.series);
}

/// A library that allocates as it computes: Eigen with matrices whose sizes it learns in the run,
/// by a Cholesky factor, reflections, and LU.
#[test]
fn products_of_a_library_that_allocates() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("wasm/O2/eigen.wasm");
    let file = File::read(&path).expect("it is read");
    let mut tally = Tally::default();
    // Each takes seconds to derive.
    let functions = if depth() == Depth::Full { 3 } else { 1 };
    calls_of(&mut tally, &file, &path, Some(functions));
    tally.print();
    assert!(tally.wrong.is_empty() && tally.poles.is_empty() && tally.refused.is_empty());
    assert!(tally.calls == functions && tally.compared > 8 * functions, "{} {}", tally.calls, tally.compared);
}

/// All calls of a file; or of so many functions one product each.
fn calls_of(tally: &mut Tally, file: &File, path: &std::path::Path, functions: Option<usize>) {
    let stem = path.file_stem().expect("a name").display();
    let folder = path.parent().and_then(|p| p.file_name()).expect("a folder").display();
    let name = format!("{folder}/{stem}");
    let mut seen = BTreeSet::new();
    for d in &file.directives {
        let Directive::Grad(line) = d else { continue };
        let Ok(call) = file.bind(&line.text, &line.call, &line.clauses) else { continue };
        if functions.is_none_or(|most| seen.len() < most && seen.insert(call.func)) {
            judge(tally, file, &call, &format!("{name}/{}", line.text), functions.is_some());
        }
    }
}

/// Full effort, with what suits the file.
fn options(file: &File) -> Options {
    Options { effort: brolga::Effort::Full, ..file.options() }
}

impl Tally {
    fn print(&self) {
        let tally = self;
        println!("{} calls, {} numbers compared, {} entries", tally.calls, tally.compared, tally.entries);
        for (codes, (n, first)) in &tally.refused {
            println!("  {n:4} {codes} ({first})");
        }
        tally.poles.iter().for_each(|p| println!("  at a pole: {p}"));
        tally.wrong.iter().for_each(|p| println!("  WRONG: {p}"));
    }
}

fn judge(tally: &mut Tally, file: &File, call: &Invocation, name: &str, only_one: bool) {
    tally.calls += 1;
    let refused = |e: &Error| match e {
        Error::Diagnostics(all) => {
            let codes: std::collections::BTreeSet<&str> = all.0.iter().map(|d| d.code).collect();
            Some(codes.into_iter().collect::<Vec<_>>().join(" "))
        }
        // Memory of ours that is not there is a mistake of ours.
        Error::Trap(t) if t.code != "heap_oob" => Some(t.code.clone()),
        _ => None,
    };
    let inputs = inputs(call);
    let mut noise = Noise::new(3);
    let direction: Vec<f64> = inputs.iter().map(|_| noise.unit()).collect();
    let found = rule(&file.program, call, &options(file))
        .and_then(|rule| products(&rule, call, &Direction::along(call, &inputs, &direction)));
    let found = match found {
        Ok(found) => found,
        Err(e) => {
            let cause = refused(&e).unwrap_or_else(|| panic!("{name}: {e}"));
            tally.refused.entry(cause).or_insert_with(|| (0, name.to_owned())).0 += 1;
            return;
        }
    };
    for other in [within_the_pattern, several_at_once].into_iter().filter(|_| !only_one) {
        match other(tally, file, call, &inputs, name) {
            Ok(()) => {}
            // Another direction may reach bits that are not followed.
            Err(Error::Trap(t)) if t.code == "untracked_bits" && call.wasm.is_some() => {
                let cause = format!("{} along another direction", t.code);
                tally.refused.entry(cause).or_insert_with(|| (0, name.to_owned())).0 += 1;
            }
            Err(e) => panic!("{name}: it ran before: {e}"),
        }
    }
    let product = flat(&found.products, &inputs);
    let twice = product.iter().zip(&direction).map(|(p, v)| p * v).sum::<f64>();
    if !only_one {
        taylor(tally, file, call, (&inputs, &direction), twice, name);
    }
    let Ok(oracle) = on_oracle(&file.program, call, &inputs, &direction) else { return };
    let single = compare::uses_f32(&file.program, call.func);
    // Long doubles are rounded, and some programs have differences of their own.
    let tol = if single {
        1e-4
    } else if call.wasm.is_some() {
        1e-7
    } else {
        1e-9
    };
    let (gradient, product) = (flat(&found.first.gradient, &inputs), flat(&found.products, &inputs));
    for ((what, is), wanted) in [("gradient", gradient), ("product", product)].iter().zip(&oracle) {
        let scale = wanted.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(1.0, f64::max);
        for (i, (is, wanted)) in is.iter().zip(wanted).enumerate() {
            tally.compared += 1;
            let near = (is - wanted).abs() <= tol * scale;
            if wanted.is_finite() && !near {
                let found = format!("{name}: {what} of input {}: {is}, not {wanted}", inputs[i].name());
                if is.is_finite() { tally.wrong.push(found) } else { tally.poles.push(found) }
            }
        }
    }
}

/// Products with several directions have the bits of single ones.
fn several_at_once(
    tally: &mut Tally,
    file: &File,
    call: &Invocation,
    inputs: &[Input],
    name: &str,
) -> Result<(), Error> {
    let (options, mut noise) = (options(file), Noise::new(5));
    let rule = rules(&file.program, call, &options);
    let mut along = || Direction::along(call, inputs, &inputs.iter().map(|_| noise.unit()).collect::<Vec<_>>());
    let directions = [along(), Direction::zero(call), along()];
    let found = products_along(&rule, call, &directions)?;
    for (k, (is, direction)) in found.iter().zip(&directions).enumerate() {
        let want = products(&rule(1)?, call, direction)?;
        let same = |a: &f64, b: &f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        let (is, want) = (flat(&is.products, inputs), flat(&want.products, inputs));
        tally.batched += is.len();
        if !is.iter().zip(&want).all(|(a, b)| same(a, b)) {
            tally.wrong.push(format!("{name}: product {k} of three at once is {is:?}, by itself {want:?}"));
        }
    }
    Ok(())
}

/// The second Taylor coefficient of the seeded outputs along a direction is half of the second
/// derivative.
fn taylor(
    tally: &mut Tally,
    file: &File,
    call: &Invocation,
    (inputs, direction): (&[Input], &[f64]),
    second: f64,
    name: &str,
) {
    if !second.is_finite() {
        return;
    }
    let options = Options { mode: Mode::Tangent, width: 3, taylor: true, ..options(file) };
    let path = [Direction::along(call, inputs, direction), Direction::zero(call), Direction::zero(call)];
    let found = derive(&file.program, &call.request(), &options).and_then(|rule| batch(&rule, call, &path));
    let found = match found {
        Ok(found) => &found[1].clone(),
        Err(e) if e.is_too_wide() => return,
        Err(e) => return tally.wrong.push(format!("{name}: Taylor coefficients: {e}")),
    };
    let mut terms = Vec::new();
    for ((seed, ty), coefficient) in call.seeds.iter().zip(&call.returns).zip(&found.results) {
        let Some(coefficient) = coefficient else { continue };
        let seed = brolga_driver::value::from_data(seed, *ty);
        terms.extend(seed.nums().iter().zip(coefficient.nums()).map(|(s, c)| (s.as_f64(), c.as_f64())));
    }
    for arg in (0..call.args.len()).filter(|arg| call.owns_shadow(*arg)) {
        let (Some((_, elem, _, shadow)), Some(left)) = (call.buffer(arg), &found.of_buffers[arg]) else { continue };
        let seeds = brolga_driver::value::decode_all(elem, shadow);
        terms.extend(seeds.iter().zip(left).map(|(s, c)| (s.as_f64(), c.as_f64())));
    }
    let terms = terms.into_iter().filter(|(s, _)| *s != 0.0).map(|(s, c)| s * c);
    let (is, size) = terms.fold((0.0, 1.0), |(sum, size), t| (sum + t, size + f64::abs(t)));
    let tol = if compare::uses_f32(&file.program, call.func) { 1e-3 } else { 1e-8 };
    tally.series += 1;
    let near = (2.0 * is - second).abs() <= tol * (size + second.abs());
    if is.is_nan() {
        tally.poles_of_series.push(format!("{name}: the second coefficient"));
    } else if !near {
        tally.wrong.push(format!("{name}: twice the second coefficient is {}, not {second}", 2.0 * is));
    }
}

/// No entry of the Hessian lies outside of the pattern that bits of dependence give.
fn within_the_pattern(
    tally: &mut Tally,
    file: &File,
    call: &Invocation,
    inputs: &[Input],
    name: &str,
) -> Result<(), Error> {
    if inputs.len() > 8 {
        return Ok(());
    }
    let Ok(pattern) = sparsity::of_hessian(&file.program, call) else { return Ok(()) };
    let options = options(file);
    let rule = rules(&file.program, call, &options);
    let found = hessian(&rule, call, None, &mut |_, _| ())?;
    // What rounding leaves is no entry.
    let least = 1e-12 * found.gradient.iter().filter(|x| x.is_finite()).fold(1.0, |m, x| f64::max(m, x.abs()));
    for (i, row) in found.entries.iter().enumerate() {
        for (j, x) in row.iter().enumerate().filter(|(_, x)| x.abs() > least && x.is_finite()) {
            tally.entries += 1;
            if !pattern.row(i).contains(&j) {
                tally.wrong.push(format!("{name}: entry {i}, {j} is {x}, outside of the pattern"));
            }
        }
    }
    Ok(())
}
