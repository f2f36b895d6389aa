//! Workspaces: how much is needed, and what a run says that does not fit.

use brolga_module::ParamActivity::{Active, Const};
use brolga_module::{HEADER, LACKING, ParamRole, ResultRole, Room, Spec};
use cranelift_codegen::data_value::DataValue;
use cranelift_module::FuncId;

use crate::common::{Fixture, Results, address, double, number};

/// x ↦ sin(sin(… x)), n times, by a function that is called in a loop.
const TEXT: &str = "function %step(f64) -> f64 {
    fn0 = %sin(f64) -> f64
block0(v0: f64):
    v1 = call fn0(v0)
    v2 = fmul v1, v1
    v3 = fadd v2, v0
    return v3
}
function %f(f64, i64) -> f64 {
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
function %recursive(f64, i64) -> f64 {
    fn0 = %recursive(f64, i64) -> f64
    fn1 = %sin(f64) -> f64
block0(v0: f64, v1: i64):
    brif v1, block1, block2
block1:
    v2 = iconst.i64 1
    v3 = isub v1, v2
    v4 = call fn0(v0, v3)
    v5 = call fn1(v4)
    v6 = fmul v5, v0
    return v6
block2:
    return v0
}";

fn slope(f: impl Fn(f64) -> f64, x: f64) -> f64 {
    let h = 1e-5;
    (f(x + h) - f(x - h)) / (2.0 * h)
}

fn steps(x: f64, n: i64) -> f64 {
    (0..n).fold(x, |x, _| x.sin() * x.sin() + x)
}

fn recursive(x: f64, n: i64) -> f64 {
    if n == 0 { x } else { recursive(x, n - 1).sin() * x }
}

fn gradient(f: &Fixture, id: FuncId, n: i64, workspace: &mut [u8]) -> Results {
    f.call(id, |role| match role {
        ParamRole::Primal(0) => double(0.6),
        ParamRole::Primal(1) => DataValue::I64(n),
        ParamRole::Seed(0) => double(1.0),
        ParamRole::WorkspaceBytes => DataValue::I64(workspace.len() as i64),
        ParamRole::Workspace => address(workspace),
        other => panic!("{other:?}"),
    })
}

#[test]
fn a_run_that_does_not_fit_says_so() {
    type Primal = fn(f64, i64) -> f64;
    for (symbol, primal) in [("f", steps as Primal), ("recursive", recursive as Primal)] {
        let mut f = Fixture::new(TEXT, symbol);
        let id = f.derivative(symbol, &Spec::gradient([Active, Const]));
        f.finish();
        assert_eq!(f.module.room(id), Some(Room::Unknown), "{symbol}");
        // C's type of the size is signed.
        let none = f.call(id, |role| match role {
            ParamRole::Primal(0) | ParamRole::Seed(_) => double(1.0),
            ParamRole::Primal(_) => DataValue::I64(3),
            ParamRole::WorkspaceBytes => DataValue::I64(-8),
            _ => DataValue::I64(0),
        });
        assert_eq!(number(&none, ResultRole::Status), Some(1.0), "{symbol}");
        let (mut fits, mut full) = (0, 0);
        for n in [0, 1, 5, 40] {
            // Every size, at every alignment: nothing is written outside of it.
            for size in (0..3000).step_by(37) {
                let mut memory = vec![0x5a_u8; size + 64];
                let found = gradient(&f, id, n, &mut memory[32..32 + size]);
                assert!(memory[..32].iter().chain(&memory[32 + size..]).all(|b| *b == 0x5a), "{symbol} {n} {size}");
                let numbers = [ResultRole::Value(0), ResultRole::Cotangent(0)].map(|r| number(&found, r).unwrap());
                match number(&found, ResultRole::Status).unwrap() {
                    0.0 => {
                        let want = slope(|x| primal(x, n), 0.6);
                        assert!((numbers[1] - want).abs() < 1e-7 * want.abs().max(1.0), "{numbers:?} {want}");
                        assert!((numbers[0] - primal(0.6, n)).abs() < 1e-14);
                        fits += 1;
                    }
                    1.0 => {
                        assert!(numbers.iter().all(|x| x.is_nan()), "{symbol} {n} {size}: {numbers:?}");
                        full += 1;
                    }
                    other => panic!("{other}"),
                }
            }
        }
        assert!(fits > 40 && full > 40, "{symbol}: {fits} {full}");
    }
}

/// x ↦ sin(x)·x, n times: each iteration records, and how often is known beforehand.
const CHAIN: &str = "function %chain(f64, i64) -> f64 {
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
}";

#[test]
fn a_run_says_how_much_it_lacks() {
    for (text, symbol, most) in [(CHAIN, "chain", 2), (TEXT, "f", 100)] {
        let mut f = Fixture::new(text, symbol);
        let id = f.derivative(symbol, &Spec::gradient([Active, Const]));
        f.finish();
        let (mut size, mut runs) = (HEADER as usize, 0);
        loop {
            // Aligned, so that the header is where the memory begins.
            let mut memory = vec![0_u128; size.div_ceil(16)];
            // SAFETY: the bytes of the memory.
            let bytes = unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<u8>(), size) };
            let found = gradient(&f, id, 40, bytes);
            runs += 1;
            if number(&found, ResultRole::Status) == Some(0.0) {
                break;
            }
            let at = LACKING as usize;
            let lacks = i64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
            assert!(lacks > 0 && lacks < 10_000, "{lacks}");
            size += lacks as usize;
        }
        assert!((2..=most).contains(&runs) && size > 500, "{symbol}: {runs} runs, {size} bytes");
    }
}

