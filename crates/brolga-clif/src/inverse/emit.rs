//! Inversion of control flow: the inverse of each piece, as CLIF.
//!
//! **Question.** A function is a list of straight pieces, loops, branches and calls
//! ([`super::structure`]). What undoes it?
//!
//! **Answer.** Pieces are undone one by one, the last first: straight ones ([`super::straight`]),
//! loops ([`super::loops`]), branches, and calls, by a call of what undoes the callee. A branch
//! asks again what decided it, so that has to be *steady*: computed from what no piece changes.
//!
//! ```text
//! brif v1, block1, block2                brif v1', block1', block2'
//! block1: …; jump block3         ⟶       block1': … undone; jump block3'
//! block2: …; jump block3                 block2': … undone; jump block3'
//! ```
//!
//! **Cost.** One inverse of each piece; what is steady is computed where it is asked for first.
//!
//! **Source.** NiLang (Liu and Zhao, 2020) for the statements; here the control flow of a function
//! that is not written for it.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, Block, Inst, InstBuilder, Value, ValueDef};

use super::readings::{Reading, Readings};
use super::structure::UndoPart;
use super::view::{Undoable, View, refused};
use crate::map::HashMap;

/// An inverse that is being made.
pub(super) struct Inverse<'v, 'f, 'o, 'p> {
    pub view: &'v View<'f>,
    pub readings: Readings<'p>,
    pub pos: FuncCursor<'o>,
    /// Steady values that are there, by those of the function.
    pub known: HashMap<Value, Value>,
    /// Why what a loop carries is not known.
    pub lost: HashMap<Value, String>,
}

pub(super) const BY_HAND: &str = "write an inverse by hand: `inverse_pair`";

impl Inverse<'_, '_, '_, '_> {
    /// Undo pieces, the last first.
    pub(super) fn undo_all(&mut self, parts: &[UndoPart]) -> Undoable<()> {
        for (i, part) in parts.iter().enumerate().rev() {
            self.readings.undo(parts, i);
            match part {
                // It has changed nothing.
                UndoPart::Pure(_) => {}
                UndoPart::Straight(insts) => self.straight(insts)?,
                UndoPart::Loop(repeated) => self.undo_loop(repeated)?,
                UndoPart::Call(inst, undo) => self.uncall(*inst, undo)?,
                UndoPart::Choice { by, at, then, other } => {
                    let by = self.steady(*by, *at)?;
                    let [first, second, join] = [(); 3].map(|()| self.pos.func.dfg.make_block());
                    self.pos.ins().brif(by, first, &[], second, &[]);
                    for (block, parts) in [(first, then), (second, other)] {
                        let around = self.known.clone();
                        self.open(block);
                        self.undo_all(parts)?;
                        self.pos.ins().jump(join, &[]);
                        self.known = around;
                    }
                    self.open(join);
                }
            }
        }
        self.readings.undone(parts);
        Ok(())
    }

    /// Call what undoes a callee.
    fn uncall(&mut self, inst: Inst, undo: &str) -> Undoable<()> {
        let args = self.view.func.dfg.inst_args(inst).to_vec();
        let args = args.into_iter().map(|a| self.steady(a, inst)).collect::<Undoable<Vec<Value>>>()?;
        let ir::InstructionData::Call { func_ref, .. } = self.view.func.dfg.insts[inst] else { unreachable!("a call") };
        let callee = ir::ExtFuncData {
            name: ir::ExternalName::testcase(undo),
            ..self.view.func.dfg.ext_funcs[func_ref].clone()
        };
        let known = self.pos.func.dfg.ext_funcs.iter().find(|(_, e)| e.name == callee.name).map(|(r, _)| r);
        let callee = known.unwrap_or_else(|| self.pos.func.import_function(callee));
        let call = self.pos.ins().call(callee, &args);
        let loc = self.view.func.srcloc(inst);
        self.pos.func.set_srcloc(call, loc);
        Ok(())
    }

    pub(super) fn open(&mut self, block: Block) {
        self.pos.insert_block(block);
        self.pos.goto_bottom(block);
    }

