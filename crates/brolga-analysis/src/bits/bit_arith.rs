//! Ulp arithmetic, instruction by instruction: which integer instructions count in units of a
//! float's last place ([`crate::activity::ulp`]).
//!
//! **Question.** An integer may be the bits of a float. Which instructions may be steps on such
//! bits, and which operand is the float's bits?
//!
//! **Answer.** By opcode and constants:
//!
//! | instruction | step |
//! |---|---|
//! | `iadd`, `isub` | a sum or a difference |
//! | `band` with a mask that leaves the mantissa | the exponent goes |
//! | `bor`, `bxor` with what has no mantissa | the exponent comes |
//! | a division, a shift to the right, a mask that cuts last digits off | bits count several times as much, or are rounded |
//!
//! Whether one is a step is for the analysis to say, which knows where its operands come from.
//!
//! **Cost.** A few operands for each question; [`close_backwards`] is a worklist, which takes each
//! value once.

use cranelift_codegen::ir::{self, Opcode, ValueDef, types};
use cranelift_entity::EntitySet;

use crate::bits::bit_idioms::signed;
use crate::bits::exponent::{has_no_mantissa, mantissa_bits};
use crate::query::constant_int;

/// An integer as wide as a float.
pub(crate) fn is_word(func: &ir::Function, v: ir::Value) -> bool {
    matches!(func.dfg.value_type(v), types::I32 | types::I64)
}

/// What kind of step an instruction may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum BitKind {
    /// A sum or a difference.
    Sum,
    /// The exponent goes, or comes.
    Exponent,
    /// Bits are divided by a number, or the last of them cut off.
    Rough(f64),
}

pub(crate) fn kind(func: &ir::Function, inst: ir::Inst) -> Option<BitKind> {
    let &[a, b] = func.dfg.inst_args(inst) else { return None };
    let bits = mantissa_bits(func.dfg.value_type(a)).filter(|_| is_word(func, a))?;
    let constant = |v: ir::Value| constant_int(func, v);
    match func.dfg.insts[inst].opcode() {
        Opcode::Iadd | Opcode::Isub => Some(BitKind::Sum),
        Opcode::Band => {
            let mask = [(a, b), (b, a)].into_iter().find_map(|(x, m)| constant(m).filter(|_| constant(x).is_none()))?;
            let unused = 64 - func.dfg.value_type(a).bits();
            let mask = mask as u64 & u64::MAX >> unused;
            let (all, sign, mantissa) = (u64::MAX >> unused, 1 << (63 - unused), (1 << bits) - 1);
            let last = mask.trailing_zeros();
            // All but the sign is what `bits` knows, and all of it is a copy.
            if mask & mantissa == mantissa && mask | sign != all {
                Some(BitKind::Exponent)
            } else {
                (mask != 0 && mask | sign == all >> last << last && (1..bits).contains(&last.into()))
                    .then_some(BitKind::Rough(1.0))
            }
        }
        // Signs are another matter.
        Opcode::Bor | Opcode::Bxor => {
            let bare = |v| has_no_mantissa(func, v);
            (bare(a) != bare(b) && signed(func, inst, 0).is_none()).then_some(BitKind::Exponent)
        }
        // Bits are numbers with a sign or without one: that changes what a negative float becomes,
        // and not by how much it moves.
        Opcode::Ushr | Opcode::Sshr => {
            constant(b).filter(|by| (1..8).contains(by)).map(|by| BitKind::Rough(f64::from(1_u32 << by)))
        }
        Opcode::Udiv | Opcode::Sdiv => {
            constant(b).filter(|by| (2..256).contains(by)).map(|by| BitKind::Rough(by as f64))
        }
        _ => None,
    }
}

/// The two operands, where an instruction may be a step.
pub(crate) fn candidate(func: &ir::Function, inst: ir::Inst) -> Option<[ir::Value; 2]> {
    let &[a, b] = func.dfg.inst_args(inst) else { return None };
    kind(func, inst).map(|_| [a, b])
}

/// By how much a step divides the bits.
pub fn divides_by(func: &ir::Function, inst: ir::Inst) -> f64 {
    match kind(func, inst) {
        Some(BitKind::Rough(by)) => by,
        _ => 1.0,
    }
}

