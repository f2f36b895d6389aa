//! Forward mode on the command line: `brolga jvp` and `brolga jacobian`, tangents and matrices of
//! first derivatives.
//!
//! **Question.** What are the tangents of a call along directions, and what is its Jacobian?
//!
//! **Answer.** [`jvp`] reads directions, or makes of one a path for Taylor coefficients, and runs
//! batches along all of them. [`jacobian_of`] asks for the rows that float results and named
//! buffers are, with a sparsity pattern if that is wanted. Each call is shown as text or as one
//! line of JSON.
//!
//! **Errors.** A call without an output, and tangents of memory that are not known.
//!
//! **Cost.** That of [`brolga_driver::batch`] and of [`brolga_driver::jacobian`].

use brolga::drivers::MOST_ORDER;
use brolga::drivers::support::taylor_options;
use brolga::{Error, Mode, Options};
use brolga_driver::batch::{along_each, batch};
use brolga_driver::jacobian::{Jacobian, Output, jacobian, known, outputs};
use brolga_driver::sparsity::of_jacobian;
use brolga_driver::tangent::{Direction, Tangents};
use brolga_driver::{Invocation, Item, output};
use clap::{Args, ValueEnum};
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::args::{CallOptions, Directions, FileArg, ForwardOptions, Limit};
use crate::failure::Failure;
use crate::jobs::{Job, jobs, read};
use crate::report::{Progress, show, told};
use crate::rules::Rules;

/// `jvp`.
#[derive(Args)]
pub struct JvpArgs {
    /// The file.
    #[command(flatten)]
    pub input: FileArg,
    /// When to stop waiting.
    #[command(flatten)]
    pub limit: Limit,
    /// The calls.
    #[command(flatten)]
    pub call: ForwardOptions,
    /// Along what.
    #[command(flatten)]
    pub directions: Directions,
    /// Taylor coefficients along the direction, of the orders 1 to this one (at most 10), in place
    /// of the tangent: derivatives of order k are k! times the coefficient.
    #[arg(long, value_name = "ORDER", conflicts_with = "next", value_parser = order, allow_negative_numbers = true)]
    pub taylor: Option<usize>,
    /// Print one JSON object per call.
    #[arg(long)]
    pub json: bool,
}

/// `jacobian`.
#[derive(Args)]
pub struct JacobianArgs {
    /// The file.
    #[command(flatten)]
    pub input: FileArg,
    /// When to stop waiting.
    #[command(flatten)]
    pub limit: Limit,
    /// The calls.
    #[command(flatten)]
    pub call: ForwardOptions,
    /// Arguments, counted from 0, whose buffers are outputs, too, as the function leaves them: 1,3.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = number_of_argument)]
    pub outputs: Vec<usize>,
    /// Forward mode, one run for each input, or one forward pass with a pullback for each output.
    /// The default is forward mode where there are fewer inputs than outputs. The numbers are the
    /// same, but for roundings.
    #[arg(long, value_enum)]
    pub way: Option<Sweep>,
    /// Find out first which entries are zero in any case, by the tape oracle, and ask for those
    /// that share no row, or no column, in one run. The numbers are the same, but for roundings.
    #[arg(long)]
    pub sparse: bool,
    /// Print one JSON object per call.
    #[arg(long)]
    pub json: bool,
}

fn order(text: &str) -> Result<usize, String> {
    let order = text.parse().ok().filter(|n| (1..=MOST_ORDER).contains(n));
    order.ok_or_else(|| format!("an order is one of 1 to {MOST_ORDER}"))
}

fn number_of_argument(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "write numbers of arguments, counted from 0, as in `1,3`".to_owned())
}

/// How a Jacobian is computed.
#[derive(Clone, Copy, ValueEnum)]
pub enum Sweep {
    /// A run of forward mode for each input.
    Forward,
    /// A pullback for each output.
    Reverse,
}

impl From<Sweep> for brolga::drivers::Sweep {
    fn from(way: Sweep) -> Self {
        match way {
            Sweep::Forward => Self::Forward,
            Sweep::Reverse => Self::Reverse,
        }
    }
}

