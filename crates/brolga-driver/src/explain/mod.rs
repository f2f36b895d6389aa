//! Explanation: why the gradient of a call is what it is.
//!
//! **Question.** Why is an entry of a gradient zero, not finite, or as large as it is, and what
//! does the derivative record?
//!
//! **Answer.** Two sources, neither of which guesses. The *run* is the oracle's: the program is
//! interpreted with every float on a graph ([`brolga_oracle::trace`]), which knows by which uses
//! and slopes a cotangent came about, and where a use ended. The *plan* is that of the derivation
//! itself: what each block records for the pullback, and for whom ([`plan`]); together with how
//! often the run entered the block that gives bytes.
//!
//! ```text
//! entries         each input: its gradient; if that is zero, the edges that are cut;
//!                 for a single one, its terms
//! non_finite      the first cotangent of the pullback that is not a finite number,
//!                 and the way it came
//! contributions   the instructions by the size of what they contribute
//! blocks          what is recorded, and why
//! ```
//!
//! The gradient shown is the tape's; where the compiled one differs beyond rounding, that is said,
//! and `check` is the command to go on with.
//!
//! **Cost.** One interpreted run, whose graph is in memory; one derivation for the plan, and one
//! that is compiled and run. Of at most 256 inputs it is explained why the gradient is zero: each
//! may lead through the whole run.

pub mod json;
mod names;
pub mod plan;
pub mod text;

use std::collections::HashMap;

use brolga::{ArgActivity, Effort, Error, Inline, Mode, Options, Program, Untracked};
use brolga_oracle::trace::{Contribution, End, Port, Reason, Step};
use brolga_oracle::{InstSite, Oracle, OracleError, Place};

use crate::bind::{BoundArg, Invocation};
use crate::compare::close;
use crate::inputs::{Input, flatten, inputs, oracle_args};
use crate::memory::Memory;
use crate::protocol::derive;
use crate::run::gradient;
use crate::value::is_float;

/// Most inputs whose zero gradient is explained. Each may lead through the whole run, and what cuts
/// one input of a long buffer mostly cuts the others too.
const MAX_EXPLAINED: usize = 256;

/// What to explain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExplainRequest {
    /// Only this argument, or this lane or element of it.
    pub wrt: Option<(usize, Option<usize>)>,
    /// Most instructions to list by contribution.
    pub top: usize,
    /// What the compiled derivative is made of, and so what is recorded.
    pub mode: Mode,
    /// Which calls are replaced in it.
    pub inline: Inline,
    /// Whether it is to be fast, or to be there soon.
    pub effort: Effort,
    /// Whether problems with bits of floats are left to its run.
    pub untracked: Untracked,
}

/// A reason in words.
#[derive(Clone, Debug, PartialEq)]
pub struct ReasonText {
    /// What kind of reason: a word that does not change.
    pub kind: &'static str,
    /// A sentence, without the place.
    pub text: String,
    /// The instruction at which the derivative ends, if there is one.
    pub at: Option<Box<Place>>,
}

/// What is said about one input.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientEntry {
    /// The input.
    pub input: Input,
    /// Its gradient; `None` if its argument is constant.
    pub gradient: Option<f64>,
    /// The compiled gradient, where it differs.
    pub compiled: Option<f64>,
    /// Why the gradient is zero, or not there; left out after the first few hundred that are zero.
    pub why: Vec<ReasonText>,
}

/// A term of a cotangent, or several at one instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The instruction.
    pub at: Box<Place>,
    /// How many terms.
    pub count: usize,
    /// Their sum.
    pub sum: f64,
    /// The largest magnitude.
    pub largest: f64,
}

/// A step on the way of a cotangent.
#[derive(Clone, Debug, PartialEq)]
pub struct PathBack {
    /// The instruction; `None` for an input.
    pub at: Option<Box<Place>>,
    /// What it computed.
    pub value: f64,
    /// Its cotangent.
    pub cotangent: f64,
    /// The slope by which the cotangent of this step reached the next one, and the product.
    pub passed: Option<(f64, f64)>,
}

