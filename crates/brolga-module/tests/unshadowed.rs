//! What a function with an adjoint of the user's writes where there is no shadow, and data objects
//! that it writes to.

use brolga_module::ParamActivity::{Active, Const, Dual, Duplicated};
use brolga_module::{DataActivity, ParamRole, ResultRole, ReturnActivity, Spec, UserRule};
use brolga_testing::child::in_child;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, types};
use cranelift_module::{DataDescription, Linkage, Module};

use crate::common::{Fixture, address, double, number};
use crate::programs::{define, f64s, jit, run};

fn near(is: f64, want: f64) {
    assert!((is - want).abs() <= 1e-12 * want.abs().max(1.0), "{is}, not {want}");
}

/// `%axpy(a, x, y)` adds a·x₀ to y₀. `%f` passes what it is given, `%g` what it finds in a table.
const AXPY: &str = "function %axpy(f64, i64, i64) {
block0(v0: f64, v1: i64, v2: i64):
    v3 = load.f64 v1
    v4 = load.f64 v2
    v5 = fmul v0, v3
    v6 = fadd v4, v5
    store v6, v2
    return
}
function %axpy__adjoint(f64, i64, i64, i64) -> f64 {
block0(v0: f64, v1: i64, v2: i64, v3: i64):
    v10 = f64const 0.0
    brif v3, block3, block2(v10)
block3:
    v4 = load.f64 v3
    v5 = load.f64 v1
    v6 = fmul v4, v5
    brif v2, block1, block2(v6)
block1:
    v7 = load.f64 v2
    v8 = fmul v4, v0
    v9 = fadd v7, v8
    store v9, v2
    jump block2(v6)
block2(v11: f64):
    return v11
}
function %f(f64, i64, i64) -> f64 {
    fn0 = %axpy(f64, i64, i64)
block0(v0: f64, v1: i64, v2: i64):
    call fn0(v0, v1, v2)
    v3 = load.f64 v2
    v4 = fmul v3, v3
    return v4
}
function %g(f64, i64) -> f64 {
    fn0 = %axpy(f64, i64, i64)
block0(v0: f64, v1: i64):
    v2 = load.i64 v1
    v3 = load.i64 v1+8
    call fn0(v0, v2, v3)
    v4 = load.f64 v3
    v5 = fmul v4, v4
    return v5
}
function %all(f64, i64, i64) -> f64 {
    fn0 = %f(f64, i64, i64) -> f64
    fn1 = %g(f64, i64) -> f64
    fn2 = %axpy__adjoint(f64, i64, i64, i64) -> f64
block0(v0: f64, v1: i64, v2: i64):
    v3 = call fn0(v0, v1, v2)
    v4 = call fn1(v0, v1)
    v5 = call fn2(v0, v1, v2, v2)
    return v3
}";

/// What a function writes where there is no shadow: refused, in both modes, if it may be active;
/// what it only reads need have none.
#[test]
fn what_is_written_where_there_is_no_shadow() {
    let rule = "a, x, y => adjoint axpy__adjoint(a, x, dx, dy) -> da";
    let mut m = Fixture::new(AXPY, "all");
    m.module.set_rule("axpy", UserRule::parse(rule).expect("a rule"));
    let f = m.func("f");
    let told = |m: &Fixture, spec: &Spec| m.module.derive(f, spec).expect_err("refused").to_string();
    for spec in [
        Spec::gradient([Active, Const, Const]),
        Spec::gradient([Const, Duplicated, Const]),
        Spec::gradient([Active, Duplicated, Const]),
        Spec::pair([Active, Const, Const]),
        Spec::tangent([Dual, Const, Const]),
    ] {
        let found = told(&m, &spec);
        let by_rule = found.contains("argument 2 of a call") && found.contains("`reads`");
        let forward = spec.derivative == brolga_module::Derivative::Tangent;
        assert!(found.contains("AD0120") && (by_rule || forward), "{found}");
    }
    // Nothing active goes in, or the output has a shadow.
    m.module.derive(f, &Spec::gradient([Const, Const, Const])).expect("it is derived");
    let id = m.derivative("f", &Spec::gradient([Active, Const, Duplicated]).results([ReturnActivity::ActiveOnly]));
    m.module.set_rule("axpy", UserRule::parse(&format!("{rule} reads y")).expect("a rule"));
    let found = told(&m, &Spec::gradient([Active, Const, Duplicated]));
    assert!(found.contains("AD0176") && found.contains("it writes behind argument 2"), "{found}");
    m.finish();
    let (mut x, mut y, mut shadow) = ([3.0], [1.0], [0.5]);
    let results = m.call(id, |role| match role {
        ParamRole::Primal(0) => double(2.0),
        ParamRole::Primal(1) => address(&mut x),
        ParamRole::Primal(2) => address(&mut y),
        ParamRole::Shadow(2) => address(&mut shadow),
        _ => double(1.0),
    });
    // (1 + 2·3)², and the seed of what is there afterwards.
    near(number(&results, ResultRole::Cotangent(0)).expect("it is there"), (2.0 * 7.0 + 0.5) * 3.0);
    near(shadow[0], 2.0 * 7.0 + 0.5);
}

