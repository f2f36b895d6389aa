//! Known C functions: calls of mathematical functions and of memory functions, which have rules.
//!
//! **Question.** A call names a function of C that is not in the program. What is its reverse?
//! **Answer.** A mathematical function has a row of partials, as an instruction has
//! (`brolga_rules::libm`); a memory function does to the shadow what it does to the primal, or
//! undoes it.
//!
//! **Cost.** In the run that of the row, or a call of the run time that touches as many bytes of
//! the shadow as the function does of the primal.

use brolga_analysis::lattice::kinds::Kinds;
use brolga_analysis::memory::reaching_store::last_store;
use brolga_analysis::query::cell::cell_of;
use brolga_analysis::{CopyRole, MemRole, computed_operands};
use brolga_ir::inst::{AdOp, Arith, Check, ClearQuery, Defs, ShadowPlace, Shape, Val};
use brolga_ir::{Diagnostic, MemoryMode, Mode};
use brolga_rules::{ExprRow, MathKind, MathRule, MemFn, OutPtr, Ty};
use cranelift_codegen::ir::{self, types};

use super::{expr, memory};
use crate::translate::rules::moved_pointers::{self, CopiedBytes};
use crate::translate::stmt::{Cx, FragmentKind, wide};

/// A call of a known function.
pub(crate) fn call(cx: Cx<'_, '_, '_, '_>, rule: &MathRule) {
    match &rule.kind {
        MathKind::Expr(row) => expr::row(cx, row),
        MathKind::Writes(row, outs) => writes(cx, row, outs),
        MathKind::Memory(m) => memory_function(cx, *m),
        MathKind::Inactive => super::calls::inactive(cx, &rule.symbol),
    }
}

/// A call of a function of the program that computes a known one: the call stays, and the rule does
/// the rest.
pub(crate) fn computed(cx: Cx<'_, '_, '_, '_>, rule: &MathRule) {
    let z = cx.results()[0];
    super::calls::restoring(cx);
    if let MathKind::Expr(row) = &rule.kind
        && cx.facts().is_active(z)
    {
        let ct = cx.take_ct(z);
        let args = cx.args();
        expr::apply(cx, row, 0, ct, computed_operands(rule, args), &[z]);
    }
}

/// A function that also writes results through pointers (`modf`, `frexp`, `sincos`).
fn writes(cx: Cx<'_, '_, '_, '_>, row: &ExprRow, outs: &'static [OutPtr]) {
    let (args, results) = (cx.args(), cx.results());
    for (k, o) in outs.iter().enumerate() {
        memory::remember(cx, args[o.param], 0, clif_type(o.ty), k as u8);
    }
    let n_rets = row.n_results() - outs.len();
    for (k, &z) in results.iter().enumerate().take(n_rets) {
        if cx.facts().is_active(z) {
            let ct = cx.take_ct(z);
            expr::apply(cx, row, k, ct, args, results);
        }
    }
    for (k, o) in outs.iter().enumerate() {
        let p = args[o.param];
        match written_float(cx, row, n_rets + k, o) {
            Some(shape) => {
                if let Some(ct) = cx.take_mem(p, 0, shape) {
                    expr::apply(cx, row, n_rets + k, ct, args, results);
                }
            }
            None => cx.zero_mem(p, 0, clif_type(o.ty).bytes(), ClearQuery::Nothing),
        }
    }
}

/// The float that a function writes through a pointer as result `k` of its row, if an operand flows
/// into it: its pointer then has a shadow.
pub(crate) fn written_float(cx: Cx<'_, '_, '_, '_>, row: &ExprRow, k: usize, o: &OutPtr) -> Option<Shape> {
    let (args, p) = (cx.args(), cx.args()[o.param]);
    let flows = |i: usize| !row.partial(k, i).is_zero() && cx.facts().activity.is_varied(args[i]);
    let shape = Shape::of_float(clif_type(o.ty)).filter(|_| (0..row.n_operands()).any(flows))?;
    if cx.facts().delta(p).is_none() {
        let d = Diagnostic::new("AD0120", "an active value is stored in memory that has no shadow")
            .help("mark the pointer duplicated and give it a shadow");
        cx.problem(d);
    }
    memory::const_store_check(cx, p);
    Some(shape)
}

