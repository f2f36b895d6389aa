//! What a loop has loaded a turn ahead.
//!
//! **Problem.** A loop that reads `a[i]` and `a[i + 1]` in each turn reads every element twice, so
//! compilers load `a[i + 1]` alone and hand it on: the next turn has it as a parameter. Where rows
//! of a sparse matrix begin and end is read in this way. Which number such a parameter had nobody
//! knows on the way back, so it is recorded, and so is the way by every branch that depends on it,
//! though the array is still there.
//!
//! **Answer.** In the header of the loop stands a load of what the parameter holds: its *twin*, at
//! the address of the load that was a turn ahead, one step back. Nobody uses it, so the forward
//! half does not run it ([`crate::dce`]), but where none of these loads can be of memory that is
//! written later ([`Facts::reload`](crate::facts::Facts)), the planner has the parameter by it for
//! nothing ([`twins`]).
//!
//! **Which parameters.** 32-bit integers of a canonical loop without calls. In the last turn's
//! latch they are loaded, and so they are in front of the loop, at the address that the former has
//! if the numbers in it that go in steps have their first values.
//!
//! **Invariants.** The address of a twin is one at which the same has been loaded before, in front
//! of the loop or a turn ago, and no call lies between: it does not fault. In turn `k` it is that
//! of the load in turn `k - 1`: both are made in the same way, of numbers that the loop does not
//! change, and of others that are in turn `k` what they were going to be in the turn before.
//!
//! Twins are looked for again when they are asked for, since functions are numbered anew in
//! between.

use brolga_analysis::cfg::edge_args;
use brolga_analysis::query::constant_int;
use brolga_analysis::{Loop, LoopId, Loops};
use brolga_ir::map::IndexMap;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, ValueDef, types};

use crate::primal::induction::{Induction, steps};

/// How far addresses are followed.
const DEPTH: u32 = 8;

/// A parameter of a loop's header, and the loads that give it its values.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    /// The parameter.
    param: ir::Value,
    /// In front of the loop.
    first: ir::Inst,
    /// In each turn, for the next one.
    next: ir::Inst,
}

/// A loop, and what goes in steps in it.
struct Turn<'a> {
    func: &'a ir::Function,
    loops: &'a Loops,
    id: LoopId,
    ivs: Vec<Induction>,
}

impl<'a> Turn<'a> {
    fn of(func: &'a ir::Function, loops: &'a Loops, id: LoopId) -> Option<Self> {
        let l = &loops.loops[id];
        let params = func.dfg.block_params(l.header);
        let ivs: Vec<Induction> = (0..params.len()).filter_map(|i| steps(func, l, i)).collect();
        let worth_it = params.len() > ivs.len() && !ivs.is_empty();
        worth_it.then_some(Turn { func, loops, id, ivs })
    }

