//! Indirect: which forward pass and which pullback belong to the function at an address.
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
//! **Cost.** As many comparisons as functions with the signature have their address taken.

use std::collections::BTreeMap;

use brolga_ir::inst::Check;
use brolga_ir::lower::half_of;
use brolga_ir::program::{functions_used, symbol_of};
use brolga_ir::{Diagnostics, Program};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, TrapCode, types};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use crate::derived::Addressable;

/// Define the functions that the derived functions of a program ask, as [`half_of`] names them.
pub(crate) fn tables(into: &mut Program, captures: &[Addressable], isa: &dyn TargetIsa) -> Result<(), Diagnostics> {
    let mut by_signature: BTreeMap<u64, Vec<&Addressable>> = BTreeMap::new();
    for c in captures {
        by_signature.entry(c.signature).or_default().push(c);
    }
    for (signature, those) in by_signature {
        for forward in [true, false] {
            let symbol = half_of(signature, forward, into.nested);
            let half = |c: &Addressable| if forward { c.forward.clone() } else { c.pullback.clone() };
            let pairs: Vec<_> = those.iter().map(|c| (c.symbol.clone(), half(c))).collect();
            let func = table(into, &symbol, &pairs, isa);
            into.define(&symbol, func, |_| 0).map_err(|s| super::taken(&s))?;
        }
    }
    Ok(())
}

/// Define those that the derived functions ask and that no function may answer: its address is not
/// taken, or it has no derivative. To them each address is unknown.
pub(crate) fn unanswered<'f>(
    into: &mut Program,
    funcs: impl Iterator<Item = &'f ir::Function>,
    isa: &dyn TargetIsa,
) -> Result<(), Diagnostics> {
    for func in funcs {
        for r in functions_used(func).iter() {
            let symbol = symbol_of(func, &func.dfg.ext_funcs[r].name);
            let is_half = ["brolga_forward_of_", "brolga_pullback_of_"].iter().any(|s| symbol.starts_with(s));
            if is_half && into.func(&symbol).is_none_or(|k| into.funcs[k].body.is_none()) {
                let none = table(into, &symbol, &[], isa);
                into.define(&symbol, none, |_| 0).map_err(|s| super::taken(&s))?;
            }
        }
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
