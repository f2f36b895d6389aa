//! Usefulness: activity analysis backwards, what an output depends on.
//!
//! **Question.** Of the values that vary, from which does a derivative reach an output?
//!
//! **Answer.** A value is useful if a use of it is: a return of an active result, a store whose
//! place has a shadow, a call that takes floats, an instruction with a useful result and a partial
//! by this operand that is not zero. Blocks are looked at backwards until nothing more becomes
//! useful; one is looked at again if something that is made of its values has become useful.
//!
//! ```text
//! v2 = fmul v0, v0        useful: v3 is
//! v3 = fadd v2, v1        useful: returned
//! v4 = fsqrt v0           not: it is compared only
//! v5 = fcmp lt v4, v1
//! ```
//!
//! **Cost.** A walk over the function, and one more over the blocks of each loop for each time that
//! usefulness goes round it.
//!
//! **Source.** Hascoët and Pascual, *The Tapenade automatic differentiation tool* (2013).

use brolga_rules::{MathKind, OpcodeRule, Structural, opcode_rule};
use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::SecondaryMap;

use super::answer::{MemRole, State};
use super::context::ActivityCx;
use crate::query::callee::CalleeKind;
use crate::uses::Use;
use crate::variant::ResultMode;

impl ActivityCx<'_> {
    /// Backwards: what an output depends on.
    pub(super) fn usefulness(&mut self) {
        let (func, cfg) = (self.input.func, self.input.cfg);
        // A block is looked at again if something that is made of its values has become useful.
        let mut open: SecondaryMap<ir::Block, bool> = SecondaryMap::with_default(true);
        open.resize(func.dfg.num_blocks());
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for &b in cfg.blocks.iter().rev() {
                if !std::mem::take(&mut open[b]) {
                    continue;
                }
                for &inst in cfg.insts(b).iter().rev() {
                    for &v in func.dfg.inst_results(inst) {
                        if self.mark(v) {
                            changed = true;
                            let args = func.dfg.inst_args(inst).iter();
                            args.filter_map(|&a| cfg.def_block[a]).for_each(|b| open[b] = true);
                        }
                    }
                }
                for (i, &v) in func.dfg.block_params(b).iter().enumerate() {
                    if self.mark(v) {
                        changed = true;
                        cfg.incoming(b, i).filter_map(|a| cfg.def_block[a]).for_each(|b| open[b] = true);
                    }
                }
            }
        }
        debug_assert!(self.input.func.dfg.values().all(|v| !self.is_missed(v)), "a block was not looked at again");
    }

    /// Whether a value is useful, and has not been marked.
    fn is_missed(&self, v: ir::Value) -> bool {
        self.answer.state[v] != State::No && !self.useful.contains(v) && self.is_used(v)
    }

    pub(super) fn mark(&mut self, v: ir::Value) -> bool {
        self.is_missed(v) && self.useful.insert(v)
    }

    fn is_used(&self, v: ir::Value) -> bool {
        self.input.uses.of(v).iter().any(|&u| match u {
            Use::Edge(_, p) => self.useful.contains(p) && self.leads_on(v, p),
            Use::Inst(i, n) => self.use_is_useful(i, n, v),
        })
    }

    /// Whether a cotangent of a result would be one of an operand: those of pieces end where the
    /// pieces do.
    fn leads_on(&self, v: ir::Value, result: ir::Value) -> bool {
        !self.answer.pieces.contains(v)
            || self.answer.pieces.contains(result)
            || self.is_float(result)
            || self.answer.is_varied(result)
    }

    pub(super) fn use_is_useful(&self, inst: ir::Inst, n: usize, v: ir::Value) -> bool {
        let func = self.input.func;
        let op = func.dfg.insts[inst].opcode();
        let result_useful = |k: usize| func.dfg.inst_results(inst).get(k).is_some_and(|&r| self.useful.contains(r));
        let any_result = || func.dfg.inst_results(inst).iter().any(|&r| self.useful.contains(r));
        match opcode_rule(op) {
            OpcodeRule::Expr(row) => !row.partial(0, n).is_zero() && result_useful(0),
            OpcodeRule::Zero | OpcodeRule::NotFloat => any_result(),
            OpcodeRule::Refused(_) => false,
            OpcodeRule::Structural(s) => match s {
                Structural::Store | Structural::IntStore | Structural::AtomicStore => {
                    n == 0 && matches!(self.answer.mem[inst], MemRole::Float(_))
                }
                Structural::Control => {
                    op == Opcode::Return
                        && matches!(self.input.results[n], ResultMode::Active | ResultMode::Unit | ResultMode::Bits(_))
                }
                Structural::CallIndirect if n == 0 => false,
                Structural::Call | Structural::CallIndirect => match CalleeKind::of(self.input.program, func, inst) {
                    Some(CalleeKind::Known(rule)) => match rule.kind {
                        MathKind::Expr(ref row) => !row.partial(0, n).is_zero() && result_useful(0),
                        MathKind::Writes(ref row, _) => (0..row.n_results()).any(|k| !row.partial(k, n).is_zero()),
                        _ => false,
                    },
                    Some(CalleeKind::Computes(rule)) => match rule.kind {
                        MathKind::Expr(ref row) => {
                            let is_operand = (1..=rule.params.len()).contains(&n);
                            is_operand && !row.partial(0, n - 1).is_zero() && result_useful(0)
                        }
                        _ => false,
                    },
                    Some(callee @ (CalleeKind::Derived(_) | CalleeKind::Indirect(_))) => {
                        let moved = match callee {
                            CalleeKind::Derived(f) => {
                                let s = self.input.summaries;
                                self.answer.pieces.contains(v) && (s.hands_on(f, n) || s.demands(f, n).is_some())
                            }
                            _ => false,
                        };
                        self.is_float(v) || self.answer.lane[v] != 0 || moved || any_result()
                    }
                    _ => false,
                },
                Structural::Select => n > 0 && result_useful(0),
                _ => func.dfg.inst_results(inst).iter().any(|&r| self.useful.contains(r) && self.leads_on(v, r)),
            },
        }
    }
}
