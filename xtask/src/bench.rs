//! `bench`: what gradients cost.

use benches::{Effort, How, Ideas, Mode, disasm, measure, peers, report, scaling};

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
    let how = How { mode, ideas: ideas(args.without.as_deref().unwrap_or_default())? };
    let text = if args.disasm {
        disasm::text(filter, how).map_err(failure)?
    } else if args.scaling {
        report::series(&scaling::run(how, Effort::default()).map_err(failure)?)
    } else {
        let problems = benches::selected(filter).map_err(failure)?;
        let mut rows = Vec::new();
        for make in &problems {
            rows.push(measure::measure(&make(benches::Size::Full), how, Effort::default()).map_err(failure)?);
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

/// All ideas but those named.
fn ideas(without: &str) -> Result<Ideas, Failure> {
    let mut bits = u32::MAX;
    for name in without.split(',').map(str::trim).filter(|n| !n.is_empty()) {
        match Ideas::NAMES.iter().position(|n| *n == name) {
            Some(i) => bits &= !(1 << i),
            None => {
                let names = Ideas::NAMES.join(", ");
                return Err(Failure::Usage(format!("`{name}` is no idea of the planner's; they are {names}")));
            }
        }
    }
    Ok(Ideas::of_bits(bits))
}

fn failure(e: benches::Failure) -> Failure {
    match e {
        benches::Failure::Unknown { .. } => Failure::Usage(e.to_string()),
        e => Failure::Chore(e.to_string()),
    }
}
