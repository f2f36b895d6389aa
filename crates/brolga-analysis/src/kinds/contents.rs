//! Contents inference: what memory behind a pointer holds (doubles, singles, pointers or integers),
//! by classes of addresses, after Steensgaard.
//!
//! **Question.** An integer load may move a pointer, the bits of a double, the bits of two singles,
//! or a number. CLIF does not say; the accesses around it do.
//!
//! **Answer.** Addresses are put in classes (union-find): pointer arithmetic, selects and block
//! parameters stay in a class, and so do two places between which bits are copied unchanged, since
//! they then hold the same kinds of things. All addresses of one stack slot or data object are in
//! one class. Each class and each *cell* (base and constant offset) collects evidence from typed
//! accesses, from bitcasts of loaded or stored integers, from addresses that are loaded, from
//! callees and from what the caller declared. A question about a place is answered by its cell if
//! that has evidence, else by its class. Whether a word that is not used as an address is a pointer
//! because it lies among pointers, or in a table of them, is decided last ([`beside_pointers`]),
//! when it is known which integers carry a float's bits ([`carried`]).
//!
//! Evidence of a class is an over-approximation of what it holds, so "only doubles" is a proof only
//! as far as the function and its callees see. Where the evidence is contradictory or absent the
//! transform emits a run-time check instead.
//!
//! **Cost.** One pass over the instructions, and rounds over copies of structs until nothing
//! changes.

use std::collections::BTreeMap;

use brolga_ir::map::{HashMap, HashSet};
use brolga_rules::MathKind;
use cranelift_codegen::ir::{self, Opcode, types};
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::bits::bit_idioms;
use crate::kinds::loaded_bits::{destinations, fate, from_float};
use crate::kinds::number_uses::NumberInput;
use crate::kinds::pointers::{PointerInput, Pointers, RootKind};
use crate::lattice::kinds::Kinds;
use crate::lattice::number_uses::NumberUses;
use crate::memory::reaching_store::{ReachingStore, last_store};
use crate::query::callee::CalleeKind;
use crate::query::cell::{Base, Cell, cell_of, object_of};
use crate::query::{
    access_address, access_bytes, access_offset, alternatives, constant_int, extreme_condition, is_taped_address,
    signature_id,
};
use crate::summary::FieldKinds;
use crate::uses::{Use, Uses};
use crate::variant::ParamMode;

/// The answer.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    parent: SecondaryMap<ir::Value, Option<ir::Value>>,
    pointee: HashMap<ir::Value, ir::Value>,
    class: HashMap<ir::Value, Kinds>,
    cells: HashMap<Base, BTreeMap<i64, Kinds>>,
    /// The same without what only this function thinks: integers that carry floats, and words that
    /// may be pointers; if there are some.
    stated: Option<HashMap<Base, BTreeMap<i64, Kinds>>>,
    /// Where integers of fewer bytes than a pointer are stored, and of how many.
    short: HashMap<Base, BTreeMap<i64, u32>>,
    /// Loaded words of which sums and differences move: pointers are advanced that way.
    moved_by_offset: EntitySet<ir::Value>,
    /// Loaded integers that move, whole or in part: to memory, to a callee, to a float.
    pub moved: EntitySet<ir::Value>,
    /// Those whose place holds pointers alone, by accesses of the place itself: where they are
    /// copied to, there may be something else at another time.
    from_pointers: EntitySet<ir::Value>,
}

impl Contents {
    /// The class of an address.
    pub fn find(&self, mut v: ir::Value) -> ir::Value {
        while let Some(p) = self.parent[v] {
            v = p;
        }
        v
    }

    /// Something in the class that the pointers of a class point at.
    pub fn pointee(&self, class: ir::Value) -> Option<ir::Value> {
        self.pointee.get(&self.find(class)).copied()
    }

