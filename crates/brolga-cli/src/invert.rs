//! Inverses on the command line: `brolga invert`, inverses of reversible functions, and of
//! functions in CLIF, as text.
//!
//! **Question.** What undoes a function?
//!
//! **Answer.** [`run`] prints the inverses of reversible functions in their language, or the body
//! of what undoes a function in CLIF, as the file or the command line names or derives it.
//!
//! **Cost.** One reading of the file.

use brolga_driver::File;
use clap::Args;

use crate::args::FileArg;
use crate::failure::Failure;
use crate::jobs::read_for;
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
    let name = args.func.as_deref().map(|name| name.trim_start_matches('%'));
    let file = read_for(&args.input, name.map(str::to_owned).as_slice(), false)?;
    let Some(reversible) = &file.reversible else { return of_clif(&file, name) };
    let mut inverses = reversible.inverses.clone();
    if let Some(name) = name {
        inverses.functions.retain(|f| f.name == name);
        if inverses.functions.is_empty() {
            return Err(Failure::Usage(format!("the file has no function `{name}`")));
        }
    }
    show(&inverses.to_string());
    Ok(())
}

/// Functions in CLIF that undo others, as the file or the command line says.
fn of_clif(file: &File, name: Option<&str>) -> Result<(), Failure> {
    let mut found = 0;
    for undone in file.undone.iter().filter(|u| name.is_none_or(|n| n == u.function.node)) {
        let body = file.program.func(&undone.undoes()).and_then(|k| file.program.funcs[k].body.as_ref());
        if let Some(body) = body {
            show(&format!("{}{}", if found > 0 { "\n" } else { "" }, body.display()));
            found += 1;
        }
    }
    if found > 0 {
        return Ok(());
    }
    let what = match name {
        Some(n) => format!("nothing says what state %{n} changes"),
        None => "nothing says which functions change what state".to_owned(),
    };
    Err(Failure::Usage(format!("{what}: write `--inverse f,0:24`, or a line `; inverse: %f, 0:24`")))
}
