//! Functions and their inverses, run one after the other.

use brolga_clif::inverse::{InverseRequest, UndoneCall, inverse};
use brolga_testing::noise::Noise;
use brolga_testing::{function, jit};
use cranelift_codegen::ir::{self, TrapCode, UserFuncName};

pub(crate) const OVERLAP: TrapCode = TrapCode::unwrap_user(238);

/// `%f(i64 state, i64 read, i64 n)`.
pub(crate) fn text(body: &str) -> String {
    format!("function %f(i64, i64, i64) system_v {{\n    fn0 = %sin(f64) -> f64 system_v\n{body}\n}}")
}

pub(crate) fn found(func: &ir::Function) -> Result<ir::Function, String> {
    found_of(func, &[0])
}

pub(crate) fn found_of(func: &ir::Function, states: &[usize]) -> Result<ir::Function, String> {
    let asked = InverseRequest { states, called: &|_| UndoneCall::Computes, overlap: OVERLAP };
    inverse(func, &asked, UserFuncName::testcase("g"))
        .map_err(|e| format!("{}: {}", func.dfg.display_inst(e.inst), e.why))
}

/// Call both, one after the other: how far words are apart, at most, as floats, how many are not
/// the same, and whether the function does something.
pub(crate) fn there_and_back(body: &str, states: u64, n: u64) -> (f64, usize, bool) {
    there_and_back_of(body, &[0], states, n)
}

/// The same, of these states: parameters 0 and 1.
pub(crate) fn there_and_back_of(body: &str, parts: &[usize], states: u64, n: u64) -> (f64, usize, bool) {
    there_and_back_by(body, parts, states, n, None)
}

/// The same, where the other parameter points at these words.
pub(crate) fn there_and_back_by(
    body: &str,
    parts: &[usize],
    states: u64,
    n: u64,
    given: Option<[u64; 16]>,
) -> (f64, usize, bool) {
    let func = function(&text(body));
    let back = found_of(&func, parts).unwrap_or_else(|e| panic!("{e}"));
    let isa = jit::host_isa();
    cranelift_codegen::verify_function(&back, &*isa).unwrap_or_else(|e| panic!("{e}\n{back}"));
    let (_module, code) = jit::compile(vec![func, back.clone()]);
    type Entry = extern "sysv64" fn(*mut u64, *mut u64, u64);
    // SAFETY: both have this signature.
    let [f, g] = [code[0], code[1]].map(|p| unsafe { std::mem::transmute::<*const u8, Entry>(p) });
    let mut noise = Noise(7);
    let (mut apart, mut differ, mut changed) = (0.0_f64, 0, false);
    for _ in 0..states {
        let mut float = |_| (noise.below(2001) as f64 / 1000.0 - 1.0).to_bits();
        let before: [u64; 16] = std::array::from_fn(&mut float);
        let read: [u64; 16] = given.unwrap_or_else(|| std::array::from_fn(&mut float));
        let (mut state, mut other) = (before, read);
        f(state.as_mut_ptr(), other.as_mut_ptr(), n);
        changed |= state != before;
        g(state.as_mut_ptr(), other.as_mut_ptr(), n);
        for (a, b) in state.iter().chain(&other).zip(before.iter().chain(&read)).filter(|(a, b)| a != b) {
            differ += 1;
            apart = apart.max((f64::from_bits(*a) - f64::from_bits(*b)).abs());
        }
    }
    (apart, differ, changed)
}

pub(crate) fn is_exact(body: &str) {
    for n in [0, 1, 2, 5, 8] {
        let (apart, differ, changed) = there_and_back(body, 2000, n);
        assert_eq!((apart, differ), (0.0, 0), "n = {n}\n{body}");
        assert!(changed || n == 0, "nothing was changed\n{body}");
    }
}

pub(crate) fn refused(body: &str) -> String {
    found(&function(&text(body))).expect_err("it has no inverse")
}
