//! Ancillas in memory, and stacks: how places of the function's own begin and end.
//!
//! **Question.** A reversible function makes an array for itself, fills it, empties it and ends it.
//! Where does it lie, and is it known to be empty?
//!
//! **Answer.** What is small and of known size is on the machine's stack, all else is allocated,
//! and freed when the place ends. Memory begins as zeros, or as one number throughout. A place that
//! ends holds what is said, number by number. With cotangents it has a shadow, which begins as
//! zeros. A stack is a count and its elements; the elements above the top hold zero, so that
//! pushing forgets nothing: to push and to pop is to move a number, which leaves zero behind.
//!
//! **Errors.** A place that holds something else, a stack that is full or empty, an element that is
//! not zero. Where memory cannot be allocated the run ends, also where nothing is checked: by a
//! trap there.
//!
//! **Cost.** In a run, a fill when memory begins, and a loop over its numbers when it ends, if that
//! is checked; an allocation for what has more than 16 KiB or a length that is a parameter, two
//! with cotangents.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, TrapCode, Value, types};

use super::abi::{allocate, clear, flags_of, release, slot};
use super::expr::parts_of;
use super::state::{Home, PlaceStorage, StmtLowering};
use crate::ast::{CheckMode, Expr, ExprKind, Len, RevPlace, Type};
use crate::error::Fault;
use crate::layout::Scalar;

/// Most bytes of a place on the machine's stack.
const MOST_ON_STACK: u32 = 16 << 10;

/// Most bytes of a place that is allocated.
const MOST_ALLOCATED: i64 = 1 << 46;

impl StmtLowering<'_, '_> {
    /// Whether a place is allocated.
    fn is_allocated(&self, ty: &Type) -> bool {
        self.cx.layouts.size(ty).map_or(true, |(n, _)| n > MOST_ON_STACK)
    }

    /// Memory that holds zero.
    fn new_memory(&mut self, ty: &Type, line: u32) -> Value {
        let bytes = self.bytes(ty);
        let address = match self.cx.layouts.size(ty) {
            Ok((n, _)) if n <= MOST_ON_STACK => slot(&mut self.b, n),
            _ => self.allocated(ty, bytes, line),
        };
        clear(&mut self.b, address, bytes);
        address
    }

    /// Memory of so many bytes, if there is as much.
    fn allocated(&mut self, ty: &Type, bytes: Value, line: u32) -> Value {
        if let Type::Array(of, len @ Len::Param(_)) | Type::Stack(of, len @ Len::Param(_)) = ty {
            let n = self.length(len);
            let size = self.cx.layouts.size(of).expect("the checker has seen it").0;
            let most = self.b.ins().iconst(types::I64, MOST_ALLOCATED / i64::from(size));
            let too_many = self.b.ins().icmp(IntCC::SignedGreaterThan, n, most);
            self.refuse(too_many, line);
        }
        let address = allocate(&mut self.b, bytes);
        // Null is below any size.
        let none = self.b.ins().icmp(IntCC::UnsignedLessThan, address, bytes);
        self.refuse(none, line);
        self.rooms.push(address);
        address
    }

    /// What cannot go on ends the run, where nothing is checked, too.
    fn refuse(&mut self, failed: Value, line: u32) {
        match self.check {
            CheckMode::Off => {
                let code = TrapCode::unwrap_user(Fault::NoMemory.code());
                self.b.ins().trapnz(failed, code);
            }
            _ => self.fail_if(failed, Fault::NoMemory, line),
        }
    }

    /// A place of several numbers begins.
    pub(super) fn make_memory(&mut self, name: &str, ty: &Type, value: &Expr, line: u32) {
        let address = self.new_memory(ty, line);
        let shadow = self.with_cotangents.then(|| self.new_memory(ty, line));
        if let (Type::Array(of, len), false) = (ty, matches!(value.kind, ExprKind::Int(0))) {
            let scalar = Scalar::of(of).expect("the checker has seen it");
            let parts = self.initial(scalar, &[], value);
            let n = self.length(len);
            let size = self.cx.layouts.size(of).expect("it is a number").0;
            self.iterations(n, |this, i| {
                let far = this.b.ins().imul_imm_s(i, i64::from(size));
                let address = this.b.ins().iadd(address, far);
                let at = PlaceStorage::Memory { address, shadow: None, offset: 0, ty: (**of).clone() };
                this.store(&at, &parts);
            });
        }
        self.homes.insert(name.to_owned(), Home::Memory { address, shadow });
    }

