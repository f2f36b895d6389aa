//! Mod/ref of callees for scalar promotion: which words of its caller's frame a call writes.
//!
//! **Question.** Which variables of a frame are still what they were when a call returns?
//!
//! **Answer.** A callee's writes, transitively: places that keep their distance from a parameter or
//! from the start of memory, and what lies below the stack pointer that it was called with. What is
//! not known to be one of these may be anything. A known function of C writes nothing.
//!
//! **Below.** A function's own frame begins below the load of the stack pointer that is its first
//! access, and every store to it ends there; so do the frames of its callees, if the stack pointer
//! stands at that place or below when they are called. Where it returns, the stack pointer has to
//! be what it was.
//!
//! **Relies on** parameters that lead into no frame of the callee. A caller is only told of those
//! that it sees to point into its own frames, above the stack pointer.
//!
//! **Errs** on the side of anything: recursion, calls through pointers, tail calls, functions of
//! the host.
//!
//! **Cost.** Each function that is called from one with a frame is looked at once, if it has at
//! most [`LONGEST`] instructions.

use std::cell::RefCell;
use std::rc::Rc;

use brolga_analysis::query::cell::Base;
use brolga_analysis::{CalleeKind, Cfg};
use brolga_ir::map::HashMap;
use brolga_ir::{FuncKey, Program};
use brolga_rules::MathKind;
use cranelift_codegen::ir::{self, ArgumentPurpose, InstructionData};

use super::cells::{Calls, CellPart, CellPlace, CellState, CellWrites, WriteTarget};
use super::words::Words;

/// Instructions of the longest function that is looked at.
const LONGEST: usize = 4000;
/// Parts beyond which a function may write anything.
const MOST: usize = 16;

/// The functions of a program, and what is known of them.
pub struct CalleeWrites<'a> {
    program: &'a Program,
    /// `None` while a function is looked at, too.
    known: RefCell<HashMap<FuncKey, Option<Rc<CellWrites>>>>,
}

impl Calls for CalleeWrites<'_> {
    fn of_call(&self, func: &ir::Function, inst: ir::Inst) -> Option<Rc<CellWrites>> {
        match CalleeKind::of(self.program, func, inst)? {
            CalleeKind::Known(r) if matches!(r.kind, MathKind::Expr(_) | MathKind::Inactive) => Some(Rc::default()),
            CalleeKind::Derived(_) | CalleeKind::Plain(_) | CalleeKind::Computes(_) => {
                let InstructionData::Call { func_ref, .. } = func.dfg.insts[inst] else { return None };
                self.of(self.program.callee(func, func_ref)?)
            }
            _ => None,
        }
    }
}

impl<'a> CalleeWrites<'a> {
    /// Nothing is known yet.
    pub fn new(program: &'a Program) -> Self {
        Self { program, known: RefCell::default() }
    }

    fn of(&self, key: FuncKey) -> Option<Rc<CellWrites>> {
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        self.known.borrow_mut().insert(key, None);
        let body = self.program.funcs[key].body.as_ref()?;
        if body.dfg.num_insts() > LONGEST {
            return None;
        }
        let mut func = body.clone();
        func.dfg.resolve_all_aliases();
        let cfg = Cfg::compute(&func);
        let writes = Words::of_callee(&func, &cfg, self).and_then(|words| of_function(&cfg, &words)).map(Rc::new);
        self.known.borrow_mut().insert(key, writes.clone());
        writes
    }
}

fn of_function(cfg: &Cfg, words: &Words<'_>) -> Option<CellWrites> {
    let func = words.func;
    let memory = func.signature.params.iter().position(|p| p.purpose == ArgumentPurpose::VMContext);
    let mut found = CellWrites { memory, ..CellWrites::default() };
    let mut ends: Vec<CellState> = Vec::new();
    let mut globals: Vec<CellPart> = Vec::new();
    for &b in &cfg.blocks {
        let mut state = words.entering(b);
        for inst in func.layout.block_insts(b) {
            let op = func.dfg.insts[inst].opcode();
            if op.is_return() && op.is_call() {
                return None;
            }
            if op.is_return() {
                ends.push(state.clone());
            }
            for written in words.written(inst, &state) {
                match part(words, &written)? {
                    WrittenPlace::Below(slot) if found.below.is_none_or(|s| s == slot) => found.below = Some(slot),
                    WrittenPlace::Below(_) => return None,
                    WrittenPlace::Part(p) if p.through.is_none() && p.to <= 0 => globals.push(p),
                    WrittenPlace::Part(p) => found.parts.push(p),
                }
            }
            words.step(inst, &mut state);
        }
    }
    globals.retain(|p| !ends.iter().all(|s| is_as_before(words, p.from, s)));
    found.parts.extend(globals);
    found.parts.sort_unstable_by_key(|p| (p.through, p.from, p.to));
    found.parts.dedup();
    (found.parts.len() <= MOST).then_some(found)
}

/// Where something is written, as callers know it.
enum WrittenPlace {
    Part(CellPart),
    /// Below the stack pointer, which is this variable.
    Below(i64),
}

fn part(words: &Words<'_>, written: &WriteTarget) -> Option<WrittenPlace> {
    let names = &words.names;
    let (place @ (base, at), bytes) = match *written {
        WriteTarget::Named(place, bytes, false) => (place, bytes),
        WriteTarget::Below(place) => (place, 0),
        _ => return None,
    };
    if let Some(slot) = first_pointer(words, base) {
        return (at + bytes <= 0).then_some(WrittenPlace::Below(slot));
    }
    if bytes == 0 {
        return None;
    }
    let through = names.param(base);
    let is_memory = matches!(base, Base::Value(_)) && (names.is_global(place) || names.is_inside(place));
    let part = CellPart { through, from: at, to: at + bytes };
    (through.is_some() || is_memory).then_some(WrittenPlace::Part(part))
}

/// The variable of which a base is the value that it had when the function was called.
fn first_pointer(words: &Words<'_>, base: Base) -> Option<i64> {
    let func = words.func;
    let (_, root) = words.names.root_of(base)?;
    let slot = words.names.slot_of(root)?;
    let load = func.dfg.value_def(root).inst()?;
    let before = func.layout.block_insts(func.layout.entry_block()?).take_while(|&i| {
        let op = func.dfg.insts[i].opcode();
        i != load && !op.can_store() && !op.is_call()
    });
    let next = before
        .last()
        .and_then(|i| func.layout.next_inst(i))
        .or_else(|| func.layout.first_inst(func.layout.entry_block()?));
    (next == Some(load)).then_some(slot)
}

/// Whether a variable before memory is what it was when the function was called.
fn is_as_before(words: &Words<'_>, slot: i64, end: &CellState) -> bool {
    let found: Option<CellPlace> = words.names.pointer(slot, end);
    found.is_some_and(|(base, at)| at == 0 && first_pointer(words, base) == Some(slot))
}
