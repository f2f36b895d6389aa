//! Ulp arithmetic: integers that are added to a float's bits.
//!
//! **Question.** `nextafter` adds one to the bits of a float, a fast `ldexp` adds a number to its
//! exponent, and interpreters keep a double as its bits plus a constant (*NaN boxing*). What is the
//! derivative?
//!
//! **Answer.** As integers, the bits of floats of one sign count units in the last place. So if `y`
//! has the bits of `x`, plus `c`, then `y` is `c` units further from zero, whatever `x` is (within
//! its binade, and where `y` stays in one), and
//!
//! ```text
//! dy/dx = ± ulp(y) / ulp(x) = ± 2^(exponent field of y - exponent field of x)
//! ```
//!
//! with a field of 1 for subnormals, and the sign of `x · y`; for `c - bits` it is the other sign.
//! It asks nothing of `c` but that it is no active float's, and nothing of `y`, which may be a
//! NaN's pattern: a *step* gives it a formal slope, and another step takes that out again. Products
//! of steps are exact: they are powers of two.
//!
//! *Exponents.* A mask that leaves the mantissa, and of the exponent what it will, takes a number
//! off the bits, and `bor` with something that has no mantissa adds one (one after the other they
//! are one addition, `brolga_transform::primal::exponent_idiom`).
//!
//! *Rough ones.* A first guess at `1/√x` is a constant minus half of the bits, one at `∛x` a third
//! of them plus a constant, and the last digits are cut off where products are to be exact. As all
//! arithmetic on floats these are taken without their rounding: bits that are divided by `k` count
//! `k` times as much, and cutting changes nothing.
//!
//! **Which additions are steps.** A step that is made of a number does no harm: no float is read
//! there, so no cotangent comes. But it costs, so an addition is one only where something says that
//! it is made of a float's bits (and for a rough one, that it becomes such): one operand is, by
//! moves and other steps, from a bitcast of a float or a place where floats are accessed as such
//! ([`Steps::of`]); or the result becomes one in that way, or is chosen where such bits are not,
//! and the other operand is plainly a number. Where both operands might be a float's, nothing says
//! which is, and it is no step. Bytes that are put together by an addition ([`bytes_of`]) are no
//! step, either, and neither are bytes that are cut off at the end, unless the rest is used as a
//! float and as nothing else.
//!
//! **Cost.** One walk over the instructions for additions that could be steps, and no more if there
//! are none; else four worklists along moves and steps, each linear in the values that it reaches.

use cranelift_codegen::ir::{self, Opcode, ValueDef, types};
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::bits::bit_arith::{
    BitKind, beside_number, candidate, close_backwards, is_word, kind, moved_from, origin, rounded, trailing_digits,
};
use crate::bits::bit_idioms::signed;
use crate::bits::bytes::bytes_of;
use crate::kinds::contents::Contents;
use crate::kinds::pointers::{PointerInput, Pointers};
use crate::lattice::kinds::Kinds;
use crate::query::callee::CalleeKind;
use crate::query::cell::cell_of;
use crate::query::{access_address, access_offset};
use crate::uses::{Use, Uses};
use crate::variant::ParamMode;

/// The steps of a function.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// Which operand of an addition or subtraction is the float's bits.
    operand: SecondaryMap<ir::Inst, Option<u8>>,
    /// Integers that become floats, by moves and at least one step.
    to: EntitySet<ir::Value>,
    /// Steps that add last digits of the float itself, or take them off.
    digits: EntitySet<ir::Inst>,
    /// Integers that are rounded as the bits of floats are.
    rounded: EntitySet<ir::Value>,
}

impl Steps {
    /// Which operand of an instruction is a float's bits, if it is a step.
    pub fn of(&self, inst: ir::Inst) -> Option<usize> {
        self.operand[inst].map(usize::from)
    }

    /// Whether an integer is rounded as the bits of floats are.
    pub fn is_rounded(&self, v: ir::Value) -> bool {
        self.rounded.contains(v)
    }

    /// Whether what a step adds, or takes off, is some last digits of the same float's bits: that
    /// rounds, and those have no slope of their own.
    pub fn adds_digits(&self, inst: ir::Inst) -> bool {
        self.digits.contains(inst)
    }

    /// Whether an integer becomes a float by steps.
    pub fn leads_to_float(&self, v: ir::Value) -> bool {
        self.to.contains(v)
    }

