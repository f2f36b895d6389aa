//! Set of addresses of machine code, as sorted ranges.
//!
//! **Question.** Does an interrupted instruction lie in our code? A signal handler asks, so it may
//! neither allocate nor lock.
//!
//! **Answer.** Sorted ranges that neither overlap nor touch, made beforehand.
//!
//! **Cost.** A sort when it is made, a binary search for each question.

use std::ops::Range;

/// A set of addresses of machine code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeRanges {
    /// Sorted, not empty, neither overlapping nor touching.
    ranges: Box<[Range<usize>]>,
}

impl CodeRanges {
    /// The union of these ranges, in any order.
    pub fn new(ranges: impl IntoIterator<Item = Range<usize>>) -> Self {
        let mut sorted: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        sorted.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        Self { ranges: merged.into() }
    }

    /// Whether the address lies in one of them.
    pub fn contains(&self, address: usize) -> bool {
        let after = self.ranges.partition_point(|range| range.start <= address);
        after.checked_sub(1).is_some_and(|before| address < self.ranges[before].end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_merged_and_found() {
        let code = CodeRanges::new([30..40, 10..20, 15..25, 40..50, 5..5]);
        assert_eq!(&*code.ranges, [10..25, 30..50]);
        let inside: Vec<_> = (0..60).filter(|&a| code.contains(a)).collect();
        assert_eq!(inside, (10..25).chain(30..50).collect::<Vec<_>>());
        assert!(!CodeRanges::default().contains(0));
    }
}
