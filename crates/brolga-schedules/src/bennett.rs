//! Bennett: no state goes before it has been computed again.
//!
//! **Question.** A machine that can erase a state only by computing it once more, in reverse, out
//! of the one before: how does it get to the end with few states, and back?
//!
//! **Answer.** A stretch is cut into k parts. They are computed one after the other, each by the
//! same method, and the states between them are erased in reverse order. The way back is the mirror
//! image, and each unit is reversed where the mirror image erases its first result.
//!
//! **Cost.** For `k^n` units, `((2k − 1)^n + 1) / 2` runs that compute and one less that erase,
//! with `n(k − 1) + 2` states. If the states between the outermost parts are left for the way back
//! (`uncompute: false`), 9,999 units in parts of five take 178,601 runs.
//!
//! **When.** Revolve takes fewer units with as many states. It is here to compare with, and for
//! programs that are reversible.
//!
//! **Source.** C. H. Bennett: Time/space trade-offs for reversible computation. SIAM Journal on
//! Computing 18 (1989).

use std::collections::VecDeque;

use crate::action::{Action, Reversal, SlotId};
use crate::units::{Numbers, Units};

/// A stretch, and what becomes of the state after it.
#[derive(Clone, Copy, Debug)]
enum Stretch {
    /// It is computed.
    Compute(u64, u64),
    /// It is erased.
    Erase(u64, u64),
    /// All units are reversed, and it is erased.
    Reverse(u64, u64),
    /// The forward half is over.
    Turn,
}

/// What is left to do, and the states that there are.
#[derive(Debug)]
pub(crate) struct Tasks {
    units: Units,
    reversal: Reversal,
    parts: u64,
    /// The next is last.
    stack: Vec<Stretch>,
    /// Units, and the slots of their states.
    live: Vec<(u64, SlotId)>,
    numbers: Numbers,
    /// Of which unit the working state is.
    at: Option<u64>,
}

/// Stretches between `low` and `high`, in order.
fn parts(low: u64, high: u64, parts: u64) -> impl DoubleEndedIterator<Item = (u64, u64)> + Clone {
    let length = (high - low).div_ceil(parts);
    let count = (high - low).div_ceil(length);
    (0..count).map(move |i| (low + i * length, low.saturating_add((i + 1) * length).min(high)))
}

impl Tasks {
    pub(crate) fn new(units: Units, reversal: Reversal, parts_of: u64, uncompute: bool) -> Self {
        let mut stack = Vec::new();
        let count = units.count();
        if count == 0 {
            stack.push(Stretch::Turn);
        } else if uncompute || count == 1 {
            stack.extend([Stretch::Reverse(0, count), Stretch::Turn, Stretch::Compute(0, count)]);
        } else {
            let outer = parts(0, count, parts_of);
            stack.extend(outer.clone().map(|(a, b)| Stretch::Reverse(a, b)));
            stack.push(Stretch::Turn);
            stack.extend(outer.rev().map(|(a, b)| Stretch::Compute(a, b)));
        }
        let (live, numbers) = (Vec::new(), Numbers::default());
        Self { units, reversal, parts: parts_of, stack, live, numbers, at: Some(0) }
    }

    /// Reverse all units again, with nothing but the initial state. Whether there are any.
    pub(crate) fn restart(&mut self) -> bool {
        let units = self.units.count();
        self.stack.extend((units > 0).then_some(Stretch::Reverse(0, units)));
        units > 0
    }

    /// A task of several units as tasks of its parts. The last to do is pushed first.
    fn expand(&mut self, task: Stretch) {
        let (Stretch::Compute(low, high) | Stretch::Erase(low, high) | Stretch::Reverse(low, high)) = task else {
            return;
        };
        let all = parts(low, high, self.parts);
        let but_last = || parts(low, high, self.parts).filter(move |p| p.1 < high);
        match task {
            Stretch::Compute(..) => {
                self.stack.extend(but_last().map(|(a, b)| Stretch::Erase(a, b)));
                self.stack.extend(all.rev().map(|(a, b)| Stretch::Compute(a, b)));
                return;
            }
            Stretch::Erase(..) => self.stack.extend(all.map(|(a, b)| Stretch::Erase(a, b))),
            _ => self.stack.extend(all.map(|(a, b)| Stretch::Reverse(a, b))),
        }
        // What a part after needs: those that an outer task has left are there already.
        let missing = but_last().rev().map(|(a, b)| Stretch::Compute(a, b));
        self.stack.extend(missing);
    }

