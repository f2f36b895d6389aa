//! Command-line interface: the commands of `brolga`.
//!
//! **Question.** Which commands are there, and what ends the process?
//!
//! **Answer.** [`FileCommand`] are those that ask something about the functions of a file; `cargo
//! xtask` has them too. The rest of [`Command`] is for an installed `brolga`. [`finish`] does the
//! work of one, reports its failure, and gives the exit status; where the time is limited, a thread
//! ends the process when that is over, since nothing else stops machine code that does not return.
//!
//! **Cost.** One thread that sleeps, where there is a limit.

use std::path::Path;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Duration;

use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::check::CheckArgs;
use crate::compile::CompileArgs;
use crate::completions::CompletionsArgs;
use crate::dump::DumpArgs;
use crate::explain::ExplainArgs;
use crate::failure::{Failure, statuses};
use crate::forward::{JacobianArgs, JvpArgs};
use crate::grad::GradArgs;
use crate::invert::InvertArgs;
use crate::man::ManArgs;
use crate::run::RunArgs;
use crate::second::{HessianArgs, HvpArgs};
use crate::{bench, check, compile, completions, dump, explain, forward, grad, invert, man, report, run, second};

/// Derivatives of functions in CLIF files and WebAssembly modules: gradients, Jacobians and
/// Hessians, checked and explained.
///
/// A call is written as '%f(1.5, [1.0, 2.0], 3)', after the name that the function has in the file.
/// [1.0, 2.0] is a buffer of doubles, whose address is passed; f32[…] and i64[…] are buffers of
/// other elements, @0 is the buffer of argument 0, and [1.0 2.0] without commas is a vector. Floats
/// and buffers of floats are differentiated; --activity says otherwise. Without --call, a command
/// runs the calls that the file lists: lines '; grad: %f(1.5, …) == […]' of a .clif file, or of
/// NAME.run beside NAME.wasm.
#[derive(Parser)]
#[command(name = NAME, version = version(), max_term_width = 100, after_help = statuses())]
pub struct Cli {
    /// When to print in colours. `auto` means on a terminal, unless NO_COLOR is set.
    // `main` looks for it before the rest is read.
    #[arg(long, global = true, value_name = "WHEN", default_value_t = ColorChoice::Auto, display_order = 1000)]
    pub color: ColorChoice,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// How the command is called.
pub const NAME: &str = "brolga";

/// A derivative is what Brolga and Cranelift make of a program.
fn version() -> &'static str {
    static VERSION: LazyLock<String> =
        LazyLock::new(|| format!("{} (Cranelift {})", env!("CARGO_PKG_VERSION"), brolga::cranelift_codegen::VERSION));
    &VERSION
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// About a file.
    #[command(flatten)]
    OnFile(FileCommand),
    /// Measure what derivatives of a call cost: gradient and tangent beside the call itself.
    Bench(BenchArgs),
    /// Print what makes a shell complete the commands and options of `brolga`.
    Completions(CompletionsArgs),
    /// Print the manual page of `brolga`, or of one of its commands.
    Man(ManArgs),
}

/// What to do with the functions of a file.
#[derive(Subcommand)]
pub enum FileCommand {
    /// Compute gradients of functions in a CLIF file or a WebAssembly module.
    Grad(GradArgs),
    /// Compute values and tangents along directions: Jacobian-vector products, by forward mode.
    Jvp(JvpArgs),
    /// Compute Jacobians, by forward mode or by pullbacks, whichever takes fewer runs.
    Jacobian(JacobianArgs),
    /// Compute values, gradients, and products of the Hessian with directions, by forward mode over
    /// the gradient.
    Hvp(HvpArgs),
    /// Compute values, gradients and Hessians.
    Hessian(HessianArgs),
    /// Call functions without differentiating them.
    Run(RunArgs),
    /// Compare gradients with finite differences and with the tape oracle.
    Check(CheckArgs),
    /// Say why a gradient is what it is: what cuts it, where it stops being finite, what it is made
    /// of, what it costs.
    Explain(ExplainArgs),
    /// Print a stage of the pipeline.
    Dump(DumpArgs),
    /// Write derivatives into an object file, with a header for C and declarations for Rust.
    Compile(CompileArgs),
    /// Print the inverses of the functions of a .rev file.
    ///
    /// Of a CLIF file, those of the functions of which a line of it or `--inverse` says what state
    /// they change.
    Invert(InvertArgs),
}

