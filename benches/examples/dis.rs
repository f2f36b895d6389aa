use brolga::cranelift_codegen::Context;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let path = std::path::Path::new(&a[1]);
    let mut file = brolga_driver::File::read(path).unwrap();
    let _ = &mut file;
    let (program, request) = {
        let w = file.wasm.clone();
        match w {
            Some(w) => {
                let (func, ty) = w.module.function(&a[2]).unwrap();
                let act = std::iter::once(brolga::ArgActivity::Duplicated).chain(ty.params().iter().map(|t| {
                    if matches!(format!("{t:?}").as_str(), "F64" | "F32") {
                        brolga::ArgActivity::Active
                    } else {
                        brolga::ArgActivity::Const
                    }
                }));
                (w.module.program().clone(), brolga::Request::new(func, act))
            }
            None => panic!(),
        }
    };
    let restore = a.get(3).is_some_and(|s| s == "r");
    let options = brolga::Options {
        mode: brolga::Mode::Gradient,
        memory: if restore { brolga::MemoryMode::Restore } else { brolga::MemoryMode::Leave },
        ..Default::default()
    };
    let isa = brolga::jit::host_isa(true).unwrap();
    let d = brolga_transform::derive(&program, &request, &options, &*isa).unwrap();
    let want = a.get(4).cloned().unwrap_or_default();
    let mut fs: Vec<_> = d.whole.into_iter().chain(d.wholes).map(|w| (w.symbol, w.func)).collect();
    for p in d.pairs {
        fs.push((p.forward_symbol, p.forward));
        fs.push((p.pullback_symbol, p.pullback));
    }
    for (n, f) in fs {
        if !n.contains(&want) {
            continue;
        }
        let plain = brolga::jit::is_better_plain(&f, true);
        let isa = brolga::jit::host_isa(!plain).unwrap();
        println!("; {n} plain {plain}");
        if a.len() > 5 {
            println!("{}", f.display());
            continue;
        }
        let mut c = Context::for_function(f);
        c.set_disasm(true);
        let code = c.compile(&*isa, &mut Default::default()).unwrap();
        std::fs::write("/tmp/code.bin", code.code_buffer()).unwrap();
        println!("{}", code.vcode.as_deref().unwrap());
    }
}
