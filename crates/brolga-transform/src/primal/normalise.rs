//! Legalisation: the primal in the form that the rest of the pipeline relies on.
//!
//! **Question.** A frontend may write what the rest of the pipeline would have to ask about in many
//! places. On which form may it rely?
//!
//! **Answer.** On one normal form, which the passes of `PASSES` make, one after the other.
//!
//! **Before.** A verified function of the program, its calls replaced or not
//! ([`crate::program::inline`]). **After.**
//! - no loop over the bytes of a word by shifts that vary ([`crate::primal::byte_loops`]);
//! - no branch that constants decide ([`crate::primal::decided`]);
//! - no unreachable block, no constant block parameter, no value alias;
//! - no two edges between one pair of blocks: a branch that names one block twice gets an empty
//!   block for the second edge, so an edge is named by its two blocks, and that name is what the
//!   block stack records (other critical edges stay: where an edge needs code in the pullback, it
//!   gets a block there);
//! - no tail call: `return_call` of the function itself is a jump to its first block (so a
//!   tail-recursive loop stays a loop), any other one is a call and a return;
//! - loops are canonical ([`crate::primal::loop_simplify`]), and a block comes after its
//!   dominators;
//! - no integer operation that a dominating one of the same loop has done already
//!   ([`crate::primal::cse`]);
//! - no copy of 16 bytes through a register with unknown contents
//!   ([`crate::primal::split_wide_copies`]), no word taken out of one as it was put in
//!   ([`crate::primal::wide_words`]), and no float in one of which pieces are taken
//!   ([`crate::primal::reload_bits`]);
//! - no number made of memory in case a `select` takes it ([`crate::primal::chosen_numbers`]);
//! - no value of many bytes of another one, in its order or in the opposite one
//!   ([`crate::primal::moved_bytes`]);
//! - no larger or smaller of two integers as wide as floats ([`crate::primal::extremes`]);
//! - where a constant comes off a sum that may have rounded, a question how large it is
//!   ([`crate::primal::rounding_sum`]);
//! - guards of products in one spelling, with the product beside them ([`crate::primal::guarded`]);
//! - no double read from memory of which a half was just stored by itself
//!   ([`crate::primal::mem2reg`]);
//! - no shift or rotation by a constant that is as large as what is shifted is wide: CLIF takes it
//!   modulo that, and an analysis of where bits go does not;
//! - no `shuffle` with an operand of which it takes nothing (what there is in it would count as
//!   used);
//! - every block laid out after those that dominate it, so that a walk over the layout meets
//!   definitions before uses;
//! - no stack limit (the forward pass has another frame; faults on the guard page are caught by the
//!   run time);
//! - numbered in layout order, not every number being in use, each instruction's source location
//!   still naming the instruction of the input.
//!
//! What we do not support is refused here, all of it at once. The entry block has no predecessor,
//! as in all CLIF; the pullback relies on it for its one exit.
//!
//! **Cost.** A few walks over the function for each pass, and the flow graph, dominators and loops
//! of [`crate::primal::loop_simplify`]. Most passes see by one look that there is nothing to do.

use brolga_analysis::body::Body;
use brolga_analysis::query::constant_int;
use brolga_analysis::query::original;
use brolga_analysis::uses::Uses;
use brolga_analysis::{Cfg, Loops};
use brolga_ir::lower::{is_numbered, renumber};
use brolga_ir::map::one_each;
use brolga_ir::{Diagnostic, Diagnostics, FuncKey, Pass, PassSet, Program};
use brolga_rules::{OpcodeRule, opcode_rule};
use cranelift_codegen::ir::{self, Endianness, InstBuilder, InstructionData, Opcode, Type, types};
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::packed_option::PackedOption;
use cranelift_codegen::{
    Context, cursor::Cursor, cursor::FuncCursor, dominator_tree::DominatorTree, flowgraph::ControlFlowGraph,
};
use cranelift_entity::{EntitySet, SecondaryMap};
use smallvec::SmallVec;

