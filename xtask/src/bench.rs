//! `bench`: what gradients cost.

use brolga::Mode;

use crate::cli::BenchMode;
use crate::failure::Failure;

impl From<BenchMode> for Mode {
    fn from(mode: BenchMode) -> Self {
        match mode {
            BenchMode::Gradient => Self::Gradient,
            BenchMode::Combined => Self::Combined,
            BenchMode::Split => Self::Split,
        }
    }
}

/// Measure all problems, or those whose name contains `filter`.
pub fn run(filter: Option<&str>, mode: BenchMode, json: bool) -> Result<(), Failure> {
    let rows = benches::run(filter, mode.into()).map_err(|e| match e {
        benches::Failure::Unknown { .. } => Failure::Usage(e.to_string()),
        e => Failure::Chore(e.to_string()),
    })?;
    crate::report::show(&if json {
        format!("{:#}\n", benches::report::json(&rows))
    } else {
        benches::report::table(&rows) + "\n"
    });
    Ok(())
}
