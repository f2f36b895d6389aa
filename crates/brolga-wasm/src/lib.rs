//! Gradients of WebAssembly functions.
//!
//! **Question.** A program is in a language whose compiler has no derivatives. How does it get a
//! gradient without being changed?
//!
//! **Answer.** Every language that compiles to WebAssembly does: a module is translated to CLIF
//! ([`Module`]), an exported function of it is differentiated ([`Gradient`]), and both run on an
//! [`Instance`], whose linear memory, globals and tables have a shadow of the same layout. There a
//! float's cotangent lies where the float lies, so pointers need not be understood: whatever a
//! program keeps in its memory, by whatever `malloc`, is where its gradient is.
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
//! | module | what it does |
//! |---|---|
//! | `parse` | sections as tables, validated |
//! | `layout` | where everything of an instance lies |
//! | `function/` | one function as CLIF |
//! | `host/` | what the host does for a module, and the address space that an instance lies in |
//! | `provided`, `imports/` | what imports stand for |
//! | `translate/` | all functions as CLIF, with helpers, forks, time loops |
//! | `library/` | functions of the C library that were compiled into a module |
//! | `load/` | all of it, in order |
//! | `forked` | the imports of a module that forks |
//! | `val`, `error` | what is passed, and what fails |
//! | `module/`, `gradient`, `instance/`, `products/` | what users hold |
//!
//! **Cost.** Translation and compilation once for a module and once for each derivative; address
//! space for a shadow as large as the memory of each instance.

mod error;
mod forked;
mod function;
mod gradient;
mod host;
mod imports;
mod instance;
mod layout;
mod library;
mod load;
mod module;
mod parse;
mod products;
mod provided;
mod translate;
mod val;

pub use brolga;
pub use error::Error;
pub use function::env::Bounds;
pub use gradient::{Evaluation, Gradient, Pullback, Tangents, default_activity, options};
pub use host::Output;
pub use imports::Imports;
pub use instance::{Instance, InstanceOptions};
pub use module::allocators::Allocators;
pub use module::{Module, ModuleOptions};
pub use products::point::{Point, Range};
pub use products::second::{Hessian, Product};
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
