//! What memory a function may write to, for its callers.
//!
//! **Lattice.** Nothing; a span of bytes around what one parameter points at; anything. A function's effect is the join of its own
//! writes and of those of the functions that it calls, seen through the arguments that it passes. Its own stack slots are
//! gone when it has returned, so writing to them is nothing.
//!
//! **Errs** on the side of anything: calls through pointers, functions of the embedder, whatever is not known to be harmless, and
//! spans that keep growing through recursion.
//!
//! Nor is writing to a block that the function has allocated itself ([`crate::blocks`]): its callers have not seen it. What a call of the
//! program's allocator writes is taken on trust where it is not plain to see: nothing that the program reads but what lies in front of
//! memory (its size), and the block that is released.
//!
//! In WebAssembly it tells functions that only compute, or only write globals, from those that write to memory.

use brolga_ir::map::HashMap;
use brolga_ir::{Allocator, FuncKey, Program};
use brolga_rules::{MathKind, MemFn};
use cranelift_codegen::ir::{self, Opcode};

use crate::blocks::{self, Blocks, Flow};
use crate::callee::CalleeKind;
use crate::places::{Origin, Place, Places};
use crate::summary::Body;

/// What a function may write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Nothing that its caller could see.
    #[default]
    Nothing,
    /// These bytes, from where a parameter points: the first, and behind the last.
    Through(usize, (i64, i64)),
    /// Anything.
    Anything,
}

impl Effect {
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, e) | (e, Self::Nothing) => e,
            (Self::Through(p, a), Self::Through(q, b)) if p == q => Self::Through(p, (a.0.min(b.0), a.1.max(b.1))),
            _ => Self::Anything,
        }
    }

    /// Of a write to a place.
    fn of(place: &Place) -> Self {
        match (place.origin, place.span()) {
            _ if place.is_new() => Self::Nothing,
            (Origin::Slot(_), _) => Self::Nothing,
            (Origin::Param(i), Some(span)) => Self::Through(i, span),
            _ => Self::Anything,
        }
    }
}

/// Rounds after which what still changes is taken to be anything.
const MOST_ROUNDS: usize = 8;
/// Bytes of state that an allocator may keep at places that do not vary. What writes to more is taken to write to the heap.
const MOST_STATE: i64 = 1 << 16;
/// In front of memory, from where the instance pointer points.
const FRONT: (i64, i64) = (-(1 << 40), 0);

/// The effects of normalised functions, with their [`flows`](blocks::flows).
pub fn compute(
    program: &Program,
    funcs: &HashMap<FuncKey, Body<'_>>,
    flows: &HashMap<FuncKey, Flow>,
) -> HashMap<FuncKey, Effect> {
    let mut order: Vec<FuncKey> = funcs.keys().copied().collect();
    order.sort_unstable();
    let blocks: HashMap<FuncKey, Blocks> =
        order.iter().map(|&k| (k, Blocks::of_function(program, k, funcs[&k].func, funcs[&k].cfg, flows))).collect();
    let mut all: HashMap<FuncKey, Effect> = order.iter().map(|&k| (k, Effect::Nothing)).collect();
    for round in 0.. {
        let mut changed = false;
        for &k in &order {
            let places = Places { program, func: funcs[&k].func, cfg: funcs[&k].cfg, blocks: &blocks[&k] };
            let now = all[&k].join(of_function(places, &all));
            if now != all[&k] {
                all.insert(k, if round < MOST_ROUNDS { now } else { Effect::Anything });
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    all
}

fn of_function(places: Places<'_>, all: &HashMap<FuncKey, Effect>) -> Effect {
    let mut effect = Effect::Nothing;
    for &b in &places.cfg.blocks {
        for inst in places.func.layout.block_insts(b) {
            if let Some(place) = written(places, inst, all) {
                effect = effect.join(Effect::of(&place));
            }
        }
    }
    effect
}

/// What an instruction may write to; `None` if it writes no memory. A block that is freed counts as written.
pub fn written(places: Places<'_>, inst: ir::Inst, all: &HashMap<FuncKey, Effect>) -> Option<Place> {
    let (program, func) = (places.program, places.func);
    let op = func.dfg.insts[inst].opcode();
    if op.is_call() {
        let args = func.dfg.inst_args(inst);
        let callee = match CalleeKind::of(program, func, inst)? {
            CalleeKind::Known(r) => {
                return match r.kind {
                    MathKind::Memory(MemFn::Malloc | MemFn::Calloc | MemFn::Memcmp)
                    | MathKind::Expr(_)
                    | MathKind::Inactive => None,
                    MathKind::Memory(MemFn::Memcpy | MemFn::Memmove | MemFn::Memset) => {
                        Some(places.of_range(args[0], args[2]))
                    }
                    MathKind::Memory(MemFn::Realloc | MemFn::Free) | MathKind::Writes(..) => {
                        Some(Place::ANYWHERE.within(places.blocks.written_by(inst)))
                    }
                };
            }
            CalleeKind::Derived(k) | CalleeKind::Plain(k) => Some(k),
            CalleeKind::Computes(_) => called(program, func, inst),
            CalleeKind::Host | CalleeKind::Missing(_) | CalleeKind::Indirect(_) => None,
        };
        let effect = callee.and_then(|k| all.get(&k)).copied().unwrap_or(Effect::Anything);
        let within = places.blocks.written_by(inst);
        return match (blocks::allocator_of(program, func, inst), effect) {
            // Even if nothing is done with the block, its bytes may be given out again.
            (Some(Allocator::Release { .. } | Allocator::Reallocate { .. }), _) => Some(Place::ANYWHERE.within(within)),
            (Some(Allocator::Allocate { .. }), Effect::Anything) => {
                Some(places.of_address(args[0]).shifted(FRONT).within(within))
            }
            (Some(Allocator::Allocate { .. }), Effect::Through(_, (low, high))) if high - low > MOST_STATE => {
                Some(places.of_address(args[0]).shifted(FRONT).within(within))
            }
            (_, Effect::Nothing) => None,
            (_, Effect::Through(i, span)) => Some(places.of_address(args[i]).shifted(span).within(within)),
            (_, Effect::Anything) => Some(Place::ANYWHERE.within(within)),
        };
    }
    if op.can_store() {
        return Some(places.of_access(inst));
    }
    (op == Opcode::Fence).then_some(Place::ANYWHERE)
}

/// The function of the program that a direct call goes to.
fn called(program: &Program, func: &ir::Function, inst: ir::Inst) -> Option<FuncKey> {
    match func.dfg.insts[inst] {
        ir::InstructionData::Call { func_ref, .. } => program.callee(func, func_ref),
        _ => None,
    }
}
