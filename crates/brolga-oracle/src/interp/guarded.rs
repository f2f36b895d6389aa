//! Guarded products: products of derived code that count as zero where a factor is zero.
//!
//! **Problem.** A derivative masks a product `g·t/e` of a cotangent `g` where `g` is zero, since
//! `t/e` may be infinite there. The choice is no branch of the program's: the product is zero at
//! `g = 0` in any case, and its slope in `g` is `t/e`. To take it for a branch would lose that
//! slope, in a derivative of the derivative.
//!
//! **Answer.** Where a mask says "not zero" of a float, and what it keeps is a chain of products,
//! quotients and signs that begins with that float, the result depends on each factor with the
//! product of the others. That is only looked at where the mask cuts: elsewhere the result is the
//! product, whatever it is.
//!
//! ```text
//! fcmp ne g, 0 ;  select c, p, 0    a scalar's choice          band p, bitcast c      a vector's
//! insertlane 0, g, 0 ;  fcmp ne ;  bitcast ;  extractlane 0 ;  band      a scalar's, as a mask
//! ```
//!
//! A factor that has been computed from `g` since `g` was (by the clock of the run) makes it a
//! branch: `x ≠ 0 ? x·log x : 0`. What a function returns has been computed from the arguments that
//! lead there in its body.
//!
//! **Cost.** A walk of at most sixteen steps back through the block's values for each mask on
//! floats; where it cuts, one more over all that the factors have been computed from since `g`.

use std::collections::HashSet;

use brolga_ir::{FuncKey, Program};
use cranelift_codegen::ir::condcodes::{CondCode, FloatCC};
use cranelift_codegen::ir::{self, InstructionData, Opcode, Type, Value};
use smallvec::SmallVec;

use super::domain::{Domain, NodeId};
use super::machine::Machine;
use super::provenance::{FloatOrigin, Prov, write_float};
use super::value::{float_of, lane};
use super::zero_tests::{Reading, zero_test};
use crate::real::Real;

/// A float: all lanes of a value, one by one, or one of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ProductFloat {
    of: Value,
    lane: Option<u8>,
}

/// Factors on the way from a mask to the float that it is about.
#[derive(Default)]
struct ProductChain {
    /// Factors, and whether they divide.
    factors: Vec<(ProductFloat, bool)>,
    /// Floats that masks are about.
    about: Vec<ProductFloat>,
    /// Floats that masks are about, and that are no factors.
    conditions: Vec<ProductFloat>,
    /// Other choices: a condition or mask, and whether it is to be set.
    choices: Vec<(Value, bool)>,
    minus: bool,
}

fn data(body: &ir::Function, v: Value) -> Option<InstructionData> {
    let v = body.dfg.resolve_aliases(v);
    Some(body.dfg.insts[body.dfg.value_def(v).inst()?])
}

impl ProductFloat {
    /// A value by the name of what it was put together from.
    fn named(body: &ir::Function, of: Value, lane: Option<u8>) -> ProductFloat {
        let of = body.dfg.resolve_aliases(of);
        let here = ProductFloat { of, lane };
        if let Some(first) = same_bits(body, of) {
            return ProductFloat { of: first, lane };
        }
        match (data(body, of), lane) {
            (Some(InstructionData::BinaryImm8 { opcode: Opcode::Extractlane, arg, imm }), None) => {
                ProductFloat::named(body, arg, Some(imm))
            }
            (Some(InstructionData::Unary { opcode: Opcode::Splat, arg }), Some(_))
            | (Some(InstructionData::Unary { opcode: Opcode::ScalarToVector, arg }), Some(0)) => {
                ProductFloat::named(body, arg, None)
            }
            (Some(InstructionData::TernaryImm8 { opcode: Opcode::Insertlane, args: [x, y], imm }), Some(lane)) => {
                if imm == lane { ProductFloat::named(body, y, None) } else { ProductFloat::named(body, x, Some(lane)) }
            }
            _ => here,
        }
    }

    /// Whether two have a float in common.
    fn meets(self, other: ProductFloat) -> bool {
        self.of == other.of && (self.lane == other.lane || self.lane.is_none() || other.lane.is_none())
    }
}

