//! Explanation on the command line: `brolga explain`, why the gradient of a call is what it is.
//!
//! **Question.** What cuts a gradient, what is recorded, which loops and forks are there, and which
//! other modes can be had?
//!
//! **Answer.** What [`brolga_driver::explain`] says, and after it how time loops were reversed,
//! which loops record all iterations and why, which calls fork, with work and span, and, with
//! `--modes`, whether forward mode and second derivatives can be derived. As text or as one line of
//! JSON.
//!
//! **Errors.** A program that traps in the interpreter is reported as one that traps in a run.
//!
//! **Cost.** One interpreted run and one compiled run. One more of each where there are forks, a
//! run where there are time loops, and two derivations with `--modes`.

use brolga::cranelift_codegen::ir::InstructionData;
use brolga::{Checkpoints, Error, Options, Program, Trap};
use brolga_driver::File;
use brolga_driver::check::work_and_span;
use brolga_driver::explain::{ExplainRequest, explain, json, text};
use brolga_driver::output::{error_json, plan_json, plan_text};
use brolga_driver::protocol::derive;
use brolga_driver::run::executed;
use brolga_ir::FuncKey;
use brolga_ir::driver::Driver;
use brolga_ir::fork::{TASKS, described};
use brolga_oracle::OracleError;
use clap::Args;
use serde_json::Value;

use crate::args::{CallOptions, FileArg, Limit};
use crate::failure::Failure;
use crate::jobs::{Job, jobs, outcome_of, read};
use crate::report::{show, told};
use crate::rules::Rules;

