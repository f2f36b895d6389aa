//! Inlining: calls of short functions are replaced by the bodies of what they call.
//!
//! **Problem.** A call is a border. What a callee's parameters are (pointers into which memory, the
//! same in every iteration of the caller's loop, constants), its summary tells in part; what it
//! needs in its reverse lies in a frame or in records of its own, pushed for each call. Frontends
//! leave that to Cranelift, which inlines behind us, if at all.
//!
//! **Answer.** Cranelift's inliner, [`Context::inline`], run before a function is normalised; here
//! it is decided which calls, and what it leaves undone is done. Functions are visited from callees
//! to callers, so that what is put in is final, and no call in it is looked at again. The body of a
//! callee replaces a call if
//! - it has one, is not recursive (no cycle of calls leads through it), and is neither a function
//!   whose rule is known ([`brolga_ir::Func::computes`]), nor a part of an allocator
//!   ([`brolga_ir::Func::allocator`]: what it returns would no longer be known to be apart), nor
//!   one that is called as it is ([`Program::plain`]), nor a driver ([`brolga_ir::driver`]), whose
//!   own calls stay, too, as do those of steps that it runs (what a step adds to a cotangent must
//!   not depend on which steps run together);
//! - it has at most [`Inline::Small::callee`] instructions, and its caller has not grown by
//!   [`Inline::Small::growth`] and its own length; nor all callers together by more than [`SPARE`]
//!   and the length of all ([`Budget`]). If it is called in one place only, the program does not
//!   grow: it may have [`Inline::Small::single_call`] instructions, with all others like it in the
//!   same caller, so that no function becomes too long for the compiler. The first bound keeps a
//!   chain in which each function calls the next one twice from doubling at every step: as soon as
//!   a body is too long, its calls stay, and callers begin anew. The last one keeps the whole
//!   linear;
//! - it was not put together in more than [`DEPTH`] steps, which bounds what is said of where an
//!   instruction comes from;
//! - its stack slots are small ([`SLOTS`]), and there are none if the caller is recursive: a slot
//!   of a callee is given back when that returns, one of the caller's is not;
//! - nothing in it means something else in the caller: no address of the frame, no global value but
//!   symbols (`vmctx` is that of the function that asks), no struct passed by value, which the call
//!   would copy;
//! - where only `vmctx` parameters are pointers ([`Program::vmctx_pointers_only`]), it is given
//!   that of the caller;
//! - it has nothing that is refused anyway ([`refuse`]), so that this is reported once, and where
//!   it is;
//! - call and callee agree about the signature to the letter.
//!
//! Where any of this fails, the call stays, which is never an error: what does harm as a part of
//! its caller is derived by itself ([`crate::pipeline::inline_rollback`]). A call that may be
//! patched stays, as do `try_call`s and calls through pointers. A tail call is replaced as any
//! other; the callee's own tail calls become calls if the caller's was none.
//!
//! Cranelift's inliner forgets source locations, but hands on *debug tags*, so each instruction of
//! a callee is tagged with the number of its copy ([`brolga_ir::origin`]), and the tag becomes the
//! location. Blocks that are joined by nothing but the jump that was a call or a return become one,
//! since an edge costs a record or a comparison in the reverse.
//!
//! **Invariants.** In the program bodies stay as they are. What comes out is verified CLIF again,
//! with a location for each instruction; it computes, writes and traps as before, in the same
//! order. A function in which nothing was replaced is not there at all. Which calls are replaced
//! depends on the program and the options alone.
//!
//! **Cost.** A few walks over each function, callees first, and a copy of a callee for each call
//! that is replaced. All functions together grow by at most their own length and 10 000
//! instructions, but for callees that are called in one place.
//!
//! **Source.** Cranelift's inliner puts the bodies in.

use std::borrow::Cow;

