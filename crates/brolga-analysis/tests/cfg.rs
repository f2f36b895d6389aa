//! What the lists of a function's instructions, calls and edges say, beside the function itself.

use brolga_analysis::Cfg;
use brolga_analysis::cfg::edge_args;
use brolga_testing::function;
use cranelift_codegen::ir::{Inst, Value};

/// Blocks that are not numbered in order, a table of branches, calls of both kinds, a loop, and
/// parameters that get several values.
const TEXT: &str = "function %f(i64, f64, i32) -> f64 {
    sig0 = (f64) -> f64
    fn0 = %sin(f64) -> f64
block0(v0: i64, v1: f64, v2: i32):
    v3 = call fn0(v1)
    br_table v2, block4(v3), [block2, block7(v3, v1)]
block7(v4: f64, v5: f64):
    v6 = call_indirect sig0, v0(v4)
    brif v2, block7(v5, v6), block4(v6)
block2:
    jump block4(v1)
block4(v8: f64):
    return v8
}";

#[test]
fn lists_are_those_of_the_function() {
    let func = function(TEXT);
    let cfg = Cfg::compute(&func);
    let mut all: Vec<Inst> = Vec::new();
    let mut edges = 0;
    for b in func.layout.blocks() {
        let insts: Vec<Inst> = func.layout.block_insts(b).collect();
        assert_eq!(cfg.insts(b), insts);
        all.extend(insts);
        for &p in &cfg.preds[b] {
            assert_eq!(cfg.args(p, b), &edge_args(&func, p, b)[..], "{p} to {b}");
            edges += 1;
        }
        for (i, _) in func.dfg.block_params(b).iter().enumerate() {
            let want: Vec<Value> = cfg.preds[b].iter().map(|&p| edge_args(&func, p, b)[i]).collect();
            assert_eq!(cfg.incoming(b, i).collect::<Vec<_>>(), want, "{b}, parameter {i}");
        }
    }
    assert_eq!((cfg.all_insts(), edges), (&all[..], 6));
    let calls = all.into_iter().filter(|i| func.dfg.insts[*i].opcode().is_call());
    assert_eq!(cfg.calls, calls.collect::<Vec<_>>());
    assert_eq!(cfg.calls.len(), 2);
}