/// Everything that is said about a call.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// One per input that was asked for.
    pub entries: Vec<GradientEntry>,
    /// The way from a result to the first cotangent that is not finite.
    pub non_finite: Option<Vec<PathBack>>,
    /// The first value of the primal that is not finite.
    pub non_finite_value: Option<(Option<Box<Place>>, f64)>,
    /// The input whose terms `contributions` are; `None` if they are those of the whole pullback.
    pub of: Option<String>,
    /// The largest first.
    pub contributions: Vec<Term>,
    /// How many more there are.
    pub more_contributions: usize,
    /// What is recorded, for each derived function; or why there is no derivative.
    pub plans: Result<Vec<plan::FunctionPlan>, String>,
    /// Bytes that a compiled forward run recorded.
    pub tape_bytes: Option<usize>,
}

/// Explain a call.
///
/// # Errors
/// What the tape cannot run.
pub fn explain(program: &Program, call: &Invocation, wanted: ExplainRequest) -> Result<Explanation, OracleError> {
    let run_as = program;
    let memory = Memory::new(call).map_err(|e| OracleError::NotBegun(e.to_string()))?;
    let args = oracle_args(call, &memory);
    // SAFETY: pointers are to live blocks of `memory`; see `run::gradient_in` for what the program
    // may do with them.
    let trace = unsafe { Oracle::new(call.interpreted(program)).trace(call.func, &args, &call.seeds) }?;
    let (program, hidden) = (call.interpreted(program), call.hidden());
    let words = Words { program, hidden };

    let ExplainRequest { mode, inline, effort, untracked, .. } = wanted;
    let options = Options { memory: call.memory, mode, inline, effort, untracked, ..Options::default() };
    let compiled = derive(run_as, &call.request(), &options).and_then(|rule| gradient(&rule, call));
    let all = inputs(call);
    let flat = compiled.as_ref().ok().map(|o| flatten(o, &all));
    let asked =
        |i: &Input| !i.is_other() && wanted.wrt.is_none_or(|(arg, k)| i.arg == arg && (k.is_none() || i.index == k));
    let mut entries = Vec::new();
    let mut nodes = Vec::new();
    let mut explained = 0;
    let leaves: HashMap<Port, _> = trace.inputs().iter().copied().collect();
    for (k, input) in all.iter().enumerate().filter(|(_, i)| asked(i)) {
        let port = match (call.buffer(input.arg), input.index) {
            (Some(_), Some(i)) => Port::Element(hidden + input.arg, i),
            (_, i) => Port::Lane(hidden + input.arg, i.unwrap_or(0)),
        };
        let Some(&node) = leaves.get(&port) else { continue };
        let gradient = trace.cotangent(node);
        let other = flat.as_ref().map(|f| f[k]).filter(|c| !close(*c, gradient, 1e-4));
        explained += usize::from(gradient == 0.0);
        let reasons = if explained <= MAX_EXPLAINED { trace.why_zero(node) } else { Vec::new() };
        let why = reasons.iter().map(|r| words.reason(r)).collect();
        nodes.push(node);
        entries.push(GradientEntry { input: *input, gradient: Some(gradient), compiled: other, why });
    }
    entries.extend(constants(call).into_iter().filter(asked).map(|input| words.constant(input)));

    let of = if let [node] = nodes[..] { Some((node, entries[0].input.name())) } else { None };
    let mut contributions = trace.contributions(of.as_ref().map(|o| o.0));
    let more_contributions = contributions.len().saturating_sub(wanted.top);
    contributions.truncate(wanted.top);
    let visits = |func, block| trace.visits(func, block);
    Ok(Explanation {
        entries,
        non_finite: trace.first_non_finite().map(|way| way.iter().map(|s| words.step(s)).collect()),
        non_finite_value: trace.first_non_finite_value().map(|(s, v)| (s.map(|s| words.place(s)), v)),
        of: of.map(|o| o.1),
        contributions: contributions.iter().map(|c| words.term(c)).collect(),
        more_contributions,
        plans: plan::plans(program, &call.request(), &options, &visits).map_err(|e| short(&e)),
        tape_bytes: compiled.ok().map(|o| o.tape_bytes),
    })
}

