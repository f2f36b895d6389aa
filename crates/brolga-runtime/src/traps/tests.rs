//! Tests of guarded calls: machine code that traps in every way, nested, and on many threads.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::arch::global_asm;
use std::ffi::c_void;
use std::ptr;

use super::*;
use crate::calls::memory::memset;

unsafe extern "C" {
    fn guard_test_start();
    fn guard_test_end();
    fn guard_test_ok(arg: *mut u8);
    fn guard_test_trap(arg: *mut u8);
    fn guard_test_load(arg: *mut u8);
    fn guard_test_divide(arg: *mut u8);
    fn guard_test_overflow(arg: *mut u8);
    fn guard_test_break(arg: *mut u8);
    fn guard_test_clobber(arg: *mut u8);
    fn guard_test_call(arg: *mut u8);
    fn guard_test_memset(arg: *mut u8);
}

// Each takes one pointer. `ok` stores 42 through it; `call` calls the function it points to with
// the pointer that lies behind it; `memset` calls the function it points to with (null, 0, 8);
// `clobber` spoils every register that must be preserved before it traps.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .text.guard_test, \"ax\", @progbits",
    ".globl guard_test_start",
    "guard_test_start:",
    ".globl guard_test_ok",
    "guard_test_ok: mov qword ptr [rdi], 42",
    "ret",
    ".globl guard_test_trap",
    "guard_test_trap: ud2",
    ".globl guard_test_load",
    "guard_test_load: mov rax, [rdi]",
    "ret",
    ".globl guard_test_divide",
    "guard_test_divide: mov eax, 1",
    "xor edx, edx",
    "xor ecx, ecx",
    "idiv ecx",
    "ret",
    ".globl guard_test_overflow",
    "guard_test_overflow: push rax",
    "call guard_test_overflow",
    "pop rax",
    "ret",
    ".globl guard_test_break",
    "guard_test_break: int3",
    "ret",
    ".globl guard_test_clobber",
    "guard_test_clobber: std",
    "mov rbx, -1",
    "mov rbp, -1",
    "mov r12, -1",
    "mov r13, -1",
    "mov r14, -1",
    "mov r15, -1",
    "push 0",
    "fldcw [rsp]",
    "mov dword ptr [rsp], 0xffc0",
    "ldmxcsr [rsp]",
    "fld1",
    "ud2",
    ".globl guard_test_call",
    "guard_test_call: push rbx",
    "mov rax, [rdi]",
    "mov rdi, [rdi + 8]",
    "call rax",
    "pop rbx",
    "ret",
    ".globl guard_test_memset",
    "guard_test_memset: push rbx",
    "mov rax, [rdi]",
    "xor edi, edi",
    "xor esi, esi",
    "mov edx, 8",
    "call rax",
    "pop rbx",
    "ret",
    ".globl guard_test_end",
    "guard_test_end:",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .text.guard_test, \"ax\", @progbits",
    ".balign 4",
    ".globl guard_test_start",
    "guard_test_start:",
    ".globl guard_test_ok",
    "guard_test_ok: mov x1, #42",
    "str x1, [x0]",
    "ret",
    ".globl guard_test_trap",
    "guard_test_trap: udf #0",
    ".globl guard_test_load",
    "guard_test_load: ldr x0, [x0]",
    "ret",
    // There is no trapping division here; compilers test and trap.
    ".globl guard_test_divide",
    "guard_test_divide: udf #0",
    ".globl guard_test_overflow",
    "guard_test_overflow: stp x29, x30, [sp, #-16]!",
    "bl guard_test_overflow",
    "ldp x29, x30, [sp], #16",
    "ret",
    ".globl guard_test_break",
    "guard_test_break: brk #0",
    "ret",
    ".globl guard_test_clobber",
    "guard_test_clobber: mov x19, #-1",
    "mov x20, #-1",
    "mov x21, #-1",
    "mov x22, #-1",
    "mov x23, #-1",
    "mov x24, #-1",
    "mov x25, #-1",
    "mov x26, #-1",
    "mov x27, #-1",
    "mov x28, #-1",
    "mov x29, #-1",
    "fmov d8, x19",
    "fmov d15, x19",
    "mov x9, #0x01000000",
    "msr fpcr, x9",
    "udf #0",
    ".globl guard_test_call",
    "guard_test_call: stp x29, x30, [sp, #-16]!",
    "ldr x9, [x0]",
    "ldr x0, [x0, #8]",
    "blr x9",
    "ldp x29, x30, [sp], #16",
    "ret",
    ".globl guard_test_memset",
    "guard_test_memset: stp x29, x30, [sp, #-16]!",
    "ldr x9, [x0]",
    "mov x0, #0",
    "mov x1, #0",
    "mov x2, #8",
    "blr x9",
    "ldp x29, x30, [sp], #16",
    "ret",
    ".globl guard_test_end",
    "guard_test_end:",
    ".popsection",
);

