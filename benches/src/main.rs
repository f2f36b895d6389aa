//! The command line of `cargo xtask bench`: what gradients cost.

use std::process::ExitCode;

use benches::{
    CallRow, Configuration, Effort, Mode, calls, costs, disasm, forks, latency, loops, measure, page, passes, peers,
    report, reversible, scaling, second, tangents,
};
use brolga_cli::args::{CallOptions, EffortArg as Asked};
use brolga_cli::cli::finish;
use brolga_cli::failure::Failure;
use brolga_cli::jobs::{Job, jobs};
use brolga_cli::report::show;
use brolga_driver::File;
use clap::Parser;
use serde_json::Value;
use xtask::cli::{BenchArgs, BenchMode};

/// Measure what gradients cost: all problems, those whose name contains FILTER, or calls of a file.
#[derive(Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench", max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    args: BenchArgs,
}

fn main() -> ExitCode {
    let Cli { args } = Cli::parse();
    finish(args.file(), None, || run(&args))
}

/// Measure, or print machine code.
fn run(args: &BenchArgs) -> Result<(), Failure> {
    let filter = args.filter.as_deref();
    let mode = match args.mode {
        BenchMode::Gradient => Mode::Gradient,
        BenchMode::Combined => Mode::Combined,
        BenchMode::Split => Mode::Split,
    };
    // What calls pay for in the end, and what they wait for.
    let usual = if args.latency { Asked::Tiered } else { Asked::Full };
    let effort = args.effort.unwrap_or(usual).into();
    let how = Configuration {
        mode,
        disabled: args.without.unwrap_or_default(),
        inline: args.inline.into(),
        effort,
        threads: args.threads,
    };
    let text = if args.costs {
        report::costs(&costs::run().map_err(failure)?) + "\n"
    } else if args.passes {
        let worths = passes::run(filter, how, Effort::default()).map_err(failure)?;
        write(args, |all| page::passes(all, &worths))?;
        if args.json { json(report::worths_json(&worths)) } else { report::worths(&worths) + "\n" }
    } else if let Some(path) = args.file() {
        let file = File::read_for(path, &args.module.options(), &[])?;
        if args.disasm {
            let code = calls_of(&file, args)?.into_iter().map(|job| disasm::of_call(&file.program, &job.call, how));
            let code = code.collect::<Result<String, _>>();
            show(&code.map_err(|e| Failure::Run(path.display().to_string(), e))?);
            return Ok(());
        }
        let rows = of_file(&file, args, how)?;
        if args.json { json(report::calls_json(&rows)) } else { report::calls(&rows) + "\n" }
    } else if !args.calls.is_empty() {
        return Err(Failure::Usage("--call wants a file: .clif, .wasm or .wat".to_owned()));
    } else if args.disasm {
        disasm::text(filter, how).map_err(failure)?
    } else if args.latency {
        if cfg!(debug_assertions) {
            eprintln!(
                "note: built in the development profile, with Cranelift's own checks: `cargo run --release -p benches -- --latency` measures what users have"
            );
        }
        let rows = if args.scaling {
            latency::scaling(how, Effort::default()).map_err(failure)?
        } else {
            let measured = benches::selected(filter).map_err(failure)?.into_iter();
            let rows = measured.map(|make| latency::measure(&make(benches::Size::Small), how, Effort::default()));
            rows.collect::<Result<Vec<_>, _>>().map_err(failure)?
        };
        let tier = if how.effort == brolga::Effort::Full { "full" } else { "quick" };
        write(args, |all| page::latency(all, tier, &rows))?;
        if args.json { json(report::latencies_json(&rows)) } else { report::latencies(&rows) + "\n" }
    } else if args.tangents {
        of_tangents(filter, how)?
    } else if args.reversible {
        of_reversible(filter, how)?
    } else if args.loops || args.forks || args.second {
        of_kind(args, how)? + "\n"
    } else if args.scaling {
        report::series(&scaling::run(how, Effort::default()).map_err(failure)?)
    } else {
        let (problems, programs) = benches::selection(filter).map_err(failure)?;
        let mut rows = Vec::new();
        for make in &problems {
            rows.push(measure::measure(&make(benches::Size::Full), how, Effort::default()).map_err(failure)?);
        }
        let mut calls = Vec::new();
        for program in &programs {
            calls.push(program.measure(how, Effort::default()).map_err(failure)?);
        }
        let peers = args.peers.then(|| peers::run(&problems)).transpose().map_err(Failure::Other)?;
        write(args, |all| match &peers {
            Some(peers) => page::peers(all, &rows, peers),
            None => page::problems(all, &rows, &calls),
        })?;
        match (args.json, peers) {
            (true, peers) => {
                let mut all = report::json(&rows, peers.as_ref());
                all.extend(report::calls_json(&calls));
                json(all)
            }
            (false, peers) => {
                let mut tables = Vec::new();
                if !rows.is_empty() {
                    tables.push(report::table(&rows));
                    tables.extend(peers.map(|peers| report::peers(&rows, &peers)));
                }
                if !calls.is_empty() {
                    tables.push(report::calls(&calls));
                }
                tables.join("\n\n") + "\n"
            }
        }
    };
    show(&text);
    Ok(())
}

