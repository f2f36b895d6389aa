//! What the gradient of a call costs: any call of any file, CLIF or WebAssembly, as the driver
//! reads it.
//!
//! Primal and gradient take turns in one memory, and the minimum of each counts; native code and an
//! adjoint written by hand, if there are any, have their turns in memory of their own. Before every
//! call the buffers get their contents again, outside of the time that is taken, since a program
//! may overwrite them; a gradient's time begins with putting the shadows to what they are at first.
//! Primal and gradient go through [`DerivedRule`], which catches traps, and the adjoint through
//! what does for programs that are not differentiated.
//!
//! A call that leaves something behind (a block that is never freed) cannot be repeated for ever:
//! one that fails gets fresh memory, and only if it fails there as well, that is an error.

use std::time::{Duration, Instant};

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, DerivedRule, Error, Program};
use brolga_driver::{BoundArg, Invocation, Item, Memory, run};

use crate::by_hand::ByHand;
use crate::measure::Effort;
use crate::prepared::options;
use crate::{Failure, How};

/// What one call costs.
#[derive(Clone, Debug)]
pub struct CallRow {
    /// What was called.
    pub name: String,
    /// One call of the same program as native code, if there is one.
    pub native_ns: Option<f64>,
    /// One call of the primal.
    pub primal_ns: f64,
    /// One gradient.
    pub gradient_ns: f64,
    /// One call of the adjoint written by hand, if there is one.
    pub hand_ns: Option<f64>,
    /// Bytes that are recorded, at most at a time.
    pub tape_bytes: usize,
    /// From the program to derived functions in CLIF.
    pub differentiate_us: f64,
    /// From there to machine code, the primal included.
    pub compile_us: f64,
}

/// A call with everything that it takes to repeat it.
pub struct Repeated<'a> {
    call: &'a Invocation,
    rule: DerivedRule,
    memory: Memory,
    /// What to pass to primal and derivative.
    values: Vec<DataValue>,
    args: Vec<Arg>,
    results: Vec<DataValue>,
    cotangents: Vec<Option<DataValue>>,
    tape_bytes: usize,
    differentiate: Duration,
    compile: Duration,
    /// What it takes to look at the clock twice.
    clock: Duration,
}

impl<'a> Repeated<'a> {
    /// Differentiate and compile, and make memory.
    ///
    /// # Errors
    /// What the program or the host refuses.
    pub fn new(program: &Program, call: &'a Invocation, how: How) -> Result<Self, Error> {
        let (request, options) = (call.request(), brolga::Options { memory: call.memory, ..options(how) });
        let isa = brolga::jit::host_isa(&options)?;
        let start = Instant::now();
        let derivation = brolga_transform::derive(program, &request, &options, &*isa)?;
        let differentiate = start.elapsed();
        let start = Instant::now();
        let rule = DerivedRule::from_derivation(derivation, &request, &options)?;
        let compile = start.elapsed();
        let memory = Memory::new(call)?;
        let (values, args) = (memory.values(), memory.arguments());
        let (results, cotangents) = (Vec::new(), Vec::new());
        let clock = (0..100).map(|_| Instant::now().elapsed()).min().unwrap_or_default();
        Ok(Self { call, rule, memory, values, args, results, cotangents, tape_bytes: 0, differentiate, compile, clock })
    }

    /// Buffers as they are written in the call.
    fn reset(&mut self) {
        for (i, arg) in self.call.args.iter().enumerate() {
            if let (BoundArg::Buffer { data, .. }, Some(buffer)) = (arg, self.memory.buffer_mut(i)) {
                buffer.primal.bytes_mut().copy_from_slice(data);
            }
        }
    }

    fn renew(&mut self) -> Result<(), Error> {
        self.memory = Memory::new(self.call)?;
        (self.values, self.args) = (self.memory.values(), self.memory.arguments());
        Ok(())
    }

    /// How long `once` takes, in fresh memory if need be.
    fn time(&mut self, once: impl Fn(&mut Self) -> Result<(), Error>) -> Result<Duration, Error> {
        for fresh in [false, true] {
            if fresh {
                self.renew()?;
            }
            self.reset();
            let start = Instant::now();
            match once(self) {
                Ok(()) => return Ok(start.elapsed().saturating_sub(self.clock)),
                Err(e) if fresh => return Err(e),
                Err(_) => {}
            }
        }
        unreachable!("the second try returns")
    }

