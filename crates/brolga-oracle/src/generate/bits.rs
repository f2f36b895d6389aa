//! Random float bits in integers: copies, whole and in pieces, round trips, signs, taking apart and
//! putting together.
//!
//! **Question.** A float travels as an integer in every way in which compiled code moves it. Which
//! statements make it travel so?
//!
//! **Answer.** [`Body::bits_statement`] draws one: to make bits of a number ([`Body::make_bits`])
//! and a number of bits, to load, store or choose bits, to copy a float in pieces through memory or
//! by shifts, to change signs by masks, to take a pair apart or put it together, to exchange
//! halves. [`Bits`] says which floats an integer carries, so bits become floats of the same size
//! again.
//!
//! **Cost.** A few instructions of the generated program for each statement; up to eight loads and
//! stores for a copy in pieces.

use cranelift_codegen::ir::{InstBuilder, Value, types};

use super::body::Body;
use super::kind::{Bits, FloatElem, GenVal, Kind, TAME};
use super::memory::Location;
use super::vectors::little;

impl Body<'_> {
    /// A statement on bits.
    pub(super) fn bits_statement(&mut self) {
        let form = self.sketch.bits(self.source);
        let kind = Kind::Bits(form);
        match self.source.below(9) {
            7 => self.in_pieces(form.elem()),
            0 => {
                let bits = self.make_bits(form);
                self.scope.push(bits);
            }
            1 | 2 => self.back_to_floats(form),
            3 => {
                // Where memory is not used, there are no pointers that the root function did not
                // make itself.
                let place = self.place(Kind::ReadPtr(form.elem()), form.count() as i64);
                let value = self.load(kind, place);
                self.keep(value, kind, TAME);
            }
            4 => {
                let place = self.place(Kind::Ptr(form.elem()), form.count() as i64);
                let x = self.pick(kind).value;
                self.store(x, place);
            }
            5 => {
                let c = self.condition();
                let x = self.pick(kind);
                let (x, y) = (x.value, self.pick_beside(x).value);
                let value = self.at_end().ins().select(c, x, y);
                self.keep(value, kind, TAME);
            }
            6 => self.sign_trick(form.elem()),
            _ => self.take_apart(),
        }
    }

    /// A float that is copied in pieces: from memory, or from a register by shifts, one after the
    /// other or all at once.
    fn in_pieces(&mut self, elem: FloatElem) {
        let piece = if elem == FloatElem::F64 {
            [types::I8, types::I16, types::I32]
        } else {
            [types::I8, types::I16, types::I16]
        };
        let ty = piece[self.source.below(3)];
        let (from, to) = (self.place(Kind::ReadPtr(elem), 1), self.place(Kind::Ptr(elem), 1));
        let step = ty.bytes() as usize;
        let places = (0..elem.bytes() as i32).step_by(step);
        if self.source.chance(30) {
            let form = if elem == FloatElem::F64 { Bits::F64 } else { Bits::F32 };
            let x = self.pick(Kind::Bits(form)).value;
            for at in places {
                let by = self.at_end().ins().iconst(types::I32, i64::from(8 * at));
                let shifted = self.at_end().ins().ushr(x, by);
                let part = self.at_end().ins().ireduce(ty, shifted);
                self.store(part, Location { offset: to.offset + at, ..to });
            }
            return;
        }
        let mut parts = Vec::new();
        let loads_first = self.source.chance(30);
        for at in places {
            let flags = self.flags();
            let part = self.at_end().ins().load(ty, flags, from.address, from.offset + at);
            if loads_first {
                parts.push((at, part));
            } else {
                self.store(part, Location { offset: to.offset + at, ..to });
            }
        }
        for (at, part) in parts {
            self.store(part, Location { offset: to.offset + at, ..to });
        }
    }

    /// Bits of a number that is there.
    pub(super) fn make_bits(&mut self, form: Bits) -> GenVal {
        let value = match form {
            Bits::F64 | Bits::F32 => {
                let x = self.pick_tame(form.elem().scalar());
                self.at_end().ins().bitcast(form.ty(), little(), x)
            }
            Bits::F64Pair if self.source.chance(50) => {
                let (x, y) = (self.pick_tame(Kind::F64), self.pick_tame(Kind::F64));
                let low = self.at_end().ins().bitcast(types::I64, little(), x);
                let high = self.at_end().ins().bitcast(types::I64, little(), y);
                self.at_end().ins().iconcat(low, high)
            }
            Bits::F32Pair => {
                let (x, y) = (self.pick_tame(Kind::F32), self.pick_tame(Kind::F32));
                self.join_singles(x, y)
            }
            Bits::F64Pair | Bits::F64Bytes | Bits::F32Bytes => {
                let elem = form.elem();
                let x = self.some_vector(elem);
                self.at_end().ins().bitcast(form.ty(), little(), x)
            }
        };
        self.keep(value, Kind::Bits(form), TAME)
    }

    /// A vector, in programs without vectors too.
    fn some_vector(&mut self, elem: FloatElem) -> Value {
        if self.source.chance(50) {
            return self.pick_tame(elem.vector());
        }
        let x = self.pick_tame(elem.scalar());
        self.at_end().ins().splat(elem.vector().ty(), x)
    }

    /// Two floats as the halves of an `i64`.
    fn join_singles(&mut self, x: Value, y: Value) -> Value {
        let low = self.at_end().ins().bitcast(types::I32, little(), x);
        let high = self.at_end().ins().bitcast(types::I32, little(), y);
        let low = self.at_end().ins().uextend(types::I64, low);
        let high = self.at_end().ins().uextend(types::I64, high);
        let shift = self.at_end().ins().iconst(types::I64, 32);
        let high = self.at_end().ins().ishl(high, shift);
        self.at_end().ins().bor(low, high)
    }

    fn back_to_floats(&mut self, form: Bits) {
        let x = self.pick(Kind::Bits(form)).value;
        match form {
            Bits::F64 | Bits::F32 => {
                let kind = form.elem().scalar();
                let value = self.at_end().ins().bitcast(kind.ty(), little(), x);
                self.keep(value, kind, TAME);
            }
            Bits::F32Pair => {
                let half = if self.source.chance(50) {
                    x
                } else {
                    let shift = self.at_end().ins().iconst(types::I64, 32);
                    self.at_end().ins().ushr(x, shift)
                };
                let half = self.at_end().ins().ireduce(types::I32, half);
                let value = self.at_end().ins().bitcast(types::F32, little(), half);
                self.keep(value, Kind::F32, TAME);
            }
            Bits::F64Pair | Bits::F64Bytes | Bits::F32Bytes => {
                let kind = form.elem().vector();
                let vector = self.at_end().ins().bitcast(kind.ty(), little(), x);
                self.keep(vector, kind, TAME);
                let lane = self.source.below(kind.ty().lane_count() as usize) as u8;
                let value = self.at_end().ins().extractlane(vector, lane);
                self.keep(value, form.elem().scalar(), TAME);
            }
        }
    }

    /// |x|, -|x|, -x or x with another's sign, by masks.
    fn sign_trick(&mut self, elem: FloatElem) {
        let (form, sign) = match elem {
            FloatElem::F64 => (Bits::F64, i64::MIN),
            FloatElem::F32 => (Bits::F32, i64::from(i32::MIN) & 0xffff_ffff),
        };
        let ty = form.ty();
        let rest = if elem == FloatElem::F64 { i64::MAX } else { i64::from(i32::MAX) };
        let x = self.pick(Kind::Bits(form)).value;
        let value = match self.source.below(4) {
            0 => {
                let mask = self.at_end().ins().iconst(ty, rest);
                self.at_end().ins().band(x, mask)
            }
            1 => {
                let mask = self.at_end().ins().iconst(ty, sign);
                self.at_end().ins().bor(x, mask)
            }
            2 => {
                let mask = self.at_end().ins().iconst(ty, sign);
                self.at_end().ins().bxor(x, mask)
            }
            _ => {
                let y = self.pick(Kind::Bits(form)).value;
                let rest = self.at_end().ins().iconst(ty, rest);
                let sign = self.at_end().ins().iconst(ty, sign);
                let magnitude = self.at_end().ins().band(x, rest);
                let sign = self.at_end().ins().band(y, sign);
                self.at_end().ins().bor(magnitude, sign)
            }
        };
        self.keep(value, Kind::Bits(form), TAME);
    }

    /// Halves of a pair, or a pair of halves; or halves that change places.
    fn take_apart(&mut self) {
        if self.has(super::Feature::Single) && self.source.chance(40) {
            let x = self.pick(Kind::Bits(Bits::F32Pair)).value;
            let half = self.at_end().ins().iconst(types::I64, 32);
            let value = match self.source.below(3) {
                0 => self.at_end().ins().rotl(x, half),
                1 => self.at_end().ins().rotr(x, half),
                _ => {
                    let low = self.at_end().ins().ushr(x, half);
                    let high = self.at_end().ins().ishl(x, half);
                    self.at_end().ins().bor(low, high)
                }
            };
            self.keep(value, Kind::Bits(Bits::F32Pair), TAME);
            return;
        }
        if self.source.chance(50) {
            let x = self.pick(Kind::Bits(Bits::F64Pair)).value;
            let (low, high) = self.at_end().ins().isplit(x);
            self.keep(low, Kind::Bits(Bits::F64), TAME);
            self.keep(high, Kind::Bits(Bits::F64), TAME);
        } else {
            let (x, y) = (self.pick(Kind::Bits(Bits::F64)).value, self.pick(Kind::Bits(Bits::F64)).value);
            let value = self.at_end().ins().iconcat(x, y);
            self.keep(value, Kind::Bits(Bits::F64Pair), TAME);
        }
    }
}