/// That rows and columns of a matrix can name all floats of a call.
pub fn has_columns(job: &Job<'_>) -> Result<(), Failure> {
    match job.call.divided() {
        None => Ok(()),
        Some(arg) => Err(Failure::Usage(format!(
            "{}: argument {arg} has numbers of four bytes and of eight, of which a matrix has no columns: ask for \
             `grad`, `jvp` or `hvp`",
            job.name()
        ))),
    }
}

/// Run `jvp`.
pub fn jvp(args: &JvpArgs) -> Result<(), Failure> {
    told(args.json, || {
        let file = read(&args.input, &args.call.calls)?;
        let rules = Rules::new(&file);
        for job in jobs(&file, &CallOptions::from(&args.call))? {
            let mut directions = Direction::parse_all(&job.call, &args.directions.sets)?;
            let rule = |options: Options| rules.get(&job.call.request(), &options);
            let found = match args.taylor {
                None => along_each(&job.call, &directions, |width| rule(forward_mode(&job, width))),
                Some(order) => {
                    let options = taylor_options(&job.options(), order).map_err(|e| Failure::Usage(e.to_string()))?;
                    // The path moves along the direction, and has no coefficients after it.
                    directions.resize(order, Direction::zero(&job.call));
                    rule(options).and_then(|rule| batch(&rule, &job.call, &directions))
                }
            };
            let found = found.map_err(|e| Failure::Run(job.name(), e))?;
            let what = match (args.taylor, found.len()) {
                (Some(_), _) => TangentFamily::Orders,
                (None, 1) => TangentFamily::Direction,
                (None, _) => TangentFamily::Directions,
            };
            show(&match args.json {
                true => format!("{}\n", jvp_json(&job.call, &found, what)),
                false => jvp_text(&job.text, &found, what),
            });
            let rules = |_, width| rule(forward_mode(&job, width));
            let all_known = found.iter().try_for_each(|t| known(&rules, &in_memory(t)));
            all_known.map_err(|e| Failure::Run(job.name(), e))?;
        }
        Ok(())
    })
}

/// Run `jacobian`.
pub fn jacobian_of(args: &JacobianArgs) -> Result<(), Failure> {
    told(args.json, || {
        let file = read(&args.input, &args.call.calls)?;
        let rules = Rules::new(&file);
        for job in jobs(&file, &CallOptions::from(&args.call))? {
            has_columns(&job)?;
            let rows = match outputs(&job.call, &args.outputs) {
                Err(Error::Usage(message)) => return Err(Failure::Usage(message)),
                rows => rows.map_err(|e| Failure::Run(job.name(), e))?,
            };
            if rows.is_empty() {
                let name = job.name();
                return Err(Failure::Usage(match job.call.first_of_floats() {
                    Some(i) => {
                        format!("{name} returns no float: say in which buffers its results are, as `--outputs {i}`")
                    }
                    None => format!("{name} returns no float, and has no buffer of floats: there is nothing to derive"),
                }));
            }
            let failed = |e| Failure::Run(job.name(), e);
            let pattern =
                args.sparse.then(|| of_jacobian(&file.program, &job.call, &rows)).transpose().map_err(failed)?;
            let rule = |mode, width| rules.get(&job.call.request(), &Options { mode, width, ..job.options() });
            let mut progress = Progress::new(format!("{}: the Jacobian", job.name()));
            let way = args.way.map(Into::into);
            let step = &mut |i, n| progress.at(i, n);
            let found = jacobian(&rule, &job.call, &args.outputs, way, pattern.as_ref(), step).map_err(failed)?;
            drop(progress);
            show(&match args.json {
                true => format!("{}\n", jacobian_json(&job.call, &found)),
                false => jacobian_text(&job.text, &found),
            });
        }
        Ok(())
    })
}

/// The tangents of buffers.
fn in_memory(tangents: &Tangents) -> Vec<f64> {
    tangents.of_buffers.iter().flatten().flatten().map(|n| n.as_f64()).collect()
}

fn forward_mode(job: &Job<'_>, width: u32) -> Options {
    Options { mode: Mode::Tangent, width, ..job.options() }
}

/// What several tangents of a call are.
#[derive(Clone, Copy, PartialEq)]
enum TangentFamily {
    /// There is one.
    Direction,
    /// One for each direction.
    Directions,
    /// Taylor coefficients of the orders from 1.
    Orders,
}

