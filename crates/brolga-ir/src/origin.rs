//! Inlined locations: where an instruction comes from that was copied out of one function into
//! another.
//!
//! **Problem.** Every instruction of a body is located by its own number ([`crate::program`]),
//! which says nothing about a copy of it in another function: diagnostics, traps and explanations
//! would name an instruction that the user never wrote there.
//!
//! **Answer.** Copies have numbers of their own, from [`COPIED`] upwards, which no body reaches.
//! [`Copies`] knows for each which instruction of which function it is a copy of, and by which
//! calls it came to where it is. A copy of a copy is a copy of the instruction that the user wrote,
//! with one call more. A number, plus one, is a source location like any other; so nothing between
//! here and machine code has to know of copies.
//!
//! **Invariants.** A number means the same in all functions of a program. [`Program::origin`] is
//! the only place that asks whether a number is that of a copy.

use cranelift_codegen::ir;

use crate::map::HashMap;
use crate::{FuncKey, Program, position};

/// Numbers of copied instructions begin here. The bit above is [`crate::lower::CHECK_SRCLOC`].
pub const COPIED: u32 = 1 << 30;

/// The copied instructions of a program.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    insts: Vec<Copied>,
    sites: Vec<Site>,
}

/// One instruction, copied once.
#[derive(Clone, Copy, Debug)]
struct Copied {
    func: FuncKey,
    inst: ir::Inst,
    site: SiteId,
}

/// A call that was replaced by the callee's body.
#[derive(Clone, Copy, Debug)]
struct Site {
    func: FuncKey,
    call: ir::Inst,
    /// The call that was replaced by what this one is in.
    outer: Option<SiteId>,
}

/// Names a call that was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SiteId(u32);

/// A call that is being replaced.
#[derive(Debug)]
pub struct Inlining {
    site: SiteId,
    /// What calls that had been replaced in the callee are called here.
    nested: HashMap<SiteId, SiteId>,
}

/// Where an instruction comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The function in which the user wrote it.
    pub func: FuncKey,
    /// The instruction, as that function's body numbers it.
    pub inst: ir::Inst,
    /// The calls that were replaced by the bodies of their callees, as function and instruction;
    /// the innermost first, and empty for what is no copy.
    pub calls: Vec<(FuncKey, ir::Inst)>,
}

impl Copies {
    /// How many instructions have been copied.
    pub fn len(&self) -> usize {
        self.insts.len()
    }

    /// Whether nothing has been copied.
    pub fn is_empty(&self) -> bool {
        self.insts.is_empty()
    }

    /// Begin to replace a call of `func`'s own body.
    pub fn at(&mut self, func: FuncKey, call: ir::Inst) -> Inlining {
        Inlining { site: self.site(Site { func, call, outer: None }), nested: HashMap::default() }
    }

    /// Copy an instruction of `callee` to where a call of it stood: its new number. `inst` is as
    /// [`Program::origin`] takes it.
    pub fn copy(&mut self, to: &mut Inlining, callee: FuncKey, inst: ir::Inst) -> ir::Inst {
        let copied = match self.get(inst).copied() {
            Some(c) => Copied { site: self.nest(to, c.site), ..c },
            None => Copied { func: callee, inst, site: to.site },
        };
        self.insts.push(copied);
        ir::Inst::from_u32(COPIED + self.insts.len() as u32 - 1)
    }

    fn site(&mut self, site: Site) -> SiteId {
        self.sites.push(site);
        SiteId(self.sites.len() as u32 - 1)
    }

    /// A call that had been replaced in the callee, as seen from the caller.
    fn nest(&mut self, to: &mut Inlining, site: SiteId) -> SiteId {
        if let Some(&known) = to.nested.get(&site) {
            return known;
        }
        let old = self.sites[site.0 as usize];
        let outer = old.outer.map_or(to.site, |o| self.nest(to, o));
        let new = self.site(Site { outer: Some(outer), ..old });
        to.nested.insert(site, new);
        new
    }

    fn get(&self, inst: ir::Inst) -> Option<&Copied> {
        self.insts.get(inst.as_u32().checked_sub(COPIED)? as usize)
    }
}

impl Program {
    /// Where an instruction of `func` comes from: from `func`, or from what was put into it. `inst`
    /// is a number as it stands in a source location.
    pub fn origin(&self, func: FuncKey, inst: ir::Inst) -> Origin {
        let Some(c) = self.copies.get(inst) else { return Origin { func, inst, calls: Vec::new() } };
        let mut calls = Vec::new();
        let mut site = Some(c.site);
        while let Some(SiteId(s)) = site {
            let s = self.copies.sites[s as usize];
            calls.push((s.func, s.call));
            site = s.outer;
        }
        Origin { func: c.func, inst: c.inst, calls }
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
        let own = program.copies.copy(&mut to, key(1), inst(4));
        let mut to = program.copies.at(key(0), inst(6));
        let again = program.copies.copy(&mut to, key(1), inner);

        let origin = |func, i| program.origin(key(func), i);
        assert_eq!(origin(0, inst(5)), Origin { func: key(0), inst: inst(5), calls: vec![] });
        assert_eq!(origin(1, inner), Origin { func: key(2), inst: inst(7), calls: vec![(key(1), inst(3))] });
        let calls = vec![(key(1), inst(3)), (key(0), inst(5))];
        assert_eq!(origin(0, outer), Origin { func: key(2), inst: inst(7), calls });
        assert_eq!(origin(0, own), Origin { func: key(1), inst: inst(4), calls: vec![(key(0), inst(5))] });
        let calls = vec![(key(1), inst(3)), (key(0), inst(6))];
        assert_eq!(origin(0, again), Origin { func: key(2), inst: inst(7), calls });
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
