//! Bundles: which scalars become the lanes of one vector, and whether it pays.
//!
//! A bundle is a vector's worth of scalars, lane by lane. The first of a tree are stores to
//! neighbours; what they store is a bundle again, and so are its operands, if all lanes are
//! computed alike in the region, by instructions that belong to no other bundle. Where they are
//! not the tree ends, and its scalars are put into lanes (a *leaf*).
//!
//! **What it saves.** An instruction for each lane but one. A leaf costs one for each lane; if all
//! lanes are one value, one, or nothing if that was there before (in a loop it is put into all
//! lanes once). A scalar of a lane that others read costs one to take out, but from the first lane.
//! Loads in the opposite order cost one shuffle. An operation whose operands cost more than
//! it saves is a leaf itself.

use std::collections::{BTreeMap, VecDeque};

use crate::map::{HashMap, HashSet};
use cranelift_codegen::ir::{InstructionData, Opcode, Type, Value};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;

use super::address::Address;
use super::order::Order;
use crate::slp::region::{SlpAccess, SlpRegion, lanes_of};

/// As little as this is not worth it.
const LEAST: i32 = 1;
/// How far a tree is followed.
const DEPTH: u32 = 16;

/// One scalar for each lane.
pub type Lanes<T> = SmallVec<[T; 4]>;

/// What a bundle does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleKind {
    /// Stores its argument where the first lane is stored.
    Store,
    /// Loads from where the first lane is loaded.
    Load,
    /// Loads from where the second of two lanes is loaded, and turns them round.
    Swapped,
    /// An operation on scalars of one type.
    Arith(Opcode),
    /// One condition for all lanes, then a bundle for each of the two.
    Select(Value),
    /// One value in all lanes.
    Splat(Value),
    /// Scalars that are computed one by one.
    Leaf,
}

/// A vector's worth of scalars.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// What it does.
    pub kind: BundleKind,
    /// The vector's type.
    pub ty: Type,
    /// What its lanes are called as scalars; none for stores.
    pub lanes: Lanes<Value>,
    /// Which instructions it replaces, lane by lane; none for what is put together from scalars.
    pub insts: Lanes<u32>,
    /// Bundles that it reads.
    pub args: SmallVec<[usize; 3]>,
}

impl Bundle {
    /// Whether it is put together from scalars.
    pub fn is_leaf(&self) -> bool {
        self.insts.is_empty()
    }
}

/// What has been found in a region.
pub struct Bundles<'s, 'a> {
    region: &'s SlpRegion<'a>,
    /// All bundles; those that are read come first.
    pub all: Vec<Bundle>,
    /// By their lanes.
    known: HashMap<Lanes<Value>, usize>,
    /// The group of each instruction.
    group: Vec<u32>,
    /// Stores that may become parts of one, and the first part of each.
    vectors: HashMap<u32, u32>,
    /// Which instructions are in a bundle.
    taken: Vec<bool>,
    order: Option<Order>,
    /// How often scalars are read by what stays scalar.
    uses: &'s mut SecondaryMap<Value, u32>,
}

/// Where everything stands in the end.
pub struct Chosen {
    /// The bundles, those that are read first.
    pub all: Vec<Bundle>,
    /// Lanes that stay scalar or are read by what does.
    pub read: Vec<SmallVec<[bool; 4]>>,
}

impl Chosen {
    /// How many stores are left out.
    pub fn stores(&self) -> usize {
        self.all.iter().filter(|b| b.kind == BundleKind::Store).map(|b| b.insts.len() - 1).sum()
    }
}

