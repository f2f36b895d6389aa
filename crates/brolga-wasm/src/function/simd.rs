//! Operators on 128-bit vectors.
//!
//! **Question.** Wasm has one vector type, CLIF one for each shape of lanes. Which of them does a
//! value have?
//!
//! **Answer.** A vector keeps the type that it was computed in until an operator wants another; in
//! locals, at block parameters and where it is loaded it is `i8x16`. The casts are between equal
//! bits, so a cotangent of floats goes through them.
//!
//! **Cost.** One instruction for most operators, and a cast, which costs nothing at run time, where
//! the type changes.

use brolga::cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use brolga::cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use wasmparser::{MemArg, Operator};

use super::func::Fx;
use super::ops::little;
use crate::error::Error;

use types::{F32X4, F64X2, I8X16, I16X8, I32, I32X4, I64X2};

impl Fx<'_, '_, '_, '_> {
    /// A vector seen as lanes of another type.
    pub(crate) fn as_vector(&mut self, v: Value, ty: Type) -> Value {
        if self.b.func.dfg.value_type(v) == ty { v } else { self.b.ins().bitcast(ty, little(), v) }
    }

    fn popv(&mut self, ty: Type) -> Value {
        let v = self.pop();
        self.as_vector(v, ty)
    }

    fn popv2(&mut self, ty: Type) -> (Value, Value) {
        let y = self.popv(ty);
        (self.popv(ty), y)
    }

    fn vunary(&mut self, ty: Type, f: impl FnOnce(&mut Self, Value) -> Value) -> bool {
        let x = self.popv(ty);
        let z = f(self, x);
        self.push(z);
        true
    }

    fn vbinary(&mut self, ty: Type, f: impl FnOnce(&mut Self, Value, Value) -> Value) -> bool {
        let (x, y) = self.popv2(ty);
        let z = f(self, x, y);
        self.push(z);
        true
    }

    fn vicmp(&mut self, ty: Type, cc: IntCC) -> bool {
        self.vbinary(ty, |fx, x, y| fx.b.ins().icmp(cc, x, y))
    }

    fn vfcmp(&mut self, ty: Type, cc: FloatCC) -> bool {
        self.vbinary(ty, |fx, x, y| fx.b.ins().fcmp(cc, x, y))
    }

    /// `second` where the comparison of the lanes holds, `first` elsewhere: not C's `fmin`, but
    /// what `a < b ? a : b` is.
    fn pseudo(&mut self, ty: Type, smaller: bool) -> bool {
        self.vbinary(ty, |fx, a, b| {
            let (x, y) = if smaller { (b, a) } else { (a, b) };
            let c = fx.b.ins().fcmp(FloatCC::LessThan, x, y);
            let c = fx.b.ins().bitcast(ty, MemFlagsData::new(), c);
            fx.b.ins().bitselect(c, b, a)
        })
    }

    fn vshift(&mut self, ty: Type, f: impl FnOnce(&mut Self, Value, Value) -> Value) -> bool {
        let n = self.pop();
        let x = self.popv(ty);
        let z = f(self, x, n);
        self.push(z);
        true
    }

    fn splat(&mut self, ty: Type) -> bool {
        let x = self.pop();
        let x = self.lane_value(x, ty);
        let z = self.b.ins().splat(ty, x);
        self.push(z);
        true
    }

    /// A scalar as wide as the lanes of `ty`.
    fn lane_value(&mut self, x: Value, ty: Type) -> Value {
        let lane = ty.lane_type();
        if lane.is_int() && lane.bits() < 32 { self.b.ins().ireduce(lane, x) } else { x }
    }

    fn extract(&mut self, ty: Type, lane: u8, extend: Option<bool>) -> bool {
        self.vunary(ty, |fx, x| {
            let v = fx.b.ins().extractlane(x, lane);
            match extend {
                None => v,
                Some(true) => fx.b.ins().sextend(I32, v),
                Some(false) => fx.b.ins().uextend(I32, v),
            }
        })
    }

    fn replace(&mut self, ty: Type, lane: u8) -> bool {
        let x = self.pop();
        let x = self.lane_value(x, ty);
        let v = self.popv(ty);
        let z = self.b.ins().insertlane(v, x, lane);
        self.push(z);
        true
    }

