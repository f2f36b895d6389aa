//! Whether a request fits the function that it asks for.
//!
//! Everything else relies on it: one activity for each parameter, and only such as its type can
//! have. All that does not fit is told at once.

use brolga_ir::{ArgActivity, Diagnostic, Diagnostics, Program, Request, ResultActivity};
use cranelift_codegen::ir::types;

/// Check a request against its function.
pub fn check(program: &Program, request: &Request) -> Result<(), Diagnostics> {
    let f = &program.funcs[request.func];
    let mut found = Diagnostics::default();
    let mut wrong = |message: String, help: &str| {
        found.push(Diagnostic::new("AD0010", message).in_func(&f.symbol).help(help));
    };
    if f.body.is_none() {
        wrong(format!("%{} is imported: there is no body to differentiate", f.symbol), "define it in the program");
    }
    let n = f.signature.params.len();
    if request.args.len() != n {
        wrong(
            format!("%{} has {n} parameters, but {} activities are given", f.symbol, request.args.len()),
            "give one activity for each parameter",
        );
    }
    for (i, (a, p)) in request.args.iter().zip(&f.signature.params).enumerate() {
        let ty = p.value_type;
        match a.activity {
            // Refused with the reason when the function is normalised.
            ArgActivity::Active if ty.lane_type() == types::F16 || ty.lane_type() == types::F128 => {}
            ArgActivity::Active if brolga_ir::inst::Shape::of_float(ty).is_none() => wrong(
                format!("argument {i} of %{} is active, but its type is {ty}", f.symbol),
                "only f32, f64 and their 128-bit vectors can be active; a pointer is `duplicated`",
            ),
            ArgActivity::Duplicated if ty != types::I64 => wrong(
                format!("argument {i} of %{} is duplicated, but its type is {ty}", f.symbol),
                "only 64-bit pointers can be duplicated; a float is `active`",
            ),
            _ => {}
        }
    }
    let returns = &f.signature.returns;
    if request.results.len() > returns.len() {
        wrong(
            format!("%{} has {} results, but {} activities are given", f.symbol, returns.len(), request.results.len()),
            "give one activity for each result, or none",
        );
    }
    for (i, (a, r)) in request.results.iter().zip(returns).enumerate() {
        if *a == ResultActivity::Duplicated && r.value_type != types::I64 {
            wrong(
                format!("result {i} of %{} is duplicated, but its type is {}", f.symbol, r.value_type),
                "only 64-bit pointers can be duplicated; a float is `active`",
            );
        }
        if *a == ResultActivity::Unit && !(r.value_type == types::F32 || r.value_type == types::F64) {
            wrong(
                format!("result {i} of %{} is a unit, but its type is {}", f.symbol, r.value_type),
                "only f32 and f64 have a one; leave it active, and pass a seed",
            );
        }
    }
    found.or_ok(())
}
