//! The pair of steps of a loop: states are kept, steps run again from them.
//!
//! **Problem.** A pair that is made of a loop records in each step what the step's reverse needs:
//! gigabytes for a million steps.
//!
//! **Answer.** The forward pass runs steps as they are, and lets the run time keep some of the
//! states between them (`brolga_runtime::loops`). The pullback runs steps again, from a state that
//! was kept to the one before the steps that are reversed next, and calls the *combined* function
//! of those, which records one block of steps at a time:
//!
//! ```text
//! f__forward(p…, δ…, seg)                         f__pullback(seg)
//!     run = loop_begin(seg, cells of p…, δ…)          run = loop_reverse(seg); p…, δ… = cells of run
//!     at = from                                       loop: switch loop_next(seg, run)
//!     while (to = loop_forward(seg, run, at)) != at     1: f(p… with the steps of run)
//!         if run.taped                                  2: g__gradient(p… with these, δ…, seg)
//!             g__forward(p… with at..to, δ…, seg)       3: g__pullback(seg)
//!         else                                          0: return
//!             f(p… with at..to)
//!         at = to
//!     return
//! ```
//!
//! `g` is what the body of `f` calls: the steps as an ordinary loop. Of a loop that fits its budget
//! the forward pass records all steps.
//!
//! **Invariants.** A step is not inlined into the combined function, so that what it adds to
//! shadows does not depend on which steps are a block: all schedules give the same bits.
//!
//! **Source.** A. Griewank, A. Walther: Algorithm 799 (revolve). ACM Transactions on Mathematical
//! Software 26 (2000).

use brolga_analysis::{ParamMode, Preserved, Variant};
use brolga_ir::driver::{StepsDriver, run};
use brolga_ir::inst::Check;
use brolga_ir::names::Names;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Signature, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Switch};

use super::build::{begin, bounds, call_of, cells_at, empty, helper, trap_if};
use crate::assemble::combined::signature;
use crate::derived::PairSymbols;
use crate::facts::Context;
use crate::program::variants::Worklist;
use crate::translate::stmt::Callees;

/// A template under construction.
struct Template<'t, 'n> {
    cx: Context<'t>,
    of: &'t StepsDriver,
    variant: &'t Variant,
    names: &'n mut Names,
}

/// Forward pass and pullback.
pub(super) fn pair(
    cx: Context<'_>,
    variant: &Variant,
    of: &StepsDriver,
    symbols: &PairSymbols,
    work: &mut Worklist<'_>,
    names: &mut Names,
) -> (ir::Function, ir::Function) {
    let func = cx.program.func(&of.steps).expect("the body calls it");
    let some = Variant { func, preserved: Preserved::NOTHING, ..variant.clone() };
    let (pair, gradient) = (work.exactly(some.clone()), work.joint(some));
    let mut this = Template { cx, of, variant, names };
    (this.forward(&symbols.forward, &pair.forward), this.pullback(&symbols.pullback, &pair.pullback, &gradient))
}

impl Template<'_, '_> {
    fn primal(&self) -> &Signature {
        &self.cx.program.funcs[self.variant.func].signature
    }

    /// How many parameters of the primal there are, and how many with their deltas.
    fn counts(&self) -> (usize, usize) {
        let n = self.primal().params.len();
        (n, n + self.variant.params.iter().filter(|p| matches!(p, ParamMode::Dup { .. })).count())
    }

