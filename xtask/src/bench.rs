//! `bench`: what gradients cost.

use crate::failure::Failure;

/// Measure all problems, or those whose name contains `filter`.
pub fn run(filter: Option<&str>, json: bool) -> Result<(), Failure> {
    let rows = benches::run(filter, benches::Mode::default()).map_err(|e| match e {
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
