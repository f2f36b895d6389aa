//! The host as Cranelift compiles for it: fast code, plain code, or code that is there soon.
//!
//! **Question.** With which flags is code compiled for this machine?
//!
//! **Answer.** [`host_isa`] goes by the effort that is asked for: with Cranelift's mid-end, or with
//! registers given out in a single pass. [`plain_isa`] is without the mid-end, for what it would do
//! no good. Other flags are what derived code needs, whatever the effort.
//!
//! **Errors.** An internal error if Cranelift does not know the host.
//!
//! **Cost.** The processor is asked once for each of the three. After that, a reference.

use std::sync::OnceLock;

use brolga_ir::{Effort, Options};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};

use crate::Error;

/// How Cranelift compiles.
#[derive(Clone, Copy)]
enum Tuning {
    /// With its mid-end.
    Speed,
    /// Without.
    Plain,
    /// And with registers given out in a single pass, which takes a third of the time that is left.
    Quick,
}

/// The host, with the flags that derived code needs.
///
/// ```
/// let isa = brolga::jit::host_isa(&brolga::Options::default())?;
/// assert_eq!(isa.pointer_bytes(), 8);
/// # Ok::<(), brolga::Error>(())
/// ```
pub fn host_isa(options: &Options) -> Result<OwnedTargetIsa, Error> {
    tuned(match options.effort {
        Effort::Quick => Tuning::Quick,
        Effort::Full | Effort::Tiered(_) => Tuning::Speed,
    })
}

/// The host, for code that is compiled as plainly as can be.
pub fn plain_isa() -> Result<OwnedTargetIsa, Error> {
    tuned(Tuning::Plain)
}

/// The host, for code that takes long to compile.
pub(super) fn quick_isa() -> Result<OwnedTargetIsa, Error> {
    tuned(Tuning::Quick)
}

fn tuned(tuning: Tuning) -> Result<OwnedTargetIsa, Error> {
    // To ask the processor what it can do takes as long as to compile a few instructions.
    static HOST: [OnceLock<OwnedTargetIsa>; 3] = [OnceLock::new(), OnceLock::new(), OnceLock::new()];
    let host = &HOST[tuning as usize];
    if let Some(isa) = host.get() {
        return Ok(isa.clone());
    }
    let isa = make_isa(tuning)?;
    Ok(host.get_or_init(|| isa).clone())
}

fn make_isa(tuning: Tuning) -> Result<OwnedTargetIsa, Error> {
    let internal = |message: String| Error::Internal { stage: "host", message };
    let mut flags = settings::builder();
    for (name, value) in [
        ("opt_level", if matches!(tuning, Tuning::Speed) { "speed" } else { "none" }),
        ("regalloc_algorithm", if matches!(tuning, Tuning::Quick) { "single_pass" } else { "backtracking" }),
        ("is_pic", "false"),
        ("use_colocated_libcalls", "false"),
        // Derived functions return as many values as they have cotangents.
        ("enable_multi_ret_implicit_sret", "true"),
        // 128-bit integers as arguments.
        ("enable_llvm_abi_extensions", "true"),
        // Large frames must touch the guard page, so that an overflow is found.
        ("enable_probestack", "true"),
        ("probestack_strategy", "inline"),
        // Tail calls of the primal rely on them.
        ("preserve_frame_pointers", "true"),
        // Every emitted function has been verified when it was emitted.
        ("enable_verifier", "false"),
    ] {
        flags.set(name, value).map_err(|e| internal(e.to_string()))?;
    }
    let builder = cranelift_native::builder().map_err(|e| internal(e.to_owned()))?;
    builder.finish(settings::Flags::new(flags)).map_err(|e| internal(e.to_string()))
}
