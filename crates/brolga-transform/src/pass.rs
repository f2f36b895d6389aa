//! Passes of a list: what each is called, why it is there, and what it does.
//!
//! **Question.** Which passes run over a function, in which order, and what would be lost without
//! one?
//!
//! **Answer.** There are two lists: over the primal ([`crate::primal::normalise`]), and over
//! derived CLIF ([`crate::clif::passes`]). Their entries are [`ListedPass`]es. One that can be left
//! out has a name of [`Pass`], which says what it is worth; one that always runs says why. What a
//! list knows of a function, and where remarks on loops go, is the context that `run` is given.
//!
//! **Cost.** A bit of a set is asked for each pass.

use brolga_ir::{Pass, PassSet};

/// A pass over a function; `R` is the type of what runs it.
pub struct ListedPass<R> {
    /// By which it is spoken of.
    pub name: &'static str,
    /// When it runs.
    pub runs: Runs,
    /// Changes a function.
    pub run: R,
}

/// When a pass runs.
pub enum Runs {
    /// Always, for this reason.
    Always(&'static str),
    /// If one of these is switched on.
    If(&'static [Pass]),
}

impl<R> ListedPass<R> {
    /// A pass that always runs, for this reason.
    pub const fn always(name: &'static str, why: &'static str, run: R) -> Self {
        Self { name, runs: Runs::Always(why), run }
    }

    /// A pass that runs if one of these is switched on.
    pub const fn if_on(name: &'static str, switches: &'static [Pass], run: R) -> Self {
        Self { name, runs: Runs::If(switches), run }
    }

    /// Whether it runs where these passes are switched on.
    pub fn is_on(&self, enabled: PassSet) -> bool {
        match self.runs {
            Runs::Always(_) => true,
            Runs::If(switches) => switches.iter().any(|&p| enabled.contains(p)),
        }
    }
}
