//! Integers that become numbers: where floats' bits would leave what derivatives are made of.
//!
//! **Question.** An integer is loaded and converted to a float. If a float lay there, the number
//! depends on it in a way that no rule describes (a logarithm by bits, a hash). The load cannot
//! tell, nor can an analysis where all memory is one array of bytes. Of which loads must the run
//! find out?
//!
//! **Answer.** Of those that lead to a conversion whose result is more than compared, or to memory
//! without a shadow, here, in a callee or in a caller ([`IntegerFate::Number`]). The set is closed
//! backwards as that of [`super::demanded_bits`] is. And since a number may be made of an integer
//! that another function has computed and stored, of those that lead by arithmetic to the store of
//! an integer ([`IntegerFate::Stored`]), in programs that make numbers at all.
//!
//! ```text
//! v1 = load.i64 v0            Number
//! v2 = band v1, v9
//! v3 = fcvt_from_sint.f64 v2
//! v4 = load.i64 v0+8          Stored
//! v5 = ushr v4, v8
//! store v5, v7
//! ```
//!
//! In a module the forward pass also asks whether the host has put a float where a `Number` is
//! loaded.
//!
//! **Cost.** Two worklists over the definitions of integers.
//!
//! **Source.** Demanded-bits analysis; what the run does is in `brolga_runtime::pieces::poison`.

use brolga_ir::FuncKey;
use brolga_ir::map::HashMap;
use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::{EntitySet, SecondaryMap};

use super::answer::BecomingBytes;
use super::context::ActivityCx;
use super::demanded_bits::{DemandCx, DemandInput, DemandedBits};
use crate::bits::bytes::{OperandBytes, pieces_of};
use crate::kinds::pointers::Pointers;
use crate::query::callee::CalleeKind;
use crate::query::cell::{Cell, cell_of};
use crate::query::{access_address, access_bytes, access_offset, is_plain_integer, signature_id, stored_operand};
use crate::summary::{BitDemand, IntegerFate};
use crate::uses::Use;

/// Whether a program makes numbers of integers at all.
pub fn makes_numbers<'a>(mut funcs: impl Iterator<Item = &'a ir::Function>) -> bool {
    let converts = |func: &ir::Function, inst| {
        matches!(func.dfg.insts[inst].opcode(), Opcode::FcvtFromSint | Opcode::FcvtFromUint)
    };
    funcs.any(|f| f.layout.blocks().flat_map(|b| f.layout.block_insts(b)).any(|i| converts(f, i)))
}

/// Integers that become something.
pub struct IntDemands {
    /// How, of each.
    pub how: DemandedBits,
    /// Those that do as they are, by one instruction.
    ends: EntitySet<ir::Value>,
    /// Results of callees that do.
    pub results: Vec<(FuncKey, usize)>,
}

/// Integers that become something, as they are or by arithmetic, here, in a callee, or in a caller:
/// `returned` says which results do.
pub fn become_such(i: &DemandInput<'_>, what: IntegerFate, returned: impl Fn(usize) -> bool) -> IntDemands {
    let (mut cx, mut all) = (DemandCx::new(i), EntitySet::new());
    cx.with_params = true;
    for &inst in i.cfg.all_insts() {
        for v in ends(i, inst, what, &returned) {
            let v = i.func.dfg.resolve_aliases(v);
            all.insert(v);
            cx.reach(v, BitDemand::Moved);
        }
    }
    cx.solve();
    IntDemands { how: cx.found, ends: all, results: cx.results }
}

impl IntDemands {
    /// The bytes of a value that become such, the first in the lowest bit; `known` are those of
    /// values that have been looked at.
    fn bytes(&self, i: &DemandInput<'_>, v: ir::Value, depth: u32, known: &mut HashMap<ir::Value, u16>) -> u16 {
        if let Some(&bytes) = known.get(&v) {
            return bytes;
        }
        let bytes = self.look_at(i, v, depth, known);
        known.insert(v, bytes);
        bytes
    }

