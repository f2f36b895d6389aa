//! Every stage of the pipeline as text, and the two derived graphs as a DOT drawing.

use brolga_ir::{Options, Program, Request};

use crate::Error;

/// A stage of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The primal after normalisation.
    Normalised,
    /// The primal as a block graph with stable ids.
    Cfg,
    /// What each statement becomes: forward fragment, reverse fragment, what is communicated.
    Stmts,
    /// The forward graph.
    Forward,
    /// The pullback graph.
    Pullback,
    /// The forward pass as CLIF.
    ClifForward,
    /// The pullback as CLIF.
    ClifPullback,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 7] = [
        Stage::Normalised,
        Stage::Cfg,
        Stage::Stmts,
        Stage::Forward,
        Stage::Pullback,
        Stage::ClifForward,
        Stage::ClifPullback,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Normalised => "normalised",
            Stage::Cfg => "cfg",
            Stage::Stmts => "stmts",
            Stage::Forward => "forward",
            Stage::Pullback => "pullback",
            Stage::ClifForward => "clif-forward",
            Stage::ClifPullback => "clif-pullback",
        }
    }
}

/// One stage of the derivative of `request.func`, as text.
pub fn dump(_program: &Program, _request: &Request, _options: &Options, _stage: Stage) -> Result<String, Error> {
    Err(Error::Internal { stage: "dump", message: "being built".into() })
}

/// Forward and pullback graphs as two DOT clusters, each reverse block tied to its primal block.
pub fn dot(_program: &Program, _request: &Request, _options: &Options) -> Result<String, Error> {
    Err(Error::Internal { stage: "dot", message: "being built".into() })
}
