//! Names of the file: what a value of the normalised function is called where the user wrote it.
//!
//! **Question.** Plans speak of the normalised function, which numbers values and blocks in its own
//! way. Which value of the file is `v7`?
//!
//! **Answer.** An instruction knows where it comes from, so a result is named by its instruction,
//! and a parameter of a block by the instructions that read it: the file has the parameter's name
//! in the same place. The block must be the same too. What normalisation has added has no name in
//! the file, and gets none ([`Names::value`]). This is the only place of `explain` that prints a
//! value, an instruction or a block.
//!
//! **Cost.** One walk over the function for names of parameters. Each name of a block is a look at
//! its instructions.

use brolga::FuncKey;
use brolga_ir::map::HashMap;
use brolga_ir::program::symbol_of;
use brolga_transform::Stages;
use brolga_transform::facts::Facts;
use cranelift_codegen::ir::{self, ValueDef};

/// Names for the values, instructions and blocks of one normalised function.
pub(super) struct Names<'a> {
    facts: &'a Facts<'a>,
    /// Parameters of blocks, but for those of the function.
    params: HashMap<ir::Value, ir::Value>,
}

/// A block as the user wrote it.
#[derive(Clone, Copy)]
pub(super) struct SourceBlock {
    /// The function in which it was written.
    pub func: FuncKey,
    /// Its name there.
    pub block: ir::Block,
    /// An instruction of it: the first that is still there.
    pub first: ir::Inst,
    /// Whether it stands here instead of a call.
    pub inlined: bool,
}

