//! Functions from Rust: what the parser makes of text, made by calls.
//!
//! **Question.** How does a program that writes reversible functions say them?
//! **Answer.** By a [`ReversibleBuilder`], whose methods are the statements. Statements are
//! numbered from 1 as they are made, and errors name these numbers as lines. Places and expressions
//! are written as text, or put together as values: [`num`], [`RevPlace`]'s methods, and Rust's
//! operators.
//!
//! ```
//! use brolga_reversible::ast::{Len, Type};
//! use brolga_reversible::build::{ReversibleBuilder, place};
//!
//! let mut f = ReversibleBuilder::new("squares");
//! let y = f.param("y", Type::F64);
//! let n = f.input("n", Type::I64);
//! let x = f.input("x", Type::Array(Box::new(Type::F64), Len::Param("n".into())));
//! f.count("i", 0, n, |f, i| {
//!     let xi = x.clone().at(i);
//!     f.add(y.clone(), xi.clone() * xi);
//! });
//! let program = brolga_reversible::build::compile([f])?;
//! assert_eq!(program.file.functions[0].to_string(), "\
//! fn squares(y: f64, n: in i64, x: in [f64 x n]) {
//!     for i in 0 .. n {
//!         y += x[i] * x[i]
//!     }
//! }
//! ");
//! # Ok::<(), brolga_reversible::Errors>(())
//! ```
//!
//! [`Compiled::define_in`] puts it into a program, to be called and differentiated.

use crate::ast::{
    BinaryOp, CheckMode, Expr, ExprKind, File, FnParam, Function, PathStep, RecordType, RevPlace, SourceSpan, Stmt,
    StmtKind, Type, UnaryOp, UpdateOp,
};
use crate::{Compiled, Errors, compile_file};

/// A function that is being made.
#[derive(Clone, Debug)]
pub struct ReversibleBuilder {
    function: Function,
    /// Blocks that are open, the innermost last.
    blocks: Vec<Vec<Stmt>>,
    made: u32,
}

/// Compile functions that use no records.
///
/// # Errors
/// As [`compile_file`].
pub fn compile(functions: impl IntoIterator<Item = ReversibleBuilder>) -> Result<Compiled, Errors> {
    compile_with(Vec::new(), functions)
}

/// Compile functions with records.
///
/// # Errors
/// As [`compile_file`].
pub fn compile_with(
    records: Vec<RecordType>,
    functions: impl IntoIterator<Item = ReversibleBuilder>,
) -> Result<Compiled, Errors> {
    compile_file(File { records, functions: functions.into_iter().map(ReversibleBuilder::finish).collect() })
}

/// A place by its name.
pub fn place(name: &str) -> RevPlace {
    RevPlace { root: name.to_owned(), path: vec![], at: SourceSpan::default() }
}

/// A number.
pub fn num(n: impl Into<Expr>) -> Expr {
    n.into()
}

/// A function of numbers, such as `sqrt`.
pub fn apply<const N: usize>(name: &str, args: [Expr; N]) -> Expr {
    ExprKind::Apply(name.to_owned(), args.into()).into()
}

impl RevPlace {
    /// An element of the array that lies there.
    #[must_use]
    pub fn at(mut self, index: impl Into<Expr>) -> Self {
        self.path.push(PathStep::Index(index.into()));
        self
    }

    /// A field of the record that lies there.
    #[must_use]
    pub fn field(mut self, name: &str) -> Self {
        self.path.push(PathStep::Field(name.to_owned()));
        self
    }
}

impl Expr {
    fn with(self, op: BinaryOp, other: impl Into<Self>) -> Self {
        ExprKind::Binary(op, Box::new(self), Box::new(other.into())).into()
    }

    /// Whether it is the same.
    #[must_use]
    pub fn equals(self, other: impl Into<Self>) -> Self {
        self.with(BinaryOp::Eq, other)
    }

    /// Whether it is less.
    #[must_use]
    pub fn less(self, other: impl Into<Self>) -> Self {
        self.with(BinaryOp::Lt, other)
    }

    /// Whether it is more.
    #[must_use]
    pub fn greater(self, other: impl Into<Self>) -> Self {
        self.with(BinaryOp::Gt, other)
    }

    /// Whether both hold.
    #[must_use]
    pub fn both(self, other: impl Into<Self>) -> Self {
        self.with(BinaryOp::Both, other)
    }
}

impl From<ExprKind> for Expr {
    fn from(kind: ExprKind) -> Self {
        Self { kind, at: SourceSpan::default() }
    }
}

impl From<RevPlace> for Expr {
    fn from(place: RevPlace) -> Self {
        ExprKind::Read(place).into()
    }
}

impl From<f64> for Expr {
    fn from(x: f64) -> Self {
        ExprKind::Float(x).into()
    }
}

impl From<i64> for Expr {
    fn from(n: i64) -> Self {
        ExprKind::Int(n).into()
    }
}

impl From<i32> for Expr {
    fn from(n: i32) -> Self {
        ExprKind::Int(n.into()).into()
    }
}

