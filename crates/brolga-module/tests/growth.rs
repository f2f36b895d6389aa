//! Workspaces that grow: a function of the caller's is asked before a run is given up.
//!
//! Every allowance is tried, from a workspace that holds the header and a little more, so that the
//! function is asked at each record; guard bytes after what it has given must stay.
//!
//! Broken on purpose to see these fail: records that do not ask, bytes that a copy overwrites which
//! do not ask, an end that was loaded before it moved.

use brolga_module::ParamActivity::{Active, Const, Dual, Duplicated};
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

/// y is x in halves, the result the sum of its squares, and y ends as these.
const MOVED: &str = "function %f(i64, i64, i64) -> f64 {
block0(v0: i64, v1: i64, v2: i64):
    v3 = iconst.i64 3
    v4 = ishl v2, v3
    v5 = iconst.i64 8
    v6 = iconst.i64 0
    v7 = f64const 0.0
    jump block1(v6)
block1(v8: i64):
    v9 = iadd v0, v8
    v10 = iadd v1, v8
    v11 = load.i32 v9+4
    v12 = load.i32 v9
    store v12, v10
    store v11, v10+4
    v13 = iadd v8, v5
    v14 = icmp ult v13, v4
    brif v14, block1(v13), block2(v6, v7)
block2(v15: i64, v16: f64):
    v17 = iadd v1, v15
    v18 = load.f64 v17
    v19 = fmul v18, v18
    store v19, v17
    v20 = fadd v16, v19
    v21 = iadd v15, v5
    v22 = icmp ult v21, v4
    brif v22, block2(v21, v20), block3
block3:
    return v20
}";

/// What a run of it leaves, with as many bytes as are given at first, and the function.
fn moved(f: &Fixture, ids: &[FuncId], space: &mut [u8], given: usize, growing: &mut Growing) -> Option<[Vec<f64>; 2]> {
    const N: usize = 11;
    let mut x: Vec<f64> = (0..N).map(|i| 0.3 + i as f64).collect();
    let mut dx: Vec<f64> = (0..N).map(|i| 0.25 - i as f64).collect();
    let (mut y, mut dy) = (vec![9.0; N], vec![0.5; N]);
    let [px, pdx, py, pdy] = [&mut x, &mut dx, &mut y, &mut dy].map(|all| address(&mut all[..]));
    let workspace = address(space);
    let mut status = 0.0;
    for &id in ids {
        let found = f.call(id, |role| match role {
            ParamRole::Primal(0) => px.clone(),
            ParamRole::Primal(1) => py.clone(),
            ParamRole::Primal(_) => DataValue::I64(N as i64),
            ParamRole::Shadow(0) => pdx.clone(),
            ParamRole::Shadow(_) => pdy.clone(),
            ParamRole::Seed(_) => double(2.0),
            ParamRole::Workspace => workspace.clone(),
            ParamRole::WorkspaceBytes => DataValue::I64(given as i64),
            ParamRole::Grow => DataValue::I64(grow as *const () as i64),
            ParamRole::GrowContext => DataValue::I64(std::ptr::from_mut(growing) as i64),
            other => panic!("{other:?}"),
        });
        status = number(&found, ResultRole::Status).unwrap();
        if status != 0.0 {
            break;
        }
        if let Some(t) = number(&found, ResultRole::Tangent(0)) {
            let want: f64 = x.iter().zip(&dx).map(|(x, dx)| 2.0 * x * dx).sum();
            assert!((t - want).abs() < 1e-12 * want.abs(), "{t} {want}");
        }
    }
    (status == 0.0).then(|| {
        assert!(y.iter().zip(&x).all(|(y, x)| *y == x * x), "{x:?} {y:?}");
        [dx, dy]
    })
}

