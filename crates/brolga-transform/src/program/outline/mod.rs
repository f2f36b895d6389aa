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
//! schedule. What is asked for behind the loop is a result. The code is zero if the loop goes on,
//! and else says by which exit it has been left. `loop` is a [driver](brolga_ir::driver), whose
//! body runs steps from one number to another ([`caller`]). If the loop counts, the number of steps
//! is computed in front of it ([`trip_count`]).
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
mod repeatable;
mod select;
mod step;
mod trip_count;

use brolga_analysis::memory::alias::Origin;
use brolga_analysis::{Loop, Summaries};
use brolga_ir::driver::{Driver, StateLength, StatePart, StepsDriver};
use brolga_ir::map::{IndexMap, IndexSet};
use brolga_ir::{Diagnostics, FuncKey, Mode, Options, Program};
use cranelift_codegen::ir::{self, AbiParam, ArgumentPurpose, InstBuilder, Signature, types};
use cranelift_codegen::isa::{CallConv, TargetIsa};

use crate::derived::LoopOutcome;
use crate::primal::edit::before;
use crate::primal::mem2reg::Callees;
use crate::primal::normalise::{Normalised, normalise};

pub(crate) use select::{StayingLoop, functions_named};

use select::{Memory, Site};

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
    pub fn outcomes(self) -> Vec<LoopOutcome> {
        let made = self.made.into_iter().map(|m| (m.of, Some(m.funcs[0])));
        let all = made.chain(self.staying.into_iter().map(|s| (s, None)));
        all.map(|(StayingLoop { func, inst, why }, driver)| LoopOutcome { func, inst, driver: driver.ok_or(why) })
            .collect()
    }

    /// The loops that have to stay, where some functions are refused, and the steps of some drivers
    /// store pointers. Those that the user has named are refused with them.
    pub fn refused(&self, refused: &[FuncKey], storing: &[FuncKey]) -> Option<Vec<StayingLoop>> {
        let is_refused = |made: &&MadeLoop| {
            let one = |k: &FuncKey| made.funcs.contains(k) || made.of.func == *k;
            !made.named && (refused.iter().any(one) || storing.contains(&made.funcs[0]))
        };
        let found: Vec<StayingLoop> = self.made.iter().filter(is_refused).map(|made| made.of.clone()).collect();
        (!found.is_empty()).then_some(found)
    }
}

/// Outline the loops that are asked for, but for some. Functions that are made are among those that
/// are derived.
pub(crate) fn outline(
    program: &mut Program,
    keys: &mut Vec<FuncKey>,
    normalised: &mut IndexMap<FuncKey, Normalised>,
    staying: &[StayingLoop],
    (root, options, isa): (FuncKey, &Options, &dyn TargetIsa),
) -> Result<OutlinedLoops, Diagnostics> {
    let asked = &options.checkpoints;
    if !asked.outermost && asked.around.is_empty() || !options.keeps_states() {
        return Ok(OutlinedLoops::default());
    }
    let bodies = normalised.iter().map(|(k, n)| (*k, n.body())).collect();
    let summaries = Summaries::of_bodies(program, &bodies, false);
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
            let found = Outlined::of(program, &was, &was.loops.loops[site.id], &site.memory, &objects);
            let symbols = LoopSymbols::fresh(program, &program.funcs[key].symbol, n + 1);
            let funcs = define(program, &was, &found, &symbols, site.budget);
            made.extend(funcs);
            let of =
                StayingLoop::of(&was, site.id, "is refused, or has steps that store pointers, if they are functions");
            found_loops.made.push(MadeLoop { of, funcs, named: site.budget.is_some() });
            let count = trip_count::of(&was, site.id);
            caller::replace(&mut func, &found, &symbols.driver, count);
        }
        func.dfg.resolve_all_aliases();
        let bodies = made.iter().map(|&k| (k, program.funcs[k].body.clone().expect("it is defined")));
        let bodies: Vec<_> = std::iter::once((key, func)).chain(bodies).collect();
        let callees = Callees::new(program);
        for (k, body) in bodies {
            normalised.insert(k, normalise(program, k, body, &callees, isa)?);
        }
        keys.extend(made);
    }
    Ok(found_loops)
}

