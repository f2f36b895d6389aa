//! Adjoints of users: functions with memory, in both modes, with and without a record, imported or
//! not, and derived again. Closed forms and the derivative of the body are the oracles.

use brolga_ir::{MemoryMode, Options};
use brolga_module::ParamActivity::{Active, Const, Dual, Duplicated};
use brolga_module::{AdModule, Derivative, ParamRole, ResultRole, ReturnActivity, Spec, UserRule};
use cranelift_codegen::data_value::DataValue;
use cranelift_jit::JITModule;
use cranelift_module::FuncId;

use crate::common::{Fixture, address, double, number};

/// `%scale(x, n, a)` multiplies n numbers by a, in place, and returns the sum of the squares of
/// what was there. Its functions of a rule are written by hand.
const SCALE: &str = "function %scale(i64, i64, f64) -> f64 {
block0(v0: i64, v1: i64, v2: f64):
    v3 = f64const 0.0
    jump block1(v0, v1, v3)
block1(v4: i64, v5: i64, v6: f64):
    brif v5, block2, block3
block2:
    v7 = load.f64 v4
    v8 = fmul v7, v7
    v9 = fadd v6, v8
    v10 = fmul v7, v2
    store v10, v4
    v11 = iconst.i64 8
    v12 = iadd v4, v11
    v13 = iconst.i64 1
    v14 = isub v5, v13
    jump block1(v12, v14, v9)
block3:
    return v6
}
function %scale__augmented(i64, i64, f64, i64) -> f64, i64 {
    fn0 = %malloc(i64) -> i64
    fn1 = %memcpy(i64, i64, i64) -> i64
    fn2 = %scale(i64, i64, f64) -> f64
block0(v0: i64, v1: i64, v2: f64, v3: i64):
    v4 = iconst.i64 8
    v5 = imul v1, v4
    v6 = iadd v5, v4
    v7 = call fn0(v6)
    store v3, v7
    v8 = iadd v7, v4
    v9 = call fn1(v8, v0, v5)
    v10 = call fn2(v0, v1, v2)
    return v10, v7
}
function %scale__adjoint(i64, i64, f64, f64, i64, i64) -> f64 {
    fn0 = %free(i64)
block0(v0: i64, v1: i64, v2: f64, v3: f64, v4: i64, v20: i64):
    v5 = iconst.i64 8
    v6 = iadd v4, v5
    v7 = f64const 0.0
    jump block1(v0, v6, v1, v7)
block1(v8: i64, v9: i64, v10: i64, v11: f64):
    brif v10, block2, block3
block2:
    v12 = load.f64 v8
    v13 = load.f64 v9
    v14 = fmul v12, v13
    v15 = fadd v11, v14
    v16 = fmul v12, v2
    v17 = fadd v13, v13
    v18 = fmul v17, v3
    v19 = fadd v16, v18
    store v19, v8
    v21 = iadd v8, v5
    v22 = iadd v9, v5
    v23 = iconst.i64 1
    v24 = isub v10, v23
    jump block1(v21, v22, v24, v15)
block3:
    call fn0(v4)
    return v11
}
function %scale__tangent(i64, i64, i64, f64, f64) -> f64, f64 {
    fn0 = %scale(i64, i64, f64) -> f64
block0(v0: i64, v1: i64, v2: i64, v3: f64, v4: f64):
    v5 = f64const 0.0
    jump block1(v0, v1, v2, v5)
block1(v6: i64, v7: i64, v8: i64, v9: f64):
    brif v8, block2, block3
block2:
    v10 = load.f64 v6
    v11 = load.f64 v7
    v12 = fmul v10, v11
    v13 = fadd v12, v12
    v14 = fadd v9, v13
    v15 = fmul v11, v3
    v16 = fmul v10, v4
    v17 = fadd v15, v16
    store v17, v7
    v18 = iconst.i64 8
    v19 = iadd v6, v18
    v20 = iadd v7, v18
    v21 = iconst.i64 1
    v22 = isub v8, v21
    jump block1(v19, v20, v22, v14)
block3:
    v23 = call fn0(v0, v2, v3)
    return v23, v9
}
function %f(i64, i64, f64) -> f64 {
    fn0 = %scale(i64, i64, f64) -> f64
block0(v0: i64, v1: i64, v2: f64):
    v3 = call fn0(v0, v1, v2)
    v4 = fmul v3, v2
    v5 = call fn0(v0, v1, v4)
    v6 = fadd v5, v3
    return v6
}
function %twice(i64, i64, f64, i64) -> f64 {
    fn0 = %scale(i64, i64, f64) -> f64
block0(v0: i64, v1: i64, v2: f64, v3: i64):
    v4 = f64const 0.0
    jump block1(v3, v4)
block1(v5: i64, v6: f64):
    v7 = call fn0(v0, v1, v2)
    v8 = fadd v6, v7
    v9 = iconst.i64 1
    v10 = isub v5, v9
    brif v10, block1(v10, v8), block2
block2:
    return v8
}";

