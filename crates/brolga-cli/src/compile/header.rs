//! C header: the functions of an object in C.
//!
//! **Question.** How does a program in C or C++ call the functions of the object?
//!
//! **Answer.** [`header`] writes declarations between an include guard: types of vectors, macros
//! for the sizes of workspaces and instances, a struct for results that go through memory, and a
//! prototype for each function below a comment that says what each parameter is.
//!
//! **Cost.** A few lines of text for each function.

use std::collections::BTreeSet;
use std::fmt::Write;

use brolga_module::c_type;
use cranelift_codegen::ir::Type;

use super::binding::{Binding, BoundType, BoundValue, Data, ObjectDescription, plain, wrapped};

/// A header whose include guard is `guard`.
pub(super) fn header(contents: &ObjectDescription, guard: &str) -> String {
    let mut out = String::new();
    comment(&mut out, &contents.made.iter().map(String::as_str).collect::<Vec<_>>());
    let _ = write!(out, "#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n");
    if bound_values(contents).any(|s| s.restrict) {
        out += "\n#ifndef BROLGA_RESTRICT\n#ifdef __cplusplus\n#define BROLGA_RESTRICT __restrict\n#else\n\
                #define BROLGA_RESTRICT restrict\n#endif\n#endif\n";
    }
    out += "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
    let vectors: BTreeSet<String> = bound_values(contents).filter_map(vector).collect();
    if !vectors.is_empty() {
        out.push('\n');
        vectors.iter().for_each(|v| out += v);
    }
    if let Some(image) = &contents.image {
        out.push('\n');
        comment(&mut out, &[&image.about()]);
        let (symbol, capital, n) = (&image.symbol, image.stem.to_uppercase(), image.contents.len());
        let _ = writeln!(out, "#define {capital}_INSTANCE_BYTES {}", image.bytes);
        let _ = writeln!(out, "#define {capital}_INSTANCE_POINTER {}", image.header);
        let _ = writeln!(out, "extern const unsigned char {symbol}[{n}];");
    }
    for Data { symbol, shadow, bytes } in &contents.data {
        out.push('\n');
        comment(&mut out, &["Data of the program, and its shadow: cotangents are ADDED there, and nothing clears it."]);
        let _ = writeln!(out, "extern unsigned char {symbol}[{bytes}];\nextern unsigned char {shadow}[{bytes}];");
    }
    contents.functions.iter().for_each(|f| function(&mut out, f));
    let _ = write!(out, "\n#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */\n");
    out
}

fn bound_values(contents: &ObjectDescription) -> impl Iterator<Item = &BoundValue> {
    contents.functions.iter().flat_map(|f| f.params.iter().chain(&f.results))
}

fn comment(out: &mut String, paragraphs: &[&str]) {
    let lines: Vec<String> = paragraphs.iter().flat_map(|p| wrapped(&plain(p), 94)).collect();
    let _ = writeln!(out, "/* {} */", lines.join("\n * "));
}

/// A line for each name, and what it is.
fn list(lines: &mut Vec<String>, named: &[(String, &str)]) {
    let width = named.iter().map(|n| n.0.len()).max().unwrap_or(0);
    for (name, text) in named {
        let mut text = wrapped(&plain(text), 92 - width).into_iter();
        lines.push(format!("  {name:width$}  {}", text.next().unwrap_or_default()));
        lines.extend(text.map(|t| format!("  {:width$}  {t}", "")));
    }
}

fn function(out: &mut String, f: &Binding) {
    let mut lines: Vec<String> = f.about.iter().flat_map(|p| wrapped(&plain(p), 94)).collect();
    let mut named: Vec<(String, &str)> = f.params.iter().map(|p| (p.name.clone(), &p.text[..])).collect();
    if f.in_struct {
        named.extend(f.results.iter().map(|r| (format!("results->{}", r.name), &r.text[..])));
    }
    list(&mut lines, &named);
    if let ([result], false) = (&f.results[..], f.in_struct) {
        lines.extend(wrapped(&plain(&format!("Returns: {}.", result.text)), 94));
    }
    let _ = writeln!(out, "\n/* {}\n */", lines.join("\n * "));
    if let Some(bytes) = f.workspace {
        let _ = writeln!(out, "#define {}_WORKSPACE_BYTES {bytes}", f.symbol.to_uppercase());
    }
    if f.in_struct {
        let _ = writeln!(out, "struct {}_results {{", f.symbol);
        for field in &f.results {
            let _ = writeln!(out, "    {};", declared(&field.kind, &field.name, "", &f.symbol));
        }
        out.push_str("};\n");
    }
    let result = match &f.results[..] {
        [result] if !f.in_struct => declared(&result.kind, &f.symbol, "", &f.symbol),
        _ => format!("void {}", f.symbol),
    };
    let params: Vec<String> = f
        .params
        .iter()
        .map(|p| {
            let restrict = if p.restrict { "BROLGA_RESTRICT " } else { "" };
            declared(&p.kind, &p.name, restrict, &f.symbol)
        })
        .collect();
    let line = format!("{result}({});", if params.is_empty() { "void".to_owned() } else { params.join(", ") });
    if line.len() <= 100 {
        let _ = writeln!(out, "{line}");
    } else {
        let _ = writeln!(out, "{result}(\n    {});", params.join(",\n    "));
    }
}

/// A declaration of a name, without what ends it.
fn declared(kind: &BoundType, name: &str, restrict: &str, symbol: &str) -> String {
    match kind {
        BoundType::Value(ty) => format!("{} {}", type_name(*ty), name),
        BoundType::Bytes => format!("int64_t {}", name),
        BoundType::Grow => format!("int64_t (*{name})(void *context, int64_t bytes)"),
        BoundType::Results => format!("struct {symbol}_results *{}", name),
        BoundType::Pointer { of, is_const } => {
            let of = of.map_or_else(|| "void".to_owned(), type_name);
            format!("{}{of} *{restrict}{}", if *is_const { "const " } else { "" }, name)
        }
    }
}

fn type_name(ty: Type) -> String {
    if ty.is_vector() { format!("brolga_{}", c_type(ty)) } else { c_type(ty) }
}

/// The definition of a vector's type.
fn vector(value: &BoundValue) -> Option<String> {
    let BoundType::Value(ty) = value.kind else { return None };
    let lane = c_type(ty.lane_type());
    ty.is_vector().then(|| format!("typedef {lane} {} __attribute__((vector_size({})));\n", type_name(ty), ty.bytes()))
}
