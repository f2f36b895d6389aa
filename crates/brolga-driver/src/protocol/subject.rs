//! Subject of the protocol: a call under one set of options, run once more, by two threads, with
//! other seeds.
//!
//! **Question.** Does one rule give the same whenever and however it runs?
//!
//! **Answer.** A forward run is compared with the primal, and memory with what the memory mode
//! promises; its pullback is called three times, and compared with fresh runs. Two threads run the
//! rule at once. Seeds and initial shadows are added up, and so must gradients be.
//!
//! **Cost.** Eight runs of the derivative, two of them on threads, two pullbacks more, and one run
//! of the primal. Where runs leave traces in data objects, each has a rule that is derived for it,
//! and there are no threads.

use brolga::{DerivedRule, Error, MemoryMode, Options, Program, Request};

use super::unmoored::{RelocatedView, describe, run_anywhere, same_contents};
use crate::bind::{BoundArg, Invocation};
use crate::compare::close;
use crate::memory::Memory;
use crate::noise::Noise;
use crate::run::{Outcome, collect, gradient, items, primal_in};
use crate::value::{Num, is_float, to_data};
use brolga_ir::panics::catch;

/// Differentiate; a panic inside is the bug that it is, but does not end the process.
pub fn derive(program: &Program, request: &Request, options: &Options) -> Result<DerivedRule, Error> {
    catch(|| DerivedRule::new(program, request, options))
        .unwrap_or_else(|message| Err(Error::Internal { stage: "derive", message }))
}

/// How to get a rule for a set of options. Nearly always [`derive()`]; tests of the tests pass
/// wrong rules on purpose.
pub type Deriver<'a> = &'a dyn Fn(&Options) -> Result<DerivedRule, Error>;

