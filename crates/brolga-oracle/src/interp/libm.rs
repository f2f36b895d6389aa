//! C's mathematical functions for the interpreter: values from the platform's own library, so that
//! they are those of compiled code, and slopes.
//!
//! **Question.** What is the value of a call of `sin` or `pow`, and what are its slopes, also where
//! there is no derivative?
//!
//! **Answer.** Two functions of one family (`sin`, `sinf`) share a [`Math`] and thereby their
//! slopes ([`slopes`]), which are written over [`Real`], so that they serve second derivatives,
//! too. They are written apart from the rules of the transform, which are checked against them.
//! Conventions beyond those of [`super::float`]:
//!
//! ```text
//! pow(x, 0)           ∂x = 0                pow(0, y)        ∂y = 0 for y > 0, else -inf
//! pow(inf, y < 0)     ∂y = 0
//! pow(x < 0, y)       ∂y = NaN (x^y is defined at isolated y only)
//! hypot, atan2(0, 0)  0                     fdim(x, x)       1/2, -1/2; NaN: 1, -1
//! fmin, fmax (C)      a NaN operand is ignored: all to the other one; both NaN: 1 each
//! fmod, remainder     1, -n where the result is x - n·y
//! floor, round, ...   0
//! ```
//!
//! **Cost.** A call of the library for the value; a few operations for a slope, which is asked for
//! only where an operand is active.

use crate::real::Real;
use crate::special::digamma;

use super::float::sign;

macro_rules! functions {
    // The three names of operands come from the caller, because those in the rows do.
    ([$x:ident $y:ident $z:ident] $($math:ident: $name:ident $name32:ident ($($arg:ident),*);)*) => {
        /// A mathematical function, whatever the width of its operands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(super) enum Math {
            $(#[doc = concat!("`", stringify!($name), "`")] $math,)*
        }

        mod c {
            unsafe extern "C" {
                $(
                    pub(super) safe fn $name($($arg: f64),*) -> f64;
                    pub(super) safe fn $name32($($arg: f32),*) -> f32;
                )*
            }
        }

        impl Math {
            /// The function with this C symbol, and the width of its operands in bytes.
            pub(super) fn by_symbol(symbol: &str) -> Option<(Math, u8)> {
                match symbol {
                    // Another name.
                    "drem" => Some((Math::Remainder, 8)),
                    "dremf" => Some((Math::Remainder, 4)),
                    $(stringify!($name) => Some((Math::$math, 8)), stringify!($name32) => Some((Math::$math, 4)),)*
                    _ => None,
                }
            }

            /// How many operands it takes.
            pub(super) fn arity(self) -> usize {
                match self {
                    $(Math::$math => [$(stringify!($arg)),*].len(),)*
                }
            }

            /// The value, from and to the bits of floats of `width` bytes.
            pub(super) fn eval(self, width: u8, a: [u128; 3]) -> u128 {
                if width == 4 {
                    let [$x, $y, $z] = a.map(|a| f32::from_bits(a as u32));
                    let _ = ($y, $z);
                    match self { $(Math::$math => c::$name32($($arg),*).to_bits().into(),)* }
                } else {
                    let [$x, $y, $z] = a.map(|a| f64::from_bits(a as u64));
                    let _ = ($y, $z);
                    match self { $(Math::$math => c::$name($($arg),*).to_bits().into(),)* }
                }
            }
        }
    };
}

functions! {
    [x y z]
    Sin: sin sinf (x);
    Cos: cos cosf (x);
    Tan: tan tanf (x);
    Asin: asin asinf (x);
    Acos: acos acosf (x);
    Atan: atan atanf (x);
    Atan2: atan2 atan2f (x, y);
    Sinh: sinh sinhf (x);
    Cosh: cosh coshf (x);
    Tanh: tanh tanhf (x);
    Asinh: asinh asinhf (x);
    Acosh: acosh acoshf (x);
    Atanh: atanh atanhf (x);
    Exp: exp expf (x);
    Exp2: exp2 exp2f (x);
    Exp10: exp10 exp10f (x);
    Expm1: expm1 expm1f (x);
    Log: log logf (x);
    Log2: log2 log2f (x);
    Log10: log10 log10f (x);
    Log1p: log1p log1pf (x);
    Pow: pow powf (x, y);
    Sqrt: sqrt sqrtf (x);
    Cbrt: cbrt cbrtf (x);
    Hypot: hypot hypotf (x, y);
    Erf: erf erff (x);
    Erfc: erfc erfcf (x);
    Lgamma: lgamma lgammaf (x);
    Tgamma: tgamma tgammaf (x);
    Fmod: fmod fmodf (x, y);
    Remainder: remainder remainderf (x, y);
    Fma: fma fmaf (x, y, z);
    Fmin: fmin fminf (x, y);
    Fmax: fmax fmaxf (x, y);
    Fdim: fdim fdimf (x, y);
    Fabs: fabs fabsf (x);
    Copysign: copysign copysignf (x, y);
    Floor: floor floorf (x);
    Ceil: ceil ceilf (x);
    Trunc: trunc truncf (x);
    Round: round roundf (x);
    Roundeven: roundeven roundevenf (x);
    Rint: rint rintf (x);
    Nearbyint: nearbyint nearbyintf (x);
    Logb: logb logbf (x);
    Nextafter: nextafter nextafterf (x, y);
}

