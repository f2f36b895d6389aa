//! Functions that fork in a module of the embedder's: their derivatives do what the serial elision
//! does, on the calling thread, and ask for nothing. The program's own calls are the embedder's.

use std::cell::Cell;

use brolga_module::ParamActivity::{Const, Dual, Duplicated};
use brolga_module::{ParamRole, ResultRole, ReturnActivity, Spec};
use brolga_testing::module::entry;
use cranelift_codegen::data_value::DataValue;
use cranelift_module::FuncId;

use crate::common::{Fixture, address, double, number};

/// Σ w x[i]² in parts of two, where the address of w is the last word of the context.
const ENERGY: &str = "function %part(i64, i64, i64) -> f64 system_v {
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.i64 v0
    v4 = load.i64 v0+8
    v5 = load.f64 v4
    v6 = f64const 0.0
    jump block1(v1, v6)
block1(v7: i64, v8: f64):
    v9 = icmp slt v7, v2
    brif v9, block2, block3
block2:
    v10 = iconst.i64 3
    v11 = ishl v7, v10
    v12 = iadd v3, v11
    v13 = load.f64 v12
    v14 = fmul v13, v13
    v15 = fmul v5, v14
    v16 = fadd v8, v15
    v17 = iconst.i64 1
    v18 = iadd v7, v17
    jump block1(v18, v16)
block3:
    return v8
}
function %energy(i64, i64, i64) -> f64 system_v {
    ss0 = explicit_slot 16, align = 8
    fn0 = %part(i64, i64, i64) -> f64 system_v
    fn1 = %brolga_par_reduce_f64(i64, i64, i64, i64, i64) -> f64 system_v
block0(v0: i64, v1: i64, v2: i64):
    v3 = stack_addr.i64 ss0
    store v0, v3
    store v1, v3+8
    v4 = func_addr.i64 fn0
    v5 = iconst.i64 0
    v6 = iconst.i64 2
    v7 = call fn1(v4, v3, v5, v2, v6)
    return v7
}";

thread_local! {
    /// Calls of the embedder's own function.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

type Body = extern "C" fn(i64, i64, i64) -> f64;

/// What the embedder has for a parallel sum.
extern "C" fn par_reduce(body: Body, ctx: i64, lo: i64, hi: i64, _: i64) -> f64 {
    CALLS.set(CALLS.get() + 1);
    body(ctx, lo, hi)
}

#[test]
fn derivatives_run_tasks_one_after_the_other() {
    let symbols = [("brolga_par_reduce_f64", par_reduce as *const () as *const u8)];
    let mut f = Fixture::with(ENERGY, "energy", &symbols);
    let (active, dual) = ([ReturnActivity::Active], [ReturnActivity::Dual]);
    let gradient = f.derivative("energy", &Spec::gradient([Duplicated, Duplicated, Const]).results(active));
    let tangent = f.derivative("energy", &Spec::tangent([Dual, Dual, Const]).results(dual));
    let primal = entry(&mut *f.module, f.func("energy")).unwrap();
    f.finish();
    let (mut x, mut w) = ([1.0, 2.0, 3.0, 4.0, 5.0], [0.5]);
    let mut tape = vec![0_u64; 1 << 12];
    let mut call = |id: FuncId, dx: &mut [f64], dw: &mut [f64]| {
        f.call(id, |role| match role {
            ParamRole::Primal(0) => address(&mut x),
            ParamRole::Primal(1) => address(&mut w),
            ParamRole::Primal(2) => DataValue::I64(5),
            ParamRole::Shadow(0) => address(dx),
            ParamRole::Shadow(1) => address(dw),
            ParamRole::Seed(0) => double(1.0),
            ParamRole::WorkspaceBytes => DataValue::I64(8 << 12),
            ParamRole::Workspace => address(&mut tape),
            other => panic!("{other:?}"),
        })
    };
    let (mut dx, mut dw) = ([0.0; 5], [0.0]);
    let results = call(gradient, &mut dx, &mut dw);
    assert_eq!(number(&results, ResultRole::Value(0)), Some(27.5));
    assert_eq!((dx, dw), ([1.0, 2.0, 3.0, 4.0, 5.0], [55.0]));
    let results = call(tangent, &mut [1.0, 0.0, 0.0, 0.0, 2.0], &mut [0.5]);
    assert_eq!(number(&results, ResultRole::Tangent(0)), Some(1.0 + 10.0 + 27.5));
    assert_eq!(CALLS.get(), 0, "derivatives have no use for it");
    // The function itself calls what the embedder has.
    let mut cells = [[x.as_mut_ptr() as u64, 0], [w.as_mut_ptr() as u64, 0], [5, 0]];
    // SAFETY: an entry of one pointer, to cells of 16 bytes.
    let own: extern "C" fn(*mut [u64; 2]) = unsafe { std::mem::transmute(f.module.get_finalized_function(primal)) };
    own(cells.as_mut_ptr());
    assert_eq!((f64::from_bits(cells[0][0]), CALLS.get()), (27.5, 1));
}
