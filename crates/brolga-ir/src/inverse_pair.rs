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
//! a user says which function another one undoes ([`Program::set_inverse`]).
//!
//! **Contract.** `f` changes nothing but the states, and `f_inv` takes them back. What both read
//! besides is the same until the pullback has run. `f` stores no pointer into a state.
//!
//! **Cost.** Two short functions for each pair.

use cranelift_codegen::ir::{self, InstructionData, Signature, types};

use crate::driver::{Driver, InverseDriver, StateLength, StatePart};
use crate::driver_call::{DriverCall, MadeFunc, Misuse, addressed, calls, import, passes_words, words};
use crate::symbols::symbol_in;
use crate::{Diagnostic, Diagnostics, Program};

/// The name that is called.
const NAME: &str = "brolga_inverse_pair";

/// What a call of an inverse pair becomes.
pub(crate) fn of_call(body: &ir::Function, call: ir::Inst, callee: &str) -> Option<Result<DriverCall, Misuse>> {
    (callee == NAME).then(|| checked(body, call))
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
    let symbol = format!("{NAME}__{}__{}", f.0, inverse.0);
    let signature = words(&f.1, args.len() - 2, &[]);
    let funcs = PairFuncs { symbol, signature, parts, f, inverse };
    let (symbol, signature) = (funcs.symbol.clone(), funcs.signature.clone());
    Ok(DriverCall { call, symbol, signature, args: args[2..].to_vec(), funcs: funcs.bodies().into() })
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

impl Program {
    /// Let calls of a function be undone by another one, as if each were a call of
    /// `%brolga_inverse_pair`. The two take the same, return nothing, and change nothing but the
    /// state, which is given by parameters of the function, counted from 0: pointers, each with its
    /// length in bytes. Calls through pointers, and those that the two make themselves, stay as
    /// they are. The [contract](crate::inverse_pair) is the caller's; what of it is checked at run
    /// time, [`Options::inverse_check`](crate::Options::inverse_check) says.
    ///
    /// # Errors
    /// AD0192 if the two are not such functions of the program, or the state is none.
    pub fn set_inverse(
        &mut self,
        function: &str,
        inverse: &str,
        state: &[(usize, StateLength)],
    ) -> Result<(), Diagnostics> {
        let sig = self.fits(function, inverse, state).map_err(|(why, help)| {
            let d = Diagnostic::new("AD0192", format!("%{inverse} cannot undo %{function}: {why}"));
            Diagnostics::from(d.in_func(function).help(help))
        })?;
        let part = |&(param, length): &(usize, StateLength)| StatePart { address: vec![param], offset: 0, length };
        let driver = InverseDriver { state: state.iter().map(part).collect(), undo: inverse.into() };
        let symbol = undone(function, inverse);
        let handed: Vec<usize> = (0..sig.params.len()).collect();
        let body = calls(&symbol, &sig, &(function.to_owned(), sig.clone()), &handed);
        let key = self.define(&symbol, body, |_| 0).expect("it is not defined");
        self.func_mut(key).driver = Some(Driver::Inverse(driver));
        let callers = self.funcs.iter().filter(|(k, f)| *k != key && ![function, inverse].contains(&&f.symbol[..]));
        let callers: Vec<_> = callers
            .filter(|(_, f)| f.body.as_ref().is_some_and(|b| calls_of(b, function).count() > 0))
            .map(|c| c.0)
            .collect();
        for caller in callers {
            let body = self.func_mut(caller).body.as_mut().expect("it calls");
            let found: Vec<ir::Inst> = calls_of(body, function).collect();
            let driver = import(body, &symbol, sig.clone());
            for call in found {
                if let InstructionData::Call { func_ref, .. } | InstructionData::TryCall { func_ref, .. } =
                    &mut body.dfg.insts[call]
                {
                    *func_ref = driver;
                }
            }
        }
        Ok(())
    }

    /// The signature of a function and of its inverse, or why they are none of each other.
    fn fits(&self, function: &str, inverse: &str, state: &[(usize, StateLength)]) -> Result<Signature, Misuse> {
        let mut found = vec![];
        for symbol in [function, inverse] {
            let Some(f) = self.func(symbol).map(|k| &self.funcs[k]).filter(|f| f.body.is_some()) else {
                return Err((format!("%{symbol} is no function of the program"), "define it, or correct the name"));
            };
            found.push(&f.signature);
        }
        let sig = found[0];
        if found[1] != sig || !sig.returns.is_empty() {
            let why = format!("they are {sig} and {}", found[1]);
            return Err((why, "declare both alike, and let them return what they return in the state"));
        }
        if self.func(&undone(function, inverse)).is_some() {
            return Err(("it does already".to_owned(), "say so once"));
        }
        let ty = |i: usize| sig.params.get(i).map(|p| p.value_type);
        let help = if self.vmctx_pointers_only {
            "call `brolga_inverse_pair` in the source of the module (brolga.h)"
        } else {
            "name parameters by their numbers, from 0: of 64 bits for a pointer, integers for lengths"
        };
        if state.is_empty() {
            return Err(("there is no state".to_owned(), help));
        }
        for &(param, length) in state {
            if ty(param) != Some(types::I64) || self.vmctx_pointers_only {
                return Err((format!("parameter {param} of {sig} is no pointer"), help));
            }
            match length {
                StateLength::Bytes(0) => return Err((format!("the state at parameter {param} has no byte"), help)),
                StateLength::Param(i) if ty(i).is_none_or(|t| !t.is_int() || t.bits() > 64) => {
                    return Err((format!("parameter {i} of {sig} is no length"), help));
                }
                _ => {}
            }
        }
        Ok(sig.clone())
    }
}

/// The symbol of the driver that calls of a function become.
fn undone(function: &str, inverse: &str) -> String {
    format!("brolga_undone__{function}__{inverse}")
}

/// Where a body calls a function by its name.
fn calls_of<'b>(body: &'b ir::Function, function: &'b str) -> impl Iterator<Item = ir::Inst> + 'b {
    let insts = body.layout.blocks().flat_map(|b| body.layout.block_insts(b));
    insts.filter(move |&i| match body.dfg.insts[i] {
        InstructionData::Call { func_ref, .. } | InstructionData::TryCall { func_ref, .. } => {
            symbol_in(body, &body.dfg.ext_funcs[func_ref].name) == function
        }
        _ => false,
    })
}
