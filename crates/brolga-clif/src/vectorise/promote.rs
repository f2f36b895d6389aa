//! Scalar promotion in loops: places in memory to which a loop adds are in registers while it runs.
//!
//! **Problem.** What an iteration reads at an address that does not change, a parameter or an
//! element of an outer loop's row, has its cotangent at an address that does not change: `dp[0] +=
//! c`. Each iteration loads it, adds, and stores it, and waits for what the last iteration has
//! stored, twice as long as the addition takes. And a loop that stores to one place does not run in
//! lanes.
//!
//! **Answer.** A [`PromotedCell`] is such a place. It is loaded before the loop and stored after
//! it, and in between it is handed from iteration to iteration as a parameter of the header is. In
//! lanes it is a sum like any other, and may be split like any other. Where a loop cannot be run in
//! lanes (it pops records, goes in steps of several elements, or does what lanes cannot),
//! iterations are copied as they are and run one by one, for the sake of its cells
//! ([`one_by_one`]).
//!
//! **When.** If nothing else reads or writes there. That is asked as the loop is entered, like all
//! such questions: of accesses in steps whether the cell is among what they cover in all of these
//! iterations (gaps included), of others whether they are elsewhere. The tape is apart from
//! everything. Accesses of which it is not known where they go, calls among them, rule it out; and
//! so does an iteration that does not begin by reading what is there, so that a cell is loaded only
//! where the loop would load it: there is an iteration, and each iteration runs through.
//!
//! **Several terms an iteration.** Where a compiler has unrolled a loop, an iteration adds to one
//! place twice, or more often, and the next one waits for all of these additions. If sums may be
//! added up in another order (`reorder`), the terms are added to each other, and their sum to the
//! cell. What an iteration reads in one place that is known to be apart from all that the loop
//! writes is read before it as well: the other factor of each term, for the most part.
//!
//! **What stays the same.** But for that the numbers, bit for bit, and their order: what is read
//! from a cell is what was written there last. Traps as well, but not what is in memory when one
//! happens, so this is done with reverses only: after a trap shadows are undefined, and what the
//! primal has stored is not. (A reverse that restores memory and is cut short has restored some of
//! it.)
//!
//! ```text
//! loop:                                v3 = load.f64 v0
//!     v3 = load.f64 v0             loop(v3: f64):
//!     v4 = fadd v3, v2       ⟶         v4 = fadd v3, v2
//!     store v4, v0                     brif v5, loop(v4), after
//!     brif v5, loop, after        after:
//! after:                              store v4, v0
//! ```
//!
//! **Cost.** Each cell is compared with each other access, here and in the run when the loop is
//! entered.
//!
//! **Source.** Scalar promotion of LLVM's `licm`; tests at run time in place of a proof.

use crate::map::HashMap;
use cranelift_codegen::ir::{self, InstructionData, Opcode, Value, types};

use super::affine_loop::{Loop, Steps};
use super::outcome::LoopPolicy;
use crate::linear::LinearForm;
use crate::vectorise::body::{
    CellAccesses, HANDED, LoopAccess, LoopBody, LoopParam, MOST_INSTS, PromotedCell, Test, Tests, ValueKind, accessed,
    reduction,
};
use crate::vectorise::count::count;

/// Of accesses to one place in all iterations, places that are written to, and where the rest are
/// read. What an iteration reads where it has written is what it has written.
pub(super) fn places(
    steps: &mut Steps<'_>,
    fixed: Vec<LoopAccess>,
) -> Result<(Vec<CellAccesses>, Vec<LoopAccess>), &'static str> {
    let func = steps.func;
    let (mut places, mut invariant): (Vec<CellAccesses>, Vec<LoopAccess>) = (Vec::new(), Vec::new());
    for a in fixed.iter().filter(|a| a.stores) {
        if !places.iter().any(|p| p.0 == a.at) {
            places.push((a.at.clone(), Vec::new()));
        }
    }
    for a in fixed {
        match places.iter_mut().find(|p| p.0 == a.at) {
            Some(place) => place.1.push(a),
            None => invariant.push(a),
        }
    }
    for (_, all) in &places {
        let is_plain = |a: &LoopAccess| matches!(func.dfg.insts[a.inst].opcode(), Opcode::Load | Opcode::Store);
        let plain = all.iter().all(is_plain);
        let ty = plain.then(|| accessed(func, all[0].inst)).filter(|ty| ty.is_float());
        if all[0].stores || ty.is_none() || all.iter().any(|a| Some(accessed(func, a.inst)) != ty) {
            return Err("it writes to one place in all iterations");
        }
        let mut there = func.dfg.first_result(all[0].inst);
        for a in &all[1..] {
            if a.stores {
                there = steps.args(a.inst)[0];
            } else {
                steps.stands_for(func.dfg.first_result(a.inst), there);
            }
        }
    }
    Ok((places, invariant))
}

