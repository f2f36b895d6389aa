//! `cargo run -p benches [FILTER] [--json]`: measure, and print a table or JSON.

use std::process::ExitCode;

use clap::Parser;

/// Measure gradients beside their primals and beside adjoints written by hand.
#[derive(Parser)]
struct Cli {
    /// Part of a problem's name.
    filter: Option<String>,
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match benches::run(cli.filter.as_deref()) {
        Ok(rows) if cli.json => println!("{:#}", benches::report::json(&rows)),
        Ok(rows) => println!("{}", benches::report::table(&rows)),
        Err(failure) => {
            eprintln!("error: {failure}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
