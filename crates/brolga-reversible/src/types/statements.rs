//! Type checking of reversible statements: that each can be undone.
//!
//! **Question.** Does a statement change what it does not read, and are the types of its places and
//! expressions those that it is for?
//!
//! **Answer.** By cases, one for each statement, in a [`Checker`] that knows the names in scope and
//! the functions of the file. After an error the next statement is looked at.
//!
//! | what is checked | so that |
//! |---|---|
//! | a place is not read by what changes it | the inverse computes the same |
//! | an update is `+=` or `-=`, `^=` of integers, `*=` or `/=` of logarithms | it has an inverse |
//! | iterations' numbers and what is read only do not change | both directions read the same |
//! | a place ends in the block that makes it, and says what it holds | undoing can make it again |
//! | a call is given what it changes once | its inverse finds it unchanged |
//!
//! Places whose indices differ in the text may still be the same place: a run checks that
//! ([`Overlap::Maybe`]).
//!
//! **Errors.** Each says what is wrong, where, and what could be written instead.
//!
//! **Cost.** One walk over the statements. The places of a call are compared in pairs, so a
//! function has at most 128 parameters.

use std::collections::HashMap;

use super::advice::alike;
use super::overlap::{Overlap, TypeResult, overlap, readable};
use super::scope::{Name, NameRole, NameScope};
use super::spared::spared;
use crate::ast::{Expr, ExprKind, Function, Len, RevPlace, SourceSpan, Stmt, StmtKind, Type, UpdateOp};
use crate::error::{ErrorKind, RevError};
use crate::layout::Scalar;

pub(super) struct Checker<'f> {
    pub(super) scope: NameScope<'f>,
    pub(super) known: &'f HashMap<String, Function>,
    pub(super) errors: Vec<RevError>,
    pub(super) depth: u32,
}

