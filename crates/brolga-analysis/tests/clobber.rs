//! Which loads may be done again: places, effects and clobbering, on small functions.

use brolga_analysis::memory::alias::Places;
use brolga_analysis::memory::clobber::reloadable;
use brolga_analysis::memory::mod_ref::ByteRange;
use brolga_analysis::{Blocks, Cfg, Summaries};
use brolga_testing::program;
use cranelift_codegen::ir::{Function, Inst, InstructionData};

use crate::common::{NOTHING_SAID, bodies, with_input};

/// Loads of a function in layout order.
fn loads(func: &Function) -> Vec<Inst> {
    let all = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    all.filter(|i| matches!(func.dfg.insts[*i], InstructionData::Load { .. })).collect()
}

/// For each load of `%f`, whether it may be done again.
fn reloads(text: &str) -> Vec<bool> {
    with_input(&program(text), NOTHING_SAID, |input, _| {
        let found = reloadable(&input);
        loads(input.func).into_iter().map(|l| found.contains(l)).collect()
    })
}

#[test]
fn fields_are_apart() {
    // A store to one field leaves the others.
    let found = reloads(
        "function %f(i64) -> f64 { block0(v0: i64):
            v1 = load.f64 v0
            v2 = load.f64 v0+8
            v3 = load.f64 v0+12
            v4 = load.f64 v0+16
            v5 = load.f32 v0+4
            store v2, v0+8
            return v1 }",
    );
    assert_eq!(found, [true, false, false, true, true]);
}

#[test]
fn what_lies_in_front_of_memory_is_apart_from_it() {
    // A 32-bit index reaches forwards only, unless it is widened with its sign.
    let text = |widen: &str| {
        format!(
            "function %f(i64, i32, f64) -> f64 {{ block0(v0: i64, v1: i32, v2: f64):
                v3 = load.i64 v0-16
                v4 = load.f64 v0
                v5 = {widen}.i64 v1
                v6 = iadd v0, v5
                store v2, v6+32
                v7 = iconst.i64 3
                v8 = ishl v5, v7
                v9 = iadd v0, v8
                store v2, v9
                return v4 }}"
        )
    };
    assert_eq!(reloads(&text("uextend")), [true, false]);
    assert_eq!(reloads(&text("sextend")), [false, false]);
}

#[test]
fn widened_sums_are_apart_by_their_constants() {
    let text = |first: i64, second: i64| {
        format!(
            "function %f(i64, i32, f64) -> f64 {{ block0(v0: i64, v1: i32, v2: f64):
                v3 = iconst.i32 {first}
                v4 = iadd v1, v3
                v5 = uextend.i64 v4
                v6 = iadd v0, v5
                v7 = load.f64 v6
                v8 = iconst.i32 {second}
                v9 = iadd v1, v8
                v10 = uextend.i64 v9
                v11 = iadd v0, v10
                store v2, v11
                return v7 }}"
        )
    };
    for (first, second, apart) in [
        (0, 8, true),
        (8, 0, true),
        (-16, 16, true),
        (0, 0, false),
        (0, 7, false),
        (7, 0, false),
        // They wrap at 2^32.
        (i64::from(i32::MIN), i64::from(i32::MAX), false),
        (i64::from(i32::MIN), 8, true),
    ] {
        assert_eq!(reloads(&text(first, second)), [apart], "{first}, {second}");
    }
}

#[test]
fn a_number_that_changes_is_not_the_same() {
    // x[i] is read and x[i + 1] written, iteration by iteration: what is read in one iteration may
    // be written in a later one, from 8 bytes further on or, if the step is negative, just the
    // same.
    let found = reloads(
        "function %f(i64, i32, i32) -> f64 { block0(v0: i64, v1: i32, v2: i32): jump block1(v1)
         block1(v3: i32):
            v4 = uextend.i64 v3
            v5 = iadd v0, v4
            v6 = load.f64 v5
            store v6, v5+8
            v7 = iadd v3, v2
            brif v7, block1(v7), block2
         block2: return v6 }",
    );
    assert_eq!(found, [false]);
}

