//! Sine and cosine pairing: a sine whose derivative is going to be asked for has its cosine
//! computed beside it.
//!
//! **Problem.** The derivative of `sin(x)` is `cos(x)`, which the reverse half asks the C library
//! for: a second call for the same angle, which has been taken to pieces once already. Where both
//! are asked for in one place they are hardly dearer than one (they become one call of `sincos`
//! where that gives the same bits).
//!
//! **Answer.** After a sine that is multiplied, or divides or is divided, a cosine of the same
//! angle is put, and the other way round, if there is none. The reverse of such a product reads the
//! sine, so the call stays in the forward half, whatever becomes of the rest. The rule of the one
//! finds the other ([`crate::translate::rules`]), and the planner records that instead of the
//! angle, or asks again, as it sees fit. Where it is not read (the angle is constant, say) it is
//! pruned like all that is not needed.
//!
//! **What stays.** A sine that is only added up need not be computed at all where the gradient
//! alone is asked for, nor recorded: its cosine belongs to the reverse half. So do the partners of
//! functions that a program brings itself.
//!
//! **Cost.** Nothing where a function calls neither. Otherwise one pass over the instructions.

use brolga_ir::Program;
use brolga_rules::MathFn;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, types};
use cranelift_entity::EntitySet;

/// Put them there.
pub(crate) fn pair_sincos(program: &Program, func: &mut ir::Function) {
    let calls = func.dfg.ext_funcs.keys().any(|r| other(program, func, r).is_some());
    if !calls {
        return;
    }
    let insts = || func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let mut multiplied = EntitySet::new();
    for inst in insts().filter(|&i| matches!(func.dfg.insts[i].opcode(), Opcode::Fmul | Opcode::Fdiv)) {
        multiplied.extend(func.dfg.inst_args(inst).iter().copied());
    }
    let asked = |inst: ir::Inst| {
        let InstructionData::Call { func_ref, .. } = func.dfg.insts[inst] else { return None };
        let symbol = other(program, func, func_ref)?;
        Some((func.dfg.inst_args(inst)[0], symbol))
    };
    let known: Vec<(ir::Inst, ir::Value, &'static str)> =
        insts().filter_map(|i| asked(i).map(|(x, symbol)| (i, x, symbol))).collect();
    let alone = |&(inst, x, symbol): &(ir::Inst, ir::Value, &str)| {
        let both = known.iter().any(|k| k.1 == x && k.2 != symbol);
        !both && multiplied.contains(func.dfg.first_result(inst))
    };
    for (inst, x, symbol) in known.iter().filter(|k| alone(k)).copied().collect::<Vec<_>>() {
        let InstructionData::Call { func_ref, .. } = func.dfg.insts[inst] else { continue };
        let like = func.dfg.ext_funcs[func_ref].clone();
        let partner = func.import_function(ir::ExtFuncData { name: ir::ExternalName::testcase(symbol), ..like });
        let srcloc = func.srcloc(inst);
        let mut cursor = FuncCursor::new(func).after_inst(inst);
        cursor.set_srcloc(srcloc);
        cursor.ins().call(partner, &[x]);
    }
}

/// The symbol of the partner of a function, if that has one and both are the C library's.
fn other(program: &Program, func: &ir::Function, r: ir::FuncRef) -> Option<&'static str> {
    let sig = &func.dfg.signatures[func.dfg.ext_funcs[r].signature];
    let ([angle], [part]) = (&sig.params[..], &sig.returns[..]) else { return None };
    let symbol = |f: MathFn| if angle.value_type == types::F32 { f.symbol_f32() } else { f.symbol() };
    let name = brolga_ir::program::symbol_of(func, &func.dfg.ext_funcs[r].name);
    let (callee, partner) = [(MathFn::Sin, MathFn::Cos), (MathFn::Cos, MathFn::Sin)]
        .into_iter()
        .map(|(f, g)| (symbol(f), symbol(g)))
        .find(|(callee, _)| *callee == name)?;
    let of_c =
        |s: &str| program.func(s).is_none_or(|k| program.funcs[k].body.is_none() && program.funcs[k].host.is_none());
    (angle == part && of_c(callee) && of_c(partner)).then_some(partner)
}
