//! Bytes that come out as they went in: a value whose bytes are moved about and come to lie as they
//! did is that value.
//!
//! **Problem.** Without instructions for it, the order of a word's bytes is changed by masks and
//! shifts, fourteen for 64 bits, and twice that if it is changed back. Doubles go through integers
//! of 128 bits, or through vectors of singles, which are rotated or shuffled. To analyses such a
//! value is made of many.
//!
//! **Answer.** Of each value it is known which byte is which byte of what it is made of. If they
//! are those of one value, in order, it is that value; if they are a half of a value of 128 bits,
//! it is taken out of that; if they are two words, it is put together of those; if they are in the
//! opposite order, it is `bswap`.
//!
//! ```text
//! v4 = iconcat v0, v1
//! v6 = rotl v4, 64
//! v7, v8 = isplit v6           v7 is v1, v8 is v0
//! v9 = bitcast.f32x4 v2
//! v10 = bitcast.f64x2 v9       v10 is v2
//! ```
//!
//! **Which.** What is put together of few parts in registers stays as it is: other passes and
//! analyses follow it. What is made of nothing else then goes.
//!
//! **Invariant.** Every value is what it was.
//!
//! **Cost.** Nothing where no bytes are put together; else sixteen numbers for each value that is
//! made of others' bytes.

use std::rc::Rc;

use brolga_analysis::bits::bit_idioms::constant_bytes;
use brolga_analysis::query::constant_int;
use brolga_ir::map::HashMap;
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, MemFlagsData, Opcode, Type, ValueDef, types};

use crate::primal::edit::before;
use crate::primal::split_wide_copies::little;

/// Give them their names.
pub(crate) fn moved_bytes(func: &mut ir::Function) {
    let insts: Vec<ir::Inst> = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect();
    if !insts.iter().any(|&inst| is_worth_it(func, inst)) {
        return;
    }
    let mut found = MovedBytes { func: &mut *func, known: HashMap::default() };
    let mut changed = false;
    for inst in insts {
        for v in found.func.dfg.inst_results(inst).to_vec() {
            changed |= found.rename(inst, v);
        }
    }
    if changed {
        func.dfg.resolve_all_aliases();
        without_unused(func);
    }
}

/// Whether an instruction may put bytes together in a way that is looked at.
fn is_worth_it(func: &ir::Function, inst: ir::Inst) -> bool {
    let Some(&v) = func.dfg.inst_results(inst).first() else { return false };
    let ty = func.dfg.value_type(v);
    match func.dfg.insts[inst].opcode() {
        Opcode::Bor | Opcode::Bxor => ty == types::I32 || ty == types::I64,
        Opcode::Rotl | Opcode::Rotr | Opcode::Ishl | Opcode::Ushr | Opcode::Bswap => ty == types::I128,
        Opcode::Bitcast => is_of_other_lanes(func, inst),
        _ => false,
    }
}

/// Whether lanes of floats are seen as lanes of another width.
fn is_of_other_lanes(func: &ir::Function, inst: ir::Inst) -> bool {
    let [from, to] = [func.dfg.inst_args(inst)[0], func.dfg.first_result(inst)].map(|v| func.dfg.value_type(v));
    from.is_vector() && to.is_vector() && to.lane_type().is_float() && from.lane_type().bits() != to.lane_type().bits()
}

/// A byte of a value. `None` stands for a byte that is zero.
type Byte = Option<(ir::Value, u8)>;

/// What a value is made of.
#[derive(Clone)]
struct ByteSources {
    bytes: Rc<[Byte]>,
    /// How many were put together, of those that are looked at.
    parts: u32,
}

/// Parts of which a word is put together that stays as it is.
const FEW: u32 = 2;

struct MovedBytes<'a> {
    func: &'a mut ir::Function,
    known: HashMap<ir::Value, ByteSources>,
}

impl MovedBytes<'_> {
    /// Find out what a value is made of, and let it be what it is. Whether that is something else.
    fn rename(&mut self, inst: ir::Inst, v: ir::Value) -> bool {
        let Some(made) = self.made(inst, v).filter(|made| !made.bytes.is_empty()) else { return false };
        self.known.insert(v, made.clone());
        if made.parts <= FEW || self.func.dfg.inst_results(inst).len() > 1 && !self.all_known(inst) {
            return false;
        }
        let results = self.func.dfg.inst_results(inst).to_vec();
        let new: Option<Vec<ByteIdiom>> =
            results.iter().map(|&r| self.is(inst, r, &self.known.get(&r)?.bytes)).collect();
        let Some(new) = new else { return false };
        let new: Vec<ir::Value> = new.into_iter().map(|is| self.write(inst, is)).collect();
        self.func.dfg.clear_results(inst);
        for (r, new) in results.into_iter().zip(new) {
            self.func.dfg.change_to_alias(r, new);
            let ByteSources { bytes, parts } = self.known[&r].clone();
            // What is taken out of two words again is a word.
            let parts = if self.func.dfg.value_type(new) == types::I128 { parts } else { 0 };
            self.known.entry(new).or_insert(ByteSources { bytes, parts });
        }
        self.func.layout.remove_inst(inst);
        true
    }

    fn all_known(&self, inst: ir::Inst) -> bool {
        self.func.dfg.inst_results(inst).iter().all(|r| self.known.contains_key(r))
    }

    /// What is known of a value: itself, if nothing else.
    fn of(&self, v: ir::Value) -> ByteSources {
        let v = self.func.dfg.resolve_aliases(v);
        if let Some(made) = self.known.get(&v) {
            return made.clone();
        }
        let zeros = constant_bytes(self.func, v);
        let is_zero = |i: u32| zeros.as_ref().is_some_and(|c| c[i as usize] == 0);
        let n = self.func.dfg.value_type(v).bytes();
        ByteSources { bytes: (0..n).map(|i| (!is_zero(i)).then_some((v, i as u8))).collect(), parts: 0 }
    }
}

