//! Forks of a module ([`brolga_ir::fork`]): `include/brolga.h` declares them for C.
//!
//! **Question.** A module imports `brolga_par_for(body, ctx, lo, hi, grain)`, whose body is an
//! entry of its first table. What does it call?
//!
//! **Answer.** A function that calls a driver, as for a program of CLIF. What differs is what a
//! task is given: the instance, and a view ([`super::views`]), with a stack of C. If the call says
//! by a constant which function the body is, and no table changes, tasks call that function;
//! otherwise the dispatcher of its type.
//!
//! A task that forks does so if there are stacks for all tasks. If not, a loop calls them.
//!
//! **Serial.** Tasks run one after the other where the module has one thing of which all of them
//! would need one of their own: [`crate::load::serial`].
//!
//! **Cost.** At most four functions for each fork with its callees.

use brolga::FuncKey;
use brolga::cranelift_codegen::ir::condcodes::IntCC;
use brolga::cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use brolga_ir::driver::Driver;
use brolga_ir::fork::{MOST_TASKS, NEGATIVE_RANGE, TASK, TASKS, chunks, part, tree_sum};
use cranelift_codegen::ir::TrapCode;
use wasmparser::{FuncType, ValType};

use super::openmp;
use super::views::{call_body, each, frame_below};
use crate::error::Error;
use crate::forked::{ForkImport, ForkKind};
use crate::function::env::{Env, Fork, ForkSource, VIEW};
use crate::function::func::{Context, Fx, build};
use crate::parse::{ConstOp, Info, SegmentMode};

/// How the name of a loop ends that calls tasks for which there are no stacks.
const SERIAL: &str = "__serial";

impl ForkKind {
    /// The name of the import.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Join => "brolga_par_join",
            Self::Entries => "brolga_par_n",
            Self::For => "brolga_par_for",
            Self::Sum => "brolga_par_reduce_f64",
        }
    }

    /// Which of its arguments are functions.
    fn functions(self) -> &'static [usize] {
        match self {
            Self::Join => &[0, 2],
            Self::Entries => &[],
            Self::For | Self::Sum => &[0],
        }
    }

    /// The type of what tasks call.
    fn callee(self) -> FuncType {
        match self {
            Self::Join | Self::Entries => FuncType::new([ValType::I32], []),
            Self::For => FuncType::new([ValType::I32; 3], []),
            Self::Sum => FuncType::new([ValType::I32; 3], [ValType::F64]),
        }
    }
}

impl Fork {
    /// The symbol of what a call of it calls.
    fn symbol(&self, env: &Env<'_, '_>) -> String {
        let name = match self.of {
            ForkSource::Call(kind) => kind.name(),
            ForkSource::Region(_) => "omp_parallel",
        };
        let of: String = self.callees.iter().map(|&f| format!("__{}", env.symbols[f as usize])).collect();
        let of = match (self.of, &of[..]) {
            (ForkSource::Region(n), "") => format!("_indirect{n}"),
            (ForkSource::Region(n), of) => format!("{n}{of}"),
            (_, "") => "_indirect".to_owned(),
            (_, of) => of.to_owned(),
        };
        format!("{name}{of}{}", if self.nested { crate::function::env::TASK } else { "" })
    }

    /// The type of what tasks call.
    fn callee(&self) -> FuncType {
        match self.of {
            ForkSource::Call(kind) => kind.callee(),
            ForkSource::Region(n) => FuncType::new(vec![ValType::I32; 2 + n as usize], []),
        }
    }
}

