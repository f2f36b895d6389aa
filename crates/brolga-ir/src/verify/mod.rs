//! The verifier of derived graphs: what holds of a forward pass, a pullback or both in one before
//! they are lowered.
//!
//! **Question.** A graph is assembled from parts that do not know each other, pruned, and edited.
//! Does it still keep the rules that lowering and the run time rely on? Cranelift's verifier sees
//! what lowering made of it: types and dominance, but nothing of tape, frame or halves.
//!
//! **Answer.** One module for each question, each of which names the rule that is broken, the block
//! and the instruction ([`Fault`]):
//! - [`structure`]: ids, successors, arguments of edges, the signature;
//! - [`names`]: definitions dominate uses; [`types`], [`arith`]: operands and results;
//! - [`halves`]: what belongs to the forward half and to the reverse half; [`activation`]: one
//!   frame for one run;
//! - [`tape`]: pops mirror pushes; [`predecessors`]: the way back; [`frame`]: what is restored has
//!   been kept. These look at a forward half and a reverse half together ([`mirror`]).
//!
//! **Cost.** Near linear in the size of the graph.
//!
//! **Source.** LLVM's `Verifier`, Cranelift's `verify_function`; the mirror of tape operations is
//! what an AD tool with a stack promises (Tapenade's `PUSH` and `POP`).

use cranelift_codegen::ir;

use crate::block::CfgBlocks;
use mirror::Mirror;
use view::View;

pub use fault::{Fault, Faults, Rule};
pub use view::{GraphContext, GraphKind};

pub mod activation;
mod arith;
mod fault;
pub mod frame;
pub mod halves;
pub mod mirror;
pub mod names;
pub mod predecessors;
pub mod structure;
pub mod tape;
pub mod types;
mod view;

/// Verify a graph; of a combined graph also that both halves fit each other.
///
/// # Errors
/// The rules that it breaks.
pub fn graph(graph: &CfgBlocks, known: GraphContext<'_>) -> Result<(), Vec<Fault>> {
    let mut faults = Faults::of(&graph.symbol);
    structure::names(graph, &mut faults);
    // Without successors there is no control flow to ask about.
    if !faults.is_empty() {
        return faults.or_ok();
    }
    let view = View::of(graph, known.primal);
    structure::edges(&view, known.kind, &mut faults);
    names::check(&view, known.primal, &mut faults);
    types::check(&view, known, &mut faults);
    halves::check(&view, known.kind, &mut faults);
    activation::check(&view, known.kind, &mut faults);
    if known.kind == GraphKind::Combined && faults.is_empty() {
        both(&view, &view, known, &mut faults);
    }
    faults.or_ok()
}

/// Verify that a pullback undoes what a forward pass does. Each by itself is verified
/// ([`graph`]).
///
/// # Errors
/// The rules that they break.
pub fn pair(forward: &CfgBlocks, pullback: &CfgBlocks, known: GraphContext<'_>) -> Result<(), Vec<Fault>> {
    let mut faults = Faults::of(&pullback.symbol);
    let (forward, pullback) = (View::of(forward, known.primal), View::of(pullback, known.primal));
    both(&forward, &pullback, known, &mut faults);
    faults.or_ok()
}

fn both(forward: &View<'_>, reverse: &View<'_>, known: GraphContext<'_>, faults: &mut Faults) {
    let primal: &ir::Function = known.primal;
    let mirror = Mirror::of(forward, reverse, primal);
    tape::check(&mirror, faults);
    predecessors::check(&mirror, faults);
    frame::check(&mirror, known, faults);
}