const RULE: &str = "x, n, a => adjoint scale__adjoint(dx, n, a, seed, record, wanted) -> da \
                    after scale__augmented(x, n, a, overwritten) tangent scale__tangent(x, dx, n, a, da)";

fn near(is: f64, want: f64) {
    assert!((is - want).abs() <= 1e-12 * want.abs().max(1.0), "{is}, not {want}");
}

/// Cotangents, shadows, and what is in memory afterwards.
fn gradient(m: &Fixture, id: FuncId, n: usize, extra: Option<i64>) -> Vec<f64> {
    let (mut x, mut shadow) = ([0.3, -0.8, 1.2], [0.5, 0.25, -1.0]);
    let mut space = vec![0_u8; 1 << 14];
    let mut out = vec![];
    for _ in 0..2 {
        let results = m.call(id, |role| match role {
            ParamRole::Primal(0) => address(&mut x),
            ParamRole::Shadow(0) => address(&mut shadow),
            ParamRole::Primal(1) => DataValue::I64(n as i64),
            ParamRole::Primal(2) => double(0.7),
            ParamRole::Primal(3) => DataValue::I64(extra.expect("it has four parameters")),
            ParamRole::Seed(0) => double(-1.5),
            ParamRole::Workspace => address(&mut space),
            ParamRole::WorkspaceBytes => DataValue::I64(1 << 14),
            role => panic!("{role:?}"),
        });
        out.extend([ResultRole::Value(0), ResultRole::Cotangent(2)].map(|r| number(&results, r).expect("it is there")));
        out.extend(x.iter().chain(&shadow));
    }
    out
}

/// All that `%f` and `%twice` reach, and the functions of the rule.
fn fixture(rule: bool) -> Fixture {
    let text = format!(
        "{SCALE}
        function %all(i64, i64, f64) -> f64 {{
            fn0 = %f(i64, i64, f64) -> f64
            fn1 = %twice(i64, i64, f64, i64) -> f64
            fn2 = %scale__augmented(i64, i64, f64, i64) -> f64, i64
            fn3 = %scale__adjoint(i64, i64, f64, f64, i64, i64) -> f64
            fn4 = %scale__tangent(i64, i64, i64, f64, f64) -> f64, f64
        block0(v0: i64, v1: i64, v2: f64):
            v3 = call fn0(v0, v1, v2)
            v4 = call fn1(v0, v1, v2, v1)
            v5, v6 = call fn2(v0, v1, v2, v1)
            v7 = call fn3(v0, v1, v2, v2, v0, v0)
            v8, v9 = call fn4(v0, v0, v1, v2, v2)
            return v4
        }}"
    );
    let mut m = Fixture::new(&text, "all");
    if rule {
        m.module.set_rule("scale", UserRule::parse(RULE).expect("a rule"));
    }
    m
}

fn same(found: [Vec<f64>; 2]) {
    let near = |a: &f64, b: &f64| (a - b).abs() <= 1e-12 * b.abs().max(1.0);
    assert!(found[0].len() > 10 && found[0].iter().zip(&found[1]).all(|(a, b)| near(a, b)), "{found:?}");
}

