//! Uses and effects: what each instruction of a derived graph is needed for, and which cells it
//! reads and writes.
//!
//! **Question.** May an instruction go if its names are not read, and what else would miss it?
//!
//! **Answer.** By operation ([`Use`]): it has an effect and stays; it is needed for its names; it
//! writes a cell (a frame slot, a held variable, private memory, a cotangent) and is needed where
//! that is read; or it belongs to an allocation.
//!
//! **Cost.** A match for each instruction, and a look-up for each private object that its
//! operands lead to.

use brolga_analysis::PrivateMemory;
use brolga_analysis::calls::joint::divides_safely;
use brolga_analysis::memory::alias::Origin;
use brolga_analysis::memory::escape::PrivateObject;
use brolga_ir::inst::{AdInst, AdOp, Callee, Check, FrameSlot, Val};
use cranelift_codegen::ir::{self, InstructionData, Opcode};

/// What is known of the normalised function whose instructions are copied.
#[derive(Clone, Copy)]
pub struct KnownPrimal<'a> {
    /// The function.
    pub primal: &'a ir::Function,
    /// Which of its calls, loads and writes to private memory may go although they might do more
    /// than that.
    pub pure: &'a dyn Fn(ir::Inst) -> bool,
    /// Its private memory.
    pub private: &'a PrivateMemory,
}

/// What an instruction is to the rest of the function, beside the names that it defines.
pub(super) enum Use {
    /// It is needed whenever it is reached.
    Effect,
    /// It is needed for its names only.
    Value,
    /// It writes what only instructions that read the same are interested in.
    Writes(DceCell),
    /// It has an effect on a block of private memory, and is needed where that is: where this name
    /// is.
    With(Val),
}

/// Where values are on their way from the forward part to the pullback part, or from a store to a
/// load.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum DceCell {
    /// A place in the activation frame.
    Frame(FrameSlot),
    /// A held variable.
    Held(Val),
    /// Private memory of the primal, all of it.
    Memory(PrivateObject),
    /// The cotangent of a value.
    Ct(ir::Value),
}

pub(super) fn use_of(inst: &AdInst, KnownPrimal { primal, pure, private }: KnownPrimal<'_>) -> Use {
    match &inst.op {
        AdOp::Call { callee: Callee::Symbol(s), args, .. } => match (&s[..], &args[..]) {
            ("brolga_malloc" | "brolga_calloc", _) if made_by(inst.at, private).is_some() => Use::Value,
            ("brolga_free", [_, Some(Val::Primal(p)), _]) | ("brolga_free_both", [_, Some(Val::Primal(p))])
                if made_by(primal.dfg.value_def(*p).inst(), private).is_some() =>
            {
                Use::With(Val::Primal(*p))
            }
            _ => Use::Effect,
        },
        AdOp::TrapIf(_, check) => match made_by(inst.at, private) {
            Some(call) if *check == Check::Helper => Use::With(Val::Primal(primal.dfg.first_result(call))),
            _ => Use::Effect,
        },
        AdOp::Primal(inst) => match private.writes(*inst) {
            Some(piece) if pure(*inst) || private.is_harmless(*inst) => Use::Writes(DceCell::Memory(piece)),
            Some(_) => Use::Effect,
            None if is_removable(primal, *inst) || pure(*inst) => Use::Value,
            None => Use::Effect,
        },
        AdOp::Arith(..)
        | AdOp::Moved(..)
        | AdOp::Series(..)
        | AdOp::SlotDelta(_)
        | AdOp::SlotAddr(..)
        | AdOp::DataDelta(_)
        | AdOp::LoadDelta { .. }
        | AdOp::LoadTaskDelta(_)
        | AdOp::LoadOld { .. }
        | AdOp::PeekMem { .. }
        | AdOp::LoadTangent { .. }
        | AdOp::Watched
        | AdOp::PeekBlock
        | AdOp::Restore(_)
        | AdOp::RestoreBlock(_)
        | AdOp::Held(_)
        | AdOp::TakeCt(_) => Use::Value,
        AdOp::Keep(slot, _) | AdOp::KeepBlock(slot, _) => Use::Writes(DceCell::Frame(*slot)),
        AdOp::Hold(name, _) => Use::Writes(DceCell::Held(*name)),
        AdOp::AddCt(v, _) | AdOp::ZeroCt(v) => Use::Writes(DceCell::Ct(*v)),
        AdOp::StoreDelta { .. }
        | AdOp::StoreOld { .. }
        | AdOp::EnterFrame
        | AdOp::Push(..)
        | AdOp::LeaveFrame
        | AdOp::OpenFrame
        | AdOp::NextIteration
        | AdOp::Pop(..)
        | AdOp::CloseFrame
        | AdOp::AddMem { .. }
        | AdOp::TakeMem { .. }
        | AdOp::StoreTangent { .. }
        | AdOp::Piece { .. }
        | AdOp::ZeroMem { .. }
        | AdOp::Poison { .. }
        | AdOp::Call { .. }
        | AdOp::Lookup { .. }
        | AdOp::Watch { .. }
        | AdOp::WatchFrom(_)
        | AdOp::WatchJoin(_)
        | AdOp::WatchFlag(_)
        | AdOp::TrapIfBytes(_) => Use::Effect,
    }
}

