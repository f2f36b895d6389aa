//! Memory accesses of the interpreter: loads, stores and atomics on host memory, and the marks of
//! memory bytes that go with them.
//!
//! **Question.** Which bytes does an access read or write, and of which floats are they?
//!
//! **Answer.** The program's addresses are those of the host. [`Machine::read`] and
//! [`Machine::write`] move up to sixteen bytes, with their marks, and note the access for
//! footprints of time loops and for races. Loads that extend and stores that cut do so to bits and
//! marks alike. The interpreter is alone with its memory, so an atomic operation is a load, an
//! operation and a store.
//!
//! **Errors.** Accesses need no alignment. Those near address 0 and in the upper half of the
//! address space trap; no others are checked.
//!
//! **Safety.** The caller promises that what the program accesses is there.
//!
//! **Cost.** A copy of the bytes; where floats are followed, a look into the marks, which costs
//! little where no active byte is near.

use cranelift_codegen::ir::{self, InstructionData, Opcode, TrapCode, Type, Value};

use super::arith::rmw_opcode;
use super::domain::Domain;
use super::int;
use super::machine::{Flow, Machine};
use super::moves::Mask;
use super::provenance::{Bit, Prov};
use super::value::{TrackedVal, collect, lane, ones, sext};
use crate::error::OracleError;

/// Addresses below are no memory.
const NULL_PAGE: usize = 4096;

/// A load that extends: bytes per element, elements, whether signed.
fn extending(op: Opcode) -> Option<(u32, u32, bool)> {
    use Opcode::*;
    Some(match op {
        Uload8 => (1, 1, false),
        Sload8 => (1, 1, true),
        Uload16 => (2, 1, false),
        Sload16 => (2, 1, true),
        Uload32 => (4, 1, false),
        Sload32 => (4, 1, true),
        Uload8x8 => (1, 8, false),
        Sload8x8 => (1, 8, true),
        Uload16x4 => (2, 4, false),
        Sload16x4 => (2, 4, true),
        Uload32x2 => (4, 2, false),
        Sload32x2 => (4, 2, true),
        _ => return None,
    })
}

