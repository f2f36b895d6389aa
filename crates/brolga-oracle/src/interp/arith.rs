//! Arithmetic of the interpreter, lane by lane: values from the pure functions of `int.rs` and
//! `float.rs`, and what follows for provenance.
//!
//! **Question.** What does an arithmetic instruction compute, and of which floats is the result?
//!
//! **Answer.** Float operations tell the domain ([`Machine::record`]). Integer operations on active
//! bits give mixed bytes, but for these:
//!
//! | operation | result |
//! |---|---|
//! | a sum in which each byte of one side is a constant zero | bytes put together, as by `bor` |
//! | a constant added to all bits of a float | a float again, so many units away |
//! | all bits of a float divided by a small constant | a float whose last bit counts for less |
//! | digits of a float and a constant | digits of it |
//!
//! The second and the third are by [`Machine::stepped_to`], which also serves masks that give a
//! float another exponent ([`Machine::mask`]). Comparisons, conversions to integers and tests give
//! clean results: they are locally constant. A float made from an integer that was computed from a
//! mantissa is not followed.
//!
//! **Errors.** Types that have no arithmetic here are not supported; divisions and conversions trap
//! as compiled code does.
//!
//! **Cost.** For each lane one evaluation; a node for each float result that has an active operand,
//! two for a step of bits.

use cranelift_codegen::ir::{self, InstructionData, Opcode, TrapCode, Type, Value};
use smallvec::SmallVec;

use super::domain::{Domain, NodeId};
use super::machine::{FloatStep, Machine};
use super::moves::Mask;
use super::provenance::{Byte, FloatOrigin, Prov, mantissa, write_float};
use super::value::{TrackedVal, bits_of, collect, float_of, lane, lanes, ones, sext};
use super::{float, int};
use crate::error::OracleError;
use crate::real::Real;

/// The slopes of up to three operands.
pub(super) type Slopes<N> = [Option<N>; 3];

/// Digits of one float and a constant, as digits of it.
fn digits_and_number(n: usize, x: &TrackedVal, y: &TrackedVal) -> Option<Prov> {
    let digits = if y.prov.is_clean() { x } else { y };
    let bytes = digits.prov.bytes();
    let first = bytes.iter().find(|b| **b != Byte::Clean)?;
    let all = matches!(first, Byte::Digits(_)) && bytes.iter().all(|b| b == first || *b == Byte::Clean);
    let mut out = [Byte::Clean; 16];
    out[..n].fill(*first);
    (all && (x.prov.is_clean() || y.prov.is_clean())).then(|| Prov::new(out))
}

