//! The function that is undone, and what is known of it.
//!
//! **Question.** Where do its loads, stores and calls go, and what of it is steady?
//! **Answer.** An address is made of at most one parameter that points at a state. What is not
//! written to is steady.
//!
//! **Cost.** One walk over the function, after that of [`super::origin`].

use cranelift_codegen::ir::{self, Block, FuncRef, Inst, InstructionData, Opcode, TrapCode, Type, Value, ValueDef};
use cranelift_entity::EntitySet;

use super::origin::{AddressOrigin, origins, targets};
use crate::linear::LinearForm;
use crate::map::{HashMap, HashSet};

/// Why a function has no inverse that is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InversionFailure {
    /// The instruction that cannot be undone.
    pub inst: Inst,
    /// A sentence, without a name of the function.
    pub why: String,
    /// What to do.
    pub help: &'static str,
}

/// What there is, or why there is none.
pub(super) type Undoable<T> = Result<T, InversionFailure>;

pub(super) fn refused<T>(inst: Inst, why: impl Into<String>, help: &'static str) -> Undoable<T> {
    Err(InversionFailure { inst, why: why.into(), help })
}

/// What is asked for.
pub struct InverseRequest<'a> {
    /// Parameters that point at states.
    pub states: &'a [usize],
    /// What a call of another function does.
    pub called: &'a dyn Fn(FuncRef) -> UndoneCall,
    /// The trap where places that are changed lie on each other, and that cannot be undone.
    pub overlap: TrapCode,
}

/// What a call of another function does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoneCall {
    /// What it returns depends on its arguments alone, and it does nothing else.
    Computes,
    /// It reads memory that its arguments lead to, or that nothing changes, besides.
    Reads,
    /// It returns nothing, and changes what these parameters point at. A function of this symbol
    /// undoes that.
    Changes {
        /// The parameters.
        states: Vec<usize>,
        /// What undoes it.
        undo: String,
    },
    /// It cannot be undone, for this reason.
    Lost(String),
}

/// The function that is undone, and what is known of it.
pub(super) struct View<'f> {
    pub func: &'f ir::Function,
    asked: &'f InverseRequest<'f>,
    pub entry: Block,
    /// States that are written to.
    pub written: HashSet<usize>,
    origins: HashMap<Value, AddressOrigin>,
}

/// Where a load or store goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryRoot {
    /// Into a state, by the number of its parameter.
    State(usize),
    /// To what is only read.
    Other,
}

