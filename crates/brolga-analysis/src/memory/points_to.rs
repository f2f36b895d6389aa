//! Points-to analysis: which blocks of the program's own allocator an address may be in.
//!
//! **Problem.** Where memory is one piece (a WebAssembly module's), every address is the instance
//! pointer plus a number, so a store to one array may be a store to any other. But the numbers come
//! from somewhere, and if a function of the program is known to be an allocator ([`Allocator`]),
//! what it returns is a block apart from everything else.
//!
//! **Answer.** Every value has a *set* of what it may be made from: *sites* (calls of an allocator
//! in this function; a site stands for all blocks that it ever returns), and the *rest*
//! (parameters, one by one, and anything else). Two accesses whose sets have no site in common and
//! are not both in the rest do not touch the same block. What a value is made from is found by one
//! fixpoint over the function, without regard to order:
//!
//! - an instruction passes on the sets of its operands, a block parameter those of its arguments;
//! - a site *escapes* if something made from it is stored in the rest or in an escaped site, or is
//!   given to a call that may keep it ([`PointerFlow::keeps`]), or lies in a block of which a call
//!   is told. What is loaded from the rest is made from anything in the rest or escaped; what a
//!   call returns, from those of its arguments that the callee's results are made from (`memcpy`
//!   returns what it was given), and from anything in the rest or escaped if they are made from
//!   anything else. What is loaded from a site that has not escaped is made from what has been
//!   stored there;
//! - parameters are in the rest: what the caller knows is older than any block that this activation
//!   allocates. But one of which the caller has said that nothing else leads to its memory
//!   (`noalias`) is a site as well, of a block that holds what others have put there.
//!
//! For addresses there is a second set, of what they are *based* on. There, what is scaled (a
//! 32-bit `ishl` or `imul`) and then added is an index, as in [`crate::memory::alias`], and so are
//! constants: a [`NUMBER`]. A number alone is the address of a static object, which is in the rest,
//! and whatever may be a number after all (a difference of addresses, their bits, a merge of an
//! address with a constant) may be the address of one, too. Any other operation passes on the whole
//! set, and so does storing.
//!
//! **Lifetimes.** Sets say nothing of time: when a block has been released, its bytes may become
//! another site's. Every client asks whether something is written between two points, and a release
//! counts as a write to the block that is released ([`crate::memory::mod_ref::written`]). If the
//! bytes of a block have come to be another's, then such a write lies between.
//!
//! **Invariants.** An access stays in the object that its address was made from (C's rule, and the
//! promise of [`Allocator`]). Sets are never empty for addresses, and have all bits where nothing
//! is known. Sites beyond the sixty-fourth are in the rest.
//!
//! **Cost.** Nothing where there is no allocator and no promise. Otherwise rounds over the function
//! until nothing changes, with sets of 128 bits.
//!
//! Source: Andersen (1994), inclusion-based points-to sets, by allocation site; LLVM's `noalias`
//! results of allocating functions.

use brolga_ir::map::HashMap;
use brolga_ir::{Allocator, FuncKey, Program, Promises};
use brolga_rules::{MathKind, MemFn};
use cranelift_codegen::ir::{self, ArgumentPurpose, InstructionData, Opcode, types};
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::cfg::{Cfg, edge_args};
use crate::lattice::points_to_set::{ANYTHING, NUMBER, OTHER, REST, SITES, Set, bit};
use crate::query::access_address;
use crate::query::callee::CalleeKind;

/// What callers of a function must know. What it may write is its [effect](crate::memory::mod_ref).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointerFlow {
    /// Parameters that may be stored, in memory that outlives it.
    pub keeps: Set,
    /// It may call the allocator.
    pub allocates: bool,
    /// What its results are made from. Its own sites stand for blocks that callers do not know.
    pub made: Set,
    /// What they are based on. Nothing if it does not return.
    pub based: Set,
}

