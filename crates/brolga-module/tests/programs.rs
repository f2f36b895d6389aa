//! Programs as frontends write them: data, addresses of functions, calls, names.

use brolga_module::ParamActivity::{Active, Const, Dual};
use brolga_module::{AdModule, DataActivity, ParamRole, ResultRole, ReturnActivity, Spec};
use brolga_testing::module::entry;
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, MemFlagsData, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::JITModule;
use cranelift_module::{DataDescription, DataId, FuncId, Linkage, Module};

use crate::common::{Fixture, double, number};

pub(crate) fn jit() -> AdModule<JITModule> {
    AdModule::new(JITModule::new(brolga_testing::jit::host()))
}

pub(crate) fn f64s(m: &impl Module, params: usize, returns: usize) -> ir::Signature {
    let mut sig = m.make_signature();
    sig.params.extend(vec![AbiParam::new(types::F64); params]);
    sig.returns.extend(vec![AbiParam::new(types::F64); returns]);
    sig
}

/// Define a function as a frontend does.
pub(crate) fn define<M: Module>(
    m: &mut M,
    name: Option<&str>,
    sig: ir::Signature,
    body: impl FnOnce(&mut M, &mut FunctionBuilder<'_>, &[ir::Value]),
) -> FuncId {
    let id = match name {
        Some(name) => m.declare_function(name, Linkage::Export, &sig),
        None => m.declare_anonymous_function(&sig),
    };
    let id = id.expect("it is new");
    let mut cx = m.make_context();
    cx.func.signature = sig;
    let mut scratch = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut cx.func, &mut scratch);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let params = b.block_params(block).to_vec();
    body(m, &mut b, &params);
    b.seal_all_blocks();
    b.finalize(m.target_config());
    m.define_function(id, &mut cx).expect("it compiles");
    id
}

fn doubles(m: &mut AdModule<JITModule>, name: &str, writable: bool, values: &[f64]) -> DataId {
    let id = m.declare_data(name, Linkage::Local, writable, false).unwrap();
    let mut d = DataDescription::new();
    d.define(values.iter().flat_map(|x| x.to_ne_bytes()).collect());
    d.set_align(8);
    m.define_data(id, &d).unwrap();
    id
}

/// Call a function of doubles by its entry: arguments in, results out.
pub(crate) fn run(m: &AdModule<JITModule>, door: FuncId, args: &[f64]) -> Vec<f64> {
    let mut cells = vec![[0.0_f64, 0.0]; args.len().max(8)];
    args.iter().zip(&mut cells).for_each(|(a, c)| c[0] = *a);
    // SAFETY: an entry of one pointer, to cells of 16 bytes.
    let f: extern "C" fn(*mut [f64; 2]) = unsafe { std::mem::transmute(m.get_finalized_function(door)) };
    f(cells.as_mut_ptr());
    cells.iter().map(|c| c[0]).collect()
}

#[test]
fn read_only_data_is_constant_and_writable_data_has_a_shadow_or_is_said_to_be_constant() {
    // f(x) = table[1]·x + state; state = x·x afterwards.
    let build = |m: &mut AdModule<JITModule>| {
        let table = doubles(m, "table", false, &[2.0, 3.0]);
        let state = doubles(m, "state", true, &[5.0]);
        let sig = f64s(m, 1, 1);
        let f = define(m, Some("f"), sig, |m, b, p| {
            let (table, state) = (m.declare_data_in_func(table, b.func), m.declare_data_in_func(state, b.func));
            let (table, state) = (b.ins().symbol_value(types::I64, table), b.ins().symbol_value(types::I64, state));
            let c = b.ins().load(types::F64, MemFlagsData::new(), table, 8);
            let s = b.ins().load(types::F64, MemFlagsData::new(), state, 0);
            let product = b.ins().fmul(c, p[0]);
            let sum = b.ins().fadd(product, s);
            let square = b.ins().fmul(p[0], p[0]);
            b.ins().store(MemFlagsData::new(), square, state, 0);
            b.ins().return_(&[sum]);
        });
        (f, state)
    };
    let spec = Spec::gradient([Active]).results([ReturnActivity::ActiveOnly]);
    let mut m = jit();
    let (f, state) = build(&mut m);
    let found = m.derivative(f, &spec).expect_err("it is not said").to_string();
    assert!(found.contains("%state is writable data: say with `set_data`"), "{found}");
    assert!(m.get_name("f__gradient").is_none(), "nothing is declared");
    // With a shadow: what is written has a cotangent there, what is read gets one.
    let shadow = doubles(&mut m, "state.shadow", true, &[10.0]);
    m.set_data(state, DataActivity::Shadow(shadow));
    let gradient = m.derivative(f, &spec).unwrap();
    let door = entry(&mut *m, gradient).unwrap();
    m.finalize_definitions().unwrap();
    assert_eq!(run(&m, door, &[4.0, 1.0])[0], 3.0 + 10.0 * 8.0);
    // SAFETY: a double of the module.
    assert_eq!(unsafe { *m.get_finalized_data(shadow).0.cast::<f64>() }, 1.0);
    // The same derivative, asked for when another object is the shadow, is another one.
    assert_eq!(m.derivative(f, &spec).unwrap(), gradient);
    let other = doubles(&mut m, "state.other", true, &[20.0]);
    m.set_data(state, DataActivity::Shadow(other));
    let second = m.derivative(f, &spec).unwrap();
    let second_entry = entry(&mut *m, second).unwrap();
    m.finalize_definitions().unwrap();
    assert_eq!(run(&m, second_entry, &[4.0, 1.0])[0], 3.0 + 20.0 * 8.0);
    m.set_data(state, DataActivity::Const);
    let found = m.derivative(f, &spec).expect_err("an active value is stored there").to_string();
    assert!(found.contains("AD0120"), "{found}");
    // Constant: the store of an active value there is refused, or traps.
    let mut m = jit();
    let (f, state) = build(&mut m);
    m.set_data(state, DataActivity::Const);
    let found = m.derivative(f, &spec).expect_err("an active value is stored there").to_string();
    assert!(found.contains("AD0120"), "{found}");
}

