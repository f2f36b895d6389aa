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

/// A double that is copied byte by byte.
pub(crate) const PIECES: &str = "function %f(i64) -> f64 {
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

/// A float of the lower half of one number and the upper half of another: no cotangent is its sum.
const TORN: &str = "function %f(i64) -> f64 {
    ss0 = explicit_slot 8
block0(v0: i64):
    v1 = stack_addr.i64 ss0
    v2 = load.i32 v0
    v3 = load.i32 v0+12
    store v2, v1
    store v3, v1+4
    v4 = load.f64 v1
    v5 = fmul v4, v4
    return v5
}";

/// x² of a double that is copied byte by byte, as a gradient and as a pair, and once more with
/// another seed; memory for the records, and too little of it.
#[test]
fn floats_that_move_in_pieces() {
    let text = PIECES.replace("return v11", "v12 = load.f64 v0\n    v13 = fmul v11, v12\n    return v13");
    let mut m = Fixture::new(&text, "f");
    let gradient = m.derivative("f", &Spec::gradient([Duplicated]));
    let (forward, pullback) = m.pair("f", &Spec::pair([Duplicated]));
    assert_eq!([gradient, forward].map(|id| m.module.room(id)), [Some(Room::Unknown); 2]);
    m.finish();
    let x = -1.7;
    for bytes in [100, 300, 500, 4096] {
        let (mut at, mut shadow, mut space) = ([x], [0.25], vec![0xaa_u8; bytes]);
        let mut call = |id: FuncId, seed: f64| {
            let found = m.call(id, |role| match role {
                ParamRole::Primal(0) => address(&mut at),
                ParamRole::Shadow(0) => address(&mut shadow),
                ParamRole::Workspace => address(&mut space),
                ParamRole::WorkspaceBytes => DataValue::I64(bytes as i64),
                _ => double(seed),
            });
            let status = number(&found, ResultRole::Status).expect("it has a workspace");
            assert_eq!(status == 0.0, bytes == 4096, "{bytes} bytes");
            (number(&found, ResultRole::Value(0)), shadow[0])
        };
        let (value, _) = call(gradient, 1.0);
        if bytes < 4096 {
            assert!(value.is_some_and(f64::is_nan), "{value:?}");
            continue;
        }
        near(value.expect("a value"), x * x);
        near(call(gradient, 2.0).1, 0.25 + 3.0 * 2.0 * x);
        assert_eq!(call(forward, 0.0).0, value);
        near(call(pullback, 0.5).1, 0.25 + 3.5 * 2.0 * x);
        near(call(pullback, -0.5).1, 0.25 + 3.0 * 2.0 * x);
    }
}

#[test]
fn debug_runs_are_refused() {
    let (mut m, f) = module(STORE, Options { debug: true, ..Options::full() });
    let found = told(m.derivative(f, &Spec::gradient([Duplicated])));
    assert!(found.contains("AD0174") && found.contains("debug run") && found.contains("DerivedRule"), "{found}");
}

/// What cannot be put together ends the run: it is never a wrong number.
#[test]
fn pieces_of_two_floats() {
    let status = in_child(module_path!(), "pieces_of_two_floats", || {
        let mut m = Fixture::new(TORN, "f");
        let id = m.derivative("f", &Spec::gradient([Duplicated]));
        m.finish();
        let (mut x, mut shadow, mut space) = ([1.5, 2.5], [0.0; 2], vec![0_u8; 4096]);
        m.call(id, |role| match role {
            ParamRole::Primal(0) => address(&mut x),
            ParamRole::Shadow(0) => address(&mut shadow),
            ParamRole::Workspace => address(&mut space),
            ParamRole::WorkspaceBytes => DataValue::I64(4096),
            _ => double(1.0),
        });
        std::process::exit(0);
    });
    assert!(status.is_some_and(|s| s.code().is_none()), "{status:?}");
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
    // A copy records what it overwrites, as much as it says when it runs.
    let (mut m, f) = module(COPY, restored);
    let id = m.derivative(f, &Spec::gradient([Duplicated, Duplicated, Const])).unwrap();
    assert_eq!(m.room(id), Some(Room::Unknown));
    // Without that, it records nothing.
    let (mut m, f) = module(COPY, Options::full());
    let id = m.derivative(f, &Spec::gradient([Duplicated, Duplicated, Const])).unwrap();
    assert_eq!(m.room(id), Some(Room::Nothing));
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
    assert!(told(m.derivative(forward, &Spec::gradient([Active; 2]))).contains("AD0173"));
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
    assert!(found.contains("AD0173") && found.contains("%square__forward") && found.contains("inst"), "{found}");
    let given = calls(&mut m, "given", bytes, 1, true);
    let found = told(m.derivative(given, &Spec::gradient([Active])));
    assert!(found.contains("AD0150") && found.contains("%bytes"), "{found}");
    // What is not active is called.
    let inactive = calls(&mut m, "inactive", bytes, 1, false);
    m.derivative(inactive, &Spec::gradient([Active])).unwrap();
}

