//! The pass manager: what is done to the CLIF of a function that has been lowered, in order, and a
//! remark for each loop that a pass has looked at.
//!
//! **Question.** Which passes run over a derived function, in which order, and what do they know of
//! derivatives?
//!
//! **Answer.** A pass reads CLIF and knows nothing of derivatives. What it must know of a loop,
//! whether it is one that reverses, follows from the role of the block that was lowered to its
//! header; what it must know of an access follows from a mark ([`Shadows`], tape, primal).
//!
//! **Cost.** That of the passes; a look-up by block for each loop that one has changed.

use std::cell::RefCell;

use brolga_analysis::memory::alias::{Origin, Place, Places};
use brolga_ir::block::{CfgBlocks, Role};
use brolga_ir::lower::Shadows;
use brolga_ir::map::HashMap;
use brolga_ir::{Mode, Pass, PassSet};
use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;
use cranelift_entity::EntitySet;

use crate::clif::hoist_tape_check::{self, hoist_tape_check};
use crate::clif::preaccumulate::{self, Choice, preaccumulate};
use crate::pass::ListedPass;
use brolga_clif::loop_layout::{LoopPasses, loop_layout};
use brolga_clif::slp_divisions::slp_divisions;
use brolga_clif::vectorise::{self, LoopPolicy, has_lanes, vectorise};
use brolga_clif::verified::Passes;

/// A pass over the CLIF of one function.
type ClifPass = ListedPass<fn(&mut ir::Function, &mut ClifCx<'_>)>;

/// The passes, in order. Remarks go to the context. With little effort only the first [`QUICK`]
/// run.
const PASSES: &[ClifPass] = &[
    ListedPass::always("hoist_tape_check", "where the tape has a fence, no record asks for room", hoist_tape_checks),
    ListedPass::if_on("preaccumulate", &[Pass::Preaccumulate], multiply_out),
    ListedPass::if_on("vectorise", &[Pass::Vectorise, Pass::Promote], vectorise_loops),
    ListedPass::if_on("slp_divisions", &[Pass::SlpDivisions], pack_divisions),
    ListedPass::if_on("loop_layout", &[Pass::LoopRotate, Pass::LicmGvn], lay_out_loops),
];
const QUICK: usize = 2;

/// Run the passes over a function, as long as Cranelift's verifier has nothing to say.
pub(crate) fn run(func: &mut ir::Function, cx: &mut ClifCx<'_>) {
    for pass in &PASSES[..if cx.quick { QUICK } else { PASSES.len() }] {
        if pass.is_on(cx.enabled) {
            (pass.run)(func, cx);
            if !cx.verified.check_after(pass.name, func) {
                return;
            }
        }
    }
}

/// What is known of a function that its CLIF does not tell, and what is said of it.
pub(crate) struct ClifCx<'a> {
    /// The graph that it was lowered from.
    pub graph: &'a CfgBlocks,
    /// What the derivative is.
    pub mode: Mode,
    /// Passes that are switched on.
    pub enabled: PassSet,
    /// Whether little effort is made.
    pub quick: bool,
    /// For which machine.
    pub isa: &'a dyn TargetIsa,
    /// Sums that may be added up in any order.
    pub watched: &'a EntitySet<ir::Value>,
    /// Loads and stores that touch nothing that others touch.
    pub shadows: &'a Shadows,
    /// Where the tape has a fence, checks of records that need not be made.
    pub checks: Option<&'a [ir::Inst]>,
    /// Where the primal accesses memory.
    pub places: Places<'a>,
    /// Places of accesses that have been asked for.
    pub found: RefCell<HashMap<ir::Inst, Place>>,
    /// What became of loops.
    pub remarks: &'a mut Remarks,
    /// What Cranelift's verifier says after each pass.
    pub verified: &'a mut Passes,
}

impl ClifCx<'_> {
    fn runs(&self, pass: Pass) -> bool {
        self.enabled.contains(pass)
    }

    /// What a block of the function is for.
    fn role(&self, b: ir::Block) -> Option<Role> {
        // Blocks have the order of the graph.
        self.graph.blocks.get_index(b.as_u32() as usize).map(|b| b.role)
    }

    /// Whether a block reverses something, where only a gradient is asked for: what is handed from
    /// iteration to iteration then, and added to, is a cotangent.
    fn reverses(&self, b: ir::Block) -> bool {
        self.mode == Mode::Gradient && matches!(self.role(b), Some(Role::Reverse(_) | Role::Edge(..)))
    }

    /// The place of the primal whose shadow is accessed.
    fn place(&self, access: ir::Inst) -> Place {
        let of = |(p, off, bytes)| self.places.of_bytes(p, off, bytes);
        *self.found.borrow_mut().entry(access).or_insert_with(|| self.shadows.of(access).map_or(Place::ANYWHERE, of))
    }

    /// Say something of the loop that begins with a block of the function.
    fn remark(&mut self, pass: Pass, header: ir::Block, text: impl FnOnce(LoopRole) -> Option<String>) {
        let Some(role) = self.role(header) else { return };
        let (header, whose) = match role {
            Role::Forward(b) => (b, LoopRole::Forward),
            Role::Rerun(h, _) => (h, LoopRole::Rerun),
            Role::Reverse(b) | Role::Edge(_, b) => (b, LoopRole::Reverse),
            _ => return,
        };
        self.remarks.0.extend(text(whose).map(|text| Remark { pass, header, text }));
    }
}

