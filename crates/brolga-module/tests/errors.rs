//! What cannot be derived is an error that says what to write instead, and leaves the module whole.

use brolga_module::ParamActivity::{Active, Const, Dual, Duplicated};
use brolga_module::{AdError, AdModule, DataActivity, Options, ReturnActivity, Spec};
use cranelift_codegen::ir::{AbiParam, FuncRef, InstBuilder, Signature, Value, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::JITModule;
use cranelift_module::{DataDescription, DataId, FuncId, Linkage, Module};

use crate::common::Fixture;

const TEXT: &str = "function %f(f64, i64, i32) -> f64 {
block0(v0: f64, v1: i64, v2: i32):
    v3 = load.f64 v1
    v4 = fmul v0, v3
    return v4
}";

#[track_caller]
fn refused(f: &mut Fixture, symbol: &str, spec: &Spec, says: &[&str]) {
    let before = f.module.declarations().get_functions().count();
    let found = f.module.derivative(f.func(symbol), spec).expect_err("it is refused").to_string();
    for part in says {
        assert!(found.contains(part), "no {part:?} in: {found}");
    }
    assert_eq!(f.module.declarations().get_functions().count(), before, "nothing is declared");
    f.finish();
}

#[test]
fn a_spec_that_does_not_fit() {
    let case = |spec: Spec, says: &[&str]| refused(&mut Fixture::new(TEXT, "f"), "f", &spec, says);
    case(Spec::gradient([Active]), &["AD0010", "has 3 parameters, but 1 activity is given", "one activity for each"]);
    case(Spec::gradient([Duplicated, Const, Const]), &["argument 0", "its type is f64", "a float is `active`"]);
    case(Spec::gradient([Active, Active, Const]), &["argument 1", "its type is i64", "a pointer is `duplicated`"]);
    case(Spec::gradient([Active, Const, Duplicated]), &["argument 2", "its type is i32"]);
    case(Spec::gradient([Dual, Const, Const]), &["argument 0", "Dual", "other mode", "write Active"]);
    case(Spec::tangent([Active, Const, Const]), &["argument 0", "Active", "other mode", "write Dual"]);
    case(Spec::tangent([Dual, Const, Dual]), &["argument 2", "its type is i32"]);
    let some = || Spec::gradient([Active, Const, Const]);
    case(some().results([ReturnActivity::Dual]), &["result 0", "the mode is reverse", "write Active"]);
    case(
        Spec::tangent([Dual, Const, Const]).results([ReturnActivity::ActiveOnly]),
        &["result 0", "the mode is forward"],
    );
    case(some().results([ReturnActivity::Duplicated]), &["result 0", "its type is f64"]);
    case(some().results([ReturnActivity::Active; 2]), &["has 1 results, but 2 activities"]);
}

#[test]
fn a_result_of_the_wrong_type() {
    let text = "function %n(i32) -> i32 {\nblock0(v0: i32):\n return v0\n}";
    let spec = Spec::gradient([Const]).results([ReturnActivity::Active]);
    refused(&mut Fixture::new(text, "n"), "n", &spec, &["result 0", "its type is i32", "write Const"]);
}

fn module() -> AdModule<JITModule> {
    AdModule::new(JITModule::new(brolga_testing::jit::host()))
}

#[track_caller]
fn says(found: Result<FuncId, AdError>, part: &str) {
    let found = found.expect_err("it is refused").to_string();
    assert!(found.contains(part), "no {part:?} in: {found}");
}

#[test]
fn a_function_without_a_body() {
    let mut m = module();
    let mut sig = m.make_signature();
    sig.params.push(AbiParam::new(types::F64));
    let import = m.declare_function("elsewhere", Linkage::Import, &sig).unwrap();
    let later = m.declare_function("later", Linkage::Export, &sig).unwrap();
    let bytes = m.declare_function("bytes", Linkage::Export, &sig).unwrap();
    m.define_function_bytes(bytes, 1, &[0xc3], &[]).unwrap();
    let spec = Spec::gradient([Active]);
    says(m.derivative(import, &spec), "%elsewhere, which is imported: define it in this module");
    says(m.derivative(later, &spec), "%later, which has not been defined yet: ask for the derivative after");
    says(m.derivative(bytes, &spec), "%bytes, which was defined by its machine code: define it by its CLIF");
    says(m.derivative(FuncId::from_u32(99), &spec), "funcid99 is no function of this module");
}

