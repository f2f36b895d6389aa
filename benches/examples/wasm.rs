//! What gradients of the programs in `ir-tests/wasm` cost, and what the programs themselves cost compared with native code.
//!
//! `cargo run -p benches --example wasm [FOLDER]` measures the modules of `O2` (or another folder) at sizes between ten
//! microseconds and twenty milliseconds a call. The native column is the same C source, compiled by `cc -O2` without fused
//! multiply-add, if there is a C compiler; both must give the same number. Rounds are interleaved; times are minima.

use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use brolga_wasm::{Gradient, Instance, Module, Val};

/// An argument of an export.
enum Arg {
    Int(i32),
    Float(f64),
    Floats(Vec<f64>),
    Ints(Vec<i32>),
    Bytes(Vec<u8>),
}

use Arg::{Bytes, Float, Floats, Int, Ints};

struct Problem {
    program: &'static str,
    export: &'static str,
    args: Vec<Arg>,
}

/// `n` numbers between two, the same in every run.
fn noise(seed: u32, n: usize, low: f64, high: f64) -> Vec<f64> {
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

fn problems() -> Vec<Problem> {
    let (d, k, n) = (10, 25, 1000);
    let p = |program, export, args| Problem { program, export, args };
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
    vec![
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
                Floats(vec![0.0; 10_000]),
                Floats(vec![0.0; 5000]),
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
    ]
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A problem in the memory of an instance.
struct Placed {
    instance: Instance,
    gradient: Gradient,
    export: &'static str,
    args: Vec<Val>,
    /// Buffers of floats: address and contents, to be put back before a call.
    buffers: Vec<(u32, Vec<f64>)>,
    seeds: Vec<Val>,
    tape_bytes: usize,
}

impl Placed {
    fn new(path: &Path, problem: &Problem) -> Result<Self> {
        let module = Module::new(std::fs::read(path)?)?;
        let gradient = Gradient::new(&module, problem.export)?;
        let mut instance = Instance::new(&module)?;
        let (mut args, mut buffers) = (Vec::new(), Vec::new());
        for arg in &problem.args {
            let bytes: Vec<u8> = match arg {
                Int(n) => {
                    args.push(Val::I32(*n));
                    continue;
                }
                Float(x) => {
                    args.push(Val::F64(*x));
                    continue;
                }
                Floats(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
                Ints(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
                Bytes(x) => x.clone(),
            };
            let at = instance.alloc(bytes.len() as u32)?;
            instance.memory_mut()[at as usize..][..bytes.len()].copy_from_slice(&bytes);
            args.push(Val::I32(at as i32));
            if let Floats(x) = arg {
                buffers.push((at, x.clone()));
            }
        }
        let seeds = gradient.ty().results().iter().map(|_| Val::F64(1.0)).collect();
        Ok(Self { instance, gradient, export: problem.export, args, buffers, seeds, tape_bytes: 0 })
    }

    fn reset(&mut self) -> Result<()> {
        for (at, x) in &self.buffers {
            self.instance.write_f64(*at, x)?;
        }
        Ok(())
    }

    fn primal(&mut self) -> Result<(Duration, Option<f64>)> {
        self.reset()?;
        let start = Instant::now();
        let value = self.instance.call(self.export, &self.args)?;
        Ok((start.elapsed(), value.first().and_then(|v| v.f64())))
    }

    fn derivative(&mut self) -> Result<Duration> {
        self.reset()?;
        let start = Instant::now();
        let (_, mut pullback) = self.instance.forward(&self.gradient, &self.args)?;
        self.tape_bytes = pullback.tape_bytes();
        self.instance.pullback(&mut pullback, &self.seeds)?;
        Ok(start.elapsed())
    }
}

/// The same function in native code.
struct Native {
    function: *mut c_void,
    ints: [i64; 9],
    floats: [f64; 5],
    memory: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Native {
    /// `None` without a C compiler.
    fn new(source: &Path, problem: &Problem) -> Option<Self> {
        let library = std::env::temp_dir().join(format!("brolga-{}-{}.so", problem.program, std::process::id()));
        let flags = ["-O2", "-fno-math-errno", "-ffp-contract=off", "-shared", "-fPIC", "-w", "-o"];
        let done = Command::new("cc").args(flags).arg(&library).arg(source).arg("-lm").status().ok()?;
        let path = CString::new(library.to_string_lossy().into_owned()).ok()?;
        let name = CString::new(problem.export).ok()?;
        // SAFETY: both are strings; the library has no code that runs when it is loaded, and is never closed.
        let function = unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            if handle.is_null() { std::ptr::null_mut() } else { libc::dlsym(handle, name.as_ptr()) }
        };
        let _ = std::fs::remove_file(&library);
        if !done.success() || function.is_null() {
            return None;
        }
        let mut this = Self { function, ints: [0; 9], floats: [0.0; 5], memory: Vec::new() };
        let (mut ints, mut floats) = (this.ints.iter_mut(), this.floats.iter_mut());
        for arg in &problem.args {
            let bytes: Vec<u8> = match arg {
                Int(n) => {
                    *ints.next()? = i64::from(*n);
                    continue;
                }
                Float(x) => {
                    *floats.next()? = *x;
                    continue;
                }
                Floats(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
                Ints(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
                Bytes(x) => x.clone(),
            };
            this.memory.push((bytes.clone(), bytes));
            *ints.next()? = this.memory.last()?.0.as_ptr() as i64;
        }
        Some(this)
    }

    fn call(&mut self) -> (Duration, f64) {
        for (now, first) in &mut self.memory {
            now.copy_from_slice(first);
        }
        let (i, f) = (self.ints, self.floats);
        type Any = extern "C" fn(i64, i64, i64, i64, i64, i64, f64, f64, f64, f64, f64, i64, i64, i64) -> f64;
        // SAFETY: integers and floats travel in registers of their own, in order, on x86-64 and aarch64 alike, integers beyond
        // the sixth on the stack of x86-64 in order; what a function does not take does not matter to it. A function that
        // returns nothing leaves some number behind, which nobody looks at.
        let function = unsafe { std::mem::transmute::<*mut c_void, Any>(self.function) };
        let start = Instant::now();
        let value = function(i[0], i[1], i[2], i[3], i[4], i[5], f[0], f[1], f[2], f[3], f[4], i[6], i[7], i[8]);
        (start.elapsed(), value)
    }
}

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "O2".to_owned());
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../ir-tests/wasm"));
    println!(
        "{:11} {:>11} {:>11} {:>7} {:>12} {:>7} {:>11}",
        "", "native us", "primal us", "ratio", "gradient us", "ratio", "tape bytes"
    );
    for problem in problems() {
        let mut wasm = Placed::new(&root.join(&folder).join(format!("{}.wasm", problem.program)), &problem)?;
        let mut native = Native::new(&root.join(format!("src/{}.c", problem.program)), &problem);
        let [mut best_native, mut best_primal, mut best_gradient] = [Duration::MAX; 3];
        let start = Instant::now();
        let mut rounds = 0;
        while rounds < 5 || start.elapsed() < Duration::from_secs(2) {
            let (time, value) = wasm.primal()?;
            best_primal = best_primal.min(time);
            best_gradient = best_gradient.min(wasm.derivative()?);
            if let Some(native) = &mut native {
                let (time, native) = native.call();
                best_native = best_native.min(time);
                if let Some(value) = value
                    && (value - native).abs() > 1e-9 * (1.0 + value.abs())
                {
                    return Err(format!("{}: {value} as WebAssembly, {native} natively", problem.program).into());
                }
            }
            rounds += 1;
        }
        let us = |d: Duration| d.as_nanos() as f64 / 1000.0;
        let known = native.is_some();
        println!(
            "{:11} {:>11} {:>11.1} {:>7} {:>12.1} {:>7.2} {:>11}",
            problem.program,
            if known { format!("{:.1}", us(best_native)) } else { "-".to_owned() },
            us(best_primal),
            if known { format!("{:.2}", us(best_primal) / us(best_native)) } else { "-".to_owned() },
            us(best_gradient),
            us(best_gradient) / us(best_primal),
            wasm.tape_bytes,
        );
    }
    Ok(())
}
