//! Interpreter of CLIF: frames, the loop over instructions, calls and returns.
//!
//! **Question.** What does a run of a program do, one instruction after another, and where does
//! control go next?
//!
//! **Answer.** A frame holds the values of one activation of a function, its stack slots (host
//! memory of its own, so that addresses of slots are ordinary addresses) and the instruction at
//! which it goes on. `run` is the loop of [`Machine::call`]; `step.rs` says what one instruction
//! does, as a [`Flow`]. Imported functions and those that the embedder computes are executed on the
//! spot, so that only defined functions get frames.
//!
//! Around this the machine keeps what is observed of the run:
//!
//! | what | where |
//! |---|---|
//! | floats and their operands | the [`Domain`] |
//! | which floats the bytes of memory are of | [`Marks`] |
//! | what steps of time loops write and what is read of it | [`Footprints`] |
//! | tasks of forks, and what they access | [`Tasks`], [`Races`] |
//!
//! **Invariant.** Memory that is new, or gone, is forgotten in all of them. All arguments of a jump
//! are read before any parameter of the block is written.
//!
//! **Errors.** A run ends where its [`Limits`] of instructions, frames or nodes are reached, at a
//! trap, a race, or an instruction that is not supported; each error names the instruction.
//!
//! **Safety.** The program reads and writes the host's memory at the addresses that it computes.
//! The caller of [`Machine::call`] promises that it may.
//!
//! **Cost.** One dispatch for each instruction, and in the domain one node for each float that is
//! followed. A frame has room for all values of its function.

use std::collections::HashMap;

use brolga_ir::{FuncKey, Program};
use cranelift_codegen::ir::{self, BlockArg, InstructionData, TrapCode};
use cranelift_entity::PrimaryMap;
use smallvec::SmallVec;

use super::custom::Externs;
use super::domain::{Domain, Event, NodeId};
use super::footprint::Footprints;
use super::linkage::Linkage;
use super::provenance::{FloatOrigin, Marks, OriginId, Prov};
use super::races::{AccessKind, Races, kind_at};
use super::tasks::Tasks;
use super::value::TrackedVal;
use crate::Limits;
use crate::error::{InstSite, OracleError, Place};

/// What an instruction does to control flow.
pub(super) enum Flow {
    /// Go on; there are no results.
    Next,
    /// Define the result and go on. Apart from `Values` because it is the common case and needs no
    /// allocation.
    Value(TrackedVal),
    /// Define the results and go on.
    Values(Vec<TrackedVal>),
    /// Go to another block.
    Jump(ir::BlockCall),
    /// Call, then go on as `Resume` says.
    Call(FuncKey, Vec<TrackedVal>),
    /// Leave this frame and call.
    TailCall(FuncKey, Vec<TrackedVal>),
    /// Return.
    Return(Vec<TrackedVal>),
}

impl From<TrackedVal> for Flow {
    fn from(v: TrackedVal) -> Self {
        Flow::Value(v)
    }
}

impl From<[TrackedVal; 2]> for Flow {
    fn from(vals: [TrackedVal; 2]) -> Self {
        Flow::Values(vals.into())
    }
}

/// What the bits of a float were before something was added to them.
#[derive(Clone, Copy, Debug)]
pub(super) struct FloatStep {
    /// The float.
    pub node: NodeId,
    /// Its bits.
    pub before: u128,
    /// What the last bit counts for: one, or less where they were divided, and negative where they
    /// were taken off something.
    pub counts: f64,
}

/// One activation of a function.
struct CallFrame<'p> {
    func: FuncKey,
    body: &'p ir::Function,
    /// Value of each `ir::Value`, by index; values that are not yet defined are zero.
    values: Vec<TrackedVal>,
    /// How much fuel was left when each was defined; nothing where nothing is tracked.
    defined: Vec<u64>,
    /// The next instruction; while a call is under way, the call.
    inst: ir::Inst,
    slots: Slots,
}

/// The stack slots of a frame.
struct Slots {
    /// Host memory of all slots.
    storage: Box<[u8]>,
    /// Address of each slot, by index.
    addresses: SmallVec<[usize; 4]>,
}

