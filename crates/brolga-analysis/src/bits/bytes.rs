//! Byte provenance: which bytes of which operands an integer is made of, by shifts, masks and
//! bitwise or.
//!
//! **Question.** A float that is copied in pieces is shifted, masked and put together again. Which
//! bytes of a result are which bytes of an operand?
//!
//! **Answer.** For each operand a mask of the bytes of the result that come from it, and how far
//! they have moved. An instruction that does more than to move bytes has no answer.
//!
//! ```text
//! v1 = ushr_imm v0, 32        bytes 0-3 of v1 are bytes 4-7 of v0:  mask 0x0f, up 4
//! v2 = band_imm v0, 0xffff    bytes 0-1 of v2 are bytes 0-1 of v0:  mask 0x03, up 0
//! v3 = bor v1, v2             all bytes that the operand may have set
//! ```
//!
//! **Cost.** Whether the operands of an or have no bit in common is asked of what made them, of
//! [`MOST_LOOKED_AT`] values at most.

use cranelift_codegen::ir::{self, InstructionData, Opcode, types};
use smallvec::SmallVec;

use crate::bits::bit_idioms::constant_bytes;
use crate::query::constant_int;

/// Bytes of an operand that an instruction puts into its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandBytes {
    /// The operand.
    pub of: ir::Value,
    /// Which bytes of the result they are, the first in the lowest bit.
    pub mask: u16,
    /// How many bytes further up they are in the operand.
    pub up: i8,
}

/// What the bytes of the result are, where an instruction on integers, or on vectors of them, only
/// puts bytes where others were; the rest are zeros, or copies of a sign.
pub fn bytes_of(func: &ir::Function, inst: ir::Inst) -> Option<SmallVec<[OperandBytes; 2]>> {
    bytes_of_lanes(func, inst).or_else(|| bytes_within(func, inst, &mut { MOST_LOOKED_AT }))
}

/// The same, where last bits of bytes may be masked off, too; and of which bytes of the result that
/// is so.
pub fn pieces_of(func: &ir::Function, inst: ir::Inst) -> Option<(SmallVec<[OperandBytes; 2]>, u16)> {
    if let Some(from) = bytes_of(func, inst) {
        return Some((from, 0));
    }
    let &[a, b] = func.dfg.inst_args(inst) else { return None };
    if func.dfg.insts[inst].opcode() != Opcode::Band {
        return None;
    }
    if func.dfg.value_type(a).is_vector() {
        return masked_lanes(func, [a, b]);
    }
    if !matches!(func.dfg.value_type(a), types::I32 | types::I64) {
        return None;
    }
    let (of, mask) = match (constant_int(func, a), constant_int(func, b)) {
        (None, Some(mask)) => (a, mask),
        (Some(mask), None) => (b, mask),
        _ => return None,
    };
    let (n, bits) = (func.dfg.value_type(a).bytes(), func.dfg.value_type(a).bits());
    let (mask, all) = (mask as u64 & u64::MAX >> (64 - bits), u64::MAX >> (64 - bits));
    let gone = mask.trailing_zeros();
    (mask != 0 && mask == all >> gone << gone).then(|| {
        let remaining = u16::from(low(n)) >> (gone / 8) << (gone / 8);
        (SmallVec::from_slice(&[OperandBytes { of, mask: remaining, up: 0 }]), 1 << (gone / 8))
    })
}

/// The same of vectors.
fn masked_lanes(func: &ir::Function, [a, b]: [ir::Value; 2]) -> Option<(SmallVec<[OperandBytes; 2]>, u16)> {
    let (of, mask) = vector_mask(func, [a, b])?;
    let bytes = |is: &dyn Fn(u8) -> bool| mask.iter().enumerate().filter(|b| is(*b.1)).fold(0, |m, (i, _)| m | 1 << i);
    let (remaining, rough) = (bytes(&|b| b != 0), bytes(&|b| !matches!(b, 0 | 0xff)));
    let cut_at_the_end = mask.iter().all(|&b| b == 0 || b.leading_ones() + b.trailing_zeros() == 8);
    cut_at_the_end.then(|| (SmallVec::from_slice(&[OperandBytes { of, mask: remaining, up: 0 }]), rough))
}

/// The operand that is masked by a constant, of a vector of 128 bits, and that.
fn vector_mask(func: &ir::Function, args: [ir::Value; 2]) -> Option<(ir::Value, Vec<u8>)> {
    match args.map(|v| constant_bytes(func, v)) {
        [None, Some(mask)] => Some((args[0], mask)),
        [Some(mask), None] => Some((args[1], mask)),
        _ => None,
    }
    .filter(|m| m.1.len() == 16)
}

