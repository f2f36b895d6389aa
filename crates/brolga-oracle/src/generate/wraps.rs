//! Addresses that come round: strides and shifts so large that they wrap modulo 2⁶⁴, and land where an earlier turn was.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value};

use super::body::Body;
use super::kind::{Elem, Kind, Val};
use super::memory::Place;

/// A walk over a window whose stride is a multiple of a large power of two, but for a few bytes.
struct Walk {
    /// The turns that are not left out are multiples of this.
    round: i64,
    /// How many turns there are.
    turns: i64,
    /// Bytes from one turn to the next, modulo 2⁶⁴.
    stride: i64,
    /// Bytes from the pointer to where the first turn is.
    first: i64,
    /// The stride as a shift, if it is a power of two.
    shift: Option<i64>,
}

impl Body<'_> {
    fn walk_that_wraps(&mut self, elem: Elem) -> Walk {
        let power = self.source.between(61, 63) as i64;
        let round = 1_i64 << (64 - power);
        let factor: i64 = self.source.choose(&[1, 1, 3, -1]);
        // In a window of four elements, turns 0 and 2 are two apart.
        let step = if round == 2 { self.source.choose(&[0, 1, -1]) } else { 0 };
        let (first, visits) = match step {
            0 => (self.source.below(4), self.source.between(2, 3)),
            1 => (self.source.below(2), 2),
            _ => (self.source.between(2, 3), 2),
        };
        let turns = (visits as i64 - 1) * round + 1 + self.source.below(round as usize) as i64;
        let stride = (factor << power).wrapping_add(step * elem.bytes());
        let shift = (factor == 1 && step == 0).then_some(power);
        Walk { round, turns, stride, first: first as i64 * elem.bytes(), shift }
    }

    /// A loop that reads and writes where such a walk leads, and leaves out the turns in which that is nowhere.
    pub fn wrap_statement(&mut self) {
        let elem = self.some_elem();
        let (kind, walk) = (elem.scalar(), self.walk_that_wraps(elem));
        let p = self.pick(Kind::Ptr(elem)).value;
        let start = self.at_end().ins().iadd_imm_s(p, walk.first);
        let (header, params) = self.make_block(&[Kind::I64, kind, Kind::I64]);
        let (next, after) = self.make_block(&[kind]);
        let (exit, found) = self.make_block(&[kind]);
        let zero = self.at_end().ins().iconst(Kind::I64.ty(), 0);
        let sum = self.pick_tame(kind);
        let args = [zero, sum, start].map(BlockArg::Value);
        self.at_end().ins().jump(header, &args);

        self.switch_to(header);
        let [i, sum, carried] = [params[0].value, params[1].value, params[2].value];
        let (test, visit) = (self.make_block(&[]).0, self.make_block(&[]).0);
        let more = self.at_end().ins().icmp_imm_s(IntCC::SignedLessThan, i, walk.turns);
        self.at_end().ins().brif(more, test, &[], exit, &[BlockArg::Value(sum)]);
        self.switch_to(test);
        let left_out = self.at_end().ins().band_imm_s(i, walk.round - 1);
        self.at_end().ins().brif(left_out, next, &[BlockArg::Value(sum)], visit, &[]);

        let mark = self.scope.len();
        self.switch_to(visit);
        let address = self.walked(&walk, i, start, carried);
        let sum = self.visit(kind, Place { address, offset: 0 }, sum);
        self.at_end().ins().jump(next, &[BlockArg::Value(sum)]);
        self.scope.truncate(mark);

        self.switch_to(next);
        let i = self.at_end().ins().iadd_imm_s(i, 1);
        let carried = self.at_end().ins().iadd_imm_s(carried, walk.stride);
        let args = [i, after[0].value, carried].map(BlockArg::Value);
        self.at_end().ins().jump(header, &args);
        self.switch_to(exit);
        self.scope.extend(found);
    }

    /// The address of a turn: by a product, by a shift, or from the turn before.
    fn walked(&mut self, walk: &Walk, i: Value, start: Value, carried: Value) -> Value {
        if self.source.chance(30) {
            return carried;
        }
        let offset = match walk.shift {
            Some(by) if self.source.chance(60) => self.at_end().ins().ishl_imm_u(i, by),
            _ => self.at_end().ins().imul_imm_s(i, walk.stride),
        };
        self.at_end().ins().iadd(start, offset)
    }

    /// What is done with the element: the sum so far with it, stored there or not.
    fn visit(&mut self, kind: Kind, place: Place, sum: Value) -> Value {
        let store_first = self.source.chance(20);
        if store_first {
            let x = self.pick_tame(kind);
            self.store(x, place);
        }
        let x = self.load(kind, place);
        let x = if self.source.chance(60) {
            let square = self.at_end().ins().fmul(x, x);
            let quarter = self.constant(kind, 0.25);
            self.at_end().ins().fmul(square, quarter)
        } else {
            x
        };
        // The mean of two numbers is as tame as they are.
        let both = self.at_end().ins().fadd(sum, x);
        let half = self.constant(kind, 0.5);
        let mean = self.at_end().ins().fmul(both, half);
        if self.source.chance(50) {
            self.store(mean, place);
        }
        self.scope.push(Val::new(mean, kind));
        mean
    }
}