#[test]
fn functions_whose_addresses_stand_in_data_are_derived() {
    for forward in [false, true] {
        let mut m = jit();
        let sig = f64s(&m, 1, 1);
        let square = define(&mut m, Some("square"), sig.clone(), |_, b, p| {
            let r = b.ins().fmul(p[0], p[0]);
            b.ins().return_(&[r]);
        });
        let cube = define(&mut m, None, sig.clone(), |_, b, p| {
            let r = b.ins().fmul(p[0], p[0]);
            let r = b.ins().fmul(r, p[0]);
            b.ins().return_(&[r]);
        });
        let table = m.declare_anonymous_data(false, false).unwrap();
        let mut d = DataDescription::new();
        d.define(vec![0; 16].into());
        d.set_align(8);
        for (i, f) in [square, cube].into_iter().enumerate() {
            let r = m.declare_func_in_data(f, &mut d);
            d.write_function_addr(8 * i as u32, r);
        }
        m.define_data(table, &d).unwrap();
        // f(x) = square(x) + cube(x), by the table.
        let f = define(&mut m, Some("f"), sig.clone(), |m, b, p| {
            let table = m.declare_data_in_func(table, b.func);
            let table = b.ins().symbol_value(types::I64, table);
            let sig = b.import_signature(sig);
            let mut sum = None;
            for i in 0..2 {
                let at = b.ins().load(types::I64, MemFlagsData::new(), table, 8 * i);
                let call = b.ins().call_indirect(sig, at, &[p[0]]);
                let r = b.inst_results(call)[0];
                sum = Some(sum.map_or(r, |s| b.ins().fadd(s, r)));
            }
            b.ins().return_(&[sum.unwrap()]);
        });
        let spec = if forward { Spec::tangent([Dual]) } else { Spec::gradient([Active]) };
        let id = m.derivative(f, &spec).unwrap_or_else(|e| panic!("{e}"));
        let s = m.signature(id).unwrap().clone();
        let mut workspace = vec![0_u8; 4096];
        let mut args = vec![3.0, 1.0];
        for role in &s.params[2..] {
            args.push(match role {
                ParamRole::Workspace => f64::from_bits(workspace.as_mut_ptr() as u64),
                ParamRole::WorkspaceBytes => f64::from_bits(4096),
                other => panic!("{other:?}"),
            });
        }
        let door = entry(&mut *m, id).unwrap();
        m.finalize_definitions().unwrap();
        assert_eq!(run(&m, door, &args)[..2], [36.0, 33.0]);
    }
}

#[test]
fn what_two_gradients_have_in_common_is_there_once() {
    let text = "function %g(f64, i64) -> f64 {
        fn0 = %g(f64, i64) -> f64
    block0(v0: f64, v1: i64):
        brif v1, block1, block2
    block1:
        v2 = iconst.i64 1
        v3 = isub v1, v2
        v4 = fmul v0, v0
        v5 = call fn0(v4, v3)
        return v5
    block2:
        return v0
    }
    function %f(f64, i64) -> f64 {
        fn0 = %g(f64, i64) -> f64
    block0(v0: f64, v1: i64):
        v2 = call fn0(v0, v1)
        return v2
    }";
    let mut f = Fixture::new(text, "f");
    let all = Spec::gradient([Active, Const]);
    let one = f.derivative("f", &all);
    assert_eq!(f.derivative("f", &all), one, "the same is made once");
    let other = f.derivative("f", &all.clone().results([ReturnActivity::ActiveOnly]));
    assert_ne!(one, other);
    f.finish();
    for id in [one, other] {
        let mut workspace = vec![0_u8; 4096];
        let found = f.call(id, |role| match role {
            ParamRole::Primal(0) => double(1.1),
            ParamRole::Primal(1) => DataValue::I64(3),
            ParamRole::Seed(0) => double(1.0),
            ParamRole::WorkspaceBytes => DataValue::I64(4096),
            ParamRole::Workspace => crate::common::address(&mut workspace),
            other => panic!("{other:?}"),
        });
        let ct = number(&found, ResultRole::Cotangent(0)).unwrap();
        assert!((ct - 8.0 * 1.1_f64.powi(7)).abs() < 1e-12, "{ct}");
    }
}

