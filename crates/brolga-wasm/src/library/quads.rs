//! Functions on `long double`, of which WebAssembly has none: a compiler makes each operation a
//! call.
//!
//! **Problem.** C's `long double` is a binary128 there, two `i64` to WebAssembly, and `a * b` a
//! call of `__multf3`, integer arithmetic on them in the compiler's library; so are the
//! mathematical functions (`expl`), of the C library. **Answer.** The module's own functions
//! compute, as before; around each of them is one that sees to the derivative. A number's cotangent
//! is a `double`, and travels with the upper of the two words, as if that were a `double`'s bits;
//! what moves bits moves it, and so does a change of sign, as the sign is where it is in a
//! `double`.
//!
//! ```text
//! __multf3(to, a, a', b, b'):                     a' is the upper word, bits(…) are a word's as a double
//!     x = with_value(bits(a'), double(a, a'))     the number itself, rounded, with a's derivative
//!     y = with_value(bits(b'), double(b, b'))
//!     __multf3.own(to, a, a', b, b')              nothing of which anything depends on, as far as derivatives go
//!     to[8] = with_value(x * y, to[8])            the product's upper word, with the derivative of x * y
//! ```
//!
//! `with_value(x, v)` is `v`, with the derivative of `x` (`brolga_with_value`). So derivatives are
//! those of double precision, and the value is what it was, to the bit. Like other functions that
//! are known by their names, these have to prove what they are: they are run, and have to agree
//! with the host's in double precision ([`crate::library::around`]). What returns an integer (a
//! comparison, a conversion) has no derivative, and only must not get one; it has to prove what it
//! is all the same.
//!
//! **Cost.** As a module is loaded, at most 350 calls of a function of such a name. In the run that
//! of the function and of the expression beside it.

use brolga::cranelift_codegen::ir::{InstBuilder, Value, types};
use brolga_rules::{MathKind, Ty, math_rule};
use wasmparser::{FuncType, ValType};

use crate::function::env::HostFunc;
use crate::function::func::{Fx, call_host};
use crate::function::ops::little;
use crate::host;
use crate::host::binary128::{of_double, to_double};
use crate::library::around::{call_wrapped, computed, store_with_value, with_value};
use crate::library::clib::parts;
use crate::library::mathlib::{AGREES_F64, Host, is_close, points};
use crate::provided::{TrialRun, WrapperFunction};
use crate::val::Val;

/// What is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuadKind {
    /// A `long double`: two words, or a place for them, before all parameters, if it is the
    /// result.
    Quad,
    Double,
    Single,
    Int,
    Long,
    /// Of an `int` that is written.
    IntPtr,
    /// Of a `long double` that is written.
    QuadPtr,
}

