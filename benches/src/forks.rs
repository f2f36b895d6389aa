//! What forks cost: the gradient of a program that forks, on one thread and on two, beside that of
//! the same program without forks.
//!
//! The programs are those of `benches/forks/forks.clif`. All three gradients are compared first,
//! and those on one and on two threads bit by bit. They take turns, and the minimum of each counts.

use std::time::{Duration, Instant};

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir::types;
use brolga::{ArgSpec, DerivedRule, Error, Options, Program};
use brolga_driver::check::work_and_span;
use brolga_driver::text::ElemType;
use brolga_driver::timing::{RepeatedCall, TimedCall};
use brolga_driver::{BoundArg, File, Invocation};

use crate::calls::elements;
use crate::data::noise;
use crate::measure::Effort;
use crate::problem::Input;
use crate::problems::standard;
use crate::{Configuration, Failure};

/// A program that forks, and `NAME_serial` without forks.
struct ForkCase {
    name: &'static str,
    args: Vec<Input>,
    /// How often a call forks, if nothing else is of interest.
    forks: Option<u32>,
}

/// What the gradient of a program that forks costs.
#[derive(Clone, Debug)]
pub struct ForkRow {
    /// The program.
    pub name: &'static str,
    /// The gradient of the program without forks.
    pub serial_ns: f64,
    /// The gradient on one thread.
    pub one_ns: f64,
    /// The gradient on two threads.
    pub two_ns: f64,
    /// Instructions of a run of the primal, and those on the longest way through its forks.
    pub work_and_span: Option<(u64, u64)>,
    /// Bytes that the gradient records.
    pub bytes: usize,
    /// What a fork adds to the gradient, where tasks do nothing.
    pub fork_ns: Option<f64>,
}

fn cases() -> Vec<ForkCase> {
    let case = |name, args| ForkCase { name, args, forks: None };
    let particles = (1..=4).flat_map(|k| [0.5 * f64::from(k), 0.1, 1.0, 1.0]).collect();
    let (rows, columns) = (20_000, 64);
    let layer = |inputs| vec![inputs, Input::Floats(noise(columns, 2)), Input::Int(rows as i64)];
    let forks = 10_000;
    let joins = vec![Input::Floats(vec![1.0]), Input::Int(forks.into())];
    vec![
        case("particles", vec![Input::Floats(particles), Input::Int(100_000)]),
        // Inputs have cotangents where another layer is after.
        case("layer", layer(Input::Floats(noise(rows * columns, 1)))),
        ForkCase { name: "layer of data", ..case("layer", layer(Input::ConstFloats(noise(rows * columns, 1)))) },
        // The smallest of those that ADBench has.
        case("adjustment", standard::adjustment([49, 7776, 31_843])),
        ForkCase { forks: Some(forks), ..case("joins", joins) },
    ]
}

/// Measure those whose name contains the filter.
///
/// # Errors
/// [`Failure::Call`], also where gradients differ.
pub fn run(filter: Option<&str>, how: Configuration, effort: Effort) -> Result<Vec<ForkRow>, Failure> {
    let text = [include_str!("../forks/forks.clif"), include_str!("../problems/ba.clif")].join("\n");
    let file = File::parse("forks.clif", text);
    let file = file.map_err(|problems| Failure::File { name: "forks.clif", problems })?;
    let wanted = |c: &&ForkCase| filter.is_none_or(|f| c.name.contains(f));
    cases().iter().filter(wanted).map(|c| c.measure(&file.program, how, effort)).collect()
}

