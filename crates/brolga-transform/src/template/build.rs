//! Building blocks of templates: an entry block, calls by symbol, and parts of a state.
//!
//! **Question.** The functions of all templates begin, call, and hand states to the run time in the
//! same way. How?
//!
//! **Answer.** [`begin`] and [`empty`] make functions, [`call_of`] and [`helper`] calls. [`bounds`]
//! computes where a part of a state lies and how long it is, and [`words_at`] puts such words on
//! the stack, where the run time reads them. [`trap_if`] is a check that is no instruction of the
//! program's.
//!
//! **Cost.** In a run, a store for each word that is handed on, and some arithmetic for each part
//! of a state.

use brolga_ir::driver::{StateLength, StatePart};
use brolga_ir::inst::Check;
use brolga_ir::lower::CHECK_SRCLOC;
use brolga_ir::names::Names;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, Signature, TrapCode, UserFuncName, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use crate::facts::Context;

/// A function of a template, and its parameters.
pub(super) fn begin<'b>(
    func: &'b mut ir::Function,
    cx: &'b mut FunctionBuilderContext,
) -> (FunctionBuilder<'b>, Vec<ir::Value>) {
    func.params.ensure_base_srcloc(ir::SourceLoc::new(0));
    let mut b = FunctionBuilder::new(func, cx);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let params = b.block_params(block).to_vec();
    (b, params)
}

/// A function without a body.
pub(super) fn empty(names: &mut Names, symbol: &str, signature: Signature) -> ir::Function {
    ir::Function::with_name_signature(UserFuncName::testcase(names.spell(symbol)), signature)
}

/// A call of a function by its symbol.
pub(super) fn call_of(
    b: &mut FunctionBuilder<'_>,
    names: &mut Names,
    symbol: &str,
    signature: Signature,
    args: &[ir::Value],
) -> Vec<ir::Value> {
    let signature = b.import_signature(signature);
    let name = ir::ExternalName::testcase(names.spell(symbol));
    let callee = b.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
    let call = b.ins().call(callee, args);
    b.inst_results(call).to_vec()
}

/// A call of a helper, which returns one word.
pub(super) fn helper(
    cx: Context<'_>,
    b: &mut FunctionBuilder<'_>,
    names: &mut Names,
    symbol: &str,
    args: &[ir::Value; 3],
) -> ir::Value {
    let mut sig = Signature::new(cx.isa.default_call_conv());
    sig.params.extend([types::I64; 3].map(AbiParam::new));
    sig.returns.push(AbiParam::new(types::I64));
    call_of(b, names, symbol, sig, args)[0]
}

/// The address of words that are put on the stack; shorter numbers have no sign.
pub(super) fn words_at(b: &mut FunctionBuilder<'_>, words: &[ir::Value]) -> ir::Value {
    let size = 8 * words.len() as u32;
    let slot = b.create_sized_stack_slot(ir::StackSlotData::new(ir::StackSlotKind::ExplicitSlot, size, 3));
    for (i, &v) in words.iter().enumerate() {
        let v = if b.func.dfg.value_type(v) == types::I64 { v } else { b.ins().uextend(types::I64, v) };
        b.ins().stack_store(types::I64, v, slot, 8 * i as i32);
    }
    b.ins().stack_addr(types::I64, slot, 0)
}

/// Address and length of a part of the state.
pub(super) fn bounds(b: &mut FunctionBuilder<'_>, part: &StatePart, given: &[ir::Value]) -> [ir::Value; 2] {
    let mut address = b.ins().iconst(types::I64, part.offset);
    for &p in &part.address {
        let p = if b.func.dfg.value_type(given[p]) == types::I64 {
            given[p]
        } else {
            b.ins().uextend(types::I64, given[p])
        };
        address = b.ins().iadd(address, p);
    }
    let length = match part.length {
        StateLength::Bytes(n) | StateLength::Pages(n) => b.ins().iconst(types::I64, i64::from(n)),
        StateLength::Object => b.ins().iconst(types::I64, 0),
        StateLength::PagesUpTo(at) => b.ins().iadd_imm_s(address, at),
        StateLength::Param(p) => signed(b, given[p]),
        StateLength::Elements { count, bytes } => {
            let count = signed(b, given[count]);
            let most = b.ins().iconst(types::I64, i64::MAX / i64::from(bytes.max(1)));
            let negative = b.ins().iconst(types::I64, -1);
            let count = b.ins().smin(count, most);
            let count = b.ins().smax(count, negative);
            b.ins().imul_imm_s(count, i64::from(bytes))
        }
    };
    [address, length]
}

/// A length of 64 bits.
fn signed(b: &mut FunctionBuilder<'_>, length: ir::Value) -> ir::Value {
    if b.func.dfg.value_type(length) == types::I64 { length } else { b.ins().sextend(types::I64, length) }
}

/// Trap with a check of ours, which is no instruction of the program's.
pub(super) fn trap_if(b: &mut FunctionBuilder<'_>, fault: ir::Value, check: Check) {
    b.set_srcloc(ir::SourceLoc::new(CHECK_SRCLOC));
    b.ins().trapnz(fault, TrapCode::unwrap_user(check as u8));
    b.set_srcloc(ir::SourceLoc::default());
}
