//! Bennett: no state goes before it has been computed again.
//!
//! *Question.* A machine that can erase a state only by computing it once more, in reverse, out of
//! the one before: how does it get to the end with few states, and back?
//!
//! *Answer.* A stretch is cut into k parts. They are computed one behind the other, each by the same
//! method, and the states between them are erased in reverse order. The way back is the mirror
//! image, and each unit is reversed where the mirror image erases its first result.
//!
//! *Cost.* For `k^n` units, `((2k − 1)^n + 1) / 2` runs that compute and one less that erase, with
//! `n(k − 1) + 2` states. If the states between the outermost parts are left for the way back
//! (`uncompute: false`), 9,999 units in parts of five take 178,601 runs.
//!
//! *When.* Revolve takes fewer units with as many states. It is here to compare with, and for
//! programs that are reversible.
//!
//! *Source.* C. H. Bennett: Time/space trade-offs for reversible computation. SIAM Journal on
//! Computing 18 (1989).

use crate::action::{Action, Slot};
use crate::schedule::{Blocks, Phase, Schedule};

/// A stretch, and what becomes of the state behind it.
#[derive(Clone, Copy, Debug)]
enum Task {
    /// It is computed.
    Compute(u64, u64),
    /// It is erased.
    Erase(u64, u64),
    /// All units are reversed, and it is erased.
    Reverse(u64, u64),
    /// The forward half is over.
    Turn,
}

/// What is left to do, the next last, and the states that there are.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    parts: u64,
    stack: Vec<Task>,
    /// Units, and the slots of their states.
    live: Vec<(u64, Slot)>,
}

/// Stretches between `low` and `high`, in order.
fn parts(low: u64, high: u64, parts: u64) -> impl DoubleEndedIterator<Item = (u64, u64)> + Clone {
    let length = (high - low).div_ceil(parts);
    let count = (high - low).div_ceil(length);
    (0..count).map(move |i| (low + i * length, low.saturating_add((i + 1) * length).min(high)))
}

impl Tasks {
    pub(crate) fn new(units: u64, parts_of: u64, uncompute: bool) -> Self {
        let mut stack = Vec::new();
        let outer = parts(0, units.max(1), parts_of);
        if units == 0 {
            stack.push(Task::Turn);
        } else if uncompute || units == 1 {
            stack.extend([Task::Reverse(0, units), Task::Turn, Task::Compute(0, units)]);
        } else {
            stack.extend(outer.clone().map(|(a, b)| Task::Reverse(a, b)));
            stack.push(Task::Turn);
            stack.extend(outer.rev().map(|(a, b)| Task::Compute(a, b)));
        }
        Self { parts: parts_of, stack, live: Vec::new() }
    }

    /// Reverse all units again, with nothing but the initial state.
    pub(crate) fn again(&mut self, units: u64) {
        self.stack.extend((units > 0).then_some(Task::Reverse(0, units)));
    }

    fn slot(&self, unit: u64) -> Option<Slot> {
        self.live.iter().find(|l| l.0 == unit).map(|l| l.1)
    }

    /// A task of several units as tasks of its parts. The last to do is pushed first.
    fn expand(&mut self, task: Task) {
        let (Task::Compute(low, high) | Task::Erase(low, high) | Task::Reverse(low, high)) = task else { return };
        let all = parts(low, high, self.parts);
        let but_last = || parts(low, high, self.parts).filter(move |p| p.1 < high);
        match task {
            Task::Compute(..) => {
                self.stack.extend(but_last().map(|(a, b)| Task::Erase(a, b)));
                self.stack.extend(all.rev().map(|(a, b)| Task::Compute(a, b)));
                return;
            }
            Task::Erase(..) => self.stack.extend(all.map(|(a, b)| Task::Erase(a, b))),
            _ => self.stack.extend(all.map(|(a, b)| Task::Reverse(a, b))),
        }
        // What a part behind needs: those that an outer task has left are there already.
        let missing = but_last().rev().map(|(a, b)| Task::Compute(a, b));
        self.stack.extend(missing);
    }
}

impl Schedule {
    /// The next actions of Bennett's schedule.
    pub(crate) fn next_tasks(&mut self) {
        let blocks = self.blocks;
        while self.queue.is_empty() {
            let Some(task) = self.tasks.stack.pop() else {
                return self.finish();
            };
            match task {
                Task::Turn => {
                    if blocks.count() > 0 {
                        self.go_to(blocks, blocks.count());
                    }
                    self.queue.push_back(Action::Turn);
                    (self.at, self.phase) = (None, Phase::Reverse);
                }
                Task::Compute(low, high) | Task::Erase(low, high) | Task::Reverse(low, high) if high - low > 1 => {
                    self.tasks.expand(task);
                }
                Task::Compute(unit, next) => {
                    self.run_again(blocks, unit);
                    let slot = Slot::Memory(self.numbers.take());
                    self.tasks.live.push((next, slot));
                    self.queue.push_back(Action::Store { slot, step: blocks.step(next) });
                }
                Task::Erase(unit, next) => {
                    self.run_again(blocks, unit);
                    self.erase(next);
                }
                Task::Reverse(unit, next) => {
                    self.go_to(blocks, unit);
                    self.take_back(unit);
                    self.at = None;
                    self.erase(next);
                }
            }
        }
    }

    /// The state before `unit` becomes the working state.
    fn go_to(&mut self, blocks: Blocks, unit: u64) {
        if unit == 0 && self.held.is_empty() {
            self.keep_initial();
        }
        if self.at != Some(unit) {
            let slot = if unit == 0 { self.held.first().map(|h| h.slot) } else { self.tasks.slot(unit) };
            let Some(slot) = slot else { return debug_assert!(false, "no state before unit {unit}") };
            self.queue.push_back(Action::Restore { slot, step: blocks.step(unit) });
        }
        self.at = Some(unit);
    }

    fn run_again(&mut self, blocks: Blocks, unit: u64) {
        self.go_to(blocks, unit);
        self.queue.push_back(Action::Advance { from: blocks.step(unit), to: blocks.step(unit + 1) });
        self.at = Some(unit + 1);
    }

    fn erase(&mut self, unit: u64) {
        // Reversed from the initial state alone, the last state has never been there.
        if let Some(i) = self.tasks.live.iter().position(|l| l.0 == unit) {
            let (_, slot) = self.tasks.live.swap_remove(i);
            self.queue.push_back(Action::Drop { slot });
            self.numbers.give_back(slot);
        }
    }
}

/// How many units run without a tape: both halves together, with states between the
/// outermost parts left or not.
pub fn untaped(units: u64, parts_of: u64, uncompute: bool) -> u128 {
    let (computed, erased) = forward(units, parts_of, uncompute);
    // The mirror image has as many of both, and the first run of each unit is the one that is taped.
    2 * (computed + erased) - u128::from(units)
}

/// How many units the forward half computes, and how many it erases.
pub fn forward(units: u64, parts_of: u64, uncompute: bool) -> (u128, u128) {
    if units <= 1 {
        return (u128::from(units), 0);
    }
    let length = units.div_ceil(parts_of);
    let (whole, rest) = (u128::from(units / length), units % length);
    let (c, e) = forward(length, parts_of, true);
    let (last_c, last_e) = forward(rest, parts_of, true);
    let (computed, erased) = (whole * c + last_c, whole * e + last_e);
    if !uncompute {
        return (computed, erased);
    }
    // All parts but the last are erased, which computes what they erase and erases what they
    // compute.
    let but_last = if rest > 0 { whole } else { whole - 1 };
    (computed + but_last * e, erased + but_last * c)
}