/// Define a fork.
pub(super) fn define(
    env: &mut Env<'_, '_>,
    context: &mut Context,
    fork: &Fork,
    symbol: &str,
) -> Result<FuncKey, Error> {
    let (params, result) = match fork.of {
        ForkSource::Call(kind) => {
            let words = if kind == ForkKind::Entries { 2 } else { 5 - usize::from(kind == ForkKind::Join) };
            (words, (kind == ForkKind::Sum).then_some(types::F64))
        }
        ForkSource::Region(_) => (4, None),
    };
    let view = if fork.nested { &VIEW[..] } else { &[] };
    let signature = env.signature_of([&vec![types::I32; params], view].concat(), result);
    build(env, context, symbol, signature, |fx| {
        if fork.nested {
            fx.take_view();
        }
        match fork.of {
            ForkSource::Call(kind) => fork_entry(fx, kind, fork, symbol),
            ForkSource::Region(n) => openmp::region(fx, fork, n as usize, symbol),
        }
        Ok(())
    })?;
    // A nested region is one thread's.
    if fork.nested && matches!(fork.of, ForkSource::Region(_)) {
        return Ok(env.program.func(symbol).expect("it has just been defined"));
    }
    let task = format!("{symbol}{TASK}");
    let given = given(fork);
    let signature = env.signature_of([&given[..], &[types::I64]].concat(), None);
    build(env, context, &task, signature.clone(), |fx| {
        match fork.of {
            ForkSource::Call(kind) => one(fx, kind, fork),
            ForkSource::Region(n) => openmp::thread(fx, fork, n as usize),
        }
        Ok(())
    })?;
    let loops: &[&str] = if fork.nested { &[TASKS, SERIAL] } else { &[TASKS] };
    for end in loops {
        let key = build(env, context, &format!("{symbol}{end}"), signature.clone(), |fx| {
            all(fx, &task, &given);
            Ok(())
        })?;
        env.program.func_mut(key).driver = (*end == TASKS).then(|| Driver::Tasks(task.as_str().into()));
    }
    let (code, name, message) = NEGATIVE_RANGE;
    env.program.traps.insert(code, (name, message));
    Ok(env.program.func(symbol).expect("it has just been defined"))
}

/// What tasks are given after the instance: stack pointer and stacks of what forks, how many tasks
/// there are, and what the call is given. Before a number of 64 bits.
fn given(fork: &Fork) -> Vec<Type> {
    let of_kind = match fork.of {
        // Iterations of a task are counted in 64 bits.
        ForkSource::Call(ForkKind::Sum) => vec![types::I32, types::I32, types::I64, types::I64, types::I64, types::I32],
        ForkSource::Call(ForkKind::For) => vec![types::I32, types::I32, types::I64, types::I64, types::I64],
        ForkSource::Call(ForkKind::Join) => vec![types::I32; 4],
        ForkSource::Call(ForkKind::Entries) => vec![types::I32, types::I64, types::I64],
        ForkSource::Region(n) => vec![types::I32; 2 + n as usize],
    };
    [vec![types::I32; 4], of_kind].concat()
}

/// The serial elision: task by task.
fn all(fx: &mut Fx<'_, '_, '_, '_>, task: &str, given: &[Type]) {
    let (&n, shared_args) = fx.stack.split_last().expect("there is a number");
    let shared_args = shared_args.to_vec();
    let callee = fx.callee(task, |fx| fx.env.signature_of([given, &[types::I64]].concat(), None));
    let vmctx = fx.vmctx;
    each(fx, 0, n, |fx, t| {
        let args = [&[vmctx], &shared_args[..], &[t]].concat();
        fx.b.ins().call(callee, &args);
    });
    fx.b.ins().return_(&[]);
}

