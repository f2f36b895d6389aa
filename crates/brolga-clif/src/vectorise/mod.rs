//! Loop vectorisation: several iterations of a loop at a time, in the lanes of vector registers.
//!
//! **Problem.** The reverse of a loop over an array does the same to each element: `dx[i] +=
//! c·y[i]`. Element after element it takes as long as its instructions take; a register has room
//! for two `f64` or four `f32`, and Cranelift uses one.
//!
//! **Answer.** Beside the loop there is one whose iterations do what several of it do, in lanes. A
//! test before both says whether accesses that would trade places meet; the loop itself does what
//! is left over.
//!
//! **Where.** On CLIF, not on the derived graph from which it is lowered. There every cotangent is
//! a value that is seen to be handed from iteration to iteration, every shadow address is a sum,
//! and any loop of derived code looks the same, be it a copy of the primal's or a reverse. What the
//! graph would know beside that is which memory is whose. It is relied on for one thing: a shadow
//! lies on top of no primal, since the whole pullback relies on that. But shadows of two arguments
//! may be one buffer, as may two arguments, and only the caller knows. So addresses are compared
//! when the loop is entered, which takes three instructions for each pair that could meet. What is
//! emitted is CLIF with `f64x2`, as a user could have written it, and can be differentiated like
//! that.
//!
//! **Which loops.** A cycle of blocks with one way in and one way out, all else in it jumps
//! ([`affine_loop::loops`]), whose test compares what goes in constant steps with what does not
//! change. In it loads and stores of floats of one width at addresses that go up (or all down) by
//! that width each iteration, loads from where the address does not change, additions to what is
//! there ([`promote`]), arithmetic that exists lane by lane and gives the bits it gives one by one,
//! and masks. What is handed from iteration to iteration is an integer in constant steps, or a
//! number to which something is added ([`body`]). Anything else is refused: calls, traps, branches,
//! gathered elements, records.
//!
//! **What becomes of one** ([`codegen`]), for `w` bytes an element and `n` lanes:
//!
//! ```text
//!         ┌► scalar loop as it was ─► after it
//! G ─► C ─┤      ▲
//!         └► P ─► V ⟲ ─► X
//!
//! G   T = some multiple of n iterations that the loop is going to run through; are they enough?
//!     Else the scalar loop
//! C   does no pair of accesses meet? Else the scalar loop
//! P   what does not change, in all lanes
//! V   n iterations at a time, T in all
//! X   what the loop's parameters are after T iterations
//! ```
//!
//! The loop itself stays and does what is left over, or everything. So `T` may be any number that
//! is not too large: whether there is another iteration is for the loop to find out, and how it
//! ends does not matter here.
//!
//! **When iterations may be merged.** Let the accesses of an iteration be `A1 … Am` in order, `Ak`
//! in iteration `t` at `ak + t·s`, where `s` is `w` or `-w` for all of them. One by one, all of
//! iteration `t` comes before all of iteration `t+1`; in lanes, `Aj` of the iterations `t … t+n-1`
//! comes before `Ak` of those iterations for `j < k`. Two accesses trade places if and only if `j <
//! k` and `Ak` is of an earlier iteration than `Aj`, and that matters if and only if they overlap
//! and one of them is a store:
//!
//! ```text
//! |ak - aj - i·s| < w  for some 0 < i < n      that is     0 < ±(ak - aj) < n·w
//! ```
//!
//! The difference is the same in all iterations, so it is asked once, before the loop, or known
//! beforehand. It is exact: it refuses only what would go wrong, among elements that are accessed.
//! Hence arrays that overlap otherwise are no obstacle (an accumulation in place, one buffer as
//! both shadows, a copy forwards by one), and which way is taken follows from how buffers lie to
//! each other, not from where they lie. An access to one place in all iterations is a load, done
//! once, and no store may touch it: its place is compared with all that a store covers in `T`
//! iterations. A place that iterations add to is read before the vectors and written after them,
//! and compared with everything.
//!
//! *Traps.* A vector is loaded or stored only where each of its elements would be, since all `T`
//! iterations are run through. So nothing traps that would not. If something does, stores of the
//! same few iterations that would have come before it may be missing, and of two accesses that
//! would trap in these iterations another may be the one that is reported. Derived code that traps
//! has no result, and shadows are then undefined.
//!
//! *Sums.* What is added up over the iterations is added in order, lane by lane, which is the same
//! number. Only where `reorder` allows it are there as many partial sums as lanes, added up after
//! the loop: that is for cotangents, in loops that reverse. It is another order, so the same up to
//! rounding, and the same in each run. (A sum that is exactly zero since its terms cancel may come
//! out as something small, and one of terms near the largest number may overflow earlier, or
//! later.)
//!
//! *Flags.* A vector access is not `aligned`; other claims of its elements hold for it.
//!
//! **When it pays.** If something is stored in lanes, or a sum may be split; and for
//! [`FEW_ITERATIONS`] iterations or more. In short loops the way to the vectors takes as long as
//! they save, and a vector that is read just after its elements were written one by one has to wait
//! for them to arrive in the cache (`gmm`, ten elements a row, took a fifth longer). Loops with few
//! accesses do two vectors an iteration.
//!
//! *One by one.* A loop that is refused but adds to a place is run through the same blocks with one
//! iteration at a time and no vectors, for the sake of that place.
//!
//! **Cost.** A walk over the CFG that finds loops of a few blocks; an iteration of one, of 300
//! instructions at most, is read once, and its accesses are compared in pairs. Code grows by five
//! blocks for each loop that is taken.
//!
//! **Source.** Loop vectorisation with checks at run time (LLVM's `LoopVectorize`), for loops of
//! one path.

