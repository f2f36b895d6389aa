//! Explanation as text, for people.
//!
//! **Question.** What is shown of an [`Explanation`], and how much of it?
//!
//! **Answer.** Four parts in their order: entries of the gradient with their reasons, the first
//! value and the first cotangent that are not finite with the way they came, the largest
//! contributions, and what each block records. Of long lists the first lines are shown, and how
//! many more there are.
//!
//! **Cost.** One walk over the explanation.

use std::fmt::Write;

use brolga_oracle::Place;
use brolga_transform::plan::remarks::TaskSums;

use super::plan::Sums;
use super::{Explanation, GradientEntry, PathBack};
use crate::output::show_num;
use crate::value::Num;

/// Entries that are shown in full.
const MAX_ENTRIES: usize = 40;
/// Reasons that are shown for one entry.
const MAX_REASONS: usize = 6;

/// The explanation of a call that was written as `written`.
pub fn text(written: &str, e: &Explanation) -> String {
    let mut t = Text { out: format!("{written}\n") };
    t.entries(&e.entries);
    t.non_finite(e);
    t.contributions(e);
    t.plans(e);
    t.out
}

struct Text {
    out: String,
}

fn num(x: f64) -> String {
    show_num(Num::F64(x))
}

fn plural(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

impl Text {
    fn line(&mut self, indent: usize, text: &str) {
        writeln!(self.out, "{:indent$}{text}", "").expect("writing to a string does not fail");
    }

    fn place(p: &Place) -> String {
        let line = if p.line == 0 { String::new() } else { format!(", {}", brolga_ir::position(p.line)) };
        format!("%{}{line}: `{}`", p.function, p.text)
    }

    fn entries(&mut self, entries: &[GradientEntry]) {
        self.line(0, "\nGradient");
        for e in entries.iter().take(MAX_ENTRIES) {
            let name = e.input.name();
            match e.gradient {
                Some(g) => self.line(2, &format!("{name:<8} {:<14} at {}", num(g), num(e.input.value))),
                None => self.line(2, &format!("{name:<8} none")),
            }
            if let Some(c) = e.compiled {
                self.line(4, &format!("the compiled gradient is {}: see `check`", num(c)));
            }
            for why in e.why.iter().take(MAX_REASONS) {
                self.line(4, &format!("zero: {}", why.text).replace("zero: argument", "argument"));
                if let Some(at) = &why.at {
                    self.line(6, &format!("at {}", Self::place(at)));
                }
            }
            if e.why.len() > MAX_REASONS {
                self.line(4, &format!("… {} more reasons", e.why.len() - MAX_REASONS));
            }
        }
        if entries.len() > MAX_ENTRIES {
            self.line(2, &format!("… {} more (--wrt N or --wrt 'N[i]' asks for some)", entries.len() - MAX_ENTRIES));
        }
    }

    fn non_finite(&mut self, e: &Explanation) {
        if let Some((at, value)) = &e.non_finite_value {
            self.line(0, &format!("\nFirst value that is not finite: {}", num(*value)));
            self.line(2, &at.as_ref().map_or_else(|| "an input".to_owned(), |p| format!("at {}", Self::place(p))));
        }
        let Some(way) = &e.non_finite else { return };
        self.line(0, "\nFirst cotangent that is not finite, and how it came about");
        let skipped = way.len().saturating_sub(12);
        for (i, step) in way.iter().enumerate() {
            if i == 1 && skipped > 0 {
                self.line(2, &format!("… {skipped} steps"));
            }
            if i >= 1 && i <= skipped {
                continue;
            }
            self.step(step);
        }
    }

    fn step(&mut self, s: &PathBack) {
        let at = s.at.as_ref().map_or_else(|| "an input".to_owned(), |p| Self::place(p));
        self.line(2, &at);
        self.line(6, &format!("value {}, cotangent {}", num(s.value), num(s.cotangent)));
        if let Some((slope, product)) = s.passed {
            self.line(6, &format!("passes on {} · {} = {}", num(s.cotangent), num(slope), num(product)));
        }
    }

    fn contributions(&mut self, e: &Explanation) {
        match &e.of {
            Some(name) => self.line(0, &format!("\nTerms of the gradient of {name}")),
            None => self.line(0, "\nLargest contributions (cotangent · slope)"),
        }
        if e.contributions.is_empty() {
            self.line(2, "none");
        }
        for c in &e.contributions {
            let what = if c.count == 1 {
                num(c.sum)
            } else {
                format!("{} in {} terms, the largest {}", num(c.sum), c.count, num(c.largest))
            };
            self.line(2, &what);
            self.line(6, &format!("at {}", Self::place(&c.at)));
        }
        if e.more_contributions > 0 {
            self.line(2, &format!("… {} more instructions", e.more_contributions));
        }
    }

    fn plans(&mut self, e: &Explanation) {
        match e.tape_bytes {
            Some(n) => self.line(0, &format!("\nRecorded: {}", plural(n as u64, "byte"))),
            None => self.line(0, "\nRecorded"),
        }
        let plans = match &e.plans {
            Ok(plans) => plans,
            Err(message) => return self.line(2, &format!("there is no compiled derivative: {message}")),
        };
        for f in plans {
            let frame = match f.frame_bytes {
                0 => "no activation frame".to_owned(),
                n => format!("an activation frame of {}", plural(n.into(), "byte")),
            };
            self.line(2, &format!("%{}: {frame}", f.function));
            for b in &f.blocks {
                let line = if b.line == 0 { String::new() } else { format!(" ({})", brolga_ir::position(b.line)) };
                let bytes = match b.bytes_each() {
                    0 => "pushes nothing".to_owned(),
                    n => format!("pushes {} each time", plural(n, "byte")),
                };
                let (whose, calls) = match &b.inlined {
                    Some(f) => (format!(" of %{f}"), " by all calls"),
                    None => (String::new(), ""),
                };
                let times = plural(b.times, "time");
                self.line(4, &format!("{}{whose}{line}, entered {times}{calls}: {bytes}", b.block));
                if b.rerun {
                    self.line(6, "runs in the reverse half, forwards, since its loop does nothing but add up");
                }
                b.lanes.iter().chain(&b.room).for_each(|l| self.line(6, l));
                let recorded = [
                    ("keeps", &b.keeps),
                    ("pushes", &b.pushes),
                    ("holds", &b.holds),
                    ("knows", &b.knows),
                    ("computes again", &b.recomputes),
                ];
                for (verb, list) in recorded {
                    for r in list {
                        let size =
                            if r.bytes == 0 { String::new() } else { format!(", {}", plural(r.bytes.into(), "byte")) };
                        self.line(6, &format!("{verb} {}{size}", r.what));
                        r.readers.iter().for_each(|reader| self.line(8, &format!("for {reader}")));
                        self.line(8, &format!("since {}", r.why));
                    }
                }
                if b.number_bytes > 0 {
                    let size = plural(b.number_bytes.into(), "byte");
                    self.line(6, &format!("pushes its number, {size}"));
                    self.line(8, "for the pullback to know where the next block was entered from");
                }
            }
            self.sums(&f.sums);
        }
    }

    /// Where a task's cotangents go.
    fn sums(&mut self, all: &[Sums]) {
        if !all.is_empty() {
            self.line(4, "as a task of a fork");
        }
        for s in all {
            let place = match s.sums {
                TaskSums::Shadow => "to the shadow",
                TaskSums::Apart => "to the shadow, or to sums of the task's own where tasks meet,",
                TaskSums::Pending => "to sums of the task's own",
            };
            self.line(6, &format!("adds {place} behind the pointer {}", s.pointer));
            s.accesses.iter().for_each(|access| self.line(8, &format!("for {access}")));
            self.line(8, &format!("since {}", s.why));
        }
    }
}
