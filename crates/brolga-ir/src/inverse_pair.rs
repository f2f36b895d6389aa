//! Inverse pairs: what a call of `%brolga_inverse_pair` means.
//!
//! **Question.** A function changes a state in memory, and another function undoes that. Its
//! gradient needs no record of what was overwritten. Which functions are these, and what does the
//! program compute?
//! **Answer.** A program says so by a call, which calls the first one:
//!
//! ```text
//!   %brolga_inverse_pair(f, f_inv, state, bytes, …, words…)
//!       f(state, …, words…)
//! ```
//!
//! `f` and `f_inv` are addresses of functions that take the same: as many states as lengths are
//! given, and what else there is. A *reversible* function has a third one, which undoes a call and
//! carries cotangents back beside the values; its parameters are those of the others, and then the
//! shadow of each, null where there is none:
//!
//! ```text
//!   %brolga_reversible(f, f_inv, f_adjoint, state, bytes, …, words…)
//!       f(state, …, words…)
//! ```
//!
//! When a body is [defined](crate::Program::define), such a call
//! becomes one of a [driver](crate::driver), made for the two. Of a program that makes no such call
//! a user says which function another one undoes
//! ([`Program::set_inverse`](crate::Program::set_inverse)).
//!
//! **Contract.** `f` changes nothing but the states, and `f_inv` takes them back. What both read
//! besides is the same until the pullback has run. `f` stores no pointer into a state.
//!
//! **Cost.** Two short functions for each pair.

use cranelift_codegen::ir::{self, Signature};

use crate::driver::{Driver, InverseDriver, StateLength, StatePart};
use crate::driver_call::{DriverCall, MadeFunc, Misuse, addressed, calls, joined, passes_words, words};

/// The names that are called: of two functions, and of three.
const NAMES: [&str; 2] = ["brolga_inverse_pair", "brolga_reversible"];

pub(crate) fn is_name(symbol: &str) -> bool {
    NAMES.contains(&symbol)
}

/// What a call of an inverse pair becomes.
pub(crate) fn of_call(body: &ir::Function, call: ir::Inst, callee: &str) -> Option<Result<DriverCall, Misuse>> {
    is_name(callee).then(|| checked(body, call, callee))
}

fn checked(body: &ir::Function, call: ir::Inst, name: &str) -> Result<DriverCall, Misuse> {
    let ir::InstructionData::Call { func_ref, .. } = body.dfg.insts[call] else { unreachable!("a call") };
    let sig = &body.dfg.signatures[body.dfg.ext_funcs[func_ref].signature];
    let args = body.dfg.inst_args(call);
    let reversible = name == NAMES[1];
    let n_funcs = if reversible { 3 } else { 2 };
    if !passes_words(sig, &[]) || args.len() < n_funcs + 2 {
        let help = "declare it as (i64 f, i64 f_inv, i64 state, i64 bytes), with state and bytes for each state, and \
                    what else the two take behind them; a reversible function has a third one behind f_inv";
        return Err((format!("`%{name}` is declared as {sig}"), help));
    }
    let found: Option<Vec<_>> = args[..n_funcs].iter().map(|&a| addressed(body, a)).collect();
    let Some(mut found) = found else {
        let help = "pass the `func_addr` of functions of the program, in the function that calls the pair";
        let n = if reversible { "three" } else { "two" };
        return Err((format!("what `%{name}` is given are not {n} functions of the program"), help));
    };
    let adjoint = if reversible { found.pop() } else { None };
    let (inverse, f) = (found.pop().expect("two are left"), found.pop().expect("one is left"));
    // So many are given, but for the functions, of which lengths are not handed on.
    let n = f.1.params.len();
    let parts = (args.len() - n_funcs).checked_sub(n);
    let fits = |sig: &Signature, n| passes_words(sig, &[]) && sig.params.len() == n;
    let all_fit = fits(&f.1, n) && fits(&inverse.1, n);
    let Some(parts) = parts.filter(|&p| p > 0 && p <= n && all_fit) else {
        let help = "declare both alike and without results: an i64 for each state, and one for each word that is \
                    passed behind the states and their lengths";
        let (f, f_sig, inv, of_inv) = (&f.0, &f.1, &inverse.0, &inverse.1);
        return Err((
            format!("`%{name}` is given `%{f}`, declared as {f_sig}, and `%{inv}`, declared as {of_inv}"),
            help,
        ));
    };
    if let Some((a, sig)) = adjoint.as_ref().filter(|a| !fits(&a.1, 2 * n)) {
        let help = "declare the third function with the parameters of the first, and as many shadows behind them";
        return Err((format!("`%{name}` is given `%{a}`, declared as {sig}, for `%{}` of {n} words", f.0), help));
    }
    let symbol = match &adjoint {
        Some(a) => format!("{name}__{}", joined(&joined(&f.0, &inverse.0), &a.0)),
        None => format!("{name}__{}", joined(&f.0, &inverse.0)),
    };
    let signature = words(&f.1, args.len() - n_funcs, &[]);
    let funcs = PairFuncs { symbol, signature, parts, f, inverse, adjoint };
    let (symbol, signature) = (funcs.symbol.clone(), funcs.signature.clone());
    Ok(DriverCall { call, symbol, signature, args: args[n_funcs..].to_vec(), funcs: funcs.bodies(), check: None })
}

/// The functions that a call becomes a call of.
struct PairFuncs {
    symbol: String,
    /// That of the driver: states with their lengths, and words.
    signature: Signature,
    /// How many states there are.
    parts: usize,
    f: (String, Signature),
    inverse: (String, Signature),
    adjoint: Option<(String, Signature)>,
}

impl PairFuncs {
    /// The functions by their symbols: the driver, and what undoes it, without and with cotangents.
    fn bodies(self) -> Vec<MadeFunc> {
        let undo = format!("{}__undo", self.symbol);
        let adjoint = self.adjoint.as_ref().map(|_| format!("{}__adjoint", self.symbol).into());
        let part = |i| StatePart { address: vec![2 * i], offset: 0, length: StateLength::Param(2 * i + 1) };
        let state = (0..self.parts).map(part).collect();
        let driver = InverseDriver { state, undo: undo.clone().into(), adjoint, check: None };
        let n = self.signature.params.len();
        let is_length = |i: &usize| *i < 2 * self.parts && i % 2 == 1;
        let mut handed: Vec<usize> = (0..n).filter(|i| !is_length(i)).collect();
        let call = calls(&self.symbol, &self.signature, &self.f, &handed);
        let back = calls(&undo, &self.signature, &self.inverse, &handed);
        let mut all = vec![(self.symbol.clone(), call, Some(Driver::Inverse(driver))), (undo, back, None)];
        if let Some(adjoint) = &self.adjoint {
            let symbol = format!("{}__adjoint", self.symbol);
            handed.extend(handed.clone().iter().map(|i| i + n));
            let sig = words(&self.signature, 2 * n, &[]);
            all.push((symbol.clone(), calls(&symbol, &sig, adjoint, &handed), None));
        }
        all
    }
}
