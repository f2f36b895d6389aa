//! Complex division as compilers call it: `__divdc3` and `__divsc3`.
//!
//! **Problem.** C divides complex numbers by a function of the compiler's library that scales by
//! powers of two, so that nothing overflows on the way, and does so by integer arithmetic on float
//! bits: there is no derivative to be had from that. **Answer.** The same function written with
//! `logb` and `scalbn`, which are exact and have rules. [`divide`] emits it, and `quotient`
//! computes it, to compare a module's own with ([`crate::library::clib`]). Results are those of
//! LLVM's `compiler-rt` to the bit, except for which NaN it is.
//!
//! **Cost.** In the run one call of `logb` and four of `scalbn`.
//!
//! **Source.** C, annex G; `__divdc3` of compiler-rt.
//!
//! Source: the C standard, annex G.5.1, example 2.

use brolga::cranelift_codegen::ir::condcodes::FloatCC;
use brolga::cranelift_codegen::ir::{self, BlockArg, InstBuilder, Signature, Type, Value, types};

use crate::function::func::Fx;
use crate::function::ops::little;

/// `(a + i b) / (c + i d)`, of floats of type `ty`, into memory.
pub(super) fn divide(fx: &mut Fx<'_, '_, '_, '_>, ty: Type) {
    let [to, a, b, c, d] = fx.stack[..] else { unreachable!("its type has been looked at") };
    let bytes = ty.bytes();
    let room = fx.b.ins().iconst(types::I32, 2 * i64::from(bytes));
    let at = fx.range(0, to, room);
    let mut cx = Floats { fx, ty };
    let (x, y) = (cx.abs(c), cx.abs(d));
    let (nan, less) = (cx.is_nan(x), cx.compare(FloatCC::LessThan, x, y));
    let other = cx.fx.b.ins().bor(nan, less);
    let largest = cx.fx.b.ins().select(other, y, x);
    let power = cx.call("logb", &[largest], ty);
    let (finite, none) = (cx.is_finite(power), cx.fx.b.ins().iconst(types::I32, 0));
    let n = cx.fx.b.ins().fcvt_to_sint_sat(types::I32, power);
    let n = cx.fx.b.ins().select(finite, n, none);
    let back = cx.fx.b.ins().ineg(n);
    let (c, d) = (cx.scaled(c, back), cx.scaled(d, back));
    let below = cx.dot(c, c, d, d);
    let (re, im) = cx.product(a, b, c, d);
    let (re, im) = (cx.fx.b.ins().fdiv(re, below), cx.fx.b.ins().fdiv(im, below));
    let (re, im) = (cx.scaled(re, back), cx.scaled(im, back));
    // Zeros and infinities.
    let (x, y) = (cx.is_nan(re), cx.is_nan(im));
    let both = cx.fx.b.ins().band(x, y);
    let (rare, end) = (cx.fx.b.create_block(), cx.fx.b.create_block());
    let (u, v) = (cx.fx.b.append_block_param(end, ty), cx.fx.b.append_block_param(end, ty));
    let args = |re, im| [BlockArg::Value(re), BlockArg::Value(im)];
    cx.fx.b.ins().brif(both, rare, &[], end, &args(re, im));
    cx.fx.b.switch_to_block(rare);
    cx.fx.b.set_cold_block(rare);
    let (re, im) = cx.limits([a, b, c, d], below, power, re, im);
    cx.fx.b.ins().jump(end, &args(re, im));
    cx.fx.b.switch_to_block(end);
    fx.b.ins().store(little(), u, at, 0);
    fx.b.ins().store(little(), v, at, bytes as i32);
    fx.b.ins().return_(&[]);
}

/// Floats of one type.
struct Floats<'x, 'a, 'b, 'c, 'd> {
    fx: &'x mut Fx<'a, 'b, 'c, 'd>,
    ty: Type,
}

