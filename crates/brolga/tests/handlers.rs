//! A debug run notices that the signal handlers are gone. In a process of its own, since handlers
//! are the process's.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir::immediates::Ieee64;
use brolga::{Arg, ArgActivity, DerivedRule, Error, Options, Request};
use brolga_testing::child::alone;
use brolga_testing::program;

unsafe extern "C" {
    fn signal(number: i32, handler: usize) -> usize;
}

const SIGILL: i32 = 4;
const DEFAULT: usize = 0;

#[test]
fn a_debug_run_notices_that_handlers_are_gone() {
    alone(module_path!(), "a_debug_run_notices_that_handlers_are_gone", || {
        let program = program(
            "function %f(f64) -> f64 system_v {
            block0(v0: f64):
                v1 = fmul v0, v0
                return v1
            }",
        );
        let request = Request::new(program.func("f").unwrap(), [ArgActivity::Active]);
        let options = Options { debug: true, ..Options::default() };
        let rule = DerivedRule::new(&program, &request, &options).unwrap();
        let f64s = |x| DataValue::F64(Ieee64::with_float(x));
        let run = || {
            let (mut value, mut gradient) = (Vec::new(), Vec::new());
            // SAFETY: no pointers.
            unsafe { rule.gradient(&[Arg::new(f64s(3.0))], &[f64s(1.0)], &mut value, &mut gradient) }?;
            Ok::<_, Error>(gradient)
        };
        assert_eq!(run().unwrap(), [Some(f64s(6.0))]);
        // SAFETY: no signal comes.
        unsafe { signal(SIGILL, DEFAULT) };
        let Err(Error::Usage(message)) = run() else { panic!("nothing is noticed") };
        assert!(message.contains("install_handlers"), "{message}");
        brolga::install_handlers();
        assert!(brolga::handlers_are_in_place());
        assert_eq!(run().unwrap(), [Some(f64s(6.0))]);
    });
}
