//! Derivative expressions: the formulas of partial derivatives, as graphs.
//!
//! **Question.** A partial derivative is wanted as instructions, as a number, as text, and as a
//! list of the primal values that it needs. How is it written once for all of these?
//!
//! **Answer.** A row of the table is a line of ordinary Rust over [`E`]. Running it once builds a
//! small graph, which is then read in several ways: which primal values it needs ([`E::reads`]),
//! what it is worth ([`E::eval`]), whether its shape alone says that it is finite
//! ([`E::is_finite`]), which functions it calls ([`E::calls`], [`E::called`]), how it reads in the
//! reference (`Display`), and, in the transform, which instructions compute it. Conditions are
//! graphs of their own ([`Cond`]).
//!
//! **Invariant.**
//! - An expression has one type throughout, the type of the cotangent. Constants take that type,
//!   and are splat for vectors. Integers enter only through [`Node::IntOperand`], which converts.
//! - Both arms of a `Select` are evaluated, lane by lane; a row must not rely on an arm being
//!   skipped.
//! - An expression has no side effect and cannot trap.
//! - Operands and results have indices below 32: [`Reads`] are sets of bits.
//!
//! **Cost.** Nodes are shared, so a clone is a count. Each reading walks the expression as a tree,
//! once for each use of a shared node.

use std::fmt;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};
use std::sync::Arc;

use cranelift_codegen::ir::condcodes::FloatCC;

use crate::math_fn::MathFn;

/// A derivative expression.
///
/// Nodes are shared: a clone is the same node. A row has its operands and results as references, so
/// that it may mention `z` twice without ceremony.
#[derive(Clone, Debug, PartialEq)]
pub struct E(Arc<Node>);

/// What an expression is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A float operand of the instruction.
    Operand(usize),
    /// An integer operand (signed), converted to the cotangent's type.
    IntOperand(usize),
    /// A result of the instruction.
    Result(usize),
    /// A constant.
    Const(f64),
    /// Negation.
    Neg(E),
    /// Sum.
    Add(E, E),
    /// Difference.
    Sub(E, E),
    /// Product.
    Mul(E, E),
    /// Quotient.
    Div(E, E),
    /// Square root.
    Sqrt(E),
    /// Absolute value.
    Abs(E),
    /// The nearest whole number, which has no slope.
    Nearest(E),
    /// The first argument's magnitude with the second's sign bit.
    Copysign(E, E),
    /// A call of a C math function of the cotangent's width. Rows of opcodes have none, so they
    /// also serve vectors.
    Math(MathFn, Vec<E>),
    /// A call of another function, which a user's rule names.
    Call(PureCall),
    /// Where the condition holds, the first expression, else the second.
    Select(Cond, E, E),
}

/// A call of a pure function that returns a float of the cotangent's width.
#[derive(Clone, Debug, PartialEq)]
pub struct PureCall {
    /// The function.
    pub symbol: String,
    /// What it is given.
    pub args: Vec<CallArg>,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallArg {
    /// A float of the cotangent's width.
    Float(E),
    /// An operand that is no float, as it is.
    Other(usize),
}

impl CallArg {
    fn reads(&self) -> Reads {
        match *self {
            Self::Float(ref e) => e.reads(),
            Self::Other(i) => Reads { operands: 1 << i, results: 0 },
        }
    }
}

/// A condition. It is a lane mask for vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct Cond(Arc<CondNode>);

/// What a condition is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum CondNode {
    /// A comparison with Cranelift's meaning of the condition code.
    Cmp(FloatCC, E, E),
    /// Both.
    And(Cond, Cond),
    /// At least one.
    Or(Cond, Cond),
    /// Not.
    Not(Cond),
}

/// A set of primal values: operands and results of one instruction, by index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reads {
    operands: u32,
    results: u32,
}

impl Reads {
    /// Indices of the operands read.
    pub fn operands(self) -> impl Iterator<Item = usize> {
        bits(self.operands)
    }

    /// Indices of the results read.
    pub fn results(self) -> impl Iterator<Item = usize> {
        bits(self.results)
    }

