//! Adjoints of users: calls of functions that have one (`brolga_rules::adjoint`).
//!
//! **Question.** A user says what the adjoint of a function is, by another function. How does it
//! become a rule?
//!
//! **Answer.** The statement of a call becomes calls of the user's functions, with those arguments
//! that the rule names.
//!
//! **Before.** `r = call %f(x, p)`. **After.** Forward: the same call, or `r, record = call
//! %f__augmented(x, p, …)`. Reverse: `dx = call %f__adjoint(x, shadow of p, r̄, record, …)`, and
//! `x̄ += dx`. What the adjoint is given is recorded, or computed again, as operands of any rule.
//!
//! Analyses see the body of the function; where it has none, a stand-in that may do all that the
//! rule allows.
//!
//! **Cost.** Two calls. **Source.** Enzyme's custom rules.

use std::collections::BTreeSet;
use std::sync::Arc;

use brolga_analysis::memory::mod_ref::Effect;
use brolga_analysis::{ParamMode, ResultMode, Variant};
use brolga_ir::inst::{AdOp, Arith, Callee, Check, Defs, Shape, Tape, Val};
use brolga_ir::program::symbol_of;
use brolga_ir::{Diagnostic, FuncKey, MemoryMode, Program};
use brolga_rules::{AdjointArg, AdjointCall, AdjointRule, Ty};
use cranelift_codegen::ir::{self, AbiParam, Signature, types};

use super::calls::modes;
use super::libm::clif_type;
use super::memory::const_store_check;
use super::pieces::hand_over;
use crate::batch::no_batch;
use crate::translate::stmt::{Cx, FragmentKind};

/// The user's adjoint of a function.
pub(crate) fn of(cx: Cx<'_, '_, '_, '_>, f: FuncKey) -> Option<Arc<AdjointRule>> {
    cx.facts().program.funcs[f].adjoint.as_ref()?.get()
}

/// A call in a derivation in reverse mode.
pub(crate) fn call(cx: Cx<'_, '_, '_, '_>, f: FuncKey, rule: &AdjointRule) {
    let Some((params, results)) = followed(cx, f) else { return };
    let facts = cx.facts();
    let writes = !facts.summaries.effects().get(&f).is_some_and(Effect::is_nothing);
    if facts.options.memory == MemoryMode::Restore && writes {
        refused(cx, f, "memory is restored, and what the function writes is not known", "use MemoryMode::Leave");
        return;
    }
    let record = cx.aux(0);
    let given = RuleArgs { f, rule, params: &params, record };
    if let Some(augmented) = &rule.augmented {
        cx.replace_primal();
        let mut defs: Defs = cx.results().to_vec().iter().map(|&r| (Val::Primal(r), cx.ty(r))).collect();
        if rule.has_record() {
            defs.extend([(record, types::I64)]);
        }
        given.push(cx, FragmentKind::After, augmented, defs);
    }
    let sig = &cx.facts().program.funcs[f].signature;
    let variant = Variant::of_call(f, params.clone(), results);
    // Those that are not asked for are taken all the same: what is left would be added to.
    let mut seeds = vec![None; cx.results().len()];
    for (k, _) in variant.result_shapes(sig) {
        seeds[k] = Some(cx.take_ct(cx.results()[k]));
    }
    let back: Vec<(usize, Val)> = rule.cotangents.iter().map(|&i| (i, Val::D(cx.t.ids.dv()))).collect();
    let defs = back.iter().map(|&(i, d)| (d, cx.ty(cx.args()[i]))).collect();
    given.push_with(cx, FragmentKind::Rvs, &rule.reverse, &seeds, defs);
    for (i, d) in back {
        let a = cx.args()[i];
        if cx.facts().is_active(a)
            && let Some(shape) = Shape::of_float(cx.ty(a))
        {
            hand_over(cx, a, d, shape);
        }
    }
}

/// What the functions of a rule are given.
pub(crate) struct RuleArgs<'a> {
    pub f: FuncKey,
    pub rule: &'a AdjointRule,
    pub params: &'a [ParamMode],
    pub record: Val,
}

