//! Guarded products: which masked values of a program are products that count as zero where a
//! factor is zero.
//!
//! **Question.** Derived code guards a product of a cotangent `g`: `g ≠ 0 ? g·t/e : 0`. If that
//! code is derived again, what is the derivative of the guarded value? As a branch it would have
//! the slope 0 in `g` at `g = 0`, where the slope is `t/e`.
//!
//! **Answer.** It is the bilinear map `(g, t/e) ↦ g·t/e`, in which a factor of zero is stronger
//! than an infinity. [`product`] says which instruction ends such a map, and its factors; the rule
//! for it ([`Product`]) gives each factor the product of the others. A guarded product as a factor
//! of another one is taken apart: all its factors are factors of both. A mask on the way that asks
//! about no factor, and about no product of factors, is a gate.
//!
//! ```text
//! v4 = fcmp ne v1, 0          z = v1·v2/v3, zero where v1 is zero
//! v5 = fdiv v1, v3            times  v1, v2
//! v6 = fmul v5, v2            over   v3
//! v7 = select v4, v6, 0       strong v1
//! ```
//!
//! A product whose other factors are computed from `g` stays the branch that it is: `x ≠ 0 ? x·log
//! x : 0` is a function of a user's. What is computed from an earlier `g`, in another iteration of
//! a loop, is not, and a function's result is computed from the arguments that lead to it: the
//! value that a tangent returns beside it is not from tangents. Memory is not followed: a factor
//! that is loaded counts as another number.
//!
//! **Before.** Scalars are chosen by `select` (the normal form writes masks of scalars so), vectors
//! by `band` or `bitselect`. **Cost.** A few steps for each masked float, and for its factors a
//! bounded walk to what they are computed from.

use std::cmp::Ordering;

use brolga_ir::Program;
use brolga_ir::map::HashMap;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self, InstructionData, Opcode, ValueDef};
use cranelift_entity::EntitySet;
use smallvec::SmallVec;

use crate::bits::bit_idioms::constant_bytes;
use crate::cfg::Cfg;
use crate::cfg::loops::Loops;
use crate::query::callee::CalleeKind;
use crate::query::signature_id;
use crate::summary::Summaries;

/// Steps from a masked value to its factors.
pub const MOST_STEPS: u32 = 16;
/// Values that are looked at to find out what a factor is computed from.
const MOST_VALUES: u32 = 512;

/// `z = ± Π times / Π over` where no value of `strong` is zero and all gates are open; else zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Product {
    /// Numerators.
    pub times: SmallVec<[ir::Value; 3]>,
    /// Denominators.
    pub over: SmallVec<[ir::Value; 2]>,
    /// Whether it is negated.
    pub neg: bool,
    /// Those numerators whose zero makes the product zero, whatever the others are.
    pub strong: SmallVec<[ir::Value; 2]>,
    /// Conditions (of vectors: masks), and what they must be.
    pub gates: SmallVec<[(ir::Value, bool); 1]>,
    /// The instructions between the factors and the result.
    pub steps: SmallVec<[ir::Inst; 4]>,
}

/// Where products are looked for.
#[derive(Clone, Copy)]
pub struct ProductCx<'a> {
    /// The program.
    pub program: &'a Program,
    /// The normalised function.
    pub func: &'a ir::Function,
    /// Its control flow.
    pub cfg: &'a Cfg,
    /// Its loops.
    pub loops: &'a Loops,
    /// What is known of callees.
    pub summaries: &'a Summaries,
}

/// A masked float: what must not be zero, and what is kept where it is not.
pub fn masked(func: &ir::Function, inst: ir::Inst) -> Option<(ir::Value, ir::Value)> {
    let (_, strong, kept) = mask(func, inst)?;
    Some((strong, kept))
}

/// The condition or mask of a masked float, what must not be zero, and what is kept.
fn mask(func: &ir::Function, inst: ir::Inst) -> Option<(ir::Value, ir::Value, ir::Value)> {
    let args = func.dfg.inst_args(inst);
    let ty = func.dfg.value_type(*func.dfg.inst_results(inst).first()?);
    if !ty.lane_type().is_float() {
        return None;
    }
    match func.dfg.insts[inst].opcode() {
        Opcode::Select | Opcode::Bitselect if is_either_zero(func, args[2]) => {
            Some((args[0], not_zero(func, args[0])?, args[1]))
        }
        Opcode::Band => {
            let by = |k: usize| Some((args[k], not_zero(func, args[k])?, args[1 - k]));
            by(1).or_else(|| by(0))
        }
        _ => None,
    }
}

/// Whether all bits are zero.
fn is_zero(func: &ir::Function, v: ir::Value) -> bool {
    constant_bytes(func, v).is_some_and(|bytes| bytes.iter().all(|&b| b == 0))
}

/// Whether all lanes of a float are zeros, of either sign.
fn is_either_zero(func: &ir::Function, v: ir::Value) -> bool {
    let lane = func.dfg.value_type(v).lane_type().bytes() as usize;
    constant_bytes(func, v).is_some_and(|bytes| {
        bytes.chunks(lane).all(|lane| match lane.split_last() {
            Some((last, rest)) => last & 0x7f == 0 && rest.iter().all(|&b| b == 0),
            None => false,
        })
    })
}

