//! Pointer inference: which integers are pointers, and where their shadows come from.
//!
//! **Question.** In CLIF a pointer is an integer. Which integers are used as addresses, and which
//! shadow delta (see `brolga_ir::inst`) belongs to each?
//!
//! **Answer, in two steps.** Backwards, from the address operands of memory accesses through
//! additions, selects and block parameters: these values are *addresses*. At `iadd a, b` only the
//! operand that is likelier the base is followed (an argument, stack slot or allocation before a
//! loaded value before the result of arithmetic), so a loaded index is not taken for a pointer.
//! Forwards, from the places where shadows come from: each value gets a [`Delta`]. The delta of a
//! sum is the sum of the deltas, and only one of them is there in practice, so a delta has a
//! *root*, the value whose delta it equals:
//!
//! ```text
//! None            no shadow
//! Root(r)         the delta of value r
//! Lost            came from a pointer by an operation that does not keep the delta; an error if used as an address
//! ```
//!
//! Join at block parameters: equal deltas stay, different ones make the parameter a root of its own
//! (the forward pass then passes the delta as a block parameter too), `Lost` absorbs. Every step
//! goes up, and a value moves at most three times.
//!
//! **Cost.** A worklist for addresses, which at each sum looks at most sixteen operations up, at
//! each value once, for the likelier base; rounds over the blocks for deltas, until none moves.
//! Roots that are a choice between roots are taken back one at a time, which is quadratic in those.

use brolga_ir::map::{HashMap, IndexMap};
use brolga_ir::request::Elem;
use brolga_ir::{DataKey, Program};
use brolga_rules::{MathKind, MemFn};
use cranelift_codegen::ir::{self, InstructionData, Opcode, ValueDef, types};
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::cfg::Cfg;
use crate::kinds::wide_pointers::{is_wide, may_be_in, put_in, taken_from};
use crate::memory::reaching_store::last_store;
use crate::query::callee::CalleeKind;
use crate::query::cell::cell_of;
use crate::query::{
    access_address, access_offset, alternatives, constant_int, extreme_condition, is_taped_address, signature_id,
};
use crate::summary::{FieldKinds, Origins, Summaries};
use crate::variant::ParamMode;

/// The shadow delta of an integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delta {
    /// Not visited: nothing reaches it.
    #[default]
    Unknown,
    /// It has no shadow.
    None,
    /// The delta of this value.
    Root(ir::Value),
    /// Not to be followed.
    Lost,
}

/// How the forward pass comes by the delta of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootKind {
    /// A parameter of the function, by index.
    Param(usize),
    /// A stack slot.
    Slot(ir::StackSlot),
    /// A writable data object.
    Data(DataKey),
    /// A pointer that was loaded.
    Load(ir::Inst),
    /// A result of a call: the instruction and the result's index.
    Call(ir::Inst, usize),
    /// A block parameter, by index, that several deltas reach.
    Phi(ir::Block, usize),
    /// `select`, or the larger or smaller of two, between different deltas (`alternatives`).
    Select(ir::Inst),
    /// Sum of two deltas.
    Sum(ir::Value, ir::Value),
    /// Difference of two deltas.
    Diff(ir::Value, ir::Value),
}

/// The answer.
#[derive(Clone, Debug, Default)]
pub struct Pointers {
    /// Values used as addresses.
    pub address: EntitySet<ir::Value>,
    /// Wider values, and floats, of which addresses are made.
    pub wide_address: EntitySet<ir::Value>,
    /// Delta of each value.
    pub delta: SecondaryMap<ir::Value, Delta>,
    /// All roots.
    pub roots: IndexMap<ir::Value, RootKind>,
    /// Roots whose delta is never zero.
    pub sure: EntitySet<ir::Value>,
    /// Roots of memory that this call made, or a caller's for it: stack slots and heap blocks. Its
    /// shadow has no seed yet.
    pub made_here: EntitySet<ir::Value>,
    /// Loads that are copies of pointers although they are not dereferenced here.
    pub pointer_copy: EntitySet<ir::Value>,
}

