//! Worklist over variants: the pipeline for a function and everything that it calls.
//!
//! **Question.** A request leads to functions that call each other, under modes that only their
//! callers tell. In which order are they derived?
//!
//! **Answer.** A worklist of variants (a function together with the modes of its parameters and
//! results), each as a pair or as one function: deriving one may ask for others by name, and names
//! are handed out before bodies exist, so recursion needs nothing special. The root is not on it
//! unless it is a pair: a call of the root's own function asks for another variant, since more is
//! known of the root (that its result is asked for, what its pointers lead to) than of a call.
//! Functions whose address is taken are derived in their canonical variant as soon as an indirect
//! call is seen. Problems of all functions are collected and reported together.
//!
//! **Retries.** What one function does with the bits of floats, others have to know; a variant that
//! was derived before that was seen is derived again:
//! - *with demands*: a function computes a float's bits from integers in memory, so all functions
//!   say where they store such integers ([`brolga_analysis::activity::demanded_bits`]); everything
//!   starts again ([`derive_assuming`]);
//! - *with numbers*: a function stores integers that may be a float's bits where there is no
//!   shadow, so all functions say where they load such integers
//!   ([`brolga_analysis::activity::numbers`]); everything starts again, too;
//! - *with doubles anywhere*: a function of a module moves doubles as words that need not lie at
//!   multiples of eight; everything starts again, too;
//! - *with pieces*: a function moves floats in pieces, so what was derived before it settles
//!   what it reads ([`AllVariants::rederive_for_pieces`]);
//! - *stay*: a loop that was made a function, so that it keeps to a budget, is refused as a
//!   function; everything starts again, and it stays a loop ([`crate::program::outline`]);
//! - *forwarded*: a callee does what the root would; the worklist starts with that callee
//!   ([`crate::program::forward_root`]).
//!
//! **Cost.** Each variant is derived once, and at most once more for pieces. Everything is
//! derived again at most once for each fact that all have to know, and once for each set of loops
//! that are refused as functions.

use brolga_analysis::calls::summarise::PriorFacts;
use brolga_analysis::calls::{handed_down, opaque_allocator, summarise};
use brolga_analysis::query::signature_id;
use brolga_analysis::{ParamMode, ResultMode, Summaries, Variant};
use brolga_ir::driver::Driver;
use brolga_ir::map::IndexMap;
use brolga_ir::names::{Names, THUNK};
use brolga_ir::{Diagnostics, Effort, FloatOrder, FuncKey, MemoryMode, Mode, Options, Pass, Program, Request};
use brolga_rules::{OF_C, math_rule};
use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;
use cranelift_entity::EntitySet;

use crate::assemble::strands::{FloatSizes, float_sizes};
use crate::clif::dead_segment_arg;
use crate::clif::tail_recursion::jump_back;
use crate::derived::{AddressableFunction, Derivation, DerivedVariant, PairSymbols, Symbols};
use crate::facts::Context;
use crate::pipeline::{
    Depth, Goal, Observer, Outcome, ProgramFact, Stages, VariantContext, VariantInput, derive_variant,
};
use crate::primal::mem2reg::CalleeWrites;
use crate::primal::normalise::{NormalisedPrimal, PrimalCx, normalise};
use crate::program::check_request;
use crate::program::forward_root::{self, ServingVariant, on_tape};
use crate::program::inline::{Inlining, inlined};
use crate::program::outline::{OutlinedLoops, StayingLoop, functions_named, outline};
use crate::program::reachable::{addressed, calls_indirectly, primal_symbol, reach, with_called_by_rules, with_chain};
use crate::program::stack_states;
use crate::program::variants::{VariantForm, Worklist};
use crate::template;

