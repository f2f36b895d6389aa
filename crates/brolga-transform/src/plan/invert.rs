//! Inversion: the value that a loop-carried integer had, computed from the next one.
//!
//! **Question.** A loop counter, a pointer that walks, a position that moves now and then: the
//! pullback needs their values in each iteration. Which of them can it have from the value in the
//! iteration after?
//!
//! **Answer.** A block parameter `p` is *carried* if, wherever the pullback is after its
//! definition, one variable holds its value. Crossing an edge `P → B` backwards, that stays true
//!
//! 1. if `B` is after the definition as well and is not its block. It is the same `p`;
//! 2. if `B` has a carried parameter `q` whose argument on this edge is `p` itself, or was computed
//!    from `p` by steps that can be undone (`p + 1`, `p - x`, `p ^ (p << k)`, a rotation, …). The
//!    value of `q` is the argument's, and undoing the steps gives `p`;
//! 3. if the edge leaves the loop of `p`, or one around it. The block `B` knows the last value,
//!    which is recorded if need be, once for the loop.
//!
//! These are conditions on all edges at once, so the sets of carried parameters are the greatest
//! that satisfy them: assume all, take away what fails, until nothing does.
//!
//! **Invariant.** Undoing is exact: only wrapping integer operations that lose nothing are undone.
//! Their other operand must be the same after and before the edge (a constant, or defined outside
//! of the loop), or is what another carried parameter of `B` gets on it. Of an integer that is made
//! narrower the low bits are enough where the steps before it need no others.
//!
//! `x ^ (x << k)` is `1 + Sᵏ`, as a polynomial in the shift by one, of numbers modulo two. Of it
//! the power of `2ᵐ` is one as soon as `k 2ᵐ` bits are all that there are, so its inverse is
//! `(1 + Sᵏ) (1 + S²ᵏ) (1 + S⁴ᵏ) …`: a few more of the like.
//!
//! **Cost.** Pairs of a parameter and a block, [`LIMIT`] at most; beyond that nothing is carried.
//!
//! Source: the exact inversion of integer updates in NiLang, and Tapenade's treatment of loop
//! indices; the formulation as a dataflow over block parameters is ours.

use std::cmp::Ordering;

use brolga_ir::map::HashMap;

use brolga_analysis::query::constant_int;
use brolga_analysis::{Cfg, LoopId, Loops};
use brolga_ir::inst::Arith;
use cranelift_codegen::ir::{self, InstructionData, Opcode, Type};
use cranelift_entity::{EntitySet, SecondaryMap};
use smallvec::SmallVec;

/// One step back: `x` becomes `op(x, other)`, or `op(other, x)` if swapped.
#[derive(Clone, Debug, PartialEq)]
pub struct Undo {
    /// What to do.
    pub op: Arith,
    /// The other operand.
    pub other: StepOperand,
    /// Whether the other operand comes first.
    pub swapped: bool,
    /// Type of all of it.
    pub ty: Type,
}

/// The operand of a step back that is not the value itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOperand {
    /// A value that the edge's target has; its low bits, if it is wider.
    Value(ir::Value),
    /// A constant.
    Const(i64),
    /// What goes back itself, shifted by so many bits.
    Shifted(Opcode, u8),
    /// There is none.
    Nothing,
}

/// How a carried parameter is computed on an edge: from a parameter of the edge's target, step by
/// step.
pub(crate) type WayBack = (ir::Value, Vec<Undo>);

/// The carried parameters.
#[derive(Default)]
pub(crate) struct Carry {
    /// Those that are known at the end of each block.
    known: SecondaryMap<ir::Block, EntitySet<ir::Value>>,
    /// Ways over edges, for those that need one.
    ways: HashMap<(ir::Value, ir::Block, ir::Block), WayBack>,
}

/// What has to be known about the function.
pub(crate) struct CarryInput<'a> {
    /// The function.
    pub func: &'a ir::Function,
    /// Its control flow.
    pub cfg: &'a Cfg,
    /// Its loops.
    pub loops: &'a Loops,
    /// Blocks that may return.
    pub returning: &'a EntitySet<ir::Block>,
    /// Whether a value is the same in all iterations of a block's loop, and to be had there.
    pub steady: &'a dyn Fn(ir::Block, ir::Value) -> bool,
}

/// Most pairs of a parameter and a block that are looked at; beyond that nothing is carried.
const LIMIT: usize = 1 << 22;

