//! Instruction selection for arithmetic of derived code, for scalars and vectors alike.
//!
//! **Question.** A graph has an operation such as `KeepWhere` or `NonZero`. Which CLIF is it?
//!
//! **Answer.** As few instructions as Cranelift's back ends have for it: masks by comparison, a
//! subtraction in place of the sum with a negation, a shift in place of a product with a power of
//! two. C's functions are called lane by lane.
//!
//! ```text
//! v2 = fneg v1; sum of v0, v2            ⟶        v3 = fsub v0, v1
//! product of v0 and 8                    ⟶        v3 = ishl v0, 3
//! ```
//!
//! **Cost.** One look at each operation.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, Endianness, InstBuilder, InstructionData, MemFlagsData, Opcode, Type, types};
use cranelift_frontend::FunctionBuilder;

use super::context::LowerCx;
use crate::inst::{Arith, Shape};

/// A float constant of any float type, splat over lanes.
pub(super) fn constant(b: &mut FunctionBuilder<'_>, ty: Type, x: f64) -> ir::Value {
    let lane = match ty.lane_type() {
        types::F32 => b.ins().f32const(x as f32),
        types::F64 => b.ins().f64const(x),
        other => b.ins().iconst(other, x as i64),
    };
    if ty.is_vector() { b.ins().splat(ty, lane) } else { lane }
}

/// All bits zero, in any type.
pub fn zero(b: &mut FunctionBuilder<'_>, ty: Type) -> ir::Value {
    match ty {
        types::I128 => {
            let z = b.ins().iconst(types::I64, 0);
            b.ins().iconcat(z, z)
        }
        _ => constant(b, ty, 0.0),
    }
}

/// The same bits as another type of the same width.
pub(super) fn bits(b: &mut FunctionBuilder<'_>, x: ir::Value, ty: Type) -> ir::Value {
    let from = b.func.dfg.value_type(x);
    if from == ty {
        return x;
    }
    let little = MemFlagsData::new().with_endianness(Endianness::Little);
    match (from, ty) {
        // Two registers against one: by halves.
        (types::I128, _) => {
            let (lo, hi) = b.ins().isplit(x);
            let v = b.ins().scalar_to_vector(types::I64X2, lo);
            let v = b.ins().insertlane(v, hi, 1);
            bits(b, v, ty)
        }
        (_, types::I128) => {
            let v = bits(b, x, types::I64X2);
            let lo = b.ins().extractlane(v, 0);
            let hi = b.ins().extractlane(v, 1);
            b.ins().iconcat(lo, hi)
        }
        _ if from.is_vector() || ty.is_vector() => b.ins().bitcast(ty, little, x),
        _ => b.ins().bitcast(ty, MemFlagsData::new(), x),
    }
}

/// All bits of a float set where it compares with zero, none elsewhere.
fn compared_with_zero(cx: &mut LowerCx<'_>, b: &mut FunctionBuilder<'_>, cc: FloatCC, x: ir::Value) -> ir::Value {
    let ty = b.func.dfg.value_type(x);
    let zero = cx.zero_vector(b, vector_of(ty));
    // Lane 0 is all that is asked for. A scalar is in lane 0 of its register as it is, but CLIF has
    // no name for that: to put it into a vector that is there already costs one instruction, to
    // clear the other lanes for it two.
    let x = if ty.is_vector() { x } else { b.ins().insertlane(zero, x, 0) };
    let mask = b.ins().fcmp(cc, x, zero);
    let mask = bits(b, mask, vector_of(ty));
    if ty.is_vector() { mask } else { b.ins().extractlane(mask, 0) }
}

/// All bits set where a float is zero.
pub(super) fn is_zero(cx: &mut LowerCx<'_>, b: &mut FunctionBuilder<'_>, x: ir::Value) -> ir::Value {
    compared_with_zero(cx, b, FloatCC::Equal, x)
}

