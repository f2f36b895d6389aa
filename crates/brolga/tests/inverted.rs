//! Integers of loops that are computed backwards: gradients have the bits of those that are
//! recorded, for random updates, and what loses nothing records nothing.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Mode, Options, Pass, PassSet, Request};
use brolga_testing::program;

/// Numbers of a sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

/// A loop that carries three integers, and weighs a number with them: `updates` give v30, v31 (of
/// 64 bits) and v32 (of 32) from v10, v11 and v12. v4 and v5 are the same throughout.
fn text(updates: &str) -> String {
    format!(
        "function %f(f64, i64, i64, i64) -> f64 {{
        block0(v0: f64, v1: i64, v2: i64, v3: i64):
            v4 = bxor v2, v3
            v5 = ireduce.i32 v4
            v6 = iconst.i64 0
            v7 = iconst.i64 1
            v8 = f64const 0.0
            jump block1(v6, v2, v3, v5, v0, v8)
        block1(v9: i64, v10: i64, v11: i64, v12: i32, v13: f64, v14: f64):
            v15 = icmp slt v9, v1
            brif v15, block2, block3
        block2:
            v16 = iconst.i64 7
            v17 = band v10, v16
            v18 = fcvt_from_sint.f64 v17
            v19 = band v11, v16
            v20 = fcvt_from_sint.f64 v19
            v21 = iconst.i32 3
            v22 = band v12, v21
            v23 = fcvt_from_sint.f64 v22
            v24 = fmul v13, v18
            v25 = fmul v24, v20
            v26 = fadd v14, v25
            v27 = f64const 0x1.0p-2
            v28 = fmul v23, v27
            v33 = fadd v28, v27
            v29 = fmul v13, v33
            {updates}
            v34 = iadd v9, v7
            jump block1(v34, v30, v31, v32, v29, v26)
        block3:
            v35 = fadd v13, v14
            return v35
        }}"
    )
}

/// The value, the gradient and what was recorded after so many iterations.
fn run(text: &str, n: i64, inverts: bool) -> (f64, f64, usize) {
    let p = program(text);
    let disabled = if inverts { PassSet::NONE } else { PassSet::from(Pass::Invert) };
    let options = Options { mode: Mode::Split, disabled, ..Options::full() };
    let args = [ArgActivity::Active, ArgActivity::Const, ArgActivity::Const, ArgActivity::Const];
    let rule = DerivedRule::new(&p, &Request::new(p.func("f").unwrap(), args), &options).unwrap();
    let start = [n, 0x9e37_79b9_7f4a_7c15_u64 as i64, 0x0123_4567_89ab_cdef];
    let mut args = vec![Arg::new(DataValue::F64(0.75.into()))];
    args.extend(start.map(|x| Arg::new(DataValue::I64(x))));
    // SAFETY: the function touches no memory.
    let (results, mut pullback) = unsafe { rule.forward(&args) }.unwrap();
    let recorded = pullback.tape_bytes();
    let mut found = vec![];
    for _ in 0..2 {
        // SAFETY: as above.
        found.push(unsafe { pullback.call(&[DataValue::F64(1.5.into())]) }.unwrap()[0].clone());
    }
    assert_eq!(found[0], found[1]);
    let float = |v: &DataValue| match v {
        DataValue::F64(x) => x.as_f64(),
        other => panic!("{other:?}"),
    };
    (float(&results[0]), float(found[0].as_ref().unwrap()), recorded)
}

/// An update of a value of 64 bits, whose result has the number `at`; numbers from `at + 1` on may
/// be used. Whether nothing is lost.
fn update(r: &mut Random, x: &str, other: &str, at: u64) -> (String, bool) {
    let (a, b, c) = (at + 1, at + 2, at + 3);
    let k = 1 + r.below(63);
    let any = r.below(1 << 31) * 2 + 1;
    let shift = ["ishl", "ushr"][r.below(2) as usize];
    let turn = ["rotl", "rotr"][r.below(2) as usize];
    let with = ["v4", other][r.below(2) as usize];
    let (text, exact) = match r.below(16) {
        0 => (format!("v{a} = iconst.i32 {k}; v{b} = {shift} {x}, v{a}; v{at} = bxor {x}, v{b}"), true),
        1 => (format!("v{a} = iconst.i64 {k}; v{b} = {shift} {x}, v{a}; v{at} = bxor v{b}, {x}"), true),
        2 => (format!("v{a} = iconst.i64 {k}; v{at} = {turn} {x}, v{a}"), true),
        3 => (format!("v{at} = {turn} {x}, {with}"), true),
        4 => (format!("v{at} = iadd {x}, {with}"), true),
        5 => (format!("v{at} = isub {with}, {x}"), true),
        6 => (format!("v{at} = bxor {with}, {x}"), true),
        7 => (format!("v{a} = iconst.i64 {any}; v{at} = imul {x}, v{a}"), true),
        8 => (format!("v{a} = ineg {x}; v{at} = bnot v{a}"), true),
        9 => (format!("v{a} = bswap {x}; v{at} = bitrev v{a}"), true),
        10 => (format!("v{a} = iconst.i64 {k}; v{b} = ishl {x}, v{a}; v{at} = iadd {x}, v{b}"), true),
        11 => (format!("v{a} = iconst.i64 {k}; v{b} = ishl {x}, v{a}; v{at} = isub v{b}, {x}"), true),
        12 => (format!("v{a} = iconst.i64 {any}; v{b} = iadd {x}, v{a}; v{at} = isub v{b}, {with}"), true),
        // These lose bits.
        13 => (format!("v{a} = iconst.i64 {any}; v{b} = ishl v{a}, v7; v{at} = imul {x}, v{b}"), false),
        14 => (format!("v{a} = ireduce.i16 {x}; v{b} = bnot v{a}; v{at} = sextend.i64 v{b}"), false),
        _ => {
            (format!("v{a} = iconst.i64 {k}; v{b} = ushr {x}, v{a}; v{c} = iadd v{b}, v4; v{at} = bor v{c}, v7"), false)
        }
    };
    (text.replace("; ", "\n            "), exact)
}