impl Floats<'_, '_, '_, '_, '_> {
    fn constant(&mut self, x: f64) -> Value {
        if self.ty == types::F32 { self.fx.b.ins().f32const(x as f32) } else { self.fx.b.ins().f64const(x) }
    }

    fn abs(&mut self, x: Value) -> Value {
        self.fx.b.ins().fabs(x)
    }

    fn compare(&mut self, how: FloatCC, x: Value, y: Value) -> Value {
        self.fx.b.ins().fcmp(how, x, y)
    }

    fn is_nan(&mut self, x: Value) -> Value {
        self.compare(FloatCC::Unordered, x, x)
    }

    fn is_infinite(&mut self, x: Value) -> Value {
        let (x, infinity) = (self.abs(x), self.constant(f64::INFINITY));
        self.compare(FloatCC::Equal, x, infinity)
    }

    fn is_finite(&mut self, x: Value) -> Value {
        let (x, infinity) = (self.abs(x), self.constant(f64::INFINITY));
        self.compare(FloatCC::LessThan, x, infinity)
    }

    /// A function of C's that computes.
    fn call(&mut self, name: &str, args: &[Value], ty: Type) -> Value {
        let symbol = if self.ty == types::F32 { format!("{name}f") } else { name.to_owned() };
        let callee = self.fx.callee(&symbol, |fx| {
            let mut sig = Signature::new(fx.env.config.default_call_conv);
            sig.params.extend(args.iter().map(|&a| ir::AbiParam::new(fx.b.func.dfg.value_type(a))));
            sig.returns.push(ir::AbiParam::new(ty));
            sig
        });
        let call = self.fx.b.ins().call(callee, args);
        self.fx.b.inst_results(call)[0]
    }

    fn scaled(&mut self, x: Value, by: Value) -> Value {
        self.call("scalbn", &[x, by], self.ty)
    }

    /// `a c + b d`.
    fn dot(&mut self, a: Value, c: Value, b: Value, d: Value) -> Value {
        let (x, y) = (self.fx.b.ins().fmul(a, c), self.fx.b.ins().fmul(b, d));
        self.fx.b.ins().fadd(x, y)
    }

    /// `(a + i b)(c - i d)`.
    fn product(&mut self, a: Value, b: Value, c: Value, d: Value) -> (Value, Value) {
        let re = self.dot(a, c, b, d);
        let (x, y) = (self.fx.b.ins().fmul(b, c), self.fx.b.ins().fmul(a, d));
        (re, self.fx.b.ins().fsub(x, y))
    }

    /// One with a number's sign if it is infinite, and otherwise zero.
    fn unit(&mut self, x: Value) -> Value {
        let (one, zero, infinite) = (self.constant(1.0), self.constant(0.0), self.is_infinite(x));
        let size = self.fx.b.ins().select(infinite, one, zero);
        self.fx.b.ins().fcopysign(size, x)
    }

    /// What the quotient is where neither part is a number.
    fn limits(&mut self, [a, b, c, d]: [Value; 4], below: Value, power: Value, re: Value, im: Value) -> (Value, Value) {
        let (zero, infinity) = (self.constant(0.0), self.constant(f64::INFINITY));
        let all = |cx: &mut Self, of: fn(&mut Self, Value) -> Value, x, y| {
            let (x, y) = (of(cx, x), of(cx, y));
            cx.fx.b.ins().band(x, y)
        };
        let (mut re, mut im) = (re, im);
        let mut choose = |cx: &mut Self, when: Value, x: Value, y: Value| {
            re = cx.fx.b.ins().select(when, x, re);
            im = cx.fx.b.ins().select(when, y, im);
        };
        // C asks the other way round: what comes last here counts.
        let (over, numbers) = (self.compare(FloatCC::Equal, power, infinity), all(self, Self::is_finite, a, b));
        let when = self.fx.b.ins().band(over, numbers);
        let (x, y) = (self.unit(c), self.unit(d));
        let (x, y) = self.product(a, b, x, y);
        let (x, y) = (self.fx.b.ins().fmul(x, zero), self.fx.b.ins().fmul(y, zero));
        choose(self, when, x, y);
        let (x, y) = (self.is_infinite(a), self.is_infinite(b));
        let (any, numbers) = (self.fx.b.ins().bor(x, y), all(self, Self::is_finite, c, d));
        let when = self.fx.b.ins().band(any, numbers);
        let (x, y) = (self.unit(a), self.unit(b));
        let (x, y) = self.product(x, y, c, d);
        let (x, y) = (self.fx.b.ins().fmul(x, infinity), self.fx.b.ins().fmul(y, infinity));
        choose(self, when, x, y);
        let (by_zero, nothing) = (self.compare(FloatCC::Equal, below, zero), all(self, Self::is_nan, a, b));
        let something = self.fx.b.ins().bxor_imm_u(nothing, 1);
        let when = self.fx.b.ins().band(by_zero, something);
        let size = self.fx.b.ins().fcopysign(infinity, c);
        let (x, y) = (self.fx.b.ins().fmul(size, a), self.fx.b.ins().fmul(size, b));
        choose(self, when, x, y);
        (re, im)
    }
}

