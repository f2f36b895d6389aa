//! Preheaders: loop-invariant values, computed before the loop is entered.
//!
//! **Question.** The tests before a vectorised loop ask where its accesses lead and how often it
//! runs. How are values of the loop to be had where it is entered?
//!
//! **Answer.** A value that is linear in what is known there is computed from that anew: parameters
//! of the header are the arguments of the entering edge, constants and multiples are made once for
//! each block ([`Front`]). If the entering block does more than to jump there, a block is put
//! between.
//!
//! **Cost.** Each value, constant and multiple is computed once, before the loop.

use crate::map::HashMap;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Type, Value, ValueDef, types};

use super::affine_loop::Loop;
use crate::linear::LinearForm;

/// A loop, seen from where it is entered.
pub struct Front<'a> {
    /// The function.
    pub func: &'a mut ir::Function,
    l: &'a Loop,
    /// What parameters of blocks after the header stand for.
    alias: &'a HashMap<Value, Value>,
    /// The block before the loop.
    g: ir::Block,
    /// Values of the loop as they are when it is entered.
    at0: HashMap<Value, Value>,
    /// Constants of a block.
    ints: HashMap<(ir::Block, Type, i64), Value>,
    /// Multiples of values, in a block: addresses of several arrays have the same index.
    multiples: HashMap<(ir::Block, Value, u64), Value>,
}

impl<'a> Front<'a> {
    /// With a block of its own, `g`, that has the header's parameters: edges into the loop go
    /// there now. It has no end yet.
    pub fn new(func: &'a mut ir::Function, l: &'a Loop, alias: &'a HashMap<Value, Value>, g: ir::Block) -> Self {
        let mut at0 = HashMap::default();
        for old in func.dfg.block_params(l.blocks[0]).to_vec() {
            let ty = func.dfg.value_type(old);
            at0.insert(old, func.dfg.append_block_param(g, ty));
        }
        redirect(func, l, g);
        Self { func, l, alias, g, at0, ints: HashMap::default(), multiples: HashMap::default() }
    }

    /// In the block from which the loop is entered if that does nothing else at its end, else with
    /// a block between.
    pub fn before(func: &'a mut ir::Function, l: &'a Loop, alias: &'a HashMap<Value, Value>) -> Self {
        let last = func.layout.last_inst(l.entry).expect("a block ends");
        let header = l.blocks[0];
        if let InstructionData::Jump { destination, .. } = func.dfg.insts[last] {
            let args = destination.args(&func.dfg.value_lists).filter_map(|a| a.as_value());
            let at0 = func.dfg.block_params(header).iter().copied().zip(args).collect();
            let (ints, multiples) = (HashMap::default(), HashMap::default());
            return Self { func, l, alias, g: l.entry, at0, ints, multiples };
        }
        let g = func.dfg.make_block();
        func.layout.insert_block(g, header);
        let this = Self::new(func, l, alias, g);
        let args: Vec<ir::BlockArg> = this.func.dfg.block_params(g).iter().map(|&v| v.into()).collect();
        let loc = this.func.srcloc(last);
        FuncCursor::new(this.func).with_srcloc(loc).at_bottom(g).ins().jump(header, &args);
        this
    }

    /// The block before the loop.
    pub fn block(&self) -> ir::Block {
        self.g
    }

    /// The end of a block, before its terminator if that is there already.
    pub fn at(&mut self, b: ir::Block, like: Option<ir::Inst>) -> FuncCursor<'_> {
        let loc = self.func.srcloc(like.unwrap_or(self.l.test));
        let end = self.func.layout.last_inst(b).filter(|&i| self.func.dfg.insts[i].opcode().is_terminator());
        let pos = FuncCursor::new(self.func).with_srcloc(loc);
        match end {
            Some(end) => pos.at_inst(end),
            None => pos.at_bottom(b),
        }
    }

    /// A constant.
    pub fn int(&mut self, b: ir::Block, ty: Type, k: i64) -> Value {
        let k = if ty == types::I32 { i64::from(k as u32) } else { k };
        if let Some(&found) = self.ints.get(&(b, ty, k)) {
            return found;
        }
        let new = self.at(b, None).ins().iconst(ty, k);
        self.ints.insert((b, ty, k), new);
        new
    }

    /// A multiple of a value.
    fn multiple(&mut self, to: ir::Block, x: Value, by: u64, ty: Type) -> Value {
        if by == 1 {
            return x;
        }
        if let Some(&found) = self.multiples.get(&(to, x, by)) {
            return found;
        }
        let new = if by.is_power_of_two() {
            let k = self.int(to, types::I32, i64::from(by.trailing_zeros()));
            self.at(to, None).ins().ishl(x, k)
        } else {
            let k = self.int(to, ty, by as i64);
            self.at(to, None).ins().imul(x, k)
        };
        self.multiples.insert((to, x, by), new);
        new
    }

    /// A value as it is when the loop is entered, computed there.
    pub fn at0(&mut self, v: Value) -> Value {
        if let Some(&found) = self.at0.get(&v) {
            return found;
        }
        let inside = match self.func.dfg.value_def(v) {
            ValueDef::Result(inst, _) => {
                self.func.layout.inst_block(inst).is_some_and(|b| self.l.blocks.contains(&b)).then_some(inst)
            }
            ValueDef::Param(b, _) if self.l.blocks.contains(&b) => {
                return self.at0(self.alias[&v]);
            }
            _ => None,
        };
        let found = match inside {
            None => v,
            Some(inst) => {
                let args: Vec<Value> = self.func.dfg.inst_args(inst).to_vec();
                let args = args.into_iter().map(|a| self.at0(a)).collect();
                let new = self.copy(inst, self.g, args);
                self.func.dfg.first_result(new)
            }
        };
        self.at0.insert(v, found);
        found
    }

    /// A copy of an instruction of the loop.
    pub fn copy(&mut self, inst: ir::Inst, to: ir::Block, args: Vec<Value>) -> ir::Inst {
        let new = self.func.dfg.clone_inst(inst);
        self.func.dfg.overwrite_inst_values(new, args.into_iter());
        self.at(to, Some(inst)).insert_inst(new);
        new
    }

    /// A combination, as it is when the loop is entered; computed in a block.
    pub fn linear(&mut self, to: ir::Block, l: &LinearForm, ty: Type) -> Value {
        let mut sum = None;
        for &(v, factor) in &l.terms {
            let x = self.at0(v);
            let term = self.multiple(to, x, factor.unsigned_abs(), ty);
            sum = Some(match (sum, factor < 0) {
                (None, false) => term,
                (None, true) => self.at(to, None).ins().ineg(term),
                (Some(s), false) => self.at(to, None).ins().iadd(s, term),
                (Some(s), true) => self.at(to, None).ins().isub(s, term),
            });
        }
        match sum {
            None => self.int(to, ty, l.plus),
            Some(s) if l.plus == 0 => s,
            Some(s) => {
                let k = self.int(to, ty, l.plus);
                self.at(to, None).ins().iadd(s, k)
            }
        }
    }
}

/// Enter a block instead of the header.
fn redirect(func: &mut ir::Function, l: &Loop, to: ir::Block) {
    let last = func.layout.last_inst(l.entry).expect("a block ends");
    let dfg = &mut func.dfg;
    let calls = dfg.insts[last].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
    for call in calls {
        if call.block(&dfg.value_lists) == l.blocks[0] {
            call.set_block(to, &mut dfg.value_lists);
        }
    }
}
