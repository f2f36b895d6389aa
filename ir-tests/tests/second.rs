//! Derivatives that are derived again.
//!
//! A derived function is a function of a program like any other. Its gradient is checked against
//! closed forms, against the second derivatives of the oracle of the *primal*
//! ([`Oracle::hessian_vector`]), and by forward mode; never by an oracle that runs on derived text
//! alone.
//!
//! The ratchet ([`census`], `cargo xtask census`): every function of `cases` is derived twice. What
//! is refused is counted by code, and may only become less. (Numbers are compared in
//! `compositions.rs`.)

use std::collections::{BTreeMap, BTreeSet};

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir::{self, types};
use brolga::jit::host_isa;
use brolga::{
    Arg, ArgActivity, ArgSpec, DerivedRule, Effort, Elem, Error, FuncKey, Mode, Options, Program, Promises, Request,
};
use brolga_driver::{File, guess};
use brolga_transform::nested::{self, NestedDerivative, NestedParam};

fn options(effort: Effort, mode: Mode) -> Options {
    Options { mode, effort, ..Options::full() }.settled()
}

/// The gradient of a request as a function of a program.
fn with_gradient(program: &Program, request: &Request, effort: Effort) -> Result<NestedDerivative, Error> {
    let options = options(effort, Mode::Combined);
    let isa = host_isa(&options)?;
    nested::gradient(program, request, &options, &*isa).map_err(Error::Diagnostics)
}

/// A request for the derivative of that function: what is active or duplicated is so again, and
/// seeds are active.
fn forward_request(request: &Request, nested: &NestedDerivative) -> Request {
    let args = nested.params.iter().map(|role| match *role {
        NestedParam::Primal(i) | NestedParam::Shadow(i) => ArgSpec { promises: Promises::default(), ..request.args[i] },
        NestedParam::Seed(_) | NestedParam::Direction(_) => ArgSpec::ACTIVE,
        NestedParam::Workspace => ArgSpec::duplicated(Elem::Pointer),
    });
    Request::new(nested.func, args)
}

fn gradient_of(text: &str, symbol: &str, effort: Effort) -> (Program, FuncKey) {
    let file = File::parse("text.clif", text.to_owned()).unwrap_or_else(|e| panic!("{e:?}"));
    let request = guess::request(&file.program, file.program.func(symbol).expect("it is there"));
    let nested = with_gradient(&file.program, &request, effort).unwrap_or_else(|e| panic!("{symbol}: {e}"));
    (nested.program, nested.func)
}

fn f64v(x: f64) -> DataValue {
    DataValue::F64(x.into())
}

fn number(v: &DataValue) -> f64 {
    match v {
        DataValue::F64(x) => x.as_f64(),
        DataValue::F32(x) => x.as_f32().into(),
        _ => panic!("a float"),
    }
}

/// A number as a value of a type.
fn value(ty: ir::Type, x: f64) -> DataValue {
    match ty {
        types::F32 => DataValue::F32((x as f32).into()),
        types::F64 => f64v(x),
        types::F64X2 => DataValue::V128([x, x].map(f64::to_le_bytes).concat().try_into().expect("sixteen bytes")),
        types::F32X4 => {
            DataValue::V128([x as f32; 4].map(f32::to_le_bytes).concat().try_into().expect("sixteen bytes"))
        }
        types::I64 => DataValue::I64(x as i64),
        types::I32 => DataValue::I32(x as i32),
        types::I16 => DataValue::I16(x as i16),
        _ => DataValue::I8(x as i8),
    }
}

/// What is active by value.
fn floats_active(program: &Program, func: FuncKey) -> Request {
    let params = &program.funcs[func].signature.params;
    let active = |ty: ir::Type| if ty.lane_type().is_float() { ArgActivity::Active } else { ArgActivity::Const };
    Request::new(func, params.iter().map(|p| active(p.value_type)))
}

