//! User rules: functions of a program that are differentiated as a user says.
//!
//! **Question.** Which rule has a function that the program calls by name?
//! **Answer.** [`set_rules`] gives the functions of these names their rules. Calls of them are then
//! differentiated by the rule, whatever their bodies are, and whatever is known of their names; the
//! function itself is called as it is. A rule speaks of calls: where the function is asked for
//! itself, its body is derived.
//!
//! An imported function with an adjoint gets a stand-in for a body ([`mod@crate::stand_in`]).
//!
//! **Cost.** None; what is called by a rule is not derived.

use std::collections::BTreeMap;

use brolga_ir::{AttachedValue, DataObject, Diagnostic, Diagnostics, FuncKey, Program};
use brolga_rules::{CallArg, MathKind, MathRule, UserRule};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, AbiParam, InstBuilder};

use crate::stand_in::{ELSEWHERE, stand_in};
use crate::translate::rules::adjoint::{signature_of, tys};

/// Give functions of a program their rules. Names of which the program has no function are passed
/// over. With `imports`, functions without a body in the program may have an adjoint: the module
/// that the derivatives become part of has them.
///
/// # Errors
/// AD0175 for each rule that does not fit its function.
pub fn set_rules(program: &mut Program, rules: &BTreeMap<String, UserRule>, imports: bool) -> Result<(), Diagnostics> {
    let mut problems = Diagnostics::default();
    for (symbol, rule) in rules {
        let Some(key) = program.func(symbol) else { continue };
        if let Err(why) = set(program, key, rule, imports) {
            let d = Diagnostic::new("AD0175", format!("the rule of %{symbol} does not fit: {why}"));
            problems.push(d.in_func(symbol).help("change the rule, or the declaration of the function"));
        }
    }
    problems.or_ok(())
}

fn set(program: &mut Program, key: FuncKey, rule: &UserRule, imports: bool) -> Result<(), String> {
    let f = &program.funcs[key];
    let (symbol, signature) = (f.symbol.clone(), f.signature.clone());
    let Some((params, rets)) = tys(&signature.params).zip(tys(&signature.returns)) else {
        return Err(format!(
            "a function with a rule takes and returns f64, f32, i64 and i32, and this one is {signature}"
        ));
    };
    let UserRule::Adjoint(adjoint) = rule else {
        let rule = rule.for_function(&symbol, &params, &rets)?;
        calls_fit(program, &rule, &signature)?;
        program.func_mut(key).rule = Some(AttachedValue::new(rule));
        return Ok(());
    };
    adjoint.fits(&symbol, &params, &rets)?;
    for call in adjoint.calls() {
        let Some(declared) = program.func(&call.symbol).map(|k| &program.funcs[k].signature) else { continue };
        let wanted = signature_of(adjoint, call, &signature).expect("it has types that rules have");
        let types = |s: &[AbiParam]| s.iter().map(|p| p.value_type).collect::<Vec<_>>();
        if types(&declared.params) != types(&wanted.params) || types(&declared.returns) != types(&wanted.returns) {
            return Err(format!("%{} is declared as {declared}, and the rule calls it as {wanted}", call.symbol));
        }
    }
    if program.funcs[key].body.is_none() && !program.funcs[key].stand_in {
        if !imports {
            return Err("the function has no body in this program".to_owned());
        }
        let body = stand_in(&symbol, &signature, adjoint);
        if !adjoint.alone && program.data_object(ELSEWHERE).is_none() {
            let bytes = vec![0; 8];
            let object =
                DataObject { symbol: ELSEWHERE.to_owned(), bytes, align: 8, writable: true, functions: vec![] };
            program.define_data(object).map_err(|s| format!("%{s} is defined"))?;
        }
        program.define(&symbol, body, |_| 0).map_err(|s| format!("%{s} cannot be defined"))?;
        program.func_mut(key).stand_in = true;
    }
    program.func_mut(key).adjoint = Some(AttachedValue::new(adjoint.clone()));
    Ok(())
}

/// A function that calls one which has a rule, if it has, with the same signature. A rule speaks of
/// calls, so that is what a rule is tried out with.
///
/// # Errors
/// The symbol that is defined already.
pub fn caller_of_ruled(program: &mut Program, key: FuncKey) -> Result<Option<FuncKey>, String> {
    let f = &program.funcs[key];
    if f.rule.is_none() && f.adjoint.is_none() {
        return Ok(None);
    }
    let (caller, signature) = (format!("{}.called", f.symbol), f.signature.clone());
    let callee = ir::ExternalName::testcase(&f.symbol);
    if let Some(known) = program.func(&caller) {
        return Ok(Some(known));
    }
    let mut func = ir::Function::with_name_signature(ir::UserFuncName::testcase(&caller), signature.clone());
    let block = func.dfg.make_block();
    let params: Vec<ir::Type> = signature.params.iter().map(|p| p.value_type).collect();
    let args: Vec<ir::Value> = params.into_iter().map(|ty| func.dfg.append_block_param(block, ty)).collect();
    let signature = func.import_signature(signature);
    let data = ir::ExtFuncData { name: callee, signature, colocated: false, patchable: false };
    let callee = func.import_function(data);
    let mut cursor = FuncCursor::new(&mut func);
    cursor.insert_block(block);
    let call = cursor.ins().call(callee, &args);
    let results = cursor.func.dfg.inst_results(call).to_vec();
    cursor.ins().return_(&results);
    program.define(&caller, func, |_| 0).map(Some)
}

/// That functions which the partials of a rule call take what they are given there, and return the
/// float that is wanted.
fn calls_fit(program: &Program, rule: &MathRule, signature: &ir::Signature) -> Result<(), String> {
    let MathKind::Expr(row) = &rule.kind else { return Ok(()) };
    let Some(float) = signature.returns.first().map(|r| r.value_type) else { return Ok(()) };
    for call in row.partials().flat_map(|(_, _, p)| p.called()) {
        let Some(declared) = program.func(&call.symbol).map(|k| &program.funcs[k].signature) else { continue };
        let given = call.args.iter().map(|arg| match arg {
            CallArg::Float(_) => float,
            CallArg::Other(i) => signature.params[*i].value_type,
        });
        let types = |s: &[AbiParam]| s.iter().map(|p| p.value_type).collect::<Vec<_>>();
        if types(&declared.params) != given.clone().collect::<Vec<_>>() || types(&declared.returns) != [float] {
            let given: Vec<String> = given.map(|ty| ty.to_string()).collect();
            let (symbol, given) = (&call.symbol, given.join(", "));
            return Err(format!("%{symbol} is declared as {declared}, and the rule calls it as ({given}) -> {float}"));
        }
    }
    Ok(())
}
