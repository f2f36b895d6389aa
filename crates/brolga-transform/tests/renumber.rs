//! A function that is renumbered is what lowering makes of it when it has been lifted, whatever was
//! lowered before.

use brolga_ir::block::Ids;
use brolga_ir::lift::lift;
use brolga_ir::lower::{LowerEnv, is_numbered, lower, renumber};
use brolga_ir::names::Names;
use brolga_testing::function;
use cranelift_codegen::ir::Function;
use cranelift_codegen::settings::{self, Flags};
use cranelift_codegen::{isa, verify_function};

#[test]
fn the_same_as_lifting_and_lowering() {
    let text = "function %f(i64, f64, i32) -> f64, i64 system_v {
        ss0 = explicit_slot 16
        gv0 = symbol %table
        sig0 = (f64) -> f64 system_v
        sig1 = (i64) system_v
        fn0 = %unused(f64) -> f64 system_v
        fn1 = %sin(f64) -> f64 system_v
        fn2 = u0:3(i64) system_v
        const0 = 0x00000000000000000000000000000007
    block7(v10: i64, v11: f64, v12: i32):
        v30 = vconst.f64x2 const0
        v31 = extractlane v30, 1
        v13 = call fn1(v11)
        v14 = call_indirect sig0, v10(v13)
        v15 = stack_addr.i64 ss0+8
        store notrap aligned v14, v15
        br_table v12, block3(v14), [block2, block3(v11), block2]
    block2:
        v16 = symbol_value.i64 gv0
        v17 = load.f64 v16+24
        call fn2(v16)
        v18 = f64const 0x1.8p1
        v19 = fmul v17, v18
        jump block4(v19, v16)
    block3(v20: f64):
        v21 = fcmp lt v20, v11
        brif v21, block4(v20, v10), block5
    block4(v22: f64, v23: i64):
        v24 = iconst.i64 -3
        v25 = iadd v23, v24
        return v22, v25
    block5:
        trap user3
    }";
    let func = function(text);
    let target = isa::lookup_by_name("x86_64").or(isa::lookup_by_name("aarch64"));
    let isa = target.unwrap().finish(Flags::new(settings::builder())).unwrap();
    verify_function(&func, &*isa).unwrap();
    let (graph, _) = lift(&func, "f", &mut Ids::default());
    let want = lower(&graph, LowerEnv::of_primal(&func, &mut Names::verbatim(), isa.frontend_config()));
    let order: Vec<_> = func.layout.blocks().collect();
    let found = renumber(&func, &order);
    verify_function(&found, &*isa).unwrap();
    assert_eq!(found.to_string(), want.to_string());
    assert!(!found.to_string().contains("unused"));
    assert!(!is_numbered(&func, &order));
    assert!(is_numbered(&found, &found.layout.blocks().collect::<Vec<_>>()));

    // Nothing is left behind where functions are made.
    let other = "function %g(f64) -> f64 fast {
        ss0 = explicit_slot 8
        sig0 = (f64) -> f64 system_v
        fn0 = %cos sig0
    block0(v0: f64):
        v1 = call fn0(v0)
        return v1
    }";
    let other = function(other);
    let small = |names: &mut Names| {
        let (graph, _) = lift(&other, "g", &mut Ids::default());
        lower(&graph, LowerEnv::of_primal(&other, names, isa.frontend_config()))
    };
    let alone = std::thread::scope(|s| s.spawn(|| small(&mut Names::verbatim())).join().unwrap());
    assert!(small(&mut Names::verbatim()) == alone, "{alone}");
    let rerun = lower(&graph, LowerEnv::of_primal(&func, &mut Names::verbatim(), isa.frontend_config()));
    assert!(rerun == want, "{rerun}");
}

#[test]
fn what_is_in_order_keeps_its_numbers() {
    let parse = |text: &str| function(text);
    let numbered = |func: &Function| is_numbered(func, &func.layout.blocks().collect::<Vec<_>>());
    let text = "function %f(i64) -> i64 fast {
    block0(v0: i64):
        v1 = iadd v0, v0
        v2 = imul v1, v1
        store v0, v0
        v4 = bnot v0
        brif v0, block1, block2(v1)
    block1:
        jump block2(v2)
    block2(v5: i64):
        return v5
    }";
    let mut func = parse(text);
    assert!(numbered(&func));
    // The number of an instruction that is gone is not in use.
    let second = func.layout.block_insts(func.layout.entry_block().unwrap()).nth(1).unwrap();
    func.layout.remove_inst(second);
    assert!(numbered(&func));
    // What comes too late: an instruction with a value, and one without; values; blocks.
    for k in [0, 2] {
        let mut late = parse(text);
        let entry = late.layout.entry_block().unwrap();
        let (inst, last) = (late.layout.block_insts(entry).nth(k).unwrap(), late.layout.last_inst(entry).unwrap());
        late.layout.remove_inst(inst);
        late.layout.insert_inst(inst, last);
        assert!(!numbered(&late), "{late}");
    }
    assert!(!numbered(&parse(&text.replace("v1", "v9").replace("v2", "v1"))));
    assert!(!numbered(&parse(&text.replace("block1", "block7").replace("block2", "block1"))));
    let blocks: Vec<_> = func.layout.blocks().collect();
    assert!(!is_numbered(&func, &[blocks[0], blocks[2], blocks[1]]));
    assert!(!is_numbered(&func, &blocks[..2]));
}
