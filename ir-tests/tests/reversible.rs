//! Reversible functions: each call of `ir-tests/reversible` has the gradient that it expects, the
//! tape's, and that of its own statements recorded; its inverse undoes it; and what a failed check
//! says.
//!
//! Seen to fail: a place of the caller's that is computed in without cotangents, one that is taken
//! for new in each iteration, un-computing that is left out where it is needed; a
//! tolerance that is absolute below one, and one that is that of another function.

use std::path::PathBuf;

use brolga::drivers::Sweep;
use brolga::{DerivedRule, Error, InverseCheck, Mode, Options};
use brolga_driver::check::round_trip::{RoundTrip, round_trip};
use brolga_driver::check::{Tolerances, check};
use brolga_driver::jacobian::jacobian;
use brolga_driver::run::Outcome;
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::{Clauses, Directive, File, Invocation, Item, Num, compare, run};
use brolga_oracle::fd::Verdict;

fn files() -> Vec<File> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("reversible");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|p| File::read(p).unwrap_or_else(|e| panic!("{}: {e}", p.display()))).collect()
}

fn parse(text: &str) -> File {
    File::parse("test.rev", text).unwrap_or_else(|e| panic!("{e}"))
}

fn bind(file: &File, text: &str) -> (Invocation, Clauses) {
    let (call, clauses) = call_with_clauses(text).unwrap();
    (file.bind(text, &call, &clauses).unwrap(), clauses)
}

/// The calls of a file: `grad` lines, and others, of which no number is said.
fn calls(file: &File) -> Vec<(String, Invocation, Clauses)> {
    let mut found = Vec::new();
    for directive in &file.directives {
        let Directive::Grad(line) = directive else { continue };
        let call = file.bind(&line.text, &line.call, &line.clauses).unwrap();
        found.push((format!("{}:{}", file.name, line.line), call, line.clauses.clone()));
    }
    for (number, text) in (1..).zip(file.text.lines()) {
        if let Some(text) = text.strip_prefix("; call: ") {
            let (call, clauses) = bind(file, text);
            found.push((format!("{}:{number}", file.name), call, clauses));
        }
    }
    found
}

fn gradient(file: &File, call: &Invocation, mode: Mode, inverse_check: InverseCheck) -> Result<Outcome, Error> {
    let options = Options { mode, inverse_check, memory: call.memory, ..file.options() };
    run::gradient(&DerivedRule::new(&file.program, &call.request(), &options)?, call)
}

fn floats(found: &Outcome) -> Vec<f64> {
    let float = |n: &Num| match *n {
        Num::F64(x) => Some(x),
        Num::F32(x) => Some(x.into()),
        _ => None,
    };
    found.gradient.iter().flatten().flat_map(Item::nums).filter_map(float).collect()
}

fn near(a: &Outcome, b: &Outcome, tolerance: f64) -> bool {
    let (a, b) = (floats(a), floats(b));
    let largest = a.iter().chain(&b).fold(1.0_f64, |m, x| m.max(x.abs()));
    a.len() == b.len() && a.iter().zip(&b).all(|(x, y)| (x - y).abs() <= tolerance * largest)
}

#[test]
fn gradients_are_those_that_are_expected_and_those_of_the_tape() {
    let mut lines = 0;
    for file in &files() {
        for directive in &file.directives {
            let Directive::Grad(line) = directive else { continue };
            let call = file.bind(&line.text, &line.call, &line.clauses).unwrap();
            let found = gradient(file, &call, Mode::Combined, InverseCheck::Declared).unwrap();
            let tol = compare::tolerance(&file.program, &call, &line.clauses);
            let wrong: Vec<String> = compare::differences(&found, &line.expected, &line.clauses, tol)
                .iter()
                .map(|d| d.to_string())
                .collect();
            assert_eq!(wrong, [""; 0], "{}:{}", file.name, line.line);
            lines += 1;
        }
        for (name, call, clauses) in calls(file) {
            let options = file.options();
            let rule = || DerivedRule::new(&file.program, &call.request(), &options);
            let outcome = run::gradient(&rule().unwrap(), &call).unwrap();
            let tolerances = Tolerances::of(&file.program, &call, clauses.tol);
            let found = check(&file.program, &call, &outcome, &rule, tolerances, !clauses.nofd).unwrap();
            assert_eq!(found.complaints(), [""; 0], "{name}");
            assert!(found.tape_error.is_none(), "{name}: {:?}", found.tape_error);
        }
    }
    assert!(lines >= 20, "{lines} lines");
}

