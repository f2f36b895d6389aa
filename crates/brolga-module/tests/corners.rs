//! Rules and derivatives of derivatives where they meet: by address, in loops, constant in one
//! order and active in the other. Closed forms are the oracles.

use std::thread;

use brolga_module::ParamActivity::{Active, Const, Dual, Duplicated};
use brolga_module::{ParamRole, ResultRole, ReturnActivity, Spec, UserRule};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{InstBuilder, types};
use cranelift_module::{Linkage, Module};

use crate::common::{Fixture, Results, address, double, number};
use crate::programs::{define, f64s};

fn near(is: f64, want: f64) {
    assert!((is - want).abs() <= 1e-12 * want.abs().max(1.0), "{is}, not {want}");
}

fn get(r: &Results, role: ResultRole) -> f64 {
    number(r, role).unwrap_or_else(|| panic!("there is no {role:?}"))
}

fn rule(text: &str) -> UserRule {
    UserRule::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

fn alone(params: impl IntoIterator<Item = brolga_module::ParamActivity>) -> Spec {
    Spec::gradient(params).results([ReturnActivity::ActiveOnly])
}

/// w(p, x) = p₀x + p₁x², p constant; its augmented function keeps p.
const SUM: &str = "function %w(i64, f64) -> f64 {
block0(v0: i64, v1: f64):
    v2 = load.f64 v0
    v3 = load.f64 v0+8
    v4 = fmul v3, v1
    v5 = fadd v2, v4
    v6 = fmul v5, v1
    return v6
}
function %w__augmented(i64, f64) -> f64, i64 {
    fn0 = %malloc(i64) -> i64
    fn1 = %memcpy(i64, i64, i64) -> i64
    fn2 = %w(i64, f64) -> f64
block0(v0: i64, v1: f64):
    v2 = iconst.i64 16
    v6 = iconst.i64 24
    v3 = call fn0(v6)
    store v2, v3
    v7 = iconst.i64 8
    v8 = iadd v3, v7
    v4 = call fn1(v8, v0, v2)
    v5 = call fn2(v0, v1)
    return v5, v3
}
function %w__adjoint(f64, f64, i64) -> f64 {
    fn0 = %free(i64)
block0(v0: f64, v1: f64, v2: i64):
    v3 = load.f64 v2+8
    v4 = load.f64 v2+16
    v5 = fadd v4, v4
    v6 = fmul v5, v0
    v7 = fadd v3, v6
    v8 = fmul v1, v7
    call fn0(v2)
    return v8
}
function %f(i64, f64) -> f64 {
    fn0 = %w(i64, f64) -> f64
block0(v0: i64, v1: f64):
    v2 = call fn0(v0, v1)
    v3 = call fn0(v0, v2)
    return v3
}
function %g(i64, f64) -> f64 {
    sig0 = (i64, f64) -> f64
    fn0 = %w(i64, f64) -> f64
block0(v0: i64, v1: f64):
    v2 = func_addr.i64 fn0
    v3 = call_indirect sig0, v2(v0, v1)
    v4 = call fn0(v0, v3)
    return v4
}
function %all(i64, f64) -> f64 {
    fn0 = %f(i64, f64) -> f64
    fn1 = %g(i64, f64) -> f64
    fn2 = %w__augmented(i64, f64) -> f64, i64
    fn3 = %w__adjoint(f64, f64, i64) -> f64
block0(v0: i64, v1: f64):
    v2 = call fn0(v0, v1)
    v3 = call fn1(v0, v2)
    v4, v5 = call fn2(v0, v3)
    v6 = call fn3(v3, v4, v5)
    return v6
}";

