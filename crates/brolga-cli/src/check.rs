//! Gradient check on the command line: `brolga check`, each entry of a gradient beside what the
//! oracles say.
//!
//! **Question.** Is the gradient of a call right, and what says so?
//!
//! **Answer.** A table with a row for each input, and below it a line for the dot product, for
//! forward mode, and for the inverse if there is one; with `--order 2` the same for second
//! derivatives. What the oracles cannot say is said, too. A rule of the user is held to the
//! function that it is of: a caller of that is checked in its place.
//!
//! **Cost.** That of [`brolga_driver::check`], for each call. A hundred rows are shown, unless all
//! are wanted.

use brolga::{Error, Options, caller_of_ruled};
use brolga_driver::check::forward::{ForwardCheck, forward};
use brolga_driver::check::round_trip::{STATES, round_trip};
use brolga_driver::check::second::second;
use brolga_driver::check::{Check, DotProduct, RowVerdict, Tolerances, check};
use brolga_driver::inputs::Input;
use brolga_driver::{File, compare};
use brolga_oracle::fd::Verdict;
use clap::Args;
use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::args::{CallOptions, FileArg, Limit};
use crate::failure::Failure;
use crate::jobs::{Job, jobs, outcome_of, read};
use crate::report::{complain, show};
use crate::rules::Rules;

/// Rows shown without `--all`.
const MAX_ROWS: usize = 100;

/// `check`.
#[derive(Args)]
pub struct CheckArgs {
    /// The file.
    #[command(flatten)]
    pub input: FileArg,
    /// When to stop waiting.
    #[command(flatten)]
    pub limit: Limit,
    /// The calls.
    #[command(flatten)]
    pub call: CallOptions,
    /// Print every input element, not only the first hundred of a call.
    #[arg(long)]
    pub all: bool,
    /// 2 to check second derivatives: the product of the Hessian with a random direction, by
    /// differences of gradients and by the oracle of the function itself, and its symmetry.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub order: u8,
}

/// Run the command.
pub fn run(args: &CheckArgs) -> Result<(), Failure> {
    let mut file = read(&args.input, &args.call.calls)?;
    // A rule is held to the function that it is of.
    let mut callers = Vec::new();
    for key in file.program.funcs.keys().filter(|_| args.input.rules.is_some()).collect::<Vec<_>>() {
        let caller = caller_of_ruled(&mut file.program, key).map_err(|s| Failure::Usage(format!("%{s} is defined")))?;
        callers.extend(caller.map(|caller| (key, caller)));
    }
    let mut jobs = jobs(&file, &args.call)?;
    for job in &mut jobs {
        let caller = callers.iter().find(|c| c.0 == job.call.func);
        job.call.func = caller.map_or(job.call.func, |c| c.1);
    }
    let rules = Rules::new(&file);
    let mut wrong = 0;
    for (i, job) in jobs.iter().enumerate() {
        if i > 0 {
            show("\n");
        }
        let mut ok = check_one(&file, &rules, job, args.all)?;
        if args.order == 2 {
            ok &= check_second(&file, &rules, job, args.all)?;
        }
        wrong += usize::from(!ok);
    }
    match wrong {
        0 => Ok(()),
        n => Err(Failure::Mismatch(format!("{n} of {} calls did not pass", jobs.len()))),
    }
}

/// Check one call and print the table; whether all is well.
fn check_one(file: &File, rules: &Rules<'_>, job: &Job<'_>, all: bool) -> Result<bool, Failure> {
    let outcome = outcome_of(rules, job)?;
    let options = Options { mode: Options::default().mode, ..job.options() };
    let rule = || rules.get(&job.call.request(), &options);
    let tolerances = Tolerances::of(&file.program, &job.call, job.clauses.tol);
    let found = check(&file.program, &job.call, &outcome, &rule, tolerances, !job.clauses.nofd)
        .map_err(|e| Failure::Run(job.name(), e))?;

    show(&format!("{}\n{}\n", job.text, table(&found, all)));
    if found.rows.len() > MAX_ROWS && !all {
        show(&format!("… {} more (--all shows them)\n", found.rows.len() - MAX_ROWS));
    }
    show(&notes(&found, job.clauses.nofd));
    if let Some(why) = job.unweighted() {
        show(&format!("nothing but zeros was checked: {why}\n"));
    }
    let rules_of = |mode, width| rules.get(&job.call.request(), &Options { mode, width, ..job.options() });
    let (program, differences) = (&file.program, !job.clauses.nofd);
    let tangent = forward(program, &job.call, &outcome, &rules_of, tolerances, differences);
    let (shown, mut ok) = forward_line(&tangent);
    show(&shown);
    if !ok {
        complain(&format!("{}: forward mode disagrees with the gradient or with differences", job.name()));
    }

    ok &= inverse_line(file, job)?;
    ok &= found.is_ok();
    for complaint in found.complaints() {
        complain(&format!("{}: {complaint}", job.name()));
    }
    if let Some(line) = job.line {
        let tol = compare::tolerance(&file.program, &job.call, &job.clauses);
        for difference in compare::differences(&outcome, &line.expected, &job.clauses, tol) {
            complain(&format!("{}: {difference}", job.name()));
            ok = false;
        }
    }
    Ok(ok)
}

