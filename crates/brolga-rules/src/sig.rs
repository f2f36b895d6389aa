//! Signatures of known functions, independent of the target.
//!
//! **Question.** A call of an imported `malloc` or `sin` has CLIF types. Are they those of the
//! function that is known by that name?
//!
//! **Answer.** A [`Ty`] is a type of C's; [`Ty::accepts`] says whether a CLIF type is that on a
//! target. Code that was compiled for a 32-bit memory but runs in a 64-bit process passes addresses
//! in either width, so both are accepted for pointers and sizes.
//!
//! **Cost.** A comparison for each parameter and result of a call. None at run time.

use cranelift_codegen::ir::{Type, types};

/// The type of a parameter or result of a known C function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// `double`.
    F64,
    /// `float`.
    F32,
    /// `int`.
    I32,
    /// `long` or `long long`.
    I64,
    /// An object pointer.
    Ptr,
    /// `size_t`: as wide as a pointer.
    Size,
}

impl Ty {
    /// Whether a value of CLIF type `ty` is one of these, on a target with pointers of type
    /// `pointer`.
    ///
    /// Code that was compiled for a 32-bit memory but runs in a 64-bit process passes addresses in
    /// either width, so both are accepted for pointers and sizes.
    pub fn accepts(self, ty: Type, pointer: Type) -> bool {
        match self {
            Ty::F64 => ty == types::F64,
            Ty::F32 => ty == types::F32,
            Ty::I32 => ty == types::I32,
            Ty::I64 => ty == types::I64,
            Ty::Ptr | Ty::Size => ty == pointer || ty == types::I32,
        }
    }

    /// Whether this is a float.
    pub fn is_float(self) -> bool {
        matches!(self, Ty::F64 | Ty::F32)
    }

    /// Size in memory, where that does not depend on the target.
    pub fn bytes(self) -> Option<u32> {
        match self {
            Ty::F64 | Ty::I64 => Some(8),
            Ty::F32 | Ty::I32 => Some(4),
            Ty::Ptr | Ty::Size => None,
        }
    }
}
