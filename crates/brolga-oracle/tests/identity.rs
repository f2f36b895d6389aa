//! Whole programs: the dot-product identity between reverse and forward mode, and the two orders of
//! the tape.

use brolga_oracle::interp::{Domain, Machine, NodeId, Prov, TrackedVal};
use brolga_oracle::tape::Tape;
use brolga_oracle::{Candidate, Limits, Oracle, OracleArg, OracleOutcome, Tangent};
use brolga_testing::program;
use cranelift_codegen::data_value::DataValue;

use crate::common::{close, dup, f64_of, f64v, func};

/// In place: x[i] = sin(x[i]) · a + x[i-1]; result Σ x[i]², recursively over the length.
const PROGRAM: &str = "function %f(i64, i64, f64) -> f64 fast {
        fn0 = %sin(f64) -> f64 system_v
        fn1 = %f(i64, i64, f64) -> f64 fast
    block0(v0: i64, v1: i64, v2: f64):
        brif v1, block1, block2
    block1:
        v3 = load.f64 v0+8
        v4 = call fn0(v3)
        v5 = load.f64 v0
        v6 = fma v4, v2, v5
        store v6, v0+8
        v7 = iconst.i64 8
        v8 = iadd v0, v7
        v9 = iconst.i64 1
        v10 = isub v1, v9
        v11 = call fn1(v8, v10, v6)
        v12 = fmul v6, v6
        v13 = fadd v11, v12
        return v13
    block2:
        return v2
    }";

#[test]
fn dot_products_agree() {
    let p = program(PROGRAM);
    let f = func(&p, "f");
    let x = [0.3, -1.2, 0.8, 2.0, 0.1];
    let shadow = vec![0.7, -0.2, 1.1, 0.4, -0.9];
    let (dx, da) = (vec![1.0, -0.5, 0.3, 0.9, -1.4], 0.8);
    let args = |x: &mut [f64; 5]| {
        [dup(x, Some(shadow.clone())), OracleArg::constant(DataValue::I64(4)), OracleArg::active(f64v(1.3))]
    };
    let seed = 1.7;
    let oracle = Oracle::new(&p);
    let mut buffer = x;
    let g = unsafe { oracle.gradient(f, &args(&mut buffer), &[f64v(seed)]) }.unwrap();
    let mut buffer2 = x;
    let tangents = [Tangent::Buffer(dx.clone()), Tangent::Zero, Tangent::Lanes(vec![da])];
    let t = unsafe { oracle.tangent(f, &args(&mut buffer2), &tangents) }.unwrap();
    assert_eq!(buffer, buffer2);
    assert_eq!(f64_of(&g.values[0]), f64_of(&t.values[0]));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let reverse = dot(g.shadows[0].as_ref().unwrap(), &dx) + da * g.arg_lanes[2].as_ref().unwrap()[0];
    let forward = seed * t.results[0].as_ref().unwrap()[0] + dot(&shadow, t.buffers[0].as_ref().unwrap());
    assert!(close(reverse, forward, 1e-13), "{reverse} and {forward}");
    assert!(reverse.abs() > 0.1);
}

#[test]
fn hessians_are_symmetric() {
    let p = program(PROGRAM);
    let f = func(&p, "f");
    let n = 5;
    let mut rows = Vec::new();
    for i in 0..n {
        let mut x = [0.3, -1.2, 0.8, 2.0, 0.1];
        let mut e = vec![0.0; n];
        e[i] = 1.0;
        let args = [dup(&mut x, None), OracleArg::constant(DataValue::I64(4)), OracleArg::active(f64v(1.3))];
        let h = unsafe { Oracle::new(&p).hessian_vector(f, &args, &[Tangent::Buffer(e)], &[f64v(1.0)]) }.unwrap();
        rows.push(h.along.shadows[0].clone().unwrap());
    }
    for (i, row) in rows.iter().enumerate() {
        for (j, other) in rows.iter().enumerate() {
            assert!(close(row[j], other[i], 1e-12), "({i}, {j}): {} and {}", row[j], other[i]);
        }
    }
    assert!(rows[0][1].abs() > 1e-3);
}

