//! Loads, stores, atomics, traps and limits.

use brolga_oracle::{Limits, Oracle, OracleArg, OracleError};
use brolga_testing::program;
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::TrapCode;

use crate::common::{NativeFunction, dup, f64_of, f64v, func};

/// Run `%f(pointer)` on two copies of some bytes, interpreted and compiled, and compare results and
/// memory.
fn compare(signature: &str, body: &str) {
    let text = format!(
        "function %f(i64) {signature} system_v {{\nss0 = explicit_slot 32, align = 16\nblock0(v0: i64):\n{body}\n}}"
    );
    let p = program(&text);
    let f = func(&p, "f");
    let native = NativeFunction::compile(&p).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let bytes: Vec<u8> = (0..64u8).map(|i| i.wrapping_mul(73) ^ 0x95).collect();
    let (mut a, mut b) = (bytes.clone(), bytes);
    let address = |m: &mut Vec<u8>| vec![DataValue::I64(m.as_mut_ptr() as i64)];
    let x = unsafe { Oracle::new(&p).run(f, &address(&mut a)) }.unwrap_or_else(|e| panic!("{e}"));
    let y = unsafe { native.call(&p, f, &address(&mut b)) };
    assert!(x.iter().zip(&y).all(|(x, y)| x.bitwise_eq(y)), "{body}: {x:?}, not {y:?}");
    assert_eq!(a, b, "{body}");
}

#[test]
fn loads_and_stores_of_every_width() {
    for ty in ["i8", "i16", "i32", "i64", "f32", "f64", "i8x16", "f32x4", "f64x2", "i128"] {
        if ty != "i128" {
            compare(&format!("-> {ty}"), &format!("v1 = load.{ty} v0+3\nreturn v1"));
        }
        compare("", &format!("v1 = load.{ty} v0+5\nstore v1, v0+30\nreturn"));
        compare(
            "",
            &format!(
                "v1 = load.{ty} v0+5\nv2 = stack_addr.i64 ss0+16\nstore v1, v2\nv3 = load.{ty} v2\nstore v3, v0\nreturn"
            ),
        );
    }
    for (op, types) in [("8", &["i16", "i32", "i64"][..]), ("16", &["i32", "i64"]), ("32", &["i64"])] {
        for ty in types {
            compare(&format!("-> {ty}"), &format!("v1 = uload{op}.{ty} v0+7\nreturn v1"));
            compare(&format!("-> {ty}"), &format!("v1 = sload{op}.{ty} v0+7\nreturn v1"));
            compare("", &format!("v1 = load.{ty} v0+7\nistore{op} v1, v0+40\nreturn"));
        }
    }
    for op in ["uload8x8", "sload8x8", "uload16x4", "sload16x4", "uload32x2", "sload32x2"] {
        compare("", &format!("v1 = {op} v0+9\nstore v1, v0+40\nreturn"));
    }
}

#[test]
fn atomics() {
    for ty in ["i8", "i16", "i32", "i64"] {
        for op in ["add", "sub", "and", "nand", "or", "xor", "xchg", "umin", "umax", "smin", "smax"] {
            compare(&format!("-> {ty}"), &format!("v1 = load.{ty} v0+8\nv2 = atomic_rmw.{ty} {op} v0, v1\nreturn v2"));
        }
        compare(
            &format!("-> {ty}"),
            &format!("v1 = load.{ty} v0\nv2 = load.{ty} v0+8\nv3 = atomic_cas.{ty} v0, v1, v2\nreturn v3"),
        );
        compare(&format!("-> {ty}"), &format!("v2 = load.{ty} v0+8\nv3 = atomic_cas.{ty} v0, v2, v2\nreturn v3"));
        compare(
            "",
            &format!(
                "v1 = atomic_load.{ty} v0\nv2 = iconst.i64 16\nv3 = iadd v0, v2\natomic_store v1, v3\nfence\nreturn"
            ),
        );
    }
}

