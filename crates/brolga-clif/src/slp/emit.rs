//! SLP code generation: a region is written anew, with vectors in the place of bundles.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, MemFlagsData, Opcode, Value, types};

use crate::vectorise::codegen::of_vector;

use super::bundles::{Bundle, BundleKind, Chosen};

/// Where `part` of a block was, put its instructions in an order of groups, and one of vectors for
/// each bundle.
pub fn emit(func: &mut ir::Function, block: ir::Block, part: &[ir::Inst], chosen: &Chosen, order: &[u32]) {
    let before = func.layout.prev_inst(part[0]);
    part.iter().for_each(|&i| func.layout.remove_inst(i));
    let mut cursor = FuncCursor::new(func);
    match before {
        Some(inst) => cursor.goto_after_inst(inst),
        None => cursor.goto_first_insertion_point(block),
    }
    let mut vectors: Vec<Option<Value>> = vec![None; chosen.all.len()];
    for &group in order {
        match chosen.all.iter().position(|b| b.insts.iter().min() == Some(&group)) {
            None => {
                cursor.insert_inst(part[group as usize]);
            }
            Some(at) => {
                let from = cursor.func.srcloc(part[group as usize]);
                cursor.set_srcloc(from);
                for &arg in &chosen.all[at].args {
                    if vectors[arg].is_none() {
                        vectors[arg] = Some(together(&mut cursor, &chosen.all[arg]));
                    }
                }
                vectors[at] = vector(&mut cursor, part, &chosen.all, at, &vectors);
                if let Some(vector) = vectors[at] {
                    take_out(&mut cursor, part, &chosen.all[at], &chosen.read[at], vector);
                }
            }
        }
    }
}

/// Scalars in lanes.
fn together(cursor: &mut FuncCursor<'_>, leaf: &Bundle) -> Value {
    if let BundleKind::Splat(v) = leaf.kind {
        return cursor.ins().splat(leaf.ty, v);
    }
    let first = cursor.ins().splat(leaf.ty, leaf.lanes[0]);
    (1..).zip(&leaf.lanes[1..]).fold(first, |all, (k, &v)| cursor.ins().insertlane(all, v, k))
}

/// What a bundle does, as one instruction; its result, if it has one.
fn vector(
    cursor: &mut FuncCursor<'_>,
    part: &[ir::Inst],
    all: &[Bundle],
    at: usize,
    vectors: &[Option<Value>],
) -> Option<Value> {
    let bundle = &all[at];
    let arg = |k: usize| vectors[bundle.args[k]].expect("what it reads is there");
    let inst = |k: usize| part[bundle.insts[k] as usize];
    let ty = bundle.ty;
    Some(match bundle.kind {
        BundleKind::Store => {
            let InstructionData::Store { args, offset, flags, .. } = cursor.func.dfg.insts[inst(0)] else {
                unreachable!("a store")
            };
            let flags = of_vector(cursor.func.dfg.mem_flags[flags]);
            cursor.ins().store(flags, arg(0), args[1], offset);
            return None;
        }
        BundleKind::Load => load(cursor, inst(0), ty),
        BundleKind::Swapped => {
            let loaded = load(cursor, inst(1), ty);
            let little = MemFlagsData::new().with_endianness(ir::Endianness::Little);
            let bytes = cursor.ins().bitcast(types::I8X16, little, loaded);
            let mask: Vec<u8> = (8..16).chain(0..8).collect();
            let mask = cursor.func.dfg.immediates.push(mask.into());
            let turned = cursor.ins().shuffle(bytes, bytes, mask);
            cursor.ins().bitcast(ty, little, turned)
        }
        BundleKind::Select(c) => cursor.ins().select(c, arg(0), arg(1)),
        BundleKind::Arith(Opcode::Fadd) => cursor.ins().fadd(arg(0), arg(1)),
        BundleKind::Arith(Opcode::Fsub) => cursor.ins().fsub(arg(0), arg(1)),
        BundleKind::Arith(Opcode::Fmul) => cursor.ins().fmul(arg(0), arg(1)),
        BundleKind::Arith(Opcode::Fdiv) => cursor.ins().fdiv(arg(0), arg(1)),
        BundleKind::Arith(Opcode::Fneg) => cursor.ins().fneg(arg(0)),
        BundleKind::Arith(Opcode::Fabs) => cursor.ins().fabs(arg(0)),
        BundleKind::Arith(Opcode::Sqrt) => cursor.ins().sqrt(arg(0)),
        BundleKind::Arith(op) => unreachable!("{op} is in no bundle"),
        BundleKind::Splat(_) | BundleKind::Leaf => unreachable!("leaves have no instructions"),
    })
}

fn load(cursor: &mut FuncCursor<'_>, lowest: ir::Inst, ty: ir::Type) -> Value {
    let InstructionData::Load { arg, offset, flags, .. } = cursor.func.dfg.insts[lowest] else {
        unreachable!("a load")
    };
    let flags = of_vector(cursor.func.dfg.mem_flags[flags]);
    cursor.ins().load(ty, flags, arg, offset)
}

/// Lanes that are read as scalars get their names, the others are gone.
fn take_out(cursor: &mut FuncCursor<'_>, part: &[ir::Inst], bundle: &Bundle, read: &[bool], vector: Value) {
    for (lane, (&inst, &read)) in (0..).zip(bundle.insts.iter().zip(read)) {
        if read {
            let found = cursor.ins().extractlane(vector, lane);
            let inst = part[inst as usize];
            let scalar = cursor.func.dfg.first_result(inst);
            cursor.func.dfg.clear_results(inst);
            cursor.func.dfg.change_to_alias(scalar, found);
        }
    }
}
