//! Evidence of punned cells: what one function does by itself to places that hold pointers and
//! floats in time ([`crate::memory::punned_cells`]).
//!
//! **Question.** Which places does a function use for pointers, which for floats, and what does it
//! pass to callees?
//!
//! **Answer.** For each cell the kinds that are accessed there, and the parameters that a stored
//! value or an address may come from; for each call the cells and parameters that its arguments
//! are.
//!
//! **Cost.** One walk over the function; for each access and argument a walk over the roots of its
//! delta.

use std::collections::BTreeSet;

use brolga_ir::Program;
use brolga_rules::MathKind;
use cranelift_codegen::ir::{self, Opcode};

use crate::kinds::contents::Contents;
use crate::kinds::pointers::{PointerInput, Pointers, RootKind, origins};
use crate::lattice::kinds::Kinds;
use crate::memory::punned_cells::{CellContents, LocalCells, PassedPointer, PunnedCall, PunnedTarget};
use crate::query::callee::CalleeKind;
use crate::query::cell::{Base, Cell, cell_of};
use crate::query::{access_address, access_offset, constant_int, signature_id};
use crate::summary::Origins;

struct EvidenceCx<'a> {
    input: &'a PointerInput<'a>,
    program: &'a Program,
    func: &'a ir::Function,
    p: &'a Pointers,
    c: &'a Contents,
}

impl EvidenceCx<'_> {
    fn inst(&self, local: &mut LocalCells, inst: ir::Inst) {
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
                        local.note(cell, &CellContents { kinds: kind, params: BTreeSet::new() });
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

    fn call(&self, local: &mut LocalCells, inst: ir::Inst, args: &[ir::Value]) {
        let func = self.func;
        let (target, args) = match CalleeKind::of(self.program, func, inst) {
            Some(CalleeKind::Derived(f)) => (PunnedTarget::Direct(f), args),
            Some(CalleeKind::Indirect(sig)) => {
                (PunnedTarget::Signature(signature_id(&func.dfg.signatures[sig])), &args[1..])
            }
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
            passed.push(PassedPointer {
                cell,
                from: self.from(a),
                pointer: self.p.root(a).is_some() && self.is_pointer(a),
            });
        }
        local.calls.push(PunnedCall { inst, target, args: passed });
    }

    fn at(&self, local: &mut LocalCells, addr: ir::Value, off: i32, kinds: Kinds, params: BTreeSet<usize>) {
        let cell = self.cell(local, addr, off);
        local.note(cell, &CellContents { kinds, params });
    }

    /// The cell; remembers which data object its base is.
    fn cell(&self, local: &mut LocalCells, addr: ir::Value, off: i32) -> Cell {
        let cell = place_of(self.input.program, self.func, self.p, addr, off);
        if let Base::Data(gv) = cell.0
            && let Some(key) = self.program.data_of(self.func, gv)
        {
            local.data.insert(cell.0, key);
        }
        cell
    }

    /// The parameters that an address may be made from.
    fn from(&self, v: ir::Value) -> BTreeSet<usize> {
        let mut out = Origins::default();
        origins(self.input, self.p, v, &mut out);
        out.params
    }

    /// Whether an integer with a delta is a pointer for certain. One that came from an unknown
    /// callee or caller, and that nothing here takes for an address, may be a number.
    fn is_pointer(&self, v: ir::Value) -> bool {
        let p = self.p;
        p.root(v).is_some_and(|r| {
            let loaded = matches!(p.roots.get(&r), Some(RootKind::Load(_)));
            loaded || p.sure.contains(r) || p.address.contains(v) || p.address.contains(r)
        })
    }
}

/// The cell that an address and an offset name. In a derivative that is derived again the sum of a
/// pointer and a delta is in the memory that the delta leads to, and so is what a callee reaches by
/// a delta that it is given: cells there are counted from the delta.
pub fn place_of(program: &Program, func: &ir::Function, p: &Pointers, addr: ir::Value, off: i32) -> Cell {
    if program.nested == 0 {
        return cell_of(func, addr, off);
    }
    let is = |v: ir::Value, wanted: fn(&RootKind) -> bool| p.root(v).and_then(|r| p.roots.get(&r)).is_some_and(wanted);
    let mut by = i64::from(off);
    let mut v = addr;
    while let Some(inst) = func.dfg.value_def(v).inst() {
        let args = func.dfg.inst_args(inst);
        let constant = |i: usize| constant_int(func, args[i]);
        match func.dfg.insts[inst].opcode() {
            Opcode::Iadd if constant(1).is_some() => (v, by) = (args[0], by.wrapping_add(constant(1).unwrap_or(0))),
            Opcode::Iadd if constant(0).is_some() => (v, by) = (args[1], by.wrapping_add(constant(0).unwrap_or(0))),
            Opcode::Iadd if is(v, |k| matches!(k, RootKind::Sum(..))) => {
                (v, by) = (args[1], by.wrapping_add(cell_of(func, args[0], 0).1));
            }
            Opcode::Isub if is(v, |k| matches!(k, RootKind::Diff(..))) => {
                (v, by) = (args[0], by.wrapping_sub(cell_of(func, args[1], 0).1));
            }
            // Where there is no shadow, a delta is zero, and what would be there is elsewhere.
            Opcode::Select if constant(2) == Some(0) => v = args[1],
            Opcode::Select if is(args[1], |k| matches!(k, RootKind::Sum(..))) => v = args[1],
            _ => break,
        }
    }
    let (base, at) = cell_of(func, v, 0);
    (base, by.wrapping_add(at))
}

impl LocalCells {
    /// What one function does by itself.
    pub fn compute(input: &PointerInput<'_>, p: &Pointers, c: &Contents) -> Self {
        let PointerInput { program, func, cfg, .. } = *input;
        let mut local = LocalCells::default();
        for (i, &v) in func.dfg.block_params(cfg.blocks[0]).iter().enumerate() {
            local.params.insert(Base::Value(v), i);
        }
        let cx = EvidenceCx { input, program, func, p, c };
        for &b in &cfg.blocks {
            for inst in func.layout.block_insts(b) {
                cx.inst(&mut local, inst);
            }
        }
        local
    }
}
