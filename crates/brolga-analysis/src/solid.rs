//! Whose cotangent can be zero only because the result does not depend on it.
//!
//! **Problem.** `0 · ∞` is NaN. A cotangent of exactly zero says "nothing depends on this value": its contributions must be
//! zero even where a partial derivative is infinite or NaN (a *strong zero*). Guarding every product costs a comparison.
//!
//! **Answer.** A cotangent is spuriously zero only if something dropped it: a `select` that chose the other arm, a path that
//! was not taken, a slot of memory nobody read. A value is *solid* if some use passes a cotangent on, whichever way control
//! flows from its definition to a return, and that use's result is solid. Products into a solid result need no guard. A
//! way that ends in a trap or never ends does not count: no pullback runs behind it.
//!
//! **Greatest fixpoint**: everything is assumed solid, then taken back.

use brolga_ir::map::one_each;
use brolga_rules::{MathKind, OpcodeRule, Partial, Structural, opcode_rule};
use cranelift_codegen::ir::{self, Opcode, ValueDef};
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::activity::ActivityInput;
use crate::callee::CalleeKind;
use crate::contents::Use;
use crate::modes::ResultMode;

/// Of a store whose value gets the cotangent of another value, whatever else happens: that value.
pub type Through<'a> = &'a dyn Fn(ir::Inst) -> Option<ir::Value>;

/// Most blocks that are followed from one definition.
const MAX_BLOCKS: u32 = 64;

/// Compute the solid values among those that `active` says have a cotangent. `single_result` says that the function's only result is always asked for.
pub fn compute(
    i: &ActivityInput<'_>,
    active: &dyn Fn(ir::Value) -> bool,
    single_result: bool,
    through: Through<'_>,
) -> EntitySet<ir::Value> {
    let (func, cfg) = (i.func, i.cfg);
    let mut all: Vec<(ir::Value, ir::Block)> = Vec::with_capacity(func.dfg.num_values());
    for &b in &cfg.blocks {
        let results = cfg.insts(b).iter().flat_map(|&inst| func.dfg.inst_results(inst));
        all.extend(func.dfg.block_params(b).iter().chain(results).filter(|v| active(**v)).map(|&v| (v, b)));
    }
    let mut solid: EntitySet<ir::Value> = EntitySet::new();
    solid.extend(all.iter().map(|x| x.0));
    let passes = |solid: &EntitySet<ir::Value>, inst: ir::Inst, n: usize| -> bool {
        let first = || func.dfg.inst_results(inst).first().is_some_and(|&r| solid.contains(r));
        match opcode_rule(func.dfg.insts[inst].opcode()) {
            OpcodeRule::Expr(row) => match row.partial(0, n) {
                Partial::Zero => false,
                // A factor that chooses (0 or 1) drops cotangents; one that is an operand is zero by accident only.
                Partial::Scale(s) => {
                    let chooses = matches!(
                        func.dfg.insts[inst].opcode(),
                        Opcode::Fmin | Opcode::Fmax | Opcode::Fabs | Opcode::Fcopysign
                    );
                    !chooses && first() && (s.times.is_some() || s.over.is_some() || s == unit(s.neg))
                }
            },
            OpcodeRule::Structural(
                Structural::Promote | Structural::Demote | Structural::Bitcast | Structural::Splat,
            ) => first(),
            OpcodeRule::Structural(Structural::Call) => {
                matches!(CalleeKind::of(i.program, func, inst),
                    Some(CalleeKind::Known(r)) if matches!(r.kind, MathKind::Expr(row) if !row.partial(0, n).is_zero()))
                    && first()
            }
            OpcodeRule::Structural(Structural::Control) => {
                func.dfg.insts[inst].opcode() == Opcode::Return
                    && single_result
                    && matches!(i.results[n], ResultMode::Active | ResultMode::Unit)
            }
            _ => n == 0 && through(inst).is_some_and(|v| solid.contains(v)),
        }
    };
    // Blocks on the way, and where the search has to go on: the same tables for every value.
    let (seen, work) = (&mut EntitySet::new(), &mut Vec::new());
    let mut is_solid = |solid: &EntitySet<ir::Value>, v: ir::Value, b: ir::Block| {
        let in_block = |block: ir::Block| {
            i.uses.of(v).iter().any(|&u| match u {
                Use::Inst(inst, n) => func.layout.inst_block(inst) == Some(block) && passes(solid, inst, n),
                Use::Edge(..) => false,
            })
        };
        let on_edge = |from: ir::Block, to: ir::Block| {
            i.uses.of(v).iter().any(|&u| match u {
                Use::Edge(b, p) => b == from && cfg.def_block[p] == Some(to) && solid.contains(p),
                Use::Inst(..) => false,
            })
        };
        // Follow every way from the definition until the cotangent is passed on.
        seen.clear();
        work.clear();
        work.extend((!in_block(b)).then_some(b));
        let mut steps = 0;
        while let Some(x) = work.pop() {
            let last = func.layout.last_inst(x).expect("a block has a terminator");
            steps += 1;
            let mut ok = func.dfg.insts[last].opcode() != Opcode::Return && steps < MAX_BLOCKS;
            for &s in cfg.succs[x].iter().filter(|&&s| !on_edge(x, s)) {
                // Back at the definition, the value is gone.
                ok &= s != b;
                if !in_block(s) && seen.insert(s) {
                    work.push(s);
                }
            }
            if !ok {
                return false;
            }
        }
        true
    };
    let mut left = Left::new(i, &all, through);
    while let Some((v, b)) = left.next() {
        if solid.contains(v) && !is_solid(&solid, v, b) {
            solid.remove(v);
            left.lost(i, v);
        }
    }
    debug_assert!(
        all.iter().all(|&(v, b)| !solid.contains(v) || is_solid(&solid, v, b)),
        "one was not looked at again"
    );
    solid
}

