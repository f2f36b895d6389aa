//! Pruning changes nothing that can be seen: whole programs run before and after it, in the
//! oracle's interpreter.
//!
//! A program as written has little in it that is dead. So before both runs something is cut out of
//! it: results become constants, stores of floats go. What only served those is dead then, often
//! whole loops and branches, and `prune` has to find it without touching the rest. Programs are the
//! files of `cases` and `real`, and generated ones, whose arbitrary graphs of blocks are
//! irreducible as often as not.

use std::path::Path;

use brolga::cranelift_codegen::ir::{self, InstructionData, Opcode, TrapCode};
use brolga::cranelift_codegen::isa::OwnedTargetIsa;
use brolga::cranelift_codegen::settings::{self, Flags};
use brolga::{PassSet, Program};
use brolga_analysis::memory::alias::Places;
use brolga_analysis::uses::Uses;
use brolga_analysis::{Blocks, Cfg, PrivateMemory};
use brolga_driver::run::contents;
use brolga_driver::value::Num;
use brolga_driver::{Directive, File, Invocation, Memory};
use brolga_ir::block::{CfgBlocks, Fragment, Ids, Term};
use brolga_ir::inst::{AdInst, AdOp, Arith, Shape, Val};
use brolga_ir::lift::lift;
use brolga_ir::lower::{LowerEnv, lower};
use brolga_ir::names::Names;
use brolga_oracle::generate::{Feature, Size, Source, program};
use brolga_oracle::interp::to_bits;
use brolga_oracle::{Limits, Oracle, OracleError};
use brolga_testing::{asked, budget, is_quick};
use brolga_transform::dce::{KnownPrimal, prune};
use brolga_transform::primal::mem2reg::CalleeWrites;
use brolga_transform::primal::normalise::{PrimalCx, normalise};

/// What to cut out of a program, in per cent.
#[derive(Clone, Copy)]
struct Cuts {
    /// From all functions, not only from the one that is called.
    everywhere: bool,
    /// Results that become constants.
    results: usize,
    /// Stores that go.
    stores: usize,
    /// What they store becomes a constant instead. Without a store, a program may see what was
    /// there before: an address, or what is in fresh memory, neither of which is the same in two
    /// runs.
    replace: bool,
}

/// How much was seen, so that a test that sees nothing fails.
#[derive(Default, Debug)]
struct Seen {
    calls: usize,
    traps: usize,
    insts: usize,
    pruned_insts: usize,
    branches: usize,
    pruned_branches: usize,
}

fn host() -> OwnedTargetIsa {
    let name = if cfg!(target_arch = "aarch64") { "aarch64" } else { "x86_64" };
    let mut flags = settings::builder();
    settings::Configurable::set(&mut flags, "enable_multi_ret_implicit_sret", "true").unwrap();
    brolga::cranelift_codegen::isa::lookup_by_name(name).unwrap().finish(Flags::new(flags)).unwrap()
}

/// Cut something out of a lifted function. What is left is still a program that ends and stays in
/// its buffers.
fn cut(graph: &mut CfgBlocks, func: &ir::Function, ids: &mut Ids, source: &mut Source, cuts: Cuts) {
    let float = |v: ir::Value| Shape::of_float(func.dfg.value_type(v));
    let constant = |shape: Shape, insts: &mut Fragment, ids: &mut Ids| {
        let v = Val::D(ids.dv());
        let op = AdOp::Arith(Arith::Const(0.5), Default::default(), shape.ty());
        insts.insert(ids.inst(), AdInst { defs: [(v, shape.ty())].into(), op, at: None });
        v
    };
    for block in graph.blocks.values_mut() {
        for (id, mut inst) in std::mem::take(&mut block.insts) {
            if let AdOp::Primal(i) = inst.op
                && let InstructionData::Store { opcode: Opcode::Store, args, offset, .. } = func.dfg.insts[i]
                && let Some(shape) = float(args[0])
                && source.chance(cuts.stores)
            {
                if !cuts.replace {
                    continue;
                }
                let value = constant(shape, &mut block.insts, ids);
                inst.op = AdOp::StoreOld { addr: Val::Primal(args[1]), off: offset.into(), value };
            }
            block.insts.insert(id, inst);
        }
        if let Term::Return(vs) = &mut block.term {
            for v in vs {
                let Val::Primal(p) = *v else { continue };
                if let Some(shape) = float(p).filter(|_| source.chance(cuts.results)) {
                    *v = constant(shape, &mut block.insts, ids);
                }
            }
        }
    }
}

fn count(graph: &CfgBlocks) -> (usize, usize) {
    let insts = graph.blocks.values().map(|b| b.insts.len()).sum();
    let branches = graph.blocks.values().filter(|b| matches!(b.term, Term::If(..) | Term::Table(..))).count();
    (insts, branches)
}