impl Pointers {
    /// The root of a value's delta, if it may have a shadow.
    pub fn root(&self, v: ir::Value) -> Option<ir::Value> {
        match self.delta[v] {
            Delta::Root(r) => Some(r),
            _ => None,
        }
    }
}

/// What pointer analysis needs to know.
pub struct PointerInput<'a> {
    /// The program.
    pub program: &'a Program,
    /// The normalised function.
    pub func: &'a ir::Function,
    /// Its control flow.
    pub cfg: &'a Cfg,
    /// Modes of the parameters.
    pub params: &'a [ParamMode],
    /// What is known of callees.
    pub summaries: &'a Summaries,
    /// What callers keep in structs behind the parameters, or nothing.
    pub given: &'a [FieldKinds],
    /// Loads that were found to copy pointers.
    pub pointer_copy: EntitySet<ir::Value>,
    /// Results of calls that were found to carry floats' bits, whatever else the callee may return.
    pub bits: EntitySet<ir::Value>,
}

/// How likely a value is the base of an address: 3 surely a pointer, 2 perhaps, 1 only if nothing
/// else is (what is taken out of a wider value), 0 not.
fn rank(cx: &PointerInput<'_>, v: ir::Value) -> u32 {
    ranked(cx, v, 0, &mut HashMap::default())
}

/// The same; `known` are values whose operands have been looked at.
fn ranked(cx: &PointerInput<'_>, v: ir::Value, depth: u32, known: &mut HashMap<ir::Value, u32>) -> u32 {
    if let Some(&rank) = known.get(&v) {
        return rank;
    }
    let rank = look_at(cx, v, depth, known);
    known.insert(v, rank);
    rank
}

fn look_at(cx: &PointerInput<'_>, v: ir::Value, depth: u32, known: &mut HashMap<ir::Value, u32>) -> u32 {
    let func = cx.func;
    if func.dfg.value_type(v) != types::I64 {
        return 0;
    }
    if depth > 16 {
        return 2;
    }
    match func.dfg.value_def(v) {
        ValueDef::Param(b, i) => {
            if func.layout.entry_block() == Some(b) {
                return if matches!(cx.params.get(i), Some(ParamMode::Dup { sure: true, .. })) { 3 } else { 2 };
            }
            // The likeliest of what flows in; a cycle adds nothing.
            let arg = cx.cfg.incoming(b, i).find(|&a| a != v);
            arg.map_or(0, |a| ranked(cx, a, depth + 4, known))
        }
        ValueDef::Result(inst, _) => match func.dfg.insts[inst].opcode() {
            Opcode::StackAddr | Opcode::SymbolValue => 3,
            Opcode::Load | Opcode::AtomicLoad => 2,
            Opcode::Call | Opcode::CallIndirect => match CalleeKind::of(cx.program, func, inst) {
                Some(CalleeKind::Known(r)) if matches!(r.kind, MathKind::Memory(_)) => 3,
                _ => 2,
            },
            Opcode::Iadd | Opcode::Isub | Opcode::Band | Opcode::Bor | Opcode::UaddOverflowTrap => {
                func.dfg.inst_args(inst).iter().map(|&a| ranked(cx, a, depth + 1, known)).max().unwrap_or(0)
            }
            Opcode::Select | Opcode::SelectSpectreGuard => {
                let a = func.dfg.inst_args(inst);
                ranked(cx, a[1], depth + 1, known).max(ranked(cx, a[2], depth + 1, known))
            }
            Opcode::GetFramePointer | Opcode::GetStackPointer => 2,
            _ => u32::from(taken_from(func, inst).is_some()),
        },
        ValueDef::Union(..) => 0,
    }
}

