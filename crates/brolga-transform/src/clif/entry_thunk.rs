//! Entry thunk: the function that Rust calls, with one pointer to values that hold the arguments
//! and later the results.
//!
//! **Problem.** Rust cannot call a function whose signature is known at run time only. A second
//! function that reads arguments from memory, calls, and writes the results back takes as long to
//! compile as a short derivative does.
//!
//! **Answer.** What no other function calls gets the thunk itself. Its parameters become loads at
//! the head of the entry block, and before each `return` its results are stored:
//!
//! ```text
//! function %f(f64, i64) -> f64 fast {        function %f(i64) system_v {
//! block0(v0: f64, v1: i64):                  block0(v9: i64):
//!                                                v0 = load.f64 notrap v9
//!                                                v1 = load.i64 notrap v9+16
//!     v2 = fmul v0, v0               ─►          v2 = fmul v0, v0
//!                                                store notrap v2, v9
//!     return v2                                  return
//! }                                          }
//! ```
//!
//! **Invariants.** Values keep their names and instructions their places, so what is known of the
//! function holds of it with its thunk. All arguments are read before anything is written, and
//! results are written when nothing is left to do. After the thunk the function is
//! [simplified](brolga_clif::simplify_cfg), since this is what is compiled. A derivation has it
//! without; the thunk comes with [`take`](crate::Derivation::take), so that what is only compiled
//! is not copied.
//!
//! **Cost.** In the run a load for each parameter and a store for each result; here one walk for
//! the returns, and the simplification.

use brolga_analysis::query::returns;
use brolga_ir::{Diagnostic, Diagnostics};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, MemFlagsData, types};
use cranelift_codegen::isa::TargetIsa;

use brolga_clif::simplify_cfg::simplify_cfg;

/// Bytes from one argument or result to the next.
const VALUE_BYTES: i32 = 16;

/// The signature of a C entry point: one pointer to an array of 16-byte values.
pub fn entry_signature(isa: &dyn TargetIsa) -> ir::Signature {
    let mut s = ir::Signature::new(isa.default_call_conv());
    s.params.push(AbiParam::new(types::I64));
    s
}

/// The function behind a thunk. `None` if its parameters or results are not those of its signature,
/// which would not be seen any more.
pub fn entry_thunk(mut func: ir::Function, isa: &dyn TargetIsa) -> Option<ir::Function> {
    if !fits(&func) {
        return None;
    }
    let signature = std::mem::replace(&mut func.signature, entry_signature(isa));
    let entry = func.layout.entry_block()?;
    let params = func.dfg.detach_block_params(entry).as_slice(&func.dfg.value_lists).to_vec();
    let abi_values = func.dfg.append_block_param(entry, types::I64);
    // They are ours, and as many as there are arguments or results.
    let flags = MemFlagsData::new().with_notrap();
    let place = |i: usize| i32::try_from(i).ok()?.checked_mul(VALUE_BYTES);
    let mut pos = FuncCursor::new(&mut func).at_first_insertion_point(entry);
    for (i, (&v, p)) in params.iter().zip(&signature.params).enumerate() {
        pos.ins().with_result(v).load(p.value_type, flags, abi_values, place(i)?);
    }
    for inst in returns(&func).collect::<Vec<_>>() {
        let results = func.dfg.inst_args(inst).to_vec();
        let at = func.srcloc(inst);
        let mut pos = FuncCursor::new(&mut func).at_inst(inst).with_srcloc(at);
        for (i, &r) in results.iter().enumerate() {
            pos.ins().store(flags, r, abi_values, place(i)?);
        }
        pos.ins().return_(&[]);
        func.layout.remove_inst(inst);
    }
    Some(func)
}

/// The root's function of a derivation as Rust calls it: after a thunk, and tidied up.
///
/// # Errors
/// What the verifier says of it, if it does not fit its signature.
pub fn thunk_callee(func: ir::Function, isa: &dyn TargetIsa, symbol: &str) -> Result<ir::Function, Diagnostics> {
    if !fits(&func) {
        // The verifier says what is wrong with it.
        return Err(verify(&func, isa, symbol).err().unwrap_or_else(|| misfit(&func, symbol)));
    }
    let mut thunk = entry_thunk(func, isa).expect("it fits");
    simplify_cfg(&mut thunk);
    Ok(thunk)
}

