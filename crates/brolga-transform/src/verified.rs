//! The verifier between the stages: a graph that a stage has made or changed keeps the rules of
//! [`brolga_ir::verify`].
//!
//! **Question.** Which stage broke a graph? Without an answer the fault is seen where the graph is
//! lowered, or in a gradient. **Answer.** After each stage, if `Options::verify_stages` says so,
//! the verifier looks at the graph, and at both halves together where both are there. What it finds
//! is an internal error (AD0902) that names the stage, the function, the block and the instruction.
//! **Cost.** Near linear in the size of the graph; nothing without the option.

use brolga_clif::verified::{PassFailure, Passes};
use brolga_ir::block::CfgBlocks;
use brolga_ir::verify::{self, Fault, GraphContext, GraphKind};
use brolga_ir::{Diagnostic, Diagnostics};

use crate::batch::Shapes;
use crate::facts::Facts;
use crate::plan::table::Plan;

/// What the rules ask of beside a graph.
fn known<'a>(kind: GraphKind, facts: &'a Facts<'_>, plan: &'a Plan) -> GraphContext<'a> {
    let frame = plan.frame.as_ref();
    GraphContext { kind, primal: facts.func(), ct: &facts.activity.ct, frame, id_bytes: plan.id_bytes }
}

/// A graph, after a stage.
///
/// # Errors
/// The rules that it breaks: a bug of ours.
pub(crate) fn graph(
    stage: &str,
    kind: GraphKind,
    graph: &CfgBlocks,
    facts: &Facts<'_>,
    plan: &Plan,
) -> Result<(), Diagnostics> {
    with_shapes(stage, kind, graph, facts, plan, &facts.activity.ct)
}

/// The same of one with these shapes of cotangents.
///
/// # Errors
/// As of [`graph`].
pub(crate) fn with_shapes(
    stage: &str,
    kind: GraphKind,
    graph: &CfgBlocks,
    facts: &Facts<'_>,
    plan: &Plan,
    ct: &Shapes,
) -> Result<(), Diagnostics> {
    if !facts.options.verify_stages {
        return Ok(());
    }
    let known = GraphContext { ct, ..known(kind, facts, plan) };
    verify::graph(graph, known).map_err(|faults| internal(stage, &faults, &[graph], facts))
}

/// A forward pass and its pullback, each by itself and both together, after a stage.
///
/// # Errors
/// The rules that they break: a bug of ours.
pub(crate) fn pair(
    stage: &str,
    forward: &CfgBlocks,
    pullback: &CfgBlocks,
    facts: &Facts<'_>,
    plan: &Plan,
) -> Result<(), Diagnostics> {
    if !facts.options.verify_stages {
        return Ok(());
    }
    graph(stage, GraphKind::Forward, forward, facts, plan)?;
    pullback_of(stage, forward, pullback, facts, plan)
}

/// A pullback of a forward pass that has been verified, by itself and beside that, after a stage.
///
/// # Errors
/// The rules that they break: a bug of ours.
pub(crate) fn pullback_of(
    stage: &str,
    forward: &CfgBlocks,
    pullback: &CfgBlocks,
    facts: &Facts<'_>,
    plan: &Plan,
) -> Result<(), Diagnostics> {
    if !facts.options.verify_stages {
        return Ok(());
    }
    graph(stage, GraphKind::Pullback, pullback, facts, plan)?;
    if plan.combined {
        // Each exit of the forward half leads to its own reverse as soon as both are one function.
        return Ok(());
    }
    verify::pair(forward, pullback, known(GraphKind::Pullback, facts, plan))
        .map_err(|faults| internal(stage, &faults, &[pullback, forward], facts))
}

/// Nothing, unless a pass over CLIF broke a function that is derived from `%symbol`.
///
/// # Errors
/// The pass, and what Cranelift's verifier says: a bug of ours.
pub(crate) fn passes(passes: &mut Passes, symbol: &str) -> Result<(), Diagnostics> {
    let Some(PassFailure { pass, function, message }) = passes.take_broken() else { return Ok(()) };
    let d = Diagnostic::new("AD0901", format!("internal: {function} does not verify behind the pass `{pass}`"))
        .in_func(symbol)
        .note(message)
        .help("this is a bug in Brolga; please report it with the input");
    Err(d.into())
}

fn internal(stage: &str, faults: &[Fault], graphs: &[&CfgBlocks], facts: &Facts<'_>) -> Diagnostics {
    let symbol = &facts.program.funcs[facts.variant.func].symbol;
    let function = faults.first().map_or("", |f| &f.function);
    let mut d = Diagnostic::new("AD0902", format!("internal: %{function} breaks a rule behind the stage `{stage}`"))
        .in_func(symbol);
    for fault in faults {
        let inst = fault.block.zip(fault.inst).and_then(|(b, id)| {
            let mut insts = graphs.iter().filter_map(|g| g.blocks.get(&b)).flat_map(|b| b.insts.iter());
            insts.find(|i| *i.0 == id).map(|i| i.1.display(facts.func()).to_string())
        });
        d = d.note(format!("{fault}{}", inst.map_or_else(String::new, |text| format!("\n        {text}"))));
    }
    d.help("this is a bug in Brolga; please report it with the input").into()
}
