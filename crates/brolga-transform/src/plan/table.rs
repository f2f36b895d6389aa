//! The plan as a table: which values of a function are recorded, recomputed, held, or found out
//! from predecessors.
//!
//! **Question.** What has the planner decided, for `assemble` and `explain` to read? **Answer.**
//! For each block its record and its frame slots, and for each name that its reverse needs a
//! [`Supply`]: where it comes from, and by which [`Way`].
//!
//! **Cost.** One [`Supply`] for each name that the reverse of a block reads. None at run time: what
//! each way costs there is the planner's to weigh.

use brolga_analysis::{Cfg, RootKind};

use brolga_ir::inst::{FrameSlot, Val};
use brolga_ir::lower::FrameLayout;
use brolga_ir::map::{HashMap, IndexMap, IndexSet};
use brolga_rules::cost::latency;
use cranelift_codegen::ir::{self, Type, types};
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::facts::Facts;
use crate::plan::invert::Undo;
use crate::primal::induction::Induction;

/// A loop that is run again.
#[derive(Clone, Debug)]
pub struct Rerun {
    /// Its header.
    pub header: ir::Block,
    /// The block that enters it.
    pub entry: ir::Block,
    /// Its blocks, in layout order.
    pub blocks: IndexSet<ir::Block>,
    /// Members of sums, each with the parameter of the header that its sum begins with.
    pub sums: IndexMap<ir::Value, ir::Value>,
    /// What it reads from outside.
    pub outer: IndexSet<Val>,
    /// Whether it is reversed iteration by iteration, not block by block.
    pub by_iteration: bool,
    /// Iteration by iteration: where the parameters of the header are for the next iteration.
    pub next: Vec<FrameSlot>,
}

/// When the last of some values is there.
pub fn chain(at: &HashMap<ir::Value, u32>, values: &[ir::Value]) -> u32 {
    values.iter().filter_map(|v| at.get(v)).copied().max().unwrap_or(0)
}

/// How a name gets into a reverse block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Read from the activation frame.
    Frame(FrameSlot),
    /// Popped with the block's record.
    Record,
    /// Computed again by this primal instruction, or read again from memory.
    Recompute(ir::Inst),
    /// In a variable that is held while the pullback is in a loop.
    Held,
    /// An induction variable after its loop, from the bound that it was compared with.
    Last(ExitValue),
}

/// The ways in which a name gets into a reverse block, and the order in which they are preferred:
/// see [`super::ways`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It is made of constants alone, by little arithmetic: that is done again.
    Constant,
    /// It is defined at most once per call, the frame is on the tape, and the block is in a loop:
    /// the loop holds it in a variable, and reads the tape once.
    HeldFromTape,
    /// It is defined at most once per call, and with little effort: one instruction computes it
    /// from what the reverse of the block has by then anyway.
    FromAvailableOperands,
    /// It is defined at most once per call: it is kept in the frame.
    Frame,
    /// The block is the exit of its loop: it follows from the bound that it was compared with.
    FinalAtExit,
    /// The block runs at most once per call: what it reads is kept in the frame.
    FrameOfReader,
    /// It is an integer whose previous value follows from the next ([`super::invert`]).
    Inverted,
    /// It is defined outside of a loop around the block: the loop holds it in a variable, set where
    /// the pullback enters the loop.
    Held,
    /// Its loop has ended: it follows from the bound that it was compared with.
    Final,
    /// It is read from memory that no later store clobbers.
    Reload,
    /// It is pure and cheap arithmetic.
    Recompute,
    /// It is a quotient whose reverse divides by the same number, where much less is recorded by
    /// computing it again ([`brolga_clif::slp_divisions`]).
    Quotient,
    /// It is read from memory in which all later writes are undone by then.
    ReloadAfterUndo,
    /// It is pushed on the tape, and popped: what is left by the ways of the list, or what the cost
    /// model would rather record.
    Record,
}

impl Way {
    /// All that need no record, the preferred one first.
    pub const LIST: [Self; 13] = [
        Self::Constant,
        Self::HeldFromTape,
        Self::FromAvailableOperands,
        Self::Frame,
        Self::FinalAtExit,
        Self::FrameOfReader,
        Self::Inverted,
        Self::Held,
        Self::Final,
        Self::Reload,
        Self::Recompute,
        Self::Quotient,
        Self::ReloadAfterUndo,
    ];

