//! The helpers that a nested derivative has as CLIF do what those of the run time do.
//!
//! Broken on purpose: with `sshr` by two in the halves of a step, or with copies always from the
//! first element on, these tests fail.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Options, Primal, Program};
use brolga_runtime::calls::memory::{brolga_copy_shadow, brolga_memmove_rev, brolga_zero};
use brolga_runtime::calls::steps::{
    brolga_step_double, brolga_step_loses_double, brolga_step_loses_single, brolga_step_single,
};
use brolga_testing::program;
use brolga_transform::standalone::prelude::{PRELUDE, of_gamma};

struct Helpers {
    program: Program,
    primal: Primal,
}

impl Helpers {
    fn new() -> Self {
        Self::of(PRELUDE)
    }

    fn of(text: &str) -> Self {
        let program = program(text);
        let keys: Vec<_> = program.funcs.iter().filter(|f| f.1.body.is_some()).map(|f| f.0).collect();
        let primal = Primal::new(&program, &keys, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        Self { program, primal }
    }

    fn gamma() -> Self {
        Self::of(&of_gamma().map(|f| f.to_string()).collect::<Vec<_>>().join("\n"))
    }

    fn call(&self, name: &str, args: &[DataValue]) -> Vec<DataValue> {
        let func = self.program.func(name).expect("the prelude has it");
        // SAFETY: pointers lead into living arrays.
        unsafe { self.primal.call(func, args) }.unwrap_or_else(|e| panic!("{name}: {e}"))
    }
}

/// Bits of all kinds: a weak generator is enough.
fn bits(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state ^ *state >> 29
}

#[test]
fn steps() {
    let (h, mut state) = (Helpers::new(), 1);
    for k in 0..4000 {
        let (before, other) = (bits(&mut state), bits(&mut state));
        // Neighbours and near ones as well as those far apart.
        let after = match k % 4 {
            0 => before.wrapping_add(1),
            1 => before.wrapping_sub(other >> 50),
            2 => before.wrapping_add((other >> 60) << 52),
            _ => other,
        };
        let ct = f64::from_bits(bits(&mut state));
        let args = [DataValue::F64(ct.into()), DataValue::I64(before as i64), DataValue::I64(after as i64)];
        let wanted = brolga_step_double(ct, before, after);
        let DataValue::F64(found) = h.call("brolga_step_double", &args)[0] else { panic!("a double") };
        let found = found.as_f64();
        assert!(
            found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan(),
            "{ct:e} {before:x} {after:x}"
        );
        let loses = h.call("brolga_step_loses_double", &args)[0] != DataValue::I64(0);
        assert_eq!(loses, brolga_step_loses_double(ct, before, after) != 0, "{ct:e} {before:x} {after:x}");

        let (before, after, ct) = (before as u32, after as u32, f32::from_bits(bits(&mut state) as u32));
        let args = [DataValue::F32(ct.into()), DataValue::I32(before as i32), DataValue::I32(after as i32)];
        let wanted = brolga_step_single(ct, before, after);
        let DataValue::F32(found) = h.call("brolga_step_single", &args)[0] else { panic!("a single") };
        let found = found.as_f32();
        assert!(
            found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan(),
            "{ct:e} {before:x} {after:x}"
        );
        let loses = h.call("brolga_step_loses_single", &args)[0] != DataValue::I64(0);
        assert_eq!(loses, brolga_step_loses_single(ct, before, after) != 0, "{ct:e} {before:x} {after:x}");
    }
}

/// Places and lengths in an array of 64 doubles: primals in the first half, shadows in the other.
#[test]
fn copies() {
    let (h, mut state) = (Helpers::new(), 7);
    for _ in 0..2000 {
        let contents: Vec<f64> = (0..64).map(|_| f64::from(bits(&mut state) as i8)).collect();
        let mut below = |n: u64| bits(&mut state) % n;
        let (dst, src, n) = (below(16), below(16), below(16) * 8);
        // Shadows lie as they like, and need not overlap as their primals do.
        let [dd, sd] = [32 + below(16) as i64 - dst as i64, 32 + below(16) as i64 - src as i64].map(|d| 8 * d);
        let [dd, sd] = [(dd, below(4)), (sd, below(4))].map(|(d, some)| if some == 0 { 0 } else { d });
        let elem = if below(2) == 0 { 8 } else { 4 };
        let (mut here, mut there) = (contents.clone(), contents);
        let at = |a: &mut Vec<f64>, i: u64| a.as_mut_ptr().wrapping_add(i as usize) as i64;
        let (d, s) = (at(&mut here, dst), at(&mut here, src));
        let ints = |list: &[i64]| list.iter().map(|&i| DataValue::I64(i)).collect::<Vec<_>>();
        let name = if elem == 8 { "brolga_memmove_rev_doubles" } else { "brolga_memmove_rev_singles" };
        h.call(name, &ints(&[d, dd, s, sd, n as i64, elem]));
        let (d, s) = (at(&mut there, dst), at(&mut there, src));
        // SAFETY: all places are in the array.
        unsafe { brolga_memmove_rev(d as *mut u8, dd as u64, s as *mut u8, sd as u64, n, elem as u64) };
        assert_eq!(bits_of(&here), bits_of(&there), "{name} {dst} {src} {n} {dd} {sd}");

        let (d, s) = (at(&mut here, dst), at(&mut here, src));
        h.call("brolga_copy_shadow", &ints(&[d, dd, s, sd, n as i64]));
        h.call("brolga_zero", &ints(&[s, sd, n as i64 / 2]));
        let (d, s) = (at(&mut there, dst), at(&mut there, src));
        // SAFETY: as above.
        unsafe { brolga_copy_shadow(d as *mut u8, dd as u64, s as *const u8, sd as u64, n) };
        // SAFETY: as above.
        unsafe { brolga_zero(s as *mut u8, sd as u64, n / 2) };
        assert_eq!(bits_of(&here), bits_of(&there), "{dst} {src} {n} {dd} {sd}");
    }
}

fn bits_of(list: &[f64]) -> Vec<u64> {
    list.iter().map(|x| x.to_bits()).collect()
}

/// A function of a number, of the run time.
type OfDoubles = (&'static str, extern "C" fn(f64) -> f64, extern "C" fn(f32) -> f32);

fn same(found: f64, wanted: f64) -> bool {
    found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan()
}

/// Poles, their surroundings, ends and anything.
fn points() -> Vec<f64> {
    let mut state = 7;
    let special =
        [0.0, -0.0, 1.0, 2.0, 10.0, -1.0, -7.0, -2.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300, -1e300];
    let near = (-60..120).map(|i| f64::from(i) / 8.0 + 1e-3);
    let any = (0..2000).map(|_| f64::from_bits(bits(&mut state)));
    special.into_iter().chain(near).chain(any).collect()
}

#[test]
fn digamma_and_trigamma() {
    use brolga_runtime::calls::gamma::{brolga_digamma, brolga_digammaf, brolga_trigamma, brolga_trigammaf};
    let h = Helpers::gamma();
    let functions: [OfDoubles; 2] =
        [("brolga_digamma", brolga_digamma, brolga_digammaf), ("brolga_trigamma", brolga_trigamma, brolga_trigammaf)];
    for ((name, double, single), x) in functions.into_iter().flat_map(|f| points().into_iter().map(move |x| (f, x))) {
        let DataValue::F64(found) = h.call(name, &[DataValue::F64(x.into())])[0] else { panic!("a double") };
        assert!(same(found.as_f64(), double(x)), "{name}({x}): {} {}", found.as_f64(), double(x));
        let (of, x) = (format!("{name}f"), x as f32);
        let DataValue::F32(found) = h.call(&of, &[DataValue::F32(x.into())])[0] else { panic!("a single") };
        assert!(same(found.as_f32().into(), single(x).into()), "{of}({x}): {} {}", found.as_f32(), single(x));
    }
}

#[test]
fn polygamma() {
    use brolga_runtime::calls::gamma::{brolga_polygamma, brolga_polygammaf};
    let h = Helpers::gamma();
    // The run time has digamma and trigamma for the first two.
    let orders = [2.0, 3.0, 4.0, 7.0, 20.0, 170.0, 171.0, 2.5, -1.0, f64::NAN];
    for (n, x) in orders.into_iter().flat_map(|n| points().into_iter().map(move |x| (n, x))) {
        let args = [n, x].map(|v| DataValue::F64(v.into()));
        let DataValue::F64(found) = h.call("brolga_polygamma", &args)[0] else { panic!("a double") };
        let (found, wanted) = (found.as_f64(), brolga_polygamma(n, x));
        assert!(same(found, wanted), "{n} {x}: {found} {wanted}");
        let args = [n, x].map(|v| DataValue::F32((v as f32).into()));
        let DataValue::F32(found) = h.call("brolga_polygammaf", &args)[0] else { panic!("a single") };
        let (found, wanted) = (found.as_f32(), brolga_polygammaf(n as f32, x as f32));
        assert!(same(found.into(), wanted.into()), "{n} {x}: {found} {wanted}");
    }
    for x in [0.5, 3.0, -2.25] {
        let args = [1.0, x].map(|v| DataValue::F64(v.into()));
        let DataValue::F64(found) = h.call("brolga_polygamma", &args)[0] else { panic!("a double") };
        let wanted = brolga_polygamma(1.0, x);
        assert!((found.as_f64() - wanted).abs() < 1e-14 * wanted, "{x}: {} {wanted}", found.as_f64());
    }
}
