//! The programs of `ir-tests/wasm` as problems: C, compiled to WebAssembly by clang, at sizes
//! between ten microseconds and twenty milliseconds a call.
//!
//! Beside them runs the same source as native code, compiled by `cc -O2` without fused
//! multiply-add, if there is a C compiler; both must give the same number. Some have an adjoint
//! written by hand ([`ByHand`]), which must give the same gradient.

use std::path::{Path, PathBuf};

use brolga::ArgSpec;
use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir::types;
use brolga_driver::text::ElemType;
use brolga_driver::value::{Num, is_float, to_data};
use brolga_driver::{BoundArg, File, Invocation};

use crate::by_hand::ByHand;
use crate::calls::{self, CallRow, Competitor};
use crate::disasm;
use crate::measure::Effort;
use crate::native::NativeFunction;
use crate::{Configuration, Failure};

pub use crate::wasm_arg::WasmArg;
use WasmArg::{Bytes, Float, Floats, Int, Ints, Written};

/// A program and a call of it.
#[derive(Clone, Debug)]
pub struct WasmProblem {
    /// Name of the program, of its module and its source.
    pub program: &'static str,
    /// The function that is called.
    pub export: &'static str,
    /// The arguments.
    pub args: Vec<WasmArg>,
}

/// A collection of small programs.
const KERNELS: &str = "kernels";

/// Where the programs are.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../ir-tests/wasm"))
}

impl WasmProblem {
    /// How it is called in lists: as the program, and as the function if the program is a
    /// collection.
    pub fn name(&self) -> String {
        match self.program {
            KERNELS => format!("wasm/{KERNELS}/{}", self.export),
            program => format!("wasm/{program}"),
        }
    }

    /// The module, compiled at a level of optimisation that is a folder there, and the call.
    ///
    /// # Errors
    /// [`Failure::Call`] if the module cannot be read.
    pub fn call(&self, folder: &str) -> Result<(File, Invocation), Failure> {
        let path = root().join(folder).join(format!("{}.wasm", self.program));
        let failed = |message: String| Failure::Call { name: self.name(), message };
        let file = File::read(&path).map_err(|e| failed(e.to_string()))?;
        let wasm = file.wasm.clone().ok_or_else(|| failed("it is no module".to_owned()))?;
        let (func, _) = wasm.module.function(self.export).map_err(|e| failed(e.to_string()))?;
        let signature = &file.program.funcs[func].signature;
        let buffer = |elem, data: Vec<u8>| BoundArg::Buffer { elem, shadow: vec![0; data.len()], data };
        let bytes = |x: &[f64]| x.iter().flat_map(|x| x.to_le_bytes()).collect();
        let args = self.args.iter().map(|a| match a {
            Int(n) => BoundArg::Value(DataValue::I32(*n)),
            Float(x) => BoundArg::Value(DataValue::F64((*x).into())),
            Floats(x) => buffer(ElemType::F64, bytes(x)),
            Written(x) => BoundArg::Buffer { elem: ElemType::F64, data: vec![0; 8 * x.len()], shadow: bytes(x) },
            Ints(x) => buffer(ElemType::Int(32), x.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Bytes(x) => buffer(ElemType::Int(8), x.clone()),
        });
        let args: Vec<BoundArg> = args.collect();
        // Buffers are apart, as in the problems, and as an adjoint by hand relies on. That adjoint
        // does not write what has no use, either.
        let specs = self.args.iter().map(|a| match a {
            Float(_) => ArgSpec::ACTIVE,
            Floats(_) => ArgSpec::DUPLICATED.noalias(),
            Written(_) => ArgSpec::DUPLICATED.noalias().no_need(),
            Int(_) => ArgSpec::CONST,
            Ints(_) | Bytes(_) => ArgSpec::CONST.noalias(),
        });
        let returns: Vec<_> = signature.returns.iter().map(|r| r.value_type).collect();
        let seed = |t| to_data(t, |_| if is_float(t) { Num::F64(1.0) } else { Num::Int(0) });
        let call = Invocation {
            func,
            symbol: self.export.to_owned(),
            params: signature.params[1..].iter().map(|p| p.value_type).collect(),
            seeds: returns.iter().map(|t| seed(*t).unwrap_or(DataValue::I32(0))).collect(),
            returns,
            specs: specs.collect(),
            args,
            memory: brolga::MemoryMode::Leave,
            wasm: Some(wasm),
            words: vec![],
            mixed: vec![],
        };
        debug_assert!(call.params.iter().all(|t| [types::I32, types::F64].contains(t)));
        Ok((file, call))
    }

    /// Measure it beside native code and the adjoint written by hand.
    ///
    /// # Errors
    /// [`Failure::Call`].
    pub fn measure(&self, how: Configuration, effort: Effort) -> Result<CallRow, Failure> {
        let (file, call) = self.call("O2")?;
        let source: &Path = &root().join(format!("src/{}.c", self.program));
        let mut native = NativeFunction::new(source, self.export, &self.args);
        let beside = native.as_mut().map(|n| n as &mut dyn Competitor);
        let mut hand = ByHand::of(&root(), self.program, &call)?;
        calls::measure(&self.name(), &file.program, &call, beside, hand.as_mut(), how, effort)
    }

    /// Machine code of the program, of what is derived, and of the adjoint written by hand.
    ///
    /// # Errors
    /// [`Failure::Call`].
    pub fn machine_code(&self, how: Configuration) -> Result<String, Failure> {
        let (file, call) = self.call("O2")?;
        let failed = |e: brolga::Error| Failure::Call { name: self.name(), message: e.to_string() };
        let code = disasm::of_call(&file.program, &call, how).map_err(failed)?;
        let by_hand = ByHand::read(&root(), self.program, &call)?;
        let by_hand = by_hand.map(|(file, call)| disasm::of_hand(&file.program, call.func, how)).transpose();
        Ok(code + &by_hand.map_err(failed)?.unwrap_or_default())
    }
}

/// `n` numbers between two, the same in every run.
pub(crate) fn noise(seed: u32, n: usize, low: f64, high: f64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        low + (high - low) * f64::from(state >> 8) / f64::from(1 << 24)
    };
    (0..n).map(|_| next()).collect()
}

