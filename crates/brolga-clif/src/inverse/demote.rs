//! Register demotion: what a compiler has kept in registers between loads and stores, in memory.
//!
//! **Problem.** A place is loaded once, chosen between or added to in registers (`select`,
//! parameters of blocks), and stored once. A piece is an equation only for what it stores itself.
//!
//! ```text
//! v2 = load v0                                v2 = load v0
//! brif v1, block1, block2(v2)                 brif v1, block1, block3
//! block1:                                     block1:
//!     v3 = fadd v2, v4                            v3 = fadd v2, v4
//!     jump block2(v3)                             store v3, v0
//! block2(v5: f64):                      ⟶         jump block2
//!     store v5, v0                            block3:
//!                                                 store v2, v0
//!                                                 jump block2
//!                                             block2:
//!                                                 v5 = load v0
//!                                                 store v5, v0
//! ```
//!
//! **Answer.** A parameter that is computed from a place has a home there, if on every way from its
//! block the place is stored to before it is read. Then it may be stored before. So may what a loop
//! has left, before where it is left. A `select` of that kind becomes a branch first, where
//! what decides is not read from what the function changes.
//!
//! **Cost.** A walk over the function for each parameter, and each place that has its type.
//!
//! **Source.** The opposite of register promotion (Lu and Cooper, 1997).

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{
    self, Block, BlockArg, Inst, InstBuilder, InstructionData, MemFlagsData, Opcode, Type, Value, ValueDef,
};
use cranelift_entity::EntitySet;

use super::view::{InverseRequest, MemoryRoot, UndoneCall, View};
use crate::linear::{LinearForm, Nearness};
use crate::map::{HashMap, HashSet};

/// Of a function that is larger, nothing is put back into memory.
const MOST_INSTS: usize = 2000;

/// A place of a state, by an access of it.
#[derive(Clone, Debug)]
struct DemotedPlace {
    state: usize,
    at: LinearForm,
    ty: Type,
    /// An address that is computed before the parameter's block, and the distance from it.
    address: Value,
    offset: i32,
}

/// A state, where in it, and what lies there.
type StateAccess = (usize, LinearForm, Type);

/// The same function with values in their homes; none if there are none, or it is refused.
pub(super) fn demoted(func: &ir::Function, asked: &InverseRequest<'_>) -> Option<ir::Function> {
    if func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).count() > MOST_INSTS {
        return None;
    }
    let mut out = func.clone();
    let mut any = false;
    while let Some(select) = Demotion::of(&out, asked)?.select() {
        branch(&mut out, select);
        any = true;
    }
    // Each store goes up, and each parameter that is put back is gone.
    while let Some((store, to)) = Demotion::of(&out, asked)?.early() {
        out.layout.remove_inst(store);
        out.layout.insert_inst(store, to);
        any = true;
    }
    while let Some((block, number, home)) = Demotion::of(&out, asked)?.param() {
        let there = Demotion::of(&out, asked)?.stored_there(block, number, &home);
        demote(&mut out, block, number, &home, &there);
        any = true;
    }
    for store in Demotion::of(&out, asked)?.changing_nothing() {
        out.layout.remove_inst(store);
    }
    any.then_some(out)
}

/// A function, and what is asked of it.
struct Demotion<'f> {
    view: View<'f>,
    cfg: ControlFlowGraph,
    tree: DominatorTree,
    /// Where loads and stores of states go that are changed.
    places: HashMap<Inst, StateAccess>,
}

impl<'f> Demotion<'f> {
    fn of(func: &'f ir::Function, asked: &'f InverseRequest<'f>) -> Option<Self> {
        let cfg = ControlFlowGraph::with_function(func);
        let tree = DominatorTree::with_function(func, &cfg);
        let view = View::of(func, asked).ok()?;
        let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
        let places = insts.filter_map(|inst| Some((inst, accessed(&view, inst)?))).collect();
        Some(Self { view, cfg, tree, places })
    }

