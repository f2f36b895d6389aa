//! Workspaces that grow: a function of the caller's is asked before a run is given up.
//!
//! Every allowance is tried, from a workspace that holds the header and a little more, so that the
//! function is asked at each record; guard bytes behind what it has given must stay.

use brolga_module::ParamActivity::{Active, Const, Duplicated};
use brolga_module::{HEADER, MemoryMode, Options, ParamRole, ResultRole, Room, Spec};
use cranelift_codegen::data_value::DataValue;
use cranelift_module::FuncId;

use crate::common::{Fixture, Results, address, double, number};

/// x ↦ sin(x)·x n times, by what asks for each of its records, for all of them by bytes, or, as
/// `sines` (x ↦ sin x), by iterations.
const TEXT: &str = "function %step(f64) -> f64 {
    fn0 = %sin(f64) -> f64
block0(v0: f64):
    v1 = call fn0(v0)
    v2 = fmul v1, v0
    return v2
}
function %each(f64, i64) -> f64 {
    fn0 = %each(f64, i64) -> f64
    fn1 = %sin(f64) -> f64
block0(v0: f64, v1: i64):
    brif v1, block1, block2
block1:
    v2 = iconst.i64 1
    v3 = isub v1, v2
    v4 = call fn0(v0, v3)
    v5 = call fn1(v4)
    v6 = fmul v5, v4
    return v6
block2:
    return v0
}
function %while(f64, i64) -> f64 {
    fn0 = %step(f64) -> f64
block0(v0: f64, v1: i64):
    jump block1(v0, v1)
block1(v2: f64, v3: i64):
    brif v3, block2, block3
block2:
    v4 = call fn0(v2)
    v5 = iconst.i64 1
    v6 = isub v3, v5
    jump block1(v4, v6)
block3:
    return v2
}
function %once(f64, i64) -> f64 {
    fn0 = %sin(f64) -> f64
block0(v0: f64, v1: i64):
    jump block1(v0, v1)
block1(v2: f64, v3: i64):
    v4 = call fn0(v2)
    v5 = fmul v4, v2
    v6 = iconst.i64 1
    v7 = isub v3, v6
    brif v7, block1(v5, v7), block2
block2:
    return v5
}
function %sines(f64, i64) -> f64 {
    fn0 = %sin(f64) -> f64
block0(v0: f64, v1: i64):
    jump block1(v0, v1)
block1(v2: f64, v3: i64):
    brif v3, block2, block3
block2:
    v4 = call fn0(v2)
    v5 = iconst.i64 1
    v6 = isub v3, v5
    jump block1(v4, v6)
block3:
    return v2
}";

/// What a caller's function knows.
struct Growing {
    most: i64,
    asked: Vec<i64>,
}

/// As many bytes as are asked for, and no more than there are.
extern "C" fn grow(context: *mut Growing, bytes: i64) -> i64 {
    // SAFETY: the test passes it.
    let context = unsafe { &mut *context };
    context.asked.push(bytes);
    bytes.min(context.most)
}

fn sines(x: f64, n: i64) -> f64 {
    (0..n).fold(x, |x, _| x.sin())
}

fn primal(x: f64, n: i64) -> f64 {
    (0..n).fold(x, |x, _| x.sin() * x)
}

fn slope(f: impl Fn(f64) -> f64, x: f64) -> f64 {
    let h = 1e-5;
    (f(x + h) - f(x - h)) / (2.0 * h)
}

/// Call a forward pass or a gradient with a workspace of which `given` bytes are given at first.
fn run(f: &Fixture, id: FuncId, n: i64, memory: &mut [u8], given: usize, growing: &mut Growing) -> Results {
    f.call(id, |role| match role {
        ParamRole::Primal(0) => double(0.9),
        ParamRole::Primal(1) => DataValue::I64(n),
        ParamRole::Seed(0) => double(1.0),
        ParamRole::Workspace => address(memory),
        ParamRole::WorkspaceBytes => DataValue::I64(given as i64),
        ParamRole::Grow => DataValue::I64(grow as *const () as i64),
        ParamRole::GrowContext => DataValue::I64(std::ptr::from_mut(growing) as i64),
        other => panic!("{other:?}"),
    })
}

#[test]
fn a_run_goes_on_with_what_it_is_given() {
    type Primal = fn(f64, i64) -> f64;
    for (symbol, primal) in [("each", primal as Primal), ("while", primal), ("once", primal), ("sines", sines)] {
        let mut f = Fixture::new(TEXT, symbol);
        let id = f.derivative(symbol, &Spec::gradient([Active, Const]).growing());
        f.finish();
        assert_eq!(f.module.room(id), Some(Room::Unknown), "{symbol}");
        let (n, given) = (12, HEADER as usize + 16);
        let (mut fits, mut full) = (0, 0);
        for most in (given..3000).step_by(29) {
            let mut memory = vec![0x5a_u8; 4096];
            let mut growing = Growing { most: most as i64, asked: vec![] };
            let found = run(&f, id, n, &mut memory[32..], given, &mut growing);
            assert!(memory[..32].iter().chain(&memory[32 + most..]).all(|b| *b == 0x5a), "{symbol} {most}");
            assert!(growing.asked.iter().all(|a| *a > given as i64), "{symbol} {:?}", growing.asked);
            assert!(growing.asked.is_sorted_by(|a, b| a < b), "{symbol} {:?}", growing.asked);
            let ct = number(&found, ResultRole::Cotangent(0)).unwrap();
            match number(&found, ResultRole::Status).unwrap() {
                0.0 => {
                    let want = slope(|x| primal(x, n), 0.9);
                    assert!((ct - want).abs() < 1e-7 * want.abs().max(1.0), "{symbol} {most}: {ct} {want}");
                    assert!(!growing.asked.is_empty());
                    fits += 1;
                }
                _ => {
                    assert!(ct.is_nan() && *growing.asked.last().unwrap() > most as i64, "{symbol} {most}");
                    full += 1;
                }
            }
        }
        assert!(fits > 30 && full > 2, "{symbol}: {fits} {full}");
    }
}

