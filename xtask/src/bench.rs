//! `bench`: what gradients cost.

use benches::{Effort, Mode, disasm, measure, peers, report, scaling};

use crate::cli::{BenchArgs, BenchMode};
use crate::failure::Failure;
use crate::report::show;

/// Measure, or print machine code.
pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    let filter = args.filter.as_deref();
    let mode = match args.mode {
        BenchMode::Gradient => Mode::Gradient,
        BenchMode::Combined => Mode::Combined,
        BenchMode::Split => Mode::Split,
    };
    let text = if args.disasm {
        disasm::text(filter, mode).map_err(failure)?
    } else if args.scaling {
        report::series(&scaling::run(mode, Effort::default()).map_err(failure)?)
    } else {
        let problems = benches::selected(filter).map_err(failure)?;
        let mut rows = Vec::new();
        for make in &problems {
            rows.push(measure::measure(&make(benches::Size::Full), mode, Effort::default()).map_err(failure)?);
        }
        let peers = args.peers.then(|| peers::run(&problems)).transpose().map_err(Failure::Chore)?;
        match (args.json, peers) {
            (true, peers) => format!("{:#}\n", report::json(&rows, peers.as_ref())),
            (false, None) => report::table(&rows) + "\n",
            (false, Some(peers)) => format!("{}\n\n{}\n", report::table(&rows), report::peers(&rows, &peers)),
        }
    };
    show(&text);
    Ok(())
}

fn failure(e: benches::Failure) -> Failure {
    match e {
        benches::Failure::Unknown { .. } => Failure::Usage(e.to_string()),
        e => Failure::Chore(e.to_string()),
    }
}
