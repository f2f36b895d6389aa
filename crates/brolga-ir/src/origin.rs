//! Origins: where an instruction of a program comes from, and how it is called in messages.
//!
//! **Question.** An instruction has a number in a source location. Which instruction that the user
//! wrote is that?
//!
//! **Answer.** [`Program::origin`] goes back by [`Copies`](crate::Copies), if the instruction was
//! copied into its function, and by the stems of a derivative that was derived again.
//! [`Program::text`] and [`Program::place`] say it in words.
//!
//! **Cost.** None, where nothing is reported. Else a walk over the calls by which an instruction
//! came.

use cranelift_codegen::ir;

use crate::copies::Origin;
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
