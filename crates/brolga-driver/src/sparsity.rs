//! Sparsity patterns of Jacobians and Hessians: which entries may be other than zero.
//!
//! **Question.** On which inputs does each output of a call depend, and each entry of its gradient?
//!
//! **Answer.** Bits of dependence run through the oracle's tape ([`Oracle::dependence`]), 127
//! inputs at a time. A pattern is that of the branches that the call takes.
//!
//! **Cost.** One interpreted run for each 127 inputs.

use brolga::drivers::Pattern;
use brolga::{Error, Program};
use brolga_oracle::{Dependence, MARKS, Oracle};

use crate::bind::Invocation;
use crate::inputs::{Input, inputs, oracle_args};
use crate::jacobian::Output;
use crate::memory::Memory;

/// The pattern of a Jacobian with these rows.
///
/// # Errors
/// [`Error::Usage`] if the oracle cannot run the call.
pub fn of_jacobian(program: &Program, call: &Invocation, rows: &[Output]) -> Result<Pattern, Error> {
    let hidden = call.hidden();
    found(program, call, rows.len(), |found, row| match rows[row] {
        Output::Result(k, lane) => found.results[k].get(lane.unwrap_or(0)).copied(),
        Output::Element(arg, i) => found.buffers[hidden + arg].as_ref().map(|b| b[i]),
    })
}

/// The pattern of a Hessian.
///
/// # Errors
/// As [`of_jacobian`].
pub fn of_hessian(program: &Program, call: &Invocation) -> Result<Pattern, Error> {
    let (hidden, inputs) = (call.hidden(), inputs(call));
    found(program, call, inputs.len(), |found, row| {
        let Input { arg, index, .. } = inputs[row];
        let lists = found.arg_lanes[hidden + arg].as_ref().or(found.shadows[hidden + arg].as_ref());
        lists.map(|l| l[index.unwrap_or(0)])
    })
}

fn found(
    program: &Program,
    call: &Invocation,
    rows: usize,
    bits: impl Fn(&Dependence, usize) -> Option<u128>,
) -> Result<Pattern, Error> {
    let inputs = inputs(call);
    let mut pattern = vec![Vec::new(); rows];
    for (window, marked) in inputs.chunks(MARKS).enumerate() {
        let mut marks: Vec<Vec<u128>> = vec![Vec::new(); call.hidden() + call.args.len()];
        for (k, input) in marked.iter().enumerate() {
            let (list, at) = (&mut marks[call.hidden() + input.arg], input.index.unwrap_or(0));
            list.resize(list.len().max(at + 1), 0);
            list[at] = 1 << k;
        }
        let memory = Memory::new(call)?;
        let args = oracle_args(call, &memory);
        // SAFETY: as in `check::tape_gradient`.
        let found = unsafe { Oracle::new(call.interpreted(program)).dependence(call.func, &args, &marks, &call.seeds) }
            .map_err(|e| Error::Usage(format!("no sparsity pattern is found: {e}")))?;
        for (row, columns) in pattern.iter_mut().enumerate() {
            let bits = bits(&found, row).unwrap_or(0);
            columns.extend((0..marked.len()).filter(|k| bits >> k & 1 != 0).map(|k| window * MARKS + k));
        }
    }
    Pattern::new(inputs.len(), pattern)
}
