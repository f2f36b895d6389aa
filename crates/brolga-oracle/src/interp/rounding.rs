//! Rounding sums: sums with large constants, of which it shows later what they are.
//!
//! **Problem.** `x + 1.5·2⁵²` is a whole number. If the constant comes off again, or the bits of
//! the sum are taken for an integer, that was a rounding, whose slope is zero; else it is a sum
//! like others. When the sum is computed nothing tells.
//!
//! **Answer.** A node that is such a sum is recorded as a sum, with its constant ([`Machine::sum`],
//! [`Machine::fused_sum`]). Where an instruction takes the constant off that very node, wherever it
//! has been meanwhile, the result is constant, and so are the bits of the node for integer
//! arithmetic ([`Machine::step_on_sums`]). Setting or clearing the sign is what `fneg` and `fabs`
//! do to a float, and no arithmetic.
//!
//! **Cost.** A look at the constant operand of each sum of active floats. Where there was such a
//! sum, a look at the operands of each integer instruction.

use cranelift_codegen::ir::{self, InstructionData, Opcode, Type, Value, types};

use super::domain::{Domain, NodeId};
use super::machine::{Flow, Machine};
use super::provenance::{Byte, FloatOrigin, Prov};
use super::value::{TrackedVal, float_of, ones};
use crate::error::OracleError;

/// Whether a constant is of the kind that is added to round: 1.5·2ᵏ or 2ᵏ without digits after the
/// point, or with few, and perhaps a small number beside it.
fn is_large(constant: f64, width: u8) -> bool {
    let (digits, least, beside) = if width == 4 { (23, 12, -10) } else { (52, 40, -20) };
    let size = constant.abs();
    let near = |what: f64, k: i32| {
        let room = if width == 4 && k < digits { 0.0 } else { what * 2f64.powi(beside) };
        (0.0..=room).contains(&(size - what))
    };
    let powers = if width == 4 { digits } else { digits - 1 };
    (least..=digits + 2).any(|k| near(1.5 * 2f64.powi(k), k) || k >= powers && near(2f64.powi(k), k))
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
    pub(super) fn sum(&mut self, op: Opcode, ty: Type, args: &[Value]) -> Result<TrackedVal, OracleError> {
        let mut sum = self.float_op(op, ty, args)?;
        if sum.prov.is_clean() {
            return Ok(sum);
        }
        let width = self.float_width(ty)?;
        let [x, y] = [args[0], args[1]].map(|v| self.get(v).clone());
        let mut bytes = sum.prov.bytes();
        for at in (0..ty.bytes() as usize).step_by(width.into()) {
            let number = |v: &TrackedVal| match v.prov.float(at, width) {
                FloatOrigin::Clean => Some(float_of(v.bits >> (8 * at) & ones(8 * u32::from(width)), width))
                    .filter(|&c| is_large(c, width)),
                _ => None,
            };
            let (of, constant, is_subtrahend) = match (number(&x), number(&y)) {
                (_, Some(c)) => (&x, if op == Opcode::Fsub { -c } else { c }, false),
                (Some(c), _) => (&y, c, op == Opcode::Fsub),
                _ => continue,
            };
            let before = match of.prov.float(at, width) {
                FloatOrigin::Node(n) => self.sums.get(&n).copied(),
                _ => None,
            };
            // c - (c - x) takes the constant off, too.
            if before == Some(if is_subtrahend { constant } else { -constant }) {
                bytes[at..at + usize::from(width)].fill(Byte::Clean);
            } else if let FloatOrigin::Node(n) = sum.prov.float(at, width) {
                self.sums.insert(n, constant);
            }
        }
        sum.prov = Prov::new(bytes);
        Ok(sum)
    }

    /// What `fma` adds may be such a constant.
    pub(super) fn fused_sum(&mut self, ty: Type, args: &[Value]) -> Result<TrackedVal, OracleError> {
        let sum = self.float_op(Opcode::Fma, ty, args)?;
        let (width, added) = (self.float_width(ty)?, self.get(args[2]).clone());
        (0..ty.bytes() as usize).step_by(width.into()).for_each(|at| self.note_sum(&sum, &added, width, at));
        Ok(sum)
    }

    /// The float at a byte is the sum of something and what is added there.
    pub(super) fn note_sum(&mut self, sum: &TrackedVal, added: &TrackedVal, width: u8, at: usize) {
        let constant = float_of(added.bits >> (8 * at) & ones(8 * u32::from(width)), width);
        let origins = (added.prov.float(at, width), sum.prov.float(at, width));
        if let (FloatOrigin::Clean, FloatOrigin::Node(n)) = origins
            && is_large(constant, width)
        {
            self.sums.insert(n, constant);
        }
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
