//! Moves of bits in the interpreter: operations that move, mask or choose bits, and with them the
//! floats that the bits are of.
//!
//! **Question.** An instruction hands bits on unchanged, or some of them. Of which float is each
//! byte of the result?
//!
//! **Answer.** Shifts, rotations, extensions, shuffles and lane accesses gather the bytes'
//! provenance as they gather the bytes. Masks have rules: `band`, `bor` and `bxor` of a whole float
//! (wherever it lies in the operand) with constant bits `m` over the same bytes:
//!
//! | | `m` | result |
//! |---|---|---|
//! | `band` | `11…1` | the float |
//! | | `011…1` | `\|x\|` |
//! | | sign and exponent | locally constant, so clean |
//! | `bor` | `00…0` | the float |
//! | | `10…0` | `-\|x\|` |
//! | | `11…1` | a constant |
//! | `bxor` | `00…0` | the float |
//! | | `10…0` | `-x` |
//!
//! A mask that changes the sign and the exponent only, or cuts last digits off, gives another float
//! so many units away ([`Machine::stepped_to`]). Masks of bytes that are no whole float work byte
//! by byte: kept (`0xff`), cut (`0x00`), or mixed. `bitselect` is `(c & x) | (!c & y)` and needs no
//! rule of its own; so is a copysign that is written as masks.
//!
//! **Cost.** A few operations for each of at most sixteen bytes; a node for each float that a mask
//! changes.

use cranelift_codegen::ir::{self, InstructionData, Opcode, Type, Value};
use smallvec::SmallVec;

use super::domain::{Domain, NodeId};
use super::float::sign;
use super::int;
use super::machine::{FloatStep, Machine};
use super::provenance::{Bit, Byte, FloatOrigin, OriginId, Prov, digits, float_starting_at, mantissa, write_float};
use super::value::{TrackedVal, collect, float_of, lane, lanes, ones, sext};
use crate::error::OracleError;
use crate::real::Real;

/// A bitwise operation of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mask {
    And,
    Or,
    Xor,
}

impl Mask {
    fn of(self, x: u128, y: u128) -> u128 {
        match self {
            Mask::And => x & y,
            Mask::Or => x | y,
            Mask::Xor => x ^ y,
        }
    }
}

/// What a mask does to a whole float.
enum MaskEffect {
    Same,
    Constant,
    Abs,
    NegAbs,
    Neg,
    /// None of these: look at the bytes.
    Other,
}

fn classify(mask: Mask, m: u128, width: u8) -> MaskEffect {
    let n = u32::from(width) * 8;
    let sign_bit = 1 << (n - 1);
    let mantissa_bits = ones(if width == 4 { 23 } else { 52 });
    match mask {
        Mask::And if m == ones(n) => MaskEffect::Same,
        Mask::And if m == ones(n) ^ sign_bit => MaskEffect::Abs,
        Mask::And if m & mantissa_bits == 0 => MaskEffect::Constant,
        Mask::Or | Mask::Xor if m == 0 => MaskEffect::Same,
        Mask::Or if m == sign_bit => MaskEffect::NegAbs,
        Mask::Or if m == ones(n) => MaskEffect::Constant,
        Mask::Xor if m == sign_bit => MaskEffect::Neg,
        _ => MaskEffect::Other,
    }
}

/// Whether an operation changes at most the sign and the exponent of a float, or its last digits,
/// and is no copy of some of its bytes.
fn keeps_mantissa(mask: Mask, m: u128, width: u8) -> bool {
    let mantissa = ones(if width == 4 { 23 } else { 52 });
    match mask {
        Mask::And if m.to_le_bytes().iter().all(|b| matches!(b, 0 | 0xff)) => false,
        // Or the last bits are cut off.
        Mask::And => {
            let bits = u32::from(width) * 8;
            m & mantissa == mantissa || m | 1 << (bits - 1) == ones(bits) >> m.trailing_zeros() << m.trailing_zeros()
        }
        Mask::Or | Mask::Xor => m & mantissa == 0,
    }
}

