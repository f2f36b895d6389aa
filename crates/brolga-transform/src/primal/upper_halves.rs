//! Peephole for upper halves: arithmetic on the upper words of doubles is done on all of their
//! bits.
//!
//! **Problem.** A first guess at a root is made of a double's bits by a division: `√x` from half of
//! them, `∛x` from a third ([`brolga_analysis::activity::ulp`]). fdlibm's and musl's `cbrt`, and
//! `sqrt` and `1/√x` as they are written beside them, do so with the upper half, a 32-bit integer,
//! and the lower half becomes zero.
//!
//! **Answer.** The same with 64 bits: what lies below the upper half does not reach it.
//!
//! ```text
//! w = (h / 3) + c          h = bits(x) >> 32          W = bits(x) / 3 + (c << 32)
//! w << 32                                             W & 0xffffffff_00000000
//! ```
//!
//! **Which.** Words that are shifted to the upper half, and come from one by operations of which at
//! least one is a division or a shift to the right. Without one they are what
//! [`crate::primal::exponent_idiom`] looks for, if the lower half is put beside them; if they are a
//! double as they are, they are done on all bits, too.
//!
//! **Invariant.** Every integer is the number that it was.
//!
//! **Cost.** Nothing where no integer is shifted up by a word. Otherwise [`LOOKS`] values for each.

use brolga_analysis::Cfg;
use brolga_analysis::bits::exponent::upper_half_of;
use brolga_analysis::cfg::edge_args;
use brolga_analysis::query::constant_int;
use brolga_ir::map::HashMap;
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, ValueDef, types};

use crate::primal::edit::{BlockArgs, before};
use crate::primal::exponent_idiom::{same_bits, shifted_up};

/// Values that are looked at for one word.
const LOOKS: u32 = 256;
/// The bits of an upper half.
const UPPER: i64 = !0xffff_ffff;

/// Do it on all bits.
pub fn upper_halves(func: &mut ir::Function) {
    let insts = || func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let shifted: Vec<(ir::Inst, ir::Value)> =
        insts().filter_map(|i| Some((i, shifted_up(func, *func.dfg.inst_results(i).first()?)?))).collect();
    if shifted.is_empty() {
        return;
    }
    let cfg = Cfg::compute(func);
    let mut known: HashMap<ir::Value, HalfSource> = HashMap::default();
    let (mut found, mut alone) = (Vec::new(), Vec::new());
    for (inst, w) in shifted {
        let mut traces =
            HalfTraces { func, cfg: &cfg, seen: HashMap::default(), open: Vec::new(), met: Vec::new(), left: LOOKS };
        let divides = traces.divides(w).filter(|_| traces.left > 0);
        if let Some(divides) = divides {
            known.extend(traces.seen.into_iter().filter_map(|(v, found)| Some((v, found?.0))));
            if divides {
                found.push((inst, w));
            } else {
                alone.extend(doubles(func, inst).map(|double| (double, w)));
            }
        }
    }
    let mut widen = Widen { func, cfg: &cfg, known, wide: HashMap::default(), args: BlockArgs::default() };
    for (inst, w) in found {
        let wide = widen.word(w);
        let mut pos = before(widen.func, inst);
        let mask = pos.ins().iconst(types::I64, UPPER);
        pos.func.dfg.insts[inst] = InstructionData::Binary { opcode: Opcode::Band, args: [wide, mask] };
    }
    for (double, w) in alone {
        let wide = widen.word(w);
        let mut pos = before(widen.func, double);
        let mask = pos.ins().iconst(types::I64, UPPER);
        let bits = pos.ins().band(wide, mask);
        pos.func.dfg.inst_args_mut(double)[0] = bits;
    }
    widen.args.write(widen.func);
}

/// The doubles that are made of an integer.
fn doubles(func: &ir::Function, of: ir::Inst) -> impl Iterator<Item = ir::Inst> + '_ {
    let bits = func.dfg.first_result(of);
    let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    insts.filter(move |&i| {
        let is_cast = func.dfg.insts[i].opcode() == Opcode::Bitcast && func.dfg.inst_args(i)[0] == bits;
        is_cast && func.dfg.value_type(func.dfg.first_result(i)) == types::F64
    })
}

/// How a word comes from an upper half.
#[derive(Clone, Copy)]
enum HalfSource {
    /// It is one.
    Half(ir::Value),
    /// By this operand of an operation that can be done on all bits.
    Operand(ir::Inst, usize),
    /// One of two such words is chosen.
    Select(ir::Inst),
    /// A block's parameter: all that comes in are such words.
    Param(ir::Block, usize),
}