use crate::pass::ListedPass;
use crate::primal::byte_loops::byte_loops;
use crate::primal::chosen_numbers::chosen_numbers;
use crate::primal::cse::cse;
use crate::primal::decided::decided;
use crate::primal::edit::before;
use crate::primal::exponent_idiom::exponent_idiom;
use crate::primal::extremes::extremes;
use crate::primal::guarded::guards;
use crate::primal::loop_simplify::{loop_simplify, order};
use crate::primal::mem2reg::{CalleeWrites, mem2reg};
use crate::primal::moved_bytes::moved_bytes;
use crate::primal::pair_sincos::pair_sincos;
use crate::primal::reload_bits::reload_bits;
use crate::primal::rounding_sum::rounding_sum;
use crate::primal::split_wide_copies::split_wide_copies;
use crate::primal::upper_halves::upper_halves;
use crate::primal::wide_words::wide_words;
use brolga_clif::simplify_cfg::{join, resolve_aliases};

/// A normalised function.
#[derive(Clone, Debug)]
pub struct NormalisedPrimal {
    /// Which function of the program.
    pub key: FuncKey,
    /// Its body.
    pub func: ir::Function,
    /// Its edges.
    pub cfg: Cfg,
    /// Its loops, and what dominates what.
    pub loops: Loops,
    /// All uses of its values.
    pub uses: Uses,
}

impl NormalisedPrimal {
    /// With what all analyses ask for. Loops may be known from before: they are made of nothing but
    /// blocks; edges, if nothing has been done since.
    fn new(key: FuncKey, func: ir::Function, loops: Option<Loops>, cfg: Option<Cfg>) -> Self {
        debug_assert!(cfg.as_ref().is_none_or(|c| *c == Cfg::compute(&func)), "nothing has been done since");
        let cfg = cfg.unwrap_or_else(|| Cfg::compute(&func));
        let loops = loops.unwrap_or_else(|| Loops::compute(&cfg));
        let uses = Uses::compute(&func, &cfg);
        Self { key, func, cfg, loops, uses }
    }

    /// For summaries.
    pub fn body(&self) -> Body<'_> {
        Body { func: &self.func, cfg: &self.cfg, uses: &self.uses }
    }
}

/// A pass over a function of the program.
type PrimalPass = ListedPass<fn(&mut ir::Function, PrimalCx<'_>)>;

/// The passes over a function whose blocks can all be reached, in order. What they make is put in
/// order by loop simplification and common-subexpression elimination.
const PASSES: &[PrimalPass] = &[
    ListedPass::always("tail_calls", "a tail call has nothing behind it that a reverse could begin with", |f, cx| {
        tail_calls(cx.program, cx.key, f)
    }),
    ListedPass::always("lay_out", "walks over the layout meet definitions before uses", |f, _| lay_out(f)),
    ListedPass::always("shifts_within", "analyses of bits take amounts as they are written", |f, _| shifts_within(f)),
    ListedPass::always("say_byte_order", "parts of what was stored are found by their byte order", |f, cx| {
        say_byte_order(f, cx.isa)
    }),
    ListedPass::always("split_wide_copies", "copies of 16 bytes move floats", |f, _| split_wide_copies(f)),
    ListedPass::always("wide_words", "addresses and floats are words of their own", |f, _| wide_words(f)),
    ListedPass::always("reload_bits", "a float is followed of which pieces are taken", |f, _| reload_bits(f)),
    ListedPass::always("extremes", "the larger of a float's bits and zero is one of them", |f, _| extremes(f)),
    ListedPass::always("mem2reg", "a double is followed of which a half is stored by itself", |f, cx| {
        mem2reg(f, cx.callees)
    }),
    ListedPass::always("moved_bytes", "what comes out as it went in is followed", |f, _| moved_bytes(f)),
    ListedPass::always("upper_halves", "comparisons of upper halves are comparisons of floats", |f, _| upper_halves(f)),
    ListedPass::always("exponent_idiom", "exponents that are made of bits have a derivative", |f, _| exponent_idiom(f)),
    ListedPass::always("rounding_sum", "sums that round have the slope zero", |f, _| rounding_sum(f)),
    ListedPass::always("chosen_numbers", "numbers are made of memory where they are chosen", |f, _| chosen_numbers(f)),
    ListedPass::if_on("pair_sincos", &[Pass::PairSincos], |f, cx| pair_sincos(cx.program, f)),
    ListedPass::always("guards", "guards of products have one spelling", |f, _| guards(f)),
    ListedPass::always("only_what_is_read", "what no lane is taken from would count as used", |f, _| {
        only_what_is_read(f)
    }),
    ListedPass::always("split_parallel_edges", "an edge is named by its two blocks", |f, _| split_parallel_edges(f)),
];

/// What passes know beside the function.
#[derive(Clone, Copy)]
pub struct PrimalCx<'a> {
    /// The program.
    pub program: &'a Program,
    /// The function.
    pub key: FuncKey,
    /// What it may call.
    pub callees: &'a CalleeWrites<'a>,
    /// Passes that are switched on.
    pub enabled: PassSet,
    /// For which machine.
    pub isa: &'a dyn TargetIsa,
}

