//! Memory in which there may be a float's bits, in whatever form: where a word that is loaded as an
//! integer is not surely a number.
//!
//! **Question.** A callee loads a word, calculates with it, and stores it. It sees no float there,
//! but its caller may have put one there, or pieces of one. Of which classes of memory
//! ([`crate::kinds::contents`]) is that so?
//!
//! **Answer.** Of those that hold floats by their accesses, to which something active is stored, or
//! of which a caller says so ([`ParamMode::Dup`], `bits`); and of what their pointers lead to. A
//! call that is given any of these, or active values, may have put floats wherever it leads.
//!
//! ```text
//! store v0, v1          ; v0: f64     the class of v1
//! store v1, v2                        v2 leads there
//! call fn0(v2, v3)                    the class of v3, too
//! ```
//!
//! **Cost.** One walk over the accesses, and rounds over calls until nothing changes.
//!
//! **Source.** Points-to classes after Steensgaard; the question is that of type analysis in Enzyme
//! (Moses and Churavy, 2020), asked from callers to callees.

use cranelift_codegen::ir;
use cranelift_entity::EntitySet;

use super::answer::State;
use super::context::ActivityCx;
use crate::kinds::contents::Contents;
use crate::query::{access_address, is_plain_integer, stored_operand};
use crate::variant::ParamMode;

/// Whether an address leads to memory of these classes, itself or by pointers in it.
pub fn leads_to(found: &EntitySet<ir::Value>, contents: &Contents, addr: ir::Value) -> bool {
    closure(contents, addr).any(|class| found.contains(class))
}

/// The class of an address, that of what its pointers point at, and so on.
fn closure(contents: &Contents, addr: ir::Value) -> impl Iterator<Item = ir::Value> + '_ {
    let mut seen: EntitySet<ir::Value> = EntitySet::new();
    let next = move |class: &ir::Value| contents.pointee(*class).map(|p| contents.find(p));
    std::iter::successors(Some(contents.find(addr)), next).take_while(move |class| seen.insert(*class))
}

impl ActivityCx<'_> {
    /// The classes of memory that may hold floats' bits, once states are known.
    pub(super) fn float_memory(&self) -> EntitySet<ir::Value> {
        let (func, cfg, contents, p) = (self.input.func, self.input.cfg, self.input.contents, self.input.pointers);
        let mut found: EntitySet<ir::Value> = EntitySet::new();
        let formal = func.dfg.block_params(cfg.blocks[0]).iter().zip(self.input.params);
        for (&v, _) in formal.filter(|(_, mode)| matches!(mode, ParamMode::Dup { bits: true, .. })) {
            found.extend(closure(contents, v));
        }
        for &inst in cfg.all_insts() {
            let Some(addr) = access_address(func, inst) else { continue };
            let active = stored_operand(func, inst).is_some_and(|x| self.answer.state[x] != State::No);
            if active || contents.of_class(addr).has_float() {
                found.insert(contents.find(addr));
            }
        }
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for &call in &cfg.calls {
                if !self.is_given_floats(call, &found) {
                    continue;
                }
                for &v in func.dfg.inst_args(call).iter().chain(func.dfg.inst_results(call)) {
                    let reached = closure(contents, v).filter(|_| p.root(v).is_some());
                    reached.for_each(|class| changed |= found.insert(class));
                }
            }
        }
        found
    }

    /// Whether a call is given something active, or addresses of memory with floats.
    fn is_given_floats(&self, call: ir::Inst, found: &EntitySet<ir::Value>) -> bool {
        let leads = |&v: &ir::Value| self.input.pointers.root(v).is_some() && leads_to(found, self.input.contents, v);
        let args = self.input.func.dfg.inst_args(call);
        args.iter().any(|v| self.answer.state[*v] != State::No || leads(v))
    }

    /// Integers that nothing says to be a float's bits, and that come from where there may be such.
    pub(super) fn unknown_words(&self, found: &EntitySet<ir::Value>) -> EntitySet<ir::Value> {
        let (func, p) = (self.input.func, self.input.pointers);
        let from_memory = |inst: ir::Inst| {
            let addr = access_address(func, inst).expect("a load has an address");
            let v = func.dfg.first_result(inst);
            let pointer = p.address.contains(v) || p.pointer_copy.contains(v);
            let may_be = p.root(addr).is_some() && !pointer && !is_plain_integer(func, inst);
            may_be && found.contains(self.input.contents.find(addr)) && !self.is_known(inst)
        };
        let from_call = |inst: ir::Inst| self.is_given_floats(inst, found);
        super::demanded_bits::may_be_bits(&self.input.for_demand(), from_memory, std::iter::empty(), from_call)
    }
}
