//! Legality of vectorisation: what an iteration does, and whether several iterations can do it at
//! once.
//!
//! **Question.** May two or four iterations of a loop run as one? **Answer.** If each instruction
//! has a form in lanes, no access meets one of another iteration that it must not pass, and sums
//! may be reordered. Each value of an iteration is of one of the kinds of [`ValueKind`], and
//! instructions are read in order, so that kinds of operands are known. What nothing needs may be
//! of any kind; it is left to the scalar loop.
//!
//! **Cost.** One walk over an iteration, and all pairs of its accesses, until more than twelve
//! tests would be needed ([`MOST_TESTS`](super::body)).

use crate::map::HashMap;
use crate::marks::TAPE_FULL;
use crate::vectorise::body::{
    HANDED, LoopAccess, LoopBody, LoopParam, MOST_INSTS, Test, Tests, VECTOR, ValueKind, accessed, reduction,
};
use crate::vectorise::count::count;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self, Endianness, InstructionData, Opcode, Type, Value, types};
use cranelift_entity::EntitySet;
use smallvec::SmallVec;

use super::affine_loop::{Loop, Steps};
use super::outcome::LoopPolicy;
use super::promote::{self, cells, places};
use crate::linear::LinearForm;
use crate::vectorise::body::{CellAccesses, PromotedCell};

/// With so few accesses in an iteration, counting takes a good part of it, and two vectors are done
/// in one.
const FEW_ACCESSES: usize = 4;

/// Why loops that push are left alone.
const RECORDS: &str = "it records";

impl LoopBody {
    /// Iterations that are run at a time.
    pub(crate) fn at_a_time(&self) -> i64 {
        if self.one { 1 } else { self.lanes() * self.vectors }
    }

    /// Elements in a vector.
    pub(crate) fn lanes(&self) -> i64 {
        VECTOR / self.width
    }

