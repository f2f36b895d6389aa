//! Which calls are replaced by what they call, that programs stay small by it, and what is said of
//! instructions that came by a call. That the numbers are right is what the file tests say.

use std::fmt::Write;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir;
use brolga::{Arg, ArgActivity, DerivedRule, Effort, Error, Inline, Mode, Options, Program, Request, jit};
use brolga_driver::check::Tolerances;
use brolga_driver::check::forward::forward;
use brolga_driver::explain::{ExplainRequest, explain, text};
use brolga_driver::run::gradient;
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::{Directive, File};
use brolga_ir::inst::{AdOp, Check, ClearQuery, Shape};
use brolga_transform::derive_with;

const TEXT: &str = include_str!("../cases/calls/inline.clif");

fn program(text: &str) -> File {
    File::parse("inline.clif", text.to_owned()).expect("it is read")
}

fn options(inline: Inline) -> Options {
    Options { inline, ..Options::full() }
}

/// The request of the first `; grad:` line about a function.
fn request(file: &File, symbol: &str) -> Request {
    let calls = file.directives.iter().filter_map(|d| match d {
        Directive::Grad(line) => file.bind(&line.text, &line.call, &line.clauses).ok(),
        _ => None,
    });
    let func = file.program.func(symbol).expect("it is there");
    calls.map(|c| c.request()).find(|r| r.func == func).expect("it is called")
}

/// The functions that are derived for one: their symbols, direct calls and instructions.
fn derived(file: &File, symbol: &str, inline: Inline) -> Vec<(String, usize, usize)> {
    derived_for(&file.program, &request(file, symbol), inline)
}

fn derived_for(program: &Program, request: &Request, inline: Inline) -> Vec<(String, usize, usize)> {
    let isa = jit::host_isa(&brolga::Options::full()).expect("there is a host");
    let mut out = Vec::new();
    derive_with(program, request, &options(inline), &*isa, |s| {
        let func = s.facts.func();
        let insts: Vec<ir::Inst> = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect();
        let is_call = |i: &&ir::Inst| func.dfg.insts[**i].opcode() == ir::Opcode::Call;
        let calls = insts.iter().filter(is_call).count();
        out.push((s.facts.program.funcs[s.facts.variant.func].symbol.clone(), calls, insts.len()));
    })
    .expect("it can be derived");
    out
}

/// Direct calls that stay in a function.
fn calls(file: &File, symbol: &str, inline: Inline) -> usize {
    derived(file, symbol, inline)[0].1
}

#[test]
fn calls_of_short_functions_are_gone() {
    let file = program(TEXT);
    for (symbol, without, with) in [
        ("levels", 2, 0),
        ("matvec", 1, 0),
        ("slots_in_loop", 1, 0),
        ("scale_twice", 2, 0),
        ("own_memory", 3, 0),
        ("spread", 1, 0),
        ("uses_first_above", 1, 0),
        ("may_trap", 1, 0),
        ("may_fail", 1, 0),
        ("tail_first", 2, 0),
        // Itself, and the function with a slot.
        ("power", 3, 2),
        ("calls_power", 2, 1),
        ("by_name_and_pointer", 1, 0),
        ("idle", 2, 0),
    ] {
        assert_eq!(calls(&file, symbol, Inline::Never), without, "%{symbol}");
        assert_eq!(calls(&file, symbol, Inline::SMALL), with, "%{symbol}");
    }
    // Nothing is derived that is called no more.
    let symbols: Vec<String> = derived(&file, "own_memory", Inline::SMALL).into_iter().map(|d| d.0).collect();
    assert_eq!(symbols, ["own_memory"]);
}

#[test]
fn straight_code_stays_one_block() {
    let file = program(TEXT);
    let isa = jit::host_isa(&brolga::Options::full()).expect("there is a host");
    let request = request(&file, "levels");
    let mut blocks = Vec::new();
    let look = |s: &brolga_transform::Stages<'_>| blocks.push(s.facts.cfg.blocks.len());
    derive_with(&file.program, &request, &options(Inline::SMALL), &*isa, look).expect("it can be derived");
    assert_eq!(blocks, [1]);
}

