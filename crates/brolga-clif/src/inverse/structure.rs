//! Control flow as a structure: straight pieces, loops, branches.
//!
//! **Question.** In which order do the pieces of a function run, whatever it is given?
//!
//! **Answer.** Blocks are walked from the entry. A loop has one latch and one way out, from its
//! header or from its latch, or it stores nothing and has one way out; branches meet again. What is
//! not so is refused.
//!
//! **Cost.** One walk over the blocks, and for each branch one over what both of its ways reach.
//!
//! **Source.** Structural analysis: Sharir (1980).

use std::cell::RefCell;

use cranelift_codegen::ir::{Block, Inst, InstructionData, Opcode, Value};
use cranelift_codegen::loop_analysis::Loop;
use cranelift_entity::EntitySet;

use super::view::{Undoable, UndoneCall, View, refused};
use crate::shape::FlowInfo;

/// A piece of a function.
#[derive(Debug)]
pub(super) enum UndoPart {
    /// Instructions, none of which ends a block.
    Straight(Vec<Inst>),
    /// A loop.
    Loop(UndoLoop),
    /// A loop that stores nothing.
    Pure(PureLoop),
    /// A call of a function that changes states, and the symbol of what undoes it.
    Call(Inst, String),
    /// A branch: what decides, and both ways.
    Choice { by: Value, at: Inst, then: Vec<UndoPart>, other: Vec<UndoPart> },
}

/// A loop.
#[derive(Debug)]
pub(super) struct UndoLoop {
    pub header: Block,
    /// What its parameters are at first, and next.
    pub init: Vec<Value>,
    pub next: Vec<Value>,
    /// The branch that leaves it, by what, and whether that is so if it goes on.
    pub at: Inst,
    pub by: Value,
    pub goes_on_if: bool,
    /// Whether it is left before an iteration, or after it.
    pub before: bool,
    /// So many pieces come before where it is left, and so once more.
    pub head: usize,
    pub body: Vec<UndoPart>,
}

/// A loop that stores nothing, left by one branch: it is run again where its values are needed.
#[derive(Debug)]
pub(super) struct PureLoop {
    pub header: Block,
    /// Its blocks, each after those that dominate it.
    pub blocks: Vec<Block>,
    /// What the parameters of its header are at first.
    pub init: Vec<Value>,
    /// Where it goes when it is left.
    pub exit: Block,
}

const GOTO: &str = "write an inverse by hand, or loops with one way out and branches that meet again";

/// The pieces of a function.
pub(super) fn parts(view: &View<'_>) -> Undoable<Vec<UndoPart>> {
    let shape = FlowInfo::of(view.func);
    UndoWalk { view, shape: &shape, seen: RefCell::default() }.parts(view.entry, Stop::default())
}

struct UndoWalk<'w, 'f> {
    view: &'w View<'f>,
    shape: &'w FlowInfo,
    /// The blocks of pieces.
    seen: RefCell<EntitySet<Block>>,
}

/// Where a piece is over.
#[derive(Clone, Copy, Default)]
struct Stop {
    /// Before this block.
    before: Option<Block>,
    /// At the branch of this one.
    at: Option<Block>,
    /// The header of the loop that it is the body of.
    within: Option<Block>,
}

impl UndoWalk<'_, '_> {
    fn terminator(&self, block: Block) -> Inst {
        self.view.func.layout.last_inst(block).expect("it has a terminator")
    }

    fn parts(&self, mut block: Block, stop: Stop) -> Undoable<Vec<UndoPart>> {
        let mut found = Vec::new();
        loop {
            if stop.before == Some(block) {
                return Ok(found);
            }
            if stop.within != Some(block)
                && let Some(lp) = self.header(block)
            {
                if let Some(part) = self.pure(lp) {
                    block = part.exit;
                    found.push(UndoPart::Pure(part));
                    continue;
                }
                let (part, next) = self.repeated(lp)?;
                found.push(UndoPart::Loop(part));
                block = next;
                continue;
            }
            let last = self.terminator(block);
            self.straight(block, last, &mut found)?;
            if stop.at == Some(block) {
                return Ok(found);
            }
            let targets = self.view.targets(last);
            match (self.view.func.dfg.insts[last].opcode(), &targets[..]) {
                (Opcode::Return, _) if stop.before.is_none() && stop.at.is_none() => return Ok(found),
                (Opcode::Jump, [(to, _)]) => block = *to,
                (Opcode::Brif, [(then, _), (other, _)]) => {
                    let Some(join) = self.join(*then, *other) else {
                        return refused(last, "the ways of the branch do not meet again", GOTO);
                    };
                    let by = self.view.resolved(self.view.func.dfg.inst_args(last)[0]);
                    let until = Stop { before: Some(join), ..stop };
                    let (then, other) = (self.parts(*then, until)?, self.parts(*other, until)?);
                    found.push(UndoPart::Choice { by, at: last, then, other });
                    block = join;
                }
                _ => return refused(last, "control flow goes on by no loop or branch", GOTO),
            }
        }
    }

    /// The instructions of a block, of which calls that change states are pieces by themselves.
    fn straight(&self, block: Block, last: Inst, found: &mut Vec<UndoPart>) -> Undoable<()> {
        if !self.seen.borrow_mut().insert(block) {
            return refused(last, "several branches lead to it, none of which decides alone", GOTO);
        }
        let mut pending = Vec::new();
        for inst in self.view.func.layout.block_insts(block).filter(|&i| i != last) {
            match self.view.called(inst) {
                Some(UndoneCall::Changes { undo, .. }) => {
                    found.push(UndoPart::Straight(std::mem::take(&mut pending)));
                    found.push(UndoPart::Call(inst, undo));
                }
                _ => pending.push(inst),
            }
        }
        found.push(UndoPart::Straight(pending));
        Ok(())
    }

