//! Ambiguous widths: integers of which one path through the function says what floats they carry,
//! while another only moves them.
//!
//! **Problem.** A program with floats of both sizes may keep a double and two singles in the same
//! place at different times, with a tag beside them. Where it asks the tag and makes a single of a
//! word, the word is two singles; where it hands the word on, it is what the tag says. The widths
//! of [`super::width`] hold for a function as a whole, and a cotangent that is moved as two
//! singles, but is a double's, is another number as soon as it is added to something.
//!
//! **Answer.** A width is believed of an integer that is *made* of floats, and of one that is *used
//! up* where it becomes floats: what comes back from there has that width, and nothing comes from
//! elsewhere. It is not believed of an integer that comes from memory that holds floats of both
//! sizes, directly or by way of a callee, and goes to such memory, to a callee that hands it on, or
//! to a caller that does not know what it is. Such an integer has no width, so it is a piece (see
//! [`super::pieces`]), and the access that knows the size of the float puts it together.
//! Directly after the store of a float it is known what is read there.
//!
//! **Errs** on the side of pieces, which are slower, and of traps, where something is done to such
//! an integer that pieces cannot go through.
//!
//! **Cost.** Nothing where no integer has a width. Otherwise two closures over the moves of a
//! function.

use brolga_ir::inst::Shape;
use cranelift_codegen::ir::{self, InstructionData, Opcode, Value};
use cranelift_entity::{EntitySet, SecondaryMap};
use smallvec::SmallVec;

use super::context::ActivityInput;
use crate::bits::bytes::bytes_of;
use crate::lattice::kinds::Kinds;
use crate::memory::reaching_store::last_store;
use crate::query::callee::CalleeKind;
use crate::query::cell::{Cell, cell_of};
use crate::query::{access_address, access_offset, is_one_lane};
use crate::summary::End;
use crate::variant::{ParamMode, ResultMode};

/// Integers that have a width which cannot be believed.
pub(super) fn unsure(i: &ActivityInput<'_>) -> EntitySet<Value> {
    // Mostly no integer has any.
    if i.lanes.values().all(|&bytes| bytes == 0) {
        return EntitySet::new();
    }
    let cx = Widths(i);
    let mut moves = BitFlow::default();
    // A caller who does not know what it is has it from memory.
    let formal = i.func.dfg.block_params(i.cfg.blocks[0]).iter().zip(i.params);
    let unknown = formal.filter(|p| matches!(p.1, ParamMode::Bits { shape: Shape::Bytes { .. }, .. }));
    moves.begin.extend(unknown.map(|p| *p.0));
    for &b in &i.cfg.blocks {
        for &s in &i.cfg.succs[b] {
            let params = i.func.dfg.block_params(s);
            i.cfg.args(b, s).iter().zip(params).for_each(|(&from, &to)| moves.edge(from, to));
        }
        i.cfg.insts(b).iter().for_each(|&inst| cx.note(inst, &mut moves));
    }
    let BitFlow { edges, begin, end } = moves;
    if begin.is_empty() || end.is_empty() {
        return EntitySet::new();
    }
    let from = closure(begin, edges.iter().copied());
    let to = closure(end, edges.iter().map(|&(from, to)| (to, from)));
    let mut found = EntitySet::new();
    found.extend(from.iter().filter(|&v| i.lanes[v] != 0 && to.contains(v)));
    found
}

/// What memory holds where an access leads, as far as the function, its callers and its callees
/// see.
fn kinds(i: &ActivityInput<'_>, inst: ir::Inst, addr: Value) -> Kinds {
    super::width::kinds_around(i.func, i.contents, i.summaries, inst, addr)
}

/// Whether memory holds floats of both sizes, or halves of doubles where a double might be.
pub(super) fn is_mixed(i: &ActivityInput<'_>, inst: ir::Inst, addr: Value) -> bool {
    let kinds = kinds(i, inst, addr);
    kinds.has(Kinds::F64) && (kinds.has(Kinds::F32) || i.program.unaligned_doubles)
}

/// Whether memory holds doubles, which need not lie at multiples of eight, and no other floats.
pub(super) fn is_packed(i: &ActivityInput<'_>, inst: ir::Inst, addr: Value) -> bool {
    is_mixed(i, inst, addr) && !kinds(i, inst, addr).has(Kinds::F32)
}

/// Whether all of so many bytes have been written as floats of this size, just before an
/// instruction.
pub(super) fn written_as(i: &ActivityInput<'_>, inst: ir::Inst, cell: Cell, bytes: u32, lane: u32) -> bool {
    let func = i.func;
    (0..bytes).step_by(lane as usize).all(|at| {
        let part = (cell.0, cell.1.wrapping_add(at.into()));
        let Some(found) = last_store(func, i.cfg, inst, part, lane) else { return false };
        let ty = func.dfg.value_type(func.dfg.inst_args(found.store)[0]);
        let covers = found.offset <= 0 && found.offset + i64::from(found.bytes) >= i64::from(lane);
        covers && Shape::of_float(ty).is_some_and(|s| s.lane_bytes() == lane) && found.offset % i64::from(lane) == 0
    })
}

