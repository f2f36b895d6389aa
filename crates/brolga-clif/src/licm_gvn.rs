//! Loop-invariant code motion and dominator-scoped value numbering (LICM, GVN), for functions too
//! short for Cranelift's mid-end.
//!
//! **Problem.** Lowering writes an address where it is used: `row + 8·i·n`, in the loop over a
//! row's elements. Cranelift's mid-end would move that out and merge what is there twice, but it
//! brings all else that it can do, most of which has been done before; and what it leaves takes
//! longer to give registers to. In functions of a few dozen instructions it is a third of the time
//! that Cranelift takes for them.
//!
//! **Answer.** Short functions are compiled without the mid-end, and this is what they need of it.
//! First, parameters of blocks that always hold the same go, as frontends leave some in nests of
//! loops. Then blocks are visited so that dominators come first. A pure instruction whose operands
//! are the same in each iteration of the innermost loop around it moves before that loop, and
//! further out if that holds there, too: to the end of the block that immediately dominates the
//! header. If what it computes is there already, in a block of the same loop that dominates this
//! one, that value is used.
//!
//! **What stays.** Constants, and sums and masks with them, cost no more than the register that
//! they would take for as long as the loop runs. If what uses one moves, it takes a copy along.
//! What is cold stays as it is.
//!
//! **Invariants.** Only pure instructions move, and only to where their operands are defined, so
//! each value is what it was. Control flow and the order of everything with an effect stay.
//!
//! ```text
//! block1(v3: i64):                 block0:
//!     v4 = imul v1, v2                 v4 = imul v1, v2
//!     v5 = iadd v4, v3       ⟶         jump block1(v8)
//!     v6 = imul v1, v2             block1(v3: i64):
//!     v7 = iadd v6, v3                 v5 = iadd v4, v3
//! ```
//!
//! **Cost.** One walk over the blocks, with a hash for each pure instruction, and for what moves a
//! climb through the loops around it.
//!
//! **Source.** Value numbering over the dominator tree (Briggs, Cooper and Simpson, *Value
//! numbering*, 1997); loop-invariant code motion as in LLVM's `licm`.

use crate::map::HashMap;
use crate::pure::is_pure;
use cranelift_codegen::Context;
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::ir::{self, InstructionData, Opcode, Type, Value, ValueDef};
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::loop_analysis::{Loop, LoopAnalysis};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;

use crate::shape::FlowInfo;
use crate::simplify_cfg::resolve_aliases;

/// Most instructions of a short function. In longer ones more values are alive than there are
/// registers, and which of them are spilled is better found out after the mid-end has placed them:
/// without it, and with what is done here, some ran up to 15 percent longer.
const SHORT: usize = 144;

/// Whether a function is short: then it gets along without Cranelift's mid-end.
pub fn is_short(func: &ir::Function) -> bool {
    let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    insts.take(SHORT + 1).count() <= SHORT
}

/// Move and merge in a function of this shape, or one that has changed since (`stale`).
pub fn hoist(func: &mut ir::Function, shape: FlowInfo, stale: bool, isa: &dyn TargetIsa) {
    let mut ctx = Context::for_function(std::mem::replace(func, ir::Function::new()));
    (ctx.cfg, ctx.domtree, ctx.loop_analysis) = (shape.cfg, shape.domtree, shape.loops);
    if stale {
        ctx.compute_cfg();
        ctx.compute_domtree();
        ctx.compute_loop_analysis();
    }
    ctx.remove_constant_phis(isa).expect("nothing is verified here");
    resolve_aliases(&mut ctx.func);
    let (same, known) = (HashMap::default(), HashMap::default());
    let mut instead = SecondaryMap::new();
    instead.resize(ctx.func.dfg.num_values());
    let Context { func: f, domtree, loop_analysis: loops, .. } = &mut ctx;
    let mut h = Hoist { func: f, domtree, loops, same, known, instead };
    for &block in h.domtree.cfg_rpo() {
        let warm = !h.func.layout.is_cold(block);
        h.block(block, warm);
    }
    // What cannot be reached may name what went.
    for block in h.func.layout.blocks().filter(|&b| !h.domtree.is_reachable(b)).collect::<Vec<_>>() {
        h.block(block, false);
    }
    *func = ctx.func;
}

/// What an operation computes: the instruction, with one constant for all that are equal, and its
/// type.
type Key = (InstructionData, Type);

struct Hoist<'a> {
    func: &'a mut ir::Function,
    domtree: &'a DominatorTree,
    loops: &'a LoopAnalysis,
    /// One constant of each kind, to compare operands by.
    same: HashMap<Key, Value>,
    /// What has been computed, and in which blocks.
    known: HashMap<Key, SmallVec<[(ir::Block, Value); 1]>>,
    /// The earlier value for one that was there already.
    instead: SecondaryMap<Value, Option<Value>>,
}

