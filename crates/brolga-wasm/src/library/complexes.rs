//! The complex exponential function and its relatives, in a C library that was compiled into a
//! module.
//!
//! **Problem.** `cexp` of a C library has a way for numbers without an imaginary part (`exp(x) + i
//! y`), along which the derivative by that part is lost, and one for large numbers, which is
//! integer arithmetic on float bits (`__ldexp_cexp`). `csin`, `ccos`, `csinh`, `ccosh` and `cpow`
//! are made of the same. **Answer.** As in [`crate::library::quads`]: the module's own function
//! computes, and around it is one that sees to the derivative. What is stored is `with_value(e,
//! own)`, of which `e` is the part in real arithmetic:
//!
//! ```text
//! exp(a + ib)  = exp(a) cos(b) + i exp(a) sin(b)          exp(a) as four factors exp(a/4), so that nothing overflows before the result does
//! sinh(a + ib) = sinh(a) cos(b) + i cosh(a) sin(b)        beyond |a| = 700: exp(|a|)/2 for both, with a's sign for sinh
//! cosh(a + ib) = cosh(a) cos(b) + i sinh(a) sin(b)
//! sin(z) = -i sinh(iz)    cos(z) = cosh(iz)    z^w = exp(w log(z)), log(z) = log(hypot(a, b)) + i atan2(b, a)
//! ```
//!
//! Numbers are passed by address, in a copy that is the callee's, which is filled with numbers that
//! have no derivative while the library's function has it. All in double precision, also for
//! functions of singles. The other complex functions are differentiated as the library has written
//! them.
//!
//! **Cost.** As a module is loaded, at most 121 calls of a function of such a name. In the run that
//! of the function and of the expression beside it.
//!
//! Source: the C standard, annex G; the way around a function is ours.

use brolga::cranelift_codegen::ir::condcodes::FloatCC;
use brolga::cranelift_codegen::ir::{BlockArg, InstBuilder, Type, Value, types};
use wasmparser::{FuncType, ValType};

use crate::function::func::Fx;
use crate::function::ops::little;
use crate::library::around::{call_wrapped, computed, float_at, store_with_value, with_value, zero};
use crate::library::mathlib::POINTS;
use crate::provided::{TrialRun, WrapperFunction};
use crate::val::Val;

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ComplexFunction {
    Exp,
    Sin,
    Cos,
    Sinh,
    Cosh,
    Pow,
}

/// A function of complex numbers of one precision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComplexMath {
    of: ComplexFunction,
    single: bool,
}

/// The real number beyond which hyperbolic functions are exponentials to the last bit, and below
/// which nothing overflows.
const LARGE: f64 = 700.0;

impl ComplexMath {
    /// The function of a name, if it is one.
    pub(super) fn named(name: &str) -> Option<Self> {
        let (name, single) = name.strip_suffix('f').map_or((name, false), |n| (n, true));
        let of = match name {
            "cexp" => ComplexFunction::Exp,
            "csin" => ComplexFunction::Sin,
            "ccos" => ComplexFunction::Cos,
            "csinh" => ComplexFunction::Sinh,
            "ccosh" => ComplexFunction::Cosh,
            "cpow" => ComplexFunction::Pow,
            _ => return None,
        };
        Some(Self { of, single })
    }

    fn float(self) -> Type {
        if self.single { types::F32 } else { types::F64 }
    }

    fn operands(self) -> usize {
        if self.of == ComplexFunction::Pow { 2 } else { 1 }
    }
}

impl WrapperFunction for ComplexMath {
    fn ty(&self) -> FuncType {
        FuncType::new(vec![ValType::I32; 1 + self.operands()], [])
    }

