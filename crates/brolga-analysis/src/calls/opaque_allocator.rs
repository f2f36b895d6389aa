//! Opaque allocators: which functions of a program's own allocator are called as they are.
//!
//! **Problem.** A C library's `malloc` and `free` are thousands of instructions of the program
//! ([`brolga_ir::Allocator`]). To derive them takes longer than the function whose gradient is
//! wanted, and what is recorded of them undoes nothing: an allocator's lists are integers, and a
//! new block has nothing in it that anything depends on.
//!
//! **Answer.** Such a function is called in the first half as in the primal, and has no other: it
//! is not derived, nor analysed, nor what it alone calls. A call of it is a [`CalleeKind::Plain`].
//!
//! **Why that is right.** The reverse of an allocation would take the cotangents of what was in the
//! block before the program first wrote to it, the reverse of a release those of what is in it
//! after the release. By the promise of [`brolga_ir::Allocator`] neither is read, nor what lies
//! between blocks, so these are zeros. What the function returns is a number that is used as an
//! address. What it writes the analyses take on trust with or without its body
//! ([`crate::memory::mod_ref`], [`crate::memory::points_to`]): the block that is released, and what
//! lies before memory. And since the first half calls it as often as the primal does, in the
//! same order, with the same arguments, it gives the same blocks. Where memory is restored all that
//! is not true, and everything is derived.
//!
//! **What is not taken on trust.** A name is a weak promise. An allocator may do what the program
//! leans on though C says nothing of it: fill its blocks, most of all with zeros, or keep its state
//! where the program looks (an arena's end). Derived, that is all honoured. So a function is called
//! as it is only if it is seen to *keep lists*, with all that it calls:
//!
//! - it handles integers of up to 64 bits, by loads, stores, arithmetic and branches. There are no
//!   floats, no vectors, no copies of blocks, no atomics;
//! - what it calls is known: functions of the program of which the same holds, without recursion,
//!   and functions of the embedder, which do not matter for derivatives (`Program::define_host`);
//! - in a loop, or in a function that is called in one, it stores only what cannot fill a block
//!   with anything. *Marks* are small constants other than zero. *Counts* are another number in
//!   each iteration: each way back to the head of the loop adds a constant, and each way to the
//!   store passes there. Before memory, where a WebAssembly module has its globals, it stores
//!   anything;
//! - what allocates stores nothing at the address that it returns or behind it by a constant, nor
//!   hands that address on. Variables that lie in memory, as all do without optimisation, are
//!   followed: what is loaded from a place that is reached from a global (the stack pointer) by a
//!   constant is one and the same, and all that is stored there;
//! - it writes somewhere whose address was found in memory, or given. What writes only to places
//!   that are plain to see is a bump allocator, or something like it; it is short, and
//!   [`crate::memory::mod_ref`] says exactly what it writes;
//! - its address is not taken. A call through a pointer asks for a derived pair.
//!
//! **Errs** on the side of deriving.
//!
//! **Cost.** A function that an allocator reaches is looked at once, from each result at
//! [`MOST_VALUES`] values at most.

use brolga_ir::map::HashMap;
use brolga_ir::program::addresses;
use brolga_ir::{Allocator, FuncKey, Program};
use brolga_rules::{OpcodeRule, Structural, opcode_rule};
use cranelift_codegen::ir::{self, ArgumentPurpose, InstructionData, Opcode, Type, Value, ValueDef};
use cranelift_entity::EntitySet;

use crate::cfg::Cfg;
use crate::query::callee::CalleeKind;
use crate::query::{access_address, access_bytes, access_offset, constant_int};

/// Calls that lead from one of these functions to another, at most.
const DEPTH: usize = 32;
/// Values that are followed from a result; what takes more is derived.
const MOST_VALUES: usize = 1 << 10;
/// Constants below this are marks. As the bits of a float they are next to nothing.
const MARK: u64 = 1 << 16;

