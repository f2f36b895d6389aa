//! Types: that names are known, that operands fit, and that a statement can be undone.
//!
//! **Question.** Which programs are refused before they run?
//! **Answer.** Those of which a name is unknown, a type does not fit, a place is updated by what it
//! holds itself ([`ErrorKind::AliasWrite`]), a place does not end where it was made
//! ([`ErrorKind::Dealloc`]), or the number of an iteration is changed
//! ([`ErrorKind::IteratorChanged`]). Where indices decide whether two places are one, a run
//! decides.
//!
//! **After.** Each `drop` has its type, so that it can be inverted.

use std::collections::HashMap;

use crate::ast::{
    BinaryOp, Expr, ExprKind, File, Function, Len, PathStep, RevPlace, SourceSpan, Stmt, StmtKind, Type, UnaryOp,
    UpdateOp,
};
use crate::error::{ErrorKind, RevError};
use crate::layout::{Layouts, Scalar};

/// What lowered functions call.
const OF_C: [&str; 18] = [
    "sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "pow", "atan2", "hypot",
    "malloc", "free", "memset",
];

/// Words that begin something else where they stand.
const WORDS: [&str; 11] = ["if", "else", "from", "while", "for", "compute", "copy", "check", "not", "and", "or"];

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRole {
    /// A place that may be changed.
    Place,
    /// What is read only.
    Input,
    /// The number of an iteration.
    Iteration,
}

#[derive(Clone, Debug)]
struct Name {
    name: String,
    ty: Type,
    role: NameRole,
    /// In which block it was made; zero for parameters.
    depth: u32,
    at: SourceSpan,
}

/// Names and layouts, by which places have types.
#[derive(Clone, Debug)]
pub(crate) struct NameScope<'f> {
    layouts: &'f Layouts,
    names: Vec<Name>,
}

type TypeResult<T> = Result<T, RevError>;

/// Whether two places share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlap {
    Never,
    Always,
    /// Indices decide.
    Maybe,
}

/// Whether what two places lead to shares memory.
pub(crate) fn overlap(a: &RevPlace, b: &RevPlace) -> Overlap {
    if a.root != b.root {
        return Overlap::Never;
    }
    let mut found = Overlap::Always;
    for (x, y) in a.path.iter().zip(&b.path) {
        match (x, y) {
            (PathStep::Field(x), PathStep::Field(y)) if x != y => return Overlap::Never,
            (PathStep::Index(x), PathStep::Index(y)) if x != y => match (&x.kind, &y.kind) {
                (ExprKind::Int(_), ExprKind::Int(_)) => return Overlap::Never,
                _ => found = Overlap::Maybe,
            },
            _ => {}
        }
    }
    found
}

/// Check a file, and give each `drop` its type.
pub(crate) fn checked(mut file: File) -> Result<(File, Layouts), Vec<RevError>> {
    let layouts = Layouts::new(&file)?;
    let mut errors = Vec::new();
    let mut known: HashMap<String, Function> = HashMap::new();
    for f in &file.functions {
        if known.contains_key(&f.name) {
            errors.push(RevError::new(ErrorKind::Name, f.at, format!("function `{}` is defined twice", f.name)));
        } else if OF_C.iter().any(|c| f.name == *c || f.name.strip_suffix('f') == Some(c)) {
            let e = RevError::new(ErrorKind::Name, f.at, format!("`{}` is a function of C", f.name));
            errors.push(e.help("expressions call it by this name; give the function another one"));
        } else if f.name.contains("__") || f.name.starts_with("brolga_") {
            let e = RevError::new(ErrorKind::Name, f.at, format!("`{}` is a name of derived functions", f.name));
            errors.push(e.help("these begin with `brolga_`, or have two underscores in a row; give it another name"));
        }
        errors.extend(readable(&f.name, f.at).err());
        errors.iter_mut().filter(|e| e.function.is_empty()).for_each(|e| e.function.clone_from(&f.name));
        known.insert(f.name.clone(), Function { body: vec![], ..f.clone() });
    }
    for f in &mut file.functions {
        let mut checker = Checker { scope: NameScope::of(f, &layouts), known: &known, errors: vec![], depth: 0 };
        // Of places whose type is not known nothing can be said.
        if checker.params(f) {
            checker.block(&mut f.body);
        }
        errors.extend(checker.errors.into_iter().map(|e| RevError { function: f.name.clone(), ..e }));
    }
    errors.sort_by_key(|e| (e.at.line, e.at.column));
    if errors.is_empty() { Ok((file, layouts)) } else { Err(errors) }
}

