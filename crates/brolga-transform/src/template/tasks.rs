//! The pair of a fork: tasks are entered by the run time.
//!
//! **Problem.** A pair that is made of a loop over tasks runs them one after the other, and records
//! all of them on one tape.
//!
//! **Answer.** The forward pass tells the run time what the tasks are given, and which function
//! enters the forward pass of one of them, with a tape of its own; the pullback asks for the
//! reverse:
//!
//! ```text
//! f__forward(p…, n, δ…, seg)                            f__pullback(seg)
//!     fork(seg, {enter_forward, enter_pullback,             join(seg)
//!                p…, δ…}, n)
//!
//! enter_forward(words of p…, δ…, t, seg)                enter_pullback(word of seg)
//!     task__forward(p…, t, δ…, seg)                         task__pullback(seg)
//! ```
//!
//! `brolga_runtime::forks` has the tapes. A fork in the primal is a join in its reverse: the call
//! is where both are, so control flow is reversed as that of any call.
//!
//! In forward mode a fork is a fork, whose tasks are entered in forward mode, and no record is left
//! of it. Each stores tangents where it stores floats, so tasks that do not race do not race then.
//!
//! **Invariant.** Tasks are those of the body, in its numbers, so that cotangents are.
//!
//! **Cost.** In the run one call of the run time for each half of a fork, and a guarded call for
//! each half of a task.
//!
//! **Source.** T. Smeding, M. Vákár: Parallel dual-numbers reverse AD. Journal of Functional
//! Programming (2025).

use brolga_analysis::{ParamMode, PreservedMemory, Variant};
use brolga_ir::inst::Check;
use brolga_ir::names::Names;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Signature, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::build::{begin, call_of, empty, helper, trap_if, words_at};
use crate::clif::entry_thunk::entry_signature;
use crate::derived::{PairSymbols, TaskEntry};
use crate::facts::Context;
use crate::program::variants::{VariantForm, Worklist};

/// How `brolga_fork` ends, in words of the run time; a test compares the two.
pub(crate) mod end {
    /// A task has trapped.
    pub(crate) const TRAPPED: i64 = 0;
    /// The tape has no room for the fork's record.
    pub(crate) const FULL: i64 = 2;
    /// There is no memory for pending sums.
    pub(crate) const LACKING: i64 = 3;
}

/// A template under construction.
struct TasksTemplate<'t, 'n> {
    cx: Context<'t>,
    variant: &'t Variant,
    /// That of a task: the same, with the number of a task in place of how many there are.
    task: Variant,
    names: &'n mut Names,
}

/// Forward pass, pullback, and what enters those of a task; none where the tasks are given
/// something that has a cotangent.
pub(super) fn pair(
    cx: Context<'_>,
    variant: &Variant,
    task: &str,
    symbols: &PairSymbols,
    work: &mut Worklist<'_>,
    names: &mut Names,
) -> Option<(ir::Function, ir::Function, Vec<TaskEntry>)> {
    // A user's adjoint reads shadows that it is given, and gathers nothing.
    let users = cx.program.funcs.values().any(|f| f.adjoint.is_some());
    if users || !passes_words(cx, variant) {
        return None;
    }
    let func = cx.program.func(task).expect("the body calls it");
    let of_task = Variant { func, strand: !cx.options.debug, ..variant.clone() };
    let pair = work.exactly(of_task.clone());
    let mut this = TasksTemplate { cx, variant, task: of_task, names };
    let [enter, leave] = [&symbols.forward, &symbols.pullback].map(|s| format!("{s}__task"));
    let entries = vec![this.enter_forward(enter, &pair.forward), this.enter_pullback(leave, &pair.pullback)];
    let forward = this.forward(&symbols.forward, &entries);
    Some((forward, this.pullback(&symbols.pullback), entries))
}

/// The function of forward mode, and what enters that of a task; none where the tasks are given
/// something that has a tangent.
pub(super) fn tangent(
    cx: Context<'_>,
    variant: &Variant,
    task: &str,
    symbol: &str,
    work: &mut Worklist<'_>,
    names: &mut Names,
) -> Option<(ir::Function, TaskEntry)> {
    if !passes_words(cx, variant) {
        return None;
    }
    let func = cx.program.func(task).expect("the body calls it");
    let of_task = Variant { func, preserved: PreservedMemory::NOTHING, ..variant.clone() };
    let tangent = work.ask(of_task.clone(), VariantForm::Tangent).combined();
    let mut this = TasksTemplate { cx, variant, task: of_task, names };
    let entries = [this.enter_forward(format!("{symbol}__task"), &tangent)];
    let func = this.forward(symbol, &entries);
    let [entry] = entries;
    Some((func, entry))
}

/// Whether tasks are given words alone, and have tapes of their own.
fn passes_words(cx: Context<'_>, variant: &Variant) -> bool {
    let primal = &cx.program.funcs[variant.func].signature;
    cx.options.keeps_states() && variant.param_shapes(primal).next().is_none() && variant.takes_words()
}

impl TasksTemplate<'_, '_> {
    fn primal(&self) -> &Signature {
        &self.cx.program.funcs[self.variant.func].signature
    }