/// The sums in these places; they are of the kinds after those of the header's parameters.
pub(super) fn cells(
    steps: &Steps<'_>,
    l: &Loop,
    places: Vec<CellAccesses>,
    kinds: &HashMap<Value, ValueKind>,
    reorder: bool,
) -> Result<Vec<PromotedCell>, &'static str> {
    let params = steps.func.dfg.block_params(l.blocks[0]).len();
    let sum = |(c, place): (usize, CellAccesses)| {
        let mut cell = PromotedCell::new(place);
        let (from, to) = (steps.func.dfg.first_result(cell.load()), steps.args(cell.store)[0]);
        if to == from || kinds.get(&to) != Some(&ValueKind::Sum(params + c)) {
            return Err("what it writes to one place is no sum of what is there");
        }
        let (reduction, adds) = reduction(steps, kinds, params + c, from, to).ok_or(HANDED)?;
        (cell.reduction, cell.split) = (reduction, adds && reorder);
        Ok(cell)
    };
    places.into_iter().enumerate().map(sum).collect()
}

/// Ask whether anything else reads or writes what is in a register: in steps, or in one place in
/// all iterations.
pub(super) fn tests(
    cells: &[PromotedCell],
    accesses: &[LoopAccess],
    places: &[(&LinearForm, i64, ir::Inst)],
    how: &LoopPolicy<'_>,
    found: &mut Tests,
) -> Result<(), &'static str> {
    for (c, cell) in cells.iter().enumerate() {
        let apart = |inst: ir::Inst| how.apart(cell.load(), inst);
        for &LoopAccess { inst, ref at, step, width, .. } in accesses {
            found.add(Test::Aside(cell.at.plus_times(at, -1), cell.bytes, step, width), apart(inst))?;
        }
        let others = cells[..c].iter().map(|o| (&o.at, o.bytes, o.load()));
        for (other, size, inst) in others.chain(places.iter().copied()) {
            let away = cell.at.plus_times(other, -1);
            match away.known() {
                Some(d) if -cell.bytes < d && d < size => return Err("it reads and writes parts of one place"),
                Some(_) => {}
                None => found.add(Test::Distinct(away, cell.bytes, size), apart(inst))?,
            }
        }
    }
    Ok(())
}

/// Longer steps are not looked at, so that no number of bytes is too large.
const LONGEST_STEP: u64 = 1 << 16;

