//! A loop that asks once whether there is room on the tape does what it does when it asks each
//! time: random loops that record, compiled as they are and with one check, on tapes of all
//! lengths.
//!
//! Whether the tape is full must be the same, and where it is not, so must the tape and the
//! position; nothing is written beyond the end. Counters start and end at the ends of what integers
//! there are, so loops overflow, and many have no end.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::jit::host_isa;
use brolga::{Arg, ArgActivity, DerivedRule, Error, Mode, Options, Pass, PassSet, Request, TapeKind};
use brolga_testing::noise::Noise;
use brolga_testing::{function, jit};
use brolga_transform::clif::hoist_tape_check::hoist_tape_check;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, types};
use cranelift_jit::JITModule;

/// `f(top, limit, from, to)`: where it records, and from where to where it counts. Returns the
/// position, or zero if the tape is full.
type Compiled = extern "C" fn(*mut u8, *mut u8, i64, i64) -> u64;

/// Functions compiled together, in order.
fn compile(funcs: Vec<ir::Function>) -> (JITModule, Vec<Compiled>) {
    let funcs = funcs.into_iter().map(|mut f| {
        return_instead(&mut f);
        f
    });
    let (module, found) = jit::compile(funcs.collect());
    // SAFETY: all functions have this signature, and the module is kept as long as they are.
    let of = |at| unsafe { std::mem::transmute::<*const u8, Compiled>(at) };
    (module, found.into_iter().map(of).collect())
}

/// Return zero where a check traps.
fn return_instead(func: &mut ir::Function) {
    let full = func.dfg.make_block();
    func.layout.append_block(full);
    let mut pos = FuncCursor::new(func).at_bottom(full);
    let zero = pos.ins().iconst(types::I64, 0);
    pos.ins().return_(&[zero]);
    for check in checks(func) {
        let cond = func.dfg.inst_args(check)[0];
        let block = func.layout.inst_block(check).unwrap();
        let rest = func.dfg.make_block();
        func.layout.split_block(rest, check);
        func.layout.remove_inst(check);
        FuncCursor::new(func).at_bottom(block).ins().brif(cond, full, &[], rest, &[]);
    }
}

fn checks(func: &ir::Function) -> Vec<ir::Inst> {
    let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    insts.filter(|&i| matches!(func.dfg.insts[i], InstructionData::CondTrap { .. })).collect()
}

/// Record some bytes at a position; returns the next one.
fn record(out: &mut String, top: &str, bytes: u64, fresh: u64) -> String {
    let [size, next, over] = [0, 1, 2].map(|k| format!("v{}", fresh + k));
    *out += &format!(
        "{size} = iconst.i64 {bytes}\n{next} = iadd {top}, {size}\n{over} = icmp ugt {next}, v1\ntrapnz {over}, user240\n\
         istore8 v80, {top}\nistore8 v80, {top}+{}\n",
        bytes - 1
    );
    next
}

