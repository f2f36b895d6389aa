//! Derivatives that are derived again.
//!
//! A derived function is a function of a program like any other. Its gradient is checked against
//! closed forms, against the second derivatives of the oracle of the *primal*
//! ([`Oracle::hessian_vector`]), and by forward mode; never by an oracle that runs on derived text
//! alone.
//!
//! The ratchet ([`census`]): every function of `cases` is derived twice. What is refused is counted
//! by code, and may only become less; no number is wrong.

use std::collections::{BTreeMap, BTreeSet};

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir::{self, types};
use brolga::jit::host_isa;
use brolga::{Arg, ArgActivity, DerivedRule, Effort, Error, FuncKey, Mode, Options, Program, Request};
use brolga_driver::{BoundArg, Directive, File, Invocation, guess};
use brolga_oracle::{Oracle, OracleArg, Tangent};

fn options(effort: Effort, mode: Mode) -> Options {
    Options { mode, effort, ..Options::full() }.settled()
}

/// A program in which the gradient of a request is a function, and which that is.
fn with_gradient(program: &Program, request: &Request, options: &Options) -> Result<(Program, FuncKey), Error> {
    let isa = host_isa(options)?;
    let found = brolga_transform::derive(program, request, options, &*isa).map_err(Error::Diagnostics)?;
    let mut out = found.program.clone();
    let taken = |symbol: String| Error::Usage(format!("the name {symbol} is taken"));
    let mut put = |symbol: &str, func: &ir::Function| out.define(symbol, func.clone(), |_| 0).map_err(taken);
    for p in &found.pairs {
        put(&p.forward_symbol, &p.forward)?;
        put(&p.pullback_symbol, &p.pullback)?;
    }
    for w in &found.joint {
        put(&w.symbol, &w.func)?;
    }
    let whole = found.combined.as_ref().expect("a combined function");
    let key = put(&whole.symbol, &whole.func)?;
    Ok((out, key))
}