/// What is taken for known of a program while it is derived.
#[derive(Clone, Copy)]
pub(crate) struct DerivationAssumptions<'a> {
    /// Which calls are replaced.
    pub inlining: &'a Inlining,
    /// Whether it is known that a function moves floats in pieces, so that all must settle what
    /// they read.
    pub pieces: bool,
    /// What else some function is known to do: all say where they store integers that become a
    /// float's bits ([`brolga_analysis::activity::demanded_bits`]), or where they load what is lost
    /// where there is no shadow ([`brolga_analysis::activity::numbers`]).
    pub known: PriorFacts,
    /// Whether it is known that a function moves words as if doubles need not lie at multiples of
    /// eight ([`Program::unaligned_doubles`]).
    pub unaligned: bool,
    /// Loops that are known to stay ([`outline`]).
    pub staying: &'a [StayingLoop],
}

impl<'a> DerivationAssumptions<'a> {
    /// With these calls replaced.
    pub(crate) fn with(inlining: &'a Inlining) -> Self {
        Self { inlining, pieces: false, known: PriorFacts::default(), unaligned: false, staying: &[] }
    }
}

/// A program, what is asked of it, and for which machine.
#[derive(Clone, Copy)]
pub(crate) struct DerivationInput<'a> {
    pub program: &'a Program,
    pub request: &'a Request,
    pub options: &'a Options,
    pub isa: &'a dyn TargetIsa,
}

/// Run the pipeline with these assumptions.
pub(crate) fn derive_assuming(
    asked: DerivationInput<'_>,
    assumptions: DerivationAssumptions<'_>,
    observer: Observer<'_>,
) -> Result<Derivation, Diagnostics> {
    Ok(run(asked, assumptions, Depth::Derive, observer)?.expect("all of it is derived"))
}

/// Ask what stands in the way of all variants that a request leads to, without deriving any: a
/// small part of the work.
pub(crate) fn examine(
    asked: DerivationInput<'_>,
    inlining: &Inlining,
    observer: Observer<'_>,
) -> Result<(), Diagnostics> {
    run(asked, DerivationAssumptions::with(inlining), Depth::Examine, observer).map(drop)
}

/// The pipeline, as far as `depth` says; without a derivation, if that is not all the way.
fn run(
    asked: DerivationInput<'_>,
    assumptions: DerivationAssumptions<'_>,
    depth: Depth,
    mut observer: Observer<'_>,
) -> Result<Option<Derivation>, Diagnostics> {
    check_request::check(asked.program, asked.request)?;
    check_request::check_width(asked.options)?;
    let options = &asked.options.settled();
    let asked = DerivationInput { options, ..asked };
    let mut assumptions = assumptions;
    let mut staying = assumptions.staying.to_vec();
    loop {
        assumptions = match derive_all(asked, assumptions, &staying, depth, &mut observer)? {
            RunEnd::Ends(found) => return Ok(found.map(|d| *d)),
            RunEnd::Stay(loops) => {
                staying.extend(loops);
                assumptions
            }
            RunEnd::Needs(ProgramFact::Demands) => DerivationAssumptions {
                pieces: true,
                known: PriorFacts { demanded: true, ..assumptions.known },
                ..assumptions
            },
            RunEnd::Needs(ProgramFact::Numbers) => {
                DerivationAssumptions { known: PriorFacts { leaves_shadows: true, ..assumptions.known }, ..assumptions }
            }
            RunEnd::Needs(ProgramFact::UnalignedDoubles) => DerivationAssumptions { unaligned: true, ..assumptions },
        };
    }
}

/// How a run of the driver ends.
enum RunEnd {
    /// With a derivation, if one was asked for.
    Ends(Option<Box<Derivation>>),
    /// All have to start again, and know of something.
    Needs(ProgramFact),
    /// All have to start again, and these loops are not outlined.
    Stay(Vec<StayingLoop>),
}

