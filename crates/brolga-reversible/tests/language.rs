//! The language: what is read is printed, what is inverted twice is what it was, and what cannot be
//! undone is refused, with its line.

use brolga_reversible::ast::{CheckMode, Type};
use brolga_reversible::build::{self, ReversibleBuilder, num};
use brolga_reversible::parse::parse;
use brolga_reversible::{ErrorKind, compile, invert};

const ALL: &str = "record Body { r: [f64 x 3], m: f64 }

fn step(b: Body, q: q43, s: stack [f64 x 8], l: log, z: complex, n: in i64, x: in [f64 x n]) check 1e-6 {
    let t: f64 = 0.5
    let k: i64 = 0
    let a: [f64 x n] = 0
    for i in 0 .. n {
        b.m += x[i] * (x[i] - 1.5) / (2.0 + x[i])
        a[i] -= -x[i]
        inc k
    }
    for i in back 1 .. n - 1 {
        a[i] -= a[i + 1] - (a[i - 1] - 2)
    }
    rotate b.r[0], b.r[1] by t
    unrotate b.r[1], b.r[2] by t
    q += sin(t)
    l *= 2.0
    z += complex(t, 1.0) * z_of(1)
    z.re -= t
    push s, t
    pop s, t
    neg b.m
    if (k > 2 and (not (k == 5 or k == 6)), k > 3) {
        inc k
    } else if n == 9 {
        dec k
    } else {
        k += -(3 + n % 2)
    }
    if k & 3 != 0 {
        swap b.r[0], b.m
    }
    from k == 0 while k < n {
        k += 1
    }
    check off {
        k ^= n << 2
    }
    compute {
        b.m += t
    } copy {
        b.r[0] += b.m
    }
    call step(b, q, s, l, z, n, x)
    uncall step(b, q, s, l, z, n - 1, x)
    drop a = 0
    drop k = 7
    drop t = 0.5
}
";

#[test]
fn what_is_printed_is_what_is_read() {
    let file = parse(ALL).unwrap();
    let again = parse(&file.to_string()).unwrap();
    assert_eq!(again.to_string(), file.to_string());
    assert_eq!(file.to_string(), ALL);
}

#[test]
fn the_inverse_of_the_inverse_is_the_function() {
    let text = ALL
        .replace("z_of(1)", "2.0")
        .replace("drop a = 0", "drop a: [f64 x n] = 0")
        .replace("drop t =", "drop t: f64 =")
        .replace("drop k =", "drop k: i64 =");
    let file = parse(&text).unwrap();
    for f in &file.functions {
        let back = invert::inverse(f);
        assert_ne!(back.to_string(), f.to_string());
        assert_eq!(invert::inverse(&back).to_string(), f.to_string());
        // What is printed of it is read again.
        let records = "record Body { r: [f64 x 3], m: f64 }\n";
        assert_eq!(parse(&format!("{records}{back}")).unwrap().functions[0].to_string(), back.to_string());
    }
}

fn errors(text: &str) -> Vec<(ErrorKind, u32)> {
    let found = compile(text).expect_err("it is refused");
    found.0.iter().map(|e| (e.kind, e.at.line)).collect()
}

/// What is wrong with a statement of a function of some places. All of it has a help.
fn refused(stmt: &str) -> (ErrorKind, u32) {
    let head = "record R { a: f64, b: [f64 x 2] }\nfn g(a: f64, b: f64, n: in i64) { }\n";
    let text = format!(
        "{head}fn f(x: f64, y: f64, a: [f64 x n], k: i64, r: R, c: in f64, s: stack [i64 x 4], l: log, n: in i64) {{\n{stmt}\n}}"
    );
    let found = compile(&text).expect_err(stmt).0;
    assert_eq!(found.len(), 1, "{stmt}: {found:?}");
    assert!(found[0].help.is_some(), "{stmt}: {}", found[0]);
    (found[0].kind, found[0].at.line - 3)
}

