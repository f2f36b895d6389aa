//! Trampoline and interrupted context on x86-64.
//!
//! **Question.** How is generated code entered so that a signal handler can leave it, and what does
//! the context of a signal say?
//!
//! **Answer.** [`enter`] saves what the calling convention keeps, notes the stack pointer and the
//! landing pad, and calls. The handler makes both those of the thread ([`resume_at`]), so control
//! comes to the landing pad with everything in its place but the registers, which are loaded from
//! the stack; the direction flag and the x87 unit are put in order first, since the code may have
//! stopped in the middle of anything. The other functions read the address of the instruction, the
//! stack pointer and the return address from the context. A call to an address that no pointer can
//! have traps itself, which is told by its bytes ([`calls_a_register`]).
//!
//! **Safety.** The frame is valid until the call is over; code that is left has nothing to clean
//! up.
//!
//! **Cost.** Six registers and two control words saved and loaded again for each guarded call.

use std::arch::naked_asm;

use super::frames::Frame;
use crate::traps::trap::{Entry, Signal};

/// Call `entry(arg)`, having noted in the frame where to land. Returns 0, or 1 if it landed.
///
/// Saved below the return address, from the top: rbp, rbx, r12-r15, then MXCSR and the x87 control
/// word in one slot, which also aligns the stack to 16 bytes. The handler makes `rsp` and `rip`
/// what we noted, so at the landing pad everything is where it was before the call, save the
/// registers.
///
/// # Safety
/// `entry` may be called with `arg`; `frame` is valid until we return.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter(entry: Entry, arg: *mut u8, frame: *const Frame) -> usize {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "lea rax, [rip + 2f]",
        "mov [rdx], rsp",
        "mov [rdx + 8], rax",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "xor eax, eax",
        "jmp 3f",
        // The landing pad. The code may have stopped in the middle of anything.
        "2:",
        "cld",
        "fninit",
        "fldcw [rsp + 4]",
        "ldmxcsr [rsp]",
        "mov eax, 1",
        "3:",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Address of the instruction at which the thread was interrupted.
pub(super) fn trap_pc(context: &libc::ucontext_t, signal: Signal) -> usize {
    let pc = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    // A breakpoint, alone of all traps, is reported after its one-byte instruction.
    if signal == Signal::Trap { pc - 1 } else { pc }
}

/// The stack pointer where the thread was interrupted.
pub(super) fn stack_pointer(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
}

/// Where a callee of which no instruction has run would return to.
///
/// # Safety
/// The stack pointer is that of a thread that has just made a call.
pub(super) unsafe fn return_address(context: &libc::ucontext_t) -> usize {
    // SAFETY: our contract.
    unsafe { (stack_pointer(context) as *const usize).read_unaligned() }
}

/// Whether the instruction at `pc` calls what a register says. An address that no pointer can have
/// stops the call itself.
///
/// # Safety
/// There is code at `pc`.
pub(super) unsafe fn calls_a_register(pc: usize) -> bool {
    // SAFETY: our contract; code ends in a return or a trap, so there is more after an instruction
    // that is neither.
    let [first, second, third] = unsafe { (pc as *const [u8; 3]).read_unaligned() };
    // `call r` and `jmp r` are FF /2 and FF /4, perhaps after a REX prefix.
    let (op, operand) = if first & 0xf0 == 0x40 { (second, third) } else { (first, second) };
    op == 0xff && matches!(operand >> 3, 0b11_010 | 0b11_100)
}

/// Make the thread continue at `pc` with the stack pointer `sp`.
pub(super) fn resume_at(context: &mut libc::ucontext_t, pc: usize, sp: usize) {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] = pc as i64;
    context.uc_mcontext.gregs[libc::REG_RSP as usize] = sp as i64;
}
