//! The command line, as clap sees it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use brolga::{Pass, PassSet};
use brolga_driver::wasm::{Allocators, Imports, ModuleOptions};
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Brolga: derivatives of CLIF functions.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
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
    /// Run all tests, or the file tests whose name contains FILTER: cases, and lines about modules.
    Test {
        /// Part of a test's name.
        filter: Option<String>,
        /// Try less where tests could go on for ever (random programs, corpora, repetitions), and
        /// leave out those of the documentation: two minutes at most on two cores, when all is
        /// compiled.
        #[arg(long)]
        quick: bool,
    },
    /// Rewrite blessed dumps, then show what changed.
    Bless {
        /// Part of a test's name.
        filter: Option<String>,
    },
    /// Measure what gradients cost: all problems of `benches`, those whose name contains FILTER, or
    /// calls of a file.
    Bench(BenchArgs),
    /// Break rules on purpose, one mistake at a time, and list the mistakes that no test notices.
    Mutants {
        /// Only this row of the rule tables, such as fmul or atan2.
        #[arg(long, value_name = "NAME", conflicts_with = "case")]
        row: Option<String>,
        /// Only emitted functions, of the files whose name contains this, such as memory/loads; a
        /// selection otherwise.
        #[arg(long, value_name = "FILTER")]
        case: Option<String>,
        /// Most mistakes in one derivative.
        #[arg(long, value_name = "N", default_value_t = 30, requires = "case")]
        most: usize,
    },
    /// Search for inputs that break a promise: clif_text, call_syntax, activities, program, second
    /// or bits.
    Fuzz {
        /// What to search.
        target: String,
        /// For how long.
        #[arg(long, value_name = "N", default_value_t = 5)]
        minutes: u64,
        /// Which random programs; others in every run if it is not given. Only for `program`,
        /// `second` and `bits`.
        #[arg(long, value_name = "N")]
        seed: Option<u32>,
    },
    /// Compare the dumps of all cases between two processes.
    Determinism,
    /// Everything that must hold before a merge: format, lints, tests, documentation, tidiness,
    /// determinism.
    Ci,
    /// Check the rules that no compiler knows: file headers, file sizes, forbidden leftovers.
    Tidy,
}

impl Command {
    /// The file that the command is about.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Grad(a) => Some(&a.input.file),
            Self::Jvp(a) => Some(&a.input.file),
            Self::Jacobian(a) => Some(&a.input.file),
            Self::Hvp(a) => Some(&a.input.file),
            Self::Hessian(a) => Some(&a.input.file),
            Self::Run(a) => Some(&a.input.file),
            Self::Check(a) => Some(&a.input.file),
            Self::Explain(a) => Some(&a.input.file),
            Self::Dump(a) => Some(&a.input.file),
            Self::Bench(a) => a.file(),
            _ => None,
        }
    }

    /// How long it may take.
    pub fn time_limit(&self) -> Option<Duration> {
        match self {
            Self::Grad(a) => a.limit.time_limit,
            Self::Jvp(a) => a.limit.time_limit,
            Self::Jacobian(a) => a.limit.time_limit,
            Self::Hvp(a) => a.limit.time_limit,
            Self::Hessian(a) => a.limit.time_limit,
            Self::Run(a) => a.limit.time_limit,
            Self::Check(a) => a.limit.time_limit,
            Self::Explain(a) => a.limit.time_limit,
            _ => None,
        }
    }
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
    pub memory: Option<Memory>,
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
    /// Check at run time: bounds and overlaps of shadows, lost shadows, the order of the tape.
    #[arg(long)]
    pub debug: bool,
    /// One function for value and gradient, or a forward pass and a pullback. The numbers are the
    /// same.
    #[arg(long, value_enum, default_value_t = Mode::Combined)]
    pub mode: Mode,
    /// Replace calls of short functions by their bodies before differentiation. The numbers are the
    /// same, but for roundings.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "small")]
    pub inline: Inline,
    /// Make a gradient that is fast, have one soon, or both, one after the other. The numbers are
    /// the same, but for roundings.
    #[arg(long, value_enum, default_value_t)]
    pub effort: Effort,
    /// What becomes of operations on bits of floats that have no known derivative (AD0110 to
    /// AD0112). The default is `refuse` for CLIF, and `trap` for modules, which come with a library
    /// of which a call takes few ways.
    #[arg(long, value_enum)]
    pub untracked: Option<Untracked>,
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

