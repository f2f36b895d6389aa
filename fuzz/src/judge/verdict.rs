//! Verdicts: what is found out about a program, and which of them an error stands for.

use std::fmt;

use brolga::Error;
use brolga_driver::value::Item;
use brolga_driver::{Invocation, Outcome};

/// What was found out about a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// All is well, and there is a derivative.
    Useful,
    /// All is well, and the gradient is what it would be without the program.
    Trivial,
    /// The engine says that it cannot, with these codes.
    Refused(Vec<&'static str>),
    /// The program traps, and so do primal and forward pass.
    Traps,
    /// The program runs too long.
    TooLong,
    /// The oracle does not follow the program, so nothing was compared.
    Unjudged(String),
    /// Something is wrong.
    Wrong(Finding),
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What kind of mistake: stays the same while a program is made smaller.
    pub class: String,
    /// What was expected and found.
    pub detail: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Useful => write!(f, "useful"),
            Self::Trivial => write!(f, "trivial"),
            Self::Refused(codes) => write!(f, "refused {}", codes.join(" ")),
            Self::Traps => write!(f, "traps"),
            Self::TooLong => write!(f, "too long"),
            Self::Unjudged(why) => write!(f, "unjudged {}", one_line(why)),
            Self::Wrong(w) => write!(f, "wrong {}\t{}", w.class, one_line(&w.detail)),
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn wrong(class: impl Into<String>, detail: impl Into<String>) -> Verdict {
    Verdict::Wrong(Finding { class: class.into(), detail: detail.into() })
}

pub(super) fn refusal(error: Error) -> Verdict {
    match error {
        Error::Diagnostics(ds) if ds.0.iter().all(|d| is_users(d.code)) => {
            let mut codes: Vec<_> = ds.0.iter().map(|d| d.code).collect();
            codes.sort_unstable();
            codes.dedup();
            Verdict::Refused(codes)
        }
        other => failure(other),
    }
}

/// A run that ends because what it does cannot be followed, as users are told, is refused too.
pub(super) fn checked(error: Error) -> Verdict {
    const QUESTIONS_FOR_THE_RUN: [&str; 2] = ["untracked_bits", "const_store"];
    match &error {
        Error::Trap(t) => match QUESTIONS_FOR_THE_RUN.iter().find(|c| **c == t.code) {
            Some(check) => Verdict::Refused(vec![check]),
            None => failure(error),
        },
        _ => failure(error),
    }
}

/// Whether a code speaks of the program, not of a mistake of ours.
fn is_users(code: &str) -> bool {
    code.starts_with("AD01")
}

pub(super) fn failure(error: Error) -> Verdict {
    let class = match &error {
        Error::Diagnostics(ds) => format!("diagnostic {}", ds.0.first().map_or("", |d| d.code)),
        Error::Trap(t) => format!("trap {} in {}", t.code, t.phase),
        Error::Usage(m) => format!("usage {}", template(m)),
        Error::Internal { stage, message } => format!("internal {stage} {}", template(message)),
    };
    wrong(class, error.to_string())
}

/// The letters of a message: numbers and names of values differ from program to program.
pub(super) fn template(message: &str) -> String {
    let words =
        message.split_whitespace().filter(|w| w.chars().all(|c| c.is_ascii_alphabetic() || c == ':' || c == ','));
    words.take(12).collect::<Vec<_>>().join(" ")
}

/// Whether no argument by value has a cotangent and every shadow is as it was.
pub(super) fn is_trivial(call: &Invocation, outcome: &Outcome) -> bool {
    outcome.gradient.iter().enumerate().all(|(i, g)| match (g, call.buffer(i)) {
        (None, _) => true,
        (Some(g), Some((_, elem, _, shadow))) => {
            g.same_bits(&Item::Many(brolga_driver::value::decode_all(elem, shadow)))
        }
        (Some(g), None) => g.nums().iter().all(|n| n.as_f64() == 0.0),
    })
}
