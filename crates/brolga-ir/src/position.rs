//! Positions in an input, in words.
//!
//! **Question.** Inputs are texts, binary files or statements of a Rust program. How does one
//! number say where something stands in any of them?
//!
//! **Answer.** Two bits tell which it is ([`OFFSET`], [`STATEMENT`]), the others where;
//! [`position`] says it in words.
//!
//! **Cost.** None, where nothing is reported.

/// Set in a position that is a byte offset in a binary file, not a line of a text.
pub const OFFSET: u32 = 1 << 31;

/// Set in a position, without [`OFFSET`], that is the number of a statement that a Rust program has
/// made, from 1.
pub const STATEMENT: u32 = 1 << 30;

/// A position in words: `line 12`, `statement 3`, or `byte 0x1f3` of a binary file.
///
/// Positions are 1-based lines, byte offsets with the bit [`OFFSET`], or numbers of statements with
/// the bit [`STATEMENT`]; 0 is an unknown one.
pub fn position(at: u32) -> String {
    match at {
        at if at & OFFSET != 0 => format!("byte {:#x}", at & !OFFSET),
        at if at & STATEMENT != 0 => format!("statement {}", at & !STATEMENT),
        line => format!("line {line}"),
    }
}
