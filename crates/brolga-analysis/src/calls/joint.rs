//! Joint reversal: which calls run whole in the reverse half of the caller, primal and pullback in
//! one go.
//!
//! **Problem.** A function that is called is derived as a pair, since its forward pass runs with
//! the primal, and its pullback later. What it kept in between lies on the tape, a frame for each
//! call. If the caller wants a gradient and no value, and what the call returns is only added up,
//! the callee's value is not needed: it may as well run once, when its cotangent is known, and keep
//! what it needs in registers.
//!
//! **Question.** For which calls does it make no difference that the callee runs later, and is the
//! result not needed?
//!
//! **Answer.** A call is listed if
//! - the callee can be *delayed* ([`Delay`]): neither it nor anything that it calls writes memory
//!   that outlives it, allocates or frees, calls what we do not know or through a pointer, uses
//!   atomics, or asks the machine for an address;
//! - nothing that the callee may [load](Effect::loads) is written after the call, on any path to
//!   the end: not by stores, and not by calls. So the callee still finds what it would have found;
//! - if the callee may trap, no memory is accessed after the call: a write could be one that the
//!   callee was to prevent, and the shadow of a place that is read is written in the reverse of
//!   that read, before the callee would have trapped because there is no such place. The fault of a
//!   load guards nothing, as where loads without a use are left out. Where all accesses to memory
//!   are bounded ([`Program::confined`]), only calls of unknown functions must not come after it;
//! - if the callee loads what may be a pointer, the function has no stack slot: the shadows of
//!   pointers in a slot are gone when the second half begins;
//! - a return can be reached, so that there is a reverse;
//! - its results are *unwanted*: they flow only into operations whose reverse does not ask for
//!   their operands (additions, negations, conversions, selects, products with what is inactive),
//!   through block parameters, and into returns. What a function returns is unwanted if it is
//!   itself derived without a value, and only of such functions is this asked. If the callee calls
//!   others, the same question is put again for it.
//!
//! **Twice.** If the caller does need the result of a recursion, its primal runs in the first half,
//! as in the primal, and the recursion whole in the second. A pair pushes a frame for each call,
//! and pops it; to compute what is cheap once more takes less ([`FOR_A_FRAME`]). That holds of
//! recursions whose own calls are unwanted: those run whole within it, so that nothing runs a third
//! time ([`rerunnable`]).
//!
//! **Invariants.** Whatever is listed here, the gradient has the same bits: the callee's reverse
//! runs at the same point of the caller's, adds to the same shadows in the same order, and reads
//! the same numbers. A result that is thought unwanted and is needed after all costs time only,
//! since the primal call is there until it is pruned. Runs are taken to end: a call that never
//! returns guards nothing that comes after it.
//!
//! **Cost.** Which functions can be delayed is a fixed point over the program: each round reads
//! once the bodies that are left. For one function: a backward fixed point over blocks, with three
//! bits for each, a walk along the uses of each call's results, and a search of the writes that may
//! follow a call that is left.
//!
//! **Source.** Joint reversal: Griewank and Walther (2008), chapter 12.

use brolga_ir::map::{HashMap, HashSet};
use brolga_ir::{FuncKey, Program};
use brolga_rules::cost::{CHEAP, FOR_A_FRAME, cost};
use brolga_rules::{MathKind, MathRule, OpcodeRule, Structural, opcode_rule};
use cranelift_codegen::ir::{self, InstructionData, Opcode};
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::body::Body;
use crate::memory::clobber::{Access, ClobberInput, Writes};
use crate::memory::mod_ref::{self, Effect};
use crate::query::callee::CalleeKind;
use crate::summary::Delay;
use crate::uses::{Use, Uses};

/// The functions that can be delayed, with all that they call.
pub fn delays(
    program: &Program,
    funcs: &HashMap<FuncKey, &ir::Function>,
    effects: &HashMap<FuncKey, Effect>,
) -> HashMap<FuncKey, Delay> {
    let mut all: HashMap<FuncKey, Delay> = HashMap::default();
    for &k in funcs.keys() {
        // A driver's combined function would be that of its body.
        if program.funcs[k].driver.is_none() && effects.get(&k).is_some_and(Effect::is_nothing) {
            all.insert(k, Delay::default());
        }
    }
    // From the best that is possible downwards: what calls one that cannot be delayed cannot be
    // either.
    loop {
        let mut next = HashMap::default();
        for &k in all.keys() {
            if let Some(d) = of_function(program, funcs[&k], &all) {
                next.insert(k, d.join(all[&k]));
            }
        }
        if next == all {
            return all;
        }
        all = next;
    }
}