#[test]
fn all_ways_to_a_gradient_agree() {
    let mut recorded = 0;
    for file in &files() {
        for (name, call, _) in calls(file) {
            let usual = gradient(file, &call, Mode::Combined, InverseCheck::Declared).unwrap();
            let single = file.text.contains("f32");
            let tolerance = if single { 1e-5 } else { 1e-11 };
            for mode in [Mode::Split, Mode::Combined] {
                for check in [InverseCheck::Off, InverseCheck::Record] {
                    let found = gradient(file, &call, mode, check).unwrap();
                    assert!(near(&usual, &found, tolerance), "{name} {mode:?} {check:?}:\n{usual:?}\n{found:?}");
                    assert_eq!(usual.buffers, found.buffers, "{name}");
                    if check == InverseCheck::Off {
                        // What the call is given.
                        assert!(
                            found.tape_bytes <= 16 * (1 + call.args.len()),
                            "{name}: {} bytes are recorded",
                            found.tape_bytes
                        );
                    }
                    recorded += found.inverses.recorded;
                }
            }
            // From its statements, as of any function.
            let restored = Invocation { memory: brolga::MemoryMode::Restore, ..call.clone() };
            let found = gradient(file, &restored, Mode::Split, InverseCheck::Off).unwrap();
            assert_eq!(found.inverses.calls, 0, "{name}");
            assert!(near(&usual, &found, tolerance), "{name}, recorded:\n{usual:?}\n{found:?}");
        }
    }
    assert!(recorded >= 1, "{recorded} words on record");
}

#[test]
fn inverses_undo() {
    let (mut undone, mut refused) = (0, 0);
    for file in &files() {
        for (name, call, _) in calls(file) {
            let back = Invocation {
                func: file.program.func(&format!("{}__inverse", call.symbol)).unwrap(),
                symbol: format!("{}__inverse", call.symbol),
                ..call.clone()
            };
            for call in [&call, &back] {
                let found =
                    round_trip(&file.program, file.inverses(), call, InverseCheck::Declared, 200).unwrap().unwrap();
                assert_eq!(found.wrong, None, "{name} {}", call.symbol);
                undone += found.undone;
                refused += found.refused;
            }
        }
    }
    assert!(undone >= 5000, "{undone} states");
    assert!(refused >= 500, "{refused} failed checks");
}

#[test]
fn the_example_of_the_page_is_right() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/REVERSIBLE.md");
    let page = std::fs::read_to_string(page).unwrap();
    let text = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let file = parse(text);
    let Some(Directive::Grad(line)) = file.directives.first() else { panic!("it has a call") };
    let call = file.bind(&line.text, &line.call, &line.clauses).unwrap();
    let found = gradient(&file, &call, Mode::Combined, InverseCheck::Declared).unwrap();
    assert_eq!(compare::differences(&found, &line.expected, &line.clauses, 1e-12).len(), 0);
}

/// What a call ends with: the code of a trap and its line, and that the arguments are what they
/// were.
fn fails(text: &str, call: &str) -> (String, Option<u32>) {
    let file = parse(text);
    let (call, _) = bind(&file, call);
    let trap = match run::primal(&file.program, &call) {
        Err(Error::Trap(trap)) => trap,
        other => panic!("{other:?}"),
    };
    let found: RoundTrip =
        round_trip(&file.program, file.inverses(), &call, InverseCheck::Declared, 1).unwrap().unwrap();
    assert_eq!((found.wrong, found.undone), (None, 0));
    (trap.code.clone(), trap.line)
}