impl<'a> Names<'a> {
    /// Names for what a derivation has normalised.
    pub(super) fn of(stages: &'a Stages<'a>) -> Self {
        let mut names = Names { facts: &stages.facts, params: HashMap::default() };
        let func = names.facts.func();
        for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
            let Some((_, body, there)) = names.original(inst) else { continue };
            let (args, named) = (func.dfg.inst_args(inst), body.dfg.inst_args(there));
            if func.dfg.insts[inst].opcode() != body.dfg.insts[there].opcode() || args.len() != named.len() {
                continue;
            }
            for (&arg, &name) in args.iter().zip(named) {
                let name = body.dfg.resolve_aliases(name);
                if let (ValueDef::Param(block, _), ValueDef::Param(home, _)) =
                    (func.dfg.value_def(arg), body.dfg.value_def(name))
                    && names.written(block).is_some_and(|w| w.block == home && w.func == names.home(inst))
                    && func.dfg.value_type(arg) == body.dfg.value_type(name)
                {
                    names.params.entry(arg).or_insert(name);
                }
            }
        }
        names
    }

    /// Which function an instruction was written in.
    fn home(&self, inst: ir::Inst) -> FuncKey {
        self.facts.program.origin(self.facts.variant.func, self.facts.original(inst)).func
    }

    /// An instruction as it was written, with its function, if that has it still.
    fn original(&self, inst: ir::Inst) -> Option<(FuncKey, &'a ir::Function, ir::Inst)> {
        let (program, func) = (self.facts.program, self.facts.variant.func);
        program
            .written(func, self.facts.original(inst))
            .filter(|(_, body, there)| body.layout.inst_block(*there).is_some())
    }

    /// An instruction as the file has it, with its line.
    pub(super) fn inst(&self, inst: ir::Inst) -> String {
        let program = self.facts.program;
        let origin = program.origin(self.facts.variant.func, self.facts.original(inst));
        let f = &program.funcs[origin.func];
        let text = self.original(inst).and_then(|(func, _, there)| program.text(func, there));
        let text = text.unwrap_or_else(|| self.made(inst));
        let whose = if origin.calls.is_empty() { String::new() } else { format!(" of %{}", f.symbol) };
        match f.lines[origin.inst] {
            0 => format!("`{text}`{whose}"),
            line => format!("`{text}`{whose} ({})", brolga_ir::position(line)),
        }
    }

    /// Where normalisation has put an instruction, of whose neighbour it has the position: in front
    /// of a terminator, or beside a call (a cosine beside a sine).
    fn is_put_in(&self, inst: ir::Inst) -> Option<&'static str> {
        let (func, original) = (self.facts.func(), self.original(inst)?);
        let opcode = |f: &ir::Function, i| f.dfg.insts[i].opcode();
        if opcode(original.1, original.2).is_terminator() {
            return (!opcode(func, inst).is_terminator()).then_some("in front of");
        }
        let before = func.layout.prev_inst(inst).filter(|&b| self.facts.original(b) == self.facts.original(inst))?;
        [before, inst].iter().all(|&i| opcode(func, i).is_call()).then_some("beside")
    }

    /// An instruction that the file does not have: without the name of its result, and with those
    /// names of operands that the file has.
    fn made(&self, inst: ir::Inst) -> String {
        let func = self.facts.func();
        let text = func.dfg.display_inst(inst).to_string();
        let text = text.split("  ;").next().unwrap_or_default().trim();
        let text = text.split_once(" = ").map_or(text, |t| t.1);
        let named = |word: &str| -> Option<String> {
            let number = |prefix| word.strip_prefix(prefix).and_then(|n: &str| n.parse::<u32>().ok());
            if let Some(f) = number("fn").map(ir::FuncRef::from_u32) {
                return Some(format!("%{}", symbol_of(func, &func.dfg.ext_funcs[f].name)));
            }
            if let Some(b) = number("block") {
                return Some(self.block(ir::Block::from_u32(b)));
            }
            let v = ir::Value::from_u32(number("v")?);
            Some(self.short(v).map_or_else(|| "…".to_owned(), |v| v.to_string()))
        };
        let mut out = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let end = rest.find(|c| is_word(c) != is_word(rest.chars().next().unwrap_or(' '))).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            out.push_str(&named(word).unwrap_or_else(|| word.to_owned()));
            rest = after;
        }
        out
    }

    /// The name that a value has in the file.
    fn short(&self, v: ir::Value) -> Option<ir::Value> {
        match self.facts.func().dfg.value_def(v) {
            ValueDef::Result(inst, k) if self.is_put_in(inst).is_none() => {
                let (_, body, there) = self.original(inst)?;
                body.dfg.inst_results(there).get(k).copied()
            }
            ValueDef::Param(block, i) if block == self.facts.cfg.blocks[0] => {
                let body = self.facts.program.funcs[self.facts.variant.func].body.as_ref()?;
                body.dfg.block_params(body.layout.entry_block()?).get(i).copied()
            }
            ValueDef::Param(..) => self.params.get(&v).copied(),
            _ => None,
        }
    }

    /// What a value is.
    pub(super) fn value(&self, v: ir::Value) -> String {
        match self.facts.func().dfg.value_def(v) {
            ValueDef::Result(inst, _) => match self.is_put_in(inst) {
                Some(place) => format!("`{}` {place} {}", self.made(inst), self.inst(inst)),
                None => self.inst(inst),
            },
            ValueDef::Param(block, i) if block == self.facts.cfg.blocks[0] => match self.short(v) {
                Some(name) => format!("{name}, parameter {i} of the function"),
                None => format!("parameter {i} of the function"),
            },
            ValueDef::Param(block, _) => match (self.params.get(&v), self.written(block)) {
                (Some(name), Some(w)) => {
                    let body = self.facts.program.funcs[w.func].body.as_ref();
                    let params = body.map_or(&[][..], |f| f.dfg.block_params(w.block));
                    let at = params.iter().position(|p| p == name).unwrap_or_default();
                    format!("{name}, parameter {at} of {}", self.block(block))
                }
                _ => format!("a value that is handed to {}", self.block(block)),
            },
            ValueDef::Union(..) => "a value of the mid-end".to_owned(),
        }
    }

    /// A block of the file, by any instruction in it that is the file's; if it can be by one of the
    /// function itself.
    pub(super) fn written(&self, b: ir::Block) -> Option<SourceBlock> {
        let all = self.facts.func().layout.block_insts(b).filter_map(|i| {
            let origin = self.facts.program.origin(self.facts.variant.func, self.facts.original(i));
            let (func, body, first) = self.original(i)?;
            Some(SourceBlock { func, block: body.layout.inst_block(first)?, first, inlined: !origin.calls.is_empty() })
        });
        // Of those that are equal the first one.
        all.min_by_key(|w| w.inlined)
    }

    /// What a block is called; one that normalisation has added by where it leads.
    pub(super) fn block(&self, b: ir::Block) -> String {
        match self.written(b) {
            Some(w) if w.inlined => format!("{} of %{}", w.block, self.facts.program.funcs[w.func].symbol),
            Some(w) => w.block.to_string(),
            None => "a block that was put in".to_owned(),
        }
    }
}
