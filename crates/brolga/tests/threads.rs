//! Functions are verified and compiled side by side: what comes out does not depend on how many
//! threads that takes, and nothing is run that the verifier refuses.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir::{Function, InstructionData, Opcode};
use brolga::{Arg, ArgActivity, DerivedRule, Effort, Error, Mode, Options, Program, Request};
use brolga_testing::program;
use brolga_transform::Derivation;
use brolga_transform::program::codegen_units::UnitRole;

/// A recursion in pairs, functions of several variants, and a long one.
fn text() -> String {
    let chain: String = (0..200).map(|i| format!("v{} = fmul v{}, v0\n", i + 20, i + 19)).collect();
    format!(
        "function %fib(i32, f64, f64) -> f64 system_v {{
            fn0 = %fib(i32, f64, f64) -> f64 system_v
        block0(v0: i32, v1: f64, v2: f64):
            br_table v0, block2, [block1, block1]
        block1:
            return v1
        block2:
            v3 = iconst.i32 1
            v4 = isub v0, v3
            v5 = call fn0(v4, v1, v2)
            v6 = isub v4, v3
            v7 = call fn0(v6, v2, v1)
            v8 = fmul v5, v7
            return v8
        }}
        function %long(f64) -> f64 system_v {{
        block0(v0: f64):
            v19 = fadd v0, v0
            {chain}
            return v219
        }}
        function %root(f64, f64) -> f64 system_v {{
            fn0 = %fib(i32, f64, f64) -> f64 system_v
            fn1 = %long(f64) -> f64 system_v
        block0(v0: f64, v1: f64):
            v2 = iconst.i32 6
            v3 = call fn0(v2, v0, v1)
            v4 = call fn1(v0)
            v5 = f64const 0x1.8p0
            v6 = call fn0(v2, v5, v1)
            v7 = fmul v3, v4
            v8 = fadd v7, v6
            return v8
        }}"
    )
}

fn request(program: &Program) -> Request {
    Request::new(program.func("root").unwrap(), [ArgActivity::Active; 2])
}

fn options(mode: Mode, threads: usize) -> Options {
    Options { mode, threads, ..Options::as_calls() }
}

fn derivation(program: &Program, options: &Options) -> Derivation {
    let isa = brolga::jit::host_isa(options).unwrap();
    brolga_transform::derive(program, &request(program), options, &*isa).unwrap()
}

#[test]
fn threads_make_no_difference() {
    let program = program(&text());
    for (mode, effort) in [(Mode::Split, Effort::Full), (Mode::Gradient, Effort::Full), (Mode::Gradient, Effort::Quick)]
    {
        let found = [1, 2, 0, 1].map(|threads| {
            let options = Options { effort, ..options(mode, threads) };
            let rule = DerivedRule::new(&program, &request(&program), &options).unwrap();
            let float = |x: f64| DataValue::F64(x.into());
            let mut cotangents = vec![];
            let args = [Arg::new(float(0.97)), Arg::new(float(1.02))];
            // SAFETY: there are no pointers.
            unsafe { rule.gradient(&args, &[float(0.5)], &mut vec![], &mut cotangents) }.unwrap();
            let (forward, pullback) = rule.clif();
            (rule.code_bytes(), forward.to_owned(), pullback.to_owned(), cotangents)
        });
        assert!(found.iter().all(|f| *f == found[0]), "{mode:?}: {found:?}");
    }
}

/// Multiply a float by an integer, if there is one.
fn spoil(func: &mut Function) -> bool {
    let insts: Vec<_> = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect();
    let int = insts.iter().find_map(|&i| {
        let v = *func.dfg.inst_results(i).first()?;
        func.dfg.value_type(v).is_int().then_some(v)
    });
    let product = insts.iter().find(|&&i| func.dfg.insts[i].opcode() == Opcode::Fmul);
    let (Some(int), Some(&product)) = (int, product) else { return false };
    let InstructionData::Binary { args, .. } = &mut func.dfg.insts[product] else { unreachable!("it is a product") };
    args[1] = int;
    true
}

/// The function that is compiled for a part.
fn part_of(d: &mut Derivation, at: usize) -> &mut Function {
    let part = d.codegen_units().swap_remove(at);
    match part.role {
        UnitRole::Root => &mut d.combined.as_mut().unwrap().func,
        UnitRole::Joint(i) => &mut d.joint[i].func,
        UnitRole::Forward(i) => &mut d.pairs[i].forward,
        UnitRole::Pullback(i) => &mut d.pairs[i].pullback,
        UnitRole::Entry(i) => &mut d.entries[i].func,
    }
}

#[test]
fn what_does_not_verify_is_not_compiled() {
    let program = program(&text());
    for mode in [Mode::Split, Mode::Gradient] {
        let sound = derivation(&program, &options(mode, 0));
        let isa = brolga::jit::host_isa(&options(mode, 0)).unwrap();
        let mut spoiled = 0;
        for at in 0..sound.codegen_units().len() {
            let mut wrong = sound.clone();
            if !spoil(part_of(&mut wrong, at)) {
                continue;
            }
            spoiled += 1;
            let owner = &program.funcs[wrong.codegen_units()[at].owner].symbol;
            let found = wrong.verify(&*isa).unwrap_err();
            assert!(found.0.iter().all(|d| d.code == "AD0901" && d.function == *owner), "{found}");
            for threads in [1, 0] {
                let result = DerivedRule::from_derivation(wrong.clone(), &request(&program), &options(mode, threads));
                let Err(Error::Diagnostics(found)) = result else { panic!("{mode:?}, {at}: it is compiled") };
                assert!(found.0.iter().all(|d| d.code == "AD0901" && d.function == *owner), "{found}");
            }
        }
        assert!(spoiled > 2, "{mode:?}: {spoiled}");
    }
}

#[test]
fn all_that_does_not_verify_is_told_at_once() {
    let program = program(&text());
    let options = options(Mode::Split, 0);
    let mut wrong = derivation(&program, &options);
    let n = wrong.codegen_units().len();
    let spoiled = (0..n).filter(|&at| spoil(part_of(&mut wrong, at))).count();
    let Err(Error::Diagnostics(found)) = DerivedRule::from_derivation(wrong, &request(&program), &options) else {
        panic!("it is compiled")
    };
    assert_eq!(found.0.len(), spoiled, "{found}");
}
