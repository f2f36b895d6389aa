//! Which loads read memory that nobody writes afterwards.
//!
//! **Question.** In a combined function the second half runs when the first has just ended. What the first half loaded from
//! memory is still there, unless something has written to it since. Which loads may simply be done again?
//!
//! **Answer.** Every address has an *origin*: a stack slot, a data object, a parameter, an allocation, or unknown. A load may
//! be done again if no write to memory that may be the same can come after it, on any path, the next turns of loops included:
//! stores, atomics, calls that may write. A load that the frontend has marked `readonly` always may.
//!
//! What may be the same: two stack slots, data objects or allocations are not; a slot or an allocation is nothing that the
//! caller could have passed; two parameters may be the same memory, unless the caller says that one of them is `noalias`;
//! unknown may be anything.
//!
//! **Invariant.** The pullback itself writes to shadows only, and a shadow is never primal memory: that is what the caller
//! promises by passing it (a debug run checks it).

use brolga_ir::Program;
use brolga_ir::program::symbol_of;
use brolga_rules::{MathKind, MemFn};
use cranelift_codegen::ir::{self, InstructionData, Opcode, ValueDef};
use cranelift_entity::{EntitySet, SecondaryMap};
use indexmap::IndexMap;

use crate::callee::CalleeKind;
use crate::cfg::{Cfg, edge_args};
use crate::pointers::access_address;

/// Where an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A stack slot of the function.
    Slot(ir::StackSlot),
    /// A data object, by the global value's symbol.
    Data(ir::GlobalValue),
    /// A parameter of the function, by index.
    Param(usize),
    /// What an allocating call returned.
    Alloc(ir::Inst),
    /// Anything.
    Unknown,
}

/// What is asked about a function.
pub struct ClobberInput<'a> {
    /// The program.
    pub program: &'a Program,
    /// The normalised function.
    pub func: &'a ir::Function,
    /// Its control flow.
    pub cfg: &'a Cfg,
    /// Parameters whose memory is reached through no other pointer.
    pub noalias: &'a [bool],
}

impl ClobberInput<'_> {
    /// Whether memory of two origins may overlap.
    pub fn may_alias(&self, a: Origin, b: Origin) -> bool {
        use Origin::*;
        let noalias = |i: usize| self.noalias.get(i).copied().unwrap_or(false);
        match (a, b) {
            (Slot(x), Slot(y)) => x == y,
            (Alloc(x), Alloc(y)) => x == y,
            (Data(x), Data(y)) => self.same_data(x, y),
            (Param(x), Param(y)) => x == y || !noalias(x) && !noalias(y),
            // What is unknown may have been made from this very parameter.
            (Param(x), Data(_)) | (Data(_), Param(x)) => !noalias(x),
            (Slot(_) | Alloc(_), Param(_) | Data(_) | Slot(_) | Alloc(_))
            | (Param(_) | Data(_), Slot(_) | Alloc(_)) => false,
            _ => true,
        }
    }

    fn same_data(&self, x: ir::GlobalValue, y: ir::GlobalValue) -> bool {
        let symbol = |g| match &self.func.global_values[g] {
            ir::GlobalValueData::Symbol { name, .. } => Some(symbol_of(self.func, name)),
            _ => None,
        };
        x == y || symbol(x).is_none_or(|s| symbol(y).is_none_or(|t| s == t))
    }

    /// The origin of an address. Only what is plainly an offset is passed over; any other sum is unknown.
    pub fn origin(&self, v: ir::Value) -> Origin {
        self.trace(v, &mut EntitySet::new(), 0).unwrap_or(Origin::Unknown)
    }

    /// `None` for a block parameter that is being traced already.
    fn trace(&self, v: ir::Value, seen: &mut EntitySet<ir::Value>, depth: u32) -> Option<Origin> {
        let func = self.func;
        if depth > 24 {
            return Some(Origin::Unknown);
        }
        let inst = match func.dfg.value_def(v) {
            ValueDef::Param(b, i) if b == self.cfg.blocks[0] => return Some(Origin::Param(i)),
            ValueDef::Param(b, i) => {
                if !seen.insert(v) {
                    return None;
                }
                let mut found = None;
                for &p in &self.cfg.preds[b] {
                    match (found, self.trace(edge_args(func, p, b)[i], seen, depth + 1)) {
                        (None, o) => found = o,
                        (Some(_), None) => {}
                        (Some(x), Some(y)) if x == y => {}
                        _ => return Some(Origin::Unknown),
                    }
                }
                return found;
            }
            ValueDef::Result(inst, _) => inst,
            ValueDef::Union(..) => return Some(Origin::Unknown),
        };
        Some(match func.dfg.insts[inst] {
            InstructionData::StackAddr { stack_slot, .. } => Origin::Slot(stack_slot),
            InstructionData::UnaryGlobalValue { opcode: Opcode::SymbolValue, global_value } => {
                Origin::Data(global_value)
            }
            InstructionData::Binary { opcode: Opcode::Iadd, args: [a, b] } => {
                match (self.is_offset(a, 0), self.is_offset(b, 0)) {
                    (false, true) => return self.trace(a, seen, depth + 1),
                    (true, false) => return self.trace(b, seen, depth + 1),
                    _ => Origin::Unknown,
                }
            }
            InstructionData::Binary { opcode: Opcode::Isub, args: [a, b] } if self.is_offset(b, 0) => {
                return self.trace(a, seen, depth + 1);
            }
            InstructionData::Call { .. } => match CalleeKind::of(self.program, func, inst) {
                Some(CalleeKind::Known(r)) if matches!(r.kind, MathKind::Memory(MemFn::Malloc | MemFn::Calloc)) => {
                    Origin::Alloc(inst)
                }
                _ => Origin::Unknown,
            },
            _ => Origin::Unknown,
        })
    }

    /// Whether a value is a number of bytes, not an address: scaled, widened, constant, or made of such.
    fn is_offset(&self, v: ir::Value, depth: u32) -> bool {
        let func = self.func;
        let Some(inst) = func.dfg.value_def(v).inst() else { return false };
        depth < 8
            && match func.dfg.insts[inst] {
                InstructionData::UnaryImm { opcode: Opcode::Iconst, .. } => true,
                InstructionData::Unary { opcode: Opcode::Uextend | Opcode::Sextend, .. } => true,
                InstructionData::Binary { opcode: Opcode::Ishl, .. } => true,
                InstructionData::Binary { opcode: Opcode::Imul, .. } => true,
                InstructionData::Binary { opcode: Opcode::Iadd | Opcode::Isub, args } => {
                    args.iter().all(|&a| self.is_offset(a, depth + 1))
                }
                _ => false,
            }
    }

    /// Whether a `free` gives back a block that this function has allocated. In a combined function such a block stays until
    /// the end, so that its contents can be read again.
    pub fn defers(&self, free: ir::Inst) -> bool {
        matches!(self.origin(self.func.dfg.inst_args(free)[0]), Origin::Alloc(_))
    }

    /// What an instruction may write to; `None` if it writes no memory.
    fn writes(&self, inst: ir::Inst) -> Option<Origin> {
        let func = self.func;
        let op = func.dfg.insts[inst].opcode();
        if op.is_call() {
            return match CalleeKind::of(self.program, func, inst) {
                Some(CalleeKind::Known(r)) => match r.kind {
                    MathKind::Memory(MemFn::Malloc | MemFn::Calloc | MemFn::Memcmp)
                    | MathKind::Expr(_)
                    | MathKind::Inactive => None,
                    MathKind::Memory(MemFn::Memcpy | MemFn::Memmove | MemFn::Memset) => {
                        Some(self.origin(func.dfg.inst_args(inst)[0]))
                    }
                    // A block of this function is kept until the pullback is done: see `defers`.
                    MathKind::Memory(MemFn::Free) if self.defers(inst) => None,
                    MathKind::Memory(MemFn::Realloc | MemFn::Free) | MathKind::Writes(..) => Some(Origin::Unknown),
                },
                _ => Some(Origin::Unknown),
            };
        }
        if op.can_store() {
            return Some(access_address(func, inst).map_or(Origin::Unknown, |a| self.origin(a)));
        }
        (op == Opcode::Fence).then_some(Origin::Unknown)
    }
}

