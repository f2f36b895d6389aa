//! Pointers in wide values: addresses that go through 128-bit integers, vectors and floats.
//!
//! **Question.** A delta belongs to a 64-bit integer. What becomes of a pointer that is put into a
//! wider value, or into a float, and taken out again? **Answer.** What is known to come out as it
//! went in is the pointer itself (`wide_words` of the transform). Other wide values are *lost* if a
//! pointer may be in them, and so is what is taken out of them, so an access by it is refused:
//!
//! ```text
//! v2 = splat.i64x2 v0         lost, if v0 is a pointer
//! v3 = iadd v2, v1            lost
//! v4 = extractlane v3, 1      lost; a load by it is refused
//! v5 = load.i64x2 v6          lost, if an address is made of it and v6 leads to shadowed memory
//! ```
//!
//! Numbers are moved in the same ways: only where an address is made of a load, of a parameter or
//! of a callee's result, these count as pointers.
//!
//! **Cost.** A part of pointer inference, as for any value.

use cranelift_codegen::ir::{self, Opcode, types};

use crate::query::access_address;

/// Whether values of a type may have a pointer in them without being one.
pub(super) fn is_wide(ty: ir::Type) -> bool {
    ty != types::I64 && ty.bits() >= 64
}

/// What a word is taken out of, as it is.
pub(super) fn taken_from(func: &ir::Function, inst: ir::Inst) -> Option<ir::Value> {
    let is_taken = matches!(
        func.dfg.insts[inst].opcode(),
        Opcode::Isplit | Opcode::Extractlane | Opcode::Ireduce | Opcode::Bitcast
    );
    let from = *func.dfg.inst_args(inst).first()?;
    (is_taken && is_wide(func.dfg.value_type(from))).then_some(from)
}

/// What the words of a wide result may have been before.
pub(super) fn put_in(func: &ir::Function, inst: ir::Inst) -> &[ir::Value] {
    let op = func.dfg.insts[inst].opcode();
    let none = op.is_call() || op.can_load() || matches!(op, Opcode::Icmp | Opcode::Fcmp);
    if none { &[] } else { func.dfg.inst_args(inst) }
}

/// Whether a pointer may be in a wide result that an instruction has. `is_address`: an address is
/// made of it; `of_pointer`: a value is a pointer, or one may be in it.
pub(super) fn may_be_in(
    func: &ir::Function,
    inst: ir::Inst,
    v: ir::Value,
    is_address: bool,
    of_pointer: impl Fn(ir::Value) -> bool,
) -> bool {
    use Opcode::{Band, Bitcast, Bitselect, Bor, Bxor, Insertlane, ScalarToVector, Select, Shuffle, Splat, Swizzle};
    let any = || func.dfg.inst_args(inst).iter().copied().any(&of_pointer);
    let op = func.dfg.insts[inst].opcode();
    match op {
        Opcode::Load | Opcode::AtomicLoad => is_address && access_address(func, inst).is_some_and(&of_pointer),
        // A function of the C library returns numbers, but no address is made of one.
        Opcode::Call | Opcode::CallIndirect => is_address,
        Opcode::Icmp | Opcode::Fcmp => false,
        Bitcast | Select | Bitselect | Splat | Insertlane | ScalarToVector | Shuffle | Swizzle | Band | Bor | Bxor => {
            any()
        }
        // A float that is computed is a number.
        _ if op.can_load() || func.dfg.value_type(v).lane_type().is_float() => false,
        _ => any(),
    }
}
