//! Assembly of one variant: its graphs are made of its statements and its plan, and made again
//! where a graph shows that the plan asks for another.
//!
//! **Question.** A plan is made before there is a graph, and some of what it should know only a
//! graph shows. How is a variant assembled?
//!
//! **Answer.** Plan, assemble, prune, look; and again with what was seen.
//!
//! **Retries.** What a graph shows and a plan cannot know:
//! - *replanned*: the forward half needs something of a loop that was to run in the reverse half
//!   only ([`only_rerun`]); the plan is made again without that loop ([`Assembly::plan_with`]);
//! - *versioned*: which numbers the forward half has left to watch, once what has no use is gone;
//!   if watching them pays, the pullback is there twice ([`crate::guards::versioning`]).
//!
//! **Cost.** A pair is made and pruned once. One function of both halves is made again each time
//! that loops have to be given up, and once more if the pullback is there twice.

use brolga_analysis::CalleeKind;
use brolga_ir::block::{CfgBlocks, Ids, Role, Term};
use brolga_ir::inst::{AdOp, Tape, Val};
use brolga_ir::lift::BlockMap;
use brolga_ir::map::Table;
use brolga_ir::verify::GraphKind;
use brolga_ir::{BlockId, Diagnostics, Mode, Pass};
use cranelift_codegen::ir::{self, InstructionData};
use cranelift_entity::EntitySet;

use crate::assemble::combined::combine;
use crate::assemble::forward::{Forward, LiftedPrimal, forward};
use crate::assemble::pullback::{PullbackGraph, PullbackParts, Pullbacks, either, pullback};
use crate::assemble::strands;
use crate::assemble::tangent::{Tangent, tangent};
use crate::batch::{self, Shapes};
use crate::dce::{KnownPrimal, prune};
use crate::facts::Facts;
use crate::guards::rows::{can_clear, only_clears};
use crate::guards::versioning::{WatchedStmts, watched};
use crate::plan::liveness::Liveness;
use crate::plan::plan;
use crate::plan::rerun_loops::{find, holds_good};
use crate::plan::table::{Plan, Rerun};
use crate::primal::cse::copies;
use crate::translate::Statements;
use crate::translate::stmt::{AdStmt, AdStmts, StmtSource};
use crate::verified;

/// The graphs that a variant becomes.
pub(crate) enum Graphs {
    /// Forward pass and pullback; and of a batch of pullbacks, the shapes of its cotangents.
    Pair { forward: Forward, pullback: PullbackGraph, ct: Option<Shapes> },
    /// Both in one, or values with tangents.
    One(OneGraph),
}

/// What is one graph.
pub(crate) struct OneGraph {
    pub graph: CfgBlocks,
    /// The segment.
    pub seg: Val,
    /// Whether it clears shadows that it is going to add to.
    pub clears: bool,
    /// Reverse block of each primal block; none in forward mode.
    pub reverse_of: Table<ir::Block, BlockId>,
}

impl Graphs {
    /// Whether shadows that are going to be added to are cleared before.
    pub(crate) fn clears(&self) -> bool {
        matches!(self, Self::One(OneGraph { clears: true, .. }))
    }

    /// The forward graph, or the only one; the pullback, or an empty graph; the reverse block of
    /// each primal block.
    pub(crate) fn into_parts(self) -> (CfgBlocks, CfgBlocks, Table<ir::Block, BlockId>) {
        match self {
            Self::Pair { forward, pullback, .. } => (forward.graph, pullback.graph, pullback.reverse_of),
            Self::One(OneGraph { graph, reverse_of, .. }) => {
                let (symbol, signature) = (graph.symbol.clone(), graph.signature.clone());
                (graph, CfgBlocks { symbol, signature, blocks: Table::default() }, reverse_of)
            }
        }
    }
}

/// The graphs of a variant, and the plan that they follow.
pub(crate) struct VariantGraphs {
    pub graphs: Graphs,
    pub plan: Plan,
    /// Whether the pullback is there twice ([`crate::guards::versioning`]).
    pub versioned: bool,
}