/// Call a function and its inverse, if it has one, from random states; whether nothing is wrong.
fn inverse_line(file: &File, job: &Job<'_>) -> Result<bool, Failure> {
    let found = round_trip(&file.program, file.inverses(), &job.call, job.options.inverse_check, STATES);
    let found = found.map_err(|e| Failure::Run(job.name(), e))?;
    let Some(found) = found else { return Ok(true) };
    let how = if found.by_bits { "bit by bit" } else { "floats within the tolerance" };
    let verdict = match (&found.wrong, found.undone) {
        (Some(_), _) => "does NOT hold",
        (None, 0) => "unknown (none came back)",
        (None, _) => "holds",
    };
    let refused = match (found.refused, found.left_out) {
        (0, 0) => String::new(),
        (n, 0) => format!("; {n} more were refused, and left as they were"),
        (0, m) => format!("; {m} more trapped, or lost their digits"),
        (n, m) => format!("; {n} more were refused, and left as they were; {m} trapped, or lost their digits"),
    };
    show(&format!("inverse: from {} random states back to them, {how}{refused}: {verdict}\n", found.undone));
    if let Some(wrong) = &found.wrong {
        complain(&format!("{}: {wrong}", job.name()));
    }
    Ok(found.wrong.is_none())
}

/// What is said of forward mode, and whether nothing is wrong.
fn forward_line(found: &Result<ForwardCheck, Error>) -> (String, bool) {
    let found = match found {
        Ok(found) => found,
        Err(Error::Diagnostics(all)) => {
            let why = all.0.first().map_or_else(String::new, |d| format!("{}: {}", d.code, d.message));
            let ours = all.0.iter().any(|d| d.code.starts_with("AD09"));
            return (format!("forward mode: not derived ({why})\n"), !ours);
        }
        Err(e) => {
            let why = e.to_string();
            return (format!("forward mode: not evaluated ({})\n", why.lines().next().unwrap_or_default()), true);
        }
    };
    let against = match found.difference {
        None => "not asked".to_owned(),
        Some(Verdict::Smooth { value, error }) => format!("{value:.10e} ± {error:.0e}"),
        Some(Verdict::Kink { left, right }) => format!("{left:.6e} | {right:.6e}, at a kink"),
        Some(Verdict::Unreliable(_)) => "no digits".to_owned(),
    };
    let (tangent, gradient) = (found.product.forward, found.product.reverse);
    let verdict = match found.holds {
        Some(true) => "holds",
        Some(false) => "does NOT hold",
        None => "unknown (a slope is not finite)",
    };
    (
        format!("forward mode: tangent {tangent:?}, gradient {gradient:?}, difference {against}: {verdict}\n"),
        found.holds != Some(false),
    )
}

