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
mod root;

use anyhow::Result;
use cranelift_codegen::ir::Function;

use crate::judge::SECOND;
use crate::outside::{Outside, Report};

/// A program in pieces.
#[derive(Clone)]
pub struct Reducible {
    /// Comments that mean something to the judge: data objects and the like.
    pub header: String,
    /// The call of the first function, as it stands after `; grad:`.
    pub call: String,
    /// The functions; the first is the one that is called.
    pub functions: Vec<Function>,
}

impl Reducible {
    fn parse(text: &str) -> Result<Self> {
        let line = text.lines().find_map(|l| l.strip_prefix("; grad:")).unwrap_or_default();
        let header = text
            .lines()
            .filter(|l| l.starts_with("; data:") || [&"; wild", &SECOND].contains(&l))
            .map(|l| format!("{l}\n"));
        let functions = cranelift_reader::parse_functions(text)?;
        Ok(Self { header: header.collect(), call: line.trim().to_owned(), functions })
    }

    fn text(&self) -> String {
        let mut out = format!("{}; grad: {}\n", self.header, self.call);
        for f in &self.functions {
            out += &format!("\n{}\n", without_comments(&f.display().to_string()));
        }
        out
    }

    /// A number that edits make smaller.
    fn size(&self) -> usize {
        let insts = |f: &Function| f.layout.blocks().map(|b| 2 + f.layout.block_insts(b).count()).sum::<usize>();
        let params = |f: &Function| {
            f.layout.blocks().map(|b| f.dfg.block_params(b).len()).sum::<usize>() + f.signature.returns.len()
        };
        self.functions.iter().map(|f| 10 + insts(f) + params(f)).sum()
    }
}

/// The printer repeats constants behind every instruction that uses one.
fn without_comments(text: &str) -> String {
    let lines = text.trim_end().lines().map(|l| l.split("  ; v").next().unwrap_or(l).trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

/// Make `text` smaller while its verdict stays `key` (see [`Report::key`]).
pub fn reduce(outside: &Outside, text: &str, key: &str) -> Result<String> {
    let Ok(mut best) = Reducible::parse(text) else { return Ok(text.to_owned()) };
    edit::clean(&mut best);
    let still = |p: &Reducible| -> Result<bool> { Ok(outside.judge(&p.text(), "clif")?.key() == key) };
    if !still(&best)? {
        // Even removing what is unused hides the mistake.
        return Ok(text.to_owned());
    }
    loop {
        let before = best.size();
        for pass in edit::PASSES {
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
