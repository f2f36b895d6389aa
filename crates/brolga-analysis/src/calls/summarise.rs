//! Summaries bottom-up: what a callee's parameters are, for its callers, addresses or numbers, and
//! what they point at.
//!
//! **Question.** A caller hands on a word. Does the callee take it for an address, and where does
//! what it stores and returns point?
//!
//! **Answer.** One bottom-up fixpoint over the functions of a program that a root reaches. Facts
//! only grow, so recursion converges; a function without a body contributes nothing (known C
//! functions are asked about directly).
//!
//! **Cost.** Rounds over all functions until nothing changes, and in a round each function is
//! solved anew. One round where no function calls another and none shares memory.

use std::collections::{BTreeMap, BTreeSet};

use brolga_ir::map::{HashMap, HashSet};
use brolga_ir::names::THUNK;
use brolga_ir::program::addresses;
use brolga_ir::{FuncKey, Program};
use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::EntitySet;

use crate::activity::demanded_bits::{DemandInput, demanded_bits};
use crate::activity::numbers::{become_such, makes_numbers};
use crate::activity::width::{self, LaneInput};
use crate::body::Body;
use crate::calls::joint::{self};
use crate::calls::result_sources::{self};
use crate::calls::solve::{MemorySolution, as_callee, solve};
use crate::cfg::Cfg;
use crate::kinds::contents::Contents;
use crate::kinds::number_uses::NumberInput;
use crate::kinds::pointers::{self, PointerInput, origins};
use crate::kinds::{loaded_bits, wasm_addresses};
use crate::lattice::kinds::Kinds;
use crate::memory::mod_ref::{self};
use crate::memory::points_to::{self};
use crate::memory::punned_cells::{LocalCells, PunnedCells};
use crate::memory::reload_after_undo;
use crate::query::callee::CalleeKind;
use crate::query::cell::{self, Base};
use crate::query::signature_id;
use crate::summary::{IntegerFate, Link, Origins, Summaries, Summary};
use crate::uses::Uses;
use crate::variant::ResultMode;

/// What an earlier run has found some function to do, of which all have to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct PriorFacts {
    /// It computes a float's bits from integers in memory.
    pub demanded: bool,
    /// It stores integers that may be a float's bits where there is no shadow.
    pub leaves_shadows: bool,
}

impl Summaries {
    /// Summarise normalised functions.
    pub fn compute(program: &Program, funcs: &HashMap<FuncKey, &ir::Function>) -> Self {
        let cfgs: HashMap<FuncKey, Cfg> = funcs.iter().map(|(&k, func)| (k, Cfg::compute(func))).collect();
        let uses: HashMap<FuncKey, Uses> = funcs.iter().map(|(&k, f)| (k, Uses::compute(f, &cfgs[&k]))).collect();
        let body = |(&k, &func)| (k, Body { func, cfg: &cfgs[&k], uses: &uses[&k] });
        Self::of_bodies(program, &funcs.iter().map(body).collect(), PriorFacts::default())
    }

    /// The same if edges and uses are known, or nothing if no analysis will ask.
    pub fn as_asked(program: &Program, bodies: &HashMap<FuncKey, Body<'_>>, found: PriorFacts) -> Self {
        match bodies.len() == 1 && bodies.values().all(|b| has_no_caller(program, b.func)) {
            true => {
                let makes_numbers = found.leaves_shadows || makes_numbers(bodies.values().map(|b| b.func));
                Summaries { makes_numbers, ..Summaries::default() }
            }
            false => Self::of_bodies(program, bodies, found),
        }
    }

