//! Signals that are not ours: passed on to the handler that was there before, or fatal as they
//! would be without us. And what else concerns the process as a whole.
//!
//! A process has one set of handlers, so each case runs in a process of its own ([`in_child`]).

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::arch::global_asm;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use brolga_runtime::traps::{handlers_are_in_place, install_handlers};
use brolga_runtime::{CodeRanges, Signal, call_guarded};
use brolga_testing::child::in_child;

unsafe extern "C" {
    fn foreign_test_load(arg: *mut u8);
    fn foreign_test_load_end();
    fn foreign_test_trap(arg: *mut u8);
    fn foreign_test_trap_end();
    fn foreign_test_call(arg: *mut u8);
    fn foreign_test_overflow(arg: *mut u8);
    fn foreign_test_overflow_end();
}

// `load` reads through its argument in one instruction; `call` calls its argument with null.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .text.foreign_test, \"ax\", @progbits",
    ".globl foreign_test_load",
    "foreign_test_load: mov rax, [rdi]",
    ".globl foreign_test_load_end",
    "foreign_test_load_end: ret",
    ".globl foreign_test_trap",
    "foreign_test_trap: ud2",
    ".globl foreign_test_trap_end",
    "foreign_test_trap_end:",
    ".globl foreign_test_call",
    "foreign_test_call: push rbx",
    "mov rax, rdi",
    "xor edi, edi",
    "call rax",
    "pop rbx",
    "ret",
    ".globl foreign_test_overflow",
    "foreign_test_overflow: push rax",
    "call foreign_test_overflow",
    ".globl foreign_test_overflow_end",
    "foreign_test_overflow_end:",
    ".popsection",
);
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .text.foreign_test, \"ax\", @progbits",
    ".balign 4",
    ".globl foreign_test_load",
    "foreign_test_load: ldr x0, [x0]",
    ".globl foreign_test_load_end",
    "foreign_test_load_end: ret",
    ".globl foreign_test_trap",
    "foreign_test_trap: udf #0",
    ".globl foreign_test_trap_end",
    "foreign_test_trap_end:",
    ".globl foreign_test_call",
    "foreign_test_call: stp x29, x30, [sp, #-16]!",
    "mov x9, x0",
    "mov x0, #0",
    "blr x9",
    "ldp x29, x30, [sp], #16",
    "ret",
    ".globl foreign_test_overflow",
    "foreign_test_overflow: stp x29, x30, [sp, #-16]!",
    "bl foreign_test_overflow",
    ".globl foreign_test_overflow_end",
    "foreign_test_overflow_end:",
    ".popsection",
);

fn address(function: unsafe extern "C" fn(*mut u8)) -> usize {
    function as *const () as usize
}

/// Only the trap and the call are guarded code; the load is not.
fn code() -> CodeRanges {
    let range = address(foreign_test_trap)..foreign_test_trap_end as *const () as usize;
    CodeRanges::new([range])
}

fn trap_comes_back() {
    // SAFETY: the code consists of one trapping instruction.
    let trap = unsafe { call_guarded(foreign_test_trap, ptr::null_mut(), &code()) }.unwrap_err();
    assert_eq!((trap.signal, trap.pc), (Signal::Ill, address(foreign_test_trap)));
}

/// Faults outside guarded code, inside a guarded call.
fn foreign_fault() {
    let load = ptr::with_exposed_provenance_mut(address(foreign_test_load));
    // SAFETY: the fault is not abandoned but repaired or fatal, so no frame is skipped.
    let result = unsafe { call_guarded(foreign_test_call, load, &code()) };
    assert_eq!(result, Ok(()));
}

static CALLS: AtomicUsize = AtomicUsize::new(0);

/// A handler from before us, which repairs the fault of `foreign_test_load` by skipping it.
unsafe extern "C" fn skip_load(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's arguments, passed on.
    let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    // SAFETY: a fault fills in the address.
    assert_eq!((number, unsafe { info.si_addr() }), (libc::SIGSEGV, ptr::null_mut()));
    // SAFETY: all-zero bytes are a valid set, and asking for the mask is always allowed.
    let blocked = unsafe {
        let mut mask = MaybeUninit::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr());
        [libc::SIGSEGV, libc::SIGUSR1].map(|n| libc::sigismember(&mask.assume_init(), n))
    };
    assert_eq!(blocked, [1, 1], "runs with the signals blocked that it asked to have blocked");
    let end = foreign_test_load_end as *const () as usize;
    #[cfg(target_arch = "x86_64")]
    {
        context.uc_mcontext.gregs[libc::REG_RIP as usize] = end as i64;
    }
    #[cfg(target_arch = "aarch64")]
    {
        context.uc_mcontext.pc = end as u64;
    }
    CALLS.fetch_add(1, SeqCst);
}

unsafe extern "C" fn count(number: c_int) {
    assert_eq!(number, libc::SIGFPE);
    CALLS.fetch_add(1, SeqCst);
}

fn install(number: c_int, handler: usize, flags: c_int) {
    // SAFETY: all-zero bytes are a valid sigaction, and the handlers above are async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        libc::sigaddset(&mut action.sa_mask, libc::SIGUSR1);
        assert_eq!(libc::sigaction(number, &action, ptr::null_mut()), 0);
    }
}