/// The gradient of one result of a function of floats, in all of its arguments; those that are no
/// float are absent. Forward mode must say the same.
fn slopes(program: &Program, func: FuncKey, args: &[DataValue], result: usize, effort: Effort) -> Vec<f64> {
    let request = floats_active(program, func);
    let rule = DerivedRule::new(program, &request, &options(effort, Mode::Combined)).unwrap_or_else(|e| panic!("{e}"));
    let (mut values, mut cotangents) = (Vec::new(), Vec::new());
    let returns = &program.funcs[func].signature.returns;
    let seeds: Vec<DataValue> =
        returns.iter().enumerate().map(|(i, r)| value(r.value_type, f64::from(u8::from(i == result)))).collect();
    let given: Vec<Arg> = args.iter().cloned().map(Arg::new).collect();
    // SAFETY: no pointer is dereferenced.
    drop(unsafe { rule.gradient(&given, &seeds, &mut values, &mut cotangents) }.unwrap_or_else(|e| panic!("{e}")));
    let found: Vec<Option<f64>> = cotangents.iter().map(|c| c.as_ref().map(number)).collect();
    let ahead = DerivedRule::new(program, &request, &options(effort, Mode::Tangent)).unwrap_or_else(|e| panic!("{e}"));
    for (i, wanted) in found.iter().enumerate().filter_map(|(i, x)| Some((i, (*x)?))) {
        let direction =
            |k: usize| value(program.funcs[func].signature.params[k].value_type, f64::from(u8::from(k == i)));
        let directions: Vec<Option<DataValue>> = (0..args.len()).map(|k| found[k].map(|_| direction(k))).collect();
        let (mut values, mut tangents) = (Vec::new(), Vec::new());
        // SAFETY: as above.
        drop(
            unsafe { ahead.tangent(&given, &directions, &mut values, &mut tangents) }.unwrap_or_else(|e| panic!("{e}")),
        );
        let by = tangents[result].as_ref().map_or(0.0, number);
        assert!(close(by, wanted), "forward mode says {by}, reverse mode {wanted} of argument {i}");
    }
    found.into_iter().flatten().collect()
}

fn close(x: f64, y: f64) -> bool {
    x == y || (x - y).abs() <= 1e-12 * x.abs().max(y.abs()).max(1.0)
}

const EFFORTS: [Effort; 2] = [Effort::Quick, Effort::Full];

fn unary(name: &str, body: &str) -> String {
    format!(
        "function %{name}(f64) -> f64 system_v {{
            fn0 = %log(f64) -> f64 system_v
            fn1 = %sin(f64) -> f64 system_v
            fn2 = %lgamma(f64) -> f64 system_v
            fn3 = %pow(f64, f64) -> f64 system_v
        block0(v0: f64):
            {body}
        }}"
    )
}

#[test]
fn a_logarithm_squared_is_convex_at_one() {
    let text = unary("f", "v1 = call fn0(v0)\n v2 = fmul v1, v1\n return v2");
    for effort in EFFORTS {
        let (program, g) = gradient_of(&text, "f", effort);
        // (x, seed) -> (value, cotangent): at x = 1 the inner cotangent is zero.
        for (x, seed) in [(1.0, 1.0), (1.0, 0.0), (2.5, 1.0), (2.5, 0.0)] {
            let found = slopes(&program, g, &[f64v(x), f64v(seed)], 1, effort);
            let wanted = [seed * (2.0 - 2.0 * x.ln()) / (x * x), 2.0 * x.ln() / x];
            assert!(close(found[0], wanted[0]) && close(found[1], wanted[1]), "{x} {seed}: {found:?} {wanted:?}");
        }
    }
}

#[test]
fn third_derivatives() {
    let cube = "v1 = fmul v0, v0\n v2 = fmul v1, v0\n return v2";
    let sine = "v1 = fmul v0, v0\n v2 = fmul v1, v1\n v3 = call fn1(v2)\n return v3";
    let power = "v1 = f64const 0x1.4p2\n v2 = call fn3(v0, v1)\n return v2";
    let gamma = "v1 = call fn2(v0)\n return v1";
    let of_sine = |x: f64| {
        let (s, c) = (x.powi(4).sin(), x.powi(4).cos());
        24.0 * x * c - 144.0 * x.powi(5) * s - 64.0 * x.powi(9) * c
    };
    const ZETA3: f64 = 1.2020569031595942;
    for (body, x, wanted) in [
        (cube, 2.0, 6.0),
        (cube, 0.0, 6.0),
        (sine, 0.7, of_sine(0.7)),
        (power, 1.5, 60.0 * 1.5f64.powi(2)),
        (gamma, 1.0, -2.0 * ZETA3),
    ] {
        for effort in EFFORTS {
            let (first, g) = gradient_of(&unary("f", body), "f", effort);
            let nested = with_gradient(&first, &floats_active(&first, g), effort).unwrap_or_else(|e| panic!("{e}"));
            // Arguments: x, seed, two seeds. Results: f, f', f'' and more.
            let args = [f64v(x), f64v(1.0), f64v(0.0), f64v(1.0)];
            let found = slopes(&nested.program, nested.func, &args, 2, effort);
            assert!((found[0] - wanted).abs() <= 1e-11 * wanted.abs(), "{x}: {found:?}, not {wanted}\n{body}");
        }
    }
}

