//! Calls that stand for drivers, by name.
//!
//! **Question.** A program calls `%brolga_time_loop` ([`crate::time_loop`]),
//! `%brolga_inverse_pair` ([`crate::inverse_pair`]) or `%brolga_par_for` and its like
//! ([`crate::fork`]), which nothing defines. What does it call?
//! **Answer.** Functions that are made for the call when the caller is
//! [defined](crate::Program::define): one with an ordinary body, which calls a
//! [driver](crate::driver), or is one.
//!
//! **Cost.** Two short functions for each callee that is named.

use cranelift_codegen::ir;

use crate::driver_call::{DriverCall, MadeFunc, Misuse, StandIns, redirect};
use crate::symbols::symbol_in;
use crate::{fork, inverse_pair, time_loop};

/// What a call stands for, if it is one by name.
fn of_call(body: &ir::Function, call: ir::Inst) -> Option<Result<DriverCall, Misuse>> {
    let ir::InstructionData::Call { func_ref, .. } = body.dfg.insts[call] else { return None };
    let name = symbol_in(body, &body.dfg.ext_funcs[func_ref].name);
    time_loop::of_call(body, call, &name)
        .or_else(|| inverse_pair::of_call(body, call, &name))
        .or_else(|| fork::of_call(body, call, &name))
}

/// Whether calls of this name stand for drivers. Each call has parameters of its own.
pub fn is_intrinsic(symbol: &str) -> bool {
    time_loop::is_name(symbol) || inverse_pair::is_name(symbol) || fork::is_name(symbol)
}

/// Why a call does not stand for a driver, though its name says so.
pub fn why_not(body: &ir::Function, call: ir::Inst) -> Option<Misuse> {
    of_call(body, call)?.err()
}

/// Replace the calls of a body; what is to be defined for them. Of what is checked before a
/// call the instructions stand in for the call.
pub(crate) fn replace(body: &mut ir::Function, stand_ins: &mut StandIns) -> Vec<(String, Vec<MadeFunc>)> {
    let insts = body.layout.blocks().flat_map(|b| body.layout.block_insts(b));
    let found: Vec<DriverCall> = insts.filter_map(|call| of_call(body, call).and_then(Result::ok)).collect();
    found.into_iter().map(|f| redirect(body, f, stand_ins)).collect()
}
