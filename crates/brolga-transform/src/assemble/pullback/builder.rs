//! Builder of a pullback under construction: instructions and blocks that are added, and names that
//! are defined before they are read.
//!
//! **Question.** The parts of a pullback (blocks, edges, loops that are run again) read primal
//! values. How does each value come into a block, and before what?
//!
//! **Answer.** A [`Builder`] has what all parts share. [`Builder::have`] restores or recomputes a
//! value where it is first read, and before that whatever it is recomputed from; [`PendingReads`]
//! notes what a block has not had so far. [`Builder::undone`] takes an integer a step back, and an
//! integer that goes in steps is computed after its loop from the bound ([`ExitValue`]). A
//! [`Converter`] turns the cotangent of one value into that of another with the same bits.
//!
//! **Invariant.** Notes of names are zero between blocks.
//!
//! **Cost.** A look-up for each name that is read. A block costs as much as it has sources.

use brolga_ir::BlockId;
use brolga_ir::block::{CfgBlock, Fragment, Ids, Role, Target, Term};
use brolga_ir::inst::{AdInst, AdOp, Arith, Defs, Val};
use brolga_ir::lift::BlockMap;
use brolga_ir::map::{IndexMap, Table};
use cranelift_codegen::ir::{self, Type, types};
use smallvec::SmallVec;

use crate::facts::Facts;
use crate::plan::invert::{StepOperand, Undo};
use crate::plan::liveness::Liveness;
use crate::plan::table::{ExitValue, Plan, Rerun, Source, Supply, type_of};
use crate::translate::convert::{TicketConversion, asking, fitted, told};
use crate::translate::stmt::StmtSource;
use crate::val_map::ValMap;

/// Where the reverse half goes in a loop that is run again.
#[derive(Clone)]
pub(super) struct RerunBlocks {
    /// The block that begins it.
    pub begin: BlockId,
    /// The edge after it.
    pub end: BlockId,
    /// Its blocks.
    pub blocks: BlockMap,
}

impl RerunBlocks {
    pub(super) fn new(a: &Rerun, reverse_of: &BlockMap, ids: &mut Ids) -> Self {
        let of = |b: &ir::Block, ids: &mut Ids| (*b, if a.by_iteration { ids.block() } else { reverse_of[b] });
        let (begin, end) = (ids.block(), ids.block());
        RerunBlocks { begin, end, blocks: a.blocks.iter().map(|b| of(b, ids)).collect() }
    }
}

/// A pullback at work.
pub(super) struct Builder<'a, 'f> {
    pub(super) facts: &'a Facts<'f>,
    pub(super) stmts: StmtSource<'a>,
    pub(super) plan: &'a Plan,
    pub(super) aux: &'a IndexMap<Val, Type>,
    pub(super) live: &'a Liveness,
    pub(super) ids: &'a mut Ids,
    pub(super) reverse_of: Table<ir::Block, BlockId>,
    /// Loops that are run again, by header.
    pub(super) rerun: IndexMap<ir::Block, RerunBlocks>,
    pub(super) exit: BlockId,
    pub(super) blocks: Table<BlockId, CfgBlock>,
    /// How the reverses of blocks begin that lead to one other only: with what happens on the edge.
    pub(super) heads: Table<ir::Block, Fragment>,
    /// Where the block that is being made notes what it waits for. Zero between blocks.
    pub(super) notes: ValMap<u32>,
}

/// What a block reads and has not had so far.
pub(super) struct PendingReads<'a> {
    sources: &'a [Supply],
    /// For each name one more than the position of its source.
    at: ValMap<u32>,
    left: usize,
}

impl<'a> PendingReads<'a> {
    /// `at` is zero for all names, and is given back so.
    pub(super) fn new(sources: &'a [Supply], at: ValMap<u32>) -> Self {
        let mut waiting = Self { sources, at, left: 0 };
        for (supply, k) in sources.iter().zip(1..) {
            if supply.source != Source::Record {
                *waiting.at.at(supply.name) = k;
                waiting.left += 1;
            }
        }
        waiting
    }

    fn take(&mut self, v: Val) -> Option<Source> {
        if self.left == 0 {
            return None;
        }
        let at = (self.at.get(v) as usize).checked_sub(1)?;
        *self.at.at(v) = 0;
        self.left -= 1;
        Some(self.sources[at].source)
    }

    /// No more is asked for.
    pub(super) fn end(mut self) -> ValMap<u32> {
        if self.left > 0 {
            self.sources.iter().for_each(|s| *self.at.at(s.name) = 0);
        }
        self.at
    }
}

