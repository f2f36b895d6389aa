//! What callers see: a pair whose failed checks leave the states as they were.
//!
//! **Question.** How is a reversible function called, and what is left behind by a check that
//! fails?
//! **Answer.** `%f` takes its parameters as they are written and calls `%brolga_reversible`, which
//! stands for a driver of `%f__do`, `%f__undo` and `%f__adjoint`. Each of those keeps a copy of the
//! states, if something is checked, and calls the statements. If they return the number of a check,
//! it puts the states back, and traps with the code and the line of that check, in a function that
//! stands for the one whose statement has failed.
//!
//! An adjoint is given shadows, or none; it makes one where there is none, since numbers may pass
//! through a place whose cotangent is not asked for.
//!
//! **Cost.** A copy of the states for each call from outside, where something is checked.

use std::collections::BTreeSet;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, TrapCode, Value, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use super::abi::{
    Form, allocate, call_symbol, clear, flags_of, import, is_word, narrowed, order, passed, release, signature, slot,
};
use super::body::steps_signature;
use super::context::{ClifFunction, Lowering, empty};
use super::expr::parts_of;
use crate::ast::{FnParam, Function, Len, Type};
use crate::layout::Scalar;

/// Most bytes that are kept on the machine's stack.
const MOST_ON_STACK: u32 = 4 << 10;

/// How many bytes a parameter has, as a value. `words` are all parameters of the function.
fn bytes(cx: &Lowering<'_>, b: &mut FunctionBuilder<'_>, f: &Function, ty: &Type, words: &[Value]) -> Value {
    let (Type::Array(of, Len::Param(n)) | Type::Stack(of, Len::Param(n))) = ty else {
        let n = cx.layouts.size(ty).expect("the checker has seen it").0;
        return b.ins().iconst(types::I64, i64::from(n));
    };
    let i = f.params.iter().position(|p| p.name == *n).expect("the checker has seen it");
    let at = order(f).iter().position(|&k| k == i).expect("all are passed");
    let size = cx.layouts.size(of).expect("the checker has seen it").0;
    let zero = b.ins().iconst(types::I64, 0);
    let n = b.ins().smax(words[at], zero);
    let all = b.ins().imul_imm_s(n, i64::from(size));
    let head = if matches!(ty, Type::Stack(..)) { 8 } else { 0 };
    b.ins().iadd_imm_s(all, head)
}

/// Memory of so many bytes: on the stack if that is known to be few. Whether it is to be freed.
fn room(cx: &Lowering<'_>, b: &mut FunctionBuilder<'_>, ty: &Type, bytes: Value) -> (Value, bool) {
    match cx.layouts.size(ty) {
        Ok((n, _)) if n <= MOST_ON_STACK => (slot(b, n), false),
        _ => (allocate(b, bytes), true),
    }
}

/// How many elements a parameter has whose length is one.
fn count(b: &mut FunctionBuilder<'_>, f: &Function, ty: &Type, words: &[Value]) -> Option<Value> {
    let (Type::Array(_, len) | Type::Stack(_, len)) = ty else { return None };
    Some(match len {
        Len::Fixed(n) => b.ins().iconst(types::I64, i64::from(*n)),
        Len::Param(n) => {
            let i = f.params.iter().position(|p| p.name == *n).expect("the checker has seen it");
            words[order(f).iter().position(|&k| k == i).expect("all are passed")]
        }
    })
}

/// Copy a place, number by number, so that it is known what each is. Where there are integers only
/// they are negated, which no address is; what is copied back is what was there.
fn moved(cx: &Lowering<'_>, b: &mut FunctionBuilder<'_>, ty: &Type, count: Option<Value>, places: (Value, Value)) {
    moved_by(cx, b, ty, count, places, !cx.layouts.is_active(ty));
}