impl<'s, 'a> Bundles<'s, 'a> {
    /// All that pays in a region.
    pub fn of(region: &'s SlpRegion<'a>, uses: &'s mut SecondaryMap<Value, u32>) -> Self {
        let group = (0..region.insts.len() as u32).collect();
        let (all, known, taken) = (Vec::new(), HashMap::default(), vec![false; region.insts.len()]);
        let vectors = HashMap::default();
        let mut this = Self { region, all, known, group, vectors, taken, order: None, uses };
        let neighbours = this.neighbours();
        for stores in &neighbours {
            this.vectors.extend(stores.iter().map(|&i| (i, stores[0])));
        }
        for stores in neighbours {
            this.keep(|b| b.store(stores));
        }
        if this.order.is_some() {
            for terms in this.sums() {
                let turned: Lanes<Value> = terms.iter().rev().copied().collect();
                let _ = this.keep(|b| b.terms(terms)) || this.keep(|b| b.terms(turned));
            }
        }
        this
    }

    /// Stores to shadows of neighbours, as many as a vector has lanes, from the lowest address on.
    fn neighbours(&self) -> Vec<Lanes<u32>> {
        let (region, func) = (self.region, self.region.func);
        // Stores of one type whose distances are known, by how far they are from the first of them.
        let mut together: Vec<(u32, BTreeMap<i64, VecDeque<u32>>)> = Vec::new();
        for (i, _) in
            (0..).zip(&region.insts).filter(|(_, inst)| crate::slp::region::is_seed(func, &region.how, **inst))
        {
            let near = |first: u32| self.address(first).to(self.address(i)).filter(|_| self.ty(first) == self.ty(i));
            let found = together.iter_mut().find_map(|(first, all)| near(*first).map(|d| (d.bytes(), all)));
            match found {
                Some((at, all)) => all.entry(at).or_default().push_back(i),
                None => together.push((i, [(0, [i].into())].into())),
            }
        }
        let mut found = Vec::new();
        for (first, mut all) in together {
            let vector = lanes_of(self.ty(first)).expect("it is a lane");
            let (n, width) = (vector.lane_count() as usize, i64::from(vector.lane_type().bytes()));
            while let Some((&lowest, _)) = all.first_key_value() {
                let at = |k: usize| lowest + width * k as i64;
                let lanes: Lanes<u32> =
                    (0..n).map_while(|k| all.get(&at(k)).and_then(|q| q.front().copied())).collect();
                let whole = lanes.len() == n && lanes.windows(2).all(|w| self.is_next(w[0], w[1]));
                for k in 0..if whole { n } else { 1 } {
                    let queue = all.get_mut(&at(k)).expect("it is there");
                    queue.pop_front();
                    if queue.is_empty() {
                        all.remove(&at(k));
                    }
                }
                found.extend(whole.then_some(lanes));
            }
        }
        found
    }

    fn ty(&self, i: u32) -> Type {
        crate::vectorise::body::accessed(self.region.func, self.region.insts[i as usize])
    }

    fn address(&self, i: u32) -> &Address {
        &self.region.accesses[&i].address
    }

    /// Whether an access is just behind another one, to as many bytes.
    fn is_next(&self, i: u32, j: u32) -> bool {
        let ty = self.ty(i);
        let behind = || {
            self.address(i).to(self.address(j)).is_some_and(|d| d.is(ty.bytes().into(), self.region.how.short_indices))
        };
        ty == self.ty(j) && behind()
    }

    /// Terms of sums that can be computed in lanes, as many as there are lanes, to be taken out and
    /// added up.
    fn sums(&self) -> Vec<Lanes<Value>> {
        let (region, func) = (self.region, self.region.func);
        let adds = |v: Value| {
            let inst = region.insts[*region.defined.get(&v)? as usize];
            (func.dfg.insts[inst].opcode() == Opcode::Fadd).then(|| [0, 1].map(|k| func.dfg.inst_args(inst)[k]))
        };
        let mut inner: HashSet<Value> = HashSet::default();
        let mut found = Vec::new();
        // Those that add up others come behind them.
        for &inst in region.insts.iter().rev() {
            let Some(&sum) = func.dfg.inst_results(inst).first() else { continue };
            let Some(vector) = lanes_of(func.dfg.value_type(sum)) else { continue };
            if adds(sum).is_none() || inner.contains(&sum) {
                continue;
            }
            let (mut open, mut terms) = (vec![sum], Vec::new());
            while let Some(v) = open.pop() {
                match adds(v).filter(|_| v == sum || self.uses[v] == 1) {
                    Some([a, b]) => {
                        inner.insert(v);
                        open.extend([b, a]);
                    }
                    None => terms.push(v),
                }
            }
            terms.retain(|v| region.defined.contains_key(v));
            found.extend(terms.chunks_exact(vector.lane_count() as usize).map(|c| c.iter().copied().collect()));
        }
        found
    }

