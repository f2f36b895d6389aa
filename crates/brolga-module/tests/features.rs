//! The table of `docs/EMBEDDING.md`: what works, what the caller gives, and what is refused.

use brolga_ir::{MemoryMode, Options};
use brolga_module::ParamActivity::{Active, Const, Dual, Duplicated};
use brolga_module::{AdError, AdModule, DataActivity, ParamRole, ResultRole, ReturnActivity, Room, Spec};
use brolga_testing::child::in_child;
use brolga_testing::module::{entry, load};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, types};
use cranelift_jit::JITModule;
use cranelift_module::{DataDescription, DataId, FuncId, Linkage, Module};

use crate::common::{Fixture, address, double, number};
use crate::programs::{define, f64s, jit, run};

fn told(found: Result<FuncId, AdError>) -> String {
    found.expect_err("it is refused").to_string()
}

fn refused(text: &str, spec: &Spec, says: &[&str]) {
    let f = Fixture::new(text, "f");
    let found = f.module.derive(f.func("f"), spec).expect_err("it is refused").to_string();
    for part in says {
        assert!(found.contains(part), "no {part:?} in: {found}");
    }
}

const HEAP: &str = "function %f(f64) -> f64 {
    fn0 = %malloc(i64) -> i64
    fn1 = %free(i64)
block0(v0: f64):
    v1 = iconst.i64 8
    v2 = call fn0(v1)
    store v0, v2
    v3 = load.f64 v2
    v4 = fmul v3, v3
    call fn1(v2)
    return v4
}";

const PIECES: &str = "function %f(i64) -> f64 {
    ss0 = explicit_slot 8
block0(v0: i64):
    v1 = stack_addr.i64 ss0
    v2 = iconst.i64 0
    jump block1(v2)
block1(v3: i64):
    v4 = iadd v0, v3
    v5 = load.i8 v4
    v6 = iadd v1, v3
    store v5, v6
    v7 = iconst.i64 1
    v8 = iadd v3, v7
    v9 = iconst.i64 8
    v10 = icmp eq v8, v9
    brif v10, block2, block1(v8)
block2:
    v11 = load.f64 v1
    return v11
}";

const COPY: &str = "function %f(i64, i64, i64) -> f64 {
    fn0 = %memcpy(i64, i64, i64) -> i64
block0(v0: i64, v1: i64, v2: i64):
    v3 = call fn0(v0, v1, v2)
    v4 = load.f64 v0
    v5 = fmul v4, v4
    return v5
}";

const STORE: &str = "function %f(i64) -> f64 {
block0(v0: i64):
    v1 = load.f64 v0
    v2 = fmul v1, v1
    store v2, v0
    return v2
}";

#[test]
fn what_needs_the_run_time() {
    refused(PIECES, &Spec::gradient([Duplicated]), &["AD0174", "pieces", "load and store floats as floats"]);
    refused(PIECES, &Spec::tangent([Dual]), &["AD0174", "pieces"]);
}

#[test]
fn helpers_that_are_clif() {
    let gamma = |name: &str| {
        format!(
            "function %f(f64) -> f64 {{
            fn0 = %{name}(f64) -> f64
        block0(v0: f64):
            v1 = call fn0(v0)
            return v1
        }}"
        )
    };
    // The derivatives of log Γ and Γ at 1 are both minus Euler's constant.
    let euler = 0.577_215_664_901_532_9;
    for (text, x, want) in [(HEAP.to_owned(), 3.0, 6.0), (gamma("lgamma"), 1.0, -euler), (gamma("tgamma"), 1.0, -euler)]
    {
        let mut f = Fixture::new(&text, "f");
        let gradient = f.derivative("f", &Spec::gradient([Active]));
        let tangent = f.derivative("f", &Spec::tangent([Dual]));
        f.finish();
        for (id, role) in [(gradient, ResultRole::Cotangent(0)), (tangent, ResultRole::Tangent(0))] {
            let found = f.call(id, |role| double(if role == ParamRole::Primal(0) { x } else { 1.0 }));
            let is = number(&found, role).expect("it is computed");
            assert!((is - want).abs() < 1e-14, "{text}: {is}");
        }
    }
}