    /// Read an iteration. An empty reason is that of loops with nothing to do with floats in
    /// memory.
    pub(crate) fn read(func: &ir::Function, l: &Loop, how: &LoopPolicy<'_>) -> Result<Self, &'static str> {
        let (reorder, stay) = ((how.reorder)(l.blocks[0]), (how.stay)(l.blocks[0]));
        let insts: Vec<ir::Inst> = l.blocks.iter().flat_map(|&b| func.layout.block_insts(b)).collect();
        let is_access = |i: &ir::Inst| matches!(func.dfg.insts[*i].opcode(), Opcode::Load | Opcode::Store);
        let is_float = |i: &ir::Inst| is_access(i) && accessed(func, *i).is_float();
        if !insts.iter().any(is_float) {
            return Err("");
        }
        if insts.len() > MOST_INSTS {
            return Err("an iteration of it is long");
        }
        let mut steps = Steps::new(func, l).ok_or("")?;
        let mut reader =
            CellReader { steps: &mut steps, width: 0, step: 0, accesses: Vec::new(), fixed: Vec::new(), stay };
        for &inst in &insts {
            reader.memory(inst)?;
        }
        let CellReader { width, step, accesses, fixed, .. } = reader;
        if width == 0 {
            return Err("it reads and writes nothing element after element");
        }
        let (places, invariant) = places(&mut steps, fixed)?;
        let invariant = invariant.into_iter().map(|a| (a.inst, a.at)).collect();
        let count = count(&mut steps, l).ok_or("how many iterations there are is not known when it is entered")?;
        let kinds = kinds(&mut steps, &insts, &places, &invariant, width, l);
        let kind = |v: Value| kinds.get(&v).copied().unwrap_or(ValueKind::Fixed);
        for a in accesses.iter().filter(|a| a.stores) {
            let data = steps.args(a.inst)[0];
            match kind(data) {
                ValueKind::Fixed | ValueKind::Invariant | ValueKind::Lane => {}
                ValueKind::Sum(_) => return Err("it stores what it adds up"),
                _ => return Err("it stores something that is not made element by element"),
            }
        }
        let params = params(&mut steps, l, &kinds, reorder, how.watched)?;
        let cells = cells(&steps, l, places, &kinds, reorder)?;
        let split = params.iter().any(|p| matches!(p, LoopParam::Sum { split: true, watched: false, .. }));
        if !split && cells.is_empty() && !accesses.iter().any(|a| a.stores) {
            return Err("it does nothing but add up, in order");
        }
        let tests = tests(func, &accesses, &cells, &invariant, step, how)?;
        let widened = steps.widened.iter().map(|(&v, &(step, signed))| (v, step, signed)).collect();
        let alias = steps.aliases();
        let vectors = if accesses.len() <= FEW_ACCESSES { 2 } else { 1 };
        let nexts = std::mem::take(&mut steps.nexts);
        Ok(Self {
            one: false,
            nexts,
            vectors,
            width,
            step,
            accesses,
            kinds,
            cells,
            invariant,
            params,
            count,
            tests,
            widened,
            alias,
        })
    }
}

/// Reads accesses.
struct CellReader<'s, 'a> {
    steps: &'s mut Steps<'a>,
    width: i64,
    step: i64,
    accesses: Vec<LoopAccess>,
    /// Accesses to one place in all iterations.
    fixed: Vec<LoopAccess>,
    /// Whether stores to one place are looked at.
    stay: bool,
}

impl CellReader<'_, '_> {
    fn memory(&mut self, inst: ir::Inst) -> Result<(), &'static str> {
        let func = self.steps.func;
        let data = &func.dfg.insts[inst];
        let op = data.opcode();
        let (InstructionData::Load { arg, flags, offset, .. }
        | InstructionData::Store { args: [_, arg], flags, offset, .. }) = *data
        else {
            return match op {
                Opcode::Trapnz if matches!(*data, InstructionData::CondTrap { code, .. } if code == TAPE_FULL) => {
                    Err(RECORDS)
                }
                _ if op.is_call() => Err("it calls"),
                Opcode::Jump | Opcode::Brif => Ok(()),
                _ if op.can_load() || op.can_store() || op.can_trap() || op.other_side_effects() => {
                    Err("something in it may trap, or is done for more than its result")
                }
                _ => Ok(()),
            };
        };
        let flags = func.dfg.mem_flags[flags];
        let stores = op.can_store();
        if stores && self.steps.is_tape(flags) {
            return Err(RECORDS);
        }
        if !stores && self.steps.is_fixed(func.dfg.first_result(inst)) {
            return Ok(());
        }
        let ty = accessed(func, inst);
        // The targets that have lanes are little-endian.
        let plain = matches!(op, Opcode::Load | Opcode::Store) && flags.explicit_endianness() != Some(Endianness::Big);
        if !plain || !matches!(ty, types::F64 | types::F32 | types::I64 | types::I32) {
            return Err("it reads or writes something that is no float");
        }
        let arg = self.steps.resolve(arg);
        let at = self.steps.linear(arg).ok_or("where it reads or writes is not in steps")?;
        let step = self.steps.step_of(&at).ok_or("where it reads or writes is not in steps")?;
        let at = at.plus_times(&LinearForm { plus: offset.into(), ..LinearForm::default() }, 1);
        let width = i64::from(ty.bytes());
        if step == 0 && (!stores || self.stay) {
            self.fixed.push(LoopAccess { inst, stores, at, step, width });
            return Ok(());
        }
        if step.checked_abs() != Some(width) || self.width != 0 && (self.width, self.step) != (width, step) {
            return Err("it does not read and write neighbours one after the other");
        }
        (self.width, self.step) = (width, step);
        self.accesses.push(LoopAccess { inst, stores, at, step, width });
        Ok(())
    }
}

/// Of which kind the values of an iteration are; what is not there comes from outside.
fn kinds(
    steps: &mut Steps<'_>,
    insts: &[ir::Inst],
    places: &[CellAccesses],
    invariant: &HashMap<ir::Inst, LinearForm>,
    width: i64,
    l: &Loop,
) -> HashMap<Value, ValueKind> {
    let func = steps.func;
    let mut kinds: HashMap<Value, ValueKind> = HashMap::default();
    for (i, &p) in func.dfg.block_params(l.blocks[0]).iter().enumerate() {
        let kind = match func.dfg.value_type(p) {
            _ if steps.is_fixed(p) => ValueKind::Fixed,
            types::F64 | types::F32 => ValueKind::Sum(i),
            _ => ValueKind::Other,
        };
        kinds.insert(p, kind);
    }
    let params = kinds.len();
    for &inst in insts {
        let &[r] = func.dfg.inst_results(inst) else { continue };
        let kind = if let Some(c) = places.iter().position(|p| p.1[0].inst == inst) {
            ValueKind::Sum(params + c)
        } else if steps.is_fixed(r) {
            ValueKind::Fixed
        } else if invariant.contains_key(&inst) {
            ValueKind::Invariant
        } else {
            let args = steps.args(inst);
            let of: SmallVec<[ValueKind; 4]> =
                args.iter().map(|a| kinds.get(a).copied().unwrap_or(ValueKind::Fixed)).collect();
            kind_of(func, inst, &args, &of, width)
        };
        kinds.insert(r, kind);
    }
    kinds
}