/// Whether a value is the larger or smaller of an address in the memory of `from` and of a bound
/// that is no pointer, as far as is known: how far it is from there is a number.
fn is_bounded_by(func: &ir::Function, p: &Pointers, extreme: ir::Value, from: ir::Value) -> bool {
    let made = func.dfg.value_def(extreme).inst();
    let Some(inst) = made.filter(|&i| extreme_condition(func.dfg.insts[i].opcode()).is_some()) else { return false };
    let &[a, b] = func.dfg.inst_args(inst) else { return false };
    let is = |at: ir::Value, bound: ir::Value| p.delta[at] == p.delta[from] && p.delta[bound] == Delta::None;
    is(a, b) || is(b, a)
}

/// Compute addresses and deltas.
pub fn compute(cx: PointerInput<'_>) -> Pointers {
    let mut p = Pointers { pointer_copy: cx.pointer_copy.clone(), ..Pointers::default() };
    p.delta.resize(cx.func.dfg.num_values());
    addresses(&cx, &mut p);
    deltas(&cx, &mut p);
    p
}

fn addresses(cx: &PointerInput<'_>, p: &mut Pointers) {
    let func = cx.func;
    let mut work: Vec<ir::Value> = Vec::new();
    for &inst in cx.cfg.all_insts() {
        work.extend(access_address(func, inst));
        // What is recorded as an address is one, and so is that of a shadow.
        if func.dfg.insts[inst].opcode() == Opcode::Store {
            let value = func.dfg.inst_args(inst)[0];
            if is_taped_address(func, inst) || cx.program.nested > 0 && is_shadow_address(func, value) {
                work.push(value);
            }
        }
        match CalleeKind::of(cx.program, func, inst) {
            Some(CalleeKind::Derived(k)) => {
                let args = func.dfg.inst_args(inst);
                work.extend(args.iter().enumerate().filter(|(i, _)| cx.summaries.is_address(k, *i)).map(|a| *a.1));
            }
            Some(CalleeKind::Known(rule)) => {
                let args = func.dfg.inst_args(inst);
                work.extend(args.iter().zip(&rule.params).filter(|a| *a.1 == brolga_rules::Ty::Ptr).map(|a| *a.0));
            }
            // What none of those that may be meant uses as an address is none.
            _ => {
                if let InstructionData::CallIndirect { sig_ref, .. } = func.dfg.insts[inst] {
                    let signature = signature_id(&func.dfg.signatures[sig_ref]);
                    let args = func.dfg.inst_args(inst)[1..].iter().enumerate();
                    work.extend(args.filter(|a| cx.summaries.is_address_through(signature, a.0)).map(|a| *a.1));
                }
            }
        }
    }
    follow_addresses(cx, p, work);
    if cx.program.nested > 0 {
        follow_deltas(cx, p);
    }
}

/// Whether a value is written as the address of a shadow: a pointer and its delta, which is the
/// difference of a shadow's address and that pointer, or zero. Such a pointer may only be moved.
fn is_shadow_address(func: &ir::Function, v: ir::Value) -> bool {
    let of = |v: ir::Value, op: Opcode| {
        let inst = func.dfg.value_def(v).inst().filter(|i| func.dfg.insts[*i].opcode() == op)?;
        Some(func.dfg.inst_args(inst))
    };
    let is_delta = |v: ir::Value, p: ir::Value| of(v, Opcode::Isub).is_some_and(|a| a[1] == p);
    of(v, Opcode::Iadd).is_some_and(|a| {
        let chosen = of(a[1], Opcode::Select).is_some_and(|s| is_delta(s[1], a[0]));
        chosen || is_delta(a[1], a[0])
    })
}

/// In a derivative what a pointer is taken from is one, too: the difference is a delta.
fn follow_deltas(cx: &PointerInput<'_>, p: &mut Pointers) {
    let func = cx.func;
    loop {
        let found: Vec<ir::Value> = cx
            .cfg
            .all_insts()
            .iter()
            .filter(|&&i| func.dfg.insts[i].opcode() == Opcode::Isub)
            .map(|&i| func.dfg.inst_args(i))
            .filter(|a| p.address.contains(a[1]) || p.pointer_copy.contains(a[1]))
            .map(|a| a[0])
            .filter(|&a| !p.address.contains(a) && rank(cx, a) > 0)
            .collect();
        if found.is_empty() {
            return;
        }
        follow_addresses(cx, p, found);
    }
}