fn module(text: &str, options: Options) -> (AdModule<JITModule>, FuncId) {
    let program = brolga_testing::program(text);
    let jit = JITModule::new(brolga_testing::jit::host());
    let mut m = AdModule::with_options(jit, options);
    let loaded = load(&mut m, &program, program.func("f").unwrap()).unwrap();
    let f = loaded.functions["f"];
    (m, f)
}

#[test]
fn restoring_memory() {
    let restored = Options { memory: MemoryMode::Restore, ..Options::full() };
    let (mut m, f) = module(STORE, restored.clone());
    let id = m.derivative(f, &Spec::gradient([Duplicated])).unwrap();
    let door = entry(&mut *m, id).unwrap();
    m.finalize_definitions().unwrap();
    let (mut x, mut shadow) = ([3.0_f64], [0.25_f64]);
    let bits = |at: &mut [f64]| f64::from_bits(at.as_mut_ptr() as u64);
    assert_eq!(run(&m, door, &[bits(&mut x), bits(&mut shadow), 1.0])[0], 9.0);
    assert_eq!((x, shadow), ([3.0], [6.0 * 1.25]));
    let (mut m, f) = module(COPY, restored);
    let found = told(m.derivative(f, &Spec::gradient([Duplicated, Duplicated, Const])));
    assert!(found.contains("AD0174") && found.contains("restoring memory"), "{found}");
    // Without that, a copy of a block works.
    let (mut m, f) = module(COPY, Options::full());
    let id = m.derivative(f, &Spec::gradient([Duplicated, Duplicated, Const])).unwrap();
    assert_eq!(m.room(id), Some(Room::Nothing));
}

#[test]
fn debug_runs_are_not_there() {
    let (m, f) = module(STORE, Options { debug: true, ..Options::full() });
    let (plain, g) = module(STORE, Options::full());
    let text = |m: &AdModule<JITModule>, f| {
        let found = m.derive(f, &Spec::gradient([Duplicated])).unwrap();
        found.functions.iter().map(|f| f.func.to_string()).collect::<String>()
    };
    assert_eq!(text(&m, f), text(&plain, g));
}

/// A function that calls what an address leads to.
const POINTER: &str = "function %f(i64, f64) -> f64 {
    sig0 = (f64) -> f64
block0(v0: i64, v1: f64):
    v2 = call_indirect sig0, v0(v1)
    return v2
}";

/// No function of the module has that signature and its address taken.
fn traps(test: &str, spec: &Spec) {
    extern "C" fn elsewhere(x: f64) -> f64 {
        x
    }
    let status = in_child(module_path!(), test, || {
        let (mut m, f) = module(POINTER, Options::full());
        let id = m.derivative(f, spec).unwrap();
        let door = entry(&mut *m, id).unwrap();
        // Nothing is missing that the module would have to find.
        if m.finalize_definitions().is_ok() {
            let address = elsewhere as extern "C" fn(f64) -> f64 as usize as u64;
            run(&m, door, &[f64::from_bits(address), 2.0, 1.0]);
        }
        std::process::exit(0);
    });
    // It ends by a signal.
    assert!(status.is_some_and(|s| s.code().is_none()), "{status:?}");
}

#[test]
fn a_pointer_to_a_function_of_elsewhere_traps() {
    traps("a_pointer_to_a_function_of_elsewhere_traps", &Spec::gradient([Const, Active]));
}

#[test]
fn a_pointer_to_a_function_of_elsewhere_traps_in_forward_mode() {
    traps("a_pointer_to_a_function_of_elsewhere_traps_in_forward_mode", &Spec::tangent([Const, Dual]));
}

