//! Dominance of uses by definitions.
//!
//! **Question.** Does each use come after its definition, whatever the way? **Answer.** By the
//! scopes that lowering has: derived values are global; the names of the primal are global in the
//! forward half, local to a block in the reverse half, and local to a loop that is rerun
//! ([`Role::rerun_header`](crate::block::Role::rerun_header)). A copy of a loop before it sees
//! the names of the forward half, too. A use needs a definition of its scope that dominates it; two
//! definitions of one name in one scope never dominate each other. **Cost.** Linear, but for names
//! that a scope defines several times: rerun loops in two versions.

use cranelift_codegen::ir;
use cranelift_entity::{EntityRef, SecondaryMap};
use smallvec::SmallVec;

use super::fault::{Faults, Rule};
use super::structure::{each_operand, named};
use super::view::{Site, View};
use crate::block::{CfgBlock, Role, Term};
use crate::inst::Val;
use crate::map::HashMap;

/// Where names are visible that are not derived values.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Scope {
    Forward,
    /// Blocks that run a loop again, or in advance.
    Loop(ir::Block, bool),
    Local,
}

impl Scope {
    fn of(role: Role) -> Self {
        match role.rerun_header() {
            Some(header) => Scope::Loop(header, role.is_forward()),
            None if role.is_forward() => Scope::Forward,
            None => Scope::Local,
        }
    }
}

/// Where names of the primal are defined: an index for the most part.
#[derive(Default)]
struct Sites {
    primal: SecondaryMap<ir::Value, Option<Site>>,
    delta: SecondaryMap<ir::Value, Option<Site>>,
    aux: HashMap<Val, Option<Site>>,
}

impl Sites {
    fn at(&mut self, name: Val) -> &mut Option<Site> {
        match name {
            Val::Primal(v) => &mut self.primal[v],
            Val::Delta(v) => &mut self.delta[v],
            _ => self.aux.entry(name).or_default(),
        }
    }
}

struct Uses<'v, 'g> {
    view: &'v View<'g>,
    forward: Sites,
    /// Definitions of the block that is looked at, and of those before.
    local: Sites,
    loops: HashMap<(Scope, Val), SmallVec<[Site; 1]>>,
}

/// Whether definitions dominate uses.
pub fn check(view: &View<'_>, primal: &ir::Function, faults: &mut Faults) {
    let (forward, local) = (Sites::default(), Sites::default());
    let mut uses = Uses { view, forward, local, loops: HashMap::default() };
    for (b, block) in view.reached() {
        uses.define(b, block, faults);
    }
    for (b, block) in view.reached() {
        uses.block(b, block, primal, faults);
    }
}

impl Uses<'_, '_> {
    /// Definitions that other blocks see.
    fn define(&mut self, b: usize, block: &CfgBlock, faults: &mut Faults) {
        let scope = Scope::of(block.role);
        if scope == Scope::Local {
            return;
        }
        let insts = block.insts.values().zip(1..).flat_map(|(i, at)| i.defs.iter().map(move |d| (d.0, at)));
        for (name, at) in block.params.iter().map(|p| (p.0, 0)).chain(insts) {
            let site = Site { block: b as u32, at };
            let rerun = match scope {
                _ if matches!(name, Val::D(_)) => None,
                Scope::Forward => self.forward.at(name).replace(site),
                _ => {
                    let sites = self.loops.entry((scope, name)).or_default();
                    let meets = |s: &&Site| self.view.dominates(s.block as usize, b);
                    let before = sites.iter().find(meets).copied();
                    sites.push(site);
                    before
                }
            };
            if rerun.is_some() {
                let inst = (at as usize).checked_sub(1).and_then(|at| named(self.view, b, at));
                faults.add(Rule::Dominance, block.id, inst, format!("{name} is defined a second time"));
            }
        }
    }

    fn block(&mut self, b: usize, block: &CfgBlock, primal: &ir::Function, faults: &mut Faults) {
        let scope = Scope::of(block.role);
        let local = scope == Scope::Local;
        if local {
            block.params.iter().for_each(|p| self.locally(b, p.0, 0));
        }
        for ((&id, inst), at) in block.insts.iter().zip(1..) {
            each_operand(inst, primal, |name| {
                if !self.is_there(scope, name, b, at) {
                    faults.add(Rule::Dominance, block.id, Some(id), format!("{name} is not defined on every path"));
                }
            });
            if local {
                inst.defs.iter().for_each(|d| self.locally(b, d.0, at));
            }
        }
        let end = block.insts.len() as u32 + 1;
        let mut at_end = |name: Val, faults: &mut Faults| {
            if !self.is_there(scope, name, b, end) {
                let what = format!("{name}, which the terminator reads, is not defined on every path");
                faults.add(Rule::Dominance, block.id, None, what);
            }
        };
        match &block.term {
            Term::If(v, ..) | Term::Table(v, ..) | Term::Switch(v, _) => at_end(*v, faults),
            Term::Return(values) => values.iter().for_each(|&v| at_end(v, faults)),
            Term::Jump(_) | Term::Trap(_) => {}
        }
        block.term.targets().flat_map(|t| &t.args).for_each(|&v| at_end(v, faults));
    }

    fn locally(&mut self, b: usize, name: Val, at: u32) {
        if !matches!(name, Val::D(_)) {
            *self.local.at(name) = Some(Site { block: b as u32, at });
        }
    }

    fn is_there(&mut self, scope: Scope, name: Val, b: usize, at: u32) -> bool {
        let view = self.view;
        let comes_before = |s: &Site| {
            if s.block as usize == b { s.at < at } else { view.dominates(s.block as usize, b) }
        };
        if let Val::D(d) = name {
            return view.derived.get(d.index()).copied().flatten().is_some_and(|d| comes_before(&d.site));
        }
        match scope {
            Scope::Forward => (*self.forward.at(name)).is_some_and(|s| comes_before(&s)),
            Scope::Local => (*self.local.at(name)).is_some_and(|s| s.block as usize == b),
            Scope::Loop(_, in_advance) => {
                let in_loop = self.loops.get(&(scope, name)).is_some_and(|sites| sites.iter().any(comes_before));
                in_loop || in_advance && (*self.forward.at(name)).is_some_and(|s| comes_before(&s))
            }
        }
    }
}