impl Carry {
    /// Compute them.
    pub(crate) fn compute(cx: &CarryInput<'_>) -> Self {
        let mut c = Carry::default();
        let mut all: Vec<(ir::Value, ir::Block, LoopId)> = Vec::new();
        for &b in &cx.cfg.blocks {
            let Some(l) = cx.loops.innermost[b] else { continue };
            if cx.loops.irreducible.contains(b) || !cx.returning.contains(b) {
                continue;
            }
            let ints = cx.func.dfg.block_params(b).iter().filter(|&&v| {
                let ty = cx.func.dfg.value_type(v);
                ty.is_int() && ty.bits() <= 64
            });
            all.extend(ints.map(|&v| (v, b, l)));
        }
        if all.len().saturating_mul(cx.cfg.blocks.len()) > LIMIT {
            return c;
        }
        // The last blocks first. Parameters of one block concern the same blocks.
        let mut concerned: Vec<SmallVec<[ir::Block; 8]>> = Vec::with_capacity(all.len());
        for (i, &(r, d, l)) in all.iter().enumerate() {
            let blocks = match i.checked_sub(1).filter(|&before| all[before].1 == d) {
                Some(before) => concerned[before].clone(),
                None => {
                    let outermost = std::iter::successors(Some(l), |&l| cx.loops.loops[l].parent).last();
                    let outermost = outermost.expect("there is one");
                    cx.cfg.blocks.iter().rev().copied().filter(|&b| Self::concerns(cx, d, outermost, b)).collect()
                }
            };
            for &b in &blocks {
                c.known[b].insert(r);
            }
            concerned.push(blocks);
        }
        let mut changed = true;
        while changed {
            changed = false;
            for (&(r, d, l), blocks) in all.iter().zip(&mut concerned) {
                blocks.retain(|&mut p| {
                    let stays = c.crosses(cx, r, d, l, p);
                    if !stays {
                        c.known[p].remove(r);
                        changed = true;
                    }
                    stays
                });
            }
        }
        c
    }

    /// Whether a block is one where a parameter of `d` might be known: after its definition, in
    /// the outermost loop around it.
    fn concerns(cx: &CarryInput<'_>, d: ir::Block, outermost: LoopId, b: ir::Block) -> bool {
        cx.loops.contains(outermost, b) && cx.loops.dominates(d, b) && cx.returning.contains(b)
    }

    /// Whether `r` can be computed on every edge out of `p`.
    fn crosses(&mut self, cx: &CarryInput<'_>, r: ir::Value, d: ir::Block, l: LoopId, p: ir::Block) -> bool {
        cx.cfg.succs[p].iter().filter(|&&b| cx.returning.contains(b)).all(|&b| {
            if b != d && self.known[b].contains(r) {
                return true;
            }
            // Nests may be deep, so that is asked last.
            let mut around = std::iter::successors(Some(l), |&l| cx.loops.loops[l].parent);
            let mut leaves = || around.any(|l| cx.loops.contains(l, p) && !cx.loops.contains(l, b));
            let way = self.way(cx, r, p, b);
            let found = way.is_some();
            match way {
                Some(way) => self.ways.insert((r, p, b), way),
                None => self.ways.remove(&(r, p, b)),
            };
            found || cx.cfg.preds[b].len() == 1 && leaves()
        })
    }

    /// A way to have `r` on the edge `p -> b`, from what is assumed now.
    fn way(&self, cx: &CarryInput<'_>, r: ir::Value, p: ir::Block, b: ir::Block) -> Option<WayBack> {
        let args = cx.cfg.args(p, b);
        let params = cx.func.dfg.block_params(b);
        params.iter().zip(args).find_map(|(&q, &a)| {
            if !self.known[b].contains(q) {
                return None;
            }
            let has = |y: ir::Value| {
                let handed = params.iter().zip(args).find(|&(q, &a)| a == y && self.known[b].contains(*q));
                if (cx.steady)(b, y) { Some(y) } else { handed.map(|x| *x.0) }
            };
            let mut path = Path { func: cx.func, to: r, has: &has, steps: Vec::new(), seen: 0 };
            path.lead(a, None, 0).then_some((q, path.steps))
        })
    }

    /// Whether a parameter is carried, as seen from the end of a block.
    pub(crate) fn known(&self, b: ir::Block, v: ir::Value) -> bool {
        self.known[b].contains(v)
    }

    /// The blocks at whose ends a parameter is known.
    pub(crate) fn blocks<'a>(&'a self, cfg: &'a Cfg, v: ir::Value) -> impl Iterator<Item = ir::Block> + 'a {
        cfg.blocks.iter().copied().filter(move |&b| self.known[b].contains(v))
    }

