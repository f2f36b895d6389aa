//! The inverse of each piece, as CLIF.
//!
//! **Answer.** A straight piece loads what it has left, goes back to what was there, and stores
//! that. A loop is counted forwards:
//!
//! ```text
//! count:  (p…, n) by the control of the loop alone, until it is left
//! back:   while n > 0:  p… of the iteration before;  the body, undone;  n - 1
//! ```

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{Block, Inst, InstBuilder, MemFlagsData, Opcode, Type, Value, ValueDef, types};

use super::pure::PureLoops;
use super::solve::{Same, UndoStep, is_undone, steps, undo};
use super::structure::{UndoLoop, UndoPart};
use super::view::{MemoryRoot, Undoable, View, refused};
use crate::map::{HashMap, HashSet};

/// An inverse that is being made.
pub(super) struct Inverse<'v, 'f, 'o, 'p> {
    pub view: &'v View<'f>,
    pub pure: PureLoops<'p>,
    pub pos: FuncCursor<'o>,
    /// Steady values that are there, by those of the function.
    pub known: HashMap<Value, Value>,
}

/// A place of a state, while a piece runs.
struct StateCell {
    state: usize,
    at: Linear,
    ty: Type,
    /// The first load or store.
    inst: Inst,
    /// What is found there before anything is stored.
    before: Option<Value>,
    /// What is stored last.
    behind: Option<Value>,
    store: Option<Inst>,
}

/// An address: multiples of values, and a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Linear {
    terms: std::collections::BTreeMap<u32, i64>,
    number: i64,
}

const BY_HAND: &str = "write an inverse by hand: `inverse_pair`";

impl Inverse<'_, '_, '_, '_> {
    /// Undo pieces, the last first.
    pub fn undo_all(&mut self, parts: &[UndoPart]) -> Undoable<()> {
        parts.iter().for_each(|part| self.pure.show(part, true));
        for part in parts.iter().rev() {
            self.pure.show(part, false);
            match part {
                // It has changed nothing.
                UndoPart::Pure(_) => {}
                UndoPart::Straight(insts) => self.straight(insts)?,
                UndoPart::Again(repeated) => self.again(repeated)?,
                UndoPart::Choice { by, at, then, other } => {
                    let by = self.steady(*by, *at)?;
                    let [first, second, join] = [(); 3].map(|()| self.pos.func.dfg.make_block());
                    self.pos.ins().brif(by, first, &[], second, &[]);
                    for (block, parts) in [(first, then), (second, other)] {
                        let around = self.known.clone();
                        self.open(block);
                        self.undo_all(parts)?;
                        self.pos.ins().jump(join, &[]);
                        self.known = around;
                    }
                    self.open(join);
                }
            }
        }
        Ok(())
    }

    pub fn open(&mut self, block: Block) {
        self.pos.insert_block(block);
        self.pos.goto_bottom(block);
    }

    /// Whether a value can be computed again here.
    fn is_steady(&self, v: Value) -> bool {
        self.is_steady_of(v, &mut HashMap::default())
    }

    /// The same, with what is known of others.
    pub fn is_steady_of(&self, v: Value, seen: &mut HashMap<Value, bool>) -> bool {
        let v = self.view.resolved(v);
        if self.known.contains_key(&v) {
            return true;
        }
        if let Some(&found) = seen.get(&v) {
            return found;
        }
        if let Some(number) = self.pure.around(self.view.block_of(v)) {
            let found = self.runs_again(number, seen);
            seen.insert(v, found);
            return found;
        }
        let dfg = &self.view.func.dfg;
        let found = match dfg.value_def(v) {
            ValueDef::Result(inst, _) => {
                let again = dfg.insts[inst].opcode() != Opcode::Load || self.view.is_steady_load(inst);
                again && dfg.inst_args(inst).iter().all(|&a| self.is_steady_of(a, seen))
            }
            ValueDef::Param(block, i) => self.sole(block, i).is_some_and(|v| self.is_steady_of(v, seen)),
            ValueDef::Union(..) => false,
        };
        seen.insert(v, found);
        found
    }

