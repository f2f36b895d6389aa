//! Available stores: what the words of a function's own memory hold, at each point.
//!
//! **Question.** Which stored value does a load read, where several stores, calls and ways through
//! the function may lie in between?
//!
//! **Answer.** A forward data-flow analysis over cells of four bytes ([`super::names`]). A cell
//! holds an integer that was stored, or half of a stored number of 64 bits; where two paths meet
//! that do not agree, it holds a block parameter that does not exist yet ([`WordSource::Param`]);
//! where one of them knows nothing, nothing is known. What was loaded from a cell is what the cell
//! held, wherever it is stored again, and wherever it is an address: so the frame of a callee that
//! was inlined, and what it is handed by a pointer, have the names of the caller's frame.
//!
//! **Clobbers.** A store to the same base clears what it overlaps. A store through another base
//! clears everything but frames: there cells are *guarded* ([`KnownWord::guarded`]), and what
//! relies on them asks for a guard ([`mod@super::guards`]). To compare what is there with what was
//! stored would not do, since an equal number may have another derivative. A call clears what its
//! callee may write ([`super::callees`]); of a callee of which nothing is known, that is
//! everything.
//!
//! **Invariant.** What is not kept is there whatever else happens. What is kept is there unless a
//! store that it was kept across led to it.
//!
//! **Cost.** Cells times blocks; above [`MOST`] nothing is looked at.
//!
//! **Source.** Available expressions and SSA construction for scalars, Braun et al. (2013);
//! store-to-load forwarding as in LLVM's `EarlyCSE` and `mem2reg`.

use brolga_analysis::Cfg;
use brolga_analysis::query::cell::Base;
use brolga_analysis::query::{access_address, access_bytes, constant_int};
use brolga_ir::map::{HashMap, HashSet};
use cranelift_codegen::ir::{self, Opcode, types};
use cranelift_entity::SecondaryMap;

use super::cells::{Calls, CellPlace, CellState, CellWrites, KnownWord, Word, WordSource, WriteTarget};
use super::names::CellNames;
use crate::primal::split_wide_copies::little;

/// Cells times blocks that are looked at.
const MOST: usize = 1 << 20;
/// Times that all blocks are gone through.
const SWEEPS: u32 = 16;

/// What is known at the ends of blocks, and what was loaded.
pub(super) struct Words<'a> {
    /// The function.
    pub func: &'a ir::Function,
    /// Its places.
    pub names: CellNames<'a>,
    calls: &'a dyn Calls,
    /// Where the same bytes are a double and a word, other than in frames.
    mixed: HashSet<Base>,
    /// At the beginning of a block; where it has been reached.
    enters: SecondaryMap<ir::Block, Option<CellState>>,
    /// At its end.
    leaves: SecondaryMap<ir::Block, Option<CellState>>,
    /// Numbers of 64 bits that were loaded, and what they are copies of. (Those of 32 bits are in
    /// [`CellNames`].)
    wide: HashMap<ir::Value, (WordSource, bool)>,
}

impl<'a> Words<'a> {
    /// Look at a function. `None` if it has no such memory, or there is too much to look at.
    pub(super) fn of(func: &'a ir::Function, cfg: &Cfg, calls: &'a dyn Calls) -> Option<Self> {
        let names = CellNames::new(func, false);
        let mixed = names.mixed();
        if mixed.is_empty() && !names.has_frame() {
            return None;
        }
        Self::look(func, cfg, calls, names, mixed)
    }

    /// Look at a function to see what it writes.
    pub(super) fn of_callee(func: &'a ir::Function, cfg: &Cfg, calls: &'a dyn Calls) -> Option<Self> {
        Self::look(func, cfg, calls, CellNames::new(func, true), HashSet::default())
    }

