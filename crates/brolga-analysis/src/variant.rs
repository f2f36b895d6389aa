//! Variants: what a derived function receives and returns for each parameter and result of its
//! primal.
//!
//! **Question.** A function is derived for its callers' sake. What is it given beside its
//! arguments, and what does it return?
//!
//! **Answer.** A function may be derived in several variants: the same function called with a
//! constant where another call site has an active argument gives a smaller derivative. The modes of
//! a call site's arguments are decided from the caller's facts, so signatures of derived functions
//! are known before their bodies, and mutually recursive functions need no fixpoint.
//!
//! ABI, for a primal `f(p…) -> r…`:
//!
//! ```text
//! f__forward (p…, δ of each Dup parameter…, seg)           -> (r…, δ of each Ptr result…)
//! f__pullback(seg, r̄ of each Active or Bits result…)      -> (p̄ of each Active or Bits parameter…)
//! f__tangent (p…, δ of each Dup parameter…, seg, ṗ of each Active or Bits parameter…)
//!                                                          -> (r…, δ of each Ptr result…, ṙ of each Active or Bits result…)
//! ```
//!
//! **Cost.** A function is derived once for each combination of modes that its calls have.

use brolga_ir::driver::Driver;
use brolga_ir::inst::Shape;
use brolga_ir::request::Elem;
use brolga_ir::{ArgActivity, FuncKey, Options, Program, Promises, Request, ResultActivity};
use cranelift_codegen::ir::{AbiParam, Signature, types};
use cranelift_codegen::isa::CallConv;

use crate::lattice::kinds::Kinds;
use crate::lattice::points_to_set::{self, OTHER, REST, Set};

/// How a parameter takes part in the derivative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ParamMode {
    /// Not at all.
    Const,
    /// A float, whose cotangent the pullback returns.
    Active,
    /// A pointer-sized integer that comes with a shadow delta.
    Dup {
        /// The delta is never zero.
        sure: bool,
        /// What it points at, as far as the caller knows.
        holds: Kinds,
        /// It points at memory that the caller, or a caller of its, has made and kept pointers in,
        /// whose shadows may still be where this function stores floats.
        recycled: bool,
        /// It points at memory that the caller, or a caller of its, has made and keeps floats in,
        /// whose cotangents may be where this function stores pointers.
        floats: bool,
        /// It leads to memory in which there may be a float's bits, whatever this function sees
        /// there ([`crate::activity::float_memory`]).
        bits: bool,
    },
    /// An integer that carries float bits, whose cotangent the pullback returns.
    Bits {
        /// Of which floats.
        shape: Shape,
        /// They are known to be floats; otherwise it may be a number, whose cotangent is zero then.
        definite: bool,
    },
    /// An integer that may be computed from the bits of a float, or be a part of them, which no
    /// rule follows: where it becomes a float, no cotangent may arrive.
    Opaque {
        /// Some for certain.
        definite: bool,
    },
}

/// How a result takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResultMode {
    /// Not at all.
    None,
    /// A float, whose cotangent the pullback receives.
    Active,
    /// A float, whose cotangent is one in each run.
    Unit,
    /// A pointer; the forward pass also returns its delta.
    Ptr,
    /// An integer that carries float bits, whose cotangent the pullback receives.
    Bits(Shape),
}

/// A function together with the modes under which it is derived.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Variant {
    /// Which function.
    pub func: FuncKey,
    /// One per parameter.
    pub params: Vec<ParamMode>,
    /// One per result.
    pub results: Vec<ResultMode>,
    /// One per parameter, or nothing: what the caller has promised. Of a callee's parameters only
    /// that there is no cotangent ([`crate::memory::constant`]).
    pub promises: Vec<Promises>,
    /// Which memory is not written until its pullback has run.
    pub preserved: PreservedMemory,
    /// Its pullback may run beside others, as that of a fork's task: it adds to sums of its own
    /// (`brolga_runtime::forks::pending`).
    pub strand: bool,
}

