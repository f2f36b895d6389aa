//! Lowering: `CfgBlocks` to CLIF.
//!
//! **Problem.** A complete graph of derived blocks has stable names and no SSA numbering.
//! **Answer.** One walk over the blocks, each behind one that leads to it, through
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

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use crate::map::{HashMap, IndexMap, Table};

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{
    self, BlockArg, InstBuilder, InstructionData, MemFlagsData, Opcode, Type, UserFuncName, types,
};
use cranelift_codegen::isa::TargetFrontendConfig;
use cranelift_entity::{EntitySet, SecondaryMap};
use cranelift_frontend::{FunctionBuilder, Switch, Variable};

use crate::block::{CfgBlocks, Target, Term};
use crate::graph::Edges;
use crate::inst::{AdInst, AdOp, Arith, FrameSlot, Shape, Val};
use crate::names::Names;
use births::Flow;
use buffers::Buffers;
use named::Named;
use seen::{Cotangent, FrameRead, Seen, Variables};

mod batch;
mod births;
mod buffers;
mod calls;
mod channel;
mod copy;
pub mod debug;
mod frame;
mod memory;
mod named;
mod ops;
mod pieces;
mod rebase;
mod renumber;
mod seen;
pub mod segment;
mod tape;
mod typed;
mod watch;

pub use frame::{FrameHome, FrameLayout, SlotPlace};
pub use renumber::{is_numbered, renumber};
pub use typed::{Channel, Position, Standalone, TAPE_REGION, Typed, half_of, is_half, shadow_of_data};

/// Bit of a source location that marks a check of ours, not an instruction of the primal.
pub const CHECK_SRCLOC: u32 = 1 << 31;

/// How it is seen that a record does not fit on the tape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fence {
    /// Each asks for room.
    #[default]
    No,
    /// Memory behind the tape cannot be accessed, and a fault there is the check.
    Only,
    /// The same, and each asks all the same: some of those that are in [`Lowered::checks`] are
    /// going to be taken away, or all.
    Too,
}

/// A function that was made of a graph.
pub struct Lowered {
    /// The function.
    pub func: ir::Function,
    /// Its comparisons with the end of the tape on behalf of records.
    pub checks: Vec<ir::Inst>,
    /// Its loads and stores of shadows.
    pub shadows: Shadows,
    /// Whether it uses its segment.
    pub segment: bool,
}

/// Accesses to shadows.
#[derive(Debug, Default)]
pub struct Shadows {
    /// All of them: of cotangents, of shadows of pointers, and those that clear shadows. No other
    /// load or store touches what they do.
    pub all: EntitySet<ir::Inst>,
    /// For those of cotangents, of whose primal bytes: an address of the primal, how many bytes
    /// behind it, and how many, in the order of the accesses.
    of: Vec<(ir::Inst, ir::Value, i32, u32)>,
}

impl Shadows {
    fn insert_bytes(&mut self, access: ir::Inst, addr: Val, off: i32, bytes: u32) {
        self.all.insert(access);
        if let Val::Primal(p) = addr {
            self.of.push((access, p, off, bytes));
        }
    }

    /// The bytes of the primal whose shadow an access is to: an address, how far behind it they
    /// begin, and how many they are.
    pub fn of(&self, access: ir::Inst) -> Option<(ir::Value, i32, u32)> {
        let at = self.of.binary_search_by_key(&access, |a| a.0).ok()?;
        let (_, p, off, bytes) = self.of[at];
        Some((p, off, bytes))
    }
}

/// What lowering needs besides the graph.
pub struct LowerEnv<'a> {
    /// The normalised primal.
    pub primal: &'a ir::Function,
    /// Spelling of symbols.
    pub names: &'a mut Names,
    /// The segment parameter; `None` for a function that has none (a lifted primal).
    pub seg: Option<Val>,
    /// The activation frame, if there is one.
    pub frame: Option<&'a FrameLayout>,
    /// Bytes of a block number.
    pub id_bytes: u32,
    /// Shape of each primal value's cotangent.
    pub ct: &'a SecondaryMap<ir::Value, Option<Shape>>,
    /// How many derivatives there are at once ([`crate::options::Options::width`]).
    pub width: u32,
    /// Emit the checks of a debug run.
    pub debug: bool,
    /// Some function of the program moves floats in pieces, so that cotangents may wait in front of
    /// shadows.
    pub pieces: bool,
    /// Guard products by as few instructions as there are, and not by the fastest.
    pub short: bool,
    /// How it is seen that the tape is full.
    pub fence: Fence,
    /// The tape is typed, and so is the activation frame.
    pub typed: Option<Typed<'a>>,
    /// The function runs without the run time. So does one with a typed tape.
    pub standalone: Option<Standalone<'a>>,
    /// No other function records in its segment, which is empty when it begins.
    pub alone: bool,
    /// The target.
    pub target: TargetFrontendConfig,
    /// Receives the sums of what is watched, which are only asked whether they are finite.
    pub watched: Option<&'a mut EntitySet<ir::Value>>,
}