use brolga_analysis::query::original;
use brolga_ir::Copies;
use brolga_ir::driver::Driver;
use brolga_ir::map::{HashMap, HashSet};
use brolga_ir::{FuncKey, Inline, Program};
use brolga_rules::{OpcodeRule, Structural, opcode_rule};
use cranelift_codegen::Context;
use cranelift_codegen::inline::{self, InlineCommand};
use cranelift_codegen::ir::{self, ArgumentPurpose, DebugTag, InstructionData, Opcode, types};
use cranelift_codegen::isa::TargetIsa;
use cranelift_entity::{EntitySet, SecondaryMap};
use petgraph::algo::kosaraju_scc;
use petgraph::graph::DiGraph;

use crate::primal::normalise::refuse;
use brolga_clif::simplify_cfg::join;

/// Instructions by which a derivation may grow beside its own length.
const SPARE: usize = 10_000;
/// Most calls that an instruction comes by.
const DEPTH: u32 = 16;
/// Most bytes of stack slots: of a callee, and for each caller of all that is put into it.
const SLOTS: (u64, u64) = (1 << 10, 1 << 13);

/// Which calls are to be replaced.
#[derive(Clone, Debug)]
pub struct Inlining {
    /// As the caller asks.
    pub how: Inline,
    /// Functions that replace no call.
    pub not: EntitySet<FuncKey>,
}

impl Inlining {
    /// None.
    pub fn never() -> Self {
        Self { how: Inline::Never, not: EntitySet::new() }
    }
}

/// The bodies of those of `funcs` in which calls were replaced; `program` learns where their
/// instructions come from.
pub fn inlined(
    program: &mut Program,
    funcs: &[FuncKey],
    inlining: &Inlining,
    isa: &dyn TargetIsa,
) -> HashMap<FuncKey, ir::Function> {
    let Inline::Small { callee: longest, single_call, growth } = inlining.how else { return HashMap::default() };
    // What has no body replaces no call.
    let calls = |func: &ir::Function, r| program.callee(func, r).is_some_and(|k| body(program, k).is_some());
    if !funcs.iter().filter_map(|&k| body(program, k)).any(|func| func.dfg.ext_funcs.keys().any(|r| calls(func, r))) {
        return HashMap::default();
    }
    let mut copies = std::mem::take(&mut program.copies);
    let order = bottom_up(program, funcs);
    let single = with_single_call(program, funcs);
    let mut known = InlineCosts::default();
    let of_steps: HashSet<&str> = funcs.iter().filter_map(|&k| steps_of(program, k)).collect();
    let mut left = SPARE + order.iter().filter_map(|o| Some(length(body(program, o.0)?))).sum::<usize>();
    for (key, recursive) in order {
        let Some(original) = body(program, key) else { continue };
        let mut depth = 0;
        let f = &program.funcs[key];
        if f.computes.is_none() && f.driver.is_none() && !of_steps.contains(&*f.symbol) {
            let insts = (length(original) + growth as usize).min(left);
            let budget = Budget {
                insts,
                single_call: single_call as usize,
                slots: if recursive || calls_indirectly(original) { 0 } else { SLOTS.1 },
            };
            let mut caller = Caller::new(program, key, original, &known, &mut copies, budget);
            if let Some(func) = caller.replace_calls(isa) {
                left -= insts - caller.budget.insts;
                depth = caller.depth;
                known.bodies.insert(key, func);
            }
        }
        let last = known.bodies.get(&key).unwrap_or(original);
        let slots = last.sized_stack_slots.values().map(|s| u64::from(s.size)).sum();
        let callee = Callee { length: weight(last), single_call: single.contains(key), slots, depth };
        let longest = if callee.single_call { longest.max(single_call) } else { longest };
        let fits = callee.length <= longest as usize && slots <= SLOTS.0 && depth < DEPTH;
        if fits && !recursive && !inlining.not.contains(key) && may_move(program, key, original) {
            known.callees.insert(key, callee);
        }
    }
    program.copies = copies;
    known.bodies
}