/// How much is done to make derived code fast.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum Effort {
    /// Little: it takes about half the time to have it, and longer to run it.
    Quick,
    /// All that pays in the long run.
    Full,
    /// Little at first, and all when calls have taken as long as that takes. Dumps and explanations
    /// are of the latter.
    #[default]
    Tiered,
}

/// What a derivative is made of.
#[derive(Clone, Copy, Default, ValueEnum)]
pub enum Mode {
    /// One function that computes value and gradient.
    #[default]
    Combined,
    /// A forward pass, and a pullback that runs afterwards.
    Split,
}

/// What the pullback does with memory that the function wrote.
#[derive(Clone, Copy, ValueEnum)]
pub enum Memory {
    /// Leave it as the function left it.
    Leave,
    /// Restore what was there before the call.
    Restore,
}

/// The file that a command is about.
#[derive(Args)]
pub struct Input {
    /// A CLIF file, or a WebAssembly module (.wasm, .wat).
    pub file: PathBuf,
    /// How it is read, if it is a module.
    #[command(flatten)]
    pub module: ModuleArgs,
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
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time_limit: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|e| e.to_string())
        .and_then(|d| if d.is_zero() { Err("nothing is done in no time".to_string()) } else { Ok(d) })
}

/// `grad`.
#[derive(Args)]
pub struct GradArgs {
    /// The file.
    #[command(flatten)]
    pub input: Input,
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
    /// Check at run time: bounds and overlaps of shadows, lost shadows.
    #[arg(long)]
    pub debug: bool,
    /// Replace calls of short functions by their bodies before differentiation.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "small")]
    pub inline: Inline,
    /// Make a derivative that is fast, have one soon, or both, one after the other.
    #[arg(long, value_enum, default_value_t)]
    pub effort: Effort,
    /// What becomes of operations on bits of floats that have no known derivative. The default is
    /// `refuse` for CLIF, and `trap` for modules.
    #[arg(long, value_enum)]
    pub untracked: Option<Untracked>,
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

/// `jvp`.
#[derive(Args)]
pub struct JvpArgs {
    /// The file.
    #[command(flatten)]
    pub input: Input,
    /// When to stop waiting.
    #[command(flatten)]
    pub limit: Limit,
    /// The calls.
    #[command(flatten)]
    pub call: ForwardOptions,
    /// Along what.
    #[command(flatten)]
    pub directions: Directions,
    /// Print one JSON object per call.
    #[arg(long)]
    pub json: bool,
}

/// `jacobian`.
#[derive(Args)]
pub struct JacobianArgs {
    /// The file.
    #[command(flatten)]
    pub input: Input,
    /// When to stop waiting.
    #[command(flatten)]
    pub limit: Limit,
    /// The calls.
    #[command(flatten)]
    pub call: ForwardOptions,
    /// Arguments, counted from 0, whose buffers are outputs, too, as the function leaves them: 1,3.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub outputs: Vec<usize>,
    /// Forward mode, one run for each input, or one forward pass with a pullback for each output.
    /// The default is forward mode where there are fewer inputs than outputs. The numbers are the
    /// same, but for roundings.
    #[arg(long, value_enum)]
    pub way: Option<Sweep>,
    /// Find out first which entries are zero in any case, by the tape oracle, and ask for those
    /// that share no row, or no column, in one run. The numbers are the same, but for roundings.
    #[arg(long)]
    pub sparse: bool,
    /// Print one JSON object per call.
    #[arg(long)]
    pub json: bool,
}

/// How a Jacobian is computed.
#[derive(Clone, Copy, ValueEnum)]
pub enum Sweep {
    /// A run of forward mode for each input.
    Forward,
    /// A pullback for each output.
    Reverse,
}

impl From<Sweep> for brolga::drivers::Sweep {
    fn from(way: Sweep) -> Self {
        match way {
            Sweep::Forward => Self::Forward,
            Sweep::Reverse => Self::Reverse,
        }
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

/// `hvp`.
#[derive(Args)]
pub struct HvpArgs {
    /// The file.
    #[command(flatten)]
    pub input: Input,
    /// When to stop waiting.
    #[command(flatten)]
    pub limit: Limit,
    /// The calls.
    #[command(flatten)]
    pub call: SecondOptions,
    /// Along what.
    #[command(flatten)]
    pub directions: Directions,
    /// Print one JSON object per call.
    #[arg(long)]
    pub json: bool,
}

/// `hessian`.
#[derive(Args)]
pub struct HessianArgs {
    /// The file.
    #[command(flatten)]
    pub input: Input,
    /// When to stop waiting.
    #[command(flatten)]
    pub limit: Limit,
    /// The calls.
    #[command(flatten)]
    pub call: SecondOptions,
    /// Find out first which entries are zero in any case, by the tape oracle, and ask for several
    /// columns in one run. The numbers are the same, but for roundings.
    #[arg(long)]
    pub sparse: bool,
    /// Print one JSON object per call.
    #[arg(long)]
    pub json: bool,
}

/// `run`.
#[derive(Args)]
pub struct RunArgs {
    /// The file.
    #[command(flatten)]
    pub input: Input,
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

/// `check`.
#[derive(Args)]
pub struct CheckArgs {
    /// The file.
    #[command(flatten)]
    pub input: Input,
    /// When to stop waiting.
    #[command(flatten)]
    pub limit: Limit,
    /// The calls.
    #[command(flatten)]
    pub call: CallOptions,
    /// Print every input element, not only the first hundred of a call.
    #[arg(long)]
    pub all: bool,
    /// 2 to check second derivatives: the product of the Hessian with a random direction, by
    /// differences of gradients and by the oracle of the function itself, and its symmetry.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub order: u8,
}

/// `explain`.
#[derive(Args)]
pub struct ExplainArgs {
    /// The file.
    #[command(flatten)]
    pub input: Input,
    /// When to stop waiting.
    #[command(flatten)]
    pub limit: Limit,
    /// The calls.
    #[command(flatten)]
    pub call: CallOptions,
    /// Only the gradient of this argument (1) or element (`1[3]`), counted from 0.
    #[arg(long, value_name = "N[i]")]
    pub wrt: Option<String>,
    /// Most instructions to list by contribution.
    #[arg(long, value_name = "K", default_value_t = 8)]
    pub top: usize,
    /// Also say whether the function can be derived in forward mode, and twice, and if not, why.
    #[arg(long)]
    pub modes: bool,
    /// Print one JSON object per call.
    #[arg(long)]
    pub json: bool,
}

/// `bench`.
#[derive(Args)]
pub struct BenchArgs {
    /// Part of a problem's name, such as lstm or wasm/; or a file (.clif, .wasm, .wat) whose calls
    /// are measured.
    pub filter: Option<String>,
    /// How it is read, if it is a module.
    #[command(flatten)]
    pub module: ModuleArgs,
    /// What to call in the file; the calls that it lists if not given. May be repeated.
    #[arg(long = "call", value_name = "CALL", requires = "filter", conflicts_with_all = ["peers", "scaling"])]
    pub calls: Vec<String>,
    /// Print a JSON array.
    #[arg(long)]
    pub json: bool,
    /// What is derived: the gradient alone, value and gradient in one function, or a forward pass
    /// and a pullback.
    #[arg(long, value_enum, default_value_t = BenchMode::Gradient)]
    pub mode: BenchMode,
    /// Ideas of the planner's that are turned off.
    #[arg(long, value_name = "LIST", help = without())]
    pub without: Option<PassSet>,
    /// Replace calls of short functions by their bodies before differentiation.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "small")]
    pub inline: Inline,
    /// Make gradients that are fast, or that are there soon; if tiered, as they are in the end, and
    /// with --latency as they are at first. The primal of a problem is made to be fast in any case.
    /// Full if not given, and tiered with --latency.
    #[arg(long, value_enum)]
    pub effort: Option<Effort>,
    /// Measure gcc, Enzyme and JAX beside us, as far as python3 ($PYTHON) finds them.
    #[arg(long, conflicts_with_all = ["scaling", "disasm"])]
    pub peers: bool,
    /// Measure a loop, a nest of loops, a straight line and branches at growing lengths instead.
    #[arg(long, conflicts_with_all = ["filter", "json", "disasm"])]
    pub scaling: bool,
    /// Measure what it takes to get ready instead: to differentiate and to compile, beside what
    /// Cranelift takes for the primal, and all from the text to the first gradient; with --scaling,
    /// of code of up to 100 000 instructions, with branches and without.
    #[arg(long, conflicts_with_all = ["calls", "peers", "disasm"])]
    pub latency: bool,
    /// Most threads that verify and compile: one does all of it in the calling one, zero stands for
    /// as many as there are processors.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,
    /// Measure what each pass is worth instead: gradients with all of them beside gradients without
    /// one.
    #[arg(long, conflicts_with_all = ["calls", "peers", "scaling", "latency", "disasm"])]
    pub passes: bool,
    /// Measure what the constants of the cost model stand for instead, and print both.
    #[arg(long, conflicts_with_all = ["filter", "calls", "peers", "scaling", "latency", "passes", "disasm", "json"])]
    pub costs: bool,
    /// Measure forward mode instead: value and one tangent beside the primal.
    #[arg(long, conflicts_with_all = ["calls", "peers", "scaling", "latency", "passes", "costs", "disasm", "json", "write"])]
    pub tangents: bool,
    /// Print machine code instead, with the number of instructions in each block: primal,
    /// derivative, adjoint by hand.
    #[arg(long, requires = "filter", conflicts_with = "json")]
    pub disasm: bool,
    /// Write what is measured to benches/results.json, and the tables of docs/PERFORMANCE.md anew:
    /// problems and programs, or what --peers, --passes or --latency (with --effort full, too)
    /// measure.
    #[arg(long, conflicts_with_all = ["filter", "mode", "without", "inline", "scaling", "costs", "disasm", "json"])]
    pub write: bool,
}

/// The help of `--without`.
fn without() -> String {
    let names = Pass::ALL.iter().map(|p| p.name()).collect::<Vec<_>>().join(", ");
    format!("Leave passes out, to see what they are worth. Names, separated by commas: {names}")
}

impl BenchArgs {
    /// The file that the filter is.
    pub fn file(&self) -> Option<&Path> {
        let path = Path::new(self.filter.as_deref()?);
        let known = path.extension().is_some_and(|e| e == "clif" || e == "wasm" || e == "wat");
        known.then_some(path)
    }
}

/// What `bench` derives.
#[derive(Clone, Copy, ValueEnum)]
pub enum BenchMode {
    /// One function that computes the gradient, as the adjoints written by hand do.
    Gradient,
    /// One function that computes value and gradient.
    Combined,
    /// A forward pass, and a pullback that runs afterwards.
    Split,
}

/// `dump`.
#[derive(Args)]
pub struct DumpArgs {
    /// The file.
    #[command(flatten)]
    pub input: Input,
    /// The function. Not needed if the file defines only one.
    #[arg(long, short, value_name = "NAME")]
    pub func: Option<String>,
    /// normalised, cfg, stmts, forward, pullback, clif-forward, clif-pullback, combined,
    /// clif-combined, tangent or clif-tangent.
    #[arg(long, short, value_name = "STAGE")]
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
    pub memory: Option<Memory>,
    /// Replace calls of short functions by their bodies before differentiation.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "small")]
    pub inline: Inline,
    /// Dump the pipeline as it is for a gradient that is fast, or for one that is there soon.
    #[arg(long, value_enum, default_value_t)]
    pub effort: Effort,
    /// What becomes of operations on bits of floats that have no known derivative. The default is
    /// `refuse` for CLIF, and `trap` for modules.
    #[arg(long, value_enum)]
    pub untracked: Option<Untracked>,
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