use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;
use cranelift_entity::EntitySet;

use crate::linear::LinearForm;
use crate::simplify_cfg::resolve_aliases;

pub use outcome::{LoopPolicy, VectorReport, VectorShape, told};

pub mod affine_loop;
pub(crate) mod body;
pub(crate) mod codegen;
pub mod count;
mod legality;
mod outcome;
pub mod preheader;
mod promote;

/// Fewer iterations than this are run one by one: the way to the vectors takes as long as they
/// save.
pub const FEW_ITERATIONS: i64 = 16;

/// Whether a target has the vectors that this makes.
pub fn has_lanes(isa: &dyn TargetIsa) -> bool {
    matches!(isa.name(), "x64" | "aarch64")
}

/// Blocks that were put before loops: five for each, in a row, of which the fourth goes to
/// itself and moves vectors. They make a function longer, but no harder to compile. (Vectors of the
/// primal's own look the same.)
pub fn in_front(func: &ir::Function) -> EntitySet<ir::Block> {
    let mut found = EntitySet::new();
    let moves = |i: ir::Inst| match func.dfg.insts[i].opcode() {
        ir::Opcode::Load | ir::Opcode::Store => body::accessed(func, i).is_vector(),
        _ => false,
    };
    for v in func.layout.blocks() {
        if func.block_successors(v).any(|s| s == v) && func.layout.block_insts(v).any(moves) {
            let before = std::iter::successors(Some(v), |&b| func.layout.prev_block(b)).take(4);
            found.extend(before.chain(func.layout.next_block(v)));
        }
    }
    found
}

/// Run loops of a function several iterations at a time.
pub fn vectorise(func: &mut ir::Function, how: LoopPolicy<'_>) -> Vec<VectorReport> {
    let LoopPolicy { worth, lanes, stay, .. } = how;
    let least = if worth { FEW_ITERATIONS } else { 0 };
    let loops = affine_loop::loops(func);
    if loops.is_empty() {
        return Vec::new();
    }
    resolve_aliases(func);
    let mut looked = Vec::new();
    for l in loops {
        let header = l.blocks[0];
        let stays = stay(header);
        let read = if lanes { body::LoopBody::read(func, &l, &how) } else { Err("") };
        let outcome = match read {
            Ok(body) if worth && is_short(func, &l, &body.count) => Err("it has few iterations"),
            Ok(body) => Ok(codegen::emit(func, &l, &body, least)),
            Err(why) => match stays.then(|| promote::one_by_one(func, &l, &how)).flatten() {
                Some(body) if !(worth && is_short(func, &l, &body.count)) => Ok(codegen::emit(func, &l, &body, least)),
                // Nothing to do with floats in memory.
                _ if why.is_empty() => continue,
                _ => Err(why),
            },
        };
        looked.push(VectorReport { header, outcome });
    }
    looked
}

/// Whether a loop is seen to have fewer iterations than are worth it.
pub fn is_short(func: &ir::Function, l: &affine_loop::Loop, count: &count::Count) -> bool {
    let count::Count { first, step, bound, .. } = count;
    let bound = bound.map_or_else(LinearForm::default, LinearForm::value);
    let distance = bound.plus_times(first, -1);
    let sum = if *step > 0 { distance } else { LinearForm::default().plus_times(&distance, -1) };
    affine_loop::at_most(func, l, &sum).is_some_and(|most| most / step.saturating_abs().max(1) < FEW_ITERATIONS)
}
