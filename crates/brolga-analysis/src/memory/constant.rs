//! Constant memory: loads of what the caller has said to be constant.
//!
//! **Question.** Where memory is one piece (a WebAssembly module's), all of it has a shadow, and a
//! parameter that is an address in it has none of its own that could be left out. The caller can
//! still say that it asks for no cotangent of what lies there: data, labels, tables. Which loads
//! need no cotangent then?
//!
//! **Answer.** Those whose address is based on such a parameter alone
//! ([`crate::memory::points_to`]), if nothing that runs may write to what such a parameter leads
//! to: neither a store of the function that is asked for, nor a call, by its
//! [effect](crate::memory::mod_ref). What is read is then what the caller has put there. Where
//! something may be written, nothing is left out, so that a value that goes through such memory
//! keeps its cotangent: the promise makes a gradient smaller, and never wrong. Two parameters may
//! lead to the same memory, unless one of them is `noalias`.
//!
//! A call passes the promise on with an argument that is based on such parameters alone. Nothing is
//! asked again in the callee, since its writes are part of the effect that the caller has looked
//! at.
//!
//! ```text
//! double loss(const double *p, const double *t)     t constant: the load of t[0] has no cotangent,
//!     return p[0] * t[0];                           and its product with p[0] is not computed
//! ```
//!
//! **Cost.** One walk over the function, where something is promised.
//!
//! Source: Enzyme's `enzyme_const`, for memory that has a shadow.

use brolga_ir::map::HashMap;
use brolga_ir::{FuncKey, Program, Promises};
use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::EntitySet;

use crate::cfg::Cfg;
use crate::lattice::points_to_set::{OTHER, Set, apart, bit};
use crate::memory::alias::{Origin, Place, Places};
use crate::memory::mod_ref::{self, Effect};
use crate::memory::points_to::Blocks;
use crate::variant::Variant;

/// What is asked about a function.
pub struct ConstantInput<'a> {
    /// The program.
    pub program: &'a Program,
    /// What is derived, and what its caller has promised.
    pub variant: &'a Variant,
    /// The normalised function.
    pub func: &'a ir::Function,
    /// Its control flow.
    pub cfg: &'a Cfg,
    /// Which blocks addresses are in.
    pub blocks: &'a Blocks,
    /// What the functions of the program may write.
    pub effects: &'a HashMap<FuncKey, Effect>,
}

/// What of a function has no cotangent because its caller has said so.
#[derive(Clone, Debug, Default)]
pub struct ConstantMemory {
    /// Loads.
    pub loads: EntitySet<ir::Inst>,
    /// What addresses in such memory are made from, and nothing else.
    within: Set,
}

impl ConstantMemory {
    /// Find them. The root of a derivative looks for writes; a callee's have been looked at by its
    /// caller.
    pub fn compute(i: &ConstantInput<'_>, root: bool) -> Self {
        let said = i.variant.promises.iter().enumerate().filter(|p| p.1.no_cotangent);
        let given: HashMap<usize, Set> = i.blocks.given().collect();
        let of = |param: usize| given.get(&param).copied().unwrap_or_else(|| bit(param));
        let mut within = said.map(|(param, _)| of(param)).filter(|&s| s != OTHER).fold(0, |all, s| all | s);
        if within == 0 || !i.blocks.known() {
            return Self::default();
        }
        if root && i.may_be_written(within) {
            // One that is written does not concern those that nothing else leads to.
            within = given.values().filter(|&&s| s & within != 0 && !i.may_be_written(s)).fold(0, |all, s| all | s);
        }
        let mut constant = Self { loads: EntitySet::new(), within };
        for &b in &i.cfg.blocks {
            for &inst in i.cfg.insts(b) {
                if i.func.dfg.insts[inst].opcode() == Opcode::Load && constant.holds(i, i.func.dfg.inst_args(inst)[0]) {
                    constant.loads.insert(inst);
                }
            }
        }
        constant
    }

    /// Whether an address is in such memory.
    fn holds(&self, i: &ConstantInput<'_>, address: ir::Value) -> bool {
        i.blocks.of(address) & !self.within == 0
    }

    /// What a call promises of its arguments; nothing if that is nothing.
    pub fn passed(&self, i: &ConstantInput<'_>, args: &[ir::Value]) -> Vec<Promises> {
        let holds = |(n, &a): (usize, &ir::Value)| n > 0 && self.within != 0 && self.holds(i, a);
        let promise = |arg| Promises { no_cotangent: holds(arg), ..Promises::default() };
        let found: Vec<_> = args.iter().enumerate().map(promise).collect();
        if found.iter().any(|p| p.no_cotangent) { found } else { vec![] }
    }
}

impl ConstantInput<'_> {
    /// Whether anything that runs may write to memory of these blocks.
    fn may_be_written(&self, blocks: Set) -> bool {
        let places = Places { program: self.program, func: self.func, cfg: self.cfg, blocks: self.blocks };
        // Globals and sizes lie before memory.
        let in_front = |p: &Place| matches!(p.origin, Origin::Param(0)) && p.span().is_some_and(|(_, end)| end <= 0);
        self.cfg.all_insts().iter().any(|&inst| {
            let written = mod_ref::written(places, inst, self.effects);
            written.iter().any(|p| !in_front(p) && !apart(p.within_blocks(), blocks))
        })
    }
}