/// Where a result's derivative comes from.
#[derive(Clone, Copy)]
enum Slope {
    /// There is none: an integer. Whether one is right for some operands.
    Answers(fn(f64, f64, i64) -> bool),
    /// There is none: an integer as a number. Which.
    Number(fn(f64) -> f64),
    /// The first operand.
    Same,
    Add,
    Sub,
    Mul,
    Div,
    /// The C function of that name.
    Of(&'static str),
    /// The first operand times a power of two, whose exponent the function writes.
    Fraction,
}

/// A function on such numbers.
#[derive(Clone)]
pub(crate) struct Quad {
    params: Vec<QuadKind>,
    result: QuadKind,
    slope: Slope,
}

/// What compilers call.
const OPERATIONS: [(&str, &[QuadKind], QuadKind, Slope); 32] = {
    use QuadKind::{Double, Int, Long, Quad, Single};
    [
        ("__addtf3", &[Quad, Quad], Quad, Slope::Add),
        ("__subtf3", &[Quad, Quad], Quad, Slope::Sub),
        ("__multf3", &[Quad, Quad], Quad, Slope::Mul),
        ("__divtf3", &[Quad, Quad], Quad, Slope::Div),
        ("__extenddftf2", &[Double], Quad, Slope::Same),
        ("__extendsftf2", &[Single], Quad, Slope::Same),
        ("__trunctfdf2", &[Quad], Double, Slope::Same),
        ("__trunctfsf2", &[Quad], Single, Slope::Same),
        ("__powitf2", &[Quad, Int], Quad, Slope::Of("__powidf2")),
        ("__eqtf2", &[Quad, Quad], Int, Slope::Answers(|x, y, r| (r == 0) == (x == y))),
        ("__netf2", &[Quad, Quad], Int, Slope::Answers(|x, y, r| (r != 0) == (x != y))),
        ("__lttf2", &[Quad, Quad], Int, Slope::Answers(|x, y, r| (r < 0) == (x < y))),
        ("__letf2", &[Quad, Quad], Int, Slope::Answers(|x, y, r| (r <= 0) == (x <= y))),
        ("__gttf2", &[Quad, Quad], Int, Slope::Answers(|x, y, r| (r > 0) == (x > y))),
        ("__getf2", &[Quad, Quad], Int, Slope::Answers(|x, y, r| (r >= 0) == (x >= y))),
        ("__cmptf2", &[Quad, Quad], Int, Slope::Answers(|x, y, r| (r < 0) == (x < y) && (r > 0) == (x > y))),
        ("__unordtf2", &[Quad, Quad], Int, Slope::Answers(|x, y, r| (r != 0) == (x.is_nan() || y.is_nan()))),
        ("__floatsitf", &[Int], Quad, Slope::Number(f64::trunc)),
        ("__floatunsitf", &[Int], Quad, Slope::Number(|x| f64::from(x as i32 as u32))),
        ("__floatditf", &[Long], Quad, Slope::Number(f64::trunc)),
        ("__floatunditf", &[Long], Quad, Slope::Number(|x| x as i64 as u64 as f64)),
        ("__fixtfsi", &[Quad], Int, Slope::Answers(|x, _, r| r == x as i64)),
        // Of numbers below zero C says nothing.
        ("__fixunstfsi", &[Quad], Int, Slope::Answers(|x, _, r| x < 0.0 || r == x as i64)),
        ("__fixtfdi", &[Quad], Long, Slope::Answers(|x, _, r| r == x as i64)),
        ("__fixunstfdi", &[Quad], Long, Slope::Answers(|x, _, r| x < 0.0 || r == x as i64)),
        ("ilogbl", &[Quad], Int, Slope::Answers(|x, _, r| x == 0.0 || r == x.abs().log2().floor() as i64)),
        ("lrintl", &[Quad], Int, Slope::Answers(|x, _, r| r == x.round_ties_even() as i64)),
        ("lroundl", &[Quad], Int, Slope::Answers(|x, _, r| r == x.round() as i64)),
        ("llrintl", &[Quad], Long, Slope::Answers(|x, _, r| r == x.round_ties_even() as i64)),
        ("llroundl", &[Quad], Long, Slope::Answers(|x, _, r| r == x.round() as i64)),
        // Zero and normal, as musl numbers them.
        ("__fpclassifyl", &[Quad], Int, Slope::Answers(|x, _, r| r == if x == 0.0 { 2 } else { 4 })),
        ("__signbitl", &[Quad], Int, Slope::Answers(|x, _, r| (r != 0) == x.is_sign_negative())),
    ]
};

static TO_DOUBLE: HostFunc = HostFunc {
    symbol: "host.double_of_quad",
    params: &[types::I64, types::I64],
    result: Some(types::I64),
    repeatable: true,
    address: || host::double_of_quad as *const () as usize,
};

impl Quad {
    /// The function of a name, if it is one.
    pub(super) fn named(name: &str) -> Option<Self> {
        if let Some(&(_, params, result, slope)) = OPERATIONS.iter().find(|o| o.0 == name) {
            return Some(Self { params: params.to_vec(), result, slope });
        }
        let of = name.strip_suffix('l')?;
        match of {
            "frexp" => {
                return Some(Self {
                    params: vec![QuadKind::Quad, QuadKind::IntPtr],
                    result: QuadKind::Quad,
                    slope: Slope::Fraction,
                });
            }
            "modf" => {
                return Some(Self {
                    params: vec![QuadKind::Quad, QuadKind::QuadPtr],
                    result: QuadKind::Quad,
                    slope: Slope::Same,
                });
            }
            _ => {}
        }
        let rule = math_rule(of).filter(|r| matches!(r.kind, MathKind::Expr(_)) && r.rets[..] == [Ty::F64])?;
        let kind = |t: &Ty| match t {
            Ty::F64 => Some(QuadKind::Quad),
            Ty::I32 => Some(QuadKind::Int),
            _ => None,
        };
        let params = rule.params.iter().map(kind).collect::<Option<_>>()?;
        Some(Self { params, result: QuadKind::Quad, slope: Slope::Of(&rule.symbol) })
    }
}

impl WrapperFunction for Quad {
    fn ty(&self) -> FuncType {
        let kind = |k: &QuadKind| match k {
            QuadKind::Quad => vec![ValType::I64; 2],
            QuadKind::Double => vec![ValType::F64],
            QuadKind::Single => vec![ValType::F32],
            QuadKind::Long => vec![ValType::I64],
            QuadKind::Int | QuadKind::IntPtr | QuadKind::QuadPtr => vec![ValType::I32],
        };
        let params = self.params.iter().flat_map(kind);
        match self.result {
            QuadKind::Quad => FuncType::new([ValType::I32].into_iter().chain(params), []),
            other => FuncType::new(params, kind(&other)),
        }
    }