    fn insts(&self) -> impl Iterator<Item = Inst> {
        self.view.func.layout.blocks().flat_map(|b| self.view.func.layout.block_insts(b))
    }

    /// A `select` between what a place held and what it will hold.
    fn select(&self) -> Option<Inst> {
        let dfg = &self.view.func.dfg;
        self.insts().find(|&inst| {
            let [by, ..] = dfg.inst_args(inst) else { return false };
            dfg.insts[inst].opcode() == Opcode::Select
                && self.reads(*by).is_empty()
                && !self.homes(dfg.first_result(inst), inst).is_empty()
        })
    }

    /// A store of what is computed from its place in a block above, and the branch before
    /// which it may stand: on all other ways the place is stored to, too.
    fn early(&self) -> Option<(Inst, Inst)> {
        let func = self.view.func;
        self.insts().find_map(|store| {
            let block = func.layout.inst_block(store)?;
            let (value, address) = (func.dfg.inst_args(store).first().copied()?, self.accessed(store)?.clone());
            let mut preds = self.cfg.pred_iter(block);
            let (Some(pred), None) = (preds.next(), preds.next()) else { return None };
            let is_there = |v: Value| self.view.block_of(v) != Some(block);
            if func.dfg.insts[store].opcode() != Opcode::Store
                || pred.block == block
                || !is_there(value)
                || !is_there(self.view.address(store))
                || !self.reads(value).into_iter().any(|i| self.accessed(i) == Some(&address))
            {
                return None;
            }
            let (state, at, ty) = address;
            let home = DemotedPlace { state, at, ty, address: self.view.address(store), offset: 0 };
            let is_first = self.first(block, &home) == Some((store, true));
            let others = self.cfg.succ_iter(pred.block).all(|to| self.is_overwritten(to, &home));
            (is_first && others).then_some((store, pred.inst))
        })
    }

    /// The branches to a block that come after a store of what they give, where it has its home.
    fn stored_there(&self, block: Block, number: usize, home: &DemotedPlace) -> HashSet<Inst> {
        let func = self.view.func;
        let is_stored = |pred: &Inst| {
            let within = func.layout.inst_block(*pred).expect("it is in a block");
            let accesses: Vec<Inst> =
                func.layout.block_insts(within).filter(|&i| self.touches(i, home).is_some()).collect();
            let given = self.view.targets(*pred).into_iter().filter(|t| t.0 == block).map(|t| t.1[number]);
            accesses.last().is_some_and(|&i| {
                self.touches(i, home) == Some(true)
                    && given.into_iter().all(|v| self.view.resolved(func.dfg.inst_args(i)[0]) == v)
            })
        };
        self.cfg.pred_iter(block).map(|p| p.inst).filter(is_stored).collect()
    }

    /// Stores of what is loaded from there.
    fn changing_nothing(&self) -> Vec<Inst> {
        let func = self.view.func;
        let mut found = Vec::new();
        for block in func.layout.blocks() {
            let mut held: Vec<(Value, DemotedPlace)> = Vec::new();
            for inst in func.layout.block_insts(block) {
                let op = func.dfg.insts[inst].opcode();
                if op.is_call() {
                    held.clear();
                }
                let Some((state, at, ty)) = self.accessed(inst).cloned() else { continue };
                let home = DemotedPlace { state, at, ty, address: self.view.address(inst), offset: 0 };
                if op == Opcode::Load {
                    held.push((func.dfg.first_result(inst), home));
                    continue;
                }
                let value = self.view.resolved(func.dfg.inst_args(inst)[0]);
                if held.iter().any(|(v, h)| *v == value && self.touches(inst, h) == Some(true)) {
                    found.push(inst);
                } else {
                    held.retain(|(_, h)| self.touches(inst, h).is_none());
                }
            }
        }
        found
    }