/// Plan a variant and assemble its graphs, without what has no use in them. `symbols` are those of
/// the forward pass, or of the one function, and of the pullback; `observed` says that stages are
/// kept for an observer.
///
/// # Errors
/// What has no batch; the rules that a graph breaks after a stage ([`crate::verified`]), a bug of
/// ours.
pub(crate) fn assemble(
    facts: &Facts<'_>,
    lift: (&mut CfgBlocks, &BlockMap),
    statements: &mut Statements,
    symbols: [&str; 2],
    ids: &mut Ids,
    observed: bool,
) -> Result<VariantGraphs, Diagnostics> {
    if facts.mode != Mode::Tangent {
        return Assembly::new(facts, lift, statements, symbols, ids, observed).graphs();
    }
    let Tangent { graph, seg, plan } = tangent(facts, &*lift.0, lift.1, statements, symbols[0], ids)?;
    let graphs = Graphs::One(OneGraph { graph, seg, clears: false, reverse_of: Table::default() });
    Ok(VariantGraphs { graphs, plan, versioned: false })
}

/// What graphs are assembled from.
struct Assembly<'s, 'f> {
    facts: &'s Facts<'f>,
    lifted: &'s mut CfgBlocks,
    forward_of: &'s BlockMap,
    statements: &'s mut Statements,
    ids: &'s mut Ids,
    /// Symbols of the forward pass, or of the one function, and of the pullback.
    symbols: [&'s str; 2],
    /// Primal calls that run in the reverse half alone, as part of a derived call.
    sunk: EntitySet<ir::Inst>,
    live: Liveness,
    pull_seg: Val,
    plan: Plan,
    watch: Option<WatchedStmts>,
    /// Whether fragments can be moved, not cloned.
    spent: bool,
}

impl<'s, 'f> Assembly<'s, 'f> {
    /// Plan a variant.
    fn new(
        facts: &'s Facts<'f>,
        (lifted, forward_of): (&'s mut CfgBlocks, &'s BlockMap),
        statements: &'s mut Statements,
        symbols: [&'s str; 2],
        ids: &'s mut Ids,
        observed: bool,
    ) -> Self {
        let pull_seg = Val::D(ids.dv());
        let sunk = sunk_calls(facts, &statements.stmts);
        // A forward pass has every value.
        let split = facts.mode == Mode::Split;
        let watch = if split { watched(facts, &statements.stmts, &|_| true, ids) } else { None };
        let plan = plan(facts, &statements.stmts, &statements.aux, watch.is_some(), vec![]);
        // Guards make no difference to it, nor do loops that are run again.
        let live = Liveness::compute(facts, &plan.returning, &statements.stmts);
        let spent = false;
        let mut new =
            Self { facts, lifted, forward_of, statements, ids, symbols, sunk, live, pull_seg, plan, watch, spent };
        let runs = |pass| facts.options.runs(pass);
        if facts.mode == Mode::Gradient && runs(Pass::RerunLoops) && runs(Pass::Dce) {
            let loops = find(facts, &new.statements.stmts, &new.live, &new.plan);
            if !loops.is_empty() {
                new.plan_with(loops);
            }
        }
        // Fragments can be moved, not cloned, where no second assembly (versions of guards, another
        // plan) and no observer will follow.
        new.spent = !observed && new.watch.is_none() && !runs(Pass::VersionGuards) && new.plan.reruns.is_empty();
        new
    }

    /// The graphs of the plan, or of one that they ask for.
    fn graphs(mut self) -> Result<VariantGraphs, Diagnostics> {
        let graphs = if self.facts.mode == Mode::Split { self.pair()? } else { Graphs::One(self.joint()?) };
        Ok(VariantGraphs { graphs, plan: self.plan, versioned: self.watch.is_some() })
    }

    fn pair(&mut self) -> Result<Graphs, Diagnostics> {
        let (mut forward, pulls) = self.assemble()?;
        let mut pullback = match (pulls.free, self.plan.flag) {
            (Some(free), Some(flag)) => {
                let pullback = either(pulls.guarded, free, flag, self.ids);
                verified::pullback_of("either", &forward.graph, &pullback.graph, self.facts, &self.plan)?;
                pullback
            }
            _ => pulls.guarded,
        };
        self.prune(&mut pullback.graph);
        let is_strand = self.facts.variant.strand;
        if is_strand {
            strands::ask(&mut forward.graph, &mut pullback.graph, self.facts, self.ids);
        }
        self.prune(&mut forward.graph);
        if is_strand {
            strands::forget_unused(&mut forward.graph, self.facts);
        }
        verified::pair("dce", &forward.graph, &pullback.graph, self.facts, &self.plan)?;
        let ct = if self.facts.options.width == 1 { None } else { Some(self.widen(&mut forward, &mut pullback)?) };
        Ok(Graphs::Pair { forward, pullback, ct })
    }

    /// A forward pass for several derivatives, and a pullback of as many seeds; and the shapes of
    /// its cotangents.
    fn widen(&mut self, forward: &mut Forward, pullback: &mut PullbackGraph) -> Result<Shapes, Diagnostics> {
        let Self { facts, plan, ids, .. } = self;
        let narrow = (forward.graph.signature.params.len(), forward.graph.signature.returns.len());
        forward.graph = batch::widen(forward.graph.clone(), facts, narrow, ids)?.0;
        verified::graph("batch", GraphKind::Forward, &forward.graph, facts, plan)?;
        let (graph, ct) = batch::widen(pullback.graph.clone(), facts, (1, 0), ids)?;
        verified::with_shapes("batch", GraphKind::Pullback, &graph, facts, plan, &ct)?;
        pullback.graph = graph;
        Ok(ct)
    }

    fn joint(&mut self) -> Result<OneGraph, Diagnostics> {
        let facts = self.facts;
        loop {
            let (forward, pulls) = self.assemble()?;
            let (seg, clears) = (forward.seg, pulls.clearing.is_some());
            let reverse_of = pulls.guarded.reverse_of.clone();
            let mut graph = combine(facts, forward, pulls, &self.plan, self.symbols[0].to_owned(), self.ids);
            verified::graph("combine", GraphKind::Combined, &graph, facts, &self.plan)?;
            self.prune(&mut graph);
            verified::graph("dce", GraphKind::Combined, &graph, facts, &self.plan)?;
            if self.replan(&graph) || self.version_guards(&graph) {
                continue;
            }
            if facts.mode == Mode::Gradient {
                copies(&mut graph, facts.func());
                verified::graph("cse", GraphKind::Combined, &graph, facts, &self.plan)?;
            }
            return Ok(OneGraph { graph, seg, clears, reverse_of });
        }
    }

    /// Plan again without loops of which the forward half needs something after all. Whether it had
    /// to be.
    fn replan(&mut self, graph: &CfgBlocks) -> bool {
        let planned = self.plan.reruns.len();
        let mut loops = std::mem::take(&mut self.plan.reruns);
        loops.retain(|a| only_rerun(graph, a));
        if loops.len() == planned {
            self.plan.reruns = loops;
            return false;
        }
        self.plan_with(loops);
        true
    }

    /// Have the pullback twice, if what the forward half has left is worth watching. Whether it is.
    fn version_guards(&mut self, graph: &CfgBlocks) -> bool {
        if self.watch.is_some() || !self.facts.options.runs(Pass::VersionGuards) {
            return false;
        }
        let live = forward_values(graph);
        self.watch = watched(self.facts, &self.statements.stmts, &|v| live.contains(v), self.ids);
        self.watch.is_some()
    }

    /// A plan with these loops run again, as far as a plan with them bears that out.
    fn plan_with(&mut self, mut loops: Vec<Rerun>) {
        let Statements { stmts, aux, .. } = &*self.statements;
        loop {
            let all = loops.len();
            let plan = plan(self.facts, stmts, aux, false, loops);
            loops = plan.reruns.iter().filter(|a| holds_good(self.facts, &plan, a)).cloned().collect();
            if loops.len() == all {
                self.plan = plan;
                return;
            }
        }
    }

    /// Both graphs of the present plan.
    fn assemble(&mut self) -> Result<(Forward, Pullbacks), Diagnostics> {
        let Self { facts, lifted, forward_of, statements, ids, live, plan, watch, spent, .. } = self;
        let (facts, spent) = (*facts, *spent);
        let Statements { stmts, aux, seeds } = &mut **statements;
        let [forward_symbol, pullback_symbol] = self.symbols;
        let watching = watch.as_ref().map_or(&*stmts, |w| &w.watching);
        let lifted = LiftedPrimal { graph: lifted, map: forward_of, spent };
        let fwd = forward(facts, lifted, watching, plan, forward_symbol, ids);
        let parts = PullbackParts { facts, live, plan, aux, seeds, seg: self.pull_seg, symbol: pullback_symbol };
        let pullback = |stmts: StmtSource<'_>, ids: &mut Ids| pullback(&parts, stmts, ids);
        let guarded = pullback(if spent { StmtSource::Spent(stmts) } else { StmtSource::Lent(stmts) }, ids);
        let free = watch.as_ref().map(|w| pullback(StmtSource::Lent(&w.free), ids));
        let clearing = watch.as_ref().and_then(|w| w.clearing.as_ref()).filter(|_| can_clear(plan));
        let mut clearing = clearing.map(|c| pullback(StmtSource::Lent(c), ids));
        let clearing = clearing.take_if(|c| only_clears(&mut c.graph, facts.func()));
        let pulls = Pullbacks { guarded, free, clearing };
        pulls.verify(&fwd.graph, facts, plan)?;
        Ok((fwd, pulls))
    }

    /// Remove what has no use.
    fn prune(&self, graph: &mut CfgBlocks) {
        let facts = self.facts;
        if !facts.options.runs(Pass::Dce) {
            return;
        }
        let primal = facts.func();
        let computes = |inst| match CalleeKind::of(facts.program, primal, inst) {
            Some(CalleeKind::Known(rule)) => rule.only_computes(),
            _ => false,
        };
        let pure = |inst| match primal.dfg.insts[inst] {
            // A load without a use may fault; a gradient alone does without that fault.
            InstructionData::Load { .. } => facts.mode == Mode::Gradient,
            _ if facts.private.writes(inst).is_some() => facts.mode == Mode::Gradient,
            _ => computes(inst) || self.sunk.contains(inst),
        };
        prune(graph, KnownPrimal { primal, pure: &pure, private: &facts.private });
    }
}

/// Calls that run in the reverse half: the primal call is there for its results only.
fn sunk_calls(facts: &Facts<'_>, stmts: &AdStmts) -> EntitySet<ir::Inst> {
    let dfg = &facts.func().dfg;
    let is_call = |s: &&AdStmt| dfg.insts[s.primal].opcode().is_call();
    let in_reverse = |s: &&AdStmt| s.rvs.values().any(|i| matches!(i.op, AdOp::Call { tape: Tape::Above, .. }));
    let mut sunk = EntitySet::new();
    sunk.extend(stmts.values().filter(is_call).filter(|s| s.keep).filter(in_reverse).map(|s| s.primal));
    sunk
}

/// Whether the forward half needs nothing of a loop that is run again.
fn only_rerun(graph: &CfgBlocks, rerun: &Rerun) -> bool {
    let ours = |role: Role| matches!(role, Role::Forward(b) if rerun.blocks.contains(&b));
    graph.blocks.values().all(|b| !ours(b.role) || b.insts.is_empty() && matches!(b.term, Term::Jump(_)))
}

/// Values that the forward blocks of a graph compute.
fn forward_values(graph: &CfgBlocks) -> EntitySet<ir::Value> {
    let mut found = EntitySet::new();
    for block in graph.blocks.values().filter(|b| b.role.is_forward()) {
        let insts = block.insts.values().flat_map(|i| &i.defs);
        found.extend(block.params.iter().chain(insts).filter_map(|(name, _)| match name {
            Val::Primal(v) => Some(*v),
            _ => None,
        }));
    }
    found
}
