//! `cargo xtask explain`: why the gradient of a call is what it is.

use brolga::{Error, Program, Trap};
use brolga_driver::explain::{Wanted, explain, json, text};

use brolga_oracle::OracleError;

use crate::cli::ExplainArgs;
use crate::failure::Failure;
use crate::grad::{Job, failure_json, jobs, read};
use crate::report::show;

/// Run the command.
pub fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let result = run_all(args);
    if args.json
        && let Err(failure) = &result
    {
        show(&format!("{}\n", failure_json(failure)));
    }
    result
}

fn run_all(args: &ExplainArgs) -> Result<(), Failure> {
    let wrt = args.wrt.as_deref().map(parse).transpose()?;
    let file = read(&args.input, &args.call.calls)?;
    for (i, job) in jobs(&file, &args.call)?.iter().enumerate() {
        if let Some((arg, _)) = wrt
            && arg >= job.call.args.len()
        {
            return Err(Failure::Usage(format!("`--wrt {arg}`: {} has {} arguments", job.name(), job.call.args.len())));
        }
        let Job { mode, inline, effort, untracked, .. } = *job;
        let wanted = Wanted { wrt, top: args.top, mode, inline, effort, untracked };
        let found = explain(&file.program, &job.call, wanted).map_err(|e| not_run(&job.name(), &file.program, e))?;
        if wrt.is_some() && found.entries.is_empty() {
            let given = args.wrt.as_deref().unwrap_or_default();
            return Err(Failure::Usage(format!("`--wrt {given}`: {} has no such float", job.name())));
        }
        if args.json {
            show(&format!("{}\n", json::json(&job.call, &found)));
        } else {
            show(&format!("{}{}", if i > 0 { "\n" } else { "" }, text::text(&job.text, &found)));
        }
    }
    Ok(())
}

/// A program that traps does so in the interpreter as it does when it is compiled.
fn not_run(name: &str, program: &Program, error: OracleError) -> Failure {
    let OracleError::Trap { code, at } = error else {
        return Failure::Oracle(format!("{name}: the tape cannot run: {error}"));
    };
    let func = program.func(&at.function).map(|k| &program.funcs[k]);
    let body = func.and_then(|f| f.body.as_ref());
    let trap = Trap {
        code: code.to_string(),
        block: body.and_then(|b| b.layout.inst_block(at.inst)),
        inst: Some(at.inst),
        inst_text: Some(at.text),
        line: (at.line != 0).then_some(at.line),
        inlined: Vec::new(),
        phase: "primal",
        message: format!("the program trapped with code {code}"),
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
