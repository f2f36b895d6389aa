//! Check hoisting: a counted loop compares the tape's room with its limit once, before it begins.
//!
//! **Problem.** Each record is a few stores, an addition, and a comparison with the end of the
//! tape. In a loop of which it is known how many iterations it has and which records as much in
//! each, one comparison says the same of all of them.
//!
//! **Answer.** Where the test of a loop says how many iterations there are, and each records as
//! much, one comparison before the loop takes the place of those in it.
//!
//! **Where.** On CLIF, as [`brolga_clif::vectorise`]: there the tape's position is a value that is
//! handed from iteration to iteration, whatever was recorded and why, and how many iterations a
//! loop has is what its test compares. A call that records hands back an unknown position, and what
//! is after it goes on asking.
//!
//! **Which loops.** Cycles of blocks with one way in and one way out ([`affine_loop::loops`]),
//! whose test compares what goes in constant steps, of a power of two, with what does not change
//! ([`count`]); in which each check asks about a position that is so many bytes from where the
//! iteration began, and all iterations record the same number of bytes. A branch in a loop, and so
//! a loop in it, is a way that may record less: such a loop asks record by record. (Loops within it
//! are looked at by themselves.)
//!
//! **What becomes of one.** For `s` bytes an iteration, and `k` up to the last check that an
//! iteration passes before it comes to the test:
//!
//! ```text
//! n     how often the test says that the loop goes on
//! trapnz n·s + k > limit - top, tape_full          before the loop; none of its checks is left
//! ```
//!
//! *Exact.* Let the test compare `x` with `b`, `x0` when it is first asked, and go up by `d` (down
//! is the same, turned around). Then
//!
//! ```text
//! n = 0 if the test says no of x0              n = (b - x0) / d where it goes on if x ≠ b, else
//!                                              n = (b - x0 - 1) / d + 1 for <, (b - x0) / d + 1 for ≤
//! ```
//!
//! in the arithmetic of the machine, in which `b - x0` is a distance without a sign. What can go
//! wrong is that `x` steps over `b` and beyond the largest number, or never meets `b`: then the
//! test still says yes of `x0 + n·d`, and since `d` is a power of two it says so for ever, since
//! what is between `b` and the largest number is less than a step, and `x` comes by at the same
//! distances each time around. Such a loop records without end, and `n` is taken to be more than
//! any tape has room for. (Where it goes on if `x ≠ b` that is so if the step is not a part of the
//! distance, which the last bits tell.) Otherwise the position gets as far as `top + n·s + k` and
//! no further: the loop is refused if and only if one of its checks would fail. No product
//! overflows, since more than 2⁶² bytes are counted as 2⁶².
//!
//! **Where there is a fence** ([`brolga_ir::lower::Fence`]) no record has to ask, and what this is
//! for is that a loop without end, or one with far too many iterations, does not fill all memory
//! there is before it says so. So loops that are in no other one ask, and all other checks go: a
//! loop in another one is entered often, its iterations may be few, and to ask takes as long as
//! several records do.
//!
//! **What changes.** A loop whose records do not fit says so before its first iteration, and not
//! when the tape is full. Its iterations may have had other traps to offer; what is reported is
//! then the tape, with the instruction that the first record belongs to. Memory is as it was before
//! the loop.
//!
//! **Invariants.** `top ≤ limit` wherever a loop is entered, as every position was asked about.
//! Nothing but checks is removed, and records are where they were.
//!
//! **Cost.** One walk over the function, and one over each loop in which a record is checked. In
//! the run a few instructions before such a loop.
//!
//! **Source.** Hoisting of array bound checks (Gupta, *Optimizing array bound checks using flow
//! analysis*, 1993).

use brolga_ir::graph::on_cycles;
use brolga_ir::map::HashMap;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, Value, types};
use cranelift_entity::EntitySet;

use brolga_clif::linear::LinearForm;
use brolga_clif::marks::TAPE_FULL;
use brolga_clif::simplify_cfg::resolve_aliases;
use brolga_clif::vectorise::affine_loop::{self, Home, Loop, Steps};
use brolga_clif::vectorise::count::{Count, count};
use brolga_clif::vectorise::is_short;
use brolga_clif::vectorise::preheader::Front;

