//! Series over length: what a gradient costs per step, and whether deriving and compiling stay linear.

use crate::How;
use crate::measure::{Effort, Row, measure};
use crate::prepared::Failure;
use crate::problem::Size;
use crate::problems::SERIES;

/// The series, and for each length a row.
pub type Series = Vec<(&'static str, Vec<(usize, Row)>)>;

/// Measure all series.
///
/// # Errors
/// As [`measure`].
pub fn run(how: How, effort: Effort) -> Result<Series, Failure> {
    let mut all = Vec::new();
    for (name, make, lengths) in SERIES {
        let mut rows = Vec::new();
        for &n in *lengths {
            rows.push((n, measure(&make(Size::Length(n)), how, effort)?));
        }
        all.push((*name, rows));
    }
    Ok(all)
}