/// What addresses are computed from.
fn follow_addresses(cx: &PointerInput<'_>, p: &mut Pointers, mut work: Vec<ir::Value>) {
    let func = cx.func;
    while let Some(v) = work.pop() {
        let ty = func.dfg.value_type(v);
        let is_new = if is_wide(ty) { p.wide_address.insert(v) } else { ty == types::I64 && p.address.insert(v) };
        if !is_new {
            continue;
        }
        match func.dfg.value_def(v) {
            ValueDef::Param(b, i) => {
                if func.layout.entry_block() != Some(b) {
                    work.extend(cx.cfg.incoming(b, i));
                }
            }
            ValueDef::Result(inst, _) => {
                let args = func.dfg.inst_args(inst);
                match func.dfg.insts[inst].opcode() {
                    _ if is_wide(ty) => work.extend(put_in(func, inst)),
                    Opcode::Iadd | Opcode::UaddOverflowTrap | Opcode::Band | Opcode::Bor => {
                        let (r0, r1) = (rank(cx, args[0]), rank(cx, args[1]));
                        if r0 >= r1 && r0 > 0 {
                            work.push(args[0]);
                        }
                        if r1 >= r0 && r1 > 0 {
                            work.push(args[1]);
                        }
                    }
                    Opcode::Isub => work.push(args[0]),
                    Opcode::Umax | Opcode::Umin | Opcode::Smax | Opcode::Smin => work.extend(args),
                    Opcode::Select | Opcode::SelectSpectreGuard => work.extend([args[1], args[2]]),
                    Opcode::Load | Opcode::AtomicLoad => {
                        // What was stored there last is what is loaded.
                        let cell = cell_of(func, args[0], access_offset(func, inst));
                        if let Some(found) = last_store(func, cx.cfg, inst, cell, 8)
                            && found.offset == 0
                            && found.bytes == 8
                        {
                            work.push(func.dfg.inst_args(found.store)[0]);
                        }
                    }
                    _ => work.extend(taken_from(func, inst)),
                }
            }
            ValueDef::Union(..) => {}
        }
    }
}

