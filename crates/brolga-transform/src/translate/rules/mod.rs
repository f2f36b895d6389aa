//! Translation by opcode: what each kind of instruction becomes, one file per family.
//!
//! **Question.** Which rule is an instruction's? **Answer.** The row of its opcode in
//! `brolga-rules`: a formula ([`expr`]), nothing, or a structural rule, which is a function of a
//! few lines here: forward, reverse, done.
//!
//! **Cost.** A look-up by opcode.

use brolga_analysis::activity::State;
use brolga_analysis::{CalleeKind, ResultMode};
use brolga_rules::{OpcodeRule, Structural, opcode_rule};
use cranelift_codegen::ir::{self, Opcode};

use crate::translate::stmt::{AdStmt, StmtCx, Translation};

pub(crate) mod adjoint;
pub(crate) mod calls;
pub(crate) mod expr;
pub(crate) mod libm;
pub(crate) mod memory;
pub(crate) mod moved_pointers;
pub(crate) mod moves;
pub(crate) mod pieces;
pub(crate) mod products;
pub(crate) mod ulp;

/// Translate one primal instruction.
pub(crate) fn translate(t: &mut Translation<'_, '_>, inst: ir::Inst) -> AdStmt {
    let func = t.facts.func();
    let op = func.dfg.insts[inst].opcode();
    let mut cx = StmtCx::new(t, inst);
    if cx.facts().activity.astray.contains(inst) && moves::lost(&mut cx) {
        return cx.finish();
    }
    let facts = cx.facts();
    if let Some(product) = facts.products.get(&inst) {
        products::reverse(&mut cx, product);
        return cx.finish();
    }
    if pieces::is_computed(&cx) {
        memory::pointer_arith(&mut cx);
        pieces::computed(&mut cx);
        return cx.finish();
    }
    match opcode_rule(op) {
        _ if cx.facts().steps.of(inst).is_some() => bits(&mut cx),
        OpcodeRule::Expr(row) => expr::row(&mut cx, row),
        // Nothing flows through these; the analysis has refused whatever would have to.
        OpcodeRule::Zero | OpcodeRule::NotFloat | OpcodeRule::Refused(_) => {}
        OpcodeRule::Structural(s) => structural(&mut cx, op, s),
    }
    cx.finish()
}

/// What is added to the bits of a float, or the like; or, if it moves parts of one, that.
fn bits(cx: &mut StmtCx<'_, '_, '_>) {
    if !pieces::taken_apart(cx) {
        ulp::step(cx);
    }
}

fn structural(cx: &mut StmtCx<'_, '_, '_>, op: Opcode, s: Structural) {
    if pieces::taken_apart(cx) {
        return;
    }
    match s {
        Structural::Load | Structural::AtomicLoad | Structural::IntLoad => memory::load(cx),
        Structural::Store | Structural::AtomicStore | Structural::IntStore => memory::store(cx),
        Structural::AtomicRmw | Structural::AtomicCas => memory::store(cx),
        Structural::StackAddr => memory::stack_addr(cx),
        Structural::Select => moves::select(cx),
        Structural::Bitselect | Structural::Blendv | Structural::Band | Structural::Bor | Structural::Bxor => {
            moves::bitwise(cx);
        }
        Structural::Bitcast => moves::bitcast(cx),
        Structural::Splat => moves::splat(cx),
        Structural::Insertlane => moves::insertlane(cx),
        Structural::Extractlane => moves::extractlane(cx),
        Structural::ScalarToVector => moves::scalar_to_vector(cx),
        Structural::Shuffle => moves::shuffle(cx),
        Structural::Swizzle => moves::swizzle(cx, 16),
        Structural::Pshufb => moves::swizzle(cx, 128),
        Structural::Promote => moves::promote(cx),
        Structural::Demote => moves::demote(cx),
        Structural::PromoteLow => moves::promote_low(cx),
        Structural::DemoteLow => moves::demote_low(cx),
        Structural::Call | Structural::CallIndirect => {
            match CalleeKind::of(cx.facts().program, cx.func(), cx.inst()).expect("a call has a callee") {
                CalleeKind::Derived(_) | CalleeKind::Plain(_) if cx.facts().blocks.is_late(cx.inst()) => {
                    calls::later(cx)
                }
                CalleeKind::Derived(f) => match adjoint::of(cx, f) {
                    Some(rule) => adjoint::call(cx, f, &rule),
                    None => calls::derived(cx, f),
                },
                CalleeKind::Indirect(sig) => calls::indirect(cx, sig),
                CalleeKind::Known(rule) => libm::call(cx, &rule),
                CalleeKind::Computes(rule) => libm::computed(cx, rule),
                CalleeKind::Host | CalleeKind::Plain(_) => {}
                CalleeKind::Missing(symbol) => calls::missing(cx, &symbol),
            }
        }
        Structural::Control if op == Opcode::Return => {
            for (i, &v) in cx.args().iter().enumerate() {
                if cx.facts().variant.results[i] == ResultMode::Unit {
                    let one = cx.constant(1.0, cx.ty(v));
                    cx.add_ct(v, one);
                } else if let Some(seed) = cx.t.seeds[i] {
                    match (cx.facts().activity.state[v], cx.facts().variant.results[i]) {
                        (State::No, _) => {}
                        (_, ResultMode::Bits(shape)) => pieces::hand_over(cx, v, seed, shape),
                        _ => cx.add_ct(v, seed),
                    }
                }
            }
        }
        Structural::IntArith => memory::pointer_arith(cx),
        Structural::IntBits => moves::halves(cx, op),
        // What they mean for derivatives is nothing, or was settled by the analysis.
        Structural::Control
        | Structural::Bnot
        | Structural::TailCall
        | Structural::TailCallIndirect
        | Structural::SymbolValue
        | Structural::FuncAddr
        | Structural::Trap
        | Structural::Effect
        | Structural::Machine => {}
    }
}