#[test]
fn traps_have_codes_and_places() {
    let of = |body: &str, x: i64, y: f64| {
        let p = program(&format!("function %f(i64, f64) -> i64 system_v {{\nblock0(v0: i64, v1: f64):\n{body}\n}}"));
        match unsafe { Oracle::new(&p).run(func(&p, "f"), &[DataValue::I64(x), f64v(y)]) } {
            Err(OracleError::Trap { code, at }) => {
                assert_eq!(at.function, "f");
                Some(code)
            }
            Ok(_) => None,
            Err(e) => panic!("{e}"),
        }
    };
    let div = "v2 = iconst.i64 -9223372036854775808\nv3 = sdiv v2, v0\nreturn v3";
    assert_eq!(of(div, 0, 0.0), Some(TrapCode::INTEGER_DIVISION_BY_ZERO));
    assert_eq!(of(div, -1, 0.0), Some(TrapCode::INTEGER_OVERFLOW));
    assert_eq!(of(div, 7, 0.0), None);
    for op in ["udiv", "urem", "srem"] {
        assert_eq!(of(&format!("v2 = {op} v0, v0\nreturn v2"), 0, 0.0), Some(TrapCode::INTEGER_DIVISION_BY_ZERO));
    }
    assert_eq!(of("v2 = iconst.i64 -9223372036854775808\nv3 = srem v2, v0\nreturn v3", -1, 0.0), None);
    let cvt = "v2 = fcvt_to_sint.i64 v1\nreturn v2";
    assert_eq!(of(cvt, 0, f64::NAN), Some(TrapCode::BAD_CONVERSION_TO_INTEGER));
    assert_eq!(of(cvt, 0, 9.3e18), Some(TrapCode::INTEGER_OVERFLOW));
    assert_eq!(of(cvt, 0, -9.2e18), None);
    let cvt = "v2 = fcvt_to_uint.i64 v1\nreturn v2";
    assert_eq!(of(cvt, 0, -1.0), Some(TrapCode::INTEGER_OVERFLOW));
    assert_eq!(of(cvt, 0, -0.9), None);
    assert_eq!(of("trapz v0, user3\nreturn v0", 0, 0.0), TrapCode::user(3));
    assert_eq!(of("trapnz v0, user4\nreturn v0", 0, 0.0), None);
    assert_eq!(of("trap heap_oob", 0, 0.0), Some(TrapCode::HEAP_OUT_OF_BOUNDS));
    assert_eq!(of("v2 = load.i64 v0+16\nreturn v2", 0, 0.0), Some(TrapCode::HEAP_OUT_OF_BOUNDS));
    assert_eq!(of("store user9 v1, v0-8\nreturn v0", 0, 0.0), TrapCode::user(9));
    assert_eq!(of("v2 = iconst.i64 -1\nv3 = uadd_overflow_trap v0, v2, user7\nreturn v3", 1, 0.0), TrapCode::user(7));
}

#[test]
fn fuel_and_unknown_functions() {
    let p = program("function %f() system_v {\nblock0:\n jump block1\nblock1:\n jump block1\n}");
    let e = unsafe { Oracle::new(&p).limits(Limits { fuel: 1000, ..Limits::default() }).run(func(&p, "f"), &[]) };
    assert!(matches!(e, Err(OracleError::Fuel { .. })));
    let p = program("function %f() system_v {\nfn0 = %nowhere() system_v\nblock0:\n call fn0()\n return\n}");
    let e = unsafe { Oracle::new(&p).run(func(&p, "f"), &[]) };
    assert!(matches!(e, Err(OracleError::UnknownSymbol { symbol, .. }) if symbol == "nowhere"));
    let p = program(
        "function %f(i64) system_v {\nsig0 = () system_v\nblock0(v0: i64):\n call_indirect sig0, v0()\n return\n}",
    );
    let e = unsafe { Oracle::new(&p).run(func(&p, "f"), &[DataValue::I64(8)]) };
    assert!(matches!(e, Err(OracleError::BadCallee { address: 8, .. })));
}

