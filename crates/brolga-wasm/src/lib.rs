//! Gradients of WebAssembly functions.
//!
//! Every language that compiles to WebAssembly gets gradients without being changed: a module is
//! translated to CLIF ([`Module`]), an exported function of it is differentiated ([`Gradient`]),
//! and both run on an [`Instance`], whose linear memory, globals and tables have a shadow of the
//! same layout. There a float's cotangent lies where the float lies, so pointers need not be
//! understood: whatever a program keeps in its memory, by whatever `malloc`, is where its gradient
//! is.
//!
//! ```
//! use brolga_wasm::{Gradient, Instance, Module, Val};
//!
//! # fn main() -> Result<(), brolga_wasm::Error> {
//! // The sum of squares of n numbers.
//! let module = Module::new(r#"(module (memory (export "memory") 1)
//!     (func (export "loss") (param $x i32) (param $n i32) (result f64) (local $s f64)
//!         (loop $next
//!             (local.set $s (f64.add (local.get $s)
//!                 (f64.mul (f64.load (local.get $x)) (f64.load (local.get $x)))))
//!             (local.set $x (i32.add (local.get $x) (i32.const 8)))
//!             (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
//!         (local.get $s)))"#)?;
//! let gradient = Gradient::new(&module, "loss")?;
//!
//! let mut instance = Instance::new(&module)?;
//! let x = instance.alloc_f64(&[1.0, 2.0, 3.0])?;
//! let args = [Val::I32(x as i32), Val::I32(3)];
//! let found = instance.gradient(&gradient, &args, &[Val::F64(1.0)])?;
//! assert_eq!(found.values, [Val::F64(14.0)]);
//! assert_eq!(instance.shadow_f64(x, 3)?, [2.0, 4.0, 6.0]);
//! # Ok(())
//! # }
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `parse` | sections as tables, validated |
//! | `layout` | where everything of an instance lies |
//! | `translate/` | functions as CLIF |
//! | `imports/`, `host` | what imports become, and what the host does for them |
//! | `mathlib`, `clib`, `wrapped` | functions of the C library that were compiled into a module, by their names |
//! | `unnamed` | the same by what they compute |
//! | `load` | all of it, in order |
//! | `module`, `instance`, `buffers`, `floats`, `region`, `gradient`, `batch`, `second`, `point` | what users hold |

mod allocators;
mod around;
mod batch;
mod binary128;
mod buffers;
mod clib;
mod complexes;
mod error;
mod floats;
mod forked;
mod gradient;
mod host;
mod imports;
mod instance;
mod layout;
mod load;
mod mathlib;
mod module;
mod parse;
mod parts;
mod point;
mod provided;
mod quads;
mod region;
mod remquo;
mod second;
mod serial;
mod translate;
mod unnamed;
mod val;
mod wrapped;

pub use allocators::Allocators;
pub use brolga;
pub use error::Error;
pub use gradient::{Evaluation, Gradient, Pullback, Tangents, default_activity, options};
pub use host::Output;
pub use imports::Imports;
pub use instance::{Instance, InstanceOptions};
pub use module::{Module, ModuleOptions};
pub use point::{Point, Range};
pub use second::{Hessian, Product};
pub use translate::env::Bounds;
pub use val::Val;
pub use wasmparser::{FuncType, ValType};

use brolga::cranelift_codegen::isa::OwnedTargetIsa;

/// The host's compiler, for signatures and the verifier.
fn host_isa() -> Result<OwnedTargetIsa, Error> {
    static ISA: std::sync::OnceLock<Option<OwnedTargetIsa>> = std::sync::OnceLock::new();
    let isa = ISA.get_or_init(|| brolga::jit::host_isa(&brolga::Options::default()).ok()).clone();
    isa.ok_or(Error::Internal { stage: "host", message: "this machine is not supported".to_owned() })
}

/// The programs of docs/WASM.md, as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/WASM.md")]
pub struct Walkthrough;

/// The program of the README, as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct CrateReadme;