#[test]
fn failed_checks_name_their_lines() {
    let fault = |name: &str, line| (name.to_owned(), Some(line));
    let post = "fn f(x: f64, y: f64) {\n    y += x\n    if (x > 0.0, y > 5.0) {\n        y += 1.0\n    }\n}";
    assert_eq!(fails(post, "%f([1.0], [2.0])"), fault("postcondition_failed", 3));
    let entry = "fn f(x: i64) {\n    x += 2\n    from x == 0 while x < 9 {\n        x += 1\n    }\n}";
    assert_eq!(fails(entry, "%f(i64[3])"), fault("postcondition_failed", 3));
    let within = "fn f(x: i64) {\n    from x < 5 while x < 9 {\n        x += 1\n    }\n}";
    assert_eq!(fails(within, "%f(i64[3])"), fault("postcondition_failed", 2));
    let drop = "fn f(x: f64) {\n    let t: f64 = 0\n    t += x\n    x += 1.0\n    drop t = 0\n}";
    assert_eq!(fails(drop, "%f([3.0])"), fault("dealloc_mismatch", 5));
    let array = "fn f(x: f64) {\n    let t: [f64 x 3] = 0\n    t[1] += x\n    drop t = 0\n}";
    assert_eq!(fails(array, "%f([3.0])"), fault("dealloc_mismatch", 4));
    let limit = "fn f(n: i64) {\n    for i in 0 .. n {\n        n += 1\n        n -= 2\n    }\n}";
    assert_eq!(fails(limit, "%f(i64[3])"), fault("iterator_changed", 2));
    let alias = "fn f(x: [f64 x 3], i: in i64) {\n    x[0] += 1.0\n    x[i] += x[1]\n}";
    assert_eq!(fails(alias, "%f([1.0, 2.0, 3.0], 1)"), fault("alias_write", 3));
    let index = "fn f(x: [f64 x 3], i: in i64) {\n    x[0] += 1.0\n    x[i] += 1.0\n}";
    assert_eq!(fails(index, "%f([1.0, 2.0, 3.0], 3)"), fault("out_of_range", 3));
    assert_eq!(fails(index, "%f([1.0, 2.0, 3.0], -1)"), fault("out_of_range", 3));
    let full = "fn f(x: f64) {\n    let s: stack [f64 x 1] = 0\n    for i in 0 .. 2 {\n        push s, x\n    }\n    drop s = 0\n}";
    assert_eq!(fails(full, "%f([1.0])"), fault("out_of_range", 4));
    let twice = "fn f(x: [f64 x 3], i: in i64) {\n    x[2] += 1.0\n    call g(x[i], x[1])\n}\nfn g(a: f64, b: f64) {\n    a += b\n}";
    assert_eq!(fails(twice, "%f([1.0, 2.0, 3.0], 1)"), fault("alias_write", 3));
    let stack = |stmt: &str| format!("fn f(x: [i64 x 3], s: stack [i64 x 3]) check bits {{\n    {stmt}\n}}");
    let popped = stack("pop s, x[x[0]]");
    assert_eq!(fails(&popped, "%f(i64[0, 7, 9], i64[1, 2, 0, 0])"), fault("alias_write", 2));
    let pushed = stack("push s, x[x[1] - 1]");
    assert_eq!(fails(&pushed, "%f(i64[5, 2, 9], i64[0, 0, 0, 0])"), fault("alias_write", 2));
    let far = "fn f(q: q43, x: in f64) {\n    q += x\n}";
    assert_eq!(fails(far, "%f([5000.0], [-4500.5])"), fault("no_number", 2));
    let deep = "fn f(x: i64, n: in i64) {\n    x += 1\n    if n > 0 {\n        call f(x, n - 1)\n    } else {\n        if (x > 3, x > 5) {\n            x += 0\n        }\n    }\n}";
    assert_eq!(fails(deep, "%f(i64[1], 3)"), fault("postcondition_failed", 6));
    let fixed = "fn f(x: q43, y: in f64) {\n    x += y\n}";
    assert_eq!(fails(fixed, "%f([1.0], [2000.0])"), fault("no_number", 2));
    assert_eq!(fails(fixed, "%f([0.1], [0.5])"), fault("no_number", 2));
    // It has one zero.
    assert_eq!(fails(fixed, "%f([-0.0], [0.5])"), fault("no_number", 2));
    assert_eq!(fails("fn f(x: q43) {\n    neg x\n}", "%f([-0.0])"), fault("no_number", 2));
    let log = "fn f(x: f64, l: log, y: in f64) {\n    x += 1.0\n    l *= y\n}";
    assert_eq!(fails(log, "%f([1.0], [0.5], [0.0])"), fault("no_number", 3));
    assert_eq!(fails(log, "%f([1.0], [0.5], [-2.0])"), fault("no_number", 3));
    let quotient = "fn f(k: i64, a: in i64, b: in i64) {\n    k += 1\n    if a / b > 1 {\n        k += a % b\n    }\n}";
    for call in ["%f(i64[1], 3, 0)", "%f(i64[1], -9223372036854775808, -1)"] {
        assert_eq!(fails(quotient, call), fault("no_quotient", 3), "{call}");
    }
    let room = "fn f(x: f64, n: in i64) {\n    x += 1.0\n    let a: [f64 x n] = 0\n    drop a = 0\n}";
    for n in [1_i64 << 61, 1 << 50, (1 << 43) + 1] {
        assert_eq!(fails(room, &format!("%f([1.0], {n})")), fault("no_memory", 3), "{n}");
    }
    // A length that is negative is none.
    let none = "fn f(x: f64, n: in i64) {\n    let a: [f64 x n] = 0\n    a[0] += x\n    a[0] -= x\n    drop a = 0\n}";
    assert_eq!(fails(none, "%f([1.0], -1)"), fault("out_of_range", 3));
    let whole =
        "fn f(x: [f64 x 2], n: in i64) {\n    call g(x, n)\n}\nfn g(x: [f64 x n], n: in i64) {\n    x[1] += 1.0\n}";
    assert_eq!(fails(whole, "%f([1.0, 2.0], -1)"), fault("out_of_range", 5));
    assert_eq!(fails(whole, "%f([1.0, 2.0], 3)"), fault("out_of_range", 2));
}