pub(crate) fn clif_type(ty: Ty) -> ir::Type {
    match ty {
        Ty::F64 => types::F64,
        Ty::F32 => types::F32,
        Ty::I32 => types::I32,
        Ty::I64 | Ty::Ptr | Ty::Size => types::I64,
    }
}

const I64: ir::Type = types::I64;

/// `malloc` or `calloc`, with a shadow: the address of the block.
pub(crate) fn new_block(cx: Cx<'_, '_, '_, '_>, m: MemFn) -> ir::Value {
    let z = cx.results()[0];
    cx.replace_primal();
    let mut operands = vec![None];
    for &a in cx.args() {
        let n = wide(cx, FragmentKind::Before, a);
        operands.push(Some(n));
    }
    let symbol = if m == MemFn::Malloc { "brolga_malloc" } else { "brolga_calloc" };
    allocate(cx, symbol, &operands, z);
    z
}

fn memory_function(cx: Cx<'_, '_, '_, '_>, m: MemFn) {
    let args = cx.args();
    let restore = cx.facts().options.memory == MemoryMode::Restore;
    match m {
        MemFn::Memcmp => {}
        MemFn::Memcpy | MemFn::Memmove => {
            save_bytes(cx, args[0], args[2]);
            copy(cx, args[0], args[1], args[2]);
        }
        MemFn::Memset => {
            save_bytes(cx, args[0], args[2]);
            if let Some(d) = cx.facts().delta(args[0]) {
                let pointers = cx.facts().contents.of_class(args[0]).moved() == Kinds::POINTER;
                let w = if pointers { FragmentKind::After } else { FragmentKind::Rvs };
                let n = wide(cx, w, args[2]);
                clear(cx, w, Some(Val::Primal(args[0])), d, n);
            }
        }
        MemFn::Malloc | MemFn::Calloc => {
            let z = new_block(cx, m);
            // In a combined function the reverse runs once, and nothing comes to this shadow after
            // it.
            if cx.facts().mode == Mode::Split {
                let s = shadow_address(cx, z);
                cx.helper(FragmentKind::Rvs, "brolga_malloc_rev", &[Some(s)], &[I64], Defs::default(), false);
            }
        }
        MemFn::Realloc => {
            let z = cx.results()[0];
            cx.replace_primal();
            let n = wide(cx, FragmentKind::Before, args[1]);
            let deferred = cx.iconst(FragmentKind::Before, i64::from(restore));
            let delta = Some(cx.delta_or_zero(FragmentKind::Before, args[0]));
            let operands = [None, Some(Val::Primal(args[0])), delta, Some(n), Some(deferred)];
            allocate(cx, "brolga_realloc", &operands, z);
            let (old, new) = (shadow_address(cx, args[0]), shadow_address(cx, z));
            cx.helper(
                FragmentKind::Rvs,
                "brolga_realloc_rev",
                &[Some(old), Some(new)],
                &[I64; 2],
                Defs::default(),
                false,
            );
        }
        MemFn::Free => {
            cx.replace_primal();
            let deferred = restore || cx.facts().deferred.contains(cx.inst());
            let deferred = cx.iconst(FragmentKind::After, i64::from(deferred));
            let operands = [None, Some(Val::Primal(args[0])), Some(deferred)];
            cx.helper(FragmentKind::After, "brolga_free", &operands, &[I64; 3], Defs::default(), false);
        }
        MemFn::FreeAtEnd => free_at_end(cx),
    }
}

/// A block is freed with those of the run.
pub(crate) fn free_at_end(cx: Cx<'_, '_, '_, '_>) {
    let block = cx.args()[0];
    cx.replace_primal();
    let deferred = cx.iconst(FragmentKind::After, 1);
    let operands = [None, Some(Val::Primal(block)), Some(deferred)];
    cx.helper(FragmentKind::After, "brolga_free", &operands, &[I64; 3], Defs::default(), false);
}

