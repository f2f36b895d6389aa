//! Available stores: what the words of a function's own memory hold, at each point.
//!
//! **Question.** Which stored value does a load read, where several stores, calls and ways through
//! the function may lie in between?
//!
//! **Answer.** A forward data-flow analysis over cells of four bytes
//! ([`brolga_analysis::memory::cell`]). A cell holds an integer that was stored, or half of a
//! double that was stored; where two paths meet that do not agree, it holds a block parameter that
//! does not exist yet ([`Source::Param`]); where one of them knows nothing, nothing is known. An
//! integer that was loaded as half of a double is that half wherever it is stored again.
//!
//! **Clobbers.** A store to the same base clears what it overlaps. A call, and a store through
//! another base, clear everything: nothing says that they do not lead there. To compare what is
//! there with what was stored would not do, since an equal number may have another derivative.
//!
//! **Cost.** Cells times blocks; above [`MOST`] nothing is looked at.
//!
//! **Source.** Available expressions and SSA construction for scalars, Braun et al. (2013);
//! store-to-load forwarding as in LLVM's `EarlyCSE` and `mem2reg`.

use std::collections::BTreeMap;

use brolga_analysis::Cfg;
use brolga_analysis::memory::cell::{Base, cell_of};
use brolga_analysis::query::{access_address, access_bytes, access_offset, constant_int};
use brolga_ir::map::HashMap;
use cranelift_codegen::ir::{self, ArgumentPurpose, InstructionData, Opcode, ValueDef, types};
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::primal::split_wide_copies::little;

/// Cells times blocks that are looked at.
const MOST: usize = 1 << 20;
/// Times that all blocks are gone through.
const SWEEPS: u32 = 16;

/// A base, by the order in which they are met, and an offset.
pub type Place = (u32, i64);

/// A double or an integer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// A value of the function.
    Value(ir::Value),
    /// A parameter, to be made, of a block for what comes in of a cell.
    Param(ir::Block, Place),
}

/// What four bytes hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// An integer.
    Int(Source),
    /// Half of a double: the upper one?
    Half(Source, bool),
}

/// All that is known at a point.
pub type State = BTreeMap<Place, Word>;

/// What is known at the ends of blocks, and what was loaded.
pub struct Words<'a> {
    func: &'a ir::Function,
    bases: HashMap<Base, u32>,
    /// At the beginning of a block; where it has been reached.
    enters: SecondaryMap<ir::Block, Option<State>>,
    /// At its end.
    leaves: SecondaryMap<ir::Block, Option<State>>,
    /// Integers that were loaded, and what they are copies of.
    ints: HashMap<ir::Value, Word>,
    /// The same of doubles.
    doubles: HashMap<ir::Value, Source>,
}

impl<'a> Words<'a> {
    /// Look at a function. `None` if it has no such memory, or there is too much to look at.
    pub fn of(func: &'a ir::Function, cfg: &Cfg) -> Option<Self> {
        let bases = bases(func);
        if bases.is_empty() {
            return None;
        }
        let (enters, leaves) = Default::default();
        let (ints, doubles) = Default::default();
        let mut words = Self { func, bases, enters, leaves, ints, doubles };
        let entry = *cfg.blocks.first()?;
        words.enters[entry] = Some(State::new());
        for _ in 0..SWEEPS {
            let mut changed = false;
            for &b in &cfg.blocks {
                if b != entry {
                    let enters = words.meet(cfg, b);
                    changed |= words.enters[b] != enters;
                    words.enters[b] = enters;
                }
                let Some(mut state) = words.enters[b].clone() else { continue };
                if state.len() * cfg.blocks.len() > MOST {
                    return None;
                }
                for inst in func.layout.block_insts(b) {
                    changed |= words.note(cfg, inst, &state);
                    words.step(inst, &mut state);
                }
                changed |= words.leaves[b].as_ref() != Some(&state);
                words.leaves[b] = Some(state);
            }
            if !changed {
                return Some(words);
            }
        }
        None
    }

    /// What is known where a block begins.
    pub fn entering(&self, b: ir::Block) -> State {
        self.enters[b].clone().unwrap_or_default()
    }

    /// What a cell holds where a block ends, if that is known.
    pub fn leaving(&self, b: ir::Block, place: Place) -> Option<Word> {
        self.leaves[b].as_ref()?.get(&place).copied()
    }

    /// What is known of the words that a load reads.
    pub fn loaded(&self, state: &State, inst: ir::Inst) -> Option<(Place, Word)> {
        let place = self.place(inst)?;
        Some((place, *state.get(&place)?))
    }

