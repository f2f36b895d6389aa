//! Adjoints of users: what a call of a function means for derivatives, as functions.
//!
//! **Question.** `%solve(a, b, x, n)` reads and writes memory, or calls what no derivation looks
//! into. How does its reverse run?
//!
//! **Answer.** By a function of the user's, the *adjoint*, which is called in the reverse half with
//! the arguments of the call, the shadows of its pointers, and the cotangents of its results. It
//! adds to shadows, and returns the cotangents of float arguments. An *augmented* function may run
//! in place of the call: it returns what the function returns, and a *record*, a number or an
//! address, which the adjoint is given.
//!
//! ```text
//! norm:   x, n => adjoint norm__adjoint(x, dx, n, seed)
//! mysin:  x => adjoint mysin__adjoint(x, seed) -> dx tangent mysin__tangent(x, dx)
//! solve:  a, b, x, n => adjoint solve__adjoint(a, da, db, x, dx, n, record)
//!                       after solve__augmented(a, b, x, n, overwritten)
//! ```
//!
//! | argument | |
//! |---|---|
//! | `x` | the argument of the call |
//! | `dx` | of a pointer its shadow, null if it has none; in a tangent, of a float its tangent |
//! | `seed`, `seed1`, … | the cotangent of the first result, of the second, … |
//! | `record` | what the augmented function has returned last |
//! | `overwritten` | bit *i*: behind argument *i* there may be something else by then |
//! | `wanted` | bit *i*: the cotangent of argument *i* is asked for |
//!
//! **Contract.** Pointers lead to floats of one type, or to what has no derivative. The adjoint
//! takes the cotangents of what the function overwrites out of its shadows, leaves zeros there, and
//! adds to those of what it reads. What an imported function's rule does not list after `reads`
//! may be written. An imported function may exchange floats with elsewhere, another process say,
//! unless the rule says `alone`. A tangent returns the function's results and then a
//! tangent for each float result.
//!
//! **Errors.** [`AdjointRule::fits`] says what of a rule does not fit the function's signature.
//!
//! **Cost.** A call of the adjoint for each call of the function that something active goes
//! through, or that may exchange floats with elsewhere; the record is one word on the tape.
//!
//! **Source.** Enzyme's custom rules (`needed` and `overwritten`), and JAX's `custom_vjp`.

use crate::sig::Ty;

/// An argument of a function of a rule. Numbers count the function's parameters and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdjointArg {
    /// An argument of the call.
    Primal(usize),
    /// The shadow of a pointer, or the tangent of a float.
    Derivative(usize),
    /// The cotangent of a result.
    Seed(usize),
    /// What the augmented function has returned last.
    Record,
    /// Of which arguments the memory may be another one by then.
    Overwritten,
    /// Of which arguments the cotangent is asked for.
    Wanted,
}

/// A function of a rule, and what it is called with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AdjointCall {
    /// Its name.
    pub symbol: String,
    /// Its arguments.
    pub args: Vec<AdjointArg>,
}

/// An adjoint of a user's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AdjointRule {
    /// How many parameters the function has.
    pub params: usize,
    /// The adjoint.
    pub reverse: AdjointCall,
    /// The parameters whose cotangents it returns, in its order.
    pub cotangents: Vec<usize>,
    /// What runs in place of the function in the forward pass.
    pub augmented: Option<AdjointCall>,
    /// What runs in place of it in forward mode.
    pub tangent: Option<AdjointCall>,
    /// What pointers lead to, where the function has no body that says so.
    pub elem: Ty,
    /// What an imported function does depends on its arguments alone, and shows nowhere but in its
    /// results and behind its pointers. Otherwise it may exchange floats with elsewhere (another
    /// process), so its adjoint runs even where nothing active is seen to go in or come out.
    pub alone: bool,
    /// Parameters behind which the function writes nothing, where it has no body that says so.
    pub reads: Vec<usize>,
}

impl AdjointRule {
    /// Whether one of its functions is given the shadow of a pointer, or the tangent of a float.
    pub fn has_derivative(&self, i: usize) -> bool {
        self.calls().any(|c| c.args.contains(&AdjointArg::Derivative(i)))
    }

