//! Scalar promotion of variables in memory (`mem2reg`), with doubles that are taken apart into
//! words.
//!
//! **Problem.** Without an optimiser, C keeps its variables in memory: in WebAssembly, in a frame
//! below the stack pointer. Programs take doubles apart, and put them together, by a union of a
//! double and two words (fdlibm's `GET_HIGH_WORD` and `SET_HIGH_WORD`). An optimiser makes shifts
//! and masks of that, which are followed ([`crate::primal::exponent_idiom`]); in memory, the double
//! that is read is a mixture of two stores, and a word that was calculated from a half lies in
//! another variable.
//!
//! **Answer.** The same shifts and masks. Loads of doubles and words whose stores are known
//! ([`words`]) become the values that were stored, with block parameters where paths meet. Loads of
//! halves are taken from the double, and mixtures are put together. Integers of 64 bits are treated
//! as doubles are: their halves are words, too.
//!
//! ```text
//! store.f64 x, p                                 store.f64 x, p
//! h = load.i32 p+4                               h = ireduce (ushr (bitcast x), 32)
//! store.i32 (band h, 0x7fffffff), p+4            store.i32 w, p+4
//! y = load.f64 p                                 y = bitcast ((bitcast x & 0xffffffff) | w << 32)
//! ```
//!
//! **Which.** Frames of WebAssembly, and other memory in which the same bytes are a double and a
//! word. A lower half is only followed if it is zero, or from a double: of other low digits nothing
//! says that they are digits. Loads of halves with which nothing is calculated stay as they are,
//! since such moves are followed in memory. So do loads of what is kept across a store through
//! another address ([`words`]), unless a double that is taken apart asks for them ([`mod@slice`]):
//! only these would be refused, or trap, and for these the store is guarded ([`mod@guards`]).
//!
//! **Invariant.** Every load that is replaced reads what was stored by what it is replaced by, or a
//! guard traps before. Stores stay.
//!
//! **Cost.** That of [`words`], a walk over the blocks with the states that it finds, and rounds
//! over the instructions for integers that are computed from halves, until none is added.
//!
//! **Source.** SSA construction for scalars as in LLVM's `mem2reg`.

mod callees;
mod cells;
mod guards;
mod names;
mod slice;
mod words;

use brolga_analysis::Cfg;
use brolga_analysis::query::constant_int;
use brolga_ir::map::{HashMap, HashSet};
use cranelift_codegen::cursor::FuncCursor;
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, MemFlagsData, Opcode, ValueDef, types};
use cranelift_entity::EntitySet;

use crate::primal::edit::{BlockArgs, before};

use cells::{CellPlace, LoadReplacement, PromotedLoad, Word, WordSource};
use guards::guards;
use slice::slice;
use words::{Words, ends_in_zeros, loaded};

pub use callees::CalleeWrites;

/// Put them together.
pub fn mem2reg(func: &mut ir::Function, callees: &CalleeWrites<'_>) {
    let cfg = Cfg::compute(func);
    let Some(words) = Words::of(func, &cfg, callees) else { return };
    let found = found(func, &cfg, &words);
    if found.is_empty() {
        return;
    }
    // What is known is written down before anything is changed.
    let guarded = found.iter().any(|f| f.guarded);
    let guards = if guarded { guards(&cfg, &words, found.iter().map(|f| f.load)) } else { Vec::new() };
    let params = Params::of(&cfg, &words, &found);
    let (made, bits) = Default::default();
    let mut rewrite = Rewrite { params, made, bits, args: BlockArgs::default(), func };
    guards.iter().for_each(|g| g.write(rewrite.func));
    for f in &found {
        rewrite.replace(f);
    }
    rewrite.args.write(rewrite.func);
    rewrite.func.dfg.resolve_all_aliases();
}

