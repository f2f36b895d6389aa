//! Mutants of emitted functions: does any check notice a rule that is wrong?
//!
//! A rule row is a formula, and mutants of formulas are measured against the function itself
//! ([`brolga_rules::check::mutants`](https://docs.rs/brolga-rules)). What structural rules emit has
//! no formula: loads, stores, joins, calls. So we derive a case as always, make one mistake in an
//! emitted function ([`edits`]), compile that, and ask the checks of the case's own lines, in the
//! order in which they are cheap: its numbers, the tape with random seeds and shadows, the
//! protocol, finite differences. A mutant that passes all of them has *survived*: either a check is
//! missing, or the mutant computes the same thing. The latter are argued in [`equivalent`].
//!
//! Mutants may loop or crash, so each batch runs in a process of its own ([`batch`] and
//! [`worker`]); a crash is a kill.

pub mod batch;
pub mod edits;
pub mod equivalent;
pub mod worker;

use std::path::Path;

use brolga::{DerivedRule, Error, MemoryMode, Options, Pass, PassSet, Program, Request, jit};
use brolga_driver::check::{Tolerances, check};
use brolga_driver::protocol::{derive, disagreement_with_tape_of, shape_violations, violations_in};
use brolga_driver::text::GradLine;
use brolga_driver::{Directive, File, Invocation, compare, run};
use brolga_ir::panics;
use brolga_transform::Derivation;

use crate::checks::requests;
use edits::{Half, Mutant, apply, mutants};

/// A derivative whose functions are mutated, and the lines of its file that ask for it.
pub struct Subject<'a> {
    file: &'a File,
    request: Request,
    memory: MemoryMode,
    lines: Vec<(&'a GradLine, Invocation)>,
    derivation: Derivation,
    /// All mutants.
    pub mutants: Vec<Mutant>,
}

/// Memory modes with their names.
pub const MODES: [(MemoryMode, &str); 2] = [(MemoryMode::Leave, "leave"), (MemoryMode::Restore, "restore")];

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The first check that noticed: `numbers`, `tape`, `protocol`, …
    Killed(&'static str),
    /// No check noticed.
    Survived,
}

impl<'a> Subject<'a> {
    /// The `index`th derivative of a file in a memory mode. `None` if there are fewer, or the
    /// engine refuses it.
    pub fn new(file: &'a File, index: usize, memory: MemoryMode) -> Option<Self> {
        let request = requests(file).into_iter().nth(index)?.request;
        // What is before loops in lanes only chooses between two ways of doing the same, so a
        // mistake there changes nothing that could be noticed. `vectorise.rs` of the tests of
        // `brolga-clif` looks after it.
        let disabled = PassSet::from(Pass::Vectorise);
        let options = Options { memory, disabled, ..Options::full() };
        let isa = jit::host_isa(&options).ok()?;
        let derivation = brolga_transform::derive::derive(&file.program, &request, &options, &*isa).ok()?;
        let lines = file.directives.iter().filter_map(|d| {
            let Directive::Grad(line) = d else { return None };
            let call = Invocation::bind(&file.program, &line.text, &line.call, &line.clauses).ok()?;
            (call.request() == request).then_some((&**line, Invocation { memory, ..call }))
        });
        let lines = lines.collect();
        let mutants = mutants(&derivation);
        Some(Self { file, request, memory, lines, derivation, mutants })
    }

    /// The instruction that a mutant changes, as text, with the function that it is in and its
    /// role.
    pub fn text(&self, m: &Mutant) -> String {
        let pair = &self.derivation.pairs[m.pair];
        let (symbol, f) = match m.half {
            Half::Forward => (&pair.forward_symbol, &pair.forward),
            Half::Pullback => (&pair.pullback_symbol, &pair.pullback),
        };
        let text = format!("{symbol} {}: {}", m.inst, f.dfg.display_inst(m.inst));
        match edits::role(m.half, f, m.inst) {
            "" => text,
            role => format!("{text} [{role}]"),
        }
    }

    /// The rule as derived, whose checks must pass.
    pub fn unchanged(&self) -> Fate {
        self.judge(&self.derivation)
    }

    /// Try a mutant.
    pub fn fate(&self, m: &Mutant) -> Fate {
        self.judge(&apply(&self.derivation, m))
    }

    fn judge(&self, derivation: &Derivation) -> Fate {
        // The first rule that compiles serves all lines, unless its runs leave traces.
        let compile = |options: &Options| DerivedRule::from_derivation(derivation.clone(), &self.request, options);
        let checked = panics::catch(|| {
            for (line, call) in &self.lines {
                if let Some(check) = noticed(&self.file.program, line, call, self.memory, &compile)? {
                    return Ok(Some(check));
                }
            }
            Ok::<_, Error>(None)
        });
        match checked {
            Ok(Ok(None)) => Fate::Survived,
            Ok(Ok(Some(check))) => Fate::Killed(check),
            Ok(Err(Error::Trap(_))) => Fate::Killed("trap"),
            Ok(Err(_)) => Fate::Killed("error"),
            Err(_) => Fate::Killed("assertion"),
        }
    }
}

/// The first check of a gradient line that complains about the rules that `rule` makes.
pub fn noticed(
    program: &Program,
    line: &GradLine,
    call: &Invocation,
    memory: MemoryMode,
    rule: &dyn Fn(&Options) -> Result<DerivedRule, Error>,
) -> Result<Option<&'static str>, Error> {
    let options = Options { memory, ..Options::full() };
    let compiled = rule(&options)?;
    let stateful = program.has_writable_data();
    let fresh = || if stateful { rule(&options) } else { Ok(compiled.clone()) };
    let outcome = run::gradient(&fresh()?, call)?;
    let tol = compare::tolerance(program, call, &line.clauses);
    // What is left in buffers depends on the memory mode, and a line speaks of one.
    let mut clauses = line.clauses.clone();
    if memory != line.clauses.memory.unwrap_or_default() {
        clauses.buffers = None;
    }
    if !compare::differences(&outcome, &line.expected, &clauses, tol).is_empty() {
        return Ok(Some("numbers"));
    }
    if !shape_violations(call, &outcome).is_empty() {
        return Ok(Some("shape"));
    }
    let tolerances = Tolerances::of(program, call, line.clauses.tol);
    if disagreement_with_tape_of(program, call, tolerances.tape, &|_| fresh())?.is_some() {
        return Ok(Some("tape"));
    }
    if !violations_in(program, call, memory, tolerances.tape, &|_| fresh())?.0.is_empty() {
        return Ok(Some("protocol"));
    }
    // Finite differences run the primal; only the gradient that they are compared with is the
    // mutant's.
    let primal = || derive(program, &call.request(), &options);
    let found = check(program, call, &outcome, &primal, tolerances, !line.clauses.nofd)?;
    Ok((!found.is_ok()).then_some("differences"))
}

/// The file of a name such as `cases/memory/loads.clif`.
pub fn read(root: &Path, name: &str) -> Option<File> {
    File::read(&root.join(name)).ok()
}
