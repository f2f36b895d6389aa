//! Calling convention of lowered functions: what they are called, and how.
//!
//! **Question.** A reversible function is lowered in several forms, some for callers and some for
//! each other. Which symbols have they, and what are they given?
//!
//! **Answer.**
//!
//! | symbol | what |
//! |---|---|
//! | `%f` | for callers: parameters as they are written; a pair that is undone with cotangents |
//! | `%f__inverse` | the same of the inverse |
//! | `%f__do`, `%f__undo` | the pair: states, then what is read |
//! | `%f__adjoint`, `%f__inverse__adjoint` | what undoes each with cotangents: shadows after |
//! | `%f__steps`, `%f__back`, and so on | the statements |
//! | `%f__fails` | traps as a check of the function's statements does that has this number |
//!
//! Where a check fails, the statements return its number, and the pair puts the states back and
//! traps.
//!
//! All parameters are words of 64 bits: addresses of places, and integers that are read. Statements
//! take these by their complements. A parameter of 64 bits may be an address, as far as an analysis
//! sees, and so may a sum with one, and what lies where such a sum is stored; a complement is none.
//! Accesses of integers in memory say that they are no bits of floats ([`flags_of`]).
//!
//! **Cost.** A complement for each integer that is passed, and one where it is taken.

use cranelift_codegen::ir::{self, AbiParam, InstBuilder, MemFlagsData, Signature, Type as Clif, Value, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;

use crate::ast::{FnParam, Function, Type};

/// A form of a function: forwards or backwards, and whether with cotangents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// Whether the statements that run are those of the inverse.
    pub back: bool,
    /// Whether cotangents are carried: then it is the adjoint of the opposite direction.
    pub cotangents: bool,
}

impl Form {
    pub(super) const ALL: [Self; 4] = [
        Self { back: false, cotangents: false },
        Self { back: true, cotangents: false },
        Self { back: true, cotangents: true },
        Self { back: false, cotangents: true },
    ];

    /// The statements.
    pub(super) fn symbol(self, f: &str) -> String {
        let which = match (self.back, self.cotangents) {
            (false, false) => "steps",
            (true, false) => "back",
            (true, true) => "steps__adjoint",
            (false, true) => "back__adjoint",
        };
        format!("{f}__{which}")
    }

    /// What the user calls it.
    pub(super) fn called(self, f: &str) -> String {
        // An adjoint is of the opposite direction.
        if self.back == self.cotangents { f.to_owned() } else { format!("the inverse of {f}") }
    }

    /// What puts states back where a check fails.
    pub(super) fn guarded(self, f: &str) -> String {
        let which = match (self.back, self.cotangents) {
            (false, false) => "do",
            (true, false) => "undo",
            (true, true) => "adjoint",
            (false, true) => "inverse__adjoint",
        };
        format!("{f}__{which}")
    }
}

/// Whether a parameter is an integer that is read, which is passed as it is.
pub(super) fn is_word(p: &FnParam) -> bool {
    p.input && matches!(p.ty, Type::I64 | Type::I32)
}

/// An integer as a word.
pub(super) fn widened(b: &mut FunctionBuilder<'_>, v: Value) -> Value {
    if b.func.dfg.value_type(v) == types::I64 { v } else { b.ins().sextend(types::I64, v) }
}

/// A word as an integer of this type.
pub(super) fn narrowed(b: &mut FunctionBuilder<'_>, v: Value, ty: &Type) -> Value {
    if *ty == Type::I32 { b.ins().ireduce(types::I32, v) } else { v }
}

/// An integer, as statements take it and return it.
pub(super) fn passed(b: &mut FunctionBuilder<'_>, v: Value) -> Value {
    let v = widened(b, v);
    b.ins().bnot(v)
}

/// The integer that is passed so.
pub(super) fn taken(b: &mut FunctionBuilder<'_>, v: Value, ty: &Type) -> Value {
    let v = b.ins().bnot(v);
    narrowed(b, v, ty)
}

/// Parameters in the order in which they are passed: first what is changed.
pub(super) fn order(f: &Function) -> Vec<usize> {
    let (states, others): (Vec<_>, Vec<_>) = (0..f.params.len()).partition(|&i| !f.params[i].input);
    states.into_iter().chain(others).collect()
}

/// Flags of accesses to numbers of a place. Integers are told from bits of floats by them, as far
/// as an analysis sees.
pub(super) fn flags_of(b: &mut FunctionBuilder<'_>, ty: Clif) -> MemFlagsData {
    if ty.is_int() { brolga_ir::lower::integer_flags(b.func) } else { MemFlagsData::new() }
}

/// A signature.
pub(super) fn signature(params: &[Clif], returns: &[Clif]) -> Signature {
    let mut sig = Signature::new(CallConv::triple_default(&host()));
    sig.params.extend(params.iter().map(|&ty| AbiParam::new(ty)));
    sig.returns.extend(returns.iter().map(|&ty| AbiParam::new(ty)));
    sig
}

fn host() -> target_lexicon::Triple {
    target_lexicon::Triple::host()
}

/// Declare a function that is called, once.
pub(super) fn import(b: &mut FunctionBuilder<'_>, symbol: &str, params: &[Clif], returns: &[Clif]) -> ir::FuncRef {
    let name = ir::ExternalName::testcase(symbol);
    let known = b.func.dfg.ext_funcs.iter().find(|(_, e)| e.name == name).map(|(r, _)| r);
    known.unwrap_or_else(|| {
        let signature = b.import_signature(signature(params, returns));
        b.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false })
    })
}

/// A call of a function by its symbol.
pub(super) fn call_symbol(
    b: &mut FunctionBuilder<'_>,
    symbol: &str,
    params: &[Clif],
    returns: &[Clif],
    args: &[Value],
) -> Vec<Value> {
    let callee = import(b, symbol, params, returns);
    let call = b.ins().call(callee, args);
    b.inst_results(call).to_vec()
}

/// The address of new memory on the stack.
pub(super) fn slot(b: &mut FunctionBuilder<'_>, bytes: u32) -> Value {
    let data = ir::StackSlotData::new(ir::StackSlotKind::ExplicitSlot, bytes.max(8), 3);
    let slot = b.create_sized_stack_slot(data);
    b.ins().stack_addr(types::I64, slot, 0)
}

/// Set bytes to zero.
pub(super) fn clear(b: &mut FunctionBuilder<'_>, at: Value, bytes: Value) {
    let nothing = b.ins().iconst(types::I32, 0);
    call_symbol(b, "memset", &[types::I64, types::I32, types::I64], &[types::I64], &[at, nothing, bytes]);
}

/// New memory of the heap.
pub(super) fn allocate(b: &mut FunctionBuilder<'_>, bytes: Value) -> Value {
    call_symbol(b, "malloc", &[types::I64], &[types::I64], &[bytes])[0]
}

/// Give memory of the heap back.
pub(super) fn release(b: &mut FunctionBuilder<'_>, at: Value) {
    call_symbol(b, "free", &[types::I64], &[], &[at]);
}