/// The function that a driver of steps calls, which calls each step.
fn steps_of(program: &Program, key: FuncKey) -> Option<&str> {
    match &program.funcs[key].driver {
        Some(Driver::Steps(of)) => Some(&of.steps),
        _ => None,
    }
}

/// Functions that have been visited.
#[derive(Default)]
struct InlineCosts {
    /// Those that may replace calls of them.
    callees: HashMap<FuncKey, Callee>,
    /// Those in which calls were replaced.
    bodies: HashMap<FuncKey, ir::Function>,
}

/// What is asked of a function that is to replace a call.
#[derive(Clone, Copy)]
struct Callee {
    /// Instructions, or whatever else there is more of.
    length: usize,
    /// Whether it is called in one place, so that nothing grows.
    single_call: bool,
    /// Bytes of stack slots.
    slots: u64,
    /// Most calls that an instruction of it has come by.
    depth: u32,
}

/// What may still be put into a function.
#[derive(Clone, Copy)]
struct Budget {
    insts: usize,
    /// The same of functions that are called in one place.
    single_call: usize,
    slots: u64,
}

impl Budget {
    /// What a callee is counted against.
    fn of(&mut self, callee: Callee) -> &mut usize {
        if callee.single_call { &mut self.single_call } else { &mut self.insts }
    }
}

fn body(program: &Program, key: FuncKey) -> Option<&ir::Function> {
    program.funcs[key].body.as_ref()
}

fn insts(func: &ir::Function) -> impl Iterator<Item = ir::Inst> + '_ {
    func.layout.blocks().flat_map(|b| func.layout.block_insts(b))
}

fn length(func: &ir::Function) -> usize {
    insts(func).count()
}

/// What it takes to copy a function: an instruction for each of its instructions, or an entry for
/// each declaration. What has been put into it has left its declarations even if nothing else is
/// left.
fn weight(func: &ir::Function) -> usize {
    let declared = func.dfg.ext_funcs.len() + func.dfg.signatures.len() + func.dfg.immediates.len();
    let more = func.dfg.num_blocks() + func.global_values.len() + func.sized_stack_slots.len();
    length(func).max(declared + more)
}

fn calls_indirectly(func: &ir::Function) -> bool {
    insts(func).any(|i| func.dfg.insts[i].opcode().is_call() && called(func, i).is_none())
}

/// What a direct call of any kind calls.
fn called(func: &ir::Function, inst: ir::Inst) -> Option<ir::FuncRef> {
    match func.dfg.insts[inst] {
        InstructionData::Call { func_ref, .. } | InstructionData::TryCall { func_ref, .. } => Some(func_ref),
        _ => None,
    }
}

/// Functions from callees to callers, and whether a cycle of direct calls leads through each.
fn bottom_up(program: &Program, funcs: &[FuncKey]) -> Vec<(FuncKey, bool)> {
    let mut graph = DiGraph::<FuncKey, ()>::new();
    let nodes: HashMap<_, _> = funcs.iter().map(|&k| (k, graph.add_node(k))).collect();
    let mut itself = EntitySet::new();
    for &k in funcs {
        let Some(caller) = body(program, k) else { continue };
        for callee in insts(caller).filter_map(|i| program.callee(caller, called(caller, i)?)) {
            if callee == k {
                itself.insert(k);
            }
            if let Some(&to) = nodes.get(&callee) {
                graph.update_edge(nodes[&k], to, ());
            }
        }
    }
    let mut order = Vec::with_capacity(funcs.len());
    // Callees come first.
    for cycle in kosaraju_scc(&graph) {
        let mut keys: Vec<FuncKey> = cycle.iter().map(|&n| graph[n]).collect();
        keys.sort_unstable();
        order.extend(keys.iter().map(|&k| (k, keys.len() > 1 || itself.contains(k))));
    }
    order
}

