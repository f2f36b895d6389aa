//! Errors between a Wasm module and its gradient.
//!
//! **Question.** What can go wrong with a module, an instance or a derivative, and what can be
//! done about it?
//!
//! **Answer.** An [`Error`] is in one of a few classes: the module is invalid or needs what is not
//! supported, imports are missing, a function cannot be differentiated, the program trapped or
//! exited, the call is wrong, the host has no room, or there is a bug. The codes of traps that
//! translated code brings itself are in [`trap`], with names and explanations.
//! [`Error::is_too_wide`] says whether it is worth while to try one derivative at a time.
//!
//! **Invariant.** None of them leaves anything half done, but for the memory of a program that
//! trapped.
//!
//! **Cost.** None where there is no error.

use brolga::{Diagnostics, Trap};

/// An error, in one of a few classes. None of them leaves anything half done: a module, an instance
/// and a gradient can be used after any of them, except that memory is as the program left it when
/// it trapped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are no valid module (or the text does not parse).
    #[error("not a valid WebAssembly module: {message}{}", at(*.offset))]
    Invalid {
        /// What is wrong.
        message: String,
        /// Byte offset in the module; 0 where unknown.
        offset: u64,
    },
    /// A valid module that uses something that is not supported.
    #[error("{what} is not supported{}\n  help: {help}", at(*.offset))]
    Unsupported {
        /// What it uses.
        what: String,
        /// Byte offset in the module; 0 where unknown.
        offset: u64,
        /// What to do.
        help: &'static str,
    },
    /// Imports that nothing provides and that cannot be left out: globals, and where that is asked
    /// for, anything.
    #[error("nothing provides these imports: {}\n  help: define them in the module (a linker makes one of several), or provide them with `Imports`", .0.join(", "))]
    Imports(Vec<String>),
    /// A function that cannot be differentiated as asked; every problem is listed.
    #[error("{0}")]
    Diagnostics(Diagnostics),
    /// The program trapped.
    #[error("{0}")]
    Trap(Box<Trap>),
    /// The program called WASI's `proc_exit`.
    #[error("the program exited with code {0}")]
    Exit(i32),
    /// Wrong function, wrong arguments, addresses outside of memory.
    #[error("{0}")]
    Usage(String),
    /// The host has no room for an instance.
    #[error("cannot reserve {bytes} bytes of address space for linear memory and its shadow: {why}")]
    NoRoom {
        /// How much was asked for.
        bytes: usize,
        /// What the system says.
        why: String,
    },
    /// A bug in Brolga.
    #[error("internal error in stage {stage}: {message}")]
    Internal {
        /// The stage that failed.
        stage: &'static str,
        /// What happened.
        message: String,
    },
}

/// An offset as text.
fn at(offset: u64) -> String {
    if offset == 0 { String::new() } else { format!(" (at byte {offset:#x} of the module)") }
}

impl Error {
    /// Whether one derivative at a time may do where several at once do not: they are refused
    /// (AD0180), have filled the stack, or there is no room for their shadow.
    pub fn is_too_wide(&self) -> bool {
        match self {
            Error::Diagnostics(all) => all.0.iter().any(|d| d.code == "AD0180"),
            Error::Trap(t) => t.code == "stk_ovf",
            Error::NoRoom { .. } => true,
            _ => false,
        }
    }

    pub(crate) fn unsupported(what: impl Into<String>, offset: u64, help: &'static str) -> Self {
        Error::Unsupported { what: what.into(), offset, help }
    }
}

impl From<wasmparser::BinaryReaderError> for Error {
    fn from(e: wasmparser::BinaryReaderError) -> Self {
        Error::Invalid { message: e.message().to_owned(), offset: e.offset() }
    }
}

/// Traps of a translated program, by their user code.
pub(crate) mod trap {
    use std::collections::BTreeMap;

    use cranelift_codegen::ir::TrapCode;

    /// `unreachable` was executed.
    pub(crate) const UNREACHABLE: TrapCode = TrapCode::unwrap_user(1);
    /// A table access out of bounds.
    pub(crate) const TABLE_OOB: TrapCode = TrapCode::unwrap_user(2);
    /// A call through a null reference.
    pub(crate) const NULL_CALL: TrapCode = TrapCode::unwrap_user(3);
    /// A call through a table to a function of another type.
    pub(crate) const BAD_SIGNATURE: TrapCode = TrapCode::unwrap_user(4);
    /// The instance's fuel is used up.
    pub(crate) const NO_FUEL: TrapCode = TrapCode::unwrap_user(5);
    /// `proc_exit` was called.
    pub(crate) const EXIT: TrapCode = TrapCode::unwrap_user(6);
    /// A function was called that the module imports and nothing provides.
    pub(crate) const MISSING_IMPORT: TrapCode = TrapCode::unwrap_user(7);

    /// A part of OpenMP was called that there is none of here.
    pub(crate) const OPENMP: TrapCode = TrapCode::unwrap_user(8);
    /// A task has used up its stack of C.
    pub(crate) const TASK_STACK: TrapCode = TrapCode::unwrap_user(9);

    /// A function that a task has called returns without its stack pointer's being what it was.
    pub(crate) const KEPT_STACK: TrapCode = TrapCode::unwrap_user(10);

    /// Name and explanation of the codes above, and of Cranelift's own for memory.
    pub(crate) fn names() -> BTreeMap<u8, (&'static str, &'static str)> {
        let entry = |code: TrapCode, name, message| (code.as_raw().get(), (name, message));
        BTreeMap::from([
            entry(UNREACHABLE, "unreachable", "the program executed `unreachable`"),
            entry(TABLE_OOB, "table_oob", "a table was accessed out of bounds"),
            entry(NULL_CALL, "null_call", "a call through a table found no function there"),
            entry(BAD_SIGNATURE, "bad_signature", "a call through a table found a function of another type"),
            entry(NO_FUEL, "no_fuel", "the program used up its fuel"),
            entry(EXIT, "exit", "the program called `proc_exit`"),
            entry(
                MISSING_IMPORT,
                "missing_import",
                "the program called a function that it imports and nothing provides; define it in the module (a linker makes one of several), say what it is \
                 (`--import MODULE.NAME=FUNCTION`, `Imports::means`), or call what does not need it",
            ),
            entry(
                OPENMP,
                "openmp",
                "the program called a part of OpenMP that there is none of here; of OpenMP there are parallel regions with \
                 loops of a static schedule and reductions",
            ),
            entry(
                TASK_STACK,
                "task_stack",
                "a task has used up its stack of 256 KiB; let it have its large arrays from what calls it",
            ),
            entry(
                KEPT_STACK,
                "kept_stack",
                "a function that a task has called has not given back what it took of C's stack; such a function is not \
                 for tasks",
            ),
            entry(TrapCode::HEAP_OUT_OF_BOUNDS, "heap_oob", "memory was accessed out of bounds"),
        ])
    }
}

impl From<brolga::Error> for Error {
    fn from(e: brolga::Error) -> Self {
        match e {
            brolga::Error::Diagnostics(all) => Error::Diagnostics(all),
            brolga::Error::Trap(t) => Error::Trap(t),
            brolga::Error::Usage(message) => Error::Usage(message),
            brolga::Error::Internal { stage, message } => Error::Internal { stage, message },
        }
    }
}
