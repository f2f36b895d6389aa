//! Indirect calls without a run time: which forward pass and which pullback belong to the function
//! at an address.
//!
//! **Problem.** A derivative looks for them in a table of the run time, which means nothing to a
//! second derivation.
//! **Answer.** For each signature two functions of the program compare the address with those of
//! the functions that may be meant:
//!
//! ```text
//!   forward_of(p)  =  p = &f ? &f__forward : p = &g ? &g__forward : trap
//! ```
//!
//! A signature of no such function has functions that trap: each address is of code outside of the
//! program.
//!
//! **Cost.** As many comparisons as functions with the signature have their address taken.

use std::collections::BTreeMap;

use brolga_ir::inst::Check;
use brolga_ir::lower::{half_of, is_half};
use brolga_ir::program::{functions_used, symbol_of};
use brolga_ir::{Diagnostics, Program};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, TrapCode, types};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use crate::derived::AddressableFunction;

/// Define the functions that derived functions ask, as [`half_of`] names them.
pub(crate) fn tables<'f>(
    into: &mut Program,
    captures: &[AddressableFunction],
    derived: impl IntoIterator<Item = &'f ir::Function>,
    isa: &dyn TargetIsa,
) -> Result<(), Diagnostics> {
    let mut by_signature: BTreeMap<u64, Vec<&AddressableFunction>> = BTreeMap::new();
    for c in captures {
        by_signature.entry(c.signature).or_default().push(c);
    }
    let mut all: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (signature, those) in by_signature {
        for forward in [true, false] {
            let half = |c: &AddressableFunction| if forward { c.forward.clone() } else { c.pullback.clone() };
            let pairs = those.iter().map(|c| (c.symbol.clone(), half(c))).collect();
            all.insert(half_of(signature, forward, into.nested), pairs);
        }
    }
    for func in derived {
        let asked = functions_used(func);
        let asked = asked.iter().map(|r| symbol_of(func, &func.dfg.ext_funcs[r].name));
        // Those of an earlier derivation are there.
        for symbol in asked.filter(|s| is_half(s) && into.func(s).is_none()) {
            all.entry(symbol).or_default();
        }
    }
    for (symbol, pairs) in all {
        let func = table(into, &symbol, &pairs, isa);
        into.define(&symbol, func, |_| 0).map_err(|s| super::taken(&s))?;
    }
    Ok(())
}

fn table(program: &Program, symbol: &str, pairs: &[(String, String)], isa: &dyn TargetIsa) -> ir::Function {
    let mut sig = ir::Signature::new(isa.default_call_conv());
    sig.params.push(ir::AbiParam::new(types::I64));
    sig.returns.push(ir::AbiParam::new(types::I64));
    let mut func = ir::Function::with_name_signature(ir::UserFuncName::testcase(symbol), sig);
    let mut cx = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut func, &mut cx);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let address = b.block_params(block)[0];
    let mut found = b.ins().iconst(types::I64, 0);
    for (primal, half) in pairs {
        let [primal, half] = [primal, half].map(|symbol| address_of(&mut b, program, symbol));
        let same = b.ins().icmp(IntCC::Equal, address, primal);
        found = b.ins().select(same, half, found);
    }
    b.ins().trapz(found, TrapCode::unwrap_user(Check::UnknownCallee as u8));
    b.ins().return_(&[found]);
    b.finalize(isa.frontend_config());
    func
}

fn address_of(b: &mut FunctionBuilder<'_>, program: &Program, symbol: &str) -> ir::Value {
    let known = program.func(symbol).map(|k| program.funcs[k].signature.clone());
    let signature = b.import_signature(known.unwrap_or_else(|| ir::Signature::new(b.func.signature.call_conv)));
    let name = ir::ExternalName::testcase(symbol);
    let f = b.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
    b.ins().func_addr(types::I64, f)
}
