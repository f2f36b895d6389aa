//! Loop rotation: the test moves from the beginning of a loop to its end.
//!
//! **Problem.** A loop as frontends write it asks at its top whether there is another iteration:
//! `header: brif more, body, after`, and at the end of the body a jump back. An iteration has two
//! jumps, and a value that is compared before it is stepped is alive beside its successor. The
//! reverse of such a loop has the same shape, `header: brif at the first iteration, after, body`.
//! An adjoint by hand asks at the end; in a loop of eight instructions that is a tenth of the time.
//!
//! **Answer.** The header is copied to where the body jumps back to it; what is left of it is
//! asked once, on the way in. Its values are defined in several places then, so those that others
//! use become parameters of the body, and of the block after the loop; what is computed for others
//! only is computed there. Loops are rotated in any order: users of a header's values are known by
//! instruction, and copies are noted as they are made.
//!
//! **Where.** Headers of a few pure instructions, with one way into the body and one out, for which
//! each use of their values is either after the body's first block or after the one that follows
//! the loop; where several ways out meet again, a loop stays as it is.
//!
//! **Invariants.** The same instructions run on the same numbers in the same order, but for what is
//! pure. Dominance among the blocks that were there before stays what it was, so one tree serves
//! for all loops.
//!
//! ```text
//! header(v1: i64):                 header(v1: i64):
//!     v2 = icmp slt v1, v0             v2 = icmp slt v1, v0
//!     brif v2, body, after            brif v2, body(v1), after
//! body:                      ⟶     body(v4: i64):
//!     …                                …
//!     v3 = iadd v1, v9                 v3 = iadd v4, v9
//!     jump header(v3)                  v5 = icmp slt v3, v0
//!                                      brif v5, body(v3), after
//! ```
//!
//! **Cost.** One walk over the function for the uses of headers' values; then for each loop the
//! size of its header, which is small, and the number of those uses.
//!
//! **Source.** Loop rotation of LLVM.

use crate::map::HashMap;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, InstructionData, Opcode, Value};
use cranelift_codegen::loop_analysis::Loop;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;

use crate::shape::FlowInfo;
use crate::simplify_cfg::resolve_aliases;

/// Most instructions of a header that are worth a copy, the branch not counted.
const MOST: usize = 8;
/// Most jumps back to one header.
const MOST_LATCHES: usize = 2;

/// A loop that can be rotated.
struct Candidate {
    header: ir::Block,
    /// The header's branch, and which of its targets is the body.
    branch: ir::Inst,
    body_at: usize,
    latches: SmallVec<[ir::Block; 1]>,
}

/// Rotate the loops of a function; says whether there was one.
pub fn rotate(func: &mut ir::Function, shape: &FlowInfo) -> bool {
    let candidates: Vec<Candidate> = shape.loops.loops().filter_map(|l| candidate(func, shape, l)).collect();
    if candidates.is_empty() {
        return false;
    }
    resolve_aliases(func);
    let mut uses = OutsideUses::of(func, &candidates);
    let mut any = false;
    for c in candidates.iter().rev() {
        any |= rotate_one(func, shape, c, &mut uses);
    }
    any
}

fn candidate(func: &ir::Function, shape: &FlowInfo, l: Loop) -> Option<Candidate> {
    let header = shape.loops.loop_header(l);
    if func.layout.is_cold(header) {
        return None;
    }
    let branch = func.layout.last_inst(header)?;
    let InstructionData::Brif { blocks, .. } = func.dfg.insts[branch] else { return None };
    let inside = blocks.map(|c| shape.loops.is_in_loop(c.block(&func.dfg.value_lists), l));
    let body_at = match inside {
        [true, false] => 0,
        [false, true] => 1,
        _ => return None,
    };
    let mut latches: SmallVec<[ir::Block; 1]> = SmallVec::new();
    for p in shape.cfg.pred_iter(header).filter(|p| shape.loops.is_in_loop(p.block, l)) {
        let jumps = matches!(func.dfg.insts[p.inst].opcode(), Opcode::Jump | Opcode::Brif);
        if p.block == header || !jumps {
            return None;
        }
        latches.push(p.block);
    }
    latches.dedup();
    let insts: SmallVec<[ir::Inst; 8]> = func.layout.block_insts(header).filter(|&i| i != branch).collect();
    let cheap = insts.len() <= MOST && insts.iter().all(|&i| is_pure(func.dfg.insts[i].opcode()));
    (cheap && latches.len() <= MOST_LATCHES).then_some(Candidate { header, branch, body_at, latches })
}

