//! Codegen units: which functions of a derivation are compiled, and as what.
//!
//! **Problem.** The root's functions are compiled with the [thunk](crate::clif::entry_thunk) that
//! Rust calls them through, unless others call them, too. What verifies a derivation, what
//! compiles it and what lists its machine code must mean the same functions.
//!
//! **Answer.** One list of them, in the order of compilation. What is asked for comes first, and
//! gets its thunk when it is taken to be compiled.
//!
//! **Cost.** None at run time. To list the units, the names are looked at that derived functions
//! declare, if there is no combined function. A function is taken, not copied.

use brolga_ir::program::symbol_of;
use brolga_ir::{Diagnostics, FuncKey};
use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;

use crate::clif::entry_thunk::{thunk_callee, verify};
use crate::derived::{Derivation, DerivedPair};

/// A function that is compiled.
#[derive(Clone, Debug)]
pub struct CodegenUnit {
    /// How it is called: `SYMBOL`, and `SYMBOL.entry` with a thunk.
    pub symbol: String,
    /// What it is.
    pub role: UnitRole,
    /// Whether it is the root's, and has a thunk.
    pub thunk: bool,
    /// Whether half of it is there twice
    /// ([`DerivedCombined::versioned`](crate::DerivedCombined::versioned)).
    pub versioned: bool,
    /// Whose derivative it is.
    pub owner: FuncKey,
}

/// What a unit of a derivation is, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitRole {
    /// The combined function of the root.
    Root,
    /// A function of both halves that others call.
    Joint(usize),
    /// The forward pass of a pair.
    Forward(usize),
    /// The pullback of a pair.
    Pullback(usize),
    /// One of the [entries](Derivation::entries).
    Entry(usize),
}

impl Derivation {
    /// What is compiled.
    pub fn codegen_units(&self) -> Vec<CodegenUnit> {
        // Without a combined function the first pair is the root's. The combined function has no
        // other caller.
        let pair = self.combined.is_none() && self.pairs.first().is_some_and(|p| !self.is_called(p));
        let unit = |symbol: &str, role, versioned, owner| {
            let thunk = match role {
                UnitRole::Root => true,
                UnitRole::Forward(i) | UnitRole::Pullback(i) => pair && i == 0,
                UnitRole::Joint(_) | UnitRole::Entry(_) => false,
            };
            let symbol = if thunk { format!("{symbol}.entry") } else { symbol.to_owned() };
            CodegenUnit { symbol, role, thunk, versioned, owner }
        };
        let mut units = Vec::with_capacity(1 + self.joint.len() + 2 * self.pairs.len());
        units.extend(self.combined.iter().map(|w| unit(&w.symbol, UnitRole::Root, w.versioned, w.variant.func)));
        for (i, w) in self.joint.iter().enumerate() {
            units.push(unit(&w.symbol, UnitRole::Joint(i), w.versioned, w.variant.func));
        }
        for (i, p) in self.pairs.iter().enumerate() {
            units.push(unit(&p.forward_symbol, UnitRole::Forward(i), false, p.variant.func));
            units.push(unit(&p.pullback_symbol, UnitRole::Pullback(i), false, p.variant.func));
        }
        let entries = self.entries.iter().enumerate();
        units.extend(entries.map(|(i, e)| unit(&e.symbol, UnitRole::Entry(i), false, e.of)));
        units
    }

    /// Whether derived code calls a pair, directly or through a pointer.
    pub(crate) fn is_called(&self, pair: &DerivedPair) -> bool {
        let is_it = |s: &str| s == pair.forward_symbol || s == pair.pullback_symbol;
        let refers = |f: &ir::Function| {
            f.dfg.ext_funcs.values().any(|e| {
                let spelled = symbol_of(f, &e.name);
                is_it(self.names.symbol(&spelled).unwrap_or(&spelled))
            })
        };
        self.captures.iter().any(|c| is_it(&c.forward))
            || self.pairs.iter().any(|p| refers(&p.forward) || refers(&p.pullback))
            || self.joint.iter().any(|w| refers(&w.func))
    }

    /// The function that is compiled for a unit, without its thunk.
    pub fn func(&self, unit: &CodegenUnit) -> &ir::Function {
        match unit.role {
            UnitRole::Root => &self.combined.as_ref().expect("it is a unit").func,
            UnitRole::Joint(i) => &self.joint[i].func,
            UnitRole::Forward(i) => &self.pairs[i].forward,
            UnitRole::Pullback(i) => &self.pairs[i].pullback,
            UnitRole::Entry(i) => &self.entries[i].func,
        }
    }

    /// The same, to be compiled: after its thunk, if it has one. Of a function that has been taken
    /// its signature is left.
    ///
    /// # Errors
    /// What the verifier says of a function that does not fit its signature. It is a bug of ours if
    /// it says anything.
    pub fn take(&mut self, unit: &CodegenUnit, isa: &dyn TargetIsa) -> Result<ir::Function, Diagnostics> {
        let place = match unit.role {
            UnitRole::Root => &mut self.combined.as_mut().expect("it is a unit").func,
            UnitRole::Joint(i) => &mut self.joint[i].func,
            UnitRole::Forward(i) => &mut self.pairs[i].forward,
            UnitRole::Pullback(i) => &mut self.pairs[i].pullback,
            UnitRole::Entry(i) => &mut self.entries[i].func,
        };
        let left = ir::Function::with_name_signature(place.name.clone(), place.signature.clone());
        let func = std::mem::replace(place, left);
        if unit.thunk { thunk_callee(func, isa, &self.program.funcs[unit.owner].symbol) } else { Ok(func) }
    }

    /// Ask Cranelift's verifier about all that is going to be compiled.
    ///
    /// # Errors
    /// What it says, of all functions at once. It is a bug of ours if it says anything.
    pub fn verify(&self, isa: &dyn TargetIsa) -> Result<(), Diagnostics> {
        let mut problems = Diagnostics::default();
        for unit in self.codegen_units() {
            let found = verify(self.func(&unit), isa, &self.program.funcs[unit.owner].symbol);
            problems.extend(found.err().into_iter().flat_map(|e| e.0));
        }
        problems.or_ok(())
    }
}