impl PointerFlow {
    const ANY: Self = Self { keeps: REST, allocates: true, made: REST, based: REST };
}

/// The answers for one function. The default knows nothing.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    addresses: Option<SecondaryMap<ir::Value, Set>>,
    /// What callees can reach through arguments.
    passed: SecondaryMap<ir::Value, Set>,
    /// Sites that any code may know of.
    escaped: Set,
    /// Parameters that are sites, and those.
    given: Vec<(usize, Set)>,
    /// Calls that allocate, release, or may do so somewhere inside.
    allocating: EntitySet<ir::Inst>,
    /// Releases that wait: see [`crate::calls::deferred_free`].
    pub(crate) late: EntitySet<ir::Inst>,
}

impl Blocks {
    /// Look at a function. Without flows there is no allocator, and nothing is known but what its
    /// caller has said: to memory behind which parameters nothing else leads. If it has said
    /// nothing, the list is empty.
    pub fn compute(
        program: &Program,
        func: &ir::Function,
        cfg: &Cfg,
        flows: &HashMap<FuncKey, PointerFlow>,
        promises: &[Promises],
    ) -> Self {
        let Some(pass) = PointsTo::of(program, func, cfg, flows, promises) else { return Self::default() };
        let (mut addresses, mut passed) = (SecondaryMap::new(), SecondaryMap::new());
        for &b in &cfg.blocks {
            for inst in func.layout.block_insts(b) {
                let seen = access_address(func, inst).into_iter().chain(func.dfg.inst_args(inst).iter().copied());
                seen.for_each(|v| addresses[v] = pass.address(v));
                let args = func.dfg.inst_args(inst).iter().filter(|_| func.dfg.insts[inst].opcode().is_call());
                args.for_each(|&v| passed[v] = pass.address(v) | pass.made[v]);
            }
        }
        let mut allocating = EntitySet::new();
        allocating.extend(pass.known.iter().filter(|(_, c)| c.allocates()).map(|(&inst, _)| inst));
        let late = EntitySet::new();
        Self { addresses: Some(addresses), passed, escaped: pass.escaped, given: pass.given, allocating, late }
    }

    /// The same for a function of the program. Of an allocator's own accesses nothing is known:
    /// they are not C's.
    pub fn of_function(
        program: &Program,
        key: FuncKey,
        func: &ir::Function,
        cfg: &Cfg,
        flows: &HashMap<FuncKey, PointerFlow>,
        promises: &[Promises],
    ) -> Self {
        match program.funcs[key].allocator {
            Some(_) => Self::default(),
            None => Self::compute(program, func, cfg, flows, promises),
        }
    }

    /// Whether a call may allocate or release, itself or somewhere inside.
    pub fn allocates(&self, call: ir::Inst) -> bool {
        self.addresses.is_none() || self.allocating.contains(call)
    }

    /// Whether a release waits until the pullback is done.
    pub fn is_late(&self, call: ir::Inst) -> bool {
        self.late.contains(call)
    }

    /// What an address may be made from.
    pub fn of(&self, address: ir::Value) -> Set {
        match &self.addresses {
            // What is no operand has not been asked for.
            Some(all) if all[address] != 0 => all[address],
            _ => ANYTHING,
        }
    }

    /// Parameters whose memory nothing else leads to, as far as no other code has come to know of
    /// it: with the bit that says of an address that it may be there. All who may read it are told
    /// such an address.
    pub fn given(&self) -> impl Iterator<Item = (usize, Set)> + '_ {
        self.given.iter().copied().filter(|(_, site)| self.escaped & site == 0)
    }

    /// What may be reached through an operand: as its address, or as one that is found there.
    pub fn reached(&self, v: ir::Value) -> Set {
        self.of(v) | self.passed[v]
    }

    /// Whether anything is known.
    pub fn known(&self) -> bool {
        self.addresses.is_some()
    }

    /// What a callee's set is made from here, where its parameters are these arguments.
    pub fn through(&self, args: &[ir::Value], set: Set) -> Set {
        if !self.known() {
            return ANYTHING;
        }
        let outside = if set & OTHER != 0 { OTHER | self.escaped } else { 0 };
        // The instance pointer is not a block's.
        let told = args.iter().enumerate().skip(1).filter(|(i, _)| set & bit(*i) != 0);
        match told.fold(outside, |all, (_, &a)| all | self.passed[a]) {
            0 => OTHER,
            all => all,
        }
    }
}

