//! Derivatives of derivatives, of functions that call derivatives, and so on, in one module.

use brolga_module::ParamActivity::{Active, Const, Dual, Duplicated};
use brolga_module::{Derivative, ParamActivity, ParamRole, ResultRole, ReturnActivity, Room, Spec};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::InstBuilder;
use cranelift_module::{FuncId, Module};

use crate::common::{Fixture, address, double, number};
use crate::programs::{define, f64s};

/// f(x, y) = x³y; s(x, n) = x ↦ x·sin x, n times; b(p, n) = Σ pᵢ³pᵢ₊₁.
const TEXT: &str = "function %f(f64, f64) -> f64 {
block0(v0: f64, v1: f64):
    v2 = fmul v0, v0
    v3 = fmul v2, v0
    v4 = fmul v3, v1
    return v4
}
function %s(f64, i64) -> f64 {
    fn0 = %sin(f64) -> f64
block0(v0: f64, v1: i64):
    jump block1(v0, v1)
block1(v2: f64, v3: i64):
    brif v3, block2, block3
block2:
    v4 = call fn0(v2)
    v7 = fmul v4, v2
    v5 = iconst.i64 1
    v6 = isub v3, v5
    jump block1(v7, v6)
block3:
    return v2
}
function %b(i64, i64) -> f64 {
block0(v0: i64, v1: i64):
    v2 = f64const 0.0
    jump block1(v0, v1, v2)
block1(v3: i64, v4: i64, v5: f64):
    brif v4, block2, block3
block2:
    v6 = load.f64 v3
    v7 = load.f64 v3+8
    v8 = fmul v6, v6
    v9 = fmul v8, v6
    v10 = fmul v9, v7
    v11 = fadd v5, v10
    v12 = iconst.i64 8
    v13 = iadd v3, v12
    v14 = iconst.i64 1
    v15 = isub v4, v14
    jump block1(v13, v15, v11)
block3:
    return v5
}";

fn near(is: f64, want: f64) {
    assert!((is - want).abs() <= 1e-12 * want.abs().max(1.0), "{is}, not {want}");
}

fn get(results: &crate::common::Results, role: ResultRole) -> f64 {
    number(results, role).unwrap_or_else(|| panic!("there is no {role:?}"))
}

/// The four ways to a second derivative, and two to a third.
#[test]
fn scalars() {
    let mut m = Fixture::new(TEXT, "f");
    let of_result = [ReturnActivity::ActiveOnly];
    let reverse = m.derivative("f", &Spec::gradient([Active, Active]).results(of_result));
    let forward = m.derivative("f", &Spec::tangent([Dual, Dual]));
    // (x, y, seed) -> (x̄, ȳ)
    let forward_of_reverse = m.derivative_of(reverse, &Spec::tangent([Dual, Dual, Dual]));
    let reverse_of_reverse = m.derivative_of(reverse, &Spec::gradient([Active, Active, Active]));
    // (x, ẋ, y, ẏ) -> (f, ḟ)
    let reverse_of_forward = m.derivative_of(forward, &Spec::gradient([Active; 4]));
    let forward_of_forward = m.derivative_of(forward, &Spec::tangent([Dual; 4]));
    // Without the gradient itself, two results fit into registers.
    let tangents = [ReturnActivity::DualOnly; 2];
    let product = m.derivative_of(reverse, &Spec::tangent([Dual, Dual, Const]).results(tangents));
    let third = m.derivative_of(product, &Spec::gradient([Active; 5]));
    m.finish();
    let (x, y, a, b, c) = (1.3, 0.7, 0.4, -1.1, 0.9);
    let hessian = [[6.0 * x * y, 3.0 * x * x], [3.0 * x * x, 0.0]];
    let along = |u: f64, v: f64| [hessian[0][0] * u + hessian[0][1] * v, hessian[1][0] * u];
    let slope = [3.0 * x * x * y, x * x * x];
    let v = |values: &[f64]| values.iter().map(|x| double(*x)).collect::<Vec<_>>();

    // x, ẋ, y, ẏ, s, ṡ
    let r = m.call_with(forward_of_reverse, &v(&[x, a, y, b, c, 0.5]));
    for (i, (slope, along)) in slope.iter().zip(along(a, b)).enumerate() {
        near(get(&r, ResultRole::Value(i)), c * slope);
        near(get(&r, ResultRole::Tangent(i)), c * along + 0.5 * slope);
    }
    // x, y, s, and the seeds a, b.
    let r = m.call_with(reverse_of_reverse, &v(&[x, y, c, a, b]));
    for i in 0..2 {
        near(get(&r, ResultRole::Cotangent(i)), c * along(a, b)[i]);
    }
    near(get(&r, ResultRole::Cotangent(2)), a * slope[0] + b * slope[1]);
    // The seed of f is zero, that of ḟ one.
    let r = m.call_with(reverse_of_forward, &v(&[x, a, y, b, 0.0, 1.0]));
    for (i, at) in [(0, 0), (1, 2)] {
        near(get(&r, ResultRole::Cotangent(at)), along(a, b)[i]);
        near(get(&r, ResultRole::Cotangent(at + 1)), slope[i]);
    }
    // Along (a, b) and (c, 2): x, its tangent, ẋ, its tangent, …
    let r = m.call_with(forward_of_forward, &v(&[x, c, a, 0.0, y, 2.0, b, 0.0]));
    near(get(&r, ResultRole::Tangent(1)), c * along(a, b)[0] + 2.0 * along(a, b)[1]);
    // Of c(f_xx a + f_xy b): the seed of x̄'s tangent is one, that of ȳ's zero.
    let r = m.call_with(third, &v(&[x, a, y, b, c, 1.0, 0.0]));
    near(get(&r, ResultRole::Cotangent(0)), c * (6.0 * y * a + 6.0 * x * b));
    near(get(&r, ResultRole::Cotangent(2)), c * (6.0 * x * a));
}