    /// The same if edges and uses are known.
    pub fn of_bodies(program: &Program, bodies: &HashMap<FuncKey, Body<'_>>, found: PriorFacts) -> Self {
        let funcs: &HashMap<FuncKey, &ir::Function> = &bodies.iter().map(|(&k, body)| (k, body.func)).collect();
        let flows = points_to::flows(program, funcs);
        let effects = mod_ref::compute(program, bodies, &flows);
        let delays = joint::delays(program, funcs, &effects);
        let mut all = Summaries {
            rerunnable: joint::rerunnable(program, bodies, &delays),
            delays,
            results: result_sources::compute(program, bodies),
            offsets: wasm_addresses::compute(program, bodies),
            roots: crate::guards::root_takers::taking(program, funcs),
            effects,
            flows,
            rewinding: reload_after_undo::rewinding(program, funcs),
            addressed: addressed(program, funcs),
            demanded: found.demanded,
            makes_numbers: found.leaves_shadows || makes_numbers(funcs.values().copied()),
            ..Summaries::default()
        };
        let mut order: Vec<FuncKey> = funcs.keys().copied().collect();
        order.sort_unstable();
        let mut locals: BTreeMap<FuncKey, LocalCells> = BTreeMap::new();
        for round in 0.. {
            let results = all.becoming_results.len();
            let mut changed = false;
            for &k in &order {
                let (mut s, local) = summarise(program, k, bodies[&k], &mut all);
                if round >= SETTLED
                    && let Some(old) = all.funcs.get(&k)
                {
                    s.cells.clone_from(&old.cells);
                    s.demands.iter_mut().zip(&old.demands).for_each(|(is, was)| *is = (*is).max(*was));
                    s.becomes.extend(&old.becomes);
                    s.number_uses.iter_mut().zip(&old.number_uses).for_each(|(is, &was)| *is = is.join(was));
                }
                locals.insert(k, local);
                if all.funcs.get(&k) != Some(&s) {
                    all.funcs.insert(k, s);
                    changed = true;
                }
            }
            changed |= results != all.becoming_results.len();
            // A function that calls no other and shares nothing learns nothing in another round.
            let shares = !all.regions.is_empty() || !all.indirect.is_empty();
            if !changed || !shares && order.iter().all(|k| is_leaf(program, funcs[k])) {
                break;
            }
        }
        all.punned = PunnedCells::compute(&locals);
        all
    }
}

/// From this round on what is demanded stays so: functions that call each other in a circle may not
/// agree otherwise. (What is demanded and carries no float only costs time.)
const SETTLED: usize = 20;

/// Whether nothing of what would be known of the only function of a program is ever asked for: it
/// has no callers, itself included, and shares no memory with a name.
fn has_no_caller(program: &Program, func: &ir::Function) -> bool {
    program.data.is_empty() && func.dfg.alias_regions.len() == 0 && is_leaf(program, func)
}

/// Whether a function calls known functions only.
fn is_leaf(program: &Program, func: &ir::Function) -> bool {
    let mut insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    insts.all(|i| matches!(CalleeKind::of(program, func, i), None | Some(CalleeKind::Known(_))))
}

/// Functions whose address is taken, by signature. Those of C have functions of the program that
/// stand for them.
fn addressed(program: &Program, funcs: &HashMap<FuncKey, &ir::Function>) -> HashMap<u64, Vec<FuncKey>> {
    let symbols: HashSet<String> = funcs.values().flat_map(|f| addresses(f)).map(|a| a.0).collect();
    let mut found: HashMap<u64, Vec<FuncKey>> = HashMap::default();
    let taken = |k: &&FuncKey| {
        let symbol = program.funcs[**k].symbol.as_str();
        program.funcs[**k].rule.is_none() && symbols.contains(symbol.strip_suffix(THUNK).unwrap_or(symbol))
    };
    for &k in funcs.keys().filter(taken) {
        found.entry(signature_id(&funcs[&k].signature)).or_default().push(k);
    }
    found
}

