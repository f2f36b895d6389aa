//! A loop that becomes functions: what they are given, and what they return.
//!
//! **Question.** Which values does a step of a loop need from outside, which does it hand on to the
//! next one, and which are asked for after the loop?
//!
//! **Answer.** From outside come values of blocks before the loop, but constants, which are
//! put into the step. Handed on are the parameters of the loop's header and, from outside, floats
//! (so are their cotangents) and what is longer than a word. Asked for are values of the loop that
//! other blocks use.
//!
//! **Cost.** A pass over the function for each loop.

use brolga_analysis::Loop;
use brolga_analysis::memory::alias::Origin;
use brolga_ir::Program;
use brolga_ir::driver::{StateLength, StatePart};
use brolga_ir::map::IndexMap;
use cranelift_codegen::ir::{self, AbiParam, ArgumentPurpose, Signature, types};
use cranelift_codegen::isa::CallConv;

use super::footprint::Memory;
use super::iterations::iterations;
use crate::primal::normalise::NormalisedPrimal;

/// A loop, and what its functions pass and return.
pub(crate) struct OutlinedLoop<'a> {
    at: &'a NormalisedPrimal,
    pub func: &'a ir::Function,
    pub of: &'a Loop,
    /// Its blocks, in the order of the layout.
    pub blocks: Vec<ir::Block>,
    /// Values from before the loop that no iteration changes, but those that are handed on.
    pub invariants: Vec<ir::Value>,
    /// Values of this kind that are handed on: floats, and what is longer than a word.
    pub handed_on: Vec<ir::Value>,
    /// Instructions before the loop that are put into the step: constants.
    pub constants: Vec<ir::Inst>,
    /// Addresses of stack slots in the loop, which are taken before it.
    pub addresses: Vec<ir::Inst>,
    /// Values of the loop that are asked for after it.
    pub outs: Vec<ir::Value>,
    /// Iterations of a step, a power of two.
    pub iterations: u32,
    /// The memory that steps change.
    pub memory: Vec<StatePart>,
}

impl<'a> OutlinedLoop<'a> {
    pub(super) fn of(
        program: &Program,
        n: &'a NormalisedPrimal,
        of: &'a Loop,
        memory: &Memory,
        objects: &IndexMap<Origin, (ir::Value, StateLength)>,
    ) -> Self {
        let func = &n.func;
        let blocks: Vec<ir::Block> = func.layout.blocks().filter(|&b| of.blocks.contains(b)).collect();
        let inside = |v: ir::Value| n.cfg.def_block[v].is_some_and(|b| of.blocks.contains(b));
        let (mut invariants, mut handed_on, mut constants) = (Vec::new(), Vec::new(), Vec::new());
        // The instance comes first, whether it is asked for or not.
        invariants.extend(func.special_param(ArgumentPurpose::VMContext));
        let insts = || blocks.iter().flat_map(|&b| func.layout.block_insts(b));
        let addresses: Vec<ir::Inst> =
            insts().filter(|&i| func.dfg.insts[i].opcode() == ir::Opcode::StackAddr).collect();
        invariants.extend(addresses.iter().map(|&i| func.dfg.first_result(i)));
        let memory = match memory {
            Memory::Instance => instance_parts(program),
            Memory::Objects(origins) => {
                let part = |origin: &Origin| {
                    let (v, length) = objects[origin];
                    push_new(&mut invariants, v);
                    let at = invariants.iter().position(|&w| w == v).expect("it is there");
                    StatePart { address: vec![at], offset: 0, length }
                };
                origins.iter().map(part).collect()
            }
        };
        for v in insts().flat_map(|i| func.dfg.inst_values(i)).filter(|&v| !inside(v)) {
            let constant = func.dfg.value_def(v).inst().filter(|&i| is_constant(func, i));
            match constant {
                Some(i) if !constants.contains(&i) => constants.push(i),
                Some(_) => {}
                None => {
                    let ty = func.dfg.value_type(v);
                    let is_handed_on = ty.lane_type().is_float() || ty.bits() > 64;
                    push_new(if is_handed_on { &mut handed_on } else { &mut invariants }, v);
                }
            }
        }
        let outside = func.layout.blocks().filter(|b| !of.blocks.contains(*b));
        let mut outs = Vec::new();
        let outside_uses = outside.flat_map(|b| func.layout.block_insts(b)).flat_map(|i| func.dfg.inst_values(i));
        outside_uses.filter(|&v| inside(v)).for_each(|v| push_new(&mut outs, v));
        for &(from, to) in &of.exits {
            let args = n.cfg.args(from, to);
            args.iter().filter(|&&v| inside(v)).for_each(|&v| push_new(&mut outs, v));
        }
        let iterations = iterations(program, n, &blocks);
        Self { at: n, func, of, blocks, invariants, handed_on, constants, addresses, outs, iterations, memory }
    }