    /// Whether nothing is read.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// What either reads.
    pub fn union(self, other: Self) -> Self {
        Self { operands: self.operands | other.operands, results: self.results | other.results }
    }
}

fn bits(set: u32) -> impl Iterator<Item = usize> {
    (0..u32::BITS as usize).filter(move |&i| set >> i & 1 != 0)
}

impl E {
    fn new(node: Node) -> Self {
        Self(Arc::new(node))
    }

    /// The outermost node.
    pub fn node(&self) -> &Node {
        &self.0
    }

    /// Operand `i`, a float.
    pub fn operand(i: usize) -> Self {
        Self::new(Node::Operand(i))
    }

    /// Result `i`.
    pub fn result(i: usize) -> Self {
        Self::new(Node::Result(i))
    }

    /// A constant.
    pub fn constant(c: f64) -> Self {
        Self::new(Node::Const(c))
    }

    /// The same operand, read as an integer and converted.
    ///
    /// # Panics
    /// If the expression is not an operand: that is a mistake in a row.
    pub fn int(&self) -> Self {
        match &*self.0 {
            &Node::Operand(i) => Self::new(Node::IntOperand(i)),
            _ => panic!("only an operand can be an integer"),
        }
    }

    /// Square root.
    pub fn sqrt(&self) -> Self {
        Self::new(Node::Sqrt(self.clone()))
    }

    /// Absolute value.
    pub fn abs(&self) -> Self {
        Self::new(Node::Abs(self.clone()))
    }

    /// The nearest whole number, which has no slope.
    pub fn nearest(&self) -> Self {
        Self::new(Node::Nearest(self.clone()))
    }

    /// This magnitude with the sign of `sign`.
    pub fn copysign(&self, sign: impl Into<E>) -> Self {
        Self::new(Node::Copysign(self.clone(), sign.into()))
    }

    /// Call a C function.
    pub fn math(f: MathFn, args: Vec<E>) -> Self {
        assert_eq!(args.len(), f.n_params(), "{f:?}");
        Self::new(Node::Math(f, args))
    }

    /// Call a function of a user's.
    pub fn call(called: PureCall) -> Self {
        Self::new(Node::Call(called))
    }

    /// `self < other`, false for NaN.
    pub fn lt(&self, other: impl Into<E>) -> Cond {
        Cond::cmp(FloatCC::LessThan, self.clone(), other.into())
    }

    /// `self > other`, false for NaN.
    pub fn gt(&self, other: impl Into<E>) -> Cond {
        Cond::cmp(FloatCC::GreaterThan, self.clone(), other.into())
    }

    /// `self == other`, false for NaN.
    pub fn eq(&self, other: impl Into<E>) -> Cond {
        Cond::cmp(FloatCC::Equal, self.clone(), other.into())
    }

    /// Whether this is NaN.
    pub fn is_nan(&self) -> Cond {
        Cond::cmp(FloatCC::Unordered, self.clone(), self.clone())
    }

    /// Which primal values are read.
    pub fn reads(&self) -> Reads {
        match &*self.0 {
            &(Node::Operand(i) | Node::IntOperand(i)) => Reads { operands: 1 << i, results: 0 },
            &Node::Result(i) => Reads { operands: 0, results: 1 << i },
            Node::Const(_) => Reads::default(),
            Node::Neg(a) | Node::Sqrt(a) | Node::Abs(a) | Node::Nearest(a) => a.reads(),
            Node::Add(a, b) | Node::Sub(a, b) | Node::Mul(a, b) | Node::Div(a, b) | Node::Copysign(a, b) => {
                a.reads().union(b.reads())
            }
            Node::Math(_, args) => args.iter().fold(Reads::default(), |r, a| r.union(a.reads())),
            Node::Call(called) => called.args.iter().fold(Reads::default(), |r, a| r.union(a.reads())),
            Node::Select(c, a, b) => c.reads().union(a.reads()).union(b.reads()),
        }
    }