/// x ↦ x·sin x, n times, with two derivatives.
fn steps(x: f64, n: i64) -> [f64; 3] {
    (0..n).fold([x, 1.0, 0.0], |[x, d, dd], _| {
        let (first, second) = (x.sin() + x * x.cos(), 2.0 * x.cos() - x * x.sin());
        [x * x.sin(), first * d, second * d * d + first * dd]
    })
}

/// A gradient that records an unknown number of bytes: its tape is memory with a shadow.
#[test]
fn a_workspace_has_a_shadow() {
    let mut m = Fixture::new(TEXT, "s");
    let gradient = m.derivative("s", &Spec::gradient([Active, Const]).results([ReturnActivity::ActiveOnly]));
    assert_eq!(m.module.room(gradient), Some(Room::Unknown));
    let roles = &m.module.signature(gradient).expect("it is derived").params;
    use ParamRole::{Primal, Seed, Workspace, WorkspaceBytes};
    assert_eq!(*roles, [Primal(0), Primal(1), Seed(0), Workspace, WorkspaceBytes]);
    let error = m.module.derivative(gradient, &Spec::tangent([Dual, Const, Const, Const, Const])).unwrap_err();
    assert!(error.to_string().contains("parameter 3 of %s__gradient is its workspace"), "{error}");
    let forward = m.derivative_of(gradient, &Spec::tangent([Dual, Const, Const, Dual, Const]));
    let nested = |derivative| m.module.signature(gradient).expect("it is derived").nested(derivative);
    let (of_gradient, spec) = (nested(Derivative::Gradient), nested(Derivative::Pair));
    let activities: Vec<_> = of_gradient.params.iter().map(|p| p.activity).collect();
    assert_eq!(activities, [Active, Const, Active, Duplicated, Const]);
    assert_eq!(of_gradient.params, spec.params);
    let reverse = m.derivative_of(gradient, &of_gradient);
    let (f, r) = {
        let (f, r) = m.module.pair(gradient, &spec).expect("it is derived");
        m.door(f);
        m.door(r);
        (f, r)
    };
    m.finish();
    let mut first = vec![0xaa_u8; 4096];
    let mut outer_workspace = vec![0xaa_u8; 1 << 16];
    for (x, n) in [(1.1, 0), (0.9, 3), (1.3, 7)] {
        let [_, slope, curvature] = steps(x, n);
        let mut shadow = vec![0_u8; 4096];
        let bytes = DataValue::I64(4096);
        let workspace = [address(&mut first), address(&mut shadow), bytes];
        let n = DataValue::I64(n);
        // x, ẋ, n, s, workspace with shadow, bytes
        let args = [&[double(x), double(0.5), n.clone(), double(2.0)][..], &workspace].concat();
        let out = m.call_with(forward, &args);
        assert_eq!(get(&out, ResultRole::Value(1)), 0.0, "it fits");
        near(get(&out, ResultRole::Value(0)), 2.0 * slope);
        near(get(&out, ResultRole::Tangent(0)), curvature);
        // x, n, s, workspace with shadow, bytes, seed, workspace
        shadow.fill(0);
        let room = [address(&mut outer_workspace), DataValue::I64(1 << 16)];
        let of = [double(x), n.clone(), double(2.0)];
        let workspace = [address(&mut first), address(&mut shadow), DataValue::I64(4096)];
        let args = [&of[..], &workspace, &[double(0.5)], &room].concat();
        for _ in 0..2 {
            let out = m.call_with(reverse, &args);
            assert_eq!(get(&out, ResultRole::Status), 0.0, "it fits");
            near(get(&out, ResultRole::Cotangent(0)), curvature);
            near(get(&out, ResultRole::Cotangent(2)), 0.5 * slope);
            shadow.fill(0);
        }
        let args = [&of[..], &workspace, &room].concat();
        near(get(&m.call_with(f, &args), ResultRole::Value(0)), 2.0 * slope);
        for seed in [0.5, -1.0] {
            let out = m.call_with(r, &[double(seed), room[0].clone()]);
            near(get(&out, ResultRole::Cotangent(0)), 2.0 * seed * curvature);
            shadow.fill(0);
        }
    }
    // The tape of the gradient does not fit, and says so.
    let mut shadow = vec![0_u8; 512];
    for bytes in [0, 300, 512] {
        let n = DataValue::I64(50);
        let workspace = [address(&mut first), address(&mut shadow), DataValue::I64(bytes)];
        let args = [&[double(0.9), double(0.5), n, double(2.0)][..], &workspace].concat();
        let out = m.call_with(forward, &args);
        assert_eq!(get(&out, ResultRole::Value(1)), 1.0, "{bytes} bytes are too few");
        assert!(get(&out, ResultRole::Value(0)).is_nan());
    }
}