/// Normalise a function of the program: its body, or what inlining has made of it.
pub fn normalise(body: ir::Function, cx: PrimalCx<'_>) -> Result<NormalisedPrimal, Diagnostics> {
    let PrimalCx { program, key, isa, enabled, .. } = cx;
    let mut func = body;
    func.stack_limit = None;
    resolve_aliases(&mut func);
    let internal = |what: &str, e: &dyn std::fmt::Display| {
        Diagnostics::from(
            Diagnostic::new("AD0900", format!("internal: {what} failed: {e}")).in_func(&program.funcs[key].symbol),
        )
    };
    let straight = byte_loops(&mut func) | decided(&mut func);
    let all_reachable = is_reachable(&func);
    if !all_reachable {
        let mut ctx = Context::for_function(func);
        ctx.compute_cfg();
        ctx.compute_domtree();
        ctx.eliminate_unreachable_code(isa).map_err(|e| internal("unreachable code elimination", &e))?;
        func = ctx.func;
    }
    refuse(program, key, &func)?;
    if !(all_reachable && (all_vary(&func) || pass_on(&mut func) && all_vary(&func))) {
        let mut ctx = Context::for_function(func);
        ctx.compute_cfg();
        ctx.compute_domtree();
        ctx.remove_constant_phis(isa).map_err(|e| internal("constant parameter removal", &e))?;
        func = ctx.func;
        resolve_aliases(&mut func);
    }
    if straight {
        join(&mut func, |_| true);
        resolve_aliases(&mut func);
    }
    for pass in PASSES.iter().filter(|pass| pass.is_on(enabled)) {
        (pass.run)(&mut func, cx);
    }
    let made = |func: &ir::Function| (func.dfg.num_blocks(), func.dfg.num_insts(), func.dfg.num_values());
    let before = made(&func);
    let (cfg, loops) = loop_simplify(&mut func);
    let order = order(&cfg, &loops);
    let merged = enabled.contains(Pass::Cse) && cse(&mut func, &cfg, &loops, &order);
    // Mostly nothing had to be done.
    if is_numbered(&func, &order) {
        let cfg = (!merged && made(&func) == before).then_some(cfg);
        return Ok(NormalisedPrimal::new(key, func, Some(loops), cfg));
    }
    let same = order.iter().zip(0..).all(|(b, i)| b.as_u32() == i);
    Ok(NormalisedPrimal::new(key, renumber(&func, &order), same.then_some(loops), None))
}

/// Where the target is big-endian, each access says so: to passes that look at parts of what was
/// stored, an access that says nothing is little-endian.
fn say_byte_order(func: &mut ir::Function, isa: &dyn TargetIsa) {
    if isa.endianness() == Endianness::Little {
        return;
    }
    for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect::<Vec<_>>() {
        let (op, flags) = (func.dfg.insts[inst].opcode(), func.dfg.insts[inst].memflags_data(&func.dfg));
        let Some(flags) = flags.filter(|f| (op.can_load() || op.can_store()) && f.explicit_endianness().is_none())
        else {
            continue;
        };
        let flags = func.dfg.mem_flags.insert_unchecked(flags.with_endianness(Endianness::Big));
        *func.dfg.insts[inst].memflags_mut().expect("it has flags") = flags;
    }
}

