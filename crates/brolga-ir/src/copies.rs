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
//! **Invariants.** A number means the same in all functions of a program. [`Copies::origin`] is
//! the only place that asks whether a number is that of a copy.
//!
//! **Cost.** A dozen bytes for each instruction that is copied, and an entry for each call that is
//! replaced, with those in its callee. To find an origin is a walk over the calls by which it came.

use cranelift_codegen::ir;

use crate::FuncKey;
use crate::map::HashMap;

/// Numbers of copied instructions begin here. The bit above is [`crate::lower::CHECK_SRCLOC`].
pub(crate) const COPIED: u32 = 1 << 30;

/// The copied instructions of a program.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    insts: Vec<CopiedInst>,
    sites: Vec<InlinedCall>,
}

/// One instruction, copied once.
#[derive(Clone, Copy, Debug)]
struct CopiedInst {
    func: FuncKey,
    inst: ir::Inst,
    site: SiteId,
}

/// A call that was replaced by the callee's body.
#[derive(Clone, Copy, Debug)]
struct InlinedCall {
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
        Inlining { site: self.site(InlinedCall { func, call, outer: None }), nested: HashMap::default() }
    }

    /// Copy an instruction of `callee` to where a call of it stood: its new number. `inst` is as
    /// [`Program::origin`](crate::Program::origin) takes it.
    pub fn copy(&mut self, to: &mut Inlining, callee: FuncKey, inst: ir::Inst) -> ir::Inst {
        let copied = match self.get(inst).copied() {
            Some(c) => CopiedInst { site: self.nest(to, c.site), ..c },
            None => CopiedInst { func: callee, inst, site: to.site },
        };
        self.insts.push(copied);
        ir::Inst::from_u32(COPIED + self.insts.len() as u32 - 1)
    }

    fn site(&mut self, site: InlinedCall) -> SiteId {
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
        let new = self.site(InlinedCall { outer: Some(outer), ..old });
        to.nested.insert(site, new);
        new
    }

    /// As [`Program::origin`](crate::Program::origin).
    pub fn origin(&self, func: FuncKey, inst: ir::Inst) -> Origin {
        let Some(c) = self.get(inst) else { return Origin { func, inst, calls: Vec::new() } };
        let mut calls = Vec::new();
        let mut site = Some(c.site);
        while let Some(SiteId(s)) = site {
            let s = self.sites[s as usize];
            calls.push((s.func, s.call));
            site = s.outer;
        }
        Origin { func: c.func, inst: c.inst, calls }
    }

    fn get(&self, inst: ir::Inst) -> Option<&CopiedInst> {
        self.insts.get(inst.as_u32().checked_sub(COPIED)? as usize)
    }
}
