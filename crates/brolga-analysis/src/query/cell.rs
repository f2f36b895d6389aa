//! Cells: places in memory that have a name, a base and a constant offset.
//!
//! **Question.** Are two accesses to the same bytes, as far as their addresses say?
//!
//! **Answer.** Constants that are added to an address are followed to what they are added to, the
//! *base*. Two accesses with the same cell are to the same place. Two with different cells may be
//! as well: a base is what the function calls it, and parameters may overlap. Stack slots and data
//! objects are the same base wherever their addresses are taken, which frontends do again for each
//! access; and so is the sum of two values (a memory's base and an offset in it, say), wherever it
//! is computed.
//!
//! ```text
//! v1 = iconst.i64 8
//! v2 = iadd v0, v1
//! v3 = load.f64 v2+16        (v0, 24)
//! ```
//!
//! **Cost.** As many steps as constants are added one to the other.

use brolga_ir::program::symbol_in;
use cranelift_codegen::ir::{self, ExternalName, InstructionData, Opcode, ValueDef};

use crate::query::constant_int;

/// What the offset of a cell counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// A value.
    Value(ir::Value),
    /// The sum of two values, or of what they are widened from.
    Sum(ir::Value, ir::Value),
    /// The start of a stack slot.
    Slot(ir::StackSlot),
    /// The start of a data object, by the first global value that names it.
    Data(ir::GlobalValue),
}

/// A cell: base and constant offset in bytes.
pub type Cell = (Base, i64);

/// The cell that an address and an offset name.
pub fn cell_of(func: &ir::Function, mut addr: ir::Value, off: i32) -> Cell {
    let mut off = i64::from(off);
    while let ValueDef::Result(inst, _) = func.dfg.value_def(addr)
        && let InstructionData::Binary { opcode: Opcode::Iadd, args } = func.dfg.insts[inst]
    {
        let (base, by) = match (constant_int(func, args[0]), constant_int(func, args[1])) {
            (_, Some(by)) => (args[0], by),
            (Some(by), None) => (args[1], by),
            (None, None) => break,
        };
        off = off.wrapping_add(by);
        addr = base;
    }
    match object_of(func, addr) {
        Some((object, at)) => (object, off.wrapping_add(at)),
        None => (named(func, addr), off),
    }
}

/// What an address without a constant part is called.
fn named(func: &ir::Function, addr: ir::Value) -> Base {
    match func.dfg.value_def(addr).inst().map(|i| func.dfg.insts[i]) {
        Some(InstructionData::Binary { opcode: Opcode::Iadd, args }) => {
            let [x, y] = args.map(|v| unwidened(func, v));
            Base::Sum(x.min(y), x.max(y))
        }
        _ => Base::Value(addr),
    }
}

/// What a number is widened from. No other 64-bit number is named after that.
fn unwidened(func: &ir::Function, v: ir::Value) -> ir::Value {
    match func.dfg.value_def(v).inst().map(|i| func.dfg.insts[i]) {
        Some(InstructionData::Unary { opcode: Opcode::Uextend, arg }) => arg,
        _ => v,
    }
}

/// The stack slot or data object whose address a value is, and the offset in it.
pub fn object_of(func: &ir::Function, v: ir::Value) -> Option<Cell> {
    match func.dfg.insts[func.dfg.value_def(v).inst()?] {
        InstructionData::StackAddr { stack_slot, offset, .. } => {
            Some((Base::Slot(stack_slot), i64::from(i32::from(offset))))
        }
        InstructionData::UnaryGlobalValue { opcode: Opcode::SymbolValue, global_value } => {
            let (name, at) = symbol(func, global_value)?;
            let first = func.global_values.keys().find(|&g| symbol(func, g).is_some_and(|s| same(func, s.0, name)));
            Some((Base::Data(first.unwrap_or(global_value)), at))
        }
        _ => None,
    }
}

/// Whether two names are of one symbol. Most are written alike and are not spelled for that: there
/// may be as many as instructions.
fn same(func: &ir::Function, a: &ExternalName, b: &ExternalName) -> bool {
    match (a, b) {
        (ExternalName::TestCase(a), ExternalName::TestCase(b)) => a == b,
        _ => a == b || symbol_in(func, a) == symbol_in(func, b),
    }
}

/// The symbol that a global value names, and the offset from it.
fn symbol(func: &ir::Function, g: ir::GlobalValue) -> Option<(&ExternalName, i64)> {
    match &func.global_values[g] {
        ir::GlobalValueData::Symbol { name, offset, .. } => Some((name, offset.bits())),
        _ => None,
    }
}
