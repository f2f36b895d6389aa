//! The pair of steps of a loop: states are kept, steps run again from them.
//!
//! **Problem.** A pair that is made of a loop records in each step what the step's reverse needs:
//! gigabytes for a million steps.
//!
//! **Answer.** The forward pass runs steps as they are, and lets the run time keep some of the
//! states between them (`brolga_runtime::states::loops`). The pullback runs steps again, from a
//! state that was kept to the one before the steps that are reversed next, and calls the *combined*
//! function of those, which records one block of steps at a time:
//!
//! ```text
//! f__forward(p…, δ…, seg) -> (r…)                 f__pullback(seg, r̄…) -> (p̄…)
//!     run = loop_begin(seg, words of p…, δ…)          run = loop_reverse(seg); p…, δ… = words of run
//!     values of run = p… that are handed on           cotangents of run = r̄…
//!     at = from                                       loop: switch loop_next(seg, run)
//!     while loop_forward(seg, run, at)                  1: r… = f(p… with the steps of run)
//!         if run.taped                                  2: p̄… = g__gradient(p… with these, δ…, seg, r̄…)
//!             r… = g__forward(p… with these, δ…, seg)   3: p̄… = g__pullback(seg, r̄…)
//!         else                                          0: return p̄…
//!             r… = f(p… with the steps of run)
//!         at = next step
//!     return r…
//! ```
//!
//! `g` is what the body of `f` calls: the steps as an ordinary loop. Of a loop that fits its budget
//! the forward pass records all steps. What steps hand on, and its cotangents, lie in the run
//! between two calls.
//!
//! **Invariants.** A step is not inlined into the combined function, so that what it adds to
//! shadows and cotangents does not depend on which steps are a block: all schedules give the same
//! bits. What the step before is given back replaces what the steps after it were: cotangents of
//! all floats are handed on, also of those that no step changes.
//!
//! **Cost.** In the run the steps that the schedule runs again (`brolga_schedules`), and two calls
//! of the run time for each step or run of steps.
//!
//! **Source.** A. Griewank, A. Walther: Algorithm 799 (revolve). ACM Transactions on Mathematical
//! Software 26 (2000).

use brolga_analysis::summary::Sources;
use brolga_analysis::variant::combined_signature;
use brolga_analysis::{ParamMode, PreservedMemory, ResultMode, Variant};
use brolga_ir::driver::{StepsDriver, run};
use brolga_ir::inst::{Check, Shape};
use brolga_ir::lower::zero;
use brolga_ir::names::Names;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Signature, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Switch};

use super::build::{begin, bounds, call_of, empty, helper, trap_if, words_at};
use crate::derived::PairSymbols;
use crate::facts::Context;
use crate::program::variants::Worklist;
use crate::translate::stmt::Callees;

/// A template under construction.
struct StepsTemplate<'t, 'n> {
    cx: Context<'t>,
    of: &'t StepsDriver,
    variant: &'t Variant,
    /// The variant of the steps that run together.
    some: Variant,
    names: &'n mut Names,
}

/// Forward pass and pullback, if states can be kept.
pub(super) fn pair(
    cx: Context<'_>,
    variant: &Variant,
    of: &StepsDriver,
    symbols: &PairSymbols,
    work: &mut Worklist<'_>,
    names: &mut Names,
) -> Option<(ir::Function, ir::Function)> {
    let some = of_steps(cx, variant, of)?;
    let (pair, gradient) = (work.exactly(some.clone()), work.joint(some.clone()));
    let mut this = StepsTemplate { cx, of, variant, some, names };
    Some((this.forward(&symbols.forward, &pair.forward), this.pullback(&symbols.pullback, &pair.pullback, &gradient)))
}

