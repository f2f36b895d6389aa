//! Jobs: the calls of a command line, or those that a file lists, read and bound to the file.
//!
//! **Question.** What does a command run, and how is it derived?
//!
//! **Answer.** [`read`] reads the file for the calls that are given, with inverses and rules of the
//! user; [`jobs`] makes a [`Job`] of each call of the command line, or else of each `; grad:` line.
//! The flags of a command line become clauses of the call, so that one parser reads both.
//! [`outcome_of`] derives and runs one; in a debug run it asks first whether steps of time loops
//! keep to their states.
//!
//! **Cost.** One reading of the file. Each call is bound, with a copy of its buffers, before the
//! first one runs.

use brolga::{Error, Options, Program, Trap, Untracked};
use brolga_driver::check::stray;
use brolga_driver::text::GradLine;
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::{Clauses, Directive, File, Invocation, Outcome, run};
use brolga_oracle::StrayStore;

use crate::args::{self, CallOptions, FileArg};
use crate::failure::Failure;
use crate::rules::Rules;

/// A call that is ready to run, with what must come out if anything is said about that.
pub struct Job<'a> {
    /// The call as written.
    pub text: String,
    /// Its arguments.
    pub call: Invocation,
    /// Its clauses.
    pub clauses: Clauses,
    /// How it is derived, but for what the call says itself.
    pub options: Options,
    /// The directive that it comes from.
    pub line: Option<&'a GradLine>,
}

/// Read a file for some calls; without any, for all that it has.
pub fn read(input: &FileArg, calls: &[String]) -> Result<File, Failure> {
    let named = |call: &String| Some(call_with_clauses(call).ok()?.0.func.node);
    // What cannot be read is reported when it is bound.
    let wanted: Option<Vec<String>> = calls.iter().map(named).collect();
    read_for(input, &wanted.unwrap_or_default(), false)
}

/// Read a file for these functions, and its rules. With `imports`, functions that it does not
/// define may have adjoints: another program links them.
pub fn read_for(input: &FileArg, funcs: &[String], imports: bool) -> Result<File, Failure> {
    let undo = input.inverses.iter().filter_map(|i| i.inverse.clone()).filter(|_| !funcs.is_empty());
    let wanted: Vec<String> = funcs.iter().cloned().chain(undo).collect();
    let mut file = File::read_for(&input.file, &input.module.options(), &wanted)?;
    for undone in &input.inverses {
        file.undo(undone)?;
    }
    if let Some(path) = &input.rules {
        let at = |line: usize, message: String| Failure::Usage(format!("{}:{line}: {message}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| Failure::Usage(format!("{}: {e}", path.display())))?;
        let rules = brolga::parse_rules(&text).map_err(|(line, e)| at(line, e.to_string()))?;
        let place_of = |name: &str| {
            let is_it = |line: &str| line.split_once(':').is_some_and(|l| l.0.trim().trim_start_matches('%') == name);
            text.lines().position(is_it).map(|i| format!("{}:{}", path.display(), i + 1))
        };
        // A file of rules may serve several programs.
        for name in rules.keys().filter(|name| file.program.func(name).is_none()) {
            let place = place_of(name).unwrap_or_default();
            eprintln!("{place}: the program calls no function %{name}, so its rule is not used");
        }
        brolga::set_rules(&mut file.program, &rules, imports).map_err(|mut found| {
            for d in &mut found.0 {
                d.notes.extend(place_of(&d.function).map(|place| format!("its rule is in {place}")));
            }
            found
        })?;
    }
    Ok(file)
}

/// Differentiate the function of a call and run it.
pub fn outcome_of(rules: &Rules<'_>, job: &Job<'_>) -> Result<Outcome, Failure> {
    if let Some(found) = job.options.debug.then(|| stray(rules.program(), &job.call)).flatten() {
        return Err(Failure::Run(job.name(), strays(rules.program(), found)));
    }
    let rule = rules.get(&job.call.request(), &job.options());
    rule.and_then(|rule| run::gradient(&rule, &job.call)).map_err(|e| Failure::Run(job.name(), e))
}

/// A step of a time loop does not keep to the loop's states.
fn strays(program: &Program, found: StrayStore) -> Error {
    let message = found.to_string();
    let at = *found.store;
    let func = program.func(&at.function).map(|k| &program.funcs[k]);
    Error::Trap(Box::new(Trap {
        code: "time_loop".to_owned(),
        block: func.and_then(|f| f.body.as_ref()?.layout.inst_block(at.inst)),
        inst: Some(at.inst),
        inst_text: Some(at.text),
        line: (at.line != 0).then_some(at.line),
        inlined: Vec::new(),
        phase: "primal",
        message,
        source_name: func.and_then(|f| f.source_name()),
        function: at.function,
    }))
}

impl Job<'_> {
    /// How it is derived.
    pub fn options(&self) -> Options {
        Options { memory: self.call.memory, ..self.options.clone() }
    }

    /// How to speak of it in an error.
    pub fn name(&self) -> String {
        match self.line {
            Some(line) => format!("%{} (line {})", self.call.symbol, line.line),
            None => format!("%{}", self.call.symbol),
        }
    }

    /// Why all cotangents are zero, and what to say instead, where no number is weighted.
    pub fn unweighted(&self) -> Option<String> {
        let call = &self.call;
        if call.returns.iter().any(|ty| ty.lane_type().is_float()) || !self.clauses.shadows.is_empty() {
            return None;
        }
        let (name, i) = (self.name(), call.first_of_floats()?);
        Some(format!(
            "{name} returns no float. Say how what it leaves in memory is weighted, as `--shadow {i}=[1.0, …]`"
        ))
    }
}

/// The calls of the command line, or else those of the file.
pub fn jobs<'a>(file: &'a File, options: &CallOptions) -> Result<Vec<Job<'a>>, Failure> {
    let mut jobs = Vec::new();
    let derived = derived(file, options);
    for call in &options.calls {
        let text = with_flags(call, options);
        let (parsed, clauses) = call_with_clauses(&text)?;
        let bound = file.bind(&text, &parsed, &clauses)?;
        jobs.push(Job { text, call: bound, clauses, options: derived.clone(), line: None });
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
            jobs.push(Job { text, call, clauses, options: derived.clone(), line: Some(line) });
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

/// How the calls of a command line are derived.
fn derived(file: &File, options: &CallOptions) -> Options {
    let usual = Options::default();
    options.budget.put(Options {
        mode: options.mode.into(),
        inline: options.inline.into(),
        effort: options.effort.into(),
        untracked: untracked(file, options.untracked),
        debug: options.debug,
        task_threads: options.task_threads,
        checkpoint_dir: options.checkpoint_dir.clone(),
        checkpoint_limit: options.checkpoint_limit.map_or(usual.checkpoint_limit, |n| n as u64),
        inverse_check: options.inverse_check.unwrap_or(file.options().inverse_check),
        ..usual
    })
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

/// What becomes of operations on bits, as was asked for, or as is best for a file.
pub fn untracked(file: &File, asked: Option<args::Untracked>) -> Untracked {
    match asked {
        Some(args::Untracked::Refuse) => Untracked::Refuse,
        Some(args::Untracked::Trap) => Untracked::Trap,
        None => file.options().untracked,
    }
}