/// The first float vector in its block that is made of the same bits.
fn same_bits(body: &ir::Function, v: Value) -> Option<Value> {
    let bits = |inst: ir::Inst| match body.dfg.insts[inst] {
        InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } => Some(body.dfg.resolve_aliases(arg)),
        _ => None,
    };
    let inst = body.dfg.value_def(v).inst()?;
    let (from, ty) = (bits(inst)?, body.dfg.value_type(v));
    if !ty.is_vector() || !ty.lane_type().is_float() {
        return None;
    }
    let mut all = body.layout.block_insts(body.layout.inst_block(inst)?);
    let first = all.find(|&i| bits(i) == Some(from) && body.dfg.value_type(body.dfg.first_result(i)) == ty)?;
    Some(body.dfg.first_result(first)).filter(|&first| first != v)
}

/// Whether a value is the constant zero, in all its bits.
fn zero(body: &ir::Function, v: Value) -> bool {
    match data(body, v) {
        Some(InstructionData::UnaryImm { imm, .. }) => imm.bits() == 0,
        Some(InstructionData::UnaryIeee64 { imm, .. }) => imm.bits() == 0,
        Some(InstructionData::UnaryIeee32 { imm, .. }) => imm.bits() == 0,
        Some(InstructionData::UnaryConst { constant_handle, .. }) => {
            body.dfg.constants.get(constant_handle).as_slice().iter().all(|&b| b == 0)
        }
        Some(InstructionData::Unary { opcode: Opcode::Splat, arg }) => zero(body, arg),
        Some(InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. }) => zero(body, arg),
        _ => false,
    }
}

/// The same, or a scalar zero with a sign.
fn nothing(body: &ir::Function, v: Value) -> bool {
    match data(body, v) {
        Some(InstructionData::UnaryIeee64 { imm, .. }) => imm.as_f64() == 0.0,
        Some(InstructionData::UnaryIeee32 { imm, .. }) => imm.as_f32() == 0.0,
        _ => zero(body, v),
    }
}

/// The float that a condition or mask asks about, if it asks whether that is not zero.
fn asks(body: &ir::Function, mask: Value) -> Option<Value> {
    asks_whether(body, mask, FloatCC::NotEqual)
}

/// The same if it compares it with zero in this way; the opposite of a mask asks the opposite.
fn asks_whether(body: &ir::Function, mask: Value, cond: FloatCC) -> Option<Value> {
    match data(body, mask)? {
        InstructionData::FloatCompare { cond: found, args, .. } if found == cond => {
            let other = args.iter().position(|&v| zero(body, v))?;
            Some(args[1 - other])
        }
        InstructionData::Unary { opcode: Opcode::Bnot, arg } if matches!(cond, FloatCC::Equal | FloatCC::NotEqual) => {
            asks_whether(body, arg, cond.complement())
        }
        InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } => asks_whether(body, arg, cond),
        // A lane of a mask, for the scalar that was put there.
        InstructionData::BinaryImm8 { opcode: Opcode::Extractlane, arg, imm } => match data(body, asks(body, arg)?)? {
            InstructionData::TernaryImm8 { opcode: Opcode::Insertlane, args, imm: lane } if imm == lane => {
                Some(args[1])
            }
            InstructionData::Unary { opcode: Opcode::Splat, arg } => Some(arg),
            InstructionData::Unary { opcode: Opcode::ScalarToVector, arg } if imm == 0 => Some(arg),
            _ => None,
        },
        _ => None,
    }
}