/// The functions among those that `root` reaches that are called as they are, wherever something
/// else calls them.
pub fn functions(program: &Program, reached: &[FuncKey], root: FuncKey) -> EntitySet<FuncKey> {
    let mut found = EntitySet::new();
    let mut lists = Lists { program, seen: HashMap::default(), known: HashMap::default() };
    for &k in reached.iter().filter(|&&k| k != root) {
        let f = &program.funcs[k];
        let allocates = match f.allocator {
            Some(Allocator::Allocate { zeroed: false }) => true,
            Some(Allocator::Release { .. }) => false,
            // What is in the new block matters.
            Some(Allocator::Allocate { zeroed: true } | Allocator::Reallocate { .. }) | None => continue,
        };
        if f.computes.is_none()
            && has_type(&f.signature)
            && lists.all(k, false, 0).is_some_and(|writes| writes.heap && !(allocates && writes.fills))
        {
            found.insert(k);
        }
    }
    if found.is_empty() {
        return found;
    }
    for (symbol, _) in reached.iter().filter_map(|&k| program.funcs[k].body.as_ref()).flat_map(addresses) {
        program.func(&symbol).into_iter().for_each(|k| {
            found.remove(k);
        });
    }
    found
}

/// Whether it takes the instance and integers, and returns an integer that is no address by itself,
/// or nothing.
fn has_type(sig: &ir::Signature) -> bool {
    let instance = sig.params.first().is_some_and(|p| p.purpose == ArgumentPurpose::VMContext);
    let fits = |p: &ir::AbiParam| p.purpose == ArgumentPurpose::Normal && is_number(p.value_type);
    instance && sig.params[1..].iter().all(fits) && sig.returns.len() <= 1 && sig.returns.iter().all(fits)
        // One of 64 bits might carry a shadow.
        && sig.returns.iter().all(|r| r.value_type.bits() <= 32)
}

fn is_number(ty: Type) -> bool {
    ty.is_int() && ty.bits() <= 64
}

/// What is known of a function that keeps lists.
#[derive(Clone, Copy, Debug, Default)]
struct ListWrites {
    /// It writes to places that are not plain to see.
    heap: bool,
    /// It may write to what it returns.
    fills: bool,
}

/// One function by itself.
struct FunctionLists {
    writes: ListWrites,
    /// It may be called in a loop: wherever it stores, it stores what may be stored there.
    anywhere: bool,
    /// Functions of the program that it calls, and whether in a loop.
    calls: Vec<(FuncKey, bool)>,
}

struct Lists<'a> {
    program: &'a Program,
    seen: HashMap<FuncKey, Option<FunctionLists>>,
    /// With all that they call, in a loop or not. What is not known yet is none, so a recursion is.
    known: HashMap<(FuncKey, bool), Option<ListWrites>>,
}

impl Lists<'_> {
    /// A function with all that it calls, if that keeps lists and nothing else.
    fn all(&mut self, k: FuncKey, looped: bool, depth: usize) -> Option<ListWrites> {
        if depth > DEPTH {
            return None;
        }
        if let Some(&known) = self.known.get(&(k, looped)) {
            return known;
        }
        self.known.insert((k, looped), None);
        let found = self.with_calls(k, looped, depth);
        self.known.insert((k, looped), found);
        found
    }

    fn with_calls(&mut self, k: FuncKey, looped: bool, depth: usize) -> Option<ListWrites> {
        let program = self.program;
        let function = self.seen.entry(k).or_insert_with(|| look(program, k)).as_ref()?;
        if looped && !function.anywhere {
            return None;
        }
        let (mut writes, calls) = (function.writes, function.calls.clone());
        for (callee, in_loop) in calls {
            let of_callee = self.all(callee, looped || in_loop, depth + 1)?;
            writes = ListWrites { heap: writes.heap || of_callee.heap, fills: writes.fills || of_callee.fills };
        }
        Some(writes)
    }
}