/// The same where it is seen at run time only: a trap.
#[test]
fn what_is_written_where_a_table_has_no_shadow() {
    let table = |of_x: bool, of_y: bool, active: bool| {
        let mut m = Fixture::new(AXPY, "all");
        let rule = "a, x, y => adjoint axpy__adjoint(a, x, dx, dy) -> da";
        m.module.set_rule("axpy", UserRule::parse(rule).expect("a rule"));
        let a = if active { Active } else { Const };
        let id = m.derivative("g", &Spec::gradient([a, Duplicated]).results([ReturnActivity::ActiveOnly]));
        m.finish();
        let (mut x, mut y, mut dx, mut dy) = ([3.0], [1.0], [0.25], [0.0]);
        let mut pointers = [x.as_mut_ptr() as u64, y.as_mut_ptr() as u64];
        let place = |is: bool, at: &mut [f64]| if is { at.as_mut_ptr() as u64 } else { 0 };
        let mut shadows = [place(of_x, &mut dx), place(of_y, &mut dy)];
        let results = m.call(id, |role| match role {
            ParamRole::Primal(0) => double(2.0),
            ParamRole::Primal(1) => address(&mut pointers),
            ParamRole::Shadow(1) => address(&mut shadows),
            _ => double(1.0),
        });
        (number(&results, ResultRole::Cotangent(0)), dx[0], dy[0])
    };
    let test = "what_is_written_where_a_table_has_no_shadow";
    // What it writes goes where there is no shadow: its first argument is active, or its second.
    for (of_x, active) in [(false, true), (true, false)] {
        let status = in_child(module_path!(), test, || {
            table(of_x, false, active);
            std::process::exit(0);
        });
        assert!(status.is_some_and(|s| s.code().is_none()), "{status:?}");
    }
    assert_eq!(table(true, true, true), (Some(2.0 * 7.0 * 3.0), 0.25 + 2.0 * 7.0 * 2.0, 2.0 * 7.0));
    assert_eq!(table(false, true, true), (Some(2.0 * 7.0 * 3.0), 0.25, 2.0 * 7.0));
    // Nothing active goes in.
    assert_eq!(table(false, false, false), (None, 0.25, 0.0));
}

/// A function with an adjoint that writes to a data object: its shadow is the adjoint's to read,
/// and without one it is refused.
#[test]
fn data_of_a_function_with_an_adjoint() {
    for has_shadow in [true, false] {
        let mut m = jit();
        let [cell, shadow] = ["cell", "cell_shadow"].map(|name| {
            let id = m.declare_data(name, Linkage::Local, true, false).expect("it is new");
            let mut zeros = DataDescription::new();
            zeros.define_zeroinit(8);
            m.define_data(id, &zeros).expect("it is new");
            id
        });
        let (one, two) = (f64s(&m, 1, 0), f64s(&m, 0, 1));
        // cell = x², by a function whose adjoint takes the cotangent out of the shadow.
        let square = define(&mut m, Some("square"), one, |m, b, p| {
            let data = m.declare_data_in_func(cell, b.func);
            let at = b.ins().symbol_value(types::I64, data);
            let r = b.ins().fmul(p[0], p[0]);
            b.ins().store(MemFlagsData::new(), r, at, 0);
            b.ins().return_(&[]);
        });
        let sig = f64s(&m, 1, 1);
        define(&mut m, Some("square__adjoint"), sig.clone(), |m, b, p| {
            let data = m.declare_data_in_func(shadow, b.func);
            let at = b.ins().symbol_value(types::I64, data);
            let ct = b.ins().load(types::F64, MemFlagsData::new(), at, 0);
            let zero = b.ins().f64const(0.0);
            b.ins().store(MemFlagsData::new(), zero, at, 0);
            let r = b.ins().fmul(ct, p[0]);
            let r = b.ins().fadd(r, r);
            b.ins().return_(&[r]);
        });
        let read = define(&mut m, Some("read"), two, |m, b, _| {
            let data = m.declare_data_in_func(cell, b.func);
            let at = b.ins().symbol_value(types::I64, data);
            let r = b.ins().load(types::F64, MemFlagsData::new(), at, 0);
            b.ins().return_(&[r]);
        });
        let f = define(&mut m, Some("f"), sig, |m, b, p| {
            let (square, read) = (m.declare_func_in_func(square, b.func), m.declare_func_in_func(read, b.func));
            b.ins().call(square, &[p[0]]);
            let call = b.ins().call(read, &[]);
            let r = b.inst_results(call)[0];
            let r = b.ins().fmul(r, p[0]);
            b.ins().return_(&[r]);
        });
        m.set_rule("square", UserRule::parse("x => adjoint square__adjoint(x) -> dx").expect("a rule"));
        m.set_data(shadow, DataActivity::Const);
        m.set_data(cell, if has_shadow { DataActivity::Shadow(shadow) } else { DataActivity::Const });
        let spec = Spec::gradient([Active]).results([ReturnActivity::ActiveOnly]);
        let found = m.derivative(f, &spec);
        if !has_shadow {
            let told = found.expect_err("it is refused").to_string();
            assert!(told.contains("AD0120") && told.contains("%cell, which is constant"), "{told}");
            continue;
        }
        let id = found.unwrap_or_else(|e| panic!("{e}"));
        let door = brolga_testing::module::entry(&mut *m, id).expect("it is callable");
        m.finalize_definitions().expect("it is linked");
        // x³, twice.
        for _ in 0..2 {
            near(run(&m, door, &[1.5, 2.0])[0], 2.0 * 3.0 * 1.5 * 1.5);
        }
    }
}

/// The functions of a rule that the module does not have are imports of the derivative.
#[test]
fn an_adjoint_that_is_nowhere() {
    let text = "function %f(f64) -> f64 {
        fn0 = %smooth(f64) -> f64
    block0(v0: f64):
        v1 = call fn0(v0)
        return v1
    }
    function %smooth(f64) -> f64 {
    block0(v0: f64):
        return v0
    }";
    let mut m = Fixture::new(text, "f");
    m.module.set_rule("smooth", UserRule::parse("x => adjoint missing(x, seed) -> dx").expect("a rule"));
    let derived = m.module.derive(m.func("f"), &Spec::gradient([Active])).expect("it is derived");
    assert!(derived.imports().contains("missing"), "{:?}", derived.imports());
}
