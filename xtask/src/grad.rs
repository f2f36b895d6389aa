//! `cargo xtask grad`: values and gradients of calls.

use brolga::{Effort, Error, Inline, MemoryMode, Mode, Options, Untracked};
use brolga_driver::text::GradLine;
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::{Clauses, Directive, File, Invocation, Outcome, compare, output, quiet, run};

use crate::cli::{CallOptions, GradArgs, Input, Memory, RunArgs};
use crate::failure::Failure;
use crate::report::{complain, show};
use crate::rules::Rules;

/// A call that is ready to run, with what must come out if anything is said about that.
pub struct Job<'a> {
    /// The call as written.
    pub text: String,
    /// Its arguments.
    pub call: Invocation,
    /// Its clauses.
    pub clauses: Clauses,
    /// Whether derived code checks itself.
    pub debug: bool,
    /// Whether it is one function or two.
    pub mode: Mode,
    /// Which calls are replaced.
    pub inline: Inline,
    /// Whether the derivative is to be fast, or to be there soon.
    pub effort: Effort,
    /// Whether problems with bits of floats are left to the run.
    pub untracked: Untracked,
    /// The directive that it comes from.
    pub line: Option<&'a GradLine>,
}

/// Run the command.
pub fn run(args: &GradArgs) -> Result<(), Failure> {
    let result = run_all(args);
    if args.json
        && let Err(failure) = &result
    {
        show(&format!("{}\n", failure_json(failure)));
    }
    result
}

fn run_all(args: &GradArgs) -> Result<(), Failure> {
    let file = read(&args.input, &args.call.calls)?;
    let jobs = jobs(&file, &args.call)?;
    let rules = Rules::new(&file);
    let mut wrong = 0;
    for job in &jobs {
        let outcome = outcome_of(&rules, job)?;
        if args.json {
            show(&format!("{}\n", output::json(&job.call, &outcome)));
        } else {
            show(&output::text(&job.text, &job.call, &outcome));
        }
        wrong += usize::from(!meets_expectation(&file, job, &outcome, args.json));
    }
    match wrong {
        0 => Ok(()),
        n => Err(Failure::Mismatch(format!("{n} of {} calls did not give what their line expects", jobs.len()))),
    }
}

/// Read a file for some calls; without any, for all that it has.
pub fn read(input: &Input, calls: &[String]) -> Result<File, Failure> {
    let named = |call: &String| Some(call_with_clauses(call).ok()?.0.func.node);
    // What cannot be read is reported when it is bound.
    let wanted: Option<Vec<String>> = calls.iter().map(named).collect();
    Ok(File::read_for(&input.file, &input.module.options(), &wanted.unwrap_or_default())?)
}

/// `cargo xtask run`: the same calls, without derivatives.
pub fn run_primals(args: &RunArgs) -> Result<(), Failure> {
    let all = || -> Result<(), Failure> {
        let file = read(&args.input, &args.calls)?;
        let options = CallOptions { calls: args.calls.clone(), ..CallOptions::default() };
        for job in jobs(&file, &options)? {
            let outcome = quiet::catch(|| run::primal(&file.program, &job.call))
                .unwrap_or_else(|message| Err(Error::Internal { stage: "run", message }))
                .map_err(|e| Failure::Run(job.name(), e))?;
            show(&match args.json {
                true => format!("{}\n", output::primal_json(&job.call, &outcome)),
                false => output::primal_text(&job.text, &outcome),
            });
        }
        Ok(())
    };
    let result = all();
    if args.json
        && let Err(failure) = &result
    {
        show(&format!("{}\n", failure_json(failure)));
    }
    result
}

/// Differentiate the function of a call and run it.
pub fn outcome_of(rules: &Rules<'_>, job: &Job<'_>) -> Result<Outcome, Failure> {
    let rule = rules.get(&job.call.request(), &job.options());
    rule.and_then(|rule| run::gradient(&rule, &job.call)).map_err(|e| Failure::Run(job.name(), e))
}

/// Compare with what the line expects, and say so.
fn meets_expectation(file: &File, job: &Job<'_>, outcome: &Outcome, quiet: bool) -> bool {
    let Some(line) = job.line else { return true };
    let tol = compare::tolerance(&file.program, &job.call, &job.clauses);
    let wrong = compare::differences(outcome, &line.expected, &job.clauses, tol);
    for difference in &wrong {
        complain(&format!("line {}: %{}: {difference}", line.line, job.call.symbol));
    }
    if wrong.is_empty() && !quiet {
        show(&format!("  as line {} expects\n", line.line));
    }
    wrong.is_empty()
}