impl Math {
    /// Whether it ends at a point of its first operand, with a number and an infinite slope.
    pub(super) fn is_root(self) -> bool {
        matches!(self, Math::Sqrt | Math::Pow | Math::Asin | Math::Acos | Math::Acosh)
    }
}

/// How far off a slope is that is computed from the value of the function alone, by `1 - z²` and
/// its like: where the function saturates, most digits of the slope are lost in the value's last
/// ones. `None` where slopes are as exact as values.
pub(super) fn roughness<R: Real>(math: Math, x: R, width: u8) -> Option<R> {
    let eps = if width == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    match math {
        // The value may be two units off, which count twice.
        Math::Tanh => {
            let off = 4.0 * eps * x.primal().tanh().powi(2);
            Some(x.chain(off, 2.0 * off))
        }
        _ => None,
    }
}

/// ∂ value / ∂ `x[i]`; `v` is the value.
pub(super) fn slopes<R: Real>(math: Math, x: [R; 3], v: f64) -> [Option<R>; 3] {
    let c = R::constant;
    let one = c(1.0);
    let [a, b, _] = x;
    let [p, q, _] = x.map(R::primal);
    let unary = |s: R| [Some(s), None, None];
    match math {
        Math::Sin => unary(a.cos()),
        Math::Cos => unary(-a.sin()),
        Math::Tan => unary(one + a.tan() * a.tan()),
        Math::Asin => unary(one_less_square(a).sqrt().recip()),
        Math::Acos => unary(-one_less_square(a).sqrt().recip()),
        Math::Atan => unary((one + a * a).recip()),
        Math::Atan2 if p == 0.0 && q == 0.0 => [None; 3],
        Math::Atan2 if p.is_infinite() || q.is_infinite() => [Some(c(0.0)), Some(c(0.0)), None],
        Math::Atan2 => {
            // Dividing by the larger operand first, so that squares neither overflow nor vanish.
            let m = c(p.abs().max(q.abs()));
            let (s, t) = (a / m, b / m);
            let r = m * (s * s + t * t);
            [Some(t / r), Some(-(s / r)), None]
        }
        Math::Sinh => unary(a.cosh()),
        Math::Cosh => unary(a.sinh()),
        Math::Tanh if p.abs() > 400.0 => unary(c(0.0)),
        Math::Tanh => unary((a.cosh() * a.cosh()).recip()),
        Math::Asinh if p.abs() > 1e8 => unary((a * c(p.signum())).recip()),
        Math::Asinh => unary((a * a + one).sqrt().recip()),
        Math::Acosh => unary(((a - one).sqrt() * (a + one).sqrt()).recip()),
        Math::Atanh => unary(one_less_square(a).recip()),
        Math::Exp => unary(a.exp()),
        Math::Exp2 => unary(c(std::f64::consts::LN_2) * a.chain(p.exp2(), std::f64::consts::LN_2 * p.exp2())),
        Math::Exp10 => {
            let (y, ln10) = (10f64.powf(p), std::f64::consts::LN_10);
            unary(c(ln10) * a.chain(y, ln10 * y))
        }
        Math::Expm1 => unary(a.exp()),
        Math::Log => unary(a.recip()),
        Math::Log2 => unary((a * c(std::f64::consts::LN_2)).recip()),
        Math::Log10 => unary((a * c(std::f64::consts::LN_10)).recip()),
        Math::Log1p => unary((one + a).recip()),
        Math::Pow => pow(a, b),
        Math::Sqrt if p == 0.0 => unary(c(f64::INFINITY)),
        Math::Sqrt => unary((c(2.0) * a.sqrt()).recip()),
        Math::Cbrt => unary((c(3.0) * a.cbrt() * a.cbrt()).recip()),
        Math::Hypot if p == 0.0 && q == 0.0 => [None; 3],
        Math::Hypot => {
            let m = c(p.abs().max(q.abs()));
            let (s, t) = (a / m, b / m);
            let r = (s * s + t * t).sqrt();
            [Some(s / r), Some(t / r), None]
        }
        Math::Erf => unary(c(std::f64::consts::FRAC_2_SQRT_PI) * (-(a * a)).exp()),
        Math::Erfc => unary(-(c(std::f64::consts::FRAC_2_SQRT_PI) * (-(a * a)).exp())),
        Math::Lgamma => unary(digamma(a)),
        Math::Tgamma => {
            let psi = digamma(a);
            unary(a.chain(v, v * psi.primal()) * psi)
        }
        // What was subtracted, in terms of q; p/q rounded may be the next integer.
        Math::Fmod | Math::Remainder => [Some(one), Some(c(-((p - v) / q).round())), None],
        Math::Fma => [Some(b), Some(a), Some(one)],
        Math::Fmin | Math::Fmax => {
            let [s, t] = match (p.is_nan(), q.is_nan()) {
                (true, true) => [Some(1.0), Some(1.0)],
                (true, false) => [None, Some(1.0)],
                (false, true) => [Some(1.0), None],
                _ if p == q => [Some(0.5), Some(0.5)],
                _ if (p < q) == (math == Math::Fmin) => [Some(1.0), None],
                _ => [None, Some(1.0)],
            };
            [s.map(c), t.map(c), None]
        }
        Math::Fdim if p == q => [Some(c(0.5)), Some(c(-0.5)), None],
        Math::Fdim if p < q => [None; 3],
        Math::Fdim => [Some(one), Some(-one), None],
        Math::Fabs => [sign(p).map(c), None, None],
        // The number beside x is as far away from that beside another.
        Math::Nextafter => unary(one),
        Math::Copysign if p == 0.0 => [None; 3],
        Math::Copysign => unary(c(if p.is_sign_negative() == v.is_sign_negative() { 1.0 } else { -1.0 })),
        Math::Floor
        | Math::Ceil
        | Math::Trunc
        | Math::Round
        | Math::Roundeven
        | Math::Rint
        | Math::Nearbyint
        | Math::Logb => [None; 3],
    }
}

