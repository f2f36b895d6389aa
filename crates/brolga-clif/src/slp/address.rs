//! Linear addresses: sums, by which it is seen how far two addresses are apart.
//!
//! An address is a sum of values, of at most one widened 32-bit sum, and of constants: `v7 +
//! uextend(v3 + 8·v4 + 16) + 24`. Two that have the same values differ by constants. Sums are those
//! of the machine, modulo 2^64 and modulo 2^32, so what follows from them holds whatever overflows;
//! but that two widened sums which differ by eight are eight apart does not, if the second has come
//! round to zero ([`SlpInput::short_indices`](super::SlpInput::short_indices)).

use cranelift_codegen::ir::{self, Opcode, Value, types};

use crate::vectorise::affine_loop::{Linear, outside};

/// How many additions back an address is looked at.
const DEPTH: u32 = 8;

/// What an address is computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Values of 64 bits; the constant is [`Self::plus`].
    pub wide: Linear,
    /// What is widened; the constant is [`Self::inside`].
    pub widened: Option<Linear>,
    /// What is added to the widened sum and the values.
    pub plus: i64,
    /// What is added before it is widened.
    pub inside: i32,
}

/// How far one address is behind another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// So many bytes, modulo 2^64.
    Bytes(i64),
    /// So many bytes, or that less or more 2^32.
    Widened(i32),
}

impl Address {
    /// The address `v + offset`.
    pub fn of(func: &ir::Function, v: Value, offset: i64) -> Self {
        let mut wide = outside(func, v, DEPTH);
        let widened = |v: Value| {
            let inst = func.dfg.value_def(v).inst()?;
            let narrow = func.dfg.insts[inst].opcode() == Opcode::Uextend;
            let of = func.dfg.inst_args(inst).first().filter(|_| narrow)?;
            (func.dfg.value_type(*of) == types::I32).then(|| outside(func, *of, DEPTH))
        };
        let mut found: Option<Linear> = None;
        let mut others = 0;
        wide.terms.retain(|t| match widened(t.0) {
            Some(sum) if t.1 == 1 && found.is_none() => {
                found = Some(sum);
                false
            }
            Some(_) => {
                others += 1;
                true
            }
            None => true,
        });
        // Of two which is inside, would depend on the order of values.
        if others > 0 && found.is_some() {
            wide = outside(func, v, DEPTH);
            found = None;
        }
        let inside = found.as_mut().map_or(0, |w| std::mem::take(&mut w.plus) as i32);
        let plus = std::mem::take(&mut wide.plus).wrapping_add(offset);
        Self { wide, widened: found, plus, inside }
    }

    /// How far `other` is behind this one, if that is a constant.
    pub fn to(&self, other: &Self) -> Option<Distance> {
        if self.wide != other.wide || self.widened != other.widened {
            return None;
        }
        let plus = other.plus.wrapping_sub(self.plus);
        match other.inside.wrapping_sub(self.inside) {
            0 => Some(Distance::Bytes(plus)),
            d if plus == 0 => Some(Distance::Widened(d)),
            _ => None,
        }
    }
}

impl Distance {
    /// In bytes, as if nothing had come round.
    pub fn bytes(self) -> i64 {
        match self {
            Self::Bytes(d) => d,
            Self::Widened(d) => d.into(),
        }
    }

    /// Whether `n` bytes at one address and `m` at the other, that far behind, have none in common.
    pub fn apart(self, n: u32, m: u32) -> bool {
        // 2^32 more or less is farther than any access is long.
        let d = self.bytes();
        d >= i64::from(n) || d <= -i64::from(m)
    }

    /// Whether the other address is `n` bytes behind; `short` if no widened sum of an access is so
    /// large that a few bytes more are zero.
    pub fn is(self, n: i64, short: bool) -> bool {
        self.bytes() == n && (short || matches!(self, Self::Bytes(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, Distance};

    /// How far `v9` is behind `v8`, and the function.
    fn distance(body: &str) -> Option<Distance> {
        let text = format!(
            "function %f(i64, i64, i32, i32) fast {{\nblock0(v0: i64, v1: i64, v2: i32, v3: i32):\n{body}\nreturn }}"
        );
        let func = cranelift_reader::parse_functions(&text).unwrap_or_else(|e| panic!("{e}\n{text}")).remove(0);
        let of = |n| Address::of(&func, cranelift_codegen::ir::Value::from_u32(n), 0);
        of(8).to(&of(9))
    }

    #[test]
    fn what_is_added_is_the_distance() {
        let far = "v4 = iconst.i64 -24\nv5 = iconst.i64 3\nv6 = ishl v1, v5\nv7 = iadd v6, v4\nv8 = iadd v0, v6\n";
        assert_eq!(distance(&format!("{far}v9 = iadd v0, v7")), Some(Distance::Bytes(-24)));
        assert_eq!(distance(&format!("{far}v9 = isub v8, v4")), Some(Distance::Bytes(24)));
        // Another number of elements.
        assert_eq!(distance(&format!("{far}v9 = iadd v0, v1")), None);
    }

    #[test]
    fn what_is_added_before_widening_may_come_round() {
        let wide = "v4 = iconst.i32 -8\nv5 = iadd v2, v4\nv6 = uextend.i64 v2\nv7 = uextend.i64 v5\nv8 = iadd v0, v7\n";
        let found = distance(&format!("{wide}v9 = iadd v0, v6"));
        assert_eq!(found, Some(Distance::Widened(8)));
        let found = found.unwrap();
        assert!(found.is(8, true) && !found.is(8, false) && found.apart(8, 8) && !found.apart(16, 8));
        // From other places, or of other sums.
        assert_eq!(distance(&format!("{wide}v9 = iadd v1, v6")), None);
        assert_eq!(distance(&format!("{wide}v10 = uextend.i64 v3\nv9 = iadd v0, v10")), None);
        assert_eq!(distance(&format!("{wide}v10 = sextend.i64 v2\nv9 = iadd v0, v10")), None);
        // Added before and behind.
        let both = "v10 = iconst.i64 8\nv11 = iadd v6, v10\nv9 = iadd v0, v11";
        assert_eq!(distance(&format!("{wide}{both}")), None);
    }

    #[test]
    fn two_widened_sums_are_values_like_others() {
        let two = "v6 = uextend.i64 v2\nv7 = uextend.i64 v3\nv5 = iadd v6, v7\nv8 = iadd v0, v5\nv4 = iconst.i64 8\n";
        assert_eq!(distance(&format!("{two}v9 = iadd v8, v4")), Some(Distance::Bytes(8)));
    }
}
