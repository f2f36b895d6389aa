//! Builder of reversible functions: what the parser makes of text, made by calls from Rust.
//!
//! **Question.** How does a program that writes reversible functions say them?
//!
//! **Answer.** By a [`ReversibleBuilder`], whose methods are the statements. Statements are
//! numbered from 1 as they are made, and errors name these numbers as lines. Blocks are closures.
//! Places and expressions are written as text, or put together as values: [`num`], [`RevPlace`]'s
//! methods, and Rust's operators.
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
//! [`CompiledProgram::define_in`] puts it into a program, to be called and differentiated.
//!
//! **Errors.** The builder checks nothing itself; [`compile`] and [`compile_with`] return what the
//! checker and the lowering find.
//!
//! **Cost.** A statement is one node of the tree; its places and expressions are walked once, to
//! give them the statement's number.

use crate::ast::{
    CheckMode, Expr, ExprKind, File, FnParam, Function, PathStep, RecordType, RevPlace, SourceSpan, Stmt, StmtKind,
    Type, UpdateOp,
};
pub use crate::expressions::{apply, num, place};
use crate::{CompiledProgram, Errors, compile_file};

/// A function that is being made.
///
/// ```
/// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
/// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
/// let mut f = ReversibleBuilder::new("f");
/// let (x, y) = (f.input("x", Type::F64), f.param("y", Type::F64));
/// f.add(y, x.clone() * x);
/// assert_eq!(f.finish().to_string(), "fn f(x: in f64, y: f64) {\n    y += x * x\n}\n");
/// ```
#[derive(Clone, Debug)]
pub struct ReversibleBuilder {
    function: Function,
    /// Blocks that are open, the innermost last.
    blocks: Vec<Vec<Stmt>>,
    made: u32,
}

/// Compile functions that use no records.
///
/// ```
/// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
/// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
/// let mut f = ReversibleBuilder::new("f");
/// let x = f.param("x", Type::F64);
/// f.add(x.clone(), x); // cannot be undone
/// assert_eq!(build::compile([f]).unwrap_err().0[0].kind.code(), "AD0034");
/// ```
///
/// # Errors
/// As [`compile_file`].
pub fn compile(functions: impl IntoIterator<Item = ReversibleBuilder>) -> Result<CompiledProgram, Errors> {
    compile_with(Vec::new(), functions)
}

/// Compile functions with records.
///
/// ```
/// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
/// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
/// use brolga_reversible::ast::{RecordType, SourceSpan};
/// let fields = vec![("at".to_owned(), Type::F64), ("speed".to_owned(), Type::F64)];
/// let ball = RecordType { name: "Ball".to_owned(), fields, at: SourceSpan::default() };
/// let mut f = ReversibleBuilder::new("fly");
/// let b = f.param("b", Type::Record("Ball".to_owned()));
/// f.add(b.clone().field("at"), b.field("speed"));
/// let text = build::compile_with(vec![ball], [f])?.file.to_string();
/// assert!(text.starts_with("record Ball { at: f64, speed: f64 }") && text.contains("b.at += b.speed"));
/// # Ok::<(), brolga_reversible::Errors>(())
/// ```
///
/// # Errors
/// As [`compile_file`].
pub fn compile_with(
    records: Vec<RecordType>,
    functions: impl IntoIterator<Item = ReversibleBuilder>,
) -> Result<CompiledProgram, Errors> {
    compile_file(File { records, functions: functions.into_iter().map(ReversibleBuilder::finish).collect() })
}

impl ReversibleBuilder {
    /// A function of this name, which does nothing yet.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// assert_eq!(ReversibleBuilder::new("f").finish().to_string(), "fn f() {\n}\n");
    /// ```
    pub fn new(name: &str) -> Self {
        let at = SourceSpan::default();
        let (params, body, check) = Default::default();
        let function = Function { name: name.to_owned(), params, body, check, at };
        Self { function, blocks: vec![vec![]], made: 0 }
    }

    /// What is checked.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.check(CheckMode::Bits);
    /// assert!(f.finish().to_string().contains("check bits"));
    /// ```
    pub fn check(&mut self, check: CheckMode) {
        self.function.check = check;
    }

