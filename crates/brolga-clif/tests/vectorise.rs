//! Loops run several iterations at a time do what they do iteration by iteration: random small
//! loops over buffers that overlap in all ways, compiled as they are and in lanes, on the same
//! memory.
//!
//! What is stored and what is returned must be the same bits. Where sums may be split, that holds
//! of what is stored, and what is returned may differ by roundings. Which of the loops are refused
//! is counted, so that none of this passes because nothing was done.

use std::fmt::Write;

use brolga_clif::vectorise::{LoopPolicy, VectorReport, has_lanes};
use brolga_testing::noise::Noise;
use brolga_testing::{asked, budget, function, jit};
use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::EntitySet;
use cranelift_jit::JITModule;

use body::{FloatType, LoopBody};

mod body;

/// `f(p, q, r, n, s)`: three places, a number of iterations and a first sum.
type Compiled = extern "C" fn(*mut u8, *mut u8, *mut u8, u64, f64) -> f64;

/// Functions compiled together, in order.
fn compile(funcs: Vec<ir::Function>) -> (JITModule, Vec<Compiled>) {
    let (module, found) = jit::compile(funcs);
    // SAFETY: all functions have this signature, and the module is kept as long as they are.
    let of = |at| unsafe { std::mem::transmute::<*const u8, Compiled>(at) };
    (module, found.into_iter().map(of).collect())
}

fn one_by_one(func: &mut ir::Function) -> Vec<VectorReport> {
    brolga_clif::vectorise::vectorise(
        func,
        LoopPolicy {
            reorder: &|_| false,
            watched: &EntitySet::new(),
            shadows: &EntitySet::new(),
            apart: &|_, _| false,
            worth: false,
            lanes: false,
            stay: &|_| true,
        },
    )
}

fn lanes(func: &mut ir::Function, reorder: bool, worth: bool) -> Vec<VectorReport> {
    brolga_clif::vectorise::vectorise(
        func,
        LoopPolicy {
            reorder: &|_| reorder,
            watched: &EntitySet::new(),
            shadows: &EntitySet::new(),
            apart: &|_, _| false,
            worth,
            lanes: true,
            stay: &|_| true,
        },
    )
}

/// How a loop counts: its blocks, with BODY where the iteration is, which finds its index (in
/// elements) in v50.
const SHAPES: [(&str, i64); 9] = [
    // Upwards, asking first.
    (
        "jump block1(v40, v5)\nblock1(v50: i64, v11: F):\nv51 = icmp slt v50, v3\nbrif v51, block2, block3(v11)\nblock2:\nBODY\nv52 = iadd v50, v41\njump block1(v52, NEXT)\nblock3(v60: F):",
        1,
    ),
    (
        "jump block1(v40, v5)\nblock1(v50: i64, v11: F):\nv51 = icmp ugt v3, v50\nbrif v51, block2, block3(v11)\nblock2:\nBODY\nv52 = isub v50, v42\njump block1(v52, NEXT)\nblock3(v60: F):",
        1,
    ),
    (
        "jump block1(v40, v5)\nblock1(v50: i64, v11: F):\nv51 = icmp eq v50, v3\nbrif v51, block3(v11), block2\nblock2:\nBODY\nv52 = iadd v50, v41\njump block1(v52, NEXT)\nblock3(v60: F):",
        1,
    ),
    // From one on, through the last.
    (
        "jump block1(v41, v5)\nblock1(v50: i64, v11: F):\nv51 = icmp sle v50, v3\nbrif v51, block2, block3(v11)\nblock2:\nBODY\nv52 = iadd v50, v41\njump block1(v52, NEXT)\nblock3(v60: F):",
        1,
    ),
    // Asking last.
    (
        "brif v3, block1(v40, v5), block3(v5)\nblock1(v50: i64, v11: F):\nBODY\nv52 = iadd v50, v41\nv51 = icmp ne v52, v3\nbrif v51, block1(v52, NEXT), block3(NEXT)\nblock3(v60: F):",
        1,
    ),
    (
        "brif v3, block1(v40, v5), block3(v5)\nblock1(v50: i64, v11: F):\nBODY\nv52 = iadd v50, v41\nv51 = icmp ult v52, v3\nbrif v51, block1(v52, NEXT), block3(NEXT)\nblock3(v60: F):",
        1,
    ),
    // Backwards, as reverses go.
    (
        "jump block1(v3, v5)\nblock1(v49: i64, v11: F):\nv50 = isub v49, v41\nv51 = icmp eq v49, v40\nbrif v51, block3(v11), block4\nblock4:\njump block2(v50)\nblock2(v48: i64):\nBODY\njump block1(v48, NEXT)\nblock3(v60: F):",
        -1,
    ),
    (
        "v47 = isub v3, v41\njump block1(v47, v5)\nblock1(v50: i64, v11: F):\nv51 = icmp sge v50, v40\nbrif v51, block2, block3(v11)\nblock2:\nBODY\nv52 = iadd v50, v42\njump block1(v52, NEXT)\nblock3(v60: F):",
        -1,
    ),
    (
        "jump block1(v3, v5)\nblock1(v49: i64, v11: F):\nv50 = iadd v49, v42\nbrif v49, block2, block3(v11)\nblock2:\nBODY\njump block1(v50, NEXT)\nblock3(v60: F):",
        -1,
    ),
];