    fn look(
        func: &'a ir::Function,
        cfg: &Cfg,
        calls: &'a dyn Calls,
        names: CellNames<'a>,
        mixed: HashSet<Base>,
    ) -> Option<Self> {
        let (enters, leaves) = Default::default();
        let mut words = Self { func, names, calls, mixed, enters, leaves, wide: HashMap::default() };
        let entry = *cfg.blocks.first()?;
        words.enters[entry] = Some(CellState::new());
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
    pub(super) fn entering(&self, b: ir::Block) -> CellState {
        self.enters[b].clone().unwrap_or_default()
    }

    /// What a cell holds where a block ends, if that is known.
    pub(super) fn leaving(&self, b: ir::Block, place: CellPlace) -> Option<Word> {
        self.leaves[b].as_ref()?.get(&place).map(|k| k.word)
    }

    /// The load whose result is known to be a copy of something else, and was stored as that.
    pub(super) fn copied(&self, x: ir::Value) -> Option<ir::Inst> {
        let is = self.wide.contains_key(&x) || self.names.ints.contains_key(&x);
        self.func.dfg.value_def(x).inst().filter(|_| is)
    }

    /// Whether a number of 64 bits is, or may be, a double.
    pub(super) fn has_double(&self, cfg: &Cfg, x: WordSource) -> bool {
        let (mut seen, mut work) = (vec![x], vec![x]);
        while let Some(x) = work.pop() {
            let WordSource::Param(b, place) = x else {
                let WordSource::Value(v) = x else { continue };
                if self.func.dfg.value_type(v) == types::F64 {
                    return true;
                }
                continue;
            };
            for &p in &cfg.preds[b] {
                if let Some(Word::Half(y, _)) = self.leaving(p, place)
                    && !seen.contains(&y)
                {
                    seen.push(y);
                    work.push(y);
                }
            }
        }
        false
    }

    /// Whether two numbers are one, wherever the parameters are that stand for them.
    pub(super) fn same(
        &self,
        cfg: &Cfg,
        a: WordSource,
        b: WordSource,
        open: &mut Vec<(WordSource, WordSource)>,
    ) -> bool {
        match (a, b) {
            _ if a == b || open.contains(&(a, b)) => true,
            (WordSource::Param(at, x), WordSource::Param(there, y)) if at == there => {
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

    /// What all ways into a block agree on, and parameters for what they do not.
    fn meet(&self, cfg: &Cfg, b: ir::Block) -> Option<CellState> {
        let mut ways = cfg.preds[b].iter().filter_map(|&p| self.leaves[p].as_ref());
        let mut met = ways.next()?.clone();
        for way in ways {
            met.retain(|place, known| {
                let Some(other) = way.get(place) else { return false };
                let param = WordSource::Param(b, *place);
                known.guarded |= other.guarded;
                known.word = match (known.word, other.word) {
                    (x, y) if x == y => x,
                    (Word::Half(_, up), Word::Half(_, too)) if up == too => Word::Half(param, up),
                    _ => Word::Int(param),
                };
                true
            });
        }
        // A parameter stays one, so that this comes to an end.
        for (place, known) in &mut met {
            let before = self.enters[b].as_ref().and_then(|s| s.get(place)).map(|k| k.word);
            known.word = match (before, known.word) {
                (Some(Word::Int(s)), _) if s == WordSource::Param(b, *place) => Word::Int(s),
                (Some(Word::Half(s, up)), Word::Half(_, too)) if up == too && s == WordSource::Param(b, *place) => {
                    Word::Half(s, up)
                }
                (_, now) => now,
            };
        }
        Some(met)
    }

    /// Remember what a load reads. Whether that is news.
    fn note(&mut self, cfg: &Cfg, inst: ir::Inst, state: &CellState) -> bool {
        let func = self.func;
        let Some(ty) = loaded(func, inst) else { return false };
        let v = func.dfg.first_result(inst);
        let place = self.names.of(inst);
        let at = |by| place.and_then(|(base, at)| state.get(&(base, at + by)));
        let named = self.names.guarded(inst);
        if ty == types::I32 {
            let now = at(0).map(|k| KnownWord { guarded: k.guarded | named, ..*k });
            return set(&mut self.names.ints, v, now) != now;
        }
        let now = match (at(0), at(4)) {
            (
                Some(KnownWord { word: Word::Half(x, false), guarded: k }),
                Some(KnownWord { word: Word::Half(y, true), guarded: l }),
            ) => self.same(cfg, *x, *y, &mut Vec::new()).then_some((*x, k | l | named)),
            _ => None,
        };
        set(&mut self.wide, v, now) != now
    }

    /// What an instruction writes.
    pub(super) fn written(&self, inst: ir::Inst, state: &CellState) -> Vec<WriteTarget> {
        let func = self.func;
        let op = func.dfg.insts[inst].opcode();
        if op.is_call() {
            return match self.calls.of_call(func, inst) {
                Some(writes) => self.by_call(inst, &writes, state).unwrap_or_else(|| vec![WriteTarget::Somewhere]),
                None => vec![WriteTarget::Somewhere],
            };
        }
        if !op.can_store() {
            return Vec::new();
        }
        vec![match self.names.of(inst) {
            Some(place) => WriteTarget::Named(place, i64::from(access_bytes(func, inst)), self.names.guarded(inst)),
            None => WriteTarget::Somewhere,
        }]
    }

    /// What a callee writes, in the caller's names. `None` if it may be anything.
    fn by_call(&self, inst: ir::Inst, writes: &CellWrites, state: &CellState) -> Option<Vec<WriteTarget>> {
        let args = self.func.dfg.inst_args(inst);
        if writes.memory.is_some_and(|i| !self.names.is_memory(args[i])) {
            return None;
        }
        let top = match writes.below {
            Some(slot) => Some(self.names.pointer(slot, state)?),
            None => None,
        };
        let mut written: Vec<WriteTarget> = top.map(WriteTarget::Below).into_iter().collect();
        for part in &writes.parts {
            let (place, guarded) = self.names.shifted(part.through.map(|i| args[i]), part.from)?;
            // The callee's own frames are not where it is told to write.
            let beside = self.names.is_told(place.0) || top.is_none_or(|(base, at)| place.0 == base && place.1 >= at);
            if part.through.is_some() && (guarded || !beside) {
                return None;
            }
            written.push(WriteTarget::Named(place, part.to - part.from, false));
        }
        Some(written)
    }

    /// What an instruction does to memory.
    pub(super) fn step(&self, inst: ir::Inst, state: &mut CellState) {
        let func = self.func;
        let op = func.dfg.insts[inst].opcode();
        if loaded(func, inst) == Some(types::I32)
            && let Some(place) = self.names.of(inst).filter(|&p| self.names.is_global(p))
        {
            // The next load of the stack pointer is of the same.
            let word = Word::Int(WordSource::Value(func.dfg.first_result(inst)));
            state.entry(place).or_insert(KnownWord { word, guarded: false });
        }
        if !(op.can_store() || op.is_call()) {
            return;
        }
        let written = self.written(inst, state);
        if op.is_call() && written.iter().any(|w| matches!(w, WriteTarget::Somewhere)) {
            state.clear();
            return;
        }
        // Others cannot be asked where they lead to.
        let guarded = access_address(func, inst).is_some();
        for w in &written {
            state.retain(|&place, known| self.survives(place, known, w, guarded));
        }
        if op != Opcode::Store || !little(func, inst) {
            return;
        }
        let Some((base, at)) = self.names.of(inst).filter(|p| self.tracks(inst, *p)) else { return };
        let x = func.dfg.inst_args(inst)[0];
        let named = self.names.guarded(inst);
        let mut put = |at, word, guarded| state.insert((base, at), KnownWord { word, guarded: guarded | named });
        match func.dfg.value_type(x) {
            types::F64 | types::I64 => {
                let (source, guarded) = self.wide.get(&x).copied().unwrap_or((WordSource::Value(x), false));
                put(at, Word::Half(source, false), guarded);
                put(at + 4, Word::Half(source, true), guarded);
            }
            types::I32 => {
                let known = self.names.ints.get(&x);
                let KnownWord { word, guarded } =
                    known.copied().unwrap_or(KnownWord { word: Word::Int(WordSource::Value(x)), guarded: false });
                put(at, word, guarded);
            }
            _ => {}
        }
    }

    /// Whether anything is still known of a cell after a write.
    fn survives(&self, (base, at): CellPlace, known: &mut KnownWord, written: &WriteTarget, guarded: bool) -> bool {
        match *written {
            WriteTarget::Named(to, bytes, guarded) if to.0 == base => {
                known.guarded |= guarded;
                to.1 >= at + 4 || at >= to.1 + bytes
            }
            WriteTarget::Named(to, bytes, guarded) if self.names.apart((base, at), (to, bytes)) => {
                known.guarded |= guarded;
                true
            }
            WriteTarget::Below(top) => top.0 == base && at >= top.1 || self.names.is_global((base, at)),
            _ => {
                known.guarded = true;
                guarded && self.names.is_frame(base)
            }
        }
    }

    /// Whether cells of a place are looked at.
    fn tracks(&self, inst: ir::Inst, (base, at): CellPlace) -> bool {
        self.names.is_frame(base)
            || self.names.is_global((base, at))
            || self.mixed.contains(&base)
            || self.names.plain(inst).is_some_and(|p| self.mixed.contains(&p.0))
    }
}

/// Set what is said of a value, or say nothing of it any more. Returns what was said before.
fn set<T: Copy>(of: &mut HashMap<ir::Value, T>, v: ir::Value, now: Option<T>) -> Option<T> {
    match now {
        Some(now) => of.insert(v, now),
        None => of.remove(&v),
    }
}

/// The type that an instruction loads as it lies there: doubles, and words of 32 and 64 bits.
pub(super) fn loaded(func: &ir::Function, inst: ir::Inst) -> Option<ir::Type> {
    if func.dfg.insts[inst].opcode() != Opcode::Load || !little(func, inst) {
        return None;
    }
    let ty = func.dfg.value_type(func.dfg.first_result(inst));
    matches!(ty, types::I32 | types::I64 | types::F64).then_some(ty)
}

/// Whether a value is a constant whose lower half is zero.
pub(super) fn ends_in_zeros(func: &ir::Function, x: ir::Value) -> bool {
    let Some(inst) = func.dfg.value_def(x).inst() else { return false };
    match func.dfg.insts[inst] {
        ir::InstructionData::UnaryIeee64 { imm, .. } => imm.bits() as u32 == 0,
        ir::InstructionData::UnaryImm { imm, .. } => imm.bits() as u32 == 0,
        ir::InstructionData::Unary { opcode: Opcode::FcvtFromSint, arg } => {
            constant_int(func, arg).is_some_and(|n| n.unsigned_abs() < 1 << 20)
        }
        _ => false,
    }
}