fn derive_all(
    asked: DerivationInput<'_>,
    assumptions: DerivationAssumptions<'_>,
    staying: &[StayingLoop],
    depth: Depth,
    observer: &mut Observer<'_>,
) -> Result<RunEnd, Diagnostics> {
    let Primals { mut program, keys, normalised, problems, loops } = primals(asked, assumptions.inlining, staying);
    program.unaligned_doubles |= assumptions.unaligned;
    if !normalised.contains_key(&asked.request.func) {
        return Err(problems);
    }
    let bodies = normalised.iter().map(|(k, n)| (*k, n.body())).collect();
    let mut summaries = Summaries::as_asked(&program, &bodies, assumptions.known);
    let root = Variant::of_request(asked.request, &bodies[&asked.request.func].func.signature);
    handed_down::compute(&program, &bodies, &root, &mut summaries);
    let asked = DerivationInput { program: &program, ..asked };
    let mut all = AllVariants::new(asked, assumptions, &normalised, &summaries, problems);
    if let Err(need) = all.work_off(depth, observer) {
        return Ok(RunEnd::Needs(need));
    }
    if let Some(loops) = loops.refused(&all.refused, &all.storing(), &all.as_bodies) {
        return Ok(RunEnd::Stay(loops));
    }
    if depth == Depth::Examine {
        return all.problems.or_ok(RunEnd::Ends(None));
    }
    all.rederive_for_pieces()?;
    all.finish()?;
    let AllVariants { found, account, task_floats, as_bodies, .. } = all;
    let normalised = normalised.into_iter().map(|(k, n)| (k, n.func)).collect();
    let forks = has_tasks(&program);
    let one_tape = one_tape(&found, account, asked).filter(|_| forks);
    let has_strands = one_tape.is_none() && found.pairs.iter().any(|p| p.variant.strand);
    // In forward mode nothing is added up.
    let forward = asked.options.mode == Mode::Tangent && !found.entries.is_empty() && one_tape.is_none();
    let task_floats = if has_strands { task_floats.only() } else { forward.then_some(8) };
    let sizes = has_strands && task_floats.is_none();
    let one_tape = one_tape
        .or_else(|| made_of_body(&program, &as_bodies, asked.options))
        .or_else(|| sizes.then(|| "they add to shadows of floats of both sizes".into()));
    let known = assumptions.known;
    let combined_funcs = found.combined.iter().chain(&found.joint).map(|w| &w.func);
    let derived = combined_funcs.chain(found.pairs.iter().flat_map(|p| [&p.forward, &p.pullback]));
    let primals = with_called_by_rules(&program, keys, derived, &found.names);
    let loops = loops.outcomes();
    let derivation = Derivation { loops, program, primals, normalised, task_floats, one_tape, known, ..found };
    Ok(RunEnd::Ends(Some(Box::new(derivation))))
}

/// Why tasks of forks have to run one after the other, on one tape: cotangents that come in
/// pieces are known to one segment, a debug run knows the shadows that it is told of, and sums
/// of each task are added up in another order than the program's.
fn one_tape(found: &Derivation, account: Option<String>, asked: DerivationInput<'_>) -> Option<String> {
    let unaligned = found.pieces && asked.program.unaligned_doubles;
    let why = |is: bool, what: &str| is.then(|| what.to_owned());
    account
        .or_else(|| why(unaligned, "doubles are moved as words that need not lie at multiples of eight"))
        .or_else(|| why(asked.options.debug, "it is a debug run"))
        .or_else(|| why(asked.options.float_order == FloatOrder::AsWritten, "floats are added up as written"))
}

/// Whether a program forks.
fn has_tasks(program: &Program) -> bool {
    program.funcs.values().any(|f| matches!(f.driver, Some(Driver::Tasks(_))))
}

/// Why a fork is derived as a loop over its tasks, if one is.
fn made_of_body(program: &Program, as_bodies: &[FuncKey], options: &Options) -> Option<String> {
    let fork = as_bodies.iter().find(|&&k| matches!(program.funcs[k].driver, Some(Driver::Tasks(_))))?;
    Some(match options.keeps_states() {
        true => format!("%{} gives them something that has a cotangent", program.funcs[*fork].symbol),
        false => "memory is restored, derivatives come in a batch, or the tape is another's".into(),
    })
}

/// The primal functions, ready to be derived.
struct Primals {
    /// The program, with what inlining needs beside it.
    program: Program,
    /// Functions with a body that the root reaches.
    keys: Vec<FuncKey>,
    /// Those that may be derived, normalised.
    normalised: IndexMap<FuncKey, NormalisedPrimal>,
    /// Why others cannot be.
    problems: Diagnostics,
    /// Loops that have been made functions.
    loops: OutlinedLoops,
}

