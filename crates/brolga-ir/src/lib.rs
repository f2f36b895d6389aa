//! The working IR of Brolga.
//!
//! **Question.** What do the stages of the pipeline hand to each other?
//!
//! **Answer.** Everything the pipeline hands from one stage to the next is defined here: the
//! program that is differentiated ([`program`]), what the caller asks for ([`request`],
//! [`options`]), what can go wrong ([`diag`]), and the builder-local block graph in which forward
//! pass and pullback are assembled ([`block`], [`inst`]) with its way in from CLIF ([`lift`]) and
//! out again ([`lower`]).
//!
//! Derived instructions are defined here, but not which one a statement becomes: there is no rule,
//! no analysis and no run time in this crate.
//!
//! | module | what it has besides |
//! |---|---|
//! | `spec`, `passes` | the spec of an embedder; names of passes, and sets of them |
//! | `driver`, `driver_call`, `intrinsics` | functions whose pair is not made of their body, and calls that become calls of such |
//! | `fork`, `time_loop`, `inverse_pair`, `set_inverse` | what these calls mean |
//! | `attached`, `copies`, `origin`, `position`, `source_name` | what belongs to a function; where an instruction comes from, in words |
//! | `entities`, `names`, `symbols`, `map`, `pages` | ids and names, tables of them, and long allocations |
//! | `panics` | panics as values |
//! | `print`, `dot` | derived graphs as text, and as drawings |
//! | `verify` | the verifier of derived graphs |
//!
//! **Cost.** Memory, mostly: a derived graph has several instructions for each of the primal's
//! ([`inst`]). Copies of a program share its functions ([`program`]).

mod attached;
pub mod block;
mod copies;
pub mod diag;
pub mod dot;
pub mod driver;
pub mod driver_call;
mod entities;
pub mod fork;
pub mod graph;
pub mod inst;
pub mod intrinsics;
pub mod inverse_pair;
pub mod lift;
pub mod lower;
pub mod map;
pub mod names;
pub mod options;
pub mod origin;
mod pages;
pub mod panics;
mod passes;
mod position;
pub mod print;
pub mod program;
pub mod request;
mod set_inverse;
mod source_name;
pub mod spec;
mod symbols;
pub mod time_loop;
pub mod verify;

pub use attached::AttachedValue;
pub use copies::{Copies, Origin};
pub use diag::{Diagnostic, Diagnostics};
pub use entities::{BlockId, DataKey, Dv, FuncKey, InstId};
pub use options::{
    Checkpoints, Effort, FloatOrder, Inline, InverseCheck, MemoryMode, Mode, Options, SecondTier, TapeKind, Tolerance,
    Untracked,
};
pub use passes::{Pass, PassSet};
pub use position::{OFFSET, STATEMENT, position};
pub use program::{Allocator, CallRefusal, DataObject, Func, Program};
pub use request::{ArgActivity, ArgSpec, Elem, Promises, Request, ResultActivity};
pub use spec::{Derivative, ParamActivity, ParamSpec, ReturnActivity, Spec};
