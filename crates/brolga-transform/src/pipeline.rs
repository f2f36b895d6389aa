//! The whole pipeline, for a function and everything that it calls.
//!
//! A worklist of variants (a function together with the modes of its parameters and results), each
//! as a pair or whole: deriving one may ask for others by name, and names are handed out before
//! bodies exist, so recursion needs nothing special. The root is not on it unless it is a pair: a
//! call of the root's own function asks for another whole, since more is known of the root (that
//! its result is asked for, what its pointers lead to) than of a call. Functions whose address is
//! taken are derived in their canonical variant as soon as an indirect call is seen. Problems of
//! all functions are collected and reported together.

use brolga_analysis::calls::{opaque_allocator, summarise};
use brolga_analysis::memory::alias::Places;
use brolga_analysis::query::signature_id;
use brolga_analysis::{CalleeKind, ParamMode, Summaries, Variant};
use brolga_ir::block::{CfgBlocks, Ids, Role, Term};
use brolga_ir::inst::{AdInst, AdOp, Tape, Val};
use brolga_ir::lift::lift;
use brolga_ir::lower::{Fence, LowerEnv, Lowered, lower_with_checks};
use brolga_ir::map::{IndexMap, Table};
use brolga_ir::names::{Names, THUNK};
use brolga_ir::{BlockId, Diagnostics, Effort, FuncKey, MemoryMode, Mode, Options, Program, Request};
use brolga_rules::{OF_C, math_rule};
use cranelift_codegen::ir::{self, InstructionData};
use cranelift_codegen::isa::TargetIsa;
use cranelift_entity::EntitySet;

use crate::assemble::combined::combine;
use crate::assemble::forward::forward;
use crate::assemble::pullback::{Pullbacks, either, pullback};
use crate::clif::dead_segment_arg;
use crate::clif::passes::{Beside, Loops};
use crate::clif::preaccumulate::Choice;
use crate::clif::simplify_cfg::tidy;
use crate::clif::tail_recursion::jump_back;
use crate::dce::{Known, prune};
use crate::derived::{Addressable, Derivation, DerivedPair, DerivedWhole, Emitted};
use crate::facts::Facts;
use crate::guards::inspector_loop::watch_once;
use crate::guards::versioning::{Watched, watched};
use crate::plan::liveness::Liveness;
use crate::plan::plan as make_plan;
use crate::plan::rerun_loops::{again, holds_good};
use crate::plan::table::{Again, Plan};
use crate::primal::cse::copies;
use crate::primal::mem2reg::Callees;
use crate::primal::normalise::{Normalised, normalise};
use crate::program::check_request;
use crate::program::forward_root::{self, Served, on_tape, served};
use crate::program::inline::{Inlining, inlined};
use crate::program::reachable::{addressed, calls_indirectly, primal_symbol, reach, with_chain};
use crate::program::variants::{Kind, Worklist};
use crate::shadow::monotone_rows::{can_clear, only_clears};
use crate::shadow::store_for_add::overwrites;
use crate::translate::rules;
use crate::translate::stmt::{AdStmt, AdStmts, Given, Translation};

/// Every stage of one variant, for those who look.
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
    /// What became of loops.
    pub loops: Loops,
    /// The emitted functions.
    pub emitted: Emitted,
    /// Whether the root only calls this.
    pub serves: bool,
}

/// How a program is derived, beyond what the caller asks for.
#[derive(Clone, Copy)]
pub(crate) struct Manner<'a> {
    /// Which calls are replaced.
    pub inlining: &'a Inlining,
    /// Whether it is known that a function moves floats in pieces, so that all must settle what
    /// they read.
    pub pieces: bool,
    /// Whether it is known that a function computes a float's bits from integers in memory, so that
    /// all say where they store such integers ([`brolga_analysis::activity::demand`]).
    pub demanded: bool,
    /// How far.
    pub(crate) far: Looking,
    /// Whether somebody looks at the stages of variants.
    pub(crate) looks: bool,
}

