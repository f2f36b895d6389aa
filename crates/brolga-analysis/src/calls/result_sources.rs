//! Jump functions: what a callee's results are made from, for its callers.
//!
//! **Problem.** A call that is given anything active, or a pointer to what may be, has results that
//! depend on it, for all that its caller can see. Often they do not: a callee writes what is active
//! to memory and returns how often it did, or the step that it took, or a bound that it computes
//! from another argument. Then the caller differentiates what has no derivative, records for it,
//! and may be refused for what it does with it.
//!
//! **Answer.** For each result the parameters that lead to it, from operand to operand, through
//! parameters of blocks and results of callees; or anything, where memory is read on the way, or an
//! unknown function is called.
//!
//! **Lattice.** Sets of parameters, and anything above them. Sets only grow, so recursion
//! converges: a result that a function gets from itself alone is made from nothing.
//!
//! Beside that, whether what is read from memory on the way may be the bits of a float: if it is
//! less than four bytes, whatever becomes of it; if it is more, only if it is handed out as it is,
//! since a number of that size that is calculated with is a number.
//!
//! **Errs** on the side of anything. Which way a function takes is no operand: a result that only
//! depends on an argument by a branch is as constant as the program that computes it here and now,
//! in a derivative as anywhere. Nor is the operand of what has no derivative: a comparison, a
//! conversion to an integer.
//!
//! **Cost.** Rounds over all functions until nothing changes. In a round each result is followed
//! once.
//!
//! Source: jump functions (Callahan, Cooper, Kennedy and Torczon, "Interprocedural constant
//! propagation", 1986), as far as activity needs them.

use std::collections::BTreeSet;

use brolga_ir::map::HashMap;
use brolga_ir::{FuncKey, Program};
use brolga_rules::{MathKind, OpcodeRule, Structural, opcode_rule};
use cranelift_codegen::ir::{self, Opcode, ValueDef};
use cranelift_entity::EntitySet;

use crate::bits::bytes::bytes_of;
use crate::bits::exponent::leaves_exponent;
use crate::body::Body;
use crate::cfg::Cfg;
use crate::query::callee::CalleeKind;
use crate::summary::{Provenance, Sources};

