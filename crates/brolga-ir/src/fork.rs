//! Fork-join parallelism: what a call of `%brolga_par_for` and its like means.
//!
//! **Question.** A program has work that may be done in any order, or at the same time. Which work,
//! in which tasks, and what does the program compute? **Answer.** A program says so by a call:
//!
//! ```text
//!   %brolga_par_join(f, a, g, b)                          f(a); g(b)
//!   %brolga_par_n   (entries, n)                          for i in 0..n { entries[i].f(entries[i].a) }
//!   %brolga_par_for (body, ctx, lo, hi, grain)            body(ctx, lo, hi), in parts of the range
//!   %brolga_par_reduce_f64(body, ctx, lo, hi, grain) -> f64   the sum of what the parts return
//! ```
//!
//! `f`, `g` and `body` are addresses of functions. What stands beside is the *serial elision*: the
//! program means that, and on one thread it does that. When a body is
//! [defined](crate::Program::define), such a call becomes one of a function with an ordinary body,
//! made for these functions, which calls a [driver](crate::driver): a loop over tasks, by numbers.
//!
//! **Tasks.** A range has a task for each `grain` of its iterations (at least one), but no more
//! than [`MOST_TASKS`]. That depends on the range and the grain and on nothing else, so neither
//! does what tasks add up. A sum adds neighbours, then sums of neighbours: a tree.
//!
//! **Contract.** Of two tasks neither writes what the other reads or writes.
//!
//! **Cost.** Three functions for each kind of call and what it is given to call. In a run, a call
//! for each task, of which there are [`MOST_TASKS`] at most; for a sum, so many doubles on the
//! stack, and an addition for each task but one.
//!
//! **Source.** T. Smeding, M. Vákár: Parallel dual-numbers reverse AD. Journal of Functional
//! Programming (2025).

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Signature, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use crate::driver::Driver;
use crate::driver_call::{DriverCall, MadeFunc, Misuse, RangeCheck, addressed, joined, passes_words, words};

/// Most tasks that one call has.
pub const MOST_TASKS: i64 = 64;

/// The code with which a call traps whose range ends before it begins, its name and a sentence.
pub const NEGATIVE_RANGE: (u8, &str, &str) =
    (239, "negative_range", "the range of a parallel loop ends before it begins; pass limits with lo <= hi, or n >= 0");

/// What can be called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ForkKind {
    Join,
    Entries,
    For,
    Sum,
}

const NAMES: [(&str, ForkKind); 4] = [
    ("brolga_par_join", ForkKind::Join),
    ("brolga_par_n", ForkKind::Entries),
    ("brolga_par_for", ForkKind::For),
    ("brolga_par_reduce_f64", ForkKind::Sum),
];

/// How the name of a driver ends.
pub const TASKS: &str = "__tasks";
/// How the name of one of its tasks ends.
pub const TASK: &str = "__task";

pub(crate) fn is_name(symbol: &str) -> bool {
    NAMES.iter().any(|n| n.0 == symbol)
}

/// What was called where a function of this symbol has been made for the call: the name of the
/// import, and the symbol of what the call has become.
pub fn made_for(symbol: &str) -> Option<(&'static str, &str)> {
    let of = symbol.strip_suffix(TASKS).or_else(|| symbol.strip_suffix(TASK)).unwrap_or(symbol);
    NAMES.iter().find(|n| of.strip_prefix(n.0).is_some_and(|of| of.starts_with('_'))).map(|n| (n.0, of))
}

/// A fork in words, by the symbol of what its call has become or of its driver: what was called,
/// and what the tasks call if that is named. Two functions are told apart by which there are.
pub fn described(symbol: &str, is_function: impl Fn(&str) -> bool) -> String {
    let symbol = symbol.strip_suffix(TASKS).unwrap_or(symbol);
    let kind = NAMES.iter().find_map(|n| Some((n.0, symbol.strip_prefix(n.0)?)));
    let Some((name, of)) = kind else { return format!("%{symbol}") };
    let Some(of) = of.strip_prefix("__") else { return format!("%{name}") };
    let mut both = of.match_indices("__").map(|(i, _)| (&of[..i], &of[i + 2..]));
    let is_there = |(f, g): &(&str, &str)| is_function(f) && is_function(g);
    match both.find(is_there).filter(|_| name == NAMES[0].0) {
        Some((f, g)) => format!("%{name} of %{f} and %{g}"),
        None => format!("%{name} of %{of}"),
    }
}