    /// Keep what is made if it pays and there is an order for it; whether it was kept.
    fn keep(&mut self, make: impl FnOnce(&mut Self) -> bool) -> bool {
        let (from, before) = (self.all.len(), self.saves());
        let made = make(self) && self.saves() - before >= LEAST;
        let region = self.region;
        let kept = made && self.order.get_or_insert_with(|| region.order()).of_groups(&self.group).is_some();
        if !kept {
            self.give_up(from);
        }
        kept
    }

    /// Stores at once, and what they store.
    fn store(&mut self, stores: Lanes<u32>) -> bool {
        let func = self.region.func;
        let stored = stores.iter().map(|&i| func.dfg.inst_args(self.region.insts[i as usize])[0]).collect();
        let ty = lanes_of(self.ty(stores[0])).expect("it is a lane");
        let flags = |&i: &u32| func.dfg.insts[self.region.insts[i as usize]].memflags();
        if stores.iter().any(|i| flags(i) != flags(&stores[0])) {
            return false;
        }
        let arg = self.bundle(stored, ty, DEPTH);
        let args = [arg].into_iter().collect();
        self.all.push(Bundle { kind: BundleKind::Store, ty, lanes: Lanes::new(), insts: stores, args });
        self.claim(self.all.len() - 1);
        true
    }

    /// Terms of a sum.
    fn terms(&mut self, terms: Lanes<Value>) -> bool {
        let ty = lanes_of(self.region.func.dfg.value_type(terms[0])).expect("it is a lane");
        let (from, at) = (self.all.len(), self.bundle(terms, ty, DEPTH));
        at >= from && !self.all[at].is_leaf()
    }

    /// The bundle of some scalars, which is made if there is none.
    fn bundle(&mut self, lanes: Lanes<Value>, ty: Type, depth: u32) -> usize {
        if let Some(&known) = self.known.get(&lanes) {
            return known;
        }
        let from = self.all.len();
        let found = self.alike(&lanes, ty, depth).unwrap_or_else(|| self.leaf(&lanes, ty));
        self.all.push(found);
        let at = self.all.len() - 1;
        self.claim(at);
        self.known.insert(lanes.clone(), at);
        if !self.all[at].is_leaf() && self.cost(from) > lanes.len() as i32 {
            self.give_up(from);
            let leaf = self.leaf(&lanes, ty);
            self.all.push(leaf);
            self.known.insert(lanes, from);
            return from;
        }
        at
    }

    /// Scalars that are put into lanes.
    fn leaf(&self, lanes: &Lanes<Value>, ty: Type) -> Bundle {
        let bits = |v: Value| match self.region.func.dfg.insts[self.region.func.dfg.value_def(v).inst()?] {
            InstructionData::UnaryIeee64 { imm, .. } => Some(imm.bits()),
            InstructionData::UnaryIeee32 { imm, .. } => Some(imm.bits().into()),
            _ => None,
        };
        let first = lanes[0];
        let alike = lanes.iter().all(|&v| v == first || bits(v).is_some() && bits(v) == bits(first));
        let kind = if alike { BundleKind::Splat(first) } else { BundleKind::Leaf };
        Bundle { kind, ty, lanes: lanes.clone(), insts: Lanes::new(), args: SmallVec::new() }
    }