    /// Find them. Memory counts where one place is accessed as floats and as integers.
    pub fn compute(cx: &PointerInput<'_>, p: &Pointers, c: &Contents, uses: &Uses) -> Self {
        let (func, cfg) = (cx.func, cx.cfg);
        let is_candidate = |&&inst: &&ir::Inst| {
            let plain = |v: ir::Value| !p.address.contains(v) && p.root(v).is_none();
            candidate(func, inst).is_some_and(|args| args.iter().all(|&v| plain(v)))
                && plain(func.dfg.first_result(inst))
        };
        let candidates: Vec<ir::Inst> = cfg.all_insts().iter().filter(is_candidate).copied().collect();
        let mut steps = Steps::default();
        if candidates.is_empty() {
            return steps;
        }
        let (from, mut to) = ends(cx, c);
        if from.is_empty() && to.is_empty() {
            return steps;
        }
        let rounded = candidates.iter().filter_map(|&inst| rounded(func, inst));
        steps.rounded.extend(rounded.map(|x| origin(func, x)));
        let mut leads = EntitySet::new();
        close_backwards(func, |b, i| cfg.incoming(b, i).collect(), to.clone(), &mut leads);
        let from = closed_forwards(func, uses, from, &leads);
        // What is chosen instead of a float's bits is a float's bits.
        to.extend(from.iter().flat_map(|v| chosen_among(func, v, |b, i| cfg.incoming(b, i).collect())));
        close_backwards(func, |b, i| cfg.incoming(b, i).collect(), to, &mut steps.to);
        let mut found = Vec::new();
        for inst in candidates {
            let args = candidate(func, inst).expect("it is one");
            let sum = kind(func, inst) == Some(BitKind::Sum);
            let operand = match args.map(|v| from.contains(v)) {
                _ if !sum && !from.contains(func.dfg.first_result(inst)) => None,
                _ if !sum => beside_number(func, args),
                _ if let Some(digits) = trailing_digits(func, inst) => Some(1 - digits),
                [true, false] => Some(0),
                [false, true] => Some(1),
                [true, true] => None,
                _ if steps.to.contains(func.dfg.first_result(inst)) => {
                    beside_number(func, args).or_else(|| rounded_at_random(func, uses, inst))
                }
                _ => None,
            };
            if operand.is_some() && (bytes_of(func, inst).is_none() || is_cut_float(func, uses, &steps.to, inst)) {
                steps.operand[inst] = operand;
                if trailing_digits(func, inst).map(|k| 1 - k) == operand {
                    steps.digits.insert(inst);
                }
                found.push(inst);
            }
        }
        // What becomes a float without a step is known as it has always been.
        let mut stepped = EntitySet::new();
        let operands = found.iter().map(|&inst| func.dfg.inst_args(inst)[steps.of(inst).expect("it is one")]).collect();
        close_backwards(func, |b, i| cfg.incoming(b, i).collect(), operands, &mut stepped);
        let to = std::mem::take(&mut steps.to);
        steps.to.extend(stepped.iter().filter(|&v| to.contains(v)));
        steps
    }
}

/// Whether a mask leaves a word that is used as a float, and as nothing else, or becomes one by
/// steps: bytes that it cuts off are digits, and those that it keeps no piece.
fn is_cut_float(func: &ir::Function, uses: &Uses, to: &EntitySet<ir::Value>, inst: ir::Inst) -> bool {
    let v = func.dfg.first_result(inst);
    let is_float = |u: &Use| match *u {
        Use::Inst(i, _) if func.dfg.insts[i].opcode() == Opcode::Bitcast => {
            matches!(func.dfg.value_type(func.dfg.first_result(i)), types::F32 | types::F64)
        }
        Use::Inst(i, _) => {
            (kind(func, i).is_some() || signed(func, i, 0).is_some()) && to.contains(func.dfg.first_result(i))
        }
        Use::Edge(..) => false,
    };
    let masked = func.dfg.insts[inst].opcode() == Opcode::Band && is_word(func, v);
    masked && !uses.of(v).is_empty() && uses.of(v).iter().all(is_float)
}

/// The operand of a sum that is loaded, where the other one is not and last digits are cut off
/// afterwards: a number is added that a generator has drawn, wherever that comes from.
fn rounded_at_random(func: &ir::Function, uses: &Uses, sum: ir::Inst) -> Option<u8> {
    let is_cut = |u: &Use| matches!(*u, Use::Inst(i, _) if kind(func, i) == Some(BitKind::Rough(1.0)));
    let v = func.dfg.first_result(sum);
    if func.dfg.insts[sum].opcode() != Opcode::Iadd || uses.of(v).is_empty() || !uses.of(v).iter().all(is_cut) {
        return None;
    }
    let loaded =
        |v: &ir::Value| func.dfg.value_def(*v).inst().is_some_and(|i| func.dfg.insts[i].opcode() == Opcode::Load);
    match func.dfg.inst_args(sum) {
        [a, b] if loaded(a) && !loaded(b) => Some(0),
        [a, b] if loaded(b) && !loaded(a) => Some(1),
        _ => None,
    }
}

