//! The plan of one variant as comments: what each block records, for whom, and how its reverse
//! comes by what it reads.
//!
//! **Question.** Why is a value recorded, and where does a reverse block have another one from?
//!
//! **Answer.** Lines of each block, from the plan's table ([`brolga_transform::plan::table`]) and
//! from the readers of each name:
//!
//! ```text
//! ; Plan: an activation frame of 32 bytes; block numbers of 1 byte.
//! ; block1 runs in a loop, entered from block0, block1: the number on top of the tape tells which
//! ;   pushes v4, its number: 9 bytes each time
//! ;   reads v4 from the record, for inst5
//! ;   reads v0 from frame+16, kept by block0, for inst5
//! ;   computes v7 = iconst.i64 3, for v8
//! ```
//!
//! **Cost.** None, where no text is asked for. For each name that a block reads, a search for its
//! readers, and for a frame slot one through the blocks for its keeper.

use std::fmt::Write;

use brolga_ir::inst::{FrameSlot, Val};
use brolga_ir::lower::FrameHome;
use brolga_ir::map::IndexMap;
use brolga_ir::print::primal_text_as;
use brolga_transform::Stages;
use brolga_transform::plan::remarks::{Reader, readers};
use brolga_transform::plan::table::{PredSource, Source, Supply, type_of};
use cranelift_codegen::ir::{self, Type};

/// The plan as comment lines.
pub(crate) fn comments(s: &Stages<'_>) -> String {
    let mut p = Comments { s, aux: aux_types(s), out: String::new() };
    p.summary();
    for &b in &s.facts.cfg.blocks {
        p.block(b);
    }
    p.out
}

/// Types of what forward fragments produce besides the primal.
fn aux_types(s: &Stages<'_>) -> IndexMap<Val, Type> {
    let fragments = s.stmts.values().flat_map(|stmt| stmt.before.values().chain(stmt.after.values()));
    fragments.flat_map(|i| i.defs.iter().copied()).filter(|d| matches!(d.0, Val::Aux(..))).collect()
}

/// Cranelift repeats constant operands after an instruction.
fn without_comment(text: &str) -> &str {
    text.split("  ;").next().unwrap_or(text)
}

struct Comments<'a, 's> {
    s: &'a Stages<'s>,
    aux: IndexMap<Val, Type>,
    out: String,
}

impl Comments<'_, '_> {
    fn line(&mut self, indent: usize, text: &str) {
        writeln!(self.out, "; {:indent$}{text}", "").expect("writing to a string does not fail");
    }

    fn summary(&mut self) {
        let plan = &self.s.plan;
        let mut frame = match &plan.frame {
            Some(f) => match f.home {
                FrameHome::Tape => format!("an activation frame of {} bytes", f.size),
                FrameHome::Stack => format!("an activation frame of {} bytes on the stack", f.size),
                FrameHome::Variables if f.size == 0 => "an activation frame in variables".to_owned(),
                FrameHome::Variables => {
                    format!("an activation frame in variables, {} bytes of shadows on the stack", f.size)
                }
            },
            None => "no activation frame".to_owned(),
        };
        let numbered = |b: &ir::Block| plan.blocks[*b].push_id || !plan.blocks[*b].keep_ids.is_empty();
        if self.s.facts.cfg.blocks.iter().any(numbered) {
            let plural = if plan.id_bytes == 1 { "" } else { "s" };
            write!(frame, "; block numbers of {} byte{plural}", plan.id_bytes)
                .expect("writing to a string does not fail");
        }
        self.line(0, &format!("Plan: {frame}."));
        for (slot, place) in plan.frame.iter().flat_map(|f| f.slots.iter()).filter_map(|(k, p)| Some((k, (*p)?))) {
            let primal = place.primal.map_or(String::new(), |p| format!(", {slot} itself at {}", FrameSlot(p)));
            self.line(0, &format!("shadow of {slot} at {}{primal}", FrameSlot(place.shadow)));
        }
        if let Some(slot) = plan.exit {
            self.line(0, &format!("{slot} tells which block returned"));
        }
    }