/// How a name goes on if tasks call functions through pointers.
const INDIRECT: &str = "_indirect";

/// What a call of a fork becomes.
pub(crate) fn of_call(body: &ir::Function, call: ir::Inst, callee: &str) -> Option<Result<DriverCall, Misuse>> {
    let &(name, kind) = NAMES.iter().find(|n| n.0 == callee)?;
    Some(checked(body, call, name, kind))
}

impl ForkKind {
    /// How many words a call passes, and which of them are functions.
    fn shape(self) -> (usize, &'static [usize]) {
        match self {
            Self::Join => (4, &[0, 2]),
            Self::Entries => (2, &[]),
            Self::For | Self::Sum => (5, &[0]),
        }
    }

    /// What a call returns, and so does each task.
    fn returns(self) -> &'static [ir::Type] {
        if self == Self::Sum { &[types::F64] } else { &[] }
    }

    /// The signature of a function that tasks call.
    fn callee(self, like: &Signature) -> Signature {
        words(like, if matches!(self, Self::For | Self::Sum) { 3 } else { 1 }, self.returns())
    }

    fn declared(self) -> &'static str {
        match self {
            Self::Join => "declare it as (i64 f, i64 a, i64 g, i64 b)",
            Self::Entries => "declare it as (i64 entries, i64 n); an entry is a function's address and its argument",
            Self::For => "declare it as (i64 body, i64 ctx, i64 lo, i64 hi, i64 grain)",
            Self::Sum => "declare it as (i64 body, i64 ctx, i64 lo, i64 hi, i64 grain) -> f64",
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::Join | Self::Entries => "a task is declared as (i64)",
            Self::For => "the body is declared as (i64 ctx, i64 lo, i64 hi)",
            Self::Sum => "the body is declared as (i64 ctx, i64 lo, i64 hi) -> f64",
        }
    }
}

fn checked(body: &ir::Function, call: ir::Inst, name: &str, kind: ForkKind) -> Result<DriverCall, Misuse> {
    let ir::InstructionData::Call { func_ref, .. } = body.dfg.insts[call] else { unreachable!("a call") };
    let sig = &body.dfg.signatures[body.dfg.ext_funcs[func_ref].signature];
    let args = body.dfg.inst_args(call).to_vec();
    let (n, functions) = kind.shape();
    if !passes_words(sig, kind.returns()) || args.len() != n {
        return Err((format!("`%{name}` is declared as {sig}"), kind.declared()));
    }
    let callees: Option<Vec<_>> = functions.iter().map(|&i| addressed(body, args[i])).collect();
    let callees = callees.filter(|c| !c.is_empty());
    for (symbol, declared) in callees.iter().flatten() {
        let wanted = kind.callee(declared);
        if (&declared.params, &declared.returns) != (&wanted.params, &wanted.returns) {
            return Err((format!("`%{name}` is given `%{symbol}`, declared as {declared}"), kind.wanted()));
        }
    }
    let task_sig = callees.as_ref().map_or(sig, |c| &c[0].1);
    let callee = kind.callee(task_sig);
    let of = match callees.as_deref() {
        None => INDIRECT.to_owned(),
        Some([f, g]) => format!("__{}", joined(&f.0, &g.0)),
        Some(of) => format!("__{}", of[0].0),
    };
    let range = |from, to| RangeCheck { from, to, code: NEGATIVE_RANGE.0 };
    let check = match args[..] {
        [_, n] => Some(range(None, n)),
        [.., lo, hi, _] if kind != ForkKind::Join => Some(range(Some(lo), hi)),
        _ => None,
    };
    let is_passed = |i: &usize| callees.is_none() || !functions.contains(i);
    let args: Vec<ir::Value> = (0..n).filter(is_passed).map(|i| args[i]).collect();
    let signature = words(task_sig, args.len(), kind.returns());
    let funcs = ForkFuncs { symbol: format!("{name}{of}"), kind, callees, callee, signature };
    let (symbol, signature) = (funcs.symbol.clone(), funcs.signature.clone());
    Ok(DriverCall { call, symbol, signature, args, funcs: funcs.bodies(), check })
}

