//! Forward mode: what each statement gives its tangents (`Mode::Tangent`).
//!
//! **Question.** A statement computes results from operands. What are the tangents of the results,
//! given those of the operands?
//!
//! **Answer.** A row of `brolga-rules` is a partial for each result and operand: the tangent of the
//! result is the sum of the products with the operands' tangents ([`value::by_row`]), strong zeros
//! included. What moves a value moves its tangent by the same instruction. A load reads the tangent
//! from the shadow, a store writes it there; pointers move their shadows as in the augmented
//! forward pass. A call of a function of the program becomes one of its tangent function.
//!
//! ```text
//! v3 = fmul v1, v2        v3 = fmul v1, v2
//!                    ─►   d0 = fmul v1.t, v2
//!                         d1 = fmul v2.t, v1
//!                         v3.t = fadd d0, d1
//! ```
//!
//! The tangent of a value has the type of its cotangent, `Shape::ty`. Only values that carry a
//! cotangent in reverse mode have one: what depends on no active input, or leads to no active
//! result, has none.
//!
//! **Bits that are lost.** Where the pullback traps if a cotangent arrives (`untracked_bits`), the
//! tangent is [`POISON`], a NaN that says so: it vanishes where the value is not used, and the run
//! that returns it is an error.
//!
//! **Cost.** One look at each statement.
//!
//! **Source.** Tangent-linear mode (Griewank and Walther, 2008, chapter 3); Enzyme's forward mode.

use brolga_analysis::CalleeKind;
use brolga_ir::inst::Arith;
use brolga_rules::{OpcodeRule, Structural, opcode_rule};
use cranelift_codegen::ir::{self, Opcode, types};

use crate::translate::rules::memory;
use crate::translate::rules::pieces::is_computed;
use crate::translate::stmt::Cx;
use crate::translate::stmt::{AdStmt, StmtCx, Translation};

mod calls;
pub(crate) mod fit;
mod libm;
mod moves;
mod pieces;
mod places;
mod value;

pub use fit::POISON;

use fit::{tangent_type, unknown};
use value::{by_product, by_row, define};

/// Translate one primal instruction.
pub(crate) fn translate(t: &mut Translation<'_, '_>, inst: ir::Inst) -> AdStmt {
    let func = t.facts.func();
    let op = func.dfg.insts[inst].opcode();
    let mut cx = StmtCx::new(t, inst);
    if cx.facts().activity.astray.contains(inst) && !cx.results().is_empty() {
        poisoned(&mut cx);
        return cx.finish();
    }
    if is_computed(&cx) {
        memory::pointer_arith(&mut cx);
        pieces::computed(&mut cx);
        return cx.finish();
    }
    let facts = cx.facts();
    if let Some(product) = facts.products.get(&inst) {
        let z = cx.results()[0];
        if facts.is_active(z) {
            let by = by_product(&mut cx, product);
            define(&mut cx, z, by);
        }
        return cx.finish();
    }
    match opcode_rule(op) {
        _ if cx.facts().steps.of(inst).is_some() => {
            memory::pointer_arith(&mut cx);
            if !pieces::moved(&mut cx) {
                moves::step(&mut cx);
            }
        }
        OpcodeRule::Expr(row) => {
            let (z, args) = (cx.results()[0], cx.args());
            if cx.facts().is_active(z) {
                let by = by_row(&mut cx, row, 0, args, &[z]);
                define(&mut cx, z, by);
            }
        }
        OpcodeRule::Zero | OpcodeRule::NotFloat | OpcodeRule::Refused(_) => {}
        OpcodeRule::Structural(s) => structural(&mut cx, op, s),
    }
    cx.finish()
}

fn structural(cx: Cx<'_, '_, '_, '_>, op: Opcode, s: Structural) {
    if pieces::moved(cx) {
        return memory::pointer_arith(cx);
    }
    match s {
        Structural::Load | Structural::AtomicLoad | Structural::IntLoad => places::load(cx),
        Structural::Store | Structural::AtomicStore | Structural::IntStore => places::store(cx),
        Structural::AtomicRmw | Structural::AtomicCas => places::store(cx),
        Structural::Select => moves::select(cx),
        Structural::Bitselect | Structural::Blendv | Structural::Band | Structural::Bor | Structural::Bxor => {
            memory::pointer_arith(cx);
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
        Structural::Promote => moves::linear(cx, Arith::Promote, types::F64),
        Structural::Demote => moves::linear(cx, Arith::Demote, types::F32),
        Structural::PromoteLow => moves::linear(cx, Arith::PromoteLow, types::F64X2),
        Structural::DemoteLow => moves::linear(cx, Arith::DemoteLow, types::F32X4),
        Structural::Call | Structural::CallIndirect => {
            match CalleeKind::of(cx.facts().program, cx.func(), cx.inst()).expect("a call has a callee") {
                CalleeKind::Derived(f) => match crate::translate::rules::adjoint::of(cx, f) {
                    Some(rule) => calls::of_rule(cx, f, &rule),
                    None => calls::derived(cx, f),
                },
                CalleeKind::Indirect(sig) => calls::indirect(cx, sig),
                CalleeKind::Known(rule) => libm::call(cx, &rule),
                CalleeKind::Computes(rule) => libm::computed(cx, rule),
                CalleeKind::Host | CalleeKind::Plain(_) => {}
                CalleeKind::Missing(symbol) => crate::translate::rules::calls::missing(cx, &symbol),
            }
        }
        Structural::IntArith => memory::pointer_arith(cx),
        Structural::IntBits => moves::halves(cx, op),
        Structural::StackAddr
        | Structural::Control
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

/// Results of an operation on bits of which no derivative is known.
fn poisoned(cx: Cx<'_, '_, '_, '_>) {
    memory::pointer_arith(cx);
    for &z in cx.results() {
        if cx.facts().is_active(z) {
            let shape = cx.shape(z);
            let poison = unknown(cx, true, (shape, tangent_type(cx.facts(), z, shape)));
            define(cx, z, Some(poison));
        }
    }
}
