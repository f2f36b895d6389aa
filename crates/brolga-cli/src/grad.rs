//! Gradients on the command line: `brolga grad`, values and gradients of calls.
//!
//! **Question.** What is the gradient of a call, and is it what its line expects?
//!
//! **Answer.** [`run`] runs each call and shows its outcome, as text or as one line of JSON. What
//! differs from a `; grad:` line is a mismatch, told when all calls have run.
//!
//! **Cost.** A run for each call, and a derivation where it asks for another rule than the call
//! before it.

use brolga_driver::{File, Outcome, compare, output};
use clap::Args;

use crate::args::{CallOptions, FileArg, Limit};
use crate::failure::Failure;
use crate::jobs::{Job, jobs, outcome_of, read};
use crate::report::{complain, show, told};
use crate::rules::Rules;

/// `grad`.
#[derive(Args)]
pub struct GradArgs {
    /// The file.
    #[command(flatten)]
    pub input: FileArg,
    /// When to stop waiting.
    #[command(flatten)]
    pub limit: Limit,
    /// The calls.
    #[command(flatten)]
    pub call: CallOptions,
    /// Print one JSON object per call.
    #[arg(long)]
    pub json: bool,
}

/// Run the command.
pub fn run(args: &GradArgs) -> Result<(), Failure> {
    told(args.json, || run_all(args))
}

fn run_all(args: &GradArgs) -> Result<(), Failure> {
    let file = read(&args.input, &args.call.calls)?;
    let jobs = jobs(&file, &args.call)?;
    let rules = Rules::new(&file);
    let mut wrong = 0;
    for job in &jobs {
        let outcome = outcome_of(&rules, job)?;
        if args.json {
            show(&format!("{}\n", output::json(&job.call, &outcome)));
        } else {
            show(&output::text(&job.text, &job.call, &outcome));
        }
        // A line of the file may expect zeros.
        if let (Some(why), None, false) = (job.unweighted(), job.line, args.json) {
            complain(&format!("all cotangents are zero: {why}"));
        }
        wrong += usize::from(!meets_expectation(&file, job, &outcome, args.json));
    }
    match wrong {
        0 => Ok(()),
        n => Err(Failure::Mismatch(format!("{n} of {} calls did not give what their line expects", jobs.len()))),
    }
}

/// Compare with what the line expects, and say so.
fn meets_expectation(file: &File, job: &Job<'_>, outcome: &Outcome, quiet: bool) -> bool {
    let Some(line) = job.line else { return true };
    let tol = compare::tolerance(&file.program, &job.call, &job.clauses);
    let wrong = compare::differences(outcome, &line.expected, &job.clauses, tol);
    for difference in &wrong {
        complain(&format!("line {}: %{}: {difference}", line.line, job.call.symbol));
    }
    if wrong.is_empty() && !quiet {
        show(&format!("  as line {} expects\n", line.line));
    }
    wrong.is_empty()
}
