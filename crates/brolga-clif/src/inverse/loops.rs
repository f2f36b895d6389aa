//! Loops, undone.
//!
//! **Question.** How many iterations were there, and what did the last of them begin with?
//! **Answer.** A loop is counted forwards, by its control alone, and then runs so many times, each
//! iteration undone:
//!
//! ```text
//! count:  (p…, n) until it is left
//! back:   while n > 0:  p… of the iteration before;  the body, undone;  n - 1
//! ```
//!
//! What it carries (`p…`) is found in one of three ways:
//!
//! | carried | found |
//! |---|---|
//! | what is the same whatever the loop has stored: integers, sums over what it only reads | counted with it, and undone as a straight piece is |
//! | what each iteration stores last to a place that the next does not store to | loaded from there; in the first iteration it is what the loop begins with |
//! | other numbers | not; what needs them is refused |
//!
//! **Cost.** Control of loops runs twice, and with it what they add up and carry.

use cranelift_codegen::cursor::Cursor;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, Inst, InstBuilder, MemFlagsData, Opcode, Type, Value, types};

use super::emit::Inverse;
use super::readings::stored;
use super::solve::{EqualValues, UndoStep, steps};
use super::structure::{UndoLoop, UndoPart};
use super::view::{MemoryRoot, Undoable};
use crate::linear::{LinearForm, Nearness};
use crate::map::{HashMap, HashSet};

/// How what a loop carries is found.
struct CarriedSources {
    /// Those that are counted, by their numbers.
    counted: Vec<usize>,
    /// How each of those is found from what they are next, in an order in which that works.
    back: Vec<(usize, Vec<FoundStep>)>,
    /// Those that the iteration before has stored, and by which store.
    by_store: Vec<(usize, Inst)>,
}

/// A value, and the step to it.
type FoundStep = (Value, UndoStep);

/// Stands for a value that will be there.
fn some() -> Value {
    Value::from_u32(0)
}

impl Inverse<'_, '_, '_, '_> {
    /// Undo a loop.
    pub(super) fn undo_loop(&mut self, of: &UndoLoop) -> Undoable<()> {
        let params = self.view.func.dfg.block_params(of.header).to_vec();
        let carried = self.carried(of, &params);
        let counters: Vec<Value> = carried.counted.iter().map(|&i| params[i]).collect();
        let types_of: Vec<Type> = counters.iter().map(|&p| self.view.func.dfg.value_type(p)).collect();
        self.readings.undone(&of.body);
        let init = carried.counted.iter().map(|&i| self.steady(of.init[i], of.at)).collect::<Undoable<Vec<_>>>()?;
        let [count, more, left, back, one, exit] = [(); 6].map(|()| self.pos.func.dfg.make_block());
        let zero = self.pos.ins().iconst(types::I64, 0);
        self.jump(count, &init, zero);
        // Forwards, by control alone.
        let around = self.known.clone();
        let (values, n) = self.entered(count, &types_of);
        self.readings.counting.push(stored(self.view, &of.body));
        self.readings.undo(&of.body, of.body.len() - 1);
        self.known.extend(counters.iter().copied().zip(values.iter().copied()));
        let step = self.pos.ins().iconst(types::I64, 1);
        let by = self.steady(of.by, of.at)?;
        if of.before {
            self.branch(by, of.goes_on_if, more, left, (&values, n));
            self.open(more);
        }
        let next = carried.counted.iter().map(|&i| self.steady(of.next[i], of.at)).collect::<Undoable<Vec<_>>>()?;
        let n = self.pos.ins().iadd(n, step);
        if !of.before {
            self.branch(by, of.goes_on_if, more, left, (&next, n));
            self.open(more);
        }
        self.jump(count, &next, n);
        self.known.clone_from(&around);
        self.readings.counting.pop();
        // What comes before where it is left has run once more.
        let (values, n) = self.entered(left, &types_of);
        self.known.extend(counters.iter().copied().zip(values.iter().copied()));
        self.undo_all(&of.body[..of.head])?;
        self.known.clone_from(&around);
        self.jump(back, &values, n);
        // And back.
        let (values, n) = self.entered(back, &types_of);
        self.pos.ins().brif(n, one, &[], exit, &[]);
        self.open(one);
        self.readings.undo(&of.body, of.body.len() - 1);
        let before = self.before(of, &params, &carried, &values)?;
        self.known.extend(counters.iter().copied().zip(before.iter().copied()));
        let iteration = Iteration { around: &around, now: &before, n };
        for &(i, store) in &carried.by_store {
            let v = self.stored_value(of, &params, &carried, &iteration, (i, store))?;
            self.known.insert(params[i], v);
        }
        self.undo_all(&of.body)?;
        let step = self.pos.ins().iconst(types::I64, 1);
        let n = self.pos.ins().isub(n, step);
        self.jump(back, &before, n);
        self.known = around;
        self.open(exit);
        Ok(())
    }

