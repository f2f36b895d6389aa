//! Idioms on float bits: bitwise operations that are sign changes, absolute values or lane masks.
//!
//! **Question.** `band`, `bor`, `bxor`, `bitselect` (and `bnot` on masks) are legal on floats and
//! on integers that carry float bits, and compilers use them for `fabs`, `-x`, `copysign` and
//! lane-wise selection. What does one do to the float?
//!
//! **Answer.** [`classify`] recognises these by their constant or mask operands; whatever it does
//! not recognise cannot be differentiated.
//!
//! ```text
//! band x, 0x7fff…        |x|
//! bxor x, 0x8000…        -x
//! band x, mask           x where the mask is set, else 0
//! bor (band x, 0x7fff…), (band y, 0x8000…)        copysign(x, y)
//! ```
//!
//! **Cost.** What an operand is, is asked of the operations that made it, and those of their
//! operands. Such chains may be as long as a function, and may come together again in every step,
//! and the question is asked at each: so each looks at no more than a few values (`Fuel`), and then
//! does not know.

use cranelift_codegen::ir::{self, InstructionData, Opcode, Type, ValueDef};
use smallvec::SmallVec;

/// What a bitwise operation does to the floats that it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOp {
    /// `-x`.
    Neg(ir::Value),
    /// `x` with its sign flipped where `by` has its sign bit set.
    Flip {
        /// The float.
        x: ir::Value,
        /// Sign bits.
        by: ir::Value,
    },
    /// `|x|`.
    Abs(ir::Value),
    /// `-|x|`.
    NegAbs(ir::Value),
    /// `x` with the sign bits of `by` added to its own.
    OrSign {
        /// The float.
        x: ir::Value,
        /// Sign bits.
        by: ir::Value,
    },
    /// `x` in the lanes where the mask is set, zero elsewhere.
    Mask {
        /// The float.
        x: ir::Value,
        /// Lane mask.
        mask: ir::Value,
    },
    /// Two floats masked by complementary masks, put together.
    Blend(ir::Value, ir::Value),
    /// `mask ? x : y`, lane by lane.
    Choose {
        /// Lane mask.
        mask: ir::Value,
        /// Where it is set.
        x: ir::Value,
        /// Where it is not.
        y: ir::Value,
    },
    /// Magnitude of one, sign of another.
    Copysign {
        /// The magnitude.
        mag: ir::Value,
        /// The sign.
        sign: ir::Value,
    },
    /// Only a sign bit is left: constant where it is differentiable.
    SignOnly,
}

fn def(func: &ir::Function, v: ir::Value) -> Option<(Opcode, &[ir::Value])> {
    match func.dfg.value_def(v) {
        ValueDef::Result(i, _) => Some((func.dfg.insts[i].opcode(), func.dfg.inst_args(i))),
        _ => None,
    }
}

/// How many values a question may still look at.
struct Fuel(u32);

impl Fuel {
    const CONSTANT: Fuel = Fuel(16);
    const BITS: Fuel = Fuel(16);
    const MASK: Fuel = Fuel(64);

    /// Look at one more, if that is allowed.
    fn one_more(&mut self) -> Option<()> {
        self.0 = self.0.checked_sub(1)?;
        Some(())
    }
}

/// The bytes of a constant, little-endian.
pub fn constant_bytes(func: &ir::Function, v: ir::Value) -> Option<Vec<u8>> {
    bytes_within(func, v, &mut { Fuel::CONSTANT })
}

