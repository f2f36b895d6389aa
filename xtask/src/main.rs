//! `cargo xtask`: the commands of `brolga` about files, without installing it, and the chores of
//! the project.
//!
//! | command | does |
//! |---|---|
//! | `grad`, `check`, `explain`, … | as `brolga` does ([`brolga_cli::cli::FileCommand`]) |
//! | `bench` | measures gradients beside their primals and beside adjoints written by hand |
//! | `mutants` | breaks rules on purpose and lists what no test notices |
//! | `fuzz TARGET` | searches for inputs that break a promise |
//! | `adapters` | tests `adapters/`, which is outside of the workspace |
//! | `diffsl` | runs the tests of another compiler with its module wrapped |
//! | `test`, `bless`, `determinism`, `ci` | the tests, their expectations, and everything that must hold before a merge |

use std::process::ExitCode;

use brolga_cli::cli::finish;
use brolga_cli::failure::Failure;
use clap::Parser;
use xtask::cli::{Cli, Command};
use xtask::{chores, diffsl, tidy, trust};

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::OnFile(command) => command.execute(),
        Command::Bench(_) => chores::bench(),
        Command::Test { filter, quick, full } => {
            let depth = if quick { Some("quick") } else { full.then_some("full") };
            chore(|| chores::test(filter.as_deref(), depth))
        }
        Command::Bless { filter } => chore(|| chores::bless(filter.as_deref())),
        Command::Mutants { row, case, most } => chore(|| trust::mutants(row.as_deref(), case.as_deref(), most)),
        Command::Fuzz { target, minutes, seed } => chore(|| trust::fuzz(&target, minutes, seed)),
        Command::Adapters => chore(chores::adapters),
        Command::Diffsl => chore(diffsl::run),
        Command::Census => chore(chores::census),
        Command::Determinism => chore(chores::determinism),
        Command::Ci => chore(chores::ci),
        Command::Tidy => chore(tidy::run),
    }
}

fn chore(work: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    finish(None, None, work)
}
