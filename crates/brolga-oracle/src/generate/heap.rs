//! Random heap memory: blocks that C's functions look after, records that point at each other, and
//! atomic operations.
//!
//! **Question.** A derivative follows allocation, copies of blocks, lists and atomics. Which
//! statements put them into a random program?
//!
//! **Answer.** [`Body::memory_call`] copies or fills a window by C's functions, or allocates a
//! block, which is filled, and freed in the same breath or never. [`Body::list_statement`] links up
//! to three records, on the heap or in slots, and walks through them. [`Body::atomic_statement`]
//! loads, stores, exchanges, or compares and swaps until it works; updates are refused by the
//! transform, so they are rare.
//!
//! **Invariant.** Nothing is used once it is freed, and `memcpy` is given blocks that do not
//! overlap.
//!
//! **Cost.** A few dozen instructions of the generated program for a statement at most.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AtomicRmwOp, BlockArg, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types,
};

use super::body::Body;
use super::kind::{Bits, FloatElem, GenVal, Kind, TAME, WINDOW};
use super::memory::Location;
use super::vectors::little;

impl Body<'_> {
    /// A call of a C function on memory.
    pub(super) fn memory_call(&mut self) {
        let elem = self.some_elem();
        let n = self.source.between(1, WINDOW as usize) as i64;
        let size = if self.source.chance(30) {
            let n = self.index();
            let bytes = self.at_end().ins().iconst(types::I64, elem.bytes());
            self.at_end().ins().imul(n, bytes)
        } else {
            self.at_end().ins().iconst(types::I64, n * elem.bytes())
        };
        match self.source.below(5) {
            0 | 1 => {
                let (to, from) = (self.pick(Kind::Ptr(elem)).value, self.pick(Kind::ReadPtr(elem)).value);
                let args = [to, from, size];
                self.call_import("memmove", &[types::I64; 3], &[types::I64], &args);
            }
            2 => {
                // The slots differ, so that the ranges do not overlap.
                let (a, b) = (self.slot(elem.scalar()), self.slot(elem.scalar()));
                if a != b {
                    let a = self.at_end().ins().stack_addr(types::I64, a, 0);
                    let b = self.at_end().ins().stack_addr(types::I64, b, 0);
                    self.call_import("memcpy", &[types::I64; 3], &[types::I64], &[a, b, size]);
                }
            }
            3 => {
                let p = self.pick(Kind::Ptr(elem)).value;
                let zero = self.at_end().ins().iconst(types::I32, 0);
                let params = [types::I64, types::I32, types::I64];
                self.call_import("memset", &params, &[types::I64], &[p, zero, size]);
            }
            _ => self.allocate(elem),
        }
    }

    /// A block from the heap, filled; freed in the same breath or never.
    fn allocate(&mut self, elem: FloatElem) {
        if self.source.chance(30) {
            let n = self.at_end().ins().iconst(types::I64, WINDOW);
            let size = self.at_end().ins().iconst(types::I64, elem.bytes());
            let block = self.call_import("calloc", &[types::I64; 2], &[types::I64], &[n, size])[0];
            self.keep(block, Kind::Ptr(elem), TAME);
            return;
        }
        let size = self.at_end().ins().iconst(types::I64, WINDOW * elem.bytes());
        let block = self.call_import("malloc", &[types::I64], &[types::I64], &[size])[0];
        for i in 0..WINDOW {
            let x = self.pick_tame(elem.scalar());
            self.store(x, Location { address: block, offset: (i * elem.bytes()) as i32 });
        }
        if self.source.chance(50) {
            let block = if self.source.chance(30) {
                let size = self.at_end().ins().iconst(types::I64, 4 * WINDOW * elem.bytes());
                self.call_import("realloc", &[types::I64; 2], &[types::I64], &[block, size])[0]
            } else {
                block
            };
            let i = self.source.below(WINDOW as usize) as i64;
            let value = self.load(elem.scalar(), Location { address: block, offset: (i * elem.bytes()) as i32 });
            self.keep(value, elem.scalar(), TAME);
            self.call_import("free", &[types::I64], &[], &[block]);
        } else {
            self.keep(block, Kind::Ptr(elem), TAME);
        }
    }

    /// Link a few records, and walk through them: add up what they hold, perhaps changing it.
    pub(super) fn list_statement(&mut self) {
        let n = self.source.between(1, 3);
        let on_heap = self.source.chance(50);
        let mut next = self.at_end().ins().iconst(types::I64, 0);
        for _ in 0..n {
            let record = if on_heap {
                let size = self.at_end().ins().iconst(types::I64, 16);
                self.call_import("malloc", &[types::I64], &[types::I64], &[size])[0]
            } else {
                let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 16, 3);
                let slot = self.func.create_sized_stack_slot(slot);
                self.at_end().ins().stack_addr(types::I64, slot, 0)
            };
            let x = self.pick_tame(Kind::F64);
            self.store(x, Location { address: record, offset: 8 });
            self.store(next, Location { address: record, offset: 0 });
            next = record;
        }
        let start = self.pick_tame(Kind::F64);
        let (head, params) = self.make_block(&[Kind::I64, Kind::F64]);
        let (done, results) = self.make_block(&[Kind::F64]);
        self.at_end().ins().jump(head, &[BlockArg::Value(next), BlockArg::Value(start)]);
        self.switch_to(head);
        let (record, sum) = (params[0].value, params[1].value);
        let x = self.load(Kind::F64, Location { address: record, offset: 8 });
        let y = self.pick(Kind::F64);
        let value = self.at_end().ins().fmul(x, y.value);
        let product = self.tame(GenVal { value, kind: Kind::F64, bound: TAME * y.bound, room: 0 });
        if self.source.chance(50) {
            self.store(product.value, Location { address: record, offset: 8 });
        }
        let value = self.at_end().ins().fadd(sum, product.value);
        let sum = self.tame(GenVal { value, bound: TAME + product.bound, ..product });
        let next = self.at_end().ins().load(types::I64, MemFlagsData::new(), record, 0);
        let zero = self.at_end().ins().iconst(types::I64, 0);
        let more = self.at_end().ins().icmp(IntCC::NotEqual, next, zero);
        let sum = BlockArg::Value(sum.value);
        self.at_end().ins().brif(more, head, &[BlockArg::Value(next), sum], done, &[sum]);
        self.switch_to(done);
        self.scope.extend(results);
    }

    /// An atomic operation on a float's bits.
    pub(super) fn atomic_statement(&mut self) {
        let elem = self.source.choose(&self.sketch.elems());
        let form = if elem == FloatElem::F64 { Bits::F64 } else { Bits::F32 };
        let (kind, ty) = (Kind::Bits(form), form.ty());
        let place = self.place(Kind::Ptr(elem), 1);
        let offset = self.at_end().ins().iconst(types::I64, i64::from(place.offset));
        let p = self.at_end().ins().iadd(place.address, offset);
        let flags = MemFlagsData::new();
        // Updates are refused, as they should be; now and then we want to see that.
        match self.source.weighted(&[(40, 0), (40, 1), (1, 2), (1, 3), (6, 4)]) {
            0 => {
                let value = self.at_end().ins().atomic_load(ty, flags, p);
                self.keep(value, kind, TAME);
            }
            1 => {
                let x = self.make_bits(form).value;
                self.at_end().ins().atomic_store(flags, x, p);
            }
            2 => {
                let x = self.make_bits(form).value;
                let value = self.at_end().ins().atomic_rmw(ty, flags, AtomicRmwOp::Xchg, p, x);
                self.keep(value, kind, TAME);
            }
            3 => self.atomic_update(elem, form, p),
            _ => {
                // Taken out and dropped.
                let zero = self.at_end().ins().iconst(ty, 0);
                self.at_end().ins().atomic_rmw(ty, flags, AtomicRmwOp::Xchg, p, zero);
            }
        }
    }

    /// Add to a float, or scale it, by comparing and swapping until it works.
    fn atomic_update(&mut self, elem: FloatElem, form: Bits, p: Value) {
        let (kind, ty) = (elem.scalar(), form.ty());
        let flags = MemFlagsData::new();
        let x = self.pick(kind);
        let first = self.at_end().ins().atomic_load(ty, flags, p);
        let (head, params) = self.make_block(&[Kind::Bits(form)]);
        let (done, _) = self.make_block(&[]);
        self.at_end().ins().jump(head, &[BlockArg::Value(first)]);
        self.switch_to(head);
        let old = self.at_end().ins().bitcast(kind.ty(), little(), params[0].value);
        let value = self.at_end().ins().fmul(old, x.value);
        let new = self.tame(GenVal { value, kind, bound: TAME * x.bound, room: 0 });
        let new = self.at_end().ins().bitcast(ty, little(), new.value);
        let seen = self.at_end().ins().atomic_cas(flags, p, params[0].value, new);
        let failed = self.at_end().ins().icmp(IntCC::NotEqual, seen, params[0].value);
        self.at_end().ins().brif(failed, head, &[BlockArg::Value(seen)], done, &[]);
        self.switch_to(done);
    }
}