/// f(x) = c·x, where a cell is x² by then and c is what it held before.
fn with_a_cell(m: &mut AdModule<JITModule>, cell: DataId) -> FuncId {
    let sig = f64s(m, 1, 1);
    define(m, Some("f"), sig, |m, b, p| {
        let data = m.declare_data_in_func(cell, b.func);
        let at = b.ins().symbol_value(types::I64, data);
        let before = b.ins().load(types::F64, MemFlagsData::new(), at, 8);
        let square = b.ins().fmul(p[0], p[0]);
        b.ins().store(MemFlagsData::new(), square, at, 8);
        let x = b.ins().load(types::F64, MemFlagsData::new(), at, 8);
        let r = b.ins().fmul(x, p[0]);
        let r = b.ins().fmul(r, before);
        b.ins().return_(&[r]);
    })
}

/// A module's data, to write and to read.
fn contents(m: &mut AdModule<JITModule>, data: DataId) -> &mut [f64] {
    let (at, _) = m.get_finalized_data(data);
    // SAFETY: two numbers of the module's, which nothing else uses.
    unsafe { std::slice::from_raw_parts_mut(at as *mut f64, 2) }
}

/// f(x, c) = c·x³, where c is in a cell that holds x² afterwards: second derivatives in all modes.
/// At the second order the cell has another shadow, and the first shadow has one.
#[test]
fn second_derivatives_by_way_of_data() {
    for (first_is_reverse, second_is_reverse) in [(true, false), (true, true), (false, true), (false, false)] {
        let mut m = jit();
        let [cell, first, second, of_first] =
            ["cell", "first", "second", "of_first"].map(|name| numbers(&mut m, name, true));
        m.set_data(cell, DataActivity::Shadow(first));
        let f = with_a_cell(&mut m, cell);
        let spec = match first_is_reverse {
            true => Spec::gradient([Active]).results([ReturnActivity::ActiveOnly]),
            false => Spec::tangent([Dual]).results([ReturnActivity::DualOnly]),
        };
        let g = m.derivative(f, &spec).unwrap();
        // (x, seed) -> x̄, or (x, ẋ) -> ḟ
        let spec = match second_is_reverse {
            true => Spec::gradient([Active, Active]).results([ReturnActivity::ActiveOnly]),
            false => Spec::tangent([Dual, Dual]).results([ReturnActivity::DualOnly]),
        };
        let found = told(m.derivative(g, &spec));
        assert!(found.contains("%first is the shadow of %cell") && found.contains("set_data"), "{found}");
        m.set_data(cell, DataActivity::Shadow(second));
        let found = told(m.derivative(g, &spec));
        assert!(found.contains("%first is writable data: say with `set_data`"), "{found}");
        m.set_data(first, DataActivity::Shadow(of_first));
        let h = m.derivative(g, &spec).unwrap();
        let door = entry(&mut *m, h).unwrap();
        m.finalize_definitions().unwrap();
        let (x, c, s) = (1.5, 0.7, 2.0);
        // Of the first derivative with respect to x, and to c.
        let d = [3.0 * x * x * c, x * x * x];
        let dd = [[6.0 * x * c, 3.0 * x * x], [3.0 * x * x, 0.0]];
        for _ in 0..2 {
            contents(&mut m, cell)[1] = c;
            // What the second derivative has to say of the cell before, and where.
            if first_is_reverse {
                // x̄ = s·f_x + w·2x and c̄ = s·f_c, where w is the seed of the cell.
                let w = 0.4;
                contents(&mut m, first)[1] = w;
                if second_is_reverse {
                    // Seeds: a of x̄, b of c̄, which is the first shadow afterwards.
                    let (a, b) = (0.3, -0.6);
                    contents(&mut m, second)[1] = 0.9;
                    contents(&mut m, of_first)[1] = b;
                    let r = run(&m, door, &[x, s, a]);
                    // The cell afterwards is x², with the seed 0.9.
                    near(r[0], s * (a * dd[0][0] + b * dd[0][1]) + 2.0 * w * a + 0.9 * 2.0 * x);
                    near(r[1], a * d[0] + b * d[1]);
                    near(contents(&mut m, second)[1], s * (a * dd[0][1]));
                    near(contents(&mut m, of_first)[1], 2.0 * x * a);
                } else {
                    // Along ẋ, ċ, ṡ and ẇ.
                    let (dx, dc, ds, dw) = (0.3, -0.6, 0.2, 1.1);
                    contents(&mut m, second)[1] = dc;
                    contents(&mut m, of_first)[1] = dw;
                    let r = run(&m, door, &[x, dx, s, ds]);
                    near(r[0], s * (dd[0][0] * dx + dd[0][1] * dc) + ds * d[0] + 2.0 * (w * dx + dw * x));
                    near(contents(&mut m, second)[1], 2.0 * x * dx);
                    near(contents(&mut m, of_first)[1], s * dd[1][0] * dx + ds * d[1]);
                }
                near(contents(&mut m, first)[1], s * d[1]);
            } else {
                // ḟ = f_x ẋ + f_c ċ, and the cell's tangent is 2xẋ afterwards.
                let (dx, dc) = (0.3, -0.6);
                contents(&mut m, first)[1] = dc;
                if second_is_reverse {
                    contents(&mut m, second)[1] = 0.9;
                    contents(&mut m, of_first)[1] = 0.4;
                    let r = run(&m, door, &[x, dx, s]);
                    near(r[0], s * (dd[0][0] * dx + dd[0][1] * dc) + 0.9 * 2.0 * x + 0.4 * 2.0 * dx);
                    near(r[1], s * d[0] + 0.4 * 2.0 * x);
                    near(contents(&mut m, second)[1], s * dd[0][1] * dx);
                    near(contents(&mut m, of_first)[1], s * d[1]);
                } else {
                    let (ex, ec, edx, edc) = (0.8, 0.5, -0.2, 0.1);
                    contents(&mut m, second)[1] = ec;
                    contents(&mut m, of_first)[1] = edc;
                    let r = run(&m, door, &[x, ex, dx, edx]);
                    let of_first_order = d[0] * edx + d[1] * edc;
                    near(r[0], of_first_order + dx * (dd[0][0] * ex + dd[0][1] * ec) + dc * dd[1][0] * ex);
                    near(contents(&mut m, second)[1], 2.0 * x * ex);
                    near(contents(&mut m, of_first)[1], 2.0 * (ex * dx + x * edx));
                }
                near(contents(&mut m, first)[1], 2.0 * x * dx);
            }
        }
    }
}

