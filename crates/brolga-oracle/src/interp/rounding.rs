//! Rounding sums: sums with large constants, of which it shows later what they are.
//!
//! `x + 1.5·2⁵²` is a whole number. If the constant comes off again, or the bits of the sum are
//! taken for an integer, that was a rounding, whose slope is zero; else it is a sum like others. So
//! a node that is such a sum is recorded as a sum, with its constant. Where an instruction takes
//! the constant off that very node, wherever it has been meanwhile, the result is constant, and so
//! are the bits of the node for integer arithmetic. Setting or clearing the sign is what `fneg` and
//! `fabs` do to a float, and no arithmetic.

use cranelift_codegen::ir::{self, InstructionData, Opcode, Type, Value, types};

use super::domain::{Domain, NodeId};
use super::machine::{Flow, Machine};
use super::provenance::{Byte, FloatOrigin, Prov};
use super::value::{TrackedVal, float_of};
use crate::error::OracleError;

/// Whether a constant is so large that a sum with it has no digits behind the point, or few, and
/// nothing else is meant by it.
fn is_large(constant: f64, width: u8) -> bool {
    let (whole, least) = if width == 4 { (23, 12) } else { (52, 40) };
    let size = constant.abs();
    let halfway = (least..=whole).any(|k| size == 1.5 * 2f64.powi(k));
    halfway || size >= 2f64.powi(whole) && size < 2f64.powi(whole + 1)
}

/// The float that a value is in all lanes by its instruction.
fn literal(dfg: &ir::DataFlowGraph, v: Value) -> Option<f64> {
    let ty = dfg.value_type(v).lane_type();
    match dfg.insts[dfg.value_def(dfg.resolve_aliases(v)).inst()?] {
        InstructionData::UnaryIeee32 { imm, .. } => Some(float_of(imm.bits().into(), 4)),
        InstructionData::UnaryIeee64 { imm, .. } => Some(float_of(imm.bits().into(), 8)),
        InstructionData::Unary { opcode: Opcode::Splat, arg } => literal(dfg, arg),
        InstructionData::UnaryConst { opcode: Opcode::Vconst, constant_handle } => {
            in_lanes(dfg.constants.get(constant_handle).as_slice(), ty.bytes())
        }
        // Lanes of another kind that were cast.
        InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, mut arg, .. } => loop {
            match dfg.insts[dfg.value_def(dfg.resolve_aliases(arg)).inst()?] {
                InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg: from, .. } => arg = from,
                InstructionData::UnaryConst { constant_handle, .. } => {
                    break in_lanes(dfg.constants.get(constant_handle).as_slice(), ty.bytes());
                }
                _ => break None,
            }
        },
        _ => None,
    }
}

/// The float that stands in all lanes of so many bytes.
fn in_lanes(bytes: &[u8], width: u32) -> Option<f64> {
    let mut lanes = bytes.chunks(width as usize).map(|lane| {
        let bits = lane.iter().rev().fold(0, |bits, &byte| bits << 8 | u128::from(byte));
        float_of(bits, width as u8)
    });
    let first = lanes.next()?;
    lanes.all(|lane| lane.to_bits() == first.to_bits()).then_some(first)
}

