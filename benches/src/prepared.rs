//! A problem that is compiled and has its memory, so that all that is left to do is to call it.
//!
//! Primal and derivative come from a rule, the adjoint written by hand from [`PlainModule`].

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir::Type;
use brolga::{
    Arg, ArgSpec, DerivedRule, Diagnostics, Effort, Error, FuncKey, Options, Program, Request, ResultActivity,
};
use brolga_driver::File;
use brolga_driver::memory::Block;
use brolga_transform::Derivation;

use crate::Configuration;
use crate::entry::{DerivedEntry, Entry, Gradient, entry_of, one_hot};
use crate::plain::PlainModule;
use crate::problem::{Input, Problem};

/// Why a problem was not measured.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There is no such problem.
    #[error("no problem is called `{filter}`; there are {}", .names.join(", "))]
    Unknown {
        /// What was asked for.
        filter: String,
        /// What there is.
        names: Vec<String>,
    },
    /// A call of a file, or a program, could not be measured.
    #[error("{name}: {message}")]
    Call {
        /// The call.
        name: String,
        /// Why.
        message: String,
    },
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
pub struct PreparedProblem<'a> {
    problem: &'a Problem,
    /// One per result.
    rules: Vec<DerivedRule>,
    /// Keeps the code of the primal.
    _usual: DerivedRule,
    /// Keeps the code of the adjoint written by hand.
    _plain: Option<PlainModule>,
    /// What the arguments point at; moving a block does not move its contents.
    _blocks: Vec<Block>,
    /// The shadows of each duplicated argument in order: one per result, one after the other.
    shadows: Vec<Block>,
    /// Which of them the derivative adds to.
    added: Vec<usize>,
    /// Which of them the adjoint written by hand adds to.
    hand_added: Vec<usize>,
    args: Vec<Arg>,
    primal: Entry,
    gradient: Gradient,
    hand: Option<Gradient>,
    returns: Vec<Type>,
    /// What the guarded call fills.
    values: Vec<DataValue>,
    cotangents: Vec<Option<DataValue>>,
}

/// The program of a problem, and what to differentiate: each result by itself, with a seed of one.
/// By hand, too, nothing is multiplied by such a seed.
///
/// # Errors
/// [`Failure::File`].
pub fn requests(problem: &Problem) -> Result<(Program, Vec<Request>), Failure> {
    let file = File::parse(problem.name, problem.clif.clone())
        .map_err(|problems| Failure::File { name: problem.name, problems })?;
    let func = defined(problem, &file.program, problem.func)?;
    // No two arguments share memory; the adjoints written by hand rely on it, too.
    let args = problem.args.iter().map(|a| match a {
        Input::Active(_) => ArgSpec::ACTIVE,
        Input::Floats(_) | Input::Singles(_) => ArgSpec::DUPLICATED.noalias().fresh(),
        Input::ConstFloats(_) | Input::Bytes(_) | Input::Longs(_) => ArgSpec::CONST.noalias().fresh(),
        Input::Int(_) | Input::Int32(_) => ArgSpec::CONST,
    });
    let request = Request::new(func, args);
    let results = 0..file.program.funcs[func].signature.returns.len();
    let row = |k| {
        let result = |i| if i == k { ResultActivity::Unit } else { ResultActivity::Const };
        Request { results: results.clone().map(result).collect(), ..request.clone() }
    };
    let requests = results.clone().map(row).collect();
    Ok((file.program, requests))
}

/// Differentiate. What comes out is verified by who compiles it.
///
/// # Errors
/// [`Failure::Run`].
pub fn derive(
    problem: &Problem,
    program: &Program,
    request: &Request,
    how: Configuration,
) -> Result<Derivation, Failure> {
    let failed = |error| Failure::Run { name: problem.name, error };
    let options = how.options();
    let isa = brolga::jit::host_isa(&options).map_err(failed)?;
    brolga_transform::derive_unverified(program, request, &options, &*isa).map_err(|d| failed(d.into()))
}