/// What a callee is, and how many calls of it stay.
#[test]
fn what_would_mean_something_else_stays() {
    let small = "block0(v0: i64, v1: f64):\n    v2 = fmul v1, v1\n    return v2\n}\n";
    let bodies = [
        ("short", "system_v {\n", small, 0),
        (
            "with a slot that is too large",
            "system_v {\n    ss0 = explicit_slot 2048\n",
            "block0(v0: i64, v1: f64):\n    v2 = stack_addr.i64 ss0\n    store v1, v2\n    return v1\n}\n",
            1,
        ),
        (
            "with a slot",
            "system_v {\n    ss0 = explicit_slot 8\n",
            "block0(v0: i64, v1: f64):\n    v2 = stack_addr.i64 ss0\n    store v1, v2\n    return v1\n}\n",
            0,
        ),
        (
            "recursive",
            "system_v {\n    fn0 = %callee(i64, f64) -> f64 system_v\n",
            "block0(v0: i64, v1: f64):\n    brif v0, block1, block2\nblock1:\n    v2 = iconst.i64 0\n    v3 = call fn0(v2, v1)\n    return v3\nblock2:\n    return v1\n}\n",
            1,
        ),
        (
            "with a symbol",
            "system_v {\n    gv0 = symbol %table\n",
            "block0(v0: i64, v1: f64):\n    v2 = symbol_value.i64 gv0\n    v3 = load.f64 v2\n    v4 = fmul v1, v3\n    return v4\n}\n",
            0,
        ),
    ];
    for (what, head, body, stay) in bodies {
        let text = format!(
            "; data: %table = f64[3.0]\n; grad: %caller(2.0) == [_]\nfunction %callee(i64, f64) -> f64 {head}{body}\
             function %caller(f64) -> f64 system_v {{\n    fn0 = %callee(i64, f64) -> f64 system_v\nblock0(v0: f64):\n    \
             v1 = iconst.i64 1\n    v2 = call fn0(v1, v0)\n    v3 = fadd v2, v0\n    return v3\n}}\n"
        );
        assert_eq!(calls(&program(&text), "caller", Inline::SMALL), stay, "a callee {what}");
    }
}

/// Where only an instance is a pointer, it must be the caller's.
#[test]
fn another_instance_stays() {
    for (instance, stay) in [("v0", 0), ("v3", 1)] {
        let mut file = program(&format!(
            "\
; grad: %caller([1.0, 2.0], 2.0) == [_, _]
function %callee(i64 vmctx, f64) -> f64 system_v {{
    gv0 = vmctx
    gv1 = load.i64 notrap aligned gv0
    stack_limit = gv1
block0(v0: i64, v1: f64):
    v2 = load.f64 v0
    v3 = fmul v1, v2
    return v3
}}
function %caller(i64 vmctx, f64) -> f64 system_v {{
    fn0 = %callee(i64 vmctx, f64) -> f64 system_v
block0(v0: i64, v1: f64):
    v2 = iconst.i64 8
    v3 = iadd v0, v2
    v4 = call fn0({instance}, v1)
    return v4
}}
"
        ));
        let request = request(&file, "caller");
        for (only, stay) in [(true, stay), (false, 0)] {
            file.program.vmctx_pointers_only = only;
            assert_eq!(derived_for(&file.program, &request, Inline::SMALL)[0].1, stay, "{instance}, {only}");
        }
    }
}

/// A program that would be refused with inlining is not: what is called with nothing active may do
/// as it likes.
#[test]
fn what_harms_is_not_replaced() {
    let text = include_str!("../cases/bits/atomics.clif");
    let file = program(text);
    assert_eq!(calls(&file, "beside_updates", Inline::SMALL), 1);
    // Other functions of the same program are replaced all the same.
    let text = text.replace(
        "    v2 = fmul v0, v1\n    return v2\n}\nfunction %updated",
        "    v3 = call fn1(v0)\n    v2 = fmul v3, v1\n    return v2\n}\nfunction %same(f64) -> f64 system_v {\nblock0(v0: f64):\n    \
         return v0\n}\nfunction %updated",
    );
    let text = text.replace("    fn0 = %updated()", "    fn1 = %same(f64) -> f64 system_v\n    fn0 = %updated()");
    assert_eq!(calls(&program(&text), "beside_updates", Inline::Never), 2);
    assert_eq!(calls(&program(&text), "beside_updates", Inline::SMALL), 1);
}

/// A chain of functions that call the next one `times` times each.
fn chain(length: usize, times: usize) -> String {
    let mut out = "; grad: %f0(1.5) == [_]\n".to_owned();
    for k in 0..length {
        writeln!(out, "function %f{k}(f64) -> f64 system_v {{").unwrap();
        if k + 1 < length {
            writeln!(out, "    fn0 = %f{}(f64) -> f64 system_v", k + 1).unwrap();
        }
        writeln!(out, "block0(v0: f64):\n    v1 = fmul v0, v0").unwrap();
        if k + 1 < length {
            for i in 0..times {
                writeln!(out, "    v{} = call fn0(v{})", i + 2, i + 1).unwrap();
            }
        }
        writeln!(out, "    return v{}\n}}", if k + 1 < length { times + 1 } else { 1 }).unwrap();
    }
    out
}