#[test]
fn what_is_made_a_fixed_point_number_is_one() {
    // A zero with a sign, and what is no multiple, which another place holds that is only read.
    for (made, given) in [("y", "-0.0"), ("-1e-20", "0.0"), ("y", "0.1"), ("y + 0.1", "-0.1")] {
        let text = format!(
            "fn f(x: q43, y: in TYPE, z: in f64) {{\n    let q: q43 = {made}\n    x += q\n    q -= z\n    q += z\n    \
             drop q = {made}\n}}"
        );
        for ty in ["q43", "f64"].iter().filter(|ty| **ty == "f64" || !made.contains('+')) {
            let file = parse(&text.replace("TYPE", ty));
            let (call, _) = bind(&file, &format!("%f([0.5], [{given}], [0.3])"));
            let found = round_trip(&file.program, file.inverses(), &call, InverseCheck::Declared, 20).unwrap().unwrap();
            assert_eq!((found.wrong, found.undone), (None, 20), "{made} {ty}");
        }
    }
}

#[test]
fn differences_of_fixed_point_numbers_are_multiples() {
    let file =
        parse("fn f(y: f64, q: q43, r: [q43 x 2]) {\n    q += float(r[0])\n    y += sin(float(q)) * float(r[1])\n}");
    let (call, _) = bind(&file, "%f([0.0], [0.5], [0.25, 1.5]) shadow 0=[1.0]");
    let rule = || DerivedRule::new(&file.program, &call.request(), &Options::default());
    let outcome = run::gradient(&rule().unwrap(), &call).unwrap();
    let found = check(&file.program, &call, &outcome, &rule, Tolerances::of(&file.program, &call, None), true).unwrap();
    assert_eq!(found.complaints(), [""; 0]);
    for row in &found.rows {
        assert!(matches!(row.difference, Some(Verdict::Smooth { .. })), "{row:?}");
    }
}