/// A loop, and how often it adds to one place in all iterations.
fn program(noise: &mut Noise) -> (String, usize) {
    let (of, shift) = if noise.below(4) == 0 {
        (FloatType { scalar: "f32", vector: "f32x4", width: 4 }, 2)
    } else {
        (FloatType { scalar: "f64", vector: "f64x2", width: 8 }, 3)
    };
    let FloatType { scalar: ty, vector, .. } = of;
    // Some step over every other element, and some of the rest go the other way beside what they
    // do.
    let stride = i64::from(noise.below(12) == 0);
    let against = stride == 0 && noise.below(12) == 0;
    let mut body = LoopBody::new(of, against);
    for _ in 0..3 + noise.below(6) {
        body.grow(noise);
    }
    if body.stores == 0 && body.cells == 0 {
        writeln!(body.text, "store {}, v21", body.floats.last().unwrap()).unwrap();
    }
    // Only the first lane of what a scalar is compared with counts.
    let constant = match noise.below(4) {
        0 => "0x7fe00000000000000000000000000000",
        _ => "0x00000000000000000000000000000000",
    };
    let (shape, _) = SHAPES[noise.below(SHAPES.len() as u64) as usize];
    let shape = shape.replace("BODY\n", &body.text).replace("NEXT", &body.next).replace(": F", &format!(": {ty}"));
    let (first, last) = match ty {
        "f32" => ("v5 = fdemote.f32 v4\nv44 = f32const 0x1.8p0", "v61 = fpromote.f64 v60\nreturn v61"),
        _ => ("v5 = fneg v4\nv44 = f64const 0x1.8p0", "return v60"),
    };
    let text = format!(
        "function %f(i64, i64, i64, i64, f64) -> f64 system_v {{
const0 = {constant}
block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: f64):
{first}
v40 = iconst.i64 0
v41 = iconst.i64 1
v42 = iconst.i64 -1
v43 = iconst.i64 {}
v45 = vconst.{vector} const0
{shape}
{last}
}}",
        shift + stride
    );
    (text, body.cells)
}

const WORDS: usize = 96;

/// Memory before a run.
fn memory(noise: &mut Noise) -> Vec<u32> {
    let mut out = Vec::with_capacity(WORDS);
    for _ in 0..WORDS / 2 {
        let x = (noise.below(1000) as f64 - 500.0) / 64.0;
        let x = match noise.below(40) {
            0 => f64::INFINITY,
            1 => f64::NAN,
            2 => -0.0,
            3 | 4 => 0.0,
            _ => x,
        };
        let bits = x.to_bits();
        // Either half is a number of its own for programs in single precision.
        let low = if x.is_finite() && x != 0.0 { noise.below(1 << 16) as u32 } else { 0 };
        out.extend([(x as f32).to_bits() | low, (bits >> 32) as u32]);
    }
    out
}

