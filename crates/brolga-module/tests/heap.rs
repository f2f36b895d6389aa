//! Blocks of the heap in a module's derivatives: forward passes with pullbacks, `realloc`, and what
//! is freed when. Closed forms are the oracle, and an allocator that counts.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Mutex;

use brolga_module::ParamActivity::{Const, Dual, Duplicated};
use brolga_module::{ParamRole, ResultRole, ReturnActivity, Room, Spec};
use cranelift_codegen::data_value::DataValue;
use cranelift_module::FuncId;

use crate::common::{Fixture, Results, address, double, number};

/// Blocks by address, of threads that have asked for an account.
static LIVE: Mutex<Option<HashMap<usize, usize>>> = Mutex::new(None);
/// One test at a time counts.
static TURN: Mutex<()> = Mutex::new(());

mod c {
    unsafe extern "C" {
        pub(super) fn malloc(n: usize) -> *mut super::c_void;
        pub(super) fn calloc(n: usize, m: usize) -> *mut super::c_void;
        pub(super) fn free(p: *mut super::c_void);
    }
}

fn counted(p: *mut c_void, n: usize) -> *mut c_void {
    let mut live = LIVE.lock().expect("no test panics here");
    assert!(live.get_or_insert_default().insert(p as usize, n).is_none(), "a block that is in use");
    p
}

// SAFETY of all three: what C says of its own.
extern "C" fn malloc(n: usize) -> *mut c_void {
    counted(unsafe { c::malloc(n) }, n)
}

extern "C" fn calloc(n: usize, m: usize) -> *mut c_void {
    counted(unsafe { c::calloc(n, m) }, n * m)
}

extern "C" fn free(p: *mut c_void) {
    if !p.is_null() {
        let n = LIVE.lock().expect("no test panics here").get_or_insert_default().remove(&(p as usize));
        assert!(n.is_some(), "a block that is not in use is freed");
        // What is still read afterwards is wrong.
        unsafe { std::ptr::write_bytes(p.cast::<u8>(), 0xa5, n.unwrap_or(0)) };
        unsafe { c::free(p) };
    }
}

fn live() -> usize {
    LIVE.lock().expect("no test panics here").as_ref().map_or(0, HashMap::len)
}

/// The squares of n numbers in a block, which becomes twice as long: after them their cubes. The
/// sum of all; after that the block is freed.
const GROWN: &str = "function %f(i64, i64) -> f64 {
    fn0 = %malloc(i64) -> i64
    fn1 = %realloc(i64, i64) -> i64
    fn2 = %free(i64)
block0(v0: i64, v1: i64):
    v2 = iconst.i64 3
    v3 = ishl v1, v2
    v4 = call fn0(v3)
    v5 = iconst.i64 0
    v6 = iconst.i64 8
    jump block1(v5)
block1(v7: i64):
    v8 = iadd v0, v7
    v9 = load.f64 v8
    v10 = fmul v9, v9
    v11 = iadd v4, v7
    store v10, v11
    v12 = iadd v7, v6
    v13 = icmp eq v12, v3
    brif v13, block2, block1(v12)
block2:
    v14 = iadd v3, v3
    v15 = call fn1(v4, v14)
    v16 = f64const 0.0
    jump block3(v5, v16)
block3(v20: i64, v21: f64):
    v22 = iadd v0, v20
    v23 = load.f64 v22
    v24 = iadd v15, v20
    v25 = load.f64 v24
    v26 = fmul v23, v25
    v27 = iadd v24, v3
    store v26, v27
    v28 = load.f64 v27
    v29 = fadd v21, v25
    v30 = fadd v29, v28
    v31 = iadd v20, v6
    v32 = icmp eq v31, v3
    brif v32, block4, block3(v31, v30)
block4:
    call fn2(v15)
    return v30
}";

fn fixture(text: &str) -> Fixture {
    Fixture::with(
        text,
        "f",
        &[("malloc", malloc as *const u8), ("calloc", calloc as *const u8), ("free", free as *const u8)],
    )
}

struct Memory {
    x: [f64; 5],
    shadow: [f64; 5],
    space: Vec<u8>,
}

impl Memory {
    fn new(bytes: usize) -> Self {
        let (x, shadow) = ([0.5, -1.5, 2.0, 0.25, -0.75], [0.5, 0.25, 0.0, -1.0, 2.0]);
        Self { x, shadow, space: vec![0xaa; bytes] }
    }

    fn call(&mut self, m: &Fixture, id: FuncId, n: usize) -> Results {
        m.call(id, |role| match role {
            ParamRole::Primal(0) => address(&mut self.x),
            ParamRole::Shadow(0) => address(&mut self.shadow),
            ParamRole::Primal(1) => DataValue::I64(n as i64),
            ParamRole::Workspace => address(&mut self.space),
            ParamRole::WorkspaceBytes => DataValue::I64(self.space.len() as i64),
            _ => double(1.0),
        })
    }

