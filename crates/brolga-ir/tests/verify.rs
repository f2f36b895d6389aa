//! The verifier of derived graphs on small graphs: each rule is broken on purpose, and named.
//! What real graphs look like when they are broken is tried in `ir-tests/tests/verified.rs`.

use brolga_ir::block::{CfgBlock, CfgBlocks, Fragment, Ids, Role, Target, Term};
use brolga_ir::inst::{AdInst, AdOp, Arith, FrameSlot, Shape, Val};
use brolga_ir::lift::lift;
use brolga_ir::map::Table;
use brolga_ir::verify::{self, Fault, GraphContext, GraphKind, Rule};
use brolga_ir::{BlockId, InstId};
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::{self, AbiParam, Signature, Type, types};
use cranelift_codegen::isa::CallConv;

/// A loop that squares its argument: the body records, the header is entered from two blocks.
const LOOP: &str = "function %f(f64, i64) -> f64 fast {
block0(v0: f64, v1: i64):
    jump block1(v0, v1)
block1(v2: f64, v3: i64):
    v4 = fmul v2, v2
    v5 = iadd v3, v1
    brif v5, block1(v4, v5), block2
block2:
    return v4
}";

/// A forward pass and its pullback, with what belongs to them.
struct Pair {
    primal: ir::Function,
    ids: Ids,
    forward: CfgBlocks,
    pullback: CfgBlocks,
    ct: SecondaryMap<ir::Value, Option<Shape>>,
}

fn v(n: u32) -> Val {
    Val::Primal(ir::Value::from_u32(n))
}

fn block(n: u32) -> ir::Block {
    ir::Block::from_u32(n)
}

fn to(block: BlockId) -> Target {
    Target { block, args: vec![] }
}

fn fragment(ids: &mut Ids, ops: Vec<(Vec<(Val, Type)>, AdOp)>) -> Fragment {
    let inst = |(defs, op): (Vec<(Val, Type)>, AdOp)| AdInst { defs: defs.into_iter().collect(), op, at: None };
    ops.into_iter().map(|x| (ids.inst(), inst(x))).collect()
}

/// Append instructions to a block.
fn add(graph: &mut CfgBlocks, ids: &mut Ids, b: usize, ops: Vec<(Vec<(Val, Type)>, AdOp)>) {
    graph.blocks[b].insts.extend(fragment(ids, ops));
}

const NUMBER: FrameSlot = FrameSlot(8);
const KEEP_SLOT: FrameSlot = FrameSlot(16);

/// The derivative of [`LOOP`] by hand.
fn pair() -> Pair {
    let primal = cranelift_reader::parse_functions(LOOP).unwrap().remove(0);
    let mut ids = Ids::default();
    let (mut forward, _) = lift(&primal, "f__forward", &mut ids);
    let enters: Vec<_> = forward.blocks[0].insts.clone().into_iter().collect();
    forward.blocks[0].insts = fragment(&mut ids, vec![(vec![], AdOp::EnterFrame)]);
    forward.blocks[0].insts.extend(enters);
    let keeps = vec![(vec![], AdOp::Keep(KEEP_SLOT, v(0))), (vec![], AdOp::Push(vec![], Some(0)))];
    add(&mut forward, &mut ids, 0, keeps);
    add(&mut forward, &mut ids, 1, vec![(vec![], AdOp::Push(vec![v(2), v(5)], Some(1)))]);
    add(&mut forward, &mut ids, 2, vec![(vec![], AdOp::KeepBlock(NUMBER, 2)), (vec![], AdOp::LeaveFrame)]);

    let mut ct = SecondaryMap::new();
    for n in [0, 2, 4] {
        ct[ir::Value::from_u32(n)] = Some(Shape::F64);
    }
    let [entry, end, iteration, edge, start, exit] = [(); 6].map(|()| ids.block());
    let [seg, seed, number, taken, product, restored, result] = [(); 7].map(|()| Val::D(ids.dv()));
    let ct_of = ir::Value::from_u32;
    let mut blocks = Table::default();
    let mut new = |id, role, params, ops, term, ids: &mut Ids| {
        let insts = fragment(ids, ops);
        blocks.insert(id, CfgBlock { id, role, params, insts, term, term_at: None, cold: false });
    };
    let (f64, i64, none) = (types::F64, types::I64, vec![]);
    let params = vec![(seg, i64), (seed, f64)];
    let opens = vec![(none.clone(), AdOp::OpenFrame)];
    new(entry, Role::Entry, params, opens, Term::Jump(to(end)), &mut ids);
    let adds = vec![(none.clone(), AdOp::AddCt(ct_of(4), seed))];
    new(end, Role::Reverse(block(2)), vec![], adds, Term::Jump(to(iteration)), &mut ids);
    let reverses = vec![
        (vec![(v(2), f64), (v(5), i64)], AdOp::Pop(vec![v(2), v(5)], Some(1))),
        (vec![(taken, f64)], AdOp::TakeCt(ct_of(4))),
        (vec![(product, f64)], AdOp::Arith(Arith::Fmul, [taken, v(2)].into(), f64)),
        (none.clone(), AdOp::AddCt(ct_of(2), product)),
        (vec![(number, types::I32)], AdOp::PeekBlock),
    ];
    let switch = Term::Switch(number, vec![(0, start), (1, edge)]);
    new(iteration, Role::Reverse(block(1)), vec![], reverses, switch, &mut ids);
    let zero = vec![(none.clone(), AdOp::ZeroCt(ct_of(2)))];
    new(edge, Role::Edge(block(1), block(1)), vec![], zero, Term::Jump(to(iteration)), &mut ids);
    let starts = vec![(none.clone(), AdOp::Pop(vec![], Some(0))), (vec![(restored, f64)], AdOp::Restore(KEEP_SLOT))];
    new(start, Role::Reverse(block(0)), vec![], starts, Term::Jump(to(exit)), &mut ids);
    let closes = vec![(vec![(result, f64)], AdOp::TakeCt(ct_of(0))), (none, AdOp::CloseFrame)];
    new(exit, Role::Exit, vec![], closes, Term::Return(vec![result]), &mut ids);
    let mut signature = Signature::new(CallConv::Fast);
    signature.params.extend([i64, f64].map(AbiParam::new));
    signature.returns.push(AbiParam::new(f64));
    let pullback = CfgBlocks { symbol: "f__pullback".to_owned(), signature, blocks };
    Pair { primal, ids, forward, pullback, ct }
}

