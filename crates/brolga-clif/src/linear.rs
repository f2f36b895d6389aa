//! Linear forms: integers as sums of multiples of values, and a number.
//!
//! **Question.** How far are two addresses apart, and by how much does one grow in an iteration?
//!
//! **Answer.** An integer is a sum of *atoms*, values that nothing more is known of, each so many
//! times, and of a number. Sums of the same terms differ by a number. [`LinearForm::of_op`]
//! combines the forms of operands. What is an atom, and how far a value is followed, is the
//! caller's choice: vectorisation ends at what is known where a loop is entered
//! ([`crate::vectorise`]), an inverse at parameters and loads ([`crate::inverse`]).
//!
//! ```text
//! v3 = ishl_imm v2, 3
//! v4 = iadd v1, v3        v1 + 8 v2
//! v5 = iadd_imm v4, 16    v1 + 8 v2 + 16, which is 16 after v4
//! ```
//!
//! Arithmetic is that of the machine, modulo a power of two, so it holds whatever overflows.
//!
//! **Cost.** As many additions as a form has terms, for each instruction that is followed.

use cranelift_codegen::ir::{Opcode, Type, Value};
use smallvec::{SmallVec, smallvec};

/// `plus` and multiples of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinearForm {
    /// Values and factors that are not zero, by value.
    pub terms: SmallVec<[(Value, i64); 4]>,
    /// What is added.
    pub plus: i64,
}

/// How two places lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nearness {
    Apart,
    Overlapping,
    /// The numbers do not say so.
    Unknown,
}

impl LinearForm {
    /// A number.
    pub(crate) fn constant(plus: i64) -> Self {
        Self { terms: SmallVec::new(), plus }
    }

    /// A value itself.
    pub fn value(v: Value) -> Self {
        Self { terms: smallvec![(v, 1)], plus: 0 }
    }

    /// Whether what an operation makes of such forms may be one.
    pub(crate) fn follows(op: Opcode) -> bool {
        matches!(op, Opcode::Iadd | Opcode::Isub | Opcode::Ineg | Opcode::Imul | Opcode::Ishl)
    }

    /// What an operation makes of such forms, as an integer of so many bits; none if that is not
    /// linear in them.
    pub(crate) fn of_op(op: Opcode, bits: u32, operands: &[Self]) -> Option<Self> {
        match (op, operands) {
            (Opcode::Iadd, [a, b]) => Some(a.plus_times(b, 1)),
            (Opcode::Isub, [a, b]) => Some(a.plus_times(b, -1)),
            (Opcode::Ineg, [a]) => Some(a.times(-1)),
            (Opcode::Imul, [a, b]) => match (a.known(), b.known()) {
                (_, Some(k)) => Some(a.times(k)),
                (Some(k), None) => Some(b.times(k)),
                (None, None) => None,
            },
            (Opcode::Ishl, [a, b]) => {
                b.known().filter(|k| (0..i64::from(bits)).contains(k)).map(|k| a.times(1_i64 << k))
            }
            _ => None,
        }
    }

    /// `self + k·other`.
    pub fn plus_times(&self, other: &Self, k: i64) -> Self {
        let mut terms = self.terms.clone();
        for &(v, f) in &other.terms {
            let f = f.wrapping_mul(k);
            match terms.binary_search_by_key(&v, |t| t.0) {
                Ok(i) => terms[i].1 = terms[i].1.wrapping_add(f),
                Err(i) => terms.insert(i, (v, f)),
            }
        }
        terms.retain(|t| t.1 != 0);
        Self { terms, plus: self.plus.wrapping_add(other.plus.wrapping_mul(k)) }
    }

    /// `self + k`.
    pub(crate) fn plus_number(mut self, k: i64) -> Self {
        self.plus = self.plus.wrapping_add(k);
        self
    }

    fn times(&self, k: i64) -> Self {
        Self::default().plus_times(self, k)
    }

    /// As a combination of 32-bit integers.
    pub(crate) fn narrow(mut self) -> Self {
        self.terms.iter_mut().for_each(|t| t.1 = i64::from(t.1 as i32));
        self.terms.retain(|t| t.1 != 0);
        Self { plus: i64::from(self.plus as i32), ..self }
    }

    /// The constant that it is.
    pub fn known(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.plus)
    }

    /// How a place of a type lies to another one.
    pub(crate) fn near(&self, ty: Type, other: &Self, other_ty: Type) -> Nearness {
        if self.terms != other.terms {
            return Nearness::Unknown;
        }
        let far = self.plus.wrapping_sub(other.plus);
        match far >= i64::from(other_ty.bytes()) || far <= -i64::from(ty.bytes()) {
            true => Nearness::Apart,
            false => Nearness::Overlapping,
        }
    }
}