#[test]
fn an_adjoint_with_a_record() {
    let spec = Spec::gradient([Duplicated, Const, Active]);
    let spec_of_two = Spec::gradient([Duplicated, Const, Active, Const]);
    let found = [false, true].map(|rule| {
        let mut m = fixture(rule);
        let f = m.derivative("f", &spec);
        let t = m.derivative("twice", &spec_of_two);
        m.finish();
        (0..4)
            .flat_map(|n| {
                let n = n.min(3);
                [gradient(&m, f, n, None), gradient(&m, t, n, Some(3))].concat()
            })
            .collect::<Vec<f64>>()
    });
    same(found);
    // The function itself is not derived.
    let m = fixture(true);
    let derived = m.module.derive(m.func("f"), &spec).expect("it is derived");
    let names = |f: &brolga_module::EmbeddedFunction| f.func.display().to_string();
    assert!(derived.functions.iter().all(|f| !f.symbol.starts_with("scale")), "{:?}", derived.functions.len());
    let text: String = derived.functions.iter().map(names).collect();
    assert!(text.contains("%scale__adjoint") && text.contains("%scale__augmented"), "{text}");
}

#[test]
fn a_tangent_of_memory() {
    let found = [false, true].map(|rule| {
        let mut m = fixture(rule);
        let f = m.derivative("f", &Spec::tangent([Dual, Const, Dual]));
        let t = m.derivative("twice", &Spec::tangent([Dual, Const, Dual, Const]));
        let text =
            format!("{:?}", m.module.derive(m.func("f"), &Spec::tangent([Dual, Const, Dual])).unwrap().functions);
        assert_eq!(text.contains("scale__tangent"), rule);
        m.finish();
        let mut out = vec![];
        for id in [f, t] {
            let (mut x, mut tangents) = ([0.3, -0.8, 1.2], [0.5, 0.25, -1.0]);
            let results = m.call(id, |role| match role {
                ParamRole::Primal(0) => address(&mut x),
                ParamRole::Shadow(0) => address(&mut tangents),
                ParamRole::Primal(1) => DataValue::I64(3),
                ParamRole::Primal(2) => double(0.7),
                ParamRole::Tangent(2) => double(-0.4),
                ParamRole::Primal(3) => DataValue::I64(2),
                role => panic!("{role:?}"),
            });
            out.extend(
                [ResultRole::Value(0), ResultRole::Tangent(0)].map(|r| number(&results, r).expect("it is there")),
            );
            out.extend(x.iter().chain(&tangents));
        }
        out
    });
    same(found);
}

/// The functions of a rule are derived where a derivative that calls them is.
#[test]
fn second_derivatives() {
    let found = [false, true].map(|rule| {
        let mut m = fixture(rule);
        let spec = Spec::gradient([Duplicated, Const, Active]).results([ReturnActivity::ActiveOnly]);
        let gradient = m.derivative("f", &spec);
        let roles = m.module.signature(gradient).expect("it is derived").params.clone();
        let moving = roles.iter().map(|role| match role {
            ParamRole::Primal(1) | ParamRole::Seed(_) | ParamRole::WorkspaceBytes => Const,
            _ => Dual,
        });
        let moving: Vec<_> = moving.collect();
        let second = m.derivative_of(gradient, &Spec::tangent(moving));
        m.finish();
        let (mut x, mut shadow) = ([0.3, -0.8, 1.2], [0.5, 0.25, -1.0]);
        let (mut moves, mut products) = ([1.0, -0.5, 0.25], [0.0; 3]);
        let (mut tape, mut tape_shadow, mut outer_workspace) =
            (vec![0_u8; 1 << 14], vec![0_u8; 1 << 14], vec![0_u8; 1 << 14]);
        let results = m.call(second, |role| match role {
            ParamRole::Primal(k) => match roles[k] {
                ParamRole::Primal(0) => address(&mut x),
                ParamRole::Primal(1) => DataValue::I64(3),
                ParamRole::Primal(2) => double(0.7),
                ParamRole::Shadow(0) => address(&mut shadow),
                ParamRole::Workspace => address(&mut tape),
                ParamRole::WorkspaceBytes => DataValue::I64(1 << 14),
                _ => double(1.0),
            },
            ParamRole::Shadow(k) => match roles[k] {
                ParamRole::Primal(0) => address(&mut moves),
                ParamRole::Shadow(0) => address(&mut products),
                _ => address(&mut tape_shadow),
            },
            ParamRole::Workspace => address(&mut outer_workspace),
            ParamRole::WorkspaceBytes => DataValue::I64(1 << 14),
            _ => double(-0.3),
        });
        let numbers = [ResultRole::Value(0), ResultRole::Tangent(0)].map(|r| number(&results, r).expect("it is there"));
        [&numbers[..], &x, &shadow, &moves, &products].concat()
    });
    same(found);
}