impl Slots {
    fn new(body: &ir::Function) -> Self {
        if body.sized_stack_slots.is_empty() {
            return Slots { storage: Box::default(), addresses: SmallVec::new() };
        }
        // Compiled code aligns slots to at least a word; 16 also serves vectors.
        let align = |s: &ir::StackSlotData| 16usize.max(1 << s.align_shift);
        let total = body.sized_stack_slots.values().map(|s| s.size as usize + align(s)).sum();
        let storage = vec![0u8; total].into_boxed_slice();
        let mut next = storage.as_ptr() as usize;
        let mut addresses = SmallVec::new();
        for s in body.sized_stack_slots.values() {
            next = next.next_multiple_of(align(s));
            addresses.push(next);
            next += s.size as usize;
        }
        Slots { storage, addresses }
    }
}

/// An interpreter of one program, with what its domain recorded.
pub struct Machine<'p, D: Domain> {
    program: &'p Program,
    /// The receiver of float operations.
    pub domain: D,
    /// Which floats the bytes of memory are of.
    pub marks: Marks,
    /// Addresses of functions and data objects.
    pub linkage: Linkage,
    /// Implementations of imported functions.
    pub externs: Externs,
    limits: Limits,
    fuel: u64,
    frames: Vec<CallFrame<'p>>,
    /// Arguments on their way into block parameters; empty between jumps, kept for its storage.
    block_args: Vec<TrackedVal>,
    /// Where mixed bytes were made. The map is the inverse, to give each instruction one id.
    origins: PrimaryMap<OriginId, InstSite>,
    origin_ids: HashMap<InstSite, OriginId>,
    pub(super) pinned_reg: TrackedVal,
    /// Sizes of blocks that the program has allocated, by address, because `realloc` must know how
    /// much to keep.
    pub(super) allocations: HashMap<usize, usize>,
    /// Floats whose bits are those of another, plus a number.
    pub(super) stepped: HashMap<NodeId, FloatStep>,
    /// Floats that have the last digits of another, but for what was added to them.
    pub(super) same_digits: HashMap<NodeId, NodeId>,
    /// The upper halves of doubles that have become something else.
    pub(super) uppers: HashMap<NodeId, u128>,
    /// Sums with a large constant, and the constant.
    pub(super) sums: HashMap<NodeId, f64>,
    /// What steps of time loops write.
    pub(super) footprints: Footprints,
    /// Tasks that run, and what they access.
    tasks: Tasks,
    races: Races,
    /// Whether the sign of a NaN became that of another number.
    pub nan_sign: bool,
    site: InstSite,
}

impl<'p, D: Domain> Machine<'p, D> {
    /// A machine that has not run yet.
    pub fn new(program: &'p Program, domain: D, limits: &Limits) -> Self {
        Machine {
            program,
            domain,
            marks: Marks::default(),
            linkage: Linkage::new(program),
            externs: Externs::default(),
            limits: limits.clone(),
            fuel: limits.fuel,
            frames: Vec::new(),
            block_args: Vec::new(),
            origins: PrimaryMap::new(),
            origin_ids: HashMap::new(),
            pinned_reg: TrackedVal::default(),
            allocations: HashMap::new(),
            stepped: HashMap::new(),
            same_digits: HashMap::new(),
            uppers: HashMap::new(),
            sums: HashMap::new(),
            footprints: Footprints::default(),
            tasks: Tasks::default(),
            races: Races::default(),
            nan_sign: false,
            site: InstSite { func: FuncKey::from_u32(0), inst: ir::Inst::from_u32(0) },
        }
    }

    /// The first store of a step of a time loop, outside of the loop's states, that a later step or
    /// the code after the loop has read, and the load that did.
    pub fn stray(&self) -> Option<(InstSite, InstSite)> {
        self.footprints.found()
    }

    /// How many instructions have been executed.
    pub fn n_steps(&self) -> u64 {
        self.limits.fuel - self.fuel
    }

    /// How many of them were on the longest way through forks: the time that the run takes with as
    /// many threads as there are tasks. A fork counts what its longest task counts, and one.
    pub fn span(&self) -> u64 {
        self.tasks.span(self.n_steps())
    }

