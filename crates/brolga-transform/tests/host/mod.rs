//! What tests share.

use cranelift_codegen::isa::{OwnedTargetIsa, lookup_by_name};
use cranelift_codegen::settings::{self, Flags};

/// A target that is built in.
pub(crate) fn isa() -> OwnedTargetIsa {
    built_in("")
}

/// The same, with an operating system that can put a fence after a tape.
pub(crate) fn with_fences() -> OwnedTargetIsa {
    built_in("-unknown-linux-gnu")
}

fn built_in(system: &str) -> OwnedTargetIsa {
    let isa = ["x86_64", "aarch64"].into_iter().find_map(|machine| lookup_by_name(&format!("{machine}{system}")).ok());
    isa.unwrap().finish(Flags::new(settings::builder())).unwrap()
}
