//! Functions that no Wasm function is, but that translated ones call: dispatchers, growth, loops
//! over tables, and shims for imports.
//!
//! **Question.** These have no code in the module, and a derivative must still see what they do.
//! How are they written?
//!
//! **Answer.** In ordinary CLIF, so they are differentiated like everything else. What only
//! the host can do (map pages, write to a terminal) is a call of a host function; its effect on
//! anything that a program reads is written out here, so that the pass sees it.
//!
//! **Cost.** A dispatcher has a jump table of all functions with references; a call through it
//! costs a bounded jump and a direct call. Filling a table is a loop over its entries.

use brolga::FuncKey;
use brolga::cranelift_codegen::ir::condcodes::IntCC;
use brolga::cranelift_codegen::ir::{InstBuilder, JumpTableData, types};
use brolga_ir::CallRefusal;
use wasmparser::FuncType;

use super::{forks, inverses, loops, openmp};
use crate::error::{Error, trap};
use crate::forked::OpenMp;
use crate::function::env::{Env, Helper, TASK, dispatcher_signature};
use crate::function::func::{Context, Fx, build, call_host, translate_for_tasks};
use crate::function::memory::{entry_of, header};
use crate::imports;
use crate::layout::PAGE;
use crate::provided::ProvidedFunction;

/// Define every helper, fork and dispatcher that something calls, and functions as tasks call them:
/// by their numbers. By now every reference has its number.
pub(super) fn define(
    env: &mut Env<'_, '_>,
    context: &mut Context,
    provided: &[Option<ProvidedFunction>],
) -> Result<Vec<(u32, FuncKey)>, Error> {
    let mut done = 0;
    while let Some((&helper, symbol)) = env.helpers.get_index(done) {
        let symbol = symbol.clone();
        let signature = helper.signature(env);
        build(env, context, &symbol, signature, |fx| {
            match helper {
                Helper::MemoryGrow(m) => memory_grow(fx, m),
                Helper::TableGrow(t) => table_grow(fx, t),
                Helper::TableFill(t) => table_fill(fx, t),
            }
            Ok(())
        })?;
        done += 1;
    }
    // Dispatchers, forks and what tasks call need each other.
    let [mut dispatchers, mut forks, mut tasks] = [0; 3];
    let mut of_tasks = Vec::new();
    loop {
        if let Some(((ty, of_task), symbol)) = env.dispatchers.get_index(dispatchers) {
            let (ty, of_task, symbol) = (ty.clone(), *of_task, symbol.clone());
            let signature = dispatcher_signature(env, &ty, of_task);
            build(env, context, &symbol, signature, |fx| {
                if of_task {
                    fx.take_view();
                }
                dispatcher(fx, &ty);
                Ok(())
            })?;
            dispatchers += 1;
        } else if let Some((fork, symbol)) = env.forks.get_index(forks) {
            let (fork, symbol) = (fork.clone(), symbol.clone());
            forks::define(env, context, &fork, &symbol)?;
            forks += 1;
        } else if let Some(&index) = env.tasks.get_index(tasks) {
            let provided = provided[index as usize].as_ref();
            of_tasks.push((index, define_for_tasks(env, context, index, provided)?));
            tasks += 1;
        } else {
            return Ok(of_tasks);
        }
    }
}

/// Define a function of the index space as tasks call it.
fn define_for_tasks(
    env: &mut Env<'_, '_>,
    context: &mut Context,
    index: u32,
    provided: Option<&ProvidedFunction>,
) -> Result<FuncKey, Error> {
    let symbol = format!("{}{TASK}", env.symbols[index as usize]);
    let body = env.info.funcs[index as usize].body.as_ref();
    let key = match (provided, body) {
        (None, Some(body)) => translate_for_tasks(env, context, &symbol, index, body)?,
        (Some(ProvidedFunction::Around(_)), Some(body)) => {
            let key = translate_for_tasks(env, context, &wrapped_symbol(&symbol), index, body)?;
            env.program.func_mut(key).untracked = true;
            shim(env, context, index, &symbol, provided.expect("it is one"), true)?
        }
        (Some(provided), _) => shim(env, context, index, &symbol, provided, true)?,
        (None, None) => unreachable!("an import is provided, or an error"),
    };
    let defined = env.program.func(&env.symbols[index as usize]);
    let called = defined.and_then(|k| env.program.funcs[k].called.clone());
    env.program.func_mut(key).called = called.or_else(|| Some(env.symbols[index as usize].clone()));
    Ok(key)
}

