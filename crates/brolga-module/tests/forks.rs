//! Functions that fork in a module of the embedder's: their derivatives do what the serial elision
//! does, on the calling thread, and ask for nothing. The program's own calls are the embedder's.

use std::cell::Cell;

use brolga_module::ParamActivity::{Const, Dual, Duplicated};
use brolga_module::{AdModule, ParamRole, ReturnActivity, Spec};
use brolga_testing::module::entry;
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, Signature, types};
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Linkage, Module};

use crate::programs::define;

thread_local! {
    /// Calls of the embedder's own function.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

type Body = extern "C" fn(i64, i64, i64) -> f64;

/// What the embedder has for a parallel sum.
extern "C" fn par_reduce(body: Body, ctx: i64, lo: i64, hi: i64, _: i64) -> f64 {
    CALLS.set(CALLS.get() + 1);
    (lo..hi).map(|i| body(ctx, i, i + 1)).sum()
}

fn words(m: &impl Module, n: usize) -> Signature {
    let mut sig = m.make_signature();
    sig.params.extend(vec![AbiParam::new(types::I64); n]);
    sig.returns.push(AbiParam::new(types::F64));
    sig
}

/// Σ x[i]³, each of a task of its own.
fn cubes(m: &mut AdModule<JITModule>) -> FuncId {
    let sig = words(m, 3);
    let part = define(m, Some("part"), sig, |_, b, p| {
        let at = b.ins().ishl_imm_s(p[1], 3);
        let at = b.ins().iadd(p[0], at);
        let x = b.ins().load(types::F64, MemFlagsData::new(), at, 0);
        let square = b.ins().fmul(x, x);
        let cube = b.ins().fmul(square, x);
        b.ins().return_(&[cube]);
    });
    let sum = m.declare_function("brolga_par_reduce_f64", Linkage::Import, &words(m, 5)).unwrap();
    let sig = words(m, 2);
    define(m, Some("cubes"), sig, |m, b, p| {
        let (part, sum) = (m.declare_func_in_func(part, b.func), m.declare_func_in_func(sum, b.func));
        let part = b.ins().func_addr(types::I64, part);
        let [zero, one] = [0, 1].map(|n| b.ins().iconst(types::I64, n));
        let call = b.ins().call(sum, &[part, p[0], zero, p[1], one]);
        let found = b.inst_results(call)[0];
        b.ins().return_(&[found]);
    })
}

/// Call by an entry: words in, and two results, as far as there are.
fn call(m: &AdModule<JITModule>, door: FuncId, args: &[u64]) -> [f64; 2] {
    let mut cells: Vec<[u64; 2]> = args.iter().map(|&a| [a, 0]).collect();
    // SAFETY: an entry of one pointer, to cells of 16 bytes.
    let f: extern "C" fn(*mut [u64; 2]) = unsafe { std::mem::transmute(m.get_finalized_function(door)) };
    f(cells.as_mut_ptr());
    [0, 1].map(|i| f64::from_bits(cells[i][0]))
}

#[test]
fn derivatives_run_tasks_one_after_the_other() {
    let mut builder = brolga_testing::jit::host();
    builder.symbol("brolga_par_reduce_f64", par_reduce as *const () as *const u8);
    let mut m = AdModule::new(JITModule::new(builder));
    let f = cubes(&mut m);
    let gradient = m.derivative(f, &Spec::gradient([Duplicated, Const]).results([ReturnActivity::Active])).unwrap();
    let tangent = m.derivative(f, &Spec::tangent([Dual, Const]).results([ReturnActivity::Dual])).unwrap();
    let doors = [f, gradient, tangent].map(|f| entry(&mut *m, f).unwrap());
    m.finalize_definitions().unwrap();
    let (mut x, mut dx, mut tape) = ([1.0, 2.0, 3.0, 4.0], [0.0; 4], vec![0_u64; 1 << 12]);
    let mut run = |door: usize, of: FuncId, dx: &mut [f64]| {
        let word = |role: &ParamRole| match role {
            ParamRole::Primal(0) => x.as_mut_ptr() as u64,
            ParamRole::Primal(1) => 4,
            ParamRole::Shadow(0) => dx.as_mut_ptr() as u64,
            ParamRole::Seed(0) => 1.0_f64.to_bits(),
            ParamRole::WorkspaceBytes => 8 << 12,
            ParamRole::Workspace => tape.as_mut_ptr() as u64,
            other => panic!("{other:?}"),
        };
        let args: Vec<u64> = m.signature(of).expect("it is derived").params.iter().map(word).collect();
        call(&m, doors[door], &args)
    };
    assert_eq!(run(1, gradient, &mut dx)[0], 100.0);
    assert_eq!(dx, [3.0, 12.0, 27.0, 48.0]);
    assert_eq!(run(2, tangent, &mut [1.0, 0.0, 0.0, 1.0]), [100.0, 51.0]);
    assert_eq!(CALLS.get(), 0, "derivatives have no use for it");
    // The function itself calls what the embedder has.
    assert_eq!((call(&m, doors[0], &[x.as_mut_ptr() as u64, 4])[0], CALLS.get()), (100.0, 1));
}