/// Read the command line and do what it says.
pub fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    // Help and complaints about the command line are in colours or not, too.
    colours(args.iter().filter_map(|a| a.to_str())).write_global();
    let cli = Cli::from_arg_matches(&Cli::command().get_matches_from(args)).unwrap_or_else(|e| e.exit());
    match &cli.command {
        Command::OnFile(command) => command.execute(),
        Command::Bench(a) => finish(Some(&a.input.file), a.limit.time_limit, || bench::run(a)),
        Command::Completions(a) => finish(None, None, || completions::run(a, Cli::command())),
        Command::Man(a) => finish(None, None, || man::run(a, Cli::command())),
    }
}

/// What `--color` says, before the rest of the command line is known to be right.
fn colours<'a>(mut args: impl Iterator<Item = &'a str>) -> anstream::ColorChoice {
    let mut choice = anstream::ColorChoice::Auto;
    while let Some(arg) = args.next().filter(|a| *a != "--") {
        let value = if arg == "--color" { args.next() } else { arg.strip_prefix("--color=") };
        choice = match value {
            Some("always") => anstream::ColorChoice::Always,
            Some("never") => anstream::ColorChoice::Never,
            Some("auto") => anstream::ColorChoice::Auto,
            _ => choice,
        };
    }
    choice
}

impl FileCommand {
    /// Do it.
    pub fn execute(&self) -> ExitCode {
        use FileCommand::{Check, Compile, Dump, Explain, Grad, Hessian, Hvp, Invert, Jacobian, Jvp, Run};
        let (input, limit) = match self {
            Grad(a) => (&a.input, a.limit.time_limit),
            Jvp(a) => (&a.input, a.limit.time_limit),
            Jacobian(a) => (&a.input, a.limit.time_limit),
            Hvp(a) => (&a.input, a.limit.time_limit),
            Hessian(a) => (&a.input, a.limit.time_limit),
            Run(a) => (&a.input, a.limit.time_limit),
            Check(a) => (&a.input, a.limit.time_limit),
            Explain(a) => (&a.input, a.limit.time_limit),
            Dump(a) => (&a.input, None),
            Compile(a) => (&a.input, None),
            Invert(a) => (&a.input, None),
        };
        finish(Some(&input.file), limit, || match self {
            Grad(a) => grad::run(a),
            Jvp(a) => forward::jvp(a),
            Jacobian(a) => forward::jacobian_of(a),
            Hvp(a) => second::hvp(a),
            Hessian(a) => second::hessian_of(a),
            Run(a) => run::run(a),
            Check(a) => check::run(a),
            Explain(a) => explain::run(a),
            Dump(a) => dump::run(a),
            Compile(a) => compile::run(a),
            Invert(a) => invert::run(a),
        })
    }
}

/// Do some work about a file, in the time that it may take, and say what is wrong.
pub fn finish(file: Option<&Path>, limit: Option<Duration>, work: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    if let Some(limit) = limit {
        watch(limit, file.map(|f| f.display().to_string()).unwrap_or_default());
    }
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report::print(&failure, file);
            ExitCode::from(failure.status())
        }
    }
}

/// End the process when its time is over. Nothing else stops a function that does not return: it is
/// machine code, and asks for nothing.
fn watch(limit: Duration, file: String) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        let seconds = limit.as_secs_f64();
        let failure = Failure::Other(format!("{file}: not done within {seconds} s, which is the time limit"));
        report::print(&failure, None);
        std::process::exit(failure.status().into());
    });
}

#[cfg(test)]
mod tests {
    use super::{Cli, colours};
    use anstream::ColorChoice::{Always, Auto, Never};
    use clap::CommandFactory;

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn colours_are_known_early() {
        let said = |line: &str| colours(line.split(' '));
        assert_eq!(said("brolga grad f.clif"), Auto);
        assert_eq!(said("brolga --color never grad --color=always"), Always);
        assert_eq!(said("brolga grad --color never --call x"), Never);
        assert_eq!(said("brolga --color sometimes"), Auto);
        assert_eq!(said("brolga -- --color never"), Auto);
    }
}
