//! Results by pointer: results of derived functions that registers do not hold.
//!
//! **Problem.** A pullback returns a cotangent for each active argument. How many results a
//! function may return differs between targets; two floats and two integers are possible on all.
//! **Answer.** A derived function with more of them gets a parameter more, for the address of
//! memory of the caller's, and writes its results there:
//!
//! ```text
//! v1, v2, v3 = call g__pullback(ws, v0)          v4 = stack_addr ss0
//!                                        ─►      call g__pullback(ws, v0, v4)
//!                                                v1 = load v4; v2 = load v4+8; v3 = load v4+16
//! ```
//!
//! Calls by address are treated alike: what they call has the same signature.
//! **Cost.** A store and a load for each result.

use std::collections::BTreeSet;

use brolga_analysis::query::returns;
use brolga_analysis::variant::DERIVED_CONV;
use brolga_ir::program::symbol_of;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, InstructionData, MemFlagsData, Signature, Type, types};

use super::signature::{StructLayout, fits_registers};
use crate::standalone::derived_func::DerivedFunc;

/// Let the functions behind the first `n_roots` return through memory where they have to, and all
/// calls of them.
pub(super) fn through_memory(derived: &mut [DerivedFunc], n_roots: usize) {
    let symbols: BTreeSet<String> =
        derived[n_roots..].iter().filter(|p| !fits(&p.func.signature)).map(|p| p.symbol.clone()).collect();
    for p in derived.iter_mut() {
        calls(&mut p.func, &symbols);
    }
    for p in &mut derived[n_roots..] {
        if symbols.contains(&p.symbol) {
            results(&mut p.func);
        }
    }
}

fn types_of(signature: &Signature) -> Vec<Type> {
    signature.returns.iter().map(|r| r.value_type).collect()
}

fn fits(signature: &Signature) -> bool {
    fits_registers(&types_of(signature), DERIVED_CONV)
}

/// The signature with a parameter for the results.
fn with_memory(mut signature: Signature) -> Signature {
    signature.returns.clear();
    signature.params.push(AbiParam::new(types::I64));
    signature
}

/// Let a function write its results to memory.
fn results(func: &mut ir::Function) {
    let layout = StructLayout::of(types_of(&func.signature));
    func.signature = with_memory(func.signature.clone());
    let entry = func.layout.entry_block().expect("it has a body");
    let at = func.dfg.append_block_param(entry, types::I64);
    for inst in returns(func).collect::<Vec<_>>() {
        let values = func.dfg.inst_args(inst).to_vec();
        let loc = func.srcloc(inst);
        let mut cursor = FuncCursor::new(func).at_inst(inst).with_srcloc(loc);
        for (value, &offset) in values.into_iter().zip(&layout.offsets) {
            cursor.ins().store(MemFlagsData::new().with_notrap(), value, at, offset as i32);
        }
        cursor.ins().return_(&[]);
        func.layout.remove_inst(inst);
    }
}

/// Let calls of such functions read their results from memory.
fn calls(func: &mut ir::Function, symbols: &BTreeSet<String>) {
    let insts: Vec<ir::Inst> = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect();
    for inst in insts {
        let signature = match func.dfg.insts[inst] {
            InstructionData::Call { func_ref, .. } => {
                let callee = &func.dfg.ext_funcs[func_ref];
                let is_one = symbols.contains(&symbol_of(func, &callee.name));
                is_one.then_some((Some(func_ref), callee.signature))
            }
            // What has such a signature and is called by address is derived.
            InstructionData::CallIndirect { sig_ref, .. } => {
                let signature = &func.dfg.signatures[sig_ref];
                (signature.call_conv == DERIVED_CONV && !fits(signature)).then_some((None, sig_ref))
            }
            _ => None,
        };
        let Some((callee, sig)) = signature else { continue };
        read(func, inst, callee, sig);
    }
    addressed(func, symbols);
    forget_unused(func);
}

/// Let declarations of such functions whose addresses alone are taken have the new signature.
fn addressed(func: &mut ir::Function, symbols: &BTreeSet<String>) {
    for r in func.dfg.ext_funcs.keys().collect::<Vec<_>>() {
        let f = &func.dfg.ext_funcs[r];
        let signature = &func.dfg.signatures[f.signature];
        if !signature.returns.is_empty() && symbols.contains(&symbol_of(func, &f.name)) {
            let signature = with_memory(signature.clone());
            func.dfg.ext_funcs[r].signature = func.import_signature(signature);
        }
    }
}

/// Let signatures that no call has be ones that every target can compile: a back end lays out all
/// of them.
fn forget_unused(func: &mut ir::Function) {
    let mut used: BTreeSet<ir::SigRef> = func.dfg.ext_funcs.values().map(|f| f.signature).collect();
    let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    used.extend(insts.filter_map(|i| match func.dfg.insts[i] {
        InstructionData::CallIndirect { sig_ref, .. } => Some(sig_ref),
        _ => None,
    }));
    for (_, signature) in func.dfg.signatures.iter_mut().filter(|(s, _)| !used.contains(s)) {
        *signature = Signature::new(signature.call_conv);
    }
}

/// Let one call read its results from memory.
fn read(func: &mut ir::Function, inst: ir::Inst, callee: Option<ir::FuncRef>, sig: ir::SigRef) {
    let old = func.dfg.signatures[sig].clone();
    let (types, signature) = if old.returns.is_empty() {
        // It has been replaced with another call of the function.
        (func.dfg.inst_results(inst).iter().map(|&v| func.dfg.value_type(v)).collect(), sig)
    } else {
        (types_of(&old), func.import_signature(with_memory(old)))
    };
    if let Some(callee) = callee {
        func.dfg.ext_funcs[callee].signature = signature;
    }
    let layout = StructLayout::of(types.iter().copied());
    let slot = ir::StackSlotData::new(ir::StackSlotKind::ExplicitSlot, layout.size, 4);
    let slot = func.create_sized_stack_slot(slot);
    let results = func.dfg.inst_results(inst).to_vec();
    let loc = func.srcloc(inst);
    let mut cursor = FuncCursor::new(func).at_inst(inst).with_srcloc(loc);
    let at = cursor.ins().stack_addr(types::I64, slot, 0);
    let args: Vec<ir::Value> = cursor.func.dfg.inst_args(inst).iter().copied().chain([at]).collect();
    match callee {
        Some(callee) => cursor.ins().call(callee, &args),
        None => cursor.ins().call_indirect(signature, args[0], &args[1..]),
    };
    cursor.func.dfg.detach_inst_results(inst);
    for ((result, ty), &offset) in results.into_iter().zip(types).zip(&layout.offsets) {
        cursor.ins().with_result(result).load(ty, MemFlagsData::new().with_notrap(), at, offset as i32);
    }
    cursor.remove_inst();
}
