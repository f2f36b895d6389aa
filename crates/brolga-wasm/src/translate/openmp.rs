//! OpenMP as clang compiles it: what `-fopenmp` calls.
//!
//! **Question.** A C program says `#pragma omp parallel for reduction(+:s)`. Its module imports
//! `__kmpc_fork_call`, which is given a function of one thread of a team; that asks
//! `__kmpc_for_static_init_4` which iterations are its own, and `__kmpc_reduce_nowait` whether it
//! is the one that adds up. What do they mean?
//!
//! **Answer.** A fork ([`super::forks`]). A team has [`TEAM`] threads, or as many as the program
//! says, whatever the machine has: so bits depend on the program alone. Threads from 1 on are
//! tasks, and thread 0 runs when they have come to their ends. It gets no iterations of a loop
//! whose schedule is static without a chunk, so nothing waits for it but what is done once.
//!
//! *Thread.* What is known of a thread stands on its stack, and its address is in the view
//! ([`super::views`]): number of the thread, threads of the team, address of the list below, and a
//! zero.
//!
//! *Reduction.* A thread that comes to it has the addresses of its own sums in an array. It leaves
//! the address of that in the team's list and is not the one. Thread 0 comes last. It adds those of
//! all others to its own, by the function that the compiler gives, in the order of their numbers,
//! and is the one. Stacks of tasks are apart, so sums are still there.
//!
//! *Regions within regions* have one thread. *Barriers*, critical sections, tasks and schedules at
//! run time are not there: no thread sees what another one does before the region is over.
//!
//! **Cost.** In the run a word for each thread of a team, and four words on the stack of each.
//!
//! **Source.** LLVM OpenMP runtime library interface, `openmp/runtime/src/kmp.h`.

use brolga::cranelift_codegen::ir::condcodes::IntCC;
use brolga::cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use wasmparser::{FuncType, ValType};

use super::views::{call_body, each, frame_below};
use crate::error::trap;
use crate::forked::{self, OpenMp};
use crate::function::env::Fork;
use crate::function::func::Fx;
use crate::imports;

/// Threads of a team: sixteen tasks, and thread 0.
const TEAM: i64 = 17;

/// Most threads of a team.
const MOST_THREADS: i64 = forked::MOST_THREADS as i64;

/// Words of what is known of a thread.
mod known {
    pub(super) const NUMBER: i32 = 0;
    pub(super) const TEAM: i32 = 4;
    pub(super) const LIST: i32 = 8;
    pub(super) const ZERO: i32 = 12;
    pub(super) const BYTES: i64 = 16;
}

/// Schedules of a loop, of `enum sched_type`.
mod schedule {
    pub(super) const STATIC_CHUNKED: i64 = 33;
    pub(super) const STATIC: i64 = 34;
    /// What is no modifier.
    pub(super) const KIND: i64 = 0xffff;
}

/// A parallel region, of `n` arguments.
pub(super) fn region(fx: &mut Fx<'_, '_, '_, '_>, fork: &Fork, n: usize, symbol: &str) {
    let &[_, _, function, buffer] = &fx.stack[..] else { unreachable!("the import has this type") };
    fx.stack.clear();
    let args: Vec<Value> = (0..n).map(|i| fx.word(buffer, 4 * i as i32)).collect();
    let zero = fx.b.ins().iconst(types::I32, 0);
    let one = fx.b.ins().iconst(types::I32, 1);
    if fork.nested {
        call_thread(fx, fork, function, &args, [zero, one, zero]);
        fx.b.ins().return_(&[]);
        return;
    }
    let threads = threads_of_next(fx);
    let stack_pointer = fx.stack_pointer();
    let list = frame_below(fx, stack_pointer, 4 * MOST_THREADS);
    let count = fx.b.ins().uextend(types::I64, threads);
    each(fx, 0, count, |fx, i| {
        let at = place_in(fx, list, i);
        fx.set_word(zero, at, 0);
    });
    let stacks = fx.stacks();
    let shared_args = [&[fx.vmctx, list, stacks, threads, zero, function, list], &args[..]].concat();
    let workers = fx.b.ins().iadd_imm_s(count, -1);
    let given = vec![types::I32; shared_args.len() - 1];
    let driver = format!("{symbol}{}", brolga_ir::fork::TASKS);
    let callee = fx.callee(&driver, |fx| fx.env.signature_of([&given[..], &[types::I64]].concat(), None));
    fx.b.ins().call(callee, &[&shared_args[..], &[workers]].concat());
    let (stack_pointer, stacks) = fx.of_task(list, stacks, threads, zero);
    fx.enter_view(stack_pointer, stacks, zero);
    call_thread(fx, fork, function, &args, [zero, threads, list]);
    fx.b.ins().return_(&[]);
}

