//! The notation of derived code: every kind of instruction and terminator once, and a lifted
//! function as a graph.

use brolga_ir::block::{Ids, Role, Target, Term};
use brolga_ir::inst::{AdInst, AdOp, Arith, Callee, Check, ClearQuery, FrameSlot, ShadowPlace, Shape, Sum, Tape, Val};
use brolga_ir::lift::lift;
use brolga_ir::{BlockId, DataKey, Dv};
use cranelift_codegen::entity::EntityRef;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, Type, types};
use expect_test::{Expect, expect};

const SOURCE: &str = r"function %f(i64, f64) -> f64 system_v {
    ss0 = explicit_slot 16
    gv0 = symbol %table
    sig0 = (f64) -> f64 system_v
    fn0 = %sin sig0

block0(v0: i64, v1: f64):
    v2 = load.f64 v0+8
    v3 = symbol_value.i64 gv0
    v4 = call fn0(v2)
    brif v0, block1(v4), block2

block1(v5: f64):
    return v5

block2:
    trap user1
}";

fn function() -> ir::Function {
    cranelift_reader::parse_functions(SOURCE).unwrap().remove(0)
}

fn v(n: u32) -> Val {
    Val::Primal(ir::Value::from_u32(n))
}

fn delta(n: u32) -> Val {
    Val::Delta(ir::Value::from_u32(n))
}

fn d(n: usize) -> Val {
    Val::D(Dv::new(n))
}

fn aux(inst: u32, n: u8) -> Val {
    Val::Aux(ir::Inst::from_u32(inst), n)
}

fn check(defs: &[(Val, Type)], ops: impl IntoIterator<Item = AdOp>, expected: Expect) {
    let primal = function();
    let lines: Vec<String> = ops
        .into_iter()
        .map(|op| AdInst { defs: defs.iter().copied().collect(), op, at: None }.display(&primal).to_string() + "\n")
        .collect();
    expected.assert_eq(&lines.concat());
}

