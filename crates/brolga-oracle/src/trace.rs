//! Trace: a run that explains its gradient, by the tape, its cotangents, and where floats ended.
//!
//! **Problem.** A gradient of zero, or one that is not finite, is a fact about one path through the
//! program. The graph of the run knows the whole story: what used the input, with which slope, and
//! what became of that.
//!
//! **Answer.** A [`Trace`] is a [`Tape`] with one more list: for each float the instructions at
//! which a use of it ended without passing a derivative on. Three questions are answered from it:
//!
//! ```text
//! why zero       from the float along its uses, as long as the cotangent is exactly zero; wherever
//!                that stops, there is a reason: a slope of zero, a seed of zero, terms that
//!                cancel, or a use that ended
//! not finite     the last node of the tape (the first of the pullback) with such a cotangent, and
//!                the way there
//! contributions  the terms `cotangent · slope`, added up by instruction
//! ```
//!
//! The [`Recorder`] is the domain that makes both in one run. A branch that went another way is
//! found in the program: the blocks that were not entered, and the first use of the float in them.
//!
//! **Invariant.**
//! - The tape is that of [`crate::tape`]; observing changes no value, slope or cotangent.
//! - Reasons are in the order of the run, each instruction and kind once.
//!
//! **Cost.** Beside the tape, a list for each float whose use ended, the last store of each that
//! was stored, and a count for each block. Why a cotangent is zero costs a walk over the users that
//! have a zero too.

use std::collections::HashMap;

use brolga_ir::{FuncKey, Program};
use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::{EntityRef, EntitySet, SecondaryMap};
use smallvec::SmallVec;

use crate::error::InstSite;
use crate::interp::{Domain, Event, NodeId};
use crate::tape::{Tape, turns_back};

/// What a float is to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Port {
    /// Lane `.1` of argument `.0`.
    Lane(usize, usize),
    /// Element `.1` of the buffer of argument `.0`.
    Element(usize, usize),
    /// Lane `.1` of result `.0`.
    Result(usize, usize),
}

/// How a use of a float ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Rounded to an integral number, or converted to an integer.
    Rounded,
    /// Another operand was chosen: by a select, a minimum or maximum, or a branch.
    NotChosen,
    /// Only looked at by a comparison.
    Compared,
    /// Its bits went where their mantissa does not count, or nothing is differentiable there (a
    /// sign, a kink).
    LocallyConstant,
    /// Overwritten in memory.
    Overwritten,
    /// Put into memory, from where nothing that counts was read.
    StoredOnly,
    /// Never used by anything that was executed.
    Unused,
}

/// Why a cotangent is exactly zero.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// A use ended at `at` (`None`: there was none).
    Ended {
        /// How.
        how: End,
        /// Where.
        at: Option<InstSite>,
    },
    /// Multiplied by a slope of zero at this instruction, whose own cotangent is the second.
    ZeroSlope(InstSite, f64),
    /// `cotangent · slope` is too small for a number, at this instruction.
    Underflow(InstSite),
    /// The terms add up to zero; the instructions with their terms.
    Cancelled(Vec<(InstSite, f64)>),
    /// It is a result, or the final contents of a buffer, whose seed is zero.
    ZeroSeed(Port),
    /// A branch went another way: it never went to a block that would have used it, at the second
    /// place.
    NotReached {
        /// The branch.
        branch: InstSite,
        /// The first use in what it leads to.
        usage: InstSite,
    },
}

/// A node on the way from a cotangent to where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The instruction; `None` for an input.
    pub site: Option<InstSite>,
    /// What it computed.
    pub value: f64,
    /// Its cotangent.
    pub cotangent: f64,
    /// The slope by which its cotangent reached the step before, and what that gave; absent in the
    /// first step.
    pub passed: Option<(f64, f64)>,
}

/// Terms of cotangents, added up by instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Contribution {
    /// The instruction.
    pub site: InstSite,
    /// How many terms.
    pub count: usize,
    /// Their sum.
    pub sum: f64,
    /// The largest magnitude; NaN counts as largest.
    pub largest: f64,
}

/// The recording domain. See the module documentation.
#[derive(Default)]
pub struct Recorder {
    /// The graph.
    pub tape: Tape<f64>,
    /// Uses that ended at an instruction, in order.
    ended: HashMap<NodeId, Vec<InstSite>>,
    /// Last store of each float, and what overwrote it first.
    stored: HashMap<NodeId, InstSite>,
    overwritten: HashMap<NodeId, InstSite>,
    visits: HashMap<(FuncKey, ir::Block), u64>,
}

