//! Timing: what a call costs, as primal, gradient and tangent, by the clock.
//!
//! **Problem.** A call takes nanoseconds or seconds, may overwrite what it reads, goes through a
//! guard that turns traps into errors, and shares the machine with others.
//!
//! **Answer.** [`RepeatedCall`] calls again and again in one memory. Buffers that a call changes
//! get their contents back before the next one, while the clock stands still; that shadows are put
//! to what they are at first is a part of a gradient. [`cost`] measures in rounds: in each a batch
//! of calls of each kind, long enough for the clock, so that a ratio is one of neighbours in time;
//! the medians over all rounds count. What the guard takes is measured with a function that has the
//! same signature and does nothing, and taken off.
//!
//! A call that leaves something behind (a block that is never freed) cannot be repeated for ever:
//! one that fails gets fresh memory, and only if it fails there as well, that is an error.
//!
//! **Cost.** At least five rounds, and more until the given time is spent. A batch has as many
//! calls as take about a millisecond, and one at least. The function that does nothing is derived
//! like the one that is measured.

use std::time::{Duration, Instant};

use brolga::{DerivedRule, Error, InverseStats, LoopStats, Mode, Options, Program, Request};
use brolga_ir::driver_call::zero;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{self, InstBuilder, Type};

use crate::bind::{BoundArg, Invocation};
use crate::inputs::inputs;
use crate::memory::Memory;
use crate::protocol::derive;
use crate::run::{self, Outcome};
use crate::tangent::Direction;

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedCall {
    /// The function.
    Primal,
    /// Its gradient.
    Gradient,
    /// Its tangent, of a rule of forward mode.
    Tangent,
}

/// A call with everything that it takes to repeat it.
pub struct RepeatedCall<'a> {
    call: &'a Invocation,
    rule: DerivedRule,
    /// Of tangents: ones for all inputs.
    direction: Direction,
    memory: Memory,
    /// What to pass to primal and derivative.
    values: Vec<DataValue>,
    args: Vec<brolga::Arg>,
    tangents: Vec<Option<DataValue>>,
    results: Vec<DataValue>,
    cotangents: Vec<Option<DataValue>>,
    tape_bytes: usize,
    loops: LoopStats,
    inverses: InverseStats,
    /// What it takes to look at the clock twice.
    clock: Duration,
    /// Whether the last call has left buffers, and tangents, as they were.
    keeps: bool,
    /// Whether shadows are put to what they are at first, as a part of a gradient.
    renews_shadows: bool,
}