/// Look at one function; `None` if it does anything but to keep lists.
fn look(program: &Program, k: FuncKey) -> Option<FunctionLists> {
    let func = program.funcs[k].body.as_ref()?;
    let cfg = Cfg::compute(func);
    let instance = func.signature.params.first().is_some_and(|p| p.purpose == ArgumentPurpose::VMContext);
    if !instance || !func.dfg.values().all(|v| is_number(func.dfg.value_type(v))) {
        return None;
    }
    let mut body = ListBody::new(func, &cfg);
    let returned = body.returned();
    let is_returned = |v: Value, end: i64| match &returned {
        Some(all) => all.get(&v).is_some_and(|&at| end > at),
        None => true,
    };
    let mut function = FunctionLists { writes: ListWrites::default(), anywhere: true, calls: Vec::new() };
    for &b in &cfg.blocks {
        let looped = cfg.cyclic.contains(b);
        for inst in func.layout.block_insts(b) {
            let op = func.dfg.insts[inst].opcode();
            if !is_allowed(op) {
                return None;
            }
            if op.is_call() {
                match CalleeKind::of(program, func, inst)? {
                    CalleeKind::Derived(callee) | CalleeKind::Plain(callee) => function.calls.push((callee, looped)),
                    CalleeKind::Host => {}
                    CalleeKind::Known(_)
                    | CalleeKind::Computes(_)
                    | CalleeKind::Missing(_)
                    | CalleeKind::Indirect(_) => return None,
                }
                function.writes.fills |=
                    func.dfg.inst_args(inst).iter().any(|&a| is_returned(body.loaded(body.sum(a).0), i64::MAX));
            } else if op.can_store() {
                let address = access_address(func, inst)?;
                let (base, at) = body.accessed(inst)?;
                if base == body.instance() && at < 0 {
                    continue;
                }
                let value = func.dfg.inst_args(inst)[0];
                let mark = body.is_mark(value, access_bytes(func, inst));
                if looped && !(mark || op == Opcode::Store && body.counts(b, value)) {
                    return None;
                }
                function.anywhere &= mark;
                function.writes.fills |=
                    is_returned(body.loaded(base), at.saturating_add(access_bytes(func, inst).into()));
                function.writes.heap = function.writes.heap || !body.is_steady(address);
            }
        }
    }
    Some(function)
}

/// What works on integers, and does what it does here and now.
fn is_allowed(op: Opcode) -> bool {
    match opcode_rule(op) {
        OpcodeRule::NotFloat | OpcodeRule::Zero => true,
        OpcodeRule::Expr(_) | OpcodeRule::Refused(_) => false,
        OpcodeRule::Structural(s) => matches!(
            s,
            Structural::Load
                | Structural::Store
                | Structural::IntLoad
                | Structural::IntStore
                | Structural::Select
                | Structural::Band
                | Structural::Bor
                | Structural::Bxor
                | Structural::Bnot
                | Structural::IntArith
                | Structural::IntBits
                | Structural::Control
                | Structural::Trap
                | Structural::Call
                | Structural::TailCall
        ),
    }
}

/// A body as its frontend wrote it: with aliases of values, and edges that are parallel.
struct ListBody<'a> {
    func: &'a ir::Function,
    cfg: &'a Cfg,
    /// Values that are made of constants and the instance, as far as they have been looked at.
    steady: EntitySet<Value>,
    /// Variables in memory: the first load of each, and what is stored there.
    places: HashMap<(Value, i64), (Option<Value>, Vec<Value>)>,
}

impl<'a> ListBody<'a> {
    fn new(func: &'a ir::Function, cfg: &'a Cfg) -> Self {
        let mut body = Self { func, cfg, steady: EntitySet::new(), places: HashMap::default() };
        for inst in cfg.blocks.iter().flat_map(|&b| func.layout.block_insts(b)) {
            let op = func.dfg.insts[inst].opcode();
            if (op.can_load() || op.can_store())
                && let Some(place) = body.accessed(inst)
                && body.is_global(place.0)
            {
                let known = body.places.entry(place).or_default();
                match func.dfg.inst_results(inst) {
                    [] => known.1.push(func.dfg.inst_args(inst)[0]),
                    [v, ..] => known.0 = known.0.or(Some(*v)),
                }
            }
        }
        body
    }

    /// The place that a load or a store accesses.
    fn accessed(&self, inst: ir::Inst) -> Option<(Value, i64)> {
        let (base, at) = self.place(access_address(self.func, inst)?);
        Some((base, at.saturating_add(access_offset(self.func, inst).into())))
    }

