//! Inverse pairs of a module ([`brolga_ir::inverse_pair`]): `include/brolga.h` declares them for C.
//!
//! **Question.** A module imports `brolga_inverse_pair(f, f_inv, state, bytes, params, i)`, whose
//! functions are entries of its first table. What does it call?
//!
//! **Answer.** The import is a driver, which calls `f` by the dispatcher of its type. What undoes
//! it has the same parameters, and calls `f_inv`. The state is that of a time loop
//! ([`super::loops`]): the memory that is given, and the module's globals.
//!
//! **Cost.** A `br_table` for each call.

use brolga::cranelift_codegen::ir::InstBuilder;
use brolga_ir::driver::{Driver, InverseDriver};
use wasmparser::{FuncType, ValType};

use super::loops::state;
use crate::error::Error;
use crate::function::env::Env;
use crate::function::func::{Context, Fx, build};

/// What undoes a call.
const UNDO: &str = "inverse.undo";

/// Define what undoes a call; what the import is a driver of.
pub(super) fn driver(env: &mut Env<'_, '_>, context: &mut Context, ty: &FuncType) -> Result<Driver, Error> {
    if env.program.func(UNDO).is_none_or(|k| env.program.funcs[k].body.is_none()) {
        let sig = env.signature(ty);
        build(env, context, UNDO, sig, |fx| {
            calls(fx, true);
            Ok(())
        })?;
    }
    Ok(Driver::Inverse(InverseDriver { state: state(env, 3), undo: UNDO.into(), adjoint: None, check: None }))
}

/// A call of the function, or of its inverse.
pub(super) fn calls(fx: &mut Fx<'_, '_, '_, '_>, undo: bool) {
    let &[f, inverse, state, _, params, i] = &fx.stack[..] else { unreachable!("the import has these parameters") };
    fx.stack = vec![state, params, i, if undo { inverse } else { f }];
    let (callee, args) = fx.indirect(FuncType::new([ValType::I32; 3], []), 0);
    fx.b.ins().call(callee, &args);
    fx.b.ins().return_(&[]);
}