/// A gradient of a recursive function marks on its tape which way was taken: a byte, in memory that
/// has a shadow and holds floats.
#[test]
fn recursion() {
    // r(x, n) = x·r(x², n − 1), r(x, 0) = x²: powers 2, 5, 11, …
    let text = "function %r(f64, i64) -> f64 {
        fn0 = %r(f64, i64) -> f64
    block0(v0: f64, v1: i64):
        brif v1, block1, block2
    block1:
        v2 = iconst.i64 1
        v3 = isub v1, v2
        v4 = fmul v0, v0
        v5 = call fn0(v4, v3)
        v6 = fmul v5, v0
        return v6
    block2:
        v7 = fmul v0, v0
        return v7
    }";
    let mut m = Fixture::new(text, "r");
    let gradient = m.derivative("r", &Spec::gradient([Active, Const]).results([ReturnActivity::ActiveOnly]));
    let forward = m.derivative_of(gradient, &Spec::tangent([Dual, Const, Dual, Dual, Const]));
    let reverse = m.derivative_of(gradient, &Spec::gradient([Active, Const, Active, Duplicated, Const]));
    m.finish();
    let (x, s): (f64, f64) = (1.1, -0.7);
    for n in 0..4 {
        let e = 3 * (1 << n) - 1;
        let (slope, curvature) = (f64::from(e) * x.powi(e - 1), f64::from(e * (e - 1)) * x.powi(e - 2));
        let (mut tape, mut shadow, mut outer_workspace) =
            (vec![0_u8; 1 << 13], vec![0_u8; 1 << 13], vec![0_u8; 1 << 15]);
        let tape = [address(&mut tape), address(&mut shadow), DataValue::I64(1 << 13)];
        let n = DataValue::I64(n.into());
        let args = [&[double(x), double(0.5), n.clone(), double(s), double(2.0)][..], &tape].concat();
        let out = m.call_with(forward, &args);
        near(get(&out, ResultRole::Value(0)), s * slope);
        near(get(&out, ResultRole::Tangent(0)), 0.5 * s * curvature + 2.0 * slope);
        shadow.fill(0);
        let room = [double(1.5), address(&mut outer_workspace), DataValue::I64(1 << 15)];
        let out = m.call_with(reverse, &[&[double(x), n, double(s)][..], &tape, &room].concat());
        near(get(&out, ResultRole::Cotangent(0)), 1.5 * s * curvature);
        near(get(&out, ResultRole::Cotangent(2)), 1.5 * slope);
    }
}