/// The shadow address of a heap block, null for null.
fn shadow_address(cx: Cx<'_, '_, '_, '_>, p: ir::Value) -> Val {
    match cx.facts().delta(p) {
        Some(d) => cx.arith(Arith::Iadd, &[Val::Primal(p), d], I64),
        None => cx.iconst(FragmentKind::Rvs, 0),
    }
}

/// Call an allocating helper: it returns the block and its delta; an odd delta is a status.
pub(crate) fn allocate(cx: Cx<'_, '_, '_, '_>, symbol: &str, operands: &[Option<Val>], z: ir::Value) {
    let defs = [(Val::Primal(z), I64), (Val::Delta(z), I64)].into();
    cx.helper(FragmentKind::After, symbol, operands, &vec![I64; operands.len()], defs, false);
    let one = cx.iconst(FragmentKind::After, 1);
    let odd = cx.emit(FragmentKind::After, AdOp::Arith(Arith::Band, [Val::Delta(z), one].into(), I64), I64);
    cx.push(FragmentKind::After, Defs::default(), AdOp::TrapIf(odd, Check::Helper));
}

/// In memory mode `restore`: put the bytes that will be overwritten on the tape, and take them off
/// in the pullback.
fn save_bytes(cx: Cx<'_, '_, '_, '_>, p: ir::Value, n: ir::Value) {
    if cx.facts().options.memory != MemoryMode::Restore {
        return;
    }
    let size = wide(cx, FragmentKind::Before, n);
    let status = Val::D(cx.t.ids.dv());
    let operands = [None, Some(Val::Primal(p)), Some(size)];
    cx.helper(FragmentKind::Before, "brolga_save_bytes", &operands, &[I64; 3], [(status, I64)].into(), true);
    cx.push(FragmentKind::Before, Defs::default(), AdOp::TrapIf(status, Check::TapeFull));
    let size = wide(cx, FragmentKind::Rvs, n);
    let operands = [None, Some(Val::Primal(p)), Some(size)];
    cx.helper(FragmentKind::Rvs, "brolga_restore_bytes", &operands, &[I64; 3], Defs::default(), true);
}

/// `memcpy` and `memmove`: the shadow of the source gets the cotangents of the destination, which
/// is then cleared.
fn copy(cx: Cx<'_, '_, '_, '_>, to: ir::Value, from: ir::Value, n: ir::Value) {
    let role = cx.facts().activity.copies[cx.inst()].clone().unwrap_or(CopyRole::Ints);
    if cx.facts().delta(to).is_none() {
        return;
    }
    let role = if moved_pointers::asks_each_word(cx, from) { asked_role(cx, role, from) } else { role };
    if let CopyRole::Fields(fields) = role {
        return copy_fields(cx, (to, from, n), &fields);
    }
    if matches!(role, CopyRole::Floats(_) | CopyRole::Mixed) && !cx.facts().sure(to) && cx.facts().delta(from).is_some()
    {
        copied_where_no_shadow_is(cx, to, from, n);
    }
    if role != CopyRole::Pointers && moved_pointers::may_copy_pointers(cx, from) {
        let bytes = CopiedBytes { to, from, n: Some(n), off: 0 };
        moved_pointers::copy(cx, bytes, !matches!(role, CopyRole::Floats(8) | CopyRole::Ints));
    }
    let w = if role == CopyRole::Pointers { FragmentKind::After } else { FragmentKind::Rvs };
    let (dt, df) = (cx.delta_or_zero(w, to), cx.delta_or_zero(w, from));
    let (to_value, n_value) = (to, n);
    let n = wide(cx, w, n);
    let (to, from) = (Some(Val::Primal(to)), Some(Val::Primal(from)));
    match role {
        CopyRole::Pointers => {
            // As where a pointer is stored.
            if cx.facts().may_hold_floats(to_value) {
                let (dt, n) = (cx.delta_or_zero(FragmentKind::Rvs, to_value), wide(cx, FragmentKind::Rvs, n_value));
                let operands = [to, Some(dt), Some(n)];
                cx.helper(FragmentKind::Rvs, "brolga_zero", &operands, &[I64; 3], Defs::default(), false);
            }
            cx.helper(
                w,
                "brolga_copy_shadow",
                &[to, Some(dt), from, Some(df), Some(n)],
                &[I64; 5],
                Defs::default(),
                false,
            );
        }
        // In WebAssembly any bytes can be copied, from the middle of a float to the middle of
        // another.
        CopyRole::Mixed | CopyRole::Floats(_) if role == CopyRole::Mixed || cx.facts().program.vmctx_pointers_only => {
            let elem = cx.iconst(w, if let CopyRole::Floats(bytes) = role { bytes.into() } else { 0 });
            let operands = [None, to, Some(dt), from, Some(df), Some(n), Some(elem)];
            let status = Val::D(cx.t.ids.dv());
            cx.helper(w, "brolga_move_rev", &operands, &[I64; 7], [(status, I64)].into(), false);
            cx.push(w, Defs::default(), AdOp::TrapIf(status, Check::UntrackedBits));
        }
        CopyRole::Floats(bytes) => {
            let elem = cx.iconst(w, i64::from(bytes));
            let operands = [to, Some(dt), from, Some(df), Some(n), Some(elem)];
            cx.helper(w, "brolga_memmove_rev", &operands, &[I64; 6], Defs::default(), false);
        }
        CopyRole::Fields(_) | CopyRole::Mixed => unreachable!("handled above"),
        CopyRole::Ints => {
            if cx.facts().summaries.makes_numbers() && !cx.facts().options.tape.is_standalone() {
                let operands = [None, to, Some(dt), from, Some(df), Some(n)];
                cx.helper(w, "brolga_move_poison", &operands, &[I64; 6], Defs::default(), false);
            }
            clear(cx, w, to, dt, n);
        }
    }
}

