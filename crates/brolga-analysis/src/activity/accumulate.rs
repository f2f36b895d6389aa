//! Accumulation in place: `a[i] += t`, which leaves the cotangent of `a[i]` where it is.
//!
//! **Question.** Which loads and stores are an addition to what is there?
//!
//! **Before, after.**
//!
//! ```text
//! x  = load a          reverse, by the rules        reverse, in place
//! y  = fadd x, t       ȳ = take shadow[a]           ȳ = shadow[a]
//! store y, a           t̄ += ȳ,  shadow[a] += ȳ      t̄ += ȳ
//! ```
//!
//! **Answer.** The store's reverse takes what is in the shadow and clears it, the load's adds the
//! same number again. If nothing else uses `x` and `y`, and nothing in between writes to that
//! [place](crate::memory::alias), neither has to be done: what other reverse fragments add to the
//! same place in between is added all the same. The sum has the same operands, so its bits are the
//! same.
//!
//! **Cost.** One pass over the instructions. A store is compared with the loads that no write in
//! its block has ended.

use cranelift_codegen::ir::{self, InstructionData, Opcode};
use cranelift_entity::EntitySet;

use crate::Activity;
use crate::activity::MemRole;
use crate::memory::alias::Places;
use crate::query::access_address;
use crate::query::access_offset;
use crate::uses::{Use, Uses};

/// Loads and stores of additions in place.
pub fn in_place(places: Places<'_>, uses: &Uses, activity: &Activity) -> EntitySet<ir::Inst> {
    let Places { func, cfg, .. } = places;
    let mut found = EntitySet::new();
    for &b in &cfg.blocks {
        // Loads from places that nothing has written to since.
        let mut loads: Vec<ir::Inst> = Vec::new();
        for &inst in cfg.insts(b) {
            let op = func.dfg.insts[inst].opcode();
            if op == Opcode::Load {
                loads.push(inst);
                continue;
            }
            if op == Opcode::Store
                && let Some(load) = accumulates(func, inst)
                && loads.contains(&load)
                && is_float(activity, inst) == is_float(activity, load)
                && is_float(activity, inst).is_some()
                && [func.dfg.first_result(load), func.dfg.inst_args(inst)[0]]
                    .iter()
                    .all(|&v| only_use(uses, v) && activity.ct[v].is_some())
            {
                found.insert(load);
                found.insert(inst);
            }
            if op.is_call() || op.other_side_effects() {
                loads.clear();
            } else if op.can_store() {
                let written = places.of_access(inst);
                loads.retain(|l| places.apart_in_block(&places.of_access(*l), &written));
            }
        }
    }
    found
}

fn is_float(activity: &Activity, inst: ir::Inst) -> Option<brolga_ir::inst::Shape> {
    match activity.mem[inst] {
        MemRole::Float(shape) => Some(shape),
        _ => None,
    }
}

fn only_use(uses: &Uses, v: ir::Value) -> bool {
    matches!(uses.of(v), [Use::Inst(..)])
}

/// The load of `store (load a + t), a`.
fn accumulates(func: &ir::Function, store: ir::Inst) -> Option<ir::Inst> {
    let stored = func.dfg.inst_args(store)[0];
    let sum = func.dfg.value_def(stored).inst()?;
    let addends: &[ir::Value] = match func.dfg.insts[sum] {
        InstructionData::Binary { opcode: Opcode::Fadd, .. } => func.dfg.inst_args(sum),
        InstructionData::Binary { opcode: Opcode::Fsub, .. } => &func.dfg.inst_args(sum)[..1],
        _ => return None,
    };
    addends.iter().find_map(|&t| {
        let load = func.dfg.value_def(t).inst()?;
        let same = func.dfg.insts[load].opcode() == Opcode::Load
            && func.dfg.value_type(t) == func.dfg.value_type(stored)
            && same_address(func, access_address(func, load)?, access_address(func, store)?)
            && access_offset(func, load) == access_offset(func, store);
        same.then_some(load)
    })
}

/// Whether two addresses are one: by name, or as sums of the same numbers.
fn same_address(func: &ir::Function, a: ir::Value, b: ir::Value) -> bool {
    let terms = |v: ir::Value| match func.dfg.insts[func.dfg.value_def(v).inst()?] {
        InstructionData::Binary { opcode: Opcode::Iadd, args } => Some(args),
        _ => None,
    };
    a == b || terms(a).is_some_and(|t| terms(b) == Some(t))
}
