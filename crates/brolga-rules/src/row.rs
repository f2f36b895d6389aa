//! Rows of partial derivatives: what a rule says of one instruction or function.
//!
//! **Question.** How is ∂z/∂x of every result and every operand written, so that forward and
//! reverse mode apply it alike?
//!
//! **Answer.** A row ([`ExprRow`]) has for each pair a [`Partial`]: zero, or a factor to apply to a
//! cotangent (or, in forward mode, to a tangent: the factor is the same). A factor ([`Scale`]) is
//! kept as numerator, denominator and sign, because `ct/(z + z)` is both cheaper and more exact
//! than `ct·(1/(z + z))`. It says of itself whether it may be infinite or NaN where operands and
//! results are finite, so that zeros have to be guarded, and whether it is infinite at an edge of
//! the domain.
//!
//! **Invariant.** A row has a partial for each pair; expressions mention only operands and results
//! that the row has.
//!
//! **Cost.** A row of the tables is built once, on first use. In a run a factor costs its numerator
//! and denominator, a multiplication and a division, of which either may be absent.

use std::fmt;

use crate::expr::{E, PureCall, Reads, operand_name, result_name};

/// A partial derivative ∂z/∂x.
#[derive(Clone, Debug, PartialEq)]
pub enum Partial {
    /// Zero wherever the derivative exists: nothing flows to the operand.
    Zero,
    /// A factor.
    Scale(Scale),
}

/// A factor `±times/over`. It is applied as `ct / over`, then `· times`, then negated.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// Whether to negate.
    pub neg: bool,
    /// Divide by this first.
    pub over: Option<E>,
    /// Then multiply by this.
    pub times: Option<E>,
    /// Whether the factor may be infinite or NaN although operands and results are finite. Where it
    /// may, a cotangent of zero must be guarded to stay zero.
    pub may_blow_up: bool,
    /// Whether the factor is infinite where the operand is at the edge of the function's domain and
    /// the result is a number, as at the zero of a square root. Where the operand itself has the
    /// slope zero there, it turns back at the edge, and contributes zero.
    pub edge: bool,
}

/// The factor 1.
const PLAIN: Scale = Scale { neg: false, over: None, times: None, may_blow_up: false, edge: false };

/// The factor -1.
const MINUS: Scale = Scale { neg: true, over: None, times: None, may_blow_up: false, edge: false };

impl Partial {
    /// The factor 1.
    pub const ONE: Partial = Partial::Scale(PLAIN);
    /// The factor -1.
    pub const MINUS_ONE: Partial = Partial::Scale(MINUS);

    /// Whether nothing flows.
    pub fn is_zero(&self) -> bool {
        matches!(self, Partial::Zero)
    }

    /// Whether the factor may be infinite or NaN although operands and results are finite; see
    /// [`Scale::may_blow_up`].
    pub fn may_blow_up(&self) -> bool {
        matches!(self, Partial::Scale(Scale { may_blow_up: true, .. }))
    }

    /// Which primal values are read.
    pub fn reads(&self) -> Reads {
        if let Partial::Scale(s) = self { s.reads() } else { Reads::default() }
    }

    /// Functions of the user's that are called.
    pub fn called(&self) -> Vec<&PureCall> {
        match self {
            Partial::Zero => vec![],
            Partial::Scale(s) => s.factors().flat_map(E::called).collect(),
        }
    }

    /// The operands that are read, and whether each as an integer.
    pub fn operands(&self) -> Vec<(usize, bool)> {
        match self {
            Partial::Zero => vec![],
            Partial::Scale(s) => s.factors().flat_map(E::operands).collect(),
        }
    }

    /// Apply to a cotangent, in double precision.
    pub fn eval(&self, ct: f64, operands: &[f64], results: &[f64]) -> f64 {
        match self {
            Partial::Zero => 0.0,
            Partial::Scale(Scale { neg, over, times, .. }) => {
                let ct = over.as_ref().map_or(ct, |e| ct / e.eval(operands, results));
                let ct = times.as_ref().map_or(ct, |e| ct * e.eval(operands, results));
                if *neg { -ct } else { ct }
            }
        }
    }

    /// Promise that the factor is finite wherever operands and results are. The checker holds rows
    /// to it.
    pub fn bounded(self) -> Self {
        match self {
            Partial::Zero => self,
            Partial::Scale(s) => Partial::Scale(Scale { may_blow_up: false, ..s }),
        }
    }

    /// Say that the factor is infinite at an edge of the domain: [`Scale::edge`].
    pub fn at_edge(self) -> Self {
        match self {
            Partial::Zero => self,
            Partial::Scale(s) => Partial::Scale(Scale { edge: true, ..s }),
        }
    }

    /// Whether the factor is infinite at an edge of the domain: [`Scale::edge`].
    pub fn is_edge(&self) -> bool {
        matches!(self, Partial::Scale(Scale { edge: true, .. }))
    }
}

impl Scale {
    /// Which primal values are read.
    pub fn reads(&self) -> Reads {
        self.factors().fold(Reads::default(), |reads, e| reads.union(e.reads()))
    }

    /// The expressions that it is made of.
    pub fn factors(&self) -> impl Iterator<Item = &E> {
        self.over.iter().chain(&self.times)
    }
}

