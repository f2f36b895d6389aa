//! Scheduling for SLP: in which order instructions can stand, if some of them become one.
//!
//! A list of instructions in order, and for each what must come behind it: what reads its result,
//! and accesses that may touch the same memory where one of them writes. Groups of them become one
//! instruction each. That is possible if no group waits for itself, and then there is an order; of
//! all there are, the one is taken that follows the old one most closely.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

/// What must come behind what.
pub struct Order {
    /// By instruction, those that wait for it.
    after: Vec<SmallVec<[u32; 4]>>,
}

impl Order {
    /// Of `n` instructions, nothing yet.
    pub fn new(n: usize) -> Self {
        Self { after: vec![SmallVec::new(); n] }
    }

    /// The second waits for the first.
    pub fn behind(&mut self, first: u32, second: u32) {
        self.after[first as usize].push(second);
    }

    /// Groups in an order in which they can stand, each by the least of its instructions. `group`
    /// says for each instruction which that is.
    pub fn of_groups(&self, group: &[u32]) -> Option<Vec<u32>> {
        let mut waits = vec![0_u32; group.len()];
        for (i, after) in self.after.iter().enumerate() {
            for &j in after {
                if group[i] == group[j as usize] {
                    return None;
                }
                waits[group[j as usize] as usize] += 1;
            }
        }
        let mut members: Vec<SmallVec<[u32; 4]>> = vec![SmallVec::new(); group.len()];
        group.iter().enumerate().for_each(|(i, &g)| members[g as usize].push(i as u32));
        let heads = || group.iter().enumerate().filter(|&(i, &g)| g == i as u32);
        let mut ready: BinaryHeap<Reverse<u32>> =
            heads().filter(|&(i, _)| waits[i] == 0).map(|(i, _)| Reverse(i as u32)).collect();
        let mut found = Vec::new();
        while let Some(Reverse(g)) = ready.pop() {
            found.push(g);
            for &j in members[g as usize].iter().flat_map(|&i| &self.after[i as usize]) {
                let then = group[j as usize];
                waits[then as usize] -= 1;
                if waits[then as usize] == 0 {
                    ready.push(Reverse(then));
                }
            }
        }
        (found.len() == heads().count()).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::Order;

    fn order(n: usize, behind: &[(u32, u32)], group: &[u32]) -> Option<Vec<u32>> {
        let mut order = Order::new(n);
        behind.iter().for_each(|&(a, b)| order.behind(a, b));
        order.of_groups(group)
    }

    #[test]
    fn what_waits_for_nothing_stays_where_it_is() {
        assert_eq!(order(4, &[], &[0, 1, 2, 3]), Some(vec![0, 1, 2, 3]));
        assert_eq!(order(4, &[(0, 3)], &[0, 1, 1, 3]), Some(vec![0, 1, 3]));
    }

    #[test]
    fn a_group_stands_where_all_that_it_waits_for_is_there() {
        // The second member of a group reads what stands between them.
        assert_eq!(order(3, &[(1, 2)], &[0, 1, 0]), Some(vec![1, 0]));
    }

    #[test]
    fn no_group_waits_for_itself() {
        assert_eq!(order(2, &[(0, 1)], &[0, 0]), None);
        assert_eq!(order(3, &[(0, 1), (1, 2)], &[0, 1, 0]), None);
        // Two groups for each other.
        assert_eq!(order(4, &[(0, 1), (2, 3)], &[0, 1, 1, 0]), None);
    }
}
