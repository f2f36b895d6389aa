//! How errors name functions: as their programs spell them, whatever compilers have made of that.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Error, Options, Request};
use brolga_testing::program;

const MANGLED: &str = "_ZN4core3f6421__LT_impl_u20_f64_GT_9total_cmp17h5420b5ac21f16e92E";

/// `f0` calls `f1`, that `f2` and so on; the last does what is given, and has a mangled name.
fn chain(length: usize, body: &str) -> Result<DerivedRule, Error> {
    let name = |n: usize| if n + 1 == length { MANGLED.to_owned() } else { format!("f{n}") };
    let mut text = String::new();
    for n in 0..length - 1 {
        text += &format!(
            "function %{}(f64) -> f64 {{
                fn0 = %{}(f64) -> f64
            block0(v0: f64):
                v1 = call fn0(v0)
                return v1
            }}\n",
            name(n),
            name(n + 1)
        );
    }
    text += &format!("function %{MANGLED}(f64) -> f64 {{ block0(v0: f64): {body} }}");
    let program = program(&text);
    let request = Request::new(program.func(&name(0)).expect("it is there"), [ArgActivity::Active]);
    DerivedRule::new(&program, &request, &Options::full())
}

const MAGIC: &str = "v1 = bitcast.i64 v0\n v2 = iadd v1, v1\n v3 = bitcast.f64 v2\n return v3";

fn notes(length: usize) -> Vec<String> {
    match chain(length, MAGIC) {
        Err(Error::Diagnostics(found)) => found.0[0].notes.clone(),
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn problems() {
    let the_function = "the function is core::f64::<impl f64>::total_cmp".to_owned();
    assert!(notes(1).contains(&the_function), "{:?}", notes(1));
    assert!(!notes(1).iter().any(|n| n.starts_with("reached by")), "{:?}", notes(1));
    for (length, reached) in [
        (2, "%f0 -> core::f64::<impl f64>::total_cmp"),
        (8, "%f0 -> %f1 -> %f2 -> %f3 -> %f4 -> %f5 -> %f6 -> core::f64::<impl f64>::total_cmp"),
        (9, "%f0 -> %f1 -> %f2 -> … 2 more … -> %f5 -> %f6 -> %f7 -> core::f64::<impl f64>::total_cmp"),
    ] {
        let notes = notes(length);
        assert!(notes.contains(&the_function), "{notes:?}");
        assert!(notes.contains(&format!("reached by {reached}")), "{notes:?}");
    }
}

#[test]
fn traps() {
    let body = "v1 = f64const 0.0\n v2 = fcmp eq v0, v1\n trapnz v2, user3\n return v0";
    let rule = chain(2, body).unwrap_or_else(|e| panic!("{e}"));
    let (mut results, mut cotangents) = (Vec::new(), Vec::new());
    let args = [Arg::new(DataValue::F64(0.0.into()))];
    // SAFETY: there are no pointers.
    let run = unsafe { rule.gradient(&args, &[DataValue::F64(1.0.into())], &mut results, &mut cotangents) };
    match run {
        Err(e @ Error::Trap(_)) => {
            assert!(e.to_string().contains("note: the function is core::f64::<impl f64>::total_cmp"), "{e}");
        }
        other => panic!("{:?}", other.err()),
    }
}
