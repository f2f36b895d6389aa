//! Floats that move in pieces, in forward mode: the account of pieces of tangents, and what is
//! not one tangent, against closed forms.
//!
//! Broken on purpose to see these fail: a mark that marks nothing, floats that are stored and
//! marked, an end that looks behind other pointers, keys without the tangent, upper halves that are
//! not told apart or not known, marks that are copied from the wrong end.

use brolga_module::ParamActivity::{Const, Dual, Duplicated};
use brolga_module::{Elem, ParamRole, ParamSpec, ResultRole, ReturnActivity, Room, Spec};
use cranelift_codegen::data_value::DataValue;
use cranelift_module::FuncId;

use crate::common::{Fixture, address, number};
use crate::features::PIECES;

const ROOM: usize = 1 << 14;

/// A value and its tangent, of `%f(x, y)` with the tangents of both, in so much room. `None` if it
/// does not fit.
fn tangent(f: &Fixture, id: FuncId, all: [&mut [f64]; 4], room: usize) -> Option<(f64, f64)> {
    let [x, y, dx, dy] = all.map(address);
    let mut space = vec![0xaa_u8; room + 64];
    let found = f.call(id, |role| match role {
        ParamRole::Primal(0) => x.clone(),
        ParamRole::Primal(1) => y.clone(),
        ParamRole::Shadow(0) => dx.clone(),
        ParamRole::Shadow(1) => dy.clone(),
        ParamRole::Workspace => address(&mut space[..room]),
        ParamRole::WorkspaceBytes => DataValue::I64(room as i64),
        other => panic!("{other:?}"),
    });
    assert!(space[room..].iter().all(|b| *b == 0xaa), "it writes behind {room} bytes");
    if number(&found, ResultRole::Status).is_some_and(|s| s != 0.0) {
        assert!(
            found.iter().all(|(role, v)| *role == ResultRole::Status || v.to_string().contains("NaN")),
            "{found:?}"
        );
        return None;
    }
    Some((number(&found, ResultRole::Value(0))?, number(&found, ResultRole::Tangent(0))?))
}

fn near(is: f64, want: f64) {
    assert!((is - want).abs() < 1e-13 * want.abs().max(1.0), "{is}, not {want}");
}

/// y is x byte by byte, the last byte first, and the result their products; then y is half of it.
const BYTES: &str = "function %f(i64, i64) -> f64 {
block0(v0: i64, v1: i64):
    v2 = iconst.i64 24
    v3 = iconst.i64 1
    v5 = iconst.i64 -8
    v11 = f64const 0.0
    v23 = f64const 0x1.0p-1
    jump block1(v2)
block1(v6: i64):
    v7 = isub v6, v3
    v8 = iadd v0, v7
    v9 = load.i8 v8
    v10 = iadd v1, v7
    store v9, v10
    brif v7, block1(v7), block2(v2, v11)
block2(v12: i64, v13: f64):
    v14 = iadd v12, v5
    v15 = iadd v0, v14
    v16 = iadd v1, v14
    v17 = load.f64 v15
    v18 = load.f64 v16
    v19 = fmul v17, v18
    v20 = fadd v13, v19
    brif v14, block2(v14, v20), block3
block3:
    v21 = load.f64 v1
    v22 = fmul v21, v23
    store v22, v1
    return v20
}";

#[test]
fn bytes_of_doubles_are_put_together() {
    let mut f = Fixture::new(BYTES, "f");
    let id = f.derivative("f", &Spec::tangent([Dual, Dual]));
    assert_eq!(f.module.room(id), Some(Room::Unknown));
    f.finish();
    let (mut fits, mut full) = (0, 0);
    for room in (0..6000).step_by(113).chain([ROOM, ROOM]) {
        let (mut x, mut y) = ([1.5, -2.25, 0.1], [9.0; 3]);
        let (mut dx, mut dy) = ([0.3, 1e-3, -7.0], [5.0; 3]);
        let Some((value, t)) = tangent(&f, id, [&mut x, &mut y, &mut dx, &mut dy], room) else {
            assert!(room < 6000);
            full += 1;
            continue;
        };
        fits += 1;
        near(value, x.iter().map(|x| x * x).sum());
        near(t, x.iter().zip(dx).map(|(x, dx)| 2.0 * x * dx).sum());
        assert_eq!((y, dy), ([0.75, -2.25, 0.1], [0.15, 1e-3, -7.0]));
    }
    assert!(fits > 5 && full > 5, "{fits} {full}");
}

