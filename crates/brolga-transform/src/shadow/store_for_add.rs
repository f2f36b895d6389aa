//! Store for add: the first addition to the shadow of an argument is a store, so that the shadow
//! needs no zeros.
//!
//! **Problem.** The reverse of `z = load a` is `shadow[a] += z̄`: a load, an addition and a store,
//! after the shadow has been filled with zeros. Where the caller says that a shadow holds nothing
//! before the call (`Promises::fresh`), and nothing else is ever added to that place, a store is
//! enough, and the zeros are, too, for nothing. That is what an adjoint written by hand does.
//!
//! **Answer.** For each argument whose memory the function only reads and that no other pointer
//! reaches (`noalias`): find all loads of it by following its uses. If the pointer goes anywhere
//! else (into a call, into memory), nothing is known. All active loads must be in one nest of
//! loops, at addresses that differ by constants ([`crate::primal::scev`]), and that are never the
//! same in two iterations: the innermost loop steps over as many bytes as they cover together, each
//! outer one over what the whole loop in it has covered. Of loads of the same place in one block
//! the last is the first in reverse; it stores, the others add. Where only a run can tell whether
//! iterations read the same place, it is asked ([`crate::shadow::monotone_rows`]).
//!
//! **Who zeroes.** An argument is *overwritten* if every place that the function reads is stored
//! to. Then the zeros may be left out. Beyond that it is asked that the nest runs whenever the
//! function does, reads in every iteration, and leaves no gaps, so that what is left alone are
//! places before and after what was read, not some in the middle.
//!
//! **Wrapping.** Sums are modulo 2⁶⁴, so a loop comes back to a place after 2⁶⁴ / stride
//! iterations, and an iteration need not access anything, nor run the loop in it. No run has 2⁵¹
//! iterations of a loop. That is enough for steps of up to [`super::strides::SHORT_STEP`] bytes, of
//! the innermost loop and of those around it up to the first that runs in each iteration of all
//! loops around that: iterations that are counted there have been made. Longer steps are followed
//! where each iteration of each loop accesses: on their way round, addresses come through those
//! that no process has, and fault ([`super::strides`]).
//!
//! **Cost.** A walk along the uses of each argument that is promised to be fresh; its loads in one
//! iteration are compared in pairs.

use brolga_analysis::ParamMode;
use brolga_analysis::uses::Use;
use cranelift_codegen::ir::{self, InstructionData, Opcode};
use cranelift_entity::EntitySet;

use crate::facts::Facts;
use crate::facts::overwrites::{Order, Overwrites, Rows};
use crate::primal::scev::{AffineContext, Atom};
use crate::shadow::access::ShadowAccess;
use crate::shadow::local_memory::local_memory;
use crate::shadow::strides::{around, disjoint, each_iteration, stride};
use brolga_ir::Pass;

/// Look at the arguments whose shadows hold nothing before the call.
pub(crate) fn overwrites(facts: &Facts<'_>) -> Overwrites {
    let params = &facts.variant.params;
    let mut out = Overwrites { arguments: vec![false; params.len()], ..Overwrites::default() };
    for (i, mode) in params.iter().enumerate() {
        let promised = facts.variant.promises.get(i).is_some_and(|p| p.fresh && p.noalias);
        if matches!(mode, ParamMode::Dup { .. }) && promised {
            argument(facts, i, &mut out);
        }
    }
    // What comes in pieces comes later than it seems, and is added.
    if facts.activity.moves_pieces(facts.program) {
        out = Overwrites { arguments: vec![false; params.len()], ..Overwrites::default() };
    } else {
        local_memory(facts, &mut out);
    }
    out
}

