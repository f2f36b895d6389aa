//! The spec of an embedder: activities, and the shape of the function that comes out.
//!
//! **Question.** A [`Request`] says how a function is differentiated. How is the derivative called:
//! which results does it return, and in which form?
//!
//! **Answer.** A [`Spec`] says so. Function and derivative are CLIF of the same module
//! (`brolga_transform::embed`, `brolga_module::AdModule`).
//!
//! | | parameters | results |
//! |---|---|---|
//! | [`Derivative::Gradient`] | `p…`, the shadow directly after each duplicated `p`; a seed for each active result; the workspace, if there is one | `r…`, the cotangent of each active `p`; the status, if there is a workspace |
//! | [`Derivative::Pair`] | forward pass: `p…` with shadows, the workspace; pullback: a seed for each active result, the workspace | forward pass: `r…`, the status; pullback: the cotangent of each active `p`, the status |
//! | [`Derivative::Tangent`] | `p…`, the tangent or the shadow directly after each dual `p`; the workspace, if there is one | `r…`, the tangent of each dual result; the status, if there is a workspace |
//!
//! A tangent has a workspace where integers may be parts of floats. A workspace has a pointer and a
//! number of bytes; where it may grow ([`Spec::growing`]), a function and its context follow.
//!
//! **Cost.** None at run time of the spec itself. Where none of the primal's results is returned by
//! a gradient, what only they need is not computed ([`Spec::mode`]).
//!
//! **Source.** The activity table is Enzyme's, in the words of `std::autodiff`.

use cranelift_codegen::ir::Signature;

use crate::{ArgSpec, Elem, FuncKey, Mode, Request, ResultActivity};

/// Which derivative, as functions of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Derivative {
    /// Reverse mode in one function.
    Gradient,
    /// Reverse mode in two functions: a forward pass that records in memory of the caller's, and a
    /// pullback that may be called later, or several times.
    Pair,
    /// Forward mode: results and their tangents along one direction.
    Tangent,
}

/// How one parameter takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParamActivity {
    /// Not differentiated. A pointer has no shadow.
    Const,
    /// A float by value, in reverse mode: the derivative returns its cotangent.
    Active,
    /// A pointer, in reverse mode: the pointer to its shadow stands directly behind it. Cotangents
    /// of what the function reads are added there; those of what it writes are taken from there,
    /// and zeros are left.
    Duplicated,
    /// The same, and the caller does not read what the function has written behind the pointer,
    /// which may be anything. It says nothing of aliasing.
    DuplicatedOnly,
    /// In forward mode a float with its tangent, or a pointer with the pointer to its shadow,
    /// which holds tangents, directly after it.
    Dual,
    /// The same, and the caller does not read what the function has written behind a pointer.
    DualOnly,
}

/// How one result takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReturnActivity {
    /// Returned, and not differentiated. It has no seed.
    Const,
    /// Not differentiated, and not returned.
    Omitted,
    /// A float in reverse mode: returned, with a seed.
    Active,
    /// The same, and not returned.
    ActiveOnly,
    /// A pointer that is returned with the pointer to its shadow directly behind it.
    Duplicated,
    /// A float in forward mode: returned, with its tangent.
    Dual,
    /// The same without the float.
    DualOnly,
}

impl ReturnActivity {
    /// Whether the primal's result is returned.
    pub fn is_returned(self) -> bool {
        !matches!(self, Self::Omitted | Self::ActiveOnly | Self::DualOnly)
    }
}

/// One parameter of a [`Spec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParamSpec {
    /// How it takes part.
    pub activity: ParamActivity,
    /// What a pointer points at, if the caller knows, and nothing else lies there: not for a struct
    /// of floats and integers.
    pub elem: Option<Elem>,
    /// The memory behind a pointer is reached through no other pointer while the function runs
    /// (C's `restrict`). If that does not hold, numbers may be wrong.
    pub noalias: bool,
    /// So many floats behind a pointer are an output: see [`ParamSpec::consumed`].
    pub consumed: Option<FloatCount>,
}

/// How many floats lie behind a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatCount {
    /// So many.
    Fixed(u32),
    /// As many as the integer parameter of this number says; none if that is negative.
    Param(usize),
}

impl ParamSpec {
    /// The same, with the promise [`noalias`](ParamSpec::noalias).
    #[must_use]
    pub fn noalias(self) -> Self {
        Self { noalias: true, ..self }
    }

    /// The same, with what the pointer points at.
    #[must_use]
    pub fn of(self, elem: Elem) -> Self {
        Self { elem: Some(elem), ..self }
    }

    /// The same, where the first floats behind the pointer are an output: what was there before the
    /// call has no derivative. So their seeds are consumed, also where the function only adds to
    /// them (`*p += x`): the derivative leaves zeros in the shadow of all of them. Without it the
    /// shadow ends as the cotangent of what was there before the call, which is the seed where the
    /// function only adds to a place, or leaves it alone.
    ///
    /// ```
    /// # use brolga_ir::Elem;
    /// # use brolga_ir::spec::{FloatCount, ParamActivity::*, ParamSpec, Spec};
    /// // void f(const double *x, int64_t n, double *sums): adds to the n numbers at `sums`.
    /// let sums = ParamSpec::from(Duplicated).consumed(Elem::F64, FloatCount::Param(1));
    /// let spec = Spec::gradient([Duplicated.into(), Const.into(), sums]);
    /// ```
    #[must_use]
    pub fn consumed(self, elem: Elem, count: FloatCount) -> Self {
        Self { elem: Some(elem), consumed: Some(count), ..self }
    }
}