fn is_pure(op: Opcode) -> bool {
    let works = op.can_trap() || op.other_side_effects() || op.can_load() || op.can_store();
    !(works || op.is_call() || op.is_terminator() || op.is_branch())
}

/// Uses of the values of candidates' headers, outside of these.
struct OutsideUses {
    /// The header of a value.
    home: SecondaryMap<Value, Option<ir::Block>>,
    users: HashMap<ir::Block, Vec<ir::Inst>>,
    /// For each block that is new, one that dominates it and was there before.
    stands_for: HashMap<ir::Block, ir::Block>,
}

impl OutsideUses {
    fn of(func: &ir::Function, candidates: &[Candidate]) -> Self {
        let mut uses =
            OutsideUses { home: SecondaryMap::new(), users: HashMap::default(), stands_for: HashMap::default() };
        for c in candidates {
            let insts = func.layout.block_insts(c.header).flat_map(|i| func.dfg.inst_results(i));
            for &v in func.dfg.block_params(c.header).iter().chain(insts) {
                uses.home[v] = Some(c.header);
            }
        }
        for b in func.layout.blocks() {
            for inst in func.layout.block_insts(b) {
                uses.note(func, inst, b);
            }
        }
        uses
    }

    fn note(&mut self, func: &ir::Function, inst: ir::Inst, b: ir::Block) {
        // Only branches read more than their operands, and they are few.
        if func.dfg.insts[inst].opcode().is_branch() {
            func.dfg.inst_values(inst).for_each(|v| self.reads(inst, v, b));
        } else {
            func.dfg.inst_args(inst).iter().for_each(|&v| self.reads(inst, v, b));
        }
    }

    fn reads(&mut self, inst: ir::Inst, v: Value, b: ir::Block) {
        if let Some(home) = self.home[v].filter(|&h| h != b) {
            let users = self.users.entry(home).or_default();
            if users.last() != Some(&inst) {
                users.push(inst);
            }
        }
    }
}

/// On which side of a header's branch a use is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Body,
    Exit,
}

fn rotate_one(func: &mut ir::Function, shape: &FlowInfo, c: &Candidate, uses: &mut OutsideUses) -> bool {
    let InstructionData::Brif { blocks, .. } = func.dfg.insts[c.branch] else { unreachable!("found as such") };
    let targets = [blocks[c.body_at], blocks[1 - c.body_at]].map(|t| t.block(&func.dfg.value_lists));
    // Each way must lead to a block that is entered from nowhere else, or enters from after it
    // only.
    let first = |b: ir::Block| {
        let others = || shape.cfg.pred_iter(b).filter(|p| p.inst != c.branch);
        match others().count() {
            0 => Some(false),
            _ => others().all(|p| shape.domtree.block_dominates(b, p.block)).then_some(true),
        }
    };
    let [body, exit] = targets.map(first);
    let Some(body_is_shared) = body else { return false };
    let users: Vec<ir::Inst> = uses.users.get(&c.header).cloned().unwrap_or_default();
    let mut sides: Vec<(ir::Inst, Side)> = Vec::with_capacity(users.len());
    for inst in users {
        let Some(b) = func.layout.inst_block(inst) else { continue };
        let b = uses.stands_for.get(&b).copied().unwrap_or(b);
        let side = match () {
            () if shape.domtree.block_dominates(targets[0], b) => Side::Body,
            () if exit.is_some() && shape.domtree.block_dominates(targets[1], b) => Side::Exit,
            () => return false,
        };
        sides.push((inst, side));
    }
    // Blocks of our own where a target has other predecessors.
    let body = if body_is_shared { between(func, c, c.body_at, uses) } else { targets[0] };
    let exit = match exit {
        Some(true) => between(func, c, 1 - c.body_at, uses),
        _ => targets[1],
    };
    // Values of the header that are used elsewhere, under new names.
    let idle = idle(func, c);
    for (side, block, at) in [(Side::Body, body, c.body_at), (Side::Exit, exit, 1 - c.body_at)] {
        let users = || sides.iter().filter(|s| s.1 == side).map(|s| s.0);
        let mut used: SmallVec<[Value; 8]> = SmallVec::new();
        for v in users().flat_map(|inst| func.dfg.inst_values(inst)) {
            if uses.home[v] == Some(c.header) && !used.contains(&v) {
                used.push(v);
            }
        }
        let names = hand_over(func, c, block, at, used, &idle, uses);
        for inst in users() {
            func.dfg.map_inst_values(inst, |v| renamed(&names, v));
        }
    }
    for &inst in &idle {
        func.layout.remove_inst(inst);
    }
    for &latch in &c.latches {
        ask_at_end(func, c, latch, uses);
    }
    true
}