/// Check second derivatives of one call.
fn check_second(file: &File, rules: &Rules<'_>, job: &Job<'_>, all: bool) -> Result<bool, Failure> {
    let failed = |e| Failure::Run(job.name(), e);
    let asked = job.options();
    let hessian = brolga_driver::second::rules(&file.program, &job.call, &asked);
    let options = Options { mode: Options::default().mode, ..job.options() };
    let rule = || rules.get(&job.call.request(), &options);
    let tolerances = Tolerances::of(&file.program, &job.call, job.clauses.tol);
    let found = second(&file.program, &job.call, &hessian, &rule, tolerances, !job.clauses.nofd).map_err(failed)?;
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["input", "at", "Hessian·v", "finite difference", "± error", "oracle", "verdict"]);
    for row in found.rows.iter().take(if all { found.rows.len() } else { MAX_ROWS }) {
        let (difference, error) = difference(row.difference);
        let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row([
            Cell::new(row.input.name()),
            number(format!("{:?}", row.input.value)),
            number(format!("{:?}", row.product)),
            number(difference),
            number(error),
            number(row.oracle.map_or_else(|| "—".to_owned(), |t| format!("{t:?}"))),
            Cell::new(verdict(row.verdict)),
        ]);
    }
    show(&format!("second derivatives along a random direction v\n{table}\n"));
    if found.rows.len() > MAX_ROWS && !all {
        show(&format!("… {} more (--all shows them)\n", found.rows.len() - MAX_ROWS));
    }
    let DotProduct { forward, reverse, .. } = found.symmetry;
    let symmetric = match found.symmetric {
        Some(true) => "holds",
        Some(false) => "does NOT hold",
        None => "unknown (not finite)",
    };
    show(&format!("symmetry: u·Hv {forward:?}, v·Hu {reverse:?}: {symmetric}\n"));
    show(&silences(found.rows.iter().map(|r| (&r.input, &*r.silent))));
    if let Some(error) = &found.oracle_error {
        show(&format!("the oracle could not run: {error}\n"));
    }
    let complaints = found.complaints();
    complaints.iter().for_each(|c| complain(&format!("{}: {c}", job.name())));
    Ok(complaints.is_empty())
}

fn table(found: &Check, all: bool) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["input", "at", "gradient", "finite difference", "± error", "tape", "verdict"]);
    let shown = if all { found.rows.len() } else { MAX_ROWS };
    for row in found.rows.iter().take(shown) {
        let (difference, error) = difference(row.difference);
        let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row([
            Cell::new(row.input.name()),
            number(format!("{:?}", row.input.value)),
            number(format!("{:?}", row.gradient)),
            number(difference),
            number(error),
            number(row.tape.map_or_else(|| "—".to_owned(), |t| format!("{t:?}"))),
            Cell::new(verdict(row.verdict)),
        ]);
    }
    table
}

fn difference(found: Option<Verdict>) -> (String, String) {
    match found {
        None => ("not asked".to_owned(), String::new()),
        Some(Verdict::Smooth { value, error }) => (format!("{value:.10e}"), format!("{error:.0e}")),
        Some(Verdict::Kink { left, right }) => (format!("{left:.6e} | {right:.6e}"), "kink".to_owned()),
        Some(Verdict::Unreliable(_)) => ("no digits".to_owned(), String::new()),
    }
}

fn verdict(verdict: RowVerdict) -> &'static str {
    match verdict {
        RowVerdict::Ok => "ok",
        RowVerdict::Kink => "ok, at a kink",
        RowVerdict::NotTheDifference => "WRONG (difference)",
        RowVerdict::NotTheTape => "WRONG (tape)",
        RowVerdict::Unknown => "unknown",
    }
}

/// What says nothing of which inputs, and why.
fn silences<'a>(rows: impl Iterator<Item = (&'a Input, &'a [String])>) -> String {
    // The first of each kind: neighbouring inputs mostly share the reason.
    let mut told: Vec<&str> = Vec::new();
    let mut out = String::new();
    for (input, silent) in rows {
        for why in silent.iter().filter(|why| !told.contains(&why.as_str())) {
            out += &format!("input {}: nothing is said by {why}\n", input.name());
        }
        told.extend(silent.iter().map(String::as_str));
    }
    out
}

fn notes(found: &Check, nofd: bool) -> String {
    let mut out = match &found.dot {
        Ok(dot) => {
            let verdict = if dot.holds { "holds" } else { "does NOT hold" };
            format!("dot product: dual numbers {:?}, gradient {:?}: {verdict}\n", dot.forward, dot.reverse)
        }
        Err(why) => format!("dot product: not evaluated ({why})\n"),
    };
    let kinks: Vec<_> = found.rows.iter().filter(|r| r.verdict == RowVerdict::Kink).map(|r| r.input.name()).collect();
    if !kinks.is_empty() {
        out += &format!("this point is a kink of: {} (one-sided derivatives differ)\n", kinks.join(", "));
    }
    out += &silences(found.rows.iter().map(|r| (&r.input, &*r.silent)));
    if nofd {
        out += "the line says that finite differences mean nothing here\n";
    }
    if let Some(error) = &found.tape_error {
        out += &format!("the tape could not run: {error}\n");
    }
    out
}