/// Add what leads to some integers, by moves and steps.
pub(crate) fn close_backwards(
    func: &ir::Function,
    incoming: impl Fn(ir::Block, usize) -> Vec<ir::Value>,
    mut work: Vec<ir::Value>,
    found: &mut EntitySet<ir::Value>,
) {
    while let Some(v) = work.pop() {
        if !is_word(func, v) || constant_int(func, v).is_some() || !found.insert(v) {
            continue;
        }
        match func.dfg.value_def(v) {
            ValueDef::Param(b, i) => work.extend(incoming(b, i)),
            ValueDef::Result(inst, _) => match candidate(func, inst) {
                Some(args) => work.extend(beside_number(func, args).map(|n| args[usize::from(n)])),
                None => work.extend(moved_from(func, inst)),
            },
            ValueDef::Union(..) => {}
        }
    }
}

/// Which operand of a candidate is a float's bits if its result becomes a float: the one beside a
/// number.
pub(crate) fn beside_number(func: &ir::Function, [a, b]: [ir::Value; 2]) -> Option<u8> {
    let number = |v, beside| is_number(func, v, 4) || digits_of(func, v, beside).is_some();
    match [number(a, b), number(b, a)] {
        [false, true] => Some(0),
        [true, false] => Some(1),
        _ => None,
    }
}

/// Of a sum or difference, the operand that is some last digits of the other one, by a mask, and
/// maybe a number: that rounds. The uppermost digit of the mantissa is none of them. For what the
/// mask leaves has no slope on the whole, whether it was shifted down before or not.
pub(crate) fn trailing_digits(func: &ir::Function, inst: ir::Inst) -> Option<u8> {
    digits_taken(func, inst).map(|(k, _)| k)
}

/// The same, with how many digits of the mantissa are below the uppermost of them.
fn digits_taken(func: &ir::Function, inst: ir::Inst) -> Option<(u8, i64)> {
    let args = candidate(func, inst).filter(|_| kind(func, inst) == Some(BitKind::Sum))?;
    let first = if func.dfg.insts[inst].opcode() == Opcode::Iadd { 0 } else { 1 };
    (first..2).find_map(|k: u8| {
        let k = usize::from(k);
        Some((k as u8, digits_of(func, args[k], args[1 - k])?))
    })
}

/// The integer that an instruction rounds as the bits of floats are rounded: by more of its own
/// last digits than are counted with, or by half of the last that a mask leaves.
pub(crate) fn rounded(func: &ir::Function, inst: ir::Inst) -> Option<ir::Value> {
    const FEW: i64 = 8;
    let &[a, b] = func.dfg.inst_args(inst) else { return None };
    if func.dfg.insts[inst].opcode() != Opcode::Band {
        let (k, below) = digits_taken(func, inst)?;
        return (below >= FEW).then_some([b, a][usize::from(k)]);
    }
    let v = func.dfg.first_result(inst);
    let (x, mask) = masked(func, v).filter(|m| m.1 != 0)?;
    let last = mask.trailing_zeros();
    let cuts = mask == u64::MAX >> (64 - func.dfg.value_type(v).bits()) >> last << last && i64::from(last) > FEW;
    let sum = func.dfg.value_def(x).inst().filter(|&i| cuts && func.dfg.insts[i].opcode() == Opcode::Iadd)?;
    let args = func.dfg.inst_args(sum);
    let half = |k: usize| constant_int(func, args[k]) == Some(1 << (last - 1));
    [1, 0].into_iter().find(|&k| half(k)).map(|k| args[1 - k])
}

/// How many digits of the mantissa are below the uppermost of those that an integer has of another
/// one, if it has some last digits.
fn digits_of(func: &ir::Function, v: ir::Value, of: ir::Value) -> Option<i64> {
    let v = origin(func, v);
    let (x, mask) = masked(func, v).filter(|m| m.1 != 0).unwrap_or((v, u64::MAX));
    let shift =
        func.dfg.value_def(x).inst().filter(|&i| matches!(func.dfg.insts[i].opcode(), Opcode::Ushr | Opcode::Sshr));
    let (x, by) = match shift.map(|i| func.dfg.inst_args(i)) {
        Some(&[y, by]) => (y, constant_int(func, by).filter(|by| *by >= 0)?),
        _ => (x, 0),
    };
    let bits = mantissa_bits(func.dfg.value_type(x)).filter(|_| is_word(func, x))?;
    let top = 63 - i64::from(mask.leading_zeros()) + by;
    // Or sign and exponent, which are none.
    let top = if by >= bits { 0 } else { top };
    (top < bits - 1 && origin(func, x) == origin(func, of)).then_some(top)
}

