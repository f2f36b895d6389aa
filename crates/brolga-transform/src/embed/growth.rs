//! Growth: a workspace that the caller makes longer while a derivative runs.
//!
//! **Problem.** Where records have no bound, a run that does not fit into its workspace ends, and
//! has to begin again. A caller with room after the workspace would rather give more of it.
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
//! is. The end that is wanted is told by the comparison that has found too little ([`wanted`]). The
//! helper that saves bytes which a copy overwrites asks by itself. Records of pieces of floats have
//! the last quarter of the workspace: it moves as long as there are none, and grows when there are.
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
pub(super) const NAME: &str = "brolga_grow";

/// That function, of a derivative of `of`, which may have records of pieces.
pub(super) fn function(of: brolga_ir::FuncKey, records: bool, isa: &dyn TargetIsa) -> DerivedFunc {
    let body = if records { "brolga_grow_before_records" } else { NAME };
    DerivedFunc { symbol: NAME.to_owned(), func: prelude::of_workspace(body, isa), of, segment: None }
}

/// What the header of a workspace knows where a run begins: where the caller's memory begins, the
/// caller's function, and its context.
pub(super) fn begin(cursor: &mut FuncCursor<'_>, workspace: ir::Value, values: [ir::Value; 3]) {
    let flags = MemFlagsData::new().with_notrap();
    for (at, value) in [segment::BEGIN, segment::GROW, segment::GROW_CONTEXT].into_iter().zip(values) {
        cursor.ins().store(flags, value, workspace, at);
    }
}

/// What is compared with what is there, where the tape is said to end too soon.
enum CapacityTest {
    /// A position with the end.
    End { wanted: ir::Value, end: ir::Value },
    /// A distance from `top` with what is left, or so many times two to the power `k` bytes.
    Left { n: ir::Value, top: ir::Value, end: ir::Value, k: Option<ir::Value> },
}

fn compared(func: &ir::Function, over: ir::Value) -> Option<CapacityTest> {
    let def = |v| Some(func.dfg.insts[func.dfg.value_def(func.dfg.resolve_aliases(v)).inst()?]);
    let InstructionData::IntCompare { cond: IntCC::UnsignedGreaterThan, args: [n, there], .. } = def(over)? else {
        return None;
    };
    let left = |v, k| match def(v)? {
        InstructionData::Binary { opcode: Opcode::Isub, args: [end, top] } => {
            Some(CapacityTest::Left { n, top, end, k })
        }
        _ => None,
    };
    match def(there)? {
        InstructionData::Load { .. } => Some(CapacityTest::End { wanted: n, end: there }),
        InstructionData::Binary { opcode: Opcode::Ushr, args: [v, k] } => left(v, Some(k)),
        _ => left(there, None),
    }
}

/// Where the tape has to end, and where it ends, by the comparison that has found that it ends too
/// soon.
pub(super) fn wanted(cursor: &mut FuncCursor<'_>, over: ir::Value) -> Option<(ir::Value, ir::Value)> {
    Some(match compared(cursor.func, over)? {
        CapacityTest::End { wanted, end } => (wanted, end),
        CapacityTest::Left { n, top, end, k } => (behind(cursor, top, n, k), end),
    })
}

/// The comparison, where the workspace may have grown since its end was loaded: then what is left
/// is less than nothing, and would be taken for very much.
pub(super) fn over(cursor: &mut FuncCursor<'_>, over: ir::Value) -> ir::Value {
    match compared(cursor.func, over) {
        Some(CapacityTest::Left { top, end, .. }) => {
            let behind = cursor.ins().icmp(IntCC::UnsignedGreaterThan, top, end);
            cursor.ins().bor(over, behind)
        }
        _ => over,
    }
}

/// So many bytes, or times a power of two, after a place. More than there is memory is less than
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
