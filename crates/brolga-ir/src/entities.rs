//! Typed ids: primal entities stay Cranelift's (`ir::Block`, `ir::Inst`, `ir::Value`); derived
//! entities have types of their own, so the two cannot be confused.
//!
//! **Question.** By what are functions, data objects, derived blocks, instructions and values
//! named?
//!
//! **Answer.** By a number of a type of its own: [`FuncKey`], [`DataKey`], [`BlockId`], [`InstId`],
//! [`Dv`].
//!
//! **Invariant.** Every id belongs to the arena that made it; there are no global counters.
//!
//! **Cost.** Four bytes each; a table by ids is an array.

use cranelift_entity::entity_impl;

/// A function of a [`crate::Program`], defined or imported. Printed `fun3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FuncKey(u32);
entity_impl!(FuncKey, "fun");

/// A data object of a [`crate::Program`]. Printed `data0`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataKey(u32);
entity_impl!(DataKey, "data");

/// A block of derived code. Printed `bb3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(u32);
entity_impl!(BlockId, "bb");

/// A derived instruction. Printed `i12`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstId(u32);
entity_impl!(InstId, "i");

/// A derived value: the result of a derived instruction or a parameter of a derived block. Printed
/// `d7`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dv(u32);
entity_impl!(Dv, "d");
