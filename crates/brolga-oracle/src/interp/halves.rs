//! The upper half of a double as an integer of its own.
//!
//! C's `log` and its like take the upper 32 bits of a double, add something, put another exponent in, and put that beside the lower half again. What becomes of the upper half is
//! followed as long as it moves as the double's own does: a constant is added, or bits that are none of the mantissa's are set or cleared. Beside the lower half it is a double again,
//! whose bits are those of the first plus a number.

use cranelift_codegen::ir::Opcode;

use super::domain::{Domain, NodeId};
use super::machine::{Machine, Stepped};
use super::moves::Mask;
use super::provenance::{Byte, Prov, write_float};
use super::value::Val;

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
    let whole = |of: &dyn Fn(usize) -> Byte| (0..16).all(|i| bytes[i] == if i < 4 { of(i) } else { Byte::Clean });
    (whole(&part) || whole(&|i| moved(node, i))).then_some(node)
}

/// One byte of what the upper half of a double has become.
fn moved(node: NodeId, i: usize) -> Byte {
    Byte::Upper { node, index: 4 + i as u8 }
}

impl<D: Domain> Machine<'_, D> {
    /// What the upper half of a double has become.
    fn upper(&mut self, half: &Val) -> Option<Prov> {
        let node = upper_of(&half.prov)?;
        if half.prov.bytes()[0] != moved(node, 0) {
            self.uppers.insert(node, half.bits & 0xffff_ffff);
        }
        Some(Prov::new(std::array::from_fn(|i| if i < 4 { moved(node, i) } else { Byte::Clean })))
    }

    /// A constant added to it, or taken off.
    pub(super) fn upper_plus(&mut self, op: Opcode, n: usize, x: &Val, y: &Val) -> Option<Prov> {
        let (half, other) = if y.prov.is_clean() || op != Opcode::Iadd { (x, y) } else { (y, x) };
        (n == 4 && other.prov.is_clean()).then(|| self.upper(half))?
    }

    /// Another sign or exponent.
    pub(super) fn upper_masked(&mut self, mask: Mask, n: usize, x: &Val, y: &Val) -> Option<Prov> {
        let (half, other) = if y.prov.is_clean() { (x, y) } else { (y, x) };
        let keeps = match mask {
            Mask::And => other.bits & MANTISSA == MANTISSA,
            Mask::Or | Mask::Xor => other.bits & MANTISSA == 0,
        };
        (n == 4 && other.prov.is_clean() && keeps).then(|| self.upper(half))?
    }

    /// Where a lower half stands beside what the upper one has become, a double.
    pub(super) fn join_halves(&mut self, out: &mut [Byte; 16], n: usize, bits: u128) {
        for at in (0..n.saturating_sub(7)).step_by(8) {
            let Byte::Part { node, index: 0, width: 8 } = out[at] else { continue };
            let low = (0..4).all(|i| out[at + i] == Byte::Part { node, index: i as u8, width: 8 });
            let high = (0..4).all(|i| out[at + 4 + i] == moved(node, i));
            let Some(&upper) = self.uppers.get(&node).filter(|_| low && high) else { continue };
            let after = bits >> (8 * at) & u128::from(u64::MAX);
            let from = Stepped { node, before: upper << 32 | after & 0xffff_ffff, counts: 1.0 };
            if let Some(node) = self.stepped_to(from, after, 8) {
                write_float(out, at, node, 8);
            }
        }
    }
}