impl Pair {
    fn verdict(&self) -> Result<(), Vec<Fault>> {
        let known = |kind| GraphContext { kind, primal: &self.primal, ct: &self.ct, frame: None, id_bytes: 1 };
        verify::graph(&self.forward, known(GraphKind::Forward))?;
        verify::graph(&self.pullback, known(GraphKind::Pullback))?;
        verify::pair(&self.forward, &self.pullback, known(GraphKind::Pullback))
    }

    /// Exactly this rule is broken, in that block.
    fn breaks(&self, broken: &mut Vec<Rule>, rule: Rule, block: Option<BlockId>) {
        let faults = self.verdict().expect_err("it is broken");
        let found = faults.iter().any(|f| block.is_none() || f.block == block);
        assert!(found && faults.iter().all(|f| f.rule == rule), "{rule:?} in {block:?}: {faults:?}");
        assert!(faults.iter().all(|f| f.to_string().contains(rule.sentence())), "{faults:?}");
        broken.push(rule);
    }

    /// Change the instructions of a block of the pullback.
    fn edit(&mut self, b: usize, change: impl FnOnce(&mut Vec<(InstId, AdInst)>)) -> BlockId {
        let mut all: Vec<_> = std::mem::take(&mut self.pullback.blocks[b].insts).into_iter().collect();
        change(&mut all);
        self.pullback.blocks[b].insts = all.into_iter().collect();
        self.pullback.blocks[b].id
    }
}

#[test]
fn what_is_right_is_let_through() {
    assert_eq!(pair().verdict(), Ok(()));
    let Pair { primal, ct, .. } = pair();
    let (graph, _) = lift(&primal, "f", &mut Ids::default());
    let known = GraphContext { kind: GraphKind::Lifted, primal: &primal, ct: &ct, frame: None, id_bytes: 1 };
    assert_eq!(verify::graph(&graph, known), Ok(()));
}

/// A new rule is not forgotten here.
#[test]
fn each_rule_is_broken_on_purpose() {
    let mut broken = Vec::new();
    for section in [structure, values, halves_and_frame, tape, way_back, kept] {
        section(&mut broken);
    }
    for rule in Rule::ALL {
        assert!(broken.contains(&rule), "{rule:?} is not broken");
    }
}

fn structure(broken: &mut Vec<Rule>) {
    let mut p = pair();
    p.pullback.blocks[1].term = Term::Jump(to(BlockId::from_u32(99)));
    p.breaks(broken, Rule::Successors, Some(p.pullback.blocks[1].id));

    let mut p = pair();
    p.forward.blocks[0].term.targets_mut().for_each(|t| t.args.truncate(1));
    p.breaks(broken, Rule::Arguments, Some(p.forward.blocks[0].id));

    let mut p = pair();
    p.forward.blocks[0].term.targets_mut().for_each(|t| t.args.swap(0, 1));
    p.breaks(broken, Rule::Arguments, Some(p.forward.blocks[0].id));

    let mut p = pair();
    p.pullback.blocks[5].term = Term::Return(vec![]);
    p.breaks(broken, Rule::Signature, Some(p.pullback.blocks[5].id));

    let mut p = pair();
    let at = p.edit(2, |insts| insts[1].0 = insts[0].0);
    p.breaks(broken, Rule::Ids, Some(at));
}

