//! Target: what code is made for.
//!
//! **Question.** Which machine, with which flags of Cranelift?
//!
//! **Answer.** [`isa()`] reads the triple, or takes the host's architecture as it is at least, and
//! sets flags: those that derivatives need first, then those of the command line, each of all
//! targets or of this one.
//!
//! **Errors.** A target without 64-bit addresses, one that this build makes no code for, a flag
//! that is unknown, and RISC-V without vectors, which derivatives use.
//!
//! **Cost.** None at run time.

use brolga_module::cranelift_codegen::isa::{self, LookupError, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable, Flags, SetError};
use target_lexicon::{Architecture, PointerWidth, Triple};

use crate::failure::Failure;

/// The target of this triple, or the host's architecture as it is at least, with these flags of
/// Cranelift.
pub(super) fn isa(triple: Option<&str>, pic: bool, flags: &[(String, String)]) -> Result<OwnedTargetIsa, Failure> {
    let triple = match triple {
        Some(text) => text.parse().map_err(|e| Failure::Usage(format!("`{text}` is no target: {e}")))?,
        None => Triple::host(),
    };
    if triple.pointer_width() != Ok(PointerWidth::U64) {
        return Err(Failure::Usage(format!("{triple} is no 64-bit target; derivatives have addresses of 64 bits")));
    }
    let mut builder = isa::lookup(triple.clone()).map_err(|e| {
        Failure::Usage(match e {
            LookupError::SupportDisabled => format!(
                "this `brolga` makes code for the host's architecture only; for {triple} build it with \
             `cargo install --locked --path crates/brolga-cli --features all-arch`"
            ),
            LookupError::Unsupported => format!("Cranelift makes no code for {triple}"),
        })
    })?;
    let mut shared = settings::builder();
    // Large frames touch their pages themselves: no library has `__cranelift_probestack`. Functions
    // of the file may have more results than registers hold.
    let ours = [
        ("is_pic", if pic { "true" } else { "false" }),
        ("opt_level", "speed"),
        ("probestack_strategy", "inline"),
        ("enable_multi_ret_implicit_sret", "true"),
        ("enable_llvm_abi_extensions", "true"),
    ];
    for (name, value) in ours {
        shared.set(name, value).expect("Cranelift has this flag");
    }
    for (name, value) in flags {
        let found = match shared.set(name, value) {
            Err(SetError::BadName(_)) => builder.set(name, value),
            other => other,
        };
        found.map_err(|e| {
            Failure::Usage(match e {
                SetError::BadName(_) => {
                    format!("Cranelift has no flag `{name}`, neither of all targets nor of {triple}")
                }
                e => format!("`--set {name}={value}`: {e}"),
            })
        })?;
    }
    let isa = builder.finish(Flags::new(shared)).map_err(|e| Failure::Usage(format!("{triple}: {e}")))?;
    // Guards of products are operations on vectors.
    let has_v = isa.isa_flags().iter().any(|f| f.name == "has_v" && f.as_bool() == Some(true));
    if matches!(triple.architecture, Architecture::Riscv64(_)) && !has_v {
        return Err(Failure::Usage(format!("derivatives use vectors, which {triple} has with `--set has_v=true`")));
    }
    Ok(isa)
}