    /// Whether a value is loaded from before memory.
    fn is_global(&self, v: Value) -> bool {
        self.func.dfg.value_def(v).inst().is_some_and(|inst| {
            let place = self.accessed(inst);
            self.func.dfg.insts[inst].opcode().can_load()
                && place.is_some_and(|(base, at)| base == self.instance() && at < 0)
        })
    }

    /// What is known of the variable that a value is loaded from.
    fn source(&self, v: Value) -> Option<&(Option<Value>, Vec<Value>)> {
        let inst = self.func.dfg.value_def(v).inst()?;
        if !self.func.dfg.insts[inst].opcode().can_load() {
            return None;
        }
        self.places.get(&self.accessed(inst)?)
    }

    /// Of all values that are loaded from one variable the first.
    fn loaded(&self, v: Value) -> Value {
        self.source(v).and_then(|s| s.0).unwrap_or(v)
    }

    fn instance(&self) -> Value {
        self.func.dfg.block_params(self.cfg.blocks[0])[0]
    }

    /// What an addition of a constant is of, and the constant.
    fn step(&self, v: Value) -> Option<(Value, i64)> {
        let InstructionData::Binary { opcode, args: [a, b] } =
            self.func.dfg.insts[self.func.dfg.value_def(v).inst()?]
        else {
            return None;
        };
        match (opcode, self.constant(a), self.constant(b)) {
            (Opcode::Iadd, _, Some(by)) => Some((a, by)),
            (Opcode::Iadd, Some(by), None) => Some((b, by)),
            (Opcode::Isub, _, Some(by)) => Some((a, by.wrapping_neg())),
            _ => None,
        }
    }

    /// A constant, with its sign.
    fn constant(&self, v: Value) -> Option<i64> {
        let unused = 64 - self.func.dfg.value_type(v).bits();
        let v = self.func.dfg.resolve_aliases(v);
        let inst = self.func.dfg.value_def(v).inst()?;
        if self.func.dfg.insts[inst].opcode() != Opcode::Iconst {
            return None;
        }
        constant_int(self.func, v).map(|c| (c << unused) >> unused)
    }

    /// A value as another and a constant.
    fn sum(&self, v: Value) -> (Value, i64) {
        let (mut v, mut at) = (self.func.dfg.resolve_aliases(v), 0_i64);
        while let Some((of, by)) = self.step(v) {
            (v, at) = (self.func.dfg.resolve_aliases(of), at.wrapping_add(by));
        }
        (v, at)
    }

    /// The same of an address, where the number that leads into memory is what counts, be it
    /// widened or not.
    fn place(&self, address: Value) -> (Value, i64) {
        let dfg = &self.func.dfg;
        let (mut v, mut at) = self.sum(address);
        while let Some(inst) = dfg.value_def(v).inst() {
            let of = match dfg.insts[inst] {
                InstructionData::Unary { opcode: Opcode::Uextend, arg } => arg,
                InstructionData::Binary { opcode: Opcode::Iadd, args: [a, b] } => {
                    match (dfg.resolve_aliases(a) == self.instance(), dfg.resolve_aliases(b) == self.instance()) {
                        (true, _) => b,
                        (_, true) => a,
                        _ => break,
                    }
                }
                _ => break,
            };
            let (base, by) = self.sum(of);
            (v, at) = (base, at.wrapping_add(by));
        }
        (v, at)
    }

    /// What comes in for a parameter: from which block, and what.
    fn incoming(&self, b: ir::Block, i: usize) -> impl Iterator<Item = (ir::Block, Option<Value>)> {
        let dfg = &self.func.dfg;
        // Parallel edges are several predecessors, each of which has all of them.
        let calls = self.cfg.preds[b].iter().flat_map(|&from| {
            let last = self.func.layout.last_inst(from).expect("a block has a terminator");
            dfg.insts[last].branch_destination(&dfg.jump_tables, &dfg.exception_tables).iter().map(move |c| (from, c))
        });
        let here = calls.filter(move |(_, c)| c.block(&dfg.value_lists) == b);
        here.map(move |(from, c)| (from, c.args(&dfg.value_lists).nth(i).and_then(|a| a.as_value())))
    }