fn defined(problem: &Problem, program: &Program, symbol: &str) -> Result<FuncKey, Failure> {
    program
        .func(symbol)
        .ok_or_else(|| Failure::Run { name: problem.name, error: Error::Usage(format!("%{symbol} is not defined")) })
}

impl<'a> PreparedProblem<'a> {
    /// Differentiate, compile, and set up memory.
    ///
    /// # Errors
    /// [`Failure::File`] and [`Failure::Run`].
    pub fn new(problem: &'a Problem, how: Configuration) -> Result<Self, Failure> {
        let failed = |error| Failure::Run { name: problem.name, error };
        let (program, requests) = requests(problem)?;
        let results = requests.len();
        let (mut rules, mut derived) = (Vec::new(), Vec::new());
        for request in &requests {
            let derivation = derive(problem, &program, request, how)?;
            derived.push(DerivedEntry::of(&derivation, &program.funcs[request.func].signature));
            rules.push(DerivedRule::from_derivation(derivation, request, &how.options()).map_err(failed)?);
        }
        let (mut blocks, mut shadows, mut args) = (Vec::new(), Vec::new(), Vec::new());
        for input in &problem.args {
            args.push(argument(input, results, &mut blocks, &mut shadows));
        }
        let values: Vec<_> = args.iter().map(|a| a.value.clone()).collect();
        let deltas: Vec<Vec<i64>> = (0..results).map(|k| deltas(&args, &shadows, results, k)).collect();
        let returns = derived[0].returns.clone();
        // The primal is always that of full effort.
        let usual = match how.effort {
            Effort::Quick => DerivedRule::new(&program, &requests[0], &Options::full()).map_err(failed)?,
            _ => rules[0].clone(),
        };
        let address = entry_of(&usual, problem.func).map_err(failed)?;
        let primal = Entry::new(address, &values, returns.clone());
        let gradient = Gradient::new(&rules, &derived, &values, &deltas).map_err(failed)?;

        let (mut plain, mut hand) = (None, None);
        if let Some(symbol) = problem.hand {
            let signature = &program.funcs[defined(problem, &program, symbol)?].signature;
            let compiled = PlainModule::new(&program).map_err(failed)?;
            let mut hand_values = values;
            hand_values.extend(shadows.iter().map(|s: &Block| DataValue::I64(s.address() as i64)));
            let address = compiled.entry(symbol).unwrap_or_default();
            let entry = Entry::new(address, &hand_values, signature.returns.iter().map(|p| p.value_type).collect());
            hand = Some(Gradient::by_hand(entry).map_err(failed)?);
            plain = Some(compiled);
        }
        let overwritten = |i: usize| rules.iter().all(|r| r.overwrites(i));
        let shadowed = args.iter().enumerate().filter(|a| a.1.shadow != 0);
        let added = shadowed.enumerate().filter(|(_, (i, _))| !overwritten(*i)).map(|(k, _)| k).collect();
        let hand_added = if problem.hand_adds { (0..shadows.len()).collect() } else { vec![] };
        let (values, cotangents) = (Vec::new(), Vec::new());
        Ok(Self {
            problem,
            rules,
            _usual: usual,
            _plain: plain,
            _blocks: blocks,
            shadows,
            added,
            hand_added,
            args,
            primal,
            gradient,
            hand,
            returns,
            values,
            cotangents,
        })
    }

    fn failed(&self, error: Error) -> Failure {
        Failure::Run { name: self.problem.name, error }
    }

    /// Whether there is an adjoint written by hand.
    pub fn has_hand(&self) -> bool {
        self.hand.is_some()
    }

    /// Bytes that the last forward pass recorded.
    pub fn tape_bytes(&self) -> usize {
        self.gradient.tape_bytes()
    }

    /// Call the primal.
    pub fn primal(&mut self) {
        // SAFETY: pointers are to blocks that `self` owns, as large as the problem says; `check`
        // has seen that nothing traps.
        unsafe { self.primal.call() }
    }

    /// Everything that one who wants a gradient has to do: zero the shadows that are added to, run
    /// what was derived.
    pub fn gradient(&mut self) {
        clear(&mut self.shadows, &self.added);
        // SAFETY: as for `primal`; every shadow is as large as its primal.
        unsafe { self.gradient.call() }
    }

