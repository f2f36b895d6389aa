//! Hash maps and tables for small keys: entities, names of values, places.
//!
//! **Problem.** The standard hasher defends against keys that an adversary has chosen, and costs as
//! much as the rest of a lookup several times over.
//!
//! **Answer.** Maps with a quick hasher: [`HashMap`] and [`HashSet`] without an order, [`IndexMap`]
//! and [`IndexSet`] in the order of insertion. A [`Table`] is in that order as well, and has keys
//! that are numbered densely.
//!
//! **Invariant.** Nothing iterates over a [`HashMap`] where order could show; what does is an
//! [`IndexMap`] or a [`Table`].
//!
//! **Cost.** A look-up in a [`Table`] is an index. It takes a word of four bytes for each key that
//! there may be, whether or not it has a value.

use std::fmt::{Debug, Formatter};
use std::ops::{Index, IndexMut};

use cranelift_entity::{EntityRef, SecondaryMap};
use rustc_hash::FxBuildHasher;

use crate::pages;

/// A map without an order.
pub type HashMap<K, V> = std::collections::HashMap<K, V, FxBuildHasher>;
/// A set without an order.
pub type HashSet<T> = std::collections::HashSet<T, FxBuildHasher>;
/// A map in the order of insertion.
pub type IndexMap<K, V> = indexmap::IndexMap<K, V, FxBuildHasher>;
/// A set in the order of insertion.
pub type IndexSet<T> = indexmap::IndexSet<T, FxBuildHasher>;

/// A table with an entry for each of so many keys. One that grows with each key that is written to
/// asks for memory again and again, and is filled a little at a time.
pub fn one_each<K: EntityRef, V: Clone + Default>(keys: usize) -> SecondaryMap<K, V> {
    let mut table = SecondaryMap::new();
    table.resize(keys);
    table
}

/// A map in the order of insertion whose keys are entities, which are numbered densely: a look-up
/// is an index.
#[derive(Clone)]
pub struct Table<K: EntityRef, V> {
    all: Vec<(K, V)>,
    /// One more than the position of each key.
    at: SecondaryMap<K, u32>,
}

impl<K: EntityRef, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { all: Vec::new(), at: SecondaryMap::new() }
    }
}

impl<K: EntityRef, V> Table<K, V> {
    /// An empty one with room for so many, and for so many keys.
    pub fn with_capacity(values: usize, keys: usize) -> Self {
        Self { all: pages::with_capacity(values), at: one_each(keys) }
    }

    /// Add a value after the others, or put it in the place of the one that is there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.get_index_of(&key) {
            Some(at) => Some(std::mem::replace(&mut self.all[at].1, value)),
            None => {
                self.all.push((key, value));
                self.at[key] = self.all.len() as u32;
                None
            }
        }
    }

    /// Something else for each key, in the same order.
    pub fn map<W>(&self, mut f: impl FnMut(K, &V) -> W) -> Table<K, W> {
        Table { all: self.all.iter().map(|(k, v)| (*k, f(*k, v))).collect(), at: self.at.clone() }
    }

    /// A table with an entry for each key.
    pub fn one_each<W: Clone + Default>(&self) -> SecondaryMap<K, W> {
        one_each(self.at.keys().len())
    }

    /// Append the values of another table that stand after so many. It has none of the same keys.
    pub fn append_tail(&mut self, mut other: Self, n: usize) {
        other.all.drain(..n);
        let offset = self.all.len() as u32;
        if other.at.keys().len() > self.at.keys().len() {
            self.at.resize(other.at.keys().len());
        }
        for (k, (key, _)) in (1..).zip(&other.all) {
            debug_assert!(!self.contains_key(key), "no key is in both");
            self.at[*key] = offset + k;
        }
        self.all.append(&mut other.all);
    }

    /// Make room for so many more.
    pub fn reserve(&mut self, values: usize) {
        self.all.reserve(values);
    }

    /// The position of a key.
    pub fn get_index_of(&self, key: &K) -> Option<usize> {
        (self.at[*key] as usize).checked_sub(1)
    }

    /// The value at a position.
    pub fn get_index(&self, at: usize) -> Option<&V> {
        self.all.get(at).map(|x| &x.1)
    }

    /// Whether there is a value.
    pub fn contains_key(&self, key: &K) -> bool {
        self.at[*key] != 0
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.get_index_of(key).map(|at| &self.all[at].1)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.get_index_of(key).map(|at| &mut self.all[at].1)
    }

    /// All keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + ExactSizeIterator + Clone {
        self.all.iter().map(|x| &x.0)
    }

    /// All values in order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator + Clone {
        self.all.iter().map(|x| &x.1)
    }

    /// All values in order, to be changed.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.all.iter_mut().map(|x| &mut x.1)
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> + ExactSizeIterator + Clone {
        self.all.iter().map(|x| (&x.0, &x.1))
    }

    /// Keep some.
    pub fn retain(&mut self, mut wanted: impl FnMut(&K, &mut V) -> bool) {
        let (at, mut left) = (&mut self.at, 0);
        self.all.retain_mut(|(key, value)| {
            let stays = wanted(key, value);
            left += u32::from(stays);
            at[*key] = if stays { left } else { 0 };
            stays
        });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl<K: EntityRef + Debug, V: Debug> Debug for Table<K, V> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: EntityRef, V> Index<&K> for Table<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key).expect("a key of the table")
    }
}

impl<K: EntityRef, V> IndexMut<&K> for Table<K, V> {
    fn index_mut(&mut self, key: &K) -> &mut V {
        self.get_mut(key).expect("a key of the table")
    }
}

/// By position.
impl<K: EntityRef, V> Index<usize> for Table<K, V> {
    type Output = V;

    fn index(&self, at: usize) -> &V {
        &self.all[at].1
    }
}

impl<K: EntityRef, V> IndexMut<usize> for Table<K, V> {
    fn index_mut(&mut self, at: usize) -> &mut V {
        &mut self.all[at].1
    }
}

impl<K: EntityRef, V> Extend<(K, V)> for Table<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, all: I) {
        let all = all.into_iter();
        self.all.reserve(all.size_hint().0);
        // There are as many keys at the least.
        let keys = self.all.len() + all.size_hint().0;
        if keys > self.at.keys().len() {
            self.at.resize(keys);
        }
        all.for_each(|(key, value)| drop(self.insert(key, value)));
    }
}

impl<K: EntityRef, V> FromIterator<(K, V)> for Table<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(all: I) -> Self {
        let mut found = Self::default();
        found.extend(all);
        found
    }
}

impl<K: EntityRef, V> IntoIterator for Table<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}