/// Bits, but one NaN is like another.
fn plain(words: &[u32]) -> Vec<u32> {
    let nan32 = |w: u32| if f32::from_bits(w).is_nan() { 0x7fc0_0000 } else { w };
    words.iter().map(|&w| nan32(w)).collect()
}

fn plain64(words: &[u32], odd: bool) -> Vec<u64> {
    let canonical = |c: &[u32]| {
        let bits = u64::from(c[0]) | u64::from(c[1]) << 32;
        if f64::from_bits(bits).is_nan() { f64::NAN.to_bits() } else { bits }
    };
    words[usize::from(odd)..].chunks_exact(2).map(canonical).collect()
}

fn same_memory(a: &[u32], b: &[u32]) -> bool {
    a == b || plain(a) == plain(b) || [false, true].iter().any(|&odd| plain64(a, odd) == plain64(b, odd))
}

/// The largest number that a loop finds in memory, in places that are so many words apart.
fn largest(words: &[u32], single: bool, unit: usize) -> f64 {
    let of = |i: usize| match single {
        true => f64::from(f32::from_bits(words[i])),
        false => f64::from_bits(u64::from(words[i]) | u64::from(words[i + 1]) << 32),
    };
    let all = (0..words.len() - 1).step_by(if single { 1 } else { unit }).map(of);
    all.filter(|x| !x.is_nan()).fold(1.0, |m, x| m.max(x.abs()))
}