    fn emit(&self, fx: &mut Fx<'_, '_, '_, '_>, wrapped: &str) {
        let mut rest = std::mem::take(&mut fx.stack).into_iter();
        let mut next = || rest.next().expect("its type has been looked at");
        let to = (self.result == QuadKind::Quad).then(&mut next);
        let mut args: Vec<Value> = to.into_iter().collect();
        let mut operands = Vec::new();
        for kind in &self.params {
            let x = next();
            let zero = fx.b.ins().f64const(0.0);
            operands.push(match kind {
                QuadKind::Quad => {
                    let [low, high] = [x, next()].map(|w| fx.b.ins().bitcast(types::F64, little(), w));
                    let words = [low, high].map(|w| {
                        let w = with_value(fx, zero, w);
                        fx.b.ins().bitcast(types::I64, little(), w)
                    });
                    args.extend(words);
                    let number = call_host(fx, &TO_DOUBLE, &words)[0];
                    let number = fx.b.ins().bitcast(types::F64, little(), number);
                    with_value(fx, high, number)
                }
                QuadKind::Double => {
                    args.push(with_value(fx, zero, x));
                    x
                }
                QuadKind::Single => {
                    let zero = fx.b.ins().f32const(0.0);
                    args.push(with_value(fx, zero, x));
                    fx.b.ins().fpromote(types::F64, x)
                }
                _ => {
                    args.push(x);
                    x
                }
            });
        }
        let value = call_wrapped(fx, wrapped, &self.ty(), &args).first().copied();
        let slope = self.slope(fx, &operands);
        for (_, &place) in self.params.iter().zip(&operands).filter(|p| *p.0 == QuadKind::QuadPtr) {
            let zero = fx.b.ins().f64const(0.0);
            upper(fx, place, zero);
        }
        match (to, value, slope) {
            (Some(to), _, Some(slope)) => {
                upper(fx, to, slope);
                fx.b.ins().return_(&[]);
            }
            (None, Some(value), Some(slope)) => {
                let single = fx.b.func.dfg.value_type(value) == types::F32;
                let slope = if single { fx.b.ins().fdemote(types::F32, slope) } else { slope };
                let value = with_value(fx, slope, value);
                fx.b.ins().return_(&[value]);
            }
            (_, value, _) => {
                fx.b.ins().return_(value.as_slice());
            }
        }
    }

