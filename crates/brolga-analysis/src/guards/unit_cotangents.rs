//! Unit cotangents: whose cotangent is the constant one (constant propagation of seeds).
//!
//! **Problem.** Where the cotangent of a result is one by promise
//! ([`ResultActivity::Unit`](brolga_ir::ResultActivity)), so is that of every sum that leads to it,
//! iteration by iteration. Without that knowledge the pullback multiplies by it, carries it through
//! loops and asks whether it is zero.
//!
//! **Answer.** A value's cotangent is one if, whichever way control flows from its definition to a
//! return, exactly one use passes a cotangent on, as it is, and that use's result has cotangent
//! one; and if no use passes on anything else. A way that ends in a trap or never ends does not
//! count: no pullback runs after it.
//!
//! **Greatest fixpoint**: everything is assumed to have it, then taken back. Scalar floats only.
//!
//! **Cost.** Nothing where no seed is one. Otherwise a worklist, in which a look at a value goes
//! over its uses and [`MAX_BLOCKS`] blocks at most.

use brolga_ir::map::one_each;
use brolga_rules::{OpcodeRule, Partial, opcode_rule};
use cranelift_codegen::ir::{self, Opcode, ValueDef};
use cranelift_entity::{EntitySet, SecondaryMap};
use smallvec::{SmallVec, smallvec};

use crate::activity::ActivityInput;
use crate::uses::Use;
use crate::variant::ResultMode;

/// Of a store whose value gets the cotangent of another value, whatever else happens: that value.
pub type CotangentSource<'a> = &'a dyn Fn(ir::Inst) -> Option<ir::Value>;

/// Most blocks that are followed from one definition.
const MAX_BLOCKS: u32 = 64;

/// What a use passes on.
#[derive(PartialEq, Eq)]
enum UseTransfer {
    /// The cotangent of a value, as it is.
    Same(ir::Value),
    /// One.
    One,
    Nothing,
    Other,
}

struct Units<'a> {
    i: &'a ActivityInput<'a>,
    active: &'a dyn Fn(ir::Value) -> bool,
    through: CotangentSource<'a>,
    found: EntitySet<ir::Value>,
}

/// Values whose cotangent is one in each run; `active` tells which have one at all, `through` what
/// stores pass on.
pub fn compute(
    i: &ActivityInput<'_>,
    active: &dyn Fn(ir::Value) -> bool,
    through: CotangentSource<'_>,
) -> EntitySet<ir::Value> {
    let mut units = Units { i, active, through, found: EntitySet::new() };
    if !i.results.contains(&ResultMode::Unit) {
        return units.found;
    }
    let func = i.func;
    let mut all: Vec<(ir::Value, ir::Block)> = Vec::with_capacity(func.dfg.num_values());
    for &b in &i.cfg.blocks {
        let results = i.cfg.insts(b).iter().flat_map(|&inst| func.dfg.inst_results(inst));
        let values = func.dfg.block_params(b).iter().chain(results).copied();
        all.extend(values.filter(|&v| active(v) && func.dfg.value_type(v).is_float()).map(|v| (v, b)));
    }
    units.found.extend(all.iter().map(|x| x.0));
    let mut left = Assumptions::new(i, &all, through);
    while let Some((v, b)) = left.next() {
        if units.found.contains(v) && !units.has_one(v, b) {
            units.found.remove(v);
            left.lost(i, v);
        }
    }
    debug_assert!(
        all.iter().all(|&(v, b)| !units.found.contains(v) || units.has_one(v, b)),
        "one was not looked at again"
    );
    units.found
}