#[test]
fn creation_order_and_depth_first_order_agree() {
    let p = program(PROGRAM);
    let mut x = [0.3, -1.2, 0.8, 2.0, 0.1];
    let mut tape = Tape::<f64>::new();
    let leaf = tape.leaf(1.3);
    let mut m = Machine::new(&p, tape, &Limits::default());
    for (i, x) in x.iter().enumerate() {
        let node = m.domain.leaf(*x);
        m.marks.store(x as *const f64 as usize, 8, &Prov::Float { node, width: 8 });
        assert_eq!(node, NodeId::from_u32(i as u32 + 1));
    }
    let args = vec![
        TrackedVal::clean(x.as_mut_ptr() as usize as u128),
        TrackedVal::clean(4),
        TrackedVal { bits: 1.3f64.to_bits().into(), prov: Prov::Float { node: leaf, width: 8 } },
    ];
    let r = unsafe { m.call(func(&p, "f"), args) }.unwrap();
    let root = m.node_of(r[0].prov.float(0, 8), 0.0).expect("an active result");
    let a = m.domain.backward(&[(root, 1.0)]).unwrap();
    let order = m.domain.depth_first(&[root]);
    assert_eq!(order[0], root);
    let b = m.domain.backward_in(order, &[(root, 1.0)]).unwrap();
    for i in 0..m.domain.n_nodes() {
        let n = NodeId::from_u32(i as u32);
        assert!(close(a[n], b[n], 1e-14), "{n}: {} and {}", a[n], b[n]);
    }
}

#[test]
fn the_identity_refutes_wrong_gradients() {
    let p = program(PROGRAM);
    let f = func(&p, "f");
    let x = [0.3, -1.2, 0.8, 2.0, 0.1];
    let oracle = Oracle::new(&p);
    let check = |spoil: fn(&mut OracleOutcome)| {
        let (mut a, mut b) = (x, x);
        let shadow = Some(vec![0.7, -0.2, 1.1, 0.4, -0.9]);
        let args = |x: &mut [f64; 5]| {
            [dup(x, shadow.clone()), OracleArg::constant(DataValue::I64(4)), OracleArg::active(f64v(1.3))]
        };
        let mut g = unsafe { oracle.gradient(f, &args(&mut a), &[f64v(1.7)]) }.unwrap();
        spoil(&mut g);
        let directions = oracle.directions(f, &args(&mut b), 7).unwrap();
        let candidate = Candidate { arg_lanes: &g.arg_lanes, shadows: &g.shadows, extra_shadows: &[] };
        unsafe { oracle.identity(f, &args(&mut b), &[f64v(1.7)], &directions, candidate) }.unwrap()
    };
    let right = check(|_| {});
    assert!(right.holds(1e-13), "{right:?}");
    let wrong = check(|g| g.arg_lanes[2].as_mut().unwrap()[0] *= 1.0 + 1e-6);
    assert!(!wrong.holds(1e-9), "{wrong:?}");
    let wrong = check(|g| g.shadows[0].as_mut().unwrap()[3] += 1e-6);
    assert!(!wrong.holds(1e-9), "{wrong:?}");
}

#[test]
fn aliased_elements_count_once() {
    // *p · *q, with p = q.
    let text = "function %f(i64, i64) -> f64 system_v {
    block0(v0: i64, v1: i64):
        v2 = load.f64 v0
        v3 = load.f64 v1
        v4 = fmul v2, v3
        return v4
    }";
    let p = program(text);
    let f = func(&p, "f");
    let mut x = [3.0];
    let args = [dup(&mut x, Some(vec![0.5])), dup(&mut x, Some(vec![0.5]))];
    let oracle = Oracle::new(&p);
    let g = unsafe { oracle.gradient(f, &args, &[f64v(1.0)]) }.unwrap();
    assert_eq!(g.shadows, vec![Some(vec![6.5]), Some(vec![6.5])]);
    let directions = oracle.directions(f, &args, 1).unwrap();
    let candidate = Candidate { arg_lanes: &g.arg_lanes, shadows: &g.shadows, extra_shadows: &[] };
    let identity = unsafe { oracle.identity(f, &args, &[f64v(1.0)], &directions, candidate) }.unwrap();
    assert!(identity.holds(1e-14), "{identity:?}");
}
