//! Forward runs of the oracle, and the dot-product identity that checks a gradient with one of
//! them.
//!
//! **Question.** Is a gradient that was computed elsewhere right, by one run that knows nothing of
//! reverse mode?
//!
//! **Answer.** For inputs x, results y and buffers whose contents go from x_b to x'_b, every
//! gradient of `L = ⟨seeds, y⟩ + ⟨shadow_in, x'_b⟩` satisfies, for every direction ẋ,
//!
//! ```text
//! ⟨seeds, ẏ⟩ + ⟨shadow_in, ẋ'_b⟩ = ⟨∂L/∂x, ẋ⟩
//! ```
//!
//! The left side needs a forward run only ([`Oracle::tangent`]), the right side the gradient under
//! test only; [`Oracle::identity`] computes both. A random direction ([`Oracle::directions`])
//! misses an error with probability zero. An element that several buffers name counts once, and a
//! factor that is exactly zero makes its product zero.
//!
//! **Errors.** A tangent that goes through untracked bits is an error in a result, and NaN in a
//! buffer. Where a side is not finite, the identity says nothing ([`Identity::is_finite`]).
//!
//! **Cost.** One interpreted run, with a tangent for each float that varies.

use brolga_ir::FuncKey;
use cranelift_codegen::data_value::DataValue;

use super::inputs::{Inputs, Leaf, data_values, final_node, float_lanes, float_width, lane_nodes};
use super::subject::{Activity, Oracle, OracleArg};
use crate::dual::Forward;
use crate::error::{InstSite, OracleError, Place};
use crate::interp::{NodeId, to_bits};

/// The direction of a forward run, for one argument or buffer.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Tangent {
    /// It does not vary.
    #[default]
    Zero,
    /// Of a float by value, lane by lane.
    Lanes(Vec<f64>),
    /// Of a buffer's elements.
    Buffer(Vec<f64>),
}

impl Tangent {
    /// The tangent of one input, given those of all arguments and extra buffers.
    pub(super) fn of(tangents: &[Tangent], leaf: &Leaf) -> f64 {
        let (which, part) = match *leaf {
            Leaf::Lane { arg, lane } => (arg, lane),
            Leaf::Element { buffer, index } => (buffer, index),
        };
        match (leaf, tangents.get(which)) {
            (Leaf::Lane { .. }, Some(Tangent::Lanes(t))) | (Leaf::Element { .. }, Some(Tangent::Buffer(t))) => t[part],
            _ => 0.0,
        }
    }
}

/// What a forward run gives. A tangent that goes through untracked bits is an error in a result,
/// and NaN in a buffer.
#[derive(Clone, Debug)]
pub struct TangentOutcome {
    /// Results of the call.
    pub values: Vec<DataValue>,
    /// For each result of float type the tangent of each lane.
    pub results: Vec<Option<Vec<f64>>>,
    /// For each argument with a buffer of floats the tangents of its final contents.
    pub buffers: Vec<Option<Vec<f64>>>,
    /// The same for the extra buffers.
    pub extra: Vec<Vec<f64>>,
}

/// A gradient that is to be checked, in the shape of [`super::OracleOutcome`].
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// For each active argument the cotangent of each lane.
    pub arg_lanes: &'a [Option<Vec<f64>>],
    /// For each duplicated argument the shadow after the pullback.
    pub shadows: &'a [Option<Vec<f64>>],
    /// The same for the extra buffers.
    pub extra_shadows: &'a [Vec<f64>],
}

/// Both sides of the dot-product identity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Identity {
    /// By the forward run.
    pub forward: f64,
    /// By the gradient under test.
    pub reverse: f64,
    /// The sum of the magnitudes of all terms, which is what errors are relative to.
    pub scale: f64,
}

impl Identity {
    /// Whether both sides are numbers. An infinite slope makes them sums of infinities, which say
    /// nothing.
    pub fn is_finite(&self) -> bool {
        self.forward.is_finite() && self.reverse.is_finite()
    }

    /// Whether both sides agree to a relative tolerance; never if they are not finite.
    pub fn holds(&self, tolerance: f64) -> bool {
        (self.forward - self.reverse).abs() <= tolerance * (1.0 + self.scale)
    }
}

/// A dot product with the sum of the magnitudes of its terms.
#[derive(Default)]
struct Dot {
    sum: f64,
    scale: f64,
}

impl Dot {
    fn add(&mut self, x: f64, y: f64) {
        let term = if x == 0.0 || y == 0.0 { 0.0 } else { x * y };
        self.sum += term;
        self.scale += term.abs();
    }
}

/// A forward run before its tangents are sorted by result and buffer.
struct TangentRun {
    inputs: Inputs,
    values: Vec<DataValue>,
    results: Vec<Option<Vec<f64>>>,
    /// Tangent of the final contents of each cell.
    cells: Vec<f64>,
}

