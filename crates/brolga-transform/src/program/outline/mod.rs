//! Loop outlining: loops become drivers of steps, which are reversed within a budget of memory.
//!
//! **Problem.** A loop that is derived as a part of its function records what each iteration needs.
//! A [time loop](brolga_ir::time_loop) takes no more than its budget, but it is one that the
//! program marks. A user has a program that runs out of memory, and a number of bytes.
//!
//! **Answer.** Loops that are asked for ([`brolga_ir::Checkpoints`], [`select`]) become functions:
//!
//! ```text
//!            f                         f                                    step(invariants, carried)
//!   entry ─► header ◄─┐                entry ─► call loop(…, 0, n)            header ◄─┐
//!            body ────┘       ==>               switch on the code            body ────┘  K times
//!            exit 1, exit 2                     exit 1, exit 2                return carried, outs, code
//! ```
//!
//! A *step* is K iterations of the loop, few instructions together, so that a call is little beside
//! them ([`step`]). What an iteration hands on to the next is a parameter and a result, and so is
//! each float that all of them read: its cotangent is the same sum in the same order for any
//! schedule. What is asked for after the loop is a result. The code is zero if the loop goes on,
//! and else says by which exit it has been left. `loop` is a [driver](brolga_ir::driver), whose
//! body runs steps from one number to another ([`caller`]). If the loop counts, the number of steps
//! is computed before it ([`trip_count`]).
//!
//! **Invariants.** The functions compute, in the same order, what the loop did; each instruction
//! knows where it comes from. A loop that may not run twice ([`repeatable`]), or whose steps change
//! memory of which it is not known what to keep, stays as it is, which is an error where the user
//! has named it.
//!
//! **Cost.** A call for each step, and what is not done across one.
//!
//! **Source.** Design of our own; checkpoints of loops without marking are Enzyme's of 2026, for
//! loops that count, and Tapenade's, whose user marks them.

mod caller;
mod footprint;
mod iterations;
mod parts;
mod repeatable;
mod select;
mod step;
mod trip_count;

use brolga_analysis::Summaries;
use brolga_analysis::calls::summarise::PriorFacts;
use brolga_analysis::memory::alias::Origin;
use brolga_ir::driver::{Driver, StateLength, StepsDriver};
use brolga_ir::map::{IndexMap, IndexSet};
use brolga_ir::{Diagnostic, Diagnostics, FuncKey, MemoryMode, Mode, Options, Program};
use cranelift_codegen::ir::{self, InstBuilder, types};
use cranelift_codegen::isa::TargetIsa;

use crate::derived::LoopOutcome;
use crate::primal::edit::before;
use crate::primal::mem2reg::CalleeWrites;
use crate::primal::normalise::{NormalisedPrimal, PrimalCx, normalise};

pub(crate) use select::{StayingLoop, functions_named};

use footprint::Memory;
use parts::{LoopSymbols, OutlinedLoop};
use select::LoopSite;

/// Objects that are no longer are kept as they are, and of others pages.
const PAGE: u32 = 4096;

/// The loops of a program that have become functions, and those that have not.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutlinedLoops {
    made: Vec<MadeLoop>,
    /// Those that stay.
    staying: Vec<StayingLoop>,
}

/// A loop that has become functions.
#[derive(Clone, Debug)]
struct MadeLoop {
    of: StayingLoop,
    funcs: [FuncKey; 3],
    named: bool,
}

impl OutlinedLoops {
    /// What has become of each.
    pub(crate) fn outcomes(self) -> Vec<LoopOutcome> {
        let made = self.made.into_iter().map(|m| (m.of, Some(m.funcs[0])));
        let all = made.chain(self.staying.into_iter().map(|s| (s, None)));
        all.map(|(StayingLoop { func, inst, why }, driver)| LoopOutcome { func, inst, driver: driver.ok_or(why) })
            .collect()
    }

