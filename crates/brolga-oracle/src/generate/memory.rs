//! Random accesses of memory: loads, stores, copies, and pointers as values.
//!
//! **Question.** A random program is to access memory in every way, and never outside of it. Which
//! statements do so, and how far may they go from a pointer?
//!
//! **Answer.** Every pointer has a *window* of elements behind it that may be accessed, and some
//! *room* by which it may be moved on. [`Body::place`] stays in both: it adds an index, or a
//! constant offset. [`Body::memory_statement`] draws a load, a store, an update in place, an access
//! of a vector, zeros written through integers, a copy through integers, or a look at some bytes.
//! [`Body::pointer_statement`] makes pointers from others: by a select, by offsets, through stack
//! slots and tables of pointers; and compares them.
//!
//! **Invariant.** A new pointer has no more room than is left of those that it is made from.
//!
//! **Cost.** A few instructions of the generated program for each statement.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{ExternalName, GlobalValueData, InstBuilder, MemFlagsData, Value, types};

use super::body::Body;
use super::feature::Feature;
use super::kind::{FloatElem, GenVal, Kind, TAME, WINDOW};
use super::sketch::BUFFER;

/// A place in a window: an address and a constant offset from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location {
    /// The address.
    pub address: Value,
    /// Bytes after it.
    pub offset: i32,
}

