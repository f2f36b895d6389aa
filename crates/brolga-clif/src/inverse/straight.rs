//! A straight piece, undone.
//!
//! **Question.** A piece has no branch. What did the places that it has stored to hold before?
//!
//! **Answer.** What the piece has left in each place that it touches is loaded, steps lead back to
//! what was there ([`super::solve`]), and that is stored.
//!
//! **Places that may be one.** Where the addresses do not say whether two places are the same, the
//! inverse looks. For each way in which places can be the same there is an inverse of its own; if
//! that has none, or two places overlap in part, it traps.
//!
//! ```text
//! v4 = load a            if a = b:     nothing was changed
//! v5 = load b            otherwise:    v5 = load a
//! store v5, a      ⟶                   v4 = load b
//! store v4, b                          store v4, a
//!                                      store v5, b
//! ```
//!
//! **Cost.** For k pairs of places that may be the same, of which there are at most six, up to 2ᵏ
//! inverses of the piece, one of which runs.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Inst, InstBuilder, MemFlagsData, Opcode, Type, Value, types};

use super::emit::{BY_HAND, Inverse};
use super::solve::{EqualValues, UndoStep, is_undone, steps, undo};
use super::view::{MemoryRoot, Undoable, refused};
use crate::linear::{LinearForm, Nearness};
use crate::map::{HashMap, HashSet};

/// A place of a state that a piece touches.
struct StatePlace {
    state: usize,
    at: LinearForm,
    ty: Type,
    /// The first load or store.
    inst: Inst,
    /// The last store.
    store: Option<Inst>,
    /// Where it is, and how far from there.
    address: Option<(Value, i32)>,
}

/// The places of a piece, and which of them is accessed by which instruction.
#[derive(Default)]
struct StatePlaces {
    all: Vec<StatePlace>,
    of: HashMap<Inst, usize>,
}

/// What a place holds, while a piece runs.
#[derive(Default)]
struct StateCell {
    /// What is found there before anything is stored.
    before: Option<Value>,
    /// What is stored last.
    after: Option<Value>,
}

/// More places that may be the same have too many ways to be so.
const MOST_PAIRS: usize = 6;

impl Inverse<'_, '_, '_, '_> {
    /// Undo a straight piece.
    pub(super) fn straight(&mut self, insts: &[Inst]) -> Undoable<()> {
        let mut places = self.places(insts);
        if places.all.iter().all(|c| c.store.is_none()) {
            return Ok(());
        }
        let pairs = self.unclear(&places)?;
        let around = self.known.clone();
        for place in &mut places.all {
            let address = self.steady(self.view.address(place.inst), place.inst)?;
            place.address = Some((address, self.view.offset(place.inst) as i32));
        }
        let same: Vec<usize> = (0..places.all.len()).collect();
        self.each_way(insts, &places, same, &[], &pairs)?;
        self.known = around;
        Ok(())
    }

    /// The places that a piece touches.
    fn places(&self, insts: &[Inst]) -> StatePlaces {
        let (view, dfg) = (self.view, &self.view.func.dfg);
        let mut found = StatePlaces::default();
        for &inst in insts {
            let op = dfg.insts[inst].opcode();
            if !matches!(op, Opcode::Load | Opcode::Store) {
                continue;
            }
            let Some(MemoryRoot::State(state)) = view.place(view.address(inst)) else { continue };
            if !view.written.contains(&state) {
                continue;
            }
            let (at, ty) = view.accessed(inst);
            let known = found.all.iter().position(|c| c.state == state && c.at == at && c.ty == ty);
            let k = known.unwrap_or(found.all.len());
            if known.is_none() {
                found.all.push(StatePlace { state, at, ty, inst, store: None, address: None });
            }
            if op == Opcode::Store {
                found.all[k].store = Some(inst);
            }
            found.of.insert(inst, k);
        }
        found
    }

