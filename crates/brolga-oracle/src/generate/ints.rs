//! Random integers: counters, indices, conditions. No derivative goes through them, but they decide
//! where it goes.
//!
//! **Question.** Integers of a random program may be anything. How do they index memory and divide
//! without a trap?
//!
//! **Answer.** [`Body::int_statement`] computes from what there is; divisors are constants.
//! [`Body::index`] cuts a number down to a window, [`Body::small_int`] to three bits.
//! [`Body::condition`] compares integers or floats. [`Body::check_statement`] is a trap that is
//! never taken; with `Feature::Traps` it may be one that is, a division by anything, or a
//! conversion that overflows.
//!
//! **Cost.** A few instructions of the generated program for each statement.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, TrapCode, Value, types};

use super::body::Body;
use super::feature::Feature;
use super::kind::{Kind, TAME, WINDOW};

impl Body<'_> {
    /// Integer arithmetic.
    pub(super) fn int_statement(&mut self) {
        let kind = self.source.choose(&[Kind::I8, Kind::I32, Kind::I64]);
        let ty = kind.ty();
        let (a, b) = (self.pick(kind).value, self.pick(kind).value);
        let value = match self.source.below(14) {
            0 => self.at_end().ins().iadd(a, b),
            1 => self.at_end().ins().isub(a, b),
            2 => self.at_end().ins().imul(a, b),
            3 => self.at_end().ins().band(a, b),
            4 => self.at_end().ins().bor(a, b),
            5 => self.at_end().ins().bxor(a, b),
            6 => {
                let three = self.at_end().ins().iconst(ty, 3);
                self.at_end().ins().udiv(a, three)
            }
            7 => {
                let five = self.at_end().ins().iconst(ty, 5);
                self.at_end().ins().urem(a, five)
            }
            8 => {
                let one = self.at_end().ins().iconst(ty, 1);
                self.at_end().ins().ushr(a, one)
            }
            9 => {
                let c = self.condition();
                self.at_end().ins().select(c, a, b)
            }
            10 if ty != types::I8 => self.at_end().ins().popcnt(a),
            11 => self.at_end().ins().smax(a, b),
            12 if ty != types::I8 => {
                let c = self.condition();
                self.at_end().ins().uextend(ty, c)
            }
            _ if ty != types::I8 => {
                let x = self.pick(Kind::F64);
                self.at_end().ins().fcvt_to_sint_sat(ty, x.value)
            }
            _ => self.condition(),
        };
        self.keep(value, kind, TAME);
    }

    /// A number from 0 up to and including 7, of type `i32`.
    pub(super) fn small_int(&mut self) -> Value {
        let n = self.pick(Kind::I32).value;
        let mask = self.at_end().ins().iconst(types::I32, 7);
        self.at_end().ins().band(n, mask)
    }

    /// An index into a window, of type `i64`.
    pub(super) fn index(&mut self) -> Value {
        let n = if self.source.chance(50) {
            self.pick(Kind::I64).value
        } else {
            let n = self.pick(Kind::I32).value;
            if self.source.chance(50) {
                self.at_end().ins().uextend(types::I64, n)
            } else {
                self.at_end().ins().sextend(types::I64, n)
            }
        };
        let mask = self.at_end().ins().iconst(types::I64, WINDOW - 1);
        self.at_end().ins().band(n, mask)
    }

    /// A truth value.
    pub(super) fn condition(&mut self) -> Value {
        if self.source.chance(50) {
            return self.float_condition();
        }
        let kind = self.source.choose(&[Kind::I8, Kind::I32, Kind::I64]);
        let (a, b) = (self.pick(kind).value, self.pick(kind).value);
        let cc = self.source.choose(&[
            IntCC::Equal,
            IntCC::NotEqual,
            IntCC::SignedLessThan,
            IntCC::UnsignedGreaterThanOrEqual,
            IntCC::SignedGreaterThan,
        ]);
        self.at_end().ins().icmp(cc, a, b)
    }

    /// A check that never fails, or one that may.
    pub(super) fn check_statement(&mut self) {
        if self.has(Feature::Traps) && self.source.chance(50) {
            self.risky_check();
            return;
        }
        let n = self.small_int();
        let eight = self.at_end().ins().iconst(types::I32, 8);
        if self.source.chance(50) {
            let bad = self.at_end().ins().icmp(IntCC::Equal, n, eight);
            self.at_end().ins().trapnz(bad, TrapCode::unwrap_user(1));
        } else {
            let good = self.at_end().ins().icmp(IntCC::UnsignedLessThan, n, eight);
            self.at_end().ins().trapz(good, TrapCode::HEAP_OUT_OF_BOUNDS);
        }
    }

    fn risky_check(&mut self) {
        match self.source.below(4) {
            0 => {
                let c = self.condition();
                self.at_end().ins().trapnz(c, TrapCode::unwrap_user(7));
            }
            1 => {
                let (a, b) = (self.small_int(), self.small_int());
                let value = self.at_end().ins().udiv(a, b);
                self.keep(value, Kind::I32, TAME);
            }
            2 => {
                let x = self.pick(Kind::F64);
                let value = self.at_end().ins().fcvt_to_uint(types::I32, x.value);
                self.keep(value, Kind::I32, TAME);
            }
            _ => {
                let c = self.condition();
                self.at_end().ins().trapz(c, TrapCode::HEAP_OUT_OF_BOUNDS);
            }
        }
    }
}
