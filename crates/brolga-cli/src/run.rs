//! Primal runs on the command line: `brolga run`, calls without derivatives.
//!
//! **Question.** What does a call return, and leave in its buffers?
//!
//! **Answer.** [`run`] compiles the function of each call, runs it and shows what comes out, as
//! text or as one line of JSON. A panic of Cranelift is an error of the call.
//!
//! **Cost.** A compilation and a run for each call.

use brolga::Error;
use brolga_driver::output;
use brolga_driver::run::primal;
use brolga_ir::panics;
use clap::Args;

use crate::args::{CallOptions, FileArg, Limit};
use crate::failure::Failure;
use crate::jobs::{jobs, read};
use crate::report::{show, told};

/// `run`.
#[derive(Args)]
pub struct RunArgs {
    /// The file.
    #[command(flatten)]
    pub input: FileArg,
    /// When to stop waiting.
    #[command(flatten)]
    pub limit: Limit,
    /// What to call, such as '%f(1.5, [1.0, 2.0], 3)'. May be repeated. Without one, the file's `;
    /// grad:` lines.
    #[arg(long = "call", value_name = "CALL")]
    pub calls: Vec<String>,
    /// Print one JSON object per call.
    #[arg(long)]
    pub json: bool,
}

/// Run the command.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    told(args.json, || {
        let file = read(&args.input, &args.calls)?;
        let options = CallOptions { calls: args.calls.clone(), ..CallOptions::default() };
        for job in jobs(&file, &options)? {
            let outcome = panics::catch(|| primal(&file.program, &job.call))
                .unwrap_or_else(|message| Err(Error::Internal { stage: "run", message }))
                .map_err(|e| Failure::Run(job.name(), e))?;
            show(&match args.json {
                true => format!("{}\n", output::primal_json(&job.call, &outcome)),
                false => output::primal_text(&job.text, &outcome),
            });
        }
        Ok(())
    })
}
