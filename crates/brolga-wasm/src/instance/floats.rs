//! Where the host has put floats into an instance's memory.
//!
//! **Problem.** A program that moves floats in pieces, in a module with floats of both sizes, sends
//! back cotangents of bytes. Where it has written a float itself, that says what they are; what its
//! caller has put there only the caller knows.
//!
//! **Answer.** Intervals of memory, each with the size of the floats in it, kept as the host
//! writes. What is written later replaces what was there. Derivatives get all of them as one list
//! ([`brolga::Floats`]), which is made when it is first asked for. Initial data of the module are
//! constants of unknown kind, unless the host declares them.
//!
//! **Cost.** A write looks up a sorted map, and splits or takes out the intervals that it covers;
//! one that puts the same there as before changes nothing. The list is made again after each
//! change, when a derivative asks.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use brolga::Floats;

/// What the host has put into memory: disjoint intervals.
#[derive(Default)]
pub(crate) struct KnownFloats {
    /// By first address: the end, and bytes of each float; 0 for initial data.
    intervals: BTreeMap<u32, (u32, u32)>,
    /// The same as a list, while nothing changes.
    list: OnceLock<Arc<[Floats]>>,
}

impl KnownFloats {
    /// The module has initial data there. Of data at odd places all bytes of the words in which
    /// they lie are meant.
    pub(crate) fn put_data(&mut self, at: u32, len: usize) {
        let from = at & !7;
        self.put(from, (at as usize + len).next_multiple_of(8) - from as usize, Some(0));
    }

    /// From `at` on there are floats of this size in `len` bytes, or something else.
    pub(crate) fn put(&mut self, at: u32, len: usize, size: Option<u32>) {
        let end = u32::try_from(u64::from(at) + len as u64).unwrap_or(u32::MAX);
        // Buffers are mostly filled again with what they had before.
        if size.is_some_and(|size| self.intervals.get(&at) == Some(&(end, size))) || at == end {
            return;
        }
        let over: Vec<(u32, (u32, u32))> =
            self.intervals.range(..end).rev().map(|(&from, &to)| (from, to)).take_while(|(_, to)| to.0 > at).collect();
        if over.is_empty() && size.is_none() {
            return;
        }
        self.list = OnceLock::new();
        for (from, (to, of)) in over {
            self.intervals.remove(&from);
            if from < at {
                self.intervals.insert(from, (at, of));
            }
            // What is left begins with a whole float.
            let gone = u64::from(end.saturating_sub(from)).next_multiple_of(of.max(1).into());
            if gone < u64::from(to - from) {
                self.intervals.insert(from + gone as u32, (to, of));
            }
        }
        if let Some(size) = size {
            self.intervals.insert(at, (end, size));
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Arc<[Floats]> {
        let interval =
            |(&from, &(to, size)): (&u32, &(u32, u32))| Floats { offset: from.into(), len: u64::from(to - from), size };
        self.list.get_or_init(|| self.intervals.iter().map(interval).collect()).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::KnownFloats;

    fn all(known: &KnownFloats) -> Vec<(u64, u64, u32)> {
        known.all().iter().map(|f| (f.offset, f.offset + f.len, f.size)).collect()
    }

    #[test]
    fn what_is_written_later_is_there() {
        let mut known = KnownFloats::default();
        known.put(0, 64, Some(8));
        known.put(64, 16, Some(4));
        assert_eq!(all(&known), [(0, 64, 8), (64, 80, 4)]);
        // In the middle of one, and over the end of it into the next.
        known.put(16, 8, Some(4));
        assert_eq!(all(&known), [(0, 16, 8), (16, 24, 4), (24, 64, 8), (64, 80, 4)]);
        known.put(60, 8, None);
        assert_eq!(all(&known), [(0, 16, 8), (16, 24, 4), (24, 60, 8), (68, 80, 4)]);
        // A part of a double is none.
        known.put(24, 4, None);
        assert_eq!(all(&known), [(0, 16, 8), (16, 24, 4), (32, 60, 8), (68, 80, 4)]);
        known.put(0, 100, None);
        assert_eq!(all(&known), []);
        known.put(8, 0, Some(8));
        assert_eq!(all(&known), []);
        known.put(u32::MAX - 7, 8, Some(8));
        assert_eq!(all(&known), [(0xffff_fff8, 0xffff_ffff, 8)]);
    }

    #[test]
    fn data_are_constants_in_whole_words() {
        let mut known = KnownFloats::default();
        known.put_data(13, 20);
        known.put(16, 8, Some(8));
        known.put(26, 2, None);
        assert_eq!(all(&known), [(8, 16, 0), (16, 24, 8), (24, 26, 0), (28, 40, 0)]);
    }

    #[test]
    fn the_list_is_made_once() {
        let mut known = KnownFloats::default();
        known.put(0, 64, Some(8));
        let first = known.all();
        known.put(0, 64, Some(8));
        known.put(64, 8, None);
        assert!(std::sync::Arc::ptr_eq(&first, &known.all()));
        known.put(0, 8, Some(4));
        assert!(!std::sync::Arc::ptr_eq(&first, &known.all()));
    }
}