    /// The next actions. Whether there are any but to drop the initial state.
    pub(crate) fn refill(&mut self, queue: &mut VecDeque<Action>, keeps_initial: bool) -> bool {
        while queue.is_empty() {
            let Some(task) = self.stack.pop() else {
                if !keeps_initial {
                    self.erase(0, queue);
                }
                return false;
            };
            match task {
                Stretch::Turn => {
                    if self.units.count() > 0 {
                        self.go_to(self.units.count(), queue);
                    }
                    queue.push_back(Action::Turn);
                    self.at = None;
                }
                Stretch::Compute(low, high) | Stretch::Erase(low, high) | Stretch::Reverse(low, high)
                    if high - low > 1 =>
                {
                    self.expand(task);
                }
                Stretch::Compute(unit, next) => {
                    self.run(unit, queue);
                    self.keep(next, queue);
                }
                Stretch::Erase(unit, next) => {
                    self.run(unit, queue);
                    self.erase(next, queue);
                }
                Stretch::Reverse(unit, next) => {
                    self.go_to(unit, queue);
                    queue.extend(self.units.taken_back(unit, self.reversal));
                    self.at = None;
                    self.erase(next, queue);
                }
            }
        }
        true
    }

    /// The state before `unit` becomes the working state.
    fn go_to(&mut self, unit: u64, queue: &mut VecDeque<Action>) {
        if self.live.is_empty() {
            self.keep(0, queue);
        }
        if self.at != Some(unit) {
            let slot = self.live.iter().find(|l| l.0 == unit).map(|l| l.1);
            debug_assert!(slot.is_some(), "no state before unit {unit}");
            queue.extend(slot.map(|slot| Action::Restore { slot, step: self.units.step(unit) }));
        }
        self.at = Some(unit);
    }

    fn run(&mut self, unit: u64, queue: &mut VecDeque<Action>) {
        self.go_to(unit, queue);
        queue.push_back(Action::Advance { from: self.units.step(unit), to: self.units.step(unit + 1) });
        self.at = Some(unit + 1);
    }

    fn keep(&mut self, unit: u64, queue: &mut VecDeque<Action>) {
        let slot = SlotId::Memory(self.numbers.take());
        self.live.push((unit, slot));
        queue.push_back(Action::Store { slot, step: self.units.step(unit) });
    }

    fn erase(&mut self, unit: u64, queue: &mut VecDeque<Action>) {
        // Reversed from the initial state alone, the last state has never been there.
        if let Some(i) = self.live.iter().position(|l| l.0 == unit) {
            let (_, slot) = self.live.swap_remove(i);
            queue.push_back(Action::Drop { slot });
            self.numbers.give_back(slot);
        }
    }
}

/// How many units run without a tape: both halves together, with states between the
/// outermost parts left or not.
pub fn untaped(units: u64, parts_of: u64, uncompute: bool) -> u128 {
    let (computed, erased) = forward(units, parts_of, uncompute);
    // The mirror image has as many of both, and the first run of each unit is the one that is
    // taped.
    2 * (computed + erased) - u128::from(units)
}

/// How many units the forward half computes, and how many it erases.
pub fn forward(units: u64, parts_of: u64, uncompute: bool) -> (u128, u128) {
    if units <= 1 {
        return (u128::from(units), 0);
    }
    let length = units.div_ceil(parts_of);
    let (full_parts, rest) = (u128::from(units / length), units % length);
    let (c, e) = forward(length, parts_of, true);
    let (last_c, last_e) = forward(rest, parts_of, true);
    let (computed, erased) = (full_parts * c + last_c, full_parts * e + last_e);
    if !uncompute {
        return (computed, erased);
    }
    // All parts but the last are erased, which computes what they erase and erases what they
    // compute.
    let but_last = if rest > 0 { full_parts } else { full_parts - 1 };
    (computed + but_last * e, erased + but_last * c)
}
