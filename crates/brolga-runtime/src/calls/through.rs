//! C's functions that read or write through pointers, and those that do not come back.
//!
//! **Problem.** `frexp(x, NULL)` is a fault inside of the C library, which the guard cannot tell
//! from one of its own, so it would be the end of the process; so is `abort`, though all that a
//! program means by it is that it does not go on.
//!
//! **Answer.** The library's function writes to a variable of ours, and that is moved to where the
//! program wants it by a routine whose faults are its caller's (`traps::leaf`). `abort` and `exit`
//! are traps.
//!
//! **Cost.** A move of a number more for each call.

use std::arch::asm;
use std::ffi::c_char;

use crate::traps::{self, attributed};

/// The C library's.
pub(crate) mod c {
    unsafe extern "C" {
        pub(crate) fn frexp(x: f64, to: *mut i32) -> f64;
        pub(crate) fn frexpf(x: f32, to: *mut i32) -> f32;
        pub(crate) fn modf(x: f64, to: *mut f64) -> f64;
        pub(crate) fn modff(x: f32, to: *mut f32) -> f32;
        pub(crate) fn lgamma_r(x: f64, to: *mut i32) -> f64;
        pub(crate) fn lgammaf_r(x: f32, to: *mut i32) -> f32;
        pub(crate) fn remquo(x: f64, y: f64, to: *mut i32) -> f64;
        pub(crate) fn remquof(x: f32, y: f32, to: *mut i32) -> f32;
        #[cfg(target_env = "gnu")]
        pub(crate) fn sincos(x: f64, sin: *mut f64, cos: *mut f64);
        #[cfg(target_env = "gnu")]
        pub(crate) fn sincosf(x: f32, sin: *mut f32, cos: *mut f32);
    }
}

/// Move a number to where the program wants it. A write of Rust's would look at the address first,
/// and panic.
///
/// # Safety
/// `to` may be written, or the access is attributed.
unsafe fn put<T>(to: *mut T, from: &T) {
    // SAFETY: our contract.
    unsafe { libc::memcpy(to.cast(), std::ptr::from_ref(from).cast(), size_of::<T>()) };
}

/// Functions that return a float, and write a number through their only pointer.
macro_rules! writes {
    ($($name:ident($($x:ident),*): $float:ty, $out:ty;)*) => {$(
        traps::leaf! {
            /// C's function of this name.
            ///
            /// # Safety
            /// As in C, but that a bad address is a trap if the call is guarded.
            pub(super) fn $name[$($x: $float),*](to: *mut $out, _b: usize, _c: usize; caller) -> $float {
                let mut out = <$out>::default();
                // SAFETY: it writes one number.
                let value = unsafe { c::$name($($x,)* &mut out) };
                // SAFETY: our contract.
                attributed(caller, || unsafe { put(to, &out) });
                value
            }
        }
    )*};
}

writes! {
    frexp(x): f64, i32;
    frexpf(x): f32, i32;
    modf(x): f64, f64;
    modff(x): f32, f32;
    lgamma_r(x): f64, i32;
    lgammaf_r(x): f32, i32;
    remquo(x, y): f64, i32;
    remquof(x, y): f32, i32;
}

/// The sine and the cosine of one angle.
#[cfg(target_env = "gnu")]
macro_rules! both {
    ($($name:ident: $float:ty;)*) => {$(
        traps::leaf! {
            /// C's function of this name.
            ///
            /// # Safety
            /// As in C, but that a bad address is a trap if the call is guarded.
            pub(super) fn $name[x: $float](sin: *mut $float, cos: *mut $float, _c: usize; caller) -> () {
                let mut out = [0.0, 0.0];
                let [s, c] = &mut out;
                // SAFETY: it writes two numbers.
                unsafe { c::$name(x, s, c) };
                // SAFETY: our contract.
                attributed(caller, || unsafe {
                    put(sin, &out[0]);
                    put(cos, &out[1]);
                });
            }
        }
    )*};
}

#[cfg(target_env = "gnu")]
both! {
    sincos: f64;
    sincosf: f32;
}

traps::leaf! {
    /// C's `strlen`.
    ///
    /// # Safety
    /// As in C, but that a bad address is a trap if the call is guarded.
    pub(super) fn strlen(s: *const c_char, _b: usize, _c: usize; caller) -> usize {
        // SAFETY: our contract.
        attributed(caller, || unsafe { libc::strlen(s) })
    }
}

traps::leaf! {
    /// C's `strcmp`.
    ///
    /// # Safety
    /// As for [`strlen`].
    pub(super) fn strcmp(a: *const c_char, b: *const c_char, _c: usize; caller) -> i32 {
        // SAFETY: our contract.
        attributed(caller, || unsafe { libc::strcmp(a, b) })
    }
}

traps::leaf! {
    /// C's `puts`.
    ///
    /// # Safety
    /// As for [`strlen`].
    pub(super) fn puts(s: *const c_char, _b: usize, _c: usize; caller) -> i32 {
        // Inside of `puts` the library holds a lock: what cannot be read is found before.
        // SAFETY: our contract.
        attributed(caller, || unsafe { libc::strlen(s) });
        // SAFETY: our contract.
        unsafe { libc::puts(s) }
    }
}

traps::leaf! {
    /// In place of C's `abort` and `exit`: a trap of the call.
    ///
    /// # Safety
    /// The call is guarded, or the process ends.
    pub(super) fn ends(_a: usize, _b: usize, _c: usize; caller) -> () {
        // SAFETY: an instruction that no processor knows: the guard takes it for the caller's.
        attributed(caller, || unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!("ud2");
            #[cfg(target_arch = "aarch64")]
            asm!("udf #0");
        });
    }
}

/// Addresses by name.
pub(crate) fn symbols() -> Vec<(&'static str, *const u8)> {
    vec![
        ("frexp", frexp as *const u8),
        ("frexpf", frexpf as *const u8),
        ("modf", modf as *const u8),
        ("modff", modff as *const u8),
        ("lgamma_r", lgamma_r as *const u8),
        ("lgammaf_r", lgammaf_r as *const u8),
        ("remquo", remquo as *const u8),
        ("remquof", remquof as *const u8),
        #[cfg(target_env = "gnu")]
        ("sincos", sincos as *const u8),
        #[cfg(target_env = "gnu")]
        ("sincosf", sincosf as *const u8),
        ("strlen", strlen as *const u8),
        ("strcmp", strcmp as *const u8),
        ("puts", puts as *const u8),
        ("abort", ends as *const u8),
        ("exit", ends as *const u8),
    ]
}