    /// Scalars that are computed alike, in the region, and for nothing else so far.
    fn alike(&mut self, lanes: &Lanes<Value>, ty: Type, depth: u32) -> Option<Bundle> {
        let (region, func) = (self.region, self.region.func);
        let insts: Lanes<u32> = lanes.iter().map(|v| region.defined.get(v).copied()).collect::<Option<_>>()?;
        let apart = (0..insts.len()).all(|k| !insts[..k].contains(&insts[k]));
        if depth == 0 || !apart || self.is_taken(&insts) {
            return None;
        }
        let data = |k: usize| &func.dfg.insts[region.insts[insts[k] as usize]];
        let op = data(0).opcode();
        if (1..insts.len()).any(|k| data(k).opcode() != op) {
            return None;
        }
        if op == Opcode::Load {
            if (1..insts.len()).any(|k| data(k).memflags() != data(0).memflags()) {
                return None;
            }
            let kind = match insts.len() {
                n if (1..n).all(|k| self.is_next(insts[k - 1], insts[k])) => BundleKind::Load,
                2 if self.is_next(insts[1], insts[0]) => BundleKind::Swapped,
                _ => return None,
            };
            if !self.waits_for_nothing(insts[usize::from(kind == BundleKind::Swapped)], ty) {
                return None;
            }
            return Some(Bundle { kind, ty, lanes: lanes.clone(), insts, args: SmallVec::new() });
        }
        let mut operands: Vec<SmallVec<[Value; 3]>> =
            insts.iter().map(|&i| func.dfg.inst_args(region.insts[i as usize]).iter().copied().collect()).collect();
        let kind = match op {
            Opcode::Fadd | Opcode::Fmul => {
                for k in 1..operands.len() {
                    if self.likeness(&operands[0], &operands[k]) < self.likeness(&operands[0], &turned(&operands[k])) {
                        operands[k] = turned(&operands[k]);
                    }
                }
                BundleKind::Arith(op)
            }
            Opcode::Fsub | Opcode::Fdiv | Opcode::Fneg | Opcode::Fabs | Opcode::Sqrt => BundleKind::Arith(op),
            Opcode::Select if operands.iter().all(|o| o[0] == operands[0][0]) => {
                for o in &mut operands {
                    o.remove(0);
                }
                BundleKind::Select(func.dfg.inst_args(region.insts[insts[0] as usize])[0])
            }
            _ => return None,
        };
        let columns = (0..operands[0].len()).map(|n| operands.iter().map(|o| o[n]).collect::<Lanes<Value>>());
        let columns: SmallVec<[Lanes<Value>; 3]> = columns.collect();
        let from = self.all.len();
        let args = columns.into_iter().map(|c| self.bundle(c, ty, depth - 1)).collect();
        // One lane may be computed from another.
        if self.is_taken(&insts) {
            self.give_up(from);
            return None;
        }
        Some(Bundle { kind, ty, lanes: lanes.clone(), insts, args })
    }

    /// Whether no iteration loads as a vector what one before it has stored in part: if it is a
    /// shadow's, iterations have to go on by vectors, and nothing may be stored beside them.
    fn waits_for_nothing(&self, first: u32, ty: Type) -> bool {
        if !self.region.accesses[&first].shadow {
            return true;
        }
        let Some(&step) = self.region.steps.get(&first) else { return false };
        let (whole, part) = (i64::from(ty.bytes()), i64::from(ty.lane_type().bytes()));
        let in_part = |(&j, access): (&u32, &SlpAccess)| {
            if !access.stores || !access.shadow {
                return false;
            }
            let vector = self.vectors.get(&j).copied();
            let Some(d) = self.address(first).to(self.address(vector.unwrap_or(j))) else { return false };
            let at = d.bytes().rem_euclid(step.saturating_abs());
            if vector.is_some() { at % whole != 0 } else { at < whole || at > step.saturating_abs() - part }
        };
        step != 0 && step % whole == 0 && !self.region.accesses.iter().any(in_part)
    }

