//! Promise of tiers: what a rule becomes when its calls have paid for it.
//!
//! **Question.** Can a caller see from the numbers that another rule has taken the place of the
//! first ([`brolga::Effort::Tiered`])?
//!
//! **Answer.** It must not: both tiers give the same bits, but for signs of zeros, with calls
//! replaced as by default. So that there is a second one, it overwrites all shadows that the first
//! one does. The first one records no more than the second, but for what its tape has room for
//! beyond the limit, so that it does not reach the cap of the tape where the other would not. A
//! rule that has become the second one gives what that gives by itself.
//!
//! **Cost.** Three rules and three runs; the last rule is derived twice, once for each tier.

use brolga::{MemoryMode, Mode, Options};

use super::subject::Deriver;
use super::unmoored::{describe, run_anywhere, same_contents};
use crate::bind::Invocation;
use crate::run::Outcome;

/// How the second tier differs from the first.
pub(super) fn violations(call: &Invocation, mode: Mode, memory: MemoryMode, rule: Deriver<'_>) -> Vec<String> {
    let Some((first, second)) = (Options { mode, memory, ..Options::default() }).tiers() else {
        return vec!["by default there is one tier".to_owned()];
    };
    let both = [first, second].map(|options| {
        let rule = rule(&options)?;
        let outcome = run_anywhere(&rule, call)?;
        Ok::<_, brolga::Error>((rule, outcome))
    });
    let ((a, first), (b, second)) = match both {
        [Ok(first), Ok(second)] => (first, second),
        [Err(e), _] | [_, Err(e)] => return vec![format!("{mode:?}, {memory:?}, tiers: {e}")],
    };
    let mut found = Vec::new();
    if !second.equal_gradient(&first) {
        found.push(format!("the gradient is {} at first, and then {}", describe(&first), describe(&second)));
    }
    if mode != Mode::Gradient && !second.same_value(&first) {
        found.push(format!("the value is {:?} at first, and then {:?}", first.value, second.value));
    }
    same_contents("the second tier", &first.buffers, &second.buffers, &mut found);
    if first.tape_bytes > second.tape_bytes + a.spare() {
        let (before, after) = (first.tape_bytes, second.tape_bytes);
        found.push(format!("{before} bytes are recorded at first, and then only {after}"));
    }
    let lost = (0..call.args.len()).filter(|&i| a.overwrites(i) && !b.overwrites(i));
    found.extend(lost.map(|i| format!("the shadow of argument {i} is overwritten at first, and then added to")));
    found.extend(settled(&second, call, &Options { mode, memory, ..Options::default() }, rule).err());
    found.into_iter().map(|c| format!("{mode:?}, {memory:?}, tiers: {c}")).collect()
}

/// A rule that has become the second one gives what that gives by itself, wherever it lies.
fn settled(alone: &Outcome, call: &Invocation, options: &Options, rule: Deriver<'_>) -> Result<(), String> {
    let rule = rule(options).map_err(|e| e.to_string())?;
    rule.settle();
    let outcome = run_anywhere(&rule, call).map_err(|e| format!("settled: {e}"))?;
    let same_value = options.mode == Mode::Gradient || outcome.same_value(alone);
    if !outcome.equal_gradient(alone) || !same_value || outcome.tape_bytes != alone.tape_bytes {
        return Err(format!("when it is settled the gradient is {}, else {}", describe(&outcome), describe(alone)));
    }
    Ok(())
}