/// Functions that one instruction calls, and whose address is not taken.
fn with_single_call(program: &Program, funcs: &[FuncKey]) -> EntitySet<FuncKey> {
    let mut times: SecondaryMap<FuncKey, u32> = SecondaryMap::new();
    for caller in funcs.iter().filter_map(|&k| body(program, k)) {
        for inst in insts(caller) {
            let (callee, more) = match caller.dfg.insts[inst] {
                InstructionData::FuncAddr { func_ref, .. } => (Some(func_ref), 2),
                _ => (called(caller, inst), 1),
            };
            if let Some(key) = callee.and_then(|r| program.callee(caller, r)) {
                times[key] += more;
            }
        }
    }
    let mut out = EntitySet::new();
    out.extend(funcs.iter().filter(|&&k| times[k] == 1).copied());
    out
}

/// Whether a body means the same in another function.
fn may_move(program: &Program, key: FuncKey, func: &ir::Function) -> bool {
    let by_value = |p: &ir::AbiParam| matches!(p.purpose, ArgumentPurpose::StructArgument(_));
    program.funcs[key].computes.is_none()
        && program.funcs[key].rule.is_none()
        && program.funcs[key].adjoint.is_none()
        && program.funcs[key].allocator.is_none()
        && program.funcs[key].driver.is_none()
        && program.funcs[key].refused.is_none()
        && !program.funcs[key].untracked
        && !program.plain.contains(key)
        && !func.signature.params.iter().any(by_value)
        && func.dynamic_stack_slots.is_empty()
        && func.dfg.dynamic_types.is_empty()
        && insts(func).all(|i| match func.dfg.insts[i] {
            InstructionData::UnaryGlobalValue { global_value: gv, .. } => {
                matches!(func.global_values[gv], ir::GlobalValueData::Symbol { .. })
            }
            data => opcode_rule(data.opcode()) != OpcodeRule::Structural(Structural::Machine),
        })
        && refuse(program, key, func).is_ok()
}

/// A function whose calls are looked at.
struct Caller<'a> {
    program: &'a Program,
    key: FuncKey,
    original: &'a ir::Function,
    known: &'a InlineCosts,
    copies: &'a mut Copies,
    budget: Budget,
    /// Most calls that an instruction comes by.
    depth: u32,
    /// Jumps that were calls or returns.
    seams: EntitySet<ir::Inst>,
    /// Numbers of copies of returns.
    returns: HashSet<u32>,
}

impl inline::Inline for Caller<'_> {
    fn inline(
        &mut self,
        func: &ir::Function,
        call: ir::Inst,
        opcode: Opcode,
        callee: ir::FuncRef,
        args: &[ir::Value],
    ) -> InlineCommand<'_> {
        match self.callee(func, opcode, callee, args) {
            Some((key, callee)) => {
                *self.budget.of(callee) -= callee.length;
                self.budget.slots -= callee.slots;
                self.depth = self.depth.max(callee.depth + 1);
                self.seams.insert(call);
                InlineCommand::Inline { callee: Cow::Owned(self.copy(key, call)), visit_callee: false }
            }
            None => InlineCommand::KeepCall,
        }
    }
}

impl<'a> Caller<'a> {
    fn new(
        program: &'a Program,
        key: FuncKey,
        original: &'a ir::Function,
        known: &'a InlineCosts,
        copies: &'a mut Copies,
        budget: Budget,
    ) -> Self {
        let (seams, returns) = (EntitySet::new(), HashSet::default());
        Self { program, key, original, known, copies, budget, depth: 0, seams, returns }
    }