    /// Whether a value can be computed again here.
    pub(super) fn is_steady(&self, v: Value) -> bool {
        self.is_steady_of(v, &mut HashMap::default())
    }

    /// The same, with what is known of others.
    pub(super) fn is_steady_of(&self, v: Value, seen: &mut HashMap<Value, bool>) -> bool {
        let v = self.view.resolved(v);
        if self.known.contains_key(&v) {
            return true;
        }
        if let Some(&found) = seen.get(&v) {
            return found;
        }
        if let Some(number) = self.readings.around(self.view, v) {
            let found = self.can_rerun(number, seen);
            seen.insert(v, found);
            return found;
        }
        let dfg = &self.view.func.dfg;
        let found = match dfg.value_def(v) {
            ValueDef::Result(inst, _) => dfg.inst_args(inst).iter().all(|&a| self.is_steady_of(a, seen)),
            ValueDef::Param(block, i) => self.sole(block, i).is_some_and(|v| self.is_steady_of(v, seen)),
            ValueDef::Union(..) => false,
        };
        seen.insert(v, found);
        found
    }

    /// What a parameter of a block is that is entered from one place.
    fn sole(&self, block: Block, param: usize) -> Option<Value> {
        let func = self.view.func;
        let mut found = None;
        for inst in func.layout.blocks().filter_map(|b| func.layout.last_inst(b)) {
            let dfg = &func.dfg;
            for call in dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
                if call.block(&dfg.value_lists) == block {
                    let given = call.args(&dfg.value_lists).nth(param)?.as_value()?;
                    if found.replace(given).is_some() {
                        return None;
                    }
                }
            }
        }
        found
    }

    /// Compute a value again, which an instruction needs.
    pub(super) fn steady(&mut self, v: Value, at: Inst) -> Undoable<Value> {
        let v = self.view.resolved(v);
        if let Some(&known) = self.known.get(&v) {
            return Ok(known);
        }
        if !self.is_steady(v) {
            let lost = self.first_lost(v);
            let why = self
                .lost
                .get(&lost)
                .cloned()
                .unwrap_or_else(|| format!("`{}` needs {v}, which is made of the state", self.view.text(at)));
            return refused(at, why, "let addresses, branches and limits of loops depend on what stays as it is");
        }
        if let Some(number) = self.readings.around(self.view, v)
            && let Reading::Loop(of) = self.readings.reading(number)
        {
            self.rerun_loop(number, of)?;
            return Ok(self.known[&v]);
        }
        let new = match self.view.func.dfg.value_def(v) {
            ValueDef::Param(block, i) => {
                let given = self.sole(block, i).expect("it is steady");
                self.steady(given, at)?
            }
            ValueDef::Result(inst, n) => {
                let args = self.view.func.dfg.inst_args(inst).to_vec();
                let args = args.into_iter().map(|a| self.steady(a, at)).collect::<Undoable<Vec<Value>>>()?;
                self.copied(inst, &args)[n]
            }
            ValueDef::Union(..) => unreachable!("it is steady"),
        };
        self.known.insert(v, new);
        Ok(new)
    }

    /// The first of what a value is made of that cannot be computed again.
    pub(super) fn first_lost(&self, v: Value) -> Value {
        let args = match self.view.func.dfg.value_def(v) {
            ValueDef::Result(inst, _) => self.view.func.dfg.inst_args(inst),
            ValueDef::Param(..) | ValueDef::Union(..) => &[],
        };
        let lost = args.iter().map(|&a| self.view.resolved(a)).find(|&a| !self.is_steady(a));
        lost.map_or(v, |a| self.first_lost(a))
    }

    /// A copy of an instruction, of these operands.
    pub(super) fn copied(&mut self, inst: Inst, args: &[Value]) -> Vec<Value> {
        let copy = self.pos.func.dfg.clone_inst(inst);
        let mut next = args.iter();
        self.pos.func.dfg.map_inst_values(copy, |_| *next.next().expect("there is one for each"));
        self.pos.insert_inst(copy);
        let loc = self.view.func.srcloc(inst);
        self.pos.func.set_srcloc(copy, loc);
        self.pos.func.dfg.inst_results(copy).to_vec()
    }
}