fn of_function(program: &Program, func: &ir::Function, all: &HashMap<FuncKey, Delay>) -> Option<Delay> {
    let mut found = Delay::default();
    for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
        found = found.join(of_inst(program, func, inst, all)?);
    }
    Some(found)
}

fn of_inst(program: &Program, func: &ir::Function, inst: ir::Inst, all: &HashMap<FuncKey, Delay>) -> Option<Delay> {
    let op = func.dfg.insts[inst].opcode();
    match CalleeKind::of(program, func, inst) {
        Some(CalleeKind::Derived(k)) => return all.get(&k).copied(),
        Some(CalleeKind::Known(rule)) => {
            return rule.only_computes().then_some(Delay { memory: reads(&rule), ..Delay::default() });
        }
        Some(CalleeKind::Computes(rule)) => {
            let InstructionData::Call { func_ref, .. } = func.dfg.insts[inst] else { return None };
            let body = program.callee(func, func_ref).and_then(|k| all.get(&k).copied());
            return body.filter(|_| rule.only_computes());
        }
        Some(CalleeKind::Plain(_) | CalleeKind::Host | CalleeKind::Missing(_) | CalleeKind::Indirect(_)) => {
            return None;
        }
        None => {}
    }
    match opcode_rule(op) {
        OpcodeRule::Refused(_) => return None,
        OpcodeRule::Structural(
            Structural::AtomicLoad
            | Structural::AtomicStore
            | Structural::AtomicRmw
            | Structural::AtomicCas
            | Structural::TailCall
            | Structural::TailCallIndirect
            | Structural::FuncAddr
            | Structural::Effect
            | Structural::Machine,
        ) => return None,
        _ => {}
    }
    let memory = op.can_load() || op.can_store();
    let may_be_pointer = |v: &ir::Value| {
        let ty = func.dfg.value_type(*v);
        !ty.lane_type().is_float() && ty.bytes() >= 8
    };
    Some(Delay {
        traps: op.can_trap() && !memory && !divides_safely(func, inst),
        memory,
        pointers: op.can_load() && func.dfg.inst_results(inst).iter().any(may_be_pointer),
    })
}

/// Recursions that may as well run once more: they can be delayed wherever they are called, they do
/// not need what they return to themselves, and what a call of theirs computes is cheap.
pub fn rerunnable(
    program: &Program,
    bodies: &HashMap<FuncKey, Body<'_>>,
    delays: &HashMap<FuncKey, Delay>,
) -> HashSet<FuncKey> {
    let may = |d: &Delay| !d.pointers && (!d.traps || program.confined);
    let callee = |func: &ir::Function, inst| match CalleeKind::of(program, func, inst) {
        Some(CalleeKind::Derived(k)) => Some(k),
        _ => None,
    };
    let is_plain = |k: &FuncKey| {
        let Body { func, cfg, uses } = bodies[k];
        let calls: Vec<ir::Inst> = cfg.calls.iter().copied().filter(|&i| callee(func, i) == Some(*k)).collect();
        // What is active is not known here.
        let may_be_active = |v: ir::Value| match func.dfg.value_def(v).inst() {
            Some(i) => !matches!(func.dfg.insts[i].opcode(), Opcode::F64const | Opcode::F32const),
            None => true,
        };
        let is_recursive = |i: &ir::Inst| calls.contains(i);
        let in_block = |&b: &ir::Block| {
            let iterations = if cfg.cyclic.contains(b) { ITERATIONS } else { 1 };
            cfg.insts(b).iter().filter(|i| !is_recursive(i)).map(|&i| iterations * dear(func, i)).sum::<u32>()
        };
        let results = || calls.iter().flat_map(|&i| func.dfg.inst_results(i));
        !calls.is_empty()
            && cfg.blocks.iter().map(in_block).sum::<u32>() <= FOR_A_FRAME
            && results().all(|&r| unwanted(func, uses, &may_be_active, r))
    };
    let found = delays.iter().filter(|(_, d)| may(d)).map(|(k, _)| *k).filter(is_plain);
    found.collect()
}

