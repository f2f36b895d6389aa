//! CFG simplification: unused code, jumps to jumps and to returns, parameters that always get one
//! argument.
//!
//! **Problem.** Lowering writes down what each part of a graph asks for: a zero for each variable,
//! though most are set before they are read; a block of its own for the entry of the pullback and
//! for its exit, with nothing but a jump between them. None of that is in the machine code, but
//! each instruction is looked at by the verifier and by ten passes of Cranelift's, and each block
//! costs as much as several instructions.
//!
//! **Answer.** Just before a function is verified, what is pure and not used goes, and a block to
//! which a jump leads, and nothing else, becomes a part of the block that it follows. A jump to
//! a return becomes a return. Dumps show the function as it was made.
//!
//! **Invariants.** Instructions keep their names, their order in each block, and their source
//! locations. Values keep their names but for parameters of blocks that are joined, which are the
//! arguments that they got.
//!
//! ```text
//! block0(v0: f64):                 block0(v0: f64):
//!     v1 = iconst.i64 0                v2 = fadd v0, v0
//!     jump block1(v0)        ⟶         return v2
//! block1(v9: f64):
//!     v2 = fadd v9, v9
//!     jump block2(v2)
//! block2(v3: f64):
//!     return v3
//! ```
//!
//! **Cost.** A few walks over the function. One rewrites every operand; it is left out if no value
//! is another name of one.
//!
//! **Source.** LLVM's `simplifycfg`, of which this is a small part.

use crate::map::one_each;
use crate::pure::is_pure;
use cranelift_codegen::ir::{self, InstructionData, Opcode, types};
use cranelift_entity::{EntitySet, SecondaryMap};

/// Tidy up a function.
pub fn simplify_cfg(func: &mut ir::Function) {
    join(func, |_| true);
    resolve_aliases(func);
    return_early(func);
    drop_unused(func);
}

/// No value is another name of one. Mostly none is to begin with, and to rewrite every instruction
/// takes as long as a pass does.
pub fn resolve_aliases(func: &mut ir::Function) {
    if has_aliases(func) {
        func.dfg.resolve_all_aliases();
    }
}

/// Whether a value is another name of one.
pub fn has_aliases(func: &ir::Function) -> bool {
    // Names that have been resolved stay behind without a type.
    func.dfg.values().any(|v| func.dfg.value_is_alias(v) && func.dfg.value_type(v) != types::INVALID)
}

/// Return instead of jumping to a block that does nothing but that: in a function of few
/// instructions, a leaf of a recursion above all, the jump is a good part of them.
fn return_early(func: &mut ir::Function) {
    let mut next = func.layout.last_block();
    let mut changed = false;
    while let Some(block) = next {
        next = func.layout.prev_block(block);
        let last = func.layout.last_inst(block).expect("a block has a terminator");
        let InstructionData::Jump { destination, .. } = func.dfg.insts[last] else { continue };
        let to = destination.block(&func.dfg.value_lists);
        let ret = func.layout.last_inst(to).expect("a block has a terminator");
        if func.dfg.insts[ret].opcode() != Opcode::Return || func.layout.first_inst(to) != Some(ret) {
            continue;
        }
        let params = func.dfg.block_params(to).to_vec();
        let args: Vec<_> = destination.args(&func.dfg.value_lists).filter_map(|a| a.as_value()).collect();
        let new = func.dfg.clone_inst(ret);
        func.dfg.map_inst_values(new, |v| params.iter().position(|&p| p == v).map_or(v, |k| args[k]));
        func.set_srcloc(new, func.srcloc(last));
        func.layout.remove_inst(last);
        func.layout.append_inst(new, block);
        changed = true;
    }
    if !changed {
        return;
    }
    let mut reached = EntitySet::new();
    reached.extend(func.layout.entry_block());
    for block in func.layout.blocks() {
        reached.extend(func.block_successors(block));
    }
    let idle: Vec<ir::Block> = func.layout.blocks().filter(|&b| !reached.contains(b)).collect();
    idle.into_iter().for_each(|b| func.layout.remove_block_and_insts(b));
}