    fn union(&mut self, a: ir::Value, b: ir::Value) {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return;
        }
        self.parent[b] = Some(a);
        let k = self.class.remove(&b).unwrap_or_default();
        self.note_class(a, k);
        match (self.pointee.get(&a).copied(), self.pointee.remove(&b)) {
            (Some(x), Some(y)) => self.union(x, y),
            (None, Some(y)) => {
                self.pointee.insert(a, y);
            }
            _ => {}
        }
    }

    fn points_at(&mut self, addr: ir::Value, v: ir::Value) {
        let c = self.find(addr);
        match self.pointee.get(&c).copied() {
            Some(p) => self.union(p, v),
            None => {
                self.pointee.insert(c, v);
            }
        }
    }

    fn note_class(&mut self, rep: ir::Value, k: Kinds) {
        let e = self.class.entry(rep).or_default();
        *e = e.join(k);
    }

    fn note(&mut self, addr: ir::Value, k: Kinds) {
        let c = self.find(addr);
        self.note_class(c, k);
    }

    fn note_cell(&mut self, cell: Cell, addr: ir::Value, k: Kinds) {
        self.note(addr, k);
        let e = self.cells.entry(cell.0).or_default().entry(cell.1).or_default();
        *e = e.join(k);
    }

    fn note_short(&mut self, (base, at): Cell, bytes: u32) {
        let most = self.short.entry(base).or_default().entry(at).or_default();
        *most = bytes.max(*most);
    }

    /// What callers keep where this function does not say it. Classes are not told: an address
    /// that is computed may lead to the floats of a struct only. Where callers disagree nothing is
    /// known.
    fn note_given(&mut self, params: &[ir::Value], given: &[FieldKinds]) {
        for (&v, fields) in params.iter().zip(given) {
            let cells = self.cells.entry(Base::Value(v)).or_default();
            for (&at, &k) in fields.iter().filter(|c| c.1.to_elem().is_some()) {
                let e = cells.entry(at).or_default();
                *e = if e.moved() == Kinds::NONE { e.join(k) } else { *e };
            }
        }
    }

    /// What is known of a place of one block is known of the same place of its copy, either way:
    /// structs of pointers and floats are told apart by their fields.
    fn copy_cells(&mut self, copies: &[CopiedBlock]) {
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for c in copies {
                for (from, to) in [(c.from, c.to), (c.to, c.from)] {
                    let known = self
                        .cells
                        .get(&from.0)
                        .into_iter()
                        .flat_map(|m| m.range(from.1..from.1.saturating_add(c.bytes)));
                    let known: Vec<(i64, Kinds)> = known.map(|(&at, &k)| (at.wrapping_sub(from.1), k)).collect();
                    for (at, k) in known {
                        let e = self.cells.entry(to.0).or_default().entry(to.1.wrapping_add(at)).or_default();
                        let all = e.join(k);
                        changed |= std::mem::replace(e, all) != all;
                    }
                }
            }
        }
    }

    /// The struct at a place: its first [`MOST_COPIED`] bytes, so that there is an end where a
    /// function calls itself with an address further on.
    pub fn of_struct(&self, (base, first): Cell) -> FieldKinds {
        let cells = self
            .stated
            .as_ref()
            .unwrap_or(&self.cells)
            .get(&base)
            .into_iter()
            .flat_map(|m| m.range(first..first.saturating_add(MOST_COPIED)));
        cells.filter(|c| *c.1 != Kinds::NONE).map(|(&at, &k)| (at.wrapping_sub(first), k)).collect()
    }

    /// What the class of an address holds.
    pub fn of_class(&self, addr: ir::Value) -> Kinds {
        self.class.get(&self.find(addr)).copied().unwrap_or_default()
    }

    /// What the cell holds, if it was accessed by type.
    pub fn of_cell(&self, cell: Cell) -> Kinds {
        self.cells.get(&cell.0).and_then(|m| m.get(&cell.1)).copied().unwrap_or_default()
    }

    /// Whether a typed float access overlaps `bytes` bytes at the cell.
    pub fn float_overlaps(&self, cell: Cell, bytes: u32) -> Kinds {
        let Some(m) = self.cells.get(&cell.0) else { return Kinds::NONE };
        m.range(cell.1.saturating_sub(7)..cell.1.saturating_add(i64::from(bytes)))
            .filter(|(o, k)| {
                let w = if k.has(Kinds::F64) { 8 } else { 4 };
                k.has_float() && o.saturating_add(w) > cell.1
            })
            .fold(Kinds::NONE, |a, (_, k)| a.join(k.floats()))
    }

    /// What [`Self::from_pointers`] is. A place that is computed is an element of a table, of which
    /// the class tells. At the places of `guesses`, words that may be pointers are stored. Where a
    /// place has several lives, the store before the load says which it is in; else what is loaded
    /// must only be stored whole, where the transform checks that it is no float.
    fn loads_of_pointers(
        &self,
        cx: &PointerInput<'_>,
        p: &Pointers,
        uses: &Uses,
        guesses: &[(Cell, ir::Value)],
    ) -> EntitySet<ir::Value> {
        let func = cx.func;
        let classes: HashSet<ir::Value> = guesses.iter().map(|g| self.find(g.1)).collect();
        let cells: HashSet<Cell> = guesses.iter().map(|g| g.0).collect();
        let is_from_one = |&v: &ir::Value| {
            let inst = func.dfg.value_def(v).unwrap_inst();
            let addr = access_address(func, inst).expect("a load has an address");
            let cell = cell_of(func, addr, access_offset(func, inst));
            if func.dfg.value_type(v) != types::I64 || self.is_put_together(cell) {
                return false;
            }
            let is_word = |f: &ReachingStore| f.offset == 0 && f.bytes == 8;
            let stores_pointer = |f: ReachingStore| p.root(func.dfg.inst_args(f.store)[0]).is_some();
            let is_store = |u: &Use| matches!(*u, Use::Inst(i, 0) if func.dfg.insts[i].opcode() == Opcode::Store);
            let in_table = || match self.of_class(addr).moved() {
                Kinds::NONE => classes.contains(&self.find(addr)),
                known => known == Kinds::POINTER,
            };
            match self.of_cell(cell).moved() {
                known if known.has_float() => {
                    last_store(func, cx.cfg, inst, cell, 8).filter(is_word).is_some_and(stores_pointer)
                }
                _ if !uses.of(v).iter().all(is_store) => false,
                Kinds::NONE => cells.contains(&cell) || is_computed(func, cell.0) && in_table(),
                known => known == Kinds::POINTER,
            }
        };
        let mut all = EntitySet::new();
        all.extend(self.moved.iter().filter(is_from_one));
        all
    }

    /// Whether an integer that is no pointer is stored in some of the eight bytes of a cell.
    fn is_put_together(&self, (base, at): Cell) -> bool {
        let stores = self.short.get(&base).into_iter();
        stores.flat_map(|m| m.range(at.saturating_sub(3)..at.saturating_add(8))).any(|(&o, &n)| o + i64::from(n) > at)
    }

    /// The best answer for a place: its cell's, else its class's.
    pub fn at(&self, cell: Cell, addr: ir::Value) -> Kinds {
        let k = self.of_cell(cell).moved();
        if k != Kinds::NONE { k } else { self.of_class(addr) }
    }
}

