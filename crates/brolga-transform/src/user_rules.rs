//! User rules: functions of a program that are differentiated as a user says.
//!
//! **Question.** Which rule has a function that the program calls by name?
//! **Answer.** [`set_rules`] gives the functions of these names their rules. Calls of them are then
//! differentiated by the rule, whatever their bodies are, and whatever is known of their names; the
//! function itself is called as it is. A rule speaks of calls: where the function is asked for
//! itself, its body is derived.
//!
//! **Cost.** None; what is called by a rule is not derived.

use std::collections::BTreeMap;

use brolga_ir::{Diagnostic, Diagnostics, Program};
use brolga_rules::{Ty, UserRule};
use cranelift_codegen::ir::{AbiParam, types};

/// Give functions of a program their rules. Names of which the program has no function are passed
/// over.
///
/// # Errors
/// AD0175 for each rule that does not fit its function.
pub fn set_rules(program: &mut Program, rules: &BTreeMap<String, UserRule>) -> Result<(), Diagnostics> {
    let mut problems = Diagnostics::default();
    for (symbol, rule) in rules {
        let Some(key) = program.func(symbol) else { continue };
        let signature = &program.funcs[key].signature;
        let (params, rets) = (tys(&signature.params), tys(&signature.returns));
        let found = match params.zip(rets) {
            Some((params, rets)) => rule.keep(symbol, &params, &rets),
            None => Err(format!(
                "a function with a rule takes and returns f64, f32, i64 and i32, and this one is {signature}"
            )),
        };
        match found {
            Ok(id) => program.func_mut(key).rule = Some(id.0),
            Err(why) => {
                let d = Diagnostic::new("AD0175", format!("the rule of %{symbol} does not fit: {why}"));
                problems.push(d.in_func(symbol).help("change the rule, or the declaration of the function"));
            }
        }
    }
    problems.or_ok(())
}

fn tys(params: &[AbiParam]) -> Option<Vec<Ty>> {
    let ty = |p: &AbiParam| match p.value_type {
        types::F64 => Some(Ty::F64),
        types::F32 => Some(Ty::F32),
        types::I32 => Some(Ty::I32),
        types::I64 => Some(Ty::I64),
        _ => None,
    };
    params.iter().map(ty).collect()
}