/// What a call does for the program's memory, if its callee is part of an allocator.
pub fn allocator_of(program: &Program, func: &ir::Function, call: ir::Inst) -> Option<Allocator> {
    let InstructionData::Call { func_ref, .. } = func.dfg.insts[call] else { return None };
    program.funcs[program.callee(func, func_ref)?].allocator
}

/// The flows of all functions; none if no allocator is among them.
pub fn flows(program: &Program, funcs: &HashMap<FuncKey, &ir::Function>) -> HashMap<FuncKey, PointerFlow> {
    if program.plain.is_empty() && !funcs.keys().any(|&k| program.funcs[k].allocator.is_some()) {
        return HashMap::default();
    }
    // The allocator's own are not asked for.
    let mut order: Vec<FuncKey> = funcs.keys().copied().filter(|&k| program.funcs[k].allocator.is_none()).collect();
    order.sort_unstable();
    let cfgs: HashMap<FuncKey, Cfg> = order.iter().map(|&k| (k, Cfg::compute(funcs[&k]))).collect();
    let mut all: HashMap<FuncKey, PointerFlow> = order.iter().map(|&k| (k, PointerFlow::default())).collect();
    loop {
        let mut changed = false;
        for &k in &order {
            let found = PointsTo::of(program, funcs[&k], &cfgs[&k], &all, &[]).map_or(PointerFlow::ANY, |p| p.flow);
            let old = all[&k];
            let now = PointerFlow {
                keeps: old.keeps | found.keeps,
                allocates: old.allocates | found.allocates,
                made: old.made | found.made,
                based: old.based | found.based,
            };
            changed |= now != old;
            all.insert(k, now);
        }
        if !changed {
            return all;
        }
    }
}

/// What a call means here.
#[derive(Clone, Copy)]
enum CallEffect {
    Allocator(Allocator),
    /// Only its results matter.
    Pure,
    /// `memcpy` and `memmove`.
    Copy,
    /// `memset`.
    Fill,
    Flow(PointerFlow),
}

impl CallEffect {
    fn allocates(self) -> bool {
        match self {
            CallEffect::Allocator(_) => true,
            CallEffect::Flow(flow) => flow.allocates,
            CallEffect::Pure | CallEffect::Copy | CallEffect::Fill => false,
        }
    }
}

struct PointsTo<'a> {
    func: &'a ir::Function,
    cfg: &'a Cfg,
    known: HashMap<ir::Inst, CallEffect>,
    site: HashMap<ir::Inst, u32>,
    /// What values are made from.
    made: SecondaryMap<ir::Value, Set>,
    /// What they are based on. Nothing for what has not been reached yet.
    based: SecondaryMap<ir::Value, Set>,
    /// What has been stored in each site.
    held: [Set; 64],
    escaped: Set,
    /// Parameters that are sites.
    given: Vec<(usize, Set)>,
    flow: PointerFlow,
    changed: bool,
}

