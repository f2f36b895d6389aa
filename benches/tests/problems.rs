//! Every problem is right: its value, its gradient and its hand-written adjoint, and the `; grad:`
//! lines of its file.

use benches::{
    Configuration, Effort, Mode, PreparedProblem, Problem, Size, latency, measure, problems, report, second, selected,
};
use brolga::Pass;
use brolga_driver::check::second::on_oracle;
use brolga_driver::inputs::inputs;
use brolga_driver::noise::Noise;
use brolga_driver::tangent::Direction;
use brolga_driver::{Directive, File, Invocation, compare, protocol, run, second as derivatives};

fn problem(name: &str) -> Problem {
    let (_, make) = problems::ALL.iter().find(|p| p.0 == name).expect("it is in the list");
    make(Size::Small)
}

fn check(problem: &Problem, mode: Mode) -> Result<(), String> {
    PreparedProblem::new(problem, mode.into()).and_then(|mut p| p.check()).map_err(|e| format!("{mode:?}: {e}"))
}

#[test]
fn references() {
    let modes = [Mode::Split, Mode::Combined, Mode::Gradient];
    let all = problems::ALL.iter().map(|(_, make)| make(Size::Small));
    let wrong: Vec<_> = all.flat_map(|p| modes.map(|mode| check(&p, mode))).filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names() {
    for (name, make) in problems::ALL {
        assert_eq!(*name, make(Size::Small).name);
    }
    let message = selected(Some("nothing")).expect_err("there is none").to_string();
    assert!(message.starts_with("no problem is called `nothing`; there are mul, rot, "), "{message}");
}

/// Bytes that the gradient of a problem records.
fn tape(name: &str, how: Configuration) -> usize {
    let problem = problem(name);
    let mut prepared = PreparedProblem::new(&problem, how).unwrap_or_else(|e| panic!("{e}"));
    prepared.check().unwrap_or_else(|e| panic!("{e}"));
    prepared.tape_bytes()
}

#[test]
fn what_is_not_recorded() {
    for name in [
        "mul",
        "rot",
        "block",
        "spdot",
        "sum",
        "dot",
        "dot_f64x2",
        "dot_f32",
        "smv100",
        "matvec",
        "spmv",
        "recursive_sum",
    ] {
        assert_eq!(tape(name, Mode::Gradient.into()), 0, "{name}");
    }
}

#[test]
fn long_chains_are_recorded_rather_than_computed_again() {
    let thrifty = Pass::CostModel.into();
    let (fast, small) = (
        tape("lorenz", Mode::Gradient.into()),
        tape("lorenz", Configuration { disabled: thrifty, ..Mode::Gradient.into() }),
    );
    // Twenty numbers a step, and three.
    assert_eq!((fast % 160, small % 24, fast / 160), (0, 0, small / 24));
}

#[test]
fn programs_in_webassembly() {
    let short = Effort { rounds: 1, batch: std::time::Duration::ZERO, budget: std::time::Duration::ZERO };
    for problem in benches::wasm::problems() {
        // Native code, where there is a compiler, gives the same number, and an adjoint by hand the
        // same gradient, or this is an error.
        let row = problem.measure(Mode::Combined.into(), short).unwrap_or_else(|e| panic!("{e}"));
        assert!(row.primal_ns > 0.0 && row.gradient_ns > 0.0 && row.name == problem.name());
        let json = report::calls_json(std::slice::from_ref(&row));
        assert_eq!(json[0]["hand_ns"].is_number(), row.hand_ns.is_some());
        // All but these have one.
        assert_eq!(row.hand_ns.is_none(), ["hand", "order", "machine"].contains(&problem.program), "{}", row.name);
        let table = report::calls(&[row]);
        assert!(table.contains(&problem.name()) && table.contains("gradient"), "{table}");
    }
}

#[test]
fn kernels_record_what_they_would_wait_for_and_nothing_else() {
    let short = Effort { rounds: 1, batch: std::time::Duration::ZERO, budget: std::time::Duration::ZERO };
    let mut seen = 0;
    for problem in benches::wasm::problems().into_iter().filter(|p| p.program == "kernels") {
        let tape = problem.measure(Mode::Gradient.into(), short).unwrap_or_else(|e| panic!("{e}")).tape_bytes;
        let range = match problem.export {
            // A number for each of 101 rows: how many columns there are.
            "outer" => 0..1 << 10,
            // Some numbers for each of two hundred points.
            "camera" => 200 * 16..200 * 256,
            // One number, and a count, for each of 64² products.
            "columns" => 0..4096 * 24,
            // The recursion runs twice.
            "halving" => 0..1,
            other => panic!("{other}"),
        };
        assert!(range.contains(&tape), "{}: {tape} bytes", problem.export);
        seen += 1;
    }
    assert_eq!(seen, 4);
}

#[test]
fn lines_of_the_files() {
    for (name, make) in problems::ALL {
        let file = File::parse(name, make(Size::Small).clif).unwrap_or_else(|e| panic!("{e}"));
        for directive in &file.directives {
            let Directive::Grad(line) = directive else { continue };
            let call = Invocation::bind(&file.program, &line.text, &line.call, &line.clauses)
                .unwrap_or_else(|e| panic!("{name}: {}", e.diagnostic("AD0008", Some(line.line))));
            let outcome = protocol::derive(&file.program, &call.request(), &brolga::Options::full())
                .and_then(|rule| run::gradient(&rule, &call))
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            let tol = compare::tolerance(&file.program, &call, &line.clauses);
            let wrong = compare::differences(&outcome, &line.expected, &line.clauses, tol);
            assert!(wrong.is_empty(), "{name}: {}", wrong.join("; "));
        }
    }
}

/// Products along a random direction are those of the oracle, which knows the primal only.
#[test]
fn second_derivatives_of_the_lines() {
    let mut compared = 0;
    for (name, make) in problems::ALL {
        let file = File::parse(name, make(Size::Small).clif).unwrap_or_else(|e| panic!("{e}"));
        for directive in &file.directives {
            let Directive::Grad(line) = directive else { continue };
            let call = Invocation::bind(&file.program, &line.text, &line.call, &line.clauses)
                .unwrap_or_else(|e| panic!("{name}: {}", e.diagnostic("AD0008", Some(line.line))));
            let (inputs, mut noise) = (inputs(&call), Noise::new(7));
            let v: Vec<f64> = inputs.iter().map(|_| noise.unit()).collect();
            let found = derivatives::rule(&file.program, &call, &brolga::Options::full())
                .and_then(|rule| derivatives::products(&rule, &call, &Direction::along(&call, &inputs, &v)));
            let is = derivatives::flat(&found.unwrap_or_else(|e| panic!("{name}: {e}")).products, &inputs);
            let [_, want] = on_oracle(&file.program, &call, &inputs, &v).unwrap_or_else(|e| panic!("{name}: {e}"));
            let size = want.iter().fold(1.0_f64, |m, w| m.max(w.abs()));
            let right = |(is, want): (&f64, &f64)| (is - want).abs() <= 1e-9 * size;
            assert!(is.iter().zip(&want).all(right), "{name}: {is:?}, not {want:?}");
            compared += is.len();
        }
    }
    assert!(compared > 80, "{compared}");
}

#[test]
fn second_order_rows() {
    let quick = Effort { rounds: 1, batch: std::time::Duration::ZERO, budget: std::time::Duration::ZERO };
    let rows = ["rot", "nn", "dot_f32", "embed"]
        .map(|name| second::measure(&problem(name), Mode::Gradient.into(), quick).unwrap_or_else(|e| panic!("{e}")));
    // A header, the rows, and the mean.
    assert_eq!(report::products(&rows).lines().count(), 6);
    // Compared with known numbers.
    let rows = second::embeddings(Mode::Gradient.into(), quick).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(report::embeddings(&rows).lines().count(), 10);
}

#[test]
fn wrong_references_are_noticed() {
    let mut dot = problem("dot");
    dot.reference.gradient[7] += 1e-6;
    let message = check(&dot, Mode::Gradient).expect_err("one element is off");
    assert!(
        message.starts_with("Gradient: dot: the gradient is wrong") && message.contains("at element 7"),
        "{message}"
    );
    let mut dot = problem("dot");
    dot.reference.values[0] = dot.reference.values[0].next_up();
    let message = check(&dot, Mode::Gradient).expect_err("the last bit is off");
    assert!(message.starts_with("Gradient: dot: the value is wrong"), "{message}");
}

#[test]
fn wrong_adjoints_are_noticed() {
    let mut dot = problem("dot");
    // The last store of the file is that of the second shadow, from the first array.
    let (head, tail) = dot.clif.rsplit_once("store notrap aligned v15").expect("there is a store");
    dot.clif = format!("{head}store notrap aligned v12{tail}").into();
    let message = check(&dot, Mode::Gradient).expect_err("the adjoint is wrong");
    assert!(message.starts_with("Gradient: dot: the adjoint written by hand is wrong"), "{message}");
}

#[test]
fn rows() {
    let quick = Effort { rounds: 1, batch: std::time::Duration::ZERO, budget: std::time::Duration::ZERO };
    let row = measure::measure(&problem("logistic"), Mode::Gradient.into(), quick).unwrap_or_else(|e| panic!("{e}"));
    assert!(row.primal_ns > 0.0 && row.gradient_ns > 0.0 && row.hand_ns.is_some_and(|ns| ns > 0.0));
    let json = report::json(std::slice::from_ref(&row), None);
    let keys: Vec<_> = json[0].as_object().expect("an object").keys().map(String::as_str).collect();
    let wanted = ["name", "primal_ns", "gradient_ns", "hand_ns", "tape_bytes", "differentiate_us", "compile_us"];
    assert_eq!(keys, wanted);
    // A header, the row, and the mean.
    assert_eq!(report::table(&[row]).lines().count(), 3);
}

#[test]
fn latencies() {
    let quick = Effort { rounds: 1, batch: std::time::Duration::ZERO, budget: std::time::Duration::ZERO };
    let row = latency::measure(&problem("rot"), Mode::Gradient.into(), quick).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((row.name.as_str(), row.insts), ("rot", 47));
    // Which takes longer is not for a test to say: other things happen on the machine.
    let all = [row.cranelift_us, row.alone_us, row.differentiate_us, row.compile_us, row.first_us];
    assert!(all.iter().all(|us| us.is_finite() && *us > 0.0), "{row:?}");
    let sum = row.differentiate_us + row.compile_us;
    assert!((row.ratio() * row.cranelift_us - sum).abs() < 1e-6 * sum);
    let json = report::latencies_json(std::slice::from_ref(&row));
    let keys: Vec<_> = json[0].as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, ["name", "insts", "cranelift_us", "alone_us", "differentiate_us", "compile_us", "first_us"]);
    // A header, the row, and the mean.
    let table = report::latencies(&[row]);
    assert!(table.lines().count() == 3 && table.contains("first gradient"), "{table}");
}

#[test]
fn each_pass_is_worth_a_problem_or_a_promise() {
    let programs = benches::wasm::problems();
    let names: Vec<String> =
        problems::ALL.iter().map(|p| p.0.to_owned()).chain(programs.iter().map(|p| p.name())).collect();
    for pass in Pass::ALL {
        let worth = pass.worth();
        assert!(worth.contains(' ') || names.iter().any(|n| n == worth), "{pass}: no problem is called {worth}");
    }
}