/// How bits move in a function, from and to whom.
#[derive(Default)]
struct BitFlow {
    edges: Vec<(Value, Value)>,
    /// What comes from memory.
    begin: Vec<Value>,
    /// What goes to memory.
    end: Vec<Value>,
}

impl BitFlow {
    fn edge(&mut self, from: Value, to: Value) {
        self.edges.push((from, to));
    }
}

fn closure(mut work: Vec<Value>, edges: impl Iterator<Item = (Value, Value)>) -> EntitySet<Value> {
    let mut next: SecondaryMap<Value, SmallVec<[Value; 2]>> = SecondaryMap::new();
    edges.for_each(|(from, to)| next[from].push(to));
    let mut found = EntitySet::new();
    while let Some(v) = work.pop() {
        if found.insert(v) {
            work.extend(&next[v]);
        }
    }
    found
}

struct Widths<'a>(&'a ActivityInput<'a>);

impl Widths<'_> {
    fn note(&self, inst: ir::Inst, moves: &mut BitFlow) {
        let func = self.0.func;
        let (args, results) = (func.dfg.inst_args(inst), func.dfg.inst_results(inst));
        let mut all = |from: &[Value]| from.iter().for_each(|&x| results.iter().for_each(|&r| moves.edge(x, r)));
        match func.dfg.insts[inst].opcode() {
            Opcode::Load | Opcode::AtomicLoad if self.may_be_either(inst) => moves.begin.push(results[0]),
            Opcode::Store | Opcode::AtomicStore if is_mixed(self.0, inst, args[1]) => moves.end.push(args[0]),
            Opcode::Istore8 | Opcode::Istore16 | Opcode::Istore32 if is_mixed(self.0, inst, args[1]) => {
                moves.end.push(args[0]);
            }
            Opcode::Return => {
                let unknown = |n: usize| matches!(self.0.results[n], ResultMode::Bits(Shape::Bytes { .. }));
                moves.end.extend((0..args.len()).filter(|&n| unknown(n)).map(|n| args[n]));
            }
            Opcode::Call => self.call(inst, moves),
            Opcode::Select | Opcode::SelectSpectreGuard => all(&args[1..]),
            // What becomes floats, or is made of them, is of one width.
            Opcode::Bitcast if self.is_plain(args[0]) && self.is_plain(results[0]) => all(args),
            Opcode::Bitselect
            | Opcode::Blendv
            | Opcode::Band
            | Opcode::Bor
            | Opcode::Bxor
            | Opcode::Bnot
            | Opcode::Isplit
            | Opcode::Iconcat => all(args),
            // Lanes of four bytes that are taken apart hold no doubles.
            Opcode::Splat | Opcode::Insertlane | Opcode::Extractlane | Opcode::ScalarToVector
                if args.iter().chain(results).any(|&x| func.dfg.value_type(x).lane_type().bytes() == 8) =>
            {
                all(args);
            }
            Opcode::Shuffle if self.moves_words(inst) => all(args),
            Opcode::Splat | Opcode::Insertlane | Opcode::Extractlane | Opcode::ScalarToVector | Opcode::Shuffle => {}
            _ => {
                let step = self.0.steps.of(inst).map(|n| args[n]);
                all(step.as_slice());
                let parts = bytes_of(func, inst).into_iter().flatten();
                parts.for_each(|b| all(&[b.of]));
            }
        }
    }

    fn is_plain(&self, v: Value) -> bool {
        Shape::of_float(self.0.func.dfg.value_type(v)).is_none()
    }

    /// Whether a load may find floats of either size.
    fn may_be_either(&self, inst: ir::Inst) -> bool {
        let func = self.0.func;
        let (v, addr) = (func.dfg.first_result(inst), access_address(func, inst).expect("a load has an address"));
        let (lane, bytes) = (self.0.lanes[v], func.dfg.value_type(v).bytes());
        let known = || written_as(self.0, inst, cell_of(func, addr, access_offset(func, inst)), bytes, lane);
        self.is_plain(v) && is_mixed(self.0, inst, addr) && (lane == 0 || !known())
    }

    /// Whether a shuffle leaves words of eight bytes together.
    fn moves_words(&self, inst: ir::Inst) -> bool {
        let func = self.0.func;
        let InstructionData::Shuffle { imm, .. } = func.dfg.insts[inst] else { return false };
        func.dfg.immediates[imm].as_slice().chunks(8).any(|l| is_one_lane(l, 8))
    }

    fn call(&self, inst: ir::Inst, moves: &mut BitFlow) {
        let (func, summaries) = (self.0.func, self.0.summaries);
        let Some(CalleeKind::Derived(f)) = CalleeKind::of(self.0.program, func, inst) else { return };
        let (args, results) = (func.dfg.inst_args(inst), func.dfg.inst_results(inst));
        if !args.iter().any(|&a| self.0.pointers.root(a).is_some() && is_mixed(self.0, inst, a)) {
            return;
        }
        moves.begin.extend((0..results.len()).filter(|&k| summaries.returns_memory(f, k)).map(|k| results[k]));
        moves.end.extend((0..args.len()).filter(|&n| summaries.hands_on(f, n)).map(|n| args[n]));
        for link in summaries.links(f) {
            if let (End::Param(n), End::Result(k)) = link.ends {
                moves.edge(args[n], results[k]);
            }
        }
    }
}