fn kind_of(func: &ir::Function, inst: ir::Inst, args: &[Value], of: &[ValueKind], width: i64) -> ValueKind {
    let op = func.dfg.insts[inst].opcode();
    let ty = |v: Value| func.dfg.value_type(v);
    let to = ty(func.dfg.first_result(inst));
    let scalar = |t: Type| !t.is_vector() && i64::from(t.bytes()) == width;
    let vector = |t: Type| i64::from(t.lane_type().bytes()) == width && i64::from(t.bytes()) == VECTOR;
    let among = |allowed: &[ValueKind]| of.iter().all(|k| allowed.contains(k));
    let lanes = [ValueKind::Fixed, ValueKind::Invariant, ValueKind::Lane];
    let first = || {
        let fits =
            |(&v, k): (&Value, &ValueKind)| *k == ValueKind::First || *k == ValueKind::Fixed && same_lanes(func, v);
        of.contains(&ValueKind::First) && args.iter().zip(of).all(fits)
    };
    if op != Opcode::Load && !op.can_load() && among(&[ValueKind::Fixed, ValueKind::Invariant]) {
        return ValueKind::Invariant;
    }
    match op {
        // One element after another; whatever else is read has been refused.
        Opcode::Load if scalar(to) => ValueKind::Lane,
        Opcode::Fadd | Opcode::Fsub | Opcode::Fmul | Opcode::Fdiv | Opcode::Sqrt | Opcode::Fneg | Opcode::Fabs
            if scalar(to) =>
        {
            let sums: SmallVec<[ValueKind; 2]> =
                of.iter().copied().filter(|k| matches!(k, ValueKind::Sum(_))).collect();
            match sums[..] {
                [] if among(&lanes) => ValueKind::Lane,
                [sum] if of.iter().all(|k| *k == sum || lanes.contains(k)) => sum,
                _ => ValueKind::Other,
            }
        }
        Opcode::Band | Opcode::Bor | Opcode::Bxor | Opcode::Bnot if scalar(to) && among(&lanes) => ValueKind::Lane,
        Opcode::Band | Opcode::Bor | Opcode::Bxor | Opcode::Bnot if vector(to) && first() => ValueKind::First,
        Opcode::Fcmp if !is_compared(func, inst) => ValueKind::Other,
        Opcode::Fcmp if scalar(ty(args[0])) && among(&lanes) => ValueKind::Truth,
        Opcode::Fcmp if vector(to) && first() => ValueKind::First,
        Opcode::ScalarToVector if vector(to) && among(&[ValueKind::Lane]) => ValueKind::First,
        // Whatever the other lanes are.
        Opcode::Insertlane if vector(to) && of == [ValueKind::Fixed, ValueKind::Lane] => match func.dfg.insts[inst] {
            InstructionData::TernaryImm8 { imm: 0, .. } => ValueKind::First,
            _ => ValueKind::Other,
        },
        Opcode::Bitcast if vector(to) && vector(ty(args[0])) && first() => ValueKind::First,
        Opcode::Bitcast if scalar(to) && scalar(ty(args[0])) && among(&[ValueKind::Lane]) => ValueKind::Lane,
        Opcode::Extractlane if scalar(to) && among(&[ValueKind::First]) => match func.dfg.insts[inst] {
            InstructionData::BinaryImm8 { imm: 0, .. } => ValueKind::Lane,
            _ => ValueKind::Other,
        },
        // One condition for all lanes, or one for each.
        Opcode::Select
            if scalar(to)
                && matches!(of[0], ValueKind::Truth | ValueKind::Fixed)
                && of[1..].iter().all(|k| lanes.contains(k)) =>
        {
            ValueKind::Lane
        }
        _ => ValueKind::Other,
    }
}

