//! Calls in forward mode: the callee's tangent function runs in place of the callee.
//!
//! **Question.** A call has arguments with tangents. What is called? **Answer.** The tangent
//! function of the variant that the modes of the arguments ask for; through a pointer, the one that
//! belongs to the address; for a function with a rule of the user, the tangent of that rule or of
//! the body.
//!
//! **Cost.** In the run one call in place of one; through a pointer a look-up.

use brolga_analysis::{ParamMode, ResultMode, Variant};
use brolga_ir::FuncKey;
use brolga_ir::inst::{AdOp, Callee, Defs, Shape, Tape, Val};
use brolga_rules::AdjointRule;
use cranelift_codegen::ir::{self, Signature, types};

use super::fit::type_of;
use super::value::{define, define_as, tangent_as};
use crate::translate::rules::adjoint::{self, RuleArgs};
use crate::translate::rules::calls::{deltas, looked_up, modes};
use crate::translate::stmt::Cx;
use crate::translate::stmt::FragmentKind;

/// A direct call of a function of the program.
pub(super) fn derived(cx: Cx<'_, '_, '_, '_>, f: FuncKey) {
    let facts = cx.facts();
    let sig = &facts.program.funcs[f].signature;
    let (params, results) = modes(cx, f);
    let quiet = params.iter().all(|p| matches!(p, ParamMode::Const | ParamMode::Opaque { .. }))
        && results.iter().all(|r| *r == ResultMode::None);
    let shared = facts.program.has_writable_data();
    if quiet && !shared {
        return;
    }
    let mut variant = Variant::of_call(f, params, results);
    variant.promises = facts.constant_arguments(cx.args());
    let (variant, symbol) = cx.t.callees.tangent(variant);
    let args = cx.args().to_vec();
    call(cx, &variant, sig, &args, Callee::Symbol(symbol.into()));
}

/// A call of a function that has an adjoint of the user's: by the tangent that the rule has, or by
/// that of the function's body.
pub(super) fn of_rule(cx: Cx<'_, '_, '_, '_>, f: FuncKey, rule: &AdjointRule) {
    let Some(tangent) = &rule.tangent else {
        if cx.facts().program.funcs[f].stand_in {
            let help = "add `tangent NAME(…)` to the rule, or define the function in the program";
            return adjoint::refused(cx, f, "it has no tangent, and no body", help);
        }
        return derived(cx, f);
    };
    let Some((params, results)) = adjoint::followed(cx, f) else { return };
    cx.replace_primal();
    let sig = &cx.facts().program.funcs[f].signature;
    let variant = Variant::of_call(f, params.clone(), results);
    let (args, returned) = (cx.args().to_vec(), cx.results().to_vec());
    let mut tangents = vec![None; args.len()];
    for (i, shape) in variant.param_shapes(sig) {
        tangents[i] = Some(tangent_as(cx, args[i], shape));
    }
    let mut defs: Defs = returned.iter().map(|&r| (Val::Primal(r), cx.ty(r))).collect();
    let shape = |cx: &Cx<'_, '_, '_, '_>, r: ir::Value| Shape::of_float(cx.ty(r));
    let mut back = Vec::new();
    for &r in &returned {
        if let Some(shape) = shape(&cx, r) {
            back.push((r, Val::D(cx.t.ids.dv()), shape));
        }
    }
    defs.extend(back.iter().map(|&(r, d, _)| (d, cx.ty(r))));
    let given = RuleArgs { f, rule, params: &params, record: cx.aux(0) };
    given.push_with(cx, FragmentKind::After, tangent, &tangents, defs);
    for (r, d, shape) in back {
        if cx.facts().is_active(r) {
            define_as(cx, r, d, shape);
        }
    }
}

/// A call through a pointer: the captures tell which tangent function belongs to the address.
pub(super) fn indirect(cx: Cx<'_, '_, '_, '_>, sig_ref: ir::SigRef) {
    let (variant, sig, args) = looked_up(cx, sig_ref);
    let callee = Callee::Pointer(cx.aux(0));
    call(cx, &variant, &sig, &args, callee);
}

/// Call a tangent function in place of the primal.
fn call(cx: Cx<'_, '_, '_, '_>, variant: &Variant, sig: &Signature, args: &[ir::Value], callee: Callee) {
    cx.replace_primal();
    let mut operands: Vec<Option<Val>> = args.iter().map(|&a| Some(Val::Primal(a))).collect();
    deltas(cx, FragmentKind::After, variant, args, &mut operands);
    operands.push(None);
    for (i, shape) in variant.param_shapes(sig) {
        let t = tangent_as(cx, args[i], shape);
        operands.push(Some(t));
    }
    let results = cx.results().to_vec();
    let mut defs: Defs = results.iter().map(|&r| (Val::Primal(r), cx.ty(r))).collect();
    let pointers = results.iter().zip(&variant.results).filter(|r| *r.1 == ResultMode::Ptr);
    defs.extend(pointers.map(|(&r, _)| (Val::Delta(r), types::I64)));
    let back: Vec<(ir::Value, Val, Shape)> =
        variant.result_shapes(sig).map(|(i, shape)| (results[i], Val::D(cx.t.ids.dv()), shape)).collect();
    defs.extend(back.iter().map(|&(r, d, shape)| (d, type_of(cx.ty(r), shape))));
    let signature = variant.tangent_signature(sig);
    let op = AdOp::Call { callee, args: operands.into(), sig: Box::new(signature), tape: Tape::Aside };
    cx.push(FragmentKind::After, defs, op);
    for (r, d, shape) in back {
        if cx.facts().is_active(r) {
            define_as(cx, r, d, shape);
        }
    }
    for &r in &results {
        let returned = variant.result_shapes(sig).any(|(i, _)| results[i] == r);
        if cx.facts().is_active(r) && !returned {
            define(cx, r, None);
        }
    }
}