/// What held variables get on the edges from a block's predecessors, which are mostly one or two.
pub(super) type HeldValues = IndexMap<ir::Block, Vec<(Val, Val)>>;

pub(super) fn to(block: BlockId) -> Target {
    Target { block, args: vec![] }
}

/// What a block of the pullback that belongs to no statement converts.
pub(super) struct Converter<'b, 'a, 'f> {
    pub builder: &'b mut Builder<'a, 'f>,
    pub f: &'b mut Fragment,
    pub at: Option<ir::Inst>,
}

impl TicketConversion for Converter<'_, '_, '_> {
    fn ask(&mut self, symbol: &str, args: &[(Val, Type)], ty: Type) -> Val {
        let d = Val::D(self.builder.ids.dv());
        self.builder.add(self.f, [(d, ty)].into(), asking(symbol, args, ty), self.at);
        d
    }

    fn tell(&mut self, symbol: &str, args: &[(Val, Type)]) {
        self.builder.add(self.f, Defs::default(), told(symbol, args, None), self.at);
    }

    fn convert(&mut self, op: Arith, args: &[Val], ty: Type) -> Val {
        self.builder.arith(self.f, op, args, ty, self.at)
    }
}

impl Builder<'_, '_> {
    pub(super) fn add(&mut self, f: &mut Fragment, defs: Defs, op: AdOp, at: Option<ir::Inst>) {
        f.insert(self.ids.inst(), AdInst { defs, op, at });
    }

    pub(super) fn finish(
        &mut self,
        id: BlockId,
        role: Role,
        params: Vec<(Val, Type)>,
        insts: Fragment,
        term: Term,
        at: Option<ir::Inst>,
    ) {
        let cold = match role {
            Role::Reverse(b) | Role::Edge(b, _) | Role::Rerun(_, b) => self.facts.func().layout.is_cold(b),
            _ => false,
        };
        self.blocks.insert(id, CfgBlock { id, role, params, insts, term, term_at: at, cold });
    }

    /// Whether a block has a reverse as ever: it is in no loop that is run again, or reversed in
    /// each iteration of one.
    pub(super) fn is_reversed(&self, b: ir::Block) -> bool {
        self.plan.rerun(b).is_none_or(|a| a.by_iteration && b != a.header)
    }

    /// A value after a step back.
    pub(super) fn undone(
        &mut self,
        f: &mut Fragment,
        v: Val,
        undo: &Undo,
        waiting: &mut PendingReads<'_>,
        at: Option<ir::Inst>,
    ) -> Val {
        let other = match undo.other {
            StepOperand::Nothing => None,
            StepOperand::Const(k) => Some(self.arith(f, Arith::Iconst(k), &[], undo.ty, at)),
            StepOperand::Shifted(op, bits) => {
                let bits = self.arith(f, Arith::Iconst(bits.into()), &[], types::I32, at);
                Some(self.arith(f, Arith::Int(op), &[v, bits], undo.ty, at))
            }
            StepOperand::Value(y) => {
                self.have(f, Val::Primal(y), waiting, at);
                let wide = self.facts.func().dfg.value_type(y).bits() > undo.ty.bits();
                let narrows = wide && !matches!(undo.op, Arith::Int(_));
                let y = Val::Primal(y);
                Some(if narrows { self.arith(f, Arith::Ireduce, &[y], undo.ty, at) } else { y })
            }
        };
        let args = if undo.swapped { [other, Some(v)] } else { [Some(v), other] };
        let args: SmallVec<[Val; 2]> = args.into_iter().flatten().collect();
        self.arith(f, undo.op.clone(), &args, undo.ty, at)
    }

    pub(super) fn arith(&mut self, f: &mut Fragment, op: Arith, args: &[Val], ty: Type, at: Option<ir::Inst>) -> Val {
        let d = Val::D(self.ids.dv());
        self.add(f, [(d, ty)].into(), AdOp::Arith(op, args.into(), ty), at);
        d
    }

