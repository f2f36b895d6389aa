//! Recording plan of a derivation, for people: what each block records for its reverse, for whom,
//! and how many bytes that was in a run.
//!
//! **Question.** What does the forward pass record, and why not less?
//!
//! **Answer.** [`plans`] derives the request and reads that off the derivation's own plan: for each
//! block what it keeps in the frame, pushes on the tape, holds, knows and computes again, each with
//! the reverses that read it and the reason ([`RecordedValue`]). Of a task of a fork it says where
//! cotangents are added ([`Sums`]). Values, instructions and blocks are those of the file, not of
//! the normalised function (the module `names`).
//!
//! **Cost.** One derivation, without compilation. For each recorded value a search for its readers.

use brolga::{Error, FuncKey, Options, Program, Request};
use brolga_ir::inst::Val;
use brolga_ir::map::IndexMap;
use brolga_transform::plan::remarks::{Reader, TaskAccesses, TaskSums, readers, reason, task_accesses};
use brolga_transform::plan::table::{Source, Supply, Way, type_of};
use brolga_transform::{Stages, derive_with};
use cranelift_codegen::ir::{self, Type};

use super::names::Names;
use brolga_ir::panics;

/// One derived function.
#[derive(Clone, Debug)]
pub struct FunctionPlan {
    /// Its symbol.
    pub function: String,
    /// Bytes of an activation frame, 0 if there is none.
    pub frame_bytes: u32,
    /// Its blocks that can return.
    pub blocks: Vec<PlannedBlock>,
    /// Where the cotangents of its accesses go, if it is a task of a fork, or is called by one.
    pub sums: Vec<Sums>,
}

/// Where a pullback of a task adds the cotangents of accesses by one pointer.
#[derive(Clone, Debug)]
pub struct Sums {
    /// The pointer.
    pub pointer: String,
    /// Where.
    pub sums: TaskSums,
    /// The accesses.
    pub accesses: Vec<String>,
    /// Why there.
    pub why: &'static str,
}

/// One block.
#[derive(Clone, Debug)]
pub struct PlannedBlock {
    /// Its name, in the function in which it was written.
    pub block: String,
    /// That function, if it was put in here instead of a call.
    pub inlined: Option<String>,
    /// Line of its first instruction, 0 where unknown.
    pub line: u32,
    /// How often the run entered it; of a block that is `inlined`, by all calls of its function.
    pub times: u64,
    /// What it keeps in the activation frame, once per call.
    pub keeps: Vec<RecordedValue>,
    /// What it pushes on the tape, each time.
    pub pushes: Vec<RecordedValue>,
    /// Bytes of its own number that it pushes, because its successors must know where they come
    /// from.
    pub number_bytes: u32,
    /// What its reverse has in a variable, set by the reverse of a block after it.
    pub holds: Vec<RecordedValue>,
    /// What its reverse knows without a record: after a loop, what counted its iterations.
    pub knows: Vec<RecordedValue>,
    /// What its reverse computes again instead.
    pub recomputes: Vec<RecordedValue>,
    /// Whether it belongs to a loop that runs in the reverse half, forwards, and records nothing
    /// for another run.
    pub rerun: bool,
    /// Of the loop of which it is the header: whether several iterations of it, or of its reverse,
    /// are run at a time, or why not. Empty if that is out of the question.
    pub lanes: Vec<String>,
    /// Of such a loop, if it records: whether it asks once if there is room on the tape, or why
    /// not.
    pub room: Option<String>,
}

impl PlannedBlock {
    /// Bytes that one execution pushes.
    pub fn bytes_each(&self) -> u64 {
        u64::from(self.pushes.iter().map(|r| r.bytes).sum::<u32>() + self.number_bytes)
    }
}

/// A value that the pullback needs.
#[derive(Clone, Debug)]
pub struct RecordedValue {
    /// What it is.
    pub what: String,
    /// Its size.
    pub bytes: u32,
    /// Whose reverse reads it.
    pub readers: Vec<String>,
    /// Why this way was taken, and no cheaper one.
    pub why: &'static str,
}

/// The plan of everything that a request derives.
///
/// # Errors
/// As for [`brolga::DerivedRule::new`].
pub fn plans(
    program: &Program,
    request: &Request,
    options: &Options,
    visits: &dyn Fn(FuncKey, ir::Block) -> u64,
) -> Result<Vec<FunctionPlan>, Error> {
    let isa = brolga::jit::host_isa(options)?;
    let derive = || {
        let mut out = Vec::new();
        derive_with(program, request, options, &*isa, |s| {
            out.push(Describe { s, names: Names::of(s), visits }.function())
        })?;
        Ok(out)
    };
    panics::catch(derive).unwrap_or_else(|message| Err(Error::Internal { stage: "derive", message }))
}

struct Describe<'a, 's> {
    s: &'a Stages<'s>,
    names: Names<'a>,
    visits: &'a dyn Fn(FuncKey, ir::Block) -> u64,
}