impl Variant {
    /// The variant that a request asks for.
    pub fn of_request(request: &Request, sig: &Signature) -> Self {
        let params = request
            .args
            .iter()
            .map(|a| match a.activity {
                ArgActivity::Const => ParamMode::Const,
                ArgActivity::Active => ParamMode::Active,
                ArgActivity::Duplicated => {
                    let bits = a.elem != Some(Elem::Int);
                    ParamMode::Dup { sure: true, holds: Kinds::of_elem(a.elem), recycled: false, floats: false, bits }
                }
            })
            .collect();
        let results = sig
            .returns
            .iter()
            .enumerate()
            .map(|(i, r)| match (Shape::of_float(r.value_type), request.results.get(i).copied().unwrap_or_default()) {
                (None, ResultActivity::Duplicated) => ResultMode::Ptr,
                (None, _) | (_, ResultActivity::Const | ResultActivity::Duplicated) => ResultMode::None,
                (Some(_), ResultActivity::Unit) => ResultMode::Unit,
                (Some(_), ResultActivity::Active) => ResultMode::Active,
            })
            .collect();
        // No promise is the same as none for each parameter, so that a recursive call finds the
        // root's variant.
        let promised = request.args.iter().any(|a| a.promises != Promises::default());
        let promises = request.args.iter().filter(|_| promised).map(|a| a.promises).collect();
        Self { func: request.func, params, results, promises, preserved: PreservedMemory::NOTHING, strand: false }
    }

    /// Parameters that lead to memory which nothing else leads to, and of which the caller does not
    /// want to know what is there.
    pub fn scratch(&self) -> Vec<usize> {
        (0..self.promises.len()).filter(|&i| self.promises[i].noalias && self.promises[i].no_need).collect()
    }

    /// The variant that a call asks for.
    pub fn of_call(func: FuncKey, params: Vec<ParamMode>, results: Vec<ResultMode>) -> Self {
        Self { func, params, results, promises: vec![], preserved: PreservedMemory::NOTHING, strand: false }
    }

    /// Whether nothing is passed but addresses, numbers and floats. Of words that may be pieces
    /// of floats (an address that has lain in memory) a template checks that no cotangent arrives.
    pub fn takes_words(&self) -> bool {
        self.params.iter().all(|p| match p {
            ParamMode::Bits { shape, .. } => matches!(shape, Shape::Bytes { .. } | Shape::Demand { .. }),
            _ => true,
        })
    }

    /// Whether its pullback undoes a call, and so is told again what the call was given.
    pub fn is_undone(&self, program: &Program, options: &Options) -> bool {
        let driver = &program.funcs[self.func].driver;
        let of_words = self.takes_words() && self.results.iter().all(|r| *r == ResultMode::None);
        matches!(driver, Some(Driver::Inverse(_))) && options.keeps_states() && of_words
    }

    /// Signature of a pullback that undoes a call: after the segment, what the forward pass takes.
    pub fn undo_signature(&self, primal: &Signature) -> Signature {
        let mut s = self.pullback_signature(primal);
        let given = self.forward_signature(primal).params;
        s.params.extend_from_slice(&given[..given.len() - 1]);
        s
    }

    /// The variant under which a function is reached through a pointer: everything that its
    /// signature allows to be active is active, so that caller and callee agree without knowing
    /// each other.
    pub fn canonical(func: FuncKey, sig: &Signature) -> Self {
        Self::of_call(func, canonical_params(sig), canonical_results(sig))
    }

    /// Signature of the forward pass.
    pub fn forward_signature(&self, primal: &Signature) -> Signature {
        let mut s = Signature::new(DERIVED_CONV);
        s.params.extend(primal.params.iter().map(|p| AbiParam::new(p.value_type)));
        let deltas = self.params.iter().filter(|p| matches!(p, ParamMode::Dup { .. }));
        s.params.extend(deltas.map(|_| AbiParam::new(types::I64)));
        s.params.push(AbiParam::new(types::I64));
        s.returns.extend(primal.returns.iter().map(|p| AbiParam::new(p.value_type)));
        let deltas = self.results.iter().filter(|r| **r == ResultMode::Ptr);
        s.returns.extend(deltas.map(|_| AbiParam::new(types::I64)));
        s
    }

    /// Signature of the pullback.
    pub fn pullback_signature(&self, primal: &Signature) -> Signature {
        let mut s = Signature::new(DERIVED_CONV);
        s.params.push(AbiParam::new(types::I64));
        s.params.extend(self.result_shapes(primal).map(|(_, shape)| AbiParam::new(shape.ty())));
        s.returns.extend(self.param_shapes(primal).map(|(_, shape)| AbiParam::new(shape.ty())));
        s
    }

    /// Signature of the function of forward mode.
    pub fn tangent_signature(&self, primal: &Signature) -> Signature {
        let mut s = self.forward_signature(primal);
        // The tangent of a piece is of the piece's own type.
        let ty = |shape: Shape, primal_param: &AbiParam| match shape {
            Shape::Bytes { .. } => AbiParam::new(primal_param.value_type.as_int()),
            _ => AbiParam::new(shape.ty()),
        };
        s.params.extend(self.param_shapes(primal).map(|(i, shape)| ty(shape, &primal.params[i])));
        s.returns.extend(self.result_shapes(primal).map(|(i, shape)| ty(shape, &primal.returns[i])));
        s
    }