fn code() -> CodeRanges {
    let range = guard_test_start as *const () as usize..guard_test_end as *const () as usize;
    CodeRanges::new([range])
}

fn run(entry: Entry, arg: *mut u8) -> Result<(), RawTrap> {
    // SAFETY: the entries are the machine code above, which may be abandoned anywhere and is what
    // `code` covers; the tests pass what each needs.
    unsafe { call_guarded(entry, arg, &code()) }
}

fn completes() {
    let mut cell = 0u64;
    assert_eq!(run(guard_test_ok, ptr::from_mut(&mut cell).cast()), Ok(()));
    assert_eq!(cell, 42);
}

#[test]
fn a_call_that_does_not_trap_is_a_call() {
    completes();
}

#[test]
fn an_explicit_trap_names_its_instruction() {
    let trap = run(guard_test_trap, ptr::null_mut()).unwrap_err();
    assert_eq!((trap.signal, trap.pc), (Signal::Ill, guard_test_trap as *const () as usize));
    completes();
}

#[test]
fn a_bad_load_names_its_address() {
    let trap = run(guard_test_load, ptr::null_mut()).unwrap_err();
    let load = guard_test_load as *const () as usize;
    assert_eq!(trap, RawTrap { pc: load, signal: Signal::Segv, fault_address: 0, cause: Cause::Other });
    let trap = run(guard_test_load, ptr::without_provenance_mut(0x123)).unwrap_err();
    assert_eq!(trap.fault_address, 0x123);
    // Not canonical: the processor does not tell the kernel the address.
    let trap = run(guard_test_load, ptr::without_provenance_mut(1 << 62)).unwrap_err();
    assert_eq!((trap.signal, trap.pc), (Signal::Segv, load));
    completes();
}

#[test]
fn division_by_zero_is_a_trap() {
    let trap = run(guard_test_divide, ptr::null_mut()).unwrap_err();
    assert_eq!(trap.signal, if cfg!(target_arch = "x86_64") { Signal::Fpe } else { Signal::Ill });
    completes();
}

#[test]
fn a_breakpoint_is_a_trap() {
    let trap = run(guard_test_break, ptr::null_mut()).unwrap_err();
    assert_eq!((trap.signal, trap.pc), (Signal::Trap, guard_test_break as *const () as usize));
}

#[test]
fn stack_overflow_is_a_trap_again_and_again() {
    for _ in 0..3 {
        let trap = run(guard_test_overflow, ptr::null_mut()).unwrap_err();
        assert_eq!(trap.signal, Signal::Segv);
        assert!(code().contains(trap.pc));
        completes();
    }
}

#[test]
fn stack_overflow_is_a_trap_on_threads_that_rust_did_not_start() {
    extern "C" fn body(result: *mut c_void) -> *mut c_void {
        let trap = run(guard_test_overflow, ptr::null_mut());
        // SAFETY: the test passes this and waits for us.
        unsafe { *result.cast() = trap.err() };
        result
    }
    let mut result: Option<RawTrap> = None;
    let mut thread = 0;
    // SAFETY: the thread writes `result` and is joined before it is read.
    unsafe {
        assert_eq!(libc::pthread_create(&mut thread, ptr::null(), body, ptr::from_mut(&mut result).cast()), 0);
        assert_eq!(libc::pthread_join(thread, ptr::null_mut()), 0);
    }
    assert_eq!(result.unwrap().signal, Signal::Segv);
}

