//! Forwarding of words through wide values: a word that is put into a wider value, or into a float,
//! and taken out of it, is that word.
//!
//! **Problem.** Shadows of pointers are found by 64-bit integers. An address may be put into one
//! half of a 128-bit integer, into a lane of a vector, or into a double, and be taken out again.
//!
//! **Answer.** Where what is taken out was put in as it is, it is replaced by that:
//!
//! ```text
//! v4 = iconcat v0, v1
//! v5, v6 = isplit v4           v5 is v0, v6 is v1
//! v7 = splat.i64x2 v0
//! v8 = extractlane v7, 1       v8 is v0
//! ```
//!
//! What goes through a block parameter, or through arithmetic, stays as it is, and so do bits of
//! floats.
//!
//! **Cost.** A walk over the instructions; for each that takes a word out of a wide value, as many
//! steps as lanes were put into it, sixteen at most.

use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, types};

use crate::primal::edit::before;
use crate::primal::split_wide_copies::little;

/// A word of a wide value.
#[derive(Clone, Copy)]
enum WideWord {
    /// This one.
    Is(ir::Value),
    /// All of its bits are zero.
    Zero,
}

/// Replace what is taken out by what was put in.
pub(crate) fn wide_words(func: &mut ir::Function) {
    let insts: Vec<ir::Inst> = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect();
    let mut changed = false;
    for inst in insts {
        let Some(words) = taken_out(func, inst).filter(|w| !w.iter().any(|w| is_of_float(func, *w))) else { continue };
        let results = func.dfg.inst_results(inst).to_vec();
        let words: Vec<ir::Value> = words
            .into_iter()
            .map(|word| match word {
                WideWord::Is(v) => v,
                WideWord::Zero => before(func, inst).ins().iconst(types::I64, 0),
            })
            .collect();
        func.dfg.clear_results(inst);
        for (r, w) in results.into_iter().zip(words) {
            func.dfg.change_to_alias(r, w);
        }
        func.layout.remove_inst(inst);
        changed = true;
    }
    if changed {
        func.dfg.resolve_all_aliases();
    }
}

/// What the results of an instruction are, if it takes words out of a wide value and all are known.
fn taken_out(func: &ir::Function, inst: ir::Inst) -> Option<Vec<WideWord>> {
    let &v = func.dfg.inst_args(inst).first()?;
    let (from, to) = (func.dfg.value_type(v), func.dfg.value_type(*func.dfg.inst_results(inst).first()?));
    if to != types::I64 {
        return None;
    }
    match func.dfg.insts[inst] {
        InstructionData::Unary { opcode: Opcode::Isplit, .. } => Some(vec![word(func, v, 0, 0)?, word(func, v, 1, 0)?]),
        InstructionData::Unary { opcode: Opcode::Ireduce, .. } if from == types::I128 => {
            Some(vec![word(func, v, 0, 0)?])
        }
        InstructionData::BinaryImm8 { opcode: Opcode::Extractlane, imm, .. } => Some(vec![word(func, v, imm, 0)?]),
        InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, .. } if from == types::F64 => {
            Some(vec![word(func, v, 0, 0)?])
        }
        _ => None,
    }
}

/// Whether a word is the bits of a float, which is no pointer. Analyses of bits follow it.
fn is_of_float(func: &ir::Function, word: WideWord) -> bool {
    let WideWord::Is(v) = word else { return false };
    let made = func.dfg.value_def(v).inst().filter(|&i| func.dfg.insts[i].opcode() == Opcode::Bitcast);
    made.is_some_and(|i| func.dfg.value_type(func.dfg.inst_args(i)[0]).lane_type().is_float())
}

/// Steps that are taken to find a word.
const MOST_STEPS: u32 = 16;

/// A 64-bit word of a value, the lowest first.
fn word(func: &ir::Function, v: ir::Value, k: u8, steps: u32) -> Option<WideWord> {
    let inst = func.dfg.value_def(v).inst().filter(|_| steps < MOST_STEPS)?;
    let is_word = |v: ir::Value| func.dfg.value_type(v) == types::I64;
    match func.dfg.insts[inst] {
        InstructionData::Binary { opcode: Opcode::Iconcat, args } => {
            let v = args[usize::from(k)];
            is_word(v).then_some(WideWord::Is(v))
        }
        InstructionData::Unary { opcode: Opcode::Splat, arg } => is_word(arg).then_some(WideWord::Is(arg)),
        InstructionData::Unary { opcode: Opcode::ScalarToVector | Opcode::Uextend, arg } if is_word(arg) => {
            Some(if k == 0 { WideWord::Is(arg) } else { WideWord::Zero })
        }
        InstructionData::TernaryImm8 { opcode: Opcode::Insertlane, args, imm } if is_word(args[1]) => {
            if imm == k {
                Some(WideWord::Is(args[1]))
            } else {
                word(func, args[0], k, steps + 1)
            }
        }
        InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } => {
            let from = func.dfg.value_type(arg);
            if is_word(arg) {
                Some(WideWord::Is(arg))
            } else {
                (from.bits() == 128 && little(func, inst)).then(|| word(func, arg, k, steps + 1))?
            }
        }
        InstructionData::Shuffle { args, imm, .. } => {
            let bytes = &func.dfg.immediates[imm].as_slice()[usize::from(k) * 8..][..8];
            let first = bytes[0];
            let is_moved = first.is_multiple_of(8) && first < 32 && (first..).zip(bytes).all(|(at, &b)| at == b);
            is_moved.then(|| word(func, args[usize::from(first / 16)], first % 16 / 8, steps + 1))?
        }
        _ => None,
    }
}