fn bytes_within(func: &ir::Function, v: ir::Value, left: &mut Fuel) -> Option<Vec<u8>> {
    left.one_more()?;
    let inst = func.dfg.value_def(v).inst()?;
    let ty = func.dfg.value_type(v);
    let n = ty.bytes() as usize;
    Some(match func.dfg.insts[inst] {
        InstructionData::UnaryImm { imm, .. } => imm.bits().to_le_bytes()[..n].to_vec(),
        InstructionData::UnaryIeee32 { imm, .. } => imm.bits().to_le_bytes().to_vec(),
        InstructionData::UnaryIeee64 { imm, .. } => imm.bits().to_le_bytes().to_vec(),
        InstructionData::UnaryConst { constant_handle, .. } => {
            func.dfg.constants.get(constant_handle).as_slice().to_vec()
        }
        InstructionData::Unary { opcode: Opcode::Splat, arg } => {
            let lane = bytes_within(func, arg, left)?;
            lane.repeat(n / lane.len())
        }
        InstructionData::Unary { opcode: Opcode::Bitcast, arg } => bytes_within(func, arg, left)?,
        InstructionData::Unary { opcode: Opcode::Bnot, arg } => {
            bytes_within(func, arg, left)?.into_iter().map(|b| !b).collect()
        }
        InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } => bytes_within(func, arg, left)?,
        InstructionData::Binary { opcode: op @ (Opcode::Band | Opcode::Bor | Opcode::Bxor), args } => {
            let (x, y) = (bytes_within(func, args[0], left)?, bytes_within(func, args[1], left)?);
            let f = |(a, b): (u8, u8)| match op {
                Opcode::Band => a & b,
                Opcode::Bor => a | b,
                _ => a ^ b,
            };
            x.into_iter().zip(y).map(f).collect()
        }
        InstructionData::Binary { opcode: op @ (Opcode::Ishl | Opcode::Ushr), args } if ty.lane_type().bytes() <= 8 => {
            let n = crate::query::constant_int(func, args[1])? as u32 % ty.lane_type().bits();
            let w = ty.lane_type().bytes() as usize;
            let mut out = Vec::new();
            for lane in bytes_within(func, args[0], left)?.chunks(w) {
                let mut word = [0; 8];
                word[..w].copy_from_slice(lane);
                let x = u64::from_le_bytes(word);
                let x = if op == Opcode::Ishl { x << n } else { x >> n };
                out.extend_from_slice(&x.to_le_bytes()[..w]);
            }
            out
        }
        InstructionData::Binary { opcode: Opcode::Iconcat, args } => {
            let mut lo = bytes_within(func, args[0], left)?;
            lo.extend(bytes_within(func, args[1], left)?);
            lo
        }
        _ => return None,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Const {
    /// Sign bit of every lane.
    Sign,
    /// Everything but the sign bit of every lane.
    Abs,
    /// Whole lanes set or clear.
    Lanes,
}

fn constant_kind(func: &ir::Function, v: ir::Value, lane: u32) -> Option<Const> {
    let bytes = constant_bytes(func, v)?;
    let lanes: Vec<&[u8]> = bytes.chunks(lane as usize).collect();
    let all = |f: &dyn Fn(usize, u8) -> bool| lanes.iter().all(|l| l.iter().enumerate().all(|(i, &b)| f(i, b)));
    let last = lane as usize - 1;
    if all(&|i, b| b == if i == last { 0x80 } else { 0 }) {
        Some(Const::Sign)
    } else if all(&|i, b| b == if i == last { 0x7f } else { 0xff }) {
        Some(Const::Abs)
    } else if lanes.iter().all(|l| l.iter().all(|&b| b == 0) || l.iter().all(|&b| b == 0xff)) {
        Some(Const::Lanes)
    } else {
        None
    }
}

/// Whether at most the sign bits of a value are set.
fn sign_only(func: &ir::Function, v: ir::Value, lane: u32) -> bool {
    fn go(func: &ir::Function, v: ir::Value, lane: u32, left: &mut Fuel) -> bool {
        if left.one_more().is_none() {
            return false;
        }
        if let Some(b) = constant_bytes(func, v) {
            return b.iter().enumerate().all(|(i, &x)| x & if i as u32 % lane == lane - 1 { 0x7f } else { 0xff } == 0);
        }
        match def(func, v) {
            Some((Opcode::Bitcast, a)) => go(func, a[0], lane, left),
            Some((Opcode::Band, a)) => a.iter().any(|&x| go(func, x, lane, left)),
            Some((Opcode::Bor | Opcode::Bxor, a)) => a.iter().all(|&x| go(func, x, lane, left)),
            _ => false,
        }
    }
    go(func, v, lane, &mut { Fuel::BITS })
}

/// Whether every lane of a value has all its bits equal. `lane` is the width of the floats that it
/// will mask.
pub fn is_mask(func: &ir::Function, v: ir::Value, lane: u32) -> bool {
    is_uniform(func, v, UniformLanes { lane, low: lane }, &mut { Fuel::MASK })
}

/// Of each `lane` bytes of a value, all bits of the first `low` are equal. Both are powers of two.
#[derive(Clone, Copy)]
struct UniformLanes {
    lane: u32,
    low: u32,
}

impl UniformLanes {
    /// The whole lane, in lanes of at least so many bytes.
    fn of_lanes(lane: u32) -> Self {
        Self { lane, low: lane }
    }
}

/// Whether bits of a value are equal. A mask is made by a comparison of lanes of its width, or of
/// one of another width, whose lanes are extended, narrowed or repeated.
fn is_uniform(func: &ir::Function, v: ir::Value, of: UniformLanes, left: &mut Fuel) -> bool {
    if left.one_more().is_none() {
        return false;
    }
    let UniformLanes { lane, low } = of;
    if constant_bytes(func, v).is_some() && constant_kind(func, v, lane) == Some(Const::Lanes) {
        return true;
    }
    let ty: Type = func.dfg.value_type(v);
    let width = |v: ir::Value| func.dfg.value_type(v).lane_type().bytes();
    let wide = width(v) >= lane;
    match def(func, v) {
        Some((Opcode::Fcmp | Opcode::Icmp, a)) => ty.is_vector() && width(a[0]) >= low,
        Some((Opcode::Bmask, _)) => wide,
        Some((Opcode::Sshr, a)) => {
            let bits = i64::from(ty.lane_type().bits());
            match crate::query::constant_int(func, a[1]) {
                // The sign bit in every bit.
                Some(n) if n == bits - 1 => wide,
                // The lower part of a lane is extended.
                Some(n) if width(v) == lane && n % 8 == 0 && (8..bits).contains(&n) => match def(func, a[0]) {
                    Some((Opcode::Ishl, b)) if crate::query::constant_int(func, b[1]) == Some(n) => {
                        let low = ((bits - n) / 8) as u32;
                        low.is_power_of_two() && is_uniform(func, b[0], UniformLanes { lane, low }, left)
                    }
                    _ => false,
                },
                _ => false,
            }
        }
        Some((Opcode::Bitcast | Opcode::Bnot, a)) => is_uniform(func, a[0], of, left),
        Some((Opcode::Sextend, a)) => is_uniform(func, a[0], UniformLanes::of_lanes(width(a[0])), left),
        Some((Opcode::SwidenLow | Opcode::SwidenHigh, a)) => {
            is_uniform(func, a[0], UniformLanes::of_lanes((lane / 2).max(width(a[0]))), left)
        }
        Some((Opcode::Snarrow, a)) => {
            let from = UniformLanes::of_lanes((2 * lane).max(width(a[0])));
            a.iter().all(|&x| is_uniform(func, x, from, left))
        }
        Some((Opcode::Shuffle, _)) => is_shuffled(func, v, of, left),
        Some((Opcode::Band | Opcode::Bor | Opcode::Bxor | Opcode::Bitselect, a)) => {
            a.iter().all(|&x| is_uniform(func, x, of, left))
        }
        Some((Opcode::Select, a)) => a[1..].iter().all(|&x| is_uniform(func, x, of, left)),
        Some((Opcode::Splat, a)) => is_uniform(func, a[0], of, left),
        // `-(c as u64)`: all ones or none.
        Some((Opcode::Ineg | Opcode::Isub | Opcode::Iadd, _)) if wide => of_bit(func, v).is_some(),
        _ => false,
    }
}

/// Whether bits are equal that a `shuffle` puts together: each group of them has been within one
/// of equal bits.
fn is_shuffled(func: &ir::Function, v: ir::Value, of: UniformLanes, left: &mut Fuel) -> bool {
    let inst = func.dfg.value_def(v).inst().expect("it is shuffled");
    let InstructionData::Shuffle { imm, args, .. } = func.dfg.insts[inst] else { return false };
    let from = func.dfg.immediates[imm].as_slice();
    let groups: Vec<&[u8]> = from.chunks(of.lane as usize).map(|group| &group[..of.low as usize]).collect();
    let within = |lane: u32| groups.iter().all(|g| g.iter().all(|&b| u32::from(b) / lane == u32::from(g[0]) / lane));
    let Some(lane) = [1, 2, 4, 8, 16].into_iter().find(|&lane| within(lane)) else { return false };
    let read = |side: usize| groups.iter().any(|g| usize::from(g[0]) / 16 == side);
    (0..2).filter(|&side| read(side)).all(|side| is_uniform(func, args[side], UniformLanes::of_lanes(lane), left))
}

/// Whether a scalar integer is zero or one.
fn is_bit(func: &ir::Function, v: ir::Value, left: &mut Fuel) -> bool {
    if left.one_more().is_none() || func.dfg.value_type(v).is_vector() {
        return false;
    }
    let constant = |v| crate::query::constant_int(func, v);
    if let Some(n) = constant(v) {
        return matches!(n, 0 | 1);
    }
    match def(func, v) {
        Some((Opcode::Fcmp | Opcode::Icmp, _)) => true,
        Some((Opcode::Uextend | Opcode::Ireduce, a)) => is_bit(func, a[0], left),
        Some((Opcode::Band, a)) => a.iter().any(|&x| is_bit(func, x, left)),
        Some((Opcode::Bor | Opcode::Bxor, a)) => a.iter().all(|&x| is_bit(func, x, left)),
        Some((Opcode::Select, a)) => a[1..].iter().all(|&x| is_bit(func, x, left)),
        Some((Opcode::Ushr, a)) => constant(a[1]) == Some(i64::from(func.dfg.value_type(v).bits()) - 1),
        _ => false,
    }
}

/// The number, zero or one, of which a scalar mask is made by arithmetic, and whether it has all
/// its bits where that is one: `-c`, or else `c - 1`.
fn of_bit(func: &ir::Function, v: ir::Value) -> Option<(ir::Value, bool)> {
    let constant = |v| crate::query::constant_int(func, v);
    let (c, ones) = match def(func, v)? {
        (Opcode::Ineg, a) => (a[0], true),
        (Opcode::Isub, a) if constant(a[0]) == Some(0) => (a[1], true),
        (Opcode::Isub, a) if constant(a[1]) == Some(1) => (a[0], false),
        (Opcode::Iadd, a) if constant(a[1]) == Some(-1) => (a[0], false),
        (Opcode::Iadd, a) if constant(a[0]) == Some(-1) => (a[1], false),
        _ => return None,
    };
    is_bit(func, c, &mut { Fuel::BITS }).then_some((c, ones))
}

/// The operands of a bitwise operation that are not what it is masked by, if there is a mask:
/// whatever that was made from, a float that it lets through is unchanged.
pub fn masked(func: &ir::Function, inst: ir::Inst, lane: u32) -> Option<SmallVec<[ir::Value; 2]>> {
    let a = func.dfg.inst_args(inst);
    match func.dfg.insts[inst].opcode() {
        // Of what width are the floats that it lets through?
        _ if lane == 0 => None,
        Opcode::Band => match [a[0], a[1]].map(|m| is_mask(func, m, lane)) {
            [true, false] => Some(SmallVec::from_slice(&a[1..])),
            [false, true] => Some(SmallVec::from_slice(&a[..1])),
            _ => None,
        },
        Opcode::Bitselect | Opcode::Blendv if is_mask(func, a[0], lane) => Some(SmallVec::from_slice(&a[1..])),
        _ => None,
    }
}

/// Whether one mask is the complement of the other.
fn complementary(func: &ir::Function, a: ir::Value, b: ir::Value) -> bool {
    let is_not = |x: ir::Value, y: ir::Value| matches!(def(func, x), Some((Opcode::Bnot, n)) if n[0] == y);
    if is_not(a, b) || is_not(b, a) {
        return true;
    }
    if let (Some(x), Some(y)) = (of_bit(func, a), of_bit(func, b)) {
        return x.0 == y.0 && x.1 != y.1;
    }
    match (constant_bytes(func, a), constant_bytes(func, b)) {
        (Some(x), Some(y)) => x.len() == y.len() && x.iter().zip(&y).all(|(p, q)| *p == !*q),
        _ => false,
    }
}

/// The mask by which a value was masked.
fn mask_of(func: &ir::Function, mut v: ir::Value, lane: u32) -> Option<ir::Value> {
    let mut left = Fuel::BITS;
    loop {
        left.one_more()?;
        match def(func, v)? {
            (Opcode::Band, a) => return a.iter().copied().find(|&m| is_mask(func, m, lane)),
            (Opcode::Bitcast, a) => v = a[0],
            _ => return None,
        }
    }
}

/// Which halves of a 64-bit word may be other than zero.
fn occupied(func: &ir::Function, v: ir::Value) -> u8 {
    fn go(func: &ir::Function, v: ir::Value, left: &mut Fuel) -> u8 {
        if left.one_more().is_none() {
            return 3;
        }
        if let Some(b) = constant_bytes(func, v) {
            return u8::from(b[..4].iter().any(|&x| x != 0)) | u8::from(b[4..].iter().any(|&x| x != 0)) << 1;
        }
        let shift = |v: ir::Value| crate::query::constant_int(func, v);
        match def(func, v) {
            Some((Opcode::Uextend, _)) => 1,
            Some((Opcode::Ishl, a)) if shift(a[1]) == Some(32) => go(func, a[0], left) << 1 & 3,
            Some((Opcode::Ushr, a)) if shift(a[1]) == Some(32) => go(func, a[0], left) >> 1,
            Some((Opcode::Band, a)) => go(func, a[0], left) & go(func, a[1], left),
            Some((Opcode::Bor | Opcode::Bxor, a)) => go(func, a[0], left) | go(func, a[1], left),
            _ => 3,
        }
    }
    go(func, v, &mut { Fuel::BITS })
}

/// Whether two 64-bit words of two singles use different halves.
fn apart(func: &ir::Function, a: ir::Value, b: ir::Value, lane: u32) -> bool {
    let word = |v| func.dfg.value_type(v) == ir::types::I64;
    lane == 4 && word(a) && word(b) && occupied(func, a) & occupied(func, b) == 0
}

/// The operand to which an operation adds no more than the other's sign bits, or whose sign it
/// changes by those: a cotangent goes to this one alone. Where `lane`, the width of the floats that
/// it carries, is 0, it is as wide as the lanes of the type.
pub fn signed(func: &ir::Function, inst: ir::Inst, lane: u32) -> Option<ir::Value> {
    let (Opcode::Bor | Opcode::Bxor) = func.dfg.insts[inst].opcode() else { return None };
    let &[x, y] = func.dfg.inst_args(inst) else { return None };
    let lane = if lane == 0 { func.dfg.value_type(x).lane_type().bytes() } else { lane };
    match [x, y].map(|v| sign_only(func, v, lane)) {
        [false, true] => Some(x),
        [true, false] => Some(y),
        _ => None,
    }
}

/// Recognise a bitwise operation; `lane` is the width in bytes of the floats that it carries,
/// `carries` tells which operands carry float bits that vary.
pub fn classify(func: &ir::Function, inst: ir::Inst, lane: u32, carries: impl Fn(ir::Value) -> bool) -> Option<BitOp> {
    let a = func.dfg.inst_args(inst);
    let kind = |v| constant_kind(func, v, lane);
    let op = func.dfg.insts[inst].opcode();
    match op {
        Opcode::Band | Opcode::Bor | Opcode::Bxor => {
            let (signed, masked) = (signed(func, inst, lane), masked(func, inst, lane));
            for (x, m) in [(a[0], a[1]), (a[1], a[0])] {
                // Sign bits, and masks, may be those of anything.
                let alone = signed == Some(x) || masked.as_deref() == Some(&[x]);
                if !carries(x) || carries(m) && !alone {
                    continue;
                }
                return Some(match (op, kind(m)) {
                    (Opcode::Band, Some(Const::Sign)) => BitOp::SignOnly,
                    (Opcode::Band, Some(Const::Abs)) => BitOp::Abs(x),
                    (Opcode::Bor, Some(Const::Sign)) => BitOp::NegAbs(x),
                    (Opcode::Bxor, Some(Const::Sign)) => BitOp::Neg(x),
                    (Opcode::Band, _) if is_mask(func, m, lane) => BitOp::Mask { x, mask: m },
                    (Opcode::Band, _) if sign_only(func, m, lane) => BitOp::SignOnly,
                    (Opcode::Bor, _) if sign_only(func, m, lane) => BitOp::OrSign { x, by: m },
                    (Opcode::Bxor, _) if sign_only(func, m, lane) => BitOp::Flip { x, by: m },
                    // The other operand is zero wherever this one is not.
                    (Opcode::Bor, _) if apart(func, x, m, lane) => BitOp::Blend(x, m),
                    (Opcode::Bor, _) => match (mask_of(func, x, lane), mask_of(func, m, lane)) {
                        (Some(p), Some(q)) if complementary(func, p, q) => BitOp::Blend(x, m),
                        _ => return None,
                    },
                    _ => return None,
                });
            }
            if op == Opcode::Bor && carries(a[0]) && carries(a[1]) {
                if apart(func, a[0], a[1], lane) {
                    return Some(BitOp::Blend(a[0], a[1]));
                }
                let (p, q) = (mask_of(func, a[0], lane)?, mask_of(func, a[1], lane)?);
                return complementary(func, p, q).then_some(BitOp::Blend(a[0], a[1]));
            }
            None
        }
        Opcode::Bitselect if !carries(a[0]) || is_mask(func, a[0], lane) => match kind(a[0]) {
            Some(Const::Sign) => Some(BitOp::Copysign { mag: a[2], sign: a[1] }),
            Some(Const::Abs) => Some(BitOp::Copysign { mag: a[1], sign: a[2] }),
            _ if is_mask(func, a[0], lane) => Some(BitOp::Choose { mask: a[0], x: a[1], y: a[2] }),
            _ => None,
        },
        Opcode::Blendv if is_mask(func, a[0], lane) => Some(BitOp::Choose { mask: a[0], x: a[1], y: a[2] }),
        _ => None,
    }
}

/// What a bitwise operation does to a scalar integer that is no more than a piece of memory, if
/// that is a change of sign, and the integer a float as wide as it, or if it lets it through or
/// not. That it is a float is for the run to see. `carries` tells which operands are pieces.
pub fn sign_of_piece(func: &ir::Function, inst: ir::Inst, carries: impl Fn(ir::Value) -> bool) -> Option<BitOp> {
    let ty = func.dfg.value_type(*func.dfg.inst_results(inst).first()?);
    let op = func.dfg.insts[inst].opcode();
    if !matches!(ty, ir::types::I32 | ir::types::I64) || !matches!(op, Opcode::Band | Opcode::Bor | Opcode::Bxor) {
        return None;
    }
    classify(func, inst, ty.bytes(), carries).filter(|op| match op {
        BitOp::Neg(_) | BitOp::Abs(_) | BitOp::NegAbs(_) | BitOp::Flip { .. } | BitOp::OrSign { .. } => true,
        // A mask that is constant leaves bytes where they are.
        BitOp::Mask { mask, .. } => constant_bytes(func, *mask).is_none(),
        _ => false,
    })
}

impl BitOp {
    /// Operands that a cotangent flows to.
    pub fn flows_to(self) -> Vec<ir::Value> {
        match self {
            BitOp::Neg(x) | BitOp::Abs(x) | BitOp::NegAbs(x) => vec![x],
            BitOp::Flip { x, .. } | BitOp::OrSign { x, .. } | BitOp::Mask { x, .. } => vec![x],
            BitOp::Blend(x, y) | BitOp::Choose { x, y, .. } => vec![x, y],
            BitOp::Copysign { mag, .. } => vec![mag],
            BitOp::SignOnly => vec![],
        }
    }
}
