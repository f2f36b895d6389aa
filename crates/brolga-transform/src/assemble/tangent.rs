//! The graph of forward mode: the primal, with its tangents beside it.
//!
//! **Question.** What computes values and tangents in one run?
//!
//! **Answer.** The lifted primal is copied block by block, as in the augmented forward pass
//! ([`crate::assemble::forward`]). After each statement are the statements of its tangents; a
//! block has one more parameter for each of its parameters that has a tangent, and an edge one more
//! argument. Nothing is recorded. Shadows of stack slots lie in a stack slot of the function.
//!
//! ```text
//! block1(v1: f64, v2: i64):          block1(v1: f64, v2: i64, v1.t: f64):
//!     v3 = fmul v1, v1          ─►       v3 = fmul v1, v1
//!     jump block1(v3, v2)                v3.t = …
//!                                        jump block1(v3, v2, v3.t)
//! ```
//!
//! **Cost.** One walk over the lifted graph.

use brolga_analysis::{CalleeKind, ParamMode, ResultMode, RootKind};
use brolga_ir::Diagnostics;
use brolga_ir::Pass;
use brolga_ir::block::{CfgBlock, CfgBlocks, Fragment, Ids, Role, Target, Term};
use brolga_ir::inst::{AdInst, AdOp, Args, Arith, Defs, Shape, Val};
use brolga_ir::lift::BlockMap;
use brolga_ir::lower::{FrameHome, FrameLayout, SlotPlace};
use brolga_ir::map::Table;
use brolga_ir::verify::GraphKind;
use cranelift_codegen::ir::{self, Type, types};

use crate::batch::widen;
use crate::dce::{KnownPrimal, prune};
use crate::facts::{Facts, delta_params};
use crate::plan::table::Plan;
use crate::translate::Statements;
use crate::translate::convert::{TicketConversion, asking, told};
use crate::translate::tangent::fit::{fit, tangent_type, type_of, unknown};
use crate::verified;

/// The graph, the name of its segment parameter, and where its stack slots have their shadows.
pub(crate) struct Tangent {
    pub graph: CfgBlocks,
    pub seg: Val,
    pub plan: Plan,
}

/// Assemble it.
///
/// # Errors
/// The rules that the graph breaks ([`crate::verified`]): a bug of ours.
pub(crate) fn tangent(
    facts: &Facts<'_>,
    lifted: &CfgBlocks,
    map: &BlockMap,
    statements: &Statements,
    symbol: &str,
    ids: &mut Ids,
) -> Result<Tangent, Diagnostics> {
    let seg = Val::D(ids.dv());
    let mut blocks = Table::with_capacity(map.len(), ids.blocks());
    let mut a = Assembler { facts, lifted, statements, seg, ids };
    for (&b, id) in map.iter() {
        let block = a.block(b, *id);
        blocks.insert(*id, block);
    }
    let signature = facts.variant.tangent_signature(&facts.func().signature);
    let mut graph = CfgBlocks { symbol: symbol.to_owned(), signature, blocks };
    let width = facts.options.width;
    let plan = Plan { frame: Some(shadows_of_slots(facts, width)), ..Plan::default() };
    verified::graph("assemble", GraphKind::Tangent, &graph, facts, &plan)?;
    if facts.options.runs(Pass::Dce) {
        let primal = facts.func();
        let computes = |inst| match CalleeKind::of(facts.program, primal, inst) {
            Some(CalleeKind::Known(rule)) => rule.only_computes(),
            _ => false,
        };
        prune(&mut graph, KnownPrimal { primal, pure: &computes, private: &facts.private });
        verified::graph("dce", GraphKind::Tangent, &graph, facts, &plan)?;
    }
    if width != 1 {
        let forward = facts.variant.forward_signature(&facts.func().signature);
        graph = widen(graph, facts, (forward.params.len(), forward.returns.len()), ids)?.0;
        verified::graph("batch", GraphKind::Tangent, &graph, facts, &plan)?;
    }
    Ok(Tangent { graph, seg, plan })
}