macro_rules! operators {
    ($($of:ident, $method:ident, $op:ident;)*) => {$(
        impl<R: Into<Expr>> std::ops::$of<R> for Expr {
            type Output = Expr;

            fn $method(self, other: R) -> Expr {
                self.with(BinaryOp::$op, other)
            }
        }

        impl<R: Into<Expr>> std::ops::$of<R> for RevPlace {
            type Output = Expr;

            fn $method(self, other: R) -> Expr {
                Expr::from(self).with(BinaryOp::$op, other)
            }
        }
    )*};
}

operators! {
    Add, add, Add;
    Sub, sub, Sub;
    Mul, mul, Mul;
    Div, div, Div;
    Rem, rem, Rem;
}

impl std::ops::Neg for Expr {
    type Output = Self;

    fn neg(self) -> Self {
        ExprKind::Unary(UnaryOp::Neg, Box::new(self)).into()
    }
}

impl ReversibleBuilder {
    /// A function of this name, which does nothing yet.
    pub fn new(name: &str) -> Self {
        let at = SourceSpan::default();
        let (params, body, check) = Default::default();
        let function = Function { name: name.to_owned(), params, body, check, at };
        Self { function, blocks: vec![vec![]], made: 0 }
    }

    /// What is checked.
    pub fn check(&mut self, check: CheckMode) {
        self.function.check = check;
    }

    /// A parameter that the function changes.
    pub fn param(&mut self, name: &str, ty: Type) -> RevPlace {
        self.parameter(name, ty, false)
    }

    /// A parameter that is read only.
    pub fn input(&mut self, name: &str, ty: Type) -> RevPlace {
        self.parameter(name, ty, true)
    }

    fn parameter(&mut self, name: &str, ty: Type, input: bool) -> RevPlace {
        self.function.params.push(FnParam { name: name.to_owned(), ty, input, at: self.function.at });
        place(name)
    }

    /// The function.
    pub fn finish(mut self) -> Function {
        self.function.body = self.blocks.pop().unwrap_or_default();
        self.function
    }

    fn next(&mut self) -> SourceSpan {
        self.made += 1;
        SourceSpan { line: self.made, column: 0 }
    }

    fn push(&mut self, kind: StmtKind) {
        let at = self.next();
        self.put(kind, at);
    }

    fn put(&mut self, kind: StmtKind, at: SourceSpan) {
        let stmt = Stmt { kind: placed(kind, at), at };
        self.blocks.last_mut().expect("a block is open").push(stmt);
    }

    fn block(&mut self, of: impl FnOnce(&mut Self)) -> Vec<Stmt> {
        self.blocks.push(Vec::new());
        of(self);
        self.blocks.pop().expect("it was opened")
    }

    /// Any statement.
    pub fn stmt(&mut self, kind: StmtKind) {
        self.push(kind);
    }

    /// `to += by`
    pub fn add(&mut self, to: RevPlace, by: impl Into<Expr>) {
        self.push(StmtKind::Update { op: UpdateOp::Add, to, by: by.into() });
    }

    /// `to -= by`
    pub fn sub(&mut self, to: RevPlace, by: impl Into<Expr>) {
        self.push(StmtKind::Update { op: UpdateOp::Sub, to, by: by.into() });
    }

    /// `to ^= by`
    pub fn xor(&mut self, to: RevPlace, by: impl Into<Expr>) {
        self.push(StmtKind::Update { op: UpdateOp::Xor, to, by: by.into() });
    }

    /// `to *= by`, of logarithms.
    pub fn multiply(&mut self, to: RevPlace, by: impl Into<Expr>) {
        self.push(StmtKind::Update { op: UpdateOp::Mul, to, by: by.into() });
    }

    /// `to /= by`, of logarithms.
    pub fn divide(&mut self, to: RevPlace, by: impl Into<Expr>) {
        self.push(StmtKind::Update { op: UpdateOp::Div, to, by: by.into() });
    }

    /// Exchange two places.
    pub fn swap(&mut self, a: RevPlace, b: RevPlace) {
        self.push(StmtKind::Swap(a, b));
    }

    /// Rotate the plane of two floats by an angle in radians.
    pub fn rotate(&mut self, a: RevPlace, b: RevPlace, by: impl Into<Expr>) {
        self.push(StmtKind::Rotate { a, b, by: by.into(), back: false });
    }

    /// Rotate it back.
    pub fn unrotate(&mut self, a: RevPlace, b: RevPlace, by: impl Into<Expr>) {
        self.push(StmtKind::Rotate { a, b, by: by.into(), back: true });
    }

    /// Move a number onto a stack, which leaves zero.
    pub fn push_to(&mut self, stack: RevPlace, from: RevPlace) {
        self.push(StmtKind::Push { stack, from });
    }

    /// Move the top of a stack to a place that holds zero.
    pub fn pop_from(&mut self, stack: RevPlace, to: RevPlace) {
        self.push(StmtKind::Pop { stack, to });
    }

