//! Rust declarations: the functions of an object as an `unsafe extern` block.
//!
//! **Question.** How does a program in Rust call the functions of the object?
//!
//! **Answer.** [`declarations`] writes a module: constants for workspaces and instances, a
//! `repr(C)` struct for results that go through memory, and a declaration for each function, with
//! what each parameter is as its documentation.
//!
//! There are no safe wrappers: how far a function reads behind a pointer is not known, so no slice
//! is known to be long enough.
//!
//! **Errors.** A value of a vector type, which no stable type of Rust is passed like.
//!
//! **Cost.** A few lines of text for each function.

use std::fmt::Write;

use cranelift_codegen::ir::{Type, types};

use super::binding::{Binding, BoundType, BoundValue, Data, ObjectDescription, wrapped};
use crate::failure::Failure;

/// A module of Rust with declarations of all functions.
pub(super) fn declarations(contents: &ObjectDescription) -> Result<String, Failure> {
    let mut out = String::new();
    for line in contents.made.iter().flat_map(|p| wrapped(p, 96)) {
        let _ = writeln!(out, "// {line}");
    }
    for f in &contents.functions {
        if let Some(bytes) = f.workspace {
            let name = f.symbol.to_uppercase();
            let _ = write!(out, "\n/// Bytes of the workspace of [`{}`].\n", f.symbol);
            let _ = writeln!(out, "pub const {name}_WORKSPACE_BYTES: usize = {bytes};");
        }
        if f.in_struct {
            results(&mut out, f)?;
        }
    }
    if let Some(image) = &contents.image {
        let capital = image.stem.to_uppercase();
        let _ =
            write!(out, "\n/// Bytes of an instance.\npub const {capital}_INSTANCE_BYTES: usize = {};\n", image.bytes);
        let _ = writeln!(out, "/// Of these, bytes in front of the instance pointer.");
        let _ = writeln!(out, "pub const {capital}_INSTANCE_POINTER: usize = {};", image.header);
    }
    out += "\nunsafe extern \"C\" {\n";
    if let Some(image) = &contents.image {
        doc(&mut out, "    ", &image.about());
        let _ = writeln!(out, "    pub static {}: [u8; {}];", image.symbol, image.contents.len());
    }
    for (k, Data { symbol, shadow, bytes }) in contents.data.iter().enumerate() {
        let gap = if k == 0 { "" } else { "\n" };
        let _ = write!(out, "{gap}    /// Data of the program.\n    pub static mut {symbol}: [u8; {bytes}];\n");
        let _ = writeln!(out, "    /// Its shadow: cotangents are ADDED there, and nothing clears it.");
        let _ = writeln!(out, "    pub static mut {shadow}: [u8; {bytes}];");
    }
    for (k, f) in contents.functions.iter().enumerate() {
        if k + contents.data.len() > 0 || contents.image.is_some() {
            out.push('\n');
        }
        function(&mut out, f)?;
    }
    out += "}\n";
    Ok(out)
}

fn results(out: &mut String, f: &Binding) -> Result<(), Failure> {
    let _ = write!(out, "\n/// Results of [`{}`].\n#[repr(C)]\n#[derive(Clone, Copy, Debug)]\n", f.symbol);
    let _ = writeln!(out, "pub struct {} {{", type_of_results(&f.symbol));
    for field in &f.results {
        doc(out, "    ", &field.text);
        let _ = writeln!(out, "    pub {}: {},", field.name, written(field, &f.symbol)?);
    }
    out.push_str("}\n");
    Ok(())
}

fn function(out: &mut String, f: &Binding) -> Result<(), Failure> {
    f.about.iter().for_each(|p| doc(out, "    ", p));
    out.push_str("    ///\n");
    for p in &f.params {
        let restrict = if p.restrict { "; reached through no other pointer" } else { "" };
        doc(out, "    ", &format!("- `{}`: {}{restrict}", p.name, p.text));
    }
    let mut result = String::new();
    if let ([one], false) = (&f.results[..], f.in_struct) {
        doc(out, "    ", &format!("- returns {}", one.text));
        result = format!(" -> {}", written(one, &f.symbol)?);
    }
    let params: Result<Vec<String>, Failure> =
        f.params.iter().map(|p| Ok(format!("{}: {}", p.name, written(p, &f.symbol)?))).collect();
    let params = params?;
    let line = format!("    pub fn {}({}){result};", f.symbol, params.join(", "));
    if line.len() <= 100 {
        let _ = writeln!(out, "{line}");
    } else {
        let _ = writeln!(out, "    pub fn {}(", f.symbol);
        out.extend(params.iter().map(|p| format!("        {p},\n")));
        let _ = writeln!(out, "    ){result};");
    }
    Ok(())
}

fn doc(out: &mut String, indent: &str, text: &str) {
    for (k, line) in wrapped(text, 90).into_iter().enumerate() {
        let hang = if k > 0 && text.starts_with("- ") { "  " } else { "" };
        let _ = writeln!(out, "{indent}/// {hang}{line}");
    }
}

/// `f_gradient` has its results in `FGradientResults`.
fn type_of_results(symbol: &str) -> String {
    let capital = |word: &str| {
        let mut chars = word.chars();
        chars.next().map(|c| c.to_uppercase().chain(chars).collect::<String>()).unwrap_or_default()
    };
    format!("{}Results", symbol.split('_').map(capital).collect::<String>())
}

fn written(value: &BoundValue, symbol: &str) -> Result<String, Failure> {
    Ok(match value.kind {
        BoundType::Value(ty) => number(ty, symbol)?.to_owned(),
        BoundType::Bytes => "i64".to_owned(),
        BoundType::Grow => "unsafe extern \"C\" fn(context: *mut core::ffi::c_void, bytes: i64) -> i64".to_owned(),
        BoundType::Results => format!("*mut {}", type_of_results(symbol)),
        BoundType::Pointer { of, is_const } => {
            let of = of.map_or(Ok("core::ffi::c_void"), |ty| number(ty, symbol))?;
            format!("*{} {of}", if is_const { "const" } else { "mut" })
        }
    })
}

fn number(ty: Type, symbol: &str) -> Result<&'static str, Failure> {
    Ok(match ty {
        types::F64 => "f64",
        types::F32 => "f32",
        types::I8 => "i8",
        types::I16 => "i16",
        types::I32 => "i32",
        types::I64 => "i64",
        types::I128 => "i128",
        _ => {
            return Err(Failure::Usage(format!(
                "`{symbol}` has a value of type {ty}, which no stable type of Rust is passed like: leave --rust out"
            )));
        }
    })
}
