//! Oracles for whole calls: what goes in, what comes out.
//!
//! **Question.** What are the cotangents of a call's arguments and of the memory that it is given,
//! by a run that follows every float?
//!
//! **Answer.** An [`Oracle`] runs a program in the interpreter with a domain of its choice:
//!
//! | method | domain | result |
//! |---|---|---|
//! | [`Oracle::run`] | none | values |
//! | [`Oracle::work_and_span`] | none | counts of instructions |
//! | [`Oracle::footprint`] | none | a store that keeps a time loop from being reversed |
//! | [`Oracle::gradient`] | a tape of doubles | an [`OracleOutcome`] |
//! | [`Oracle::hessian_vector`] | a tape of dual numbers | a [`HessianOutcome`] |
//!
//! Forward mode, explanations and marks are in files of their own.
//!
//! **Shadows.** The initial shadow of a buffer is the cotangent of the buffer's *final* contents,
//! and at the same time what gradients are added to. With the buffer's elements before (x) and
//! after (x') the call, and the objective
//!
//! ```text
//! L = Σ seeds · results + Σ_j shadow_in[j] · x'_j       over all buffers
//! ```
//!
//! the final shadow is `shadow_out[i] = ∂L/∂x_i`. An element that the program never writes has x'_i
//! = x_i, which gives `shadow_in[i]` plus contributions; an element that it overwrites loses its
//! old shadow.
//!
//! **Aliasing.** Buffers are ranges of memory. Elements are inputs by address, so two arguments
//! that point at the same or overlapping memory share inputs, and their shadows are one: the first
//! buffer that names an element gives its initial shadow.
//!
//! **Safety.** The program runs in the caller's memory: whatever it accesses must be there.
//!
//! **Cost.** An interpreted run, a node of the tape for each active float, and one sweep back over
//! them.

mod dependence;
mod forward;
mod inputs;
mod subject;
mod trace;

use std::ops::{Deref, DerefMut};

use brolga_ir::{FuncKey, Program};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::Type;
use cranelift_entity::SecondaryMap;

use crate::Limits;
use crate::error::{OracleError, Place, StrayStore};
use crate::interp::{Domain, Machine, NodeId, PlainDomain, TrackedVal, to_bits};
use crate::real::{Dual, Real};
use crate::tape::Tape;

pub use dependence::{Dependence, MARKS};
pub use forward::{Candidate, Identity, Tangent, TangentOutcome};
use inputs::{Leaf, data_values, final_node, float_lanes, from_lanes, lane_nodes};
pub use subject::{Activity, BufferRef, Elem, Oracle, OracleArg};

/// A number for each float of those arguments that take part.
type ByArgument = Vec<Option<Vec<f64>>>;

/// What a reverse run gives, in numbers of type `T`.
#[derive(Clone, Debug)]
pub struct Reverse<T> {
    /// Results of the call.
    pub values: Vec<DataValue>,
    /// For each active argument the cotangent of each lane.
    pub arg_lanes: Vec<Option<Vec<T>>>,
    /// For each duplicated argument with a buffer of floats the shadow after the pullback.
    pub shadows: Vec<Option<Vec<T>>>,
    /// The same for the extra buffers.
    pub extra_shadows: Vec<Vec<T>>,
    /// Floats recorded.
    pub nodes: usize,
    /// Operands recorded.
    pub edges: usize,
    /// Bytes of the graph.
    pub tape_bytes: usize,
    /// How far `arg_lanes` or `shadows` may be off by rounding alone. `x + 1e30·(x/x)` has the
    /// slope one; the tape adds `1e30/x` to it, and takes that away. Of what differs by no more
    /// than this it says nothing.
    pub rounding: Vec<Option<Vec<f64>>>,
    /// By how much rounding may change the objective, in terms of the precision of the arithmetic.
    pub noise: f64,
    /// Instructions executed: the work.
    pub steps: u64,
    /// Those on the longest way through forks ([`Machine::span`]).
    pub span: u64,
    /// Whether the sign of a NaN became that of another number. The sign of a NaN is not specified,
    /// so the program may as well return something else.
    pub nan_sign: bool,
    /// A store that keeps a time loop from being reversed by running steps again.
    pub stray: Option<StrayStore>,
}

/// What [`gradient`] gives; it is read as the [`Reverse`] that it is made of.
#[derive(Clone, Debug)]
pub struct OracleOutcome {
    /// The run. Cotangents of arguments are without rounding to their types there.
    pub reverse: Reverse<f64>,
    /// For each active argument its cotangent, of the argument's type.
    pub arg_cotangents: Vec<Option<DataValue>>,
}

impl Deref for OracleOutcome {
    type Target = Reverse<f64>;

    fn deref(&self) -> &Reverse<f64> {
        &self.reverse
    }
}

impl DerefMut for OracleOutcome {
    fn deref_mut(&mut self) -> &mut Reverse<f64> {
        &mut self.reverse
    }
}