#[test]
fn loops_in_lanes_do_what_they_do_one_by_one() {
    let isa = jit::host_isa();
    if !has_lanes(&*isa) {
        return;
    }
    let programs: usize = asked("BROLGA_LANES_PROGRAMS").unwrap_or(budget(1500, 200));
    let seed = asked("BROLGA_LANES_SEED").unwrap_or(1);
    let mut noise = Noise(seed);
    let (mut taken, mut refused, mut tests, mut split, mut stay, mut alone) = (0, 0, 0, 0, 0, 0);
    let mut in_lanes = 0;
    for _ in 0..programs {
        let (text, cells) = program(&mut noise);
        let one = function(&text);
        let (mut exact, mut sums, mut cells_only) = (one.clone(), one.clone(), one.clone());
        let looked = lanes(&mut exact, false, false);
        let looked_too = lanes(&mut sums, true, false);
        let ones = one_by_one(&mut cells_only);
        alone += ones.iter().filter(|l| l.outcome.is_ok()).count();
        for func in [&exact, &sums, &cells_only] {
            cranelift_codegen::verify_function(func, &*isa).unwrap_or_else(|e| panic!("{e}\n{text}\n{func}"));
        }
        for l in &looked_too {
            match l.outcome {
                Ok(t) => (taken, tests, split, stay) = (taken + 1, tests + t.tests, split + t.sums, stay + t.cells),
                Err(_) => refused += 1,
            }
        }
        if looked_too.iter().chain(&ones).all(|l| l.outcome.is_err()) {
            continue;
        }
        let shown = exact.to_string();
        let is_exact = looked.iter().any(|l| l.outcome.is_ok());
        let (module, compiled) = compile(vec![one, exact, sums, cells_only]);
        for _ in 0..24 {
            let before = memory(&mut noise);
            let unit = if noise.below(6) == 0 { 1 } else { 2 };
            let mut places = [0; 3];
            for p in &mut places {
                *p = 30 + unit * noise.below(if unit == 1 { 9 } else { 8 }) as usize;
            }
            let (n, s) = (noise.below(12), 0.625);
            let run = |f: Compiled| {
                let mut m = before.clone();
                let [p, q, r] = places.map(|w| m.as_mut_ptr().wrapping_add(w).cast::<u8>());
                let found = f(p, q, r, n, s);
                (m, found)
            };
            let (want, sum) = run(compiled[0]);
            for (k, &f) in compiled[1..].iter().enumerate() {
                let (mut found, other) = run(f);
                let near = sum.to_bits() == other.to_bits() || sum.is_nan() && other.is_nan();
                let single = text.contains("f32x4");
                let size = largest(&before, single, unit).max(largest(&want, single, unit)).max(sum.abs());
                let tol = size * if single { 1e-5 } else { 1e-13 };
                if k == 1 && cells > 0 && (single || unit == 2) {
                    // Places that are added to may differ by roundings, and so may what the last
                    // iterations make of them.
                    let step = if single { 1 } else { 2 };
                    for at in (0..WORDS).step_by(step) {
                        let of = |m: &[u32]| match single {
                            true => f64::from(f32::from_bits(m[at])),
                            false => f64::from_bits(u64::from(m[at]) | u64::from(m[at + 1]) << 32),
                        };
                        let (a, b) = (of(&want), of(&found));
                        let far = size.is_finite() && b.is_finite() && (a - b).abs() > tol;
                        assert!(!far, "{a} became {b} at {at} with {places:?} and {n} iterations\n{text}\n{shown}");
                    }
                    found.clone_from(&want);
                } else if k == 1 && cells > 0 {
                    found.clone_from(&want);
                }
                let rounded = k == 1 && (!size.is_finite() || !other.is_finite() || (sum - other).abs() <= tol);
                assert!(
                    same_memory(&want, &found),
                    "memory differs with {places:?} and {n} iterations\n{text}\n{shown}"
                );
                assert!(near || rounded, "{sum} became {other} with {places:?} and {n} iterations\n{text}\n{shown}");
            }
            in_lanes += usize::from(is_exact && n >= 4);
        }
        // SAFETY: nothing of it is called any more.
        unsafe { module.free_memory() };
    }
    eprintln!(
        "{taken} taken with {tests} comparisons and {split} split sums, {stay} places, {alone} one by one, {refused} refused, {in_lanes} runs"
    );
    assert!(
        taken * 4 > programs && tests > taken && split * 20 > programs && stay * 20 > programs && alone * 10 > programs,
        "{taken} taken, {tests} tests, {split} split, {stay} places, {alone} alone"
    );
}

/// Loops that are entered at two places, or from two, are left alone; so are those that call, trap
/// or branch.
#[test]
fn other_loops() {
    let text = |entry: &str, body: &str, more: &str| {
        format!(
            "function %f(i64, i64, i64, i64, f64) -> f64 system_v {{
            fn0 = %g(f64) -> f64 system_v
            block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: f64):
                v5 = iconst.i64 0
                v6 = iconst.i64 8
                {entry}
            block1(v9: i64):
                v10 = icmp ult v9, v3
                brif v10, block2(v9), block3
            block2(v11: i64):
                v12 = iadd v0, v11
                v13 = load.f64 v12
                v14 = fadd v13, v4
                {body}
                store v14, v12
                v15 = iadd v11, v6
                jump block1(v15)
            {more}
            block3:
                return v4
            }}"
        )
    };
    let found = |entry: &str, body: &str, more: &str| {
        let mut func = function(&text(entry, body, more));
        lanes(&mut func, false, false).into_iter().map(|l| l.outcome.is_ok()).collect::<Vec<_>>()
    };
    let plain = "jump block1(v5)";
    assert_eq!(found(plain, "", ""), [true]);
    assert_eq!(found("brif v3, block1(v5), block2(v5)", "", ""), [true; 0]);
    assert_eq!(found("brif v3, block1(v5), block4", "", "block4:\n    jump block1(v6)"), [true; 0]);
    assert_eq!(found(plain, "brif v3, block4, block3", "block4:\n    jump block1(v11)"), [true; 0]);
    assert_eq!(found(plain, "v16 = call fn0(v14)", ""), [false]);
    assert_eq!(found(plain, "trapnz v11, user1", ""), [false]);
    assert_eq!(found(plain, "v16 = load.i64 v12+8\n v17 = iadd v0, v16\n store v14, v17", ""), [false]);
    assert_eq!(found(plain, "store v14, v1", ""), [false]);
}

