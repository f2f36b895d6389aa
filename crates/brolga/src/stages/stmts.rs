//! Statements as text (the `stmts` stage): each primal instruction with what is known of it and
//! what it becomes.
//!
//! **Question.** What did analyses find out about an instruction, and which fragments did
//! translation make of it?
//!
//! **Answer.** Lines for each instruction, block by block:
//!
//! ```text
//! inst4  v5 = load.f64 v1+8
//!     facts    v5 active f64; moves floats (f64)
//!     reverse  d5 = take ct(v5)
//!              shadow.f64[v1+8; v1'] += d5
//!     comms    v1, v1'
//! ```
//!
//! Of a value: `active` with the shape of its cotangent; `under a root` if that may be infinite
//! because a root is at zero, so that products with it ask for that; `shadow by v1'` names the
//! delta that leads to its shadow. `before` and `after` stand around the primal instruction in the
//! forward pass, `instead` takes its place. An instruction without any of these stays as it is and
//! has no reverse.
//!
//! **Cost.** None, where no text is asked for. Else one walk over the instructions.

use std::fmt::Write;

use brolga_analysis::activity::State;
use brolga_analysis::{CopyRole, Delta, MemRole};
use brolga_ir::print::{fragment_lines, primal_text};
use brolga_transform::Stages;
use brolga_transform::facts::Facts;
use cranelift_codegen::ir;

/// All statements of one variant.
pub(crate) fn text(s: &Stages<'_>) -> String {
    let func = s.facts.func();
    let mut out = String::new();
    for &b in &s.facts.cfg.blocks {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&block_header(&s.facts, b));
        for inst in func.layout.block_insts(b) {
            // A function that was refused has statements up to the refusal only.
            if let Some(stmt) = s.stmts.get(&inst) {
                let stays = if stmt.keep { "after" } else { "instead" };
                let comms: Vec<String> = stmt.comms().iter().map(ToString::to_string).collect();
                writeln!(out, "  {inst:<6} {}", primal_text(func, inst)).expect("writing to a string does not fail");
                section(&mut out, "facts", &facts(&s.facts, inst));
                section(&mut out, "before", &fragment_lines(&stmt.before, func));
                section(&mut out, stays, &fragment_lines(&stmt.after, func));
                section(&mut out, "reverse", &fragment_lines(&stmt.rvs, func));
                section(&mut out, "comms", &if comms.is_empty() { vec![] } else { vec![comms.join(", ")] });
            }
        }
    }
    out
}

fn section(out: &mut String, label: &str, lines: &[String]) {
    for (i, line) in lines.iter().enumerate() {
        writeln!(out, "      {:<8} {line}", if i == 0 { label } else { "" })
            .expect("writing to a string does not fail");
    }
}

fn block_header(f: &Facts<'_>, b: ir::Block) -> String {
    let runs = if f.cfg.is_acyclic(b) { "runs at most once" } else { "runs in a loop" };
    let mut s = format!("{b}:  ; {runs}\n");
    for &p in f.func().dfg.block_params(b) {
        let ty = f.func().dfg.value_type(p);
        let known = value(f, p);
        writeln!(s, "  {p}: {ty}{}", if known.is_empty() { String::new() } else { format!("  ; {known}") })
            .expect("writing to a string does not fail");
    }
    s
}

/// What is known of an instruction: of each result, and of the memory that it touches.
fn facts(f: &Facts<'_>, inst: ir::Inst) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for &r in f.func().dfg.inst_results(inst) {
        let known = value(f, r);
        if !known.is_empty() {
            parts.push(format!("{r} {known}"));
        }
    }
    parts.extend(memory(f.activity.mem[inst]));
    parts.extend(f.activity.copies[inst].as_ref().map(copy));
    if parts.is_empty() { vec![] } else { vec![parts.join("; ")] }
}

fn memory(role: MemRole) -> Option<String> {
    match role {
        MemRole::None => None,
        MemRole::Float(shape) => Some(format!("moves {shape}")),
        MemRole::Pointer => Some("moves a pointer".to_owned()),
        MemRole::Kill { bytes, checked } => {
            let check = if checked { ", checks that no cotangent waited there" } else { "" };
            Some(format!("overwrites {bytes} bytes with something inactive{check}"))
        }
    }
}

fn copy(role: &CopyRole) -> String {
    match role {
        CopyRole::Fields(fields) => {
            let fields: Vec<String> =
                fields.iter().filter_map(|&(off, role)| Some(format!("{} at +{off}", memory(role)?))).collect();
            if fields.is_empty() { "copies nothing active".to_owned() } else { fields.join(", ") }
        }
        CopyRole::Floats(bytes) => format!("copies floats of {bytes} bytes"),
        CopyRole::Mixed => "copies floats of 8 or 4 bytes".to_owned(),
        CopyRole::Pointers => "copies pointers".to_owned(),
        CopyRole::Ints => "copies integers".to_owned(),
    }
}

/// What is known of a value; nothing for one that has nothing to do with the derivative.
fn value(f: &Facts<'_>, v: ir::Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    match (f.activity.ct[v], f.activity.state[v]) {
        (Some(shape), _) => {
            let root = if f.roots.holds(v) { ", under a root" } else { "" };
            parts.push(format!("active {shape}{root}"));
        }
        (None, State::Varied { .. }) => parts.push("varied, but no result depends on it".to_owned()),
        (None, State::Taint { .. }) => parts.push("computed from the bits of a float".to_owned()),
        (None, State::No) => {}
    }
    match f.pointers.delta[v] {
        Delta::Root(r) if f.pointers.sure.contains(r) => parts.push(format!("shadow by {r}'")),
        Delta::Root(r) => parts.push(format!("shadow by {r}', if not 0")),
        Delta::Lost => parts.push("shadow lost".to_owned()),
        Delta::None | Delta::Unknown => {}
    }
    parts.join(", ")
}
