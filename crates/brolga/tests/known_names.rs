//! Each name of `docs/RULES.md` is linked and runs: as the primal, and in a gradient.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::fmt::Write;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Error, Options, Primal, Program, Request};
use brolga_rules::{MathKind, MathRule, MemFn, Ty, math_rules};
use brolga_testing::program;

/// A function of two doubles that calls one of C's: floats are the parameters, pointers a place in
/// a slot of its own, which is zero, or a block for those that release it. Its result is what comes
/// back as floats, and what lies behind the pointers.
fn caller(rule: &MathRule) -> String {
    let ty = |t: &Ty| match t {
        Ty::F64 => "f64",
        Ty::F32 => "f32",
        Ty::I32 => "i32",
        Ty::I64 | Ty::Ptr | Ty::Size => "i64",
    };
    let list = |ts: &[Ty]| ts.iter().map(ty).collect::<Vec<_>>().join(", ");
    let rets = if rule.rets.is_empty() { String::new() } else { format!(" -> {}", list(&rule.rets)) };
    let mut text = format!(
        "function %f(f64, f64) -> f64 {{
    ss0 = explicit_slot 64
    fn0 = %{}({}){rets}
    fn1 = %malloc(i64) -> i64
block0(v0: f64, v1: f64):
    v2 = fdemote.f32 v0
    v3 = fdemote.f32 v1
    v4 = iconst.i32 2
    v5 = iconst.i64 2
    v6 = iconst.i64 0
    v7 = stack_addr.i64 ss0
    store v6, v7
    store v6, v7+8
    store v6, v7+16
    v8 = iadd v7, v5
    v9 = iadd v8, v5
    v10 = iadd v9, v9
    v11 = call fn1(v5)
    v12 = iconst.i64 8
    v13 = iadd v7, v12
",
        rule.symbol,
        list(&rule.params)
    );
    let takes_block = matches!(rule.kind, MathKind::Memory(MemFn::Free | MemFn::FreeAtEnd | MemFn::Realloc));
    let (mut floats, mut places) = (0, 0);
    let args: Vec<&str> = rule
        .params
        .iter()
        .map(|t| match t {
            Ty::F64 | Ty::F32 => {
                floats += 1;
                match (t, floats) {
                    (Ty::F64, 1) => "v0",
                    (Ty::F64, 2) => "v1",
                    (Ty::F64, _) => "v0",
                    (_, 2) => "v3",
                    _ => "v2",
                }
            }
            Ty::I32 => "v4",
            Ty::I64 => "v5",
            Ty::Size => "v12",
            Ty::Ptr if takes_block => "v11",
            Ty::Ptr => {
                places += 1;
                if places == 1 { "v7" } else { "v13" }
            }
        })
        .collect();
    let call = format!("call fn0({})", args.join(", "));
    let mut sum = "v14".to_owned();
    let _ = match rule.rets.first() {
        None => writeln!(text, "    {call}\n    v14 = f64const 0.0"),
        Some(Ty::F64) => writeln!(text, "    v14 = {call}"),
        Some(Ty::F32) => writeln!(text, "    v20 = {call}\n    v14 = fpromote.f64 v20"),
        Some(Ty::I32) => writeln!(text, "    v20 = {call}\n    v14 = fcvt_from_sint.f64 v20"),
        // An address is no number that two calls agree on.
        Some(_) if takes_block || rule.params.is_empty() || matches!(rule.kind, MathKind::Memory(_)) => {
            writeln!(text, "    v20 = {call}\n    v14 = f64const 0.0")
        }
        Some(_) => writeln!(text, "    v20 = {call}\n    v14 = fcvt_from_sint.f64 v20"),
    };
    if let MathKind::Writes(_, outs) = rule.kind {
        for (n, out) in outs.iter().enumerate() {
            let (at, v) = (if n == 0 { "v7" } else { "v13" }, 30 + 3 * n);
            let _ = match out.ty {
                Ty::F64 => writeln!(text, "    v{} = load.f64 {at}", v + 1),
                Ty::F32 => writeln!(text, "    v{v} = load.f32 {at}\n    v{} = fpromote.f64 v{v}", v + 1),
                _ => writeln!(text, "    v{v} = load.i32 {at}\n    v{} = fcvt_from_sint.f64 v{v}", v + 1),
            };
            let _ = writeln!(text, "    v{} = fadd {sum}, v{}", v + 2, v + 1);
            sum = format!("v{}", v + 2);
        }
    }
    let _ = writeln!(text, "    return {sum}\n}}");
    text
}

fn float(x: f64) -> DataValue {
    DataValue::F64(x.into())
}

fn number(v: &DataValue) -> f64 {
    let DataValue::F64(x) = v else { panic!("{v:?} is no f64") };
    x.as_f64()
}