/// A word, or a block of constant size, that is copied from one place to another.
struct CopiedBlock {
    from: Cell,
    to: Cell,
    bytes: i64,
}

/// Whether a place is computed from an address, as an element of a table is.
fn is_computed(func: &ir::Function, base: Base) -> bool {
    match base {
        Base::Value(v) => {
            let made = func.dfg.value_def(v).inst().map(|i| func.dfg.insts[i].opcode());
            made.is_some_and(|op| !op.can_load() && !op.is_call())
        }
        Base::Sum(..) => true,
        Base::Slot(_) | Base::Data(_) => false,
    }
}

/// Where values go in memory, as a function's accesses tell.
#[derive(Default)]
struct Moves {
    /// Blocks and words that are copied.
    blocks: Vec<CopiedBlock>,
    /// Addresses of the same.
    addresses: Vec<(ir::Value, ir::Value)>,
    /// Where words lie that may be pointers: parameters that are stored, and what is loaded where
    /// pointers lie about.
    guesses: Vec<(Cell, ir::Value)>,
    /// Arguments of calls through pointers, and floats that functions which may be meant access
    /// there.
    through_pointers: Vec<(ir::Value, Kinds)>,
}

/// Longer blocks are arrays rather than structs.
const MOST_COPIED: i64 = 4096;