/// Ways back from words to upper halves.
struct HalfTraces<'a> {
    func: &'a ir::Function,
    cfg: &'a Cfg,
    /// How each word comes from an upper half, if it does, and whether by a division. A parameter
    /// that is being looked at does so without one: a loop adds nothing by coming round.
    seen: HashMap<ir::Value, Option<(HalfSource, bool)>>,
    /// Parameters that are being looked at, and those of them that were met again.
    open: Vec<ir::Value>,
    met: Vec<ir::Value>,
    /// How many more values may be looked at. If it gets to zero, nothing is sure.
    left: u32,
}

impl HalfTraces<'_> {
    /// Whether a word comes from an upper half, and whether by a division.
    fn divides(&mut self, w: ir::Value) -> Option<bool> {
        if let Some(seen) = self.seen.get(&w) {
            self.met.extend(self.open.contains(&w).then_some(w));
            return seen.map(|s| s.1);
        }
        self.left = self.left.checked_sub(1)?;
        let found = self.look(w);
        // What relied on a parameter that has turned out to be none is not asked again.
        if found.is_none() && self.met.contains(&w) {
            self.left = 0;
        }
        self.seen.insert(w, found);
        found.map(|s| s.1)
    }

    fn look(&mut self, w: ir::Value) -> Option<(HalfSource, bool)> {
        use Opcode::{Band, Bor, Bxor, Iadd, Isub, Sdiv, Select, Sshr, Udiv, Ushr};
        let func = self.func;
        if let Some(x) = upper_half_of(func, w) {
            return Some((HalfSource::Half(x), false));
        }
        if func.dfg.value_type(w) != types::I32 {
            return None;
        }
        let inst = match func.dfg.value_def(w) {
            ValueDef::Result(inst, _) => inst,
            ValueDef::Param(b, i) => return self.comes_in(w, b, i),
            ValueDef::Union(..) => return None,
        };
        // A number with 32 bits may be kept with a sign or without.
        let constant = |v: ir::Value| constant_int(func, v).map(|c| c as i32);
        let op = func.dfg.insts[inst].opcode();
        match (op, func.dfg.inst_args(inst)) {
            (Select, &[_, a, b]) => {
                let divides = [self.divides(a)?, self.divides(b)?];
                Some((HalfSource::Select(inst), divides.contains(&true)))
            }
            (Iadd | Isub | Bor | Bxor | Band, &[a, b]) => {
                let at = match [a, b].map(|v| self.divides(v).is_some()) {
                    [true, false] => 0,
                    [false, true] => 1,
                    // The sign of the same double, say, has been kept beside it.
                    [true, true] if sign_of(func, b).is_some() => 0,
                    [true, true] if sign_of(func, a).is_some() => 1,
                    _ => return None,
                };
                Some((HalfSource::Operand(inst, at), self.divides([a, b][at])?))
            }
            (Udiv, &[a, b]) if constant(b).is_some_and(|c| c != 0) => {
                self.divides(a).map(|_| (HalfSource::Operand(inst, 0), true))
            }
            (Ushr | Sshr, &[a, b]) if constant(b).is_some_and(|c| (1..32).contains(&c)) => {
                self.divides(a).map(|_| (HalfSource::Operand(inst, 0), true))
            }
            (Sdiv, &[a, b]) if constant(b).is_some_and(|c| c > 0) && is_positive(func, a) => {
                self.divides(a).map(|_| (HalfSource::Operand(inst, 0), true))
            }
            _ => None,
        }
    }

    /// The same of a block's parameter: all that comes in has to come from upper halves.
    fn comes_in(&mut self, w: ir::Value, b: ir::Block, i: usize) -> Option<(HalfSource, bool)> {
        let func = self.func;
        let edges = |p: ir::Block| func.block_successors(p).filter(|&s| s == b).count();
        // Of two edges between the same blocks, each would have arguments of its own.
        if b == self.cfg.blocks[0] || self.cfg.preds[b].iter().any(|&p| edges(p) > 1) {
            return None;
        }
        self.seen.insert(w, Some((HalfSource::Param(b, i), false)));
        self.open.push(w);
        let incoming: Vec<ir::Value> = self.cfg.incoming(b, i).collect();
        let each: Option<Vec<bool>> = incoming.into_iter().map(|v| self.divides(v)).collect();
        self.open.pop();
        Some((HalfSource::Param(b, i), each?.contains(&true)))
    }
}

/// The 64-bit integer of which a word is the sign, and nothing else.
fn sign_of(func: &ir::Function, w: ir::Value) -> Option<ir::Value> {
    let inst = func.dfg.value_def(w).inst().filter(|&i| func.dfg.insts[i].opcode() == Opcode::Band)?;
    let &[a, b] = func.dfg.inst_args(inst) else { return None };
    let mask = |v| constant_int(func, v).is_some_and(|c| c as u32 == 1 << 31);
    let word = [(a, b), (b, a)].into_iter().find(|x| mask(x.1))?.0;
    upper_half_of(func, word)
}

