//! Loads above a branch, in what the branch leads to.
//!
//! **Problem.** A branch is taken again on the way back, and each side is an equation of its own.
//! What a side has read above the branch is no part of it.
//!
//! ```text
//! v2 = load v0                          brif v1, block1, block2
//! brif v1, block1, block2         ⟶   block1:
//! block1:                                   v9 = load v0
//!     v3 = fadd v2, v4                      v3 = fadd v9, v4
//!     store v3, v0                          store v3, v0
//! ```
//!
//! **Answer.** Nothing between a load and the branch after it stores there, so each side may load
//! again at its beginning, and compute again what it takes. The load above stays, for what else
//! reads it.
//!
//! **Cost.** A walk over the function for each load above a branch.

use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{self, Block, Inst, Opcode, Value};

use super::view::{InverseRequest, UndoneCall, View};
use crate::linear::Nearness;

/// The same function with loads after branches; none if there are none to put there.
pub(super) fn sunk(func: &ir::Function, asked: &InverseRequest<'_>) -> Option<ir::Function> {
    let cfg = ControlFlowGraph::with_function(func);
    let tree = DominatorTree::with_function(func, &cfg);
    let mut out = func.clone();
    let mut any = false;
    // A load that has got after one branch may get after another one.
    for &block in tree.cfg_postorder().iter().rev() {
        let Some(last) = out.layout.last_inst(block) else { continue };
        if out.dfg.insts[last].opcode() != Opcode::Brif {
            continue;
        }
        let loads = loads_at_the_end(&View::of(&out, asked).ok()?, block);
        for side in cfg.succ_iter(block).filter(|&side| cfg.pred_iter(side).count() == 1) {
            for &load in loads.iter().rev() {
                any |= duplicate_load(&mut out, &tree, load, side);
            }
        }
    }
    any.then_some(out)
}

/// The loads of a block after which it does not store to the same place, and what is computed from
/// them, in order.
fn loads_at_the_end(view: &View<'_>, block: Block) -> Vec<Inst> {
    let dfg = &view.func.dfg;
    let mut found: Vec<Inst> = Vec::new();
    let is_of = |inst: Inst, found: &[Inst]| {
        let by = |v: &Value| dfg.value_def(view.resolved(*v)).inst();
        dfg.inst_args(inst).iter().filter_map(by).any(|i| found.contains(&i))
    };
    for inst in view.func.layout.block_insts(block) {
        let op = dfg.insts[inst].opcode();
        match op {
            Opcode::Load => found.push(inst),
            Opcode::Store => {
                for i in std::mem::take(&mut found) {
                    let is_load = dfg.insts[i].opcode() == Opcode::Load;
                    if if is_load { are_apart(view, i, inst) } else { is_of(i, &found) } {
                        found.push(i);
                    }
                }
            }
            op if op.is_call() && view.called(inst) != Some(UndoneCall::Computes) => found.clear(),
            op if !op.is_terminator() && !op.is_call() && is_of(inst, &found) => found.push(inst),
            _ => {}
        }
    }
    found
}

/// Whether a load reads nothing of what is stored: states are apart from all else.
fn are_apart(view: &View<'_>, load: Inst, store: Inst) -> bool {
    let [a, b] = [load, store].map(|i| view.place(view.address(i)));
    let (Some(a), Some(b)) = (a, b) else { return false };
    let [(at, ty), (stored, stored_ty)] = [load, store].map(|i| view.accessed(i));
    a != b || at.near(ty, &stored, stored_ty) == Nearness::Apart
}

/// Load, or compute, again at the beginning of a block, for what it dominates; whether something
/// there reads it.
fn duplicate_load(func: &mut ir::Function, tree: &DominatorTree, load: Inst, side: Block) -> bool {
    let value = func.dfg.first_result(load);
    let within: Vec<Inst> = func
        .layout
        .blocks()
        .filter(|&b| tree.is_reachable(b) && tree.block_dominates(side, b))
        .flat_map(|b| func.layout.block_insts(b))
        .collect();
    let is_it = |func: &ir::Function, v: Value| func.dfg.resolve_aliases(v) == value;
    let reads = |&i: &Inst| func.dfg.inst_values(i).any(|v| is_it(func, v));
    let readers: Vec<Inst> = within.into_iter().filter(reads).collect();
    if readers.is_empty() {
        return false;
    }
    let copy = func.dfg.clone_inst(load);
    func.set_srcloc(copy, func.srcloc(load));
    let new = func.dfg.first_result(copy);
    match func.layout.first_inst(side) {
        Some(first) => func.layout.insert_inst(copy, first),
        None => func.layout.append_inst(copy, side),
    }
    for reader in readers {
        let old: Vec<Value> = func.dfg.inst_values(reader).collect();
        let mut new = old.into_iter().map(|v| if is_it(func, v) { new } else { v }).collect::<Vec<_>>().into_iter();
        func.dfg.map_inst_values(reader, |_| new.next().expect("there is one for each"));
    }
    true
}
