//! Typed tapes in CLIF: memory for functions that call a derivative which is derived again.
//!
//! **Question.** Where do the channels of a typed tape begin, and where does a derivative find
//! that? **Answer.** In a *header*, whose address it is given: positions and limits, at the offsets
//! of [`segment::field`], and the status of a run, at [`segment::STATUS`]. The caller writes the
//! header before each call.
//!
//! **Cost.** Thirteen stores for each header.

use brolga_ir::lower::{Channel, Position, segment, tape_flags};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, Signature, types};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::FunctionBuilder;

/// Bytes of each channel of a tape on the heap.
pub(crate) const CAPACITY: i64 = 1 << 20;

/// Bytes of a header, a multiple of 16.
pub(crate) const HEADER: u32 = (segment::field(Channel::TYPED[3], Position::Cursor) as u32 + 8).next_multiple_of(16);

/// Write a header: each channel begins at an address, and has so many bytes.
pub(crate) fn begin(b: &mut FunctionBuilder<'_>, header: ir::Value, channels: [(ir::Value, ir::Value); 4]) {
    let flags = tape_flags(b.func, Channel::Addresses);
    for (channel, (base, size)) in Channel::TYPED.into_iter().zip(channels) {
        let limit = b.ins().iadd(base, size);
        for (position, at) in [(Position::Top, base), (Position::Limit, limit), (Position::Cursor, base)] {
            b.ins().store(flags, at, header, segment::field(channel, position));
        }
    }
    let flags = tape_flags(b.func, Channel::Integers);
    let fits = b.ins().iconst(types::I32, 0);
    b.ins().store(flags, fits, header, segment::STATUS);
}

/// The status of a run: one if it has not fitted. What is loaded may lie in memory of the caller's
/// that holds floats; the answer of a comparison is a number wherever it is stored.
pub(crate) fn status(b: &mut FunctionBuilder<'_>, header: ir::Value) -> ir::Value {
    let flags = tape_flags(b.func, Channel::Integers);
    let is = b.ins().load(types::I32, flags, header, segment::STATUS);
    let full = b.ins().icmp_imm_u(IntCC::NotEqual, is, 0);
    b.ins().uextend(types::I32, full)
}

/// A slot of the stack, and its address.
pub(crate) fn slot(b: &mut FunctionBuilder<'_>, bytes: u32) -> ir::Value {
    let slot = ir::StackSlotData::new(ir::StackSlotKind::ExplicitSlot, bytes, 4);
    let slot = b.create_sized_stack_slot(slot);
    b.ins().stack_addr(types::I64, slot, 0)
}

/// A tape whose channels are on the heap, of [`CAPACITY`] bytes each, and its header on the stack.
pub(crate) fn on_heap(b: &mut FunctionBuilder<'_>, isa: &dyn TargetIsa) -> (ir::Value, [ir::Value; 4]) {
    let header = slot(b, HEADER);
    let size = b.ins().iconst(types::I64, CAPACITY);
    let blocks = Channel::TYPED.map(|_| call_c(b, isa, "malloc", &[size], Some(types::I64))[0]);
    begin(b, header, blocks.map(|base| (base, size)));
    (header, blocks)
}

/// Free its channels.
pub(crate) fn free(b: &mut FunctionBuilder<'_>, isa: &dyn TargetIsa, blocks: &[ir::Value]) {
    for &block in blocks {
        call_c(b, isa, "free", &[block], None);
    }
}

fn call_c(
    b: &mut FunctionBuilder<'_>,
    isa: &dyn TargetIsa,
    symbol: &str,
    args: &[ir::Value],
    returns: Option<ir::Type>,
) -> Vec<ir::Value> {
    let mut sig = Signature::new(isa.default_call_conv());
    sig.params.extend(args.iter().map(|_| AbiParam::new(types::I64)));
    sig.returns.extend(returns.map(AbiParam::new));
    call(b, symbol, sig, args)
}

/// Call a function by its symbol.
pub(crate) fn call(b: &mut FunctionBuilder<'_>, symbol: &str, sig: Signature, args: &[ir::Value]) -> Vec<ir::Value> {
    let signature = b.import_signature(sig);
    let name = ir::ExternalName::testcase(symbol);
    let callee = b.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
    let call = b.ins().call(callee, args);
    b.inst_results(call).to_vec()
}
