//! One small function per opcode and type, and values to call it with.

use cranelift_codegen::ir::{Type, types::*};

/// A function of one instruction.
pub(crate) struct Case {
    /// Its text; the function is `%f`.
    pub text: String,
    /// Types of its parameters.
    pub params: Vec<Type>,
    /// What to call it in messages.
    pub name: String,
}

fn case(inst: &str, params: &[Type], returns: &[Type]) -> Case {
    let names: Vec<String> = (0..params.len()).map(|i| format!("v{i}")).collect();
    let typed: Vec<String> = names.iter().zip(params).map(|(n, t)| format!("{n}: {t}")).collect();
    let list = |t: &[Type]| t.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
    let results: Vec<String> = (0..returns.len()).map(|i| format!("v{}", 10 + i)).collect();
    let text = format!(
        "function %f({}) -> {} system_v {{\nblock0({}):\n    {} = {}\n    return {}\n}}\n",
        list(params),
        list(returns),
        typed.join(", "),
        results.join(", "),
        inst,
        results.join(", "),
    );
    Case { text, params: params.to_vec(), name: format!("{inst} ({}) -> {}", list(params), list(returns)) }
}

const INTS: [Type; 5] = [I8, I16, I32, I64, I128];
const VECTORS: [Type; 4] = [I8X16, I16X8, I32X4, I64X2];
const FLOATS: [Type; 4] = [F32, F64, F32X4, F64X2];