fn moved_by(
    cx: &Lowering<'_>,
    b: &mut FunctionBuilder<'_>,
    ty: &Type,
    count: Option<Value>,
    (from, to): (Value, Value),
    negates: bool,
) {
    match ty {
        Type::Array(of, _) | Type::Stack(of, _) => {
            let head = if matches!(ty, Type::Stack(..)) { 8 } else { 0 };
            if head > 0 {
                let flags = flags_of(b, types::I64);
                let top = b.ins().load(types::I64, flags, from, 0);
                let top = if negates { b.ins().ineg(top) } else { top };
                b.ins().store(flags, top, to, 0);
            }
            let n = count.expect("it has a length");
            let size = i64::from(cx.layouts.size(of).expect("the checker has seen it").0);
            let [again, one, done] = [(); 3].map(|()| b.create_block());
            let i = b.append_block_param(again, types::I64);
            let zero = b.ins().iconst(types::I64, 0);
            b.ins().jump(again, &[zero.into()]);
            b.switch_to_block(again);
            let more = b.ins().icmp(IntCC::SignedLessThan, i, n);
            b.ins().brif(more, one, &[], done, &[]);
            b.switch_to_block(one);
            let far = b.ins().imul_imm_s(i, size);
            let far = b.ins().iadd_imm_s(far, head);
            let places = (b.ins().iadd(from, far), b.ins().iadd(to, far));
            let inner = inner_count(b, of);
            moved_by(cx, b, of, inner, places, negates);
            let next = b.ins().iadd_imm_s(i, 1);
            b.ins().jump(again, &[next.into()]);
            b.switch_to_block(done);
        }
        Type::Record(name) => {
            for (_, ty, at) in cx.layouts.fields(name) {
                let places = (b.ins().iadd_imm_s(from, i64::from(*at)), b.ins().iadd_imm_s(to, i64::from(*at)));
                let inner = inner_count(b, ty);
                moved_by(cx, b, ty, inner, places, negates);
            }
        }
        scalar => {
            let mut offset = 0;
            for &clif in parts_of(Scalar::of(scalar).expect("it is a number")) {
                let flags = flags_of(b, clif);
                let v = b.ins().load(clif, flags, from, offset);
                let v = if negates { b.ins().ineg(v) } else { v };
                b.ins().store(flags, v, to, offset);
                offset += clif.bytes() as i32;
            }
        }
    }
}

/// How many elements an inner array has, whose length is fixed.
fn inner_count(b: &mut FunctionBuilder<'_>, ty: &Type) -> Option<Value> {
    match ty {
        Type::Array(_, Len::Fixed(n)) | Type::Stack(_, Len::Fixed(n)) => {
            Some(b.ins().iconst(types::I64, i64::from(*n)))
        }
        _ => None,
    }
}

/// `%f__do` and the like: statements that leave the states as they were if a check fails.
pub(super) fn guarded(cx: &Lowering<'_>, f: &Function, form: Form) -> ClifFunction {
    let symbol = form.guarded(&f.name);
    let n = f.params.len();
    let words = vec![types::I64; if form.cotangents { 2 * n } else { n }];
    let mut func = empty(&symbol, signature(&words, &[]));
    let mut fcx = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut func, &mut fcx);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    b.set_srcloc(ir::SourceLoc::new(f.at.line));
    let mut given = b.block_params(entry).to_vec();
    let order = order(f);
    let fallible = cx.fallible.contains(&f.name);
    if fallible {
        apart(cx, &mut b, f, &given);
    }
    let mut freed = Vec::new();
    let mut kept = Vec::new();
    for (k, p) in order.iter().map(|&i| &f.params[i]).enumerate().filter(|(_, p)| !is_word(p)) {
        let size = bytes(cx, &mut b, f, &p.ty, &given);
        if fallible && !p.input {
            let (room, is_freed) = room(cx, &mut b, &p.ty, size);
            let n = count(&mut b, f, &p.ty, &given);
            moved(cx, &mut b, &p.ty, n, (given[k], room));
            kept.push((&p.ty, n, given[k], room));
            freed.extend(is_freed.then_some(room));
        }
        if form.cotangents && cx.layouts.is_active(&p.ty) {
            let (shadow, own) = shadow(cx, &mut b, p, given[n + k], size);
            given[n + k] = shadow;
            freed.extend(own);
        }
    }
    for (k, &i) in order.iter().enumerate().filter(|&(_, &i)| is_word(&f.params[i])) {
        let v = narrowed(&mut b, given[k], &f.params[i].ty);
        given[k] = passed(&mut b, v);
    }
    let sig = steps_signature(cx, f, form);
    let [params, returns] = [&sig.params, &sig.returns].map(|s| s.iter().map(|p| p.value_type).collect::<Vec<_>>());
    let found = call_symbol(&mut b, &form.symbol(&f.name), &params, &returns, &given);
    if let [status] = found[..] {
        let [failed, done] = [(); 2].map(|()| b.create_block());
        b.ins().brif(status, failed, &[], done, &[]);
        b.switch_to_block(failed);
        b.set_cold_block(failed);
        for (ty, n, at, room) in kept {
            moved(cx, &mut b, ty, n, (room, at));
        }
        freed.iter().for_each(|&at| release(&mut b, at));
        fails(cx, &mut b, status);
        b.switch_to_block(done);
        b.set_srcloc(ir::SourceLoc::new(f.at.line));
    }
    freed.iter().for_each(|&at| release(&mut b, at));
    b.ins().return_(&[]);
    b.seal_all_blocks();
    b.finalize(cx.isa.frontend_config());
    ClifFunction { symbol, func, line: f.at.line, called: Some(form.called(&f.name)) }
}

