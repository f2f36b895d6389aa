//! Lowering: `CfgBlocks` to CLIF.
//!
//! **Problem.** A complete graph of derived blocks has stable names and no SSA numbering.
//! **Answer.** One walk over the blocks, each after one that leads to it, through
//! `cranelift-frontend`: names become CLIF values through one map, cotangents and the tape position
//! become frontend variables (so they live in registers and block parameters, never in memory),
//! every other instruction is expanded by [`ops`] or [`memory`].
//!
//! **Invariants.** In forward blocks a name is defined before its uses in dominance order, as in
//! the primal, and so it is in a loop that the reverse half runs again; in all other blocks the
//! names of primal values are local to the block, and the map forgets them at its start, so that a
//! use without a restore is found at once. A combined graph has forward blocks first, then reverse
//! blocks; those of a loop that is run again follow each other. Every instruction carries the
//! source location of the primal instruction it stems from; with the top bit set where it is a
//! check of ours.
//!
//! **Cost.** One walk over the graph for what it uses ([`seen`]), one over its blocks, and those of
//! the frontend.
//!
//! **Source.** The frontend's SSA construction: Braun et al., *Simple and efficient construction of
//! static single assignment form* (2013).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use crate::map::{HashMap, Table};

use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, Type, UserFuncName, types};
use cranelift_frontend::{FunctionBuilder, Switch, Variable};

use crate::block::{CfgBlocks, Target, Term};
use crate::graph::Edges;
use crate::inst::{AdInst, AdOp, Arith};
use births::Flow;
use buffers::Buffers;
use context::{LowerCx, ReusedOp, SlotHome};
use seen::{Cotangent, FrameRead, GraphNeeds};

mod batch;
mod births;
mod buffers;
mod calls;
mod channel;
mod context;
mod copy;
pub mod debug;
mod env;
mod frame;
mod memory;
mod named;
mod ops;
mod pieces;
mod poison;
mod rebase;
mod renumber;
mod seen;
pub mod segment;
mod tape;
mod typed;
mod watch;

pub use env::{CHECK_SRCLOC, Fence, LowerEnv, LoweredFunction, Shadows, tape_flags};
pub use frame::{FrameHome, FrameLayout, SlotPlace};
pub use ops::zero;
pub use renumber::{is_numbered, renumber};
pub use typed::{
    Channel, INTEGER_REGION, OF_A_RUN, Position, StandaloneEnv, TAPE_REGION, TypedTapeEnv, forget_integer_region,
    half_of, integer_flags, is_half, shadow_of_data,
};

/// Make CLIF of a graph.
pub fn lower(graph: &CfgBlocks, env: LowerEnv<'_>) -> ir::Function {
    lower_with_checks(graph, env).func
}

/// The same, with the checks of records and what else passes over the CLIF have to know.
pub fn lower_with_checks(graph: &CfgBlocks, env: LowerEnv<'_>) -> LoweredFunction {
    let name = if env.names.verbatim {
        env.primal.name.clone()
    } else {
        UserFuncName::testcase(env.names.spell(&graph.symbol))
    };
    let mut buffers = Buffers::take();
    let (func, context) = buffers.parts();
    func.name = name;
    func.signature = graph.signature.clone();
    func.params.ensure_base_srcloc(ir::SourceLoc::new(0));
    let mut b = FunctionBuilder::new(func, context);
    let blocks: Table<_, _> = graph.blocks.map(|_, _| b.create_block());
    // By position, as far as blocks are counted.
    let at = |s| graph.blocks.get_index_of(&s).expect("a successor is a block");
    let mut waiting = vec![0_usize; graph.blocks.len()];
    graph.blocks.values().flat_map(|b| b.term.successors()).for_each(|s| waiting[at(s)] += 1);
    // Laid out as the graph is, in whatever order they are filled.
    graph.blocks.keys().for_each(|id| b.func.layout.append_block(blocks[id]));
    let target = env.target;
    let seen = GraphNeeds::in_graph(graph, env.primal.dfg.num_values());
    let mut cx = LowerCx::new(env, &seen);
    let mut scope = None;
    let mut begins = HashMap::default();
    let edges = graph.edges();
    for i in order(&edges) {
        let block = &graph.blocks[i];
        let clif = blocks[&block.id];
        b.switch_to_block(clif);
        if block.cold && i != 0 {
            b.set_cold_block(clif);
        }
        cx.enter(&mut b, block, &mut scope);
        if i == 0 {
            begins = cx.begin(&mut b, &edges, &seen);
        }
        for (variable, zero) in begins.remove(&i).into_iter().flatten() {
            b.def_var(variable, zero);
        }
        cx.settled.clear();
        let insts: SmallVec<[&AdInst; 32]> = block.insts.values().collect();
        for (i, inst) in insts.iter().enumerate() {
            if (cx.env.waits || cx.env.strand) && cx.settled.ask_at <= i {
                cx.settle_next(&mut b, &insts, i);
            }
            if !cx.settled.lowered.remove(&i) {
                cx.locate(&mut b, inst.at, false);
                cx.settled.this = cx.settled.places.remove(&i);
                cx.inst(&mut b, inst);
            }
        }
        cx.locate(&mut b, block.term_at, false);
        for v in cx.sums.keys().copied().collect::<SmallVec<[_; 16]>>() {
            cx.join(&mut b, v);
        }
        cx.join_watched(&mut b);
        cx.term(&mut b, &block.term, &blocks);
        // A block all of whose predecessors are there is sealed at once: every block left open gets
        // a parameter for every variable that is read in it.
        for s in block.term.successors() {
            let n = &mut waiting[at(s)];
            *n -= 1;
            if *n == 0 {
                b.seal_block(blocks[&s]);
            }
        }
        if i == 0 {
            b.seal_block(clif);
        }
    }
    b.seal_all_blocks();
    b.finalize(target);
    rebase::rebase(func, &cx.shadows);
    let (checks, shadows) = (std::mem::take(&mut cx.checks), std::mem::take(&mut cx.in_shadows));
    LoweredFunction { func: buffers.made(), checks, shadows, segment: cx.uses_segment.get() }
}