/// Shadows of stack slots: zeros as the function begins.
fn shadows_of_slots(facts: &Facts<'_>, width: u32) -> FrameLayout {
    let func = facts.func();
    let mut layout = FrameLayout { home: FrameHome::Variables, ..FrameLayout::default() };
    for kind in facts.pointers.roots.values() {
        let RootKind::Slot(slot) = *kind else { continue };
        let data = &func.sized_stack_slots[slot];
        let size = data.size.next_multiple_of(16).saturating_mul(width);
        let align = 1_u32 << data.align_shift.min(4);
        let shadow = layout.size.next_multiple_of(align.max(16));
        layout.size = shadow + size;
        layout.slots[slot] = Some(SlotPlace { shadow, primal: None, size, at_enter: true, between_halves: false });
    }
    layout
}

struct Assembler<'a, 'f> {
    facts: &'a Facts<'f>,
    lifted: &'a CfgBlocks,
    statements: &'a Statements,
    seg: Val,
    ids: &'a mut Ids,
}

/// Writes to the end of a block.
struct BlockEnd<'e, 'a, 'f> {
    of: &'e mut Assembler<'a, 'f>,
    insts: &'e mut Fragment,
    at: Option<ir::Inst>,
}

impl TicketConversion for BlockEnd<'_, '_, '_> {
    fn ask(&mut self, symbol: &str, args: &[(Val, Type)], ty: Type) -> Val {
        self.put(asking(symbol, args, ty), ty)
    }

    fn tell(&mut self, symbol: &str, args: &[(Val, Type)]) {
        let (defs, op) = (Defs::default(), told(symbol, args, None));
        self.insts.insert(self.of.ids.inst(), AdInst { defs, op, at: self.at });
    }

    fn convert(&mut self, op: Arith, args: &[Val], ty: Type) -> Val {
        self.put(AdOp::Arith(op, Args::from(args), ty), ty)
    }
}

impl BlockEnd<'_, '_, '_> {
    fn put(&mut self, op: AdOp, ty: Type) -> Val {
        let d = Val::D(self.of.ids.dv());
        self.insts.insert(self.of.ids.inst(), AdInst { defs: [(d, ty)].into(), op, at: self.at });
        d
    }

    /// The tangent of a value for another, or a result, of this shape.
    fn tangent(&mut self, v: ir::Value, shape: Shape) -> Val {
        let facts = self.of.facts;
        let ty = facts.func().dfg.value_type(v);
        let (primal, to) = ((Val::Primal(v), ty), (shape, type_of(ty, shape)));
        let known = facts.activity.ct[v].and_then(|ct_shape| fit(self, primal, Val::Tangent(v, 0), ct_shape, to));
        let lost = facts.is_active(v) || facts.is_unfollowed(v);
        known.unwrap_or_else(|| unknown(self, lost, to))
    }

    fn delta(&mut self, v: ir::Value) -> Val {
        self.of.facts.delta(v).unwrap_or_else(|| self.convert(Arith::Iconst(0), &[], types::I64))
    }
}

impl Assembler<'_, '_> {
    fn block(&mut self, b: ir::Block, id: brolga_ir::BlockId) -> CfgBlock {
        let (facts, lifted) = (self.facts, self.lifted);
        let primal = &lifted.blocks[&id];
        let mut params = primal.params.clone();
        let mut insts = Fragment::with_capacity(2 * primal.insts.len() + 8);
        if b == facts.cfg.blocks[0] {
            self.entry(b, &mut params, &mut insts);
        } else {
            params.extend(delta_params(facts, b).into_iter().map(|(_, v)| (Val::Delta(v), types::I64)));
            let tangents =
                self.tangent_params(b).map(|(_, v, shape)| (Val::Tangent(v, 0), tangent_type(facts, v, shape)));
            params.extend(tangents);
        }
        for (&i, inst) in primal.insts.iter() {
            let stmt = &self.statements.stmts[&inst.at.expect("a lifted instruction knows its primal")];
            insts.extend_from(&stmt.before);
            if stmt.keep {
                insts.insert(i, inst.clone());
            }
            insts.extend_from(&stmt.after);
        }
        let term_at = primal.term_at;
        if let Some(stmt) = term_at.and_then(|last| self.statements.stmts.get(&last)) {
            insts.extend_from(&stmt.before);
        }
        let term = self.terminator(b, primal.term.clone(), term_at, &mut insts);
        CfgBlock { id, role: Role::Forward(b), params, insts, term, term_at, cold: primal.cold }
    }

