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

/// Sun, Jupiter, Saturn, Uranus and Neptune in astronomical units, years and masses of the Sun times 4 pi^2 (the bodies of
/// the Computer Language Benchmarks Game), with the Sun moved so that the momentum is zero.
#[expect(clippy::excessive_precision, reason = "as published")]
pub fn planets() -> Bodies {
    const SUN: f64 = 4.0 * std::f64::consts::PI * std::f64::consts::PI;
    const DAYS: f64 = 365.24;
    let planets = [
        (
            [4.84143144246472090e+00, -1.16032004402742839e+00, -1.03622044471123109e-01],
            [1.66007664274403694e-03 * DAYS, 7.69901118419740425e-03 * DAYS, -6.90460016972063023e-05 * DAYS],
            9.54791938424326609e-04 * SUN,
        ),
        (
            [8.34336671824457987e+00, 4.12479856412430479e+00, -4.03523417114321381e-01],
            [-2.76742510726411899e-03 * DAYS, 4.99852801234917238e-03 * DAYS, 2.30417297573763929e-05 * DAYS],
            2.85885980666130812e-04 * SUN,
        ),
        (
            [1.28943695621391310e+01, -1.51111514016986312e+01, -2.23307578892655734e-01],
            [2.96460137564761618e-03 * DAYS, 2.37847173959480950e-03 * DAYS, -2.96589568540237556e-05 * DAYS],
            4.36624404335156298e-05 * SUN,
        ),
        (
            [1.53796971148509165e+01, -2.59193146099879641e+01, 1.79258772950371181e-01],
            [2.68067772490389322e-03 * DAYS, 1.62824170038242295e-03 * DAYS, -9.51592254519715870e-05 * DAYS],
            5.15138902046611451e-05 * SUN,
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
