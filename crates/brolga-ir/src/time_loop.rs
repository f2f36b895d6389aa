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
//! **Cost.** Two short functions for each step that is named.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, InstructionData, Signature, types};

use crate::driver::{Driver, StateLength, StatePart, StepsDriver};
use crate::symbols::{symbol_in, symbol_of};

/// Names that are called, and whether the step says when the loop ends.
const NAMES: [(&str, bool); 2] = [("brolga_time_loop", false), ("brolga_while_loop", true)];

/// Whether this is the name of a loop of steps.
pub fn is_loop(symbol: &str) -> bool {
    NAMES.iter().any(|n| n.0 == symbol)
}

/// A call that becomes a loop.
pub(crate) struct LoopCall {
    /// The call.
    call: ir::Inst,
    step: ir::FuncRef,
    /// Name of the loop's function.
    symbol: String,
    ends_early: bool,
}

/// Calls of a body that become loops.
pub(crate) fn find(body: &ir::Function) -> Vec<LoopCall> {
    let insts = body.layout.blocks().flat_map(|b| body.layout.block_insts(b));
    insts.filter_map(|call| of_call(body, call).and_then(Result::ok)).collect()
}

/// Why a call does not become a loop: a sentence, and what to do.
pub fn why_not(body: &ir::Function, call: ir::Inst) -> Option<(String, &'static str)> {
    of_call(body, call)?.err()
}

fn of_call(body: &ir::Function, call: ir::Inst) -> Option<Result<LoopCall, (String, &'static str)>> {
    let InstructionData::Call { func_ref, .. } = body.dfg.insts[call] else { return None };
    let callee = symbol_in(body, &body.dfg.ext_funcs[func_ref].name);
    let &(name, ends_early) = NAMES.iter().find(|n| n.0 == callee)?;
    let sig = &body.dfg.signatures[body.dfg.ext_funcs[func_ref].signature];
    let args = body.dfg.inst_args(call);
    let parts = args.len().saturating_sub(3) / 2;
    let words = sig.params.iter().all(|p| p.value_type == types::I64);
    let returns = sig.returns.iter().map(|r| r.value_type).eq([types::I64].into_iter().take(ends_early.into()));
    if !words || !returns || args.len() != 3 + 2 * parts || parts == 0 {
        let help = "declare it as (i64 step, i64 state, i64 bytes, i64 params, i64 n), with `-> i64` for a while \
                    loop; state and bytes may be there several times";
        return Some(Err((format!("`%{name}` is declared as {sig}"), help)));
    }
    let address = body.dfg.resolve_aliases(args[0]);
    let defined = body.dfg.value_def(address).inst().map(|i| &body.dfg.insts[i]);
    let Some(&InstructionData::FuncAddr { func_ref: step, .. }) = defined else {
        let help = "pass the `func_addr` of a function of the program, in the function that calls the loop";
        return Some(Err((format!("the step of `%{name}` is not a function of the program"), help)));
    };
    let own = &body.dfg.signatures[body.dfg.ext_funcs[step].signature];
    let params = own.params.len() == parts + 2 && own.params.iter().all(|p| p.value_type == types::I64);
    let returns = match &own.returns[..] {
        [] => !ends_early,
        [r] => ends_early && r.value_type.is_int(),
        _ => false,
    };
    let step_symbol = symbol_of(body, &body.dfg.ext_funcs[step].name);
    if !params || !returns {
        let help = "declare the step as (i64 state, i64 params, i64 i), with a state for each that the loop is \
                    given; a while loop's step returns an integer that is zero behind the last step";
        return Some(Err((format!("the step of `%{name}` is `%{step_symbol}`, declared as {own}"), help)));
    }
    Some(Ok(LoopCall { call, step, symbol: format!("{name}__{step_symbol}"), ends_early }))
}

/// The functions that a call becomes a call of, to be defined.
pub(crate) struct LoopFuncs {
    step: (String, Signature),
    pub(crate) symbol: String,
    ends_early: bool,
}

