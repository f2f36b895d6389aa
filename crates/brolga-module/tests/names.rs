//! Functions of the user's that are called what derived functions are called.

use brolga_module::ParamActivity::{Active, Const, Dual};
use brolga_module::{ResultRole, ReturnActivity, Spec, UserRule};
use brolga_testing::module::entry;
use cranelift_codegen::ir::InstBuilder;
use cranelift_module::{Linkage, Module};

use crate::common::{Fixture, double, number};
use crate::programs::{define, f64s, jit, run};

/// f(x, n) = x·(10·n), where `%f__gradient` is what multiplies by ten.
#[test]
fn an_import_with_the_name_of_a_derivative() {
    let mut m = jit();
    let sig = f64s(&m, 1, 1);
    let import = m.declare_function("f__gradient", Linkage::Import, &sig).expect("it is declared");
    let sig = f64s(&m, 2, 1);
    let f = define(&mut m, Some("f"), sig, |m, b, p| {
        let callee = m.declare_func_in_func(import, b.func);
        let call = b.ins().call(callee, &[p[1]]);
        let ten = b.inst_results(call)[0];
        let r = b.ins().fmul(p[0], ten);
        b.ins().return_(&[r]);
    });
    let all = m.derive(f, &Spec::gradient([Active, Active])).expect_err("nothing is known of it").to_string();
    assert!(all.contains("AD0150") && all.contains("%f__gradient"), "{all}");
    let one = m.derive(f, &Spec::gradient([Active, Const])).expect("it is constant");
    assert!(one.imports().contains("f__gradient"), "{:?}", one.imports());
    // A rule by that name is a rule.
    m.set_rule("f__gradient", UserRule::parse("x => z: 10").expect("a rule"));
    let spec = Spec::gradient([Active, Active]).results([ReturnActivity::ActiveOnly]);
    m.derivative(f, &spec).expect("there is a rule");
    assert!(m.get_name("f__gradient_2").is_some(), "the name is taken");
}

/// The same, defined: under each name that derived functions have.
#[test]
fn functions_with_the_names_of_derived_functions() {
    for ending in ["gradient", "tangent", "forward", "pullback", "consuming", "gradient_of_pointers"] {
        let mut m = jit();
        let name = format!("f__{ending}");
        let sig = f64s(&m, 1, 1);
        let callee = define(&mut m, Some(&name), sig, |_, b, p| {
            let r = b.ins().fmul(p[0], p[0]);
            b.ins().return_(&[r]);
        });
        let sig = f64s(&m, 2, 1);
        let f = define(&mut m, Some("f"), sig, |m, b, p| {
            let callee = m.declare_func_in_func(callee, b.func);
            let call = b.ins().call(callee, &[p[0]]);
            let square = b.inst_results(call)[0];
            let r = b.ins().fmul(square, p[1]);
            b.ins().return_(&[r]);
        });
        let of_result = [ReturnActivity::ActiveOnly];
        let reverse = m.derivative(f, &Spec::gradient([Active, Active]).results(of_result));
        let reverse = reverse.unwrap_or_else(|e| panic!("{name}: {e}"));
        let (forward, pullback) = m.pair(f, &Spec::pair([Active, Active])).unwrap_or_else(|e| panic!("{name}: {e}"));
        // Results that fit into registers.
        let along = Spec::tangent([Dual, Dual, Const]).results([ReturnActivity::DualOnly; 2]);
        let second = m.derivative(reverse, &along).unwrap_or_else(|e| panic!("{name}: {e}"));
        let doors = [reverse, second, f, forward, pullback].map(|id| entry(&mut *m, id).expect("it is callable"));
        m.finalize_definitions().expect("it links");
        assert_eq!(run(&m, doors[0], &[3.0, 5.0, 2.0])[..2], [60.0, 18.0], "{name}");
        // x, its tangent, y, its tangent, the seed
        assert_eq!(run(&m, doors[1], &[3.0, 1.0, 5.0, 0.5, 2.0])[..2], [26.0, 12.0], "{name}");
        assert_eq!(run(&m, doors[2], &[3.0, 5.0])[0], 45.0, "{name}");
    }
}

/// A rule whose functions are called what derived functions are called.
#[test]
fn rules_with_the_names_of_derived_functions() {
    let text = "function %h(f64) -> f64 {
    block0(v0: f64):
        v1 = fmul v0, v0
        return v1
    }
    function %f__pullback(f64, f64) -> f64 {
    block0(v0: f64, v1: f64):
        v2 = fadd v0, v0
        v3 = fmul v1, v2
        return v3
    }
    function %f__forward(f64) -> f64 system_v {
    block0(v0: f64):
        v1 = fmul v0, v0
        return v1
    }
    function %f(f64, f64) -> f64 {
        fn0 = %h(f64) -> f64
        fn1 = %f__pullback(f64, f64) -> f64
        fn2 = %f__forward(f64) -> f64 system_v
    block0(v0: f64, v1: f64):
        v2 = call fn0(v0)
        v3 = fmul v2, v1
        v4 = f64const 0.0
        v5 = call fn1(v4, v4)
        v6 = call fn2(v4)
        v8 = fadd v5, v6
        v9 = fadd v3, v8
        return v9
    }";
    for rule in
        ["x => adjoint f__pullback(x, seed) -> dx", "x => adjoint f__pullback(x, seed) -> dx after f__forward(x)"]
    {
        let mut m = Fixture::new(text, "f");
        m.module.set_rule("h", UserRule::parse(rule).unwrap_or_else(|e| panic!("{e}")));
        let found = m.module.derivative(m.func("f"), &Spec::gradient([Active, Active]));
        let id = found.unwrap_or_else(|e| panic!("{rule}: {e}"));
        m.door(id);
        let (forward, pullback) = m.pair("f", &Spec::pair([Active, Active]));
        m.finish();
        let r = m.call_with(id, &[double(3.0), double(5.0), double(2.0)]);
        let is = [ResultRole::Value(0), ResultRole::Cotangent(0), ResultRole::Cotangent(1)].map(|r0| number(&r, r0));
        assert_eq!(is, [Some(45.0), Some(60.0), Some(18.0)], "{rule}");
        let _ = (forward, pullback);
    }
}