/// A loop, and what its functions pass and return.
pub(crate) struct Outlined<'a> {
    at: &'a Normalised,
    pub func: &'a ir::Function,
    pub of: &'a Loop,
    /// Its blocks, in the order of the layout.
    pub blocks: Vec<ir::Block>,
    /// Values from in front of the loop that no iteration changes, but floats.
    pub invariants: Vec<ir::Value>,
    /// Floats of this kind.
    pub floats: Vec<ir::Value>,
    /// Instructions in front of the loop that are put into the step: constants.
    pub constants: Vec<ir::Inst>,
    /// Addresses of stack slots in the loop, which are taken in front of it.
    pub addresses: Vec<ir::Inst>,
    /// Values of the loop that are asked for behind it.
    pub outs: Vec<ir::Value>,
    /// Iterations of a step, a power of two.
    pub iterations: u32,
    /// The memory that steps change.
    pub memory: Vec<StatePart>,
}

impl<'a> Outlined<'a> {
    fn of(
        program: &Program,
        n: &'a Normalised,
        of: &'a Loop,
        memory: &Memory,
        objects: &IndexMap<Origin, (ir::Value, StateLength)>,
    ) -> Self {
        let func = &n.func;
        let blocks: Vec<ir::Block> = func.layout.blocks().filter(|&b| of.blocks.contains(b)).collect();
        let inside = |v: ir::Value| n.cfg.def_block[v].is_some_and(|b| of.blocks.contains(b));
        let (mut invariants, mut floats, mut constants) = (Vec::new(), Vec::new(), Vec::new());
        // The instance comes first, whether it is asked for or not.
        invariants.extend(func.special_param(ArgumentPurpose::VMContext));
        let insts = || blocks.iter().flat_map(|&b| func.layout.block_insts(b));
        let addresses: Vec<ir::Inst> =
            insts().filter(|&i| func.dfg.insts[i].opcode() == ir::Opcode::StackAddr).collect();
        invariants.extend(addresses.iter().map(|&i| func.dfg.first_result(i)));
        let memory = match memory {
            Memory::Instance => instance_parts(program),
            Memory::Objects(origins) => {
                let part = |origin: &Origin| {
                    let (v, length) = objects[origin];
                    push_new(&mut invariants, v);
                    let at = invariants.iter().position(|&w| w == v).expect("it is there");
                    StatePart { address: vec![at], offset: 0, length }
                };
                origins.iter().map(part).collect()
            }
        };
        for v in insts().flat_map(|i| func.dfg.inst_values(i)).filter(|&v| !inside(v)) {
            let constant = func.dfg.value_def(v).inst().filter(|&i| is_constant(func, i));
            match constant {
                Some(i) if !constants.contains(&i) => constants.push(i),
                Some(_) => {}
                None if func.dfg.value_type(v).lane_type().is_float() => push_new(&mut floats, v),
                None => push_new(&mut invariants, v),
            }
        }
        let outside = func.layout.blocks().filter(|b| !of.blocks.contains(*b));
        let mut outs = Vec::new();
        let behind = outside.flat_map(|b| func.layout.block_insts(b)).flat_map(|i| func.dfg.inst_values(i));
        behind.filter(|&v| inside(v)).for_each(|v| push_new(&mut outs, v));
        for &(from, to) in &of.exits {
            let args = n.cfg.args(from, to);
            args.iter().filter(|&&v| inside(v)).for_each(|&v| push_new(&mut outs, v));
        }
        let iterations = step::iterations(program, n, &blocks);
        Self { at: n, func, of, blocks, invariants, floats, constants, addresses, outs, iterations, memory }
    }

    /// Whether a value of the loop is defined on all ways to the end of a block.
    pub fn is_there(&self, v: ir::Value, at_end_of: ir::Block) -> bool {
        self.at.cfg.def_block[v].is_some_and(|b| self.at.loops.dominates(b, at_end_of))
    }