impl<'a> RepeatedCall<'a> {
    /// A rule for the request of a call, and memory for it.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(rule: DerivedRule, call: &'a Invocation) -> Result<Self, Error> {
        let inputs = inputs(call);
        let direction = Direction::along(call, &inputs, &vec![1.0; inputs.len()]);
        let clock = (0..100).map(|_| Instant::now().elapsed()).min().unwrap_or_default();
        let (results, cotangents, tape_bytes) = (Vec::new(), Vec::new(), 0);
        let (loops, inverses) = Default::default();
        let mut memory = Memory::new(call)?;
        let (values, args) = (memory.values(), memory.arguments());
        let tangents = direction.put(call, &mut memory);
        let (keeps, renews_shadows) = (false, true);
        Ok(Self {
            call,
            rule,
            direction,
            memory,
            values,
            args,
            tangents,
            results,
            cotangents,
            tape_bytes,
            loops,
            inverses,
            clock,
            keeps,
            renews_shadows,
        })
    }

    /// Buffers as they are written in the call, and tangents as they are given.
    fn reset(&mut self, what: TimedCall) {
        for (i, arg) in self.call.args.iter().enumerate() {
            if let (BoundArg::Buffer { data, .. }, Some(buffer)) = (arg, self.memory.buffer_mut(i)) {
                buffer.primal.bytes_mut().copy_from_slice(data);
            }
        }
        if what == TimedCall::Tangent {
            self.direction.put(self.call, &mut self.memory);
        }
    }

    /// Whether they are so.
    fn is_unchanged(&self, what: TimedCall) -> bool {
        self.call.args.iter().enumerate().all(|(i, arg)| match (arg, self.memory.buffer(i)) {
            (BoundArg::Buffer { data, .. }, Some(buffer)) => {
                let along = self.direction.of_buffer(i);
                let moved = |shadow: &[u8]| along.map_or(shadow.iter().any(|b| *b != 0), |along| along != shadow);
                buffer.primal.bytes() == data && !(what == TimedCall::Tangent && moved(buffer.shadow.bytes()))
            }
            _ => true,
        })
    }

    fn renew(&mut self) -> Result<(), Error> {
        self.memory = Memory::new(self.call)?;
        (self.values, self.args) = (self.memory.values(), self.memory.arguments());
        Ok(())
    }

    fn measure(&mut self, what: TimedCall) -> Result<(), Error> {
        // SAFETY: here and below, pointers are to live blocks of our memory, and every shadow is as
        // large as its primal; whether the program stays inside is the file's business.
        match what {
            TimedCall::Primal => unsafe { self.rule.primal_into(&self.values, &mut self.results) },
            TimedCall::Gradient => {
                for (i, arg) in self.call.args.iter().enumerate().filter(|_| self.renews_shadows) {
                    if let (BoundArg::Buffer { shadow, .. }, Some(buffer)) = (arg, self.memory.buffer_mut(i)) {
                        buffer.shadow.bytes_mut().copy_from_slice(shadow);
                    }
                }
                let (args, seeds) = (&self.args, &self.call.seeds);
                let run = unsafe { self.rule.gradient(args, seeds, &mut self.results, &mut self.cotangents) }?;
                (self.tape_bytes, self.loops) = (run.tape_bytes(), run.loop_stats());
                self.inverses = run.inverse_stats();
                Ok(())
            }
            TimedCall::Tangent => {
                let (args, given) = (&self.args, &self.tangents);
                unsafe { self.rule.tangent(args, given, &mut self.results, &mut self.cotangents) }.map(drop)
            }
        }
    }

    /// How long some calls take, in fresh memory if need be.
    ///
    /// # Errors
    /// If one traps, or something else goes wrong.
    pub fn time(&mut self, what: TimedCall, calls: usize) -> Result<Duration, Error> {
        match self.batch(what, calls) {
            Ok(time) => Ok(time),
            Err(_) => {
                self.renew()?;
                self.batch(what, calls)
            }
        }
    }

    fn batch(&mut self, what: TimedCall, calls: usize) -> Result<Duration, Error> {
        let mut time = Duration::ZERO;
        // Calls between two looks at the clock.
        let together = if self.keeps { calls } else { 1 };
        for _ in 0..calls / together {
            self.reset(what);
            let start = Instant::now();
            for _ in 0..together {
                self.measure(what)?;
            }
            time += start.elapsed().saturating_sub(self.clock);
        }
        Ok(time)
    }

    /// How many calls take about this long. What they do to memory is known from then on.
    fn batch_of(&mut self, what: TimedCall, duration: Duration) -> Result<usize, Error> {
        self.keeps = false;
        // The first call warms caches and the tape, the second is the estimate.
        self.time(what, 1)?;
        let estimate = self.time(what, 1)?.max(Duration::from_nanos(20));
        self.keeps = self.is_unchanged(what);
        Ok((duration.as_nanos() / estimate.as_nanos()).clamp(1, 100_000) as usize)
    }

    /// What the last call has left.
    pub fn outcome(&self) -> Outcome {
        run::collect(self.call, &self.memory, &self.results, &self.cotangents, self.tape_bytes)
    }

    /// Bytes that the last gradient recorded.
    pub fn tape_bytes(&self) -> usize {
        self.tape_bytes
    }

    /// What the time loops of the last gradient have done.
    pub fn loops(&self) -> LoopStats {
        self.loops
    }

    /// What calls that inverses undo have done in the last gradient.
    pub fn inverses(&self) -> InverseStats {
        self.inverses
    }

    /// What the last call returned.
    pub fn results(&self) -> &[DataValue] {
        &self.results
    }
}

