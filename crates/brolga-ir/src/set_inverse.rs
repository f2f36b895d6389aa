//! Inverse pairs of a program that makes no calls of them.
//!
//! **Question.** A user says that one function of a program undoes another one. What do calls of
//! that become?
//! **Answer.** Calls of a [driver](crate::driver) with the same parameters, as those of
//! `%brolga_inverse_pair` do ([`crate::inverse_pair`]).
//!
//! **Cost.** A short function for each that is undone.

use cranelift_codegen::ir::{self, InstructionData, Signature, types};

use crate::driver::{Driver, InverseDriver, StateLength, StatePart};
use crate::driver_call::{Misuse, calls, import};
use crate::options::InverseCheck;
use crate::program::Func;
use crate::symbols::symbol_in;
use crate::{Diagnostic, Diagnostics, Program};

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
        let state = state.iter().map(part).collect();
        let driver = InverseDriver { state, undo: inverse.into(), adjoint: None, check: None };
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

    /// Say what is checked of calls of a function that another one undoes, where
    /// [`Options::inverse_check`](crate::Options::inverse_check) leaves it to the program.
    ///
    /// # Errors
    /// AD0192 if no call of it is undone.
    pub fn set_inverse_check(&mut self, function: &str, check: InverseCheck) -> Result<(), Diagnostics> {
        let calls = |f: &Func| f.body.as_ref().is_some_and(|b| calls_of(b, function).next().is_some());
        let is_pair = |f: &Func| matches!(f.driver, Some(Driver::Inverse(_))) && calls(f);
        let pairs: Vec<_> = self.funcs.iter().filter(|(_, f)| is_pair(f)).map(|(k, _)| k).collect();
        for &pair in &pairs {
            if let Some(Driver::Inverse(of)) = &mut self.func_mut(pair).driver {
                of.check = Some(check);
            }
        }
        if pairs.is_empty() {
            let d = Diagnostic::new("AD0192", format!("no call of %{function} is undone"));
            return Err(d.in_func(function).help("say first which function undoes it (`set_inverse`)").into());
        }
        Ok(())
    }

    /// The signature of a function and of its inverse, or why they are none of each other.
    fn fits(&self, function: &str, inverse: &str, state: &[(usize, StateLength)]) -> Result<Signature, Misuse> {
        let (mut found, mut bodies) = (vec![], vec![]);
        for symbol in [function, inverse] {
            let Some((f, body)) = self.func(symbol).map(|k| &self.funcs[k]).and_then(|f| Some((f, f.body.as_ref()?)))
            else {
                return Err((format!("%{symbol} is no function of the program"), "define it, or correct the name"));
            };
            found.push(&f.signature);
            bodies.push(body);
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
            if let StateLength::Bytes(n @ 1..) = length {
                for (symbol, f) in [function, inverse].iter().zip([0, 1].map(|k| bodies[k])) {
                    let entry = f.layout.entry_block().expect("it has a body");
                    let state = f.dfg.block_params(entry)[param];
                    if let Some((store, at)) = stored_outside(f, state, n) {
                        let text = f.dfg.display_inst(store);
                        let why = format!(
                            "`{text}` of %{symbol} is at byte {at} of the state at parameter {param}, which has {n}"
                        );
                        return Err((why, "give the state all bytes that the two change"));
                    }
                }
            }
            match length {
                StateLength::Bytes(0) => return Err((format!("the state at parameter {param} has no byte"), help)),
                StateLength::Elements { bytes: 0, .. } => {
                    return Err((format!("an element of the state at parameter {param} has no byte"), help));
                }
                _ => {}
            }
            if let Some(i) = length.param().filter(|&i| ty(i).is_none_or(|t| !t.is_int() || t.bits() > 64)) {
                return Err((format!("parameter {i} of {sig} is no length"), help));
            }
        }
        Ok(sig.clone())
    }
}

/// A store at a constant distance from the beginning of a state that is not within it, and where it
/// is.
fn stored_outside(body: &ir::Function, state: ir::Value, bytes: u32) -> Option<(ir::Inst, i64)> {
    let mut insts = body.layout.blocks().flat_map(|b| body.layout.block_insts(b));
    insts.find_map(|inst| {
        let InstructionData::Store { args: [value, address], offset, .. } = body.dfg.insts[inst] else { return None };
        let at = distance(body, address, state)?.wrapping_add(offset.into());
        let end = at.wrapping_add(body.dfg.value_type(value).bytes().into());
        (at < 0 || end > bytes.into()).then_some((inst, at))
    })
}

/// How far an address is after another one, if that is a sum with constants.
fn distance(body: &ir::Function, mut address: ir::Value, from: ir::Value) -> Option<i64> {
    let mut sum = 0_i64;
    loop {
        address = body.dfg.resolve_aliases(address);
        if address == from {
            return Some(sum);
        }
        let inst = body.dfg.value_def(address).inst()?;
        let InstructionData::Binary { opcode: ir::Opcode::Iadd, args } = body.dfg.insts[inst] else { return None };
        let constant = |v: ir::Value| match body.dfg.insts[body.dfg.value_def(body.dfg.resolve_aliases(v)).inst()?] {
            InstructionData::UnaryImm { opcode: ir::Opcode::Iconst, imm } => Some(imm.bits()),
            _ => None,
        };
        let (next, by) = match (constant(args[1]), constant(args[0])) {
            (Some(k), _) => (args[0], k),
            (_, Some(k)) => (args[1], k),
            _ => return None,
        };
        (address, sum) = (next, sum.wrapping_add(by));
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
