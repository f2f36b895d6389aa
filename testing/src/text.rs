//! Programs from texts.

use brolga_ir::Program;
use brolga_ir::program::symbol_of_func;
use cranelift_codegen::settings;

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
