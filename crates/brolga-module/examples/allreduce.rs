//! A sum over threads in the middle of a function, and the gradient of that: the adjoint of a sum
//! over threads is a sum over threads.
//!
//! Each thread runs the same gradient with numbers of its own. Where the function adds up what all
//! of them have, the pullback adds up what all of them get back. With processes in place of
//! threads it would be `MPI_Allreduce`.
//!
//! ```text
//! cargo run -p brolga-module --example allreduce
//! ```

mod text;

use std::sync::{Barrier, Mutex};

use brolga_module::ParamActivity::{Const, Duplicated};
use brolga_module::{AdModule, ReturnActivity, Spec, UserRule};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::default_libcall_names;

/// The square of the sum of all threads' `w·x`.
const TEXT: &str = "function %loss(i64, f64, i64) -> f64 {
    ss0 = explicit_slot 8
    fn0 = %allreduce(i64, i64, i64)
block0(v0: i64, v1: f64, v2: i64):
    v3 = load.f64 v0
    v4 = fmul v3, v1
    v5 = stack_addr.i64 ss0
    store v4, v5
    v6 = iconst.i64 1
    call fn0(v5, v6, v2)
    v7 = load.f64 v5
    v8 = fmul v7, v7
    return v8
}";

/// Threads that add up numbers together.
pub(crate) struct Group {
    sums: Mutex<Vec<f64>>,
    barrier: Barrier,
}

impl Group {
    /// Of so many threads, for at most `n` numbers.
    pub(crate) fn new(threads: usize, n: usize) -> Self {
        Self { sums: Mutex::new(vec![0.0; n]), barrier: Barrier::new(threads) }
    }

    fn add_up(&self, x: &mut [f64]) {
        let sums = || self.sums.lock().expect("no thread panics");
        sums().iter_mut().zip(&*x).for_each(|(s, x)| *s += x);
        self.barrier.wait();
        x.copy_from_slice(&sums()[..x.len()]);
        // One clears, when all have read, and before any adds again.
        if self.barrier.wait().is_leader() {
            sums().fill(0.0);
        }
        self.barrier.wait();
    }
}

extern "C" fn allreduce(x: *mut f64, n: i64, group: *const Group) {
    if x.is_null() {
        return;
    }
    // SAFETY: the program passes as many numbers as it says, and its own group.
    let (x, group) = unsafe { (std::slice::from_raw_parts_mut(x, n as usize), &*group) };
    group.add_up(x);
}

/// The gradient of each thread's `w`, of the sum of all threads' losses.
pub(crate) fn gradients(w: &[f64], x: &[f64]) -> Result<Vec<(f64, f64)>, Box<dyn std::error::Error>> {
    let mut builder = JITBuilder::new(default_libcall_names())?;
    builder.symbols([("allreduce", allreduce as *const u8)]);
    let mut module = AdModule::new(JITModule::new(builder));
    let loss = text::define(&mut module, TEXT)?[0];
    // In place: the shadow holds the cotangents of the sums, and then those of the numbers.
    module.set_rule("allreduce", UserRule::parse("x, n, group => adjoint allreduce(dx, n, group)")?);
    let spec = Spec::gradient([Duplicated, Const, Const]).results([ReturnActivity::Active]);
    let id = module.derivative(loss, &spec)?;
    module.finalize_definitions()?;
    type Gradient = extern "C" fn(*const f64, *mut f64, f64, *const Group, f64) -> f64;
    // SAFETY: that is its signature.
    let code: Gradient = unsafe { std::mem::transmute(module.get_finalized_function(id)) };
    let group = Group::new(w.len(), 1);
    let group = &group;
    Ok(std::thread::scope(|s| {
        let run = |(w, x): (&f64, &f64)| {
            let (w, x) = (*w, *x);
            s.spawn(move || {
                let mut of_w = 0.0;
                let value = code(&w, &mut of_w, x, group, 1.0);
                (value, of_w)
            })
        };
        let threads: Vec<_> = w.iter().zip(x).map(run).collect();
        threads.into_iter().map(|t| t.join().expect("it does not panic")).collect()
    }))
}

#[cfg_attr(test, expect(dead_code, reason = "a test has no use for it"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    for (i, (value, gradient)) in gradients(&[0.5, -1.0, 2.0], &[1.0, 3.0, 0.25])?.into_iter().enumerate() {
        println!("thread {i}: value {value}, gradient {gradient}");
    }
    Ok(())
}