/// What one call costs.
#[derive(Debug)]
pub struct Cost {
    /// Nanoseconds of the primal.
    pub primal_ns: f64,
    /// Of value and gradient.
    pub gradient: DerivativeCost,
    /// Of value and tangent, or why there is none: it is refused, or traps.
    pub tangent: Result<DerivativeCost, Error>,
    /// Nanoseconds that a call of nothing takes, which are in none of the others.
    pub guard_ns: f64,
    /// By how much that varies: half of the rounds lie within so many nanoseconds. What takes less
    /// than twice as long is too short to be compared.
    pub spread_ns: f64,
    /// Bytes that the gradient recorded.
    pub tape_bytes: usize,
    /// How many rounds there were.
    pub rounds: usize,
}

/// What a derivative costs.
#[derive(Clone, Copy, Debug)]
pub struct DerivativeCost {
    /// Nanoseconds of one call.
    pub ns: f64,
    /// In multiples of the primal: the quartiles of all rounds, the median in the middle. There is
    /// none if the primal is too short to be compared.
    pub ratio: Option<[f64; 3]>,
}

/// How long a batch should take.
const BATCH: Duration = Duration::from_millis(1);

/// Fewest rounds.
const ROUNDS: usize = 5;

/// One of the things that take turns.
struct Measurement<'a> {
    what: TimedCall,
    repeated: RepeatedCall<'a>,
    calls: usize,
    /// Nanoseconds a call, in each round.
    times: Vec<f64>,
}

impl<'a> Measurement<'a> {
    fn new(what: TimedCall, rule: DerivedRule, call: &'a Invocation) -> Result<Self, Error> {
        Self::of(what, RepeatedCall::new(rule, call)?)
    }

    /// Calls of nothing by the same way.
    fn idle(what: TimedCall, rule: DerivedRule, call: &'a Invocation) -> Result<Self, Error> {
        Self::of(what, RepeatedCall { renews_shadows: false, ..RepeatedCall::new(rule, call)? })
    }

    fn of(what: TimedCall, mut repeated: RepeatedCall<'a>) -> Result<Self, Error> {
        let calls = repeated.batch_of(what, BATCH)?;
        Ok(Self { what, repeated, calls, times: Vec::new() })
    }

    fn take(&mut self) -> Result<(), Error> {
        let time = self.repeated.time(self.what, self.calls)?;
        self.times.push(time.as_nanos() as f64 / self.calls as f64);
        Ok(())
    }
}

/// Measure a call of a program: its gradient, and its tangent along ones. Rounds go on until this
/// much time is spent.
///
/// # Errors
/// If a call traps, or what the guard takes cannot be measured.
pub fn cost(
    program: &Program,
    call: &Invocation,
    gradient: &DerivedRule,
    tangent: Result<DerivedRule, Error>,
    options: &Options,
    budget: Duration,
) -> Result<Cost, Error> {
    let (nothing, func) = idle(program, call)?;
    let request = Request { func, ..call.request() };
    let idle_gradient = derive(&nothing, &request, options)?;
    let tangent = tangent.and_then(|rule| Measurement::new(TimedCall::Tangent, rule, call));
    let idle_tangent = || {
        let rule = derive(&nothing, &request, &Options { mode: Mode::Tangent, ..options.clone() })?;
        Measurement::idle(TimedCall::Tangent, rule, call)
    };
    let mut all = vec![
        Measurement::new(TimedCall::Primal, gradient.clone(), call)?,
        Measurement::idle(TimedCall::Primal, idle_gradient.clone(), call)?,
        Measurement::new(TimedCall::Gradient, gradient.clone(), call)?,
        Measurement::idle(TimedCall::Gradient, idle_gradient, call)?,
    ];
    let refused = match tangent {
        Ok(tangent) => {
            all.extend([tangent, idle_tangent()?]);
            None
        }
        Err(e) => Some(e),
    };
    let start = Instant::now();
    let mut rounds = 0;
    while rounds < ROUNDS || start.elapsed() < budget {
        all.iter_mut().try_for_each(Measurement::take)?;
        rounds += 1;
    }
    // Calls of nothing are alike in all rounds, and what disturbs them only adds time.
    let net_times: Vec<Vec<f64>> = all
        .chunks(2)
        .map(|pair| {
            let guard = quartiles(&pair[1].times)[1];
            pair[0].times.iter().map(|time| (time - guard).max(0.0)).collect()
        })
        .collect();
    let [low, guard_ns, high] = quartiles(&all[1].times);
    let (primal_ns, spread_ns) = (quartiles(&net_times[0])[1], high - low);
    let share = |of: &Vec<f64>| {
        let ratios: Vec<f64> = of.iter().zip(&net_times[0]).map(|(time, primal)| time / primal).collect();
        DerivativeCost { ns: quartiles(of)[1], ratio: (primal_ns >= 2.0 * spread_ns).then(|| quartiles(&ratios)) }
    };
    let (gradient, tangent) = (share(&net_times[1]), refused.map_or_else(|| Ok(share(&net_times[2])), Err));
    let tape_bytes = all[2].repeated.tape_bytes();
    Ok(Cost { primal_ns, gradient, tangent, guard_ns, spread_ns, tape_bytes, rounds })
}

