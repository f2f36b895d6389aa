//! Functions as people write them, none of them derived: each pass by itself and all in a row leave
//! results and memory as they were, bit for bit, in compiled code. Each pass must change some
//! function, and each function must be changed by some pass, so that nothing is shown by passes
//! that do nothing.

use std::collections::BTreeSet;

use brolga_clif::shape::FlowInfo;
use brolga_clif::verified::Passes;
use brolga_clif::{licm_gvn, loop_layout, loop_rotate, simplify_cfg, slp_divisions, vectorise};
use brolga_testing::{function, jit};
use cranelift_codegen::ir;
use cranelift_entity::EntitySet;

/// `f(memory, n, x)`: 64 floats, how many of them are meant, a number.
type Compiled = extern "C" fn(*mut f64, i64, f64) -> f64;

/// A name, and the body of `%f(i64, i64, f64) -> f64`.
const FUNCTIONS: [(&str, &str); 4] = [
    // Each element of the first half is added to its neighbour 32 further on.
    (
        "axpy",
        "
        block0(v0: i64, v1: i64, v2: f64):
            v3 = iconst.i64 0
            v20 = iconst.i64 3
            v21 = ishl v1, v20
            jump block1(v3)
        block1(v4: i64):
            v5 = icmp slt v4, v21
            brif v5, block2, block3
        block2:
            v6 = iadd v0, v4
            v7 = load.f64 notrap aligned v6
            v8 = fmul v7, v2
            v9 = load.f64 notrap aligned v6+256
            v10 = fadd v9, v8
            store notrap aligned v10, v6+256
            v11 = iconst.i64 8
            v12 = iadd v4, v11
            jump block1(v12)
        block3:
            return v2",
    ),
    // Two numbers over the same one, and one of them once more.
    (
        "quotients",
        "
        block0(v0: i64, v1: i64, v2: f64):
            v3 = load.f64 v0
            v4 = load.f64 v0+8
            v5 = fdiv v3, v2
            v6 = fdiv v4, v2
            v7 = fsub v5, v6
            v8 = fdiv v3, v2
            v9 = fadd v7, v8
            store v7, v0+16
            return v9",
    ),
    // What the loop does not change, and the same product twice.
    (
        "invariant",
        "
        block0(v0: i64, v1: i64, v2: f64):
            v3 = iconst.i64 0
            v4 = f64const 0.0
            jump block1(v3, v4)
        block1(v5: i64, v6: f64):
            v7 = imul v1, v1
            v8 = imul v7, v1
            v9 = fcvt_from_sint.f64 v8
            v10 = imul v1, v1
            v11 = fcvt_from_sint.f64 v10
            v12 = fadd v6, v9
            v13 = fadd v12, v11
            v14 = iconst.i64 1
            v15 = iadd v5, v14
            v16 = icmp slt v15, v1
            brif v16, block1(v15, v13), block2
        block2:
            store v13, v0
            return v13",
    ),
    // A chain of blocks, parameters that trade places, a jump to a return, a sum without a use.
    (
        "chain",
        "
        block0(v0: i64, v1: i64, v2: f64):
            v3 = load.f64 v0
            v4 = fadd v3, v3
            jump block1(v3, v2)
        block1(v5: f64, v6: f64):
            v7 = fsub v5, v6
            brif v1, block2, block3(v7)
        block2:
            v8 = fmul v7, v2
            jump block3(v8)
        block3(v9: f64):
            return v9",
    ),
];

/// A pass, by its name.
type Pass = (&'static str, fn(&mut ir::Function));

const PASSES: [Pass; 6] = [
    ("vectorise", |f| {
        let none = EntitySet::new();
        let (shadows, watched) = (EntitySet::new(), &none);
        let how = vectorise::LoopPolicy {
            reorder: &|_| false,
            watched,
            shadows: &shadows,
            apart: &|_, _| false,
            worth: false,
            lanes: true,
            stay: &|_| false,
        };
        drop(vectorise::vectorise(f, how));
    }),
    ("slp_divisions", |f| assert!(slp_divisions::slp_divisions(f) < 10)),
    ("loop_rotate", |f| {
        loop_rotate::rotate(f, &FlowInfo::of(f));
    }),
    ("licm_gvn", |f| licm_gvn::hoist(f, FlowInfo::of(f), false, &*jit::host_isa())),
    ("loop_layout", |f| {
        let mut passes = Passes::each();
        let all = loop_layout::LoopPasses { rotate: true, hoist: true };
        loop_layout::loop_layout(f, &*jit::host_isa(), all, &mut passes);
        assert!(passes.take_broken().is_none());
    }),
    ("simplify_cfg", simplify_cfg::simplify_cfg),
];

/// What a function returns and leaves in memory, in bits, for several inputs.
fn results(f: Compiled) -> Vec<Vec<u64>> {
    let run = |(n, x): (i64, f64)| {
        let mut memory: Vec<f64> = (0..64).map(|i| f64::from(i * i % 17) - 5.5).collect();
        let y = f(memory.as_mut_ptr(), n, x);
        memory.into_iter().chain([y]).map(f64::to_bits).collect()
    };
    [(1, 0.3), (2, -1.5), (7, 3.25), (16, 40.0), (31, 1e-9)].map(run).to_vec()
}

#[test]
fn what_a_function_computes_stays() {
    if !vectorise::has_lanes(&*jit::host_isa()) {
        return;
    }
    let (mut idle, mut same): (BTreeSet<&str>, BTreeSet<&str>) =
        (PASSES.map(|p| p.0).into(), FUNCTIONS.map(|f| f.0).into());
    for (name, body) in FUNCTIONS {
        let before = function(&format!("function %f(i64, i64, f64) -> f64 system_v {{\n{body}\n}}"));
        let mut all = before.clone();
        let mut versions = vec![("nothing", before.clone())];
        for (pass, run) in PASSES {
            let mut after = before.clone();
            run(&mut after);
            if after.to_string() != before.to_string() {
                idle.remove(pass);
                same.remove(name);
            }
            versions.push((pass, after));
            run(&mut all);
        }
        versions.push(("all", all));
        for (pass, func) in &versions {
            let isa = jit::host_isa();
            cranelift_codegen::verify_function(func, &*isa).unwrap_or_else(|e| panic!("{name}, {pass}: {e}\n{func}"));
        }
        let (_module, compiled) = jit::compile(versions.iter().map(|v| v.1.clone()).collect());
        // SAFETY: all of them have this signature, and the module is kept while they are called.
        let compiled = compiled.into_iter().map(|at| unsafe { std::mem::transmute::<*const u8, Compiled>(at) });
        let found: Vec<_> = compiled.map(results).collect();
        for ((pass, func), results) in versions.iter().zip(&found) {
            assert_eq!(results, &found[0], "{name}, {pass}\n{func}");
        }
    }
    assert!(idle.is_empty(), "passes that change nothing: {idle:?}");
    assert!(same.is_empty(), "functions that no pass changes: {same:?}");
}