/// A loop that counts and records, and the type of its counter.
fn program(noise: &mut Noise) -> (String, &'static str) {
    let ty = if noise.below(2) == 0 { "i64" } else { "i32" };
    let step = [1_i64, 1, -1, 2, -2, 4, -8][noise.below(7) as usize];
    let up = ["slt", "sle", "ult", "ule", "ne"];
    let down = ["sgt", "sge", "ugt", "uge", "ne"];
    let goes_on = noise.one_of(if step > 0 { &up } else { &down });
    // Where the test is, what it asks about, and how.
    let last = noise.below(3) == 0;
    let shift = if noise.below(3) == 0 { step } else { 0 };
    let swapped = match goes_on {
        "ne" => "ne".to_owned(),
        cc if cc.contains('l') => cc.replace('l', "g"),
        cc => cc.replace('g', "l"),
    };
    let complement = match goes_on {
        "slt" => "sge",
        "sle" => "sgt",
        "ult" => "uge",
        "ule" => "ugt",
        "sgt" => "sle",
        "sge" => "slt",
        "ugt" => "ule",
        "uge" => "ult",
        _ => "eq",
    };
    let bytes = |noise: &mut Noise| 1 + noise.below(12);
    let (mut early, mut late) = (String::new(), String::new());
    let mut top = "v10".to_owned();
    let has_early = !last && noise.below(3) == 0;
    if has_early {
        let n = bytes(noise);
        top = record(&mut early, &top, n, 20);
    }
    let at_test = top.clone();
    if !has_early || noise.below(2) == 0 {
        let n = bytes(noise);
        top = record(&mut late, &top, n, 30);
        if noise.below(3) == 0 {
            let n = bytes(noise);
            top = record(&mut late, &top, n, 40);
        }
    }
    let tested = if last { "v62" } else { "v11" };
    let test = match noise.below(3) {
        0 => format!("v70 = icmp {complement} v71, v12"),
        1 => format!("v70 = icmp {swapped} v12, v71"),
        _ => format!("v70 = icmp {goes_on} v71, v12"),
    };
    let branch = |yes: &str, no: &str| {
        let (a, b) = if test.contains(&format!("icmp {complement} v71")) { (no, yes) } else { (yes, no) };
        format!("brif v70, {a}, {b}")
    };
    let tag = if ty == "i64" { "v80 = iadd.i64 v11, v60" } else { "v80 = uextend.i64 v11" };
    let next = "v62 = iadd v11, v61";
    let test = format!("v72 = iconst.{ty} {shift}\nv71 = iadd {tested}, v72\n{test}");
    let body = match last {
        true => format!(
            "block1(v11: {ty}, v10: i64):\n{tag}\n{late}{next}\n{test}\n{}",
            branch(&format!("block1(v62, {top})"), &format!("block3({top})"))
        ),
        false => format!(
            "block1(v11: {ty}, v10: i64):\n{tag}\n{early}{test}\n{}\nblock2:\n{late}{next}\njump block1(v62, {top})",
            branch("block2", &format!("block3({at_test})"))
        ),
    };
    // One in four counts from a constant to a constant.
    let known = noise.below(4) == 0;
    let mut narrow = |v: &str, from: &str| match ty {
        _ if known => format!("{v} = iconst.{ty} {}", noise.below(30) as i64 - 15),
        "i64" => format!("{v} = iadd {from}, v60"),
        _ => format!("{v} = ireduce.i32 {from}"),
    };
    let (from, to) = (narrow("v13", "v2"), narrow("v12", "v3"));
    let enter = match noise.below(3) {
        0 => "brif v3, block1(v13, v0), block3(v0)",
        _ => "jump block1(v13, v0)",
    };
    let text = format!(
        "function %f(i64, i64, i64, i64) -> i64 system_v {{
block0(v0: i64, v1: i64, v2: i64, v3: i64):
v60 = iconst.i64 0
v61 = iconst.{ty} {step}
{from}
{to}
{enter}
{body}
block3(v90: i64):
return v90
}}"
    );
    (text, ty)
}

/// Bytes after the end of the tape that must stay as they are.
const MARGIN: usize = 64;

#[test]
fn loops_that_ask_once_do_what_they_do_when_they_ask_each_time() {
    let isa = host_isa(&brolga::Options::full()).unwrap();
    let mut noise = Noise(1);
    let (mut taken, mut refused, mut full, mut fit, mut exact) = (0, 0, 0, 0, 0);
    let programs = 1200;
    for _ in 0..programs {
        let (text, ty) = program(&mut noise);
        let each = function(&text);
        let mut hoisted = each.clone();
        let looked = hoist_tape_check(&mut hoisted, false, false);
        cranelift_codegen::verify_function(&hoisted, &*isa).unwrap_or_else(|e| panic!("{e}\n{text}\n{hoisted}"));
        let [looked] = &looked[..] else { panic!("one loop\n{text}") };
        if looked.outcome.is_err() {
            refused += 1;
            continue;
        }
        taken += 1;
        assert!(checks(&hoisted).len() <= 1, "{hoisted}");
        let shown = hoisted.to_string();
        let (module, compiled) = compile(vec![each, hoisted]);
        for _ in 0..40 {
            // Near each other, near both ends, or anything.
            let near = |noise: &mut Noise| noise.below(40) as i64 - 20;
            let (min, max) = if ty == "i64" { (i64::MIN, i64::MAX) } else { (i32::MIN.into(), i32::MAX.into()) };
            let end = [0, min, max][noise.below(3) as usize];
            let from = end.wrapping_add(near(&mut noise));
            let to = match noise.below(6) {
                0 => [0, min, max][noise.below(3) as usize].wrapping_add(near(&mut noise)),
                1 => [0, min, max][noise.below(3) as usize],
                _ => from.wrapping_add(near(&mut noise)),
            };
            let room = noise.below(300) as usize;
            let run = |f: Compiled, room: usize| {
                let mut tape = vec![0xee_u8; room + MARGIN];
                let start = tape.as_mut_ptr();
                let found = f(start, start.wrapping_add(room), from, to);
                assert_eq!(tape[room..], [0xee; MARGIN], "{text}\n{shown}");
                let used = (found != 0).then(|| found - start as u64);
                (used, if used.is_some() { tape } else { Vec::new() })
            };
            let want = run(compiled[0], room);
            let found = run(compiled[1], room);
            assert_eq!(want, found, "from {from} to {to} with {room} bytes\n{text}\n{shown}");
            match want.0 {
                None => full += 1,
                // What fits exactly fits, and one byte less is one too few.
                Some(used) => {
                    fit += 1;
                    assert!(run(compiled[1], used as usize).0 == Some(used), "{used} bytes\n{text}\n{shown}");
                    if used > 0 {
                        exact += 1;
                        assert!(run(compiled[1], used as usize - 1).0.is_none(), "{used} bytes\n{text}\n{shown}");
                    }
                }
            }
        }
        // SAFETY: nothing of it is called any more.
        unsafe { module.free_memory() };
    }
    eprintln!("{taken} taken, {refused} refused; {full} runs were full, {fit} fit, {exact} of them recorded");
    assert!(taken * 2 > programs && exact > 5000 && full > 5000, "{taken} taken, {exact} exact, {full} full");
}

