//! The command line, as clap sees it: the commands of `brolga` about files, and chores.

use std::path::Path;

use brolga::{Pass, PassSet};
use brolga_cli::args::{EffortArg, Inline, ModuleArgs};
use brolga_cli::cli::FileCommand;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// The commands of `brolga` about files, and the chores of the project.
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
    /// What users have, too.
    #[command(flatten)]
    OnFile(Box<FileCommand>),
    /// Run all tests, or the file tests whose name contains FILTER: cases, and lines about modules.
    Test {
        /// Part of a test's name.
        filter: Option<String>,
        /// Try less where tests could go on for ever (random programs, corpora, repetitions), and
        /// leave out those of the documentation: about two minutes on two cores, when all is
        /// compiled.
        #[arg(long)]
        quick: bool,
        /// Ask all promises of each case, each search about every call; without it they take turns.
        #[arg(long, conflicts_with = "quick")]
        full: bool,
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
    /// Test adapters to other crates, with all features: a workspace of its own, of two hundred
    /// crates. Six minutes on two cores if nothing is compiled, then one.
    Adapters,
    /// Run the tests of DiffSL, a compiler of differential equations on Cranelift, with its module
    /// wrapped: those of reverse mode, which run under LLVM and Enzyme otherwise, and of what the
    /// gradient of a large model costs. Cargo fetches it. Ten minutes on two cores if nothing is
    /// compiled, then two.
    Diffsl,
    /// Derive every function of the cases a second time, and count what is refused, by code:
    /// about four in a hundred.
    Census,
    /// Compare the dumps of all cases between two processes.
    Determinism,
    /// Everything that must hold before a merge: format, lints, tests, documentation, tidiness,
    /// determinism.
    Ci,
    /// Check the rules that no compiler knows: file headers, file sizes, forbidden leftovers.
    Tidy,
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
    pub effort: Option<EffortArg>,
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
    /// Measure second derivatives instead: a Hessian-vector product beside the gradient, and whole
    /// Hessians of the embedding of a graph in two to ten dimensions.
    #[arg(long, conflicts_with_all = ["calls", "peers", "scaling", "latency", "passes", "costs", "disasm", "json", "write", "tangents"])]
    pub second: bool,
    /// Measure time loops instead: a step of a long simulation within a budget of bytes beside a
    /// step of a short one that is derived as a loop. The longest takes minutes.
    #[arg(long, conflicts_with_all = ["calls", "peers", "scaling", "latency", "passes", "costs", "disasm", "json", "write", "tangents", "second"])]
    pub loops: bool,
    /// Measure programs that fork instead: their gradients on one thread and on two beside those of
    /// the same programs without forks.
    #[arg(long, conflicts_with_all = ["calls", "peers", "scaling", "latency", "passes", "costs", "disasm", "json", "write", "tangents", "second", "loops"])]
    pub forks: bool,
    /// Measure reversible functions instead: calls, what undoes them, and gradients, beside the
    /// same functions by tape; and steps of loops that run backwards.
    #[arg(long, conflicts_with_all = ["calls", "peers", "scaling", "latency", "passes", "costs", "disasm", "json", "write", "tangents", "second", "loops", "forks"])]
    pub reversible: bool,
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
        let known = path.extension().is_some_and(|e| ["clif", "rev", "wasm", "wat"].iter().any(|k| e == *k));
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