/// What a loop of a derived function is to a loop of the primal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoopRole {
    /// The loop itself, in the forward half.
    Forward,
    /// A copy of it in the reverse half.
    Rerun,
    /// Its reverse.
    Reverse,
}

/// What a pass says of a loop.
#[derive(Debug)]
struct Remark {
    pass: Pass,
    /// The header of the primal's loop.
    header: ir::Block,
    text: String,
}

/// What passes say of loops.
#[derive(Debug, Default)]
pub struct Remarks(Vec<Remark>);

impl Remarks {
    /// Whether the loop with this header asks once for room on the tape, as a sentence.
    pub fn tape_check(&self, header: ir::Block) -> Option<&str> {
        self.of(header, |p| p == Pass::HoistTapeChecks).next()
    }

    /// How the loop with this header is run, and its reverse, in sentences.
    pub fn of_loop(&self, header: ir::Block) -> Vec<&str> {
        let all = [Pass::Vectorise, Pass::Preaccumulate];
        let mut found: Vec<&str> = Vec::new();
        for text in all.into_iter().flat_map(|p| self.of(header, move |q| p == q)) {
            if !found.contains(&text) {
                found.push(text);
            }
        }
        found
    }

    fn of(&self, header: ir::Block, pass: impl Fn(Pass) -> bool) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |r| r.header == header && pass(r.pass)).map(|r| &*r.text)
    }
}

/// Loops ask once whether there is room for what they record, if the pass is switched on; where the
/// tape has a fence, checks of records go in any case.
fn hoist_tape_checks(func: &mut ir::Function, cx: &mut ClifCx<'_>) {
    if cx.quick && cx.checks.is_none_or(<[_]>::is_empty) {
        return;
    }
    if cx.runs(Pass::HoistTapeChecks) {
        for looked in hoist_tape_check(func, cx.runs(Pass::CostModel), cx.checks.is_some()) {
            let text = |whose| (whose == LoopRole::Forward).then(|| hoist_tape_check::told(&looked.outcome));
            cx.remark(Pass::HoistTapeChecks, looked.header, text);
        }
    }
    // What is left of them, and what they ask.
    for &check in cx.checks.into_iter().flatten() {
        let over = func.dfg.value_def(func.dfg.inst_args(check)[0]).inst();
        for inst in [Some(check), over].into_iter().flatten() {
            if func.layout.inst_block(inst).is_some() {
                func.layout.remove_inst(inst);
            }
        }
    }
}

/// What iterations multiply a cotangent by is multiplied out.
fn multiply_out(func: &mut ir::Function, cx: &mut ClifCx<'_>) {
    let choice = if cx.quick { Choice::Select } else { Choice::Branch };
    for looked in preaccumulate(func, &|b| cx.reverses(b), cx.runs(Pass::CostModel), choice) {
        let text = |whose| (whose == LoopRole::Reverse).then(|| preaccumulate::told(looked.factors));
        cx.remark(Pass::Preaccumulate, looked.header, text);
    }
}

/// Loops over neighbours run in vector registers; what they add to one place is in a register.
fn vectorise_loops(func: &mut ir::Function, cx: &mut ClifCx<'_>) {
    let in_lanes = cx.runs(Pass::Vectorise) && has_lanes(cx.isa);
    if !in_lanes && !cx.runs(Pass::Promote) {
        return;
    }
    let reorder = |header| cx.runs(Pass::PartialSums) && cx.reverses(header);
    // Shadows are undefined after a trap, what the primal stores is not.
    let stay = |header| cx.runs(Pass::Promote) && cx.role(header).is_some_and(|r| !r.is_forward());
    // From one origin to two shadows it is as far as to the primals.
    let apart = |a, b| {
        let (a, b) = (cx.place(a), cx.place(b));
        a.origin == b.origin && a.origin != Origin::Unknown && cx.places.apart(&a, &b)
    };
    let how = LoopPolicy {
        apart: &apart,
        reorder: &reorder,
        watched: cx.watched,
        shadows: &cx.shadows.all,
        worth: cx.runs(Pass::CostModel),
        lanes: in_lanes,
        stay: &stay,
    };
    for looked in vectorise(func, how) {
        let text = |whose| {
            let whose = match whose {
                LoopRole::Forward => "its loop",
                LoopRole::Rerun => "its loop, run again,",
                LoopRole::Reverse => "the reverse of its loop",
            };
            Some(vectorise::told(whose, &looked.outcome))
        };
        cx.remark(Pass::Vectorise, looked.header, text);
    }
}

/// Two divisions by one number are one.
fn pack_divisions(func: &mut ir::Function, cx: &mut ClifCx<'_>) {
    if has_lanes(cx.isa) {
        slp_divisions(func);
    }
}

/// Loops test at their ends, and what they do not change stands before them.
fn lay_out_loops(func: &mut ir::Function, cx: &mut ClifCx<'_>) {
    let [rotate, hoist] = [Pass::LoopRotate, Pass::LicmGvn].map(|p| cx.runs(p));
    loop_layout(func, cx.isa, LoopPasses { rotate, hoist }, cx.verified);
}