fn copied_blocks(cx: &PointerInput<'_>) -> Vec<CopiedBlock> {
    let func = cx.func;
    let insts = cx.cfg.calls.iter().copied();
    let copied = |inst: ir::Inst| {
        use brolga_rules::MemFn::{Memcpy, Memmove};
        let Some(CalleeKind::Known(rule)) = CalleeKind::of(cx.program, func, inst) else { return None };
        let MathKind::Memory(Memcpy | Memmove) = rule.kind else { return None };
        let &[to, from, n] = func.dfg.inst_args(inst) else { return None };
        let bytes = constant_int(func, n).filter(|n| (1..=MOST_COPIED).contains(n))?;
        Some(CopiedBlock { from: cell_of(func, from, 0), to: cell_of(func, to, 0), bytes })
    };
    insts.filter_map(copied).collect()
}

/// Accesses of integers that are known to carry floats' bits, and of which kind.
pub type BitCarriers = HashMap<ir::Inst, Kinds>;

/// Accesses of integers of which it is known whose bits they carry, where nothing else says what
/// lies there.
pub fn carried(cx: &PointerInput<'_>, p: &Pointers, c: &Contents, lane: &SecondaryMap<ir::Value, u32>) -> BitCarriers {
    let func = cx.func;
    let (mut found, mut mixed) = (BitCarriers::default(), None);
    for &inst in cx.cfg.all_insts() {
        let (Opcode::Load | Opcode::Store) = func.dfg.insts[inst].opcode() else { continue };
        let addr = access_address(func, inst).expect("an access has an address");
        let v = func.dfg.inst_results(inst).first().copied().unwrap_or(func.dfg.inst_args(inst)[0]);
        let kind = match lane[v] {
            4 => Kinds::F32,
            8 => Kinds::F64,
            _ => continue,
        };
        let cell = cell_of(func, addr, access_offset(func, inst));
        let bytes = func.dfg.value_type(v).bytes();
        let unknown = c.of_cell(cell).moved() == Kinds::NONE
            && c.float_overlaps(cell, bytes) == Kinds::NONE
            && p.root(v).is_none();
        // What is computed of a float's bits, and compared, is no float; if it is handed on, the
        // load says so.
        let mut is_handed_on = || match func.dfg.insts[inst].opcode() {
            Opcode::Store => !mixed.get_or_insert_with(|| mixed_bits(cx, lane)).contains(v),
            _ => c.moved.contains(v),
        };
        if unknown && is_handed_on() {
            found.insert(inst, kind);
        }
    }
    found
}

/// Integers into which bits of a float are mixed, other than by what means something for the float,
/// and copies of them.
fn mixed_bits(cx: &PointerInput<'_>, lane: &SecondaryMap<ir::Value, u32>) -> EntitySet<ir::Value> {
    let (func, cfg) = (cx.func, cx.cfg);
    let mut found = EntitySet::new();
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for &b in &cfg.blocks {
            if b != cfg.blocks[0] {
                for (n, &v) in func.dfg.block_params(b).iter().enumerate().filter(|&(_, &v)| lane[v] != 0) {
                    changed |= cfg.incoming(b, n).any(|a| found.contains(a)) && found.insert(v);
                }
            }
            for &inst in cfg.insts(b) {
                let Some(&v) = func.dfg.inst_results(inst).first().filter(|&&v| lane[v] != 0) else { continue };
                changed |= is_mixed(func, inst, lane, &found) && found.insert(v);
            }
        }
    }
    found
}

fn is_mixed(
    func: &ir::Function,
    inst: ir::Inst,
    lane: &SecondaryMap<ir::Value, u32>,
    found: &EntitySet<ir::Value>,
) -> bool {
    let width = lane[func.dfg.first_result(inst)];
    let carries =
        |x| lane[x] != 0 && bit_idioms::constant_bytes(func, x).is_none() && !bit_idioms::is_mask(func, x, width);
    match func.dfg.insts[inst].opcode() {
        Opcode::Select | Opcode::SelectSpectreGuard => func.dfg.inst_args(inst)[1..].iter().any(|&a| found.contains(a)),
        Opcode::Band | Opcode::Bor | Opcode::Bxor | Opcode::Bnot | Opcode::Bitselect | Opcode::Blendv => {
            bit_idioms::classify(func, inst, width, carries)
                .is_none_or(|op| op.flows_to().into_iter().any(|x| found.contains(x)))
        }
        _ => false,
    }
}

