//! Kinds: what memory or an integer may hold, as a set (the lattice of type inference).
//!
//! **Question.** CLIF has no types for what an integer or a place stands for. What is told of one?
//!
//! **Answer.** The sets of four kinds, joined by union, are what [`crate::kinds::contents`] has for
//! each class of memory, and what a caller may declare. Integers contradict nothing: padding, and
//! fields that are copied with a struct, are integers.
//!
//! **Cost.** A byte for each set; a join is one instruction.
//!
//! **Source.** Moses and Churavy, *Instead of rewriting foreign code for machine learning,
//! automatically synthesize fast gradients* (2020): type analysis.

use brolga_ir::inst::Shape;
use brolga_ir::request::Elem;
use cranelift_codegen::ir::{Type, types};

/// A set of kinds of things that a place may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kinds(u8);

impl Kinds {
    /// Nothing is known.
    pub const NONE: Kinds = Kinds(0);
    /// 64-bit floats.
    pub const F64: Kinds = Kinds(1);
    /// 32-bit floats.
    pub const F32: Kinds = Kinds(2);
    /// Pointers.
    pub const POINTER: Kinds = Kinds(4);
    /// Integers that are calculated with.
    pub const INT: Kinds = Kinds(8);
    /// Integers that are calculated with as addresses are not.
    pub const NUMBER: Kinds = Kinds(8 | 16);

    /// Whether all of `other` is in it.
    pub fn has(self, other: Kinds) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any float is in it.
    pub fn has_float(self) -> bool {
        self.0 & (Kinds::F64.0 | Kinds::F32.0) != 0
    }

    /// Union.
    pub fn join(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// The kinds without integers, which never contradict anything.
    pub fn moved(self) -> Kinds {
        Kinds(self.0 & 7)
    }

    /// The kinds of floats.
    pub fn floats(self) -> Kinds {
        Kinds(self.0 & (Kinds::F64.0 | Kinds::F32.0))
    }

    /// The kind of a float type.
    pub fn of_type(ty: Type) -> Kinds {
        match ty.lane_type() {
            types::F64 => Kinds::F64,
            types::F32 => Kinds::F32,
            _ => Kinds::NONE,
        }
    }

    /// What a declaration says.
    pub fn of_elem(e: Option<Elem>) -> Kinds {
        match e {
            Some(Elem::F64) => Kinds::F64,
            Some(Elem::F32) => Kinds::F32,
            Some(Elem::Pointer) => Kinds::POINTER,
            Some(Elem::Int) => Kinds::INT,
            None => Kinds::NONE,
        }
    }

    /// What a callee is told: one kind, or floats of both sizes. Of pointers among floats it knows
    /// more itself, and integers contradict nothing.
    pub fn told(self) -> Kinds {
        match self.moved() {
            Kinds::NONE => self,
            k if k == Kinds::F64.join(Kinds::F32) || self.to_elem().is_some() => k,
            _ => Kinds::NONE,
        }
    }

    /// The declaration that says this.
    pub fn to_elem(self) -> Option<Elem> {
        match self.moved() {
            Kinds::F64 => Some(Elem::F64),
            Kinds::F32 => Some(Elem::F32),
            Kinds::POINTER => Some(Elem::Pointer),
            Kinds::NONE if self.has(Kinds::INT) => Some(Elem::Int),
            _ => None,
        }
    }

    /// The shape of `bytes` bytes that hold this, if it holds one kind of float and nothing else
    /// that moves.
    pub fn shape(self, bytes: u32) -> Option<Shape> {
        match self.moved() {
            Kinds::F64 => Shape::of_bits(bytes, 8),
            Kinds::F32 => Shape::of_bits(bytes, 4),
            _ => None,
        }
    }
}
