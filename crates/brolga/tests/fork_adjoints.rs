//! Tasks of forks that call functions with adjoints of the user's.

use brolga::Mode;
use brolga_testing::program;

use crate::forks::{cells, options, outcome, rule};

/// A function that writes a product, with an adjoint of the user's that takes its cotangent out of
/// the shadow: 64 products with one float are behind it, of which the caller reads the sum.
const WITH_ADJOINT: &str = "
function %product(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.f64 v0
    v4 = load.f64 v1
    v5 = fmul v3, v4
    store v5, v2
    return
}
function %product__adjoint(i64, i64, i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64):
    v5 = load.f64 v4
    v6 = f64const 0.0
    store v6, v4
    v7 = load.f64 v2
    v8 = fmul v5, v7
    v9 = load.f64 v1
    v10 = fadd v9, v8
    store v10, v1
    v11 = load.f64 v0
    v12 = fmul v5, v11
    v13 = load.f64 v3
    v14 = fadd v13, v12
    store v14, v3
    return
}
function %part(i64, i64, i64) {
    fn0 = %product(i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v20 = iconst.i64 3
    v21 = iconst.i64 512
    v22 = iconst.i64 1
    v23 = iconst.i64 520
    jump block1(v1)
block1(v4: i64):
    v6 = icmp slt v4, v2
    brif v6, block2, block3
block2:
    v7 = ishl v4, v20
    v8 = iadd v0, v7
    v9 = iadd v0, v21
    v10 = iadd v8, v23
    call fn0(v8, v9, v10)
    v12 = iadd v4, v22
    jump block1(v12)
block3:
    return
}
function %products(i64) -> f64 {
    fn0 = %part(i64, i64, i64)
    fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
block0(v0: i64):
    v1 = func_addr.i64 fn0
    v2 = iconst.i64 0
    v3 = iconst.i64 64
    v4 = iconst.i64 1
    v10 = iconst.i64 3
    v11 = f64const 0.0
    call fn1(v1, v0, v2, v3, v4)
    jump block1(v2, v11)
block1(v5: i64, v6: f64):
    v7 = ishl v5, v10
    v8 = iadd v0, v7
    v9 = load.f64 v8+520
    v12 = fadd v6, v9
    v13 = iadd v5, v4
    v14 = icmp slt v13, v3
    brif v14, block1(v13, v12), block2
block2:
    return v12
}
";

/// The adjoints read cotangents that the caller has added, and all add to one float.
#[test]
fn tasks_call_functions_with_adjoints() {
    let mut program = program(WITH_ADJOINT);
    let rules = "product: x, y, z => adjoint product__adjoint(x, dx, y, dy, dz)";
    brolga::set_rules(&mut program, &brolga_rules::parse_rules(rules).unwrap(), false).unwrap();
    let x: Vec<f64> = cells().into_iter().chain([0.0; 64]).collect();
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        for threads in [1, 2, 7] {
            let found = outcome(&rule(&program, "products", &options(mode, threads)), &x, &[], mode, true).unwrap();
            let mut wanted: Vec<f64> = (0..x.len()).map(|i| 0.5 - i as f64).collect();
            for call in found.chunks(found.len() / 2) {
                for _ in 0..if mode == Mode::Split { 2 } else { 1 } {
                    for i in 0..64 {
                        let ct = 1.5 + std::mem::take(&mut wanted[65 + i]);
                        wanted[i] += ct * x[64];
                        wanted[64] += ct * x[i];
                    }
                }
                for (i, &bits) in call[call.len() - x.len()..].iter().enumerate() {
                    let (is, wanted) = (f64::from_bits(bits), wanted[i]);
                    assert!((is - wanted).abs() <= 1e-9 * wanted.abs(), "{mode:?} {threads} {i}: {is}, {wanted}");
                }
            }
        }
    }
}