    /// Whether a value of the loop is defined on all ways to the end of a block.
    pub(super) fn is_there(&self, v: ir::Value, at_end_of: ir::Block) -> bool {
        self.at.cfg.def_block[v].is_some_and(|b| self.at.loops.dominates(b, at_end_of))
    }

    fn types_of(&self, values: &[ir::Value]) -> impl Iterator<Item = ir::Type> {
        values.iter().map(|&v| self.func.dfg.value_type(v))
    }

    /// Types of what is handed on.
    pub(super) fn carried(&self) -> Vec<ir::Type> {
        let params = self.func.dfg.block_params(self.of.header);
        self.types_of(params).chain(self.types_of(&self.handed_on)).collect()
    }

    /// Types of what is asked for after the loop.
    pub(super) fn out_types(&self) -> Vec<ir::Type> {
        self.types_of(&self.outs).collect()
    }

    /// Of the function of a step: invariants and what is handed on; what is handed on, what is
    /// asked for after the loop, and the code.
    pub(super) fn of_step(&self) -> Signature {
        // So many results as there are.
        let mut sig = Signature::new(CallConv::Fast);
        let instance = self.func.special_param(ArgumentPurpose::VMContext);
        for &v in &self.invariants {
            let ty = self.func.dfg.value_type(v);
            let is_it = Some(v) == instance;
            sig.params.push(if is_it { AbiParam::special(ty, ArgumentPurpose::VMContext) } else { AbiParam::new(ty) });
        }
        let carried = self.carried();
        sig.params.extend(carried.iter().map(|&ty| AbiParam::new(ty)));
        sig.returns.extend(carried.into_iter().chain(self.out_types()).map(AbiParam::new));
        sig.returns.push(AbiParam::new(types::I8));
        sig
    }

    /// Of steps from one number to another, which return the number of the next one before the
    /// code.
    pub(super) fn of_steps(&self) -> Signature {
        let mut sig = self.of_step();
        sig.params.extend([types::I64; 2].map(AbiParam::new));
        let code = sig.returns.pop().expect("the code");
        sig.returns.extend([AbiParam::new(types::I64), code]);
        sig
    }
}

/// Names of the functions of a loop.
pub(crate) struct LoopSymbols {
    pub driver: String,
    pub steps: String,
    pub step: String,
}

impl LoopSymbols {
    pub(super) fn fresh(program: &Program, of: &str, n: usize) -> Self {
        let named = |n: usize| {
            let driver = format!("{of}__loop{n}");
            Self { steps: format!("{driver}__steps"), step: format!("{driver}__step"), driver }
        };
        let is_free = |s: &Self| [&s.driver, &s.steps, &s.step].iter().all(|s| program.func(s).is_none());
        (n..).map(named).find(is_free).expect("there are names")
    }
}

fn push_new(all: &mut Vec<ir::Value>, v: ir::Value) {
    if !all.contains(&v) {
        all.push(v);
    }
}

/// Whether an instruction gives the same wherever it stands, and takes nothing.
pub(super) fn is_constant(func: &ir::Function, inst: ir::Inst) -> bool {
    use ir::Opcode::*;
    matches!(
        func.dfg.insts[inst].opcode(),
        Iconst | F16const | F32const | F64const | F128const | Vconst | FuncAddr | SymbolValue
    )
}

/// The memory of an instance: all that steps of a confined program can change.
fn instance_parts(program: &Program) -> Vec<StatePart> {
    let layout = program.instance.as_ref().expect("the loop is one of an instance");
    // The instance is the first parameter.
    let part = |offset, length| StatePart { address: vec![0], offset, length };
    let header = part(-i64::from(layout.header), StateLength::Pages(layout.header));
    let memories =
        layout.memories.iter().map(|m| part(m.offset, StateLength::PagesUpTo(i64::from(m.size_at) - m.offset)));
    std::iter::once(header).chain(memories).collect()
}
