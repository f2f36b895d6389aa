//! Calls against signatures: what fits, and where the caret stands if it does not.

use brolga::{ArgActivity, ArgSpec, Elem};
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::{BoundArg, File, Invocation, SyntaxError};

const TEXT: &str = "
function %f(f64, i64, i32) -> f64 system_v {
block0(v0: f64, v1: i64, v2: i32):
    return v0
}
function %v(f64x2, f32, i8) -> f64x2, i64 system_v {
block0(v0: f64x2, v1: f32, v2: i8):
    v3 = iconst.i64 0
    return v0, v3
}
function %p(i64, i64, i64) system_v {
block0(v0: i64, v1: i64, v2: i64):
    return
}
";

fn bind(call: &str) -> Result<Invocation, Box<SyntaxError>> {
    let file = File::parse("test.clif", TEXT).unwrap();
    let (parsed, clauses) = call_with_clauses(call)?;
    Invocation::bind(&file.program, call, &parsed, &clauses)
}

fn elems(call: &Invocation) -> Vec<Option<Elem>> {
    call.request().args.iter().map(|a| a.elem).collect()
}

#[test]
fn defaults() {
    use ArgActivity::*;
    let call = bind("%f(1.5, [1.0, 2.0], 3)").unwrap();
    assert_eq!(call.specs, [Active, Duplicated, Const].map(ArgSpec::from));
    assert_eq!(elems(&call), [None, Some(Elem::F64), None]);
    let call = bind("%v([1.0 2.0], 0.5, true)").unwrap();
    assert_eq!(call.specs, [Active, Active, Const].map(ArgSpec::from));
    assert_eq!(call.seeds.len(), 2);
    let call = bind("%p(f32[1.0], i64[1, 2], @0)").unwrap();
    assert_eq!(call.specs, [Duplicated, Const, Duplicated].map(ArgSpec::from));
    assert_eq!(elems(&call), [Some(Elem::F32), Some(Elem::Int), Some(Elem::F32)]);
    assert!(call.owns_shadow(0) && !call.owns_shadow(1) && !call.owns_shadow(2));
}

#[test]
fn clauses() {
    let call = bind("%p([1, 2], [3, 4], @0) activity duplicated,const,duplicated shadow 2=[5, 6]").unwrap();
    let BoundArg::Buffer { shadow, .. } = &call.args[0] else { panic!("not a buffer") };
    assert_eq!(*shadow, [5f64.to_le_bytes(), 6f64.to_le_bytes()].concat(), "shared with argument 0");
    bind("%v([1 2], 0, 0) seed [1 0], 0").unwrap();
    bind("%p([], 0, -1)").unwrap();
    // A pointer may be a plain number, and a list of one is a vector or a buffer as the type says.
    assert!(matches!(bind("%p([1], 0, 0)").unwrap().args[0], BoundArg::Buffer { .. }));
}

#[test]
fn what_does_not_fit() {
    let complaint = |call: &str| {
        let e = bind(call).unwrap_err();
        (e.message.clone(), call[e.span.clone()].to_owned())
    };
    let check = |call: &str, message: &str, at: &str| {
        let (m, a) = complaint(call);
        assert!(m.contains(message), "{call}: {m}");
        assert_eq!(a, at, "{call}");
    };
    check("%g(1.0)", "is not defined", "%g");
    check("%f(1.0)", "takes 3 arguments, not 1", "%f(1.0)");
    check("%f([1.0], 0, 0)", "argument 0 is an f64, not a buffer", "[1.0]");
    check("%f(x, 0, 0)", "not an f64", "x");
    check("%f(1.0, 0, 1.5)", "not a whole number", "1.5");
    check("%f(1.0, 0, 5000000000)", "out of range", "5000000000");
    check("%f(1.0, [1.0 2.0], 0)", "this is a vector", "[1.0 2.0]");
    check("%f(1.0, [1.0, y], 0)", "not an f64", "y");
    check("%f(1.0, @0, 0)", "argument 0 is not a buffer", "@0");
    check("%f(1.0, @1, 0)", "does not come before", "@1");
    check("%v(1.0, 1.0, 0)", "has 2 lanes", "1.0");
    check("%v([1.0 2.0 3.0], 1.0, 0)", "has 2 lanes, not 3", "[1.0 2.0 3.0]");
    check("%v([1.0 z], 1.0, 0)", "not an f64", "z");
    check("%f(1.0, [1.0], 0) activity active", "1 activity given for 3 arguments", "active");
    check("%f(1.0, [1.0], 0) activity active,active,const", "cannot be active", "active,active,const");
    check("%f(1.0, 8, 0) activity active,duplicated,const", "no shadow", "active,duplicated,const");
    check("%f(1.0, [1.0], 0) shadow 1=[1.0, 2.0]", "2 elements, but the buffer has 1", "[1.0, 2.0]");
    check("%f(1.0, [1.0], 0) shadow 1=f32[1.0]", "expected elements of type f64", "f32[1.0]");
    check("%f(1.0, [1.0], 0) shadow 2=[1.0]", "not a buffer", "2");
    check("%f(1.0, [1.0], 0) shadow 7=[1.0]", "no argument 7", "7");
    check("%f(1.0, [1.0], 0) seed 1, 2", "2 seeds given for 1 result", "1, 2");
    check("%f(1.0, [1.0], 0) seed [1 2]", "a seed of type f64", "[1 2]");
}
