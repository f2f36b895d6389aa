//! Loop layout: emitted loops in the shape that Cranelift makes most of.
//!
//! **Question.** Which passes over loops does Cranelift's code need, and how often is control flow
//! computed for them?
//!
//! **Answer.** Loops are rotated to test at their end ([`rotate`]). In short functions their
//! invariants are hoisted ([`hoist`]); in longer ones Cranelift does that. Control flow is computed
//! again only if something has changed.
//!
//! **Cost.** A look at the edges where there is no loop. Else the flow graph once, and twice if a
//! short function was rotated.

use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;
use cranelift_entity::EntitySet;

use crate::licm_gvn::{hoist, is_short};
use crate::loop_rotate::rotate;
use crate::shape::FlowInfo;
use crate::verified::Passes;

/// Which of its passes run.
#[derive(Clone, Copy, Debug)]
pub struct LoopPasses {
    /// Loop rotation.
    pub rotate: bool,
    /// Loop-invariant code motion and value numbering, in short functions.
    pub hoist: bool,
}

/// Give a function's loops their shape; `verified` is told after each pass.
pub fn loop_layout(func: &mut ir::Function, isa: &dyn TargetIsa, passes: LoopPasses, verified: &mut Passes) {
    // An edge that leads back in layout order: all loops have one, and it costs nothing to ask.
    let mut earlier = EntitySet::new();
    let leads_back = func.layout.blocks().any(|b| {
        earlier.insert(b);
        func.block_successors(b).any(|s| earlier.contains(s))
    });
    if !leads_back {
        return;
    }
    let shape = FlowInfo::of(func);
    let rotated = passes.rotate && rotate(func, &shape);
    if verified.check_after("loop_rotate", func) && passes.hoist && is_short(func) {
        hoist(func, shape, rotated, isa);
        verified.check_after("licm_gvn", func);
    }
}