    /// How a parameter of block `d` is computed on an edge: `Ok(None)` if it is there already,
    /// `Err` if the edge leaves its loop and the target has to provide it.
    pub(crate) fn on_edge(
        &self,
        r: ir::Value,
        d: ir::Block,
        p: ir::Block,
        b: ir::Block,
    ) -> Result<Option<&WayBack>, ()> {
        if b != d && self.known[b].contains(r) {
            return Ok(None);
        }
        match self.ways.get(&(r, p, b)) {
            Some(way) if self.known[b].contains(way.0) => Ok(Some(way)),
            _ => Err(()),
        }
    }
}

/// Most operations that are looked at on the way back, and most of them one after another.
const MAX_SEEN: u32 = 64;
const MAX_STEPS: u32 = 16;

/// Steps that lead from a value back to another.
struct Path<'a> {
    func: &'a ir::Function,
    /// Where it leads to.
    to: ir::Value,
    /// By which name the edge's target has a value, if it does.
    has: &'a dyn Fn(ir::Value) -> Option<ir::Value>,
    steps: Vec<Undo>,
    /// How many operations have been looked at.
    seen: u32,
}

/// What there is of the result of an operation on the way.
#[derive(Clone, Copy)]
struct ResultBits {
    /// Its type.
    ty: Type,
    /// If there are only the low bits, the type that has as many.
    low: Option<Type>,
}

impl ResultBits {
    /// The type of what there is.
    fn there(self) -> Type {
        self.low.unwrap_or(self.ty)
    }

    fn undo(self, op: Arith, other: StepOperand, swapped: bool) -> Undo {
        Undo { op, other, swapped, ty: self.there() }
    }
}