/// A second-order run: the gradient, and its derivative along the direction.
#[derive(Clone, Debug)]
pub struct HessianOutcome {
    /// The gradient.
    pub gradient: Reverse<f64>,
    /// Its derivative along the direction.
    pub along: Reverse<f64>,
}

impl<'p> Oracle<'p> {
    fn param_types(&self, func: FuncKey, n: usize) -> Result<Vec<Type>, OracleError> {
        let f = &self.program.funcs[func];
        let types: Vec<Type> = f.signature.params.iter().map(|p| p.value_type).collect();
        if types.len() != n {
            return Err(OracleError::BadCall(format!("%{} takes {} arguments, not {n}", f.symbol, types.len())));
        }
        Ok(types)
    }

    fn return_types(&self, func: FuncKey) -> Vec<Type> {
        self.program.funcs[func].signature.returns.iter().map(|r| r.value_type).collect()
    }

    /// Run the program without recording anything.
    ///
    /// # Safety
    ///
    /// The program must be safe to run with these arguments: whatever it accesses must be there.
    pub unsafe fn run(&self, func: FuncKey, args: &[DataValue]) -> Result<Vec<DataValue>, OracleError> {
        self.param_types(func, args.len())?;
        let args = args.iter().map(|a| TrackedVal::clean(to_bits(a))).collect();
        // SAFETY: promised by the caller.
        let results = unsafe { self.machine(PlainDomain).call(func, args)? };
        Ok(data_values(&results, &self.return_types(func)))
    }

    /// Run the program, and count instructions: all of them, and those on the longest way through
    /// forks. The latter says how long the run takes with as many threads as there are tasks: a
    /// fork counts what its longest task counts, and one.
    ///
    /// # Safety
    ///
    /// As for [`Oracle::run`].
    pub unsafe fn work_and_span(&self, func: FuncKey, args: &[DataValue]) -> Result<(u64, u64), OracleError> {
        self.param_types(func, args.len())?;
        let args = args.iter().map(|a| TrackedVal::clean(to_bits(a))).collect();
        let mut machine = self.machine(PlainDomain);
        // SAFETY: promised by the caller.
        unsafe { machine.call(func, args) }?;
        Ok((machine.n_steps(), machine.span()))
    }

    /// Run the program, and look at what steps of time loops write: the first store outside of a
    /// loop's states that is read when the step is over.
    ///
    /// # Safety
    ///
    /// As for [`Oracle::run`].
    pub unsafe fn footprint(&self, func: FuncKey, args: &[DataValue]) -> Result<Option<StrayStore>, OracleError> {
        self.param_types(func, args.len())?;
        let args = args.iter().map(|a| TrackedVal::clean(to_bits(a))).collect();
        let mut machine = self.machine(PlainDomain);
        // SAFETY: promised by the caller.
        unsafe { machine.call(func, args) }?;
        Ok(self.stray(&machine))
    }

    fn stray<D: Domain>(&self, machine: &Machine<'p, D>) -> Option<StrayStore> {
        let (store, load) = machine.stray()?;
        let [store, load] = [store, load].map(|site| Place::new(self.program, site));
        Some(StrayStore { store, load })
    }

    /// Reverse mode: cotangents of the arguments and shadows, for one seed per result (of the
    /// result's type; those of integers count nothing).
    ///
    /// # Safety
    ///
    /// As for [`Oracle::run`]. Buffers must be readable as long as they say, and the program
    /// changes them.
    pub unsafe fn gradient(
        &self,
        func: FuncKey,
        args: &[OracleArg],
        seeds: &[DataValue],
    ) -> Result<OracleOutcome, OracleError> {
        // SAFETY: promised by the caller.
        let (reverse, _) = unsafe { self.reverse::<f64>(func, args, seeds, |x, _| x)? };
        let types = self.param_types(func, args.len())?;
        let lanes = reverse.arg_lanes.iter().zip(&types);
        let arg_cotangents = lanes.map(|(l, &ty)| Some(from_lanes(l.as_ref()?, ty))).collect();
        Ok(OracleOutcome { reverse, arg_cotangents })
    }

    /// Forward over reverse: the gradient, and its derivative along `tangents` (one per argument,
    /// then one per extra buffer; missing ones are zero).
    ///
    /// # Safety
    ///
    /// As for [`Oracle::gradient`].
    pub unsafe fn hessian_vector(
        &self,
        func: FuncKey,
        args: &[OracleArg],
        tangents: &[Tangent],
        seeds: &[DataValue],
    ) -> Result<HessianOutcome, OracleError> {
        // SAFETY: promised by the caller.
        let (r, rounding) = unsafe {
            self.reverse::<Dual>(func, args, seeds, |x, leaf| Dual { re: x, eps: Tangent::of(tangents, &leaf) })?
        };
        let part = |f: fn(&Dual) -> f64, rounding: ByArgument| {
            let part = |v: &Vec<Dual>| v.iter().map(f).collect::<Vec<f64>>();
            Reverse {
                values: r.values.clone(),
                arg_lanes: r.arg_lanes.iter().map(|l| l.as_ref().map(part)).collect(),
                shadows: r.shadows.iter().map(|l| l.as_ref().map(part)).collect(),
                extra_shadows: r.extra_shadows.iter().map(part).collect(),
                nodes: r.nodes,
                edges: r.edges,
                tape_bytes: r.tape_bytes,
                rounding,
                noise: r.noise,
                steps: r.steps,
                span: r.span,
                nan_sign: r.nan_sign,
                stray: r.stray.clone(),
            }
        };
        Ok(HessianOutcome { gradient: part(|d| d.re, r.rounding.clone()), along: part(|d| d.eps, rounding) })
    }