#[test]
fn a_power_at_exponent_zero() {
    let text = "function %f(f64, f64) -> f64 system_v {
            fn0 = %pow(f64, f64) -> f64 system_v
        block0(v0: f64, v1: f64):
            v2 = call fn0(v0, v1)
            return v2
        }";
    for effort in EFFORTS {
        let (program, g) = gradient_of(text, "f", effort);
        let args = [f64v(2.0), f64v(0.0), f64v(1.0)];
        assert!(close(slopes(&program, g, &args, 1, effort)[1], 0.5));
        assert!(close(slopes(&program, g, &args, 2, effort)[0], 0.5));
        assert!(close(slopes(&program, g, &args, 2, effort)[1], 2f64.ln().powi(2)));
    }
}

/// The quotient that `fmod` has subtracted is a whole number, of which rounding leaves no slope.
#[test]
fn a_remainder_has_no_second_derivative() {
    let text = "function %f(f64, f64) -> f64 system_v {
            fn0 = %fmod(f64, f64) -> f64 system_v
            fn1 = %remainder(f64, f64) -> f64 system_v
        block0(v0: f64, v1: f64):
            v2 = call fn0(v0, v1)
            v3 = call fn1(v0, v1)
            v4 = fadd v2, v3
            return v4
        }";
    for effort in EFFORTS {
        let (program, g) = gradient_of(text, "f", effort);
        for (x, y) in [(1e10, 0.3), (7.3, 2.1), (1.0, 0.1)] {
            for of in [1, 2] {
                assert_eq!(slopes(&program, g, &[f64v(x), f64v(y), f64v(1.0)], of, effort)[..2], [0.0, 0.0], "{x} {y}");
            }
        }
    }
}

#[test]
fn what_was_not_chosen_stays_out() {
    // `c ? x : sqrt x`, and a logarithm of it, at 0: the arm that is not chosen has poles.
    let text = "function %f(f64, i32) -> f64 system_v {
            fn0 = %log(f64) -> f64 system_v
        block0(v0: f64, v1: i32):
            v2 = sqrt v0
            v3 = call fn0(v2)
            v4 = fmul v0, v0
            v5 = select v1, v4, v3
            return v5
        }";
    for effort in EFFORTS {
        let (program, g) = gradient_of(text, "f", effort);
        let args = [f64v(0.0), DataValue::I32(1), f64v(1.0)];
        assert_eq!(slopes(&program, g, &args, 1, effort), [2.0, 0.0]);
    }
}

#[test]
fn a_branch_of_a_users_stays_one() {
    // x ≠ 0 ? x log x : 0, whose factor is computed from x; and x ≠ 0 ? x·y : 0, whose factor is
    // not.
    let text = "function %entropy(f64) -> f64 system_v {
            fn0 = %log(f64) -> f64 system_v
        block0(v0: f64):
            v1 = f64const 0.0
            v2 = call fn0(v0)
            v3 = fmul v0, v2
            v4 = fcmp ne v0, v1
            v5 = select v4, v3, v1
            return v5
        }
        function %product(f64, f64) -> f64 system_v {
        block0(v0: f64, v1: f64):
            v2 = f64const 0.0
            v3 = fmul v1, v0
            v4 = fcmp ne v0, v2
            v5 = select v4, v3, v2
            return v5
        }";
    let file = File::parse("text.clif", text.to_owned()).expect("it is read");
    let func = |name: &str| file.program.func(name).expect("it is there");
    for effort in EFFORTS {
        assert_eq!(slopes(&file.program, func("entropy"), &[f64v(0.0)], 0, effort), [0.0]);
        assert_eq!(slopes(&file.program, func("product"), &[f64v(0.0), f64v(3.0)], 0, effort), [3.0, 0.0]);
    }
}