/// Which places are in registers, in loops that run in lanes and in others.
#[test]
fn places() {
    let text = |body: &str, step: i64| {
        format!(
            "function %f(i64, i64, i64, i64, f64) -> f64 system_v {{
            fn0 = %g(f64) -> f64 system_v
            block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: f64):
                v5 = iconst.i64 0
                v6 = iconst.i64 {step}
                jump block1(v5)
            block1(v9: i64):
                v10 = icmp ult v9, v3
                brif v10, block2(v9), block3
            block2(v11: i64):
                v12 = iadd v0, v11
                v13 = load.f64 v12
                v14 = fmul v13, v4
                {body}
                v15 = iadd v11, v6
                jump block1(v15)
            block3:
                return v4
            }}"
        )
    };
    let cells = |body: &str, step: i64| {
        let mut func = function(&text(body, step));
        let looked = lanes(&mut func, true, false);
        looked.first().and_then(|l| l.outcome.ok()).map(|t| (t.at_a_time, t.cells))
    };
    let add = "v20 = load.f64 v1\n v21 = fadd v20, v14\n store v21, v1\n";
    assert_eq!(cells(add, 8), Some((4, 1)));
    assert_eq!(cells(add, 16), Some((1, 1)));
    // Twice, and beside another.
    let two_adds = format!("{add} v22 = load.f64 v1\n v23 = fsub v22, v13\n store v23, v1\n");
    assert_eq!(cells(&two_adds, 8), Some((4, 1)));
    let two = format!("{add} v22 = load.f64 v2+8\n v23 = fsub v22, v13\n store v23, v2+8\n");
    assert_eq!(cells(&two, 8), Some((4, 2)));
    assert_eq!(cells(&two, 32), Some((1, 2)));
    // No sum: as it is, iteration by iteration.
    assert_eq!(cells(&add.replace("fadd v20, v14", "fmax v20, v14"), 8), Some((1, 1)));
    // An iteration that does not read first, parts of one place, a place elsewhere each time, a
    // call, and something that is not in steps.
    let parts = format!("{add} v22 = load.f64 v1+4\n v23 = fsub v22, v13\n store v23, v1+4\n");
    let elsewhere = format!("v16 = load.i64 v2\n v17 = iadd v0, v16\n v18 = load.f64 v17\n {add}");
    let moving = format!("{add} v16 = imul v11, v11\n v17 = iadd v2, v16\n v18 = load.f64 v17\n");
    for other in
        ["store v14, v1", &parts, &elsewhere.replace("v2\n", "v12\n"), &format!("{add} v16 = call fn0(v14)"), &moving]
    {
        assert_eq!(cells(other, 8), None, "{other}");
        assert_eq!(cells(other, 16), None, "{other}");
    }
    assert_eq!(cells(&elsewhere, 16), None);
    // Not where it is not wanted.
    let mut func = function(&text(add, 8));
    let (watched, shadows) = (&EntitySet::new(), &EntitySet::new());
    let how = LoopPolicy {
        reorder: &|_| true,
        watched,
        shadows,
        worth: false,
        lanes: true,
        apart: &|_, _| false,
        stay: &|_| false,
    };
    assert!(brolga_clif::vectorise::vectorise(&mut func, how).iter().all(|l| l.outcome.is_err()));
}

