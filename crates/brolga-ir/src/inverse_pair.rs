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
//! given, and what else there is. When a body is [defined](crate::Program::define), such a call
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

/// The name that is called.
const NAME: &str = "brolga_inverse_pair";

pub(crate) fn is_name(symbol: &str) -> bool {
    symbol == NAME
}

/// What a call of an inverse pair becomes.
pub(crate) fn of_call(body: &ir::Function, call: ir::Inst, callee: &str) -> Option<Result<DriverCall, Misuse>> {
    is_name(callee).then(|| checked(body, call))
}

fn checked(body: &ir::Function, call: ir::Inst) -> Result<DriverCall, Misuse> {
    let ir::InstructionData::Call { func_ref, .. } = body.dfg.insts[call] else { unreachable!("a call") };
    let sig = &body.dfg.signatures[body.dfg.ext_funcs[func_ref].signature];
    let args = body.dfg.inst_args(call);
    if !passes_words(sig, &[]) || args.len() < 4 {
        let help = "declare it as (i64 f, i64 f_inv, i64 state, i64 bytes), with state and bytes for each state, and \
                    what else the two take behind them";
        return Err((format!("`%{NAME}` is declared as {sig}"), help));
    }
    let [Some(f), Some(inverse)] = [0, 1].map(|i| addressed(body, args[i])) else {
        let help = "pass the `func_addr` of functions of the program, in the function that calls the pair";
        return Err((format!("what `%{NAME}` is given are not two functions of the program"), help));
    };
    // So many are given, but for the functions, of which lengths are not handed on.
    let parts = (args.len() - 2).checked_sub(f.1.params.len());
    let fits = |sig: &Signature| passes_words(sig, &[]) && sig.params.len() == f.1.params.len();
    let Some(parts) = parts.filter(|&p| p > 0 && p <= f.1.params.len() && fits(&f.1) && fits(&inverse.1)) else {
        let help = "declare both alike and without results: an i64 for each state, and one for each word that is \
                    passed behind the states and their lengths";
        let (f, own, inv, of_inv) = (&f.0, &f.1, &inverse.0, &inverse.1);
        return Err((
            format!("`%{NAME}` is given `%{f}`, declared as {own}, and `%{inv}`, declared as {of_inv}"),
            help,
        ));
    };
    let symbol = format!("{NAME}__{}", joined(&f.0, &inverse.0));
    let signature = words(&f.1, args.len() - 2, &[]);
    let funcs = PairFuncs { symbol, signature, parts, f, inverse };
    let (symbol, signature) = (funcs.symbol.clone(), funcs.signature.clone());
    Ok(DriverCall { call, symbol, signature, args: args[2..].to_vec(), funcs: funcs.bodies().into(), check: None })
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
}

impl PairFuncs {
    /// The functions by their symbols: the driver, and what undoes it.
    fn bodies(self) -> [MadeFunc; 2] {
        let undo = format!("{}__undo", self.symbol);
        let part = |i| StatePart { address: vec![2 * i], offset: 0, length: StateLength::Param(2 * i + 1) };
        let driver = InverseDriver { state: (0..self.parts).map(part).collect(), undo: undo.clone().into() };
        let is_length = |i: &usize| *i < 2 * self.parts && i % 2 == 1;
        let handed: Vec<usize> = (0..self.signature.params.len()).filter(|i| !is_length(i)).collect();
        let call = calls(&self.symbol, &self.signature, &self.f, &handed);
        let back = calls(&undo, &self.signature, &self.inverse, &handed);
        [(self.symbol, call, Some(Driver::Inverse(driver))), (undo, back, None)]
    }
}
