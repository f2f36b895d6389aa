//! ABI values: arguments and results as entry points take and leave them, in memory of one size
//! each.
//!
//! **Question.** Entry points have one signature, and functions have many. How are values passed?
//!
//! **Answer.** In an array of [`AbiValue`]s of 16 bytes, which hold any value of CLIF, aligned for
//! vectors. [`with_abi_values`] lends one, [`write()`] and [`read`] put values in and take them
//! out, and [`enter`] calls an entry point under the guard that turns traps into errors.
//!
//! **Errors.** [`Error::Usage`] for arguments of another number or type ([`check_args`]),
//! [`Error::Trap`] for what traps.
//!
//! **Safety.** An entry point is trusted with the pointers among its arguments.
//!
//! **Cost.** ABI values of finished calls are kept by their thread, so that a call in the steady
//! state allocates nothing. They are filled with zeros.

use std::cell::RefCell;

use brolga_ir::Program;
use brolga_runtime::call_guarded;
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{Signature, Type};

use super::traps::{CodeMap, Phase};
use crate::Error;

/// An argument or result in memory: large enough for any CLIF value, aligned for vectors.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub(super) struct AbiValue(pub(super) [u8; 16]);

thread_local! {
    /// ABI values of finished calls, so that a call in the steady state allocates nothing.
    static SPARE: RefCell<Vec<Vec<AbiValue>>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn with_abi_values<R>(n: usize, f: impl FnOnce(&mut [AbiValue]) -> R) -> R {
    let mut abi_values = SPARE.with(|c| c.borrow_mut().pop()).unwrap_or_default();
    abi_values.clear();
    abi_values.resize(n, AbiValue([0; 16]));
    let r = f(&mut abi_values);
    SPARE.with(|c| c.borrow_mut().push(abi_values));
    r
}

pub(super) fn write(abi_value: &mut AbiValue, v: &DataValue) {
    let n = v.ty().bytes() as usize;
    v.write_to_slice_ne(&mut abi_value.0[..n]);
}

pub(super) fn read(abi_value: &AbiValue, ty: Type) -> DataValue {
    DataValue::read_from_slice_ne(&abi_value.0[..ty.bytes() as usize], ty)
}

/// Whether a value may be passed for a type. Vectors of values know their size only.
pub(super) fn fits(v: &DataValue, ty: Type) -> bool {
    v.ty() == ty || v.ty().is_vector() && ty.is_vector() && v.ty().bytes() == ty.bytes()
}

pub(super) fn check_args<'a>(
    signature: &Signature,
    args: impl ExactSizeIterator<Item = &'a DataValue>,
) -> Result<(), Error> {
    let params = &signature.params;
    if args.len() != params.len() {
        return Err(Error::Usage(format!("{} arguments are given, {} are wanted", args.len(), params.len())));
    }
    for (i, (a, p)) in args.zip(params).enumerate() {
        if !fits(a, p.value_type) {
            return Err(Error::Usage(format!("argument {i} has type {}, {} is wanted", a.ty(), p.value_type)));
        }
    }
    Ok(())
}

/// Call an entry point; everything is passed and returned in ABI values.
///
/// # Safety
/// `entry` is an entry point in `code`, and the pointers among its arguments are valid for what it
/// does with them.
pub(super) unsafe fn enter(
    code: &CodeMap,
    program: &Program,
    phase: Phase,
    entry: usize,
    abi_values: &mut [AbiValue],
) -> Result<(), Error> {
    // SAFETY: an entry point takes a pointer to as many ABI values as it has arguments or results;
    // the caller vouches for the pointers in them. Ranges hold generated code only.
    unsafe {
        let f: brolga_runtime::Entry = std::mem::transmute(entry);
        call_guarded(f, abi_values.as_mut_ptr().cast(), &code.ranges)
    }
    .map_err(|raw| Error::Trap(Box::new(code.explain(program, &raw, phase))))
}

/// Whether a cotangent is a NaN.
pub(super) fn any_nan(cotangents: &[Option<DataValue>]) -> bool {
    cotangents.iter().flatten().any(|ct| match ct {
        DataValue::F64(x) => x.is_nan(),
        DataValue::F32(x) => x.is_nan(),
        _ => false,
    })
}