    /// A parameter that has a home: its block, its number, and that.
    fn param(&self) -> Option<(Block, usize, DemotedPlace)> {
        let func = self.view.func;
        for &block in self.tree.cfg_postorder() {
            let by_branch = |p: Inst| matches!(func.dfg.insts[p].opcode(), Opcode::Jump | Opcode::Brif);
            let reached = self.cfg.pred_iter(block).next().is_some();
            if block == self.view.entry || !reached || !self.cfg.pred_iter(block).all(|p| by_branch(p.inst)) {
                continue;
            }
            for (number, &param) in func.dfg.block_params(block).iter().enumerate() {
                let first = func.layout.first_inst(block)?;
                let home = self.homes(param, first).into_iter().find(|home| self.is_overwritten(block, home));
                if let Some(home) = home {
                    return Some((block, number, home));
                }
            }
        }
        None
    }

    /// Places that a value is computed from, and that are stored to: those that have an address
    /// before an instruction's block. First comes where it is stored itself, and then where
    /// something is stored or loaded that it is chosen from.
    fn homes(&self, v: Value, inst: Inst) -> Vec<DemotedPlace> {
        let func = self.view.func;
        let ty = func.dfg.value_type(v);
        let block = func.layout.inst_block(inst).expect("it is in a block");
        let read: Vec<&StateAccess> = self.reads(v).into_iter().filter_map(|i| self.accessed(i)).collect();
        let mut found: Vec<DemotedPlace> = Vec::new();
        for access in self.insts() {
            let place = self.accessed(access).filter(|p| p.2 == ty && read.contains(p)).cloned();
            let Some(place) = place else { continue };
            let (address, offset) = (self.view.address(access), self.view.offset(access) as i32);
            let Some(defined) = self.view.block_of(address) else { continue };
            let is_above = defined != block && self.tree.block_dominates(defined, block);
            // Of a `select` what stands before it in its block does, too.
            let is_before = defined == block
                && match func.dfg.value_def(address) {
                    ValueDef::Result(of, _) => self.tree.dominates(of, inst, &func.layout),
                    _ => func.dfg.value_def(v).inst().is_some(),
                };
            let (state, at, ty) = place;
            if (is_above || is_before) && !found.iter().any(|h| h.state == state && h.at == at) {
                found.push(DemotedPlace { state, at, ty, address, offset });
            }
        }
        let chosen_from = self.chosen_from(v);
        let of = |values: &[Value], home: &DemotedPlace, stores: bool| {
            self.insts().any(|i| {
                let is_store = func.dfg.insts[i].opcode() == Opcode::Store;
                let is_there = || self.accessed(i).is_some_and(|p| p.0 == home.state && p.1 == home.at && p.2 == ty);
                match is_store {
                    true => values.contains(&self.view.resolved(func.dfg.inst_args(i)[0])) && is_there(),
                    false => !stores && func.dfg.inst_results(i).iter().any(|r| values.contains(r)) && is_there(),
                }
            })
        };
        found.sort_by_cached_key(|home| match (of(&[v], home, true), of(&chosen_from, home, false)) {
            (true, _) => 0,
            (_, true) => 1,
            _ => 2,
        });
        found
    }

    /// What a parameter may be, or a `select`.
    fn chosen_from(&self, v: Value) -> Vec<Value> {
        let dfg = &self.view.func.dfg;
        match dfg.value_def(v) {
            ValueDef::Result(inst, _) => dfg.inst_args(inst)[1..].iter().map(|&a| self.view.resolved(a)).collect(),
            ValueDef::Param(block, number) => {
                let targets = self.cfg.pred_iter(block).flat_map(|p| self.view.targets(p.inst));
                targets.filter(|t| t.0 == block).filter_map(|t| t.1.get(number).copied()).collect()
            }
            ValueDef::Union(..) => vec![],
        }
    }

    /// The place of a load or store of a state that is changed.
    fn accessed(&self, inst: Inst) -> Option<&StateAccess> {
        self.places.get(&inst)
    }

