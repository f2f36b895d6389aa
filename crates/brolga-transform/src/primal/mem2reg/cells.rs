//! Cells of scalar promotion: what they hold, what calls write to them, what loads of them become.
//!
//! **Question.** In which terms are variables in memory known, four bytes at a time?
//!
//! **Answer.** The lattice of [`super::words`] is a map ([`CellState`]) from places ([`CellPlace`])
//! to what four bytes hold ([`KnownWord`]); a place that is not in it may hold anything. What a
//! call writes ([`CellWrites`]) is found by [`super::callees`]. A load that is replaced
//! ([`PromotedLoad`]) becomes a number, two halves, or a word ([`LoadReplacement`]).
//!
//! **Cost.** An entry for each four bytes of which something is known, at each point where that is
//! kept.

use std::collections::BTreeMap;
use std::rc::Rc;

use brolga_analysis::query::cell::Base;
use cranelift_codegen::ir;

/// A base and an offset.
pub(super) type CellPlace = (Base, i64);

/// A number of 64 bits, or an integer of 32.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum WordSource {
    /// A value of the function.
    Value(ir::Value),
    /// A parameter, to be made, of a block for what comes in of a cell.
    Param(ir::Block, CellPlace),
}

/// What four bytes hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    /// An integer.
    Int(WordSource),
    /// Half of a double, or of an integer of 64 bits: the upper one?
    Half(WordSource, bool),
}

/// What is known of four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KnownWord {
    /// What they hold.
    pub word: Word,
    /// Whether that is only so if stores do not lead there that may.
    pub guarded: bool,
}

/// All that is known at a point.
pub(super) type CellState = BTreeMap<CellPlace, KnownWord>;

/// What a store or a call writes, as it is named where it happens.
pub(super) enum WriteTarget {
    /// These bytes of a place with a name. The flag says that the name is only kept.
    Named(CellPlace, i64, bool),
    /// What lies below a place, in the frames of a callee.
    Below(CellPlace),
    /// Bytes somewhere.
    Somewhere,
}

/// Bytes that a function writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct CellPart {
    /// The parameter from which they are so far away; or the start of memory.
    pub through: Option<usize>,
    /// The first byte.
    pub from: i64,
    /// After the last.
    pub to: i64,
}

/// What a function writes.
#[derive(Default)]
pub(super) struct CellWrites {
    /// Places that have a name in its callers.
    pub parts: Vec<CellPart>,
    /// The variable before memory that holds the stack pointer, if something is written below.
    pub below: Option<i64>,
    /// The parameter that is the memory's start.
    pub memory: Option<usize>,
}

/// Where it is known what calls write.
pub(super) trait Calls {
    /// What a call writes; none if that may be anything.
    fn of_call(&self, func: &ir::Function, inst: ir::Inst) -> Option<Rc<CellWrites>>;
}

/// What a load is replaced by.
#[derive(Clone, Copy)]
pub(super) enum LoadReplacement {
    /// Of 64 bits, all of which were one number.
    Number(WordSource),
    /// Of 64 bits, in two halves, the lower first.
    Mixture([Word; 2]),
    /// A word.
    Word(Word),
}

/// A load that is replaced.
pub(super) struct PromotedLoad {
    /// The load.
    pub load: ir::Inst,
    /// Its type.
    pub ty: ir::Type,
    /// Its new definition.
    pub by: LoadReplacement,
    /// Whether that is only so if stores do not lead there that may.
    pub guarded: bool,
}