/// Reachable functions, inlined and normalised, with loops outlined but for some.
fn primals(asked: DerivationInput<'_>, inlining: &Inlining, staying: &[StayingLoop]) -> Primals {
    let DerivationInput { request, options, isa, .. } = asked;
    let mut program = asked.program.clone();
    let mut problems = Diagnostics::default();
    let mut normalised: IndexMap<FuncKey, NormalisedPrimal> = IndexMap::default();
    let mut keys = reach(&mut program, request.func);
    stack_states::derive_from_bodies(&mut program, &keys, request.func, options.mode);
    // Where memory is restored, allocators are derived, since all that they write is undone.
    if options.runs(Pass::OpaqueAllocator) && options.memory == MemoryMode::Leave {
        program.plain = opaque_allocator::functions(&program, &keys, request.func);
    }
    // What a user's rule is for is called as it is.
    let ruled = keys.iter().filter(|&&k| k != request.func && program.funcs[k].rule.is_some());
    program.plain.extend(ruled.copied().collect::<Vec<_>>());
    // Calls by whose name a loop is known stay.
    let mut inlining = inlining.clone();
    let named = options.checkpoints.around.iter().flat_map(|(name, _)| functions_named(&program, name));
    inlining.not.extend(named.collect::<Vec<_>>());
    let mut bodies = inlined(&mut program, &keys, &inlining, isa);
    keys.retain(|&k| program.funcs[k].body.is_some());
    // Functions all of whose calls were replaced need no derivative, nor do those that are called
    // as they are, with what they alone call.
    let mut reached = EntitySet::new();
    reached.extend(summarise::reachable_in(&program, request.func, |k| {
        bodies.get(&k).or(program.funcs[k].body.as_ref()).filter(|_| !program.plain.contains(k))
    }));
    let callees = CalleeWrites::new(&program);
    for &k in &keys {
        let f = &program.funcs[k];
        let needed = reached.contains(k) && !program.plain.contains(k) || f.symbol.ends_with(THUNK);
        let Some(original) = f.body.as_ref().filter(|_| needed) else { continue };
        let body = bodies.remove(&k).unwrap_or_else(|| original.clone());
        match normalise(
            body,
            PrimalCx { program: &program, key: k, callees: &callees, enabled: options.enabled(), isa },
        ) {
            Ok(n) => {
                normalised.insert(k, n);
            }
            Err(e) => problems.extend(e.0),
        }
    }
    let mut loops = OutlinedLoops::default();
    if problems.is_empty() {
        match outline(&mut program, &mut keys, &mut normalised, staying, request.func, options, isa) {
            Ok(found) => loops = found,
            Err(e) => problems.extend(e.0),
        }
    }
    Primals { program, keys, normalised, problems, loops }
}

/// The worklist, and what has come of it so far.
struct AllVariants<'a> {
    asked: DerivationInput<'a>,
    assumptions: DerivationAssumptions<'a>,
    normalised: &'a IndexMap<FuncKey, NormalisedPrimal>,
    summaries: &'a Summaries,
    work: Worklist<'a>,
    /// Variants of the worklist that have been taken from it.
    taken: usize,
    problems: Diagnostics,
    /// What the variants are and say. What the program as a whole says is added last.
    found: Derivation,
    /// Why one segment has to keep account of floats in pieces.
    account: Option<String>,
    /// What pullbacks of tasks add up.
    task_floats: FloatSizes,
    /// Functions whose address is taken.
    addressed: Vec<FuncKey>,
    /// What was derived before a function was seen to move floats in pieces.
    early: Vec<(Variant, Goal, VariantSlot)>,
    /// A root that the first of the variants serves, and its symbol.
    served: Option<(Variant, String)>,
    /// Drivers whose pairs are templates.
    templates: Vec<FuncKey>,
    /// Functions that store pointers, and where.
    stored: Vec<(FuncKey, ir::Inst)>,
    /// Functions that are refused.
    refused: Vec<FuncKey>,
    /// Drivers whose pairs are made of their bodies.
    as_bodies: Vec<FuncKey>,
}