impl std::ops::Neg for Partial {
    type Output = Partial;
    fn neg(self) -> Partial {
        match self {
            Partial::Zero => self,
            Partial::Scale(s) => Partial::Scale(Scale { neg: !s.neg, ..s }),
        }
    }
}

/// The factor `e`.
pub(crate) fn times(e: impl Into<E>) -> Partial {
    let e = e.into();
    Partial::Scale(Scale { may_blow_up: !e.is_finite(), times: Some(e), ..PLAIN })
}

/// The factor `1/e`.
pub(crate) fn over(e: impl Into<E>) -> Partial {
    Partial::Scale(Scale { over: Some(e.into()), may_blow_up: true, ..PLAIN })
}

/// The factor `times/over`, in the order in which it is applied.
pub(crate) fn over_times(over: &E, times: &E) -> Partial {
    Partial::Scale(Scale { over: Some(over.clone()), times: Some(times.clone()), may_blow_up: true, ..PLAIN })
}

/// The partial derivatives of one instruction or function.
#[derive(Clone, Debug, PartialEq)]
pub struct ExprRow {
    n_operands: usize,
    /// By result, then by operand.
    partials: Vec<Vec<Partial>>,
}

impl ExprRow {
    /// A row from its partials, by result and then by operand.
    ///
    /// # Panics
    /// If the partials do not form a rectangle, or mention an operand or result that the row does
    /// not have: such a row is a mistake in its table.
    pub fn new(n_operands: usize, partials: Vec<Vec<Partial>>) -> Self {
        for (r, of_result) in partials.iter().enumerate() {
            assert_eq!(of_result.len(), n_operands, "result {r}: one partial for each operand");
            for p in of_result {
                let reads = p.reads();
                assert!(reads.operands().all(|i| i < n_operands), "{p}: no such operand");
                assert!(reads.results().all(|i| i < partials.len()), "{p}: no such result");
            }
        }
        Self { n_operands, partials }
    }

    /// Number of operands.
    pub fn n_operands(&self) -> usize {
        self.n_operands
    }

    /// Number of results.
    pub fn n_results(&self) -> usize {
        self.partials.len()
    }

    /// ∂`result`/∂`operand`.
    pub fn partial(&self, result: usize, operand: usize) -> &Partial {
        &self.partials[result][operand]
    }

    /// Every partial, as `(result, operand, partial)`.
    pub fn partials(&self) -> impl Iterator<Item = (usize, usize, &Partial)> {
        self.partials.iter().enumerate().flat_map(|(r, of)| of.iter().enumerate().map(move |(o, p)| (r, o, p)))
    }

    /// Which primal values the pullback reads, if only the operands for which `active` holds want a
    /// cotangent.
    pub fn reads(&self, active: impl Fn(usize) -> bool) -> Reads {
        self.partials()
            .filter(|&(_, operand, _)| active(operand))
            .fold(Reads::default(), |reads, (_, _, p)| reads.union(p.reads()))
    }

    /// The same row with one partial replaced, for tests that break a row on purpose.
    pub fn with_partial(&self, result: usize, operand: usize, partial: Partial) -> Self {
        let mut row = self.clone();
        row.partials[result][operand] = partial;
        row
    }
}

/// A row as a line of Rust: `row!(x, y => z: times(y), times(x))`. Names stand for operands and
/// results; several results are written `x => [z, w]: [∂z/∂x], [∂w/∂x]`. The graph is built once,
/// on first use.
macro_rules! row {
    ($($x:ident),+ => [$($z:ident),+]: $([$($p:expr),+]),+ $(,)?) => {{
        static ROW: std::sync::LazyLock<$crate::row::ExprRow> = std::sync::LazyLock::new(|| {
            let mut n_operands = 0;
            $(let $x = &$crate::expr::E::operand(n_operands); n_operands += 1;)+
            let mut n_results = 0;
            $(let $z = &$crate::expr::E::result(n_results); n_results += 1;)+
            // A row need not mention all of them.
            let _ = ($($x,)+ $($z,)+ n_results);
            $crate::row::ExprRow::new(n_operands, vec![$(vec![$($p),+]),+])
        });
        &*ROW
    }};
    ($($x:ident),+ => $z:ident: $($p:expr),+ $(,)?) => {
        row!($($x),+ => [$z]: [$($p),+])
    };
}
pub(crate) use row;

impl fmt::Display for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Partial::Scale(Scale { neg, over, times, .. }) = self else { return f.write_str("0") };
        let sign = if *neg { "-" } else { "" };
        match (over, times) {
            (None, None) => write!(f, "{sign}1"),
            (None, Some(t)) if *neg => write!(f, "-({t})"),
            (None, Some(t)) => write!(f, "{t}"),
            (Some(o), None) => write!(f, "{sign}1/({o})"),
            (Some(o), Some(t)) => write!(f, "{sign}({t})/({o})"),
        }
    }
}

impl fmt::Display for ExprRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (r, o, p)) in self.partials().enumerate() {
            let sep = if i > 0 { ", " } else { "" };
            write!(f, "{sep}∂{}/∂{} = {p}", result_name(r), operand_name(o))?;
        }
        Ok(())
    }
}
