//! Loads, stores, copies, and pointers as values.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};

use super::Feature;
use super::body::Body;
use super::kind::{Elem, Kind, TAME, Val, WINDOW};

/// A place in a window: an address and a constant offset from it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The address.
    pub address: Value,
    /// Bytes behind it.
    pub offset: i32,
}

impl Body<'_> {
    /// A load, a store, or an update in place.
    pub fn memory_statement(&mut self) {
        let elem = self.some_elem();
        let vectors = if self.has(Feature::Vectors) { 3 } else { 0 };
        match self.source.weighted(&[(8, 0), (8, 1), (5, 2), (vectors, 3), (vectors, 4), (1, 5), (1, 6)]) {
            0 => {
                let p = self.place(Kind::ReadPtr(elem), 1);
                let value = self.load(elem.scalar(), p);
                self.keep(value, elem.scalar(), TAME);
            }
            1 => {
                let p = self.place(Kind::Ptr(elem), 1);
                let x = self.pick_tame(elem.scalar());
                self.store(x, p);
            }
            2 => self.update(elem),
            3 => {
                let n = elem.vector().ty().lane_count().into();
                let p = self.place(Kind::ReadPtr(elem), n);
                let value = self.load(elem.vector(), p);
                self.keep(value, elem.vector(), TAME);
            }
            4 => {
                let n = elem.vector().ty().lane_count().into();
                let p = self.place(Kind::Ptr(elem), n);
                let x = self.pick_tame(elem.vector());
                self.store(x, p);
            }
            5 => self.erase(elem),
            _ => self.look_at_bytes(elem),
        }
    }

    fn some_elem(&mut self) -> Elem {
        self.source.choose(&self.sketch.elems())
    }

    /// Flags that make no difference to what happens.
    fn flags(&mut self) -> MemFlagsData {
        let flags = MemFlagsData::new();
        let flags = if self.source.chance(30) { flags.with_notrap() } else { flags };
        if self.source.chance(20) { flags.with_endianness(cranelift_codegen::ir::Endianness::Little) } else { flags }
    }

    /// Load a value of this kind.
    pub fn load(&mut self, kind: Kind, p: Place) -> Value {
        let flags = self.flags();
        self.at_end().ins().load(kind.ty(), flags, p.address, p.offset)
    }

    /// Store a value.
    pub fn store(&mut self, x: Value, p: Place) {
        let flags = self.flags();
        self.at_end().ins().store(flags, x, p.address, p.offset);
    }

    /// A place for `n` elements behind a pointer of this kind.
    pub fn place(&mut self, pointer: Kind, n: i64) -> Place {
        let p = self.pick(pointer);
        self.place_behind(p, n)
    }

    fn place_behind(&mut self, p: Val, n: i64) -> Place {
        let size = elem_of(p.kind).bytes();
        if n == 1 && self.source.chance(40) {
            let i = self.index();
            let bytes = if self.source.chance(50) {
                let shift = self.at_end().ins().iconst(types::I64, i64::from(size.trailing_zeros()));
                self.at_end().ins().ishl(i, shift)
            } else {
                let size = self.at_end().ins().iconst(types::I64, size);
                self.at_end().ins().imul(i, size)
            };
            let address = self.at_end().ins().iadd(p.value, bytes);
            return Place { address, offset: 0 };
        }
        let last = WINDOW + p.room - n;
        let offset = self.source.below(last as usize + 1) as i32 * size as i32;
        Place { address: p.value, offset }
    }

    /// p\[i\] = p\[i\]·c + x.
    fn update(&mut self, elem: Elem) {
        let p = self.place(Kind::Ptr(elem), 1);
        let old = self.load(elem.scalar(), p);
        let x = self.pick(elem.scalar());
        let (value, bound) = if self.source.chance(50) {
            (self.at_end().ins().fadd(old, x.value), TAME + x.bound)
        } else {
            (self.at_end().ins().fmul(old, x.value), TAME * x.bound)
        };
        let new = self.tame(Val { value, kind: elem.scalar(), bound, room: 0 });
        self.store(new.value, p);
    }

    /// Write zeros through integers.
    fn erase(&mut self, elem: Elem) {
        let (ty, n) = match (elem, self.source.below(3)) {
            (Elem::F64, 0) => (types::I64, 1),
            (Elem::F64, 1) => (types::I32, 1),
            (Elem::F64, _) => (types::I64X2, 2),
            (Elem::F32, 0) => (types::I32, 1),
            (Elem::F32, _) => (types::I64, 2),
        };
        let p = self.place(Kind::Ptr(elem), n);
        let zero = if ty.is_vector() {
            let zero = self.at_end().ins().iconst(types::I64, 0);
            self.at_end().ins().splat(ty, zero)
        } else {
            self.at_end().ins().iconst(ty, 0)
        };
        self.store(zero, p);
        if elem == Elem::F64 && ty == types::I32 {
            // The other half.
            self.store(zero, Place { offset: p.offset + 4, ..p });
        }
    }

    /// Read a part of a float, to decide something.
    fn look_at_bytes(&mut self, elem: Elem) {
        let p = self.place(Kind::ReadPtr(elem), 1);
        let flags = self.flags();
        let last = elem.bytes() as i32 - 1;
        let byte = if self.source.chance(50) {
            self.at_end().ins().uload8(types::I32, flags, p.address, p.offset + last)
        } else {
            self.at_end().ins().sload16(types::I32, flags, p.address, p.offset + last - 1)
        };
        let limit = self.at_end().ins().iconst(types::I32, 64);
        let c = self.at_end().ins().icmp(IntCC::UnsignedLessThan, byte, limit);
        self.keep(c, Kind::I8, TAME);
    }

    /// A pointer from other pointers.
    pub fn pointer_statement(&mut self) {
        let elem = self.some_elem();
        let kind = Kind::Ptr(elem);
        match self.source.below(6) {
            0 => {
                let c = self.condition();
                let p = self.pick(kind);
                let q = self.pick_beside(p);
                let value = self.at_end().ins().select(c, p.value, q.value);
                self.scope.push(Val { room: p.room.min(q.room), ..Val::new(value, kind) });
            }
            1 => {
                let p = self.pick(kind);
                let step = self.source.below(p.room as usize + 1) as i64;
                let bytes = self.at_end().ins().iconst(types::I64, step * elem.bytes());
                let value = self.at_end().ins().iadd(p.value, bytes);
                self.scope.push(Val { room: p.room - step, ..Val::new(value, kind) });
            }
            2 => {
                let p = self.pick(kind);
                if p.room >= WINDOW {
                    let i = self.index();
                    let size = self.at_end().ins().iconst(types::I64, elem.bytes());
                    let bytes = self.at_end().ins().imul(i, size);
                    let value = self.at_end().ins().iadd(p.value, bytes);
                    self.scope.push(Val::new(value, kind));
                }
            }
            3 => {
                let p = self.pick(kind).value;
                let place = self.pointer_place(elem);
                self.store(p, place);
            }
            4 => {
                let place = self.pointer_place(elem);
                let value = self.load(kind, place);
                self.keep(value, kind, TAME);
            }
            _ => {
                let (p, q) = (self.pick(kind).value, self.pick(kind).value);
                let cc = self.source.choose(&[IntCC::Equal, IntCC::NotEqual]);
                let c = self.at_end().ins().icmp(cc, p, q);
                self.keep(c, Kind::I8, TAME);
            }
        }
    }

    /// A place in a stack slot of pointers.
    fn pointer_place(&mut self, elem: Elem) -> Place {
        let slot = self.slot(Kind::Ptr(elem));
        if self.source.chance(50) {
            let offset = 8 * self.source.below(3) as i32;
            let address = self.at_end().ins().stack_addr(types::I64, slot, offset);
            return Place { address, offset: 0 };
        }
        let base = self.at_end().ins().stack_addr(types::I64, slot, 0);
        let i = self.index();
        let three = self.at_end().ins().iconst(types::I64, 3);
        let bytes = self.at_end().ins().ishl(i, three);
        let address = self.at_end().ins().iadd(base, bytes);
        Place { address, offset: 0 }
    }

    /// A call of a C function on memory.
    pub fn memory_call(&mut self) {
        let elem = self.some_elem();
        let n = self.source.between(1, WINDOW as usize) as i64;
        let size = self.at_end().ins().iconst(types::I64, n * elem.bytes());
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
    fn allocate(&mut self, elem: Elem) {
        let size = self.at_end().ins().iconst(types::I64, WINDOW * elem.bytes());
        let block = self.call_import("malloc", &[types::I64], &[types::I64], &[size])[0];
        for i in 0..WINDOW {
            let x = self.pick_tame(elem.scalar());
            self.store(x, Place { address: block, offset: (i * elem.bytes()) as i32 });
        }
        if self.source.chance(50) {
            let i = self.source.below(WINDOW as usize) as i64;
            let value = self.load(elem.scalar(), Place { address: block, offset: (i * elem.bytes()) as i32 });
            self.keep(value, elem.scalar(), TAME);
            self.call_import("free", &[types::I64], &[], &[block]);
        } else {
            self.keep(block, Kind::Ptr(elem), TAME);
        }
    }
}

/// What a pointer points at.
pub fn elem_of(pointer: Kind) -> Elem {
    match pointer {
        Kind::Ptr(elem) | Kind::ReadPtr(elem) => elem,
        other => unreachable!("{other:?} is no pointer"),
    }
}