    fn emit(&self, fx: &mut Fx<'_, '_, '_, '_>, wrapped: &str) {
        let places = std::mem::take(&mut fx.stack);
        let (ty, bytes) = (self.float(), self.float().bytes() as i32);
        let room = fx.b.ins().iconst(types::I32, 2 * i64::from(bytes));
        let none = zero(fx, ty);
        let mut given = Vec::new();
        for &place in &places[1..] {
            let at = fx.range(0, place, room);
            for offset in [0, bytes] {
                let x = fx.b.ins().load(ty, little(), at, offset);
                let constant = with_value(fx, none, x);
                fx.b.ins().store(little(), constant, at, offset);
                given.push((at, offset, x));
            }
        }
        call_wrapped(fx, wrapped, &self.ty(), &places);
        // A second read of the copy, which C does not do, finds what was there.
        for &(at, offset, x) in &given {
            store_with_value(fx, x, at, offset);
        }
        let number = |x| if self.single { fx.b.ins().fpromote(types::F64, x) } else { x };
        let numbers: Vec<Value> = given.iter().map(|g| g.2).map(number).collect();
        let (a, b) = (numbers[0], numbers[1]);
        let (re, im) = match self.of {
            ComplexFunction::Exp => exp(fx, a, b),
            ComplexFunction::Sinh => hyperbolic(fx, a, b, true),
            ComplexFunction::Cosh => hyperbolic(fx, a, b, false),
            // -i sinh(-b + ia) and cosh(-b + ia)
            ComplexFunction::Sin => {
                let c = fx.b.ins().fneg(b);
                let (re, im) = hyperbolic(fx, c, a, true);
                (im, fx.b.ins().fneg(re))
            }
            ComplexFunction::Cos => {
                let c = fx.b.ins().fneg(b);
                hyperbolic(fx, c, a, false)
            }
            ComplexFunction::Pow => {
                let (c, d) = (numbers[2], numbers[3]);
                let r = computed(fx, "hypot", &[a, b]);
                let (l, t) = (computed(fx, "log", &[r]), computed(fx, "atan2", &[b, a]));
                let (cl, dt, ct, dl) =
                    (fx.b.ins().fmul(c, l), fx.b.ins().fmul(d, t), fx.b.ins().fmul(c, t), fx.b.ins().fmul(d, l));
                let (re, im) = (fx.b.ins().fsub(cl, dt), fx.b.ins().fadd(ct, dl));
                exp(fx, re, im)
            }
        };
        let at = fx.range(0, places[0], room);
        for (offset, x) in [(0, re), (bytes, im)] {
            let x = if self.single { fx.b.ins().fdemote(ty, x) } else { x };
            store_with_value(fx, x, at, offset);
        }
        fx.b.ins().return_(&[]);
    }

    fn agrees(&self, trial: &mut TrialRun<'_>) -> bool {
        // Numbers of which nothing overflows in single precision.
        let some: Vec<f64> = POINTS.into_iter().filter(|x| x.abs() < 10.0).collect();
        let bytes = self.float().bytes() as usize;
        let (to, z, w) = (512, 256, 288);
        some.iter().enumerate().all(|(i, &a)| {
            some.iter().enumerate().all(|(j, &b)| {
                let (c, d) = (some[(3 * i + j) % some.len()], some[(i + 5 * j) % some.len()]);
                let mut memory = Vec::new();
                for (at, x) in [(z, a), (z + bytes, b), (w, c), (w + bytes, d)] {
                    let single = (x as f32).to_le_bytes().to_vec();
                    memory.push((at, if self.single { single } else { x.to_le_bytes().to_vec() }));
                }
                let args: Vec<Val> = [to, z, w][..1 + self.operands()].iter().map(|&p| Val::I32(p as i32)).collect();
                let Some((_, left)) = trial(&memory, &args) else { return false };
                let found = [to, to + bytes].map(|at| float_at(&left, at, self.single));
                let round = |x: f64| if self.single { f64::from(x as f32) } else { x };
                let wanted = self.value([a, b, c, d].map(round));
                // A power of zero is what the library says.
                let zero = self.of == ComplexFunction::Pow && a == 0.0 && b == 0.0;
                let size = 1.0 + wanted[0].abs() + wanted[1].abs();
                let close =
                    (0..2).all(|k| (found[k] - wanted[k]).abs() <= if self.single { 1e-4 } else { 1e-11 } * size);
                zero || close
            })
        })
    }
}