/// An iteration that is run as it is but for its cells, if it has any.
pub(super) fn one_by_one(func: &ir::Function, l: &Loop, how: &LoopPolicy<'_>) -> Option<LoopBody> {
    let insts: Vec<ir::Inst> = l.blocks.iter().flat_map(|&b| func.layout.block_insts(b)).collect();
    let stores = |i: &ir::Inst| func.dfg.insts[*i].opcode() == Opcode::Store && accessed(func, *i).is_float();
    if insts.len() > MOST_INSTS || !insts.iter().any(stores) {
        return None;
    }
    let mut steps = Steps::new(func, l)?;
    steps.records = insts.iter().any(|&i| {
        let data = &func.dfg.insts[i];
        let flags = data.memflags().filter(|_| data.opcode().can_store());
        flags.is_some_and(|flags| steps.is_tape(func.dfg.mem_flags[flags]))
    });
    let (mut accesses, mut fixed) = (Vec::new(), Vec::new());
    for &inst in &insts {
        if let Some(a) = touched(&mut steps, inst).ok()? {
            if a.step == 0 { fixed.push(a) } else { accesses.push(a) }
        }
    }
    let (places, invariant) = places(&mut steps, fixed).ok()?;
    let mut cells: Vec<PromotedCell> = places.into_iter().map(PromotedCell::new).collect();
    if (how.reorder)(l.blocks[0]) {
        cells.iter_mut().for_each(|c| c.reduction = additions(&steps, &insts, c).unwrap_or_default());
    }
    let count = count(&mut steps, l).filter(|_| !cells.is_empty())?;
    let mut found = Tests::default();
    // What is known to be apart from all that is written.
    let is_steady = |a: &&LoopAccess| {
        let mut written =
            accesses.iter().filter(|s| s.stores).map(|s| s.inst).chain(cells.iter().map(PromotedCell::load));
        func.dfg.insts[a.inst].opcode() == Opcode::Load && written.all(|w| how.apart(w, a.inst))
    };
    let steady = invariant.iter().filter(is_steady).map(|a| (a.inst, a.at.clone())).collect();
    let read: Vec<(&LinearForm, i64, ir::Inst)> = invariant.iter().map(|a| (&a.at, a.width, a.inst)).collect();
    tests(&cells, &accesses, &read, how, &mut found).ok()?;
    let mut params = Vec::new();
    for (i, &p) in func.dfg.block_params(l.blocks[0]).iter().enumerate() {
        let counts = matches!(func.dfg.value_type(p), types::I32 | types::I64);
        params.push(steps.step(i).filter(|_| counts).map_or(LoopParam::Becomes(steps.nexts[i]), LoopParam::Step));
    }
    Some(LoopBody {
        one: true,
        nexts: std::mem::take(&mut steps.nexts),
        cells,
        count,
        tests: found.asked,
        widened: steps.widened.iter().map(|(&v, &(step, signed))| (v, step, signed)).collect(),
        alias: steps.aliases(),
        accesses,
        vectors: 1,
        width: 0,
        step: 0,
        kinds: HashMap::default(),
        invariant: steady,
        params,
    })
}

/// The additions to a cell in an iteration, if these are all that is done with it, and several.
fn additions(steps: &Steps<'_>, insts: &[ir::Inst], cell: &PromotedCell) -> Option<Vec<ir::Inst>> {
    let func = steps.func;
    let end = steps.args(cell.store)[0];
    let (mut reduction, mut sum) = (Vec::new(), func.dfg.first_result(cell.load()));
    loop {
        let reads = |i: &&ir::Inst| !cell.accesses.contains(*i) && steps.args(**i).contains(&sum);
        let mut users = insts.iter().filter(reads);
        match (users.next(), users.next(), sum == end, steps.nexts.contains(&sum)) {
            (None, None, true, false) => return (reduction.len() > 1).then_some(reduction),
            (Some(&inst), None, false, false) if func.dfg.insts[inst].opcode() == Opcode::Fadd => {
                if steps.args(inst).iter().all(|&a| a == sum) {
                    return None;
                }
                reduction.push(inst);
                sum = func.dfg.first_result(inst);
            }
            _ => return None,
        }
    }
}

/// Where an instruction reads or writes, apart from the tape; an error if that is not known, or if
/// it does more than that.
fn touched(steps: &mut Steps<'_>, inst: ir::Inst) -> Result<Option<LoopAccess>, ()> {
    let func = steps.func;
    let data = &func.dfg.insts[inst];
    let op = data.opcode();
    let (InstructionData::Load { arg, flags, offset, .. }
    | InstructionData::Store { args: [_, arg], flags, offset, .. }) = *data
    else {
        let asks = matches!(op, Opcode::Trapz | Opcode::Trapnz | Opcode::Jump | Opcode::Brif);
        let more = op.is_call() || op.can_load() || op.can_store() || op.other_side_effects();
        return if more && !asks { Err(()) } else { Ok(None) };
    };
    if steps.is_tape(func.dfg.mem_flags[flags]) {
        return Ok(None);
    }
    let at = steps.linear(steps.resolve(arg)).ok_or(())?;
    let step = steps.step_of(&at).filter(|s| s.unsigned_abs() < LONGEST_STEP).ok_or(())?;
    let at = at.plus_times(&LinearForm { plus: offset.into(), ..LinearForm::default() }, 1);
    let width = match op {
        Opcode::Load | Opcode::Store => i64::from(accessed(func, inst).bytes()),
        // Those that widen or narrow move no more.
        _ => 8,
    };
    Ok(Some(LoopAccess { inst, stores: op.can_store(), at, step, width }))
}
