//! Neighbours that are computed in lanes are what they are one by one: random loops that are
//! written out for several iterations, over buffers that overlap in all ways, compiled as they are
//! and with vectors, on the same memory.
//!
//! All results must be the same bits. How often vectors were made is counted, so that none of this
//! passes because nothing was done.

use std::fmt::Write;

use brolga_clif::slp::{SlpInput, slp};
use brolga_clif::vectorise::has_lanes;
use brolga_testing::noise::Noise;
use brolga_testing::{asked, budget, function, jit};
use cranelift_codegen::ir::{self, InstructionData, Opcode};
use cranelift_entity::EntitySet;

/// `f(memory, p, q, r, iterations, s)`: three distances from the start of memory, and a first sum.
type Compiled = extern "C" fn(*mut u8, u32, u32, u32, u64, f64) -> f64;

/// How the loops of a program go on.
struct Shape {
    /// Its bytes.
    width: i64,
    /// Elements that an iteration is written out for.
    lanes: i64,
    /// Addresses are sums of 32 bits, widened.
    narrow: bool,
    /// Towards lower addresses.
    back: bool,
}

/// What an iteration does to one element, lane by lane in some order, with `LANE` for the name of
/// the lane.
fn program(noise: &mut Noise) -> (String, Shape) {
    let (ty, width) = if noise.below(4) == 0 { ("f32", 4) } else { ("f64", 8) };
    let shape = Shape { width, lanes: 2 << noise.below(3), narrow: noise.below(2) == 0, back: noise.below(2) == 0 };
    let (lanes, step) = (shape.lanes, shape.width * shape.lanes * if shape.back { -1 } else { 1 });
    let mut body = String::new();
    let mut fresh = 100;
    let mut sum = "v11".to_owned();
    for _ in 0..1 + noise.below(3) {
        let kind = noise.below(5);
        // From where, how many bytes behind, and whether the last lane comes first.
        let at = |noise: &mut Noise| {
            let off = width * if noise.below(4) == 0 { noise.below(5) as i64 - 2 } else { 0 };
            let half = if noise.below(12) == 0 { width / 2 } else { 0 };
            (noise.below(3), off + half, noise.below(8) == 0)
        };
        let [x, y, z] = [at(noise), at(noise), at(noise)];
        let op = noise.one_of(&["fadd", "fmul", "fsub"]).to_owned();
        let mut order: Vec<i64> = (0..lanes).collect();
        match noise.below(3) {
            0 => order.reverse(),
            1 => order.swap(0, noise.below(lanes as u64) as usize),
            _ => {}
        }
        // One lane may differ.
        let odd = if noise.below(4) == 0 { noise.below(lanes as u64) as i64 } else { -1 };
        for k in order {
            let mut place = |body: &mut String, (base, off, mirrored): (u64, i64, bool)| {
                let off = off + width * if mirrored { lanes - 1 - k } else { k };
                fresh += 10;
                let v = format!("v{fresh}");
                if shape.narrow {
                    writeln!(
                        body,
                        "v{} = iconst.i32 {off}\nv{} = iadd v2{base}, v{}\nv{} = uextend.i64 v{}\n{v} = iadd v0, v{}",
                        fresh + 1,
                        fresh + 2,
                        fresh + 1,
                        fresh + 3,
                        fresh + 2,
                        fresh + 3
                    )
                    .unwrap();
                    v
                } else {
                    format!("v3{base}{off:+}")
                }
            };
            let [x, y, z] = [x, y, z].map(|p| place(&mut body, p));
            fresh += 10;
            let n = |k: u64| format!("v{}", fresh + k);
            let (op, c) = if k == odd { ("fdiv", "v8") } else { (&*op, "v4") };
            match kind {
                // z += x ∘ y
                0 | 1 => writeln!(body, "{} = load.{ty} {x}\n{} = load.{ty} {y}\n{} = {op} {}, {}\n{} = load.{ty} {z}\n{} = fadd {}, {}\nstore {}, {z}", n(0), n(1), n(2), n(0), n(1), n(3), n(4), n(3), n(2), n(4)).unwrap(),
                // Takes x, adds it times a number to y.
                2 => writeln!(body, "{} = load.{ty} {x}\nstore v44, {x}\n{} = {op} {}, v5\n{} = load.{ty} {y}\n{} = fsub {}, {}\nstore {}, {y}", n(0), n(1), n(0), n(2), n(3), n(2), n(1), n(3)).unwrap(),
                // A sum.
                3 => {
                    writeln!(body, "{} = load.{ty} {x}\n{} = load.{ty} {y}\n{} = fmul {}, {}\n{} = fadd {sum}, {}", n(0), n(1), n(2), n(0), n(1), n(3), n(2)).unwrap();
                    sum = n(3);
                }
                // y = c ? x : -x, and x is read by others.
                _ => {
                    writeln!(body, "{} = load.{ty} {x}\n{} = fneg {}\n{} = select {c}, {}, {}\nstore {}, {y}\n{} = fadd {sum}, {}", n(0), n(1), n(0), n(2), n(0), n(1), n(2), n(3), n(0)).unwrap();
                    sum = n(3);
                }
            }
        }
    }
    let mut starts = String::new();
    for p in 0..3 {
        writeln!(starts, "v2{p} = iadd v{}, v52", p + 1).unwrap();
        writeln!(starts, "v4{p} = uextend.i64 v{}\nv5{} = iadd v0, v4{p}\nv3{p} = iadd v5{}, v53", p + 1, p + 4, p + 4)
            .unwrap();
    }
    let (first, last) = match ty {
        "f32" => ("v5 = fdemote.f32 v7\nv44 = f32const 0.0", "v61 = fpromote.f64 v60\nreturn v61"),
        _ => ("v5 = fneg v7\nv44 = f64const 0.0", "return v60"),
    };
    let text = format!(
        "function %f(i64, i32, i32, i32, i64, f64) -> f64 system_v {{
block0(v0: i64, v1: i32, v2: i32, v3: i32, v4: i64, v7: f64):
{first}
v8 = iconst.i64 0
v9 = iconst.i64 1
v10 = iconst.i64 {step}
jump block1(v8, v5)
block1(v50: i64, v11: {ty}):
v51 = icmp ult v50, v4
brif v51, block2, block3(v11)
block2:
v53 = imul v50, v10
v52 = ireduce.i32 v53
{starts}{body}v59 = iadd v50, v9
jump block1(v59, {sum})
block3(v60: {ty}):
{last}
}}"
    );
    (text, shape)
}

