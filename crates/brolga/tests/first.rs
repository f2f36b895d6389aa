//! Smoke.
use brolga::cranelift_codegen::data_value::DataValue;
use brolga::*;
fn prog(text: &str) -> Program {
    let fs = cranelift_reader::parse_functions(text).unwrap();
    let mut p = Program::new();
    for f in fs {
        let name = match &f.name {
            cranelift_codegen::ir::UserFuncName::Testcase(t) => String::from_utf8_lossy(t.raw()).into_owned(),
            _ => panic!(),
        };
        p.define(&name, f, |_| 0).unwrap();
    }
    p
}
fn grad(p: &Program, name: &str, args: &[f64]) -> (Vec<DataValue>, Vec<f64>) {
    let k = p.func(name).unwrap();
    let req = Request::new(k, vec![ArgActivity::Active; args.len()]);
    let r = DerivedRule::new(p, &req, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    println!("{}\n{}", r.clif().0, r.clif().1);
    let a: Vec<Arg> = args.iter().map(|&x| Arg::new(DataValue::F64(x.into()))).collect();
    let (v, mut pb) = unsafe { r.forward(&a) }.unwrap();
    let g = unsafe { pb.call(&[DataValue::F64(1.0.into())]) }.unwrap();
    println!("{v:?} {g:?} tape {}", pb.tape_bytes());
    (
        v,
        g.into_iter()
            .map(|x| match x {
                Some(DataValue::F64(f)) => f.as_f64(),
                _ => f64::NAN,
            })
            .collect(),
    )
}
#[test]
fn product() {
    let p = prog(
        "function %f(f64, f64) -> f64 { fn0 = %sin(f64) -> f64\nblock0(v0: f64, v1: f64): v2 = fmul v0, v1\n v3 = call fn0(v2)\n return v3 }",
    );
    let (_, g) = grad(&p, "f", &[1.5, 0.5]);
    assert!((g[0] - 0.75f64.cos() * 0.5).abs() < 1e-12);
}
#[test]
fn power() {
    let p = prog(
        "function %pow(f64) -> f64 {\nblock0(v0: f64): v1 = iconst.i64 5\n v2 = f64const 0x1.0\n jump block1(v1, v2)\nblock1(v3: i64, v4: f64): v5 = fmul v4, v0\n v6 = iconst.i64 -1\n v7 = iadd v3, v6\n brif v7, block1(v7, v5), block2(v5)\nblock2(v8: f64): return v8 }",
    );
    let (_, g) = grad(&p, "pow", &[1.5]);
    assert!((g[0] - 5.0 * 1.5f64.powi(4)).abs() < 1e-12);
}
