//! What tests of rules share.

use brolga::Program;
use brolga::cranelift_codegen::ir::UserFuncName;

/// A program with every function of a text, by its name there.
pub fn program(text: &str) -> Program {
    let mut p = Program::new();
    for f in cranelift_reader::parse_functions(text).expect("the test's text parses") {
        let UserFuncName::Testcase(t) = &f.name else { panic!("a named function") };
        let name = String::from_utf8_lossy(t.raw()).into_owned();
        p.define(&name, f, |_| 0).expect("defined once");
    }
    p
}