    /// Call `func` and run until it returns.
    ///
    /// # Safety
    ///
    /// Whatever memory the program reads or writes with these arguments must be there for it to
    /// read or write.
    pub unsafe fn call(&mut self, func: FuncKey, args: Vec<TrackedVal>) -> Result<Vec<TrackedVal>, OracleError> {
        let f = &self.program.funcs[func];
        if f.signature.params.len() != args.len() {
            return Err(OracleError::BadCall(format!(
                "%{} takes {} arguments, not {}",
                f.symbol,
                f.signature.params.len(),
                args.len()
            )));
        }
        self.frames.clear();
        self.footprints = Footprints::default();
        (self.tasks, self.races) = (Tasks::default(), Races::default());
        self.fuel = self.limits.fuel;
        match &f.body {
            None => Err(OracleError::BadCall(format!("%{} has no body", f.symbol))),
            Some(_) => {
                self.enter(func, args)?;
                // SAFETY: promised by the caller.
                unsafe { self.run() }
            }
        }
    }

    /// The loop over instructions.
    unsafe fn run(&mut self) -> Result<Vec<TrackedVal>, OracleError> {
        loop {
            let frame = self.frames.last().expect("a function is running");
            let (body, inst) = (frame.body, frame.inst);
            self.site = InstSite { func: frame.func, inst };
            if let Some(race) = self.races.found(self.program) {
                return Err(OracleError::Race(race));
            }
            self.fuel = self.fuel.checked_sub(1).ok_or_else(|| OracleError::Fuel { at: self.place() })?;
            if self.domain.n_nodes() > self.limits.nodes {
                return Err(OracleError::Nodes { limit: self.limits.nodes });
            }
            let first_new = self.domain.n_nodes();
            // SAFETY: promised by the caller of `call`.
            let mut flow = unsafe { self.step_on_sums(body, inst)? };
            // An imported function is executed on the spot, so that only defined functions get
            // frames.
            loop {
                if D::OBSERVES {
                    self.observe_flow(body, inst, &flow, first_new);
                }
                match flow {
                    Flow::Next => self.finish(inst, []),
                    Flow::Value(v) => self.finish(inst, [v]),
                    Flow::Values(vals) => self.finish(inst, vals),
                    Flow::Jump(to) => self.jump(to, &[]),
                    Flow::Return(vals) => {
                        self.leave();
                        let Some(caller) = self.frames.last() else { return Ok(vals) };
                        let inst = caller.inst;
                        self.finish(inst, vals);
                    }
                    Flow::Call(func, args) if self.program.funcs[func].computes.is_some() => {
                        // SAFETY: as above.
                        flow = Flow::Values(unsafe { self.call_computing(func, &args)? });
                        continue;
                    }
                    Flow::TailCall(func, args) if self.program.funcs[func].computes.is_some() => {
                        // SAFETY: as above.
                        flow = Flow::Return(unsafe { self.call_computing(func, &args)? });
                        continue;
                    }
                    Flow::Call(func, args) if self.program.funcs[func].body.is_some() => self.enter(func, args)?,
                    Flow::TailCall(func, args) if self.program.funcs[func].body.is_some() => {
                        self.leave();
                        self.enter(func, args)?;
                    }
                    Flow::Call(func, args) => {
                        // SAFETY: as above.
                        flow = Flow::Values(unsafe { self.call_extern(func, &args)? });
                        continue;
                    }
                    Flow::TailCall(func, args) => {
                        // SAFETY: as above.
                        flow = Flow::Return(unsafe { self.call_extern(func, &args)? });
                        continue;
                    }
                }
                break;
            }
        }
    }

