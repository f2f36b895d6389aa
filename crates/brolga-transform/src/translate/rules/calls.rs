//! Calls of derived functions: split and joint reversal.
//!
//! **Question.** A function of the program is called. How does its derivative take part?
//!
//! **Answer.** *Split reversal:* run the callee's forward pass now and its pullback later, on the
//! same tape. *Joint reversal*, where what the call returns is not used, or a recursion may as well
//! run twice (`brolga_analysis::calls::joint`): run both of them later, as one function.
//!
//! Signatures of derived functions follow from the primal signature and the modes of the call site
//! alone (`brolga_analysis::variant`), so recursive functions need no more than a name.
//!
//! **Cost.** In the run two calls in place of one, and the callee's record; by joint reversal none
//! of that.

use brolga_analysis::activity::State;
use brolga_analysis::activity::float_memory;
use brolga_analysis::memory::mod_ref::Effect;
use brolga_analysis::query::signature_id;
use brolga_analysis::variant::combined_signature;
use brolga_analysis::{Delta, ParamMode, ResultMode, Variant};
use brolga_ir::inst::{AdOp, Callee, Defs, Shape, Tape, Val};
use brolga_ir::{Diagnostic, FuncKey, MemoryMode, intrinsics};
use brolga_rules::helper_of_account;
use cranelift_codegen::ir::{self, Signature, types};

use super::pieces::hand_over;
use crate::derived::{PairSymbols, derivative_of};
use crate::translate::convert::fitted;
use crate::translate::rules::pieces::nothing_arrives;
use crate::translate::stmt::{Cx, FragmentKind};

/// A direct call of a function of the program.
pub(crate) fn derived(cx: Cx<'_, '_, '_, '_>, f: FuncKey) {
    let facts = cx.facts();
    let sig = &facts.program.funcs[f].signature;
    let (params, mut results) = modes(cx, f);
    // What is known of the caller's cotangents is known to the callee; a sum of calls passes its
    // own on as it is.
    for (mode, r) in results.iter_mut().zip(cx.results()) {
        if *mode == ResultMode::Active && cx.facts().unit_cotangents.contains(*r) {
            *mode = ResultMode::Unit;
        }
    }
    let quiet = params.iter().all(|p| matches!(p, ParamMode::Const | ParamMode::Opaque { .. }))
        && results.iter().all(|r| *r == ResultMode::None);
    let shared = facts.program.has_writable_data() || facts.options.memory == MemoryMode::Restore;
    if quiet && !shared {
        return;
    }
    let mut variant = Variant { strand: facts.variant.strand, ..Variant::of_call(f, params, results) };
    variant.promises = facts.constant_arguments(cx.args());
    if facts.joint.contains(cx.inst()) && by_value(&variant) {
        joint(cx, &variant, sig);
        return;
    }
    if !variant.is_undone(facts.program, facts.options) {
        variant.preserved = facts.preserved.get(&cx.inst()).copied().unwrap_or_default();
    }
    let (variant, PairSymbols { forward, pullback }) = cx.t.callees.derive(variant);
    let args = cx.args().to_vec();
    both_halves(cx, &variant, sig, &args, Callee::Symbol(forward.into()), Callee::Symbol(pullback.into()));
}

/// Modes of the arguments and results of a direct call.
pub(crate) fn modes(cx: Cx<'_, '_, '_, '_>, f: FuncKey) -> (Vec<ParamMode>, Vec<ResultMode>) {
    let facts = cx.facts();
    for (i, &a) in cx.args().iter().enumerate() {
        if facts.summaries.is_address(f, i) {
            lost_pointer(cx, a);
        }
    }
    let params = cx.args().to_vec().iter().enumerate().map(|(i, &a)| param_mode(cx, f, i, a)).collect();
    let results = cx.results().to_vec().iter().map(|&r| result_mode(cx, r)).collect();
    (params, results)
}

/// Whether no pointer is returned, and no integer carries float bits.
fn by_value(variant: &Variant) -> bool {
    let param = |p: &ParamMode| !matches!(p, ParamMode::Bits { .. });
    let result = |r: &ResultMode| matches!(r, ResultMode::None | ResultMode::Active | ResultMode::Unit);
    variant.params.iter().all(param) && variant.results.iter().all(result)
}

/// The callee runs in the reverse fragment. The primal call stays as long as its results are read:
/// for the most part they are not, and it is pruned.
fn joint(cx: Cx<'_, '_, '_, '_>, variant: &Variant, sig: &Signature) {
    let callee = Callee::Symbol(cx.t.callees.joint(variant.clone()).into());
    let args = cx.args().to_vec();
    let mut operands: Vec<Option<Val>> = args.iter().map(|&a| Some(Val::Primal(a))).collect();
    deltas(cx, FragmentKind::Rvs, variant, &args, &mut operands);
    operands.push(None);
    seeds(cx, variant, sig, &mut operands);
    let signature = combined_signature(&variant.forward_signature(sig), &variant.pullback_signature(sig), 0);
    let op = AdOp::Call { callee, args: operands.into(), sig: Box::new(signature), tape: Tape::Above };
    give_back(cx, variant, sig, &args, op);
}

