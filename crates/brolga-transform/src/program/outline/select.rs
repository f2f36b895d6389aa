//! Which loops are outlined.
//!
//! **Question.** A user asks for outermost loops, or for those around a call of a function. Which
//! are these, and can their steps run again?
//!
//! **Answer.** Outermost are loops of functions that run once: of the one that is derived, and of
//! what it calls outside of loops, unless that calls itself. A loop around a call is the innermost
//! one. Of two loops of which one is in the other, the one that was named is outlined.
//!
//! A loop stays as it is if it has another cycle in it that is no loop, if what it does is seen
//! when it runs again ([`super::repeatable`]), if it has more exits than a code has numbers, or if
//! it writes memory of which is not known how far it reaches ([`super::footprint`]). So does one
//! that computes the bits of a float from integers that are handed to it ([`makes_floats`]): where
//! those come from says which bits are whose.
//!
//! **Cost.** One walk over all calls, and for each loop that is asked for walks over its
//! instructions until nothing is added to what is made of given integers.

use brolga_analysis::calls::summarise::reachable;
use brolga_analysis::memory::mod_ref::Effect;
use brolga_analysis::{CalleeKind, LoopId};
use brolga_ir::driver::Driver;
use brolga_ir::map::{HashMap, IndexMap, IndexSet};
use brolga_ir::{Checkpoints, Diagnostic, Diagnostics, FuncKey, Program};
use cranelift_codegen::ir::{self, ArgumentPurpose, Opcode};
use cranelift_entity::EntitySet;

use super::footprint::{self, FootprintInput, Memory};
use super::parts::is_constant;
use super::repeatable;
use crate::primal::normalise::NormalisedPrimal;
use crate::program::reachable::addressed;

/// A loop that is outlined.
pub(super) struct LoopSite {
    pub id: LoopId,
    /// Most bytes that it takes, if the user says so.
    pub budget: Option<u64>,
    /// The memory that it changes.
    pub memory: Memory,
}

/// A loop that stays as it is.
#[derive(Clone, Debug)]
pub(crate) struct StayingLoop {
    pub func: FuncKey,
    /// The end of its header, as the user wrote it.
    pub inst: ir::Inst,
    /// Why: what it does.
    pub why: String,
}

impl StayingLoop {
    /// A loop of a function.
    pub(crate) fn of(n: &NormalisedPrimal, l: LoopId, why: impl Into<String>) -> Self {
        let header = n.func.layout.last_inst(n.loops.loops[l].header).expect("a block ends");
        Self { func: n.key, inst: brolga_analysis::query::original(&n.func, header), why: why.into() }
    }
}

/// What is asked about a program.
pub(super) struct Question<'a> {
    pub program: &'a Program,
    pub normalised: &'a IndexMap<FuncKey, NormalisedPrimal>,
    pub root: FuncKey,
    /// The root is one function with its pullback.
    pub one_function: bool,
    /// Loops that stay.
    pub staying: &'a [StayingLoop],
    pub effects: &'a HashMap<FuncKey, Effect>,
}

/// Loops to outline, by function, and those that stay.
pub(super) type Sites = (IndexMap<FuncKey, Vec<LoopSite>>, Vec<StayingLoop>);