fn near(is: f64, want: f64) {
    assert!((is - want).abs() < 1e-12 * want.abs().max(1.0), "{is}, not {want}");
}

/// Constant data may be written to: what was read before is not read again.
#[test]
fn constant_data_that_is_written() {
    let mut m = jit();
    let count = numbers(&mut m, "count", true);
    m.set_data(count, DataActivity::Const);
    let sig = f64s(&m, 1, 1);
    // f(x) = count·sin(x·count), count = count + 1 in between and afterwards.
    let f = define(&mut m, Some("f"), sig, |m, b, p| {
        let data = m.declare_data_in_func(count, b.func);
        let at = b.ins().symbol_value(types::I64, data);
        let one = b.ins().f64const(1.0);
        let before = b.ins().load(types::F64, MemFlagsData::new(), at, 8);
        let x = b.ins().fmul(p[0], before);
        let next = b.ins().fadd(before, one);
        b.ins().store(MemFlagsData::new(), next, at, 8);
        let now = b.ins().load(types::F64, MemFlagsData::new(), at, 8);
        let y = b.ins().fmul(x, x);
        let y = b.ins().fmul(y, now);
        let zero = b.ins().f64const(0.0);
        b.ins().store(MemFlagsData::new(), zero, at, 8);
        b.ins().return_(&[y]);
    });
    let gradient = m.derivative(f, &Spec::gradient([Active]).results([ReturnActivity::ActiveOnly])).unwrap();
    let (forward, pullback) = m.pair(f, &Spec::pair([Active])).unwrap();
    let tangent = m.derivative(f, &Spec::tangent([Dual]).results([ReturnActivity::DualOnly])).unwrap();
    let doors = [gradient, forward, pullback, tangent].map(|id| entry(&mut *m, id).unwrap());
    m.finalize_definitions().unwrap();
    let x = 1.5;
    // count is 5 before: 6·(5x)²
    let want = 2.0 * 6.0 * 25.0 * x;
    contents(&mut m, count)[1] = 5.0;
    near(run(&m, doors[0], &[x, 1.0])[0], want);
    contents(&mut m, count)[1] = 5.0;
    near(run(&m, doors[3], &[x, 1.0])[0], want);
    contents(&mut m, count)[1] = 5.0;
    let mut space = vec![0_u64; 256];
    let space = f64::from_bits(space.as_mut_ptr() as u64);
    run(&m, doors[1], &[x, space, f64::from_bits(2048)]);
    near(run(&m, doors[2], &[1.0, space])[0], want);
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