/// What a rule is told: which memory is another one by then, and what is asked for.
#[test]
fn what_is_overwritten_and_what_is_wanted() {
    let text = "function %g(i64, f64, f64) -> f64 {
    block0(v0: i64, v1: f64, v2: f64):
        v3 = load.f64 v0
        v4 = fmul v3, v1
        v5 = fmul v4, v2
        return v5
    }
    function %g__augmented(i64, f64, f64, i64) -> f64, i64 {
        fn0 = %g(i64, f64, f64) -> f64
    block0(v0: i64, v1: f64, v2: f64, v3: i64):
        v4 = call fn0(v0, v1, v2)
        return v4, v3
    }
    function %g__adjoint(i64, i64) -> f64, f64 {
    block0(v0: i64, v1: i64):
        v2 = fcvt_from_uint.f64 v0
        v3 = fcvt_from_uint.f64 v1
        return v2, v3
    }
    function %kept(i64, f64, f64) -> f64 {
        fn0 = %g(i64, f64, f64) -> f64
    block0(v0: i64, v1: f64, v2: f64):
        v3 = call fn0(v0, v1, v2)
        return v3
    }
    function %lost(i64, f64, f64) -> f64 {
        fn0 = %g(i64, f64, f64) -> f64
    block0(v0: i64, v1: f64, v2: f64):
        v3 = call fn0(v0, v1, v2)
        store v1, v0
        return v3
    }
    function %f(i64, f64, f64) -> f64 {
        fn0 = %kept(i64, f64, f64) -> f64
        fn1 = %lost(i64, f64, f64) -> f64
        fn2 = %g__augmented(i64, f64, f64, i64) -> f64, i64
        fn3 = %g__adjoint(i64, i64) -> f64, f64
    block0(v0: i64, v1: f64, v2: f64):
        v3 = call fn0(v0, v1, v2)
        v4 = call fn1(v0, v1, v2)
        v5, v6 = call fn2(v0, v1, v2, v0)
        v7, v8 = call fn3(v0, v0)
        return v4
    }";
    let mut m = Fixture::new(text, "f");
    let rule = "p, a, b => adjoint g__adjoint(record, wanted) -> da, db after g__augmented(p, a, b, overwritten)";
    m.module.set_rule("g", UserRule::parse(rule).expect("a rule"));
    let all = Spec::gradient([Duplicated, Active, Active]).results([ReturnActivity::ActiveOnly]);
    let some = Spec::gradient([Const, Active, Active]).results([ReturnActivity::ActiveOnly]);
    let (preserved, lost) = (m.derivative("kept", &all), m.derivative("lost", &all));
    let constant = m.derivative("kept", &some);
    m.finish();
    for (id, overwritten, wanted) in [(preserved, 0b110, 0b111), (lost, 0b111, 0b111), (constant, 0b110, 0b110)] {
        let (mut x, mut shadow) = ([2.0], [0.0]);
        let results = m.call(id, |role| match role {
            ParamRole::Primal(0) => address(&mut x),
            ParamRole::Shadow(0) => address(&mut shadow),
            _ => double(1.0),
        });
        let is = [1, 2].map(|i| number(&results, ResultRole::Cotangent(i)).expect("it is there") as i64);
        // Of floats by value nothing is said.
        assert_eq!((is[0] & 1, is[1]), (overwritten & 1, wanted));
    }
}

