//! Log marginal likelihood of a Gaussian process: vectors of vectors, iterators, a closure for the
//! kernel, Cholesky's factorisation. `exp` and `ln` are Rust's own, compiled into the module.

/// Lower triangular factor, row by row. `None` if the matrix is not positive definite.
fn cholesky(a: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let mut factor: Vec<Vec<f64>> = Vec::with_capacity(a.len());
    for (i, row) in a.iter().enumerate() {
        let mut next = Vec::with_capacity(i + 1);
        for j in 0..i {
            let sum: f64 = next.iter().zip(&factor[j]).map(|(x, y): (&f64, &f64)| x * y).sum();
            next.push((row[j] - sum) / factor[j][j]);
        }
        let rest = row[i] - next.iter().map(|x| x * x).sum::<f64>();
        if rest <= 0.0 {
            return None;
        }
        next.push(rest.sqrt());
        factor.push(next);
    }
    Some(factor)
}

fn gram(points: &[f64], kernel: impl Fn(f64, f64) -> f64) -> Vec<Vec<f64>> {
    points.iter().map(|&x| points.iter().map(|&y| kernel(x, y)).collect()).collect()
}

/// Negative log likelihood of `values` at `points`. `parameters`: logarithms of the amplitude, the
/// length scale and the noise.
///
/// # Safety
/// `points` and `values` are of `n` numbers, `parameters` of three.
#[no_mangle]
pub unsafe extern "C" fn gp_loss(n: usize, points: *const f64, values: *const f64, parameters: *const f64) -> f64 {
    let points = std::slice::from_raw_parts(points, n);
    let values = std::slice::from_raw_parts(values, n);
    let [amplitude, scale, noise] = *(parameters as *const [f64; 3]);
    let (amplitude, scale, noise) = (amplitude.exp(), scale.exp(), noise.exp());
    let mut covariance = gram(points, |x, y| {
        let apart = (x - y) / scale;
        amplitude * amplitude * (-0.5 * apart * apart).exp()
    });
    for (i, row) in covariance.iter_mut().enumerate() {
        row[i] += noise * noise;
    }
    let factor = cholesky(&covariance).expect("a kernel with noise is positive definite");
    let mut solved: Vec<f64> = Vec::new();
    for (row, value) in factor.iter().zip(values) {
        let sum: f64 = row.iter().zip(&solved).map(|(x, y)| x * y).sum();
        solved.push((value - sum) / row[solved.len()]);
    }
    let fit: f64 = solved.iter().map(|x| x * x).sum();
    let complexity: f64 = factor.iter().enumerate().map(|(i, row)| row[i].ln()).sum();
    0.5 * fit + complexity + 0.5 * n as f64 * (2.0 * std::f64::consts::PI).ln()
}