/// A call under one set of options.
pub(super) struct Subject<'a> {
    derive: Deriver<'a>,
    call: &'a Invocation,
    options: Options,
    /// The rule, unless runs leave traces in its data objects.
    stateless: Option<DerivedRule>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(
        program: &Program,
        call: &'a Invocation,
        options: Options,
        derive: Deriver<'a>,
    ) -> Result<Self, Error> {
        let rule = derive(&options)?;
        let stateful = program.has_writable_data();
        Ok(Self { derive, call, options, stateless: (!stateful).then_some(rule) })
    }

    /// A rule whose data objects are as at the start.
    fn rule(&self) -> Result<DerivedRule, Error> {
        match &self.stateless {
            Some(rule) => Ok(rule.clone()),
            None => (self.derive)(&self.options),
        }
    }

    pub(super) fn run(&self, found: &mut Vec<String>, tol: f64) -> Result<Outcome, Error> {
        let first = self.one_run(found)?;
        let second = run_anywhere(&self.rule()?, self.call)?;
        // Unless there are data objects, both runs are of the same compiled code.
        if !second.same_gradient(&first) || !second.same_value(&first) {
            found.push("a second run gives other bits".to_owned());
        }
        self.threads(&first, found);
        self.linear(&first, found, tol)?;
        Ok(first)
    }

    /// One forward run and three pullbacks, watched closely.
    pub(super) fn one_run(&self, found: &mut Vec<String>) -> Result<Outcome, Error> {
        let call = self.call;
        let mut plain = Memory::new(call)?;
        let value = primal_in(&self.rule()?, call, &mut plain)?;
        let value = RelocatedView::new(call, &plain).items(&value);
        let after_primal = RelocatedView::new(call, &plain).contents();

        let rule = self.rule()?;
        let mut memory = Memory::new(call)?;
        let before = RelocatedView::new(call, &memory).contents();
        // SAFETY: as in `run::gradient_in`.
        let (results, mut pullback) = unsafe { rule.forward(&memory.arguments()) }?;
        let forward_value = RelocatedView::new(call, &memory).items(&items(call, &results));
        if !(value.len() == forward_value.len() && value.iter().zip(&forward_value).all(|(a, b)| a.same_bits(b))) {
            found.push(format!("the forward pass returns {forward_value:?}, the primal {value:?}"));
        }
        same_contents("the forward pass", &after_primal, &RelocatedView::new(call, &memory).contents(), found);
        // SAFETY: `memory` is alive.
        let cotangents = unsafe { pullback.call(&call.seeds) }?;
        let first = collect(call, &memory, &results, &cotangents, pullback.tape_bytes());
        let first = RelocatedView::new(call, &memory).outcome(&first);
        let promised = if self.options.memory == MemoryMode::Leave { &after_primal } else { &before };
        same_contents("the pullback", promised, &RelocatedView::new(call, &memory).contents(), found);

        let other = reseeded(call, 2);
        for (what, call) in [("with other seeds", &other), ("with the first seeds again", call)] {
            memory.reset_shadows(call);
            // SAFETY: `memory` is alive.
            let cotangents = unsafe { pullback.call(&call.seeds) }?;
            let repeated = collect(call, &memory, &results, &cotangents, pullback.tape_bytes());
            let repeated = RelocatedView::new(call, &memory).outcome(&repeated);
            let fresh = run_anywhere(&self.rule()?, call)?;
            if !repeated.same_gradient(&fresh) {
                found.push(format!(
                    "a pullback called again {what} gives {}, a fresh run {}",
                    describe(&repeated),
                    describe(&fresh)
                ));
            }
            same_contents("a repeated pullback", promised, &RelocatedView::new(call, &memory).contents(), found);
        }
        if let Some(damage) = memory.damage() {
            found.push(damage);
        }
        Ok(first)
    }

    /// Two threads, one rule.
    fn threads(&self, first: &Outcome, found: &mut Vec<String>) {
        let (Some(rule), call) = (&self.stateless, self.call) else { return };
        let work = || catch(|| run_anywhere(rule, call));
        let outcomes = std::thread::scope(|s| {
            let handles = [s.spawn(work), s.spawn(work)];
            handles.map(|h| h.join().unwrap_or_else(|_| Err("a thread died".to_owned())))
        });
        for outcome in outcomes {
            match outcome {
                Ok(Ok(o)) if o.same_gradient(first) && o.same_value(first) => {}
                Ok(Ok(o)) => found.push(format!(
                    "two threads at once: one gets {}, a run alone {}",
                    describe(&o),
                    describe(first)
                )),
                Ok(Err(e)) => found.push(format!("two threads at once: {e}")),
                Err(panic) => found.push(format!("two threads at once: panic: {panic}")),
            }
        }
    }

    /// G(s + r) = G(s) + G(r), for seeds and initial shadows together.
    fn linear(&self, first: &Outcome, found: &mut Vec<String>, tol: f64) -> Result<(), Error> {
        let other = reseeded(self.call, 3);
        let sum = added(self.call, &other);
        let g_other = gradient(&self.rule()?, &other)?;
        let g_sum = gradient(&self.rule()?, &sum)?;
        for (arg, ((a, b), c)) in first.gradient.iter().zip(&g_other.gradient).zip(&g_sum.gradient).enumerate() {
            let (Some(a), Some(b), Some(c)) = (a, b, c) else { continue };
            for (i, ((a, b), c)) in a.nums().iter().zip(b.nums()).zip(c.nums()).enumerate() {
                let (a, b, c) = (a.as_f64(), b.as_f64(), c.as_f64());
                let scale = 1.0 + a.abs().max(b.abs());
                // Infinite slopes are not linear: a zero seed takes them out altogether.
                if a.is_finite() && b.is_finite() && c.is_finite() && !close(c / scale, (a + b) / scale, tol) {
                    found.push(format!(
                        "argument {arg}, element {i}: not linear in seeds and shadows: {a:?} + {b:?} is not {c:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The call with other seeds and other initial shadows.
pub fn reseeded(call: &Invocation, seed: u64) -> Invocation {
    let mut noise = Noise::new(seed);
    let mut out = call.clone();
    for (s, ty) in out.seeds.iter_mut().zip(&call.returns) {
        if is_float(*ty) {
            *s = to_data(*ty, |_| Num::F64(noise.unit())).unwrap_or_else(|| s.clone());
        }
    }
    for arg in &mut out.args {
        if let BoundArg::Buffer { elem, shadow, .. } = arg
            && elem.is_float()
        {
            let elem = *elem;
            shadow.chunks_exact_mut(elem.bytes()).for_each(|b| Num::F64(noise.unit()).encode(elem, b));
        }
    }
    out
}

/// The call with the sum of the seeds and initial shadows of two.
fn added(a: &Invocation, b: &Invocation) -> Invocation {
    let mut out = a.clone();
    for ((s, t), ty) in out.seeds.iter_mut().zip(&b.seeds).zip(&a.returns) {
        if is_float(*ty) {
            let (x, y) = (crate::value::from_data(s, *ty), crate::value::from_data(t, *ty));
            let sum = to_data(*ty, |i| Num::F64(x.nums()[i].as_f64() + y.nums()[i].as_f64()));
            *s = sum.unwrap_or_else(|| s.clone());
        }
    }
    for (x, y) in out.args.iter_mut().zip(&b.args) {
        if let (BoundArg::Buffer { elem, shadow, .. }, BoundArg::Buffer { shadow: other, .. }) = (x, y)
            && elem.is_float()
        {
            let n = elem.bytes();
            for (s, t) in shadow.chunks_exact_mut(n).zip(other.chunks_exact(n)) {
                let sum = Num::decode(*elem, s).as_f64() + Num::decode(*elem, t).as_f64();
                Num::F64(sum).encode(*elem, s);
            }
        }
    }
    out
}
