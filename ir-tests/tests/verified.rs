//! The verifier of derived graphs: it has nothing to say of what the pipeline makes of all files,
//! in all modes, and it refuses each of those graphs when something is broken on purpose.

use std::collections::BTreeMap;
use std::path::Path;

use brolga::cranelift_codegen::ir::types;
use brolga::{Effort, MemoryMode, Mode, Options, jit};
use brolga_driver::{Directive, File};
use brolga_ir::block::{CfgBlock, CfgBlocks, Fragment, Term};
use brolga_ir::inst::{AdInst, AdOp, Args, Arith, Defs};
use brolga_ir::verify::{self, Fault, GraphContext, GraphKind, Rule};
use brolga_ir::{BlockId, InstId};
use brolga_testing::shares;
use brolga_transform::{Stages, derive_with};
use ir_tests::cases;

/// What the verifier says of the graphs of a variant: of a pair, or of a combined function.
fn verdict(stages: &Stages<'_>, forward: &CfgBlocks, pullback: &CfgBlocks) -> Result<(), Vec<Fault>> {
    let (facts, plan) = (&stages.facts, &stages.plan);
    let frame = plan.frame.as_ref();
    let known =
        |kind| GraphContext { kind, primal: facts.func(), ct: &facts.activity.ct, frame, id_bytes: plan.id_bytes };
    if pullback.blocks.is_empty() {
        return verify::graph(forward, known(GraphKind::Combined));
    }
    verify::graph(forward, known(GraphKind::Forward))?;
    verify::graph(pullback, known(GraphKind::Pullback))?;
    verify::pair(forward, pullback, known(GraphKind::Pullback))
}

/// The instructions of a block, in a list that can be edited.
fn edit(block: &mut CfgBlock, change: impl FnOnce(&mut Vec<(InstId, AdInst)>)) {
    let mut all: Vec<_> = std::mem::take(&mut block.insts).into_iter().collect();
    change(&mut all);
    block.insts = all.into_iter().collect::<Fragment>();
}

/// Remove the last instruction of a kind; whether there is one.
fn drop_last(graph: &mut CfgBlocks, which: impl Fn(&AdOp) -> bool) -> bool {
    let mut blocks = graph.blocks.values_mut().collect::<Vec<_>>().into_iter().rev();
    let Some(block) = blocks.find(|b| b.insts.values().any(|i| which(&i.op))) else { return false };
    edit(block, |insts| {
        let at = insts.iter().rposition(|i| which(&i.1.op)).expect("it is there");
        insts.remove(at);
    });
    true
}

/// Add an instruction at the start of a block.
fn put_first(block: &mut CfgBlock, defs: Defs, op: AdOp) {
    edit(block, |insts| insts.insert(0, (InstId::from_u32(1 << 20), AdInst { defs, op, at: None })));
}

/// A way to break a graph: its name, which half it is done to, what must be refused, and what is
/// done. It says whether there was anything to break.
struct Break {
    name: &'static str,
    forward: bool,
    refused: &'static [Rule],
    apply: fn(&mut CfgBlocks) -> bool,
}

const TAPE: &[Rule] = &[Rule::PopsMirrorPushes, Rule::Predecessors];

fn breaks() -> Vec<Break> {
    let mut all = of_the_tape();
    all.extend(of_the_frame());
    all.extend(of_values());
    all
}