/// Products of a Hessian with a vector, of a function of memory.
#[test]
fn buffers() {
    let mut m = Fixture::new(TEXT, "b");
    let gradient = m.derivative("b", &Spec::gradient([Duplicated, Const]).results([ReturnActivity::ActiveOnly]));
    let room = m.module.room(gradient).expect("it is derived");
    assert!(!room.is_given(), "{room:?}");
    // p, shadow, n, seed
    let forward = m.derivative_of(gradient, &Spec::tangent([Dual, Dual, Const, Const]));
    let reverse = m.derivative_of(gradient, &Spec::gradient([Duplicated, Duplicated, Const, Active]));
    let tangent = m.derivative("b", &Spec::tangent([Dual, Const]));
    let mixed = m.derivative_of(tangent, &Spec::gradient([Duplicated, Duplicated, Const]));
    m.finish();
    let mut p = [0.3, -0.8, 1.2, 0.5];
    let v = [0.7, 0.2, -0.4, 1.5];
    let n = 3;
    let mut product = [0.0; 4];
    let mut slope = [0.0; 4];
    for i in 0..n {
        let (x, y) = (p[i], p[i + 1]);
        slope[i] += 3.0 * x * x * y;
        slope[i + 1] += x * x * x;
        product[i] += 6.0 * x * y * v[i] + 3.0 * x * x * v[i + 1];
        product[i + 1] += 3.0 * x * x * v[i];
    }
    let count = DataValue::I64(n as i64);
    let along: f64 = (0..4).map(|i| slope[i] * v[i]).sum();
    for _ in 0..2 {
        // What is in a shadow is added to.
        let (mut direction, mut shadow, mut tangents) = (v, [1.0; 4], [2.0; 4]);
        let buffers = [address(&mut p), address(&mut direction), address(&mut shadow), address(&mut tangents)];
        let args = [&buffers[..], &[count.clone(), double(1.0)]].concat();
        m.call_with(forward, &args);
        for i in 0..4 {
            near(shadow[i], 1.0 + slope[i]);
            near(tangents[i], 2.0 + product[i]);
        }
        // p with its cotangents, the shadow with its own, which are the vector.
        let (mut of_p, mut shadow, mut vector) = ([3.0; 4], [1.0; 4], v);
        let buffers = [address(&mut p), address(&mut of_p), address(&mut shadow), address(&mut vector)];
        let mut space = vec![0_u8; 1 << 14];
        let s = m.module.signature(reverse).expect("it is derived");
        let mut args = [&buffers[..], &[count.clone(), double(2.0)]].concat();
        if s.param(ParamRole::Workspace).is_some() {
            args.extend([address(&mut space), DataValue::I64(1 << 14)]);
        }
        let out = m.call_with(reverse, &args);
        near(get(&out, ResultRole::Cotangent(3)), along);
        for i in 0..4 {
            near(of_p[i], 3.0 + 2.0 * product[i]);
            near(vector[i], v[i]);
        }
        let (mut direction, mut of_p, mut of_direction) = (v, [3.0; 4], [4.0; 4]);
        let buffers = [address(&mut p), address(&mut of_p), address(&mut direction), address(&mut of_direction)];
        // The seed of the value is zero.
        let mut args = [&buffers[..], &[count.clone(), double(0.0), double(1.0)]].concat();
        if m.module.signature(mixed).expect("it is derived").param(ParamRole::Workspace).is_some() {
            args.extend([address(&mut space), DataValue::I64(1 << 14)]);
        }
        m.call_with(mixed, &args);
        for i in 0..4 {
            near(of_p[i], 3.0 + product[i]);
            near(of_direction[i], 4.0 + slope[i]);
        }
    }
}

/// A function that calls a derivative is derived: a step of Newton's method on x³y = 2, in x.
#[test]
fn functions_that_call_derivatives() {
    let mut m = Fixture::new(TEXT, "f");
    let spec = Spec::gradient([Active, Const]).results([ReturnActivity::Active]);
    let gradient = m.derivative("f", &spec);
    let sig = f64s(&m.module, 2, 1);
    let newton = define(&mut m.module, Some("newton"), sig, |module, b, p| {
        let callee = module.declare_func_in_func(gradient, b.func);
        let one = b.ins().f64const(1.0);
        let call = b.ins().call(callee, &[p[0], p[1], one]);
        let (f, slope) = (b.inst_results(call)[0], b.inst_results(call)[1]);
        let two = b.ins().f64const(2.0);
        let g = b.ins().fsub(f, two);
        let step = b.ins().fdiv(g, slope);
        let next = b.ins().fsub(p[0], step);
        b.ins().return_(&[next]);
    });
    let reverse = m.derivative_of(newton, &Spec::gradient([Active; 2]).results([ReturnActivity::ActiveOnly]));
    let forward = m.derivative_of(newton, &Spec::tangent([Dual; 2]).results([ReturnActivity::DualOnly]));
    m.finish();
    let (x, y): (f64, f64) = (1.4, 0.9);
    // x − x/3 + 2/(3x²y)
    let wanted = [2.0 / 3.0 - 4.0 / (3.0 * x.powi(3) * y), -2.0 / (3.0 * x * x * y * y)];
    let out = m.call_with(reverse, &[double(x), double(y), double(1.0)]);
    let is = [0, 1].map(|i| get(&out, ResultRole::Cotangent(i)));
    (0..2).for_each(|i| near(is[i], wanted[i]));
    let out = m.call_with(forward, &[double(x), double(0.3), double(y), double(-2.0)]);
    near(get(&out, ResultRole::Tangent(0)), 0.3 * wanted[0] - 2.0 * wanted[1]);
}

