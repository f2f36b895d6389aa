//! DOT drawings of forward and pullback graphs.
//!
//! **Question.** Which block of a pullback belongs to which of the forward pass, and where does
//! control go in both?
//!
//! **Answer.** Each derived pair is drawn as two clusters ([`Drawing::add`]), the forward pass and
//! the pullback. A node is a block with its text; solid edges are control flow, labelled where
//! there is a choice; a dashed line without arrow ties the reverse of a block to the block's
//! forward version, so that the eye can go from one to the other. Edge blocks are drawn small.
//!
//! `petgraph::dot` knows no clusters, so the text is written here. Labels are HTML-like: every
//! character that means something there is escaped, and nothing else of DOT's grammar depends on
//! what a symbol is called.
//!
//! **Cost.** One walk over each graph; for each forward block, a search through the blocks of the
//! pullback.

use std::fmt::Write;

use cranelift_codegen::ir;

use crate::BlockId;
use crate::block::{CfgBlock, CfgBlocks, Role, Term};

/// One derived pair to be drawn.
pub struct Pair<'a> {
    /// The function that was derived, as normalised.
    pub primal: &'a ir::Function,
    /// Its forward pass.
    pub forward: &'a CfgBlocks,
    /// Its pullback.
    pub pullback: &'a CfgBlocks,
}

/// A drawing under construction.
pub struct Drawing {
    text: String,
    pairs: usize,
}

impl Drawing {
    /// An empty drawing with a title.
    pub fn new(title: &str) -> Self {
        let mut text = format!("digraph \"{}\" {{\n", quoted(title));
        text.push_str("  compound=true; newrank=true; fontname=\"sans-serif\";\n");
        text.push_str("  node [shape=plain, fontname=\"monospace\", fontsize=10];\n");
        text.push_str("  edge [fontname=\"monospace\", fontsize=9];\n");
        Self { text, pairs: 0 }
    }

    /// Add a derived pair.
    pub fn add(&mut self, pair: &Pair<'_>) {
        let n = self.pairs;
        self.pairs += 1;
        for (graph, side, title) in [(pair.forward, 'f', "forward"), (pair.pullback, 'p', "pullback")] {
            self.cluster(graph, pair.primal, n, side, title);
        }
        for f in pair.forward.blocks.values() {
            let Role::Forward(b) = f.role else { continue };
            for p in pair.pullback.blocks.values().filter(|p| p.role == Role::Reverse(b)) {
                let (f, p) = (node(n, 'f', f.id), node(n, 'p', p.id));
                self.line(2, format_args!("{f} -> {p} [style=dashed, dir=none, constraint=false, color=gray50];"));
            }
        }
    }

    /// The finished text.
    pub fn finish(mut self) -> String {
        self.text.push_str("}\n");
        self.text
    }

    fn line(&mut self, indent: usize, args: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{:indent$}{args}", "").expect("writing to a string does not fail");
    }

    fn cluster(&mut self, graph: &CfgBlocks, primal: &ir::Function, n: usize, side: char, title: &str) {
        self.line(2, format_args!("subgraph cluster_{n}{side} {{"));
        self.line(4, format_args!("label=\"{title}: %{}\"; style=rounded; color=gray70;", quoted(&graph.symbol)));
        let shown = graph.display(primal);
        for block in graph.blocks.values() {
            let label = label(block, &shown.params(block), &shown.lines(block));
            self.line(4, format_args!("{} [label=<{label}>];", node(n, side, block.id)));
        }
        for block in graph.blocks.values() {
            for (to, choice) in choices(&block.term) {
                let (from, to) = (node(n, side, block.id), node(n, side, to));
                match choice {
                    None => self.line(4, format_args!("{from} -> {to};")),
                    Some(c) => self.line(4, format_args!("{from} -> {to} [label=\"{}\"];", quoted(&c))),
                }
            }
        }
        self.line(2, format_args!("}}"));
    }
}

fn node(n: usize, side: char, block: BlockId) -> String {
    format!("{side}{n}_{block}")
}

/// Where a terminator may go, and on which condition.
fn choices(term: &Term) -> Vec<(BlockId, Option<String>)> {
    match term {
        Term::Jump(t) => vec![(t.block, None)],
        Term::If(c, x, y) => vec![(x.block, Some(c.to_string())), (y.block, Some(format!("not {c}")))],
        Term::Table(_, default, entries) => {
            let entries = entries.iter().enumerate().map(|(i, t)| (t.block, Some(i.to_string())));
            entries.chain([(default.block, Some("else".to_owned()))]).collect()
        }
        Term::Switch(_, cases) => cases.iter().map(|&(k, to)| (to, Some(format!("block {k}")))).collect(),
        Term::Return(_) | Term::Trap(_) => vec![],
    }
}

/// An HTML-like table: a title row, and the text.
fn label(block: &CfgBlock, params: &str, lines: &[String]) -> String {
    let small = matches!(block.role, Role::Edge(..));
    let colour = match block.role {
        Role::Forward(_) => "#dceefb",
        Role::Reverse(_) | Role::Begin(_) | Role::Rerun(..) => "#fbe6d4",
        Role::Edge(..) => "#f4f4f4",
        Role::Entry | Role::Exit => "#e2f2de",
    };
    let size = if small { 8 } else { 10 };
    let mut s = format!("<table border=\"0\" cellborder=\"1\" cellspacing=\"0\" cellpadding=\"{}\">", size / 3);
    let title = escaped(&format!("{}{params}", block.id));
    let role = escaped(&block.role.to_string());
    s.push_str(&format!(
        "<tr><td align=\"left\" bgcolor=\"{colour}\"><font point-size=\"{size}\"><b>{title}</b> {role}</font></td></tr>"
    ));
    s.push_str(&format!("<tr><td align=\"left\"><font point-size=\"{size}\">"));
    for line in lines {
        s.push_str(&escaped(line));
        s.push_str("<br align=\"left\"/>");
    }
    s.push_str("</font></td></tr></table>");
    s
}

/// Text inside an HTML-like label.
fn escaped(text: &str) -> String {
    let mut s = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => s.push_str("&amp;"),
            '<' => s.push_str("&lt;"),
            '>' => s.push_str("&gt;"),
            '"' => s.push_str("&quot;"),
            c => s.push(c),
        }
    }
    s
}

/// Text inside a quoted string.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ")
}