/// Whether all blocks can be reached, as mostly they can: then nothing has to be computed to find
/// out which.
fn is_reachable(func: &ir::Function) -> bool {
    let mut seen: EntitySet<ir::Block> = EntitySet::new();
    let mut work: SmallVec<[ir::Block; 16]> = func.layout.entry_block().into_iter().collect();
    let mut reached = 0;
    while let Some(b) = work.pop() {
        if seen.insert(b) {
            reached += 1;
            work.extend(func.block_successors(b));
        }
    }
    func.layout.blocks().count() == reached
}

/// Whether it is seen at once that no block parameter gets the same argument wherever its block is
/// entered from: as mostly none does. One that gets two values that differ, since they are no
/// parameters, or a parameter that is none of those, is none.
fn all_vary(func: &ir::Function) -> bool {
    let Some(entry) = func.layout.entry_block() else { return true };
    let mut left: Vec<(ir::Value, SmallVec<[ir::Value; 2]>)> = Vec::new();
    // Where in that list the parameters of each block begin.
    let mut first: SecondaryMap<ir::Block, usize> = one_each(func.dfg.num_blocks());
    for b in func.layout.blocks().filter(|&b| b != entry) {
        first[b] = left.len();
        left.extend(func.dfg.block_params(b).iter().map(|&v| (v, SmallVec::new())));
    }
    if left.is_empty() {
        return true;
    }
    let dfg = &func.dfg;
    for last in func.layout.blocks().filter_map(|b| func.layout.last_inst(b)) {
        for call in dfg.insts[last].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
            let at = first[call.block(&dfg.value_lists)];
            for (k, arg) in call.args(&dfg.value_lists).enumerate() {
                // What a call gives to its handlers is theirs alone.
                let Some(v) = arg.as_value() else { return false };
                let (param, args) = &mut left[at + k];
                if v != *param && args.len() < ENOUGH && !args.contains(&v) {
                    args.push(v);
                }
            }
        }
    }
    let mut unsure: EntitySet<ir::Value> = EntitySet::new();
    unsure.extend(left.iter().map(|p| p.0));
    let mut varied: EntitySet<ir::Value> = EntitySet::new();
    // Mostly what a block passes on stands before it.
    for _ in 0..ENOUGH {
        left.retain(|(v, args)| {
            let varies = args.iter().any(|&a| varied.contains(a))
                || args.iter().filter(|&&a| !unsure.contains(a)).nth(1).is_some();
            if varies {
                unsure.remove(*v);
                varied.insert(*v);
            }
            !varies
        });
        if left.is_empty() {
            return true;
        }
    }
    false
}

/// Arguments of one parameter that are looked at, and times that all parameters are.
const ENOUGH: usize = 8;

/// Give blocks that are entered along one edge what is passed there instead of parameters, and say
/// whether there were any. Of the parameters that Cranelift would take away most are of those, and
/// often all. It leaves what gets a parameter that stays, and so does this.
fn pass_on(func: &mut ir::Function) -> bool {
    // For each block how many edges lead to it, and the last branch that one of them belongs to.
    let mut entered: SecondaryMap<ir::Block, (u32, PackedOption<ir::Inst>)> = one_each(func.dfg.num_blocks());
    for last in func.layout.blocks().filter_map(|b| func.layout.last_inst(b)) {
        let dfg = &func.dfg;
        for call in dfg.insts[last].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
            let (edges, by) = &mut entered[call.block(&dfg.value_lists)];
            (*edges, *by) = (*edges + 1, last.into());
        }
    }
    let mut any = false;
    let entry = func.layout.entry_block();
    let mut next = entry.and_then(|entry| func.layout.next_block(entry));
    while let Some(b) = next {
        next = func.layout.next_block(b);
        let (1, Some(branch)) = (entered[b].0, entered[b].1.expand()) else { continue };
        let dfg = &mut func.dfg;
        let passed_on = dfg.block_call(b, &[]);
        let calls = dfg.insts[branch].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
        let k = calls.iter().position(|c| c.block(&dfg.value_lists) == b).expect("the edge is one of its own");
        let args: Option<SmallVec<[ir::Value; 8]>> = calls[k].args(&dfg.value_lists).map(|a| a.as_value()).collect();
        // What a call gives to its handlers has no other name.
        let Some(args) = args.filter(|args| !args.is_empty()) else { continue };
        let stays = |&v: &ir::Value| matches!(dfg.value_def(v), ir::ValueDef::Param(of, _) if Some(of) != entry);
        if args.iter().any(stays) {
            continue;
        }
        let calls = dfg.insts[branch].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
        calls[k] = passed_on;
        let params = dfg.detach_block_params(b).as_slice(&dfg.value_lists).to_vec();
        params.into_iter().zip(args).for_each(|(param, arg)| dfg.change_to_alias(param, arg));
        any = true;
    }
    if any {
        func.dfg.resolve_all_aliases();
    }
    any
}

