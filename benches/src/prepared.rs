//! A problem that is compiled and has its memory, so that all that is left to do is to call it.
//!
//! The hand-written adjoint is compiled as the primal of a derivative of its own. That makes the door to it the same as to
//! the primal: what a call costs is in both, and in the gradient twice.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Diagnostics, Error, FuncKey, Options, Program, Request};
use brolga_driver::File;
use brolga_driver::memory::Block;

use crate::problem::{Input, Problem};

/// Why a problem was not measured.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Its file is wrong.
    #[error("{name}: {problems}")]
    File {
        /// The problem.
        name: &'static str,
        /// What is wrong.
        problems: Diagnostics,
    },
    /// It could not be differentiated or run.
    #[error("{name}: {error}")]
    Run {
        /// The problem.
        name: &'static str,
        /// Why.
        error: Error,
    },
    /// It gave something else than the reference.
    #[error("{name}: {what} is wrong: {is:?} at element {element}, {want:?} expected")]
    Wrong {
        /// The problem.
        name: &'static str,
        /// The value, the gradient, or the adjoint written by hand.
        what: &'static str,
        /// Index in the flattened gradient.
        element: usize,
        /// What came out.
        is: f64,
        /// What was expected.
        want: f64,
    },
}

/// A compiled problem with its memory.
pub struct Prepared<'a> {
    problem: &'a Problem,
    rule: DerivedRule,
    hand: Option<DerivedRule>,
    /// What the arguments point at; moving a block does not move its contents.
    _blocks: Vec<Block>,
    /// The shadow of each duplicated argument, in order.
    shadows: Vec<Block>,
    args: Vec<Arg>,
    values: Vec<DataValue>,
    hand_values: Vec<DataValue>,
    seeds: [DataValue; 1],
    tape_bytes: usize,
}

/// The options that all problems are compiled with.
pub fn options() -> Options {
    Options { verify_stages: false, ..Options::default() }
}

/// The program of a problem, and what to differentiate.
pub fn request(problem: &Problem) -> Result<(Program, Request), Failure> {
    let file = File::parse(problem.name, problem.clif.clone())
        .map_err(|problems| Failure::File { name: problem.name, problems })?;
    let func = defined(problem, &file.program, problem.func)?;
    let activities = problem.args.iter().map(|a| match a {
        Input::Active(_) => ArgActivity::Active,
        Input::Floats(_) => ArgActivity::Duplicated,
        Input::ConstFloats(_) | Input::Bytes(_) | Input::Int(_) | Input::Int32(_) => ArgActivity::Const,
    });
    let request = Request::new(func, activities);
    Ok((file.program, request))
}

/// A derivative of the hand-written adjoint that nobody calls: its primal is what we are after.
fn hand_request(problem: &Problem, func: FuncKey) -> Request {
    let activity = |input: &Input| match input {
        Input::Floats(_) => ArgActivity::Duplicated,
        _ => ArgActivity::Const,
    };
    let shadows = problem.args.iter().filter(|input| matches!(input, Input::Floats(_)));
    Request::new(func, problem.args.iter().chain(shadows).map(activity))
}

fn defined(problem: &Problem, program: &Program, symbol: &str) -> Result<FuncKey, Failure> {
    program
        .func(symbol)
        .ok_or_else(|| Failure::Run { name: problem.name, error: Error::Usage(format!("%{symbol} is not defined")) })
}

fn bytes(floats: &[f64]) -> Vec<u8> {
    floats.iter().flat_map(|x| x.to_ne_bytes()).collect()
}

impl<'a> Prepared<'a> {
    /// Differentiate, compile, and set up memory.
    ///
    /// # Errors
    /// [`Failure::File`] and [`Failure::Run`].
    pub fn new(problem: &'a Problem) -> Result<Self, Failure> {
        let failed = |error| Failure::Run { name: problem.name, error };
        let (program, request) = request(problem)?;
        let rule = DerivedRule::new(&program, &request, &options()).map_err(failed)?;
        let hand = match problem.hand {
            None => None,
            Some(symbol) => {
                let func = defined(problem, &program, symbol)?;
                Some(DerivedRule::new(&program, &hand_request(problem, func), &options()).map_err(failed)?)
            }
        };
        let (mut blocks, mut shadows, mut args) = (Vec::new(), Vec::new(), Vec::new());
        for input in &problem.args {
            let mut point_at = |contents: &[u8]| {
                blocks.push(Block::new(contents));
                blocks.last().map_or(0, Block::address)
            };
            args.push(match input {
                Input::Active(x) => Arg::new(DataValue::F64((*x).into())),
                Input::Int(n) => Arg::new(DataValue::I64(*n)),
                Input::Int32(n) => Arg::new(DataValue::I32(*n)),
                Input::Bytes(b) => Arg::new(DataValue::I64(point_at(b) as i64)),
                Input::ConstFloats(x) => Arg::new(DataValue::I64(point_at(&bytes(x)) as i64)),
                Input::Floats(x) => {
                    let shadow = Block::new(&vec![0; x.len() * 8]);
                    let arg = Arg::duplicated(point_at(&bytes(x)), shadow.address());
                    shadows.push(shadow);
                    arg
                }
            });
        }
        let values: Vec<_> = args.iter().map(|a| a.value.clone()).collect();
        let mut hand_values = values.clone();
        hand_values.extend(shadows.iter().map(|s| DataValue::I64(s.address() as i64)));
        let seeds = [DataValue::F64(1.0.into())];
        Ok(Self { problem, rule, hand, _blocks: blocks, shadows, args, values, hand_values, seeds, tape_bytes: 0 })
    }

