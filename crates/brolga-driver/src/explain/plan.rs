//! What each block records for its reverse, for whom, and how many bytes that was in a run.
//!
//! Read off the derivation's own plan; instructions are those of the file, not of the normalised function.

use brolga::{Error, FuncKey, Options, Program, Request};
use brolga_ir::inst::Val;
use brolga_transform::plan::{Source, type_of};
use brolga_transform::{Stages, derive_with};
use cranelift_codegen::ir::{self, Type};
use indexmap::IndexMap;

use crate::quiet;

/// One derived function.
#[derive(Clone, Debug)]
pub struct FunctionPlan {
    /// Its symbol.
    pub function: String,
    /// Bytes of an activation frame, 0 if there is none.
    pub frame_bytes: u32,
    /// Its blocks that can return.
    pub blocks: Vec<Block>,
}

/// One block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its name.
    pub block: String,
    /// Line of its first instruction, 0 where unknown.
    pub line: u32,
    /// How often the run entered it.
    pub times: u64,
    /// What it keeps in the activation frame, once per call.
    pub keeps: Vec<Recorded>,
    /// What it pushes on the tape, each time.
    pub pushes: Vec<Recorded>,
    /// Bytes of its own number that it pushes, because its successors must know where they come from.
    pub number_bytes: u32,
    /// What its reverse computes again instead.
    pub recomputes: Vec<Recorded>,
}

impl Block {
    /// Bytes that one execution pushes.
    pub fn bytes_each(&self) -> u64 {
        u64::from(self.pushes.iter().map(|r| r.bytes).sum::<u32>() + self.number_bytes)
    }
}

/// A value that the pullback needs.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What it is.
    pub what: String,
    /// Its size.
    pub bytes: u32,
    /// Whose reverse reads it.
    pub readers: Vec<String>,
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
    let isa = brolga::jit::host_isa(options.optimize)?;
    let derive = || {
        let mut out = Vec::new();
        derive_with(program, request, options, &*isa, |s| out.push(Reader { s, visits }.function()))?;
        Ok(out)
    };
    quiet::catch(derive).unwrap_or_else(|message| Err(Error::Internal { stage: "derive", message }))
}

struct Reader<'a, 's> {
    s: &'a Stages<'s>,
    visits: &'a dyn Fn(FuncKey, ir::Block) -> u64,
}

impl Reader<'_, '_> {
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
        }
    }

    fn block(&self, b: ir::Block, aux: &IndexMap<Val, Type>) -> Block {
        let (facts, plan) = (&self.s.facts, &self.s.plan);
        let body = facts.program.funcs[facts.variant.func].body.as_ref();
        // The normalised function may number blocks in another way; instructions know where they come from.
        let known = |i: &ir::Inst| body.is_some_and(|f| f.layout.inst_block(facts.original(*i)).is_some());
        let first = facts.func().layout.block_insts(b).find(known).map(|i| facts.original(i));
        let original = first.and_then(|i| body?.layout.inst_block(i));
        let times = original.map_or(0, |o| (self.visits)(facts.variant.func, o));
        let bytes = |v| type_of(facts, aux, v).bytes();
        let own = |v: Val, source: fn(&Source) -> bool| {
            let sources = plan.blocks[b].sources.iter();
            sources.filter(|(w, s)| *w == v && source(s)).flat_map(|_| self.readers(b, v)).collect::<Vec<_>>()
        };
        let p = &plan.blocks[b];
        let keeps = p.keeps.iter().map(|&(slot, v)| {
            let reading = |r: &&ir::Block| plan.blocks[**r].sources.contains(&(v, Source::Frame(slot)));
            let readers = facts.cfg.blocks.iter().filter(reading).flat_map(|&r| self.readers(r, v)).collect();
            Recorded { what: self.what(v), bytes: bytes(v), readers }
        });
        let pushes = p.record.iter().map(|&v| {
            let readers = own(v, |s| *s == Source::Record);
            Recorded { what: self.what(v), bytes: bytes(v), readers }
        });
        let again = p.sources.iter().filter(|s| matches!(s.1, Source::Recompute(_) | Source::Last(_)));
        let recomputes = again.map(|&(v, _)| Recorded { what: self.what(v), bytes: 0, readers: self.readers(b, v) });
        Block {
            block: original.unwrap_or(b).to_string(),
            line: first.map_or(0, |i| facts.program.funcs[facts.variant.func].lines[i]),
            times,
            keeps: keeps.collect(),
            pushes: pushes.collect(),
            number_bytes: if p.push_id { plan.id_bytes } else { 0 },
            recomputes: recomputes.collect(),
        }
    }

    /// An instruction as the file has it, with its line.
    fn text(&self, inst: ir::Inst) -> String {
        let facts = &self.s.facts;
        let f = &facts.program.funcs[facts.variant.func];
        let original = facts.original(inst);
        let (dfg, original) = match &f.body {
            Some(body) if body.layout.inst_block(original).is_some() => (&body.dfg, original),
            _ => (&facts.func().dfg, inst),
        };
        let text = dfg.display_inst(original).to_string();
        let text = text.split("  ;").next().unwrap_or_default().trim().to_owned();
        match f.lines[original] {
            0 => format!("`{text}`"),
            line => format!("`{text}` ({})", brolga_ir::position(line)),
        }
    }

    fn what(&self, v: Val) -> String {
        let dfg = &self.s.facts.func().dfg;
        match v {
            Val::Primal(p) => match dfg.value_def(p) {
                ir::ValueDef::Result(inst, _) => self.text(inst),
                ir::ValueDef::Param(block, i) => {
                    let entry = self.s.facts.cfg.blocks[0] == block;
                    if entry {
                        format!("parameter {i} of the function")
                    } else {
                        format!("{p}, parameter {i} of {block}")
                    }
                }
                ir::ValueDef::Union(..) => p.to_string(),
            },
            Val::Delta(p) => format!("the shadow of the pointer {}", self.what(Val::Primal(p))),
            Val::Aux(inst, _) => format!("what the forward pass found out at {}", self.text(inst)),
            Val::D(_) => v.to_string(),
        }
    }

    /// Whose reverse in block `b` reads `v`: statements, or values that are computed from it.
    fn readers(&self, b: ir::Block, v: Val) -> Vec<String> {
        let func = self.s.facts.func();
        let insts = func.layout.block_insts(b);
        let direct = insts.filter(|i| self.s.stmts.get(i).is_some_and(|stmt| stmt.comms().contains(&v)));
        let mut out: Vec<String> = direct.map(|i| format!("the reverse of {}", self.text(i))).collect();
        out.extend(self.s.plan.blocks[b].sources.iter().filter_map(|&(w, source)| match source {
            Source::Recompute(i) if func.dfg.inst_args(i).iter().any(|&a| Val::Primal(a) == v) => {
                Some(format!("computing {} again", self.what(w)))
            }
            Source::Last(last) if last.operands().any(|a| Val::Primal(a) == v) => {
                Some(format!("computing {} again", self.what(w)))
            }
            _ => None,
        }));
        out
    }
}