impl Units<'_> {
    fn passes(&self, u: Use) -> UseTransfer {
        let func = self.i.func;
        let (inst, n) = match u {
            Use::Edge(_, param) if (self.active)(param) => return UseTransfer::Same(param),
            Use::Edge(..) => return UseTransfer::Nothing,
            Use::Inst(inst, n) => (inst, n),
        };
        let op = func.dfg.insts[inst].opcode();
        let results = func.dfg.inst_results(inst);
        match opcode_rule(op) {
            _ if op == Opcode::Return => match self.i.results[n] {
                ResultMode::Unit => UseTransfer::One,
                ResultMode::None => UseTransfer::Nothing,
                _ => UseTransfer::Other,
            },
            _ if op.can_store() => match (self.through)(inst) {
                Some(v) if n == 0 => UseTransfer::Same(v),
                _ => UseTransfer::Other,
            },
            _ if op.is_call() || op.is_terminator() => UseTransfer::Other,
            _ if !results.iter().any(|&r| (self.active)(r)) => UseTransfer::Nothing,
            OpcodeRule::Expr(row) => match row.partial(0, n) {
                Partial::Zero => UseTransfer::Nothing,
                // A factor that chooses (0 or 1) has no name.
                p if *p == Partial::ONE && matches!(op, Opcode::Fadd | Opcode::Fsub) => UseTransfer::Same(results[0]),
                Partial::Scale(_) => UseTransfer::Other,
            },
            _ => UseTransfer::Other,
        }
    }

    /// Whether each way from a definition passes exactly one cotangent on, which is one.
    fn has_one(&self, v: ir::Value, b: ir::Block) -> bool {
        let (func, cfg) = (self.i.func, self.i.cfg);
        let mut ones: SmallVec<[Use; 4]> = SmallVec::new();
        for &u in self.i.uses.of(v) {
            match self.passes(u) {
                UseTransfer::Nothing => {}
                UseTransfer::One => ones.push(u),
                UseTransfer::Same(w) if self.found.contains(w) => ones.push(u),
                UseTransfer::Same(_) | UseTransfer::Other => return false,
            }
        }
        // The only one, where the value is made: whichever way goes on from there has had it, and
        // has no other.
        if let [Use::Inst(inst, _)] = ones[..]
            && func.layout.inst_block(inst) == Some(b)
        {
            return true;
        }
        let count = |at: &dyn Fn(&Use) -> bool| ones.iter().filter(|u| at(u)).count();
        let in_block =
            |block: ir::Block| count(&|u| matches!(u, Use::Inst(i, _) if func.layout.inst_block(*i) == Some(block)));
        let on_edge = |from: ir::Block, to: ir::Block| {
            count(&|u| matches!(u, Use::Edge(f, p) if *f == from && cfg.def_block[*p] == Some(to)))
        };
        // A block, and how many there were when it ends.
        let mut work: SmallVec<[_; 8]> = smallvec![(b, in_block(b))];
        let mut seen = work.clone();
        while let Some((x, so_far)) = work.pop() {
            let last = func.layout.last_inst(x).expect("a block has a terminator");
            if so_far > 1
                || so_far == 0 && func.dfg.insts[last].opcode() == Opcode::Return
                || seen.len() > 2 * MAX_BLOCKS as usize
            {
                return false;
            }
            for &s in &cfg.succs[x] {
                let passed = so_far + on_edge(x, s);
                // Back at the definition, the value is gone.
                if s == b {
                    if passed != 1 {
                        return false;
                    }
                    continue;
                }
                let next = (s, passed + in_block(s));
                if !seen.contains(&next) {
                    seen.push(next);
                    work.push(next);
                }
            }
        }
        true
    }
}

/// Values of which something is assumed that is to be looked at again: last ones first, round by
/// round. In later rounds those whose uses pass on the cotangent of a value that has lost it.
struct Assumptions<'a> {
    all: &'a [(ir::Value, ir::Block)],
    /// Where each is in the list, one more.
    at: SecondaryMap<ir::Value, u32>,
    /// Which of them are to be looked at.
    open: Vec<bool>,
    /// How many come before those that have been looked at in this round.
    before: usize,
    /// Whether some are for another round.
    revisit: bool,
    /// Whether a store passes on the cotangent of a value that is not its result: then all are
    /// looked at again.
    through: bool,
}

impl<'a> Assumptions<'a> {
    fn new(i: &ActivityInput<'_>, all: &'a [(ir::Value, ir::Block)], through: CotangentSource<'_>) -> Self {
        let mut at = one_each(i.func.dfg.num_values());
        all.iter().zip(1..).for_each(|(x, n)| at[x.0] = n);
        let stores = |inst: &ir::Inst| i.func.dfg.insts[*inst].opcode().can_store();
        let through = i.cfg.all_insts().iter().any(|inst| stores(inst) && through(*inst).is_some());
        Self { all, at, open: vec![true; all.len()], before: all.len(), revisit: false, through }
    }

    fn next(&mut self) -> Option<(ir::Value, ir::Block)> {
        loop {
            match self.open[..self.before].iter().rposition(|&open| open) {
                Some(at) => {
                    self.before = at;
                    self.open[at] = false;
                    return Some(self.all[at]);
                }
                None if std::mem::take(&mut self.revisit) => self.before = self.all.len(),
                None => return None,
            }
        }
    }

    /// What was assumed of a value is not so.
    fn lost(&mut self, i: &ActivityInput<'_>, v: ir::Value) {
        if self.through {
            self.open.fill(true);
            self.revisit = true;
            return;
        }
        let mut open = |v: ir::Value| {
            if let Some(at) = (self.at[v] as usize).checked_sub(1) {
                self.open[at] = true;
                self.revisit |= at >= self.before;
            }
        };
        match i.func.dfg.value_def(v) {
            ValueDef::Result(inst, _) => i.func.dfg.inst_args(inst).iter().for_each(|&a| open(a)),
            ValueDef::Param(b, k) => i.cfg.incoming(b, k).for_each(open),
            ValueDef::Union(..) => {}
        }
    }
}