    fn agrees(&self, trial: &mut TrialRun<'_>) -> bool {
        let Some(model) = self.model() else { return false };
        points(self.params.len()).all(|mut point| {
            // Singles are what is left of the point.
            let mut args: Vec<Val> =
                (self.result == QuadKind::Quad).then_some(Val::I32(AT as i32)).into_iter().collect();
            for (x, kind) in point.iter_mut().zip(&self.params) {
                match kind {
                    QuadKind::Quad => args.extend(of_double(*x).map(|w| Val::I64(w as i64))),
                    QuadKind::Double => args.push(Val::F64(*x)),
                    QuadKind::Single => {
                        *x = f64::from(*x as f32);
                        args.push(Val::F32(*x as f32));
                    }
                    QuadKind::Int => args.push(Val::I32(*x as i32)),
                    QuadKind::Long => args.push(Val::I64(*x as i64)),
                    QuadKind::IntPtr | QuadKind::QuadPtr => args.push(Val::I32(AT as i32 + 64)),
                }
            }
            let Some((found, memory)) = trial(&[], &args) else { return false };
            let word = |at: usize| u64::from_le_bytes(memory[at..at + 8].try_into().expect("eight bytes"));
            let close = |found, wanted| is_close(found, wanted, AGREES_F64);
            match (self.slope, &found[..]) {
                (Slope::Answers(right), [Val::I32(r)]) => right(point[0], point[1], i64::from(*r)),
                (Slope::Answers(right), [Val::I64(r)]) => right(point[0], point[1], *r),
                (_, []) => close(to_double([word(AT), word(AT + 8)]), model(point)),
                (_, [Val::F64(v)]) => close(*v, model(point)),
                (_, [Val::F32(v)]) => close(f64::from(*v), f64::from(model(point) as f32)),
                _ => false,
            }
        })
    }
}

impl Quad {
    /// The expression whose derivative the result has. The function has been called.
    fn slope(&self, fx: &mut Fx<'_, '_, '_, '_>, operands: &[Value]) -> Option<Value> {
        Some(match (self.slope, operands) {
            (Slope::Answers(_), _) => return None,
            // An upper word is a float's, also where it is a constant.
            (Slope::Number(_), _) => fx.b.ins().f64const(0.0),
            (Slope::Same, _) => operands[0],
            (Slope::Add, [x, y]) => fx.b.ins().fadd(*x, *y),
            (Slope::Sub, [x, y]) => fx.b.ins().fsub(*x, *y),
            (Slope::Mul, [x, y]) => fx.b.ins().fmul(*x, *y),
            (Slope::Div, [x, y]) => fx.b.ins().fdiv(*x, *y),
            (Slope::Of(name), _) => computed(fx, name, operands),
            (Slope::Fraction, [x, e]) => {
                let room = fx.b.ins().iconst(types::I32, 4);
                let at = fx.range(0, *e, room);
                let e = fx.b.ins().load(types::I32, little(), at, 0);
                let back = fx.b.ins().ineg(e);
                computed(fx, "scalbn", &[*x, back])
            }
            _ => unreachable!("two operands"),
        })
    }

    /// What the function is in double precision, if it returns a number.
    fn model(&self) -> Option<Box<dyn Fn([f64; 3]) -> f64>> {
        Some(match self.slope {
            Slope::Answers(_) => Box::new(|_| f64::NAN),
            Slope::Number(of) => Box::new(move |x| of(x[0])),
            Slope::Same if self.params.contains(&QuadKind::QuadPtr) => Box::new(|x| x[0].fract()),
            Slope::Same => Box::new(|x| x[0]),
            Slope::Add => Box::new(|x| x[0] + x[1]),
            Slope::Sub => Box::new(|x| x[0] - x[1]),
            Slope::Mul => Box::new(|x| x[0] * x[1]),
            Slope::Div => Box::new(|x| x[0] / x[1]),
            Slope::Fraction => Box::new(|x| parts(x[0]).0),
            Slope::Of(name) => {
                let host = Host::of(name)?;
                Box::new(move |x| host.call(x))
            }
        })
    }
}

/// Give the number that has been left at a place the derivative of an expression: its upper word.
fn upper(fx: &mut Fx<'_, '_, '_, '_>, place: Value, slope: Value) {
    let room = fx.b.ins().iconst(types::I32, 16);
    let at = fx.range(0, place, room);
    store_with_value(fx, slope, at, 8);
}

/// Where results are left when functions are tried.
const AT: usize = 512;

#[cfg(test)]
mod tests {
    use super::Quad;

    #[test]
    fn names() {
        assert!(Quad::named("expl").is_some() && Quad::named("__multf3").is_some() && Quad::named("ldexpl").is_some());
        assert!(Quad::named("exp").is_none() && Quad::named("ceill").is_some() && Quad::named("ceil").is_none());
    }
}