/// What a value is.
enum ByteIdiom {
    /// This one, seen as another type if need be.
    Same(ir::Value, Type),
    /// A half of this integer of 128 bits: the upper one?
    Half(ir::Value, bool),
    /// This one with its bytes in the opposite order.
    Swapped(ir::Value, Type),
    /// An integer of 128 bits of two words, the lower first; none is zero.
    Two([Option<(ir::Value, u8)>; 2]),
}

impl MovedBytes<'_> {
    /// What a value is, by its bytes, if that is another one.
    fn is(&self, inst: ir::Inst, v: ir::Value, bytes: &[Byte]) -> Option<ByteIdiom> {
        let (of, first) = (*bytes.first()?)?;
        let dfg = &self.func.dfg;
        let (ty, from) = (dfg.value_type(v), dfg.value_type(of));
        let is = |at: &dyn Fn(u8) -> i32| {
            bytes.iter().zip(0..).all(|(b, i)| b.is_some_and(|b| b.0 == of && i32::from(b.1) == at(i)))
        };
        let (n, whole) = (ty.bytes() as i32, from.bytes() == ty.bytes());
        let op = dfg.insts[inst].opcode();
        if of == v {
            return None;
        }
        if whole && is(&|i| i32::from(i)) {
            return (ty == from || op != Opcode::Bitcast).then_some(ByteIdiom::Same(of, ty));
        }
        if from == types::I128 && ty == types::I64 && first % 8 == 0 && is(&|i| i32::from(first + i)) {
            return (op != Opcode::Isplit && op != Opcode::Ireduce).then_some(ByteIdiom::Half(of, first == 8));
        }
        if ty == types::I128 && op != Opcode::Iconcat {
            return Some(ByteIdiom::Two([self.word(&bytes[..8])?, self.word(&bytes[8..])?]));
        }
        let swapped = whole && ty.is_int() && ty.bytes() <= 8 && op != Opcode::Bswap;
        (swapped && is(&|i| n - 1 - i32::from(i))).then_some(ByteIdiom::Swapped(of, ty))
    }

    /// The word that eight bytes are, as a value and the byte with which it begins there: one of 64
    /// bits, or half of one of 128. Inside, none is zero.
    fn word(&self, bytes: &[Byte]) -> Option<Byte> {
        if bytes.iter().all(Option::is_none) {
            return Some(None);
        }
        let (of, first) = bytes[0]?;
        let ty = self.func.dfg.value_type(of);
        let fits = ty.bits() == 64 || ty == types::I128;
        let is = fits && first % 8 == 0 && bytes.iter().zip(first..).all(|(&b, at)| b == Some((of, at)));
        is.then_some(Some((of, first)))
    }

    /// Write it before an instruction.
    fn write(&mut self, inst: ir::Inst, is: ByteIdiom) -> ir::Value {
        match is {
            ByteIdiom::Same(v, ty) => self.cast(inst, v, ty),
            ByteIdiom::Half(v, upper) => {
                let (low, high) = before(self.func, inst).ins().isplit(v);
                if upper { high } else { low }
            }
            ByteIdiom::Two(words) => {
                let [low, high] = words.map(|word| match word {
                    None => before(self.func, inst).ins().iconst(types::I64, 0),
                    Some((v, first)) if self.func.dfg.value_type(v) == types::I128 => {
                        self.write(inst, ByteIdiom::Half(v, first == 8))
                    }
                    Some((v, _)) => self.cast(inst, v, types::I64),
                });
                before(self.func, inst).ins().iconcat(low, high)
            }
            ByteIdiom::Swapped(v, ty) => {
                let x = self.cast(inst, v, ty);
                before(self.func, inst).ins().bswap(x)
            }
        }
    }

    fn cast(&mut self, inst: ir::Inst, v: ir::Value, ty: Type) -> ir::Value {
        let from = self.func.dfg.value_type(v);
        if from == ty {
            return v;
        }
        let flags = MemFlagsData::new();
        let lanes = from.is_vector() || ty.is_vector();
        let flags = if lanes { flags.with_endianness(ir::Endianness::Little) } else { flags };
        before(self.func, inst).ins().bitcast(ty, flags, v)
    }

    /// Which bytes a result is made of. None of it stands for anything if that is not known.
    fn made(&self, inst: ir::Inst, v: ir::Value) -> Option<ByteSources> {
        let func = &*self.func;
        let args = func.dfg.inst_args(inst);
        let data = func.dfg.insts[inst];
        let (ty, n) = (func.dfg.value_type(v), func.dfg.value_type(v).bytes() as usize);
        if ty.bits() % 8 != 0 || n > 16 {
            return None;
        }
        let here = |i: usize| Some((v, i as u8));
        let wide = u32::from(ty == types::I128 && data.opcode() != Opcode::Iconcat) * (FEW + 1);
        let one = |at: &dyn Fn(usize) -> Option<usize>| {
            let from = self.of(args[0]);
            let bytes = (0..n).map(|i| at(i).and_then(|at| from.bytes[at])).collect();
            Some(ByteSources { bytes, parts: from.parts.max(wide) })
        };
        let shift = || {
            let k = constant_int(func, args[1]).filter(|k| k % 8 == 0 && !ty.is_vector())?;
            Some(k.rem_euclid(8 * n as i64) as usize / 8)
        };
        match data.opcode() {
            Opcode::Uextend => {
                let m = func.dfg.value_type(args[0]).bytes() as usize;
                one(&|i| (i < m).then_some(i))
            }
            Opcode::Ireduce => one(&Some),
            Opcode::Bswap => one(&|i| Some(n - 1 - i)),
            Opcode::Ushr => shift().and_then(|k| one(&|i| (i + k < n).then_some(i + k))),
            Opcode::Ishl => shift().and_then(|k| one(&|i| i.checked_sub(k))),
            Opcode::Rotl => shift().and_then(|k| one(&|i| Some((i + n - k) % n))),
            Opcode::Rotr => shift().and_then(|k| one(&|i| Some((i + k) % n))),
            Opcode::Isplit => {
                let up = if func.dfg.first_result(inst) == v { 0 } else { n };
                one(&|i| Some(i + up))
            }
            Opcode::Iconcat => {
                let (low, high) = (self.of(args[0]), self.of(args[1]));
                let bytes = low.bytes.iter().chain(high.bytes.iter()).copied().collect();
                Some(ByteSources { bytes, parts: low.parts.max(high.parts) })
            }
            Opcode::Bitcast => {
                let from = func.dfg.value_type(args[0]);
                let lanes = from.is_vector() || ty.is_vector() || from.bits() == 128;
                let moved = (!lanes || little(func, inst)).then(|| one(&Some))??;
                let seen = if is_of_other_lanes(func, inst) { FEW + 1 } else { 0 };
                Some(ByteSources { parts: moved.parts.max(seen), ..moved })
            }
            Opcode::Extractlane => {
                let InstructionData::BinaryImm8 { imm, .. } = data else { return None };
                one(&|i| Some(i + usize::from(imm) * n))
            }
            Opcode::Band => {
                let (x, mask) = match args.iter().map(|&a| constant_bytes(func, a)).collect::<Vec<_>>()[..] {
                    [None, Some(ref mask)] => (args[0], mask.clone()),
                    [Some(ref mask), None] => (args[1], mask.clone()),
                    _ => return None,
                };
                let from = self.of(x);
                let byte = |(i, &m): (usize, &u8)| match (m, from.bytes[i]) {
                    (0, _) | (_, None) => None,
                    (0xff, b) => b,
                    _ => here(i),
                };
                Some(ByteSources { bytes: mask.iter().enumerate().map(byte).collect(), parts: from.parts.max(wide) })
            }
            Opcode::Bor | Opcode::Bxor => {
                let (x, y) = (self.of(args[0]), self.of(args[1]));
                let byte = |i: usize| match (x.bytes[i], y.bytes[i]) {
                    (None, b) | (b, None) => b,
                    _ => here(i),
                };
                let parts = x.parts.max(1) + y.parts.max(1);
                Some(ByteSources { bytes: (0..n).map(byte).collect(), parts: parts.max(wide) })
            }
            _ => None,
        }
    }
}

/// Take out what is made of bytes and not used any more.
fn without_unused(func: &mut ir::Function) {
    let mut uses: HashMap<ir::Value, u32> = HashMap::default();
    let insts: Vec<ir::Inst> = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect();
    for &inst in &insts {
        func.dfg.inst_values(inst).for_each(|v| *uses.entry(v).or_default() += 1);
    }
    for &inst in insts.iter().rev() {
        use Opcode::*;
        let op = func.dfg.insts[inst].opcode();
        let moves = matches!(op, Bor | Bxor | Band | Ishl | Ushr | Uextend | Ireduce | Bswap | Rotl | Rotr)
            || matches!(op, Isplit | Iconcat | Bitcast | Extractlane);
        let is_used = func.dfg.inst_results(inst).iter().any(|r| uses.get(r).is_some_and(|&n| n > 0));
        if moves && !is_used && matches!(func.dfg.value_def(func.dfg.first_result(inst)), ValueDef::Result(..)) {
            for v in func.dfg.inst_values(inst).collect::<Vec<_>>() {
                *uses.entry(v).or_default() -= 1;
            }
            func.layout.remove_inst(inst);
        }
    }
}
