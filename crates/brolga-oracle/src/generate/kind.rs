//! Kinds of generated values: what a value of a generated program is for.
//!
//! **Problem.** CLIF types do not tell an index from the bits of a float or from a pointer, so a
//! generator that went by types alone would read memory at random.
//!
//! **Answer.** Every value has a [`Kind`], and only values of equal kind are exchanged: as
//! arguments of blocks and calls, through `select`, and through memory. A [`GenVal`] is a value
//! with its kind, a bound on its size, and the room of a pointer.
//!
//! **Invariant.** A pointer reaches [`WINDOW`] elements and its room. A number that goes through
//! memory, blocks or calls is no larger than [`TAME`], since its bound cannot be followed there.
//!
//! **Cost.** A tag for each value while a program is generated.

use cranelift_codegen::ir::{Type, Value, types};

/// What floats a pointer points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FloatElem {
    /// `f64`.
    F64,
    /// `f32`.
    F32,
}

impl FloatElem {
    /// Both.
    pub(super) const ALL: [FloatElem; 2] = [FloatElem::F64, FloatElem::F32];

    /// Bytes of one element.
    pub(super) fn bytes(self) -> i64 {
        match self {
            FloatElem::F64 => 8,
            FloatElem::F32 => 4,
        }
    }

    /// The kind of one element.
    pub(super) fn scalar(self) -> Kind {
        match self {
            FloatElem::F64 => Kind::F64,
            FloatElem::F32 => Kind::F32,
        }
    }

    /// The kind of a vector of elements.
    pub(super) fn vector(self) -> Kind {
        match self {
            FloatElem::F64 => Kind::F64x2,
            FloatElem::F32 => Kind::F32x4,
        }
    }
}

/// Float bits in another type: which floats, and the type that holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bits {
    /// One `f64` in an `i64`.
    F64,
    /// One `f32` in an `i32`.
    F32,
    /// Two `f64` in an `i128`.
    F64Pair,
    /// Two `f32` in an `i64`.
    F32Pair,
    /// Two `f64` in an `i8x16`.
    F64Bytes,
    /// Four `f32` in an `i8x16`.
    F32Bytes,
}

impl Bits {
    /// All of them.
    pub(super) const ALL: [Bits; 6] =
        [Bits::F64, Bits::F32, Bits::F64Pair, Bits::F32Pair, Bits::F64Bytes, Bits::F32Bytes];

    /// The floats inside.
    pub(super) fn elem(self) -> FloatElem {
        match self {
            Bits::F64 | Bits::F64Pair | Bits::F64Bytes => FloatElem::F64,
            Bits::F32 | Bits::F32Pair | Bits::F32Bytes => FloatElem::F32,
        }
    }

    /// How many floats are inside.
    pub(super) fn count(self) -> usize {
        (self.ty().bytes() as usize) / self.elem().bytes() as usize
    }

    /// The type that holds them.
    pub(super) fn ty(self) -> Type {
        match self {
            Bits::F64 | Bits::F32Pair => types::I64,
            Bits::F32 => types::I32,
            Bits::F64Pair => types::I128,
            Bits::F64Bytes | Bits::F32Bytes => types::I8X16,
        }
    }
}

/// What a value is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number to differentiate.
    F64,
    /// A number to differentiate.
    F32,
    /// Two numbers.
    F64x2,
    /// Four numbers.
    F32x4,
    /// A truth value or a small number.
    I8,
    /// A number to count with.
    I32,
    /// A number to count with.
    I64,
    /// Bits of floats.
    Bits(Bits),
    /// A pointer to at least [`WINDOW`] elements that may be read and written.
    Ptr(FloatElem),
    /// A pointer to at least [`WINDOW`] elements that may only be read.
    ReadPtr(FloatElem),
    /// The address of at least [`WINDOW`] pointers, each as above.
    Table(FloatElem),
    /// The address of a leaf function of the group with this number.
    Code(usize),
}

/// How many elements every pointer can reach.
pub(super) const WINDOW: i64 = 4;

impl Kind {
    /// The kinds of numbers.
    pub(super) const FLOATS: [Kind; 4] = [Kind::F64, Kind::F32, Kind::F64x2, Kind::F32x4];

    /// The type of such values.
    pub(super) fn ty(self) -> Type {
        match self {
            Kind::F64 => types::F64,
            Kind::F32 => types::F32,
            Kind::F64x2 => types::F64X2,
            Kind::F32x4 => types::F32X4,
            Kind::I8 => types::I8,
            Kind::I32 => types::I32,
            Kind::I64 | Kind::Ptr(_) | Kind::ReadPtr(_) | Kind::Table(_) | Kind::Code(_) => types::I64,
            Kind::Bits(b) => b.ty(),
        }
    }

    /// Whether such values are addresses of memory.
    pub(super) fn is_address(self) -> bool {
        matches!(self, Kind::Ptr(_) | Kind::ReadPtr(_) | Kind::Table(_))
    }

    /// Whether such values are numbers to differentiate.
    pub(super) fn is_float(self) -> bool {
        Kind::FLOATS.contains(&self)
    }

    /// The floats in a number, if it is one.
    pub(super) fn elem(self) -> Option<FloatElem> {
        match self {
            Kind::F64 | Kind::F64x2 => Some(FloatElem::F64),
            Kind::F32 | Kind::F32x4 => Some(FloatElem::F32),
            _ => None,
        }
    }

    /// Whether such values are vectors of numbers.
    pub(super) fn is_vector(self) -> bool {
        matches!(self, Kind::F64x2 | Kind::F32x4)
    }
}

/// A value that instructions may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct GenVal {
    /// The value.
    pub value: Value,
    /// What it is for.
    pub kind: Kind,
    /// For numbers: no lane is larger in magnitude.
    pub bound: f64,
    /// For pointers: elements that can be reached beyond [`WINDOW`].
    pub room: i64,
}

/// The bound of every number that goes through memory, blocks or calls, where it cannot be
/// followed.
pub(super) const TAME: f64 = 4.0;

impl GenVal {
    /// A value about which nothing more is known than that it obeys the conventions of its kind.
    pub(super) fn new(value: Value, kind: Kind) -> Self {
        GenVal { value, kind, bound: TAME, room: 0 }
    }
}