/// Finds the loads of an argument that store, and whether they overwrite its shadow. `None`:
/// nothing is known.
fn argument(facts: &Facts<'_>, i: usize, out: &mut Overwrites) -> Option<()> {
    let func = facts.func();
    let entry = facts.cfg.blocks[0];
    let pointer = func.dfg.block_params(entry)[i];
    let loads = loads(facts, pointer)?;
    let block = |inst| func.layout.inst_block(inst).expect("it is in the layout");
    let active = |inst| facts.is_active(func.dfg.first_result(inst));
    let first = block(*loads.iter().find(|&&l| active(l))?);
    let nest = around(facts.loops, first);
    // What has one address in all iterations of a loop is read in each of them.
    let moves = |addr| nest.last().is_none_or(|&l| facts.loops.contains(l, facts.cfg.def_block[addr].unwrap_or(entry)));
    if !loads.iter().filter(|&&l| active(l)).all(|&l| moves(func.dfg.inst_args(l)[0])) {
        return None;
    }
    let affine = AffineContext { func, loops: facts.loops };
    let reads: Vec<ShadowAccess> = loads
        .iter()
        .map(|&inst| {
            let addr = func.dfg.inst_args(inst)[0];
            let (at, c) = affine.sum(addr, &nest).split_constant();
            let off = i64::from(brolga_analysis::query::access_offset(func, inst));
            let bytes = i64::from(func.dfg.value_type(func.dfg.first_result(inst)).bytes());
            ShadowAccess { inst, block: block(inst), at, first: c.wrapping_add(off), bytes }
        })
        .collect();
    let live: Vec<&ShadowAccess> = reads.iter().filter(|r| active(r.inst)).collect();
    let one_nest = live.iter().all(|r| around(facts.loops, r.block) == nest && r.at == live[0].at);
    // Blocks on other cycles run an unknown number of times; an address that two pointers lead to
    // belongs to neither.
    let reducible = reads.iter().all(|r| !facts.loops.irreducible.contains(r.block));
    let (coefficients, _) = live[0].at.factors(&[Atom::Value(pointer)])?;
    if !one_nest || !reducible || coefficients[0].as_constant() != Some(1) {
        return None;
    }
    let blocks: Vec<ir::Block> = live.iter().map(|r| r.block).collect();
    let stride = stride(&affine, &live[0].at, &blocks, &nest);
    let rows = if stride.is_none() && facts.options.runs(Pass::MonotoneRows) {
        Order::of_rows(facts, affine, &live, &nest)
    } else {
        None
    };
    let (chosen, covered) = disjoint(&live, stride.or(rows.as_ref().map(|r| r.1))?)?;

    let l = facts.loops;
    let returns = || facts.cfg.blocks.iter().filter(|&&b| facts.cfg.succs[b].is_empty() && returns(func, b));
    let start = nest.first().map_or(first, |&l0| l.loops[l0].header);
    let always = returns().all(|&r| l.dominates(start, r))
        && live.iter().all(|r| {
            nest.is_empty() && returns().all(|&b| l.dominates(r.block, b))
                || !nest.is_empty()
                    && (0..nest.len()).all(|k| {
                        each_iteration(l, nest[k], nest.get(k + 1).map_or(r.block, |&inner| l.loops[inner].header))
                    })
        });
    let covers_argument = covered && always && live.len() == reads.len();
    match rows {
        None => {
            out.stores.extend(chosen);
            out.arguments[i] = covers_argument;
        }
        Some((order, _)) => out.rows.push(Rows { order, loads: chosen, argument: covers_argument.then_some(i) }),
    }
    Some(())
}

fn returns(func: &ir::Function, b: ir::Block) -> bool {
    func.layout.last_inst(b).is_some_and(|i| func.dfg.insts[i].opcode().is_return())
}

/// All loads through a pointer, in layout order; `None` if it is used for anything else.
fn loads(facts: &Facts<'_>, pointer: ir::Value) -> Option<Vec<ir::Inst>> {
    let func = facts.func();
    let mut seen: EntitySet<ir::Value> = EntitySet::new();
    let mut found: EntitySet<ir::Inst> = EntitySet::new();
    let mut work = vec![pointer];
    while let Some(v) = work.pop() {
        if !seen.insert(v) {
            continue;
        }
        for u in facts.uses.of(v) {
            match *u {
                Use::Inst(inst, _) => match func.dfg.insts[inst] {
                    InstructionData::Load { opcode: Opcode::Load, .. } => {
                        found.insert(inst);
                    }
                    InstructionData::Binary { opcode: Opcode::Iadd | Opcode::Isub, .. } => {
                        work.push(func.dfg.first_result(inst));
                    }
                    InstructionData::IntCompare { .. } => {}
                    _ => return None,
                },
                Use::Edge(_, param) => work.push(param),
            }
        }
    }
    let insts = facts.cfg.all_insts().iter().copied();
    Some(insts.filter(|i| found.contains(*i)).collect())
}