/// Bytes of the result that are none of an operand's, and no copies of a sign: zeros, or constants.
pub fn constant_in(func: &ir::Function, inst: ir::Inst, from: &[OperandBytes]) -> u16 {
    let n = func.dfg.value_type(func.dfg.first_result(inst)).bytes();
    let all = (0xffff_u32 >> 16_u32.saturating_sub(n)) as u16;
    match func.dfg.insts[inst].opcode() {
        Opcode::Sextend | Opcode::Sshr if has_sign(func, func.dfg.inst_args(inst)[0], &mut { MOST_LOOKED_AT }) => 0,
        _ => from.iter().fold(all, |m, b| m & !b.mask),
    }
}

/// The same for what takes lanes out of vectors and puts them into others.
fn bytes_of_lanes(func: &ir::Function, inst: ir::Inst) -> Option<SmallVec<[OperandBytes; 2]>> {
    let args = func.dfg.inst_args(inst);
    let ty = func.dfg.value_type(*func.dfg.inst_results(inst).first()?);
    let data = func.dfg.insts[inst];
    let vector = if data.opcode() == Opcode::Extractlane { func.dfg.value_type(args[0]) } else { ty };
    if vector.bits() != 128 || !vector.is_vector() || !vector.lane_type().is_int() {
        return None;
    }
    let n = vector.lane_type().bytes();
    let lane = |l: u8| (((1_u32 << n) - 1) << (u32::from(l) * n)) as u16;
    let first = |l: u8| l as i8 * n as i8;
    let part = |of, mask, up| OperandBytes { of, mask, up };
    match data {
        InstructionData::BinaryImm8 { opcode: Opcode::Extractlane, imm, .. } => {
            Some(SmallVec::from_slice(&[part(args[0], lane(0), first(imm))]))
        }
        InstructionData::TernaryImm8 { opcode: Opcode::Insertlane, imm, .. } => {
            Some(SmallVec::from_slice(&[part(args[0], !lane(imm), 0), part(args[1], lane(imm), -first(imm))]))
        }
        InstructionData::Shuffle { imm, .. } => {
            let mut found: SmallVec<[OperandBytes; 2]> = SmallVec::new();
            for (at, &from) in func.dfg.immediates[imm].as_slice().iter().enumerate().filter(|b| *b.1 < 32) {
                let (of, up) = (args[usize::from(from / 16)], (from % 16) as i8 - at as i8);
                match found.iter_mut().find(|b| (b.of, b.up) == (of, up)) {
                    Some(b) => b.mask |= 1 << at,
                    None => found.push(part(of, 1 << at, up)),
                }
            }
            Some(found)
        }
        _ => match data.opcode() {
            Opcode::Ushr | Opcode::Sshr | Opcode::Ishl => {
                let by =
                    constant_int(func, args[1]).map(|k| k & i64::from(8 * n - 1)).filter(|k| k % 8 == 0)? as u32 / 8;
                let up = data.opcode() != Opcode::Ishl;
                let within = if up { low(n) >> by } else { low(n) & low(n) << by };
                let mask = (0..16 / n).fold(0, |m, l| m | u16::from(within) << (l * n));
                Some(SmallVec::from_slice(&[part(args[0], mask, if up { by as i8 } else { -(by as i8) })]))
            }
            Opcode::Band => {
                let (of, mask) = vector_mask(func, [args[0], args[1]])?;
                let is_byte_mask = mask.iter().all(|b| matches!(b, 0 | 0xff));
                let remaining = mask.iter().enumerate().filter(|b| *b.1 != 0).fold(0, |m, (i, _)| m | 1 << i);
                is_byte_mask.then(|| SmallVec::from_slice(&[part(of, remaining, 0)]))
            }
            Opcode::Splat => Some((0..(16 / n) as u8).map(|l| part(args[0], lane(l), -first(l))).collect()),
            Opcode::ScalarToVector => Some(SmallVec::from_slice(&[part(args[0], lane(0), 0)])),
            _ => None,
        },
    }
}

/// Instructions that are looked at to know which bytes of an integer are zero: eight bytes, each
/// loaded, extended, shifted and put in its place, are less. What needs more is occupied.
pub(crate) const MOST_LOOKED_AT: u32 = 48;