/// What a call calls: find out how many tasks there are, and have them run.
fn fork_entry(fx: &mut Fx<'_, '_, '_, '_>, kind: ForkKind, fork: &Fork, symbol: &str) {
    let params = std::mem::take(&mut fx.stack);
    let signed = |fx: &mut Fx<'_, '_, '_, '_>, i: usize| fx.b.ins().sextend(types::I64, params[i]);
    let zero = fx.b.ins().iconst(types::I64, 0);
    let (lo, hi, grain) = match kind {
        ForkKind::Join => (zero, fx.b.ins().iconst(types::I64, 2), fx.b.ins().iconst(types::I64, 1)),
        ForkKind::Entries => (zero, signed(fx, 1), fx.b.ins().iconst(types::I64, 1)),
        ForkKind::For | ForkKind::Sum => (signed(fx, 2), signed(fx, 3), signed(fx, 4)),
    };
    let negative = fx.b.ins().icmp(IntCC::SignedLessThan, hi, lo);
    fx.b.ins().trapnz(negative, TrapCode::unwrap_user(NEGATIVE_RANGE.0));
    let (chunk, n) = chunks(&mut fx.b, lo, hi, grain);
    let mut kind_args = match kind {
        ForkKind::Join => params.clone(),
        ForkKind::Entries => vec![params[0], hi, chunk],
        ForkKind::For | ForkKind::Sum => vec![params[0], params[1], lo, hi, chunk],
    };
    let mut stack_pointer = fx.stack_pointer();
    let sums = (kind == ForkKind::Sum).then(|| frame_below(fx, stack_pointer, 8 * MOST_TASKS));
    if let Some(sums) = sums {
        stack_pointer = sums;
        kind_args.push(sums);
    }
    let stacks = fx.stacks();
    let count = fx.b.ins().ireduce(types::I32, n);
    let one = fx.b.ins().iconst(types::I32, 1);
    let at_least_one = fx.b.ins().umax(count, one);
    let thread = thread_of(fx);
    let args = [&[fx.vmctx, stack_pointer, stacks, at_least_one, thread], &kind_args[..], &[n]].concat();
    run_tasks(fx, fork, symbol, stacks, at_least_one, &args);
    match sums {
        Some(sums) => {
            let at = fx.wide(sums);
            let at = fx.b.ins().iadd(fx.vmctx, at);
            tree_sum(&mut fx.b, at, n);
        }
        None => {
            fx.b.ins().return_(&[]);
        }
    }
}

/// What OpenMP knows of the thread.
pub(super) fn thread_of(fx: &mut Fx<'_, '_, '_, '_>) -> Value {
    match fx.view {
        Some(view) => view.thread,
        None => fx.b.ins().iconst(types::I32, 0),
    }
}

/// Call the driver; or a loop, if there are too few stacks for so many tasks.
fn run_tasks(fx: &mut Fx<'_, '_, '_, '_>, fork: &Fork, symbol: &str, stacks: Value, n: Value, args: &[Value]) {
    let given = given(fork);
    let call = |fx: &mut Fx<'_, '_, '_, '_>, end: &str| {
        let signature = |fx: &mut Fx<'_, '_, '_, '_>| fx.env.signature_of([&given[..], &[types::I64]].concat(), None);
        let callee = fx.callee(&format!("{symbol}{end}"), signature);
        fx.b.ins().call(callee, args);
    };
    if !fork.nested {
        return call(fx, TASKS);
    }
    let all = fx.b.ins().ushr_imm_u(stacks, 16);
    let enough = fx.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, all, n);
    let [together, apart, end] = [(); 3].map(|()| fx.b.create_block());
    fx.b.ins().brif(enough, together, &[], apart, &[]);
    for (block, which) in [(together, TASKS), (apart, SERIAL)] {
        fx.b.switch_to_block(block);
        call(fx, which);
        fx.b.ins().jump(end, &[]);
    }
    fx.b.switch_to_block(end);
}