impl<'a> PointsTo<'a> {
    /// Look at a function, if there is an instance, and an allocator or a parameter of which
    /// something is said.
    fn of(
        program: &Program,
        func: &'a ir::Function,
        cfg: &'a Cfg,
        flows: &HashMap<FuncKey, PointerFlow>,
        promises: &[Promises],
    ) -> Option<Self> {
        let instance = func.signature.params.first().is_some_and(|p| p.purpose == ArgumentPurpose::VMContext);
        let promised = promises.iter().any(|p| p.noalias || p.no_cotangent);
        if !instance || flows.is_empty() && !promised {
            return None;
        }
        let mut pass = Self::new(program, func, cfg, flows);
        pass.given(promises);
        pass.run();
        for &b in &cfg.blocks {
            let last = func.layout.last_inst(b).expect("a block has a terminator");
            if func.dfg.insts[last].opcode() == Opcode::Return {
                for &v in func.dfg.inst_args(last) {
                    pass.flow.made |= pass.made[v];
                    pass.flow.based |= pass.based[v];
                }
            }
        }
        Some(pass)
    }

    fn new(program: &Program, func: &'a ir::Function, cfg: &'a Cfg, flows: &HashMap<FuncKey, PointerFlow>) -> Self {
        let (mut known, mut site) = (HashMap::default(), HashMap::default());
        for inst in cfg.blocks.iter().flat_map(|&b| func.layout.block_insts(b)) {
            let Some(callee) = CalleeKind::of(program, func, inst) else { continue };
            let flow = |k: Option<FuncKey>| {
                CallEffect::Flow(k.and_then(|k| flows.get(&k)).copied().unwrap_or(PointerFlow::ANY))
            };
            let call = match (allocator_of(program, func, inst), callee) {
                (Some(a), _) => CallEffect::Allocator(a),
                (_, CalleeKind::Derived(k)) => flow(Some(k)),
                (_, CalleeKind::Computes(_)) => match func.dfg.insts[inst] {
                    InstructionData::Call { func_ref, .. } => flow(program.callee(func, func_ref)),
                    _ => CallEffect::Flow(PointerFlow::ANY),
                },
                (_, CalleeKind::Known(r)) => match r.kind {
                    MathKind::Expr(_) | MathKind::Inactive | MathKind::Memory(MemFn::Memcmp | MemFn::FreeAtEnd) => {
                        CallEffect::Pure
                    }
                    MathKind::Memory(MemFn::Memcpy | MemFn::Memmove) => CallEffect::Copy,
                    MathKind::Memory(MemFn::Memset) => CallEffect::Fill,
                    _ => CallEffect::Flow(PointerFlow::ANY),
                },
                _ => CallEffect::Flow(PointerFlow::ANY),
            };
            if matches!(call, CallEffect::Allocator(Allocator::Allocate { .. } | Allocator::Reallocate { .. }))
                && site.len() < 64
            {
                site.insert(inst, site.len() as u32);
            }
            known.insert(inst, call);
        }
        let allocates = known.values().any(|c| c.allocates());
        let mut pass = Self {
            func,
            cfg,
            known,
            site,
            made: SecondaryMap::new(),
            based: SecondaryMap::new(),
            held: [0; 64],
            escaped: 0,
            given: Vec::new(),
            flow: PointerFlow { allocates, ..PointerFlow::default() },
            changed: false,
        };
        for (i, &p) in func.dfg.block_params(cfg.blocks[0]).iter().enumerate() {
            // The instance is where all addresses begin. It tells nothing, unless it is stored.
            pass.made[p] = bit(i);
            pass.based[p] = if i == 0 { NUMBER } else { pass.made[p] };
        }
        pass
    }

    /// Parameters that lead to memory which nothing else leads to are sites, whose blocks hold what
    /// others have put there.
    fn given(&mut self, promises: &[Promises]) {
        let params = self.func.dfg.block_params(self.cfg.blocks[0]);
        let said = params.iter().zip(promises).enumerate().skip(1).filter(|(_, (_, p))| p.noalias);
        for ((i, (&p, _)), s) in said.zip(self.site.len()..64) {
            (self.made[p], self.based[p]) = (1 << (64 + s), 1 << (64 + s));
            self.held[s] = OTHER;
            self.given.push((i, 1 << (64 + s)));
        }
    }

