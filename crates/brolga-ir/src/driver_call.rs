//! Driver calls: calls that become calls of functions that are made for them.
//!
//! **Question.** A call stands for a driver. How does it become one of a function with an ordinary
//! body?
//!
//! **Answer.** What [`crate::intrinsics`] share, and loops that are made functions: a `DriverCall`
//! says what is called instead, with which arguments, and which functions are made; `redirect`
//! changes the call, puts a check of its range before it ([`crate::fork`]), and takes away
//! addresses that nothing else takes. Beside that, small functions are built here ([`begin`],
//! [`import`], [`calls`], [`zero`]).
//!
//! **Errors.** [`Misuse`]: why a call does not stand for a driver, and what to do.
//!
//! **Cost.** For each argument of a call that is changed, a walk over the function. In a run, a
//! comparison and a conditional trap for a range.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, Signature, types};

use crate::driver::Driver;
use crate::symbols::symbol_of;

/// Why a call does not stand for a driver: a sentence, and what to do.
pub type Misuse = (String, &'static str);

/// A call that becomes one of a function that is made for it.
pub(crate) struct DriverCall {
    /// The call.
    pub call: ir::Inst,
    /// Name of what it calls instead, with these arguments.
    pub symbol: String,
    pub signature: Signature,
    pub args: Vec<ir::Value>,
    /// All functions that are made.
    pub funcs: Vec<MadeFunc>,
    /// What is checked before it.
    pub check: Option<RangeCheck>,
}

/// A range that must not end before it begins: a call with another one traps.
pub(crate) struct RangeCheck {
    /// Where it begins; without that, at zero.
    pub from: Option<ir::Value>,
    pub to: ir::Value,
    /// The trap.
    pub code: u8,
}

/// Instructions that stand for others: each with the one whose location it has.
pub(crate) type StandIns = Vec<(ir::Inst, ir::Inst)>;

/// A function that is made: its name, its body, and whether it is a driver.
pub(crate) type MadeFunc = (String, ir::Function, Option<Driver>);

/// Let the call be one of that; what is to be defined.
pub(crate) fn redirect(
    body: &mut ir::Function,
    found: DriverCall,
    stand_ins: &mut StandIns,
) -> (String, Vec<MadeFunc>) {
    let DriverCall { call, symbol, signature, args, funcs, check } = found;
    if let Some(RangeCheck { from, to, code }) = check {
        let before = body.dfg.num_insts();
        let mut pos = FuncCursor::new(body).at_inst(call);
        let from = from.unwrap_or_else(|| pos.ins().iconst(types::I64, 0));
        let negative = pos.ins().icmp(IntCC::SignedLessThan, to, from);
        pos.ins().trapnz(negative, ir::TrapCode::unwrap_user(code));
        stand_ins.extend((before..body.dfg.num_insts()).map(|i| (ir::Inst::from_u32(i as u32), call)));
    }
    let before: Vec<ir::Value> = body.dfg.inst_args(call).iter().map(|&v| body.dfg.resolve_aliases(v)).collect();
    let func_ref = import(body, &symbol, signature);
    let args = ir::ValueList::from_slice(&args, &mut body.dfg.value_lists);
    let opcode = body.dfg.insts[call].opcode();
    body.dfg.insts[call] = ir::InstructionData::Call { opcode, args, func_ref };
    // Addresses that are taken for nothing else.
    let insts: Vec<ir::Inst> = body.layout.blocks().flat_map(|b| body.layout.block_insts(b)).collect();
    for address in before {
        let used = insts.iter().any(|&i| body.dfg.inst_values(i).any(|v| body.dfg.resolve_aliases(v) == address));
        let taken = body.dfg.value_def(address).inst();
        let taken = taken.filter(|&i| body.dfg.insts[i].opcode() == ir::Opcode::FuncAddr);
        if let (false, Some(inst)) = (used, taken.filter(|&i| body.layout.inst_block(i).is_some())) {
            body.layout.remove_inst(inst);
        }
    }
    (symbol, funcs)
}

/// The function whose address a value is, and how it is declared.
pub(crate) fn addressed(body: &ir::Function, v: ir::Value) -> Option<(String, Signature)> {
    let inst = body.dfg.value_def(body.dfg.resolve_aliases(v)).inst()?;
    let ir::InstructionData::FuncAddr { func_ref, .. } = body.dfg.insts[inst] else { return None };
    let ext = &body.dfg.ext_funcs[func_ref];
    Some((symbol_of(body, &ext.name), body.dfg.signatures[ext.signature].clone()))
}

/// A name for two functions. What is made for two others has another one.
pub(crate) fn joined(f: &str, g: &str) -> String {
    let both = format!("{f}__{g}");
    let is_clear = both.as_bytes().windows(2).filter(|w| w == b"__").count() == 1;
    if is_clear { both } else { format!("{}_{both}", f.len()) }
}

/// Whether all that is passed are words, and these are the results.
pub(crate) fn passes_words(sig: &Signature, returns: &[ir::Type]) -> bool {
    sig.params.iter().all(|p| p.value_type == types::I64)
        && sig.returns.iter().map(|r| r.value_type).eq(returns.iter().copied())
}

/// A signature of so many words and these results.
pub(crate) fn words(like: &Signature, n: usize, returns: &[ir::Type]) -> Signature {
    let mut sig = Signature::new(like.call_conv);
    sig.params.extend(vec![AbiParam::new(types::I64); n]);
    sig.returns.extend(returns.iter().map(|&ty| AbiParam::new(ty)));
    sig
}

/// A function with its first block.
pub fn begin(symbol: &str, sig: Signature) -> (ir::Function, ir::Block, Vec<ir::Value>) {
    let mut func = ir::Function::with_name_signature(ir::UserFuncName::testcase(symbol), sig);
    let block = func.dfg.make_block();
    func.layout.append_block(block);
    let types: Vec<ir::Type> = func.signature.params.iter().map(|p| p.value_type).collect();
    let params = types.into_iter().map(|ty| func.dfg.append_block_param(block, ty)).collect();
    (func, block, params)
}

/// Declare a function that another one calls.
pub fn import(func: &mut ir::Function, symbol: &str, sig: Signature) -> ir::FuncRef {
    let signature = func.import_signature(sig);
    let name = ir::ExternalName::testcase(symbol);
    func.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false })
}