/// The variant of steps that run together; none if states cannot be kept for them. What a step
/// hands on to the next is active if it is a float, whatever the first step is given. A pointer is
/// computed from the one that the step is given, so that its shadow is as far away. An integer may
/// be the bits of a float, if that is one for all steps.
fn of_steps(cx: Context<'_>, variant: &Variant, of: &StepsDriver) -> Option<Variant> {
    let func = cx.program.func(&of.steps).expect("the body calls it");
    let sig = &cx.program.funcs[variant.func].signature;
    let is_pointer = |p: usize| matches!(variant.params[p], ParamMode::Dup { .. });
    let mut some = Variant { func, preserved: PreservedMemory::NOTHING, ..variant.clone() };
    for (i, &p) in of.carried.iter().enumerate() {
        let ty = sig.params[p].value_type;
        if Shape::of_float(ty).is_some() {
            (some.params[p], some.results[i]) = (ParamMode::Active, ResultMode::Active);
            continue;
        }
        some.results[i] = ResultMode::None;
        let from = cx.summaries.sources(func, i);
        match from {
            Sources::Params(from) if is_pointer(p) => {
                let of_it_alone = from.contains(&p) && from.iter().all(|&q| q == p || !is_pointer(q));
                of_it_alone.then_some(())?;
                continue;
            }
            Sources::Params(from) if from.iter().any(|&q| is_pointer(q)) && !cx.program.vmctx_pointers_only => {
                return None;
            }
            Sources::Params(from) if from.iter().all(|&q| variant.params[q] == ParamMode::Const || is_pointer(q)) => {
                continue;
            }
            // Where any word of memory may be a pointer.
            Sources::Anything if !cx.program.vmctx_pointers_only && ty == types::I64 => return None,
            _ => {}
        }
        let handed_on = cx.summaries.hands_on(func, p) || cx.summaries.demands(func, p).is_some();
        some.params[p] = match (ty, cx.summaries.param_lane(func, p)) {
            (types::I64, 8) => ParamMode::Bits { shape: Shape::F64, definite: false },
            (types::I32, 4) => ParamMode::Bits { shape: Shape::F32, definite: false },
            // An address in memory that is one piece is no float, wherever it goes.
            (_, 0) if !handed_on || cx.summaries.is_offset(func, p) => ParamMode::Opaque { definite: false },
            _ => return None,
        };
        if let ParamMode::Bits { shape, .. } = some.params[p] {
            some.results[i] = ResultMode::Bits(shape);
        }
    }
    let result = |(i, r): (usize, &ResultMode)| match r {
        ResultMode::Active | ResultMode::None => true,
        ResultMode::Ptr => of.carried.get(i).is_some_and(|&p| is_pointer(p)),
        ResultMode::Unit | ResultMode::Bits(_) => false,
    };
    let given = cx.options.keeps_states() && variant.takes_words();
    (given && variant.results.iter().enumerate().all(result)).then_some(some)
}

impl StepsTemplate<'_, '_> {
    fn primal(&self) -> &Signature {
        &self.cx.program.funcs[self.variant.func].signature
    }

    /// How many parameters of the primal there are, and how many with their deltas.
    fn counts(&self) -> (usize, usize) {
        let n = self.primal().params.len();
        (n, n + self.variant.params.iter().filter(|p| matches!(p, ParamMode::Dup { .. })).count())
    }

    /// Results that lie in the run: all but the number of the next step and whether the
    /// loop has ended.
    fn values(&self) -> usize {
        self.primal().returns.len().saturating_sub(2)
    }

    fn forward(&mut self, symbol: &str, of_steps: &str) -> ir::Function {
        let mut func = empty(self.names, symbol, self.variant.forward_signature(self.primal()));
        let mut fcx = FunctionBuilderContext::new();
        let (mut b, given) = begin(&mut func, &mut fcx);
        let (seg, given) = given.split_last().expect("there is a segment");
        let run = self.begin_run(&mut b, *seg, given);
        let [head, body, taped, plain, end] = [(); 5].map(|()| b.create_block());
        let at = b.append_block_param(head, types::I64);
        b.ins().jump(head, &[given[self.of.from].into()]);
        b.switch_to_block(head);
        let told = helper(self.cx, &mut b, self.names, "brolga_loop_forward", &[*seg, run, at]);
        let full = b.ins().icmp_imm_s(IntCC::Equal, told, run::NO_ROOM);
        trap_if(&mut b, full, Check::TapeFull);
        let fault = b.ins().icmp_imm_s(IntCC::UnsignedGreaterThan, told, run::NO_ROOM);
        trap_if(&mut b, fault, Check::TimeLoop);
        b.ins().brif(told, body, &[], end, &[]);
        b.switch_to_block(body);
        let recorded = field(&mut b, run, run::TAPED);
        let args = self.next_steps(&mut b, given, run);
        b.ins().brif(recorded, taped, &[], plain, &[]);
        b.switch_to_block(taped);
        let sig = self.some.forward_signature(self.primal());
        let results = call_of(&mut b, self.names, of_steps, sig, &[&args[..], &[*seg]].concat());
        let next = self.hand_on(&mut b, run, &results);
        b.ins().jump(head, &[next.into()]);
        b.switch_to_block(plain);
        let results = self.steps(&mut b, &args);
        let next = self.hand_on(&mut b, run, &results);
        b.ins().jump(head, &[next.into()]);
        b.switch_to_block(end);
        let results = self.results(&mut b, run, (at, given));
        b.ins().return_(&results);
        b.seal_all_blocks();
        b.finalize(self.cx.isa.frontend_config());
        func
    }