impl Describe<'_, '_> {
    fn function(&self) -> FunctionPlan {
        let (facts, plan) = (&self.s.facts, &self.s.plan);
        let fragments = self.s.stmts.values().flat_map(|stmt| stmt.before.values().chain(stmt.after.values()));
        let aux: IndexMap<Val, Type> =
            fragments.flat_map(|i| i.defs.iter().copied()).filter(|d| matches!(d.0, Val::Aux(..))).collect();
        let blocks = facts.cfg.blocks.iter().filter(|b| plan.returning.contains(**b));
        FunctionPlan {
            function: facts.program.funcs[facts.variant.func].symbol.clone(),
            frame_bytes: plan.frame.as_ref().map_or(0, |f| f.size),
            blocks: blocks.map(|&b| self.block(b, &aux)).collect(),
            sums: self.sums(),
        }
    }

    /// By pointer, where the cotangents of accesses go.
    fn sums(&self) -> Vec<Sums> {
        let sums = |TaskAccesses { pointer, sums, accesses }| {
            let why = match sums {
                TaskSums::Shadow => "it is a stack slot of the function, which no other task has",
                TaskSums::Apart => "the run knows which bytes each task touches there, and compares them",
                TaskSums::Pending => {
                    "another task may add there at the same time, unless the run finds that this one owns the memory"
                }
            };
            let accesses = accesses.into_iter().map(|inst| self.names.inst(inst)).collect();
            Sums { pointer: self.names.value(pointer), sums, accesses, why }
        };
        task_accesses(&self.s.facts, &self.s.plan, &self.s.pullback).into_iter().map(sums).collect()
    }

    fn block(&self, b: ir::Block, aux: &IndexMap<Val, Type>) -> PlannedBlock {
        let (facts, plan) = (&self.s.facts, &self.s.plan);
        let written = self.names.written(b);
        let times = written.map_or(0, |w| (self.visits)(w.func, w.block));
        let bytes = |v| type_of(facts, aux, v).bytes();
        let p = &plan.blocks[b];
        let keeps = p.keeps.iter().map(|&(slot, v)| {
            let read = |&r: &ir::Block| {
                let found = plan.blocks[r].sources.iter().find(|s| s.name == v && s.source == Source::Frame(slot));
                found.map(|supply| (r, supply))
            };
            let all: Vec<_> = facts.cfg.blocks.iter().filter_map(read).collect();
            let readers = all.iter().flat_map(|&(r, _)| self.readers(r, v)).collect();
            let none = Supply { name: v, source: Source::Frame(slot), way: Way::Frame };
            let why = reason(facts, plan, all.first().map_or(&none, |(_, supply)| supply));
            RecordedValue { what: self.what(v), bytes: bytes(v), readers, why }
        });
        let list = |wanted: fn(&Source) -> bool, size: &dyn Fn(Val) -> u32| -> Vec<RecordedValue> {
            let sources = p.sources.iter().filter(|s| wanted(&s.source));
            let recorded = |supply: &Supply| RecordedValue {
                what: self.what(supply.name),
                bytes: size(supply.name),
                readers: self.readers(b, supply.name),
                why: reason(facts, plan, supply),
            };
            sources.map(recorded).collect()
        };
        PlannedBlock {
            block: written.map_or_else(|| self.names.block(b), |w| w.block.to_string()),
            inlined: written.filter(|w| w.inlined).map(|w| facts.program.funcs[w.func].symbol.clone()),
            line: written.map_or(0, |w| facts.program.funcs[w.func].lines[w.first]),
            times,
            keeps: keeps.collect(),
            pushes: list(|s| *s == Source::Record, &bytes),
            number_bytes: if p.push_id { plan.id_bytes } else { 0 },
            holds: list(|s| *s == Source::Held, &|_| 0),
            knows: list(|s| matches!(s, Source::Last(_)), &|_| 0),
            recomputes: list(|s| matches!(s, Source::Recompute(_)), &|_| 0),
            rerun: plan.rerun(b).is_some(),
            lanes: self.s.remarks.of_loop(b).into_iter().map(str::to_owned).collect(),
            room: self.s.remarks.tape_check(b).map(str::to_owned),
        }
    }

    fn what(&self, v: Val) -> String {
        match v {
            Val::Primal(p) => self.names.value(p),
            Val::Delta(p) => format!("the shadow of the pointer {}", self.names.value(p)),
            Val::Aux(inst, _) => format!("what the forward pass found out at {}", self.names.inst(inst)),
            Val::Tangent(..) | Val::D(_) => v.to_string(),
        }
    }

    /// Whose reverse in block `b` reads `v`.
    fn readers(&self, b: ir::Block, v: Val) -> Vec<String> {
        let text = |reader| match reader {
            Reader::Reverse(inst) => format!("the reverse of {}", self.names.inst(inst)),
            Reader::Computes(w) => format!("computing {} again", self.what(w)),
            Reader::Holds(w, from) if w == v => format!("the reverse of {}, which holds it", self.names.block(from)),
            Reader::Holds(w, from) => {
                format!("the reverse of {}, for which it gives {}", self.names.block(from), self.what(w))
            }
            Reader::Way => "finding the way back".to_owned(),
            Reader::Rerun(header) => format!("the loop of {}, which runs again", self.names.block(header)),
        };
        let all = readers(&self.s.facts, &self.s.stmts, &self.s.plan, b, v).into_iter().map(text);
        // Normalisation may have made several instructions of one.
        let mut found: Vec<String> = Vec::new();
        for text in all {
            if !found.contains(&text) {
                found.push(text);
            }
        }
        found
    }
}