fn gradient_of(text: &str, symbol: &str, effort: Effort) -> (Program, FuncKey) {
    let file = File::parse("text.clif", text.to_owned()).unwrap_or_else(|e| panic!("{e:?}"));
    let request = guess::request(&file.program, file.program.func(symbol).expect("it is there"));
    with_gradient(&file.program, &request, &options(effort, Mode::Combined)).unwrap_or_else(|e| panic!("{symbol}: {e}"))
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
        // (x, segment, seed) -> (value, cotangent): at x = 1 the inner cotangent is zero.
        for (x, seed) in [(1.0, 1.0), (1.0, 0.0), (2.5, 1.0), (2.5, 0.0)] {
            let found = slopes(&program, g, &[f64v(x), DataValue::I64(0), f64v(seed)], 1, effort);
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
            let combined = options(effort, Mode::Combined);
            let (second, h) =
                with_gradient(&first, &floats_active(&first, g), &combined).unwrap_or_else(|e| panic!("{e}"));
            // Arguments: x, segment, seed, segment, two seeds. Results: f, f', f'' and more.
            let args = [f64v(x), DataValue::I64(0), f64v(1.0), DataValue::I64(0), f64v(0.0), f64v(1.0)];
            let found = slopes(&second, h, &args, 2, effort);
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
        let args = [f64v(2.0), f64v(0.0), DataValue::I64(0), f64v(1.0)];
        assert!(close(slopes(&program, g, &args, 1, effort)[1], 0.5));
        assert!(close(slopes(&program, g, &args, 2, effort)[0], 0.5));
        assert!(close(slopes(&program, g, &args, 2, effort)[1], 2f64.ln().powi(2)));
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
        let args = [f64v(0.0), DataValue::I32(1), DataValue::I64(0), f64v(1.0)];
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

/// What became of the functions of `cases`.
#[derive(Default)]
struct Tally {
    derived: usize,
    refused: usize,
    /// By codes.
    causes: BTreeMap<String, (usize, String)>,
    /// Second derivatives that were compared, those that are wrong, and those that are no numbers
    /// where the oracle has one.
    compared: usize,
    wrong: Vec<String>,
    poles: Vec<String>,
}

/// So many may be refused, with little and with full effort: it only falls.
const REFUSED: [usize; 2] = [347, 243];

/// So many second derivatives may be infinite or NaN where the oracle has a number: at kinks and
/// poles of the first derivative, where there is none.
const POLES: usize = 7;

#[test]
fn census() {
    for (effort, most) in EFFORTS.into_iter().zip(REFUSED) {
        let mut tally = Tally::default();
        for path in ir_tests::cases::files(std::path::Path::new(env!("CARGO_MANIFEST_DIR"))) {
            if path.components().any(|c| matches!(c.as_os_str().to_str(), Some("errors" | "real"))) {
                continue;
            }
            let file = File::read(&path).expect("it is read");
            for (key, f) in file.program.funcs.iter().filter(|(_, f)| f.body.is_some()) {
                let name = format!("{}/%{}", path.file_stem().expect("a name").display(), f.symbol);
                count(&mut tally, &file, key, &name, effort);
            }
        }
        println!("{effort:?}: {} derived, {} of them refused a second time", tally.derived, tally.refused);
        for (codes, (n, first)) in &tally.causes {
            println!("  {n:4} {codes} ({first})");
        }
        println!("  {} second derivatives compared, {} wrong", tally.compared, tally.wrong.len());
        tally.poles.iter().for_each(|p| println!("  at a pole: {p}"));
        assert!(tally.wrong.is_empty(), "{:#?}", tally.wrong);
        assert!(tally.poles.len() <= POLES, "{effort:?}: {} at poles, not {POLES} at most", tally.poles.len());
        assert!(tally.refused <= most, "{effort:?}: {} refused, not {most} at most", tally.refused);
        assert!(tally.compared > 300, "{}", tally.compared);
    }
}

fn count(tally: &mut Tally, file: &File, key: FuncKey, name: &str, effort: Effort) {
    let combined = options(effort, Mode::Combined);
    // A name that is taken at first belongs to a file that asks for it.
    let Ok((program, gradient)) = with_gradient(&file.program, &guess::request(&file.program, key), &combined) else {
        return;
    };
    tally.derived += 1;
    let again = with_gradient(&program, &guess::request(&program, gradient), &combined);
    let cause = match &again {
        Ok(_) => None,
        Err(Error::Diagnostics(all)) => {
            let codes: BTreeSet<&str> = all.0.iter().map(|d| d.code).collect();
            Some(codes.into_iter().collect::<Vec<_>>().join(" "))
        }
        Err(Error::Usage(_)) => Some("a name is taken".to_owned()),
        Err(e) => panic!("{name}: {e}"),
    };
    if let Some(cause) = cause {
        tally.refused += 1;
        tally.causes.entry(cause).or_insert_with(|| (0, name.to_owned())).0 += 1;
        return;
    }
    let calls = file.directives.iter().filter_map(|d| {
        let Directive::Grad(line) = d else { return None };
        Invocation::bind(&file.program, &line.text, &line.call, &line.clauses).ok()
    });
    for call in calls.filter(|c| c.func == key).take(3) {
        compare(tally, file, &call, (&program, gradient), name, effort);
    }
}

/// Second derivatives along a direction, against the oracle of the primal.
fn compare(tally: &mut Tally, file: &File, call: &Invocation, of: (&Program, FuncKey), name: &str, effort: Effort) {
    let (program, gradient) = of;
    let scalar = |ty: &ir::Type| matches!(*ty, types::F64 | types::I64 | types::I32 | types::I16 | types::I8);
    let body = program.funcs[gradient].body.as_ref().expect("it is defined");
    let uses_segment = body.display().to_string().contains("region0 v")
        || body.dfg.ext_funcs.values().any(|f| {
            let name = brolga_ir::program::symbol_of(body, &f.name);
            name.contains("__") || name.starts_with("brolga_")
        });
    let values: Option<Vec<DataValue>> =
        call.args.iter().map(|a| if let BoundArg::Value(v) = a { Some(v.clone()) } else { None }).collect();
    let Some(values) = values.filter(|_| !uses_segment && call.params.iter().chain(&call.returns).all(scalar)) else {
        return;
    };
    let is_active = |i: usize| call.params[i] == types::F64;
    if call.specs.iter().enumerate().any(|(i, s)| (s.activity == ArgActivity::Active) != is_active(i)) {
        return;
    }
    let Ok(rule) = DerivedRule::new(program, &floats_active(program, gradient), &options(effort, Mode::Combined))
    else {
        return;
    };
    let direction: Vec<f64> =
        (0..values.len()).map(|i| if is_active(i) { 1.0 + 0.25 * i as f64 } else { 0.0 }).collect();
    let floats = |tys: &[ir::Type]| tys.iter().filter(|t| t.is_float()).count();
    let mut args = values.clone();
    args.push(DataValue::I64(0));
    args.extend(call.seeds.iter().filter(|s| s.ty().is_float()).cloned());
    if args.len() != program.funcs[gradient].signature.params.len() {
        return;
    }
    let mut seeds: Vec<DataValue> = call.returns.iter().map(|&ty| value(ty, 0.0)).collect();
    seeds.extend(direction.iter().enumerate().filter(|&(i, _)| is_active(i)).map(|(_, &d)| f64v(d)));
    let (mut results, mut found) = (Vec::new(), Vec::new());
    let given: Vec<Arg> = args.iter().cloned().map(Arg::new).collect();
    // SAFETY: no pointers are involved: the segment is not used.
    if unsafe { rule.gradient(&given, &seeds, &mut results, &mut found) }.is_err() {
        return;
    }
    let active = |(i, v): (usize, &DataValue)| {
        if is_active(i) { OracleArg::active(v.clone()) } else { OracleArg::constant(v.clone()) }
    };
    let oracle_args: Vec<OracleArg> = values.iter().enumerate().map(active).collect();
    let tangents: Vec<Tangent> = direction
        .iter()
        .enumerate()
        .map(|(i, &d)| if is_active(i) { Tangent::Lanes(vec![d]) } else { Tangent::Zero })
        .collect();
    // SAFETY: as above.
    let Ok(h) = (unsafe { Oracle::new(&file.program).hessian_vector(call.func, &oracle_args, &tangents, &call.seeds) })
    else {
        return;
    };
    assert_eq!(found.iter().flatten().count(), floats(&call.params) + floats(&call.returns), "{name}");
    for i in (0..values.len()).filter(|&i| is_active(i)) {
        let is = number(found[i].as_ref().expect("it is active"));
        let wanted = h.along.arg_lanes[i].as_ref().expect("it is active")[0];
        tally.compared += 1;
        // Differences of singles are no better than those.
        let single =
            file.program.funcs[call.func].body.as_ref().is_some_and(|f| f.display().to_string().contains("f32"));
        let scale = is.abs().max(wanted.abs()).max(1.0);
        let same = (is - wanted).abs() <= if single { 1e-5 } else { 1e-9 } * scale;
        if wanted.is_finite() && !same {
            let found = format!("{name} {:?}: argument {i}: {is}, not {wanted}", call.args);
            if is.is_finite() { tally.wrong.push(found) } else { tally.poles.push(found) }
        }
    }
}