/// A function with an adjoint, called by its name and through a pointer, and its constant memory
/// kept beside a number: both orders.
#[test]
fn an_adjoint_of_constant_memory_at_order_two() {
    let [p0, p1, x] = [0.7, -0.3, 1.9];
    let (w, d) = (|x: f64| p0 * x + p1 * x * x, |x: f64| p0 + 2.0 * p1 * x);
    let slope = d(w(x)) * d(x);
    let curvature = 2.0 * p1 * d(x) * d(x) + d(w(x)) * 2.0 * p1;
    for f in ["f", "g"] {
        for memory in [Const, Duplicated] {
            let mut m = Fixture::new(SUM, "all");
            m.module.set_rule("w", rule("p, x => adjoint w__adjoint(x, seed, record) -> dx after w__augmented(p, x)"));
            let first = m.derivative(f, &alone([memory, Active]));
            let s = m.module.signature(first).expect("it is derived").clone();
            let spec = |forward: bool| {
                let activity = |role: &ParamRole| match (role, forward) {
                    (ParamRole::Primal(1), true) | (ParamRole::Workspace, true) => Dual,
                    (ParamRole::Primal(1), false) => Active,
                    (ParamRole::Workspace, false) => Duplicated,
                    (ParamRole::Primal(0) | ParamRole::Shadow(0), true) if memory != Const => Dual,
                    (ParamRole::Primal(0) | ParamRole::Shadow(0), false) => memory,
                    _ => Const,
                };
                s.params.iter().map(activity).collect::<Vec<_>>()
            };
            let forward = m.derivative_of(first, &Spec::tangent(spec(true)));
            let reverse = m.derivative_of(first, &Spec::gradient(spec(false)));
            m.finish();
            let call = |id, moved: f64| {
                let mut p = [p0, p1];
                let mut spaces = vec![vec![0_u8; 1 << 14]; 8];
                let inner = |role: ParamRole| match role {
                    ParamRole::Primal(0) => None,
                    ParamRole::Primal(1) => Some(double(x)),
                    ParamRole::Seed(0) => Some(double(1.5)),
                    ParamRole::WorkspaceBytes => Some(DataValue::I64(1 << 14)),
                    _ => Some(DataValue::I64(0)),
                };
                let mut n = 0;
                m.call(id, |role| {
                    let mut space = || {
                        n += 1;
                        address(&mut spaces[n - 1])
                    };
                    match role {
                        ParamRole::Primal(k) if id != first => match s.params[k] {
                            ParamRole::Primal(0) => address(&mut p),
                            ParamRole::Shadow(_) | ParamRole::Workspace => space(),
                            role => inner(role).expect("a number"),
                        },
                        ParamRole::Shadow(_) | ParamRole::Workspace => space(),
                        ParamRole::Primal(0) => address(&mut p),
                        ParamRole::Tangent(_) | ParamRole::Seed(_) if id != first => double(moved),
                        role => inner(role).expect("a number"),
                    }
                })
            };
            let r = call(first, 0.0);
            near(get(&r, ResultRole::Cotangent(1)), 1.5 * slope);
            let at = s.result(ResultRole::Cotangent(1)).expect("x is active");
            near(get(&call(forward, 0.5), ResultRole::Tangent(at)), 1.5 * 0.5 * curvature);
            let at = s.param(ParamRole::Primal(1)).expect("x");
            near(get(&call(reverse, 0.5), ResultRole::Cotangent(at)), 1.5 * 0.5 * curvature);
        }
    }
}

