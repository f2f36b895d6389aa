//! Canonical guards: masked products of a derivative that is derived again, in one spelling.
//!
//! **Problem.** Derived code masks a product by a comparison of a factor with zero: a `select`, or
//! a mask of bits, which for a scalar goes through lane 0 of a vector ([`brolga_ir::lower`]).
//! A derivation of that code has to see a guarded product in each of them
//! ([`brolga_analysis::guards::products`]); and its rule gives cotangents to factors where the mask
//! is, though an optimiser may have moved a part of the product to another block.
//!
//! **Answer.** A zero where a factor is equal to zero is a mask where it is not. A mask of a
//! vector's bits as integers, as all are in modules, becomes one of the vector. A scalar mask
//! becomes a `select`. A product that was computed in one lane of a vector is computed by itself.
//! The steps between the factors and the mask are done once more before it, if they stand in
//! another block.
//!
//! ```text
//! v3 = insertlane v2, v1, 0     ; v2 = 0
//! v4 = fcmp ne v3, v2
//! v5 = bitcast.f64x2 v4                       v9 = fcmp ne v1, 0.0
//! v6 = extractlane v5, 0
//! v7 = band v8, v6                            v7 = select v9, v8, 0.0
//! ```
//!
//! **Invariant.** Every float is the number that it was, bit for bit.
//!
//! **Cost.** One pass over the instructions, and [`MOST_STEPS`] steps back from a product in a
//! lane.

use brolga_analysis::guards::products::{MOST_STEPS, form, masked};
use brolga_ir::map::HashMap;
use cranelift_codegen::cursor::Cursor;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, MemFlagsData, Opcode, Type, types};

use crate::primal::edit::before;
use crate::primal::guard_masks::masks;

/// Write them so.
pub(crate) fn guards(func: &mut ir::Function) {
    masks(func);
    let all: Vec<ir::Inst> = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect();
    all.into_iter().for_each(|inst| of_equality(func, inst));
    let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let masks = insts.filter(|&i| matches!(func.dfg.insts[i].opcode(), Opcode::Band | Opcode::Bitselect));
    let masks: Vec<ir::Inst> = masks.collect();
    let of_floats: Vec<ir::Inst> = masks.into_iter().filter(|&inst| of_floats(func, inst)).collect();
    if !of_floats.is_empty() {
        one_name(func);
    }
    let insts = || func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let float = |i: ir::Inst| func.dfg.inst_results(i).first().map(|&z| func.dfg.value_type(z).lane_type().is_float());
    let is_masked = |&i: &ir::Inst| {
        let op = func.dfg.insts[i].opcode();
        matches!(op, Opcode::Band | Opcode::Select | Opcode::Bitselect) && float(i) == Some(true)
    };
    let found: Vec<ir::Inst> = insts().filter(is_masked).collect();
    for &inst in &found {
        scalar(func, inst);
    }
    for inst in found {
        if form(func, inst).is_none() {
            single_lane(func, inst);
        }
        gather(func, inst);
    }
}

/// A zero where a factor is equal to zero, as what is kept where it is not.
fn of_equality(func: &mut ir::Function, inst: ir::Inst) {
    let args = func.dfg.inst_args(inst).to_vec();
    match func.dfg.insts[inst] {
        InstructionData::Ternary { opcode: Opcode::Select | Opcode::Bitselect, .. } if is_zero(func, args[1]) => {
            if let Some(mask) = opposite(func, inst, args[0]) {
                func.dfg.inst_args_mut(inst).copy_from_slice(&[mask, args[2], args[1]]);
            }
        }
        InstructionData::Binary { opcode: Opcode::Band, .. } => {
            for (k, &arg) in args.iter().enumerate() {
                let data = func.dfg.value_def(arg).inst().map(|i| func.dfg.insts[i]);
                let Some(InstructionData::Unary { opcode: Opcode::Bnot, arg }) = data else { continue };
                if let Some(mask) = opposite(func, inst, arg) {
                    func.dfg.inst_args_mut(inst)[k] = mask;
                }
            }
        }
        _ => {}
    }
}