#[test]
fn an_address_that_is_taken_is_followed() {
    let text = "function %square(f64) -> f64 {
    block0(v0: f64):
        v1 = fmul v0, v0
        return v1
    }
    function %f(f64) -> f64 {
        sig0 = (f64) -> f64
        fn0 = %square(f64) -> f64
    block0(v0: f64):
        v1 = func_addr.i64 fn0
        v2 = call_indirect sig0, v1(v0)
        return v2
    }";
    let mut f = Fixture::new(text, "f");
    let id = f.derivative("f", &Spec::gradient([Active]));
    f.finish();
    assert_eq!(f.module.room(id), Some(Room::Unknown));
    let mut workspace = vec![0_u8; 4096];
    for _ in 0..2 {
        let found = f.call(id, |role| match role {
            ParamRole::Primal(0) => double(3.0),
            ParamRole::Seed(0) => double(2.0),
            ParamRole::Workspace => address(&mut workspace),
            ParamRole::WorkspaceBytes => DataValue::I64(4096),
            other => panic!("{other:?}"),
        });
        assert_eq!(number(&found, ResultRole::Cotangent(0)), Some(12.0));
        assert_eq!(number(&found, ResultRole::Status), Some(0.0));
    }
}

/// `f(x) = object[1]·x`, or, if the object holds an address, what that leads to.
fn reads(m: &mut AdModule<JITModule>, name: &str, data: DataId, follows: bool) -> FuncId {
    let sig = f64s(m, 1, 1);
    define(m, Some(name), sig, |m, b, p| {
        let data = m.declare_data_in_func(data, b.func);
        let mut at = b.ins().symbol_value(types::I64, data);
        if follows {
            at = b.ins().load(types::I64, MemFlagsData::new(), at, 0);
        }
        let c = b.ins().load(types::F64, MemFlagsData::new(), at, 8);
        let r = b.ins().fmul(c, p[0]);
        b.ins().return_(&[r]);
    })
}

#[test]
fn imported_data_is_constant_or_has_a_shadow() {
    static STATE: [f64; 2] = [1.0, 7.0];
    let spec = Spec::gradient([Active]).results([ReturnActivity::ActiveOnly]);
    for has_shadow in [false, true] {
        let mut builder = brolga_testing::jit::host();
        builder.symbol("state", STATE.as_ptr().cast());
        let mut shadow = [0.5, 0.25];
        builder.symbol("state.shadow", shadow.as_mut_ptr() as *const u8);
        let mut m = AdModule::new(JITModule::new(builder));
        let state = m.declare_data("state", Linkage::Import, true, false).unwrap();
        let f = reads(&mut m, "f", state, false);
        assert!(told(m.derivative(f, &spec)).contains("%state is data without bytes: define it after the module"));
        if has_shadow {
            let shadow = m.declare_data("state.shadow", Linkage::Import, true, false).unwrap();
            m.set_data(state, DataActivity::Shadow(shadow));
        } else {
            m.set_data(state, DataActivity::Const);
        }
        let id = m.derivative(f, &spec).unwrap();
        let door = entry(&mut *m, id).unwrap();
        m.finalize_definitions().unwrap();
        assert_eq!(run(&m, door, &[3.0, 2.0])[0], 14.0);
        assert_eq!(run(&m, door, &[3.0, 2.0])[0], 14.0);
        assert_eq!(shadow, if has_shadow { [0.5, 0.25 + 12.0] } else { [0.5, 0.25] });
    }
}

/// An object with an address, and data that is there.
fn table(m: &mut AdModule<JITModule>, name: &str, to: DataId) -> DataId {
    let id = m.declare_data(name, Linkage::Local, false, false).unwrap();
    let mut d = DataDescription::new();
    d.define(vec![0; 8].into());
    d.set_align(8);
    let symbol = m.declare_data_in_data(to, &mut d);
    d.write_data_addr(0, symbol, 0);
    m.define_data(id, &d).unwrap();
    id
}

fn numbers(m: &mut AdModule<JITModule>, name: &str, writable: bool) -> DataId {
    let id = m.declare_data(name, Linkage::Local, writable, false).unwrap();
    let mut d = DataDescription::new();
    d.define([0.0, 5.0_f64].iter().flat_map(|x| x.to_ne_bytes()).collect());
    d.set_align(8);
    m.define_data(id, &d).unwrap();
    id
}