/// What has no derivative, and what to ask for in its place.
#[test]
fn halves_of_pairs_have_none() {
    let mut m = Fixture::new(TEXT, "f");
    let (forward, pullback) = m.pair("f", &Spec::pair([Active, Active]));
    let ask = |m: &mut Fixture, f: FuncId, activity: ParamActivity, n: usize| {
        let spec = Spec { derivative: Derivative::Tangent, ..Spec::gradient(vec![activity; n]) };
        m.module.derivative(f, &spec).unwrap_err().to_string()
    };
    for (id, n) in [(forward, 4), (pullback, 2)] {
        let error = ask(&mut m, id, Dual, n);
        let says = ["AD0173", "half of a pair", "ask for the derivative of the gradient"];
        assert!(says.iter().all(|s| error.contains(s)), "{error}");
    }
}

/// A gradient that returns a pointer and that of its shadow, derived again: the pointers to the
/// shadows of both come back, and lead to what they led to.
#[test]
fn a_pointer_that_is_returned() {
    // r(p, n) returns the address of a number behind p, after it has put p₀³ there.
    let text = "function %r(i64, i64) -> i64 {
    block0(v0: i64, v1: i64):
        v2 = load.f64 v0
        v3 = fmul v2, v2
        v4 = fmul v3, v2
        v5 = iadd v0, v1
        store v4, v5
        return v5
    }";
    let mut m = Fixture::new(text, "r");
    let spec = Spec::gradient([Duplicated, Const]).results([ReturnActivity::Duplicated]);
    let first = m.derivative("r", &spec);
    let s = m.module.signature(first).expect("it is derived").clone();
    let tangent_spec = s.nested(Derivative::Tangent);
    assert_eq!(tangent_spec, Spec::tangent([Dual, Dual, Const]).results([ReturnActivity::Duplicated; 2]));
    let second = m.derivative_of(first, &tangent_spec);
    m.finish();
    let (mut x, mut dx) = ([1.5, 0.0], [0.0, 2.0]);
    let (mut tx, mut tdx) = ([0.5, 0.0], [0.0, 0.25]);
    let found = m.call(second, |role| match role {
        ParamRole::Primal(k) => match s.params[k] {
            ParamRole::Primal(0) => address(&mut x),
            ParamRole::Shadow(0) => address(&mut dx),
            _ => DataValue::I64(8),
        },
        ParamRole::Shadow(k) => match s.params[k] {
            ParamRole::Primal(0) => address(&mut tx),
            _ => address(&mut tdx),
        },
        role => panic!("{role:?}"),
    });
    // 3x² times the seed, whose slope is 6x times the seed and 3x² times the seed's tangent.
    assert_eq!((x[1], dx), (1.5 * 1.5 * 1.5, [3.0 * 2.25 * 2.0, 0.0]));
    assert_eq!((tx[1], tdx), (3.0 * 2.25 * 0.5, [6.0 * 1.5 * 0.5 * 2.0 + 3.0 * 2.25 * 0.25, 0.0]));
    let at = |role| match &found.iter().find(|f| f.0 == role).expect("it is returned").1 {
        DataValue::I64(x) => *x,
        other => panic!("{other}"),
    };
    let second_of = |v: &[f64]| v[1..].as_ptr() as i64;
    let all = [ResultRole::Value(0), ResultRole::Shadow(0), ResultRole::Value(1), ResultRole::Shadow(1)].map(at);
    assert_eq!(all, [second_of(&x), second_of(&tx), second_of(&dx), second_of(&tdx)]);
}