    /// Reverse mode with slopes of type `T`, and how far derivatives of cotangents may be off by
    /// rounding alone.
    unsafe fn reverse<T: Real>(
        &self,
        func: FuncKey,
        args: &[OracleArg],
        seeds: &[DataValue],
        input: impl Fn(f64, Leaf) -> T,
    ) -> Result<(Reverse<T>, ByArgument), OracleError> {
        let types = self.return_types(func);
        if types.len() != seeds.len() {
            let n = types.len();
            return Err(OracleError::BadCall(format!("{} seeds for {n} results", seeds.len())));
        }
        let mut m = self.machine(Tape::<T>::new());
        let mut leaf = |d: &mut Tape<T>, x, leaf| d.leaf(input(x, leaf));
        // SAFETY: promised by the caller.
        let (inputs, results) = unsafe {
            let inputs = self.inputs(&mut m, func, args, &mut leaf)?;
            let results = m.call(func, inputs.args.clone())?;
            (inputs, results)
        };
        let mut roots = Vec::new();
        for ((r, &ty), seed) in results.iter().zip(&types).zip(seeds) {
            if ty.lane_type().is_float() {
                if seed.ty().bytes() != ty.bytes() {
                    return Err(OracleError::BadCall(format!(
                        "a seed of type {} for a result of type {ty}",
                        seed.ty()
                    )));
                }
                let nodes = lane_nodes(&mut m, r, ty);
                roots.extend(nodes.into_iter().zip(float_lanes(to_bits(seed), ty)).filter_map(|(n, s)| Some((n?, s))));
            }
        }
        for c in &inputs.cells {
            if c.shadow != 0.0 {
                // SAFETY: the caller says that buffers are readable.
                roots.extend(unsafe { final_node(&mut m, c) }.map(|n| (n, c.shadow)));
            }
        }
        let roots: Vec<(NodeId, T)> = roots.into_iter().map(|(n, s)| (n, T::constant(s))).collect();
        let grad: SecondaryMap<NodeId, T> =
            m.domain.backward(&roots).map_err(|site| OracleError::Untracked { at: Place::new(self.program, site) })?;
        let off = m.domain.rounding(&roots, &grad);
        let rounding = |k: usize| {
            let lanes = inputs.lanes.iter().map(|l| l.as_ref().map(|l| l.iter().map(|&n| off[n][k]).collect()));
            let cell = |&c: &usize| off[inputs.cells[c].leaf][k];
            let cells = inputs.buffers.iter().map(|b| Some(b.as_ref()?.iter().map(cell).collect()));
            lanes.zip(cells).map(|(lanes, cells): (Option<Vec<f64>>, _)| lanes.or(cells)).collect::<Vec<_>>()
        };
        let (rounding, of_tangents) = (rounding(0), rounding(1));
        let of_cells = |b: &Vec<usize>| b.iter().map(|&c| grad[inputs.cells[c].leaf]).collect::<Vec<T>>();
        let mut shadows: Vec<Option<Vec<T>>> = inputs.buffers.iter().map(|b| b.as_ref().map(of_cells)).collect();
        let extra_shadows = shadows.split_off(args.len()).into_iter().map(Option::unwrap_or_default).collect();
        let reverse = Reverse {
            values: data_values(&results, &types),
            arg_lanes: inputs.lanes.iter().map(|l| l.as_ref().map(|l| l.iter().map(|&n| grad[n]).collect())).collect(),
            shadows,
            extra_shadows,
            nodes: m.domain.n_nodes(),
            edges: m.domain.n_edges(),
            tape_bytes: m.domain.n_bytes(),
            rounding,
            noise: m.domain.noise(&grad),
            steps: m.n_steps(),
            span: m.span(),
            nan_sign: m.nan_sign,
            stray: self.stray(&m),
        };
        Ok((reverse, of_tangents))
    }
}

/// Reverse mode with nothing but the program and its arguments; see [`Oracle::gradient`].
///
/// # Safety
///
/// As for [`Oracle::gradient`].
pub unsafe fn gradient(
    program: &Program,
    func: FuncKey,
    args: &[OracleArg],
    seeds: &[DataValue],
    limits: &Limits,
) -> Result<OracleOutcome, OracleError> {
    // SAFETY: promised by the caller.
    unsafe { Oracle::new(program).limits(limits.clone()).gradient(func, args, seeds) }
}