#[test]
fn what_does_not_fit_is_told() {
    let spec = Spec::gradient([Duplicated, Const, Active]);
    let options = Options { memory: MemoryMode::Restore, ..Options::full() };
    let mut m = fixture(false);
    m.module.set_rule("scale", UserRule::parse("x, n, a => adjoint scale__adjoint(dx, n) -> da").expect("a rule"));
    let found = m.module.derive(m.func("f"), &spec).expect_err("refused").to_string();
    assert!(found.contains("AD0175") && found.contains("%scale__adjoint is declared as"), "{found}");
    let jit = JITModule::new(brolga_testing::jit::host());
    let mut module = AdModule::with_options(jit, options);
    let program = brolga_testing::program(SCALE);
    let key = program.func("f").expect("it is in the text");
    let f = brolga_testing::module::load(&mut module, &program, key).expect("it is compiled").functions["f"];
    module.set_rule("scale", UserRule::parse(RULE).expect("a rule"));
    let found = module.derive(f, &spec).expect_err("refused").to_string();
    assert!(found.contains("AD0176") && found.contains("memory is restored"), "{found}");
}

extern "C" fn norm(x: *const f64, n: i64) -> f64 {
    // SAFETY: as many numbers as it is told.
    let x = unsafe { std::slice::from_raw_parts(x, n as usize) };
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

extern "C" fn norm_adjoint(x: *const f64, shadow: *mut f64, n: i64, seed: f64) {
    let norm = norm(x, n);
    if shadow.is_null() {
        return;
    }
    // SAFETY: as above.
    let (x, shadow) =
        unsafe { (std::slice::from_raw_parts(x, n as usize), std::slice::from_raw_parts_mut(shadow, n as usize)) };
    x.iter().zip(shadow).for_each(|(x, s)| *s += seed * x / norm);
}

/// A function of the host's, with its adjoint there as well.
#[test]
fn imports() {
    let mut builder = brolga_testing::jit::host();
    builder.symbols([("norm", norm as *const u8), ("norm__adjoint", norm_adjoint as *const u8)]);
    let mut module = AdModule::new(JITModule::new(builder));
    let text = "function %f(i64, i64, f64) -> f64 {
        fn0 = %norm(i64, i64) -> f64
    block0(v0: i64, v1: i64, v2: f64):
        v3 = load.f64 v0
        v4 = fmul v3, v2
        store v4, v0
        v5 = call fn0(v0, v1)
        v6 = fmul v5, v2
        return v6
    }
    function %pointer(i64, i64) -> f64 {
        sig0 = (i64, i64) -> f64
        fn0 = %norm(i64, i64) -> f64
    block0(v0: i64, v1: i64):
        v2 = func_addr.i64 fn0
        v3 = call_indirect sig0, v2(v0, v1)
        return v3
    }";
    let program = brolga_testing::program(text);
    let mut known = vec![];
    for name in ["f", "pointer"] {
        let key = program.func(name).expect("it is in the text");
        known.push(brolga_testing::module::load(&mut module, &program, key).expect("it is compiled").functions[name]);
    }
    let spec = Spec::gradient([Duplicated, Const, Active]);
    let told = |m: &AdModule<JITModule>, f: FuncId, spec: &Spec| m.derive(f, spec).expect_err("refused").to_string();
    assert!(told(&module, known[0], &spec).contains("AD0150"));
    let rule = UserRule::parse("x, n => adjoint norm__adjoint(x, dx, n, seed)").expect("a rule");
    module.set_rule("norm", rule);
    let found = told(&module, known[0], &Spec::tangent([Dual, Const, Dual]));
    assert!(found.contains("AD0176") && found.contains("no tangent, and no body"), "{found}");
    let found = told(&module, known[1], &Spec::gradient([Duplicated, Const]));
    assert!(found.contains("AD0176") && found.contains("by its address"), "{found}");
    let id = module.derivative(known[0], &spec).expect("it is derived");
    module.finalize_definitions().expect("it is linked");
    type Gradient = extern "C" fn(*mut f64, *mut f64, i64, f64, f64) -> Results;
    // SAFETY: x, its shadow, n, a, seed; value and cotangent are in two registers.
    let code: Gradient = unsafe { std::mem::transmute(module.get_finalized_function(id)) };
    let (mut x, mut shadow) = ([3.0, -4.0], [0.5, 0.25]);
    let Results(value, of_a) = code(x.as_mut_ptr(), shadow.as_mut_ptr(), 2, 2.0, 1.5);
    // a·|(a·x₀, x₁)|, and the shadow of what is in x₀ afterwards, a·x₀.
    let norm = f64::hypot(6.0, 4.0);
    near(value, 2.0 * norm);
    near(of_a, 1.5 * norm + (1.5 * 2.0 * 6.0 / norm + 0.5) * 3.0);
    near(shadow[0], (1.5 * 2.0 * 6.0 / norm + 0.5) * 2.0);
    near(shadow[1], 0.25 + 1.5 * 2.0 * -4.0 / norm);
}