/// Where what a variant became is kept.
enum VariantSlot {
    Root,
    Pair(usize),
    Joint(usize),
}

impl<'a> AllVariants<'a> {
    /// Nothing is derived yet.
    fn new(
        asked: DerivationInput<'a>,
        assumptions: DerivationAssumptions<'a>,
        normalised: &'a IndexMap<FuncKey, NormalisedPrimal>,
        summaries: &'a Summaries,
        problems: Diagnostics,
    ) -> Self {
        let program = asked.program;
        let mut names = Names::default();
        let defined = program.funcs.values().filter(|f| f.body.is_some() || f.host.is_some()).map(|f| &f.symbol);
        let of_c = defined.chain(program.data.values().map(|d| &d.symbol)).filter(|s| math_rule(s).is_some());
        names.of_c.extend(of_c.map(|s| (s.clone(), format!("{OF_C}{s}"))));
        Self {
            asked,
            assumptions,
            normalised,
            summaries,
            work: Worklist::new(program, summaries),
            taken: 0,
            problems,
            found: Derivation { names, pieces: assumptions.pieces, ..Derivation::default() },
            account: assumptions
                .known
                .demanded
                .then(|| "a function computes bits of floats from integers in memory".into()),
            task_floats: FloatSizes::default(),
            addressed: addressed(program, normalised),
            early: Vec::new(),
            served: None,
            templates: Vec::new(),
            stored: Vec::new(),
            refused: Vec::new(),
            as_bodies: Vec::new(),
        }
    }

