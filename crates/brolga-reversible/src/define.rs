//! Definition of reversible functions in a program that is differentiated.
//!
//! **Question.** How does a Rust program take the gradient of a reversible function?
//!
//! **Answer.** It defines the functions in a [`Program`] ([`CompiledProgram::define_in`]), beside
//! others if it likes, and asks for the derivative of one of them as of any function. The program
//! then knows what traps are called, what users call the functions, and what is checked of each.
//!
//! **Errors.** A name that the program has already.
//!
//! **Cost.** A copy of each function, and a look at the functions that stand for pairs, which are
//! found by what they call.

use brolga_ir::program::symbol_in;
use brolga_ir::{Diagnostic, Diagnostics, InverseCheck, Program, STATEMENT, Tolerance};
use cranelift_codegen::ir::InstructionData;

use crate::ast::{CheckMode, Function};
use crate::{CompiledProgram, Fault};

/// What is checked of a call of a function, as its text says.
impl From<CheckMode> for InverseCheck {
    fn from(check: CheckMode) -> Self {
        match check {
            CheckMode::Off => Self::Off,
            CheckMode::Within(t) => Self::Within(Tolerance::from(t)),
            CheckMode::Bits => Self::Bits,
        }
    }
}

impl CompiledProgram {
    /// Define all functions in a program. `%f` and `%f__inverse` are those to call; each takes a
    /// word of 64 bits for each parameter: the address of a place, or an integer that is read. To
    /// differentiate one, its places are duplicated arguments, but for those of integers, which are
    /// constant.
    ///
    /// What a function says of checks is asked of its calls where
    /// [`Options::inverse_check`](brolga_ir::Options::inverse_check) is `Declared`, as it is unless
    /// told otherwise. Traps of failed checks have the names of [`Fault`], and are in the line of
    /// the statement, or name the statement of a builder by its number.
    ///
    /// ```
    /// use brolga::cranelift_codegen::data_value::DataValue;
    /// use brolga::{Arg, ArgSpec, DerivedRule, Mode, Options, Program, Request};
    /// # use brolga_reversible::compile;
    /// let squares = compile("fn squares(y: f64, x: in [f64 x n], n: in i64) {
    ///     for i in 0 .. n {
    ///         y += x[i] * x[i]
    ///     }
    /// }")?;
    /// let mut program = Program::new();
    /// squares.define_in(&mut program)?;
    /// let f = program.func("squares").expect("it is defined");
    /// let request = Request::new(f, [ArgSpec::DUPLICATED, ArgSpec::DUPLICATED, ArgSpec::CONST]);
    /// let rule = DerivedRule::new(&program, &request, &Options { mode: Mode::Combined, ..Options::default() })?;
    ///
    /// let (mut y, mut x, mut dy, mut dx) = ([0.0], [1.0, 2.0, 3.0], [1.0], [0.0; 3]);
    /// let args = [
    ///     Arg::duplicated(y.as_mut_ptr() as u64, dy.as_mut_ptr() as u64),
    ///     Arg::duplicated(x.as_mut_ptr() as u64, dx.as_mut_ptr() as u64),
    ///     Arg::new(DataValue::I64(3)),
    /// ];
    /// // SAFETY: the places are as long as the function is told.
    /// unsafe { rule.gradient(&args, &[], &mut vec![], &mut vec![]) }?;
    /// assert_eq!((y, dx), ([14.0], [2.0, 4.0, 6.0]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// AD0004 if the program has a function of such a name.
    pub fn define_in(&self, program: &mut Program) -> Result<(), Diagnostics> {
        for fault in Fault::ALL {
            program.traps.insert(fault.code(), (fault.name(), fault.message()));
        }
        for f in &self.functions {
            program.declare(&f.symbol, &f.func.signature);
        }
        // A builder has no columns.
        let is_built = self.file.functions.iter().all(|f| f.at.column == 0);
        for f in &self.functions {
            let line = |inst| {
                let loc = f.func.srcloc(inst);
                let line = if loc.is_default() { f.line } else { loc.bits() };
                if is_built && line > 0 { line | STATEMENT } else { line }
            };
            let key = program.define(&f.symbol, f.func.clone(), line).map_err(|s| {
                let d = Diagnostic::new("AD0004", format!("`%{s}` is defined twice"));
                d.help("define a file of reversible functions once, and give functions other names")
            })?;
            program.func_mut(key).called.clone_from(&f.called);
        }
        for f in &self.file.functions {
            for which in ["do", "undo"] {
                program.set_inverse_check(&format!("{}__{which}", f.name), f.check.into())?;
            }
            name_pairs(program, f);
        }
        Ok(())
    }
}

/// What undoes calls of a function is called as that is, and stands where that does.
fn name_pairs(program: &mut Program, f: &Function) {
    let names = |which: &[&str]| -> Vec<String> { which.iter().map(|w| format!("{}__{w}", f.name)).collect() };
    let (forwards, backwards) = (names(&["do", "adjoint"]), names(&["undo", "inverse__adjoint"]));
    let mut found = Vec::new();
    for (key, of) in &program.funcs {
        let Some(body) = of.body.as_ref().filter(|_| of.symbol.starts_with("brolga_reversible__")) else { continue };
        let insts = body.layout.blocks().flat_map(|b| body.layout.block_insts(b));
        let mut called = insts.filter_map(|i| match body.dfg.insts[i] {
            InstructionData::Call { func_ref, .. } => {
                Some(symbol_in(body, &body.dfg.ext_funcs[func_ref].name).into_owned())
            }
            _ => None,
        });
        let Some(callee) = called.next() else { continue };
        if forwards.contains(&callee) {
            found.push((key, f.name.clone()));
        } else if backwards.contains(&callee) {
            found.push((key, format!("the inverse of {}", f.name)));
        }
    }
    for (key, name) in found {
        let of = program.func_mut(key);
        of.called = Some(name);
        let insts: Vec<_> =
            of.body.iter().flat_map(|b| b.layout.blocks().flat_map(|k| b.layout.block_insts(k))).collect();
        insts.into_iter().for_each(|i| of.lines[i] = f.at.line);
    }
}