impl Domain for Recorder {
    type Num = f64;
    const TRACKS: bool = true;
    const OBSERVES: bool = true;

    fn value(&self, node: NodeId) -> f64 {
        self.tape.value(node)
    }

    fn float(&mut self, value: f64, prev: &[(NodeId, f64)], site: InstSite) -> NodeId {
        self.tape.float(value, prev, site)
    }

    fn root(&mut self, node: NodeId) {
        self.tape.root(node);
    }

    fn steps(&mut self, node: NodeId, last_places: f64) {
        self.tape.steps(node, last_places);
    }

    fn untracked(&mut self, value: f64, origin: InstSite) -> NodeId {
        self.tape.untracked(value, origin)
    }

    fn n_nodes(&self) -> usize {
        self.tape.n_nodes()
    }

    fn observe(&mut self, event: Event<'_>) {
        match event {
            Event::Executed { site, operands, results, first_new } => {
                let new = (first_new..self.tape.n_nodes()).map(NodeId::new);
                let taken: SmallVec<[NodeId; 8]> =
                    new.flat_map(|n| self.tape.prev(n).iter().map(|e| e.0)).chain(results.iter().copied()).collect();
                for n in operands.iter().filter(|n| !taken.contains(n)) {
                    let sites = self.ended.entry(*n).or_default();
                    if !sites.contains(&site) {
                        sites.push(site);
                    }
                }
            }
            Event::Stored(n, site) => {
                self.stored.insert(n, site);
            }
            Event::Overwritten(n, site) => {
                self.overwritten.entry(n).or_insert(site);
            }
            Event::Entered(func, block) => *self.visits.entry((func, block)).or_default() += 1,
        }
    }
}

/// A run with its gradient and the reasons for it.
pub struct Trace<'p> {
    pub(crate) program: &'p Program,
    pub(crate) recorder: Recorder,
    pub(crate) grad: SecondaryMap<NodeId, f64>,
    /// What roots are made of.
    pub(crate) under_roots: EntitySet<NodeId>,
    /// Inputs.
    pub(crate) leaves: Vec<(Port, NodeId)>,
    /// What each node is to the caller at the end, where that has a seed of zero.
    pub(crate) unseeded: HashMap<NodeId, Vec<Port>>,
    /// Users of each node, with slopes, in order.
    pub(crate) users: SecondaryMap<NodeId, Vec<(NodeId, f64)>>,
    pub(crate) func: FuncKey,
}