/// The five-point stencil on a square of `n` by `n` nodes, in compressed rows.
fn laplace(n: i32) -> (Vec<i32>, Vec<i32>, Vec<f64>) {
    let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
        for (k, l, v) in [(i - 1, j, -1.0), (i, j - 1, -1.0), (i, j, 4.1), (i, j + 1, -1.0), (i + 1, j, -1.0)] {
            if (0..n).contains(&k) && (0..n).contains(&l) {
                columns.push(k * n + l);
                values.push(v);
            }
        }
        starts.push(columns.len() as i32);
    }
    (starts, columns, values)
}

/// Those of the collection, each for something that the time of a gradient may depend on: pairs of
/// accesses that are apart, a long iteration, columns of a matrix, a recursion whose value is
/// needed.
fn kernels() -> Vec<WasmProblem> {
    let p = |export, args| WasmProblem { program: KERNELS, export, args };
    let side = |seed| Floats(noise(seed, 101, -1.0, 1.0));
    let poses: Vec<f64> = (0..200)
        .flat_map(|c| {
            let mut all = noise(100 + c, 4, 0.2, 1.0);
            all.extend(noise(300 + c, 2, -1.0, 1.0));
            all.extend([6.0, 50.0, 52.0, 0.05, -0.01, 0.001, 0.002, 3.0, -2.0]);
            all
        })
        .collect();
    let (points, seen) = (noise(5, 600, -1.0, 1.0), noise(6, 400, -20.0, 20.0));
    let matrix = |seed| Floats(noise(seed, 64 * 64, -1.0, 1.0));
    vec![
        p("outer", vec![Int(101), side(1), side(2), side(3), side(4), Written(vec![0.0; 101 * 101])]),
        p("camera", vec![Int(200), Floats(poses), Floats(points), Floats(seen)]),
        p("columns", vec![Int(64), matrix(7), matrix(8)]),
        p("halving", vec![Int(4096), Floats(noise(9, 4096, -1.0, 1.0))]),
    ]
}