fn misfit(func: &ir::Function, symbol: &str) -> Diagnostics {
    let d = Diagnostic::new("AD0901", format!("internal: {} does not fit its signature", func.name)).in_func(symbol);
    d.help("this is a bug in Brolga; please report it with the input").into()
}

/// Whether parameters and results of a function are those of its signature.
fn fits(func: &ir::Function) -> bool {
    let are = |values: &[ir::Value], types: &[AbiParam]| {
        values.iter().map(|&v| func.dfg.value_type(v)).eq(types.iter().map(|t| t.value_type))
    };
    let Some(entry) = func.layout.entry_block() else { return false };
    are(func.dfg.block_params(entry), &func.signature.params)
        && returns(func).all(|i| are(func.dfg.inst_args(i), &func.signature.returns))
}

/// Ask Cranelift's verifier about a function that was derived from `%symbol`.
///
/// # Errors
/// What it says, with the function.
pub fn verify(func: &ir::Function, isa: &dyn TargetIsa, symbol: &str) -> Result<(), Diagnostics> {
    cranelift_codegen::verify_function(func, isa).map_err(|e| {
        let d = Diagnostic::new("AD0901", format!("internal: {} does not verify", func.name))
            .in_func(symbol)
            .note(cranelift_codegen::print_errors::pretty_verifier_error(func, None, e))
            .help("this is a bug in Brolga; please report it with the input");
        d.into()
    })
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::settings::{self, Flags};

    use super::*;

    fn thunk_of(text: &str) -> Option<ir::Function> {
        let func = cranelift_reader::parse_functions(text).unwrap_or_else(|e| panic!("{e}")).remove(0);
        let target =
            cranelift_codegen::isa::lookup_by_name("x86_64").or(cranelift_codegen::isa::lookup_by_name("aarch64"));
        let isa = target.expect("a back end").finish(Flags::new(settings::builder())).expect("flags");
        let found = entry_thunk(func, &*isa)?;
        cranelift_codegen::verify_function(&found, &*isa).unwrap_or_else(|e| panic!("{e}: {found}"));
        Some(found)
    }

    #[test]
    fn arguments_are_loaded_and_results_stored() {
        let found = thunk_of(
            "function %f(f64, i64) -> f64, i32 fast {
            block0(v0: f64, v1: i64):
                v2 = iconst.i32 7
                brif v1, block1, block2(v0)
            block1:
                return v0, v2
            block2(v3: f64):
                v4 = fmul v3, v0
                return v4, v2
            }",
        );
        let text = found.expect("it fits").to_string();
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("region")).collect();
        assert!(lines[0].starts_with("function %f(i64) ") && !lines[0].contains("->"), "{text}");
        let wanted = [
            "block0(v5: i64):",
            "v0 = load.f64 notrap v5",
            "v1 = load.i64 notrap v5+16",
            "v2 = iconst.i32 7",
            "brif v1, block1, block2(v0)",
            "block1:",
            "store.f64 notrap v0, v5",
            "store.i32 notrap v2, v5+16",
            "return",
            "block2(v3: f64):",
            "v4 = fmul v3, v0",
            "store.f64 notrap v4, v5",
            "store.i32 notrap v2, v5+16",
            "return",
        ];
        // The printer says of what type a parameter is that is stored, and which number a constant
        // is.
        let plain =
            |l: &str| l.split("  ;").next().unwrap_or(l).replace("store.f64", "store").replace("store.i32", "store");
        let body: Vec<String> = lines[1..lines.len() - 1].iter().map(|l| plain(l)).collect();
        assert_eq!(body, wanted.map(plain), "{text}");
    }

    #[test]
    fn what_does_not_fit_its_signature_is_not_hidden() {
        let wrong = [
            "function %f(f64) -> f64 {\nblock0(v0: f64, v1: i64):\n    return v0\n}",
            "function %f(f32) -> f64 {\nblock0(v0: f64):\n    return v0\n}",
            "function %f(f64) -> f32 {\nblock0(v0: f64):\n    return v0\n}",
            "function %f(f64) -> f64 {\nblock0(v0: f64):\n    return v0, v0\n}",
        ];
        for text in wrong {
            assert!(thunk_of(text).is_none(), "{text}");
        }
    }
}
