//! The signal handler: whether a fault is ours.
//!
//! **Question.** A process has one handler for each signal, and others want it, too. Which faults
//! are ours, and who gets the rest?
//!
//! **Answer.** Installed once, for good, the first time a guarded call is made. A program that
//! installs a handler later must pass on what it does not know, as we do, or have ours installed
//! again ([`reinstall`]): then its handler is asked after ours. A later handler may pass on to
//! ours, which passes on to it: what comes back so goes to the handler that was there first.
//!
//! **Cost.** Nothing until there is a fault.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Once, OnceLock};

use super::arch;
use super::frames::{CURRENT, claim};
use crate::traps::trap::{Cause, RawTrap, Signal};

const SIGNALS: [(c_int, Signal); 5] = [
    (libc::SIGILL, Signal::Ill),
    (libc::SIGSEGV, Signal::Segv),
    (libc::SIGBUS, Signal::Bus),
    (libc::SIGFPE, Signal::Fpe),
    (libc::SIGTRAP, Signal::Trap),
];

/// What was installed before us, in the order of `SIGNALS`. Complete before our handler can run.
static PREVIOUS: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

/// What has been installed over ours, where ours has been installed again since; null for none.
/// Never freed: a handler may be reading.
static LATER: [AtomicPtr<libc::sigaction>; SIGNALS.len()] = [const { AtomicPtr::new(ptr::null_mut()) }; SIGNALS.len()];

thread_local! {
    /// Whether a signal has been passed on that is not done with.
    static PASSED_ON: Cell<bool> = const { Cell::new(false) };
}

type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
type SimpleHandler = unsafe extern "C" fn(c_int);

/// How far from the stack pointer an access is to the stack: frames are probed page by page.
const NEAR: usize = 1 << 16;

/// Install the handler, once.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        PREVIOUS.get_or_init(|| SIGNALS.map(|(number, _)| action(number, None)));
        for (number, _) in SIGNALS {
            action(number, Some(&ours()));
        }
    });
}

/// Install the handler before what has been installed since.
pub(super) fn reinstall() {
    install();
    for ((number, _), later) in SIGNALS.into_iter().zip(&LATER) {
        let now = action(number, None);
        if !is_ours(&now) {
            later.store(Box::into_raw(Box::new(now)), Ordering::Release);
            action(number, Some(&ours()));
        }
    }
}

/// Whether our handlers are still the installed ones.
pub(super) fn in_place() -> bool {
    install();
    SIGNALS.iter().all(|&(number, _)| is_ours(&action(number, None)))
}

fn ours() -> libc::sigaction {
    // SAFETY: all-zero bytes are a valid sigaction.
    let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    ours.sa_sigaction = handle as Handler as usize;
    // ONSTACK: the fault may be that there is no stack. NODEFER: whether the signal is blocked
    // while a previous handler runs is for that handler's own flags to say, see `chain`; ours
    // cannot fault.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    ours
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == handle as Handler as usize
}

/// Replace the action of a signal, if there is a new one; return what it was.
fn action(number: c_int, new: Option<&libc::sigaction>) -> libc::sigaction {
    let mut old = MaybeUninit::zeroed();
    // SAFETY: both pointers are valid or null, and our handler, the only one ever passed, is
    // async-signal-safe.
    let failed = unsafe { libc::sigaction(number, new.map_or(ptr::null(), ptr::from_ref), old.as_mut_ptr()) };
    debug_assert_eq!(failed, 0, "sigaction accepts these signals");
    // SAFETY: filled by the call, and valid as all-zero bytes otherwise.
    unsafe { old.assume_init() }
}

/// # Safety
/// Called by the kernel as a signal handler.
unsafe extern "C" fn handle(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo and a ucontext, which are ours until we return.
    let handled = unsafe { try_handle(number, &*info, &mut *context.cast()) };
    if !handled {
        // SAFETY: as above.
        unsafe { chain(number, info, context) };
    }
}

/// If the signal is a trap in guarded code, record it and make the interrupted thread continue at
/// the landing pad.
fn try_handle(number: c_int, info: &libc::siginfo_t, context: &mut libc::ucontext_t) -> bool {
    // SAFETY: null or alive, by the invariant of `CURRENT`.
    let Some(frame) = (unsafe { CURRENT.get().as_ref() }) else { return false };
    let Some(&(_, signal)) = SIGNALS.iter().find(|&&(n, _)| n == number) else { return false };
    // Codes of signals sent by a process are not positive.
    if info.si_code <= 0 {
        return false;
    }
    // SAFETY: a hardware fault fills in the address.
    let fault_address = unsafe { info.si_addr() } as usize;
    let (at, sp) = (arch::trap_pc(context, signal), arch::stack_pointer(context));
    let access = matches!(signal, Signal::Segv | Signal::Bus);
    let nowhere = access && fault_address == at;
    // SAFETY: the code that went to `at` did so by a call or a return, with a stack that works.
    let callee_of = nowhere.then(|| unsafe { arch::return_address(context) });
    let Some(pc) = claim(frame, at, callee_of) else { return false };
    let cause = match () {
        () if nowhere => Cause::Call,
        // A call and a probe touch what lies just below the stack pointer.
        () if access && fault_address.abs_diff(sp) < NEAR => Cause::Stack,
        // SAFETY: there is code at `at` if the fault is another one.
        () if access && pc == at && unsafe { arch::calls_a_register(at) } => Cause::Call,
        () => Cause::Other,
    };
    frame.trap.set(Some(RawTrap { pc, signal, fault_address, cause }));
    arch::resume_at(context, frame.landing.get(), frame.sp.get());
    true
}

/// Deliver the signal as the kernel would have before we came.
///
/// # Safety
/// The arguments are those of the signal handler.
unsafe fn chain(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let index = SIGNALS.iter().position(|&(n, _)| n == number);
    let Some((previous, index)) = PREVIOUS.get().zip(index) else { return };
    let was_passed_on = PASSED_ON.replace(true);
    // SAFETY: null or a sigaction that is never freed.
    let later = unsafe { LATER[index].load(Ordering::Acquire).as_ref() };
    // What a later handler has passed on goes to the first.
    let previous = later.filter(|_| !was_passed_on).unwrap_or(&previous[index]);
    // SAFETY: the siginfo is valid.
    let sent = unsafe { (*info).si_code } <= 0;
    match previous.sa_sigaction {
        libc::SIG_IGN if sent => {}
        // The kernel does not let a fault be ignored.
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: all-zero bytes are a valid sigaction, and ask for the default.
            action(number, Some(&unsafe { MaybeUninit::zeroed().assume_init() }));
            // A fault happens again when we return, at its own pc, which makes for a better core
            // dump. A signal that was sent would not come again, nor does a breakpoint.
            if sent || number == libc::SIGTRAP {
                // SAFETY: always allowed.
                unsafe { libc::raise(number) };
            }
        }
        handler => {
            let mut mask = previous.sa_mask;
            // SAFETY: the mask is a valid set and the signal a valid number. The mask of the
            // interrupted thread comes back when we return. The address is that of a handler of the
            // type that the flag says.
            unsafe {
                if previous.sa_flags & libc::SA_NODEFER == 0 {
                    libc::sigaddset(&mut mask, number);
                }
                libc::pthread_sigmask(libc::SIG_BLOCK, &mask, ptr::null_mut());
                if previous.sa_flags & libc::SA_SIGINFO != 0 {
                    std::mem::transmute::<usize, Handler>(handler)(number, info, context);
                } else {
                    std::mem::transmute::<usize, SimpleHandler>(handler)(number);
                }
            }
        }
    }
    PASSED_ON.set(was_passed_on);
}
