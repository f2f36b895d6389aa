//! Functions under test: opcodes as Cranelift compiles them, and C functions as the system's
//! library has them. Both are presented as functions of doubles, whatever their width.

use std::ffi::{CStr, CString, c_void};
use std::sync::LazyLock;

use brolga_rules::check::Width;
use brolga_rules::{MathKind, MathRule, Ty, gamma};
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, Opcode, Type, Value, types};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, default_libcall_names};

/// A compiled function that reads its operands from memory, 16 bytes apart, and writes its result
/// to memory.
pub(crate) struct Compiled(extern "C" fn(*const u8, *mut u8));

impl Compiled {
    /// Compile what `build` makes of operands of types `params`.
    pub(crate) fn new(params: &[Type], build: impl FnOnce(&mut FunctionBuilder, &[Value]) -> Value) -> Self {
        let mut flags = settings::builder();
        flags.set("opt_level", "speed").expect("a setting of Cranelift");
        let isa = cranelift_native::builder().expect("a supported host");
        let isa = isa.finish(settings::Flags::new(flags)).expect("flags that fit the host");
        let mut module = JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()));
        let mut cx = module.make_context();
        let pointer = module.target_config().pointer_type();
        cx.func.signature.params.extend([AbiParam::new(pointer); 2]);
        let mut fcx = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut cx.func, &mut fcx);
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        b.seal_block(entry);
        let (input, output) = (b.block_params(entry)[0], b.block_params(entry)[1]);
        let flags = MemFlagsData::new();
        let operands: Vec<Value> =
            params.iter().enumerate().map(|(i, &ty)| b.ins().load(ty, flags, input, 16 * i as i32)).collect();
        let result = build(&mut b, &operands);
        b.ins().store(flags, result, output, 0);
        b.ins().return_(&[]);
        b.finalize(module.target_config());
        let id = module.declare_function("subject", Linkage::Local, &cx.func.signature).expect("a fresh name");
        module.define_function(id, &mut cx).expect("code that compiles");
        module.finalize_definitions().expect("memory for the code");
        let code = module.get_finalized_function(id);
        // SAFETY: the signature is the one declared above. The module's memory is never freed.
        Self(unsafe { std::mem::transmute::<*const u8, extern "C" fn(*const u8, *mut u8)>(code) })
    }

    /// Compile one instruction, whose operands and result all have type `ty`.
    pub(crate) fn opcode(op: Opcode, ty: Type, n_operands: usize) -> Self {
        Self::new(&vec![ty; n_operands], |b, x| match *x {
            [x] => {
                let (inst, dfg) = b.ins().Unary(op, ty, x);
                dfg.first_result(inst)
            }
            [x, y] => {
                let (inst, dfg) = b.ins().Binary(op, ty, x, y);
                dfg.first_result(inst)
            }
            [x, y, c] => {
                let (inst, dfg) = b.ins().Ternary(op, ty, x, y, c);
                dfg.first_result(inst)
            }
            _ => panic!("no instruction has {n_operands} float operands"),
        })
    }

    /// Run on raw operands.
    pub(crate) fn run(&self, operands: &[[u8; 16]]) -> [u8; 16] {
        let mut out = [0; 16];
        (self.0)(operands.as_ptr().cast(), out.as_mut_ptr());
        out
    }

    /// Run on one float per operand (in the low lane), giving one.
    pub(crate) fn run_scalar(&self, width: Width, operands: &[f64]) -> f64 {
        let operands: Vec<_> = operands.iter().map(|&x| lanes(width, &[x])).collect();
        lane(width, &self.run(&operands), 0)
    }
}

/// A vector with these lanes, the rest zero.
pub(crate) fn lanes(width: Width, values: &[f64]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (i, &x) in values.iter().enumerate() {
        match width {
            Width::F64 => bytes[8 * i..][..8].copy_from_slice(&x.to_le_bytes()),
            Width::F32 => bytes[4 * i..][..4].copy_from_slice(&(x as f32).to_le_bytes()),
        }
    }
    bytes
}