/// The loops that are asked for.
pub(super) fn sites(ask: &Question<'_>, asked: &Checkpoints) -> Result<Sites, Diagnostics> {
    let Question { program, normalised, root, one_function, effects, .. } = *ask;
    let (mut found, mut staying, mut problems) = (IndexMap::default(), Vec::new(), Diagnostics::default());
    let addressed = addressed(program, normalised);
    let mut named: IndexMap<FuncKey, Vec<(LoopId, u64)>> = IndexMap::default();
    for (name, bytes) in &asked.around {
        let loops = around(program, normalised, name);
        if loops.is_empty() {
            problems.push(not_called_in_a_loop(program, root, name));
        }
        for (k, l) in loops {
            named.entry(k).or_default().push((l, *bytes as u64));
        }
    }
    let single_run = if asked.outermost { single_run_funcs(program, normalised, root) } else { IndexSet::default() };
    let all: IndexSet<FuncKey> = named.keys().copied().chain(single_run.iter().copied()).collect();
    for k in all {
        let n = &normalised[&k];
        let is_called = k != root || calls_itself(program, normalised, root);
        let returns_first = is_called || !one_function;
        let cx = FootprintInput { program, effects, returns_first, is_called };
        let named_loops = named.get(&k).map_or(&[][..], |v| v);
        let mut sites: Vec<LoopSite> = Vec::new();
        for l in n.loops.loops.keys() {
            let budget = named_loops.iter().rev().find(|(id, _)| *id == l).map(|(_, bytes)| *bytes);
            let outermost = single_run.contains(&k) && n.loops.loops[l].parent.is_none();
            let has_named = named_loops.iter().any(|(id, _)| n.loops.contains(l, n.loops.loops[*id].header));
            if budget.is_none() && (!outermost || has_named) {
                continue;
            }
            let here = StayingLoop::of(n, l, "");
            if budget.is_some()
                && named_loops.iter().any(|(id, _)| *id != l && n.loops.contains(l, n.loops.loops[*id].header))
            {
                let d = Diagnostic::new("AD0193", "of two loops that are to be reversed in parts one is in the other")
                    .note("a step of the outer one would be reversed in parts, too")
                    .help("name a function of one of both");
                problems.push(d.at(program, k, here.inst));
                continue;
            }
            let known = ask.staying.iter().find(|s| (s.func, s.inst) == (here.func, here.inst));
            let memory = known.map_or_else(|| memory_of(&cx, n, l, &addressed), |s| Err(s.why.clone()));
            match memory {
                Ok(memory) => sites.push(LoopSite { id: l, budget, memory }),
                Err(why) => {
                    let stays = StayingLoop { why, ..here };
                    if budget.is_some() {
                        let what = format!("the loop that is to be reversed in parts {}", stays.why);
                        let d = Diagnostic::new("AD0193", what)
                            .note("its steps run again from states that were kept")
                            .help("name a function that is called in another loop, or mark the loop in the program");
                        problems.push(d.at(program, k, stays.inst));
                    }
                    staying.push(stays);
                }
            }
        }
        if !sites.is_empty() {
            found.insert(k, sites);
        }
    }
    problems.or_ok((found, staying))
}

/// Functions of a name: a symbol, with or without `%`, or what the source calls them.
pub(crate) fn functions_named(program: &Program, name: &str) -> impl Iterator<Item = FuncKey> {
    let symbol = name.trim_start_matches('%');
    let is_it = move |k: &FuncKey| {
        let f = &program.funcs[*k];
        f.symbol == symbol || f.called.as_deref() == Some(name)
    };
    program.funcs.keys().filter(is_it)
}

fn not_called_in_a_loop(program: &Program, root: FuncKey, name: &str) -> Diagnostic {
    let why = if functions_named(program, name).next().is_some() {
        format!("no loop calls `{name}`")
    } else {
        format!("there is no function `{name}`")
    };
    Diagnostic::new("AD0193", why)
        .note("a compiler may have put its body in place of the calls")
        .help("name a function that is called in a loop, and let the compiler not inline it (`noinline`)")
        .in_func(&program.funcs[root].symbol)
}

/// The innermost loops around calls of a function.
fn around(program: &Program, normalised: &IndexMap<FuncKey, NormalisedPrimal>, name: &str) -> Vec<(FuncKey, LoopId)> {
    let mut found = Vec::new();
    let functions: Vec<FuncKey> = functions_named(program, name).collect();
    for (&k, n) in normalised {
        for &i in &n.cfg.calls {
            let callee = CalleeKind::of(program, &n.func, i);
            let is_it = matches!(callee, Some(CalleeKind::Derived(c) | CalleeKind::Plain(c)) if functions.contains(&c));
            let l = n.func.layout.inst_block(i).and_then(|b| n.loops.innermost[b]);
            if let (true, Some(l)) = (is_it, l)
                && !found.contains(&(k, l))
            {
                found.push((k, l));
            }
        }
    }
    found
}

/// Whether a call of a function may lead to another one.
fn calls_itself(program: &Program, normalised: &IndexMap<FuncKey, NormalisedPrimal>, k: FuncKey) -> bool {
    let n = &normalised[&k];
    n.cfg.calls.iter().any(|&i| match CalleeKind::of(program, &n.func, i) {
        Some(CalleeKind::Derived(c)) => reachable(program, c).contains(&k),
        _ => false,
    })
}