    fn failed(&self, error: Error) -> Failure {
        Failure::Run { name: self.problem.name, error }
    }

    /// The derivative, for those who want to look at it.
    pub fn rule(&self) -> &DerivedRule {
        &self.rule
    }

    /// Whether there is an adjoint written by hand.
    pub fn has_hand(&self) -> bool {
        self.hand.is_some()
    }

    /// Bytes that the last forward pass recorded.
    pub fn tape_bytes(&self) -> usize {
        self.tape_bytes
    }

    /// Call the primal.
    ///
    /// # Errors
    /// If it traps.
    pub fn primal(&mut self) -> Result<Vec<DataValue>, Error> {
        // SAFETY: pointers are to blocks that `self` owns, as large as the problem says.
        unsafe { self.rule.primal(&self.values) }
    }

    /// Call the forward pass and the pullback, which adds to the shadows.
    ///
    /// # Errors
    /// If it traps.
    pub fn gradient(&mut self) -> Result<Vec<Option<DataValue>>, Error> {
        // SAFETY: as for `primal`; every shadow is as large as its primal.
        let (_, mut pullback) = unsafe { self.rule.forward(&self.args) }?;
        self.tape_bytes = pullback.tape_bytes();
        // SAFETY: nothing was freed since.
        unsafe { pullback.call(&self.seeds) }
    }

    /// Call the adjoint written by hand, if there is one, which adds to the shadows.
    ///
    /// # Errors
    /// If it traps.
    pub fn hand(&mut self) -> Result<Vec<DataValue>, Error> {
        match &self.hand {
            // SAFETY: as for `gradient`.
            Some(hand) => unsafe { hand.primal(&self.hand_values) },
            None => Ok(Vec::new()),
        }
    }

    /// Compare value and gradients with the reference.
    ///
    /// # Errors
    /// [`Failure::Wrong`], and if something traps.
    pub fn check(&mut self) -> Result<(), Failure> {
        let value = self.primal().map_err(|e| self.failed(e))?;
        self.compare("the value", &floats(&value), &[self.problem.value])?;
        self.clear();
        let cotangents = self.gradient().map_err(|e| self.failed(e))?;
        let cotangents: Vec<_> = cotangents.into_iter().flatten().collect();
        self.compare("the gradient", &self.flatten(&cotangents), &self.problem.gradient)?;
        if self.has_hand() {
            self.clear();
            let cotangents = self.hand().map_err(|e| self.failed(e))?;
            self.compare("the adjoint written by hand", &self.flatten(&cotangents), &self.problem.gradient)?;
        }
        Ok(())
    }

    fn clear(&mut self) {
        for shadow in &mut self.shadows {
            shadow.bytes_mut().fill(0);
        }
    }

    /// All derivatives in the order of the arguments.
    fn flatten(&self, cotangents: &[DataValue]) -> Vec<f64> {
        let (mut shadows, mut cotangents) = (self.shadows.iter(), floats(cotangents).into_iter());
        let mut all = Vec::new();
        for input in &self.problem.args {
            match input {
                Input::Active(_) => all.extend(cotangents.next()),
                Input::Floats(_) => all.extend(shadows.next().into_iter().flat_map(|s| contents(s.bytes()))),
                Input::ConstFloats(_) | Input::Bytes(_) | Input::Int(_) | Input::Int32(_) => {}
            }
        }
        all
    }

    fn compare(&self, what: &'static str, is: &[f64], want: &[f64]) -> Result<(), Failure> {
        if self.problem.agrees(is, want) {
            return Ok(());
        }
        let off = |i: usize| is.get(i).zip(want.get(i)).map_or(f64::INFINITY, |(a, b)| (a - b).abs());
        let element = (0..want.len()).max_by(|i, j| off(*i).total_cmp(&off(*j))).unwrap_or(0);
        let at = |x: &[f64]| x.get(element).copied().unwrap_or(f64::NAN);
        Err(Failure::Wrong { name: self.problem.name, what, element, is: at(is), want: at(want) })
    }
}

fn floats(values: &[DataValue]) -> Vec<f64> {
    values.iter().map(|v| if let DataValue::F64(x) = v { x.as_f64() } else { f64::NAN }).collect()
}

fn contents(bytes: &[u8]) -> impl Iterator<Item = f64> {
    bytes.chunks_exact(8).map(|c| f64::from_ne_bytes(c.try_into().unwrap_or_default()))
}