/// Compute contents; also finds the loads that copy pointers that are not dereferenced, from cells
/// where other accesses move pointers.
pub fn compute(
    cx: &PointerInput<'_>,
    p: &Pointers,
    uses: &Uses,
    carried: &BitCarriers,
) -> (Contents, EntitySet<ir::Value>) {
    let func = cx.func;
    let mut c = Contents::default();
    let mut pointer_copy = p.pointer_copy.clone();
    // Classes of addresses, and declared contents.
    for (i, &v) in func.dfg.block_params(cx.cfg.blocks[0]).iter().enumerate() {
        if let ParamMode::Dup { holds, .. } = cx.params[i] {
            c.note(v, holds);
        }
    }
    let mut objects: HashMap<Base, ir::Value> = HashMap::default();
    for &b in &cx.cfg.blocks {
        if b != cx.cfg.blocks[0] {
            for (i, &v) in func.dfg.block_params(b).iter().enumerate() {
                if p.address.contains(v) || p.root(v).is_some() {
                    cx.cfg.incoming(b, i).for_each(|a| c.union(v, a));
                }
            }
        }
        for &inst in cx.cfg.insts(b) {
            let args = func.dfg.inst_args(inst);
            let data = func.dfg.insts[inst];
            match data.opcode() {
                Opcode::StackAddr | Opcode::SymbolValue => {
                    let v = func.dfg.first_result(inst);
                    if let Some((object, _)) = object_of(func, v) {
                        let first = *objects.entry(object).or_insert(v);
                        c.union(first, v);
                    }
                }
                Opcode::Iadd | Opcode::Isub | Opcode::Band | Opcode::Bor | Opcode::UaddOverflowTrap => {
                    let v = func.dfg.first_result(inst);
                    for &a in args {
                        if p.address.contains(v) && p.address.contains(a)
                            || p.root(v).is_some() && p.root(a) == p.root(v)
                        {
                            c.union(a, v);
                        }
                    }
                }
                op if matches!(op, Opcode::Select | Opcode::SelectSpectreGuard) || extreme_condition(op).is_some() => {
                    let v = func.dfg.first_result(inst);
                    if p.address.contains(v) || p.root(v).is_some() {
                        alternatives(func, inst).iter().for_each(|&a| c.union(a, v));
                    }
                }
                _ => {}
            }
        }
    }
    let mut moves = Moves { blocks: copied_blocks(cx), ..Moves::default() };
    // Evidence. What is loaded from the addresses of a typed tape is one, whatever becomes of it.
    for &inst in cx.cfg.all_insts() {
        if is_taped_address(func, inst) {
            pointer_copy.extend(func.dfg.inst_results(inst).iter().copied());
        }
        evidence(cx, p, uses, &mut c, &mut moves, inst);
    }
    c.from_pointers = c.loads_of_pointers(cx, p, uses, &moves.guesses);
    for (from, to) in moves.addresses {
        c.union(from, to);
    }
    // Where floats lie, those of the other size may lie as well.
    for (addr, floats) in moves.through_pointers {
        if c.of_class(addr).has_float() {
            c.note(addr, floats);
        }
    }
    c.note_given(func.dfg.block_params(cx.cfg.blocks[0]), cx.given);
    if !(carried.is_empty() && moves.guesses.is_empty()) {
        c.copy_cells(&moves.blocks);
        c.stated = Some(c.cells.clone());
    }
    for (cell, addr) in moves.guesses {
        c.note_cell(cell, addr, Kinds::POINTER);
    }
    for (&inst, &kind) in carried {
        let addr = access_address(func, inst).expect("an access has an address");
        c.note_cell(cell_of(func, addr, access_offset(func, inst)), addr, kind);
    }
    c.copy_cells(&moves.blocks);
    pointer_copy.extend(copies_where(func, &c.moved, |cell, _| c.of_cell(cell)));
    pointer_copy.extend(copies_where(func, &c.moved_by_offset, |cell, _| c.of_cell(cell)));
    (c, pointer_copy)
}

