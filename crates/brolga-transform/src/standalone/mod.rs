//! Standalone derivatives: what derived functions need that run without the run time.
//!
//! **Question.** A derived function asks the run time for shadows, for halves of functions behind
//! pointers, and for cotangents in pieces. What takes its place where there is none?
//!
//! **Answer.** Helpers of the run time are bodies in CLIF there ([`prelude`]), or functions
//! ([`pieces`]), and functions say of a function pointer what its forward pass and its pullback
//! are ([`indirect`]); memory for typed tapes is in [`typed_tape`]. Derivatives that are derived
//! again ([`crate::nested`]) and those that become part of another module ([`mod@crate::embed`])
//! are such functions.
//!
//! **Errors.** Two functions of one name (AD0004).
//!
//! **Cost.** Names are looked up once for each function. In a run, what each helper costs.

pub(crate) mod derived_func;
pub mod indirect;
pub(crate) mod pieces;
pub mod prelude;
pub(crate) mod typed_tape;

use brolga_ir::names::Names;
use brolga_ir::program::symbol_of;
use brolga_ir::{Diagnostic, Diagnostics};
use cranelift_codegen::ir;

/// A derived function that calls others by their symbols: its own text spells them as CLIF can.
pub(crate) fn as_written(mut func: ir::Function, names: &Names) -> ir::Function {
    for callee in func.dfg.ext_funcs.keys().collect::<Vec<_>>() {
        let spelled = symbol_of(&func, &func.dfg.ext_funcs[callee].name);
        if let Some(symbol) = names.symbol(&spelled).filter(|s| *s != spelled) {
            func.dfg.ext_funcs[callee].name = ir::ExternalName::testcase(symbol);
        }
    }
    for gv in func.global_values.keys().collect::<Vec<_>>() {
        let ir::GlobalValueData::Symbol { name, .. } = &func.global_values[gv] else { continue };
        let spelled = symbol_of(&func, name);
        if let Some(symbol) = names.symbol(&spelled).filter(|s| *s != spelled)
            && let ir::GlobalValueData::Symbol { name, .. } = &mut func.global_values[gv]
        {
            *name = ir::ExternalName::testcase(symbol);
        }
    }
    func
}

/// Two functions of a program would have one name.
pub(crate) fn taken(symbol: &str) -> Diagnostics {
    Diagnostic::new("AD0004", format!("`%{symbol}` is the name of a derived function")).into()
}