/// A shadow is on top of no primal, so only shadows are compared with shadows, and what is no
/// shadow with the like.
#[test]
fn what_is_known_to_be_apart_is_not_compared() {
    let isa = jit::host_isa();
    if !has_lanes(&*isa) {
        return;
    }
    let func = function(
        "function %f(i64, i64, i64, i64) system_v {
        block0(v0: i64, v1: i64, v2: i64, v3: i64):
            v4 = iconst.i64 0
            v5 = iconst.i64 1
            v6 = iconst.i64 3
            jump block1(v4)
        block1(v7: i64):
            v8 = icmp slt v7, v3
            brif v8, block2, block3
        block2:
            v9 = ishl v7, v6
            v10 = iadd v0, v9
            v11 = iadd v1, v9
            v12 = iadd v2, v9
            v13 = load.f64 v10
            v14 = load.f64 v11
            v15 = fadd v14, v13
            store v15, v11
            store v13, v12
            v16 = iadd v7, v5
            jump block1(v16)
        block3:
            return
        }",
    );
    let accesses: Vec<ir::Inst> = func
        .layout
        .blocks()
        .flat_map(|b| func.layout.block_insts(b))
        .filter(|&i| func.dfg.insts[i].opcode().can_load() || func.dfg.insts[i].opcode().can_store())
        .collect();
    let [of_x, of_s, to_s, to_t] = accesses[..] else { panic!("four accesses") };
    for (in_shadows, wanted) in [(vec![], 3), (vec![of_s, to_s, to_t], 1), (vec![of_s, to_s], 1), (accesses.clone(), 3)]
    {
        let mut shadows = EntitySet::new();
        shadows.extend(in_shadows);
        let watched = &EntitySet::new();
        let how = LoopPolicy {
            reorder: &|_| false,
            watched,
            shadows: &shadows,
            worth: false,
            lanes: true,
            apart: &|_, _| false,
            stay: &|_| false,
        };
        let looked = brolga_clif::vectorise::vectorise(&mut func.clone(), how);
        assert_eq!(looked[0].outcome.map(|t| t.tests), Ok(wanted), "{shadows:?}, {of_x}");
    }
}

/// An iteration that adds to one place twice, as an unrolled one does, waits for one addition, and
/// reads what does not change before the loop.
#[test]
fn several_terms_of_an_iteration_are_added_to_each_other_first() {
    let func = function(
        "function %f(i64, i64, i64, i64) system_v {
        block0(v0: i64, v1: i64, v2: i64, v3: i64):
            v4 = iconst.i64 0
            v5 = iconst.i64 16
            jump block1(v4)
        block1(v6: i64):
            v7 = icmp ult v6, v3
            brif v7, block2, block3
        block2:
            v8 = iadd v0, v6
            v9 = load.f64 v8
            v10 = load.f64 v2
            v11 = fmul v9, v10
            v12 = load.f64 v1
            v13 = fadd v12, v11
            store v13, v1
            v14 = load.f64 v8+8
            v15 = load.f64 v2
            v16 = fmul v14, v15
            v17 = load.f64 v1
            v18 = fadd v17, v16
            store v18, v1
            v19 = iadd v6, v5
            jump block1(v19)
        block3:
            return
        }",
    );
    let of_cell = |i: &ir::Inst| {
        let op = func.dfg.insts[*i].opcode();
        (op.can_load() || op.can_store()) && func.dfg.inst_args(*i).iter().any(|v| v.as_u32() == 1)
    };
    let mut shadows = EntitySet::new();
    shadows.extend(func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).filter(of_cell));
    // Additions that the place goes through, and what is read in an iteration.
    let iteration = |reorder: bool, shadows: &EntitySet<ir::Inst>| {
        let mut func = func.clone();
        let watched = &EntitySet::new();
        let apart = &|_, _| false;
        let how =
            LoopPolicy { reorder: &|_| reorder, watched, shadows, worth: false, lanes: true, apart, stay: &|_| true };
        let looked = brolga_clif::vectorise::vectorise(&mut func, how).remove(0);
        assert_eq!(looked.outcome.map(|t| (t.at_a_time, t.cells)), Ok((1, 1)));
        let v = func.layout.blocks().find(|&b| func.block_successors(b).any(|s| s == b)).unwrap();
        let insts = || func.layout.block_insts(v);
        let is_float = |v: &ir::Value| func.dfg.value_type(*v).is_float();
        let mut sums: Vec<ir::Value> = func.dfg.block_params(v).iter().copied().filter(is_float).collect();
        assert_eq!(sums.len(), 1);
        for i in insts().filter(|&i| func.dfg.insts[i].opcode() == Opcode::Fadd) {
            if func.dfg.inst_args(i).iter().any(|a| sums.contains(a)) {
                sums.push(func.dfg.first_result(i));
            }
        }
        (sums.len() - 1, insts().filter(|&i| func.dfg.insts[i].opcode().can_load()).count())
    };
    assert_eq!(iteration(true, &shadows), (1, 2));
    assert_eq!(iteration(false, &shadows), (2, 2));
    assert_eq!(iteration(true, &EntitySet::new()), (1, 4));
}