#[test]
fn a_pullback_of_a_run_that_does_not_fit_says_so_too() {
    let mut f = Fixture::new(TEXT, "f");
    let (forward, pullback) = f.pair("f", &Spec::pair([Active, Const]));
    f.finish();
    assert_eq!(f.module.room(forward), Some(Room::Unknown));
    for size in [HEADER as usize + 16, 700, 4000] {
        let mut memory = vec![0_u8; size];
        let first = gradient(&f, forward, 40, &mut memory);
        let second = f.call(pullback, |role| match role {
            ParamRole::Seed(0) => double(1.0),
            ParamRole::Workspace => address(&mut memory),
            other => panic!("{other:?}"),
        });
        let [a, b] = [&first, &second].map(|r| number(r, ResultRole::Status).unwrap());
        assert_eq!(a, b);
        assert_eq!(a, if size == 4000 { 0.0 } else { 1.0 });
        let ct = number(&second, ResultRole::Cotangent(0)).unwrap();
        assert!(if a == 0.0 { (ct - slope(|x| steps(x, 40), 0.6)).abs() < 1e-6 * ct.abs() } else { ct.is_nan() });
    }
}

#[test]
fn straight_line_code_needs_none() {
    let mut f = Fixture::new(TEXT, "step");
    let id = f.derivative("step", &Spec::gradient([Active]));
    let (forward, _) = f.pair("step", &Spec::pair([Active]));
    assert_eq!(f.module.room(id), Some(Room::Nothing));
    let Some(Room::Bytes(n)) = f.module.room(forward) else { panic!("a pair records") };
    f.finish();
    // What it says is enough, wherever it begins.
    for skip in 0..17 {
        let mut memory = vec![0_u8; n as usize + skip];
        let fits = gradient(&f, forward, 0, &mut memory[skip..]);
        assert_eq!(number(&fits, ResultRole::Status), Some(0.0));
    }
    let mut memory = vec![0_u8; n as usize - 1];
    assert_eq!(number(&gradient(&f, forward, 0, &mut memory), ResultRole::Status), Some(1.0));
}

/// x² in a block of its own, which is freed before the square is used; n times.
const HEAP: &str = "function %boxed(f64, i64) -> f64 {
    fn1 = %malloc(i64) -> i64
    fn2 = %free(i64)
block0(v0: f64, v1: i64):
    jump block1(v0, v1)
block1(v2: f64, v3: i64):
    v4 = iconst.i64 24
    v5 = call fn1(v4)
    v6 = fmul v2, v2
    store v6, v5+16
    v7 = load.f64 v5+16
    v8 = fmul v7, v2
    call fn2(v5)
    v9 = iconst.i64 1
    v10 = isub v3, v9
    brif v10, block1(v8, v10), block2
block2:
    return v8
}";

#[test]
fn blocks_of_the_heap_are_freed_at_the_end_of_a_run() {
    let mut f = Fixture::new(HEAP, "boxed");
    let id = f.derivative("boxed", &Spec::gradient([Active, Const]));
    f.finish();
    let x = 0.9_f64;
    for round in 0..200 {
        let mut memory = vec![0_u8; if round % 2 == 0 { 1 << 16 } else { 300 }];
        let found = f.call(id, |role| match role {
            ParamRole::Primal(0) => double(x),
            ParamRole::Primal(1) => DataValue::I64(3),
            ParamRole::Seed(0) => double(1.0),
            ParamRole::WorkspaceBytes => DataValue::I64(memory.len() as i64),
            ParamRole::Workspace => address(&mut memory),
            other => panic!("{other:?}"),
        });
        if number(&found, ResultRole::Status).is_none_or(|s| s == 0.0) {
            let ct = number(&found, ResultRole::Cotangent(0)).unwrap();
            assert!((ct - 27.0 * x.powi(26)).abs() < 1e-13, "{ct}");
        }
        // The list of blocks is empty again.
        if memory.len() > 300 && f.module.room(id).unwrap().is_given() {
            assert_eq!(memory[56..64], [0; 8]);
        }
    }
}

/// As [`CHAIN`], but the trip count is in the text.
fn chain_of(n: u32) -> String {
    let bound = format!("block0(v0: f64):\n v1 = iconst.i64 {n}\n jump block1");
    CHAIN.replace("(f64, i64) -> f64 {", "(f64) -> f64 {").replace("block0(v0: f64, v1: i64):\n    jump block1", &bound)
}

#[test]
fn a_loop_of_a_constant_trip_count_has_a_bound() {
    let sinx = |x: f64, n: u32| (0..n).fold(x, |x, _| x.sin() * x);
    for n in [2, 30, 3000] {
        let mut f = Fixture::new(&chain_of(n), "chain");
        let id = f.derivative("chain", &Spec::gradient([Active]));
        f.finish();
        let room = f.module.room(id).unwrap();
        let size = match room {
            Room::Stack(bytes) if n < 1000 => bytes as usize,
            Room::Bytes(bytes) if n > 1000 => bytes as usize,
            other => panic!("{other:?}"),
        };
        assert!(size > n as usize * 8 && size < n as usize * 32 + 400, "{n} {size}");
        let mut memory = vec![0x5a_u8; size + 64];
        let workspace = &mut memory[32..32 + size];
        let found = f.call(id, |role| match role {
            ParamRole::Primal(0) => double(1.1),
            ParamRole::Seed(0) => double(1.0),
            ParamRole::WorkspaceBytes => DataValue::I64(size as i64),
            ParamRole::Workspace => address(workspace),
            other => panic!("{other:?}"),
        });
        let want = slope(|x| sinx(x, n), 1.1);
        let got = number(&found, ResultRole::Cotangent(0)).unwrap();
        assert!((got - want).abs() < 1e-7 * want.abs().max(1.0), "{n}: {got} {want}");
        assert!(memory[..32].iter().chain(&memory[32 + size..]).all(|b| *b == 0x5a), "{n}");
    }
}
