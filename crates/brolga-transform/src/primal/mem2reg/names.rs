//! Names of cells: a base, and a constant offset from it.
//!
//! **Question.** Which accesses are to the same bytes, and which are to others for certain?
//!
//! **Answer.** Cells of [`brolga_analysis::query::cell`]. In a WebAssembly memory their bases are
//! followed further: through constants that are added to an address of 32 bits, and through
//! variables that hold one ([`CellNames::ints`]), to a *root*. The frame of a function is named
//! after the load of the stack pointer, and so is that of an inlined callee, whose own load of the
//! stack pointer reads what the caller has put there.
//!
//! **Apart.** The host's variables lie before a memory: no address in it leads there.
//! Otherwise places of two bases may be the same.
//!
//! **Wraps.** An address of 32 bits may wrap around, and a constant behind it does not. Two places
//! of one name whose accesses differ in that lie 2^32 bytes apart, so one of the two accesses is
//! out of bounds and traps.
//!
//! **Cost.** An address is followed for at most 64 steps.

use brolga_analysis::query::cell::{Base, cell_of};
use brolga_analysis::query::{access_address, access_offset, constant_int};
use brolga_ir::map::{HashMap, HashSet};
use cranelift_codegen::ir::{self, ArgumentPurpose, InstructionData, Opcode, ValueDef, types};

use super::cells::{CellPlace, CellState, KnownWord, Word, WordSource};

/// Steps from an address to its root.
const STEPS: u32 = 64;

/// Names of the places of a function.
pub(super) struct CellNames<'a> {
    func: &'a ir::Function,
    /// Where WebAssembly memory begins.
    memory: Option<ir::Value>,
    /// Integers of 32 bits that were loaded, and what they are copies of.
    pub ints: HashMap<ir::Value, KnownWord>,
    /// Whether parameters are taken to lead into no frame of this function: its callers look.
    params_apart: bool,
}

impl<'a> CellNames<'a> {
    /// Nothing has been loaded yet.
    pub(super) fn new(func: &'a ir::Function, params_apart: bool) -> Self {
        let is_context = |p: &ir::AbiParam| p.purpose == ArgumentPurpose::VMContext;
        let at = func.signature.params.iter().position(is_context);
        let memory = at.zip(func.layout.entry_block()).map(|(i, b)| func.dfg.block_params(b)[i]);
        Self { func, memory, ints: HashMap::default(), params_apart }
    }

    /// The place of an access.
    pub(super) fn of(&self, inst: ir::Inst) -> Option<CellPlace> {
        Some(self.followed(self.plain(inst)?).0)
    }

    /// The same, without following variables. In a WebAssembly memory nothing is taken off after
    /// the addition of an address.
    pub(super) fn plain(&self, inst: ir::Inst) -> Option<CellPlace> {
        let (base, at) = cell_of(self.func, access_address(self.func, inst)?, access_offset(self.func, inst));
        (at >= 0 || self.in_memory(base).is_none()).then_some((base, at))
    }

    /// Whether the name of an access's place is that only if what is kept is there.
    pub(super) fn guarded(&self, inst: ir::Inst) -> bool {
        self.plain(inst).is_some_and(|p| self.followed(p).1.iter().any(|v| self.ints[v].guarded))
    }

    /// The loads that say where an access is.
    pub(super) fn relied_on(&self, inst: ir::Inst) -> Vec<ir::Inst> {
        let args = self.func.dfg.inst_args(inst);
        let values = if self.func.dfg.insts[inst].opcode().is_call() {
            args.iter().flat_map(|&a| self.root(a).1).collect()
        } else {
            self.plain(inst).map_or_else(Vec::new, |p| self.followed(p).1)
        };
        values.into_iter().filter_map(|v| self.func.dfg.value_def(v).inst()).collect()
    }

    /// A place with its root for a base, and the loads that were followed.
    fn followed(&self, (base, at): CellPlace) -> (CellPlace, Vec<ir::Value>) {
        let Some((memory, pointer)) = self.in_memory(base) else { return ((base, at), Vec::new()) };
        let ((root, by), through) = self.root(pointer);
        ((Base::Sum(memory.min(root), memory.max(root)), at + by), through)
    }

    /// The two parts of an address in a WebAssembly memory.
    fn in_memory(&self, base: Base) -> Option<(ir::Value, ir::Value)> {
        let (Base::Sum(x, y), Some(memory)) = (base, self.memory) else { return None };
        let pointer = if x == memory { y } else { Some(x).filter(|_| y == memory)? };
        (self.func.dfg.value_type(pointer) == types::I32).then_some((memory, pointer))
    }

    /// What an address of 32 bits is made from by adding constants, and the loads that were
    /// followed.
    fn root(&self, mut v: ir::Value) -> ((ir::Value, i64), Vec<ir::Value>) {
        let (mut at, mut through) = (0_i64, Vec::new());
        let constant = |v| constant_int(self.func, v).map(|c| i64::from(c as i32));
        for _ in 0..STEPS {
            if let Some(KnownWord { word: Word::Int(WordSource::Value(from)), .. }) = self.ints.get(&v) {
                through.push(v);
                v = *from;
                continue;
            }
            let data = self.func.dfg.value_def(v).inst().map(|i| self.func.dfg.insts[i]);
            let Some(InstructionData::Binary { opcode, args: [a, b] }) = data else { break };
            (v, at) = match (opcode, constant(a), constant(b)) {
                (Opcode::Iadd, _, Some(c)) => (a, at + c),
                (Opcode::Iadd, Some(c), _) => (b, at + c),
                (Opcode::Isub, _, Some(c)) => (a, at - c),
                _ => break,
            };
        }
        ((v, at), through)
    }