/// The integers of which one is chosen, where control flow meets or by a `select`.
fn chosen_among(
    func: &ir::Function,
    v: ir::Value,
    incoming: impl Fn(ir::Block, usize) -> Vec<ir::Value>,
) -> Vec<ir::Value> {
    match func.dfg.value_def(v) {
        ValueDef::Param(b, i) => incoming(b, i),
        ValueDef::Result(inst, _) if func.dfg.insts[inst].opcode() == Opcode::Select => {
            func.dfg.inst_args(inst)[1..].to_vec()
        }
        _ => Vec::new(),
    }
}

/// Integers that are made of floats as they are, and such as become floats.
fn ends(cx: &PointerInput<'_>, c: &Contents) -> (Vec<ir::Value>, Vec<ir::Value>) {
    let (func, cfg) = (cx.func, cx.cfg);
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for (n, &v) in func.dfg.block_params(cfg.blocks[0]).iter().enumerate() {
        if let ParamMode::Bits { shape, definite: true } = cx.params[n]
            && is_word(func, v)
            && shape.lane_bytes() == func.dfg.value_type(v).bytes()
        {
            from.push(v);
        }
    }
    for &inst in cfg.all_insts() {
        let args = func.dfg.inst_args(inst);
        match func.dfg.insts[inst].opcode() {
            Opcode::Bitcast => {
                let r = func.dfg.first_result(inst);
                let is_float = |v| matches!(func.dfg.value_type(v), types::F32 | types::F64);
                if is_word(func, r) && is_float(args[0]) {
                    from.push(r);
                } else if is_float(r) && is_word(func, args[0]) {
                    to.push(args[0]);
                }
            }
            Opcode::Call => {
                let Some(CalleeKind::Derived(f)) = CalleeKind::of(cx.program, func, inst) else { continue };
                let fills_word = |v: ir::Value, lane: u32| is_word(func, v) && lane == func.dfg.value_type(v).bytes();
                let results = func.dfg.inst_results(inst).iter().enumerate();
                from.extend(results.filter(|(n, v)| fills_word(**v, cx.summaries.result_lane(f, *n))).map(|(_, v)| *v));
                let args = args.iter().enumerate();
                to.extend(args.filter(|(n, v)| fills_word(**v, cx.summaries.param_lane(f, *n))).map(|(_, v)| *v));
            }
            op @ (Opcode::Load | Opcode::Store) => {
                let v = func.dfg.inst_results(inst).first().copied().unwrap_or(args[0]);
                let addr = access_address(func, inst).expect("an access has an address");
                let bytes = func.dfg.value_type(v).bytes();
                let float_kind = if bytes == 8 { Kinds::F64 } else { Kinds::F32 };
                if is_word(func, v)
                    && c.float_overlaps(cell_of(func, addr, access_offset(func, inst)), bytes) == float_kind
                {
                    if op == Opcode::Load { from.push(v) } else { to.push(v) }
                }
            }
            // What is rounded as a float's bits are is taken for those.
            Opcode::Iadd | Opcode::Isub | Opcode::Band => {
                if let Some(x) = rounded(func, inst) {
                    from.push(origin(func, x));
                    to.push(func.dfg.first_result(inst));
                }
            }
            _ => {}
        }
    }
    (from, to)
}

/// What some integers lead to, by moves and steps. Integers are divided and cut for other reasons:
/// that is only one if something that leads to a float comes of it.
fn closed_forwards(
    func: &ir::Function,
    uses: &Uses,
    mut work: Vec<ir::Value>,
    leads: &EntitySet<ir::Value>,
) -> EntitySet<ir::Value> {
    let mut found = EntitySet::new();
    while let Some(v) = work.pop() {
        if !is_word(func, v) || !found.insert(v) {
            continue;
        }
        for u in uses.of(v) {
            match *u {
                Use::Edge(_, param) => work.push(param),
                Use::Inst(inst, _) => {
                    let goes = match kind(func, inst) {
                        Some(BitKind::Sum) => true,
                        Some(BitKind::Exponent) => beside_number(func, candidate(func, inst).expect("it is one"))
                            .is_some_and(|n| func.dfg.inst_args(inst)[usize::from(n)] == v),
                        Some(BitKind::Rough(_)) => leads.contains(func.dfg.first_result(inst)),
                        None => moved_from(func, inst).contains(&v),
                    };
                    if goes {
                        work.push(func.dfg.first_result(inst));
                    }
                }
            }
        }
    }
    found
}