/// All cases that compile on an x86-64 with AVX, or give a compile error that is skipped.
pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |inst: &str, params: &[Type], returns: &[Type]| all.push(case(inst, params, returns));

    for ty in INTS.into_iter().chain(VECTORS) {
        for op in ["iadd", "isub", "imul", "band", "bor", "bxor"] {
            add(&format!("{op} v0, v1"), &[ty, ty], &[ty]);
        }
        for op in ["ineg", "iabs", "bnot", "popcnt"] {
            add(&format!("{op} v0"), &[ty], &[ty]);
        }
        for op in ["smin", "smax", "umin", "umax"] {
            add(&format!("{op} v0, v1"), &[ty, ty], &[ty]);
        }
        for op in ["ishl", "ushr", "sshr", "rotl", "rotr"] {
            if ty.is_int() || !op.starts_with("rot") {
                add(&format!("{op} v0, v1"), &[ty, I32], &[ty]);
            }
        }
        add("bitselect v0, v1, v2", &[ty, ty, ty], &[ty]);
        let flag = if ty.is_vector() { ty } else { I8 };
        for cc in ["eq", "ne", "slt", "sge", "sgt", "sle", "ult", "uge", "ugt", "ule"] {
            add(&format!("icmp {cc} v0, v1"), &[ty, ty], &[flag]);
        }
    }
    for ty in INTS {
        for op in ["bitrev", "clz", "ctz", "cls"] {
            add(&format!("{op} v0"), &[ty], &[ty]);
        }
        if ty != I8 {
            add("bswap v0", &[ty], &[ty]);
        }
        if ty != I128 {
            for op in ["umulhi", "smulhi"] {
                add(&format!("{op} v0, v1"), &[ty, ty], &[ty]);
            }
        }
        for op in ["uadd_overflow", "sadd_overflow", "usub_overflow", "ssub_overflow", "umul_overflow", "smul_overflow"]
        {
            if ty == I128 && op.contains("mul") {
                continue;
            }
            add(&format!("{op} v0, v1"), &[ty, ty], &[ty, I8]);
        }
        for op in ["uadd_overflow_cin", "sadd_overflow_cin", "usub_overflow_bin", "ssub_overflow_bin"] {
            add(&format!("{op} v0, v1, v2"), &[ty, ty, I8], &[ty, I8]);
        }
        for c in INTS {
            add("select v0, v1, v2", &[c, ty, ty], &[ty]);
        }
        for to in INTS {
            if to.bits() > ty.bits() {
                add(&format!("uextend.{to} v0"), &[ty], &[to]);
                add(&format!("sextend.{to} v0"), &[ty], &[to]);
            }
            if to.bits() < ty.bits() {
                add(&format!("ireduce.{to} v0"), &[ty], &[to]);
            }
            add(&format!("bmask.{to} v0"), &[ty], &[to]);
        }
    }
    add("isplit v0", &[I128], &[I64, I64]);
    add("iconcat v0, v1", &[I64, I64], &[I128]);

    for ty in [I8X16, I16X8] {
        for op in ["uadd_sat", "sadd_sat", "usub_sat", "ssub_sat", "avg_round"] {
            add(&format!("{op} v0, v1"), &[ty, ty], &[ty]);
        }
    }
    add("sqmul_round_sat v0, v1", &[I16X8, I16X8], &[I16X8]);
    add("x86_pmulhrsw v0, v1", &[I16X8, I16X8], &[I16X8]);
    for (from, to) in [(I16X8, I8X16), (I32X4, I16X8), (I64X2, I32X4)] {
        for op in ["snarrow", "unarrow", "uunarrow"] {
            add(&format!("{op} v0, v1"), &[from, from], &[to]);
        }
        for op in ["swiden_low", "swiden_high", "uwiden_low", "uwiden_high"] {
            add(&format!("{op} v0"), &[to], &[from]);
        }
    }
    add("iadd_pairwise v0, v1", &[I16X8, I16X8], &[I16X8]);
    add("iadd_pairwise v0, v1", &[I32X4, I32X4], &[I32X4]);
    add("x86_pmaddubsw v0, v1", &[I8X16, I8X16], &[I16X8]);
    add("shuffle v0, v1, [0 17 2 19 4 21 6 23 31 30 29 28 8 9 10 11]", &[I8X16, I8X16], &[I8X16]);
    add("shuffle v0, v1, [8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23]", &[I8X16, I8X16], &[I8X16]);
    add("swizzle v0, v1", &[I8X16, I8X16], &[I8X16]);
    add("x86_pshufb v0, v1", &[I8X16, I8X16], &[I8X16]);
    for ty in VECTORS.into_iter().chain([F32X4, F64X2]) {
        let lane = ty.lane_type();
        let last = ty.lane_count() - 1;
        add(&format!("splat.{ty} v0"), &[lane], &[ty]);
        add(&format!("scalar_to_vector.{ty} v0"), &[lane], &[ty]);
        add(&format!("insertlane v0, v1, {last}"), &[ty, lane], &[ty]);
        add("insertlane v0, v1, 0", &[ty, lane], &[ty]);
        add(&format!("extractlane v0, {last}"), &[ty], &[lane]);
        add("extractlane v0, 0", &[ty], &[lane]);
        add("select v0, v1, v2", &[I32, ty, ty], &[ty]);
        add("blendv v0, v1, v2", &[ty, ty, ty], &[ty]);
        add("vany_true v0", &[ty], &[I8]);
        add("vall_true v0", &[ty], &[I8]);
        add("vhigh_bits.i32 v0", &[ty], &[I32]);
    }

    for ty in FLOATS {
        for op in ["fadd", "fsub", "fmul", "fdiv", "fmin", "fmax", "fcopysign", "band", "bor", "bxor"] {
            add(&format!("{op} v0, v1"), &[ty, ty], &[ty]);
        }
        for op in ["sqrt", "fneg", "fabs", "ceil", "floor", "trunc", "nearest", "bnot"] {
            add(&format!("{op} v0"), &[ty], &[ty]);
        }
        add("fma v0, v1, v2", &[ty, ty, ty], &[ty]);
        let flag = if ty.is_vector() { ty.as_truthy() } else { I8 };
        for cc in ["ord", "uno", "eq", "ne", "one", "ueq", "lt", "le", "gt", "ge", "ult", "ule", "ugt", "uge"] {
            add(&format!("fcmp {cc} v0, v1"), &[ty, ty], &[flag]);
        }
    }
    for float in [F32, F64] {
        add("select v0, v1, v2", &[I8, float, float], &[float]);
        for int in INTS {
            add(&format!("fcvt_from_sint.{float} v0"), &[int], &[float]);
            add(&format!("fcvt_from_uint.{float} v0"), &[int], &[float]);
            add(&format!("fcvt_to_sint_sat.{int} v0"), &[float], &[int]);
            add(&format!("fcvt_to_uint_sat.{int} v0"), &[float], &[int]);
        }
    }
    for (float, int) in [(F32X4, I32X4), (F64X2, I64X2)] {
        add(&format!("fcvt_from_sint.{float} v0"), &[int], &[float]);
        add(&format!("fcvt_from_uint.{float} v0"), &[int], &[float]);
        add(&format!("fcvt_to_sint_sat.{int} v0"), &[float], &[int]);
        add(&format!("fcvt_to_uint_sat.{int} v0"), &[float], &[int]);
        add(&format!("x86_cvtt2dq.{int} v0"), &[float], &[int]);
    }
    add("fpromote.f64 v0", &[F32], &[F64]);
    add("fdemote.f32 v0", &[F64], &[F32]);
    add("fvdemote v0", &[F64X2], &[F32X4]);
    add("fvpromote_low v0", &[F32X4], &[F64X2]);
    add("bitcast.i64 v0", &[F64], &[I64]);
    add("bitcast.f32 v0", &[I32], &[F32]);
    add("bitcast.f64x2 little v0", &[I8X16], &[F64X2]);
    all
}