fn total(found: &[(String, usize, usize)]) -> usize {
    found.iter().map(|f| f.2).sum()
}

#[test]
fn growth_is_bounded() {
    // 2^40 multiplications, and 3^200.
    for (length, times) in [(40, 2), (200, 3)] {
        let file = program(&chain(length, times));
        let (without, with) =
            (total(&derived(&file, "f0", Inline::Never)), total(&derived(&file, "f0", Inline::SMALL)));
        assert!(with <= 40 * without, "{length} functions with {without} instructions have {with}");
        assert!(derived(&file, "f0", Inline::SMALL).iter().all(|f| f.2 <= 100 * times + 100));
    }
    // As many calls as there is room for, and no more.
    let file = program(&chain(2, 600));
    let inline = Inline::Small { callee: 100, single_call: 0, growth: 50 };
    let found = derived(&file, "f0", inline);
    assert!(found[0].1 > 0 && found[0].2 <= 2 * 602 + 50, "{found:?}");
    // All functions together grow to no more than twice their length and ten thousand instructions.
    let leaf: String = (1..90).map(|i| format!("    v{i} = fmul v0, v{}\n", i - 1)).collect();
    let mut text = format!(
        "; grad: %f0(1.5) == [_]\nfunction %leaf(f64) -> f64 system_v {{\nblock0(v0: f64):\n{leaf}    return v89\n}}\n"
    );
    for k in 0..100 {
        let next = if k < 99 { format!("    fn1 = %f{}(f64) -> f64 system_v\n", k + 1) } else { String::new() };
        let calls: String = (1..10).map(|i| format!("    v{i} = call fn0(v{})\n", i - 1)).collect();
        let last = if k < 99 { "    v10 = call fn1(v9)\n    return v10\n}\n" } else { "    return v9\n}\n" };
        write!(text, "function %f{k}(f64) -> f64 system_v {{\n    fn0 = %leaf(f64) -> f64 system_v\n{next}block0(v0: f64):\n{calls}{last}").unwrap();
    }
    let file = program(&text);
    let length = total(&derived(&file, "f0", Inline::Never));
    let found = derived(&file, "f0", Inline::SMALL);
    assert!((10_000..2 * length + 10_000).contains(&total(&found)), "{length} became {}", total(&found));
    assert!(found.iter().any(|f| f.0 == "leaf"));
}

/// Functions of which nothing is left but what they declare: 3^60 calls of the identity.
#[test]
fn what_becomes_nothing_does_not_grow_either() {
    let mut out = "; grad: %f0(1.5) == [_]\n".to_owned();
    for k in 0..60 {
        let next = k + 1;
        match k {
            59 => writeln!(out, "function %f59(f64) -> f64 system_v {{\nblock0(v0: f64):\n    return v0\n}}").unwrap(),
            _ => writeln!(
                out,
                "function %f{k}(f64) -> f64 system_v {{\n    fn0 = %f{next}(f64) -> f64 system_v\nblock0(v0: f64):\n    \
                 v1 = call fn0(v0)\n    v2 = call fn0(v1)\n    v3 = call fn0(v2)\n    return v3\n}}"
            )
            .unwrap(),
        }
    }
    let found = derived(&program(&out), "f0", Inline::SMALL);
    assert!(found.len() > 1 && total(&found) < 1500, "{found:?}");
}

/// A chain of functions that do nothing but call the next one.
#[test]
fn a_long_chain_is_told_in_few_words() {
    let file = program(&chain(400, 1));
    let found = derived(&file, "f0", Inline::SMALL);
    assert!(found.len() > 2 && total(&found) < 6000, "{found:?}");
}

#[test]
fn a_diagnostic_names_the_callee() {
    let text = "\
; error: %outer AD0110
function %inner(f64) -> f64 system_v {
block0(v0: f64):
    v1 = bitcast.i64 v0
    v2 = imul v1, v1
    v3 = bitcast.f64 v2
    return v3
}
function %middle(f64) -> f64 system_v {
    fn0 = %inner(f64) -> f64 system_v
block0(v0: f64):
    v1 = call fn0(v0)
    return v1
}
function %outer(f64) -> f64 system_v {
    fn0 = %middle(f64) -> f64 system_v
block0(v0: f64):
    v1 = fmul v0, v0
    v2 = call fn0(v1)
    return v2
}
";
    let file = program(text);
    let request = Request::new(file.program.func("outer").expect("it is there"), [ArgActivity::Active]);
    let refused = |inline| match DerivedRule::new(&file.program, &request, &options(inline)) {
        Err(Error::Diagnostics(d)) => d,
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("there is a derivative"),
    };
    // What is refused, and how that is told, does not depend on inlining.
    let (without, with) = (refused(Inline::Never), refused(Inline::SMALL));
    assert_eq!(without, with);
    assert_eq!(with.0.len(), 1, "{with}");
    assert_eq!((with.0[0].function.as_str(), with.0[0].line), ("inner", Some(6)), "{with}");
}

