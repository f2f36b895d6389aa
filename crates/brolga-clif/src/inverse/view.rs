//! The function that is undone, and what is known of it.
//!
//! **Question.** Where do its loads and stores go, and what of it is steady?
//! **Answer.** An address is a sum, in which at most one parameter points at a state. What is not
//! written to is steady.

use cranelift_codegen::ir::{self, Block, BlockArg, FuncRef, Inst, Opcode, Value, ValueDef};

use crate::map::HashSet;

/// Why a function has no inverse that is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotInvertible {
    /// The instruction that cannot be undone.
    pub inst: Inst,
    /// A sentence, without a name of the function.
    pub why: String,
    /// What to do.
    pub help: &'static str,
}

/// What there is, or why there is none.
pub(super) type Undoable<T> = Result<T, NotInvertible>;

pub(super) fn refused<T>(inst: Inst, why: impl Into<String>, help: &'static str) -> Undoable<T> {
    Err(NotInvertible { inst, why: why.into(), help })
}

/// What is asked for.
pub struct InverseRequest<'a> {
    /// Parameters that point at states.
    pub states: &'a [usize],
    /// Whether a call of another function depends on its arguments alone, and does nothing else.
    pub is_pure: &'a dyn Fn(FuncRef) -> bool,
}

/// The function that is undone, and what is known of it.
pub(super) struct View<'f> {
    pub func: &'f ir::Function,
    asked: &'f InverseRequest<'f>,
    pub entry: Block,
    /// States that are written to.
    pub written: HashSet<usize>,
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
    pub fn of(func: &'f ir::Function, asked: &'f InverseRequest<'f>) -> Undoable<Self> {
        let entry = func.layout.entry_block().expect("it has a body");
        let mut this = Self { func, asked, entry, written: HashSet::default() };
        for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
            let op = func.dfg.insts[inst].opcode();
            match op {
                Opcode::Store => match this.place(this.address(inst)) {
                    Some(MemoryRoot::State(s)) => {
                        this.written.insert(s);
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
                    let ir::InstructionData::Call { func_ref, .. } = func.dfg.insts[inst] else { unreachable!() };
                    if !(asked.is_pure)(func_ref) {
                        let help = "write an inverse by hand for a function that calls what reads or changes memory";
                        return refused(inst, "what it calls may do more than return a number", help);
                    }
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

    /// The address of a load or store.
    pub fn address(&self, inst: Inst) -> Value {
        let args = self.func.dfg.inst_args(inst);
        self.resolved(*args.last().expect("it has an address"))
    }

    /// The distance from it.
    pub fn offset(&self, inst: Inst) -> i64 {
        match self.func.dfg.insts[inst] {
            ir::InstructionData::Load { offset, .. } | ir::InstructionData::Store { offset, .. } => {
                i64::from(i32::from(offset))
            }
            _ => 0,
        }
    }

    pub fn resolved(&self, v: Value) -> Value {
        self.func.dfg.resolve_aliases(v)
    }

    /// Where an address leads: none if it is made of two states.
    pub fn place(&self, address: Value) -> Option<MemoryRoot> {
        let mut found = Vec::new();
        self.states_of(address, &mut found, &mut HashSet::default());
        match found[..] {
            [] => Some(MemoryRoot::Other),
            [s] => Some(MemoryRoot::State(s)),
            _ => None,
        }
    }

    fn states_of(&self, v: Value, found: &mut Vec<usize>, seen: &mut HashSet<Value>) {
        let v = self.resolved(v);
        if !seen.insert(v) {
            return;
        }
        match self.func.dfg.value_def(v) {
            ValueDef::Param(block, i) if block == self.entry => {
                found.extend(self.asked.states.contains(&i).then_some(i))
            }
            ValueDef::Result(inst, _) if matches!(self.func.dfg.insts[inst].opcode(), Opcode::Iadd | Opcode::Isub) => {
                self.func.dfg.inst_args(inst).iter().for_each(|&a| self.states_of(a, found, seen));
            }
            _ => {}
        }
    }

    /// Whether a load gives the same at all times.
    pub fn is_steady_load(&self, inst: Inst) -> bool {
        match self.place(self.address(inst)) {
            Some(MemoryRoot::State(s)) => !self.written.contains(&s),
            other => other == Some(MemoryRoot::Other),
        }
    }

    /// The block in which a value is defined.
    pub fn block_of(&self, v: Value) -> Option<Block> {
        match self.func.dfg.value_def(self.resolved(v)) {
            ValueDef::Result(inst, _) => self.func.layout.inst_block(inst),
            ValueDef::Param(block, _) => Some(block),
            ValueDef::Union(..) => None,
        }
    }

    /// Where a branch goes: the blocks, each with what it is given; first that if it holds.
    pub fn targets(&self, inst: Inst) -> Vec<(Block, Vec<Value>)> {
        let dfg = &self.func.dfg;
        let calls = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
        let given = |call: &ir::BlockCall| {
            let args = call.args(&dfg.value_lists);
            let args = args.filter_map(|a| if let BlockArg::Value(v) = a { Some(self.resolved(v)) } else { None });
            (call.block(&dfg.value_lists), args.collect())
        };
        calls.iter().map(given).collect()
    }

    /// An instruction in words: how it is written.
    pub fn text(&self, inst: Inst) -> String {
        self.func.dfg.display_inst(inst).to_string()
    }
}