    /// It ends.
    pub(super) fn end_memory(&mut self, name: &str, ty: &Type, value: &Expr, line: u32) {
        let Home::Memory { address, shadow } = self.homes[name] else { unreachable!("it is memory") };
        if self.check != CheckMode::Off {
            self.holds(ty, address, 0, value, line);
        }
        if self.is_allocated(ty) {
            for room in [address].into_iter().chain(shadow) {
                release(&mut self.b, room);
                self.rooms.retain(|&r| r != room);
            }
        }
    }

    /// That each number of a place is this one.
    fn holds(&mut self, ty: &Type, address: Value, offset: i32, value: &Expr, line: u32) {
        match ty {
            Type::Record(name) => {
                for (_, ty, at) in self.cx.layouts.fields(name).to_vec() {
                    self.holds(&ty, address, offset + at as i32, value, line);
                }
            }
            Type::Array(of, len) => self.all_hold(of, len, address, offset, value, line),
            Type::Stack(of, len) => {
                let flags = flags_of(&mut self.b, types::I64);
                let top = self.b.ins().load(types::I64, flags, address, offset);
                self.fail_if(top, Fault::DeallocMismatch, line);
                self.all_hold(of, len, address, offset + 8, value, line);
            }
            scalar => {
                let scalar_type = Scalar::of(scalar).expect("it is a number");
                let at = PlaceStorage::Memory { address, shadow: None, offset, ty: scalar.clone() };
                let found = self.load(&at);
                let said = if matches!(value.kind, ExprKind::Int(0)) {
                    parts_of(scalar_type).iter().map(|&ty| super::expr::zero(&mut self.b, ty)).collect()
                } else {
                    self.initial(scalar_type, &[], value)
                };
                for (found, said) in found.into_iter().zip(said) {
                    let differs = self.differs(found, said, scalar_type);
                    self.fail_if(differs, Fault::DeallocMismatch, line);
                }
            }
        }
    }

    fn all_hold(&mut self, of: &Type, len: &Len, address: Value, offset: i32, value: &Expr, line: u32) {
        let n = self.length(len);
        let size = self.cx.layouts.size(of).expect("the checker has seen it").0;
        self.iterations(n, |this, i| {
            let far = this.b.ins().imul_imm_s(i, i64::from(size));
            let address = this.b.ins().iadd(address, far);
            this.holds(of, address, offset, value, line);
        });
    }

