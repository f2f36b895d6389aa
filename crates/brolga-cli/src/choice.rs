//! Choice: the function that a command names without a call, and how it is differentiated.
//!
//! **Question.** `dump` and `compile` name a function alone. Which is it, and what is active?
//!
//! **Answer.** The function of that name, or the only one that the file defines ([`function`]).
//! Activities are those asked for, those of the file's first line about the function, or a guess
//! ([`request`]).
//!
//! **Cost.** The file's lines are bound until one is about the function.

use brolga::{FuncKey, Request};
use brolga_driver::text::cursor::Cursor;
use brolga_driver::{Directive, File, SyntaxError};

use crate::failure::Failure;

/// The function of this name, or the only one that the file defines.
pub(crate) fn function(file: &File, name: Option<&str>) -> Result<FuncKey, Failure> {
    match (name, &file.functions[..]) {
        (Some(name), _) => file.defined(name.trim_start_matches('%')).ok_or_else(|| {
            Failure::Usage(format!("`{name}` is not defined in the file; it defines {}", file.symbols().join(", ")))
        }),
        (None, [(only, _)]) => Ok(*only),
        (None, _) => Err(Failure::Usage(format!("say which function: --func {}", file.symbols().join(" | ")))),
    }
}

/// The activities asked for, those of the file's first line about the function, or a guess.
pub(crate) fn request(file: &File, func: FuncKey, activity: Option<&str>) -> Result<Request, Failure> {
    let line = file.directives.iter().find_map(|d| match d {
        Directive::Grad(line) => {
            let call = file.bind(&line.text, &line.call, &line.clauses).ok()?;
            (call.func == func).then(|| call.request())
        }
        _ => None,
    });
    let mut request = line.unwrap_or_else(|| file.request(func));
    if let Some(text) = activity {
        let mut cursor = Cursor::new(text);
        let given = brolga_driver::text::directive::activities(&mut cursor)?;
        if !cursor.is_done() {
            return Err(cursor.unexpected("`,` or the end of the list").into());
        }
        let hidden = usize::from(file.wasm.is_some());
        if given.node.len() + hidden != request.args.len() {
            let message = format!(
                "{} activities given, but the function has {} parameters",
                given.node.len(),
                request.args.len() - hidden
            );
            return Err(SyntaxError::new(text, given.span, message).into());
        }
        for (arg, activity) in request.args[hidden..].iter_mut().zip(given.node) {
            arg.activity = activity;
        }
    }
    Ok(request)
}