/// Call function `reference` with the other arguments, if it has this type.
fn dispatcher(fx: &mut Fx<'_, '_, '_, '_>, ty: &FuncType) {
    let (reference, args) = (fx.stack[0], fx.stack[1..].to_vec());
    let wrong = fx.b.create_block();
    let null = fx.b.create_block();
    let all: Vec<u32> = fx.env.refs.keys().copied().collect();
    let mut targets = vec![fx.b.func.dfg.block_call(null, &[])];
    let mut arms = Vec::new();
    for f in all {
        let block = if fx.env.info.type_of(f) == ty {
            let block = fx.b.create_block();
            arms.push((f, block));
            block
        } else {
            wrong
        };
        targets.push(fx.b.func.dfg.block_call(block, &[]));
    }
    let default = fx.b.func.dfg.block_call(wrong, &[]);
    let table = fx.b.create_jump_table(JumpTableData::new(default, &targets));
    fx.b.ins().br_table(reference, table);
    for (f, block) in arms {
        fx.b.switch_to_block(block);
        if fx.env.has_tail_calls() {
            fx.tail_call_function(f, &args);
        } else {
            let results = fx.call_function(f, &args);
            fx.b.ins().return_(&results);
        }
    }
    for (block, code) in [(wrong, trap::BAD_SIGNATURE), (null, trap::NULL_CALL)] {
        fx.b.switch_to_block(block);
        fx.b.ins().trap(code);
    }
}

/// Make pages accessible, primal and shadow; then the size is stored, in CLIF, so that it is
/// restored where writes are.
fn memory_grow(fx: &mut Fx<'_, '_, '_, '_>, memory: u32) {
    let pages = fx.stack[0];
    let size = fx.memory_size(memory);
    let (fail, room, grown) = (fx.b.create_block(), fx.b.create_block(), fx.b.create_block());
    let pages = fx.wide(pages);
    let more = fx.b.ins().imul_imm_s(pages, PAGE as i64);
    let new = fx.b.ins().iadd(size, more);
    let most = fx.b.ins().iconst(types::I64, fx.env.layout.memory_max[memory as usize] as i64);
    let too_much = fx.b.ins().icmp(IntCC::UnsignedGreaterThan, new, most);
    fx.b.ins().brif(too_much, fail, &[], room, &[]);
    fx.b.switch_to_block(room);
    let m = fx.b.ins().iconst(types::I32, i64::from(memory));
    let ok = call_host(fx, &imports::GROW, &[m, new]);
    fx.b.ins().brif(ok[0], grown, &[], fail, &[]);
    fx.b.switch_to_block(grown);
    let cell = fx.env.layout.memory_size[memory as usize];
    fx.b.ins().store(header(), new, fx.vmctx, cell);
    let old = fx.b.ins().ushr_imm_u(size, 16);
    let old = fx.b.ins().ireduce(types::I32, old);
    fx.b.ins().return_(&[old]);
    fx.b.switch_to_block(fail);
    let none = fx.b.ins().iconst(types::I32, i64::from(u32::MAX));
    fx.b.ins().return_(&[none]);
}

fn table_grow(fx: &mut Fx<'_, '_, '_, '_>, table: u32) {
    let (value, n) = (fx.stack[0], fx.stack[1]);
    let old = fx.table_len(table);
    let (fail, grown) = (fx.b.create_block(), fx.b.create_block());
    let (a, b) = (fx.wide(old), fx.wide(n));
    let new = fx.b.ins().iadd(a, b);
    let most = fx.b.ins().iconst(types::I64, i64::from(fx.env.layout.table_max[table as usize]));
    let too_much = fx.b.ins().icmp(IntCC::UnsignedGreaterThan, new, most);
    fx.b.ins().brif(too_much, fail, &[], grown, &[]);
    fx.b.switch_to_block(grown);
    let new = fx.b.ins().ireduce(types::I32, new);
    let cell = fx.env.layout.table_size[table as usize];
    fx.b.ins().store(header(), new, fx.vmctx, cell);
    fx.call_helper(Helper::TableFill(table), &[old, value, n]);
    fx.b.ins().return_(&[old]);
    fx.b.switch_to_block(fail);
    let none = fx.b.ins().iconst(types::I32, i64::from(u32::MAX));
    fx.b.ins().return_(&[none]);
}