impl RuleArgs<'_> {
    fn push(&self, cx: Cx<'_, '_, '_, '_>, w: FragmentKind, callee: &AdjointCall, defs: Defs) {
        self.push_with(cx, w, callee, &[], defs);
    }

    /// Call a function of the rule. `numbers` are seeds by result, or tangents by parameter.
    pub(crate) fn push_with(
        &self,
        cx: Cx<'_, '_, '_, '_>,
        w: FragmentKind,
        callee: &AdjointCall,
        numbers: &[Option<Val>],
        defs: Defs,
    ) {
        let mut operands = Vec::new();
        let primal = cx.facts().program.funcs[self.f].signature.clone();
        for arg in &callee.args {
            operands.push(Some(match *arg {
                AdjointArg::Primal(i) => Val::Primal(cx.args()[i]),
                AdjointArg::Derivative(i) if primal.params[i].value_type.is_float() => match numbers[i] {
                    Some(t) => t,
                    None => cx.constant(0.0, primal.params[i].value_type),
                },
                AdjointArg::Derivative(i) => shadow(cx, w, cx.args()[i]),
                AdjointArg::Seed(k) => match numbers[k] {
                    Some(seed) => seed,
                    None => cx.constant(0.0, primal.returns[k].value_type),
                },
                AdjointArg::Record => self.record,
                AdjointArg::Overwritten => {
                    let set = self.overwritten(cx);
                    cx.iconst(w, set)
                }
                AdjointArg::Wanted => {
                    let is = |p: &ParamMode| matches!(p, ParamMode::Active | ParamMode::Dup { .. });
                    cx.iconst(w, bits(self.params.iter().map(is)))
                }
            }));
        }
        let sig = self.signature(cx, callee, &primal);
        let callee = Callee::Symbol(callee.symbol.as_str().into());
        let op = AdOp::Call { callee, args: operands.into(), sig: Box::new(sig), tape: Tape::Aside };
        cx.push(w, defs, op);
    }

    /// Of which arguments the memory may not be in the reverse half what it was before the call.
    fn overwritten(&self, cx: Cx<'_, '_, '_, '_>) -> i64 {
        let preserved = cx.facts().preserved.get(&cx.inst()).copied().unwrap_or_default();
        let preserved: Vec<usize> = preserved.params().collect();
        bits((0..self.params.len()).map(|i| !preserved.contains(&i)))
    }

    /// As the program has it, or in C's convention.
    fn signature(&self, cx: Cx<'_, '_, '_, '_>, callee: &AdjointCall, primal: &Signature) -> Signature {
        let program = cx.facts().program;
        if let Some(key) = program.func(&callee.symbol) {
            return program.funcs[key].signature.clone();
        }
        signature_of(self.rule, callee, primal).unwrap_or_else(|| unreachable!("the rule fits the function"))
    }
}

fn bits(set: impl Iterator<Item = bool>) -> i64 {
    set.enumerate().filter(|b| b.1).fold(0, |all, (i, _)| all | 1 << i)
}

/// The address of a shadow; null where there is none.
fn shadow(cx: Cx<'_, '_, '_, '_>, w: FragmentKind, p: ir::Value) -> Val {
    let Some(delta) = cx.facts().delta(p) else { return cx.iconst(w, 0) };
    let mut arith = |op: Arith, args: &[Val], ty| cx.emit(w, AdOp::Arith(op, args.into(), ty), ty);
    let at = arith(Arith::Iadd, &[Val::Primal(p), delta], types::I64);
    if cx.facts().sure(p) {
        return at;
    }
    let none = cx.iconst(w, 0);
    let mut arith = |op: Arith, args: &[Val], ty| cx.emit(w, AdOp::Arith(op, args.into(), ty), ty);
    let is_none = arith(Arith::IsZero, &[delta], types::I8);
    arith(Arith::Select, &[is_none, none, at], types::I64)
}