impl Trace<'_> {
    /// The inputs: active lanes, and elements of buffers with a shadow.
    pub fn inputs(&self) -> &[(Port, NodeId)] {
        &self.leaves
    }

    /// The value of a node.
    pub fn value(&self, n: NodeId) -> f64 {
        self.recorder.tape.node(n).value
    }

    /// The cotangent of a node; of an input, its gradient.
    pub fn cotangent(&self, n: NodeId) -> f64 {
        self.grad[n]
    }

    /// How often a block was entered.
    pub fn visits(&self, func: FuncKey, block: ir::Block) -> u64 {
        self.recorder.visits.get(&(func, block)).copied().unwrap_or(0)
    }

    /// Floats recorded.
    pub fn n_nodes(&self) -> usize {
        self.recorder.tape.n_nodes()
    }

    /// What a node passes on to an operand.
    fn term(&self, user: NodeId, slope: f64) -> f64 {
        let ct = self.grad[user];
        if self.under_roots.contains(user) && turns_back(ct, slope) { 0.0 } else { ct * slope }
    }

    fn site(&self, n: NodeId) -> Option<InstSite> {
        self.recorder.tape.node(n).site
    }

    /// Why the cotangent of `n` is zero; nothing if it is not.
    pub fn why_zero(&self, n: NodeId) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = Vec::new();
        let mut seen = EntitySet::new();
        let mut todo = vec![n];
        while let Some(n) = todo.pop() {
            if self.grad[n] != 0.0 || self.grad[n].is_nan() || !seen.insert(n) {
                continue;
            }
            for reason in self.reasons_at(n) {
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
            todo.extend(self.users[n].iter().rev().filter(|u| self.grad[u.0] == 0.0).map(|u| u.0));
        }
        // A comparison beside which there is another reason is not one.
        let compared = |r: &Reason| matches!(r, Reason::Ended { how: End::Compared, .. });
        if !reasons.iter().all(compared) {
            reasons.retain(|r| !compared(r));
        }
        reasons
    }

    /// Reasons that lie at the node itself, not at its users.
    fn reasons_at(&self, n: NodeId) -> Vec<Reason> {
        let mut out: Vec<Reason> = Vec::new();
        out.extend(self.unseeded.get(&n).into_iter().flatten().map(|&port| Reason::ZeroSeed(port)));
        let mut terms = Vec::new();
        for &(user, slope) in &self.users[n] {
            let (ct, Some(site)) = (self.grad[user], self.site(user)) else { continue };
            if ct == 0.0 {
                continue;
            }
            if slope == 0.0 {
                out.push(Reason::ZeroSlope(site, ct));
            } else if ct * slope == 0.0 {
                out.push(Reason::Underflow(site));
            } else {
                terms.push((site, ct * slope));
            }
        }
        if !terms.is_empty() {
            out.push(Reason::Cancelled(terms));
        }
        let ended = self.recorder.ended.get(&n);
        for &site in ended.into_iter().flatten() {
            out.push(Reason::Ended { how: self.how(site), at: Some(site) });
        }
        let only_compared =
            out.iter().all(|r| matches!(r, Reason::Ended { how: End::Compared, .. })) && self.users[n].is_empty();
        if only_compared {
            let missed = self.missed(n);
            if !missed.is_empty() {
                out.extend(missed);
            } else if let Some(&site) = self.recorder.overwritten.get(&n) {
                out.push(Reason::Ended { how: End::Overwritten, at: Some(site) });
            } else if let Some(&site) = self.recorder.stored.get(&n) {
                out.push(Reason::Ended { how: End::StoredOnly, at: Some(site) });
            } else if out.is_empty() {
                out.push(Reason::Ended { how: End::Unused, at: self.site(n) });
            }
        }
        out
    }

    /// How a use ended, by what the instruction is.
    fn how(&self, site: InstSite) -> End {
        let Some(body) = &self.program.funcs[site.func].body else { return End::Unused };
        let data = &body.dfg.insts[site.inst];
        match data.opcode() {
            Opcode::Ceil | Opcode::Floor | Opcode::Trunc | Opcode::Nearest => End::Rounded,
            Opcode::FcvtToSint
            | Opcode::FcvtToUint
            | Opcode::FcvtToSintSat
            | Opcode::FcvtToUintSat
            | Opcode::X86Cvtt2dq => End::Rounded,
            Opcode::Fcmp | Opcode::Icmp => End::Compared,
            Opcode::Select
            | Opcode::SelectSpectreGuard
            | Opcode::Bitselect
            | Opcode::Blendv
            | Opcode::Fmin
            | Opcode::Fmax
            | Opcode::Brif
            | Opcode::BrTable => End::NotChosen,
            Opcode::Call => match self.callee(body, site.inst).trim_end_matches('f') {
                "fmin" | "fmax" | "fdim" => End::NotChosen,
                "floor" | "ceil" | "round" | "roundeven" | "trunc" | "rint" | "nearbyint" => End::Rounded,
                _ => End::LocallyConstant,
            },
            _ => End::LocallyConstant,
        }
    }

    fn callee(&self, body: &ir::Function, inst: ir::Inst) -> String {
        match body.dfg.insts[inst] {
            ir::InstructionData::Call { func_ref, .. } => {
                brolga_ir::program::symbol_of(body, &body.dfg.ext_funcs[func_ref].name)
            }
            _ => String::new(),
        }
    }

    /// Uses of a float in blocks that were not entered, with the branches that did not go there.
    fn missed(&self, n: NodeId) -> Vec<Reason> {
        let port = self.leaves.iter().find(|l| l.1 == n).map(|l| l.0);
        let func = self.site(n).map_or(self.func, |s| s.func);
        let Some(body) = &self.program.funcs[func].body else { return Vec::new() };
        let Some(entry) = body.layout.entry_block() else { return Vec::new() };
        let value = match (port, self.site(n)) {
            (Some(Port::Lane(arg, _)), _) => body.dfg.block_params(entry).get(arg).copied(),
            (_, Some(site)) => body.dfg.inst_results(site.inst).first().copied(),
            _ => None,
        };
        let uses = |inst: ir::Inst| {
            let op = body.dfg.insts[inst].opcode();
            let args = body.dfg.inst_values(inst);
            match value {
                Some(v) => args.map(|a| body.dfg.resolve_aliases(a)).any(|a| a == v),
                // Of a buffer we cannot tell without running: any load may be the one.
                None => op.can_load() && !op.is_call(),
            }
        };
        let mut out = Vec::new();
        for block in body.layout.blocks().filter(|&b| self.visits(func, b) > 0) {
            let Some(branch) = body.layout.last_inst(block) else { continue };
            for edge in body.dfg.insts[branch].branch_destination(&body.dfg.jump_tables, &body.dfg.exception_tables) {
                if let Some(inst) = self.first_use(func, body, edge.block(&body.dfg.value_lists), &uses) {
                    let at = |inst| InstSite { func, inst };
                    let reason = Reason::NotReached { branch: at(branch), usage: at(inst) };
                    if !out.contains(&reason) {
                        out.push(reason);
                    }
                }
            }
        }
        out
    }

    /// The first use in the blocks that were not entered and can be reached from `from` through
    /// such blocks only.
    fn first_use(
        &self,
        func: FuncKey,
        body: &ir::Function,
        from: ir::Block,
        uses: &dyn Fn(ir::Inst) -> bool,
    ) -> Option<ir::Inst> {
        let mut seen = EntitySet::new();
        let mut todo = vec![from];
        while let Some(block) = todo.pop() {
            if self.visits(func, block) > 0 || !seen.insert(block) {
                continue;
            }
            for inst in body.layout.block_insts(block) {
                if uses(inst) {
                    return Some(inst);
                }
                let data = &body.dfg.insts[inst];
                let edges = data.branch_destination(&body.dfg.jump_tables, &body.dfg.exception_tables);
                todo.extend(edges.iter().map(|e| e.block(&body.dfg.value_lists)));
            }
        }
        None
    }

    /// The first node of the pullback whose cotangent is not finite, and the way its cotangent
    /// came: from the result on.
    pub fn first_non_finite(&self) -> Option<Vec<Step>> {
        let nodes = (0..self.n_nodes()).rev().map(NodeId::new);
        let first = nodes.into_iter().find(|&n| !self.grad[n].is_finite())?;
        Some(self.way_to(first))
    }

    /// The first node of the run whose value is not finite.
    pub fn first_non_finite_value(&self) -> Option<(Option<InstSite>, f64)> {
        let mut nodes = (0..self.n_nodes()).map(NodeId::new);
        let n = nodes.find(|&n| !self.value(n).is_finite())?;
        Some((self.site(n), self.value(n)))
    }

    /// The way of the largest term of a node's cotangent, back to a result.
    fn way_to(&self, n: NodeId) -> Vec<Step> {
        let step =
            |n: NodeId, passed| Step { site: self.site(n), value: self.value(n), cotangent: self.grad[n], passed };
        let mut way = vec![step(n, None)];
        let mut at = n;
        loop {
            let size = |t: f64| if t.is_nan() { f64::INFINITY } else { t.abs() };
            let terms = self.users[at].iter().filter(|u| self.grad[u.0] != 0.0);
            let terms = terms.map(|&(u, slope)| (u, slope, self.term(u, slope)));
            let Some((user, slope, term)) = terms.reduce(|a, b| if size(b.2) > size(a.2) { b } else { a }) else {
                break;
            };
            way.push(step(user, Some((slope, term))));
            at = user;
        }
        way.reverse();
        way
    }

    /// Terms `cotangent · slope` by instruction, the largest first: all of the pullback, or those
    /// of one float, which add up to its cotangent (less its seed).
    pub fn contributions(&self, of: Option<NodeId>) -> Vec<Contribution> {
        let mut order: Vec<Contribution> = Vec::new();
        let mut known: HashMap<InstSite, usize> = HashMap::new();
        let mut add = |site: InstSite, term: f64| {
            let i = *known.entry(site).or_insert(order.len());
            if i == order.len() {
                order.push(Contribution { site, count: 0, sum: 0.0, largest: 0.0 });
            }
            let c = &mut order[i];
            c.count += 1;
            c.sum += term;
            c.largest = if term.is_nan() || term.abs() > c.largest { term.abs() } else { c.largest };
        };
        let targets: Vec<NodeId> = of.map_or_else(|| (0..self.n_nodes()).map(NodeId::new).collect(), |n| vec![n]);
        for n in targets {
            for &(user, slope) in &self.users[n] {
                if let Some(site) = self.site(user)
                    && self.grad[user] != 0.0
                {
                    add(site, self.term(user, slope));
                }
            }
        }
        let key = |c: &Contribution| if c.largest.is_nan() { f64::INFINITY } else { c.largest };
        order.sort_by(|a, b| key(b).total_cmp(&key(a)));
        order
    }
}