/// Loads that copy pointers that are not dereferenced, from cells of which nothing is known among
/// pointers. This is the weakest evidence there is; of a cell that is known to hold a float's bits,
/// or that is put together of halves, it says nothing.
pub fn beside_pointers(func: &ir::Function, c: &Contents) -> Vec<ir::Value> {
    let there = |cell, addr| match c.of_cell(cell).moved() {
        Kinds::NONE if c.is_put_together(cell) => Kinds::NONE,
        _ => c.at(cell, addr),
    };
    let mut found = copies_where(func, &c.moved, there);
    found.extend(c.from_pointers.iter());
    found
}

fn copies_where(
    func: &ir::Function,
    loads: &EntitySet<ir::Value>,
    there: impl Fn(Cell, ir::Value) -> Kinds,
) -> Vec<ir::Value> {
    let is_copy = |&v: &ir::Value| {
        let inst = func.dfg.value_def(v).unwrap_inst();
        let addr = access_address(func, inst).expect("a load has an address");
        let cell = cell_of(func, addr, access_offset(func, inst));
        func.dfg.value_type(v) == types::I64 && there(cell, addr).moved() == Kinds::POINTER
    };
    loads.iter().filter(is_copy).collect()
}

fn evidence(cx: &PointerInput<'_>, p: &Pointers, uses: &Uses, c: &mut Contents, moves: &mut Moves, inst: ir::Inst) {
    let func = cx.func;
    let args = func.dfg.inst_args(inst);
    let data = func.dfg.insts[inst];
    match data.opcode() {
        Opcode::Load | Opcode::AtomicLoad => {
            let addr = access_address(func, inst).expect("a load has an address");
            let cell = cell_of(func, addr, access_offset(func, inst));
            let v = func.dfg.first_result(inst);
            let ty = func.dfg.value_type(v);
            if ty.lane_type().is_float() {
                c.note_cell(cell, addr, Kinds::of_type(ty));
            } else if p.address.contains(v) || p.pointer_copy.contains(v) {
                if p.address.contains(v) {
                    c.note_cell(cell, addr, Kinds::POINTER);
                } else {
                    moves.guesses.push((cell, addr));
                }
                c.points_at(addr, v);
            } else {
                integer_evidence(cx, p, uses, c, moves, inst);
            }
        }
        Opcode::Store | Opcode::AtomicStore => {
            let addr = args[1];
            let cell = cell_of(func, addr, access_offset(func, inst));
            let ty = func.dfg.value_type(args[0]);
            if ty.lane_type().is_float() {
                c.note_cell(cell, addr, Kinds::of_type(ty));
            } else if let Some(root) = p.root(args[0]) {
                let known = p.sure.contains(root) || p.address.contains(root) || p.address.contains(args[0]);
                match p.roots.get(&root) {
                    Some(RootKind::Param(_) | RootKind::Load(_)) if !known => moves.guesses.push((cell, addr)),
                    _ => c.note_cell(cell, addr, Kinds::POINTER),
                }
                c.points_at(addr, args[0]);
            } else if let Some(k) = from_float(func, args[0]) {
                c.note_cell(cell, addr, k);
            } else if ty.bytes() < 8 {
                c.note_short(cell, ty.bytes());
            }
        }
        Opcode::Istore8 | Opcode::Istore16 | Opcode::Istore32 => {
            let cell = cell_of(func, args[1], access_offset(func, inst));
            c.note_short(cell, access_bytes(func, inst));
        }
        Opcode::Call | Opcode::CallIndirect => call_evidence(cx, p, c, moves, inst),
        _ => {}
    }
}