    fn header(&self) -> &'a Loop {
        &self.loops.loops[self.id]
    }

    /// Whether the loop does not change a value.
    fn is_fixed(&self, v: ir::Value) -> bool {
        let block = match self.func.dfg.value_def(v) {
            ValueDef::Param(b, _) => Some(b),
            ValueDef::Result(inst, _) => self.func.layout.inst_block(inst),
            ValueDef::Union(..) => return false,
        };
        block.is_some_and(|b| !self.loops.contains(self.id, b))
    }

    /// The operands of an operation that addresses are made of.
    fn parts(&self, v: ir::Value) -> Option<(Opcode, &'a [ir::Value])> {
        let inst = self.func.dfg.value_def(v).inst()?;
        let op = self.func.dfg.insts[inst].opcode();
        let simple =
            matches!(op, Opcode::Iadd | Opcode::Isub | Opcode::Imul | Opcode::Ishl | Opcode::Uextend | Opcode::Sextend);
        simple.then(|| (op, self.func.dfg.inst_args(inst)))
    }

    /// The number in steps of which a value is what it will be in the next turn.
    fn next(&self, v: ir::Value) -> Option<&Induction> {
        self.ivs.iter().find(|iv| iv.next == v)
    }

    fn same_constant(&self, a: ir::Value, b: ir::Value) -> bool {
        let ty = |v| self.func.dfg.value_type(v);
        ty(a) == ty(b) && constant_int(self.func, a).is_some_and(|k| constant_int(self.func, b) == Some(k))
    }

    /// Whether `a`, which a turn computes for the next one, is made as `b` is, if what goes in
    /// steps is instead what `of` says.
    fn is_made_as(&self, a: ir::Value, b: ir::Value, of: &dyn Fn(&Induction) -> ir::Value, depth: u32) -> bool {
        if self.func.dfg.value_type(a) != self.func.dfg.value_type(b) {
            return false;
        }
        if let Some(iv) = self.next(a) {
            let there = of(iv);
            return there == b || self.same_constant(there, b);
        }
        if self.is_fixed(a) && a == b || self.same_constant(a, b) {
            return true;
        }
        if depth == DEPTH {
            return false;
        }
        let Some((op, args)) = self.parts(a) else { return false };
        let alike = self.parts(b).is_some_and(|(other, others)| {
            op == other && args.iter().zip(others).all(|(&x, &y)| self.is_made_as(x, y, of, depth + 1))
        });
        // What is zero at first is not added there.
        let rest = |x, y| self.is_zero(y, of, depth + 1) && self.is_made_as(x, b, of, depth + 1);
        alike || op == Opcode::Iadd && (rest(args[0], args[1]) || rest(args[1], args[0]))
    }

    /// Whether a value is zero, if what goes in steps is what `of` says.
    fn is_zero(&self, v: ir::Value, of: &dyn Fn(&Induction) -> ir::Value, depth: u32) -> bool {
        let zero = |v| constant_int(self.func, v) == Some(0);
        match self.next(v) {
            Some(iv) => zero(of(iv)),
            None => {
                zero(v)
                    || depth < DEPTH
                        && self.parts(v).is_some_and(|(op, args)| match op {
                            Opcode::Ishl | Opcode::Uextend | Opcode::Sextend => self.is_zero(args[0], of, depth + 1),
                            Opcode::Imul => args.iter().any(|&a| self.is_zero(a, of, depth + 1)),
                            _ => false,
                        })
            }
        }
    }

    /// Whether a value can be computed for the present turn.
    fn can_be_made(&self, v: ir::Value, depth: u32) -> bool {
        self.next(v).is_some()
            || self.is_fixed(v)
            || constant_int(self.func, v).is_some()
            || depth < DEPTH && self.parts(v).is_some_and(|p| p.1.iter().all(|&a| self.can_be_made(a, depth + 1)))
    }

    /// What the loop loads a turn ahead.
    fn ahead(&self) -> Vec<Ahead> {
        let (func, l) = (self.func, self.header());
        let ([entry], [latch]) = (&l.entries[..], &l.latches[..]) else { return Vec::new() };
        let (firsts, nexts) = (edge_args(func, *entry, l.header), edge_args(func, *latch, l.header));
        let params = func.dfg.block_params(l.header).iter();
        let candidates = params.zip(firsts).zip(nexts).filter_map(|((&param, first), next)| {
            let (a, b) = (loaded(func, next)?, loaded(func, first)?);
            let fits = a.offset == b.offset && !self.is_fixed(next) && self.is_fixed(first);
            let made = fits && self.can_be_made(a.address, 0);
            let same = made && self.is_made_as(a.address, b.address, &|iv| iv.start, 0);
            same.then_some(Ahead { param, first: b.inst, next: a.inst })
        });
        let found: Vec<Ahead> = candidates.collect();
        let calls = |b: ir::Block| func.layout.block_insts(b).any(|i| func.dfg.insts[i].opcode().is_call());
        if found.is_empty() || func.layout.blocks().any(|b| l.blocks.contains(b) && calls(b)) {
            return Vec::new();
        }
        found
    }
}

/// A load of a 32-bit integer.
struct Loaded {
    inst: ir::Inst,
    address: ir::Value,
    offset: ir::immediates::Offset32,
}

fn loaded(func: &ir::Function, v: ir::Value) -> Option<Loaded> {
    let inst = func.dfg.value_def(v).inst()?;
    match func.dfg.insts[inst] {
        InstructionData::Load { opcode: Opcode::Load, arg, offset, .. } if func.dfg.value_type(v) == types::I32 => {
            Some(Loaded { inst, address: arg, offset })
        }
        _ => None,
    }
}

