//! Random scalar arithmetic: statements of generated programs that compute floats.
//!
//! **Question.** A random program is to have every float instruction and C function in it, and
//! results that finite differences can measure. Which statements compute its numbers?
//!
//! **Answer.** [`Body::float_statement`] draws one: arithmetic, a select, a sign, a call of C, a
//! conversion. Every number carries a bound on its size, which each statement computes from those
//! of its operands. What has grown beyond `WILD` is scaled down at once, and [`Body::tame`] makes
//! it small before it travels. Roots, logarithms and divisors get an operand for which they are
//! defined (`x² + c`). With `Feature::Wild` there are also divisions by zero, overflows and NaN,
//! without any of that.
//!
//! **Cost.** A few instructions of the generated program for each statement.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::body::Body;
use super::feature::Feature;
use super::kind::{GenVal, Kind, TAME};
use super::memory::Location;

/// Beyond this bound a number is scaled down at once.
const WILD: f64 = 100.0;

impl Body<'_> {
    /// A constant in every lane.
    pub(super) fn constant(&mut self, kind: Kind, x: f64) -> Value {
        match kind {
            Kind::F64 => self.at_end().ins().f64const(x),
            Kind::F32 => self.at_end().ins().f32const(x as f32),
            Kind::F64x2 => {
                let x = self.at_end().ins().f64const(x);
                self.at_end().ins().splat(kind.ty(), x)
            }
            _ => {
                let x = self.at_end().ins().f32const(x as f32);
                self.at_end().ins().splat(kind.ty(), x)
            }
        }
    }

    /// The number itself if it is small enough to travel, or else something small made of it.
    pub(super) fn tame(&mut self, x: GenVal) -> GenVal {
        if !x.kind.is_float() || x.bound <= TAME {
            return x;
        }
        let value = if x.bound > WILD || self.source.chance(25) {
            return self.squash(x);
        } else {
            // A power of two, so that nothing is rounded.
            let factor = (TAME / x.bound).log2().floor().exp2();
            let c = self.constant(x.kind, factor);
            self.at_end().ins().fmul(x.value, c)
        };
        GenVal { value, bound: TAME, ..x }
    }

    /// x / sqrt(1 + x²).
    pub(super) fn squash(&mut self, x: GenVal) -> GenVal {
        let one = self.constant(x.kind, 1.0);
        let square = self.at_end().ins().fmul(x.value, x.value);
        let sum = self.at_end().ins().fadd(square, one);
        let root = self.at_end().ins().sqrt(sum);
        let value = self.at_end().ins().fdiv(x.value, root);
        GenVal { value, bound: 1.0, ..x }
    }

    /// x² + c, which is positive, with c > 0 in every lane.
    fn positive(&mut self, x: GenVal, c: f64) -> GenVal {
        let c_value = self.constant(x.kind, c);
        let square = self.at_end().ins().fmul(x.value, x.value);
        let value = self.at_end().ins().fadd(square, c_value);
        GenVal { value, bound: x.bound * x.bound + c, ..x }
    }

    /// Keep a number, scaled down if it is very large.
    fn keep_float(&mut self, value: Value, kind: Kind, bound: f64) {
        let val = GenVal { value, kind, bound, room: 0 };
        let val = if bound > WILD { self.tame(val) } else { val };
        self.scope.push(val);
    }

    /// A number made of numbers of other kinds, or a constant where there are none.
    pub(super) fn make_float(&mut self, kind: Kind) -> GenVal {
        let has = |body: &Self, k: Kind| body.scope.iter().any(|v| v.kind == k);
        let (value, bound) = match kind {
            Kind::F64 if has(self, Kind::F32) => {
                let x = self.pick(Kind::F32);
                (self.at_end().ins().fpromote(kind.ty(), x.value), x.bound)
            }
            Kind::F64 if has(self, Kind::F64x2) => {
                let x = self.pick(Kind::F64x2);
                let lane = self.source.below(2) as u8;
                (self.at_end().ins().extractlane(x.value, lane), x.bound)
            }
            Kind::F32 if has(self, Kind::F32x4) => {
                let x = self.pick(Kind::F32x4);
                let lane = self.source.below(4) as u8;
                (self.at_end().ins().extractlane(x.value, lane), x.bound)
            }
            Kind::F32 if has(self, Kind::F64) => {
                let x = self.pick(Kind::F64);
                (self.at_end().ins().fdemote(kind.ty(), x.value), x.bound * 1.001)
            }
            Kind::F64x2 | Kind::F32x4 => {
                let elem = kind.elem().expect("a number");
                let x = self.pick(elem.scalar());
                let y = self.pick_beside(x);
                let all = self.at_end().ins().splat(kind.ty(), x.value);
                (self.at_end().ins().insertlane(all, y.value, 1), x.bound.max(y.bound))
            }
            _ => {
                let x = self.source.number();
                (self.constant(kind, x), 2.0)
            }
        };
        self.keep(value, kind, bound)
    }

    /// A scalar computation.
    pub(super) fn float_statement(&mut self) {
        let kind = if self.has(Feature::Single) && self.source.chance(35) { Kind::F32 } else { Kind::F64 };
        let libm = if self.has(Feature::Libm) { 5 } else { 0 };
        let single = if self.has(Feature::Single) { 2 } else { 0 };
        match self.source.weighted(&[(20, 0), (2, 1), (2, 2), (libm, 3), (single, 4), (1, 5)]) {
            0 => self.arithmetic(kind),
            1 => self.choose_by_select(kind),
            2 => self.copy_sign(kind),
            3 => self.libm(kind),
            4 => self.convert(),
            _ => self.of_int(kind),
        }
    }

    /// An instruction that exists for scalars and vectors.
    pub(super) fn arithmetic(&mut self, kind: Kind) {
        if self.has(Feature::Wild) && self.source.chance(20) {
            self.wild(kind);
            return;
        }
        let x = self.pick(kind);
        let y = self.pick_beside(x);
        let (a, b) = (x.value, y.value);
        let (value, bound) = match self.source.weighted(&[
            (6, 0),
            (5, 1),
            (9, 2),
            (3, 3),
            (2, 4),
            (2, 5),
            (1, 6),
            (1, 7),
            (1, 8),
            (2, 9),
            (3, 10),
            (1, 11),
            (1, 12),
        ]) {
            0 => (self.at_end().ins().fadd(a, b), x.bound + y.bound),
            1 => (self.at_end().ins().fsub(a, b), x.bound + y.bound),
            2 => (self.at_end().ins().fmul(a, b), x.bound * y.bound),
            3 => {
                let d = self.positive(y, 0.5);
                (self.at_end().ins().fdiv(a, d.value), x.bound / 0.5)
            }
            4 => (self.at_end().ins().fmin(a, b), x.bound.max(y.bound)),
            5 => (self.at_end().ins().fmax(a, b), x.bound.max(y.bound)),
            6 => (self.at_end().ins().fneg(a), x.bound),
            7 => (self.at_end().ins().fabs(a), x.bound),
            8 => {
                let p = self.positive(x, 0.25);
                (self.at_end().ins().sqrt(p.value), p.bound.sqrt())
            }
            9 => {
                let s = self.squash(x);
                (s.value, s.bound)
            }
            10 => {
                let z = self.pick(kind);
                (self.at_end().ins().fma(a, b, z.value), x.bound * y.bound + z.bound)
            }
            11 => {
                let c = self.source.number();
                let c_value = self.constant(kind, c);
                (self.at_end().ins().fmul(a, c_value), x.bound * c.abs())
            }
            _ => {
                let rounded = match self.source.below(4) {
                    0 => self.at_end().ins().ceil(a),
                    1 => self.at_end().ins().floor(a),
                    2 => self.at_end().ins().trunc(a),
                    _ => self.at_end().ins().nearest(a),
                };
                (rounded, x.bound + 1.0)
            }
        };
        self.keep_float(value, kind, bound);
    }

    /// Whatever comes out.
    fn wild(&mut self, kind: Kind) {
        let x = self.pick(kind);
        let y = self.pick_beside(x);
        let (a, b) = (x.value, y.value);
        let value = match self.source.below(6) {
            0 => self.at_end().ins().fdiv(a, b),
            1 => self.at_end().ins().sqrt(a),
            2 => {
                let zero = self.constant(kind, 0.0);
                self.at_end().ins().fdiv(a, zero)
            }
            3 => {
                let zero = self.constant(kind, 0.0);
                self.at_end().ins().fmul(a, zero)
            }
            4 => {
                let large = self.constant(kind, 1e30);
                self.at_end().ins().fmul(a, large)
            }
            _ => {
                let none = self.constant(kind, f64::NAN);
                self.at_end().ins().fmin(a, none)
            }
        };
        // Numbers like these need no taming.
        self.keep(value, kind, TAME);
    }

    /// A truth value from a comparison of numbers.
    pub(super) fn float_condition(&mut self) -> Value {
        let kind = if self.has(Feature::Single) && self.source.chance(30) { Kind::F32 } else { Kind::F64 };
        let a = self.pick(kind);
        let b = self.pick_beside(a);
        let cc = self.source.choose(FloatCC::all());
        self.at_end().ins().fcmp(cc, a.value, b.value)
    }

    fn choose_by_select(&mut self, kind: Kind) {
        let c = self.condition();
        let x = self.pick(kind);
        let y = self.pick_beside(x);
        let value = if self.source.chance(15) {
            self.at_end().ins().select_spectre_guard(c, x.value, y.value)
        } else {
            self.at_end().ins().select(c, x.value, y.value)
        };
        self.keep_float(value, kind, x.bound.max(y.bound));
    }

    fn copy_sign(&mut self, kind: Kind) {
        let (x, y) = (self.pick(kind), self.pick(kind));
        let value = self.at_end().ins().fcopysign(x.value, y.value);
        self.keep_float(value, kind, x.bound);
    }

    fn convert(&mut self) {
        if self.source.chance(50) {
            let x = self.pick(Kind::F32);
            let value = self.at_end().ins().fpromote(Kind::F64.ty(), x.value);
            self.keep_float(value, Kind::F64, x.bound);
        } else {
            let x = self.pick(Kind::F64);
            let value = self.at_end().ins().fdemote(Kind::F32.ty(), x.value);
            self.keep_float(value, Kind::F32, x.bound * 1.001);
        }
    }

    fn of_int(&mut self, kind: Kind) {
        let n = self.small_int();
        let value = if self.source.chance(50) {
            self.at_end().ins().fcvt_from_sint(kind.ty(), n)
        } else {
            self.at_end().ins().fcvt_from_uint(kind.ty(), n)
        };
        self.keep_float(value, kind, 8.0);
    }

    /// A call of a C function, with operands for which it is defined.
    fn libm(&mut self, kind: Kind) {
        if self.has(Feature::Memory) && self.source.chance(15) {
            self.libm_through_pointers(kind);
            return;
        }
        let x = self.pick(kind);
        if self.has(Feature::Wild) && self.source.chance(30) {
            let name = self.source.choose(&["log", "log1p", "asin", "acosh", "atanh", "cbrt", "tgamma", "sqrt"]);
            let name = if kind == Kind::F32 { format!("{name}f") } else { name.to_owned() };
            let results = self.call_import(&name, &[kind.ty()], &[kind.ty()], &[x.value]);
            self.keep(results[0], kind, TAME);
            return;
        }
        let x = self.tame(x);
        let e = std::f64::consts::E;
        let unary = [
            ("sin", 1.0),
            ("cos", 1.0),
            ("tanh", 1.0),
            ("atan", 2.0),
            ("asinh", 3.0),
            ("erf", 1.0),
            ("erfc", 2.0),
            ("exp", e.powi(4)),
            ("expm1", e.powi(4)),
            ("exp2", 16.0),
            ("sinh", 28.0),
            ("cosh", 28.0),
            ("fabs", TAME),
            ("floor", TAME + 1.0),
            ("round", TAME + 1.0),
        ];
        let of_positive = [
            ("log", 4.0),
            ("log2", 5.0),
            ("log10", 3.0),
            ("log1p", 4.0),
            ("sqrt", 5.0),
            ("cbrt", 3.0),
            ("lgamma", 50.0),
        ];
        let of_squashed = [("asin", 2.0), ("acos", 4.0), ("atanh", 10.0), ("tan", 2.0)];
        let (name, args, bound) = match self.source.weighted(&[(6, 0), (3, 1), (2, 2), (4, 3)]) {
            0 => {
                let (name, bound) = self.source.choose(&unary);
                (name, vec![x.value], bound)
            }
            1 => {
                let (name, bound) = self.source.choose(&of_positive);
                (name, vec![self.positive(x, 0.5).value], bound)
            }
            2 => {
                let (name, bound) = self.source.choose(&of_squashed);
                let s = self.squash(x);
                (name, vec![s.value], bound)
            }
            _ => {
                let y = self.pick(kind);
                let y = self.tame(y);
                match self.source.below(8) {
                    0 => {
                        let p = self.positive(x, 0.5);
                        let s = self.squash(y);
                        ("pow", vec![p.value, s.value], 17.0)
                    }
                    1 => ("atan2", vec![x.value, self.positive(y, 0.25).value], 2.0),
                    2 => ("hypot", vec![x.value, self.positive(y, 0.25).value], 20.0),
                    3 => ("fmin", vec![x.value, y.value], TAME),
                    4 => ("fmax", vec![x.value, y.value], TAME),
                    5 => ("fdim", vec![x.value, y.value], 2.0 * TAME),
                    6 => ("copysign", vec![x.value, y.value], TAME),
                    _ => ("fmod", vec![x.value, self.positive(y, 0.75).value], TAME),
                }
            }
        };
        let name = if kind == Kind::F32 { format!("{name}f") } else { name.to_owned() };
        let types = vec![kind.ty(); args.len()];
        let results = self.call_import(&name, &types, &[kind.ty()], &args);
        self.keep_float(results[0], kind, bound);
    }

    /// Functions with more than one result.
    fn libm_through_pointers(&mut self, kind: Kind) {
        let elem = kind.elem().expect("a number");
        let suffix = if kind == Kind::F32 { "f" } else { "" };
        let x = self.pick(kind);
        let x = self.tame(x).value;
        let p = self.pick(Kind::Ptr(elem)).value;
        let step = self.at_end().ins().iconst(types::I64, elem.bytes());
        let q = self.at_end().ins().iadd(p, step);
        let (ty, pointer) = (kind.ty(), types::I64);
        match self.source.below(3) {
            0 => {
                let name = format!("sincos{suffix}");
                self.call_import(&name, &[ty, pointer, pointer], &[], &[x, p, q]);
            }
            1 => {
                let name = format!("modf{suffix}");
                let results = self.call_import(&name, &[ty, pointer], &[ty], &[x, q]);
                self.keep(results[0], kind, 1.0);
            }
            _ => {
                let name = format!("frexp{suffix}");
                let slot = self.slot(Kind::I32);
                let exponent = self.at_end().ins().stack_addr(types::I64, slot, 4);
                let results = self.call_import(&name, &[ty, pointer], &[ty], &[x, exponent]);
                self.keep(results[0], kind, 1.0);
                let e = self.load(Kind::I32, Location { address: exponent, offset: 0 });
                self.keep(e, Kind::I32, TAME);
            }
        }
    }
}