    /// A parameter that the function changes.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.param("x", Type::F64);
    /// assert!(f.finish().to_string().contains("fn f(x: f64)"));
    /// ```
    pub fn param(&mut self, name: &str, ty: Type) -> RevPlace {
        self.parameter(name, ty, false)
    }

    /// A parameter that is read only.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.input("n", Type::I64);
    /// assert!(f.finish().to_string().contains("fn f(n: in i64)"));
    /// ```
    pub fn input(&mut self, name: &str, ty: Type) -> RevPlace {
        self.parameter(name, ty, true)
    }

    fn parameter(&mut self, name: &str, ty: Type, input: bool) -> RevPlace {
        self.function.params.push(FnParam { name: name.to_owned(), ty, input, at: self.function.at });
        place(name)
    }

    /// The function.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.negate(place("x"));
    /// assert_eq!(f.finish().body.len(), 1);
    /// ```
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
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.stmt(StmtKind::Step { place: place("n"), down: false });
    /// assert!(f.finish().to_string().contains("inc n"));
    /// ```
    pub fn stmt(&mut self, kind: StmtKind) {
        self.push(kind);
    }

    /// `to += by`
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.add(place("y"), place("x") * 2.0);
    /// assert!(f.finish().to_string().contains("y += x * 2.0"));
    /// ```
    pub fn add(&mut self, to: RevPlace, by: impl Into<Expr>) {
        self.push(StmtKind::Update { op: UpdateOp::Add, to, by: by.into() });
    }

    /// `to -= by`
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.sub(place("y"), 1);
    /// assert!(f.finish().to_string().contains("y -= 1"));
    /// ```
    pub fn sub(&mut self, to: RevPlace, by: impl Into<Expr>) {
        self.push(StmtKind::Update { op: UpdateOp::Sub, to, by: by.into() });
    }

    /// `to ^= by`
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.xor(place("bits"), place("mask"));
    /// assert!(f.finish().to_string().contains("bits ^= mask"));
    /// ```
    pub fn xor(&mut self, to: RevPlace, by: impl Into<Expr>) {
        self.push(StmtKind::Update { op: UpdateOp::Xor, to, by: by.into() });
    }

    /// `to *= by`, of logarithms.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.multiply(place("p"), 0.5);
    /// assert!(f.finish().to_string().contains("p *= 0.5"));
    /// ```
    pub fn multiply(&mut self, to: RevPlace, by: impl Into<Expr>) {
        self.push(StmtKind::Update { op: UpdateOp::Mul, to, by: by.into() });
    }

    /// `to /= by`, of logarithms.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.divide(place("p"), 0.5);
    /// assert!(f.finish().to_string().contains("p /= 0.5"));
    /// ```
    pub fn divide(&mut self, to: RevPlace, by: impl Into<Expr>) {
        self.push(StmtKind::Update { op: UpdateOp::Div, to, by: by.into() });
    }

    /// Exchange two places.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.swap(place("x"), place("y"));
    /// assert!(f.finish().to_string().contains("swap x, y"));
    /// ```
    pub fn swap(&mut self, a: RevPlace, b: RevPlace) {
        self.push(StmtKind::Swap(a, b));
    }

    /// Rotate the plane of two floats by an angle in radians.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.rotate(place("x"), place("y"), 0.1);
    /// assert!(f.finish().to_string().contains("rotate x, y by 0.1"));
    /// ```
    pub fn rotate(&mut self, a: RevPlace, b: RevPlace, by: impl Into<Expr>) {
        self.push(StmtKind::Rotate { a, b, by: by.into(), back: false });
    }

    /// Rotate it back.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.unrotate(place("x"), place("y"), 0.1);
    /// assert!(f.finish().to_string().contains("unrotate x, y by 0.1"));
    /// ```
    pub fn unrotate(&mut self, a: RevPlace, b: RevPlace, by: impl Into<Expr>) {
        self.push(StmtKind::Rotate { a, b, by: by.into(), back: true });
    }

    /// Move a number onto a stack, which leaves zero.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.push_to(place("s"), place("n"));
    /// assert!(f.finish().to_string().contains("push s, n"));
    /// ```
    pub fn push_to(&mut self, stack: RevPlace, from: RevPlace) {
        self.push(StmtKind::Push { stack, from });
    }

