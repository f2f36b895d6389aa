//! Native code beside WebAssembly: a C source, compiled by the host's C compiler and called through
//! a pointer.

use std::ffi::{CString, c_void};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::calls::Competitor;
use crate::wasm_arg::WasmArg;

/// The same function in native code.
pub struct NativeFunction {
    function: *mut c_void,
    ints: [i64; 9],
    floats: [f64; 5],
    memory: Vec<(Vec<u8>, Vec<u8>)>,
}

impl NativeFunction {
    /// Compile it; `None` without a C compiler.
    pub fn new(source: &Path, export: &str, args: &[WasmArg]) -> Option<Self> {
        let library = std::env::temp_dir().join(format!("brolga-{}-{}.so", export, std::process::id()));
        let flags = ["-O2", "-fno-math-errno", "-ffp-contract=off", "-shared", "-fPIC", "-w", "-o"];
        let done = Command::new("cc").args(flags).arg(&library).arg(source).arg("-lm").status().ok()?;
        let path = CString::new(library.to_string_lossy().into_owned()).ok()?;
        let name = CString::new(export).ok()?;
        // SAFETY: both are strings; the library has no code that runs when it is loaded, and is
        // never closed.
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
        for arg in args {
            let bytes: Vec<u8> = match arg {
                WasmArg::Int(n) => {
                    *ints.next()? = i64::from(*n);
                    continue;
                }
                WasmArg::Float(x) => {
                    *floats.next()? = *x;
                    continue;
                }
                WasmArg::Floats(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
                WasmArg::Written(x) => vec![0; 8 * x.len()],
                WasmArg::Ints(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
                WasmArg::Bytes(x) => x.clone(),
            };
            this.memory.push((bytes.clone(), bytes));
            *ints.next()? = this.memory.last()?.0.as_ptr() as i64;
        }
        Some(this)
    }
}

impl Competitor for NativeFunction {
    fn run(&mut self) -> (Duration, f64) {
        for (now, first) in &mut self.memory {
            now.copy_from_slice(first);
        }
        let (i, f) = (self.ints, self.floats);
        type Any = extern "C" fn(i64, i64, i64, i64, i64, i64, f64, f64, f64, f64, f64, i64, i64, i64) -> f64;
        // SAFETY: integers and floats travel in registers of their own, in order, on x86-64 and
        // aarch64 alike, integers beyond the sixth on the stack of x86-64 in order; what a function
        // does not take does not matter to it. A function that returns nothing leaves some number
        // after, which is not read.
        let function = unsafe { std::mem::transmute::<*mut c_void, Any>(self.function) };
        let start = Instant::now();
        let value = function(i[0], i[1], i[2], i[3], i[4], i[5], f[0], f[1], f[2], f[3], f[4], i[6], i[7], i[8]);
        (start.elapsed(), value)
    }
}