/// m(p, a) = p₀·a of a single and a double, in single precision; d(p, q) = p₀·q₀.
const MIXED: &str = "function %m(i64, f64) -> f32 {
block0(v0: i64, v1: f64):
    v2 = load.f32 v0
    v3 = fdemote.f32 v1
    v4 = fmul v2, v3
    return v4
}
function %m__adjoint(i64, i64, f64, f32) -> f64 {
block0(v0: i64, v1: i64, v2: f64, v3: f32):
    v4 = load.f32 v0
    v5 = fmul v3, v4
    v6 = fdemote.f32 v2
    v7 = fmul v3, v6
    v8 = load.f32 v1
    v9 = fadd v8, v7
    store v9, v1
    v10 = fpromote.f64 v5
    return v10
}
function %d(i64, i64) -> f64 {
block0(v0: i64, v1: i64):
    v2 = load.f64 v0
    v3 = load.f64 v1
    v4 = fmul v2, v3
    return v4
}
function %d__adjoint(i64, i64, i64, i64, f64) {
block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: f64):
    v5 = load.f64 v2
    v6 = fmul v5, v4
    v7 = load.f64 v1
    v8 = fadd v7, v6
    store v8, v1
    v9 = load.f64 v0
    v10 = fmul v9, v4
    v11 = load.f64 v3
    v12 = fadd v11, v10
    store v12, v3
    return
}
function %f(i64, f64) -> f64 {
    fn0 = %m(i64, f64) -> f32
block0(v0: i64, v1: f64):
    v2 = call fn0(v0, v1)
    v3 = fpromote.f64 v2
    v4 = fmul v3, v1
    return v4
}
function %g(i64, f64) -> f64 {
    fn0 = %d(i64, i64) -> f64
block0(v0: i64, v1: f64):
    v2 = call fn0(v0, v0)
    v3 = fmul v2, v1
    return v3
}
function %all(i64, f64) -> f64 {
    fn0 = %f(i64, f64) -> f64
    fn1 = %g(i64, f64) -> f64
    fn2 = %m__adjoint(i64, i64, f64, f32) -> f64
    fn3 = %d__adjoint(i64, i64, i64, i64, f64)
block0(v0: i64, v1: f64):
    v2 = call fn0(v0, v1)
    v3 = call fn1(v0, v2)
    v4 = f32const 0.0
    v5 = call fn2(v0, v0, v3, v4)
    call fn3(v0, v0, v0, v0, v3)
    return v5
}";

/// Singles and doubles in one rule, one pointer given twice, and pullbacks that run twice.
#[test]
fn mixes_and_aliases() {
    let mut m = Fixture::new(MIXED, "all");
    m.module.set_rule("m", rule("p, a => adjoint m__adjoint(p, dp, a, seed) -> da"));
    m.module.set_rule("d", rule("p, q => adjoint d__adjoint(p, dp, q, dq, seed)"));
    let mixed = m.derivative("f", &alone([Duplicated, Active]));
    let alias = m.derivative("g", &alone([Duplicated, Active]));
    let (forward, pullback) = m.pair("g", &Spec::pair([Duplicated, Active]));
    let (of_singles, back) = m.pair("f", &Spec::pair([Duplicated, Active]));
    m.finish();
    // f = p·a², f32
    let (mut p, mut dp) = ([1.5_f32], [0.25_f32]);
    let r = m.call_with(mixed, &[address(&mut p), address(&mut dp), double(2.0), double(3.0)]);
    near(get(&r, ResultRole::Cotangent(1)), 3.0 * 2.0 * 1.5 * 2.0);
    assert_eq!(dp, [0.25 + 3.0 * 4.0]);
    // g = p²·a, and a second call adds.
    let (mut p, mut dp) = ([1.5], [0.25]);
    for n in 1..3 {
        let r = m.call_with(alias, &[address(&mut p), address(&mut dp), double(2.0), double(3.0)]);
        near(get(&r, ResultRole::Cotangent(1)), 3.0 * 2.25);
        assert_eq!(dp, [0.25 + f64::from(n) * 3.0 * 2.0 * 1.5 * 2.0]);
    }
    for (forward, pullback, single) in [(forward, pullback, false), (of_singles, back, true)] {
        let (mut p, mut dp, mut q, mut dq) = ([1.5], [0.25], [1.5_f32], [0.25_f32]);
        let at = if single { (address(&mut q), address(&mut dq)) } else { (address(&mut p), address(&mut dp)) };
        let mut room = vec![0_u8; 1 << 12];
        let room = address(&mut room);
        m.call(forward, |role| match role {
            ParamRole::Primal(0) => at.0.clone(),
            ParamRole::Shadow(0) => at.1.clone(),
            ParamRole::Primal(1) => double(2.0),
            ParamRole::Workspace => room.clone(),
            _ => DataValue::I64(1 << 12),
        });
        for (n, seed) in [(3.0, 3.0), (4.0, 1.0)] {
            let r = m.call(pullback, |role| if role == ParamRole::Workspace { room.clone() } else { double(seed) });
            let of_p = if single { f64::from(dq[0]) } else { dp[0] };
            let [slope, of_a] = if single { [4.0, 2.0 * 1.5 * 2.0] } else { [2.0 * 1.5 * 2.0, 2.25] };
            near(of_p, 0.25 + n * slope);
            near(get(&r, ResultRole::Cotangent(1)), seed * of_a);
        }
    }
}

