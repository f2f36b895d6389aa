//! Jacobians of calls, by forward mode or by pullbacks, whichever takes fewer runs.
//!
//! **Question.** What are the derivatives of all results and output buffers of a call by all its
//! inputs?
//!
//! **Answer.** A column for each input, by a tangent, or a row for each output, by a pullback with
//! a seed of one ([`jacobian`]). Several columns or rows go in one run of a rule of a width. With a
//! pattern, columns that share no row, or rows that share no column, go in one product.
//!
//! In reverse mode the forward pass runs once, and its pullback is called for some rows after
//! others.
//!
//! **Cost.** As many products as there are inputs or outputs, whichever are fewer, or as a
//! colouring of the pattern has colours; a run for each few of them. Where a program has no
//! batches, a run for each.

use brolga::drivers::support::{Lane, width_for};
use brolga::drivers::{Pattern, Sweep, by_columns, by_rows, sparse};
use brolga::{ArgActivity, DerivedRule, Error, Mode};
use cranelift_codegen::data_value::DataValue;

use crate::batch::{along_each, gradient_of};
use crate::bind::{BoundArg, Invocation, zero};
use crate::inputs::{Input, inputs};
use crate::memory::Memory;
use crate::run::{items, undamaged};
use crate::second::flat;
use crate::tangent::{Direction, Tangents, tangents};
use crate::value::{Item, Num, to_data};

/// A Jacobian: rows are lanes of float results, then elements of buffers; columns are inputs, in
/// the order of arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Jacobian {
    /// One per result.
    pub value: Vec<Item>,
    /// What each row is the derivative of.
    pub rows: Vec<Output>,
    /// What each column is the derivative by.
    pub columns: Vec<Input>,
    /// Row by row.
    pub entries: Vec<Vec<f64>>,
}

/// One number that a call gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A lane of a result.
    Result(usize, Option<usize>),
    /// An element of an argument's buffer.
    Element(usize, usize),
}

/// What a call gives: its float results, and the elements of these arguments' buffers.
///
/// # Errors
/// [`Error::Usage`] for an argument that is no duplicated buffer of floats, or is there twice.
pub fn outputs(call: &Invocation, buffers: &[usize]) -> Result<Vec<Output>, Error> {
    let mut found = Vec::new();
    for (k, ty) in call.returns.iter().enumerate().filter(|(_, ty)| ty.lane_type().is_float()) {
        if ty.is_vector() {
            found.extend((0..ty.lane_count() as usize).map(|l| Output::Result(k, Some(l))));
        } else {
            found.push(Output::Result(k, None));
        }
    }
    for (n, &arg) in buffers.iter().enumerate() {
        if buffers[..n].contains(&arg) {
            return Err(Error::Usage(format!("argument {arg} is an output twice: name each buffer once")));
        }
        let usable = arg < call.args.len() && call.activity(arg) == ArgActivity::Duplicated;
        let Some((_, elem, data, _)) = call.buffer(arg).filter(|b| usable && b.1.is_float()) else {
            let constant = arg < call.args.len() && call.buffer(arg).is_some_and(|b| b.1.is_float());
            let help = match (constant, call.first_of_floats()) {
                (true, _) => "; it is constant: let its activity be `duplicated`".to_owned(),
                (false, Some(i)) => format!("; argument {i} is one"),
                (false, None) => "; the call has none: leave `--outputs` out".to_owned(),
            };
            let message = format!("argument {arg} is no duplicated buffer of floats, so it cannot be an output{help}");
            return Err(Error::Usage(message));
        };
        found.extend((0..data.len() / elem.bytes()).map(|i| Output::Element(arg, i)));
    }
    Ok(found)
}

/// How to get a rule of a mode and a width, whose data objects are as at the start.
pub type RuleSource<'a> = &'a dyn Fn(Mode, u32) -> Result<DerivedRule, Error>;

/// That tangents of memory are known ([`DerivedRule::known_tangents`]).
///
/// # Errors
/// As of that.
pub fn known(rules: RuleSource<'_>, tangents: &[f64]) -> Result<(), Error> {
    if tangents.iter().any(|x| x.is_nan()) { rules(Mode::Tangent, 1)?.known_tangents(tangents) } else { Ok(()) }
}