    fn load_splat(&mut self, m: &MemArg, ty: Type) -> bool {
        let lane = ty.lane_type();
        let (p, off) = self.address(m, lane.bytes().into());
        let x = self.b.ins().load(lane, little(), p, off);
        let v = self.b.ins().splat(ty, x);
        self.push(v);
        true
    }

    fn load_zero(&mut self, m: &MemArg, ty: Type) -> bool {
        let lane = ty.lane_type();
        let (p, off) = self.address(m, lane.bytes().into());
        let x = self.b.ins().load(lane, little(), p, off);
        let v = self.b.ins().scalar_to_vector(ty, x);
        self.push(v);
        true
    }

    fn load_lane(&mut self, m: &MemArg, ty: Type, lane: u8) -> bool {
        let v = self.popv(ty);
        let (p, off) = self.address(m, ty.lane_type().bytes().into());
        let x = self.b.ins().load(ty.lane_type(), little(), p, off);
        let z = self.b.ins().insertlane(v, x, lane);
        self.push(z);
        true
    }

    fn store_lane(&mut self, m: &MemArg, ty: Type, lane: u8) -> bool {
        let v = self.popv(ty);
        let x = self.b.ins().extractlane(v, lane);
        let (p, off) = self.address(m, ty.lane_type().bytes().into());
        self.b.ins().store(little(), x, p, off);
        true
    }

    /// Widen both halves and add neighbours.
    fn pairwise(&mut self, ty: Type, signed: bool) -> bool {
        self.vunary(ty, |fx, x| {
            let (low, high) = (fx.widen(x, signed, false), fx.widen(x, signed, true));
            fx.b.ins().iadd_pairwise(low, high)
        })
    }

    fn widen(&mut self, x: Value, signed: bool, high: bool) -> Value {
        match (signed, high) {
            (true, false) => self.b.ins().swiden_low(x),
            (true, true) => self.b.ins().swiden_high(x),
            (false, false) => self.b.ins().uwiden_low(x),
            (false, true) => self.b.ins().uwiden_high(x),
        }
    }

    fn extend(&mut self, ty: Type, signed: bool, high: bool) -> bool {
        self.vunary(ty, |fx, x| fx.widen(x, signed, high))
    }

    fn extmul(&mut self, ty: Type, signed: bool, high: bool) -> bool {
        self.vbinary(ty, |fx, x, y| {
            let (x, y) = (fx.widen(x, signed, high), fx.widen(y, signed, high));
            fx.b.ins().imul(x, y)
        })
    }

    fn vzero(&mut self, ty: Type) -> Value {
        let c = self.b.func.dfg.constants.insert([0; 16].as_slice().into());
        self.b.ins().vconst(ty, c)
    }

    fn flag(&mut self, ty: Type, f: impl FnOnce(&mut Self, Value) -> Value) -> bool {
        self.vunary(ty, |fx, x| {
            let c = f(fx, x);
            fx.truth(c)
        })
    }

    /// Translate an operator on vectors; whether it is one.
    pub(crate) fn vector(&mut self, op: &Operator<'_>) -> Result<bool, Error> {
        Ok(self.lanes(op) || self.vector_numbers(op))
    }

