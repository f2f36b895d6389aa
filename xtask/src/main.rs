//! `cargo xtask`: gradients of CLIF files and WebAssembly modules from the command line, and the
//! chores of the project.
//!
//! | command | does |
//! |---|---|
//! | `grad FILE` | runs the calls given with `--call`, or every `; grad:` line of the file |
//! | `jvp FILE` | values and tangents along directions, by forward mode |
//! | `jacobian FILE` | Jacobians |
//! | `hvp FILE`, `hessian FILE` | second derivatives along directions, and Hessians |
//! | `run FILE` | calls without differentiating |
//! | `check FILE` | compares each gradient with finite differences and with the tape oracle |
//! | `explain FILE` | says why a gradient is what it is: cut edges, where it stops being finite, contributions, records |
//! | `dump FILE` | prints a stage of the pipeline, or the difference between two |
//! | `bench` | measures gradients beside their primals and beside adjoints written by hand |
//! | `mutants` | breaks rules on purpose and lists what no test notices |
//! | `fuzz TARGET` | searches for inputs that break a promise |
//! | `test`, `bless`, `determinism`, `ci` | the tests, their expectations, and everything that must hold before a merge |
//!
//! Exit status: 0 if all went well; 1 if something is wrong with the file, the program or the run;
//! 2 if the command line is wrong, which includes a call that does not fit its function.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use xtask::cli::{Cli, Command};
use xtask::failure::Failure;
use xtask::{check, chores, dump, explain, forward, grad, report, second, tidy, trust};

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(limit) = cli.command.time_limit() {
        watch(limit, cli.command.file().map(|f| f.display().to_string()).unwrap_or_default());
    }
    let result = match &cli.command {
        Command::Grad(args) => grad::run(args),
        Command::Jvp(args) => forward::jvp(args),
        Command::Jacobian(args) => forward::jacobian_of(args),
        Command::Hvp(args) => second::hvp(args),
        Command::Hessian(args) => second::hessian_of(args),
        Command::Run(args) => grad::run_primals(args),
        Command::Check(args) => check::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Dump(args) => dump::run(args),
        Command::Test { filter, quick } => chores::test(filter.as_deref(), *quick),
        Command::Bless { filter } => chores::bless(filter.as_deref()),
        Command::Bench(_) => chores::bench(),
        Command::Mutants { row, case, most } => trust::mutants(row.as_deref(), case.as_deref(), *most),
        Command::Fuzz { target, minutes, seed } => trust::fuzz(target, *minutes, *seed),
        Command::Determinism => chores::determinism(),
        Command::Ci => chores::ci(),
        Command::Tidy => tidy::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report::print(&failure, cli.command.file());
            failure.exit_code()
        }
    }
}

/// End the process when its time is over. Nothing else stops a function that does not return: it is
/// machine code, and asks for nothing.
fn watch(limit: Duration, file: String) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        let seconds = limit.as_secs_f64();
        report::print(&Failure::Chore(format!("{file}: not done within {seconds} s, which is the time limit")), None);
        std::process::exit(1);
    });
}