/// The task of a thread that is not the first one.
pub(super) fn thread(fx: &mut Fx<'_, '_, '_, '_>, fork: &Fork, n: usize) {
    let given = std::mem::take(&mut fx.stack);
    let [stack_pointer, stacks, threads, _, function, list] = given[..6] else { unreachable!("these come first") };
    let args = &given[6..6 + n];
    let number = fx.b.ins().ireduce(types::I32, given[6 + n]);
    let number = fx.b.ins().iadd_imm_s(number, 1);
    let (stack_pointer, stacks) = fx.of_task(stack_pointer, stacks, threads, number);
    let none = fx.b.ins().iconst(types::I32, 0);
    fx.enter_view(stack_pointer, stacks, none);
    call_thread(fx, fork, function, args, [number, threads, list]);
    fx.b.ins().return_(&[]);
}

/// Call the function of a thread, of whose number, team and list this is known.
fn call_thread(fx: &mut Fx<'_, '_, '_, '_>, fork: &Fork, function: Value, args: &[Value], thread_words: [Value; 3]) {
    let at = fx.frame(known::BYTES);
    let zero = fx.b.ins().iconst(types::I32, 0);
    let places = [known::NUMBER, known::TEAM, known::LIST, known::ZERO];
    for (value, place) in thread_words.into_iter().chain([zero]).zip(places) {
        fx.set_word(value, at, place);
    }
    fx.view.as_mut().expect("threads have a view").thread = at;
    let bound = fx.b.ins().iadd_imm_s(at, i64::from(known::ZERO));
    let ty = FuncType::new(vec![ValType::I32; 2 + args.len()], []);
    let args = [&[at, bound], args].concat();
    call_body(fx, ty, fork.callees.first().copied(), function, &args);
}

/// The address of an entry of a list of words.
fn place_in(fx: &mut Fx<'_, '_, '_, '_>, list: Value, i: Value) -> Value {
    let i = fx.b.ins().ireduce(types::I32, i);
    let off = fx.b.ins().ishl_imm_u(i, 2);
    fx.b.ins().iadd(list, off)
}

/// How many threads the next team has.
fn threads_of_next(fx: &mut Fx<'_, '_, '_, '_>) -> Value {
    let cell = fx.env.layout.next_threads;
    let flags = fx.integer().with_notrap().with_aligned();
    let next = fx.b.ins().load(types::I32, flags, fx.vmctx, cell);
    let zero = fx.b.ins().iconst(types::I32, 0);
    fx.b.ins().store(flags, zero, fx.vmctx, cell);
    let most = most_threads(fx);
    let found = fx.b.ins().select(next, next, most);
    let bound = fx.b.ins().iconst(types::I32, MOST_THREADS);
    fx.b.ins().umin(found, bound)
}

/// How many threads a team has at most, if nothing else is said of it.
fn most_threads(fx: &mut Fx<'_, '_, '_, '_>) -> Value {
    let flags = fx.integer().with_notrap().with_aligned();
    let set = fx.b.ins().load(types::I32, flags, fx.vmctx, fx.env.layout.threads);
    let default = fx.b.ins().iconst(types::I32, TEAM);
    let found = fx.b.ins().select(set, set, default);
    let bound = fx.b.ins().iconst(types::I32, MOST_THREADS);
    fx.b.ins().umin(found, bound)
}

/// A word of what is known of the thread; something else outside of regions.
fn known_or(fx: &mut Fx<'_, '_, '_, '_>, place: i32, outside: i64) -> Value {
    let Some(view) = fx.view else { return fx.b.ins().iconst(types::I32, outside) };
    let [there, end] = [(); 2].map(|()| fx.b.create_block());
    let found = fx.b.append_block_param(end, types::I32);
    let outside = fx.b.ins().iconst(types::I32, outside);
    fx.b.ins().brif(view.thread, there, &[], end, &[outside.into()]);
    fx.b.switch_to_block(there);
    let word = fx.integer_word(view.thread, place);
    fx.b.ins().jump(end, &[word.into()]);
    fx.b.switch_to_block(end);
    found
}

