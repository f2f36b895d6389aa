//! Derivatives in an object file, called from C, where there is a C compiler.

use std::process::Command;

use brolga_module::Activity::{Const, Duplicated};
use brolga_module::{AdModule, Output, Spec};
use brolga_testing::module::load;
use cranelift_codegen::settings::{self, Configurable, Flags};
use cranelift_module::{Linkage, default_libcall_names};
use cranelift_object::{ObjectBuilder, ObjectModule};

/// Σ exp(-p0·tᵢ)·p1, over n points.
const TEXT: &str = "function %model(i64, i64, i64) -> f64 {
    fn0 = %exp(f64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = f64const 0.0
    jump block1(v1, v2, v3)
block1(v4: i64, v5: i64, v6: f64):
    v7 = load.f64 v0
    v8 = load.f64 v4
    v9 = fmul v7, v8
    v10 = fneg v9
    v11 = call fn0(v10)
    v12 = load.f64 v0+8
    v13 = fmul v11, v12
    v14 = fadd v6, v13
    v15 = iconst.i64 8
    v16 = iadd v4, v15
    v17 = iconst.i64 1
    v18 = isub v5, v17
    brif v18, block1(v16, v18, v14), block2
block2:
    return v14
}";

#[test]
fn an_object_is_linked_into_a_program_in_c() {
    for pic in ["true", "false"] {
        let mut flags = settings::builder();
        flags.set("is_pic", pic).unwrap();
        flags.set("opt_level", "speed").unwrap();
        let isa = cranelift_native::builder().unwrap().finish(Flags::new(flags)).unwrap();
        let builder = ObjectBuilder::new(isa, "grad", default_libcall_names()).unwrap();
        let mut module = AdModule::new(ObjectModule::new(builder));
        let program = brolga_testing::program(TEXT);
        let loaded = load(&mut module, &program, program.func("model").unwrap()).unwrap();
        let spec = Spec::gradient([Duplicated, Const, Const]).results([Output::ActiveOnly]);
        let embedded = module.derive(loaded.functions["model"], &spec).unwrap();
        module.define(&embedded, &["model_gradient"], Linkage::Export).unwrap();
        let prototype = embedded.signatures[0].prototype("model_gradient");
        let object = module.into_inner().finish().emit().unwrap();

        let dir = std::env::temp_dir().join(format!("brolga-object-{}-{pic}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("grad.o"), object).unwrap();
        let main = format!(
            "#include <stdint.h>\n#include <stdio.h>\n{prototype}\n
            int main(void) {{
                double p[2] = {{0.5, 2.0}}, shadow[2] = {{1.0, 0.0}}, t[3] = {{0.0, 1.0, 2.0}};
                model_gradient((int64_t)p, shadow, (int64_t)t, 3, 1.0);
                printf(\"%.17g %.17g\\n\", shadow[0], shadow[1]);
            }}"
        );
        std::fs::write(dir.join("main.c"), main).unwrap();
        let pie = if pic == "true" { "-pie" } else { "-no-pie" };
        let cc = Command::new("cc").current_dir(&dir).args([pie, "main.c", "grad.o", "-lm", "-o", "main"]).output();
        let Ok(cc) = cc else {
            println!("skipped: there is no `cc`");
            return;
        };
        assert!(cc.status.success(), "{}", String::from_utf8_lossy(&cc.stderr));
        let out = Command::new(dir.join("main")).output().unwrap();
        let out = String::from_utf8(out.stdout).unwrap();
        let numbers: Vec<f64> = out.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let e = |t: f64| (-0.5 * t).exp();
        let want = [1.0 - 2.0 * (e(1.0) + 2.0 * e(2.0)), e(0.0) + e(1.0) + e(2.0)];
        assert!(numbers.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-14), "{numbers:?} {want:?}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
