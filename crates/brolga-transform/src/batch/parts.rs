//! Parts of wide values: which types hold N values of one.
//!
//! **Question.** Which types hold N values of one type?
//!
//! **Answer.** Those of an `f64` are ⌊N/2⌋ `f64x2`, and an `f64` if N is odd; those of an `f32` are
//! ⌊N/4⌋ `f32x4`, and N mod 4 times an `f32`. Those of anything else are N of it.
//!
//! **Cost.** ⌈N/2⌉ vectors or scalars for N values of `f64`.

use brolga_ir::inst::Val;
use cranelift_codegen::ir::{Type, types};

/// A name that stands for N values.
#[derive(Clone, Debug)]
pub(super) struct WideValue {
    /// The type of one.
    pub ty: Type,
    /// What holds them.
    pub parts: Vec<Val>,
}

/// The vector of a float type, with its number of lanes.
pub(super) fn vector(ty: Type) -> Option<(Type, usize)> {
    match ty {
        types::F64 => Some((types::F64X2, 2)),
        types::F32 => Some((types::F32X4, 4)),
        _ => None,
    }
}

/// Types of the parts that hold so many values of a type.
pub(crate) fn chunks(ty: Type, width: usize) -> Vec<Type> {
    match vector(ty) {
        Some((vector, n)) => [vec![vector; width / n], vec![ty; width % n]].concat(),
        None => vec![ty; width],
    }
}
