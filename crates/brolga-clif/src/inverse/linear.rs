//! Addresses as sums, and which places of a state are apart.
//!
//! **Question.** Do two accesses touch the same bytes?
//! **Answer.** If their addresses are sums of the same terms, the numbers in them say so.
//! Otherwise it is known when the inverse runs.
//!
//! **Cost.** For each address one visit of each value that it is made of, and as many additions as
//! sums have terms.

use std::collections::BTreeMap;

use cranelift_codegen::ir::{Inst, InstructionData, Opcode, Type, Value, ValueDef};

use super::view::View;
use crate::map::HashMap;

/// An address: multiples of values, and a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Linear {
    pub terms: BTreeMap<u32, i64>,
    pub number: i64,
}

/// How two places lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nearness {
    Apart,
    Overlapping,
    /// The inverse has to look.
    Unknown,
}

impl Linear {
    /// A value as a sum.
    pub fn of(view: &View<'_>, v: Value) -> Self {
        Self::known(view, v, &mut HashMap::default())
    }

    /// Where a load or store goes, and what type it has there.
    pub fn accessed(view: &View<'_>, inst: Inst) -> (Self, Type) {
        let dfg = &view.func.dfg;
        let is_store = dfg.insts[inst].opcode() == Opcode::Store;
        let value = if is_store { dfg.inst_args(inst)[0] } else { dfg.first_result(inst) };
        let mut at = Self::of(view, view.address(inst));
        at.number = at.number.wrapping_add(view.offset(inst));
        (at, dfg.value_type(value))
    }

    /// A value as a sum, with what is known of others.
    fn known(view: &View<'_>, v: Value, seen: &mut HashMap<Value, Self>) -> Self {
        let v = view.resolved(v);
        if let Some(found) = seen.get(&v) {
            return found.clone();
        }
        let found = Self::sum(view, v, seen);
        seen.insert(v, found.clone());
        found
    }

    fn sum(view: &View<'_>, v: Value, seen: &mut HashMap<Value, Self>) -> Self {
        let atom = || Self { terms: [(v.as_u32(), 1)].into(), number: 0 };
        let dfg = &view.func.dfg;
        let ValueDef::Result(inst, _) = dfg.value_def(v) else { return atom() };
        let mut of = |i: usize| Self::known(view, dfg.inst_args(inst)[i], seen);
        match dfg.insts[inst].opcode() {
            Opcode::Iconst => match dfg.insts[inst] {
                InstructionData::UnaryImm { imm, .. } => Self { number: imm.bits(), ..Self::default() },
                _ => atom(),
            },
            Opcode::Iadd => of(0).plus(&of(1), 1),
            Opcode::Isub => of(0).plus(&of(1), -1),
            Opcode::Imul | Opcode::Ishl => {
                let (x, k) = (of(0), of(1));
                let (x, k) = if x.terms.is_empty() && !k.terms.is_empty() { (k, x) } else { (x, k) };
                let is_shift = dfg.insts[inst].opcode() == Opcode::Ishl;
                match k.terms.is_empty() {
                    true if is_shift && (0..63).contains(&k.number) => Self::default().plus(&x, 1 << k.number),
                    true if !is_shift => Self::default().plus(&x, k.number),
                    _ => atom(),
                }
            }
            _ => atom(),
        }
    }

    /// With so many times another one.
    pub fn plus(mut self, other: &Self, times: i64) -> Self {
        for (&term, &k) in &other.terms {
            let sum = self.terms.entry(term).or_default();
            *sum = sum.wrapping_add(k.wrapping_mul(times));
        }
        self.terms.retain(|_, k| *k != 0);
        self.number = self.number.wrapping_add(other.number.wrapping_mul(times));
        self
    }

    /// How a place of a type lies to another one.
    pub fn near(&self, ty: Type, other: &Self, other_ty: Type) -> Nearness {
        if self.terms != other.terms {
            return Nearness::Unknown;
        }
        let far = self.number.wrapping_sub(other.number);
        match far >= i64::from(other_ty.bytes()) || far <= -i64::from(ty.bytes()) {
            true => Nearness::Apart,
            false => Nearness::Overlapping,
        }
    }
}
