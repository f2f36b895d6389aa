//! Integers that become numbers: where floats' bits would leave what derivatives are made of.
//!
//! **Question.** An integer is loaded and converted to a float. If a float lay there, the number
//! depends on it in a way that no rule describes (a logarithm by bits, a hash). The load cannot
//! tell, nor can an analysis where all memory is one array of bytes. Of which loads must the run
//! find out?
//!
//! **Answer.** Of those that lead to a conversion whose result is more than compared, here, in a
//! callee or in a caller ([`Becomes::Number`]). The set is closed backwards as that of
//! [`super::demand`] is. And since a number may be made of an integer that another function has
//! computed and stored, of those that lead by arithmetic to the store of an integer
//! ([`Becomes::Stored`]), in programs that make numbers at all.
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
//! **Source.** Demanded-bits analysis; what the run does is in `brolga_runtime::poison`.

use brolga_ir::FuncKey;
use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::{EntitySet, SecondaryMap};

use super::context::Cx;
use super::demand::{DemandCx, DemandInput, Demanded};
use crate::calls::callee::CalleeKind;
use crate::calls::summary::{Becomes, Demand};
use crate::query::{access_address, access_bytes};
use crate::uses::Use;

/// Whether a program makes numbers of integers at all.
pub fn makes_numbers<'a>(mut funcs: impl Iterator<Item = &'a ir::Function>) -> bool {
    let converts = |func: &ir::Function, inst| {
        matches!(func.dfg.insts[inst].opcode(), Opcode::FcvtFromSint | Opcode::FcvtFromUint)
    };
    funcs.any(|f| f.layout.blocks().flat_map(|b| f.layout.block_insts(b)).any(|i| converts(f, i)))
}

/// Integers that become something, as they are or by arithmetic, here, in a callee, or in a caller:
/// `returned` says which results do. The second answer are results of callees that do.
pub fn become_such(
    i: &DemandInput<'_>,
    what: Becomes,
    returned: impl Fn(usize) -> bool,
) -> (Demanded, Vec<(FuncKey, usize)>) {
    let mut cx = DemandCx::new(i);
    for &inst in i.cfg.all_insts() {
        for v in ends(i, inst, what, &returned) {
            cx.reach(v, Demand::Moved);
        }
    }
    cx.solve();
    (cx.found, cx.results)
}

/// The integers of which an instruction makes such.
fn ends(i: &DemandInput<'_>, inst: ir::Inst, what: Becomes, returned: &impl Fn(usize) -> bool) -> Vec<ir::Value> {
    let func = i.func;
    let args = func.dfg.inst_args(inst);
    let those = |is: &dyn Fn(usize) -> bool| args.iter().enumerate().filter(|a| is(a.0)).map(|a| *a.1).collect();
    match func.dfg.insts[inst].opcode() {
        Opcode::FcvtFromSint | Opcode::FcvtFromUint if what == Becomes::Number && matters(i, inst) => vec![args[0]],
        Opcode::Store | Opcode::AtomicStore | Opcode::Istore8 | Opcode::Istore16 | Opcode::Istore32
            if what == Becomes::Stored =>
        {
            vec![args[0]]
        }
        Opcode::Call => match CalleeKind::of(i.program, func, inst) {
            Some(CalleeKind::Derived(f)) => those(&|n| i.summaries.becomes(f, n, what)),
            _ => Vec::new(),
        },
        Opcode::Return => those(returned),
        _ => Vec::new(),
    }
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

impl Cx<'_> {
    /// Loads of integers of which the run has to find out.
    pub(super) fn number_loads(&self) -> SecondaryMap<ir::Inst, Option<Becomes>> {
        let (i, func) = (self.i, self.i.func);
        let mut found = SecondaryMap::new();
        if !i.summaries.makes_numbers {
            return found;
        }
        for what in [Becomes::Stored, Becomes::Number] {
            let returned = |k: usize| !i.root && i.summaries.result_becomes(i.key, k, what);
            let (such, _) = become_such(&i.for_demand(), what, returned);
            for &inst in i.cfg.all_insts() {
                let op = func.dfg.insts[inst].opcode();
                // What is stored as it is takes its cotangent along.
                let least = if what == Becomes::Stored { Demand::Computed } else { Demand::Moved };
                let becomes = func.dfg.inst_results(inst).iter().any(|&v| such[v] >= Some(least));
                if op.can_load() && !op.is_call() && becomes && self.may_hold_bits(inst, what) {
                    found[inst] = Some(what);
                }
            }
        }
        found
    }

    /// Whether the bits of a float may be loaded: not of a constant, nor where there is no shadow.
    fn may_hold_bits(&self, load: ir::Inst, what: Becomes) -> bool {
        let Some(addr) = access_address(self.i.func, load) else { return false };
        // The host is asked of memory that holds nothing active, too.
        let hosted = what == Becomes::Number && self.i.program.vmctx_pointers_only;
        access_bytes(self.i.func, load) >= 4
            && !self.i.constant.contains(load)
            && self.i.pointers.root(addr).is_some()
            && (hosted || self.active_memory.contains(self.i.contents.find(addr)))
    }
}