    /// For each number below another one.
    fn iterations(&mut self, n: Value, of: impl FnOnce(&mut Self, Value)) {
        let [head, iteration, done] = [(); 3].map(|()| self.b.create_block());
        let i = self.b.append_block_param(head, types::I64);
        let zero = self.b.ins().iconst(types::I64, 0);
        self.b.ins().jump(head, &[zero.into()]);
        self.b.switch_to_block(head);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, i, n);
        self.b.ins().brif(more, iteration, &[], done, &[]);
        self.b.switch_to_block(iteration);
        of(self, i);
        let next = self.b.ins().iadd_imm_s(i, 1);
        self.b.ins().jump(head, &[next.into()]);
        self.b.switch_to_block(done);
    }

    /// Whether a number is not what is said, as far as checks allow. Fixed-point numbers are exact.
    pub(super) fn differs(&mut self, found: Value, said: Value, of: Scalar) -> Value {
        let ty = self.b.func.dfg.value_type(found);
        if !ty.is_float() {
            return self.b.ins().icmp(IntCC::NotEqual, found, said);
        }
        let tolerance = match self.check {
            CheckMode::Within(tolerance) if of != Scalar::Q43 => Some(tolerance),
            _ => None,
        };
        let Some(tolerance) = tolerance else {
            let as_bits = if ty == types::F32 { types::I32 } else { types::I64 };
            let [x, y] = [found, said].map(|v| self.b.ins().bitcast(as_bits, MemFlagsData::new(), v));
            return self.b.ins().icmp(IntCC::NotEqual, x, y);
        };
        let [one, allowed] = if ty == types::F32 {
            [1.0, tolerance.sqrt() as f32].map(|x| self.b.ins().f32const(x))
        } else {
            [1.0, tolerance].map(|x| self.b.ins().f64const(x))
        };
        let apart = self.b.ins().fsub(found, said);
        let apart = self.b.ins().fabs(apart);
        // What is said to be zero has no proportion.
        let size = self.b.ins().fabs(said);
        let zero = super::expr::zero(&mut self.b, ty);
        let is_zero = self.b.ins().fcmp(FloatCC::Equal, said, zero);
        let size = self.b.ins().select(is_zero, one, size);
        let most = self.b.ins().fmul(size, allowed);
        let near = self.b.ins().fcmp(FloatCC::LessThanOrEqual, apart, most);
        // Infinity is near itself.
        let same = self.b.ins().fcmp(FloatCC::Equal, found, said);
        let near = self.b.ins().bor(near, same);
        self.b.ins().bxor_imm_u(near, 1)
    }

    /// The element of a stack that has this number.
    fn element(&mut self, stack: &RevPlace, i: Value) -> PlaceStorage {
        let PlaceStorage::Memory { address, shadow, offset, ty } = self.at(stack) else { unreachable!("it is memory") };
        let Type::Stack(of, _) = ty else { unreachable!("the checker has seen it") };
        let size = self.cx.layouts.size(&of).expect("it is a number").0;
        let far = self.b.ins().imul_imm_s(i, i64::from(size));
        let address = self.b.ins().iadd(address, far);
        let shadow = shadow.map(|s| self.b.ins().iadd(s, far));
        PlaceStorage::Memory { address, shadow, offset: offset + 8, ty: *of }
    }

    /// The count of a stack, its address, and how many there may be.
    fn top(&mut self, stack: &RevPlace) -> (Value, Value, i32, Value) {
        let PlaceStorage::Memory { address, offset, ty, .. } = self.at(stack) else { unreachable!("it is memory") };
        let Type::Stack(_, len) = ty else { unreachable!("the checker has seen it") };
        let flags = flags_of(&mut self.b, types::I64);
        let top = self.b.ins().load(types::I64, flags, address, offset);
        (top, address, offset, self.length(&len))
    }

    /// That a number is zero.
    fn is_zero(&mut self, at: &PlaceStorage, line: u32) {
        if self.check == CheckMode::Off {
            return;
        }
        for v in self.load(at) {
            let ty = self.b.func.dfg.value_type(v);
            let zero = super::expr::zero(&mut self.b, ty);
            let differs = self.differs(v, zero, at.scalar());
            self.fail_if(differs, Fault::DeallocMismatch, line);
        }
    }

    pub(super) fn push(&mut self, stack: &RevPlace, from: &RevPlace, line: u32) {
        let (top, address, offset, len) = self.top(stack);
        let at = self.at(from);
        self.unread(from, &at, &[], line);
        if self.check != CheckMode::Off {
            let full = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, top, len);
            self.fail_if(full, Fault::OutOfRange, line);
        }
        let element = self.element(stack, top);
        self.is_zero(&element, line);
        self.moved(from, &element, true);
        let top = self.b.ins().iadd_imm_s(top, 1);
        let flags = flags_of(&mut self.b, types::I64);
        self.b.ins().store(flags, top, address, offset);
    }

    pub(super) fn pop(&mut self, stack: &RevPlace, to: &RevPlace, line: u32) {
        let (top, address, offset, len) = self.top(stack);
        let top = self.b.ins().iadd_imm_s(top, -1);
        if self.check != CheckMode::Off {
            // Of an empty one it is negative, which as a number without a sign is large.
            let empty = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, top, len);
            self.fail_if(empty, Fault::OutOfRange, line);
        }
        let element = self.element(stack, top);
        let at = self.at(to);
        self.unread(to, &at, &[], line);
        self.is_zero(&at, line);
        self.moved(to, &element, false);
        let flags = flags_of(&mut self.b, types::I64);
        self.b.ins().store(flags, top, address, offset);
    }

    /// Move a number to an element, or from it, and leave zero. So do cotangents.
    fn moved(&mut self, place: &RevPlace, element: &PlaceStorage, into: bool) {
        let at = self.at(place);
        let (from, to) = if into { (&at, element) } else { (element, &at) };
        let parts = self.load(from);
        self.store(to, &parts);
        let none: Vec<Value> = parts_of(from.scalar()).iter().map(|&ty| super::expr::zero(&mut self.b, ty)).collect();
        self.store(from, &none);
        let cts = self.cotangent(from);
        self.set_cotangent(to, &cts);
        let none = self.no_cotangent(from.scalar());
        self.set_cotangent(from, &none);
    }
}
