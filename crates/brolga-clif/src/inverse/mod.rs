//! The inverse of a function on memory, where its text gives one.
//!
//! **Problem.** A function changes a state and returns nothing. Which function takes the state back?
//!
//! **Answer.** Control flow is read as a structure ([`structure`]), and undone from behind. A
//! straight piece is an equation for each place that it stores to: what lies there now is known,
//! what lay there before is wanted, and instructions that lose nothing lead back ([`solve`]). A loop
//! is counted first, by its control alone, and then runs so many times with its integers backwards.
//! A branch is taken again, since what decides does not change.
//!
//! ```text
//! v2 = load v0                        v6 = load v0+8
//! v3 = load v0+8                      v3 = load v0
//! v5 = fmul v4, v3            ⟶       v5 = fmul v4, v3
//! v6 = fadd v2, v5                    v2 = fsub v6, v5
//! store v3, v0                        store v2, v0
//! store v6, v0+8                      store v3, v0+8
//! ```
//!
//! What is needed besides the state, the *steady* values, is computed again: of parameters, of
//! numbers of iterations, and of memory that the function does not write to.
//!
//! **Contract.** States are apart from each other, and from all else that is read. Sums of floats
//! are undone by differences, which have roundings.
//!
//! **Cost.** A pass over each piece for each value that is found. Control of loops runs twice.
//!
//! **Source.** C. H. Bennett: Logical reversibility of computation. IBM Journal of Research and
//! Development 17 (1973); J.-G. Liu, T. Zhao, arXiv:2003.04617 (2020), for the statements that are
//! undone.

mod emit;
mod solve;
mod structure;

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, Block, FuncRef, Inst, InstBuilder, Opcode, UserFuncName, Value, ValueDef};

use crate::map::{HashMap, HashSet};
use emit::Inverse;

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

type Found<T> = Result<T, NotInvertible>;

fn refused<T>(inst: Inst, why: impl Into<String>, help: &'static str) -> Found<T> {
    Err(NotInvertible { inst, why: why.into(), help })
}

/// What is asked for.
pub struct Asked<'a> {
    /// Parameters that point at states.
    pub states: &'a [usize],
    /// Whether a call of another function depends on its arguments alone, and does nothing else.
    pub is_pure: &'a dyn Fn(FuncRef) -> bool,
}

/// The function that undoes `func`, by this name.
///
/// # Errors
/// The first instruction that cannot be undone.
pub fn inverse(func: &ir::Function, asked: &Asked<'_>, name: UserFuncName) -> Result<ir::Function, NotInvertible> {
    let view = View::of(func, asked)?;
    let parts = structure::parts(&view)?;
    let mut out = func.clone();
    out.name = name;
    let blocks: Vec<Block> = out.layout.blocks().collect();
    for block in blocks {
        let insts: Vec<Inst> = out.layout.block_insts(block).collect();
        insts.into_iter().for_each(|i| out.layout.remove_inst(i));
        out.layout.remove_block(block);
    }
    let entry = func.layout.entry_block().expect("it has a body");
    let first = out.dfg.make_block();
    out.layout.append_block(first);
    let mut known = HashMap::default();
    for &param in func.dfg.block_params(entry) {
        let new = out.dfg.append_block_param(first, func.dfg.value_type(param));
        known.insert(param, new);
    }
    let mut this = Inverse { view: &view, pos: FuncCursor::new(&mut out).at_bottom(first), known };
    this.undo_all(&parts)?;
    this.pos.ins().return_(&[]);
    Ok(out)
}

/// The function that is undone, and what is known of it.
pub(super) struct View<'f> {
    pub func: &'f ir::Function,
    asked: &'f Asked<'f>,
    entry: Block,
    /// States that are written to.
    written: HashSet<usize>,
}

/// Where a load or store goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Into a state, by the number of its parameter.
    State(usize),
    /// To what is only read.
    Other,
}

impl<'f> View<'f> {
    fn of(func: &'f ir::Function, asked: &'f Asked<'f>) -> Found<Self> {
        let entry = func.layout.entry_block().expect("it has a body");
        let mut this = Self { func, asked, entry, written: HashSet::default() };
        for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
            let op = func.dfg.insts[inst].opcode();
            match op {
                Opcode::Store => match this.place(this.address(inst)) {
                    Some(Place::State(s)) => {
                        this.written.insert(s);
                    }
                    _ => {
                        let why = "it stores to what is no state";
                        return refused(inst, why, "name the parameter that points there as a state");
                    }
                },
                Opcode::Load => {
                    if this.place(this.address(inst)).is_none() {
                        return refused(inst, "its address is made of two states", "address one state at a time");
                    }
                }
                Opcode::Call => {
                    let ir::InstructionData::Call { func_ref, .. } = func.dfg.insts[inst] else { unreachable!() };
                    if !(asked.is_pure)(func_ref) {
                        let help = "write an inverse by hand for a function that calls others";
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
    fn address(&self, inst: Inst) -> Value {
        let args = self.func.dfg.inst_args(inst);
        self.resolved(*args.last().expect("it has an address"))
    }

    /// The distance from it.
    fn offset(&self, inst: Inst) -> i64 {
        match self.func.dfg.insts[inst] {
            ir::InstructionData::Load { offset, .. } | ir::InstructionData::Store { offset, .. } => {
                i64::from(i32::from(offset))
            }
            _ => 0,
        }
    }

    fn resolved(&self, v: Value) -> Value {
        self.func.dfg.resolve_aliases(v)
    }

    /// Where an address leads: none if it is made of two states.
    fn place(&self, address: Value) -> Option<Place> {
        let mut found = Vec::new();
        self.states_of(address, &mut found);
        match found[..] {
            [] => Some(Place::Other),
            [s] => Some(Place::State(s)),
            _ => None,
        }
    }

    fn states_of(&self, v: Value, found: &mut Vec<usize>) {
        let v = self.resolved(v);
        match self.func.dfg.value_def(v) {
            ValueDef::Param(block, i) if block == self.entry => {
                found.extend(self.asked.states.contains(&i).then_some(i))
            }
            ValueDef::Result(inst, _) if matches!(self.func.dfg.insts[inst].opcode(), Opcode::Iadd | Opcode::Isub) => {
                self.func.dfg.inst_args(inst).iter().for_each(|&a| self.states_of(a, found));
            }
            _ => {}
        }
    }

    /// Whether a load gives the same at all times.
    fn is_steady_load(&self, inst: Inst) -> bool {
        match self.place(self.address(inst)) {
            Some(Place::State(s)) => !self.written.contains(&s),
            other => other == Some(Place::Other),
        }
    }

    /// An instruction in words: how it is written.
    pub fn text(&self, inst: Inst) -> String {
        self.func.dfg.display_inst(inst).to_string()
    }
}