/// h(x, n): n steps x ↦ x − f′(x)·ḟ(x)/9 with f = x³, by its gradient and its tangent.
#[test]
fn two_derivatives_in_one_loop() {
    let text = "function %f(f64) -> f64 {
    block0(v0: f64):
        v1 = fmul v0, v0
        v2 = fmul v1, v0
        return v2
    }";
    let mut m = Fixture::new(text, "f");
    let gradient = m.derivative("f", &alone([Active]));
    let tangent = m.derivative("f", &Spec::tangent([Dual]).results([ReturnActivity::DualOnly]));
    let mut sig = f64s(&m.module, 1, 1);
    sig.params.push(cranelift_codegen::ir::AbiParam::new(types::I64));
    let h = define(&mut m.module, Some("h"), sig, |module, b, p| {
        let [gradient, tangent] = [gradient, tangent].map(|id| module.declare_func_in_func(id, b.func));
        let (head, end) = (b.create_block(), b.create_block());
        let x = b.append_block_param(head, types::F64);
        let n = b.append_block_param(head, types::I64);
        b.ins().jump(head, &[p[0].into(), p[1].into()]);
        b.switch_to_block(head);
        let one = b.ins().f64const(1.0);
        let call = b.ins().call(gradient, &[x, one]);
        let slope = b.inst_results(call)[0];
        let call = b.ins().call(tangent, &[x, one]);
        let along = b.inst_results(call)[0];
        let product = b.ins().fmul(slope, along);
        let nine = b.ins().f64const(9.0);
        let step = b.ins().fdiv(product, nine);
        let next = b.ins().fsub(x, step);
        let less = b.ins().iadd_imm_s(n, -1);
        b.ins().brif(less, head, &[next.into(), less.into()], end, &[]);
        b.switch_to_block(end);
        b.ins().return_(&[next]);
    });
    let reverse = m.derivative_of(h, &alone([Active, Const]));
    let forward = m.derivative_of(h, &Spec::tangent([Dual, Const]));
    m.finish();
    for n in 1..4 {
        // x ↦ x − x⁴
        let (_, want) = (0..n).fold((0.6_f64, 1.0), |(x, d), _| (x - x.powi(4), d * (1.0 - 4.0 * x.powi(3))));
        let mut room = vec![0_u8; 1 << 14];
        let r = m.call(reverse, |role| match role {
            ParamRole::Primal(0) => double(0.6),
            ParamRole::Primal(1) => DataValue::I64(n),
            ParamRole::Seed(0) => double(2.0),
            ParamRole::Workspace => address(&mut room),
            _ => DataValue::I64(1 << 14),
        });
        near(get(&r, ResultRole::Cotangent(0)), 2.0 * want);
        let r = m.call_with(forward, &[double(0.6), double(0.5), DataValue::I64(n)]);
        near(get(&r, ResultRole::Tangent(0)), 0.5 * want);
    }
}

/// x²·y³: x is active in one order and constant in the other, and the other way round.
#[test]
fn constant_in_one_order() {
    let text = "function %f(f64, f64) -> f64 {
    block0(v0: f64, v1: f64):
        v2 = fmul v0, v0
        v3 = fmul v1, v1
        v4 = fmul v3, v1
        v5 = fmul v2, v4
        return v5
    }";
    let mut m = Fixture::new(text, "f");
    let first = m.derivative("f", &alone([Active, Const]));
    let forward = m.derivative_of(first, &Spec::tangent([Const, Dual, Const]));
    let reverse = m.derivative_of(first, &Spec::gradient([Const, Active, Const]));
    let along = m.derivative("f", &Spec::tangent([Const, Dual]).results([ReturnActivity::DualOnly]));
    let mixed = m.derivative_of(along, &Spec::gradient([Active, Const, Const]));
    m.finish();
    let (x, y): (f64, f64) = (1.3, -0.8);
    let want = 2.0 * x * 3.0 * y * y;
    near(get(&m.call_with(forward, &[double(x), double(y), double(0.5), double(2.0)]), ResultRole::Tangent(0)), want);
    let r = m.call_with(reverse, &[double(x), double(y), double(2.0), double(0.5)]);
    near(get(&r, ResultRole::Cotangent(1)), want);
    let r = m.call_with(mixed, &[double(x), double(y), double(2.0), double(0.5)]);
    near(get(&r, ResultRole::Cotangent(0)), want);
}