/// What a mask keeps, and the float that it asks about.
fn masked(body: &ir::Function, inst: &InstructionData) -> Option<(Value, Value)> {
    match *inst {
        InstructionData::Ternary { opcode: opcode @ (Opcode::Select | Opcode::Bitselect), args: [c, x, y] } => {
            let equal = || Some((y, asks_whether(body, c, FloatCC::Equal).filter(|_| nothing(body, x))?));
            let otherwise = || {
                let reading = if opcode == Opcode::Select { Reading::Condition } else { Reading::Mask };
                let (keeps, cuts) = if nothing(body, y) { (x, false) } else { (y, true) };
                let cut = nothing(body, if cuts { x } else { y });
                let (g, at_zero) = cut.then(|| zero_test(body, c, reading)).flatten()?;
                (at_zero == cuts).then_some((keeps, g))
            };
            nothing(body, y).then(|| Some((x, asks(body, c)?))).flatten().or_else(equal).or_else(otherwise)
        }
        InstructionData::Binary { opcode: Opcode::Band, args: [x, y] } => {
            let by = |m: Value| {
                let test = || zero_test(body, m, Reading::Mask).filter(|t| !t.1);
                asks(body, m).or_else(|| Some(test()?.0))
            };
            match (by(y), by(x)) {
                (Some(g), _) => Some((x, g)),
                (None, Some(g)) => Some((y, g)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The float or float vector whose bits a value is, if it is one of those.
fn float(body: &ir::Function, v: Value) -> Value {
    match data(body, v) {
        Some(InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. })
            if body.dfg.value_type(arg).is_vector() == body.dfg.value_type(v).is_vector()
                && body.dfg.value_type(arg).lane_type().is_float() =>
        {
            arg
        }
        _ => v,
    }
}

/// What a scalar is, where it is the float of masked bits: those.
fn of_bits(body: &ir::Function, inst: InstructionData) -> InstructionData {
    match inst {
        InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } if body.dfg.value_type(arg).is_int() => {
            data(body, arg).unwrap_or(inst)
        }
        _ => inst,
    }
}

impl ProductChain {
    /// Go from what is kept to `g`.
    fn follow(&mut self, body: &ir::Function, v: ProductFloat, g: ProductFloat, fuel: u32) -> Option<()> {
        if v == g {
            self.factors.push((g, false));
            return Some(());
        }
        let fuel = fuel.checked_sub(1)?;
        let inst = data(body, v.of)?;
        let named = |x| ProductFloat::named(body, x, v.lane);
        match inst {
            InstructionData::Unary { opcode: Opcode::Fneg, arg } => {
                self.minus = !self.minus;
                self.follow(body, named(arg), g, fuel)
            }
            InstructionData::Binary { opcode: Opcode::Fmul, args: [x, y] } => {
                for (v, other) in [(x, y), (y, x)] {
                    let mut way = ProductChain::default();
                    if way.follow(body, named(v), g, fuel).is_some() {
                        self.join(way);
                        self.factors.push((named(other), false));
                        return Some(());
                    }
                }
                None
            }
            InstructionData::Binary { opcode: Opcode::Fdiv, args: [x, y] } => {
                self.factors.push((named(y), true));
                self.follow(body, named(x), g, fuel)
            }
            // A choice in one lane of several has no name here.
            _ if v.lane.is_some() => None,
            _ => {
                let inst = of_bits(body, inst);
                if let Some((v, about)) = masked(body, &inst) {
                    self.about.push(ProductFloat::named(body, about, None));
                    return self.follow(body, ProductFloat::named(body, float(body, v), None), g, fuel);
                }
                let InstructionData::Ternary { opcode: Opcode::Select | Opcode::Bitselect, args: [c, x, y] } = inst
                else {
                    return None;
                };
                let (v, set) = match (zero(body, x), zero(body, y)) {
                    (true, false) => (y, false),
                    (false, true) => (x, true),
                    _ => return None,
                };
                self.choices.push((c, set));
                self.follow(body, ProductFloat::named(body, v, None), g, fuel)
            }
        }
    }

    /// The way from one float to another.
    fn way(body: &ir::Function, from: ProductFloat, to: ProductFloat) -> Option<ProductChain> {
        let mut way = ProductChain::default();
        way.follow(body, from, to, 16)?;
        Some(way)
    }

    /// Take apart the factors that are products of what a mask asks about. What is a product of
    /// factors itself is zero where they are, and anything else is a condition.
    fn expand(&mut self, body: &ir::Function) {
        while let Some(at) = self.about.iter().position(|&v| !self.factors.contains(&(v, false))) {
            let v = self.about[at];
            let times = || self.factors.iter().enumerate().filter(|f| !f.1.1).map(|(k, f)| (k, f.0));
            if let Some((k, way)) = times().find_map(|(k, f)| Some((k, Self::way(body, f, v)?))) {
                self.factors.remove(k);
                self.join(way);
                continue;
            }
            let product = times().find_map(|(_, f)| Self::way(body, v, f));
            self.about.swap_remove(at);
            match product {
                Some(way) => {
                    self.about.extend(way.factors.iter().filter(|f| !f.1).map(|f| f.0).chain(way.about));
                    self.conditions.extend(way.conditions);
                    self.choices.extend(way.choices);
                }
                None => self.conditions.push(v),
            }
        }
    }

    fn join(&mut self, other: ProductChain) {
        self.factors.extend(other.factors);
        self.about.extend(other.about);
        self.conditions.extend(other.conditions);
        self.choices.extend(other.choices);
        self.minus ^= other.minus;
    }
}

/// The arguments of a call that lead to one of its results, from operand to operand: of a function
/// without a body all, of one that only the run knows none.
fn leading(
    program: &Program,
    (body, call): (&ir::Function, ir::Inst),
    result: usize,
    within: &mut HashSet<(FuncKey, usize)>,
) -> Vec<Value> {
    let args = body.dfg.inst_args(call);
    let (InstructionData::Call { func_ref, .. } | InstructionData::TryCall { func_ref, .. }) = body.dfg.insts[call]
    else {
        return Vec::new();
    };
    let Some(f) = program.callee(body, func_ref) else { return args.to_vec() };
    let Some(callee) = &program.funcs[f].body else { return args.to_vec() };
    if !within.insert((f, result)) {
        return Vec::new();
    }
    let (dfg, mut seen, mut found) = (&callee.dfg, HashSet::new(), Vec::new());
    let lasts = || callee.layout.blocks().filter_map(|b| callee.layout.last_inst(b));
    let mut work: Vec<Value> = lasts()
        .filter(|&i| dfg.insts[i].opcode() == Opcode::Return)
        .filter_map(|i| dfg.inst_args(i).get(result).copied())
        .collect();
    while let Some(v) = work.pop().map(|v| dfg.resolve_aliases(v)) {
        if !seen.insert(v) {
            continue;
        }
        match dfg.value_def(v) {
            ir::ValueDef::Result(inst, k) if dfg.insts[inst].opcode().is_call() => {
                work.extend(leading(program, (callee, inst), k, within));
            }
            ir::ValueDef::Result(inst, _) => work.extend(dfg.inst_args(inst)),
            ir::ValueDef::Param(block, k) if callee.layout.entry_block() == Some(block) => found.extend(args.get(k)),
            ir::ValueDef::Param(block, k) => {
                let branches =
                    lasts().flat_map(|i| dfg.insts[i].branch_destination(&dfg.jump_tables, &dfg.exception_tables));
                let to = branches.filter(|call| call.block(&dfg.value_lists) == block);
                work.extend(to.filter_map(|call| call.args(&dfg.value_lists).nth(k).and_then(|a| a.as_value())));
            }
            ir::ValueDef::Union(..) => {}
        }
    }
    found
}

impl<D: Domain> Machine<'_, D> {
    /// Where the floats of a masked product come from, if it is one and a mask cuts. `cut` is what
    /// is there otherwise.
    pub(super) fn guarded(&mut self, body: &ir::Function, inst: ir::Inst, ty: Type, cut: &Prov) -> Option<Prov> {
        if !D::TRACKS || !(ty.is_vector() || matches!(ty.bits(), 32 | 64)) {
            return None;
        }
        let (v, g) = masked(body, &body.dfg.insts[inst])?;
        // Bits may be masked as integers.
        let (of, v) = (body.dfg.value_type(g), float(body, v));
        if body.dfg.value_type(v) != of || of.bits() != ty.bits() || !of.lane_type().is_float() {
            return None;
        }
        let (g, ty) = (float(body, g), of);
        let width = (ty.lane_bits() / 8) as u8;
        let g = ProductFloat::named(body, g, None);
        let mut chain = ProductChain::default();
        chain.follow(body, ProductFloat::named(body, v, None), g, 16)?;
        chain.about.push(g);
        chain.expand(body);
        // A mask that cuts nothing is not looked at.
        let cuts = |m: &Self, l: u32| chain.about.iter().any(|&v| m.number(v, l, width).1 == 0.0);
        let cut_lanes: SmallVec<[u32; 4]> = (0..ty.lane_count()).filter(|&l| cuts(self, l)).collect();
        if cut_lanes.is_empty() || self.is_branch(body, g, &chain) {
            return None;
        }
        let mut bytes = cut.bytes();
        for l in cut_lanes {
            let open = chain.choices.iter().all(|&(c, set)| {
                let bits = if ty.is_vector() { lane(self.bits(c), ty.lane_bits(), l) } else { self.bits(c) };
                (bits != 0) == set
            });
            let open = open && chain.conditions.iter().all(|&v| self.number(v, l, width).1 != 0.0);
            if let Some(node) = self.product(&chain, l, width).filter(|_| open) {
                write_float(&mut bytes, (l * u32::from(width)) as usize, node, width);
            }
        }
        Some(Prov::new(bytes))
    }

    /// One lane of a float, or the one that it is: where it comes from, and its value.
    fn number(&self, v: ProductFloat, l: u32, width: u8) -> (FloatOrigin, f64) {
        let l = v.lane.map_or(l, u32::from);
        let of = self.get(v.of);
        (of.prov.float(l as usize * width as usize, width), float_of(lane(of.bits, u32::from(width) * 8, l), width))
    }

    /// The node of one lane, which is zero: each factor has the product of the others, in which a
    /// zero that a mask asks about comes first.
    fn product(&mut self, chain: &ProductChain, l: u32, width: u8) -> Option<NodeId> {
        let (mut nodes, mut nums) = (Vec::new(), Vec::new());
        for &(v, _) in &chain.factors {
            let (origin, x) = self.number(v, l, width);
            let node = self.node_of(origin, x);
            nums.push(node.map_or(D::Num::constant(x), |n| self.domain.value(n)));
            nodes.push(node);
        }
        let asked = |k: usize| chain.about.contains(&chain.factors[k].0);
        let mut prev: SmallVec<[(NodeId, D::Num); 4]> = SmallVec::new();
        for (i, node) in nodes.iter().enumerate() {
            let Some(node) = *node else { continue };
            let others = || (0..nums.len()).filter(|&k| k != i);
            let mut slope = D::Num::constant(if chain.minus { -1.0 } else { 1.0 });
            for k in others().filter(|&k| !asked(k)) {
                slope = if chain.factors[k].1 { slope / nums[k] } else { slope * nums[k] };
            }
            if chain.factors[i].1 {
                slope = -(slope / nums[i] / nums[i]);
            }
            let mut nothing = false;
            for k in others().filter(|&k| asked(k)) {
                slope = D::Num::strong_mul(nums[k], slope);
                nothing |= nums[k].is_zero();
            }
            if !nothing {
                prev.push((node, slope));
            }
        }
        (!prev.is_empty()).then(|| self.domain.float(0.0, &prev, self.site()))
    }

    /// Whether a factor has been computed from `g` since that was computed.
    fn is_branch(&self, body: &ir::Function, g: ProductFloat, chain: &ProductChain) -> bool {
        let mut work: Vec<ProductFloat> = chain.factors.iter().map(|f| f.0).collect();
        let g_index = work.iter().position(|&v| v == g).expect("it is a factor");
        work.swap_remove(g_index);
        let mut seen = HashSet::new();
        while let Some(v) = work.pop() {
            if v.meets(g) {
                return true;
            }
            if self.defined_at(v.of) <= self.defined_at(g.of) || !seen.insert(v) {
                continue;
            }
            let dfg = &body.dfg;
            match dfg.value_def(v.of) {
                ir::ValueDef::Result(inst, k) if dfg.insts[inst].opcode().is_call() => {
                    let given = leading(self.program(), (body, inst), k, &mut HashSet::new());
                    work.extend(given.into_iter().map(|a| ProductFloat::named(body, a, None)));
                }
                ir::ValueDef::Result(inst, _) => {
                    let by_lanes =
                        matches!(dfg.insts[inst].opcode(), Opcode::Fneg | Opcode::Fmul | Opcode::Fdiv | Opcode::Fadd);
                    let lane = v.lane.filter(|_| by_lanes);
                    work.extend(dfg.inst_args(inst).iter().map(|&a| ProductFloat::named(body, a, lane)));
                }
                ir::ValueDef::Param(block, k) => {
                    for last in body.layout.blocks().filter_map(|b| body.layout.last_inst(b)) {
                        for call in dfg.insts[last].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
                            if call.block(&dfg.value_lists) == block {
                                let arg = call.args(&dfg.value_lists).nth(k).and_then(|a| a.as_value());
                                work.extend(arg.map(|a| ProductFloat::named(body, a, v.lane)));
                            }
                        }
                    }
                }
                ir::ValueDef::Union(..) => {}
            }
        }
        false
    }
}