#[test]
fn what_is_computed_and_undone_is_not_changed_between() {
    let of = |compute: &str, copy: &str| {
        format!("let t: f64 = 0\ncompute {{\n{compute}\n}} copy {{\n{copy}\n}}\ndrop t = 0")
    };
    for (compute, copy) in [
        ("t += x", "x += t"),
        ("t += x * y", "for i in 0 .. n {\ny -= t\n}"),
        ("t += a[k]", "inc k"),
        ("if x > 0.0 {\nt += 1.0\n}", "x += t"),
        ("for i in 0 .. k {\nt += 1.0\n}", "k += n"),
        ("a[k] += 1.0", "k += 1"),
        ("call g(t, y, k)", "k += 1"),
    ] {
        assert_eq!(
            refused(&of(compute, copy)),
            (ErrorKind::AliasWrite, 5 + compute.matches('\n').count() as u32 + u32::from(copy.contains('\n'))),
            "{copy}"
        );
    }
    // What is changed twice may be what it was, and of indices a run knows.
    let head = "fn g(a: f64, b: f64, n: in i64) { }\n";
    for (compute, copy) in [
        ("t += x", "x += y\na[0] += x\nx -= y"),
        ("t += a[k]", "a[n] += t"),
        ("t += x", "call g(x, y, 1)"),
        ("t += r.b[0]", "r.b[1] += t"),
        ("y += x", "y += 1.0"),
    ] {
        let f = format!(
            "record R {{ a: f64, b: [f64 x 2] }}\n{head}fn f(x: f64, y: f64, a: [f64 x n], k: i64, r: R, n: in i64) {{\n{}\n}}",
            of(compute, copy)
        );
        compile(&f).unwrap_or_else(|e| panic!("{copy}: {e}"));
    }
}

#[test]
fn what_cannot_be_undone_is_refused() {
    use ErrorKind as E;
    for stmt in [
        "x += x * 2.0",
        "a[k] -= a[k]",
        "a[n] += 1.0 + sin(a[n])",
        "rotate x, y by y",
        "rotate x, x by 1.0",
        "k += k",
        "r.b[1] += r.b[1]",
        "call g(x, x, 1)",
        "call g(a[k], a[k], 1)",
        "swap a[k], k",
        "x += 0.0 * x",
    ] {
        let found = if stmt.contains("swap") { E::Type } else { E::AliasWrite };
        assert_eq!(refused(stmt), (found, 1), "{stmt}");
    }
    for stmt in [
        "drop x = 0",
        "drop t = 0",
        "let t: f64 = 0",
        "for i in 0 .. n {\nlet t: f64 = 0\n}",
        "let t: f64 = 0\nif n > 0 {\ndrop t = 0\n}\ndrop t = 0",
    ] {
        assert_eq!(refused(stmt).0, E::Dealloc, "{stmt}");
    }
    assert_eq!(refused("let t: f64 = 0\nif n > 0 {\ndrop t = 0\n}\ndrop t = 0"), (E::Dealloc, 3));
    assert_eq!(refused("for i in 0 .. n {\ni += 1\n}"), (E::IteratorChanged, 2));
    assert_eq!(refused("for i in 0 .. n {\ncall g(x, i, 1)\n}"), (E::IteratorChanged, 2));
    for stmt in ["x += q", "call h(x)", "x += r.z", "let x: f64 = 0", "x += foo(1.0)"] {
        assert_eq!(refused(stmt).0, E::Name, "{stmt}");
    }
    for stmt in [
        "c += 1.0",
        "n += 1",
        "x += k",
        "x ^= 1",
        "x *= 2.0",
        "l += 1.0",
        "swap x, k",
        "let z: log = 0\ndrop z = 1",
        "let z: [log x 2] = 0.0\ndrop z = 1",
        "let z: q43 = 1025\ndrop z = 1",
        "a += 1.0",
        "x[0] += 1.0",
        "r.b[2] += 1.0",
        "push s, x",
        "call g(x, y)",
        "call g(x, 1.0, 1)",
        "if x { }",
        "from k while k > 0 { }",
        "for i in 0.0 .. n { }",
        "let t: [f64 x k] = 0",
        "neg l",
        "x += l",
        "x += 1.0 % 2.0",
        "x += x ^ 2.0",
        "x += float(k ^ s)",
        "x += sqrt(complex(y, 1.0))",
        "if complex(y, 1.0) > complex(x, 1.0) { }",
        "x += hypot(y)",
        "x += select(k > 0, 1, y > 0.0)",
        "k += long(n)",
        "x += re(y)",
        "x += pow(y, k)",
        "k += y",
        "x += y + (k > 0)",
    ] {
        assert_eq!(refused(stmt).0, E::Type, "{stmt}");
    }
    for stmt in
        ["x = 1.0", "x += ", "x + 1.0", "if x > 0.0 y += 1.0", "swap x y", "x += (1.0", "x += 1.0 y += 2.0", "é"]
    {
        let found = errors(&format!("fn f(x: f64, y: f64) {{\n{stmt}\n}}"));
        assert_eq!(found[0].0, E::Syntax, "{stmt}: {found:?}");
    }
}

