//! Parser of inverse declarations: a function that another one undoes, as `%mix = %unmix, 0:16`, or
//! `%mix, 0:v1, 2:24`.
//!
//! **Question.** Which function undoes which, and what state do both change?
//!
//! **Answer.** First come the function and what undoes it, which is derived if the text does not
//! name it. Then come the states that both change: the number of the parameter that points there,
//! and how many bytes, or the parameter that says how many, or how many elements of so many bytes:
//! `0:v1*8`. The result is an [`UndoneFunction`]; types are not known here.
//!
//! **Cost.** One walk over the text.

use brolga::StateLength;

use super::call::name;
use super::cursor::{Cursor, ParseResult, SpannedNode};

/// A function that another one undoes, and the states.
#[derive(Clone, Debug, PartialEq)]
pub struct UndoneFunction {
    /// The function.
    pub function: SpannedNode<String>,
    /// What undoes it, unless that is derived.
    pub inverse: Option<String>,
    /// Parameters that point at what both change, each with its length.
    pub state: Vec<(usize, StateLength)>,
}

const HELP: &str = "write f=f_inverse,0:24: parameter 0 points at a state of 24 bytes";

impl UndoneFunction {
    /// The symbol of what undoes it.
    pub fn undoes(&self) -> String {
        self.inverse.clone().unwrap_or_else(|| format!("{}__inverse", self.function.node))
    }

    /// Read a whole text.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn parse(text: &str) -> ParseResult<Self> {
        let mut c = Cursor::new(text);
        let found = undone(&mut c)?;
        if c.is_done() { Ok(found) } else { Err(c.unexpected("`,` or the end of the text").help(HELP)) }
    }
}

/// Bytes of an element of a state.
fn element(c: &mut Cursor<'_>) -> ParseResult<u32> {
    let bytes = c.count().map_err(|e| e.help(HELP))?;
    u32::try_from(bytes.node).map_err(|_| c.error(bytes.span, "that is more than there can be"))
}

pub(super) fn undone(c: &mut Cursor<'_>) -> ParseResult<UndoneFunction> {
    let function = name(c)?;
    let inverse = if c.eat("=") { Some(name(c)?.node) } else { None };
    let mut state = Vec::new();
    while c.eat(",") {
        let param = c.count().map_err(|e| e.help(HELP))?.node;
        if !c.eat(":") {
            return Err(c.unexpected("`:` and a number of bytes").help(HELP));
        }
        let of_param = c.eat("v");
        let count = c.count().map_err(|e| e.help(HELP))?;
        let length = match u32::try_from(count.node) {
            _ if of_param && c.eat("*") => StateLength::Elements { count: count.node, bytes: element(c)? },
            _ if of_param => StateLength::Param(count.node),
            Ok(bytes) => StateLength::Bytes(bytes),
            Err(_) => return Err(c.error(count.span, "that is more than there can be")),
        };
        state.push((param, length));
    }
    if state.is_empty() {
        return Err(c.unexpected("`,` and the states").help(HELP));
    }
    Ok(UndoneFunction { function, inverse, state })
}