    /// Operators that move lanes: constants, loads, stores, shuffles, bits.
    fn lanes(&mut self, op: &Operator<'_>) -> bool {
        use Operator as O;
        macro_rules! load {
            ($m:expr, $op:ident) => {{
                let (p, off) = self.address($m, 8);
                let v = self.b.ins().$op(little(), p, off);
                self.push(v);
                true
            }};
        }
        match op {
            O::V128Const { value } => {
                let c = self.b.func.dfg.constants.insert(value.bytes().as_slice().into());
                let v = self.b.ins().vconst(I8X16, c);
                self.push(v);
                true
            }
            O::V128Load8x8S { memarg } => load!(memarg, sload8x8),
            O::V128Load8x8U { memarg } => load!(memarg, uload8x8),
            O::V128Load16x4S { memarg } => load!(memarg, sload16x4),
            O::V128Load16x4U { memarg } => load!(memarg, uload16x4),
            O::V128Load32x2S { memarg } => load!(memarg, sload32x2),
            O::V128Load32x2U { memarg } => load!(memarg, uload32x2),
            O::V128Load8Splat { memarg } => self.load_splat(memarg, I8X16),
            O::V128Load16Splat { memarg } => self.load_splat(memarg, I16X8),
            O::V128Load32Splat { memarg } => self.load_splat(memarg, I32X4),
            O::V128Load64Splat { memarg } => self.load_splat(memarg, I64X2),
            O::V128Load32Zero { memarg } => self.load_zero(memarg, I32X4),
            O::V128Load64Zero { memarg } => self.load_zero(memarg, I64X2),
            O::V128Load8Lane { memarg, lane } => self.load_lane(memarg, I8X16, *lane),
            O::V128Load16Lane { memarg, lane } => self.load_lane(memarg, I16X8, *lane),
            O::V128Load32Lane { memarg, lane } => self.load_lane(memarg, I32X4, *lane),
            O::V128Load64Lane { memarg, lane } => self.load_lane(memarg, I64X2, *lane),
            O::V128Store8Lane { memarg, lane } => self.store_lane(memarg, I8X16, *lane),
            O::V128Store16Lane { memarg, lane } => self.store_lane(memarg, I16X8, *lane),
            O::V128Store32Lane { memarg, lane } => self.store_lane(memarg, I32X4, *lane),
            O::V128Store64Lane { memarg, lane } => self.store_lane(memarg, I64X2, *lane),
            O::I8x16Shuffle { lanes } => self.vbinary(I8X16, |fx, x, y| {
                let mask = fx.b.func.dfg.immediates.push(lanes.as_slice().into());
                fx.b.ins().shuffle(x, y, mask)
            }),
            O::I8x16Swizzle => self.vbinary(I8X16, |fx, x, y| fx.b.ins().swizzle(x, y)),
            O::I8x16Splat => self.splat(I8X16),
            O::I16x8Splat => self.splat(I16X8),
            O::I32x4Splat => self.splat(I32X4),
            O::I64x2Splat => self.splat(I64X2),
            O::F32x4Splat => self.splat(F32X4),
            O::F64x2Splat => self.splat(F64X2),
            O::I8x16ExtractLaneS { lane } => self.extract(I8X16, *lane, Some(true)),
            O::I8x16ExtractLaneU { lane } => self.extract(I8X16, *lane, Some(false)),
            O::I16x8ExtractLaneS { lane } => self.extract(I16X8, *lane, Some(true)),
            O::I16x8ExtractLaneU { lane } => self.extract(I16X8, *lane, Some(false)),
            O::I32x4ExtractLane { lane } => self.extract(I32X4, *lane, None),
            O::I64x2ExtractLane { lane } => self.extract(I64X2, *lane, None),
            O::F32x4ExtractLane { lane } => self.extract(F32X4, *lane, None),
            O::F64x2ExtractLane { lane } => self.extract(F64X2, *lane, None),
            O::I8x16ReplaceLane { lane } => self.replace(I8X16, *lane),
            O::I16x8ReplaceLane { lane } => self.replace(I16X8, *lane),
            O::I32x4ReplaceLane { lane } => self.replace(I32X4, *lane),
            O::I64x2ReplaceLane { lane } => self.replace(I64X2, *lane),
            O::F32x4ReplaceLane { lane } => self.replace(F32X4, *lane),
            O::F64x2ReplaceLane { lane } => self.replace(F64X2, *lane),
            O::V128Not => self.vunary(I8X16, |fx, x| fx.b.ins().bnot(x)),
            O::V128And => self.vbinary(I8X16, |fx, x, y| fx.b.ins().band(x, y)),
            O::V128AndNot => self.vbinary(I8X16, |fx, x, y| {
                let y = fx.b.ins().bnot(y);
                fx.b.ins().band(x, y)
            }),
            O::V128Or => self.vbinary(I8X16, |fx, x, y| fx.b.ins().bor(x, y)),
            O::V128Xor => self.vbinary(I8X16, |fx, x, y| fx.b.ins().bxor(x, y)),
            O::V128Bitselect => {
                let c = self.popv(I8X16);
                self.vbinary(I8X16, |fx, x, y| fx.b.ins().bitselect(c, x, y))
            }
            O::V128AnyTrue => self.flag(I8X16, |fx, x| fx.b.ins().vany_true(x)),
            O::I8x16AllTrue => self.flag(I8X16, |fx, x| fx.b.ins().vall_true(x)),
            O::I16x8AllTrue => self.flag(I16X8, |fx, x| fx.b.ins().vall_true(x)),
            O::I32x4AllTrue => self.flag(I32X4, |fx, x| fx.b.ins().vall_true(x)),
            O::I64x2AllTrue => self.flag(I64X2, |fx, x| fx.b.ins().vall_true(x)),
            O::I8x16Bitmask => self.vunary(I8X16, |fx, x| fx.b.ins().vhigh_bits(I32, x)),
            O::I16x8Bitmask => self.vunary(I16X8, |fx, x| fx.b.ins().vhigh_bits(I32, x)),
            O::I32x4Bitmask => self.vunary(I32X4, |fx, x| fx.b.ins().vhigh_bits(I32, x)),
            O::I64x2Bitmask => self.vunary(I64X2, |fx, x| fx.b.ins().vhigh_bits(I32, x)),
            _ => false,
        }
    }