#[test]
fn what_a_list_holds_of_another_type_is_not_moved_as_one() {
    // Of 0x1.000003e8p-3 the halves are 0.25 and 1.5.
    let file = parse(
        "record R { a: f64, k: i64, b: f32, c: f32 }\nfn f(y: f64, r: R) {\n    y += r.a * r.a\n    r.b += r.c\n    \
         r.k += 3\n}",
    );
    let (call, _) = bind(&file, "%f([0.0], f64[0.5, 0.0, 0x1.000003e8p-3]) shadow 0=[1.0]");
    let rule = || DerivedRule::new(&file.program, &call.request(), &Options::default());
    let outcome = run::gradient(&rule().unwrap(), &call).unwrap();
    let found = check(&file.program, &call, &outcome, &rule, Tolerances::of(&file.program, &call, None), true).unwrap();
    assert_eq!(found.complaints(), [""; 0]);
    let names: Vec<String> = found.rows.iter().map(|r| r.input.name()).collect();
    assert_eq!(names, ["0[0]", "1[0]"]);
    let found = round_trip(&file.program, file.inverses(), &call, InverseCheck::Declared, 100).unwrap().unwrap();
    assert_eq!((found.wrong, found.undone), (None, 100));
}

#[test]
fn a_float_comes_back_in_proportion() {
    // x is left with two digits, of which a logarithm makes as many of its slope.
    let file = parse(
        "fn f(y: f64, x: f64) check 1e-12 {\n    y += 1e-9 * log(x)\n    x += 1000\n}\n\
         fn g(y: f64, x: f64) check 1e-3 {\n    y += x\n    x += 0.25\n}",
    );
    let (call, _) = bind(&file, "%f([0.0], [1e-12]) shadow 0=[1.0]");
    let said = gradient(&file, &call, Mode::Combined, InverseCheck::Declared).unwrap_err().to_string();
    assert!(said.contains("inverse_pair") && said.contains("record what differs"), "{said}");
    assert!(said.contains("%f__do, line 1"), "{said}");
    let exact = gradient(&file, &call, Mode::Combined, InverseCheck::Record).unwrap();
    assert!((floats(&exact)[1] - 1000.0).abs() < 1e-9, "{exact:?}");
    // What was zero has no proportion; other functions have other words.
    for x in ["0.0", "0.1"] {
        let (call, _) = bind(&file, &format!("%g([0.0], [{x}]) shadow 0=[1.0]"));
        assert_eq!(floats(&gradient(&file, &call, Mode::Combined, InverseCheck::Declared).unwrap()), [1.0, 1.0]);
    }
    // So does what ends.
    let drop = |more: &str| {
        format!("fn f(x: f64) {{\n    let t: f64 = 1e-9\n    x += t\n    t += {more}\n    drop t = 1e-9\n}}")
    };
    assert_eq!(fails(&drop("1e-15"), "%f([3.0])"), ("dealloc_mismatch".to_owned(), Some(5)));
    let file = parse(&drop("1e-18"));
    assert!(run::primal(&file.program, &bind(&file, "%f([3.0])").0).is_ok());
}

#[test]
fn roundings_that_grow_are_no_fault_of_an_inverse() {
    // What comes back from 1e12 has five digits.
    let file = parse("fn f(x: f64, a: in f64) {\n    x += 1e12 * a\n}");
    let (call, _) = bind(&file, "%f([0.1], [1.0])");
    let found = round_trip(&file.program, file.inverses(), &call, InverseCheck::Declared, 20).unwrap().unwrap();
    assert_eq!(found.wrong, None);
    assert!(found.left_out >= 19, "{found:?}");
    assert!(gradient(&file, &call, Mode::Combined, InverseCheck::Declared).is_err());
}