/// A block is released when the second half is done (`brolga_analysis::calls::deferred_free`): it
/// is noted, with the instance.
pub(crate) fn later(cx: Cx<'_, '_, '_, '_>) {
    let args = cx.args().to_vec();
    cx.replace_primal();
    let operands = [None, Some(Val::Primal(args[0])), Some(Val::Primal(args[1]))];
    cx.helper(
        FragmentKind::After,
        "brolga_release",
        &operands,
        &[types::I64, types::I64, types::I32],
        Defs::default(),
        false,
    );
}

/// In memory mode `restore`, a call that has a rule of its own but runs a function of the program,
/// which may use memory: the function's pullback undoes what it writes there, and takes no part in
/// the derivative.
pub(crate) fn restoring(cx: Cx<'_, '_, '_, '_>) {
    let facts = cx.facts();
    let ir::InstructionData::Call { func_ref, .. } = facts.func().dfg.insts[cx.inst()] else { return };
    let Some(f) = facts.program.callee(facts.func(), func_ref) else { return };
    let silent = facts.summaries.effects().get(&f).is_some_and(Effect::is_nothing);
    if silent || facts.options.memory != MemoryMode::Restore {
        return;
    }
    let sig = &facts.program.funcs[f].signature;
    let (params, results) = (vec![ParamMode::Const; sig.params.len()], vec![ResultMode::None; sig.returns.len()]);
    let variant = Variant::of_call(f, params, results);
    let (variant, PairSymbols { forward, pullback }) = cx.t.callees.derive(variant);
    let args = cx.args().to_vec();
    both_halves(cx, &variant, sig, &args, Callee::Symbol(forward.into()), Callee::Symbol(pullback.into()));
}

/// A call through a pointer: the captures tell which derived pair belongs to the address.
pub(crate) fn indirect(cx: Cx<'_, '_, '_, '_>, sig_ref: ir::SigRef) {
    let (variant, sig, args) = looked_up(cx, sig_ref);
    let (forward, pullback) = (Callee::Pointer(cx.aux(0)), Callee::Pointer(cx.aux(1)));
    both_halves(cx, &variant, &sig, &args, forward, pullback);
}

/// Look up the halves of a function that is called through a pointer, as `aux(0)` and `aux(1)`: its
/// variant, its signature, and the arguments.
pub(crate) fn looked_up(cx: Cx<'_, '_, '_, '_>, sig_ref: ir::SigRef) -> (Variant, Signature, Vec<ir::Value>) {
    let sig = cx.func().dfg.signatures[sig_ref].clone();
    let args = cx.args()[1..].to_vec();
    let signature = signature_id(&sig);
    lost_through_pointer(cx, &args, signature);
    for &a in &args {
        lost_pointer(cx, a);
    }
    let callee = cx.args()[0];
    let defs = [(cx.aux(0), types::I64), (cx.aux(1), types::I64)].into();
    cx.push(FragmentKind::Before, defs, AdOp::Lookup { addr: Val::Primal(callee), signature });
    (Variant::canonical(cx.facts().variant.func, &sig), sig, args)
}

/// Bits of floats that are passed in integers to a function that is called through a pointer.
pub(crate) fn lost_through_pointer(cx: Cx<'_, '_, '_, '_>, args: &[ir::Value], signature: u64) {
    for (i, &a) in args.iter().enumerate() {
        let lost = match cx.facts().activity.state[a] {
            State::Varied { definite: true } => true,
            State::Taint { definite: true } if cx.facts().activity.pieces.contains(a) => true,
            State::No => false,
            // Perhaps a number. But then the program would make no float of it.
            _ => cx.facts().summaries.takes_bits_through(signature, i),
        };
        if !cx.ty(a).lane_type().is_float() && cx.facts().delta(a).is_none() && lost {
            let d =
                Diagnostic::new("AD0113", "float bits are passed in an integer to a function called through a pointer")
                    .note("which callees would know that it is a float cannot be told here")
                    .help("pass the float as a float");
            cx.problem(d);
        }
    }
}

