//! Sparsity by the oracle: which outputs, and which entries of the gradient, depend on which
//! inputs.
//!
//! **Question.** Which entries of a Jacobian or a Hessian can be other than zero, near this point?
//!
//! **Answer.** The program runs on a tape whose numbers carry [`TrackedNumber`]: one bit for each
//! of up to 127 inputs that are marked, and one more for whatever varies, so that a factor that is
//! zero at this point is no constant. A value has those of its operands, and a cotangent those of
//! the slopes that it was multiplied by; so the bits of an output are a part of a row of the
//! Jacobian's pattern, and those of a cotangent a part of a row of the Hessian's. What cancels is
//! not noticed, and slopes that are zero everywhere are no dependence.
//!
//! The pattern is that of the branches that this run takes.
//!
//! **Cost.** One interpreted run and one sweep for each [`MARKS`] inputs.
//!
//! **Source.** A. Griewank, A. Walther: Evaluating Derivatives, 7.1.

use brolga_ir::FuncKey;
use cranelift_codegen::data_value::DataValue;

use super::inputs::{Leaf, final_node, float_lanes, lane_nodes};
use super::subject::{Oracle, OracleArg};
use crate::error::{OracleError, Place};
use crate::interp::{Domain, NodeId, to_bits};
use crate::real::TrackedNumber;
use crate::tape::Tape;

/// How many inputs can be marked at a time.
pub const MARKS: usize = 127;

/// Of all inputs.
const VARIES: u128 = 1 << MARKS;

/// Dependent of inputs, in the places of numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dependence {
    /// For each result of float type those of each lane.
    pub results: Vec<Vec<u128>>,
    /// For each duplicated argument with a buffer of floats those of its final contents.
    pub buffers: Vec<Option<Vec<u128>>>,
    /// For each active argument those of the cotangent of each lane.
    pub arg_lanes: Vec<Option<Vec<u128>>>,
    /// For each duplicated argument those of the final shadow.
    pub shadows: Vec<Option<Vec<u128>>>,
}

impl Oracle<'_> {
    /// On which of the marked inputs outputs and gradient depend. `marks` has a list for each
    /// argument, with one entry for each lane or element; missing ones are zero. The gradient is
    /// that for these seeds and the shadows of the arguments.
    ///
    /// # Safety
    ///
    /// As for [`Oracle::gradient`].
    pub unsafe fn dependence(
        &self,
        func: FuncKey,
        args: &[OracleArg],
        marks: &[Vec<u128>],
        seeds: &[DataValue],
    ) -> Result<Dependence, OracleError> {
        let types = self.return_types(func);
        let mut m = self.machine(Tape::<TrackedNumber>::new());
        let mut leaf = |d: &mut Tape<TrackedNumber>, x, leaf: Leaf| {
            let (Leaf::Lane { arg, lane: part } | Leaf::Element { buffer: arg, index: part }) = leaf;
            d.leaf(TrackedNumber { re: x, of: VARIES | marks.get(arg).and_then(|m| m.get(part)).copied().unwrap_or(0) })
        };
        // SAFETY: promised by the caller.
        let (inputs, results) = unsafe {
            let inputs = self.inputs(&mut m, func, args, &mut leaf)?;
            let results = m.call(func, inputs.args.clone())?;
            (inputs, results)
        };
        let bits = |d: &Tape<TrackedNumber>, n: Option<NodeId>| n.map_or(0, |n| d.value(n).of & !VARIES);
        let mut out = Dependence::default();
        let mut roots = Vec::new();
        for ((r, &ty), seed) in results.iter().zip(&types).zip(seeds) {
            let nodes = lane_nodes(&mut m, r, ty);
            out.results.push(nodes.iter().map(|&n| bits(&m.domain, n)).collect());
            if ty.lane_type().is_float() {
                roots.extend(nodes.into_iter().zip(float_lanes(to_bits(seed), ty)).filter_map(|(n, s)| Some((n?, s))));
            }
        }
        let mut cells = Vec::new();
        for c in &inputs.cells {
            // SAFETY: the caller says that buffers are readable.
            let node = unsafe { final_node(&mut m, c) };
            cells.push(bits(&m.domain, node));
            roots.extend(node.map(|n| (n, c.shadow)));
        }
        let nonzero = roots.into_iter().filter(|(_, s)| *s != 0.0);
        let roots: Vec<(NodeId, TrackedNumber)> = nonzero.map(|(n, s)| (n, TrackedNumber { re: s, of: 0 })).collect();
        let grad =
            m.domain.backward(&roots).map_err(|site| OracleError::Untracked { at: Place::new(self.program, site) })?;
        let of_cells = |of: &dyn Fn(usize) -> u128| -> Vec<Option<Vec<u128>>> {
            let buffer = |b: &Option<Vec<usize>>| Some(b.as_ref()?.iter().map(|&c| of(c)).collect());
            inputs.buffers.iter().take(args.len()).map(buffer).collect()
        };
        out.buffers = of_cells(&|c| cells[c]);
        out.shadows = of_cells(&|c| grad[inputs.cells[c].leaf].of & !VARIES);
        let of_lanes = |l: &Vec<NodeId>| l.iter().map(|&n| grad[n].of & !VARIES).collect();
        out.arg_lanes = inputs.lanes.iter().map(|l| l.as_ref().map(of_lanes)).collect();
        Ok(out)
    }
}
