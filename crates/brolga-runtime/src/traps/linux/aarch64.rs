//! Trampoline and interrupted context on aarch64.
//!
//! **Question.** How is generated code entered so that a signal handler can leave it, and what does
//! the context of a signal say?
//!
//! **Answer.** [`enter`] saves what the calling convention keeps, notes the stack pointer and the
//! landing pad, and calls. The handler makes both those of the thread ([`resume_at`]), so control
//! comes to the landing pad with everything in its place but the registers, which are loaded from
//! the stack. The other functions read the address of the instruction, the stack pointer and the
//! return address from the context. A call through a register never traps itself here: its target
//! does.
//!
//! **Safety.** The frame is valid until the call is over; code that is left has nothing to clean
//! up.
//!
//! **Cost.** Twenty registers saved and loaded again for each guarded call, and the control
//! register.

use std::arch::naked_asm;

use super::frames::Frame;
use crate::traps::trap::{Entry, Signal};

/// Call `entry(arg)`, having noted in the frame where to land. Returns 0, or 1 if it landed.
///
/// Saved, from the bottom: x29 and x30 (a frame record, so that a debugger can walk past us),
/// x19-x28, d8-d15, FPCR. The handler makes `sp` and `pc` what we noted, so at the landing pad
/// everything is where it was before the call, save the registers.
///
/// # Safety
/// `entry` may be called with `arg`; `frame` is valid until we return.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter(entry: Entry, arg: *mut u8, frame: *const Frame) -> usize {
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-176]!",
        ".cfi_def_cfa_offset 176",
        ".cfi_offset x29, -176",
        ".cfi_offset x30, -168",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "mrs x9, fpcr",
        "str x9, [sp, #160]",
        "mov x9, sp",
        "adr x10, 2f",
        "stp x9, x10, [x2]",
        "mov x9, x0",
        "mov x0, x1",
        "blr x9",
        "mov x0, #0",
        "b 3f",
        // The landing pad. It begins with `bti jc` (a no-op elsewhere): the trap may have been on
        // the first instruction of a function, with the branch type of the call that led there
        // still set.
        "2:",
        "hint #38",
        "ldr x9, [sp, #160]",
        "msr fpcr, x9",
        "mov x0, #1",
        "3:",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "ldp x29, x30, [sp], #176",
        ".cfi_def_cfa sp, 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
    )
}

/// Address of the instruction at which the thread was interrupted.
pub(super) fn trap_pc(context: &libc::ucontext_t, _signal: Signal) -> usize {
    context.uc_mcontext.pc as usize
}

/// The stack pointer where the thread was interrupted.
pub(super) fn stack_pointer(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.sp as usize
}

/// Where a callee of which no instruction has run would return to.
///
/// # Safety
/// None: it is in a register.
pub(super) unsafe fn return_address(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.regs[30] as usize
}

/// Whether the instruction at `pc` is stopped because a register does not say where code is: here
/// it never is, its target is.
///
/// # Safety
/// None: nothing is read.
pub(super) unsafe fn calls_a_register(_pc: usize) -> bool {
    false
}

/// Make the thread continue at `pc` with the stack pointer `sp`.
pub(super) fn resume_at(context: &mut libc::ucontext_t, pc: usize, sp: usize) {
    context.uc_mcontext.pc = pc as u64;
    context.uc_mcontext.sp = sp as u64;
}
