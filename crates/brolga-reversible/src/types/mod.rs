//! Type checker of the reversible language: that names are known, that operands fit, and that a
//! statement can be undone.
//!
//! **Question.** Which programs are refused before they run?
//!
//! **Answer.** Those of which a name is unknown, a type does not fit, a place is updated by what it
//! holds itself ([`ErrorKind::AliasWrite`]), a place does not end where it was made
//! ([`ErrorKind::Dealloc`]), or the number of an iteration is changed
//! ([`ErrorKind::IteratorChanged`]). Where indices decide whether two places are one, a run
//! decides. Names of C's functions and of derived ones are taken.
//!
//! **After.** Each `drop` has its type, so that it can be inverted.
//!
//! **Errors.** All that are found, in the order of the text, each with its function.
//!
//! **Cost.** One walk over each function.

mod advice;
mod overlap;
mod scope;
mod spared;
mod statements;

use std::collections::HashMap;

use crate::ast::{File, Function};
use crate::error::{ErrorKind, RevError};
use crate::layout::Layouts;
use overlap::readable;
pub(crate) use overlap::{Overlap, overlap};
pub(crate) use scope::{NameRole, NameScope, type_of_argument, type_of_operands};
use statements::Checker;

/// What lowered functions call.
const OF_C: [&str; 18] = [
    "sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "pow", "atan2", "hypot",
    "malloc", "free", "memset",
];

/// Check a file, and give each `drop` its type.
pub(crate) fn checked(mut file: File) -> Result<(File, Layouts), Vec<RevError>> {
    let layouts = Layouts::new(&file)?;
    let mut errors = Vec::new();
    let mut known: HashMap<String, Function> = HashMap::new();
    for f in &file.functions {
        if known.contains_key(&f.name) {
            let e = RevError::new(ErrorKind::Name, f.at, format!("function `{}` is defined twice", f.name));
            errors.push(e.help("give one of them another name"));
        } else if OF_C.iter().any(|c| f.name == *c || f.name.strip_suffix('f') == Some(c)) {
            let e = RevError::new(ErrorKind::Name, f.at, format!("`{}` is a function of C", f.name));
            errors.push(e.help("expressions call it by this name; give the function another one"));
        } else if f.name.contains("__") || f.name.starts_with("brolga_") {
            let e = RevError::new(ErrorKind::Name, f.at, format!("`{}` is a name of derived functions", f.name));
            errors.push(e.help("these begin with `brolga_`, or have two underscores in a row; give it another name"));
        }
        errors.extend(readable(&f.name, f.at).err());
        errors.iter_mut().filter(|e| e.function.is_empty()).for_each(|e| e.function.clone_from(&f.name));
        known.insert(f.name.clone(), Function { body: vec![], ..f.clone() });
    }
    for f in &mut file.functions {
        let mut checker = Checker { scope: NameScope::of(f, &layouts), known: &known, errors: vec![], depth: 0 };
        // Of places whose type is not known nothing can be said.
        if checker.params(f) {
            checker.block(&mut f.body);
        }
        errors.extend(checker.errors.into_iter().map(|e| RevError { function: f.name.clone(), ..e }));
    }
    errors.sort_by_key(|e| (e.at.line, e.at.column));
    if errors.is_empty() { Ok((file, layouts)) } else { Err(errors) }
}
