//! Random vectors of floats: lanes that are put in, taken out, moved and mixed.
//!
//! **Question.** Which statements bring every operation on lanes into a random program?
//!
//! **Answer.** [`Body::vector_statement`] draws one: arithmetic as on scalars, a splat, a lane
//! taken out or put in, a shuffle, a blend by a comparison, a select of whole vectors, lanes that
//! change their width, a scalar in the first lane. A blend is written in one of three ways:
//! `bitselect` on floats, on integers, or by masks. Shuffles move whole lanes.
//!
//! **Invariant.** A vector's bound is that of its largest lane.
//!
//! **Cost.** A few instructions of the generated program for each statement.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{Immediate, InstBuilder, MemFlagsData, types};

use super::body::Body;
use super::feature::Feature;
use super::kind::{FloatElem, GenVal, Kind};

impl Body<'_> {
    /// A vector computation.
    pub(super) fn vector_statement(&mut self) {
        let elem = if self.has(Feature::Single) && self.source.chance(40) { FloatElem::F32 } else { FloatElem::F64 };
        let single = if self.has(Feature::Single) { 2 } else { 0 };
        match self.source.weighted(&[(9, 0), (3, 1), (4, 2), (3, 3), (2, 4), (3, 5), (2, 6), (single, 7), (1, 8)]) {
            0 => self.arithmetic(elem.vector()),
            1 => self.splat(elem),
            2 => self.extract(elem),
            3 => self.insert(elem),
            4 => self.shuffle(elem),
            5 => self.blend(elem),
            6 => {
                let c = self.condition();
                let x = self.pick(elem.vector());
                let y = self.pick_beside(x);
                let value = self.at_end().ins().select(c, x.value, y.value);
                self.keep(value, elem.vector(), x.bound.max(y.bound));
            }
            7 => self.widen_or_narrow(),
            _ => {
                let x = self.pick(elem.scalar());
                let value = self.at_end().ins().scalar_to_vector(elem.vector().ty(), x.value);
                self.keep(value, elem.vector(), x.bound);
            }
        }
    }

    fn splat(&mut self, elem: FloatElem) {
        let x = self.pick(elem.scalar());
        let value = self.at_end().ins().splat(elem.vector().ty(), x.value);
        self.keep(value, elem.vector(), x.bound);
    }

    fn lane(&mut self, elem: FloatElem) -> u8 {
        self.source.below(elem.vector().ty().lane_count() as usize) as u8
    }

    fn extract(&mut self, elem: FloatElem) {
        let x = self.pick(elem.vector());
        let lane = self.lane(elem);
        let value = self.at_end().ins().extractlane(x.value, lane);
        self.keep(value, elem.scalar(), x.bound);
    }

    fn insert(&mut self, elem: FloatElem) {
        let (x, y) = (self.pick(elem.vector()), self.pick(elem.scalar()));
        let lane = self.lane(elem);
        let value = self.at_end().ins().insertlane(x.value, y.value, lane);
        self.keep(value, elem.vector(), x.bound.max(y.bound));
    }

    /// Whole lanes of two vectors in any order, which `shuffle` sees as bytes.
    fn shuffle(&mut self, elem: FloatElem) {
        let x = self.pick(elem.vector());
        let y = self.pick_beside(x);
        let lanes = elem.vector().ty().lane_count() as usize;
        let n = elem.bytes() as u8;
        let order: Vec<u8> = (0..lanes).map(|_| self.source.below(2 * lanes) as u8).collect();
        let mask: Vec<u8> = order.iter().flat_map(|l| (0..n).map(move |b| l * n + b)).collect();
        let mask: Immediate = self.func.dfg.immediates.push(mask.into());
        let (a, b) = (self.as_bytes(x), self.as_bytes(y));
        let mixed = self.at_end().ins().shuffle(a, b, mask);
        let value = self.at_end().ins().bitcast(elem.vector().ty(), little(), mixed);
        self.keep(value, elem.vector(), x.bound.max(y.bound));
    }

    fn as_bytes(&mut self, x: GenVal) -> cranelift_codegen::ir::Value {
        self.at_end().ins().bitcast(types::I8X16, little(), x.value)
    }

    /// Lanes chosen by a comparison.
    fn blend(&mut self, elem: FloatElem) {
        let kind = elem.vector();
        let a = self.pick(kind);
        let b = self.pick_beside(a);
        let x = self.pick(kind);
        let y = self.pick_beside(x);
        let cc = self.source.choose(&[FloatCC::LessThan, FloatCC::GreaterThanOrEqual, FloatCC::NotEqual]);
        let mask = self.at_end().ins().fcmp(cc, a.value, b.value);
        let value = match self.source.below(3) {
            0 => {
                let mask = self.at_end().ins().bitcast(kind.ty(), little(), mask);
                self.at_end().ins().bitselect(mask, x.value, y.value)
            }
            1 => {
                let bits = kind.ty().as_int();
                let (x, y) = (
                    self.at_end().ins().bitcast(bits, little(), x.value),
                    self.at_end().ins().bitcast(bits, little(), y.value),
                );
                let mixed = self.at_end().ins().bitselect(mask, x, y);
                self.at_end().ins().bitcast(kind.ty(), little(), mixed)
            }
            _ => {
                // (x & mask) | (y & ~mask)
                let bits = kind.ty().as_int();
                let (x, y) = (
                    self.at_end().ins().bitcast(bits, little(), x.value),
                    self.at_end().ins().bitcast(bits, little(), y.value),
                );
                let masked = self.at_end().ins().band(x, mask);
                let other = self.at_end().ins().bnot(mask);
                let rest = self.at_end().ins().band(y, other);
                let mixed = self.at_end().ins().bor(masked, rest);
                self.at_end().ins().bitcast(kind.ty(), little(), mixed)
            }
        };
        self.keep(value, kind, x.bound.max(y.bound));
    }

    fn widen_or_narrow(&mut self) {
        if self.source.chance(50) {
            let x = self.pick(Kind::F32x4);
            let value = self.at_end().ins().fvpromote_low(x.value);
            self.keep(value, Kind::F64x2, x.bound);
        } else {
            let x = self.pick(Kind::F64x2);
            let value = self.at_end().ins().fvdemote(x.value);
            self.keep(value, Kind::F32x4, x.bound * 1.001);
        }
    }
}

/// The flags that a change of lane width needs.
pub(super) fn little() -> MemFlagsData {
    MemFlagsData::new().with_endianness(cranelift_codegen::ir::Endianness::Little)
}