    /// Parameters whose cotangents the pullback returns, in order.
    pub fn param_shapes<'a>(&'a self, primal: &'a Signature) -> impl Iterator<Item = (usize, Shape)> + 'a {
        self.params.iter().enumerate().filter_map(|(i, p)| match *p {
            ParamMode::Active => Shape::of_float(primal.params[i].value_type).map(|s| (i, s)),
            ParamMode::Bits { shape, .. } => Some((i, shape)),
            ParamMode::Const | ParamMode::Opaque { .. } | ParamMode::Dup { .. } => None,
        })
    }

    /// Results whose cotangents the pullback receives, in order.
    pub fn result_shapes<'a>(&'a self, primal: &'a Signature) -> impl Iterator<Item = (usize, Shape)> + 'a {
        self.results.iter().enumerate().filter_map(|(i, r)| match *r {
            ResultMode::Active => Shape::of_float(primal.returns[i].value_type).map(|s| (i, s)),
            ResultMode::Bits(s) => Some((i, s)),
            ResultMode::None | ResultMode::Unit | ResultMode::Ptr => None,
        })
    }
}

/// Signature of a combined function: what both halves take, and the first `n_results` results.
pub fn combined_signature(forward: &Signature, pullback: &Signature, n_results: usize) -> Signature {
    let mut s = forward.clone();
    s.params.extend(pullback.params[1..].iter().copied());
    s.returns.truncate(n_results);
    s.returns.extend(pullback.returns.iter().copied());
    s
}

/// Calling convention of derived functions: it lets a function return as many values as it likes.
pub const DERIVED_CONV: CallConv = CallConv::Fast;

/// Stands for the calling convention of the host's C functions; lowering puts in the real one.
pub const HELPER_CONV: CallConv = CallConv::SystemV;

/// Modes of the parameters of a function that is called through a pointer.
pub fn canonical_params(sig: &Signature) -> Vec<ParamMode> {
    sig.params
        .iter()
        .map(|p| match Shape::of_float(p.value_type) {
            Some(_) => ParamMode::Active,
            None if p.value_type == types::I64 => {
                ParamMode::Dup { sure: false, holds: Kinds::NONE, recycled: false, floats: false, bits: true }
            }
            None => ParamMode::Const,
        })
        .collect()
}

/// Modes of the results of a function that is called through a pointer.
pub fn canonical_results(sig: &Signature) -> Vec<ResultMode> {
    sig.returns
        .iter()
        .map(|p| match Shape::of_float(p.value_type) {
            Some(_) => ResultMode::Active,
            None if p.value_type == types::I64 => ResultMode::Ptr,
            None => ResultMode::None,
        })
        .collect()
}

/// Which memory is not written from the start of a call until its pullback has run: what these
/// parameters lead to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PreservedMemory(u64);

impl PreservedMemory {
    /// None that is known.
    pub const NOTHING: Self = Self(0);

    /// What these parameters lead to.
    pub fn of_params(params: impl IntoIterator<Item = usize>) -> Self {
        Self::of(params.into_iter().filter(|p| *p < 63).fold(0, |set, p| set | bit(p)))
    }

    /// The same, and all that is older than the call and not a parameter's.
    #[must_use]
    pub fn and_the_rest(self) -> Self {
        Self::of(self.set() | OTHER)
    }

    /// The parameters.
    pub fn params(self) -> impl Iterator<Item = usize> {
        (0..63).filter(move |&i| self.0 >> i & 1 != 0)
    }

    pub(crate) fn of(set: Set) -> Self {
        Self((set & REST) as u64)
    }

    pub(crate) fn set(self) -> Set {
        self.0.into()
    }

    /// Whether nothing is known to be kept.
    pub fn is_nothing(self) -> bool {
        self.0 == 0
    }

    /// Whether everything is kept that is older than the call and not a parameter's.
    pub fn the_rest(self) -> bool {
        self.set() & OTHER != 0
    }

    /// Whether an address leads to kept memory, and nowhere else.
    pub(crate) fn has(self, leads_to: Set) -> bool {
        leads_to != 0 && leads_to & !self.set() == 0
    }
}

/// What stands for a parameter. In plain programs the first is like any other; where there is an
/// instance, that is no object.
pub(crate) fn bit(param: usize) -> Set {
    if param == 0 { 1 } else { points_to_set::bit(param) }
}