/// However many there are of them: to know more is never to do less.
#[test]
fn what_is_known_to_be_apart_does_not_count() {
    let isa = jit::host_isa();
    if !has_lanes(&*isa) {
        return;
    }
    // Fourteen arrays, of which the sum is added to the fifteenth.
    let params = (0..16).map(|i| format!("v{i}: i64")).collect::<Vec<_>>().join(", ");
    let mut iteration = String::from("v23 = ishl v20, v18\n");
    for i in 0..15 {
        writeln!(iteration, "v{} = iadd v{i}, v23\nv{} = load.f64 v{}", 30 + i, 50 + i, 30 + i).unwrap();
    }
    writeln!(iteration, "v70 = fadd v64, v50").unwrap();
    for i in 1..14 {
        writeln!(iteration, "v{} = fadd v{}, v{}", 70 + i, 69 + i, 50 + i).unwrap();
    }
    let func = function(&format!(
        "function %f({}) system_v {{\nblock0({params}):\nv16 = iconst.i64 0\nv17 = iconst.i64 1\nv18 = iconst.i64 3\n\
        jump block1(v16)\nblock1(v20: i64):\nv21 = icmp slt v20, v15\nbrif v21, block2, block3\nblock2:\n{iteration}\
        store v83, v44\nv24 = iadd v20, v17\njump block1(v24)\nblock3:\nreturn\n}}",
        ["i64"; 16].join(", ")
    ));
    let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let accesses: Vec<ir::Inst> =
        insts.filter(|&i| func.dfg.insts[i].opcode().can_load() || func.dfg.insts[i].opcode().can_store()).collect();
    assert_eq!(accesses.len(), 16);
    let outcome = |shadows: &EntitySet<ir::Inst>| {
        let watched = &EntitySet::new();
        let how = LoopPolicy {
            reorder: &|_| false,
            watched,
            shadows,
            worth: false,
            lanes: true,
            apart: &|_, _| false,
            stay: &|_| false,
        };
        brolga_clif::vectorise::vectorise(&mut func.clone(), how)[0].outcome.map(|t| t.tests)
    };
    assert!(outcome(&EntitySet::new()).is_err());
    let mut shadows = EntitySet::new();
    shadows.extend(accesses[14..].iter().copied());
    assert_eq!(outcome(&shadows), Ok(0));
}