/// What became of a loop that records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedLoop {
    /// The loop's header.
    pub header: ir::Block,
    /// Bytes of an iteration, if it asks once; or why it does not.
    pub outcome: Result<i64, &'static str>,
}

/// What is said of a loop that does not ask.
const FENCED: &str = "there is a fence behind the tape";

/// More bytes than any tape has.
const MOST_BYTES: i64 = 1 << 62;
/// Iterations that record more are not looked at.
const MOST_AN_ITERATION: i64 = 1 << 24;

/// What became of a loop of the forward half, as a sentence.
pub fn told(outcome: &Result<i64, &'static str>) -> String {
    match outcome {
        Ok(bytes) => {
            let plural = if *bytes == 1 { "" } else { "s" };
            format!("its loop asks once whether there is room on the tape, for {bytes} byte{plural} an iteration")
        }
        Err(why) if *why == FENCED => format!("its loop does not ask for room on the tape: {why}"),
        Err(why) => format!("its loop asks for room on the tape each time, since {why}"),
    }
}

/// Let loops of a function ask once whether there is room for what they record; `worth` says that
/// those with few iterations go on as they do, `fenced` that none has to ask.
pub fn hoist_tape_check(func: &mut ir::Function, worth: bool, fenced: bool) -> Vec<CheckedLoop> {
    if !func.layout.blocks().any(|b| func.layout.block_insts(b).any(|i| is_check(func, i))) {
        return Vec::new();
    }
    resolve_aliases(func);
    let mut looked = Vec::new();
    let loops = affine_loop::loops(func);
    if loops.is_empty() {
        return looked;
    }
    let within = if fenced { within(func, &loops) } else { EntitySet::new() };
    for l in loops {
        let checks: Vec<ir::Inst> = insts(func, &l).filter(|&i| is_check(func, i)).collect();
        if checks.is_empty() {
            continue;
        }
        if within.contains(l.blocks[0]) {
            looked.push(CheckedLoop { header: l.blocks[0], outcome: Err(FENCED) });
            continue;
        }
        let outcome = match Records::read(func, &l, &checks) {
            Ok(r) if worth && known_trip_count(func, &l, &r.count).is_none() && is_short(func, &l, &r.count) => {
                Err("it has few iterations")
            }
            Ok(r) => {
                ask(func, &l, &r, checks[0]);
                for &check in &checks {
                    func.layout.remove_inst(check);
                }
                Ok(r.bytes)
            }
            Err(_) if fenced => Err(FENCED),
            Err(why) => Err(why),
        };
        looked.push(CheckedLoop { header: l.blocks[0], outcome });
    }
    looked
}

/// Headers of those loops that are in other ones: they are on cycles also when their own last edges
/// are left out.
fn within(func: &ir::Function, loops: &[Loop]) -> EntitySet<ir::Block> {
    let latches: HashMap<ir::Block, ir::Block> =
        loops.iter().map(|l| (l.blocks[l.blocks.len() - 1], l.blocks[0])).collect();
    let latches = &latches;
    let edges = func.dfg.blocks.iter().map(|b| {
        let inside = func.layout.is_block_inserted(b);
        let succs = inside.then(|| func.block_successors(b)).into_iter().flatten();
        succs.filter(move |s| latches.get(&b) != Some(s)).map(|s| s.as_u32() as usize)
    });
    let on_cycles = on_cycles(&edges.collect());
    let mut found = EntitySet::new();
    found.extend(loops.iter().map(|l| l.blocks[0]).filter(|h| on_cycles[h.as_u32() as usize]));
    found
}

fn insts<'a>(func: &'a ir::Function, l: &'a Loop) -> impl Iterator<Item = ir::Inst> + 'a {
    l.blocks.iter().flat_map(|&b| func.layout.block_insts(b))
}

fn is_check(func: &ir::Function, inst: ir::Inst) -> bool {
    let full = TAPE_FULL;
    matches!(func.dfg.insts[inst], InstructionData::CondTrap { opcode: Opcode::Trapnz, code, .. } if code == full)
}