/// The loads of which it is known what they read, and that are to be replaced.
fn found(func: &ir::Function, cfg: &Cfg, words: &Words<'_>) -> Vec<PromotedLoad> {
    let mut found: Vec<PromotedLoad> = Vec::new();
    for &b in &cfg.blocks {
        let mut state = words.entering(b);
        for inst in func.layout.block_insts(b) {
            if let Some(ty) = loaded(func, inst)
                && let Some((base, at)) = words.names.of(inst)
                && let Some(low) = state.get(&(base, at))
            {
                let named = words.names.guarded(inst);
                let high = state.get(&(base, at + 4)).filter(|_| ty != types::I32);
                let by = match high {
                    _ if ty == types::I32 => Some(LoadReplacement::Word(low.word)),
                    Some(high) => double(cfg, words, [low.word, high.word]),
                    None => None,
                };
                let guarded = named | low.guarded | high.is_some_and(|h| h.guarded);
                found.extend(by.map(|by| PromotedLoad { load: inst, ty, by, guarded }));
            }
            words.step(inst, &mut state);
        }
    }
    let halves = halves(func, &found);
    found.retain(|f| match f.by {
        LoadReplacement::Mixture([Word::Int(WordSource::Value(w)), _]) => {
            constant_int(func, w) == Some(0) || halves.contains(w)
        }
        LoadReplacement::Mixture([Word::Int(WordSource::Param(..)), _]) => false,
        _ => true,
    });
    let numbers = UnionNumbers::of(func, cfg, words);
    found.retain(|f| !numbers.stays(f));
    let calculated = calculated(func);
    let moved = |f: &PromotedLoad| match f.by {
        LoadReplacement::Word(Word::Half(x, _)) => Some(x),
        LoadReplacement::Number(x) if f.ty == types::I64 && words.has_double(cfg, x) => Some(x),
        _ => None,
    };
    // What is put together again must not come from a value in part, and from memory in part.
    let in_registers: HashSet<WordSource> =
        found.iter().filter(|f| calculated.contains(func.dfg.first_result(f.load))).filter_map(moved).collect();
    found.retain(|f| moved(f).is_none_or(|x| in_registers.contains(&x)));
    if found.iter().any(|f| f.guarded) {
        let asked = slice(func, cfg, words, &found);
        found.retain(|f| !f.guarded || asked.contains(f.load));
    }
    found
}

/// Loads of which numbers are made, of a union: it depends on the way that is taken whether they
/// read a float, so the run asks on that way, of the union.
struct UnionNumbers<'a> {
    words: &'a Words<'a>,
    cfg: &'a Cfg,
    /// What is accessed as a float.
    floats: HashSet<CellPlace>,
    /// Integers that something else is made of than a number.
    others: EntitySet<ir::Value>,
}

impl<'a> UnionNumbers<'a> {
    fn of(func: &ir::Function, cfg: &'a Cfg, words: &'a Words<'a>) -> Self {
        let (mut floats, mut others) = (HashSet::default(), EntitySet::new());
        for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
            let op = func.dfg.insts[inst].opcode();
            let accessed = match op {
                Opcode::Load => Some(func.dfg.first_result(inst)),
                Opcode::Store => Some(func.dfg.inst_args(inst)[0]),
                _ => None,
            };
            if accessed.is_some_and(|v| func.dfg.value_type(v).is_float())
                && let Some(place) = words.names.of(inst)
            {
                floats.insert(place);
            }
            if !matches!(op, Opcode::FcvtFromSint | Opcode::FcvtFromUint) {
                others.extend(func.dfg.inst_values(inst));
            }
        }
        Self { words, cfg, floats, others }
    }

    /// Whether a load stays, which would be replaced by an integer.
    fn stays(&self, f: &PromotedLoad) -> bool {
        let func = self.words.func;
        let is_int = match f.by {
            LoadReplacement::Number(x) => f.ty == types::I64 && !self.words.has_double(self.cfg, x),
            LoadReplacement::Word(Word::Int(_)) => true,
            _ => false,
        };
        let place = self.words.names.of(f.load);
        is_int
            && place.is_some_and(|p| self.floats.contains(&p))
            && !self.others.contains(func.dfg.first_result(f.load))
    }
}