impl Hoist<'_> {
    /// Look at a block, or rename values in it and no more.
    fn block(&mut self, block: ir::Block, looks: bool) {
        let mut next = self.func.layout.first_inst(block);
        while let Some(inst) = next {
            next = self.func.layout.next_inst(inst);
            let instead = &self.instead;
            self.func.dfg.map_inst_values(inst, |v| instead[v].unwrap_or(v));
            let op = self.func.dfg.insts[inst].opcode();
            let &[v] = self.func.dfg.inst_results(inst) else { continue };
            if !looks || !(is_pure(op) || op == Opcode::StackAddr) {
                continue;
            }
            let key = self.key(inst);
            if is_constant(op) {
                self.same.entry(key).or_insert(v);
                continue;
            }
            let to = if self.is_cheap(inst) { block } else { self.target(block, inst) };
            if let Some(earlier) = self.found(&key, to) {
                self.instead[v] = Some(earlier);
                self.func.layout.remove_inst(inst);
                continue;
            }
            if to != block {
                self.func.layout.remove_inst(inst);
                self.put(inst, to);
            }
            self.known.entry(key).or_default().push((to, v));
        }
    }

    /// An equal value that can stand for one in a block.
    fn found(&self, key: &Key, block: ir::Block) -> Option<Value> {
        let Self { loops, domtree, .. } = self;
        let home = loops.innermost_loop(block);
        let fits = |at| at == block || loops.innermost_loop(at) == home && domtree.block_dominates(at, block);
        self.known.get(key)?.iter().find(|f| fits(f.0)).map(|f| f.1)
    }

    fn key(&self, inst: ir::Inst) -> Key {
        let dfg = &self.func.dfg;
        let mut data = dfg.insts[inst];
        // What is pure has no list of operands.
        for v in data.arguments_mut(&mut ir::ValueListPool::new()) {
            let constant = dfg.value_def(*v).inst().filter(|&i| is_constant(dfg.insts[i].opcode()));
            if let Some(one) = constant.and_then(|i| self.same.get(&(dfg.insts[i], dfg.value_type(*v)))) {
                *v = *one;
            }
        }
        (data, dfg.value_type(dfg.first_result(inst)))
    }

    /// The block furthest out where an instruction computes the same.
    fn target(&self, block: ir::Block, inst: ir::Inst) -> ir::Block {
        let Self { loops, domtree, .. } = self;
        let mut at = block;
        while let Some(l) = loops.innermost_loop(at) {
            let Some(front) = domtree.idom(loops.loop_header(l)) else { break };
            // A block of another loop would do it more often.
            if loops.innermost_loop(front) != loops.loop_parent(l) || !self.is_fixed(inst, l) {
                break;
            }
            at = front;
        }
        at
    }

    /// Whether all operands are the same in each iteration of a loop, or computed from such at
    /// little cost.
    fn is_fixed(&self, inst: ir::Inst, l: Loop) -> bool {
        self.func.dfg.inst_args(inst).iter().all(|&v| match self.func.dfg.value_def(v) {
            ValueDef::Result(i, _) => {
                let inside = self.func.layout.inst_block(i).is_some_and(|b| self.loops.is_in_loop(b, l));
                !inside || self.is_cheap(i) && self.is_fixed(i, l)
            }
            ValueDef::Param(b, _) => !self.loops.is_in_loop(b, l),
            ValueDef::Union(..) => false,
        })
    }

    /// Put an instruction at the end of a block, with copies of operands that are not there yet.
    fn put(&mut self, inst: ir::Inst, to: ir::Block) {
        for k in 0..self.func.dfg.inst_args(inst).len() {
            let v = self.func.dfg.inst_args(inst)[k];
            let Some(def) = self.func.dfg.value_def(v).inst() else { continue };
            let here = self.func.layout.inst_block(def).is_some_and(|b| self.domtree.block_dominates(b, to));
            if !here {
                let key = self.key(def);
                let copy = self.found(&key, to).unwrap_or_else(|| {
                    let new = self.func.dfg.clone_inst(def);
                    self.func.set_srcloc(new, self.func.srcloc(def));
                    self.put(new, to);
                    let copy = self.func.dfg.first_result(new);
                    self.known.entry(key).or_default().push((to, copy));
                    copy
                });
                self.func.dfg.inst_args_mut(inst)[k] = copy;
            }
        }
        let last = self.func.layout.last_inst(to).expect("a block has a terminator");
        self.func.layout.insert_inst(inst, last);
    }

    /// Whether an instruction is worth no register.
    fn is_cheap(&self, inst: ir::Inst) -> bool {
        let dfg = &self.func.dfg;
        match dfg.insts[inst] {
            InstructionData::Binary { opcode, args } => {
                let constant = |v: Value| dfg.value_def(v).inst().is_some_and(|i| is_constant(dfg.insts[i].opcode()));
                matches!(opcode, Opcode::Iadd | Opcode::Isub | Opcode::Band | Opcode::Bor | Opcode::Bxor)
                    && args.into_iter().any(constant)
            }
            data => is_constant(data.opcode()),
        }
    }
}

fn is_constant(op: Opcode) -> bool {
    matches!(op, Opcode::Iconst | Opcode::F32const | Opcode::F64const)
}