#[test]
fn what_other_languages_write_has_a_help() {
    for (stmt, help) in [
        ("while x > y {\nx += 1.0\n}", "from c while d"),
        ("return x", "nothing is returned"),
        ("g(x)", "call g(…)"),
        ("x++", "`inc x`"),
        ("x--", "`dec x`"),
        ("x = 1.0", "+="),
        ("let t = y", "let t: f64 = 0"),
        ("let t: f64", "let t: f64 = 0"),
    ] {
        let found = compile(&format!("fn f(x: f64, y: f64)\n{{\n{stmt}\n}}")).expect_err("it is refused");
        let said = found.0[0].help.as_ref().unwrap_or_else(|| panic!("{stmt}: {found}"));
        assert!(said.contains(help) && found.0[0].at.line == 3, "{stmt}: {said}");
    }
    // Of places whose type is not known nothing else is said.
    assert_eq!(errors("fn f(x: float) {\nx += 1.0\n}"), [(ErrorKind::Type, 1)]);
}

#[test]
fn each_function_has_its_errors() {
    let text = "fn f(x: f64) {\n    x = 1.0\n}\n\nfn g(x: f64) {\n    x += 1.0\n}\nfn h(x: f64) {\n    x +\n}";
    assert_eq!(errors(text), [(ErrorKind::Syntax, 2), (ErrorKind::Syntax, 9)]);
    let text = "fn f(x: f64) {\n    x += x\n    x += y\n}\nfn f(x: f64) {\n    x += 1.0\n}";
    assert_eq!(errors(text), [(ErrorKind::AliasWrite, 2), (ErrorKind::Name, 3), (ErrorKind::Name, 5)]);
    let deep = format!("fn f(x: f64) {{\n    x += {}1.0{}\n}}", "(".repeat(1000), ")".repeat(1000));
    assert_eq!(errors(&deep), [(ErrorKind::Syntax, 2)]);
}

#[test]
fn a_builder_makes_what_is_read() {
    let mut f = ReversibleBuilder::new("f");
    f.check(CheckMode::Bits);
    let (x, k) = (f.param("x", Type::F64), f.param("k", Type::I64));
    let n = f.input("n", Type::I64);
    let t = f.make("t", Type::F64, 0);
    f.compute(
        |f| f.add(t.clone(), x.clone() * 0.5),
        |f| {
            f.count("i", 0, n.clone(), |f, i| f.xor(k.clone(), i * 3));
            f.checked(CheckMode::Off, |f| f.sub(k.clone(), 1));
        },
    );
    f.end(&t, 0);
    f.choose(num(0).less(n.clone()), num(1).less(n.clone() + 1), |f| f.add(x.clone(), 1.0), |f| f.negate(k.clone()));
    f.repeat(num(0).equals(k.clone()), num(k.clone()).less(n), |f| f.add(k.clone(), 1));
    let program = build::compile([f]).unwrap();
    let text = program.file.functions[0].to_string();
    assert_eq!(compile(&text).unwrap().file.to_string(), program.file.to_string());
}

#[test]
fn names_are_free() {
    for text in [
        "fn sin(x: f64) { }",
        "fn expf(x: f64) { }",
        "fn malloc(x: f64) { }",
        "fn brolga_f(x: f64) { }",
        "fn f__g(x: f64) { }",
        "fn f(from: f64) { }",
        "fn f(x: f64) {\nlet not: f64 = 0\n}",
        "fn f(x: i64) {\nfor while in 0 .. 3 {\n}\n}",
        "record f64 { a: f32 }\nfn f(x: f64) { }",
    ] {
        let found = compile(text).expect_err("it is refused");
        assert_eq!(found.0[0].kind, ErrorKind::Name, "{text}: {found}");
    }
    // Other words are names where an operator follows.
    compile("fn push(swap: f64, neg: in f64) {\nswap += neg\n}").unwrap();
    for name in ["", "1x", "a b", "x+", "über"] {
        let mut f = ReversibleBuilder::new("f");
        f.param(name, Type::F64);
        assert_eq!(build::compile([f]).is_ok(), name == "über", "{name:?}");
        let mut f = ReversibleBuilder::new(name);
        f.param("x", Type::F64);
        assert_eq!(build::compile([f]).is_ok(), name == "über", "{name:?}");
    }
}

