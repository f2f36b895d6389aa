//! Tests of the rules: each row against the code that it describes, as that code is compiled.

mod functions;
mod kinks;
mod mutants;
mod opcodes;
mod reference;
mod second;
mod subjects;
mod table;
