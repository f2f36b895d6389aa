//! Arithmetic on the upper halves of doubles, done on all of their bits (a peephole).
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
//! least one is a division or a shift to the right; without one they are what
//! [`crate::primal::exponent_idiom`] looks for.
//!
//! **Invariant.** Every integer is the number that it was.

use brolga_analysis::Cfg;
use brolga_analysis::activity::exponent::upper_half_of;
use brolga_analysis::cfg::edge_args;
use brolga_analysis::query::constant_int;
use brolga_ir::map::HashMap;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, ValueDef, types};

use crate::primal::block_args::BlockArgs;
use crate::primal::exponent_idiom::shifted_up;

/// Operations between an upper half and what is made of it.
const DEPTH: u32 = 8;
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
    let divided = |w| Chains { func, cfg: &cfg, open: Vec::new() }.divides(w, DEPTH) == Some(true);
    let found: Vec<_> = shifted.into_iter().filter(|&(_, w)| divided(w)).collect();
    let mut widen = Widen { func, cfg: &cfg, params: HashMap::default(), args: BlockArgs::default() };
    for (inst, w) in found {
        let wide = widen.word(w, inst);
        let mut pos = before(widen.func, inst);
        let mask = pos.ins().iconst(types::I64, UPPER);
        pos.func.dfg.insts[inst] = InstructionData::Binary { opcode: Opcode::Band, args: [wide, mask] };
    }
    widen.args.write(widen.func);
}

fn before(func: &mut ir::Function, inst: ir::Inst) -> FuncCursor<'_> {
    let srcloc = func.srcloc(inst);
    let mut pos = FuncCursor::new(func).at_inst(inst);
    pos.set_srcloc(srcloc);
    pos
}

/// How a word comes from an upper half.
#[derive(Clone, Copy)]
enum By {
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
struct Chains<'a> {
    func: &'a ir::Function,
    cfg: &'a Cfg,
    /// Parameters that are being looked at: a loop adds nothing by coming round.
    open: Vec<ir::Value>,
}

impl Chains<'_> {
    /// Whether a word comes from an upper half, and whether by a division. At most so many
    /// operations are looked at, one after the other.
    fn divides(&mut self, w: ir::Value, depth: u32) -> Option<bool> {
        let func = self.func;
        match self.by(w, depth)? {
            By::Half(_) => Some(false),
            By::Operand(inst, at) => {
                use Opcode::{Sdiv, Sshr, Udiv, Ushr};
                let divides = matches!(func.dfg.insts[inst].opcode(), Ushr | Sshr | Udiv | Sdiv);
                self.divides(func.dfg.inst_args(inst)[at], depth - 1).map(|before| before || divides)
            }
            By::Select(inst) => {
                let args = func.dfg.inst_args(inst);
                Some(self.divides(args[1], depth - 1)? | self.divides(args[2], depth - 1)?)
            }
            By::Param(b, i) => {
                self.open.push(w);
                let incoming: Vec<_> = self.cfg.incoming(b, i).filter(|v| !self.open.contains(v)).collect();
                let each = incoming.into_iter().map(|v| self.divides(v, depth - 1));
                let divides = each.collect::<Option<Vec<bool>>>().map(|all| all.contains(&true));
                self.open.pop();
                divides
            }
        }
    }

    /// How a word comes from an upper half, as far as one operation tells, and the next ones have
    /// found theirs.
    fn by(&mut self, w: ir::Value, depth: u32) -> Option<By> {
        let func = self.func;
        if let Some(x) = upper_half_of(func, w) {
            return Some(By::Half(x));
        }
        if depth == 0 || func.dfg.value_type(w) != types::I32 {
            return None;
        }
        let inst = match func.dfg.value_def(w) {
            ValueDef::Result(inst, _) => inst,
            ValueDef::Param(b, i) => {
                let succs = |p: ir::Block| func.block_successors(p).filter(|&s| s == b).count();
                // Of two edges between the same blocks, each would have arguments of its own.
                let fits = b != self.cfg.blocks[0] && self.cfg.preds[b].iter().all(|&p| succs(p) == 1);
                return fits.then_some(By::Param(b, i));
            }
            ValueDef::Union(..) => return None,
        };
        let args = func.dfg.inst_args(inst);
        let constant = |v: ir::Value| constant_int(func, v);
        let at = match (func.dfg.insts[inst].opcode(), args) {
            (Opcode::Select, _) => return Some(By::Select(inst)),
            (Opcode::Iadd | Opcode::Isub | Opcode::Bor | Opcode::Bxor | Opcode::Band, &[a, b]) => {
                match [a, b].map(|v| self.divides(v, depth - 1).is_some()) {
                    [true, false] => 0,
                    [false, true] => 1,
                    // The sign of the same double, say, has been kept beside it.
                    [true, true] if sign_of(func, b).is_some() => 0,
                    [true, true] if sign_of(func, a).is_some() => 1,
                    _ => return None,
                }
            }
            (Opcode::Udiv | Opcode::Ushr | Opcode::Sshr, &[_, b]) if constant(b).is_some_and(|c| c > 0) => 0,
            (Opcode::Sdiv, &[a, b]) if constant(b).is_some_and(|c| c > 0) && is_positive(func, a) => 0,
            _ => return None,
        };
        Some(By::Operand(inst, at))
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
            Opcode::Ushr => constant(&args[1]).is_some_and(|by| (1..32).contains(&by)),
            _ => false,
        }
    })
}

/// The function that is changed.
struct Widen<'a> {
    func: &'a mut ir::Function,
    cfg: &'a Cfg,
    /// Parameters of 32 bits, and what stands for them with 64.
    params: HashMap<ir::Value, ir::Value>,
    args: BlockArgs,
}

impl Widen<'_> {
    /// 64 bits of which the upper half is a word that comes from an upper half.
    fn word(&mut self, w: ir::Value, at: ir::Inst) -> ir::Value {
        let by = Chains { func: self.func, cfg: self.cfg, open: Vec::new() }.by(w, DEPTH);
        match by.expect("it comes from one") {
            By::Half(x) => x,
            By::Operand(inst, operand) => self.operation(inst, operand, at),
            By::Select(inst) => {
                let [c, a, b] = [0, 1, 2].map(|i| self.func.dfg.inst_args(inst)[i]);
                let (a, b) = (self.word(a, at), self.word(b, at));
                before(self.func, at).ins().select(c, a, b)
            }
            By::Param(b, i) => self.param(w, b, i),
        }
    }

    fn param(&mut self, w: ir::Value, b: ir::Block, i: usize) -> ir::Value {
        if let Some(&wide) = self.params.get(&w) {
            return wide;
        }
        let (wide, n) = BlockArgs::param(self.func, b, types::I64);
        self.params.insert(w, wide);
        for &p in &self.cfg.preds[b] {
            let last = self.func.layout.last_inst(p).expect("a block ends");
            let narrow = edge_args(self.func, p, b)[i];
            let arg = self.word(narrow, last);
            self.args.push((p, b), n, arg);
        }
        wide
    }

    fn operation(&mut self, inst: ir::Inst, operand: usize, at: ir::Inst) -> ir::Value {
        let op = self.func.dfg.insts[inst].opcode();
        let mut args = [0, 1].map(|i| self.func.dfg.inst_args(inst)[i]);
        let other = args[1 - operand];
        args[operand] = self.word(args[operand], at);
        let constant = constant_int(self.func, other);
        let sign = sign_of(self.func, other);
        let mut pos = before(self.func, at);
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