/// All of them.
pub fn problems() -> Vec<WasmProblem> {
    let (d, k, n) = (10, 25, 1000);
    let p = |program, export, args| WasmProblem { program, export, args };
    let cameras: Vec<f64> = (0..20)
        .flat_map(|c| {
            let mut all = noise(100 + c, 3, -0.5, 0.5);
            all.extend(noise(200 + c, 2, -1.0, 1.0));
            all.extend([-6.0, 500.0, 3.0, -2.0, 0.05, -0.01]);
            all
        })
        .collect();
    let seen = noise(5, 10_000, 0.0, 1.0);
    let observed = seen.chunks_exact(2).flat_map(|c| [(c[0] * 20.0) as i32, (c[1] * 1000.0) as i32]).collect();
    let (starts, columns, values) = laplace(32);
    let bodies: Vec<f64> = (0..10).map(f64::from).flat_map(|i| [3.0 * i, (3.0 * i).sin(), 0.1 * i]).collect();
    let power = [1, 0, 3, 2, 2, 1, 3, 3, 2, 2, 2, 0, 6, 3, 2, 2, 3, 1, 0, 5, 9, 3, 3, 16, 8, 2, 2, 0];
    let weights = 3 * 65 * 64 - 54 * 65;
    let mut all = vec![
        p(
            "gmm",
            "gmm_objective",
            vec![
                Int(d),
                Int(k),
                Int(n),
                Floats(noise(1, k as usize, -1.0, 1.0)),
                Floats(noise(2, (k * d) as usize, -1.0, 1.0)),
                Floats(noise(3, (k * d * (d + 1) / 2) as usize, -0.7, 0.7)),
                Floats(noise(4, (n * d) as usize, -2.0, 2.0)),
                Float(1.0),
                Int(0),
            ],
        ),
        p(
            "ba",
            "ba_residuals",
            vec![
                Int(5000),
                Floats(cameras),
                Floats(noise(6, 3000, -1.0, 1.0)),
                Floats(noise(7, 5000, 0.5, 1.0)),
                Ints(observed),
                Floats(noise(8, 10_000, 0.0, 100.0)),
                Written(noise(9, 10_000, -1.0, 1.0)),
                Written(noise(10, 5000, -1.0, 1.0)),
            ],
        ),
        p(
            "lstm",
            "lstm_objective",
            vec![
                Int(2),
                Int(1024),
                Int(14),
                Floats(noise(1, 224, -1.0, 1.0)),
                Floats(noise(2, 42, -1.0, 1.0)),
                Floats(noise(3, 56, -1.0, 1.0)),
                Floats(noise(4, 1024 * 14, 0.0, 1.0)),
            ],
        ),
        p("hand", "hand_loss", vec![Floats(noise(3, 26, -0.6, 0.6)), Int(544), Int(100), Int(42)]),
        p(
            "fft",
            "filter_loss",
            vec![
                Int(256),
                Floats(noise(1, 256, -1.0, 1.0)),
                Floats(noise(2, 256, 0.0, 1.0)),
                Floats(noise(3, 256, -1.0, 1.0)),
            ],
        ),
        p(
            "cg",
            "cg_loss",
            vec![
                Int(1024),
                Ints(starts),
                Ints(columns),
                Floats(values),
                Floats(noise(1, 1024, -1.0, 1.0)),
                Floats(noise(2, 1024, -1.0, 1.0)),
                Float(1e-8),
                Int(1000),
            ],
        ),
        p("order", "trimmed_mean", vec![Int(10_000), Floats(noise(1, 10_000, -1.0, 1.0)), Int(1000)]),
        p(
            "nbody",
            "nbody_loss",
            vec![
                Int(10),
                Floats(bodies),
                Floats(noise(1, 30, -0.1, 0.1)),
                Floats(noise(2, 10, 0.1, 1.0)),
                Float(1.0),
                Float(0.001),
                Int(1000),
            ],
        ),
        p(
            "heat",
            "heat_loss",
            vec![
                Int(64),
                Int(64),
                Int(100),
                Float(0.1),
                Floats(noise(1, 4096, -1.0, 1.0)),
                Floats(noise(2, 4096, 0.5, 1.5)),
                Floats(noise(3, 4096, -1.0, 1.0)),
            ],
        ),
        p("machine", "run", vec![Bytes(power.to_vec()), Floats(vec![1.0]), Floats(vec![1.0001, 9999.5]), Int(2)]),
        p("quadrature", "quadrature", vec![Int(1), Float(0.0), Float(3.0), Float(0.5), Float(4.0), Float(1e-11)]),
        p(
            "layers",
            "network_loss",
            vec![
                Int(3),
                Ints(vec![64, 64, 64, 10]),
                Ints(vec![3, 2, 0]),
                Floats(noise(1, weights, -0.3, 0.3)),
                Floats(noise(2, 64, -1.0, 1.0)),
                Floats(noise(3, 10, -1.0, 1.0)),
            ],
        ),
    ];
    all.extend(kernels());
    all
}
