//! `cargo run -p brolga-fuzz -- --minutes 10 --seed 1`: random programs, judged until the time is
//! up.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use brolga_fuzz::bits::target::{self, Bits};
use brolga_fuzz::bits::{case, generate};
use brolga_fuzz::campaign::{CampaignPlan, Programs, run};
use brolga_fuzz::judge::{Thoroughness, judge};
use brolga_fuzz::outside::ProcessFiles;
use brolga_fuzz::reduce::reduce;
use brolga_fuzz::text_of;
use clap::Parser;

/// Random programs against the engine.
#[derive(Parser)]
#[command(max_term_width = 100)]
struct Cli {
    /// How long to go on.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Which programs: every seed has four thousand million of its own.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Where to keep what was found.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/finds"))]
    finds: PathBuf,
    /// Where to write the statistics so far, while it goes on.
    #[arg(long, value_name = "FILE")]
    statistics: Option<PathBuf>,
    /// How many finds of one class to make small and keep.
    #[arg(long, default_value_t = 2)]
    per_class: usize,
    /// Keep programs that are refused, too.
    #[arg(long)]
    refusals: bool,
    /// Programs in C that move floats as bits, at four levels of optimisation. Needs clang.
    #[arg(long)]
    bits: bool,
    /// Second derivatives of programs.
    #[arg(long, conflicts_with = "bits")]
    second: bool,
    /// Compile a file with a program in C at every level, and write the modules beside it.
    #[arg(long, value_name = "FILE")]
    build: Option<PathBuf>,
    /// Print the program with this number.
    #[arg(long, value_name = "NUMBER")]
    program: Option<u64>,
    /// Judge a file and print the verdict.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// Make a failing file small and print what is left.
    #[arg(long, value_name = "FILE")]
    reduce: Option<PathBuf>,
    /// Judge programs from this number on (what a worker process does).
    #[arg(long, value_name = "NUMBER", requires = "count")]
    worker: Option<u64>,
    /// How many programs the worker judges.
    #[arg(long)]
    count: Option<u64>,
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    if let (Some(number), true) = (cli.program, cli.bits) {
        print!("{}", case::file(&generate::program(number), number, 0, ""));
    } else if let Some(number) = cli.program {
        print!("{}", text_of(number, cli.second));
    } else if let Some(path) = &cli.build {
        target::build(path)?;
    } else if let Some(path) = &cli.check {
        if path.extension().is_some_and(|e| e == "c") {
            println!("{}", target::check(&read(path)?)?);
        } else {
            println!("{}", judge(&read(path)?, Thoroughness::Full));
        }
    } else if let Some(path) = &cli.reduce {
        let text = read(path)?;
        let outside = ProcessFiles::new()?;
        let report = outside.judge(&text, "clif")?;
        let class = report.key().to_owned();
        print!("{}", reduce(&outside, &text, &class)?);
    } else if let (Some(first), true) = (cli.worker, cli.bits) {
        target::work(first, cli.count.unwrap_or(0))?;
    } else if let Some(first) = cli.worker {
        for number in first..first + cli.count.unwrap_or(0) {
            // One write for each line, since the reader may be gone tomorrow and the line must be
            // whole.
            let care = if number % 16 == 0 { Thoroughness::Full } else { Thoroughness::Usual };
            let line = format!("{number} {}\n", judge(&text_of(number, cli.second), care));
            std::io::stdout().write_all(line.as_bytes())?;
        }
    } else {
        let plan = CampaignPlan {
            time: Duration::from_secs_f64(60.0 * cli.minutes),
            first: u64::from(cli.seed) << 32,
            finds: cli.finds,
            per_class: cli.per_class,
            statistics: cli.statistics,
            refusals: cli.refusals,
        };
        let statistics =
            if cli.bits { run(&Bits::new()?, &plan)? } else { run(&Programs { second: cli.second }, &plan)? };
        print!("{}", statistics.table());
        return Ok(if statistics.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &PathBuf) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}
