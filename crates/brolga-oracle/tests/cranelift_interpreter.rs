//! The interpreter against Cranelift's own, also for what no x86-64 compiles.

use brolga_ir::panics::catch;
use brolga_oracle::Oracle;
use brolga_oracle::interp::{from_bits, lanes, to_bits};
use brolga_testing::program;
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::Type;
use cranelift_interpreter::environment::FunctionStore;
use cranelift_interpreter::interpreter::{Interpreter, InterpreterState};
use cranelift_interpreter::step::ControlFlow;

use crate::common::func;
use crate::common::ops::{cases, tuples};

fn same(ty: Type, x: &DataValue, y: &DataValue) -> bool {
    let is_nan = |b: u128| match (ty.lane_type().is_float(), ty.lane_bits()) {
        (true, 32) => f32::from_bits(b as u32).is_nan(),
        (true, 64) => f64::from_bits(b as u64).is_nan(),
        _ => false,
    };
    lanes(ty, to_bits(x)).zip(lanes(ty, to_bits(y))).all(|(x, y)| x == y || is_nan(x) && is_nan(y))
}

/// Where the other one is wrong: a carry that undoes an overflow makes none, and 2^128 - 1 is the
/// largest `i128` unsigned.
const THEIR_MISTAKES: [&str; 3] = ["sadd_overflow_cin", "ssub_overflow_bin", "fcvt_to_uint_sat.i128"];

#[test]
fn two_interpreters_agree() {
    // The other one panics where it lacks something; that is not ours to print.
    let (mut compared, mut refused) = (0, 0);
    let mut wrong = Vec::new();
    for case in cases() {
        if THEIR_MISTAKES.iter().any(|m| case.name.starts_with(m)) {
            continue;
        }
        let p = program(&case.text);
        let f = func(&p, "f");
        let body = p.funcs[f].body.as_ref().unwrap();
        let returns: Vec<Type> = p.funcs[f].signature.returns.iter().map(|r| r.value_type).collect();
        for bits in tuples(&case.params) {
            let args: Vec<DataValue> = bits.iter().zip(&case.params).map(|(&b, &t)| from_bits(b, t)).collect();
            let theirs = catch(|| {
                let mut store = FunctionStore::default();
                store.add("f".to_owned(), body);
                let state = InterpreterState::default().with_function_store(store);
                match Interpreter::new(state).call_by_name("f", &args) {
                    Ok(ControlFlow::Return(values)) => Some(values.to_vec()),
                    _ => None,
                }
            });
            let Ok(Some(theirs)) = theirs else {
                refused += 1;
                continue;
            };
            let ours = unsafe { Oracle::new(&p).run(f, &args) };
            compared += 1;
            match ours {
                Ok(ours) if returns.iter().zip(&ours).zip(&theirs).all(|((&t, x), y)| same(t, x, y)) => {}
                ours => {
                    let args: Vec<String> = args.iter().map(DataValue::to_string).collect();
                    wrong.push(format!("{}: ({}) gives {ours:?}, not {theirs:?}", case.name, args.join(", ")));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 100_000, "{compared} compared, {refused} refused");
}