/// How the arguments and results of a call take part, if anything of it matters. What a rule cannot
/// follow is refused.
pub(crate) fn followed(cx: Cx<'_, '_, '_, '_>, f: FuncKey) -> Option<(Vec<ParamMode>, Vec<ResultMode>)> {
    let (params, results) = modes(cx, f);
    let quiet = params.iter().all(|p| matches!(p, ParamMode::Const | ParamMode::Opaque { .. }))
        && results.iter().all(|r| *r == ResultMode::None);
    // Elsewhere another adjoint may wait for this one.
    let exchanges = cx.facts().program.funcs[f].stand_in && !of(cx, f)?.alone;
    if quiet && !exchanges {
        return None;
    }
    if cx.facts().options.width != 1 {
        cx.problem(no_batch(cx.facts().options, "a function of the user's, which has one derivative,"));
        return None;
    }
    if params.iter().any(|p| matches!(p, ParamMode::Bits { .. }))
        || results.iter().any(|r| matches!(r, ResultMode::Bits(_)))
    {
        refused(cx, f, "bits of a float are passed or returned as an integer", "pass the float as a float");
        return None;
    }
    if results.contains(&ResultMode::Ptr) {
        refused(cx, f, "it returns a pointer to what is active", "let it write through a pointer that it is given");
        return None;
    }
    lost(cx, f, &params)?;
    Some((params, results))
}

/// Active values that the function writes where there is no shadow: refused where that is known,
/// and a trap where it is seen at run time. `None` if something was refused.
fn lost(cx: Cx<'_, '_, '_, '_>, f: FuncKey, params: &[ParamMode]) -> Option<()> {
    let rule = of(cx, f)?;
    let takes_part = |p: &ParamMode| matches!(p, ParamMode::Active | ParamMode::Dup { .. });
    for (i, mode) in params.iter().enumerate() {
        let others = || params.iter().enumerate().filter(move |p| p.0 != i);
        if !rule.has_derivative(i) || cx.ty(cx.args()[i]) != types::I64 || !writes(cx, f, Some(i)) {
            continue;
        }
        if rule.reads.contains(&i) {
            refused(cx, f, &format!("it writes behind argument {i}"), "leave that out of `reads`");
            return None;
        }
        match mode {
            ParamMode::Const if others().any(|p| takes_part(p.1)) => {
                let d = Diagnostic::new("AD0120", "an active value may be written where there is no shadow");
                let why = format!("argument {i} of a call that is differentiated by a rule has none");
                let help = format!(
                    "mark the pointer duplicated and give it a shadow, or add `reads` with that argument to the rule \
                     of %{}",
                    cx.facts().program.funcs[f].symbol
                );
                cx.problem(d.note(why).help(help));
                return None;
            }
            ParamMode::Dup { .. } => {
                let active = others().any(|p| matches!(p.1, ParamMode::Active | ParamMode::Dup { sure: true, .. }));
                let pointers = others().filter(|p| matches!(p.1, ParamMode::Dup { .. }));
                let sources = pointers.map(|p| cx.args()[p.0]).collect::<Vec<_>>();
                trap_if_lost(cx, cx.args()[i], active, &sources);
            }
            _ => {}
        }
    }
    if params.iter().any(takes_part)
        && let Some(data) = constant_data(cx.facts().program, f)
    {
        let d = Diagnostic::new("AD0120", "an active value may be written where there is no shadow");
        let why = format!("%{} writes to %{data}, which is constant", cx.facts().program.funcs[f].symbol);
        cx.problem(d.note(why).help("say what its shadow is, or let the function write through a pointer"));
        return None;
    }
    Some(())
}

/// Whether a function may write behind a parameter.
fn writes(cx: Cx<'_, '_, '_, '_>, f: FuncKey, through: Option<usize>) -> bool {
    let effect = cx.facts().summaries.effects().get(&f);
    effect.is_none_or(|e| e.writes().iter().any(|part| part.through == through))
}