    /// Push a frame for a defined function.
    fn enter(&mut self, func: FuncKey, args: Vec<TrackedVal>) -> Result<(), OracleError> {
        if self.frames.len() >= self.limits.depth {
            return Err(OracleError::Depth { at: self.place() });
        }
        let program = self.program;
        let body = program.funcs[func].body.as_ref().expect("only defined functions are entered");
        let entry = body.layout.entry_block().expect("a verified function has an entry block");
        self.footprints.enter(&program.funcs[func], self.frames.len(), &args);
        self.tasks.enter(func, &program.funcs[func], self.frames.len(), self.limits.fuel - self.fuel);
        let mut values = vec![TrackedVal::default(); body.dfg.num_values()];
        for (&p, a) in body.dfg.block_params(entry).iter().zip(args) {
            values[p.as_u32() as usize] = a;
        }
        let defined = if D::TRACKS { vec![self.fuel; values.len()] } else { Vec::new() };
        let slots = Slots::new(body);
        // The memory may have been something else before.
        self.forget(slots.storage.as_ptr() as usize, slots.storage.len());
        let inst = body.layout.first_inst(entry).expect("a verified block has a terminator");
        self.frames.push(CallFrame { func, body, values, defined, inst, slots });
        if D::OBSERVES {
            self.domain.observe(Event::Entered(func, entry));
        }
        Ok(())
    }

    /// Pop the running frame.
    fn leave(&mut self) {
        let frame = self.frames.pop().expect("a function is running");
        self.forget(frame.slots.storage.as_ptr() as usize, frame.slots.storage.len());
        self.footprints.leave(self.frames.len());
        if self.tasks.leave(self.frames.len(), self.limits.fuel - self.fuel) {
            self.races.clear();
        }
    }

    /// Memory is new, or gone.
    pub(super) fn forget(&mut self, at: usize, n: usize) {
        self.marks.clear(at, n);
        self.footprints.forget(at, n);
        self.races.forget(at, n);
    }

    /// Bytes are read.
    pub(super) fn reads(&mut self, at: usize, n: usize) {
        self.footprints.read(at, n, self.site);
        self.accesses(at, n, false);
    }

    /// Bytes are written.
    pub(super) fn writes(&mut self, at: usize, n: usize) {
        self.footprints.write(at, n, self.site);
        self.accesses(at, n, true);
    }

    /// Bytes are copied.
    pub(super) fn copies(&mut self, to: usize, from: usize, n: usize) {
        self.footprints.copy(to, from, n, self.site);
        self.accesses(from, n, false);
        self.accesses(to, n, true);
    }

    /// A block is given back, which no concurrent task may use.
    pub(super) fn gives_back(&mut self, at: usize, n: usize) {
        self.accesses(at, n, true);
        self.forget(at, n);
    }

    fn accesses(&mut self, at: usize, n: usize, writes: bool) {
        if self.tasks.is_active() {
            let kind: AccessKind = kind_at(self.program, self.site, writes);
            self.races.access(&mut self.tasks, at, n, kind, self.site);
        }
    }

    /// Define the results of `inst` and go on after it.
    fn finish(&mut self, inst: ir::Inst, results: impl IntoIterator<Item = TrackedVal>) {
        let frame = self.frames.last_mut().expect("a function is running");
        let body = frame.body;
        if let InstructionData::TryCall { exception, .. } | InstructionData::TryCallIndirect { exception, .. } =
            body.dfg.insts[inst]
        {
            let normal = *body.dfg.exception_tables[exception].normal_return();
            return self.jump(normal, &results.into_iter().collect::<Vec<TrackedVal>>());
        }
        for (&v, r) in body.dfg.inst_results(inst).iter().zip(results) {
            frame.values[v.as_u32() as usize] = r;
            if D::TRACKS {
                frame.defined[v.as_u32() as usize] = self.fuel;
            }
        }
        frame.inst = body.layout.next_inst(inst).expect("only terminators are last, and they do not finish");
    }

