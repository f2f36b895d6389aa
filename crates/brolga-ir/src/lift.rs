//! Lifting, CLIF to `CfgBlocks`: one block per primal block, one [`AdOp::Primal`] per instruction,
//! terminators taken apart.
//!
//! **Question.** A forward pass is the primal with insertions. How does the primal get into the
//! form in which it is inserted to?
//!
//! **Answer.** [`lift`] makes the graph of a function, and the map from its blocks; [`lift_block`]
//! makes one block, for loops that the reverse half runs again.
//!
//! **Invariant.** `lower(lift(f))` is `f` again, instruction by instruction: the forward graph is
//! the lifted primal plus insertions, so this is what guarantees that a forward pass computes the
//! primal's result bit for bit.
//!
//! **Cost.** One walk over the function, and a derived instruction for each of its own but for
//! terminators.

use crate::map::Table;
use cranelift_codegen::ir::{self, InstructionData};

use crate::BlockId;
use crate::block::{CfgBlock, CfgBlocks, Fragment, Ids, Role, Target, Term};
use crate::inst::{AdInst, AdOp, Val};

/// The block of the lifted graph that mirrors each primal block.
pub type BlockMap = Table<ir::Block, BlockId>;

/// Lift a normalised function.
pub fn lift(func: &ir::Function, symbol: &str, ids: &mut Ids) -> (CfgBlocks, BlockMap) {
    let mut map = BlockMap::with_capacity(func.dfg.num_blocks(), func.dfg.num_blocks());
    map.extend(func.layout.blocks().map(|b| (b, ids.block())));
    let mut blocks = Table::with_capacity(map.len(), ids.blocks());
    blocks.extend(map.iter().map(|(&b, &id)| (id, lift_block(func, b, id, Role::Forward(b), &map, ids))));
    (CfgBlocks { symbol: symbol.to_owned(), signature: func.signature.clone(), blocks }, map)
}

/// Lift one block, under a name and a role of the caller's. `map` says where its branches go.
pub fn lift_block(
    func: &ir::Function,
    b: ir::Block,
    id: BlockId,
    role: Role,
    map: &BlockMap,
    ids: &mut Ids,
) -> CfgBlock {
    let named = |v: &ir::Value| (Val::Primal(*v), func.dfg.value_type(*v));
    let last = func.layout.last_inst(b).expect("a verified block ends in a terminator");
    let mut insts = Fragment::with_capacity(func.layout.block_insts(b).count());
    for inst in func.layout.block_insts(b).filter(|&i| i != last) {
        let defs = func.dfg.inst_results(inst).iter().map(named).collect();
        insts.insert(ids.inst(), AdInst { defs, op: AdOp::Primal(inst), at: Some(inst) });
    }
    let params = func.dfg.block_params(b).iter().map(named).collect();
    let term = lift_terminator(func, last, map);
    CfgBlock { id, role, params, insts, term, term_at: Some(last), cold: func.layout.is_cold(b) }
}

fn lift_terminator(func: &ir::Function, inst: ir::Inst, map: &BlockMap) -> Term {
    let dfg = &func.dfg;
    let target = |call: &ir::BlockCall| Target {
        block: map[&call.block(&dfg.value_lists)],
        args: call
            .args(&dfg.value_lists)
            .map(|a| Val::Primal(a.as_value().expect("exception arguments are refused before")))
            .collect(),
    };
    match &dfg.insts[inst] {
        InstructionData::Jump { destination, .. } => Term::Jump(target(destination)),
        InstructionData::Brif { arg, blocks, .. } => {
            Term::If(Val::Primal(*arg), target(&blocks[0]), target(&blocks[1]))
        }
        InstructionData::BranchTable { arg, table, .. } => {
            let t = &dfg.jump_tables[*table];
            Term::Table(Val::Primal(*arg), target(&t.default_block()), t.as_slice().iter().map(target).collect())
        }
        InstructionData::Trap { code, .. } => Term::Trap(*code),
        InstructionData::MultiAry { .. } => Term::Return(dfg.inst_args(inst).iter().map(|&v| Val::Primal(v)).collect()),
        other => unreachable!("{} is no terminator of a normalised function", other.opcode()),
    }
}