    /// The loads of changed states that a value is computed from.
    fn reads(&self, v: Value) -> HashSet<Inst> {
        let (view, dfg) = (&self.view, &self.view.func.dfg);
        let (mut seen, mut work, mut found) = (EntitySet::new(), vec![view.resolved(v)], HashSet::default());
        while let Some(v) = work.pop() {
            if !seen.insert(v) {
                continue;
            }
            match dfg.value_def(v) {
                ValueDef::Result(inst, _) if view.reads(inst) => {
                    if view.states_read(inst).iter().any(|s| view.written.contains(s)) {
                        found.insert(inst);
                    }
                }
                ValueDef::Result(inst, _) => work.extend(dfg.inst_args(inst).iter().map(|&a| view.resolved(a))),
                ValueDef::Param(block, number) => {
                    for pred in self.cfg.pred_iter(block) {
                        let given = view.targets(pred.inst).into_iter().filter(|t| t.0 == block);
                        work.extend(given.filter_map(|t| t.1.get(number).copied()));
                    }
                }
                ValueDef::Union(..) => {}
            }
        }
        found
    }

    /// Whether a place is stored to on every way from the beginning of a block, before it is read.
    /// A way that comes to where the address is computed comes to another place.
    fn is_overwritten(&self, block: Block, home: &DemotedPlace) -> bool {
        let Some(defined) = self.view.block_of(home.address) else { return false };
        let (mut seen, mut work) = (EntitySet::new(), vec![block]);
        while let Some(b) = work.pop() {
            if b == defined || !self.tree.block_dominates(defined, b) {
                return false;
            }
            // Where the block begins anew the place is stored to.
            if !seen.insert(b) {
                continue;
            }
            match self.first(b, home).map(|f| f.1) {
                Some(true) => {}
                Some(false) => return false,
                None if self.cfg.succ_iter(b).next().is_none() => return false,
                None => work.extend(self.cfg.succ_iter(b)),
            }
        }
        true
    }

    /// What a block does first with a place, and whether it is a store to it.
    fn first(&self, block: Block, home: &DemotedPlace) -> Option<(Inst, bool)> {
        let mut insts = self.view.func.layout.block_insts(block);
        insts.find_map(|inst| Some((inst, self.touches(inst, home)?)))
    }

    /// Whether an instruction stores to a place, or does something else with it; nothing if
    /// neither.
    fn touches(&self, inst: Inst, home: &DemotedPlace) -> Option<bool> {
        let op = self.view.func.dfg.insts[inst].opcode();
        match op {
            Opcode::Load | Opcode::Store => {
                let (state, at, ty) = self.accessed(inst)?;
                let is_other = *state != home.state || at.near(*ty, &home.at, home.ty) == Nearness::Apart;
                (!is_other).then_some(op == Opcode::Store && *at == home.at && *ty == home.ty)
            }
            Opcode::Call => (self.view.called(inst) != Some(UndoneCall::Computes)).then_some(false),
            _ => None,
        }
    }
}

/// The place of a load or store of a state that is changed.
fn accessed(view: &View<'_>, inst: Inst) -> Option<StateAccess> {
    if !matches!(view.func.dfg.insts[inst].opcode(), Opcode::Load | Opcode::Store) {
        return None;
    }
    let Some(MemoryRoot::State(state)) = view.place(view.address(inst)) else { return None };
    let (at, ty) = view.accessed(inst);
    view.written.contains(&state).then_some((state, at, ty))
}

/// The first instruction of its block that uses what an instruction gives; if none does, the last.
fn first_user(func: &ir::Function, inst: Inst) -> Option<Inst> {
    let block = func.layout.inst_block(inst)?;
    let v = func.dfg.first_result(inst);
    let mut later_insts = func.layout.block_insts(block).skip_while(|&i| i != inst).skip(1);
    later_insts
        .find(|&i| func.dfg.inst_values(i).any(|x| func.dfg.resolve_aliases(x) == v))
        .or(func.layout.last_inst(block))
}

