//! Where numbers are watched so that products need no guards, where that would be what an iteration
//! waits for, and what is done about it.

use brolga_ir::inst::{AdOp, Sum, Val};
use brolga_ir::{ArgActivity, Mode, Options, Pass, PassSet, Request};
use brolga_testing::program;
use brolga_transform::derive::derive_with;
use cranelift_codegen::ir::Opcode;

use crate::host;

/// How `Σ y[i]²` is computed for `y[r[k]] += a[k] x[j]` over all `j` and `k`.
struct Form {
    /// The inner loop's parameters beside the counter, what they begin with, and what they are in
    /// the next iteration.
    carried: [&'static str; 3],
    /// What is done besides in each iteration of it.
    more: String,
    /// How it is entered.
    enter: &'static str,
}

const PLAIN: Form = Form { carried: ["", "", ""], more: String::new(), enter: "jump block2(v5" };

impl Form {
    /// Whether the pullback is there twice, and in which loops sums of their own are begun and
    /// joined.
    fn derived(&self) -> (bool, String) {
        let Self { carried: [params, first, next], more, enter } = self;
        let text = format!(
            "function %f(i64, i64, i64, i64, i64) -> f64 system_v {{
            block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64):
                v5 = iconst.i64 0
                v6 = iconst.i64 3
                v7 = f64const 0.0
                v8 = iconst.i64 1
                jump block1(v5)
            block1(v15: i64):
                v18 = ishl v15, v6
                v19 = iadd v4, v18
                v20 = load.f64 v19
                v42 = iadd v15, v8
                {enter}{first})
            block2(v27: i64{params}):
                v29 = ishl v27, v6
                v30 = iadd v2, v29
                v31 = load.i64 v30
                v32 = iadd v1, v31
                v34 = load.f64 v32
                v36 = iadd v3, v29
                v37 = load.f64 v36
                v38 = fmul v37, v20
                v39 = fadd v34, v38
                store v39, v32
                {more}
                v40 = iadd v27, v8
                v41 = icmp slt v40, v0
                brif v41, block2(v40{next}), block3
            block3:
                v43 = icmp slt v42, v0
                brif v43, block1(v42), block4(v5, v7)
            block4(v44: i64, v45: f64):
                v46 = ishl v44, v6
                v47 = iadd v1, v46
                v48 = load.f64 v47
                v49 = fmul v48, v48
                v50 = fadd v45, v49
                v51 = iadd v44, v8
                v52 = icmp slt v51, v0
                brif v52, block4(v51, v50), block5
            block5:
                return v50 }}"
        );
        let program = program(&text);
        use ArgActivity::{Const, Duplicated};
        let request = Request::new(program.func("f").unwrap(), [Const, Duplicated, Const, Duplicated, Duplicated]);
        let options = Options { mode: Mode::Gradient, ..Options::full() };
        let mut dumps = Vec::new();
        let derived = derive_with(&program, &request, &options, &*host::isa(), |stages| {
            let lines = stages.forward.blocks.values().flat_map(|b| b.insts.values());
            dumps.extend(lines.filter_map(|i| match i.op {
                AdOp::WatchFrom(b) => Some(format!("from {b}")),
                AdOp::WatchJoin(b) => Some(format!("join {b}")),
                AdOp::Watch { sum: Sum::Loop(b), value, .. } => {
                    // The product, so that what it is added to can be loaded by the addition.
                    let Val::Primal(v) = value else { panic!("{value:?}") };
                    let func = stages.facts.func();
                    let inst = func.dfg.value_def(v).inst().expect("it is computed");
                    assert_eq!(func.dfg.insts[inst].opcode(), Opcode::Fmul);
                    Some(format!("in {b}"))
                }
                _ => None,
            }));
        });
        (derived.unwrap().combined.unwrap().versioned, dumps.join(", "))
    }
}

