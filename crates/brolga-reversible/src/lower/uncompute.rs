//! `compute { A } copy { B }`: A, B and A⁻¹, without what nothing depends on.
//!
//! **Question.** What of it has to run?
//! **Answer.** All but two things:
//!
//! - The cotangents of places that begin here are zero, so A hands on nothing where it changes only
//!   such: it runs without cotangents, as does what it calls. A⁻¹, after B, has all of them.
//! - What A⁻¹ gives back is not read where the places end after it, nothing is checked, and no
//!   cotangents are carried.
//!
//! ```text
//! let s = 0;  compute { s += e(x) } copy { y += s };  drop s = 0
//!     alone:              s += e(x);  y += s
//!     with cotangents:    s += e(x);  y -= s, s̄ += ȳ;  s -= e(x), x̄ += s̄ ∂e/∂x
//! ```
//!
//! **Cost.** A walk over the statements around each `compute`.

use std::collections::HashSet;

use super::state::StmtLowering;
use crate::ast::{CheckMode, Expr, ExprKind, RevPlace, Stmt, StmtKind};
use crate::invert::inverse_of;
use crate::layout::Scalar;

/// What statements name.
#[derive(Default)]
struct NamedPlaces<'s> {
    /// What is read or changed.
    all: HashSet<&'s str>,
    changed: HashSet<&'s str>,
    /// What begins there.
    ancillas: HashSet<&'s str>,
    /// Whether something in regions of their own, or in functions that are called, is checked.
    checked: bool,
}

impl<'s> NamedPlaces<'s> {
    fn place(&mut self, place: &'s RevPlace, changed: bool) {
        self.all.insert(&place.root);
        if changed {
            self.changed.insert(&place.root);
        }
        let mut reads = Vec::new();
        place.index_reads(&mut reads);
        self.all.extend(reads.into_iter().map(|p| p.root.as_str()));
    }

    fn expr(&mut self, e: &'s Expr) {
        let mut reads = Vec::new();
        e.reads(&mut reads);
        self.all.extend(reads.into_iter().map(|p| p.root.as_str()));
    }
}

impl StmtLowering<'_, '_> {
    /// Whether statements hand cotangents on.
    pub(super) fn carries(&self) -> bool {
        self.with_cotangents && !self.quiet
    }

    fn named<'s>(&self, body: &'s [Stmt]) -> NamedPlaces<'s> {
        let mut found = NamedPlaces::default();
        body.iter().for_each(|stmt| self.names(stmt, &mut found));
        found
    }

    fn names<'s>(&self, stmt: &'s Stmt, found: &mut NamedPlaces<'s>) {
        let within = |body: &'s [Stmt], found: &mut NamedPlaces<'s>| body.iter().for_each(|s| self.names(s, found));
        match &stmt.kind {
            StmtKind::Update { to, by, .. } => {
                found.place(to, true);
                found.expr(by);
            }
            StmtKind::Rotate { a, b, by, .. } => {
                found.place(a, true);
                found.place(b, true);
                found.expr(by);
            }
            StmtKind::Swap(a, b) | StmtKind::Push { stack: a, from: b } | StmtKind::Pop { stack: a, to: b } => {
                found.place(a, true);
                found.place(b, true);
            }
            StmtKind::Negate(place) | StmtKind::Step { place, .. } => found.place(place, true),
            StmtKind::If { pre: a, post: b, then, other } => {
                found.expr(a);
                found.expr(b);
                within(then, found);
                within(other, found);
            }
            StmtKind::While { from: a, cond: b, body } | StmtKind::For { from: a, to: b, body, .. } => {
                found.expr(a);
                found.expr(b);
                within(body, found);
            }
            StmtKind::Let { name, value, .. } => {
                found.ancillas.insert(name);
                found.expr(value);
            }
            StmtKind::Drop { name, value, .. } => {
                found.all.insert(name);
                found.expr(value);
            }
            StmtKind::Compute { compute, copy } => {
                within(compute, found);
                within(copy, found);
            }
            StmtKind::Call { name, args, .. } => {
                found.checked |= self.cx.fallible.contains(name);
                for (param, arg) in self.cx.function(name).params.iter().zip(args) {
                    match &arg.kind {
                        ExprKind::Read(place) => found.place(place, !param.input),
                        _ => found.expr(arg),
                    }
                }
            }
            StmtKind::Checked { check, body } => {
                found.checked |= *check != CheckMode::Off;
                within(body, found);
            }
        }
    }

    /// What a statement names may have a cotangent after it.
    pub(super) fn used(&mut self, stmt: &Stmt) {
        if self.fresh.is_empty() {
            return;
        }
        let named = self.named(std::slice::from_ref(stmt)).all;
        let named: Vec<String> = named.into_iter().map(str::to_owned).collect();
        named.iter().for_each(|n| {
            self.fresh.remove(n);
        });
    }

    /// `compute { A } copy { B }`, and what comes after it in its block.
    pub(super) fn compute(&mut self, stmt: &Stmt, behind: &[Stmt]) {
        let StmtKind::Compute { compute, copy } = &stmt.kind else { unreachable!("it is one") };
        let named = self.named(compute);
        let changed: HashSet<&str> = named.changed.difference(&named.ancillas).copied().collect();
        let without = self.quiet || changed.iter().all(|&n| self.fresh.contains(n));
        let around = std::mem::replace(&mut self.quiet, without);
        self.block(compute);
        self.quiet = around;
        self.used(stmt);
        self.block(copy);
        let checked = named.checked || self.check != CheckMode::Off;
        if self.carries() || checked || !self.end_behind(changed, behind) {
            return self.block(&inverse_of(compute));
        }
        let ended =
            |name: &String| compute.iter().any(|s| matches!(&s.kind, StmtKind::Drop { name: n, .. } if n == name));
        for stmt in compute.iter().rev() {
            let StmtKind::Let { name, ty, value } = &stmt.kind else { continue };
            if ended(name) {
                continue;
            }
            if Scalar::of(ty).is_none() {
                self.end_memory(name, ty, value, stmt.at.line);
            }
            self.scope.pop(name);
            self.homes.remove(name);
        }
    }

    /// Whether these places end before they are named again.
    fn end_behind(&self, mut places: HashSet<&str>, behind: &[Stmt]) -> bool {
        for stmt in behind {
            if places.is_empty() {
                return true;
            }
            if let StmtKind::Drop { name, value, .. } = &stmt.kind {
                places.remove(name.as_str());
                let mut reads = Vec::new();
                value.reads(&mut reads);
                if reads.iter().all(|p| !places.contains(p.root.as_str())) {
                    continue;
                }
            }
            if !self.named(std::slice::from_ref(stmt)).all.is_disjoint(&places) {
                return false;
            }
        }
        places.is_empty()
    }
}
