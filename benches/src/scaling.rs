//! Series over length: what a gradient costs per step, and whether deriving and compiling stay
//! linear.

use crate::Configuration;
use crate::measure::{Effort, MeasuredRow, measure};
use crate::prepared::Failure;
use crate::problem::Size;
use crate::problems::SERIES;

/// The series, and for each length a row.
pub type Rows = Vec<(&'static str, Vec<(usize, MeasuredRow)>)>;

/// Measure all series.
///
/// # Errors
/// As [`measure`].
pub fn run(how: Configuration, effort: Effort) -> Result<Rows, Failure> {
    let mut all = Vec::new();
    for series in SERIES {
        let mut rows = Vec::new();
        for &n in series.lengths {
            rows.push((n, measure(&(series.make)(Size::Length(n)), how, effort)?));
        }
        all.push((series.name, rows));
    }
    Ok(all)
}