/// The functions that a call becomes a call of. What they pass to each other are words.
struct ForkFuncs {
    symbol: String,
    kind: ForkKind,
    /// Functions that tasks call, if they are named; else tasks are passed their addresses.
    callees: Option<Vec<(String, Signature)>>,
    /// Signature of what tasks call.
    callee: Signature,
    /// That of the function that is called: the call's words, but for functions that are named.
    signature: Signature,
}

/// Parameters of a task of a range after those of the call: iterations of a task, and for a sum
/// where what tasks return is put.
const CHUNK: usize = 1;

impl ForkFuncs {
    fn bodies(self) -> Vec<MadeFunc> {
        let (tasks, task) = (format!("{}{TASKS}", self.symbol), format!("{}{TASK}", self.symbol));
        let more = match self.kind {
            ForkKind::Join => 0,
            ForkKind::Entries | ForkKind::For => CHUNK,
            ForkKind::Sum => CHUNK + 1,
        };
        // After them all stands the number of the task, or how many tasks there are.
        let sig = words(&self.callee, self.signature.params.len() + more + 1, &[]);
        let entry = build(&self.symbol, &self.signature, |b, params| self.entry(b, params, (&tasks, &sig)));
        let driver = build(&tasks, &sig, |b, params| all_tasks(b, params, (&task, &sig)));
        let one = build(&task, &sig, |b, params| self.task(b, params));
        let of = Driver::Tasks(task.as_str().into());
        vec![(self.symbol, entry, None), (tasks, driver, Some(of)), (task, one, None)]
    }

    /// Call the driver with as many tasks as there are.
    fn entry(&self, b: &mut FunctionBuilder<'_>, params: &[ir::Value], tasks: (&str, &Signature)) {
        let (tasks, sig) = tasks;
        let callee = import(b, tasks, sig);
        if self.kind == ForkKind::Join {
            let two = b.ins().iconst(types::I64, 2);
            b.ins().call(callee, &[params, &[two]].concat());
            b.ins().return_(&[]);
            return;
        }
        let (chunk, n) = self.parts(b, params);
        let mut args = [params, &[chunk]].concat();
        let sums = (self.kind == ForkKind::Sum).then(|| {
            let bytes = 8 * MOST_TASKS as u32;
            let slot = b.create_sized_stack_slot(ir::StackSlotData::new(ir::StackSlotKind::ExplicitSlot, bytes, 3));
            b.ins().stack_addr(types::I64, slot, 0)
        });
        args.extend(sums);
        args.push(n);
        b.ins().call(callee, &args);
        match sums {
            Some(sums) => tree_sum(b, sums, n),
            None => {
                b.ins().return_(&[]);
            }
        }
    }

    /// Iterations of a task, and how many tasks the range has.
    fn parts(&self, b: &mut FunctionBuilder<'_>, params: &[ir::Value]) -> (ir::Value, ir::Value) {
        let one = b.ins().iconst(types::I64, 1);
        let (lo, hi, grain) = match params {
            [_, n] => (b.ins().iconst(types::I64, 0), *n, one),
            [.., lo, hi, grain] => (*lo, *hi, *grain),
            _ => unreachable!("checked before"),
        };
        chunks(b, lo, hi, grain)
    }

    /// One task, of a number.
    fn task(&self, b: &mut FunctionBuilder<'_>, params: &[ir::Value]) {
        let (&t, given) = params.split_last().expect("there is a number");
        match self.kind {
            ForkKind::Join => self.one_of_two(b, given, t),
            ForkKind::Entries => self.entries(b, given, t),
            ForkKind::For | ForkKind::Sum => {
                let sums = (self.kind == ForkKind::Sum).then(|| given[given.len() - 1]);
                let words = self.signature.params.len();
                let [.., lo, hi, _] = given[..words] else { unreachable!("checked before") };
                let (from, to) = part(b, lo, hi, given[words], t);
                let function = self.callees.is_none().then(|| given[0]);
                let ctx = given[usize::from(function.is_some())];
                let found = self.call(b, 0, function, &[ctx, from, to]);
                if let Some(sums) = sums {
                    let at = b.ins().ishl_imm_s(t, 3);
                    let at = b.ins().iadd(sums, at);
                    b.ins().store(MemFlagsData::trusted(), found[0], at, 0);
                }
                b.ins().return_(&[]);
            }
        }
    }