impl Path<'_> {
    /// Go on from `a`. With `low`, of `a` there are only the low bits, as many as that type has.
    fn lead(&mut self, a: ir::Value, low: Option<Type>, depth: u32) -> bool {
        if a == self.to {
            return low.is_none();
        }
        let dfg = &self.func.dfg;
        let (Some(inst), ty) = (dfg.value_def(a).inst(), dfg.value_type(a)) else { return false };
        self.seen += 1;
        if depth > MAX_STEPS || self.seen > MAX_SEEN || !ty.is_int() || ty.bits() > 64 {
            return false;
        }
        let there = self.steps.len();
        let (depth, bits) = (depth + 1, ResultBits { ty, low });
        let found = match dfg.insts[inst] {
            InstructionData::Binary { opcode, args } => self.undo_binary(opcode, args, bits, depth),
            InstructionData::Unary { opcode, arg } => self.undo_unary(opcode, arg, bits, depth),
            _ => false,
        };
        if !found {
            self.steps.truncate(there);
        }
        found
    }

    /// Go on from `x` after a step, with what there is of `x`.
    fn after(&mut self, x: ir::Value, mut step: Undo, low: Option<Type>, depth: u32) -> bool {
        if let StepOperand::Value(y) = &mut step.other {
            match (self.has)(*y) {
                Some(name) => *y = name,
                None => return false,
            }
        }
        let there = self.steps.len();
        self.steps.push(step);
        let found = self.lead(x, low, depth);
        if !found {
            self.steps.truncate(there);
        }
        found
    }

    fn undo_unary(&mut self, opcode: Opcode, x: ir::Value, bits: ResultBits, depth: u32) -> bool {
        let ResultBits { low, .. } = bits;
        match opcode {
            Opcode::Ineg => self.after(x, bits.undo(Arith::Isub, StepOperand::Const(0), true), low, depth),
            Opcode::Bnot => self.after(x, bits.undo(Arith::Bxor, StepOperand::Const(-1), false), low, depth),
            Opcode::Bswap | Opcode::Bitrev if low.is_none() => {
                self.after(x, bits.undo(Arith::Int(opcode), StepOperand::Nothing, false), low, depth)
            }
            Opcode::Uextend | Opcode::Sextend => {
                let from = self.func.dfg.value_type(x);
                match from.bits().cmp(&bits.there().bits()) {
                    Ordering::Greater => self.lead(x, low, depth),
                    Ordering::Equal => self.lead(x, None, depth),
                    Ordering::Less => {
                        let all = ResultBits { ty: from, low: None };
                        self.after(x, all.undo(Arith::Ireduce, StepOperand::Nothing, false), None, depth)
                    }
                }
            }
            Opcode::Ireduce => self.lead(x, Some(bits.there()), depth),
            _ => false,
        }
    }

    fn undo_binary(&mut self, opcode: Opcode, [x, y]: [ir::Value; 2], bits: ResultBits, depth: u32) -> bool {
        if let Some(found) = self.undo_shifted(opcode, [x, y], bits, depth) {
            return found;
        }
        let low = bits.low;
        let with = |op: Arith, y: ir::Value, swapped: bool| bits.undo(op, StepOperand::Value(y), swapped);
        match opcode {
            Opcode::Iadd => {
                self.after(x, with(Arith::Isub, y, false), low, depth)
                    || self.after(y, with(Arith::Isub, x, false), low, depth)
            }
            Opcode::Isub => {
                self.after(x, with(Arith::Iadd, y, false), low, depth)
                    || self.after(y, with(Arith::Isub, x, true), low, depth)
            }
            Opcode::Bxor => {
                self.after(x, with(Arith::Bxor, y, false), low, depth)
                    || self.after(y, with(Arith::Bxor, x, false), low, depth)
            }
            Opcode::Imul => {
                let odd = |v| constant_int(self.func, v).filter(|k| k & 1 == 1);
                match (odd(y), odd(x)) {
                    (Some(k), _) => self.undo_times(x, k, bits, depth),
                    (_, Some(k)) => self.undo_times(y, k, bits, depth),
                    _ => false,
                }
            }
            Opcode::Rotl if low.is_none() => self.after(x, with(Arith::Int(Opcode::Rotr), y, false), low, depth),
            Opcode::Rotr if low.is_none() => self.after(x, with(Arith::Int(Opcode::Rotl), y, false), low, depth),
            _ => false,
        }
    }

    fn undo_times(&mut self, x: ir::Value, k: i64, bits: ResultBits, depth: u32) -> bool {
        self.after(x, bits.undo(Arith::Imul, StepOperand::Const(inverse_of_odd(k)), false), bits.low, depth)
    }

    /// The same of a value and itself, shifted by a constant; `None` if it is no such operation.
    fn undo_shifted(&mut self, opcode: Opcode, args: [ir::Value; 2], bits: ResultBits, depth: u32) -> Option<bool> {
        let shift = |x: ir::Value, y: ir::Value| {
            let InstructionData::Binary { opcode, args } = self.func.dfg.insts[self.func.dfg.value_def(y).inst()?]
            else {
                return None;
            };
            let by = constant_int(self.func, args[1])? as u32 & (bits.ty.bits() - 1);
            let shifts = matches!(opcode, Opcode::Ishl | Opcode::Ushr);
            (args[0] == x && shifts && by > 0).then_some((opcode, by))
        };
        let [x, y] = args;
        let (x, (shift, by), first) = match (shift(x, y), shift(y, x)) {
            (Some(s), _) => (x, s, true),
            (_, Some(s)) => (y, s, false),
            _ => return None,
        };
        let power = 1_i64 << by;
        match (opcode, shift) {
            (Opcode::Bxor, Opcode::Ishl | Opcode::Ushr) if shift == Opcode::Ishl || bits.low.is_none() => {
                let all = bits.there().bits();
                let shifts = std::iter::successors(Some(by), |by| Some(2 * by)).take_while(|&by| by < all);
                self.steps
                    .extend(shifts.map(|by| bits.undo(Arith::Bxor, StepOperand::Shifted(shift, by as u8), false)));
                Some(self.lead(x, bits.low, depth))
            }
            // x + 2ᵏ x, x - 2ᵏ x, 2ᵏ x - x.
            (Opcode::Iadd, Opcode::Ishl) => Some(self.undo_times(x, power.wrapping_add(1), bits, depth)),
            (Opcode::Isub, Opcode::Ishl) => {
                let k = if first { 1_i64.wrapping_sub(power) } else { power.wrapping_sub(1) };
                Some(self.undo_times(x, k, bits, depth))
            }
            _ => None,
        }
    }
}

/// The inverse of an odd number modulo 2⁶⁴, by Newton's iteration: each iteration doubles the bits
/// that are right, from three.
fn inverse_of_odd(k: i64) -> i64 {
    let mut x = k;
    for _ in 0..5 {
        x = x.wrapping_mul(2_i64.wrapping_sub(k.wrapping_mul(x)));
    }
    x
}

#[cfg(test)]
mod tests {
    use super::inverse_of_odd;

    #[test]
    fn odd_numbers_have_inverses() {
        for k in [1, -1, 3, 6_364_136_223_846_793_005, i64::MAX, -5] {
            assert_eq!(inverse_of_odd(k).wrapping_mul(k), 1);
        }
    }
}