    fn forward(&mut self, symbol: &str, of_steps: &str) -> ir::Function {
        let sig = self.variant.forward_signature(self.primal());
        let mut func = empty(self.names, symbol, sig.clone());
        let mut fcx = FunctionBuilderContext::new();
        let (mut b, given) = begin(&mut func, &mut fcx);
        let (seg, given) = given.split_last().expect("there is a segment");
        let run = self.begin_run(&mut b, *seg, given);
        let [head, body, taped, plain, behind, end] = [(); 6].map(|()| b.create_block());
        let at = b.append_block_param(head, types::I64);
        let returns: Vec<ir::Type> = self.primal().returns.iter().map(|r| r.value_type).collect();
        let next: Vec<ir::Value> = returns.iter().map(|&ty| b.append_block_param(behind, ty)).collect();
        b.ins().jump(head, &[given[self.of.from].into()]);
        b.switch_to_block(head);
        let to = helper(self.cx, &mut b, self.names, "brolga_loop_forward", &[*seg, run, at]);
        let full = b.ins().icmp_imm_s(IntCC::Equal, to, run::NO_ROOM);
        trap_if(&mut b, full, Check::TapeFull);
        let fault = b.ins().icmp(IntCC::SignedLessThan, to, at);
        trap_if(&mut b, fault, Check::TimeLoop);
        let done = b.ins().icmp(IntCC::Equal, to, at);
        b.ins().brif(done, end, &[], body, &[]);
        b.switch_to_block(body);
        let recorded = b.ins().load(types::I64, MemFlagsData::trusted(), run, run::TAPED);
        b.ins().brif(recorded, taped, &[], plain, &[]);
        b.switch_to_block(taped);
        let mut args = given.to_vec();
        (args[self.of.from], args[self.of.to]) = (at, to);
        args.push(*seg);
        let results = call_of(&mut b, self.names, of_steps, sig, &args);
        b.ins().jump(behind, &results.iter().map(|&v| v.into()).collect::<Vec<_>>());
        b.switch_to_block(plain);
        let results = self.steps(&mut b, given, (at, to));
        b.ins().jump(behind, &results.iter().map(|&v| v.into()).collect::<Vec<_>>());
        b.switch_to_block(behind);
        match next[..] {
            [next, more] => {
                let zero = b.ins().icmp_imm_s(IntCC::Equal, more, 0);
                let ended = b.ins().uextend(types::I64, zero);
                b.ins().store(MemFlagsData::trusted(), ended, run, run::ENDED);
                b.ins().jump(head, &[next.into()]);
            }
            _ => {
                b.ins().jump(head, &[to.into()]);
            }
        }
        b.switch_to_block(end);
        let results: Vec<ir::Value> = if self.primal().returns.is_empty() {
            vec![]
        } else {
            let ended = b.ins().load(types::I64, MemFlagsData::trusted(), run, run::ENDED);
            vec![at, b.ins().icmp_imm_s(IntCC::Equal, ended, 0)]
        };
        b.ins().return_(&results);
        b.seal_all_blocks();
        b.finalize(self.cx.isa.frontend_config());
        func
    }

    /// The run that begins with these parameters and deltas.
    fn begin_run(&mut self, b: &mut FunctionBuilder<'_>, seg: ir::Value, given: &[ir::Value]) -> ir::Value {
        let budget = b.ins().iconst(types::I64, self.cx.options.memory_budget as i64);
        let mut cells = vec![given[self.of.from], given[self.of.to], budget];
        debug_assert_eq!(cells.len(), run::HEAD);
        for part in &self.of.state {
            cells.extend(bounds(b, part, given));
        }
        cells.extend(given);
        let ends = !self.primal().returns.is_empty();
        let shape = cells.len() | self.of.state.len() << 16 | usize::from(ends) << 32;
        let (at, shape) = (cells_at(b, &cells), b.ins().iconst(types::I64, shape as i64));
        let run = helper(self.cx, b, self.names, "brolga_loop_begin", &[seg, at, shape]);
        let fault = b.ins().icmp_imm_s(IntCC::Equal, run, 0);
        trap_if(b, fault, Check::TimeLoop);
        run
    }