/// A call of an imported function without a rule: harmless if nothing active goes in, otherwise an
/// error.
pub(crate) fn missing(cx: Cx<'_, '_, '_, '_>, symbol: &str) {
    if let Some((message, help)) = not_a_driver(cx) {
        return cx.problem(Diagnostic::new("AD0191", message).help(help));
    }
    let active = cx.args().iter().any(|&a| cx.facts().activity.state[a] != State::No || cx.facts().delta(a).is_some());
    if !active {
        return;
    }
    let func = cx.func();
    let ir::InstructionData::Call { func_ref, .. } = func.dfg.insts[cx.inst()] else { unreachable!("a direct call") };
    let sig = &func.dfg.signatures[func.dfg.ext_funcs[func_ref].signature];
    if symbol.starts_with("brolga_") && cx.facts().program.nested > 0 {
        let symbol = symbol.strip_suffix(brolga_ir::lower::OF_A_RUN).unwrap_or(symbol);
        let d = Diagnostic::new("AD0150", format!("a derivative that calls %{symbol} is derived again"))
            .note("helpers that move floats in pieces, or move blocks of the heap, have no derivative")
            .help(
                "move floats as floats of one size; keep counts and bounds in a record of their own, without floats; \
                 allocate a new block where one is made longer",
            );
        return cx.problem(d);
    }
    let d = Diagnostic::new("AD0150", format!("no rule for the imported function %{symbol}"))
        .note(format!("it is called with active arguments; its signature is {sig}"));
    cx.problem(match derivative_of(symbol) {
        Some((base, _)) => d
            .note(format!("as the derivative of %{base} it is not known: the program has no function of that name"))
            .help(format!("define %{base}, or give %{symbol} a rule of your own")),
        None => d.help("define it in the program, give it a rule of your own, or mark its arguments const"),
    });
}

/// A call by which a derivative keeps account of its run gets the segment of this one. Any other
/// call of an inactive function stays.
pub(crate) fn inactive(cx: Cx<'_, '_, '_, '_>, symbol: &str) {
    let Some(helper) = helper_of_account(symbol) else { return };
    cx.replace_primal();
    let args = cx.args().to_vec();
    let operands: Vec<Option<Val>> = [None].into_iter().chain(args.iter().map(|&a| Some(Val::Primal(a)))).collect();
    let arg_types: Vec<_> = [types::I64].into_iter().chain(args.iter().map(|&a| cx.ty(a))).collect();
    let defs: Defs = cx.results().iter().map(|&r| (Val::Primal(r), cx.ty(r))).collect();
    cx.helper(FragmentKind::Before, helper, &operands, &arg_types, defs, false);
}

/// Why a call does not stand for a driver, though its name says so, and what to do.
fn not_a_driver(cx: Cx<'_, '_, '_, '_>) -> Option<(String, &'static str)> {
    let facts = cx.facts();
    let at = facts.program.origin(facts.variant.func, facts.original(cx.inst()));
    intrinsics::why_not(facts.program.funcs[at.func].body.as_ref()?, at.inst)
}

/// A callee that dereferences what its caller cannot follow would find no shadow.
pub(crate) fn lost_pointer(cx: Cx<'_, '_, '_, '_>, a: ir::Value) {
    if cx.facts().pointers.delta[a] == Delta::Lost {
        let d = Diagnostic::new(
            "AD0130",
            "an address that was computed from a pointer by arithmetic its shadow cannot follow is passed on",
        )
        .note("addition, subtraction, alignment by a constant mask, select and block parameters are followed")
        .help("keep the base pointer and add an offset to it");
        cx.problem(d);
    }
}

fn param_mode(cx: Cx<'_, '_, '_, '_>, f: FuncKey, i: usize, a: ir::Value) -> ParamMode {
    let facts = cx.facts();
    let state = facts.activity.state[a];
    if Shape::of_float(cx.ty(a)).is_some() {
        return if facts.is_active(a) { ParamMode::Active } else { ParamMode::Const };
    }
    if facts.activity.constant {
        return ParamMode::Const;
    }
    if facts.delta(a).is_some() {
        let (holds, punned) = (facts.contents.of_class(a).told(), &facts.summaries.punned);
        return ParamMode::Dup {
            sure: facts.sure(a),
            holds,
            recycled: facts.held_pointers(a) && punned.floats(f, i),
            floats: !holds.has_float() && punned.pointers(f, i) && facts.held_floats(a),
            bits: float_memory::leads_to(&facts.activity.float_memory, &facts.contents, a),
        };
    }
    match state {
        State::Varied { definite } => {
            // A callee that makes floats of another size of it, at least on one of its ways, lets
            // us say which it was.
            let lane = facts.summaries.param_lane(f, i);
            let disagrees = |shape: Shape| lane != 0 && lane != shape.lane_bytes() && facts.summaries.hands_on(f, i);
            let piece = Shape::Bytes { n: cx.ty(a).bytes() as u8, of: 0 };
            let bits = |shape| ParamMode::Bits { shape: if disagrees(shape) { piece } else { shape }, definite };
            facts.activity.shape(facts.func(), a).map_or(ParamMode::Opaque { definite }, bits)
        }
        State::Taint { definite }
            if (facts.summaries.hands_on(f, i) || facts.summaries.demands(f, i).is_some()) && facts.is_active(a) =>
        {
            ParamMode::Bits { shape: cx.shape(a), definite }
        }
        State::Taint { definite } => ParamMode::Opaque { definite },
        State::No => ParamMode::Const,
    }
}

