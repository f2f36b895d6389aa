//! Run: formulas in a JIT module, their values, gradients and Hessians.
//!
//! What is run from outside is a function `fn f(x: &[f64], n: usize) -> f64`, of which there may be
//! any number, and which call whatever other functions there are.

use std::collections::HashMap;
use std::mem::transmute;

use brolga_module::ParamActivity::{Const, Dual, Duplicated};
use brolga_module::{AdModule, ReturnActivity, Room, Spec};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, default_libcall_names};

use super::codegen::{CompiledFormula, Type, compile};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
type Floats = *mut f64;
type Value = extern "C" fn(Floats, usize) -> f64;

// Gradients of one array and of two: each with its shadow, the length, the seed, the workspace.
type One = extern "C" fn(Floats, Floats, usize, f64);
type Two = extern "C" fn(Floats, Floats, Floats, Floats, usize, f64);
type OneRecorded = extern "C" fn(Floats, Floats, usize, f64, *mut u64, usize) -> i32;
type TwoRecorded = extern "C" fn(Floats, Floats, Floats, Floats, usize, f64, *mut u64, usize) -> i32;

/// Formulas that run.
pub(crate) struct Formulas {
    module: AdModule<JITModule>,
    known: HashMap<String, CompiledFormula>,
}

macro_rules! of_c {
    ($($name:ident($($x:ident),*))*) => {{
        unsafe extern "C" { $(fn $name($($x: f64),*) -> f64;)* }
        [$((stringify!($name), $name as *const u8)),*]
    }};
}

impl Formulas {
    pub(crate) fn new(text: &str) -> Result<Self> {
        let mut builder = JITBuilder::new(default_libcall_names())?;
        // Derivatives call more of them than the functions do.
        builder.symbols(of_c! {
            sin(x) cos(x) tan(x) atan(x) sinh(x) cosh(x) tanh(x) exp(x) log(x) sqrt(x) fabs(x) pow(x, y) hypot(x, y)
            lgamma(x)
        });
        let mut module = AdModule::new(JITModule::new(builder));
        let known = compile(&mut module, text).map_err(|e| {
            let at = e.span().start();
            format!("{}:{}: {e}", at.line, at.column + 1)
        })?;
        Ok(Self { module, known })
    }

    fn objective(&self, name: &str) -> Result<FuncId> {
        let f = self.known.get(name).filter(|f| f.params.iter().map(|p| p.1).eq([Type::Array, Type::Int]));
        Ok(f.ok_or_else(|| format!("there is no function `{name}(x: &[f64], n: usize)`"))?.id)
    }

    /// The value of a function.
    pub(crate) fn value(&mut self, name: &str, x: &mut [f64]) -> Result<f64> {
        let id = self.objective(name)?;
        let code = self.code(id)?;
        // SAFETY: that is the type of an objective.
        let f = unsafe { transmute::<*const u8, Value>(code) };
        Ok(f(x.as_mut_ptr(), x.len()))
    }

    fn code(&mut self, id: FuncId) -> Result<*const u8> {
        self.module.finalize_definitions()?;
        Ok(self.module.get_finalized_function(id))
    }

    /// The gradient of a function, added to the shadow of its argument.
    pub(crate) fn gradient(&mut self, name: &str, x: &mut [f64], shadow: &mut [f64]) -> Result<()> {
        let f = self.objective(name)?;
        let spec = Spec::gradient([Duplicated, Const]).results([ReturnActivity::ActiveOnly]);
        let id = self.module.derivative(f, &spec)?;
        self.reverse(id, &mut [x, shadow])
    }

    /// The Hessian of a function times a vector: the gradient of its tangent along the vector.
    pub(crate) fn product(&mut self, name: &str, x: &mut [f64], vector: &mut [f64]) -> Result<Vec<f64>> {
        let f = self.objective(name)?;
        let tangent = self.module.derivative(f, &Spec::tangent([Dual, Const]))?;
        // The tangent is a function like any other, of x, the vector and n.
        let spec = Spec::gradient([Duplicated, Duplicated, Const]);
        let spec = spec.results([ReturnActivity::Omitted, ReturnActivity::ActiveOnly]);
        let id = self.module.derivative(tangent, &spec)?;
        let (mut product, mut of_vector) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        self.reverse(id, &mut [x, &mut product, vector, &mut of_vector])?;
        Ok(product)
    }

    /// Run the gradient of one array or of two, with the seed one.
    fn reverse(&mut self, id: FuncId, arrays: &mut [&mut [f64]]) -> Result<()> {
        let records = !matches!(self.module.room(id), Some(Room::Nothing | Room::Stack(_)));
        let (code, n, mut room) = (self.code(id)?, arrays[0].len(), vec![0_u64; 128]);
        loop {
            let before: Vec<Vec<f64>> = arrays.iter().map(|a| a.to_vec()).collect();
            let at: Vec<Floats> = arrays.iter_mut().map(|a| a.as_mut_ptr()).collect();
            let (work, bytes) = (room.as_mut_ptr(), 8 * room.len());
            // SAFETY: those are the types of such gradients, as `AdModule::signature` has them.
            let status = unsafe {
                match (&at[..], records) {
                    (&[x, s], true) => transmute::<*const u8, OneRecorded>(code)(x, s, n, 1.0, work, bytes),
                    (&[x, s, y, t], true) => transmute::<*const u8, TwoRecorded>(code)(x, s, y, t, n, 1.0, work, bytes),
                    (&[x, s], false) => {
                        transmute::<*const u8, One>(code)(x, s, n, 1.0);
                        0
                    }
                    (&[x, s, y, t], false) => {
                        transmute::<*const u8, Two>(code)(x, s, y, t, n, 1.0);
                        0
                    }
                    _ => return Err("a gradient is one of one array or of two".into()),
                }
            };
            if status == 0 {
                return Ok(());
            }
            // A run that does not fit has written some of it.
            arrays.iter_mut().zip(&before).for_each(|(a, before)| a.copy_from_slice(before));
            room.resize(2 * room.len(), 0);
        }
    }
}