    /// Go to a block. All arguments are read before any parameter is written.
    fn jump(&mut self, to: ir::BlockCall, returned: &[TrackedVal]) {
        let frame = self.frames.last_mut().expect("a function is running");
        let dfg = &frame.body.dfg;
        let block = to.block(&dfg.value_lists);
        self.block_args.extend(to.args(&dfg.value_lists).map(|a| match a {
            BlockArg::Value(v) => frame.values[dfg.resolve_aliases(v).as_u32() as usize].clone(),
            BlockArg::TryCallRet(i) => returned[i as usize].clone(),
            // No exception is ever thrown, so no handler is entered.
            BlockArg::TryCallExn(_) => TrackedVal::default(),
        }));
        for (&p, a) in dfg.block_params(block).iter().zip(self.block_args.drain(..)) {
            frame.values[p.as_u32() as usize] = a;
            if D::TRACKS {
                frame.defined[p.as_u32() as usize] = self.fuel;
            }
        }
        frame.inst = frame.body.layout.first_inst(block).expect("a verified block has a terminator");
        if D::OBSERVES {
            let func = frame.func;
            self.domain.observe(Event::Entered(func, block));
        }
    }

    /// The limits that it was made with.
    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The program.
    pub(super) fn program(&self) -> &'p Program {
        self.program
    }

    /// The value `v` of the running frame.
    pub(super) fn get(&self, v: ir::Value) -> &TrackedVal {
        let frame = self.frames.last().expect("a function is running");
        &frame.values[frame.body.dfg.resolve_aliases(v).as_u32() as usize]
    }

    /// When the value `v` of the running frame was defined, by the clock of the run.
    pub(super) fn defined_at(&self, v: ir::Value) -> u64 {
        let frame = self.frames.last().expect("a function is running");
        let left = frame.defined.get(frame.body.dfg.resolve_aliases(v).as_u32() as usize);
        left.map_or(0, |left| self.limits.fuel - left)
    }

    /// Say that the value `v` of the running frame comes from elsewhere.
    pub(super) fn come_from(&mut self, v: ir::Value, prov: Prov) {
        let frame = self.frames.last_mut().expect("a function is running");
        frame.values[frame.body.dfg.resolve_aliases(v).as_u32() as usize].prov = prov;
    }

    /// The bits of `v`.
    pub(super) fn bits(&self, v: ir::Value) -> u128 {
        self.get(v).bits
    }

    /// The address of a stack slot of the running frame.
    pub(super) fn slot_address(&self, slot: ir::StackSlot) -> usize {
        self.frames.last().expect("a function is running").slots.addresses[slot.as_u32() as usize]
    }

    /// Some address in the running frame that the program cannot otherwise have.
    pub(super) fn frame_address(&self) -> usize {
        self.frames.last().map_or(0, |f| f.values.as_ptr() as usize)
    }

    /// The running instruction.
    pub(super) fn site(&self) -> InstSite {
        self.site
    }

    /// The running instruction, in words.
    pub(super) fn place(&self) -> Box<Place> {
        Place::new(self.program, self.site)
    }

    /// The running instruction traps.
    pub(super) fn trap(&self, code: TrapCode) -> OracleError {
        OracleError::Trap { code, at: self.place() }
    }

    /// The running instruction is not supported.
    pub(super) fn unsupported(&self, what: impl Into<String>) -> OracleError {
        OracleError::Unsupported { what: what.into(), at: self.place() }
    }

    /// The id of the running instruction as the origin of mixed bytes.
    pub(super) fn origin(&mut self) -> OriginId {
        let Machine { origins, origin_ids, site, .. } = self;
        *origin_ids.entry(*site).or_insert_with(|| origins.push(*site))
    }

    /// `n` bytes that were computed from `operands` in a way that is not followed.
    pub(super) fn mix<'v>(&mut self, n: usize, operands: impl IntoIterator<Item = &'v TrackedVal>) -> Prov {
        if !D::TRACKS || operands.into_iter().all(|v| v.prov.is_clean()) {
            return Prov::Clean;
        }
        let origin = self.origin();
        Prov::mixed(n, origin)
    }

    /// The node of a float that is used as one: none for a constant.
    pub fn node_of(&mut self, origin: FloatOrigin, value: f64) -> Option<NodeId> {
        match origin {
            FloatOrigin::Clean => None,
            FloatOrigin::Node(n) => Some(n),
            FloatOrigin::Untracked(o) => {
                let site = o.map_or(self.site, |o| self.origins[o]);
                Some(self.domain.untracked(value, site))
            }
        }
    }
}
