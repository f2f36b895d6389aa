//! The pipeline: every stage of one variant of one function, in order ([`derive_variant`]).
//!
//! **Question.** Through which stages does a variant go, and what does each hand to the next?
//!
//! **Answer.** Through these, in order:
//!
//! ```text
//! Facts::compute        every analysis
//! overwrites            how shadows are stored to
//! lift                  the normalised primal as a graph
//! make_ad_stmts         each statement: forward fragment, reverse fragment, what is communicated
//! assemble              a plan (what is recorded, recomputed, inverted or reloaded), and the graphs:
//!                       forward pass and pullback, both in one, or values with tangents; what has
//!                       no use is removed, a batch widened
//! Emitter::emit         lowered to CLIF, with passes over it
//! ```
//!
//! A stage may find what all functions have to know of ([`ProgramFact`]), or that a callee does
//! what the root would ([`ServingVariant`]); then nothing more is done here.
//! [`crate::pipeline::all_variants`] runs it for a request and for all that is called.
//!
//! **Cost.** Each stage once. Where no observer wants the stages, statements of a large function
//! are given back as soon as its graphs are there.

pub(crate) mod all_variants;
pub(crate) mod inline_rollback;

use brolga_analysis::Variant;
use brolga_ir::block::{CfgBlocks, Ids};
use brolga_ir::lift::lift;
use brolga_ir::map::Table;
use brolga_ir::names::Names;
use brolga_ir::{BlockId, Diagnostics, Mode, TapeKind};
use cranelift_codegen::ir;

use crate::assemble::assembly::{VariantGraphs, assemble};
use crate::batch;
use crate::clif::passes::Remarks;
use crate::derived::{DerivedVariant, Symbols};
use crate::emit::Emitter;
use crate::facts::{Context, Facts};
use crate::plan::table::Plan;
use crate::primal::normalise::NormalisedPrimal;
use crate::program::forward_root::{ServingVariant, served};
use crate::program::variants::Worklist;
use crate::shadow::store_for_add::overwrites;
use crate::template::stored_pointer;
use crate::translate::make_ad_stmts;
use crate::translate::stmt::AdStmts;

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
    pub emitted: DerivedVariant,
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
pub(crate) struct VariantInput<'a> {
    pub primal: &'a NormalisedPrimal,
    pub variant: &'a Variant,
    pub goal: Goal,
    pub depth: Depth,
    /// Whether a function has been seen to move floats in pieces, so that all settle what they
    /// read.
    pub pieces: bool,
}

/// What variants share while they are derived.
pub(crate) struct VariantContext<'s, 'w, 'o> {
    pub work: &'s mut Worklist<'w>,
    pub names: &'s mut Names,
    pub observer: &'s mut Observer<'o>,
}

/// Is shown the statements of a variant.
type StmtObserver<'o> = &'o mut dyn FnMut(&Facts<'_>, &AdStmts);

/// What is shown of the work.
#[derive(Default)]
pub(crate) struct Observer<'o> {
    /// Is shown all stages of each variant, which are kept for it.
    pub stages: Option<&'o mut dyn FnMut(&Stages<'_>)>,
    /// Is shown the statements of each variant, before anything is assembled.
    pub statements: Option<StmtObserver<'o>>,
}

impl Observer<'_> {
    /// Show the statements of a variant.
    fn see_statements(&mut self, facts: &Facts<'_>, stmts: &AdStmts) {
        if let Some(look) = &mut self.statements {
            look(facts, stmts);
        }
    }

    /// Show what a variant went through.
    pub(crate) fn see_stages(&mut self, stages: &Stages<'_>) {
        if let Some(look) = &mut self.stages {
            look(stages);
        }
    }
}

/// What one function does that all have to know of.
pub(crate) enum ProgramFact {
    /// It computes a float's bits from integers in memory.
    Demands,
    /// It stores integers that may be a float's bits where there is no shadow: what becomes of them
    /// is not followed, as of numbers.
    Numbers,
    /// It moves words of eight bytes that need not lie as doubles do, where there may be such.
    UnalignedDoubles,
}

