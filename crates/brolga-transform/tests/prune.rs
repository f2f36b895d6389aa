//! What `prune` removes and what it leaves, on small graphs. That it changes no result is tried on whole programs in
//! `ir-tests/tests/prune.rs`.

use brolga_ir::block::{CfgBlocks, Ids, Role, Term};
use brolga_ir::inst::{AdInst, AdOp, Arith, FrameSlot, Val};
use brolga_ir::lift::lift;
use brolga_ir::lower::lower;
use brolga_ir::names::Names;
use brolga_ir::{BlockId, Dv, InstId};
use brolga_transform::normalise::plain_env;
use brolga_transform::prune::prune;
use cranelift_codegen::entity::EntityRef;
use cranelift_codegen::ir::{self, types};
use cranelift_codegen::settings::{self, Flags};
use expect_test::{Expect, expect};

/// A graph made of CLIF, to which a test may do what it likes.
struct Case {
    primal: ir::Function,
    graph: CfgBlocks,
    fresh: usize,
}

impl Case {
    fn new(text: &str) -> Self {
        let mut primal = cranelift_reader::parse_functions(text).unwrap().remove(0);
        primal.dfg.resolve_all_aliases();
        let (graph, _) = lift(&primal, "f", &mut Ids::default());
        Case { primal, graph, fresh: 1000 }
    }

    /// Add an instruction at the end of block `b`.
    fn add(&mut self, b: usize, defs: &[(Val, ir::Type)], op: AdOp) {
        self.insert(b, None, defs, op);
    }

    fn insert(&mut self, b: usize, before: Option<usize>, defs: &[(Val, ir::Type)], op: AdOp) {
        self.fresh += 1;
        let insts = &mut self.graph.blocks[b].insts;
        let at = before.unwrap_or(insts.len());
        insts.shift_insert(at, InstId::new(self.fresh), AdInst { defs: defs.into(), op, at: None });
    }

    fn prune(&mut self) -> &mut Self {
        prune(&mut self.graph, &self.primal, &|_| false);
        self
    }

    fn text(&self) -> String {
        self.graph.display(&self.primal).to_string()
    }

    fn shows(&self, expected: Expect) {
        expected.assert_eq(&self.text());
    }

    /// Pruning changes nothing.
    fn stays(&mut self) {
        let before = self.text();
        assert_eq!(self.prune().text(), before);
    }

    /// Cranelift's verifier has nothing to say. For graphs without instructions that need a tape.
    fn verifies(&self) -> &Self {
        let target =
            cranelift_codegen::isa::lookup_by_name("x86_64").or(cranelift_codegen::isa::lookup_by_name("aarch64"));
        let isa = target.unwrap().finish(Flags::new(settings::builder())).unwrap();
        let mut names = Names::verbatim();
        let func = lower(&self.graph, plain_env(&self.primal, &mut names, isa.frontend_config()));
        cranelift_codegen::verify_function(&func, &*isa).unwrap_or_else(|e| panic!("{e}\n{func}"));
        self
    }
}

fn check(text: &str, expected: Expect) {
    Case::new(text).prune().verifies().shows(expected);
}

fn v(n: u32) -> Val {
    Val::Primal(ir::Value::from_u32(n))
}

fn d(n: usize) -> Val {
    Val::D(Dv::new(n))
}

