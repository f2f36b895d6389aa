//! Loop simplification: one preheader, one latch and a counter for each loop, so that the pullback
//! can run it backwards by counting.
//!
//! **Problem.** The reverse of a loop header must know whether this was the first iteration, and
//! what the loop's integers were. A log of block numbers and values tells, at a price for each
//! iteration; a counter that runs backwards costs nothing.
//!
//! **Answer.** Loops are brought into one form, in which such a counter is there: blocks are put in
//! where edges enter, leave or come back, and a counter where the program has none.
//!
//! **After.** Every natural loop has
//! - one block that enters its header, and one latch, the source of its only back edge;
//! - exit blocks of its own: where an edge leaves the loop, it goes to a block that has no other
//!   predecessor, so whatever the pullback must know when it enters the loop backwards can be
//!   put there;
//! - an *induction variable* in its header that does not come back to its first value: one that the
//!   program has, or an `i64` that counts iterations. What is not asked of such a counter,
//!   [`crate::dce`] removes;
//! - joins of two ways where three meet and a number that goes in steps tells which: what a
//!   compiler makes of a loop that it unrolls has a way around the loop, one around what is left
//!   over, and one through both;
//! - a comparison with zero where it ends because an integer that goes in steps is zero: C's `while
//!   (--n)` branches on the number itself.
//!
//! Irreducible cycles stay as they are, and their blocks
//! are logged. New instructions have the source location of the terminator that they stand before.
//!
//! ```text
//!     jump block1(v0)                       v8 = iconst.i64 0
//! block1(v1: f64):                          jump block1(v0, v8)
//!     …                         ⟶       block1(v1: f64, v9: i64):
//!     jump block1(v2)                       …
//!                                           v10 = iconst.i64 1
//!                                           v11 = iadd v9, v10
//!                                           jump block1(v2, v11)
//! ```
//!
//! **Cost.** The flow graph and its loops are computed at most three times, and once more for each
//! round in which a join is taken apart.
//!
//! **Source.** Loop simplification of LLVM, for the form; the counter is ours.

use brolga_analysis::cfg::edge_args;
use brolga_analysis::{Cfg, Loop, LoopId, Loops};
use brolga_ir::map::IndexSet;
use brolga_rules::is_pure;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, ValueDef, types};
use cranelift_entity::EntitySet;

use crate::primal::induction::{end, induction, steps};

/// Ways beyond which the pass does not ask which of them part at one branch.
const MOST_WAYS: usize = 16;

/// Bring all loops into canonical form. What comes back is right about blocks and edges; where new
/// values are defined, it does not tell.
pub fn loop_simplify(func: &mut ir::Function) -> (Cfg, Loops) {
    let mut cfg = Cfg::compute(func);
    let mut loops = Loops::compute(&cfg);
    if loops.loops.is_empty() {
        return (cfg, loops);
    }
    let rerun = |func: &ir::Function, cfg: &mut Cfg, loops: &mut Loops| {
        *cfg = Cfg::compute(func);
        *loops = Loops::compute(cfg);
    };
    for l in loops.loops.values() {
        // The outer edges first: a latch that is made must not become an entry.
        if l.entries.len() > 1 {
            gather(func, &l.entries, l.header, false);
        }
        if l.latches.len() > 1 {
            gather(func, &l.latches, l.header, true);
        }
    }
    if loops.loops.values().any(|l| l.entries.len() > 1 || l.latches.len() > 1) {
        rerun(func, &mut cfg, &mut loops);
    }
    // An edge may leave several loops.
    let exits: IndexSet<_> = loops.loops.values().flat_map(|l| l.exits.iter().copied()).collect();
    let shared: Vec<_> = exits.into_iter().filter(|e| cfg.preds[e.1].len() > 1).collect();
    for &(from, to) in &shared {
        split(func, from, to);
    }
    if !shared.is_empty() {
        rerun(func, &mut cfg, &mut loops);
    }
    while nest(func, &cfg, &loops) {
        rerun(func, &mut cfg, &mut loops);
    }
    for l in loops.loops.values() {
        l.exits.iter().for_each(|&(from, to)| compare(func, l, from, to));
    }
    for l in loops.loops.keys() {
        if (0..func.dfg.block_params(loops.loops[l].header).len()).all(|i| induction(func, &loops, l, i).is_none()) {
            count(func, &loops, l);
        }
    }
    (cfg, loops)
}

