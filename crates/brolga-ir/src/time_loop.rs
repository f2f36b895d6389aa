//! Time loops: what a call of `%brolga_time_loop` or `%brolga_while_loop` means.
//!
//! **Question.** A loop of many steps, each of which changes a state in memory, is reversed in
//! little memory if states are kept and steps run again. Which loop is one of steps, what is its
//! state, and what does the program compute?
//! **Answer.** A program says so by a call:
//!
//! ```text
//!   %brolga_time_loop (step, state, bytes, …, params, n)
//!       for i in 0..n { step(state, …, params, i) }
//!   %brolga_while_loop(step, state, bytes, …, params, n) -> i64
//!       the same, while step returns no zero; returns the number of steps
//! ```
//!
//! `step` is the address of a function, `params` what it hands to each step, and there may be
//! several states, each with its length. When a body is [defined](crate::Program::define), such a
//! call becomes one of a function with an ordinary loop, made for that step, which calls a
//! [driver](crate::driver): steps from one number to another.
//!
//! **Contract.** What a step writes, and reads again in a later step, lies in the states. What else
//! it reads is the same until the pullback has run. It stores no pointer into a state.
//!
//! **Cost.** Three short functions for each step that is named.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, Signature, types};

use crate::driver::{Driver, StateLength, StatePart, StepsDriver};
use crate::driver_call::{DriverCall, MadeFunc, Misuse, addressed, begin, calls, import, passes_words, words};

/// How the name of a driver ends.
const FROM: &str = "__from";

/// Names that are called, and whether the step says when the loop ends.
const NAMES: [(&str, bool); 2] = [("brolga_time_loop", false), ("brolga_while_loop", true)];

pub(crate) fn is_name(symbol: &str) -> bool {
    NAMES.iter().any(|n| n.0 == symbol)
}

/// The step of a loop, of the name of a function that is made for it; another name, as it is.
pub fn step_of(symbol: &str) -> &str {
    let of = |name: &str| symbol.strip_prefix(name)?.strip_prefix("__")?.strip_suffix(FROM);
    NAMES.iter().find_map(|n| of(n.0)).unwrap_or(symbol)
}

/// What a call of a loop of steps becomes.
pub(crate) fn of_call(body: &ir::Function, call: ir::Inst, callee: &str) -> Option<Result<DriverCall, Misuse>> {
    let &(name, ends_early) = NAMES.iter().find(|n| n.0 == callee)?;
    Some(checked(body, call, name, ends_early))
}

fn checked(body: &ir::Function, call: ir::Inst, name: &str, ends_early: bool) -> Result<DriverCall, Misuse> {
    let ir::InstructionData::Call { func_ref, .. } = body.dfg.insts[call] else { unreachable!("a call") };
    let sig = &body.dfg.signatures[body.dfg.ext_funcs[func_ref].signature];
    let args = body.dfg.inst_args(call);
    let parts = args.len().saturating_sub(3) / 2;
    let returns = &[types::I64][..usize::from(ends_early)];
    if !passes_words(sig, returns) || args.len() != 3 + 2 * parts || parts == 0 {
        let help = "declare it as (i64 step, i64 state, i64 bytes, i64 params, i64 n), with `-> i64` for a while \
                    loop; state and bytes may be there several times";
        return Err((format!("`%{name}` is declared as {sig}"), help));
    }
    let Some((step, step_sig)) = addressed(body, args[0]) else {
        let help = "pass the `func_addr` of a function of the program, in the function that calls the loop";
        return Err((format!("the step of `%{name}` is not a function of the program"), help));
    };
    let params = step_sig.params.len() == parts + 2 && step_sig.params.iter().all(|p| p.value_type == types::I64);
    let returns = match &step_sig.returns[..] {
        [] => !ends_early,
        [r] => ends_early && r.value_type.is_int(),
        _ => false,
    };
    if !params || !returns {
        let help = "declare the step as (i64 state, i64 params, i64 i), with a state for each that the loop is \
                    given; a while loop's step returns an integer that is zero behind the last step";
        return Err((format!("the step of `%{name}` is `%{step}`, declared as {step_sig}"), help));
    }
    let funcs = LoopFuncs { symbol: format!("{name}__{step}"), step: (step, step_sig), ends_early };
    let (symbol, signature, args) = (funcs.symbol.clone(), funcs.signature(), args[1..].to_vec());
    Ok(DriverCall { call, symbol, signature, args, funcs: funcs.bodies().into(), check: None })
}