/// Value and gradient.
fn gradient(p: &Program, x: f64, y: f64) -> Result<(f64, [f64; 2]), Error> {
    let request = Request::new(p.func("f").expect("it is there"), [ArgActivity::Active; 2]);
    let rule = DerivedRule::new(p, &request, &Options::full())?;
    let (mut values, mut cotangents) = (Vec::new(), Vec::new());
    let args = [x, y].map(|x| Arg::new(float(x)));
    // SAFETY: no pointers are passed.
    drop(unsafe { rule.gradient(&args, &[float(1.0)], &mut values, &mut cotangents) }?);
    let slope = |i: usize| number(cotangents[i].as_ref().expect("it is active"));
    Ok((number(&values[0]), [slope(0), slope(1)]))
}

#[test]
fn each_name_runs_and_has_the_slope_of_its_value() {
    for rule in math_rules().filter(|r| !matches!(&*r.symbol, "abort" | "exit")) {
        let name = &*rule.symbol;
        let p = program(&caller(rule));
        let f = p.func("f").expect("it is there");
        let primal = Primal::new(&p, &[f], &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let value = |x: f64, y: f64| {
            // SAFETY: no pointers are passed.
            number(&unsafe { primal.call(f, &[float(x), float(y)]) }.unwrap_or_else(|e| panic!("{name}: {e}"))[0])
        };
        // In the domain of all of them but one, which begins at 1.
        let (x, y) = if value(0.7, 0.4).is_nan() { (1.7, 0.4) } else { (0.7, 0.4) };
        // What copies has to know what it moves, and has cases of its own (`memory/libc.clif`).
        if matches!(rule.kind, MathKind::Memory(MemFn::Memcpy | MemFn::Memmove)) {
            continue;
        }
        let (found, slopes) = gradient(&p, x, y).unwrap_or_else(|e| panic!("{name}: {e}"));
        // The order of a polygamma is whole (`gamma.rs` of the run time).
        if name == "rand" || name.starts_with("brolga_polygamma") {
            continue;
        }
        assert_eq!(found.to_bits(), value(x, y).to_bits(), "{name}");
        assert!(found.is_finite(), "{name}: {found}");
        // What has a value that is not its own has another's slope.
        if name.starts_with("brolga_with_value") {
            continue;
        }
        let single = rule.params.contains(&Ty::F32);
        let (h, tolerance) = if single { (1e-2, 2e-2) } else { (1e-5, 1e-6) };
        let steps = [(value(x + h, y) - value(x - h, y)) / (2.0 * h), (value(x, y + h) - value(x, y - h)) / (2.0 * h)];
        for (slope, step) in slopes.into_iter().zip(steps) {
            assert!((slope - step).abs() <= tolerance * (1.0 + step.abs()), "{name}: {slope} is not {step}");
        }
    }
}

/// What ends a program is a trap of the call, and the process goes on.
#[test]
fn names_that_do_not_come_back_trap() {
    for rule in math_rules().filter(|r| matches!(&*r.symbol, "abort" | "exit")) {
        let p = program(&caller(rule));
        let f = p.func("f").expect("it is there");
        let primal = Primal::new(&p, &[f], &Options::default()).unwrap_or_else(|e| panic!("{}: {e}", rule.symbol));
        // SAFETY: no pointers are passed.
        let found = [unsafe { primal.call(f, &[float(0.7), float(0.4)]) }.err(), gradient(&p, 0.7, 0.4).err()];
        for e in found {
            let Some(Error::Trap(t)) = e else { panic!("{}: {e:?}", rule.symbol) };
            assert_eq!((t.code.as_str(), t.inst_text.is_some()), ("ended", true), "{t}");
        }
    }
}

/// Null pointers to functions that read or write through them.
#[test]
fn bad_pointers_are_traps() {
    for rule in math_rules().filter(|r| r.params.contains(&Ty::Ptr)) {
        let name = &*rule.symbol;
        // Standard output belongs to C's library, which reads what it is given where no fault is
        // expected.
        if matches!(name, "free" | "brolga_free_at_end" | "realloc" | "puts") {
            continue;
        }
        let text = caller(rule).replace("v7 = stack_addr.i64 ss0", "v40 = stack_addr.i64 ss0\n    v7 = iconst.i64 24");
        let text = text.replace("store v6, v7", "store v6, v40");
        let p = program(&text);
        let f = p.func("f").expect("it is there");
        let primal = Primal::new(&p, &[f], &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        // SAFETY: no pointers are passed; what the function makes of one is a fault, which is the
        // point.
        let e = unsafe { primal.call(f, &[float(0.7), float(0.4)]) };
        let Err(Error::Trap(t)) = e else { panic!("{name}: {e:?}") };
        assert!(t.code == "heap_oob" && t.message.starts_with("memory at address 0x"), "{name}: {t}");
    }
}
