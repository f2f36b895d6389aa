//! Fits a curve to measurements, with the gradient of a C function: see `docs/WASM.md`.

use brolga_wasm::{Gradient, Instance, Module, Val};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let module = Module::new(std::fs::read("ir-tests/wasm/O2/loss.wasm")?)?;
    let gradient = Gradient::new(&module, "loss")?;
    let mut instance = Instance::new(&module)?;

    let (times, measured) = ([0.0, 0.5, 1.0, 1.5, 2.0], [1.0, 0.3, -0.5, -0.6, -0.1]);
    let p = instance.alloc_f64(&[1.2, 0.4, 2.0, 0.1])?;
    let (t, y) = (instance.alloc_f64(&times)?, instance.alloc_f64(&measured)?);
    let args = [p, 5, t, y].map(|a| Val::I32(a as i32));

    for step in 0..200 {
        // Shadows accumulate, so each step begins with zeros.
        instance.clear_shadow();
        let loss = instance.gradient(&gradient, &args, &[Val::F64(1.0)])?.values;
        let slope = instance.shadow_f64(p, 4)?;
        let moved: Vec<f64> = instance.read_f64(p, 4)?.iter().zip(&slope).map(|(x, g)| x - 0.05 * g).collect();
        instance.write_f64(p, &moved)?;
        if step % 50 == 0 {
            println!("step {step}: {:?}", loss[0]);
        }
    }
    println!("{:?}", instance.read_f64(p, 4)?);
    Ok(())
}