    fn context(&self) -> Context<'a> {
        let DerivationInput { program, options, isa, .. } = self.asked;
        Context { program, options, summaries: self.summaries, demanded: self.assumptions.known.demanded, isa }
    }

    /// Derive the root and all that it asks for. False if all have to start again, with demands.
    fn work_off(&mut self, depth: Depth, observer: &mut Observer<'_>) -> Result<(), ProgramFact> {
        let DerivationInput { program, request, options, .. } = self.asked;
        let mut root = Variant::of_request(request, &program.funcs[request.func].signature);
        if options.mode == Mode::Tangent || options.width != 1 {
            // A tangent is computed whatever the seed would be, and of several seeds not all are
            // one.
            root.results.iter_mut().filter(|r| **r == ResultMode::Unit).for_each(|r| *r = ResultMode::Active);
        }
        if options.mode == Mode::Tangent {
            let symbols = self.work.fresh(root.func, VariantForm::Tangent);
            let goal = Goal { symbols, mode: options.mode, is_root: true };
            self.derive(root, goal, depth, observer)?;
        } else if options.mode == Mode::Split {
            self.work.exactly(root);
        } else {
            let symbols = self.work.fresh(root.func, VariantForm::Combined);
            let goal = Goal { symbols, mode: options.mode, is_root: true };
            self.derive(root, goal, depth, observer)?;
        }
        while let Some((variant, kind)) = self.work.variants.get_index(self.taken).cloned() {
            let symbols = self.work.names[self.taken].clone();
            let is_root = self.taken == 0 && options.mode == Mode::Split;
            self.taken += 1;
            let mode = match kind {
                VariantForm::Pair => Mode::Split,
                VariantForm::Combined => Mode::Gradient,
                VariantForm::Tangent => Mode::Tangent,
            };
            self.derive(variant, Goal { symbols, mode, is_root }, depth, observer)?;
        }
        Ok(())
    }

    /// Derive one variant, unless all have to start again.
    fn derive(
        &mut self,
        variant: Variant,
        goal: Goal,
        depth: Depth,
        observer: &mut Observer<'_>,
    ) -> Result<(), ProgramFact> {
        let Some(primal) = self.normalised.get(&variant.func) else { return Ok(()) };
        if self.found.captures.is_empty() && calls_indirectly(&primal.func) {
            self.capture_all();
        }
        // What is refused is looked at for more of that, and for nothing else.
        let depth = if self.problems.is_empty() { depth } else { Depth::Examine };
        let input = VariantInput { primal, variant: &variant, goal: goal.clone(), depth, pieces: self.found.pieces };
        let cx = self.context();
        if let (Symbols::Pair(symbols), false) = (&goal.symbols, goal.is_root)
            && let Some((pair, entries)) = template::pair(cx, &variant, symbols, &mut self.work, &mut self.found.names)
        {
            self.templates.push(variant.func);
            self.found.pairs.push(pair);
            self.found.entries.extend(entries);
            return Ok(());
        }
        if let (Symbols::Combined(symbol), false, Mode::Tangent) = (&goal.symbols, goal.is_root, goal.mode)
            && let Some((func, entry)) = template::tangent(cx, &variant, symbol, &mut self.work, &mut self.found.names)
        {
            self.found.joint.push(func);
            self.found.entries.push(entry);
            return Ok(());
        }
        if cx.program.funcs[variant.func].driver.is_some() {
            self.as_bodies.push(variant.func);
        }
        let shared = VariantContext { work: &mut self.work, names: &mut self.found.names, observer };
        match derive_variant(cx, input, shared) {
            Ok(Outcome::Examined) => {}
            Ok(Outcome::Needs(need)) => return Err(need),
            Ok(Outcome::Served(found)) => self.forward(variant, goal, found),
            Ok(Outcome::Derived(mut stages)) => {
                stages.serves = self.served.is_some() && self.taken == 1;
                observer.see_stages(&stages);
                self.keep(*stages, goal);
            }
            Err(e) => {
                let root = self.asked.request.func;
                self.refused.push(variant.func);
                self.problems.extend(with_chain(e, self.asked.program, root, variant.func).0);
            }
        }
        Ok(())
    }

    /// Drivers with a state whose steps store pointers.
    fn storing(&self) -> Vec<FuncKey> {
        let program = self.asked.program;
        let stores = |d: &&FuncKey| {
            let reached = summarise::reachable(program, **d);
            self.stored.iter().any(|s| reached.contains(&s.0))
        };
        self.templates.iter().filter(stores).copied().collect()
    }

    /// Functions whose address is taken are derived as indirect calls ask for them.
    fn capture_all(&mut self) {
        let program = self.asked.program;
        // A task may call them.
        let forks = has_tasks(program) && self.asked.options.keeps_states() && !self.asked.options.debug;
        for &k in &self.addressed {
            let sig = &program.funcs[k].signature;
            let signature = signature_id(sig);
            let mut variant = Variant::canonical(k, sig);
            variant.strand = forks;
            for (i, p) in variant.params.iter_mut().enumerate() {
                if let ParamMode::Dup { holds, .. } = p {
                    *holds = self.summaries.indirect_contents(signature, i).told();
                }
            }
            let PairSymbols { forward, pullback } = if self.asked.options.mode == Mode::Tangent {
                let tangent = self.work.ask(variant, VariantForm::Tangent).combined();
                PairSymbols { forward: tangent.clone(), pullback: tangent }
            } else {
                self.work.exactly(variant)
            };
            let symbol = primal_symbol(program, k);
            self.found.captures.push(AddressableFunction { symbol, signature, forward, pullback });
        }
    }

    /// Start the worklist again, with what serves the root.
    fn forward(&mut self, root: Variant, goal: Goal, ServingVariant { by: (variant, kind), pieces }: ServingVariant) {
        let Symbols::Combined(symbol) = goal.symbols else { unreachable!("a pair serves itself") };
        self.found.pieces |= pieces;
        if pieces {
            self.account.get_or_insert_with(|| "floats move in pieces".into());
        }
        self.found.overwrites = vec![false; root.params.len()];
        self.work = Worklist::new(self.asked.program, self.summaries);
        self.work.suffix(root.func, VariantForm::Combined);
        self.work.ask(variant, kind);
        self.found.captures.clear();
        self.served = Some((root, symbol));
    }

    /// Keep what a variant has become.
    fn keep(&mut self, stages: Stages<'_>, goal: Goal) {
        let (facts, found) = (&stages.facts, &mut self.found);
        found.pieces |= facts.needs_pieces();
        if self.account.is_none() {
            self.account = facts.keeps_account().map(|(inst, what)| {
                let (program, func) = (self.asked.program, facts.variant.func);
                let place = || format!("%{}", program.funcs[func].symbol);
                format!("{} {what}", inst.map_or_else(place, |i| program.place(func, facts.original(i))))
            });
        }
        found.numbers |= facts.expects_numbers();
        found.guessed |= facts.guessed();
        if facts.variant.strand {
            self.task_floats.join(float_sizes(&stages.pullback));
        }
        let at = stages.stores_pointer.map(|i| (facts.variant.func, facts.original(i)));
        self.stored.extend(at);
        if goal.is_root {
            found.overwrites = stages.overwrites;
        }
        let place = match stages.emitted {
            DerivedVariant::Pair(p) => {
                found.pairs.push(*p);
                VariantSlot::Pair(found.pairs.len() - 1)
            }
            DerivedVariant::Combined(w) if goal.is_root => {
                found.combined = Some(*w);
                VariantSlot::Root
            }
            DerivedVariant::Combined(w) => {
                found.joint.push(*w);
                VariantSlot::Joint(found.joint.len() - 1)
            }
        };
        stages.forward.recycle();
        stages.pullback.recycle();
        if !found.pieces {
            self.early.push((facts.variant.clone(), goal, place));
        }
    }

    /// What was derived before a function was seen to move floats in pieces has to settle what it
    /// reads.
    fn rederive_for_pieces(&mut self) -> Result<(), Diagnostics> {
        if !self.found.pieces || !self.problems.is_empty() {
            return Ok(());
        }
        let asked_for = self.work.variants.len();
        for (variant, goal, place) in std::mem::take(&mut self.early) {
            let primal = &self.normalised[&variant.func];
            let input = VariantInput { primal, variant: &variant, goal, depth: Depth::Derive, pieces: true };
            let cx = self.context();
            let observer = &mut Observer::default();
            let shared = VariantContext { work: &mut self.work, names: &mut self.found.names, observer };
            let Outcome::Derived(rerun) = derive_variant(cx, input, shared)? else {
                unreachable!("it has been derived")
            };
            match (rerun.emitted, place) {
                (DerivedVariant::Pair(p), VariantSlot::Pair(i)) => self.found.pairs[i] = *p,
                (DerivedVariant::Combined(w), VariantSlot::Joint(i)) => self.found.joint[i] = *w,
                (DerivedVariant::Combined(w), _) => self.found.combined = Some(*w),
                (DerivedVariant::Pair(_), _) => unreachable!("a variant becomes what it became before"),
            }
        }
        debug_assert_eq!(asked_for, self.work.variants.len(), "a second derivation asks for the same variants");
        Ok(())
    }

    /// What joins the functions: a root that is served, segments without a use, tail recursion.
    fn finish(&mut self) -> Result<(), Diagnostics> {
        std::mem::take(&mut self.problems).or_ok(())?;
        template::check(self.asked.program, &self.templates, &self.stored)?;
        let found = &mut self.found;
        let options = self.asked.options;
        if let Some((variant, symbol)) = self.served.take() {
            let ((by, _), callees) = (&self.work.variants[0], &self.work.names[0]);
            if let Symbols::Pair(callees) = callees {
                found.spare = found.pairs.iter().find(|p| p.forward_symbol == callees.forward).map_or(0, on_tape);
            }
            let primal = &self.normalised[&variant.func].func.signature;
            let names = &mut found.names;
            found.combined = Some(forward_root::root(variant, by, callees, symbol, options.mode, primal, names));
        }
        let entered = found.entries.iter().map(|e| e.calls.as_str());
        let captured = found.captures.iter().map(|c| c.forward.as_str()).chain(entered).collect();
        let (combined, names) = (found.combined.as_mut(), &found.names);
        dead_segment_arg::forget(combined, &mut found.joint, &mut found.pairs, &captured, names);
        if options.effort != Effort::Quick {
            found.joint.iter_mut().for_each(|w| jump_back(&mut w.func, &w.symbol, &found.names));
        }
        Ok(())
    }
}
