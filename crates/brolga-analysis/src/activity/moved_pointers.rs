//! Moved pointers: pointers that are moved as something else, so that their shadows would stay
//! after.
//!
//! **Question.** Which loads move a pointer as a float, a float as a pointer, or two pointers at
//! once? **Answer.** Those whose reaching store stores the other, and loads of 16 bytes of memory
//! that holds pointers. They are refused (AD0141, AD0143).
//!
//! **Cost.** What a search for one reaching store costs.

use brolga_ir::Diagnostic;
use cranelift_codegen::ir;

use super::answer::State;
use super::context::ActivityCx;
use crate::kinds::loaded_bits::is_only_stored;
use crate::kinds::number_uses::NumberInput;
use crate::lattice::kinds::Kinds;
use crate::memory::reaching_store;
use crate::query::cell::cell_of;
use crate::query::{access_address, access_offset};

const AS_FLOAT_NOTE: &str = "the shadow of a pointer moves with loads and stores of `i64`, so it would stay behind";
const AS_FLOAT_HELP: &str = "copy pointers as `i64`, or with `memcpy`";

impl ActivityCx<'_> {
    /// A float load of what was stored as a pointer. The shadow there is an address.
    pub(super) fn pointer_as_float(&mut self, inst: ir::Inst, v: ir::Value, found: reaching_store::ReachingStore) {
        let p = self.input.pointers;
        let x = self.input.func.dfg.inst_args(found.store)[0];
        if p.root(x).is_some_and(|r| p.sure.contains(r) || p.address.contains(r) || p.address.contains(x)) {
            let d = Diagnostic::new("AD0143", "a pointer is loaded as a float")
                .note(format!("it was stored by `{}`", self.written(found.store)))
                .note(AS_FLOAT_NOTE)
                .help(AS_FLOAT_HELP);
            self.problem(inst, Some(v), d);
        }
    }

    /// A pointer load of what was stored as a float, which is a copy unless it is nonsense.
    pub(super) fn float_as_pointer(&mut self, inst: ir::Inst, found: reaching_store::ReachingStore) {
        let func = self.input.func;
        let x = func.dfg.inst_args(found.store)[0];
        let loaded = func.dfg.value_def(x).inst().and_then(|i| access_address(func, i));
        let shadowed = loaded.is_some_and(|a| self.input.pointers.root(a).is_some());
        if self.is_float(x) && (shadowed || self.answer.state[x] != State::No) {
            let d = Diagnostic::new("AD0143", "a pointer is loaded where it was stored as a float")
                .note(format!("the last store there is `{}`", self.written(found.store)))
                .note(AS_FLOAT_NOTE)
                .help(AS_FLOAT_HELP);
            self.problem(inst, None, d);
        }
    }

    /// A wide copy of pointers: their shadows move one word at a time, so these would stay behind.
    pub(super) fn wide_pointers(&mut self, inst: ir::Inst, v: ir::Value, addr: ir::Value) {
        let func = self.input.func;
        let wide = self.ty(v).bytes() == 16 && !self.is_float(v) && self.input.contents.moved.contains(v);
        if !wide || !self.input.contents.of_class(addr).has(Kinds::POINTER) {
            return;
        }
        let cell = cell_of(func, addr, access_offset(func, inst));
        let halves = [cell, (cell.0, cell.1.wrapping_add(8))].map(|c| self.input.contents.of_cell(c).moved());
        if !halves.iter().all(|h| h.has_float()) {
            let d = Diagnostic::new("AD0141", "a copy of 16 bytes may move pointers, whose shadows would stay behind")
                .note("this memory is known to hold pointers")
                .help("copy pointers one by one, as 64-bit integers");
            self.problem(inst, None, d);
        }
    }

    /// Whether all that becomes of a word is what becomes of numbers.
    pub(super) fn has_number_uses(&self, v: ir::Value) -> bool {
        let i = self.input;
        let input = NumberInput {
            program: i.program,
            func: i.func,
            cfg: i.cfg,
            uses: i.uses,
            summaries: i.summaries,
            pointers: i.pointers,
        };
        input.uses_of(v, |cell| i.contents.of_cell(cell)).is_number()
    }

    /// Whether a word that is taken for a pointer because pointers lie about may be a float.
    pub(super) fn may_be_active(&self, x: ir::Value) -> bool {
        let (p, func) = (self.input.pointers, self.input.func);
        let root = p.root(x).filter(|&root| self.input.guessed.contains(root));
        let from = root.and_then(|r| func.dfg.value_def(r).inst()).and_then(|load| access_address(func, load));
        from.is_some_and(|addr| self.active_memory.contains(self.input.contents.find(addr)))
    }

    /// Whether a word among pointers is moved as it is, and need not be known. In forward mode that
    /// is derived again it is moved as a double, whatever it is: no account of pieces is kept.
    pub(super) fn is_asked(&self, v: ir::Value, k: Kinds) -> bool {
        let i = self.input;
        i.asks
            && (k.floats() == Kinds::F64 || i.derived_again && k.floats() == Kinds::NONE)
            && matches!((i.lanes[v], self.answer.lane[v]), (0, _) | (8, 8))
            && is_only_stored(i.func, i.uses, v)
    }

    /// The state of a word that is moved as a double.
    pub(super) fn as_double(&mut self, v: ir::Value) -> State {
        self.answer.lane[v] = 8;
        State::Varied { definite: false }
    }

    /// A copy of a pointer or of a float, and nothing says which: a float's cotangent goes back in
    /// the reverse half, but a pointer's shadow has to come along.
    pub(super) fn either(&mut self, inst: ir::Inst) {
        let v = self.input.func.dfg.first_result(inst);
        if self.has_number_uses(v) {
            self.answer.assumed_numbers.insert(v);
            return;
        }
        let d = Diagnostic::new("AD0140", "cannot tell whether this copies a pointer or a float")
            .note("the memory holds both, and no access of this place by this function says which is here")
            .help("declare what the buffers hold (`ArgSpec::elem`), load floats as floats, or copy the record by `memcpy`");
        self.problem(inst, None, d);
    }
}