/// Values of which something is assumed that is to be looked at again: last ones first, round by round. In later rounds those whose uses pass on
/// the cotangent of a value that has lost it.
pub(crate) struct Left<'a> {
    all: &'a [(ir::Value, ir::Block)],
    /// Where each is in the list, one more.
    at: SecondaryMap<ir::Value, u32>,
    /// Which of them are to be looked at.
    open: Vec<bool>,
    /// How many come before those that have been looked at in this round.
    before: usize,
    /// Whether some are for another round.
    again: bool,
    /// Whether a store passes on the cotangent of a value that is not its result: then all are looked at again.
    through: bool,
}

impl<'a> Left<'a> {
    pub(crate) fn new(i: &ActivityInput<'_>, all: &'a [(ir::Value, ir::Block)], through: Through<'_>) -> Self {
        let mut at = one_each(i.func.dfg.num_values());
        all.iter().zip(1..).for_each(|(x, n)| at[x.0] = n);
        let stores = |inst: &ir::Inst| i.func.dfg.insts[*inst].opcode().can_store();
        let through = i.cfg.all_insts().iter().any(|inst| stores(inst) && through(*inst).is_some());
        Self { all, at, open: vec![true; all.len()], before: all.len(), again: false, through }
    }

    pub(crate) fn next(&mut self) -> Option<(ir::Value, ir::Block)> {
        loop {
            match self.open[..self.before].iter().rposition(|&open| open) {
                Some(at) => {
                    self.before = at;
                    self.open[at] = false;
                    return Some(self.all[at]);
                }
                None if std::mem::take(&mut self.again) => self.before = self.all.len(),
                None => return None,
            }
        }
    }

    /// What was assumed of a value is not so.
    pub(crate) fn lost(&mut self, i: &ActivityInput<'_>, v: ir::Value) {
        if self.through {
            self.open.fill(true);
            self.again = true;
            return;
        }
        let mut open = |v: ir::Value| {
            if let Some(at) = (self.at[v] as usize).checked_sub(1) {
                self.open[at] = true;
                self.again |= at >= self.before;
            }
        };
        match i.func.dfg.value_def(v) {
            ValueDef::Result(inst, _) => i.func.dfg.inst_args(inst).iter().for_each(|&a| open(a)),
            ValueDef::Param(b, k) => i.cfg.incoming(b, k).for_each(open),
            ValueDef::Union(..) => {}
        }
    }
}

/// A factor of one, or of minus one.
pub(crate) fn unit(neg: bool) -> brolga_rules::Scale {
    brolga_rules::Scale { neg, over: None, times: None, may_blow_up: false }
}