/// Loops whose records are not one after the other: in a loop, in a callee, after a call, of two
/// lengths by turns.
const PROGRAM: &str = "
function %steps(f64, i64, i64) -> f64 {
block0(v0: f64, v1: i64, v2: i64):
    v3 = iconst.i64 0
    v4 = iconst.i64 1
    v5 = f64const 0x1.0
    jump block1(v3, v0)
block1(v6: i64, v7: f64):
    v8 = icmp slt v6, v1
    brif v8, block2, block3
block2:
    v9 = fsub v5, v7
    v10 = fmul v7, v9
    v11 = iadd v6, v4
    jump block1(v11, v10)
block3:
    return v7
}

function %nest(f64, i64, i64) -> f64 {
block0(v0: f64, v1: i64, v2: i64):
    v3 = iconst.i64 0
    v4 = iconst.i64 1
    v5 = f64const 0x1.0
    jump block1(v3, v0)
block1(v6: i64, v7: f64):
    v8 = icmp slt v6, v1
    brif v8, block2(v3, v7), block5
block2(v20: i64, v21: f64):
    v22 = icmp sle v20, v2
    brif v22, block3, block4
block3:
    v23 = fsub v5, v21
    v24 = fmul v21, v23
    v25 = iadd v20, v4
    jump block2(v25, v24)
block4:
    v26 = fmul v21, v21
    v11 = iadd v6, v4
    jump block1(v11, v26)
block5:
    return v7
}

function %callee(f64, i64) -> f64 {
block0(v0: f64, v1: i64):
    v2 = fmul v0, v0
    v3 = fmul v2, v0
    return v3
}

function %calls(f64, i64, i64) -> f64 {
    fn0 = %callee(f64, i64) -> f64
block0(v0: f64, v1: i64, v2: i64):
    v3 = iconst.i64 0
    v4 = iconst.i64 1
    jump block1(v3, v0)
block1(v6: i64, v7: f64):
    v8 = icmp ult v6, v1
    brif v8, block2, block3
block2:
    v9 = fmul v7, v7
    v10 = call fn0(v9, v6)
    v12 = fmul v10, v9
    v11 = iadd v6, v4
    jump block1(v11, v12)
block3:
    return v7
}

function %branches(f64, i64, i64) -> f64 {
block0(v0: f64, v1: i64, v2: i64):
    v3 = iconst.i64 0
    v4 = iconst.i64 1
    jump block1(v3, v0)
block1(v6: i64, v7: f64):
    v8 = icmp ult v6, v1
    brif v8, block2, block5
block2:
    v9 = band v6, v4
    brif v9, block3, block4(v7)
block3:
    v10 = fmul v7, v7
    v13 = fmul v10, v7
    jump block4(v13)
block4(v12: f64):
    v14 = fmul v12, v12
    v11 = iadd v6, v4
    jump block1(v11, v14)
block5:
    return v7
}";

fn rule(func: &str, mode: Mode, room: bool, tape_limit: usize) -> DerivedRule {
    rule_with(func, mode, (TapeKind::Fenced, room), tape_limit)
}

fn rule_with(func: &str, mode: Mode, (tape, hoists): (TapeKind, bool), tape_limit: usize) -> DerivedRule {
    let disabled = PassSet::NONE.set(Pass::HoistTapeChecks, !hoists);
    let p = brolga_testing::program(PROGRAM);
    let request =
        Request::new(p.func(func).expect("it is there"), [ArgActivity::Active, ArgActivity::Const, ArgActivity::Const]);
    let options = Options { mode, tape, tape_limit, disabled, ..Options::full() };
    DerivedRule::new(&p, &request, &options).unwrap_or_else(|e| panic!("{e}"))
}