/// What a loop records.
struct Records {
    /// The header's parameter that is the position.
    top: Value,
    /// The end of the tape.
    limit: Value,
    /// Bytes of an iteration.
    bytes: i64,
    /// Bytes up to the last check before the test.
    early: i64,
    count: Count,
    alias: HashMap<Value, Value>,
}

impl Records {
    fn read(func: &ir::Function, l: &Loop, checks: &[ir::Inst]) -> Result<Self, &'static str> {
        let unknown = "how much an iteration records is not known when it is entered";
        let mut steps = Steps::new(func, l).ok_or(unknown)?;
        steps.records = true;
        let tested = l.blocks.iter().position(|&b| func.layout.inst_block(l.test) == Some(b));
        let mut found: Option<(Value, Value, i64)> = None;
        let (mut early, mut last) = (0, 0);
        for &check in checks {
            let (position, limit) = compared(&mut steps, check).ok_or(unknown)?;
            let LinearForm { terms, plus } = steps.linear(position).ok_or(unknown)?;
            let [(top, 1)] = terms[..] else { return Err(unknown) };
            let Home::Param(i) = steps.home(top) else { return Err(unknown) };
            let bytes = steps.step(i).ok_or(unknown)?;
            if *found.get_or_insert((top, limit, bytes)) != (top, limit, bytes) {
                return Err(unknown);
            }
            let block = func.layout.inst_block(check);
            if l.blocks.iter().position(|&b| Some(b) == block) <= tested {
                early = plus.max(early);
            }
            last = plus.max(last);
        }
        let (top, limit, bytes) = found.ok_or(unknown)?;
        // What an iteration asks for is what it records.
        if last != bytes || bytes <= 0 || bytes > MOST_AN_ITERATION {
            return Err(unknown);
        }
        let trip_count = "how many iterations there are is not known when it is entered";
        let count = count(&mut steps, l).ok_or(trip_count)?;
        // What is widened overflows before that is noticed.
        if count.first.terms.iter().any(|t| steps.widened.contains_key(&t.0)) {
            return Err(trip_count);
        }
        Ok(Self { top, limit, bytes, early, count, alias: steps.aliases() })
    }
}

/// The position that a check asks about, and the end of the tape.
fn compared(steps: &mut Steps<'_>, check: ir::Inst) -> Option<(Value, Value)> {
    let cond = steps.args(check)[0];
    let Home::Inside(compare) = steps.home(cond) else { return None };
    let InstructionData::IntCompare { cond: IntCC::UnsignedGreaterThan, .. } = steps.func.dfg.insts[compare] else {
        return None;
    };
    let args = steps.args(compare);
    steps.is_fixed(args[1]).then_some((args[0], args[1]))
}

/// Ask before a loop, as `check` does.
fn ask(func: &mut ir::Function, l: &Loop, r: &Records, check: ir::Inst) {
    let most = MOST_BYTES / r.bytes;
    let known = known_trip_count(func, l, &r.count).map(|n| n.min(most) * r.bytes + r.early);
    let mut front = Front::before(func, l, &r.alias);
    let g = front.block();
    if known == Some(0) {
        return;
    }
    let (top, limit) = (front.at0(r.top), front.at0(r.limit));
    let mut left = front.at(g, None).ins().isub(limit, top);
    let bytes = match known {
        Some(bytes) => front.int(g, types::I64, bytes),
        // As many iterations, without a product: most loops that are entered often are short.
        None if r.early == 0 && (r.bytes as u64).is_power_of_two() => {
            let k = front.int(g, types::I32, r.bytes.trailing_zeros().into());
            left = front.at(g, None).ins().ushr(left, k);
            trip_count(&mut front, &r.count, most)
        }
        None => {
            let mut trip_count = trip_count(&mut front, &r.count, most);
            // Iterations that 32 bits count are too few for the product to overflow.
            if r.count.ty != types::I32 {
                let most = front.int(g, types::I64, most);
                trip_count = front.at(g, None).ins().umin(trip_count, most);
            }
            let by = front.int(g, types::I64, r.bytes);
            let bytes = front.at(g, None).ins().imul(trip_count, by);
            let early = front.int(g, types::I64, r.early);
            if r.early > 0 { front.at(g, None).ins().iadd(bytes, early) } else { bytes }
        }
    };
    let over = front.at(g, None).ins().icmp(IntCC::UnsignedGreaterThan, bytes, left);
    front.at(g, Some(check)).ins().trapnz(over, TAPE_FULL);
}