    /// Begin a block: parameters of these types, and the number of iterations.
    fn entered(&mut self, block: Block, all: &[Type]) -> (Vec<Value>, Value) {
        self.pos.insert_block(block);
        let all = all.iter().chain([&types::I64]);
        let mut block_params: Vec<Value> = all.map(|&ty| self.pos.func.dfg.append_block_param(block, ty)).collect();
        self.pos.goto_bottom(block);
        let n = block_params.pop().expect("the number of iterations");
        (block_params, n)
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

    /// How what a loop carries is found.
    fn carried(&mut self, of: &UndoLoop, params: &[Value]) -> CarriedSources {
        let around = self.known.clone();
        let all = 0..params.len();
        let mut counted: Vec<usize> = all.clone().filter(|&i| self.is_steady(of.init[i])).collect();
        let begins: HashSet<usize> = counted.iter().copied().collect();
        self.readings.undo(&of.body, of.body.len() - 1);
        let back = loop {
            self.readings.counting.push(stored(self.view, &of.body));
            loop {
                self.expect(&around, params, &counted);
                let next: Vec<usize> = counted.iter().copied().filter(|&i| self.is_steady(of.next[i])).collect();
                if next.len() == counted.len() {
                    break;
                }
                counted = next;
            }
            self.readings.counting.pop();
            self.known.clone_from(&around);
            let back = self.found_back(of, params, &counted);
            if back.len() == counted.len() {
                break back;
            }
            let is_found = |i: &usize| back.iter().any(|b| b.0 == *i);
            for &i in counted.iter().filter(|i| !is_found(i)) {
                let why = format!("{} of a loop is not found again from what it is next", params[i]);
                self.lost.insert(params[i], why);
            }
            counted.retain(is_found);
        };
        let mut by_store = Vec::new();
        for i in all.filter(|i| !counted.contains(i)) {
            let why = format!("{} of a loop is made of the state, and no iteration leaves it in a place", params[i]);
            self.lost.entry(params[i]).or_insert(why);
            let store = begins.contains(&i).then(|| self.carrying_store(of, params, &counted, i, &around)).flatten();
            by_store.extend(store.map(|s| (i, s)));
        }
        self.known = around;
        CarriedSources { counted, back, by_store }
    }

    /// Take it that these parameters are known, besides what is.
    fn expect(&mut self, around: &HashMap<Value, Value>, params: &[Value], counted: &[usize]) {
        self.known.clone_from(around);
        self.known.extend(counted.iter().map(|&i| (params[i], some())));
    }

    /// How parameters are found from what they are next.
    fn found_back(&mut self, of: &UndoLoop, params: &[Value], counted: &[usize]) -> Vec<(usize, Vec<FoundStep>)> {
        let func = self.view.func;
        let insts: Vec<Inst> = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect();
        let next: HashSet<Value> = counted.iter().map(|&i| of.next[i]).collect();
        let mut found: Vec<(usize, Vec<FoundStep>)> = Vec::new();
        loop {
            let before = found.len();
            for &i in counted {
                if found.iter().any(|f| f.0 == i) {
                    continue;
                }
                let is_steady = |v| self.is_steady(v);
                let way = steps(self.view, &insts, &EqualValues::default(), next.clone(), is_steady, &[params[i]]);
                if let Ok(way) = way {
                    found.push((i, way));
                    // What it decides can be read from now on.
                    self.known.insert(params[i], some());
                }
            }
            if found.len() == before {
                return found;
            }
        }
    }

    /// What is counted, before an iteration, of what it is after it.
    fn before(&mut self, of: &UndoLoop, params: &[Value], all: &CarriedSources, now: &[Value]) -> Undoable<Vec<Value>> {
        let around = self.known.clone();
        self.known.extend(all.counted.iter().map(|&i| of.next[i]).zip(now.iter().copied()));
        let mut before: HashMap<usize, Value> = HashMap::default();
        for (i, way) in &all.back {
            for &(v, step) in way {
                let new = self.taken(v, step, &EqualValues::default())?;
                self.known.insert(v, new);
            }
            let found = self.steady(params[*i], of.at)?;
            self.known.insert(params[*i], found);
            before.insert(*i, found);
        }
        self.known = around;
        Ok(all.counted.iter().map(|i| before[i]).collect())
    }

    /// The store by which each iteration leaves what the next one begins with, if nothing in the
    /// next one stores there.
    fn carrying_store(
        &mut self,
        of: &UndoLoop,
        params: &[Value],
        counted: &[usize],
        i: usize,
        around: &HashMap<Value, Value>,
    ) -> Option<Inst> {
        let (view, dfg) = (self.view, &self.view.func.dfg);
        let straight = of.body[of.head..].iter().filter_map(|part| match part {
            UndoPart::Straight(insts) => Some(insts),
            _ => None,
        });
        let is_store = |&inst: &Inst| {
            dfg.insts[inst].opcode() == Opcode::Store && view.resolved(dfg.inst_args(inst)[0]) == of.next[i]
        };
        let store = straight.flatten().copied().find(is_store)?;
        let Some(MemoryRoot::State(state)) = view.place(view.address(store)) else { return None };
        let ty = dfg.value_type(params[i]);
        let (at, _) = view.accessed(store);
        self.readings.counting.push(stored(view, &of.body));
        self.expect(around, params, counted);
        let is_found = self.is_steady(view.address(store));
        self.known.clone_from(around);
        let far = at.terms.iter().map(|&(term, times)| {
            match params.iter().position(|&p| p == term).filter(|j| counted.contains(j)) {
                Some(j) => {
                    let step = view.linear(of.next[j]).plus_times(&view.linear(term), -1);
                    step.known().map(|step| step.wrapping_mul(times))
                }
                None => self.is_steady(term).then_some(0),
            }
        });
        let far: Option<Vec<i64>> = far.collect();
        self.readings.counting.pop();
        let far = far.filter(|_| is_found)?.into_iter().fold(0, i64::wrapping_add);
        let before = at.clone().plus_number(far.wrapping_neg());
        let mut apart = before.near(ty, &at, ty) == Nearness::Apart;
        each_store(&of.body, &mut |part, inst| {
            if inst == store || !view.states_stored(inst).contains(&state) {
                return;
            }
            if matches!(part, UndoPart::Call(..)) {
                apart = false;
                return;
            }
            let (other, other_ty) = view.accessed(inst);
            let is_apart = |place: &LinearForm| other.near(other_ty, place, ty) == Nearness::Apart;
            apart &= is_apart(&at) && is_apart(&before);
        });
        apart.then_some(store)
    }

    /// What the iteration before has left in a place; in the first, what the loop begins with.
    fn stored_value(
        &mut self,
        of: &UndoLoop,
        params: &[Value],
        all: &CarriedSources,
        &Iteration { around, now, n }: &Iteration<'_>,
        (i, store): (usize, Inst),
    ) -> Undoable<Value> {
        let ty = self.view.func.dfg.value_type(params[i]);
        let init = self.steady(of.init[i], of.at)?;
        let [earlier, found] = [(); 2].map(|()| self.pos.func.dfg.make_block());
        let v = self.pos.func.dfg.append_block_param(found, ty);
        let one = self.pos.ins().iconst(types::I64, 1);
        let first = self.pos.ins().icmp(IntCC::Equal, n, one);
        self.pos.ins().brif(first, found, &[init.into()], earlier, &[]);
        self.open(earlier);
        let here = std::mem::replace(&mut self.known, around.clone());
        self.readings.counting.push(stored(self.view, &of.body));
        let before = self.before(of, params, all, now)?;
        self.known.extend(all.counted.iter().map(|&i| params[i]).zip(before));
        let address = self.steady(self.view.address(store), store)?;
        self.readings.counting.pop();
        let offset = self.view.offset(store) as i32;
        let left = self.pos.ins().load(ty, MemFlagsData::new(), address, offset);
        self.pos.ins().jump(found, &[left.into()]);
        self.known = here;
        self.open(found);
        Ok(v)
    }
}

/// The iteration that is undone.
struct Iteration<'i> {
    /// What is known around the loop.
    around: &'i HashMap<Value, Value>,
    /// The counters, one by one.
    now: &'i [Value],
    /// How many iterations are left to undo, this one among them.
    n: Value,
}

/// Each store and call of pieces.
fn each_store(parts: &[UndoPart], of: &mut impl FnMut(&UndoPart, Inst)) {
    for part in parts {
        match part {
            UndoPart::Straight(insts) => insts.iter().for_each(|&i| of(part, i)),
            UndoPart::Loop(inner) => each_store(&inner.body, of),
            UndoPart::Choice { then, other, .. } => {
                each_store(then, of);
                each_store(other, of);
            }
            UndoPart::Call(inst, _) => of(part, *inst),
            UndoPart::Pure(_) => {}
        }
    }
}
