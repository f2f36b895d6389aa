//! Programs from texts.

use brolga_ir::Program;
use brolga_ir::program::symbol_of_func;
use cranelift_codegen::{ir, settings};

/// A program with every function of a text, by its name there. Each of them must verify.
pub fn program(text: &str) -> Program {
    let mut program = Program::new();
    for func in cranelift_reader::parse_functions(text).unwrap_or_else(|e| panic!("{e}\n{text}")) {
        let flags = settings::Flags::new(settings::builder());
        cranelift_codegen::verify_function(&func, &flags).unwrap_or_else(|e| panic!("{e}\n{func}"));
        let name = symbol_of_func(&func.name);
        program.define(&name, func, |_| 0).unwrap_or_else(|s| panic!("%{s} is there already"));
    }
    program
}

/// The first function of a text.
pub fn function(text: &str) -> ir::Function {
    cranelift_reader::parse_functions(text).unwrap_or_else(|e| panic!("{e}\n{text}")).remove(0)
}

/// Functions that go wrong: a call of an address without code, a function of C that writes to any
/// address, and one that ends the process.
pub const WILD: &str = "\
function %g(i64, f64) -> f64 system_v {
    sig0 = (f64) -> f64 system_v
block0(v0: i64, v1: f64):
    v2 = call_indirect sig0, v0(v1)
    return v2
}
function %taken(i64, f64) -> f64 system_v {
    fn0 = %frexp(f64, i64) -> f64 system_v
block0(v0: i64, v1: f64):
    v2 = call fn0(v1, v0)
    return v2
}
function %ended(f64) -> f64 system_v {
    fn0 = %abort() system_v
block0(v0: f64):
    call fn0()
    return v0
}
";