fn values(broken: &mut Vec<Rule>) {
    let mut p = pair();
    let at = p.edit(2, |insts| insts.swap(1, 2));
    p.breaks(broken, Rule::Dominance, Some(at));

    // Names of the primal are local to a block of the pullback.
    let mut p = pair();
    let at = p.edit(2, |insts| {
        let AdOp::Arith(_, args, _) = &mut insts[2].1.op else { panic!("a product") };
        args[1] = v(4);
    });
    p.breaks(broken, Rule::Dominance, Some(at));

    let mut p = pair();
    let at = p.edit(2, |insts| insts[1].1.defs[0].1 = types::F32);
    p.breaks(broken, Rule::Types, Some(at));
}

fn halves_and_frame(broken: &mut Vec<Rule>) {
    let mut p = pair();
    add(&mut p.forward, &mut p.ids, 1, vec![(vec![], AdOp::ZeroCt(ir::Value::from_u32(2)))]);
    p.breaks(broken, Rule::Halves, Some(p.forward.blocks[1].id));

    let mut p = pair();
    p.edit(5, |insts| drop(insts.pop()));
    p.breaks(broken, Rule::OneFrame, None);

    let mut p = pair();
    add(&mut p.pullback, &mut p.ids, 5, vec![(vec![], AdOp::CloseFrame)]);
    p.breaks(broken, Rule::OneFrame, Some(p.pullback.blocks[5].id));

    // On one of two paths.
    let mut p = pair();
    add(&mut p.pullback, &mut p.ids, 3, vec![(vec![], AdOp::CloseFrame)]);
    p.breaks(broken, Rule::OneFrame, None);
}

fn tape(broken: &mut Vec<Rule>) {
    let rule = Rule::PopsMirrorPushes;
    let mut p = pair();
    let at = p.edit(2, |insts| {
        let AdOp::Pop(names, _) = &mut insts[0].1.op else { panic!("a pop") };
        names.swap(0, 1);
        insts[0].1.defs.swap(0, 1);
    });
    p.breaks(broken, rule, Some(at));

    let mut p = pair();
    let at = p.edit(4, |insts| drop(insts.remove(0)));
    p.breaks(broken, rule, Some(at));

    // The reverse of the loop's body is left out.
    let mut p = pair();
    let (end, start) = (p.pullback.blocks[1].id, p.pullback.blocks[4].id);
    p.pullback.blocks[1].term = Term::Jump(to(start));
    p.pullback.blocks.retain(|_, b| {
        !matches!(b.role, Role::Reverse(x) if x == block(1)) && b.role != Role::Edge(block(1), block(1))
    });
    p.breaks(broken, rule, None);
    assert_ne!(end, start);

    // A record of another number.
    let mut p = pair();
    let at = p.edit(4, |insts| insts[0].1.op = AdOp::Pop(vec![], Some(3)));
    p.breaks(broken, rule, Some(at));
}

fn way_back(broken: &mut Vec<Rule>) {
    let rule = Rule::Predecessors;
    let mut p = pair();
    let Term::Switch(_, cases) = &mut p.pullback.blocks[2].term else { panic!("a switch") };
    let (a, b) = (cases[0].1, cases[1].1);
    (cases[0].1, cases[1].1) = (b, a);
    p.breaks(broken, rule, Some(p.pullback.blocks[2].id));

    let mut p = pair();
    let Term::Switch(_, cases) = &mut p.pullback.blocks[2].term else { panic!("a switch") };
    cases.pop();
    p.pullback.blocks.retain(|_, b| b.role != Role::Edge(block(1), block(1)));
    p.breaks(broken, rule, Some(p.pullback.blocks[2].id));

    // It looks before the record of its own block is gone.
    let mut p = pair();
    let at = p.edit(2, |insts| {
        let peek = insts.pop().expect("the last");
        insts.insert(0, peek);
    });
    p.breaks(broken, rule, Some(at));
}

fn kept(broken: &mut Vec<Rule>) {
    let rule = Rule::KeepDominatesRestore;
    let mut p = pair();
    p.forward.blocks[0].insts.retain(|_, i| !matches!(i.op, AdOp::Keep(..)));
    p.breaks(broken, rule, Some(p.pullback.blocks[4].id));

    let mut p = pair();
    let at = p.edit(4, |insts| insts[1].1.defs[0].1 = types::F32);
    p.breaks(broken, rule, Some(at));
}