/// Iterations that a loop is taken to have.
const ITERATIONS: u32 = 8;

/// What an instruction costs that would be recorded rather than done again.
fn dear(func: &ir::Function, inst: ir::Inst) -> u32 {
    let op = func.dfg.insts[inst].opcode();
    let computes = !op.can_load() && !op.can_store() && !op.is_terminator();
    let cost = cost(op);
    if computes && cost > CHEAP { cost } else { 0 }
}

/// Whether a known function accesses memory.
fn reads(rule: &MathRule) -> bool {
    !matches!(rule.kind, MathKind::Expr(_))
}

/// Whether an instruction is an integer division by a constant for which it cannot trap.
pub fn divides_safely(func: &ir::Function, inst: ir::Inst) -> bool {
    match func.dfg.insts[inst].opcode() {
        Opcode::Udiv | Opcode::Urem | Opcode::Srem => divisor(func, inst).is_some_and(|d| d != 0),
        // The least integer divided by -1 overflows.
        Opcode::Sdiv => divisor(func, inst).is_some_and(|d| d != 0 && d != -1),
        _ => false,
    }
}

/// The divisor of a division, if it is a constant: sign-extended from the type of the division.
fn divisor(func: &ir::Function, inst: ir::Inst) -> Option<i64> {
    let d = func.dfg.inst_args(inst)[1];
    match func.dfg.insts[func.dfg.value_def(d).inst()?] {
        InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => {
            let unused = 64 - func.dfg.value_type(d).bits();
            Some((imm.bits() << unused) >> unused)
        }
        _ => None,
    }
}

/// What is asked about a function.
pub struct JointInput<'a> {
    /// The normalised function, which is derived without a value, and its memory.
    pub at: &'a ClobberInput<'a>,
    /// All uses.
    pub uses: &'a Uses,
    /// Which values carry cotangents.
    pub is_active: &'a dyn Fn(ir::Value) -> bool,
    /// Which functions can be delayed.
    pub delays: &'a HashMap<FuncKey, Delay>,
    /// Which may run once more ([`rerunnable`]).
    pub rerunnable: &'a HashSet<FuncKey>,
}

/// What may come to pass between two points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PathEffects {
    /// Memory is accessed.
    accesses: bool,
    /// What we do not know is called.
    foreign: bool,
    /// A return is reached.
    returns: bool,
}

impl PathEffects {
    fn join(self, other: Self) -> Self {
        Self {
            accesses: self.accesses | other.accesses,
            foreign: self.foreign | other.foreign,
            returns: self.returns | other.returns,
        }
    }
}

/// The calls that can be derived whole, as far as values and memory are concerned.
pub fn joint_calls(cx: &JointInput<'_>) -> EntitySet<ir::Inst> {
    let mut found = EntitySet::new();
    let ClobberInput { program, func, cfg, .. } = *cx.at;
    if !cfg.calls.iter().any(|&i| cx.delay(i).is_some()) {
        return found;
    }
    let slots = cfg.all_insts().iter().any(|&i| func.dfg.insts[i].opcode() == Opcode::StackAddr);
    let following = cx.what_follows();
    let mut calls = Vec::new();
    for &block in &cfg.blocks {
        let mut later = following[block];
        for &inst in cfg.insts(block).iter().rev() {
            if let Some(delay) = cx.delay(inst)
                && later.returns
                && !(delay.traps && (later.foreign || later.accesses && !program.confined))
                && !(delay.pointers && slots)
                && (cx.is_rerunnable(inst) || func.dfg.inst_results(inst).iter().all(|&r| cx.unwanted(r)))
            {
                calls.push((block, inst, mod_ref::loaded(cx.at.places(), inst, cx.at.effects)));
            }
            later = later.join(cx.does(inst));
        }
    }
    if calls.is_empty() {
        return found;
    }
    let mut writes = Writes::of(cx.at, calls.iter().map(|c| c.2.len()).sum());
    for (block, inst, places) in calls {
        if !places.into_iter().any(|place| writes.may_follow(&Access { block, inst, place })) {
            found.insert(inst);
        }
    }
    found
}