/// The sources of the results of normalised functions.
pub fn compute(program: &Program, funcs: &HashMap<FuncKey, Body<'_>>) -> HashMap<FuncKey, Vec<Provenance>> {
    let mut order: Vec<FuncKey> = funcs.keys().copied().collect();
    order.sort_unstable();
    let nothing = |k: &FuncKey| {
        vec![
            Provenance { from: Sources::Params(Vec::new()), through: Vec::new(), bits: false };
            funcs[k].func.signature.returns.len()
        ]
    };
    let mut all: HashMap<FuncKey, Vec<Provenance>> = order.iter().map(|k| (*k, nothing(k))).collect();
    loop {
        let mut changed = false;
        for &k in &order {
            let Body { func, cfg, .. } = funcs[&k];
            let reader = Reader { program, func, cfg, all: &all };
            let now: Vec<Provenance> = (0..func.signature.returns.len())
                .map(|i| {
                    let (from, through) = reader.sources(i);
                    Provenance { from, through, bits: reader.reads_bits(i) }
                })
                .collect();
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

/// What a result is made from.
struct Operands {
    known: Vec<ir::Value>,
    /// Whether there may be something else.
    others: bool,
}

/// A function, and what is known of the others.
#[derive(Clone, Copy)]
struct Reader<'a> {
    program: &'a Program,
    func: &'a ir::Function,
    cfg: &'a Cfg,
    all: &'a HashMap<FuncKey, Vec<Provenance>>,
}

impl Reader<'_> {
    /// What a result is made from, and the parameters among that.
    fn sources(&self, result: usize) -> (Sources, Vec<usize>) {
        let (func, cfg) = (self.func, self.cfg);
        let mut work: Vec<ir::Value> = self.returned(result).collect();
        let mut seen = EntitySet::new();
        let (mut found, mut anything) = (BTreeSet::new(), false);
        while let Some(v) = work.pop() {
            let v = func.dfg.resolve_aliases(v);
            if !seen.insert(v) {
                continue;
            }
            match func.dfg.value_def(v) {
                ValueDef::Param(b, i) => {
                    if b == cfg.blocks[0] {
                        found.insert(i);
                    }
                    work.extend(cfg.incoming(b, i));
                }
                ValueDef::Result(inst, k) => {
                    let Operands { known, others } = self.operands(inst, k);
                    work.extend(known);
                    anything |= others;
                }
                ValueDef::Union(..) => anything = true,
            }
        }
        let params: Vec<usize> = found.into_iter().collect();
        (if anything { Sources::Anything } else { Sources::Params(params.clone()) }, params)
    }

    /// What a function returns as one of its results.
    fn returned(&self, result: usize) -> impl Iterator<Item = ir::Value> {
        let func = self.func;
        self.cfg.blocks.iter().filter_map(move |&b| {
            let last = func.layout.last_inst(b)?;
            (func.dfg.insts[last].opcode() == Opcode::Return).then(|| func.dfg.inst_args(last)[result])
        })
    }

    /// Whether a result may be bits that were read from memory.
    fn reads_bits(&self, result: usize) -> bool {
        let Self { program, func, cfg, all } = *self;
        if func.signature.returns[result].value_type.lane_type().is_float() {
            return false;
        }
        // Values, and whether they are returned as they are.
        let mut work: Vec<(ir::Value, bool)> = self.returned(result).map(|v| (v, true)).collect();
        let mut seen = [EntitySet::new(), EntitySet::new()];
        while let Some((v, unchanged)) = work.pop() {
            let v = func.dfg.resolve_aliases(v);
            if !seen[usize::from(unchanged)].insert(v) {
                continue;
            }
            let inst = match func.dfg.value_def(v) {
                ValueDef::Param(b, i) => {
                    work.extend(cfg.incoming(b, i).map(|x| (x, unchanged)));
                    continue;
                }
                ValueDef::Result(inst, _) => inst,
                ValueDef::Union(..) => return true,
            };
            let args = func.dfg.inst_args(inst);
            let op = func.dfg.insts[inst].opcode();
            let ty = func.dfg.value_type(v);
            match opcode_rule(op) {
                OpcodeRule::Structural(Structural::IntLoad) => return true,
                OpcodeRule::Structural(Structural::Load | Structural::AtomicLoad)
                    if (unchanged || ty.bytes() < 4) && !ty.lane_type().is_float() =>
                {
                    return true;
                }
                OpcodeRule::Structural(Structural::Call) => {
                    if let Some(CalleeKind::Derived(f)) = CalleeKind::of(program, func, inst) {
                        let k = func.dfg.inst_results(inst).iter().position(|&r| r == v);
                        if k.and_then(|k| all.get(&f)?.get(k)).is_none_or(|made| made.bits) {
                            return true;
                        }
                        work.extend(args.iter().map(|&a| (a, false)));
                    }
                }
                _ if let Some(from) = bytes_of(func, inst) => work.extend(from.iter().map(|b| (b.of, unchanged))),
                OpcodeRule::Structural(Structural::Select) => work.extend(args[1..].iter().map(|&a| (a, unchanged))),
                OpcodeRule::Structural(Structural::Bitcast) => work.extend(args.iter().map(|&a| (a, unchanged))),
                OpcodeRule::Structural(_) if op.can_load() || op.other_side_effects() => {}
                _ if leaves_exponent(func, cfg, inst) => {}
                OpcodeRule::Structural(_) | OpcodeRule::NotFloat => work.extend(args.iter().map(|&a| (a, false))),
                _ => {}
            }
        }
        false
    }

    /// What an instruction makes a result from.
    fn operands(&self, inst: ir::Inst, result: usize) -> Operands {
        let Self { program, func, all, .. } = *self;
        let args = func.dfg.inst_args(inst);
        let op = func.dfg.insts[inst].opcode();
        let of = |known: &[ir::Value], others| Operands { known: known.to_vec(), others };
        if op.is_call() {
            return match CalleeKind::of(program, func, inst) {
                Some(CalleeKind::Known(rule)) => match rule.kind {
                    MathKind::Expr(_) => of(args, false),
                    MathKind::Inactive => of(&[], false),
                    MathKind::Writes(..) | MathKind::Memory(_) => of(&[], true),
                },
                Some(CalleeKind::Derived(f)) => match all.get(&f).and_then(|all| all.get(result)) {
                    Some(Provenance { from, through, .. }) => Operands {
                        known: through.iter().map(|&i| args[i]).collect(),
                        others: *from == Sources::Anything,
                    },
                    None => of(&[], true),
                },
                _ => of(&[], true),
            };
        }
        match opcode_rule(op) {
            _ if op.can_load() || op.other_side_effects() => of(&[], true),
            OpcodeRule::Zero => of(&[], false),
            _ if leaves_exponent(func, self.cfg, inst) && bytes_of(func, inst).is_none() => of(&[], false),
            _ => of(args, false),
        }
    }
}
