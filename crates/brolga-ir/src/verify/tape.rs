//! Tape discipline: pops mirror pushes, in each block and on every path.
//!
//! **Question.** Does the reverse half pop exactly what the forward half has pushed, last first, on
//! every path? **Answer.** In three steps.
//! - *Blocks.* What the reverse of a block does to the tape (records, calls of derived functions)
//!   is what the block did, in the reverse order: the same values, types and number. In a loop that
//!   is rerun iteration by iteration, the block that runs again takes the place of the forward
//!   version.
//! - *Paths.* Each place of the primal, before a block and after it, is a state of the tape;
//!   places that an edge joins are one state, and so are both ends of a block that does nothing to
//!   the tape. An edge of either half leads from a state to the same state: so nothing that records
//!   is skipped, and nothing is reversed out of order, also after blocks have been bypassed.
//! - *Coverage.* A block that records and can return has its reverse in each version of the reverse
//!   half.
//!
//! Places of a rerun loop are states of their own. The places before and after a loop's body are
//! one state, so a bypass of the body's reverse on one of several edges is not seen. **Cost.**
//! Linear but for the inverse of Ackermann's function (union-find).

use cranelift_codegen::ir;
use cranelift_entity::{EntityRef, SecondaryMap};

use super::fault::{Faults, Rule};
use super::mirror::Mirror;
use super::view::View;
use crate::InstId;
use crate::block::{CfgBlock, Role};
use crate::inst::{AdInst, AdOp, Tape};

const RULE: Rule = Rule::PopsMirrorPushes;

/// What a block does to the tape, in order.
fn events(block: &CfgBlock) -> Vec<(InstId, &AdInst)> {
    let touches = |i: &AdInst| matches!(i.op, AdOp::Push(..) | AdOp::Pop(..) | AdOp::Call { tape: Tape::Moves, .. });
    block.insts.iter().filter(|(_, i)| touches(i)).map(|(&id, i)| (id, i)).collect()
}

fn is_event_free(block: Option<&CfgBlock>) -> bool {
    block.is_none_or(|b| events(b).is_empty())
}

/// Whether the one takes from the tape what the other has put there.
fn undoes(taking: &AdInst, putting: &AdInst, view: &View<'_>) -> bool {
    match (&putting.op, &taking.op) {
        (AdOp::Push(pushed, number), AdOp::Pop(popped, n)) => {
            let types = pushed.iter().zip(taking.defs.iter());
            pushed == popped && number == n && types.into_iter().all(|(&v, d)| view.type_of(v).is_none_or(|t| t == d.1))
        }
        (AdOp::Call { .. }, AdOp::Call { .. }) => taking.at == putting.at,
        _ => false,
    }
}

fn told(inst: &AdInst) -> String {
    match &inst.op {
        AdOp::Push(names, number) | AdOp::Pop(names, number) => {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let number = number.map_or_else(String::new, |n| format!(" and number {n}"));
            format!("[{}]{number}", names.join(", "))
        }
        _ => inst.at.map_or_else(|| "a call".to_owned(), |at| format!("the call of {at}")),
    }
}

/// States of the tape, each a set of places.
struct States {
    up: Vec<u32>,
    blocks: usize,
}

impl States {
    fn find(&mut self, mut x: usize) -> usize {
        while self.up[x] as usize != x {
            self.up[x] = self.up[self.up[x] as usize];
            x = self.up[x] as usize;
        }
        x
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.up[a] = b as u32;
    }

    /// Before or after a block of the forward half, or of a rerun loop.
    fn place(&self, b: ir::Block, rerun: bool, end: bool) -> usize {
        2 * b.index() + usize::from(end) + if rerun { 2 * self.blocks } else { 0 }
    }

    fn of(mirror: &Mirror<'_, '_>) -> Self {
        let blocks = mirror.primal.succs.len();
        let mut states = States { up: (0..4 * blocks as u32).collect(), blocks };
        for p in (0..blocks).map(|p| ir::Block::from_u32(p as u32)) {
            if is_event_free(mirror.forward_of[p]) {
                states.join(states.place(p, false, false), states.place(p, false, true));
            }
            let header = mirror.rerun[p];
            if header.is_some() && is_event_free(mirror.rerun_block[p]) {
                states.join(states.place(p, true, false), states.place(p, true, true));
            }
            if header == Some(p) {
                states.join(states.place(p, true, false), states.place(p, false, false));
            }
            for s in mirror.primal.succs.of(p.index()).map(|s| ir::Block::from_u32(s as u32)) {
                states.join(states.place(p, false, true), states.place(s, false, false));
                // An iteration ends at the latch.
                if header.is_some() && header == mirror.rerun[s] && header != Some(s) {
                    states.join(states.place(p, true, true), states.place(s, true, false));
                }
            }
        }
        states
    }