/// Flags of accesses to the tape: nothing else aliases it.
pub fn tape_flags(func: &mut ir::Function, channel: Channel) -> MemFlagsData {
    let region = func.dfg.alias_regions.insert(ir::AliasRegionData {
        user_id: channel.region(),
        description: std::borrow::Cow::Borrowed("brolga tape"),
    });
    MemFlagsData::new().with_notrap().with_alias_region(Some(region))
}

/// Make CLIF of a graph.
pub fn lower(graph: &CfgBlocks, env: LowerEnv<'_>) -> ir::Function {
    lower_with_checks(graph, env).func
}

/// The same, with the checks of records and what else passes over the CLIF have to know.
pub fn lower_with_checks(graph: &CfgBlocks, env: LowerEnv<'_>) -> Lowered {
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
    let seen = Seen::in_graph(graph, env.primal.dfg.num_values());
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
            if cx.env.pieces && cx.settled.ask_at <= i {
                cx.settle_ahead(&mut b, &insts, i);
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
    Lowered { func: buffers.made(), checks, shadows, segment: cx.uses_segment.get() }
}

/// The order in which blocks are filled, by position: that of the graph, but each behind one that
/// leads to it.
///
/// The frontend makes a parameter for whatever is read in a block of which it does not know all
/// predecessors yet, and finds out afterwards which ones always get the same argument. It does not
/// find out of two that get each other; those of nested loops do, if bodies come before headers, as
/// they do where loops are reversed. What leads to a block has all that dominates it in front of
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

/// Operations that rules ask for again with the same operands: both factors of a square have the
/// same cotangent, and products with one cotangent share its mask.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Repeated {
    NonZero,
    KeepWhere,
    Fmul,
    Fdiv,
    /// The sum of an address and a delta.
    Shadow,
    /// An address times the width of a batch.
    Scaled,
    /// A shadow, or a field of the segment so many bytes before the access.
    ShadowOr(i32, i64),
}

impl Repeated {
    fn of(op: &Arith) -> Option<Self> {
        match op {
            Arith::NonZero => Some(Repeated::NonZero),
            Arith::KeepWhere => Some(Repeated::KeepWhere),
            Arith::Fmul => Some(Repeated::Fmul),
            Arith::Fdiv => Some(Repeated::Fdiv),
            _ => None,
        }
    }
}

/// Where a value is that is kept in no memory.
#[derive(Clone, Copy)]
enum SlotHome {
    /// In a variable of the frontend, which knows what that has on each way.
    Variable(Variable),
    /// Nowhere but where it was computed, which is the same for all that read it.
    Value(Option<ir::Value>),
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

/// State of one lowering.
struct LowerCx<'a> {
    env: LowerEnv<'a>,
    /// What names mean at present.
    named: Named,
    imported: copy::Imported,
    symbols: HashMap<String, ir::FuncRef>,
    cts: SecondaryMap<ir::Value, Cotangent>,
    /// What the present block has added to cotangents so far. It joins the variable when that is
    /// read, or at the end of the block: so a loop that adds several terms to one cotangent waits
    /// for one addition an iteration, not for all of them.
    sums: IndexMap<ir::Value, ir::Value>,
    /// Products, quotients, masks and addresses of the present block, by what they are made of.
    known: HashMap<(Repeated, ir::Value, Option<ir::Value>), ir::Value>,
    /// Constants of the entry block, by type and bits, if there is to be little code: who compiles
    /// makes one anew wherever it is used.
    constants: HashMap<(Type, u64), ir::Value>,
    /// Vectors of zeros of the present block.
    zero_vectors: SmallVec<[(Type, ir::Value); 2]>,
    /// Addresses of shadows, each the sum of an address and a delta.
    shadows: Vec<ir::Value>,
    /// Loads and stores of cotangents there.
    in_shadows: Shadows,
    /// What has been settled ahead.
    settled: pieces::SettledAhead,
    /// Comparisons with the end of the tape on behalf of records.
    checks: Vec<ir::Inst>,
    /// What is watched.
    watching: watch::Sums,
    /// Frame slots that are variables.
    kept: Variables<SlotHome>,
    kept_ids: Variables<Variable>,
    /// Held variables.
    held: HashMap<Val, Variable>,
    /// Whether the block that is being lowered belongs to the forward half.
    forward: bool,
    uses_tape: bool,
    /// Whether this function does both halves at once: it then gives back what it records.
    by_iteration: bool,
    /// `top` or `cursor` of each channel.
    tapes: [Option<Variable>; Channel::COUNT],
    /// Addresses of the activation frame and ends of the tape: made in the entry block, which
    /// dominates everything.
    fps: [Option<ir::Value>; Channel::COUNT],
    limits: [Option<ir::Value>; Channel::COUNT],
    /// The shadows of stack slots, each in a slot of its own, where the frame is typed and on the
    /// stack.
    slot_shadows: IndexMap<ir::StackSlot, ir::Value>,
    /// What stands for fields of the segment, where the tape is typed.
    substitutes: HashMap<(i32, Channel), ir::Value>,
    /// Where in a typed frame something is kept.
    kept_in: HashMap<FrameSlot, Channel>,
    zeros: HashMap<Type, ir::Value>,
    seg_value: Option<ir::Value>,
    uses_segment: Cell<bool>,
    /// Once a check has asked: to look its region up takes longer than an access.
    tape_flags: [Cell<Option<MemFlagsData>>; Channel::COUNT],
}

