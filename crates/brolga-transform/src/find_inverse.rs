//! Inverses of functions of a program that has none of them.
//!
//! **Question.** A function changes a state. Which function undoes it?
//! **Answer.** One that is derived from its text ([`brolga_clif::inverse`]), `f__inverse`. It is
//! defined, and said to undo the function ([`Program::set_inverse`]). Functions that it calls, and
//! that change memory, have inverses derived, too, `g__uncall`, or those that the program says.
//!
//! **Before**, variables that a frontend has left on the stack become values.
//!
//! **Cost.** That of the derivation. Nothing is recorded for calls that are undone.

use std::collections::BTreeMap;

use brolga_analysis::calls::summarise::reachable;
use brolga_clif::inverse::{Effects, InverseRequest, UndoneCall, effects, inverse};
use brolga_ir::driver::{Driver, StateLength};
use brolga_ir::program::functions_used;
use brolga_ir::{Diagnostic, Diagnostics, FuncKey, Program};
use brolga_rules::math_rule;
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{self, FuncRef, TrapCode, UserFuncName};

use crate::primal::slots::promote_slots;

/// The trap of an inverse that finds places on each other.
const OVERLAP: (u8, &str, &str) = (
    238,
    "overlap",
    "two places that a function changes lie on each other, so that its inverse does not know what was there: pass places \
     that are apart, or write an inverse by hand",
);

/// Inverses that are being derived.
struct InverseFinder<'p> {
    program: &'p Program,
    /// Bodies, in which variables on the stack are values.
    bodies: BTreeMap<FuncKey, ir::Function>,
    /// What functions do; nothing, of those that do anything else.
    effects: BTreeMap<FuncKey, Option<Effects>>,
    /// Callees whose inverses are needed.
    needed: Vec<FuncKey>,
    /// What has been derived, and of what.
    found: Vec<(String, ir::Function, FuncKey)>,
}

impl InverseFinder<'_> {
    /// Find out what a function does, and those that it calls. To begin with, each does nothing.
    fn look(&mut self, root: FuncKey) {
        let all = reachable(self.program, root);
        let bodies = all.iter().filter_map(|&k| Some((k, promoted(self.program.funcs[k].body.as_ref()?))));
        self.bodies.extend(bodies);
        self.effects.extend(all.iter().map(|&k| (k, Some(Effects::default()))));
        loop {
            let mut changed = false;
            for &key in &all {
                let new = self.effects_of(key);
                changed |= self.effects.insert(key, new.clone()) != Some(new);
            }
            if !changed {
                return;
            }
        }
    }

    fn effects_of(&self, key: FuncKey) -> Option<Effects> {
        let f = &self.program.funcs[key];
        if let Some(of) = self.undone_by(key) {
            return Some(Effects { reads: true, changes: of.0.into_iter().collect() });
        }
        let Some(body) = self.bodies.get(&key) else {
            return math_rule(&f.symbol).is_some_and(|r| r.only_computes()).then(Effects::default);
        };
        effects(body, &|callee| self.effects.get(&self.program.callee(body, callee)?)?.clone()).ok()
    }

    /// The states of a function that the program says how to undo, and what undoes it.
    fn undone_by(&self, key: FuncKey) -> Option<(Vec<usize>, String)> {
        let Some(Driver::Inverse(of)) = &self.program.funcs[key].driver else { return None };
        let address = |part: &brolga_ir::driver::StatePart| match part.address[..] {
            [i] if part.offset == 0 => Some(i),
            _ => None,
        };
        let states: Option<Vec<usize>> = of.state.iter().map(address).collect();
        Some((states?, of.undo.to_string()))
    }

    /// What a call does.
    fn called(&self, body: &ir::Function, callee: FuncRef) -> UndoneCall {
        let Some(key) = self.program.callee(body, callee) else {
            return UndoneCall::Lost("it is not known what it calls".to_owned());
        };
        let f = &self.program.funcs[key];
        let Some(Some(of)) = self.effects.get(&key) else {
            return UndoneCall::Lost(format!(
                "%{} does more than read, and change what its parameters point at",
                f.symbol
            ));
        };
        match (of.changes.is_empty(), f.signature.returns.is_empty()) {
            (true, _) if of.reads => UndoneCall::Reads,
            (true, _) => UndoneCall::Computes,
            (false, false) => UndoneCall::Lost(format!("%{} changes memory and returns a number", f.symbol)),
            (false, true) => {
                let undo = self.undone_by(key).map_or_else(|| format!("{}__uncall", f.symbol), |u| u.1);
                UndoneCall::Changes { states: of.changes.iter().copied().collect(), undo }
            }
        }
    }

    /// Derive the inverse of a function, by this name.
    fn derive(
        &mut self,
        key: FuncKey,
        symbol: &str,
        states: &[usize],
    ) -> Result<(), Box<(ir::Inst, String, &'static str)>> {
        let body = &self.bodies[&key];
        let called = |callee| self.called(body, callee);
        let code = TrapCode::unwrap_user(OVERLAP.0);
        let asked = InverseRequest { states, called: &called, overlap: code };
        let found = inverse(body, &asked, UserFuncName::testcase(symbol)).map_err(|e| (e.inst, e.why, e.help))?;
        for callee in functions_used(body).iter().filter_map(|r| self.program.callee(body, r)) {
            let changes = self.effects.get(&callee).and_then(|e| e.as_ref()).is_some_and(|e| !e.changes.is_empty());
            if changes && self.undone_by(callee).is_none() && !self.needed.contains(&callee) {
                self.needed.push(callee);
            }
        }
        self.found.push((symbol.to_owned(), found, key));
        Ok(())
    }
}