impl<D: Domain> Machine<'_, D> {
    /// The width in bytes of the float lanes of `ty`, if arithmetic is supported there.
    pub(super) fn float_width(&self, ty: Type) -> Result<u8, OracleError> {
        match ty.lane_bits() {
            b @ (32 | 64) if ty.lane_type().is_float() => Ok((b / 8) as u8),
            _ => Err(self.unsupported(format!("arithmetic on {ty}"))),
        }
    }

    /// Record a float result of `value`, made from `operands`: where each comes from, and its
    /// value. `slopes` is asked only if an operand is active. Gives the node, unless the result is
    /// constant.
    pub(super) fn record(
        &mut self,
        value: f64,
        operands: &[(FloatOrigin, f64)],
        slopes: impl FnOnce([D::Num; 3]) -> Slopes<D::Num>,
    ) -> Option<NodeId> {
        if !D::TRACKS || operands.iter().all(|(o, _)| *o == FloatOrigin::Clean) {
            return None;
        }
        let mut nodes = [None; 3];
        let mut nums = [D::Num::constant(0.0); 3];
        for (i, &(origin, x)) in operands.iter().enumerate() {
            nodes[i] = self.node_of(origin, x);
            nums[i] = nodes[i].map_or(D::Num::constant(x), |n| self.domain.value(n));
        }
        let prev: SmallVec<[(NodeId, D::Num); 3]> =
            nodes.into_iter().zip(slopes(nums)).filter_map(|(n, s)| Some((n?, s?))).collect();
        // A derivative that is zero by its nature ends here.
        (!prev.is_empty()).then(|| self.domain.float(value, &prev, self.site()))
    }

    /// An opcode of `float.rs`.
    pub(super) fn float_op(&mut self, op: Opcode, ty: Type, args: &[Value]) -> Result<TrackedVal, OracleError> {
        let width = self.float_width(ty)?;
        let n = u32::from(width) * 8;
        let vals: [TrackedVal; 3] =
            std::array::from_fn(|k| args.get(k).map_or_else(TrackedVal::default, |&a| self.get(a).clone()));
        let mut bits = 0;
        let mut bytes = [Byte::Clean; 16];
        for i in 0..ty.lane_count() {
            let mut x = [0; 3];
            let mut operands = [(FloatOrigin::Clean, 0.0); 3];
            let at = i as usize * width as usize;
            for (k, v) in vals.iter().enumerate().take(args.len()) {
                x[k] = lane(v.bits, n, i);
                operands[k] = (v.prov.float(at, width), float_of(x[k], width));
            }
            self.nan_sign |= op == Opcode::Fcopysign && float_of(x[1], width).is_nan();
            let y = float::eval(op, width, x).ok_or_else(|| self.unsupported(op.to_string()))?;
            bits |= y << (n * i);
            let value = float_of(y, width);
            if let Some(node) = self.record(value, &operands[..args.len()], |x| float::slopes(op, x, value)) {
                if op == Opcode::Sqrt {
                    self.domain.root(node);
                }
                write_float(&mut bytes, at, node, width);
            }
        }
        Ok(TrackedVal { bits, prov: Prov::new(bytes) })
    }

    /// `fpromote`, `fdemote`, `fvdemote`, `fvpromote_low`: as many lanes as both types have, the
    /// rest is zero.
    pub(super) fn resize_float(&mut self, from: Type, to: Type, arg: Value) -> Result<TrackedVal, OracleError> {
        let (w, v) = (self.float_width(from)?, self.float_width(to)?);
        let arg = self.get(arg).clone();
        let mut bits = 0;
        let mut bytes = [Byte::Clean; 16];
        for i in 0..from.lane_count().min(to.lane_count()) {
            let x = float_of(lane(arg.bits, u32::from(w) * 8, i), w);
            bits |= bits_of(x, v) << (u32::from(v) * 8 * i);
            let origin = arg.prov.float(i as usize * w as usize, w);
            let y = float_of(bits_of(x, v), v);
            if let Some(node) = self.record(y, &[(origin, x)], |_| [Some(D::Num::constant(1.0)), None, None]) {
                write_float(&mut bytes, i as usize * v as usize, node, v);
            }
        }
        Ok(TrackedVal { bits, prov: Prov::new(bytes) })
    }

    /// `fcvt_from_sint`, `fcvt_from_uint`. An integer that was computed from the mantissa of an
    /// active float is not followed.
    pub(super) fn int_to_float(
        &mut self,
        from: Type,
        to: Type,
        arg: Value,
        signed: bool,
    ) -> Result<TrackedVal, OracleError> {
        let width = self.float_width(to)?;
        let arg = self.get(arg).clone();
        let (n, m) = (from.lane_bits(), u32::from(width) * 8);
        let mut bits = 0;
        let mut bytes = [Byte::Clean; 16];
        let known = arg.prov.bytes();
        for i in 0..to.lane_count() {
            let x = lane(arg.bits, n, i);
            let y: u128 = match (width, signed) {
                (4, true) => (sext(x, n) as f32).to_bits().into(),
                (4, false) => (x as f32).to_bits().into(),
                (_, true) => (sext(x, n) as f64).to_bits().into(),
                (_, false) => (x as f64).to_bits().into(),
            };
            bits |= y << (m * i);
            let field = &known[(i * n / 8) as usize..((i + 1) * n / 8) as usize];
            if field.iter().any(|b| mantissa(*b) != 0) {
                let origin = field.iter().find_map(|b| if let Byte::Mixed(o) = b { Some(*o) } else { None });
                if let Some(node) = self.node_of(FloatOrigin::Untracked(origin), float_of(y, width)) {
                    write_float(&mut bytes, i as usize * width as usize, node, width);
                }
            }
        }
        Ok(TrackedVal { bits, prov: Prov::new(bytes) })
    }

    /// Conversions of floats to integers.
    pub(super) fn float_to_int(
        &mut self,
        op: Opcode,
        from: Type,
        to: Type,
        arg: Value,
    ) -> Result<TrackedVal, OracleError> {
        let width = self.float_width(from)?;
        let n = to.lane_bits();
        let x = self.bits(arg);
        let signed = matches!(op, Opcode::FcvtToSint | Opcode::FcvtToSintSat | Opcode::X86Cvtt2dq);
        let mut out = SmallVec::<[u128; 4]>::new();
        for x in lanes(from, x) {
            let x = float_of(x, width);
            out.push(match op {
                Opcode::FcvtToSintSat | Opcode::FcvtToUintSat => float::to_int_sat(x, n, signed),
                _ => match float::to_int(x, n, signed) {
                    float::IntConversion::Value(v) => v,
                    _ if op == Opcode::X86Cvtt2dq => 1 << (n - 1),
                    float::IntConversion::Nan => return Err(self.trap(TrapCode::BAD_CONVERSION_TO_INTEGER)),
                    float::IntConversion::Overflow => return Err(self.trap(TrapCode::INTEGER_OVERFLOW)),
                },
            });
        }
        Ok(TrackedVal::clean(collect(n, out)))
    }

    /// `icmp` and `fcmp`: 0 or 1 for scalars, lane masks for vectors.
    pub(super) fn compare(&mut self, data: &InstructionData, from: Type, to: Type) -> Result<TrackedVal, OracleError> {
        let n = from.lane_bits();
        match *data {
            InstructionData::IntCompare { args, cond, .. } => {
                Ok(self.flags(args, from, to, |x, y| int::compare(cond, n, x, y)))
            }
            InstructionData::FloatCompare { args, cond, .. } => {
                let width = self.float_width(from)?;
                Ok(self.flags(args, from, to, |x, y| float::compare(cond, width, x, y)))
            }
            _ => unreachable!("format of a comparison"),
        }
    }

    /// In each lane, whether the lanes of both operands are so.
    fn flags(&self, args: [Value; 2], from: Type, to: Type, holds: impl Fn(u128, u128) -> bool) -> TrackedVal {
        let yes = if from.is_vector() { ones(from.lane_bits()) } else { 1 };
        let (x, y) = (self.bits(args[0]), self.bits(args[1]));
        let flags = lanes(from, x).zip(lanes(from, y)).map(|(x, y)| if holds(x, y) { yes } else { 0 });
        TrackedVal::clean(collect(to.lane_bits(), flags))
    }

    /// Integer operations of one operand.
    pub(super) fn int_unary(&mut self, op: Opcode, ty: Type, arg: Value) -> Result<TrackedVal, OracleError> {
        let arg = self.get(arg).clone();
        let n = ty.lane_bits();
        let out: Result<SmallVec<[u128; 16]>, _> = lanes(ty, arg.bits).map(|x| int::unary(op, n, x)).collect();
        let bits = collect(n, out.map_err(|f| self.int_fault(f))?);
        Ok(TrackedVal { bits, prov: self.mix(ty.bytes() as usize, [&arg]) })
    }

    /// Integer operations of two operands.
    pub(super) fn int_binary(&mut self, op: Opcode, ty: Type, x: Value, y: Value) -> Result<TrackedVal, OracleError> {
        let (x, y) = (self.get(x).clone(), self.get(y).clone());
        let bits = self.int_binary_bits(op, ty, x.bits, y.bits)?;
        let prov = self.int_binary_prov(op, ty, &x, &y);
        Ok(TrackedVal { bits, prov })
    }

    fn int_binary_bits(&self, op: Opcode, ty: Type, x: u128, y: u128) -> Result<u128, OracleError> {
        let n = ty.lane_bits();
        let out: Result<SmallVec<[u128; 16]>, _> =
            lanes(ty, x).zip(lanes(ty, y)).map(|(x, y)| int::binary(op, n, x, y)).collect();
        Ok(collect(n, out.map_err(|f| self.int_fault(f))?))
    }

    /// Provenance of `op(x, y)`.
    pub(super) fn int_binary_prov(&mut self, op: Opcode, ty: Type, x: &TrackedVal, y: &TrackedVal) -> Prov {
        let n = ty.bytes() as usize;
        let is_zero = |v: &TrackedVal| v.prov.is_clean() && v.bits == 0;
        match op {
            _ if x.prov.is_clean() && y.prov.is_clean() => Prov::Clean,
            Opcode::Iadd | Opcode::Isub if is_zero(y) => x.prov.clone(),
            Opcode::Iadd if disjoint(x, y) => self.mask(Mask::Or, n, x, y),
            Opcode::Udiv | Opcode::Sdiv if !ty.is_vector() && y.prov.is_clean() && (2..256).contains(&y.bits) => {
                let quotient = int::binary(op, n as u32 * 8, x.bits, y.bits).ok();
                let by = y.bits;
                let prov = quotient.and_then(|q| self.divided(n, x, by, q).or_else(|| self.upper_divided(n, x, by, q)));
                prov.unwrap_or_else(|| self.mix(n, [x, y]))
            }
            Opcode::Iadd if let Some(digits) = digits_and_number(n, x, y) => digits,
            Opcode::Iadd | Opcode::Isub if !ty.is_vector() => {
                match self.shifted(op, n, x, y).or_else(|| self.upper_plus(op, n, x, y)) {
                    Some(prov) => prov,
                    None => self.mix(n, [x, y]),
                }
            }
            _ => self.mix(n, [x, y]),
        }
    }

    /// A constant added to all bits of a float. Between two floats of one sign lie as many units in
    /// the last place as between their bits, so the sum is a float that moves by its own unit where
    /// the operand moves by its.
    fn shifted(&mut self, op: Opcode, n: usize, x: &TrackedVal, y: &TrackedVal) -> Option<Prov> {
        let width = u8::try_from(n).ok().filter(|w| matches!(w, 4 | 8))?;
        let is_float = |v: &TrackedVal| matches!(v.prov, Prov::Float { .. });
        let (float, other) = if is_float(x) { (x, y) } else { (y, x) };
        let FloatOrigin::Node(node) = float.prov.float(0, width) else { return None };
        let last = |b: &Byte| match *b {
            Byte::Clean => true,
            Byte::Digits(of) => (op == Opcode::Iadd || is_float(x)) && self.digits_of(of) == self.digits_of(node),
            _ => false,
        };
        if !other.prov.bytes().iter().all(last) || float.prov != (Prov::Float { node, width }) {
            return None;
        }
        let sum = int::binary(op, n as u32 * 8, x.bits, y.bits).ok()?;
        let backwards = op == Opcode::Isub && y.prov == float.prov;
        let counts = if backwards { -1.0 } else { 1.0 };
        let node = self.stepped_to(FloatStep { node, before: float.bits, counts }, sum, width)?;
        Some(Prov::Float { node, width })
    }

    /// The bits of a float, divided by a number, as one with a sign or without: the last of them
    /// counts for less.
    pub(super) fn divided(&mut self, n: usize, x: &TrackedVal, by: u128, quotient: u128) -> Option<Prov> {
        let width = u8::try_from(n).ok().filter(|w| matches!(w, 4 | 8))?;
        let Prov::Float { node, width: w } = x.prov else { return None };
        let from = FloatStep { node, before: x.bits, counts: 1.0 / by as f64 };
        let node = (w == width).then(|| self.stepped_to(from, quotient, width))??;
        Some(Prov::Float { node, width })
    }

    /// The float with the bits `after`, which are those of another plus a number. Several such
    /// steps are one: the floats in between may be of any size, and a slope that is no number.
    pub(super) fn stepped_to(&mut self, last: FloatStep, after: u128, width: u8) -> Option<NodeId> {
        let from = match self.stepped.get(&last.node) {
            Some(&first) => FloatStep { counts: first.counts * last.counts, ..first },
            None => last,
        };
        let FloatStep { node, before, counts } = from;
        if after == before && counts == 1.0 {
            return Some(node);
        }
        let (x, y) = (unit(before, width), unit(after, width));
        // `nextafter` has slope one, also from a power of two to the float below.
        let next = after.abs_diff(before) == 1;
        let exponent = if next { 0 } else { y.1 - x.1 };
        let sign = if y.0 == x.0 { counts } else { -counts };
        // A power of two that is no number is two of them.
        let first = 2f64.powi(exponent / 2);
        let second = sign * 2f64.powi(exponent - exponent / 2);
        let slope = |s: f64| [Some(D::Num::constant(s)), None, None];
        let half = self.record(float_of(before, width) * first, &[(FloatOrigin::Node(node), 0.0)], |_| slope(first))?;
        let node = self.record(float_of(after, width), &[(FloatOrigin::Node(half), 0.0)], |_| slope(second))?;
        self.stepped.insert(node, from);
        self.same_digits(node, from.node);
        Some(node)
    }

    /// The last digits of a float are those of another, or were.
    pub(super) fn same_digits(&mut self, node: NodeId, of: NodeId) {
        self.same_digits.insert(node, self.digits_of(of));
    }

    /// The first float with the last digits of this one.
    fn digits_of(&self, node: NodeId) -> NodeId {
        self.same_digits.get(&node).copied().unwrap_or(node)
    }

    /// Arithmetic with overflow; the third operand, if any, is the carry.
    pub(super) fn overflowing(
        &mut self,
        op: Opcode,
        ty: Type,
        args: &[Value],
    ) -> Result<(TrackedVal, bool), OracleError> {
        let (x, y) = (self.get(args[0]).clone(), self.get(args[1]).clone());
        let carry = args.get(2).is_some_and(|&c| self.bits(c) != 0);
        let (bits, overflow) = int::overflowing(op, ty.bits(), x.bits, y.bits, carry).map_err(|f| self.int_fault(f))?;
        Ok((TrackedVal { bits, prov: self.mix(ty.bytes() as usize, [&x, &y]) }, overflow))
    }

    /// Operations that change the width of lanes.
    pub(super) fn reshape_lanes(
        &mut self,
        op: Opcode,
        from: Type,
        to: Type,
        args: &[Value],
    ) -> Result<TrackedVal, OracleError> {
        let vals: SmallVec<[TrackedVal; 2]> = args.iter().map(|&a| self.get(a).clone()).collect();
        let (n, m) = (from.lane_bits(), to.lane_bits());
        let all: SmallVec<[u128; 32]> = vals.iter().flat_map(|v| lanes(from, v.bits)).collect();
        let half = from.lane_count() as usize / 2;
        let sx = |x: u128| sext(x, n);
        let out: SmallVec<[u128; 16]> = match op {
            Opcode::Snarrow => all.iter().map(|&x| int::saturate_signed(sx(x), m)).collect(),
            Opcode::Unarrow => all.iter().map(|&x| int::saturate_unsigned(sx(x), m)).collect(),
            Opcode::Uunarrow => all.iter().map(|&x| x.min(ones(m))).collect(),
            Opcode::SwidenLow => all[..half].iter().map(|&x| sx(x) as u128).collect(),
            Opcode::SwidenHigh => all[half..].iter().map(|&x| sx(x) as u128).collect(),
            Opcode::UwidenLow => all[..half].iter().copied().collect(),
            Opcode::UwidenHigh => all[half..].iter().copied().collect(),
            Opcode::IaddPairwise => all.chunks(2).map(|p| p[0].wrapping_add(p[1])).collect(),
            Opcode::X86Pmaddubsw => {
                let products: SmallVec<[i128; 16]> =
                    lanes(from, vals[0].bits).zip(lanes(from, vals[1].bits)).map(|(x, y)| sx(x) * y as i128).collect();
                products.chunks(2).map(|p| int::saturate_signed(p[0] + p[1], m)).collect()
            }
            _ => return Err(self.unsupported(op.to_string())),
        };
        let (narrow, wide) = ((n / 8) as usize, (m / 8) as usize);
        let widened =
            |first: usize| move |b: usize| (b % wide < narrow).then(|| (first + b / wide) * narrow + b % wide);
        let prov = match op {
            Opcode::UwidenLow => vals[0].prov.gather(16, widened(0)),
            Opcode::UwidenHigh => vals[0].prov.gather(16, widened(half)),
            _ => self.mix(to.bytes() as usize, &vals),
        };
        Ok(TrackedVal { bits: collect(m, out), prov })
    }

    /// `vany_true`, `vall_true`, `vhigh_bits`.
    pub(super) fn lane_summary(&mut self, op: Opcode, from: Type, arg: Value) -> TrackedVal {
        let n = from.lane_bits();
        let mut all = lanes(from, self.bits(arg));
        TrackedVal::clean(match op {
            Opcode::VanyTrue => all.any(|x| x != 0).into(),
            Opcode::VallTrue => all.all(|x| x != 0).into(),
            _ => collect(1, all.map(|x| x >> (n - 1))),
        })
    }
}