    fn run(&mut self) {
        loop {
            self.changed = false;
            for &b in &self.cfg.blocks {
                let params = self.func.dfg.block_params(b);
                for &from in self.cfg.preds[b].iter().filter(|_| !params.is_empty()) {
                    for (&p, v) in params.iter().zip(edge_args(self.func, from, b)) {
                        self.set(p, self.made[v], self.based[v]);
                    }
                }
                for inst in self.func.layout.block_insts(b) {
                    self.visit(inst);
                }
            }
            // What lies in an escaped block has escaped.
            for s in sites(self.escaped) {
                self.keep(self.held[s]);
            }
            if !self.changed {
                return;
            }
        }
    }

    fn set(&mut self, v: ir::Value, made: Set, based: Set) {
        let now = (self.made[v] | made, self.based[v] | based);
        self.changed |= now != (self.made[v], self.based[v]);
        (self.made[v], self.based[v]) = now;
    }

    /// What an address may be in. A number is a static object's, or one that was computed.
    fn address(&self, v: ir::Value) -> Set {
        match self.based[v] {
            based if based & NUMBER == 0 && based != 0 => based,
            based => (based | self.made[v] | OTHER) & !NUMBER,
        }
    }

    /// What is stored with a value: what it is made from, and whether it may be a number.
    fn stored(&self, v: ir::Value) -> Set {
        self.made[v] | if self.based[v] == 0 { NUMBER } else { self.based[v] & NUMBER }
    }

    /// What may be found in memory.
    fn held(&self, at: Set) -> Set {
        let outside = if at & REST != 0 || at & self.escaped != 0 { OTHER | self.escaped } else { 0 };
        let found = sites(at).fold(outside, |found, s| found | self.held[s]);
        if found == 0 { NUMBER } else { found }
    }

    /// Something is stored where others find it.
    fn keep(&mut self, what: Set) {
        let (escaped, keeps) = (self.escaped | what & SITES, self.flow.keeps | what & REST & !NUMBER);
        self.changed |= escaped != self.escaped || keeps != self.flow.keeps;
        (self.escaped, self.flow.keeps) = (escaped, keeps);
    }

    fn store(&mut self, at: Set, what: Set) {
        if at & REST != 0 || at & self.escaped != 0 {
            self.keep(what);
        }
        for s in sites(at) {
            let now = self.held[s] | what;
            self.changed |= now != self.held[s];
            self.held[s] = now;
        }
    }

    fn visit(&mut self, inst: ir::Inst) {
        let func = self.func;
        let op = func.dfg.insts[inst].opcode();
        if let Some(&call) = self.known.get(&inst) {
            return self.call(inst, call);
        }
        let args = func.dfg.inst_args(inst);
        let made = args.iter().fold(0, |m, &a| m | self.made[a]);
        if op.can_load() || op.can_store() {
            let at = access_address(func, inst).map_or(ANYTHING, |p| self.address(p));
            if op.can_store() {
                // Atomic updates are not asked which of their operands is the address.
                let what = if op == Opcode::Store { self.stored(args[0]) } else { made | NUMBER };
                self.store(at, what);
            }
            if op.can_load() {
                let found = self.held(at);
                func.dfg.inst_results(inst).iter().for_each(|&r| self.set(r, found & !NUMBER, found));
            }
            return;
        }
        let (made, based) = match func.dfg.insts[inst] {
            InstructionData::Binary { opcode: Opcode::Iadd, args: [a, b] } => {
                let (a, b) = (self.based[a], self.based[b]);
                (made, (a | b) & !NUMBER | a & b & NUMBER)
            }
            InstructionData::Binary { opcode: Opcode::Isub, args: [a, b] } => {
                let (a, b) = (self.based[a], self.based[b]);
                let number = if b & !NUMBER == 0 { a & b & NUMBER } else { NUMBER };
                (made, (a | b) & !NUMBER | number)
            }
            InstructionData::Binary { opcode: Opcode::Ishl | Opcode::Imul, .. }
                if func.dfg.value_type(func.dfg.first_result(inst)) == types::I32 =>
            {
                (made, NUMBER)
            }
            InstructionData::Unary { opcode: Opcode::Uextend | Opcode::Sextend, arg } => (made, self.based[arg]),
            InstructionData::Ternary { opcode: Opcode::Select, args: [_, a, b] } => {
                (self.made[a] | self.made[b], self.based[a] | self.based[b])
            }
            InstructionData::IntCompare { .. } | InstructionData::FloatCompare { .. } => (0, NUMBER),
            InstructionData::UnaryImm { .. }
            | InstructionData::UnaryIeee32 { .. }
            | InstructionData::UnaryIeee64 { .. } => (0, NUMBER),
            InstructionData::UnaryConst { .. } => (0, NUMBER),
            // Addresses of stack slots and data objects, and whatever else comes from nowhere.
            _ if args.is_empty() => (OTHER, OTHER),
            _ => (made, made | NUMBER),
        };
        func.dfg.inst_results(inst).iter().for_each(|&r| self.set(r, made, based));
    }

