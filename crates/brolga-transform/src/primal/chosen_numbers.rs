//! Sinking of conversions: a number that a `select` may take is converted on the side that takes
//! it.
//!
//! **Problem.** C writes `tag ? (double)u.i : u.d`, and an optimiser makes both numbers and selects
//! one. Of an integer that is loaded and converted the run asks whether a float lies there
//! ([`brolga_analysis::activity::numbers`]): here one does, whenever the conversion does not count.
//!
//! **Answer.** The `select` becomes a branch again. What only that arm needs moves to its side, and
//! what the conversion is made of is loaded there once more. The first load stays, for its other
//! uses and for its faults.
//!
//! ```text
//! v1 = load.i64 v0                      v1 = load.i64 v0
//! v2 = fcvt_from_sint.f64 v1            v3 = load.f64 v0
//! v3 = load.f64 v0                      brif v4, block1, block2(v3)
//! v5 = select v4, v2, v3            block1:
//!                                       v6 = load.i64 v0
//!                                       v2 = fcvt_from_sint.f64 v6
//!                                       jump block2(v2)
//!                                   block2(v5: f64):
//! ```
//!
//! The same for a `select` of integers of which a number is made. Not for what was loaded in
//! another block, or before a call or a store that may be to the same bytes: memory may have
//! changed.
//!
//! **Cost.** Nothing where there is no conversion beside a `select`; else the uses of all values,
//! and a walk over the block before each `select`. In the run a branch.

use brolga_analysis::query::cell::{Base, cell_of};
use brolga_analysis::query::{access_address, access_bytes, access_offset, is_plain_integer};
use brolga_ir::map::HashMap;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, Opcode, types};
use cranelift_entity::EntitySet;
use smallvec::SmallVec;

/// Sink conversions and the loads that they read to the sides of a branch.
pub(crate) fn chosen_numbers(func: &mut ir::Function) {
    let has = |is: &dyn Fn(Opcode) -> bool| {
        let mut insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
        insts.any(|inst| is(func.dfg.insts[inst].opcode()))
    };
    if !has(&|op| op == Opcode::Select) || !has(&is_conversion) {
        return;
    }
    let mut users: HashMap<ir::Value, Users> = HashMap::default();
    let mut selects = Vec::new();
    for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
        for v in func.dfg.inst_values(inst) {
            users.entry(v).or_default().push(inst);
        }
        if func.dfg.insts[inst].opcode() == Opcode::Select {
            selects.push(inst);
        }
    }
    let mut cx = ChosenCx { func, users };
    // Those that are a part of another one's arm come after it.
    let changed = selects.into_iter().rev().filter(|&select| cx.select(select)).count() > 0;
    if changed {
        func.dfg.resolve_all_aliases();
    }
}

/// What uses a value.
type Users = SmallVec<[ir::Inst; 4]>;

/// Steps from a `select` of integers to a conversion, and from there to a load.
const MOST_STEPS: u32 = 8;

/// The least float.
const LEAST_FLOAT: u32 = 4;

fn is_conversion(op: Opcode) -> bool {
    matches!(op, Opcode::FcvtFromSint | Opcode::FcvtFromUint)
}

/// What an arm of a `select` is made of.
struct Arm {
    /// Instructions that nothing else needs, in order.
    moved: Vec<ir::Inst>,
    /// Instructions that are done once more, in order, and the value of each that is asked for.
    repeated: Vec<ir::Inst>,
}

struct ChosenCx<'a> {
    func: &'a mut ir::Function,
    users: HashMap<ir::Value, Users>,
}

