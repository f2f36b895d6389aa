//! What tasks have of their own in a module: a stack of C, and their place in a team.
//!
//! **Problem.** Tasks of a fork see one memory. But where C's stack ends is a global of the module,
//! and tasks that run at the same time have frames at the same time. A stack for each thread would
//! let addresses depend on threads, and a pullback needs the shadow of the stack that its own task
//! had.
//!
//! **Answer.** A function is translated once more for tasks, as `NAME.task`, if it uses the stack
//! or calls what does. There the stack pointer is a variable, not a global, and comes with the
//! parameters. Behind them it has a *view*:
//!
//! | parameter | what |
//! |---|---|
//! | stack pointer | how far the stack of the task reaches |
//! | stacks | which stacks it may give to tasks of its own: the first, and above 16 bits how many |
//! | thread | address of what OpenMP knows of the thread ([`super::openmp`]), or 0 |
//!
//! Stacks lie after all that memory may grow to ([`crate::layout`]). The first task of a fork goes
//! on with the stack of what forks, which waits; the others begin one of those that it may give, by
//! their numbers:
//!
//! ```text
//!   main: 0..256   fork of 4:  task 0: 0..64, on main's stack   task 1: 64..128, on stack 64   …
//!     task 1: 64..128   fork of 2:  task 0: 64..96, on stack 64   task 1: 96..128, on stack 96
//! ```
//!
//! So a task's stack depends on the program alone. If there are fewer stacks than tasks, those run
//! one after the other on the stack of what forks ([`super::forks`]); by the same count, the run
//! time has no strands for them.
//!
//! **Invariant.** A function gives the stack back when it returns, as C's do: no stack pointer
//! comes back from a call. One that does not is a trap.
//!
//! **Cost.** A second copy of what tasks call. Where a stack grows, three instructions that see
//! that it stays in its place.

use brolga::cranelift_codegen::ir::condcodes::IntCC;
use brolga::cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Value, types};
use wasmparser::FuncType;

use crate::error::trap;
use crate::function::func::{Fx, TaskView};
use crate::layout::{FIRST_STACK, STACK, STACKS};
use crate::parse::Info;
use crate::provided::ProvidedFunction;

/// What is before the last stack's end, so that no address is beyond the last one.
const MARGIN: u64 = 16;

/// Which functions use the stack of C, or call what does, or may.
pub(crate) fn need_view(info: &Info<'_>, provided: &[Option<ProvidedFunction>]) -> Vec<bool> {
    let stack = info.stack_pointer();
    let uses_stack = |i: usize| {
        let uses = &info.uses[i];
        uses.indirect || stack.is_some_and(|g| uses.globals.contains(&g) || uses.sets.contains(&g))
    };
    let calls_tasks = |p: &ProvidedFunction| {
        matches!(
            p,
            ProvidedFunction::Invoke
                | ProvidedFunction::Loop(_)
                | ProvidedFunction::Inverse
                | ProvidedFunction::Fork(_)
                | ProvidedFunction::OpenMp(_)
        )
    };
    let needs_directly = |i: usize| match &provided[i] {
        None | Some(ProvidedFunction::Around(_)) => info.funcs[i].body.is_some() && uses_stack(i),
        Some(p) => calls_tasks(p),
    };
    let mut needs: Vec<bool> = (0..info.funcs.len()).map(needs_directly).collect();
    let calls = |i: usize| matches!(provided[i], None | Some(ProvidedFunction::Around(_)));
    loop {
        let more: Vec<usize> = (0..needs.len())
            .filter(|&i| !needs[i] && calls(i) && info.uses[i].calls.iter().any(|&c| needs[c as usize]))
            .collect();
        if more.is_empty() {
            return needs;
        }
        more.into_iter().for_each(|i| needs[i] = true);
    }
}