impl<D: Domain> Machine<'_, D> {
    /// The address `v + offset` of an access with these flags. Where no program has memory, the
    /// access traps as it does in compiled code.
    fn address(
        &self,
        dfg: &ir::DataFlowGraph,
        flags: ir::MemFlags,
        v: Value,
        offset: i32,
    ) -> Result<usize, OracleError> {
        let addr = (self.bits(v) as u64).wrapping_add(i64::from(offset) as u64) as usize;
        if addr < NULL_PAGE || addr.cast_signed() < 0 {
            let code = dfg.mem_flags[flags].trap_code();
            return Err(self.trap(code.unwrap_or(TrapCode::HEAP_OUT_OF_BOUNDS)));
        }
        Ok(addr)
    }

    /// Read `n` bytes.
    ///
    /// # Safety
    ///
    /// They must be readable.
    pub(super) unsafe fn read(&mut self, addr: usize, n: usize) -> TrackedVal {
        self.reads(addr, n);
        let mut bytes = [0u8; 16];
        // SAFETY: promised by the caller; `n` is at most 16.
        unsafe { std::ptr::copy_nonoverlapping(addr as *const u8, bytes.as_mut_ptr(), n) };
        let prov = if D::TRACKS { self.marks.load(addr, n) } else { Prov::Clean };
        TrackedVal { bits: u128::from_le_bytes(bytes), prov }
    }

    /// Write `n` bytes.
    ///
    /// # Safety
    ///
    /// They must be writable.
    pub(super) unsafe fn write(&mut self, addr: usize, n: usize, v: &TrackedVal) {
        // SAFETY: promised by the caller; `n` is at most 16.
        unsafe { std::ptr::copy_nonoverlapping(v.bits.to_le_bytes().as_ptr(), addr as *mut u8, n) };
        self.writes(addr, n);
        if D::OBSERVES {
            self.observe_write(addr, n, &v.prov);
        }
        if D::TRACKS {
            self.marks.store(addr, n, &v.prov);
        }
    }

    /// Execute a memory instruction; `ty` is the type of its result.
    ///
    /// # Safety
    ///
    /// The memory must be there.
    pub(super) unsafe fn memory(
        &mut self,
        dfg: &ir::DataFlowGraph,
        data: &InstructionData,
        ty: Type,
    ) -> Result<Flow, OracleError> {
        // SAFETY: every access below is one of the program's own, for which the caller vouches.
        Ok(unsafe {
            match *data {
                InstructionData::Load { opcode, arg, flags, offset } => {
                    let addr = self.address(dfg, flags, arg, offset.into())?;
                    match extending(opcode) {
                        None => {
                            let v = self.read(addr, ty.bytes() as usize);
                            self.used_as(v, ty).into()
                        }
                        Some((width, count, signed)) => {
                            let raw = self.read(addr, (width * count) as usize);
                            self.extend_lanes(&raw, width, ty, signed).into()
                        }
                    }
                }
                InstructionData::LoadNoOffset { arg, flags, .. } => {
                    let addr = self.address(dfg, flags, arg, 0)?;
                    self.read(addr, ty.bytes() as usize).into()
                }
                InstructionData::Store { opcode, args, flags, offset } => {
                    let n = match opcode {
                        Opcode::Istore8 => 1,
                        Opcode::Istore16 => 2,
                        Opcode::Istore32 => 4,
                        _ => dfg.value_type(args[0]).bytes() as usize,
                    };
                    let v = self.get(args[0]).clone();
                    self.write(self.address(dfg, flags, args[1], offset.into())?, n, &v);
                    Flow::Next
                }
                InstructionData::StoreNoOffset { args, flags, .. } => {
                    let v = self.get(args[0]).clone();
                    self.write(self.address(dfg, flags, args[1], 0)?, dfg.value_type(args[0]).bytes() as usize, &v);
                    Flow::Next
                }
                InstructionData::AtomicCas { args, flags, .. } => {
                    let addr = self.address(dfg, flags, args[0], 0)?;
                    let n = ty.bytes() as usize;
                    let old = self.read(addr, n);
                    if old.bits == self.bits(args[1]) {
                        let new = self.get(args[2]).clone();
                        self.write(addr, n, &new);
                    }
                    old.into()
                }
                InstructionData::AtomicRmw { args, flags, op, .. } => {
                    let addr = self.address(dfg, flags, args[0], 0)?;
                    let n = ty.bytes() as usize;
                    let old = self.read(addr, n);
                    let x = self.get(args[1]).clone();
                    let new = self.rmw(op, ty, &old, x)?;
                    self.write(addr, n, &new);
                    old.into()
                }
                _ => unreachable!("format of a memory instruction"),
            }
        })
    }

    /// Extend elements of `width` bytes to the lanes of `ty`.
    fn extend_lanes(&mut self, raw: &TrackedVal, width: u32, ty: Type, signed: bool) -> TrackedVal {
        let (n, m) = (8 * width, ty.lane_bits());
        let elements = (0..ty.lane_count()).map(|i| lane(raw.bits, n, i));
        let bits = collect(m, elements.map(|x| if signed { sext(x, n) as u128 } else { x }));
        if raw.prov.is_clean() {
            return TrackedVal::clean(bits);
        }
        let from = |bit: u32| match (bit / m, bit % m) {
            (i, b) if b < n => Bit::Of(i * n + b),
            (i, _) if signed => Bit::Of(i * n + n - 1),
            _ => Bit::Clean,
        };
        let origin = self.origin();
        TrackedVal { bits, prov: raw.prov.from_bits(ty.bytes() as usize, from, origin) }
    }

    /// What `atomic_rmw` stores.
    fn rmw(
        &mut self,
        op: ir::AtomicRmwOp,
        ty: Type,
        old: &TrackedVal,
        x: TrackedVal,
    ) -> Result<TrackedVal, OracleError> {
        let n = ty.bytes() as usize;
        let Some(opcode) = rmw_opcode(op) else {
            return Ok(if op == ir::AtomicRmwOp::Xchg {
                x
            } else {
                TrackedVal { bits: !(old.bits & x.bits) & ones(ty.bits()), prov: self.mix(n, [old, &x]) }
            });
        };
        let bits = int::binary(opcode, ty.bits(), old.bits, x.bits).map_err(|f| self.int_fault(f))?;
        let prov = match opcode {
            Opcode::Band => self.mask(Mask::And, n, old, &x),
            Opcode::Bor => self.mask(Mask::Or, n, old, &x),
            Opcode::Bxor => self.mask(Mask::Xor, n, old, &x),
            _ => self.int_binary_prov(opcode, ty, old, &x),
        };
        Ok(TrackedVal { bits, prov })
    }
}
