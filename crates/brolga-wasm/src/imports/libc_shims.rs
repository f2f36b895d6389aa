//! C functions that take pointers, as imports, and division of complex numbers.
//!
//! **Problem.** The pointers are offsets into memory 0 on one side and addresses on the other.
//!
//! **Answer.** A shim checks the range, adds the base, and calls C's function, which has a rule:
//!
//! ```text
//! frexp(f64 x, i32 p)      v3 = range(p, 4)        ;; a trap, if these four bytes lie outside
//!                          v4 = call %frexp(v1, v3)
//! ```
//!
//! [`widened`] makes one for any function of the table of rules that takes pointers, [`shim`] has
//! those whose ranges depend on an argument. Complex division, which compilers call by a name of
//! their own, is written out.
//!
//! **Errors.** A range outside of memory is a trap, as it is for the module's own accesses.
//!
//! **Cost.** A check for each pointer, and the call.

use brolga::cranelift_codegen::ir::{self, InstBuilder, Signature, types};
use brolga_rules::{MathKind, MathRule, Ty};
use wasmparser::{FuncType, ValType};

use super::complex;
use crate::error::trap;
use crate::function::func::Fx;
use crate::provided::Shim;

/// The shim for `name`, if it is one of the functions here and has their type.
pub(super) fn shim(name: &str, ty: &FuncType) -> Option<Shim> {
    let block = ty.params() == [ValType::I32; 3] && ty.results() == [ValType::I32];
    match name {
        "memcpy" | "memmove" if block => Some(|fx| {
            let (to, from, n) = (fx.stack[0], fx.stack[1], fx.stack[2]);
            let (d, s) = (fx.range(0, to, n), fx.range(0, from, n));
            let n = fx.wide(n);
            fx.call_c("memmove", types::I64, [d, s, n]);
            fx.b.ins().return_(&[to]);
        }),
        "memset" if block => Some(|fx| {
            let (to, byte, n) = (fx.stack[0], fx.stack[1], fx.stack[2]);
            let d = fx.range(0, to, n);
            let n = fx.wide(n);
            fx.call_c("memset", types::I32, [d, byte, n]);
            fx.b.ins().return_(&[to]);
        }),
        "memcmp" | "bcmp" if block => Some(|fx| {
            let (x, y, n) = (fx.stack[0], fx.stack[1], fx.stack[2]);
            let args = [fx.range(0, x, n), fx.range(0, y, n), fx.wide(n)];
            let callee = fx.callee("memcmp", |fx| {
                let mut sig = Signature::new(fx.env.config.default_call_conv);
                sig.params.extend([types::I64; 3].map(ir::AbiParam::new));
                sig.returns.push(ir::AbiParam::new(types::I32));
                sig
            });
            let call = fx.b.ins().call(callee, &args);
            let order = fx.b.inst_results(call)[0];
            fx.b.ins().return_(&[order]);
        }),
        "__divdc3" if divides(ty, ValType::F64) => Some(|fx| complex::divide(fx, types::F64)),
        "__divsc3" if divides(ty, ValType::F32) => Some(|fx| complex::divide(fx, types::F32)),
        "abort" | "__assert_fail" | "__cxa_pure_virtual" => Some(|fx| {
            fx.b.ins().trap(trap::UNREACHABLE);
        }),
        _ => None,
    }
}

/// Whether a function takes a place and two complex numbers.
fn divides(ty: &FuncType, float: ValType) -> bool {
    ty.params() == [ValType::I32, float, float, float, float] && ty.results().is_empty()
}

/// Check and widen pointers, call the C function, return what it returns; a `long` is widened, or
/// cut.
pub(super) fn widened(fx: &mut Fx<'_, '_, '_, '_>, rule: &'static MathRule) {
    let clif = |t: &Ty| match t {
        Ty::F64 => types::F64,
        Ty::F32 => types::F32,
        Ty::I32 => types::I32,
        Ty::I64 | Ty::Ptr | Ty::Size => types::I64,
    };
    let written = |param: usize| match rule.kind {
        MathKind::Writes(_, outs) => outs.iter().find(|o| o.param == param).map_or(8, |o| clif(&o.ty).bytes()),
        _ => 8,
    };
    let mut args = Vec::new();
    for (i, t) in rule.params.iter().enumerate() {
        let v = fx.stack[i];
        args.push(match t {
            Ty::Ptr => {
                let n = fx.b.ins().iconst(types::I32, i64::from(written(i)));
                fx.range(0, v, n)
            }
            Ty::I64 => fx.b.ins().sextend(types::I64, v),
            _ => v,
        });
    }
    let callee = fx.callee(&rule.symbol, |fx| {
        let mut sig = Signature::new(fx.env.config.default_call_conv);
        sig.params.extend(rule.params.iter().map(|t| ir::AbiParam::new(clif(t))));
        sig.returns.extend(rule.rets.iter().map(|t| ir::AbiParam::new(clif(t))));
        sig
    });
    let call = fx.b.ins().call(callee, &args);
    let mut results = fx.b.inst_results(call).to_vec();
    for (r, t) in results.iter_mut().zip(&rule.rets) {
        if *t == Ty::I64 {
            *r = fx.b.ins().ireduce(types::I32, *r);
        }
    }
    fx.b.ins().return_(&results);
}
