//! Functions of tens of thousands of instructions, each of which depends on the one before: nothing
//! that is asked along such a chain may take time that grows with a power of its length, or stack
//! that grows with it.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Error, Options, Request};
use brolga_testing::program;

/// Even, so that signs are as they were.
const LENGTH: usize = 20_000;

/// What `step` makes of `v10` (`$x` to `$y`) `LENGTH` times, between instructions that are given.
fn chain(before: &str, step: &str, after: &str) -> String {
    let mut text = format!(
        "function %f(f64, i8) -> f64 {{
            ss0 = explicit_slot 16, align = 8
            ss1 = explicit_slot 16, align = 8
        block0(v0: f64, v1: i8):
            v2 = bitcast.i64 v0
            v3 = iconst.i64 0x8000_0000_0000_0000
            v4 = stack_addr.i64 ss0
            v5 = stack_addr.i64 ss1
            {before}\n"
    );
    for n in 10..10 + LENGTH {
        text += &step.replace("$x", &format!("v{n}")).replace("$y", &format!("v{}", n + 1));
        text.push('\n');
    }
    let last = 10 + LENGTH;
    text + &after
        .replace("$x", &format!("v{last}"))
        .replace("$y", &format!("v{}", last + 1))
        .replace("$z", &format!("v{}", last + 2))
        + "\n}"
}

fn derivative(text: &str) -> Result<DataValue, Error> {
    let program = program(text);
    let request = Request::new(program.func("f").expect("it is there"), [ArgActivity::Active, ArgActivity::Const]);
    let rule = DerivedRule::new(&program, &request, &Options::full())?;
    let args = [Arg::new(DataValue::F64(1.5.into())), Arg::new(DataValue::I8(1))];
    let (mut results, mut cotangents) = (Vec::new(), Vec::new());
    // SAFETY: there are no pointers.
    unsafe { rule.gradient(&args, &[DataValue::F64(2.0.into())], &mut results, &mut cotangents) }?;
    Ok(cotangents[0].clone().expect("it is active"))
}

/// What bits become that lie beside a pointer.
const STORED: &str = "store $x, v4+8\n $y = load.i64 v4+8\n $z = bitcast.f64 $y\n return $z";

#[test]
fn bits_of_floats() {
    let bits = "store v5, v4\n v10 = bitcast.i64 v0";
    for step in ["$y = bxor $x, v3", "$y = select v1, $x, v2", "$y = bitcast.i64 $x", "$y = bitselect v3, $x, v2"] {
        assert_eq!(derivative(&chain(bits, step, STORED)).expect(step), DataValue::F64(2.0.into()), "{step}");
    }
}

#[test]
fn pointers() {
    let after = "store v0, $x\n $y = load.f64 $x\n return $y";
    assert_eq!(
        derivative(&chain("v10 = stack_addr.i64 ss0", "$y = select v1, $x, v5", after)).unwrap(),
        DataValue::F64(2.0.into())
    );
}

#[test]
fn masks_of_constants() {
    // Each constant is asked for twice by the next.
    let after = "$y = bxor v2, $x\n $z = bitcast.f64 $y\n return $z";
    match derivative(&chain("v10 = iconst.i64 -1", "$y = band $x, $x", after)) {
        Err(Error::Diagnostics(found)) => assert_eq!(found.0[0].code, "AD0110"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn bits_that_something_unknown_was_done_to() {
    match derivative(&chain("v10 = bitcast.i64 v0", "$y = bxor $x, v2", STORED)) {
        Err(Error::Diagnostics(found)) => assert_eq!(found.0[0].code, "AD0110"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn tables_of_one_target() {
    let entries = vec!["block1"; LENGTH].join(", ");
    let table = format!(
        "function %f(f64, i8) -> f64 {{
        block0(v0: f64, v1: i8):
            v2 = uextend.i32 v1
            br_table v2, block2, [{entries}]
        block1:
            v3 = fmul v0, v0
            return v3
        block2:
            return v0
        }}"
    );
    assert_eq!(derivative(&table).unwrap(), DataValue::F64(6.0.into()));
}

#[test]
fn branches_within_branches() {
    // An eighth of them, since Cranelift's own checks of debug builds take longer.
    let depth = LENGTH / 8;
    let mut text = String::from("function %f(f64, i8) -> f64 {\nblock0(v0: f64, v1: i8):\n    jump block1(v0)\n");
    for n in 1..=depth {
        let (x, y) = (2 * n + 8, 2 * n + 9);
        let (this, within) = (2 * n - 1, 2 * n);
        text += &format!(
            "block{this}(v{x}: f64):\n    brif v1, block{within}, block{}(v{x})\nblock{within}:\n    \
             v{y} = fadd v{x}, v0\n    jump block{}(v{y})\n",
            2 * depth + 1,
            2 * n + 1
        );
    }
    let last = 2 * depth + 1;
    text += &format!("block{last}(v{}: f64):\n    return v{}\n}}", 2 * depth + 10, 2 * depth + 10);
    assert_eq!(derivative(&text).unwrap(), DataValue::F64((2.0 * (depth as f64 + 1.0)).into()));
}
