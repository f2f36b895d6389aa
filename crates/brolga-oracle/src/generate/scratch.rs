//! Random scratch memory: memory whose contents change their kind, and pointers that move.
//!
//! **Question.** Compilers give one stack slot to several variables whose lives do not overlap,
//! copy records of pointers and numbers by the widest loads there are, and turn indices into
//! pointers that walk. Does a derivative survive such habits?
//!
//! **Answer.** Each statement here is one of them, complete with its own memory, so that nothing of
//! another kind is ever read from what it leaves behind: one place for several kinds, a record
//! copied in four ways, a pointer that walks through a window, an array that grows by `realloc`, a
//! pointer by a detour, and bytes that are compared.
//!
//! **Cost.** Up to a few dozen instructions of the generated program for each statement; the loops
//! have at most five iterations.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types};

use super::body::Body;
use super::kind::{Bits, FloatElem, GenVal, Kind, TAME, WINDOW};
use super::memory::Location;
use super::vectors::little;
use super::{Feature, sketch::BUFFER};

impl Body<'_> {
    /// Such a statement.
    pub(super) fn scratch_statement(&mut self) {
        match self.source.weighted(&[(6, 0), (4, 1), (3, 2), (3, 3), (3, 4), (2, 5)]) {
            0 => self.reuse(),
            1 => self.copy_record(),
            2 => self.walk(),
            3 => self.grow(),
            4 => self.pointer_trick(),
            _ => self.compare_bytes(),
        }
    }

    /// The address of this many bytes that nothing else uses.
    fn fresh_block(&mut self, bytes: i64) -> Value {
        if self.source.chance(30) {
            let size = self.at_end().ins().iconst(types::I64, bytes);
            return self.call_import("malloc", &[types::I64], &[types::I64], &[size])[0];
        }
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes as u32, 4);
        let slot = self.func.create_sized_stack_slot(slot);
        self.at_end().ins().stack_addr(types::I64, slot, 0)
    }

    /// One place for values of one kind after another.
    fn reuse(&mut self) {
        let address = self.fresh_block(16);
        for _ in 0..self.source.between(2, 4) {
            let kind = self.scratch_kind();
            let x = self.pick_tame(kind);
            let steps = 16 / i64::from(kind.ty().bytes());
            let offset = (self.source.below(steps as usize) as u32 * kind.ty().bytes()) as i32;
            let place = Location { address, offset };
            self.store(x, place);
            if self.source.chance(30) {
                self.some_simple_statement();
            }
            let value = self.load(kind, place);
            self.keep(value, kind, TAME);
        }
    }

    fn scratch_kind(&mut self) -> Kind {
        let single = usize::from(self.has(Feature::Single)) * 2;
        let bits = usize::from(self.has(Feature::Bits));
        let vectors = usize::from(self.has(Feature::Vectors));
        let elem = self.some_elem();
        self.source.weighted(&[
            (4, Kind::F64),
            (single, Kind::F32),
            (3, Kind::Ptr(elem)),
            (1, Kind::I64),
            (1, Kind::I32),
            (bits, Kind::Bits(Bits::F64)),
            (vectors, Kind::F64x2),
        ])
    }

    /// Copy a record of a pointer and a number, and use the copy.
    fn copy_record(&mut self) {
        let elem = self.some_elem();
        let (from, to) = (self.fresh_block(16), self.fresh_block(16));
        let p = self.pick(Kind::Ptr(elem)).value;
        let x = self.pick_tame(Kind::F64);
        self.store(p, Location { address: from, offset: 0 });
        self.store(x, Location { address: from, offset: 8 });
        match self.source.below(4) {
            0 => {
                let size = self.at_end().ins().iconst(types::I64, 16);
                self.call_import("memcpy", &[types::I64; 3], &[types::I64], &[to, from, size]);
            }
            1 => {
                for offset in [0, 8] {
                    let word = self.at_end().ins().load(types::I64, MemFlagsData::new(), from, offset);
                    self.store(word, Location { address: to, offset });
                }
            }
            n => {
                let ty = if n == 2 { types::I8X16 } else { types::I128 };
                let all = self.at_end().ins().load(ty, little(), from, 0);
                self.at_end().ins().store(little(), all, to, 0);
            }
        }
        let p = self.load(Kind::Ptr(elem), Location { address: to, offset: 0 });
        self.keep(p, Kind::Ptr(elem), TAME);
        let x = self.load(Kind::F64, Location { address: to, offset: 8 });
        self.keep(x, Kind::F64, TAME);
    }

    /// A pointer goes through a window, up to its end.
    fn walk(&mut self) {
        let elem = self.some_elem();
        let kind = elem.scalar();
        let start = self.pick(Kind::Ptr(elem)).value;
        let n = self.source.between(1, WINDOW as usize) as i64;
        let bytes = self.at_end().ins().iconst(types::I64, n * elem.bytes());
        let end = self.at_end().ins().iadd(start, bytes);
        let first = self.pick_tame(kind);
        let (head, params) = self.make_block(&[Kind::I64, kind]);
        let (done, results) = self.make_block(&[kind]);
        self.at_end().ins().jump(head, &[BlockArg::Value(start), BlockArg::Value(first)]);
        self.switch_to(head);
        let (p, sum) = (params[0].value, params[1].value);
        let here = Location { address: p, offset: 0 };
        let x = self.load(kind, here);
        let y = self.pick(kind);
        let value = self.at_end().ins().fma(x, y.value, sum);
        let sum = self.tame(GenVal { value, kind, bound: TAME * y.bound + TAME, room: 0 });
        if self.source.chance(60) {
            self.store(sum.value, here);
        }
        let size = self.at_end().ins().iconst(types::I64, elem.bytes());
        let next = self.at_end().ins().iadd(p, size);
        let more = if self.source.chance(50) {
            self.at_end().ins().icmp(IntCC::UnsignedLessThan, next, end)
        } else {
            self.at_end().ins().icmp(IntCC::NotEqual, next, end)
        };
        let sum = BlockArg::Value(sum.value);
        self.at_end().ins().brif(more, head, &[BlockArg::Value(next), sum], done, &[sum]);
        self.switch_to(done);
        self.scope.extend(results);
    }

    /// An array that is made longer by one in every round.
    fn grow(&mut self) {
        let n = self.source.between(1, 5) as i64;
        let null = self.at_end().ins().iconst(types::I64, 0);
        let (head, params) = self.make_block(&[Kind::I64, Kind::I64, Kind::F64]);
        let (done, _) = self.make_block(&[]);
        let x = self.pick_tame(Kind::F64);
        self.at_end().ins().jump(head, &[BlockArg::Value(null), BlockArg::Value(null), BlockArg::Value(x)]);
        self.switch_to(head);
        let (i, old, x) = (params[0].value, params[1].value, params[2]);
        let one = self.at_end().ins().iconst(types::I64, 1);
        let three = self.at_end().ins().iconst(types::I64, 3);
        let next = self.at_end().ins().iadd(i, one);
        let size = self.at_end().ins().ishl(next, three);
        let array = self.call_import("realloc", &[types::I64; 2], &[types::I64], &[old, size])[0];
        let offset = self.at_end().ins().ishl(i, three);
        let last = self.at_end().ins().iadd(array, offset);
        self.store(x.value, Location { address: last, offset: 0 });
        let y = self.pick(Kind::F64);
        let first = self.load(Kind::F64, Location { address: array, offset: 0 });
        let value = self.at_end().ins().fma(x.value, y.value, first);
        let x = self.tame(GenVal { value, kind: Kind::F64, bound: TAME * y.bound + TAME, room: 0 });
        let limit = self.at_end().ins().iconst(types::I64, n);
        let more = self.at_end().ins().icmp(IntCC::SignedLessThan, next, limit);
        let back_args = [BlockArg::Value(next), BlockArg::Value(array), BlockArg::Value(x.value)];
        self.at_end().ins().brif(more, head, &back_args, done, &[]);
        self.switch_to(done);
        let i = self.source.below(n as usize) as i32;
        let value = self.load(Kind::F64, Location { address: array, offset: 8 * i });
        self.keep(value, Kind::F64, TAME);
        if self.source.chance(50) {
            self.call_import("free", &[types::I64], &[], &[array]);
        } else if n >= WINDOW {
            self.keep(array, Kind::Ptr(FloatElem::F64), TAME);
        }
    }

    /// The same pointer by a detour.
    fn pointer_trick(&mut self) {
        let elem = self.some_elem();
        let p = self.pick(Kind::Ptr(elem));
        let q = self.pick(Kind::Ptr(elem)).value;
        let value = match self.source.below(6) {
            0 => {
                // p + (q - p)
                let distance = self.at_end().ins().isub(q, p.value);
                self.at_end().ins().iadd(distance, p.value)
            }
            1 => {
                let mask = self.at_end().ins().iconst(types::I64, -4);
                self.at_end().ins().band(p.value, mask)
            }
            2 => {
                // A tag that is taken off again.
                let tag = self.at_end().ins().iconst(types::I64, 1);
                let tagged = self.at_end().ins().bor(p.value, tag);
                let mask = self.at_end().ins().iconst(types::I64, -2);
                self.at_end().ins().band(tagged, mask)
            }
            3 => {
                let step = self.at_end().ins().iconst(types::I64, 8 * BUFFER);
                let past_end = self.at_end().ins().iadd(p.value, step);
                self.at_end().ins().isub(past_end, step)
            }
            4 => {
                // An index that counts down from the end.
                let bytes = self.at_end().ins().iconst(types::I64, WINDOW * elem.bytes());
                let end = self.at_end().ins().iadd(p.value, bytes);
                let back = self.at_end().ins().ineg(bytes);
                self.at_end().ins().iadd(back, end)
            }
            _ => {
                let none = self.at_end().ins().iconst(types::I64, 0);
                let is_none = self.at_end().ins().icmp(IntCC::Equal, p.value, none);
                self.at_end().ins().select(is_none, q, p.value)
            }
        };
        self.keep(value, Kind::Ptr(elem), TAME);
    }

    /// Something to branch on.
    fn compare_bytes(&mut self) {
        if self.has(Feature::Wild) {
            return;
        }
        let elem = self.some_elem();
        let (p, q) = (self.pick(Kind::ReadPtr(elem)).value, self.pick(Kind::ReadPtr(elem)).value);
        let size = self.at_end().ins().iconst(types::I64, elem.bytes());
        let order = self.call_import("memcmp", &[types::I64; 3], &[types::I32], &[p, q, size])[0];
        let zero = self.at_end().ins().iconst(types::I32, 0);
        let less = self.at_end().ins().icmp(IntCC::SignedLessThan, order, zero);
        self.keep(less, Kind::I8, TAME);
    }
}
