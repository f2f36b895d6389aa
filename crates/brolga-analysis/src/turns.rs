//! Places that hold pointers and floats by turns, across calls.
//!
//! **Question.** The shadow of a place is the address of a shadow while a pointer is there, and a cotangent while a float is. A
//! function that stores a float has to know whether a pointer may have been there before; that may be its caller's doing, or
//! another callee's. One that stores a pointer has to know whether a float may have been there: on the way back its cotangent is.
//!
//! **Answer.** For each function, the places behind its parameters and in data objects where it loads or stores a pointer, or
//! stores a float that is no constant: by constant offset, since fields of one record have different ones. Callees' places are
//! the caller's where they are behind what it passes. Facts only grow and offsets are bounded by [`FAR`], so recursion converges.
//! A function that is called through a pointer may be any whose address is taken.
//!
//! **On which side it errs.** A place that is reached by other than constant offsets, or through a pointer that was loaded, is not
//! followed. [`Turns::floats`] and [`Turns::pointers`] follow all addresses that are made from a parameter, so they say rather too much.

use std::collections::{BTreeMap, BTreeSet};

use brolga_ir::map::HashMap;
use brolga_ir::{DataKey, FuncKey, Program};
use brolga_rules::MathKind;
use cranelift_codegen::ir::{self, Opcode};

use crate::callee::CalleeKind;
use crate::cell::{Base, Cell, access_offset, cell_of, object_of};
use crate::contents::{Contents, Kinds};
use crate::modes::signature_id;
use crate::pointers::{PointerInput, Pointers, RootKind, access_address};
use crate::summary::{Origins, origins};

/// Places further from what was passed are not followed.
const FAR: i64 = 1024;

/// What a place holds at one time or another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Pointers, or floats that are stored there.
    pub kinds: Kinds,
    /// Parameters that are stored there: pointers if the caller passes pointers.
    params: BTreeSet<usize>,
}

/// Places by offset.
pub type Places = BTreeMap<i64, Held>;

/// An argument of a call.
#[derive(Clone, Debug)]
struct Passed {
    /// Where it points, if it has a shadow.
    cell: Option<Cell>,
    /// The parameters that it may be made from.
    from: BTreeSet<usize>,
    /// It is a pointer for certain.
    pointer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Direct(FuncKey),
    Signature(u64),
}

#[derive(Clone, Debug)]
struct Call {
    inst: ir::Inst,
    target: Target,
    args: Vec<Passed>,
}

/// Parameters behind which something is stored, at whatever place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stored {
    floats: BTreeSet<usize>,
    pointers: BTreeSet<usize>,
}

/// What one function does by itself.
#[derive(Clone, Debug, Default)]
pub struct Local {
    places: BTreeMap<Base, Places>,
    stored: Stored,
    calls: Vec<Call>,
    params: BTreeMap<Base, usize>,
    data: BTreeMap<Base, DataKey>,
    addressed: Vec<(u64, FuncKey)>,
}

/// What all functions do, their callees included.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    funcs: HashMap<FuncKey, (Vec<Places>, Stored)>,
    data: HashMap<DataKey, Places>,
    addressed: HashMap<u64, BTreeSet<FuncKey>>,
}

impl Turns {
    /// Whether `f` or what it calls stores a float somewhere behind its parameter `i`.
    pub fn floats(&self, f: FuncKey, i: usize) -> bool {
        self.funcs.get(&f).is_some_and(|t| t.1.floats.contains(&i))
    }

    /// The same of pointers.
    pub fn pointers(&self, f: FuncKey, i: usize) -> bool {
        self.funcs.get(&f).is_some_and(|t| t.1.pointers.contains(&i))
    }