#[test]
fn a_trap_names_the_callee_and_the_calls() {
    let text = "\
; grad: %outer(7, 2, 1.5) == [_, _, _]
function %inner(i32, i32) -> i32 system_v {
block0(v0: i32, v1: i32):
    v2 = sdiv v0, v1
    return v2
}
function %middle(i32, i32, f64) -> f64 system_v {
    fn0 = %inner(i32, i32) -> i32 system_v
block0(v0: i32, v1: i32, v2: f64):
    v3 = call fn0(v0, v1)
    v4 = fcvt_from_sint.f64 v3
    v5 = fmul v2, v4
    return v5
}
function %outer(i32, i32, f64) -> f64 system_v {
    fn0 = %middle(i32, i32, f64) -> f64 system_v
block0(v0: i32, v1: i32, v2: f64):
    v3 = call fn0(v0, v0, v2)
    v4 = call fn0(v0, v1, v3)
    return v4
}
";
    let file = program(text);
    let activity = [ArgActivity::Const, ArgActivity::Const, ArgActivity::Active];
    let request = Request::new(file.program.func("outer").expect("it is there"), activity);
    let values = [DataValue::I32(7), DataValue::I32(0), DataValue::F64(1.5.into())];
    for (mode, phase) in [(Mode::Split, "forward"), (Mode::Combined, "gradient")] {
        let options = Options { mode, ..options(Inline::SMALL) };
        let rule = DerivedRule::new(&file.program, &request, &options).expect("it can be derived");
        // SAFETY: there are no pointers.
        let error = match mode {
            Mode::Split => unsafe { rule.forward(&values.clone().map(Arg::new)) }.err(),
            _ => {
                let (mut value, mut cotangents) = (Vec::new(), Vec::new());
                let args = values.clone().map(Arg::new);
                unsafe { rule.gradient(&args, &[DataValue::F64(1.0.into())], &mut value, &mut cotangents) }.err()
            }
        };
        let Some(Error::Trap(trap)) = error else { panic!("it traps") };
        assert_eq!(
            trap.to_string(),
            format!(
                "trap int_divz: an integer was divided by zero\n  --> %inner, block0, inst0, line 4 ({phase})\n   |  \
                 v2 = sdiv.i32 v0, v1\n  note: inlined into %middle, block0, inst0, line 10\n  note: inlined into %outer, block0, \
                 inst1, line 19"
            )
        );
        // The primal is as the user wrote it.
        // SAFETY: there are no pointers.
        let Err(Error::Trap(trap)) = (unsafe { rule.primal(&values) }) else { panic!("it traps") };
        assert_eq!((trap.function.as_str(), trap.line, trap.inlined.len()), ("inner", Some(4), 0));
    }
}

#[test]
fn an_explanation_names_the_callee() {
    let file = program(TEXT);
    let line = "%matvec([1.0, 2.0, 3.0, 4.0], [5.0, 6.0], [0.0, 0.0], 2) shadow 2=[0.5, 2.0]";
    let (parsed, clauses) = brolga_driver::text::directive::call_with_clauses(line).expect("it is a call");
    let call = file.bind(line, &parsed, &clauses).expect("it fits");
    let wanted = ExplainRequest { top: 4, inline: Inline::SMALL, mode: Mode::Split, ..ExplainRequest::default() };
    let found = text::text(line, &explain(&file.program, &call, wanted).expect("it runs"));
    let plan = found.split("\nRecorded").nth(1).expect("it is said what is recorded");
    assert!(plan.contains("block2 of %dot (line "), "{plan}");
    assert!(plan.contains("entered 4 times by all calls"), "{plan}");
    assert!(plan.contains("`v12 = load.f64 v10` of %dot (line "), "{plan}");
    assert!(!plan.contains("%dot: "), "{plan}");
}