impl Body<'_> {
    /// A load, a store, or an update in place.
    pub(super) fn memory_statement(&mut self) {
        let elem = self.some_elem();
        let vectors = if self.has(Feature::Vectors) { 3 } else { 0 };
        match self.source.weighted(&[(8, 0), (8, 1), (5, 2), (vectors, 3), (vectors, 4), (1, 5), (1, 6), (1, 7)]) {
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
            6 => self.look_at_bytes(elem),
            _ => self.copy_words(elem),
        }
    }

    pub(super) fn some_elem(&mut self) -> FloatElem {
        self.source.choose(&self.sketch.elems())
    }

    /// Flags that make no difference to what happens.
    pub(super) fn flags(&mut self) -> MemFlagsData {
        let flags = MemFlagsData::new();
        let flags = if self.source.chance(30) { flags.with_notrap() } else { flags };
        if self.source.chance(20) { flags.with_endianness(cranelift_codegen::ir::Endianness::Little) } else { flags }
    }

    /// Load a value of this kind.
    pub(super) fn load(&mut self, kind: Kind, p: Location) -> Value {
        let flags = self.flags();
        self.at_end().ins().load(kind.ty(), flags, p.address, p.offset)
    }

    /// Store a value.
    pub(super) fn store(&mut self, x: Value, p: Location) {
        let flags = self.flags();
        self.at_end().ins().store(flags, x, p.address, p.offset);
    }

    /// A place for `n` elements behind a pointer of this kind.
    pub(super) fn place(&mut self, pointer: Kind, n: i64) -> Location {
        let p = self.pick(pointer);
        self.place_from(p, n)
    }

    fn place_from(&mut self, p: GenVal, n: i64) -> Location {
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
            return Location { address, offset: 0 };
        }
        let last = WINDOW + p.room - n;
        let offset = self.source.below(last as usize + 1) as i32 * size as i32;
        Location { address: p.value, offset }
    }

    /// p\[i\] = p\[i\]·c + x.
    fn update(&mut self, elem: FloatElem) {
        let p = self.place(Kind::Ptr(elem), 1);
        let old = self.load(elem.scalar(), p);
        let x = self.pick(elem.scalar());
        let (value, bound) = if self.source.chance(50) {
            (self.at_end().ins().fadd(old, x.value), TAME + x.bound)
        } else {
            (self.at_end().ins().fmul(old, x.value), TAME * x.bound)
        };
        let new = self.tame(GenVal { value, kind: elem.scalar(), bound, room: 0 });
        self.store(new.value, p);
    }

    /// Move elements through integers, all loads first.
    fn copy_words(&mut self, elem: FloatElem) {
        let n = self.source.between(1, WINDOW as usize) as i32;
        let (from, to) = (self.pick(Kind::ReadPtr(elem)).value, self.pick(Kind::Ptr(elem)).value);
        let ty = if elem == FloatElem::F64 { types::I64 } else { types::I32 };
        let words: Vec<Value> = (0..n)
            .map(|i| {
                let flags = self.flags();
                self.at_end().ins().load(ty, flags, from, i * elem.bytes() as i32)
            })
            .collect();
        for (i, word) in words.into_iter().enumerate() {
            self.store(word, Location { address: to, offset: i as i32 * elem.bytes() as i32 });
        }
    }

    /// The address of a data object.
    pub(super) fn global(&mut self, pointer: Kind) -> Option<GenVal> {
        let elem = elem_of(pointer);
        let fits = |g: &(String, FloatElem, bool)| g.1 == elem && (g.2 || matches!(pointer, Kind::ReadPtr(_)));
        let found: Vec<_> = self.sketch.globals().into_iter().filter(fits).collect();
        if found.is_empty() {
            return None;
        }
        let (name, _, writable) = found[self.source.below(found.len())].clone();
        let name = ExternalName::testcase(&name);
        let known = self.func.global_values.iter().find_map(|(gv, data)| match data {
            GlobalValueData::Symbol { name: n, .. } if *n == name => Some(gv),
            _ => None,
        });
        let gv = known.unwrap_or_else(|| {
            let data = GlobalValueData::Symbol { name, offset: 0.into(), colocated: false, tls: false };
            self.func.create_global_value(data)
        });
        let value = self.at_end().ins().symbol_value(types::I64, gv);
        let kind = if writable { Kind::Ptr(elem) } else { Kind::ReadPtr(elem) };
        let val = GenVal { room: BUFFER - WINDOW, ..GenVal::new(value, kind) };
        self.scope.push(val);
        Some(val)
    }

    /// Write zeros through integers.
    fn erase(&mut self, elem: FloatElem) {
        let (ty, n) = match (elem, self.source.below(3)) {
            (FloatElem::F64, 0 | 1) => (types::I64, 1),
            (FloatElem::F64, _) => (types::I64X2, 2),
            (FloatElem::F32, 0) => (types::I32, 1),
            (FloatElem::F32, _) => (types::I64, 2),
        };
        let p = self.place(Kind::Ptr(elem), n);
        let zero = if ty.is_vector() {
            let zero = self.at_end().ins().iconst(types::I64, 0);
            self.at_end().ins().splat(ty, zero)
        } else {
            self.at_end().ins().iconst(ty, 0)
        };
        self.store(zero, p);
    }

    /// Read a part of a float, to decide something.
    fn look_at_bytes(&mut self, elem: FloatElem) {
        let p = self.place(Kind::ReadPtr(elem), 1);
        if self.has(Feature::Wild) {
            // The sign of a NaN is up to the operation that computes it.
            return;
        }
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
    pub(super) fn pointer_statement(&mut self) {
        let elem = self.some_elem();
        let kind = Kind::Ptr(elem);
        match self.source.below(8) {
            0 => {
                let c = self.condition();
                let p = self.pick(kind);
                let q = self.pick_beside(p);
                let value = self.at_end().ins().select(c, p.value, q.value);
                self.scope.push(GenVal { room: p.room.min(q.room), ..GenVal::new(value, kind) });
            }
            1 => {
                let p = self.pick(kind);
                let step = self.source.below(p.room as usize + 1) as i64;
                let bytes = self.at_end().ins().iconst(types::I64, step * elem.bytes());
                let value = self.at_end().ins().iadd(p.value, bytes);
                self.scope.push(GenVal { room: p.room - step, ..GenVal::new(value, kind) });
            }
            2 => {
                let p = self.pick(kind);
                if p.room >= WINDOW {
                    let i = self.index();
                    let size = self.at_end().ins().iconst(types::I64, elem.bytes());
                    let bytes = self.at_end().ins().imul(i, size);
                    let value = self.at_end().ins().iadd(p.value, bytes);
                    self.scope.push(GenVal::new(value, kind));
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
            5 => {
                let place = self.table_place(elem);
                let value = self.load(kind, place);
                self.keep(value, kind, TAME);
            }
            6 => {
                // What is in a table may go elsewhere in it: it lives as long as the table.
                let (from, to) = (self.table_place(elem), self.source.below(WINDOW as usize) as i32 * 8);
                let value = self.load(kind, from);
                let to = if from.offset == to { (to + 8) % 32 } else { to };
                self.store(value, Location { address: from.address, offset: to });
            }
            _ => {
                let (p, q) = (self.pick(kind).value, self.pick(kind).value);
                let cc = self.source.choose(&[IntCC::Equal, IntCC::NotEqual]);
                let c = self.at_end().ins().icmp(cc, p, q);
                self.keep(c, Kind::I8, TAME);
            }
        }
    }

    /// A place in a table of pointers.
    fn table_place(&mut self, elem: FloatElem) -> Location {
        let address = self.pick(Kind::Table(elem)).value;
        Location { address, offset: 8 * self.source.below(WINDOW as usize) as i32 }
    }

    /// A place in a stack slot of pointers.
    fn pointer_place(&mut self, elem: FloatElem) -> Location {
        let slot = self.slot(Kind::Ptr(elem));
        if self.source.chance(50) {
            let offset = 8 * self.source.below(3) as i32;
            let address = self.at_end().ins().stack_addr(types::I64, slot, offset);
            return Location { address, offset: 0 };
        }
        let base = self.at_end().ins().stack_addr(types::I64, slot, 0);
        let i = self.index();
        let three = self.at_end().ins().iconst(types::I64, 3);
        let bytes = self.at_end().ins().ishl(i, three);
        let address = self.at_end().ins().iadd(base, bytes);
        Location { address, offset: 0 }
    }
}

/// What a pointer points at.
pub(super) fn elem_of(pointer: Kind) -> FloatElem {
    match pointer {
        Kind::Ptr(elem) | Kind::ReadPtr(elem) => elem,
        other => unreachable!("{other:?} is no pointer"),
    }
}
