//! Advice of the type checker: what to write instead, as help lines of errors about types.
//!
//! **Question.** Two numbers do not fit. What makes them fit?
//!
//! **Answer.** A conversion ([`alike`]), or the function that the other type has ([`instead`]).
//!
//! **Cost.** None where there is no error, but for a match on two types.

use crate::layout::Scalar;

pub(super) const HOW_TO_SELECT: &str = "it chooses between two floats, or two integers, of one type; of others by `if`";

/// How numbers of two types become such of one.
pub(super) fn alike(x: Scalar, y: Scalar) -> &'static str {
    use Scalar as S;
    match (x, y) {
        (S::F64, S::F32 | S::I64 | S::I32 | S::Q43 | S::Log) | (S::F32 | S::I64 | S::I32 | S::Q43 | S::Log, S::F64) => {
            "`float(x)` makes a double of it"
        }
        (S::F32, _) | (_, S::F32) => "`single(x)` makes a single of a double, `float(x)` a double of an integer",
        (S::I64, S::I32) | (S::I32, S::I64) => "`long(k)` has 64 bits of 32",
        (S::Complex, _) | (_, S::Complex) => {
            "`re(z)`, `im(z)` and `abs(z)` are doubles; `complex(a, b)` is made of two"
        }
        (S::Bool, _) | (_, S::Bool) => "a condition is no number: `select(c, 1.0, 0.0)` makes one",
        _ => "`float(x)` makes a double of an integer, a single, a `q43` or a `log`",
    }
}

/// What to write in place of a function or a comparison that a type has not.
pub(super) fn instead(name: &str, of: Scalar) -> &'static str {
    match of {
        Scalar::Complex if name == "sqrt" => "the root of z is `exp(0.5 * log(z))`",
        Scalar::Complex => "compare or take `re(z)`, `im(z)`, `abs(z)`, `abs2(z)`; `exp`, `log` and `conj` are complex",
        Scalar::Bool => "conditions are joined by `and`, `or`, `not`",
        _ if matches!(name, "re" | "im" | "conj") => "it is a function of complex numbers",
        Scalar::F32 if name == "single" => "it is a single already",
        Scalar::F64 | Scalar::F32 => "`float(x)` is a double, `single(x)` a single; of floats no integer is made",
        _ => "say `float(x)` to compute with the number that it stands for",
    }
}

pub(super) fn numbers(count: usize) -> &'static str {
    if count == 1 { "number" } else { "numbers" }
}