/// Diagnostics for everything in a function that we do not support.
pub fn refuse(program: &Program, key: FuncKey, func: &ir::Function) -> Result<(), Diagnostics> {
    let mut found = Diagnostics::default();
    let mut types_seen: EntitySet<ir::Value> = EntitySet::new();
    for b in func.layout.blocks() {
        for inst in func.layout.block_insts(b) {
            let op = func.dfg.insts[inst].opcode();
            if let OpcodeRule::Refused(r) = opcode_rule(op) {
                let d = Diagnostic::new(r.code, format!("`{op}` cannot be differentiated")).note(r.why).help(r.help);
                found.push(d.at(program, key, original(func, inst)));
                continue;
            }
            if let Some(d) = narrow_pointer(func, inst).or_else(|| refused_callee(program, func, inst)) {
                found.push(d.at(program, key, original(func, inst)));
                continue;
            }
            let values = func.dfg.inst_args(inst).iter().chain(func.dfg.inst_results(inst)).copied();
            for v in values {
                let ty = func.dfg.value_type(v);
                if !types_seen.contains(v)
                    && let Some((code, why, help)) = unsupported_type(ty)
                {
                    types_seen.insert(v);
                    let d = Diagnostic::new(code, format!("`{op}` has a value of type {ty}")).note(why).help(help);
                    found.push(d.at(program, key, original(func, inst)));
                }
            }
        }
    }
    found.or_ok(())
}

/// What is wrong with a call through an integer that is no pointer, which Cranelift's verifier lets
/// pass.
fn narrow_pointer(func: &ir::Function, inst: ir::Inst) -> Option<Diagnostic> {
    let op = func.dfg.insts[inst].opcode();
    let ty = func.dfg.value_type(*func.dfg.inst_args(inst).first()?);
    (matches!(op, Opcode::CallIndirect | Opcode::ReturnCallIndirect) && ty != types::I64).then(|| {
        Diagnostic::new("AD0109", format!("`{op}` goes through a pointer of type {ty}"))
            .note("code has addresses of 64 bits, and nothing says what the rest of this one is")
            .help("take the function's address as an i64 (`func_addr.i64`), or widen the number (`uextend.i64`)")
    })
}

/// Why there is no call of this function.
fn refused_callee(program: &Program, func: &ir::Function, inst: ir::Inst) -> Option<Diagnostic> {
    let ir::InstructionData::Call { func_ref, .. } = func.dfg.insts[inst] else { return None };
    let callee = &program.funcs[program.callee(func, func_ref)?];
    let refused = callee.refused.as_ref()?;
    let d = Diagnostic::new("AD0196", format!("{} has no derivative", refused.what));
    Some(d.note(refused.note).help(refused.help))
}

fn unsupported_type(ty: Type) -> Option<(&'static str, &'static str, &'static str)> {
    let lane = ty.lane_type();
    if lane == types::F16 || lane == types::F128 {
        return Some((
            "AD0107",
            "Cranelift's back ends compile no arithmetic on f16 and f128",
            "promote to f32 or f64 before the function and demote after it",
        ));
    }
    if ty.is_dynamic_vector() || lane.is_float() && ty.is_vector() && ty.bytes() != 16 {
        return Some((
            "AD0106",
            "only 128-bit float vectors are supported by Cranelift's back ends",
            "use f32x4 or f64x2",
        ));
    }
    None
}

