//! The oracles of [`ir_tests::inputs`], for a moment each, on inputs that are the same in every
//! run.
//!
//! `BROLGA_FUZZ_SECONDS=600 cargo test -p ir-tests clif_text -- --nocapture` searches for ten
//! minutes instead, on other inputs in every run; `cargo xtask fuzz` does that where there
//! is no libFuzzer.

use std::cell::Cell;
use std::time::{Duration, Instant};

use brolga_testing::{asked, budget};
use ir_tests::inputs;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// Try inputs until the time is over. Fails with the smallest input that fails.
fn search<T: std::fmt::Debug>(name: &str, strategy: impl Strategy<Value = T>, oracle: impl Fn(&T)) {
    let asked = asked("BROLGA_FUZZ_SECONDS");
    let time = asked.map_or(Duration::from_millis(budget(700, 200)), Duration::from_secs);
    let (start, tried) = (Instant::now(), Cell::new(0usize));
    for round in 0u64.. {
        if start.elapsed() >= time {
            break;
        }
        let config = Config { cases: 16, failure_persistence: None, max_shrink_iters: 2000, ..Config::default() };
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&round.to_le_bytes());
        let mut runner = match asked {
            Some(_) => TestRunner::new(config),
            None => TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed)),
        };
        let result = runner.run(&strategy, |input| {
            tried.set(tried.get() + 1);
            brolga_ir::panics::catch(|| oracle(&input)).map_err(TestCaseError::fail)
        });
        if let Err(e) = result {
            panic!("{name}: {e}");
        }
    }
    println!("{name}: {} inputs in {:.1?}, none fails", tried.get(), start.elapsed());
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..most)
}

#[test]
fn clif_text() {
    search("clif_text (cases with edits)", bytes(60), |b| inputs::clif_text(inputs::mangled(b).as_bytes()));
    search("clif_text (bytes)", bytes(200), |b| inputs::clif_text(b));
}

#[test]
fn call_syntax() {
    search("call_syntax (directives with edits)", bytes(60), |b| inputs::call_syntax(&inputs::mangled_directive(b)));
    let text = "[%a-g(){}\\[\\],;=@:.0-9xXpPeE+ \\-_é𝕊]{0,40}";
    search("call_syntax (text)", text, |t: &String| inputs::call_syntax(t));
}

#[test]
fn activities() {
    search("activities", bytes(80), |b| inputs::activities(b));
}

/// What a search has found once must never be found again.
#[test]
fn finds() {
    // An expectation that is nested deeper than any stack.
    inputs::call_syntax(&format!("%f(1.0) == {}", "[".repeat(100_000)));
    inputs::clif_text(format!("; grad: %f(1.0) == {}\n", "[".repeat(100_000)).as_bytes());
    // A few characters that stood for gigabytes of text.
    inputs::call_syntax("%f([0.000000000000000001; 16777216], [0.000000000000000001; 16777216])");
}
