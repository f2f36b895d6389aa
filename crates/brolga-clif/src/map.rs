//! Hash maps for small keys, and tables of entities.
//!
//! **Problem.** The standard hasher defends against keys that an adversary has chosen, which
//! entities are not, and takes longer for that.
//!
//! **Answer.** Maps and sets with a quick hasher, without an order or in the order of insertion,
//! and tables that are as long as there are keys from the beginning ([`one_each`]).
//!
//! **Cost.** A quick hash for each look-up; an index in a table.

use cranelift_entity::{EntityRef, SecondaryMap};
use rustc_hash::FxBuildHasher;

/// A map without an order.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, FxBuildHasher>;
/// A set without an order.
pub(crate) type HashSet<T> = std::collections::HashSet<T, FxBuildHasher>;
/// A map in the order of insertion.
pub(crate) type IndexMap<K, V> = indexmap::IndexMap<K, V, FxBuildHasher>;

/// A table with an entry for each of so many keys.
pub(crate) fn one_each<K: EntityRef, V: Clone + Default>(keys: usize) -> SecondaryMap<K, V> {
    let mut table = SecondaryMap::new();
    table.resize(keys);
    table
}
