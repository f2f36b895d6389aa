//! Backward slice: the loads from which doubles are put together.
//!
//! **Question.** Which of the loads that could be promoted does a double ask for that was taken
//! apart?
//!
//! **Answer.** Those that are such a double (a mixture of two stores, or the bits of an integer
//! that is computed), and all from which its words are computed, through instructions, block
//! parameters, and what is promoted. Addresses and conditions are no part of it. Integers that are
//! constants, or are merely moved, are doubles as they are: arrays with initialisers, records that
//! are copied.
//!
//! **Cost.** Each value is taken once, and no more than 65 536 of them.

use brolga_analysis::Cfg;
use brolga_ir::map::HashMap;
use cranelift_codegen::ir::{self, Opcode, ValueDef, types};
use cranelift_entity::EntitySet;

use super::cells::{LoadReplacement, PromotedLoad, Word, WordSource};
use super::words::Words;

/// Values that are looked at.
const MOST: usize = 1 << 16;

/// These loads.
pub(super) fn slice(func: &ir::Function, cfg: &Cfg, words: &Words<'_>, found: &[PromotedLoad]) -> EntitySet<ir::Inst> {
    let by_load: HashMap<ir::Inst, &PromotedLoad> = found.iter().map(|f| (f.load, f)).collect();
    let mut slice = Slice { func, cfg, words, asked: EntitySet::new(), seen: EntitySet::new(), work: Vec::new() };
    let mut params: Vec<WordSource> = Vec::new();
    for f in found {
        let is_put = match f.by {
            LoadReplacement::Mixture(_) => true,
            LoadReplacement::Number(x) => f.ty == types::F64 && slice.is_computed(x),
            LoadReplacement::Word(_) => false,
        };
        if is_put {
            slice.found(f, &mut params);
        }
    }
    for _ in 0..MOST {
        let Some(v) = slice.work.pop() else { break };
        match func.dfg.value_def(v) {
            ValueDef::Result(inst, _) => match by_load.get(&inst) {
                Some(f) => slice.found(f, &mut params),
                None if func.dfg.insts[inst].opcode().is_call() || func.dfg.insts[inst].opcode().can_load() => {}
                None => func.dfg.inst_args(inst).iter().for_each(|&a| slice.value(a)),
            },
            ValueDef::Param(b, i) if b != cfg.blocks[0] => cfg.incoming(b, i).for_each(|a| slice.value(a)),
            _ => {}
        }
    }
    slice.asked
}

struct Slice<'a> {
    func: &'a ir::Function,
    cfg: &'a Cfg,
    words: &'a Words<'a>,
    asked: EntitySet<ir::Inst>,
    seen: EntitySet<ir::Value>,
    work: Vec<ir::Value>,
}

impl Slice<'_> {
    /// Doubles are where it ends.
    fn value(&mut self, v: ir::Value) {
        let ty = self.func.dfg.value_type(v);
        if ty.is_int() && self.seen.insert(v) {
            self.work.push(v);
        }
    }

    fn found(&mut self, f: &PromotedLoad, params: &mut Vec<WordSource>) {
        if !self.asked.insert(f.load) {
            return;
        }
        match f.by {
            LoadReplacement::Number(x) | LoadReplacement::Word(Word::Int(x) | Word::Half(x, _)) => {
                self.source(x, params)
            }
            LoadReplacement::Mixture(parts) => {
                for Word::Int(x) | Word::Half(x, _) in parts {
                    self.source(x, params);
                }
            }
        }
    }

    fn source(&mut self, x: WordSource, params: &mut Vec<WordSource>) {
        let mut work = vec![x];
        while let Some(x) = work.pop() {
            match x {
                WordSource::Value(v) => self.value(v),
                WordSource::Param(b, place) if !params.contains(&x) => {
                    params.push(x);
                    for &p in &self.cfg.preds[b] {
                        if let Some(Word::Int(y) | Word::Half(y, _)) = self.words.leaving(p, place) {
                            work.push(y);
                        }
                    }
                }
                WordSource::Param(..) => {}
            }
        }
    }

    /// Whether a number of 64 bits is an integer that is computed, on some way.
    fn is_computed(&self, x: WordSource) -> bool {
        let (mut seen, mut work) = (vec![x], vec![x]);
        let mut values: Vec<ir::Value> = Vec::new();
        while let Some(x) = work.pop() {
            match x {
                WordSource::Value(v) => values.push(v),
                WordSource::Param(b, place) => {
                    for &p in &self.cfg.preds[b] {
                        if let Some(Word::Half(y, _)) = self.words.leaving(p, place)
                            && !seen.contains(&y)
                        {
                            seen.push(y);
                            work.push(y);
                        }
                    }
                }
            }
        }
        let mut seen = EntitySet::new();
        while let Some(v) = values.pop() {
            if self.func.dfg.value_type(v) != types::I64 || !seen.insert(v) {
                continue;
            }
            match self.func.dfg.value_def(v) {
                ValueDef::Result(inst, _) => match self.func.dfg.insts[inst].opcode() {
                    Opcode::Iconst | Opcode::Load => {}
                    Opcode::Select => values.extend(&self.func.dfg.inst_args(inst)[1..]),
                    _ => return true,
                },
                ValueDef::Param(b, i) if b != self.cfg.blocks[0] => values.extend(self.cfg.incoming(b, i)),
                _ => {}
            }
        }
        false
    }
}
