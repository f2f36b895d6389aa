//! How long differentiating and compiling take as functions grow.
use brolga::cranelift_codegen::ir::UserFuncName;
use brolga::*;
use std::time::Instant;

fn straight(n: usize) -> String {
    let mut s = String::from("function %f(f64, f64) -> f64 {\nblock0(v0: f64, v1: f64):\n");
    for i in 2..n + 2 {
        let op = ["fadd", "fmul", "fsub"][i % 3];
        s += &format!("    v{i} = {op} v{}, v{}\n", i - 1, i - 2);
    }
    s + &format!("    return v{}\n}}\n", n + 1)
}

fn diamonds(n: usize) -> String {
    let mut s = String::from("function %f(f64, f64) -> f64 {\nblock0(v0: f64, v1: f64):\n    jump block1(v0)\n");
    let mut v = 2;
    for i in 0..n {
        let b = 1 + i * 4;
        s += &format!(
            "block{b}(v{v}: f64):\n    v{} = fmul v{v}, v1\n    v{} = fcmp lt v{v}, v1\n    brif v{}, block{}, block{}\n",
            v + 1,
            v + 2,
            v + 2,
            b + 1,
            b + 2
        );
        s += &format!("block{}:\n    v{} = fadd v{}, v0\n    jump block{}(v{})\n", b + 1, v + 3, v + 1, b + 3, v + 3);
        s += &format!("block{}:\n    v{} = fsub v{}, v0\n    jump block{}(v{})\n", b + 2, v + 4, v + 1, b + 3, v + 4);
        s += &format!("block{}(v{}: f64):\n    jump block{}(v{})\n", b + 3, v + 5, b + 4, v + 5);
        v += 6;
    }
    s + &format!("block{}(v{v}: f64):\n    return v{v}\n}}\n", 1 + n * 4)
}

fn memory(n: usize) -> String {
    let mut s = String::from("function %f(i64) -> f64 {\nblock0(v0: i64):\n    v1 = load.f64 v0\n");
    let mut v = 2;
    for i in 0..n {
        s += &format!(
            "    v{v} = load.f64 v0+{}\n    v{} = fmul v{v}, v{}\n    store v{}, v0+{}\n",
            i % 64 * 8,
            v + 1,
            v - 1,
            v + 1,
            (i * 7) % 64 * 8
        );
        v += 2;
    }
    s + &format!("    return v{}\n}}\n", v - 1)
}

fn main() {
    let n: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(10_000);
    for (what, text) in [("straight", straight(n)), ("diamonds", diamonds(n / 8)), ("memory", memory(n / 3))] {
        let mut p = Program::new();
        for f in cranelift_reader::parse_functions(&text).unwrap() {
            let UserFuncName::Testcase(t) = &f.name else { unreachable!() };
            let name = String::from_utf8_lossy(t.raw()).into_owned();
            p.define(&name, f, |_| 0).unwrap();
        }
        let k = p.func("f").unwrap();
        let args = if what == "memory" { vec![ArgActivity::Duplicated] } else { vec![ArgActivity::Active; 2] };
        let req = Request::new(k, args);
        let o = Options::full();
        let isa = brolga::jit::host_isa(&brolga::Options::full()).unwrap();
        let t = Instant::now();
        let d = brolga_transform::derive(&p, &req, &o, &*isa).unwrap_or_else(|e| panic!("{e}"));
        let derive = t.elapsed();
        let t = Instant::now();
        let r = DerivedRule::from_derivation(d, &req, &o).unwrap_or_else(|e| panic!("{e}"));
        if let Ok(f) = std::env::var("DUMP") {
            std::fs::write(format!("{f}.{what}.clif"), format!("{}\n{}", r.clif().0, r.clif().1)).unwrap();
        }
        if n < 60 {
            println!("{}\n{}", r.clif().0, r.clif().1);
        }
        println!("{what:10} {n:7} derive {derive:9.1?} compile {:9.1?} code {}", t.elapsed(), r.code_bytes());
    }
}
