//! What a function does to memory, as those that call it see it.
//!
//! **Question.** A function is called by one that is to be undone. Where does it change memory?
//! **Answer.** It changes what those of its parameters point at that its stores lead to
//! ([`super::origin`]), and what the functions that it calls change. Anything else is named.
//!
//! **Errs** on the side of being no such function.
//!
//! **Cost.** A pass over the function.

use std::collections::BTreeSet;

use cranelift_codegen::ir::{self, FuncRef, Inst, InstructionData, Opcode, types};

use super::origin::origins;

/// What a function does to memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Whether it reads.
    pub reads: bool,
    /// The parameters that point at what it changes.
    pub changes: BTreeSet<usize>,
}

/// What a function does, if it is no more than to compute, to read, and to change what parameters
/// point at; `called` says that of those that it calls.
///
/// # Errors
/// The first instruction that does anything else.
pub fn effects(func: &ir::Function, called: &dyn Fn(FuncRef) -> Option<Effects>) -> Result<Effects, Inst> {
    let pointers = func.signature.params.iter().enumerate().filter(|p| p.1.value_type == types::I64);
    let pointers: Vec<usize> = pointers.map(|p| p.0).collect();
    let origins = origins(func, &pointers);
    let mut found = Effects::default();
    for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
        let args = func.dfg.inst_args(inst);
        let mut change = |address: ir::Value| {
            let states = origins.get(&func.dfg.resolve_aliases(address)).map(|o| o.states()).unwrap_or_default();
            found.changes.extend(&states);
            if states.len() == 1 { Ok(()) } else { Err(inst) }
        };
        match func.dfg.insts[inst] {
            InstructionData::Store { opcode: Opcode::Store, .. } => change(args[1])?,
            InstructionData::Load { opcode: Opcode::Load, .. } => found.reads = true,
            InstructionData::Call { opcode: Opcode::Call, func_ref, .. } => {
                let of = called(func_ref).ok_or(inst)?;
                of.changes.iter().try_for_each(|&i| change(args[i]))?;
                found.reads |= of.reads;
            }
            data => {
                let op = data.opcode();
                let is_plain = op.is_terminator() && !op.is_call() || !op.other_side_effects();
                if !is_plain || op.is_call() || op.can_load() || op.can_store() || op == Opcode::StackAddr {
                    return Err(inst);
                }
            }
        }
    }
    Ok(found)
}
