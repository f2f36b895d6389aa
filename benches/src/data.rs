//! Inputs of the problems, the same in every run and on every machine.

/// `n` numbers in [-1, 1): the upper bits of a linear congruential generator.
pub fn random(seed: u64, n: usize) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        2.0 * ((state >> 11) as f64 / (1u64 << 53) as f64) - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// `n` numbers in (-1, 1), of another sequence for each seed.
pub fn noise(n: usize, seed: u64) -> Vec<f64> {
    random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, n)
}

/// An n x n matrix in compressed columns with `per` entries in each: where columns begin, and rows.
pub fn sparse(seed: u64, n: usize, per: usize) -> (Vec<i64>, Vec<i64>) {
    let mut draws = random(seed, n * per * 2).into_iter();
    let (mut columns, mut rows) = (vec![0], Vec::new());
    for _ in 0..n {
        let mut column = std::collections::BTreeSet::new();
        while column.len() < per {
            let draw = draws.next().expect("twice as many draws as entries");
            column.insert(((draw + 1.0) / 2.0 * n as f64) as i64);
        }
        rows.extend(column);
        columns.push(rows.len() as i64);
    }
    (columns, rows)
}

/// Edges of the Petersen graph, counted from 1.
pub const EDGES: [(i64, i64); 15] = [
    (1, 6),
    (2, 7),
    (3, 8),
    (4, 9),
    (5, 10),
    (1, 2),
    (2, 3),
    (3, 4),
    (4, 5),
    (1, 5),
    (6, 8),
    (8, 10),
    (7, 10),
    (7, 9),
    (6, 9),
];

/// All pairs of its ten vertices that are not edges, counted from 1.
pub fn non_edges() -> Vec<(i64, i64)> {
    let pairs = (1..=10).flat_map(|a| (a + 1..=10).map(move |b| (a, b)));
    pairs.filter(|pair| !EDGES.contains(pair)).collect()
}

/// Positions, velocities, masses.
pub type Bodies = (Vec<f64>, Vec<f64>, Vec<f64>);

/// Sun, Jupiter, Saturn, Uranus and Neptune in astronomical units, years and masses of the Sun
/// times 4 pi^2 (the bodies of the Computer Language Benchmarks Game), with the Sun moved so that
/// the momentum is zero.
pub fn planets() -> Bodies {
    const SUN: f64 = 4.0 * std::f64::consts::PI * std::f64::consts::PI;
    const DAYS: f64 = 365.24;
    let planets = [
        (
            [4.841431442464721, -1.1603200440274284, -0.10362204447112311],
            [0.001660076642744037 * DAYS, 0.007699011184197404 * DAYS, -6.90460016972063e-05 * DAYS],
            0.0009547919384243266 * SUN,
        ),
        (
            [8.34336671824458, 4.124798564124305, -0.4035234171143214],
            [-0.002767425107264119 * DAYS, 0.004998528012349172 * DAYS, 2.3041729757376393e-05 * DAYS],
            0.0002858859806661308 * SUN,
        ),
        (
            [12.894369562139131, -15.111151401698631, -0.22330757889265573],
            [0.002964601375647616 * DAYS, 0.0023784717395948095 * DAYS, -2.9658956854023756e-05 * DAYS],
            4.366244043351563e-05 * SUN,
        ),
        (
            [15.379697114850917, -25.919314609987964, 0.17925877295037118],
            [0.0026806777249038932 * DAYS, 0.001628241700382423 * DAYS, -9.515922545197159e-05 * DAYS],
            5.1513890204661145e-05 * SUN,
        ),
    ];
    let (mut position, mut velocity, mut mass) = (vec![0.0; 3], vec![0.0; 3], vec![SUN]);
    for (x, v, m) in planets {
        position.extend(x);
        velocity.extend(v);
        mass.push(m);
    }
    for k in 0..3 {
        let momentum: f64 = (0..5).map(|i| mass[i] * velocity[3 * i + k]).sum();
        velocity[k] = -momentum / SUN;
    }
    (position, velocity, mass)
}

#[cfg(test)]
mod tests {
    use super::{non_edges, random, sparse};

    #[test]
    fn sequences_are_what_they_were() {
        // (6364136223846793005 + 1442695040888963407) >> 11, by hand.
        assert_eq!(random(1, 1), [2.0 * (7_806_831_264_735_756_412_u64 >> 11) as f64 / 2f64.powi(53) - 1.0]);
        assert_eq!(non_edges().len(), 30);
        let (columns, rows) = sparse(11, 50, 4);
        assert_eq!((columns.len(), rows.len(), columns[50]), (51, 200, 200));
        assert!(rows.chunks(4).all(|c| c.is_sorted()) && rows.iter().all(|r| (0..50).contains(r)));
    }
}