/// Append blocks to the only one that leads to them, by a jump that `wanted` says is one of those.
pub fn join(func: &mut ir::Function, wanted: impl Fn(ir::Inst) -> bool) {
    let mut edges: SecondaryMap<ir::Block, u32> = one_each(func.dfg.num_blocks());
    for block in func.layout.blocks() {
        func.block_successors(block).for_each(|to| edges[to] += 1);
    }
    let mut next = func.layout.entry_block();
    while let Some(block) = next {
        next = func.layout.next_block(block);
        let last = func.layout.last_inst(block).expect("a block has a terminator");
        let InstructionData::Jump { destination, .. } = func.dfg.insts[last] else { continue };
        let to = destination.block(&func.dfg.value_lists);
        if !wanted(last) || edges[to] != 1 || to == block {
            continue;
        }
        let args: Vec<_> = destination.args(&func.dfg.value_lists).filter_map(|a| a.as_value()).collect();
        let params = func.dfg.detach_block_params(to);
        let params = params.as_slice(&func.dfg.value_lists).to_vec();
        params.iter().zip(args).for_each(|(&p, a)| func.dfg.change_to_alias(p, a));
        func.layout.remove_inst(last);
        let moved: Vec<ir::Inst> = func.layout.block_insts(to).collect();
        func.layout.remove_block_and_insts(to);
        moved.into_iter().for_each(|i| func.layout.append_inst(i, block));
        // What was appended may end in such a jump.
        next = Some(block);
    }
}

/// Remove what computes what is not used. Definitions are laid out before uses, so what only they
/// use goes as well.
fn drop_unused(func: &mut ir::Function) {
    let mut uses: SecondaryMap<ir::Value, u32> = one_each(func.dfg.num_values());
    for block in func.layout.blocks() {
        for inst in func.layout.block_insts(block) {
            func.dfg.inst_args(inst).iter().for_each(|&v| uses[v] += 1);
        }
        // What only a terminator has: the arguments of its branches.
        let last = func.layout.last_inst(block).expect("a block has a terminator");
        let fixed = func.dfg.inst_args(last).len();
        func.dfg.inst_values(last).skip(fixed).for_each(|v| uses[v] += 1);
    }
    let mut next = func.layout.last_block();
    while let Some(block) = next {
        next = func.layout.prev_block(block);
        let mut at = func.layout.last_inst(block);
        while let Some(inst) = at {
            at = func.layout.prev_inst(inst);
            let unused = func.dfg.inst_results(inst).iter().all(|&v| uses[v] == 0);
            if unused && has_no_effect(func, inst) {
                func.dfg.inst_args(inst).iter().for_each(|&v| uses[v] -= 1);
                func.layout.remove_inst(inst);
            }
        }
    }
}

fn has_no_effect(func: &ir::Function, inst: ir::Inst) -> bool {
    let op = func.dfg.insts[inst].opcode();
    is_pure(op) || op == Opcode::StackAddr
}

#[cfg(test)]
mod tests {
    use super::simplify_cfg;

    #[test]
    fn what_has_no_use_goes_and_chains_of_blocks_are_joined() {
        let text = "function %f(f64, i64) -> f64 fast {
            ss0 = explicit_slot 8
            block0(v0: f64, v1: i64):
                v2 = iconst.i64 7
                v3 = iadd v1, v2
                v4 = stack_addr.i64 ss0
                v5 = load.f64 v1
                jump block1(v0)
            block1(v6: f64):
                v7 = fadd v6, v0
                brif v1, block2, block3(v7)
            block2:
                jump block4
            block3(v8: f64):
                return v8
            block4:
                v9 = fmul v7, v7
                return v9
            }";
        let mut func = cranelift_reader::parse_functions(text).unwrap_or_else(|e| panic!("{e}")).remove(0);
        simplify_cfg(&mut func);
        let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
        let left: Vec<String> = insts.map(|i| func.dfg.display_inst(i).to_string()).collect();
        let wanted = [
            "v5 = load.f64 v1",
            "v7 = fadd.f64 v0, v0",
            "brif.i64 v1, block2, block3(v7)",
            "v9 = fmul.f64 v7, v7",
            "return v9",
            "return v8",
        ];
        assert_eq!(left, wanted);
        assert_eq!(func.layout.blocks().count(), 3);
    }

    #[test]
    fn a_jump_to_a_return_returns() {
        let text = "function %f(f64, i64) -> f64, i64 fast {
            block0(v0: f64, v1: i64):
                brif v1, block1, block2
            block1:
                v2 = fadd v0, v0
                jump block3(v2)
            block2:
                v3 = fmul v0, v0
                jump block3(v3)
            block3(v4: f64):
                return v4, v1
            }";
        let mut func = cranelift_reader::parse_functions(text).unwrap_or_else(|e| panic!("{e}")).remove(0);
        simplify_cfg(&mut func);
        let blocks = func.layout.blocks().filter_map(|b| func.layout.last_inst(b));
        let ends: Vec<String> = blocks.map(|i| func.dfg.display_inst(i).to_string()).collect();
        assert_eq!(ends, ["brif.i64 v1, block1, block2", "return v2, v1", "return v3, v1"]);
    }
}