impl<'a> LowerCx<'a> {
    /// Nothing is lowered yet.
    fn new(env: LowerEnv<'a>, seen: &Seen) -> Self {
        let records = if env.typed.is_some() { seen.records } else { seen.uses_tape };
        let uses_tape = records || env.frame.is_some_and(|f| f.home == FrameHome::Tape);
        LowerCx {
            named: Named::new(env.primal.dfg.num_values()),
            env,
            imported: copy::Imported::default(),
            symbols: HashMap::default(),
            cts: SecondaryMap::new(),
            sums: IndexMap::default(),
            known: HashMap::default(),
            constants: HashMap::default(),
            zero_vectors: SmallVec::new(),
            shadows: Vec::new(),
            in_shadows: Shadows::default(),
            settled: pieces::SettledAhead::default(),
            checks: Vec::new(),
            watching: watch::Sums::default(),
            kept: Variables::default(),
            kept_ids: Variables::default(),
            held: HashMap::default(),
            forward: true,
            uses_tape,
            by_iteration: seen.by_iteration,
            tapes: [None; Channel::COUNT],
            fps: [None; Channel::COUNT],
            limits: [None; Channel::COUNT],
            slot_shadows: IndexMap::default(),
            substitutes: HashMap::default(),
            kept_in: HashMap::default(),
            zeros: HashMap::default(),
            seg_value: None,
            uses_segment: Cell::new(false),
            tape_flags: Default::default(),
        }
    }

    /// Begin a block, the present one of `b`: its parameters have their names, and what is known of
    /// other blocks is forgotten. `scope` is the loop that is run again which the last block was
    /// of.
    fn enter(&mut self, b: &mut FunctionBuilder<'_>, block: &crate::block::CfgBlock, scope: &mut Option<ir::Block>) {
        let clif = b.current_block().expect("it is the present one");
        self.forward = block.role.is_forward();
        self.known.clear();
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
}

impl LowerCx<'_> {
    fn get(&self, v: Val) -> ir::Value {
        self.named.get(v).unwrap_or_else(|| panic!("{v:?} is not available here"))
    }

    /// A primal value's cotangent.
    fn ct(&self, b: &mut FunctionBuilder<'_>, v: ir::Value) -> ir::Value {
        match self.cts[v] {
            Cotangent::Now(ct) => ct,
            Cotangent::Shared(var) => b.use_var(var.expect("declared at the entry")),
            Cotangent::Nowhere | Cotangent::Within(_) => unreachable!("a cotangent has a beginning"),
        }
    }

    /// From here on, a primal value's cotangent is this.
    fn set_ct(&mut self, b: &mut FunctionBuilder<'_>, v: ir::Value, ct: ir::Value) {
        match self.cts[v] {
            Cotangent::Shared(var) => b.def_var(var.expect("declared at the entry"), ct),
            _ => self.cts[v] = Cotangent::Now(ct),
        }
    }

    /// From here on, a name means this value.
    fn name(&mut self, v: Val, value: ir::Value) {
        self.named.set(v, value);
    }

    /// Instructions of ours have no meaning for the user beyond the primal instruction that they
    /// belong to.
    fn locate(&self, b: &mut FunctionBuilder<'_>, at: Option<ir::Inst>, check: bool) {
        let bits = at.map(|i| self.env.primal.srcloc(i).bits()).filter(|&b| b != u32::MAX);
        let loc = match (bits, check) {
            (bits, true) => ir::SourceLoc::new(bits.unwrap_or(0) | CHECK_SRCLOC),
            (Some(bits), false) => ir::SourceLoc::new(bits),
            (None, false) => ir::SourceLoc::default(),
        };
        b.set_srcloc(loc);
    }