#[test]
fn br_table_try_call_and_irreducible_flow() {
    let text = "function %g(i64) -> i64 tail {
    block0(v0: i64):
        v1 = iconst.i64 10
        v2 = imul v0, v1
        return v2
    }
    function %f(i64) -> i64 system_v {
        sig0 = (i64) -> i64 tail
        fn0 = %g(i64) -> i64 tail
    block0(v0: i64):
        v1 = ireduce.i32 v0
        br_table v1, block3, [block1, block2]
    block1:
        try_call fn0(v0), sig0, block4(ret0), []
    block2:
        v2 = iconst.i64 7
        jump block4(v2)
    block3:
        v3 = iconst.i64 -1
        jump block4(v3)
    block4(v4: i64):
        return v4
    }";
    let p = program(text);
    let at = |x| unsafe { Oracle::new(&p).run(func(&p, "f"), &[DataValue::I64(x)]).unwrap()[0].clone() };
    assert_eq!([0, 1, 2, -1].map(at), [0, 7, -1, -1].map(DataValue::I64));
}

#[test]
fn data_objects_and_shared_addresses() {
    let text = "function %f(f64) -> f64 system_v {
        gv0 = symbol colocated %table
    block0(v0: f64):
        v1 = symbol_value.i64 gv0
        v2 = load.f64 v1+8
        store v0, v1
        v3 = load.f64 v1
        v4 = fmul v2, v3
        return v4
    }";
    let mut p = program(text);
    let bytes = [1.0f64, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let key = p
        .define_data(brolga_ir::DataObject {
            symbol: "table".into(),
            bytes,
            align: 64,
            writable: true,
            functions: vec![],
        })
        .expect("a fresh symbol");
    let f = func(&p, "f");
    let args = [OracleArg::active(f64v(2.0))];
    let r = unsafe { Oracle::new(&p).gradient(f, &args, &[f64v(1.0)]) }.unwrap();
    assert_eq!((f64_of(&r.values[0]), f64_of(r.arg_cotangents[0].as_ref().unwrap())), (6.0, 3.0));
    let mut elsewhere = [0.0, 5.0];
    let address = elsewhere.as_mut_ptr() as usize;
    let r = unsafe { Oracle::new(&p).data_address(key, address).run(f, &[f64v(2.0)]) }.unwrap();
    assert_eq!((f64_of(&r[0]), elsewhere), (10.0, [2.0, 5.0]));
}

#[test]
fn buffers_behind_pointers_in_memory() {
    // **p squared, with p a table of pointers.
    let text = "function %f(i64) -> f64 system_v {
    block0(v0: i64):
        v1 = load.i64 v0
        v2 = load.f64 v1
        v3 = fmul v2, v2
        return v3
    }";
    let p = program(text);
    let mut x = [3.0];
    let table = [x.as_mut_ptr() as u64];
    let args = [OracleArg::constant(DataValue::I64(table.as_ptr() as i64))];
    let inner = dup(&mut x, None).buffer.unwrap();
    let r =
        unsafe { Oracle::new(&p).extra_buffer(inner, Some(vec![1.0])).gradient(func(&p, "f"), &args, &[f64v(1.0)]) };
    assert_eq!(r.unwrap().extra_shadows, vec![vec![7.0]]);
}

#[test]
fn signed_carries() {
    let p = program(
        "function %f(i8, i8, i8) -> i8, i8, i8, i8 fast {
    block0(v0: i8, v1: i8, v2: i8):
        v3, v4 = sadd_overflow_cin v0, v1, v2
        v5, v6 = ssub_overflow_bin v0, v1, v2
        return v3, v4, v5, v6
    }",
    );
    for x in -128i16..128 {
        for y in [-128i16, -127, -1, 0, 1, 126, 127] {
            for c in [0i16, 1] {
                let (sum, difference) = (x + y + c, x - y - c);
                let args = [x, y, c].map(|v| DataValue::I8(v as i8));
                let fits = |v: i16| DataValue::I8(i8::from(i8::try_from(v).is_err()));
                let expected = [DataValue::I8(sum as i8), fits(sum), DataValue::I8(difference as i8), fits(difference)];
                assert_eq!(unsafe { Oracle::new(&p).run(func(&p, "f"), &args) }.unwrap(), expected, "{x} {y} {c}");
            }
        }
    }
}