#[test]
fn an_inner_cotangent_of_zero_is_a_factor() {
    // h(u), u = c + x·y, and g = h'(u)·(x + y), its slope along (1, 1) by name. Where x + y = 0 the
    // slope of g in x is h'(u), whose own slopes are 2·h''·y in x and h''·(x + y) = 0 in y. The
    // cotangent x + y is a factor that is zero in products which are derived twice.
    let (x, y) = (0.5, -0.5);
    let on_call = |name: &str| (format!("fn0 = %{name}(f64) -> f64"), "v5 = call fn0(v4)".to_owned());
    let none = |body: &str| (String::new(), body.to_owned());
    let slope = |u: f64, power: f64| u * (u * u - 1.0).abs().powf(power);
    let all: [(&str, f64, f64, (String, String)); 7] = [
        ("sqrt", 1.0, -0.25 * 0.75_f64.powf(-1.5), none("v5 = sqrt v4")),
        ("asin", 1.0, slope(0.75, -1.5), on_call("asin")),
        ("acos", 1.0, -slope(0.75, -1.5), on_call("acos")),
        ("acosh", 2.0, -slope(1.75, -1.5), on_call("acosh")),
        ("log", 1.0, -(0.75_f64.powi(-2)), on_call("log")),
        ("1/sqrt", 1.0, 0.75 * 0.75_f64.powf(-2.5), none("v6 = sqrt v4\nv7 = f64const 0x1.0\nv5 = fdiv v7, v6")),
        ("u·sqrt", 1.0, 0.75 * 0.75_f64.powf(-0.5), none("v6 = sqrt v4\nv5 = fmul v4, v6")),
    ];
    for (name, c, second, (declared, body)) in all {
        let text = format!(
            "function %f(f64, f64) -> f64 {{
                {declared}
            block0(v0: f64, v1: f64):
                v2 = f64const 0x{c:.1}
                v3 = fmul v0, v1
                v4 = fadd v2, v3
                {body}
                return v5
            }}
            function %g(f64, f64) -> f64 {{
                fn0 = %f__gradient(f64, f64, f64) -> f64, f64, f64
            block0(v0: f64, v1: f64):
                v2 = f64const 0x1.0
                v3, v4, v5 = call fn0(v0, v1, v2)
                v6 = fadd v4, v5
                return v6
            }}
            function %in_x(f64, f64) -> f64 {{
                fn0 = %g__gradient(f64, f64, f64) -> f64, f64, f64
            block0(v0: f64, v1: f64):
                v2 = f64const 0x1.0
                v3, v4, v5 = call fn0(v0, v1, v2)
                return v4
            }}
            function %in_y(f64, f64) -> f64 {{
                fn0 = %g__gradient(f64, f64, f64) -> f64, f64, f64
            block0(v0: f64, v1: f64):
                v2 = f64const 0x1.0
                v3, v4, v5 = call fn0(v0, v1, v2)
                return v5
            }}"
        );
        let file = File::parse("text.clif", text).expect("it is read");
        for effort in EFFORTS {
            for (row, wanted) in [("in_x", [2.0 * second * y, 0.0]), ("in_y", [0.0, 2.0 * second * x])] {
                let func = file.program.func(row).expect("it is there");
                let found = slopes(&file.program, func, &[f64v(x), f64v(y)], 0, effort);
                let near = found.iter().zip(wanted).all(|(a, b)| close(*a, b));
                assert!(near, "{name}: slopes of {row} are {found:?}, not {wanted:?}");
            }
        }
    }
}

