//! Calls by way of drivers: each call of each function of `cases` becomes a call of a driver that
//! calls it ([`Driver::Call`]), whose pair is a template. What comes out is, bit for bit, what the
//! ordinary derivation gives.

use brolga::cranelift_codegen::cursor::{Cursor, FuncCursor};
use brolga::cranelift_codegen::ir::{self, ExternalName, InstBuilder, InstructionData, UserFuncName};
use brolga::{DerivedRule, Error, FuncKey, Mode, Options, Program};
use brolga_driver::{Directive, File, Invocation, run};
use brolga_ir::driver::Driver;
use brolga_testing::shares;
use ir_tests::cases::at_least;

/// The program with a driver in each direct call, and how many there are.
fn with_drivers(program: &Program) -> (Program, usize) {
    let mut out = program.clone();
    let mut calls = 0;
    for key in program.funcs.keys() {
        let f = &program.funcs[key];
        // What is undone records its own call only, which would be two.
        let Some(mut body) = f.body.clone().filter(|_| !matches!(f.driver, Some(Driver::Inverse(_)))) else { continue };
        let insts: Vec<ir::Inst> = body.layout.blocks().flat_map(|b| body.layout.block_insts(b)).collect();
        for inst in insts {
            let InstructionData::Call { opcode: ir::Opcode::Call, args, func_ref } = body.dfg.insts[inst] else {
                continue;
            };
            let Some(callee) = program.callee(&body, func_ref) else { continue };
            let Some(driver) = driver(&mut out, program, callee) else { continue };
            let ext = &body.dfg.ext_funcs[func_ref];
            let name = ExternalName::testcase(&driver);
            let ext = ir::ExtFuncData { name, signature: ext.signature, colocated: false, patchable: false };
            let func_ref = body.import_function(ext);
            body.dfg.insts[inst] = InstructionData::Call { opcode: ir::Opcode::Call, args, func_ref };
            calls += 1;
        }
        out.func_mut(key).body = Some(body);
    }
    (out, calls)
}

/// The driver of a function, unless there is more to it than its body.
fn driver(out: &mut Program, program: &Program, callee: FuncKey) -> Option<String> {
    let f = &program.funcs[callee];
    let plain = f.computes.is_none() && f.rule.is_none() && f.adjoint.is_none() && f.allocator.is_none();
    // A pullback that undoes a call has parameters of its own.
    let plain = plain && !matches!(f.driver, Some(Driver::Inverse(_)));
    f.body.as_ref().filter(|_| plain && !f.untracked)?;
    let symbol = format!("{}__driven", f.symbol);
    if out.func(&symbol).is_none() {
        let mut func = ir::Function::with_name_signature(UserFuncName::testcase(&symbol), f.signature.clone());
        let block = func.dfg.make_block();
        func.layout.append_block(block);
        let types: Vec<ir::Type> = f.signature.params.iter().map(|p| p.value_type).collect();
        let params: Vec<ir::Value> = types.into_iter().map(|ty| func.dfg.append_block_param(block, ty)).collect();
        let signature = func.import_signature(f.signature.clone());
        let name = ExternalName::testcase(&f.symbol);
        let driven = func.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
        let mut pos = FuncCursor::new(&mut func).at_bottom(block);
        let call = pos.ins().call(driven, &params);
        let results = pos.func.dfg.inst_results(call).to_vec();
        pos.ins().return_(&results);
        let key = out.define(&symbol, func, |_| 0).expect("the name is new");
        out.func_mut(key).driver = Some(Driver::Call(callee));
    }
    Some(symbol)
}

/// Everything that a run gives, or why it gives nothing.
fn outcome(program: &Program, call: &Invocation, mode: Mode) -> String {
    let options = Options { mode, ..Options::as_calls() };
    match DerivedRule::new(program, &call.request(), &options).and_then(|rule| run::gradient(&rule, call)) {
        Ok(found) => format!("{found:?}"),
        Err(Error::Trap(trap)) => trap.code,
        Err(Error::Diagnostics(found)) => found.0.iter().map(|d| d.code).collect::<Vec<_>>().join(" "),
        Err(other) => other.to_string(),
    }
}

#[test]
fn a_driver_that_calls_is_the_call() {
    let (mut compared, mut drivers, mut wrong) = (0, 0, Vec::new());
    for path in ir_tests::cases::files_but(&["errors", "real", "nested"]).into_iter().step_by(shares(2)) {
        let file = File::read(&path).expect("it is read");
        let (driven, calls) = with_drivers(&file.program);
        if calls == 0 {
            continue;
        }
        drivers += calls;
        for d in &file.directives {
            let Directive::Grad(line) = d else { continue };
            let Ok(call) = Invocation::bind(&file.program, &line.text, &line.call, &line.clauses) else { continue };
            for mode in [Mode::Split, Mode::Combined] {
                let [plain, by_driver] = [&file.program, &driven].map(|p| outcome(p, &call, mode));
                compared += 1;
                if plain != by_driver {
                    wrong.push(format!("{} {} {mode:?}:\n  {plain}\n  {by_driver}", path.display(), line.text));
                }
            }
        }
    }
    println!("{drivers} calls, {compared} runs compared");
    assert!(wrong.is_empty(), "{} of {compared} differ: {}", wrong.len(), wrong[..wrong.len().min(5)].join("\n"));
    assert!(drivers > at_least(100) && compared > at_least(500), "{drivers} {compared}");
}