impl Fx<'_, '_, '_, '_> {
    /// The view is what the last parameters are.
    pub(crate) fn take_view(&mut self) {
        let given = self.stack.split_off(self.stack.len() - 3);
        self.enter_view(given[0], given[1], given[2]);
    }

    /// From here on this is the view.
    pub(crate) fn enter_view(&mut self, stack_pointer: Value, stacks: Value, thread: Value) {
        let stack = self.b.declare_var(types::I32);
        self.b.def_var(stack, stack_pointer);
        self.view = Some(TaskView { stack, given: stack_pointer, stacks, thread });
    }

    /// The instance, arguments, and the view, if there is one.
    pub(crate) fn with_view(&mut self, args: &[Value]) -> Vec<Value> {
        let mut all = [&[self.vmctx], args].concat();
        if let Some(TaskView { stack, stacks, thread, .. }) = self.view {
            all.extend([self.b.use_var(stack), stacks, thread]);
        }
        all
    }

    /// Whether a global is the stack pointer, and the task has one of its own.
    pub(crate) fn is_task_stack_pointer(&self, global: u32) -> bool {
        self.view.is_some() && self.env.info.stack_pointer() == Some(global)
    }

    /// How far the stack of C reaches; 0 in a module without one.
    pub(crate) fn stack_pointer(&mut self) -> Value {
        if let Some(view) = self.view {
            return self.b.use_var(view.stack);
        }
        match self.env.info.stack_pointer() {
            Some(global) => {
                let cell = self.env.layout.globals[global as usize];
                let flags = self.integer().with_notrap().with_aligned();
                self.b.ins().load(types::I32, flags, self.vmctx, cell)
            }
            None => self.b.ins().iconst(types::I32, 0),
        }
    }

    /// The stack of a task reaches up to here from here on. It stays where it is among others.
    pub(crate) fn set_stack_pointer(&mut self, to: Value) {
        let Some(TaskView { stack, .. }) = self.view else { return };
        let before = self.b.use_var(stack);
        let changed = self.b.ins().bxor(to, before);
        let first = self.b.ins().iconst(types::I32, i64::from(FIRST_STACK as u32));
        let is_task = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, before, first);
        let leaves = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, changed, STACK as i64);
        let wrong = self.b.ins().band(is_task, leaves);
        self.b.ins().trapnz(wrong, trap::TASK_STACK);
        self.b.def_var(stack, to);
    }

    /// So many bytes of the stack, a multiple of 16. What this function calls has its frames below,
    /// if it is given this stack pointer.
    pub(crate) fn frame(&mut self, bytes: i64) -> Value {
        let top = self.stack_pointer();
        let below = self.b.ins().iadd_imm_s(top, -bytes);
        let at = self.b.ins().band_imm_s(below, -16);
        self.set_stack_pointer(at);
        at
    }

    /// A function that tasks call returns, and has to have given its stack back.
    pub(crate) fn gives_stack_back(&mut self) {
        let Some(TaskView { stack, given, .. }) = self.view else { return };
        let now = self.b.use_var(stack);
        if now != given {
            let leaked = self.b.ins().icmp(IntCC::NotEqual, now, given);
            self.b.ins().trapnz(leaked, trap::KEPT_STACK);
        }
    }

    /// Stacks that a function may give to its tasks.
    pub(crate) fn stacks(&mut self) -> Value {
        match self.view {
            Some(view) => view.stacks,
            None => self.b.ins().iconst(types::I32, (STACKS << 16) as i64),
        }
    }

    /// Stack pointer and stacks of task `t` of `n`, of 32 bits, if these are those of what forks.
    pub(crate) fn of_task(&mut self, stack_pointer: Value, stacks: Value, n: Value, t: Value) -> (Value, Value) {
        let all = self.b.ins().ushr_imm_u(stacks, 16);
        let first = self.b.ins().band_imm_s(stacks, 0xffff);
        let each = self.b.ins().udiv(all, n);
        let before = self.b.ins().imul(each, t);
        let first = self.b.ins().iadd(first, before);
        let place = self.b.ins().ishl_imm_u(first, i64::from(STACK.ilog2()));
        let top = self.b.ins().iadd_imm_s(place, (FIRST_STACK + STACK - MARGIN) as u32 as i32 as i64);
        let number = self.b.ins().ishl_imm_u(each, 16);
        let packed = self.b.ins().bor(first, number);
        // The first one goes on with the stack, and so do all if there are too few.
        let stays = self.b.ins().imul(each, t);
        let top = self.b.ins().select(stays, top, stack_pointer);
        let packed = self.b.ins().select(each, packed, stacks);
        (top, packed)
    }

    /// A word of memory at an address, and so many bytes behind it.
    pub(crate) fn word(&mut self, at: Value, offset: i32) -> Value {
        let address = self.wide(at);
        let address = self.b.ins().iadd(self.vmctx, address);
        self.b.ins().load(types::I32, crate::function::ops::little(), address, offset)
    }

    /// Flags of accesses to integers that are no bits of floats: what forks and OpenMP keep.
    pub(crate) fn integer(&mut self) -> MemFlagsData {
        brolga_ir::lower::integer_flags(self.b.func).with_endianness(Endianness::Little)
    }

    /// The same of a word that is an integer and no bits of a float.
    pub(crate) fn integer_word(&mut self, at: Value, offset: i32) -> Value {
        let address = self.wide(at);
        let address = self.b.ins().iadd(self.vmctx, address);
        let flags = self.integer();
        self.b.ins().load(types::I32, flags, address, offset)
    }

    /// Store such an integer.
    pub(crate) fn set_word(&mut self, value: Value, at: Value, offset: i32) {
        let address = self.wide(at);
        let address = self.b.ins().iadd(self.vmctx, address);
        let flags = self.integer();
        self.b.ins().store(flags, value, address, offset);
    }
}