/// Trap if a pointer has no shadow, and something active is given to the call: always, or because
/// one of these pointers has one.
fn trap_if_lost(cx: Cx<'_, '_, '_, '_>, pointer: ir::Value, active: bool, sources: &[ir::Value]) {
    if active {
        return const_store_check(cx, pointer);
    }
    let Some(delta) = cx.facts().delta(pointer).filter(|_| !cx.facts().sure(pointer)) else { return };
    for &from in sources {
        let source = cx.delta_or_zero(FragmentKind::Before, from);
        let mut flag =
            |op: Arith, arg: &[Val]| cx.emit(FragmentKind::Before, AdOp::Arith(op, arg.into(), types::I8), types::I8);
        let no_target = flag(Arith::IsZero, &[delta]);
        let no_source = flag(Arith::IsZero, &[source]);
        let has_source = flag(Arith::Not, &[no_source]);
        let lost = flag(Arith::Band, &[no_target, has_source]);
        cx.push(FragmentKind::Before, Defs::default(), AdOp::TrapIf(lost, Check::ConstStore));
    }
}

/// A data object without a shadow to which a function, or one that it calls, stores floats.
fn constant_data(program: &Program, f: FuncKey) -> Option<String> {
    let (mut seen, mut work) = (BTreeSet::from([f]), vec![f]);
    while let Some(f) = work.pop() {
        let Some(body) = program.funcs[f].body.as_ref().filter(|_| !program.funcs[f].stand_in) else { continue };
        for inst in body.layout.blocks().flat_map(|b| body.layout.block_insts(b)) {
            match body.dfg.insts[inst] {
                ir::InstructionData::Store { args: [x, at], .. } if body.dfg.value_type(x).lane_type().is_float() => {
                    let data = data_object_at(body, at)
                        .filter(|symbol| program.data_object(symbol).is_none_or(|key| !program.data[key].writable));
                    if data.is_some() {
                        return data;
                    }
                }
                ir::InstructionData::Call { func_ref, .. } => {
                    work.extend(program.callee(body, func_ref).filter(|f| seen.insert(*f)));
                }
                _ => {}
            }
        }
    }
    None
}

/// The data object into which an address leads, as far as its sums tell.
fn data_object_at(body: &ir::Function, at: ir::Value) -> Option<String> {
    let inst = body.dfg.value_def(at).inst()?;
    match body.dfg.insts[inst] {
        ir::InstructionData::UnaryGlobalValue { global_value, .. } => match &body.global_values[global_value] {
            ir::GlobalValueData::Symbol { name, .. } => Some(symbol_of(body, name)),
            _ => None,
        },
        ir::InstructionData::Binary { opcode: ir::Opcode::Iadd, args: [a, b] } => {
            data_object_at(body, a).or_else(|| data_object_at(body, b))
        }
        _ => None,
    }
}

/// What a rule cannot follow.
pub(crate) fn refused(cx: Cx<'_, '_, '_, '_>, f: FuncKey, why: &str, help: &str) {
    let symbol = cx.facts().program.funcs[f].symbol.clone();
    let d = Diagnostic::new("AD0176", format!("a call of %{symbol}, which the rule that it has cannot follow"));
    cx.problem(d.note(why).help(help));
}

/// The signature of a function of a rule, in C's convention, where the function that the rule is
/// for has types that rules have.
pub(crate) fn signature_of(rule: &AdjointRule, call: &AdjointCall, primal: &Signature) -> Option<Signature> {
    let (params, rets) = tys(&primal.params).zip(tys(&primal.returns))?;
    let (takes, gives) = rule.signature(call, &params, &rets);
    let mut sig = Signature::new(brolga_analysis::variant::HELPER_CONV);
    sig.params.extend(takes.into_iter().map(|t| AbiParam::new(clif_type(t))));
    sig.returns.extend(gives.into_iter().map(|t| AbiParam::new(clif_type(t))));
    Some(sig)
}

/// Types of rules, where all are such.
pub(crate) fn tys(params: &[AbiParam]) -> Option<Vec<Ty>> {
    let ty = |p: &AbiParam| match p.value_type {
        types::F64 => Some(Ty::F64),
        types::F32 => Some(Ty::F32),
        types::I32 => Some(Ty::I32),
        types::I64 => Some(Ty::I64),
        _ => None,
    };
    params.iter().map(ty).collect()
}