#[repr(C)]
struct Results(f64, f64);

/// Numbers on their way from one thread to another.
#[derive(Default)]
struct Mail(std::sync::Mutex<Vec<f64>>, std::sync::Condvar);

impl Mail {
    fn put(&self, x: f64) {
        self.0.lock().expect("no thread panics").push(x);
        self.1.notify_all();
    }

    fn take(&self) -> f64 {
        let there = self.1.wait_while(self.0.lock().expect("no thread panics"), |m| m.is_empty());
        there.expect("no thread panics").remove(0)
    }
}

/// There and back.
#[derive(Default)]
struct Ways([Mail; 2]);

// SAFETY of all four: the program passes a number each, and its own ways.
extern "C" fn send(x: *const f64, ways: *const Ways) {
    unsafe { (*ways).0[0].put(*x) }
}

extern "C" fn send_adjoint(shadow: *mut f64, ways: *const Ways) {
    let back = unsafe { (*ways).0[1].take() };
    if let Some(shadow) = unsafe { shadow.as_mut() } {
        *shadow += back;
    }
}

extern "C" fn receive(x: *mut f64, ways: *const Ways) {
    unsafe { *x = (*ways).0[0].take() }
}

extern "C" fn receive_adjoint(shadow: *mut f64, ways: *const Ways) {
    let back = unsafe { shadow.as_mut() }.map_or(0.0, std::mem::take);
    unsafe { (*ways).0[1].put(back) }
}

