//! Functions that a builder has made: they run, they are undone, they have gradients, and what
//! fails names the statement.
//!
//! Seen to fail: a trap that names the statement of the caller, one without the bit of a builder.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgSpec, DerivedRule, Error, InverseCheck, Mode, Options, Primal, Program, Request, Trap};
use brolga_reversible::ast::{CheckMode, Len, Type};
use brolga_reversible::build::{self, ReversibleBuilder, apply, num};
use brolga_reversible::{ErrorKind, Fault};

fn array(of: Type, n: &str) -> Type {
    Type::Array(Box::new(of), Len::Param(n.to_owned()))
}

/// What `f` of a program does with places, and integers after them.
fn run<const N: usize>(program: &Program, name: &str, places: [&mut [f64]; N], words: &[i64]) -> Result<(), Box<Trap>> {
    let func = program.func(name).unwrap();
    let primal = Primal::new(program, &[func], &Options::default()).unwrap();
    let places = places.map(|p| DataValue::I64(p.as_mut_ptr() as i64));
    let args: Vec<DataValue> = places.into_iter().chain(words.iter().map(|&n| DataValue::I64(n))).collect();
    // SAFETY: places are as long as the words say.
    match unsafe { primal.call(func, &args) } {
        Ok(_) => Ok(()),
        Err(Error::Trap(trap)) => Err(trap),
        Err(e) => panic!("{e}"),
    }
}

/// The norm of a vector: statements 1 to 5.
fn norm() -> ReversibleBuilder {
    let mut f = ReversibleBuilder::new("norm");
    let y = f.param("y", Type::F64);
    let x = f.input("x", array(Type::F64, "n"));
    let n = f.input("n", Type::I64);
    let s = f.make("s", Type::F64, 0);
    f.compute(
        |f| f.count("i", 0, n, |f, i| f.add(s.clone(), x.clone().at(i.clone()) * x.clone().at(i))),
        |f| f.add(y, apply("sqrt", [s.clone().into()])),
    );
    f.end(&s, 0);
    f
}

#[test]
fn a_built_function_runs_both_ways_and_has_a_gradient() {
    let mut program = Program::new();
    build::compile([norm()]).unwrap().define_in(&mut program).unwrap();
    let (mut y, mut x) = ([0.5], [3.0, 4.0]);
    run(&program, "norm", [&mut y, &mut x], &[2]).unwrap();
    assert_eq!((y, x), ([5.5], [3.0, 4.0]));
    run(&program, "norm__inverse", [&mut y, &mut x], &[2]).unwrap();
    assert_eq!((y, x), ([0.5], [3.0, 4.0]));
    let args = [ArgSpec::DUPLICATED, ArgSpec::DUPLICATED, ArgSpec::CONST];
    let request = Request::new(program.func("norm").unwrap(), args);
    for mode in [Mode::Combined, Mode::Split] {
        let rule = DerivedRule::new(&program, &request, &Options { mode, ..Options::default() }).unwrap();
        let (mut dy, mut dx) = ([2.0_f64], [0.0_f64; 2]);
        let args = [
            Arg::duplicated(y.as_mut_ptr() as u64, dy.as_mut_ptr() as u64),
            Arg::duplicated(x.as_mut_ptr() as u64, dx.as_mut_ptr() as u64),
            Arg::new(DataValue::I64(2)),
        ];
        y = [0.5];
        // SAFETY: as above.
        let undone = unsafe {
            if mode == Mode::Combined {
                rule.gradient(&args, &[], &mut vec![], &mut vec![]).unwrap().inverse_stats()
            } else {
                let (_, mut pullback) = rule.forward(&args).unwrap();
                pullback.call(&[]).unwrap();
                pullback.inverse_stats()
            }
        };
        assert!((dx[0] - 1.2).abs() < 1e-14 && (dx[1] - 1.6).abs() < 1e-14 && dy == [2.0], "{mode:?} {dx:?} {dy:?}");
        assert_eq!((undone.calls, undone.undone), (1, 1));
    }
}

/// A fault, the number of the statement that has it, and the statements.
type Failing<'f> = (Fault, u32, &'f dyn Fn(&mut ReversibleBuilder));

/// A function that calls another one, in which a check fails.
fn failing(fails: impl FnOnce(&mut ReversibleBuilder)) -> Box<Trap> {
    let mut f = ReversibleBuilder::new("f");
    let x = f.param("x", array(Type::F64, "n"));
    let n = f.input("n", Type::I64);
    f.add(x.clone().at(0), 1.0);
    f.call("g", [x.into(), n.into()]);
    let mut g = ReversibleBuilder::new("g");
    g.param("x", array(Type::F64, "n"));
    g.input("n", Type::I64);
    fails(&mut g);
    let mut program = Program::new();
    build::compile([f, g]).unwrap().define_in(&mut program).unwrap();
    let mut x = [1.0, 2.0, 3.0];
    let trap = run(&program, "f", [&mut x], &[3]).unwrap_err();
    assert_eq!(x, [1.0, 2.0, 3.0], "{trap}");
    trap
}