fn short(e: &Error) -> String {
    match e {
        Error::Diagnostics(d) => {
            d.0.iter().map(|d| format!("{}: {}", d.code, d.message)).collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    }
}

/// Floats of constant arguments: by value each lane, of a buffer only the first element.
fn constants(call: &Invocation) -> Vec<Input> {
    let mut out = Vec::new();
    for arg in (0..call.args.len()).filter(|&a| call.activity(a) == ArgActivity::Const) {
        let index = match &call.args[arg] {
            BoundArg::Value(_) if is_float(call.params[arg]) => None,
            _ if call.buffer(arg).is_some_and(|b| b.1.is_float()) => Some(0),
            _ => continue,
        };
        out.push(Input { arg, index, value: f64::NAN, f32: false, word: None });
    }
    out
}

/// What a trace answers, in words.
struct Words<'a> {
    program: &'a Program,
    /// Arguments before those that are written.
    hidden: usize,
}

impl Words<'_> {
    fn place(&self, site: InstSite) -> Box<Place> {
        let mut place = Place::new(self.program, site);
        let code = place.text.split("  ;").next().unwrap_or_default();
        place.text = code.trim_end().to_owned();
        place
    }

    fn constant(&self, input: Input) -> GradientEntry {
        let text = format!("argument {} is constant: nothing is differentiated with respect to it", input.arg);
        GradientEntry { input, gradient: None, compiled: None, why: vec![ReasonText { kind: "const", text, at: None }] }
    }

    fn reason(&self, r: &Reason) -> ReasonText {
        let why = |kind, text: &str, at: Option<InstSite>| ReasonText {
            kind,
            text: text.to_owned(),
            at: at.map(|s| self.place(s)),
        };
        match r {
            Reason::Ended { how, at } => {
                let (kind, text) = match how {
                    End::Rounded => ("rounded", "rounded to an integral number, which has no slope"),
                    End::NotChosen => ("not_chosen", "not chosen: another operand was taken"),
                    End::Compared => ("compared", "only compared"),
                    End::LocallyConstant => ("locally_constant", "used where only its sign or a constant counts"),
                    End::Overwritten => ("overwritten", "overwritten in memory before anything that counts read it"),
                    End::StoredOnly => ("stored", "stored, but nothing that counts reads it back"),
                    End::Unused if at.is_none() => ("unused", "not used by any instruction that was executed"),
                    End::Unused => ("unused", "computed, but not used"),
                };
                why(kind, text, *at)
            }
            Reason::ZeroSlope(site, ct) => {
                why("zero_slope", &format!("multiplied by zero (cotangent {ct:?})"), Some(*site))
            }
            Reason::Underflow(site) => why("underflow", "the product of cotangent and slope is too small", Some(*site)),
            Reason::Cancelled(terms) => {
                let terms: Vec<String> = terms
                    .iter()
                    .map(|(s, t)| {
                        let p = self.place(*s);
                        format!(
                            "{t:+?} from {}{}",
                            p.inst,
                            if p.line == 0 { String::new() } else { format!(" ({})", brolga_ir::position(p.line)) }
                        )
                    })
                    .collect();
                why("cancelled", &format!("its terms cancel: {}", terms.join(", ")), None)
            }
            Reason::ZeroSeed(port) => {
                let text = match *port {
                    Port::Result(i, _) => format!("it reaches result {i}, whose seed is zero"),
                    Port::Element(a, i) => {
                        let a = a - self.hidden;
                        format!("it ends up in element {i} of argument {a}, whose initial shadow is zero")
                    }
                    Port::Lane(a, _) => format!("it is argument {} again", a - self.hidden),
                };
                why("zero_seed", &text, None)
            }
            Reason::NotReached { branch, usage } => {
                let usage = self.place(*usage);
                let line =
                    if usage.line == 0 { String::new() } else { format!(", {}", brolga_ir::position(usage.line)) };
                let text = format!("the branch never went to where `{}` ({}{line}) is", usage.text, usage.inst);
                why("not_reached", &text, Some(*branch))
            }
        }
    }

    fn step(&self, s: &Step) -> PathBack {
        PathBack { at: s.site.map(|s| self.place(s)), value: s.value, cotangent: s.cotangent, passed: s.passed }
    }

    fn term(&self, c: &Contribution) -> Term {
        Term { at: self.place(c.site), count: c.count, sum: c.sum, largest: c.largest }
    }
}
