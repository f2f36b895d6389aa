//! Adjoints written by hand in C, beside the gradients that are derived of the same programs.
//!
//! The adjoint of `f` in `NAME.wasm` is `f_adjoint` in `by_hand/NAME.wasm`: it takes what `f`
//! takes, then a pointer to the shadow of every active argument, then a seed for every result. It
//! is compiled and called like any primal, in an instance of its own; its time begins with putting
//! the shadows to what they are at first, as that of a gradient does.

use std::path::Path;
use std::time::{Duration, Instant};

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{ArgActivity, ArgSpec, Error, MemoryMode, Primal};
use brolga_driver::text::ElemType;
use brolga_driver::value::decode_all;
use brolga_driver::{BoundArg, File, Invocation, Memory};

use crate::{Configuration, Failure, Mode};

/// Most difference between the two gradients, relative to the element.
const TOLERANCE: f64 = 1e-9;

/// The same relative to the largest element of all: what should cancel leaves the rounding of
/// larger numbers.
const ROUNDING: f64 = 1e-14;

/// An adjoint written by hand, with everything that it takes to call it.
pub struct ByHand {
    name: String,
    primal: Primal,
    call: Invocation,
    /// Which of its arguments are shadows: of which argument of the program.
    shadows: Vec<(usize, usize)>,
    memory: Memory,
    values: Vec<DataValue>,
    clock: Duration,
}

/// Arguments that have a shadow.
fn shadows(call: &Invocation) -> impl Iterator<Item = usize> + '_ {
    (0..call.args.len()).filter(|&i| call.activity(i) != ArgActivity::Const)
}

impl ByHand {
    /// That of a call of the program `name` of the folder `root`; `None` if there is none.
    ///
    /// # Errors
    /// [`Failure::Call`] if it does not fit.
    pub fn of(root: &Path, name: &str, call: &Invocation) -> Result<Option<Self>, Failure> {
        let failed = |message: String| Failure::Call { name: format!("by_hand/{name}"), message };
        let Some((file, adjoint)) = Self::read(root, name, call)? else { return Ok(None) };
        let shadows = (call.args.len()..).zip(shadows(call)).collect();
        // How the derivative is made does not matter to a program that is not differentiated.
        let primal = Primal::new(&file.program, &[adjoint.func], &Configuration::from(Mode::Gradient).options());
        let primal = primal.map_err(|e| failed(e.to_string()))?;
        let memory = Memory::new(&adjoint).map_err(|e| failed(e.to_string()))?;
        let values = memory.values();
        let clock = (0..100).map(|_| Instant::now().elapsed()).min().unwrap_or_default();
        let name = format!("by_hand/{name}");
        Ok(Some(Self { name, primal, call: adjoint, shadows, memory, values, clock }))
    }

    /// The module and the call of the adjoint.
    ///
    /// # Errors
    /// [`Failure::Call`] if it does not fit.
    pub fn read(root: &Path, name: &str, call: &Invocation) -> Result<Option<(File, Invocation)>, Failure> {
        let path = root.join(format!("by_hand/{name}.wasm"));
        if !path.is_file() {
            return Ok(None);
        }
        let failed = |message: String| Failure::Call { name: format!("by_hand/{name}"), message };
        let file = File::read(&path).map_err(|e| failed(e.to_string()))?;
        let wasm = file.wasm.clone().ok_or_else(|| failed("it is no module".to_owned()))?;
        let symbol = format!("{}_adjoint", call.symbol.trim_start_matches('%'));
        let Ok((func, _)) = wasm.module.function(&symbol) else { return Ok(None) };
        let mut args = call.args.clone();
        for i in shadows(call) {
            let data = match &call.args[i] {
                BoundArg::Value(_) => vec![0; 8],
                BoundArg::Buffer { shadow, .. } => shadow.clone(),
                BoundArg::Same(_) => return Err(failed(format!("argument {i} is another one's buffer"))),
            };
            args.push(BoundArg::Buffer { elem: ElemType::F64, shadow: vec![0; data.len()], data });
        }
        let floats = call.returns.iter().zip(&call.seeds).filter(|(t, _)| t.is_float());
        args.extend(floats.map(|(_, seed)| BoundArg::Value(seed.clone())));
        let signature = &file.program.funcs[func].signature;
        let params: Vec<_> = signature.params[1..].iter().map(|p| p.value_type).collect();
        if params.len() != args.len() || !signature.returns.is_empty() {
            return Err(failed(format!("%{symbol} should take {} arguments and return nothing", args.len())));
        }
        let call = Invocation {
            func,
            symbol,
            params,
            returns: Vec::new(),
            specs: vec![ArgSpec::CONST; args.len()],
            seeds: Vec::new(),
            memory: MemoryMode::Leave,
            args,
            wasm: Some(wasm),
            words: vec![],
            mixed: vec![],
        };
        Ok(Some((file, call)))
    }

    /// Put buffers to what they are at first.
    fn reset(&mut self, which: std::ops::Range<usize>) {
        for i in which {
            if let (BoundArg::Buffer { data, .. }, Some(buffer)) = (&self.call.args[i], self.memory.buffer_mut(i)) {
                buffer.primal.bytes_mut().copy_from_slice(data);
            }
        }
    }

    /// Call it once.
    ///
    /// # Errors
    /// If it traps.
    pub fn run(&mut self) -> Result<Duration, Error> {
        let (first, all) = (self.shadows.first().map_or(0, |s| s.0), self.call.args.len());
        self.reset(0..first);
        let start = Instant::now();
        self.reset(first..all);
        // SAFETY: pointers are to live blocks of our memory; whether the adjoint stays inside is
        // the file's business.
        unsafe { self.primal.call(self.call.func, &self.values) }?;
        Ok(start.elapsed().saturating_sub(self.clock))
    }

    /// Compare what the last call has left with a gradient: elements by argument.
    ///
    /// # Errors
    /// [`Failure::Call`] with the first element that differs.
    pub fn compare(&self, gradient: &[Option<Vec<f64>>]) -> Result<(), Failure> {
        let failed = |message: String| Err(Failure::Call { name: self.name.clone(), message });
        let largest = gradient.iter().flatten().flatten().fold(0.0, |m: f64, x| m.max(x.abs()));
        for &(at, of) in &self.shadows {
            let bytes = self.memory.buffer(at).map_or(&[] as &[u8], |b| b.primal.bytes());
            let ours: Vec<f64> = decode_all(ElemType::F64, bytes).iter().map(|x| x.as_f64()).collect();
            let Some(Some(theirs)) = gradient.get(of) else { return failed(format!("argument {of} has no gradient")) };
            if theirs.len() != ours.len() {
                return failed(format!("argument {of} has {} elements, not {}", ours.len(), theirs.len()));
            }
            for (i, (hand, derived)) in ours.iter().zip(theirs).enumerate() {
                // False where either is NaN.
                let agrees = (hand - derived).abs() <= (TOLERANCE * derived.abs()).max(ROUNDING * largest);
                if !agrees {
                    return failed(format!("argument {of}, element {i}: {hand} by hand, but {derived} derived"));
                }
            }
        }
        Ok(())
    }
}
