//! Smaller programs that fail in the same way.
//!
//! A program is reduced by trying edits, each of which makes it smaller and leaves it valid, and
//! keeping those after which it still gets the same verdict. Edits are tried from coarse to fine,
//! over and over, until none is kept:
//!
//! 1. a function is dropped;
//! 2. a branch becomes a jump to one of its targets;
//! 3. a run of instructions is removed, first long runs, then short ones; what used their results
//!    uses zeros instead;
//! 4. an instruction gives way to one of its operands;
//! 5. a parameter of a block, function or call gives way to zero;
//! 6. a block is appended to its only predecessor.
//!
//! After every edit whatever is unreachable or unused goes too. Whether an edited program still
//! obeys the promises of generated ones (that it stays inside of its buffers, above all) is not
//! checked: it runs in another process, and if it does anything else than before, the edit is
//! undone.

mod edit;
mod program;
mod root;

use anyhow::Result;

use self::program::ReducibleProgram;
use crate::outside::{ProcessFiles, Report};

/// The `n`th edit of a kind, if there are so many.
type Pass = fn(&ReducibleProgram, usize) -> Option<ReducibleProgram>;

/// From coarse to fine.
const PASSES: &[Pass] = &[
    edit::drop_function,
    edit::simplify_terminator,
    |p, n| edit::remove_run(p, n, 16),
    |p, n| edit::remove_run(p, n, 4),
    |p, n| edit::remove_run(p, n, 1),
    edit::forward_operand,
    edit::drop_block_param,
    edit::drop_function_param,
    root::drop_result,
    root::drop_param,
    edit::append_block,
];

/// Make `text` smaller while its verdict stays `key` (see [`Report::key`]).
pub fn reduce(outside: &ProcessFiles, text: &str, key: &str) -> Result<String> {
    let Ok(mut best) = ReducibleProgram::parse(text) else { return Ok(text.to_owned()) };
    edit::clean(&mut best);
    let still = |p: &ReducibleProgram| -> Result<bool> { Ok(outside.judge(&p.text(), "clif")?.key() == key) };
    if !still(&best)? {
        // Even removing what is unused hides the mistake.
        return Ok(text.to_owned());
    }
    loop {
        let before = best.size();
        for pass in PASSES {
            let mut at = 0;
            // Every pass enumerates its edits by number; an edit that is kept shifts the others, so
            // the number stays.
            while let Some(mut candidate) = pass(&best, at) {
                edit::clean(&mut candidate);
                if candidate.size() < best.size() && still(&candidate)? {
                    best = candidate;
                } else {
                    at += 1;
                }
            }
        }
        if best.size() == before {
            return Ok(best.text());
        }
    }
}

impl Report {
    /// What stays the same while a program is made smaller: the class of the mistake, or else the
    /// verdict.
    pub fn key(&self) -> &str {
        self.class.as_deref().unwrap_or(&self.line)
    }
}
