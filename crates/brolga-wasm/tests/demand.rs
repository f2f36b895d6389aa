//! Integers that are loaded, calculated with, and become floats: where a float of the host's or of
//! the program's had been there, the run says so at each effort and in each mode
//! (`ir-tests/wasm/text/demand.wat`; what is a number there is a line of `demand.run`).

use brolga_wasm::brolga::{Mode, Options};
use brolga_wasm::{Error, Gradient, Instance, Module, Val, default_activity, options};

/// What is said of the gradient of a function of a float, or of a buffer of the host's with one.
fn said(module: &Module, name: &str, mode: Mode, full: bool) -> Result<(), Error> {
    let by_value = name == "seeded_by_float";
    let ty = if by_value { wasmparser::ValType::F64 } else { wasmparser::ValType::I32 };
    let asked = Options { mode, ..options() };
    let asked = if full { Options { effort: Options::full().effort, ..asked } } else { asked };
    let gradient = Gradient::with_options(module, name, &[default_activity(ty)], &asked)?;
    let mut instance = Instance::new(module)?;
    let arg = if by_value { Val::F64(1.25) } else { Val::I32(instance.alloc_f64(&[1.25])? as i32) };
    if mode == Mode::Split {
        let (_, mut pullback) = instance.forward(&gradient, &[arg])?;
        instance.pullback(&mut pullback, &[Val::F64(1.0)]).map(drop)
    } else {
        instance.gradient(&gradient, &[arg], &[Val::F64(1.0)]).map(drop)
    }
}

#[test]
fn a_float_that_arithmetic_takes_for_a_number_is_missed() {
    let text = include_str!("../../../ir-tests/wasm/text/demand.wat");
    let module = Module::new(text).unwrap_or_else(|e| panic!("{e}"));
    for name in ["tripled", "mixed", "handed_on", "copied", "read_as_float", "seeded_by_float"] {
        for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
            for full in [false, true] {
                match said(&module, name, mode, full) {
                    Err(Error::Trap(t)) => assert_eq!(t.code, "untracked_bits", "{name}"),
                    other => panic!("{name}, {mode:?}, {full}: {other:?}"),
                }
            }
        }
    }
}