/// The program with something cut out of it, and the same pruned.
fn cut_and_pruned(
    file: &File,
    call: &Invocation,
    cuts: Cuts,
    source: &mut Source,
    seen: &mut Seen,
) -> Option<(Program, Program)> {
    let isa = host();
    let (mut plain, mut pruned) = (file.program.clone(), file.program.clone());
    for (key, f) in &file.program.funcs {
        if f.body.is_none() {
            continue;
        }
        let program = &file.program;
        let callees = &CalleeWrites::new(program);
        let cx = PrimalCx { program, key, callees, enabled: PassSet::ALL, isa: &*isa };
        let func = normalise(f.body.clone()?, cx).ok()?.func;
        let cfg = Cfg::compute(&func);
        let places = Places { program: &file.program, func: &func, cfg: &cfg, blocks: &Blocks::default() };
        let private = PrivateMemory::compute(places, &Uses::compute(&func, &cfg), &[]);
        let mut ids = Ids::default();
        let (mut graph, _) = lift(&func, &f.symbol, &mut ids);
        if cuts.everywhere || key == call.func {
            cut(&mut graph, &func, &mut ids, source, cuts);
        }
        let before = count(&graph);
        for (program, is_pruned) in [(&mut plain, false), (&mut pruned, true)] {
            if is_pruned {
                let pure = |i: ir::Inst| {
                    matches!(func.dfg.insts[i], InstructionData::Load { .. }) || private.writes(i).is_some()
                };
                prune(&mut graph, KnownPrimal { primal: &func, pure: &pure, private: &private });
            }
            let lowered = lower(&graph, LowerEnv::of_primal(&func, &mut Names::verbatim(), isa.frontend_config()));
            if let Err(e) = brolga::cranelift_codegen::verify_function(&lowered, &*isa) {
                panic!("{}, {}, pruned: {is_pruned}: {e}\n{lowered}", file.name, f.symbol);
            }
            program.func_mut(key).body = Some(lowered);
        }
        let after = count(&graph);
        seen.insts += before.0;
        seen.branches += before.1;
        seen.pruned_insts += before.0 - after.0;
        seen.pruned_branches += before.1 - after.1;
    }
    Some((plain, pruned))
}

type Outcome = (Result<Vec<u128>, OracleError>, Vec<Option<Vec<Num>>>);

fn run(program: &Program, call: &Invocation) -> Outcome {
    let memory = Memory::new(call).expect("blocks of its own need no instance");
    let limits = Limits { fuel: 20_000_000, ..Limits::default() };
    // SAFETY: the arguments point to live blocks; a program that leaves them was not written for
    // these tests.
    let values = unsafe { Oracle::new(program).limits(limits).run(call.func, &memory.values()) };
    assert_eq!(memory.damage(), None);
    (values.map(|vs| vs.iter().map(to_bits).collect()), contents(call, &memory))
}

/// Run all calls of a file before and after pruning.
fn compare(file: &File, cuts: Cuts, source: &mut Source, seen: &mut Seen) {
    for directive in &file.directives {
        let line = match directive {
            Directive::Grad(l) => (&l.text, &l.call, &l.clauses),
            Directive::Trap(l) => (&l.text, &l.call, &l.clauses),
            _ => continue,
        };
        let Ok(call) = Invocation::bind(&file.program, line.0, line.1, line.2) else { continue };
        let Some((plain, pruned)) = cut_and_pruned(file, &call, cuts, source, seen) else { continue };
        let (expected, got) = (run(&plain, &call), run(&pruned, &call));
        match &expected.0 {
            Ok(_) => seen.calls += 1,
            // A load that is not needed is not executed, so it does not fault. Every other trap
            // happens.
            Err(OracleError::Trap { code, .. }) if *code != TrapCode::HEAP_OUT_OF_BOUNDS => {
                seen.traps += 1;
                let same = matches!(&got.0, Err(OracleError::Trap { code: c, .. }) if c == code);
                assert!(same, "{}: {}: trap {code}, then {:?}\n{}", file.name, line.0, got.0, file.text);
                continue;
            }
            Err(_) => continue,
        }
        let same = got.0 == expected.0 && format!("{:?}", got.1) == format!("{:?}", expected.1);
        assert!(same, "{}: {}\n{expected:?}\n{got:?}\n{}", file.name, line.0, file.text);
    }
}

#[test]
fn programs_that_people_wrote() {
    let mut seen = Seen::default();
    for path in ir_tests::cases::files(Path::new(env!("CARGO_MANIFEST_DIR"))).iter().step_by(budget(1, 8)) {
        let Ok(file) = File::read(path) else { continue };
        for (seed, results) in [(0, 0), (1, 100)] {
            let cuts = Cuts { everywhere: false, results, stores: 0, replace: true };
            compare(&file, cuts, &mut Source::seed(seed), &mut seen);
        }
    }
    println!("{seen:?}");
    if is_quick() {
        return;
    }
    assert!(seen.calls > 500 && seen.traps > 10, "{seen:?}");
    assert!(seen.pruned_insts > 1000 && seen.pruned_branches > 30, "{seen:?}");
}

#[test]
fn generated_programs() {
    let most = asked("BROLGA_PRUNE_PROGRAMS").unwrap_or(budget(300, 60));
    let mut seen = Seen::default();
    for seed in 0..most {
        let mut source = Source::seed(seed);
        let features: Vec<Feature> =
            Feature::some(&mut source).into_iter().chain([Feature::Graphs, Feature::Loops]).collect();
        let statements = source.choose(&[8, 16, 32, 64]);
        let size = Size { statements, helper_statements: statements / 3, ..Size::default() };
        let text = program(&mut source, &features, size);
        let file = File::parse(&format!("seed {seed}"), text.clone()).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let shows = [Feature::Pointers, Feature::Lists, Feature::Scratch, Feature::MemoryCalls];
        let replace = features.iter().any(|f| shows.contains(f));
        let [results, stores] = [0; 2].map(|_| source.choose(&[0, 50, 100]));
        let cuts = Cuts { everywhere: true, results, stores, replace };
        compare(&file, cuts, &mut source, &mut seen);
    }
    println!("{seen:?}");
    assert!(seen.calls * 10 > most as usize * 7, "{seen:?}");
    assert!(seen.pruned_insts * 20 > seen.insts && seen.pruned_branches * 20 > seen.branches, "{seen:?}");
}
