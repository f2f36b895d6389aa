//! python-to-clif PROGRAM.py: prints the CLIF which RustPython's JIT makes of every function of a
//! program.
//!
//! The JIT has no option for that, but cranelift-jit logs each function it is asked to define, so a
//! logger sees them all. RustPython takes the types of a function from its annotations at run time;
//! here they are read from the `def` line, which must be one line.
use rustpython_compiler::{CompileOpts, Mode};
use rustpython_compiler_core::bytecode::ConstantData;
use rustpython_jit::JitType;

struct Capture;

impl log::Log for Capture {
    fn enabled(&self, metadata: &log::Metadata) -> bool {
        metadata.target().starts_with("cranelift_jit")
    }

    fn log(&self, record: &log::Record) {
        let text = record.args().to_string();
        if let Some((id, function)) = text.strip_prefix("defining function ").and_then(|rest| rest.split_once(": ")) {
            println!(";; function {id}\n{function}");
        }
    }

    fn flush(&self) {}
}

fn kind(annotation: &str) -> JitType {
    match annotation.trim() {
        "float" => JitType::Float,
        "int" => JitType::Int,
        "bool" => JitType::Bool,
        other => panic!("no such type in the JIT: {other}"),
    }
}

fn main() {
    let path = std::env::args().nth(1).expect("the path of a program");
    let source = std::fs::read_to_string(&path).expect("a readable program");
    log::set_logger(&Capture).expect("the first logger");
    log::set_max_level(log::LevelFilter::Info);
    let module =
        rustpython_compiler::compile(&source, Mode::Exec, &path, CompileOpts::default()).expect("a valid program");

    for header in source.lines().filter_map(|line| line.strip_prefix("def ")) {
        let (name, rest) = header.split_once('(').expect("parameters");
        let (parameters, result) = rest.split_once(") -> ").expect("a result type");
        let parameters: Vec<JitType> =
            parameters.split(", ").map(|p| kind(p.split_once(": ").expect("a typed parameter").1)).collect();
        let code = module
            .constants
            .iter()
            .find_map(|constant| match constant {
                ConstantData::Code { code } if code.obj_name.as_str() == name => Some(code),
                _ => None,
            })
            .expect("the code of the function");
        if let Err(error) = rustpython_jit::compile(code, &parameters, Some(kind(result.trim_end_matches(':')))) {
            eprintln!("{name}: {error}");
            std::process::exit(1);
        }
    }
}