fn deltas(cx: &PointerInput<'_>, p: &mut Pointers) {
    let func = cx.func;
    let entry = cx.cfg.blocks[0];
    for (i, &v) in func.dfg.block_params(entry).iter().enumerate() {
        p.delta[v] = match cx.params[i] {
            ParamMode::Dup { sure, .. } => {
                p.roots.insert(v, RootKind::Param(i));
                if sure {
                    p.sure.insert(v);
                }
                Delta::Root(v)
            }
            // A caller cannot say where the shadow is.
            _ if p.wide_address.contains(v) => Delta::Lost,
            _ => Delta::None,
        };
    }
    let mut slot_root: SecondaryMap<ir::StackSlot, Option<ir::Value>> = SecondaryMap::new();
    let mut data_root: SecondaryMap<DataKey, Option<ir::Value>> = SecondaryMap::new();
    let mut changed = true;
    while changed {
        changed = false;
        for &b in &cx.cfg.blocks {
            if b != entry {
                for (i, &v) in func.dfg.block_params(b).iter().enumerate() {
                    if is_wide(func.dfg.value_type(v)) && cx.cfg.incoming(b, i).any(|a| p.delta[a] == Delta::Lost) {
                        changed |= set(p, v, Delta::Lost);
                    }
                    if func.dfg.value_type(v) != types::I64 || p.delta[v] == Delta::Lost || p.delta[v] == Delta::Root(v)
                    {
                        continue;
                    }
                    let mut d = Delta::Unknown;
                    for arg in cx.cfg.incoming(b, i) {
                        d = match (d, p.delta[arg]) {
                            (d, Delta::Unknown) | (Delta::Unknown, d) => d,
                            (Delta::Lost, _) | (_, Delta::Lost) => Delta::Lost,
                            (a, b) if a == b => a,
                            _ => Delta::Root(v),
                        };
                    }
                    if d == Delta::Root(v) {
                        p.roots.insert(v, RootKind::Phi(b, i));
                    }
                    changed |= set(p, v, d);
                }
            }
            for &inst in cx.cfg.insts(b) {
                for (k, &v) in func.dfg.inst_results(inst).iter().enumerate() {
                    if func.dfg.value_type(v) != types::I64 {
                        let is_wide = is_wide(func.dfg.value_type(v));
                        let of_pointer = |a: ir::Value| matches!(p.delta[a], Delta::Root(_) | Delta::Lost);
                        let lost = is_wide && may_be_in(func, inst, v, p.wide_address.contains(v), of_pointer);
                        let d = if lost { Delta::Lost } else { Delta::None };
                        changed |= set(p, v, d);
                        continue;
                    }
                    let d = transfer(cx, p, inst, k, v, &mut slot_root, &mut data_root);
                    changed |= set(p, v, d);
                }
            }
        }
    }
    // What nothing reaches has no shadow.
    for &b in &cx.cfg.blocks {
        let values = func.dfg.block_params(b).iter().copied();
        let results = cx.cfg.insts(b).iter().flat_map(|&i| func.dfg.inst_results(i).iter().copied());
        for v in values.chain(results) {
            if p.delta[v] == Delta::Unknown {
                p.delta[v] = Delta::None;
            }
        }
    }
    let live: EntitySet<ir::Value> = p.delta.values().fold(EntitySet::new(), |mut s, d| {
        if let Delta::Root(r) = d {
            s.insert(*r);
        }
        s
    });
    p.roots.retain(|r, _| live.contains(*r));
    sureness(cx, p);
}

fn set(p: &mut Pointers, v: ir::Value, d: Delta) -> bool {
    let old = p.delta[v];
    // Only upwards: a root stays a root of its own once it is one.
    if old == d || d == Delta::Unknown || old == Delta::Lost || (old == Delta::Root(v) && d != Delta::Lost) {
        return false;
    }
    p.delta[v] = d;
    true
}