/// Whether any bit of a float is set.
pub(super) fn any_bit(b: &mut FunctionBuilder<'_>, x: ir::Value) -> ir::Value {
    let ty = b.func.dfg.value_type(x);
    if ty.is_vector() {
        let x = bits(b, x, types::I64X2);
        return b.ins().vany_true(x);
    }
    let int = ty.as_int();
    let x = bits(b, x, int);
    let zero = b.ins().iconst(int, 0);
    b.ins().icmp(IntCC::NotEqual, x, zero)
}

/// Whether a number that is zero or NaN is NaN, in any lane.
pub(super) fn is_not_zero(b: &mut FunctionBuilder<'_>, x: ir::Value) -> ir::Value {
    if b.func.dfg.value_type(x).is_vector() { any_bit(b, x) } else { b.ins().fcmp(FloatCC::Unordered, x, x) }
}

/// The 128-bit vector of a float type.
fn vector_of(ty: Type) -> Type {
    match ty {
        types::F32 => types::F32X4,
        types::F64 => types::F64X2,
        _ => ty,
    }
}

/// `x + y`: a subtraction, which is the same number, if `y` has been negated. On x86-64 a negation
/// is three instructions.
pub(super) fn add(b: &mut FunctionBuilder<'_>, x: ir::Value, y: ir::Value) -> ir::Value {
    let negated = |v: ir::Value| match b.func.dfg.value_def(v).inst().map(|i| b.func.dfg.insts[i]) {
        Some(InstructionData::Unary { opcode: Opcode::Fneg, arg }) => Some(arg),
        _ => None,
    };
    match (negated(x), negated(y)) {
        (_, Some(y)) => b.ins().fsub(x, y),
        (Some(x), None) => b.ins().fsub(y, x),
        (None, None) => b.ins().fadd(x, y),
    }
}

/// The number that a constant integer of at most 64 bits is.
fn known(b: &FunctionBuilder<'_>, x: ir::Value) -> Option<i64> {
    match b.func.dfg.insts[b.func.dfg.value_def(x).inst()?] {
        InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits()),
        _ => None,
    }
}

/// `x y`: steps of induction variables are one or powers of two for the most part, and large
/// functions are compiled as they are.
fn times(b: &mut FunctionBuilder<'_>, x: ir::Value, y: ir::Value) -> ir::Value {
    let (it, by) = match (known(b, x), known(b, y)) {
        (_, Some(k)) => (x, k),
        (Some(k), None) => (y, k),
        (None, None) => return b.ins().imul(x, y),
    };
    match by {
        1 => it,
        2.. if by.count_ones() == 1 => {
            let k = b.ins().iconst(types::I32, i64::from(by.trailing_zeros()));
            b.ins().ishl(it, k)
        }
        _ => b.ins().imul(x, y),
    }
}

/// A constant of an integer type.
fn integer_constant(cx: &mut LowerCx<'_>, b: &mut FunctionBuilder<'_>, ty: Type, x: i64) -> ir::Value {
    // The immediate of a narrow constant has no bits beyond its type.
    let x = if ty.bits() < 64 { x & ((1_i64 << ty.bits()) - 1) } else { x };
    if !cx.env.short {
        return b.ins().iconst(ty, x);
    }
    let data = InstructionData::UnaryImm { opcode: Opcode::Iconst, imm: x.into() };
    cx.entry_constant(b, data, ty, x as u64)
}

