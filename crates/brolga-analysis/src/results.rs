//! What a callee's results are made from, for its callers.
//!
//! **Problem.** A call that is given anything active, or a pointer to what may be, has results that depend on it, for all that its
//! caller can see. Often they do not: a callee writes what is active to memory and returns how often it did, or the step
//! that it took, or a bound that it computes from another argument. Then the caller differentiates what has no derivative, records for
//! it, and may be refused for what it does with it.
//!
//! **Answer.** For each result the parameters that lead to it, from operand to operand, through parameters of blocks and results
//! of callees; or anything, where memory is read on the way or somebody is asked of whom nothing is known.
//!
//! **Lattice.** Sets of parameters, and anything above them. Sets only grow, so recursion converges: a result that a function
//! gets from itself alone is made from nothing.
//!
//! **Errs** on the side of anything. Which way a function takes is no operand: a result that only depends on an argument by a
//! branch is as constant as the program that computes it here and now, in a derivative as anywhere. Nor is the operand of what has no
//! derivative: a comparison, a conversion to an integer.
//!
//! Source: jump functions (Callahan, Cooper, Kennedy and Torczon, "Interprocedural constant propagation", 1986), as far as
//! activity needs them.

use brolga_ir::map::HashMap;
use brolga_ir::{FuncKey, Program};
use brolga_rules::{MathKind, OpcodeRule, opcode_rule};
use cranelift_codegen::ir::{self, Opcode, ValueDef};
use cranelift_entity::EntitySet;

use crate::activity::leaves_exponent;
use crate::callee::CalleeKind;
use crate::cfg::Cfg;
use crate::summary::Body;

/// What a result is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// Parameters, in order.
    Params(Vec<usize>),
    /// Memory, or whatever else.
    Anything,
}

impl Sources {
    fn add(&mut self, i: usize) {
        if let Self::Params(all) = self
            && let Err(at) = all.binary_search(&i)
        {
            all.insert(at, i);
        }
    }
}

/// The sources of the results of normalised functions.
pub fn compute(program: &Program, funcs: &HashMap<FuncKey, Body<'_>>) -> HashMap<FuncKey, Vec<Sources>> {
    let mut order: Vec<FuncKey> = funcs.keys().copied().collect();
    order.sort_unstable();
    let nothing = |k: &FuncKey| vec![Sources::Params(Vec::new()); funcs[k].func.signature.returns.len()];
    let mut all: HashMap<FuncKey, Vec<Sources>> = order.iter().map(|k| (*k, nothing(k))).collect();
    loop {
        let mut changed = false;
        for &k in &order {
            let Body { func, cfg, .. } = funcs[&k];
            let now: Vec<Sources> =
                (0..func.signature.returns.len()).map(|i| of_result(program, func, cfg, i, &all)).collect();
            if now != all[&k] {
                all.insert(k, now);
                changed = true;
            }
        }
        if !changed {
            return all;
        }
    }
}

fn of_result(
    program: &Program,
    func: &ir::Function,
    cfg: &Cfg,
    result: usize,
    all: &HashMap<FuncKey, Vec<Sources>>,
) -> Sources {
    let returned = cfg.blocks.iter().filter_map(|&b| {
        let last = func.layout.last_inst(b)?;
        (func.dfg.insts[last].opcode() == Opcode::Return).then(|| func.dfg.inst_args(last)[result])
    });
    let mut work: Vec<ir::Value> = returned.collect();
    let mut seen = EntitySet::new();
    let mut found = Sources::Params(Vec::new());
    while let Some(v) = work.pop() {
        let v = func.dfg.resolve_aliases(v);
        if !seen.insert(v) {
            continue;
        }
        match func.dfg.value_def(v) {
            ValueDef::Param(b, i) => {
                if b == cfg.blocks[0] {
                    found.add(i);
                }
                work.extend(cfg.incoming(b, i));
            }
            ValueDef::Result(inst, k) => match operands(program, func, inst, k, all) {
                Some(args) => work.extend(args),
                None => return Sources::Anything,
            },
            ValueDef::Union(..) => return Sources::Anything,
        }
    }
    found
}

/// The operands that an instruction makes a result from; `None` if there may be something else.
fn operands(
    program: &Program,
    func: &ir::Function,
    inst: ir::Inst,
    result: usize,
    all: &HashMap<FuncKey, Vec<Sources>>,
) -> Option<Vec<ir::Value>> {
    let args = func.dfg.inst_args(inst);
    let op = func.dfg.insts[inst].opcode();
    if op.is_call() {
        return match CalleeKind::of(program, func, inst)? {
            CalleeKind::Known(rule) => match rule.kind {
                MathKind::Expr(_) => Some(args.to_vec()),
                MathKind::Inactive => Some(Vec::new()),
                MathKind::Writes(..) | MathKind::Memory(_) => None,
            },
            CalleeKind::Derived(f) => match all.get(&f)?.get(result)? {
                Sources::Params(from) => Some(from.iter().map(|&i| args[i]).collect()),
                Sources::Anything => None,
            },
            _ => None,
        };
    }
    match opcode_rule(op) {
        _ if op.can_load() || op.other_side_effects() => None,
        OpcodeRule::Zero => Some(Vec::new()),
        _ if leaves_exponent(func, inst) => Some(Vec::new()),
        _ => Some(args.to_vec()),
    }
}