    /// The run that begins with these parameters and deltas.
    fn begin_run(&mut self, b: &mut FunctionBuilder<'_>, seg: ir::Value, given: &[ir::Value]) -> ir::Value {
        let budget = self.of.budget.unwrap_or(self.cx.options.memory_budget as u64);
        let counts = [budget as i64, self.of.carried.len() as i64, self.values() as i64];
        let mut words = vec![given[self.of.from], given[self.of.to]];
        words.extend(counts.map(|n| b.ins().iconst(types::I64, n)));
        debug_assert_eq!(words.len(), run::HEAD);
        for part in &self.of.state {
            words.extend(bounds(b, part, given));
            words.push(b.ins().iconst(types::I64, part.length.kind() as i64));
        }
        // What is handed on has places of its own.
        let zero = b.ins().iconst(types::I64, 0);
        words.extend(given.iter().enumerate().map(|(i, &v)| if self.of.carried.contains(&i) { zero } else { v }));
        let shape = words.len() | self.of.state.len() << 16 | usize::from(!self.of.counted) << 32;
        let (at, shape) = (words_at(b, &words), b.ins().iconst(types::I64, shape as i64));
        let run = helper(self.cx, b, self.names, "brolga_loop_begin", &[seg, at, shape]);
        let fault = b.ins().icmp_imm_s(IntCC::Equal, run, 0);
        trap_if(b, fault, Check::TimeLoop);
        if !self.of.carried.is_empty() {
            let values = field(b, run, run::VALUES);
            self.of.carried.iter().enumerate().for_each(|(i, &p)| put(b, values, i, given[p]));
        }
        run
    }

    /// What the steps that are next are given: the limits of the run, and what was handed on.
    fn next_steps(&self, b: &mut FunctionBuilder<'_>, given: &[ir::Value], run: ir::Value) -> Vec<ir::Value> {
        let mut args = given.to_vec();
        [args[self.of.from], args[self.of.to]] = [run::FROM, run::TO].map(|at| field(b, run, at));
        if !self.of.carried.is_empty() {
            let values = field(b, run, run::VALUES);
            for (i, &p) in self.of.carried.iter().enumerate() {
                args[p] = take(b, values, i, self.primal().params[p].value_type);
            }
        }
        args
    }

    /// Keep the results of some steps; the number of the next one.
    fn hand_on(&self, b: &mut FunctionBuilder<'_>, run: ir::Value, results: &[ir::Value]) -> ir::Value {
        let n = self.values();
        if n > 0 {
            let values = field(b, run, run::VALUES);
            results[..n].iter().enumerate().for_each(|(i, &v)| put(b, values, i, v));
        }
        let [next, ended, ..] = results[n..] else { return field(b, run, run::TO) };
        let ended = b.ins().uextend(types::I64, ended);
        b.ins().store(MemFlagsData::trusted(), ended, run, run::ENDED);
        next
    }