/// All accesses.
fn accesses(func: &ir::Function) -> Vec<ir::Inst> {
    let all = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    all.filter(|&i| matches!(func.dfg.insts[i], InstructionData::Load { .. } | InstructionData::Store { .. })).collect()
}

/// Which of the three distances an access is at, or starts from.
fn base(func: &ir::Function, access: ir::Inst) -> Option<usize> {
    let mut open = vec![*func.dfg.inst_args(access).last()?];
    while let Some(v) = open.pop() {
        match func.dfg.value_def(v) {
            ir::ValueDef::Result(inst, _) => open.extend(func.dfg.inst_args(inst)),
            ir::ValueDef::Param(b, k) if Some(b) == func.layout.entry_block() && (1..4).contains(&k) => return Some(k),
            _ => {}
        }
    }
    None
}

/// Make them; says how many stores there are fewer.
fn vectors(func: &mut ir::Function, apart: bool) -> usize {
    let mut shadows = EntitySet::new();
    let all = accesses(func);
    shadows.extend(all.iter().copied());
    let bases: Vec<_> = all.iter().map(|&i| (i, base(func, i).unwrap())).collect();
    let base = |access| bases.iter().find(|b| b.0 == access).unwrap().1;
    let how = SlpInput { shadows: &shadows, apart: &|a, b| apart && base(a) != base(b), short_indices: true };
    slp(func, how).iter().map(|l| l.stores).sum()
}