#[test]
fn an_earlier_handler_sees_faults_that_are_not_ours() {
    let ended = in_child(module_path!(), "an_earlier_handler_sees_faults_that_are_not_ours", || {
        install(libc::SIGSEGV, skip_load as *const () as usize, libc::SA_SIGINFO | libc::SA_ONSTACK);
        trap_comes_back();
        assert_eq!(CALLS.load(SeqCst), 0);
        // Inside and outside a guarded call.
        foreign_fault();
        // SAFETY: the handler skips the load.
        unsafe { foreign_test_load(ptr::null_mut()) };
        assert_eq!(CALLS.load(SeqCst), 2);
        trap_comes_back();
    });
    assert!(ended.is_none_or(|status| status.success()));
}

/// A handler from after us that passes on to ours what it does not know.
static OURS: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn passes_on(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    CALLS.fetch_add(100, SeqCst);
    // SAFETY: the address of a handler of this type; the kernel's arguments, passed on.
    unsafe {
        let handler: unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            std::mem::transmute(OURS.load(SeqCst));
        handler(number, info, context);
    }
}

#[test]
fn ours_is_installed_again_in_front_of_a_later_handler() {
    let ended = in_child(module_path!(), "ours_is_installed_again_in_front_of_a_later_handler", || {
        let flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        install(libc::SIGSEGV, skip_load as *const () as usize, flags);
        trap_comes_back();
        assert!(handlers_are_in_place());
        // SAFETY: asks only; all-zero bytes are a valid sigaction.
        let ours = unsafe {
            let mut ours: libc::sigaction = MaybeUninit::zeroed().assume_init();
            libc::sigaction(libc::SIGSEGV, ptr::null(), &mut ours);
            ours.sa_sigaction
        };
        OURS.store(ours, SeqCst);
        install(libc::SIGILL, count as *const () as usize, 0);
        assert!(!handlers_are_in_place());
        install(libc::SIGSEGV, passes_on as *const () as usize, flags);
        for _ in 0..2 {
            install_handlers();
            assert!(handlers_are_in_place());
            trap_comes_back();
        }
        assert_eq!(CALLS.load(SeqCst), 0);
        // To the later handler, back to ours, and to the one that was there first.
        foreign_fault();
        assert_eq!(CALLS.load(SeqCst), 101);
    });
    assert!(ended.is_none_or(|status| status.success()));
}

#[test]
fn an_earlier_simple_handler_sees_signals_that_are_sent() {
    let ended = in_child(module_path!(), "an_earlier_simple_handler_sees_signals_that_are_sent", || {
        install(libc::SIGFPE, count as *const () as usize, 0);
        trap_comes_back();
        // SAFETY: always allowed.
        unsafe { libc::raise(libc::SIGFPE) };
        assert_eq!(CALLS.load(SeqCst), 1);
    });
    assert!(ended.is_none_or(|status| status.success()));
}

#[test]
fn a_foreign_fault_without_an_earlier_handler_is_fatal() {
    let ended = in_child(module_path!(), "a_foreign_fault_without_an_earlier_handler_is_fatal", || {
        trap_comes_back();
        foreign_fault();
    });
    assert!(ended.is_none_or(|status| status.signal() == Some(libc::SIGSEGV)));
}

#[test]
fn an_illegal_instruction_outside_the_ranges_is_fatal() {
    let ended = in_child(module_path!(), "an_illegal_instruction_outside_the_ranges_is_fatal", || {
        trap_comes_back();
        // SAFETY: does not return.
        unsafe { foreign_test_trap(ptr::null_mut()) };
    });
    assert!(ended.is_none_or(|status| status.signal() == Some(libc::SIGILL)));
}

#[test]
fn a_sent_signal_is_fatal_as_ever_and_an_ignored_one_ignored() {
    let ended = in_child(module_path!(), "a_sent_signal_is_fatal_as_ever_and_an_ignored_one_ignored", || {
        install(libc::SIGBUS, libc::SIG_IGN, 0);
        trap_comes_back();
        // SAFETY: always allowed.
        unsafe {
            libc::raise(libc::SIGBUS);
            libc::raise(libc::SIGFPE);
        }
    });
    assert!(ended.is_none_or(|status| status.signal() == Some(libc::SIGFPE)));
}

#[test]
fn stack_overflow_on_the_main_thread_is_a_trap() {
    // With one test thread, tests run on the main thread, whose stack the kernel grows.
    let ended = in_child(module_path!(), "stack_overflow_on_the_main_thread_is_a_trap", || {
        let range = address(foreign_test_overflow)..foreign_test_overflow_end as *const () as usize;
        for _ in 0..2 {
            // SAFETY: the code calls itself until the stack ends, and may be abandoned.
            let trap =
                unsafe { call_guarded(foreign_test_overflow, ptr::null_mut(), &CodeRanges::new([range.clone()])) };
            assert_eq!(trap.unwrap_err().signal, Signal::Segv);
        }
        trap_comes_back();
    });
    assert!(ended.is_none_or(|status| status.success()));
}