/// Whether a value of a loop is a number that the loop has loaded a turn ahead, or loads for the
/// next turn.
pub fn is_ahead(func: &ir::Function, loops: &Loops, id: LoopId, v: ir::Value) -> bool {
    func.dfg.value_type(v) == types::I32
        && Turn::of(func, loops, id)
            .is_some_and(|turn| turn.ahead().iter().any(|a| a.param == v || func.dfg.first_result(a.next) == v))
}

/// Put twins into the headers of loops. New instructions have the source location of the load that
/// is a turn ahead.
pub fn add_twins(func: &mut ir::Function, loops: &Loops) {
    for id in loops.loops.keys() {
        let Some((found, ivs)) = Turn::of(func, loops, id).map(|turn| (turn.ahead(), turn.ivs)) else { continue };
        let header = loops.loops[id].header;
        for a in found {
            let next = loaded(func, func.dfg.first_result(a.next)).expect("it is a load");
            let at = func.srcloc(a.next);
            let InstructionData::Load { flags, .. } = func.dfg.insts[a.next] else { continue };
            let flags = func.dfg.mem_flags[flags];
            let fixed = |func: &ir::Function, v| Turn { func, loops, id, ivs: Vec::new() }.is_fixed(v);
            let address = made(func, header, &ivs, &fixed, next.address, at);
            let mut pos = before_code(func, header, at);
            pos.ins().load(types::I32, flags.with_notrap(), address, next.offset);
        }
    }
}

/// Behind what has been put in front of a header's code so far.
fn before_code(func: &mut ir::Function, header: ir::Block, at: ir::SourceLoc) -> FuncCursor<'_> {
    let mut pos = FuncCursor::new(func).at_bottom(header);
    pos.prev_inst();
    pos.set_srcloc(at);
    pos
}

/// The same number as the present turn has it.
fn made(
    func: &mut ir::Function,
    header: ir::Block,
    ivs: &[Induction],
    fixed: &dyn Fn(&ir::Function, ir::Value) -> bool,
    v: ir::Value,
    at: ir::SourceLoc,
) -> ir::Value {
    if let Some(iv) = ivs.iter().find(|iv| iv.next == v) {
        return iv.var;
    }
    if fixed(func, v) {
        return v;
    }
    let ty = func.dfg.value_type(v);
    let inst = func.dfg.value_def(v).inst().expect("it can be made");
    let op = func.dfg.insts[inst].opcode();
    let args: Vec<ir::Value> = func.dfg.inst_args(inst).to_vec();
    let args: Vec<ir::Value> = args.into_iter().map(|a| made(func, header, ivs, fixed, a, at)).collect();
    let constant = constant_int(func, v);
    let mut pos = before_code(func, header, at);
    match (op, &args[..]) {
        (Opcode::Uextend, &[x]) => pos.ins().uextend(ty, x),
        (Opcode::Sextend, &[x]) => pos.ins().sextend(ty, x),
        (Opcode::Iadd, &[x, y]) => pos.ins().iadd(x, y),
        (Opcode::Isub, &[x, y]) => pos.ins().isub(x, y),
        (Opcode::Imul, &[x, y]) => pos.ins().imul(x, y),
        (Opcode::Ishl, &[x, y]) => pos.ins().ishl(x, y),
        _ => pos.ins().iconst(ty, constant.expect("it can be made")),
    }
}

/// The twin of each parameter that has one, with the loads that gave the parameter its values.
pub fn twins(func: &ir::Function, loops: &Loops) -> IndexMap<ir::Value, [ir::Inst; 3]> {
    let mut found = IndexMap::default();
    for id in loops.loops.keys() {
        let Some(turn) = Turn::of(func, loops, id) else { continue };
        for a in turn.ahead() {
            let next = loaded(func, func.dfg.first_result(a.next)).expect("it is a load");
            let twin = func.layout.block_insts(turn.header().header).find(|&i| {
                let here = func.dfg.inst_results(i).first().and_then(|&v| loaded(func, v));
                here.is_some_and(|w| {
                    i != a.next && w.offset == next.offset && turn.is_made_as(next.address, w.address, &|iv| iv.var, 0)
                })
            });
            if let Some(twin) = twin {
                found.insert(a.param, [twin, a.first, a.next]);
            }
        }
    }
    found
}
