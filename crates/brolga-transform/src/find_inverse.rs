//! Inverses of functions of a program that has none of them.
//!
//! **Question.** A function changes a state. Which function undoes it?
//! **Answer.** One that is derived from its text ([`brolga_clif::inverse`]), `f__inverse`. It is
//! defined, and said to undo the function ([`Program::set_inverse`]).
//!
//! **Cost.** That of the derivation. Nothing is recorded for calls that are undone.

use std::collections::BTreeSet;

use brolga_clif::inverse::{InverseRequest, inverse};
use brolga_ir::driver::StateLength;
use brolga_ir::{Diagnostic, Diagnostics, FuncKey, Program};
use brolga_rules::math_rule;
use cranelift_codegen::ir::{InstructionData, Opcode, UserFuncName};

/// Whether what a function returns depends on its arguments alone, and it does nothing else. `seen`
/// are those that are being looked at.
fn only_computes(program: &Program, key: FuncKey, seen: &mut BTreeSet<FuncKey>) -> bool {
    let f = &program.funcs[key];
    let Some(body) = f.body.as_ref() else { return math_rule(&f.symbol).is_some_and(|r| r.only_computes()) };
    if !seen.insert(key) {
        return true;
    }
    let mut insts = body.layout.blocks().flat_map(|b| body.layout.block_insts(b));
    insts.all(|inst| match body.dfg.insts[inst] {
        InstructionData::Call { opcode: Opcode::Call, func_ref, .. } => {
            program.callee(body, func_ref).is_some_and(|k| only_computes(program, k, seen))
        }
        data => {
            let op = data.opcode();
            let is_plain = op.is_terminator() && !op.is_call() || !op.other_side_effects();
            is_plain && !op.is_call() && !op.can_load() && !op.can_store() && op != Opcode::StackAddr
        }
    })
}

/// Derive the inverse of a function on memory, and let it undo calls of that function. The state is
/// given by parameters of the function, counted from 0: pointers, each with its length in bytes.
/// States are apart from each other and from all else that the function reads. Sums of floats are
/// undone but for roundings; [`Options::inverse_check`](brolga_ir::Options::inverse_check) says
/// what becomes of those.
///
/// # Errors
/// AD0195 with the instruction that cannot be undone; AD0192 as [`Program::set_inverse`].
pub fn find_inverse(program: &mut Program, function: &str, state: &[(usize, StateLength)]) -> Result<(), Diagnostics> {
    let symbol = format!("{function}__inverse");
    let key = program.func(function).filter(|&k| program.funcs[k].body.is_some());
    let Some((key, body)) = key.zip(key.and_then(|k| program.funcs[k].body.clone())) else {
        return program.set_inverse(function, &symbol, state);
    };
    let states: Vec<usize> = state.iter().map(|s| s.0).collect();
    let is_pure =
        |callee| program.callee(&body, callee).is_some_and(|k| only_computes(program, k, &mut BTreeSet::new()));
    let asked = InverseRequest { states: &states, is_pure: &is_pure };
    let found = inverse(&body, &asked, UserFuncName::testcase(&symbol)).map_err(|e| {
        let d = Diagnostic::new("AD0195", format!("no inverse of %{function} is found: {}", e.why));
        d.at(program, key, e.inst).help(e.help)
    })?;
    if program.define(&symbol, found, |_| 0).is_err() {
        let d = Diagnostic::new("AD0195", format!("the program has a function %{symbol} already"));
        let help = format!("say that it undoes %{function} (`set_inverse`), or give it another name");
        return Err(d.in_func(function).help(help).into());
    }
    program.set_inverse(function, &symbol, state)
}