fn summarise(program: &Program, key: FuncKey, body: Body<'_>, summaries: &mut Summaries) -> (Summary, LocalCells) {
    let Body { func, cfg, uses } = body;
    let params = as_callee(program, func);
    let (pointer_copy, bits) = (EntitySet::new(), EntitySet::new());
    let input =
        PointerInput { program, func, cfg, params: &params, summaries: &*summaries, given: &[], pointer_copy, bits };
    let results = vec![ResultMode::None; func.signature.returns.len()];
    let MemorySolution { pointers: p, contents: c, lanes: lane, steps, .. } = solve(&input, &results, uses, false);
    let links = width::links(&LaneInput { of: &input, results: &results, pointers: &p, contents: &c, steps: &steps });
    let for_demand = DemandInput {
        program,
        func,
        cfg,
        uses,
        summaries: &*summaries,
        pointers: &p,
        contents: &c,
        steps: &steps,
        stores: summaries.demanded,
    };
    let demanded = demanded_bits(&for_demand, |_| false);
    let (becomes, asked) = becoming(&for_demand, key);
    let numbers = NumberInput { program, func, cfg, uses, summaries: &*summaries, pointers: &p };
    let shared = evidence_for_others(func, cfg, &c);
    let formal = func.dfg.block_params(cfg.blocks[0]);
    let mut pointer_result = vec![Origins::default(); results.len()];
    // What is known once stays, so that functions that disagree about a width do not go on forever.
    let mut widths = match summaries.funcs.get(&key) {
        Some(old) => old.lanes.clone(),
        None => (vec![0; formal.len()], vec![0; results.len()]),
    };
    let learn = |known: &mut u32, v: ir::Value| *known = if *known == 0 { lane[v] } else { *known };
    widths.0.iter_mut().zip(formal).for_each(|(w, &v)| learn(w, v));
    for &b in &cfg.blocks {
        let last = func.layout.last_inst(b).expect("a block has a terminator");
        if func.dfg.insts[last].opcode() == Opcode::Return {
            for (i, &v) in func.dfg.inst_args(last).iter().enumerate() {
                origins(&input, &p, v, &mut pointer_result[i]);
                learn(&mut widths.1[i], v);
            }
        }
    }
    let summary = Summary {
        address: formal.iter().map(|&v| p.address.contains(v)).collect(),
        contents: formal.iter().map(|&v| c.of_class(v)).collect(),
        // Words of a module are no pointers.
        cells: match program.vmctx_pointers_only {
            true => Vec::new(),
            false => formal.iter().map(|&v| c.of_struct((Base::Value(v), 0))).collect(),
        },
        pointer_result,
        lanes: widths,
        links: merged(links, summaries.funcs.get(&key)),
        hands_on: formal.iter().map(|&v| loaded_bits::param_goes_on(&input, uses, v)).collect(),
        number_uses: formal.iter().map(|&v| numbers.uses_of(v, |cell| c.of_cell(cell))).collect(),
        demands: formal.iter().map(|&v| demanded[v]).collect(),
        becomes,
        loads_pointers: loads_pointers(func, cfg, &p),
    };
    let local = LocalCells::compute(&input, &p, &c);
    for (region, k) in shared.regions {
        let e = summaries.regions.entry(region).or_default();
        *e = e.join(k);
    }
    for (sig, ks) in shared.indirect {
        let e = summaries.indirect.entry(sig).or_insert_with(|| vec![Kinds::NONE; ks.len()]);
        e.iter_mut().zip(ks).for_each(|(e, k)| *e = e.join(k));
    }
    summaries.becoming_results.extend(asked);
    (summary, local)
}

/// Whether a function loads an address.
pub fn loads_pointers(func: &ir::Function, cfg: &Cfg, pointers: &pointers::Pointers) -> bool {
    let is_load = |inst: &&ir::Inst| func.dfg.insts[**inst].opcode().can_load();
    let results = cfg.all_insts().iter().filter(is_load).flat_map(|&inst| func.dfg.inst_results(inst));
    results.into_iter().any(|&v| pointers.address.contains(v))
}

/// What becomes of parameters, and of results of callees.
type DemandSummary = (BTreeSet<(usize, IntegerFate)>, Vec<(FuncKey, usize, IntegerFate)>);

