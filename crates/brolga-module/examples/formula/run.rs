//! Run: formulas in a JIT module, their values, gradients and Hessians.
//!
//! What is run from outside is a function `fn f(x: &[f64], n: usize) -> f64`, of which there may be
//! any number, and which call whatever other functions there are.

use std::collections::HashMap;

use brolga_module::ParamActivity::{Const, Dual, Duplicated};
use brolga_module::{AdModule, ReturnActivity, Room, Spec};
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, FuncOrDataId, Linkage, Module, default_libcall_names};

use super::codegen::{Compiled, Type, compile};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Formulas that run.
pub struct Formulas {
    module: AdModule<JITModule>,
    known: HashMap<String, Compiled>,
}

macro_rules! of_c {
    ($($name:ident($($x:ident),*))*) => {{
        unsafe extern "C" { $(fn $name($($x: f64),*) -> f64;)* }
        [$((stringify!($name), $name as *const u8)),*]
    }};
}

impl Formulas {
    pub fn new(text: &str) -> Result<Self> {
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
    pub fn value(&mut self, name: &str, x: &mut [f64]) -> Result<f64> {
        let id = self.objective(name)?;
        let mut cells = [x.as_mut_ptr() as u64, x.len() as u64];
        self.call(id, &mut cells)?;
        Ok(f64::from_bits(cells[0]))
    }

    /// The gradient of a function, added to the shadow of its argument.
    pub fn gradient(&mut self, name: &str, x: &mut [f64], shadow: &mut [f64]) -> Result<()> {
        let f = self.objective(name)?;
        let spec = Spec::gradient([Duplicated, Const]).results([ReturnActivity::ActiveOnly]);
        let id = self.module.derivative(f, &spec)?;
        self.reverse(id, &mut [x, shadow])
    }

    /// The Hessian of a function times a vector: the gradient of its tangent along the vector.
    pub fn product(&mut self, name: &str, x: &mut [f64], vector: &mut [f64]) -> Result<Vec<f64>> {
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

    /// Run a gradient of arrays, each with its shadow, of their length, and of the seed one.
    fn reverse(&mut self, id: FuncId, arrays: &mut [&mut [f64]]) -> Result<()> {
        let records = !matches!(self.module.room(id), Some(Room::Nothing | Room::Stack(_)));
        let mut workspace = vec![0_u64; 128];
        loop {
            let before: Vec<Vec<f64>> = arrays.iter().map(|a| a.to_vec()).collect();
            let mut cells: Vec<u64> = arrays.iter_mut().map(|a| a.as_mut_ptr() as u64).collect();
            cells.extend([arrays[0].len() as u64, 1.0_f64.to_bits()]);
            if records {
                cells.extend([workspace.as_mut_ptr() as u64, 8 * workspace.len() as u64]);
            }
            self.call(id, &mut cells)?;
            // The only result is the status.
            if !records || cells[0] as u32 == 0 {
                return Ok(());
            }
            // A run that does not fit has written some of it.
            arrays.iter_mut().zip(&before).for_each(|(a, before)| a.copy_from_slice(before));
            workspace.resize(2 * workspace.len(), 0);
        }
    }

    /// Call a function with a cell for each parameter; its result is in the first cell afterwards.
    fn call(&mut self, callee: FuncId, cells: &mut [u64]) -> Result<()> {
        let door = self.door(callee)?;
        self.module.finalize_definitions()?;
        // SAFETY: a door takes the address of cells.
        let code: extern "C" fn(*mut u64) = unsafe { std::mem::transmute(self.module.get_finalized_function(door)) };
        code(cells.as_mut_ptr());
        Ok(())
    }

    /// A function that calls another: arguments and result are in cells of eight bytes, so that one
    /// type of Rust fits every signature.
    fn door(&mut self, callee: FuncId) -> Result<FuncId> {
        let decl = self.module.declarations().get_function_decl(callee);
        let (name, params) = (format!("{}.door", decl.linkage_name(callee)), decl.signature.params.clone());
        if let Some(FuncOrDataId::Func(known)) = self.module.get_name(&name) {
            return Ok(known);
        }
        let mut cx = self.module.make_context();
        cx.func.signature.params.push(AbiParam::new(types::I64));
        let id = self.module.declare_function(&name, Linkage::Local, &cx.func.signature)?;
        let callee = self.module.declare_func_in_func(callee, &mut cx.func);
        let mut scratch = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut cx.func, &mut scratch);
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        b.seal_block(block);
        let cells = b.block_params(block)[0];
        let at = |i: usize| 8 * i as i32;
        let load = |(i, p): (usize, &AbiParam)| b.ins().load(p.value_type, MemFlagsData::new(), cells, at(i));
        let args: Vec<_> = params.iter().enumerate().map(load).collect();
        let call = b.ins().call(callee, &args);
        if let Some(&result) = b.inst_results(call).first() {
            b.ins().store(MemFlagsData::new(), result, cells, 0);
        }
        b.ins().return_(&[]);
        b.finalize(self.module.target_config());
        self.module.define_function(id, &mut cx)?;
        Ok(id)
    }
}
