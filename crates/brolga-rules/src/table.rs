//! Table of derivative rules: one row for each CLIF opcode.
//!
//! **Question.** What does an opcode mean for derivatives?
//!
//! **Answer.** [`opcode_rule`] is a single `match` without a wildcard: a Cranelift release that
//! adds an opcode does not compile until the opcode has a row. Rows are of five kinds
//! ([`OpcodeRule`]): a formula, something structural that the transform does ([`Structural`]), and
//! three that claim "no derivative here". Those are kept apart because they claim different things,
//! and each is checked for what it claims.
//!
//! Float rows follow one policy where the derivative does not exist, written down in
//! `docs/KINKS.md`. [`is_pure`] says of an opcode whether it may be computed again elsewhere.
//!
//! **Errors.** A [`Refusal`] has the code of its diagnostic, the reason, and what to do instead.
//!
//! **Cost.** A jump table; formulas are built once, when they are first asked for. None at run
//! time.

use cranelift_codegen::ir::Opcode;

use crate::expr::E;
use crate::row::{ExprRow, Partial, over, over_times, row, times};

/// What an opcode means for derivatives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OpcodeRule {
    /// A pointwise float operation, lane by lane for vectors: cotangents of the operands by
    /// formula.
    Expr(&'static ExprRow),
    /// Needs memory, a callee, control flow or a rearrangement of lanes, which are not this crate's
    /// business.
    Structural(Structural),
    /// Takes or gives floats (or their bits), and its derivative is zero wherever it exists.
    Zero,
    /// Works on integers in a way that keeps neither a pointer nor the bits of a float intact. An
    /// active value that reaches it is an error, never a silent zero.
    NotFloat,
    /// Not differentiated.
    Refused(Refusal),
}

/// Why an opcode is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// Code of the diagnostic.
    pub code: &'static str,
    /// The reason, a clause without a full stop.
    pub why: &'static str,
    /// What to do instead, a sentence without a full stop.
    pub help: &'static str,
}

/// What has to be done for an opcode that is not a formula. `z̄` is the cotangent of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Structural {
    /// `z = load p`: the shadow of the place that was read gets `+= z̄`.
    Load,
    /// `store x, p`: `x̄ +=` the shadow of the place, which is then cleared.
    Store,
    /// An integer load narrower than its result; tells nothing of floats unless the bits are put
    /// together again.
    IntLoad,
    /// An integer store narrower than its operand; clears the shadow of the place.
    IntStore,
    /// As [`Structural::Load`], with the same memory ordering on the shadow.
    AtomicLoad,
    /// As [`Structural::Store`], with the same memory ordering on the shadow.
    AtomicStore,
    /// Read, modify, write: of integers only, so floats pass through `xchg` as bits.
    AtomicRmw,
    /// Compare and swap: the usual way to add to a float atomically.
    AtomicCas,
    /// `z = c ? x : y` for a whole value: `z̄` goes to the one that was chosen.
    Select,
    /// `z = (c & x) | (!c & y)`: with a lane mask for `c`, a lane-wise [`Structural::Select`].
    Bitselect,
    /// As [`Structural::Bitselect`], lanes chosen by the top bit of each lane of `c` (x86).
    Blendv,
    /// The same bits under another type: `x̄ +=` the bits of `z̄`, if both are floats of the same
    /// lane width.
    Bitcast,
    /// A scalar in every lane: `x̄ += Σ z̄`.
    Splat,
    /// `x` with one lane replaced by `y`: `x̄ += z̄` without that lane, `ȳ += ` that lane.
    Insertlane,
    /// One lane: that lane of `x̄ += z̄`.
    Extractlane,
    /// A scalar in lane 0, other lanes zero: `x̄ += z̄[0]`.
    ScalarToVector,
    /// Bytes of two vectors, chosen by constants: whole lanes go back to where they came from.
    Shuffle,
    /// Bytes chosen by a vector, zero if the index is 16 or more.
    Swizzle,
    /// Bytes chosen by a vector, zero if the index has its top bit set (x86).
    Pshufb,
    /// `f32` to a wider float: `x̄ += demote z̄`.
    Promote,
    /// To a narrower float: `x̄ += promote z̄`.
    Demote,
    /// The two low lanes of an `f32x4` to `f64x2`: `x̄ += demote z̄`, high lanes zero.
    PromoteLow,
    /// `f64x2` to the two low lanes of an `f32x4`: `x̄ +=` the promoted low lanes of `z̄`.
    DemoteLow,
    /// Bitwise and: on float bits, an absolute value or a lane mask.
    Band,
    /// Bitwise or: on float bits, a lane blend, a negative absolute value, or a sign put in.
    Bor,
    /// Bitwise exclusive or: on float bits, a negation or a conditional one.
    Bxor,
    /// Bitwise not: on a lane mask.
    Bnot,
    /// A direct call.
    Call,
    /// A call through a pointer.
    CallIndirect,
    /// A direct call in tail position: a call and a return.
    TailCall,
    /// A call through a pointer in tail position.
    TailCallIndirect,
    /// The address of a stack slot, which has a shadow slot.
    StackAddr,
    /// The address of a data object, which may have a shadow object.
    SymbolValue,
    /// The address of a function, which may stand for its derivative in an indirect call.
    FuncAddr,
    /// A terminator without a call: `jump`, `brif`, `br_table`, `return`.
    Control,
    /// Ends or may end the program by a trap: part of the forward pass only, since the pullback
    /// runs only if it did not.
    Trap,
    /// An effect without a value: part of the forward pass only.
    Effect,
    /// An address or register of the running machine: different in the pullback, so it must be
    /// recorded if it is needed.
    Machine,
    /// Integer arithmetic that pointers go through. No cotangent; the shadow of the result derives
    /// from those of the operands by the same operation.
    IntArith,
    /// Integer arithmetic that also packs and unpacks whole floats as bits: `iconcat`, shifts,
    /// extensions, reductions.
    IntBits,
}