/// Whether an instruction takes its operands for integers. What only moves bits does not.
fn is_arithmetic(dfg: &ir::DataFlowGraph, inst: ir::Inst) -> bool {
    use Opcode::*;
    let op = dfg.insts[inst].opcode();
    let args = dfg.inst_args(inst);
    let sets_sign = || {
        let constant = args.iter().find_map(|&v| match dfg.insts[dfg.value_def(dfg.resolve_aliases(v)).inst()?] {
            InstructionData::UnaryImm { imm, .. } => Some(imm.bits()),
            _ => None,
        });
        let ty = dfg.value_type(args[0]);
        let sign = match ty {
            types::I64 => i64::MIN,
            types::I32 => 1 << 31,
            _ => return false,
        };
        let all = if ty == types::I32 { 0xffff_ffff } else { -1 };
        constant.is_some_and(|k| k & all == if op == Band { all ^ sign } else { sign })
    };
    match op {
        Band | Bor | Bxor => !sets_sign(),
        Ineg | Iabs | Clz | Cls | Ctz | Popcnt | Iadd | Isub | Imul | Umulhi | Smulhi | Smin | Smax | Umin | Umax
        | AvgRound | UaddSat | SaddSat | UsubSat | SsubSat | SqmulRoundSat | Udiv | Urem | Sdiv | Srem
        | UaddOverflow | SaddOverflow | UsubOverflow | SsubOverflow | UmulOverflow | SmulOverflow | SaddOverflowCin
        | UaddOverflowCin | SsubOverflowBin | UsubOverflowBin | UaddOverflowTrap | Bnot | Ishl | Ushr | Sshr | Rotl
        | Rotr | Bitrev | Bswap | Uextend | Sextend | Ireduce | FcvtFromSint | FcvtFromUint => true,
        _ => false,
    }
}

impl<D: Domain> Machine<'_, D> {
    /// `fadd` or `fsub`.
    pub(super) fn sum(
        &mut self,
        dfg: &ir::DataFlowGraph,
        op: Opcode,
        ty: Type,
        args: &[Value],
    ) -> Result<TrackedVal, OracleError> {
        let mut sum = self.float_op(op, ty, args)?;
        let constant = [1, 0].into_iter().find_map(|k| Some((k, literal(dfg, args[k])?)));
        let Some((k, constant)) = constant.filter(|_| !sum.prov.is_clean()) else { return Ok(sum) };
        let width = self.float_width(ty)?;
        if !is_large(constant, width) {
            return Ok(sum);
        }
        let turned = op == Opcode::Fsub && k == 0;
        let added = if op == Opcode::Fsub && k == 1 { -constant } else { constant };
        let of = self.get(args[1 - k]).prov.clone();
        let mut bytes = sum.prov.bytes();
        for at in (0..ty.bytes() as usize).step_by(width.into()) {
            let before = match of.float(at, width) {
                FloatOrigin::Node(n) => self.sums.get(&n).copied(),
                _ => None,
            };
            if before == Some(if turned { constant } else { -added }) {
                bytes[at..at + usize::from(width)].fill(Byte::Clean);
            } else if let (FloatOrigin::Node(n), false) = (sum.prov.float(at, width), turned) {
                self.sums.insert(n, added);
            }
        }
        sum.prov = Prov::new(bytes);
        Ok(sum)
    }

    fn is_sum(&self, b: Byte) -> bool {
        let of = |n: NodeId| self.sums.contains_key(&n);
        matches!(b, Byte::Part { node, .. } | Byte::Upper { node, .. } if of(node))
    }

    /// Execute an instruction, for which the bits of such sums are constants if it calculates with
    /// them.
    ///
    /// # Safety
    ///
    /// As for [`Machine::step`].
    pub(super) unsafe fn step_on_sums(&mut self, body: &ir::Function, inst: ir::Inst) -> Result<Flow, OracleError> {
        let mut held = Vec::new();
        if !self.sums.is_empty() && is_arithmetic(&body.dfg, inst) {
            for &v in body.dfg.inst_args(inst) {
                let prov = self.get(v).prov.clone();
                let bytes = prov.bytes();
                if bytes.iter().any(|&b| self.is_sum(b)) {
                    let hidden = bytes.map(|b| if self.is_sum(b) { Byte::Clean } else { b });
                    self.come_from(v, Prov::new(hidden));
                    held.push((v, prov));
                }
            }
        }
        // SAFETY: promised by the caller.
        let flow = unsafe { self.step(body, inst) };
        for (v, prov) in held {
            self.come_from(v, prov);
        }
        flow
    }
}
