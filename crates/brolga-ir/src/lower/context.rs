//! The state of one lowering, and what all of its parts ask of it: names, cotangents, constants,
//! imported functions, the flags of accesses to the tape.
//!
//! **Question.** Rules ask for the same products, masks and addresses again. How is none computed
//! twice in a block?
//!
//! **Answer.** Local value numbering: what a block computes is kept by operation and operands
//! ([`ReusedOp`]) until the block ends.
//!
//! ```text
//! x * x, both cotangents      v7 = fmul v6, v1      ;; x̄ += v7, x̄ += v7: the second is found
//! ```
//!
//! **Cost.** A look-up in a hash table for each of these operations.
//!
//! **Source.** Value numbering within a block (Cocke and Schwartz, 1970).

use std::cell::Cell;
use std::collections::HashSet;

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, InstructionData, MemFlagsData, StackSlot, Type, types};
use cranelift_entity::SecondaryMap;
use cranelift_frontend::{FunctionBuilder, Variable};
use smallvec::SmallVec;

use super::copy::{Copier, ImportMap};
use super::env::{CHECK_SRCLOC, LowerEnv, Shadows, tape_flags};
use super::frame::FrameHome;
use super::named::NameMap;
use super::seen::{Cotangent, GraphNeeds, Variables};
use super::typed::Channel;
use crate::block::Target;
use crate::inst::{Arith, FrameSlot, Sum, Val};
use crate::map::{HashMap, IndexMap};

/// Operations that rules ask for again with the same operands: both factors of a square have the
/// same cotangent, and products with one cotangent share its mask.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ReusedOp {
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

impl ReusedOp {
    pub(super) fn of(op: &Arith) -> Option<Self> {
        match op {
            Arith::NonZero => Some(ReusedOp::NonZero),
            Arith::KeepWhere => Some(ReusedOp::KeepWhere),
            Arith::Fmul => Some(ReusedOp::Fmul),
            Arith::Fdiv => Some(ReusedOp::Fdiv),
            _ => None,
        }
    }
}

/// Where a value is that is kept in no memory.
#[derive(Clone, Copy)]
pub(super) enum SlotHome {
    /// In a variable of the frontend, which knows what that has on each way.
    Variable(Variable),
    /// Nowhere but where it was computed, which is the same for all that read it.
    Value(Option<ir::Value>),
}

/// The sums of a function, each of floats of one type.
#[derive(Default)]
pub(super) struct Sums {
    /// In variables.
    pub(super) variables: IndexMap<(Sum, Type), Variable>,
    /// The least of what must not be zero.
    pub(super) least: IndexMap<Type, Variable>,
    /// In memory.
    pub(super) aside: IndexMap<Type, StackSlot>,
    /// Whether any flag that is watched was set.
    pub(super) flag: Option<Variable>,
    /// Those of the present block, which have not joined the others.
    pub(super) here: SmallVec<[(Sum, Type, ir::Value); 2]>,
}

/// What has been done of a block ahead of the instruction that is being lowered.
#[derive(Default)]
pub(super) struct Settlements {
    /// From this instruction on it has to be asked again, by position.
    pub ask_at: usize,
    /// Instructions that have been lowered.
    pub lowered: HashSet<usize>,
    /// Instructions whose shadows have been settled.
    pub places: HashSet<usize>,
    /// The one that is being lowered is among them.
    pub this: bool,
}