    /// Parameters of a block that have a tangent.
    fn tangent_params(&self, b: ir::Block) -> impl Iterator<Item = (usize, ir::Value, Shape)> + use<'_> {
        let params = self.facts.func().dfg.block_params(b).iter().enumerate();
        params.filter_map(|(i, &v)| self.facts.activity.ct[v].map(|shape| (i, v, shape)))
    }

    /// Parameters of the function and the beginning of its first block.
    fn entry(&mut self, b: ir::Block, params: &mut Vec<(Val, Type)>, insts: &mut Fragment) {
        let facts = self.facts;
        let func = facts.func();
        let formals = func.dfg.block_params(b);
        for (i, mode) in facts.variant.params.iter().enumerate() {
            if matches!(mode, ParamMode::Dup { .. }) {
                params.push((Val::Delta(formals[i]), types::I64));
            }
        }
        params.push((self.seg, types::I64));
        let mut fits = Vec::new();
        for (i, shape) in facts.variant.param_shapes(&func.signature) {
            let name = match facts.activity.ct[formals[i]] {
                Some(of) if of == shape => Val::Tangent(formals[i], 0),
                other => {
                    let d = Val::D(self.ids.dv());
                    fits.extend(other.map(|of| (formals[i], d, shape, of)));
                    d
                }
            };
            params.push((name, tangent_type(facts, formals[i], shape)));
        }
        let mut add = |ids: &mut Ids, defs: Defs, op: AdOp, at: Option<ir::Inst>| {
            insts.insert(ids.inst(), AdInst { defs, op, at });
        };
        add(self.ids, Defs::default(), AdOp::EnterFrame, None);
        for (&root, kind) in &facts.pointers.roots {
            let op = match kind {
                RootKind::Slot(s) => AdOp::SlotDelta(*s),
                RootKind::Data(k) => AdOp::DataDelta(*k),
                _ => continue,
            };
            add(self.ids, [(Val::Delta(root), types::I64)].into(), op, func.dfg.value_def(root).inst());
        }
        for (v, d, shape, of) in fits {
            let primal = (Val::Primal(v), func.dfg.value_type(v));
            let to = (of, tangent_type(facts, v, of));
            let mut end = BlockEnd { of: self, insts, at: None };
            let t = fit(&mut end, primal, d, shape, to).unwrap_or_else(|| unknown(&mut end, true, to));
            let op = AdOp::Arith(Arith::Copy, Args::from([t].as_slice()), to.1);
            insts.insert(self.ids.inst(), AdInst { defs: [(Val::Tangent(v, 0), to.1)].into(), op, at: None });
        }
    }

    /// The primal terminator, with deltas and tangents among the arguments.
    fn terminator(&mut self, b: ir::Block, mut term: Term, at: Option<ir::Inst>, insts: &mut Fragment) -> Term {
        let facts = self.facts;
        if let Term::Return(values) = &mut term {
            let (returned, variant) = (values.clone(), facts.variant);
            let primal = |i: usize| match returned[i] {
                Val::Primal(v) => v,
                _ => unreachable!("a primal returns primal values"),
            };
            let mut end = BlockEnd { of: self, insts, at };
            let pointers = variant.results.iter().enumerate().filter(|(_, r)| **r == ResultMode::Ptr);
            values.extend(pointers.map(|(i, _)| end.delta(primal(i))));
            let shapes = variant.result_shapes(&facts.func().signature);
            values.extend(shapes.map(|(i, shape)| end.tangent(primal(i), shape)));
            return term;
        }
        let targets: Vec<&mut Target> = term.targets_mut().collect();
        for target in targets {
            let Role::Forward(to) = self.lifted.blocks[&target.block].role else {
                unreachable!("a target is a primal block")
            };
            let args = facts.cfg.args(b, to);
            let tangents: Vec<_> = self.tangent_params(to).collect();
            let mut end = BlockEnd { of: self, insts, at };
            target.args.extend(delta_params(facts, to).into_iter().map(|(i, _)| end.delta(args[i])));
            target.args.extend(tangents.into_iter().map(|(i, _, shape)| end.tangent(args[i], shape)));
        }
        term
    }
}
