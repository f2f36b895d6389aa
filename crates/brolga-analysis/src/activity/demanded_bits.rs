//! Demanded bits: integers whose bits become a float's, as they are or by arithmetic.
//!
//! **Question.** An integer is loaded, calculated with, and its bits become a float. If a float lay
//! where it was loaded, a cotangent of the result belongs there, in a way that no rule describes.
//! Of which integers must the reverse half say whether such a cotangent arrives?
//!
//! **Answer.** Of those that lead to a *sink*: the cast of an integer to a float, the store of an
//! integer where a float is accessed, an argument that a callee demands, a result of which the
//! caller asks for the bits. The set is closed backwards, along moves and arithmetic, but not along
//! what is locally constant (exponents, comparisons, conversions). What is demanded of a load is
//! demanded of what this function stores at the same place.
//!
//! ```text
//! v1 = load.i64 v0        demanded, computed with
//! v2 = iadd v1, v9        demanded
//! v3 = bitcast.f64 v2     sink
//! ```
//!
//! Where some function of a program computes such bits from a load
//! ([`super::Activity::computes_bits`]), what it has loaded may have been computed and stored by
//! any other function. And where one stores a word that may be a float's bits, or was computed from
//! some, although it sees no float there ([`super::Activity::uses_unknown`]), a caller may know
//! better. So the program is derived once more, and then each store of an integer is a sink
//! ([`DemandInput::stores`]).
//!
//! The same worklist answers which integers become numbers ([`super::numbers`]), with other sinks.
//!
//! **Cost.** One worklist over the definitions of integers.
//!
//! **Source.** Demanded-bits analysis, as in LLVM's `DemandedBits`; what waits in memory is in
//! `brolga_runtime::pieces::demand`.

use brolga_ir::inst::Shape;
use brolga_ir::{FuncKey, Program};
use brolga_rules::{OpcodeRule, Structural, opcode_rule};
use cranelift_codegen::ir::{self, Opcode, ValueDef};
use cranelift_entity::{EntitySet, SecondaryMap};

use super::ulp::Steps;
use crate::bits::bytes::pieces_of;
use crate::bits::exponent::leaves_exponent;
use crate::cfg::Cfg;
use crate::kinds::contents::Contents;
use crate::kinds::pointers::{Pointers, RootKind};
use crate::lattice::kinds::Kinds;
use crate::query::callee::CalleeKind;
use crate::query::cell::cell_of;
use crate::query::{access_address, access_bytes, access_offset, is_plain_integer, signature_id, stored_operand};
use crate::summary::Sources;
use crate::summary::{BitDemand, End, Summaries};
use crate::uses::Uses;

/// What is known before.
#[derive(Clone, Copy)]
pub struct DemandInput<'a> {
    /// The program.
    pub program: &'a Program,
    /// The normalised function.
    pub func: &'a ir::Function,
    /// Its control flow.
    pub cfg: &'a Cfg,
    /// Its def-use chains.
    pub uses: &'a Uses,
    /// What is known of callees.
    pub summaries: &'a Summaries,
    /// Pointers and deltas.
    pub pointers: &'a Pointers,
    /// What memory holds.
    pub contents: &'a Contents,
    /// Numbers that are added to floats' bits.
    pub steps: &'a Steps,
    /// Whether each store of an integer is a sink.
    pub stores: bool,
}

/// Of each integer, how it is demanded, if it is.
pub type DemandedBits = SecondaryMap<ir::Value, Option<BitDemand>>;

/// Of each integer, how its bits become a float's, if they do. `returned` says of which results the
/// caller asks for the bits.
pub fn demanded_bits(i: &DemandInput<'_>, returned: impl Fn(usize) -> bool) -> DemandedBits {
    let mut cx = DemandCx::new(i);
    i.cfg.all_insts().iter().for_each(|&inst| cx.sink(inst, &returned));
    cx.solve();
    cx.found
}

/// The worklist.
pub(super) struct DemandCx<'a, 'b> {
    i: &'a DemandInput<'b>,
    pub found: DemandedBits,
    work: Vec<ir::Value>,
    /// Stores of integers, once they have been asked for.
    stores: Option<Vec<ir::Inst>>,
    /// Results of functions of the program that are demanded.
    pub results: Vec<(FuncKey, usize)>,
    /// Whether a parameter that may be a pointer may as well be an integer.
    pub with_params: bool,
}

impl<'a, 'b> DemandCx<'a, 'b> {
    pub(super) fn new(i: &'a DemandInput<'b>) -> Self {
        Self { i, found: SecondaryMap::new(), work: Vec::new(), stores: None, results: Vec::new(), with_params: false }
    }

    /// Close what has been found backwards.
    pub(super) fn solve(&mut self) {
        while let Some(v) = self.work.pop() {
            let how = self.found[v].expect("it is demanded");
            self.operands(v, how);
        }
    }