impl ForkCase {
    fn measure(&self, program: &Program, how: Configuration, effort: Effort) -> Result<ForkRow, Failure> {
        let failed = |e: Error| Failure::Call { name: self.name.to_owned(), message: e.to_string() };
        let function = self.name.split(' ').next().unwrap_or_default();
        let serial = call(program, &format!("{function}_serial"), &self.args)?;
        let forks = call(program, function, &self.args)?;
        let mut runs = Vec::new();
        for (call, threads) in [(&serial, 1), (&forks, 1), (&forks, 2)] {
            let options = Options { task_threads: Some(threads), ..how.options() };
            let rule = DerivedRule::new(program, &call.request(), &options).map_err(failed)?;
            runs.push(RepeatedCall::new(rule, call).map_err(failed)?);
        }
        let mut least = [Duration::MAX; 3];
        let (start, mut round) = (Instant::now(), 0);
        while round < effort.rounds.min(5) || start.elapsed() < effort.budget {
            for (run, least) in runs.iter_mut().zip(&mut least) {
                *least = (*least).min(run.time(TimedCall::Gradient, 1).map_err(failed)?);
            }
            round += 1;
        }
        self.compare(&runs)?;
        let [serial_ns, one_ns, two_ns] = least.map(|d| d.as_nanos() as f64);
        Ok(ForkRow {
            name: self.name,
            serial_ns,
            one_ns,
            two_ns,
            work_and_span: work_and_span(program, &forks),
            bytes: runs[1].tape_bytes(),
            fork_ns: self.forks.map(|n| (one_ns - serial_ns) / f64::from(n)),
        })
    }

    /// One thread and two give the same bits, and the program without forks the same to ten digits.
    fn compare(&self, runs: &[RepeatedCall<'_>]) -> Result<(), Failure> {
        let all: Vec<Vec<f64>> = runs.iter().map(|r| elements(r).into_iter().flatten().flatten().collect()).collect();
        let largest = all[0].iter().fold(0.0_f64, |m, x| m.max(x.abs()));
        let close = |x: f64, y: f64| (x - y).abs() <= 1e-10 * largest;
        let is_wrong = |i: &usize| all[1][*i].to_bits() != all[2][*i].to_bits() || !close(all[0][*i], all[1][*i]);
        match (0..all[0].len()).find(is_wrong) {
            None if largest > 0.0 => Ok(()),
            at => {
                let found = at.map(|i| [all[0][i], all[1][i], all[2][i]]);
                let message = format!("the gradients without forks, on one thread and on two differ: {found:?}");
                Err(Failure::Call { name: self.name.to_owned(), message })
            }
        }
    }
}

/// A call whose buffers are apart, and whose first result has a seed of one.
fn call(program: &Program, symbol: &str, args: &[Input]) -> Result<Invocation, Failure> {
    let missing = || Failure::Call { name: symbol.to_owned(), message: "it is not defined".to_owned() };
    let func = program.func(symbol).ok_or_else(missing)?;
    let doubles = |x: &[f64]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let buffer = |elem, data: Vec<u8>| BoundArg::Buffer { elem, shadow: vec![0; data.len()], data };
    let bound = args.iter().map(|a| match a {
        Input::Floats(x) => (buffer(ElemType::F64, doubles(x)), ArgSpec::DUPLICATED.noalias()),
        Input::ConstFloats(x) => (buffer(ElemType::F64, doubles(x)), ArgSpec::CONST.noalias()),
        Input::Longs(n) => {
            let bytes = n.iter().flat_map(|n| n.to_le_bytes()).collect();
            (buffer(ElemType::Int(64), bytes), ArgSpec::CONST.noalias())
        }
        Input::Int(n) => (BoundArg::Value(DataValue::I64(*n)), ArgSpec::CONST),
        _ => unreachable!("no program has such an argument"),
    });
    let (args, specs): (Vec<BoundArg>, Vec<ArgSpec>) = bound.unzip();
    Ok(Invocation {
        func,
        symbol: symbol.to_owned(),
        params: vec![types::I64; args.len()],
        returns: vec![types::F64],
        args,
        specs,
        seeds: vec![DataValue::F64(1.0.into())],
        memory: brolga::MemoryMode::Leave,
        wasm: None,
        words: vec![],
        mixed: vec![],
    })
}