fn transfer(
    cx: &PointerInput<'_>,
    p: &mut Pointers,
    inst: ir::Inst,
    k: usize,
    v: ir::Value,
    slot_root: &mut SecondaryMap<ir::StackSlot, Option<ir::Value>>,
    data_root: &mut SecondaryMap<DataKey, Option<ir::Value>>,
) -> Delta {
    let func = cx.func;
    let args = func.dfg.inst_args(inst);
    let d = |i: usize| p.delta[args[i]];
    let root = |p: &mut Pointers, kind: RootKind| {
        p.roots.insert(v, kind);
        Delta::Root(v)
    };
    if is_small(func, inst) {
        return Delta::None;
    }
    let op = func.dfg.insts[inst].opcode();
    match op {
        Opcode::StackAddr => {
            let InstructionData::StackAddr { stack_slot, .. } = func.dfg.insts[inst] else { unreachable!() };
            let r = *slot_root[stack_slot].get_or_insert(v);
            p.roots.insert(r, RootKind::Slot(stack_slot));
            p.sure.insert(r);
            Delta::Root(r)
        }
        Opcode::SymbolValue => {
            let InstructionData::UnaryGlobalValue { global_value, .. } = func.dfg.insts[inst] else { unreachable!() };
            match cx.program.data_of(func, global_value) {
                Some(key) if cx.program.data[key].writable => {
                    let r = *data_root[key].get_or_insert(v);
                    p.roots.insert(r, RootKind::Data(key));
                    p.sure.insert(r);
                    Delta::Root(r)
                }
                _ => Delta::None,
            }
        }
        Opcode::Iadd | Opcode::UaddOverflowTrap => match (d(0), d(1)) {
            (Delta::Root(a), Delta::Lost) if number(cx, p, args[1], &mut EntitySet::new()) => Delta::Root(a),
            (Delta::Lost, Delta::Root(a)) if number(cx, p, args[0], &mut EntitySet::new()) => Delta::Root(a),
            (Delta::Lost, _) | (_, Delta::Lost) => Delta::Lost,
            (Delta::Unknown, _) | (_, Delta::Unknown) => Delta::Unknown,
            (Delta::None, x) | (x, Delta::None) => x,
            (Delta::Root(a), Delta::Root(b)) => root(p, RootKind::Sum(a, b)),
        },
        Opcode::Isub => match (d(0), d(1)) {
            (Delta::Lost, Delta::Root(_)) if is_bounded_by(func, p, args[0], args[1]) => Delta::None,
            (Delta::Lost, _) | (_, Delta::Lost) => Delta::Lost,
            (Delta::Unknown, _) | (_, Delta::Unknown) => Delta::Unknown,
            (x, Delta::None) => x,
            (a, b) if a == b => Delta::None,
            (Delta::Root(a), Delta::Root(b)) => root(p, RootKind::Diff(a, b)),
            (Delta::None, Delta::Root(_)) => Delta::Lost,
        },
        Opcode::Band | Opcode::Bor => masked(func, args, [d(0), d(1)], op == Opcode::Band),
        Opcode::Umax | Opcode::Umin | Opcode::Smax | Opcode::Smin => match (d(0), d(1)) {
            (Delta::Unknown, x) | (x, Delta::Unknown) => x,
            (a, b) if a == b => a,
            (Delta::Root(_), Delta::Root(_)) => root(p, RootKind::Select(inst)),
            _ => Delta::Lost,
        },
        Opcode::Select | Opcode::SelectSpectreGuard => match (d(1), d(2)) {
            (Delta::Lost, _) | (_, Delta::Lost) => Delta::Lost,
            (Delta::Unknown, x) | (x, Delta::Unknown) => x,
            (a, b) if a == b => a,
            _ => root(p, RootKind::Select(inst)),
        },
        Opcode::Load | Opcode::AtomicLoad => {
            let addr = access_address(func, inst).expect("a load has an address");
            let is_pointer = p.address.contains(v) || p.pointer_copy.contains(v);
            match p.delta[addr] {
                Delta::Root(_) if is_pointer => root(p, RootKind::Load(inst)),
                Delta::Unknown if is_pointer => Delta::Unknown,
                _ => Delta::None,
            }
        }
        Opcode::Call | Opcode::CallIndirect => match CalleeKind::of(cx.program, func, inst) {
            Some(CalleeKind::Known(rule)) => match rule.kind {
                MathKind::Memory(MemFn::Memcpy | MemFn::Memmove | MemFn::Memset) => d(0),
                MathKind::Memory(MemFn::Malloc | MemFn::Calloc | MemFn::Realloc) => root(p, RootKind::Call(inst, k)),
                _ => Delta::None,
            },
            Some(CalleeKind::Derived(_)) if cx.bits.contains(v) => Delta::None,
            Some(CalleeKind::Derived(f)) => {
                returned(cx, p, f, inst, k, v).unwrap_or_else(|| root(p, RootKind::Call(inst, k)))
            }
            Some(CalleeKind::Indirect(_)) => root(p, RootKind::Call(inst, k)),
            _ => Delta::None,
        },
        // Other arithmetic on a pointer gives a number, or an address that cannot be followed.
        _ => {
            let of_pointer = args.iter().any(|&a| matches!(p.delta[a], Delta::Root(_) | Delta::Lost));
            if of_pointer && op != Opcode::Icmp { Delta::Lost } else { Delta::None }
        }
    }
}