/// A function that calls another one, hands on some of its parameters, and returns what that
/// returns.
pub fn calls(
    symbol: &str,
    caller_sig: &Signature,
    (callee, sig): &(String, Signature),
    handed: &[usize],
) -> ir::Function {
    let (mut func, block, params) = begin(symbol, caller_sig.clone());
    let callee = import(&mut func, callee, sig.clone());
    let args: Vec<ir::Value> = handed.iter().map(|&i| params[i]).collect();
    let mut pos = FuncCursor::new(&mut func).at_bottom(block);
    let call = pos.ins().call(callee, &args);
    let results = pos.func.dfg.inst_results(call).to_vec();
    pos.ins().return_(&results);
    func
}

/// All bits zero, in any type.
pub fn zero(pos: &mut FuncCursor<'_>, ty: ir::Type) -> ir::Value {
    let bits = |pos: &mut FuncCursor<'_>| pos.func.dfg.constants.insert(vec![0; ty.bytes() as usize].into());
    match ty {
        types::F16 => pos.ins().f16const(ir::immediates::Ieee16::with_bits(0)),
        types::F32 => pos.ins().f32const(0.0),
        types::F64 => pos.ins().f64const(0.0),
        types::F128 => {
            let bits = bits(pos);
            pos.ins().f128const(bits)
        }
        types::I128 => {
            let half = pos.ins().iconst(types::I64, 0);
            pos.ins().iconcat(half, half)
        }
        ty if ty.is_vector() => {
            let bits = bits(pos);
            pos.ins().vconst(ty, bits)
        }
        ty => pos.ins().iconst(ty, 0),
    }
}