#[test]
fn infinite_places_hold_what_is_said() {
    let file = parse("fn f(x: f64, y: in f64) {\n    let t: f64 = exp(y)\n    x += t\n    drop t = exp(y)\n}");
    let (call, _) = bind(&file, "%f([1.0], [1000.0])");
    assert_eq!(run::primal(&file.program, &call).unwrap().buffers[0], Some(vec![Num::F64(f64::INFINITY)]));
    let (call, _) = bind(&file, "%f([1.0], [nan])");
    assert!(matches!(run::primal(&file.program, &call), Err(Error::Trap(t)) if t.code == "dealloc_mismatch"));
}

#[test]
fn integers_in_an_array_of_a_function_are_no_addresses() {
    let file = parse(
        "fn f(x: [f64 x 3], n: in i64) {
            let a: [i64 x n] = 0
            let b: f64 = 0
            compute {
                call fill(a, b, x, n)
            } copy {
                x[1] += b
            }
            drop b = 0
            drop a = 0
        }
        fn fill(a: [i64 x n], b: f64, x: in [f64 x 3], n: in i64) {
            for i in 0 .. n {
                a[i] ^= i << 2
                a[i] += n
                b += float(a[i]) * x[2]
            }
        }",
    );
    let (call, _) = bind(&file, "%f([0.5, 0.25, 2.0], 2) shadow 0=[0.0, 1.0, 0.0]");
    let found = gradient(&file, &call, Mode::Combined, InverseCheck::Off).unwrap();
    assert_eq!(floats(&found), [0.0, 1.0, 8.0]);
    // Where its statements are derived, too.
    let recorded = Invocation { memory: brolga::MemoryMode::Restore, ..call.clone() };
    let found = gradient(&file, &recorded, Mode::Split, InverseCheck::Off).unwrap();
    assert_eq!(floats(&found), [0.0, 1.0, 8.0]);
}

#[test]
fn arrays_may_have_no_element() {
    let file = parse(
        "fn f(x: [f64 x n], y: f64, n: in i64) {\n    for i in 0 .. n {\n        y += x[i]\n    }\n    let a: [f64 x n] = 0\n    drop a = 0\n}",
    );
    let (call, _) = bind(&file, "%f([], [2.0], 0) shadow 1=[3.0]");
    for mode in [Mode::Split, Mode::Combined] {
        for check in [InverseCheck::Off, InverseCheck::Bits, InverseCheck::Record, InverseCheck::Within(1e-8.into())] {
            let found = gradient(&file, &call, mode, check).unwrap();
            assert_eq!(floats(&found), [3.0], "{mode:?} {check:?}");
        }
    }
}

#[test]
fn calls_give_what_parameters_take() {
    let text = "record P { a: f64, b: [f32 x 2] }\nfn f(x: [f64 x n], k: [i32 x 2], z: complex, p: P, s: stack [f64 x 2], n: in i64) {\n    x[0] += 1.0\n}";
    let file = parse(text);
    let says = |call: &str| {
        let (parsed, clauses) = call_with_clauses(call).unwrap();
        file.bind(call, &parsed, &clauses).err().map(|e| e.message)
    };
    assert_eq!(says("%f([1.0, 2.0], i32[1, 2], [1.0, 0.5], f64[1.0, 2.0], [0, 0.0, 0.0], 2)"), None);
    for (call, what) in [
        ("%f([1.0], i32[1, 2], [1.0, 0.5], f64[1.0, 2.0], [0, 0.0, 0.0], 2)", "8 bytes of 16"),
        ("%f([1.0], i64[1, 2], [1.0, 0.5], f64[1.0, 2.0], [0, 0.0, 0.0], 1)", "a buffer of i64"),
        ("%f([1.0], i32[1], [1.0, 0.5], f64[1.0, 2.0], [0, 0.0, 0.0], 1)", "4 bytes of 8"),
        ("%f([1.0], i32[1, 2], [1.0], f64[1.0, 2.0], [0, 0.0, 0.0], 1)", "`z: complex`, and is given 8 bytes"),
        ("%f__inverse([1.0], i32[1, 2], [1.0, 0.5], f64[1.0], [0, 0.0, 0.0], 1)", "`p: P`, and is given 8 bytes"),
        ("%f([1.0], i32[1, 2], [1.0, 0.5], f64[1.0, 2.0], [0], 1)", "8 bytes of 24"),
    ] {
        let found = says(call).expect("it is refused");
        assert!(found.contains(what), "{call}: {found}");
    }
}