    /// Arithmetic, comparisons and conversions.
    fn vector_numbers(&mut self, op: &Operator<'_>) -> bool {
        use Operator as O;
        macro_rules! un {
            ($ty:expr, $op:ident $(, $to:expr)?) => { self.vunary($ty, |fx, x| fx.b.ins().$op($($to,)? x)) };
        }
        macro_rules! bin {
            ($ty:expr, $op:ident) => {
                self.vbinary($ty, |fx, x, y| fx.b.ins().$op(x, y))
            };
        }
        macro_rules! shift {
            ($ty:expr, $op:ident) => {
                self.vshift($ty, |fx, x, n| fx.b.ins().$op(x, n))
            };
        }
        match op {
            O::I8x16Eq => self.vicmp(I8X16, IntCC::Equal),
            O::I16x8Eq => self.vicmp(I16X8, IntCC::Equal),
            O::I32x4Eq => self.vicmp(I32X4, IntCC::Equal),
            O::I64x2Eq => self.vicmp(I64X2, IntCC::Equal),
            O::I8x16Ne => self.vicmp(I8X16, IntCC::NotEqual),
            O::I16x8Ne => self.vicmp(I16X8, IntCC::NotEqual),
            O::I32x4Ne => self.vicmp(I32X4, IntCC::NotEqual),
            O::I64x2Ne => self.vicmp(I64X2, IntCC::NotEqual),
            O::I8x16LtS => self.vicmp(I8X16, IntCC::SignedLessThan),
            O::I16x8LtS => self.vicmp(I16X8, IntCC::SignedLessThan),
            O::I32x4LtS => self.vicmp(I32X4, IntCC::SignedLessThan),
            O::I64x2LtS => self.vicmp(I64X2, IntCC::SignedLessThan),
            O::I8x16LtU => self.vicmp(I8X16, IntCC::UnsignedLessThan),
            O::I16x8LtU => self.vicmp(I16X8, IntCC::UnsignedLessThan),
            O::I32x4LtU => self.vicmp(I32X4, IntCC::UnsignedLessThan),
            O::I8x16GtS => self.vicmp(I8X16, IntCC::SignedGreaterThan),
            O::I16x8GtS => self.vicmp(I16X8, IntCC::SignedGreaterThan),
            O::I32x4GtS => self.vicmp(I32X4, IntCC::SignedGreaterThan),
            O::I64x2GtS => self.vicmp(I64X2, IntCC::SignedGreaterThan),
            O::I8x16GtU => self.vicmp(I8X16, IntCC::UnsignedGreaterThan),
            O::I16x8GtU => self.vicmp(I16X8, IntCC::UnsignedGreaterThan),
            O::I32x4GtU => self.vicmp(I32X4, IntCC::UnsignedGreaterThan),
            O::I8x16LeS => self.vicmp(I8X16, IntCC::SignedLessThanOrEqual),
            O::I16x8LeS => self.vicmp(I16X8, IntCC::SignedLessThanOrEqual),
            O::I32x4LeS => self.vicmp(I32X4, IntCC::SignedLessThanOrEqual),
            O::I64x2LeS => self.vicmp(I64X2, IntCC::SignedLessThanOrEqual),
            O::I8x16LeU => self.vicmp(I8X16, IntCC::UnsignedLessThanOrEqual),
            O::I16x8LeU => self.vicmp(I16X8, IntCC::UnsignedLessThanOrEqual),
            O::I32x4LeU => self.vicmp(I32X4, IntCC::UnsignedLessThanOrEqual),
            O::I8x16GeS => self.vicmp(I8X16, IntCC::SignedGreaterThanOrEqual),
            O::I16x8GeS => self.vicmp(I16X8, IntCC::SignedGreaterThanOrEqual),
            O::I32x4GeS => self.vicmp(I32X4, IntCC::SignedGreaterThanOrEqual),
            O::I64x2GeS => self.vicmp(I64X2, IntCC::SignedGreaterThanOrEqual),
            O::I8x16GeU => self.vicmp(I8X16, IntCC::UnsignedGreaterThanOrEqual),
            O::I16x8GeU => self.vicmp(I16X8, IntCC::UnsignedGreaterThanOrEqual),
            O::I32x4GeU => self.vicmp(I32X4, IntCC::UnsignedGreaterThanOrEqual),
            O::F32x4Eq => self.vfcmp(F32X4, FloatCC::Equal),
            O::F64x2Eq => self.vfcmp(F64X2, FloatCC::Equal),
            O::F32x4Ne => self.vfcmp(F32X4, FloatCC::NotEqual),
            O::F64x2Ne => self.vfcmp(F64X2, FloatCC::NotEqual),
            O::F32x4Lt => self.vfcmp(F32X4, FloatCC::LessThan),
            O::F64x2Lt => self.vfcmp(F64X2, FloatCC::LessThan),
            O::F32x4Gt => self.vfcmp(F32X4, FloatCC::GreaterThan),
            O::F64x2Gt => self.vfcmp(F64X2, FloatCC::GreaterThan),
            O::F32x4Le => self.vfcmp(F32X4, FloatCC::LessThanOrEqual),
            O::F64x2Le => self.vfcmp(F64X2, FloatCC::LessThanOrEqual),
            O::F32x4Ge => self.vfcmp(F32X4, FloatCC::GreaterThanOrEqual),
            O::F64x2Ge => self.vfcmp(F64X2, FloatCC::GreaterThanOrEqual),
            O::I8x16Abs => un!(I8X16, iabs),
            O::I16x8Abs => un!(I16X8, iabs),
            O::I32x4Abs => un!(I32X4, iabs),
            O::I64x2Abs => un!(I64X2, iabs),
            O::I8x16Neg => un!(I8X16, ineg),
            O::I16x8Neg => un!(I16X8, ineg),
            O::I32x4Neg => un!(I32X4, ineg),
            O::I64x2Neg => un!(I64X2, ineg),
            O::I8x16Popcnt => un!(I8X16, popcnt),
            O::I8x16NarrowI16x8S => bin!(I16X8, snarrow),
            O::I8x16NarrowI16x8U => bin!(I16X8, unarrow),
            O::I16x8NarrowI32x4S => bin!(I32X4, snarrow),
            O::I16x8NarrowI32x4U => bin!(I32X4, unarrow),
            O::I16x8ExtendLowI8x16S => self.extend(I8X16, true, false),
            O::I16x8ExtendHighI8x16S => self.extend(I8X16, true, true),
            O::I16x8ExtendLowI8x16U => self.extend(I8X16, false, false),
            O::I16x8ExtendHighI8x16U => self.extend(I8X16, false, true),
            O::I32x4ExtendLowI16x8S => self.extend(I16X8, true, false),
            O::I32x4ExtendHighI16x8S => self.extend(I16X8, true, true),
            O::I32x4ExtendLowI16x8U => self.extend(I16X8, false, false),
            O::I32x4ExtendHighI16x8U => self.extend(I16X8, false, true),
            O::I64x2ExtendLowI32x4S => self.extend(I32X4, true, false),
            O::I64x2ExtendHighI32x4S => self.extend(I32X4, true, true),
            O::I64x2ExtendLowI32x4U => self.extend(I32X4, false, false),
            O::I64x2ExtendHighI32x4U => self.extend(I32X4, false, true),
            O::I8x16Shl => shift!(I8X16, ishl),
            O::I16x8Shl => shift!(I16X8, ishl),
            O::I32x4Shl => shift!(I32X4, ishl),
            O::I64x2Shl => shift!(I64X2, ishl),
            O::I8x16ShrS => shift!(I8X16, sshr),
            O::I16x8ShrS => shift!(I16X8, sshr),
            O::I32x4ShrS => shift!(I32X4, sshr),
            O::I64x2ShrS => shift!(I64X2, sshr),
            O::I8x16ShrU => shift!(I8X16, ushr),
            O::I16x8ShrU => shift!(I16X8, ushr),
            O::I32x4ShrU => shift!(I32X4, ushr),
            O::I64x2ShrU => shift!(I64X2, ushr),
            O::I8x16Add => bin!(I8X16, iadd),
            O::I16x8Add => bin!(I16X8, iadd),
            O::I32x4Add => bin!(I32X4, iadd),
            O::I64x2Add => bin!(I64X2, iadd),
            O::I8x16AddSatS => bin!(I8X16, sadd_sat),
            O::I16x8AddSatS => bin!(I16X8, sadd_sat),
            O::I8x16AddSatU => bin!(I8X16, uadd_sat),
            O::I16x8AddSatU => bin!(I16X8, uadd_sat),
            O::I8x16Sub => bin!(I8X16, isub),
            O::I16x8Sub => bin!(I16X8, isub),
            O::I32x4Sub => bin!(I32X4, isub),
            O::I64x2Sub => bin!(I64X2, isub),
            O::I8x16SubSatS => bin!(I8X16, ssub_sat),
            O::I16x8SubSatS => bin!(I16X8, ssub_sat),
            O::I8x16SubSatU => bin!(I8X16, usub_sat),
            O::I16x8SubSatU => bin!(I16X8, usub_sat),
            O::I16x8Mul => bin!(I16X8, imul),
            O::I32x4Mul => bin!(I32X4, imul),
            O::I64x2Mul => bin!(I64X2, imul),
            O::I8x16MinS => bin!(I8X16, smin),
            O::I16x8MinS => bin!(I16X8, smin),
            O::I32x4MinS => bin!(I32X4, smin),
            O::I8x16MinU => bin!(I8X16, umin),
            O::I16x8MinU => bin!(I16X8, umin),
            O::I32x4MinU => bin!(I32X4, umin),
            O::I8x16MaxS => bin!(I8X16, smax),
            O::I16x8MaxS => bin!(I16X8, smax),
            O::I32x4MaxS => bin!(I32X4, smax),
            O::I8x16MaxU => bin!(I8X16, umax),
            O::I16x8MaxU => bin!(I16X8, umax),
            O::I32x4MaxU => bin!(I32X4, umax),
            O::I8x16AvgrU => bin!(I8X16, avg_round),
            O::I16x8AvgrU => bin!(I16X8, avg_round),
            O::I16x8Q15MulrSatS => bin!(I16X8, sqmul_round_sat),
            O::I32x4DotI16x8S => self.vbinary(I16X8, |fx, x, y| {
                let halves = [false, true].map(|high| {
                    let (x, y) = (fx.widen(x, true, high), fx.widen(y, true, high));
                    fx.b.ins().imul(x, y)
                });
                fx.b.ins().iadd_pairwise(halves[0], halves[1])
            }),
            O::I16x8ExtAddPairwiseI8x16S => self.pairwise(I8X16, true),
            O::I16x8ExtAddPairwiseI8x16U => self.pairwise(I8X16, false),
            O::I32x4ExtAddPairwiseI16x8S => self.pairwise(I16X8, true),
            O::I32x4ExtAddPairwiseI16x8U => self.pairwise(I16X8, false),
            O::I16x8ExtMulLowI8x16S => self.extmul(I8X16, true, false),
            O::I16x8ExtMulHighI8x16S => self.extmul(I8X16, true, true),
            O::I16x8ExtMulLowI8x16U => self.extmul(I8X16, false, false),
            O::I16x8ExtMulHighI8x16U => self.extmul(I8X16, false, true),
            O::I32x4ExtMulLowI16x8S => self.extmul(I16X8, true, false),
            O::I32x4ExtMulHighI16x8S => self.extmul(I16X8, true, true),
            O::I32x4ExtMulLowI16x8U => self.extmul(I16X8, false, false),
            O::I32x4ExtMulHighI16x8U => self.extmul(I16X8, false, true),
            O::I64x2ExtMulLowI32x4S => self.extmul(I32X4, true, false),
            O::I64x2ExtMulHighI32x4S => self.extmul(I32X4, true, true),
            O::I64x2ExtMulLowI32x4U => self.extmul(I32X4, false, false),
            O::I64x2ExtMulHighI32x4U => self.extmul(I32X4, false, true),
            O::F32x4Ceil => un!(F32X4, ceil),
            O::F64x2Ceil => un!(F64X2, ceil),
            O::F32x4Floor => un!(F32X4, floor),
            O::F64x2Floor => un!(F64X2, floor),
            O::F32x4Trunc => un!(F32X4, trunc),
            O::F64x2Trunc => un!(F64X2, trunc),
            O::F32x4Nearest => un!(F32X4, nearest),
            O::F64x2Nearest => un!(F64X2, nearest),
            O::F32x4Abs => un!(F32X4, fabs),
            O::F64x2Abs => un!(F64X2, fabs),
            O::F32x4Neg => un!(F32X4, fneg),
            O::F64x2Neg => un!(F64X2, fneg),
            O::F32x4Sqrt => un!(F32X4, sqrt),
            O::F64x2Sqrt => un!(F64X2, sqrt),
            O::F32x4Add => bin!(F32X4, fadd),
            O::F64x2Add => bin!(F64X2, fadd),
            O::F32x4Sub => bin!(F32X4, fsub),
            O::F64x2Sub => bin!(F64X2, fsub),
            O::F32x4Mul => bin!(F32X4, fmul),
            O::F64x2Mul => bin!(F64X2, fmul),
            O::F32x4Div => bin!(F32X4, fdiv),
            O::F64x2Div => bin!(F64X2, fdiv),
            O::F32x4Min => bin!(F32X4, fmin),
            O::F64x2Min => bin!(F64X2, fmin),
            O::F32x4Max => bin!(F32X4, fmax),
            O::F64x2Max => bin!(F64X2, fmax),
            O::F32x4PMin => self.pseudo(F32X4, true),
            O::F64x2PMin => self.pseudo(F64X2, true),
            O::F32x4PMax => self.pseudo(F32X4, false),
            O::F64x2PMax => self.pseudo(F64X2, false),
            O::I32x4TruncSatF32x4S => un!(F32X4, fcvt_to_sint_sat, I32X4),
            O::I32x4TruncSatF32x4U => un!(F32X4, fcvt_to_uint_sat, I32X4),
            O::I32x4TruncSatF64x2SZero => self.vunary(F64X2, |fx, x| {
                let wide = fx.b.ins().fcvt_to_sint_sat(I64X2, x);
                let zero = fx.vzero(I64X2);
                fx.b.ins().snarrow(wide, zero)
            }),
            O::I32x4TruncSatF64x2UZero => self.vunary(F64X2, |fx, x| {
                let wide = fx.b.ins().fcvt_to_uint_sat(I64X2, x);
                let zero = fx.vzero(I64X2);
                fx.b.ins().uunarrow(wide, zero)
            }),
            O::F32x4ConvertI32x4S => un!(I32X4, fcvt_from_sint, F32X4),
            O::F32x4ConvertI32x4U => un!(I32X4, fcvt_from_uint, F32X4),
            O::F64x2ConvertLowI32x4S => self.vunary(I32X4, |fx, x| {
                let wide = fx.b.ins().swiden_low(x);
                fx.b.ins().fcvt_from_sint(F64X2, wide)
            }),
            O::F64x2ConvertLowI32x4U => self.vunary(I32X4, |fx, x| {
                let wide = fx.b.ins().uwiden_low(x);
                fx.b.ins().fcvt_from_uint(F64X2, wide)
            }),
            O::F32x4DemoteF64x2Zero => un!(F64X2, fvdemote),
            O::F64x2PromoteLowF32x4 => un!(F32X4, fvpromote_low),
            _ => false,
        }
    }
}