impl ChosenCx<'_> {
    /// Make a branch of a `select`, if that is of use. Whether it was.
    fn select(&mut self, select: ir::Inst) -> bool {
        let &[c, x, y] = self.func.dfg.inst_args(select) else { return false };
        let result = self.func.dfg.first_result(select);
        let ty = self.func.dfg.value_type(result);
        let counts = ty.is_float() || matches!(ty, types::I32 | types::I64) && self.becomes_number(result, 0);
        if x == y || c == x || c == y || !counts || !self.func.dfg.value_type(c).is_int() {
            return false;
        }
        let arms = [x, y].map(|v| self.arm(select, v));
        if arms.iter().all(Option::is_none) {
            return false;
        }
        let func = &mut *self.func;
        let here = func.layout.inst_block(select).expect("it is in a block");
        let srcloc = func.srcloc(select);
        let behind = func.dfg.make_block();
        func.layout.split_block(behind, select);
        func.layout.remove_inst(select);
        func.dfg.clear_results(select);
        let met = func.dfg.append_block_param(behind, ty);
        func.dfg.change_to_alias(result, met);
        let to = arms.map(|arm| arm.map(|arm| (self.func.dfg.make_block(), arm)));
        let [then, other] = [(&to[0], x), (&to[1], y)].map(|(to, v)| match to {
            Some((block, _)) => (*block, SmallVec::<[ir::BlockArg; 1]>::new()),
            None => (behind, [v.into()].into_iter().collect()),
        });
        let mut pos = FuncCursor::new(self.func).at_bottom(here);
        pos.set_srcloc(srcloc);
        pos.ins().brif(c, then.0, &then.1, other.0, &other.1);
        for ((block, arm), v) in to.into_iter().zip([x, y]).filter_map(|(to, v)| Some((to?, v))) {
            self.func.layout.insert_block(block, behind);
            self.fill(block, &arm, v, (behind, srcloc));
        }
        true
    }

    /// Give an arm its block.
    fn fill(&mut self, block: ir::Block, arm: &Arm, v: ir::Value, (behind, srcloc): (ir::Block, ir::SourceLoc)) {
        let mut copies: HashMap<ir::Value, ir::Value> = HashMap::default();
        for &inst in &arm.repeated {
            let old = self.func.dfg.first_result(inst);
            let ty = self.func.dfg.ctrl_typevar(inst);
            let data = self.func.dfg.insts[inst];
            let new = self.func.dfg.make_inst(data);
            self.func.dfg.make_inst_results(new, ty);
            let at = self.func.srcloc(inst);
            self.func.set_srcloc(new, at);
            self.func.layout.append_inst(new, block);
            for arg in self.func.dfg.inst_args_mut(new) {
                *arg = copies.get(arg).copied().unwrap_or(*arg);
            }
            self.note_uses(new);
            copies.insert(old, self.func.dfg.first_result(new));
        }
        for &inst in &arm.moved {
            self.func.layout.remove_inst(inst);
            self.func.layout.append_inst(inst, block);
            for k in 0..self.func.dfg.inst_args(inst).len() {
                let old = self.func.dfg.inst_args(inst)[k];
                if let Some(&new) = copies.get(&old) {
                    self.func.dfg.inst_args_mut(inst)[k] = new;
                    self.users.entry(old).or_default().retain(|user| *user != inst);
                    self.users.entry(new).or_default().push(inst);
                }
            }
        }
        let v = copies.get(&v).copied().unwrap_or(v);
        let mut pos = FuncCursor::new(self.func).at_bottom(block);
        pos.set_srcloc(srcloc);
        let jump = pos.ins().jump(behind, &[v.into()]);
        self.users.entry(v).or_default().push(jump);
    }

    fn note_uses(&mut self, inst: ir::Inst) {
        for v in self.func.dfg.inst_values(inst) {
            self.users.entry(v).or_default().push(inst);
        }
    }

    /// What an arm is made of, if a number in it is made of memory.
    fn arm(&self, select: ir::Inst, v: ir::Value) -> Option<Arm> {
        let func = &*self.func;
        let here = func.layout.inst_block(select)?;
        let mut moved: EntitySet<ir::Inst> = EntitySet::new();
        let mut loads: EntitySet<ir::Inst> = EntitySet::new();
        let (mut order, mut next, mut is_same) = (Vec::new(), func.layout.prev_inst(select), true);
        let mut stores: SmallVec<[ir::Inst; 4]> = SmallVec::new();
        // After what it hands its value to nothing of an arm is left to find.
        let mut left: EntitySet<ir::Value> = EntitySet::new();
        left.insert(v);
        while let Some(inst) = next {
            next = func.layout.prev_inst(inst);
            let op = func.dfg.insts[inst].opcode();
            match op {
                Opcode::Store => stores.push(inst),
                _ => is_same &= !op.can_store() && !op.is_call() && !op.other_side_effects(),
            }
            let is_there = || is_same && stores.iter().all(|&store| are_apart(func, store, inst));
            if op.can_load() && may_be_float(func, inst) && is_there() {
                loads.insert(inst);
            } else if self.is_movable(inst) && func.dfg.inst_results(inst).iter().any(|r| left.contains(*r)) {
                let alone = |user: &ir::Inst| moved.contains(*user) || *user == select;
                let users = func.dfg.inst_results(inst).iter().flat_map(|r| self.users.get(r).into_iter().flatten());
                let is_condition = func.dfg.inst_results(inst).contains(&func.dfg.inst_args(select)[0]);
                if users.into_iter().all(alone) && !is_condition {
                    moved.insert(inst);
                    order.push(inst);
                    left.extend(func.dfg.inst_args(inst).iter().copied());
                }
            }
        }
        order.reverse();
        let is_int = !func.dfg.value_type(v).is_float();
        let made_of =
            |&inst: &ir::Inst| is_conversion(func.dfg.insts[inst].opcode()).then(|| func.dfg.inst_args(inst)[0]);
        let ends: Vec<ir::Value> = order.iter().filter_map(made_of).chain(is_int.then_some(v)).collect();
        let mut found =
            RepeatedInsts { cx: self, here, moved: &moved, loads: &loads, made: Vec::new(), seen: HashMap::default() };
        let any = ends.into_iter().filter(|&end| found.made_of_memory(end, 0)).count() > 0;
        any.then_some(Arm { moved: order, repeated: found.made })
    }

    /// Whether an instruction may be left out where its value is not used.
    fn is_movable(&self, inst: ir::Inst) -> bool {
        let op = self.func.dfg.insts[inst].opcode();
        let effects = op.can_load() || op.can_store() || op.can_trap() || op.other_side_effects();
        !(effects || op.is_call() || op.is_terminator() || self.func.dfg.inst_results(inst).len() != 1)
    }

    /// Whether an integer is converted, as it is or by arithmetic.
    fn becomes_number(&self, v: ir::Value, steps: u32) -> bool {
        let Some(users) = self.users.get(&v).filter(|_| steps < MOST_STEPS) else { return false };
        users.iter().any(|&user| {
            let &[r] = self.func.dfg.inst_results(user) else { return false };
            is_conversion(self.func.dfg.insts[user].opcode())
                || self.func.dfg.value_type(r).is_int() && self.is_movable(user) && self.becomes_number(r, steps + 1)
        })
    }
}