    fn header(&self, block: Block) -> Option<Loop> {
        let lp = self.shape.loops.innermost_loop(block)?;
        (self.shape.loops.loop_header(lp) == block).then_some(lp)
    }

    /// The first block that all ways from both lead through, but for those round a loop.
    fn join(&self, a: Block, b: Block) -> Option<Block> {
        // Without passing a block, if one is given; whether the function or an iteration may end.
        let reached = |from: Block, without: Option<Block>| {
            let (mut seen, mut next, mut ends) = (vec![], vec![from], false);
            while let Some(block) = next.pop().filter(|&b| Some(b) != without) {
                if seen.contains(&block) {
                    continue;
                }
                seen.push(block);
                // Not round a loop that both are in.
                let goes_back = |to: Block| to != from && self.shape.domtree.block_dominates(to, from);
                ends |= self.shape.cfg.succ_iter(block).next().is_none();
                ends |= self.shape.cfg.succ_iter(block).any(goes_back);
                next.extend(self.shape.cfg.succ_iter(block).filter(|&to| !goes_back(to)));
            }
            (seen, ends)
        };
        let both = [a, b].map(|from| reached(from, None).0);
        let ways = |block: Block| [a, b].iter().all(|&from| !reached(from, Some(block)).1);
        let mut order = self.shape.domtree.cfg_rpo().copied();
        order.find(|block| both.iter().all(|seen| seen.contains(block)) && ways(*block))
    }

    /// A loop that stores nothing, if it is one that goes on by jumps and branches of two ways.
    fn pure(&self, lp: Loop) -> Option<PureLoop> {
        let (view, loops) = (self.view, &self.shape.loops);
        let header = loops.loop_header(lp);
        let blocks: Vec<Block> = self.shape.domtree.cfg_rpo().copied().filter(|&b| loops.is_in_loop(b, lp)).collect();
        let (mut init, mut exits) = (Vec::new(), Vec::new());
        for &block in &blocks {
            let dfg = &view.func.dfg;
            if view.func.layout.block_insts(block).any(|i| !view.states_stored(i).is_empty()) {
                return None;
            }
            let last = self.terminator(block);
            if !matches!(dfg.insts[last].opcode(), Opcode::Jump | Opcode::Brif) {
                return None;
            }
            exits.extend(view.targets(last).into_iter().map(|t| t.0).filter(|&b| !loops.is_in_loop(b, lp)));
        }
        for pred in self.shape.cfg.pred_iter(header).filter(|p| !loops.is_in_loop(p.block, lp)) {
            init.extend(view.targets(pred.inst).into_iter().filter(|t| t.0 == header).map(|t| t.1));
        }
        let (1, &[exit]) = (init.len(), &exits[..]) else { return None };
        Some(PureLoop { header, blocks, init: init.pop()?, exit })
    }

    /// A loop, and the block after it.
    fn repeated(&self, lp: Loop) -> Undoable<(UndoLoop, Block)> {
        let (view, loops) = (self.view, &self.shape.loops);
        let header = loops.loop_header(lp);
        let blocks = || view.func.layout.blocks().filter(|&b| loops.is_in_loop(b, lp));
        let (mut latches, mut entries) = (vec![], vec![]);
        for pred in self.shape.cfg.pred_iter(header) {
            if loops.is_in_loop(pred.block, lp) { latches.push(pred) } else { entries.push(pred) }
        }
        let mut exits = vec![];
        for block in blocks() {
            let outside = self.view.targets(self.terminator(block)).into_iter().filter(|t| !loops.is_in_loop(t.0, lp));
            exits.extend(outside.map(|t| (block, t.0)));
        }
        let head = self.terminator(header);
        let ([latch], [entry], [(from, to)]) = (&latches[..], &entries[..], &exits[..]) else {
            return refused(head, "a loop has several latches, entries or ways out", GOTO);
        };
        let at = self.terminator(*from);
        let InstructionData::Brif { arg, .. } = view.func.dfg.insts[at] else {
            return refused(at, "a loop is left by no branch of two ways", GOTO);
        };
        let before = *from == header && latch.block != header;
        if !before && *from != latch.block {
            return refused(at, "a loop is left within an iteration", GOTO);
        }
        let given = |inst: Inst| {
            let to_header = self.view.targets(inst).into_iter().filter(|t| t.0 == header).map(|t| t.1);
            to_header.collect::<Vec<_>>()
        };
        let (init, next) = (given(entry.inst), given(latch.inst));
        let ([init], [next]) = (&init[..], &next[..]) else {
            return refused(head, "a loop has several latches, entries or ways out", GOTO);
        };
        let goes_on = self.view.targets(at).iter().position(|t| loops.is_in_loop(t.0, lp));
        let within = Stop { within: Some(header), ..Stop::default() };
        let mut head_parts = 0;
        let body = if before {
            let first = self.view.targets(head).into_iter().find(|t| loops.is_in_loop(t.0, lp)).expect("it goes on").0;
            let mut body = Vec::new();
            self.straight(header, head, &mut body)?;
            head_parts = body.len();
            body.extend(self.parts(first, Stop { before: Some(header), ..within })?);
            body
        } else {
            self.parts(header, Stop { at: Some(latch.block), ..within })?
        };
        let by = view.resolved(arg);
        let (init, next, goes_on_if) = (init.clone(), next.clone(), goes_on == Some(0));
        Ok((UndoLoop { header, init, next, at, by, goes_on_if, before, head: head_parts, body }, *to))
    }
}