type NewNames = SmallVec<[(Value, Value); 8]>;

fn renamed(names: &NewNames, v: Value) -> Value {
    names.iter().find(|n| n.0 == v).map_or(v, |n| n.1)
}

/// Instructions of a header that its branch does not ask for, in order.
fn idle(func: &ir::Function, c: &Candidate) -> SmallVec<[ir::Inst; 8]> {
    let mut asked: SmallVec<[Value; 8]> = func.dfg.inst_values(c.branch).collect();
    let mut idle: SmallVec<[ir::Inst; 8]> = SmallVec::new();
    let mut next = func.layout.prev_inst(c.branch);
    while let Some(inst) = next {
        if func.dfg.inst_results(inst).iter().any(|v| asked.contains(v)) {
            asked.extend(func.dfg.inst_values(inst));
        } else {
            idle.insert(0, inst);
        }
        next = func.layout.prev_inst(inst);
    }
    idle
}

/// Give a block on one side of the header's branch these values of the header: what the branch does
/// not ask for moves there, the rest arrives as parameters. Returns their names there.
fn hand_over(
    func: &mut ir::Function,
    c: &Candidate,
    block: ir::Block,
    side: usize,
    mut used: SmallVec<[Value; 8]>,
    idle: &[ir::Inst],
    uses: &mut OutsideUses,
) -> NewNames {
    let mut moving: SmallVec<[ir::Inst; 8]> = SmallVec::new();
    for &inst in idle.iter().rev() {
        if !func.dfg.inst_results(inst).iter().any(|v| used.contains(v)) {
            continue;
        }
        used.retain(|v| !func.dfg.inst_results(inst).contains(v));
        for v in func.dfg.inst_values(inst) {
            if uses.home[v] == Some(c.header) && !used.contains(&v) {
                used.push(v);
            }
        }
        moving.push(inst);
    }
    let mut names = NewNames::new();
    for v in used {
        let ty = func.dfg.value_type(v);
        names.push((v, func.dfg.append_block_param(block, ty)));
        append(func, c.branch, side, v);
    }
    let first = func.layout.first_inst(block).expect("a block has a terminator");
    for inst in moving.into_iter().rev() {
        let new = copy(func, inst, &mut names);
        func.layout.insert_inst(new, first);
        uses.note(func, new, block);
    }
    names
}

/// A copy of an instruction under these names; its results are named as well.
fn copy(func: &mut ir::Function, inst: ir::Inst, names: &mut NewNames) -> ir::Inst {
    let new = func.dfg.clone_inst(inst);
    func.dfg.map_inst_values(new, |v| renamed(names, v));
    func.set_srcloc(new, func.srcloc(inst));
    names.extend(func.dfg.inst_results(inst).iter().copied().zip(func.dfg.inst_results(new).iter().copied()));
    new
}

/// A block of our own on one side of the header's branch.
fn between(func: &mut ir::Function, c: &Candidate, side: usize, uses: &mut OutsideUses) -> ir::Block {
    let InstructionData::Brif { blocks, .. } = &func.dfg.insts[c.branch] else { unreachable!("found as such") };
    let call = blocks[side];
    let (target, args) = (call.block(&func.dfg.value_lists), args_of(func, call));
    let new = func.dfg.make_block();
    func.layout.insert_block_after(new, c.header);
    // The header's values are passed on as parameters.
    let params: Vec<BlockArg> = args
        .iter()
        .map(|&v| {
            let ty = func.dfg.value_type(v);
            BlockArg::Value(func.dfg.append_block_param(new, ty))
        })
        .collect();
    let at = func.srcloc(c.branch);
    let mut pos = FuncCursor::new(func).at_bottom(new);
    pos.set_srcloc(at);
    pos.ins().jump(target, &params);
    let dfg = &mut func.dfg;
    let InstructionData::Brif { blocks, .. } = &mut dfg.insts[c.branch] else { unreachable!("found as such") };
    blocks[side].set_block(new, &mut dfg.value_lists);
    uses.stands_for.insert(new, c.header);
    new
}

