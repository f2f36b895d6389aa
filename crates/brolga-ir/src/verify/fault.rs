//! Faults that the verifier of derived graphs reports: the rule that a graph breaks, and where.
//!
//! **Question.** Which rules does every derived graph keep, and how is a broken one told?
//!
//! **Answer.** [`Rule`] lists them, each with a sentence. A [`Fault`] is a rule that is broken,
//! with function, block and instruction; [`Faults`] collects those of a graph.
//!
//! **Cost.** None for a graph without faults. Of others twenty faults are kept at most, since one
//! cause has many consequences.

use std::fmt::{self, Display, Formatter};

use crate::{BlockId, InstId};

/// A rule that every derived graph keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A block, an instruction and a derived value each have a name of their own.
    Ids,
    /// Every target of a terminator is a block of the graph, none is the entry, and every block is
    /// reached.
    Successors,
    /// A target passes one argument per parameter of its block, of the parameter's type.
    Arguments,
    /// The entry's parameters and the returned values are those of the signature.
    Signature,
    /// A definition dominates each of its uses.
    Dominance,
    /// Operands and results have the types that the operation defines.
    Types,
    /// The forward half and the reverse half each have instructions of their own, and no edge leads
    /// from the reverse half back to the forward half.
    Halves,
    /// On every path to an exit one frame is opened, and it is closed once, after everything that
    /// uses it.
    OneFrame,
    /// The reverse half pops what the forward half pushes: on every path, in the reverse order.
    PopsMirrorPushes,
    /// The reverse half goes back to the predecessor by which the block was entered.
    Predecessors,
    /// What is restored from the frame has been kept there on every path.
    KeepDominatesRestore,
}

impl Rule {
    /// All rules.
    pub const ALL: [Rule; 11] = [
        Rule::Ids,
        Rule::Successors,
        Rule::Arguments,
        Rule::Signature,
        Rule::Dominance,
        Rule::Types,
        Rule::Halves,
        Rule::OneFrame,
        Rule::PopsMirrorPushes,
        Rule::Predecessors,
        Rule::KeepDominatesRestore,
    ];

    /// The rule as a sentence without a full stop.
    pub fn sentence(self) -> &'static str {
        match self {
            Rule::Ids => "every block, instruction and derived value has a name of its own",
            Rule::Successors => "every successor is a block of the graph, and every block is reached",
            Rule::Arguments => "a target passes one argument per parameter, of the parameter's type",
            Rule::Signature => "the entry's parameters and the returned values are those of the signature",
            Rule::Dominance => "a definition dominates its uses",
            Rule::Types => "operands and results have the types that the operation defines",
            Rule::Halves => "the forward half and the reverse half have instructions of their own",
            Rule::OneFrame => "one frame is opened and closed once on every path",
            Rule::PopsMirrorPushes => "pops mirror pushes on every path",
            Rule::Predecessors => "the reverse goes back to the predecessor by which the block was entered",
            Rule::KeepDominatesRestore => "what is restored has been kept on every path",
        }
    }
}

/// A rule that is broken, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The rule.
    pub rule: Rule,
    /// The symbol of the function that the graph becomes.
    pub function: String,
    /// The block concerned.
    pub block: Option<BlockId>,
    /// The instruction concerned.
    pub inst: Option<InstId>,
    /// What is wrong there, in a sentence without a full stop.
    pub what: String,
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let place = [self.block.map(|b| b.to_string()), self.inst.map(|i| i.to_string())];
        let place: Vec<String> = place.into_iter().flatten().collect();
        let sep = if place.is_empty() { "" } else { ": " };
        write!(f, "{}{sep}{} (rule: {})", place.join(", "), self.what, self.rule.sentence())
    }
}

/// The most faults of one graph that are reported: one cause has many consequences.
const MOST: usize = 20;

/// The faults of a graph.
#[derive(Default)]
pub struct Faults {
    function: String,
    found: Vec<Fault>,
}

impl Faults {
    /// None so far, of a function with this symbol.
    pub fn of(function: &str) -> Self {
        Self { function: function.to_owned(), found: Vec::new() }
    }

    /// Report one.
    pub fn add(&mut self, rule: Rule, block: BlockId, inst: Option<InstId>, what: impl Into<String>) {
        if self.found.len() < MOST {
            let function = self.function.clone();
            self.found.push(Fault { rule, function, block: Some(block), inst, what: what.into() });
        }
    }

    /// Report one that belongs to no block.
    pub fn add_unlocated(&mut self, rule: Rule, what: impl Into<String>) {
        if self.found.len() < MOST {
            let function = self.function.clone();
            self.found.push(Fault { rule, function, block: None, inst: None, what: what.into() });
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Nothing if there is none, else all of them.
    ///
    /// # Errors
    /// The faults.
    pub fn or_ok(self) -> Result<(), Vec<Fault>> {
        if self.found.is_empty() { Ok(()) } else { Err(self.found) }
    }
}
