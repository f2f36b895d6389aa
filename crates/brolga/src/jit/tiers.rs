//! Tiers: gradients that are there soon, and fast once their calls have paid for it.
//!
//! **Problem.** With full effort it takes about twice as long until there is a gradient as with
//! little effort, and what comes out takes half the time ([`Effort`]). Which of them pays depends
//! on how often it is going to be called, which is not known before.
//!
//! **Answer.** First the rule of little effort is made, and runs. When its calls have taken as long
//! as the other one is going to take to be made (by a guess: [`PRICE`] times what the first one
//! took), that is made, and runs from then on. So a single call does not wait for what only many
//! calls are worth, and at no time has more than about twice as long been spent as with that
//! knowledge. (That is how to rent skis before one buys them: Karlin, Manasse, Rudolph, Sleator,
//! *Competitive snoopy caching*, 1988. Runtimes of Java and JavaScript do the same with their
//! compilers.)
//!
//! **Invariants.**
//! - Both rules compute the same gradient, bit by bit but for signs of zeros: the same calls are
//!   replaced, and what only one of them would add or multiply in another order, neither does
//!   ([`Options::tiers`]). Which calls that is does not depend on the effort, but on the program:
//!   in large ones, none.
//! - What a rule says of itself stays true. An argument whose shadow the first rule overwrites is
//!   overwritten by the second one, or there is no second one.
//! - Functions of the program and its data lie where they lie. A program that asks for an address,
//!   or calls one ([`has_addresses`]), could tell one rule from the other if those were two: the
//!   second rule is then compiled into the module of the first, and functions of the program, which
//!   are compiled once, for both of them with full effort.
//! - A pullback belongs to the rule that recorded its tape, and the primal to the first one.
//!
//! **Cost.** A rule that is called often is made twice, and the code of both stays. Until the
//! second one is there, a call reads the clock twice and adds to a counter.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};
use std::time::{Duration, Instant};

use brolga_analysis::calls::summarise::reachable;
use brolga_ir::{Effort, Inline, Options, Program, Request, SecondTier};
use cranelift_codegen::ir::{self, GlobalValueData, Opcode};

use crate::Error;

/// How many times as long full effort is taken to take as little effort did.
const PRICE: u32 = 2;

/// Instructions of a program that is so large that no calls are replaced in either tier, unless
/// that is asked for: to find out where that does harm takes longer than to derive with little
/// effort.
const LARGE: usize = 20_000;

/// Bytes of stack for a thread that makes a rule: no less than that which made the first one had,
/// if it was a main thread.
const STACK: usize = 8 << 20;