/// A block is filled with numbers: its shadow is cleared, and where floats may lie that it has a
/// part of, it is seen what becomes of the others.
fn clear(cx: Cx<'_, '_, '_, '_>, w: FragmentKind, to: Option<Val>, delta: Val, n: Val) {
    let Some(of) = cx.facts().fills(cx.inst()).filter(|_| w == FragmentKind::Rvs) else {
        return cx.helper(w, "brolga_zero", &[to, Some(delta), Some(n)], &[I64; 3], Defs::default(), false);
    };
    let of = cx.iconst(w, of.into());
    let status = Val::D(cx.t.ids.dv());
    let operands = [None, to, Some(delta), Some(n), Some(of)];
    cx.helper(w, "brolga_clear", &operands, &[I64; 5], [(status, I64)].into(), false);
    cx.push(w, Defs::default(), AdOp::TrapIf(status, Check::UntrackedBits));
}

/// Trap if bytes are copied from memory that has a shadow to memory that has none.
pub(crate) fn copied_where_no_shadow_is(cx: Cx<'_, '_, '_, '_>, to: ir::Value, from: ir::Value, n: ir::Value) {
    let w = FragmentKind::Before;
    let (dt, df, n) = (cx.delta_or_zero(w, to), cx.delta_or_zero(w, from), wide(cx, w, n));
    let mut flag = |op: Arith, args: &[Val]| cx.emit(w, AdOp::Arith(op, args.into(), types::I8), types::I8);
    let no_target = flag(Arith::IsZero, &[dt]);
    let no_source = flag(Arith::IsZero, &[df]);
    let nothing = flag(Arith::IsZero, &[n]);
    let harmless = flag(Arith::Bor, &[no_source, nothing]);
    let harmful = flag(Arith::Not, &[harmless]);
    let lost = flag(Arith::Band, &[no_target, harmful]);
    cx.push(w, Defs::default(), AdOp::TrapIf(lost, Check::ConstStore));
}

