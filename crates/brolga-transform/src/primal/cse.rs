//! Common-subexpression elimination: pure integer operations that a loop level computes twice.
//!
//! **Problem.** Frontends compute addresses where they need them: `load p + widen(i)`, and for the
//! store that follows `p + widen(i)` again. Cranelift finds out in the end that both are one
//! number, but the analyses before it compare names: an addition in place is seen by its one
//! address ([`brolga_analysis::activity::accumulate`]), and what the pullback computes again it
//! would compute twice.
//!
//! **Answer.** Of two pure integer operations with the same operands, the one that is dominated by
//! the other goes. Operands that are constants are compared by value, but each constant stays where
//! it is: one zero may be a null pointer where another is a count, and no analysis should take them
//! for one thing.
//!
//! Addresses themselves stay apart, only what they are made of is merged: each access of a struct
//! may have an address of its own, and what the analyses know of the memory behind it would be
//! mixed up. That two addresses are sums of the same is easily seen.
//!
//! Only within one loop, since a value that lives from outside to inside must be held there or
//! recorded, while an addition costs nothing. Floats are left alone: two of them may well be
//! computed twice, but then their cotangents would be added up in another order.
//!
//! **Products with one** are floats of which one factor says all, but for the kind of a NaN. In a
//! function that returns no values they are copies ([`copies`]): a simulation whose masses are one
//! should not wait for them in every step.
//!
//! **Invariants.** Control flow, parameters, and everything with an effect stay. Blocks come in any
//! order.
//!
//! ```text
//! v2 = uextend.i64 v1                   v2 = uextend.i64 v1
//! v3 = iadd v0, v2                      v3 = iadd v0, v2
//! v4 = load.f64 v3              ⟶       v4 = load.f64 v3
//! v5 = uextend.i64 v1                   v6 = iadd v0, v2
//! v6 = iadd v0, v5                      store v4, v6
//! store v4, v6
//! ```
//!
//! **Cost.** Two walks over the instructions, with a hash for each pure integer operation.
//!
//! **Source.** Value numbering over the dominator tree (Briggs, Cooper and Simpson, *Value
//! numbering*, 1997).

use brolga_analysis::query::access_address;
use brolga_analysis::{Cfg, Loops};
use brolga_ir::block::CfgBlocks;
use brolga_ir::inst::{AdOp, Arith, Val};
use brolga_ir::map::{HashMap, one_each};
use brolga_rules::is_pure;
use cranelift_codegen::ir::{self, InstructionData, Opcode, Type};
use cranelift_entity::{EntitySet, SecondaryMap};
use smallvec::SmallVec;

use brolga_analysis::query::constant_float;

/// An operand: equal ones are the same number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Operand {
    Value(ir::Value),
    Constant(i64, Type),
}

/// What an operation computes, beside its operands: the instruction without them.
type Key = (InstructionData, Type, SmallVec<[Operand; 2]>);

/// Merge equal integer operations of one loop, and say whether there are any. `order` is one of all
/// blocks in which dominators come first.
pub fn cse(func: &mut ir::Function, cfg: &Cfg, loops: &Loops, order: &[ir::Block]) -> bool {
    let mut any = false;
    let mut known: HashMap<Key, SmallVec<[(ir::Block, ir::Value); 1]>> = HashMap::default();
    let mut instead: SecondaryMap<ir::Value, Option<ir::Value>> = one_each(func.dfg.num_values());
    let addresses = addresses(func);
    let mut insts: Vec<ir::Inst> = Vec::new();
    for &b in order {
        insts.clear();
        insts.extend(func.layout.block_insts(b));
        for &inst in &insts {
            func.dfg.map_inst_values(inst, |v| instead[v].unwrap_or(v));
            let Some(key) = key(func, inst) else { continue };
            let v = func.dfg.first_result(inst);
            if addresses.contains(v) {
                continue;
            }
            let found = known.entry(key).or_default();
            let same = found.iter().find(|&&(at, _)| {
                at == b
                    || loops.innermost[at] == loops.innermost[b]
                        && cfg.is_acyclic(at) == cfg.is_acyclic(b)
                        && loops.dominates(at, b)
            });
            match same {
                Some(&(_, earlier)) => {
                    instead[v] = Some(earlier);
                    func.layout.remove_inst(inst);
                    any = true;
                }
                None => found.push((b, v)),
            }
        }
    }
    any
}

/// Make copies of products with the constant one, in the graph of a function that returns no primal
/// values.
pub fn copies(graph: &mut CfgBlocks, primal: &ir::Function) {
    for i in graph.blocks.values_mut().flat_map(|b| b.insts.values_mut()) {
        let AdOp::Primal(inst) = i.op else { continue };
        let InstructionData::Binary { opcode: Opcode::Fmul, args: [a, b] } = primal.dfg.insts[inst] else { continue };
        let one = |v| constant_float(primal, v) == Some(1.0);
        if let Some(x) = if one(b) { Some(a) } else { one(a).then_some(b) } {
            i.op = AdOp::Arith(Arith::Copy, [Val::Primal(x)].into(), primal.dfg.value_type(x));
        }
    }
}

/// Values at which memory is accessed.
fn addresses(func: &ir::Function) -> EntitySet<ir::Value> {
    let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let mut found = EntitySet::new();
    found.extend(insts.filter_map(|inst| access_address(func, inst)));
    found
}

fn key(func: &ir::Function, inst: ir::Inst) -> Option<Key> {
    let data = func.dfg.insts[inst];
    let op = data.opcode();
    let [v] = func.dfg.inst_results(inst) else { return None };
    let ty = func.dfg.value_type(*v);
    if !is_pure(op) || !ty.is_int() || func.dfg.inst_args(inst).is_empty() {
        return None;
    }
    let operands = func.dfg.inst_args(inst).iter().map(|&a| {
        let constant = func.dfg.value_def(a).inst().and_then(|i| match func.dfg.insts[i] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits()),
            _ => None,
        });
        constant.map_or(Operand::Value(a), |bits| Operand::Constant(bits, func.dfg.value_type(a)))
    });
    let operands = operands.collect();
    // The operands are in the key already: in the data they would tell two zeros apart.
    let data = match data {
        InstructionData::Unary { opcode, .. } => InstructionData::NullAry { opcode },
        InstructionData::Binary { opcode, .. } => InstructionData::NullAry { opcode },
        InstructionData::Ternary { opcode, .. } => InstructionData::NullAry { opcode },
        InstructionData::IntCompare { opcode, cond, .. } => {
            let none = ir::Value::from_u32(0);
            InstructionData::IntCompare { opcode, args: [none; 2], cond }
        }
        _ => return None,
    };
    Some((data, ty, operands))
}