/// y\[0\] gets the lower half of one double and the upper half of another; y\[1\] an upper half,
/// over zeros that were a double, and y\[2\] two halves of one.
const HALVES: &str = "function %f(i64, i64) -> f64 {
block0(v0: i64, v1: i64):
    v2 = load.i32 v0
    v3 = load.i32 v0+12
    store v2, v1
    store v3, v1+4
    v4 = load.i32 v0+4
    v5 = iconst.i64 0
    store v5, v1+8
    store v4, v1+12
    v6 = load.i32 v0+20
    v7 = load.i32 v0+16
    store v6, v1+20
    store v7, v1+16
    v8 = load.f64 v1+PLACE
    return v8
}";

#[test]
fn what_is_not_one_tangent_is_no_number() {
    let doubles = |activity| ParamSpec { elem: Some(Elem::F64), ..ParamSpec::from(activity) };
    for place in 0..3 {
        let mut f = Fixture::new(&HALVES.replace("PLACE", &(8 * place).to_string()), "f");
        let id = f.derivative("f", &Spec::tangent([doubles(Dual), doubles(Dual)]));
        f.finish();
        for _ in 0..2 {
            let (mut x, mut y) = ([1.25, 0.3, 7.0], [2.0; 3]);
            let (mut dx, mut dy) = ([0.7, 0.9, 1.1], [5.0; 3]);
            let found = tangent(&f, id, [&mut x, &mut y, &mut dx, &mut dy], ROOM).expect("it fits");
            assert_eq!(found.0, y[place]);
            // What is left of a number without its last digits has the slope of the number.
            let want = [f64::NAN, 0.7, 1.1];
            assert!(found.1 == want[place] || found.1.is_nan() && place == 0, "{place}: {}", found.1);
            assert!(dy[0].is_nan() && dy[1..] == want[1..], "{place}: {dy:?}");
        }
    }
}

/// Of two floats that have their upper halves in common, as their tangents have, an upper half says
/// nothing of the digits.
#[test]
fn an_upper_half_of_two_is_none() {
    let doubles = ParamSpec { elem: Some(Elem::F64), ..ParamSpec::from(Dual) };
    let mut f = Fixture::new(&HALVES.replace("PLACE", "8"), "f");
    let id = f.derivative("f", &Spec::tangent([doubles, doubles]));
    f.finish();
    let (mut x, mut y) = ([1.25, 1.25, 7.0], [2.0; 3]);
    let (mut dx, mut dy) = ([0.7, 0.7_f64.next_up(), 1.1], [5.0; 3]);
    let found = tangent(&f, id, [&mut x, &mut y, &mut dx, &mut dy], ROOM).expect("it fits");
    assert!(found.0 == 1.25 && found.1.is_nan() && dy[1].is_nan(), "{found:?} {dy:?}");
}

/// At `from` lie halves of two doubles, and after them a double that is stored as one. Both move,
/// overlapping, to `to`: there the first is no number, and the other one is.
#[test]
fn marks_move_with_copies() {
    let text = |from: i64, to: i64, read: i64| {
        format!(
            "function %f(i64, i64) -> f64 {{
            fn0 = %memmove(i64, i64, i64) -> i64
            fn1 = %memset(i64, i32, i64) -> i64
        block0(v0: i64, v1: i64):
            v2 = load.i32 v0
            v3 = load.i32 v0+12
            v4 = load.f64 v0+16
            store v2, v1+{from}
            store v3, v1+{}
            store v4, v1+{}
            v5 = iconst.i64 {from}
            v6 = iconst.i64 {to}
            v7 = iconst.i64 16
            v8 = iadd v1, v5
            v9 = iadd v1, v6
            v10 = call fn0(v9, v8, v7)
            v11 = load.f64 v1+{read}
            v12 = iconst.i32 0
            v13 = iconst.i64 8
            v14 = call fn1(v0, v12, v13)
            return v11
        }}",
            from + 4,
            from + 8,
        )
    };
    for (from, to) in [(0, 8), (8, 0)] {
        for read in [to, to + 8] {
            let mut f = Fixture::new(&text(from, to, read), "f");
            let id = f.derivative("f", &Spec::tangent([Dual, Dual]));
            f.finish();
            let (mut x, mut y, mut dx, mut dy) = ([1.25, 0.3, 7.0], [2.0; 3], [0.7, 0.9, 1.1], [5.0; 3]);
            let found = tangent(&f, id, [&mut x, &mut y, &mut dx, &mut dy], ROOM).expect("it fits");
            assert_eq!(dx, [0.0, 0.9, 1.1]);
            if read == to {
                assert!(found.1.is_nan(), "{from} {read}: {found:?}");
            } else {
                assert_eq!(found, (7.0, 1.1), "{from} {read}");
            }
        }
    }
}