impl<'f> NameScope<'f> {
    /// The parameters of a function.
    pub(crate) fn of(function: &Function, layouts: &'f Layouts) -> Self {
        let name = |p: &crate::ast::FnParam| Name {
            name: p.name.clone(),
            ty: p.ty.clone(),
            role: if p.input { NameRole::Input } else { NameRole::Place },
            depth: 0,
            at: p.at,
        };
        Self { layouts, names: function.params.iter().map(name).collect() }
    }

    fn find(&self, name: &str) -> Option<&Name> {
        self.names.iter().find(|n| n.name == name)
    }

    pub(crate) fn push(&mut self, name: &str, ty: Type, role: NameRole) {
        self.names.push(Name { name: name.to_owned(), ty, role, depth: 0, at: SourceSpan::default() });
    }

    pub(crate) fn pop(&mut self, name: &str) {
        self.names.retain(|n| n.name != name);
    }

    /// What lies in a place.
    pub(crate) fn place(&self, place: &RevPlace) -> TypeResult<Type> {
        let Some(name) = self.find(&place.root) else {
            let message = format!("there is no `{}` here", place.root);
            return Err(
                RevError::new(ErrorKind::Name, place.at, message).help("make it with `let`, or take it as a parameter")
            );
        };
        let mut ty = name.ty.clone();
        for step in &place.path {
            ty = match (step, &ty) {
                (PathStep::Index(i), Type::Array(of, n)) => {
                    let found = self.expr(i, Some(Scalar::I64))?;
                    if !found.is_int() {
                        let message = format!("an index is an integer, and `{i}` is {}", found.name());
                        return Err(RevError::new(ErrorKind::Type, i.at, message));
                    }
                    if let (ExprKind::Int(k), Len::Fixed(n)) = (&i.kind, n)
                        && !(0..i64::from(*n)).contains(k)
                    {
                        let message = format!("index {k} is out of range: there are {n}");
                        return Err(RevError::new(ErrorKind::Type, i.at, message));
                    }
                    (**of).clone()
                }
                (PathStep::Field(f), Type::Record(r)) => match self.layouts.field(r, f) {
                    Some((ty, _)) => ty.clone(),
                    None => {
                        return Err(RevError::new(ErrorKind::Name, place.at, format!("`{r}` has no field `{f}`")));
                    }
                },
                (PathStep::Field(f), Type::Complex) if f == "re" || f == "im" => Type::F64,
                (PathStep::Index(_), ty) => {
                    let message = format!("`{}` is {ty}, of which there is no element", place.root);
                    return Err(RevError::new(ErrorKind::Type, place.at, message));
                }
                (PathStep::Field(f), ty) => {
                    return Err(RevError::new(ErrorKind::Type, place.at, format!("{ty} has no field `{f}`")));
                }
            };
        }
        Ok(ty)
    }

    /// What a place without parts holds.
    pub(crate) fn scalar(&self, place: &RevPlace) -> TypeResult<Scalar> {
        let ty = self.place(place)?;
        Scalar::of(&ty).ok_or_else(|| {
            let e = RevError::new(ErrorKind::Type, place.at, format!("`{place}` is {ty}, and a number is needed"));
            e.help("name one element, or one field")
        })
    }

    /// What an expression is. Numbers without a type of their own are what is wanted.
    pub(crate) fn expr(&self, e: &Expr, want: Option<Scalar>) -> TypeResult<Scalar> {
        let wrong = |message: String| RevError::new(ErrorKind::Type, e.at, message);
        match &e.kind {
            ExprKind::Float(_) => Ok(match want {
                Some(Scalar::F32) => Scalar::F32,
                Some(Scalar::Complex) => Scalar::Complex,
                _ => Scalar::F64,
            }),
            ExprKind::Int(n) if want == Some(Scalar::I32) && i32::try_from(*n).is_err() => {
                Err(wrong(format!("{n} has more than 32 bits")))
            }
            ExprKind::Int(_) => Ok(match want {
                Some(w @ (Scalar::F64 | Scalar::F32 | Scalar::Complex | Scalar::I32)) => w,
                Some(Scalar::Q43 | Scalar::Log) => Scalar::F64,
                _ => Scalar::I64,
            }),
            ExprKind::Read(place) => self.scalar(place),
            ExprKind::Unary(UnaryOp::Not, a) => {
                self.condition(a)?;
                Ok(Scalar::Bool)
            }
            ExprKind::Unary(UnaryOp::Neg, a) => match self.expr(a, want)? {
                found @ (Scalar::Bool | Scalar::Log | Scalar::Q43) => {
                    Err(wrong(format!("{} has no sign to change here", found.name())))
                }
                found => Ok(found),
            },
            ExprKind::Binary(op, a, b) => self.binary(e, *op, a, b, want),
            ExprKind::Apply(name, args) => self.apply(e, name, args, want),
        }
    }

