//! Tests of the tests: for every promise of [`brolga_driver::protocol`] a rule that breaks it, and
//! the complaint.
//!
//! A rule goes wrong by an edit of its derivation: another function's forward pass, a line of CLIF
//! more in its pullback, or the rule of another memory mode.

use std::path::Path;

use brolga::cranelift_codegen::cursor::{Cursor, FuncCursor};
use brolga::cranelift_codegen::ir::{
    ExternalName, Function, GlobalValueData, InstBuilder, InstructionData, MemFlagsData, Opcode, types,
};
use brolga::{DataObject, DerivedRule, Effort, Error, Inline, MemoryMode, Mode, Options, PassSet, jit};
use brolga_driver::protocol::{Share, violations_of};
use brolga_driver::{Directive, File, Invocation};
use brolga_transform::Derivation;
use ir_tests::mutants::edits::{self, EditKind};
use ir_tests::mutants::worker::MutantTask;
use ir_tests::mutants::{batch, noticed};

/// `x² p[0]`, written over `p[0]`; returns it, and where it is.
const TEXT: &str = "
; grad: %f(1.5, [2.0, 3.0]) shadow 1=[0.25, 0.5] == _
function %f(f64, i64) -> f64, i64 {
block0(v0: f64, v1: i64):
    v2 = load.f64 v1
    v3 = fmul v0, v0
    v4 = fmul v3, v2
    store v4, v1
    v6 = iconst.i64 8
    v5 = iadd v1, v6
    return v4, v5
}
";

/// A file and its only call.
fn subject(text: &str) -> (File, Invocation) {
    let file = File::parse("wrong.clif", text.replace("== _", "== [_, _]")).expect("the text is fine");
    let Some(Directive::Grad(line)) = file.directives.first() else { panic!("a gradient line comes first") };
    let call = Invocation::bind(&file.program, &line.text, &line.call, &line.clauses).expect("it fits");
    (file, call)
}

fn derivation(text: &str, options: &Options) -> Derivation {
    let (file, call) = subject(text);
    let isa = jit::host_isa(options).expect("a supported host");
    brolga_transform::derive::derive(&file.program, &call.request(), options, &*isa).expect("it can be derived")
}

/// What the protocol says of the rule that `spoil` makes of a good derivation.
fn complaints(spoil: impl Fn(&mut Derivation, &Options)) -> String {
    let (file, call) = subject(TEXT);
    let rule = |options: &Options| {
        let mut d = derivation(TEXT, options);
        // Without pairs there is one function, which has a test of its own.
        if !d.pairs.is_empty() {
            spoil(&mut d, options);
        }
        DerivedRule::from_derivation(d, &call.request(), options)
    };
    match violations_of(&file.program, &call, 1e-9, Share::All, &rule) {
        Ok(found) => found.join("\n"),
        Err(e) => e.to_string(),
    }
}

#[track_caller]
fn complains(what: &str, spoil: impl Fn(&mut Derivation, &Options)) {
    let found = complaints(spoil);
    assert!(found.contains(what), "expected `{what}`, got `{found}`");
}

/// The forward pass of another text.
fn forward_of(d: &mut Derivation, options: &Options, from: &str, to: &str) {
    let other = TEXT.replace(from, to);
    assert_ne!(other, TEXT);
    d.pairs[0].forward = derivation(&other, options).pairs[0].forward.clone();
}

/// Go to the return of the pullback.
fn before_return(f: &mut Function) -> FuncCursor<'_> {
    let all: Vec<_> = f.layout.blocks().flat_map(|b| f.layout.block_insts(b)).collect();
    let end = all.into_iter().find(|i| f.dfg.insts[*i].opcode() == Opcode::Return).expect("it returns");
    FuncCursor::new(f).at_inst(end)
}

