//! Promise of inlining: calls that are replaced by what they call.
//!
//! **Question.** Does a derivative compute the same where calls are replaced by bodies?
//!
//! **Answer.** Everything else leaves calls alone ([`Options::as_calls`]). Here they are replaced:
//! once as two functions, watched as closely as without, and once as one function, with bounds that
//! differ from call to call, the default among them, so that they are met here and there. Values
//! and memory must be the same bit for bit. A gradient must be the same but for roundings: what a
//! callee adds up by itself is added where its caller adds.
//!
//! **Cost.** Nothing in a program without calls. Otherwise two rules, a run of one, and a run of
//! the other that is watched.

use brolga::{Inline, MemoryMode, Mode, Options, PassSet, Program};
use cranelift_codegen::ir::InstructionData;

use super::subject::{Deriver, Subject};
use super::unmoored::{describe, run_anywhere, same_contents};
use crate::bind::Invocation;
use crate::run::Outcome;

/// What comes out otherwise if calls are replaced, or if they are not. `bits` and `choice` are
/// those of the call; `leave` and `restore` are what came out in both memory modes.
pub(super) fn violations(
    program: &Program,
    call: &Invocation,
    tol: f64,
    (bits, choice): (u32, u32),
    rule: Deriver<'_>,
    (leave, restore): (&Outcome, &Outcome),
) -> Vec<String> {
    if !calls(program) {
        return Vec::new();
    }
    let small = |callee, single_call, growth| Inline::Small { callee, single_call, growth };
    let inline = [Inline::Auto, Inline::SMALL, small(1000, 0, 10_000), small(12, 100, 40)][(choice >> 3 & 3) as usize];
    let memory = [MemoryMode::Leave, MemoryMode::Restore];
    let memory = if choice >> 5 & 1 == 0 { memory } else { [memory[1], memory[0]] };
    let mode = if choice >> 6 & 1 == 0 { Mode::Combined } else { Mode::Gradient };
    let disabled = if choice >> 7 & 3 == 0 { PassSet::of_bits(!bits) } else { PassSet::NONE };
    let options = |memory, mode, disabled: PassSet| Options { memory, inline, mode, disabled, ..Options::full() };
    let mut broken = Vec::new();
    let split = options(memory[0], Mode::Split, PassSet::NONE);
    let split = Subject::new(program, call, split, rule).and_then(|s| s.one_run(&mut broken));
    let one = rule(&options(memory[1], mode, disabled)).and_then(|rule| run_anywhere(&rule, call));
    let mut found = Vec::new();
    for (mode, memory, outcome) in [(Mode::Split, memory[0], split), (mode, memory[1], one)] {
        let expected = if memory == MemoryMode::Leave { leave } else { restore };
        match outcome {
            Ok(outcome) => broken.extend(differences(&outcome, expected, mode, tol)),
            Err(e) => broken.push(e.to_string()),
        }
        found.extend(broken.drain(..).map(|c| format!("{mode:?}, {memory:?} with {inline:?}: {c}")));
    }
    found
}

/// Whether a function of the program calls another one.
fn calls(program: &Program) -> bool {
    program.funcs.values().filter_map(|f| f.body.as_ref()).any(|body| {
        body.layout.blocks().flat_map(|b| body.layout.block_insts(b)).any(|i| match body.dfg.insts[i] {
            InstructionData::Call { func_ref, .. } => {
                program.callee(body, func_ref).is_some_and(|k| program.funcs[k].body.is_some())
            }
            _ => false,
        })
    })
}

fn differences(outcome: &Outcome, expected: &Outcome, mode: Mode, tol: f64) -> Vec<String> {
    let mut found = Vec::new();
    if let Some((arg, i, a, b)) = outcome.apart(expected, tol) {
        found.push(format!(
            "argument {arg}, element {i} of the gradient is {a:?} and otherwise {b:?}: {}, otherwise {}",
            describe(outcome),
            describe(expected)
        ));
    }
    if mode != Mode::Gradient && !outcome.same_value(expected) {
        found.push(format!("the value is {:?} and otherwise {:?}", outcome.value, expected.value));
    }
    same_contents("the derivative", &expected.buffers, &outcome.buffers, &mut found);
    found
}