fn tail_calls(program: &Program, key: FuncKey, func: &mut ir::Function) {
    let insts: Vec<ir::Inst> = func
        .layout
        .blocks()
        .filter_map(|b| func.layout.last_inst(b))
        .filter(|&i| matches!(func.dfg.insts[i].opcode(), Opcode::ReturnCall | Opcode::ReturnCallIndirect))
        .collect();
    if insts.is_empty() {
        return;
    }
    let is_self = |func: &ir::Function, i: ir::Inst| match func.dfg.insts[i] {
        InstructionData::Call { func_ref, .. } => program.callee(func, func_ref) == Some(key),
        _ => false,
    };
    // A second entry before the first block, which becomes the head of the loop.
    let entry = func.layout.entry_block().expect("a function has an entry");
    if insts.iter().any(|&i| is_self(func, i)) {
        let front = func.dfg.make_block();
        let params: Vec<Type> = func.dfg.block_params(entry).iter().map(|&v| func.dfg.value_type(v)).collect();
        let args: Vec<ir::BlockArg> =
            params.iter().map(|&t| ir::BlockArg::Value(func.dfg.append_block_param(front, t))).collect();
        func.layout.insert_block(front, entry);
        FuncCursor::new(func).at_bottom(front).ins().jump(entry, &args);
    }
    for inst in insts {
        let args = func.dfg.inst_args(inst).to_vec();
        let data = func.dfg.insts[inst];
        let to_self = is_self(func, inst);
        let mut pos = before(func, inst);
        if to_self {
            let args: Vec<_> = args.into_iter().map(ir::BlockArg::Value).collect();
            pos.ins().jump(entry, &args);
        } else {
            let call = match data {
                InstructionData::Call { func_ref, .. } => pos.ins().call(func_ref, &args),
                InstructionData::CallIndirect { sig_ref, .. } => pos.ins().call_indirect(sig_ref, args[0], &args[1..]),
                other => unreachable!("{} is no tail call", other.opcode()),
            };
            let results = pos.func.dfg.inst_results(call).to_vec();
            pos.ins().return_(&results);
        }
        func.layout.remove_inst(inst);
    }
}

/// If a block is laid out before one that dominates it, lay all of them out in reverse postorder.
/// Otherwise the order stays: readers of dumps know it.
pub(super) fn lay_out(func: &mut ir::Function) {
    // Where each block has a predecessor before it, all that dominates it is there, too: it
    // dominates that predecessor.
    let mut reached: EntitySet<ir::Block> = EntitySet::new();
    reached.extend(func.layout.entry_block());
    let follows = func.layout.blocks().all(|b| {
        let known = reached.contains(b);
        reached.extend(func.block_successors(b));
        known
    });
    if follows {
        return;
    }
    let cfg = ControlFlowGraph::with_function(func);
    let domtree = DominatorTree::with_function(func, &cfg);
    let mut seen: EntitySet<ir::Block> = EntitySet::new();
    let in_order = func.layout.blocks().all(|b| {
        seen.insert(b);
        domtree.idom(b).is_none_or(|d| seen.contains(d))
    });
    if in_order {
        return;
    }
    let order: Vec<ir::Block> = domtree.cfg_rpo().copied().collect();
    // The entry stays first.
    for pair in order.windows(2) {
        let insts: Vec<ir::Inst> = func.layout.block_insts(pair[1]).collect();
        func.layout.remove_block_and_insts(pair[1]);
        func.layout.insert_block_after(pair[1], pair[0]);
        insts.into_iter().for_each(|i| func.layout.append_inst(i, pair[1]));
    }
}