impl From<ParamActivity> for ParamSpec {
    fn from(activity: ParamActivity) -> Self {
        Self { activity, elem: None, noalias: false, consumed: None }
    }
}

/// A derivative that an embedder asks for. See the module documentation.
///
/// ```
/// # use brolga_ir::spec::{ParamActivity::*, ParamSpec, ReturnActivity, Spec};
/// // double f(const double *x, double a): the gradient without the value.
/// let spec = Spec::gradient([Duplicated, Active]).results([ReturnActivity::ActiveOnly]);
/// // The same with a promise.
/// let spec = Spec::gradient([ParamSpec::from(Duplicated).noalias(), Active.into()]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// Which derivative.
    pub derivative: Derivative,
    /// One for each parameter.
    pub params: Vec<ParamSpec>,
    /// One for each result. For those at the end that are missing: floats are active or dual, all
    /// others constant.
    pub returns: Vec<ReturnActivity>,
    /// Results are written to a struct, whose address is the last parameter, even where the calling
    /// convention could return them. C can call such a function.
    pub struct_of_results: bool,
    /// A cotangent of zero contributes zero, even where a partial derivative is infinite or NaN
    /// ([`Options::strong_zero`](crate::Options::strong_zero)).
    pub strong_zero: bool,
    /// A workspace of which nothing says how long it has to be may grow while the derivative runs.
    pub growing: bool,
}

impl Spec {
    fn new<I: Into<ParamSpec>>(derivative: Derivative, params: impl IntoIterator<Item = I>) -> Self {
        let params = params.into_iter().map(Into::into).collect();
        Self { derivative, params, returns: vec![], struct_of_results: false, strong_zero: true, growing: false }
    }

    /// Reverse mode in one function.
    pub fn gradient<I: Into<ParamSpec>>(params: impl IntoIterator<Item = I>) -> Self {
        Self::new(Derivative::Gradient, params)
    }

    /// Reverse mode in two functions.
    pub fn pair<I: Into<ParamSpec>>(params: impl IntoIterator<Item = I>) -> Self {
        Self::new(Derivative::Pair, params)
    }

    /// Forward mode.
    pub fn tangent<I: Into<ParamSpec>>(params: impl IntoIterator<Item = I>) -> Self {
        Self::new(Derivative::Tangent, params)
    }

    /// The same, with these results.
    #[must_use]
    pub fn results(self, returns: impl IntoIterator<Item = ReturnActivity>) -> Self {
        Self { returns: returns.into_iter().collect(), ..self }
    }

    /// The same, with results in a struct: see [`Spec::struct_of_results`].
    #[must_use]
    pub fn in_struct(self) -> Self {
        Self { struct_of_results: true, ..self }
    }

    /// The same, where NaN that goes in comes out again: see [`Spec::strong_zero`].
    #[must_use]
    pub fn weak_zero(self) -> Self {
        Self { strong_zero: false, ..self }
    }

    /// The same, whose workspace may grow. Where nothing says how long it has to be, a function and
    /// a context are parameters, too, after the number of bytes:
    ///
    /// ```c
    /// int64_t grow(void *context, int64_t bytes)
    /// ```
    ///
    /// It is called where a record does not fit, with the bytes that the workspace has to have at
    /// least, from its beginning, and says how many it has then. Memory stays where it is, so this
    /// is for what has room after it: pages that are reserved, the end of an arena. If it answers
    /// less than what is asked for, the run ends with the status 1. The pullback of a pair calls
    /// the function that the forward pass was given.
    ///
    /// ```
    /// # use brolga_ir::spec::{ParamActivity::*, Spec};
    /// // double f(double, int64_t) that records in a loop:
    /// // f_gradient(p0, p1, seed0, workspace, workspace_bytes, grow, grow_context)
    /// let spec = Spec::gradient([Active, Const]).growing();
    /// ```
    #[must_use]
    pub fn growing(self) -> Self {
        Self { growing: true, ..self }
    }

    /// The mode of derivation: without the primal's results, if none is returned.
    pub fn mode(&self, n_results: usize) -> Mode {
        match self.derivative {
            Derivative::Pair => Mode::Split,
            Derivative::Tangent => Mode::Tangent,
            Derivative::Gradient if (0..n_results).any(|i| self.returns.get(i).is_none_or(|o| o.is_returned())) => {
                Mode::Combined
            }
            Derivative::Gradient => Mode::Gradient,
        }
    }

    /// What is asked of the derivation.
    pub fn request(&self, func: FuncKey, primal: &Signature) -> Request {
        let arg = |(i, param): (usize, &ParamSpec)| {
            let is_float = primal.params.get(i).is_some_and(|p| p.value_type.lane_type().is_float());
            let mut arg = match param.activity {
                ParamActivity::Const => ArgSpec::CONST,
                ParamActivity::Active => ArgSpec::ACTIVE,
                ParamActivity::Dual | ParamActivity::DualOnly if is_float => ArgSpec::ACTIVE,
                ParamActivity::Duplicated | ParamActivity::Dual => ArgSpec::DUPLICATED,
                ParamActivity::DuplicatedOnly | ParamActivity::DualOnly => ArgSpec::DUPLICATED.no_need(),
            };
            arg.elem = param.elem;
            arg.promises.noalias = param.noalias;
            arg
        };
        let results = self.returns.iter().map(|activity| match activity {
            ReturnActivity::Const | ReturnActivity::Omitted => ResultActivity::Const,
            ReturnActivity::Duplicated => ResultActivity::Duplicated,
            _ => ResultActivity::Active,
        });
        Request { func, args: self.params.iter().enumerate().map(arg).collect(), results: results.collect() }
    }
}