/// The header's question after a latch.
fn ask_at_end(func: &mut ir::Function, c: &Candidate, latch: ir::Block, uses: &mut OutsideUses) {
    let last = func.layout.last_inst(latch).expect("a block has a terminator");
    let calls: SmallVec<[ir::BlockCall; 2]> = match &func.dfg.insts[last] {
        InstructionData::Jump { destination, .. } => smallvec::smallvec![*destination],
        InstructionData::Brif { blocks, .. } => blocks.iter().copied().collect(),
        _ => unreachable!("a latch jumps"),
    };
    for (side, call) in calls.into_iter().enumerate() {
        if call.block(&func.dfg.value_lists) != c.header {
            continue;
        }
        let args = args_of(func, call);
        let block = match &func.dfg.insts[last] {
            InstructionData::Jump { .. } => {
                func.layout.remove_inst(last);
                latch
            }
            _ => {
                let new = func.dfg.make_block();
                func.layout.insert_block_after(new, latch);
                let call = func.dfg.block_call(new, &[]);
                let InstructionData::Brif { blocks, .. } = &mut func.dfg.insts[last] else { unreachable!("a branch") };
                blocks[side] = call;
                let stands_for = uses.stands_for.get(&latch).copied().unwrap_or(latch);
                uses.stands_for.insert(new, stands_for);
                new
            }
        };
        copy_header(func, c, block, &args, uses);
    }
}

/// The header's instructions at the end of a block, for these values of its parameters.
fn copy_header(func: &mut ir::Function, c: &Candidate, block: ir::Block, args: &[Value], uses: &mut OutsideUses) {
    let mut names = NewNames::new();
    names.extend(func.dfg.block_params(c.header).iter().copied().zip(args.iter().copied()));
    for inst in func.layout.block_insts(c.header).collect::<SmallVec<[ir::Inst; 8]>>() {
        let new = copy(func, inst, &mut names);
        func.layout.append_inst(new, block);
        uses.note(func, new, block);
        if inst == c.branch {
            ask_for_itself(func, new);
        }
    }
}

/// A branch on whether a number is zero, on the number instead of a comparison. Cranelift's mid-end
/// would compare what the number was before its last step, which would then be alive beside it.
fn ask_for_itself(func: &mut ir::Function, branch: ir::Inst) {
    let cond = func.dfg.inst_args(branch)[0];
    let Some(compare) = func.dfg.value_def(cond).inst() else { return };
    let InstructionData::IntCompare { cond: cc, args: [x, y], .. } = func.dfg.insts[compare] else { return };
    let zero = func.dfg.value_def(y).inst().map(|i| func.dfg.insts[i]);
    let is_zero = matches!(zero, Some(InstructionData::UnaryImm { opcode: Opcode::Iconst, imm }) if imm.bits() == 0);
    if !is_zero || !matches!(cc, IntCC::Equal | IntCC::NotEqual) || func.dfg.value_type(x).bits() > 64 {
        return;
    }
    let InstructionData::Brif { arg, blocks, .. } = &mut func.dfg.insts[branch] else { unreachable!("a branch") };
    *arg = x;
    if cc == IntCC::Equal {
        blocks.swap(0, 1);
    }
}

fn args_of(func: &ir::Function, call: ir::BlockCall) -> SmallVec<[Value; 4]> {
    let args = call.args(&func.dfg.value_lists);
    args.map(|a| a.as_value().expect("a branch passes values")).collect()
}

fn append(func: &mut ir::Function, branch: ir::Inst, side: usize, v: Value) {
    let dfg = &mut func.dfg;
    let InstructionData::Brif { blocks, .. } = &mut dfg.insts[branch] else { unreachable!("found as such") };
    blocks[side].append_argument(BlockArg::Value(v), &mut dfg.value_lists);
}