/// The numbers below which a quarter, a half and three quarters of all numbers lie. Of no numbers
/// they are NaN, and NaN is large.
fn quartiles(numbers: &[f64]) -> [f64; 3] {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1) as f64;
    [0.25, 0.5, 0.75].map(|part| sorted.get((last * part).round() as usize).copied().unwrap_or(f64::NAN))
}

/// A program of one function that has the signature of the one that is called, and returns zeros.
fn idle(program: &Program, call: &Invocation) -> Result<(Program, brolga::FuncKey), Error> {
    let mut func = ir::Function::new();
    func.signature = program.funcs[call.func].signature.clone();
    let block = func.dfg.make_block();
    func.layout.append_block(block);
    for param in func.signature.params.clone() {
        func.dfg.append_block_param(block, param.value_type);
    }
    let returns: Vec<Type> = func.signature.returns.iter().map(|r| r.value_type).collect();
    let mut cursor = FuncCursor::new(&mut func).at_bottom(block);
    let zeros: Vec<ir::Value> = returns.into_iter().map(|ty| zero(&mut cursor, ty)).collect();
    cursor.ins().return_(&zeros);
    let mut nothing = Program::new();
    let message = |symbol| Error::Internal { stage: "timing", message: format!("{symbol} is defined twice") };
    let key = nothing.define(&call.symbol, func, |_| 0).map_err(message)?;
    Ok((nothing, key))
}

#[cfg(test)]
mod tests {
    use brolga::{DerivedRule, Effort, Options};
    use std::time::Duration;

    use super::{Mode, RepeatedCall, TimedCall, cost, derive, quartiles};
    use crate::text::directive::call_with_clauses;
    use crate::{File, Invocation};

    fn bound(text: &str, call: &str) -> (File, Invocation) {
        let file = File::parse("f", text).unwrap_or_else(|e| panic!("{e}"));
        let (parsed, clauses) = call_with_clauses(call).unwrap_or_else(|e| panic!("{e}"));
        let bound = file.bind(call, &parsed, &clauses).unwrap_or_else(|e| panic!("{e}"));
        (file, bound)
    }