    /// The loops that have to stay, where some functions are refused, the steps of some drivers
    /// store pointers, and the pairs of others are made of their bodies. Those that the user has
    /// named stay only in the last case.
    pub(crate) fn refused(
        &self,
        refused: &[FuncKey],
        storing: &[FuncKey],
        as_bodies: &[FuncKey],
    ) -> Option<Vec<StayingLoop>> {
        let stays = |made: &MadeLoop| {
            let is_refused = |k: &FuncKey| made.funcs.contains(k) || made.of.func == *k;
            let why = if as_bodies.contains(&made.funcs[0]) {
                "hands on integers that may be bits of floats, or pointers that were loaded"
            } else if !made.named && refused.iter().any(is_refused) {
                "is refused if its steps are functions"
            } else if !made.named && storing.contains(&made.funcs[0]) {
                "stores pointers"
            } else {
                return None;
            };
            Some(StayingLoop { why: why.to_owned(), ..made.of.clone() })
        };
        let found: Vec<StayingLoop> = self.made.iter().filter_map(stays).collect();
        (!found.is_empty()).then_some(found)
    }
}

/// The loops that have turned out to stay.
pub(crate) fn staying(outcomes: &[LoopOutcome]) -> Vec<StayingLoop> {
    let stays = |l: &LoopOutcome| Some(StayingLoop { func: l.func, inst: l.inst, why: l.driver.clone().err()? });
    outcomes.iter().filter_map(stays).collect()
}

/// Outline the loops that are asked for, but for some. Functions that are made are among those that
/// are derived.
pub(crate) fn outline(
    program: &mut Program,
    keys: &mut Vec<FuncKey>,
    normalised: &mut IndexMap<FuncKey, NormalisedPrimal>,
    staying: &[StayingLoop],
    root: FuncKey,
    options: &Options,
    isa: &dyn TargetIsa,
) -> Result<OutlinedLoops, Diagnostics> {
    let asked = &options.checkpoints;
    if options.memory == MemoryMode::Restore && !asked.around.is_empty() {
        let d = Diagnostic::new("AD0193", "a loop is to be reversed in parts, and all of memory to be restored")
            .note("where memory is restored, each write of the primal is recorded")
            .help("leave out one of both: `--checkpoint`, or `--memory restore`");
        return Err(d.in_func(&program.funcs[root].symbol).into());
    }
    if !asked.outermost && asked.around.is_empty() || !options.keeps_states() {
        return Ok(OutlinedLoops::default());
    }
    let bodies = normalised.iter().map(|(k, n)| (*k, n.body())).collect();
    let summaries = Summaries::of_bodies(program, &bodies, PriorFacts::default());
    let one_function = matches!(options.mode, Mode::Gradient | Mode::Combined);
    let ask = select::Question { program, normalised, root, one_function, staying, effects: summaries.effects() };
    let (sites, staying) = select::sites(&ask, asked)?;
    let mut found_loops = OutlinedLoops { made: Vec::new(), staying };
    for (key, wanted) in sites {
        let mut was = normalised[&key].clone();
        let objects = take_addresses(program, &mut was, &wanted);
        let mut func = was.func.clone();
        let mut made = Vec::new();
        for (n, site) in wanted.iter().enumerate() {
            let found = OutlinedLoop::of(program, &was, &was.loops.loops[site.id], &site.memory, &objects);
            let symbols = LoopSymbols::fresh(program, &program.funcs[key].symbol, n + 1);
            let funcs = define(program, &was, &found, &symbols, site.budget);
            made.extend(funcs);
            let of = StayingLoop::of(&was, site.id, "");
            found_loops.made.push(MadeLoop { of, funcs, named: site.budget.is_some() });
            let count = trip_count::of(&was, site.id);
            caller::replace(&mut func, &found, &symbols.driver, count);
        }
        func.dfg.resolve_all_aliases();
        let bodies = made.iter().map(|&k| (k, program.funcs[k].body.clone().expect("it is defined")));
        let bodies: Vec<_> = std::iter::once((key, func)).chain(bodies).collect();
        let callees = CalleeWrites::new(program);
        for (k, body) in bodies {
            let cx = PrimalCx { program, key: k, callees: &callees, enabled: options.enabled(), isa };
            normalised.insert(k, normalise(body, cx)?);
        }
        keys.extend(made);
    }
    Ok(found_loops)
}