    fn is_int(&self, v: ir::Value) -> bool {
        let i = self.i;
        !i.func.dfg.value_type(v).lane_type().is_float()
            && !i.pointers.address.contains(v)
            && i.pointers.root(v).is_none_or(|root| self.with_params && self.may_be_int(root))
    }

    /// Whether a root is a parameter of which nothing says that it is a pointer.
    fn may_be_int(&self, root: ir::Value) -> bool {
        let p = self.i.pointers;
        matches!(p.roots.get(&root), Some(RootKind::Param(_))) && !p.sure.contains(root) && !p.address.contains(root)
    }

    /// An integer is demanded.
    pub(super) fn reach(&mut self, v: ir::Value, how: BitDemand) {
        let v = self.i.func.dfg.resolve_aliases(v);
        if self.is_int(v) && self.found[v] < Some(how) {
            self.found[v] = Some(how);
            self.work.push(v);
        }
    }

    /// Where bits become a float's, or leave the function for where they may.
    fn sink(&mut self, inst: ir::Inst, returned: &impl Fn(usize) -> bool) {
        let func = self.i.func;
        let args = func.dfg.inst_args(inst);
        match func.dfg.insts[inst].opcode() {
            Opcode::Bitcast if Shape::of_float(func.dfg.value_type(func.dfg.first_result(inst))).is_some() => {
                self.reach(args[0], BitDemand::Moved);
            }
            Opcode::Call => {
                let Some(CalleeKind::Derived(f)) = CalleeKind::of(self.i.program, func, inst) else { return };
                for (n, &a) in args.iter().enumerate() {
                    if let Some(how) = self.i.summaries.demands(f, n) {
                        self.reach(a, how);
                    }
                }
            }
            Opcode::Return => {
                let asked = args.iter().enumerate().filter(|a| returned(a.0));
                asked.for_each(|(_, &a)| self.reach(a, BitDemand::Moved));
            }
            _ => {
                let Some(x) = stored_operand(func, inst).filter(|_| !is_plain_integer(func, inst)) else { return };
                let addr = access_address(func, inst).expect("a store has an address");
                let cell = cell_of(func, addr, access_offset(func, inst));
                let among_floats = || self.i.contents.float_overlaps(cell, access_bytes(func, inst)) != Kinds::NONE;
                if self.i.stores || among_floats() {
                    self.reach(x, BitDemand::Moved);
                }
            }
        }
    }

    /// What is demanded of that from which a value is made.
    fn operands(&mut self, v: ir::Value, how: BitDemand) {
        let (func, cfg) = (self.i.func, self.i.cfg);
        let inst = match func.dfg.value_def(v) {
            ValueDef::Param(b, _) if b == cfg.blocks[0] => return,
            ValueDef::Param(b, n) => {
                cfg.incoming(b, n).collect::<Vec<_>>().into_iter().for_each(|a| self.reach(a, how));
                return;
            }
            ValueDef::Result(inst, _) => inst,
            ValueDef::Union(..) => return,
        };
        let args = func.dfg.inst_args(inst);
        let data = func.dfg.insts[inst];
        let s = match opcode_rule(data.opcode()) {
            OpcodeRule::Structural(s) => s,
            OpcodeRule::NotFloat => Structural::IntArith,
            OpcodeRule::Expr(_) | OpcodeRule::Zero | OpcodeRule::Refused(_) => return,
        };
        match s {
            Structural::Load | Structural::AtomicLoad | Structural::IntLoad => self.stored_there(inst, how),
            Structural::Call | Structural::CallIndirect => self.call(inst, v, how),
            Structural::Select => args[1..].iter().for_each(|&a| self.reach(a, how)),
            _ if let Some(n) = self.i.steps.of(inst) => {
                self.reach(args[n], how);
                if !self.i.steps.adds_digits(inst) {
                    self.reach(args[1 - n], BitDemand::Computed);
                }
            }
            _ if let Some((from, _)) = pieces_of(func, inst) => from.iter().for_each(|b| self.reach(b.of, how)),
            _ if leaves_exponent(func, cfg, inst) => {}
            Structural::Bitcast
            | Structural::Splat
            | Structural::Insertlane
            | Structural::Extractlane
            | Structural::ScalarToVector
            | Structural::Shuffle => args.iter().for_each(|&a| self.reach(a, how)),
            Structural::AtomicRmw | Structural::AtomicCas => self.stored_there(inst, how),
            _ => args.iter().for_each(|&a| self.reach(a, BitDemand::Computed)),
        }
    }

