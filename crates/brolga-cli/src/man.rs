//! Manual pages: `brolga man`, made from the definitions of the commands.
//!
//! **Question.** What is the manual page of a command?
//!
//! **Answer.** Its sections are those of its help; what help says at its end, the exit statuses, is
//! a section of its own ([`run`]).
//!
//! **Cost.** One walk over the definitions.

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::failure::{Failure, STATUSES};
use crate::report::show;

/// `man`.
#[derive(Args)]
pub struct ManArgs {
    /// The command whose page is wanted.
    pub command: Option<String>,
}

/// Run the command.
pub fn run(args: &ManArgs, mut brolga: Command) -> Result<(), Failure> {
    // Commands get their whole names, and `brolga help` none of its own.
    brolga = brolga.disable_help_subcommand(true);
    brolga.build();
    let source = format!("{} {}", brolga.get_name(), brolga.get_version().unwrap_or_default());
    let page = match &args.command {
        None => brolga,
        Some(name) => {
            let commands = || brolga.get_subcommands();
            let Some(found) = commands().find(|c| c.get_name() == name) else {
                let names: Vec<&str> = commands().map(Command::get_name).collect();
                return Err(Failure::Usage(format!("there is no command `{name}`; there are {}", names.join(", "))));
            };
            found.clone()
        }
    };
    let mut text = Vec::new();
    render(page, source, &mut text).map_err(|e| Failure::Other(format!("the page cannot be written: {e}")))?;
    show(&String::from_utf8_lossy(&text));
    Ok(())
}

/// The sections of a page. What help says at its end is here a section of its own.
fn render(command: Command, source: String, out: &mut Vec<u8>) -> std::io::Result<()> {
    let has_commands = command.has_subcommands();
    let man = Man::new(command).source(source).manual("Brolga");
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    if has_commands {
        man.render_subcommands_section(out)?;
    }
    let mut statuses = Roff::new();
    statuses.control("SH", ["EXIT STATUS"]);
    for (status, meaning) in STATUSES {
        statuses.control("TP", []).text([roman(status.to_string())]).text([roman(meaning)]);
    }
    statuses.to_writer(out)
}