    /// Whether a value is made of constants and the instance alone.
    fn is_steady(&mut self, v: Value) -> bool {
        let dfg = &self.func.dfg;
        let mut work = vec![v];
        while let Some(v) = work.pop().map(|v| dfg.resolve_aliases(v)) {
            if v == self.instance() || !self.steady.insert(v) {
                continue;
            }
            match dfg.value_def(v) {
                ValueDef::Param(b, _) if b == self.cfg.blocks[0] => return false,
                ValueDef::Param(b, i) => {
                    for (_, arg) in self.incoming(b, i) {
                        let Some(arg) = arg else { return false };
                        work.push(arg);
                    }
                }
                ValueDef::Result(inst, _) => {
                    let op = dfg.insts[inst].opcode();
                    if op.can_load() || op.is_call() {
                        return false;
                    }
                    work.extend_from_slice(dfg.inst_args(inst));
                }
                ValueDef::Union(..) => return false,
            }
        }
        true
    }

    /// What the results are made of by adding constants, and the least of these; `None` if that is
    /// too much to follow.
    fn returned(&self) -> Option<HashMap<Value, i64>> {
        let dfg = &self.func.dfg;
        let mut found: HashMap<Value, i64> = HashMap::default();
        let mut work: Vec<(Value, i64)> = Vec::new();
        for &b in &self.cfg.blocks {
            let last = self.func.layout.last_inst(b).expect("a block has a terminator");
            if dfg.insts[last].opcode() == Opcode::Return {
                work.extend(dfg.inst_args(last).iter().map(|&v| (v, 0)));
            }
        }
        let mut left = MOST_VALUES;
        while let Some((v, at)) = work.pop() {
            left = left.checked_sub(1)?;
            let (v, by) = self.sum(v);
            let (v, at) = (self.loaded(v), at.wrapping_add(by));
            // The instance is where all addresses begin, and a constant is no block.
            if v == self.instance() || self.constant(v).is_some() || found.get(&v).is_some_and(|&old| old <= at) {
                continue;
            }
            found.insert(v, at);
            work.extend(self.source(v).iter().flat_map(|s| &s.1).map(|&v| (v, at)));
            match dfg.value_def(v) {
                ValueDef::Param(b, i) if b != self.cfg.blocks[0] => {
                    for (_, arg) in self.incoming(b, i) {
                        work.push((arg?, at));
                    }
                }
                ValueDef::Result(inst, _) if dfg.insts[inst].opcode() == Opcode::Select => {
                    work.extend(dfg.inst_args(inst)[1..].iter().map(|&v| (v, at)));
                }
                _ => {}
            }
        }
        Some(found)
    }

    /// Whether what is stored is a small number other than zero.
    fn is_mark(&self, v: Value, bytes: u32) -> bool {
        let stored = |c: i64| c as u64 & (u64::MAX >> (64 - 8 * bytes.min(8)));
        self.constant(v).is_some_and(|c| (1..MARK).contains(&stored(c)))
    }

    /// Whether a value is another one whenever its block runs again.
    fn counts(&self, block: ir::Block, v: Value) -> bool {
        let (count, _) = self.sum(v);
        let ValueDef::Param(head, i) = self.func.dfg.value_def(count) else { return false };
        let bits = self.func.dfg.value_type(count).bits();
        let moves = |arg: Value| {
            let (of, by) = self.sum(arg);
            of == count && by << (64 - bits) != 0
        };
        let reachable = self.reached(head, None);
        let mut iterations = self.incoming(head, i).filter(|(from, _)| reachable.contains(*from) || *from == head);
        head != self.cfg.blocks[0]
            && iterations.all(|(_, arg)| arg.is_some_and(moves))
            && (block == head || !self.reached(block, Some(head)).contains(block))
    }

    /// The blocks that a block leads to, itself if it lies on a cycle, by ways that do not pass
    /// another one.
    fn reached(&self, from: ir::Block, without: Option<ir::Block>) -> EntitySet<ir::Block> {
        let mut found = EntitySet::new();
        let mut work: Vec<ir::Block> = self.cfg.succs[from].to_vec();
        while let Some(b) = work.pop() {
            if Some(b) != without && found.insert(b) {
                work.extend(&self.cfg.succs[b]);
            }
        }
        found
    }
}