/// Bytes that a run recorded, or the trap that ended it; and the gradient.
fn run(rule: &DerivedRule, n: i64, m: i64) -> Result<(usize, u64), String> {
    let float = |x: f64| DataValue::F64(x.into());
    let args = [Arg::new(float(0.75)), Arg::new(DataValue::I64(n)), Arg::new(DataValue::I64(m))];
    let (mut results, mut cotangents) = (Vec::new(), Vec::new());
    // SAFETY: no pointers are passed.
    match unsafe { rule.gradient(&args, &[float(1.0)], &mut results, &mut cotangents) } {
        Ok(run) => match cotangents[0] {
            Some(DataValue::F64(x)) => Ok((run.tape_bytes(), x.bits())),
            _ => panic!("a cotangent"),
        },
        Err(Error::Trap(trap)) => Err(trap.code),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn the_tape_is_full_where_it_was() {
    for func in ["steps", "nest", "calls", "branches"] {
        for mode in [Mode::Split, Mode::Combined] {
            for limit in [256, 320, 1024] {
                let each = rule_with(func, mode, (TapeKind::Checked, false), limit);
                let fenced = rule(func, mode, false, limit);
                let hoisted = rule_with(func, mode, (TapeKind::Checked, true), limit);
                let both = rule(func, mode, true, limit);
                let (mut fit, mut full) = (0, 0);
                for (n, m) in (-1..140).flat_map(|n| [-1, 0, 2, 5, 40].map(|m| (n, m))) {
                    let found = run(&each, n, m);
                    for other in [&hoisted, &fenced, &both] {
                        assert_eq!(
                            found,
                            run(other, n, m),
                            "{func}, {mode:?}: {n} and {m} iterations on {limit} bytes"
                        );
                    }
                    match found {
                        Ok((bytes, _)) => {
                            assert!(bytes <= limit);
                            fit += 1;
                        }
                        Err(code) => {
                            assert_eq!(code, "tape_full");
                            full += 1;
                        }
                    }
                }
                assert!(fit > 0 && full > 0, "{func}, {mode:?}, {limit}: {fit} fit, {full} do not");
            }
        }
    }
}

#[test]
fn to_the_byte() {
    for mode in [Mode::Split, Mode::Combined] {
        let large = rule("steps", mode, true, 1 << 20);
        let (bytes, gradient) = run(&large, 100, 0).expect("there is room");
        let two = run(&large, 102, 0).expect("there is room").0;
        assert_eq!(two, bytes + 16, "{mode:?}: eight bytes an iteration");
        // A limit is a multiple of sixteen.
        let n = if bytes.is_multiple_of(16) { 100 } else { 101 };
        let bytes = bytes.next_multiple_of(16);
        let exact = rule("steps", mode, true, bytes);
        assert_eq!(run(&exact, n, 0).map(|r| r.0), Ok(bytes), "{mode:?}");
        assert_eq!(run(&exact, n + 1, 0), Err("tape_full".to_owned()), "{mode:?}");
        assert_eq!(run(&exact, n - 1, 0).map(|r| r.0), Ok(bytes - 8), "{mode:?}");
        assert_eq!(run(&rule("steps", mode, true, bytes - 16), n, 0), Err("tape_full".to_owned()), "{mode:?}");
        assert_eq!(run(&exact, 100, 0).map(|r| r.1), Ok(gradient), "{mode:?}: and the rule stays usable");
    }
}

/// A tape of the usual size would take long to fill. Where there is a fence, a loop in another one
/// does fill it.
#[test]
fn nothing_is_recorded_of_what_cannot_fit() {
    for mode in [Mode::Split, Mode::Combined] {
        let limit = Options::full().tape_limit;
        let (steps, nest) =
            (rule("steps", mode, true, limit), rule_with("nest", mode, (TapeKind::Checked, true), limit));
        for n in [i64::MAX, i64::MAX - 1, 1 << 62, 1 << 61, (1 << 61) - 1, 1 << 60, 1 << 40] {
            assert_eq!(run(&steps, n, 0), Err("tape_full".to_owned()), "{mode:?}, {n}");
            assert_eq!(run(&nest, 3, n), Err("tape_full".to_owned()), "{mode:?}, {n}");
            assert_eq!(run(&nest, 0, n).map(|r| r.1), Ok(1.0_f64.to_bits()), "{mode:?}, {n}");
        }
        assert_eq!(run(&steps, i64::MIN, 0).map(|r| r.1), Ok(1.0_f64.to_bits()), "{mode:?}");
        assert!(run(&steps, 10, 0).is_ok(), "{mode:?}");
    }
}
