//! Instructions: effects, traps, the frame, names.

use brolga_ir::block::{Role, Term};
use brolga_ir::inst::{AdOp, Arith, FrameSlot, Val};
use cranelift_codegen::ir::{self, types};
use expect_test::expect;

use super::{Case, check, d, v};

#[test]
fn a_counter_that_only_counts() {
    // v3 decides when the loop ends; v4 only feeds itself.
    check(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            v2 = iconst.i64 0
            jump block1(v0, v2, v1)
        block1(v3: i64, v4: i64, v5: f64):
            v6 = fmul v5, v1
            v7 = ineg v4
            v8 = ineg v3
            brif v8, block1(v8, v7, v6), block2
        block2:
            return v6
        }",
        expect![[r#"
            %f(i64, f64) -> f64 fast

            bb0(v0: i64, v1: f64):  ; forward of block0
                jump bb1(v0, v1)

            bb1(v3: i64, v5: f64):  ; forward of block1, from bb0, bb1
                v6 = fmul.f64 v5, v1
                v8 = ineg.i64 v3
                brif v8, bb1(v8, v6), bb2

            bb2:  ; forward of block2, from bb1
                return v6
        "#]],
    );
}

#[test]
fn traps_stay() {
    // Division by a constant cannot trap, nor does a load count; division by a variable and
    // conversion to integer may.
    check(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            v2 = iconst.i64 3
            v3 = udiv v0, v2
            v4 = sdiv v0, v2
            v5 = load.i64 v0
            v6 = udiv v0, v5
            v7 = fcvt_to_sint.i64 v1
            v8 = iconst.i64 -1
            v9 = sdiv v0, v8
            v10 = srem v0, v8
            v11 = iconst.i64 0
            v12 = urem v0, v11
            brif v7, block1, block2
        block1:
            trap user1
        block2:
            return v1
        }",
        expect![[r#"
            %f(i64, f64) -> f64 fast

            bb0(v0: i64, v1: f64):  ; forward of block0
                v5 = load.i64 v0
                v6 = udiv.i64 v0, v5
                v7 = fcvt_to_sint.i64 v1
                v8 = iconst.i64 -1
                v9 = sdiv.i64 v0, v8  ; v8 = -1
                v11 = iconst.i64 0
                v12 = urem.i64 v0, v11  ; v11 = 0
                brif v7, bb1, bb2

            bb1:  ; forward of block1, from bb0
                trap user1

            bb2:  ; forward of block2, from bb0
                return v1
        "#]],
    );
}

#[test]
fn which_trap() {
    let mut case = Case::new(
        "function %f(i64) -> f64 {
        block0(v0: i64):
            brif v0, block1, block2
        block1:
            trap user1
        block2:
            trap user2
        }",
    );
    case.stays();
}

#[test]
fn a_narrow_divisor_is_read_as_narrow() {
    // 255 is -1 in eight bits.
    check(
        "function %f(i8, f64) -> f64 {
        block0(v0: i8, v1: f64):
            v2 = iconst.i8 255
            v3 = sdiv v0, v2
            v4 = iconst.i8 254
            v5 = sdiv v0, v4
            return v1
        }",
        expect![[r#"
            %f(i8, f64) -> f64 fast

            bb0(v0: i8, v1: f64):  ; forward of block0
                v2 = iconst.i8 -1
                v3 = sdiv.i8 v0, v2  ; v2 = -1
                return v1
        "#]],
    );
}

/// One block that enters a frame, keeps two values and a number, and reads some of it in a second
/// block.
fn frame() -> Case {
    let mut case = Case::new(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            v2 = fadd v1, v1
            v3 = fmul v1, v1
            v4 = sqrt v1
            jump block1
        block1:
            return v1
        }",
    );
    case.insert(0, Some(0), &[], AdOp::EnterFrame);
    case.add(0, &[], AdOp::Keep(FrameSlot(8), v(2)));
    case.add(0, &[], AdOp::Keep(FrameSlot(16), v(3)));
    case.add(0, &[], AdOp::Keep(FrameSlot(24), v(4)));
    case.add(0, &[], AdOp::KeepBlock(FrameSlot(32), 0));
    case
}

#[test]
fn what_is_kept_without_a_reader() {
    let mut case = frame();
    case.graph.blocks[1].role = Role::Exit;
    case.add(1, &[(v(2), types::F64)], AdOp::Restore(FrameSlot(8)));
    // Read, but for nothing; what is kept there goes as well.
    case.add(1, &[(v(3), types::F64)], AdOp::Restore(FrameSlot(16)));
    case.add(1, &[(d(1), types::I32)], AdOp::RestoreBlock(FrameSlot(32)));
    case.add(1, &[], AdOp::CloseFrame);
    case.graph.blocks[1].term = Term::Return(vec![v(2)]);
    case.prune().shows(expect![[r#"
        %f(i64, f64) -> f64 fast

        bb0(v0: i64, v1: f64):  ; forward of block0
            enter frame
            v2 = fadd.f64 v1, v1
            keep frame+8 = v2
            jump bb1

        bb1:  ; exit, from bb0
            v2 = restore.f64 frame+8
            close frame
            return v2
    "#]]);
}

#[test]
fn held_variables() {
    // Held variables are the function's own: that the frame is left for another one does not
    // matter.
    let mut case = frame();
    let name = |n| Val::Aux(ir::Inst::from_u32(n), 0);
    case.add(0, &[], AdOp::Hold(name(0), v(2)));
    case.add(0, &[], AdOp::Hold(name(1), v(3)));
    case.add(1, &[(d(1), types::F64)], AdOp::Held(name(0)));
    case.add(1, &[(d(2), types::F64)], AdOp::Held(name(1)));
    case.add(1, &[], AdOp::LeaveFrame);
    case.graph.blocks[1].term = Term::Return(vec![d(1)]);
    case.prune().shows(expect![[r#"
        %f(i64, f64) -> f64 fast

        bb0(v0: i64, v1: f64):  ; forward of block0
            enter frame
            v2 = fadd.f64 v1, v1
            v3 = fmul.f64 v1, v1
            v4 = sqrt.f64 v1
            keep frame+8 = v2
            keep frame+16 = v3
            keep frame+24 = v4
            keep frame+32 = block 0
            hold i0:0 = v2
            jump bb1

        bb1:  ; forward of block1, from bb0
            d1 = held.f64 i0:0
            leave frame
            return d1
    "#]]);
}

#[test]
fn what_is_kept_for_another_function() {
    let mut case = frame();
    case.add(1, &[], AdOp::LeaveFrame);
    case.stays();
}

#[test]
fn names_of_a_pullback_are_local() {
    // v2 of the forward part is not read: the pullback part has a v2 of its own, and v3 and v4 from
    // the forward part.
    let mut case = frame();
    case.graph.blocks[1].role = Role::Exit;
    case.add(1, &[(v(2), types::F64)], AdOp::Arith(Arith::Const(1.0), Default::default(), types::F64));
    case.add(1, &[(d(1), types::F64)], AdOp::Arith(Arith::Fadd, [v(2), v(3)].as_slice().into(), types::F64));
    // From here on v3 is this one.
    case.add(1, &[(v(3), types::F64)], AdOp::Arith(Arith::Const(2.0), Default::default(), types::F64));
    case.add(1, &[(d(2), types::F64)], AdOp::Arith(Arith::Fmul, [d(1), v(3)].as_slice().into(), types::F64));
    case.graph.blocks[1].term = Term::Return(vec![d(2)]);
    case.prune().shows(expect![[r#"
        %f(i64, f64) -> f64 fast

        bb0(v0: i64, v1: f64):  ; forward of block0
            enter frame
            v3 = fmul.f64 v1, v1
            jump bb1

        bb1:  ; exit, from bb0
            v2 = const.f64 1.0
            d1 = fadd.f64 v2, v3
            v3 = const.f64 2.0
            d2 = fmul.f64 d1, v3
            return d2
    "#]]);
}

/// Three blocks in a row, the second and third with these roles. The first defines v2.
fn row(middle: &str, roles: [Role; 2]) -> Case {
    let mut case = Case::new(&format!(
        "function %f(i64, f64) -> f64 {{
        block0(v0: i64, v1: f64):
            v2 = fadd v1, v1
            jump block1
        block1:
            {middle}
            jump block2
        block2:
            return v1
        }}"
    ));
    (case.graph.blocks[1].role, case.graph.blocks[2].role) = roles.into();
    case
}

#[test]
fn names_of_other_blocks_are_those_of_the_forward_part_first() {
    // The last block means the v2 of the forward part, not the one that the block before it
    // has for itself; of v3 there is only that one.
    let mut case = row("v3 = fmul v1, v1", [Role::Reverse(ir::Block::from_u32(0)), Role::Exit]);
    case.add(1, &[(v(2), types::F64)], AdOp::Arith(Arith::Const(1.0), Default::default(), types::F64));
    case.add(2, &[(d(1), types::F64)], AdOp::Arith(Arith::Fadd, [v(2), v(3)].as_slice().into(), types::F64));
    case.graph.blocks[2].term = Term::Return(vec![d(1)]);
    case.prune().shows(expect![[r#"
        %f(i64, f64) -> f64 fast

        bb0(v0: i64, v1: f64):  ; forward of block0
            v2 = fadd.f64 v1, v1
            jump bb1

        bb1:  ; reverse of block0, from bb0
            v3 = fmul.f64 v1, v1
            jump bb2

        bb2:  ; exit, from bb1
            d1 = fadd.f64 v2, v3
            return d1
    "#]]);
}

#[test]
fn names_of_what_is_run_again_are_its_own() {
    // Both blocks belong to a loop that is run again, so the second one means the v2 of the first.
    let header = ir::Block::from_u32(0);
    let mut case = row("", [Role::Begin(header), Role::Rerun(header, header)]);
    case.add(1, &[(v(2), types::F64)], AdOp::Arith(Arith::Const(1.0), Default::default(), types::F64));
    case.graph.blocks[2].term = Term::Return(vec![v(2)]);
    case.prune().shows(expect![[r#"
        %f(i64, f64) -> f64 fast

        bb0(v0: i64, v1: f64):  ; forward of block0
            jump bb1

        bb1:  ; loop of block0, forwards, from bb0
            v2 = const.f64 1.0
            jump bb2

        bb2:  ; block0 again, in the loop of block0, from bb1
            return v2
    "#]]);
}

#[test]
fn effects_and_what_they_read() {
    let mut case = Case::new(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            v2 = fadd v1, v1
            v3 = fmul v1, v1
            v4 = sqrt v1
            v5 = iadd v0, v0
            v6 = isub v0, v0
            jump block1
        block1:
            return v1
        }",
    );
    case.add(0, &[], AdOp::Push(vec![v(2), v(3)], Some(0)));
    case.add(0, &[], AdOp::AddCt(ir::Value::from_u32(1), v(4)));
    case.add(1, &[(d(1), types::F64)], AdOp::TakeCt(ir::Value::from_u32(1)));
    case.add(1, &[(d(2), types::I64)], AdOp::Arith(Arith::Iconst(0), Default::default(), types::I64));
    case.add(1, &[(d(3), types::F64)], AdOp::LoadOld { addr: v(6), off: 0, ty: types::F64 });
    case.add(1, &[], AdOp::StoreOld { addr: v(5), off: 0, value: v(1) });
    case.add(1, &[(d(4), types::I32)], AdOp::PeekBlock);
    case.prune().shows(expect![[r#"
        %f(i64, f64) -> f64 fast

        bb0(v0: i64, v1: f64):  ; forward of block0
            v2 = fadd.f64 v1, v1
            v3 = fmul.f64 v1, v1
            v5 = iadd.i64 v0, v0
            push [v2, v3], block 0
            jump bb1

        bb1:  ; forward of block1, from bb0
            mem[v5] = v1
            return v1
    "#]]);
}

#[test]
fn cotangents_that_are_not_read_afterwards() {
    // What is read in the entry block, the loop after it only adds to; what the loop reads, it has
    // added itself, in the iteration before.
    let mut case = Case::new(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            v2 = sqrt v1
            jump block1(v0)
        block1(v3: i64):
            v4 = iconst.i64 -1
            v5 = iadd v3, v4
            brif v5, block1(v5), block2
        block2:
            return v1
        }",
    );
    let ct = ir::Value::from_u32;
    case.insert(0, None, &[], AdOp::ZeroCt(ct(1)));
    case.add(0, &[], AdOp::AddCt(ct(1), v(2)));
    case.add(0, &[(d(1), types::F64)], AdOp::TakeCt(ct(1)));
    case.add(0, &[], AdOp::StoreOld { addr: v(0), off: 0, value: d(1) });
    case.add(1, &[], AdOp::AddCt(ct(1), v(1)));
    case.add(2, &[], AdOp::ZeroCt(ct(1)));
    let mut iterations = Case::new(&case.primal.to_string());
    iterations.add(1, &[(d(1), types::F64)], AdOp::TakeCt(ct(1)));
    iterations.add(1, &[], AdOp::StoreOld { addr: v(0), off: 0, value: d(1) });
    iterations.add(1, &[], AdOp::ZeroCt(ct(1)));
    iterations.add(1, &[], AdOp::AddCt(ct(1), v(2)));
    iterations.stays();
    case.prune().shows(expect![[r#"
        %f(i64, f64) -> f64 fast

        bb0(v0: i64, v1: f64):  ; forward of block0
            v2 = sqrt.f64 v1
            ct(v1) = 0
            ct(v1) += v2
            d1 = take ct(v1)
            mem[v0] = d1
            jump bb1

        bb1:  ; forward of block1, from bb0
            jump bb2

        bb2:  ; forward of block2, from bb1
            return v1
    "#]]);
}