/// Whether all of a float's bits, or half of them, may be loaded as an integer.
fn may_be_float(func: &ir::Function, load: ir::Inst) -> bool {
    let &[v] = func.dfg.inst_results(load) else { return false };
    func.dfg.insts[load].opcode() == Opcode::Load
        && func.dfg.value_type(v).is_int()
        && access_bytes(func, load) >= LEAST_FLOAT
        && !is_plain_integer(func, load)
}

/// Whether a store is to other bytes than a load is from: both count from the same place, or the
/// one is to a variable before a WebAssembly memory, as the stack pointer is, and the other
/// from the memory.
fn are_apart(func: &ir::Function, store: ir::Inst, load: ir::Inst) -> bool {
    let cell = |inst| {
        let address = access_address(func, inst)?;
        Some((cell_of(func, address, access_offset(func, inst)), i64::from(access_bytes(func, inst))))
    };
    let (Some(((to, at), n)), Some(((from, there), m))) = (cell(store), cell(load)) else { return false };
    let is_memory = |v| func.special_param(ir::ArgumentPurpose::VMContext) == Some(v);
    match (to, from) {
        _ if to == from => at.saturating_add(n) <= there || there.saturating_add(m) <= at,
        (Base::Value(memory), Base::Sum(x, y)) if is_memory(memory) => {
            let index = if x == memory { y } else { x };
            (x == memory || y == memory)
                && func.dfg.value_type(index) == types::I32
                && at.saturating_add(n) <= 0
                && there >= 0
        }
        _ => false,
    }
}

/// What is done once more.
struct RepeatedInsts<'a, 'b> {
    cx: &'a ChosenCx<'b>,
    here: ir::Block,
    moved: &'a EntitySet<ir::Inst>,
    loads: &'a EntitySet<ir::Inst>,
    made: Vec<ir::Inst>,
    seen: HashMap<ir::Value, bool>,
}

impl RepeatedInsts<'_, '_> {
    /// Whether a value is made of memory that may hold a float. What it is made of is noted.
    fn made_of_memory(&mut self, v: ir::Value, steps: u32) -> bool {
        if let Some(&known) = self.seen.get(&v) {
            return known;
        }
        let found = self.look_at(v, steps);
        self.seen.insert(v, found);
        found
    }

    fn look_at(&mut self, v: ir::Value, steps: u32) -> bool {
        let func = &*self.cx.func;
        let Some(inst) = func.dfg.value_def(v).inst().filter(|_| steps < MOST_STEPS) else { return false };
        if func.layout.inst_block(inst) != Some(self.here) || !func.dfg.value_type(v).is_int() {
            return false;
        }
        if self.loads.contains(inst) {
            self.made.push(inst);
            return true;
        }
        if !self.cx.is_movable(inst) {
            return false;
        }
        let args: SmallVec<[ir::Value; 4]> = func.dfg.inst_args(inst).iter().copied().collect();
        let any = args.into_iter().filter(|&a| self.made_of_memory(a, steps + 1)).count() > 0;
        if any && !self.moved.contains(inst) {
            self.made.push(inst);
        }
        any
    }
}