/// The body of a function that is a part of OpenMP, but for a region.
pub(super) fn emit(fx: &mut Fx<'_, '_, '_, '_>, part: OpenMp, ty: &FuncType) {
    let found = match part {
        OpenMp::Region => unreachable!("a fork"),
        OpenMp::StaticInit { wide, signed } => {
            static_init(fx, wide, signed);
            return;
        }
        OpenMp::Reduce => {
            reduce(fx);
            return;
        }
        OpenMp::Refused => {
            fx.b.ins().trap(trap::OPENMP);
            return;
        }
        // In a team the thread would have to be another one until the region is over.
        OpenMp::Serialized => {
            if let Some(view) = fx.view {
                fx.b.ins().trapnz(view.thread, trap::OPENMP);
            }
            None
        }
        OpenMp::Nothing => None,
        OpenMp::Constant(n) => Some(fx.b.ins().iconst(types::I32, i64::from(n))),
        OpenMp::Time => Some(imports::seconds(fx)),
        OpenMp::Tick => Some(fx.b.ins().f64const(1e-9)),
        OpenMp::ThreadNum => Some(known_or(fx, known::NUMBER, 0)),
        OpenMp::IsFirst => {
            let number = known_or(fx, known::NUMBER, 0);
            let is_first = fx.b.ins().icmp_imm_s(IntCC::Equal, number, 0);
            Some(fx.b.ins().uextend(types::I32, is_first))
        }
        OpenMp::Threads => Some(known_or(fx, known::TEAM, 1)),
        OpenMp::InParallel => {
            let threads = known_or(fx, known::TEAM, 1);
            let several = fx.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, threads, 1);
            Some(fx.b.ins().uextend(types::I32, several))
        }
        OpenMp::MostThreads => Some(most_threads(fx)),
        OpenMp::SetThreads { param, next } => {
            // Within a team it would be the next one of the thread, which has one thread.
            if fx.view.is_none() {
                let n = fx.stack[param];
                let one = fx.b.ins().iconst(types::I32, 1);
                let n = fx.b.ins().smax(n, one);
                let cell = if next { fx.env.layout.next_threads } else { fx.env.layout.threads };
                let flags = fx.integer().with_notrap().with_aligned();
                fx.b.ins().store(flags, n, fx.vmctx, cell);
            }
            None
        }
    };
    let results = if ty.results().is_empty() { None } else { found };
    fx.b.ins().return_(results.as_slice());
}

/// Why there is no such part of OpenMP, and what to do.
pub(super) fn refused(name: &str) -> [&'static str; 2] {
    let meets = "tasks run beside each other from the fork to its end, and do not meet between";
    match name {
        _ if name.starts_with("omp_") && name.contains("lock") => {
            [meets, "let threads write to memory of their own, or name what they add up in a `reduction` clause"]
        }
        _ if name.starts_with("omp_") => [
            "it asks for, or sets, what tasks do not have",
            "ask for `omp_get_thread_num`, `omp_get_num_threads`, `omp_get_max_threads` or `omp_in_parallel`, \
             or leave it out of what is differentiated (`#ifdef _OPENMP`)",
        ],
        "__kmpc_critical" | "__kmpc_end_critical" => {
            [meets, "name what threads add up in a `reduction` clause, in place of the critical section"]
        }
        _ => [
            meets,
            "of OpenMP there are parallel regions with loops of a static schedule and reductions; end the region where \
             threads have to meet",
        ],
    }
}