#[test]
fn what_is_replaced_unless_an_option_says() {
    // As many instructions as are said, with the one that returns.
    let squares = |n: usize| {
        let mut body = String::new();
        for i in 1..n {
            writeln!(body, "    v{i} = fmul v{}, v{}", i - 1, i - 1).expect("a string grows");
        }
        format!(
            "; grad: %f(1.0) == [_]
function %f(f64) -> f64 {{
    fn0 = %g(f64) -> f64
block0(v0: f64):
    v1 = call fn0(v0)
    v2 = call fn0(v1)
    return v2
}}
function %g(f64) -> f64 {{
block0(v0: f64):
{body}    return v{}
}}
",
            n - 1
        )
    };
    for (n, inline, effort, stays) in [
        (40, Inline::Auto, Effort::Full, false),
        (41, Inline::Auto, Effort::Full, true),
        (40, Inline::Auto, Effort::Quick, true),
        (40, Inline::Never, Effort::Full, true),
        // A caller that asks for it gets it.
        (41, Inline::SMALL, Effort::Quick, false),
    ] {
        let file = program(&squares(n));
        let (request, isa) = (request(&file, "f"), jit::host_isa(&Options::full()).expect("there is a host"));
        let options = Options { inline, effort, ..Options::full() };
        let derived = brolga_transform::derive(&file.program, &request, &options, &*isa).expect("it can be derived");
        assert_eq!(derived.normalised.len() > 1, stays, "{n} instructions, {inline:?}, {effort:?}");
    }
}

/// Instructions of the user at which a derivation checks that no cotangent is lost.
fn checked(program: &Program, request: &Request, options: &Options) -> Vec<(String, ir::Inst)> {
    let isa = jit::host_isa(options).expect("there is a host");
    let mut out = Vec::new();
    derive_with(program, request, options, &*isa, |s| {
        for (&inst, stmt) in s.stmts.iter() {
            let loses = |op: &AdOp| match op {
                AdOp::TrapIf(_, check) => *check == Check::UntrackedBits,
                AdOp::ZeroMem { asks, .. } => matches!(asks, ClearQuery::Zero | ClearQuery::Bits),
                AdOp::AddMem { shape, .. } => matches!(shape, Shape::Bytes { .. }),
                _ => false,
            };
            let mut ops = stmt.before.values().chain(stmt.after.values()).chain(stmt.rvs.values());
            if ops.any(|i| loses(&i.op)) {
                let origin = s.facts.program.origin(s.facts.variant.func, s.facts.original(inst));
                out.push((s.facts.program.funcs[origin.func].symbol.clone(), origin.inst));
            }
        }
    })
    .expect("it can be derived");
    out
}

#[test]
fn nothing_is_checked_that_is_not_without() {
    // Numbers of which a caller sees that they may be bits, and the function that has them does
    // not.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/wasm/O0/robust.wasm");
    let file = File::read(path.as_ref()).expect("it is read");
    let text = "%robust_loss(6, [0.0, 0.1, 1.0, 1.3, 2.0, 1.8, 3.0, 6.0, 4.0, 4.2, 5.0, 4.9], 1, 0.5)";
    let (call, clauses) = call_with_clauses(text).expect("it is a call");
    let request = file.bind(text, &call, &clauses).expect("the call fits").request();
    let with = |inline| checked(&file.program, &request, &Options { inline, ..file.options() });
    let (plain, inlined) = (with(Inline::Never), with(Inline::Auto));
    assert!(inlined.iter().all(|c| plain.contains(c)), "{inlined:?} but {plain:?} as it is written");
}

/// Addresses of memory that a function, or a caller of it, has made for itself are followed through
/// calls, too. Seen to fail: each line, where the reverse reads again through any address that is
/// not known, or where a tangent that is not known is taken for a shadow.
#[test]
fn what_functions_make_for_themselves_without_inlining() {
    let file = program(include_str!("../cases/memory/unplain.clif"));
    let mut calls = 0;
    for line in file.directives.iter().filter_map(|d| if let Directive::Grad(line) = d { Some(line) } else { None }) {
        let call = file.bind(&line.text, &line.call, &line.clauses).expect("the call fits");
        let rules = |mode, width| {
            DerivedRule::new(&file.program, &call.request(), &Options { mode, width, ..options(Inline::Never) })
        };
        let outcome = rules(Mode::Combined, 1).and_then(|rule| gradient(&rule, &call)).expect("it runs");
        let tolerances = Tolerances::of(&file.program, &call, None);
        let found = forward(&file.program, &call, &outcome, &rules, tolerances, true).expect("it runs");
        assert_eq!(found.holds, Some(true), "{}: {found:?}", line.text);
        calls += 1;
    }
    assert_eq!(calls, 10);
}
