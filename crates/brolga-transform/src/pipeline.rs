//! The pipeline: every stage of one variant of one function, in order ([`derive_variant`]).
//!
//! ```text
//! Facts::compute        every analysis
//! overwrites            how shadows are stored to
//! lift                  the normalised primal as a graph
//! make_ad_stmts         each statement: forward fragment, reverse fragment, what is communicated
//! Assembly::new         what is recorded, recomputed, inverted or reloaded
//! Assembly::graphs      forward graph and pullback, or both in one; what has no use is removed
//! Emitter::emit         lowered to CLIF, with passes over it
//! ```
//!
//! [`crate::program::driver`] runs it for a request and for all that is called.

use brolga_analysis::Variant;
use brolga_ir::block::{CfgBlocks, Ids};
use brolga_ir::lift::lift;
use brolga_ir::map::Table;
use brolga_ir::names::Names;
use brolga_ir::verify::GraphKind;
use brolga_ir::{BlockId, Diagnostics, Mode};
use cranelift_codegen::ir;

use crate::assemble::assembly::{Assembly, Graphs, Joint};
use crate::assemble::forward::Forward;
use crate::assemble::pullback::Pullback;
use crate::assemble::tangent::{Tangent, tangent};
use crate::batch::{self, Shapes};
use crate::clif::passes::Remarks;
use crate::derived::{DerivedCombined, DerivedPair, Emitted};
use crate::emit::Emitter;
use crate::facts::{Context, Facts};
use crate::plan::table::Plan;
use crate::primal::normalise::Normalised;
use crate::program::forward_root::{Served, served};
use crate::program::variants::{Symbols, Worklist};
use crate::shadow::store_for_add::overwrites;
use crate::template::stored_pointer;
use crate::translate::stmt::{AdStmts, PairSymbols};
use crate::translate::{Statements, make_ad_stmts};
use crate::verified;

/// Every stage of one variant, for an observer.
pub struct Stages<'a> {
    /// Analyses.
    pub facts: Facts<'a>,
    /// The lifted primal.
    pub lifted: CfgBlocks,
    /// Statements.
    pub stmts: AdStmts,
    /// What is recorded.
    pub plan: Plan,
    /// The forward graph; of a combined function, the whole of it.
    pub forward: CfgBlocks,
    /// The pullback graph; empty for a combined function.
    pub pullback: CfgBlocks,
    /// Reverse block of each primal block.
    pub reverse_of: Table<ir::Block, BlockId>,
    /// Forward block of each primal block.
    pub forward_of: Table<ir::Block, BlockId>,
    /// What passes over CLIF say of loops.
    pub remarks: Remarks,
    /// The emitted functions.
    pub emitted: Emitted,
    /// One per parameter: its shadow is overwritten.
    pub overwrites: Vec<bool>,
    /// Whether the root only calls this.
    pub serves: bool,
    /// An instruction that stores pointers in memory that outlives the call.
    pub stores_pointer: Option<ir::Inst>,
}

/// What a variant is to become.
#[derive(Clone)]
pub(crate) struct Goal {
    pub symbols: Symbols,
    pub mode: Mode,
    /// Whether the caller asks for this function itself.
    pub is_root: bool,
}

/// How far a variant is derived.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// All the way.
    Derive,
    /// Until it is known what stands in the way, and which variants of others it asks for.
    Examine,
}

/// One variant to derive.
pub(crate) struct Task<'a> {
    pub primal: &'a Normalised,
    pub variant: &'a Variant,
    pub goal: Goal,
    pub depth: Depth,
    /// Whether a function has been seen to move floats in pieces, so that all settle what they
    /// read.
    pub fragments: bool,
}

/// What variants share while they are derived.
pub(crate) struct Shared<'s, 'w, 'o> {
    pub work: &'s mut Worklist<'w>,
    pub names: &'s mut Names,
    pub observer: &'s mut Observer<'o>,
}

/// Is shown the statements of a variant.
type SeesStatements<'o> = &'o mut dyn FnMut(&Facts<'_>, &AdStmts);

/// What is shown of the work.
#[derive(Default)]
pub(crate) struct Observer<'o> {
    /// Is shown all stages of each variant, which are kept for it.
    pub stages: Option<&'o mut dyn FnMut(&Stages<'_>)>,
    /// Is shown the statements of each variant, before anything is assembled.
    pub statements: Option<SeesStatements<'o>>,
}

