//! Renumbering: a function once more, numbered in the order of its blocks.
//!
//! **Problem.** A body that passes have changed has entities that nothing names, in an order of
//! their making. Tables by entity are as long as those are many, and what is derived depends on
//! their numbers.
//!
//! **Answer.** What [`super::lower`] makes of a lifted function, without the graph on the way:
//! blocks, parameters, instructions and whatever they refer to are numbered as they come, and what
//! nothing refers to is not there any more. A function that is numbered so already stays.
//!
//! **Cost.** One walk to see, and one to copy.

use cranelift_codegen::ir;
use cranelift_codegen::packed_option::PackedOption;
use cranelift_entity::SecondaryMap;

use super::copy::{Copier, ImportMap};
use super::named::NameMap;
use crate::inst::Val;
use crate::map::one_each;
use crate::names::Names;

/// Whether a function is numbered so already: its blocks in this order, and whatever is in them in
/// the order in which it is there. Of instructions and values there may be more, that are nowhere.
pub fn is_numbered(func: &ir::Function, order: &[ir::Block]) -> bool {
    let (mut insts, mut values) = (0, 0);
    let mut later = |v: ir::Value| v.as_u32() >= std::mem::replace(&mut values, v.as_u32() + 1);
    func.dfg.num_blocks() == order.len()
        && func.layout.blocks().zip(0..).zip(order).all(|((b, i), &o)| b == o && b.as_u32() == i)
        && order.iter().all(|&b| {
            func.dfg.block_params(b).iter().all(|&p| later(p))
                && func.layout.block_insts(b).all(|inst| {
                    inst.as_u32() >= std::mem::replace(&mut insts, inst.as_u32() + 1)
                        && func.dfg.inst_results(inst).iter().all(|&v| later(v))
                })
        })
}

/// Copy a function with its blocks in this order, in which definitions come before uses. It must be
/// normalised as far as aliases, exceptions and unreachable blocks go.
pub fn renumber(src: &ir::Function, order: &[ir::Block]) -> ir::Function {
    let mut func = ir::Function::with_name_signature(src.name.clone(), src.signature.clone());
    func.params.ensure_base_srcloc(ir::SourceLoc::new(0));
    let mut blocks: SecondaryMap<ir::Block, PackedOption<ir::Block>> = one_each(src.dfg.num_blocks());
    for &b in order {
        blocks[b] = func.dfg.make_block().into();
    }
    let mut named = NameMap::new(src.dfg.num_values());
    let (mut imported, mut names) = (ImportMap::default(), Names::verbatim());
    for &b in order {
        let block = blocks[b].expand().expect("every block has been made");
        func.layout.append_block(block);
        if src.layout.is_cold(b) {
            func.layout.set_cold(block);
        }
        for &p in src.dfg.block_params(b) {
            let v = func.dfg.append_block_param(block, src.dfg.value_type(p));
            named.set(Val::Primal(p), v);
        }
        for inst in src.layout.block_insts(b) {
            let mut copier = Copier {
                src,
                dst: &mut func,
                values: &named,
                imported: &mut imported,
                names: &mut names,
                instead: None,
                blocks: Some(&blocks),
            };
            let data = src.dfg.insts[inst].map(&mut copier);
            let new = func.dfg.make_inst(data);
            func.dfg.make_inst_results(new, src.dfg.ctrl_typevar(inst));
            func.layout.append_inst(new, block);
            let at = src.srcloc(inst);
            if !at.is_default() {
                func.set_srcloc(new, at);
            }
            for (&v, &r) in src.dfg.inst_results(inst).iter().zip(func.dfg.inst_results(new)) {
                named.set(Val::Primal(v), r);
            }
        }
    }
    func
}