    /// The value in double precision.
    pub fn eval(&self, operands: &[f64], results: &[f64]) -> f64 {
        let ev = |e: &E| e.eval(operands, results);
        match &*self.0 {
            &(Node::Operand(i) | Node::IntOperand(i)) => operands[i],
            &Node::Result(i) => results[i],
            &Node::Const(c) => c,
            Node::Neg(a) => -ev(a),
            Node::Add(a, b) => ev(a) + ev(b),
            Node::Sub(a, b) => ev(a) - ev(b),
            Node::Mul(a, b) => ev(a) * ev(b),
            Node::Div(a, b) => ev(a) / ev(b),
            Node::Sqrt(a) => ev(a).sqrt(),
            Node::Abs(a) => ev(a).abs(),
            Node::Nearest(a) => ev(a).round_ties_even(),
            Node::Copysign(a, b) => ev(a).copysign(ev(b)),
            Node::Math(f, args) => f.eval(args.iter().map(ev)),
            // The function is not here.
            Node::Call(_) => f64::NAN,
            Node::Select(c, a, b) => {
                if c.eval(operands, results) {
                    ev(a)
                } else {
                    ev(b)
                }
            }
        }
    }

    /// Whether the value is finite wherever operands and results are, as far as the shape tells.
    /// `false` is always safe.
    pub fn is_finite(&self) -> bool {
        match &*self.0 {
            Node::Operand(_) | Node::IntOperand(_) | Node::Result(_) => true,
            Node::Const(c) => c.is_finite(),
            Node::Neg(a) | Node::Abs(a) | Node::Nearest(a) | Node::Copysign(a, _) => a.is_finite(),
            Node::Select(_, a, b) => a.is_finite() && b.is_finite(),
            // Sums and products overflow, the others also have poles.
            Node::Add(..)
            | Node::Sub(..)
            | Node::Mul(..)
            | Node::Div(..)
            | Node::Sqrt(_)
            | Node::Math(..)
            | Node::Call(_) => false,
        }
    }

    /// The C functions that are called, outermost first, with repetitions.
    pub fn calls(&self) -> Vec<MathFn> {
        let mut out = Vec::new();
        self.each(&mut |node| out.extend(if let Node::Math(f, _) = node { Some(*f) } else { None }));
        out
    }

    /// The other functions that are called.
    pub fn called(&self) -> Vec<&PureCall> {
        let mut out = Vec::new();
        self.each(&mut |node| out.extend(if let Node::Call(called) = node { Some(called) } else { None }));
        out
    }

    /// The operands that are read, and whether each as an integer.
    pub fn operands(&self) -> Vec<(usize, bool)> {
        let mut out = Vec::new();
        self.each(&mut |node| match *node {
            Node::Operand(i) => out.push((i, false)),
            Node::IntOperand(i) => out.push((i, true)),
            _ => {}
        });
        out
    }

    /// Every node, outermost first.
    fn each<'e>(&'e self, visit: &mut dyn FnMut(&'e Node)) {
        visit(&self.0);
        match &*self.0 {
            Node::Operand(_) | Node::IntOperand(_) | Node::Result(_) | Node::Const(_) => {}
            Node::Neg(a) | Node::Sqrt(a) | Node::Abs(a) | Node::Nearest(a) => a.each(visit),
            Node::Add(a, b) | Node::Sub(a, b) | Node::Mul(a, b) | Node::Div(a, b) | Node::Copysign(a, b) => {
                [a, b].into_iter().for_each(|e| e.each(visit));
            }
            Node::Call(called) => {
                let floats = called.args.iter().filter_map(|a| if let CallArg::Float(e) = a { Some(e) } else { None });
                floats.for_each(|e| e.each(visit));
            }
            Node::Math(_, args) => args.iter().for_each(|a| a.each(visit)),
            Node::Select(c, a, b) => {
                c.each(visit);
                [a, b].into_iter().for_each(|e| e.each(visit));
            }
        }
    }
}

impl Cond {
    fn new(node: CondNode) -> Self {
        Self(Arc::new(node))
    }

    /// The outermost node.
    pub fn node(&self) -> &CondNode {
        &self.0
    }

