//! Loops that store nothing, run again where what they compute is needed.
//!
//! **Question.** What was added to a state?
//! **Answer.** What a copy of the loop computes, before what needs it, where it can run again
//! ([`super::readings`]).
//!
//! ```text
//! for j { s = s + m[j] (r[j] - r[i]) }         for j { s = s + m[j] (r[j] - r[i]) }
//! v[i] = v[i] + s                       ⟶      v[i] = v[i] - s
//! ```
//!
//! **Cost.** A copy of the loop for each piece that needs its values.

use cranelift_codegen::ir::{Block, Inst, InstBuilder, Value};

use super::emit::Inverse;
use super::readings::Reading;
use super::structure::PureLoop;
use super::view::Undoable;
use crate::map::HashMap;

impl Inverse<'_, '_, '_, '_> {
    /// Whether a loop that stores nothing, a load or a call can be run again here.
    pub(super) fn can_rerun(&self, number: usize, seen: &mut HashMap<Value, bool>) -> bool {
        let stored = self.readings.stored_since(number);
        let (view, func) = (self.view, self.view.func);
        let reads_the_same = |inst: Inst| {
            let is_unchanged = |s: &usize| stored.as_ref().is_some_and(|stored| !stored.contains(s));
            !view.reads(inst) || view.states_read(inst).iter().all(|s| !view.written.contains(s) || is_unchanged(s))
        };
        match self.readings.reading(number) {
            Reading::Loop(of) => {
                stored.is_some()
                    && of.init.iter().all(|&v| self.is_steady_of(v, seen))
                    && of.blocks.iter().flat_map(|&b| func.layout.block_insts(b)).all(|inst| {
                        reads_the_same(inst)
                            && self.outer_values(number, inst).into_iter().all(|v| self.is_steady_of(v, seen))
                    })
            }
            Reading::Inst(inst) => {
                reads_the_same(inst) && func.dfg.inst_args(inst).iter().all(|&v| self.is_steady_of(v, seen))
            }
        }
    }

    /// What an instruction of a loop uses that is defined before the loop.
    fn outer_values(&self, number: usize, inst: Inst) -> Vec<Value> {
        let view = self.view;
        let is_inner = |v: Value| self.readings.around(view, v) == Some(number);
        view.func.dfg.inst_values(inst).map(|v| view.resolved(v)).filter(|&v| !is_inner(v)).collect()
    }

    /// Run a loop again; then its values are known.
    pub(super) fn rerun_loop(&mut self, number: usize, of: &PureLoop) -> Undoable<()> {
        let func = self.view.func;
        let insts: Vec<Inst> = of.blocks.iter().flat_map(|&b| func.layout.block_insts(b)).collect();
        for &inst in &insts {
            for v in self.outer_values(number, inst) {
                self.steady(v, inst)?;
            }
        }
        let init = of.init.iter().map(|&v| self.steady(v, insts[0])).collect::<Undoable<Vec<Value>>>()?;
        let exit = self.pos.func.dfg.make_block();
        let mut copies: HashMap<Block, Block> = [(of.exit, exit)].into_iter().collect();
        for &block in &of.blocks {
            let copy = self.pos.func.dfg.make_block();
            copies.insert(block, copy);
            for &param in func.dfg.block_params(block) {
                let new = self.pos.func.dfg.append_block_param(copy, func.dfg.value_type(param));
                self.known.insert(param, new);
            }
        }
        let init: Vec<_> = init.into_iter().map(|v| v.into()).collect();
        self.pos.ins().jump(copies[&of.header], &init);
        for block in &of.blocks {
            self.open(copies[block]);
            for inst in func.layout.block_insts(*block) {
                let args: Vec<Value> = func.dfg.inst_args(inst).iter().map(|&v| self.copy_of(v)).collect();
                if func.dfg.insts[inst].opcode().is_terminator() {
                    self.go_on(inst, &args, &copies, of.exit);
                    continue;
                }
                let results = self.copied(inst, &args);
                self.known.extend(func.dfg.inst_results(inst).iter().copied().zip(results));
            }
        }
        self.open(exit);
        Ok(())
    }

    fn copy_of(&self, v: Value) -> Value {
        self.known[&self.view.resolved(v)]
    }

    /// A jump or a branch, to copies of blocks. What the block after a loop is given is known.
    fn go_on(&mut self, inst: Inst, args: &[Value], copies: &HashMap<Block, Block>, exit: Block) {
        let mut to = Vec::new();
        for (block, given) in self.view.targets(inst) {
            let given = if block == exit { vec![] } else { given };
            let given: Vec<_> = given.into_iter().map(|v| self.copy_of(v).into()).collect();
            to.push((copies[&block], given));
        }
        match &to[..] {
            [(then, a), (other, b)] => self.pos.ins().brif(args[0], *then, a, *other, b),
            [(next, a), ..] => self.pos.ins().jump(*next, a),
            [] => unreachable!("it goes on"),
        };
    }
}
