//! Compiled primals: a program as it is, without derivatives, for embedders that want values only.
//!
//! **Question.** A caller wants values of functions, and no derivative. How does it get them?
//!
//! **Answer.** [`Primal::new`] compiles every function of the program that a root reaches once,
//! with one entry point for each root. [`Primal::call`] passes arguments in ABI values and returns
//! results.
//!
//! **Errors.** [`Error::Diagnostics`] for what is not there or cannot be compiled; [`Error::Usage`]
//! for arguments that do not fit, and [`Error::Trap`] for runs that trap.
//!
//! **Cost.** One compilation of each function that is reached. A call copies arguments and results,
//! and allocates a vector for these.

use std::collections::HashMap;

use brolga_analysis::calls::summarise::reachable;
use brolga_ir::{FuncKey, Options, Program};
use cranelift_codegen::data_value::DataValue;

use super::abi_values::{check_args, enter, read, with_abi_values, write};
use super::compile::{self, CompiledModule};
use super::isa::host_isa;
use super::traps::Phase;
use crate::Error;

/// Compiled primals. Immutable, so threads may share it.
///
/// ```
/// # use brolga::{Error, Options, Primal, cranelift_codegen::data_value::DataValue};
/// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
/// # let mut program = brolga::Program::new();
/// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
/// let primal = Primal::new(&program, &[square], &Options::default())?;
/// // SAFETY: the function accesses no memory.
/// assert_eq!(unsafe { primal.call(square, &[DataValue::F64(3.0.into())]) }?, [DataValue::F64(9.0.into())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Primal {
    compiled: CompiledModule,
    program: Program,
    entries: HashMap<FuncKey, usize>,
}

impl Primal {
    /// Compile `roots` and whatever they call.
    ///
    /// # Errors
    /// [`Error::Diagnostics`] if a function is not there or cannot be compiled for this machine.
    pub fn new(program: &Program, roots: &[FuncKey], options: &Options) -> Result<Self, Error> {
        let isa = host_isa(options)?;
        let program = &*brolga_transform::called::resolved(program, roots, &*isa)?;
        let mut needed: Vec<FuncKey> = Vec::new();
        for &root in roots {
            needed.extend(reachable(program, root));
        }
        needed.sort_unstable();
        needed.dedup();
        crate::error::caught("compile", program, || {
            let compiled = compile::primals(program, roots, &needed, options)?;
            let entry = |k: FuncKey| compiled.address(&format!("{}.entry", program.funcs[k].symbol));
            let entries = roots.iter().filter_map(|&k| Some((k, entry(k)?))).collect();
            Ok(Self { compiled, program: program.clone(), entries })
        })
    }

    /// Call a root.
    ///
    /// ```
    /// # use brolga::{Error, Options, Primal, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// let primal = Primal::new(&program, &[square], &Options::default())?;
    /// // SAFETY: the function accesses no memory.
    /// assert!(matches!(unsafe { primal.call(square, &[]) }, Err(Error::Usage(_)))); // it has one parameter
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for arguments that do not fit or a function that is no root,
    /// [`Error::Trap`] if it traps.
    ///
    /// # Safety
    /// Pointers among the arguments must be valid for what the function does with them.
    pub unsafe fn call(&self, func: FuncKey, args: &[DataValue]) -> Result<Vec<DataValue>, Error> {
        let f = &self.program.funcs[func];
        let Some(&entry) = self.entries.get(&func) else {
            return Err(Error::Usage(format!("%{} is not among the functions that were compiled", f.symbol)));
        };
        check_args(&f.signature, args.iter())?;
        let returns = &f.signature.returns;
        with_abi_values(args.len().max(returns.len()), |abi_values| {
            for (c, a) in abi_values.iter_mut().zip(args) {
                write(c, a);
            }
            // SAFETY: our contract; `entry` is an entry point of this module.
            unsafe { enter(&self.compiled.code, &self.program, Phase::Primal, entry, abi_values) }?;
            Ok(abi_values.iter().zip(returns).map(|(c, r)| read(c, r.value_type)).collect())
        })
    }

    /// Bytes of machine code.
    ///
    /// ```
    /// # use brolga::{Error, Options, Primal, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// assert!(Primal::new(&program, &[square], &Options::default())?.code_bytes() > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn code_bytes(&self) -> usize {
        self.compiled.code.code_bytes()
    }
}
