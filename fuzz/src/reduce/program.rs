//! A program while it is made smaller: its functions, the call, and what the judge reads.

use anyhow::Result;
use cranelift_codegen::ir::Function;

use crate::judge::SECOND;

/// A program in pieces.
#[derive(Clone)]
pub(super) struct ReducibleProgram {
    /// Comments that mean something to the judge: data objects and the like.
    pub header: String,
    /// The call of the first function, as it stands after `; grad:`.
    pub call: String,
    /// The functions; the first is the one that is called.
    pub functions: Vec<Function>,
}

impl ReducibleProgram {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let line = text.lines().find_map(|l| l.strip_prefix("; grad:")).unwrap_or_default();
        let header = text
            .lines()
            .filter(|l| l.starts_with("; data:") || [&"; wild", &SECOND].contains(&l))
            .map(|l| format!("{l}\n"));
        let functions = cranelift_reader::parse_functions(text)?;
        Ok(Self { header: header.collect(), call: line.trim().to_owned(), functions })
    }

    pub(super) fn text(&self) -> String {
        let mut out = format!("{}; grad: {}\n", self.header, self.call);
        for f in &self.functions {
            out += &format!("\n{}\n", without_comments(&f.display().to_string()));
        }
        out
    }

    /// A number that edits make smaller.
    pub(super) fn size(&self) -> usize {
        let insts = |f: &Function| f.layout.blocks().map(|b| 2 + f.layout.block_insts(b).count()).sum::<usize>();
        let params = |f: &Function| {
            f.layout.blocks().map(|b| f.dfg.block_params(b).len()).sum::<usize>() + f.signature.returns.len()
        };
        self.functions.iter().map(|f| 10 + insts(f) + params(f)).sum()
    }
}

/// The printer repeats constants after every instruction that uses one.
fn without_comments(text: &str) -> String {
    let lines = text.trim_end().lines().map(|l| l.split("  ; v").next().unwrap_or(l).trim_end());
    lines.collect::<Vec<_>>().join("\n")
}