    /// The common type of two operands.
    pub(crate) fn operands(&self, a: &Expr, b: &Expr, want: Option<Scalar>) -> TypeResult<(Scalar, Scalar)> {
        // A number has the type of what stands beside it.
        let open = |e: &Expr| matches!(e.kind, ExprKind::Int(_) | ExprKind::Float(_));
        let (x, y) = if open(a) && !open(b) {
            let y = self.expr(b, want)?;
            (self.expr(a, Some(y))?, y)
        } else {
            let x = self.expr(a, want)?;
            (x, self.expr(b, if open(b) && !open(a) { Some(x) } else { want })?)
        };
        Ok((x, y))
    }

    fn binary(&self, e: &Expr, op: BinaryOp, a: &Expr, b: &Expr, want: Option<Scalar>) -> TypeResult<Scalar> {
        use BinaryOp as O;
        if let O::Both | O::Either = op {
            self.condition(a)?;
            self.condition(b)?;
            return Ok(Scalar::Bool);
        }
        let compares = op.level() == O::Eq.level();
        let (x, y) = self.operands(a, b, want.filter(|_| !compares))?;
        let wrong = |why: &str| {
            let message = format!("`{}` of {} and {}: {why}", op.text(), x.name(), y.name());
            RevError::new(ErrorKind::Type, e.at, message)
        };
        if compares {
            let ordered =
                matches!(x, Scalar::F64 | Scalar::F32 | Scalar::I64 | Scalar::I32 | Scalar::Q43 | Scalar::Log);
            return if x == y && ordered { Ok(Scalar::Bool) } else { Err(wrong("only like numbers are compared")) };
        }
        match op {
            O::Rem | O::And | O::Or | O::Xor | O::Shl | O::Shr if x == y && x.is_int() => Ok(x),
            O::Rem | O::And | O::Or | O::Xor | O::Shl | O::Shr => Err(wrong("both are integers of one width")),
            _ => match (x, y) {
                (Scalar::Complex, Scalar::F64) | (Scalar::F64, Scalar::Complex) => Ok(Scalar::Complex),
                (Scalar::Q43 | Scalar::Log, _) | (_, Scalar::Q43 | Scalar::Log) => {
                    Err(wrong("say `float(x)` to compute with the number that it stands for"))
                }
                _ if x == y && x != Scalar::Bool => Ok(x),
                _ => Err(wrong("say `float(x)` or `single(x)` to make them alike")),
            },
        }
    }

    /// That an expression is a condition.
    pub(crate) fn condition(&self, e: &Expr) -> TypeResult<()> {
        match self.expr(e, None)? {
            Scalar::Bool => Ok(()),
            found => {
                let message = format!("`{e}` is {}, and a condition is needed", found.name());
                Err(RevError::new(ErrorKind::Type, e.at, message).help("compare it with something"))
            }
        }
    }

