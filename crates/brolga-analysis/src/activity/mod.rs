//! Activity analysis: which values carry a cotangent, of which shape, and what cannot be followed.
//!
//! **Question.** A value is *active* if it is *varied* (depends on an active input) and *useful*
//! (an output depends on it). Floats are the easy part; integers may carry float bits unchanged,
//! and what arithmetic does to such bits is lost.
//!
//! **Answer.** Forwards, each value has a state; joins take the larger:
//!
//! ```text
//! No      nothing active in it
//! Varied  a float, or an integer that carries float bits of known lane width unchanged
//! Taint   an integer computed from such bits, or a part of them (but see `ulp`: a number that is
//!         added to them)
//! ```
//!
//! A tainted integer may be compared, used as an index, or stored (the pullback then checks that no
//! cotangent waits there, unless it has only been moved since it was loaded: see `pieces`);
//! where it becomes a float again, there is a problem. Bits are *definite* if they are known to be
//! a float's (from a bitcast, or from a cell that is also accessed as a float), otherwise only
//! possible; a possible float that is converted as an integer number is an integer number, and
//! where one becomes a float, the pullback checks that no cotangent arrives.
//!
//! What a callee returns is tainted if an argument that it is made from
//! ([`crate::calls::result_sources`]) is, or carries bits; what is loaded, if such an integer was
//! stored at the same place, at whatever time.
//!
//! Where paths meet (or a `select` chooses), such an integer on one of them would taint the floats
//! that come by the others. So if some come, and it is no piece, the result carries floats, and the
//! pullback checks that no cotangent goes back by that path. That is decided when all states are
//! known, and then they are computed anew.
//!
//! Backwards from returns, stores and calls, the useful ones. Problems are reported only where the
//! result is useful: bit tricks on inactive data, and on data that only steers control flow, are
//! not reported.
//!
//! **Cost.** A forward fixed point over blocks (`varied`), done again at most four times where such
//! joins are found, then one walk over the instructions for the roles of accesses, and one worklist
//! backwards (`useful`).
//!
//! **Source.** Activity analysis by *varied* and *useful* (Hascoët and Pascual, *The Tapenade
//! automatic differentiation tool*, 2013).

use std::cell::OnceCell;

use brolga_ir::inst::Shape;
use brolga_ir::map::HashMap;
use brolga_ir::{Diagnostic, Untracked};
use cranelift_codegen::ir::Opcode;
use cranelift_entity::EntitySet;

use crate::bits::converted;
use crate::kinds::pointers::PointerInput;
use crate::memory::punned_cells::{LocalCells, PointerCells};
use crate::query::original;
use crate::variant::ResultMode;
use context::{ActivityCx, LATER_NOTE};

pub use answer::{Activity, CopyRole, MemRole, State};
pub use context::ActivityInput;

pub mod accumulate;
mod ambiguous_width;
mod answer;
mod context;
pub mod demanded_bits;
mod dirty;
pub mod float_memory;
mod moved_pointers;
pub mod numbers;
pub mod pieces;
mod roles;
pub mod rounding;
pub mod ulp;
mod useful;
mod varied;
pub mod width;

/// Rounds in which such places are looked for: one may hide another.
const MOST_ROUNDS: usize = 4;

/// Compute activity, and everything that stands in its way.
pub fn compute(input: &ActivityInput<'_>) -> (Activity, Vec<Diagnostic>) {
    let for_pointers = PointerInput {
        program: input.program,
        func: input.func,
        cfg: input.cfg,
        params: input.params,
        summaries: input.summaries,
        given: input.summaries.given(input.key),
        pointer_copy: input.pointers.pointer_copy.clone(),
        bits: EntitySet::new(),
    };
    let local = LocalCells::compute(&for_pointers, input.pointers, input.contents);
    let mut cx = ActivityCx {
        input,
        punned: PointerCells::compute(&local, &input.summaries.punned),
        rounding: rounding::rounding(input),
        converted: converted::digits(input.func, input.cfg),
        answer: Activity::with_room(input.func),
        useful: EntitySet::new(),
        active_memory: EntitySet::new(),
        holding: HashMap::default(),
        joins: EntitySet::new(),
        demand: demanded_bits::demanded_bits(&input.for_demand(), |k| matches!(input.results[k], ResultMode::Bits(_))),
        made_floats: OnceCell::new(),
        problems: Vec::new(),
    };
    let unsure = ambiguous_width::unsure(input);
    for round in 0.. {
        cx.answer.lane.clone_from(input.lanes);
        unsure.iter().for_each(|v| cx.answer.lane[v] = 0);
        cx.varied();
        cx.pieces();
        if round == MOST_ROUNDS || !cx.more_joins() {
            break;
        }
        let joins = std::mem::take(&mut cx.joins);
        cx = ActivityCx {
            input,
            punned: cx.punned,
            rounding: cx.rounding,
            converted: cx.converted,
            answer: Activity::with_room(input.func),
            useful: EntitySet::new(),
            active_memory: EntitySet::new(),
            holding: HashMap::default(),
            joins,
            demand: cx.demand,
            made_floats: OnceCell::new(),
            problems: Vec::new(),
        };
    }
    cx.roles();
    cx.usefulness();
    let func = input.func;
    for &b in &input.cfg.blocks {
        let params = func.dfg.block_params(b).iter().copied();
        let results = input.cfg.insts(b).iter().flat_map(|&i| func.dfg.inst_results(i).iter().copied());
        for v in params.chain(results) {
            if !cx.useful.contains(v) {
                continue;
            }
            let n = func.dfg.value_type(v).bytes() as u8;
            if cx.answer.computed.contains(v) {
                cx.answer.ct[v] = Some(Shape::Demand { n });
            } else if cx.answer.pieces.contains(v) {
                cx.answer.ct[v] = Some(Shape::Bytes { n, of: 0 });
            } else if cx.answer.is_varied(v) {
                cx.answer.ct[v] = cx.answer.shape(func, v);
            }
        }
    }
    let becomes = cx.number_loads();
    let (useful, moved) = (cx.useful, &cx.answer.pieces);
    let mut astray = EntitySet::new();
    let found = cx
        .problems
        .into_iter()
        .filter(|p| p.if_useful.is_none_or(|v| useful.contains(v)))
        .filter(|p| {
            let becomes = func.dfg.insts[p.inst].opcode() == Opcode::Bitcast;
            p.unless_piece.is_none_or(|v| !moved.contains(v) || becomes && pieces::is_torn(func, v))
        })
        .filter_map(|p| {
            let later = matches!(p.diagnostic.code, "AD0110" | "AD0111" | "AD0112");
            if later && input.untracked == Untracked::Trap {
                astray.insert(p.inst);
                return None;
            }
            let d = p.diagnostic.at(input.program, input.key, original(func, p.inst));
            Some(if later { d.note(LATER_NOTE) } else { d })
        })
        .collect();
    cx.answer.astray = astray;
    cx.answer.becomes = becomes;
    (cx.answer, found)
}
