//! Halves of a double as integers of their own.
//!
//! **Question.** C's `log` and its like take the upper 32 bits of a double, add something, put
//! another exponent in, and put that beside the lower half again. Which float is the result?
//!
//! **Answer.** What becomes of the upper half is followed as long as it moves as the double's own
//! does: a constant is added, or bits that are none of the mantissa's are set or cleared. Beside
//! the lower half it is a double again ([`Machine::join_halves`]), whose bits are those of the
//! first plus a number.
//!
//! The halves may be put side by side in a register or in memory: then they are a double where one
//! is read ([`Machine::used_as`]). If the last digits of what is read are zeros, or those of the
//! lower half constants, and the others those of one float, in order, that is the float without its
//! last digits.
//!
//! **Cost.** A look at the bytes of a value that is neither clean nor a whole float, where it is
//! read as one, masked or added to. The bits of the upper half are kept for each double that is
//! taken apart so.

use cranelift_codegen::ir::{Opcode, Type, types};

use super::domain::{Domain, NodeId};
use super::machine::{FloatStep, Machine};
use super::moves::Mask;
use super::provenance::{Byte, FloatOrigin, Prov, write_float};
use super::value::{TrackedVal, float_of, ones};
use crate::real::Real;

/// Bits of a mantissa in the upper half of an `f64`.
const MANTISSA: u128 = 0xf_ffff;

/// The double of which 32 bits are the upper half, or were.
fn upper_of(prov: &Prov) -> Option<NodeId> {
    let Prov::Bytes(bytes) = prov else { return None };
    let node = match bytes[0] {
        Byte::Part { node, index: 4, width: 8 } | Byte::Upper { node, index: 4 } => node,
        _ => return None,
    };
    let part = |i: usize| Byte::Part { node, index: 4 + i as u8, width: 8 };
    let fills_half = |of: &dyn Fn(usize) -> Byte| (0..16).all(|i| bytes[i] == if i < 4 { of(i) } else { Byte::Clean });
    (fills_half(&part) || fills_half(&|i| moved(node, i))).then_some(node)
}

/// The same of 64 bits of which the lower half is zero.
fn upper_of_wide(v: &TrackedVal) -> Option<NodeId> {
    let bytes = v.prov.bytes();
    let zero = v.bits as u32 == 0 && bytes[..4].iter().all(|b| *b == Byte::Clean);
    let half = Prov::new(std::array::from_fn(|i| if i < 4 { bytes[i + 4] } else { Byte::Clean }));
    upper_of(&half).filter(|_| zero)
}

/// One byte of what the upper half of a double has become.
fn moved(node: NodeId, i: usize) -> Byte {
    Byte::Upper { node, index: 4 + i as u8 }
}

