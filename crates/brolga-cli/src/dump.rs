//! Dump: `brolga dump`, a stage of the pipeline as text, as a graph, or as the difference from
//! another stage.
//!
//! **Question.** What does a function look like in a stage of its derivation?
//!
//! **Answer.** [`run`] derives it, and prints the text of the stage, both derived graphs for
//! Graphviz, or what changes between two stages. Stages are checked by name before the file is
//! read.
//!
//! **Cost.** One derivation for each stage that is printed.

use std::ffi::OsStr;

use brolga::{Error, Options, Stage};
use brolga_ir::panics;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command};
use similar::TextDiff;

use crate::args::{BudgetOptions, EffortArg, FileArg, Inline, MemoryArg, Untracked};
use crate::choice;
use crate::failure::Failure;
use crate::jobs::{read_for, untracked};
use crate::report::show;

/// `dump`.
#[derive(Args)]
pub struct DumpArgs {
    /// The file.
    #[command(flatten)]
    pub input: FileArg,
    /// The function. Not needed if the file defines only one.
    #[arg(long, short, value_name = "NAME")]
    pub func: Option<String>,
    /// What to print.
    #[arg(long, short, value_name = "STAGE", value_parser = StageName)]
    pub stage: Option<String>,
    /// Print both derived graphs for Graphviz.
    #[arg(long, conflicts_with = "diff")]
    pub dot: bool,
    /// Print what changes between two stages.
    #[arg(long, value_name = "STAGE..STAGE")]
    pub diff: Option<String>,
    /// One activity per argument. The default is that of the file's first `; grad:` line for the
    /// function, and without one: floats active, what serves as an address duplicated, the rest
    /// constant.
    #[arg(long, value_name = "LIST")]
    pub activity: Option<String>,
    /// What the pullback does with memory that the function wrote.
    #[arg(long, value_enum)]
    pub memory: Option<MemoryArg>,
    /// Replace calls of short functions by their bodies before differentiation.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "small")]
    pub inline: Inline,
    /// Dump the pipeline as it is for a gradient that is fast, or for one that is there soon.
    #[arg(long, value_enum, default_value_t)]
    pub effort: EffortArg,
    /// What becomes of operations on bits of floats that have no known derivative. The default is
    /// `refuse` for CLIF, and `trap` for modules.
    #[arg(long, value_enum)]
    pub untracked: Option<Untracked>,
    /// Loops within a budget of memory.
    #[command(flatten)]
    pub budget: BudgetOptions,
}

/// What help and completions know of stages. A name that is none is left to [`stage`].
#[derive(Clone)]
struct StageName;

impl TypedValueParser for StageName {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Stage::ALL.into_iter().map(|stage| PossibleValue::new(stage.name()))))
    }
}

/// Run the command.
pub fn run(args: &DumpArgs) -> Result<(), Failure> {
    let wanted = DumpTarget::parse(args)?;
    let wanted_func = args.func.iter().map(|f| f.trim_start_matches('%').to_owned()).collect::<Vec<_>>();
    let file = read_for(&args.input, &wanted_func, true)?;
    let func = choice::function(&file, args.func.as_deref())?;
    let request = choice::request(&file, func, args.activity.as_deref())?;
    let memory = args.memory.map(Into::into).unwrap_or_default();
    let (inline, effort) = (args.inline.into(), args.effort.into());
    let untracked = untracked(&file, args.untracked);
    let options = args.budget.put(Options { memory, inline, effort, untracked, ..Options::default() });
    let failed = |e| Failure::Run(format!("%{}", file.program.funcs[func].symbol), e);
    let dump = |stage| caught("dump", || brolga::dump(&file.program, &request, &options, stage)).map_err(failed);
    match wanted {
        DumpTarget::Stage(stage) => show(&with_newline(dump(stage)?)),
        DumpTarget::Dot => {
            show(&with_newline(caught("dot", || brolga::dot(&file.program, &request, &options)).map_err(failed)?));
        }
        DumpTarget::Diff(a, b) => {
            let (before, after) = (with_newline(dump(a)?), with_newline(dump(b)?));
            let diff = TextDiff::from_lines(&before, &after);
            show(&diff.unified_diff().context_radius(3).header(a.name(), b.name()).to_string());
        }
    }
    Ok(())
}

enum DumpTarget {
    Stage(Stage),
    Diff(Stage, Stage),
    Dot,
}

impl DumpTarget {
    fn parse(args: &DumpArgs) -> Result<Self, Failure> {
        // A stage that is named beside either is checked, and what is drawn or compared has
        // precedence.
        if let Some(name) = &args.stage {
            stage(name)?;
        }
        if args.dot {
            return Ok(Self::Dot);
        }
        if let Some(range) = &args.diff {
            let Some((a, b)) = range.split_once("..") else {
                return Err(Failure::Usage(format!(
                    "`--diff {range}`: expected two stages, such as forward..pullback"
                )));
            };
            return Ok(Self::Diff(stage(a)?, stage(b)?));
        }
        match &args.stage {
            Some(name) => Ok(Self::Stage(stage(name)?)),
            None => Err(Failure::Usage(format!("say what to print: --stage, --diff or --dot; {}", stages()))),
        }
    }
}

fn stage(name: &str) -> Result<Stage, Failure> {
    let found = Stage::ALL.into_iter().find(|s| s.name() == name.trim());
    found.ok_or_else(|| Failure::Usage(format!("`{name}` is not a stage; {}", stages())))
}

fn stages() -> String {
    format!("the stages are {}", Stage::ALL.map(Stage::name).join(", "))
}

pub(crate) fn caught<T>(stage: &'static str, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    panics::catch(work).unwrap_or_else(|message| Err(Error::Internal { stage, message }))
}

fn with_newline(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