    /// One call of the primal.
    ///
    /// # Errors
    /// If it traps.
    pub fn primal(&mut self) -> Result<Duration, Error> {
        // SAFETY: pointers are to live blocks of our memory; whether the program stays inside is
        // the file's business.
        self.time(|r| unsafe { r.rule.primal_into(&r.values, &mut r.results) })
    }

    /// One gradient.
    ///
    /// # Errors
    /// If it traps.
    pub fn gradient(&mut self) -> Result<Duration, Error> {
        self.time(|r| {
            for (i, arg) in r.call.args.iter().enumerate() {
                if let (BoundArg::Buffer { shadow, .. }, Some(buffer)) = (arg, r.memory.buffer_mut(i)) {
                    buffer.shadow.bytes_mut().copy_from_slice(shadow);
                }
            }
            // SAFETY: as in `primal`; every shadow is as large as its primal.
            let run = unsafe { r.rule.gradient(&r.args, &r.call.seeds, &mut r.results, &mut r.cotangents) }?;
            r.tape_bytes = run.tape_bytes();
            Ok(())
        })
    }

    /// What the last gradient has left: by argument, cotangents of what is active.
    pub fn elements(&self) -> Vec<Option<Vec<f64>>> {
        let all = run::collect(self.call, &self.memory, &self.results, &self.cotangents, self.tape_bytes).gradient;
        let floats = |item: Item| item.nums().iter().map(|x| x.as_f64()).collect();
        all.into_iter().map(|item| item.map(floats)).collect()
    }

    /// Bytes that the last gradient recorded.
    pub fn tape_bytes(&self) -> usize {
        self.tape_bytes
    }

    /// What the last call returned.
    pub fn results(&self) -> &[DataValue] {
        &self.results
    }
}

/// Something else that is timed in turns with a call.
pub trait Beside {
    /// Run it once: how long it took, and the first result as a float, if it is one.
    fn run(&mut self) -> (Duration, f64);
}

/// Measure a call; `beside` is the same program as native code, `hand` its adjoint written by hand.
///
/// # Errors
/// [`Failure::Call`]; native code has to give the same number, to nine digits, and the adjoint
/// every element of the gradient.
pub fn measure(
    name: &str,
    program: &Program,
    call: &Invocation,
    mut beside: Option<&mut dyn Beside>,
    mut hand: Option<&mut ByHand>,
    how: How,
    effort: Effort,
) -> Result<CallRow, Failure> {
    let failed = |e: Error| Failure::Call { name: name.to_owned(), message: e.to_string() };
    let mut r = Repeated::new(program, call, how).map_err(failed)?;
    if let Some(hand) = &mut hand {
        r.gradient().map_err(failed)?;
        hand.run().map_err(failed)?;
        hand.compare(&r.elements())?;
    }
    let [mut native, mut primal, mut gradient, mut by_hand] = [Duration::MAX; 4];
    let start = Instant::now();
    let mut round = 0;
    while round < effort.rounds.min(5) || start.elapsed() < effort.budget {
        primal = primal.min(r.primal().map_err(failed)?);
        let value = match r.results() {
            [DataValue::F64(x), ..] => Some(x.as_f64()),
            _ => None,
        };
        gradient = gradient.min(r.gradient().map_err(failed)?);
        if let Some(hand) = &mut hand {
            by_hand = by_hand.min(hand.run().map_err(failed)?);
        }
        if let Some(beside) = &mut beside {
            let (time, same) = beside.run();
            native = native.min(time);
            // False where either is NaN.
            let agrees = |value: f64| (value - same).abs() <= 1e-9 * (1.0 + value.abs());
            if let Some(value) = value.filter(|v| !agrees(*v)) {
                let message = format!("the value is {value}, but {same} in native code");
                return Err(Failure::Call { name: name.to_owned(), message });
            }
        }
        round += 1;
    }
    let ns = |d: Duration| d.as_nanos() as f64;
    Ok(CallRow {
        name: name.to_owned(),
        native_ns: beside.is_some().then_some(ns(native)),
        primal_ns: ns(primal).max(1.0),
        gradient_ns: ns(gradient).max(1.0),
        hand_ns: hand.is_some().then_some(ns(by_hand).max(1.0)),
        tape_bytes: r.tape_bytes,
        differentiate_us: ns(r.differentiate) / 1e3,
        compile_us: ns(r.compile) / 1e3,
    })
}