/// Define a function of a float to a float, of which `body` makes the result.
fn define(
    m: &mut AdModule<JITModule>,
    name: &str,
    callee: Option<FuncId>,
    body: impl FnOnce(&mut FunctionBuilder<'_>, Option<FuncRef>, Value) -> Value,
) -> FuncId {
    let mut cx = m.make_context();
    cx.func.signature = of_floats(m);
    let id = m.declare_function(name, Linkage::Export, &cx.func.signature).unwrap();
    let callee = callee.map(|f| m.declare_func_in_func(f, &mut cx.func));
    let mut build = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut cx.func, &mut build);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    let x = b.block_params(block)[0];
    let result = body(&mut b, callee, x);
    b.ins().return_(&[result]);
    b.seal_all_blocks();
    b.finalize(m.isa().frontend_config());
    m.define_function(id, &mut cx).unwrap();
    id
}

fn of_floats(m: &AdModule<JITModule>) -> Signature {
    let mut sig = m.make_signature();
    sig.params.push(AbiParam::new(types::F64));
    sig.returns.push(AbiParam::new(types::F64));
    sig
}

#[test]
fn a_function_without_a_name() {
    let mut m = module();
    let id = define(&mut m, "", None, |_, _, x| x);
    says(m.derivative(id, &Spec::gradient([Active])), "a function whose name is empty: declare it by another one");
}

/// Whatever is said of data that cannot be so is an error of the next derivative.
#[test]
fn shadows_of_data_that_do_not_fit() {
    let case = |said: &dyn Fn([DataId; 3]) -> (DataId, DataActivity), part: &str| {
        let mut f = Fixture::new(TEXT, "f");
        let mut data = |name: &str, bytes: usize, writable: bool| {
            let id = f.module.declare_data(name, Linkage::Local, writable, false).unwrap();
            let mut zeros = DataDescription::new();
            zeros.define_zeroinit(bytes);
            f.module.define_data(id, &zeros).unwrap();
            id
        };
        let all = [data("state", 16, true), data("short", 8, true), data("table", 16, false)];
        let (of, activity) = said(all);
        f.module.set_data(of, activity);
        says(f.module.derivative(f.func("f"), &Spec::gradient([Active, Const, Const])), part);
    };
    case(&|d| (d[0], DataActivity::Shadow(d[0])), "%state is its own shadow: declare data for that");
    case(&|d| (d[0], DataActivity::Shadow(d[1])), "%state has 16 bytes, and its shadow %short 8");
    case(&|d| (d[0], DataActivity::Shadow(d[2])), "%state has %table for a shadow, which is not writable");
    case(&|_| (DataId::from_u32(777), DataActivity::Const), "which the module has not declared");
    case(&|d| (d[0], DataActivity::Shadow(DataId::from_u32(777))), "which the module has not declared");
}

/// C returns three words in memory, a function in registers.
#[test]
fn a_prototype_that_is_none() {
    let text = "function %f(f64, i64) -> f64, i64 {\nblock0(v0: f64, v1: i64):\n v2 = fmul v0, v0\n return v2, v1\n}";
    let mut f = Fixture::new(text, "f");
    let mut prototype = |spec: Spec| {
        let id = f.module.derivative(f.func("f"), &spec).unwrap();
        f.module.signature(id).unwrap().prototype("g")
    };
    let warns = |p: String| p.contains("cannot be called from C");
    assert!(warns(prototype(Spec::gradient([Active, Const]))));
    assert!(!warns(prototype(Spec::gradient([Active, Const]).in_struct())));
    assert!(!warns(prototype(
        Spec::gradient([Active, Const]).results([ReturnActivity::ActiveOnly, ReturnActivity::Omitted])
    )));
}