    fn pullback(&mut self, symbol: &str, of_steps: &str, gradient: &str) -> ir::Function {
        let mut func = empty(self.names, symbol, self.variant.pullback_signature(self.primal()));
        let mut fcx = FunctionBuilderContext::new();
        let (mut b, params) = begin(&mut func, &mut fcx);
        let seg = params[0];
        let zero = b.ins().iconst(types::I64, 0);
        let run = helper(self.cx, &mut b, self.names, "brolga_loop_reverse", &[seg, zero, zero]);
        let fault = b.ins().icmp_imm_s(IntCC::Equal, run, 0);
        trap_if(&mut b, fault, Check::TimeLoop);
        let given = self.given(&mut b, run);
        let [head, again, steps, recorded, end] = [(); 5].map(|()| b.create_block());
        b.ins().jump(head, &[]);
        b.switch_to_block(head);
        let next = helper(self.cx, &mut b, self.names, "brolga_loop_next", &[seg, run, zero]);
        let fault = b.ins().icmp_imm_s(IntCC::UnsignedGreaterThan, next, 3);
        trap_if(&mut b, fault, Check::TimeLoop);
        let flags = MemFlagsData::trusted();
        let limits = [run::FROM, run::TO].map(|at| b.ins().load(types::I64, flags, run, at));
        let mut switch = Switch::new();
        [again, steps, recorded].into_iter().enumerate().for_each(|(i, to)| switch.set_entry(i as u128 + 1, to));
        switch.emit(&mut b, next, end);
        b.switch_to_block(again);
        self.steps(&mut b, &given, limits.into());
        b.ins().jump(head, &[]);
        b.switch_to_block(steps);
        let (forward, back) =
            (self.variant.forward_signature(self.primal()), self.variant.pullback_signature(self.primal()));
        let mut args = given;
        [args[self.of.from], args[self.of.to]] = limits;
        args.push(seg);
        let cotangents = call_of(&mut b, self.names, gradient, signature(&forward, &back, 0), &args);
        none_arrives(&mut b, cotangents);
        b.ins().jump(head, &[]);
        b.switch_to_block(recorded);
        let cotangents = call_of(&mut b, self.names, of_steps, back.clone(), &[seg]);
        none_arrives(&mut b, cotangents);
        b.ins().jump(head, &[]);
        b.switch_to_block(end);
        let none: Vec<ir::Value> = back.returns.iter().map(|r| b.ins().iconst(r.value_type, 0)).collect();
        b.ins().return_(&none);
        b.seal_all_blocks();
        b.finalize(self.cx.isa.frontend_config());
        func
    }

    /// What the forward pass was given, but for the segment.
    fn given(&self, b: &mut FunctionBuilder<'_>, run: ir::Value) -> Vec<ir::Value> {
        let flags = MemFlagsData::trusted();
        let cells = b.ins().load(types::I64, flags, run, run::CELLS);
        let first = run::HEAD + 2 * self.of.state.len();
        let (own, all) = self.counts();
        let types: Vec<ir::Type> = self.primal().params.iter().map(|p| p.value_type).collect();
        let load = |k: usize| {
            let ty = if k < own { types[k] } else { types::I64 };
            let whole = b.ins().load(types::I64, flags, cells, 8 * (first + k) as i32);
            if ty == types::I64 { whole } else { b.ins().ireduce(ty, whole) }
        };
        (0..all).map(load).collect()
    }

    /// Run steps as they are.
    fn steps(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        given: &[ir::Value],
        (from, to): (ir::Value, ir::Value),
    ) -> Vec<ir::Value> {
        let func = &self.cx.program.funcs[self.variant.func];
        let mut args = given[..func.signature.params.len()].to_vec();
        (args[self.of.from], args[self.of.to]) = (from, to);
        call_of(b, self.names, &func.symbol, func.signature.clone(), &args)
    }
}

/// Trap if words that may be bits of floats have cotangents: none of them is a float that steps
/// are given.
fn none_arrives(b: &mut FunctionBuilder<'_>, cotangents: Vec<ir::Value>) {
    for ct in cotangents {
        let arrives = b.ins().icmp_imm_s(IntCC::NotEqual, ct, 0);
        trap_if(b, arrives, Check::UntrackedBits);
    }
}
