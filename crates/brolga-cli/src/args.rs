//! Command-line arguments that several commands have: the file, how it is read, what is called, and
//! how it is differentiated. Those of one command stand beside what it does.
//!
//! **Question.** Which options are there, and what do they become?
//!
//! **Answer.** A struct for each group, which clap reads; the help is the comments of its fields.
//! Words become values of the library: [`ModuleArgs::options`] says how a module is read,
//! [`BudgetOptions::put`] which loops keep to a budget, and `From` the rest. Sets of tangents are
//! lists by the order in which `--dir` and `--next` are given ([`Directions`]).
//!
//! **Cost.** None beside what clap takes.

use std::path::PathBuf;
use std::time::Duration;

use brolga::{Checkpoints, InverseCheck, Options};
use brolga_driver::text::UndoneFunction;
use brolga_driver::wasm::{Allocators, Imports, ModuleOptions};
use clap::{Args, ValueEnum, ValueHint};

/// The file that a command is about.
#[derive(Args)]
pub struct FileArg {
    /// A CLIF file, reversible functions (.rev), or a WebAssembly module (.wasm, .wat).
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// How it is read, if it is a module.
    #[command(flatten)]
    pub module: ModuleArgs,
    /// Rules for functions that the file calls, a line each: `name: x, y => z: ∂z/∂x, ∂z/∂y`,
    /// `name: inactive`, or `name: tangent function(x, dx)`. They count before bodies of functions.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rules: Option<PathBuf>,
    /// A function of a CLIF file whose calls another one undoes, so that they record nothing, and
    /// what both change: F=G,0:24 where parameter 0 points at 24 bytes, F=G,0:v1 where parameter 1
    /// says at how many, F=G,0:v1*8 where it counts elements of 8 bytes; several behind commas.
    /// With F alone the inverse is derived. May be repeated.
    #[arg(long = "inverse", value_name = "F[=G],N:BYTES", value_parser = inverse)]
    pub inverses: Vec<UndoneFunction>,
}

fn inverse(text: &str) -> Result<UndoneFunction, String> {
    UndoneFunction::parse(text).map_err(|e| e.to_string())
}

fn inverse_check(text: &str) -> Result<InverseCheck, String> {
    match text {
        "off" => Ok(InverseCheck::Off),
        "bits" => Ok(InverseCheck::Bits),
        "record" => Ok(InverseCheck::Record),
        _ => match text.parse::<f64>() {
            Ok(x) if x >= 0.0 && x.is_finite() => Ok(InverseCheck::Within(x.into())),
            _ => Err("write off, bits, record, or how far floats may be from each other, such as 1e-9".to_owned()),
        },
    }
}

/// How a module is read.
#[derive(Args)]
pub struct ModuleArgs {
    /// Functions of a module that allocate, besides those of the usual names: NAME, NAME=free,
    /// NAME=realloc, separated by commas; none for none at all.
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub allocators: Allocators,
    /// What becomes of functions that the module imports and nothing provides: a trap where one is
    /// called, or an error at once.
    #[arg(long, value_name = "WHAT", value_enum, default_value = "trap")]
    pub missing_imports: MissingImports,
    /// What an imported function is, where its name does not say it: MODULE.NAME=FUNCTION, as
    /// a.b=emscripten_memcpy_js or env.cosine=cos, or MODULE.NAME=ignore for one that returns
    /// nothing and need not do anything. May be repeated.
    #[arg(long = "import", value_name = "MODULE.NAME=FUNCTION", value_parser = import)]
    pub imports: Vec<(String, String, String)>,
}

fn import(text: &str) -> Result<(String, String, String), String> {
    let parts = text.rsplit_once('=').and_then(|(import, function)| {
        let (module, name) = import.rsplit_once('.').filter(|(m, n)| !m.is_empty() && !n.is_empty())?;
        Some((module.to_owned(), name.to_owned(), function.to_owned())).filter(|p| !p.2.is_empty())
    });
    parts.ok_or_else(|| "MODULE.NAME=FUNCTION is wanted, as a.b=emscripten_memcpy_js".to_owned())
}

/// `--missing-imports`.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum MissingImports {
    /// The module is not loaded.
    Refuse,
    /// Calling one is a trap.
    #[default]
    Trap,
}

