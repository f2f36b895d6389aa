//! Wrappers: functions that are written around the module's own. Those compute, these see to the
//! derivative.
//!
//! **Problem.** A function of a library may be known, but not as something that takes numbers and
//! returns one, as a rule of the table has it ([`crate::library::mathlib`]): it takes and leaves
//! its numbers in memory, or in words that are no floats.
//!
//! **Answer.** The module's function stays as `NAME.own`, is given its operands as constants, and
//! in its place stands one that is written in CLIF
//! ([`WrapperFunction::emit`](crate::provided::WrapperFunction::emit)): it computes what has the
//! right derivative, and gives that the value that `NAME.own` has left ([`with_value`]). What there
//! is in `NAME.own`, and in what is called by nothing else, is left to the run (`Func::untracked`),
//! since no cotangent comes there.
//!
//! Names are not believed: before a function is replaced, it is run, and has to agree with what its
//! name says ([`crate::library::wrapped`]).
//!
//! **Cost.** In a run the function twice: the module's own, and the expression that has its
//! derivative.
//!
//! **Source.** Of a value beside an expression whose derivative it has: the straight-through
//! estimator of neural networks, exact here.

use brolga::cranelift_codegen::ir::{self, InstBuilder, Signature, Type, Value, types};

use wasmparser::FuncType;

use crate::function::func::Fx;
use crate::function::ops::little;

/// Call the module's own function; the instance goes before the arguments.
pub(crate) fn call_wrapped(fx: &mut Fx<'_, '_, '_, '_>, wrapped: &str, ty: &FuncType, args: &[Value]) -> Vec<Value> {
    let of_task = fx.view.is_some();
    let callee = fx.callee(wrapped, |fx| if of_task { fx.env.task_signature(ty) } else { fx.env.signature(ty) });
    let args = fx.with_view(args);
    let call = fx.b.ins().call(callee, &args);
    fx.b.inst_results(call).to_vec()
}

/// Give the float at a place, which is left there, the derivative of an expression.
pub(crate) fn store_with_value(fx: &mut Fx<'_, '_, '_, '_>, x: Value, at: Value, offset: i32) {
    let ty = fx.b.func.dfg.value_type(x);
    let left = fx.b.ins().load(ty, little(), at, offset);
    let left = with_value(fx, x, left);
    fx.b.ins().store(little(), left, at, offset);
}

/// Zero, of a type of floats: for `with_value`, it makes constants.
pub(crate) fn zero(fx: &mut Fx<'_, '_, '_, '_>, ty: Type) -> Value {
    if ty == types::F32 { fx.b.ins().f32const(0.0) } else { fx.b.ins().f64const(0.0) }
}

/// The float at a place of memory that a trial has told.
pub(crate) fn float_at(memory: &[u8], at: usize, single: bool) -> f64 {
    if single {
        f32::from_le_bytes(memory[at..at + 4].try_into().expect("four bytes")).into()
    } else {
        f64::from_le_bytes(memory[at..at + 8].try_into().expect("eight bytes"))
    }
}

/// `value`, with the derivative of `x`; both `f64`, or both `f32`.
pub(crate) fn with_value(fx: &mut Fx<'_, '_, '_, '_>, x: Value, value: Value) -> Value {
    let single = fx.b.func.dfg.value_type(x) == types::F32;
    computed(fx, if single { "brolga_with_valuef" } else { "brolga_with_value" }, &[x, value])
}

/// A C function of its arguments, that returns what the first is.
pub(crate) fn computed(fx: &mut Fx<'_, '_, '_, '_>, name: &str, args: &[Value]) -> Value {
    let callee = fx.callee(name, |fx| {
        let mut sig = Signature::new(fx.env.config.default_call_conv);
        let types = args.iter().map(|&a| fx.b.func.dfg.value_type(a));
        sig.params.extend(types.map(ir::AbiParam::new));
        sig.returns.push(sig.params[0]);
        sig
    });
    let call = fx.b.ins().call(callee, args);
    fx.b.inst_results(call)[0]
}
