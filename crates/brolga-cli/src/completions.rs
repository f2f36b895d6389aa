//! Shell completions: `brolga completions`, scripts for shells, made from the definitions of the
//! commands.
//!
//! **Question.** How does a shell complete commands and options?
//!
//! **Answer.** By a script that [`run`] prints, for the shell that is named.
//!
//! **Cost.** One walk over the definitions.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::failure::Failure;
use crate::report::show;

/// `completions`.
#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: Shell,
}

/// Run the command.
pub fn run(args: &CompletionsArgs, mut command: Command) -> Result<(), Failure> {
    let (name, mut script) = (command.get_name().to_owned(), Vec::new());
    generate(args.shell, &mut command, name, &mut script);
    show(&String::from_utf8_lossy(&script));
    Ok(())
}
