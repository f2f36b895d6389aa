//! Context of activity analysis: the input, what has been found so far, and problems.
//!
//! **Question.** The parts of activity analysis go over the same function one after the other. What
//! do they share?
//!
//! **Answer.** [`ActivityInput`] is what the analysis is given: the function, and what other
//! analyses say of it. [`ActivityCx`] holds the answer as it grows ([`Activity`]), memory that may
//! hold something active, and problems ([`Problem`]), which are reported only if what they are
//! about turns out to be useful.
//!
//! **Cost.** Problems are compared with those before them, one for each instruction and code.

use std::cell::OnceCell;

use brolga_ir::inst::Shape;
use brolga_ir::map::HashMap;
use brolga_ir::{Diagnostic, FuncKey, Program, Untracked};
use cranelift_codegen::ir;
use cranelift_entity::{EntitySet, SecondaryMap};

use super::answer::Activity;
use super::demanded_bits::{DemandInput, DemandedBits};
use super::ulp::Steps;
use super::width;
use crate::cfg::Cfg;
use crate::kinds::contents::Contents;
use crate::kinds::pointers::Pointers;
use crate::lattice::kinds::Kinds;
use crate::memory::punned_cells::PointerCells;
use crate::query::cell::Base;
use crate::query::original;
use crate::summary::Summaries;
use crate::uses::Uses;
use crate::variant::{ParamMode, ResultMode};

/// What the analysis needs to know.
pub struct ActivityInput<'a> {
    /// The program.
    pub program: &'a Program,
    /// Which function this is.
    pub key: FuncKey,
    /// Whether the caller asks for this function itself, and has said what its parameters point at.
    /// Of other functions that is known only as far as their callers' accesses tell.
    pub root: bool,
    /// The normalised function.
    pub func: &'a ir::Function,
    /// Its control flow.
    pub cfg: &'a Cfg,
    /// All uses.
    pub uses: &'a Uses,
    /// Modes of parameters.
    pub params: &'a [ParamMode],
    /// Modes of results.
    pub results: &'a [ResultMode],
    /// Pointers and deltas.
    pub pointers: &'a Pointers,
    /// What memory holds.
    pub contents: &'a Contents,
    /// Widths of the floats that integers carry.
    pub lanes: &'a SecondaryMap<ir::Value, u32>,
    /// Numbers that are added to floats' bits.
    pub steps: &'a Steps,
    /// What is known of callees.
    pub summaries: &'a Summaries,
    /// Loads of memory that the caller has said to be constant.
    pub constant: &'a EntitySet<ir::Inst>,
    /// Whether problems with bits are left to the run.
    pub untracked: Untracked,
    /// Whether some function of the program computes a float's bits from integers in memory (see
    /// [`super::demanded_bits`]).
    pub demanded: bool,
    /// Whether the derivative is going to be derived again: then no account of pieces can be kept.
    pub derived_again: bool,
    /// Whether a word that is loaded and stored as it is need not be known: the run asks what it
    /// is, or its tangent moves as it does.
    pub asks: bool,
    /// Loads that are taken for pointers only because pointers lie about.
    pub guessed: &'a EntitySet<ir::Value>,
}

impl<'a> ActivityInput<'a> {
    pub(super) fn for_demand(&self) -> DemandInput<'a> {
        DemandInput {
            program: self.program,
            func: self.func,
            cfg: self.cfg,
            uses: self.uses,
            summaries: self.summaries,
            pointers: self.pointers,
            contents: self.contents,
            steps: self.steps,
            stores: self.demanded,
        }
    }
}

/// What stands in the way.
pub(super) struct Problem {
    pub inst: ir::Inst,
    /// Reported only if this is useful; `None`: always.
    pub if_useful: Option<ir::Value>,
    /// Not reported if this is a piece, of which it will be known when the pullback runs.
    pub unless_piece: Option<ir::Value>,
    pub diagnostic: Diagnostic,
}

/// The analysis at work.
pub(super) struct ActivityCx<'a> {
    pub input: &'a ActivityInput<'a>,
    pub answer: Activity,
    pub useful: EntitySet<ir::Value>,
    /// Classes of memory (see [`crate::kinds::contents`]) that may hold something active.
    pub active_memory: EntitySet<ir::Value>,
    /// Places to which something active is stored, or what was computed from its bits: offsets and
    /// lengths in bytes.
    pub holding: HashMap<Base, Vec<(i64, u32)>>,
    /// Where pointers and floats are by turns.
    pub punned: PointerCells,
    /// Sums that round.
    pub rounding: EntitySet<ir::Inst>,
    /// Conversions to integers that are digits of floats.
    pub converted: EntitySet<ir::Inst>,
    /// Where a float's bits meet an integer that no rule follows.
    pub joins: EntitySet<ir::Value>,
    /// Integers whose bits become a float's, or are stored where they may.
    pub demand: DemandedBits,
    /// The same without those that are only stored, once it has been asked for.
    pub made_floats: OnceCell<DemandedBits>,
    pub problems: Vec<Problem>,
}

pub(super) const LATER_NOTE: &str = "if this is not reached, or nothing depends on it, let the run find that out: `Options::untracked`, `--untracked trap`";

pub(super) const BITS_HELP: &str = "write the operation on floats (`fneg`, `fabs`, `fcopysign`, `select`), or mark the arguments it \
                         depends on const";

impl ActivityCx<'_> {
    pub(super) fn ty(&self, v: ir::Value) -> ir::Type {
        self.input.func.dfg.value_type(v)
    }

    pub(super) fn kinds_at(&self, inst: ir::Inst, addr: ir::Value) -> Kinds {
        width::kinds_at(self.input.func, self.input.contents, self.input.summaries, inst, addr)
    }

    pub(super) fn is_float(&self, v: ir::Value) -> bool {
        Shape::of_float(self.ty(v)).is_some()
    }

    /// An instruction in the names of the file.
    pub(super) fn written(&self, inst: ir::Inst) -> String {
        let text = self.input.program.text(self.input.key, original(self.input.func, inst));
        text.unwrap_or_else(|| self.input.func.dfg.insts[inst].opcode().to_string())
    }

    pub(super) fn problem(&mut self, inst: ir::Inst, if_useful: Option<ir::Value>, d: Diagnostic) {
        if !self.problems.iter().any(|p| p.inst == inst && p.diagnostic.code == d.code) {
            self.problems.push(Problem { inst, if_useful, unless_piece: None, diagnostic: d });
        }
    }

    /// The same of what becomes of an integer, unless that is a piece.
    pub(super) fn problem_of(&mut self, inst: ir::Inst, if_useful: ir::Value, of: ir::Value, d: Diagnostic) {
        let known = self.problems.len();
        self.problem(inst, Some(if_useful), d);
        self.problems[known..].iter_mut().for_each(|p| p.unless_piece = Some(of));
    }
}