    /// The results of all steps, and the deltas of pointers among them.
    fn results(
        &self,
        b: &mut FunctionBuilder<'_>,
        run: ir::Value,
        (at, given): (ir::Value, &[ir::Value]),
    ) -> Vec<ir::Value> {
        let returns: Vec<ir::Type> = self.primal().returns.iter().map(|r| r.value_type).collect();
        let Some((&ended, _)) = returns.split_last() else { return Vec::new() };
        let values = field(b, run, run::VALUES);
        let mut results: Vec<_> = (0..self.values()).map(|i| take(b, values, i, returns[i])).collect();
        let code = field(b, run, run::ENDED);
        results.extend([at, b.ins().ireduce(ended, code)]);
        let is_dup = |p: &ParamMode| matches!(p, ParamMode::Dup { .. });
        let (primal_count, modes) = (self.counts().0, &self.variant.params);
        for (i, _) in self.variant.results.iter().enumerate().filter(|r| *r.1 == ResultMode::Ptr) {
            let before = modes[..self.of.carried[i]].iter().filter(|p| is_dup(p)).count();
            results.push(given[primal_count + before]);
        }
        results
    }

    fn pullback(&mut self, symbol: &str, of_steps: &str, gradient: &str) -> ir::Function {
        let mut func = empty(self.names, symbol, self.variant.pullback_signature(self.primal()));
        let mut fcx = FunctionBuilderContext::new();
        let (mut b, params) = begin(&mut func, &mut fcx);
        let (seg, seeds) = (params[0], &params[1..]);
        let zero = b.ins().iconst(types::I64, 0);
        let run = helper(self.cx, &mut b, self.names, "brolga_loop_reverse", &[seg, zero, zero]);
        let fault = b.ins().icmp_imm_s(IntCC::Equal, run, 0);
        trap_if(&mut b, fault, Check::TimeLoop);
        let given = self.given(&mut b, run);
        self.seed(&mut b, run, seeds);
        let [head, rerun, steps, recorded, end] = [(); 5].map(|()| b.create_block());
        b.ins().jump(head, &[]);
        b.switch_to_block(head);
        let next = helper(self.cx, &mut b, self.names, "brolga_loop_next", &[seg, run, zero]);
        let fault = b.ins().icmp_imm_s(IntCC::UnsignedGreaterThan, next, 3);
        trap_if(&mut b, fault, Check::TimeLoop);
        let mut switch = Switch::new();
        [rerun, steps, recorded].into_iter().enumerate().for_each(|(i, to)| switch.set_entry(i as u128 + 1, to));
        switch.emit(&mut b, next, end);
        b.switch_to_block(rerun);
        let args = self.next_steps(&mut b, &given, run);
        let results = self.steps(&mut b, &args);
        self.hand_on(&mut b, run, &results);
        b.ins().jump(head, &[]);
        b.switch_to_block(steps);
        let mut args = self.next_steps(&mut b, &given, run);
        args.push(seg);
        args.extend(self.cotangents(&mut b, run));
        let (forward, back) = (self.some.forward_signature(self.primal()), self.some.pullback_signature(self.primal()));
        let found = call_of(&mut b, self.names, gradient, combined_signature(&forward, &back, 0), &args);
        self.hand_back(&mut b, run, &found);
        b.ins().jump(head, &[]);
        b.switch_to_block(recorded);
        let mut args = vec![seg];
        args.extend(self.cotangents(&mut b, run));
        let found = call_of(&mut b, self.names, of_steps, back, &args);
        self.hand_back(&mut b, run, &found);
        b.ins().jump(head, &[]);
        b.switch_to_block(end);
        let found = self.of_params(&mut b, run);
        b.ins().return_(&found);
        b.seal_all_blocks();
        b.finalize(self.cx.isa.frontend_config());
        func
    }

    /// Let the cotangents of results be those that the pullback is given.
    fn seed(&self, b: &mut FunctionBuilder<'_>, run: ir::Value, seeds: &[ir::Value]) {
        let mut seeds = seeds.iter();
        let given: Vec<usize> = self.variant.result_shapes(self.primal()).map(|r| r.0).collect();
        let values = field(b, run, run::COTANGENTS);
        for (i, shape) in self.some.result_shapes(self.primal()).collect::<Vec<_>>() {
            let seed = if given.contains(&i) { *seeds.next().expect("one each") } else { zero(b, shape.ty()) };
            put(b, values, i, seed);
        }
    }

    /// The cotangents of the results of the steps that are reversed next.
    fn cotangents(&self, b: &mut FunctionBuilder<'_>, run: ir::Value) -> Vec<ir::Value> {
        let values = field(b, run, run::COTANGENTS);
        self.some.result_shapes(self.primal()).map(|(i, shape)| take(b, values, i, shape.ty())).collect()
    }