/// The operand of a mask that is a constant, and that.
fn masked(func: &ir::Function, v: ir::Value) -> Option<(ir::Value, u64)> {
    let band = |&i: &ir::Inst| is_word(func, v) && func.dfg.insts[i].opcode() == Opcode::Band;
    let inst = func.dfg.value_def(v).inst().filter(band)?;
    let &[a, b] = func.dfg.inst_args(inst) else { return None };
    let unused = 64 - func.dfg.value_type(v).bits();
    let all = |mask: i64| mask as u64 & u64::MAX >> unused;
    constant_int(func, b).map(|m| (a, all(m))).or_else(|| constant_int(func, a).map(|m| (b, all(m))))
}

/// What constants have been added to, or got another sign, or lost last digits.
pub(crate) fn origin(func: &ir::Function, v: ir::Value) -> ir::Value {
    const MOST: usize = 8;
    let mut v = func.dfg.resolve_aliases(v);
    for _ in 0..MOST {
        let Some(inst) = func.dfg.value_def(v).inst().filter(|_| is_word(func, v)) else { break };
        let &[a, b] = func.dfg.inst_args(inst) else { break };
        let Some((x, c)) = constant_int(func, b).map(|c| (a, c)).or_else(|| constant_int(func, a).map(|c| (b, c)))
        else {
            break;
        };
        let unused = 64 - func.dfg.value_type(v).bits();
        let (c, sign) = (c as u64 & u64::MAX >> unused, 1 << (63 - unused));
        let same = match func.dfg.insts[inst].opcode() {
            Opcode::Iadd => true,
            Opcode::Isub => x == a,
            Opcode::Bor | Opcode::Bxor => c == sign,
            Opcode::Band => c | sign == u64::MAX >> unused || kind(func, inst) == Some(BitKind::Rough(1.0)),
            _ => false,
        };
        if !same {
            break;
        }
        v = func.dfg.resolve_aliases(x);
    }
    v
}

/// Whether a value is plainly a number: a constant, or calculated in a way that leaves no float's
/// bits whole.
pub(crate) fn is_number(func: &ir::Function, v: ir::Value, depth: u32) -> bool {
    if constant_int(func, v).is_some() {
        return true;
    }
    let Some(inst) = func.dfg.value_def(v).inst().filter(|_| depth > 0) else { return false };
    let args = func.dfg.inst_args(inst);
    match func.dfg.insts[inst].opcode() {
        Opcode::Ishl | Opcode::Imul | Opcode::Ineg | Opcode::Uextend | Opcode::Sextend => true,
        Opcode::FcvtToSint | Opcode::FcvtToUint | Opcode::FcvtToSintSat | Opcode::FcvtToUintSat => true,
        Opcode::Select => args[1..].iter().all(|&x| is_number(func, x, depth - 1)),
        // Some last digits, of whatever.
        Opcode::Band
            if let (Some((_, mask)), Some(bits)) = (masked(func, v), mantissa_bits(func.dfg.value_type(v))) =>
        {
            mask >> (bits - 1) == 0 || has_no_mantissa(func, v)
        }
        _ => has_no_mantissa(func, v),
    }
}

/// The operands of which a value is one, where its definition only moves bits, or changes a float's
/// sign.
pub(crate) fn moved_from(func: &ir::Function, inst: ir::Inst) -> &[ir::Value] {
    let args = func.dfg.inst_args(inst);
    match func.dfg.insts[inst].opcode() {
        Opcode::Select | Opcode::SelectSpectreGuard => &args[1..],
        // A mask of signs and exponents leaves no float.
        Opcode::Band if args.iter().any(|&a| has_no_mantissa(func, a)) => &[],
        Opcode::Band | Opcode::Bor | Opcode::Bxor => args,
        Opcode::Bitcast if is_word(func, args[0]) => args,
        _ => &[],
    }
}
