//! Which functions of a derivation are compiled, and as what.
//!
//! **Problem.** A derivation has the root's functions twice: with the [door](crate::door) that Rust calls them through, and without, for those
//! who look at them. Who verifies it, who compiles it and who lists its machine code must mean the same functions.
//!
//! **Answer.** One list of them, in the order of compilation. What is asked for comes first, with its door if it has one.

use brolga_ir::{Diagnostics, FuncKey};
use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;

use crate::derive::Derivation;
use crate::door::verify;

/// A function that is compiled.
#[derive(Clone, Debug)]
pub struct Part {
    /// How it is called: `SYMBOL`, and `SYMBOL.entry` with a door.
    pub symbol: String,
    /// What it is.
    pub role: PartRole,
    /// Whether it is the root's, and has a door.
    pub door: bool,
    /// Whether half of it is there twice ([`DerivedWhole::twice`](crate::DerivedWhole::twice)).
    pub twice: bool,
    /// Whose derivative it is.
    pub owner: FuncKey,
}

/// What a part of a derivation is, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartRole {
    /// The combined function of the root.
    Root,
    /// A function of both halves that others call.
    Whole(usize),
    /// The forward pass of a pair.
    Forward(usize),
    /// The pullback of a pair.
    Pullback(usize),
}

impl Derivation {
    /// What is compiled.
    pub fn parts(&self) -> Vec<Part> {
        let mut doors = self.doors.iter();
        let mut part = |symbol: &str, role, twice, owner| {
            // Without a combined function the first pair is the root's, and all doors are its.
            let door = !matches!(role, PartRole::Whole(_)) && doors.next().is_some();
            let symbol = if door { format!("{symbol}.entry") } else { symbol.to_owned() };
            Part { symbol, role, door, twice, owner }
        };
        let mut parts = Vec::with_capacity(1 + self.wholes.len() + 2 * self.pairs.len());
        parts.extend(self.whole.iter().map(|w| part(&w.symbol, PartRole::Root, w.twice, w.variant.func)));
        for (i, w) in self.wholes.iter().enumerate() {
            parts.push(part(&w.symbol, PartRole::Whole(i), w.twice, w.variant.func));
        }
        for (i, p) in self.pairs.iter().enumerate() {
            parts.push(part(&p.forward_symbol, PartRole::Forward(i), false, p.variant.func));
            parts.push(part(&p.pullback_symbol, PartRole::Pullback(i), false, p.variant.func));
        }
        parts
    }

    /// The function that is compiled for a part.
    pub fn func(&self, part: &Part) -> &ir::Function {
        match part.role {
            PartRole::Root | PartRole::Forward(0) if part.door => &self.doors[0],
            PartRole::Pullback(0) if part.door => &self.doors[1],
            PartRole::Root => &self.whole.as_ref().expect("it is a part").func,
            PartRole::Whole(i) => &self.wholes[i].func,
            PartRole::Forward(i) => &self.pairs[i].forward,
            PartRole::Pullback(i) => &self.pairs[i].pullback,
        }
    }

    /// The same for somebody who is going to change it: but for the root's without a door, it is not there any more.
    pub fn take(&mut self, part: &Part) -> ir::Function {
        let alone = self.whole.is_none();
        let place = match part.role {
            PartRole::Root | PartRole::Forward(0) if part.door => &mut self.doors[0],
            PartRole::Pullback(0) if part.door => &mut self.doors[1],
            PartRole::Root => return self.func(part).clone(),
            PartRole::Forward(0) | PartRole::Pullback(0) if alone => return self.func(part).clone(),
            PartRole::Whole(i) => &mut self.wholes[i].func,
            PartRole::Forward(i) => &mut self.pairs[i].forward,
            PartRole::Pullback(i) => &mut self.pairs[i].pullback,
        };
        std::mem::replace(place, ir::Function::new())
    }

    /// Ask Cranelift's verifier about all that is compiled.
    ///
    /// # Errors
    /// What it says, of all functions at once. It is a bug of ours if it says anything.
    pub fn verify(&self, isa: &dyn TargetIsa) -> Result<(), Diagnostics> {
        let mut problems = Diagnostics::default();
        for part in self.parts() {
            let found = verify(self.func(&part), isa, &self.program.funcs[part.owner].symbol);
            problems.extend(found.err().into_iter().flat_map(|e| e.0));
        }
        problems.or_ok(())
    }
}