impl Settlements {
    /// A new block begins.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// State of one lowering.
pub(super) struct LowerCx<'a> {
    pub(super) env: LowerEnv<'a>,
    /// What names mean at present.
    pub(super) named: NameMap,
    pub(super) imported: ImportMap,
    pub(super) symbols: HashMap<String, ir::FuncRef>,
    pub(super) cts: SecondaryMap<ir::Value, Cotangent>,
    /// What the present block has added to cotangents so far. It joins the variable when that is
    /// read, or at the end of the block: so a loop that adds several terms to one cotangent waits
    /// for one addition an iteration, not for all of them.
    pub(super) sums: IndexMap<ir::Value, ir::Value>,
    /// Products, quotients, masks and addresses of the present block, by what they are made of.
    pub(super) known: HashMap<(ReusedOp, ir::Value, Option<ir::Value>), ir::Value>,
    /// Constants of the entry block, by type and bits, if there is to be little code: who compiles
    /// makes one anew wherever it is used.
    pub(super) constants: HashMap<(Type, u64), ir::Value>,
    /// Vectors of zeros of the present block.
    pub(super) zero_vectors: SmallVec<[(Type, ir::Value); 2]>,
    /// Addresses of shadows, each the sum of an address and a delta.
    pub(super) shadows: Vec<ir::Value>,
    /// Loads and stores of cotangents there.
    pub(super) in_shadows: Shadows,
    /// What is recorded in place of deltas, in this block: those of pending sums.
    pub(super) pending: HashMap<Val, ir::Value>,
    /// What has been settled ahead.
    pub(super) settled: Settlements,
    /// Comparisons with the end of the tape on behalf of records.
    pub(super) checks: Vec<ir::Inst>,
    /// What is watched.
    pub(super) watching: Sums,
    /// Frame slots that are variables.
    pub(super) slots: Variables<SlotHome>,
    pub(super) block_slots: Variables<Variable>,
    /// Held variables.
    pub(super) held: HashMap<Val, Variable>,
    /// Whether the block that is being lowered belongs to the forward half.
    pub(super) forward: bool,
    pub(super) uses_tape: bool,
    /// Whether this function does both halves at once: it then gives back what it records.
    pub(super) by_iteration: bool,
    /// `top` or `cursor` of each channel.
    pub(super) tapes: [Option<Variable>; Channel::COUNT],
    /// Addresses of the activation frame and ends of the tape: made in the entry block, which
    /// dominates everything.
    pub(super) fps: [Option<ir::Value>; Channel::COUNT],
    pub(super) limits: [Option<ir::Value>; Channel::COUNT],
    /// The shadows of stack slots, each in a slot of its own, where the frame is typed and on the
    /// stack.
    pub(super) slot_shadows: IndexMap<ir::StackSlot, ir::Value>,
    /// What stands for fields of the segment, where the tape is typed.
    pub(super) substitutes: HashMap<(i32, Channel), ir::Value>,
    /// Where in a typed frame something is kept.
    pub(super) slot_channels: HashMap<FrameSlot, Channel>,
    pub(super) zeros: HashMap<Type, ir::Value>,
    pub(super) seg_value: Option<ir::Value>,
    pub(super) uses_segment: Cell<bool>,
    /// Once a check has asked: to look its region up takes longer than an access.
    pub(super) tape_flags: [Cell<Option<MemFlagsData>>; Channel::COUNT],
}

impl<'a> LowerCx<'a> {
    /// Nothing is lowered yet.
    pub(super) fn new(env: LowerEnv<'a>, seen: &GraphNeeds) -> Self {
        let records = if env.typed.is_some() { seen.records } else { seen.uses_tape };
        let uses_tape = records || env.frame.is_some_and(|f| f.home == FrameHome::Tape);
        LowerCx {
            named: NameMap::new(env.primal.dfg.num_values()),
            env,
            imported: ImportMap::default(),
            symbols: HashMap::default(),
            cts: SecondaryMap::new(),
            sums: IndexMap::default(),
            known: HashMap::default(),
            pending: HashMap::default(),
            constants: HashMap::default(),
            zero_vectors: SmallVec::new(),
            shadows: Vec::new(),
            in_shadows: Shadows::default(),
            settled: Settlements::default(),
            checks: Vec::new(),
            watching: Sums::default(),
            slots: Variables::default(),
            block_slots: Variables::default(),
            held: HashMap::default(),
            forward: true,
            uses_tape,
            by_iteration: seen.by_iteration,
            tapes: [None; Channel::COUNT],
            fps: [None; Channel::COUNT],
            limits: [None; Channel::COUNT],
            slot_shadows: IndexMap::default(),
            substitutes: HashMap::default(),
            slot_channels: HashMap::default(),
            zeros: HashMap::default(),
            seg_value: None,
            uses_segment: Cell::new(false),
            tape_flags: Default::default(),
        }
    }
}