    /// Places that may be the same, of which one is stored to.
    fn unclear(&self, places: &StatePlaces) -> Undoable<Vec<(usize, usize)>> {
        let mut found = Vec::new();
        for (i, a) in places.all.iter().enumerate() {
            for (j, b) in places.all[..i].iter().enumerate().filter(|(_, b)| b.state == a.state) {
                let Some(store) = a.store.or(b.store) else { continue };
                let other = if a.store == Some(store) { b.inst } else { a.inst };
                match a.at.near(a.ty, &b.at, b.ty) {
                    Nearness::Apart => {}
                    Nearness::Unknown => found.push((j, i)),
                    Nearness::Overlapping => {
                        let why = format!("it stores to a part of what `{}` accesses", self.view.text(other));
                        return refused(store, why, BY_HAND);
                    }
                }
                if found.len() > MOST_PAIRS {
                    let why = format!("it may store to what `{}` accesses, as others may", self.view.text(other));
                    let help = "pass what is read as a state of its own, or write an inverse by hand";
                    return refused(store, why, help);
                }
            }
        }
        Ok(found)
    }

    /// Undo a piece in each of the ways in which pairs of places are the same or apart. `same` says
    /// which place each is.
    fn each_way(
        &mut self,
        insts: &[Inst],
        places: &StatePlaces,
        same: Vec<usize>,
        apart: &[(usize, usize)],
        pairs: &[(usize, usize)],
    ) -> Undoable<()> {
        let Some((&(i, j), rest)) = pairs.split_first() else {
            let is_one = same.iter().enumerate().any(|(k, &s)| k != s);
            return match self.undone(insts, places, &same) {
                Err(_) if is_one => {
                    let store = places.all.iter().find_map(|p| p.store).expect("something is stored");
                    let one = self.pos.ins().iconst(types::I8, 1);
                    self.trap_if(one, store);
                    Ok(())
                }
                found => found,
            };
        };
        let (a, b) = (same[i], same[j]);
        let is_pair = |&(x, y): &(usize, usize)| [(a, b), (b, a)].contains(&(same[x], same[y]));
        if a == b || apart.iter().any(is_pair) {
            return self.each_way(insts, places, same, apart, rest);
        }
        let [(p, p_ty), (q, q_ty)] = [i, j].map(|k| (self.address_of(&places.all[k]), places.all[k].ty));
        let around = self.known.clone();
        let [one, other, join] = [(); 3].map(|()| self.pos.func.dfg.make_block());
        if p_ty == q_ty {
            let equal = self.pos.ins().icmp(IntCC::Equal, p, q);
            self.pos.ins().brif(equal, one, &[], other, &[]);
            self.open(one);
            let merged = same.iter().map(|&s| if s == b { a } else { s }).collect();
            self.each_way(insts, places, merged, apart, rest)?;
            self.pos.ins().jump(join, &[]);
            self.known.clone_from(&around);
        } else {
            self.pos.ins().jump(other, &[]);
        }
        self.open(other);
        // They overlap if one begins less than its length before the other.
        let far = self.pos.ins().isub(p, q);
        let first = self.pos.ins().iconst(types::I64, i64::from(p_ty.bytes()) - 1);
        let far = self.pos.ins().iadd(far, first);
        let all = self.pos.ins().iconst(types::I64, i64::from(p_ty.bytes() + q_ty.bytes()) - 1);
        let overlap = self.pos.ins().icmp(IntCC::UnsignedLessThan, far, all);
        self.trap_if(overlap, places.all[i].store.or(places.all[j].store).expect("one is stored to"));
        let apart = [apart, &[(i, j)]].concat();
        self.each_way(insts, places, same, &apart, rest)?;
        self.pos.ins().jump(join, &[]);
        self.known = around;
        self.open(join);
        Ok(())
    }

    fn address_of(&mut self, place: &StatePlace) -> Value {
        let (address, offset) = place.address.expect("it is computed");
        let offset = self.pos.ins().iconst(types::I64, i64::from(offset));
        self.pos.ins().iadd(address, offset)
    }

