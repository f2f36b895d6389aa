//! What the tests share: programs from text, buffers, and the machine's own code to compare with.

use brolga_ir::program::symbol_of;
use brolga_ir::{FuncKey, Program};
use brolga_oracle::{BufferRef, Elem, OracleArg, interp};
use brolga_testing::jit::in_one_place;
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, types};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module};

pub(crate) mod ops;

/// The function `%name`.
pub(crate) fn func(p: &Program, name: &str) -> FuncKey {
    p.func(name).unwrap_or_else(|| panic!("no %{name}"))
}

pub(crate) fn f64v(x: f64) -> DataValue {
    DataValue::F64(x.into())
}

pub(crate) fn f32v(x: f32) -> DataValue {
    DataValue::F32(x.into())
}

pub(crate) fn f64_of(v: &DataValue) -> f64 {
    match v {
        DataValue::F64(x) => x.as_f64(),
        DataValue::F32(x) => x.as_f32().into(),
        v => panic!("{v} is no float"),
    }
}

/// A duplicated argument that points at `data`.
pub(crate) fn dup(data: &mut [f64], shadow: Option<Vec<f64>>) -> OracleArg {
    OracleArg::duplicated(buffer(data), shadow)
}

/// A duplicated argument that points at `data`.
pub(crate) fn dup32(data: &mut [f32], shadow: Option<Vec<f64>>) -> OracleArg {
    let b = BufferRef { addr: data.as_mut_ptr() as usize, len_bytes: 4 * data.len(), elem: Elem::F32 };
    OracleArg::duplicated(b, shadow)
}

pub(crate) fn buffer(data: &mut [f64]) -> BufferRef {
    BufferRef { addr: data.as_mut_ptr() as usize, len_bytes: 8 * data.len(), elem: Elem::F64 }
}

pub(crate) fn close(a: f64, b: f64, tol: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tol * (1.0 + a.abs().max(b.abs()))
}

/// A program as machine code.
pub(crate) struct NativeFunction {
    module: Option<JITModule>,
    trampolines: Vec<Option<FuncId>>,
}

impl NativeFunction {
    /// Compile all functions, each with a trampoline `(args: *const u128, results: *mut u128)`.
    /// `Err` if this machine cannot compile some instruction.
    pub(crate) fn compile(p: &Program) -> Result<NativeFunction, String> {
        let mut flags = settings::builder();
        for (k, v) in [
            ("opt_level", "none"),
            ("is_pic", "false"),
            ("use_colocated_libcalls", "false"),
            ("enable_llvm_abi_extensions", "true"),
            ("enable_multi_ret_implicit_sret", "true"),
        ] {
            flags.set(k, v).expect("a known flag");
        }
        let isa = cranelift_native::builder().expect("a supported host").finish(settings::Flags::new(flags));
        let mut module = JITModule::new(in_one_place(JITBuilder::with_isa(
            isa.expect("a supported host"),
            cranelift_module::default_libcall_names(),
        )));
        let mut ids = Vec::new();
        for (k, f) in p.funcs.iter() {
            ids.push(if f.body.is_some() {
                let name = format!("test_{k}");
                module.declare_function(&name, Linkage::Local, &f.signature).map_err(|e| e.to_string())?
            } else {
                module.declare_function(&f.symbol, Linkage::Import, &f.signature).map_err(|e| e.to_string())?
            });
        }
        let mut trampolines = Vec::new();
        for (k, f) in p.funcs.iter() {
            let Some(body) = &f.body else {
                trampolines.push(None);
                continue;
            };
            let mut body = body.clone();
            for (r, e) in body.dfg.ext_funcs.clone() {
                let callee = p.func(&symbol_of(&body, &e.name)).expect("declared");
                let index = ids[callee.as_u32() as usize].as_u32();
                let name = body.declare_imported_user_function(ir::UserExternalName { namespace: 0, index });
                body.dfg.ext_funcs[r].name = ir::ExternalName::User(name);
            }
            let mut ctx = cranelift_codegen::Context::for_function(body);
            module.define_function(ids[k.as_u32() as usize], &mut ctx).map_err(|e| format!("{e:?}"))?;
            trampolines.push(Some(trampoline(&mut module, ids[k.as_u32() as usize], &f.signature)));
        }
        module.finalize_definitions().map_err(|e| e.to_string())?;
        Ok(NativeFunction { module: Some(module), trampolines })
    }

    /// Call a function.
    pub(crate) unsafe fn call(&self, p: &Program, f: FuncKey, args: &[DataValue]) -> Vec<DataValue> {
        let sig = &p.funcs[f].signature;
        let args: Vec<u128> = args.iter().map(interp::to_bits).collect();
        let mut results = vec![0u128; sig.returns.len().max(1)];
        let id = self.trampolines[f.as_u32() as usize].expect("a defined function");
        let code = self.module.as_ref().unwrap().get_finalized_function(id);
        unsafe {
            let code: extern "C" fn(*const u128, *mut u128) = std::mem::transmute(code);
            code(args.as_ptr(), results.as_mut_ptr());
        }
        results.iter().zip(&sig.returns).map(|(&r, t)| interp::from_bits(r, t.value_type)).collect()
    }
}

impl Drop for NativeFunction {
    fn drop(&mut self) {
        if let Some(m) = self.module.take() {
            unsafe { m.free_memory() };
        }
    }
}

fn trampoline(module: &mut JITModule, callee: FuncId, sig: &ir::Signature) -> FuncId {
    let mut outer = module.make_signature();
    outer.params.extend([AbiParam::new(types::I64); 2]);
    let id = module.declare_anonymous_function(&outer).expect("a fresh function");
    let mut f = ir::Function::with_name_signature(ir::UserFuncName::user(1, id.as_u32()), outer);
    let inner = module.declare_func_in_func(callee, &mut f);
    let block = f.dfg.make_block();
    let args = f.dfg.append_block_param(block, types::I64);
    let results = f.dfg.append_block_param(block, types::I64);
    let mut c = cranelift_codegen::cursor::FuncCursor::new(&mut f);
    use cranelift_codegen::cursor::Cursor;
    c.insert_block(block);
    let flags = ir::MemFlagsData::trusted();
    let loaded: Vec<ir::Value> =
        (0..).zip(&sig.params).map(|(i, p)| c.ins().load(p.value_type, flags, args, 16 * i)).collect();
    let call = c.ins().call(inner, &loaded);
    let values = c.func.dfg.inst_results(call).to_vec();
    for (i, v) in values.into_iter().enumerate() {
        c.ins().store(flags, v, results, 16 * i as i32);
    }
    c.ins().return_(&[]);
    let mut ctx = cranelift_codegen::Context::for_function(f);
    module.define_function(id, &mut ctx).expect("a trampoline compiles");
    id
}