    fn apply(&self, e: &Expr, name: &str, args: &[Expr], want: Option<Scalar>) -> TypeResult<Scalar> {
        use Scalar as S;
        let wrong = |message: String| RevError::new(ErrorKind::Type, e.at, message);
        let count = match name {
            "sqrt" | "exp" | "log" | "sin" | "cos" | "tan" | "asin" | "acos" | "atan" | "sinh" | "cosh" | "tanh"
            | "abs" | "abs2" | "re" | "im" | "conj" | "float" | "single" | "long" => 1,
            "pow" | "atan2" | "hypot" | "min" | "max" | "complex" => 2,
            "select" => 3,
            _ => {
                let message = format!("there is no function `{name}` of numbers");
                return Err(RevError::new(ErrorKind::Name, e.at, message)
                    .help("functions of the file are called by `call`, as statements"));
            }
        };
        if args.len() != count {
            return Err(wrong(format!("`{name}` takes {count}, and is given {}", args.len())));
        }
        let no_such = |ty: Scalar| wrong(format!("there is no `{name}` of {}", ty.name()));
        if name == "select" {
            self.condition(&args[0])?;
            let (x, y) = self.operands(&args[1], &args[2], want)?;
            let fits = x == y && matches!(x, S::F64 | S::F32 | S::I64 | S::I32);
            return if fits { Ok(x) } else { Err(wrong(format!("`select` of {} and {}", x.name(), y.name()))) };
        }
        if count == 2 {
            let wanted = if name == "complex" { Some(S::F64) } else { want.filter(|w| *w == S::F32) };
            let (x, y) = self.operands(&args[0], &args[1], wanted.or(Some(S::F64)))?;
            return match (name, x, y) {
                ("complex", S::F64, S::F64) => Ok(S::Complex),
                ("min" | "max", S::I64 | S::I32, _) if x == y => Ok(x),
                ("pow" | "atan2" | "hypot" | "min" | "max", S::F64, S::F64) => Ok(S::F64),
                ("pow" | "atan2" | "hypot" | "min" | "max", S::F32, S::F32) => Ok(S::F32),
                _ => Err(wrong(format!("`{name}` of {} and {}", x.name(), y.name()))),
            };
        }
        let wanted = match name {
            "abs" | "abs2" | "re" | "im" | "float" | "single" | "long" => None,
            _ => want.filter(|w| matches!(w, S::F32 | S::F64 | S::Complex)),
        };
        // What is written without a point is a float to a function of floats.
        let x = self.expr(&args[0], wanted.or(Some(if name == "long" { S::I32 } else { S::F64 })))?;
        match (name, x) {
            ("float", S::F64 | S::F32 | S::I64 | S::I32 | S::Q43 | S::Log) => Ok(S::F64),
            ("single", S::F64) => Ok(S::F32),
            ("long", S::I32) => Ok(S::I64),
            ("abs" | "abs2", S::F32) => Ok(S::F32),
            ("re" | "im" | "abs" | "abs2", S::Complex) | ("abs" | "abs2", S::F64) => Ok(S::F64),
            ("conj" | "exp" | "log", S::Complex) => Ok(S::Complex),
            ("re" | "im" | "conj" | "float" | "single" | "long" | "abs" | "abs2", _) => Err(no_such(x)),
            (_, S::F64 | S::F32) => Ok(x),
            _ => Err(no_such(x)),
        }
    }
}

struct Checker<'f> {
    scope: NameScope<'f>,
    known: &'f HashMap<String, Function>,
    errors: Vec<RevError>,
    depth: u32,
}