    fn look_at(&self, i: &DemandInput<'_>, v: ir::Value, depth: u32, known: &mut HashMap<ir::Value, u16>) -> u16 {
        let func = i.func;
        let all = (0xffff_u32 >> 16_u32.saturating_sub(func.dfg.value_type(v).bytes())) as u16;
        if depth == MOST_MOVES || self.ends.contains(v) {
            return all;
        }
        let mut of_use = |used: &Use| match *used {
            Use::Edge(_, p) if self.how[p].is_some() => all,
            Use::Inst(inst, _) => {
                let mut results = func.dfg.inst_results(inst).iter().filter(|r| self.how[**r].is_some());
                match (results.next(), pieces_of(func, inst)) {
                    (None, _) => 0,
                    (Some(&r), Some((from, _))) => {
                        let asked = self.bytes(i, r, depth + 1, known);
                        from.iter().filter(|b| b.of == v).fold(0, |m, b| m | moved(asked & b.mask, b.up.into()) & all)
                    }
                    (Some(_), None) => all,
                }
            }
            Use::Edge(..) => 0,
        };
        i.uses.of(v).iter().fold(0, |m, used| m | of_use(used))
    }
}

/// More moves of bytes than that are not followed.
const MOST_MOVES: u32 = 12;

/// A mask of bytes that lie so many further up.
fn moved(mask: u16, up: i32) -> u16 {
    if up < 0 { mask.checked_shr(up.unsigned_abs()) } else { mask.checked_shl(up as u32) }.unwrap_or(0)
}

/// The integers of which an instruction makes such.
fn ends(i: &DemandInput<'_>, inst: ir::Inst, what: IntegerFate, returned: &impl Fn(usize) -> bool) -> Vec<ir::Value> {
    let func = i.func;
    let args = func.dfg.inst_args(inst);
    let those = |is: &dyn Fn(usize) -> bool| args.iter().enumerate().filter(|a| is(a.0)).map(|a| *a.1).collect();
    match func.dfg.insts[inst].opcode() {
        Opcode::FcvtFromSint | Opcode::FcvtFromUint if what == IntegerFate::Number && matters(i, inst) => vec![args[0]],
        Opcode::Call => match CalleeKind::of(i.program, func, inst) {
            Some(CalleeKind::Derived(f)) => {
                let lost = what == IntegerFate::Number && args.iter().any(|&a| is_left(i.pointers, a));
                let is = |n| i.summaries.becomes(f, n, what) || lost && i.summaries.becomes(f, n, IntegerFate::Stored);
                those(&is)
            }
            _ => Vec::new(),
        },
        Opcode::CallIndirect => match CalleeKind::of(i.program, func, inst) {
            Some(CalleeKind::Indirect(sig)) => {
                let signature = |sig| signature_id(&func.dfg.signatures[sig]);
                those(&|n| n > 0 && i.summaries.addressed(signature(sig)).any(|f| i.summaries.becomes(f, n - 1, what)))
            }
            _ => Vec::new(),
        },
        Opcode::Return => those(returned),
        _ => {
            let stored = stored_operand(i.func, inst);
            stored.filter(|_| what == IntegerFate::Stored || leaves_shadows(i, inst)).into_iter().collect()
        }
    }
}

/// Whether an address leads where there is no shadow.
pub(super) fn is_left(p: &Pointers, addr: ir::Value) -> bool {
    p.address.contains(addr) && p.root(addr).is_none()
}

/// Whether an integer is stored where there is no shadow: what becomes of it is not followed.
fn leaves_shadows(i: &DemandInput<'_>, store: ir::Inst) -> bool {
    let bytes = access_bytes(i.func, store);
    access_address(i.func, store).is_some_and(|addr| bytes >= 4 && i.pointers.root(addr).is_none())
}

/// Whether something may depend on a float by its value: it is more than compared, or made an
/// integer again.
fn matters(i: &DemandInput<'_>, conversion: ir::Inst) -> bool {
    let func = i.func;
    let mut seen: EntitySet<ir::Value> = EntitySet::new();
    let mut work = vec![func.dfg.first_result(conversion)];
    while let Some(v) = work.pop() {
        if !seen.insert(v) {
            continue;
        }
        for used in i.uses.of(v) {
            match *used {
                Use::Edge(_, p) => work.push(p),
                Use::Inst(inst, _) => {
                    let op = func.dfg.insts[inst].opcode();
                    let results = func.dfg.inst_results(inst);
                    let float = |r: &ir::Value| func.dfg.value_type(*r).lane_type().is_float();
                    match results {
                        _ if op.is_call() || op.is_terminator() || op.can_store() => return true,
                        [r] if float(r) => work.push(*r),
                        _ if op == Opcode::Bitcast => return true,
                        _ => {}
                    }
                }
            }
        }
    }
    false
}

