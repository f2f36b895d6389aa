//! Printer: functions as text, which is what [`crate::parse`] reads.
//!
//! **Question.** How is a function written that a builder has made, or an inversion?
//!
//! **Answer.** By `Display` of every node: a statement is a line, blocks are indented by four,
//! brackets stand where levels of operators need them, and after `not`. An `if` whose conditions
//! are the same is written with one of them.
//!
//! **Invariant.** Reading what is printed gives the same function, but for where its nodes stand
//! and the types of `drop`, which the checker adds.
//!
//! **Cost.** One walk over the tree.

use std::fmt::{self, Write as _};

use crate::ast::{
    CheckMode, Expr, ExprKind, File, Function, Len, PathStep, RevPlace, Stmt, StmtKind, Type, UnaryOp, UpdateOp,
};

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for r in &self.records {
            let fields: Vec<String> = r.fields.iter().map(|(n, ty)| format!("{n}: {ty}")).collect();
            writeln!(f, "record {} {{ {} }}\n", r.name, fields.join(", "))?;
        }
        for (i, function) in self.functions.iter().enumerate() {
            write!(f, "{}{function}", if i > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let check = if self.check == CheckMode::default() { String::new() } else { format!(" check {}", self.check) };
        writeln!(f, "fn {}{check} {{", self.head())?;
        let mut text = String::new();
        statements(&mut text, &self.body, 1);
        writeln!(f, "{text}}}")
    }
}

impl fmt::Display for CheckMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Bits => f.write_str("bits"),
            Self::Within(t) => write!(f, "{t:e}"),
        }
    }
}

impl fmt::Display for Len {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(n) => write!(f, "{n}"),
            Self::Param(n) => f.write_str(n),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::F64 => f.write_str("f64"),
            Self::F32 => f.write_str("f32"),
            Self::Complex => f.write_str("complex"),
            Self::I64 => f.write_str("i64"),
            Self::I32 => f.write_str("i32"),
            Self::Q43 => f.write_str("q43"),
            Self::Log => f.write_str("log"),
            Self::Array(ty, n) => write!(f, "[{ty} x {n}]"),
            Self::Stack(ty, n) => write!(f, "stack [{ty} x {n}]"),
            Self::Record(n) => f.write_str(n),
        }
    }
}

impl fmt::Display for UpdateOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+=",
            Self::Sub => "-=",
            Self::Xor => "^=",
            Self::Mul => "*=",
            Self::Div => "/=",
        })
    }
}

impl fmt::Display for RevPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)?;
        for step in &self.path {
            match step {
                PathStep::Index(i) => write!(f, "[{i}]")?,
                PathStep::Field(n) => write!(f, ".{n}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Float(x) => write!(f, "{x:?}"),
            ExprKind::Int(n) => write!(f, "{n}"),
            ExprKind::Read(place) => write!(f, "{place}"),
            ExprKind::Unary(UnaryOp::Neg, a) if matches!(a.kind, ExprKind::Read(_) | ExprKind::Apply(..)) => {
                write!(f, "-{a}")
            }
            ExprKind::Unary(UnaryOp::Neg, a) => write!(f, "-({a})"),
            ExprKind::Unary(UnaryOp::Not, a) => write!(f, "not ({a})"),
            ExprKind::Binary(op, a, b) => {
                let side = |e: &Expr, least: u8| match &e.kind {
                    ExprKind::Binary(inner, ..) if inner.level() < least => format!("({e})"),
                    ExprKind::Unary(UnaryOp::Not, _) => format!("({e})"),
                    _ => e.to_string(),
                };
                write!(f, "{} {} {}", side(a, op.level()), op.text(), side(b, op.level() + 1))
            }
            ExprKind::Apply(name, args) => {
                let args: Vec<String> = args.iter().map(Expr::to_string).collect();
                write!(f, "{name}({})", args.join(", "))
            }
        }
    }
}

fn statements(out: &mut String, body: &[Stmt], depth: usize) {
    for stmt in body {
        out.push_str(&"    ".repeat(depth));
        statement(out, stmt, depth);
        out.push('\n');
    }
}

fn block(out: &mut String, body: &[Stmt], depth: usize) {
    out.push_str("{\n");
    statements(out, body, depth + 1);
    out.push_str(&"    ".repeat(depth));
    out.push('}');
}

fn statement(out: &mut String, stmt: &Stmt, depth: usize) {
    use StmtKind as S;
    // Writing to a string does not fail.
    let _ = match &stmt.kind {
        S::Update { op, to, by } => write!(out, "{to} {op} {by}"),
        S::Swap(a, b) => write!(out, "swap {a}, {b}"),
        S::Rotate { a, b, by, back } => write!(out, "{}rotate {a}, {b} by {by}", if *back { "un" } else { "" }),
        S::Negate(p) => write!(out, "neg {p}"),
        S::Step { place, down } => write!(out, "{} {place}", if *down { "dec" } else { "inc" }),
        S::If { pre, post, then, other } => {
            let _ = if pre == post { write!(out, "if {pre} ") } else { write!(out, "if ({pre}, {post}) ") };
            block(out, then, depth);
            match &other[..] {
                [] => {}
                [one @ Stmt { kind: S::If { .. }, .. }] => {
                    out.push_str(" else ");
                    statement(out, one, depth);
                }
                more => {
                    out.push_str(" else ");
                    block(out, more, depth);
                }
            }
            Ok(())
        }
        S::While { from, cond, body } => {
            let _ = write!(out, "from {from} while {cond} ");
            block(out, body, depth);
            Ok(())
        }
        S::For { var, from, to, back, body } => {
            let _ = write!(out, "for {var} in {}{from} .. {to} ", if *back { "back " } else { "" });
            block(out, body, depth);
            Ok(())
        }
        S::Let { name, ty, value } => write!(out, "let {name}: {ty} = {value}"),
        S::Drop { name, value, .. } => write!(out, "drop {name} = {value}"),
        S::Compute { compute, copy } => {
            out.push_str("compute ");
            block(out, compute, depth);
            out.push_str(" copy ");
            block(out, copy, depth);
            Ok(())
        }
        S::Call { name, args, un_call } => {
            let args: Vec<String> = args.iter().map(Expr::to_string).collect();
            write!(out, "{}call {name}({})", if *un_call { "un" } else { "" }, args.join(", "))
        }
        S::Push { stack, from } => write!(out, "push {stack}, {from}"),
        S::Pop { stack, to } => write!(out, "pop {stack}, {to}"),
        S::Checked { check, body } => {
            let _ = write!(out, "check {check} ");
            block(out, body, depth);
            Ok(())
        }
    };
}