/// Time loops, forks, or second derivatives: Hessian-vector products, and where the embedding is
/// asked for, its Hessians.
fn of_kind(args: &BenchArgs, how: Configuration) -> Result<String, Failure> {
    let (filter, effort) = (args.filter.as_deref(), Effort::default());
    if args.loops {
        return Ok(report::loops(&loops::run(filter, how, effort).map_err(failure)?));
    }
    if args.forks {
        return Ok(report::forks(&forks::run(filter, how, effort).map_err(failure)?));
    }
    let made = benches::selected(filter).map_err(failure)?.into_iter();
    let rows = made.map(|make| second::measure(&make(benches::Size::Full), how, effort));
    let rows = rows.collect::<Result<Vec<_>, _>>().map_err(failure)?;
    let mut tables = vec![report::products(&rows)];
    if rows.iter().any(|r| r.name == "embed") {
        tables.push(report::embeddings(&second::embeddings(how, effort).map_err(failure)?));
    }
    Ok(tables.join("\n\n"))
}

/// Values and tangents.
fn of_tangents(filter: Option<&str>, how: Configuration) -> Result<String, Failure> {
    let made = benches::selected(filter).map_err(failure)?.into_iter();
    let rows = made.map(|make| tangents::measure(&make(benches::Size::Full), how, Effort::default()));
    Ok(report::tangents(&rows.collect::<Result<Vec<_>, _>>().map_err(failure)?) + "\n")
}

/// Reversible functions, and steps that run backwards.
fn of_reversible(filter: Option<&str>, how: Configuration) -> Result<String, Failure> {
    let found = reversible::run(filter, how, Effort::default()).map_err(failure)?;
    let targets = found.targets();
    let tables = [
        (found.functions.is_empty(), report::reversible(&found.functions)),
        (found.hessians.is_empty(), report::hessians(&found.hessians)),
        (found.steps.is_empty(), report::steps(&found.steps)),
        (found.drifts.is_empty(), report::drifts(&found.drifts)),
        (targets.is_empty(), report::targets(&targets)),
    ];
    let tables = tables.into_iter().filter(|t| !t.0).map(|t| t.1 + "\n");
    Ok(tables.collect::<Vec<_>>().join("\n"))
}

/// Put what was measured into the tables of `docs/PERFORMANCE.md`, if that is asked for.
fn write(args: &BenchArgs, put: impl FnOnce(&mut Value)) -> Result<(), Failure> {
    if args.write { page::write(put).map_err(Failure::Other) } else { Ok(()) }
}

/// An array for programs.
fn json(rows: Vec<serde_json::Value>) -> String {
    format!("{:#}\n", serde_json::Value::Array(rows))
}

/// The calls of the command line, or else those of the file.
fn calls_of<'f>(file: &'f File, args: &BenchArgs) -> Result<Vec<Job<'f>>, Failure> {
    jobs(file, &CallOptions { calls: args.calls.clone(), ..CallOptions::default() })
}

fn of_file(file: &File, args: &BenchArgs, how: Configuration) -> Result<Vec<CallRow>, Failure> {
    let measured = calls_of(file, args)?.into_iter().map(|job| {
        let all: Vec<char> = job.text.chars().collect();
        let mut name: String = all.iter().take(NAME).collect();
        if all.len() > NAME {
            name += "…";
        }
        calls::measure(&name, &file.program, &job.call, None, None, how, Effort::default()).map_err(failure)
    });
    measured.collect()
}

/// Most letters of a call that are shown.
const NAME: usize = 48;

fn failure(e: benches::Failure) -> Failure {
    match e {
        benches::Failure::Unknown { .. } => Failure::Usage(e.to_string()),
        e => Failure::Other(e.to_string()),
    }
}
