//! Call syntax: the little language of calls and directives: `%f(1.5, [1.0, 2.0]) seed 2.0 ==
//! [0.25, [1.0, 2.0]]`.
//!
//! Reading happens in two steps. The parsers here know no types: a number stays the text that was
//! written, with its place. [`crate::bind`] then reads that text as what the function's signature
//! asks for, so `0.1` for an `f32` is rounded once, and an error in either step can point at the
//! very characters.
//!
//! - [`cursor`]: a place in a line, and errors that point at one;
//! - [`number`]: numbers and element types;
//! - [`call`]: calls and their arguments;
//! - [`inverse`]: which function undoes which;
//! - [`directive`]: comments of a file, and clauses.

pub mod call;
pub mod cursor;
pub mod directive;
pub mod inverse;
pub mod number;

pub use call::{Call, List, Literal};
pub use cursor::{Span, SpannedNode, SyntaxError};
pub use directive::{Clauses, DataLine, Directive, ErrorLine, Expect, GradLine, InverseLine, TrapLine};
pub use inverse::UndoneFunction;
pub use number::ElemType;