/// Bits of edge values of a type.
pub(crate) fn edges(ty: Type) -> Vec<u128> {
    let n = ty.lane_bits();
    let scalars: Vec<u128> = match ty.lane_type() {
        F32 => [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1.5,
            -2.5,
            3.7,
            -3.2e9,
            4.1e9,
            1e19,
            -1.7e38,
            f32::MAX,
            f32::MIN_POSITIVE,
            1e-45,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            -f32::NAN,
            255.9,
            -128.5,
            32767.5,
            8_388_609.0,
        ]
        .map(|x: f32| x.to_bits().into())
        .to_vec(),
        F64 => [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1.5,
            -2.5,
            3.7,
            -2147483648.5,
            4294967295.5,
            1.8446744073709552e19,
            -9.3e18,
            1e300,
            f64::MAX,
            f64::MIN_POSITIVE,
            5e-324,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            -f64::NAN,
            255.9,
            1e-40,
            4_503_599_627_370_497.5,
        ]
        .map(|x: f64| x.to_bits().into())
        .to_vec(),
        _ => {
            let ones = if n == 128 { u128::MAX } else { (1 << n) - 1 };
            let mut v = vec![0, 1, 2, 3, 7, 0x5a, ones, ones - 1, ones >> 1, (ones >> 1) + 1, (ones >> 1) - 1];
            v.extend(
                [0x0123_4567_89ab_cdef_f00d_face_dead_beef, 0xaaaa_5555_0000_ffff_8000_7fff_0080_ff7f]
                    .map(|x| x & ones),
            );
            v.extend([0x7f, 0x80, 0x8000, 0x0001_0000_0000].map(|x| x & ones));
            v.dedup();
            v
        }
    };
    if !ty.is_vector() {
        return scalars;
    }
    // Every scalar in every lane, beside different neighbours.
    let k = scalars.len();
    (0..k).map(|i| (0..ty.lane_count()).fold(0, |v, l| v | (scalars[(i + 5 * l as usize) % k] << (n * l)))).collect()
}

/// Tuples of edge values; for more than one parameter every pair, with the rest rotating.
pub(crate) fn tuples(params: &[Type]) -> Vec<Vec<u128>> {
    let all: Vec<Vec<u128>> = params.iter().map(|&t| edges(t)).collect();
    let second = all.get(1).map_or(1, Vec::len);
    let mut out = Vec::new();
    for i in 0..all[0].len() {
        for j in 0..second {
            out.push(
                all.iter()
                    .enumerate()
                    .map(|(k, values)| match k {
                        0 => values[i],
                        1 => values[j],
                        _ => values[(i + 3 * j + k) % values.len()],
                    })
                    .collect(),
            );
        }
    }
    out
}