    /// `f(a)` or `g(b)`.
    fn one_of_two(&self, b: &mut FunctionBuilder<'_>, given: &[ir::Value], t: ir::Value) {
        let [first, second] = [(); 2].map(|()| b.create_block());
        b.ins().brif(t, second, &[], first, &[]);
        for (i, block) in [first, second].into_iter().enumerate() {
            b.switch_to_block(block);
            let (function, arg) = match self.callees {
                None => (Some(given[2 * i]), given[2 * i + 1]),
                Some(_) => (None, given[i]),
            };
            self.call(b, i, function, &[arg]);
            b.ins().return_(&[]);
        }
    }

    /// Some of the entries.
    fn entries(&self, b: &mut FunctionBuilder<'_>, given: &[ir::Value], t: ir::Value) {
        let [entries, n, chunk] = given[..] else { unreachable!("checked before") };
        let zero = b.ins().iconst(types::I64, 0);
        let (from, to) = part(b, zero, n, chunk, t);
        let [head, body, end] = [(); 3].map(|()| b.create_block());
        let i = b.append_block_param(head, types::I64);
        b.ins().jump(head, &[from.into()]);
        b.switch_to_block(head);
        let more = b.ins().icmp(IntCC::SignedLessThan, i, to);
        b.ins().brif(more, body, &[], end, &[]);
        b.switch_to_block(body);
        let at = b.ins().ishl_imm_s(i, 4);
        let at = b.ins().iadd(entries, at);
        let [function, arg] = [0, 8].map(|off| b.ins().load(types::I64, MemFlagsData::new(), at, off));
        self.call(b, 0, Some(function), &[arg]);
        let next = b.ins().iadd_imm_s(i, 1);
        b.ins().jump(head, &[next.into()]);
        b.switch_to_block(end);
        b.ins().return_(&[]);
    }

    /// Call what tasks call: the function of this number, or that at an address.
    fn call(
        &self,
        b: &mut FunctionBuilder<'_>,
        i: usize,
        function: Option<ir::Value>,
        args: &[ir::Value],
    ) -> Vec<ir::Value> {
        let call = match (function, &self.callees) {
            (None, Some(callees)) => {
                let callee = import(b, &callees[i].0, &callees[i].1);
                b.ins().call(callee, args)
            }
            (function, _) => {
                let sig = b.import_signature(self.callee.clone());
                b.ins().call_indirect(sig, function.expect("it has no name"), args)
            }
        };
        b.inst_results(call).to_vec()
    }
}

/// The serial elision: task by task.
fn all_tasks(b: &mut FunctionBuilder<'_>, params: &[ir::Value], task: (&str, &Signature)) {
    let (&n, given) = params.split_last().expect("there is a number");
    let callee = import(b, task.0, task.1);
    let [head, body, end] = [(); 3].map(|()| b.create_block());
    let t = b.append_block_param(head, types::I64);
    let zero = b.ins().iconst(types::I64, 0);
    b.ins().jump(head, &[zero.into()]);
    b.switch_to_block(head);
    let more = b.ins().icmp(IntCC::SignedLessThan, t, n);
    b.ins().brif(more, body, &[], end, &[]);
    b.switch_to_block(body);
    b.ins().call(callee, &[given, &[t]].concat());
    let next = b.ins().iadd_imm_s(t, 1);
    b.ins().jump(head, &[next.into()]);
    b.switch_to_block(end);
    b.ins().return_(&[]);
}

/// Iterations of a task, and how many tasks a range has.
pub fn chunks(b: &mut FunctionBuilder<'_>, lo: ir::Value, hi: ir::Value, grain: ir::Value) -> (ir::Value, ir::Value) {
    let one = b.ins().iconst(types::I64, 1);
    let grain = b.ins().smax(grain, one);
    let n = b.ins().isub(hi, lo);
    // Numbers of 64 bits without a sign: the range may be longer than a signed one.
    let up = |b: &mut FunctionBuilder<'_>, n, by| {
        let (quotient, left) = (b.ins().udiv(n, by), b.ins().urem(n, by));
        let zero = b.ins().iconst(types::I64, 0);
        let more = b.ins().icmp(IntCC::NotEqual, left, zero);
        let more = b.ins().uextend(types::I64, more);
        b.ins().iadd(quotient, more)
    };
    let tasks = up(b, n, grain);
    let most = b.ins().iconst(types::I64, MOST_TASKS);
    let tasks = b.ins().umin(tasks, most);
    let tasks = b.ins().umax(tasks, one);
    let chunk = up(b, n, tasks);
    let chunk = b.ins().umax(chunk, one);
    (chunk, up(b, n, chunk))
}

