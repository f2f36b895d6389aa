//! Symbols of the runtime: what generated code may refer to, by the names that compilers give them.
//!
//! **Question.** Generated code calls functions by name: C's, those of compilers, and helpers of
//! derived code. Which addresses are these?
//!
//! **Answer.** [`symbols`] lists all. The mathematical functions are the platform's own, so that a
//! primal that is compiled here computes what it would compute anywhere else. Exceptions:
//! `roundeven`, which is exact, so that any implementation will do, and which some C libraries
//! lack; `exp10` outside glibc; and the block routines `memcpy` and its family, which are C's
//! behind a stub that makes bad addresses traps (see `memory`). Functions that leave results behind
//! pointers have such stubs, too, where traps are caught.
//!
//! **Invariant.** Each name is there once.
//!
//! **Cost.** A list of pairs for each time that it is asked. In a run a call costs what the
//! function does.

use crate::calls::{debug, forks, gamma, heap, inverses, loops, memory, moved_pointers, pieces, steps, tangents};
use crate::captures;

/// Addresses by name.
type Table = Vec<(&'static str, *const u8)>;

/// Declare C functions, one row per signature, and list them.
macro_rules! c_functions {
    ($list:ident: $($args:tt -> $ret:ty: $($name:ident)*;)*) => {
        fn $list() -> Table {
            mod c {
                unsafe extern "C" {
                    $($(pub(super) fn $name $args -> $ret;)*)*
                }
            }
            vec![$($((stringify!($name), c::$name as *const u8)),*),*]
        }
    };
}

c_functions! { doubles:
    (_: f64) -> f64:
        acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 fabs floor lgamma log log10 log1p log2
        logb nearbyint rint round sin sinh sqrt tan tanh tgamma trunc;
    (_: f64, _: f64) -> f64: atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder;
    (_: f64, _: f64, _: f64) -> f64: fma;
    (_: f64, _: i32) -> f64: ldexp scalbn;
    (_: f64, _: std::ffi::c_long) -> f64: scalbln;
    (_: f64) -> i32: ilogb;
    (_: f64) -> i64: llrint llround;
    (_: f64) -> std::ffi::c_long: lrint lround;
}

c_functions! { floats:
    (_: f32) -> f32:
        acosf acoshf asinf asinhf atanf atanhf cbrtf ceilf cosf coshf erff erfcf expf exp2f expm1f fabsf floorf lgammaf logf
        log10f log1pf log2f logbf nearbyintf rintf roundf sinf sinhf sqrtf tanf tanhf tgammaf truncf;
    (_: f32, _: f32) -> f32: atan2f copysignf fdimf fmaxf fminf fmodf hypotf nextafterf powf remainderf;
    (_: f32, _: f32, _: f32) -> f32: fmaf;
    (_: f32, _: i32) -> f32: ldexpf scalbnf;
    (_: f32, _: std::ffi::c_long) -> f32: scalblnf;
    (_: f32) -> i32: ilogbf;
    (_: f32) -> i64: llrintf llroundf;
    (_: f32) -> std::ffi::c_long: lrintf lroundf;
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
c_functions! { gnu:
    (_: f64) -> f64: exp10;
    (_: f32) -> f32: exp10f;
    (_: f64, _: f64) -> f64: drem;
    (_: f32, _: f32) -> f32: dremf;
    (_: f64) -> i32: __fpclassify __signbit __isnan __isinf __finite;
    (_: f32) -> i32: __fpclassifyf __signbitf __isnanf __isinff __finitef;
}

/// The library's `sincos` as it is, for calls that are made up: those write to variables of derived
/// code.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn made_up() -> Table {
    vec![
        ("brolga_sincos", crate::calls::through::c::sincos as *const u8),
        ("brolga_sincosf", crate::calls::through::c::sincosf as *const u8),
    ]
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn made_up() -> Table {
    Table::new()
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
use crate::calls::through::symbols as through_pointers;

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
c_functions! { through_pointers:
    (_: f64, _: *mut i32) -> f64: frexp lgamma_r;
    (_: f32, _: *mut i32) -> f32: frexpf lgammaf_r;
    (_: f64, _: *mut f64) -> f64: modf;
    (_: f32, _: *mut f32) -> f32: modff;
    (_: f64, _: f64, _: *mut i32) -> f64: remquo;
    (_: f32, _: f32, _: *mut i32) -> f32: remquof;
    (_: *const u8) -> usize: strlen;
    (_: *const u8, _: *const u8) -> i32: strcmp;
    (_: *const u8) -> i32: puts;
    () -> (): abort;
    (_: i32) -> (): exit;
}

/// What compilers call for a power with an integer exponent: their own libraries have it, not C's.
extern "C" fn powi(x: f64, n: i32) -> f64 {
    x.powi(n)
}

/// [`powi`] in single precision.
extern "C" fn powif(x: f32, n: i32) -> f32 {
    x.powi(n)
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn gnu() -> Table {
    extern "C" fn exp10(x: f64) -> f64 {
        10f64.powf(x)
    }
    extern "C" fn exp10f(x: f32) -> f32 {
        10f64.powf(x.into()) as f32
    }
    vec![("exp10", exp10 as *const u8), ("exp10f", exp10f as *const u8)]
}

extern "C" fn roundeven(x: f64) -> f64 {
    x.round_ties_even()
}

extern "C" fn roundevenf(x: f32) -> f32 {
    x.round_ties_even()
}

/// `v`, where a derivative takes it for `x`: for a number that was computed in a way that has no
/// derivative, beside an expression that has. Bits stay, those of a NaN too.
extern "C" fn brolga_with_value(_x: f64, v: f64) -> f64 {
    v
}

/// [`brolga_with_value`] in single precision.
extern "C" fn brolga_with_valuef(_x: f32, v: f32) -> f32 {
    v
}

extern "C" fn llabs(x: i64) -> i64 {
    x.wrapping_abs()
}

/// The integer functions and the allocator; `libc` declares these.
fn integers_and_heap() -> Table {
    vec![
        ("abs", libc::abs as *const u8),
        ("labs", libc::labs as *const u8),
        ("llabs", llabs as *const u8),
        ("rand", libc::rand as *const u8),
        ("putchar", libc::putchar as *const u8),
        ("malloc", libc::malloc as *const u8),
        ("calloc", libc::calloc as *const u8),
        ("realloc", libc::realloc as *const u8),
        ("free", libc::free as *const u8),
    ]
}

fn helpers() -> Table {
    vec![
        ("roundeven", roundeven as *const u8),
        ("roundevenf", roundevenf as *const u8),
        ("memcpy", memory::memcpy as *const u8),
        ("memmove", memory::memmove as *const u8),
        ("memset", memory::memset as *const u8),
        ("memcmp", memory::memcmp as *const u8),
        ("bcmp", memory::memcmp as *const u8),
        ("__powidf2", powi as *const u8),
        ("__powisf2", powif as *const u8),
        ("brolga_digamma", gamma::brolga_digamma as *const u8),
        ("brolga_digammaf", gamma::brolga_digammaf as *const u8),
        ("brolga_trigamma", gamma::brolga_trigamma as *const u8),
        ("brolga_trigammaf", gamma::brolga_trigammaf as *const u8),
        ("brolga_polygamma", gamma::brolga_polygamma as *const u8),
        ("brolga_polygammaf", gamma::brolga_polygammaf as *const u8),
        ("brolga_with_value", brolga_with_value as *const u8),
        ("brolga_with_valuef", brolga_with_valuef as *const u8),
        ("brolga_debug_shadow", debug::brolga_debug_shadow as *const u8),
        ("brolga_debug_store", debug::brolga_debug_store as *const u8),
        ("brolga_loop_begin", loops::brolga_loop_begin as *const u8),
        ("brolga_loop_forward", loops::brolga_loop_forward as *const u8),
        ("brolga_loop_reverse", loops::brolga_loop_reverse as *const u8),
        ("brolga_loop_next", loops::brolga_loop_next as *const u8),
        ("brolga_inverse", inverses::brolga_inverse as *const u8),
        ("brolga_fork", forks::brolga_fork as *const u8),
        ("brolga_join", forks::brolga_join as *const u8),
        ("brolga_pending", forks::brolga_pending as *const u8),
        ("brolga_pending_data", forks::brolga_pending_data as *const u8),
        ("brolga_pending_within", forks::brolga_pending_within as *const u8),
        ("brolga_gather", forks::brolga_gather as *const u8),
        ("brolga_lookup", captures::brolga_lookup as *const u8),
        ("brolga_malloc", heap::brolga_malloc as *const u8),
        ("brolga_malloc_wide", heap::brolga_malloc_wide as *const u8),
        ("brolga_calloc", heap::brolga_calloc as *const u8),
        ("brolga_calloc_wide", heap::brolga_calloc_wide as *const u8),
        ("brolga_realloc", heap::brolga_realloc as *const u8),
        ("brolga_realloc_wide", heap::brolga_realloc_wide as *const u8),
        ("brolga_free", heap::brolga_free as *const u8),
        ("brolga_free_at_end", heap::brolga_free_at_end as *const u8),
        ("brolga_free_both", heap::brolga_free_both as *const u8),
        ("brolga_release", heap::brolga_release as *const u8),
        ("brolga_released", heap::brolga_released as *const u8),
        ("brolga_malloc_rev", heap::brolga_malloc_rev as *const u8),
        ("brolga_realloc_rev", heap::brolga_realloc_rev as *const u8),
        ("brolga_memmove_rev", memory::brolga_memmove_rev as *const u8),
        ("brolga_move_rev", memory::brolga_move_rev as *const u8),
        ("brolga_copy_pointers", moved_pointers::brolga_copy_pointers as *const u8),
        ("brolga_drop_pointers", moved_pointers::brolga_drop_pointers as *const u8),
        ("brolga_meets_pointers", moved_pointers::brolga_meets_pointers as *const u8),
        ("brolga_zero", memory::brolga_zero as *const u8),
        ("brolga_copy_shadow", memory::brolga_copy_shadow as *const u8),
        ("brolga_take_bytes", pieces::brolga_take_bytes as *const u8),
        ("brolga_add_bytes", pieces::brolga_add_bytes as *const u8),
        ("brolga_join_bytes", pieces::brolga_join_bytes as *const u8),
        ("brolga_poison", crate::calls::poison::brolga_poison as *const u8),
        ("brolga_hand_on", crate::calls::poison::brolga_hand_on as *const u8),
        ("brolga_move_poison", crate::calls::poison::brolga_move_poison as *const u8),
        ("brolga_without_poison", crate::calls::poison::brolga_without_poison as *const u8),
        ("brolga_expect_number", crate::calls::numbers::brolga_expect_number as *const u8),
        ("brolga_drop_digits", pieces::brolga_drop_digits as *const u8),
        ("brolga_part_of_bytes", pieces::brolga_part_of_bytes as *const u8),
        ("brolga_no_bytes", pieces::brolga_no_bytes as *const u8),
        ("brolga_any_bytes", pieces::brolga_any_bytes as *const u8),
        ("brolga_take_demand", pieces::brolga_take_demand as *const u8),
        ("brolga_add_demand", pieces::brolga_add_demand as *const u8),
        ("brolga_move_demand", pieces::brolga_move_demand as *const u8),
        ("brolga_bytes_of_double", pieces::brolga_bytes_of_double as *const u8),
        ("brolga_bytes_of_word", pieces::brolga_bytes_of_word as *const u8),
        ("brolga_bytes_of_single", pieces::brolga_bytes_of_single as *const u8),
        ("brolga_double_of_bytes", pieces::brolga_double_of_bytes as *const u8),
        ("brolga_single_of_bytes", pieces::brolga_single_of_bytes as *const u8),
        ("brolga_singles_of_bytes", pieces::brolga_singles_of_bytes as *const u8),
        ("brolga_clear", pieces::brolga_clear as *const u8),
        ("brolga_cut_bytes", pieces::brolga_cut_bytes as *const u8),
        ("brolga_settle_bytes", pieces::brolga_settle_bytes as *const u8),
        ("brolga_tangent_note", tangents::brolga_tangent_note as *const u8),
        ("brolga_tangent_note_word", tangents::brolga_tangent_note_word as *const u8),
        ("brolga_tangent_whole", tangents::brolga_tangent_whole as *const u8),
        ("brolga_tangent_digits", tangents::brolga_tangent_digits as *const u8),
        ("brolga_tangent_digits_at", tangents::brolga_tangent_digits_at as *const u8),
        ("brolga_tangent_mark", tangents::brolga_tangent_mark as *const u8),
        ("brolga_tangent_clean", tangents::brolga_tangent_clean as *const u8),
        ("brolga_tangent_unsettled", tangents::brolga_tangent_unsettled as *const u8),
        ("brolga_tangent_settle", tangents::brolga_tangent_settle as *const u8),
        ("brolga_tangent_copied", tangents::brolga_tangent_copied as *const u8),
        ("brolga_tangent_zeroed", tangents::brolga_tangent_zeroed as *const u8),
        ("brolga_tangent_copy", tangents::brolga_tangent_copy as *const u8),
        ("brolga_tangent_zero", tangents::brolga_tangent_zero as *const u8),
        ("brolga_step_double", steps::brolga_step_double as *const u8),
        ("brolga_step_single", steps::brolga_step_single as *const u8),
        ("brolga_step_loses_double", steps::brolga_step_loses_double as *const u8),
        ("brolga_step_loses_single", steps::brolga_step_loses_single as *const u8),
        ("brolga_save_bytes", memory::brolga_save_bytes as *const u8),
        ("brolga_restore_bytes", memory::brolga_restore_bytes as *const u8),
    ]
}

/// Every symbol that this crate provides to generated code, each once.
pub fn symbols() -> Table {
    [doubles(), floats(), gnu(), made_up(), through_pointers(), integers_and_heap(), helpers()].concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::mem::transmute;

    use super::*;

    fn table() -> BTreeMap<&'static str, *const u8> {
        let all = symbols();
        let by_name: BTreeMap<_, _> = all.iter().copied().collect();
        assert_eq!(by_name.len(), all.len(), "a name appears twice");
        by_name
    }

    #[test]
    fn every_function_of_the_contract_is_there_in_both_precisions() {
        let table = table();
        let names = "sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh exp exp2 exp10 expm1 log log2 log10 \
            log1p pow sqrt cbrt hypot erf erfc lgamma tgamma fmod remainder fma fmin fmax fdim fabs floor ceil round \
            roundeven trunc rint nearbyint copysign ldexp scalbn frexp modf brolga_digamma brolga_trigamma brolga_polygamma";
        for name in names.split_whitespace() {
            assert!(table.contains_key(name), "{name}");
            assert!(table.contains_key(format!("{name}f").as_str()), "{name}f");
        }
        for name in "memcpy memmove memset memcmp malloc calloc realloc free abs labs".split_whitespace() {
            assert!(table.contains_key(name), "{name}");
        }
        assert!(table.values().all(|address| !address.is_null()));
    }

    #[test]
    fn names_lead_to_what_they_name() {
        let table = table();
        let f64_of = |name: &str, x: f64| {
            // SAFETY: only called with names of functions from f64 to f64.
            unsafe { transmute::<*const u8, extern "C" fn(f64) -> f64>(table[name])(x) }
        };
        let f32_of = |name: &str, x: f32| {
            // SAFETY: only called with names of functions from f32 to f32.
            unsafe { transmute::<*const u8, extern "C" fn(f32) -> f32>(table[name])(x) }
        };
        assert_eq!(f64_of("exp", 1.0), 1f64.exp());
        assert_eq!(f64_of("lgamma", 1.0), 0.0);
        assert_eq!(f64_of("tgamma", 5.0), 24.0);
        assert_eq!(f64_of("roundeven", 2.5), 2.0);
        // Some versions of glibc are off by the last bit here.
        assert!((f64_of("exp10", 3.0) - 1000.0).abs() < 1e-12);
        assert_eq!(f32_of("sqrtf", 2.25), 1.5);
        assert_eq!(f32_of("roundevenf", 3.5), 4.0);
        assert_eq!(f32_of("erff", 0.0), 0.0);
        let mut exponent = 0;
        // SAFETY: the signature of C's frexp.
        let frexp = unsafe { transmute::<*const u8, extern "C" fn(f64, *mut i32) -> f64>(table["frexp"]) };
        assert_eq!((frexp(12.0, &mut exponent), exponent), (0.75, 4));
    }
}