/// What a derivative shares functions and data objects of the program with.
pub(super) enum Sharing<'a, R> {
    /// It is alone in its module.
    Nothing,
    /// A second derivative is to come into its module; functions of the program are compiled for
    /// both, with these options.
    Second { primals: &'a Options },
    /// It comes into the module of the first.
    First(&'a R),
}

/// A rule that may be made with little effort and with more.
pub(super) trait Tier: Clone + Send + Sync + 'static {
    /// Differentiate and compile.
    fn make(program: &Program, request: &Request, options: &Options, beside: Sharing<'_, Self>) -> Result<Self, Error>;

    /// The first of two rules, which has not been handed out yet.
    fn with(self, tiers: Tiers<Self>) -> Self;

    /// Make the second rule now.
    fn settle(&self);

    /// Compile the primal, if that is possible.
    fn link_primal(&self);

    /// Whether a caller who has been told what this one overwrites may call the second.
    fn keeps(&self, second: &Self) -> bool;
}

/// What a rule of little effort knows of the one that comes after it.
pub(super) struct Tiers<R> {
    program: Program,
    request: Request,
    full: Options,
    made: SecondTier,
    /// Whether both rules are in one module.
    shared: bool,
    /// What is spent on calls before the second rule is made, and what has been, in nanoseconds.
    price: u64,
    spent: AtomicU64,
    /// The second rule, or nothing if it could not be made.
    second: OnceLock<Option<R>>,
    /// Held while it is made.
    making: Mutex<()>,
}

/// The first rule of two.
pub(super) fn tiered<R: Tier>(
    program: &Program,
    request: &Request,
    options: &Options,
    made: SecondTier,
) -> Result<R, Error> {
    let reached = reachable(program, request.func);
    let bodies = || reached.iter().filter_map(|&k| program.funcs[k].body.as_ref());
    let shared = bodies().any(has_addresses);
    let large = options.inline == Inline::Auto && bodies().map(|f| f.dfg.num_insts()).sum::<usize>() > LARGE;
    let inline = if large { Inline::Never } else { options.inline };
    let effort = Effort::Tiered(made);
    let (first, full) = Options { inline, effort, ..options.clone() }.tiers().expect("it is tiered");
    let begin = Instant::now();
    let beside = if shared { Sharing::Second { primals: &full } } else { Sharing::Nothing };
    let rule = R::make(program, request, &first, beside)?;
    let price = nanos(begin.elapsed() * PRICE);
    let (program, request, spent, making) = (program.clone(), request.clone(), AtomicU64::new(0), Mutex::new(()));
    Ok(rule.with(Tiers { program, request, full, made, shared, price, spent, second: OnceLock::new(), making }))
}

/// Whether a function asks where a function or a data object lies, or calls what lies somewhere.
fn has_addresses(func: &ir::Function) -> bool {
    use Opcode::{CallIndirect, FuncAddr, ReturnCallIndirect, TlsValue};
    let asks = |op| matches!(op, FuncAddr | CallIndirect | ReturnCallIndirect | TlsValue);
    let mut insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    func.global_values.values().any(|g| matches!(g, GlobalValueData::Symbol { .. }))
        || insts.any(|i| asks(func.dfg.insts[i].opcode()))
}

impl<R: Tier> Tiers<R> {
    /// The second rule, if it is there.
    pub(super) fn second(&self) -> Option<&R> {
        self.second.get()?.as_ref()
    }

    /// Whether it is there, or is not going to be.
    pub(super) fn is_settled(&self) -> bool {
        self.second.get().is_some()
    }

    /// What calls of the first rule take before the second is made.
    pub(super) fn price(&self) -> Duration {
        Duration::from_nanos(self.price)
    }

    /// What the primal is compiled with.
    pub(super) fn full(&self) -> &Options {
        &self.full
    }

    /// Count what has been spent on calls of `rule`, whose second rule this is, and make it if that
    /// has become worth while.
    pub(super) fn count(&self, rule: &R, spent: Duration) {
        if self.is_settled() {
            return;
        }
        let spent = nanos(spent);
        let before = self.spent.fetch_add(spent, Ordering::Relaxed);
        if before.saturating_add(spent) < self.price {
            return;
        }
        match self.made {
            SecondTier::Here => self.make(rule),
            // Once for all calls until it is there. What stops the thread from being made is no
            // reason to fail: the first rule is there.
            SecondTier::InBackground if before < self.price => {
                let rule = rule.clone();
                let make = move || rule.settle();
                let _ = std::thread::Builder::new().name("brolga".to_owned()).stack_size(STACK).spawn(make);
            }
            SecondTier::InBackground => {}
        }
    }

    /// Make the second rule, unless another thread does or has tried.
    pub(super) fn make(&self, first: &R) {
        let _making = match self.making.try_lock() {
            Ok(making) => making,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        self.second.get_or_init(|| {
            let beside = if self.shared { Sharing::First(first) } else { Sharing::Nothing };
            if self.shared {
                // Nothing is added after a rule of which a part may be there that cannot be
                // linked.
                first.link_primal();
            }
            let rule = R::make(&self.program, &self.request, &self.full, beside).ok()?;
            first.keeps(&rule).then_some(rule)
        });
    }
}

/// Nanoseconds, as many as can be told.
fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use brolga_ir::{ArgActivity, Mode};
    use cranelift_codegen::data_value::DataValue;

    use super::*;
    use crate::{Arg, DerivedRule};

    fn rule(mode: Mode) -> DerivedRule {
        let text = "function %f(f64) -> f64 system_v {
            block0(v0: f64):
                v1 = fmul v0, v0
                return v1
            }";
        let func = cranelift_reader::parse_functions(text).unwrap_or_else(|e| panic!("{e}")).remove(0);
        let mut program = Program::new();
        let f = program.define("f", func, |_| 0).expect("it is new");
        let options = Options { mode, ..Options::default() };
        DerivedRule::new(&program, &Request::new(f, [ArgActivity::Active]), &options).expect("it has a derivative")
    }

    /// What calls have paid for is what runs, and what has begun goes on as it was.
    #[test]
    fn the_second_rule_runs() {
        let float = |x: f64| DataValue::F64(x.into());
        let (args, seeds) = ([Arg::new(float(3.0))], [float(1.0)]);
        for mode in [Mode::Gradient, Mode::Combined, Mode::Split] {
            let rule = rule(mode);
            let gradient = || {
                let mut cotangents = vec![];
                // SAFETY: there are no pointers.
                let run = unsafe { rule.gradient(&args, &seeds, &mut vec![], &mut cotangents) }.expect("no trap");
                assert_eq!(cotangents, [Some(float(6.0))]);
                run
            };
            rule.settle();
            let second = rule.0.tiers.as_ref().and_then(Tiers::second).expect("it can be made");
            assert!(!second.is(&rule) && gradient().rule.is(second), "{mode:?}");
        }
        let rule = rule(Mode::Split);
        // SAFETY: there are no pointers.
        let forward = || unsafe { rule.forward(&args) }.expect("no trap").1;
        let mut before = forward();
        rule.settle();
        assert!(rule.now().is(&forward().rule) && !rule.now().is(&rule));
        // SAFETY: there are no pointers.
        assert_eq!(unsafe { before.call(&seeds) }.expect("no trap"), [Some(float(6.0))]);
    }
}