impl ComplexMath {
    /// Its value at `a + ib`, or of `(a + ib)^(c + id)`.
    fn value(self, [a, b, c, d]: [f64; 4]) -> [f64; 2] {
        match self.of {
            ComplexFunction::Exp => [a.exp() * b.cos(), a.exp() * b.sin()],
            ComplexFunction::Sin => [a.sin() * b.cosh(), a.cos() * b.sinh()],
            ComplexFunction::Cos => [a.cos() * b.cosh(), -a.sin() * b.sinh()],
            ComplexFunction::Sinh => [a.sinh() * b.cos(), a.cosh() * b.sin()],
            ComplexFunction::Cosh => [a.cosh() * b.cos(), a.sinh() * b.sin()],
            ComplexFunction::Pow => {
                let (l, t) = (a.hypot(b).ln(), b.atan2(a));
                Self { of: ComplexFunction::Exp, ..self }.value([c * l - d * t, c * t + d * l, 0.0, 0.0])
            }
        }
    }
}

/// `exp(a) (cos(b), sin(b))`, as expressions whose derivatives do not overflow if they do not.
fn exp(fx: &mut Fx<'_, '_, '_, '_>, a: Value, b: Value) -> (Value, Value) {
    let quarter = fx.b.ins().f64const(0.25);
    let a = fx.b.ins().fmul(a, quarter);
    let q = computed(fx, "exp", &[a]);
    let qq = fx.b.ins().fmul(q, q);
    let parts = ["cos", "sin"].map(|f| {
        let x = computed(fx, f, &[b]);
        // From the small end.
        let x = fx.b.ins().fmul(x, qq);
        fx.b.ins().fmul(x, qq)
    });
    (parts[0], parts[1])
}

/// `sinh(a) cos(b), cosh(a) sin(b)`, or the same with `sinh` and `cosh` exchanged.
fn hyperbolic(fx: &mut Fx<'_, '_, '_, '_>, a: Value, b: Value, sinh: bool) -> (Value, Value) {
    let (near, far, end) = (fx.b.create_block(), fx.b.create_block(), fx.b.create_block());
    let results = [0; 2].map(|_| fx.b.append_block_param(end, types::F64));
    let (size, large) = (fx.b.ins().fabs(a), fx.b.ins().f64const(LARGE));
    let is_far = fx.b.ins().fcmp(FloatCC::GreaterThan, size, large);
    fx.b.ins().brif(is_far, far, &[], near, &[]);

    fx.b.switch_to_block(near);
    let (first, second) = if sinh { ("sinh", "cosh") } else { ("cosh", "sinh") };
    let parts = [(first, "cos"), (second, "sin")].map(|(f, g)| {
        let (x, y) = (computed(fx, f, &[a]), computed(fx, g, &[b]));
        BlockArg::Value(fx.b.ins().fmul(x, y))
    });
    fx.b.ins().jump(end, &parts);

    fx.b.switch_to_block(far);
    fx.b.set_cold_block(far);
    let (re, im) = exp(fx, size, b);
    let half = fx.b.ins().f64const(0.5);
    let sign = fx.b.ins().fcopysign(half, a);
    let (x, y) = if sinh { (sign, half) } else { (half, sign) };
    let parts = [fx.b.ins().fmul(re, x), fx.b.ins().fmul(im, y)].map(BlockArg::Value);
    fx.b.ins().jump(end, &parts);

    fx.b.switch_to_block(end);
    (results[0], results[1])
}

#[cfg(test)]
mod tests {
    use super::ComplexMath;

    #[test]
    fn names() {
        assert!(
            ComplexMath::named("cexp").is_some_and(|c| !c.single)
                && ComplexMath::named("cpowf").is_some_and(|c| c.single)
        );
        assert!(
            ComplexMath::named("exp").is_none()
                && ComplexMath::named("csqrt").is_none()
                && ComplexMath::named("f").is_none()
        );
    }
}