/// Define the functions of a loop.
fn define(
    program: &mut Program,
    n: &NormalisedPrimal,
    found: &OutlinedLoop<'_>,
    symbols: &LoopSymbols,
    budget: Option<u64>,
) -> [FuncKey; 3] {
    let origin = |program: &Program, loc: ir::SourceLoc| {
        (!loc.is_default()).then(|| program.origin(n.key, ir::Inst::from_u32(loc.bits() - 1)))
    };
    let mut key_of = |symbol: &str, body: ir::Function| {
        let locations: Vec<(ir::Inst, ir::SourceLoc)> =
            body.layout.blocks().flat_map(|b| body.layout.block_insts(b)).map(|i| (i, body.srcloc(i))).collect();
        let stems: Vec<_> = locations.into_iter().filter_map(|(i, l)| Some((i, origin(program, l)?))).collect();
        let key = program.define(symbol, body, |_| 0).expect("the name is new");
        let f = program.func_mut(key);
        stems.into_iter().for_each(|(i, o)| f.stems[i] = Some((o.func, o.inst)));
        key
    };
    let step = key_of(&symbols.step, step::function(found, &symbols.step));
    let steps = key_of(&symbols.steps, caller::steps(found, symbols));
    let driver = key_of(&symbols.driver, caller::driver(found, symbols));
    let untracked = program.funcs[n.key].untracked;
    for k in [step, steps, driver] {
        program.func_mut(k).untracked = untracked;
    }
    let first = found.invariants.len();
    let carried: Vec<usize> = (first..first + found.carried().len()).collect();
    let from = first + carried.len();
    let counted = trip_count::of(n, n.loops.innermost[found.of.header].expect("a header is in its loop")).is_some();
    program.func_mut(driver).driver = Some(Driver::Steps(StepsDriver {
        state: found.memory.clone(),
        carried,
        counted,
        budget,
        from,
        to: from + 1,
        steps: symbols.steps.as_str().into(),
    }));
    [driver, steps, step]
}

/// Where objects lie that are a state, and how long they are. Addresses that are not there are
/// taken at the start of the function.
fn take_addresses(
    program: &Program,
    n: &mut NormalisedPrimal,
    sites: &[LoopSite],
) -> IndexMap<Origin, (ir::Value, StateLength)> {
    let of_sites = sites.iter().filter_map(|s| match &s.memory {
        Memory::Objects(origins) => Some(origins),
        Memory::Instance => None,
    });
    let origins: IndexSet<Origin> = of_sites.flatten().copied().collect();
    let length = |bytes: usize| {
        let bytes = u32::try_from(bytes).expect("objects of a program are below 4 GiB");
        if bytes <= PAGE { StateLength::Bytes(bytes) } else { StateLength::Pages(bytes) }
    };
    let entry = n.func.layout.entry_block().expect("there is a body");
    let first = n.func.layout.first_inst(entry).expect("a block ends");
    let mut found = IndexMap::default();
    for origin in origins {
        let mut pos = before(&mut n.func, first);
        let at = match origin {
            Origin::Param(i) => (pos.func.dfg.block_params(entry)[i], StateLength::Object),
            Origin::Slot(s) => {
                let bytes = pos.func.sized_stack_slots[s].size as usize;
                (pos.ins().stack_addr(types::I64, s, 0), length(bytes))
            }
            Origin::Data(gv) => {
                let object = program.data_of(pos.func, gv).map_or(0, |d| program.data[d].bytes.len());
                (pos.ins().symbol_value(types::I64, gv), length(object))
            }
            Origin::Alloc(_) | Origin::Unknown => unreachable!("no state is there"),
        };
        found.insert(origin, at);
    }
    found
}
