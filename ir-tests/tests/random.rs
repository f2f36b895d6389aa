//! Random programs for most of a minute, the same in every run, through all oracles.
//!
//! A program is a string of bytes, the decisions of [`brolga_oracle::generate`]; the judge is
//! [`brolga_fuzz::judge`]. A failing program is made smaller by proptest, which shortens the bytes,
//! and left as a file that `brolga-fuzz` can go on with.
//!
//! `BROLGA_FUZZ_SECONDS=600 cargo test -p ir-tests random:: -- --nocapture` searches for ten
//! minutes, and `BROLGA_FUZZ_SEED=7` among other programs. For hours there is `cargo xtask fuzz
//! program`, which survives crashes and hangs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use brolga_fuzz::judge::{Thoroughness, Verdict, judge};
use brolga_oracle::generate::{Feature, Size, Source, program};
use brolga_testing::{asked, budget};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

fn text_of(bytes: &[u8]) -> String {
    let mut source = Source::bytes(bytes);
    let features = Feature::some(&mut source);
    program(&mut source, &features, Size { statements: 32, ..Size::default() })
}

#[test]
fn gradients_of_random_programs() {
    let time = Duration::from_secs(asked("BROLGA_FUZZ_SECONDS").unwrap_or(budget(20, 5)));
    let first = asked::<u64>("BROLGA_FUZZ_SEED").unwrap_or(0) << 32;
    let (start, tried, useful) = (Instant::now(), Cell::new(0), Cell::new(0));
    let others: RefCell<BTreeMap<String, usize>> = RefCell::default();
    for round in first.. {
        if start.elapsed() >= time {
            break;
        }
        let config = Config { cases: 8, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&round.to_le_bytes());
        let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
        let result = runner.run(&vec(any::<u8>(), 50..4000), |bytes| {
            let verdict = judge(&text_of(&bytes), Thoroughness::Usual);
            tried.set(tried.get() + 1);
            match verdict {
                Verdict::Wrong(w) => return Err(TestCaseError::fail(format!("{}: {}", w.class, w.detail))),
                Verdict::Useful => useful.set(useful.get() + 1),
                other => *others.borrow_mut().entry(other.to_string()).or_default() += 1,
            }
            Ok(())
        });
        if let Err(TestError::Fail(why, bytes)) = result {
            let path = format!("{}/random.clif", env!("CARGO_TARGET_TMPDIR"));
            let text = text_of(&bytes);
            std::fs::write(&path, &text).expect("a file in the target folder can be written");
            panic!("{why}\n\n{text}\n`cargo run -p brolga-fuzz -- --reduce {path}` makes it smaller still");
        }
        result.expect("only a failing program ends a search");
    }
    let (tried, useful) = (tried.get(), useful.get());
    println!("{tried} programs in {:.1?}, {useful} useful; others: {:?}", start.elapsed(), others.borrow());
    // A generator whose programs are all refused or trivial would find nothing, and this test would
    // always pass.
    assert!(2 * useful >= tried, "only {useful} of {tried} programs have a gradient worth comparing");
}
