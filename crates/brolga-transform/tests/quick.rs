//! What is emitted with little effort has nothing in it that takes time to compile and comes to
//! nothing.

use brolga_ir::lower::segment;
use brolga_ir::{ArgActivity, Effort, Mode, Options, Request};
use brolga_testing::program;
use brolga_transform::derive::derive;
use cranelift_codegen::Context;
use cranelift_codegen::ir::{self, InstructionData, Opcode};
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};

use crate::host;

/// n times `Σ (Σ w[n i + j] x[j])²`, over i and over j: a nest of three loops.
const NEST: &str = "function %f(i64, i64, i64) -> f64 system_v {
block0(v0: i64, v1: i64, v2: i64):
    v3 = iconst.i64 0
    v4 = f64const 0.0
    v5 = iconst.i64 1
    v6 = iconst.i64 3
    jump block1(v3, v4)
block1(v7: i64, v8: f64):
    v9 = icmp slt v7, v2
    brif v9, block2, block9
block2:
    jump block3(v3, v8)
block3(v10: i64, v11: f64):
    v12 = icmp slt v10, v2
    brif v12, block4, block8
block4:
    v13 = imul v10, v2
    v14 = ishl v13, v6
    v15 = iadd v0, v14
    jump block5(v3, v4)
block5(v16: i64, v17: f64):
    v18 = icmp slt v16, v2
    brif v18, block6, block7
block6:
    v19 = ishl v16, v6
    v20 = iadd v15, v19
    v21 = iadd v1, v19
    v22 = load.f64 notrap aligned v20
    v23 = load.f64 notrap aligned v21
    v24 = fmul v22, v23
    v25 = fadd v17, v24
    v26 = iadd v16, v5
    jump block5(v26, v25)
block7:
    v27 = fmul v17, v17
    v28 = fadd v11, v27
    v29 = iadd v10, v5
    jump block3(v29, v28)
block8:
    v30 = iadd v7, v5
    jump block1(v30, v11)
block9:
    return v8
}";

fn quick(text: &str) -> ir::Function {
    derived(text, Effort::Quick, &*host::isa())
}

fn derived(text: &str, effort: Effort, isa: &dyn TargetIsa) -> ir::Function {
    let program = program(text);
    let func = program.func("f").unwrap();
    let of = if text == CHAIN { ArgActivity::Active } else { ArgActivity::Duplicated };
    let options = Options { mode: Mode::Gradient, effort, ..Options::full() };
    let request = Request::new(func, [of, of, ArgActivity::Const]);
    derive(&program, &request, &options, isa).unwrap().combined.expect("one function").func
}

/// `x ← r x (1 - x)`, n times: each iteration records a number, which a fence after the tape
/// bounds.
const CHAIN: &str = "function %f(f64, f64, i64) -> f64 system_v {
block0(v0: f64, v1: f64, v2: i64):
    v3 = f64const 0x1.0p0
    v4 = iconst.i64 -1
    jump block1(v2, v1)
block1(v5: i64, v6: f64):
    brif v5, block2, block3
block2:
    v7 = fsub v3, v6
    v8 = fmul v0, v6
    v9 = fmul v8, v7
    v10 = iadd v5, v4
    jump block1(v10, v9)
block3:
    return v6
}";

fn params(func: &ir::Function) -> usize {
    func.layout.blocks().map(|b| func.dfg.num_block_params(b)).sum()
}

#[test]
fn no_parameter_always_holds_the_same() {
    let func = quick(NEST);
    let all = params(&func);
    let mut context = Context::for_function(func);
    context.compute_cfg();
    context.compute_domtree();
    context.remove_constant_phis(&*host::isa()).unwrap();
    assert_eq!(params(&context.func), all, "{}", context.func);
}

#[test]
fn constants_of_the_primal_are_in_the_entry() {
    let func = quick(NEST);
    let entry = func.layout.entry_block();
    for block in func.layout.blocks().filter(|b| Some(*b) != entry) {
        for inst in func.layout.block_insts(block) {
            if let InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } = func.dfg.insts[inst] {
                assert!(![0, 1, 3].contains(&imm.bits()), "{block} in {func}");
            }
        }
    }
}

