//! The interpreter against machine code: every opcode on edge values.

use brolga_ir::panics::catch;
use brolga_oracle::Oracle;
use brolga_oracle::interp::{from_bits, lanes, to_bits};
use brolga_testing::program;
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::Type;

use crate::common::ops::{cases, tuples};
use crate::common::{NativeFunction, func};

/// Equal bits; NaNs are equal to each other, since Cranelift does not say which NaN an operation
/// gives.
fn same(ty: Type, x: &DataValue, y: &DataValue) -> bool {
    let is_nan = |b: u128| match (ty.lane_type().is_float(), ty.lane_bits()) {
        (true, 32) => f32::from_bits(b as u32).is_nan(),
        (true, 64) => f64::from_bits(b as u64).is_nan(),
        _ => false,
    };
    lanes(ty, to_bits(x)).zip(lanes(ty, to_bits(y))).all(|(x, y)| x == y || is_nan(x) && is_nan(y))
}

#[test]
fn every_opcode_on_edge_values() {
    // Cranelift says "unsupported" in panics for some combinations; they are not ours to print.
    let mut skipped = Vec::new();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for case in cases() {
        let Ok(p) = catch(|| program(&case.text)) else {
            wrong.push(format!("{}: does not verify", case.name));
            continue;
        };
        let Ok(Ok(native)) = catch(|| NativeFunction::compile(&p)) else {
            skipped.push(case.name);
            continue;
        };
        let f = func(&p, "f");
        let returns: Vec<Type> = p.funcs[f].signature.returns.iter().map(|r| r.value_type).collect();
        for bits in tuples(&case.params) {
            let args: Vec<DataValue> = bits.iter().zip(&case.params).map(|(&b, &t)| from_bits(b, t)).collect();
            let expected = unsafe { native.call(&p, f, &args) };
            let got = unsafe { Oracle::new(&p).run(f, &args) };
            compared += 1;
            match got {
                Ok(got) if returns.iter().zip(&got).zip(&expected).all(|((&t, x), y)| same(t, x, y)) => {}
                got => {
                    let args: Vec<String> = args.iter().map(DataValue::to_string).collect();
                    wrong.push(format!("{}: ({}) gives {got:?}, not {expected:?}", case.name, args.join(", ")));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 50_000, "{compared} comparisons");
    // What this machine's backend lacks. Anything else that is skipped is a mistake in the table.
    println!("{compared} comparisons, skipped:\n{}", skipped.join("\n"));
    assert!(skipped.len() < 80, "{} cases skipped:\n{}", skipped.len(), skipped.join("\n"));
}
