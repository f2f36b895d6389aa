//! Inversion: the statement that undoes a statement.
//!
//! **Question.** What is the inverse of a function?
//!
//! **Answer.** Its statements in opposite order, each inverted ([`inverse_stmt`]). Nothing else is
//! known of them:
//!
//! | statement | inverse |
//! |---|---|
//! | `x += e`, `x *= e` | `x -= e`, `x /= e` |
//! | `inc x`, `rotate a, b by e` | `dec x`, `unrotate a, b by e` |
//! | `x ^= e`, `swap a, b`, `neg x` | the same |
//! | `if (pre, post) { A } else { B }` | `if (post, pre) { A⁻¹ } else { B⁻¹ }` |
//! | `from e while c { A }` | `from not c while not e { A⁻¹ }` |
//! | `for i in a .. b { A }` | `for i in back a .. b { A⁻¹ }` |
//! | `let x: T = v`, `push s, x`, `call f(…)` | `drop x: T = v`, `pop s, x`, `uncall f(…)` |
//! | `compute { A } copy { B }` | `compute { A } copy { B⁻¹ }` |
//!
//! [`inverse`] keeps the function's name, since callers say `uncall`; [`inverse_by_name`] is for
//! where all functions are inverted.
//!
//! **Invariant.** Inverting twice gives what was there.
//!
//! **Cost.** A copy of the tree.

use crate::ast::{Function, Stmt, StmtKind, UpdateOp};

/// The function that undoes a function. It has the same name: callers say `uncall`.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// let file = parse("fn f(x: f64) { x += 1.0 \n neg x }").expect("it is of the language");
/// let inverse = invert::inverse(&file.functions[0]);
/// assert_eq!(inverse.to_string(), "fn f(x: f64) {\n    neg x\n    x -= 1.0\n}\n");
/// assert_eq!(invert::inverse(&inverse).to_string(), file.functions[0].to_string());
/// ```
pub fn inverse(function: &Function) -> Function {
    Function { body: inverse_of(&function.body), ..function.clone() }
}

/// The same where all functions are inverted, so that a name stands for what undoes a function: a
/// call undoes where it ran, and runs where it undid.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// let file = parse("fn f(x: f64) { call g(x) } fn g(x: f64) { neg x }").expect("it is of the language");
/// assert!(invert::inverse(&file.functions[0]).to_string().contains("uncall g(x)"));
/// assert!(invert::inverse_by_name(&file.functions[0]).to_string().contains("    call g(x)"));
/// ```
pub fn inverse_by_name(function: &Function) -> Function {
    let mut inverse = inverse(function);
    turn_calls(&mut inverse.body);
    inverse
}

fn turn_calls(body: &mut [Stmt]) {
    use StmtKind as S;
    for stmt in body {
        match &mut stmt.kind {
            S::Call { un_call, .. } => *un_call = !*un_call,
            S::If { then, other, .. } => {
                turn_calls(then);
                turn_calls(other);
            }
            S::While { body, .. } | S::For { body, .. } | S::Checked { body, .. } => turn_calls(body),
            S::Compute { compute, copy } => {
                turn_calls(compute);
                turn_calls(copy);
            }
            S::Update { .. }
            | S::Swap(..)
            | S::Rotate { .. }
            | S::Negate(_)
            | S::Step { .. }
            | S::Let { .. }
            | S::Drop { .. }
            | S::Push { .. }
            | S::Pop { .. } => {}
        }
    }
}

/// The statements that undo some.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// let file = parse("fn f(x: f64) { x += 1.0 \n neg x }").expect("it is of the language");
/// let inverse = invert::inverse_of(&file.functions[0].body);
/// assert_eq!(inverse[0].kind, StmtKind::Negate(place("x")));
/// ```
pub fn inverse_of(body: &[Stmt]) -> Vec<Stmt> {
    body.iter().rev().map(inverse_stmt).collect()
}

/// The statement that undoes one.
///
/// ```
/// # use brolga_reversible::ast::*;
/// # use brolga_reversible::{build::{num, place}, invert, parse::parse};
/// let file = parse("fn f(x: f64) { x += 1.0 }").expect("it is of the language");
/// let inverse = invert::inverse_stmt(&file.functions[0].body[0]);
/// assert_eq!(inverse.kind, StmtKind::Update { op: UpdateOp::Sub, to: place("x"), by: num(1.0) });
/// ```
pub fn inverse_stmt(stmt: &Stmt) -> Stmt {
    use StmtKind as S;
    let kind = match stmt.kind.clone() {
        S::Update { op, to, by } => S::Update { op: opposite(op), to, by },
        S::Swap(a, b) => S::Swap(a, b),
        S::Rotate { a, b, by, back } => S::Rotate { a, b, by, back: !back },
        S::Negate(place) => S::Negate(place),
        S::Step { place, down } => S::Step { place, down: !down },
        S::If { pre, post, then, other } => {
            S::If { pre: post, post: pre, then: inverse_of(&then), other: inverse_of(&other) }
        }
        S::While { from, cond, body } => {
            S::While { from: cond.negated(), cond: from.negated(), body: inverse_of(&body) }
        }
        S::For { var, from, to, back, body } => S::For { var, from, to, back: !back, body: inverse_of(&body) },
        S::Let { name, ty, value } => S::Drop { name, ty: Some(ty), value },
        S::Drop { name, ty, value } => S::Let { name, ty: ty.expect("the checker has put it there"), value },
        S::Compute { compute, copy } => S::Compute { compute, copy: inverse_of(&copy) },
        S::Call { name, args, un_call } => S::Call { name, args, un_call: !un_call },
        S::Push { stack, from } => S::Pop { stack, to: from },
        S::Pop { stack, to } => S::Push { stack, from: to },
        S::Checked { check, body } => S::Checked { check, body: inverse_of(&body) },
    };
    Stmt { kind, at: stmt.at }
}

fn opposite(op: UpdateOp) -> UpdateOp {
    match op {
        UpdateOp::Add => UpdateOp::Sub,
        UpdateOp::Sub => UpdateOp::Add,
        UpdateOp::Xor => UpdateOp::Xor,
        UpdateOp::Mul => UpdateOp::Div,
        UpdateOp::Div => UpdateOp::Mul,
    }
}