/// An index of 32 bits that begins again at zero in the middle of the loop: addresses are then not
/// in steps.
#[test]
fn an_index_that_overflows() {
    let isa = jit::host_isa();
    if !has_lanes(&*isa) {
        return;
    }
    for (extend, base, first) in [("uextend", 0_u64, -24_i32), ("sextend", 1 << 31, i32::MAX - 23)] {
        let text = format!(
            "function %f(i64, i64, i64, i64, f64) -> f64 system_v {{
            block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: f64):
                v5 = ireduce.i32 v2
                v6 = iconst.i32 8
                v7 = iconst.i64 1
                v8 = iconst.i64 0
                jump block1(v5, v3)
            block1(v9: i32, v10: i64):
                brif v10, block2, block3
            block2:
                v11 = {extend}.i64 v9
                v12 = iadd v0, v11
                v13 = load.f64 v12
                v14 = fadd v13, v4
                store v14, v12
                v15 = iadd v9, v6
                v16 = isub v10, v7
                jump block1(v15, v16)
            block3:
                return v4
            }}"
        );
        let one = function(&text);
        let mut many = one.clone();
        let looked = lanes(&mut many, false, false);
        assert!(matches!(looked[..], [ref l] if l.outcome.is_ok()), "{looked:?}");
        let (module, compiled) = compile(vec![one, many]);
        // Four gigabytes of addresses, of which two pages are used.
        let layout = std::alloc::Layout::from_size_align((1 << 32) + 64, 16).unwrap();
        // SAFETY: the size is not zero.
        let memory = unsafe { std::alloc::alloc_zeroed(layout) };
        assert!(!memory.is_null());
        for iterations in 0..9_u64 {
            for (k, f) in compiled.iter().enumerate() {
                f(
                    memory.wrapping_add(base as usize),
                    memory,
                    first as u32 as usize as *mut u8,
                    iterations,
                    1.0 + k as f64,
                );
            }
        }
        for k in 0..9_usize {
            let at = base.wrapping_add(match extend {
                "uextend" => u64::from((first as u32).wrapping_add(8 * k as u32)),
                _ => i64::from(first.wrapping_add(8 * k as i32)) as u64,
            });
            // SAFETY: both halves of the way lie in the block.
            let found = unsafe { memory.add(at as usize).cast::<f64>().read_unaligned() };
            // Each run of more than k iterations adds one, or two in lanes.
            assert_eq!(found, 3.0 * (8 - k.min(8)) as f64, "{extend}, element {k}");
        }
        // SAFETY: allocated above with the same layout; nothing of the module is called any more.
        unsafe {
            std::alloc::dealloc(memory, layout);
            module.free_memory();
        }
    }
}

#[test]
fn what_a_mask_leaves_over_is_left_alone() {
    // What is left over when four iterations are done at a time; counted up and down, from what it
    // is not up to zero, and as the reverse of that begins.
    let program = |start: &str, bound: &str, step: i64, ty: &str| {
        function(&format!(
            "function %f(i64, {ty}) system_v {{
            block0(v0: i64, v1: {ty}):
                v2 = iconst.{ty} 3
                v3 = band v1, v2
                v4 = iconst.{ty} 0
                v5 = isub v4, v3
                v6 = iconst.{ty} {step}
                v7 = iconst.i64 8
                v15 = iconst.{ty} -1
                v16 = isub v5, v15
                jump block1({start}, v0)
            block1(v8: {ty}, v9: i64):
                v10 = icmp ne v8, {bound}
                brif v10, block2, block3
            block2:
                v11 = load.f64 v9
                v12 = fmul v11, v11
                store v12, v9
                v13 = iadd v8, v6
                v14 = iadd v9, v7
                jump block1(v13, v14)
            block3:
                return
            }}"
        ))
    };
    let outcome = |(start, bound, step), ty, worth| {
        let mut func = program(start, bound, step, ty);
        let [looked] = &lanes(&mut func, false, worth)[..] else { panic!("one loop") };
        looked.outcome
    };
    for ty in ["i64", "i32"] {
        for left_over in [("v4", "v3", 1), ("v3", "v4", -1), ("v5", "v4", 1), ("v4", "v5", -1), ("v16", "v4", 1)] {
            assert_eq!(outcome(left_over, ty, true), Err("it has few iterations"), "{left_over:?}");
            assert!(outcome(left_over, ty, false).is_ok(), "{left_over:?}");
        }
        // As many as an argument says; and backwards, past the largest number.
        for other in [("v4", "v1", 1), ("v3", "v1", 1), ("v4", "v3", -1)] {
            assert!(outcome(other, ty, true).is_ok(), "{other:?}");
        }
    }
}