/// Whether a word has no sign, so that it is the same number with one and without.
fn is_positive(func: &ir::Function, w: ir::Value) -> bool {
    let constant = |v: &ir::Value| constant_int(func, *v);
    func.dfg.value_def(w).inst().is_some_and(|i| {
        let args = func.dfg.inst_args(i);
        match func.dfg.insts[i].opcode() {
            Opcode::Band => args.iter().filter_map(constant).any(|c| (c as u32) >> 31 == 0),
            // Its own sign is taken off.
            Opcode::Bxor => [(0, 1), (1, 0)].into_iter().any(|(w, sign)| {
                let of = upper_half_of(func, args[w]).zip(sign_of(func, args[sign]));
                of.is_some_and(|(x, y)| same_bits(func, x, y, 0))
            }),
            Opcode::Ushr => constant(&args[1]).is_some_and(|by| (1..32).contains(&by)),
            _ => false,
        }
    })
}

/// The function that is changed.
struct Widen<'a> {
    func: &'a mut ir::Function,
    cfg: &'a Cfg,
    /// How words come from upper halves.
    known: HashMap<ir::Value, HalfSource>,
    /// What has been made of words, where they are defined.
    wide: HashMap<ir::Value, ir::Value>,
    args: BlockArgs,
}

impl Widen<'_> {
    /// 64 bits of which the upper half is a word that comes from an upper half.
    fn word(&mut self, w: ir::Value) -> ir::Value {
        if let Some(&wide) = self.wide.get(&w) {
            return wide;
        }
        let wide = match self.known[&w] {
            HalfSource::Half(x) => x,
            HalfSource::Operand(inst, operand) => self.operation(inst, operand),
            HalfSource::Select(inst) => {
                let [c, a, b] = [0, 1, 2].map(|i| self.func.dfg.inst_args(inst)[i]);
                let (a, b) = (self.word(a), self.word(b));
                before(self.func, inst).ins().select(c, a, b)
            }
            HalfSource::Param(b, i) => return self.param(w, b, i),
        };
        self.wide.insert(w, wide);
        wide
    }

    fn param(&mut self, w: ir::Value, b: ir::Block, i: usize) -> ir::Value {
        let (wide, n) = BlockArgs::param(self.func, b, types::I64);
        // Before its arguments: a loop asks for it again.
        self.wide.insert(w, wide);
        for &p in &self.cfg.preds[b] {
            let narrow = edge_args(self.func, p, b)[i];
            let arg = self.word(narrow);
            self.args.push((p, b), n, arg);
        }
        wide
    }

    fn operation(&mut self, inst: ir::Inst, operand: usize) -> ir::Value {
        let op = self.func.dfg.insts[inst].opcode();
        let mut args = [0, 1].map(|i| self.func.dfg.inst_args(inst)[i]);
        let other = args[1 - operand];
        args[operand] = self.word(args[operand]);
        let constant = constant_int(self.func, other).map(|c| i64::from(c as u32));
        let sign = sign_of(self.func, other);
        let mut pos = before(self.func, inst);
        if matches!(op, Opcode::Udiv | Opcode::Sdiv | Opcode::Ushr | Opcode::Sshr) {
            let by = pos.ins().iconst(types::I64, constant.expect("it is a constant"));
            return match op {
                Opcode::Ushr => pos.ins().ushr(args[0], by),
                Opcode::Sshr => pos.ins().sshr(args[0], by),
                _ => pos.ins().udiv(args[0], by),
            };
        }
        if op == Opcode::Isub && operand == 1 {
            // Nothing is borrowed by what lies below.
            let mask = pos.ins().iconst(types::I64, UPPER);
            args[1] = pos.ins().band(args[1], mask);
        }
        // What lies below is only used for what rounds it off.
        let below = if op == Opcode::Band { !UPPER } else { 0 };
        args[1 - operand] = match (constant, sign) {
            (Some(c), _) => pos.ins().iconst(types::I64, c << 32 | below),
            (None, Some(x)) => {
                let mask = pos.ins().iconst(types::I64, i64::MIN);
                pos.ins().band(x, mask)
            }
            (None, None) => {
                let wide = pos.ins().uextend(types::I64, other);
                let up = pos.ins().ishl_imm_u(wide, 32);
                if below == 0 { up } else { pos.ins().bor_imm_u(up, below) }
            }
        };
        let (inst, dfg) = pos.ins().Binary(op, types::I64, args[0], args[1]);
        dfg.first_result(inst)
    }
}