    /// A comparison.
    pub fn cmp(cc: FloatCC, a: E, b: E) -> Self {
        Self::new(CondNode::Cmp(cc, a, b))
    }

    /// Where this holds `then`, elsewhere `otherwise`.
    pub fn select(self, then: impl Into<E>, otherwise: impl Into<E>) -> E {
        E::new(Node::Select(self, then.into(), otherwise.into()))
    }

    /// Which primal values are read.
    pub fn reads(&self) -> Reads {
        match &*self.0 {
            CondNode::Cmp(_, a, b) => a.reads().union(b.reads()),
            CondNode::And(a, b) | CondNode::Or(a, b) => a.reads().union(b.reads()),
            CondNode::Not(a) => a.reads(),
        }
    }

    /// Whether it holds.
    pub fn eval(&self, operands: &[f64], results: &[f64]) -> bool {
        match &*self.0 {
            CondNode::Cmp(cc, a, b) => compare(*cc, a.eval(operands, results), b.eval(operands, results)),
            CondNode::And(a, b) => a.eval(operands, results) && b.eval(operands, results),
            CondNode::Or(a, b) => a.eval(operands, results) || b.eval(operands, results),
            CondNode::Not(a) => !a.eval(operands, results),
        }
    }

    fn each<'e>(&'e self, visit: &mut dyn FnMut(&'e Node)) {
        match &*self.0 {
            CondNode::Cmp(_, a, b) => [a, b].into_iter().for_each(|e| e.each(visit)),
            CondNode::And(a, b) | CondNode::Or(a, b) => [a, b].into_iter().for_each(|c| c.each(visit)),
            CondNode::Not(a) => a.each(visit),
        }
    }
}

/// Cranelift's `fcmp` on doubles.
fn compare(cc: FloatCC, a: f64, b: f64) -> bool {
    let unordered = a.is_nan() || b.is_nan();
    match cc {
        FloatCC::Ordered => !unordered,
        FloatCC::Unordered => unordered,
        FloatCC::Equal => a == b,
        FloatCC::NotEqual => a != b,
        FloatCC::OrderedNotEqual => !unordered && a != b,
        FloatCC::UnorderedOrEqual => unordered || a == b,
        FloatCC::LessThan => a < b,
        FloatCC::LessThanOrEqual => a <= b,
        FloatCC::GreaterThan => a > b,
        FloatCC::GreaterThanOrEqual => a >= b,
        FloatCC::UnorderedOrLessThan => unordered || a < b,
        FloatCC::UnorderedOrLessThanOrEqual => unordered || a <= b,
        FloatCC::UnorderedOrGreaterThan => unordered || a > b,
        FloatCC::UnorderedOrGreaterThanOrEqual => unordered || a >= b,
    }
}

impl From<f64> for E {
    fn from(c: f64) -> Self {
        Self::constant(c)
    }
}

impl From<&E> for E {
    fn from(e: &E) -> Self {
        e.clone()
    }
}

impl Neg for E {
    type Output = E;
    fn neg(self) -> E {
        E::new(Node::Neg(self))
    }
}

macro_rules! binary {
    ($($op:ident $f:ident),*) => {$(
        impl<R: Into<E>> $op<R> for E {
            type Output = E;
            fn $f(self, other: R) -> E {
                E::new(Node::$op(self, other.into()))
            }
        }
        impl<R: Into<E>> $op<R> for &E {
            type Output = E;
            fn $f(self, other: R) -> E {
                self.clone().$f(other)
            }
        }
        impl $op<E> for f64 {
            type Output = E;
            fn $f(self, other: E) -> E {
                E::from(self).$f(other)
            }
        }
        impl $op<&E> for f64 {
            type Output = E;
            fn $f(self, other: &E) -> E {
                E::from(self).$f(other)
            }
        }
    )*};
}
binary!(Add add, Sub sub, Mul mul, Div div);

impl BitAnd for Cond {
    type Output = Cond;
    fn bitand(self, other: Cond) -> Cond {
        Cond::new(CondNode::And(self, other))
    }
}