/// Do something for each number from one to another, of 64 bits.
pub(super) fn each(
    fx: &mut Fx<'_, '_, '_, '_>,
    from: i64,
    to: Value,
    each: impl FnOnce(&mut Fx<'_, '_, '_, '_>, Value),
) {
    let [head, body, end] = [(); 3].map(|()| fx.b.create_block());
    let i = fx.b.append_block_param(head, types::I64);
    let from = fx.b.ins().iconst(types::I64, from);
    fx.b.ins().jump(head, &[from.into()]);
    fx.b.switch_to_block(head);
    let more = fx.b.ins().icmp(IntCC::SignedLessThan, i, to);
    fx.b.ins().brif(more, body, &[], end, &[]);
    fx.b.switch_to_block(body);
    each(fx, i);
    let next = fx.b.ins().iadd_imm_s(i, 1);
    fx.b.ins().jump(head, &[next.into()]);
    fx.b.switch_to_block(end);
}

/// So many bytes below a stack pointer, at a multiple of 16.
pub(super) fn frame_below(fx: &mut Fx<'_, '_, '_, '_>, stack_pointer: Value, bytes: i64) -> Value {
    if fx.view.is_some() {
        return fx.frame(bytes);
    }
    let below = fx.b.ins().iadd_imm_s(stack_pointer, -bytes);
    fx.b.ins().band_imm_s(below, -16)
}

/// Call what tasks call: a function of this number, if it is known, or else that of the table.
pub(super) fn call_body(
    fx: &mut Fx<'_, '_, '_, '_>,
    ty: FuncType,
    known: Option<u32>,
    at: Value,
    args: &[Value],
) -> Vec<Value> {
    if let Some(f) = known {
        return fx.call_function(f, args);
    }
    fx.stack.extend_from_slice(args);
    fx.stack.push(at);
    let (callee, args) = fx.indirect(ty, 0);
    let call = fx.b.ins().call(callee, &args);
    fx.b.inst_results(call).to_vec()
}