/// A copy of which shadows are asked what each word is: there may be floats among what are taken
/// for pointers, and anything where nothing is known.
fn asked_role(cx: Cx<'_, '_, '_, '_>, role: CopyRole, from: ir::Value) -> CopyRole {
    let unknown = |f: &(i32, MemRole)| matches!(f.1, MemRole::Kill { bytes: 8, .. });
    match &role {
        CopyRole::Pointers => {}
        CopyRole::Fields(fields) if fields.iter().any(unknown) => {}
        _ => return role,
    }
    let fields = if let CopyRole::Fields(fields) = &role { &fields[..] } else { &[] };
    let floats = fields.iter().fold(cx.facts().contents.of_class(from).floats(), |all, f| match f.1 {
        MemRole::Float(shape) => all.join(Kinds::of_type(shape.ty())),
        _ => all,
    });
    match floats {
        Kinds::F64 => CopyRole::Floats(8),
        _ => CopyRole::Mixed,
    }
}

/// Whether the last store to a place before a copy stores a pointer.
fn is_pointer_stored(cx: Cx<'_, '_, '_, '_>, p: ir::Value, off: i32) -> bool {
    let (func, facts) = (cx.func(), cx.facts());
    let found = last_store(func, facts.cfg, cx.inst(), cell_of(func, p, off), 8).filter(|f| f.offset == 0);
    found.is_some_and(|f| facts.pointers.root(func.dfg.inst_args(f.store)[0]).is_some())
}

/// A copy of a struct: each field as a load and a store of its own, all loads before all stores,
/// since places may overlap. A place that a record has for a pointer may have held a float before,
/// unless the pointer is seen to be stored there: then shadows are asked which words are pointers.
fn copy_fields(cx: Cx<'_, '_, '_, '_>, (to, from, n): (ir::Value, ir::Value, ir::Value), fields: &[(i32, MemRole)]) {
    let mut pointers = fields.iter().filter(|f| f.1 == MemRole::Pointer);
    let asks = pointers.any(|f| !is_pointer_stored(cx, from, f.0)) && moved_pointers::asks_each_word(cx, from);
    if asks {
        moved_pointers::copy(cx, CopiedBytes { to, from, n: Some(n), off: 0 }, false);
    }
    let (dt, df) = (cx.delta_or_zero(FragmentKind::Before, to), cx.delta_or_zero(FragmentKind::Before, from));
    let (pt, pf) = (Val::Primal(to), Val::Primal(from));
    let mut pointers = Vec::new();
    for &(off, role) in fields {
        if let MemRole::Float(shape) = role {
            moved_pointers::expect_float_field(cx, from, off, shape);
        }
        if role == MemRole::Pointer && !asks {
            if !is_pointer_stored(cx, from, off) {
                moved_pointers::expect_pointer_field(cx, from, off);
            }
            let p = cx.emit(FragmentKind::Before, AdOp::LoadOld { addr: pf, off, ty: I64 }, I64);
            let d =
                cx.emit(FragmentKind::Before, AdOp::LoadDelta { place: ShadowPlace::new(pf, df, off), loaded: p }, I64);
            pointers.push((off, p, d));
        }
    }
    for (off, value, d) in pointers {
        let op = AdOp::StoreDelta { place: ShadowPlace::new(pt, dt, off), value, vdelta: Some(d) };
        cx.push(FragmentKind::Before, Defs::default(), op);
    }
    let mut taken = Vec::new();
    for &(off, role) in fields {
        match role {
            MemRole::Float(shape) => taken.extend(cx.take_mem(to, off, shape).map(|ct| (off, ct, shape))),
            MemRole::Kill { bytes, checked } => {
                if bytes == 8 && !asks && moved_pointers::may_copy_pointers(cx, from) {
                    moved_pointers::copy(cx, CopiedBytes { to, from, n: None, off }, false);
                }
                let asks = if checked { ClearQuery::Zero } else { ClearQuery::Nothing };
                cx.zero_mem(to, off, bytes, asks);
            }
            MemRole::Pointer if asks => {
                let Some(place) = cx.facts().place(to, off) else { continue };
                let take = AdOp::TakeMem { place, shape: Shape::F64 };
                taken.push((off, cx.emit(FragmentKind::Rvs, take, types::F64), Shape::F64));
            }
            MemRole::Pointer | MemRole::None => {}
        }
    }
    for (off, ct, shape) in taken {
        cx.add_mem(from, off, ct, shape, false);
    }
}
