//! Escape analysis: memory that a function makes for itself and that no other code can address.
//!
//! **Question.** A stack slot, or a block from `malloc` or `calloc`: can anything but the loads of
//! this function see what it holds?
//!
//! **Answer.** All uses of its address are followed, through additions, subtractions and block
//! parameters, and through the known functions that return what they are given. If each ends as the
//! address of a plain load or store, in a comparison, as an operand of a known memory function, or
//! where a known function writes a result, the memory is *private*. If the address is stored,
//! returned, passed to any other function, or goes through any other arithmetic, it is not.
//!
//! Two answers are given for an address. It may *lead* to several private objects, wherever the
//! taint has come; it is *within* one if nothing else can be meant ([`Places::origin`]). The first
//! answers what may read an object, the second what writes to nothing else.
//!
//! **Arguments.** Memory behind a parameter is private, too, if the caller says that nothing else
//! leads there and that it does not read what the function leaves there: then only the function's
//! own loads can see it. Where memory is one piece, addresses are not followed from the parameter:
//! [`crate::memory::points_to`] knows what each may be made from.
//!
//! **Invariants.** An access whose address does not lead to a private object does not touch it:
//! there is no way to get at such an address but from the one that was given out. An access is
//! inside of the object that its address was made from, as everywhere ([`crate::memory::clobber`]
//! relies on it, too).
//!
//! **Cost.** For each object, linear in the uses of what leads to it.

use brolga_rules::{MathKind, MemFn};
use cranelift_codegen::ir::{self, InstructionData, Opcode};
use cranelift_entity::{EntitySet, SecondaryMap};
use smallvec::SmallVec;

use crate::memory::alias::{Origin, Places};
use crate::query::access_address;
use crate::query::callee::CalleeKind;
use crate::uses::{Use, Uses};

/// A private object, by number.
pub type PrivateObject = u32;

/// Several of them.
pub type PrivateObjects = SmallVec<[PrivateObject; 1]>;

/// What is private, and what uses it.
#[derive(Clone, Debug, Default)]
pub struct PrivateMemory {
    /// The objects: slots and allocations.
    pub origins: Vec<Origin>,
    leads: SecondaryMap<ir::Value, PrivateObjects>,
    reads: SecondaryMap<ir::Inst, PrivateObjects>,
    writes: SecondaryMap<ir::Inst, Option<PrivateObject>>,
    within: SecondaryMap<ir::Value, Option<PrivateObject>>,
    harmless: EntitySet<ir::Inst>,
}

impl PrivateMemory {
    /// Look at all slots and allocations of a function, and at what these parameters lead to:
    /// memory that nothing else leads to, and that the caller does not read afterwards.
    pub fn compute(places: Places<'_>, uses: &Uses, scratch: &[usize]) -> Self {
        let mut found = Self::default();
        let (func, cfg) = (places.func, places.cfg);
        let insts = || cfg.all_insts().iter().copied();
        let mut roots: Vec<(Origin, Vec<ir::Value>)> = Vec::new();
        for inst in insts() {
            let origin = match func.dfg.insts[inst] {
                InstructionData::StackAddr { stack_slot, .. } => Origin::Slot(stack_slot),
                _ if memory_function(places, inst).is_some_and(|m| matches!(m, MemFn::Malloc | MemFn::Calloc)) => {
                    Origin::Alloc(inst)
                }
                _ => continue,
            };
            let v = func.dfg.first_result(inst);
            match roots.iter_mut().find(|r| r.0 == origin) {
                Some(r) => r.1.push(v),
                None => roots.push((origin, vec![v])),
            }
        }
        if !places.blocks.known() {
            let params = func.dfg.block_params(cfg.blocks[0]);
            roots.extend(scratch.iter().map(|&i| (Origin::Param(i), vec![params[i]])));
        }
        for (origin, from) in roots {
            if let Some(values) = followed(places, uses, from) {
                let object = found.origins.len() as PrivateObject;
                found.origins.push(origin);
                values.into_iter().for_each(|v| found.leads[v].push(object));
            }
        }
        found.scratch_blocks(places, scratch);
        if !found.origins.is_empty() {
            let led: Vec<ir::Value> = found.leads.iter().filter(|l| !l.1.is_empty()).map(|l| l.0).collect();
            for v in led {
                let origin = places.origin(v);
                let at = found.origins.iter().position(|&o| o == origin);
                found.within[v] = found.within[v].or(at.map(|at| at as PrivateObject));
            }
            insts().for_each(|inst| found.look(places, inst));
        }
        found
    }

    /// The same of parameters where memory is one piece: what addresses may be made from is known.
    fn scratch_blocks(&mut self, places: Places<'_>, scratch: &[usize]) {
        let func = places.func;
        for (param, site) in places.blocks.given().filter(|g| scratch.contains(&g.0)) {
            let object = self.origins.len() as PrivateObject;
            self.origins.push(Origin::Param(param));
            for &inst in places.cfg.all_insts() {
                for v in access_address(func, inst).into_iter().chain(func.dfg.inst_args(inst).iter().copied()) {
                    if places.blocks.reached(v) & site != 0 && !self.leads[v].contains(&object) {
                        self.leads[v].push(object);
                        self.within[v] = (places.blocks.of(v) == site).then_some(object);
                    }
                }
            }
        }
    }

