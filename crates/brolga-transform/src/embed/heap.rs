//! Heap: blocks that an embedded derivative has allocated are freed when its run is over.
//!
//! **Problem.** The shadow of a block outlives the block: the reverse half asks for it. So do
//! blocks that the primal frees and the reverse half still reads.
//! **Answer.** Helpers keep both in a list whose head is in the workspace
//! (`standalone/workspace.clif`), and the root frees them before each `return`. A pair has no
//! such end, since its pullback may be called again: it gets a third root, [`release`], which the
//! caller calls when the record is not needed any more. A forward pass that does not fit frees
//! them itself.
//! **Cost.** Thirty-two bytes for each block, and two calls of `free`. `realloc` looks for its
//! block in the list.

use brolga_analysis::query::returns;
use brolga_ir::program::symbol_of;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, Signature, types};
use cranelift_codegen::isa::TargetIsa;

use super::room;
use crate::standalone::derived_func::DerivedFunc;
use crate::standalone::prelude::of_workspace;

const FREE_ALL: &str = "brolga_free_all";
const RELEASE: &str = "brolga_release_record";

/// Let the root, which is the first function, free what its run has kept, if any function keeps
/// blocks: in a pair, where it has not fitted.
pub(super) fn free_at_end(derived: &mut Vec<DerivedFunc>, is_pair: bool, isa: &dyn TargetIsa) {
    let allocates = |p: &DerivedFunc| {
        let callees = p.func.dfg.ext_funcs.values().map(|f| symbol_of(&p.func, &f.name));
        callees.into_iter().any(|s| matches!(&s[..], "malloc" | "calloc"))
    };
    let Some(segment) = derived[0].segment.filter(|_| derived.iter().any(allocates)) else { return };
    let (of, func) = (derived[0].of, &mut derived[0].func);
    let entry = func.layout.entry_block().expect("it has a body");
    let workspace = func.dfg.block_params(entry)[segment];
    let mut sig = Signature::new(isa.default_call_conv());
    sig.params.push(AbiParam::new(types::I64));
    let signature = func.import_signature(sig);
    let name = ir::ExternalName::testcase(FREE_ALL);
    let free_all = func.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
    for inst in returns(func).collect::<Vec<_>>() {
        let mut cursor = FuncCursor::new(func).at_inst(inst);
        let which = if is_pair {
            let failed = room::status(&mut cursor, workspace);
            let none = cursor.ins().iconst(types::I64, 0);
            cursor.ins().select(failed, workspace, none)
        } else {
            workspace
        };
        cursor.ins().call(free_all, &[which]);
    }
    let func = of_workspace(FREE_ALL, isa);
    derived.push(DerivedFunc { symbol: FREE_ALL.to_owned(), func, of, segment: None });
}

/// What frees the blocks of a pair's record, if there are any.
pub(super) fn release(derived: &[DerivedFunc], isa: &dyn TargetIsa) -> Option<DerivedFunc> {
    let of = derived.iter().find(|p| p.symbol == FREE_ALL)?.of;
    Some(DerivedFunc { symbol: RELEASE.to_owned(), func: of_workspace(RELEASE, isa), of, segment: None })
}