impl Checker<'_> {
    /// Check parameters: whether all their types are known.
    fn params(&mut self, f: &Function) -> bool {
        let mut known = true;
        for (i, p) in f.params.iter().enumerate() {
            if f.params[..i].iter().any(|q| q.name == p.name) {
                self.errors.push(RevError::new(
                    ErrorKind::Name,
                    p.at,
                    format!("parameter `{}` is there twice", p.name),
                ));
            }
            self.errors.extend(readable(&p.name, p.at).err());
            let unknown = self.declared(&p.ty, p.at).err();
            known &= unknown.is_none();
            self.errors.extend(unknown);
        }
        if f.params.iter().all(|p| p.input) {
            let e = RevError::new(ErrorKind::Type, f.at, format!("`{}` changes nothing: all it takes is `in`", f.name));
            self.errors.push(e.help("take the place of the result as a parameter"));
        }
        known
    }

    /// That a type is known, and its length an integer that is passed.
    fn declared(&self, ty: &Type, at: SourceSpan) -> TypeResult<()> {
        let wrong = |m: String| RevError::new(ErrorKind::Type, at, m);
        if let Type::Array(of, Len::Param(n)) | Type::Stack(of, Len::Param(n)) = ty {
            let is_length = |x: &Name| x.name == *n && x.role == NameRole::Input && x.ty == Type::I64 && x.depth == 0;
            if !self.scope.names.iter().any(is_length) {
                return Err(wrong(format!("the length `{n}` is no parameter `{n}: in i64`")));
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
    fn block(&mut self, body: &mut [Stmt]) {
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
        if fits { Ok(()) } else { Err(RevError::new(ErrorKind::Type, by.at, message())) }
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
                    return Err(wrong(format!("{} and {} cannot be exchanged", x.name(), y.name())));
                }
                self.apart(a, b)
            }
            S::Rotate { a, b, by, .. } => self.rotate(a, b, by, at),
            S::Negate(place) => match self.changed_scalar(place)? {
                Scalar::Log => Err(wrong("a logarithm stands for a positive number".to_owned())),
                _ => self.unread(place, &[]),
            },
            S::Step { place, .. } => match self.changed_scalar(place)? {
                Scalar::I64 | Scalar::I32 | Scalar::F64 | Scalar::F32 => self.unread(place, &[]),
                other => Err(wrong(format!("{} is not counted", other.name()))),
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
            S::For { var, from, to, body, .. } => {
                for limit in [&*from, &*to] {
                    match self.scope.expr(limit, Some(Scalar::I64))? {
                        Scalar::I64 => {}
                        found => return Err(wrong(format!("`{limit}` is {}, and limits are i64", found.name()))),
                    }
                }
                self.fresh(var, at)?;
                self.scope.push(var, Type::I64, NameRole::Iteration);
                self.block(body);
                self.scope.pop(var);
                Ok(())
            }
            S::Let { name, ty, value } => {
                self.fresh(name, at)?;
                self.declared(ty, at)?;
                self.value(ty, value)?;
                let depth = self.depth;
                self.scope.names.push(Name { name: name.clone(), ty: ty.clone(), role: NameRole::Place, depth, at });
                Ok(())
            }
            S::Drop { name, ty, value } => self.ends(name, ty, value, at),
            S::Compute { compute, copy } => {
                let mark = self.open(compute);
                self.block(copy);
                self.scope.names.truncate(mark);
                Ok(())
            }
            S::Call { name, args, .. } => self.call(name, args, at),
            S::Push { stack, from: place } | S::Pop { stack, to: place } => {
                let found = self.changed_scalar(place)?;
                match self.changed(stack)? {
                    Type::Stack(of, _) if Scalar::of(&of) == Some(found) => {}
                    ty => return Err(wrong(format!("`{stack}` is {ty}, and no stack of {}", found.name()))),
                }
                self.unread(place, &[])?;
                self.unread(stack, &[])
            }
            S::Checked { body, .. } => {
                self.block(body);
                Ok(())
            }
        }
    }

    fn rotate(&self, a: &RevPlace, b: &RevPlace, by: &Expr, at: SourceSpan) -> TypeResult<()> {
        let (x, y) = (self.changed_scalar(a)?, self.changed_scalar(b)?);
        if x != y || !matches!(x, Scalar::F64 | Scalar::F32) {
            let message = format!("`{a}` is {} and `{b}` is {}, and no plane", x.name(), y.name());
            return Err(RevError::new(ErrorKind::Type, at, message).help("rotate two f64, or two f32"));
        }
        if overlap(a, b) == Overlap::Always {
            return Err(RevError::new(ErrorKind::AliasWrite, b.at, format!("`{a}` is rotated with itself")));
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
            Some(_) => Err(RevError::new(ErrorKind::Name, at, format!("`{name}` is there already"))),
        }
    }

    /// What a place holds when it is made, or ends.
    fn value(&self, ty: &Type, value: &Expr) -> TypeResult<()> {
        let scalar = match ty {
            Type::Array(of, _) => Scalar::of(of),
            other => Scalar::of(other),
        };
        let is_zero = matches!(value.kind, ExprKind::Int(0));
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
            return Err(RevError::new(ErrorKind::Dealloc, at, format!("there is no `{name}` that could end here")));
        };
        let found = self.scope.names[i].clone();
        if found.depth == 0 || found.role != NameRole::Place {
            let e = RevError::new(ErrorKind::Dealloc, at, format!("`{name}` was not made by `let`, and does not end"));
            return Err(e);
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
            return Err(RevError::new(ErrorKind::Type, at, message));
        }
        self.scope.names.remove(i);
        *ty = Some(found.ty.clone());
        // What it holds is said by others.
        self.value(&found.ty, value)
    }

    fn call(&self, name: &str, args: &[Expr], at: SourceSpan) -> TypeResult<()> {
        let Some(callee) = self.known.get(name) else {
            return Err(RevError::new(ErrorKind::Name, at, format!("there is no function `{name}` in this file")));
        };
        if args.len() != callee.params.len() {
            let message = format!("`{name}` takes {}, and is given {}", callee.params.len(), args.len());
            return Err(RevError::new(ErrorKind::Type, at, message));
        }
        let mut places: Vec<(&RevPlace, bool)> = Vec::new();
        let mut others = Vec::new();
        for (arg, p) in args.iter().zip(&callee.params) {
            let wrong = |found: &str| {
                let message = format!("`{name}` takes {} as `{}`, and is given {found}", p.ty, p.name);
                RevError::new(ErrorKind::Type, arg.at, message)
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

/// That a name can be read where it is used; a builder may say anything.
fn readable(name: &str, at: SourceSpan) -> TypeResult<()> {
    let wrong = |what: &str| {
        let e = RevError::new(ErrorKind::Name, at, format!("`{name}` {what}"));
        Err(e.help("give it another name"))
    };
    let begins = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    if !begins || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return wrong("is no name: it has other than letters, digits and underscores, or begins with a digit");
    }
    if WORDS.contains(&name) { wrong("is a word of the language") } else { Ok(()) }
}

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