    /// From what functions do by themselves.
    pub fn compute(locals: &BTreeMap<FuncKey, Local>) -> Self {
        let mut all = Turns::default();
        for local in locals.values() {
            for &(signature, f) in &local.addressed {
                all.addressed.entry(signature).or_default().insert(f);
            }
        }
        loop {
            let mut changed = false;
            for (&f, local) in locals {
                let mut params = vec![Places::new(); local.params.len()];
                let near: Vec<_> = local.everything(&all).filter(|x| x.1.abs() <= FAR).collect();
                for (base, off, held) in near {
                    if let Some(&i) = local.params.get(&base) {
                        note(&mut params[i], off, &held);
                    } else if let Some(&key) = local.data.get(&base) {
                        changed |= note(all.data.entry(key).or_default(), off, &held);
                    }
                }
                let mut stored = local.stored.clone();
                for call in &local.calls {
                    for g in all.targets(call.target) {
                        let Some((_, there)) = all.funcs.get(&g) else { continue };
                        for (here, there) in
                            [(&mut stored.floats, &there.floats), (&mut stored.pointers, &there.pointers)]
                        {
                            here.extend(there.iter().filter_map(|&i| call.args.get(i)).flat_map(|a| &a.from));
                        }
                    }
                }
                let new = (params, stored);
                if all.funcs.get(&f) != Some(&new) {
                    all.funcs.insert(f, new);
                    changed = true;
                }
            }
            if !changed {
                return all;
            }
        }
    }

    fn targets(&self, t: Target) -> Vec<FuncKey> {
        match t {
            Target::Direct(f) => vec![f],
            Target::Signature(s) => self.addressed.get(&s).into_iter().flatten().copied().collect(),
        }
    }

    /// The places that a call reaches, in the caller's terms.
    fn reached(&self, call: &Call) -> Vec<(Cell, Held)> {
        let mut out = Vec::new();
        for f in self.targets(call.target) {
            let Some((params, _)) = self.funcs.get(&f) else { continue };
            for (arg, places) in call.args.iter().zip(params) {
                let Some((base, at)) = arg.cell else { continue };
                for (off, held) in places {
                    let mut here = Held { kinds: held.kinds, params: BTreeSet::new() };
                    for stored in held.params.iter().filter_map(|&j| call.args.get(j)) {
                        if stored.pointer {
                            here.kinds = here.kinds.join(Kinds::POINTER);
                        }
                        here.params.extend(&stored.from);
                    }
                    out.push(((base, at.wrapping_add(*off)), here));
                }
            }
        }
        out
    }
}

fn note(places: &mut Places, off: i64, held: &Held) -> bool {
    let e = places.entry(off).or_default();
    let old = e.clone();
    e.kinds = e.kinds.join(held.kinds);
    e.params.extend(&held.params);
    *e != old
}

impl Local {
    /// What one function does by itself.
    pub fn compute(input: &PointerInput<'_>, p: &Pointers, c: &Contents) -> Self {
        let PointerInput { program, func, cfg, .. } = *input;
        let mut local = Local::default();
        for (i, &v) in func.dfg.block_params(cfg.blocks[0]).iter().enumerate() {
            local.params.insert(Base::Value(v), i);
        }
        let cx = Cx { input, program, func, p, c };
        for &b in &cfg.blocks {
            for inst in func.layout.block_insts(b) {
                cx.inst(&mut local, inst);
            }
        }
        local
    }

    fn note(&mut self, (base, off): Cell, held: &Held) {
        note(self.places.entry(base).or_default(), off, held);
    }

    /// Its own places and those of its callees.
    fn everything<'a>(&'a self, all: &'a Turns) -> impl Iterator<Item = (Base, i64, Held)> + 'a {
        let own = self.places.iter().flat_map(|(b, ps)| ps.iter().map(|(off, h)| (*b, *off, h.clone())));
        let calls = self.calls.iter().flat_map(|call| all.reached(call));
        own.chain(calls.map(|((b, off), h)| (b, off, h)))
    }
}

/// Where pointers are in the places that a function knows, its callees' doings included.
#[derive(Clone, Debug, Default)]
pub struct Here {
    places: BTreeMap<Base, Places>,
    /// Floats that calls store, and pointers that they store or load.
    stored: HashMap<ir::Inst, Vec<(Cell, u32)>>,
    pointers: HashMap<ir::Inst, Vec<Cell>>,
}