/// Whether this thread is the one that adds to what all share.
fn reduce(fx: &mut Fx<'_, '_, '_, '_>) {
    let &[_, _, _, _, data, function, _] = &fx.stack[..] else { unreachable!("the import has this type") };
    let (yes, no) = (fx.b.ins().iconst(types::I32, 1), fx.b.ins().iconst(types::I32, 0));
    let threads = known_or(fx, known::TEAM, 1);
    let alone = fx.b.ins().icmp_imm_s(IntCC::Equal, threads, 1);
    let [one, team, first, other] = [(); 4].map(|()| fx.b.create_block());
    fx.b.ins().brif(alone, one, &[], team, &[]);
    fx.b.switch_to_block(one);
    fx.b.ins().return_(&[yes]);
    fx.b.switch_to_block(team);
    let number = known_or(fx, known::NUMBER, 0);
    let list = known_or(fx, known::LIST, 0);
    fx.b.ins().brif(number, other, &[], first, &[]);
    fx.b.switch_to_block(other);
    let off = fx.b.ins().ishl_imm_u(number, 2);
    let at = fx.b.ins().iadd(list, off);
    // What a thread has left is taken once.
    let before = fx.integer_word(at, 0);
    fx.b.ins().trapnz(before, trap::OPENMP);
    fx.set_word(data, at, 0);
    fx.b.ins().return_(&[no]);
    fx.b.switch_to_block(first);
    let count = fx.b.ins().uextend(types::I64, threads);
    each(fx, 1, count, |fx, i| {
        let at = place_in(fx, list, i);
        let left = fx.integer_word(at, 0);
        let [add, next] = [(); 2].map(|()| fx.b.create_block());
        fx.b.ins().brif(left, add, &[], next, &[]);
        fx.b.switch_to_block(add);
        call_body(fx, FuncType::new([ValType::I32; 2], []), None, function, &[data, left]);
        fx.b.ins().jump(next, &[]);
        fx.b.switch_to_block(next);
    });
    fx.b.ins().return_(&[yes]);
}

/// A number in memory, as 64 bits.
fn number(fx: &mut Fx<'_, '_, '_, '_>, at: Value, ty: Type, signed: bool) -> Value {
    let address = fx.wide(at);
    let address = fx.b.ins().iadd(fx.vmctx, address);
    let flags = fx.integer();
    let found = fx.b.ins().load(ty, flags, address, 0);
    widened(fx, found, signed)
}

fn widened(fx: &mut Fx<'_, '_, '_, '_>, v: Value, signed: bool) -> Value {
    match (fx.b.func.dfg.value_type(v) == types::I64, signed) {
        (true, _) => v,
        (false, true) => fx.b.ins().sextend(types::I64, v),
        (false, false) => fx.b.ins().uextend(types::I64, v),
    }
}

