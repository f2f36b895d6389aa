//! Benchmark: `brolga bench`, what derivatives of a call cost, beside the call itself.
//!
//! **Question.** How many times as long as the call do gradient and tangent take?
//!
//! **Answer.** [`brolga_driver::timing`] measures; here a table or a line of JSON is made of it.
//! Where effort is tiered the second tier is measured, which is all that a long run sees. A tangent
//! that is refused is said to be, and the rest is measured.
//!
//! **Cost.** As long as `--budget` says for each call, and five rounds at least.

use std::time::Duration;

use brolga::{Effort, Error, Mode, Options};
use brolga_driver::output::error_json;
use brolga_driver::timing::{Cost, DerivativeCost, cost};
use brolga_driver::{File, Invocation};
use clap::Args;
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::args::{CallOptions, FileArg, Limit, duration};
use crate::failure::Failure;
use crate::jobs::{Job, jobs, read};
use crate::report::{show, told};
use crate::rules::Rules;

/// `bench`.
#[derive(Args)]
pub struct BenchArgs {
    /// The file.
    #[command(flatten)]
    pub input: FileArg,
    /// When to stop waiting.
    #[command(flatten)]
    pub limit: Limit,
    /// The calls. If effort is tiered, the second tier is measured.
    #[command(flatten)]
    pub call: CallOptions,
    /// How long to measure each call.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = duration)]
    pub budget: Duration,
    /// Print one JSON object per call.
    #[arg(long)]
    pub json: bool,
}

/// Run the command.
pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    told(args.json, || {
        let file = read(&args.input, &args.call.calls)?;
        let rules = Rules::new(&file);
        for job in jobs(&file, &args.call)? {
            let found = measure(&file, &rules, &job, args.budget).map_err(|e| Failure::Run(job.name(), e))?;
            show(&match args.json {
                true => format!("{}\n", bench_json(&job.call, &found)),
                false => bench_text(&job.text, &found),
            });
        }
        Ok(())
    })
}

fn measure(file: &File, rules: &Rules<'_>, job: &Job<'_>, budget: Duration) -> Result<Cost, Error> {
    let asked = job.options();
    let effort = if asked.effort == Effort::default() { Effort::Full } else { asked.effort };
    let options = Options { effort, ..asked };
    let gradient = rules.get(&job.call.request(), &options)?;
    let tangent = rules.get(&job.call.request(), &Options { mode: Mode::Tangent, ..options.clone() });
    cost(&file.program, &job.call, &gradient, tangent, &options, budget)
}

/// `{"function", "primal", "gradient", "tangent", "guard_ns", "spread_ns", "tape_bytes",
/// "rounds"}`; an error in place of a tangent that is refused, or traps.
fn bench_json(call: &Invocation, cost: &Cost) -> Value {
    let tenths = |ns: f64| (ns * 10.0).round() / 10.0;
    let share = |s: &DerivativeCost| {
        let ratios = s.ratio.map(|all| all.map(|x| (x * 1e3).round() / 1e3));
        let (ratio, quartiles) = (ratios.map(|r| r[1]), ratios.map(|r| [r[0], r[2]]));
        json!({ "ns": tenths(s.ns), "ratio": ratio, "quartiles": quartiles })
    };
    json!({
        "function": format!("%{}", call.symbol),
        "primal": { "ns": tenths(cost.primal_ns) },
        "gradient": share(&cost.gradient),
        "tangent": cost.tangent.as_ref().map_or_else(error_json, share),
        "guard_ns": tenths(cost.guard_ns),
        "spread_ns": tenths(cost.spread_ns),
        "tape_bytes": cost.tape_bytes,
        "rounds": cost.rounds,
    })
}

fn bench_text(written: &str, cost: &Cost) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let cells = |cells: [String; 4]| {
        let number = |text: &String| Cell::new(text).set_alignment(CellAlignment::Right);
        let rest = cells[1..].iter().map(number).collect::<Vec<_>>();
        std::iter::once(Cell::new(format!(" {}", cells[0]))).chain(rest).collect::<Vec<_>>()
    };
    table.set_header(cells(["", "time", "/ primal", "quartiles"].map(str::to_owned)));
    table.add_row(cells(["primal".to_owned(), time(cost.primal_ns), String::new(), String::new()]));
    for (name, share) in [("gradient", Ok(&cost.gradient)), ("tangent", cost.tangent.as_ref())] {
        let Ok(DerivativeCost { ns, ratio }) = share else { continue };
        let (ratio, quartiles) = match ratio {
            Some([low, ratio, high]) => (format!("{ratio:.2}"), format!("{low:.2} … {high:.2}")),
            None => Default::default(),
        };
        table.add_row(cells([name.to_owned(), time(*ns), ratio, quartiles]));
    }
    let mut out = format!("{written}\n");
    out.extend(table.lines().map(|line| line.trim_end().to_owned() + "\n"));
    if let Err(error) = &cost.tangent {
        let why = error.to_string();
        out += &format!("  tangent: not measured ({})\n", why.lines().next().unwrap_or_default());
    }
    if cost.gradient.ratio.is_none() {
        let spread = time(cost.spread_ns);
        out += &format!("  too short to be compared: what a call of nothing takes varies by {spread}\n");
    }
    out += &format!("  recorded {} bytes; medians of {} rounds\n", cost.tape_bytes, cost.rounds);
    out
}

/// A time in a unit that suits it.
fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e6 => format!("{:.2} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}
