//! Inlining with rollback: as far as it does no harm.
//!
//! **Problem.** What a function becomes as a part of another one, it need not become by itself, and
//! the other way round. A callee that is given nothing active is not differentiated at all; what it
//! does with the bits of a float its caller does not see, nor which of its accesses are of one
//! place with the caller's. As one function, the same code may be refused (an atomic update of
//! memory that is thought active), or be derived with a check in its pullback that ends the run (a
//! copy of memory that may hold floats of several sizes). No request for inlining
//! means that.
//!
//! **Answer.** A derivation with inlining counts only if it is not refused, and has no *doubt* that
//! it would not have without: a check of a cotangent that cannot be followed, at an instruction of
//! the user. Otherwise functions whose instructions are concerned replace no calls, and if that is
//! not enough, no function does. To know the doubts without inlining, the program is examined once
//! more; but only if there are any with it, and only as far as doubts go: nothing is assembled.
//!
//! **Invariants.** What can be derived without inlining can be derived with it. What is said of a
//! program that cannot is said of the program as it is written. Bugs of ours are not passed over.
//!
//! **Cost.** One derivation where inlining is not refused and leaves no doubt. At most two with
//! inlining, one without, and one examination.

use brolga_ir::inst::{AdOp, Check, ClearQuery, Shape};
use brolga_ir::map::IndexSet;
use brolga_ir::{Diagnostics, FuncKey, Inline};
use cranelift_codegen::ir;

use crate::derived::Derivation;
use crate::facts::Facts;
use crate::pipeline::Observer;
use crate::pipeline::all_variants::{DerivationAssumptions, DerivationInput, derive_assuming, examine};
use crate::plan::liveness::unfollowed;
use crate::program::inline::Inlining;
use crate::translate::stmt::AdStmts;

/// Where a run may end that would end well without a derivative.
type Doubts = IndexSet<(FuncKey, ir::Inst, Check)>;

/// A derivation with as much inlining as is asked for and does no harm, and how much that is.
pub(crate) fn attempt(asked: DerivationInput<'_>) -> Result<(Inlining, Derivation), Diagnostics> {
    let DerivationInput { program, options, .. } = asked;
    let derive = |inlining: &Inlining| -> Result<(Derivation, Doubts), Diagnostics> {
        let mut found = Doubts::default();
        let mut look = |facts: &Facts<'_>, stmts: &AdStmts| found.extend(doubts(facts, stmts));
        let observer = Observer { stages: None, statements: Some(&mut look) };
        let derivation = derive_assuming(asked, DerivationAssumptions::with(inlining), observer)?;
        Ok((derivation, found))
    };
    let never = Inlining::never();
    let how = options.inline.settled(options.effort);
    let as_written = || derive_assuming(asked, DerivationAssumptions::with(&never), Observer::default());
    if how == Inline::Never {
        return Ok((never.clone(), as_written()?));
    }
    let known = || -> Result<Doubts, Diagnostics> {
        let mut found = Doubts::default();
        let mut look = |facts: &Facts<'_>, stmts: &AdStmts| found.extend(doubts(facts, stmts));
        examine(asked, &never, Observer { stages: None, statements: Some(&mut look) })?;
        Ok(found)
    };
    let mut inlining = Inlining { how, ..never.clone() };
    let mut plain: Option<Result<Doubts, Diagnostics>> = None;
    // As it is, and then without the functions that are in the way.
    for _ in 0..2 {
        if inlining.how == Inline::Never {
            break;
        }
        let concerned: Vec<FuncKey> = match derive(&inlining) {
            Err(e) if e.0.iter().any(|d| d.code.starts_with("AD09")) => return Err(e),
            Err(e) => {
                // What is refused as it is written is refused.
                if plain.get_or_insert_with(known).is_err() {
                    break;
                }
                e.0.iter().filter_map(|d| program.func(&d.function)).collect()
            }
            Ok((found, doubts)) if doubts.is_empty() => return Ok((inlining, found)),
            Ok((found, doubts)) => match plain.get_or_insert_with(known) {
                Ok(known) if !doubts.is_subset(known) => doubts.difference(known).map(|d| d.0).collect(),
                _ => return Ok((inlining, found)),
            },
        };
        inlining.not.extend(concerned);
    }
    // What stands in the way is known if it has been looked for.
    let found = plain.transpose().and_then(|_| as_written())?;
    Ok((never, found))
}

/// The doubts in what a function became, by the instructions that the user wrote.
fn doubts(facts: &Facts<'_>, stmts: &AdStmts) -> impl Iterator<Item = (FuncKey, ir::Inst, Check)> {
    // Of a derivative it is its own functions whose calls can stay.
    let origin = move |inst| facts.program.copies.origin(facts.variant.func, facts.original(inst));
    let branches = facts.cfg.blocks.iter().flat_map(move |&p| facts.cfg.succs[p].iter().map(move |&b| (p, b)));
    let joins = branches.filter(move |&(p, b)| !unfollowed(facts, p, b).is_empty()).map(move |(p, _)| {
        let origin = origin(facts.func().layout.last_inst(p).expect("a block has a terminator"));
        (origin.func, origin.inst, Check::UntrackedBits)
    });
    joins.chain(stmts.iter().flat_map(move |(&inst, stmt)| {
        let origin = origin(inst);
        let ops = stmt.before.values().chain(stmt.after.values()).chain(stmt.rvs.values());
        ops.filter_map(|i| check(&i.op)).map(move |c| (origin.func, origin.inst, c))
    }))
}

/// What is checked, if it is something that a derivative is lost by.
fn check(op: &AdOp) -> Option<Check> {
    match op {
        AdOp::TrapIf(_, c @ (Check::UntrackedBits | Check::ConstStore)) => Some(*c),
        AdOp::TrapIfBytes(_)
        | AdOp::ZeroMem { asks: ClearQuery::Zero | ClearQuery::Bits, .. }
        | AdOp::AddMem { shape: Shape::Bytes { .. }, .. } => Some(Check::UntrackedBits),
        _ => None,
    }
}
