//! Footprints: which memory the steps of a loop change, where memory is not one piece.
//!
//! **Question.** A state is kept, and steps run again from it. What has to be kept, so that they
//! find what they found?
//!
//! **Answer.** Each object that may have changed in between: those that the loop writes, and those
//! that its function writes behind it and the loop may read. An object is what a parameter points
//! into, a stack slot, or a data object; an address stays in the object that it is computed from
//! (C's rule). How long a parameter's object is, the run time is told: an argument declares its
//! length. What a function reads that is called, its caller may write, so that is kept as well.
//!
//! **Where it is not known.** An access through a pointer that was loaded, or to a block that the
//! program has allocated, is to no object that is known; nor is it known whether the shadow of such
//! a pointer is still what it was. A stack slot is there for a pullback only in a function that is
//! one with its pullback.
//!
//! **Cost.** A pass over the loop, and one over its function.

use brolga_analysis::memory::alias::{Origin, Place, Places};
use brolga_analysis::memory::mod_ref::{self, Effect};
use brolga_analysis::{Blocks, LoopId};
use brolga_ir::map::{HashMap, IndexSet};
use brolga_ir::{FuncKey, Program};
use cranelift_codegen::ir;
use cranelift_entity::EntitySet;

use crate::primal::normalise::NormalisedPrimal;

/// The memory that a loop changes.
pub(super) enum Memory {
    /// All that an instance has.
    Instance,
    /// Some objects.
    Objects(IndexSet<Origin>),
}

/// What is to be known of a function whose loops are looked at.
pub(super) struct FootprintInput<'a> {
    pub program: &'a Program,
    pub effects: &'a HashMap<FuncKey, Effect>,
    /// The function returns before its pullback runs.
    pub returns_first: bool,
    /// Another function calls it.
    pub is_called: bool,
}

/// The objects that a loop changes, or that change after it, or why they are not known.
pub(super) fn of(cx: &FootprintInput<'_>, n: &NormalisedPrimal, l: LoopId) -> Result<IndexSet<Origin>, String> {
    let blocks = Blocks::default();
    let places = Places { program: cx.program, func: &n.func, cfg: &n.cfg, blocks: &blocks };
    let lp = &n.loops.loops[l];
    let of_loop = || n.cfg.blocks.iter().filter(|b| lp.blocks.contains(**b)).flat_map(|&b| n.cfg.insts(b).iter());
    let touches = |&&i: &&ir::Inst| {
        !mod_ref::written(places, i, cx.effects).is_empty() || !mod_ref::loaded(places, i, cx.effects).is_empty()
    };
    let mut found = IndexSet::default();
    if of_loop().find(touches).is_none() {
        return Ok(found);
    }
    for &i in of_loop() {
        mod_ref::written(places, i, cx.effects).iter().try_for_each(|place| object(cx, place, true, &mut found))?;
        let mut read = IndexSet::default();
        mod_ref::loaded(places, i, cx.effects).iter().try_for_each(|place| object(cx, place, true, &mut read))?;
        if cx.is_called {
            found.extend(read);
        }
    }
    for b in blocks_after(n, l).iter() {
        for &i in n.cfg.insts(b) {
            mod_ref::written(places, i, cx.effects)
                .iter()
                .try_for_each(|place| object(cx, place, false, &mut found))?;
        }
    }
    Ok(found)
}

/// Blocks that run after a loop.
fn blocks_after(n: &NormalisedPrimal, l: LoopId) -> EntitySet<ir::Block> {
    let mut found = EntitySet::new();
    let mut work: Vec<ir::Block> = n.loops.loops[l].exits.iter().map(|e| e.1).collect();
    while let Some(b) = work.pop() {
        if found.insert(b) {
            work.extend(n.cfg.succs[b].iter().copied());
        }
    }
    found
}

fn object(cx: &FootprintInput<'_>, place: &Place, inside: bool, found: &mut IndexSet<Origin>) -> Result<(), String> {
    let does = if inside { "accesses" } else { "is beside code that writes" };
    match place.origin {
        Origin::Slot(_) if cx.returns_first => {
            return Err(format!("{does} a stack slot, which is gone when the pullback runs"));
        }
        Origin::Slot(_) | Origin::Param(_) | Origin::Data(_) => {
            found.insert(place.origin);
        }
        Origin::Alloc(_) => return Err(format!("{does} memory that the program allocates")),
        Origin::Unknown => return Err(format!("{does} memory through a pointer that is not one of its function's")),
    };
    Ok(())
}