impl Here {
    /// For one variant of a function.
    pub fn compute(local: &Local, all: &Turns) -> Self {
        let mut here = Here::default();
        for (base, off, held) in local.everything(all) {
            note(here.places.entry(base).or_default(), off, &held);
        }
        for (base, key) in &local.data {
            for (off, held) in all.data.get(key).into_iter().flatten() {
                note(here.places.entry(*base).or_default(), *off, held);
            }
        }
        for call in &local.calls {
            let floats = all.reached(call).into_iter().filter(|x| x.1.kinds.has_float());
            let width = |k: Kinds| if k.has(Kinds::F64) { 8 } else { 4 };
            here.stored.insert(call.inst, floats.map(|(cell, h)| (cell, width(h.kinds))).collect());
            let pointers = all.reached(call).into_iter().filter(|x| x.1.kinds.has(Kinds::POINTER));
            here.pointers.insert(call.inst, pointers.map(|x| x.0).collect());
        }
        here
    }

    /// Whether a pointer may be in some of these bytes at one time or another.
    pub fn pointer(&self, (base, off): Cell, bytes: u32) -> bool {
        let places = self.places.get(&base).into_iter();
        places
            .flat_map(|ps| ps.range(off.saturating_sub(7)..off.saturating_add(i64::from(bytes))))
            .any(|(_, h)| h.kinds.has(Kinds::POINTER))
    }

    /// Whether a float that is no constant is stored in some of the eight bytes of a pointer at one time or another.
    pub fn float(&self, (base, off): Cell) -> bool {
        let places = self.places.get(&base).into_iter();
        places.flat_map(|ps| ps.range(off.saturating_sub(7)..off.saturating_add(8))).any(|(&o, h)| {
            let width = if h.kinds.has(Kinds::F64) { 8 } else { 4 };
            h.kinds.has_float() && o + width > off
        })
    }

    /// The places where a call has to do with pointers.
    pub fn pointers_of(&self, call: ir::Inst) -> &[Cell] {
        self.pointers.get(&call).map_or(&[], |s| s)
    }

    /// The places, with their sizes, where a call stores floats.
    pub fn stored_by(&self, call: ir::Inst) -> &[(Cell, u32)] {
        self.stored.get(&call).map_or(&[], |s| s)
    }
}

struct Cx<'a> {
    input: &'a PointerInput<'a>,
    program: &'a Program,
    func: &'a ir::Function,
    p: &'a Pointers,
    c: &'a Contents,
}

