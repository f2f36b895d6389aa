//! The pair of a call: the callee's forward pass, and the callee's pullback.
//!
//! **Question.** A driver does nothing but call a function. What is its pair? **Answer.** Two
//! calls:
//!
//! ```text
//!   d(p…) -> r… = f(p…)          d__forward (p…, δ…, seg) -> r…, δ…  =  f__forward (p…, δ…, seg)
//!                                d__pullback(seg, r̄…) -> p̄…         =  f__pullback(seg, r̄…)
//! ```
//!
//! It is what all templates are compared with: a call by way of a driver gives the bits that the
//! call gives.
//!
//! **Cost.** In the run one call more in each half.

use brolga_analysis::Variant;
use brolga_ir::FuncKey;
use brolga_ir::names::Names;
use cranelift_codegen::ir::{self, InstBuilder, Signature};
use cranelift_frontend::FunctionBuilderContext;

use super::build::{begin, call_of, empty};
use crate::derived::PairSymbols;
use crate::facts::Context;
use crate::program::variants::Worklist;

/// Forward pass and pullback.
pub(super) fn pair(
    cx: Context<'_>,
    variant: &Variant,
    driven: FuncKey,
    symbols: &PairSymbols,
    work: &mut Worklist<'_>,
    names: &mut Names,
) -> (ir::Function, ir::Function) {
    let callee = work.exactly(Variant { func: driven, ..variant.clone() });
    let primal = &cx.program.funcs[driven].signature;
    let mut half = |half_name: &str, symbol: &str, sig: Signature| {
        let mut func = empty(names, half_name, sig.clone());
        let mut fcx = FunctionBuilderContext::new();
        let (mut b, params) = begin(&mut func, &mut fcx);
        let results = call_of(&mut b, names, symbol, sig, &params);
        b.ins().return_(&results);
        b.finalize(cx.isa.frontend_config());
        func
    };
    let forward = half(&symbols.forward, &callee.forward, variant.forward_signature(primal));
    let pullback = half(&symbols.pullback, &callee.pullback, variant.pullback_signature(primal));
    (forward, pullback)
}