#[test]
fn a_pair_grows_in_its_forward_pass() {
    let mut f = Fixture::new(TEXT, "while");
    let (forward, pullback) = f.pair("while", &Spec::pair([Active, Const]).growing());
    assert_eq!(f.module.signature(pullback).unwrap().param(ParamRole::Grow), None);
    f.finish();
    let mut memory = vec![0_u8; 1 << 14];
    let mut growing = Growing { most: 1 << 14, asked: vec![] };
    let found = run(&f, forward, 20, &mut memory, HEADER as usize + 16, &mut growing);
    assert_eq!(number(&found, ResultRole::Status), Some(0.0));
    assert!(growing.asked.len() > 1, "{:?}", growing.asked);
    for _ in 0..2 {
        let found = f.call(pullback, |role| match role {
            ParamRole::Seed(0) => double(1.0),
            ParamRole::Workspace => address(&mut memory),
            other => panic!("{other:?}"),
        });
        let (ct, want) = (number(&found, ResultRole::Cotangent(0)).unwrap(), slope(|x| primal(x, 20), 0.9));
        assert!((ct - want).abs() < 1e-7 * want.abs().max(1.0), "{ct} {want}");
    }
}

/// Without a workspace of unknown size there is nothing that grows.
#[test]
fn what_has_a_bound_has_no_such_parameters() {
    let mut f = Fixture::new(TEXT, "step");
    let id = f.derivative("step", &Spec::gradient([Active]).growing());
    assert_eq!(f.module.signature(id).unwrap().param(ParamRole::Grow), None);
    let mut g = Fixture::new(TEXT, "once");
    let id = g.derivative("once", &Spec::gradient([Active, Const]).growing());
    let prototype = g.module.signature(id).unwrap().prototype("g");
    let params = "void *workspace, int64_t workspace_bytes, int64_t (*grow)(void *context, int64_t bytes), \
                  void *grow_context);";
    assert!(prototype.ends_with(params), "{prototype}");
}

/// Bytes that a copy overwrites are kept on the tape, and put back; the size is found when it runs.
#[test]
fn memory_that_copies_overwrite_is_restored() {
    let text = "function %f(i64, i64, i64, i64) -> f64 {
        fn0 = %memcpy(i64, i64, i64) -> i64
        fn1 = %memset(i64, i32, i64) -> i64
    block0(v0: i64, v1: i64, v2: i64, v3: i64):
        v4 = call fn0(v0, v1, v2)
        v5 = load.f64 v0
        v6 = load.f64 v0+8
        v7 = fmul v5, v6
        v8 = iconst.i32 0
        v9 = call fn1(v1, v8, v3)
        return v7
    }";
    let options = Options { memory: MemoryMode::Restore, ..Options::full() };
    let mut f = Fixture::with_options(text, "f", options);
    let activities = [Duplicated, Duplicated, Const, Const];
    let id = f.derivative("f", &Spec::gradient(activities));
    let (forward, pullback) = f.pair("f", &Spec::pair(activities));
    f.finish();
    let (mut fits, mut full) = (0, 0);
    for size in (0..500).step_by(7) {
        for both in [true, false] {
            let (mut to, mut from) = ([9.0_f64, 8.0, 7.0], [2.0_f64, 3.0, 5.0]);
            let (mut d_to, mut d_from) = ([0.0_f64; 3], [0.25_f64, 0.5, 0.75]);
            let mut memory = vec![0x5a_u8; size + 64];
            let mut pointers = [&mut to, &mut from, &mut d_to, &mut d_from].map(|a| address(&mut a[..]));
            let workspace = address(&mut memory[32..]);
            let mut argument = |role| match role {
                ParamRole::Primal(i @ (0 | 1)) => pointers[i].clone(),
                ParamRole::Shadow(i) => pointers[2 + i].clone(),
                // Bytes of the copy, and of what is cleared: the last float stays but for a byte.
                ParamRole::Primal(2) => DataValue::I64(16),
                ParamRole::Primal(_) => DataValue::I64(17),
                ParamRole::Seed(0) => double(1.0),
                ParamRole::Workspace => workspace.clone(),
                ParamRole::WorkspaceBytes => DataValue::I64(size as i64),
                other => panic!("{other:?}"),
            };
            let mut found = f.call(if both { id } else { forward }, &mut argument);
            let value = number(&found, ResultRole::Value(0)).unwrap();
            if !both && number(&found, ResultRole::Status) == Some(0.0) {
                found = f.call(pullback, &mut argument);
            }
            pointers.fill(DataValue::I64(0));
            assert!(memory[..32].iter().chain(&memory[32 + size..]).all(|b| *b == 0x5a), "{size}");
            if number(&found, ResultRole::Status) == Some(0.0) {
                assert_eq!(value, 6.0);
                assert_eq!((to, from), ([9.0, 8.0, 7.0], [2.0, 3.0, 5.0]), "{size} {both}");
                assert_eq!(d_to, [0.0; 3]);
                assert_eq!(d_from[..2], [3.0, 2.0]);
                fits += 1;
            } else {
                full += 1;
            }
        }
    }
    assert!(fits > 40 && full > 40, "{fits} {full}");
}
