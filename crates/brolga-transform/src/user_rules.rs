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

use brolga_ir::{Attached, DataObject, Diagnostic, Diagnostics, FuncKey, Program};
use brolga_rules::UserRule;
use cranelift_codegen::ir::AbiParam;

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
        program.func_mut(key).rule = Some(Attached::new(rule.for_function(&symbol, &params, &rets)?));
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
    program.func_mut(key).adjoint = Some(Attached::new(adjoint.clone()));
    Ok(())
}
