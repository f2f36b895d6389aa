//! Run: formulas in a JIT module, their values, gradients and Hessians.

use std::collections::HashMap;

use brolga_module::{AdModule, ParamActivity, ParamRole, ResultRole, ReturnActivity, Spec};
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};

use super::codegen::{Compiled, compile};
use super::parse::{Function, Type};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// An argument, or its cotangent.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    Float(f64),
    Int(i64),
    Array(Vec<f64>),
}

/// A program that runs.
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
    pub fn new(program: &[Function]) -> Result<Self> {
        let mut builder = JITBuilder::new(default_libcall_names())?;
        // Derivatives call more of them than the functions do.
        builder.symbols(of_c! {
            sin(x) cos(x) tan(x) atan(x) sinh(x) cosh(x) tanh(x) exp(x) log(x) sqrt(x) fabs(x) pow(x, y) hypot(x, y)
            lgamma(x)
        });
        let mut module = AdModule::new(JITModule::new(builder));
        let known = compile(&mut module, program)?;
        Ok(Self { module, known })
    }

    /// The value of a function. Arrays are as it leaves them.
    pub fn value(&mut self, name: &str, args: &mut [Arg]) -> Result<f64> {
        let f = self.checked(name, args)?;
        let cells = args.iter_mut().map(Arg::cell).collect();
        Ok(f64::from_bits(self.run(f.id, cells)?[0]))
    }

    /// The value of a function, and its gradient times a seed. What a shadow holds is added to;
    /// of an array that the function overwrites it is the seed.
    pub fn gradient(&mut self, name: &str, args: &mut [Arg], seed: f64, shadows: &mut [Arg]) -> Result<f64> {
        let f = self.checked(name, args)?;
        let spec = Spec::gradient(f.params.iter().map(|ty| match ty {
            Type::Float => ParamActivity::Active,
            Type::Int => ParamActivity::Const,
            Type::Array => ParamActivity::Duplicated,
        }));
        let id = self.module.derivative(f.id, &spec)?;
        Ok(self.backward(id, args, shadows, &[seed])?.expect("it is returned"))
    }

    /// The Hessian of a function times a vector: the gradient of its tangent along the vector.
    pub fn product(&mut self, name: &str, args: &[Arg], vector: &[Arg]) -> Result<Vec<Arg>> {
        let f = self.checked(name, args)?;
        let tangent = self.module.derivative(
            f.id,
            &Spec::tangent(f.params.iter().map(|ty| match ty {
                Type::Float | Type::Array => ParamActivity::Dual,
                Type::Int => ParamActivity::Const,
            })),
        )?;
        // The tangent is a function like any other, of arguments and directions.
        let roles = self.module.signature(tangent).expect("it is derived").params.clone();
        let (mut given, mut spec) = (Vec::new(), Vec::new());
        for role in roles {
            let arg = match role {
                ParamRole::Primal(i) => args[i].clone(),
                ParamRole::Tangent(i) | ParamRole::Shadow(i) => vector[i].clone(),
                role => unreachable!("{role:?} of a tangent"),
            };
            spec.push(match arg {
                Arg::Float(_) => ParamActivity::Active,
                Arg::Int(_) => ParamActivity::Const,
                Arg::Array(_) => ParamActivity::Duplicated,
            });
            given.push((role, arg));
        }
        let spec = Spec::gradient(spec).results([ReturnActivity::Omitted, ReturnActivity::ActiveOnly]);
        let id = self.module.derivative(tangent, &spec)?;
        let (roles, mut given): (Vec<ParamRole>, Vec<Arg>) = given.into_iter().unzip();
        let mut shadows: Vec<Arg> = given.iter().map(Arg::zero).collect();
        self.backward(id, &mut given, &mut shadows, &[0.0, 1.0])?;
        let of_args = roles.iter().zip(shadows).filter(|(role, _)| matches!(role, ParamRole::Primal(_)));
        Ok(of_args.map(|(_, shadow)| shadow).collect())
    }

    /// Run a gradient: its shadows are added to. The value, if it is returned.
    fn backward(&mut self, id: FuncId, args: &mut [Arg], shadows: &mut [Arg], seeds: &[f64]) -> Result<Option<f64>> {
        let signature = self.module.signature(id).expect("it is derived").clone();
        let mut workspace = vec![0_u64; 128];
        loop {
            // A run that does not fit has written some of it.
            let (mut primals, mut cotangents) = (args.to_vec(), shadows.to_vec());
            let mut results = vec![0_u64; signature.results.len()];
            let cell = |role: &ParamRole| match *role {
                ParamRole::Primal(i) => primals[i].cell(),
                ParamRole::Shadow(i) => cotangents[i].cell(),
                ParamRole::Seed(k) => seeds[k].to_bits(),
                ParamRole::Workspace => workspace.as_mut_ptr() as u64,
                ParamRole::WorkspaceBytes => 8 * workspace.len() as u64,
                ParamRole::Results => results.as_mut_ptr() as u64,
                ParamRole::Tangent(_) => unreachable!("the mode is reverse"),
            };
            let cells = signature.params.iter().map(cell).collect();
            let returned = self.run(id, cells)?;
            // In a struct each field begins at a multiple of eight: only the status, which is the
            // last, is shorter.
            let results = if signature.layout.is_some() { results } else { returned };
            let found = |role| signature.result(role).map(|k| results[k]);
            if found(ResultRole::Status).is_some_and(|s| s as u32 != 0) {
                workspace.resize(2 * workspace.len(), 0);
                continue;
            }
            for (i, shadow) in cotangents.iter_mut().enumerate() {
                if let (Arg::Float(x), Some(bits)) = (shadow, found(ResultRole::Cotangent(i))) {
                    *x += f64::from_bits(bits);
                }
            }
            args.clone_from_slice(&primals);
            shadows.clone_from_slice(&cotangents);
            return Ok(found(ResultRole::Value(0)).map(f64::from_bits));
        }
    }

    fn checked(&self, name: &str, args: &[Arg]) -> Result<Compiled> {
        let f = self.known.get(name).ok_or_else(|| format!("there is no function `{name}`"))?;
        let fits = |(a, ty): (&Arg, &Type)| {
            matches!((a, ty), (Arg::Float(_), Type::Float) | (Arg::Int(_), Type::Int) | (Arg::Array(_), Type::Array))
        };
        if args.len() == f.params.len() && args.iter().zip(&f.params).all(fits) {
            return Ok(f.clone());
        }
        Err(format!("`{name}` is called with {:?}, not {args:?}", f.params).into())
    }

    /// Call a function with a cell for each parameter. Its results are the first cells of what
    /// comes back.
    fn run(&mut self, id: FuncId, mut cells: Vec<u64>) -> Result<Vec<u64>> {
        let door = self.door(id)?;
        self.module.finalize_definitions()?;
        cells.resize(cells.len().max(8), 0);
        // SAFETY: a door takes the address of cells.
        let code: extern "C" fn(*mut u64) = unsafe { std::mem::transmute(self.module.get_finalized_function(door)) };
        code(cells.as_mut_ptr());
        Ok(cells)
    }

    /// A function that calls another: arguments and results are in cells of eight bytes, so that
    /// one type of Rust fits every signature.
    fn door(&mut self, callee: FuncId) -> Result<FuncId> {
        let decl = self.module.declarations().get_function_decl(callee);
        let (name, callee_sig) = (format!("{}.door", decl.linkage_name(callee)), decl.signature.clone());
        if let Some(cranelift_module::FuncOrDataId::Func(known)) = self.module.get_name(&name) {
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
        let mut args = Vec::new();
        for (i, p) in callee_sig.params.iter().enumerate() {
            args.push(b.ins().load(p.value_type, MemFlagsData::new(), cells, 8 * i as i32));
        }
        let call = b.ins().call(callee, &args);
        for (i, v) in b.inst_results(call).to_vec().into_iter().enumerate() {
            b.ins().store(MemFlagsData::new(), v, cells, 8 * i as i32);
        }
        b.ins().return_(&[]);
        b.finalize(self.module.target_config());
        self.module.define_function(id, &mut cx)?;
        Ok(id)
    }
}

impl Arg {
    /// The argument as eight bytes.
    fn cell(&mut self) -> u64 {
        match self {
            Self::Float(x) => x.to_bits(),
            Self::Int(n) => *n as u64,
            Self::Array(x) => x.as_mut_ptr() as u64,
        }
    }

    /// The floats of it.
    pub fn floats(&mut self) -> &mut [f64] {
        match self {
            Self::Float(x) => std::slice::from_mut(x),
            Self::Array(x) => x,
            Self::Int(_) => &mut [],
        }
    }

    /// Zeros in the same shape.
    pub fn zero(&self) -> Self {
        match self {
            Self::Float(_) => Self::Float(0.0),
            Self::Int(_) => Self::Int(0),
            Self::Array(x) => Self::Array(vec![0.0; x.len()]),
        }
    }
}