/// What came of a variant.
pub(crate) enum Outcome<'a> {
    /// It was examined, as far as was asked.
    Examined,
    /// It does something that all have to know of from the beginning.
    Needs(ProgramFact),
    /// A callee does what it would.
    Served(ServingVariant),
    /// All that it went through.
    Derived(Box<Stages<'a>>),
}

/// Statements beyond which those of a function are given back as soon as its graphs are there: what
/// is made next takes their place in memory, where the system would have to give more.
const LARGE: usize = 4000;

/// What has no batches.
const IN_PIECES: &str = "a function that moves floats in pieces, or is called by one,";

/// Derive a variant: all stages, in order.
pub(crate) fn derive_variant<'a>(
    cx: Context<'a>,
    input: VariantInput<'a>,
    VariantContext { work, names, observer }: VariantContext<'_, '_, '_>,
) -> Result<Outcome<'a>, Diagnostics> {
    let VariantInput { primal, variant, goal: Goal { symbols, mode, is_root }, depth, pieces } = input;

    let (mut facts, refused) = Facts::compute(cx, primal, variant, mode, is_root);
    if mode != Mode::Tangent {
        facts.overwrites = overwrites(&facts);
        facts.find_units_and_roots(is_root);
    }
    if let Some(need) = need(cx, &facts) {
        return Ok(Outcome::Needs(need));
    }

    let mut ids = Ids::default();
    let symbol = &cx.program.funcs[variant.func].symbol;
    let (mut lifted, forward_of) = lift(&primal.func, symbol, &mut ids);
    let mut statements = make_ad_stmts(&facts, refused, &mut ids, work)?;
    observer.see_statements(&facts, &statements.stmts);
    if depth == Depth::Examine {
        return Ok(Outcome::Examined);
    }
    let pieces = pieces || facts.needs_pieces();
    if cx.options.width != 1 && pieces {
        return Err(batch::refused(&facts, IN_PIECES));
    }
    if is_root && let Some(found) = served(&facts, variant, work, cx.options) {
        return Ok(Outcome::Served(found));
    }

    let stores_pointer = stored_pointer(&facts, &statements.stmts);
    let observed = observer.stages.is_some();
    // The emitter looks at statements whose fragments are about to be moved.
    let emitter = Emitter::new(&facts, &statements.stmts, cx.isa, names, is_root, pieces);
    let lift = (&mut lifted, &forward_of);
    let assembled = assemble(&facts, lift, &mut statements, symbols.both(), &mut ids, observed)?;
    if !observed && statements.stmts.len() >= LARGE {
        (statements.stmts, lifted.blocks) = Default::default();
    }
    let (emitted, remarks) = emitter.emit(&assembled, symbols)?;

    let overwrites = facts.overwrites.of_params(variant.params.len(), assembled.graphs.clears());
    let VariantGraphs { graphs, plan, .. } = assembled;
    let (forward, pullback, reverse_of) = graphs.into_parts();
    Ok(Outcome::Derived(Box::new(Stages {
        facts,
        lifted,
        stmts: statements.stmts,
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

/// What a function does that all have to know of, and do not yet.
fn need(cx: Context<'_>, facts: &Facts<'_>) -> Option<ProgramFact> {
    // A module asks where it stores them. A derivative that is derived again takes such words for
    // numbers, and so does forward mode in modules of embedders, which has no workspace for notes.
    let takes_numbers = match cx.options.mode {
        Mode::Tangent => cx.options.tape.is_standalone(),
        _ => cx.options.tape == TapeKind::Typed,
    };
    let may_ask = !cx.program.vmctx_pointers_only && !takes_numbers;
    let asks = || facts.activity.computes_bits() || may_ask && facts.activity.uses_unknown;
    if !cx.demanded && asks() {
        return Some(ProgramFact::Demands);
    }
    if !facts.summaries.makes_numbers() && facts.activity.leaves_shadows {
        return Some(ProgramFact::Numbers);
    }
    let unaligned = || facts.mode != Mode::Tangent && facts.moves_unaligned_words();
    (!cx.program.unaligned_doubles && unaligned()).then_some(ProgramFact::UnalignedDoubles)
}
