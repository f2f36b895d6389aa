//! diffsl-to-clif MODEL.ds: prints the CLIF of every function which DiffSL makes of a model, in the
//! order of their definition.
//!
//! DiffSL has no option for that, but cranelift-jit logs each function it is asked to define, so a
//! logger sees them all. A line `;; function funcidN` stands before each one. Data objects are not
//! logged: they come first, as the directives of a test file, in the order in which every function
//! refers to them. At the end, one evaluation of the model.
use diffsl::discretise::DiscreteModel;
use diffsl::execution::DataLayout;
use diffsl::execution::compiler::CompilerOptions;
use diffsl::parser::parse_ds_string;
use diffsl::{Compiler, CraneliftJitModule};

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

/// A data object of no bytes has no address: one zero instead.
fn padded<T: Clone + Default>(values: &[T]) -> Vec<T> {
    if values.is_empty() { vec![T::default()] } else { values.to_vec() }
}

fn main() {
    let model = std::env::args().nth(1).expect("the path of a model");
    let source = std::fs::read_to_string(model).expect("a readable model");
    log::set_logger(&Capture).expect("the first logger");
    log::set_max_level(log::LevelFilter::Info);
    let ast = parse_ds_string(&source).expect("a model that parses");
    let model =
        DiscreteModel::build("model", &ast).unwrap_or_else(|error| panic!("{}", error.as_error_message(&source)));
    let layout = DataLayout::new(&model).unwrap_or_else(|error| panic!("{}", error.as_error_message(&source)));
    println!(";; symbols indices constants model_index");
    println!("; data: %indices = i32{:?} readonly", padded(layout.indices()));
    println!("; data: %constants = f64{:?} readonly", padded(layout.constants()));
    println!("; data: %model_index = i32[0]");
    let compiler: Compiler<CraneliftJitModule, f64> =
        Compiler::from_discrete_model(&model, CompilerOptions::default(), Some(&source)).expect("a valid model");

    let (states, inputs, outputs, stops, data_len, has_mass, _) = compiler.get_dims();
    println!(";; states {states} inputs {inputs} outputs {outputs} stops {stops} data {data_len} mass {has_mass}");
    let mut data = compiler.get_new_data();
    println!(";; fresh data {data:?}");
    let values: Vec<f64> = (0..inputs).map(|i| 1.0 + i as f64 / 8.0).collect();
    compiler.set_inputs(&values, &mut data, 0);
    let mut state = vec![0.0; states];
    compiler.set_u0(&mut state, &mut data);
    println!(";; data after set_u0 {data:?}\n;; u0 {state:?}");
    let mut slope = vec![0.0; states];
    compiler.rhs(0.5, &state, &mut data, &mut slope);
    println!(";; data after rhs {data:?}\n;; rhs {slope:?}");
}
