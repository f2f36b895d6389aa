//! Translation of statements (`make_ad_stmts`): each becomes a forward fragment, a reverse
//! fragment, and what the one hands to the other.
//!
//! **Question.** What does each instruction of the primal contribute to the halves of its
//! derivative? **Answer.** What its rule says ([`rules`], in forward mode [`tangent`]), with the
//! facts of the function, and without a look at any block.
//!
//! **Cost.** One walk over the instructions.
//!
//! **Source.** `make_ad_stmts!` of Mooncake.jl.

pub(crate) mod convert;
pub(crate) mod rules;
pub(crate) mod stmt;
pub(crate) mod tangent;

use brolga_ir::block::Ids;
use brolga_ir::inst::Val;
use brolga_ir::map::IndexMap;
use brolga_ir::{Diagnostic, Diagnostics, Mode};
use cranelift_codegen::ir::Type;

use crate::facts::Facts;
use crate::translate::stmt::{AdStmts, Callees, Translation};

/// A translated function.
pub(crate) struct Statements {
    /// One for each instruction.
    pub stmts: AdStmts,
    /// Types of [`Val::Aux`].
    pub aux: IndexMap<Val, Type>,
    /// The cotangent of each result that is a parameter of the pullback.
    pub seeds: Vec<Option<Val>>,
}

/// Translate all statements of a function that nothing stands in the way of; `refused` is what is
/// known to.
pub(crate) fn make_ad_stmts(
    facts: &Facts<'_>,
    refused: Vec<Diagnostic>,
    ids: &mut Ids,
    callees: &mut dyn Callees,
) -> Result<Statements, Diagnostics> {
    let func = facts.func();
    let mut seeds = vec![None; facts.variant.results.len()];
    for (i, _) in facts.variant.result_shapes(&func.signature) {
        seeds[i] = Some(Val::D(ids.dv()));
    }
    let (aux, fragments) = Default::default();
    let forward = facts.mode == Mode::Tangent;
    let mut t = Translation { facts, ids, problems: Diagnostics(refused), aux, seeds, callees, fragments };
    let insts = facts.cfg.blocks.iter().map(|&b| facts.cfg.insts(b).len()).sum();
    let mut stmts = AdStmts::with_capacity(insts, func.dfg.num_insts());
    if t.problems.is_empty() {
        for &inst in facts.cfg.blocks.iter().flat_map(|&b| facts.cfg.insts(b)) {
            let stmt = if forward { tangent::translate(&mut t, inst) } else { rules::translate(&mut t, inst) };
            stmts.insert(inst, stmt);
        }
    }
    let Translation { problems, aux, seeds, .. } = t;
    problems.or_ok(Statements { stmts, aux, seeds })
}