    /// Its functions.
    pub fn calls(&self) -> impl Iterator<Item = &AdjointCall> {
        [Some(&self.reverse), self.augmented.as_ref(), self.tangent.as_ref()].into_iter().flatten()
    }

    /// Whether the augmented function returns a record.
    pub fn has_record(&self) -> bool {
        self.augmented.is_some() && self.reverse.args.contains(&AdjointArg::Record)
    }

    /// Types of the parameters and results of one of its functions, for a function with these.
    pub fn signature(&self, call: &AdjointCall, params: &[Ty], rets: &[Ty]) -> (Vec<Ty>, Vec<Ty>) {
        let ty = |arg: &AdjointArg| match *arg {
            AdjointArg::Primal(i) | AdjointArg::Derivative(i) => params[i],
            AdjointArg::Seed(k) => rets[k],
            AdjointArg::Record | AdjointArg::Overwritten | AdjointArg::Wanted => Ty::I64,
        };
        let takes = call.args.iter().map(ty).collect();
        let is = |of: &Option<AdjointCall>| of.as_ref().is_some_and(|c| std::ptr::eq(c, call));
        let gives = if is(&self.augmented) {
            rets.iter().copied().chain(Some(Ty::I64).filter(|_| self.has_record())).collect()
        } else if is(&self.tangent) {
            rets.iter().copied().chain(rets.iter().copied().filter(|t| t.is_float())).collect()
        } else {
            self.cotangents.iter().map(|&i| params[i]).collect()
        };
        (takes, gives)
    }

    /// Whether the rule is one for a function with these parameters and results.
    ///
    /// # Errors
    /// What does not fit.
    pub fn fits(&self, symbol: &str, params: &[Ty], rets: &[Ty]) -> Result<(), String> {
        if params.len() != self.params {
            let n = params.len();
            return Err(format!("%{symbol} has {n} parameters, and the rule is of a function with {}", self.params));
        }
        if params.len() > 63 {
            return Err(format!("%{symbol} has {} parameters, and a rule speaks of 63", params.len()));
        }
        let index = |arg: &AdjointArg| match *arg {
            AdjointArg::Primal(i) | AdjointArg::Derivative(i) => Some(i),
            _ => None,
        };
        let named = self.calls().flat_map(|c| c.args.iter().filter_map(index));
        if let Some(i) = named.chain(self.cotangents.iter().chain(&self.reads).copied()).find(|&i| i >= params.len()) {
            return Err(format!("the rule speaks of parameter {i}, which %{symbol} does not have"));
        }
        if let Some(i) = self.cotangents.iter().find(|&&i| !params[i].is_float()) {
            return Err(format!("parameter {i} of %{symbol} is no float, and has no cotangent that is returned"));
        }
        if let Some(i) = self.reads.iter().find(|&&i| params[i] != Ty::I64) {
            return Err(format!("parameter {i} of %{symbol} is no pointer, behind which something could be read"));
        }
        for call in self.calls() {
            let forward = self.tangent.as_ref().is_some_and(|t| std::ptr::eq(t, call));
            let reverse = std::ptr::eq(&self.reverse, call);
            for arg in &call.args {
                let wrong = match *arg {
                    AdjointArg::Derivative(i) if params[i].is_float() && !forward => {
                        format!("parameter {i} of %{symbol} is a float: its cotangent is returned (`-> …`)")
                    }
                    AdjointArg::Derivative(i) if !params[i].is_float() && params[i] != Ty::I64 => {
                        format!("parameter {i} of %{symbol} is neither a float nor a pointer")
                    }
                    AdjointArg::Seed(k) if !rets.get(k).is_some_and(|t| t.is_float()) => {
                        format!("result {k} of %{symbol} is no float")
                    }
                    AdjointArg::Seed(_) if !reverse => "a seed is an argument of the adjoint".to_owned(),
                    AdjointArg::Record if !reverse || self.augmented.is_none() => {
                        "a record is what an augmented function (`after …`) returns to the adjoint".to_owned()
                    }
                    AdjointArg::Overwritten | AdjointArg::Wanted if forward => {
                        "forward mode knows nothing of `overwritten` and `wanted`".to_owned()
                    }
                    _ => continue,
                };
                return Err(format!("{wrong} (%{})", call.symbol));
            }
        }
        Ok(())
    }
}
