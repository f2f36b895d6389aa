//! Short lists of an instruction: what it defines, and the operands of arithmetic.
//!
//! **Problem.** A vector that has room for its first elements takes 24 bytes or 32, a third of an
//! instruction, and there are as many instructions as would fill the caches several times.
//!
//! **Answer.** Nearly all instructions define one name or none; those that define more have a box
//! for them. Arithmetic has three operands at most, so a list of them is three names and how many
//! count.
//!
//! **Invariants.** Both are slices to their readers, and equal if those are.
//!
//! **Cost.** No memory of the heap for one name or none, and for operands; a box and a vector for
//! more names, which are copied when one is added.

use std::fmt::{Debug, Formatter, Result};
use std::ops::{Deref, DerefMut};

use cranelift_codegen::ir::{Type, Value};
use cranelift_entity::EntityRef;

use super::val::Val;

/// Names that an instruction defines, with their types.
#[derive(Clone, Default)]
pub struct Defs(DefList);

#[derive(Clone, Default)]
enum DefList {
    #[default]
    None,
    One((Val, Type)),
    #[expect(clippy::box_collection, reason = "one word, where a slice is two")]
    More(Box<Vec<(Val, Type)>>),
}

impl Deref for Defs {
    type Target = [(Val, Type)];

    fn deref(&self) -> &[(Val, Type)] {
        match &self.0 {
            DefList::None => &[],
            DefList::One(def) => std::slice::from_ref(def),
            DefList::More(defs) => defs,
        }
    }
}

impl DerefMut for Defs {
    fn deref_mut(&mut self) -> &mut [(Val, Type)] {
        match &mut self.0 {
            DefList::None => &mut [],
            DefList::One(def) => std::slice::from_mut(def),
            DefList::More(defs) => defs,
        }
    }
}

impl FromIterator<(Val, Type)> for Defs {
    fn from_iter<I: IntoIterator<Item = (Val, Type)>>(defs: I) -> Self {
        let mut defs = defs.into_iter();
        Self(match (defs.next(), defs.next()) {
            (None, _) => DefList::None,
            (Some(one), None) => DefList::One(one),
            (Some(one), Some(other)) => DefList::More(Box::new([one, other].into_iter().chain(defs).collect())),
        })
    }
}

impl<const N: usize> From<[(Val, Type); N]> for Defs {
    fn from(defs: [(Val, Type); N]) -> Self {
        defs.into_iter().collect()
    }
}

impl Extend<(Val, Type)> for Defs {
    fn extend<I: IntoIterator<Item = (Val, Type)>>(&mut self, defs: I) {
        let defs = defs.into_iter();
        if defs.size_hint().1 != Some(0) {
            *self = self.iter().copied().chain(defs).collect();
        }
    }
}

impl<'a> IntoIterator for &'a Defs {
    type Item = &'a (Val, Type);
    type IntoIter = std::slice::Iter<'a, (Val, Type)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Defs {
    type Item = &'a mut (Val, Type);
    type IntoIter = std::slice::IterMut<'a, (Val, Type)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl PartialEq for Defs {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Debug for Defs {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self[..].fmt(f)
    }
}

/// The operands of arithmetic.
#[derive(Clone, Copy)]
pub struct Args {
    vals: [Val; 3],
    len: u8,
}

impl Default for Args {
    fn default() -> Self {
        [].into()
    }
}

impl Deref for Args {
    type Target = [Val];

    fn deref(&self) -> &[Val] {
        &self.vals[..self.len.into()]
    }
}

impl DerefMut for Args {
    fn deref_mut(&mut self) -> &mut [Val] {
        &mut self.vals[..self.len.into()]
    }
}

impl From<&[Val]> for Args {
    /// # Panics
    /// If there are more than three.
    fn from(args: &[Val]) -> Self {
        let mut vals = [Val::Primal(Value::new(0)); 3];
        vals[..args.len()].copy_from_slice(args);
        Self { vals, len: args.len() as u8 }
    }
}

impl<const N: usize> From<[Val; N]> for Args {
    fn from(args: [Val; N]) -> Self {
        args[..].into()
    }
}

impl<'a> IntoIterator for &'a Args {
    type Item = &'a Val;
    type IntoIter = std::slice::Iter<'a, Val>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Args {
    type Item = &'a mut Val;
    type IntoIter = std::slice::IterMut<'a, Val>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl PartialEq for Args {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Debug for Args {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self[..].fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::ir::types::{F64, I64};

    use super::super::AdInst;
    use super::*;

    #[test]
    fn short_lists_are_lists() {
        let v = |n| Val::Primal(Value::new(n));
        let all = [(v(1), F64), (v(2), I64), (v(3), F64)];
        for n in 0..=all.len() {
            let defs: Defs = all[..n].iter().copied().collect();
            assert_eq!(defs[..], all[..n]);
            let mut one_by_one = Defs::default();
            all[..n].iter().for_each(|&def| one_by_one.extend([def]));
            assert_eq!(defs, one_by_one);
            assert_eq!(defs.iter().count(), n);
            let names: Vec<Val> = all[..n].iter().map(|d| d.0).collect();
            assert_eq!(Args::from(&names[..])[..], names[..]);
        }
        assert_ne!(Defs::from([all[0]]), Defs::from([all[1]]));
        assert_ne!(Args::from([v(1)]), Args::from([v(1), v(2)]));
    }

    #[test]
    fn an_instruction_is_small() {
        assert!(size_of::<AdInst>() <= 72, "{}", size_of::<AdInst>());
    }
}