/// A `shuffle` that takes bytes of one operand only is given that one twice.
fn only_what_is_read(func: &mut ir::Function) {
    if func.dfg.immediates.is_empty() {
        return;
    }
    let ir::Function { stencil, .. } = func;
    let (layout, dfg) = (&stencil.layout, &mut stencil.dfg);
    for inst in layout.blocks().flat_map(|b| layout.block_insts(b)) {
        if let InstructionData::Shuffle { imm, args: [x, y], .. } = dfg.insts[inst] {
            let mask = dfg.immediates[imm].as_slice();
            let [first, second] = [0, 1].map(|k| mask.iter().any(|byte| byte / 16 == k));
            if !(first && second) {
                dfg.inst_args_mut(inst).fill(if second { y } else { x });
            }
        }
    }
}

/// Constant amounts of shifts and rotations are less than the width of what they move.
fn shifts_within(func: &mut ir::Function) {
    let mut found: Vec<(ir::Inst, i64)> = Vec::new();
    for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
        let InstructionData::Binary { opcode, args: [x, by] } = func.dfg.insts[inst] else { continue };
        let moves = matches!(opcode, Opcode::Ishl | Opcode::Ushr | Opcode::Sshr | Opcode::Rotl | Opcode::Rotr);
        let bits = i64::from(func.dfg.value_type(x).lane_bits());
        if moves && let Some(by) = constant_int(func, by).filter(|by| !(0..bits).contains(by)) {
            found.push((inst, by & (bits - 1)));
        }
    }
    for (inst, by) in found {
        let ty = func.dfg.value_type(func.dfg.inst_args(inst)[1]);
        let by = FuncCursor::new(func).at_inst(inst).ins().iconst(ty, by);
        func.dfg.inst_args_mut(inst)[1] = by;
    }
}

