//! Math functions of rows: the C functions that formulas of derivatives may call.
//!
//! **Question.** A partial derivative is computed by instructions and by calls of C. Which calls
//! may there be?
//!
//! **Answer.** Those of [`MathFn`]. The set is closed, and each member has a rule of its own in
//! [`crate::libm`], so that a pullback can be differentiated again. Three are not in any C library,
//! the derivatives of `lgamma`: the run time provides them under the names given here.
//! [`MathFn::eval`] is their value in double precision, for the checker.
//!
//! **Cost.** A call in a run for each use in a formula.

use crate::gamma::{digamma, polygamma, trigamma};

/// A function of floats, in the width of the cotangent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MathFn {
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Hyperbolic sine.
    Sinh,
    /// Hyperbolic cosine.
    Cosh,
    /// Exponential.
    Exp,
    /// Power of two.
    Exp2,
    /// Natural logarithm.
    Log,
    /// Power.
    Pow,
    /// Length of a vector in the plane.
    Hypot,
    /// Derivative of `lgamma`.
    Digamma,
    /// Derivative of `digamma`.
    Trigamma,
    /// The derivative of `digamma` of an order.
    Polygamma,
}

impl MathFn {
    /// All of them.
    pub const ALL: [MathFn; 12] = [
        MathFn::Sin,
        MathFn::Cos,
        MathFn::Sinh,
        MathFn::Cosh,
        MathFn::Exp,
        MathFn::Exp2,
        MathFn::Log,
        MathFn::Pow,
        MathFn::Hypot,
        MathFn::Digamma,
        MathFn::Trigamma,
        MathFn::Polygamma,
    ];

    /// The symbol for 64-bit floats.
    pub fn symbol(self) -> &'static str {
        self.symbols().0
    }

    /// The symbol for 32-bit floats.
    pub fn symbol_f32(self) -> &'static str {
        self.symbols().1
    }

    fn symbols(self) -> (&'static str, &'static str) {
        match self {
            MathFn::Sin => ("sin", "sinf"),
            MathFn::Cos => ("cos", "cosf"),
            MathFn::Sinh => ("sinh", "sinhf"),
            MathFn::Cosh => ("cosh", "coshf"),
            MathFn::Exp => ("exp", "expf"),
            MathFn::Exp2 => ("exp2", "exp2f"),
            MathFn::Log => ("log", "logf"),
            MathFn::Pow => ("pow", "powf"),
            MathFn::Hypot => ("hypot", "hypotf"),
            MathFn::Digamma => ("brolga_digamma", "brolga_digammaf"),
            MathFn::Trigamma => ("brolga_trigamma", "brolga_trigammaf"),
            MathFn::Polygamma => ("brolga_polygamma", "brolga_polygammaf"),
        }
    }

    /// Number of parameters.
    pub fn n_params(self) -> usize {
        match self {
            MathFn::Pow | MathFn::Hypot | MathFn::Polygamma => 2,
            MathFn::Sin
            | MathFn::Cos
            | MathFn::Sinh
            | MathFn::Cosh
            | MathFn::Exp
            | MathFn::Exp2
            | MathFn::Log
            | MathFn::Digamma
            | MathFn::Trigamma => 1,
        }
    }

    /// The value, in double precision.
    pub fn eval(self, args: impl IntoIterator<Item = f64>) -> f64 {
        let mut args = args.into_iter();
        let mut arg = || args.next().expect("one argument per parameter");
        let x = arg();
        match self {
            MathFn::Sin => x.sin(),
            MathFn::Cos => x.cos(),
            MathFn::Sinh => x.sinh(),
            MathFn::Cosh => x.cosh(),
            MathFn::Exp => x.exp(),
            MathFn::Exp2 => x.exp2(),
            MathFn::Log => x.ln(),
            MathFn::Pow => x.powf(arg()),
            MathFn::Hypot => x.hypot(arg()),
            MathFn::Digamma => digamma(x),
            MathFn::Trigamma => trigamma(x),
            MathFn::Polygamma => polygamma(x, arg()),
        }
    }
}