    /// Call the adjoint written by hand, if there is one.
    pub fn hand(&mut self) {
        clear(&mut self.shadows, &self.hand_added);
        if let Some(hand) = &mut self.hand {
            // SAFETY: as for `gradient`.
            unsafe { hand.call() }
        }
    }

    /// The same gradient as users of [`DerivedRule`] get it: guarded, with boxed values.
    ///
    /// # Errors
    /// If something traps.
    pub fn guarded(&mut self) -> Result<Vec<Vec<f64>>, Error> {
        clear(&mut self.shadows, &self.added);
        let mut rows = Vec::new();
        for k in 0..self.returns.len() {
            let args = self.args_of(k);
            let seeds: Vec<_> = self.returns.iter().enumerate().map(|(i, ty)| one_hot(*ty, i == k)).collect();
            let (values, cotangents) = (&mut self.values, &mut self.cotangents);
            // SAFETY: as for `gradient`.
            drop(unsafe { self.rules[k].gradient(&args, &seeds, values, cotangents) }?);
            let float = |v: &DataValue| if let DataValue::F64(x) = v { x.as_f64() } else { f64::NAN };
            rows.push(cotangents.iter().flatten().map(float).collect());
        }
        Ok(rows)
    }

    /// The gradient of the first result through another rule of the same problem, as its first user
    /// calls it.
    ///
    /// # Errors
    /// If something traps.
    pub fn first(&mut self, rule: &DerivedRule) -> Result<(), Failure> {
        let args = self.args_of(0);
        let seeds: Vec<_> = self.returns.iter().enumerate().map(|(i, ty)| one_hot(*ty, i == 0)).collect();
        let (values, cotangents) = (&mut self.values, &mut self.cotangents);
        // SAFETY: as for `gradient`.
        drop(unsafe { rule.gradient(&args, &seeds, values, cotangents) }.map_err(|e| self.failed(e))?);
        Ok(())
    }

    /// Compare value and gradients with the reference: first through the guard, which survives a
    /// trap.
    ///
    /// # Errors
    /// [`Failure::Wrong`], and if something traps.
    pub fn check(&mut self) -> Result<(), Failure> {
        let values: Vec<_> = self.args.iter().map(|a| a.value.clone()).collect();
        // SAFETY: as for `primal`.
        unsafe { self.rules[0].primal(&values) }.map_err(|e| self.failed(e))?;
        for call in 0..2 {
            self.spoil(call);
            let by_value = self.guarded().map_err(|e| self.failed(e))?;
            self.compare("the gradient", &by_value)?;
        }
        self.primal();
        let (is, want) = (self.primal.results(), &self.problem.reference.values);
        if let Some(i) = (0..want.len()).find(|&i| is.get(i).is_none_or(|x| x.to_bits() != want[i].to_bits())) {
            let is = is.get(i).copied().unwrap_or(f64::NAN);
            return Err(Failure::Wrong { name: self.problem.name, what: "the value", element: i, is, want: want[i] });
        }
        for call in 0..2 {
            self.spoil(call);
            self.gradient();
            self.compare("the gradient without guard", &self.gradient.results())?;
        }
        if self.has_hand() {
            self.spoil(0);
            self.hand();
            // It returns the rows of all results one after the other.
            let by_value = self.hand.as_ref().and_then(|h| h.results().pop()).unwrap_or_default();
            self.compare("the adjoint written by hand", &[by_value])?;
        }
        Ok(())
    }

    /// Leave something in the shadows that must not come out again.
    fn spoil(&mut self, call: u8) {
        for shadow in &mut self.shadows {
            shadow.bytes_mut().fill(0x3f + call);
        }
    }

    /// The arguments with the shadows of one result.
    fn args_of(&self, result: usize) -> Vec<Arg> {
        let mut shadows = self.shadows.iter();
        let mut args = self.args.clone();
        for arg in args.iter_mut().filter(|a| a.shadow != 0) {
            let size = shadows.next().map_or(0, Block::size) / self.returns.len() as u64;
            arg.shadow += result as u64 * size;
        }
        args
    }