fn of_the_tape() -> Vec<Break> {
    let new = |name, forward, refused, apply| Break { name, forward, refused, apply };
    vec![
        new("a push is dropped", true, TAPE, |g| drop_last(g, |op| matches!(op, AdOp::Push(..)))),
        new("a pop is dropped", false, &[Rule::PopsMirrorPushes, Rule::Dominance], |g| {
            drop_last(g, |op| matches!(op, AdOp::Pop(..)))
        }),
        new("two values of a pop are swapped", false, &[Rule::PopsMirrorPushes], |g| {
            for inst in g.blocks.values_mut().flat_map(|b| b.insts.values_mut()) {
                if let AdOp::Pop(names, _) = &mut inst.op
                    && names.len() > 1
                {
                    names.swap(0, 1);
                    inst.defs.swap(0, 1);
                    return true;
                }
            }
            false
        }),
        new("two pops are swapped", false, &[Rule::PopsMirrorPushes, Rule::Dominance], |g| {
            let insts = g.blocks.values_mut().flat_map(|b| b.insts.values_mut());
            let mut pops: Vec<&mut AdInst> = insts.filter(|i| matches!(i.op, AdOp::Pop(..))).collect();
            match &mut pops[..] {
                [a, .., b] if a.op != b.op => {
                    std::mem::swap(&mut a.op, &mut b.op);
                    std::mem::swap(&mut a.defs, &mut b.defs);
                    true
                }
                _ => false,
            }
        }),
        new("two numbers of a switch are swapped", false, TAPE, |g| {
            let to: Vec<_> = g.blocks.iter().map(|(&id, b)| (id, b.role)).collect();
            for block in g.blocks.values_mut() {
                if let Term::Switch(_, cases) = &mut block.term
                    && let [(_, a), (_, b), ..] = &mut cases[..]
                    && to.iter().any(|x| x.0 == *a && !to.iter().any(|y| y.0 == *b && y.1 == x.1))
                {
                    std::mem::swap(a, b);
                    return true;
                }
            }
            false
        }),
        new("a block that pops is skipped", false, &[Rule::PopsMirrorPushes, Rule::Successors], |g| {
            let pops = |b: &CfgBlock| b.insts.values().any(|i| matches!(i.op, AdOp::Pop(..)));
            let next = |b: &CfgBlock| match &b.term {
                Term::Jump(t) if t.args.is_empty() => Some(t.block),
                _ => None,
            };
            // Of a loop it is not seen as long as another edge leads there.
            let edges = |to: BlockId| g.blocks.values().flat_map(|b| b.term.successors()).filter(|s| *s == to).count();
            let popping: BTreeMap<BlockId, BlockId> = g
                .blocks
                .values()
                .filter(|b| pops(b) && edges(b.id) == 1)
                .filter_map(|b| Some((b.id, next(b)?)))
                .collect();
            for block in g.blocks.values_mut() {
                if let Term::Jump(t) = &mut block.term
                    && let Some(&behind) = popping.get(&t.block)
                {
                    t.block = behind;
                    return true;
                }
            }
            false
        }),
    ]
}

fn of_the_frame() -> Vec<Break> {
    let new = |name, forward, refused, apply| Break { name, forward, refused, apply };
    vec![
        new("a frame is not closed", false, &[Rule::OneFrame], |g| drop_last(g, |op| *op == AdOp::CloseFrame)),
        new("a frame is closed twice", false, &[Rule::OneFrame], |g| {
            let closes = |b: &&mut CfgBlock| b.insts.values().any(|i| i.op == AdOp::CloseFrame);
            let Some(block) = g.blocks.values_mut().find(closes) else { return false };
            put_first(block, Defs::default(), AdOp::CloseFrame);
            true
        }),
        new("a frame is not entered", true, &[Rule::OneFrame], |g| drop_last(g, |op| *op == AdOp::EnterFrame)),
        new("what is restored is not kept", true, &[Rule::KeepDominatesRestore, Rule::Predecessors], |g| {
            let all: Vec<AdOp> = g.blocks.values().flat_map(|b| b.insts.values()).map(|i| i.op.clone()).collect();
            let mut slots = all.iter().filter_map(|op| match op {
                AdOp::Restore(slot) | AdOp::RestoreBlock(slot) => Some(*slot),
                _ => None,
            });
            let Some(slot) = slots.next_back() else { return false };
            let keeps = |op: &AdOp| matches!(op, AdOp::Keep(s, _) | AdOp::KeepBlock(s, _) if *s == slot);
            all.iter().filter(|op| keeps(op)).count() == 1 && drop_last(g, keeps)
        }),
        new(
            "a value is restored as another type",
            false,
            &[Rule::KeepDominatesRestore, Rule::Types, Rule::Signature],
            |g| {
                for inst in g.blocks.values_mut().flat_map(|b| b.insts.values_mut()) {
                    if matches!(inst.op, AdOp::Restore(_)) {
                        let ty = &mut inst.defs[0].1;
                        *ty = if *ty == types::I64 { types::F64 } else { types::I64 };
                        return true;
                    }
                }
                false
            },
        ),
        new("the forward half takes a cotangent", true, &[Rule::Halves], |g| {
            let takes = g.blocks.values().flat_map(|b| b.insts.values()).find_map(|i| match i.op {
                AdOp::ZeroCt(v) => Some(v),
                _ => None,
            });
            let Some(v) = takes else { return false };
            put_first(&mut g.blocks[0], Defs::default(), AdOp::ZeroCt(v));
            true
        }),
    ]
}