    /// Note what an instruction reads and writes of the objects.
    fn look(&mut self, places: Places<'_>, inst: ir::Inst) {
        let func = places.func;
        let within = |v: ir::Value| self.within[v];
        let args = func.dfg.inst_args(inst);
        let mut reads = PrivateObjects::new();
        let mut writes = None;
        match func.dfg.insts[inst] {
            InstructionData::Load { arg, .. } => reads.extend_from_slice(&self.leads[arg]),
            InstructionData::Store { args: [_, p], flags, .. } => {
                writes = within(p);
                let inside = |o: Origin| match o {
                    Origin::Slot(s) => {
                        let size = i64::from(func.sized_stack_slots[s].size);
                        places.of_access(inst).span().is_some_and(|(from, to)| 0 <= from && to <= size)
                    }
                    _ => false,
                };
                if let Some(object) = writes
                    && (func.dfg.mem_flags[flags].notrap() || inside(self.origins[object as usize]))
                {
                    self.harmless.insert(inst);
                }
            }
            // Arithmetic and comparisons see an address, not what is there.
            InstructionData::Call { .. } => match memory_function(places, inst) {
                Some(MemFn::Memset) => writes = within(args[0]),
                Some(MemFn::Memcpy | MemFn::Memmove) => {
                    reads.extend_from_slice(&self.leads[args[1]]);
                    writes = within(args[0]);
                }
                Some(MemFn::Free) => {}
                // Whatever else it may be: it may read what it is told about.
                _ => args.iter().for_each(|&a| reads.extend_from_slice(&self.leads[a])),
            },
            _ => {
                let op = func.dfg.insts[inst].opcode();
                if op.is_call() || op.can_load() {
                    args.iter().for_each(|&a| reads.extend_from_slice(&self.leads[a]));
                }
            }
        }
        self.reads[inst] = reads;
        self.writes[inst] = writes;
    }

    /// The objects that an address may lead to.
    pub fn leads(&self, v: ir::Value) -> &[PrivateObject] {
        &self.leads[v]
    }

    /// The object that an address is in, if nothing else can be meant.
    pub fn within(&self, v: ir::Value) -> Option<PrivateObject> {
        self.within[v]
    }

    /// The objects that a load or a call may read.
    pub fn reads(&self, inst: ir::Inst) -> &[PrivateObject] {
        &self.reads[inst]
    }

    /// The object that an instruction writes to, if that is all that it does to memory.
    pub fn writes(&self, inst: ir::Inst) -> Option<PrivateObject> {
        self.writes[inst]
    }

    /// Whether a store to an object is known not to fault.
    pub fn is_harmless(&self, inst: ir::Inst) -> bool {
        self.harmless.contains(inst)
    }
}

/// Which memory function a call goes to.
fn memory_function(places: Places<'_>, inst: ir::Inst) -> Option<MemFn> {
    match CalleeKind::of(places.program, places.func, inst) {
        Some(CalleeKind::Known(r)) => match r.kind {
            MathKind::Memory(m) => Some(m),
            _ => None,
        },
        _ => None,
    }
}

/// All values that are made from an address; `None` if it gets out.
fn followed(places: Places<'_>, uses: &Uses, mut work: Vec<ir::Value>) -> Option<Vec<ir::Value>> {
    let func = places.func;
    let mut seen: EntitySet<ir::Value> = EntitySet::new();
    let mut found = Vec::new();
    while let Some(v) = work.pop() {
        if !seen.insert(v) {
            continue;
        }
        found.push(v);
        for u in uses.of(v) {
            let (inst, index) = match *u {
                Use::Inst(inst, index) => (inst, index),
                Use::Edge(_, param) => {
                    work.push(param);
                    continue;
                }
            };
            match func.dfg.insts[inst] {
                InstructionData::Load { .. } | InstructionData::IntCompare { .. } => {}
                InstructionData::Store { .. } if index == 1 && access_address(func, inst) == Some(v) => {}
                InstructionData::Binary { opcode: Opcode::Iadd | Opcode::Isub, .. } => {
                    work.push(func.dfg.first_result(inst));
                }
                InstructionData::Call { .. } => {
                    let Some(CalleeKind::Known(rule)) = CalleeKind::of(places.program, func, inst) else { return None };
                    match (&rule.kind, index) {
                        (MathKind::Memory(MemFn::Memcpy | MemFn::Memmove | MemFn::Memset), 0) => {
                            work.extend_from_slice(func.dfg.inst_results(inst));
                        }
                        (MathKind::Memory(MemFn::Memcpy | MemFn::Memmove), 1)
                        | (MathKind::Memory(MemFn::Memcmp), 0 | 1)
                        | (MathKind::Memory(MemFn::Free | MemFn::FreeAtEnd), 0) => {}
                        (MathKind::Writes(_, outs), i) if outs.iter().any(|o| o.param == i) => {}
                        _ => return None,
                    }
                }
                _ => return None,
            }
        }
    }
    Some(found)
}