const EXCEPTIONS: Refusal = Refusal {
    code: "AD0101",
    why: "an exception that unwinds past recorded blocks would leave the record half written",
    help: "catch the exception outside of the differentiated function, or return an error code",
};
const HANDLER_ADDRESS: Refusal = Refusal {
    code: "AD0102",
    why: "the address of an exception handler belongs to one compiled function, and the forward pass is another",
    help: "catch the exception outside of the differentiated function, or return an error code",
};
const STACK_SWITCH: Refusal = Refusal {
    code: "AD0103",
    why: "the code that runs on the other stack is not known here",
    help: "differentiate the function that runs on the other stack instead",
};
const THREAD_LOCAL: Refusal = Refusal {
    code: "AD0104",
    why: "thread-local data has one address per thread, and so no single shadow",
    help: "pass a pointer to the data as an argument",
};
const PINNED_REG: Refusal = Refusal {
    code: "AD0105",
    why: "the pinned register is an input and output that no signature mentions",
    help: "pass its value as an argument",
};
const DYNAMIC_VECTOR: Refusal = Refusal {
    code: "AD0106",
    why: "the number of lanes of a dynamic vector is not known, and no backend compiles arithmetic on it",
    help: "use vectors of fixed width",
};

/// sign(x), zero at zero. Made of comparisons, since no backend compiles `fcopysign` on vectors.
pub(crate) fn sign(x: &E) -> E {
    x.gt(0.0).select(1.0, x.lt(0.0).select(-1.0, 0.0))
}

/// sign(x)·sign(y), where sign bits decide, as they do in `fcopysign`: `y` has one at zero, and
/// both have one where they are NaN. But `x` is zero at zero.
fn same_signs(x: &E, y: &E) -> E {
    let one = E::constant(1.0);
    x.eq(0.0).select(0.0, one.copysign(x) * one.copysign(y))
}

/// The share of `x` in max(x, y): all, none, or at a tie half. A NaN operand is the result, so it
/// gets all.
fn share_of_larger(x: &E, y: &E) -> E {
    x.gt(y).select(1.0, x.eq(y).select(0.5, x.is_nan().select(1.0, 0.0)))
}

/// The share of `x` in min(x, y). Not the share of `y` in their maximum: that one would ask `y`
/// whether it is NaN.
fn share_of_smaller(x: &E, y: &E) -> E {
    x.lt(y).select(1.0, x.eq(y).select(0.5, x.is_nan().select(1.0, 0.0)))
}