/// The mask that is set where another one is not, which says where a float is equal to zero.
fn opposite(func: &mut ir::Function, at: ir::Inst, mask: ir::Value) -> Option<ir::Value> {
    match func.dfg.insts[func.dfg.value_def(mask).inst()?] {
        InstructionData::FloatCompare { cond: FloatCC::Equal, args: [x, y], .. }
            if is_zero(func, x) || is_zero(func, y) =>
        {
            Some(before(func, at).ins().fcmp(FloatCC::NotEqual, x, y))
        }
        InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } => {
            let (bits, ty) = (opposite(func, at, arg)?, func.dfg.value_type(mask));
            let little = MemFlagsData::new().with_endianness(ir::Endianness::Little);
            Some(before(func, at).ins().bitcast(ty, little, bits))
        }
        _ => None,
    }
}

/// Give the floats that a vector's bits are one name in each block: a mask is about the factor that
/// is multiplied.
fn one_name(func: &mut ir::Function) {
    let blocks: Vec<ir::Block> = func.layout.blocks().collect();
    for block in blocks {
        let mut known: HashMap<(ir::Value, Type), ir::Value> = HashMap::default();
        let insts: Vec<ir::Inst> = func.layout.block_insts(block).collect();
        for inst in insts {
            let InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } = func.dfg.insts[inst] else {
                continue;
            };
            let v = func.dfg.first_result(inst);
            let (arg, ty) = (func.dfg.resolve_aliases(arg), func.dfg.value_type(v));
            if !ty.is_vector() || !ty.lane_type().is_float() {
                continue;
            }
            if let Some(&first) = known.get(&(arg, ty)) {
                func.layout.remove_inst(inst);
                func.dfg.clear_results(inst);
                func.dfg.change_to_alias(v, first);
            } else {
                known.insert((arg, ty), v);
            }
        }
    }
    // Others are asked by the names of their operands.
    func.dfg.resolve_all_aliases();
}

/// A mask of a float vector's bits, as one of the vector; whether it was one of bits.
fn of_floats(func: &mut ir::Function, inst: ir::Inst) -> bool {
    let result = func.dfg.first_result(inst);
    let ty = func.dfg.value_type(result);
    if !ty.is_vector() || ty.lane_type().is_float() {
        return false;
    }
    // Of what float vector these are the bits.
    let float = |func: &ir::Function, v: ir::Value| {
        let inst = func.dfg.value_def(v).inst()?;
        let InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } = func.dfg.insts[inst] else {
            return None;
        };
        let of = func.dfg.value_type(arg);
        (of.is_vector() && of.lane_type().is_float()).then_some((arg, of))
    };
    let (op, args) = (func.dfg.insts[inst].opcode(), func.dfg.inst_args(inst).to_vec());
    let Some((mask, (x, of))) = (match op {
        Opcode::Band => [(0, 1), (1, 0)].into_iter().find_map(|(m, x)| Some((args[m], float(func, args[x])?))),
        _ if is_zero(func, args[2]) => float(func, args[1]).map(|x| (args[0], x)),
        _ => None,
    }) else {
        return false;
    };
    if compared(func, mask) != Some(of) {
        return false;
    }
    let little = MemFlagsData::new().with_endianness(ir::Endianness::Little);
    let mut pos = before(func, inst);
    let mask = pos.ins().bitcast(of, little, mask);
    let masked = pos.ins().band(x, mask);
    let bits = pos.ins().bitcast(ty, little, masked);
    func.layout.remove_inst(inst);
    func.dfg.clear_results(inst);
    func.dfg.change_to_alias(result, bits);
    true
}