/// An instruction, if it allocates private memory.
fn made_by(inst: Option<ir::Inst>, private: &PrivateMemory) -> Option<ir::Inst> {
    inst.filter(|&i| private.origins.contains(&Origin::Alloc(i)))
}

/// Add what an instruction reads that others write, where it is needed.
pub(super) fn cells_read(op: &AdOp, private: &PrivateMemory, into: &mut Vec<DceCell>) {
    let memory = |v: &Val| match *v {
        Val::Primal(v) => private.leads(v),
        _ => &[],
    };
    let mut objects = |p: &[PrivateObject]| into.extend(p.iter().map(|&p| DceCell::Memory(p)));
    match op {
        AdOp::Primal(inst) => objects(private.reads(*inst)),
        AdOp::LoadOld { addr, .. } => objects(memory(addr)),
        AdOp::Call { callee: Callee::Symbol(s), .. } if SHADOWS_ONLY.contains(&&s[..]) => {}
        AdOp::Call { args, .. } => args.iter().flatten().for_each(|v| objects(memory(v))),
        AdOp::Restore(slot) | AdOp::RestoreBlock(slot) => into.push(DceCell::Frame(*slot)),
        AdOp::Held(name) => into.push(DceCell::Held(*name)),
        AdOp::TakeCt(v) | AdOp::AddCt(v, _) => into.push(DceCell::Ct(*v)),
        _ => {}
    }
}

/// Helpers of the run time that are told addresses of the primal, and do not read what is there.
const SHADOWS_ONLY: [&str; 8] = [
    "brolga_clear",
    "brolga_copy_pointers",
    "brolga_copy_shadow",
    "brolga_drop_pointers",
    "brolga_free",
    "brolga_memmove_rev",
    "brolga_move_rev",
    "brolga_zero",
];

/// Whether a primal instruction may be left out if its results are not read.
fn is_removable(primal: &ir::Function, inst: ir::Inst) -> bool {
    let op = primal.dfg.insts[inst].opcode();
    let control = op.is_call() || op.is_branch() || op.is_terminator() || op.is_return();
    if control || op.can_store() || op.other_side_effects() {
        return false;
    }
    match op {
        Opcode::Udiv | Opcode::Urem | Opcode::Sdiv | Opcode::Srem => divides_safely(primal, inst),
        _ if op.can_load() => match primal.dfg.insts[inst] {
            InstructionData::Load { flags, .. } => primal.dfg.mem_flags[flags].notrap(),
            _ => false,
        },
        _ => !op.can_trap(),
    }
}