    /// What a parameter of a block is that is entered from one place.
    fn sole(&self, block: Block, param: usize) -> Option<Value> {
        let func = self.view.func;
        let mut found = None;
        for inst in func.layout.blocks().filter_map(|b| func.layout.last_inst(b)) {
            let dfg = &func.dfg;
            for call in dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
                if call.block(&dfg.value_lists) == block {
                    let given = call.args(&dfg.value_lists).nth(param)?.as_value()?;
                    if found.replace(given).is_some() {
                        return None;
                    }
                }
            }
        }
        found
    }

    /// Compute a value again, which an instruction needs.
    pub fn steady(&mut self, v: Value, at: Inst) -> Undoable<Value> {
        let v = self.view.resolved(v);
        if let Some(&known) = self.known.get(&v) {
            return Ok(known);
        }
        if !self.is_steady(v) {
            let why = format!("`{}` needs {v}, which is made of the state", self.view.text(at));
            return refused(at, why, "let addresses, branches and limits of loops depend on what stays as it is");
        }
        if let Some(number) = self.pure.around(self.view.block_of(v)) {
            self.run_again(number)?;
            return Ok(self.known[&v]);
        }
        let new = match self.view.func.dfg.value_def(v) {
            ValueDef::Param(block, i) => {
                let given = self.sole(block, i).expect("it is steady");
                self.steady(given, at)?
            }
            ValueDef::Result(inst, n) => {
                let args = self.view.func.dfg.inst_args(inst).to_vec();
                let args = args.into_iter().map(|a| self.steady(a, at)).collect::<Undoable<Vec<Value>>>()?;
                self.copied(inst, &args)[n]
            }
            ValueDef::Union(..) => unreachable!("it is steady"),
        };
        self.known.insert(v, new);
        Ok(new)
    }

    /// A copy of an instruction, of these operands.
    pub fn copied(&mut self, inst: Inst, args: &[Value]) -> Vec<Value> {
        let copy = self.pos.func.dfg.clone_inst(inst);
        let mut next = args.iter();
        self.pos.func.dfg.map_inst_values(copy, |_| *next.next().expect("there is one for each"));
        self.pos.insert_inst(copy);
        let loc = self.view.func.srcloc(inst);
        self.pos.func.set_srcloc(copy, loc);
        self.pos.func.dfg.inst_results(copy).to_vec()
    }

    /// An address as a sum.
    fn linear(&self, v: Value) -> Linear {
        self.linear_of(v, &mut HashMap::default())
    }

    /// The same, with what is known of others.
    fn linear_of(&self, v: Value, seen: &mut HashMap<Value, Linear>) -> Linear {
        let v = self.view.resolved(v);
        if let Some(found) = seen.get(&v) {
            return found.clone();
        }
        let found = self.sum(v, seen);
        seen.insert(v, found.clone());
        found
    }

    fn sum(&self, v: Value, seen: &mut HashMap<Value, Linear>) -> Linear {
        let atom = || Linear { terms: [(v.as_u32(), 1)].into(), number: 0 };
        let dfg = &self.view.func.dfg;
        let ValueDef::Result(inst, _) = dfg.value_def(v) else { return atom() };
        let mut of = |i: usize| self.linear_of(dfg.inst_args(inst)[i], seen);
        match dfg.insts[inst].opcode() {
            Opcode::Iconst => match dfg.insts[inst] {
                cranelift_codegen::ir::InstructionData::UnaryImm { imm, .. } => {
                    Linear { number: imm.bits(), ..Linear::default() }
                }
                _ => atom(),
            },
            Opcode::Iadd => of(0).plus(&of(1), 1),
            Opcode::Isub => of(0).plus(&of(1), -1),
            Opcode::Imul | Opcode::Ishl => {
                let (x, k) = (of(0), of(1));
                let (x, k) = if x.terms.is_empty() && !k.terms.is_empty() { (k, x) } else { (x, k) };
                let is_shift = dfg.insts[inst].opcode() == Opcode::Ishl;
                match k.terms.is_empty() {
                    true if is_shift && (0..63).contains(&k.number) => Linear::default().plus(&x, 1 << k.number),
                    true if !is_shift => Linear::default().plus(&x, k.number),
                    _ => atom(),
                }
            }
            _ => atom(),
        }
    }

    /// The places that a piece touches, and which of its values are the same.
    fn cells(&self, insts: &[Inst]) -> Undoable<(Vec<StateCell>, Same)> {
        let (view, dfg) = (self.view, &self.view.func.dfg);
        let (mut cells, mut same): (Vec<StateCell>, Same) = Default::default();
        for &inst in insts {
            let op = dfg.insts[inst].opcode();
            let Some(MemoryRoot::State(state)) =
                (op.can_load() || op.can_store()).then(|| view.place(view.address(inst))).flatten()
            else {
                continue;
            };
            if !view.written.contains(&state) {
                continue;
            }
            let mut at = self.linear(view.address(inst));
            at.number += view.offset(inst);
            let stored = (op == Opcode::Store).then(|| view.resolved(dfg.inst_args(inst)[0]));
            let stored = stored.map(|v| same.get(&v).copied().unwrap_or(v));
            let ty = dfg.value_type(stored.unwrap_or_else(|| dfg.first_result(inst)));
            let known = cells.iter().position(|c| c.state == state && c.at == at && c.ty == ty);
            let k = known.unwrap_or_else(|| {
                cells.push(StateCell { state, at, ty, inst, before: None, behind: None, store: None });
                cells.len() - 1
            });
            let cell = &mut cells[k];
            match stored {
                Some(v) => (cell.behind, cell.store) = (Some(v), Some(inst)),
                None => {
                    let own = dfg.first_result(inst);
                    match cell.behind.or(cell.before) {
                        Some(v) => drop(same.insert(own, v)),
                        None => cell.before = Some(own),
                    }
                }
            }
        }
        Self::apart(view, &cells)?;
        Ok((cells, same))
    }

    /// That places that are stored to share nothing with others.
    fn apart(view: &View<'_>, cells: &[StateCell]) -> Undoable<()> {
        for (i, a) in cells.iter().enumerate() {
            for b in cells[..i].iter().filter(|b| b.state == a.state) {
                let Some(store) = a.store.or(b.store) else { continue };
                let far = a.at.number - b.at.number;
                let apart =
                    a.at.terms == b.at.terms && (far >= i64::from(b.ty.bytes()) || -far >= i64::from(a.ty.bytes()));
                if !apart {
                    let other = if store == a.inst || a.store == Some(store) { b.inst } else { a.inst };
                    let why = format!("it may store to what `{}` accesses", view.text(other));
                    let help = "pass what is read as a state of its own, or write an inverse by hand";
                    return refused(store, why, help);
                }
            }
        }
        Ok(())
    }

    /// Undo a straight piece.
    fn straight(&mut self, insts: &[Inst]) -> Undoable<()> {
        let (cells, same) = self.cells(insts)?;
        if cells.iter().all(|c| c.store.is_none()) {
            return Ok(());
        }
        let mut wanted = Vec::new();
        for cell in &cells {
            let Some(store) = cell.store else { continue };
            let Some(before) = cell.before else {
                let why = "it overwrites what it has not read, so that is lost";
                return refused(store, why, "exchange or add, so that the old contents are found again");
            };
            wanted.push(before);
        }
        let now: HashSet<Value> = cells.iter().filter_map(|c| c.behind.or(c.before)).collect();
        let found = steps(self.view, insts, &same, now, |v| self.is_steady(v), &wanted);
        let found = match found {
            Ok(found) => found,
            Err(known) => return self.blamed(insts, &same, &known, &wanted),
        };
        let around = self.known.clone();
        let flags = MemFlagsData::new();
        let mut places = Vec::new();
        for cell in &cells {
            let address = self.steady(self.view.address(cell.inst), cell.inst)?;
            let offset = self.view.offset(cell.inst) as i32;
            let v = self.pos.ins().load(cell.ty, flags, address, offset);
            self.known.insert(cell.behind.or(cell.before).expect("it is loaded or stored"), v);
            places.push((address, offset));
        }
        for (v, step) in found {
            let v_new = self.taken(v, step, &same)?;
            self.known.insert(v, v_new);
        }
        for (cell, (address, offset)) in cells.iter().zip(places) {
            let (Some(store), Some(before)) = (cell.store, cell.before) else { continue };
            let v = self.steady(before, store)?;
            self.pos.ins().store(flags, v, address, offset);
        }
        self.known = around;
        Ok(())
    }

    /// A value by one step.
    fn taken(&mut self, v: Value, step: UndoStep, same: &Same) -> Undoable<Value> {
        let dfg = &self.view.func.dfg;
        let named = |v: Value| {
            let v = self.view.resolved(v);
            same.get(&v).copied().unwrap_or(v)
        };
        let (UndoStep::Forward(inst) | UndoStep::Back(inst, _)) = step;
        let args: Vec<Value> = dfg.inst_args(inst).iter().map(|&a| named(a)).collect();
        let result = named(dfg.first_result(inst));
        match step {
            UndoStep::Forward(_) => {
                let args = args.into_iter().map(|a| self.steady(a, inst)).collect::<Undoable<Vec<Value>>>()?;
                Ok(self.copied(inst, &args)[0])
            }
            UndoStep::Back(_, operand) => {
                debug_assert_eq!(args[operand], v);
                let r = self.steady(result, inst)?;
                let other = (args.len() == 2).then(|| self.steady(args[1 - operand], inst)).transpose()?;
                Ok(undo(self.view, &mut self.pos, inst, operand, r, other))
            }
        }
    }

    /// The instruction that what is wanted is lost in.
    fn blamed<T>(&self, insts: &[Inst], same: &Same, known: &HashSet<Value>, wanted: &[Value]) -> Undoable<T> {
        let dfg = &self.view.func.dfg;
        let named = |v: Value| {
            let v = self.view.resolved(v);
            same.get(&v).copied().unwrap_or(v)
        };
        let lost = |v: Value| !known.contains(&v) && !self.is_steady(v);
        let mut through: HashSet<Value> = wanted.iter().copied().filter(|&v| lost(v)).collect();
        let mut last = None;
        for &inst in insts {
            let args: Vec<Value> = dfg.inst_args(inst).iter().map(|&v| named(v)).collect();
            let Some(i) = args.iter().position(|a| through.contains(a)) else { continue };
            last = Some(inst);
            if dfg.insts[inst].opcode() == Opcode::Store {
                continue;
            }
            if !is_undone(self.view, inst, i) {
                let why = format!("`{}` loses what {} was", self.view.text(inst), args[i]);
                return refused(inst, why, BY_HAND);
            }
            if args.iter().filter(|&&a| lost(a)).count() > 1 {
                let why = format!("`{}` is of two values that are not found again", self.view.text(inst));
                return refused(inst, why, BY_HAND);
            }
            through.extend(dfg.inst_results(inst).iter().map(|&v| named(v)));
        }
        let inst = last.or(insts.last().copied()).expect("something is stored");
        refused(inst, "what was there before is not found again", BY_HAND)
    }

    /// Undo a loop.
    fn again(&mut self, of: &UndoLoop) -> Undoable<()> {
        let params = self.view.func.dfg.block_params(of.header).to_vec();
        let types_of: Vec<Type> = params.iter().map(|&p| self.view.func.dfg.value_type(p)).collect();
        let mut values = Vec::new();
        for &init in &of.init {
            values.push(self.steady(init, of.at)?);
        }
        let [count, more, back, one, behind] = [(); 5].map(|()| self.pos.func.dfg.make_block());
        let zero = self.pos.ins().iconst(types::I64, 0);
        self.jump(count, &values, zero);
        // Forwards, by control alone.
        let around = self.known.clone();
        self.pos.insert_block(count);
        let mut own = self.params(count, &types_of);
        let n = own.pop().expect("the number of iterations");
        self.pos.goto_bottom(count);
        self.known.extend(params.iter().copied().zip(own.iter().copied()));
        let step = self.pos.ins().iconst(types::I64, 1);
        let by = self.steady(of.by, of.at)?;
        if of.before {
            self.branch(by, of.goes_on_if, more, back, (&own, n));
            self.open(more);
        }
        let next = self.nexts(of)?;
        let n = self.pos.ins().iadd(n, step);
        if !of.before {
            self.branch(by, of.goes_on_if, more, back, (&next, n));
            self.open(more);
        }
        self.jump(count, &next, n);
        self.known.clone_from(&around);
        // And back.
        self.pos.insert_block(back);
        let mut own = self.params(back, &types_of);
        let n = own.pop().expect("the number of iterations");
        self.pos.goto_bottom(back);
        self.pos.ins().brif(n, one, &[], behind, &[]);
        self.open(one);
        let before = self.before(of, &params, &own)?;
        self.known.extend(params.iter().copied().zip(before.iter().copied()));
        self.undo_all(&of.body)?;
        let step = self.pos.ins().iconst(types::I64, 1);
        let n = self.pos.ins().isub(n, step);
        self.jump(back, &before, n);
        self.known = around;
        self.open(behind);
        Ok(())
    }

    fn params(&mut self, block: Block, all: &[Type]) -> Vec<Value> {
        let all = all.iter().chain([&types::I64]);
        all.map(|&ty| self.pos.func.dfg.append_block_param(block, ty)).collect()
    }

    fn jump(&mut self, to: Block, values: &[Value], n: Value) {
        let args: Vec<_> = values.iter().chain([&n]).map(|&v| v.into()).collect();
        self.pos.ins().jump(to, &args);
    }

    fn branch(&mut self, by: Value, goes_on_if: bool, more: Block, over: Block, (values, n): (&[Value], Value)) {
        let args: Vec<_> = values.iter().chain([&n]).map(|&v| v.into()).collect();
        match goes_on_if {
            true => self.pos.ins().brif(by, more, &[], over, &args),
            false => self.pos.ins().brif(by, over, &args, more, &[]),
        };
    }

    /// What the parameters of a loop are next.
    fn nexts(&mut self, of: &UndoLoop) -> Undoable<Vec<Value>> {
        of.next.iter().map(|&v| self.steady(v, of.at)).collect()
    }

    /// What they were before, of what they are.
    fn before(&mut self, of: &UndoLoop, params: &[Value], now: &[Value]) -> Undoable<Vec<Value>> {
        let func = self.view.func;
        let insts: Vec<Inst> = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect();
        let next: HashSet<Value> = of.next.iter().copied().collect();
        let same = Same::default();
        let found = match steps(self.view, &insts, &same, next, |v| self.is_steady(v), params) {
            Ok(found) => found,
            Err(known) => {
                let lost: Vec<Value> = params.iter().copied().filter(|p| !known.contains(p)).collect();
                let why = format!("{} of a loop is not found again from what it is next", lost[0]);
                return refused(of.at, why, "let a loop carry integers that run backwards");
            }
        };
        let around = self.known.clone();
        self.known.extend(of.next.iter().copied().zip(now.iter().copied()));
        for (v, step) in found {
            let new = self.taken(v, step, &same)?;
            self.known.insert(v, new);
        }
        let before = params.iter().map(|&p| self.steady(p, of.at)).collect();
        self.known = around;
        before
    }
}

impl Linear {
    fn plus(mut self, other: &Self, times: i64) -> Self {
        for (&term, &k) in &other.terms {
            let sum = self.terms.entry(term).or_default();
            *sum = sum.wrapping_add(k.wrapping_mul(times));
        }
        self.terms.retain(|_, k| *k != 0);
        self.number = self.number.wrapping_add(other.number.wrapping_mul(times));
        self
    }
}
