//! Stores to memory that the function makes for itself.

use expect_test::expect;

use brolga_analysis::variant::HELPER_CONV;
use brolga_ir::inst::{AdInst, AdOp, Arith, Callee, Check, Tape, Val};
use cranelift_codegen::ir::{self, types};

use super::{Case, check, d, v};

#[test]
fn what_is_stored_without_a_reader() {
    // Only what is sure not to fault goes: a constant place inside of the slot, or what says so.
    check(
        "function %f(i64, f64) -> f64 {
            ss0 = explicit_slot 16
        block0(v0: i64, v1: f64):
            v2 = stack_addr.i64 ss0
            store v1, v2+8
            store v1, v2+12
            v3 = iconst.i64 3
            v4 = ishl v0, v3
            v5 = iadd v2, v4
            store notrap v1, v5
            v6 = sqrt v1
            store v6, v5
            return v1
        }",
        expect![[r#"
            %f(i64, f64) -> f64 fast

            bb0(v0: i64, v1: f64):  ; forward of block0
                v2 = stack_addr.i64 ss0
                store.f64 v1, v2+12
                v3 = iconst.i64 3
                v4 = ishl.i64 v0, v3  ; v3 = 3
                v5 = iadd.i64 v2, v4
                v6 = sqrt.f64 v1
                store.f64 v6, v5
                return v1
        "#]],
    );
}

#[test]
fn loops_that_only_store() {
    // The first loop stores what the third reads; the second stores to another slot.
    check(
        "function %f(i64, f64) -> f64 {
            ss0 = explicit_slot 160
            ss1 = explicit_slot 160
        block0(v0: i64, v1: f64):
            v2 = stack_addr.i64 ss0
            v3 = stack_addr.i64 ss1
            v4 = iconst.i64 8
            v5 = iadd v2, v0
            v6 = iadd v3, v0
            jump block1(v2)
        block1(v7: i64):
            store notrap v1, v7
            v8 = iadd v7, v4
            v9 = icmp ult v8, v5
            brif v9, block1(v8), block2(v3)
        block2(v10: i64):
            store notrap v1, v10
            v11 = iadd v10, v4
            v12 = icmp ult v11, v6
            brif v12, block2(v11), block3
        block3:
            v13 = load.f64 v2+16
            return v13
        }",
        expect![[r#"
            %f(i64, f64) -> f64 fast

            bb0(v0: i64, v1: f64):  ; forward of block0
                v2 = stack_addr.i64 ss0
                v4 = iconst.i64 8
                v5 = iadd.i64 v2, v0
                jump bb1(v2)

            bb1(v7: i64):  ; forward of block1, from bb0, bb1
                store.f64 notrap v1, v7
                v8 = iadd.i64 v7, v4  ; v4 = 8
                v9 = icmp.i64 ult v8, v5
                brif v9, bb1(v8), bb2

            bb2:  ; forward of block2, from bb1
                jump bb3

            bb3:  ; forward of block3, from bb2
                v13 = load.f64 v2+16
                return v13
        "#]],
    );
}

#[test]
fn what_others_may_see_is_stored() {
    // The address is stored, returned, passed on, or goes through arithmetic that no rule follows.
    for use_it in
        ["store v2, v0", "return v1, v2", "call fn0(v2)", "v3 = bnot v2 store v3, v0", "v3 = imul v2, v2 store v3, v0"]
    {
        let last = if use_it.starts_with("return") { "" } else { "return v1, v0" };
        let text = format!(
            "function %f(i64, f64) -> f64, i64 {{
                ss0 = explicit_slot 16
                fn0 = %g(i64)
            block0(v0: i64, v1: f64):
                v2 = stack_addr.i64 ss0
                store notrap v1, v2
                {}
                {last}
            }}",
            use_it.replace(" store", "\n store")
        );
        super::Case::new(&text).stays();
    }
}

#[test]
fn what_a_known_function_reads_is_stored() {
    // The copy is read; the memory that is filled and compared with no other is not.
    check(
        "function %f(i64, f64) -> f64 {
            ss0 = explicit_slot 16
            ss1 = explicit_slot 16
            ss2 = explicit_slot 16
            fn0 = %memcpy(i64, i64, i64) -> i64
            fn1 = %free(i64)
            fn2 = %malloc(i64) -> i64
        block0(v0: i64, v1: f64):
            v2 = stack_addr.i64 ss0
            v3 = stack_addr.i64 ss1
            v4 = stack_addr.i64 ss2
            v5 = iconst.i64 16
            v6 = call fn2(v5)
            store notrap v1, v2
            store notrap v1, v4
            store notrap v1, v6
            v7 = call fn0(v3, v2, v5)
            call fn1(v6)
            v8 = load.f64 v7
            return v8
        }",
        expect![[r#"
            %f(i64, f64) -> f64 fast

            bb0(v0: i64, v1: f64):  ; forward of block0
                v2 = stack_addr.i64 ss0
                v3 = stack_addr.i64 ss1
                v5 = iconst.i64 16
                v6 = call fn2(v5)  ; v5 = 16  ; %malloc
                store.f64 notrap v1, v2
                v7 = call fn0(v3, v2, v5)  ; v5 = 16  ; %memcpy
                call fn1(v6)  ; %free
                v8 = load.f64 v7
                return v8
        "#]],
    );
}

/// A call of `malloc` and one of `free`, as they are where the block has a shadow.
fn block_with_shadow() -> Case {
    let mut case = Case::new(
        "function %f(i64, f64) -> f64 {
            fn0 = %malloc(i64) -> i64 system_v
            fn1 = %free(i64) system_v
        block0(v0: i64, v1: f64):
            v2 = call fn0(v0)
            store v1, v2+8
            call fn1(v2)
            return v1
        }",
    );
    let call = |symbol: &str, args: &[Val]| AdOp::Call {
        callee: Callee::Symbol(symbol.into()),
        args: [None].into_iter().chain(args.iter().copied().map(Some)).collect(),
        sig: Box::new(ir::Signature::new(HELPER_CONV)),
        tape: Tape::Aside,
    };
    let malloc = ir::Inst::from_u32(0);
    let delta = Val::Delta(ir::Value::from_u32(2));
    let insts = &mut case.graph.blocks[0].insts;
    for i in insts.values_mut().filter(|i| i.at == Some(malloc)) {
        *i = AdInst {
            defs: [(v(2), types::I64), (delta, types::I64)].into(),
            op: call("brolga_malloc", &[v(0)]),
            ..i.clone()
        };
    }
    let free = insts.values().last().and_then(|i| i.at);
    insts.retain(|_, i| i.at != free);
    case.insert(0, Some(1), &[(d(1), types::I8)], AdOp::Arith(Arith::IsZero, [delta].into(), types::I8));
    case.insert(0, Some(2), &[], AdOp::TrapIf(d(1), Check::Helper));
    let check = case.graph.blocks[0].insts.values_mut().nth(2);
    check.expect("it is the third").at = Some(malloc);
    case.add(0, &[], call("brolga_free", &[v(2), v(0)]));
    case
}

#[test]
fn blocks_without_a_use_are_not_made() {
    let mut case = block_with_shadow();
    // As where only a gradient is asked for: what might fault goes, too.
    case.pure_stores = true;
    case.prune().shows(expect![[r#"
        %f(i64, f64) -> f64 fast

        bb0(v0: i64, v1: f64):  ; forward of block0
            return v1
    "#]]);
}

#[test]
fn blocks_with_a_use_are_given_back() {
    block_with_shadow().stays();
}
