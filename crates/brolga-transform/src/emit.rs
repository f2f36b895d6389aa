//! Emission: a variant's graphs become CLIF functions, and passes over CLIF change those.
//!
//! `brolga_ir::lower` writes the functions. With little effort only what both tiers do is done to
//! them; otherwise all of [`crate::clif::passes`].

use brolga_analysis::Variant;
use brolga_analysis::memory::alias::Places;
use brolga_ir::block::CfgBlocks;
use brolga_ir::inst::Val;
use brolga_ir::lower::{Fence, LowerEnv, Lowered, lower_with_checks};
use brolga_ir::names::Names;
use brolga_ir::{Effort, Ideas, Mode};
use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;
use cranelift_entity::EntitySet;

use crate::clif::dead_segment_arg;
use crate::clif::passes::{Beside, Loops};
use crate::clif::preaccumulate::Choice;
use crate::clif::simplify_cfg::tidy;
use crate::facts::Facts;
use crate::plan::table::Plan;
use crate::translate::stmt::AdStmts;

/// Writes the functions of one variant.
pub(crate) struct Emitter<'s, 'f> {
    facts: &'s Facts<'f>,
    isa: &'s dyn TargetIsa,
    names: &'s mut Names,
    is_root: bool,
    /// Whether floats are moved in pieces, by this function or another one.
    fragments: bool,
    ideas: Ideas,
    /// Whether memory behind the tape cannot be accessed.
    fenced: bool,
    /// What became of loops.
    pub loops: Loops,
}

impl<'s, 'f> Emitter<'s, 'f> {
    /// An emitter for what these statements have been assembled to.
    pub fn new(
        facts: &'s Facts<'f>,
        stmts: &AdStmts,
        isa: &'s dyn TargetIsa,
        names: &'s mut Names,
        is_root: bool,
        fragments: bool,
    ) -> Self {
        let options = facts.options;
        let mut ideas = options.ideas;
        // Both tiers do that, or neither.
        let guarded = stmts.values().any(|s| !s.guards.is_empty()) || !facts.overwrites.rows.is_empty();
        let iterates = !facts.loops.loops.is_empty();
        ideas.preaccumulate &= facts.mode == Mode::Gradient && iterates && (ideas.partial || !guarded);
        // The checks of a debug run are there to be seen.
        let fenced = ideas.fence && !options.debug && isa.triple().operating_system.into_str() == "linux";
        Self { facts, isa, names, is_root, fragments, ideas, fenced, loops: Loops::default() }
    }

    /// A graph as a function, and whether it asks for the segment `seg`.
    pub fn emit(&mut self, graph: &CfgBlocks, plan: &Plan, seg: Val) -> (ir::Function, bool) {
        let facts = self.facts;
        let mut watched_sums = EntitySet::new();
        let env = LowerEnv {
            primal: facts.func(),
            seg: Some(seg),
            frame: plan.frame.as_ref(),
            id_bytes: plan.id_bytes,
            ct: &facts.activity.ct,
            debug: facts.options.debug,
            pieces: self.fragments,
            short: self.quick(),
            fence: self.fence(plan),
            alone: self.is_root && facts.mode != Mode::Split && facts.cfg.calls.is_empty(),
            target: self.isa.frontend_config(),
            watched: Some(&mut watched_sums),
            names: &mut *self.names,
        };
        let Lowered { mut func, checks, shadows, segment } = lower_with_checks(graph, env);
        let (mode, ideas) = (facts.mode, self.ideas);
        let checks = self.fenced.then_some(&checks[..]);
        if self.quick() {
            if checks.is_some_and(|c| !c.is_empty()) {
                self.loops.ask(&mut func, graph, ideas, checks);
            }
            if ideas.preaccumulate {
                self.loops.multiply_out(&mut func, graph, mode, ideas.worth, Choice::Select);
            }
        } else {
            let (program, cfg, blocks) = (facts.program, facts.cfg, &facts.blocks);
            let places = Places { program, func: facts.func(), cfg, blocks };
            let beside = Beside { watched: &watched_sums, shadows: &shadows, checks, places };
            self.loops.form(&mut func, graph, beside, (mode, ideas), self.isa);
        }
        // What is asked for is tidied up as it is going to be called.
        if !self.is_root {
            tidy(&mut func);
        }
        (func, segment)
    }

    /// The one function of both halves, and whether it has a use for its segment.
    pub fn emit_joint(&mut self, graph: &CfgBlocks, plan: &Plan, seg: Val) -> (ir::Function, bool) {
        let (func, asked) = self.emit(graph, plan, seg);
        let uses = || uses_segment(&func, self.facts.variant);
        // With much effort it may not be used any more.
        let segment = asked && (self.quick() || uses());
        debug_assert_eq!(segment, uses(), "what is asked for is used");
        (func, segment)
    }

    fn quick(&self) -> bool {
        self.facts.options.effort == Effort::Quick
    }

    fn fence(&self, plan: &Plan) -> Fence {
        if !self.fenced {
            return Fence::No;
        }
        // Little effort looks at what asks only where something does again and again.
        let looks = !self.quick() || self.ideas.room && plan.records_in_turns(self.facts.cfg);
        if looks { Fence::Too } else { Fence::Only }
    }
}

/// Whether a combined function uses its segment, which comes behind the primal's parameters and
/// their deltas.
fn uses_segment(func: &ir::Function, variant: &Variant) -> bool {
    let entry = func.layout.entry_block().expect("a function has a body");
    let segment = func.dfg.block_params(entry)[dead_segment_arg::position(variant)];
    func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).any(|i| func.dfg.inst_values(i).any(|v| v == segment))
}