    /// Trap, at the place of a store in the source.
    fn trap_if(&mut self, holds: Value, store: Inst) {
        let code = self.view.overlap();
        let trap = self.pos.ins().trapnz(holds, code);
        let loc = self.view.func.srcloc(store);
        self.pos.func.set_srcloc(trap, loc);
    }

    /// What places hold, by the place that each is, and which values of the piece are the same.
    fn cells(&self, insts: &[Inst], places: &StatePlaces, one_of: &[usize]) -> (Vec<StateCell>, EqualValues) {
        let (view, dfg) = (self.view, &self.view.func.dfg);
        let mut cells: Vec<StateCell> = places.all.iter().map(|_| StateCell::default()).collect();
        let mut same = EqualValues::default();
        for inst in insts {
            let Some(&k) = places.of.get(inst) else { continue };
            let cell = &mut cells[one_of[k]];
            if dfg.insts[*inst].opcode() == Opcode::Store {
                let v = view.resolved(dfg.inst_args(*inst)[0]);
                cell.after = Some(same.get(&v).copied().unwrap_or(v));
                continue;
            }
            let loaded = dfg.first_result(*inst);
            match cell.after.or(cell.before) {
                Some(v) => drop(same.insert(loaded, v)),
                None => cell.before = Some(loaded),
            }
        }
        (cells, same)
    }

    /// Undo a piece, of whose places it is known which are the same.
    fn undone(&mut self, insts: &[Inst], places: &StatePlaces, one_of: &[usize]) -> Undoable<()> {
        let (cells, same) = self.cells(insts, places, one_of);
        let mut wanted = Vec::new();
        for (k, place) in places.all.iter().enumerate() {
            let (Some(store), cell) = (place.store, &cells[one_of[k]]) else { continue };
            let Some(before) = cell.before else {
                let why = "it overwrites what it has not read, so that is lost";
                return refused(store, why, "exchange or add, so that the old contents are found again");
            };
            wanted.push(before);
        }
        let now: HashSet<Value> = cells.iter().filter_map(|c| c.after.or(c.before)).collect();
        let found = match steps(self.view, insts, &same, now, |v| self.is_steady(v), &wanted) {
            Ok(found) => found,
            Err(known) => return self.blamed(insts, &same, &known, &wanted),
        };
        let flags = MemFlagsData::new();
        for (k, place) in places.all.iter().enumerate().filter(|&(k, _)| one_of[k] == k) {
            let (address, offset) = place.address.expect("it is computed");
            let v = self.pos.ins().load(place.ty, flags, address, offset);
            self.known.insert(cells[k].after.or(cells[k].before).expect("it is loaded or stored"), v);
        }
        for (v, step) in found {
            let v_new = self.taken(v, step, &same)?;
            self.known.insert(v, v_new);
        }
        let mut stores = Vec::new();
        for (k, place) in places.all.iter().enumerate() {
            let (Some(store), Some(before)) = (place.store, cells[one_of[k]].before) else { continue };
            stores.push((self.steady(before, store)?, place.address.expect("it is computed")));
        }
        for (v, (address, offset)) in stores {
            self.pos.ins().store(flags, v, address, offset);
        }
        Ok(())
    }

    /// A value by one step.
    pub(super) fn taken(&mut self, v: Value, step: UndoStep, same: &EqualValues) -> Undoable<Value> {
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
    fn blamed<T>(&self, insts: &[Inst], same: &EqualValues, known: &HashSet<Value>, wanted: &[Value]) -> Undoable<T> {
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
                let of_loop = args.iter().filter(|&&a| lost(a)).find_map(|&a| self.lost.get(&self.first_lost(a)));
                let why = || format!("`{}` is of two values that are not found again", self.view.text(inst));
                return refused(inst, of_loop.cloned().unwrap_or_else(why), BY_HAND);
            }
            through.extend(dfg.inst_results(inst).iter().map(|&v| named(v)));
        }
        let inst = last.or(insts.last().copied()).expect("something is stored");
        refused(inst, "what was there before is not found again", BY_HAND)
    }
}