fn split_parallel_edges(func: &mut ir::Function) {
    let mut next = func.layout.entry_block();
    // The last block that was seen to lead to each.
    let mut from: SecondaryMap<ir::Block, Option<ir::Block>> = one_each(func.dfg.num_blocks());
    while let Some(b) = next {
        // What is made on the way stands after the block that it is made for.
        next = func.layout.next_block(b);
        let last = func.layout.last_inst(b).expect("a block has a terminator");
        let dfg = &mut func.dfg;
        let calls: SmallVec<[ir::BlockCall; 2]> =
            dfg.insts[last].branch_destination(&dfg.jump_tables, &dfg.exception_tables).into();
        let mut fixes: Vec<(usize, ir::Block, ir::BlockCall)> = Vec::new();
        for (k, call) in calls.iter().enumerate() {
            let to = call.block(&dfg.value_lists);
            if from[to].replace(b) == Some(b) {
                fixes.push((k, to, *call));
            }
        }
        let srcloc = func.srcloc(last);
        for (k, to, call) in fixes {
            let args: Vec<ir::BlockArg> = call.args(&func.dfg.value_lists).collect();
            let mid = func.dfg.make_block();
            func.layout.insert_block_after(mid, b);
            if func.layout.is_cold(to) {
                func.layout.set_cold(mid);
            }
            let mut pos = FuncCursor::new(func).at_bottom(mid);
            pos.set_srcloc(srcloc);
            pos.ins().jump(to, &args);
            let empty = func.dfg.block_call(mid, &[]);
            let dfg = &mut func.dfg;
            dfg.insts[last].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables)[k] = empty;
        }
    }
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::settings::{self, Flags};

    use super::*;

    fn parsed(text: &str) -> ir::Function {
        cranelift_reader::parse_functions(text).unwrap_or_else(|e| panic!("{e}")).remove(0)
    }

    fn some_isa() -> cranelift_codegen::isa::OwnedTargetIsa {
        let target =
            cranelift_codegen::isa::lookup_by_name("x86_64").or(cranelift_codegen::isa::lookup_by_name("aarch64"));
        target.expect("a back end").finish(Flags::new(settings::builder())).expect("flags")
    }

    /// What is seen at once, and whether Cranelift's pass finds anything to remove.
    fn looked_at(text: &str) -> (bool, bool, bool) {
        let (func, isa) = (parsed(text), some_isa());
        let (all_reachable, vary) = (is_reachable(&func), all_vary(&func));
        let params = |f: &ir::Function| f.layout.blocks().map(|b| f.dfg.num_block_params(b)).sum::<usize>();
        let before = params(&func);
        let mut ctx = Context::for_function(func);
        ctx.compute_cfg();
        ctx.compute_domtree();
        ctx.eliminate_unreachable_code(&*isa).expect("it can be");
        let reached = params(&ctx.func);
        ctx.remove_constant_phis(&*isa).expect("they can be");
        let after = params(&ctx.func);
        assert!(!all_reachable || before == reached);
        assert!(!(all_reachable && vary) || reached == after, "{text}");
        (all_reachable, vary, reached == after)
    }

    const fn loop_with(entry: &'static str, back: &'static str) -> [&'static str; 5] {
        let head = "function %f(i64, i64, i64) -> i64 {
            block0(v0: i64, v1: i64, v2: i64):
                v3 = iconst.i64 0
                jump block1(";
        [
            head,
            entry,
            ")\n block1(v4: i64, v5: i64):\n v6 = iadd v4, v1\n brif v6, block1(",
            back,
            "), block2\n block2:\n return v5\n }",
        ]
    }

    #[test]
    fn what_varies_is_seen_at_once() {
        for (entry, back, wanted) in [
            ("v0, v1", "v6, v0", (true, true)),
            // Two that turn about: each gets what enters, and the other.
            ("v0, v1", "v5, v4", (false, true)),
            ("v0, v3", "v6, v4", (true, true)),
            // The same in each iteration.
            ("v0, v1", "v6, v5", (false, false)),
            ("v0, v1", "v6, v1", (false, false)),
            ("v0, v0", "v4, v5", (false, false)),
            ("v0, v0", "v5, v4", (false, false)),
        ] {
            let (all_reachable, vary, same) = looked_at(&loop_with(entry, back).concat());
            assert!(all_reachable);
            assert_eq!((vary, same), wanted, "{entry}, {back}");
        }
    }

    #[test]
    fn blocks_with_one_way_in_get_no_arguments() {
        // Through a chain and a branch of three ways, into a loop, and one that is entered twice by
        // the same branch.
        let text = "function %f(i32, f64) -> f64 {
            block0(v0: i32, v1: f64):
                v17 = f64const 0x1.0p0
                jump block1(v1)
            block1(v2: f64):
                brif v0, block2(v2, v0), block3(v2)
            block2(v3: f64, v4: i32):
                br_table v4, block4(v3), [block5(v3), block6(v2), block5(v17)]
            block3(v5: f64):
                v6 = fadd v5, v2
                jump block7(v6, v0)
            block4(v7: f64):
                jump block7(v7, v4)
            block5(v8: f64):
                return v8
            block6(v9: f64):
                v10 = fmul v9, v3
                return v10
            block7(v11: f64, v12: i32):
                v13 = iconst.i32 1
                v14 = isub v12, v13
                brif v14, block7(v11, v14), block8(v11)
            block8(v15: f64):
                v16 = fadd v15, v11
                return v16
            }";
        let isa = some_isa();
        let (mut ours, mut ctx) = (parsed(text), Context::for_function(parsed(text)));
        assert!(!all_vary(&ours) && pass_on(&mut ours), "{ours}");
        assert!(all_vary(&ours) && !pass_on(&mut ours.clone()), "{ours}");
        cranelift_codegen::verify_function(&ours, &*isa).unwrap_or_else(|e| panic!("{e}: {ours}"));
        ctx.compute_cfg();
        ctx.compute_domtree();
        ctx.remove_constant_phis(&*isa).expect("they can be");
        ctx.func.dfg.resolve_all_aliases();
        assert_eq!(ours.to_string(), ctx.func.to_string());
        // What a loop hands on unchanged is left to Cranelift.
        let mut iterations = parsed(&loop_with("v0, v1", "v6, v5").concat());
        assert!(!pass_on(&mut iterations) && !all_vary(&iterations));
    }

    #[test]
    fn what_cannot_be_reached_is_seen() {
        let text = |to: &str| {
            format!(
                "function %f(i64) -> i64 {{\n block0(v0: i64):\n brif v0, block1, block{to}\n block1:\n return v0\n block2:\n jump block1\n }}"
            )
        };
        assert!(looked_at(&text("2")).0);
        assert!(!looked_at(&text("1")).0);
    }
}
