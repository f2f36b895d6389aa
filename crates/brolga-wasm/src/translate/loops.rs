//! Time loops of a module ([`brolga_ir::time_loop`]): `include/brolga.h` declares them for C.
//!
//! **Question.** A module imports `brolga_time_loop(step, state, bytes, params, n)`, whose step is
//! an entry of its first table. What does it call?
//!
//! **Answer.** A function that calls a driver, as for a program of CLIF, but that the driver has
//! the step among its parameters and calls it by the dispatcher of its type. So there is one for
//! all steps. Its state is the memory that it is given, and the module's globals: C keeps there how
//! far its stack reaches, so that steps that run again have their frames where they had them.
//!
//! **Cost.** A `br_table` for each step.

use brolga::cranelift_codegen::ir::condcodes::IntCC;
use brolga::cranelift_codegen::ir::{InstBuilder, Signature, Type, types};
use brolga_ir::driver::{Driver, StateLength, StatePart, StepsDriver};
use wasmparser::{FuncType, ValType};

use crate::error::Error;
use crate::function::env::{Env, VIEW};
use crate::function::func::{Context, Fx, build};

/// The driver, what it calls, and what tasks call.
fn symbols(ends_early: bool) -> [&'static str; 3] {
    match ends_early {
        true => ["loop.while", "loop.while.steps", "loop.while.task"],
        false => ["loop.time", "loop.time.steps", "loop.time.task"],
    }
}

/// Instance, step, state, bytes, what all steps read, first step, and the one after the last.
fn signature(env: &Env<'_, '_>, ends_early: bool, of_task: bool) -> Signature {
    let results: &[Type] = if ends_early { &[types::I64, types::I8] } else { &[] };
    let view = if of_task { &VIEW[..] } else { &[] };
    env.signature_of([[types::I32; 4].as_slice(), &[types::I64; 2], view].concat(), results.iter().copied())
}

/// Define the driver; or an ordinary loop, which tasks call.
pub(super) fn define_steps(
    env: &mut Env<'_, '_>,
    context: &mut Context,
    ends_early: bool,
    of_task: bool,
) -> Result<(), Error> {
    let [driver, of, task] = symbols(ends_early);
    let defined = if of_task { task } else { driver };
    if env.program.func(defined).is_some_and(|k| env.program.funcs[k].body.is_some()) {
        return Ok(());
    }
    let sig = signature(env, ends_early, of_task);
    if of_task {
        build(env, context, task, sig, |fx| {
            fx.take_view();
            steps(fx, ends_early);
            Ok(())
        })?;
        return Ok(());
    }
    build(env, context, of, sig.clone(), |fx| {
        steps(fx, ends_early);
        Ok(())
    })?;
    let key = build(env, context, driver, sig, |fx| {
        let callee = fx.callee(of, |fx| signature(fx.env, ends_early, false));
        let args = [&[fx.vmctx], &fx.stack[..]].concat();
        let call = fx.b.ins().call(callee, &args);
        let results = fx.b.inst_results(call).to_vec();
        fx.b.ins().return_(&results);
        Ok(())
    })?;
    let state = state(env, 2);
    let (carried, counted, budget) = (Vec::new(), !ends_early, None);
    let driver = StepsDriver { state, carried, counted, budget, from: 5, to: 6, steps: of.into() };
    env.program.func_mut(key).driver = Some(Driver::Steps(driver));
    Ok(())
}

/// The state whose address is in this parameter, and its length in the next one.
pub(super) fn state(env: &Env<'_, '_>, param: usize) -> Vec<StatePart> {
    // Parameter 0 is the instance, before which its globals lie, the last one first.
    let mut state = vec![StatePart { address: vec![0, param], offset: 0, length: StateLength::Param(param + 1) }];
    if let Some(&last) = env.layout.globals.last() {
        let length = StateLength::Bytes(16 * env.layout.globals.len() as u32);
        state.push(StatePart { address: vec![0], offset: last.into(), length });
    }
    state
}

/// Steps from one number to another.
fn steps(fx: &mut Fx<'_, '_, '_, '_>, ends_early: bool) {
    let &[step, state, _, params, from, to] = &fx.stack[..] else { unreachable!("the driver has these parameters") };
    let [head, body, end] = [(); 3].map(|()| fx.b.create_block());
    let i = fx.b.append_block_param(head, types::I64);
    let results =
        if ends_early { [types::I64, types::I8].map(|ty| fx.b.append_block_param(end, ty)).to_vec() } else { vec![] };
    fx.b.ins().jump(head, &[from.into()]);
    fx.b.switch_to_block(head);
    let more = fx.b.ins().icmp(IntCC::SignedLessThan, i, to);
    let no = fx.b.ins().iconst(types::I8, 0);
    let out = if ends_early { vec![i.into(), no.into()] } else { vec![] };
    fx.b.ins().brif(more, body, &[], end, &out);
    fx.b.switch_to_block(body);
    let number = fx.b.ins().ireduce(types::I32, i);
    let returns: &[ValType] = if ends_early { &[ValType::I32] } else { &[] };
    let ty = FuncType::new([ValType::I32; 3], returns.iter().copied());
    fx.stack = vec![state, params, number, step];
    let (callee, args) = fx.indirect(ty, 0);
    let call = fx.b.ins().call(callee, &args);
    let next = fx.b.ins().iadd_imm_s(i, 1);
    if ends_early {
        let goes_on = fx.b.inst_results(call)[0];
        let yes = fx.b.ins().iconst(types::I8, 1);
        fx.b.ins().brif(goes_on, head, &[next.into()], end, &[next.into(), yes.into()]);
    } else {
        fx.b.ins().jump(head, &[next.into()]);
    }
    fx.b.switch_to_block(end);
    fx.b.ins().return_(&results);
}

/// The import: all steps from zero on.
pub(super) fn all_steps(fx: &mut Fx<'_, '_, '_, '_>, ends_early: bool) {
    let &[step, state, bytes, params, n] = &fx.stack[..] else { unreachable!("the import has this type") };
    let of_task = fx.view.is_some();
    let [driver, _, task] = symbols(ends_early);
    let callee = fx.callee(if of_task { task } else { driver }, |fx| signature(fx.env, ends_early, of_task));
    let zero = fx.b.ins().iconst(types::I64, 0);
    let n = fx.b.ins().sextend(types::I64, n);
    let args = fx.with_view(&[step, state, bytes, params, zero, n]);
    let call = fx.b.ins().call(callee, &args);
    let results = fx.b.inst_results(call).to_vec();
    let results: Vec<_> = results.first().map(|&count| fx.b.ins().ireduce(types::I32, count)).into_iter().collect();
    fx.b.ins().return_(&results);
}