/// One task, of a number.
fn one(fx: &mut Fx<'_, '_, '_, '_>, kind: ForkKind, fork: &Fork) {
    let given = std::mem::take(&mut fx.stack);
    let (&t, given) = given.split_last().expect("there is a number");
    let [stack_pointer, stacks, n, thread] = given[..4] else { unreachable!("these come first") };
    let kind_args = &given[4..];
    let number = fx.b.ins().ireduce(types::I32, t);
    let (stack_pointer, stacks) = fx.of_task(stack_pointer, stacks, n, number);
    fx.enter_view(stack_pointer, stacks, thread);
    let ty = kind.callee();
    let known = |i: usize| fork.callees.get(i).copied();
    match (kind, kind_args) {
        (ForkKind::Join, &[f, a, g, b]) => {
            let [first, second] = [(); 2].map(|()| fx.b.create_block());
            fx.b.ins().brif(number, second, &[], first, &[]);
            for (i, (block, f, a)) in [(first, f, a), (second, g, b)].into_iter().enumerate() {
                fx.b.switch_to_block(block);
                call_body(fx, ty.clone(), known(i), f, &[a]);
                fx.b.ins().return_(&[]);
            }
            return;
        }
        (ForkKind::Entries, &[entries, n, chunk]) => {
            let zero = fx.b.ins().iconst(types::I64, 0);
            let (from, to) = part(&mut fx.b, zero, n, chunk, t);
            let count = fx.b.ins().isub(to, from);
            each(fx, 0, count, |fx, i| {
                let i = fx.b.ins().iadd(from, i);
                let i = fx.b.ins().ireduce(types::I32, i);
                let at = fx.b.ins().ishl_imm_u(i, 3);
                let at = fx.b.ins().iadd(entries, at);
                let [f, a] = [0, 4].map(|offset| fx.word(at, offset));
                call_body(fx, ty, None, f, &[a]);
            });
        }
        (ForkKind::For | ForkKind::Sum, &[f, ctx, lo, hi, chunk, ..]) => {
            let (from, to) = part(&mut fx.b, lo, hi, chunk, t);
            let [from, to] = [from, to].map(|i| fx.b.ins().ireduce(types::I32, i));
            let found = call_body(fx, ty, known(0), f, &[ctx, from, to]);
            if let Some(&sum) = found.first() {
                let at = fx.b.ins().ishl_imm_u(number, 3);
                let at = fx.b.ins().iadd(kind_args[5], at);
                let at = fx.wide(at);
                let at = fx.b.ins().iadd(fx.vmctx, at);
                fx.b.ins().store(MemFlagsData::trusted(), sum, at, 0);
            }
        }
        _ => unreachable!("tasks are given these"),
    }
    fx.b.ins().return_(&[]);
}

impl Fx<'_, '_, '_, '_> {
    /// Call a fork whose callees are told by constants; nothing if this function is no fork.
    pub(crate) fn known_fork(&mut self, index: u32, args: &[Value]) -> Option<Vec<Value>> {
        let (of, functions) = match self.env.fork_imports[index as usize]? {
            ForkImport::Call(kind) => (ForkSource::Call(kind), kind.functions()),
            // A region says how many arguments there are.
            ForkImport::Region => (ForkSource::Region(self.constant(args[1]).filter(|n| *n <= 64)? as u32), &[2][..]),
        };
        let known = |&i: &usize| entry(self.env.info, self.constant(args[i])?);
        let callees: Vec<u32> = functions.iter().map(known).collect::<Option<_>>().unwrap_or_default();
        let mut fork = Fork { of, callees, nested: self.view.is_some() };
        if fork.callees.iter().any(|&f| *self.env.info.type_of(f) != fork.callee()) {
            fork.callees.clear();
        }
        Some(self.call_fork(fork, args))
    }

    /// Call a fork.
    fn call_fork(&mut self, fork: Fork, args: &[Value]) -> Vec<Value> {
        let symbol = fork.symbol(self.env);
        let sum = matches!(fork.of, ForkSource::Call(ForkKind::Sum)).then_some(types::F64);
        self.env.forks.insert(fork, symbol.clone());
        let view = if self.view.is_some() { &VIEW[..] } else { &[] };
        let params = [&vec![types::I32; args.len()], view].concat();
        let callee = self.callee(&symbol, |fx| fx.env.signature_of(params, sum));
        let args = self.with_view(args);
        let call = self.b.ins().call(callee, &args);
        self.b.inst_results(call).to_vec()
    }

    /// The import itself, whose callees are not known.
    pub(crate) fn fork_of_import(&mut self, kind: ForkKind) {
        let args = std::mem::take(&mut self.stack);
        let fork = Fork { of: ForkSource::Call(kind), callees: Vec::new(), nested: self.view.is_some() };
        let results = self.call_fork(fork, &args);
        self.b.ins().return_(&results);
    }
}

/// The function that an entry of the first table is from the start to the end.
fn entry(info: &Info<'_>, at: u64) -> Option<u32> {
    if info.mutates.tables.contains(&0) || info.tables.first()?.import.is_some() {
        return None;
    }
    let mut found = None;
    for e in &info.elems {
        let SegmentMode::Active(0, offset) = &e.mode else { continue };
        let first = u64::from(offset.literal()? as u32);
        if let Some(item) = at.checked_sub(first).and_then(|i| e.items.get(i as usize)) {
            found = match item.0[..] {
                [ConstOp::Func(f)] => Some(f),
                _ => return None,
            };
        }
    }
    found
}
