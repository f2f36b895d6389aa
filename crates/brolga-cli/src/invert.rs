//! `brolga invert`: inverses of reversible functions, as text.

use clap::Args;

use crate::args::FileArg;
use crate::failure::Failure;
use crate::jobs::read;
use crate::report::show;

/// `invert`.
#[derive(Args)]
pub struct InvertArgs {
    /// The file.
    #[command(flatten)]
    pub input: FileArg,
    /// Only this function.
    #[arg(long, value_name = "NAME")]
    pub func: Option<String>,
}

/// Run the command.
pub fn run(args: &InvertArgs) -> Result<(), Failure> {
    let file = read(&args.input, &[])?;
    let Some(reversible) = file.reversible else {
        return Err(Failure::Usage("functions with inverses are in .rev files".to_owned()));
    };
    let mut inverses = reversible.inverses;
    if let Some(name) = &args.func {
        let name = name.trim_start_matches('%');
        inverses.functions.retain(|f| f.name == name);
        if inverses.functions.is_empty() {
            return Err(Failure::Usage(format!("the file has no function `{name}`")));
        }
    }
    show(&inverses.to_string());
    Ok(())
}