#[test]
fn preserved_registers_and_modes_survive_a_trap() {
    // Floating point before and after must agree, with many values live across the call.
    let values: Vec<f64> = (0..32).map(f64::from).collect();
    let before: f64 = values.iter().map(|x| (x / 3.0).sqrt()).sum();
    let trap = run(guard_test_clobber, ptr::null_mut()).unwrap_err();
    let after: f64 = values.iter().map(|x| (x / 3.0).sqrt()).sum();
    assert_eq!((trap.signal, before.to_bits()), (Signal::Ill, after.to_bits()));
    // Would run backwards if the direction flag had stayed set.
    let mut copy = vec![0u8; 4096];
    copy.fill(3);
    assert!(copy.iter().all(|&b| b == 3));
    assert!((1.0f64 / std::hint::black_box(0.0)).is_infinite(), "exceptions stay masked");
}

/// Calls a function pointer from inside the code: the pair is (function, argument).
#[repr(C)]
struct Call {
    function: unsafe extern "C" fn(*mut u8),
    arg: *mut u8,
}

#[test]
fn guarded_calls_nest() {
    unsafe extern "C" fn inner(count: *mut u8) {
        assert_eq!(run(guard_test_trap, ptr::null_mut()).unwrap_err().signal, Signal::Ill);
        // SAFETY: the test passes a byte.
        unsafe { *count += 1 };
    }
    unsafe extern "C" fn middle(count: *mut u8) {
        let mut call = Call { function: inner, arg: count };
        assert_eq!(run(guard_test_call, ptr::from_mut(&mut call).cast()), Ok(()));
    }
    let mut count = 0u8;
    let mut call = Call { function: middle, arg: &mut count };
    assert_eq!(run(guard_test_call, ptr::from_mut(&mut call).cast()), Ok(()));
    assert_eq!(count, 1);
    let mut call = Call { function: guard_test_load, arg: ptr::null_mut() };
    let trap = run(guard_test_call, ptr::from_mut(&mut call).cast()).unwrap_err();
    assert_eq!(trap.pc, guard_test_load as *const () as usize);
}

#[test]
fn a_call_to_where_there_is_no_code_is_a_trap_of_the_caller() {
    let mut data = [0xf4_u8; 64];
    // Null, low, not canonical, and memory that is no code.
    for target in [0, 0x1000, 1 << 62, usize::MAX - 64, ptr::from_mut(&mut data) as usize] {
        let mut call = [target, 0];
        let trap = run(guard_test_call, ptr::from_mut(&mut call).cast()).unwrap_err();
        let start = guard_test_call as *const () as usize;
        assert_eq!((trap.signal, trap.cause), (Signal::Segv, Cause::Call), "{target:#x}");
        assert!((start..guard_test_memset as *const () as usize).contains(&trap.pc), "{target:#x}");
        completes();
    }
    assert_eq!(run(guard_test_overflow, ptr::null_mut()).unwrap_err().cause, Cause::Stack);
}

#[test]
fn a_fault_in_a_leaf_routine_is_its_callers() {
    let mut function = memset as *const () as usize;
    let trap = run(guard_test_memset, ptr::from_mut(&mut function).cast()).unwrap_err();
    assert_eq!((trap.signal, trap.fault_address), (Signal::Segv, 0));
    let start = guard_test_memset as *const () as usize;
    assert!((start..guard_test_end as *const () as usize).contains(&trap.pc));
    completes();
}

#[test]
fn eight_threads_trap_at_once() {
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for i in 0..8 {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                for round in 0..200 {
                    let (entry, signal): (Entry, _) = match (i + round) % 3 {
                        0 => (guard_test_trap, Signal::Ill),
                        1 => (guard_test_load, Signal::Segv),
                        _ => (guard_test_clobber, Signal::Ill),
                    };
                    assert_eq!(run(entry, ptr::null_mut()).unwrap_err().signal, signal);
                    completes();
                }
                assert_eq!(run(guard_test_overflow, ptr::null_mut()).unwrap_err().signal, Signal::Segv);
            });
        }
    });
}
