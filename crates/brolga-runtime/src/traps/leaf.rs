//! Routines whose faults are faults of the instruction that called them.
//!
//! **Problem.** A routine touches memory on behalf of an instruction of the program. Whose fault is
//! it, if that is not there?
//!
//! **Answer.** The primal's `store` may be preceded by a call that saves the bytes about to be
//! overwritten, and its `memcpy` is a call to begin with. If the address is bad, the fault happens
//! in the routine, at a pc that is not generated code. Such a routine is declared by [`leaf!`]: a
//! stub appends the return address to the arguments, and the body makes its access in
//! [`attributed`], which notes that address for the signal handler. A leaf routine owns nothing and
//! locks nothing, so its frames may be abandoned.
//!
//! The stub is two instructions, which is why such a routine has exactly three arguments that are
//! no floats (a caller may give fewer): the return address goes to the register of the fourth.
//! Floats, which have registers of their own, stand before them in brackets.
//!
//! **Cost.** Two instructions and two writes of a cell for each call.

use super::platform::imp;

/// Make an access on behalf of the generated code that will resume at `caller`.
pub(crate) fn attributed<R>(caller: usize, access: impl FnOnce() -> R) -> R {
    imp::mark(caller, access)
}

/// Declare a routine with three arguments whose body also sees its return address.
macro_rules! leaf {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident$([$($x:ident: $X:ty),*])?($a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty; $caller:ident) -> $R:ty $body:block
    ) => {
        $(#[$meta])*
        #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
        #[unsafe(naked)]
        $vis unsafe extern "C" fn $name($a: $A, $b: $B, $c: $C $(, $($x: $X),*)?) -> $R {
            unsafe extern "C" fn body($a: $A, $b: $B, $c: $C, $caller: usize $(, $($x: $X),*)?) -> $R $body
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(".cfi_startproc", "mov rcx, [rsp]", "jmp {body}", ".cfi_endproc", body = sym body);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(".cfi_startproc", "mov x3, x30", "b {body}", ".cfi_endproc", body = sym body);
        }

        $(#[$meta])*
        #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
        $vis unsafe extern "C" fn $name($a: $A, $b: $B, $c: $C $(, $($x: $X),*)?) -> $R {
            // No guard reads it.
            let $caller = 0;
            $body
        }
    };
}
pub(crate) use leaf;
