//! Cost of the ways to have a name, and what keeps the reverse half from recomputing it.
//!
//! **Question.** By which ways could the reverse half have a name, and what stands in the way of
//! computing it again?
//!
//! **Answer.** [`Offer`] is what a way has for a name, and [`Offer::operands`] what that is
//! computed from. [`obstacle`] says why an instruction cannot run again, [`computable`] which
//! values can be computed at all.
//!
//! **Cost.** Expressions are followed 64 operations deep at most.

use brolga_analysis::LoopId;
use brolga_ir::inst::Val;
use brolga_ir::map::one_each;
use brolga_rules::cost::{CHEAP, cost};
use brolga_rules::is_pure;
use cranelift_codegen::ir::{self, Opcode};
use cranelift_codegen::packed_option::PackedOption;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;

use crate::facts::Facts;
use crate::plan::table::ExitValue;

/// How far expressions are followed.
pub(super) const MAX_DEPTH: u32 = 64;

/// Names that something is computed from.
pub(super) type Operands = SmallVec<[Val; 3]>;

/// What a way has for a name.
pub(super) enum Offer<'f> {
    /// A slot of the frame.
    Frame,
    /// A variable of a loop, which goes back a step on each way back.
    Inverted,
    /// A variable that this loop holds.
    Held(LoopId),
    /// An instruction, and what it reads.
    Computed(ir::Inst, &'f [ir::Value]),
    /// The value with which a loop has ended.
    Final(ExitValue),
}

impl Offer<'_> {
    /// What must be there first.
    pub(super) fn operands(&self) -> Operands {
        match self {
            Self::Computed(_, args) => args.iter().map(|&v| Val::Primal(v)).collect(),
            Self::Final(last) => last.operands().map(Val::Primal).collect(),
            Self::Frame | Self::Inverted | Self::Held(_) => Operands::new(),
        }
    }
}

/// What keeps the reverse half from executing an instruction of the primal, wherever its operands
/// are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// It is a call.
    Call,
    /// It reads memory, which may be written to afterwards.
    Load,
    /// It does something else than compute, or is another thing in another place.
    Impure,
    /// It takes longer than to read a record.
    Dear,
}

/// The obstacle, if there is one; `combined` if both halves are one function.
pub(super) fn obstacle(facts: &Facts<'_>, combined: bool, inst: ir::Inst) -> Option<Obstacle> {
    let op = facts.func().dfg.insts[inst].opcode();
    match op {
        _ if facts.reload.contains(inst) => None,
        Opcode::StackAddr if combined => None,
        _ if op.is_call() => Some(Obstacle::Call),
        _ if op.can_load() => Some(Obstacle::Load),
        _ if !is_pure(op) => Some(Obstacle::Impure),
        _ if cost(op) > CHEAP || op == Opcode::FuncAddr => Some(Obstacle::Dear),
        _ => None,
    }
}

/// The instruction of each value that has no obstacle.
pub(super) fn computable(facts: &Facts<'_>, combined: bool) -> SecondaryMap<ir::Value, PackedOption<ir::Inst>> {
    let dfg = &facts.func().dfg;
    let mut found = one_each(dfg.num_values());
    for &inst in facts.cfg.all_insts() {
        if let &[v] = dfg.inst_results(inst)
            && obstacle(facts, combined, inst).is_none()
        {
            found[v] = inst.into();
        }
    }
    found
}