/// Functions that a run calls once: the root, and what is called outside of loops.
fn single_run_funcs(
    program: &Program,
    normalised: &IndexMap<FuncKey, NormalisedPrimal>,
    root: FuncKey,
) -> IndexSet<FuncKey> {
    let of_steps: Vec<&str> = program
        .funcs
        .values()
        .filter_map(|f| match &f.driver {
            Some(Driver::Steps(of)) => Some(&*of.steps),
            _ => None,
        })
        .collect();
    let mut found = IndexSet::default();
    let mut work = vec![root];
    while let Some(k) = work.pop() {
        let f = &program.funcs[k];
        let Some(n) = normalised.get(&k).filter(|_| f.driver.is_none() && !of_steps.contains(&&*f.symbol)) else {
            continue;
        };
        if calls_itself(program, normalised, k) || !found.insert(k) {
            continue;
        }
        for &i in &n.cfg.calls {
            let in_a_loop = n.func.layout.inst_block(i).is_none_or(|b| n.cfg.cyclic.contains(b));
            if let (false, Some(CalleeKind::Derived(c))) = (in_a_loop, CalleeKind::of(program, &n.func, i)) {
                work.push(c);
            }
        }
    }
    found
}

/// The memory that a loop changes, or why its steps cannot run again.
fn memory_of(
    cx: &FootprintInput<'_>,
    n: &NormalisedPrimal,
    l: LoopId,
    addressed: &[FuncKey],
) -> Result<Memory, String> {
    let program = cx.program;
    let lp = &n.loops.loops[l];
    let blocks = || n.func.layout.blocks().filter(|b| lp.blocks.contains(*b));
    if blocks().any(|b| n.loops.irreducible.contains(b)) {
        return Err("has another cycle in it that is no loop".into());
    }
    if lp.exits.is_empty() {
        return Err("is never left".into());
    }
    if lp.exits.len() > 200 {
        return Err("is left in more than 200 places".into());
    }
    let insts = || blocks().flat_map(|b| n.cfg.insts(b).iter().copied());
    if insts().any(|i| matches!(n.func.dfg.insts[i].opcode(), Opcode::TryCall | Opcode::TryCallIndirect)) {
        return Err("has a call that may throw".into());
    }
    if makes_floats(n, l) {
        return Err("makes floats of the bits of integers that come from outside or from an iteration before".into());
    }
    if let Some(why) = repeatable::why_not(program, n, insts(), addressed) {
        return Err(why);
    }
    if program.instance.is_some() && n.func.special_param(ArgumentPurpose::VMContext).is_some() {
        return Ok(Memory::Instance);
    }
    footprint::of(cx, n, l).map(Memory::Objects)
}

/// Whether arithmetic on integers of the header, or from before the loop, ends in the bits of
/// a float.
fn makes_floats(n: &NormalisedPrimal, l: LoopId) -> bool {
    let (lp, dfg) = (&n.loops.loops[l], &n.func.dfg);
    let is_int = |v: ir::Value| dfg.value_type(v).lane_type().is_int();
    let blocks = || n.func.layout.blocks().filter(|b| lp.blocks.contains(*b));
    let outside = |v: ir::Value| n.cfg.def_block[v].is_none_or(|b| !lp.blocks.contains(b));
    let constant = |v: ir::Value| dfg.value_def(v).inst().is_some_and(|i| is_constant(&n.func, i));
    let mut given: EntitySet<ir::Value> = EntitySet::new();
    given.extend(dfg.block_params(lp.header).iter().copied().filter(|&v| is_int(v)));
    loop {
        let mut grows = false;
        for b in blocks() {
            for &i in n.cfg.insts(b) {
                let op = dfg.insts[i].opcode();
                let from = |&v: &ir::Value| given.contains(v) || is_int(v) && outside(v) && !constant(v);
                if op.can_load() || op.is_call() || op.is_terminator() || !dfg.inst_args(i).iter().any(from) {
                    continue;
                }
                for &r in dfg.inst_results(i) {
                    if op == Opcode::Bitcast && dfg.value_type(r).lane_type().is_float() {
                        return true;
                    }
                    grows |= is_int(r) && given.insert(r);
                }
            }
            for &to in n.cfg.succs[b].iter().filter(|to| lp.blocks.contains(**to)) {
                for (&p, &v) in dfg.block_params(to).iter().zip(n.cfg.args(b, to)) {
                    grows |= is_int(p) && given.contains(v) && given.insert(p);
                }
            }
        }
        if !grows {
            return false;
        }
    }
}
