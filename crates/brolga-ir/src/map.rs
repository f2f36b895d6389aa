//! Hash maps for small keys: entities, names of values, places.
//!
//! The standard hasher defends against keys that an adversary has chosen, and costs as much as the rest of a lookup several times
//! over. Nothing iterates over a [`HashMap`] where order could show; what does is an [`IndexMap`].

use rustc_hash::FxBuildHasher;

/// A map without an order.
pub type HashMap<K, V> = std::collections::HashMap<K, V, FxBuildHasher>;
/// A set without an order.
pub type HashSet<T> = std::collections::HashSet<T, FxBuildHasher>;
/// A map in the order of insertion.
pub type IndexMap<K, V> = indexmap::IndexMap<K, V, FxBuildHasher>;
/// A set in the order of insertion.
pub type IndexSet<T> = indexmap::IndexSet<T, FxBuildHasher>;