    fn block(&mut self, b: ir::Block) {
        let (facts, plan) = (&self.s.facts, &self.s.plan);
        if !plan.returning.contains(b) {
            self.line(0, &format!("{b} never reaches a return: it records nothing and has no reverse"));
            return;
        }
        let runs = if facts.cfg.is_acyclic(b) { "runs at most once" } else { "runs in a loop" };
        let entered = match plan.preds[b] {
            None if plan.rerun(b).is_some_and(|a| a.by_iteration) => {
                "run again in the reverse half, which reverses iteration by iteration".to_owned()
            }
            None if plan.rerun(b).is_some() => "run again in the reverse half, forwards, with its reverse".to_owned(),
            None => "as the entry".to_owned(),
            Some(PredSource::Unique(p)) => format!("entered from {p} only"),
            Some(PredSource::Frame(slot)) => format!("entered from {}: {slot} tells which", self.preds(b)),
            Some(PredSource::Induction { iv, entry, latch }) => {
                format!("entered from {entry} if {} is {}, else from {latch}", iv.var, iv.start)
            }
            Some(PredSource::Branch { cond, yes, no }) => format!("entered from {yes} if {cond}, else from {no}"),
            Some(PredSource::Table { index, from }) => {
                format!("entered from {}: {index}, the index of the table in {from}, tells which", self.preds(b))
            }
            Some(PredSource::Tape) => {
                format!("entered from {}: the number on top of the tape tells which", self.preds(b))
            }
        };
        self.line(0, &format!("{b} {runs}, {entered}"));
        let block = plan.blocks[b].clone();
        for slot in &block.keep_ids {
            self.line(2, &format!("keeps its number at {slot}"));
        }
        for &(slot, v) in &block.keeps {
            self.line(2, &format!("keeps {v} at {slot}"));
        }
        if !block.record.is_empty() || block.push_id {
            let bytes: u32 = block.record.iter().map(|&v| type_of(facts, &self.aux, v).bytes()).sum();
            let bytes = bytes + if block.push_id { plan.id_bytes } else { 0 };
            let mut what: Vec<String> = block.record.iter().map(ToString::to_string).collect();
            what.extend(block.push_id.then(|| "its number".to_owned()));
            let plural = if bytes == 1 { "" } else { "s" };
            self.line(2, &format!("pushes {}: {bytes} byte{plural} each time", what.join(", ")));
        }
        for &Supply { name: v, source, .. } in &block.sources {
            let how = match source {
                Source::Record => format!("reads {v} from the record"),
                Source::Frame(slot) => format!("reads {v} from {slot}{}", self.keeper(slot, b)),
                Source::Held => format!("has {v} in a variable"),
                Source::Last(last) => {
                    let end = last.far.map_or(format!("{}", last.bound), |op| {
                        format!("{op} of its first value, {}, and {}", last.iv.start, last.bound)
                    });
                    let which = if last.of_next { "its next value would be" } else { "it is" };
                    let which = match last.of {
                        Some(_) => format!("as many steps as {}, where {which}", last.iv.var),
                        None => which.to_owned(),
                    };
                    format!("knows {v} behind its loop: {which} {end}")
                }
                Source::Recompute(inst) => {
                    format!("computes {}", without_comment(&primal_text_as(facts.func(), inst, v)))
                }
            };
            self.line(2, &format!("{how}{}", self.readers(b, v)));
        }
        let remarks = &self.s.remarks;
        remarks.tape_check(b).into_iter().chain(remarks.of_loop(b)).for_each(|text| self.line(2, text));
        for &p in &facts.cfg.preds[b] {
            for hold in plan.holds.get(&(p, b)).into_iter().flatten() {
                let steps = hold.undo.len();
                let undone = if steps == 0 { String::new() } else { format!(", {steps} steps back") };
                self.line(2, &format!("on the way back to {p}, {} is {}{undone}", hold.name, hold.base));
            }
        }
    }

    fn preds(&self, b: ir::Block) -> String {
        self.s.facts.cfg.preds[b].iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// The block that keeps a frame slot, if it is another one.
    fn keeper(&self, slot: FrameSlot, reader: ir::Block) -> String {
        let keeps = |b: ir::Block| self.s.plan.blocks[b].keeps.iter().any(|k| k.0 == slot);
        let keeper = self.s.facts.cfg.blocks.iter().copied().find(|&b| keeps(b));
        keeper.filter(|&k| k != reader).map_or(String::new(), |k| format!(", kept by {k}"))
    }

    /// Why a block's reverse reads a name: the statements whose reverse does, or what is made of
    /// it.
    fn readers(&self, b: ir::Block, v: Val) -> String {
        let text = |reader| match reader {
            Reader::Reverse(inst) => inst.to_string(),
            Reader::Computes(w) => w.to_string(),
            Reader::Holds(w, _) => format!("holding {w}"),
            Reader::Way => "the way back".to_owned(),
            Reader::Rerun(header) => format!("the loop of {header}"),
        };
        let mut all: Vec<String> =
            readers(&self.s.facts, &self.s.stmts, &self.s.plan, b, v).into_iter().map(text).collect();
        all.dedup();
        if all.is_empty() { String::new() } else { format!(", for {}", all.join(", ")) }
    }
}