    /// What a callee's set is here. Blocks that it has allocated are not ours.
    fn returned(&self, args: &[ir::Value], set: Set, of: impl Fn(&Self, ir::Value) -> Set) -> Set {
        let outside = if set & (OTHER | SITES) != 0 { OTHER | self.escaped } else { 0 };
        let passed = args.iter().enumerate().skip(1).filter(|(i, _)| set & bit(*i) != 0);
        passed.fold(outside, |all, (_, &a)| all | of(self, a))
    }

    fn call(&mut self, inst: ir::Inst, call: CallEffect) {
        let func = self.func;
        let args = func.dfg.inst_args(inst);
        let results = func.dfg.inst_results(inst);
        let made = args.iter().fold(0, |m, &a| m | self.made[a]);
        match call {
            CallEffect::Allocator(kind) => {
                let site = self.site.get(&inst).map_or(OTHER, |s| 1 << (64 + s));
                match kind {
                    Allocator::Reallocate { pointer } => self.store(site, self.held(self.address(args[pointer]))),
                    Allocator::Allocate { zeroed: true } => self.store(site, NUMBER),
                    Allocator::Allocate { zeroed: false } | Allocator::Release { .. } => {}
                }
                let by_kind = if matches!(kind, Allocator::Release { .. }) { made | OTHER } else { site };
                results.iter().for_each(|&r| self.set(r, by_kind, by_kind));
            }
            CallEffect::Pure => results.iter().for_each(|&r| self.set(r, made, made | NUMBER)),
            CallEffect::Copy | CallEffect::Fill => {
                let at = self.address(args[0]);
                let what = if matches!(call, CallEffect::Copy) {
                    self.held(self.address(args[1]))
                } else {
                    self.made[args[1]] | NUMBER
                };
                self.store(at, what);
                let (made, based) = (self.made[args[0]], self.based[args[0]]);
                results.iter().for_each(|&r| self.set(r, made, based));
            }
            CallEffect::Flow(flow) => {
                for (i, &a) in args.iter().enumerate() {
                    // What lies in a block that the callee is told of, it can find.
                    for s in sites(self.made[a]) {
                        self.keep(self.held[s]);
                        self.store(1 << (64 + s), OTHER | self.escaped);
                    }
                    // The instance pointer is not a block's.
                    if i > 0 && flow.keeps & bit(i) != 0 {
                        self.keep(self.made[a]);
                    }
                }
                let made = self.returned(args, flow.made, |p, a| p.made[a]);
                let based = self.returned(args, flow.based, |p, a| p.based[a]) | flow.based & NUMBER;
                results.iter().for_each(|&r| self.set(r, made, based));
            }
        }
    }
}

/// The sites of a set, by number.
fn sites(set: Set) -> impl Iterator<Item = usize> {
    let mut left = (set >> 64) as u64;
    std::iter::from_fn(move || {
        let s = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (s < 64).then_some(s)
    })
}