/// A loop, since C's `memset` fills bytes.
fn table_fill(fx: &mut Fx<'_, '_, '_, '_>, table: u32) {
    let (at, value, n) = (fx.stack[0], fx.stack[1], fx.stack[2]);
    let (head, body, done) = (fx.b.create_block(), fx.b.create_block(), fx.b.create_block());
    let i = fx.b.append_block_param(head, types::I32);
    let zero = fx.b.ins().iconst(types::I32, 0);
    fx.b.ins().jump(head, &[zero.into()]);
    fx.b.switch_to_block(head);
    let more = fx.b.ins().icmp(IntCC::UnsignedLessThan, i, n);
    fx.b.ins().brif(more, body, &[], done, &[]);
    fx.b.switch_to_block(body);
    let entry = fx.b.ins().iadd(at, i);
    let p = entry_of(fx, table, entry);
    fx.b.ins().store(header(), value, p, 0);
    let next = fx.b.ins().iadd_imm_s(i, 1);
    fx.b.ins().jump(head, &[next.into()]);
    fx.b.switch_to_block(done);
    fx.b.ins().return_(&[]);
}

/// The name of a module's own function around which we have written one of its name.
pub(super) fn wrapped_symbol(symbol: &str) -> String {
    format!("{symbol}.own")
}

/// The function that stands for an import, unless calls go to a C function by name.
pub(super) fn import_shim(
    env: &mut Env<'_, '_>,
    context: &mut Context,
    index: u32,
    provided: Option<&ProvidedFunction>,
) -> Result<Option<FuncKey>, Error> {
    let provided = match provided {
        Some(ProvidedFunction::Math(_)) | None => return Ok(None),
        Some(provided) => provided,
    };
    let symbol = env.symbols[index as usize].clone();
    shim(env, context, index, &symbol, provided, false).map(Some)
}

/// The same, under a symbol, for tasks or not.
fn shim(
    env: &mut Env<'_, '_>,
    context: &mut Context,
    index: u32,
    symbol: &str,
    provided: &ProvidedFunction,
    of_task: bool,
) -> Result<FuncKey, Error> {
    let ty = env.info.type_of(index).clone();
    let signature = if of_task { env.task_signature(&ty) } else { env.signature(&ty) };
    let mut driver = None;
    match provided {
        ProvidedFunction::Loop(ends_early) => loops::define_steps(env, context, *ends_early, of_task)?,
        ProvidedFunction::Inverse if !of_task => driver = Some(inverses::driver(env, context, &ty)?),
        _ => {}
    }
    let key = build(env, context, symbol, signature, |fx| {
        if of_task {
            fx.take_view();
        }
        match provided {
            ProvidedFunction::Shim(shim) => shim(fx),
            ProvidedFunction::Invoke => {
                fx.stack.rotate_left(1);
                let called = FuncType::new(ty.params()[1..].to_vec(), ty.results().to_vec());
                let (callee, args) = fx.indirect(called, 0);
                let call = fx.b.ins().call(callee, &args);
                let results = fx.b.inst_results(call).to_vec();
                fx.b.ins().return_(&results);
            }
            ProvidedFunction::Loop(ends_early) => loops::all_steps(fx, *ends_early),
            ProvidedFunction::Inverse => inverses::calls(fx, false),
            ProvidedFunction::Missing => {
                fx.b.ins().trap(trap::MISSING_IMPORT);
            }
            ProvidedFunction::Widened(rule) => imports::widened(fx, rule),
            ProvidedFunction::Around(around) => around.emit(fx, &wrapped_symbol(symbol)),
            ProvidedFunction::Fork(kind) => fx.fork_of_import(*kind),
            // A region whose arguments are not counted by a constant.
            ProvidedFunction::OpenMp(OpenMp::Region) => openmp::emit(fx, OpenMp::Refused, &ty),
            ProvidedFunction::OpenMp(part) => openmp::emit(fx, *part, &ty),
            ProvidedFunction::Math(_) => unreachable!("called by name"),
        }
        Ok(())
    })?;
    let func = env.program.func_mut(key);
    func.driver = driver;
    if let ProvidedFunction::OpenMp(OpenMp::Refused) = provided {
        let import = env.info.funcs[index as usize].import.as_ref();
        let name = import.map_or(symbol, |i| &i.name);
        let [note, help] = openmp::refused(name);
        func.refused = Some(CallRefusal { what: format!("`{name}` of OpenMP"), note, help });
    }
    Ok(key)
}