/// The row of an opcode.
pub fn opcode_rule(op: Opcode) -> OpcodeRule {
    use OpcodeRule::{Expr, NotFloat, Refused, Structural as S, Zero};
    use Structural::*;
    const ONE: Partial = Partial::ONE;
    const MINUS_ONE: Partial = Partial::MINUS_ONE;
    match op {
        // Float arithmetic.
        Opcode::Fadd => Expr(row!(x, y => z: ONE, ONE)),
        Opcode::Fsub => Expr(row!(x, y => z: ONE, MINUS_ONE)),
        Opcode::Fmul => Expr(row!(x, y => z: times(y), times(x))),
        // Both divide the cotangent by y: one division serves two operands.
        Opcode::Fdiv => Expr(row!(x, y => z: over(y), -over_times(y, z))),
        Opcode::Fma => Expr(row!(x, y, c => z: times(y), times(x), ONE)),
        // The absolute value is for x = -0, where z is -0 and the derivative is +∞ all the same.
        Opcode::Sqrt => Expr(row!(x => z: over((z + z).abs()).at_edge())),
        Opcode::Fneg => Expr(row!(x => z: MINUS_ONE)),
        Opcode::Fabs => Expr(row!(x => z: times(sign(x)))),
        Opcode::Fmax => Expr(row!(x, y => z: times(share_of_larger(x, y)), times(share_of_larger(y, x)))),
        Opcode::Fmin => Expr(row!(x, y => z: times(share_of_smaller(x, y)), times(share_of_smaller(y, x)))),
        Opcode::Fcopysign => Expr(row!(x, y => z: times(same_signs(x, y)).bounded(), Partial::Zero)),

        // Conversions between float types are linear.
        Opcode::Fpromote => S(Promote),
        Opcode::Fdemote => S(Demote),
        Opcode::FvpromoteLow => S(PromoteLow),
        Opcode::Fvdemote => S(DemoteLow),

        // Piecewise constant in any float that reaches them.
        Opcode::Ceil | Opcode::Floor | Opcode::Trunc | Opcode::Nearest => Zero,
        Opcode::Fcmp | Opcode::Icmp | Opcode::Bmask | Opcode::VanyTrue | Opcode::VallTrue | Opcode::VhighBits => Zero,
        Opcode::FcvtToUint | Opcode::FcvtToSint | Opcode::FcvtToUintSat | Opcode::FcvtToSintSat => Zero,
        Opcode::X86Cvtt2dq | Opcode::FcvtFromUint | Opcode::FcvtFromSint => Zero,
        Opcode::F16const | Opcode::F32const | Opcode::F64const | Opcode::F128const | Opcode::Vconst => Zero,

        // Values that move whole.
        Opcode::Select | Opcode::SelectSpectreGuard => S(Select),
        Opcode::Bitselect => S(Bitselect),
        Opcode::Blendv => S(Blendv),
        Opcode::Bitcast => S(Bitcast),
        Opcode::Splat => S(Splat),
        Opcode::Insertlane => S(Insertlane),
        Opcode::Extractlane => S(Extractlane),
        Opcode::ScalarToVector => S(ScalarToVector),
        Opcode::Shuffle => S(Shuffle),
        Opcode::Swizzle => S(Swizzle),
        Opcode::X86Pshufb => S(Pshufb),

        // Bitwise operations are legal on floats.
        Opcode::Band => S(Band),
        Opcode::Bor => S(Bor),
        Opcode::Bxor => S(Bxor),
        Opcode::Bnot => S(Bnot),

        // Memory.
        Opcode::Load => S(Load),
        Opcode::Store => S(Store),
        Opcode::Uload8 | Opcode::Sload8 | Opcode::Uload16 | Opcode::Sload16 | Opcode::Uload32 | Opcode::Sload32 => {
            S(IntLoad)
        }
        Opcode::Uload8x8
        | Opcode::Sload8x8
        | Opcode::Uload16x4
        | Opcode::Sload16x4
        | Opcode::Uload32x2
        | Opcode::Sload32x2 => S(IntLoad),
        Opcode::Istore8 | Opcode::Istore16 | Opcode::Istore32 => S(IntStore),
        Opcode::AtomicLoad => S(AtomicLoad),
        Opcode::AtomicStore => S(AtomicStore),
        Opcode::AtomicRmw => S(AtomicRmw),
        Opcode::AtomicCas => S(AtomicCas),
        Opcode::StackAddr => S(StackAddr),
        Opcode::SymbolValue => S(SymbolValue),
        Opcode::TlsValue => Refused(THREAD_LOCAL),

        // Calls and control flow.
        Opcode::Call => S(Call),
        Opcode::CallIndirect => S(CallIndirect),
        Opcode::ReturnCall => S(TailCall),
        Opcode::ReturnCallIndirect => S(TailCallIndirect),
        Opcode::FuncAddr => S(FuncAddr),
        Opcode::Jump | Opcode::Brif | Opcode::BrTable | Opcode::Return => S(Control),
        Opcode::Trap | Opcode::Trapz | Opcode::Trapnz => S(Trap),
        Opcode::Debugtrap | Opcode::Fence | Opcode::SequencePoint | Opcode::Nop => S(Effect),
        Opcode::TryCall | Opcode::TryCallIndirect => Refused(EXCEPTIONS),
        Opcode::GetExceptionHandlerAddress => Refused(HANDLER_ADDRESS),
        Opcode::StackSwitch => Refused(STACK_SWITCH),
        Opcode::GetPinnedReg | Opcode::SetPinnedReg => Refused(PINNED_REG),
        Opcode::GetFramePointer | Opcode::GetStackPointer | Opcode::GetReturnAddress => S(Machine),
        Opcode::DynamicStackAddr | Opcode::ExtractVector => Refused(DYNAMIC_VECTOR),

        // Integer arithmetic that pointers go through: offsets, alignment, bounds, tags.
        Opcode::Iconst | Opcode::Iadd | Opcode::Isub | Opcode::Ineg | Opcode::Imul => S(IntArith),
        Opcode::UaddOverflow | Opcode::UaddOverflowTrap | Opcode::UsubOverflow => S(IntArith),
        Opcode::SaddOverflow | Opcode::SsubOverflow | Opcode::UaddSat | Opcode::UsubSat => S(IntArith),
        Opcode::Umin | Opcode::Umax | Opcode::Smin | Opcode::Smax => S(IntArith),

        // Integer arithmetic that packs and unpacks.
        Opcode::Uextend | Opcode::Sextend | Opcode::Ireduce | Opcode::Isplit | Opcode::Iconcat => S(IntBits),
        Opcode::Ishl | Opcode::Ushr | Opcode::Sshr | Opcode::Rotl | Opcode::Rotr | Opcode::Bswap => S(IntBits),

        // All other integer arithmetic.
        Opcode::AvgRound | Opcode::SaddSat | Opcode::SsubSat | Opcode::Iabs => NotFloat,
        Opcode::Umulhi | Opcode::Smulhi | Opcode::SqmulRoundSat | Opcode::X86Pmulhrsw | Opcode::X86Pmaddubsw => {
            NotFloat
        }
        Opcode::Udiv | Opcode::Sdiv | Opcode::Urem | Opcode::Srem => NotFloat,
        Opcode::SaddOverflowCin | Opcode::UaddOverflowCin | Opcode::SsubOverflowBin | Opcode::UsubOverflowBin => {
            NotFloat
        }
        Opcode::UmulOverflow | Opcode::SmulOverflow => NotFloat,
        Opcode::Bitrev | Opcode::Clz | Opcode::Cls | Opcode::Ctz | Opcode::Popcnt => NotFloat,
        Opcode::Snarrow | Opcode::Unarrow | Opcode::Uunarrow | Opcode::IaddPairwise => NotFloat,
        Opcode::SwidenLow | Opcode::SwidenHigh | Opcode::UwidenLow | Opcode::UwidenHigh => NotFloat,
    }
}

/// Whether the result depends on the operands (and immediates) alone, and computing it again in
/// another function has no side effect and cannot trap.
///
/// Loads are not pure, whatever their flags: that memory is unchanged is for an analysis to say.
/// Nor are addresses that belong to one frame: a stack slot of the forward pass is not one of the
/// pullback.
pub fn is_pure(op: Opcode) -> bool {
    let effect = op.can_load() || op.can_store() || op.can_trap() || op.other_side_effects();
    let control = op.is_terminator() || op.is_branch() || op.is_call() || op.is_return();
    let frame = match opcode_rule(op) {
        OpcodeRule::Expr(_) | OpcodeRule::Zero | OpcodeRule::NotFloat => false,
        OpcodeRule::Structural(s) => matches!(s, Structural::StackAddr | Structural::Machine | Structural::Effect),
        OpcodeRule::Refused(_) => true,
    };
    !(effect || control || frame)
}