#[test]
fn numbers_and_statements_have_bounds() {
    let one = |stmt: &str| errors(&format!("fn f(x: f64, k: i32) {{\n{stmt}\n}}"));
    assert_eq!(one("x += 1e400"), [(ErrorKind::Syntax, 2)]);
    assert_eq!(one("k += 2147483648"), [(ErrorKind::Type, 2)]);
    assert_eq!(one("x += 99999999999999999999"), [(ErrorKind::Syntax, 2)]);
    compile("fn f(k: i64) {\nk += -9223372036854775808\nk -= - -9223372036854775808\n}").unwrap();
    for stmt in ["x += 9223372036854775808", "x += -9223372036854775809", "x += 1 - 9223372036854775808"] {
        assert_eq!(one(stmt), [(ErrorKind::Syntax, 2)], "{stmt}");
    }
    compile("fn f(k: i32, j: in i32) {\nk += -2147483648\nk ^= min(j, 2147483647)\n}").unwrap();
    assert_eq!(one(&format!("x += 1.0{}", " + 1.0".repeat(100_000))), [(ErrorKind::Syntax, 2)]);
    assert_eq!(one(&format!("{}0", "x[".repeat(100_000))), [(ErrorKind::Syntax, 2)]);
    let big = "record B { a: [f64 x 134217728], b: [f64 x 134217728] }\nfn f(x: f64) { x += 1 }";
    assert_eq!(errors(big), [(ErrorKind::Type, 1)]);
    let doubled = |i: u32| format!("record R{} {{ a: R{i}, b: R{i} }}\n", i + 1);
    let records: String = (0..20).map(doubled).collect();
    let text = format!("record R0 {{ a: f64, b: f64 }}\n{records}fn f(r: R20) {{ inc r.a.a }}");
    assert_eq!(errors(&text)[0], (ErrorKind::Type, 11));
    let params: Vec<String> = (0..200).map(|i| format!("x{i}: f64")).collect();
    assert_eq!(errors(&format!("fn f({}) {{ inc x0 }}", params.join(", "))), [(ErrorKind::Type, 1)]);
    let branch = |i: usize| format!("}} else if k > {i} {{\n");
    let chain: String = (0..10_000).map(branch).collect();
    assert_eq!(one(&format!("if k > 0 {{\n{chain}}}"))[0].0, ErrorKind::Syntax);
    compile(&format!("fn f(x: f64) {{\nx += 1.0{}\n}}", " + 1.0".repeat(500))).unwrap();
}

#[test]
fn a_comment_hides_no_statement() {
    assert_eq!(errors("fn f(x: f64) {\n    x += 1.0; x += 2.0\n}"), [(ErrorKind::Syntax, 2)]);
    assert_eq!(errors("fn f(x: [f64; 3]) {\n    x[0] += 1.0\n}"), [(ErrorKind::Syntax, 1)]);
    compile("\u{feff}; A mark, and a comment.\nfn f(x: f64) { ; another\n    x += 1.0 ; one\n}").unwrap();
}

#[test]
fn a_brace_that_is_not_closed_is_named() {
    let at = |text: &str| {
        let found = compile(text).expect_err("it is refused");
        let e = &found.0[0];
        assert!(e.message.contains("never closed"), "{found}");
        (e.at.line, e.at.column)
    };
    assert_eq!(at("fn f(x: f64) {\n    x += 1.0\n"), (1, 14));
    assert_eq!(
        at("fn f(x: f64) {\n    for i in 0 .. 2 {\n        x += 1.0\n}\n\nfn g(x: f64) {\n    x += 1.0\n}"),
        (1, 14)
    );
    assert_eq!(at("; A comment.\nfn f(x: f64) {\n    if x > 0.0 {\n        x += 1.0\n"), (3, 16));
}

#[test]
fn errors_name_statements_of_a_builder() {
    let mut f = ReversibleBuilder::new("f");
    let x = f.param("x", Type::F64);
    f.add(x.clone(), 1.0);
    f.count("i", 0, 3, |f, _| {
        f.add(x.clone(), 2.0);
        f.add(x.clone(), x.clone() * 2.0);
    });
    let found = build::compile([f]).unwrap_err();
    assert_eq!((found.0[0].kind, found.0[0].at.line), (ErrorKind::AliasWrite, 4));
}