    fn types_of(&self, values: &[ir::Value]) -> impl Iterator<Item = ir::Type> {
        values.iter().map(|&v| self.func.dfg.value_type(v))
    }

    /// Types of what is handed on.
    pub fn carried(&self) -> Vec<ir::Type> {
        let params = self.func.dfg.block_params(self.of.header);
        self.types_of(params).chain(self.types_of(&self.floats)).collect()
    }

    /// Types of what is asked for behind the loop.
    pub fn out_types(&self) -> Vec<ir::Type> {
        self.types_of(&self.outs).collect()
    }

    /// Of the function of a step: invariants and what is handed on; what is handed on, what is
    /// asked for behind the loop, and the code.
    pub fn of_step(&self) -> Signature {
        // So many results as there are.
        let mut sig = Signature::new(CallConv::Fast);
        let instance = self.func.special_param(ArgumentPurpose::VMContext);
        for &v in &self.invariants {
            let ty = self.func.dfg.value_type(v);
            let is_it = Some(v) == instance;
            sig.params.push(if is_it { AbiParam::special(ty, ArgumentPurpose::VMContext) } else { AbiParam::new(ty) });
        }
        let carried = self.carried();
        sig.params.extend(carried.iter().map(|&ty| AbiParam::new(ty)));
        sig.returns.extend(carried.into_iter().chain(self.out_types()).map(AbiParam::new));
        sig.returns.push(AbiParam::new(types::I8));
        sig
    }

    /// Of steps from one number to another, which return the number of the next one before the
    /// code.
    pub fn of_steps(&self) -> Signature {
        let mut sig = self.of_step();
        sig.params.extend([types::I64; 2].map(AbiParam::new));
        let code = sig.returns.pop().expect("the code");
        sig.returns.extend([AbiParam::new(types::I64), code]);
        sig
    }
}

/// Names of the functions of a loop.
pub(crate) struct LoopSymbols {
    pub driver: String,
    pub steps: String,
    pub step: String,
}

impl LoopSymbols {
    fn fresh(program: &Program, of: &str, n: usize) -> Self {
        let named = |n: usize| {
            let driver = format!("{of}__loop{n}");
            Self { steps: format!("{driver}__steps"), step: format!("{driver}__step"), driver }
        };
        let is_free = |s: &Self| [&s.driver, &s.steps, &s.step].iter().all(|s| program.func(s).is_none());
        (n..).map(named).find(is_free).expect("there are names")
    }
}

/// Define the functions of a loop.
fn define(
    program: &mut Program,
    n: &Normalised,
    found: &Outlined<'_>,
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

fn push_new(all: &mut Vec<ir::Value>, v: ir::Value) {
    if !all.contains(&v) {
        all.push(v);
    }
}

/// Whether an instruction gives the same wherever it stands, and takes nothing.
fn is_constant(func: &ir::Function, inst: ir::Inst) -> bool {
    use ir::Opcode::*;
    matches!(
        func.dfg.insts[inst].opcode(),
        Iconst | F16const | F32const | F64const | F128const | Vconst | FuncAddr | SymbolValue
    )
}

/// The memory of an instance: all that steps of a confined program can change.
fn instance_parts(program: &Program) -> Vec<StatePart> {
    let layout = program.instance.as_ref().expect("the loop is one of an instance");
    // The instance is the first parameter.
    let part = |offset, length| StatePart { address: vec![0], offset, length };
    let header = part(-i64::from(layout.header), StateLength::Pages(layout.header));
    let memories =
        layout.memories.iter().map(|m| part(m.offset, StateLength::PagesUpTo(i64::from(m.size_at) - m.offset)));
    std::iter::once(header).chain(memories).collect()
}

/// Where objects lie that are a state, and how long they are. Addresses that are not there are
/// taken at the start of the function.
fn take_addresses(program: &Program, n: &mut Normalised, sites: &[Site]) -> IndexMap<Origin, (ir::Value, StateLength)> {
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
