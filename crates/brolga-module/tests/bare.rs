//! The layer without a module.

use std::borrow::Cow;

use brolga_module::ParamActivity::{Active, Dual, Duplicated};
use brolga_module::bare::{CallRule, CallRules, derivative};
use brolga_module::{Elem, FloatCount, ParamSpec, Spec, UserRule};
use brolga_testing::jit::host_isa;
use brolga_testing::text::function;
use cranelift_codegen::ir;

/// Functions by their numbers: a body, C's sine, and one with a rule.
struct Mine {
    body: ir::Function,
    asked: Vec<u32>,
}

impl CallRules for Mine {
    fn rule(&mut self, caller: &ir::Function, inst: ir::Inst, callee: ir::FuncRef, args: &[ir::Value]) -> CallRule<'_> {
        assert_eq!(caller.dfg.inst_args(inst), args);
        let ir::ExternalName::User(name) = caller.dfg.ext_funcs[callee].name else { panic!("a number") };
        let number = caller.params.user_named_funcs()[name].index;
        self.asked.push(number);
        match number {
            1 => CallRule::Body(Cow::Borrowed(&self.body)),
            2 => CallRule::Known("sin"),
            3 => CallRule::Rule(UserRule::parse("x => z: 7*x").expect("a row")),
            _ => CallRule::Unknown,
        }
    }
}

fn mine() -> Mine {
    // Recursive, and it calls what the root calls.
    let body = "function u0:1(f64, i64) -> f64 {
        fn0 = u0:1(f64, i64) -> f64
        fn1 = u0:2(f64) -> f64
    block0(v0: f64, v1: i64):
        v2 = call fn1(v0)
        brif v1, block1, block2
    block1:
        v3 = iconst.i64 1
        v4 = isub v1, v3
        v5 = call fn0(v2, v4)
        return v5
    block2:
        return v2
    }";
    Mine { body: function(body), asked: vec![] }
}

const ROOT: &str = "function u0:0(f64) -> f64 {
    fn0 = u0:1(f64, i64) -> f64
    fn1 = u0:2(f64) -> f64
    fn2 = u0:3(f64) -> f64
block0(v0: f64):
    v1 = iconst.i64 2
    v2 = call fn0(v0, v1)
    v3 = call fn1(v2)
    v4 = call fn2(v3)
    v5 = call fn2(v4)
    return v5
}";

#[test]
fn calls_mean_what_the_caller_says() {
    for spec in [Spec::gradient([Active]), Spec::tangent([Dual]), Spec::pair([Active])] {
        let mut rules = mine();
        let found = derivative(&function(ROOT), &spec, &mut rules, &*host_isa()).unwrap_or_else(|e| panic!("{e}"));
        rules.asked.sort_unstable();
        assert_eq!(rules.asked, [1, 2, 3], "each name once");
        // What was given keeps its name; the rest is defined, or is C's.
        for f in &found.functions {
            for callee in f.func.dfg.ext_funcs.values() {
                let ir::ExternalName::TestCase(name) = &callee.name else { continue };
                let name = String::from_utf8_lossy(name.raw()).into_owned();
                let defined = found.functions.iter().any(|f| f.symbol == name);
                assert!(defined || matches!(&name[..], "cos" | "memset"), "{name}");
            }
        }
        let all: String = found.functions.iter().map(|f| f.func.to_string()).collect();
        assert!(all.contains("u0:2") && all.contains("u0:3") && all.contains("%cos"), "{all}");
    }
}

/// An output that is consumed asks for nothing that is not given.
#[test]
fn an_output_is_consumed() {
    let text = "function u0:0(f64, i64) {
    block0(v0: f64, v1: i64):
        v2 = load.f64 v1
        v3 = fadd v2, v0
        store v3, v1
        return
    }";
    let output = ParamSpec::from(Duplicated).consumed(Elem::F64, FloatCount::Fixed(1));
    let params = [Active.into(), output];
    for spec in [Spec::gradient(params), Spec::pair(params)] {
        let found = derivative(&function(text), &spec, &mut mine(), &*host_isa()).unwrap_or_else(|e| panic!("{e}"));
        for callee in found.functions.iter().flat_map(|f| f.func.dfg.ext_funcs.values()) {
            let ir::ExternalName::TestCase(name) = &callee.name else { panic!("{:?}", callee.name) };
            let name = String::from_utf8_lossy(name.raw()).into_owned();
            assert!(name == "memset" || found.functions.iter().any(|f| f.symbol == name), "{name}");
        }
    }
}

#[test]
fn what_is_not_known_is_refused() {
    let text = ROOT.replace("u0:3", "u0:9");
    let found = derivative(&function(&text), &Spec::gradient([Active]), &mut mine(), &*host_isa());
    let found = found.expect_err("function 9 is not known").to_string();
    assert!(found.contains("AD0150") && found.contains("u0:9"), "{found}");
}