    fn finish(&self, mut b: FunctionBuilder<'_>) {
        b.ins().return_(&[]);
        b.seal_all_blocks();
        b.finalize(self.cx.isa.frontend_config());
    }

    fn forward(&mut self, symbol: &str, entries: &[TaskEntry]) -> ir::Function {
        let mut func = empty(self.names, symbol, self.variant.forward_signature(self.primal()));
        let mut fcx = FunctionBuilderContext::new();
        let (mut b, mut given) = begin(&mut func, &mut fcx);
        let seg = given.pop().expect("there is a segment");
        let n = given.remove(self.primal().params.len() - 1);
        let mut words: Vec<ir::Value> = entries.iter().map(|e| self.address(&mut b, e)).collect();
        // Forward mode has no pullback.
        words.extend((entries.len() == 1).then(|| b.ins().iconst(types::I64, 0)));
        words.push(b.ins().iconst(types::I64, given.len() as i64));
        words.extend(given);
        let call = words_at(&mut b, &words);
        let n = word(&mut b, n);
        let ended = helper(self.cx, &mut b, self.names, "brolga_fork", &[seg, call, n]);
        let full = b.ins().icmp_imm_s(IntCC::Equal, ended, end::FULL);
        trap_if(&mut b, full, Check::TapeFull);
        has_ended(&mut b, ended);
        self.finish(b);
        func
    }

    fn pullback(&mut self, symbol: &str) -> ir::Function {
        let mut func = empty(self.names, symbol, self.variant.pullback_signature(self.primal()));
        let mut fcx = FunctionBuilderContext::new();
        let (mut b, given) = begin(&mut func, &mut fcx);
        let zero = b.ins().iconst(types::I64, 0);
        let ended = helper(self.cx, &mut b, self.names, "brolga_join", &[given[0], zero, zero]);
        has_ended(&mut b, ended);
        self.finish(b);
        func
    }

    /// The address of an entry.
    fn address(&mut self, b: &mut FunctionBuilder<'_>, entry: &TaskEntry) -> ir::Value {
        let signature = b.import_signature(entry_signature(self.cx.isa));
        let name = ir::ExternalName::testcase(self.names.spell(&entry.symbol));
        let entry = b.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
        b.ins().func_addr(types::I64, entry)
    }

    /// Words: what all tasks are given, the number of this one, and its segment.
    fn enter_forward(&mut self, symbol: String, task: &str) -> TaskEntry {
        let mut func = empty(self.names, &symbol, entry_signature(self.cx.isa));
        let mut fcx = FunctionBuilderContext::new();
        let (mut b, given) = begin(&mut func, &mut fcx);
        let sig = self.task.forward_signature(self.primal());
        // The number stands behind the deltas there, and before them here.
        let deltas = self.task.params.iter().filter(|p| matches!(p, ParamMode::Dup { .. })).count();
        let primal_count = self.primal().params.len() - 1;
        let order = (0..primal_count)
            .chain([primal_count + deltas])
            .chain(primal_count..primal_count + deltas)
            .chain([primal_count + deltas + 1]);
        let args: Vec<ir::Value> =
            order.zip(&sig.params).map(|(i, p)| load(&mut b, p.value_type, given[0], i)).collect();
        call_of(&mut b, self.names, task, sig, &args);
        self.finish(b);
        TaskEntry { of: self.variant.func, symbol, calls: task.to_owned(), func }
    }

    /// One word, the segment.
    fn enter_pullback(&mut self, symbol: String, task: &str) -> TaskEntry {
        let mut func = empty(self.names, &symbol, entry_signature(self.cx.isa));
        let mut fcx = FunctionBuilderContext::new();
        let (mut b, given) = begin(&mut func, &mut fcx);
        let seg = load(&mut b, types::I64, given[0], 0);
        let sig = self.task.pullback_signature(self.primal());
        call_of(&mut b, self.names, task, sig, &[seg]);
        self.finish(b);
        TaskEntry { of: self.variant.func, symbol, calls: task.to_owned(), func }
    }
}

/// Trap unless all tasks have run.
fn has_ended(b: &mut FunctionBuilder<'_>, ended: ir::Value) {
    for (end, check) in [(end::TRAPPED, Check::Task), (end::LACKING, Check::Helper)] {
        let is_it = b.ins().icmp_imm_s(IntCC::Equal, ended, end);
        trap_if(b, is_it, check);
    }
}

/// A word, or a shorter number in it.
fn load(b: &mut FunctionBuilder<'_>, ty: ir::Type, words: ir::Value, i: usize) -> ir::Value {
    let word = b.ins().load(types::I64, MemFlagsData::trusted(), words, 8 * i as i32);
    if ty == types::I64 { word } else { b.ins().ireduce(ty, word) }
}

/// A number of tasks, which has no sign.
fn word(b: &mut FunctionBuilder<'_>, n: ir::Value) -> ir::Value {
    if b.func.dfg.value_type(n) == types::I64 { n } else { b.ins().uextend(types::I64, n) }
}