/// A function that returns nothing but what it writes where the caller says has its cotangents
/// there, too.
#[test]
fn a_result_in_memory_of_the_callers() {
    let text = "function %f(i64 sret, f64) {\nblock0(v0: i64, v1: f64):\n v2 = fmul v1, v1\n store v2, v0\n return\n}";
    let mut f = Fixture::new(text, "f");
    let id = f.module.derivative(f.func("f"), &Spec::gradient([Duplicated, Active])).unwrap();
    assert!(f.module.signature(id).unwrap().layout.is_some());
    f.finish();
}

#[test]
fn a_derivative_that_is_there() {
    let mut f = Fixture::new(TEXT, "f");
    let spec = Spec::gradient([Active, Const, Const]);
    f.module.derivative(f.func("f"), &spec).unwrap();
    let embedded = f.module.derive(f.func("f"), &spec).unwrap();
    let redefined = f.module.define(&embedded, &["f__gradient"], Linkage::Local);
    says(redefined.map(|ids| ids[0]), "%f__gradient is defined already");
    // Declared before, with another signature.
    let sig = f.module.make_signature();
    f.module.declare_function("g", Linkage::Local, &sig).unwrap();
    let before = f.module.declarations().get_functions().count();
    let other = f.module.define(&embedded, &["g"], Linkage::Local);
    says(other.map(|ids| ids[0]), "%g is declared as () system_v, and the derivative is (f64, i64, i32, f64)");
    assert_eq!(f.module.declarations().get_functions().count(), before, "nothing is declared");
}

#[test]
fn an_import_that_is_no_function_of_c() {
    let text = "function %f(f64) -> f64 {
        fn0 = %mystery(f64) -> f64
    block0(v0: f64):
        v1 = call fn0(v0)
        return v1
    }";
    let mut f = Fixture::new(text, "f");
    let found = f.module.derivative(f.func("f"), &Spec::gradient([Active])).expect_err("no rule").to_string();
    assert!(found.contains("AD0150") && found.contains("%mystery") && found.contains("inst0"), "{found}");
}

#[test]
fn a_callee_that_is_not_defined_yet() {
    let mut m = module();
    let later = m.declare_function("later", Linkage::Export, &of_floats(&m)).unwrap();
    let caller = define(&mut m, "caller", Some(later), |b, callee, x| {
        let call = b.ins().call(callee.expect("it is declared"), &[x]);
        b.inst_results(call)[0]
    });
    let found = m.derivative(caller, &Spec::gradient([Active])).expect_err("it is refused").to_string();
    for part in ["%later is called, and has not been defined yet", "after `define_function` of all that it calls"] {
        assert!(found.contains(part), "no {part:?} in: {found}");
    }
}

#[test]
fn a_pair_is_two_functions_and_a_gradient_is_one() {
    let mut f = Fixture::new(TEXT, "f");
    says(f.module.derivative(f.func("f"), &Spec::pair([Active, Const, Const])), "ask for `pair`");
    let found = f.module.pair(f.func("f"), &Spec::gradient([Active, Const, Const]));
    says(found.map(|p| p.0), "ask for `derivative`");
}

#[test]
fn a_name_that_is_taken() {
    let mut f = Fixture::new(TEXT, "f");
    let embedded = f.module.derive(f.func("f"), &Spec::gradient([Active, Const, Const])).unwrap();
    let found = f.module.define(&embedded, &["f"], Linkage::Export);
    says(found.map(|ids| ids[0]), "%f is defined already: give the derivative another name");
    let found = f.module.define(&embedded, &["a", "b"], Linkage::Export);
    says(found.map(|ids| ids[0]), "2 names are given for 1 functions");
    let sig = f.module.make_signature();
    f.module.declare_function("other", Linkage::Local, &sig).unwrap();
    let found = f.module.define(&embedded, &["other"], Linkage::Local);
    says(found.map(|ids| ids[0]), "%other is declared as () system_v, and the derivative is");
}

