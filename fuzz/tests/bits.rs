//! The generator of programs about bits: the same programs in every run, gradients that differences
//! agree with, and verdicts on committed modules, so that nothing here needs a compiler for C.
//!
//! `bits/NAME.c` are programs as the generator has written them, and `bits/NAME.LEVEL.wasm` what
//! clang 19 makes of them: `cargo run -p brolga-fuzz -- --build FILE` does that again.

use std::path::Path;

use brolga_fuzz::bits::case::Case;
use brolga_fuzz::bits::clang::LEVELS;
use brolga_fuzz::bits::dual::reference;
use brolga_fuzz::bits::generate::{TOGETHER, program};
use brolga_fuzz::bits::judge::{BitsVerdict, judge};
use brolga_fuzz::bits::program::{Arith, BitOp, INPUTS, Kind, Program, Stmt};
use brolga_fuzz::bits::{c, small};
use brolga_wasm::Module;

const NAMES: [&str; 3] = ["doubles", "singles", "mixed"];

fn case(name: &str, level: usize) -> (Module, Case) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bits");
    let text = std::fs::read_to_string(folder.join(format!("{name}.c"))).expect("the program is there");
    let mut case = Case::parse(&text).expect("the comment can be read");
    case.level.index = level;
    let path = folder.join(format!("{name}.{}.wasm", LEVELS[level].0));
    let module = Module::new(std::fs::read(path).expect("the module is there")).expect("the module is valid");
    (module, case)
}

#[test]
fn committed_programs_are_right_at_every_level() {
    for name in NAMES {
        for (n, level) in LEVELS.iter().enumerate() {
            let (module, case) = case(name, n);
            assert_eq!(judge(&module, &case).verdict, BitsVerdict::Right, "{name} at {}", level.0);
        }
    }
}

#[test]
fn a_wrong_gradient_is_noticed() {
    for name in NAMES {
        let (module, mut case) = case(name, 2);
        let largest = (0..INPUTS).max_by(|a, b| {
            let size = |k: usize| case.right.gradient[k].abs();
            size(*a).total_cmp(&size(*b))
        });
        case.right.gradient[largest.expect("there are inputs")] *= 1.001;
        let verdict = judge(&module, &case).verdict;
        assert!(
            matches!(&verdict, BitsVerdict::Wrong(class, _) if class == "tape" || class == "gradient"),
            "{name}: {verdict:?}"
        );
        case.right.value += 1.0;
        let verdict = judge(&module, &case).verdict;
        assert!(matches!(&verdict, BitsVerdict::Wrong(class, _) if class == "value"), "{name}: {verdict:?}");
    }
}

#[test]
fn a_number_is_one_program() {
    let text = |n: u64| c::module([(7, &program(n))]);
    for n in 0..200 {
        assert_eq!(text(n), text(n));
    }
    let mut all: Vec<_> = (0..200).map(text).collect();
    all.sort();
    all.dedup();
    assert!(all.len() > 190, "{} programs of 200 differ", all.len());
    let kind = |n: u64| program(n * TOGETHER).kind;
    for wanted in [Kind::Mixed, Kind::Doubles, Kind::Singles] {
        assert!((0..40).any(|n| kind(n) == wanted), "{wanted:?}");
    }
}

#[test]
fn a_file_is_read_as_it_was_written() {
    for n in 0..300 {
        let case = Case::new(&program(n), n, (n % 4) as usize);
        let mut read = Case::parse(&case.file("", "nothing")).expect("the comment can be read");
        assert_eq!(read.right.unsure.is_some(), case.right.unsure.is_some());
        read.right.unsure = case.right.unsure;
        // A NaN is no number that could be compared.
        assert_eq!(format!("{read:?}"), format!("{case:?}"));
    }
}

/// Whether a program has nothing that rounds, so that differences of what it returns are slopes.
fn smooth(body: &[Stmt]) -> bool {
    body.iter().all(|stmt| match stmt {
        Stmt::Move { ops, .. } => ops.iter().all(|op| {
            matches!(
                op,
                BitOp::Negate
                    | BitOp::Abs
                    | BitOp::Below
                    | BitOp::NegateIf(_)
                    | BitOp::Scale(_)
                    | BitOp::Step(_)
                    | BitOp::Add(_)
                    | BitOp::Mantissa(_)
                    | BitOp::Root(_)
                    | BitOp::InverseRoot
                    | BitOp::Key(_)
                    | BitOp::Rotate(_)
                    | BitOp::Swap
            )
        }),
        Stmt::Part(..) | Stmt::Hash(_) | Stmt::Lanes(..) => false,
        Stmt::Arith(.., arith) => *arith != Arith::Round,
        Stmt::Loop(_, _, body) | Stmt::If(_, body) => smooth(body),
        _ => true,
    })
}

#[test]
fn the_gradient_is_that_of_the_function() {
    let returned = |p: &Program, k: usize, by: f64| {
        let mut p = p.clone();
        p.inputs[k] += by;
        reference(&p)
    };
    let mut compared = 0;
    for n in 0..3000 {
        let mut p = program(n);
        p.shadows = false;
        let right = reference(&p);
        if p.kind != Kind::Doubles || !smooth(&p.body) || right.unsure.is_some() {
            continue;
        }
        for k in 0..INPUTS {
            let step = 1e-6;
            let (above, below) = (returned(&p, k, step), returned(&p, k, -step));
            // On a piece of its own, the function has another slope.
            if above.gradient[k].signum() != below.gradient[k].signum() || above.unsure.or(below.unsure).is_some() {
                continue;
            }
            let slope = (above.value - below.value) / (2.0 * step);
            let apart = (slope - right.gradient[k]).abs();
            assert!(apart < 1e-5 * right.largest.max(1.0), "program {n}, input {k}: {slope}, {:?}", right.gradient[k]);
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared} slopes were compared");
}

#[test]
fn what_a_mistake_does_not_need_is_dropped() {
    let iterations =
        |p: &Program| format!("{:?}", p.body).contains("Negate,") || format!("{:?}", p.body).contains("Negate]");
    let found: Vec<_> = (0..400).map(program).filter(|p| iterations(p) && p.body.len() > 2).collect();
    assert!(found.len() > 3);
    for p in &found {
        let small = small::reduce(p, |p| Ok(iterations(p))).expect("the question is always answered");
        assert_eq!(small.body.len(), 1, "{small:?}");
        assert!(!small.out.contains(&true) && !small.shadows);
    }
}

#[test]
fn without_a_compiler_the_command_says_so() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_brolga-fuzz"));
    command.args(["--bits", "--minutes", "0.01"]).env("CLANG", "no-such-compiler").env("RUST_BACKTRACE", "0");
    let done = command.output().expect("the binary runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success());
    assert!(said.contains("no-such-compiler") && said.contains("help: install clang-19"), "{said}");
}