/// Integers of constant memory that are stored over parts of floats have no tangent.
#[test]
fn parts_of_constants() {
    let mut f = Fixture::new(&HALVES.replace("PLACE", "16"), "f");
    let id = f.derivative("f", &Spec::tangent([Const, Dual]));
    f.finish();
    let (mut x, mut y, mut dx, mut dy) = ([1.25, 0.3, 7.0], [2.0; 3], [0.0; 3], [5.0; 3]);
    let found = tangent(&f, id, [&mut x, &mut y, &mut dx, &mut dy], ROOM);
    assert_eq!(found.map(|f| f.1), Some(0.0));
    assert_eq!(dy, [0.0; 3]);
}

/// x³ of a double that is copied byte by byte: the gradient of its tangent, and the tangent of it.
/// The account is that of the outer run.
#[test]
fn a_tangent_derived_again() {
    let cube = "v12 = load.f64 v0\n    v13 = fmul v11, v12\n    v14 = fmul v13, v11\n    return v14";
    let text = PIECES.replace("return v11", cube);
    let mut f = Fixture::new(&text, "f");
    let inner = f.derivative("f", &Spec::tangent([Dual]).results([ReturnActivity::DualOnly]));
    let roles = f.module.signature(inner).unwrap().params.clone();
    assert_eq!(roles[..2], [ParamRole::Primal(0), ParamRole::Shadow(0)]);
    let activities = |reverse| {
        roles.iter().map(move |role| match role {
            ParamRole::WorkspaceBytes => Const,
            _ if reverse => Duplicated,
            _ => Dual,
        })
    };
    let reverse = f.derivative_of(inner, &Spec::gradient(activities(true).collect::<Vec<_>>()));
    let forward = f.derivative_of(inner, &Spec::tangent(activities(false).collect::<Vec<_>>()));
    f.finish();
    let (mut fits, mut full) = (0, 0);
    for room in (0..ROOM).step_by(257) {
        let (mut x, mut dx) = ([1.7], [0.3]);
        let (mut of_x, mut of_dx) = ([0.25], [0.5]);
        let (mut tape, mut of_tape, mut space) = ([0_u64; 256], [0_u64; 256], vec![0xaa_u8; room + 64]);
        for id in [reverse, forward] {
            let found = f.call(id, |role| match role {
                ParamRole::Primal(0) => address(&mut x),
                ParamRole::Primal(1) => address(&mut dx),
                ParamRole::Primal(2) => address(&mut tape),
                ParamRole::Primal(_) => DataValue::I64(2048),
                ParamRole::Shadow(0) => address(&mut of_x),
                ParamRole::Shadow(1) => address(&mut of_dx),
                ParamRole::Shadow(_) => address(&mut of_tape),
                ParamRole::Seed(_) => DataValue::F64(2.0.into()),
                ParamRole::Workspace => address(&mut space),
                ParamRole::WorkspaceBytes => DataValue::I64(room as i64),
                other => panic!("{other:?}"),
            });
            assert!(space[room..].iter().all(|b| *b == 0xaa), "it writes behind {room} bytes");
            if number(&found, ResultRole::Status) != Some(0.0) {
                full += 1;
                (of_x, of_dx) = ([0.25], [0.5]);
                continue;
            }
            fits += 1;
            if id == reverse {
                near(of_x[0], 0.25 + 2.0 * 6.0 * 1.7 * 0.3);
                near(of_dx[0], 0.5 + 2.0 * 3.0 * 1.7 * 1.7);
                (of_x, of_dx) = ([0.25], [0.5]);
            } else {
                let want = 6.0 * 1.7 * 0.3 * 0.25 + 3.0 * 1.7 * 1.7 * 0.5;
                near(number(&found, ResultRole::Tangent(0)).unwrap(), want);
            }
        }
    }
    assert!(fits > 20 && full > 5, "{fits} {full}");
}
