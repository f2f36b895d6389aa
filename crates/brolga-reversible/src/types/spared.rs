//! What `copy` leaves as it is, so that `compute` can be undone behind it.
//!
//! **Question.** May a statement between change what has been read?
//! **Answer.** Not if it is the only one there that changes it. Of calls, exchanges and several
//! statements it is not known whether they undo each other; a run whose checks are on finds out.
//!
//! **Cost.** One walk over both blocks, and a comparison of each change with each read.

use std::collections::HashMap;

use super::{Overlap, TypeResult, overlap};
use crate::ast::{Expr, ExprKind, Function, RevPlace, Stmt, StmtKind};
use crate::error::{ErrorKind, RevError};

/// AD0034 if a block that is run between changes what the one that is undone has read.
pub(super) fn spared(compute: &[Stmt], copy: &[Stmt], known: &HashMap<String, Function>) -> TypeResult<()> {
    let (mut read, mut changed) = (Vec::new(), Vec::new());
    walk(compute, &mut |s| reads_of(s, known, &mut read));
    walk(copy, &mut |s| changes_of(s, &mut changed));
    for (place, stmt) in &changed {
        let is_update = matches!(stmt.kind, StmtKind::Update { .. } | StmtKind::Step { .. });
        if !is_update || changed.iter().any(|(other, s)| !std::ptr::eq(*s, *stmt) && other.root == place.root) {
            continue;
        }
        if let Some(r) = read.iter().find(|r| overlap(place, r) == Overlap::Always) {
            let message =
                format!("`{place}` is changed by `copy`, and `compute` has read `{r}`, so it is not undone behind it");
            let e = RevError::new(ErrorKind::AliasWrite, stmt.at, message);
            return Err(e.help("add to another place, and exchange the two behind the statement"));
        }
    }
    Ok(())
}

/// Each statement of a block, and of the blocks in it.
fn walk<'s>(body: &'s [Stmt], each: &mut impl FnMut(&'s Stmt)) {
    use StmtKind as S;
    for stmt in body {
        each(stmt);
        match &stmt.kind {
            S::If { then, other, .. } => [then, other].into_iter().for_each(|b| walk(b, each)),
            S::Compute { compute, copy } => [compute, copy].into_iter().for_each(|b| walk(b, each)),
            S::While { body, .. } | S::For { body, .. } | S::Checked { body, .. } => walk(body, each),
            _ => {}
        }
    }
}

/// The places that a statement reads besides those that it changes.
fn reads_of<'s>(stmt: &'s Stmt, known: &HashMap<String, Function>, found: &mut Vec<&'s RevPlace>) {
    use StmtKind as S;
    let mut changed = Vec::new();
    changes_of(stmt, &mut changed);
    changed.iter().for_each(|c| c.0.index_reads(found));
    match &stmt.kind {
        S::Update { by, .. } | S::Rotate { by, .. } => by.reads(found),
        S::If { pre, post, .. } => [pre, post].into_iter().for_each(|e| e.reads(found)),
        S::While { from, cond, .. } => [from, cond].into_iter().for_each(|e| e.reads(found)),
        S::For { from, to, .. } => [from, to].into_iter().for_each(|e| e.reads(found)),
        S::Let { value, .. } | S::Drop { value, .. } => value.reads(found),
        S::Call { name, args, .. } => {
            let params = known.get(name).map_or(&[][..], |f| &f.params);
            args.iter().zip(params).filter(|(_, p)| p.input).for_each(|(arg, _)| arg.reads(found));
        }
        _ => {}
    }
}

/// The places that a statement may change.
fn changes_of<'s>(stmt: &'s Stmt, found: &mut Vec<(&'s RevPlace, &'s Stmt)>) {
    use StmtKind as S;
    match &stmt.kind {
        S::Update { to: a, .. } | S::Negate(a) | S::Step { place: a, .. } => found.push((a, stmt)),
        S::Swap(a, b) | S::Rotate { a, b, .. } | S::Push { stack: a, from: b } | S::Pop { stack: a, to: b } => {
            found.extend([(a, stmt), (b, stmt)]);
        }
        S::Call { args, .. } => {
            let place = |e: &'s Expr| if let ExprKind::Read(place) = &e.kind { Some((place, stmt)) } else { None };
            found.extend(args.iter().filter_map(place));
        }
        _ => {}
    }
}
