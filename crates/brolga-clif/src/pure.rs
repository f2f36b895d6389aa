//! Purity: which instructions may be moved, merged and left out.
//!
//! **Question.** May an instruction run elsewhere, once in place of twice, or not at all?
//! **Answer.** If its result depends on its operands alone and it cannot trap; by opcode.
//!
//! **Cost.** A match on the opcode.

use cranelift_codegen::ir::Opcode;

/// Whether the result depends on the operands (and immediates) alone, and computing it has no side
/// effect and cannot trap.
///
/// Loads are not pure, whatever their flags; nor is what belongs to a frame, to a thread or to the
/// machine's state.
pub fn is_pure(op: Opcode) -> bool {
    let effect = op.can_load() || op.can_store() || op.can_trap() || op.other_side_effects();
    let control = op.is_terminator() || op.is_branch() || op.is_call() || op.is_return();
    let machine = matches!(
        op,
        Opcode::StackAddr
            | Opcode::DynamicStackAddr
            | Opcode::ExtractVector
            | Opcode::GetFramePointer
            | Opcode::GetStackPointer
            | Opcode::GetReturnAddress
            | Opcode::GetPinnedReg
            | Opcode::SetPinnedReg
            | Opcode::GetExceptionHandlerAddress
            | Opcode::TlsValue
            | Opcode::StackSwitch
            | Opcode::Debugtrap
            | Opcode::Fence
            | Opcode::SequencePoint
            | Opcode::Nop
    );
    !(effect || control || machine)
}