#[test]
fn within_one_execution_of_a_block_it_is() {
    let text = "function %f(i64, i32, i32) -> f64 { block0(v0: i64, v1: i32, v2: i32): jump block1(v1)
         block1(v3: i32):
            v4 = uextend.i64 v3
            v5 = iadd v0, v4
            v6 = load.f64 v5
            v7 = load.f64 v5+8
            store v6, v5+8
            v8 = iadd v3, v2
            brif v8, block1(v8), block2
         block2: return v6 }";
    let program = program(text);
    let func = program.funcs[program.func("f").unwrap()].body.as_ref().unwrap();
    let places = Places { program: &program, func, cfg: &Cfg::compute(func), blocks: &Blocks::default() };
    let all: Vec<_> = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect();
    let store = all.iter().find(|i| func.dfg.insts[**i].opcode().can_store()).unwrap();
    let [a, b] = loads(func)[..] else { panic!("two loads") };
    let (a, b, store) = (places.of_access(a), places.of_access(b), places.of_access(*store));
    assert!(places.apart_in_block(&a, &store) && !places.apart_in_block(&b, &store));
    assert!(!places.apart(&a, &store));
}

#[test]
fn effects_of_callees() {
    let text = "function %pure(i64, f64) -> f64 { ss0 = explicit_slot 8
            block0(v0: i64, v1: f64): v2 = stack_addr.i64 ss0
            store v1, v2
            v3 = load.f64 v2
            return v3 }
        function %global(i64, i32) { fn0 = %pure(i64, f64) -> f64
            block0(v0: i64, v1: i32): store v1, v0-16
            v2 = f64const 0.0
            v3 = call fn0(v0, v2)
            return }
        function %outer(i64, i32) { fn0 = %global(i64, i32)
            block0(v0: i64, v1: i32):
            v2 = iconst.i64 -32
            v3 = iadd v0, v2
            call fn0(v3, v1)
            return }
        function %memory(i64, i64) { block0(v0: i64, v1: i64): v2 = iadd v0, v1
            store v1, v2
            return }
        function %walk(i64, i32) { fn0 = %walk(i64, i32)
            block0(v0: i64, v1: i32):
            store v1, v0
            v2 = iconst.i64 4
            v3 = iadd v0, v2
            call fn0(v3, v1)
            return }";
    let program = program(text);
    let summaries = Summaries::compute(&program, &bodies(&program));
    let of = |name: &str| -> Vec<(Option<usize>, ByteRange)> {
        let effect = &summaries.effects()[&program.func(name).unwrap()];
        effect.writes().iter().map(|p| (p.through, p.span)).collect()
    };
    assert_eq!(of("pure"), []);
    assert_eq!(of("global"), [(Some(0), Some((-16, -12)))]);
    assert_eq!(of("outer"), [(Some(0), Some((-48, -44)))]);
    assert_eq!(of("memory"), [(None, None)]);
    assert_eq!(of("walk"), [(Some(0), None)]);
    let caller = |callee: &str| {
        format!(
            "{text}
            function %f(i64, i64) -> f64 {{ fn0 = %{callee}(i64, i64)
                block0(v0: i64, v1: i64):
                v2 = load.f64 v0
                v3 = load.f64 v0-16
                call fn0(v0, v1)
                return v2 }}"
        )
    };
    // Types of the calls do not matter here.
    assert_eq!(reloads(&caller("global")), [true, false]);
    assert_eq!(reloads(&caller("pure")), [true, true]);
    assert_eq!(reloads(&caller("memory")), [false, false]);
    assert_eq!(reloads(&caller("walk")), [false, false]);
}

#[test]
fn effects_of_many_parts() {
    // Through each of its parameters, at two distances; through more than are told apart.
    let writes = |n: usize| {
        let params: Vec<String> = (0..n).map(|i| format!("v{i}: i64")).collect();
        let stores: String =
            (0..n).map(|i| format!("store v90, v{i}\n store v90, v{i}+16\n store v90, v{i}-16\n")).collect();
        let types = vec!["i64"; n].join(", ");
        let program = program(&format!(
            "function %g({types}) {{ block0({}): v90 = f64const 0.0\n {stores} return }}",
            params.join(", ")
        ));
        let effects = Summaries::compute(&program, &bodies(&program)).effects().clone();
        let parts: Vec<_> = effects[&program.func("g").unwrap()].writes().to_vec();
        parts.iter().map(|p| (p.through, p.span)).collect::<Vec<_>>()
    };
    let apart = |i: usize| [(Some(i), Some((-16, -8))), (Some(i), Some((0, 24)))];
    assert_eq!(writes(1), apart(0));
    assert_eq!(writes(4), (0..4).flat_map(apart).collect::<Vec<_>>());
    let found = writes(8);
    assert!(found.len() <= 8);
    for (param, span) in (0..8).flat_map(apart) {
        let has = |p: &ByteRange| p.unwrap().0 <= span.unwrap().0 && span.unwrap().1 <= p.unwrap().1;
        assert!(found.iter().any(|p| p.0 == param && has(&p.1)), "{param:?}, {span:?}");
    }
    assert_eq!(writes(9), [(None, None)]);
}