/// What comes from another thread is active, and so is what goes to one, though neither function
/// shows it.
#[test]
fn numbers_that_go_to_another_thread() {
    let text = "function %sender(i64, f64, i64) {
        ss0 = explicit_slot 8
        fn0 = %send(i64, i64)
    block0(v0: i64, v1: f64, v2: i64):
        v3 = load.f64 v0
        v4 = fmul v3, v1
        v5 = stack_addr.i64 ss0
        store v4, v5
        call fn0(v5, v2)
        return
    }
    function %receiver(f64, i64) -> f64 {
        ss0 = explicit_slot 8
        fn0 = %receive(i64, i64)
    block0(v0: f64, v1: i64):
        v2 = stack_addr.i64 ss0
        call fn0(v2, v1)
        v3 = load.f64 v2
        v4 = fmul v3, v3
        v5 = fmul v4, v0
        return v5
    }
    function %deaf(i64, i64) -> f64 {
        fn0 = %receive(i64, i64)
    block0(v0: i64, v1: i64):
        call fn0(v0, v1)
        v2 = f64const 0.0
        return v2
    }";
    let mut builder = brolga_testing::jit::host();
    builder.symbols([
        ("send", send as *const u8),
        ("send__adjoint", send_adjoint as *const u8),
        ("receive", receive as *const u8),
        ("receive__adjoint", receive_adjoint as *const u8),
    ]);
    let mut module = AdModule::new(JITModule::new(builder));
    let program = brolga_testing::program(text);
    let [sender, receiver, deaf] = ["sender", "receiver", "deaf"].map(|name| {
        let key = program.func(name).expect("it is in the text");
        brolga_testing::module::load(&mut module, &program, key).expect("it is compiled").functions[name]
    });
    module.set_rule("send", UserRule::parse("x, ways => adjoint send__adjoint(dx, ways)").expect("a rule"));
    module.set_rule("receive", UserRule::parse("x, ways => adjoint receive__adjoint(dx, ways)").expect("a rule"));
    let of_sender = module.derivative(sender, &Spec::gradient([Duplicated, Const, Const])).expect("it is derived");
    let alone = [ReturnActivity::ActiveOnly];
    let of_receiver = module.derivative(receiver, &Spec::gradient([Active, Const]).results(alone)).expect("derived");
    let of_deaf = module.derivative(deaf, &Spec::gradient([Const, Const]).results(alone)).expect("derived");
    module.finalize_definitions().expect("it is linked");
    let code = |id| module.get_finalized_function(id);
    // SAFETY: these are their signatures.
    let (of_sender, of_receiver, of_deaf) = unsafe {
        (
            std::mem::transmute::<*const u8, extern "C" fn(*const f64, *mut f64, f64, *const Ways)>(code(of_sender)),
            std::mem::transmute::<*const u8, extern "C" fn(f64, *const Ways, f64) -> f64>(code(of_receiver)),
            std::mem::transmute::<*const u8, extern "C" fn(*mut f64, *const Ways, f64)>(code(of_deaf)),
        )
    };
    let ways = Ways::default();
    for _ in 0..2 {
        let (w, mut of_w) = (1.5, 0.25);
        std::thread::scope(|s| {
            let ways = &ways;
            let other = s.spawn(move || of_receiver(3.0, ways, 1.0));
            of_sender(&w, &mut of_w, 2.0, ways);
            // 3(2w)²
            near(other.join().expect("it does not panic"), 9.0);
        });
        near(of_w, 0.25 + 3.0 * 2.0 * 3.0 * 2.0);
    }
    // What is received is not used, and the sender hears of it.
    let (w, mut of_w, mut x) = (1.5, 0.25, 0.0);
    std::thread::scope(|s| {
        let ways = &ways;
        s.spawn(move || of_sender(&w, &mut of_w, 2.0, ways));
        of_deaf(&mut x, ways, 1.0);
    });
    near(of_w, 0.25);
}

#[path = "../examples/allreduce.rs"]
mod allreduce;
#[path = "../examples/implicit.rs"]
mod implicit;

#[test]
fn an_equation_that_is_solved() {
    for theta in [[2.0, 0.5], [3.0, -0.25]] {
        let [t, u] = theta;
        let (value, gradient) = implicit::value_and_gradient(theta).expect("it is derived");
        let square = 1.0 + u * u;
        near(value, u * t / square);
        near(gradient[0], u / square);
        near(gradient[1], t * (1.0 - u * u) / (square * square));
    }
}

#[test]
fn a_sum_over_threads() {
    for n in [1, 2, 3, 7] {
        let w: Vec<f64> = (0..n).map(|i| 0.5 - 0.75 * f64::from(i)).collect();
        let x: Vec<f64> = (0..n).map(|i| 1.0 + 0.5 * f64::from(i)).collect();
        let sum: f64 = w.iter().zip(&x).map(|(w, x)| w * x).sum();
        let found = allreduce::gradients(&w, &x).expect("it is derived");
        for ((value, gradient), x) in found.into_iter().zip(&x) {
            near(value, sum * sum);
            // Each of n losses is the square of the sum.
            near(gradient, f64::from(n) * 2.0 * sum * x);
        }
    }
}