    /// A place so far from an address of 32 bits, or from the start of memory, and whether its name
    /// is only kept.
    pub(super) fn shifted(&self, from: Option<ir::Value>, by: i64) -> Option<(CellPlace, bool)> {
        let memory = self.memory?;
        let Some(v) = from else { return Some(((Base::Value(memory), by), false)) };
        let ((root, at), through) = self.root(v);
        let guarded = through.iter().any(|v| self.ints[v].guarded);
        Some(((Base::Sum(memory.min(root), memory.max(root)), at + by), guarded))
    }

    /// The place that a variable before memory points to, whatever else happens.
    pub(super) fn pointer(&self, slot: i64, state: &CellState) -> Option<CellPlace> {
        let known = state.get(&(Base::Value(self.memory?), slot)).filter(|k| !k.guarded)?;
        let Word::Int(WordSource::Value(v)) = known.word else { return None };
        self.shifted(Some(v), 0).filter(|found| !found.1).map(|found| found.0)
    }

    /// Which parameter a base is.
    pub(super) fn param(&self, base: Base) -> Option<usize> {
        let (_, root) = self.in_memory(base)?;
        match self.func.dfg.value_def(root) {
            ValueDef::Param(b, i) if Some(b) == self.func.layout.entry_block() => Some(i),
            _ => None,
        }
    }

    /// The start of memory, and the value that a base is beside it.
    pub(super) fn root_of(&self, base: Base) -> Option<(ir::Value, ir::Value)> {
        self.in_memory(base)
    }

    /// Whether a base is the stack pointer's: a variable before the memory.
    pub(super) fn is_frame(&self, base: Base) -> bool {
        self.in_memory(base).is_some_and(|(_, root)| self.slot_of(root).is_some())
    }

    /// The variable before memory that a value was loaded from.
    pub(super) fn slot_of(&self, v: ir::Value) -> Option<i64> {
        let inst = self.func.dfg.value_def(v).inst()?;
        (self.func.dfg.insts[inst].opcode() == Opcode::Load).then_some(())?;
        self.plain(inst).filter(|&p| self.is_global(p)).map(|p| p.1)
    }

    /// Whether a place is a variable before memory.
    pub(super) fn is_global(&self, (base, at): CellPlace) -> bool {
        self.memory.is_some_and(|m| base == Base::Value(m)) && at < 0
    }

    /// Whether a value is where the memory begins.
    pub(super) fn is_memory(&self, v: ir::Value) -> bool {
        self.memory == Some(v)
    }

    /// Whether a base is a parameter that is taken to lead into no frame of this function.
    pub(super) fn is_told(&self, base: Base) -> bool {
        self.params_apart && self.param(base).is_some()
    }

    /// Whether a place is a number of bytes after the start of memory.
    pub(super) fn is_inside(&self, (base, at): CellPlace) -> bool {
        self.memory.is_some_and(|m| base == Base::Value(m)) && at >= 0
    }

    /// Whether a cell and what is written are apart for certain. Their bases are not the same.
    pub(super) fn apart(&self, cell: CellPlace, (to, bytes): (CellPlace, i64)) -> bool {
        let inside = |p: CellPlace| self.in_memory(p.0).is_some() || self.is_inside(p);
        let front = |p: CellPlace, bytes: i64| self.is_global(p) && p.1 + bytes <= 0;
        self.is_frame(cell.0) && self.is_told(to.0) || front(cell, 4) && inside(to) || inside(cell) && front(to, bytes)
    }

    fn accesses(&self, ty: ir::Type) -> impl Iterator<Item = CellPlace> + '_ {
        let func = self.func;
        let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
        insts.filter_map(move |i| {
            let moved = match func.dfg.insts[i].opcode() {
                Opcode::Load => func.dfg.first_result(i),
                Opcode::Store => func.dfg.inst_args(i)[0],
                _ => return None,
            };
            self.plain(i).filter(|_| func.dfg.value_type(moved) == ty)
        })
    }

    /// Whether something is accessed in a frame.
    pub(super) fn has_frame(&self) -> bool {
        let all = [types::F64, types::I32, types::I64].into_iter().flat_map(|ty| self.accesses(ty));
        self.memory.is_some() && all.into_iter().any(|p| self.is_frame(self.followed(p).0.0))
    }

    /// Bases of places whose bytes are a double and a word.
    pub(super) fn mixed(&self) -> HashSet<Base> {
        let mut doubles: HashMap<Base, Vec<i64>> = HashMap::default();
        self.accesses(types::F64).for_each(|(base, at)| doubles.entry(base).or_default().push(at));
        doubles.values_mut().for_each(|at| at.sort_unstable());
        let is = |(base, at): &CellPlace| {
            let of = doubles.get(base);
            of.is_some_and(|d| d.binary_search(at).is_ok() || d.binary_search(&at.wrapping_sub(4)).is_ok())
        };
        self.accesses(types::I32).filter(is).map(|p| p.0).collect()
    }
}