/// Which iterations of a loop this thread has: from the lower limit to the upper one, both written,
/// and from there on in strides.
fn static_init(fx: &mut Fx<'_, '_, '_, '_>, wide: bool, signed: bool) {
    let &[_, _, kind, last, lower, upper, stride, incr, chunk] = &fx.stack[..] else {
        unreachable!("the import has this type")
    };
    let ty = if wide { types::I64 } else { types::I32 };
    let put = |fx: &mut Fx<'_, '_, '_, '_>, at: Value, v: Value| {
        let v = if wide { v } else { fx.b.ins().ireduce(types::I32, v) };
        fx.set_word(v, at, 0);
    };
    let [lo, hi] = [lower, upper].map(|at| number(fx, at, ty, signed));
    let [incr, chunk] = [incr, chunk].map(|v| widened(fx, v, true));
    let zero = fx.b.ins().iconst(types::I64, 0);
    let one = fx.b.ins().iconst(types::I64, 1);
    let up = fx.b.ins().icmp(IntCC::SignedGreaterThan, incr, zero);
    // From the first to the last iteration, in steps of the increment's size.
    let back = fx.b.ins().ineg(incr);
    let [from, to, step] = [(lo, hi), (hi, lo), (incr, back)].map(|(x, y)| fx.b.ins().select(up, x, y));
    let less = if signed { IntCC::SignedLessThan } else { IntCC::UnsignedLessThan };
    let empty = fx.b.ins().icmp(less, to, from);
    let [done, some, chunked, unchunked, wrong] = [(); 5].map(|()| fx.b.create_block());
    fx.b.ins().brif(empty, done, &[], some, &[]);
    fx.b.switch_to_block(done);
    let no = fx.b.ins().iconst(types::I32, 0);
    fx.set_word(no, last, 0);
    put(fx, stride, incr);
    fx.b.ins().return_(&[]);
    fx.b.switch_to_block(some);
    let span = fx.b.ins().isub(to, from);
    let trips = fx.b.ins().udiv(span, step);
    let trips = fx.b.ins().iadd(trips, one);
    let threads = known_or(fx, known::TEAM, 1);
    let thread = known_or(fx, known::NUMBER, 0);
    let [threads, thread] = [threads, thread].map(|v| fx.b.ins().uextend(types::I64, v));
    let kind = fx.b.ins().band_imm_s(kind, schedule::KIND);
    let is_chunked = fx.b.ins().icmp_imm_s(IntCC::Equal, kind, schedule::STATIC_CHUNKED);
    let otherwise = fx.b.create_block();
    fx.b.ins().brif(is_chunked, chunked, &[], otherwise, &[]);
    fx.b.switch_to_block(otherwise);
    let is_static = fx.b.ins().icmp_imm_s(IntCC::Equal, kind, schedule::STATIC);
    fx.b.ins().brif(is_static, unchunked, &[], wrong, &[]);
    fx.b.switch_to_block(wrong);
    fx.b.ins().trap(trap::OPENMP);
    // Chunks go round: those of a thread are a stride apart.
    fx.b.switch_to_block(chunked);
    let chunk = fx.b.ins().smax(chunk, one);
    let span = fx.b.ins().imul(chunk, incr);
    let before = fx.b.ins().imul(span, thread);
    let first = fx.b.ins().iadd(lo, before);
    let end = fx.b.ins().iadd(first, span);
    let end = fx.b.ins().isub(end, incr);
    let round = fx.b.ins().imul(span, threads);
    let rest = fx.b.ins().isub(trips, one);
    let rest = fx.b.ins().udiv(rest, chunk);
    let rest = fx.b.ins().urem(rest, threads);
    let is_last = fx.b.ins().icmp(IntCC::Equal, rest, thread);
    finish(fx, put, last, is_last, [(lower, first), (upper, end), (stride, round)]);
    // One part for each thread but the first one, which has none.
    fx.b.switch_to_block(unchunked);
    let alone = fx.b.ins().icmp(IntCC::Equal, threads, one);
    let others = fx.b.ins().isub(threads, one);
    let parts = fx.b.ins().select(alone, one, others);
    let number = fx.b.ins().isub(thread, one);
    let number = fx.b.ins().select(alone, zero, number);
    let (each, more) = (fx.b.ins().udiv(trips, parts), fx.b.ins().urem(trips, parts));
    let before = fx.b.ins().imul(number, each);
    let longer = fx.b.ins().umin(number, more);
    let before = fx.b.ins().iadd(before, longer);
    let is_longer = fx.b.ins().icmp(IntCC::UnsignedLessThan, number, more);
    let is_longer = fx.b.ins().uextend(types::I64, is_longer);
    let count = fx.b.ins().iadd(each, is_longer);
    // The first thread's number is not below that of any part.
    let is_part = fx.b.ins().icmp(IntCC::UnsignedLessThan, number, parts);
    let count = fx.b.ins().select(is_part, count, zero);
    let off = fx.b.ins().imul(before, incr);
    let first = fx.b.ins().iadd(lo, off);
    let none = fx.b.ins().iadd(hi, incr);
    let first = fx.b.ins().select(count, first, none);
    let rest = fx.b.ins().isub(count, one);
    let off = fx.b.ins().imul(rest, incr);
    let end = fx.b.ins().iadd(first, off);
    let end = fx.b.ins().select(count, end, hi);
    let after = fx.b.ins().iadd(before, count);
    let is_last = fx.b.ins().icmp(IntCC::Equal, after, trips);
    let has = fx.b.ins().icmp(IntCC::NotEqual, count, zero);
    let is_last = fx.b.ins().band(is_last, has);
    let all = fx.b.ins().imul(trips, incr);
    finish(fx, put, last, is_last, [(lower, first), (upper, end), (stride, all)]);
}

/// Write what a thread has, and return.
fn finish<'e, 'a>(
    fx: &mut Fx<'_, '_, 'e, 'a>,
    put: impl Fn(&mut Fx<'_, '_, 'e, 'a>, Value, Value),
    last: Value,
    is_last: Value,
    limits: [(Value, Value); 3],
) {
    let is_last = fx.b.ins().uextend(types::I32, is_last);
    fx.set_word(is_last, last, 0);
    limits.into_iter().for_each(|(at, v)| put(fx, at, v));
    fx.b.ins().return_(&[]);
}