    /// All derivatives in the order of results and arguments.
    fn flatten(&self, by_value: &[Vec<f64>]) -> Vec<f64> {
        let results = self.returns.len();
        let mut all = Vec::new();
        for k in 0..results {
            let mut shadows = self.shadows.iter();
            let mut by_value = by_value.get(k).into_iter().flatten();
            for input in &self.problem.args {
                let mut row = || {
                    let bytes = shadows.next().map_or(&[][..], Block::bytes);
                    &bytes[k * bytes.len() / results..(k + 1) * bytes.len() / results]
                };
                match input {
                    Input::Active(_) => all.extend(by_value.next()),
                    Input::Floats(_) => all.extend(doubles(row())),
                    Input::Singles(_) => all.extend(singles(row())),
                    _ => {}
                }
            }
        }
        all
    }

    fn compare(&self, what: &'static str, by_value: &[Vec<f64>]) -> Result<(), Failure> {
        let is = self.flatten(by_value);
        let Some(element) = self.problem.first_wrong(&is) else { return Ok(()) };
        let at = |x: &[f64]| x.get(element).copied().unwrap_or(f64::NAN);
        let want = at(&self.problem.reference.gradient);
        Err(Failure::Wrong { name: self.problem.name, what, element, is: at(&is), want })
    }
}

/// An argument, and the memory that it points at.
pub(crate) fn argument(input: &Input, results: usize, blocks: &mut Vec<Block>, shadows: &mut Vec<Block>) -> Arg {
    let mut point_at = |contents: &[u8]| {
        blocks.push(Block::new(contents));
        blocks.last().map_or(0, Block::address)
    };
    let mut duplicated = |contents: Vec<u8>| {
        let shadow = Block::new(&vec![0; contents.len() * results]);
        let arg = Arg::duplicated(point_at(&contents), shadow.address());
        shadows.push(shadow);
        arg
    };
    let doubles = |x: &[f64]| -> Vec<u8> { x.iter().flat_map(|x| x.to_ne_bytes()).collect() };
    match input {
        Input::Active(x) => Arg::new(DataValue::F64((*x).into())),
        Input::Int(n) => Arg::new(DataValue::I64(*n)),
        Input::Int32(n) => Arg::new(DataValue::I32(*n)),
        Input::Floats(x) => duplicated(doubles(x)),
        Input::Singles(x) => duplicated(x.iter().flat_map(|x| (*x as f32).to_ne_bytes()).collect()),
        Input::Bytes(b) => Arg::new(DataValue::I64(point_at(b) as i64)),
        Input::ConstFloats(x) => Arg::new(DataValue::I64(point_at(&doubles(x)) as i64)),
        Input::Longs(n) => {
            let bytes: Vec<u8> = n.iter().flat_map(|n| n.to_ne_bytes()).collect();
            Arg::new(DataValue::I64(point_at(&bytes) as i64))
        }
    }
}

/// Shadow minus primal of each duplicated argument, for one result.
fn deltas(args: &[Arg], shadows: &[Block], results: usize, k: usize) -> Vec<i64> {
    let duplicated = args.iter().filter(|a| a.shadow != 0).zip(shadows);
    let delta = |(arg, shadow): (&Arg, &Block)| {
        let DataValue::I64(primal) = arg.value else { unreachable!("a pointer") };
        let shadow = shadow.address() + k as u64 * (shadow.size() / results as u64);
        (shadow as i64).wrapping_sub(primal)
    };
    duplicated.map(delta).collect()
}

fn doubles(bytes: &[u8]) -> impl Iterator<Item = f64> {
    bytes.chunks_exact(8).map(|c| f64::from_ne_bytes(c.try_into().unwrap_or_default()))
}

fn singles(bytes: &[u8]) -> impl Iterator<Item = f64> {
    bytes.chunks_exact(4).map(|c| f64::from(f32::from_ne_bytes(c.try_into().unwrap_or_default())))
}

/// Zero some shadows.
fn clear(shadows: &mut [Block], which: &[usize]) {
    for &i in which {
        shadows[i].bytes_mut().fill(0);
    }
}