impl Cx<'_> {
    fn inst(&self, local: &mut Local, inst: ir::Inst) {
        let func = self.func;
        let args = func.dfg.inst_args(inst);
        match func.dfg.insts[inst].opcode() {
            Opcode::Load | Opcode::AtomicLoad => {
                let v = func.dfg.first_result(inst);
                if self.p.root(v) == Some(v) {
                    let addr = access_address(func, inst).expect("a load has an address");
                    self.at(local, addr, access_offset(func, inst), Kinds::POINTER, BTreeSet::new());
                }
            }
            Opcode::Store | Opcode::AtomicStore => {
                let (x, addr, off) = (args[0], args[1], access_offset(func, inst));
                if self.p.root(x).is_some() {
                    let kinds = if self.is_pointer(x) { Kinds::POINTER } else { Kinds::NONE };
                    let params = if self.is_pointer(x) { BTreeSet::new() } else { self.from(x) };
                    self.at(local, addr, off, kinds, params);
                    local.stored.pointers.extend(self.from(addr));
                    return;
                }
                let ty = func.dfg.value_type(x);
                let constant = func.dfg.value_def(x).inst().map(|i| func.dfg.insts[i].opcode());
                let constant = matches!(constant, Some(Opcode::F32const | Opcode::F64const | Opcode::Iconst));
                let (mut kind, mut width) = (Kinds::of_type(ty), ty.lane_type().bytes());
                if kind == Kinds::NONE {
                    // An integer that a float is read from, or that was a float.
                    let over = self.c.float_overlaps(cell_of(func, addr, off), ty.bytes());
                    (kind, width) = (over, if over.has(Kinds::F64) { 8 } else { 4 });
                }
                if kind.has_float() && !constant {
                    let (base, first) = self.cell(local, addr, off);
                    for lane in 0..(ty.bytes() / width).max(1) {
                        let cell = (base, first.wrapping_add(i64::from(lane * width)));
                        local.note(cell, &Held { kinds: kind, params: BTreeSet::new() });
                    }
                    local.stored.floats.extend(self.from(addr));
                }
            }
            Opcode::FuncAddr => {
                if let ir::InstructionData::FuncAddr { func_ref, .. } = func.dfg.insts[inst]
                    && let Some(f) = self.program.callee(func, func_ref)
                {
                    local.addressed.push((signature_id(&self.program.funcs[f].signature), f));
                }
            }
            Opcode::Call | Opcode::CallIndirect => self.call(local, inst, args),
            _ => {}
        }
    }

    fn call(&self, local: &mut Local, inst: ir::Inst, args: &[ir::Value]) {
        let func = self.func;
        let (target, args) = match CalleeKind::of(self.program, func, inst) {
            Some(CalleeKind::Derived(f)) => (Target::Direct(f), args),
            Some(CalleeKind::Indirect(sig)) => (Target::Signature(signature_id(&func.dfg.signatures[sig])), &args[1..]),
            Some(CalleeKind::Known(rule)) => {
                match rule.kind {
                    MathKind::Writes(_, outs) => {
                        for o in outs {
                            let kind = match o.ty {
                                brolga_rules::Ty::F64 => Kinds::F64,
                                brolga_rules::Ty::F32 => Kinds::F32,
                                _ => continue,
                            };
                            self.at(local, args[o.param], 0, kind, BTreeSet::new());
                            local.stored.floats.extend(self.from(args[o.param]));
                        }
                    }
                    MathKind::Memory(_) => {
                        let kinds = self.c.of_class(args[0]);
                        if kinds.has_float() {
                            local.stored.floats.extend(self.from(args[0]));
                        }
                        if kinds.has(Kinds::POINTER) {
                            local.stored.pointers.extend(self.from(args[0]));
                        }
                    }
                    _ => {}
                }
                return;
            }
            _ => return,
        };
        let mut passed = Vec::new();
        for &a in args {
            let cell = self.p.root(a).map(|_| self.cell(local, a, 0));
            passed.push(Passed { cell, from: self.from(a), pointer: self.p.root(a).is_some() && self.is_pointer(a) });
        }
        local.calls.push(Call { inst, target, args: passed });
    }

    fn at(&self, local: &mut Local, addr: ir::Value, off: i32, kinds: Kinds, params: BTreeSet<usize>) {
        let cell = self.cell(local, addr, off);
        local.note(cell, &Held { kinds, params });
    }

    /// The cell; remembers which data object its base is.
    fn cell(&self, local: &mut Local, addr: ir::Value, off: i32) -> Cell {
        let cell = cell_of(self.func, addr, off);
        if let Base::Data(gv) = cell.0
            && let Some(key) = self.program.data_of(self.func, gv)
        {
            local.data.insert(cell.0, key);
        }
        debug_assert!(object_of(self.func, addr).is_none_or(|o| o.0 == cell.0));
        cell
    }

    /// The parameters that an address may be made from.
    fn from(&self, v: ir::Value) -> BTreeSet<usize> {
        let mut out = Origins::default();
        origins(self.input, self.p, v, &mut out);
        out.params
    }

    /// Whether an integer with a delta is a pointer for certain. One that came from an unknown callee or caller, and that nobody
    /// here takes for an address, may be a number.
    fn is_pointer(&self, v: ir::Value) -> bool {
        let p = self.p;
        p.root(v).is_some_and(|r| {
            let loaded = matches!(p.roots.get(&r), Some(RootKind::Load(_)));
            loaded || p.sure.contains(r) || p.address.contains(v) || p.address.contains(r)
        })
    }
}