impl<'a> Manner<'a> {
    /// All the way, with these calls replaced.
    pub fn with(inlining: &'a Inlining) -> Self {
        Self { inlining, pieces: false, demanded: false, far: Looking::Derive, looks: false }
    }
}

/// Run the pipeline in one manner and not otherwise. `glance` sees of each variant what its
/// statements become, before anything is assembled.
pub(crate) fn derive_once(
    program: &Program,
    request: &Request,
    options: &Options,
    manner: Manner<'_>,
    isa: &dyn TargetIsa,
    look: impl FnMut(&Stages<'_>),
    glance: impl FnMut(&Facts<'_>, &AdStmts),
) -> Result<Derivation, Diagnostics> {
    let found = run(program, request, options, manner, isa, look, glance)?;
    Ok(found.expect("all of it is derived"))
}

/// Ask what stands in the way of all variants that a request leads to, without deriving any: a
/// small part of the work.
pub(crate) fn examine(
    program: &Program,
    request: &Request,
    options: &Options,
    inlining: &Inlining,
    isa: &dyn TargetIsa,
    glance: impl FnMut(&Facts<'_>, &AdStmts),
) -> Result<(), Diagnostics> {
    let manner = Manner { far: Looking::Examine, ..Manner::with(inlining) };
    run(program, request, options, manner, isa, |_| {}, glance).map(drop)
}

/// The pipeline, as far as `manner` says; without a derivation, if that is not all the way.
fn run(
    program: &Program,
    request: &Request,
    options: &Options,
    manner: Manner<'_>,
    isa: &dyn TargetIsa,
    mut look: impl FnMut(&Stages<'_>),
    mut glance: impl FnMut(&Facts<'_>, &AdStmts),
) -> Result<Option<Derivation>, Diagnostics> {
    check_request::check(program, request)?;
    let options = &options.settled();
    let as_given = program;
    let mut program = program.clone();
    let mut problems = Diagnostics::default();
    let mut normalised: IndexMap<FuncKey, Normalised> = IndexMap::default();
    let mut primals = reach(&mut program, request.func);
    // Where memory is restored, allocators are derived, since all that they write is undone.
    if options.ideas.plain && options.memory == MemoryMode::Leave {
        program.plain = opaque_allocator::functions(&program, &primals, request.func);
    }
    let mut bodies = inlined(&mut program, &primals, manner.inlining, isa);
    primals.retain(|&k| program.funcs[k].body.is_some());
    // Functions all of whose calls were replaced need no derivative, nor do those that are called
    // as they are, with what they alone call.
    let mut reached = EntitySet::new();
    reached.extend(summarise::reachable_in(&program, request.func, |k| {
        bodies.get(&k).or(program.funcs[k].body.as_ref()).filter(|_| !program.plain.contains(k))
    }));
    let callees = Callees::new(&program);
    for &k in &primals {
        let f = &program.funcs[k];
        let needed = reached.contains(k) && !program.plain.contains(k) || f.symbol.ends_with(THUNK);
        let Some(own) = f.body.as_ref().filter(|_| needed) else { continue };
        match normalise(&program, k, bodies.remove(&k).unwrap_or_else(|| own.clone()), &callees, isa) {
            Ok(n) => {
                normalised.insert(k, n);
            }
            Err(e) => problems.extend(e.0),
        }
    }
    if !normalised.contains_key(&request.func) {
        return Err(problems);
    }
    let summaries =
        Summaries::as_asked(&program, &normalised.iter().map(|(k, n)| (*k, n.body())).collect(), manner.demanded);
    let addressed = addressed(&program, &normalised);

    let mut work = Worklist::new(&program, &summaries);
    let root = Variant::of_request(request, &program.funcs[request.func].signature);
    let mut first = (options.mode != Mode::Split).then_some(root.clone());
    if first.is_none() {
        work.exactly(root);
    }
    let mut names = Names::default();
    let own = program.funcs.values().filter(|f| f.body.is_some() || f.host.is_some()).map(|f| &f.symbol);
    let of_c = own.chain(program.data.values().map(|d| &d.symbol)).filter(|s| math_rule(s).is_some());
    names.of_c.extend(of_c.map(|s| (s.clone(), format!("{OF_C}{s}"))));
    let mut whole = None;
    let (mut pairs, mut wholes) = (Vec::new(), Vec::new());
    let mut captures = Vec::new();
    let mut overwrites = Vec::new();
    let mut guessed = 0;
    let common = Common { program: &program, options, summaries: &summaries, demanded: manner.demanded, isa };
    // Who reads what others move in pieces has to know; who was derived before that was seen is
    // derived again.
    let mut pieces = manner.pieces;
    let mut early: Vec<(Variant, Wanted, Place)> = Vec::new();
    // A root that the first of the variants serves, and its symbol.
    let mut is_served: Option<(Variant, String)> = None;
    let mut at = 0;
    loop {
        let is_root = first.is_some() || at == 0 && options.mode == Mode::Split;
        let (variant, symbols, mode) = match first.take() {
            Some(root) => {
                let suffix = work.suffix(root.func, Kind::Whole);
                let symbol = format!("{}__gradient{suffix}", program.funcs[root.func].symbol);
                (root, (symbol, String::new()), options.mode)
            }
            None if at == work.variants.len() => break,
            None => {
                at += 1;
                let (variant, kind) = work.variants[at - 1].clone();
                let mode = if kind == Kind::Pair { Mode::Split } else { Mode::Gradient };
                (variant, work.names[at - 1].clone(), mode)
            }
        };
        let Some(primal) = normalised.get(&variant.func) else { continue };
        if captures.is_empty() && calls_indirectly(&primal.func) {
            for &k in &addressed {
                let sig = program.funcs[k].signature.clone();
                let mut variant = Variant::canonical(k, &sig);
                for (i, p) in variant.params.iter_mut().enumerate() {
                    if let ParamMode::Dup { holds, .. } = p {
                        *holds = summaries.indirect_contents(signature_id(&sig), i).told();
                    }
                }
                let (forward, pullback) = work.exactly(variant);
                let symbol = primal_symbol(&program, k);
                captures.push(Addressable { symbol, signature: signature_id(&sig), forward, pullback });
            }
        }
        let to = Wanted { symbols, mode, is_root };
        // What is refused is looked at for more of that, and for nothing else.
        let wanted = if problems.is_empty() { manner.far } else { Looking::Examine };
        let how = How { to: to.clone(), looking: wanted, pieces, looks: manner.looks };
        match derive_one(common, primal, &variant, how, &mut work, &mut names, &mut glance) {
            Ok(Became::Looked) => {}
            Ok(Became::Demanding) => {
                let manner = Manner { pieces: true, demanded: true, ..manner };
                return run(as_given, request, options, manner, isa, look, glance);
            }
            Ok(Became::Served(found)) => {
                pieces |= found.pieces;
                overwrites = vec![false; variant.params.len()];
                work = Worklist::new(&program, &summaries);
                work.suffix(variant.func, Kind::Whole);
                work.ask(found.by.0, found.by.1);
                captures.clear();
                is_served = Some((variant, to.symbols.0));
            }
            Ok(Became::Derived(mut stages)) => {
                stages.serves = is_served.is_some() && at == 1;
                look(&stages);
                pieces |= stages.facts.activity.moves_pieces(stages.facts.program);
                guessed |= stages.facts.activity.guessed(stages.facts.func(), stages.facts.cfg);
                if is_root {
                    overwrites.clone_from(&stages.facts.overwrites.whole);
                }
                let place = match stages.emitted {
                    Emitted::Pair(p) => {
                        pairs.push(*p);
                        Place::Pair(pairs.len() - 1)
                    }
                    Emitted::Whole(w) if is_root => {
                        whole = Some(*w);
                        Place::Root
                    }
                    Emitted::Whole(w) => {
                        wholes.push(*w);
                        Place::Whole(wholes.len() - 1)
                    }
                };
                stages.forward.recycle();
                stages.pullback.recycle();
                if !pieces {
                    early.push((variant.clone(), to, place));
                }
            }
            Err(e) => problems.extend(with_chain(e, &program, request.func, variant.func).0),
        }
    }
    if manner.far == Looking::Examine {
        return problems.or_ok(None);
    }
    if pieces && problems.is_empty() {
        let asked = work.variants.len();
        for (variant, to, place) in early {
            let how = How { to, looking: Looking::Derive, pieces: true, looks: false };
            let primal = &normalised[&variant.func];
            let again = derive_one(common, primal, &variant, how, &mut work, &mut names, &mut |_, _| {})?;
            let Became::Derived(again) = again else { unreachable!("it has been derived") };
            match (again.emitted, place) {
                (Emitted::Pair(p), Place::Pair(i)) => pairs[i] = *p,
                (Emitted::Whole(w), Place::Whole(i)) => wholes[i] = *w,
                (Emitted::Whole(w), _) => whole = Some(*w),
                (Emitted::Pair(_), _) => unreachable!("a variant becomes what it became before"),
            }
        }
        debug_assert_eq!(asked, work.variants.len(), "who is derived again asks for what he asked for");
    }
    let mut spare = 0;
    if problems.is_empty() {
        if let Some((variant, symbol)) = is_served {
            let (by, callees) = (&work.variants[0], &work.names[0]);
            spare = pairs.iter().find(|p| p.forward_symbol == callees.0).map_or(0, on_tape);
            let primal = &normalised[&variant.func].func.signature;
            whole = Some(forward_root::root(variant, by, callees, (symbol, options.mode), primal, &mut names));
        }
        dead_segment_arg::forget(whole.as_mut(), &mut wholes, &mut pairs, &names);
        if options.effort != Effort::Quick {
            wholes.iter_mut().for_each(|w| jump_back(&mut w.func, &w.symbol, &names));
        }
    }
    let normalised = normalised.into_iter().map(|(k, n)| (k, n.func)).collect();
    problems.or_ok(Some(Derivation {
        program,
        whole,
        pairs,
        wholes,
        captures,
        overwrites,
        names,
        primals,
        normalised,
        pieces,
        demanded: manner.demanded,
        guessed,
        spare,
    }))
}

/// Where what a variant became is kept.
enum Place {
    Root,
    Pair(usize),
    Whole(usize),
}

/// What a variant is to become.
#[derive(Clone)]
struct Wanted {
    /// Symbols of forward pass and pullback, or of the combined function and nothing.
    symbols: (String, String),
    mode: Mode,
    /// Whether the caller asks for this function itself.
    is_root: bool,
}

/// How far a variant is derived.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looking {
    /// All the way.
    Derive,
    /// Until it is known what stands in the way, and which variants of others it asks for.
    Examine,
}

/// What came of a variant.
enum Became<'a> {
    /// It was looked at, as far as was asked.
    Looked,
    /// It computes a float's bits from integers in memory, which has to be known from the
    /// beginning.
    Demanding,
    /// A callee does what it would.
    Served(Served),
    /// All that it went through.
    Derived(Box<Stages<'a>>),
}

/// What all variants are derived from.
#[derive(Clone, Copy)]
struct Common<'a> {
    program: &'a Program,
    options: &'a Options,
    summaries: &'a Summaries,
    /// Whether some function computes a float's bits from integers in memory.
    demanded: bool,
    isa: &'a dyn TargetIsa,
}

/// Statements of a function of which nothing is kept longer than it is needed.
const LARGE: usize = 4000;

/// How a variant is derived.
struct How {
    to: Wanted,
    looking: Looking,
    /// A function has been seen to move floats in pieces, so that what is read is settled before.
    pieces: bool,
    /// Somebody looks at the stages.
    looks: bool,
}

/// Derive a variant, which is `glance`d at first.
fn derive_one<'a>(
    Common { program, options, summaries, demanded, isa }: Common<'a>,
    primal: &'a Normalised,
    variant: &'a Variant,
    How { to: Wanted { symbols: (forward_symbol, pullback_symbol), mode, is_root }, looking, pieces, looks }: How,
    work: &mut Worklist<'_>,
    names: &mut Names,
    glance: &mut dyn FnMut(&Facts<'_>, &AdStmts),
) -> Result<Became<'a>, Diagnostics> {
    let (mut facts, found) = Facts::compute(program, primal, variant, options, summaries, (is_root, demanded), mode);
    facts.overwrites = overwrites(&facts);
    facts.find_units_and_roots(is_root);
    if !demanded && facts.activity.computes_bits() {
        return Ok(Became::Demanding);
    }
    let pieces = pieces || facts.activity.moves_pieces(program);
    let mut ids = Ids::default();
    let (mut lifted, forward_of) = lift(&primal.func, &program.funcs[variant.func].symbol, &mut ids);

    let mut seeds = vec![None; variant.results.len()];
    for (i, _) in variant.result_shapes(&primal.func.signature) {
        seeds[i] = Some(Val::D(ids.dv()));
    }
    let mut t = Translation {
        facts: &facts,
        ids: &mut ids,
        problems: Diagnostics(found),
        aux: IndexMap::default(),
        seeds,
        callees: work,
        fragments: Default::default(),
    };
    let insts = facts.cfg.blocks.iter().map(|&b| facts.cfg.insts(b).len()).sum();
    let mut stmts = AdStmts::with_capacity(insts, primal.func.dfg.num_insts());
    if t.problems.is_empty() {
        for &b in &facts.cfg.blocks {
            for &inst in facts.cfg.insts(b) {
                let stmt = rules::translate(&mut t, inst);
                stmts.insert(inst, stmt);
            }
        }
    }
    let Translation { problems, aux, seeds, .. } = t;
    problems.or_ok(())?;
    glance(&facts, &stmts);
    if looking == Looking::Examine {
        return Ok(Became::Looked);
    }
    if is_root && let Some(found) = served(&facts, variant, work, options) {
        return Ok(Became::Served(found));
    }

    let pull_seg = Val::D(ids.dv());
    let computes = |inst| match CalleeKind::of(program, &primal.func, inst) {
        Some(CalleeKind::Known(rule)) => rule.only_computes(),
        _ => false,
    };
    // Calls that run in the reverse half: the primal call is there for its results only.
    let above = |i: &AdInst| matches!(i.op, AdOp::Call { tape: Tape::Above, .. });
    let is_call = |s: &&AdStmt| primal.func.dfg.insts[s.primal].opcode().is_call();
    let mut later = EntitySet::new();
    later.extend(stmts.values().filter(is_call).filter(|s| s.keep && s.rvs.values().any(above)).map(|s| s.primal));
    let pure = |inst| match primal.func.dfg.insts[inst] {
        // Who wants no value does not want its faults.
        InstructionData::Load { .. } => mode == Mode::Gradient,
        _ if facts.private.writes(inst).is_some() => mode == Mode::Gradient,
        _ => computes(inst) || later.contains(inst),
    };
    let known = Known { primal: &primal.func, pure: &pure, private: &facts.private };
    let split = mode == Mode::Split;
    // A forward pass has every value.
    let mut watch = if split { watched(&facts, &stmts, &|_| true, &mut ids) } else { None };
    let mut plan = make_plan(&facts, &stmts, &aux, watch.is_some(), vec![]);
    // Guards make no difference to it, nor do loops that are run again.
    let live = Liveness::compute(&facts, &plan.returning, &stmts);
    // Loops that are run again, as far as a plan with them bears that out.
    let plan_with = |stmts: &AdStmts, mut loops: Vec<Again>| loop {
        let all = loops.len();
        let plan = make_plan(&facts, stmts, &aux, false, loops);
        loops = plan.again.iter().filter(|a| holds_good(&facts, &plan, a)).cloned().collect();
        if loops.len() == all {
            break plan;
        }
    };
    if mode == Mode::Gradient && options.ideas.again && options.ideas.prune {
        let loops = again(&facts, &stmts, &live, &plan);
        if !loops.is_empty() {
            plan = plan_with(&stmts, loops);
        }
    }
    // Nobody asks for reverses again: neither products without guards, nor a plan that has turned
    // out to be wrong, nor who looks.
    let spent = !looks && watch.is_none() && !options.ideas.finite && plan.again.is_empty();
    let mut assemble = |stmts: &mut AdStmts, watch: Option<&Watched>, plan: &Plan, ids: &mut Ids| {
        let watching = watch.map_or(&*stmts, |w| &w.watching);
        let mut fwd = forward(&facts, &mut lifted, spent, &forward_of, watching, plan, forward_symbol.clone(), ids);
        if let Some(watch) = watch {
            watch_once(&facts, &watch.once, &mut fwd.graph, &forward_of, ids);
        }
        let pullback = |stmts: Given<'_>, ids: &mut Ids| {
            pullback(&facts, stmts, &live, plan, &aux, &seeds, pull_seg, pullback_symbol.clone(), ids)
        };
        let guarded = pullback(if spent { Given::Spent(stmts) } else { Given::Lent(stmts) }, ids);
        let free = watch.map(|w| pullback(Given::Lent(&w.free), ids));
        let clearing = watch.and_then(|w| w.clearing.as_ref()).filter(|_| can_clear(plan));
        let mut clearing = clearing.map(|c| pullback(Given::Lent(c), ids));
        let clearing = clearing.take_if(|c| only_clears(&mut c.graph, &primal.func));
        let pulls = Pullbacks { guarded, free, clearing };
        (fwd, pulls)
    };
    let mut loops = Loops::default();
    let mut ideas = options.ideas;
    // Both tiers do that, or neither.
    let guarded = stmts.values().any(|s| !s.guards.is_empty()) || !facts.overwrites.rows.is_empty();
    let turns = !facts.loops.loops.is_empty();
    ideas.preaccumulate &= mode == Mode::Gradient && turns && (ideas.partial || !guarded);
    // The checks of a debug run are there to be seen.
    let fenced = options.ideas.fence && !options.debug && isa.triple().operating_system.into_str() == "linux";
    let fence = |plan: &Plan| match options.effort {
        _ if !fenced => Fence::No,
        // Little effort looks at what asks only where something does again and again.
        Effort::Quick if !(ideas.room && plan.records_in_turns(&primal.cfg)) => Fence::Only,
        _ => Fence::Too,
    };
    let mut clif = |graph: &CfgBlocks, plan: &Plan, seg: Val| {
        let mut watched_sums = EntitySet::new();
        let env = LowerEnv {
            primal: &primal.func,
            names: &mut *names,
            seg: Some(seg),
            frame: plan.frame.as_ref(),
            id_bytes: plan.id_bytes,
            ct: &facts.activity.ct,
            debug: options.debug,
            pieces,
            short: options.effort == Effort::Quick,
            fence: fence(plan),
            alone: is_root && !split && primal.cfg.calls.is_empty(),
            target: isa.frontend_config(),
            watched: Some(&mut watched_sums),
        };
        let Lowered { mut func, checks, shadows, segment } = lower_with_checks(graph, env);
        if options.effort == Effort::Quick {
            if fenced && !checks.is_empty() {
                loops.ask(&mut func, graph, ideas, Some(&checks));
            }
            if ideas.preaccumulate {
                loops.multiply_out(&mut func, graph, mode, ideas.worth, Choice::Select);
            }
        } else {
            let fenced = fenced.then_some(&checks[..]);
            let places = Places { program, func: &primal.func, cfg: &primal.cfg, blocks: &facts.blocks };
            let beside = Beside { watched: &watched_sums, shadows: &shadows, checks: fenced, places };
            loops.form(&mut func, graph, beside, (mode, ideas), isa);
        }
        // What is asked for is tidied up as it is going to be called.
        if !is_root {
            tidy(&mut func);
        }
        (func, segment)
    };
    // When graphs are assembled, what they were made of has done its part, unless somebody looks.
    // What is made next takes its place in memory, which matters where the system would have to
    // give more.
    let is_idle = |stmts: &AdStmts| !looks && stmts.len() >= LARGE;
    let variant = variant.clone();
    // Parameters whose shadows a run clears itself if it has to.
    let mut overwritten: Vec<usize> = Vec::new();
    let (mut fwd, mut pulls) = assemble(&mut stmts, watch.as_ref(), &plan, &mut ids);
    let reverse_of = pulls.guarded.reverse_of.clone();
    let (forward, pullback, emitted) = if split {
        let mut pull = match (pulls.free, plan.flag) {
            (Some(free), Some(flag)) => either(pulls.guarded, free, flag, &mut ids),
            _ => pulls.guarded,
        };
        if options.ideas.prune {
            prune(&mut fwd.graph, known);
            prune(&mut pull.graph, known);
        }
        if is_idle(&stmts) {
            (stmts, lifted.blocks) = Default::default();
        }
        let pair = DerivedPair {
            variant,
            forward_symbol,
            pullback_symbol,
            forward: clif(&fwd.graph, &plan, fwd.seg).0,
            pullback: clif(&pull.graph, &plan, pull.seg).0,
            frame: plan.frame.as_ref().map_or(0, |f| f.size),
        };
        (fwd.graph, pull.graph, Emitted::Pair(Box::new(pair)))
    } else {
        let whole = &pulls.guarded.graph;
        let (symbol, signature) = (whole.symbol.clone(), whole.signature.clone());
        let empty = CfgBlocks { symbol, signature, blocks: Table::default() };
        let (mut graph, seg, clears) = loop {
            let (seg, clears) = (fwd.seg, pulls.clearing.is_some());
            let mut graph = combine(&facts, fwd, pulls, &plan, forward_symbol.clone(), &mut ids);
            if options.ideas.prune {
                prune(&mut graph, known);
            }
            let loops = plan.again.len();
            let loops_left: Vec<Again> =
                std::mem::take(&mut plan.again).into_iter().filter(|a| only_again(&graph, a)).collect();
            if loops_left.len() < loops {
                plan = plan_with(&stmts, loops_left);
                (fwd, pulls) = assemble(&mut stmts, watch.as_ref(), &plan, &mut ids);
                continue;
            }
            plan.again = loops_left;
            if watch.is_none() && options.ideas.finite {
                let live = forward_values(&graph);
                watch = watched(&facts, &stmts, &|v| live.contains(v), &mut ids);
                if watch.is_some() {
                    (fwd, pulls) = assemble(&mut stmts, watch.as_ref(), &plan, &mut ids);
                    continue;
                }
            }
            break (graph, seg, clears);
        };
        if is_idle(&stmts) {
            (stmts, lifted.blocks) = Default::default();
        }
        if mode == Mode::Gradient {
            copies(&mut graph, &primal.func);
        }
        let (func, asked) = clif(&graph, &plan, seg);
        if clears {
            overwritten.extend(facts.overwrites.rows.iter().filter_map(|r| r.whole));
        }
        // With much effort it may not be used any more.
        let segment = asked && (options.effort == Effort::Quick || uses_segment(&func, &variant));
        debug_assert_eq!(segment, uses_segment(&func, &variant), "what is asked for is used");
        let results = mode == Mode::Combined;
        let whole = DerivedWhole { variant, symbol: forward_symbol, func, results, segment, twice: watch.is_some() };
        (graph, empty, Emitted::Whole(Box::new(whole)))
    };
    overwritten.into_iter().for_each(|i| facts.overwrites.whole[i] = true);
    let serves = false;
    let stages =
        Stages { facts, lifted, stmts, plan, forward, pullback, reverse_of, forward_of, loops, emitted, serves };
    Ok(Became::Derived(Box::new(stages)))
}

/// Whether the forward half needs nothing of a loop that is run again.
fn only_again(graph: &CfgBlocks, again: &Again) -> bool {
    let ours = |role: Role| matches!(role, Role::Forward(b) if again.blocks.contains(&b));
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

/// Whether a combined function uses its segment, which comes behind the primal's parameters and
/// their deltas.
fn uses_segment(func: &ir::Function, variant: &Variant) -> bool {
    let entry = func.layout.entry_block().expect("a function has a body");
    let segment = func.dfg.block_params(entry)[dead_segment_arg::position(variant)];
    func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).any(|i| func.dfg.inst_values(i).any(|v| v == segment))
}