    /// What this function stores where an integer is loaded.
    fn stored_there(&mut self, load: ir::Inst, how: BitDemand) {
        let func = self.i.func;
        if is_plain_integer(func, load) {
            return;
        }
        let is_store = |&i: &ir::Inst| stored_operand(func, i).is_some();
        let all = self.i.cfg.all_insts();
        let stores = self.stores.get_or_insert_with(|| all.iter().copied().filter(is_store).collect());
        let place = |inst: ir::Inst| {
            let addr = access_address(func, inst).expect("an access has an address");
            (cell_of(func, addr, access_offset(func, inst)), i64::from(access_bytes(func, inst)))
        };
        let ((base, at), n) = place(load);
        let overlaps = |&store: &ir::Inst| {
            let ((other, to), m) = place(store);
            other == base && to < at.saturating_add(n) && at < to.saturating_add(m)
        };
        let found: Vec<ir::Inst> = stores.iter().copied().filter(overlaps).collect();
        found.into_iter().filter_map(|store| stored_operand(func, store)).for_each(|x| self.reach(x, how));
    }

    /// What a callee makes of its arguments.
    fn call(&mut self, inst: ir::Inst, v: ir::Value, how: BitDemand) {
        let func = self.i.func;
        let args = func.dfg.inst_args(inst);
        let k = func.dfg.inst_results(inst).iter().position(|&r| r == v).expect("it is a result");
        let f = match CalleeKind::of(self.i.program, func, inst) {
            Some(CalleeKind::Derived(f)) => f,
            Some(CalleeKind::Indirect(sig)) => {
                let signature = signature_id(&func.dfg.signatures[sig]);
                self.results.extend(self.i.summaries.addressed(signature).map(|f| (f, k)));
                return;
            }
            _ => return,
        };
        self.results.push((f, k));
        let summaries = self.i.summaries;
        let moved = |n: usize| summaries.links(f).iter().any(|l| l.ends == (End::Param(n), End::Result(k)));
        let from: Vec<usize> = match summaries.sources(f, k) {
            Sources::Params(from) => from.clone(),
            Sources::Anything => (0..args.len()).collect(),
        };
        for n in from {
            self.reach(args[n], if moved(n) { how } else { BitDemand::Computed });
        }
    }
}

/// Integers that may be a float's bits although nothing says so: loaded from memory that a float
/// may lie in, given by a caller, or returned by a callee, and what is computed from such.
pub(super) fn may_be_bits(
    i: &DemandInput<'_>,
    from_memory: impl Fn(ir::Inst) -> bool,
    others: impl Iterator<Item = ir::Value>,
    from_call: impl Fn(ir::Inst) -> bool,
) -> EntitySet<ir::Value> {
    let (func, cfg) = (i.func, i.cfg);
    let mut found: EntitySet<ir::Value> = EntitySet::new();
    let is_int = |v: ir::Value| !func.dfg.value_type(v).lane_type().is_float() && i.pointers.root(v).is_none();
    found.extend(others);
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for &b in &cfg.blocks {
            if b != cfg.blocks[0] {
                for (n, &v) in func.dfg.block_params(b).iter().enumerate().filter(|p| is_int(*p.1)) {
                    changed |= !found.contains(v) && cfg.incoming(b, n).any(|a| found.contains(a)) && found.insert(v);
                }
            }
            for &inst in cfg.insts(b) {
                let results = func.dfg.inst_results(inst);
                if !results.iter().any(|&r| is_int(r) && !found.contains(r)) {
                    continue;
                }
                let s = match opcode_rule(func.dfg.insts[inst].opcode()) {
                    OpcodeRule::Structural(s) => s,
                    OpcodeRule::NotFloat => Structural::IntArith,
                    OpcodeRule::Expr(_) | OpcodeRule::Zero | OpcodeRule::Refused(_) => continue,
                };
                let args = func.dfg.inst_args(inst);
                let may = match s {
                    Structural::Load | Structural::AtomicLoad | Structural::IntLoad => from_memory(inst),
                    Structural::AtomicRmw | Structural::AtomicCas => from_call(inst),
                    Structural::Call | Structural::CallIndirect => match CalleeKind::of(i.program, func, inst) {
                        // What a callee makes of numbers alone, such as a status, is one.
                        Some(CalleeKind::Derived(f)) => {
                            let reads = (0..results.len()).any(|k| i.summaries.returns_memory(f, k));
                            from_call(inst) && (reads || args.iter().any(|&a| found.contains(a)))
                        }
                        Some(CalleeKind::Indirect(_)) => from_call(inst),
                        _ => false,
                    },
                    Structural::Select => args[1..].iter().any(|&a| found.contains(a)),
                    _ if leaves_exponent(func, cfg, inst) => false,
                    _ => args.iter().any(|&a| found.contains(a)),
                };
                if may {
                    for &r in results.iter().filter(|r| is_int(**r)) {
                        changed |= found.insert(r);
                    }
                }
            }
        }
    }
    found
}
