//! Symbols: what the external names of a function stand for.
//!
//! **Question.** CLIF has four kinds of external names. Which symbol is each?
//!
//! **Answer.** [`symbol_of`] gives it: `%name` is `name`, `u0:3` keeps that spelling, and a library
//! call is its C symbol ([`libcall_symbol`]). [`symbol_in`] is for those who only look.
//!
//! **Cost.** A string for each name; [`symbol_in`] borrows it where it is there already.

use std::borrow::Cow;

use cranelift_codegen::ir::{self, ExternalName};

/// The symbol that an external name of `func` stands for.
///
/// `%name` is `name`; `u0:3` keeps that spelling, since CLIF text has no other name for it; a
/// library call is its C symbol (`ceilf`, `memcpy`).
pub fn symbol_of(func: &ir::Function, name: &ExternalName) -> String {
    symbol_in(func, name).into_owned()
}

/// [`symbol_of`], for those who only look.
pub fn symbol_in<'a>(func: &ir::Function, name: &'a ExternalName) -> Cow<'a, str> {
    match name {
        ExternalName::User(r) => {
            let n = &func.params.user_named_funcs()[*r];
            format!("u{}:{}", n.namespace, n.index).into()
        }
        ExternalName::TestCase(t) => String::from_utf8_lossy(t.raw()),
        ExternalName::LibCall(l) => libcall_symbol(*l).into(),
        ExternalName::KnownSymbol(k) => k.to_string().into(),
    }
}

/// The C symbol of a Cranelift library call.
pub fn libcall_symbol(call: ir::LibCall) -> &'static str {
    use ir::LibCall::*;
    match call {
        Probestack => "__cranelift_probestack",
        CeilF32 => "ceilf",
        CeilF64 => "ceil",
        FloorF32 => "floorf",
        FloorF64 => "floor",
        TruncF32 => "truncf",
        TruncF64 => "trunc",
        NearestF32 => "nearbyintf",
        NearestF64 => "nearbyint",
        FmaF32 => "fmaf",
        FmaF64 => "fma",
        Memcpy => "memcpy",
        Memset => "memset",
        Memmove => "memmove",
        Memcmp => "memcmp",
        ElfTlsGetAddr => "__tls_get_addr",
        ElfTlsGetOffset => "__tls_get_offset",
        X86Pshufb => "__cranelift_x86_pshufb",
    }
}