/// One arithmetic instruction.
pub(super) fn arith(
    cx: &mut LowerCx<'_>,
    b: &mut FunctionBuilder<'_>,
    op: &Arith,
    a: &[ir::Value],
    ty: Type,
) -> ir::Value {
    match op {
        Arith::Const(x) => constant(b, ty, *x),
        Arith::Iconst(x) => integer_constant(cx, b, ty, *x),
        Arith::Fadd => add(b, a[0], a[1]),
        Arith::Fsub => b.ins().fsub(a[0], a[1]),
        Arith::Fmul => b.ins().fmul(a[0], a[1]),
        Arith::Fdiv => b.ins().fdiv(a[0], a[1]),
        Arith::Fneg => b.ins().fneg(a[0]),
        Arith::Fabs => b.ins().fabs(a[0]),
        Arith::Sqrt => b.ins().sqrt(a[0]),
        Arith::Trunc => b.ins().trunc(a[0]),
        Arith::Nearest => b.ins().nearest(a[0]),
        Arith::Floor => b.ins().floor(a[0]),
        Arith::Copysign if ty.is_vector() => {
            let sign = constant(b, ty, -0.0);
            b.ins().bitselect(sign, a[1], a[0])
        }
        Arith::Copysign => b.ins().fcopysign(a[0], a[1]),
        Arith::Fcmp(cc) => b.ins().fcmp(*cc, a[0], a[1]),
        Arith::IsZero => {
            let t = b.func.dfg.value_type(a[0]);
            let z = b.ins().iconst(t, 0);
            b.ins().icmp(IntCC::Equal, a[0], z)
        }
        Arith::Band => b.ins().band(a[0], a[1]),
        Arith::Bor => b.ins().bor(a[0], a[1]),
        Arith::Bxor => b.ins().bxor(a[0], a[1]),
        Arith::Bitselect => b.ins().bitselect(a[0], a[1], a[2]),
        // Masks of vectors even for scalars: a select between two floats is two branches on x86-64,
        // for each product of a cotangent. A mask is one comparison for all of them, and takes less
        // to compile.
        Arith::NonZero => compared_with_zero(cx, b, FloatCC::NotEqual, a[0]),
        Arith::KeepWhere => b.ins().band(a[0], a[1]),
        Arith::FromInt => {
            let x = if b.func.dfg.value_type(a[0]).bits() < 32 { b.ins().sextend(types::I32, a[0]) } else { a[0] };
            b.ins().fcvt_from_sint(ty, x)
        }
        Arith::Icmp(cc) => b.ins().icmp(*cc, a[0], a[1]),
        Arith::Not => {
            let t = b.func.dfg.value_type(a[0]);
            if t.is_vector() {
                b.ins().bnot(a[0])
            } else {
                let z = b.ins().iconst(t, 0);
                b.ins().icmp(IntCC::Equal, a[0], z)
            }
        }
        Arith::Select if ty.is_vector() => {
            let mask = bits(b, a[0], ty);
            b.ins().bitselect(mask, a[1], a[2])
        }
        Arith::Select | Arith::SelectAll => b.ins().select(a[0], a[1], a[2]),
        Arith::Bitcast => bits(b, a[0], ty),
        Arith::Promote => b.ins().fpromote(ty, a[0]),
        Arith::Demote => b.ins().fdemote(ty, a[0]),
        Arith::PromoteLow => b.ins().fvpromote_low(a[0]),
        Arith::DemoteLow => b.ins().fvdemote(a[0]),
        Arith::Extract(l) => b.ins().extractlane(a[0], *l),
        Arith::Insert(l) => b.ins().insertlane(a[0], a[1], *l),
        Arith::Splat => b.ins().splat(ty, a[0]),
        Arith::ScalarToVector => b.ins().scalar_to_vector(ty, a[0]),
        Arith::ShuffleBytes(mask) => shuffle(b, a[0], a[1], mask, ty),
        Arith::Iadd => match (known(b, a[0]), known(b, a[1])) {
            (Some(0), _) => a[1],
            (_, Some(0)) => a[0],
            _ => b.ins().iadd(a[0], a[1]),
        },
        Arith::Isub if known(b, a[1]) == Some(0) => a[0],
        Arith::Isub => b.ins().isub(a[0], a[1]),
        Arith::Imul => times(b, a[0], a[1]),
        Arith::UshrBy(k) => {
            let k = b.ins().iconst(types::I32, i64::from(*k));
            b.ins().ushr(a[0], k)
        }
        Arith::Copy => a[0],
        Arith::Int(op) => {
            let (inst, dfg) = match a {
                [x] => b.ins().Unary(*op, ty, *x),
                _ => b.ins().Binary(*op, ty, a[0], a[1]),
            };
            dfg.first_result(inst)
        }
        Arith::Uextend => b.ins().uextend(ty, a[0]),
        Arith::Ireduce => b.ins().ireduce(ty, a[0]),
        Arith::Math(symbol) => math(cx, b, symbol, a, ty),
        Arith::ToBits => to_bits(b, a[0], ty),
        Arith::FromBits(shape) => from_bits(b, a[0], *shape),
    }
}