impl Job<'_> {
    /// How it is derived.
    pub fn options(&self) -> Options {
        let Job { mode, inline, effort, untracked, debug, .. } = *self;
        Options { mode, inline, effort, untracked, debug, memory: self.call.memory, ..Options::default() }
    }

    /// How to speak of it in an error.
    pub fn name(&self) -> String {
        match self.line {
            Some(line) => format!("%{} (line {})", self.call.symbol, line.line),
            None => format!("%{}", self.call.symbol),
        }
    }
}

/// The calls of the command line, or else those of the file.
pub fn jobs<'a>(file: &'a File, options: &CallOptions) -> Result<Vec<Job<'a>>, Failure> {
    let mut jobs = Vec::new();
    let (debug, mode, inline) = (options.debug, options.mode.into(), options.inline.into());
    let (effort, untracked) = (options.effort.into(), untracked(file, options.untracked));
    for call in &options.calls {
        let text = with_flags(call, options);
        let (parsed, clauses) = call_with_clauses(&text)?;
        let bound = file.bind(&text, &parsed, &clauses)?;
        jobs.push(Job { text, call: bound, clauses, debug, mode, inline, effort, untracked, line: None });
    }
    if options.calls.is_empty() {
        if !file.malformed.is_empty() {
            return Err(file.malformed.clone().into());
        }
        for directive in &file.directives {
            let Directive::Grad(line) = directive else { continue };
            let mut call = file
                .bind(&line.text, &line.call, &line.clauses)
                .map_err(|e| Failure::Problems(e.diagnostic("AD0008", Some(line.line)).into()))?;
            if let Some(memory) = options.memory {
                call.memory = memory.into();
            }
            let text = line.text.split("==").next().unwrap_or(&line.text).trim().to_owned();
            let clauses = line.clauses.clone();
            jobs.push(Job { text, call, clauses, debug, mode, inline, effort, untracked, line: Some(line) });
        }
    }
    if jobs.is_empty() {
        let symbols = file.symbols().join(", ");
        return Err(Failure::Usage(format!(
            "the file has no `; grad:` line, so say what to call: --call '…'; it defines {symbols}"
        )));
    }
    Ok(jobs)
}

/// A call with the clauses that the flags stand for, so that one parser reads both.
fn with_flags(call: &str, options: &CallOptions) -> String {
    let mut text = call.trim().to_owned();
    if let Some(activity) = &options.activity {
        text += &format!(" activity {activity}");
    }
    if let Some(seed) = &options.seed {
        text += &format!(" seed {seed}");
    }
    if let Some(noalias) = &options.noalias {
        text += &format!(" noalias {noalias}");
    }
    if let Some(fresh) = &options.fresh {
        text += &format!(" fresh {fresh}");
    }
    if let Some(no_need) = &options.no_need {
        text += &format!(" noneed {no_need}");
    }
    for shadow in &options.shadows {
        text += &format!(" shadow {shadow}");
    }
    if let Some(memory) = options.memory {
        text += &format!(" memory {}", memory.word());
    }
    text
}

impl Memory {
    fn word(self) -> &'static str {
        match self {
            Self::Leave => "leave",
            Self::Restore => "restore",
        }
    }
}

impl From<crate::cli::Mode> for Mode {
    fn from(mode: crate::cli::Mode) -> Self {
        match mode {
            crate::cli::Mode::Combined => Self::Combined,
            crate::cli::Mode::Split => Self::Split,
        }
    }
}

impl From<crate::cli::Effort> for Effort {
    fn from(effort: crate::cli::Effort) -> Self {
        match effort {
            crate::cli::Effort::Quick => Self::Quick,
            crate::cli::Effort::Full => Self::Full,
            crate::cli::Effort::Tiered => Self::default(),
        }
    }
}

/// What becomes of operations on bits, as was asked for, or as is best for a file.
pub fn untracked(file: &File, asked: Option<crate::cli::Untracked>) -> Untracked {
    match asked {
        Some(crate::cli::Untracked::Refuse) => Untracked::Refuse,
        Some(crate::cli::Untracked::Trap) => Untracked::Trap,
        None => file.options().untracked,
    }
}

impl From<Memory> for MemoryMode {
    fn from(memory: Memory) -> Self {
        match memory {
            Memory::Leave => Self::Leave,
            Memory::Restore => Self::Restore,
        }
    }
}

/// A failure as JSON.
pub fn failure_json(failure: &Failure) -> serde_json::Value {
    match failure {
        Failure::Usage(message) => output::message_json("usage", message),
        Failure::Problems(problems) => output::diagnostics_json(problems),
        Failure::Run(_, error) => output::error_json(error),
        Failure::Mismatch(message) => output::message_json("mismatch", message),
        Failure::Oracle(message) => output::message_json("oracle", message),
        Failure::Chore(message) => output::message_json("internal", message),
        Failure::Told(status) => output::message_json("internal", &format!("a program ended with status {status}")),
    }
}