/// Each number of a list is one of its own type, going in and coming out; a list that says of what
/// type it is is memory.
#[test]
fn lists_of_several_types() {
    let file = parse("record P { k: i64, x: f64 }\nfn f(p: P, n: in i64) {\n    p.k += n\n    p.x += 0.5\n}");
    let left = |call: &str| {
        let (call, _) = bind(&file, call);
        run::primal(&file.program, &call).unwrap().buffers.swap_remove(0)
    };
    assert_eq!(left("%f([3, 2.0], 4)"), Some(vec![Num::Int(7), Num::F64(2.5)]));
    let bits = f64::from_bits(1.0_f64.to_bits() + 4);
    assert_eq!(left("%f(f64[1.0, 2.0], 4)"), Some(vec![Num::F64(bits), Num::F64(2.5)]));
    // An integer has no direction, and nothing depends on it.
    let (call, _) = bind(&file, "%f([3, 2.0], 4) shadow 0=[0, 1.0]");
    let inputs = brolga_driver::inputs::inputs(&call);
    assert_eq!(inputs.iter().map(|i| i.is_other()).collect::<Vec<_>>(), [true, false]);
}

/// Second derivatives and Jacobians of what an integer among floats is a factor of: it has no
/// direction, and its rows and columns are zero.
#[test]
fn integers_among_floats_have_no_derivatives() {
    let text = "record P { k: i64, x: f64 }\nfn f(y: f64, p: P) {\n    y += p.x * p.x * float(p.k)\n    p.k += 1\n}\nfn swapped(p: P, q: P) {\n    swap p.k, q.k\n    p.x += q.x\n}";
    let file = parse(text);
    let (call, _) = bind(&file, "%f([0.0], [3, 2.0]) shadow 0=[1.0]");
    let options = Options::default();
    let rules = brolga_driver::second::rules(&file.program, &call, &options);
    let found = brolga_driver::second::hessian(&rules, &call, None, &mut |_, _| ()).unwrap();
    assert_eq!(found.gradient, [1.0, 0.0, 12.0]);
    assert_eq!(found.entries, [[0.0; 3], [0.0; 3], [0.0, 0.0, 6.0]]);
    let (call, _) = bind(&file, "%swapped([1, 0.5], [2, 1.5])");
    let rule =
        |mode, width| DerivedRule::new(&file.program, &call.request(), &Options { mode, width, ..Options::default() });
    for way in [Sweep::Forward, Sweep::Reverse] {
        let found = jacobian(&rule, &call, &[0, 1], Some(way), None, &mut |_, _| ()).unwrap();
        assert_eq!(found.entries, [[0.0; 4], [0.0, 1.0, 0.0, 1.0], [0.0; 4], [0.0, 0.0, 0.0, 1.0]], "{way:?}");
    }
}

#[test]
fn regions_decide_what_is_checked() {
    let text = |check: &str| {
        format!(
            "fn f(x: f64, y: in f64) {{\n    let t: f64 = 0\n    t += y\n    t -= 0.1\n    t -= 0.2\n    x += 1.0\n    check {check} {{\n        let u: f64 = 0\n        u += t\n        drop u = 0\n    }}\n    t += 0.2\n    t += 0.1\n    t -= y\n    drop t = 0\n}}"
        )
    };
    // 0.3 - 0.1 - 0.2 is a rounding of zero.
    let run = |check: &str| {
        let file = parse(&text(check));
        let (call, _) = bind(&file, "%f([1.0], [0.3])");
        run::primal(&file.program, &call).map(|_| ()).map_err(|e| match e {
            Error::Trap(t) => (t.code.clone(), t.line),
            e => panic!("{e}"),
        })
    };
    assert_eq!(run("1e-8"), Ok(()));
    assert_eq!(run("off"), Ok(()));
    assert_eq!(run("bits"), Err(("dealloc_mismatch".to_owned(), Some(10))));
    assert_eq!(run("1e-30"), Err(("dealloc_mismatch".to_owned(), Some(10))));
}

