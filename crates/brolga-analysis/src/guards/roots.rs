//! Roots at the edge of their domain: whose cotangent may be infinite because of one.
//!
//! **Problem.** The slope of `sqrt` at zero is infinite, and that of what it is the root of may be
//! zero there: `∞ · 0` is NaN, though a norm has a cone's tip at zero, and its mean slope is zero
//! (`docs/KINKS.md`). A product that such a cotangent may reach asks whether it is infinite and the
//! other factor is zero. All others need not.
//!
//! **Answer.** The operand of a root ([`Scale::edge`](brolga_rules::Scale)) is *under a root*, and
//! so is whatever passes its cotangent on: operands of instructions with such a result, arguments
//! of parameters. Memory is one place here: what is stored is under a root if anything is that was
//! loaded. At the border of a function it counts whether there is any root on the other side, and
//! at that of the program what the caller says of itself.
//!
//! **Least fixpoint.** It errs on the side of what is under a root.
//!
//! **Cost.** Nothing where no function takes a root. Otherwise rounds over the instructions,
//! backwards, until nothing changes.

use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::EntitySet;

use crate::activity::ActivityInput;
use crate::guards::root_takers::row;
use crate::query::callee::CalleeKind;
use crate::summary::RootTakers;

/// What is under a root.
#[derive(Debug, Default)]
pub struct Roots {
    found: EntitySet<ir::Value>,
    /// Whether an infinite cotangent may come from a root in another function. Another run of the
    /// same one does not count: where its root is at zero, what it was made of has turned back
    /// there.
    pub foreign: bool,
}

impl Roots {
    /// Whether a value is.
    pub fn holds(&self, v: ir::Value) -> bool {
        self.found.contains(v)
    }
}

/// Compute what is under a root among the values that `active` says have a cotangent. With
/// `caller_takes` the caller of the program may take a root of what it returns.
pub fn compute(i: &ActivityInput<'_>, caller_takes: bool, active: &dyn Fn(ir::Value) -> bool) -> Roots {
    let (func, cfg) = (i.func, i.cfg);
    let RootTakers { direct, all: taking } = i.summaries.roots();
    let calls = |inst: ir::Inst| match CalleeKind::of(i.program, func, inst) {
        Some(CalleeKind::Derived(g)) => taking.contains(&g),
        Some(CalleeKind::Indirect(_)) => !taking.is_empty(),
        _ => false,
    };
    let mut roots = Roots {
        found: EntitySet::new(),
        foreign: caller_takes || !i.root && direct.iter().any(|&f| f != i.key) || cfg.calls.iter().any(|&c| calls(c)),
    };
    let edge = |inst: ir::Inst| {
        row(i.program, func, inst)
            .is_some_and(|(row, args)| row.partials().any(|(_, k, p)| p.is_edge() && active(args[k])))
    };
    if !roots.foreign && !cfg.all_insts().iter().any(|&inst| edge(inst)) {
        return roots;
    }
    let mut memory = roots.foreign;
    let found = &mut roots.found;
    loop {
        let mut changed = false;
        for &b in cfg.blocks.iter().rev() {
            for &inst in cfg.insts(b).iter().rev() {
                let op = func.dfg.insts[inst].opcode();
                let args = func.dfg.inst_args(inst);
                let results = func.dfg.inst_results(inst);
                let is = |k: usize| results.get(k).map_or(memory, |&r| found.contains(r));
                let any = results.iter().any(|&r| found.contains(r));
                let under: Vec<ir::Value> = match row(i.program, func, inst) {
                    // What is written through pointers has no name.
                    Some((row, args)) => {
                        let passes =
                            |&(r, _, p): &(usize, usize, &brolga_rules::Partial)| p.is_edge() || !p.is_zero() && is(r);
                        row.partials().filter(passes).map(|(_, k, _)| args[k]).collect()
                    }
                    None => {
                        let passes = match op {
                            Opcode::Return => caller_takes || !i.root && !taking.is_empty(),
                            _ if op.is_call() || op.can_store() => any || memory || calls(inst),
                            _ => any,
                        };
                        if passes { args.to_vec() } else { vec![] }
                    }
                };
                if any && (op.can_load() || op.is_call()) && !memory {
                    (memory, changed) = (true, true);
                }
                for v in under {
                    changed |= active(v) && found.insert(v);
                }
            }
            for (k, &p) in func.dfg.block_params(b).iter().enumerate().filter(|(_, p)| active(**p)) {
                if found.contains(p) {
                    let incoming: Vec<ir::Value> = cfg.incoming(b, k).collect();
                    for v in incoming {
                        changed |= active(v) && found.insert(v);
                    }
                }
            }
        }
        if !changed {
            return roots;
        }
    }
}
