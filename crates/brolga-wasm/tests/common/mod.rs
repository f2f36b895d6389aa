//! What tests of modules share: gradients of a function of one float.

use brolga_wasm::brolga::{Inline, Mode, Options};
use brolga_wasm::{Error, Gradient, Instance, Module, Val, default_activity};

/// The gradient of `f` by its one float, with calls as calls and with short functions in their
/// callers, as a whole and in two halves.
pub(crate) fn gradients(text: &str, x: f64) -> Vec<Result<f64, Error>> {
    let module = Module::new(text).unwrap_or_else(|e| panic!("{e}"));
    let mut found = Vec::new();
    for inline in [Inline::Never, Inline::Auto] {
        for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
            let options = Options { mode, inline, ..Options::full() };
            found.push(gradient(&module, &options, x));
        }
    }
    found
}

pub(crate) fn gradient(module: &Module, options: &Options, x: f64) -> Result<f64, Error> {
    let activity = [default_activity(wasmparser::ValType::F64)];
    let gradient = Gradient::with_options(module, "f", &activity, options)?;
    let mut instance = Instance::new(module)?;
    let (args, seed) = ([Val::F64(x)], [Val::F64(1.0)]);
    let cotangents = if options.mode == Mode::Split {
        let (_, mut pullback) = instance.forward(&gradient, &args)?;
        instance.pullback(&mut pullback, &seed)?
    } else {
        instance.gradient(&gradient, &args, &seed)?.cotangents
    };
    Ok(cotangents[0].and_then(|c| c.f64()).expect("the argument is active"))
}