    /// Whether two doubles are one, wherever the parameters are that stand for them.
    pub fn same(&self, cfg: &Cfg, a: Source, b: Source, open: &mut Vec<(Source, Source)>) -> bool {
        match (a, b) {
            _ if a == b || open.contains(&(a, b)) => true,
            (Source::Param(at, x), Source::Param(there, y)) if at == there => {
                open.push((a, b));
                cfg.preds[at].iter().all(|&p| match (self.leaving(p, x), self.leaving(p, y)) {
                    (Some(Word::Half(x, _)), Some(Word::Half(y, _))) => self.same(cfg, x, y, open),
                    // A block that has not been reached yet says nothing against it.
                    _ => self.leaves[p].is_none(),
                })
            }
            _ => false,
        }
    }

    fn place(&self, inst: ir::Inst) -> Option<Place> {
        let (base, at) = cell_of(self.func, access_address(self.func, inst)?, access_offset(self.func, inst));
        Some((*self.bases.get(&base)?, at))
    }

    /// What all ways into a block agree on, and parameters for what they do not.
    fn meet(&self, cfg: &Cfg, b: ir::Block) -> Option<State> {
        let mut ways = cfg.preds[b].iter().filter_map(|&p| self.leaves[p].as_ref());
        let mut met = ways.next()?.clone();
        for way in ways {
            met.retain(|place, word| {
                let Some(other) = way.get(place) else { return false };
                let param = Source::Param(b, *place);
                *word = match (*word, *other) {
                    (x, y) if x == y => x,
                    (Word::Half(_, up), Word::Half(_, too)) if up == too => Word::Half(param, up),
                    _ => Word::Int(param),
                };
                true
            });
        }
        // A parameter stays one, so that this comes to an end.
        for (place, word) in &mut met {
            let before = self.enters[b].as_ref().and_then(|s| s.get(place)).copied();
            *word = match (before, *word) {
                (Some(Word::Int(s)), _) if s == Source::Param(b, *place) => Word::Int(s),
                (Some(Word::Half(s, up)), Word::Half(_, too)) if up == too && s == Source::Param(b, *place) => {
                    Word::Half(s, up)
                }
                (_, now) => now,
            };
        }
        Some(met)
    }

    /// Remember what a load reads. Whether that is news.
    fn note(&mut self, cfg: &Cfg, inst: ir::Inst, state: &State) -> bool {
        let func = self.func;
        let Some(ty) = [types::I32, types::F64].into_iter().find(|&ty| loads(func, inst, ty)) else { return false };
        let v = func.dfg.first_result(inst);
        let at = |by| self.place(inst).and_then(|(base, at)| state.get(&(base, at + by)));
        if ty == types::I32 {
            let now = at(0).copied();
            let before = set(&mut self.ints, v, now);
            return now != before;
        }
        let now = match (at(0).copied(), at(4).copied()) {
            (Some(Word::Half(x, false)), Some(Word::Half(y, true))) => {
                self.same(cfg, x, y, &mut Vec::new()).then_some(x)
            }
            _ => None,
        };
        let before = set(&mut self.doubles, v, now);
        now != before
    }

    /// What an instruction does to memory.
    pub fn step(&self, inst: ir::Inst, state: &mut State) {
        let func = self.func;
        let op = func.dfg.insts[inst].opcode();
        if !(op.can_store() || op.is_call()) {
            return;
        }
        let place = self.place(inst).filter(|_| !op.is_call());
        state.retain(|&(base, at), _| {
            place.is_some_and(|(b, to)| {
                b == base && (to >= at + 4 || at >= to.saturating_add(i64::from(access_bytes(func, inst))))
            })
        });
        let Some((base, at)) = place.filter(|_| op == Opcode::Store && little(func, inst)) else { return };
        let x = func.dfg.inst_args(inst)[0];
        let mut put = |at, word| state.insert((base, at), word);
        match func.dfg.value_type(x) {
            types::F64 => {
                let source = self.doubles.get(&x).copied().unwrap_or(Source::Value(x));
                put(at, Word::Half(source, false));
                put(at + 4, Word::Half(source, true));
            }
            types::I32 => {
                put(at, self.ints.get(&x).copied().unwrap_or(Word::Int(Source::Value(x))));
            }
            _ => {}
        }
    }
}

/// Set what is said of a value, or say nothing of it any more. Returns what was said before.
fn set<T>(of: &mut HashMap<ir::Value, T>, v: ir::Value, now: Option<T>) -> Option<T> {
    match now {
        Some(now) => of.insert(v, now),
        None => of.remove(&v),
    }
}

/// Whether an instruction loads a value of this type as it lies there.
pub fn loads(func: &ir::Function, inst: ir::Inst, ty: ir::Type) -> bool {
    func.dfg.insts[inst].opcode() == Opcode::Load
        && func.dfg.value_type(func.dfg.first_result(inst)) == ty
        && little(func, inst)
}