/// Records of a pointer and a key change places by copies of bytes, in a function that knows of no
/// pointer: the gradient of `(k₁ v₁)² + 3 k₀ v₀`, and products with its Hessian, both ways.
#[test]
fn pointers_that_are_copied() {
    let text = "function %f(i64, i64) -> f64 {
        ss0 = explicit_slot 32, align = 8
        fn0 = %swap(i64, i64)
    block0(v0: i64, v1: i64):
        v2 = stack_addr.i64 ss0
        v3 = iconst.i64 16
        v4 = iadd v2, v3
        v5 = iconst.i64 8
        v6 = iadd v1, v5
        v7 = load.f64 v0
        v8 = load.f64 v0+8
        store v1, v2
        store v7, v2+8
        store v6, v4
        store v8, v4+8
        call fn0(v2, v4)
        v9 = load.i64 v2
        v10 = load.f64 v9
        v11 = load.f64 v2+8
        v12 = fmul v10, v11
        v13 = fmul v12, v12
        v14 = load.i64 v4
        v15 = load.f64 v14
        v16 = load.f64 v4+8
        v17 = fmul v15, v16
        v18 = f64const 0x1.8p1
        v19 = fma v17, v18, v13
        return v19
    }
    function %swap(i64, i64) {
        ss0 = explicit_slot 16, align = 8
        fn0 = %memcpy(i64, i64, i64) -> i64
    block0(v0: i64, v1: i64):
        v2 = stack_addr.i64 ss0
        v3 = iconst.i64 16
        v4 = call fn0(v2, v0, v3)
        v5 = call fn0(v0, v1, v3)
        v6 = call fn0(v1, v2, v3)
        return
    }";
    let mut m = Fixture::new(text, "f");
    let gradient = m.derivative("f", &Spec::gradient([Duplicated, Duplicated]));
    let forward = m.derivative_of(gradient, &Spec::tangent([Dual, Dual, Dual, Dual, Dual]));
    let tangent = m.derivative("f", &Spec::tangent([Dual, Dual]).results([ReturnActivity::DualOnly]));
    let reverse = m.derivative_of(tangent, &Spec::gradient([Duplicated; 4]));
    m.finish();
    use ParamRole::{Primal, Seed, Shadow, Tangent};
    let (mut k, mut v, mut along_k, mut along_v) = ([2.0, 5.0], [3.0, 0.5], [0.0, 1.0], [0.0, 0.0]);
    let slopes = ([3.0 * 3.0, 2.0 * 5.0 * 0.25], [3.0 * 2.0, 2.0 * 25.0 * 0.5]);
    let products = ([0.0, 2.0 * 0.25], [0.0, 4.0 * 5.0 * 0.5]);
    let (mut of_k, mut of_v, mut product_k, mut product_v) = ([0.0; 2], [0.0; 2], [0.0; 2], [0.0; 2]);
    m.call(forward, |role| match role {
        Primal(0) => address(&mut k),
        Shadow(0) => address(&mut along_k),
        Primal(1) => address(&mut of_k),
        Shadow(1) => address(&mut product_k),
        Primal(2) => address(&mut v),
        Shadow(2) => address(&mut along_v),
        Primal(3) => address(&mut of_v),
        Shadow(3) => address(&mut product_v),
        Primal(4) => double(1.0),
        Tangent(4) => double(0.0),
        other => panic!("{other:?}"),
    });
    assert_eq!((of_k, of_v), slopes);
    assert_eq!((product_k, product_v), products);
    let mut space = vec![0xaa_u8; 1 << 14];
    for times in [1.0, 2.0] {
        let (mut of_along_k, mut of_along_v) = ([0.0; 2], [0.0; 2]);
        (of_k, of_v) = if times == 1.0 { ([0.0; 2], [0.0; 2]) } else { (of_k, of_v) };
        m.call(reverse, |role| match role {
            Primal(0) => address(&mut k),
            Shadow(0) => address(&mut of_k),
            Primal(1) => address(&mut along_k),
            Shadow(1) => address(&mut of_along_k),
            Primal(2) => address(&mut v),
            Shadow(2) => address(&mut of_v),
            Primal(3) => address(&mut along_v),
            Shadow(3) => address(&mut of_along_v),
            Seed(_) => double(1.0),
            ParamRole::Workspace => address(&mut space),
            _ => DataValue::I64(1 << 14),
        });
        assert_eq!((of_along_k, of_along_v), slopes);
        assert_eq!((of_k, of_v), (products.0.map(|x| times * x), products.1.map(|x| times * x)));
    }
}