/// The delta of what a call of a derived function returns; none if it is a pointer with a delta of
/// its own.
fn returned(
    cx: &PointerInput<'_>,
    p: &Pointers,
    callee: brolga_ir::FuncKey,
    inst: ir::Inst,
    k: usize,
    v: ir::Value,
) -> Option<Delta> {
    let args = cx.func.dfg.inst_args(inst);
    let from = cx.summaries.pointer_result(callee, k);
    let is_new_root = p.address.contains(v) || from.is_some_and(|o| o.from_callee);
    let params: Vec<Delta> = from.map(|o| o.params.iter().map(|&i| p.delta[args[i]]).collect()).unwrap_or_default();
    if is_new_root || params.iter().any(|d| matches!(d, Delta::Root(_))) {
        return None;
    }
    Some(if params.contains(&Delta::Lost) {
        Delta::Lost
    } else if params.contains(&Delta::Unknown) {
        Delta::Unknown
    } else {
        Delta::None
    })
}

/// Whether a value that is lost is a number beside a pointer all the same: an unknown callee may
/// have returned a pointer, but nothing here takes what it returned for an address, and no pointer
/// that we know of went into the arithmetic. (An offset from one pointer to another, which leads
/// from the one's memory to the other's, has both in it.)
fn number(cx: &PointerInput<'_>, p: &Pointers, v: ir::Value, seen: &mut EntitySet<ir::Value>) -> bool {
    if p.address.contains(v) {
        return false;
    }
    match p.delta[v] {
        Delta::None | Delta::Unknown => true,
        Delta::Root(r) => {
            let unknown = match p.roots.get(&r) {
                Some(RootKind::Call(i, _)) => {
                    !matches!(CalleeKind::of(cx.program, cx.func, *i), Some(CalleeKind::Known(_)))
                }
                Some(RootKind::Param(_)) => !p.sure.contains(r),
                _ => false,
            };
            unknown && !p.address.contains(r)
        }
        Delta::Lost if !seen.insert(v) => true,
        Delta::Lost => match cx.func.dfg.value_def(v) {
            ValueDef::Result(inst, _) => cx.func.dfg.inst_args(inst).iter().all(|&a| number(cx, p, a, seen)),
            ValueDef::Param(b, i) => cx.cfg.incoming(b, i).all(|a| number(cx, p, a, seen)),
            ValueDef::Union(..) => false,
        },
    }
}

/// Whether a result is a number below a million, whatever the operands: no address, though it may
/// be made from one.
fn is_small(func: &ir::Function, inst: ir::Inst) -> bool {
    let args = func.dfg.inst_args(inst);
    let constant = |i: usize| constant_int(func, args[i]);
    let small = |n: Option<i64>| n.is_some_and(|n| (0..1 << 20).contains(&n));
    match func.dfg.insts[inst].opcode() {
        Opcode::Band => small(constant(0)) || small(constant(1)),
        Opcode::Urem => small(constant(1)),
        Opcode::Ushr => constant(1).is_some_and(|n| (44..64).contains(&n)),
        _ => false,
    }
}

/// A pointer masked by an integer: alignment and tags keep the delta.
fn masked(func: &ir::Function, args: &[ir::Value], deltas: [Delta; 2], is_and: bool) -> Delta {
    let (mask, d) = match deltas {
        [Delta::Lost, _] | [_, Delta::Lost] => return Delta::Lost,
        [Delta::None, Delta::None] => return Delta::None,
        [Delta::Unknown, _] | [_, Delta::Unknown] => return Delta::Unknown,
        [x, Delta::None] => (args[1], x),
        [Delta::None, x] => (args[0], x),
        _ => return Delta::Lost,
    };
    match (constant_int(func, mask), is_and) {
        (Some(m), true) if m < 0 => d,
        (Some(m), false) if (0..1 << 16).contains(&m) => d,
        _ => Delta::Lost,
    }
}

