//! Places and expressions as values, for the builder.
//!
//! **Question.** How does a builder's caller say `2 * x[i] - 0.5`?
//!
//! **Answer.** By [`num`], [`RevPlace`]'s methods, Rust's operators, and methods for what Rust's
//! operators cannot return: comparisons and what joins conditions. [`apply`] names a function of
//! numbers. Numbers and places become expressions by `Into`.
//!
//! **Cost.** A node for each operator. The builder gives all of them the place of their statement.

use crate::ast::{BinaryOp, Expr, ExprKind, PathStep, RevPlace, SourceSpan, UnaryOp};

/// A place by its name.
///
/// ```
/// # use brolga_reversible::build::place;
/// assert_eq!(place("x").to_string(), "x");
/// ```
pub fn place(name: &str) -> RevPlace {
    RevPlace { root: name.to_owned(), path: vec![], at: SourceSpan::default() }
}

/// A number.
///
/// ```
/// # use brolga_reversible::build::{num, place};
/// assert_eq!((num(2) * place("x") - 0.5).to_string(), "2 * x - 0.5");
/// ```
pub fn num(n: impl Into<Expr>) -> Expr {
    n.into()
}

/// A function of numbers, such as `sqrt`.
///
/// ```
/// # use brolga_reversible::build::{apply, place};
/// assert_eq!(apply("sqrt", [place("x").into()]).to_string(), "sqrt(x)");
/// ```
pub fn apply<const N: usize>(name: &str, args: [Expr; N]) -> Expr {
    ExprKind::Apply(name.to_owned(), args.into()).into()
}

impl RevPlace {
    /// An element of the array that lies there.
    ///
    /// ```
    /// # use brolga_reversible::build::place;
    /// assert_eq!(place("x").at(place("i") + 1).to_string(), "x[i + 1]");
    /// ```
    #[must_use]
    pub fn at(mut self, index: impl Into<Expr>) -> Self {
        self.path.push(PathStep::Index(index.into()));
        self
    }

    /// A field of the record that lies there.
    ///
    /// ```
    /// # use brolga_reversible::build::place;
    /// assert_eq!(place("ball").field("speed").to_string(), "ball.speed");
    /// ```
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
    ///
    /// ```
    /// # use brolga_reversible::build::{num, place};
    /// assert_eq!(num(2).equals(place("n")).to_string(), "2 == n");
    /// ```
    #[must_use]
    pub fn equals(self, other: impl Into<Self>) -> Self {
        self.with(BinaryOp::Eq, other)
    }

    /// Whether it is less.
    ///
    /// ```
    /// # use brolga_reversible::ast::Expr;
    /// # use brolga_reversible::build::place;
    /// assert_eq!(Expr::from(place("x")).less(0.5).to_string(), "x < 0.5");
    /// ```
    #[must_use]
    pub fn less(self, other: impl Into<Self>) -> Self {
        self.with(BinaryOp::Lt, other)
    }

    /// Whether it is more.
    ///
    /// ```
    /// # use brolga_reversible::ast::Expr;
    /// # use brolga_reversible::build::place;
    /// assert_eq!(Expr::from(place("x")).greater(0.5).to_string(), "x > 0.5");
    /// ```
    #[must_use]
    pub fn greater(self, other: impl Into<Self>) -> Self {
        self.with(BinaryOp::Gt, other)
    }

    /// Whether both hold.
    ///
    /// ```
    /// # use brolga_reversible::ast::Expr;
    /// # use brolga_reversible::build::place;
    /// let x = Expr::from(place("x"));
    /// assert_eq!(x.clone().greater(0.0).both(x.less(1.0)).to_string(), "x > 0.0 and x < 1.0");
    /// ```
    #[must_use]
    pub fn both(self, other: impl Into<Self>) -> Self {
        self.with(BinaryOp::Both, other)
    }

    /// Whether it is not the same.
    ///
    /// ```
    /// # use brolga_reversible::build::{num, place};
    /// assert_eq!(num(2).differs(place("n")).to_string(), "2 != n");
    /// ```
    #[must_use]
    pub fn differs(self, other: impl Into<Self>) -> Self {
        self.with(BinaryOp::Ne, other)
    }

    /// Whether it is not more.
    ///
    /// ```
    /// # use brolga_reversible::ast::Expr;
    /// # use brolga_reversible::build::place;
    /// assert_eq!(Expr::from(place("x")).at_most(0.5).to_string(), "x <= 0.5");
    /// ```
    #[must_use]
    pub fn at_most(self, other: impl Into<Self>) -> Self {
        self.with(BinaryOp::Le, other)
    }

    /// Whether it is not less.
    ///
    /// ```
    /// # use brolga_reversible::ast::Expr;
    /// # use brolga_reversible::build::place;
    /// assert_eq!(Expr::from(place("x")).at_least(0.5).to_string(), "x >= 0.5");
    /// ```
    #[must_use]
    pub fn at_least(self, other: impl Into<Self>) -> Self {
        self.with(BinaryOp::Ge, other)
    }

    /// Whether one of them holds, or both.
    ///
    /// ```
    /// # use brolga_reversible::ast::Expr;
    /// # use brolga_reversible::build::place;
    /// let x = Expr::from(place("x"));
    /// assert_eq!(x.clone().less(0.0).either(x.greater(1.0)).to_string(), "x < 0.0 or x > 1.0");
    /// ```
    #[must_use]
    pub fn either(self, other: impl Into<Self>) -> Self {
        self.with(BinaryOp::Either, other)
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
    BitAnd, bitand, And;
    BitOr, bitor, Or;
    BitXor, bitxor, Xor;
    Shl, shl, Shl;
    Shr, shr, Shr;
}

impl std::ops::Neg for Expr {
    type Output = Self;

    fn neg(self) -> Self {
        ExprKind::Unary(UnaryOp::Neg, Box::new(self)).into()
    }
}

/// The opposite of a condition.
impl std::ops::Not for Expr {
    type Output = Self;

    fn not(self) -> Self {
        self.negated()
    }
}