/// The order in which blocks are filled, by position: that of the graph, but each after one that
/// leads to it.
///
/// The frontend makes a parameter for whatever is read in a block of which it does not know all
/// predecessors yet, and finds out afterwards which ones always get the same argument. It does not
/// find out of two that get each other; those of nested loops do, if bodies come before headers, as
/// they do where loops are reversed. What leads to a block has all that dominates it before
/// it.
fn order(edges: &Edges) -> Vec<usize> {
    let mut found = Vec::with_capacity(edges.len());
    let mut seen = vec![false; edges.len()];
    let mut ready = BinaryHeap::new();
    let mut next = Some(0);
    while let Some(at) = next {
        if !std::mem::replace(&mut seen[at], true) {
            found.push(at);
            ready.extend(edges.of(at).filter(|&s| !seen[s]).map(Reverse));
        }
        next = ready.pop().map(|r| r.0);
    }
    // Nothing leads to these.
    found.extend((0..seen.len()).filter(|&at| !seen[at]));
    found
}

/// What is known of a scalar constant besides its type.
fn bits_of(data: &InstructionData) -> Option<u64> {
    match data {
        InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits() as u64),
        InstructionData::UnaryIeee32 { opcode: Opcode::F32const, imm } => Some(imm.bits().into()),
        InstructionData::UnaryIeee64 { opcode: Opcode::F64const, imm } => Some(imm.bits()),
        _ => None,
    }
}