    /// The body with calls replaced; `None` if there are none, or if Cranelift cannot.
    fn replace_calls(&mut self, isa: &dyn TargetIsa) -> Option<ir::Function> {
        let original = self.original;
        let any = insts(original).any(|i| {
            let callee = called(original, i).and_then(|r| self.program.callee(original, r));
            callee.is_some_and(|k| self.known.callees.contains_key(&k))
        });
        if !any {
            return None;
        }
        let mut ctx = Context::for_function(original.clone());
        if !ctx.inline(&mut *self).ok()? {
            return None;
        }
        self.locate(&mut ctx.func);
        ctx.compute_cfg();
        ctx.compute_domtree();
        ctx.eliminate_unreachable_code(isa).ok()?;
        // Where a call or a return did.
        join(&mut ctx.func, |jump| self.seams.contains(jump));
        ctx.func.dfg.resolve_all_aliases();
        debug_assert!(cranelift_codegen::verify_function(&ctx.func, isa).is_ok(), "{}", ctx.func);
        Some(ctx.func)
    }

    /// The function that a call calls, if its body is to replace the call.
    fn callee(
        &self,
        func: &ir::Function,
        opcode: Opcode,
        callee: ir::FuncRef,
        args: &[ir::Value],
    ) -> Option<(FuncKey, Callee)> {
        let key = self.program.callee(func, callee)?;
        let found = *self.known.callees.get(&key)?;
        let sig = &self.program.funcs[key].signature;
        let instance = func.special_param(ArgumentPurpose::VMContext);
        let same_instance = |(p, &a): (&ir::AbiParam, &ir::Value)| {
            p.purpose != ArgumentPurpose::VMContext || Some(func.dfg.resolve_aliases(a)) == instance
        };
        let fits = matches!(opcode, Opcode::Call | Opcode::ReturnCall)
            && func.dfg.signatures[func.dfg.ext_funcs[callee].signature] == *sig
            && (!self.program.vmctx_pointers_only || sig.params.iter().zip(args).all(same_instance))
            && found.length <= *{ self.budget }.of(found)
            && found.slots <= self.budget.slots;
        fits.then_some((key, found))
    }

    /// The body that replaces a call, each instruction tagged with the number of its copy.
    fn copy(&mut self, key: FuncKey, call: ir::Inst) -> ir::Function {
        let known = self.known.bodies.get(&key).or_else(|| body(self.program, key));
        let mut func = known.expect("a callee has a body").clone();
        func.debug_tags.clear();
        // Those that nothing asks for, such as what a limit of the stack is made of, may not mean
        // anything in the caller.
        for gv in func.global_values.keys().collect::<Vec<_>>() {
            if !matches!(func.global_values[gv], ir::GlobalValueData::Symbol { .. }) {
                func.global_values[gv] = ir::GlobalValueData::DynScaleTargetConst { vector_type: types::I32X4 };
            }
        }
        let mut to = self.copies.at(self.key, call);
        for inst in insts(&func).collect::<Vec<_>>() {
            let copy = self.copies.copy(&mut to, key, original(&func, inst));
            func.debug_tags.set(inst, [DebugTag::User(copy.as_u32())]);
            if func.dfg.insts[inst].opcode().is_return() {
                self.returns.insert(copy.as_u32());
            }
        }
        func
    }

    /// Give each copy its location, and find the jumps that were calls or returns.
    fn locate(&mut self, func: &mut ir::Function) {
        let original_insts = self.original.dfg.num_insts();
        for block in func.layout.blocks().collect::<Vec<_>>() {
            let mut before = ir::SourceLoc::default();
            for inst in func.layout.block_insts(block).collect::<Vec<_>>() {
                if (inst.as_u32() as usize) < original_insts {
                    continue;
                }
                // After the tags that the call had. What has none is the jump after a call that
                // was a tail call.
                let tag = match func.debug_tags.get(inst).last() {
                    Some(&DebugTag::User(copy)) => Some(copy),
                    _ => None,
                };
                func.debug_tags.set(inst, []);
                before = tag.map_or(before, |copy| ir::SourceLoc::new(copy + 1));
                func.set_srcloc(inst, before);
                if func.dfg.insts[inst].opcode() == Opcode::Jump && tag.is_none_or(|t| self.returns.contains(&t)) {
                    self.seams.insert(inst);
                }
            }
        }
    }
}