/// How often a loop's test says that it goes on, if that is a constant.
fn known_trip_count(func: &ir::Function, l: &Loop, count: &Count) -> Option<i64> {
    let &Count { ref first, step, ty, goes_on, bound } = count;
    let known = |sum: &LinearForm| affine_loop::entered(func, l, sum)?.known();
    let bound = bound.map_or_else(LinearForm::default, LinearForm::value);
    let (x, b) = (known(first)?, known(&bound)?);
    let unsigned = goes_on.unsigned() == goes_on && goes_on != IntCC::NotEqual;
    let wide = |k: i64| match (ty == types::I32, unsigned) {
        (true, false) => i128::from(k as i32),
        (true, true) => i128::from(k as u32),
        (false, false) => i128::from(k),
        (false, true) => i128::from(k as u64),
    };
    let distance = (wide(b) - wide(x)) * i128::from(step.signum());
    let step = i128::from(step.unsigned_abs());
    let trip_count = match goes_on {
        // Not if it steps over the bound, or gets there by way of the largest number.
        IntCC::NotEqual => (distance >= 0 && distance % step == 0).then_some(distance / step)?,
        _ if goes_on.without_equal() == goes_on => (distance + step - 1).div_euclid(step),
        _ => distance.div_euclid(step) + 1,
    };
    // Far from the ends of what numbers there are: nothing steps over them.
    let far = |k: i128| k.abs() < 1 << 30 && !(unsigned && k < step);
    (far(wide(b)) && far(wide(x))).then_some(i64::try_from(trip_count.max(0)).ok()?)
}

/// How often a loop's test says that it goes on: `most` if that is for ever.
fn trip_count(front: &mut Front<'_>, count: &Count, most: i64) -> Value {
    let g = front.block();
    let &Count { ref first, step, ty, goes_on, bound } = count;
    let x = front.linear(g, first, ty);
    let b = match bound {
        Some(b) => front.at0(b),
        None => front.int(g, ty, 0),
    };
    let shift = step.unsigned_abs().trailing_zeros();
    let unequal = goes_on == IntCC::NotEqual;
    let without_equal = goes_on.without_equal() == goes_on;
    let distance = if step > 0 { front.at(g, None).ins().isub(b, x) } else { front.at(g, None).ins().isub(x, b) };
    let mut n = distance;
    if shift > 0 {
        if without_equal && !unequal {
            let one = front.int(g, ty, -1);
            n = front.at(g, None).ins().iadd(n, one);
        }
        let k = front.int(g, types::I32, i64::from(shift));
        n = front.at(g, None).ins().ushr(n, k);
    }
    if !unequal && (shift > 0 || !without_equal) {
        let one = front.int(g, ty, 1);
        n = front.at(g, None).ins().iadd(n, one);
    }
    // Steps of one that end before the bound end there, and so do those that are a part of the
    // distance.
    let endless = if unequal && shift > 0 {
        let rest = front.int(g, ty, (1_i64 << shift).wrapping_sub(1));
        let over = front.at(g, None).ins().band(distance, rest);
        Some(front.at(g, None).ins().icmp_imm_u(IntCC::NotEqual, over, 0))
    } else if shift > 0 || !unequal && !without_equal {
        let step = front.int(g, ty, step);
        let far = front.at(g, None).ins().imul(n, step);
        let end = front.at(g, None).ins().iadd(x, far);
        Some(front.at(g, None).ins().icmp(goes_on, end, b))
    } else {
        None
    };
    if ty == types::I32 {
        n = front.at(g, None).ins().uextend(types::I64, n);
    }
    if let Some(endless) = endless {
        let all = front.int(g, types::I64, most);
        n = front.at(g, None).ins().select(endless, all, n);
    }
    if !unequal {
        let some = front.at(g, None).ins().icmp(goes_on, x, b);
        let none = front.int(g, types::I64, 0);
        n = front.at(g, None).ins().select(some, n, none);
    }
    n
}