    /// Move the top of a stack to a place that holds zero.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.pop_from(place("s"), place("n"));
    /// assert!(f.finish().to_string().contains("pop s, n"));
    /// ```
    pub fn pop_from(&mut self, stack: RevPlace, to: RevPlace) {
        self.push(StmtKind::Pop { stack, to });
    }

    /// Change the sign.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.negate(place("x"));
    /// assert!(f.finish().to_string().contains("neg x"));
    /// ```
    pub fn negate(&mut self, place: RevPlace) {
        self.push(StmtKind::Negate(place));
    }

    /// A new place.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// let t = f.make("t", Type::F64, 0.0);
    /// f.swap(t, place("x"));
    /// assert!(f.finish().to_string().contains("let t: f64 = 0.0"));
    /// ```
    pub fn make(&mut self, name: &str, ty: Type, value: impl Into<Expr>) -> RevPlace {
        self.push(StmtKind::Let { name: name.to_owned(), ty, value: value.into() });
        place(name)
    }

    /// The end of a place, which holds this.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// let t = f.make("t", Type::F64, 0.0);
    /// f.end(&t, 0.0);
    /// assert!(f.finish().to_string().contains("drop t = 0.0"));
    /// ```
    pub fn end(&mut self, name: &RevPlace, value: impl Into<Expr>) {
        self.push(StmtKind::Drop { name: name.root.clone(), ty: None, value: value.into() });
    }

    /// `if (pre, post)`
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// let positive = Expr::from(place("n")).greater(0);
    /// f.choose(positive.clone(), positive, |f| f.add(place("y"), 1), |f| f.sub(place("y"), 1));
    /// assert!(f.finish().to_string().contains("if n > 0 {"));
    /// ```
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
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// let k = || Expr::from(place("k"));
    /// f.repeat(k().equals(0), k().less(place("n")), |f| f.add(place("k"), 1));
    /// assert!(f.finish().to_string().contains("from k == 0 while k < n {"));
    /// ```
    pub fn repeat(&mut self, from: impl Into<Expr>, cond: impl Into<Expr>, body: impl FnOnce(&mut Self)) {
        let at = self.next();
        let (from, cond) = (from.into(), cond.into());
        let body = self.block(body);
        self.put(StmtKind::While { from, cond, body }, at);
    }

    /// `for var in from .. to`
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.count("i", 0, place("n"), |f, i| f.add(place("y"), place("x").at(i)));
    /// assert!(f.finish().to_string().contains("for i in 0 .. n {"));
    /// ```
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
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.compute(|f| f.add(place("t"), place("x")), |f| f.add(place("y"), place("t")));
    /// assert_eq!(f.finish().to_string().matches("+=").count(), 2); // the undoing is not written
    /// ```
    pub fn compute(&mut self, compute: impl FnOnce(&mut Self), copy: impl FnOnce(&mut Self)) {
        let at = self.next();
        let (compute, copy) = (self.block(compute), self.block(copy));
        self.put(StmtKind::Compute { compute, copy }, at);
    }

    /// Call a function.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.call("step", [place("x").into(), num(2)]);
    /// assert!(f.finish().to_string().contains("call step(x, 2)"));
    /// ```
    pub fn call(&mut self, name: &str, args: impl IntoIterator<Item = Expr>) {
        self.push(StmtKind::Call { name: name.to_owned(), args: args.into_iter().collect(), un_call: false });
    }

    /// Call the inverse of a function.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.uncall("step", [place("x").into(), num(2)]);
    /// assert!(f.finish().to_string().contains("uncall step(x, 2)"));
    /// ```
    pub fn uncall(&mut self, name: &str, args: impl IntoIterator<Item = Expr>) {
        self.push(StmtKind::Call { name: name.to_owned(), args: args.into_iter().collect(), un_call: true });
    }

    /// A region with checks of its own.
    ///
    /// ```
    /// # use brolga_reversible::ast::{CheckMode, Expr, Len, StmtKind, Type};
    /// # use brolga_reversible::build::{self, ReversibleBuilder, apply, num, place};
    /// # let mut f = ReversibleBuilder::new("f");
    /// f.checked(CheckMode::Off, |f| f.negate(place("x")));
    /// assert!(f.finish().to_string().contains("check off {"));
    /// ```
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
