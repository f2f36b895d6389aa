//! Second derivatives on the command line: `brolga hvp` and `brolga hessian`.
//!
//! **Question.** What are Hessian-vector products and the Hessian of a call?
//!
//! **Answer.** [`hvp`] takes products along the directions that are given, [`hessian_of`] one for
//! each input, or fewer with a sparsity pattern. A Hessian is that of one number: where several
//! results are active a seed has to say how they are weighted, and where none is, an initial
//! shadow.
//!
//! **Cost.** That of [`brolga_driver::second`], and one run of the oracle for each 127 inputs where
//! the pattern is asked for.

use brolga::drivers::Star;
use brolga::drivers::support::WIDTH;
use brolga_driver::second::{Hessian, Products, hessian, products_along, rules};
use brolga_driver::sparsity::of_hessian;
use brolga_driver::tangent::Direction;
use brolga_driver::{File, Invocation, Num, output};
use clap::Args;
use serde_json::{Value, json};

use crate::args::{CallOptions, Directions, FileArg, Limit, SecondOptions};
use crate::failure::Failure;
use crate::forward::{has_columns, matrix};
use crate::jobs::{Job, jobs, read};
use crate::report::{Progress, show, told};

/// `hvp`.
#[derive(Args)]
pub struct HvpArgs {
    /// The file.
    #[command(flatten)]
    pub input: FileArg,
    /// When to stop waiting.
    #[command(flatten)]
    pub limit: Limit,
    /// The calls.
    #[command(flatten)]
    pub call: SecondOptions,
    /// Along what.
    #[command(flatten)]
    pub directions: Directions,
    /// Print one JSON object per call.
    #[arg(long)]
    pub json: bool,
}

/// `hessian`.
#[derive(Args)]
pub struct HessianArgs {
    /// The file.
    #[command(flatten)]
    pub input: FileArg,
    /// When to stop waiting.
    #[command(flatten)]
    pub limit: Limit,
    /// The calls.
    #[command(flatten)]
    pub call: SecondOptions,
    /// Find out first which entries are zero in any case, by the tape oracle, and ask for several
    /// columns in one run. The numbers are the same, but for roundings.
    #[arg(long)]
    pub sparse: bool,
    /// Print one JSON object per call.
    #[arg(long)]
    pub json: bool,
}

/// Run `hvp`.
pub fn hvp(args: &HvpArgs) -> Result<(), Failure> {
    told(args.json, || {
        let file = read(&args.input, &args.call.forward.calls)?;
        for job in second_jobs(&file, &args.call)? {
            let directions = Direction::parse_all(&job.call, &args.directions.sets)?;
            let failed = |e| Failure::Run(job.name(), e);
            let options = job.options();
            let rule = rules(&file.program, &job.call, &options);
            let mut progress = Progress::new(format!("{}: products", job.name()));
            let mut found = Vec::new();
            for some in directions.chunks(WIDTH) {
                progress.at(found.len(), directions.len());
                found.extend(products_along(&rule, &job.call, some).map_err(failed)?);
            }
            drop(progress);
            show(&if args.json { format!("{}\n", hvp_json(&job.call, &found)) } else { hvp_text(&job, &found) });
        }
        Ok(())
    })
}

/// Run `hessian`.
pub fn hessian_of(args: &HessianArgs) -> Result<(), Failure> {
    told(args.json, || {
        let file = read(&args.input, &args.call.forward.calls)?;
        for job in second_jobs(&file, &args.call)? {
            has_columns(&job)?;
            let mut progress = Progress::new(format!("{}: the Hessian", job.name()));
            let mut found = || {
                let options = job.options();
                let rule = rules(&file.program, &job.call, &options);
                let pattern = args.sparse.then(|| Star::new(&of_hessian(&file.program, &job.call)?)).transpose()?;
                hessian(&rule, &job.call, pattern.as_ref(), &mut |i, n| progress.at(i, n))
            };
            let found = found();
            drop(progress);
            let found = found.map_err(|e| Failure::Run(job.name(), e))?;
            show(&if args.json {
                format!("{}\n", hessian_json(&job.call, &found))
            } else {
                hessian_text(&job, &found)
            });
        }
        Ok(())
    })
}