/// The vectors whose lanes a mask compares with each other.
fn compared(func: &ir::Function, mask: ir::Value) -> Option<Type> {
    match func.dfg.insts[func.dfg.value_def(mask).inst()?] {
        InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } => compared(func, arg),
        InstructionData::FloatCompare { cond: FloatCC::NotEqual, args, .. } => Some(func.dfg.value_type(args[0])),
        _ => None,
    }
}

/// Whether all bits are zero.
fn is_zero(func: &ir::Function, v: ir::Value) -> bool {
    brolga_analysis::bits::bit_idioms::constant_bytes(func, v).is_some_and(|b| b.iter().all(|&b| b == 0))
}

/// A scalar mask as a `select`.
fn scalar(func: &mut ir::Function, inst: ir::Inst) {
    let InstructionData::Binary { opcode: Opcode::Band, args } = func.dfg.insts[inst] else { return };
    let Some((k, x)) = [0, 1].into_iter().find_map(|k| Some((k, scalar_mask(func, args[k])?))) else { return };
    let (ty, masked_value) = (func.dfg.value_type(args[0]), args[1 - k]);
    let mut pos = before(func, inst);
    let zero = if ty == types::F32 { pos.ins().f32const(0.0) } else { pos.ins().f64const(0.0) };
    let c = pos.ins().fcmp(FloatCC::NotEqual, x, zero);
    func.dfg.insts[inst] = InstructionData::Ternary { opcode: Opcode::Select, args: [c, masked_value, zero] };
}

/// The scalar float of which a scalar mask says that it is not zero.
fn scalar_mask(func: &ir::Function, mask: ir::Value) -> Option<ir::Value> {
    let data = |v| Some(func.dfg.insts[func.dfg.value_def(v).inst()?]);
    let InstructionData::BinaryImm8 { opcode: Opcode::Extractlane, arg, imm: lane } = data(mask)? else { return None };
    let InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } = data(arg)? else { return None };
    let InstructionData::FloatCompare { cond: FloatCC::NotEqual, args, .. } = data(arg)? else { return None };
    let (ty, vector) = (func.dfg.value_type(mask), func.dfg.value_type(args[0]));
    let of = match args.map(|v| is_zero(func, v)) {
        [false, true] => args[0],
        [true, false] => args[1],
        _ => return None,
    };
    if vector.lane_type() != ty {
        return None;
    }
    match data(of)? {
        InstructionData::TernaryImm8 { opcode: Opcode::Insertlane, args, imm } if imm == lane => Some(args[1]),
        InstructionData::Unary { opcode: Opcode::ScalarToVector, arg } if lane == 0 => Some(arg),
        InstructionData::Unary { opcode: Opcode::Splat, arg } => Some(arg),
        _ => None,
    }
}

/// The product of a scalar, where an optimiser has computed it in one lane of a vector: beside it,
/// once more.
fn single_lane(func: &mut ir::Function, inst: ir::Inst) {
    let InstructionData::Ternary { opcode: Opcode::Select, args: [_, masked_value, _] } = func.dfg.insts[inst] else {
        return;
    };
    let Some((g, _)) = masked(func, inst) else { return };
    let mut lanes = Lanes { func, inst, g, left: MOST_STEPS };
    if let Some(alone) = lanes.scalar(masked_value) {
        func.dfg.inst_args_mut(inst)[1] = alone;
    }
}

/// Operations on vectors, done on one lane.
struct Lanes<'a> {
    func: &'a mut ir::Function,
    /// Before which they go.
    inst: ir::Inst,
    /// A scalar that is a name of its own.
    g: ir::Value,
    left: u32,
}

