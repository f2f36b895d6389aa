//! Gradients that are there soon, and fast later.
//!
//! **Problem.** With full effort it takes about twice as long until there is a gradient as with little effort, and what comes out takes half the time
//! ([`Effort`]). Which of them pays depends on how often it is going to be called, and that nobody knows before.
//!
//! **Answer.** First the rule of little effort is made, and runs. When its calls have taken as long as the other one is going to take to be
//! made (by a guess: [`PRICE`] times what the first one took), that is made, and runs from then on. So whoever calls once does not wait for what only many calls are worth, and
//! at no time has more than about twice as long been spent as by somebody who had known. (That is how to rent skis before one buys them: Karlin, Manasse, Rudolph,
//! Sleator, *Competitive snoopy caching*, 1988. Runtimes of Java and JavaScript do the same with their compilers.)
//!
//! **Invariants.** Both rules compute the same gradient. So that its bits are the same as well, but for the signs of zeros, nothing may be added up in
//! another order: [`Ideas::in_order`](brolga_ir::Ideas::in_order), with calls that stay calls or are replaced in both ([`Options::inline`]). Without that
//! the last digits may change once.
//!
//! A rule has writable data objects of its own, in which the primal may remember something from call to call. So a program that has any gets full effort at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::time::{Duration, Instant};

use brolga_ir::{Effort, Options, Request};
use cranelift_codegen::data_value::DataValue;

use crate::cache::Cache;
use crate::error::Error;
use crate::jit::{Arg, DerivedRule, Run};

/// How many times as long full effort is taken to take as little effort did.
pub const PRICE: u32 = 2;

/// Where the second rule is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Made {
    /// By the call that has made it worth while, which takes longer by that.
    #[default]
    Here,
    /// In a thread of its own, while calls go on with the first rule.
    InBackground,
}

/// A gradient that is made with little effort, and with full effort when that pays. Cheap to clone; threads may share one.
///
/// ```
/// # use brolga::{ArgActivity, Cache, FuncKey, Made, Mode, Options, Program, Request, Tiered};
/// # fn ask(program: Program, function: FuncKey) -> Result<(), brolga::Error> {
/// let options = Options { mode: Mode::Combined, ..Options::default() };
/// let cache = Cache::new(program);
/// let tiered = Tiered::new(&cache, &Request::new(function, [ArgActivity::Active]), &options, Made::InBackground)?;
/// // As often as you like: `tiered.gradient(…)`.
/// # drop(tiered); Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tiered(Arc<Tiers>);

struct Tiers {
    cache: Cache,
    request: Request,
    full: Options,
    first: DerivedRule,
    made: Made,
    /// What is spent on calls before the second rule is made, and what has been, in nanoseconds.
    price: u64,
    spent: AtomicU64,
    second: OnceLock<DerivedRule>,
    /// Held by whoever makes it; whether that has been tried.
    tried: Mutex<bool>,
}

impl Tiered {
    /// Make the first rule. [`Options::effort`] is not asked. Rules are taken from the cache and remembered there.
    ///
    /// # Errors
    /// As [`DerivedRule::new`].
    pub fn new(cache: &Cache, request: &Request, options: &Options, made: Made) -> Result<Self, Error> {
        let full = Options { effort: Effort::Full, ..options.clone() };
        let remembers = cache.program().data.values().any(|d| d.writable);
        let effort = if remembers { Effort::Full } else { Effort::Quick };
        let (first, took) = cache.timed(request, &Options { effort, ..full.clone() })?;
        let second = if remembers { OnceLock::from(first.clone()) } else { OnceLock::new() };
        let price = nanos(took * PRICE);
        let (cache, request, spent, tried) = (cache.clone(), request.clone(), AtomicU64::new(0), Mutex::new(remembers));
        Ok(Self(Arc::new(Tiers { cache, request, full, first, made, price, spent, second, tried })))
    }

    /// The rule for the next call: for whoever wants a forward pass and a pullback, or code.
    pub fn rule(&self) -> &DerivedRule {
        self.0.second.get().unwrap_or(&self.0.first)
    }

    /// Whether the rule of full effort is there.
    pub fn is_full(&self) -> bool {
        self.0.second.get().is_some()
    }

    /// What calls of the first rule take before the second is made.
    pub fn price(&self) -> Duration {
        Duration::from_nanos(self.0.price)
    }

    /// [`DerivedRule::gradient`] of [`Self::rule`], whose time counts.
    ///
    /// # Errors
    /// As [`DerivedRule::gradient`]. If the second rule cannot be made, as for want of memory, that is no error: the first runs on.
    ///
    /// # Safety
    /// As [`DerivedRule::gradient`].
    pub unsafe fn gradient(
        &self,
        args: &[Arg],
        seeds: &[DataValue],
        results: &mut Vec<DataValue>,
        cotangents: &mut Vec<Option<DataValue>>,
    ) -> Result<Run, Error> {
        if let Some(rule) = self.0.second.get() {
            // SAFETY: our contract.
            return unsafe { rule.gradient(args, seeds, results, cotangents) };
        }
        let begin = Instant::now();
        // SAFETY: our contract.
        let run = unsafe { self.0.first.gradient(args, seeds, results, cotangents) };
        self.count(begin.elapsed());
        run
    }

    /// Count what has been spent on calls of [`Self::rule`] that others have made, and make the second rule if that has become worth while.
    pub fn count(&self, spent: Duration) {
        let spent = nanos(spent);
        let before = self.0.spent.fetch_add(spent, Ordering::Relaxed);
        if self.is_full() || before.saturating_add(spent) < self.0.price {
            return;
        }
        match self.0.made {
            Made::Here => self.0.make(),
            // Once for all calls until it is there. What stops the thread from being made is no reason to fail: the first rule is there.
            Made::InBackground if before < self.0.price => {
                let tiers = Arc::clone(&self.0);
                let _ = std::thread::Builder::new().name("brolga".to_owned()).spawn(move || tiers.make());
            }
            Made::InBackground => {}
        }
    }
}

impl Tiers {
    /// Make the second rule, unless somebody else does or has tried.
    fn make(&self) {
        let mut tried = match self.tried.try_lock() {
            Ok(tried) => tried,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if !std::mem::replace(&mut *tried, true)
            && let Ok(rule) = self.cache.rule(&self.request, &self.full)
        {
            let _ = self.second.set(rule);
        }
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}
