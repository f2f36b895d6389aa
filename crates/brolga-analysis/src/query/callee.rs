//! Callee resolution: whether a call goes to a function of the program, to a known C function, or
//! to something unknown.
//!
//! **Question.** What does a call do, as far as derivatives are concerned?
//!
//! **Answer.** The first that fits: the rule that a user has given the function; the known function
//! that its body computes; its body, called as it is or derived; a function of the embedder; a
//! known C function of its name, if the signature is the call's. Else nothing is known.
//!
//! **Cost.** A look-up by symbol.

use std::ops::Deref;
use std::sync::Arc;

use brolga_ir::program::symbol_in;
use brolga_ir::{FuncKey, Program};
use brolga_rules::{MathRule, math_rule};
use cranelift_codegen::ir::{self, InstructionData};

/// What a call goes to.
#[derive(Clone, Debug)]
pub enum CalleeKind {
    /// A function with a body, to be derived.
    Derived(FuncKey),
    /// A function with a body that does not matter for derivatives and is called as it is:
    /// [`crate::calls::opaque_allocator`].
    Plain(FuncKey),
    /// A function with a rule.
    Known(KnownRule),
    /// A function with a body that computes a known function. The first argument, the instance, is
    /// not the rule's.
    Computes(&'static MathRule),
    /// A function of the embedder's, which does not matter for derivatives.
    Host,
    /// An imported function without one.
    Missing(String),
    /// Whatever the first operand points at.
    Indirect(ir::SigRef),
}

/// The rule by which calls of a function are differentiated.
#[derive(Clone, Debug)]
pub enum KnownRule {
    /// Of a C function.
    OfTable(&'static MathRule),
    /// Of a user, for this program.
    OfUser(Arc<MathRule>),
}

impl Deref for KnownRule {
    type Target = MathRule;

    fn deref(&self) -> &MathRule {
        match self {
            Self::OfTable(rule) => rule,
            Self::OfUser(rule) => rule,
        }
    }
}

impl CalleeKind {
    /// Classify a call instruction; `None` if it is no call.
    #[inline]
    pub fn of(program: &Program, func: &ir::Function, inst: ir::Inst) -> Option<Self> {
        // Analyses ask of each instruction.
        match func.dfg.insts[inst] {
            InstructionData::Call { .. } | InstructionData::CallIndirect { .. } => Self::of_call(program, func, inst),
            _ => None,
        }
    }

    fn of_call(program: &Program, func: &ir::Function, inst: ir::Inst) -> Option<Self> {
        match func.dfg.insts[inst] {
            InstructionData::Call { func_ref, .. } => {
                let symbol = symbol_in(func, &func.dfg.ext_funcs[func_ref].name);
                Some(match program.func(&symbol) {
                    Some(k) if program.funcs[k].rule.is_some() => CalleeKind::Known(users(program, k)?),
                    Some(k) if program.funcs[k].body.is_some() && computed(program, k).is_some() => {
                        CalleeKind::Computes(computed(program, k)?)
                    }
                    Some(k) if program.plain.contains(k) => CalleeKind::Plain(k),
                    Some(k) if program.funcs[k].body.is_some() => CalleeKind::Derived(k),
                    Some(k) if program.funcs[k].host.is_some() => CalleeKind::Host,
                    _ => match math_rule(&symbol) {
                        Some(r) if signature_fits(r, &func.dfg.signatures[func.dfg.ext_funcs[func_ref].signature]) => {
                            CalleeKind::Known(KnownRule::OfTable(r))
                        }
                        _ => CalleeKind::Missing(symbol.into_owned()),
                    },
                })
            }
            InstructionData::CallIndirect { sig_ref, .. } => Some(CalleeKind::Indirect(sig_ref)),
            _ => None,
        }
    }
}

/// The rule of the known function that a function computes.
fn computed(program: &Program, k: FuncKey) -> Option<&'static MathRule> {
    program.funcs[k].computes.and_then(math_rule)
}

/// Operands of a call of a function that computes a known one: after the instance, and before
/// what tasks of a module have of their own.
pub fn computed_operands<'a>(rule: &MathRule, args: &'a [ir::Value]) -> &'a [ir::Value] {
    &args[1..=rule.params.len()]
}

/// The rule that a user has given a function.
fn users(program: &Program, k: FuncKey) -> Option<KnownRule> {
    program.funcs[k].rule.as_ref()?.get().map(KnownRule::OfUser)
}

/// Whether a call's signature is the one that the rule is for.
pub fn signature_fits(rule: &MathRule, sig: &ir::Signature) -> bool {
    let pointer = ir::types::I64;
    // `memcpy` and friends may be declared without their result.
    let rets_fit = sig.returns.is_empty() && matches!(rule.kind, brolga_rules::MathKind::Memory(_))
        || rule.rets.len() == sig.returns.len()
            && rule.rets.iter().zip(&sig.returns).all(|(t, p)| t.accepts(p.value_type, pointer));
    rets_fit
        && rule.params.len() == sig.params.len()
        && rule.params.iter().zip(&sig.params).all(|(t, p)| t.accepts(p.value_type, pointer))
}