    /// The gradient of the sums, so many times, added to what was there.
    fn is_gradient(&self, n: usize, times: f64) {
        for (i, (x, s)) in self.x.iter().zip(&self.shadow).enumerate() {
            let slope = if i < n { 2.0 * x + 3.0 * x * x } else { 0.0 };
            let want = Self::new(0).shadow[i] + times * slope;
            assert!((s - want).abs() < 1e-13, "{i}: {s}, not {want}");
        }
    }
}

fn sum(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x + x * x * x).sum()
}

#[test]
fn a_block_that_grows() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut m = fixture(GROWN);
    let gradient = m.derivative("f", &Spec::gradient([Duplicated, Const]));
    let tangent = m.derivative("f", &Spec::tangent([Dual, Const]).results([ReturnActivity::Dual]));
    m.finish();
    let before = live();
    for n in 1..6 {
        let mut at = Memory::new(1 << 14);
        for times in [1.0, 2.0] {
            let found = at.call(&m, gradient, n);
            assert_eq!(number(&found, ResultRole::Status), Some(0.0));
            assert_eq!(number(&found, ResultRole::Value(0)), Some(sum(&at.x[..n])));
            at.is_gradient(n, times);
        }
        let mut at = Memory::new(1 << 14);
        let found = at.call(&m, tangent, n);
        let want: f64 = at.x[..n].iter().zip(&at.shadow).map(|(x, t)| (2.0 * x + 3.0 * x * x) * t).sum();
        let is = number(&found, ResultRole::Tangent(0)).expect("it is there");
        assert!((is - want).abs() < 1e-13, "{is}, not {want}");
        assert_eq!(live(), before, "all blocks are freed");
    }
}

/// A pair keeps its blocks until it is told that no pullback is called any more.
#[test]
fn blocks_of_a_record() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut m = fixture(GROWN);
    let (forward, pullback) = m.pair("f", &Spec::pair([Duplicated, Const]));
    let release = m.module.release(pullback).expect("it keeps blocks");
    assert_eq!(m.module.release(forward), Some(release));
    let name = m.module.signature(release).expect("it is derived").prototype("f_release");
    assert_eq!(name, "void f_release(void *workspace);");
    m.door(release);
    m.finish();
    assert_eq!(m.module.room(forward), Some(Room::Unknown));
    let mut before = live();
    // Workspaces may begin anywhere; some are too small.
    let mut fitted = 0;
    for n in 1..6 {
        for bytes in [0, 100, 300, 400, 600, 1 << 14] {
            let mut at = Memory::new(bytes);
            let found = at.call(&m, forward, n);
            if number(&found, ResultRole::Status) == Some(1.0) {
                // What the function itself would have freed is left.
                assert!(live() <= before + 1, "it has freed what it had");
                before = live();
                continue;
            }
            fitted += 1;
            assert!(live() > before);
            let held = live();
            for times in [1.0, 2.0, 3.0] {
                at.call(&m, pullback, n);
                at.is_gradient(n, times);
            }
            assert_eq!(live(), held);
            m.call(release, |_| address(&mut at.space));
            assert_eq!(live(), before);
        }
    }
    assert!(fitted >= 5, "{fitted}");
}