    /// Declare variables. Where cotangents begin as zero, and in which.
    fn begin(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        edges: &Edges,
        seen: &Seen,
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
        for &(ref kept, ty, _) in &seen.frame_reads {
            match *kept {
                FrameRead::Value(slot) if constant.get(slot).is_some() => {
                    self.kept.set(slot, SlotHome::Value(None));
                }
                FrameRead::Value(slot) if slot.as_variable().is_some() && self.kept.get(slot).is_none() => {
                    let var = self.zero_var(b, ty);
                    self.kept.set(slot, SlotHome::Variable(var));
                }
                FrameRead::Block(slot) if slot.as_variable().is_some() && self.kept_ids.get(slot).is_none() => {
                    let var = self.zero_var(b, types::I32);
                    self.kept_ids.set(slot, var);
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

    /// A scalar constant, in the entry block.
    fn constant_once(&mut self, b: &mut FunctionBuilder<'_>, data: InstructionData, ty: Type, bits: u64) -> ir::Value {
        *self.constants.entry((ty, bits)).or_insert_with(|| {
            let entry = b.func.layout.entry_block().expect("blocks are laid out");
            let mut cursor = FuncCursor::new(b.func).at_first_insertion_point(entry);
            let (inst, dfg) = ir::InstBuilderBase::build(cursor.ins(), data, ty);
            dfg.first_result(inst)
        })
    }

    /// A constant of the primal's in the entry block that is a float.
    fn in_entry(&self, ty: Type, x: f64) -> Option<ir::Value> {
        let bits = match ty {
            types::F64 => x.to_bits(),
            types::F32 => (x as f32).to_bits().into(),
            _ => return None,
        };
        self.constants.get(&(ty, bits)).copied()
    }

    /// A vector of zeros, one in each block that asks.
    fn zero_vector(&mut self, b: &mut FunctionBuilder<'_>, ty: Type) -> ir::Value {
        if let Some(&(_, zero)) = self.zero_vectors.iter().find(|z| z.0 == ty) {
            return zero;
        }
        let bytes = b.func.dfg.constants.insert(ir::ConstantData::from([0_u8; 16].as_slice()));
        let zero = b.ins().vconst(ty, bytes);
        self.zero_vectors.push((ty, zero));
        zero
    }

    fn inst(&mut self, b: &mut FunctionBuilder<'_>, inst: &AdInst) {
        match &inst.op {
            AdOp::Primal(i) => {
                let src = self.env.primal;
                let data = src.dfg.insts[*i];
                if data.opcode().is_call() {
                    self.join_aside(b);
                }
                if let Some(bits) = bits_of(&data).filter(|_| self.env.short) {
                    let (name, ty) = inst.defs[0];
                    let r = self.constant_once(b, data, ty, bits);
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
                let key = Repeated::of(op).map(|op| (op, args[0], args.get(1).copied()));
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

    fn args(&self, t: &Target) -> SmallVec<[BlockArg; 4]> {
        t.args.iter().map(|&a| BlockArg::Value(self.get(a))).collect()
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

    /// The derived function's copy of a primal stack slot.
    fn native_slot(&mut self, b: &mut FunctionBuilder<'_>, slot: ir::StackSlot) -> ir::StackSlot {
        use ir::instructions::InstructionMapper;
        copy::Copier {
            src: self.env.primal,
            dst: b.func,
            values: &self.named,
            imported: &mut self.imported,
            names: self.env.names,
            instead: None,
            blocks: None,
        }
        .map_stack_slot(slot)
    }

    /// Import a function by symbol.
    fn symbol(&mut self, b: &mut FunctionBuilder<'_>, symbol: &str, sig: &ir::Signature) -> ir::FuncRef {
        if let Some(&f) = self.symbols.get(symbol) {
            return f;
        }
        let signature = b.import_signature(sig.clone());
        let name = ir::ExternalName::testcase(self.env.names.spell(symbol));
        let f = b.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
        self.symbols.insert(symbol.to_owned(), f);
        f
    }

    fn tape_flags(&self, b: &mut FunctionBuilder<'_>, channel: Channel) -> MemFlagsData {
        let known = &self.tape_flags[channel.index()];
        let flags = known.get().unwrap_or_else(|| tape_flags(b.func, channel));
        known.set(Some(flags));
        flags
    }
}
