//! Overwritten shadows, as a table: loads whose reverse stores, rows, totals ([`crate::shadow`]
//! fills it).
//!
//! **Question.** Which reverses may store in place of adding, which need not clear what they take,
//! and which shadows may hold anything before the call?
//!
//! **Answer.** [`Overwrites`] lists them: loads whose reverse stores, in any run or if a run finds
//! that rows ascend ([`Rows`], by the question that each [`Order`] asks); stores whose reverse
//! clears nothing; loads of arrays that are only added up, each with its sum ([`ArraySum`]);
//! parameters whose shadows are overwritten.
//!
//! **Cost.** A bit for each load and store, and an entry for each sum and each set of rows.

use brolga_ir::inst::Val;
use brolga_ir::map::IndexMap;
use cranelift_codegen::ir;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_entity::EntitySet;

/// What is stored.
#[derive(Clone, Debug, Default)]
pub struct Overwrites {
    /// Loads whose reverse stores.
    pub stores: EntitySet<ir::Inst>,
    /// Stores whose reverse need not clear what it takes ([`crate::shadow::local_memory`]).
    pub spent: EntitySet<ir::Inst>,
    /// Loads of arrays that are only added up, and their stores, each with its sum
    /// ([`crate::shadow::contract_array`]).
    pub summed: IndexMap<ir::Inst, ArraySum>,
    /// Slots whose shadows the forward pass leaves alone.
    pub untouched: EntitySet<ir::StackSlot>,
    /// One per parameter: its shadow need not hold zeros before the call.
    pub arguments: Vec<bool>,
    /// Loads whose reverse stores if a run finds that rows ascend
    /// ([`crate::shadow::monotone_rows`]).
    pub rows: Vec<Rows>,
}

impl Overwrites {
    /// One for each of `n` parameters: whether its shadow is overwritten by a derivative that
    /// clears the shadows of rows before it adds to them, if `clears`.
    pub(crate) fn of_params(&self, n: usize, clears: bool) -> Vec<bool> {
        let mut found = self.arguments.clone();
        found.resize(n, false);
        self.rows.iter().filter(|_| clears).filter_map(|r| r.argument).for_each(|i| found[i] = true);
        found
    }
}

/// Loads in rows.
#[derive(Clone, Debug)]
pub struct Rows {
    /// What is asked of each row.
    pub order: Order,
    /// Loads whose reverse may store if all rows ascend.
    pub loads: Vec<ir::Inst>,
    /// The parameter whose shadow is overwritten by that.
    pub argument: Option<usize>,
}

/// A question for each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// Where a row begins.
    pub low: ir::Value,
    /// Where it ends.
    pub high: ir::Value,
    /// `high cc low` must not hold.
    pub cc: IntCC,
    /// Rows may be passed by, so no `high` may be so large that addresses come round.
    pub near: bool,
    /// Where both are there; it runs in each iteration of the outer loop, and is in no loop further
    /// in.
    pub block: ir::Block,
}

/// A sum over all of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArraySum {
    /// The load of its elements.
    pub load: ir::Inst,
    /// The sum, when all of them have been added.
    pub sum: ir::Value,
    /// The edge on which its loop is left.
    pub exit: (ir::Block, ir::Block),
    /// Whether the loop is left by it in each run that returns.
    pub always: bool,
}

impl ArraySum {
    /// The variable that holds the cotangent of each element.
    pub fn name(&self) -> Val {
        Val::Aux(self.load, 0)
    }
}