/// A byte shuffle where indices above 31 give zero: CLIF's `shuffle` leaves those undefined, so
/// zero bytes are masked out.
fn shuffle(b: &mut FunctionBuilder<'_>, x: ir::Value, y: ir::Value, mask: &[u8; 16], ty: Type) -> ir::Value {
    let x = bits(b, x, types::I8X16);
    let y = bits(b, y, types::I8X16);
    let clamped: Vec<u8> = mask.iter().map(|&m| if m < 32 { m } else { 0 }).collect();
    let imm = b.func.dfg.immediates.push(ir::ConstantData::from(clamped.as_slice()));
    let mut r = b.ins().shuffle(x, y, imm);
    if mask.iter().any(|&m| m >= 32) {
        let keep: Vec<u8> = mask.iter().map(|&m| if m < 32 { 0xff } else { 0 }).collect();
        let c = b.func.dfg.constants.insert(ir::ConstantData::from(keep.as_slice()));
        let keep = b.ins().vconst(types::I8X16, c);
        r = b.ins().band(r, keep);
    }
    bits(b, r, ty)
}

/// A C math function on scalars, lane by lane on vectors.
fn math(cx: &mut LowerCx<'_>, b: &mut FunctionBuilder<'_>, symbol: &str, a: &[ir::Value], ty: Type) -> ir::Value {
    let lane = ty.lane_type();
    let symbol = if lane == types::F32 { format!("{symbol}f") } else { symbol.to_owned() };
    let mut sig = ir::Signature::new(cx.env.target.default_call_conv);
    for &x in a {
        let t = b.func.dfg.value_type(x);
        sig.params.push(ir::AbiParam::new(if t.is_vector() { t.lane_type() } else { t }));
    }
    sig.returns.push(ir::AbiParam::new(lane));
    let symbol = cx.env.names.of_c(&symbol).to_owned();
    let f = cx.symbol(b, &symbol, &sig);
    if !ty.is_vector() {
        let call = b.ins().call(f, a);
        return b.inst_results(call)[0];
    }
    let mut out = constant(b, ty, 0.0);
    for l in 0..ty.lane_count() as u8 {
        let args: Vec<_> = a
            .iter()
            .map(|&x| if b.func.dfg.value_type(x).is_vector() { b.ins().extractlane(x, l) } else { x })
            .collect();
        let call = b.ins().call(f, &args);
        let r = b.inst_results(call)[0];
        out = b.ins().insertlane(out, r, l);
    }
    out
}

/// The bits of a cotangent as an integer (or byte vector) of the width of the value that it belongs
/// to.
pub(super) fn to_bits(b: &mut FunctionBuilder<'_>, ct: ir::Value, ty: Type) -> ir::Value {
    let from = b.func.dfg.value_type(ct);
    if from == types::F32X4 && ty.bytes() == 8 {
        let v = bits(b, ct, types::I64X2);
        let x = b.ins().extractlane(v, 0);
        return bits(b, x, ty);
    }
    bits(b, ct, ty)
}

/// A cotangent from the bits of an integer (or byte vector).
pub(super) fn from_bits(b: &mut FunctionBuilder<'_>, x: ir::Value, shape: Shape) -> ir::Value {
    if shape == Shape::F32Pair {
        let x = bits(b, x, types::I64);
        let v = b.ins().scalar_to_vector(types::I64X2, x);
        return bits(b, v, types::F32X4);
    }
    bits(b, x, shape.ty())
}