#[test]
fn failed_checks_name_statements() {
    let x = || build::place("x");
    let n = || build::place("n");
    let cases: [Failing<'_>; 7] = [
        (Fault::OutOfRange, 2, &|g| {
            g.sub(x().at(0), 0.5);
            g.add(x().at(n()), 1.0);
        }),
        (Fault::AliasWrite, 1, &|g| g.add(x().at(n() - 2), x().at(1))),
        (Fault::PostconditionFailed, 2, &|g| {
            g.add(x().at(1), 1.0);
            g.choose(num(x().at(0)).greater(0.0), num(x().at(0)).greater(9.0), |g| g.add(x().at(0), 1.0), |_| {});
        }),
        (Fault::DeallocMismatch, 3, &|g| {
            let t = g.make("t", Type::F64, 0);
            g.add(t.clone(), x().at(0));
            g.end(&t, 0);
        }),
        (Fault::IteratorChanged, 2, &|g| {
            let k = g.make("k", Type::I64, 3);
            g.count("i", 0, k.clone(), |g, _| g.add(k.clone(), 1));
            g.end(&k, 3);
        }),
        (Fault::NoQuotient, 2, &|g| {
            let k = g.make("k", Type::I64, 0);
            g.add(k.clone(), num(7) / (n() - 3));
            g.end(&k, 0);
        }),
        (Fault::NoNumber, 2, &|g| {
            let l = g.make("l", Type::Log, 1.0);
            g.multiply(l.clone(), x().at(1) - 2.0);
            g.end(&l, 1.0);
        }),
    ];
    for (fault, statement, fails) in cases {
        let trap = failing(fails);
        assert_eq!(trap.code, fault.name(), "{trap}");
        let said = trap.to_string();
        assert!(said.contains(&format!("statement {statement} ")), "{said}");
        assert!(said.contains("the function is g"), "{said}");
    }
}

#[test]
fn what_is_refused_names_functions_and_statements() {
    let mut f = ReversibleBuilder::new("f");
    let x = f.param("x", Type::F64);
    f.add(x.clone(), 1.0);
    let mut g = ReversibleBuilder::new("g");
    let y = g.param("y", Type::F64);
    g.add(y.clone(), 1.0);
    g.add(y.clone(), y.clone() * 2.0);
    let mut h = ReversibleBuilder::new("h");
    h.input("z", Type::F64);
    let found = build::compile([f, g, h]).unwrap_err();
    let kinds: Vec<ErrorKind> = found.0.iter().map(|e| e.kind).collect();
    assert_eq!(kinds, [ErrorKind::Type, ErrorKind::AliasWrite]);
    let said = found.to_string();
    assert!(said.contains("AD0034: `g`, statement 2: ") && said.contains("AD0033: `h`: "), "{said}");
}

#[test]
fn each_function_is_checked_by_its_own_words() {
    let of = |name: &str, check| {
        let mut f = ReversibleBuilder::new(name);
        f.check(check);
        let x = f.param("x", Type::F64);
        let a = f.input("a", Type::F64);
        f.add(x, a);
        f
    };
    let all = || {
        [
            of("tight", CheckMode::Within(1e-12)),
            of("bits", CheckMode::Bits),
            of("off", CheckMode::Off),
            of("loose", CheckMode::Within(1e-4)),
        ]
    };
    let backwards = || all().into_iter().rev().collect::<Vec<_>>();
    for functions in [all().to_vec(), backwards()] {
        let mut program = Program::new();
        build::compile(functions).unwrap().define_in(&mut program).unwrap();
        let holds = |name: &str, inverse_check| {
            let request = Request::new(program.func(name).unwrap(), [ArgSpec::DUPLICATED, ArgSpec::DUPLICATED]);
            let options = Options { mode: Mode::Combined, inverse_check, ..Options::default() };
            let rule = DerivedRule::new(&program, &request, &options).unwrap();
            // What is added leaves x with nine digits.
            let (mut x, mut a, mut dx, mut da) = ([0.1], [1e6], [1.0], [0.0]);
            let args = [
                Arg::duplicated(x.as_mut_ptr() as u64, dx.as_mut_ptr() as u64),
                Arg::duplicated(a.as_mut_ptr() as u64, da.as_mut_ptr() as u64),
            ];
            // SAFETY: each place is a double.
            match unsafe { rule.gradient(&args, &[], &mut vec![], &mut vec![]) } {
                Ok(_) => true,
                Err(Error::Trap(trap)) => {
                    let said = trap.to_string();
                    assert!(trap.code == "inverse_pair" && said.contains(&format!("%{name}__do")), "{said}");
                    false
                }
                Err(e) => panic!("{e}"),
            }
        };
        let declared = ["tight", "bits", "off", "loose"].map(|f| holds(f, InverseCheck::Declared));
        assert_eq!(declared, [false, false, true, true]);
        // Unless something else is asked for.
        assert!(holds("tight", InverseCheck::Off) && !holds("loose", InverseCheck::Within(1e-12.into())));
    }
}

#[test]
fn a_program_has_a_function_once() {
    let mut program = Program::new();
    let norm = build::compile([norm()]).unwrap();
    norm.define_in(&mut program).unwrap();
    let again = norm.define_in(&mut program).unwrap_err();
    assert_eq!(again.0[0].code, "AD0004");
    let none = program.set_inverse_check("nothing", InverseCheck::Off).unwrap_err();
    assert_eq!(none.0[0].code, "AD0192");
}