fn bytes_within(func: &ir::Function, inst: ir::Inst, left: &mut u32) -> Option<SmallVec<[OperandBytes; 2]>> {
    let args = func.dfg.inst_args(inst);
    let bytes = |v: ir::Value| {
        let ty = func.dfg.value_type(v);
        (ty.is_int() && ty.bytes() <= 8).then(|| ty.bytes())
    };
    let result = *func.dfg.inst_results(inst).first()?;
    let n = bytes(result)?;
    let one = |mask: u8, up| Some(SmallVec::from_slice(&[OperandBytes { of: args[0], mask: mask.into(), up }]));
    let shift = || constant_int(func, args[1]).filter(|k| k % 8 == 0 && *k < i64::from(8 * n) && *k >= 0);
    match func.dfg.insts[inst].opcode() {
        Opcode::Uextend | Opcode::Sextend => one(low(bytes(args[0])?), 0),
        Opcode::Ireduce if bytes(args[0]).is_some() => one(low(n), 0),
        Opcode::Ushr | Opcode::Sshr => shift().map(|k| (k / 8) as i8).and_then(|k| one(low(n) >> k, k)),
        Opcode::Ishl => shift().map(|k| (k / 8) as i8).and_then(|k| one(low(n) & low(n) << k, -k)),
        Opcode::Rotl | Opcode::Rotr => shift().map(|k| {
            // What leaves at one end comes in at the other.
            let right = (k / 8) as i8;
            let right = if func.dfg.insts[inst].opcode() == Opcode::Rotr { right } else { (n as i8 - right) % n as i8 };
            let (full, down) = (low(n), low(n) >> right);
            let part = |mask: u8, up| OperandBytes { of: args[0], mask: mask.into(), up };
            let all = [part(down, right), part(full & !down, right - n as i8)];
            all.into_iter().filter(|b| b.mask != 0).collect()
        }),
        Opcode::Bswap => {
            let byte = |i: i8| OperandBytes { of: args[0], mask: 1 << i, up: n as i8 - 1 - 2 * i };
            Some((0..n as i8).map(byte).collect())
        }
        Opcode::Band => {
            let (of, mask) = match (constant_int(func, args[0]), constant_int(func, args[1])) {
                (None, Some(mask)) => (args[0], mask.to_le_bytes()),
                (Some(mask), None) => (args[1], mask.to_le_bytes()),
                _ => return None,
            };
            let mask = &mask[..n as usize];
            let is_byte_mask = mask.iter().all(|b| matches!(b, 0 | 0xff));
            is_byte_mask.then(|| SmallVec::from_slice(&[OperandBytes { of, mask: nonzero(mask).into(), up: 0 }]))
        }
        Opcode::Bor | Opcode::Bxor | Opcode::Iadd => {
            let x = occupied(func, args[0], left);
            let y = if x == low(n) { x } else { occupied(func, args[1], left) };
            let part = |of, mask: u8| OperandBytes { of, mask: mask.into(), up: 0 };
            (x & y == 0).then(|| SmallVec::from_slice(&[part(args[0], x), part(args[1], y)]))
        }
        _ => None,
    }
}

/// The lowest `n` bytes.
pub(crate) fn low(n: u32) -> u8 {
    (0xff_u16 >> 8_u32.saturating_sub(n)) as u8
}

fn nonzero(bytes: &[u8]) -> u8 {
    bytes.iter().enumerate().filter(|b| *b.1 != 0).fold(0, |m, (i, _)| m | 1 << i)
}

/// Whether the uppermost byte of an integer may be other than zero.
fn has_sign(func: &ir::Function, v: ir::Value, left: &mut u32) -> bool {
    occupied(func, v, left) >> (func.dfg.value_type(v).bytes().min(8) - 1) & 1 != 0
}

/// Bytes of an integer that may be other than zero.
pub(crate) fn occupied(func: &ir::Function, v: ir::Value, left: &mut u32) -> u8 {
    let n = func.dfg.value_type(v).bytes();
    if let Some(x) = constant_int(func, v).filter(|_| n <= 8) {
        return nonzero(&x.to_le_bytes()[..n as usize]);
    }
    let Some(inst) = func.dfg.value_def(v).inst().filter(|_| *left > 0) else { return low(n) };
    *left -= 1;
    match func.dfg.insts[inst].opcode() {
        Opcode::Uload8 => 1,
        Opcode::Uload16 => 3,
        Opcode::Uload32 => 0xf,
        // The copies of the sign are anything, unless there is none.
        Opcode::Sextend | Opcode::Sshr if has_sign(func, func.dfg.inst_args(inst)[0], left) => low(n),
        op => match bytes_within(func, inst, left) {
            // Each has been asked already.
            Some(from) if matches!(op, Opcode::Bor | Opcode::Bxor | Opcode::Iadd) => {
                from.iter().fold(0, |m, b| m | b.mask as u8)
            }
            Some(from) => from.iter().fold(0, |m, b| {
                let there = u16::from(occupied(func, b.of, left));
                m | (b.mask & if b.up >= 0 { there >> b.up } else { there << -b.up }) as u8
            }),
            None => low(n),
        },
    }
}