/// The derivative of [`norm_adjoint`] along a direction of `x`, of the shadow and of the seed.
extern "C" fn norm_adjoint_tangent(
    x: *const f64,
    dx: *const f64,
    shadow: *mut f64,
    dshadow: *mut f64,
    n: i64,
    seed: f64,
    dseed: f64,
) {
    norm_adjoint(x, shadow, n, seed);
    let length = norm(x, n);
    for i in 0..n as usize {
        // SAFETY: as many numbers as it is told; the caller passes a shadow for each.
        unsafe {
            let along: f64 = (0..n as usize).map(|k| *x.add(k) * *dx.add(k)).sum::<f64>() / length;
            let slope = (*dx.add(i) - *x.add(i) * along / length) / length;
            *dshadow.add(i) += dseed * *x.add(i) / length + seed * slope;
        }
    }
}

/// The derivative of [`norm`] along a direction of `x`.
extern "C" fn norm_tangent(x: *const f64, dx: *const f64, n: i64) -> Results {
    let length = norm(x, n);
    // SAFETY: as many numbers as it is told, and a tangent for each.
    let along = (0..n as usize).map(|k| unsafe { *x.add(k) * *dx.add(k) }).sum::<f64>() / length;
    Results(length, along)
}

/// An adjoint of the host's has a rule of its own, by which its calls are derived.
#[test]
fn a_rule_of_an_adjoint() {
    let mut builder = brolga_testing::jit::host();
    builder.symbols([
        ("norm", norm as *const u8),
        ("norm__tangent", norm_tangent as *const u8),
        ("norm__adjoint", norm_adjoint as *const u8),
        ("norm__adjoint__tangent", norm_adjoint_tangent as *const u8),
    ]);
    let mut module = AdModule::new(JITModule::new(builder));
    let text = "function %f(i64, i64) -> f64 {
        fn0 = %norm(i64, i64) -> f64
    block0(v0: i64, v1: i64):
        v2 = call fn0(v0, v1)
        v3 = fmul v2, v2
        v4 = fmul v3, v2
        return v4
    }";
    let program = brolga_testing::program(text);
    let key = program.func("f").expect("it is in the text");
    let f = brolga_testing::module::load(&mut module, &program, key).expect("it is compiled").functions["f"];
    let rule = "x, n => adjoint norm__adjoint(x, dx, n, seed) tangent norm__tangent(x, dx, n)";
    module.set_rule("norm", UserRule::parse(rule).expect("a rule"));
    let spec = Spec::gradient([Duplicated, Const]).results([ReturnActivity::ActiveOnly]);
    let gradient = module.derivative(f, &spec).expect("it is derived");
    let nested_spec = module.signature(gradient).expect("it is derived").nested(Derivative::Tangent);
    let found = module.derive(gradient, &nested_spec).expect_err("refused").to_string();
    assert!(found.contains("AD0150") && found.contains("norm__adjoint"), "{found}");
    let rule = "x, s, n, seed => adjoint none(x) tangent norm__adjoint__tangent(x, dx, s, ds, n, seed, dseed)";
    module.set_rule("norm__adjoint", UserRule::parse(rule).expect("a rule"));
    let product = module.derivative(gradient, &nested_spec).expect("it is derived");
    module.finalize_definitions().expect("it is linked");
    type Product = extern "C" fn(*mut f64, *mut f64, *mut f64, *mut f64, i64, f64, f64);
    // SAFETY: x and its tangent, the shadow and its tangent, n, the seed and its tangent.
    let code: Product = unsafe { std::mem::transmute(module.get_finalized_function(product)) };
    let (mut x, mut dx) = ([3.0, -4.0], [0.5, 2.0]);
    let (mut gradient, mut along) = ([0.25, -1.0], [0.75, 0.0]);
    code(x.as_mut_ptr(), dx.as_mut_ptr(), gradient.as_mut_ptr(), along.as_mut_ptr(), 2, 1.5, -0.5);
    // The gradient of |x|³ is 3|x|x.
    let (length, inner) = (5.0, 3.0 * 0.5 - 4.0 * 2.0);
    for i in 0..2 {
        let slope = 3.0 * (inner / length * x[i] + length * dx[i]);
        near(gradient[i], [0.25, -1.0][i] + 1.5 * 3.0 * length * x[i]);
        near(along[i], [0.75, 0.0][i] + 1.5 * slope - 0.5 * 3.0 * length * x[i]);
    }
}