/// `explain`.
#[derive(Args)]
pub struct ExplainArgs {
    /// The file.
    #[command(flatten)]
    pub input: FileArg,
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

/// Run the command.
pub fn run(args: &ExplainArgs) -> Result<(), Failure> {
    told(args.json, || run_all(args))
}

fn run_all(args: &ExplainArgs) -> Result<(), Failure> {
    let wrt = args.wrt.as_deref().map(parse).transpose()?;
    let file = read(&args.input, &args.call.calls)?;
    let rules = Rules::new(&file);
    for (i, job) in jobs(&file, &args.call)?.iter().enumerate() {
        if let Some((arg, _)) = wrt
            && arg >= job.call.args.len()
        {
            return Err(Failure::Usage(format!("`--wrt {arg}`: {} has {} arguments", job.name(), job.call.args.len())));
        }
        let Options { mode, inline, effort, untracked, .. } = job.options;
        let wanted = ExplainRequest { wrt, top: args.top, mode, inline, effort, untracked };
        let found = explain(&file.program, &job.call, wanted)
            .map_err(|e| refused(&file, job).unwrap_or_else(|| not_run(&job.name(), &file.program, e)))?;
        if wrt.is_some() && found.entries.is_empty() {
            let given = args.wrt.as_deref().unwrap_or_default();
            return Err(Failure::Usage(format!("`--wrt {given}`: {} has no such float", job.name())));
        }
        let modes = if args.modes { modes(&file, job) } else { Vec::new() };
        let asked = job.options.checkpoints != Checkpoints::default();
        let loops = if asked || runs_loops(&file.program) { outcome_of(&rules, job)?.plans } else { Vec::new() };
        let forks = forks(&file.program, job.call.func);
        let counts = if forks.is_empty() { Vec::new() } else { counts(&file.program, job) };
        let one_tape = if forks.is_empty() { None } else { one_tape(&rules, job)? };
        let staying = if asked { staying(&rules, job)? } else { Vec::new() };
        if args.json {
            let mut all = json::json(&job.call, &found);
            if !loops.is_empty() {
                all["loops"] = loops.iter().map(plan_json).collect();
            }
            if asked {
                all["loops_that_stay"] = staying.into();
            }
            if !forks.is_empty() {
                all["forks"] = forks.into();
                all["one_tape"] = one_tape.into();
                for (_, key, [work, span]) in &counts {
                    all[*key] = [*work, *span].into();
                }
            }
            if args.modes {
                let entry = |(_, key, error): &ModeAvailability| {
                    ((*key).to_owned(), error.as_ref().map_or(Value::Null, error_json))
                };
                all["modes"] = Value::Object(modes.iter().map(entry).collect());
            }
            show(&format!("{all}\n"));
        } else {
            show(&format!("{}{}", if i > 0 { "\n" } else { "" }, text::text(&job.text, &found)));
            if !loops.is_empty() {
                show("\nTime loops:\n");
                loops.iter().for_each(|plan| show(&plan_text(plan)));
            }
            if !staying.is_empty() {
                show("\nLoops that record all iterations:\n");
                staying.iter().for_each(|why| show(&format!("  {why}\n")));
            }
            if !forks.is_empty() {
                show(&format!("\nForks, whose tasks run on threads ({} in all):\n", forks.len()));
                forks.iter().for_each(|fork| show(&format!("  {fork}\n")));
                if let Some(why) = one_tape {
                    show(&format!("  in the derivative tasks run one after the other, since {why}\n"));
                }
                for (of, _, [work, span]) in &counts {
                    show(&format!(
                        "  {of}: work {work} instructions; span, on the longest way through forks, {span}\n"
                    ));
                }
            }
            modes.iter().for_each(|mode| show(&mode_text(mode)));
        }
    }
    Ok(())
}

/// Work and span of a call's function and of both halves of its derivative, as far as they run:
/// whose in words and as a key.
fn counts(program: &Program, job: &Job<'_>) -> Vec<(&'static str, &'static str, [u64; 2])> {
    let primal = work_and_span(program, &job.call).map(|(work, span)| ("the function", "work_and_span", [work, span]));
    let derived = executed(program, &job.call, &job.options()).ok().into_iter().flatten();
    let names = [("its forward pass", "forward_work_and_span"), ("its pullback", "pullback_work_and_span")];
    let derived = names.into_iter().zip(derived).map(|((of, key), n)| (of, key, [n.work, n.span]));
    primal.into_iter().chain(derived).collect()
}

/// Loops of a call that cannot be reversed from states, and why.
fn staying(rules: &Rules<'_>, job: &Job<'_>) -> Result<Vec<String>, Failure> {
    let rule = rules.get(&job.call.request(), &job.options()).map_err(|e| Failure::Run(job.name(), e))?;
    Ok(rule.loops_that_stay())
}

/// Why tasks of a call run one after the other in its derivative.
fn one_tape(rules: &Rules<'_>, job: &Job<'_>) -> Result<Option<String>, Failure> {
    let rule = rules.get(&job.call.request(), &job.options()).map_err(|e| Failure::Run(job.name(), e))?;
    Ok(rule.tasks_on_one_tape().map(ToOwned::to_owned))
}

/// Whether a program has time loops, which run time decides about.
fn runs_loops(program: &Program) -> bool {
    program.funcs.values().any(|f| matches!(f.driver, Some(Driver::Steps(_))))
}

/// Calls that fork, in what a function may call: what each calls, and where.
fn forks(program: &Program, root: FuncKey) -> Vec<String> {
    let (mut seen, mut at) = (vec![root], 0);
    let mut found = Vec::new();
    while let Some(&func) = seen.get(at) {
        at += 1;
        let Some(body) = &program.funcs[func].body else { continue };
        for inst in body.layout.blocks().flat_map(|b| body.layout.block_insts(b)) {
            let InstructionData::Call { func_ref, .. } = body.dfg.insts[inst] else { continue };
            let Some(callee) = program.callee(body, func_ref) else { continue };
            let symbol = &program.funcs[callee].symbol;
            let Some(tasks) = program.func(&format!("{symbol}{TASKS}")).map(|k| &program.funcs[k]) else { continue };
            let serial = match (&tasks.driver, &tasks.serial) {
                (Some(Driver::Tasks(_)), _) => String::new(),
                (_, Some(why)) => format!("; its tasks run one after the other, since {why}"),
                _ => continue,
            };
            let fork = described(symbol, |f| program.func(f).is_some());
            found.push(format!("{fork}, called at {}{serial}", program.place(func, inst)));
        }
        for named in body.dfg.ext_funcs.keys().filter_map(|f| program.callee(body, f)) {
            if !seen.contains(&named) {
                seen.push(named);
            }
        }
    }
    found
}

/// A mode in words and as a key, and why it cannot be had.
type ModeAvailability = (&'static str, &'static str, Option<Error>);

/// Whether a function can be derived in other modes than that of the gradient.
fn modes(file: &File, job: &Job<'_>) -> Vec<ModeAvailability> {
    let options = Options { mode: brolga::Mode::Tangent, ..job.options() };
    let tangent = derive(&file.program, &job.call.request(), &options).err();
    let second = brolga_driver::second::rule(&file.program, &job.call, &job.options()).err();
    vec![("Forward mode", "tangent", tangent), ("Second derivatives", "second", second)]
}

fn mode_text((name, _, error): &ModeAvailability) -> String {
    match error {
        None => format!("\n{name}: can be derived\n"),
        Some(error) => format!("\n{name}: refused\n  {}\n", error.to_string().replace('\n', "\n  ")),
    }
}

/// Why there is no derivative of what the interpreter does not run: a fork of a function that is
/// declared in another way has no meaning, and no derivative.
fn refused(file: &File, job: &Job<'_>) -> Option<Failure> {
    match derive(&file.program, &job.call.request(), &job.options()) {
        Err(e @ Error::Diagnostics(_)) => Some(Failure::Run(job.name(), e)),
        _ => None,
    }
}

/// A program that traps does so in the interpreter as it does when it is compiled.
fn not_run(name: &str, program: &Program, error: OracleError) -> Failure {
    let (code, at) = match error {
        OracleError::Trap { code, at } => (code, at),
        OracleError::Race(race) => {
            return Failure::Run(name.to_owned(), Error::Diagnostics(race.diagnostic.into()));
        }
        error => return Failure::Oracle(format!("{name}: the tape cannot run: {error}")),
    };
    let func = program.func(&at.function).map(|k| &program.funcs[k]);
    let body = func.and_then(|f| f.body.as_ref());
    let (called, message) = match program.traps.get(&code.as_raw().get()) {
        Some((name, message)) => ((*name).to_owned(), (*message).to_owned()),
        None => (code.to_string(), format!("the program trapped with code {code}")),
    };
    let trap = Trap {
        code: called,
        block: body.and_then(|b| b.layout.inst_block(at.inst)),
        inst: Some(at.inst),
        inst_text: Some(at.text),
        line: (at.line != 0).then_some(at.line),
        inlined: Vec::new(),
        phase: "primal",
        message,
        source_name: func.and_then(|f| f.source_name()),
        function: at.function,
    };
    Failure::Run(name.to_owned(), Error::Trap(Box::new(trap)))
}

/// `1` or `1[3]`.
fn parse(text: &str) -> Result<(usize, Option<usize>), Failure> {
    let wrong =
        || Failure::Usage(format!("`--wrt {text}`: expected an argument such as 1, or an element such as 1[3]"));
    match text.trim().split_once('[') {
        None => Ok((text.trim().parse().map_err(|_| wrong())?, None)),
        Some((arg, rest)) => {
            let index = rest.strip_suffix(']').ok_or_else(wrong)?;
            Ok((arg.trim().parse().map_err(|_| wrong())?, Some(index.trim().parse().map_err(|_| wrong())?)))
        }
    }
}
