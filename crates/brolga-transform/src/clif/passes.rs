//! What is done to the loops of a function that has been lowered, in order, and what became of
//! each.
//!
//! Each of these passes reads CLIF and knows nothing of derivatives; what it must know of a loop,
//! whether it is one that reverses, follows from the role of the block that was lowered to its
//! header.

use std::borrow::Cow;
use std::cell::RefCell;

use brolga_analysis::memory::alias::{Origin, Place, Places};
use brolga_ir::block::{CfgBlocks, Role};
use brolga_ir::lower::Shadows;
use brolga_ir::map::HashMap;
use brolga_ir::{Ideas, Mode};
use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;
use cranelift_entity::EntitySet;

use crate::clif::hoist_tape_check::{self, room};
use crate::clif::loop_layout::shape;
use crate::clif::preaccumulate::{self, Choice, preaccumulate};
use crate::clif::slp::{self, slp};
use crate::clif::slp_divisions::quotients;
use crate::clif::vectorise::{self, How, Taken, has_lanes, lanes};
use crate::clif::verified::Passes;

/// What became of loops, by the role of the header.
#[derive(Debug, Default)]
pub struct Loops {
    /// Bytes of a turn of those that ask once whether there is room on the tape, or why they do
    /// not.
    asking: Vec<(Role, Result<i64, &'static str>)>,
    /// How those that might be run several turns at a time are.
    in_lanes: Vec<(Role, Result<Taken, &'static str>)>,
    /// How many factors are multiplied out in those whose cotangent waits for nothing else.
    ahead: Vec<(Role, usize)>,
    /// How many stores those save that store to neighbours at once.
    abreast: Vec<(Role, usize)>,
    /// What Cranelift's verifier says behind each pass.
    pub verified: Passes,
}

/// What is known of a function that its CLIF does not tell.
#[derive(Clone, Copy)]
pub struct Beside<'a> {
    /// Sums that may be added up in any order.
    pub watched: &'a EntitySet<ir::Value>,
    /// Loads and stores that touch nothing that others touch.
    pub shadows: &'a Shadows,
    /// Where the tape has a fence, checks of records that need not be made.
    pub checks: Option<&'a [ir::Inst]>,
    /// Where the primal accesses memory.
    pub places: Places<'a>,
}

impl Loops {
    /// Nothing has been done yet. Behind each pass Cranelift's verifier is asked, if it is to be.
    pub fn new(verify: bool) -> Self {
        Self { verified: Passes::verified(verify), ..Self::default() }
    }

    /// Whether the loop with this header asks once for room on the tape, as a sentence.
    pub fn room(&self, header: ir::Block) -> Option<String> {
        self.asking.iter().find_map(|(role, outcome)| hoist_tape_check::told(*role, header, outcome))
    }

    /// How the loop with this header is run, and its reverse, in sentences.
    pub fn told(&self, header: ir::Block) -> Vec<String> {
        let lanes = self.in_lanes.iter().filter_map(|(role, outcome)| vectorise::told(*role, header, outcome));
        let ahead = self.ahead.iter().filter_map(|(role, factors)| preaccumulate::told(*role, header, *factors));
        let abreast = self.abreast.iter().filter_map(|(role, stores)| slp::told(*role, header, *stores));
        let mut found: Vec<String> = Vec::new();
        for text in lanes.chain(ahead).chain(abreast) {
            if !found.contains(&text) {
                found.push(text);
            }
        }
        found
    }

    /// Multiply out by what the turns of loops multiply a cotangent, in a function that `graph` was
    /// lowered to.
    pub fn multiply_out(
        &mut self,
        func: &mut ir::Function,
        graph: &CfgBlocks,
        mode: Mode,
        worth: bool,
        choice: Choice,
    ) {
        let found = preaccumulate(func, &|b| reverses(graph, mode, b), worth, choice);
        self.ahead.extend(found.into_iter().filter_map(|l| Some((role(graph, l.header)?, l.factors))));
        self.verified.behind("preaccumulate", func);
    }