#[test]
fn floats_in_pieces() {
    let mut f = Fixture::new(MOVED, "f");
    let gradient = f.derivative("f", &Spec::gradient([Duplicated, Duplicated, Const]).growing());
    let (forward, pullback) = f.pair("f", &Spec::pair([Duplicated, Duplicated, Const]).growing());
    let tangent = f.derivative("f", &Spec::tangent([Dual, Dual, Const]).growing());
    f.finish();
    let given = HEADER as usize + 16;
    for (name, ids) in [("gradient", &[gradient][..]), ("pair", &[forward, pullback]), ("tangent", &[tangent])] {
        let (mut fits, mut full) = (0, 0);
        for most in (given..12000).step_by(119) {
            let mut memory = vec![0x5a_u8; 12400];
            let mut growing = Growing { most: most as i64, asked: vec![] };
            let found = moved(&f, ids, &mut memory[32..], given, &mut growing);
            assert!(memory[..32].iter().chain(&memory[32 + most..]).all(|b| *b == 0x5a), "{name} {most}");
            assert!(growing.asked.iter().all(|a| *a > given as i64), "{name} {:?}", growing.asked);
            let Some([dx, dy]) = found else {
                full += 1;
                continue;
            };
            assert!(!growing.asked.is_empty(), "{name}");
            fits += 1;
            for i in 0..dx.len() {
                let (x, d) = (0.3 + i as f64, 0.25 - i as f64);
                let want = if name == "tangent" { [d, 2.0 * x * d] } else { [d + 2.0 * x * 2.5, 0.0] };
                let near = |is: f64, want: f64| (is - want).abs() < 1e-13 * want.abs().max(1.0);
                assert!(near(dx[i], want[0]) && near(dy[i], want[1]), "{name} {most}: {dx:?} {dy:?}");
            }
        }
        assert!(fits > 20 && full > 2, "{name}: {fits} {full}");
    }
}

/// Bytes that copies overwrite are counted where they are moved, which asks for room as well.
#[test]
fn bytes_that_copies_overwrite() {
    let text = "function %f(i64, i64, i64, i64) -> f64 {
        fn0 = %memcpy(i64, i64, i64) -> i64
    block0(v0: i64, v1: i64, v2: i64, v3: i64):
        v4 = call fn0(v0, v1, v2)
        v5 = load.f64 v0
        v6 = load.f64 v0+8
        v7 = fmul v5, v6
        v8 = call fn0(v1, v0, v3)
        return v7
    }";
    let options = Options { memory: MemoryMode::Restore, ..Options::full() };
    let mut f = Fixture::with_options(text, "f", options);
    let activities = [Duplicated, Duplicated, Const, Const];
    let gradient = f.derivative("f", &Spec::gradient(activities).growing());
    let (forward, pullback) = f.pair("f", &Spec::pair(activities).growing());
    f.finish();
    let given = HEADER as usize + 16;
    for ids in [&[gradient][..], &[forward, pullback]] {
        let (mut fits, mut full) = (0, 0);
        for most in (given..600).step_by(7) {
            let (mut to, mut from) = ([9.0_f64, 8.0, 7.0], [2.0_f64, 3.0, 5.0]);
            let (mut d_to, mut d_from) = ([0.0_f64; 3], [0.25_f64, 0.5, 0.75]);
            let mut memory = vec![0x5a_u8; 1024];
            let mut growing = Growing { most: most as i64, asked: vec![] };
            let pointers = [&mut to, &mut from, &mut d_to, &mut d_from].map(|a| address(&mut a[..]));
            let workspace = address(&mut memory[32..]);
            let mut status = 0.0;
            for &id in ids {
                let found = f.call(id, |role| match role {
                    ParamRole::Primal(i @ (0 | 1)) => pointers[i].clone(),
                    ParamRole::Shadow(i) => pointers[2 + i].clone(),
                    ParamRole::Primal(2) => DataValue::I64(24),
                    ParamRole::Primal(_) => DataValue::I64(16),
                    ParamRole::Seed(0) => double(1.0),
                    ParamRole::Workspace => workspace.clone(),
                    ParamRole::WorkspaceBytes => DataValue::I64(given as i64),
                    ParamRole::Grow => DataValue::I64(grow as *const () as i64),
                    ParamRole::GrowContext => DataValue::I64(std::ptr::from_mut(&mut growing) as i64),
                    other => panic!("{other:?}"),
                });
                status = number(&found, ResultRole::Status).unwrap();
                if status != 0.0 {
                    break;
                }
            }
            assert!(memory[..32].iter().chain(&memory[32 + most..]).all(|b| *b == 0x5a), "{most}");
            if status == 0.0 {
                assert!(!growing.asked.is_empty());
                assert_eq!((to, from), ([9.0, 8.0, 7.0], [2.0, 3.0, 5.0]), "{most}");
                assert_eq!((d_to, d_from), ([0.0; 3], [0.25 + 3.0, 0.5 + 2.0, 0.75]), "{most}");
                fits += 1;
            } else {
                full += 1;
            }
        }
        assert!(fits > 10 && full > 2, "{fits} {full}");
    }
}