/// What a float's bits are calculated from is loaded through a pointer: whether the caller has put
/// floats there only a run time knows.
#[test]
fn what_needs_the_run_time() {
    let text = "function %f(i64, i64) -> f64 {
    block0(v0: i64, v1: i64):
        v2 = load.i64 v0
        v3 = iconst.i64 5
        v4 = imul v2, v3
        store v4, v1
        v5 = load.f64 v1
        return v5
    }";
    let says = ["AD0174", "bits are calculated", "%f", "`DerivedRule`"];
    refused(&mut Fixture::new(text, "f"), "f", &Spec::gradient([Duplicated, Duplicated]), &says);
}

#[test]
fn a_run_has_one_derivative() {
    let options = Options { width: 4, ..Options::full() };
    let mut f = Fixture::with_options(TEXT, "f", options);
    let says = ["AD0180", "several derivatives in another module", "run it once for each"];
    refused(&mut f, "f", &Spec::gradient([Active, Duplicated, Const]), &says);
    refused(&mut f, "f", &Spec::tangent([Dual, Dual, Const]), &says);
    let pair = f.module.pair(f.func("f"), &Spec::pair([Active, Duplicated, Const]));
    assert!(says.iter().all(|part| pair.as_ref().unwrap_err().to_string().contains(part)), "{pair:?}");
}

#[test]
fn errors_name_lines_and_imports_are_listed() {
    let mut m = crate::programs::jit();
    let sig = crate::programs::f64s(&m, 1, 1);
    let mystery = m.declare_function("mystery", Linkage::Import, &sig).unwrap();
    let sine = m.declare_function("sin", Linkage::Import, &sig).unwrap();
    let call = |m: &mut AdModule<JITModule>, name: &str, callee: FuncId| {
        crate::programs::define(m, Some(name), sig.clone(), |m, b, p| {
            let callee = m.declare_func_in_func(callee, b.func);
            b.set_srcloc(cranelift_codegen::ir::SourceLoc::new(17));
            let call = b.ins().call(callee, &[p[0]]);
            let r = b.inst_results(call)[0];
            b.ins().return_(&[r]);
        })
    };
    let (f, g) = (call(&mut m, "f", mystery), call(&mut m, "g", sine));
    let spec = Spec::gradient([Active]);
    let told = |m: &AdModule<JITModule>| m.derive(f, &spec).expect_err("it is refused").to_string();
    assert!(!told(&m).contains("line"));
    m.set_lines(|at| if at.is_default() { 0 } else { at.bits() });
    assert!(told(&m).contains("line 17"), "{}", told(&m));
    let imports = m.derive(g, &spec).expect("it is derived").imports();
    assert_eq!(imports.into_iter().collect::<Vec<_>>(), ["cos", "sin"]);
}

/// A derivative that needs C's cosine, in a module that has something else of its name.
#[test]
fn names_of_c_that_are_taken() {
    for by_data in [false, true] {
        let mut m = crate::programs::jit();
        let sig = crate::programs::f64s(&m, 1, 1);
        let sine = m.declare_function("sin", Linkage::Import, &sig).unwrap();
        let f = crate::programs::define(&mut m, Some("f"), sig.clone(), |m, b, p| {
            let sine = m.declare_func_in_func(sine, b.func);
            let call = b.ins().call(sine, &[p[0]]);
            let r = b.inst_results(call)[0];
            b.ins().return_(&[r]);
        });
        if by_data {
            m.declare_data("cos", Linkage::Local, false, false).unwrap();
        } else {
            crate::programs::define(&mut m, Some("cos"), sig, |_, b, p| {
                b.ins().return_(&[p[0]]);
            });
        }
        let what = if by_data { "has data" } else { "defines a function" };
        says(m.derivative(f, &Spec::gradient([Active])), &format!("C's %cos, and the module {what} of that name"));
        assert!(m.get_name("f__gradient").is_none(), "nothing is declared");
    }
}