/// A derivative that moves a float in halves needs the account of a run: derived again it has that
/// of the outer derivative, and where it runs as it is there is none.
#[test]
fn the_account_of_a_run() {
    let text = "function %copied(i64, i64) -> f64 system_v {
        block0(v0: i64, v1: i64):
            v2 = load.i32 v0
            v3 = load.i32 v0+4
            store v2, v1
            store v3, v1+4
            v4 = load.f64 v1
            v5 = fmul v4, v4
            return v5
        }
        function %slope(i64, i64, i64, i64) -> f64 system_v {
            fn0 = %copied__tangent(i64, i64, i64, i64) -> f64, f64 system_v
        block0(v0: i64, v1: i64, v2: i64, v3: i64):
            v4, v5 = call fn0(v0, v1, v2, v3)
            return v5
        }
        function %cotangent(i64, i64, i64, i64) -> f64 system_v {
            fn0 = %copied__gradient(i64, i64, i64, i64, f64) -> f64 system_v
        block0(v0: i64, v1: i64, v2: i64, v3: i64):
            v4 = f64const 0x1.0
            v5 = call fn0(v0, v1, v2, v3, v4)
            v6 = load.f64 v1
            return v6
        }";
    let file = File::parse("text.clif", text.to_owned()).expect("it is read");
    let func = |name: &str| file.program.func(name).expect("it is there");
    for effort in EFFORTS {
        let options = options(effort, Mode::Combined);
        let all = Request::new(func("slope"), vec![ArgSpec::duplicated(Elem::F64); 4]);
        let rule = DerivedRule::new(&file.program, &all, &options).expect("a tangent is derived again");
        // d/dx of 2x·u and d/du of it, twice; seeds of the copy and of its tangent are taken.
        for _ in 0..2 {
            let (mut memory, mut shadow) = ([3.0, 0.5, 0.0, 0.0], [10.0, 100.0, 0.25, 0.125]);
            let at = |m: &mut [f64; 4], i: usize| &raw mut m[i] as u64;
            let args: Vec<Arg> = (0..4).map(|i| Arg::duplicated(at(&mut memory, i), at(&mut shadow, i))).collect();
            let (mut values, mut cotangents) = (Vec::new(), Vec::new());
            // SAFETY: each argument is a number of its own.
            unsafe { rule.gradient(&args, &[f64v(1.0)], &mut values, &mut cotangents) }.expect("it runs");
            assert_eq!((number(&values[0]), memory, shadow), (3.0, [3.0, 0.5, 3.0, 0.5], [11.25, 106.125, 0.0, 0.0]));
        }
        let none = Request::new(func("cotangent"), vec![ArgSpec::CONST; 4]);
        let Err(Error::Diagnostics(found)) = DerivedRule::new(&file.program, &none, &options) else {
            panic!("there is no account");
        };
        assert!(found.0.iter().any(|d| d.code == "AD0152"), "{found:?}");
    }
}

/// What became of the functions of `cases`.
#[derive(Default)]
struct Tally {
    derived: usize,
    refused: usize,
    /// By codes.
    causes: BTreeMap<String, Vec<String>>,
}

/// So many may be refused, with little and with full effort: about five in a hundred. It only
/// rises with new cases of floats in pieces, and of integers that may be bits of floats
/// (`unplain/%h_behind`, `chosen`, `moved_bytes`) or pointers.
const REFUSED: [usize; 2] = [85, 83];

#[test]
fn census() {
    for (effort, most) in EFFORTS.into_iter().zip(REFUSED) {
        let mut tally = Tally::default();
        for path in ir_tests::cases::files_but(&["errors", "real"]) {
            let file = File::read(&path).expect("it is read");
            // Not what is made in place of intrinsics, or derivatives by name: they have no
            // requests of their own.
            let derivatives = ["__gradient", "__tangent", "__forward", "__pullback"];
            let is_made =
                |symbol: &str| symbol.starts_with("brolga_") || derivatives.iter().any(|d| symbol.contains(d));
            for (key, f) in file.program.funcs.iter().filter(|(_, f)| f.body.is_some() && !is_made(&f.symbol)) {
                let name = format!("{}/%{}", path.file_stem().expect("a name").display(), f.symbol);
                count(&mut tally, &file, key, &name, effort);
            }
        }
        println!("{effort:?}: {} derived, {} of them refused a second time", tally.derived, tally.refused);
        for (codes, names) in &tally.causes {
            println!("  {:4} {codes}: {}", names.len(), names.join(", "));
        }
        assert!(tally.refused <= most, "{effort:?}: {} refused, not {most} at most", tally.refused);
    }
}

fn count(tally: &mut Tally, file: &File, key: FuncKey, name: &str, effort: Effort) {
    let request = guess::request(&file.program, key);
    let first = with_gradient(&file.program, &request, effort);
    if first.is_err() && DerivedRule::new(&file.program, &request, &options(effort, Mode::Combined)).is_err() {
        return;
    }
    tally.derived += 1;
    let twice =
        first.and_then(|nested| with_gradient(&nested.program, &forward_request(&request, &nested), effort).map(drop));
    if let Err(error) = &twice {
        let Error::Diagnostics(all) = error else { panic!("{name}: {error}") };
        let codes: BTreeSet<&str> = all.0.iter().map(|d| d.code).collect();
        tally.refused += 1;
        let cause = codes.into_iter().collect::<Vec<_>>().join(" ");
        tally.causes.entry(cause).or_default().push(name.to_owned());
    }
}
