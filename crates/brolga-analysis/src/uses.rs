//! Def-use chains: where each value is used.
//!
//! **Question.** Which instructions read a value, and which block parameters is it passed to?
//!
//! **Answer.** One list of all uses, sorted by value by counting, with the end of each value's
//! part.
//!
//! **Cost.** One walk over the operands of the function and two over the list; one worklist, back
//! from casts, for integers that become floats.

use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::EntitySet;

use crate::bits::bit_arith;
use crate::cfg::Cfg;

/// Where a value is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Operand of an instruction, by index.
    Inst(ir::Inst, usize),
    /// Argument for a block parameter.
    Edge(ir::Block, ir::Value),
}

/// All uses of all values.
#[derive(Clone, Debug)]
pub struct Uses {
    /// Where those of each value end; the next value's begin there.
    ends: Vec<u32>,
    /// All of them, those of each value in the order of the layout.
    all: Vec<Use>,
    /// Integers that become floats, also by way of additions of numbers ([`bit_arith`]).
    floats: EntitySet<ir::Value>,
}

impl Uses {
    /// Collect them.
    pub fn compute(func: &ir::Function, cfg: &Cfg) -> Self {
        let mut found: Vec<(ir::Value, Use)> = Vec::with_capacity(2 * func.dfg.num_insts());
        let mut casts = Vec::new();
        for &b in &cfg.blocks {
            for &inst in cfg.insts(b) {
                for (i, &a) in func.dfg.inst_args(inst).iter().enumerate() {
                    found.push((a, Use::Inst(inst, i)));
                }
                if func.dfg.insts[inst].opcode() == Opcode::Bitcast
                    && func.dfg.value_type(func.dfg.first_result(inst)).is_float()
                {
                    casts.push(func.dfg.inst_args(inst)[0]);
                }
            }
            for &s in &cfg.succs[b] {
                for (&a, &p) in cfg.args(b, s).iter().zip(func.dfg.block_params(s)) {
                    found.push((a, Use::Edge(b, p)));
                }
            }
        }
        let mut floats = EntitySet::new();
        bit_arith::close_backwards(func, |b, i| cfg.incoming(b, i).collect(), casts, &mut floats);
        // By value: where each one's begin, which is where they end once they are there.
        let mut ends = vec![0; func.dfg.num_values() + 1];
        found.iter().for_each(|x| ends[x.0.as_u32() as usize + 1] += 1);
        for v in 1..ends.len() {
            ends[v] += ends[v - 1];
        }
        let mut all = vec![Use::Edge(ir::Block::from_u32(0), ir::Value::from_u32(0)); found.len()];
        for (v, used) in found {
            let at = &mut ends[v.as_u32() as usize];
            all[*at as usize] = used;
            *at += 1;
        }
        Self { ends, all, floats }
    }

    /// Whether a use of an integer is a step, whose result becomes a float.
    pub(crate) fn steps_to_float(&self, func: &ir::Function, inst: ir::Inst, v: ir::Value) -> bool {
        self.floats.contains(v) && self.floats.contains(func.dfg.first_result(inst))
    }

    /// Uses of one value.
    pub fn of(&self, v: ir::Value) -> &[Use] {
        let v = v.as_u32() as usize;
        let first = v.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[first as usize..self.ends[v] as usize]
    }
}