impl Checker<'_> {
    /// Check parameters: whether all their types are known.
    pub(super) fn params(&mut self, f: &Function) -> bool {
        let mut known = true;
        for (i, p) in f.params.iter().enumerate() {
            if f.params[..i].iter().any(|q| q.name == p.name) {
                let e = RevError::new(ErrorKind::Name, p.at, format!("parameter `{}` is there twice", p.name));
                self.errors.push(e.help("give one of them another name"));
            }
            self.errors.extend(readable(&p.name, p.at).err());
            let unknown = self.declared(&p.ty, p.at).err();
            known &= unknown.is_none();
            self.errors.extend(unknown);
        }
        if f.params.len() > MOST_PARAMS {
            let message = format!("`{}` has more than {MOST_PARAMS} parameters", f.name);
            self.errors.push(RevError::new(ErrorKind::Type, f.at, message).help("put some into a record or an array"));
            return false;
        }
        if f.params.iter().all(|p| p.input) {
            let e = RevError::new(ErrorKind::Type, f.at, format!("`{}` changes nothing: all it takes is `in`", f.name));
            self.errors.push(e.help("take the place of the result as a parameter"));
        }
        known
    }

    /// That a type is known, and its length an integer that is passed.
    fn declared(&self, ty: &Type, at: SourceSpan) -> TypeResult<()> {
        let wrong = |m: String| RevError::new(ErrorKind::Type, at, m).help(KINDS);
        if let Type::Array(of, Len::Param(n)) | Type::Stack(of, Len::Param(n)) = ty {
            let is_length = |x: &Name| x.name == *n && x.role == NameRole::Input && x.ty == Type::I64 && x.depth == 0;
            if !self.scope.names.iter().any(is_length) {
                return Err(wrong(format!("the length `{n}` is no parameter `{n}: in i64`")).help(LENGTHS));
            }
            self.element(of).and_then(|()| self.scope.layouts.size(of).map(|_| ())).map_err(wrong)
        } else {
            if let Type::Array(of, _) | Type::Stack(of, _) = ty {
                self.element(of).map_err(wrong)?;
            }
            self.scope.layouts.size(ty).map(|_| ()).map_err(wrong)
        }
    }

    fn element(&self, ty: &Type) -> Result<(), String> {
        match ty {
            Type::Stack(..) => Err("there are no arrays of stacks".to_owned()),
            _ => Ok(()),
        }
    }

    /// A block. What was made in it ends in it.
    pub(super) fn block(&mut self, body: &mut [Stmt]) {
        let mark = self.open(body);
        for n in self.scope.names.split_off(mark) {
            let e = RevError::new(
                ErrorKind::Dealloc,
                n.at,
                format!("`{}` does not end in the block that makes it", n.name),
            );
            self.errors
                .push(e.help(format!("undo what is computed in it, and say what is left: `drop {} = …`", n.name)));
        }
    }

    /// The same, but for the end; how many names there were.
    fn open(&mut self, body: &mut [Stmt]) -> usize {
        let mark = self.scope.names.len();
        self.depth += 1;
        for stmt in body {
            if let Err(e) = self.stmt(stmt) {
                self.errors.push(e);
            }
        }
        self.depth -= 1;
        mark
    }

    /// A place that a statement may change.
    fn changed(&self, place: &RevPlace) -> TypeResult<Type> {
        let ty = self.scope.place(place)?;
        let name = self.scope.find(&place.root).expect("it was found");
        match name.role {
            NameRole::Place => Ok(ty),
            NameRole::Input => {
                let e = RevError::new(ErrorKind::Type, place.at, format!("`{}` is read only", place.root));
                Err(e.help("take it without `in`"))
            }
            NameRole::Iteration => {
                let message = format!("`{}` is the number of an iteration, which must not change", place.root);
                Err(RevError::new(ErrorKind::IteratorChanged, place.at, message).help("copy it to a place of its own"))
            }
        }
    }

    fn changed_scalar(&self, place: &RevPlace) -> TypeResult<Scalar> {
        self.changed(place)?;
        self.scope.scalar(place)
    }

    /// That a place is not read by what changes it.
    fn unread(&self, place: &RevPlace, by: &[&Expr]) -> TypeResult<()> {
        let mut reads = Vec::new();
        by.iter().for_each(|e| e.reads(&mut reads));
        place.index_reads(&mut reads);
        match reads.into_iter().find(|r| overlap(place, r) == Overlap::Always) {
            None => Ok(()),
            Some(read) => {
                let message = format!("`{place}` is changed by an expression that reads it");
                let e = RevError::new(ErrorKind::AliasWrite, read.at, message);
                Err(e.help("compute the expression in a place of its own first"))
            }
        }
    }

    fn fits(&self, place: Scalar, by: &Expr) -> TypeResult<()> {
        let found = self.scope.expr(by, Some(place))?;
        let fits = found == place
            || matches!((place, found), (Scalar::Complex, Scalar::F64) | (Scalar::Q43 | Scalar::Log, Scalar::F64));
        let message = || format!("`{by}` is {}, and the place is {}", found.name(), place.name());
        if fits { Ok(()) } else { Err(RevError::new(ErrorKind::Type, by.at, message()).help(alike(place, found))) }
    }

    fn stmt(&mut self, stmt: &mut Stmt) -> TypeResult<()> {
        use StmtKind as S;
        let at = stmt.at;
        let wrong = |message: String| RevError::new(ErrorKind::Type, at, message);
        match &mut stmt.kind {
            S::Update { op, to, by } => {
                let ty = self.changed_scalar(to)?;
                let fits = match op {
                    UpdateOp::Add | UpdateOp::Sub => ty != Scalar::Log,
                    UpdateOp::Xor => ty.is_int(),
                    UpdateOp::Mul | UpdateOp::Div => ty == Scalar::Log,
                };
                if !fits {
                    let e = wrong(format!("`{op}` of {} cannot be undone", ty.name()));
                    return Err(e.help(
                        "`+=` and `-=` are for floats and integers, `^=` for integers, `*=` and `/=` for `log`",
                    ));
                }
                self.fits(ty, by)?;
                self.unread(to, &[by])
            }
            S::Swap(a, b) => {
                let (x, y) = (self.changed_scalar(a)?, self.changed_scalar(b)?);
                if x != y {
                    let e = wrong(format!("{} and {} cannot be exchanged", x.name(), y.name()));
                    return Err(e.help("exchange two places of one type"));
                }
                self.apart(a, b)
            }
            S::Rotate { a, b, by, .. } => self.rotate(a, b, by, at),
            S::Negate(place) => match self.changed_scalar(place)? {
                Scalar::Log => {
                    let e = wrong("a logarithm stands for a positive number".to_owned());
                    Err(e.help("`m /= float(l)` makes one over it, in a place that holds 1"))
                }
                _ => self.unread(place, &[]),
            },
            S::Step { place, .. } => match self.changed_scalar(place)? {
                Scalar::I64 | Scalar::I32 | Scalar::F64 | Scalar::F32 => self.unread(place, &[]),
                other => {
                    let e = wrong(format!("{} is not counted", other.name()));
                    Err(e.help("`inc` and `dec` are for floats and integers; add a number by `+=`"))
                }
            },
            S::If { pre, post, then, other } => {
                self.scope.condition(pre)?;
                self.scope.condition(post)?;
                self.block(then);
                self.block(other);
                Ok(())
            }
            S::While { from, cond, body } => {
                self.scope.condition(from)?;
                self.scope.condition(cond)?;
                self.block(body);
                Ok(())
            }
            S::For { var, from, to, body, .. } => self.count(var, [from, to], body, at),
            S::Let { name, ty, value } => {
                self.fresh(name, at)?;
                self.declared(ty, at)?;
                let fits = self.value(ty, value);
                let depth = self.depth;
                self.scope.names.push(Name { name: name.clone(), ty: ty.clone(), role: NameRole::Place, depth, at });
                fits
            }
            S::Drop { name, ty, value } => self.ends(name, ty, value, at),
            S::Compute { compute, copy } => {
                let mark = self.open(compute);
                self.block(copy);
                self.scope.names.truncate(mark);
                spared(compute, copy, self.known)
            }
            S::Call { name, args, .. } => self.call(name, args, at),
            S::Push { stack, from: place } | S::Pop { stack, to: place } => self.moved(stack, place, at),
            S::Checked { body, .. } => {
                self.block(body);
                Ok(())
            }
        }
    }

    fn count(&mut self, var: &str, limits: [&Expr; 2], body: &mut [Stmt], at: SourceSpan) -> TypeResult<()> {
        let wrong = |message: String| RevError::new(ErrorKind::Type, at, message);
        for limit in limits {
            match self.scope.expr(limit, Some(Scalar::I64))? {
                Scalar::I64 => {}
                found => {
                    let e = wrong(format!("`{limit}` is {}, and limits are i64", found.name()));
                    return Err(e.help(alike(Scalar::I64, found)));
                }
            }
        }
        self.fresh(var, at)?;
        self.scope.push(var, Type::I64, NameRole::Iteration);
        self.block(body);
        self.scope.pop(var);
        Ok(())
    }

    /// A number goes to a stack, or comes from it.
    fn moved(&self, stack: &RevPlace, place: &RevPlace, at: SourceSpan) -> TypeResult<()> {
        let wrong = |message: String| RevError::new(ErrorKind::Type, at, message);
        let found = self.changed_scalar(place)?;
        match self.changed(stack)? {
            Type::Stack(of, _) if Scalar::of(&of) == Some(found) => {}
            ty => {
                let e = wrong(format!("`{stack}` is {ty}, and no stack of {}", found.name()));
                return Err(e.help("the stack is named first: `push s, x`, `pop s, x`"));
            }
        }
        self.unread(place, &[])?;
        self.unread(stack, &[])?;
        self.apart(place, stack)
    }

    fn rotate(&self, a: &RevPlace, b: &RevPlace, by: &Expr, at: SourceSpan) -> TypeResult<()> {
        let (x, y) = (self.changed_scalar(a)?, self.changed_scalar(b)?);
        if x != y || !matches!(x, Scalar::F64 | Scalar::F32) {
            let message = format!("`{a}` is {} and `{b}` is {}, and no plane", x.name(), y.name());
            return Err(RevError::new(ErrorKind::Type, at, message).help("rotate two f64, or two f32"));
        }
        if overlap(a, b) == Overlap::Always {
            let e = RevError::new(ErrorKind::AliasWrite, b.at, format!("`{a}` is rotated with itself"));
            return Err(e.help("a plane has two places"));
        }
        self.fits(x, by)?;
        self.unread(a, &[by])?;
        self.unread(b, &[by])?;
        self.apart(a, b)
    }

    /// That neither place is led to by the other.
    fn apart(&self, a: &RevPlace, b: &RevPlace) -> TypeResult<()> {
        let mut reads = Vec::new();
        a.index_reads(&mut reads);
        b.index_reads(&mut reads);
        match reads.into_iter().find(|r| [a, b].iter().any(|p| overlap(p, r) == Overlap::Always)) {
            None => Ok(()),
            Some(r) => {
                let message = format!("an index reads `{r}`, which is changed");
                Err(RevError::new(ErrorKind::AliasWrite, r.at, message).help("copy the index to a place of its own"))
            }
        }
    }

    fn fresh(&self, name: &str, at: SourceSpan) -> TypeResult<()> {
        readable(name, at)?;
        match self.scope.find(name) {
            None => Ok(()),
            Some(_) => {
                let e = RevError::new(ErrorKind::Name, at, format!("`{name}` is there already"));
                Err(e.help("give this one another name, or end the other one first (`drop`)"))
            }
        }
    }

    /// What a place holds when it is made, or ends.
    fn value(&self, ty: &Type, value: &Expr) -> TypeResult<()> {
        let scalar = match ty {
            Type::Array(of, _) => Scalar::of(of),
            other => Scalar::of(other),
        };
        let is_zero = matches!(value.kind, ExprKind::Int(0));
        let positive = match value.kind {
            ExprKind::Int(n) => n > 0,
            ExprKind::Float(x) => x > 0.0,
            _ => true,
        };
        let large = match value.kind {
            ExprKind::Int(n) => n.unsigned_abs() > 1 << 10,
            ExprKind::Float(x) => x.abs() > f64::from(1 << 10),
            _ => false,
        };
        if scalar == Some(Scalar::Q43) && large {
            let e = RevError::new(ErrorKind::Type, value.at, format!("`{value}` is no `q43`, which are up to 2¹⁰"));
            return Err(e.help("take a smaller unit, or an f64"));
        }
        if scalar == Some(Scalar::Log) && !positive {
            let e = RevError::new(ErrorKind::Type, value.at, format!("`{value}` has no logarithm"));
            return Err(e.help("a `log` begins with a positive number, such as 1"));
        }
        let is_number = matches!(value.kind, ExprKind::Int(_) | ExprKind::Float(_));
        match scalar {
            _ if is_zero && scalar != Some(Scalar::Log) => Ok(()),
            Some(s) if is_number || matches!(ty, Type::F64 | Type::F32 | Type::Complex) || Scalar::of(ty).is_some() => {
                self.fits(s, value)
            }
            _ => {
                let e = RevError::new(ErrorKind::Type, value.at, format!("{ty} is made of one number, or of 0"));
                Err(e.help("make it of 0, and compute in it"))
            }
        }
    }

    fn ends(&mut self, name: &str, ty: &mut Option<Type>, value: &Expr, at: SourceSpan) -> TypeResult<()> {
        let Some(i) = self.scope.names.iter().position(|n| n.name == name) else {
            let e = RevError::new(ErrorKind::Dealloc, at, format!("there is no `{name}` that could end here"));
            return Err(e.help("`drop` ends what `let` has made in the same block"));
        };
        let found = self.scope.names[i].clone();
        if found.depth == 0 || found.role != NameRole::Place {
            let e = RevError::new(ErrorKind::Dealloc, at, format!("`{name}` was not made by `let`, and does not end"));
            return Err(e.help("leave the statement out: a parameter is the caller's place"));
        }
        if found.depth != self.depth {
            let e = RevError::new(
                ErrorKind::Dealloc,
                at,
                format!("`{name}` ends in another block than that which makes it"),
            );
            return Err(e.help("let it end where it was made"));
        }
        if ty.as_ref().is_some_and(|t| *t != found.ty) {
            let message = format!("`{name}` is {}", found.ty);
            let e = RevError::new(ErrorKind::Type, at, message);
            return Err(e.help("leave the type out, or write that of `let`"));
        }
        self.scope.names.remove(i);
        *ty = Some(found.ty.clone());
        // What it holds is said by others.
        self.value(&found.ty, value)
    }

    fn call(&self, name: &str, args: &[Expr], at: SourceSpan) -> TypeResult<()> {
        let Some(callee) = self.known.get(name) else {
            let e = RevError::new(ErrorKind::Name, at, format!("there is no function `{name}` in this file"));
            return Err(e.help("define it in the file; functions of numbers (`sqrt`) stand in expressions"));
        };
        if args.len() != callee.params.len() {
            let (n, given) = (callee.params.len(), args.len());
            let message =
                format!("`{name}` takes {n} {}, and is given {given}", if n == 1 { "argument" } else { "arguments" });
            return Err(RevError::new(ErrorKind::Type, at, message).help(format!("it is `{}`", callee.head())));
        }
        let mut places: Vec<(&RevPlace, bool)> = Vec::new();
        let mut others = Vec::new();
        for (arg, p) in args.iter().zip(&callee.params) {
            let wrong = |found: &str| {
                let message = format!("`{name}` takes {} as `{}`, and is given {found}", p.ty, p.name);
                RevError::new(ErrorKind::Type, arg.at, message).help(format!("it is `{}`", callee.head()))
            };
            if p.input && matches!(p.ty, Type::I64 | Type::I32) {
                let want = Scalar::of(&p.ty).expect("it is an integer");
                let found = self.scope.expr(arg, Some(want))?;
                if found != want {
                    return Err(wrong(found.name()));
                }
                arg.reads(&mut others);
                continue;
            }
            let ExprKind::Read(place) = &arg.kind else {
                return Err(wrong("an expression").help("pass a place; make one with `let`"));
            };
            let found = if p.input { self.scope.place(place)? } else { self.changed(place)? };
            if !passes(&found, &p.ty) {
                return Err(wrong(&found.to_string()));
            }
            place.index_reads(&mut others);
            places.push((place, p.input));
        }
        for (i, &(place, input)) in places.iter().enumerate() {
            let mut beside = places[..i].iter().filter(|q| !(input && q.1)).map(|q| q.0);
            let twice = beside.find(|q| overlap(place, q) == Overlap::Always);
            let read = others.iter().copied().find(|r| !input && overlap(place, r) == Overlap::Always);
            if let Some(other) = twice.or(read) {
                let message = format!("`{name}` is given `{place}` and `{other}`, which share a place that it changes");
                return Err(RevError::new(ErrorKind::AliasWrite, place.at, message).help("pass a copy of one of them"));
            }
        }
        Ok(())
    }
}

/// Each place of a call is compared with each other one.
const MOST_PARAMS: usize = 128;

const KINDS: &str = "there are numbers, records that stand in front of it, and `[T x n]` and `stack [T x n]` of these";

const LENGTHS: &str = "lengths are numbers, or parameters of the function that are passed by value";

/// Whether what lies in a place is what a parameter takes. A run compares lengths that are not
/// fixed.
fn passes(found: &Type, wanted: &Type) -> bool {
    let lengths = |a: &Len, b: &Len| match (a, b) {
        (Len::Fixed(a), Len::Fixed(b)) => a == b,
        _ => true,
    };
    match (found, wanted) {
        (Type::Array(x, a), Type::Array(y, b)) | (Type::Stack(x, a), Type::Stack(y, b)) => x == y && lengths(a, b),
        _ => found == wanted,
    }
}
