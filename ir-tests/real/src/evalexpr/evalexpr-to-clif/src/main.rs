//! evalexpr-to-clif EXPRESSION...: prints the CLIF of every function which evalexpr-jit makes of a
//! system of expressions: the values, and its own symbolic derivatives.
//!
//! evalexpr-jit has no option for that, but cranelift-jit logs each function it is asked to define,
//! so a logger sees them all.
use evalexpr_jit::system::EquationSystem;

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

fn main() {
    log::set_logger(&Capture).expect("the first logger");
    log::set_max_level(log::LevelFilter::Info);
    let system = EquationSystem::new(std::env::args().skip(1).collect()).expect("valid expressions");
    println!(";; variables {:?}", system.sorted_variables());
    let point: Vec<f64> = (0..system.sorted_variables().len()).map(|i| 0.5 + i as f64 / 4.0).collect();
    println!(";; values at {point:?}: {:?}", system.eval(&point).expect("as many values as variables"));
}