/// The functions that a call becomes a call of.
struct LoopFuncs {
    step: (String, Signature),
    symbol: String,
    ends_early: bool,
}

impl LoopFuncs {
    /// How many states there are.
    fn parts(&self) -> usize {
        self.step.1.params.len() - 2
    }

    /// That of the loop's function: states with their lengths, parameters, number of steps.
    fn signature(&self) -> Signature {
        words(&self.step.1, 2 * self.parts() + 2, &[types::I64][..usize::from(self.ends_early)])
    }

    /// The functions by their symbols: all steps, the driver, and what that calls.
    fn bodies(self) -> [MadeFunc; 3] {
        let (driven, steps) = (format!("{}{FROM}", self.symbol), format!("{}__steps", self.symbol));
        let parts = self.parts();
        let part = |i| StatePart { address: vec![2 * i], offset: 0, length: StateLength::Param(2 * i + 1) };
        let state = (0..parts).map(part).collect();
        let (from, to) = (2 * parts + 1, 2 * parts + 2);
        let driver = Driver::Steps(StepsDriver {
            state,
            carried: Vec::new(),
            counted: !self.ends_early,
            budget: None,
            from,
            to,
            steps: steps.as_str().into(),
        });
        let (all_steps, body) = (self.all_steps(&driven), self.steps(&steps));
        let sig = self.signature_of_steps();
        let all: Vec<usize> = (0..sig.params.len()).collect();
        let call = calls(&driven, &sig, &(steps.clone(), sig.clone()), &all);
        [(self.symbol, all_steps, None), (driven, call, Some(driver)), (steps, body, None)]
    }

    /// All steps: those from zero on.
    fn all_steps(&self, steps: &str) -> ir::Function {
        let (mut func, block, params) = begin(&self.symbol, self.signature());
        let callee = import(&mut func, steps, self.signature_of_steps());
        let mut pos = FuncCursor::new(&mut func).at_bottom(block);
        let zero = pos.ins().iconst(types::I64, 0);
        let mut args = params.clone();
        args.insert(params.len() - 1, zero);
        let call = pos.ins().call(callee, &args);
        let results: Vec<ir::Value> = pos.func.dfg.inst_results(call).iter().copied().take(1).collect();
        pos.ins().return_(&results);
        func
    }

    fn signature_of_steps(&self) -> Signature {
        let mut sig = self.signature();
        sig.params.push(AbiParam::new(types::I64));
        sig.returns.extend(self.ends_early.then(|| AbiParam::new(types::I8)));
        sig
    }

    /// Steps from one number to another.
    fn steps(&self, symbol: &str) -> ir::Function {
        let (mut func, entry, params) = begin(symbol, self.signature_of_steps());
        let callee = import(&mut func, &self.step.0, self.step.1.clone());
        let (given, [from, to]) = params.split_last_chunk::<2>().expect("there are limits");
        let [head, body, end] = [(); 3].map(|()| func.dfg.make_block());
        let i = func.dfg.append_block_param(head, types::I64);
        let mut pos = FuncCursor::new(&mut func).at_bottom(entry);
        pos.ins().jump(head, &[(*from).into()]);
        pos.insert_block(head);
        let more = pos.ins().icmp(IntCC::SignedLessThan, i, *to);
        let no = pos.ins().iconst(types::I8, 0);
        let out: Vec<ir::BlockArg> = if self.ends_early { vec![i.into(), no.into()] } else { vec![] };
        pos.ins().brif(more, body, &[], end, &out);
        pos.insert_block(body);
        let mut args: Vec<ir::Value> = given.iter().copied().step_by(2).collect();
        args.push(i);
        let call = pos.ins().call(callee, &args);
        let next = pos.ins().iadd_imm_s(i, 1);
        if self.ends_early {
            let goes_on = pos.func.dfg.inst_results(call)[0];
            let yes = pos.ins().iconst(types::I8, 1);
            pos.ins().brif(goes_on, head, &[next.into()], end, &[next.into(), yes.into()]);
        } else {
            pos.ins().jump(head, &[next.into()]);
        }
        pos.insert_block(end);
        let results: Vec<ir::Value> = if self.ends_early {
            [types::I64, types::I8].map(|ty| pos.func.dfg.append_block_param(end, ty)).to_vec()
        } else {
            vec![]
        };
        pos.ins().return_(&results);
        func
    }
}
