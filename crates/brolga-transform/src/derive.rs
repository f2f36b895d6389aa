//! Entry points: a request is derived, with as much inlining as does not stand in its way.
//!
//! **Question.** From a program, a request and options to a derivation: in which steps?
//!
//! **Answer.** Calls are resolved as far as addresses tell ([`resolved`]), and the request is
//! attempted, with less inlining where that does harm ([`attempt`]). [`derive()`] verifies what
//! comes out; [`derive_unverified`] leaves that to its caller; [`derive_with`] shows every stage to
//! an observer.
//!
//! **Errors.** Every problem of the program as asked, and as it is written.
//!
//! **Cost.** As many derivations as attempts. For an observer the last one is done again, since it
//! is shown nothing of attempts that fail.

use brolga_ir::{Diagnostics, Options, Program, Request};
use cranelift_codegen::isa::TargetIsa;

use crate::called::resolved;
use crate::derived::Derivation;
use crate::pipeline::all_variants::{DerivationAssumptions, DerivationInput, derive_assuming};
use crate::pipeline::inline_rollback::attempt;
use crate::pipeline::{Observer, Stages};
use crate::program::outline::staying;

/// Run the pipeline for a request; `look` sees every stage of every variant.
///
/// # Errors
/// As [`derive()`].
pub fn derive_with(
    program: &Program,
    request: &Request,
    options: &Options,
    isa: &dyn TargetIsa,
    mut look: impl FnMut(&Stages<'_>),
) -> Result<Derivation, Diagnostics> {
    let program = &*resolved(program, &[request.func], isa)?;
    // An observer is shown nothing of attempts that fail.
    let asked = DerivationInput { program, request, options, isa };
    let (inlining, found) = attempt(asked)?;
    let staying = staying(&found.loops);
    let assumptions = DerivationAssumptions {
        staying: &staying,
        inlining: &inlining,
        pieces: found.pieces,
        known: found.known,
        unaligned: found.program.unaligned_doubles,
    };
    let found = derive_assuming(asked, assumptions, Observer { stages: Some(&mut look), statements: None })?;
    found.verify(isa).map(|()| found)
}

/// Run the pipeline for a request.
///
/// # Errors
/// Every problem of the program as asked, and as it is written: see
/// [`crate::pipeline::inline_rollback`].
pub fn derive(
    program: &Program,
    request: &Request,
    options: &Options,
    isa: &dyn TargetIsa,
) -> Result<Derivation, Diagnostics> {
    let found = derive_unverified(program, request, options, isa)?;
    found.verify(isa).map(|()| found)
}

/// The same, without verification: `brolga::DerivedRule` verifies what comes out beside compiling
/// it.
///
/// # Errors
/// As [`derive()`].
pub fn derive_unverified(
    program: &Program,
    request: &Request,
    options: &Options,
    isa: &dyn TargetIsa,
) -> Result<Derivation, Diagnostics> {
    let program = &*resolved(program, &[request.func], isa)?;
    attempt(DerivationInput { program, request, options, isa }).map(|found| found.1)
}