/// The workspace of a gradient that is derived again has the size that it was given; that of the
/// second derivative grows.
#[test]
fn the_outer_one_of_two() {
    let mut f = Fixture::new(TEXT, "while");
    let inner = f.derivative("while", &Spec::gradient([Active, Const]).growing().in_struct());
    let roles = f.module.signature(inner).unwrap().params.clone();
    let activities = roles.iter().map(|role| match role {
        ParamRole::Primal(0) => Active,
        ParamRole::Workspace | ParamRole::Results => Duplicated,
        _ => Const,
    });
    let spec = Spec::gradient(activities.collect::<Vec<_>>()).growing();
    let outer = f.derivative_of(inner, &spec);
    assert_eq!(f.module.room(outer), Some(Room::Unknown));
    f.finish();
    let second = |x: f64| slope(|x| slope(|x| primal(x, 6), x), x);
    for tape in [1 << 14, 600] {
        let (mut fits, mut full) = (0, 0);
        for most in (600..12000).step_by(401) {
            let (mut first, mut shadow) = (vec![0_u8; tape], vec![0_u8; tape]);
            let (mut results, mut d_results) = ([0.0_f64; 3], [0.0, 1.0, 0.0]);
            let mut memory = vec![0x5a_u8; 12400];
            let mut growing = Growing { most: most as i64, asked: vec![] };
            let found = f.call(outer, |role| match role {
                ParamRole::Primal(k) => match roles[k] {
                    ParamRole::Primal(0) => double(0.9),
                    ParamRole::Primal(_) => DataValue::I64(6),
                    ParamRole::Seed(_) => double(1.0),
                    ParamRole::Workspace => address(&mut first),
                    ParamRole::WorkspaceBytes => DataValue::I64(tape as i64),
                    ParamRole::Results => address(&mut results),
                    ParamRole::Grow | ParamRole::GrowContext => DataValue::I64(0),
                    other => panic!("{other:?}"),
                },
                ParamRole::Shadow(k) if roles[k] == ParamRole::Workspace => address(&mut shadow),
                ParamRole::Shadow(_) => address(&mut d_results),
                ParamRole::Workspace => address(&mut memory[32..]),
                ParamRole::WorkspaceBytes => DataValue::I64(HEADER as i64 + 16),
                ParamRole::Grow => DataValue::I64(grow as *const () as i64),
                ParamRole::GrowContext => DataValue::I64(std::ptr::from_mut(&mut growing) as i64),
                other => panic!("{other:?}"),
            });
            assert!(memory[..32].iter().chain(&memory[32 + most..]).all(|b| *b == 0x5a), "{most}");
            if number(&found, ResultRole::Status) == Some(0.0) {
                let ct = number(&found, ResultRole::Cotangent(0)).unwrap();
                // The status of the first one, after its floats.
                let status = results[2].to_bits() as u32;
                assert_eq!(status, u32::from(tape == 600));
                if status == 0 {
                    assert!((ct - second(0.9)).abs() < 1e-4 * second(0.9).abs(), "{most}: {ct} {}", second(0.9));
                }
                fits += 1;
            } else {
                full += 1;
            }
        }
        assert!(fits > 3 && (full > 0 || tape == 600), "{tape}: {fits} {full}");
    }
}