impl Lanes<'_> {
    /// A scalar computed of scalars, if it is now computed of lanes.
    fn scalar(&mut self, v: ir::Value) -> Option<ir::Value> {
        self.left = self.left.checked_sub(1)?;
        let data = self.func.dfg.insts[self.func.dfg.value_def(v).inst().filter(|_| v != self.g)?];
        match data {
            InstructionData::BinaryImm8 { opcode: Opcode::Extractlane, arg, imm } => self.lane(arg, imm),
            InstructionData::Unary { opcode: Opcode::Fneg, .. }
            | InstructionData::Binary { opcode: Opcode::Fmul | Opcode::Fdiv, .. } => {
                let args = self.func.dfg.inst_args(self.func.dfg.value_def(v).inst()?).to_vec();
                let new: Vec<Option<ir::Value>> = args.iter().map(|&a| self.scalar(a)).collect();
                if new.iter().all(Option::is_none) {
                    return None;
                }
                let args: Vec<ir::Value> = new.into_iter().zip(args).map(|(new, old)| new.unwrap_or(old)).collect();
                Some(self.operation(data.opcode(), &args))
            }
            _ => None,
        }
    }

    /// A lane of what is computed lane by lane.
    fn lane(&mut self, v: ir::Value, lane: u8) -> Option<ir::Value> {
        self.left = self.left.checked_sub(1)?;
        let dfg = &self.func.dfg;
        let is_g = dfg.value_def(self.g).inst().map(|i| dfg.insts[i]);
        if is_g == Some(InstructionData::BinaryImm8 { opcode: Opcode::Extractlane, arg: v, imm: lane }) {
            return Some(self.g);
        }
        let inst = dfg.value_def(v).inst()?;
        match dfg.insts[inst] {
            InstructionData::Unary { opcode: Opcode::Splat, arg } => Some(arg),
            InstructionData::Unary { opcode: Opcode::ScalarToVector, arg } if lane == 0 => Some(arg),
            InstructionData::TernaryImm8 { opcode: Opcode::Insertlane, args: [_, x], imm } if imm == lane => Some(x),
            InstructionData::TernaryImm8 { opcode: Opcode::Insertlane, args: [of, _], .. } => self.lane(of, lane),
            InstructionData::Unary { opcode: op @ Opcode::Fneg, .. }
            | InstructionData::Binary { opcode: op @ (Opcode::Fmul | Opcode::Fdiv), .. } => {
                let args = dfg.inst_args(inst).to_vec();
                let args: Vec<ir::Value> = args
                    .into_iter()
                    .map(|a| {
                        self.lane(a, lane).unwrap_or_else(|| before(self.func, self.inst).ins().extractlane(a, lane))
                    })
                    .collect();
                Some(self.operation(op, &args))
            }
            _ => None,
        }
    }

    fn operation(&mut self, op: Opcode, args: &[ir::Value]) -> ir::Value {
        let mut pos = before(self.func, self.inst);
        match op {
            Opcode::Fneg => pos.ins().fneg(args[0]),
            Opcode::Fmul => pos.ins().fmul(args[0], args[1]),
            _ => pos.ins().fdiv(args[0], args[1]),
        }
    }
}

/// The steps of a guarded product in the block of its mask.
fn gather(func: &mut ir::Function, inst: ir::Inst) {
    let Some(product) = form(func, inst) else { return };
    let here = func.layout.inst_block(inst);
    if product.steps.iter().all(|&i| func.layout.inst_block(i) == here) {
        return;
    }
    let mut copies: HashMap<ir::Value, ir::Value> = HashMap::default();
    // The last step is the one that is masked.
    for &step in &product.steps {
        let data = func.dfg.insts[step];
        let old = func.dfg.first_result(step);
        let ty = func.dfg.ctrl_typevar(step);
        let new = func.dfg.make_inst(data);
        func.dfg.make_inst_results(new, ty);
        before(func, inst).insert_inst(new);
        let args = func.dfg.inst_args_mut(new);
        args.iter_mut().for_each(|a| *a = copies.get(a).copied().unwrap_or(*a));
        copies.insert(old, func.dfg.first_result(new));
    }
    for arg in func.dfg.inst_args_mut(inst) {
        *arg = copies.get(arg).copied().unwrap_or(*arg);
    }
}
