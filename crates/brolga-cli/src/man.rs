//! `brolga man`: manual pages, made from the definitions of the commands.

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
    // Commands get their whole names.
    brolga.build();
    let page = match &args.command {
        None => brolga,
        Some(name) => {
            let commands = || brolga.get_subcommands().filter(|c| !c.is_hide_set());
            let Some(found) = commands().find(|c| c.get_name() == name) else {
                let names: Vec<&str> = commands().map(Command::get_name).collect();
                return Err(Failure::Usage(format!("there is no command `{name}`; there are {}", names.join(", "))));
            };
            found.clone()
        }
    };
    let mut text = Vec::new();
    render(page, &mut text).map_err(|e| Failure::Other(format!("the page cannot be written: {e}")))?;
    show(&String::from_utf8_lossy(&text));
    Ok(())
}

/// The sections of a page. What help says at its end is here a section of its own.
fn render(command: Command, out: &mut Vec<u8>) -> std::io::Result<()> {
    let has_commands = command.get_subcommands().any(|c| !c.is_hide_set());
    let version = command.get_version().is_some();
    let man = Man::new(command);
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
    statuses.to_writer(out)?;
    if version {
        man.render_version_section(out)?;
    }
    Ok(())
}
