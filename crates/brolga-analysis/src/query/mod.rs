//! Queries: what one instruction says by itself.
//!
//! **Question.** What is the address, the offset, the width or the constant of an instruction,
//! without a look at any other but those that define its operands?
//!
//! **Answer.** A function for each question here; two have modules of their own:
//!
//! - [`callee`]: what a call goes to: a function of the program, a known C function, or what is not
//!   known.
//! - [`cell`]: places in memory that have a name, a base and a constant offset.
//!
//! **Cost.** A look at one instruction, or two. [`signature_id`] prints a signature, and
//! [`returns`] walks over the blocks.

pub mod callee;
pub mod cell;

use brolga_ir::lower::{Channel, INTEGER_REGION};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstructionData, Opcode, Signature};

/// The value of an `iconst`.
pub fn constant_int(func: &ir::Function, v: ir::Value) -> Option<i64> {
    match func.dfg.insts[func.dfg.value_def(v).inst()?] {
        InstructionData::UnaryImm { imm, .. } => Some(imm.bits()),
        _ => None,
    }
}

/// The two values of which a choice is one.
pub fn alternatives(func: &ir::Function, choice: ir::Inst) -> &[ir::Value] {
    let args = func.dfg.inst_args(choice);
    &args[args.len() - 2..]
}

/// The condition under which the larger or smaller of two integers is the first.
pub fn extreme_condition(opcode: Opcode) -> Option<IntCC> {
    Some(match opcode {
        Opcode::Smax => IntCC::SignedGreaterThan,
        Opcode::Smin => IntCC::SignedLessThan,
        Opcode::Umax => IntCC::UnsignedGreaterThan,
        Opcode::Umin => IntCC::UnsignedLessThan,
        _ => return None,
    })
}

/// The instruction of the input that an instruction of the normalised function stems from.
pub fn original(func: &ir::Function, inst: ir::Inst) -> ir::Inst {
    let bits = func.srcloc(inst).bits();
    ir::Inst::from_u32(bits.wrapping_sub(1).min(u32::MAX - 1))
}

/// Address operands of a memory access.
pub fn access_address(func: &ir::Function, inst: ir::Inst) -> Option<ir::Value> {
    match func.dfg.insts[inst] {
        // A bitcast has memory flags too, for its byte order.
        InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, .. } => None,
        InstructionData::Load { arg, .. } | InstructionData::LoadNoOffset { arg, .. } => Some(arg),
        InstructionData::Store { args, .. } | InstructionData::StoreNoOffset { args, .. } => Some(args[1]),
        InstructionData::AtomicRmw { args, .. } => Some(args[0]),
        InstructionData::AtomicCas { args, .. } => Some(args[0]),
        _ => None,
    }
}

/// Offset of a memory access.
pub fn access_offset(func: &ir::Function, inst: ir::Inst) -> i32 {
    match func.dfg.insts[inst] {
        InstructionData::Load { offset, .. } | InstructionData::Store { offset, .. } => offset.into(),
        _ => 0,
    }
}

/// The value that an instruction writes to memory, or combines with what is there.
pub fn stored_operand(func: &ir::Function, inst: ir::Inst) -> Option<ir::Value> {
    match func.dfg.insts[inst] {
        InstructionData::Store { args, .. } | InstructionData::StoreNoOffset { args, .. } => Some(args[0]),
        InstructionData::AtomicRmw { args, .. } => Some(args[1]),
        InstructionData::AtomicCas { args, .. } => Some(args[2]),
        _ => None,
    }
}

/// Bytes that a memory access moves.
pub fn access_bytes(func: &ir::Function, inst: ir::Inst) -> u32 {
    match func.dfg.insts[inst].opcode() {
        Opcode::Istore8 | Opcode::Uload8 | Opcode::Sload8 => 1,
        Opcode::Istore16 | Opcode::Uload16 | Opcode::Sload16 => 2,
        Opcode::Istore32 | Opcode::Uload32 | Opcode::Sload32 => 4,
        Opcode::Store | Opcode::AtomicStore => func.dfg.value_type(func.dfg.inst_args(inst)[0]).bytes(),
        _ => func.dfg.inst_results(inst).first().map_or(8, |&r| func.dfg.value_type(r).bytes()),
    }
}

/// Identifies a signature in the table of function addresses.
///
/// Two functions with the same parameters, results and convention have the same id, in every
/// program and every process.
pub fn signature_id(sig: &Signature) -> u64 {
    // FNV-1a over the printed signature: stable, unlike the standard hasher.
    let mut h: u64 = 0xcbf2_9ce4_8422_2325;
    for b in sig.to_string().bytes() {
        h = (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
    }
    h
}

/// A constant, the same in all lanes.
pub fn constant_float(func: &ir::Function, v: ir::Value) -> Option<f64> {
    use ir::InstructionData as I;
    match func.dfg.insts[func.dfg.value_def(v).inst()?] {
        I::UnaryIeee64 { imm, .. } => Some(imm.as_f64()),
        I::UnaryIeee32 { imm, .. } => Some(imm.as_f32().into()),
        I::Unary { opcode: ir::Opcode::Splat, arg } => constant_float(func, arg),
        _ => None,
    }
}

/// Whether an instruction accesses addresses on a typed tape
/// ([`Channel::Addresses`](brolga_ir::lower::Channel)): the function is a derivative.
pub fn is_taped_address(func: &ir::Function, inst: ir::Inst) -> bool {
    is_of_region(func, inst, Channel::Addresses.region())
}

/// The same of integers that are no addresses; or a frontend says so ([`INTEGER_REGION`]), and that
/// they are no bits of floats.
pub fn is_integer_access(func: &ir::Function, inst: ir::Inst) -> bool {
    is_of_region(func, inst, Channel::Integers.region()) || is_plain_integer(func, inst)
}

/// Whether a frontend says that an access is of an integer which is neither an address nor bits of
/// a float.
pub fn is_plain_integer(func: &ir::Function, inst: ir::Inst) -> bool {
    is_of_region(func, inst, INTEGER_REGION)
}

fn is_of_region(func: &ir::Function, inst: ir::Inst, number: u32) -> bool {
    let region = func.dfg.insts[inst].alias_region(&func.dfg);
    region.is_some_and(|r| func.dfg.alias_regions[r].user_id == number)
}

/// The `return`s of a function.
pub fn returns(func: &ir::Function) -> impl Iterator<Item = ir::Inst> + '_ {
    let ends = func.layout.blocks().filter_map(|b| func.layout.last_inst(b));
    ends.filter(|&i| func.dfg.insts[i].opcode() == Opcode::Return)
}

/// Whether the bytes of one lane of a shuffle are one lane of an operand.
pub fn is_one_lane(bytes: &[u8], lane: u32) -> bool {
    bytes[0] < 32 && u32::from(bytes[0]).is_multiple_of(lane) && bytes.windows(2).all(|p| p[1] == p[0].wrapping_add(1))
}