#[test]
fn the_planets_have_the_numbers_of_an_implementation_by_hand() {
    let file = files().into_iter().find(|f| f.name.ends_with("physics.rev")).unwrap();
    let text = file.text.lines().find_map(|l| l.strip_prefix("; call: %orbit")).unwrap().to_owned();
    let of = |n: u32, check| {
        let (call, _) = bind(&file, &format!("%orbit{}", text.replace(", 16) ", &format!(", {n}) "))));
        gradient(&file, &call, Mode::Combined, check).unwrap()
    };
    let numbers = |found: &Outcome, arg: usize, range: std::ops::Range<usize>| -> Vec<f64> {
        let all = found.gradient[arg].as_ref().unwrap().nums();
        all[range].iter().map(|n| n.as_f64()).collect()
    };
    let close = |found: &[f64], by_hand: &[f64], tolerance: f64| {
        for (a, b) in found.iter().zip(by_hand) {
            assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{found:?} {by_hand:?}");
        }
    };
    let loss = |found: &Outcome| found.buffers[0].as_ref().unwrap()[0].as_f64();
    for check in [InverseCheck::Off, InverseCheck::Within(1e-8.into()), InverseCheck::Record] {
        let short = of(16, check);
        close(&[loss(&short)], &[1.2979896598412288], 1e-12);
        close(&numbers(&short, 1, 3..6), &[-2.094625151952853, -0.8280042917488499, 0.1309626773707653], 1e-12);
        close(&numbers(&short, 2, 3..6), &[-0.005834807085317289, 0.12106336659710366, 0.012349042122633429], 1e-12);
        close(&numbers(&short, 3, 0..1), &[-1.5386064998199112], 1e-12);
    }
    // Roundings of a thousand steps are amplified by the orbits, and undone with those of others.
    let long = of(1024, InverseCheck::Off);
    close(&[loss(&long)], &[0.16726395321043513], 1e-9);
    close(&numbers(&long, 1, 3..6), &[-50.451806701491215, 241.03205843580656, 24.242460486414828], 1e-8);
    assert_eq!(long.tape_bytes, 0);
}

#[test]
fn floats_of_both_widths_are_compared_each_by_its_own() {
    let apart = "fn f(x: f64, y: f32, a: in f64, b: in f32) {\n    x += a\n    y += b\n}";
    let run = |a: f64, b: f64| {
        let file = parse(apart);
        let text = format!("%f([0.1], f32[0.1], [{a:?}], f32[{b:?}]) shadow 0=[1.0] shadow 1=[1.0]");
        let (call, _) = bind(&file, &text);
        match gradient(&file, &call, Mode::Combined, InverseCheck::Declared) {
            Ok(found) => Ok(floats(&found)),
            Err(e @ Error::Trap(_)) => Err(e.to_string()),
            Err(e) => panic!("{e}"),
        }
    };
    assert_eq!(run(1.0, 1.0), Ok(vec![1.0; 4]));
    assert_eq!(run(1e5, 100.0), Ok(vec![1.0; 4]));
    // What is added leaves few digits.
    for (a, b, at) in [(1e5, 1e5, "byte 8"), (1e12, 1.0, "byte 0")] {
        let said = run(a, b).unwrap_err();
        assert!(said.contains(at) && said.contains("tolerance"), "{said}");
    }
    // Both in one place: a double, and two singles after it, 0.25 and 1.5.
    let file =
        parse("record P { a: f64, b: f32, c: f32 }\nfn g(p: P) {\n    p.a += 0.25\n    p.b += 0.5\n    p.c += p.b\n}");
    let (call, _) = bind(&file, "%g(f64[0.1, 0x1.000003e8p-3])");
    assert!(gradient(&file, &call, Mode::Combined, InverseCheck::Declared).is_ok());
}