impl<D: Domain> Machine<'_, D> {
    /// What the upper half of a double has become.
    fn upper(&mut self, half: &TrackedVal) -> Option<Prov> {
        let node = upper_of(&half.prov)?;
        if half.prov.bytes()[0] != moved(node, 0) {
            self.uppers.insert(node, half.bits & 0xffff_ffff);
        }
        Some(Prov::new(std::array::from_fn(|i| if i < 4 { moved(node, i) } else { Byte::Clean })))
    }

    /// The same in 64 bits, above a lower half of zeros.
    fn upper_wide(&mut self, half: &TrackedVal) -> Option<Prov> {
        let node = upper_of_wide(half)?;
        if half.prov.bytes()[4] != moved(node, 0) {
            self.uppers.insert(node, half.bits >> 32 & 0xffff_ffff);
        }
        Some(Prov::new(std::array::from_fn(|i| if (4..8).contains(&i) { moved(node, i - 4) } else { Byte::Clean })))
    }

    /// A constant added to it, or taken off.
    pub(super) fn upper_plus(&mut self, op: Opcode, n: usize, x: &TrackedVal, y: &TrackedVal) -> Option<Prov> {
        let (half, other) = if y.prov.is_clean() || op != Opcode::Iadd { (x, y) } else { (y, x) };
        if n == 8 && other.prov.is_clean() && other.bits as u32 == 0 {
            return self.upper_wide(half);
        }
        (n == 4 && other.prov.is_clean()).then(|| self.upper(half))?
    }

    /// It is divided by a number: the upper half of a float whose bits count for so much less.
    pub(super) fn upper_divided(&mut self, n: usize, x: &TrackedVal, by: u128, quotient: u128) -> Option<Prov> {
        let node = upper_of(&x.prov).filter(|_| n == 4)?;
        let now = (x.bits & 0xffff_ffff) << 32;
        let first = self.uppers.get(&node).filter(|_| x.prov.bytes()[0] == moved(node, 0));
        let before = first.map_or(now, |upper| upper << 32);
        let node = self.stepped_to(FloatStep { node, before, counts: 1.0 }, now, 8)?;
        let node = self.stepped_to(FloatStep { node, before: now, counts: 1.0 / by as f64 }, quotient << 32, 8)?;
        let part = |i: usize| Byte::Part { node, index: 4 + i as u8, width: 8 };
        Some(Prov::new(std::array::from_fn(|i| if i < 4 { part(i) } else { Byte::Clean })))
    }

    /// Another sign or exponent.
    pub(super) fn upper_masked(&mut self, mask: Mask, n: usize, x: &TrackedVal, y: &TrackedVal) -> Option<Prov> {
        let (half, other) = if y.prov.is_clean() { (x, y) } else { (y, x) };
        let keeps = |m: u128| match mask {
            Mask::And => m & MANTISSA == MANTISSA,
            Mask::Or | Mask::Xor => m & MANTISSA == 0,
        };
        let ends_in_zeros = mask == Mask::And || other.bits as u32 == 0;
        if n == 8 && other.prov.is_clean() && ends_in_zeros && keeps(other.bits >> 32) {
            return self.upper_wide(half);
        }
        let keeps = keeps(other.bits);
        (n == 4 && other.prov.is_clean() && keeps).then(|| self.upper(half))?
    }

    /// Some of the last digits of a lower half cut off.
    pub(super) fn lower_masked(&self, mask: Mask, n: usize, x: &TrackedVal, y: &TrackedVal) -> Option<Prov> {
        let (half, other) = if y.prov.is_clean() { (x, y) } else { (y, x) };
        let m = other.bits as u32;
        let cuts = m != 0 && m == u32::MAX >> m.trailing_zeros() << m.trailing_zeros();
        let Prov::Bytes(bytes) = &half.prov else { return None };
        let Byte::Part { node, index: 0, width: 8 } = bytes[0] else { return None };
        let part = |i: usize| bytes[i] == Byte::Part { node, index: i as u8, width: 8 };
        let fills_half = (0..16).all(|i| if i < 4 { part(i) } else { bytes[i] == Byte::Clean });
        let cut = n == 4 && mask == Mask::And && other.prov.is_clean() && cuts && fills_half;
        cut.then(|| half.prov.gather(4, |i| (m.to_le_bytes()[i] != 0).then_some(i)))
    }

    /// A value that is used as a float of this type from here on.
    pub(crate) fn used_as(&mut self, v: TrackedVal, ty: Type) -> TrackedVal {
        let Prov::Bytes(bytes) = &v.prov else { return v };
        if !matches!(ty, types::F32 | types::F64) {
            return v;
        }
        let mut out = **bytes;
        let width = ty.bytes() as usize;
        self.join_halves(&mut out, width, v.bits);
        let bits = v.bits & u128::from(u64::MAX);
        if let (8, Some(node)) = (width, upper_of_wide(&TrackedVal { bits, prov: Prov::new(out) }))
            && let Some(&upper) = self.uppers.get(&node).filter(|_| out[4] == moved(node, 0))
            && let Some(node) = self.stepped_to(FloatStep { node, before: upper << 32, counts: 1.0 }, bits, 8)
            // The last digits are gone.
            && let Some(node) = self.cut_off(node, bits, 8, 4)
        {
            write_float(&mut out, 0, node, 8);
        }
        let gone = |i: &usize| out[*i] == Byte::Clean && (*i < width / 2 || v.bits.to_le_bytes()[*i] == 0);
        let zeros = (0..width).take_while(gone).count();
        let last = out.get(width - 1).copied();
        if let Some(Byte::Part { node, width: w, .. }) = last.filter(|_| zeros > 0)
            && usize::from(w) == width
            && (zeros..width).all(|i| out[i] == Byte::Part { node, index: i as u8, width: w })
            && let Some(cut) = self.cut_off(node, v.bits & ones(ty.bits()), w, zeros)
        {
            write_float(&mut out, 0, cut, w);
        }
        TrackedVal { prov: Prov::new(out), ..v }
    }

    /// A float without so many of its last bytes, and maybe some bits before them.
    fn cut_off(&mut self, node: NodeId, bits: u128, width: u8, bytes: usize) -> Option<NodeId> {
        let slope = [Some(D::Num::constant(1.0)), None, None];
        let cut = self.record(float_of(bits, width), &[(FloatOrigin::Node(node), 0.0)], |_| slope)?;
        let gone = bits.trailing_zeros().clamp(8 * bytes as u32, 8 * bytes as u32 + 8);
        self.domain.steps(cut, f64::from(gone).exp2());
        self.same_digits(cut, node);
        Some(cut)
    }

    /// Where a lower half stands beside what the upper one has become, a double.
    pub(super) fn join_halves(&mut self, out: &mut [Byte; 16], n: usize, bits: u128) {
        for at in (0..n.saturating_sub(7)).step_by(8) {
            let Byte::Part { node, index: 0, width: 8 } = out[at] else { continue };
            let low = (0..4).all(|i| out[at + i] == Byte::Part { node, index: i as u8, width: 8 });
            let high = (0..4).all(|i| out[at + 4 + i] == moved(node, i));
            let Some(&upper) = self.uppers.get(&node).filter(|_| low && high) else { continue };
            let after = bits >> (8 * at) & u128::from(u64::MAX);
            let from = FloatStep { node, before: upper << 32 | after & 0xffff_ffff, counts: 1.0 };
            if let Some(node) = self.stepped_to(from, after, 8) {
                write_float(out, at, node, 8);
            }
        }
    }
}