/// The Jacobian of a call, in the [cheaper way](Sweep::cheaper) unless one is asked for, and with
/// fewer runs if a pattern is given; `step` is called before each run, with how many products there
/// are and how many are to be.
///
/// # Errors
/// As [`tangents`] and [`outputs`], and as of [`DerivedRule::forward`] and
/// [`brolga::Pullback::call`].
pub fn jacobian(
    rules: RuleSource<'_>,
    call: &Invocation,
    buffers: &[usize],
    way: Option<Sweep>,
    pattern: Option<&Pattern>,
    step: &mut dyn FnMut(usize, usize),
) -> Result<Jacobian, Error> {
    let (rows, columns) = (outputs(call, buffers)?, inputs(call));
    let (m, n) = (rows.len(), columns.len());
    let way = way.unwrap_or_else(|| pattern.map_or(Sweep::cheaper(n, m), sparse::cheaper));
    let runs = pattern.map_or(if way == Sweep::Forward { n } else { m }, |p| sparse::products(p, way));
    let mut done = 0;
    let mut begin = |n: usize| {
        step(done, runs);
        done += n;
    };
    let (value, entries) = match way {
        Sweep::Forward => {
            let mut value = None;
            let column = |found: &Tangents| {
                let column = rows.iter().map(|output| match *output {
                    Output::Result(k, lane) => found.results[k].as_ref().map(|r| r.nums()[lane.unwrap_or(0)]),
                    Output::Element(arg, i) => found.of_buffers[arg].as_ref().map(|b| b[i]),
                });
                let column: Vec<f64> = column.map(|x| x.map_or(0.0, Num::as_f64)).collect();
                known(rules, &column).map(|()| column)
            };
            let some = |along: &[Vec<f64>]| {
                begin(along.len());
                let directions: Vec<_> = along.iter().map(|along| Direction::along(call, &columns, along)).collect();
                let found = along_each(call, &directions, |width| rules(Mode::Tangent, width))?;
                value.get_or_insert_with(|| found[0].value.clone());
                found.iter().map(column).collect::<Result<_, Error>>()
            };
            let entries = match pattern {
                Some(p) => p.dense(&sparse::jacobian(p, way, some)?),
                None => by_columns(m, n, some)?,
            };
            (value, entries)
        }
        Sweep::Reverse => {
            let width = if m > 1 { width_for(m) } else { 1 };
            let mut back = match ReusedForward::new(rules, call, width) {
                Err(e) if e.is_too_wide() => ReusedForward::new(rules, call, 1)?,
                back => back?,
            };
            let some = |all: &[Vec<f64>]| {
                begin(all.len());
                let mut found = Vec::with_capacity(all.len());
                while found.len() < all.len() {
                    let some = &all[found.len()..all.len().min(found.len() + back.width)];
                    match back.rows(&rows, &columns, some) {
                        Err(e) if back.width > 1 && e.is_too_wide() => back = ReusedForward::new(rules, call, 1)?,
                        some => found.extend(some?),
                    }
                }
                Ok::<_, Error>(found)
            };
            let entries = match pattern {
                Some(p) => p.dense(&sparse::jacobian(p, way, some)?),
                None => by_rows(m, some)?,
            };
            (Some(back.value), entries)
        }
    };
    let value = match value {
        Some(value) => value,
        None => tangents(&rules(Mode::Tangent, 1)?, call, &Direction::zero(call))?.value,
    };
    Ok(Jacobian { value, rows, columns, entries })
}

/// A forward pass whose pullback is called for some rows after others.
struct ReusedForward<'a> {
    call: &'a Invocation,
    /// The same without initial shadows.
    still: Invocation,
    memory: Memory,
    pullback: brolga::Pullback,
    value: Vec<Item>,
    width: usize,
}

impl<'a> ReusedForward<'a> {
    fn new(rules: RuleSource<'_>, call: &'a Invocation, width: usize) -> Result<Self, Error> {
        let mut still = call.clone();
        for arg in &mut still.args {
            if let BoundArg::Buffer { shadow, .. } = arg {
                shadow.fill(0);
            }
        }
        let memory = Memory::of_width(&still, width)?;
        // SAFETY: as in `run::gradient_in`; the memory lives as long as the pullback.
        let (value, pullback) = unsafe { rules(Mode::Split, width as u32)?.forward(&memory.arguments()) }?;
        undamaged(&memory)?;
        let value = items(call, &value);
        Ok(Self { call, still, memory, pullback, value, width })
    }

    fn rows(&mut self, rows: &[Output], columns: &[Input], all: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Error> {
        let (call, width) = (self.call, self.width);
        self.memory.reset_shadows(&self.still);
        let mut seeds = Vec::with_capacity(width * call.returns.len());
        for k in 0..width {
            let by = all.get(k).map_or(&[][..], Vec::as_slice);
            seeds.extend(self.put(rows, by, k));
        }
        // SAFETY: the memory is that of the forward pass.
        let cotangents = unsafe { self.pullback.call(&seeds) }?;
        undamaged(&self.memory)?;
        let n = call.hidden() + call.args.len();
        let one = |k: usize| {
            let of_seed = &cotangents[k * n..][..n];
            flat(&gradient_of(call, &self.memory, of_seed, Lane { k, width }), columns)
        };
        Ok((0..all.len()).map(one).collect())
    }

    /// Seeds number `k`: those of memory go to the shadows.
    fn put(&mut self, rows: &[Output], by: &[f64], k: usize) -> Vec<DataValue> {
        let call = self.call;
        let mut lanes: Vec<Vec<f64>> = call.returns.iter().map(|ty| vec![0.0; ty.lane_count() as usize]).collect();
        for (output, by) in rows.iter().zip(by).filter(|(_, by)| **by != 0.0) {
            match *output {
                Output::Result(r, lane) => lanes[r][lane.unwrap_or(0)] = *by,
                Output::Element(arg, i) => {
                    let Some(buffer) = self.memory.buffer_mut(arg) else { continue };
                    let n = buffer.elem.bytes();
                    let at = (i * self.width + k) * n;
                    Num::F64(*by).encode(buffer.elem, &mut buffer.shadow.bytes_mut()[at..at + n]);
                }
            }
        }
        let seed = |(ty, lanes): (&cranelift_codegen::ir::Type, &Vec<f64>)| {
            let float = ty.lane_type().is_float();
            to_data(*ty, |i| Num::F64(lanes[i])).filter(|_| float).unwrap_or_else(|| zero(*ty))
        };
        call.returns.iter().zip(&lanes).map(seed).collect()
    }
}