impl LowerCx<'_> {
    /// Begin a block, the present one of `b`: its parameters have their names, and what is known of
    /// other blocks is forgotten. `scope` is the loop that is run again which the last block was
    /// of.
    fn enter(&mut self, b: &mut FunctionBuilder<'_>, block: &crate::block::CfgBlock, scope: &mut Option<ir::Block>) {
        let clif = b.current_block().expect("it is the present one");
        self.forward = block.role.is_forward();
        self.known.clear();
        self.pending.clear();
        self.known.reserve(block.insts.len() / 2);
        self.zero_vectors.clear();
        let rerun = block.role.rerun_header();
        if !self.forward && (rerun.is_none() || rerun != *scope) {
            self.named.forget();
        }
        *scope = rerun;
        if b.func.layout.entry_block() == Some(clif) {
            b.append_block_params_for_function_params(clif);
        } else {
            for &(_, ty) in &block.params {
                b.append_block_param(clif, ty);
            }
        }
        for (k, &(val, _)) in block.params.iter().enumerate() {
            let v = b.block_params(clif)[k];
            self.name(val, v);
        }
    }

    /// Declare variables. Where cotangents begin as zero, and in which.
    fn begin(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        edges: &Edges,
        seen: &GraphNeeds,
    ) -> HashMap<usize, Vec<(Variable, ir::Value)>> {
        if let Some(seg) = self.env.seg {
            self.seg_value = Some(self.get(seg));
            let channels: &[Channel] = if self.env.typed.is_some() { &Channel::TYPED } else { &[Channel::Mixed] };
            channels.iter().for_each(|c| self.tapes[c.index()] = Some(b.declare_var(types::I64)));
        }
        self.cts.clone_from(&seen.cts);
        for v in seen.cts.keys() {
            if matches!(seen.cts[v], Cotangent::Nowhere) {
                continue;
            }
            let ty = self.env.ct[v].expect("a value with a cotangent has a shape").ty();
            let zero = *self.zeros.entry(ty).or_insert_with(|| ops::constant(b, ty, 0.0));
            if self.env.short {
                // That of the primal is the same.
                self.constants.insert((ty, 0), zero);
            }
        }
        // What a single block asks for needs no variable: in straight code, that is all there is.
        let shared = |v| matches!(seen.cts[v], Cotangent::Shared(_));
        let ty = |v| self.env.ct[v].expect("a value with a cotangent has a shape").ty();
        let flow = seen.shares().then(|| Flow::of(edges));
        let (births, types) = flow.as_ref().map(|f| births::births(f, &seen.asks, shared, ty)).unwrap_or_default();
        let variables: Vec<Variable> = types.iter().map(|&ty| b.declare_var(ty)).collect();
        let mut begins: HashMap<usize, Vec<(Variable, ir::Value)>> = HashMap::default();
        for birth in births {
            let variable = variables[birth.variable];
            self.cts[birth.value] = Cotangent::Shared(variable.into());
            if let Some(block) = birth.block {
                begins.entry(block).or_default().push((variable, self.zeros[&types[birth.variable]]));
            }
        }
        self.watch_begins(b, seen);
        let constant = flow.map(|f| seen.constant(&f)).unwrap_or_default();
        for &(ref read, ty, _) in &seen.frame_reads {
            match *read {
                FrameRead::Value(slot) if constant.get(slot).is_some() => {
                    self.slots.set(slot, SlotHome::Value(None));
                }
                FrameRead::Value(slot) if slot.as_variable().is_some() && self.slots.get(slot).is_none() => {
                    let var = self.zero_var(b, ty);
                    self.slots.set(slot, SlotHome::Variable(var));
                }
                FrameRead::Block(slot) if slot.as_variable().is_some() && self.block_slots.get(slot).is_none() => {
                    let var = self.zero_var(b, types::I32);
                    self.block_slots.set(slot, var);
                }
                FrameRead::Held(name) if !self.held.contains_key(&name) => {
                    let var = self.zero_var(b, ty);
                    self.held.insert(name, var);
                }
                _ => {}
            }
        }
        begins
    }

    /// A variable that is zero at first: what is read on no path is never wrong.
    fn zero_var(&mut self, b: &mut FunctionBuilder<'_>, ty: Type) -> Variable {
        let var = b.declare_var(ty);
        let zero = *self.zeros.entry(ty).or_insert_with(|| ops::zero(b, ty));
        b.def_var(var, zero);
        var
    }

    /// The zero of a cotangent type: the one from the entry block if there is one.
    fn zero(&mut self, b: &mut FunctionBuilder<'_>, ty: Type) -> ir::Value {
        self.zeros.get(&ty).copied().unwrap_or_else(|| ops::constant(b, ty, 0.0))
    }

    fn inst(&mut self, b: &mut FunctionBuilder<'_>, inst: &AdInst) {
        match &inst.op {
            AdOp::Primal(i) => {
                let src = self.env.primal;
                let data = src.dfg.insts[*i];
                if data.opcode().is_call() {
                    self.join_aside(b);
                }
                self.check_store(b, *i);
                if let Some(bits) = bits_of(&data).filter(|_| self.env.short) {
                    let (name, ty) = inst.defs[0];
                    let r = self.entry_constant(b, data, ty, bits);
                    return self.name(name, r);
                }
                let mut copier = copy::Copier {
                    src,
                    dst: b.func,
                    values: &self.named,
                    imported: &mut self.imported,
                    names: self.env.names,
                    instead: None,
                    blocks: None,
                };
                let data = data.map(&mut copier);
                let ctrl = src.dfg.ctrl_typevar(*i);
                let (new, dfg) = ir::InstBuilderBase::build(b.ins(), data, ctrl);
                let results: SmallVec<[ir::Value; 2]> = dfg.inst_results(new).into();
                for (&(name, _), r) in inst.defs.iter().zip(results) {
                    self.name(name, r);
                }
            }
            AdOp::Series(..) => unreachable!("arithmetic has taken its place"),
            AdOp::Moved(i, args) => {
                let r = self.moved(b, *i, args);
                self.name(inst.defs[0].0, r);
            }
            AdOp::Arith(Arith::Const(x), _, ty) if let Some(r) = self.in_entry(*ty, *x) => {
                self.name(inst.defs[0].0, r);
            }
            AdOp::Arith(op, args, ty) => {
                let args: SmallVec<[ir::Value; 4]> = args.iter().map(|&a| self.get(a)).collect();
                let key = ReusedOp::of(op).map(|op| (op, args[0], args.get(1).copied()));
                let known = key.and_then(|key| self.known.get(&key).copied());
                let r = known.unwrap_or_else(|| ops::arith(self, b, op, &args, *ty));
                if let Some(key) = key {
                    self.known.insert(key, r);
                }
                self.name(inst.defs[0].0, r);
            }
            AdOp::TakeCt(v) => {
                self.join(b, *v);
                let r = self.ct(b, *v);
                self.name(inst.defs[0].0, r);
            }
            AdOp::AddCt(v, by) => {
                let by = self.get(*by);
                let sum = match self.sums.get(v) {
                    Some(&so_far) => self.sum(b, so_far, by),
                    None => by,
                };
                self.sums.insert(*v, sum);
            }
            AdOp::ZeroCt(v) => {
                self.sums.swap_remove(v);
                let ty = self.env.ct[*v].expect("a value with a cotangent has a shape").ty();
                let z = self.zero(b, ty);
                self.set_ct(b, *v, z);
            }
            AdOp::Hold(name, v) => {
                if let Some(&var) = self.held.get(name) {
                    let v = self.get(*v);
                    b.def_var(var, v);
                }
            }
            AdOp::Held(name) => {
                let r = b.use_var(self.held[name]);
                self.name(inst.defs[0].0, r);
            }
            AdOp::Watch { value, not_zero, sum } => self.watch(b, self.get(*value), *not_zero, *sum),
            AdOp::WatchFrom(header) => self.watch_from(b, *header),
            AdOp::WatchJoin(header) => self.watch_join(b, *header),
            AdOp::WatchFlag(v) => self.watch_flag(b, self.get(*v)),
            AdOp::Watched => {
                let any = self.watched(b);
                self.name(inst.defs[0].0, any);
            }
            _ => self.memory_op(b, inst),
        }
    }

    /// A primal instruction on other operands.
    fn moved(&mut self, b: &mut FunctionBuilder<'_>, i: ir::Inst, args: &crate::inst::Args) -> ir::Value {
        let src = self.env.primal;
        let args: SmallVec<[ir::Value; 4]> = args.iter().map(|&a| self.get(a)).collect();
        let mut copier = copy::Copier {
            src,
            dst: b.func,
            values: &self.named,
            imported: &mut self.imported,
            names: self.env.names,
            instead: args.first().copied(),
            blocks: None,
        };
        let mut data = src.dfg.insts[i].map(&mut copier);
        data.arguments_mut(&mut b.func.dfg.value_lists).copy_from_slice(&args);
        let (new, dfg) = ir::InstBuilderBase::build(b.ins(), data, src.dfg.ctrl_typevar(i));
        dfg.first_result(new)
    }

    /// Add to a cotangent what the present block has for it.
    fn join(&mut self, b: &mut FunctionBuilder<'_>, v: ir::Value) {
        let Some(sum) = self.sums.swap_remove(&v) else { return };
        let old = self.ct(b, v);
        let sum = if self.zeros.values().any(|&z| z == old) { sum } else { self.sum(b, old, sum) };
        self.set_ct(b, v, sum);
    }

    fn term(&mut self, b: &mut FunctionBuilder<'_>, term: &Term, blocks: &Table<crate::BlockId, ir::Block>) {
        match term {
            Term::Jump(t) => {
                let args = self.args(t);
                b.ins().jump(blocks[&t.block], &args);
            }
            Term::If(c, x, y) => {
                let (c, ax, ay) = (self.get(*c), self.args(x), self.args(y));
                b.ins().brif(c, blocks[&x.block], &ax, blocks[&y.block], &ay);
            }
            Term::Table(i, default, entries) => {
                let i = self.get(*i);
                let call = |cx: &Self, b: &mut FunctionBuilder<'_>, t: &Target| {
                    let args = cx.args(t);
                    b.func.dfg.block_call(blocks[&t.block], &args)
                };
                let d = call(self, b, default);
                let es: Vec<_> = entries.iter().map(|t| call(self, b, t)).collect();
                let table = b.create_jump_table(ir::JumpTableData::new(d, &es));
                b.ins().br_table(i, table);
            }
            Term::Switch(on, cases) => {
                let (&(_, last), rest) = cases.split_last().expect("a switch has a case");
                let on = self.get(*on);
                if let [(k, first)] = rest {
                    // Two predecessors are the usual case: one compare.
                    let k = b.ins().iconst(types::I32, i64::from(*k));
                    let c = b.ins().icmp(ir::condcodes::IntCC::Equal, on, k);
                    b.ins().brif(c, blocks[first], &[], blocks[&last], &[]);
                } else {
                    let mut s = Switch::new();
                    for (k, to) in rest {
                        s.set_entry(u128::from(*k), blocks[to]);
                    }
                    s.emit(b, on, blocks[&last]);
                }
            }
            Term::Return(vs) => {
                let vs: Vec<_> = vs.iter().map(|&v| self.get(v)).collect();
                b.ins().return_(&vs);
            }
            Term::Trap(code) => {
                b.ins().trap(*code);
            }
        }
    }
}