    fn rule(file: &File, call: &Invocation, mode: Mode) -> DerivedRule {
        let options = Options { mode, effort: Effort::Full, ..Options::default() };
        derive(&file.program, &call.request(), &options).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The sum of a buffer, times a factor, with or without a store of it.
    fn sum(store: &str) -> String {
        format!(
            "; a sum\nfunction %f(i64, f64) -> f64 system_v {{\nblock0(v0: i64, v1: f64):\n    v2 = load.f64 v0\n    \
            v3 = load.f64 v0+8\n    v4 = fadd v2, v3\n    v5 = fmul v4, v1\n    {store}\n    return v5\n}}\n"
        )
    }

    #[test]
    fn what_a_call_overwrites_is_there_again_before_the_next_one() {
        for (store, keeps) in [("store v5, v0", false), ("", true)] {
            let (file, call) = bound(&sum(store), "%f([1.0, 2.0], 3.0)");
            let mut r = RepeatedCall::new(rule(&file, &call, Mode::Combined), &call).unwrap();
            let mut tangent = RepeatedCall::new(rule(&file, &call, Mode::Tangent), &call).unwrap();
            for what in [TimedCall::Primal, TimedCall::Gradient, TimedCall::Tangent] {
                let r = if what == TimedCall::Tangent { &mut tangent } else { &mut r };
                let calls = r.batch_of(what, Duration::from_micros(10)).unwrap();
                assert!(r.keeps == keeps && calls > 1, "{what:?}, {store}: {calls}");
                r.time(what, 3).unwrap();
                assert_eq!(r.results()[0].to_string(), "0x1.2000000000000p3", "{what:?}, {store}");
            }
            // A gradient is that of a fresh call, however often it was there before; along ones the
            // sum moves by two threes, and by the sum itself.
            let fresh = crate::run::gradient(&rule(&file, &call, Mode::Combined), &call).unwrap();
            assert!(r.outcome().same_gradient(&fresh), "{store}");
            assert_eq!(tangent.cotangents[0].as_ref().map(ToString::to_string), Some("0x1.2000000000000p3".to_owned()));
        }
    }

    /// A function of any signature has one that does nothing.
    #[test]
    fn costs_of_all_types() {
        let text = "; all types\nfunction %f(i64, f32, f64, f64x2, i32x4, i8, i128) -> \
            f32, f64, f64x2, i32x4, i8, i128, i64, f32x4 system_v {\n\
            block0(v0: i64, v1: f32, v2: f64, v3: f64x2, v4: i32x4, v5: i8, v6: i128):\n    v7 = fmul v1, v1\n    \
            v8 = fmul v2, v2\n    v9 = fmul v3, v3\n    v10 = splat.f32x4 v7\n    \
            return v7, v8, v9, v4, v5, v6, v0, v10\n}\n";
        let (file, call) = bound(text, "%f([1.0], 2.0, 3.0, [1.0 2.0], [1 2 3 4], 1, 2)");
        let options = Options { effort: Effort::Full, ..Options::default() };
        let [gradient, tangent] = [options.mode, Mode::Tangent].map(|mode| rule(&file, &call, mode));
        let found = cost(&file.program, &call, &gradient, Ok(tangent), &options, Duration::ZERO).unwrap();
        assert_eq!(found.rounds, super::ROUNDS);
        assert!(found.guard_ns > 0.0 && found.tangent.is_ok(), "{found:?}");
        let refused = Err(brolga::Error::Usage("refused".to_owned()));
        let alone = cost(&file.program, &call, &gradient, refused, &options, Duration::ZERO).unwrap();
        assert!(alone.tangent.is_err_and(|e| e.to_string().contains("refused")));
    }

    /// Shadows of a buffer that a function hardly reads are zeroed for each gradient.
    #[test]
    fn shadows_are_a_part_of_a_gradient() {
        let call = format!("%f([{}], 1.0)", vec!["0.5"; 100_000].join(", "));
        let (file, call) = bound(&sum(""), &call);
        let options = Options { effort: Effort::Full, ..Options::default() };
        let [gradient, tangent] = [options.mode, Mode::Tangent].map(|mode| rule(&file, &call, mode));
        let found = cost(&file.program, &call, &gradient, Ok(tangent), &options, Duration::ZERO).unwrap();
        // No machine writes 800 kilobytes in two microseconds, nor takes as long for a sum of two.
        assert!(found.gradient.ns > 2_000.0 && found.primal_ns < 2_000.0, "{found:?}");
    }

    #[test]
    fn a_trap_is_an_error() {
        let text = "; a trap\nfunction %f(f64) -> f64 system_v {\nblock0(v0: f64):\n    trap user1\n}\n";
        let (file, call) = bound(text, "%f(1.0)");
        let (gradient, options) = (rule(&file, &call, Mode::Combined), Options::default());
        let tangent = Ok(rule(&file, &call, Mode::Tangent));
        let found = cost(&file.program, &call, &gradient, tangent, &options, Duration::ZERO);
        assert!(found.is_err_and(|e| e.to_string().contains("user1")));
    }

    #[test]
    fn quarters_of_numbers() {
        assert_eq!(quartiles(&[5.0, 1.0, 3.0, 2.0, 4.0]), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles(&[1.0, f64::NAN, 0.0])[1], 1.0);
        assert_eq!(quartiles(&[7.0]), [7.0; 3]);
        assert!(quartiles(&[]).iter().all(|x| x.is_nan()));
    }
}