/// Trap if a place that is changed is given by two names.
fn apart(cx: &Lowering<'_>, b: &mut FunctionBuilder<'_>, f: &Function, given: &[Value]) {
    let mut before: Vec<(Value, Value)> = Vec::new();
    for (k, p) in order(f).iter().map(|&i| &f.params[i]).enumerate().filter(|(_, p)| !is_word(p)) {
        let size = bytes(cx, b, f, &p.ty, given);
        let end = b.ins().iadd(given[k], size);
        for &(other, other_end) in &before {
            let x = b.ins().icmp(IntCC::UnsignedLessThan, given[k], other_end);
            let y = b.ins().icmp(IntCC::UnsignedLessThan, other, end);
            let both = b.ins().band(x, y);
            b.ins().trapnz(both, TrapCode::unwrap_user(crate::error::Fault::AliasWrite.code()));
        }
        // What is changed comes first.
        if !p.input {
            before.push((given[k], end));
        }
    }
}

/// The function whose name the trap of a failed check has.
fn traps_of(f: &str) -> String {
    format!("{f}__fails")
}

/// Trap in the function whose statement has failed.
fn fails(cx: &Lowering<'_>, b: &mut FunctionBuilder<'_>, status: Value) {
    let sites = cx.sites.borrow();
    let functions: BTreeSet<&str> = sites.iter().map(|s| &s.function[..]).collect();
    for f in functions {
        call_symbol(b, &traps_of(f), &[types::I32], &[], &[status]);
    }
    b.ins().trap(TrapCode::unwrap_user(crate::error::Fault::OutOfRange.code()));
}

/// `%f__fails`: the trap of each check of a function, by its number. Of other numbers it returns.
pub(super) fn traps(cx: &Lowering<'_>, f: &Function) -> ClifFunction {
    let symbol = traps_of(&f.name);
    let mut func = empty(&symbol, signature(&[types::I32], &[]));
    let mut fcx = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut func, &mut fcx);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let status = b.block_params(entry)[0];
    for (number, site) in (1..).zip(cx.sites.borrow().iter()).filter(|(_, s)| s.function == f.name) {
        b.set_srcloc(ir::SourceLoc::new(site.line));
        let failed = b.ins().icmp_imm_u(IntCC::Equal, status, number);
        b.ins().trapnz(failed, TrapCode::unwrap_user(site.fault.code()));
    }
    b.ins().return_(&[]);
    b.seal_all_blocks();
    b.finalize(cx.isa.frontend_config());
    ClifFunction { symbol, func, line: f.at.line, called: Some(f.name.clone()) }
}

/// A shadow that is there, or one of zeros; and what is to be freed.
fn shadow(
    cx: &Lowering<'_>,
    b: &mut FunctionBuilder<'_>,
    p: &FnParam,
    given: Value,
    size: Value,
) -> (Value, Option<Value>) {
    let small = cx.layouts.size(&p.ty).is_ok_and(|(n, _)| n <= MOST_ON_STACK);
    if small {
        let (own, _) = room(cx, b, &p.ty, size);
        clear(b, own, size);
        return (b.ins().select(given, given, own), None);
    }
    let [make, done] = [(); 2].map(|()| b.create_block());
    let found = b.append_block_param(done, types::I64);
    let own = b.append_block_param(done, types::I64);
    let none = b.ins().iconst(types::I64, 0);
    b.ins().brif(given, done, &[given.into(), none.into()], make, &[]);
    b.switch_to_block(make);
    let new = allocate(b, size);
    clear(b, new, size);
    b.ins().jump(done, &[new.into(), new.into()]);
    b.switch_to_block(done);
    // Freeing null does nothing.
    (found, Some(own))
}

/// `%f` and `%f__inverse`.
pub(super) fn caller(cx: &Lowering<'_>, f: &Function, back: bool) -> ClifFunction {
    let symbol = if back { format!("{}__inverse", f.name) } else { f.name.clone() };
    let n = f.params.len();
    let mut func = empty(&symbol, signature(&vec![types::I64; n], &[]));
    let mut fcx = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut func, &mut fcx);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    b.seal_block(entry);
    b.set_srcloc(ir::SourceLoc::new(f.at.line));
    let written = b.block_params(entry).to_vec();
    let order = order(f);
    let words: Vec<Value> = order.iter().map(|&i| written[i]).collect();
    let forms = [(back, false), (!back, false), (!back, true)];
    let mut args: Vec<Value> = forms
        .iter()
        .map(|&(back, cotangents)| {
            let symbol = Form { back, cotangents }.guarded(&f.name);
            let params = vec![types::I64; if cotangents { 2 * n } else { n }];
            let callee = import(&mut b, &symbol, &params, &[]);
            b.ins().func_addr(types::I64, callee)
        })
        .collect();
    for (k, &i) in order.iter().enumerate() {
        args.push(words[k]);
        if !f.params[i].input {
            args.push(bytes(cx, &mut b, f, &f.params[i].ty, &words));
        }
    }
    let params = vec![types::I64; args.len()];
    call_symbol(&mut b, "brolga_reversible", &params, &[], &args);
    b.ins().return_(&[]);
    b.finalize(cx.isa.frontend_config());
    let called = back.then(|| Form { back, cotangents: false }.called(&f.name));
    ClifFunction { symbol, func, line: f.at.line, called }
}
