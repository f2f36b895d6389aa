//! Bits of dependence against patterns that are known.

use brolga_oracle::{BufferRef, Dependence, Elem, Oracle, OracleArg};
use brolga_testing::program;

use crate::common::{f64v, func};

/// Dependences of a function of floats by value, each with a mark of its own.
fn of(text: &str, x: &[f64], seeds: &[f64]) -> Dependence {
    let p = program(text);
    let args: Vec<OracleArg> = x.iter().map(|&x| OracleArg::active(f64v(x))).collect();
    let marks: Vec<Vec<u128>> = (0..x.len()).map(|i| vec![1 << i]).collect();
    let seeds: Vec<_> = seeds.iter().map(|&s| f64v(s)).collect();
    unsafe { Oracle::new(&p).dependence(func(&p, "f"), &args, &marks, &seeds) }.unwrap_or_else(|e| panic!("{e}"))
}

fn gradient(d: &Dependence) -> Vec<u128> {
    d.arg_lanes.iter().map(|l| l.as_ref().expect("it is active")[0]).collect()
}

/// `a b + sin c`, and `2 c - b`.
const TEXT: &str = "function %f(f64, f64, f64) -> f64, f64 system_v {
    fn0 = %sin(f64) -> f64 system_v
block0(v0: f64, v1: f64, v2: f64):
    v3 = fmul v0, v1
    v4 = call fn0(v2)
    v5 = fadd v3, v4
    v6 = fadd v2, v2
    v7 = fsub v6, v1
    return v5, v7
}";

#[test]
fn jacobians_and_hessians() {
    for x in [[2.0, 3.0, 0.5], [0.0, 0.0, 0.0]] {
        // Factors that are zero at a point are no constants.
        let found = of(TEXT, &x, &[1.0, 1.0]);
        assert_eq!(found.results, [[0b111], [0b110]]);
        assert_eq!(gradient(&found), [0b010, 0b001, 0b100]);
    }
    // Of what has no weight there is no Hessian.
    assert_eq!(gradient(&of(TEXT, &[2.0, 3.0, 0.5], &[0.0, 1.0])), [0, 0, 0]);
}

#[test]
fn constants_are_no_dependence() {
    let text = "function %f(f64, f64) -> f64 system_v {
    block0(v0: f64, v1: f64):
        v2 = f64const 0.0
        v3 = fmul v0, v2
        v4 = fmul v1, v1
        v5 = fadd v3, v4
        return v5
    }";
    let found = of(text, &[2.0, 3.0], &[1.0]);
    assert_eq!(gradient(&found), [0, 0b10]);
    assert_eq!(found.results, [[0b10]]);
}

/// A buffer whose elements are moved, squared in place.
#[test]
fn memory() {
    let p = program(
        "function %f(i64) system_v {
        block0(v0: i64):
            v1 = load.f64 v0
            v2 = fmul v1, v1
            v3 = load.f64 v0+8
            store v2, v0+8
            store v3, v0
            return
        }",
    );
    let mut x = [2.0, 3.0, 5.0];
    let buffer = BufferRef { addr: x.as_mut_ptr() as usize, len_bytes: 24, elem: Elem::F64 };
    let args = [OracleArg::duplicated(buffer, Some(vec![1.0; 3]))];
    let found = unsafe { Oracle::new(&p).dependence(func(&p, "f"), &args, &[vec![1, 2, 4]], &[]) }.unwrap();
    assert_eq!(found.buffers, [Some(vec![2, 1, 4])]);
    assert_eq!(found.shadows, [Some(vec![1, 0, 0])]);
}