    /// The state before or after a block; none for the entry of a pullback.
    fn at(&self, mirror: &Mirror<'_, '_>, role: Role, end: bool) -> Option<usize> {
        let rerun = |b: ir::Block| mirror.rerun[b].is_some();
        Some(match role {
            Role::Forward(b) => self.place(b, false, end),
            Role::Begin(header) => self.place(header, false, false),
            Role::Reverse(b) => self.place(b, rerun(b), !end),
            Role::Edge(p, s) if rerun(p) && mirror.rerun[p] == mirror.rerun[s] => self.place(p, true, true),
            Role::Edge(_, s) => self.place(s, false, false),
            Role::Rerun(_, b) => self.place(b, true, end),
            Role::Exit => self.place(ir::Block::from_u32(mirror.primal.entry as u32), false, false),
            Role::Entry => return None,
        })
    }
}

/// Whether pops mirror pushes.
pub fn check(mirror: &Mirror<'_, '_>, faults: &mut Faults) {
    blocks(mirror, faults);
    let mut states = States::of(mirror);
    let forward = mirror.forward.reached().filter(|(_, b)| b.role.is_forward());
    for (b, block) in forward.collect::<Vec<_>>() {
        edges(mirror, mirror.forward, b, block, &mut states, faults);
    }
    for (b, block) in mirror.reversed().collect::<Vec<_>>() {
        edges(mirror, mirror.reverse, b, block, &mut states, faults);
    }
}

/// What blocks do, and whether all that must be reversed is.
fn blocks(mirror: &Mirror<'_, '_>, faults: &mut Faults) {
    let mut reverses: SecondaryMap<ir::Block, usize> = SecondaryMap::new();
    for (at, block) in mirror.reversed() {
        let found = events(block);
        let recorded = match block.role {
            _ if mirror.clearing[at] => Vec::new(),
            Role::Reverse(b) => {
                reverses[b] += 1;
                mirror.recorder(b).map(events).unwrap_or_default()
            }
            // Its own reverse pops what it pushes.
            Role::Rerun(..) => continue,
            _ => Vec::new(),
        };
        let mut putting = recorded.iter().rev();
        for &(id, taking) in &found {
            match putting.next() {
                Some(&(_, put)) if undoes(taking, put, mirror.forward) => {}
                Some(&(_, put)) => {
                    let what = format!("{} comes off the tape where {} is on top", told(taking), told(put));
                    faults.add(RULE, block.id, Some(id), what);
                }
                None => faults.add(RULE, block.id, Some(id), format!("{} is not on the tape", told(taking))),
            }
        }
        for &(_, put) in putting {
            faults.add(RULE, block.id, None, format!("{} stays on the tape", told(put)));
        }
    }
    for b in (0..mirror.primal.succs.len()).map(|b| ir::Block::from_u32(b as u32)) {
        let rerun = mirror.rerun[b].is_some();
        let (forward, copy) = (mirror.forward_of[b], mirror.rerun_block[b]);
        if let Some(block) = forward.filter(|_| rerun && !is_event_free(forward)) {
            faults.add(RULE, block.id, None, "a block of a loop that is rerun records in the forward half");
        }
        let records = !is_event_free(if rerun { copy } else { forward });
        if records && mirror.primal.returning[b.index()] && reverses[b] != mirror.versions {
            let block = mirror.recorder(b).expect("it records");
            let what = format!("{b} records, and has {} reverses in {} versions", reverses[b], mirror.versions);
            faults.add(RULE, block.id, None, what);
        }
    }
}

/// Where a block goes on, the tape is as that expects it.
fn edges(
    mirror: &Mirror<'_, '_>,
    view: &View<'_>,
    b: usize,
    block: &CfgBlock,
    states: &mut States,
    faults: &mut Faults,
) {
    let clears = !block.role.is_forward() && mirror.clearing[b];
    for to in view.edges.of(b) {
        let next = view.blocks[to];
        let is_exit = |q: ir::Block| mirror.primal.exits.contains(&q.index());
        let mut same = |from: Role, into: Role| {
            let places = states.at(mirror, from, true).zip(states.at(mirror, into, false));
            places.is_some_and(|(a, b)| states.find(a) == states.find(b))
        };
        let ok = match (block.role, next.role) {
            (Role::Entry, Role::Entry) => true,
            (Role::Entry, Role::Reverse(q)) if is_exit(q) => true,
            // Several exits may be bypassed at once.
            (Role::Entry, into) => {
                let exits = mirror.primal.exits.iter().map(|&e| ir::Block::from_u32(e as u32));
                exits.map(Role::Forward).all(|e| same(e, into))
            }
            // What clears follows the way of the others, and leaves the tape where it is.
            _ if clears && mirror.clearing[to] => true,
            (Role::Exit, Role::Reverse(q)) => clears && is_exit(q),
            (from @ Role::Forward(p), into) if !into.is_forward() => is_exit(p) && same(from, into),
            (from, into) => same(from, into),
        };
        if !ok {
            let what = format!("it goes to {} ({:?}), which finds another state of the tape", next.id, next.role);
            faults.add(RULE, block.id, None, what);
        }
    }
}