/// An order of all blocks in which dominators come first: the present one, if it is such.
pub fn order(cfg: &Cfg, loops: &Loops) -> Vec<ir::Block> {
    let mut seen = EntitySet::new();
    let ordered = cfg.blocks.iter().all(|&b| {
        seen.insert(b);
        loops.idom[b].is_none_or(|d| seen.contains(d))
    });
    if ordered {
        return cfg.blocks.clone();
    }
    let mut post = Vec::new();
    let mut seen = EntitySet::new();
    let mut work = vec![(cfg.blocks[0], false)];
    while let Some((b, left)) = work.pop() {
        if left {
            post.push(b);
        } else if seen.insert(b) {
            work.push((b, true));
            work.extend(cfg.succs[b].iter().map(|&s| (s, false)));
        }
    }
    post.reverse();
    post
}

/// Send the edge `from -> to` to `mid`, with the same arguments.
fn redirect(func: &mut ir::Function, from: ir::Block, to: ir::Block, mid: ir::Block) {
    let last = func.layout.last_inst(from).expect("a block has a terminator");
    let dfg = &mut func.dfg;
    let calls = dfg.insts[last].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
    let call = calls.iter_mut().find(|c| c.block(&dfg.value_lists) == to).expect("the edge is there");
    call.set_block(mid, &mut dfg.value_lists);
}

/// One block for several edges to a header.
fn gather(func: &mut ir::Function, from: &[ir::Block], header: ir::Block, back: bool) {
    let last = *from.last().expect("there are several");
    let at = func.srcloc(end(func, last));
    let mid = func.dfg.make_block();
    if back {
        func.layout.insert_block_after(mid, last);
    } else {
        func.layout.insert_block(mid, header);
    }
    let tys: Vec<_> = func.dfg.block_params(header).iter().map(|&v| func.dfg.value_type(v)).collect();
    let args: Vec<_> = tys.into_iter().map(|t| ir::BlockArg::Value(func.dfg.append_block_param(mid, t))).collect();
    let mut pos = FuncCursor::new(func).at_bottom(mid);
    pos.set_srcloc(at);
    pos.ins().jump(header, &args);
    for &p in from {
        redirect(func, p, header, mid);
    }
}

/// A block on an edge; it takes no parameters, since what it passes on dominates it.
fn split(func: &mut ir::Function, from: ir::Block, to: ir::Block) {
    let last = end(func, from);
    let at = func.srcloc(last);
    let args: Vec<ir::BlockArg> = edge_args(func, from, to).into_iter().map(ir::BlockArg::Value).collect();
    let mid = func.dfg.make_block();
    func.layout.insert_block_after(mid, from);
    let mut pos = FuncCursor::new(func).at_bottom(mid);
    pos.set_srcloc(at);
    pos.ins().jump(to, &args);
    let empty = func.dfg.block_call(mid, &[]);
    let dfg = &mut func.dfg;
    let calls = dfg.insts[last].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
    *calls.iter_mut().find(|c| c.block(&dfg.value_lists) == to).expect("the edge is there") = empty;
}

/// Where more than two ways meet in a loop, let two that part at a branch on numbers that go in
/// steps meet before the others, so that each join has a condition of its own. Whether there
/// was such a join.
fn nest(func: &mut ir::Function, cfg: &Cfg, loops: &Loops) -> bool {
    let mut found = false;
    for &b in &cfg.blocks {
        let preds = &cfg.preds[b];
        let inside = loops.innermost[b].is_some() && !loops.irreducible.contains(b) && loops.headed_by(b).is_none();
        if !inside || preds.len() < 3 || preds.len() > MOST_WAYS {
            continue;
        }
        let pair = (1..preds.len()).flat_map(|j| (0..j).map(move |i| (i, j))).find(|&(i, j)| {
            let two = [preds[i], preds[j]];
            meet(loops, two).is_some_and(|from| {
                let alone = preds.iter().filter(|&&p| loops.dominates(from, p)).count() == 2;
                let cond = match func.dfg.insts[end(func, from)] {
                    InstructionData::Brif { arg, .. } => arg,
                    _ => return false,
                };
                alone && in_steps(func, loops, b, cond, 0)
            })
        });
        if let Some((i, j)) = pair {
            gather(func, &[preds[i], preds[j]], b, true);
            found = true;
        }
    }
    found
}