impl ModuleArgs {
    /// The same for who translates it.
    pub fn options(&self) -> ModuleOptions {
        let mut imports = match self.missing_imports {
            MissingImports::Refuse => Imports::new().refuse_missing(),
            MissingImports::Trap => Imports::new(),
        };
        for (module, name, function) in &self.imports {
            imports = match function.as_str() {
                "ignore" => imports.ignore(module, name),
                function => imports.means(module, name, function),
            };
        }
        ModuleOptions { allocators: self.allocators.clone(), imports, ..ModuleOptions::default() }
    }
}

/// How long the programs of a file may take.
#[derive(Args)]
pub struct Limit {
    /// Give up if it takes longer, so that a program that does not end does not hang.
    #[arg(long, value_name = "SECONDS", value_parser = duration)]
    pub time_limit: Option<Duration>,
}

/// A number of seconds, but for zero.
pub fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|e| e.to_string())
        .and_then(|d| if d.is_zero() { Err("nothing is done in no time".to_string()) } else { Ok(d) })
}

/// How to differentiate a call.
#[derive(Args, Default)]
pub struct CallOptions {
    /// What to call, such as '%f(1.5, [1.0, 2.0], 3)'. May be repeated. Clauses of `; grad:` lines
    /// may follow the call.
    #[arg(long = "call", value_name = "CALL")]
    pub calls: Vec<String>,
    /// One activity per argument: const, active or duplicated, separated by commas.
    #[arg(long, value_name = "LIST", requires = "calls")]
    pub activity: Option<String>,
    /// One seed per result, separated by commas; a vector is written [1.0 0.0].
    #[arg(long, value_name = "LIST", requires = "calls", allow_hyphen_values = true)]
    pub seed: Option<String>,
    /// Initial shadow of an argument, counted from 0: 1=[0.5, 0.5]. May be repeated.
    #[arg(long = "shadow", value_name = "N=[LIST]", requires = "calls")]
    pub shadows: Vec<String>,
    /// What the pullback does with memory that the function wrote.
    #[arg(long, value_enum)]
    pub memory: Option<MemoryArg>,
    /// Arguments, counted from 0, whose memory is reached through no other pointer: 0,2. Checked
    /// with --debug.
    #[arg(long, value_name = "LIST", requires = "calls")]
    pub noalias: Option<String>,
    /// Arguments, counted from 0, whose shadows hold nothing before the call, so that gradients may
    /// be stored instead of added: 0,2. Of use for those that are noalias, too. Checked with
    /// --debug.
    #[arg(long, value_name = "LIST", requires = "calls")]
    pub fresh: Option<String>,
    /// Arguments, counted from 0, whose memory is not read after the call (Enzyme's dupnoneed):
    /// 0,2. What is written there without use need not be computed. Of use for those that are
    /// noalias, too, and for stores that cannot fault.
    #[arg(long, value_name = "LIST", requires = "calls")]
    pub no_need: Option<String>,
    /// Loops within a budget of memory.
    #[command(flatten)]
    pub budget: BudgetOptions,
    /// A folder in which a time loop that does not fit its budget may keep states in a file. The
    /// file is gone when the run is over, however it ends.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub checkpoint_dir: Option<PathBuf>,
    /// Most bytes of that file: 10GiB.
    #[arg(long, value_name = "BYTES", requires = "checkpoint_dir", value_parser = bytes)]
    pub checkpoint_limit: Option<usize>,
    /// What is checked of functions that undo others: nothing (off), that all bits are as they were
    /// (bits, the default), or that floats are within a tolerance, such as 1e-9; with record, what
    /// they do not give back is recorded.
    #[arg(long, value_name = "off|bits|record|TOLERANCE", value_parser = inverse_check)]
    pub inverse_check: Option<InverseCheck>,
    /// Threads on which tasks of a program that forks run; with 1, on no other thread. The default
    /// is as many as there are processors. The numbers are the same.
    #[arg(long, value_name = "N", value_parser = threads)]
    pub task_threads: Option<usize>,
    /// Check at run time: bounds and overlaps of shadows, lost shadows, the order of the tape.
    #[arg(long)]
    pub debug: bool,
    /// One function for value and gradient, or a forward pass and a pullback. The numbers are the
    /// same.
    #[arg(long, value_enum, default_value_t = ModeArg::Combined)]
    pub mode: ModeArg,
    /// Replace calls of short functions by their bodies before differentiation. The numbers are the
    /// same, but for roundings.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "small")]
    pub inline: Inline,
    /// Make a gradient that is fast, have one soon, or both, one after the other. The numbers are
    /// the same, but for roundings.
    #[arg(long, value_enum, default_value_t)]
    pub effort: EffortArg,
    /// What becomes of operations on bits of floats that have no known derivative (AD0110 to
    /// AD0112). The default is `refuse` for CLIF, and `trap` for modules, which come with a library
    /// of which a call takes few ways.
    #[arg(long, value_enum)]
    pub untracked: Option<Untracked>,
}