/// What two words are, beside each other.
fn double(cfg: &Cfg, words: &Words<'_>, [low, high]: [Word; 2]) -> Option<LoadReplacement> {
    match (low, high) {
        (Word::Half(x, false), Word::Half(y, true)) if words.same(cfg, x, y, &mut Vec::new()) => {
            Some(LoadReplacement::Number(x))
        }
        (Word::Half(_, true), _) | (_, Word::Half(_, false)) => None,
        _ => Some(LoadReplacement::Mixture([low, high])),
    }
}

/// Integers that are halves of doubles, or computed from such.
fn halves(func: &ir::Function, found: &[PromotedLoad]) -> EntitySet<ir::Value> {
    let of = |f: &PromotedLoad| match f.by {
        LoadReplacement::Word(w) => Some((func.dfg.first_result(f.load), w)),
        // The bits of a number of 64 bits.
        LoadReplacement::Number(x) if f.ty == types::I64 => Some((func.dfg.first_result(f.load), Word::Half(x, false))),
        _ => None,
    };
    let words: Vec<(ir::Value, Word)> = found.iter().filter_map(of).collect();
    let mut halves: EntitySet<ir::Value> = EntitySet::new();
    let mut grows = true;
    while grows {
        grows = false;
        for &(v, word) in &words {
            let is = match word {
                Word::Half(..) => true,
                Word::Int(WordSource::Value(w)) => halves.contains(w),
                Word::Int(WordSource::Param(..)) => false,
            };
            grows |= is && halves.insert(v);
        }
        for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).filter(|&i| calculates(func, i)) {
            if func.dfg.inst_args(inst).iter().any(|&a| halves.contains(a)) {
                grows |= halves.insert(func.dfg.first_result(inst));
            }
        }
    }
    halves
}

/// Integers with which something is calculated.
fn calculated(func: &ir::Function) -> EntitySet<ir::Value> {
    let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).filter(|&i| calculates(func, i));
    let mut calculated = EntitySet::new();
    calculated.extend(insts.flat_map(|i| func.dfg.inst_args(i).iter().copied()));
    calculated
}

/// Whether integers are more than moved.
fn calculates(func: &ir::Function, inst: ir::Inst) -> bool {
    use Opcode::*;
    let op = func.dfg.insts[inst].opcode();
    matches!(op, Band | Bor | Bxor | Iadd | Isub | Ishl | Ushr | Sshr | Udiv | Sdiv | Urem | Srem | Imul | Icmp)
}

/// A parameter that is asked for: for doubles, or for words.
type Param = (ir::Block, CellPlace, bool);

/// What each parameter gets from where.
#[derive(Default)]
struct Params {
    incoming: HashMap<Param, Vec<(ir::Block, Word)>>,
    /// Those for doubles, by blocks.
    doubles: HashMap<ir::Block, Vec<CellPlace>>,
    /// Parameters that are the same as others.
    same: HashMap<Param, CellPlace>,
}

impl Params {
    /// Those that are asked for, and those that they ask for.
    fn of(cfg: &Cfg, words: &Words<'_>, found: &[PromotedLoad]) -> Self {
        let mut params = Self::default();
        let mut work: Vec<Param> = Vec::new();
        let ask = |word: Word, work: &mut Vec<Param>| match word {
            Word::Int(WordSource::Param(b, place)) => work.push((b, place, false)),
            Word::Half(WordSource::Param(b, place), _) => work.push((b, place, true)),
            _ => {}
        };
        for f in found {
            match f.by {
                LoadReplacement::Number(x) => ask(Word::Half(x, false), &mut work),
                LoadReplacement::Mixture(parts) => parts.into_iter().for_each(|w| ask(w, &mut work)),
                LoadReplacement::Word(w) => ask(w, &mut work),
            }
        }
        while let Some(param @ (b, place, of_double)) = work.pop() {
            if params.incoming.contains_key(&param) || params.same.contains_key(&param) {
                continue;
            }
            // Half of a number, and the number, are asked for by different cells.
            let twin = |other: &&CellPlace| {
                let (x, y) = (WordSource::Param(b, place), WordSource::Param(b, **other));
                words.same(cfg, x, y, &mut Vec::new())
            };
            let doubles = params.doubles.entry(b).or_default();
            if of_double && let Some(&other) = doubles.iter().find(twin) {
                params.same.insert(param, other);
                continue;
            }
            if of_double {
                doubles.push(place);
            }
            let mut preds: Vec<ir::Block> = cfg.preds[b].to_vec();
            preds.dedup();
            let incoming: Vec<_> =
                preds.into_iter().map(|p| (p, words.leaving(p, place).expect("it is known"))).collect();
            incoming.iter().for_each(|&(_, w)| ask(w, &mut work));
            params.incoming.insert(param, incoming);
        }
        params
    }