#[test]
fn data_with_addresses_of_data() {
    let spec = Spec::gradient([Active]).results([ReturnActivity::ActiveOnly]);
    let mut m = jit();
    // Nothing that it leads to is written.
    let inner = numbers(&mut m, "inner", false);
    let outer = table(&mut m, "outer", inner);
    let f = reads(&mut m, "f", outer, true);
    let constant = m.derivative(f, &spec).unwrap();
    // Or something may be.
    let cell = numbers(&mut m, "cell", true);
    let to_cell = table(&mut m, "to_cell", cell);
    let g = reads(&mut m, "g", to_cell, true);
    assert!(told(m.derivative(g, &spec)).contains("%to_cell holds addresses of writable data: say with `set_data`"));
    m.set_data(to_cell, DataActivity::Const);
    let as_constant = m.derivative(g, &spec).unwrap();
    let shadow = numbers(&mut m, "cell.shadow", true);
    let to_shadow = table(&mut m, "to_cell.shadow", shadow);
    m.set_data(cell, DataActivity::Shadow(shadow));
    m.set_data(to_cell, DataActivity::Shadow(to_shadow));
    // The cell is read through the table, too, when something was stored in it.
    let sig = f64s(&m, 1, 1);
    let h = define(&mut m, Some("h"), sig, |m, b, p| {
        let at = |m: &mut AdModule<JITModule>, b: &mut cranelift_frontend::FunctionBuilder<'_>, data| {
            let data = m.declare_data_in_func(data, b.func);
            b.ins().symbol_value(types::I64, data)
        };
        let (cell, table) = (at(m, b, cell), at(m, b, to_cell));
        let old = b.ins().load(types::F64, MemFlagsData::new(), cell, 8);
        let x = b.ins().fmul(old, p[0]);
        b.ins().store(MemFlagsData::new(), x, cell, 0);
        let through = b.ins().load(types::I64, MemFlagsData::new(), table, 0);
        let x = b.ins().load(types::F64, MemFlagsData::new(), through, 0);
        let r = b.ins().fmul(x, p[0]);
        b.ins().return_(&[r]);
    });
    let with_shadow = m.derivative(h, &spec).unwrap();
    let doors = [constant, as_constant, with_shadow].map(|id| entry(&mut *m, id).unwrap());
    m.finalize_definitions().unwrap();
    assert_eq!(run(&m, doors[0], &[3.0, 2.0])[0], 10.0);
    assert_eq!(run(&m, doors[1], &[3.0, 2.0])[0], 10.0);
    let (at, _) = m.get_finalized_data(shadow);
    // SAFETY: two numbers of the module's, which nothing else uses.
    let shadow = unsafe { std::slice::from_raw_parts_mut(at as *mut f64, 2) };
    for _ in 0..2 {
        shadow.copy_from_slice(&[0.0, 0.5]);
        // 5x², with the seed two.
        assert_eq!(run(&m, doors[2], &[3.0, 2.0])[0], 60.0);
        assert_eq!(shadow, [0.0, 0.5 + 2.0 * 9.0]);
    }
}

#[test]
fn functions_given_as_machine_code_and_halves_of_pairs() {
    let mut m = jit();
    let sig = f64s(&m, 1, 1);
    let square = define(&mut m, Some("square"), sig.clone(), |_, b, p| {
        let r = b.ins().fmul(p[0], p[0]);
        b.ins().return_(&[r]);
    });
    let (forward, _) = m.pair(square, &Spec::pair([Active])).unwrap();
    assert!(told(m.derivative(forward, &Spec::gradient([Active; 2]))).contains("half of a pair"));
    let bytes = m.declare_function("bytes", Linkage::Export, &sig).unwrap();
    m.define_function_bytes(bytes, 1, &[0xc3], &[]).unwrap();
    let calls = |m: &mut AdModule<JITModule>, name: &str, callee: FuncId, n: usize, active: bool| {
        define(m, Some(name), sig.clone(), |m, b, p| {
            let callee = m.declare_func_in_func(callee, b.func);
            let one = b.ins().f64const(1.0);
            let call = b.ins().call(callee, &vec![if active { p[0] } else { one }; n]);
            let r = b.inst_results(call)[0];
            let r = b.ins().fmul(r, p[0]);
            b.ins().return_(&[r]);
        })
    };
    let half = define(&mut m, Some("half"), sig.clone(), |m, b, p| {
        let callee = m.declare_func_in_func(forward, b.func);
        let none = b.ins().iconst(types::I64, 0);
        let call = b.ins().call(callee, &[p[0], none, none]);
        let r = b.inst_results(call)[0];
        b.ins().return_(&[r]);
    });
    let found = told(m.derivative(half, &Spec::gradient([Active])));
    assert!(found.contains("AD0150") && found.contains("%square__forward"), "{found}");
    let given = calls(&mut m, "given", bytes, 1, true);
    let found = told(m.derivative(given, &Spec::gradient([Active])));
    assert!(found.contains("AD0150") && found.contains("%bytes"), "{found}");
    // What is not active is called.
    let inactive = calls(&mut m, "inactive", bytes, 1, false);
    m.derivative(inactive, &Spec::gradient([Active])).unwrap();
}