    /// Let the cotangents of what steps were given be those of the results of the steps before
    /// them, which have no other results that anything depends on.
    fn hand_back(&self, b: &mut FunctionBuilder<'_>, run: ir::Value, found: &[ir::Value]) {
        let values = field(b, run, run::COTANGENTS);
        for ((p, _), &ct) in self.some.param_shapes(self.primal()).zip(found) {
            match self.of.carried.iter().position(|&q| q == p) {
                Some(i) => put(b, values, i, ct),
                None => none_arrives(b, ct),
            }
        }
        for (i, shape) in self.some.result_shapes(self.primal()).filter(|r| r.0 >= self.of.carried.len()) {
            let none = zero(b, shape.ty());
            put(b, values, i, none);
        }
    }

    /// The cotangents of parameters.
    fn of_params(&self, b: &mut FunctionBuilder<'_>, run: ir::Value) -> Vec<ir::Value> {
        let values = field(b, run, run::COTANGENTS);
        // What may be computed from a float's bits has no cotangent to take.
        for (p, shape) in self.some.param_shapes(self.primal()) {
            let i = self.of.carried.iter().position(|&q| q == p);
            if let (Some(i), ParamMode::Opaque { .. }) = (i, self.variant.params[p]) {
                let (ct, none) = (take(b, values, i, shape.ty()), zero(b, shape.ty()));
                let arrives = b.ins().fcmp(FloatCC::NotEqual, ct, none);
                trap_if(b, arrives, Check::UntrackedBits);
            }
        }
        let all = self.variant.param_shapes(self.primal());
        all.map(|(p, shape)| match self.of.carried.iter().position(|&q| q == p) {
            Some(i) if self.variant.params[p] == ParamMode::Active => take(b, values, i, shape.ty()),
            _ => zero(b, shape.ty()),
        })
        .collect()
    }

    /// What the forward pass was given, but for the segment.
    fn given(&self, b: &mut FunctionBuilder<'_>, run: ir::Value) -> Vec<ir::Value> {
        let words = field(b, run, run::WORDS);
        let first = run::HEAD + run::PART * self.of.state.len();
        let (primal_count, all) = self.counts();
        let types: Vec<ir::Type> = self.primal().params.iter().map(|p| p.value_type).collect();
        let load = |k: usize| {
            let ty = if k < primal_count { types[k] } else { types::I64 };
            let word = b.ins().load(types::I64, MemFlagsData::trusted(), words, 8 * (first + k) as i32);
            // What is handed on is not taken from here.
            if ty == types::I64 || self.of.carried.contains(&k) { word } else { b.ins().ireduce(ty, word) }
        };
        (0..all).map(load).collect()
    }

    /// Run steps as they are.
    fn steps(&mut self, b: &mut FunctionBuilder<'_>, args: &[ir::Value]) -> Vec<ir::Value> {
        let func = &self.cx.program.funcs[self.variant.func];
        let primal_args = &args[..func.signature.params.len()];
        call_of(b, self.names, &func.symbol, func.signature.clone(), primal_args)
    }
}

/// A word of a run.
fn field(b: &mut FunctionBuilder<'_>, run: ir::Value, at: i32) -> ir::Value {
    b.ins().load(types::I64, MemFlagsData::trusted(), run, at)
}

fn put(b: &mut FunctionBuilder<'_>, values: ir::Value, i: usize, v: ir::Value) {
    b.ins().store(MemFlagsData::trusted(), v, values, run::VALUE_BYTES * i as i32);
}

fn take(b: &mut FunctionBuilder<'_>, values: ir::Value, i: usize, ty: ir::Type) -> ir::Value {
    b.ins().load(ty, MemFlagsData::trusted(), values, run::VALUE_BYTES * i as i32)
}

/// Trap if a word that may be bits of a float has a cotangent: it is no float that steps are given.
fn none_arrives(b: &mut FunctionBuilder<'_>, ct: ir::Value) {
    let arrives = b.ins().icmp_imm_s(IntCC::NotEqual, ct, 0);
    trap_if(b, arrives, Check::UntrackedBits);
}
