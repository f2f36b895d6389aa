//! Traces: the same gradient as without observing, and answers that belong to the run.

use brolga_oracle::trace::{End, Port, Reason};
use brolga_oracle::{Oracle, OracleArg};
use brolga_testing::program;

use crate::common::{dup, f64v, func};

/// A buffer through a copy, a loop over it, a minimum and a branch.
const TEXT: &str = "
function %f(i64, f64) -> f64 system_v {
    ss0 = explicit_slot 24
    fn0 = %memcpy(i64, i64, i64) -> i64 system_v
block0(v0: i64, v1: f64):
    v2 = stack_addr.i64 ss0
    v3 = iconst.i64 24
    v4 = call fn0(v2, v0, v3)
    v5 = iconst.i64 0
    v6 = f64const 0.0
    jump block1(v5, v6)
block1(v7: i64, v8: f64):
    v9 = iadd v2, v7
    v10 = load.f64 v9
    v11 = fmin v10, v1
    v12 = fmul v11, v11
    v13 = fadd v8, v12
    v14 = iconst.i64 8
    v15 = iadd v7, v14
    v16 = icmp ult v15, v3
    brif v16, block1(v15, v13), block2
block2:
    store v6, v0
    v17 = fcmp gt v13, v6
    brif v17, block3, block4
block3:
    return v13
block4:
    v18 = fmul v13, v1
    return v18
}";

#[test]
fn observing_changes_nothing() {
    let p = program(TEXT);
    let run = |shadow: f64| {
        let mut data = [[1.0, 5.0, 2.0], [1.0, 5.0, 2.0]];
        let [a, b] = &mut data;
        let args = |d: &mut [f64]| [dup(d, Some(vec![shadow; 3])), OracleArg::active(f64v(3.0))];
        // SAFETY: the function stays inside the three numbers.
        let plain = unsafe { Oracle::new(&p).gradient(func(&p, "f"), &args(a), &[f64v(1.0)]) }.unwrap();
        // SAFETY: as above.
        let trace = unsafe { Oracle::new(&p).trace(func(&p, "f"), &args(b), &[f64v(1.0)]) }.unwrap();
        assert_eq!(plain.nodes, trace.n_nodes());
        let of = |port| trace.cotangent(trace.inputs().iter().find(|l| l.0 == port).unwrap().1);
        let shadows: Vec<f64> = (0..3).map(|i| of(Port::Element(0, i))).collect();
        assert_eq!(plain.shadows[0].as_ref().unwrap(), &shadows);
        assert_eq!(plain.arg_lanes[1].as_ref().unwrap(), &[of(Port::Lane(1, 0))]);
        shadows
    };
    assert_eq!(run(0.0), [2.0, 0.0, 4.0]);
    // The first element is overwritten; the others keep their shadow.
    assert_eq!(run(0.5), [2.0, 0.5, 4.5]);
}

#[test]
fn answers_are_those_of_the_run() {
    let p = program(TEXT);
    let f = func(&p, "f");
    let mut data = [1.0, 5.0, 2.0];
    let args = [dup(&mut data, None), OracleArg::active(f64v(3.0))];
    // SAFETY: the function stays inside the three numbers.
    let trace = unsafe { Oracle::new(&p).trace(f, &args, &[f64v(1.0)]) }.unwrap();
    let body = p.funcs[f].body.as_ref().unwrap();
    let visits: Vec<u64> = body.layout.blocks().map(|b| trace.visits(f, b)).collect();
    assert_eq!(visits, [1, 3, 1, 1, 0]);

    let node = |i| trace.inputs().iter().find(|l| l.0 == Port::Element(0, i)).unwrap().1;
    assert!(trace.why_zero(node(0)).is_empty(), "its gradient is not zero");
    let why = trace.why_zero(node(1));
    assert!(matches!(why[..], [Reason::Ended { how: End::NotChosen, at: Some(_) }]), "{why:?}");

    // The terms of an input add up to its gradient, all squares are one instruction, and everything
    // is finite.
    let terms = trace.contributions(Some(node(2)));
    assert_eq!((terms.len(), terms[0].sum), (1, 4.0));
    let all = trace.contributions(None);
    assert!(all.iter().any(|c| c.count == 6 && c.sum == 2.0 * (1.0 + 3.0 + 2.0)), "{all:?}");
    assert!(all.windows(2).all(|w| w[0].largest >= w[1].largest));
    assert_eq!(trace.first_non_finite(), None);
    assert_eq!(trace.first_non_finite_value(), None);
}

#[test]
fn the_way_to_what_is_not_finite() {
    let p = program(
        "
function %g(f64) -> f64 system_v {
block0(v0: f64):
    v1 = fmul v0, v0
    v2 = sqrt v1
    v3 = f64const 0x1.0p1
    v4 = fmul v2, v3
    return v4
}",
    );
    // SAFETY: no memory is touched.
    let trace = unsafe { Oracle::new(&p).trace(func(&p, "g"), &[OracleArg::active(f64v(0.0))], &[f64v(1.0)]) }.unwrap();
    let way = trace.first_non_finite().unwrap();
    let inf = f64::INFINITY;
    assert_eq!(way.iter().map(|s| s.cotangent).collect::<Vec<_>>(), [1.0, 2.0, inf]);
    assert_eq!(way.iter().map(|s| s.passed).collect::<Vec<_>>(), [Some((2.0, 2.0)), Some((inf, inf)), None]);
}