#[test]
fn each_run_of_an_innermost_loop_has_a_sum_of_its_own() {
    let apart = (true, "from block2, in block2, join block2".to_owned());
    assert_eq!(PLAIN.derived(), apart);
    // Some runs have no iteration.
    let skips = Form { enter: "brif v18, block3, block2(v5", ..PLAIN };
    assert_eq!(skips.derived(), apart);
    // A second way leads out of it, to the next iteration of the outer one.
    let more = "v62 = icmp eq v27, v31\n brif v62, block1(v42), block6\n block6:".into();
    let two_ends = Form { more, ..PLAIN };
    assert_eq!(two_ends.derived(), (true, apart.1.clone() + ", join block2"));
    // Also of one that adds up numbers itself.
    let chain = Form { carried: [", v60: f64", ", v7", ", v61"], more: "v61 = fadd v60, v37".into(), ..PLAIN };
    assert_eq!(chain.derived(), apart);
    // A long one has time for the sum of the function.
    let iteration = |n: u32| {
        let (x, z, at) = (70 + 2 * n, 71 + 2 * n, 8 * n + 8);
        format!("v{x} = load.f64 v36+{at}\n v{z} = fmul v{x}, v20\n store v{z}, v32+{at}\n")
    };
    let long = Form { more: (0..20).map(iteration).collect(), ..PLAIN };
    assert_eq!(long.derived(), (true, String::new()));
}

/// What is watched of `Σ y²` over `y = t (a[i] x[0] + b[i] x[1])`, each product after a condition,
/// where so many additions are made beside each product.
fn conditional_terms(beside: u32) -> Vec<Option<Opcode>> {
    let more = |from: u32| {
        let add = |k| format!("v{k} = iadd v10, v{}\n", if k == from { 10 } else { k - 1 });
        (from..from + beside).map(add).collect::<String>()
    };
    let (one, other) = (more(300), more(400));
    let text = format!(
        "function %f(i64, i64, i64, i64, f64, i64) -> f64 system_v {{
        block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: f64, v5: i64):
            v6 = iconst.i64 0
            v7 = f64const 0.0
            v8 = load.f64 v3
            v9 = load.f64 v3+8
            jump block1(v6, v7)
        block1(v10: i64, v11: f64):
            v12 = iconst.i64 3
            v13 = ishl v10, v12
            v14 = iadd v2, v13
            v15 = load.i64 v14
            v16 = iconst.i64 1
            v17 = band v15, v16
            brif v17, block2, block3(v7)
        block2:
            v18 = iadd v0, v13
            v19 = load.f64 v18
            v20 = fmul v19, v8
            {one}
            jump block3(v20)
        block3(v21: f64):
            v22 = icmp slt v15, v16
            brif v22, block5(v7), block4
        block4:
            v23 = iadd v1, v13
            v24 = load.f64 v23
            v25 = fmul v24, v9
            {other}
            jump block5(v25)
        block5(v26: f64):
            v27 = fadd v21, v26
            v28 = fmul v27, v4
            v29 = fmul v28, v28
            v30 = select v17, v29, v7
            v31 = fadd v11, v30
            v32 = iadd v10, v16
            v33 = icmp slt v32, v5
            brif v33, block1(v32, v31), block6
        block6:
            return v31 }}"
    );
    let program = program(&text);
    use ArgActivity::{Active, Const, Duplicated};
    let request = Request::new(program.func("f").unwrap(), [Duplicated, Duplicated, Const, Duplicated, Active, Const]);
    let disabled = PassSet::from(Pass::CostModel);
    let options = Options { mode: Mode::Gradient, disabled, ..Options::full() };
    let mut found = Vec::new();
    derive_with(&program, &request, &options, &*host::isa(), |stages| {
        let func = stages.facts.func();
        let lines = stages.forward.blocks.values().flat_map(|b| b.insts.values());
        found.extend(lines.filter_map(|i| match i.op {
            AdOp::Watch { value: Val::Primal(v), .. } => {
                Some(func.dfg.value_def(v).inst().map(|i| func.dfg.insts[i].opcode()))
            }
            _ => None,
        }));
    })
    .unwrap();
    found
}

#[test]
fn terms_behind_conditions_are_watched_as_their_sum() {
    let terms = |beside| conditional_terms(beside).into_iter().filter(|op| *op == Some(Opcode::Fmul)).count();
    assert!(conditional_terms(0).contains(&Some(Opcode::Fadd)));
    assert_eq!(terms(0), 0);
    // Not where an iteration that passes one by does little else.
    assert_eq!(terms(50), 2);
}