    /// How well operands go together.
    fn likeness(&self, a: &[Value], b: &[Value]) -> u32 {
        let (region, func) = (self.region, self.region.func);
        let like = |(&x, &y): (&Value, &Value)| {
            if x == y {
                return 3;
            }
            let (Some(&i), Some(&j)) = (region.defined.get(&x), region.defined.get(&y)) else { return 0 };
            let op = |i: u32| func.dfg.insts[region.insts[i as usize]].opcode();
            match (op(i), op(j)) {
                (Opcode::Load, Opcode::Load) if self.is_next(i, j) || self.is_next(j, i) => 4,
                (x, y) if x == y && x != Opcode::Load => 2,
                _ => 0,
            }
        };
        a.iter().zip(b).map(like).sum()
    }

    /// Whether a bundle has one of these instructions.
    fn is_taken(&self, insts: &[u32]) -> bool {
        insts.iter().any(|&i| self.taken[i as usize])
    }

    /// The instructions of a bundle are one, and read what they read as one.
    fn claim(&mut self, at: usize) {
        let bundle = &self.all[at];
        if let Some(&least) = bundle.insts.iter().min() {
            for &i in &bundle.insts {
                (self.group[i as usize], self.taken[i as usize]) = (least, true);
            }
        }
        self.count(at, |n| n - 1);
    }

    /// What is read in lanes is not read as a scalar.
    fn count(&mut self, at: usize, change: impl Fn(u32) -> u32) {
        for &arg in &self.all[at].args {
            if !self.all[arg].is_leaf() {
                self.all[arg].lanes.iter().for_each(|&v| self.uses[v] = change(self.uses[v]));
            }
        }
    }

    /// Bundles from one on are none after all.
    fn give_up(&mut self, from: usize) {
        for at in (from..self.all.len()).rev() {
            self.count(at, |n| n + 1);
            let bundle = self.all.pop().expect("it is there");
            for &i in &bundle.insts {
                (self.group[i as usize], self.taken[i as usize]) = (i, false);
            }
            self.known.remove(&bundle.lanes);
        }
    }

    /// What bundles from one on cost, by themselves.
    fn cost(&self, from: usize) -> i32 {
        let each = self.all[from..].iter().map(|b| {
            let lanes = b.ty.lane_count() as i32;
            match b.kind {
                BundleKind::Leaf => lanes,
                BundleKind::Splat(v) => i32::from(self.region.defined.contains_key(&v) && !self.is_constant(v)),
                BundleKind::Swapped => 2 - lanes,
                _ => 1 - lanes,
            }
        });
        each.sum()
    }

    fn is_constant(&self, v: Value) -> bool {
        let def = self.region.func.dfg.value_def(v).inst();
        def.is_some_and(|i| matches!(self.region.func.dfg.insts[i].opcode(), Opcode::F64const | Opcode::F32const))
    }

    /// What all bundles save, with lanes that others read.
    fn saves(&self) -> i32 {
        let taken_out = |b: &Bundle| b.lanes.iter().skip(1).filter(|&&v| self.uses[v] > 0).count() as i32;
        let out: i32 = self.all.iter().filter(|b| !b.is_leaf()).map(taken_out).sum();
        -self.cost(0) - out
    }

    /// What is kept, and the order in which everything can stand.
    pub fn chosen(self) -> Option<(Chosen, Vec<u32>)> {
        let order = self.order.filter(|_| !self.all.is_empty())?.of_groups(&self.group)?;
        let read = self.all.iter().map(|b| b.lanes.iter().map(|&v| self.uses[v] > 0).collect()).collect();
        Some((Chosen { all: self.all, read }, order))
    }
}

fn turned(operands: &[Value]) -> SmallVec<[Value; 3]> {
    operands.iter().rev().copied().collect()
}