/// Forward mode over the gradient, and the gradient of the tangent: blocks grow in both.
#[test]
fn a_block_that_grows_derived_twice() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut m = fixture(GROWN);
    let gradient = m.derivative("f", &Spec::gradient([Duplicated, Const]).results([ReturnActivity::ActiveOnly]));
    let roles = m.module.signature(gradient).expect("it is derived").params.clone();
    use ParamRole::{Primal, Seed, Shadow, Workspace, WorkspaceBytes};
    assert_eq!(roles, [Primal(0), Shadow(0), Primal(1), Seed(0), Workspace, WorkspaceBytes]);
    let forward = m.derivative_of(gradient, &Spec::tangent([Dual, Dual, Const, Dual, Dual, Const]));
    let tangent = m.derivative("f", &Spec::tangent([Dual, Const]).results([ReturnActivity::DualOnly]));
    let reverse = m.derivative_of(tangent, &Spec::gradient([Duplicated, Duplicated, Const]));
    m.finish();
    for n in 1..6 {
        let mut x = Memory::new(0).x;
        let along = [0.3, -0.7, 0.2, 1.5, -0.4];
        let near = |is: f64, want: f64, what: &str| assert!((is - want).abs() < 1e-12, "{what}: {is}, not {want}");
        let (mut direction, mut shadow, mut of_shadow) = (along, [0.5; 5], [0.25; 5]);
        let (mut space, mut space_shadow) = (vec![0xaa_u8; 1 << 14], vec![0_u8; 1 << 14]);
        let found = m.call(forward, |role| match role {
            Primal(0) => address(&mut x),
            Shadow(0) => address(&mut direction),
            Primal(1) => address(&mut shadow),
            Shadow(1) => address(&mut of_shadow),
            Primal(2) => DataValue::I64(n as i64),
            // The seed and its tangent.
            Primal(3) => double(2.0),
            ParamRole::Tangent(3) => double(0.5),
            Primal(4) => address(&mut space),
            Shadow(4) => address(&mut space_shadow),
            _ => DataValue::I64(1 << 14),
        });
        assert_eq!(number(&found, ResultRole::Value(0)), Some(0.0), "it fits");
        for i in 0..5 {
            let (slope, curvature) = (2.0 * x[i] + 3.0 * x[i] * x[i], 2.0 + 6.0 * x[i]);
            let inside = if i < n { 1.0 } else { 0.0 };
            near(shadow[i], 0.5 + inside * 2.0 * slope, "gradient");
            near(of_shadow[i], 0.25 + inside * (2.0 * curvature * along[i] + 0.5 * slope), "product");
        }
        // The other way round: x with its cotangents, the direction with its own.
        let (mut of_x, mut direction, mut of_direction) = ([0.5; 5], along, [0.25; 5]);
        let mut outer_workspace = vec![0xaa_u8; 1 << 15];
        for times in [1.0, 2.0] {
            m.call(reverse, |role| match role {
                Primal(0) => address(&mut x),
                Shadow(0) => address(&mut of_x),
                Primal(1) => address(&mut direction),
                Shadow(1) => address(&mut of_direction),
                Primal(2) => DataValue::I64(n as i64),
                Seed(_) => double(1.0),
                Workspace => address(&mut outer_workspace),
                _ => DataValue::I64(1 << 15),
            });
            for i in 0..5 {
                let (slope, curvature) = (2.0 * x[i] + 3.0 * x[i] * x[i], 2.0 + 6.0 * x[i]);
                let inside = if i < n { times } else { 0.0 };
                near(of_x[i], 0.5 + inside * curvature * along[i], "product, reverse over forward");
                near(of_direction[i], 0.25 + inside * slope, "gradient, reverse over forward");
            }
        }
    }
}

/// What is left in a shadow when its block is allocated is nothing to the next pullback.
#[test]
fn zeros_that_are_read() {
    let text = "function %f(i64, i64) -> f64 {
        fn0 = %calloc(i64, i64) -> i64
    block0(v0: i64, v1: i64):
        v2 = iconst.i64 8
        v3 = call fn0(v2, v2)
        v4 = load.f64 v0
        v12 = imul v1, v2
        v13 = iadd v3, v12
        v5 = load.f64 v13
        v6 = fmul v5, v4
        v7 = fmul v4, v4
        store v7, v3+8
        jump block1(v1, v6)
    block1(v14: i64, v15: f64):
        v8 = load.f64 v13
        v9 = fmul v8, v4
        v10 = fadd v8, v9
        v11 = fadd v10, v15
        v16 = iconst.i64 1
        v17 = isub v14, v16
        brif v17, block1(v17, v11), block2
    block2:
        return v11
    }";
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut m = fixture(text);
    let (forward, pullback) = m.pair("f", &Spec::pair([Duplicated, Const]));
    m.finish();
    let mut at = Memory::new(1 << 12);
    at.call(&m, forward, 1);
    for times in [1.0, 2.0, 3.0] {
        at.call(&m, pullback, 1);
        at.is_gradient(1, times);
    }
}

#[test]
fn what_is_no_block_is_no_block_of_another_size() {
    // `realloc(NULL, n)` is `malloc(n)`, and `realloc(p, 0)` is `free(p)`.
    let text = "function %f(i64, i64) -> f64 {
        fn1 = %realloc(i64, i64) -> i64
    block0(v0: i64, v1: i64):
        v2 = iconst.i64 0
        v3 = iconst.i64 16
        v4 = call fn1(v2, v3)
        v5 = load.f64 v0
        v6 = fmul v5, v5
        store v6, v4+8
        v7 = load.f64 v4+8
        v8 = call fn1(v4, v2)
        v9 = fmul v7, v5
        v10 = fadd v7, v9
        return v10
    }";
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut m = fixture(text);
    let gradient = m.derivative("f", &Spec::gradient([Duplicated, Const]));
    let (forward, pullback) = m.pair("f", &Spec::pair([Duplicated, Const]));
    let release = m.module.release(pullback).expect("it keeps blocks");
    m.door(release);
    m.finish();
    let before = live();
    let mut at = Memory::new(1 << 12);
    at.call(&m, gradient, 1);
    at.is_gradient(1, 1.0);
    assert_eq!(live(), before);
    let mut at = Memory::new(1 << 12);
    at.call(&m, forward, 1);
    at.call(&m, pullback, 1);
    at.call(&m, pullback, 1);
    at.is_gradient(1, 2.0);
    m.call(release, |_| address(&mut at.space));
    assert_eq!(live(), before);
}
