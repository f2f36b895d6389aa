//! What tests share.

use cranelift_codegen::isa::{OwnedTargetIsa, lookup_by_name};
use cranelift_codegen::settings::{self, Flags};

/// A target that is built in.
pub fn isa() -> OwnedTargetIsa {
    let isa = lookup_by_name("x86_64").or(lookup_by_name("aarch64"));
    isa.unwrap().finish(Flags::new(settings::builder())).unwrap()
}