#[test]
fn graph() {
    let primal = function();
    let (graph, _) = lift(&primal, "f", &mut Ids::default());
    expect![[r#"
        %f(i64, f64) -> f64 system_v

        bb0(v0: i64, v1: f64):  ; forward of block0
            v2 = load.f64 v0+8
            v3 = symbol_value.i64 gv0  ; %table
            v4 = call fn0(v2)  ; %sin
            brif v0, bb1(v4), bb2

        bb1(v5: f64):  ; forward of block1, from bb0
            return v5

        bb2:  ; forward of block2, from bb0
            trap user1
    "#]]
    .assert_eq(&graph.display(&primal).to_string());
    let with_ids = graph.display(&primal).with_ids().to_string();
    assert!(with_ids.contains("    i1    v3 = symbol_value.i64 gv0"), "{with_ids}");
}

#[test]
fn arithmetic() {
    let arith = |op, args: &[Val], ty| AdOp::Arith(op, args.into(), ty);
    let unary = [
        Arith::Fneg,
        Arith::Fabs,
        Arith::Sqrt,
        Arith::Trunc,
        Arith::Nearest,
        Arith::Floor,
        Arith::IsZero,
        Arith::Not,
        Arith::Bitcast,
        Arith::Promote,
        Arith::Demote,
        Arith::PromoteLow,
        Arith::DemoteLow,
        Arith::Extract(1),
        Arith::Splat,
        Arith::ScalarToVector,
        Arith::Math(Box::new("cos")),
        Arith::ToBits,
        Arith::FromBits(Shape::F32Pair),
        Arith::Uextend,
        Arith::FromInt,
    ];
    let binary = [
        Arith::Fadd,
        Arith::Fsub,
        Arith::Fmul,
        Arith::Fdiv,
        Arith::Copysign,
        Arith::Fcmp(FloatCC::Equal),
        Arith::Band,
        Arith::Bor,
        Arith::Bxor,
        Arith::NonZero,
        Arith::KeepWhere,
        Arith::Insert(1),
        Arith::ShuffleBytes(Box::new(std::array::from_fn(|i| i as u8))),
        Arith::Iadd,
        Arith::Isub,
        Arith::Icmp(IntCC::Equal),
    ];
    let ternary = [Arith::Bitselect, Arith::Select, Arith::SelectAll];
    let constants = [Arith::Const(-0.0), Arith::Const(f64::INFINITY), Arith::Const(0.1), Arith::Iconst(-8)];
    let ops = constants.into_iter().map(|a| arith(a, &[], types::F64));
    let ops = ops.chain(unary.map(|a| arith(a, &[v(1)], types::F64)));
    let ops = ops.chain(binary.map(|a| arith(a, &[v(1), d(2)], types::F64X2)));
    let ops = ops.chain(ternary.map(|a| arith(a, &[d(0), v(1), d(2)], types::F32)));
    check(
        &[(d(3), types::F64)],
        ops,
        expect![[r#"
            d3 = const.f64 -0.0
            d3 = const.f64 inf
            d3 = const.f64 0.1
            d3 = iconst.f64 -8
            d3 = fneg.f64 v1
            d3 = fabs.f64 v1
            d3 = sqrt.f64 v1
            d3 = trunc.f64 v1
            d3 = nearest.f64 v1
            d3 = floor.f64 v1
            d3 = is_zero.f64 v1
            d3 = not.f64 v1
            d3 = bitcast.f64 v1
            d3 = fpromote.f64 v1
            d3 = fdemote.f64 v1
            d3 = fvpromote_low.f64 v1
            d3 = fvdemote.f64 v1
            d3 = extractlane.f64 v1, 1
            d3 = splat.f64 v1
            d3 = scalar_to_vector.f64 v1
            d3 = call.f64 %cos(v1)
            d3 = to_bits.f64 v1
            d3 = from_bits.f64 v1, f32pair
            d3 = uextend.f64 v1
            d3 = fcvt_from_sint.f64 v1
            d3 = fadd.f64x2 v1, d2
            d3 = fsub.f64x2 v1, d2
            d3 = fmul.f64x2 v1, d2
            d3 = fdiv.f64x2 v1, d2
            d3 = fcopysign.f64x2 v1, d2
            d3 = fcmp.f64x2 eq v1, d2
            d3 = band.f64x2 v1, d2
            d3 = bor.f64x2 v1, d2
            d3 = bxor.f64x2 v1, d2
            d3 = nonzero.f64x2 v1, d2
            d3 = keep_where.f64x2 v1, d2
            d3 = insertlane.f64x2 v1, d2, 1
            d3 = shuffle.f64x2 v1, d2, 0x0f0e0d0c0b0a09080706050403020100
            d3 = iadd.f64x2 v1, d2
            d3 = isub.f64x2 v1, d2
            d3 = icmp.f64x2 eq v1, d2
            d3 = bitselect.f32 d0, v1, d2
            d3 = select.f32 d0, v1, d2
            d3 = select_all.f32 d0, v1, d2
        "#]],
    );
}

#[test]
fn deltas_and_memory() {
    let slot = ir::StackSlot::from_u32(0);
    let (addr, by) = (v(0), d(7));
    let place = |off, sure| ShadowPlace { sure, ..ShadowPlace::new(addr, delta(0), off) };
    let ops = [
        AdOp::Primal(ir::Inst::from_u32(0)),
        AdOp::SlotDelta(slot),
        AdOp::SlotAddr(slot, 4),
        AdOp::DataDelta(DataKey::new(1)),
        AdOp::LoadDelta { place: place(-8, false), loaded: v(2) },
        AdOp::LoadOld { addr, off: 8, ty: types::I32 },
        AdOp::TakeMem { place: place(0, false), shape: Shape::F64X2 },
        AdOp::Lookup { addr: v(4), signature: 0xabc },
    ];
    check(
        &[(aux(4, 1), types::I64)],
        ops,
        expect![[r#"
            v2 = load.f64 v0+8
            i4:1 = delta of ss0
            i4:1 = address of ss0+4 in frame
            i4:1 = delta of data1
            i4:1 = delta of v2 by shadow?[v0-8; v0']
            i4:1 = mem.i32[v0+8]
            i4:1 = take shadow?.f64x2[v0; v0']
            i4:1 = lookup v4, signature 0x0000000000000abc
        "#]],
    );
    let ops = [
        AdOp::StoreDelta { place: place(8, false), value: v(2), vdelta: Some(delta(2)) },
        AdOp::StoreDelta { place: place(8, false), value: v(2), vdelta: None },
        AdOp::StoreOld { addr, off: 8, value: aux(4, 0) },
        AdOp::AddMem { place: place(8, true), by, shape: Shape::F64, fresh: false },
        AdOp::ZeroMem { place: place(0, true), bytes: 4, asks: ClearQuery::Nothing, cuts: None },
        AdOp::ZeroMem { place: place(0, true), bytes: 4, asks: ClearQuery::Zero, cuts: None },
        AdOp::Poison { place: place(0, true), bytes: 4, when: Some(by) },
        AdOp::Poison { place: place(0, true), bytes: 8, when: None },
        AdOp::TrapIf(by, Check::ConstStore),
        AdOp::Watch { value: v(2), not_zero: false, sum: Sum::OfFunction },
        AdOp::Watch { value: v(2), not_zero: true, sum: Sum::Aside },
        AdOp::Watch { value: v(2), not_zero: false, sum: Sum::Loop(ir::Block::from_u32(3)) },
        AdOp::WatchFrom(ir::Block::from_u32(3)),
        AdOp::WatchJoin(ir::Block::from_u32(3)),
    ];
    check(
        &[],
        ops,
        expect![[r#"
            shadow?[v0+8; v0'] = v2 + v2'
            shadow?[v0+8; v0'] = v2, no shadow
            mem[v0+8] = i4:0
            shadow.f64[v0+8; v0'] += d7
            shadow[v0; v0'] = 0, 4 bytes
            shadow[v0; v0'] = 0, 4 bytes, trap untracked_bits if it was not 0
            shadow[v0; v0'] = poison, 4 bytes, if d7
            shadow[v0; v0'] = poison, 8 bytes, if a number was made of them
            trap if d7, const_store
            watch v2, which is to be finite
            watch v2, which is to be finite and not zero, in memory
            watch v2, which is to be finite, in the loop of block3
            watch the loop of block3
            join what was watched in the loop of block3
        "#]],
    );
}

#[test]
fn tape_and_cotangents() {
    let slot = FrameSlot(16);
    let value = ir::Value::from_u32(3);
    let ops = [
        AdOp::EnterFrame,
        AdOp::Keep(slot, delta(2)),
        AdOp::KeepBlock(slot, 7),
        AdOp::Push(vec![v(1), delta(2)], Some(7)),
        AdOp::Push(vec![v(1)], None),
        AdOp::Push(vec![], Some(7)),
        AdOp::LeaveFrame,
        AdOp::OpenFrame,
        AdOp::CloseFrame,
        AdOp::AddCt(value, d(4)),
        AdOp::ZeroCt(value),
    ];
    check(
        &[],
        ops,
        expect![[r#"
            enter frame
            keep frame+16 = v2'
            keep frame+16 = block 7
            push [v1, v2'], block 7
            push [v1]
            push block 7
            leave frame
            open frame
            close frame
            ct(v3) += d4
            ct(v3) = 0
        "#]],
    );
    let ops = [
        AdOp::Restore(slot),
        AdOp::RestoreBlock(slot),
        AdOp::PeekBlock,
        AdOp::Pop(vec![v(1)], Some(7)),
        AdOp::TakeCt(value),
    ];
    check(
        &[(v(1), types::F64)],
        ops,
        expect![[r#"
            v1 = restore.f64 frame+16
            v1 = block at frame+16
            v1 = block on top of tape
            pop [v1], block 7
            v1 = take ct(v3)
        "#]],
    );
}

#[test]
fn calls() {
    let call = |callee, tape| AdOp::Call {
        callee,
        args: [None, Some(v(1))].into(),
        sig: Box::new(ir::Signature::new(cranelift_codegen::isa::CallConv::Fast)),
        tape,
    };
    check(
        &[(v(2), types::I64), (delta(2), types::I64)],
        [
            call(Callee::Symbol("g__forward".into()), Tape::Moves),
            call(Callee::Symbol("g__gradient".into()), Tape::Above),
            call(Callee::Pointer(aux(4, 0)), Tape::Aside),
        ],
        expect![[r#"
            v2, v2' = call %g__forward(seg, v1)
            v2, v2' = call_above %g__gradient(seg, v1)
            v2, v2' = call_aside i4:0(seg, v1)
        "#]],
    );
}

#[test]
fn terminators_and_roles() {
    let to = |n: usize, args: &[Val]| Target { block: BlockId::new(n), args: args.to_vec() };
    let terms = [
        Term::Jump(to(1, &[])),
        Term::Jump(to(1, &[v(1), delta(1)])),
        Term::If(v(0), to(1, &[v(1)]), to(2, &[])),
        Term::Table(v(0), to(1, &[]), vec![to(2, &[v(1)]), to(3, &[])]),
        Term::Switch(d(0), vec![(0, BlockId::new(4)), (2, BlockId::new(5))]),
        Term::Return(vec![]),
        Term::Return(vec![v(1), d(2)]),
        Term::Trap(ir::TrapCode::INTEGER_DIVISION_BY_ZERO),
    ];
    let lines: Vec<String> = terms.iter().map(|t| format!("{t}\n")).collect();
    expect![[r#"
        jump bb1
        jump bb1(v1, v1')
        brif v0, bb1(v1), bb2
        br_table v0, bb1, [bb2(v1), bb3]
        switch d0, [block 0: bb4, block 2: bb5]
        return
        return v1, d2
        trap int_divz
    "#]]
    .assert_eq(&lines.concat());
    let (a, b) = (ir::Block::from_u32(0), ir::Block::from_u32(1));
    let roles = [
        Role::Forward(a),
        Role::Reverse(a),
        Role::Edge(a, b),
        Role::Begin(a),
        Role::Rerun(a, b),
        Role::Entry,
        Role::Exit,
    ];
    let roles: Vec<String> = roles.iter().map(ToString::to_string).collect();
    let texts = [
        "forward of block0",
        "reverse of block0",
        "edge block0 -> block1",
        "loop of block0, forwards",
        "block1 again, in the loop of block0",
        "entry",
        "exit",
    ];
    assert_eq!(roles, texts);
}