impl ActivityCx<'_> {
    /// Loads of integers of which the run has to find out.
    pub(super) fn number_loads(&self) -> SecondaryMap<ir::Inst, BecomingBytes> {
        let (i, func) = (self.input, self.input.func);
        let mut found: SecondaryMap<ir::Inst, BecomingBytes> = SecondaryMap::new();
        if !i.summaries.makes_numbers {
            return found;
        }
        let input = i.for_demand();
        for what in [IntegerFate::Stored, IntegerFate::Number] {
            let returned = |k: usize| !i.root && i.summaries.result_becomes(i.key, k, what);
            let such = become_such(&input, what, returned);
            for &inst in i.cfg.all_insts() {
                let op = func.dfg.insts[inst].opcode();
                let becomes = func.dfg.inst_results(inst).iter().find(|v| such.how[**v].is_some());
                let Some(&v) = becomes.filter(|_| op.can_load() && !op.is_call()) else { continue };
                if !is_plain_integer(func, inst) && self.may_hold_bits(inst) {
                    let there = 0xffff >> 16_u32.saturating_sub(access_bytes(func, inst));
                    let bytes = such.bytes(&input, v, 0, &mut HashMap::default()) & there;
                    match what {
                        IntegerFate::Number => found[inst].number = bytes,
                        IntegerFate::Stored if such.how[v] == Some(BitDemand::Computed) => found[inst].stored = bytes,
                        IntegerFate::Stored => found[inst].moved = bytes,
                    }
                }
            }
        }
        found
    }

    /// Whether an integer is made of bytes of memory where no float is known to be, though there
    /// are some beside them: the run finds out.
    pub(super) fn are_beside_floats(&self, v: ir::Value) -> bool {
        let bytes = self.input.func.dfg.value_type(v).bytes();
        self.loaded_beside_floats(v, (0xffff_u32 >> 16_u32.saturating_sub(bytes)) as u16, 0)
    }

    /// The same of some bytes of a value.
    fn loaded_beside_floats(&self, v: ir::Value, bytes: u16, depth: u32) -> bool {
        let func = self.input.func;
        let Some(inst) = func.dfg.value_def(v).inst().filter(|_| depth < MOST_MOVES) else { return false };
        if func.dfg.insts[inst].opcode().can_load() && !func.dfg.insts[inst].opcode().is_call() {
            let Some(addr) = access_address(func, inst) else { return false };
            let n = access_bytes(func, inst);
            let cell = |at: u32| cell_of(func, addr, access_offset(func, inst) + at as i32);
            let no_float = |at: u32| !self.is_accessed_as_float(cell(at));
            let words = || (0..n).step_by(4).filter(|at| bytes >> at & 0xf != 0);
            return n > 4 && !self.declared_floats(addr, n) && words().all(no_float);
        }
        let Some((from, _)) = pieces_of(func, inst) else { return false };
        let asked = |b: &OperandBytes| moved(bytes & b.mask, b.up.into());
        from.iter().all(|b| asked(b) == 0 || self.loaded_beside_floats(b.of, asked(b), depth + 1))
    }

    /// Whether this function loads or stores a float in four bytes at a place. (What moves with one
    /// in a word is taken for one, too: that says nothing.)
    fn is_accessed_as_float(&self, (base, at): Cell) -> bool {
        let func = self.input.func;
        self.input.cfg.all_insts().iter().any(|&inst| {
            let value = match func.dfg.insts[inst].opcode() {
                Opcode::Load => func.dfg.first_result(inst),
                Opcode::Store => func.dfg.inst_args(inst)[0],
                _ => return false,
            };
            let Some(addr) = access_address(func, inst).filter(|_| self.is_float(value)) else { return false };
            let (other, from) = cell_of(func, addr, access_offset(func, inst));
            other == base && from < at.saturating_add(4) && at < from.saturating_add(access_bytes(func, inst).into())
        })
    }

    /// Whether the bits of a float may be loaded: not of a constant, nor where there is no shadow.
    fn may_hold_bits(&self, load: ir::Inst) -> bool {
        let Some(addr) = access_address(self.input.func, load) else { return false };
        // The host is asked of memory that holds nothing active, too.
        access_bytes(self.input.func, load) >= 4
            && !self.input.constant.contains(load)
            && self.input.pointers.root(addr).is_some()
            && (self.input.program.vmctx_pointers_only
                || self.holds_active(addr)
                || self.declared_floats(addr, access_bytes(self.input.func, load)))
    }

    fn holds_active(&self, addr: ir::Value) -> bool {
        self.active_memory.contains(self.input.contents.find(addr))
    }
}
