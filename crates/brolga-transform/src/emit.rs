//! Emission: a variant's graphs become CLIF functions, and passes over CLIF change those.
//!
//! **Question.** A variant has its graphs. Which CLIF is compiled?
//!
//! **Answer.** `brolga_ir::lower` writes the functions, [`crate::clif::passes`] change them.
//!
//! **Cost.** That of lowering and of the passes.

use std::cell::RefCell;

use brolga_analysis::Variant;
use brolga_analysis::memory::alias::Places;
use brolga_ir::block::CfgBlocks;
use brolga_ir::inst::Val;
use brolga_ir::lower::{Fence, LowerEnv, LoweredFunction, Shadows, StandaloneEnv, TypedTapeEnv, lower_with_checks};
use brolga_ir::names::Names;
use brolga_ir::program::symbol_of;
use brolga_ir::{Diagnostics, Effort, Mode, Pass, PassSet, Program, TapeKind};
use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;
use cranelift_entity::EntitySet;

use crate::assemble::assembly::{Graphs, OneGraph, VariantGraphs};
use crate::batch::Shapes;
use crate::clif::count::count;
use crate::clif::dead_segment_arg::position;
use crate::clif::passes::{self, ClifCx, Remarks};
use crate::derived::{DerivedCombined, DerivedPair, DerivedVariant, PairSymbols, Symbols};
use crate::facts::Facts;
use crate::plan::table::Plan;
use crate::translate::stmt::AdStmts;
use crate::verified;
use brolga_clif::simplify_cfg::simplify_cfg;
use brolga_clif::verified::Passes;

/// Writes the functions of one variant.
pub(crate) struct Emitter<'s, 'f> {
    facts: &'s Facts<'f>,
    isa: &'s dyn TargetIsa,
    names: &'s mut Names,
    is_root: bool,
    /// Whether floats are moved in pieces, by this function or another one.
    pieces: bool,
    enabled: PassSet,
    /// Whether memory behind the tape cannot be accessed.
    fenced: bool,
    /// What passes say of loops.
    remarks: Remarks,
    /// What Cranelift's verifier says after each pass.
    verified: Passes,
}

impl<'s, 'f> Emitter<'s, 'f> {
    /// An emitter for what these statements have been assembled to.
    pub(crate) fn new(
        facts: &'s Facts<'f>,
        stmts: &AdStmts,
        isa: &'s dyn TargetIsa,
        names: &'s mut Names,
        is_root: bool,
        pieces: bool,
    ) -> Self {
        let options = facts.options;
        let mut enabled = options.enabled();
        // Both tiers do that, or neither.
        let guarded = || stmts.values().any(|s| !s.guards.is_empty()) || !facts.overwrites.rows.is_empty();
        let iterates = facts.mode == Mode::Gradient && !facts.loops.loops.is_empty();
        if !iterates || !options.runs(Pass::PartialSums) && guarded() {
            enabled = enabled.without(Pass::Preaccumulate.into());
        }
        // The checks of a debug run are there to be seen.
        let fences = options.tape == TapeKind::Fenced && !options.debug;
        let fenced = fences && isa.triple().operating_system.into_str() == "linux";
        let (remarks, verified) = (Remarks::default(), Passes::verified(options.verify_stages));
        Self { facts, isa, names, is_root, pieces, enabled, fenced, remarks, verified }
    }

    /// The functions of a variant, and what passes say of loops.
    ///
    /// # Errors
    /// A pass that has broken a function ([`verified::passes`]): a bug of ours.
    pub(crate) fn emit(
        mut self,
        assembled: &VariantGraphs,
        symbols: Symbols,
    ) -> Result<(DerivedVariant, Remarks), Diagnostics> {
        let VariantGraphs { graphs, plan, versioned } = assembled;
        let variant = self.facts.variant.clone();
        let emitted = match graphs {
            Graphs::Pair { forward, pullback, ct } => {
                let PairSymbols { forward: forward_symbol, pullback: pullback_symbol } = symbols.pair();
                let mut forward = self.function(&forward.graph, plan, forward.seg, None).0;
                let mut pullback = self.function(&pullback.graph, plan, pullback.seg, ct.as_ref()).0;
                if self.counts() {
                    count(&mut forward, position(&variant));
                    count(&mut pullback, 0);
                }
                let frame = plan.frame.as_ref().map_or(0, |f| f.size);
                let pair = DerivedPair { variant, forward_symbol, pullback_symbol, forward, pullback, frame };
                DerivedVariant::Pair(Box::new(pair))
            }
            Graphs::One(OneGraph { graph, seg, .. }) => {
                let (func, segment) = self.one_function(graph, plan, *seg);
                let (symbol, results) = (symbols.combined(), self.facts.mode != Mode::Gradient);
                let combined = DerivedCombined { variant, symbol, func, results, segment, versioned: *versioned };
                DerivedVariant::Combined(Box::new(combined))
            }
        };
        verified::passes(&mut self.verified, &self.facts.program.funcs[self.facts.variant.func].symbol)?;
        Ok((emitted, self.remarks))
    }