    /// The type of a parameter of 64 bits: an integer, if nothing that comes in is a double.
    fn ty(&self, func: &ir::Function, param: Param) -> ir::Type {
        let (mut seen, mut work) = (vec![param], vec![param]);
        while let Some(param) = work.pop() {
            let param = self.same.get(&param).map_or(param, |&place| (param.0, place, param.2));
            for (_, word) in self.incoming.get(&param).into_iter().flatten() {
                match *word {
                    Word::Half(WordSource::Value(v), _) if func.dfg.value_type(v) == types::F64 => return types::F64,
                    Word::Half(WordSource::Param(b, place), _) if !seen.contains(&(b, place, true)) => {
                        seen.push((b, place, true));
                        work.push((b, place, true));
                    }
                    _ => {}
                }
            }
        }
        types::I64
    }
}

/// The function that is changed.
struct Rewrite<'a> {
    func: &'a mut ir::Function,
    params: Params,
    made: HashMap<Param, ir::Value>,
    /// The bits of doubles.
    bits: HashMap<ir::Value, ir::Value>,
    args: BlockArgs,
}

impl Rewrite<'_> {
    /// Compute in another way what a load gives.
    fn replace(&mut self, f: &PromotedLoad) {
        let old = self.func.dfg.first_result(f.load);
        let new = match f.by {
            LoadReplacement::Number(x) => self.wide(x, f.load, f.ty),
            LoadReplacement::Mixture(parts) => {
                let bits = self.mixture(f.load, parts);
                self.cast(bits, f.load, f.ty)
            }
            LoadReplacement::Word(w) => self.word(w, f.load),
        };
        self.func.dfg.clear_results(f.load);
        self.func.dfg.change_to_alias(old, new);
        self.func.layout.remove_inst(f.load);
    }

    /// A value that a source stands for.
    fn source(&mut self, source: WordSource, is_wide: bool) -> ir::Value {
        match source {
            WordSource::Value(v) => self.func.dfg.resolve_aliases(v),
            WordSource::Param(b, place) => self.param((b, place, is_wide)),
        }
    }

    /// A number of 64 bits, as a double or as an integer.
    fn wide(&mut self, source: WordSource, at: ir::Inst, ty: ir::Type) -> ir::Value {
        let x = self.source(source, true);
        self.cast(x, at, ty)
    }

    fn cast(&mut self, x: ir::Value, at: ir::Inst, ty: ir::Type) -> ir::Value {
        if self.func.dfg.value_type(x) == ty {
            return x;
        }
        let constant = self.func.dfg.value_def(x).inst().map(|i| self.func.dfg.insts[i]);
        if let Some(InstructionData::UnaryIeee64 { imm, .. }) = constant {
            // The bits of a constant are no float's.
            return before(self.func, at).ins().iconst(types::I64, imm.bits() as i64);
        }
        if ty == types::F64 {
            return before(self.func, at).ins().bitcast(ty, MemFlagsData::new(), x);
        }
        // Once, where the double is defined: pieces of one number are put together again.
        if let Some(&bits) = self.bits.get(&x) {
            return bits;
        }
        let func = &mut *self.func;
        let next = match func.dfg.value_def(x) {
            ValueDef::Result(def, _) => func.layout.next_inst(def),
            ValueDef::Param(b, _) => func.layout.first_inst(b),
            ValueDef::Union(..) => None,
        };
        let bits = before(func, next.unwrap_or(at)).ins().bitcast(ty, MemFlagsData::new(), x);
        self.bits.insert(x, bits);
        bits
    }

    /// A parameter, and what each way into its block hands on for it.
    fn param(&mut self, mut param: Param) -> ir::Value {
        if let Some(&other) = self.params.same.get(&param) {
            param.1 = other;
        }
        if let Some(&v) = self.made.get(&param) {
            return v;
        }
        let (b, _, is_wide) = param;
        let ty = if is_wide { self.params.ty(self.func, param) } else { types::I32 };
        let (v, n) = BlockArgs::param(self.func, b, ty);
        self.made.insert(param, v);
        for (p, word) in self.params.incoming[&param].clone() {
            let last = self.func.layout.last_inst(p).expect("a block ends");
            let arg = match (is_wide, word) {
                (true, Word::Half(x, _)) => self.wide(x, last, ty),
                _ => self.word(word, last),
            };
            self.args.push((p, b), n, arg);
        }
        v
    }

    /// A word as an integer.
    fn word(&mut self, word: Word, at: ir::Inst) -> ir::Value {
        match word {
            Word::Int(x) => self.source(x, false),
            Word::Half(x, upper) => {
                let bits = self.wide(x, at, types::I64);
                let mut pos = before(self.func, at);
                let half = if upper { pos.ins().ushr_imm_u(bits, 32) } else { bits };
                pos.ins().ireduce(types::I32, half)
            }
        }
    }

    /// The bits of two halves.
    fn mixture(&mut self, load: ir::Inst, [low, high]: [Word; 2]) -> ir::Value {
        let masked = |pos: &mut FuncCursor<'_>, x, mask| {
            let mask = pos.ins().iconst(types::I64, mask);
            pos.ins().band(x, mask)
        };
        let word_source = |word: Word| match word {
            Word::Half(x, _) => (x, true),
            Word::Int(x) => (x, false),
        };
        let [lower, upper] = [low, high].map(|w| {
            let (x, is_wide) = word_source(w);
            self.source(x, is_wide)
        });
        let guarded = match (low, high) {
            (Word::Int(_), Word::Half(..)) => guarded(self.func, lower, upper),
            _ => None,
        };
        let has_low = match low {
            Word::Int(_) => constant_int(self.func, lower) != Some(0),
            Word::Half(..) => !ends_in_zeros(self.func, lower),
        };
        let [lower, upper] = [(low, lower), (high, upper)].map(|(w, x)| match w {
            Word::Half(..) => self.cast(x, load, types::I64),
            Word::Int(_) => x,
        });
        let mut pos = before(self.func, load);
        if let Some(guarded) = guarded {
            // The last digits are cut off.
            return masked(&mut pos, upper, !0xffff_ffff | guarded);
        }
        let high = match high {
            Word::Half(..) => masked(&mut pos, upper, !0xffff_ffff),
            Word::Int(_) => {
                let wide = pos.ins().uextend(types::I64, upper);
                pos.ins().ishl_imm_u(wide, 32)
            }
        };
        // What has a lower half of zeros has lost its last digits.
        if !has_low {
            return high;
        }
        let low = match low {
            Word::Half(..) => masked(&mut pos, lower, 0xffff_ffff),
            Word::Int(_) => pos.ins().uextend(types::I64, lower),
        };
        pos.ins().bor(low, high)
    }
}

/// The mask by which a word is part of the lower half of a double.
fn guarded(func: &ir::Function, w: ir::Value, x: ir::Value) -> Option<i64> {
    let w = func.dfg.resolve_aliases(w);
    let args = |v: ir::Value, op: Opcode| {
        let inst = func.dfg.value_def(v).inst().filter(|&i| func.dfg.insts[i].opcode() == op)?;
        Some(func.dfg.inst_args(inst))
    };
    let &[a, b] = args(w, Opcode::Band)? else { return None };
    let (half, mask) = [(a, b), (b, a)].into_iter().find_map(|(v, m)| Some((v, constant_int(func, m)?)))?;
    let bits = args(func.dfg.resolve_aliases(half), Opcode::Ireduce)?[0];
    let of = args(bits, Opcode::Bitcast)?[0];
    (func.dfg.resolve_aliases(of) == func.dfg.resolve_aliases(x)).then_some(mask & 0xffff_ffff)
}