    /// Whether it takes other names, which the block must have by a way of the list as well, or by
    /// a record.
    pub fn computes(self) -> bool {
        use Way::{Final, FinalAtExit, Quotient, Recompute, Reload, ReloadAfterUndo};
        matches!(self, FinalAtExit | Final | Reload | Recompute | Quotient | ReloadAfterUndo)
    }
}

/// A name that a reverse block reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    /// The name.
    pub name: Val,
    /// Where it comes from.
    pub source: Source,
    /// By which way of the list.
    pub way: Way,
}

/// What an integer that goes in steps was when its loop was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitValue {
    /// It, if it is not the one that was compared: it has gone as many steps.
    pub of: Option<Induction>,
    /// The variable that was compared.
    pub iv: Induction,
    /// What it was compared with.
    pub bound: ir::Value,
    /// Whether the next value was compared.
    pub of_next: bool,
    /// The first value that is compared and the bound: which of them is where the loop ends. `None`
    /// if always the bound.
    pub far: Option<ir::Opcode>,
}

impl ExitValue {
    /// The values that it is computed from.
    pub fn operands(&self) -> impl Iterator<Item = ir::Value> + use<> {
        let first = (self.far.is_some() || self.of.is_some()).then_some(self.iv.start);
        [Some(self.bound), first, self.of.map(|x| x.start)].into_iter().flatten()
    }

    /// The same for another variable of the same loop, if that follows: from the way that the one
    /// has gone, or from the number of its steps, which are of a power of two.
    pub fn with(self, func: &ir::Function, of: Induction) -> Option<Self> {
        let bits = |iv: &Induction| func.dfg.value_type(iv.var).bits();
        let (here, there) = (bits(&self.iv), bits(&of));
        let last = Self { of: Some(of), ..self };
        let counted = here <= there && self.iv.step.unsigned_abs().is_power_of_two();
        (counted || last.in_proportion(here == there)).then_some(last)
    }

    /// Whether the way of the other variable is a multiple of the way that this has gone.
    pub fn in_proportion(&self, same_type: bool) -> bool {
        same_type && self.of.is_some_and(|of| of.step.wrapping_rem(self.iv.step) == 0)
    }
}

/// On a reverse edge, a held variable gets the value of a name, after steps back.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldUpdate {
    /// The variable.
    pub name: Val,
    /// A name that the reverse of the edge's target has.
    pub base: Val,
    /// Steps from the one to the other.
    pub undo: Vec<Undo>,
}

/// How the pullback finds the predecessor of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PredSource {
    /// There is only one.
    Unique(ir::Block),
    /// In a frame slot.
    Frame(FrameSlot),
    /// On top of the tape.
    Tape,
    /// The block that enters the loop, if the induction variable has its first value; else the
    /// latch.
    Induction {
        /// The variable.
        iv: Induction,
        /// Where the loop is entered from.
        entry: ir::Block,
        /// Where the iteration before came from.
        latch: ir::Block,
    },
    /// One of two, by the condition of the branch that led here.
    Branch {
        /// The condition.
        cond: ir::Value,
        /// Where it is not zero.
        yes: ir::Block,
        /// Where it is zero.
        no: ir::Block,
    },
    /// One of several, by the index of the `br_table` that led here
    /// ([`super::predecessors::ways`]).
    Table {
        /// The index.
        index: ir::Value,
        /// The block of the branch.
        from: ir::Block,
    },
}

/// The plan of one block.
#[derive(Clone, Debug, Default)]
pub struct BlockPlan {
    /// What the reverse block reads and where from, in an order in which it can be had.
    pub sources: Vec<Supply>,
    /// What the forward block pushes.
    pub record: Vec<Val>,
    /// Whether it pushes its number too.
    pub push_id: bool,
    /// What the forward block keeps in the frame at its end.
    pub keeps: Vec<(FrameSlot, Val)>,
    /// Frame slots in which it keeps its number.
    pub keep_ids: Vec<FrameSlot>,
}