/// The innermost block through which all ways to two blocks lead.
fn meet(loops: &Loops, [p, q]: [ir::Block; 2]) -> Option<ir::Block> {
    std::iter::successors(Some(p), |&d| loops.idom[d]).find(|&d| loops.dominates(d, q))
}

/// Whether an integer is made of numbers that go in steps and of what the loop around a block does
/// not change.
fn in_steps(func: &ir::Function, loops: &Loops, b: ir::Block, v: ir::Value, depth: u32) -> bool {
    let around = |d: ir::Block| loops.around(b).any(|l| loops.contains(l, d));
    match func.dfg.value_def(v) {
        ValueDef::Param(d, i) => {
            let steps = |l: LoopId| steps(func, &loops.loops[l], i).is_some();
            !around(d) || loops.headed_by(d).is_some_and(|l| loops.contains(l, b) && steps(l))
        }
        ValueDef::Result(inst, _) if func.layout.inst_block(inst).is_none_or(around) => {
            let numbers = |inst| func.dfg.inst_args(inst).iter().all(|&a| in_steps(func, loops, b, a, depth + 1));
            let op = func.dfg.insts[inst].opcode();
            let made = || is_pure(op) && func.dfg.value_type(v).is_int() && numbers(inst);
            depth < 6 && (op == Opcode::Iconst || made())
        }
        ValueDef::Result(..) => true,
        ValueDef::Union(..) => false,
    }
}

/// A value that is computed at the end of a block.
fn before_end(func: &mut ir::Function, b: ir::Block, f: impl Fn(&mut FuncCursor<'_>) -> ir::Value) -> ir::Value {
    let last = end(func, b);
    let at = func.srcloc(last);
    let mut pos = FuncCursor::new(func).at_inst(last);
    pos.set_srcloc(at);
    f(&mut pos)
}

/// Where a loop ends if a number that goes in steps is zero: branch on a comparison.
fn compare(func: &mut ir::Function, l: &Loop, from: ir::Block, to: ir::Block) {
    let last = end(func, from);
    let InstructionData::Brif { arg, blocks, .. } = func.dfg.insts[last] else { return };
    let [if_not_zero, if_zero] = blocks.map(|c| c.block(&func.dfg.value_lists));
    let n = func.dfg.block_params(l.header).len();
    let goes = (0..n).filter_map(|i| steps(func, l, i)).any(|iv| arg == iv.var || arg == iv.next);
    if !goes || to != if_zero || to == if_not_zero {
        return;
    }
    let ty = func.dfg.value_type(arg);
    let zero = before_end(func, l.entries[0], |pos| pos.ins().iconst(ty, 0));
    let cond = before_end(func, from, |pos| pos.ins().icmp(IntCC::NotEqual, arg, zero));
    if let InstructionData::Brif { arg, .. } = &mut func.dfg.insts[last] {
        *arg = cond;
    }
}

/// Give a loop a parameter that counts its iterations.
fn count(func: &mut ir::Function, loops: &Loops, l: LoopId) {
    let l = &loops.loops[l];
    let (entry, latch) = (l.entries[0], l.latches[0]);
    let n = func.dfg.append_block_param(l.header, types::I64);
    let zero = before_end(func, entry, |pos| pos.ins().iconst(types::I64, 0));
    let next = before_end(func, latch, |pos| {
        let one = pos.ins().iconst(types::I64, 1);
        pos.ins().iadd(n, one)
    });
    for (b, v) in [(entry, zero), (latch, next)] {
        let last = end(func, b);
        let dfg = &mut func.dfg;
        let calls = dfg.insts[last].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
        let call = calls.iter_mut().find(|c| c.block(&dfg.value_lists) == l.header).expect("the edge is there");
        call.append_argument(v, &mut dfg.value_lists);
    }
}
