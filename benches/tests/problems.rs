//! Every problem is right: its value, its gradient and its hand-written adjoint, and the `; grad:` lines of its file.

use benches::{Effort, Prepared, measure, problems, report};
use brolga_driver::{Directive, File, Invocation, compare, protocol, run};

#[test]
fn references() {
    for problem in problems::all() {
        Prepared::new(&problem).and_then(|mut p| p.check()).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn lines_of_the_files() {
    for problem in problems::all() {
        let file = File::parse(problem.name, problem.clif.clone()).unwrap_or_else(|e| panic!("{e}"));
        for directive in &file.directives {
            let Directive::Grad(line) = directive else { continue };
            let call = Invocation::bind(&file.program, &line.text, &line.call, &line.clauses)
                .unwrap_or_else(|e| panic!("{}: {}", problem.name, e.diagnostic("AD0008", Some(line.line))));
            let outcome = protocol::derive(&file.program, &call.request(), &brolga::Options::default())
                .and_then(|rule| run::gradient(&rule, &call))
                .unwrap_or_else(|e| panic!("{}: {e}", problem.name));
            let tol = compare::tolerance(&file.program, &call, &line.clauses);
            let wrong = compare::differences(&outcome, &line.expected, &line.clauses, tol);
            assert!(wrong.is_empty(), "{}: {}", problem.name, wrong.join("; "));
        }
    }
}

#[test]
fn wrong_references_are_noticed() {
    let mut problem = problems::all().into_iter().find(|p| p.name == "dot").expect("it is in the list");
    problem.gradient[7] += 1e-6;
    let message = Prepared::new(&problem).and_then(|mut p| p.check()).expect_err("one element is off").to_string();
    assert!(message.starts_with("dot: the gradient is wrong") && message.contains("at element 7"), "{message}");
}

#[test]
fn rows() {
    let quick = Effort { rounds: 1, batch: std::time::Duration::ZERO, budget: std::time::Duration::ZERO };
    let problem = problems::all().into_iter().find(|p| p.name == "logistic").expect("it is in the list");
    let row = measure::measure(&problem, quick).unwrap_or_else(|e| panic!("{e}"));
    assert!(row.primal_ns > 0.0 && row.gradient_ns > 0.0 && row.hand_ns.is_some_and(|ns| ns > 0.0));
    let json = report::json(std::slice::from_ref(&row));
    let keys: Vec<_> = json[0].as_object().expect("an object").keys().map(String::as_str).collect();
    let wanted = ["name", "primal_ns", "gradient_ns", "hand_ns", "tape_bytes", "differentiate_us", "compile_us"];
    assert_eq!(keys, wanted);
    assert!(report::table(&[row]).lines().count() == 2);
}