/// One lane of a vector.
pub(crate) fn lane(width: Width, bytes: &[u8; 16], i: usize) -> f64 {
    match width {
        Width::F64 => f64::from_le_bytes(bytes[8 * i..][..8].try_into().expect("eight bytes")),
        Width::F32 => f64::from(f32::from_le_bytes(bytes[4 * i..][..4].try_into().expect("four bytes"))),
    }
}

/// The scalar type of a width.
pub(crate) fn scalar(width: Width) -> Type {
    match width {
        Width::F64 => types::F64,
        Width::F32 => types::F32,
    }
}

/// A C function from the system's library.
pub(crate) struct Foreign {
    address: *const c_void,
    rule: &'static MathRule,
    pub width: Width,
}

/// An address that may be sent between threads.
struct Library(*mut c_void);
// SAFETY: the handle is only passed to `dlsym`, which may be called from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

static LIBM: LazyLock<Library> = LazyLock::new(|| {
    let names: [&CStr; 3] = [c"libm.so.6", c"libm.so", c"libm.dylib"];
    // SAFETY: loading the mathematics library runs no code of consequence.
    let handle = names.iter().map(|n| unsafe { libc::dlopen(n.as_ptr(), libc::RTLD_NOW) }).find(|h| !h.is_null());
    Library(handle.expect("the system has a mathematics library"))
});

extern "C" fn digamma64(x: f64) -> f64 {
    gamma::digamma(x)
}

extern "C" fn digamma32(x: f32) -> f32 {
    gamma::digamma(f64::from(x)) as f32
}

extern "C" fn trigamma64(x: f64) -> f64 {
    gamma::trigamma(x)
}

extern "C" fn trigamma32(x: f32) -> f32 {
    gamma::trigamma(f64::from(x)) as f32
}

extern "C" fn polygamma64(n: f64, x: f64) -> f64 {
    gamma::polygamma(n, x)
}

extern "C" fn polygamma32(n: f32, x: f32) -> f32 {
    gamma::polygamma(f64::from(n), f64::from(x)) as f32
}

extern "C" fn powi64(x: f64, n: i32) -> f64 {
    x.powi(n)
}

extern "C" fn powi32(x: f32, n: i32) -> f32 {
    x.powi(n)
}

/// What derivatives take `brolga_with_value` for, though its value is the second operand.
extern "C" fn first64(x: f64, _v: f64) -> f64 {
    x
}

extern "C" fn first32(x: f32, _v: f32) -> f32 {
    x
}

impl Foreign {
    /// The function of a rule with float operands.
    pub(crate) fn new(rule: &'static MathRule) -> Self {
        let address = match &*rule.symbol {
            // These are in the run time or in compilers' support libraries.
            "brolga_digamma" => digamma64 as *const c_void,
            "brolga_digammaf" => digamma32 as *const c_void,
            "brolga_trigamma" => trigamma64 as *const c_void,
            "brolga_trigammaf" => trigamma32 as *const c_void,
            "brolga_polygamma" => polygamma64 as *const c_void,
            "brolga_polygammaf" => polygamma32 as *const c_void,
            "brolga_with_value" => first64 as *const c_void,
            "brolga_with_valuef" => first32 as *const c_void,
            "__powidf2" => powi64 as *const c_void,
            "__powisf2" => powi32 as *const c_void,
            symbol => {
                let name = CString::new(symbol).expect("a symbol without NUL");
                // SAFETY: the handle is open.
                unsafe { libc::dlsym(LIBM.0, name.as_ptr()) }
            }
        };
        assert!(!address.is_null(), "the system has no {}", rule.symbol);
        let width = if rule.params[0] == Ty::F32 { Width::F32 } else { Width::F64 };
        Self { address, rule, width }
    }