impl BlockPlan {
    /// Cycles until all is there that the reverse block computes again.
    pub fn chain(&self, dfg: &ir::DataFlowGraph) -> u32 {
        let mut at: HashMap<ir::Value, u32> = HashMap::default();
        for supply in &self.sources {
            if let (Val::Primal(v), Source::Recompute(i)) = (supply.name, supply.source) {
                at.insert(v, chain(&at, dfg.inst_args(i)) + latency(dfg.insts[i].opcode()));
            }
        }
        at.into_values().max().unwrap_or(0)
    }
}

/// The plan of a function.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Whether both halves are one function.
    pub combined: bool,
    /// By block.
    pub blocks: SecondaryMap<ir::Block, BlockPlan>,
    /// Predecessors, for blocks that have any.
    pub preds: SecondaryMap<ir::Block, Option<PredSource>>,
    /// What happens to held variables on the reverse of an edge, named by its two blocks.
    pub holds: IndexMap<(ir::Block, ir::Block), Vec<HeldUpdate>>,
    /// Where a combined function keeps the primal's results until it returns them.
    pub results: Vec<FrameSlot>,
    /// Frame slot of the number of the block that returned, if several can.
    pub exit: Option<FrameSlot>,
    /// Where a forward pass tells its pullback whether a number that was watched is infinite or NaN
    /// ([`crate::guards::versioning`]).
    pub flag: Option<FrameSlot>,
    /// The activation frame, if there is anything in it.
    pub frame: Option<FrameLayout>,
    /// Number of each block, as recorded.
    pub number: SecondaryMap<ir::Block, u32>,
    /// Bytes of a block number.
    pub id_bytes: u32,
    /// Blocks that may return.
    pub returning: EntitySet<ir::Block>,
    /// Blocks that do return.
    pub exits: Vec<ir::Block>,
    /// Loops that are run again, forwards, and record nothing for another run.
    pub reruns: Vec<Rerun>,
    /// Which of them each block is in.
    pub rerun_of: SecondaryMap<ir::Block, Option<usize>>,
}

impl Plan {
    /// The loop around a block that is run again.
    pub fn rerun(&self, b: ir::Block) -> Option<&Rerun> {
        self.rerun_of[b].map(|i| &self.reruns[i])
    }

    /// Blocks that have reverses of their own.
    pub fn reversed(&self, b: ir::Block) -> bool {
        self.returning.contains(b) && self.rerun(b).is_none_or(|a| a.by_iteration && b != a.header)
    }

    /// Whether something is recorded that may be recorded again, iteration by iteration.
    pub fn records_in_iterations(&self, cfg: &Cfg) -> bool {
        self.blocks.iter().any(|(b, plan)| !cfg.is_acyclic(b) && (!plan.record.is_empty() || plan.push_id))
    }

    /// Whether a block runs at most once in what is reversed as a whole: a call, or an iteration of
    /// a loop.
    pub fn is_unrepeated(&self, facts: &Facts<'_>, b: ir::Block) -> bool {
        let is_header_of = |a: &Rerun| a.by_iteration && facts.loops.innermost[b] == facts.loops.headed_by(a.header);
        facts.cfg.is_acyclic(b) || self.rerun(b).is_some_and(is_header_of)
    }
}

/// Type of a recordable name.
pub fn type_of(facts: &Facts<'_>, aux: &IndexMap<Val, Type>, v: Val) -> Type {
    match v {
        Val::Primal(p) => facts.func().dfg.value_type(p),
        Val::Delta(_) => types::I64,
        Val::Aux(..) => aux[&v],
        Val::D(_) | Val::Tangent(..) => unreachable!("a pullback reads no such name"),
    }
}

/// The block that defines a name in the forward pass.
pub(crate) fn def_block(facts: &Facts<'_>, v: Val) -> ir::Block {
    let entry = facts.cfg.blocks[0];
    match v {
        Val::Primal(p) => facts.cfg.def_block[p].expect("a primal value has a block"),
        Val::Delta(r) => match facts.pointers.roots.get(&r) {
            Some(RootKind::Param(_) | RootKind::Slot(_) | RootKind::Data(_)) => entry,
            _ => facts.cfg.def_block[r].expect("a root has a block"),
        },
        Val::Aux(inst, _) => facts.func().layout.inst_block(inst).expect("an instruction has a block"),
        Val::D(_) | Val::Tangent(..) => unreachable!("a pullback reads no such name"),
    }
}