impl JointInput<'_> {
    fn callee(&self, inst: ir::Inst) -> Option<CalleeKind> {
        CalleeKind::of(self.at.program, self.at.func, inst)
    }

    /// What is known of the function that an instruction calls, if that is to be derived and can be
    /// delayed.
    fn delay(&self, inst: ir::Inst) -> Option<Delay> {
        match self.callee(inst) {
            Some(CalleeKind::Derived(k)) => self.delays.get(&k).copied(),
            _ => None,
        }
    }

    fn does(&self, inst: ir::Inst) -> PathEffects {
        let op = self.at.func.dfg.insts[inst].opcode();
        let (accesses, foreign) = match self.callee(inst) {
            None => (op.can_load() || op.can_store(), false),
            Some(CalleeKind::Derived(k)) => self.delays.get(&k).map_or((true, true), |d| (d.memory, false)),
            Some(CalleeKind::Known(rule)) => (reads(&rule), false),
            Some(_) => (true, true),
        };
        PathEffects { accesses, foreign, returns: op == Opcode::Return }
    }

    /// For each block, what may come to pass after its end.
    fn what_follows(&self) -> SecondaryMap<ir::Block, PathEffects> {
        let mut of_block: SecondaryMap<ir::Block, PathEffects> = SecondaryMap::new();
        for &b in &self.at.cfg.blocks {
            of_block[b] = self.at.cfg.insts(b).iter().fold(PathEffects::default(), |a, &i| a.join(self.does(i)));
        }
        let mut following: SecondaryMap<ir::Block, PathEffects> = SecondaryMap::new();
        let mut changed = true;
        while changed {
            changed = false;
            for &b in self.at.cfg.blocks.iter().rev() {
                let succs = self.at.cfg.succs[b].iter();
                let now = succs.fold(PathEffects::default(), |a, &s| a.join(of_block[s]).join(following[s]));
                changed |= now != following[b];
                following[b] = now;
            }
        }
        following
    }

    /// Whether an instruction calls what may run once more.
    fn is_rerunnable(&self, inst: ir::Inst) -> bool {
        matches!(self.callee(inst), Some(CalleeKind::Derived(k)) if self.rerunnable.contains(&k))
    }

    fn unwanted(&self, v: ir::Value) -> bool {
        unwanted(self.at.func, self.uses, self.is_active, v)
    }
}

/// Whether the value itself is not needed, only its cotangent.
fn unwanted(func: &ir::Function, uses: &Uses, is_active: &dyn Fn(ir::Value) -> bool, v: ir::Value) -> bool {
    let mut seen: EntitySet<ir::Value> = EntitySet::new();
    let mut work = vec![v];
    while let Some(v) = work.pop() {
        if !seen.insert(v) {
            continue;
        }
        for &u in uses.of(v) {
            match u {
                Use::Edge(_, p) => work.push(p),
                Use::Inst(inst, _) if func.dfg.insts[inst].opcode() == Opcode::Return => {}
                Use::Inst(inst, n) if passes(func, is_active, inst, n) => work.push(func.dfg.first_result(inst)),
                Use::Inst(..) => return false,
            }
        }
    }
    true
}

/// Whether an instruction is linear in an operand, and its reverse does not ask what that operand
/// is.
fn passes(func: &ir::Function, is_active: &dyn Fn(ir::Value) -> bool, inst: ir::Inst, n: usize) -> bool {
    let args = func.dfg.inst_args(inst);
    let inactive = |k: usize| !is_active(args[k]);
    match func.dfg.insts[inst].opcode() {
        Opcode::Fadd | Opcode::Fsub | Opcode::Fneg | Opcode::Fpromote | Opcode::Fdemote => true,
        Opcode::Fmul => inactive(1 - n),
        Opcode::Fdiv => n == 0 && inactive(1),
        Opcode::Fma => n == 2 || inactive(1 - n),
        Opcode::Select => n > 0,
        _ => false,
    }
}