    /// A graph as a function, and whether it asks for the segment `seg`. `ct` are the shapes of its
    /// cotangents, if they are not those of the facts.
    fn function(&mut self, graph: &CfgBlocks, plan: &Plan, seg: Val, ct: Option<&Shapes>) -> (ir::Function, bool) {
        let facts = self.facts;
        let mut watched_sums = EntitySet::new();
        let pointers = &facts.pointers;
        let is_address = |v| pointers.root(v).is_some() || pointers.address.contains(v);
        let data_symbol = |key| facts.program.data[key].symbol.clone();
        let typed = TypedTapeEnv { is_address: &is_address };
        let standalone = StandaloneEnv { data_symbol: &data_symbol, nth: facts.program.nested };
        let tape = facts.options.tape;
        let env = LowerEnv {
            primal: facts.func(),
            seg: Some(seg),
            frame: plan.frame.as_ref(),
            id_bytes: plan.id_bytes,
            ct: ct.unwrap_or(&facts.activity.ct),
            width: facts.options.width,
            debug: facts.options.debug,
            pieces: self.pieces,
            strand: facts.variant.strand,
            waits: self.pieces && facts.mode != Mode::Tangent,
            tangents: facts.mode == Mode::Tangent,
            // Elsewhere all integers hand on what is demanded of them.
            numbers: facts.summaries.makes_numbers() && !facts.demanded,
            short: self.quick(),
            fence: self.fence(plan),
            typed: (tape == TapeKind::Typed).then_some(typed),
            standalone: tape.is_standalone().then_some(standalone),
            alone: self.is_root && facts.mode != Mode::Split && facts.cfg.calls.is_empty(),
            target: self.isa.frontend_config(),
            watched: Some(&mut watched_sums),
            names: &mut *self.names,
        };
        let LoweredFunction { mut func, checks, shadows, segment } = lower_with_checks(graph, env);
        let lowered = self.verified.is_on().then(|| func.clone());
        let checks = self.fenced.then_some(&checks[..]);
        self.passes(&mut func, graph, &watched_sums, &shadows, checks);
        if let Some(mut func) = lowered.filter(|_| !self.verified.is_sound(&func)) {
            // Once more, to see which pass it was.
            let found = self.verified.take_broken();
            self.verified = Passes::each();
            self.passes(&mut func, graph, &watched_sums, &shadows, checks);
            self.verified.or(found);
        }
        (func, segment)
    }

    /// Run the passes over a function that has been lowered from a graph.
    fn passes(
        &mut self,
        func: &mut ir::Function,
        graph: &CfgBlocks,
        watched: &EntitySet<ir::Value>,
        shadows: &Shadows,
        checks: Option<&[ir::Inst]>,
    ) {
        let facts = self.facts;
        as_declared(func, facts.program, self.names);
        self.verified.check_after("lower", func);
        let (program, cfg, blocks) = (facts.program, facts.cfg, &facts.blocks);
        let mut cx = ClifCx {
            graph,
            mode: facts.mode,
            enabled: self.enabled,
            quick: self.quick(),
            isa: self.isa,
            watched,
            shadows,
            checks,
            places: Places { program, func: facts.func(), cfg, blocks },
            found: RefCell::default(),
            remarks: &mut self.remarks,
            verified: &mut self.verified,
        };
        if cx.verified.is_broken() {
            return;
        }
        passes::run(func, &mut cx);
        // What is asked for is tidied up as it is going to be called.
        if !self.is_root && !self.verified.is_broken() {
            simplify_cfg(func);
            self.verified.check_after("simplify_cfg", func);
        }
    }

    /// The one function of a variant, and whether it has a use for its segment.
    fn one_function(&mut self, graph: &CfgBlocks, plan: &Plan, seg: Val) -> (ir::Function, bool) {
        let (mut func, mut asked) = self.function(graph, plan, seg, None);
        if self.facts.mode == Mode::Tangent {
            return (func, asked);
        }
        if self.counts() {
            count(&mut func, position(self.facts.variant));
            asked = true;
        }
        let uses = || uses_segment(&func, self.facts.variant);
        // With much effort it may not be used any more.
        let segment = asked && (self.quick() || uses());
        debug_assert_eq!(segment, uses(), "what is asked for is used");
        (func, segment)
    }

    /// Whether functions count what they execute.
    fn counts(&self) -> bool {
        self.facts.options.debug && !self.facts.options.tape.is_standalone()
    }

    fn quick(&self) -> bool {
        self.facts.options.effort == Effort::Quick
    }

    fn fence(&self, plan: &Plan) -> Fence {
        if !self.fenced {
            return Fence::No;
        }
        // Little effort looks at what asks only where something does again and again.
        let looks =
            !self.quick() || self.enabled.contains(Pass::HoistTapeChecks) && plan.records_in_iterations(self.facts.cfg);
        if looks { Fence::Too } else { Fence::Only }
    }
}

/// Whether a combined function uses its segment, which comes after the primal's parameters and
/// their deltas.
fn uses_segment(func: &ir::Function, variant: &Variant) -> bool {
    let entry = func.layout.entry_block().expect("a function has a body");
    let segment = func.dfg.block_params(entry)[position(variant)];
    func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).any(|i| func.dfg.inst_values(i).any(|v| v == segment))
}

/// Let functions of the program that rules name be called by their own conventions.
fn as_declared(func: &mut ir::Function, program: &Program, names: &Names) {
    if !program.funcs.values().any(|f| f.rule.is_some() || f.adjoint.is_some()) {
        return;
    }
    for r in func.dfg.ext_funcs.keys().collect::<Vec<_>>() {
        let spelled = symbol_of(func, &func.dfg.ext_funcs[r].name);
        let callee = program.func(names.symbol(&spelled).unwrap_or(&spelled));
        let Some(f) = callee.map(|k| &program.funcs[k]).filter(|f| f.body.is_some()) else { continue };
        let signature = &func.dfg.signatures[func.dfg.ext_funcs[r].signature];
        if signature.call_conv != f.signature.call_conv {
            let signature = ir::Signature { call_conv: f.signature.call_conv, ..signature.clone() };
            func.dfg.ext_funcs[r].signature = func.import_signature(signature);
        }
    }
}
