//! Prelude: helpers of the run time as CLIF.
//!
//! **Problem.** A derived function calls helpers of the run time, which have no body to derive and
//! no rule.
//! **Answer.** Where a derivative is put into a program, the calls are replaced by bodies written
//! in CLIF (`prelude.clif`), which call nothing but functions that have rules. Helpers that treat
//! pieces of floats have none there, and neither has `realloc`, for which CLIF does not know the
//! size of the old block: those calls stay, and the second derivation refuses them.
//! **Cost.** The instructions of a helper at each of its calls.

use std::borrow::Cow;
use std::sync::LazyLock;

use brolga_analysis::query::constant_int;
use brolga_ir::map::HashMap;
use brolga_ir::program::symbol_of;
use cranelift_codegen::Context;
use cranelift_codegen::inline::{Inline, InlineCommand};
use cranelift_codegen::ir::{self, Opcode};
use cranelift_codegen::isa::TargetIsa;

/// The helpers as text.
pub const PRELUDE: &str = include_str!("prelude.clif");

static BODIES: LazyLock<HashMap<String, ir::Function>> = LazyLock::new(|| {
    let all = cranelift_reader::parse_functions(PRELUDE).expect("the prelude is CLIF");
    let symbol = |f: &ir::Function| f.name.to_string().trim_start_matches('%').to_owned();
    all.into_iter().map(|f| (symbol(&f), f)).collect()
});

/// A function with bodies in place of the calls of helpers. The locations of a body are those of
/// the call.
pub(crate) fn expanded(func: ir::Function, isa: &dyn TargetIsa) -> ir::Function {
    let any = func.dfg.ext_funcs.values().any(|f| symbol_of(&func, &f.name).starts_with("brolga_"));
    if !any {
        return func;
    }
    let n = func.dfg.num_insts();
    let mut cx = Context::for_function(func);
    // Where it fails the calls stay, and are refused.
    if !cx.inline(Bodies).unwrap_or(false) {
        return cx.func;
    }
    cx.compute_cfg();
    cx.compute_domtree();
    cx.eliminate_unreachable_code(isa).expect("it was valid");
    let mut func = cx.func;
    locate(&mut func, n);
    func.dfg.resolve_all_aliases();
    func
}

/// Instructions from `first` on have been put in: they get the location of what was before them, in
/// place of tags.
fn locate(func: &mut ir::Function, first: usize) {
    let mut before = ir::SourceLoc::default();
    for block in func.layout.blocks().collect::<Vec<_>>() {
        for inst in func.layout.block_insts(block).collect::<Vec<_>>() {
            func.debug_tags.set(inst, []);
            if (inst.as_u32() as usize) < first {
                before = func.srcloc(inst);
            } else {
                func.set_srcloc(inst, before);
            }
        }
    }
}

struct Bodies;

impl Inline for Bodies {
    fn inline(
        &mut self,
        caller: &ir::Function,
        _: ir::Inst,
        _: Opcode,
        callee: ir::FuncRef,
        args: &[ir::Value],
    ) -> InlineCommand<'_> {
        let declared = &caller.dfg.ext_funcs[callee];
        let symbol = symbol_of(caller, &declared.name);
        let symbol = match &*symbol {
            "brolga_memmove_rev" => match constant_int(caller, args[5]) {
                Some(8) => "brolga_memmove_rev_doubles",
                Some(4) => "brolga_memmove_rev_singles",
                _ => return InlineCommand::KeepCall,
            },
            "brolga_free" => match constant_int(caller, args[2]) {
                Some(0) => "brolga_free_now",
                _ => "brolga_free_later",
            },
            other => other,
        };
        let signature = &caller.dfg.signatures[declared.signature];
        let types = |s: &ir::Signature| -> Vec<_> { s.params.iter().chain(&s.returns).map(|p| p.value_type).collect() };
        match BODIES.get(symbol).filter(|body| types(&body.signature) == types(signature)) {
            Some(body) => {
                let mut body = body.clone();
                body.signature.call_conv = signature.call_conv;
                body.dfg.signatures.values_mut().for_each(|s| s.call_conv = signature.call_conv);
                InlineCommand::Inline { callee: Cow::Owned(body), visit_callee: false }
            }
            None => InlineCommand::KeepCall,
        }
    }
}