/// The same of 32 bits: made wider, changed there, and made narrower, where that is exact.
fn narrow_update(r: &mut Random, at: u64) -> (String, bool) {
    let (a, b, c) = (at + 1, at + 2, at + 3);
    let k = 1 + r.below(31);
    let any = r.below(1 << 31) * 2 + 1;
    let wider = ["uextend", "sextend"][r.below(2) as usize];
    let (text, exact) = match r.below(5) {
        0 => (
            format!(
                "v{a} = {wider}.i64 v12; v{b} = iconst.i64 {any}; v{c} = imul v{a}, v{b}; v{at} = ireduce.i32 v{c}"
            ),
            true,
        ),
        1 => {
            (format!("v{a} = {wider}.i64 v12; v{b} = iadd v{a}, v4; v{c} = ineg v{b}; v{at} = ireduce.i32 v{c}"), true)
        }
        2 => (format!("v{a} = iconst.i32 {k}; v{b} = ushr v12, v{a}; v{at} = bxor v12, v{b}"), true),
        3 => (format!("v{a} = iconst.i32 {k}; v{b} = rotr v12, v{a}; v{at} = bxor v{b}, v5"), true),
        // The low bits come from higher ones.
        _ => (
            format!("v{a} = {wider}.i64 v12; v{b} = rotl v{a}, v7; v{c} = bxor v{b}, v4; v{at} = ireduce.i32 v{c}"),
            false,
        ),
    };
    (text.replace("; ", "\n            "), exact)
}

#[test]
fn random_updates_backwards_have_the_bits_of_records() {
    let mut r = Random(7);
    let mut carried = 0;
    for i in 0..120 {
        // In one of two loops the second integer is updated by what the first was.
        let (first, exact) = update(&mut r, "v10", "v4", 100);
        let (middle, middle_exact) = update(&mut r, "v100", "v4", 110);
        let (second, second_exact) = update(&mut r, "v11", ["v110", "v4"][i % 2], 120);
        let (narrow, narrow_exact) = narrow_update(&mut r, 130);
        let ends = "v30 = bxor v110, v4\n            v31 = bnot v120\n            v32 = bnot v130";
        // What is handed on has a name of the loop.
        let second = second.replace("v110", "v30");
        let ends: Vec<&str> = ends.split("\n").collect();
        let updates = [&first, &middle, ends[0], &second, ends[1], &narrow, ends[2]].map(str::trim).join("\n");
        let text = text(&updates);
        let (value, gradient, recorded) = run(&text, 25, true);
        let (as_recorded, by_record, all) = run(&text, 25, false);
        assert_eq!(value.to_bits(), as_recorded.to_bits(), "{text}");
        assert_eq!(gradient.to_bits(), by_record.to_bits(), "{text}");
        if exact && middle_exact && second_exact && narrow_exact {
            carried += 1;
            let longer = run(&text, 50, true).2;
            assert_eq!(recorded, longer, "the same for any number of iterations: {text}");
            assert!(all > recorded, "{text}");
        }
    }
    assert!(carried > 30, "{carried} loops record nothing");
}

#[test]
fn generators_of_random_numbers_record_nothing() {
    let xorshift = "v100 = iconst.i64 13
        v101 = ishl v10, v100
        v102 = bxor v10, v101
        v103 = ushr v102, v7
        v104 = bxor v102, v103
        v105 = iconst.i64 17
        v106 = ishl v104, v105
        v30 = bxor v104, v106";
    let congruential = "v110 = iconst.i64 0x5851f42d4c957f2d
        v111 = imul v11, v110
        v31 = iadd v111, v3
        v112 = iconst.i32 0x9e3779b9
        v113 = rotl v12, v7
        v32 = isub v113, v112";
    let text = text(&format!("{xorshift}\n{congruential}"));
    let (value, gradient, recorded) = run(&text, 40, true);
    let (as_recorded, by_record, all) = run(&text, 40, false);
    assert_eq!((value, gradient), (as_recorded, by_record));
    assert_eq!(recorded, run(&text, 400, true).2);
    assert!(all >= 40 * 8, "{all}");
}