/// `{"function", "value", "tangent", "buffers", "tangents"}`; of several directions, `tangent` and
/// `tangents` are lists with one entry for each. With one for each order, they are called
/// `coefficients` and `buffer_coefficients`.
fn jvp_json(call: &Invocation, found: &[Tangents], what: TangentFamily) -> Value {
    let buffer = |b: &Option<Vec<brolga_driver::Num>>| b.as_ref().map(|b| output::item_json(&Item::Many(b.clone())));
    let tangent = |t: &Tangents| t.results.iter().map(|r| r.as_ref().map(output::item_json)).collect::<Vec<_>>();
    let of_buffers = |t: &Tangents| t.of_buffers.iter().map(buffer).collect::<Vec<_>>();
    let first = &found[0];
    let each = |of: &dyn Fn(&Tangents) -> Vec<Option<Value>>| match what {
        TangentFamily::Direction => json!(of(first)),
        TangentFamily::Directions | TangentFamily::Orders => json!(found.iter().map(of).collect::<Vec<_>>()),
    };
    let [of_results, of_memory] = match what {
        TangentFamily::Orders => ["coefficients", "buffer_coefficients"],
        TangentFamily::Direction | TangentFamily::Directions => ["tangent", "tangents"],
    };
    json!({
        "function": format!("%{}", call.symbol),
        "value": first.value.iter().map(output::item_json).collect::<Vec<_>>(),
        of_results: each(&tangent),
        "buffers": first.buffers.iter().map(buffer).collect::<Vec<_>>(),
        of_memory: each(&of_buffers),
    })
}

fn jvp_text(written: &str, found: &[Tangents], what: TangentFamily) -> String {
    let first = &found[0];
    let mut out = output::values_text(written, &first.value, &first.buffers);
    for (n, t) in found.iter().enumerate() {
        let (which, tangent) = match what {
            TangentFamily::Direction => (String::new(), "tangent"),
            TangentFamily::Directions => (format!("direction {n}, "), "tangent"),
            TangentFamily::Orders => (format!("order {}, ", n + 1), "coefficient"),
        };
        for (k, r) in t.results.iter().enumerate() {
            let name = if t.results.len() == 1 { tangent.to_owned() } else { format!("{tangent} {k}") };
            let shown = r.as_ref().map_or_else(|| "none: no active float".to_owned(), output::show);
            out += &format!("  {:<12} {shown}\n", format!("{which}{name}"));
        }
        for (i, b) in t.of_buffers.iter().enumerate() {
            if let Some(b) = b {
                let name = format!("{which}{tangent} of buffer {i}");
                out += &format!("  {name:<12} {}\n", output::show(&Item::Many(b.clone())));
            }
        }
    }
    out
}

fn jacobian_json(call: &Invocation, found: &Jacobian) -> Value {
    let row = |r: &Vec<f64>| r.iter().map(|x| output::num_json(brolga_driver::Num::F64(*x))).collect::<Vec<_>>();
    json!({
        "function": format!("%{}", call.symbol),
        "value": found.value.iter().map(output::item_json).collect::<Vec<_>>(),
        "jacobian": found.entries.iter().map(row).collect::<Vec<_>>(),
    })
}

/// A table: a row for each output, a column for each input.
fn jacobian_text(written: &str, found: &Jacobian) -> String {
    let heads: Vec<String> = found.columns.iter().map(|c| c.name()).collect();
    let names: Vec<String> = found.rows.iter().map(|r| output_name(*r, &found.value)).collect();
    output::values_text(written, &found.value, &[]) + &matrix(&names, &heads, &found.entries)
}

/// A matrix with names of rows and columns.
pub(crate) fn matrix(names: &[String], heads: &[String], entries: &[Vec<f64>]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let head = std::iter::once(String::new()).chain(heads.iter().cloned());
    table.set_header(head.map(number));
    for (name, row) in names.iter().zip(entries) {
        let cells = row.iter().map(|x| number(output::show_num(brolga_driver::Num::F64(*x))));
        table.add_row(std::iter::once(Cell::new(format!(" {name}"))).chain(cells));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn output_name(output: Output, value: &[Item]) -> String {
    match output {
        Output::Result(_, None) if value.len() == 1 => "value".to_owned(),
        Output::Result(k, None) => format!("value {k}"),
        Output::Result(k, Some(l)) => format!("value {k}[{l}]"),
        Output::Element(arg, i) => format!("buffer {arg}[{i}]"),
    }
}