fn result_mode(cx: Cx<'_, '_, '_, '_>, r: ir::Value) -> ResultMode {
    let facts = cx.facts();
    if facts.pointers.root(r) == Some(r) {
        return ResultMode::Ptr;
    }
    match facts.activity.ct[r] {
        Some(_) if Shape::of_float(cx.ty(r)).is_some() => ResultMode::Active,
        Some(shape) => ResultMode::Bits(shape),
        None => ResultMode::None,
    }
}

/// Call the forward pass in place of the primal, and the pullback in the reverse fragment.
fn both_halves(
    cx: Cx<'_, '_, '_, '_>,
    variant: &Variant,
    sig: &Signature,
    args: &[ir::Value],
    forward: Callee,
    pullback: Callee,
) {
    cx.replace_primal();
    let mut operands: Vec<Option<Val>> = args.iter().map(|&a| Some(Val::Primal(a))).collect();
    deltas(cx, FragmentKind::Before, variant, args, &mut operands);
    operands.push(None);
    let results = cx.results().to_vec();
    let mut defs: Defs = results.iter().map(|&r| (Val::Primal(r), cx.ty(r))).collect();
    let pointers = results.iter().zip(&variant.results).filter(|r| *r.1 == ResultMode::Ptr);
    defs.extend(pointers.map(|(&r, _)| (Val::Delta(r), types::I64)));
    let signature = variant.forward_signature(sig);
    cx.push(
        FragmentKind::After,
        defs,
        AdOp::Call { callee: forward, args: operands.into(), sig: Box::new(signature), tape: Tape::Moves },
    );

    let mut operands: Vec<Option<Val>> = vec![None];
    let signature = if variant.is_undone(cx.facts().program, cx.facts().options) {
        operands.extend(args.iter().map(|&a| Some(Val::Primal(a))));
        deltas(cx, FragmentKind::Rvs, variant, args, &mut operands);
        variant.undo_signature(sig)
    } else {
        seeds(cx, variant, sig, &mut operands);
        variant.pullback_signature(sig)
    };
    let op = AdOp::Call { callee: pullback, args: operands.into(), sig: Box::new(signature), tape: Tape::Moves };
    give_back(cx, variant, sig, args, op);
}

/// The deltas of arguments that come with one.
pub(crate) fn deltas(
    cx: Cx<'_, '_, '_, '_>,
    w: FragmentKind,
    variant: &Variant,
    args: &[ir::Value],
    operands: &mut Vec<Option<Val>>,
) {
    for (&a, mode) in args.iter().zip(&variant.params) {
        if matches!(mode, ParamMode::Dup { .. }) {
            let d = cx.delta_or_zero(w, a);
            operands.push(Some(d));
        }
    }
}

/// The cotangents of the results, taken.
fn seeds(cx: Cx<'_, '_, '_, '_>, variant: &Variant, sig: &Signature, operands: &mut Vec<Option<Val>>) {
    for (i, shape) in variant.result_shapes(sig) {
        let r = cx.results()[i];
        let ct = match cx.facts().activity.ct[r] {
            Some(ct_shape) => {
                let ct = cx.take_ct(r);
                fitted(cx, ct, ct_shape.ty(), shape).unwrap_or_else(|| {
                    nothing_arrives(cx, ct, ct_shape);
                    cx.constant(0.0, shape.ty())
                })
            }
            None => cx.constant(0.0, shape.ty()),
        };
        operands.push(Some(ct));
    }
}

/// Call in the reverse fragment, and add the cotangents that come back to those of the arguments.
fn give_back(cx: Cx<'_, '_, '_, '_>, variant: &Variant, sig: &Signature, args: &[ir::Value], call: AdOp) {
    let back: Vec<(usize, Val, Shape)> =
        variant.param_shapes(sig).map(|(i, shape)| (i, Val::D(cx.t.ids.dv()), shape)).collect();
    let defs = back.iter().map(|&(_, d, shape)| (d, shape.ty())).collect();
    cx.push(FragmentKind::Rvs, defs, call);
    for (i, d, shape) in back {
        // That of a constant is not asked for, which a callee may be given in place of something
        // active.
        if cx.facts().is_active(args[i]) {
            hand_over(cx, args[i], d, shape);
        }
    }
}
