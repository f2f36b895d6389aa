//! Inversion: the value that a loop-carried integer had, computed from the next one.
//!
//! **Question.** A loop counter, a pointer that walks, a position that moves now and then: the
//! pullback needs their values in each iteration. Which of them can it have from the value in the
//! iteration after?
//!
//! **Answer.** A block parameter `p` is *carried* if, wherever the pullback is behind its
//! definition, one variable holds its value. Crossing an edge `P → B` backwards, that stays true
//!
//! 1. if `B` is behind the definition as well and is not its block: it is the same `p`;
//! 2. if `B` has a carried parameter `q` whose argument on this edge is `p` itself, or was computed
//!    from `p` by steps that can be undone (`p + 1`, `p - x`, `p ^ x`, …): `q`'s value is the
//!    argument's, and undoing the steps gives `p`;
//! 3. if the edge leaves the loop of `p`, or one around it: its last value is had at `B`, by
//!    recording it if need be, once for the whole loop.
//!
//! These are conditions on all edges at once, so the sets of carried parameters are the greatest
//! that satisfy them: assume all, take away what fails, until nothing does.
//!
//! **Invariant.** Undoing is exact: only wrapping integer operations that lose nothing are undone,
//! and the other operand must be the same behind and before the edge (a constant, or defined
//! outside of the loop).
//!
//! Source: the exact inversion of integer updates in NiLang, and Tapenade's treatment of loop
//! indices; the formulation as a dataflow over block parameters is ours.

use brolga_ir::map::HashMap;

use brolga_analysis::query::constant_int;
use brolga_analysis::{Cfg, LoopId, Loops};
use brolga_ir::inst::Arith;
use cranelift_codegen::ir::{self, InstructionData, Opcode, Type};
use cranelift_entity::{EntitySet, SecondaryMap};
use smallvec::SmallVec;

/// One step back: `x` becomes `op(x, other)`, or `op(other, x)` if swapped; without `other`, `op(k,
/// x)` for a constant `k`.
#[derive(Clone, Debug, PartialEq)]
pub struct Undo {
    /// What to do.
    pub op: Arith,
    /// The other operand.
    pub other: Other,
    /// Whether the other operand comes first.
    pub swapped: bool,
    /// Type of all of it.
    pub ty: Type,
}

/// The operand of a step back that is not the value itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// A value that is the same on both sides of the edge.
    Value(ir::Value),
    /// A constant.
    Const(i64),
}

/// How a carried parameter is had on an edge: from a parameter of the edge's target, step by step.
pub type WayBack = (ir::Value, Vec<Undo>);

/// The carried parameters.
#[derive(Default)]
pub struct Carry {
    /// Those that are known at the end of each block.
    known: SecondaryMap<ir::Block, EntitySet<ir::Value>>,
    /// Ways over edges, for those that need one.
    ways: HashMap<(ir::Value, ir::Block, ir::Block), WayBack>,
}

/// What has to be known about the function.
pub struct CarryInput<'a> {
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
    pub fn compute(cx: &CarryInput<'_>) -> Self {
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

    /// Whether a block is one where a parameter of `d` might be known: behind its definition, in
    /// the outermost loop around it.
    fn concerns(cx: &CarryInput<'_>, d: ir::Block, outermost: LoopId, b: ir::Block) -> bool {
        cx.loops.contains(outermost, b) && cx.loops.dominates(d, b) && cx.returning.contains(b)
    }

    /// Whether `r` is had on every edge out of `p`.
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
            if let Some(way) = way {
                self.ways.insert((r, p, b), way);
            }
            found || cx.cfg.preds[b].len() == 1 && leaves()
        })
    }

    /// A way to have `r` on the edge `p -> b`, from what is assumed now.
    fn way(&self, cx: &CarryInput<'_>, r: ir::Value, p: ir::Block, b: ir::Block) -> Option<WayBack> {
        let args = cx.cfg.args(p, b);
        cx.func.dfg.block_params(b).iter().zip(args).find_map(|(&q, &a)| {
            if !self.known[b].contains(q) {
                return None;
            }
            let mut steps = Vec::new();
            undo(cx, b, a, r, &mut steps, 0).then_some((q, steps))
        })
    }

    /// Whether a parameter is carried, as seen from the end of a block.
    pub fn known(&self, b: ir::Block, v: ir::Value) -> bool {
        self.known[b].contains(v)
    }

    /// The blocks at whose ends a parameter is known.
    pub fn blocks<'a>(&'a self, cfg: &'a Cfg, v: ir::Value) -> impl Iterator<Item = ir::Block> + 'a {
        cfg.blocks.iter().copied().filter(move |&b| self.known[b].contains(v))
    }

    /// How a parameter of block `d` is had on an edge: `Ok(None)` if it is there already, `Err` if
    /// the edge leaves its loop and the target has to provide it.
    pub fn on_edge(&self, r: ir::Value, d: ir::Block, p: ir::Block, b: ir::Block) -> Result<Option<&WayBack>, ()> {
        if b != d && self.known[b].contains(r) {
            return Ok(None);
        }
        match self.ways.get(&(r, p, b)) {
            Some(way) if self.known[b].contains(way.0) => Ok(Some(way)),
            _ => Err(()),
        }
    }
}

/// Steps that lead from `a` back to `r`.
fn undo(cx: &CarryInput<'_>, b: ir::Block, a: ir::Value, r: ir::Value, steps: &mut Vec<Undo>, depth: u32) -> bool {
    if a == r {
        return true;
    }
    let dfg = &cx.func.dfg;
    let Some(inst) = dfg.value_def(a).inst() else { return false };
    let ty = dfg.value_type(a);
    if depth > 6 || !ty.is_int() || ty.bits() > 64 {
        return false;
    }
    let step = |x: ir::Value, op: Arith, other: Other, swapped: bool, steps: &mut Vec<Undo>| {
        if let Other::Value(y) = other
            && !(cx.steady)(b, y)
        {
            return false;
        }
        let n = steps.len();
        steps.push(Undo { op, other, swapped, ty });
        let found = undo(cx, b, x, r, steps, depth + 1);
        if !found {
            steps.truncate(n);
        }
        found
    };
    match dfg.insts[inst] {
        InstructionData::Binary { opcode, args: [x, y] } => match opcode {
            Opcode::Iadd => {
                step(x, Arith::Isub, Other::Value(y), false, steps)
                    || step(y, Arith::Isub, Other::Value(x), false, steps)
            }
            Opcode::Isub => {
                step(x, Arith::Iadd, Other::Value(y), false, steps)
                    || step(y, Arith::Isub, Other::Value(x), true, steps)
            }
            Opcode::Bxor => {
                step(x, Arith::Bxor, Other::Value(y), false, steps)
                    || step(y, Arith::Bxor, Other::Value(x), false, steps)
            }
            Opcode::Imul => {
                let odd = |v| constant_int(cx.func, v).filter(|k| k & 1 == 1).map(inverse_of_odd);
                odd(y).is_some_and(|k| step(x, Arith::Imul, Other::Const(k), false, steps))
                    || odd(x).is_some_and(|k| step(y, Arith::Imul, Other::Const(k), false, steps))
            }
            _ => false,
        },
        InstructionData::Unary { opcode: Opcode::Ineg, arg } => step(arg, Arith::Isub, Other::Const(0), true, steps),
        InstructionData::Unary { opcode: Opcode::Bnot, arg } => step(arg, Arith::Bxor, Other::Const(-1), false, steps),
        _ => false,
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