#[test]
fn derivatives_of_derivatives_that_are_refused() {
    // x ↦ x², by way of a global.
    let mut m = jit();
    let cell = m.declare_data("cell", Linkage::Local, true, false).unwrap();
    let shadow = m.declare_data("cell_shadow", Linkage::Local, true, false).unwrap();
    let mut zeros = DataDescription::new();
    zeros.define_zeroinit(8);
    m.define_data(cell, &zeros).unwrap();
    m.define_data(shadow, &zeros).unwrap();
    m.set_data(cell, DataActivity::Shadow(shadow));
    let sig = f64s(&m, 1, 1);
    let f = define(&mut m, Some("f"), sig, |m, b, p| {
        let data = m.declare_data_in_func(cell, b.func);
        let at = b.ins().symbol_value(types::I64, data);
        b.ins().store(MemFlagsData::new(), p[0], at, 0);
        let x = b.ins().load(types::F64, MemFlagsData::new(), at, 0);
        let r = b.ins().fmul(x, p[0]);
        b.ins().return_(&[r]);
    });
    let g = m.derivative(f, &Spec::gradient([Active]).results([ReturnActivity::ActiveOnly])).unwrap();
    let found = told(m.derivative(g, &Spec::tangent([Dual, Dual])));
    assert!(found.contains("AD0174") && found.contains("%cell") && found.contains("by a pointer"), "{found}");
}

#[test]
fn modules_can_be_sent() {
    fn is_sent<T: Send>() {}
    is_sent::<AdModule<JITModule>>();
    is_sent::<AdModule<cranelift_object::ObjectModule>>();
}

#[test]
fn threads_call_one_derivative() {
    let mut m = jit();
    let mut sig = m.make_signature();
    sig.params.push(AbiParam::new(types::I64));
    sig.returns.push(AbiParam::new(types::F64));
    let f = define(&mut m, Some("f"), sig, |_, b, p| {
        let x = b.ins().load(types::F64, MemFlagsData::new(), p[0], 0);
        let r = b.ins().fmul(x, x);
        let r = b.ins().fmul(r, x);
        b.ins().return_(&[r]);
    });
    let id = m.derivative(f, &Spec::gradient([Duplicated]).results([ReturnActivity::ActiveOnly])).unwrap();
    m.finalize_definitions().unwrap();
    // SAFETY: `double *x`, its shadow and a seed.
    let code: extern "C" fn(*mut f64, *mut f64, f64) = unsafe { std::mem::transmute(m.get_finalized_function(id)) };
    std::thread::scope(|s| {
        for k in 1..5 {
            s.spawn(move || {
                let (mut x, mut shadow) = ([f64::from(k)], [0.0]);
                (0..1000).for_each(|_| code(x.as_mut_ptr(), shadow.as_mut_ptr(), 1.0));
                assert_eq!(shadow, [3000.0 * x[0] * x[0]]);
            });
        }
    });
}

#[test]
fn what_a_body_declares_and_does_not_use_is_not_asked_for() {
    let mut m = AdModule::new(JITModule::new(brolga_testing::jit::host()));
    let state = m.declare_data("state", Linkage::Import, true, false).unwrap();
    let sig = f64s(&m, 1, 1);
    let f = define(&mut m, Some("f"), sig, |m, b, p| {
        m.declare_data_in_func(state, b.func);
        let r = b.ins().fmul(p[0], p[0]);
        b.ins().return_(&[r]);
    });
    m.derivative(f, &Spec::gradient([Active])).unwrap();
}