#[test]
fn where_a_fence_is_only_loops_load_the_limit_of_the_tape() {
    let (plain, fenced) = (host::isa(), host::with_fences());
    let loads = |effort, isa: &OwnedTargetIsa| {
        let func = derived(CHAIN, effort, &**isa);
        let entry = func.layout.entry_block().unwrap();
        // Behind the arguments, and before the seed.
        let segment = func.dfg.block_params(entry)[3];
        let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
        let from = insts.filter_map(|i| match func.dfg.insts[i] {
            InstructionData::Load { arg, offset, .. } if arg == segment => Some(i32::from(offset)),
            _ => None,
        });
        from.collect::<Vec<_>>()
    };
    // The loop asks once whether all its iterations fit, with any effort.
    for effort in [Effort::Quick, Effort::Full] {
        for isa in [&plain, &fenced] {
            let found = loads(effort, isa);
            assert!(found.contains(&segment::TOP) && found.contains(&segment::LIMIT), "{effort:?}: {found:?}");
        }
    }
}

/// So many times `x ← x < s ? x / 4 + s : x² r`, one after the other.
fn diamonds(n: usize) -> ir::Function {
    use std::fmt::Write as _;
    let mut text = String::from(
        "function %f(f64, f64) -> f64 system_v {
block0(v0: f64, v1: f64):
    v2 = f64const 0x1.0p-2
    jump block1(v0)\n",
    );
    for k in 0..n {
        let (v, b) = (10 * (k + 1), 3 * k + 1);
        let (x, next) = (format!("v{v}"), b + 3);
        writeln!(
            text,
            "block{b}({x}: f64):\n v{} = fcmp lt {x}, v1\n brif v{}, block{}, block{}",
            v + 1,
            v + 1,
            b + 1,
            b + 2
        )
        .unwrap();
        writeln!(
            text,
            "block{}:\n v{} = fmul {x}, v2\n v{} = fadd v{}, v1\n jump block{next}(v{})",
            b + 1,
            v + 2,
            v + 3,
            v + 2,
            v + 3
        )
        .unwrap();
        writeln!(
            text,
            "block{}:\n v{} = fmul {x}, {x}\n v{} = fmul v{}, v0\n jump block{next}(v{})",
            b + 2,
            v + 4,
            v + 5,
            v + 4,
            v + 5
        )
        .unwrap();
    }
    writeln!(text, "block{}(v9: f64):\n return v9\n}}", 3 * n + 1).unwrap();
    let program = program(&text);
    let request = Request::new(program.func("f").unwrap(), [ArgActivity::Active; 2]);
    let options = Options { mode: Mode::Gradient, effort: Effort::Quick, ..Options::full() };
    derive(&program, &request, &options, &*host::isa()).unwrap().combined.expect("one function").func
}

#[test]
fn what_is_computed_from_what_is_at_hand_is_not_kept() {
    let count = |func: &ir::Function, wanted: &dyn Fn(&InstructionData) -> bool| {
        let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
        insts.filter(|&i| wanted(&func.dfg.insts[i])).count()
    };
    let memory = |opcode: Opcode| opcode.can_load() || opcode.can_store();
    for (n, on_stack) in [(10, false), (200, true)] {
        let func = diamonds(n);
        // The square is there in both halves: in the first for what goes on, and in the second for
        // the cotangent of the factor. The last number is not in use.
        let squares =
            count(&func, &|i| matches!(i, InstructionData::Binary { opcode: Opcode::Fmul, args: [x, y] } if x == y));
        assert_eq!(squares, 2 * n - 1, "{func}");
        // What is kept on the stack are a number and a condition in each of them, and no parameter
        // of the function.
        let accesses = count(&func, &|i| memory(i.opcode()));
        assert!(if on_stack { (4 * n - 4..=4 * n).contains(&accesses) } else { accesses == 0 }, "{accesses} in {func}");
        // If values are in variables, what a join hands on in the first half is the number alone.
        let joins = func.layout.blocks().skip(1).filter(|&b| func.dfg.num_block_params(b) > 3).count();
        assert_eq!(joins, 0, "{func}");
    }
}