macro_rules! quotient {
    ($name:ident, $float:ty, $bits:ty, $mantissa:expr) => {
        /// `(a + i b) / (c + i d)`, for numbers that are not subnormal.
        pub(crate) fn $name(a: $float, b: $float, c: $float, d: $float) -> [$float; 2] {
            const BIAS: i32 = 2 - <$float>::MIN_EXP;
            let exponent = |x: $float| (x.abs().to_bits() >> $mantissa) as i32 - BIAS;
            let power = |n: i32| <$float>::from_bits(((n + BIAS) as $bits) << $mantissa);
            // A power of two need not be a number. Only the last step rounds.
            let scaled = |mut x: $float, mut n: i32| {
                const STEP: i32 = BIAS - 1 - <$float>::MANTISSA_DIGITS as i32;
                while n > BIAS {
                    (x, n) = (x * power(BIAS), n - BIAS);
                }
                while n < 1 - BIAS {
                    (x, n) = (x * power(-STEP), n + STEP);
                }
                x * power(n)
            };
            let largest = if c.is_nan() || c.abs() < d.abs() { d.abs() } else { c.abs() };
            let n = if largest.is_finite() && largest != 0.0 { exponent(largest) } else { 0 };
            let over = largest == <$float>::INFINITY;
            let (c, d) = (scaled(c, -n), scaled(d, -n));
            let below = c * c + d * d;
            let product = |a: $float, b: $float, c: $float, d: $float| [a * c + b * d, b * c - a * d];
            let unit = |x: $float| <$float>::from(u8::from(x.is_infinite())).copysign(x);
            let found = product(a, b, c, d).map(|x| scaled(x / below, -n));
            if !found.iter().all(|x| x.is_nan()) {
                found
            } else if below == 0.0 && !(a.is_nan() && b.is_nan()) {
                [a, b].map(|x| <$float>::INFINITY.copysign(c) * x)
            } else if (a.is_infinite() || b.is_infinite()) && c.is_finite() && d.is_finite() {
                product(unit(a), unit(b), c, d).map(|x| <$float>::INFINITY * x)
            } else if over && a.is_finite() && b.is_finite() {
                product(a, b, unit(c), unit(d)).map(|x| 0.0 * x)
            } else {
                found
            }
        }
    };
}

quotient!(quotient, f64, u64, 52);
quotient!(quotient_of_singles, f32, u32, 23);

#[cfg(test)]
mod tests {
    use super::{quotient, quotient_of_singles};
    use crate::{Instance, Module, Val};

    #[test]
    fn quotients() {
        assert_eq!(quotient(1.0, 2.0, 3.0, -4.0), [-0.2, 0.4]);
        assert_eq!(quotient_of_singles(1.0, 2.0, 3.0, -4.0), [-0.2, 0.4]);
        // Nothing overflows on the way.
        assert_eq!(quotient(1e300, 1e300, 1e300, 1e300), [1.0, 0.0]);
        assert_eq!(quotient(1.0, -1.0, 0.0, 0.0), [f64::INFINITY, -f64::INFINITY]);
        assert_eq!(quotient(f64::INFINITY, 1.0, 1.0, 1.0), [f64::INFINITY, -f64::INFINITY]);
        assert_eq!(quotient(1.0, 1.0, f64::NEG_INFINITY, 2.0), [-0.0, -0.0]);
        assert!(quotient(f64::NAN, f64::NAN, 0.0, 0.0).iter().all(|x| x.is_nan()));
    }

    /// What the module's function is replaced by is what it has been compared with, also where no
    /// part is a number.
    #[test]
    fn what_is_emitted_is_what_is_computed() {
        let text = |name: &str, t: &str, at: u32| {
            format!(
                r#"(module (import "env" "{name}" (func $divide (param i32 {t} {t} {t} {t}))) (memory 1)
                (func (export "f") (param {t} {t} {t} {t}) (result {t} {t})
                    (call $divide (i32.const 64) (local.get 0) (local.get 1) (local.get 2) (local.get 3))
                    ({t}.load (i32.const 64)) ({t}.load (i32.const {at}))))"#
            )
        };
        let instance = |text: String| Instance::new(&Module::new(&text).unwrap()).unwrap();
        let mut doubles = instance(text("__divdc3", "f64", 72));
        let mut singles = instance(text("__divsc3", "f32", 68));
        let parts = [0.0, -0.0, 1.5, -3e30, 1e-30, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        for k in 0..parts.len().pow(4) {
            let part = |i: u32| parts[k / parts.len().pow(i) % parts.len()];
            let [a, b, c, d] = [part(0), part(1), part(2), part(3)];
            let found = doubles.call("f", &[a, b, c, d].map(Val::F64)).unwrap();
            for (found, wanted) in found.iter().zip(quotient(a, b, c, d)) {
                let Val::F64(x) = *found else { panic!("{found:?}") };
                let same = x.to_bits() == wanted.to_bits() || x.is_nan() && wanted.is_nan();
                assert!(same, "({a} + {b} i) / ({c} + {d} i): {x}, not {wanted}");
            }
            let [a, b, c, d] = [a, b, c, d].map(|x| x as f32);
            let found = singles.call("f", &[a, b, c, d].map(Val::F32)).unwrap();
            for (found, wanted) in found.iter().zip(quotient_of_singles(a, b, c, d)) {
                let Val::F32(x) = *found else { panic!("{found:?}") };
                let same = x.to_bits() == wanted.to_bits() || x.is_nan() && wanted.is_nan();
                assert!(same, "({a} + {b} i) / ({c} + {d} i): {x}, not {wanted}, in single precision");
            }
        }
    }
}