fn of_values() -> Vec<Break> {
    let new = |name, forward, refused, apply| Break { name, forward, refused, apply };
    vec![
        new("an argument is dropped", true, &[Rule::Arguments], |g| {
            let mut targets = g.blocks.values_mut().flat_map(|b| b.term.targets_mut());
            targets.find(|t| !t.args.is_empty()).is_some_and(|t| t.args.pop().is_some())
        }),
        new("a use comes before its definition", false, &[Rule::Dominance], |g| {
            for block in g.blocks.values_mut() {
                let insts: Vec<&AdInst> = block.insts.values().collect();
                let read_later = |at: usize| {
                    let mut behind = insts[at + 1..].iter();
                    insts[at].defs.first().is_some_and(|d| behind.any(|i| i.reads().contains(&d.0)))
                };
                let Some(at) = (0..insts.len()).find(|&at| read_later(at)) else { continue };
                edit(block, |insts| {
                    let inst = insts.remove(at);
                    insts.push(inst);
                });
                return true;
            }
            false
        }),
        new("a result has another type", false, &[Rule::Types, Rule::Arguments, Rule::Signature], |g| {
            for inst in g.blocks.values_mut().flat_map(|b| b.insts.values_mut()) {
                if let AdOp::Arith(_, _, ty) = &mut inst.op
                    && *ty == types::F64
                    && !inst.defs.is_empty()
                {
                    *ty = types::F32;
                    return true;
                }
            }
            false
        }),
        new("an operation has another operand too many", false, &[Rule::Types], |g| {
            for inst in g.blocks.values_mut().flat_map(|b| b.insts.values_mut()) {
                if let AdOp::Arith(Arith::Fmul, args, _) = &mut inst.op {
                    *args = [args[0], args[1], args[0]].into();
                    return true;
                }
            }
            false
        }),
        new("a name is given twice", true, &[Rule::Ids], |g| {
            let ids: Vec<InstId> = g.blocks.values().flat_map(|b| b.insts.iter()).map(|i| *i.0).take(1).collect();
            let Some(&id) = ids.first() else { return false };
            let last = g.blocks.len() - 1;
            let op = AdOp::Arith(Arith::Iconst(0), Args::default(), types::I8);
            edit(&mut g.blocks[last], |insts| insts.push((id, AdInst { defs: Defs::default(), op, at: None })));
            true
        }),
        new("a successor is no block", true, &[Rule::Successors], |g| {
            let mut targets = g.blocks.values_mut().flat_map(|b| b.term.targets_mut());
            targets.next().is_some_and(|t| {
                t.block = BlockId::from_u32(1 << 20);
                true
            })
        }),
        new("a result is not returned", true, &[Rule::Signature], |g| {
            for block in g.blocks.values_mut() {
                if let Term::Return(values) = &mut block.term
                    && values.pop().is_some()
                {
                    return true;
                }
            }
            false
        }),
    ]
}