/// Whether a float is negative, and the exponent of its unit in the last place, counted from that
/// of the smallest.
fn unit(bits: u128, width: u8) -> (bool, i32) {
    let (mantissa, exponent) = if width == 4 { (23, 8) } else { (52, 11) };
    let field = ((bits >> mantissa) & ones(exponent)) as i32;
    (bits >> (mantissa + exponent) & 1 == 1, (field - 1).max(0))
}

/// Whether at every byte one of the values is a constant zero.
fn disjoint(x: &TrackedVal, y: &TrackedVal) -> bool {
    let (bx, by) = (x.prov.bytes(), y.prov.bytes());
    let (vx, vy) = (x.bits.to_le_bytes(), y.bits.to_le_bytes());
    (0..16).all(|i| bx[i] == Byte::Clean && vx[i] == 0 || by[i] == Byte::Clean && vy[i] == 0)
}

/// What an atomic read-modify-write does as an integer operation, if it is one.
pub(super) fn rmw_opcode(op: ir::AtomicRmwOp) -> Option<Opcode> {
    use ir::AtomicRmwOp::*;
    Some(match op {
        Add => Opcode::Iadd,
        Sub => Opcode::Isub,
        And => Opcode::Band,
        Or => Opcode::Bor,
        Xor => Opcode::Bxor,
        Umin => Opcode::Umin,
        Umax => Opcode::Umax,
        Smin => Opcode::Smin,
        Smax => Opcode::Smax,
        Nand | Xchg => return None,
    })
}
