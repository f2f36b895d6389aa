//! Robust regression: the median of all slopes between pairs of points (Theil and Sen), then
//! Huber's loss of what is left. Sorting, options, enumerations with data.

/// What a residual costs.
#[derive(Clone, Copy)]
enum Cost {
    Quadratic,
    Huber { limit: f64 },
    Asymmetric { share: f64 },
}

impl Cost {
    fn of(self, x: f64) -> f64 {
        match self {
            Cost::Quadratic => x * x / 2.0,
            Cost::Huber { limit } if x.abs() > limit => limit * (x.abs() - limit / 2.0),
            Cost::Huber { .. } => x * x / 2.0,
            Cost::Asymmetric { share } => x.max(0.0) * share - x.min(0.0) * (1.0 - share),
        }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// A line as (slope, intercept).
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let slopes = points
        .iter()
        .enumerate()
        .flat_map(|(i, p)| points[i + 1..].iter().filter(move |q| q.0 != p.0).map(move |q| (q.1 - p.1) / (q.0 - p.0)));
    let slope = median(slopes.collect())?;
    let intercept = median(points.iter().map(|p| p.1 - slope * p.0).collect())?;
    Some((slope, intercept))
}

/// Total cost of the residuals of the robust line through `points`, pairs of numbers; the sum of
/// squares if there is none. Cost 0: quadratic; 1: Huber with limit `parameter`; 2: asymmetric with
/// share `parameter`.
///
/// # Safety
/// `points` is of `2 n` numbers.
#[no_mangle]
pub unsafe extern "C" fn robust_loss(n: usize, points: *const f64, cost: i32, parameter: f64) -> f64 {
    let points: Vec<(f64, f64)> =
        std::slice::from_raw_parts(points, 2 * n).chunks_exact(2).map(|p| (p[0], p[1])).collect();
    let cost = match cost {
        0 => Cost::Quadratic,
        1 => Cost::Huber { limit: parameter },
        2 => Cost::Asymmetric { share: parameter },
        other => panic!("there is no cost {other}"),
    };
    match line(&points) {
        Some((slope, intercept)) => points.iter().map(|p| cost.of(p.1 - slope * p.0 - intercept)).sum(),
        None => points.iter().map(|p| p.1 * p.1).sum(),
    }
}