fn options() -> Vec<Options> {
    let mut all = Vec::new();
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        for memory in [MemoryMode::Leave, MemoryMode::Restore] {
            let quick = Options { mode, memory, effort: Effort::Quick, verify_stages: true, ..Options::default() };
            all.push(Options { effort: Effort::Full, ..quick.clone() });
            all.push(quick);
        }
    }
    all
}

/// Derive the first requests of every file whose number `every` divides, each under one in `share`
/// of the options, which take turns.
fn look(
    every: usize,
    requests_of_each: usize,
    (options, share): (&[Options], usize),
    mut each: impl FnMut(&str, &Stages<'_>),
) -> usize {
    let isa = jit::host_isa(&Options::full()).expect("there is a host");
    let (mut seen, mut turn) = (0, 0);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in cases::files(root).into_iter().step_by(every) {
        let source = std::fs::read_to_string(&path).expect("it is there");
        let Ok(file) = File::parse(&path.display().to_string(), source) else { continue };
        let calls = file.directives.iter().filter_map(|d| match d {
            Directive::Grad(line) => file.bind(&line.text, &line.call, &line.clauses).ok(),
            _ => None,
        });
        let mut requests: Vec<_> = calls.map(|c| c.request()).collect();
        requests.dedup_by(|a, b| format!("{a:?}") == format!("{b:?}"));
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        for request in requests.into_iter().take(requests_of_each) {
            turn += 1;
            for options in options.iter().skip(turn % share).step_by(share) {
                match derive_with(&file.program, &request, options, &*isa, |stages| each(&name, stages)) {
                    Err(e) if e.0.iter().any(|d| d.code.starts_with("AD09")) => panic!("{name}: {options:?}\n{e}"),
                    Err(_) => {}
                    Ok(_) => seen += 1,
                }
            }
        }
    }
    seen
}

#[test]
fn all_that_is_derived_keeps_the_rules() {
    let seen = look(1, 4, (&options(), shares(3)), |_, _| {});
    assert!(seen > 1000 / shares(3), "{seen}");
}

/// Instructions of graphs that are not broken.
const LONG: usize = 400;

#[test]
fn what_is_broken_is_refused() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut missed: Vec<String> = Vec::new();
    let few: Vec<Options> = options().into_iter().filter(|o| o.effort == Effort::Full).collect();
    look(2, 2, (&few, 1), |name, stages| {
        // What is broken in a long graph is broken in a short one.
        let size = |g: &CfgBlocks| g.blocks.values().map(|b| b.insts.len()).sum::<usize>();
        if size(&stages.forward) + size(&stages.pullback) > LONG {
            return;
        }
        assert_eq!(verdict(stages, &stages.forward, &stages.pullback), Ok(()));
        for Break { name: broken, forward, refused, apply } in breaks() {
            let (mut a, mut b) = (stages.forward.clone(), stages.pullback.clone());
            let combined = b.blocks.is_empty();
            if !apply(if forward || combined { &mut a } else { &mut b }) {
                continue;
            }
            *seen.entry(broken).or_default() += 1;
            let found = verdict(stages, &a, &b).err().unwrap_or_default();
            if !found.iter().any(|f| refused.contains(&f.rule)) {
                missed.push(format!("{broken}: {name}, %{}: {found:?}", a.symbol));
            }
        }
    });
    missed.sort();
    assert!(missed.is_empty(), "{} are not refused:\n{}", missed.len(), missed.join("\n"));
    let rare: Vec<_> = breaks().iter().map(|b| b.name).filter(|n| seen.get(n).copied().unwrap_or(0) < 5).collect();
    assert!(rare.is_empty(), "these were hardly tried: {rare:?} of {seen:?}");
}
