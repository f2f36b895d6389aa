//! What `copy` leaves as it is, so that `compute` can be undone after it.
//!
//! **Question.** May a statement between change what has been read?
//! **Answer.** Not if no other one there undoes the change: `x += e` and `x -= e`, `inc` and `dec`,
//! a rotation and its opposite, the halves of a `compute`. Of calls, exchanges and stacks it is not
//! known, nor of indices that differ in what they read; a run whose checks are on finds out.
//!
//! **Cost.** One walk over both blocks, and a comparison of each change with each read.

use std::collections::{HashMap, HashSet};

use super::overlap::{Overlap, TypeResult, overlap};
use crate::ast::{Expr, ExprKind, Function, RevPlace, Stmt, StmtKind};
use crate::error::{ErrorKind, RevError};
use crate::invert::inverse_stmt;

/// AD0034 if a block that is run between changes what the one that is undone has read.
pub(super) fn spared(compute: &[Stmt], copy: &[Stmt], known: &HashMap<String, Function>) -> TypeResult<()> {
    let (mut read, mut changed) = (Vec::new(), Vec::new());
    walk(compute, true, &mut |s| reads_of(s, known, &mut read));
    walk(copy, false, &mut |s| changes_of(s, known, &mut changed));
    let mut inner = HashSet::new();
    walk(compute, true, &mut |s| inner.extend(ended(s)));
    walk(copy, true, &mut |s| inner.extend(begun(s)));
    let mut moves = inner.clone();
    for block in [compute, copy] {
        let mut all = Vec::new();
        walk(block, true, &mut |s| changes_of(s, known, &mut all));
        moves.extend(all.iter().map(|c| c.0.root.as_str()));
        walk(block, true, &mut |s| moves.extend(counted(s)));
    }
    for (i, (place, stmt)) in changed.iter().enumerate() {
        let opposite = inverse_stmt(stmt).kind;
        let is_undone = changed.iter().enumerate().any(|(j, (to, other))| {
            i != j && (other.kind == opposite || !is_change(&other.kind) && to.root == place.root)
        });
        if !is_change(&stmt.kind) || is_undone || inner.contains(place.root.as_str()) || is_led(place, &moves) {
            continue;
        }
        // Of a whole that is passed a part may be read.
        let is_read = |r: &&&RevPlace| r.path.len() >= place.path.len() && overlap(place, r) == Overlap::Always;
        if let Some(r) = read.iter().find(is_read) {
            let message =
                format!("`{place}` is changed by `copy`, and `compute` has read `{r}`, so it is not undone behind it");
            let e = RevError::new(ErrorKind::AliasWrite, stmt.at, message);
            return Err(e.help("add to another place, and exchange the two behind the statement"));
        }
    }
    Ok(())
}

/// Whether a statement changes places in a way that is known.
fn is_change(kind: &StmtKind) -> bool {
    use StmtKind as S;
    matches!(kind, S::Update { .. } | S::Step { .. } | S::Negate(_) | S::Rotate { .. })
}

/// Whether an index of a place reads one of these names.
fn is_led(place: &RevPlace, by: &HashSet<&str>) -> bool {
    let mut read = Vec::new();
    place.index_reads(&mut read);
    read.iter().any(|r| by.contains(r.root.as_str()))
}

/// Each statement of a block, and of the blocks in it: of a `compute` in it both, or, if it has
/// undone what it computes, the other one.
fn walk<'s>(body: &'s [Stmt], computed: bool, each: &mut impl FnMut(&'s Stmt)) {
    for stmt in body {
        each(stmt);
        let undone = usize::from(!computed && matches!(stmt.kind, StmtKind::Compute { .. }));
        stmt.blocks().into_iter().skip(undone).for_each(|b| walk(b, computed, each));
    }
}

/// The name that a statement makes.
fn begun(stmt: &Stmt) -> Option<&str> {
    if let StmtKind::Let { name, .. } = &stmt.kind { Some(name) } else { None }
}

/// The name that a statement ends.
fn ended(stmt: &Stmt) -> Option<&str> {
    if let StmtKind::Drop { name, .. } = &stmt.kind { Some(name) } else { None }
}

/// What a statement counts with.
fn counted(stmt: &Stmt) -> Option<&str> {
    if let StmtKind::For { var, .. } = &stmt.kind { Some(var) } else { None }
}

/// The places that a statement reads. Those that are exchanged, moved or passed are read, too.
fn reads_of<'s>(stmt: &'s Stmt, known: &HashMap<String, Function>, found: &mut Vec<&'s RevPlace>) {
    use StmtKind as S;
    let mut changed = Vec::new();
    changes_of(stmt, known, &mut changed);
    changed.iter().for_each(|c| c.0.index_reads(found));
    stmt.exprs().into_iter().for_each(|e| e.reads(found));
    if let S::Rotate { a, b, .. } | S::Swap(a, b) | S::Push { stack: a, from: b } | S::Pop { stack: a, to: b } =
        &stmt.kind
    {
        found.extend([a, b]);
    }
}

/// The places that a statement may change.
fn changes_of<'s>(stmt: &'s Stmt, known: &HashMap<String, Function>, found: &mut Vec<(&'s RevPlace, &'s Stmt)>) {
    use StmtKind as S;
    match &stmt.kind {
        S::Update { to: a, .. } | S::Negate(a) | S::Step { place: a, .. } => found.push((a, stmt)),
        S::Swap(a, b) | S::Rotate { a, b, .. } | S::Push { stack: a, from: b } | S::Pop { stack: a, to: b } => {
            found.extend([(a, stmt), (b, stmt)]);
        }
        S::Call { name, args, .. } => {
            let params = known.get(name).map_or(&[][..], |f| &f.params);
            let place = |(e, p): (&'s Expr, &crate::ast::FnParam)| match &e.kind {
                ExprKind::Read(place) if !p.input => Some((place, stmt)),
                _ => None,
            };
            found.extend(args.iter().zip(params).filter_map(place));
        }
        _ => {}
    }
}
