//! A hierarchical model of eight schools, sampled by several chains at once, and compared with the
//! means that it has: `cargo run --example sample --features nuts-rs`.
//!
//! The data are effects of coaching on the results of tests, and their errors (D. B. Rubin,
//! Estimation in parallel randomized experiments, 1981). The spread of the effects is taken to be
//! known, so that the density is normal, and its mean can be computed.

use std::sync::Arc;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga_adapters::nuts_rs::LogDensity;
use brolga_adapters::{Argument, FlatParam, brolga, function};
use nuts_rs::rand::{SeedableRng, rngs::SmallRng};
use nuts_rs::{Chain, DiagNutsSettings, Model, Settings};

const EFFECTS: [f64; 8] = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0];
const ERRORS: [f64; 8] = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0];
const SPREAD: f64 = 10.0;
const PRIOR: f64 = 20.0;
const DRAWS: usize = 2000;

/// The mean and its variance, of the effects' mean: each effect says something of it, with its
/// error and the spread.
fn exact() -> (f64, f64) {
    let weights = ERRORS.map(|e| 1.0 / (e * e + SPREAD * SPREAD));
    let precision = weights.iter().sum::<f64>() + 1.0 / (PRIOR * PRIOR);
    (weights.iter().zip(EFFECTS).map(|(w, y)| w * y).sum::<f64>() / precision, 1.0 / precision)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let number = |x: f64| FlatParam::Fixed(Argument::Const(DataValue::F64(x.into())));
    let parameters = vec![
        FlatParam::Input(9),
        FlatParam::Fixed(Argument::Floats(EFFECTS.to_vec())),
        FlatParam::Fixed(Argument::Floats(ERRORS.to_vec())),
        FlatParam::Fixed(Argument::Const(DataValue::I64(8))),
        number(SPREAD),
        number(PRIOR),
    ];
    // SAFETY: it reads one float more than there are schools, and as many of each of the data.
    let f = unsafe { function(include_str!("../models/schools.clif"), "schools", parameters) }?;
    let density = Arc::new(LogDensity::new(f)?);

    let chains = std::thread::scope(|scope| {
        let chain = |seed| {
            let density = density.clone();
            scope.spawn(move || chain(density, seed).map_err(|e| e.to_string()))
        };
        [1, 2].map(chain).map(|t| t.join().expect("no panic"))
    });
    let draws: Vec<f64> = chains.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    let mean = draws.iter().sum::<f64>() / draws.len() as f64;
    let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
    let (exact_mean, exact_variance) = exact();
    println!("mean {mean:.3}, exactly {exact_mean:.3}; variance {variance:.2}, exactly {exact_variance:.2}");
    assert!((mean - exact_mean).abs() < 0.5);
    assert!((variance / exact_variance - 1.0).abs() < 0.15);
    Ok(())
}

/// Draws of the effects' mean.
fn chain(density: Arc<LogDensity>, seed: u64) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let settings = DiagNutsSettings { num_tune: 500, num_draws: DRAWS as u64, ..DiagNutsSettings::default() };
    let mut begin = [0.0; 9];
    density.init_position(&mut rng, seed, &mut begin)?;
    let mut sampler = settings.new_chain(seed, density.math(&mut rng)?, &mut rng)?;
    sampler.set_position(&begin)?;
    let mut draws = Vec::with_capacity(DRAWS);
    for i in 0..500 + DRAWS {
        let (position, _) = sampler.draw()?;
        if i >= 500 {
            draws.push(position[0]);
        }
    }
    Ok(draws)
}
