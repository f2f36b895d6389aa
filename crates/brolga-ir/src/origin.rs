//! Origins: where an instruction of a program comes from, and how it is called in messages.
//!
//! **Question.** An instruction has a number in a source location. Which instruction that the user
//! wrote is that?
//!
//! **Answer.** [`Program::origin`] goes back by [`Copies`](crate::Copies), if the instruction was
//! copied into its function, and by the stems of a derivative that was derived again.
//! [`Program::text`] and [`Program::place`] say it in words. What stands in a function that is made
//! for a fork is of the call that forks ([`Program::written_chain`]).
//!
//! **Cost.** None, where nothing is reported. Else a walk over the calls by which an instruction
//! came.

use cranelift_codegen::ir;

use crate::copies::Origin;
use crate::fork::made_for;
use crate::position::position;
use crate::{FuncKey, Program};

impl Program {
    /// Where an instruction of `func` comes from: from `func`, or from what was put into it; from
    /// the primal, if that is a derivative. `inst` is a number as it stands in a source location.
    pub fn origin(&self, func: FuncKey, inst: ir::Inst) -> Origin {
        let Origin { func, inst, calls } = self.copies.origin(func, inst);
        let stem = |(func, inst): (FuncKey, ir::Inst)| {
            self.funcs.get(func).and_then(|f| f.stems[inst]).unwrap_or((func, inst))
        };
        let (func, inst) = stem((func, inst));
        Origin { func, inst, calls: calls.into_iter().map(stem).collect() }
    }

    /// An instruction of `func` as the user wrote it: the function that has it, its body, and its
    /// number there. None if that is an instruction of ours, or is in no body.
    pub fn written(&self, func: FuncKey, inst: ir::Inst) -> Option<(FuncKey, &ir::Function, ir::Inst)> {
        let Origin { func, inst, .. } = self.origin(func, inst);
        let body = self.funcs[func].body.as_ref()?;
        ((inst.as_u32() as usize) < body.dfg.num_insts()).then_some((func, body, inst))
    }

    /// An instruction of `func` and the calls by which it came there, from within, as the user
    /// wrote them. Without functions that are made for forks: where `func` is one, the last is the
    /// call that forks, if the program has one such call only.
    pub fn written_chain(&self, func: FuncKey, inst: Option<ir::Inst>) -> Vec<(FuncKey, Option<ir::Inst>)> {
        let mut chain = vec![(func, inst)];
        if let Some(Origin { func, inst, calls }) = inst.map(|i| self.origin(func, i)) {
            chain = vec![(func, Some(inst))];
            chain.extend(calls.into_iter().map(|(func, call)| (func, Some(call))));
        }
        let made = |func: FuncKey| made_for(&self.funcs[func].symbol).map(|of| of.1);
        chain.retain(|at| made(at.0).is_none());
        if let Some(fork) = made(func) {
            chain.extend(self.only_call(fork).map(|(func, call)| (func, Some(call))));
        }
        chain
    }

    /// The call that has become one of this fork, also where that has been put in its place.
    fn only_call(&self, fork: &str) -> Option<(FuncKey, ir::Inst)> {
        let made = |func: FuncKey| made_for(&self.funcs[func].symbol).map(|of| of.1);
        let bodies = self.funcs.iter().filter_map(|(k, f)| Some((k, f.body.as_ref()?)));
        let mut found = None;
        for (func, body) in bodies.filter(|&(k, _)| made(k).is_none()) {
            for inst in body.layout.blocks().flat_map(|b| body.layout.block_insts(b)) {
                let ir::InstructionData::Call { func_ref, .. } = body.dfg.insts[inst] else { continue };
                if self.callee(body, func_ref).and_then(made) == Some(fork) {
                    let Origin { func, inst, calls } = self.origin(func, inst);
                    let call = [(func, inst)].into_iter().chain(calls).find(|at| made(at.0).is_none())?;
                    if found.replace(call).is_some_and(|before| before != call) {
                        return None;
                    }
                }
            }
        }
        found
    }

    /// What messages call a function: its symbol, or the import that it is made for.
    pub fn spoken(&self, func: FuncKey) -> &str {
        let symbol = &self.funcs[func].symbol;
        made_for(symbol).map_or(symbol, |of| of.0)
    }

    /// The text of an instruction of `func` as the user wrote it, in the names of the file.
    pub fn text(&self, func: FuncKey, inst: ir::Inst) -> Option<String> {
        let (_, body, inst) = self.written(func, inst)?;
        let text = body.dfg.display_inst(inst).to_string();
        Some(text.split("  ;").next().unwrap_or_default().trim().to_owned())
    }

    /// An instruction of a function in words: `%f, block1, inst3, line 12`, as far as it is known.
    pub fn place(&self, func: FuncKey, inst: ir::Inst) -> String {
        let f = &self.funcs[func];
        let mut out = format!("%{}", f.symbol);
        if let Some(block) = f.body.as_ref().and_then(|b| b.layout.inst_block(inst)) {
            out += &format!(", {block}, {inst}");
        }
        match f.lines[inst] {
            0 => out,
            line => format!("{out}, {}", position(line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> FuncKey {
        FuncKey::from_u32(n)
    }

    fn inst(n: u32) -> ir::Inst {
        ir::Inst::from_u32(n)
    }

    #[test]
    fn a_copy_of_a_copy_names_the_instruction_and_all_calls() {
        let mut program = Program::new();
        // inst7 of the third function by its call in the second, that by a call in the first; and
        // once more by another.
        let mut to = program.copies.at(key(1), inst(3));
        let inner = program.copies.copy(&mut to, key(2), inst(7));
        let mut to = program.copies.at(key(0), inst(5));
        let outer = program.copies.copy(&mut to, key(1), inner);
        let direct = program.copies.copy(&mut to, key(1), inst(4));
        let mut to = program.copies.at(key(0), inst(6));
        let second_copy = program.copies.copy(&mut to, key(1), inner);

        let origin = |func, i| program.origin(key(func), i);
        assert_eq!(origin(0, inst(5)), Origin { func: key(0), inst: inst(5), calls: vec![] });
        assert_eq!(origin(1, inner), Origin { func: key(2), inst: inst(7), calls: vec![(key(1), inst(3))] });
        let calls = vec![(key(1), inst(3)), (key(0), inst(5))];
        assert_eq!(origin(0, outer), Origin { func: key(2), inst: inst(7), calls });
        assert_eq!(origin(0, direct), Origin { func: key(1), inst: inst(4), calls: vec![(key(0), inst(5))] });
        let calls = vec![(key(1), inst(3)), (key(0), inst(6))];
        assert_eq!(origin(0, second_copy), Origin { func: key(2), inst: inst(7), calls });
        // What stems from no instruction is no copy of any.
        assert!(origin(0, inst(u32::MAX - 1)).calls.is_empty());
    }

    #[test]
    fn diagnostics_name_the_instruction_and_the_calls() {
        let mut program = Program::new();
        for name in ["f", "g"] {
            program.define(name, ir::Function::new(), |_| 0).expect("the name is new");
        }
        let mut to = program.copies.at(key(0), inst(5));
        let copy = program.copies.copy(&mut to, key(1), inst(4));
        let d = crate::Diagnostic::new("AD0000", "it is wrong").at(&program, key(0), copy);
        assert_eq!(d.to_string(), "error[AD0000]: it is wrong\n  --> %g\n  note: inlined into %f");
    }
}