/// A number of threads.
pub fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("tasks run on one thread at least: write 1, or leave it out".to_owned()),
        Ok(n) => Ok(n),
        Err(_) => Err("write a number of threads, such as 2".to_owned()),
    }
}

/// A number of bytes.
fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let shift = match &text[digits..] {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        unit => return Err(format!("`{unit}` is no unit: write 64KiB, 16MiB or 1GiB")),
    };
    let count: usize = text[..digits].parse().map_err(|_| "write a number of bytes, such as 16MiB".to_owned())?;
    count.checked_mul(1 << shift).ok_or_else(|| "that is more than there can be".to_owned())
}

fn checkpoint(text: &str) -> Result<(String, usize), String> {
    let (name, budget) = text.rsplit_once('=').ok_or("write the function and its bytes, such as advance=16MiB")?;
    Ok((name.to_owned(), bytes(budget)?))
}

/// Which loops keep to how much memory.
#[derive(Args, Clone, Default)]
pub struct BudgetOptions {
    /// Most bytes that a loop takes for states, and for what the steps between them record:
    /// 1000000, 64KiB, 16MiB, 1GiB. Outermost loops keep to it, and loops that are marked as time
    /// loops. Without it, these alone do, to 64MiB.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub memory_budget: Option<usize>,
    /// A loop that keeps to so many bytes: the one that calls this function, as in advance=16MiB.
    /// The name is a symbol, or that of the source. May be repeated.
    #[arg(long, value_name = "NAME=BYTES", value_parser = checkpoint)]
    pub checkpoint: Vec<(String, usize)>,
}

impl BudgetOptions {
    /// The same as options of a derivation.
    pub fn put(&self, options: Options) -> Options {
        let checkpoints = Checkpoints { outermost: self.memory_budget.is_some(), around: self.checkpoint.clone() };
        Options { memory_budget: self.memory_budget.unwrap_or(options.memory_budget), checkpoints, ..options }
    }
}

/// How to differentiate a call in forward mode.
#[derive(Args)]
pub struct ForwardOptions {
    /// What to call, such as '%f(1.5, [1.0, 2.0], 3)'. May be repeated. Without one, the file's `;
    /// grad:` lines.
    #[arg(long = "call", value_name = "CALL")]
    pub calls: Vec<String>,
    /// One activity per argument: const, active or duplicated, separated by commas.
    #[arg(long, value_name = "LIST", requires = "calls")]
    pub activity: Option<String>,
    /// Arguments, counted from 0, whose memory is reached through no other pointer: 0,2. Checked
    /// with --debug.
    #[arg(long, value_name = "LIST", requires = "calls")]
    pub noalias: Option<String>,
    /// Arguments, counted from 0, whose memory is not read after the call: 0,2.
    #[arg(long, value_name = "LIST", requires = "calls")]
    pub no_need: Option<String>,
    /// Threads on which tasks of a program that forks run; with 1, on no other thread. The default
    /// is as many as there are processors. The numbers are the same.
    #[arg(long, value_name = "N", value_parser = threads)]
    pub task_threads: Option<usize>,
    /// Check at run time: bounds and overlaps of shadows, lost shadows.
    #[arg(long)]
    pub debug: bool,
    /// Replace calls of short functions by their bodies before differentiation.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "small")]
    pub inline: Inline,
    /// Make a derivative that is fast, have one soon, or both, one after the other.
    #[arg(long, value_enum, default_value_t)]
    pub effort: EffortArg,
    /// What becomes of operations on bits of floats that have no known derivative. The default is
    /// `refuse` for CLIF, and `trap` for modules.
    #[arg(long, value_enum)]
    pub untracked: Option<Untracked>,
}

impl From<&ForwardOptions> for CallOptions {
    fn from(o: &ForwardOptions) -> Self {
        Self {
            calls: o.calls.clone(),
            activity: o.activity.clone(),
            noalias: o.noalias.clone(),
            no_need: o.no_need.clone(),
            task_threads: o.task_threads,
            debug: o.debug,
            inline: o.inline,
            effort: o.effort,
            untracked: o.untracked,
            ..Self::default()
        }
    }
}