/// Let a call be one of the loop's function.
pub(crate) fn replace(body: &mut ir::Function, found: LoopCall) -> LoopFuncs {
    let LoopCall { call, step, symbol, ends_early } = found;
    let sig = body.dfg.signatures[body.dfg.ext_funcs[step].signature].clone();
    let step = (symbol_of(body, &body.dfg.ext_funcs[step].name), sig);
    let made = LoopFuncs { step, symbol, ends_early };
    let args: Vec<ir::Value> = body.dfg.inst_args(call)[1..].to_vec();
    let address = body.dfg.resolve_aliases(body.dfg.inst_args(call)[0]);
    let signature = body.import_signature(made.signature());
    let name = ir::ExternalName::testcase(&made.symbol);
    let func_ref = body.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
    let args = ir::ValueList::from_slice(&args, &mut body.dfg.value_lists);
    let opcode = body.dfg.insts[call].opcode();
    body.dfg.insts[call] = InstructionData::Call { opcode, args, func_ref };
    // The address is taken for nothing else.
    let insts: Vec<ir::Inst> = body.layout.blocks().flat_map(|b| body.layout.block_insts(b)).collect();
    let used = insts.iter().any(|&i| body.dfg.inst_values(i).any(|v| body.dfg.resolve_aliases(v) == address));
    if let (false, Some(inst)) = (used, body.dfg.value_def(address).inst()) {
        body.layout.remove_inst(inst);
    }
    made
}

impl LoopFuncs {
    /// How many states there are.
    fn parts(&self) -> usize {
        self.step.1.params.len() - 2
    }

    /// That of the loop's function: states with their lengths, parameters, number of steps.
    fn signature(&self) -> Signature {
        let mut sig = Signature::new(self.step.1.call_conv);
        sig.params.extend(vec![AbiParam::new(types::I64); 2 * self.parts() + 2]);
        sig.returns.extend(self.ends_early.then(|| AbiParam::new(types::I64)));
        sig
    }

    /// The functions by their symbols: all steps, and the driver.
    pub(crate) fn bodies(self) -> [(String, ir::Function, Option<Driver>); 2] {
        let steps = format!("{}__from", self.symbol);
        let parts = self.parts();
        let part = |i| StatePart { address: vec![2 * i], offset: 0, length: StateLength::Param(2 * i + 1) };
        let state = (0..parts).map(part).collect();
        let driver = Driver::Steps(StepsDriver { state, from: 2 * parts + 1, to: 2 * parts + 2 });
        let (whole, body) = (self.whole(&steps), self.steps(&steps));
        [(self.symbol, whole, None), (steps, body, Some(driver))]
    }

    /// All steps: those from zero on.
    fn whole(&self, steps: &str) -> ir::Function {
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
        let yes = pos.ins().iconst(types::I8, 1);
        let out: Vec<ir::BlockArg> = if self.ends_early { vec![i.into(), yes.into()] } else { vec![] };
        pos.ins().brif(more, body, &[], end, &out);
        pos.insert_block(body);
        let mut args: Vec<ir::Value> = given.iter().copied().step_by(2).collect();
        args.push(i);
        let call = pos.ins().call(callee, &args);
        let next = pos.ins().iadd_imm_s(i, 1);
        if self.ends_early {
            let goes_on = pos.func.dfg.inst_results(call)[0];
            let no = pos.ins().iconst(types::I8, 0);
            pos.ins().brif(goes_on, head, &[next.into()], end, &[next.into(), no.into()]);
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

/// A function with its first block.
fn begin(symbol: &str, sig: Signature) -> (ir::Function, ir::Block, Vec<ir::Value>) {
    let mut func = ir::Function::with_name_signature(ir::UserFuncName::testcase(symbol), sig);
    let block = func.dfg.make_block();
    func.layout.append_block(block);
    let types: Vec<ir::Type> = func.signature.params.iter().map(|p| p.value_type).collect();
    let params = types.into_iter().map(|ty| func.dfg.append_block_param(block, ty)).collect();
    (func, block, params)
}

fn import(func: &mut ir::Function, symbol: &str, sig: Signature) -> ir::FuncRef {
    let signature = func.import_signature(sig);
    let name = ir::ExternalName::testcase(symbol);
    func.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false })
}
