//! Packed records that are copied, and written again and again: the sums of cotangents that come by
//! copies and by reads. With full effort and the gradient alone they are added in another order
//! (`partial`, `preaccumulate`), so these are no lines of `records.run`, of which all modes give
//! the same bits.

use brolga_wasm::brolga::{Mode, Options};
use brolga_wasm::{Gradient, Instance, Module, Val, default_activity, options};

/// The gradient of `reused` of `records.c`, by hand.
fn right(x: &[f64], seed: f64) -> Vec<f64> {
    // Of each iteration: what the sum was, and the slope of what it becomes.
    let mut sums = vec![0.0];
    for &y in x {
        let sum: f64 = *sums.last().unwrap();
        let at = [1.0, 2.0, 3.0].map(|j| y * j + sum);
        sums.push(sum + at.iter().map(|a| 0.1 * a * a).sum::<f64>() + at[0]);
    }
    let mut ct = seed;
    let mut gradient = vec![0.0; x.len()];
    for (k, &y) in x.iter().enumerate().rev() {
        let slopes = [1.0, 2.0, 3.0].map(|j| 0.2 * (y * j + sums[k]) + if j == 1.0 { 1.0 } else { 0.0 });
        gradient[k] = ct * slopes.iter().zip([1.0, 2.0, 3.0]).map(|(s, j)| s * j).sum::<f64>();
        ct *= 1.0 + slopes.iter().sum::<f64>();
    }
    gradient
}

#[test]
fn records_that_are_written_again() {
    let modules: [&[u8]; 6] = [
        include_bytes!("../../../ir-tests/wasm/O0/records.wasm"),
        include_bytes!("../../../ir-tests/wasm/O2/records.wasm"),
        include_bytes!("../../../ir-tests/wasm/O3-simd/records.wasm"),
        include_bytes!("../../../ir-tests/wasm/O0/records_beside_singles.wasm"),
        include_bytes!("../../../ir-tests/wasm/O2/records_beside_singles.wasm"),
        include_bytes!("../../../ir-tests/wasm/O3-simd/records_beside_singles.wasm"),
    ];
    let x = [0.5, -1.25, 2.0];
    let activity = [wasmparser::ValType::I32; 2].map(default_activity);
    for (which, bytes) in modules.into_iter().enumerate() {
        let module = Module::new(bytes).unwrap_or_else(|e| panic!("{e}"));
        for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
            for full in [false, true] {
                let effort = if full { Options::full().effort } else { options().effort };
                let asked = Options { mode, effort, ..options() };
                let gradient = Gradient::with_options(&module, "reused", &activity, &asked).unwrap();
                let mut instance = Instance::new(&module).unwrap();
                let at = instance.alloc_f64(&x).unwrap();
                let args = [Val::I32(3), Val::I32(at as i32)];
                // Seeds of all digits, since the halves of round numbers are zeros.
                for seed in [1.0, 0.7509556236617765, -0.0385096267399220, 1.0 / 3.0, 0.8867134339966274] {
                    instance.set_shadow_f64(at, &[0.25, -0.5, 0.1]).unwrap();
                    if mode == Mode::Split {
                        let (_, mut pullback) = instance.forward(&gradient, &args).unwrap();
                        instance.pullback(&mut pullback, &[Val::F64(seed)]).unwrap();
                    } else {
                        instance.gradient(&gradient, &args, &[Val::F64(seed)]).unwrap();
                    }
                    let found = instance.shadow_f64(at, 3).unwrap();
                    for ((got, want), before) in found.iter().zip(right(&x, seed)).zip([0.25, -0.5, 0.1]) {
                        let apart = (got - want - before).abs();
                        assert!(apart < 1e-9, "{which}, {mode:?}, {full}, {seed}: {found:?}");
                    }
                }
            }
        }
    }
}