impl Oracle<'_> {
    /// Forward mode: tangents of results and final buffers along `tangents` (one per argument, then
    /// one per extra buffer; missing ones are zero).
    ///
    /// # Safety
    ///
    /// As for [`Oracle::gradient`].
    pub unsafe fn tangent(
        &self,
        func: FuncKey,
        args: &[OracleArg],
        tangents: &[Tangent],
    ) -> Result<TangentOutcome, OracleError> {
        // SAFETY: promised by the caller.
        let run = unsafe { self.forward(func, args, tangents)? };
        let of_cells = |b: &Vec<usize>| b.iter().map(|&c| run.cells[c]).collect::<Vec<f64>>();
        let mut buffers: Vec<Option<Vec<f64>>> = run.inputs.buffers.iter().map(|b| b.as_ref().map(of_cells)).collect();
        let extra = buffers.split_off(args.len()).into_iter().map(Option::unwrap_or_default).collect();
        Ok(TangentOutcome { values: run.values, results: run.results, buffers, extra })
    }

    /// Both sides of the dot-product identity for a gradient that was computed elsewhere, with the
    /// shadows in `args` as its initial shadows.
    ///
    /// # Safety
    ///
    /// As for [`Oracle::gradient`].
    pub unsafe fn identity(
        &self,
        func: FuncKey,
        args: &[OracleArg],
        seeds: &[DataValue],
        tangents: &[Tangent],
        candidate: Candidate<'_>,
    ) -> Result<Identity, OracleError> {
        // SAFETY: promised by the caller.
        let run = unsafe { self.forward(func, args, tangents)? };
        let (mut forward, mut reverse) = (Dot::default(), Dot::default());
        for ((t, seed), ty) in run.results.iter().zip(seeds).zip(self.return_types(func)) {
            let lanes = t.iter().flatten().zip(float_lanes(to_bits(seed), ty));
            lanes.for_each(|(t, seed)| forward.add(*t, seed));
        }
        run.inputs.cells.iter().zip(&run.cells).for_each(|(c, t)| forward.add(c.shadow, *t));
        for (arg, lanes) in run.inputs.lanes.iter().enumerate() {
            for lane in 0..lanes.as_ref().map_or(0, Vec::len) {
                let ct = candidate.arg_lanes.get(arg).and_then(|l| l.as_ref()?.get(lane)).copied();
                reverse.add(ct.unwrap_or(0.0), Tangent::of(tangents, &Leaf::Lane { arg, lane }));
            }
        }
        let mut counted = vec![false; run.inputs.cells.len()];
        for (buffer, cells) in run.inputs.buffers.iter().enumerate() {
            for (index, &c) in cells.iter().flatten().enumerate() {
                if std::mem::replace(&mut counted[c], true) {
                    continue;
                }
                let ct = match buffer.checked_sub(args.len()) {
                    None => candidate.shadows.get(buffer).and_then(|s| s.as_ref()?.get(index)),
                    Some(extra) => candidate.extra_shadows.get(extra).and_then(|s| s.get(index)),
                };
                reverse.add(ct.copied().unwrap_or(0.0), Tangent::of(tangents, &Leaf::Element { buffer, index }));
            }
        }
        Ok(Identity { forward: forward.sum, reverse: reverse.sum, scale: forward.scale.max(reverse.scale) })
    }

    /// A direction for every active argument and every buffer: numbers of magnitude 1/2 to 3/2, the
    /// same for the same `seed`.
    pub fn directions(&self, func: FuncKey, args: &[OracleArg], seed: u64) -> Result<Vec<Tangent>, OracleError> {
        let mut state = seed;
        // splitmix64
        let mut number = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let z = z ^ (z >> 31);
            let magnitude = 0.5 + (z >> 12) as f64 / (1u64 << 52) as f64;
            if z & 1 == 0 { magnitude } else { -magnitude }
        };
        let types = self.param_types(func, args.len())?;
        let mut all = Vec::new();
        for (arg, ty) in args.iter().zip(types) {
            let n_elems = arg.buffer.map_or(0, |b| b.n_elems());
            all.push(match arg.activity {
                Activity::Active => Tangent::Lanes((0..ty.lane_count()).map(|_| number()).collect()),
                Activity::Duplicated => Tangent::Buffer((0..n_elems).map(|_| number()).collect()),
                Activity::Const => Tangent::Zero,
            });
        }
        for (buffer, _) in &self.extra {
            all.push(Tangent::Buffer((0..buffer.n_elems()).map(|_| number()).collect()));
        }
        Ok(all)
    }

    unsafe fn forward(
        &self,
        func: FuncKey,
        args: &[OracleArg],
        tangents: &[Tangent],
    ) -> Result<TangentRun, OracleError> {
        let mut m = self.machine(Forward::default());
        let mut leaf = |d: &mut Forward, x: f64, leaf: Leaf| d.leaf(x, Tangent::of(tangents, &leaf));
        // SAFETY: promised by the caller.
        let (inputs, vals) = unsafe {
            let inputs = self.inputs(&mut m, func, args, &mut leaf)?;
            let vals = m.call(func, inputs.args.clone())?;
            (inputs, vals)
        };
        let types = self.return_types(func);
        let tangent = |d: &Forward, n: Option<NodeId>| n.map_or(Ok(0.0), |n| d.tangent(n));
        let mut results = Vec::new();
        for (v, &ty) in vals.iter().zip(&types) {
            if float_width(ty).is_none() {
                results.push(None);
                continue;
            }
            let nodes = lane_nodes(&mut m, v, ty);
            let lanes: Result<Vec<f64>, InstSite> = nodes.into_iter().map(|n| tangent(&m.domain, n)).collect();
            results.push(Some(lanes.map_err(|s| OracleError::Untracked { at: Place::new(self.program, s) })?));
        }
        let mut cells = Vec::new();
        for c in &inputs.cells {
            // SAFETY: the caller says that buffers are readable.
            let n = unsafe { final_node(&mut m, c) };
            cells.push(tangent(&m.domain, n).unwrap_or(f64::NAN));
        }
        Ok(TangentRun { inputs, values: data_values(&vals, &types), results, cells })
    }
}