/// Whether a comparison is one that all back ends have for vectors.
fn is_compared(func: &ir::Function, inst: ir::Inst) -> bool {
    use FloatCC::{Equal, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, NotEqual};
    let all = [Equal, NotEqual, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual];
    matches!(func.dfg.insts[inst], InstructionData::FloatCompare { cond, .. } if all.contains(&cond))
}

/// Whether a vector is a constant with the same in all lanes.
fn same_lanes(func: &ir::Function, v: Value) -> bool {
    let Some(inst) = func.dfg.value_def(v).inst() else { return false };
    let InstructionData::UnaryConst { opcode: Opcode::Vconst, constant_handle } = func.dfg.insts[inst] else {
        return false;
    };
    let bytes = func.dfg.constants.get(constant_handle).as_slice();
    let lane = func.dfg.value_type(v).lane_type().bytes() as usize;
    bytes.chunks(lane).all(|c| c == &bytes[..lane])
}

/// What becomes of each parameter of the header.
fn params(
    steps: &mut Steps<'_>,
    l: &Loop,
    kinds: &HashMap<Value, ValueKind>,
    reorder: bool,
    watched: &EntitySet<Value>,
) -> Result<Vec<LoopParam>, &'static str> {
    let func = steps.func;
    let all = func.dfg.block_params(l.blocks[0]);
    let mut out = Vec::with_capacity(all.len());
    for (i, &p) in all.iter().enumerate() {
        let next = steps.nexts[i];
        let ty = func.dfg.value_type(p);
        let param = if steps.is_fixed(p) {
            LoopParam::Fixed
        } else if ty == types::I64 || ty == types::I32 {
            let step = steps.step(i).ok_or(HANDED)?;
            LoopParam::Step(step)
        } else if steps.is_fixed(next) {
            LoopParam::Becomes(next)
        } else if kinds.get(&next) == Some(&ValueKind::Sum(i)) {
            let (reduction, adds) = reduction(steps, kinds, i, p, next).ok_or(HANDED)?;
            let watched = reduction.iter().all(|&i| watched.contains(func.dfg.first_result(i)));
            LoopParam::Sum { reduction, split: adds && (reorder || watched), watched }
        } else {
            return Err(HANDED);
        };
        out.push(param);
    }
    Ok(out)
}

/// Pairs of accesses of which it is not known that they do not meet.
fn tests(
    func: &ir::Function,
    accesses: &[LoopAccess],
    cells: &[PromotedCell],
    invariant: &HashMap<ir::Inst, LinearForm>,
    step: i64,
    how: &LoopPolicy<'_>,
) -> Result<Vec<Test>, &'static str> {
    let mut found = Tests::default();
    for (k, later) in accesses.iter().enumerate() {
        for earlier in accesses[..k].iter().filter(|a| a.stores || later.stores) {
            let along = later.at.plus_times(&earlier.at, -1);
            match along.known() {
                Some(d) if 0 < d * step.signum() && d * step.signum() < VECTOR => {
                    return Err("an iteration reads or writes what another one has written just before");
                }
                Some(_) => {}
                None => found.add(Test::Apart(along), how.apart(later.inst, earlier.inst))?,
            }
        }
    }
    let mut places: Vec<(&LinearForm, i64, ir::Inst)> = Vec::new();
    // In the order of the instructions.
    let mut invariant: Vec<_> = invariant.iter().collect();
    invariant.sort_by_key(|o| *o.0);
    for (&inst, at) in invariant {
        let bytes = i64::from(accessed(func, inst).bytes());
        if !places.iter().any(|p| (p.0, p.1) == (at, bytes) && !how.apart(p.2, inst)) {
            places.push((at, bytes, inst));
            for store in accesses.iter().filter(|a| a.stores) {
                let aside = Test::Aside(at.plus_times(&store.at, -1), bytes, step, step.abs());
                found.add(aside, how.apart(store.inst, inst))?;
            }
        }
    }
    promote::tests(cells, accesses, &places, how, &mut found)?;
    Ok(found.asked)
}