/// `1 - a²`: as a product where a difference loses digits, and as a difference where the sum of the
/// product's slopes does.
fn one_less_square<R: Real>(a: R) -> R {
    let one = R::constant(1.0);
    if a.primal().abs() > 0.7 { (one - a) * (one + a) } else { one - a * a }
}

/// The limit of `x^e · log x` at zero.
fn log_times_zero(e: f64) -> f64 {
    if e > 0.0 { 0.0 } else { f64::NEG_INFINITY }
}

/// The slopes of x^y.
fn pow<R: Real>(x: R, y: R) -> [Option<R>; 3] {
    let c = R::constant;
    let (p, q) = (x.primal(), y.primal());
    // x^(y-1) as a function of both.
    let power = |e: f64| p.powf(e);
    let dx = if q == 0.0 {
        // Also for x = 0 and x = NaN, since pow(x, 0) is 1 for every x. Along y it varies as 1/x,
        // which has a pole at x = 0; below there are powers for whole exponents only.
        y.chain(
            0.0,
            match p {
                _ if p >= 0.0 => 1.0 / p,
                _ => f64::NAN,
            },
        )
    } else {
        let e = power(q - 1.0);
        let along_x = if q == 1.0 { 0.0 } else { (q - 1.0) * power(q - 2.0) };
        let along_y = match p {
            0.0 => log_times_zero(q - 1.0),
            _ if p > 0.0 => e * p.ln(),
            _ => f64::NAN,
        };
        y * (x.chain(e, along_x) + y.chain(0.0, along_y))
    };
    let dy = if p == 0.0 && q <= 0.0 {
        // From an infinite power over 1 to 0.
        c(if q < 0.0 { p.powf(q) * f64::NEG_INFINITY } else { f64::NEG_INFINITY })
    } else if p == 0.0 && q > 0.0 {
        x.chain(0.0, log_times_zero(q - 1.0))
    } else if p == f64::INFINITY && q < 0.0 {
        c(0.0)
    } else if p > 0.0 {
        let v = power(q);
        x.chain(v * p.ln(), power(q - 1.0) * (q * p.ln() + 1.0)) + y.chain(0.0, v * p.ln() * p.ln())
    } else {
        c(f64::NAN)
    };
    [Some(dx), Some(dy), None]
}