impl Observer<'_> {
    /// Show what a variant went through.
    pub fn see_stages(&mut self, stages: &Stages<'_>) {
        if let Some(look) = &mut self.stages {
            look(stages);
        }
    }
}

/// What one function does that all have to know of.
pub(crate) enum Need {
    /// It computes a float's bits from integers in memory.
    Demands,
    /// It moves words of eight bytes that need not lie as doubles do, where there may be such.
    UnalignedDoubles,
}

/// What came of a variant.
pub(crate) enum Outcome<'a> {
    /// It was examined, as far as was asked.
    Examined,
    /// It does something that all have to know of from the beginning.
    Needs(Need),
    /// A callee does what it would.
    Served(Served),
    /// All that it went through.
    Derived(Box<Stages<'a>>),
}

/// Statements beyond which those of a function are given back as soon as its graphs are there: what
/// is made next takes their place in memory, where the system would have to give more.
const LARGE: usize = 4000;

/// Derive a variant: all stages, in order.
pub(crate) fn derive_variant<'a>(
    cx: Context<'a>,
    task: Task<'a>,
    Shared { work, names, observer }: Shared<'_, '_, '_>,
) -> Result<Outcome<'a>, Diagnostics> {
    let Task { primal, variant, goal: Goal { symbols, mode, is_root }, depth, fragments } = task;

    let (mut facts, refused) = Facts::compute(cx, primal, variant, mode, is_root);
    if mode != Mode::Tangent {
        facts.overwrites = overwrites(&facts);
        facts.find_units_and_roots(is_root);
    }
    if !cx.demanded && facts.activity.computes_bits() {
        return Ok(Outcome::Needs(Need::Demands));
    }
    if !cx.program.unaligned_doubles && mode != Mode::Tangent && facts.moves_unaligned_words() {
        return Ok(Outcome::Needs(Need::UnalignedDoubles));
    }

    let mut ids = Ids::default();
    let symbol = &cx.program.funcs[variant.func].symbol;
    let (mut lifted, forward_of) = lift(&primal.func, symbol, &mut ids);
    let mut statements = make_ad_stmts(&facts, refused, &mut ids, work)?;
    if let Some(look) = &mut observer.statements {
        look(&facts, &statements.stmts);
    }
    if depth == Depth::Examine {
        return Ok(Outcome::Examined);
    }
    let fragments = fragments || facts.needs_pieces();
    let stores_pointer = stored_pointer(&facts, &statements.stmts);
    let wide = cx.options.width != 1;
    if wide && fragments {
        return Err(batch::refused(&facts, IN_PIECES));
    }
    if mode == Mode::Tangent {
        let emit = (cx, names, is_root, fragments);
        return derive_tangent(facts, (lifted, forward_of), (statements, ids), symbols, emit);
    }
    if is_root && let Some(found) = served(&facts, variant, work, cx.options) {
        return Ok(Outcome::Served(found));
    }

    let observed = observer.stages.is_some();
    let mut emitter = Emitter::new(&facts, &statements.stmts, cx.isa, names, is_root, fragments);
    let (lift, names) = ((&mut lifted, &forward_of), symbols.both());
    let (graphs, plan, twice) = Assembly::new(&facts, lift, &mut statements, names, &mut ids, observed).graphs()?;
    if !observed && statements.stmts.len() >= LARGE {
        (statements.stmts, lifted.blocks) = Default::default();
    }

    let (mut overwrites, variant) = (facts.overwrites.arguments.clone(), variant.clone());
    let (forward, pullback, reverse_of, emitted) = match graphs {
        Graphs::Pair { mut forward, mut pullback } => {
            let ct = if wide { Some(wide_pair(&facts, &mut forward, &mut pullback, &plan, &mut ids)?) } else { None };
            let PairSymbols { forward: forward_symbol, pullback: pullback_symbol } = symbols.pair();
            let pair = DerivedPair {
                variant,
                forward_symbol,
                pullback_symbol,
                forward: emitter.emit(&forward.graph, &plan, forward.seg).0,
                pullback: {
                    emitter.ct = ct;
                    emitter.emit(&pullback.graph, &plan, pullback.seg).0
                },
                frame: plan.frame.as_ref().map_or(0, |f| f.size),
            };
            (forward.graph, pullback.graph, pullback.reverse_of, Emitted::Pair(Box::new(pair)))
        }
        Graphs::Joint(Joint { graph, seg, clears, reverse_of }) => {
            let (func, segment) = emitter.emit_joint(&graph, &plan, seg);
            if clears {
                facts.overwrites.rows.iter().filter_map(|r| r.argument).for_each(|i| overwrites[i] = true);
            }
            let results = mode == Mode::Combined;
            let combined = DerivedCombined { variant, symbol: symbols.combined(), func, results, segment, twice };
            let (of, signature) = (graph.symbol.clone(), graph.signature.clone());
            let pullback = CfgBlocks { symbol: of, signature, blocks: Table::default() };
            (graph, pullback, reverse_of, Emitted::Combined(Box::new(combined)))
        }
    };
    verified::passes(&mut emitter.verified, symbol)?;
    let (remarks, stmts) = (emitter.remarks, statements.stmts);
    Ok(Outcome::Derived(Box::new(Stages {
        facts,
        lifted,
        stmts,
        plan,
        forward,
        pullback,
        reverse_of,
        forward_of,
        remarks,
        emitted,
        overwrites,
        serves: false,
        stores_pointer,
    })))
}