    /// An integer that goes in steps, after its loop.
    fn last(&mut self, f: &mut Fragment, last: &ExitValue, at: Option<ir::Inst>) -> AdOp {
        let op = self.last_compared(f, last, at);
        let Some(of) = last.of else { return op };
        let type_of = |v| self.facts.func().dfg.value_type(v);
        let (ty, wanted, iv) = (type_of(last.iv.var), type_of(of.var), &last.iv);
        let end = Val::D(self.ids.dv());
        self.add(f, [(end, ty)].into(), op, at);
        let (way, times) = if last.in_proportion(ty == wanted) {
            let way = self.arith(f, Arith::Isub, &[end, Val::Primal(iv.start)], ty, at);
            (way, of.step.wrapping_div(iv.step))
        } else {
            // How often: fewer times than would lead back to the start, so nothing has been lost
            // beyond the end of the type.
            let start = Val::Primal(iv.start);
            let way = if iv.step > 0 { [end, start] } else { [start, end] };
            let way = self.arith(f, Arith::Isub, &way, ty, at);
            let iterations = self.arith(f, Arith::UshrBy(iv.step.trailing_zeros() as u8), &[way], ty, at);
            let iterations =
                if ty == wanted { iterations } else { self.arith(f, Arith::Uextend, &[iterations], wanted, at) };
            (iterations, of.step)
        };
        let times = self.arith(f, Arith::Iconst(times), &[], wanted, at);
        let way = self.arith(f, Arith::Imul, &[way, times], wanted, at);
        AdOp::Arith(Arith::Iadd, [Val::Primal(of.start), way].into(), wanted)
    }

    /// The one that was compared with a bound.
    fn last_compared(&mut self, f: &mut Fragment, last: &ExitValue, at: Option<ir::Inst>) -> AdOp {
        let ty = self.facts.func().dfg.value_type(last.iv.var);
        let step = |b: &mut Self, f: &mut Fragment| b.arith(f, Arith::Iconst(last.iv.step), &[], ty, at);
        let mut end = Val::Primal(last.bound);
        if let Some(op) = last.far {
            let mut first = Val::Primal(last.iv.start);
            if last.of_next {
                let k = step(self, f);
                first = self.arith(f, Arith::Iadd, &[first, k], ty, at);
            }
            end = self.arith(f, Arith::Int(op), &[first, end], ty, at);
            if last.iv.step.abs() > 1 {
                // Whole steps from the first value, the last of which reaches the bound or goes
                // beyond it.
                let s = last.iv.step.abs();
                let up = last.iv.step > 0;
                let way = if up { [end, first] } else { [first, end] };
                let way = self.arith(f, Arith::Isub, &way, ty, at);
                let (k, mask) = (Arith::Iconst(s - 1), Arith::Iconst(-s));
                let (k, mask) = (self.arith(f, k, &[], ty, at), self.arith(f, mask, &[], ty, at));
                let way = self.arith(f, Arith::Iadd, &[way, k], ty, at);
                let way = self.arith(f, Arith::Band, &[way, mask], ty, at);
                end = self.arith(f, if up { Arith::Iadd } else { Arith::Isub }, &[first, way], ty, at);
            }
        }
        if last.of_next {
            let k = step(self, f);
            return AdOp::Arith(Arith::Isub, [end, k].into(), ty);
        }
        AdOp::Arith(Arith::Copy, [end].into(), ty)
    }

    /// Restore or recompute a value, and before that whatever it is recomputed from.
    pub(super) fn have(&mut self, f: &mut Fragment, v: Val, waiting: &mut PendingReads<'_>, at: Option<ir::Inst>) {
        let Some(source) = waiting.take(v) else { return };
        let op = match source {
            Source::Record => unreachable!("popped already"),
            Source::Frame(slot) => AdOp::Restore(slot),
            Source::Recompute(inst) => {
                for &a in self.facts.func().dfg.inst_args(inst) {
                    self.have(f, Val::Primal(a), waiting, at);
                }
                AdOp::Primal(inst)
            }
            Source::Held => AdOp::Held(v),
            Source::Last(last) => {
                for o in last.operands() {
                    self.have(f, Val::Primal(o), waiting, at);
                }
                self.last(f, &last, at)
            }
        };
        let ty = type_of(self.facts, self.aux, v);
        self.add(f, [(v, ty)].into(), op, at);
    }

    /// The cotangent of one value for another that has the same bits: a number for a ticket, or a
    /// ticket for a number.
    pub(super) fn in_shape(
        &mut self,
        f: &mut Fragment,
        ct: Val,
        of: ir::Value,
        to: ir::Value,
        at: Option<ir::Inst>,
    ) -> Val {
        let shape = |v| self.facts.activity.ct[v].expect("an active value has a shape");
        let (ty, to_shape) = (shape(of).ty(), shape(to));
        fitted(&mut Converter { builder: self, f, at }, ct, ty, to_shape).expect("both are of one width")
    }
}