const WORDS: usize = 256;

#[test]
fn neighbours_in_lanes_are_what_they_are_one_by_one() {
    let isa = jit::host_isa();
    if !has_lanes(&*isa) {
        return;
    }
    let programs: usize = asked("BROLGA_SLP_PROGRAMS").unwrap_or(budget(1000, 150));
    let seed = asked("BROLGA_SLP_SEED").unwrap_or(1);
    let mut noise = Noise(seed);
    let (mut changed, mut stores, mut loads) = (0, 0, 0);
    for _ in 0..programs {
        let (text, shape) = program(&mut noise);
        let one = function(&text);
        let mut lanes = one.clone();
        // The caller may know that what starts from different places is apart.
        let apart = noise.below(2) == 0;
        let saved = vectors(&mut lanes, apart);
        cranelift_codegen::verify_function(&lanes, &*isa).unwrap_or_else(|e| panic!("{e}\n{text}\n{lanes}"));
        let of_vectors = |i: &ir::Inst| {
            lanes.dfg.insts[*i].opcode() == Opcode::Load && lanes.dfg.value_type(lanes.dfg.first_result(*i)).is_vector()
        };
        loads += accesses(&lanes).iter().filter(|i| of_vectors(i)).count();
        if saved == 0 {
            continue;
        }
        (changed, stores) = (changed + 1, stores + saved);
        let shown = lanes.to_string();
        let (module, compiled) = jit::compile(vec![one, lanes]);
        // SAFETY: both have this signature, and the module is kept as long as they are.
        let compiled: Vec<Compiled> =
            compiled.into_iter().map(|at| unsafe { std::mem::transmute::<*const u8, Compiled>(at) }).collect();
        for _ in 0..12 {
            let before: Vec<u64> = (0..WORDS)
                .map(|_| {
                    let mut x = || (noise.below(1000) as f64 - 500.0) / 64.0;
                    let (x, y) = (x(), x());
                    if shape.width == 8 {
                        x.to_bits()
                    } else {
                        u64::from((x as f32).to_bits()) | u64::from((y as f32).to_bits()) << 32
                    }
                })
                .collect();
            let iterations = 1 + noise.below(3);
            // Mostly whole elements apart, sometimes less.
            let unit = if noise.below(6) == 0 { shape.width as u64 / 2 } else { shape.width as u64 };
            let near = 8 * WORDS as u64 / 4;
            let places =
                [0, 1, 2].map(|k| if apart { near + k * near / 2 } else { near + unit * noise.below(14) } as u32);
            let run = |f: Compiled| {
                let mut m = before.clone();
                let found = f(m.as_mut_ptr().cast(), places[0], places[1], places[2], iterations, 0.625);
                (m, found)
            };
            let (want, sum) = run(compiled[0]);
            let (found, too) = run(compiled[1]);
            let same = |a: &[u64], b: &[u64]| {
                let plain = |w: u64| match shape.width {
                    8 if f64::from_bits(w).is_nan() => f64::NAN.to_bits(),
                    _ => w,
                };
                a.iter().zip(b).all(|(&a, &b)| plain(a) == plain(b))
            };
            let sums = sum.to_bits() == too.to_bits() || sum.is_nan() && too.is_nan();
            assert!(
                same(&want, &found) && sums,
                "at {places:?}, {iterations} iterations: {sum} {too}\n{text}\n{shown}"
            );
        }
        // SAFETY: none of it runs any more.
        unsafe { module.free_memory() };
    }
    assert!(changed > programs / 4, "{changed} of {programs}");
    assert!(stores > programs && loads > programs, "{stores} stores, {loads} loads");
}