const I64: ir::Type = types::I64;

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
fn a_loop_whose_result_nobody_reads() {
    // The loop's exit passes arguments, one of which is read: that is no reason to run the loop.
    check(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            v2 = fadd v1, v1
            brif v0, block1(v0, v1), block2(v1)
        block1(v3: i64, v4: f64):
            v5 = fmul v4, v1
            v6 = load.i64 v3
            v7 = iadd v3, v6
            brif v7, block1(v7, v5), block2(v2)
        block2(v8: f64):
            return v8
        }",
        expect![[r#"
            %f(i64, f64) -> f64 fast

            bb0(v0: i64, v1: f64):  ; forward of block0
                v2 = fadd.f64 v1, v1
                brif v0, bb1, bb2(v1)

            bb1:  ; forward of block1, from bb0
                jump bb2(v2)

            bb2(v8: f64):  ; forward of block2, from bb0, bb1
                return v8
        "#]],
    );
}

#[test]
fn a_loop_that_stores() {
    check(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            jump block1(v0, v1)
        block1(v2: i64, v3: f64):
            v4 = fmul v3, v1
            store v1, v2
            v5 = ineg v2
            brif v5, block1(v5, v4), block2
        block2:
            return v1
        }",
        expect![[r#"
            %f(i64, f64) -> f64 fast

            bb0(v0: i64, v1: f64):  ; forward of block0
                jump bb1(v0)

            bb1(v2: i64):  ; forward of block1, from bb0, bb1
                store.f64 v1, v2
                v5 = ineg.i64 v2
                brif v5, bb1(v5), bb2

            bb2:  ; forward of block2, from bb1
                return v1
        "#]],
    );
}

#[test]
fn arms_that_do_nothing() {
    check(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            v2 = icmp slt v0, v0
            brif v2, block1, block2
        block1:
            v3 = fmul v1, v1
            jump block3(v3)
        block2:
            v4 = sqrt v1
            jump block3(v4)
        block3(v5: f64):
            return v1
        }",
        expect![[r#"
            %f(i64, f64) -> f64 fast

            bb0(v0: i64, v1: f64):  ; forward of block0
                jump bb3

            bb3:  ; forward of block3, from bb0
                return v1
        "#]],
    );
}

#[test]
fn arms_that_choose() {
    // Both arms are empty, but along which of them block3 is reached decides what it receives.
    check(
        "function %f(i64, f64, f64) -> f64 {
        block0(v0: i64, v1: f64, v2: f64):
            brif v0, block1, block2
        block1:
            jump block3(v1, v2)
        block2:
            jump block3(v2, v1)
        block3(v3: f64, v4: f64):
            return v3
        }",
        expect![[r#"
            %f(i64, f64, f64) -> f64 fast

            bb0(v0: i64, v1: f64, v2: f64):  ; forward of block0
                brif v0, bb1, bb2

            bb1:  ; forward of block1, from bb0
                jump bb3(v1)

            bb2:  ; forward of block2, from bb0
                jump bb3(v2)

            bb3(v3: f64):  ; forward of block3, from bb1, bb2
                return v3
        "#]],
    );
}

#[test]
fn one_block_by_two_edges() {
    let text = |x: &str| {
        format!(
            "function %f(i64, f64, f64) -> f64 {{
            block0(v0: i64, v1: f64, v2: f64):
                brif v0, block1(v1, v2), block1(v2, v2)
            block1(v3: f64, v4: f64):
                return {x}
            }}"
        )
    };
    check(
        &text("v3"),
        expect![[r#"
        %f(i64, f64, f64) -> f64 fast

        bb0(v0: i64, v1: f64, v2: f64):  ; forward of block0
            brif v0, bb1(v1), bb1(v2)

        bb1(v3: f64):  ; forward of block1, from bb0
            return v3
    "#]],
    );
    check(
        &text("v1"),
        expect![[r#"
        %f(i64, f64, f64) -> f64 fast

        bb0(v0: i64, v1: f64, v2: f64):  ; forward of block0
            jump bb1

        bb1:  ; forward of block1, from bb0
            return v1
    "#]],
    );
}

#[test]
fn nested_loops_of_which_the_inner_is_dead() {
    check(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            jump block1(v0, v1)
        block1(v2: i64, v3: f64):
            jump block2(v2)
        block2(v4: i64):
            v5 = ineg v4
            brif v5, block2(v5), block3(v4)
        block3(v6: i64):
            v7 = fmul v3, v1
            v8 = ineg v2
            brif v8, block1(v8, v7), block4(v6)
        block4(v9: i64):
            return v7
        }",
        expect![[r#"
            %f(i64, f64) -> f64 fast

            bb0(v0: i64, v1: f64):  ; forward of block0
                jump bb1(v0, v1)

            bb1(v2: i64, v3: f64):  ; forward of block1, from bb0, bb3
                jump bb2

            bb2:  ; forward of block2, from bb1
                jump bb3

            bb3:  ; forward of block3, from bb2
                v7 = fmul.f64 v3, v1
                v8 = ineg.i64 v2
                brif v8, bb1(v8, v7), bb4

            bb4:  ; forward of block4, from bb3
                return v7
        "#]],
    );
}

#[test]
fn an_irreducible_loop() {
    let text = |r: &str| {
        format!(
            "function %f(i64, i64, f64) -> f64 {{
            block0(v0: i64, v1: i64, v2: f64):
                brif v0, block1(v1, v2), block2(v1, v2)
            block1(v3: i64, v4: f64):
                v5 = fadd v4, v2
                v6 = ineg v3
                brif v6, block2(v6, v5), block3(v5)
            block2(v7: i64, v8: f64):
                v9 = fmul v8, v2
                v10 = ineg v7
                brif v10, block1(v10, v9), block3(v9)
            block3(v11: f64):
                return {r}
            }}"
        )
    };
    check(
        &text("v2"),
        expect![[r#"
        %f(i64, i64, f64) -> f64 fast

        bb0(v0: i64, v1: i64, v2: f64):  ; forward of block0
            jump bb3

        bb3:  ; forward of block3, from bb0
            return v2
    "#]],
    );
    Case::new(&text("v11")).stays();
}

#[test]
fn traps_stay() {
    // Division by a constant cannot trap, nor does a load count; division by a variable and conversion to integer may.
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
fn two_branches_decide() {
    // if v0 || v1 { store }; block2 depends on both branches, block3 on one, block4 on none.
    let mut case = Case::new(
        "function %f(i64, i64, f64) -> f64 {
        block0(v0: i64, v1: i64, v2: f64):
            brif v0, block2, block1
        block1:
            brif v1, block2, block3
        block2:
            store v2, v0
            jump block4
        block3:
            jump block4
        block4:
            return v2
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

#[test]
fn tables() {
    check(
        "function %f(i32, f64) -> f64 {
        block0(v0: i32, v1: f64):
            br_table v0, block3, [block1, block2, block3]
        block1:
            v2 = fmul v1, v1
            jump block3
        block2:
            v3 = fadd v1, v1
            jump block3
        block3:
            br_table v0, block4(v1), [block4(v1), block5]
        block4(v4: f64):
            return v4
        block5:
            trap user1
        }",
        expect![[r#"
            %f(i32, f64) -> f64 fast

            bb0(v0: i32, v1: f64):  ; forward of block0
                jump bb3

            bb3:  ; forward of block3, from bb0
                br_table v0, bb4(v1), [bb4(v1), bb5]

            bb4(v4: f64):  ; forward of block4, from bb3
                return v4

            bb5:  ; forward of block5, from bb3
                trap user1
        "#]],
    );
}

#[test]
fn ways_without_an_exit_keep_their_branches() {
    // block4 never ends. What decides whether it is reached stays, also where nothing is done on the way.
    check(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            brif v0, block1, block3
        block1:
            v2 = ineg v0
            v3 = ineg v0
            brif v2, block2, block3
        block2:
            v4 = ineg v0
            v5 = ineg v0
            brif v4, block2, block1
        block3:
            v6 = ineg v0
            brif v6, block4, block5
        block4:
            jump block4
        block5:
            return v1
        }",
        expect![[r#"
            %f(i64, f64) -> f64 fast

            bb0(v0: i64, v1: f64):  ; forward of block0
                brif v0, bb1, bb3

            bb1:  ; forward of block1, from bb0, bb2
                v2 = ineg.i64 v0
                brif v2, bb2, bb3

            bb2:  ; forward of block2, from bb1, bb2
                v4 = ineg.i64 v0
                brif v4, bb2, bb1

            bb3:  ; forward of block3, from bb0, bb1
                v6 = ineg.i64 v0
                brif v6, bb4, bb5

            bb4:  ; forward of block4, from bb3, bb4
                jump bb4

            bb5:  ; forward of block5, from bb3
                return v1
        "#]],
    );
}

#[test]
fn a_function_without_exit_stays() {
    let text = "function %f(i64) -> f64 {
        block0(v0: i64):
            v1 = ineg v0
            brif v1, block1, block2
        block1:
            jump block2
        block2:
            v2 = ineg v0
            jump block2
        }";
    Case::new(text).stays();
}

/// One block that enters a frame, keeps two values and a number, and reads some of it in a second block.
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
fn what_is_kept_for_nobody() {
    let mut case = frame();
    case.graph.blocks[1].role = Role::Exit;
    case.add(1, &[(v(2), types::F64)], AdOp::Restore(FrameSlot(8)));
    // Read, but for nothing; what is kept there goes as well.
    case.add(1, &[(v(3), types::F64)], AdOp::Restore(FrameSlot(16)));
    case.add(1, &[(d(1), types::I32)], AdOp::KeptBlock(FrameSlot(32)));
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
    // Held variables are the function's own: that the frame is left for another one does not matter.
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
    // v2 of the forward part is read by nobody: the pullback part has a v2 of its own, and v3 and v4 from the forward part.
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
    case.add(1, &[(d(2), I64)], AdOp::Arith(Arith::Iconst(0), Default::default(), I64));
    case.add(1, &[(d(3), types::F64)], AdOp::LoadOld { addr: v(6), off: 0, ty: types::F64 });
    case.add(1, &[], AdOp::StoreOld { addr: v(5), off: 0, value: v(1) });
    case.add(1, &[(d(4), types::I32)], AdOp::PeekBlock);
    case.prune().shows(expect![[r#"
        %f(i64, f64) -> f64 fast

        bb0(v0: i64, v1: f64):  ; forward of block0
            v2 = fadd.f64 v1, v1
            v3 = fmul.f64 v1, v1
            v4 = sqrt.f64 v1
            v5 = iadd.i64 v0, v0
            push [v2, v3], block 0
            ct(v1) += v4
            jump bb1

        bb1:  ; forward of block1, from bb0
            d1 = take ct(v1)
            mem[v5] = v1
            return v1
    "#]]);
}

/// The pullback of two arms that join: the number of the arm that was taken is read where it matters.
fn reverse_arms(store: bool) -> Case {
    let mut case = Case::new(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            jump block1
        block1:
            v2 = fadd v1, v1
            jump block3
        block2:
            v3 = fsub v1, v1
            jump block3
        block3:
            return v1
        }",
    );
    let [entry, one, two, _] = [0, 1, 2, 3].map(|n| *case.graph.blocks.get_index(n).unwrap().0);
    case.add(0, &[(d(1), types::I32)], AdOp::PeekBlock);
    let cases: Vec<(u32, BlockId)> = vec![(1, one), (2, two)];
    case.graph.blocks[&entry].term = Term::Switch(d(1), cases);
    if store {
        case.add(2, &[], AdOp::StoreOld { addr: v(0), off: 0, value: v(3) });
    }
    case
}

#[test]
fn switches() {
    reverse_arms(false).prune().shows(expect![[r#"
        %f(i64, f64) -> f64 fast

        bb0(v0: i64, v1: f64):  ; forward of block0
            jump bb3

        bb3:  ; forward of block3, from bb0
            return v1
    "#]]);
    reverse_arms(true).prune().shows(expect![[r#"
        %f(i64, f64) -> f64 fast

        bb0(v0: i64, v1: f64):  ; forward of block0
            d1 = block on top of tape
            switch d1, [block 1: bb1, block 2: bb2]

        bb1:  ; forward of block1, from bb0
            jump bb3

        bb2:  ; forward of block2, from bb0
            v3 = fsub.f64 v1, v1
            mem[v0] = v3
            jump bb3

        bb3:  ; forward of block3, from bb1, bb2
            return v1
    "#]]);
}

#[test]
fn the_size_of_real_programs() {
    // A chain of 5000 diamonds, every second of which matters, inside one loop; 20 dead instructions in each block.
    use std::fmt::Write;
    let mut text = String::from("function %f(i64, f64) -> f64 {\nblock0(v0: i64, v1: f64):\n jump block1(v0, v1)\n");
    text += "block1(v2: i64, v3: f64):\n jump block10(v3)\n";
    let mut value = 100_000;
    for n in 0..5000 {
        let at = 10 + 4 * n;
        let x = value;
        writeln!(text, "block{at}(v{x}: f64):").unwrap();
        for k in 1..20 {
            writeln!(text, " v{} = fadd v{}, v{x}", x + k, x + k - 1).unwrap();
        }
        let (a, b, c, next) = (at + 1, at + 2, at + 3, at + 4);
        writeln!(text, " brif v2, block{a}, block{b}\nblock{a}:\n jump block{c}(v{x})").unwrap();
        writeln!(text, "block{b}:\n jump block{c}(v{})", if n % 2 == 0 { x } else { x + 1 }).unwrap();
        writeln!(text, "block{c}(v{}: f64):\n jump block{next}(v{})", x + 20, if n % 2 == 0 { x } else { x + 20 })
            .unwrap();
        value += 21;
    }
    writeln!(text, "block{}(v{value}: f64):\n v4 = ineg v2", 10 + 4 * 5000).unwrap();
    writeln!(text, " brif v4, block1(v4, v{value}), block2\nblock2:\n return v{value}\n}}").unwrap();
    let mut case = Case::new(&text);
    let size = |c: &Case| (c.graph.blocks.len(), c.graph.blocks.values().map(|b| b.insts.len()).sum::<usize>());
    assert_eq!(size(&case), (20_004, 95_001));
    let start = std::time::Instant::now();
    case.prune().verifies();
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    assert_eq!(size(&case), (12_504, 2_501));
}
