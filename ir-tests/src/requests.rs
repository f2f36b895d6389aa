//! Requests for functions of a file, without a directive.

use brolga::cranelift_codegen::ir::types;
use brolga::{ArgActivity, Program, Request};

/// A request for a function that the program has: doubles are active, the first `pointers` 64-bit
/// integers duplicated, everything else is constant.
///
/// # Panics
/// If there is no function of that name.
pub fn request(program: &Program, symbol: &str, pointers: usize) -> Request {
    let key = program.func(symbol).expect("it is there");
    let mut left = pointers;
    let mut activity = |ty| match ty {
        types::F64 => ArgActivity::Active,
        types::I64 if left > 0 => {
            left -= 1;
            ArgActivity::Duplicated
        }
        _ => ArgActivity::Const,
    };
    let params = program.funcs[key].signature.params.iter().map(|p| activity(p.value_type)).collect::<Vec<_>>();
    Request::new(key, params)
}
