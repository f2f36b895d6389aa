//! Functions that know of pieces, whichever was derived first.

use brolga_ir::{ArgActivity, Inline, Mode, Options, Request};
use brolga_testing::program;
use brolga_transform::derive::{derive, derive_with};
use brolga_transform::derived::Derivation;

use crate::host;

/// A callee copies a float byte by byte, where the caller has put it: the caller has to settle what
/// it takes back from there, and is derived before the callee has been seen.
const COPIES: &str = "
function %copy(i64, i64) fast {
block0(v0: i64, v1: i64):
    v2 = iconst.i64 0
    jump block1(v2)
block1(v3: i64):
    v4 = iadd v0, v3
    v5 = load.i8 v4
    v6 = iadd v1, v3
    store v5, v6
    v9 = iconst.i64 1
    v7 = iadd v3, v9
    v10 = iconst.i64 8
    v8 = icmp eq v7, v10
    brif v8, block2, block1(v7)
block2:
    return
}
function %f(f64) -> f64 fast {
    ss0 = explicit_slot 8
    ss1 = explicit_slot 8
    fn0 = %copy(i64, i64) fast
block0(v0: f64):
    v1 = stack_addr.i64 ss0
    v2 = stack_addr.i64 ss1
    v3 = fmul v0, v0
    store v3, v1
    call fn0(v1, v2)
    v4 = load.f64 v2
    return v4
}";

/// All that was derived, as text.
fn text(d: &Derivation) -> Vec<String> {
    let pairs = d.pairs.iter().flat_map(|p| [&p.forward, &p.pullback]);
    let joint = d.combined.iter().chain(&d.joint).map(|w| &w.func);
    pairs.chain(joint).map(|f| f.display().to_string()).collect()
}

#[test]
fn callers_that_were_derived_before_are_derived_again() {
    let program = program(COPIES);
    let request = Request::new(program.func("f").unwrap(), [ArgActivity::Active]);
    let isa = host::isa();
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        let options = Options { mode, inline: Inline::Never, ..Options::full() };
        let found = derive(&program, &request, &options, &*isa).unwrap_or_else(|e| panic!("{e:?}"));
        // With what the first attempt has found all functions know from the start.
        let mut seen = 0;
        let known = derive_with(&program, &request, &options, &*isa, |_| seen += 1).unwrap_or_else(|e| panic!("{e:?}"));
        assert!(found.pieces && known.pieces);
        assert_eq!(text(&found), text(&known), "{mode:?}");
        assert_eq!(seen, found.pairs.len() + found.joint.len() + usize::from(found.combined.is_some()), "{mode:?}");
        let settles = |f: &String| f.contains("brolga_settle");
        assert!(text(&found).iter().any(settles), "{mode:?}");
    }
}