/// Choose by a branch before what uses the choice first.
fn branch(func: &mut ir::Function, select: Inst) {
    let &[by, then, other] = func.dfg.inst_args(select) else { unreachable!("a select has three arguments") };
    let (v, loc) = (func.dfg.first_result(select), func.srcloc(select));
    let ty = func.dfg.value_type(v);
    let user = first_user(func, select).expect("its block has an end");
    let block = func.layout.inst_block(select).expect("it is in a block");
    let [first, second, join] = [(); 3].map(|()| func.dfg.make_block());
    func.layout.split_block(join, user);
    func.layout.insert_block(first, join);
    func.layout.insert_block(second, join);
    func.layout.remove_inst(select);
    func.dfg.clear_results(select);
    let param = func.dfg.append_block_param(join, ty);
    func.dfg.change_to_alias(v, param);
    let mut pos = FuncCursor::new(func).with_srcloc(loc).at_bottom(block);
    pos.ins().brif(by, first, &[], second, &[]);
    for (side, value) in [(first, then), (second, other)] {
        pos.goto_bottom(side);
        pos.ins().jump(join, &[BlockArg::Value(value)]);
    }
}

/// Store what a parameter is given where it has its home, and load it from there.
fn demote(func: &mut ir::Function, block: Block, number: usize, home: &DemotedPlace, there: &HashSet<Inst>) {
    let cfg = ControlFlowGraph::with_function(func);
    let preds: Vec<Inst> = cfg.pred_iter(block).map(|p| p.inst).collect();
    let flags = MemFlagsData::new();
    for pred in preds {
        let is_jump = func.dfg.insts[pred].opcode() == Opcode::Jump;
        for edge in edges(func, pred, block) {
            let given: Vec<BlockArg> = call(func, pred, edge).args(&func.dfg.value_lists).collect();
            let BlockArg::Value(value) = given[number] else { unreachable!("a branch gives values") };
            let rest: Vec<BlockArg> = given.iter().enumerate().filter(|a| a.0 != number).map(|a| *a.1).collect();
            let loc = func.srcloc(pred);
            let mut pos = FuncCursor::new(func).with_srcloc(loc);
            if there.contains(&pred) {
                replace(func, pred, edge, block, &rest);
            } else if is_jump {
                pos.goto_inst(pred);
                pos.ins().store(flags, value, home.address, home.offset);
                replace(func, pred, edge, block, &rest);
            } else {
                let between = pos.func.dfg.make_block();
                pos.func.layout.insert_block(between, block);
                pos.goto_bottom(between);
                pos.ins().store(flags, value, home.address, home.offset);
                pos.ins().jump(block, &rest);
                replace(func, pred, edge, between, &[]);
            }
        }
    }
    let param = func.dfg.block_params(block)[number];
    let mut pos = FuncCursor::new(func).at_first_insertion_point(block);
    let v = pos.ins().load(home.ty, flags, home.address, home.offset);
    func.dfg.remove_block_param(param);
    func.dfg.change_to_alias(param, v);
}

/// Which targets of a branch are a block.
fn edges(func: &ir::Function, inst: Inst, block: Block) -> Vec<usize> {
    let dfg = &func.dfg;
    let calls = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
    (0..calls.len()).filter(|&i| calls[i].block(&dfg.value_lists) == block).collect()
}

fn call(func: &ir::Function, inst: Inst, edge: usize) -> ir::BlockCall {
    func.dfg.insts[inst].branch_destination(&func.dfg.jump_tables, &func.dfg.exception_tables)[edge]
}

/// Let a branch go elsewhere.
fn replace(func: &mut ir::Function, inst: Inst, edge: usize, to: Block, args: &[BlockArg]) {
    let new = ir::BlockCall::new(to, args.iter().copied(), &mut func.dfg.value_lists);
    match &mut func.dfg.insts[inst] {
        InstructionData::Jump { destination, .. } => *destination = new,
        InstructionData::Brif { blocks, .. } => blocks[edge] = new,
        _ => unreachable!("preds are jumps, or branches of two ways"),
    }
}