/// The calls, each of which says whose second derivative is wanted.
fn second_jobs<'a>(file: &'a File, options: &SecondOptions) -> Result<Vec<Job<'a>>, Failure> {
    let (seed, shadows) = (options.seed.clone(), options.shadows.clone());
    let jobs = jobs(file, &CallOptions { seed, shadows, ..CallOptions::from(&options.forward) })?;
    for job in &jobs {
        let lanes = |ty: &brolga::cranelift_codegen::ir::Type| match ty.lane_type().is_float() {
            true => ty.lane_count() as usize,
            false => 0,
        };
        let results: usize = job.call.returns.iter().map(lanes).sum();
        if results > 1 && job.clauses.seeds.is_none() {
            let first = |(k, ty): (usize, &brolga::cranelift_codegen::ir::Type)| match lanes(ty) {
                n if n > 1 => format!("[{}1.0]", "0.0 ".repeat(n - 1)),
                1 if k == 0 => "1.0".to_owned(),
                1 => "0.0".to_owned(),
                _ => "0".to_owned(),
            };
            let seeds: Vec<String> = job.call.returns.iter().enumerate().map(first).collect();
            return Err(Failure::Usage(format!(
                "{} has {results} active results, and a Hessian is that of one number: say how they are weighted, \
                 as `--seed \"{}\"`",
                job.name(),
                seeds.join(", ")
            )));
        }
        if results == 0 && job.clauses.shadows.is_empty() {
            let name = job.name();
            return Err(Failure::Usage(match job.call.first_of_floats() {
                Some(i) => format!(
                    "{name} returns no float, and a Hessian is that of one number: say how what it leaves in memory is \
                     weighted, as `--shadow {i}=[1.0, …]`"
                ),
                None => format!("{name} returns no float, and has no buffer of floats: there is no number to derive"),
            }));
        }
    }
    Ok(jobs)
}

/// `{"function", "value", "gradient", "hvp"}`, the last two in the shape of `grad`; of several
/// directions, `hvp` is a list with one entry for each.
fn hvp_json(call: &Invocation, found: &[Products]) -> Value {
    let mut all = output::json(call, &found[0].first);
    let product = |p: &Products| p.products.iter().map(|g| g.as_ref().map(output::item_json)).collect::<Vec<_>>();
    if let Some(fields) = all.as_object_mut() {
        fields.shift_remove("buffers");
    }
    all["hvp"] = match found {
        [one] => json!(product(one)),
        all => json!(all.iter().map(product).collect::<Vec<_>>()),
    };
    all
}

fn hvp_text(job: &Job<'_>, found: &[Products]) -> String {
    let mut out = output::text(&job.text, &job.call, &found[0].first);
    for (n, p) in found.iter().enumerate() {
        let which = if found.len() > 1 { format!("direction {n}, ") } else { String::new() };
        for (i, product) in p.products.iter().enumerate() {
            let shown = product.as_ref().map_or_else(|| "const".to_owned(), output::show);
            out += &format!("  {:<12} {shown}\n", format!("{which}hvp {i}"));
        }
    }
    out
}

fn hessian_json(call: &Invocation, found: &Hessian) -> Value {
    let row = |r: &Vec<f64>| r.iter().map(|x| output::num_json(Num::F64(*x))).collect::<Vec<_>>();
    json!({
        "function": format!("%{}", call.symbol),
        "value": found.value.iter().map(output::item_json).collect::<Vec<_>>(),
        "gradient": row(&found.gradient),
        "hessian": found.entries.iter().map(row).collect::<Vec<_>>(),
    })
}

/// The gradient as a row above the Hessian.
fn hessian_text(job: &Job<'_>, found: &Hessian) -> String {
    let heads: Vec<String> = found.inputs.iter().map(|i| i.name()).collect();
    let names: Vec<String> = std::iter::once("gradient".to_owned()).chain(heads.iter().cloned()).collect();
    let rows: Vec<Vec<f64>> = std::iter::once(&found.gradient).chain(&found.entries).cloned().collect();
    output::values_text(&job.text, &found.value, &[]) + &matrix(&names, &heads, &rows)
}