/// One byte of a bitwise operation.
fn mask_byte(mask: Mask, x: Byte, vx: u8, y: Byte, vy: u8, origin: OriginId) -> Byte {
    match (x, y) {
        (Byte::Clean, Byte::Clean) => Byte::Clean,
        (b, Byte::Clean) | (Byte::Clean, b) => {
            let m = if y == Byte::Clean { vy } else { vx };
            match mask {
                Mask::And if m == 0xff => b,
                Mask::And if m & mantissa(b) == 0 => Byte::Clean,
                Mask::Or | Mask::Xor if m == 0 => b,
                Mask::Or if !m & mantissa(b) == 0 => Byte::Clean,
                _ if mantissa(b) == 0 => Byte::Clean,
                Mask::And => digits([(b, m)].into_iter()).unwrap_or(Byte::Mixed(origin)),
                _ => Byte::Mixed(origin),
            }
        }
        (x, y) if x == y && matches!(x, Byte::Part { .. }) => {
            if mask == Mask::Xor {
                Byte::Clean
            } else {
                x
            }
        }
        _ => Byte::Mixed(origin),
    }
}

impl<D: Domain> Machine<'_, D> {
    /// Provenance of a bitwise operation on `n` bytes.
    pub(super) fn mask(&mut self, mask: Mask, n: usize, x: &TrackedVal, y: &TrackedVal) -> Prov {
        if x.prov.is_clean() && y.prov.is_clean() {
            return Prov::Clean;
        }
        if let Some(prov) = self.upper_masked(mask, n, x, y).or_else(|| self.lower_masked(mask, n, x, y)) {
            return prov;
        }
        let origin = self.origin();
        let (px, py) = (x.prov.bytes(), y.prov.bytes());
        let (vx, vy) = (x.bits.to_le_bytes(), y.bits.to_le_bytes());
        let mut out = [Byte::Clean; 16];
        let mut i = 0;
        while i < n {
            let is_clean = |p: &[Byte; 16], w: u8| p[i..i + w as usize].iter().all(|b| *b == Byte::Clean);
            let field = match (float_starting_at(&px, i), float_starting_at(&py, i)) {
                (Some((node, w)), _) if is_clean(&py, w) => Some((node, w, x.bits, y.bits)),
                (_, Some((node, w))) if is_clean(&px, w) => Some((node, w, y.bits, x.bits)),
                _ => None,
            };
            if let Some((node, width, v, m)) = field {
                let cut = |b: u128| (b >> (8 * i)) & ones(u32::from(width) * 8);
                let kind = classify(mask, cut(m), width);
                if !matches!(kind, MaskEffect::Other) {
                    if let Some(node) = self.masked(kind, node, float_of(cut(v), width)) {
                        write_float(&mut out, i, node, width);
                    }
                    i += width as usize;
                    continue;
                }
                if keeps_mantissa(mask, cut(m), width) {
                    let (before, m) = (cut(v), cut(m));
                    let from = FloatStep { node, before, counts: 1.0 };
                    if let Some(node) = self.stepped_to(from, mask.of(before, m), width) {
                        if mask == Mask::And && m.trailing_zeros() > 0 {
                            self.domain.steps(node, f64::from(m.trailing_zeros()).exp2());
                        }
                        write_float(&mut out, i, node, width);
                    }
                    i += width as usize;
                    continue;
                }
            }
            out[i] = mask_byte(mask, px[i], vx[i], py[i], vy[i], origin);
            i += 1;
        }
        self.join_halves(&mut out, n, mask.of(x.bits, y.bits));
        Prov::new(out)
    }

    /// The node of a masked float of value `x`.
    fn masked(&mut self, kind: MaskEffect, node: NodeId, x: f64) -> Option<NodeId> {
        let (y, slope) = match kind {
            MaskEffect::Same => return Some(node),
            MaskEffect::Constant | MaskEffect::Other => return None,
            MaskEffect::Abs => (x.abs(), sign(x)),
            MaskEffect::NegAbs => (-x.abs(), sign(x).map(|s| -s)),
            MaskEffect::Neg => (-x, Some(-1.0)),
        };
        let signed = self.record(y, &[(FloatOrigin::Node(node), x)], |_| [slope.map(D::Num::constant), None, None])?;
        self.same_digits(signed, node);
        Some(signed)
    }

    /// `band`, `bor`, `bxor`, `bnot`, `bitselect`.
    pub(super) fn bitwise(&mut self, op: Opcode, ty: Type, args: &[Value]) -> Result<TrackedVal, OracleError> {
        let n = ty.bytes() as usize;
        let x = self.get(args[0]).clone();
        let all = TrackedVal::clean(ones(ty.bits()));
        let apply = |m: &mut Self, mask: Mask, x: &TrackedVal, y: &TrackedVal| TrackedVal {
            bits: mask.of(x.bits, y.bits),
            prov: m.mask(mask, n, x, y),
        };
        if op == Opcode::Bnot {
            return Ok(apply(self, Mask::Xor, &x, &all));
        }
        let y = self.get(args[1]).clone();
        Ok(match op {
            Opcode::Band => apply(self, Mask::And, &x, &y),
            Opcode::Bor => apply(self, Mask::Or, &x, &y),
            Opcode::Bxor => apply(self, Mask::Xor, &x, &y),
            Opcode::Bitselect => self.chosen(ty, &x, &y, &self.get(args[2]).clone()),
            _ => return Err(self.unsupported(op.to_string())),
        })
    }

    /// Bits of one where a mask is set, of another where it is not.
    fn chosen(&mut self, ty: Type, mask: &TrackedVal, x: &TrackedVal, y: &TrackedVal) -> TrackedVal {
        let n = ty.bytes() as usize;
        let mut apply = |op: Mask, x: &TrackedVal, y: &TrackedVal| TrackedVal {
            bits: op.of(x.bits, y.bits),
            prov: self.mask(op, n, x, y),
        };
        let others = apply(Mask::Xor, mask, &TrackedVal::clean(ones(ty.bits())));
        let (taken, other) = (apply(Mask::And, mask, x), apply(Mask::And, &others, y));
        apply(Mask::Or, &taken, &other)
    }

    /// `smax` and its like: each lane is one of two, and of floats' bits that float.
    pub(super) fn extreme(&mut self, op: Opcode, ty: Type, args: &[Value]) -> Result<TrackedVal, OracleError> {
        let (x, y, n) = (self.get(args[0]).clone(), self.get(args[1]).clone(), ty.lane_bits());
        let is_x = |(x, y): (u128, u128)| {
            let of = int::binary(op, n, x, y).map_err(|f| self.int_fault(f))?;
            Ok(if of == x { ones(n) } else { 0 })
        };
        let mask: Result<SmallVec<[u128; 16]>, OracleError> =
            lanes(ty, x.bits).zip(lanes(ty, y.bits)).map(is_x).collect();
        Ok(self.chosen(ty, &TrackedVal::clean(collect(n, mask?)), &x, &y))
    }

    /// Shifts and rotations. All lanes are shifted by the same scalar.
    pub(super) fn shift(&mut self, op: Opcode, ty: Type, x: Value, amount: Value) -> Result<TrackedVal, OracleError> {
        let (x, amount) = (self.get(x).clone(), self.get(amount).clone());
        let n = ty.lane_bits();
        let out: Result<SmallVec<[u128; 16]>, _> =
            lanes(ty, x.bits).map(|x| int::shift(op, n, x, amount.bits)).collect();
        let bits = collect(n, out.map_err(|f| self.int_fault(f))?);
        let bytes = ty.bytes() as usize;
        if x.prov.is_clean() || !amount.prov.is_clean() {
            return Ok(TrackedVal { bits, prov: self.mix(bytes, [&x, &amount]) });
        }
        let s = (amount.bits % u128::from(n)) as u32;
        if matches!(op, Opcode::Ushr | Opcode::Sshr)
            && !ty.is_vector()
            && (1..8).contains(&s)
            && let Some(prov) =
                self.divided(bytes, &x, 1 << s, bits).or_else(|| self.upper_divided(bytes, &x, 1 << s, bits))
        {
            return Ok(TrackedVal { bits, prov });
        }
        let from = |bit: u32| {
            let (base, b) = (bit / n * n, bit % n);
            match op {
                Opcode::Ishl => b.checked_sub(s).map_or(Bit::Clean, |b| Bit::Of(base + b)),
                Opcode::Ushr if b + s >= n => Bit::Clean,
                Opcode::Sshr if b + s >= n => Bit::Of(base + n - 1),
                Opcode::Ushr | Opcode::Sshr => Bit::Of(base + b + s),
                Opcode::Rotl => Bit::Of(base + (b + n - s) % n),
                _ => Bit::Of(base + (b + s) % n),
            }
        };
        let origin = self.origin();
        Ok(TrackedVal { bits, prov: x.prov.from_bits(bytes, from, origin) })
    }

    /// `bitrev` and `bswap`.
    pub(super) fn reverse(&mut self, op: Opcode, ty: Type, x: Value) -> Result<TrackedVal, OracleError> {
        let x = self.get(x).clone();
        let n = ty.bits();
        let bits = int::unary(op, n, x.bits).map_err(|f| self.int_fault(f))?;
        let bytes = ty.bytes() as usize;
        let prov =
            if op == Opcode::Bswap { x.prov.gather(bytes, |b| Some(bytes - 1 - b)) } else { self.mix(bytes, [&x]) };
        Ok(TrackedVal { bits, prov })
    }

    /// `uextend`, `sextend`, `ireduce`.
    pub(super) fn resize_int(&mut self, op: Opcode, from: Type, to: Type, x: Value) -> TrackedVal {
        let x = self.get(x).clone();
        let (n, m) = (from.bits(), to.bits());
        match op {
            Opcode::Sextend => {
                let bits = sext(x.bits, n) as u128 & ones(m);
                if x.prov.is_clean() {
                    return TrackedVal::clean(bits);
                }
                let origin = self.origin();
                let prov = x.prov.from_bits((m / 8) as usize, |b| Bit::Of(b.min(n - 1)), origin);
                TrackedVal { bits, prov }
            }
            _ => TrackedVal {
                bits: x.bits & ones(m),
                prov: x.prov.gather((m / 8) as usize, |b| (b < (n / 8) as usize).then_some(b)),
            },
        }
    }

    /// `isplit`: low and high half of each lane.
    pub(super) fn split(&mut self, from: Type, x: Value) -> [TrackedVal; 2] {
        let x = self.get(x).clone();
        let n = from.lane_bits();
        let (h, hb, wb) = (n / 2, (n / 16) as usize, (n / 8) as usize);
        let half = |high: bool| TrackedVal {
            bits: collect(h, lanes(from, x.bits).map(|l| if high { l >> h } else { l })),
            prov: x.prov.gather(from.bytes() as usize / 2, |b| Some(b / hb * wb + b % hb + if high { hb } else { 0 })),
        };
        [half(false), half(true)]
    }

    /// `iconcat`: the inverse of `isplit`.
    pub(super) fn concat(&mut self, from: Type, lo: Value, hi: Value) -> TrackedVal {
        let (lo, hi) = (self.get(lo).clone(), self.get(hi).clone());
        let n = from.lane_bits();
        let w = (n / 8) as usize;
        let words = lanes(from, lo.bits).zip(lanes(from, hi.bits)).map(|(l, h)| l | (h << n));
        TrackedVal {
            bits: collect(2 * n, words),
            prov: lo.prov.gather2(&hi.prov, 2 * from.bytes() as usize, |b| {
                let (word, rest) = (b / (2 * w), b % (2 * w));
                Some(word * w + rest % w + if rest < w { 0 } else { 16 })
            }),
        }
    }

    /// `splat` and `scalar_to_vector`.
    pub(super) fn splat(&mut self, op: Opcode, ty: Type, x: Value) -> TrackedVal {
        if op == Opcode::ScalarToVector {
            return self.get(x).clone();
        }
        let x = self.get(x);
        let w = ty.lane_bits() as usize / 8;
        TrackedVal {
            bits: collect(ty.lane_bits(), (0..ty.lane_count()).map(|_| x.bits)),
            prov: x.prov.gather(ty.bytes() as usize, |b| Some(b % w)),
        }
    }

    /// `insertlane` and `extractlane`.
    pub(super) fn lane_access(&mut self, data: &InstructionData, ty: Type) -> TrackedVal {
        let n = ty.lane_bits();
        let w = (n / 8) as usize;
        match *data {
            InstructionData::BinaryImm8 { arg, imm, .. } => {
                let x = self.get(arg);
                let first = imm as usize * w;
                TrackedVal { bits: lane(x.bits, n, imm.into()), prov: x.prov.gather(w, |b| Some(first + b)) }
            }
            InstructionData::TernaryImm8 { args, imm, .. } => {
                let (x, y) = (self.get(args[0]), self.get(args[1]));
                let at = n * u32::from(imm);
                let first = imm as usize * w;
                TrackedVal {
                    bits: x.bits & !(ones(n) << at) | (y.bits << at),
                    prov: x.prov.gather2(&y.prov, ty.bytes() as usize, |b| {
                        Some(if (first..first + w).contains(&b) { 16 + b - first } else { b })
                    }),
                }
            }
            _ => unreachable!("format of a lane access"),
        }
    }

    /// `shuffle`, `swizzle`, `x86_pshufb`: each byte of the result is one of the operands' or zero.
    pub(super) fn permute(&mut self, dfg: &ir::DataFlowGraph, data: &InstructionData) -> TrackedVal {
        let (x, y, index): (TrackedVal, TrackedVal, [Option<usize>; 16]) = match *data {
            InstructionData::Shuffle { args, imm, .. } => {
                let imm = dfg.immediates[imm].as_slice();
                let index = std::array::from_fn(|i| Some(usize::from(imm[i])));
                (self.get(args[0]).clone(), self.get(args[1]).clone(), index)
            }
            InstructionData::Binary { opcode, args } => {
                let (x, s) = (self.get(args[0]).clone(), self.get(args[1]).clone());
                let chosen = s.bits.to_le_bytes();
                let index = std::array::from_fn(|i| match chosen[i] {
                    s if opcode == Opcode::X86Pshufb => (s < 128).then_some(usize::from(s) % 16),
                    s => (s < 16).then_some(s.into()),
                });
                if !s.prov.is_clean() {
                    let prov = self.mix(16, [&x, &s]);
                    return TrackedVal { bits: permute_bytes(x.bits, 0, &index), prov };
                }
                (x, TrackedVal::default(), index)
            }
            _ => unreachable!("format of a permutation"),
        };
        TrackedVal { bits: permute_bytes(x.bits, y.bits, &index), prov: x.prov.gather2(&y.prov, 16, |b| index[b]) }
    }

    /// `blendv`: the top bit of each lane of the first operand chooses.
    pub(super) fn blend(&mut self, ty: Type, args: &[Value]) -> TrackedVal {
        let (c, x, y) = (self.bits(args[0]), self.get(args[1]), self.get(args[2]));
        let n = ty.lane_bits();
        let w = (n / 8) as usize;
        let first = |i: u32| lane(c, n, i) >> (n - 1) == 1;
        TrackedVal {
            bits: collect(n, (0..ty.lane_count()).map(|i| lane(if first(i) { x.bits } else { y.bits }, n, i))),
            prov: x
                .prov
                .gather2(&y.prov, ty.bytes() as usize, |b| Some(if first((b / w) as u32) { b } else { 16 + b })),
        }
    }
}

fn permute_bytes(x: u128, y: u128, index: &[Option<usize>; 16]) -> u128 {
    let (x, y) = (x.to_le_bytes(), y.to_le_bytes());
    u128::from_le_bytes(index.map(|i| match i {
        Some(i) if i < 16 => x[i],
        Some(i) => y[i % 16],
        None => 0,
    }))
}