/// Which roots are sure, and which are memory of this call alone.
fn sureness(cx: &PointerInput<'_>, p: &mut Pointers) {
    let func = cx.func;
    for (v, kind) in p.roots.clone() {
        let allocates = matches!(kind, RootKind::Call(i, _) if matches!(CalleeKind::of(cx.program, func, i), Some(CalleeKind::Known(_))));
        if allocates {
            p.sure.insert(v);
        }
        let recycled =
            matches!(kind, RootKind::Param(i) if matches!(cx.params[i], ParamMode::Dup { recycled: true, .. }));
        if allocates || recycled || matches!(kind, RootKind::Slot(_)) {
            p.made_here.insert(v);
        }
    }
    p.sure = closed(cx, p, p.sure.clone());
    p.made_here = closed(cx, p, p.made_here.clone());
}

/// The given roots, and those that are a choice between such roots.
fn closed(cx: &PointerInput<'_>, p: &Pointers, mut set: EntitySet<ir::Value>) -> EntitySet<ir::Value> {
    let func = cx.func;
    let choices: Vec<(ir::Value, &RootKind)> = p
        .roots
        .iter()
        .filter(|(_, k)| matches!(k, RootKind::Phi(..) | RootKind::Select(_)))
        .map(|(v, k)| (*v, k))
        .collect();
    // Optimistic: assume, then take back until nothing changes.
    set.extend(choices.iter().map(|x| x.0));
    let is_in = |set: &EntitySet<ir::Value>, v: ir::Value| matches!(p.delta[v], Delta::Root(r) if set.contains(r));
    loop {
        let wrong = choices.iter().find(|(v, kind)| {
            let ok = match kind {
                RootKind::Phi(b, i) => cx.cfg.incoming(*b, *i).all(|a| is_in(&set, a)),
                RootKind::Select(inst) => alternatives(func, *inst).iter().all(|&a| is_in(&set, a)),
                _ => true,
            };
            !ok && set.contains(*v)
        });
        match wrong {
            Some((v, _)) => set.remove(*v),
            None => return set,
        };
    }
}

/// Follow the roots of a value's delta to the function's own pointers and its parameters.
pub(crate) fn origins(cx: &PointerInput<'_>, p: &Pointers, v: ir::Value, out: &mut Origins) {
    let (mut seen, mut work) = (EntitySet::new(), vec![v]);
    while let Some(v) = work.pop() {
        let Delta::Root(r) = p.delta[v] else { continue };
        if !seen.insert(r) {
            continue;
        }
        match p.roots.get(&r) {
            Some(RootKind::Param(i)) => drop(out.params.insert(*i)),
            Some(RootKind::Phi(b, i)) => work.extend(cx.cfg.incoming(*b, *i)),
            Some(RootKind::Select(inst)) => work.extend(alternatives(cx.func, *inst)),
            Some(RootKind::Sum(a, b) | RootKind::Diff(a, b)) => work.extend([*a, *b]),
            // A callee that passes on what it is given, perhaps to itself, has no pointers of its
            // own.
            Some(RootKind::Call(inst, k))
                if !p.address.contains(r)
                    && let Some(CalleeKind::Derived(f)) = CalleeKind::of(cx.program, cx.func, *inst) =>
            {
                let from = cx.summaries.pointer_result(f, *k).cloned().unwrap_or_default();
                out.from_callee |= from.from_callee;
                out.unknown_callee |= from.unknown_callee;
                work.extend(from.params.iter().map(|&i| cx.func.dfg.inst_args(*inst)[i]));
            }
            kind => {
                let through_pointer = |inst: ir::Inst| cx.func.dfg.insts[inst].opcode() == Opcode::CallIndirect;
                out.unknown_callee |= matches!(kind, Some(RootKind::Call(inst, _)) if through_pointer(*inst));
                out.from_callee = true;
            }
        }
    }
}

/// What the caller says that a parameter points at.
pub fn declared_elem(mode: ParamMode) -> Option<Elem> {
    match mode {
        ParamMode::Dup { holds, .. } => holds.to_elem(),
        _ => None,
    }
}
