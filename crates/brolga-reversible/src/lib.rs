//! Reversible functions: one definition, both directions, gradients without a tape.
//!
//! **Question.** A recorded run costs memory for each step. Which functions can be differentiated
//! without a record?
//!
//! **Answer.** A function is a list of statements that can be undone: updates by what they do not
//! change, exchanges, rotations, branches and loops whose conditions can be decided afterwards.
//! Its inverse follows from its text ([`invert`]). Its gradient runs the inverse with cotangents
//! beside the values, so that nothing is recorded, whatever the number of steps.
//!
//! ```
//! // The scalar product of x with itself.
//! let program = brolga_reversible::compile(
//!     "fn squares(y: f64, x: in [f64 x n], n: in i64) {
//!          for i in 0 .. n {
//!              y += x[i] * x[i]
//!          }
//!      }",
//! )?;
//! assert!(program.inverse().to_string().contains("y -= x[i] * x[i]"));
//! # Ok::<(), brolga_reversible::Errors>(())
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `lex`, `parse`, `print` | text to functions, and back |
//! | `ast` | statements, places and expressions |
//! | `build`, `expressions` | functions from Rust |
//! | `layout`, `types`, `error` | what is refused before it runs |
//! | `invert` | the inverse |
//! | `define` | functions in a program, which is differentiated |
//! | `lower/` | functions in CLIF, in both directions, with cotangents and without |
//!
//! **Cost.** A gradient runs the function and its adjoint, and its memory is that of the states and
//! their shadows. Claims that make a function reversible are checked at run time, if it is not said
//! otherwise.

pub mod ast;
pub mod build;
mod define;
mod error;
mod expressions;
pub mod invert;
mod layout;
mod lex;
mod lower;
pub mod parse;
mod print;
mod types;

use std::fmt;

pub use error::{ErrorKind, Fault, RevError};
pub use layout::PlaceWord;
pub use lower::ClifFunction;

use ast::File;

/// All that is wrong with a program.
///
/// ```
/// # use brolga_reversible::{ErrorKind, Fault, compile};
/// let errors = compile("fn f(x: f64) { x += x }").unwrap_err();
/// assert_eq!((errors.0.len(), errors.0[0].kind), (1, ErrorKind::AliasWrite));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(pub Vec<RevError>);

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, e) in self.0.iter().enumerate() {
            write!(f, "{}{e}", if i > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// A program: its text as a tree, and its functions in CLIF.
///
/// ```
/// # use brolga_reversible::{ErrorKind, Fault, compile};
/// let program = compile("fn f(x: f64) { x += 1.0 }")?;
/// assert_eq!(program.file.functions[0].name, "f");
/// assert!(program.functions.iter().any(|f| f.symbol == "f__inverse"));
/// # Ok::<(), brolga_reversible::Errors>(())
/// ```
#[derive(Clone, Debug)]
pub struct CompiledProgram {
    /// The functions, checked.
    pub file: File,
    /// The same in CLIF, and what they call. Those that a caller calls come first: `%f` and
    /// `%f__inverse` of each function, with parameters of 64 bits: the address of each place, and
    /// each integer that is read.
    pub functions: Vec<ClifFunction>,
}

impl CompiledProgram {
    /// The inverses of all functions, each by the name of what it undoes: a call by such a name is
    /// a call of an inverse.
    ///
    /// ```
    /// # use brolga_reversible::{ErrorKind, Fault, compile};
    /// let program = compile("fn f(x: f64) { x += 1.0 }")?;
    /// assert_eq!(program.inverse().to_string(), "fn f(x: f64) {\n    x -= 1.0\n}\n");
    /// # Ok::<(), brolga_reversible::Errors>(())
    /// ```
    pub fn inverse(&self) -> File {
        let functions = self.file.functions.iter().map(invert::inverse_by_name).collect();
        File { functions, ..self.file.clone() }
    }
}

/// Compile a text.
///
/// ```
/// # use brolga_reversible::{ErrorKind, Fault, compile};
/// assert!(compile("fn f(x: f64, y: in f64) { x += y * y }").is_ok());
/// assert_eq!(compile("fn f(").unwrap_err().0[0].kind.code(), "AD0031");
/// ```
///
/// # Errors
/// AD0031 to AD0036: what is no text of the language, names, types, and statements that cannot be
/// undone.
pub fn compile(text: &str) -> Result<CompiledProgram, Errors> {
    compile_file(parse::parse(text).map_err(Errors)?)
}

/// Compile functions that a builder has made.
///
/// ```
/// # use brolga_reversible::{compile, compile_file};
/// let inverse = compile("fn f(x: f64) { x += 1.0 }")?.inverse();
/// assert_eq!(compile_file(inverse.clone())?.file, inverse);
/// # Ok::<(), brolga_reversible::Errors>(())
/// ```
///
/// # Errors
/// As [`compile`], but for what is wrong with a text.
pub fn compile_file(file: File) -> Result<CompiledProgram, Errors> {
    let (file, layouts) = types::checked(file).map_err(Errors)?;
    let functions = lower::lower(&file, &layouts).map_err(Errors)?;
    Ok(CompiledProgram { file, functions })
}