/// A body without blocks that nothing reaches, in which variables on the stack are values.
fn promoted(body: &ir::Function) -> ir::Function {
    let mut body = body.clone();
    let cfg = ControlFlowGraph::with_function(&body);
    let tree = DominatorTree::with_function(&body, &cfg);
    let blocks: Vec<ir::Block> = body.layout.blocks().collect();
    for block in blocks.into_iter().filter(|&b| !tree.is_reachable(b)) {
        let insts: Vec<ir::Inst> = body.layout.block_insts(block).collect();
        insts.into_iter().for_each(|i| body.layout.remove_inst(i));
        body.layout.remove_block(block);
    }
    promote_slots(&mut body);
    body
}

/// Derive the inverse of a function on memory, and let it undo calls of that function. The state is
/// given by parameters of the function, counted from 0: pointers, each with its length in bytes.
/// States are apart from each other and from all else that the function reads. Sums of floats are
/// undone but for roundings; [`Options::inverse_check`](brolga_ir::Options::inverse_check) says
/// what becomes of those.
///
/// # Errors
/// AD0195 with the instruction that cannot be undone; AD0192 as [`Program::set_inverse`].
pub fn find_inverse(program: &mut Program, function: &str, state: &[(usize, StateLength)]) -> Result<(), Diagnostics> {
    let symbol = format!("{function}__inverse");
    let Some(key) = program.func(function).filter(|&k| program.funcs[k].body.is_some()) else {
        return program.set_inverse(function, &symbol, state);
    };
    let states: Vec<usize> = state.iter().map(|s| s.0).collect();
    let (bodies, effects, needed, found) = Default::default();
    let mut finder = InverseFinder { program, bodies, effects, needed, found };
    finder.look(key);
    let refused = |of: FuncKey, e: Box<(ir::Inst, String, &'static str)>| {
        let (inst, why, help) = *e;
        let name = &program.funcs[of].symbol;
        let through = if of == key { String::new() } else { format!(", which %{function} calls,") };
        let d = Diagnostic::new("AD0195", format!("no inverse of %{name}{through} is found: {why}"));
        d.at(program, of, inst).help(help)
    };
    finder.derive(key, &symbol, &states).map_err(|e| refused(key, e))?;
    let mut at = 0;
    while let Some(&callee) = finder.needed.get(at) {
        at += 1;
        let f = &program.funcs[callee];
        let states: Vec<usize> = finder.effects[&callee].iter().flat_map(|e| e.changes.iter().copied()).collect();
        let symbol = format!("{}__uncall", f.symbol);
        if program.func(&symbol).is_none_or(|k| program.funcs[k].body.is_none()) {
            finder.derive(callee, &symbol, &states).map_err(|e| refused(callee, e))?;
        }
    }
    let found = finder.found;
    for (symbol, func, of) in found {
        // An instruction has the line of that which it undoes.
        let lines = program.funcs[of].lines.clone();
        let locations = func.clone();
        let line = |inst| match locations.srcloc(inst).bits().wrapping_sub(1) {
            n if (n as usize) < lines.keys().len() => lines[ir::Inst::from_u32(n)],
            _ => 0,
        };
        if program.define(&symbol, func, line).is_err() {
            let d = Diagnostic::new("AD0195", format!("the program has a function %{symbol} already"));
            let help = format!("say that it undoes %{function} (`set_inverse`), or give it another name");
            return Err(d.in_func(function).help(help).into());
        }
    }
    let (code, name, message) = OVERLAP;
    program.traps.insert(code, (name, message));
    program.set_inverse(function, &symbol, state)
}
