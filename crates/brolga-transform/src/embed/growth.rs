//! Growth: a workspace that the caller makes longer while a derivative runs.
//!
//! **Problem.** Where records have no bound, a run that does not fit into its workspace ends, and
//! has to begin again. A caller with room behind the workspace would rather give more of it.
//! **Answer.** What asks for room on the tape asks a function first, [`NAME`], which has the
//! caller's function called and moves the limit in the header:
//!
//! ```text
//!     trapnz v9, tape_full                   brif v9, more, next
//!     …                             ─►   more: brif brolga_grow(workspace, end), next, full
//!                                        next: …
//! ```
//!
//! The tape is one piece of memory, from which records are read by distances, so it stays where it
//! is. The end that is wanted is told by the comparison that has found too little ([`wanted`]).
//! Where it is found otherwise (bytes that a copy overwrites), the run ends as without growth.
//!
//! **Cost.** Nothing where records fit.

use brolga_ir::lower::segment;
use cranelift_codegen::cursor::FuncCursor;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, InstructionData, MemFlagsData, Opcode, Signature, types};
use cranelift_codegen::isa::TargetIsa;

use crate::standalone::derived_func::DerivedFunc;
use crate::standalone::prelude;

/// The function that asks the caller.
const NAME: &str = "brolga_grow";

/// That function, of a derivative of `of`.
pub(super) fn function(of: brolga_ir::FuncKey, isa: &dyn TargetIsa) -> DerivedFunc {
    DerivedFunc { symbol: NAME.to_owned(), func: prelude::of_workspace(NAME, isa), of, segment: None }
}

/// What the header of a workspace knows where a run begins: where the caller's memory begins, the
/// caller's function, and its context.
pub(super) fn begin(cursor: &mut FuncCursor<'_>, workspace: ir::Value, values: [ir::Value; 3]) {
    let flags = MemFlagsData::new().with_notrap();
    for (at, value) in [segment::BEGIN, segment::GROW, segment::GROW_CONTEXT].into_iter().zip(values) {
        cursor.ins().store(flags, value, workspace, at);
    }
}

/// Where the tape has to end, and where it ends, by the comparison that has found that it ends too
/// soon: of a position with the end, of a distance with what is left, or of a number of iterations
/// with those for which there is room.
pub(super) fn wanted(cursor: &mut FuncCursor<'_>, over: ir::Value) -> Option<(ir::Value, ir::Value)> {
    let def = |func: &ir::Function, v| Some(func.dfg.insts[func.dfg.value_def(func.dfg.resolve_aliases(v)).inst()?]);
    let compared = def(cursor.func, over)?;
    let InstructionData::IntCompare { cond: IntCC::UnsignedGreaterThan, args: [wanted, there], .. } = compared else {
        return None;
    };
    match def(cursor.func, there)? {
        InstructionData::Load { .. } => Some((wanted, there)),
        InstructionData::Binary { opcode: Opcode::Isub, args: [end, top] } => {
            Some((behind(cursor, top, wanted, None), end))
        }
        InstructionData::Binary { opcode: Opcode::Ushr, args: [left, k] } => match def(cursor.func, left)? {
            InstructionData::Binary { opcode: Opcode::Isub, args: [end, top] } => {
                Some((behind(cursor, top, wanted, Some(k)), end))
            }
            _ => None,
        },
        _ => None,
    }
}

/// So many bytes, or times a power of two, behind a place. More than there is memory is less than
/// what would begin again at zero.
fn behind(cursor: &mut FuncCursor<'_>, top: ir::Value, n: ir::Value, k: Option<ir::Value>) -> ir::Value {
    let most = cursor.ins().iconst(types::I64, 1 << 40);
    let n = cursor.ins().umin(n, most);
    let bytes = k.map_or(n, |k| cursor.ins().ishl(n, k));
    cursor.ins().iadd(top, bytes)
}

/// Whether the workspace reaches as far as this, after the caller has been asked.
pub(super) fn asked(
    cursor: &mut FuncCursor<'_>,
    workspace: ir::Value,
    end: ir::Value,
    isa: &dyn TargetIsa,
) -> ir::Value {
    let mut sig = Signature::new(isa.default_call_conv());
    sig.params.extend([AbiParam::new(types::I64); 2]);
    sig.returns.push(AbiParam::new(types::I64));
    let signature = cursor.func.import_signature(sig);
    let name = ir::ExternalName::testcase(NAME);
    let grow = cursor.func.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
    let call = cursor.ins().call(grow, &[workspace, end]);
    cursor.func.dfg.first_result(call)
}
