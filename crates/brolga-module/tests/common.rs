//! Functions from text in a JIT module, and calls of them with values.

use brolga_ir::Program;
use brolga_module::{AdModule, DerivedSignature, Options, ParamRole, ResultRole, Spec};
use brolga_testing::module::{LoadedModule, entry, load};
use cranelift_codegen::data_value::DataValue;
use cranelift_jit::JITModule;
use cranelift_module::FuncId;

/// A module of the functions of a text.
pub(crate) struct Fixture {
    pub module: AdModule<JITModule>,
    pub loaded: LoadedModule,
    doors: Vec<(FuncId, FuncId)>,
}

unsafe extern "C" {
    fn sin(x: f64) -> f64;
    fn cos(x: f64) -> f64;
    fn exp(x: f64) -> f64;
}

#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct AbiValue([u8; 16]);

/// Results by their roles.
pub(crate) type Results = Vec<(ResultRole, DataValue)>;

impl Fixture {
    /// All that `root` reaches.
    pub(crate) fn new(text: &str, root: &str) -> Self {
        Self::of(&brolga_testing::program(text), root)
    }

    /// The same, of a program.
    pub(crate) fn of(program: &Program, root: &str) -> Self {
        Self::of_with(program, root, &[])
    }

    /// The same of a text, with functions of the test's.
    pub(crate) fn with(text: &str, root: &str, symbols: &[(&str, *const u8)]) -> Self {
        Self::of_with(&brolga_testing::program(text), root, symbols)
    }

    /// The same with options of derivation.
    pub(crate) fn with_options(text: &str, root: &str, options: Options) -> Self {
        Self::made(&brolga_testing::program(text), root, &[], options)
    }

    fn of_with(program: &Program, root: &str, symbols: &[(&str, *const u8)]) -> Self {
        Self::made(program, root, symbols, Options::full())
    }

    fn made(program: &Program, root: &str, symbols: &[(&str, *const u8)], options: Options) -> Self {
        let mut builder = brolga_testing::jit::host();
        builder.symbols(symbols.iter().map(|(name, code)| ((*name).to_owned(), *code)));
        // A program that does not call them is not linked with them.
        builder.symbols([("sin", sin as *const u8), ("cos", cos as *const u8), ("exp", exp as *const u8)]);
        let mut module = AdModule::with_options(JITModule::new(builder), options);
        let key = program.func(root).expect("it is in the text");
        let loaded = load(&mut module, program, key).expect("Cranelift compiles it");
        Self { module, loaded, doors: vec![] }
    }

    pub(crate) fn func(&self, symbol: &str) -> FuncId {
        self.loaded.functions[symbol]
    }

    /// The derivative of a function, ready to be called when the module is finished.
    pub(crate) fn derivative(&mut self, symbol: &str, spec: &Spec) -> FuncId {
        let id = self.module.derivative(self.func(symbol), spec).unwrap_or_else(|e| panic!("{e}"));
        self.door(id);
        id
    }

    pub(crate) fn pair(&mut self, symbol: &str, spec: &Spec) -> (FuncId, FuncId) {
        let (f, p) = self.module.pair(self.func(symbol), spec).unwrap_or_else(|e| panic!("{e}"));
        self.door(f);
        self.door(p);
        (f, p)
    }

    /// The same of a function of the module, such as a derivative.
    pub(crate) fn derivative_of(&mut self, f: FuncId, spec: &Spec) -> FuncId {
        let id = self.module.derivative(f, spec).unwrap_or_else(|e| panic!("{e}"));
        self.door(id);
        id
    }

    pub(crate) fn door(&mut self, id: FuncId) {
        if !self.doors.iter().any(|d| d.0 == id) {
            let door = entry(&mut *self.module, id).expect("it is callable");
            self.doors.push((id, door));
        }
    }

    pub(crate) fn finish(&mut self) {
        self.module.finalize_definitions().expect("it links");
    }

    /// Call a derivative with these arguments: all but the struct of results.
    pub(crate) fn call_with(&self, id: FuncId, args: &[DataValue]) -> Results {
        let mut args = args.iter().cloned();
        let results = self.call(id, |_| args.next().expect("as many as parameters"));
        assert!(args.next().is_none(), "as many as parameters");
        results
    }

    /// Call a derivative: a value for each parameter, but for the struct of results.
    pub(crate) fn call(&self, id: FuncId, mut value: impl FnMut(ParamRole) -> DataValue) -> Results {
        let s: &DerivedSignature = self.module.signature(id).expect("it is derived");
        let mut results = vec![0_u8; 1024];
        let mut abi_values = vec![AbiValue([0xee; 16]); s.params.len().max(s.results.len())];
        for (role, abi_value) in s.params.iter().zip(&mut abi_values) {
            let v = match role {
                ParamRole::Results => DataValue::I64(results.as_mut_ptr() as i64),
                role => value(*role),
            };
            v.write_to_slice_ne(&mut abi_value.0[..v.ty().bytes() as usize]);
        }
        let door = self.doors.iter().find(|d| d.0 == id).expect("it has a door").1;
        let code = self.module.get_finalized_function(door);
        // SAFETY: a function of one pointer, to ABI values for all parameters and results.
        let code: extern "C" fn(*mut AbiValue) = unsafe { std::mem::transmute(code) };
        code(abi_values.as_mut_ptr());
        let read = |k: usize| {
            let (ty, n) = (s.types[k], s.types[k].bytes() as usize);
            match &s.layout {
                Some(l) => DataValue::read_from_slice_ne(&results[l.offsets[k] as usize..][..n], ty),
                None => DataValue::read_from_slice_ne(&abi_values[k].0[..n], ty),
            }
        };
        (0..s.results.len()).map(|k| (s.results[k], read(k))).collect()
    }
}

/// A result as a number.
pub(crate) fn number(results: &Results, role: ResultRole) -> Option<f64> {
    let v = &results.iter().find(|r| r.0 == role)?.1;
    Some(match v {
        DataValue::F64(x) => x.as_f64(),
        DataValue::F32(x) => x.as_f32().into(),
        DataValue::I64(x) => *x as f64,
        DataValue::I32(x) => f64::from(*x),
        other => panic!("{other}"),
    })
}

pub(crate) fn double(x: f64) -> DataValue {
    DataValue::F64(x.into())
}

pub(crate) fn address<T>(at: &mut [T]) -> DataValue {
    DataValue::I64(at.as_mut_ptr() as i64)
}
