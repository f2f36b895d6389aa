//! Sparse set: names of one block, emptied for the next in the time that its members take.
//!
//! **Question.** Each block has a set of names, and most sets are small. How is one emptied without
//! a walk over all names?
//!
//! **Answer.** Names are numbered densely as they are ([`Val`]), so membership is an index, and
//! what an earlier block has left there is told by the time at which it came.
//!
//! **Cost.** A constant number of steps for a question, an insertion, and to empty it. Space for
//! each name of the function.
//!
//! **Source.** Briggs and Torczon, *An efficient representation for sparse sets* (1993), for the
//! idea.

use brolga_ir::inst::Val;
use brolga_ir::map::{HashSet, one_each};
use cranelift_codegen::ir;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;

use crate::val_map::ValMap;

/// A set of names of the forward pass.
pub(super) struct NameSet {
    primal: SecondaryMap<ir::Value, u32>,
    delta: SecondaryMap<ir::Value, u32>,
    others: HashSet<Val>,
    time: u32,
}

impl NameSet {
    /// An empty one, for a function with so many values.
    pub(super) fn new(values: usize) -> Self {
        Self { primal: one_each(values), delta: SecondaryMap::new(), others: HashSet::default(), time: 1 }
    }

    /// Take all names out.
    pub(super) fn clear(&mut self) {
        self.time += 1;
        self.others.clear();
    }

    /// Whether a name is in it.
    pub(super) fn contains(&self, name: Val) -> bool {
        match name {
            Val::Primal(v) => self.primal[v] == self.time,
            Val::Delta(v) => self.delta[v] == self.time,
            _ => self.others.contains(&name),
        }
    }

    /// Put a name in; whether it is new.
    pub(super) fn insert(&mut self, name: Val) -> bool {
        let of = match name {
            Val::Primal(v) => &mut self.primal[v],
            Val::Delta(v) => &mut self.delta[v],
            _ => return self.others.insert(name),
        };
        std::mem::replace(of, self.time) != self.time
    }
}

/// Names in the order in which they came, each once. Most blocks need few, which are looked
/// through: that asks for no memory.
#[derive(Clone, Default)]
pub(super) struct ValSet {
    names: SmallVec<[Val; 4]>,
    /// The same, once they are many.
    known: HashSet<Val>,
}

/// Names that are looked through.
const FEW: usize = 16;

impl ValSet {
    /// Put a name after the others, unless it is among them.
    pub(super) fn insert(&mut self, name: Val) {
        if self.names.len() == FEW && self.known.is_empty() {
            self.known.extend(self.names.iter().copied());
        }
        let is_new = if self.names.len() < FEW { !self.names.contains(&name) } else { self.known.insert(name) };
        if is_new {
            self.names.push(name);
        }
    }
}

impl Extend<Val> for ValSet {
    fn extend<I: IntoIterator<Item = Val>>(&mut self, names: I) {
        names.into_iter().for_each(|v| self.insert(v));
    }
}

impl std::ops::Deref for ValSet {
    type Target = [Val];

    fn deref(&self) -> &[Val] {
        &self.names
    }
}

/// What is known of names in one block at a time: whether they are to be had there for nothing.
pub(super) struct FreeNames {
    known: ValMap<(u32, bool)>,
    block: Option<ir::Block>,
    time: u32,
}

impl FreeNames {
    /// Nothing is known, of a function with so many values.
    pub(super) fn new(values: usize) -> Self {
        Self { known: ValMap::new(values), block: None, time: 1 }
    }

    /// What was known does not hold any more.
    pub(super) fn forget(&mut self) {
        self.time += 1;
    }

    /// What is known of a name in a block.
    pub(super) fn get(&self, block: ir::Block, name: Val) -> Option<bool> {
        let (time, is_free) = self.known.get(name);
        (self.block == Some(block) && time == self.time).then_some(is_free)
    }

    /// From now on this is known. Of other blocks nothing is.
    pub(super) fn set(&mut self, block: ir::Block, name: Val, is_free: bool) {
        if self.block.replace(block) != Some(block) {
            self.forget();
        }
        *self.known.at(name) = (self.time, is_free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_once_and_in_order_however_many_there_are() {
        let name = |n: usize| Val::Primal(ir::Value::from_u32((n * 7 % 60) as u32));
        let (mut needs, mut known) = (ValSet::default(), Vec::new());
        for n in 0..120 {
            needs.extend([name(n), name(n / 2)]);
            for v in [name(n), name(n / 2)] {
                if !known.contains(&v) {
                    known.push(v);
                }
            }
            assert_eq!(needs[..], known[..], "{n}");
        }
        assert!(known.len() > 3 * FEW);
    }
}