#[test]
fn a_derivative_may_be_declared_before_it_is_defined() {
    let mut m = jit();
    let sig = f64s(&m, 1, 1);
    let f = define(&mut m, Some("f"), sig.clone(), |_, b, p| {
        let r = b.ins().fmul(p[0], p[0]);
        b.ins().return_(&[r]);
    });
    // A caller that is compiled before.
    let derivative = m.declare_function("slope", Linkage::Export, &f64s(&m, 2, 1)).unwrap();
    let caller = define(&mut m, Some("twice"), sig, |m, b, p| {
        let slope = m.declare_func_in_func(derivative, b.func);
        let one = b.ins().f64const(1.0);
        let call = b.ins().call(slope, &[p[0], one]);
        let r = b.inst_results(call)[0];
        let r = b.ins().fadd(r, r);
        b.ins().return_(&[r]);
    });
    let embedded = m.derive(f, &Spec::gradient([Active]).results([ReturnActivity::ActiveOnly])).unwrap();
    assert_eq!(embedded.signatures[0].clif, f64s(&m, 2, 1));
    let ids = m.define(&embedded, &["slope"], Linkage::Export).unwrap();
    assert_eq!(ids, [derivative]);
    let door = entry(&mut *m, caller).unwrap();
    m.finalize_definitions().unwrap();
    assert_eq!(run(&m, door, &[5.0])[0], 20.0);
}

#[test]
fn many_cotangents_and_many_results() {
    // Seven arguments of a callee that is not inlined: its pullback returns seven cotangents.
    let mut m = jit();
    let sig = f64s(&m, 7, 1);
    let product = define(&mut m, Some("product"), sig.clone(), |_, b, p| {
        let mut r = p[0];
        for _ in 0..12 {
            for &x in &p[1..] {
                r = b.ins().fmul(r, x);
            }
        }
        b.ins().return_(&[r]);
    });
    let f = define(&mut m, Some("f"), sig, |m, b, p| {
        let product = m.declare_func_in_func(product, b.func);
        let calls = [p.to_vec(), p.iter().rev().copied().collect()].map(|args| b.ins().call(product, &args));
        let [a, c] = calls.map(|call| b.inst_results(call)[0]);
        let r = b.ins().fadd(a, c);
        b.ins().return_(&[r]);
    });
    let id = m.derivative(f, &Spec::gradient([Active; 7])).unwrap_or_else(|e| panic!("{e}"));
    let layout = m.signature(id).unwrap().layout.clone().expect("eight results are in a struct");
    assert_eq!((layout.offsets, layout.size, layout.align), ((0..8).map(|i| 8 * i).collect(), 64, 8));
    let door = entry(&mut *m, id).unwrap();
    m.finalize_definitions().unwrap();
    let mut results = [0.0_f64; 8];
    let x = [1.01, 0.99, 1.02, 0.98, 1.03, 0.97, 1.04];
    let args = [&x[..], &[1.0, f64::from_bits(results.as_mut_ptr() as u64)]].concat();
    run(&m, door, &args);
    let power = |i: usize, first: usize| if i == first { 1.0 } else { 12.0 };
    let value = |first: usize| (0..7).map(|i| x[i].powf(power(i, first))).product::<f64>();
    assert!((results[0] - value(0) - value(6)).abs() < 1e-12);
    for i in 0..7 {
        let want = (value(0) * power(i, 0) + value(6) * power(i, 6)) / x[i];
        assert!((results[1 + i] - want).abs() < 1e-10 * want.abs(), "{i}: {} {want}", results[1 + i]);
    }
}

#[test]
fn modules_of_threads_are_independent() {
    let text = "function %f(f64, i64) -> f64 {
    block0(v0: f64, v1: i64):
        jump block1(v0, v1)
    block1(v2: f64, v3: i64):
        v4 = fmul v2, v2
        v5 = iconst.i64 1
        v6 = isub v3, v5
        brif v6, block1(v4, v6), block2
    block2:
        return v4
    }";
    let texts: Vec<String> = std::thread::scope(|s| {
        let work = |_| {
            s.spawn(|| {
                let f = Fixture::new(text, "f");
                let found = f.module.derive(f.func("f"), &Spec::gradient([Active, Const])).unwrap();
                found.functions.iter().map(|f| f.func.to_string()).collect::<String>()
            })
        };
        let threads: Vec<_> = (0..4).map(work).collect();
        threads.into_iter().map(|t| t.join().expect("it derives")).collect()
    });
    assert!(texts.windows(2).all(|t| t[0] == t[1]), "the same text each time");
}