/// What becomes of an integer that is loaded tells what lies there.
fn integer_evidence(
    cx: &PointerInput<'_>,
    p: &Pointers,
    uses: &Uses,
    c: &mut Contents,
    moves: &mut Moves,
    inst: ir::Inst,
) {
    let func = cx.func;
    let addr = access_address(func, inst).expect("a load has an address");
    let cell = cell_of(func, addr, access_offset(func, inst));
    let v = func.dfg.first_result(inst);
    let ty = func.dfg.value_type(v);
    let f = fate(func, uses, v);
    if f.kinds != Kinds::NONE {
        c.note_cell(cell, addr, f.kinds);
    } else if f.arithmetic {
        // Words of a module are no pointers.
        let numbers =
            NumberInput { program: cx.program, func, cfg: cx.cfg, uses, summaries: cx.summaries, pointers: p };
        let asked = ty == types::I64 && !cx.program.vmctx_pointers_only;
        let uses = if asked { numbers.uses_of(v, |_| Kinds::NONE) } else { NumberUses::default() };
        c.note_cell(cell, addr, if uses.counted { Kinds::NUMBER } else { Kinds::INT });
        if uses.escapes {
            c.moved_by_offset.insert(v);
        }
    }
    if (f.stored || f.passed || f.cut || f.kinds != Kinds::NONE) && ty.bytes() >= 4 {
        c.moved.insert(v);
        if f.stored && !f.arithmetic {
            // What is copied from here to there is of one kind.
            for (to, at) in destinations(func, uses, v) {
                moves.addresses.push((addr, to));
                // Words of a module are no pointers.
                if cx.program.vmctx_pointers_only {
                    continue;
                }
                let to = cell_of(func, to, at);
                moves.blocks.push(CopiedBlock { from: cell, to, bytes: ty.bytes().into() });
            }
        }
    }
}

fn call_evidence(cx: &PointerInput<'_>, p: &Pointers, c: &mut Contents, moves: &mut Moves, inst: ir::Inst) {
    let func = cx.func;
    let args = func.dfg.inst_args(inst);
    match CalleeKind::of(cx.program, func, inst) {
        Some(CalleeKind::Indirect(sig)) if !cx.program.vmctx_pointers_only => {
            let signature = signature_id(&func.dfg.signatures[sig]);
            for (i, &a) in args[1..].iter().enumerate().filter(|a| p.root(*a.1).is_some()) {
                let callees = cx.summaries.addressed(signature);
                let floats = callees.map(|f| cx.summaries.contents(f, i).floats()).fold(Kinds::NONE, Kinds::join);
                moves.through_pointers.push((a, floats));
            }
        }
        Some(CalleeKind::Derived(f)) => {
            for (i, &a) in args.iter().enumerate() {
                if p.root(a).is_some() {
                    c.note(a, cx.summaries.contents(f, i));
                    let (base, at) = cell_of(func, a, 0);
                    for (&off, &k) in cx.summaries.cells(f, i) {
                        c.note_cell((base, at.wrapping_add(off)), a, k);
                    }
                }
            }
        }
        Some(CalleeKind::Known(rule)) => known_evidence(func, c, inst, &rule.kind),
        _ => {}
    }
}

/// What a C function accesses behind its arguments.
fn known_evidence(func: &ir::Function, c: &mut Contents, inst: ir::Inst, kind: &MathKind) {
    let args = func.dfg.inst_args(inst);
    if let MathKind::Memory(m) = *kind {
        use brolga_rules::MemFn::*;
        match m {
            Memcpy | Memmove => {
                c.union(args[0], args[1]);
                if let Some(&r) = func.dfg.inst_results(inst).first() {
                    c.union(args[0], r);
                }
            }
            Realloc => c.union(args[0], func.dfg.first_result(inst)),
            Memset => {
                if let Some(&r) = func.dfg.inst_results(inst).first() {
                    c.union(args[0], r);
                }
            }
            Memcmp | Malloc | Calloc | Free | FreeAtEnd => {}
        }
    } else if let MathKind::Writes(_, outs) = kind {
        for o in *outs {
            let k = match o.ty {
                brolga_rules::Ty::F64 => Kinds::F64,
                brolga_rules::Ty::F32 => Kinds::F32,
                _ => Kinds::INT,
            };
            let cell = cell_of(func, args[o.param], 0);
            c.note_cell(cell, args[o.param], k);
        }
    }
}
