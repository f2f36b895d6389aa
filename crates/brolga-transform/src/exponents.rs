//! An exponent that is put in the place of another is added to a float's bits.
//!
//! **Problem.** `frexp`, `ldexp`, `ilogb` and the like, and `log`, `exp`, `cbrt` that have them inlined, take the exponent out of a float's bits and put another in:
//! `(x & mantissa) | e << 52`. The mask leaves a pattern that is a subnormal number, whose slope is `2^-1022` times what it is in the end; as two operations
//! on floats these have slopes that no double holds.
//!
//! **Answer.** One addition, whose slope is the power of two that it should be (`brolga_analysis::activity::steps`). With `h = x & !K` for the mask `K`, what is left of `x` is `x - h`, and
//!
//! ```text
//! (x & K) | q  =  x + ((q & K') - h)       K' is what the rest of x has not set: !(x & K), or everything, where q has nothing in K
//! (x & K) ^ q  =  the same, where q has nothing in K
//! (x & K) + q  =  x + (q - h)
//! ```
//!
//! `h` and `q` have no bits of a mantissa, so they are constant wherever the float is differentiable (`brolga_analysis::activity::exponent`).
//!
//! **Which.** Masks that keep the whole mantissa and nothing of the exponent, with the sign or without, of integers as wide as a float. Others than floats' bits are hardly ever treated so, and if
//! they are, it is three instructions more.
//!
//! **Invariant.** Every integer is the number that it was.

use brolga_analysis::Cfg;
use brolga_analysis::activity::exponent::{is_bare, mantissa_bits};
use brolga_analysis::pointers::constant_int;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, types};

/// What is done to a float's bits.
struct Put {
    /// The float's bits.
    x: ir::Value,
    /// What is kept of them.
    keep: i64,
    /// `x & keep`.
    kept: ir::Value,
    /// What is put beside it.
    other: ir::Value,
}

/// Make them additions.
pub fn exponents(func: &mut ir::Function) {
    let insts = || func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    if !insts().any(|i| func.dfg.inst_results(i).first().is_some_and(|&v| mantissa_of(func, v).is_some())) {
        return;
    }
    let cfg = Cfg::compute(func);
    let found: Vec<(ir::Inst, Put)> = insts().filter_map(|i| Some((i, put(func, &cfg, i)?))).collect();
    for (inst, Put { x, keep, kept, other }) in found {
        let op = func.dfg.insts[inst].opcode();
        let result = func.dfg.first_result(inst);
        let ty = func.dfg.value_type(result);
        let apart = lies_outside(func, other, keep);
        let srcloc = func.srcloc(inst);
        let mut pos = FuncCursor::new(func).at_inst(inst);
        pos.set_srcloc(srcloc);
        let dropped = pos.ins().iconst(ty, in_type(!keep, ty));
        let before = pos.ins().band(x, dropped);
        let new = if op == Opcode::Iadd || apart {
            other
        } else {
            let free = pos.ins().bnot(kept);
            pos.ins().band(other, free)
        };
        let by = pos.ins().isub(new, before);
        pos.func.dfg.insts[inst] = InstructionData::Binary { opcode: Opcode::Iadd, args: [x, by] };
    }
}

/// The bits of a constant as an instruction has it.
fn in_type(bits: i64, ty: ir::Type) -> i64 {
    if ty == types::I32 { i64::from(bits as u32) } else { bits }
}

/// Whether a value has no bits among these.
fn lies_outside(func: &ir::Function, v: ir::Value, keep: i64) -> bool {
    let sign_stays = keep < 0;
    constant_int(func, v).map_or(!sign_stays, |c| c & keep == 0)
}

/// What an instruction puts beside a mantissa.
fn put(func: &ir::Function, cfg: &Cfg, inst: ir::Inst) -> Option<Put> {
    let op = func.dfg.insts[inst].opcode();
    if !matches!(op, Opcode::Bor | Opcode::Bxor | Opcode::Iadd) {
        return None;
    }
    let &[a, b] = func.dfg.inst_args(inst) else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(kept, other)| {
        let (x, keep) = mantissa_of(func, kept)?;
        let incoming = |b: ir::Block, i: usize| cfg.incoming(b, i).collect();
        let fits = is_bare(func, other, Some(&incoming)) && (op != Opcode::Bxor || lies_outside(func, other, keep));
        fits.then_some(Put { x, keep, kept, other })
    })
}

/// The integer of which a value has the mantissa, and perhaps the sign, and the mask.
fn mantissa_of(func: &ir::Function, v: ir::Value) -> Option<(ir::Value, i64)> {
    let inst = func.dfg.value_def(v).inst()?;
    let ty = func.dfg.value_type(v);
    if func.dfg.insts[inst].opcode() != Opcode::Band || ty.is_vector() {
        return None;
    }
    let mantissa = (1_i64 << mantissa_bits(ty)?) - 1;
    let sign = if ty == types::I32 { i64::from(i32::MIN) } else { i64::MIN };
    let &[a, b] = func.dfg.inst_args(inst) else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(x, mask)| {
        let mask = constant_int(func, mask)?;
        let mask = if ty == types::I32 { i64::from(mask as i32) } else { mask };
        let whole = mask == mantissa || mask == mantissa | sign;
        (whole && constant_int(func, x).is_none()).then_some((x, mask))
    })
}