impl BitOr for Cond {
    type Output = Cond;
    fn bitor(self, other: Cond) -> Cond {
        Cond::new(CondNode::Or(self, other))
    }
}

impl Not for Cond {
    type Output = Cond;
    fn not(self) -> Cond {
        Cond::new(CondNode::Not(self))
    }
}

/// Names in print: operands `x y c d`, results `z w`.
pub(crate) fn operand_name(i: usize) -> String {
    ["x", "y", "c", "d"].get(i).map_or_else(|| format!("x{i}"), |s| (*s).to_owned())
}

/// See [`operand_name`].
pub(crate) fn result_name(i: usize) -> String {
    ["z", "w"].get(i).map_or_else(|| format!("z{i}"), |s| (*s).to_owned())
}

impl fmt::Display for E {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Node::Operand(i) => f.write_str(&operand_name(*i)),
            Node::IntOperand(i) => write!(f, "float({})", operand_name(*i)),
            Node::Result(i) => f.write_str(&result_name(*i)),
            Node::Const(c) => write!(f, "{c}"),
            Node::Neg(a) => write!(f, "-{}", Parentheses(a)),
            Node::Add(a, b) => write!(f, "{a} + {b}"),
            Node::Sub(a, b) => write!(f, "{a} - {}", Parentheses(b)),
            Node::Mul(a, b) => write!(f, "{}·{}", Parentheses(a), Parentheses(b)),
            Node::Div(a, b) => write!(f, "{}/{}", Parentheses(a), Parentheses(b)),
            Node::Sqrt(a) => write!(f, "sqrt({a})"),
            Node::Abs(a) => write!(f, "|{a}|"),
            Node::Nearest(a) => write!(f, "nearest({a})"),
            Node::Copysign(a, b) => write!(f, "copysign({a}, {b})"),
            Node::Math(m, args) => {
                write!(f, "{}(", m.symbol())?;
                for (i, a) in args.iter().enumerate() {
                    write!(f, "{}{a}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            Node::Call(called) => {
                write!(f, "{}(", called.symbol)?;
                for (i, a) in called.args.iter().enumerate() {
                    let sep = if i > 0 { ", " } else { "" };
                    match a {
                        CallArg::Float(e) => write!(f, "{sep}{e}")?,
                        CallArg::Other(i) => write!(f, "{sep}{}", operand_name(*i))?,
                    }
                }
                f.write_str(")")
            }
            Node::Select(c, a, b) => write!(f, "({c} ? {a} : {b})"),
        }
    }
}

/// An expression in brackets unless it is an atom.
struct Parentheses<'e>(&'e E);

impl fmt::Display for Parentheses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.node() {
            Node::Neg(_) | Node::Add(..) | Node::Sub(..) | Node::Mul(..) | Node::Div(..) => write!(f, "({})", self.0),
            Node::Operand(_)
            | Node::IntOperand(_)
            | Node::Result(_)
            | Node::Const(_)
            | Node::Sqrt(_)
            | Node::Abs(_)
            | Node::Nearest(_)
            | Node::Copysign(..)
            | Node::Math(..)
            | Node::Call(_)
            | Node::Select(..) => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Display for Cond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            CondNode::Cmp(FloatCC::Unordered, a, b) if a == b => write!(f, "{a} is NaN"),
            CondNode::Cmp(cc, a, b) => {
                let sign = match cc {
                    FloatCC::Equal => "=",
                    FloatCC::NotEqual => "≠",
                    FloatCC::LessThan => "<",
                    FloatCC::LessThanOrEqual => "≤",
                    FloatCC::GreaterThan => ">",
                    FloatCC::GreaterThanOrEqual => "≥",
                    _ => return write!(f, "{a} {cc} {b}"),
                };
                write!(f, "{a} {sign} {b}")
            }
            CondNode::And(a, b) => write!(f, "({a} and {b})"),
            CondNode::Or(a, b) => write!(f, "({a} or {b})"),
            CondNode::Not(a) => write!(f, "not ({a})"),
        }
    }
}