    /// Change the sign.
    pub fn negate(&mut self, place: RevPlace) {
        self.push(StmtKind::Negate(place));
    }

    /// A new place.
    pub fn make(&mut self, name: &str, ty: Type, value: impl Into<Expr>) -> RevPlace {
        self.push(StmtKind::Let { name: name.to_owned(), ty, value: value.into() });
        place(name)
    }

    /// The end of a place, which holds this.
    pub fn end(&mut self, name: &RevPlace, value: impl Into<Expr>) {
        self.push(StmtKind::Drop { name: name.root.clone(), ty: None, value: value.into() });
    }

    /// `if (pre, post)`
    pub fn choose(
        &mut self,
        pre: impl Into<Expr>,
        post: impl Into<Expr>,
        then: impl FnOnce(&mut Self),
        other: impl FnOnce(&mut Self),
    ) {
        let at = self.next();
        let (pre, post) = (pre.into(), post.into());
        let (then, other) = (self.block(then), self.block(other));
        self.put(StmtKind::If { pre, post, then, other }, at);
    }

    /// `from … while …`
    pub fn repeat(&mut self, from: impl Into<Expr>, cond: impl Into<Expr>, body: impl FnOnce(&mut Self)) {
        let at = self.next();
        let (from, cond) = (from.into(), cond.into());
        let body = self.block(body);
        self.put(StmtKind::While { from, cond, body }, at);
    }

    /// `for var in from .. to`
    pub fn count(
        &mut self,
        var: &str,
        from: impl Into<Expr>,
        to: impl Into<Expr>,
        body: impl FnOnce(&mut Self, RevPlace),
    ) {
        let at = self.next();
        let (from, to) = (from.into(), to.into());
        let body = self.block(|f| body(f, place(var)));
        self.put(StmtKind::For { var: var.to_owned(), from, to, back: false, body }, at);
    }

    /// Compute, copy, and undo the first.
    pub fn compute(&mut self, compute: impl FnOnce(&mut Self), copy: impl FnOnce(&mut Self)) {
        let at = self.next();
        let (compute, copy) = (self.block(compute), self.block(copy));
        self.put(StmtKind::Compute { compute, copy }, at);
    }

    /// Call a function.
    pub fn call(&mut self, name: &str, args: impl IntoIterator<Item = Expr>) {
        self.push(StmtKind::Call { name: name.to_owned(), args: args.into_iter().collect(), un_call: false });
    }

    /// Call the inverse of a function.
    pub fn uncall(&mut self, name: &str, args: impl IntoIterator<Item = Expr>) {
        self.push(StmtKind::Call { name: name.to_owned(), args: args.into_iter().collect(), un_call: true });
    }

    /// A region with checks of its own.
    pub fn checked(&mut self, check: CheckMode, body: impl FnOnce(&mut Self)) {
        let at = self.next();
        let body = self.block(body);
        self.put(StmtKind::Checked { check, body }, at);
    }
}

/// A statement whose places and expressions stand where it does.
fn placed(mut kind: StmtKind, at: SourceSpan) -> StmtKind {
    use StmtKind as S;
    let (mut places, mut exprs): (Vec<&mut RevPlace>, Vec<&mut Expr>) = (vec![], vec![]);
    match &mut kind {
        S::Update { to, by, .. } => (places, exprs) = (vec![to], vec![by]),
        S::Swap(a, b) => places = vec![a, b],
        S::Rotate { a, b, by, .. } => (places, exprs) = (vec![a, b], vec![by]),
        S::Negate(p) | S::Step { place: p, .. } => places = vec![p],
        S::If { pre, post, .. } => exprs = vec![pre, post],
        S::While { from, cond, .. } => exprs = vec![from, cond],
        S::For { from, to, .. } => exprs = vec![from, to],
        S::Let { value, .. } | S::Drop { value, .. } => exprs = vec![value],
        S::Call { args, .. } => exprs = args.iter_mut().collect(),
        S::Push { stack, from: p } | S::Pop { stack, to: p } => places = vec![stack, p],
        S::Compute { .. } | S::Checked { .. } => {}
    }
    places.into_iter().for_each(|p| place_at(p, at));
    exprs.into_iter().for_each(|e| expr_at(e, at));
    kind
}

fn place_at(place: &mut RevPlace, at: SourceSpan) {
    place.at = at;
    for step in &mut place.path {
        if let PathStep::Index(i) = step {
            expr_at(i, at);
        }
    }
}

fn expr_at(e: &mut Expr, at: SourceSpan) {
    e.at = at;
    match &mut e.kind {
        ExprKind::Float(_) | ExprKind::Int(_) => {}
        ExprKind::Read(place) => place_at(place, at),
        ExprKind::Unary(_, a) => expr_at(a, at),
        ExprKind::Binary(_, a, b) => {
            expr_at(a, at);
            expr_at(b, at);
        }
        ExprKind::Apply(_, args) => args.iter_mut().for_each(|a| expr_at(a, at)),
    }
}
