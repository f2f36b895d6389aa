//! Types of arithmetic: operands and results of each operation.
//!
//! **Question.** Do the operands of an operation have the types that lowering relies on
//! (`lower/ops.rs`), and is its result of the type that it says? **Answer.** One table, by
//! operation. **Cost.** Constant per instruction.

use cranelift_codegen::ir::{Opcode, Type, types};

use crate::inst::Arith;

/// A type, if it is known.
type KnownTypes = Option<Type>;

/// Whether a type is known and is not as it should be.
fn is_not(ty: KnownTypes, ok: impl FnOnce(Type) -> bool) -> bool {
    ty.is_some_and(|ty| !ok(ty))
}

fn is_float(ty: Type) -> bool {
    ty.lane_type().is_float()
}

fn is_int(ty: Type) -> bool {
    ty.lane_type().is_int()
}

/// How many operands an operation has; `None` if any number.
fn operands(op: &Arith) -> Option<usize> {
    Some(match op {
        Arith::Const(_) | Arith::Iconst(_) => 0,
        Arith::Fneg
        | Arith::Fabs
        | Arith::Sqrt
        | Arith::Trunc
        | Arith::Nearest
        | Arith::Floor
        | Arith::IsZero
        | Arith::NonZero
        | Arith::Not
        | Arith::Bitcast
        | Arith::Promote
        | Arith::Demote
        | Arith::PromoteLow
        | Arith::DemoteLow
        | Arith::Extract(_)
        | Arith::Splat
        | Arith::ScalarToVector
        | Arith::UshrBy(_)
        | Arith::Copy
        | Arith::ToBits
        | Arith::FromBits(_)
        | Arith::Uextend
        | Arith::Ireduce
        | Arith::FromInt => 1,
        Arith::Fadd
        | Arith::Fsub
        | Arith::Fmul
        | Arith::Fdiv
        | Arith::Copysign
        | Arith::Fcmp(_)
        | Arith::Band
        | Arith::Bor
        | Arith::Bxor
        | Arith::KeepWhere
        | Arith::Insert(_)
        | Arith::ShuffleBytes(_)
        | Arith::Iadd
        | Arith::Isub
        | Arith::Imul
        | Arith::Icmp(_) => 2,
        Arith::Int(op) => op.constraints().num_fixed_value_arguments(),
        Arith::Bitselect | Arith::Select | Arith::SelectAll => 3,
        Arith::Math(_) => return None,
    })
}

/// Whether an operation takes operands of these types to a result of type `ty`.
pub(super) fn fits(op: &Arith, args: &[KnownTypes], ty: Type) -> bool {
    if operands(op).is_some_and(|n| n != args.len()) {
        return false;
    }
    let all = |ok: &dyn Fn(Type) -> bool| !args.iter().any(|&a| is_not(a, ok));
    let same = |ok: fn(Type) -> bool| ok(ty) && all(&|a| a == ty);
    let one = |from: Type, to: Type| ty == to && all(&|a| a == from);
    match op {
        Arith::Const(_) => ty.lane_type().is_float() || ty.is_int(),
        Arith::Iconst(_) => ty.is_int() && ty.bits() <= 64,
        Arith::Fadd
        | Arith::Fsub
        | Arith::Fmul
        | Arith::Fdiv
        | Arith::Fneg
        | Arith::Fabs
        | Arith::Sqrt
        | Arith::Trunc
        | Arith::Nearest
        | Arith::Floor
        | Arith::Copysign
        | Arith::NonZero
        | Arith::KeepWhere => same(is_float),
        Arith::Fcmp(_) => {
            let by = |a: Type| if a.is_vector() { ty.bits() == a.bits() } else { ty == types::I8 };
            all(&|a| is_float(a) && by(a)) && agree(args)
        }
        Arith::IsZero => ty == types::I8 && all(&|a| a.is_int()),
        Arith::Icmp(_) => ty == types::I8 && all(&|a| a.is_int()) && agree(args),
        Arith::Band | Arith::Bor | Arith::Bxor | Arith::Bitselect | Arith::Copy => same(|_| true),
        Arith::Not => all(&|a| if a.is_vector() { a == ty } else { a.is_int() && ty == types::I8 }),
        Arith::Select if ty.is_vector() => {
            !is_not(args[0], |c| c.bits() == ty.bits()) && !args[1..].iter().any(|&a| is_not(a, |a| a == ty))
        }
        Arith::Select | Arith::SelectAll => {
            !is_not(args[0], |c| c.is_int()) && !args[1..].iter().any(|&a| is_not(a, |a| a == ty))
        }
        Arith::Bitcast => all(&|a| a.bits() == ty.bits()),
        Arith::Promote => one(types::F32, types::F64),
        Arith::Demote => one(types::F64, types::F32),
        Arith::PromoteLow => one(types::F32X4, types::F64X2),
        Arith::DemoteLow => one(types::F64X2, types::F32X4),
        Arith::Extract(lane) => all(&|a| a.is_vector() && a.lane_type() == ty && u32::from(*lane) < a.lane_count()),
        Arith::Insert(lane) => {
            let vector = ty.is_vector() && u32::from(*lane) < ty.lane_count() && !is_not(args[0], |a| a == ty);
            vector && !is_not(args[1], |a| a == ty.lane_type())
        }
        Arith::Splat | Arith::ScalarToVector => ty.is_vector() && all(&|a| a == ty.lane_type()),
        Arith::ShuffleBytes(_) => ty.bytes() == 16 && all(&|a| a.bytes() == 16),
        Arith::Iadd | Arith::Isub | Arith::Imul | Arith::UshrBy(_) => same(is_int),
        // How far bits go is a number of any type.
        Arith::Int(Opcode::Ishl | Opcode::Ushr | Opcode::Rotl | Opcode::Rotr) => {
            all(&is_int) && !is_not(args[0], |a| a == ty)
        }
        Arith::Int(_) => same(is_int),
        Arith::Math(_) => is_float(ty) && !args.is_empty(),
        Arith::ToBits => all(&|a| a.bits() == ty.bits() || a == types::F32X4 && ty.bytes() == 8),
        Arith::FromBits(shape) => ty == shape.ty() && all(&|a| a.bytes() == shape.bytes()),
        Arith::Uextend => ty.is_int() && all(&|a| a.is_int() && a.bits() < ty.bits()),
        Arith::Ireduce => ty.is_int() && all(&|a| a.is_int() && a.bits() > ty.bits()),
        Arith::FromInt => is_float(ty) && all(&is_int),
    }
}

/// Whether two operands have one type.
fn agree(args: &[KnownTypes]) -> bool {
    match args {
        [Some(a), Some(b)] => a == b,
        _ => true,
    }
}