/// The iterations of a task of a range: from the first to the one after the last.
pub fn part(
    b: &mut FunctionBuilder<'_>,
    lo: ir::Value,
    hi: ir::Value,
    chunk: ir::Value,
    t: ir::Value,
) -> (ir::Value, ir::Value) {
    let before = b.ins().imul(t, chunk);
    let from = b.ins().iadd(lo, before);
    let left = b.ins().isub(hi, from);
    let length = b.ins().umin(chunk, left);
    (from, b.ins().iadd(from, length))
}

/// Add up `n` doubles from an address on, and return the sum: each with its neighbour, then sums of
/// two, and so on. Nothing is zero.
pub fn tree_sum(b: &mut FunctionBuilder<'_>, sums: ir::Value, n: ir::Value) {
    let [none, some, rounds, first, head, add, next, end] = [(); 8].map(|()| b.create_block());
    b.ins().brif(n, some, &[], none, &[]);
    b.switch_to_block(none);
    let zero = b.ins().f64const(0.0);
    b.ins().return_(&[zero]);
    b.switch_to_block(some);
    let one = b.ins().iconst(types::I64, 1);
    b.ins().jump(rounds, &[one.into()]);
    let step = b.append_block_param(rounds, types::I64);
    b.switch_to_block(rounds);
    let more = b.ins().icmp(IntCC::SignedLessThan, step, n);
    b.ins().brif(more, first, &[], end, &[]);
    b.switch_to_block(first);
    b.ins().jump(head, &[step.into()]);
    // The neighbour that is added.
    let i = b.append_block_param(head, types::I64);
    b.switch_to_block(head);
    let more = b.ins().icmp(IntCC::SignedLessThan, i, n);
    b.ins().brif(more, add, &[], next, &[]);
    b.switch_to_block(add);
    let to = b.ins().isub(i, step);
    let [to, from] = [to, i].map(|i| {
        let at = b.ins().ishl_imm_s(i, 3);
        b.ins().iadd(sums, at)
    });
    let [x, y] = [to, from].map(|at| b.ins().load(types::F64, MemFlagsData::trusted(), at, 0));
    let sum = b.ins().fadd(x, y);
    b.ins().store(MemFlagsData::trusted(), sum, to, 0);
    let double_step = b.ins().ishl_imm_s(step, 1);
    let i = b.ins().iadd(i, double_step);
    b.ins().jump(head, &[i.into()]);
    b.switch_to_block(next);
    let double_step = b.ins().ishl_imm_s(step, 1);
    b.ins().jump(rounds, &[double_step.into()]);
    b.switch_to_block(end);
    let sum = b.ins().load(types::F64, MemFlagsData::trusted(), sums, 0);
    b.ins().return_(&[sum]);
}

/// A function, by what is put into it.
fn build(symbol: &str, sig: &Signature, fill: impl FnOnce(&mut FunctionBuilder<'_>, &[ir::Value])) -> ir::Function {
    let mut func = ir::Function::with_name_signature(ir::UserFuncName::testcase(symbol), sig.clone());
    let mut cx = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut func, &mut cx);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    let params = b.block_params(block).to_vec();
    fill(&mut b, &params);
    b.seal_all_blocks();
    b.finalize(cranelift_codegen::isa::TargetFrontendConfig {
        default_call_conv: sig.call_conv,
        pointer_width: target_lexicon::PointerWidth::U64,
        page_size_align_log2: 12,
    });
    func
}

fn import(b: &mut FunctionBuilder<'_>, symbol: &str, sig: &Signature) -> ir::FuncRef {
    let signature = b.import_signature(sig.clone());
    let name = ir::ExternalName::testcase(symbol);
    b.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false })
}