    /// Whether operand `i` is a float.
    pub(crate) fn is_continuous(&self, i: usize) -> bool {
        self.rule.params[i].is_float()
    }

    /// Call it. Integers are passed as doubles; operands for pointers are ignored. The results are
    /// those of the row.
    pub(crate) fn call(&self, x: &[f64]) -> Vec<f64> {
        use Ty::{F32, F64, I32, I64, Ptr};
        let a = self.address;
        // Room for what is written through pointers.
        let mut out = [[0u8; 8]; 3];
        let p = |out: &mut [[u8; 8]; 3], i: usize| out[i].as_mut_ptr();
        macro_rules! call {
            ($($arg:expr => $ty:ty),* ; $ret:ty) => {
                // SAFETY: the signature is the rule's, which is C's; pointers have room for eight
                // bytes.
                unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn($($ty),*) -> $ret>(a)($($arg),*) }
            };
        }
        let ret: Option<f64> = match (&self.rule.params[..], &self.rule.rets[..]) {
            ([F64], [F64]) => Some(call!(x[0] => f64; f64)),
            ([F64, F64], [F64]) => Some(call!(x[0] => f64, x[1] => f64; f64)),
            ([F64, F64, F64], [F64]) => Some(call!(x[0] => f64, x[1] => f64, x[2] => f64; f64)),
            ([F64, I32], [F64]) => Some(call!(x[0] => f64, x[1] as i32 => i32; f64)),
            ([F64, I64], [F64]) => Some(call!(x[0] => f64, x[1] as i64 => i64; f64)),
            ([F64, Ptr], [F64]) => Some(call!(x[0] => f64, p(&mut out, 1) => *mut u8; f64)),
            ([F64, F64, Ptr], [F64]) => Some(call!(x[0] => f64, x[1] => f64, p(&mut out, 2) => *mut u8; f64)),
            ([F64, Ptr, Ptr], []) => {
                call!(x[0] => f64, p(&mut out, 1) => *mut u8, p(&mut out, 2) => *mut u8; ());
                None
            }
            ([F32], [F32]) => Some(call!(x[0] as f32 => f32; f32).into()),
            ([F32, F32], [F32]) => Some(call!(x[0] as f32 => f32, x[1] as f32 => f32; f32).into()),
            ([F32, F32, F32], [F32]) => {
                Some(call!(x[0] as f32 => f32, x[1] as f32 => f32, x[2] as f32 => f32; f32).into())
            }
            ([F32, I32], [F32]) => Some(call!(x[0] as f32 => f32, x[1] as i32 => i32; f32).into()),
            ([F32, I64], [F32]) => Some(call!(x[0] as f32 => f32, x[1] as i64 => i64; f32).into()),
            ([F32, Ptr], [F32]) => Some(call!(x[0] as f32 => f32, p(&mut out, 1) => *mut u8; f32).into()),
            ([F32, F32, Ptr], [F32]) => {
                Some(call!(x[0] as f32 => f32, x[1] as f32 => f32, p(&mut out, 2) => *mut u8; f32).into())
            }
            ([F32, Ptr, Ptr], []) => {
                call!(x[0] as f32 => f32, p(&mut out, 1) => *mut u8, p(&mut out, 2) => *mut u8; ());
                None
            }
            (params, rets) => panic!("{}: no call for {params:?} -> {rets:?}", self.rule.symbol),
        };
        let written = match self.rule.kind {
            MathKind::Writes(_, outs) => outs,
            _ => &[],
        };
        let read = |param: usize, ty: Ty| match ty {
            F64 => f64::from_ne_bytes(out[param]),
            F32 => f64::from(f32::from_ne_bytes(out[param][..4].try_into().expect("four bytes"))),
            I32 => f64::from(i32::from_ne_bytes(out[param][..4].try_into().expect("four bytes"))),
            other => panic!("no function writes {other:?}"),
        };
        ret.into_iter().chain(written.iter().map(|o| read(o.param, o.ty))).collect()
    }
}