    /// Let loops ask once whether there is room for what they record. Where the tape has a fence,
    /// `checks` are those of records, which go.
    pub fn ask(&mut self, func: &mut ir::Function, graph: &CfgBlocks, ideas: Ideas, checks: Option<&[ir::Inst]>) {
        if ideas.room {
            let looked = room(func, ideas.worth, checks.is_some()).into_iter();
            self.asking.extend(looked.filter_map(|l| Some((role(graph, l.header)?, l.outcome))));
        }
        // What is left of them, and what they ask.
        for &check in checks.into_iter().flatten() {
            let over = func.dfg.value_def(func.dfg.inst_args(check)[0]).inst();
            for inst in [Some(check), over].into_iter().flatten() {
                if func.layout.inst_block(inst).is_some() {
                    func.layout.remove_inst(inst);
                }
            }
        }
        self.verified.behind("hoist_tape_check", func);
    }

    /// Give a function that `graph` was lowered to its loops.
    pub fn form(
        &mut self,
        func: &mut ir::Function,
        graph: &CfgBlocks,
        beside: Beside<'_>,
        (mode, ideas): (Mode, Ideas),
        isa: &dyn TargetIsa,
    ) {
        let Beside { watched, shadows, checks, places } = beside;
        let role = |b| role(graph, b);
        let reverses = |b| reverses(graph, mode, b);
        self.ask(func, graph, ideas, checks);
        if ideas.preaccumulate {
            self.multiply_out(func, graph, mode, ideas.worth, Choice::Branch);
        }
        if self.verified.is_broken() {
            return;
        }
        let found: RefCell<HashMap<ir::Inst, Place>> = RefCell::default();
        // Copies of accesses, each with the access.
        let copies: RefCell<HashMap<ir::Inst, ir::Inst>> = RefCell::default();
        let place = |access: ir::Inst| {
            let of = |(p, off, bytes)| places.of_bytes(p, off, bytes);
            let access = copies.borrow().get(&access).copied().unwrap_or(access);
            *found.borrow_mut().entry(access).or_insert_with(|| shadows.of(access).map_or(Place::ANYWHERE, of))
        };
        let mut all = Cow::Borrowed(&shadows.all);
        let wanted = ideas.lanes && has_lanes(isa);
        if wanted || ideas.stay {
            let reorder = |header| ideas.partial && reverses(header);
            // Shadows are undefined after a trap, what the primal stores is not.
            let stay = |header| ideas.stay && role(header).is_some_and(|r| !r.is_forward());
            // From one origin to two shadows it is as far as to the primals.
            let apart = |a, b| {
                let (a, b) = (place(a), place(b));
                a.origin == b.origin && a.origin != Origin::Unknown && places.apart(&a, &b)
            };
            let how = How {
                apart: &apart,
                reorder: &reorder,
                watched,
                shadows: &shadows.all,
                worth: ideas.worth,
                lanes: wanted,
                stay: &stay,
            };
            for looked in lanes(func, how) {
                let of_shadows = looked.copies.into_iter().filter(|c| shadows.all.contains(c.1));
                copies.borrow_mut().extend(of_shadows);
                self.in_lanes.extend(role(looked.header).map(|r| (r, looked.outcome)));
            }
            if !copies.borrow().is_empty() {
                all.to_mut().extend(copies.borrow().keys().copied());
            }
            if !self.verified.behind("vectorise", func) {
                return;
            }
        }
        if ideas.slp && has_lanes(isa) {
            // From one place to two shadows it is as far as to the primals.
            let apart = |a, b| places.apart(&place(a), &place(b));
            let short_indices = places.program.short_indices;
            let looked = slp(func, slp::How { shadows: &all, apart: &apart, short_indices });
            self.abreast.extend(looked.into_iter().filter_map(|l| Some((role(l.header)?, l.stores))));
            if !self.verified.behind("slp", func) {
                return;
            }
        }
        if ideas.quotient && has_lanes(isa) {
            quotients(func);
            if !self.verified.behind("slp_divisions", func) {
                return;
            }
        }
        shape(func, isa, &mut self.verified);
    }
}

/// What a block of a function is for that a graph was lowered to: blocks have its order.
fn role(graph: &CfgBlocks, b: ir::Block) -> Option<Role> {
    graph.blocks.get_index(b.as_u32() as usize).map(|b| b.role)
}

/// Whether it reverses something, where only a gradient is asked for: what is handed from turn to
/// turn then, and added to, is a cotangent.
fn reverses(graph: &CfgBlocks, mode: Mode, b: ir::Block) -> bool {
    mode == Mode::Gradient && matches!(role(graph, b), Some(Role::Reverse(_) | Role::Edge(..)))
}
