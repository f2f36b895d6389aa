//! Traced runs of the oracle: gradients that explain themselves.
//!
//! **Question.** What does a gradient follow from, in one run?
//!
//! **Answer.** [`Oracle::trace`] runs the program with a [`Recorder`], goes back through its tape,
//! and adds what questions need: the users of each node with their slopes, and what each node is to
//! the caller at the end where that has a seed of zero. The [`Trace`] answers them.
//!
//! **Errors.** Those of [`Oracle::gradient`].
//!
//! **Safety.** As for [`Oracle::gradient`].
//!
//! **Cost.** That of a gradient, an observation of each instruction, and a list of users for each
//! node.

use std::collections::HashMap;

use brolga_ir::FuncKey;
use cranelift_codegen::data_value::DataValue;
use cranelift_entity::{EntityRef, SecondaryMap};

use super::inputs::{InputCell, Leaf, final_node, float_lanes, lane_nodes};
use super::subject::{Oracle, OracleArg};
use crate::error::{OracleError, Place};
use crate::interp::{NodeId, to_bits};
use crate::trace::{Port, Recorder, Trace};

impl<'p> Oracle<'p> {
    /// [`Oracle::gradient`] with everything that its gradient follows from.
    ///
    /// # Safety
    ///
    /// As for [`Oracle::gradient`].
    pub unsafe fn trace(
        &self,
        func: FuncKey,
        args: &[OracleArg],
        seeds: &[DataValue],
    ) -> Result<Trace<'p>, OracleError> {
        let types = self.return_types(func);
        if types.len() != seeds.len() {
            return Err(OracleError::BadCall(format!("{} seeds for {} results", seeds.len(), types.len())));
        }
        let mut m = self.machine(Recorder::default());
        let mut leaves = Vec::new();
        let mut leaf = |d: &mut Recorder, x, leaf: Leaf| {
            let n = d.tape.leaf(x);
            leaves.push((
                match leaf {
                    Leaf::Lane { arg, lane } => Port::Lane(arg, lane),
                    Leaf::Element { buffer, index } => Port::Element(buffer, index),
                },
                n,
            ));
            n
        };
        // SAFETY: promised by the caller.
        let (inputs, results) = unsafe {
            let inputs = self.inputs(&mut m, func, args, &mut leaf)?;
            let results = m.call(func, inputs.args.clone())?;
            (inputs, results)
        };
        let mut roots = Vec::new();
        for (i, ((r, &ty), seed)) in results.iter().zip(&types).zip(seeds).enumerate() {
            if ty.lane_type().is_float() {
                let nodes = lane_nodes(&mut m, r, ty);
                let lanes = nodes.into_iter().zip(float_lanes(to_bits(seed), ty)).enumerate();
                roots.extend(lanes.filter_map(|(k, (n, s))| Some((Port::Result(i, k), n?, s))));
            }
        }
        let cells: HashMap<NodeId, &InputCell> = inputs.cells.iter().map(|c| (c.leaf, c)).collect();
        for (port, n) in &leaves {
            if let Some(c) = cells.get(n) {
                // SAFETY: the caller says that buffers are readable.
                let last = unsafe { final_node(&mut m, c) };
                // An input that stays where it is needs no mention, unless it has a seed.
                roots.extend(last.filter(|l| l != n || c.shadow != 0.0).map(|l| (*port, l, c.shadow)));
            }
        }
        let recorder = m.domain;
        let seeded: Vec<(NodeId, f64)> = roots.iter().filter(|r| r.2 != 0.0).map(|r| (r.1, r.2)).collect();
        let grad = recorder.tape.backward(&seeded);
        let grad = grad.map_err(|site| OracleError::Untracked { at: Place::new(self.program, site) })?;
        let mut users: SecondaryMap<NodeId, Vec<(NodeId, f64)>> = SecondaryMap::new();
        let n_nodes = crate::interp::Domain::n_nodes(&recorder);
        for n in (0..n_nodes).map(NodeId::new) {
            for &(p, slope) in recorder.tape.prev(n) {
                users[p].push((n, slope));
            }
        }
        let mut unseeded: HashMap<NodeId, Vec<Port>> = HashMap::new();
        for (port, n, _) in roots.into_iter().filter(|r| r.2 == 0.0) {
            unseeded.entry(n).or_default().push(port);
        }
        let under_roots = recorder.tape.under_roots();
        Ok(Trace { program: self.program, recorder, grad, under_roots, leaves, unseeded, users, func })
    }
}