/// The float of which a condition or a mask says that it is not zero.
fn not_zero(func: &ir::Function, mask: ir::Value) -> Option<ir::Value> {
    let inst = func.dfg.value_def(mask).inst()?;
    match func.dfg.insts[inst] {
        InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } if func.dfg.value_type(arg).is_vector() => {
            not_zero(func, arg)
        }
        InstructionData::FloatCompare { cond: FloatCC::NotEqual, args: [x, y], .. } => {
            let same = func.dfg.value_type(x).is_vector() == func.dfg.value_type(mask).is_vector();
            match [x, y].map(|v| is_either_zero(func, v)) {
                [false, true] if same => Some(x),
                [true, false] if same => Some(y),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The product that an instruction ends, by its form alone: no factor is asked what it is computed
/// from.
pub fn form(func: &ir::Function, inst: ir::Inst) -> Option<Product> {
    let (g, masked_value) = masked(func, inst)?;
    let mut p = from(func, masked_value, g, &mut { MOST_STEPS })?;
    p.strong.push(g);
    let mut left = MOST_STEPS;
    while let Some(&lacking) = p.strong.iter().find(|s| !p.times.contains(s)) {
        left = left.checked_sub(1)?;
        // What a mask is about may be within a factor.
        let within = |(k, &t): (usize, &ir::Value)| Some((k, from(func, t, lacking, &mut { MOST_STEPS })?));
        let Some((k, inner)) = p.times.iter().enumerate().find_map(within) else {
            p.strong.retain(|s| *s != lacking);
            // A product of factors is zero where one of them is. Any other number is no factor: to
            // ask about it, the length that a coordinate is divided by, say, is a choice.
            match p.times.iter().find_map(|&t| from(func, lacking, t, &mut { MOST_STEPS })) {
                Some(product) => {
                    p.strong.extend(product.times.into_iter().chain(product.strong));
                    p.gates.extend(product.gates);
                }
                None => p.gates.push((condition_on(func, &p.steps, lacking)?, true)),
            }
            continue;
        };
        p.times.remove(k);
        p.times.extend(inner.times);
        p.over.extend(inner.over);
        p.strong.extend(inner.strong);
        p.gates.extend(inner.gates);
        p.neg ^= inner.neg;
        // Steps of a factor come before those that take it.
        p.steps = inner.steps.into_iter().chain(p.steps).collect();
    }
    // A factor may be guarded more than once.
    p.strong.sort_unstable();
    p.strong.dedup();
    Some(p)
}

/// The condition or mask by which one of these instructions asks whether a number is zero.
fn condition_on(func: &ir::Function, steps: &[ir::Inst], asked: ir::Value) -> Option<ir::Value> {
    steps.iter().filter_map(|&inst| mask(func, inst)).find(|m| m.1 == asked).map(|m| m.0)
}

/// The guarded product that an instruction ends, if it does.
pub fn product(cx: ProductCx<'_>, inst: ir::Inst) -> Option<Product> {
    let func = cx.func;
    let p = form(func, inst)?;
    let (g, _) = masked(func, inst)?;
    // One of the numerators is what the mask is about.
    let guard_index = p.times.iter().position(|&t| t == g)?;
    let others =
        p.times.iter().enumerate().filter(|&(k, _)| k != guard_index).map(|(_, &t)| t).chain(p.over.iter().copied());
    let mut walk = Walk { cx, g, seen: EntitySet::new(), left: MOST_VALUES };
    others.collect::<Vec<_>>().into_iter().all(|f| !walk.is_computed(f)).then_some(p)
}

/// `v` as a product of which `g` is a factor.
fn from(func: &ir::Function, v: ir::Value, g: ir::Value, left: &mut u32) -> Option<Product> {
    if v == g {
        return Some(Product { times: SmallVec::from_slice(&[g]), ..Product::default() });
    }
    *left = left.checked_sub(1)?;
    let inst = func.dfg.value_def(v).inst()?;
    let args = func.dfg.inst_args(inst);
    let mut p = match func.dfg.insts[inst].opcode() {
        Opcode::Fneg => {
            let p = from(func, args[0], g, left)?;
            Product { neg: !p.neg, ..p }
        }
        Opcode::Fmul => {
            let by = |k: usize, left: &mut u32| {
                let mut p = from(func, args[k], g, left)?;
                p.times.push(args[1 - k]);
                Some(p)
            };
            // A factor is found in what multiplies it before it is looked for in that.
            let first = usize::from(args[1] == g);
            by(first, left).or_else(|| by(1 - first, left))?
        }
        Opcode::Fdiv => {
            let mut p = from(func, args[0], g, left)?;
            p.over.push(args[1]);
            p
        }
        Opcode::Select | Opcode::Bitselect | Opcode::Band => {
            if let Some((strong, masked_value)) = masked(func, inst) {
                let mut p = from(func, masked_value, g, left)?;
                p.strong.push(strong);
                p
            } else if matches!(func.dfg.insts[inst].opcode(), Opcode::Band) {
                return None;
            } else {
                let open = match [args[1], args[2]].map(|v| is_zero(func, v)) {
                    [false, true] => true,
                    [true, false] => false,
                    _ => return None,
                };
                let mut p = from(func, args[if open { 1 } else { 2 }], g, left)?;
                p.gates.push((args[0], open));
                p
            }
        }
        _ => return None,
    };
    p.steps.push(inst);
    Some(p)
}

/// Whether an instruction may end a guarded product that has no such form: where lanes were moved
/// between the factor and the mask, say. Then it is not known whether it is a branch.
pub fn is_unclear(func: &ir::Function, inst: ir::Inst) -> bool {
    let Some((g, masked_value)) = masked(func, inst).filter(|_| form(func, inst).is_none()) else { return false };
    let moves = |op: Opcode| {
        matches!(
            op,
            Opcode::Splat | Opcode::Insertlane | Opcode::Extractlane | Opcode::ScalarToVector | Opcode::Shuffle
        )
    };
    let multiplies = |op: Opcode| moves(op) || matches!(op, Opcode::Fmul | Opcode::Fdiv | Opcode::Fneg);
    // What a value is made of by some operations.
    let made_of = |v: ir::Value, by: &dyn Fn(Opcode) -> bool| {
        let (mut seen, mut work) = (EntitySet::new(), vec![v]);
        let mut left = MOST_VALUES;
        while let Some(v) = work.pop().filter(|_| left > 0) {
            left -= 1;
            let inst = func.dfg.value_def(v).inst().filter(|&i| by(func.dfg.insts[i].opcode()));
            if seen.insert(v)
                && let Some(inst) = inst
            {
                // What a product is divided by is no factor that a guard is about.
                let factors = if func.dfg.insts[inst].opcode() == Opcode::Fdiv { 1 } else { usize::MAX };
                work.extend(func.dfg.inst_args(inst).iter().take(factors));
            }
        }
        seen
    };
    let (g, masked_value) = (made_of(g, &moves), made_of(masked_value, &multiplies));
    masked_value.iter().any(|v| g.contains(v) && !is_zero(func, v))
}

/// The walk to what factors are computed from.
struct Walk<'a> {
    cx: ProductCx<'a>,
    g: ir::Value,
    seen: EntitySet<ir::Value>,
    left: u32,
}

impl Walk<'_> {
    /// Whether a value is computed from this very `g`. Where the walk is too long it is taken for
    /// independent: then a zero that hides an infinity shows it.
    fn is_computed(&mut self, v: ir::Value) -> bool {
        let mut work = vec![v];
        while let Some(v) = work.pop() {
            if v == self.g {
                return true;
            }
            if self.left == 0 || !self.follows(v) || !self.seen.insert(v) {
                continue;
            }
            self.left -= 1;
            match self.cx.func.dfg.value_def(v) {
                ValueDef::Result(inst, k) => self.operands(inst, k, &mut work),
                ValueDef::Param(block, k) => work.extend(self.cx.cfg.incoming(block, k)),
                ValueDef::Union(..) => {}
            }
        }
        false
    }

    /// What a result of an instruction is computed from: of a function's, the arguments that lead
    /// there. A tangent's callee returns values that do not depend on its tangents.
    fn operands(&self, inst: ir::Inst, k: usize, work: &mut Vec<ir::Value>) {
        let ProductCx { program, func, summaries, .. } = self.cx;
        let args = func.dfg.inst_args(inst);
        match CalleeKind::of(program, func, inst) {
            Some(CalleeKind::Derived(f)) => {
                work.extend(summaries.through(f, k).iter().filter_map(|&i| args.get(i)));
            }
            Some(CalleeKind::Indirect(sig)) => {
                let ways = |f| summaries.through(f, k).iter().filter_map(|&i| args.get(i + 1));
                let signature = signature_id(&func.dfg.signatures[sig]);
                work.extend(summaries.addressed(signature).flat_map(ways));
            }
            _ => work.extend(args),
        }
    }

    /// Whether `g` is defined on every way that leads to a value: what does not follow it, and is
    /// there all the same, is of another iteration.
    fn follows(&self, v: ir::Value) -> bool {
        let [Some(of_v), Some(of_g)] = [v, self.g].map(|v| self.cx.cfg.def_block[v]) else { return false };
        let inst = |v| self.cx.func.dfg.value_def(v).inst();
        match (inst(v), inst(self.g)) {
            _ if of_v != of_g => self.cx.loops.dominates(of_g, of_v),
            (Some(v), Some(g)) => self.cx.func.layout.pp_cmp(v, g) == Ordering::Greater,
            (v, _) => v.is_some(),
        }
    }
}

/// All guarded products of a function.
pub fn products(cx: ProductCx<'_>) -> HashMap<ir::Inst, Product> {
    let insts = cx.cfg.all_insts().iter().copied();
    insts.filter_map(|inst| Some((inst, product(cx, inst)?))).collect()
}
