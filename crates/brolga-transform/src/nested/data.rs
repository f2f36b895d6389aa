//! Shadows of writable data objects, as data objects of a program.
//!
//! **Problem.** A derivative finds the shadow of a data object in a table of the run time.
//! **Answer.** In a program with a derivative the shadow is an object beside it, of the same size,
//! which the derivative clears when it is called: it begins with no cotangent there, and no
//! tangent, as a rule does.
//! Where the embedder has named the shadows, they are objects of its module, which it clears
//! ([`given`]).
//! **Cost.** A `memset` for each writable object that the derivative reaches.

use std::collections::BTreeSet;

use brolga_ir::lower::shadow_of_data;
use brolga_ir::program::symbol_of;
use brolga_ir::{DataObject, Diagnostics, Program};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, types};
use cranelift_codegen::isa::TargetIsa;

/// Define the shadows that these functions name: their symbols and sizes.
pub(super) fn shadows<'a>(
    into: &mut Program,
    funcs: impl Iterator<Item = &'a ir::Function>,
) -> Result<Vec<(String, usize)>, Diagnostics> {
    let mut named: BTreeSet<String> = BTreeSet::new();
    for func in funcs {
        named.extend(func.global_values.values().filter_map(|data| match data {
            ir::GlobalValueData::Symbol { name, .. } => Some(symbol_of(func, name)),
            _ => None,
        }));
    }
    let of: Vec<DataObject> = into.data.values().filter(|d| d.writable).cloned().collect();
    let mut found = Vec::new();
    for object in of {
        let symbol = shadow_of_data(&object.symbol, into.nested);
        if named.contains(&symbol) {
            found.push((symbol.clone(), object.bytes.len()));
            let shadow = DataObject { symbol, bytes: vec![0; object.bytes.len()], ..object };
            into.define_data(shadow).map_err(|s| crate::standalone::taken(&s))?;
        }
    }
    Ok(found)
}

/// Let a function name the shadows that the embedder has given: objects, and what theirs are.
pub(super) fn given(func: &mut ir::Function, shadows: &[(String, String)], nested: u32) {
    for gv in func.global_values.keys().collect::<Vec<_>>() {
        let ir::GlobalValueData::Symbol { name, .. } = &func.global_values[gv] else { continue };
        let symbol = symbol_of(func, name);
        let found = shadows.iter().find(|(of, _)| shadow_of_data(of, nested) == symbol);
        if let Some((_, shadow)) = found
            && let ir::GlobalValueData::Symbol { name, .. } = &mut func.global_values[gv]
        {
            *name = ir::ExternalName::testcase(shadow.as_str());
        }
    }
}

/// Clear them where a function begins.
pub(super) fn clear(func: &mut ir::Function, shadows: &[(String, usize)], isa: &dyn TargetIsa) {
    if shadows.is_empty() {
        return;
    }
    let mut sig = ir::Signature::new(isa.default_call_conv());
    sig.params.extend([types::I64, types::I32, types::I64].map(ir::AbiParam::new));
    sig.returns.push(ir::AbiParam::new(types::I64));
    let signature = func.import_signature(sig);
    let name = ir::ExternalName::testcase("memset");
    let memset = func.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
    let entry = func.layout.entry_block().expect("it has a body");
    let first = func.layout.first_inst(entry).expect("a block has a terminator");
    for (symbol, size) in shadows {
        let name = ir::ExternalName::testcase(symbol);
        let data = ir::GlobalValueData::Symbol { name, offset: 0.into(), colocated: false, tls: false };
        let data = func.create_global_value(data);
        let mut cursor = FuncCursor::new(func).at_inst(first);
        let at = cursor.ins().symbol_value(types::I64, data);
        let zero = cursor.ins().iconst(types::I32, 0);
        let size = cursor.ins().iconst(types::I64, *size as i64);
        cursor.ins().call(memset, &[at, zero, size]);
    }
}
