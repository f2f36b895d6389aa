//! Regions: what stands in a block between two effects, the unit that bundles are made of.

use crate::map::HashMap;
use cranelift_codegen::ir::{self, Opcode, Type, Value, types};
use cranelift_entity::EntitySet;

use crate::slp::address::Address;
use crate::vectorise::body::accessed;

/// What is known of a function's memory.
#[derive(Clone, Copy)]
pub struct SlpInput<'a> {
    /// Loads and stores in shadows, which no other load or store touches.
    pub shadows: &'a EntitySet<ir::Inst>,
    /// Of two of these whose addresses start from one place, and differ by widened sums and
    /// constants: whether they are never to the same bytes.
    pub apart: &'a dyn Fn(ir::Inst, ir::Inst) -> bool,
    /// Whether no widened sum of an access is so large that a few bytes more are zero.
    pub short_indices: bool,
}

/// An access to memory.
pub(super) struct SlpAccess {
    /// Where.
    pub(super) address: Address,
    /// How much.
    pub(super) bytes: u32,
    /// Whether it writes.
    pub(super) stores: bool,
    /// Whether it is to the tape.
    pub(super) tape: bool,
    /// Whether it is to a shadow.
    pub(super) shadow: bool,
}

/// What stands in a block between two effects.
pub(super) struct SlpRegion<'a> {
    pub(super) func: &'a ir::Function,
    pub(super) how: SlpInput<'a>,
    /// The instructions, in order.
    pub(super) insts: Vec<ir::Inst>,
    /// By which of them a value is computed.
    pub(super) defined: HashMap<Value, u32>,
    /// Those that access memory.
    pub(super) accesses: HashMap<u32, SlpAccess>,
    /// By how much the addresses of loads from shadows grow each iteration.
    pub(super) steps: HashMap<u32, i64>,
}

/// Whether an instruction stores a scalar to a shadow.
pub(super) fn is_seed(func: &ir::Function, how: &SlpInput<'_>, inst: ir::Inst) -> bool {
    func.dfg.insts[inst].opcode() == Opcode::Store
        && how.shadows.contains(inst)
        && lanes_of(accessed(func, inst)).is_some()
}

/// The vector of which a scalar is one lane.
pub fn lanes_of(scalar: Type) -> Option<Type> {
    match scalar {
        types::F64 => Some(types::F64X2),
        types::F32 => Some(types::F32X4),
        _ => None,
    }
}