/// What has no batches.
const IN_PIECES: &str = "a function that moves floats in pieces, or is called by one,";

/// A forward pass for several derivatives, and a pullback of as many seeds; and the shapes of its
/// cotangents.
fn wide_pair(
    facts: &Facts<'_>,
    forward: &mut Forward,
    pullback: &mut Pullback,
    plan: &Plan,
    ids: &mut Ids,
) -> Result<Shapes, Diagnostics> {
    let all = (forward.graph.signature.params.len(), forward.graph.signature.returns.len());
    forward.graph = batch::widen(forward.graph.clone(), facts, all, ids)?.0;
    verified::graph("batch", GraphKind::Forward, &forward.graph, facts, plan)?;
    let (graph, ct) = batch::widen(pullback.graph.clone(), facts, (1, 0), ids)?;
    verified::with_shapes("batch", GraphKind::Pullback, &graph, facts, plan, &ct)?;
    pullback.graph = graph;
    Ok(ct)
}

/// The last stages of forward mode: one graph, and no plan.
fn derive_tangent<'a>(
    facts: Facts<'a>,
    (lifted, forward_of): (CfgBlocks, Table<ir::Block, BlockId>),
    (statements, mut ids): (Statements, Ids),
    symbols: Symbols,
    (cx, names, is_root, fragments): (Context<'a>, &mut Names, bool, bool),
) -> Result<Outcome<'a>, Diagnostics> {
    let symbol = symbols.combined();
    let Tangent { graph, seg, plan } = tangent(&facts, (&lifted, &forward_of), &statements, &symbol, &mut ids)?;
    let mut emitter = Emitter::new(&facts, &statements.stmts, cx.isa, names, is_root, fragments);
    let (func, segment) = emitter.emit(&graph, &plan, seg);
    verified::passes(&mut emitter.verified, &cx.program.funcs[facts.variant.func].symbol)?;
    let remarks = emitter.remarks;
    let variant = facts.variant.clone();
    let whole = DerivedCombined { variant, symbol: symbol.clone(), func, results: true, segment, twice: false };
    let pullback = CfgBlocks { symbol, signature: graph.signature.clone(), blocks: Table::default() };
    let overwrites = vec![false; facts.variant.params.len()];
    Ok(Outcome::Derived(Box::new(Stages {
        facts,
        lifted,
        stmts: statements.stmts,
        plan,
        forward: graph,
        pullback,
        reverse_of: Table::default(),
        forward_of,
        remarks,
        emitted: Emitted::Combined(Box::new(whole)),
        overwrites,
        serves: false,
        stores_pointer: None,
    })))
}