/// Sets of tangents, as `--dir` and `--next` give them.
#[derive(Default)]
pub struct Directions {
    /// Each a list of `N=VALUE` or `N=[LIST]`.
    pub sets: Vec<Vec<String>>,
}

impl Args for Directions {
    fn augment_args(command: clap::Command) -> clap::Command {
        let dir = clap::Arg::new("dir").long("dir").value_name("N=VALUE").action(clap::ArgAction::Append);
        let dir = dir.required(true).allow_hyphen_values(true).help(
            "Tangent of an argument, counted from 0: 0=1.5, or 1=[1.0, 0.0] of a buffer. May be repeated; \
             missing ones are zero",
        );
        let next = clap::Arg::new("next").long("next").num_args(0).default_missing_value("true");
        let next = next.action(clap::ArgAction::Append).value_parser(clap::value_parser!(bool));
        command.arg(dir).arg(next.help("Begin another set of tangents. All sets are a batch"))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Directions {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let mut sets = vec![Vec::new()];
        let indices = |id: &str| matches.indices_of(id).into_iter().flatten().collect::<Vec<usize>>();
        let given = matches.get_many::<String>("dir").into_iter().flatten();
        let mut next = indices("next").into_iter().peekable();
        for (at, text) in indices("dir").into_iter().zip(given) {
            while next.next_if(|n| *n < at).is_some() {
                sets.push(Vec::new());
            }
            sets.last_mut().expect("there is one").push(text.clone());
        }
        sets.extend(next.map(|_| Vec::new()));
        Ok(Self { sets })
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// How to differentiate a call twice.
#[derive(Args)]
pub struct SecondOptions {
    /// As in forward mode.
    #[command(flatten)]
    pub forward: ForwardOptions,
    /// One seed per result, separated by commas; a vector is written [1.0 0.0]. Needed where
    /// several results are active: the Hessian is that of their sum with these weights.
    #[arg(long, value_name = "LIST", requires = "calls", allow_hyphen_values = true)]
    pub seed: Option<String>,
    /// Initial shadow of an argument, counted from 0: 1=[0.5, 0.5]: weights of what the function
    /// leaves in its buffer. May be repeated.
    #[arg(long = "shadow", value_name = "N=[LIST]", requires = "calls")]
    pub shadows: Vec<String>,
}

/// What the pullback does with memory that the function wrote.
#[derive(Clone, Copy, ValueEnum)]
pub enum MemoryArg {
    /// Leave it as the function left it.
    Leave,
    /// Restore what was there before the call.
    Restore,
}

/// What a derivative is made of.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum ModeArg {
    /// One function that computes value and gradient.
    #[default]
    Combined,
    /// A forward pass, and a pullback that runs afterwards.
    Split,
}

/// How much is done to make derived code fast.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum EffortArg {
    /// Little: it takes about half the time to have it, and longer to run it.
    Quick,
    /// All that pays in the long run.
    Full,
    /// Little at first, and all when calls have taken as long as that takes. Dumps and explanations
    /// are of the latter.
    #[default]
    Tiered,
}

/// Which calls are replaced.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Inline {
    /// Those of a few instructions, unless gradients are wanted soon.
    #[default]
    Auto,
    /// None.
    Never,
    /// Those of short functions.
    Small,
}

impl From<Inline> for brolga::Inline {
    fn from(inline: Inline) -> Self {
        match inline {
            Inline::Auto => Self::Auto,
            Inline::Never => Self::Never,
            Inline::Small => Self::SMALL,
        }
    }
}

/// What becomes of operations on bits of active floats that have no known derivative.
#[derive(Clone, Copy, ValueEnum)]
pub enum Untracked {
    /// The function is refused, with all places where there is one.
    Refuse,
    /// The pullback traps if a cotangent arrives at one: for code whose ways with such operations
    /// are not taken.
    Trap,
}

impl MemoryArg {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Leave => "leave",
            Self::Restore => "restore",
        }
    }
}

impl From<ModeArg> for brolga::Mode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Combined => Self::Combined,
            ModeArg::Split => Self::Split,
        }
    }
}

impl From<EffortArg> for brolga::Effort {
    fn from(effort: EffortArg) -> Self {
        match effort {
            EffortArg::Quick => Self::Quick,
            EffortArg::Full => Self::Full,
            EffortArg::Tiered => Self::default(),
        }
    }
}

impl From<MemoryArg> for brolga::MemoryMode {
    fn from(memory: MemoryArg) -> Self {
        match memory {
            MemoryArg::Leave => Self::Leave,
            MemoryArg::Restore => Self::Restore,
        }
    }
}