/// Loads that may be done again at the end of the function. When it has returned that is another matter: even what is marked
/// `readonly` may have been a stack slot that is no more.
pub fn reloadable(cx: &ClobberInput<'_>) -> EntitySet<ir::Inst> {
    let func = cx.func;
    let mut found = EntitySet::new();
    // For each origin that is written: where, and the blocks from whose start such a write can still come.
    let mut writes: IndexMap<Origin, Vec<(ir::Block, ir::Inst)>> = IndexMap::new();
    let mut order: SecondaryMap<ir::Inst, u32> = SecondaryMap::new();
    let mut loads: Vec<(ir::Block, ir::Inst)> = Vec::new();
    for &b in &cx.cfg.blocks {
        for (n, inst) in func.layout.block_insts(b).enumerate() {
            order[inst] = n as u32;
            if let Some(o) = cx.writes(inst) {
                writes.entry(o).or_default().push((b, inst));
            } else if matches!(func.dfg.insts[inst], InstructionData::Load { .. }) {
                loads.push((b, inst));
            }
        }
    }
    let mut ahead: IndexMap<Origin, EntitySet<ir::Block>> = IndexMap::new();
    for (&o, at) in &writes {
        let mut set = EntitySet::new();
        let mut work: Vec<ir::Block> = at.iter().map(|w| w.0).collect();
        while let Some(b) = work.pop() {
            if set.insert(b) {
                work.extend(&cx.cfg.preds[b]);
            }
        }
        ahead.insert(o, set);
    }
    for (b, load) in loads {
        let InstructionData::Load { arg, flags, .. } = func.dfg.insts[load] else { continue };
        if func.dfg.mem_flags[flags].readonly() {
            found.insert(load);
            continue;
        }
        let origin = cx.origin(arg);
        let clobbered = writes.iter().filter(|w| cx.may_alias(*w.0, origin)).any(|(o, at)| {
            at.iter().any(|w| w.0 == b && order[w.1] > order[load])
                || cx.cfg.succs[b].iter().any(|&s| ahead[o].contains(s))
        });
        if !clobbered {
            found.insert(load);
        }
    }
    found
}

/// Calls of `free` whose blocks must stay until the pullback is done.
pub fn deferred(cx: &ClobberInput<'_>) -> EntitySet<ir::Inst> {
    let insts = cx.cfg.blocks.iter().flat_map(|&b| cx.func.layout.block_insts(b));
    let is_free = |inst: &ir::Inst| match CalleeKind::of(cx.program, cx.func, *inst) {
        Some(CalleeKind::Known(r)) => matches!(r.kind, MathKind::Memory(MemFn::Free)),
        _ => false,
    };
    let mut found = EntitySet::new();
    found.extend(insts.filter(|i| is_free(i) && cx.defers(*i)));
    found
}
