//! Observation of a run: what happens to floats that no float operation takes.
//!
//! **Question.** A domain hears of a float operation only if a derivative goes through it. Where do
//! derivatives *end*: in comparisons, roundings, choices, and where memory is overwritten?
//!
//! **Answer.** None of that depends on single instructions: whatever an instruction is, a float
//! among its operands either appears in its results, or is an operand of a node that it made, or
//! ends there. So all of it is observed here, around the step ([`Machine::observe_flow`]), and only
//! for domains that ask ([`Domain::OBSERVES`]). Writes of memory are told with what was there
//! before.
//!
//! **Cost.** Nothing for a domain that does not ask; otherwise a look at the bytes of all operands
//! and results of each instruction.

use cranelift_codegen::ir::{self, BlockArg};
use smallvec::SmallVec;

use super::domain::{Domain, Event, NodeId};
use super::machine::{Flow, Machine};
use super::provenance::{Byte, Prov};
use super::value::TrackedVal;
use crate::error::InstSite;

/// Few instructions have more floats than a vector has lanes.
type Nodes = SmallVec<[NodeId; 8]>;

/// Add the floats that some bytes are of.
fn nodes_of(prov: &Prov, out: &mut Nodes) {
    match prov {
        Prov::Clean => {}
        Prov::Float { node, .. } => out.push(*node),
        Prov::Bytes(bytes) => {
            for b in bytes.iter() {
                if let Byte::Part { node, .. } | Byte::Upper { node, .. } = b
                    && !out.contains(node)
                {
                    out.push(*node);
                }
            }
        }
    }
}

impl<D: Domain> Machine<'_, D> {
    /// Tell the domain of an instruction that was executed, if it had floats among its operands.
    pub(super) fn observe_flow(&mut self, body: &ir::Function, inst: ir::Inst, flow: &Flow, first_new: usize) {
        let (mut operands, mut results) = (Nodes::new(), Nodes::new());
        let dfg = &body.dfg;
        let results_of = |vals: &[TrackedVal], out: &mut Nodes| vals.iter().for_each(|v| nodes_of(&v.prov, out));
        match flow {
            Flow::Next => {}
            Flow::Value(v) => nodes_of(&v.prov, &mut results),
            Flow::Values(vals) => results_of(vals, &mut results),
            Flow::Jump(taken) => {
                for edge in dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
                    let out = if edge == taken { &mut results } else { &mut operands };
                    for arg in edge.args(&dfg.value_lists) {
                        if let BlockArg::Value(v) = arg {
                            nodes_of(&self.get(v).prov, out);
                        }
                    }
                }
            }
            // What goes into a call or out of a function does not end there.
            Flow::Call(..) | Flow::TailCall(..) | Flow::Return(_) => return,
        }
        // A store's operand goes on in memory.
        if !dfg.insts[inst].opcode().can_store() || dfg.insts[inst].opcode().is_call() {
            dfg.inst_args(inst).iter().for_each(|&v| nodes_of(&self.get(v).prov, &mut operands));
        }
        if !operands.is_empty() {
            let site = self.site();
            self.domain.observe(Event::Executed { site, operands: &operands, results: &results, first_new });
        }
    }

    /// Tell the domain of `n <= 16` bytes that are about to be written.
    pub(super) fn observe_write(&mut self, addr: usize, n: usize, new: &Prov) {
        let (mut before, mut after) = (Nodes::new(), Nodes::new());
        nodes_of(&self.marks.load(addr, n), &mut before);
        nodes_of(new, &mut after);
        self.observe_change(&before, &after);
    }

    /// Tell the domain of memory that is about to be overwritten.
    pub(super) fn observe_overwrite(&mut self, addr: usize, n: usize) {
        if D::OBSERVES {
            let mut before = Nodes::new();
            for at in (0..n).step_by(16) {
                nodes_of(&self.marks.load(addr + at, (n - at).min(16)), &mut before);
            }
            self.observe_change(&before, &[]);
        }
    }

    fn observe_change(&mut self, before: &[NodeId], after: &[NodeId]) {
        let site: InstSite = self.site();
        for &n in before.iter().filter(|n| !after.contains(n)) {
            self.domain.observe(Event::Overwritten(n, site));
        }
        for &n in after {
            self.domain.observe(Event::Stored(n, site));
        }
    }
}