impl<'f> View<'f> {
    pub(super) fn of(func: &'f ir::Function, asked: &'f InverseRequest<'f>) -> Undoable<Self> {
        let entry = func.layout.entry_block().expect("it has a body");
        let origins = origins(func, asked.states);
        let mut this = Self { func, asked, entry, written: HashSet::default(), origins };
        for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
            let op = func.dfg.insts[inst].opcode();
            match op {
                Opcode::Store => match this.place(this.address(inst)) {
                    Some(MemoryRoot::State(s)) => {
                        this.written.insert(s);
                    }
                    _ if this.is_on_stack(this.address(inst)) => {
                        let why = "it stores to an array on the stack, or to a place there of several types";
                        return refused(inst, why, "pass the memory as a state, or write an inverse by hand");
                    }
                    _ => {
                        let why = "it stores to what is no state";
                        return refused(inst, why, "name the parameter that points there as a state");
                    }
                },
                Opcode::Load if this.place(this.address(inst)).is_none() => {
                    return refused(inst, "its address is made of two states", "address one state at a time");
                }
                Opcode::Load => {}
                Opcode::Call => {
                    let changed = this.changed_by(inst)?;
                    this.written.extend(changed);
                }
                op if op.is_terminator() => {}
                op if op.can_load() || op.can_store() || op.other_side_effects() || op.is_call() => {
                    let help = "write an inverse by hand for a function that does so";
                    return refused(inst, "it is no load, store or number", help);
                }
                _ => {}
            }
        }
        Ok(this)
    }

    /// Whether an address is a distance from the beginning of a stack slot.
    fn is_on_stack(&self, address: Value) -> bool {
        let (mut seen, mut work) = (EntitySet::new(), vec![self.resolved(address)]);
        while let Some(v) = work.pop() {
            let ValueDef::Result(inst, _) = self.func.dfg.value_def(v) else { continue };
            match self.func.dfg.insts[inst].opcode() {
                Opcode::StackAddr => return true,
                Opcode::Iadd | Opcode::Isub if seen.insert(v) => {
                    work.extend(self.func.dfg.inst_args(inst).iter().map(|&a| self.resolved(a)));
                }
                _ => {}
            }
        }
        false
    }

    /// What a call does.
    pub(super) fn called(&self, inst: Inst) -> Option<UndoneCall> {
        let InstructionData::Call { func_ref, .. } = self.func.dfg.insts[inst] else { return None };
        Some((self.asked.called)(func_ref))
    }

    /// The trap where what is changed lies on each other.
    pub(super) fn overlap(&self) -> TrapCode {
        self.asked.overlap
    }

    /// The states that a call changes. A callee takes its own as apart from all else that it reads.
    fn changed_by(&self, inst: Inst) -> Undoable<Vec<usize>> {
        let help = "write an inverse by hand for a function that calls it";
        let states = match self.called(inst).expect("it is a call") {
            UndoneCall::Computes | UndoneCall::Reads => return Ok(vec![]),
            UndoneCall::Changes { states, .. } => states,
            UndoneCall::Lost(why) => return refused(inst, why, help),
        };
        let mut found = Vec::new();
        for (i, &arg) in self.func.dfg.inst_args(inst).iter().enumerate() {
            match self.place(arg) {
                Some(MemoryRoot::State(s)) => found.push((s, states.contains(&i))),
                Some(MemoryRoot::Other) if states.contains(&i) => {
                    let why = "it changes what is no state";
                    return refused(inst, why, "name the parameter that points there as a state");
                }
                Some(MemoryRoot::Other) => {}
                None => return refused(inst, "its argument is made of two states", "address one state at a time"),
            }
        }
        let changed: Vec<usize> = found.iter().filter(|f| f.1).map(|f| f.0).collect();
        if changed.iter().any(|&s| found.iter().filter(|f| f.0 == s).count() > 1) {
            let why = "it changes a state that it is given twice, so that the two may overlap";
            return refused(inst, why, "pass the parts as states of their own, or write an inverse by hand");
        }
        Ok(changed)
    }

    /// Whether an instruction reads memory.
    pub(super) fn reads(&self, inst: Inst) -> bool {
        match self.func.dfg.insts[inst].opcode() {
            Opcode::Load => true,
            Opcode::Call => self.called(inst) == Some(UndoneCall::Reads),
            _ => false,
        }
    }

    /// The states that a load or a call may read.
    pub(super) fn states_read(&self, inst: Inst) -> HashSet<usize> {
        let args = match self.func.dfg.insts[inst].opcode() {
            Opcode::Load => &[self.address(inst)][..],
            _ => self.func.dfg.inst_args(inst),
        };
        args.iter().flat_map(|&a| self.roots(a)).collect()
    }

    /// The states that an instruction stores to.
    pub(super) fn states_stored(&self, inst: Inst) -> HashSet<usize> {
        match self.func.dfg.insts[inst].opcode() {
            Opcode::Store => self.roots(self.address(inst)),
            Opcode::Call => self.changed_by(inst).into_iter().flatten().collect(),
            _ => HashSet::default(),
        }
    }

    /// The address of a load or store.
    pub(super) fn address(&self, inst: Inst) -> Value {
        let args = self.func.dfg.inst_args(inst);
        self.resolved(*args.last().expect("it has an address"))
    }

    /// Where a load or store goes, and what type it has there.
    pub(super) fn accessed(&self, inst: Inst) -> (LinearForm, Type) {
        let dfg = &self.func.dfg;
        let is_store = dfg.insts[inst].opcode() == Opcode::Store;
        let value = if is_store { dfg.inst_args(inst)[0] } else { dfg.first_result(inst) };
        (self.linear(self.address(inst)).plus_number(self.offset(inst)), dfg.value_type(value))
    }

    /// A value as a combination of those that it is made of.
    pub(super) fn linear(&self, v: Value) -> LinearForm {
        self.form(v, &mut HashMap::default())
    }

    /// The same, with what is known of others.
    fn form(&self, v: Value, seen: &mut HashMap<Value, LinearForm>) -> LinearForm {
        let (v, dfg) = (self.resolved(v), &self.func.dfg);
        if let Some(found) = seen.get(&v) {
            return found.clone();
        }
        let inst = dfg.value_def(v).inst();
        let found = inst.and_then(|inst| match dfg.insts[inst] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(LinearForm::constant(imm.bits())),
            _ => {
                let op = Some(dfg.insts[inst].opcode()).filter(|&op| LinearForm::follows(op))?;
                let forms: Vec<LinearForm> = dfg.inst_args(inst).iter().map(|&a| self.form(a, seen)).collect();
                LinearForm::of_op(op, dfg.value_type(v).bits(), &forms)
            }
        });
        let found = found.unwrap_or_else(|| LinearForm::value(v));
        seen.insert(v, found.clone());
        found
    }

    /// The distance from it.
    pub(super) fn offset(&self, inst: Inst) -> i64 {
        match self.func.dfg.insts[inst] {
            InstructionData::Load { offset, .. } | InstructionData::Store { offset, .. } => {
                i64::from(i32::from(offset))
            }
            _ => 0,
        }
    }

    pub(super) fn resolved(&self, v: Value) -> Value {
        self.func.dfg.resolve_aliases(v)
    }

    /// Where an address leads: none if it is made of two states.
    pub(super) fn place(&self, address: Value) -> Option<MemoryRoot> {
        let found = self.roots(address);
        let mut all = found.into_iter();
        match (all.next(), all.next()) {
            (None, _) => Some(MemoryRoot::Other),
            (Some(s), None) => Some(MemoryRoot::State(s)),
            _ => None,
        }
    }

    fn roots(&self, v: Value) -> HashSet<usize> {
        self.origins.get(&self.resolved(v)).map(AddressOrigin::states).unwrap_or_default()
    }

    /// The block in which a value is defined.
    pub(super) fn block_of(&self, v: Value) -> Option<Block> {
        match self.func.dfg.value_def(self.resolved(v)) {
            ValueDef::Result(inst, _) => self.func.layout.inst_block(inst),
            ValueDef::Param(block, _) => Some(block),
            ValueDef::Union(..) => None,
        }
    }

    /// Where a branch goes: the blocks, each with what it is given; first that if it holds.
    pub(super) fn targets(&self, inst: Inst) -> Vec<(Block, Vec<Value>)> {
        targets(self.func, inst)
    }

    /// An instruction in words: how it is written.
    pub(super) fn text(&self, inst: Inst) -> String {
        self.func.dfg.display_inst(inst).to_string()
    }
}