/// What becomes of the integers that a function is given, and of those that it gets from others.
fn becoming(i: &DemandInput<'_>, key: FuncKey) -> DemandSummary {
    let (mut params, mut results) = DemandSummary::default();
    let asked = [IntegerFate::Stored, IntegerFate::Number].into_iter().filter(|_| i.summaries.makes_numbers);
    for what in asked {
        let found = become_such(i, what, |k| i.summaries.result_becomes(key, k, what));
        let formal = i.func.dfg.block_params(i.cfg.blocks[0]).iter().enumerate();
        params.extend(formal.filter(|p| found.how[*p.1].is_some()).map(|p| (p.0, what)));
        results.extend(found.results.into_iter().map(|(f, k)| (f, k, what)));
    }
    (params, results)
}

/// Evidence that one function has for the rest of the program.
struct SharedEvidence {
    /// What accesses of alias regions move.
    regions: Vec<(u32, Kinds)>,
    /// By signature: what arguments of indirect calls point at.
    indirect: Vec<(u64, Vec<Kinds>)>,
}

/// What a function's accesses tell about alias regions, and its indirect calls about the arguments
/// of their callees.
fn evidence_for_others(func: &ir::Function, cfg: &Cfg, c: &Contents) -> SharedEvidence {
    let (mut regions, mut indirect) = (Vec::new(), Vec::new());
    for &b in &cfg.blocks {
        for inst in func.layout.block_insts(b) {
            if let (Some(r), Some(addr)) =
                (func.dfg.insts[inst].alias_region(&func.dfg), crate::query::access_address(func, inst))
                && !crate::query::is_plain_integer(func, inst)
            {
                let cell = cell::cell_of(func, addr, crate::query::access_offset(func, inst));
                regions.push((func.dfg.alias_regions[r].user_id, c.of_cell(cell)));
            }
            if let ir::InstructionData::CallIndirect { sig_ref, .. } = func.dfg.insts[inst] {
                let sig = &func.dfg.signatures[sig_ref];
                let kinds = func.dfg.inst_args(inst)[1..].iter().map(|&a| c.of_class(a)).collect();
                indirect.push((signature_id(sig), kinds));
            }
        }
    }
    SharedEvidence { regions, indirect }
}

/// Links that are known once stay, too.
fn merged(mut links: Vec<Link>, old: Option<&Summary>) -> Vec<Link> {
    links.extend(old.iter().flat_map(|s| &s.links));
    links.sort_unstable();
    links.dedup();
    links
}

/// Functions that a root reaches by direct calls and address taking, in order of discovery.
pub fn reachable(program: &Program, root: FuncKey) -> Vec<FuncKey> {
    reachable_in(program, root, |k| program.funcs[k].body.as_ref())
}

/// [`reachable`], with bodies that are not the program's.
pub fn reachable_in<'a>(
    program: &Program,
    root: FuncKey,
    bodies: impl Fn(FuncKey) -> Option<&'a ir::Function>,
) -> Vec<FuncKey> {
    let mut seen = vec![root];
    let mut at = 0;
    while at < seen.len() {
        let k = seen[at];
        at += 1;
        let Some(body) = bodies(k) else { continue };
        for f in program.functions_in_data(body) {
            if !seen.contains(&f) {
                seen.push(f);
            }
        }
        for b in body.layout.blocks() {
            for inst in body.layout.block_insts(b) {
                let callee = match body.dfg.insts[inst] {
                    ir::InstructionData::FuncAddr { func_ref, .. } => program.callee(body, func_ref),
                    ir::InstructionData::Call { func_ref, .. } => program.callee(body, func_ref),
                    _ => match CalleeKind::of(program, body, inst) {
                        Some(CalleeKind::Derived(f)) => Some(f),
                        _ => None,
                    },
                };
                if let Some(f) = callee
                    && !seen.contains(&f)
                {
                    seen.push(f);
                }
            }
        }
    }
    seen
}