/// A rule whose functions have other types, and one whose adjoint is defined later.
#[test]
fn what_a_rule_leaves_behind() {
    let text = "function %q(f64) -> f64 {
    block0(v0: f64):
        v1 = fmul v0, v0
        return v1
    }
    function %f(f64) -> f64 {
        fn0 = %q(f64) -> f64
    block0(v0: f64):
        v1 = call fn0(v0)
        return v1
    }";
    let mut m = Fixture::new(text, "f");
    let sig = f64s(&m.module, 3, 1);
    m.module.declare_function("wrong", Linkage::Export, &sig).expect("it is declared");
    let count = |m: &Fixture| m.module.declarations().get_functions().count();
    let before = count(&m);
    for (text, why) in [
        ("x => adjoint wrong(x, seed) -> dx", "the module declares it as (f64, f64, f64) -> f64"),
        ("x => adjoint later(x, seed) -> dx after wrong(x)", "the module declares it as (f64, f64, f64) -> f64"),
        ("x, y => adjoint later(x, seed) -> dx", "AD0175"),
    ] {
        m.module.set_rule("q", rule(text));
        let found = m.module.derivative(m.func("f"), &alone([Active])).expect_err("it does not fit").to_string();
        assert!(found.contains(why), "{found}");
        assert_eq!(count(&m), before, "{text}: nothing is declared");
    }
    m.module.set_rule("q", rule("x => adjoint later(x, seed) -> dx"));
    let first = m.derivative("f", &alone([Active]));
    let sig = f64s(&m.module, 2, 1);
    define(&mut m.module, Some("later"), sig, |_, b, p| {
        let r = b.ins().fmul(p[0], p[1]);
        let r = b.ins().fadd(r, r);
        b.ins().return_(&[r]);
    });
    // `wrong` is declared, and has to be something.
    let sig = f64s(&m.module, 3, 1);
    define(&mut m.module, Some("wrong"), sig, |_, b, p| {
        b.ins().return_(&[p[0]]);
    });
    // Now it has a body, so there is a second order, too.
    let second = m.derivative_of(first, &Spec::tangent([Dual, Const]));
    m.finish();
    near(get(&m.call_with(first, &[double(3.0), double(0.5)]), ResultRole::Cotangent(0)), 3.0);
    near(get(&m.call_with(second, &[double(3.0), double(2.0), double(0.5)]), ResultRole::Tangent(0)), 2.0);
}

/// Threads that derive derivatives of derivatives, with rules, make the same code.
#[test]
fn threads_make_the_same_code() {
    let code = |_| {
        let mut m = Fixture::new(SUM, "all");
        m.module.set_rule("w", rule("p, x => adjoint w__adjoint(x, seed, record) -> dx after w__augmented(p, x)"));
        let mut texts = vec![];
        for f in ["f", "g"] {
            let mut id = m.func(f);
            let mut spec = alone([Const, Active]);
            for _ in 0..2 {
                let found = m.module.derive(id, &spec).unwrap_or_else(|e| panic!("{e}"));
                texts.extend(found.functions.iter().map(|f| format!("{} {}", f.symbol, f.func)));
                id = m.module.derivative(id, &spec).unwrap_or_else(|e| panic!("{e}"));
                let s = m.module.signature(id).expect("it is derived");
                let moves = |role: &ParamRole| match role {
                    ParamRole::Primal(1) | ParamRole::Workspace => Dual,
                    _ => Const,
                };
                spec = Spec::tangent(s.params.iter().map(moves));
            }
        }
        texts
    };
    let one: Vec<String> = code(0);
    assert!(one.len() > 6);
    let all: Vec<Vec<String>> = thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|k| scope.spawn(move || code(k))).collect();
        runs.into_iter().map(|r| r.join().expect("it is derived")).collect()
    });
    assert!(all.iter().all(|texts| *texts == one));
}