impl LowerCx<'_> {
    pub(super) fn get(&self, v: Val) -> ir::Value {
        self.named.get(v).unwrap_or_else(|| panic!("{v:?} is not available here"))
    }

    /// A primal value's cotangent.
    pub(super) fn ct(&self, b: &mut FunctionBuilder<'_>, v: ir::Value) -> ir::Value {
        match self.cts[v] {
            Cotangent::Now(ct) => ct,
            Cotangent::Shared(var) => b.use_var(var.expect("declared at the entry")),
            Cotangent::Nowhere | Cotangent::Within(_) => unreachable!("a cotangent has a beginning"),
        }
    }

    /// From here on, a primal value's cotangent is this.
    pub(super) fn set_ct(&mut self, b: &mut FunctionBuilder<'_>, v: ir::Value, ct: ir::Value) {
        match self.cts[v] {
            Cotangent::Shared(var) => b.def_var(var.expect("declared at the entry"), ct),
            _ => self.cts[v] = Cotangent::Now(ct),
        }
    }

    /// From here on, a name means this value.
    pub(super) fn name(&mut self, v: Val, value: ir::Value) {
        self.named.set(v, value);
    }

    /// Instructions of ours have no meaning for the user beyond the primal instruction that they
    /// belong to.
    pub(super) fn locate(&self, b: &mut FunctionBuilder<'_>, at: Option<ir::Inst>, check: bool) {
        let bits = at.map(|i| self.env.primal.srcloc(i).bits()).filter(|&b| b != u32::MAX);
        let loc = match (bits, check) {
            (bits, true) => ir::SourceLoc::new(bits.unwrap_or(0) | CHECK_SRCLOC),
            (Some(bits), false) => ir::SourceLoc::new(bits),
            (None, false) => ir::SourceLoc::default(),
        };
        b.set_srcloc(loc);
    }

    /// A scalar constant, in the entry block.
    pub(super) fn entry_constant(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        data: InstructionData,
        ty: Type,
        bits: u64,
    ) -> ir::Value {
        *self.constants.entry((ty, bits)).or_insert_with(|| {
            let entry = b.func.layout.entry_block().expect("blocks are laid out");
            let mut cursor = FuncCursor::new(b.func).at_first_insertion_point(entry);
            let (inst, dfg) = ir::InstBuilderBase::build(cursor.ins(), data, ty);
            dfg.first_result(inst)
        })
    }

    /// A constant of the primal's in the entry block that is a float.
    pub(super) fn in_entry(&self, ty: Type, x: f64) -> Option<ir::Value> {
        let bits = match ty {
            types::F64 => x.to_bits(),
            types::F32 => (x as f32).to_bits().into(),
            _ => return None,
        };
        self.constants.get(&(ty, bits)).copied()
    }

    /// A vector of zeros, one in each block that asks.
    pub(super) fn zero_vector(&mut self, b: &mut FunctionBuilder<'_>, ty: Type) -> ir::Value {
        if let Some(&(_, zero)) = self.zero_vectors.iter().find(|z| z.0 == ty) {
            return zero;
        }
        let bytes = b.func.dfg.constants.insert(ir::ConstantData::from([0_u8; 16].as_slice()));
        let zero = b.ins().vconst(ty, bytes);
        self.zero_vectors.push((ty, zero));
        zero
    }

    pub(super) fn args(&self, t: &Target) -> SmallVec<[BlockArg; 4]> {
        t.args.iter().map(|&a| BlockArg::Value(self.get(a))).collect()
    }

    /// The derived function's copy of a primal stack slot.
    pub(super) fn native_slot(&mut self, b: &mut FunctionBuilder<'_>, slot: ir::StackSlot) -> ir::StackSlot {
        use ir::instructions::InstructionMapper;
        Copier {
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
    pub(super) fn symbol(&mut self, b: &mut FunctionBuilder<'_>, symbol: &str, sig: &ir::Signature) -> ir::FuncRef {
        if let Some(&f) = self.symbols.get(symbol) {
            return f;
        }
        let signature = b.import_signature(sig.clone());
        let name = ir::ExternalName::testcase(self.env.names.spell(symbol));
        let f = b.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
        self.symbols.insert(symbol.to_owned(), f);
        f
    }

    pub(super) fn tape_flags(&self, b: &mut FunctionBuilder<'_>, channel: Channel) -> MemFlagsData {
        let known = &self.tape_flags[channel.index()];
        let flags = known.get().unwrap_or_else(|| tape_flags(b.func, channel));
        known.set(Some(flags));
        flags
    }
}