/// The bases of memory that is looked at, numbered: frames of WebAssembly, and where the same bytes
/// are accessed as a double and as a word.
fn bases(func: &ir::Function) -> HashMap<Base, u32> {
    let accesses = |ty: ir::Type| {
        let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
        insts.filter_map(move |i| {
            let moved = match func.dfg.insts[i].opcode() {
                Opcode::Load => func.dfg.first_result(i),
                Opcode::Store => func.dfg.inst_args(i)[0],
                _ => return None,
            };
            let addr = access_address(func, i).filter(|_| func.dfg.value_type(moved) == ty)?;
            Some(cell_of(func, addr, access_offset(func, i)))
        })
    };
    let mut found: HashMap<Base, u32> = HashMap::default();
    let mut add = |base| {
        let n = found.len() as u32;
        found.entry(base).or_insert(n);
    };
    let mut frames: HashMap<Base, bool> = HashMap::default();
    let mut is_frame = |base| *frames.entry(base).or_insert_with(|| is_frame(func, base));
    let mut doubles: HashMap<Base, Vec<i64>> = HashMap::default();
    for (base, at) in accesses(types::F64) {
        doubles.entry(base).or_default().push(at);
        if is_frame(base) {
            add(base);
        }
    }
    doubles.values_mut().for_each(|at| at.sort_unstable());
    for (base, at) in accesses(types::I32) {
        let is = |at: i64| doubles.get(&base).is_some_and(|d| d.binary_search(&at).is_ok());
        if is_frame(base) || is(at) || is(at.wrapping_sub(4)) {
            add(base);
        }
    }
    found
}

/// Whether a base is the frame of a WebAssembly function whose addresses go nowhere but into
/// accesses: the stack pointer, a global variable before the memory, moved down by a constant.
/// Frames with addresses that go elsewhere are arrays and arguments of callees, of which little stays
/// known.
fn is_frame(func: &ir::Function, base: Base) -> bool {
    let Base::Sum(x, y) = base else { return false };
    let pointer = match [is_memory(func, x), is_memory(func, y)] {
        [true, false] => y,
        [false, true] => x,
        _ => return false,
    };
    let Some(inst) = func.dfg.value_def(pointer).inst() else { return false };
    let InstructionData::Binary { opcode: Opcode::Iadd | Opcode::Isub, args: [sp, by] } = func.dfg.insts[inst] else {
        return false;
    };
    let global = func.dfg.value_def(sp).inst().filter(|&i| func.dfg.insts[i].opcode() == Opcode::Load);
    global.filter(|_| constant_int(func, by).is_some()).is_some_and(|load| {
        let slot = access_offset(func, load);
        let is_global = access_address(func, load).is_some_and(|a| is_memory(func, a)) && slot < 0;
        is_global && !escapes(func, base, pointer, slot)
    })
}

/// Whether addresses of a frame go elsewhere than into accesses that are named after it. `slot` is
/// where the stack pointer is handed on to callees, and back to callers.
fn escapes(func: &ir::Function, base: Base, pointer: ir::Value, slot: i32) -> bool {
    let insts = || func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let mut addresses: EntitySet<ir::Value> = EntitySet::new();
    addresses.insert(pointer);
    // Values that are computed of addresses stand behind them in what dominates; the layout need not
    // have that order.
    let mut grows = true;
    while grows {
        grows = false;
        for inst in insts() {
            let data = func.dfg.insts[inst];
            let args = func.dfg.inst_args(inst);
            if !args.iter().any(|&a| addresses.contains(a)) {
                continue;
            }
            let is_constant = |v: ir::Value| constant_int(func, v).is_some();
            let moves = match data {
                InstructionData::Unary { opcode: Opcode::Uextend, .. } => true,
                InstructionData::Binary { opcode: Opcode::Iadd, args: [a, b] } => {
                    is_constant(a) || is_constant(b) || is_memory(func, a) || is_memory(func, b)
                }
                InstructionData::Binary { opcode: Opcode::Isub, args: [_, b] } => is_constant(b),
                _ => false,
            };
            if moves {
                grows |= addresses.insert(func.dfg.first_result(inst));
            }
        }
    }
    insts().any(|inst| {
        let op = func.dfg.insts[inst].opcode();
        let of_access = access_address(func, inst);
        func.dfg.inst_values(inst).enumerate().any(|(i, a)| {
            let is_result = func.dfg.inst_results(inst).first().is_some_and(|&r| addresses.contains(r));
            let is_stored = op.can_store() && i == 0;
            // What has another name is not known to be the same place.
            let named = || cell_of(func, a, access_offset(func, inst)).0 == base;
            let is_address = of_access == Some(a) && !is_stored && named();
            let handed_on =
                is_stored && of_access.is_some_and(|p| is_memory(func, p)) && access_offset(func, inst) == slot;
            addresses.contains(a) && !is_result && !is_address && !handed_on
        })
    })
}

/// Whether a value is the start of a WebAssembly memory.
fn is_memory(func: &ir::Function, v: ir::Value) -> bool {
    let ValueDef::Param(b, i) = func.dfg.value_def(v) else { return false };
    Some(b) == func.layout.entry_block()
        && func.signature.params.get(i).is_some_and(|p| p.purpose == ArgumentPurpose::VMContext)
}