/// Add to the cotangent of `x` what `make` says.
fn add_to_cotangent(f: &mut Function, make: impl FnOnce(&mut FuncCursor<'_>) -> brolga::cranelift_codegen::ir::Value) {
    let mut c = before_return(f);
    let end = c.current_inst().expect("at the return");
    let more = make(&mut c);
    let old = c.func.dfg.inst_args(end)[0];
    let sum = c.ins().fadd(old, more);
    c.func.dfg.inst_args_mut(end)[0] = sum;
}

#[test]
fn the_right_rule_passes() {
    assert_eq!(complaints(|_, _| {}), "");
}

/// The combined function of another text.
fn one_function_of(from: &str, to: &str) -> String {
    let other = TEXT.replace(from, to);
    assert_ne!(other, TEXT);
    let (file, call) = subject(TEXT);
    let rule = |options: &Options| {
        let d = derivation(if options.mode == Mode::Split { TEXT } else { &other }, options);
        DerivedRule::from_derivation(d, &call.request(), options)
    };
    violations_of(&file.program, &call, 1e-9, Share::All, &rule).expect("nothing fails").join("\n")
}

#[test]
fn one_function_that_does_something_else() {
    let found = one_function_of("return v4, v5", "return v3, v5");
    assert!(found.contains("Combined, Leave: the value is"), "{found}");
    let found = one_function_of("fmul v0, v0", "fadd v0, v0");
    assert!(found.contains("Gradient, Leave: the gradient is"), "{found}");
    assert!(found.contains("Combined, Restore: the gradient is"), "{found}");
    let found = one_function_of("store v4, v1", "store v3, v1");
    assert!(found.contains("Gradient, Leave: one function leaves"), "{found}");
}

#[test]
fn a_pass_that_changes_a_number() {
    let other = TEXT.replace("fmul v0, v0", "fadd v0, v0");
    let (file, call) = subject(TEXT);
    let rule = |options: &Options| {
        let d = derivation(if options.disabled == PassSet::NONE { TEXT } else { &other }, options);
        DerivedRule::from_derivation(d, &call.request(), options)
    };
    let found = violations_of(&file.program, &call, 1e-9, Share::All, &rule).expect("nothing fails").join("\n");
    assert!(found.contains("without {"), "{found}");
}

/// Little effort with calls replaced is what rules are made with at first.
#[test]
fn a_second_tier_that_is_another() {
    let (file, call) = subject(TEXT);
    let other = TEXT.replace("fmul v0, v0", "fadd v0, v0");
    let rule = |options: &Options| {
        let first = options.effort == Effort::Quick && options.inline != Inline::Never;
        let d = derivation(if first { &other } else { TEXT }, options);
        DerivedRule::from_derivation(d, &call.request(), options)
    };
    let found = violations_of(&file.program, &call, 1e-9, Share::All, &rule).expect("nothing fails").join("\n");
    assert!(found.contains("tiers: the gradient is"), "{found}");
}

#[test]
fn inlining_that_changes_something() {
    let text = "
; grad: %f(1.5, [2.0, 3.0]) shadow 1=[0.25, 0.5] == _
function %f(f64, i64) -> f64 {
    fn0 = %square(f64) -> f64
block0(v0: f64, v1: i64):
    v2 = load.f64 v1
    v3 = call fn0(v0)
    v4 = fmul v3, v2
    store v4, v1
    return v4
}
function %square(f64) -> f64 {
block0(v0: f64):
    v1 = fmul v0, v0
    return v1
}
";
    let (file, call) = subject(text);
    for (from, to, complaint) in [
        ("fmul v0, v0", "fadd v0, v0", "of the gradient is"),
        ("return v4", "return v3", "the value is"),
        ("store v4, v1", "store v3, v1", "the derivative leaves"),
    ] {
        let other = text.replace(from, to);
        assert_ne!(other, text);
        let rule = |options: &Options| {
            let d = derivation(if options.inline == Inline::Never { text } else { &other }, options);
            DerivedRule::from_derivation(d, &call.request(), options)
        };
        let found = violations_of(&file.program, &call, 1e-9, Share::All, &rule).expect("nothing fails").join("\n");
        assert!(found.contains(complaint) && (found.contains("with Small") || found.contains("with Auto")), "{found}");
    }
}

#[test]
fn other_results() {
    complains("the forward pass returns", |d, o| forward_of(d, o, "return v4, v5", "return v3, v5"));
}

#[test]
fn an_address_that_points_elsewhere() {
    complains("the forward pass returns", |d, o| forward_of(d, o, "iconst.i64 8", "iconst.i64 0"));
}

#[test]
fn other_contents_after_the_forward_pass() {
    complains("the forward pass leaves", |d, o| forward_of(d, o, "store v4, v1", "store v3, v1"));
}

#[test]
fn memory_that_is_not_as_the_mode_says() {
    let swapped = |o: &Options| {
        let memory = if o.memory == MemoryMode::Leave { MemoryMode::Restore } else { MemoryMode::Leave };
        Options { memory, ..o.clone() }
    };
    let found = complaints(|d, o| *d = derivation(TEXT, &swapped(o)));
    assert!(found.contains("memory leave: the pullback leaves"), "{found}");
    assert!(found.contains("memory restore: the pullback leaves"), "{found}");
}

#[test]
fn a_gradient_that_depends_on_the_mode() {
    complains("the gradient depends on the memory mode", |d, o| {
        if o.memory == MemoryMode::Restore {
            add_to_cotangent(&mut d.pairs[0].pullback, |c| {
                let seed = c.func.dfg.block_params(c.layout().entry_block().expect("it has blocks"))[1];
                c.ins().fadd(seed, seed)
            });
        }
    });
}

/// Counts its runs in a data object that the program knows nothing of, and adds the count.
fn counting(d: &mut Derivation, _: &Options) {
    let counter =
        DataObject { symbol: "counter".to_owned(), bytes: vec![0; 8], align: 8, writable: true, functions: vec![] };
    d.program.define_data(counter).expect("the name is new");
    let f = &mut d.pairs[0].pullback;
    let gv = f.create_global_value(GlobalValueData::Symbol {
        name: ExternalName::testcase("counter"),
        offset: 0.into(),
        colocated: false,
        tls: false,
    });
    add_to_cotangent(f, |c| {
        let p = c.ins().symbol_value(types::I64, gv);
        let n = c.ins().load(types::F64, MemFlagsData::new(), p, 0);
        let one = c.ins().f64const(1.0);
        let more = c.ins().fadd(n, one);
        c.ins().store(MemFlagsData::new(), more, p, 0);
        more
    });
}

#[test]
fn runs_that_differ() {
    complains("a second run gives other bits", counting);
    complains("two threads at once", counting);
}

#[test]
fn a_cotangent_that_is_not_linear() {
    complains("not linear", |d, _| add_to_cotangent(&mut d.pairs[0].pullback, |c| c.ins().f64const(1.0)));
}

#[test]
fn a_pullback_that_spoils_its_tape() {
    complains("a pullback called again", |d, _| {
        let f = &mut d.pairs[0].pullback;
        let all: Vec<_> = f.layout.blocks().flat_map(|b| f.layout.block_insts(b)).collect();
        let load = all.into_iter().find_map(|i| match f.dfg.insts[i] {
            InstructionData::Load { offset, arg, flags, .. }
                if f.dfg.value_type(f.dfg.first_result(i)) == types::F64
                    && f.dfg.mem_flags[flags].trap_code().is_none() =>
            {
                Some((i, arg, offset))
            }
            _ => None,
        });
        let (load, address, offset) = load.expect("x is recorded");
        let mut c = FuncCursor::new(f).after_inst(load);
        let seven = c.ins().f64const(7.0);
        c.ins().store(MemFlagsData::new(), seven, address, offset);
    });
}

#[test]
fn a_shadow_that_is_written_behind_its_end() {
    complains("out of bounds", |d, _| {
        let f = &mut d.pairs[0].pullback;
        for inst in f.layout.blocks().flat_map(|b| f.layout.block_insts(b)).collect::<Vec<_>>() {
            let is_float = f.dfg.inst_args(inst).first().is_some_and(|v| f.dfg.value_type(*v) == types::F64);
            if let InstructionData::Store { offset, .. } = &mut f.dfg.insts[inst]
                && is_float
            {
                *offset = 16.into();
            }
        }
    });
}

/// What the pullback asserts of its stacks.
#[test]
fn a_stack_that_is_not_empty_at_the_end() {
    let text = "
; grad: %f(1.5, 3) == _
function %f(f64, i64) -> f64 {
block0(v0: f64, v1: i64):
    v9 = f64const 0x1.0
    jump block1(v1, v9)
block1(v2: i64, v3: f64):
    v4 = fmul v3, v0
    v8 = iconst.i64 -1
    v5 = iadd v2, v8
    brif v5, block1(v5, v4), block2
block2:
    return v4
}
";
    let (file, call) = subject(text);
    let Some(Directive::Grad(line)) = file.directives.first() else { unreachable!("looked at above") };
    let d = derivation(text, &Options::full());
    let is_cursor = |m: &&edits::Mutant| {
        let half = edits::Half::Pullback;
        m.half == half
            && m.kind == EditKind::NoStore
            && edits::role(half, &d.pairs[m.pair].pullback, m.inst) == "cursor"
    };
    let cursors: Vec<_> = edits::mutants(&d).iter().filter(is_cursor).copied().collect();
    let fates: Vec<_> = cursors
        .iter()
        .map(|m| {
            let wrong = edits::apply(&d, m);
            let rule = |o: &Options| DerivedRule::from_derivation(wrong.clone(), &call.request(), o);
            brolga_ir::panics::catch(|| {
                noticed(&file.program, line, &call, MemoryMode::Leave, &rule).map_err(|e| e.to_string())
            })
        })
        .collect();
    let by_assertion = |f: &Result<_, String>| f.as_ref().is_err_and(|m| m.contains("pops everything"));
    assert!(fates.iter().any(by_assertion), "{} cursors: {fates:?}", cursors.len());
}

/// A sample of what `cargo xtask mutants` tries.
#[test]
fn mutants_of_a_few_pullbacks_are_noticed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let plan = batch::BatchPlan { files: vec!["cases/vector/select".to_owned()], per_subject: 3 };
    let worker = |task: &MutantTask| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mutants"));
        command.arg("--worker").args(task.to_args());
        command
    };
    let report = batch::run(root, &plan, worker).expect("workers start");
    assert!(report.is_ok(), "{}", report.text());
    assert!(report.kinds.values().map(|t| t.tried).sum::<usize>() > 20, "{}", report.text());
}

/// Errors are findings too.
#[test]
fn a_rule_that_does_not_compile_is_an_error() {
    let (file, call) = subject(TEXT);
    let rule = |_: &Options| Err(Error::Usage("there is none".to_owned()));
    assert!(violations_of(&file.program, &call, 1e-9, Share::All, &rule).is_err());
}
