//! What is done to the loops of a function that has been lowered, in order, and what became of each.
//!
//! Each of these passes reads CLIF and knows nothing of derivatives; what it must know of a loop, whether it is one that reverses, follows
//! from the role of the block that was lowered to its header.

use brolga_ir::block::{CfgBlocks, Role};
use brolga_ir::{Ideas, Mode};
use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;
use cranelift_entity::EntitySet;

use crate::lanes::{self, How, Taken, has_lanes, lanes};
use crate::preaccumulate::{self, preaccumulate};
use crate::quotients::quotients;
use crate::room::{self, room};
use crate::shape::shape;

/// What became of loops, by the role of the header.
#[derive(Debug, Default)]
pub struct Loops {
    /// Bytes of a turn of those that ask once whether there is room on the tape, or why they do not.
    asking: Vec<(Role, Result<i64, &'static str>)>,
    /// How those that might be run several turns at a time are.
    in_lanes: Vec<(Role, Result<Taken, &'static str>)>,
    /// How many factors are multiplied out in those whose cotangent waits for nothing else.
    ahead: Vec<(Role, usize)>,
}

impl Loops {
    /// Whether the loop with this header asks once for room on the tape, as a sentence.
    pub fn room(&self, header: ir::Block) -> Option<String> {
        self.asking.iter().find_map(|(role, outcome)| room::told(*role, header, outcome))
    }

    /// How the loop with this header is run, and its reverse, in sentences.
    pub fn told(&self, header: ir::Block) -> Vec<String> {
        let lanes = self.in_lanes.iter().filter_map(|(role, outcome)| lanes::told(*role, header, outcome));
        let ahead = self.ahead.iter().filter_map(|(role, factors)| preaccumulate::told(*role, header, *factors));
        let mut found: Vec<String> = Vec::new();
        for text in lanes.chain(ahead) {
            if !found.contains(&text) {
                found.push(text);
            }
        }
        found
    }

    /// Give a function that `graph` was lowered to its loops; sums that are `watched` may be added up in any order, loads and stores in `shadows` touch nothing
    /// that others touch, and where the tape has a fence, records need not make these `checks`.
    pub fn form(
        &mut self,
        func: &mut ir::Function,
        graph: &CfgBlocks,
        (watched, shadows, checks): (&EntitySet<ir::Value>, &EntitySet<ir::Inst>, Option<&[ir::Inst]>),
        (mode, ideas): (Mode, Ideas),
        isa: &dyn TargetIsa,
    ) {
        // Blocks have the order of the graph.
        let role = |b: ir::Block| graph.blocks.get_index(b.as_u32() as usize).map(|b| b.role);
        // What is handed from turn to turn by a reverse, and added to, is a cotangent.
        let reverses = |b| mode == Mode::Gradient && matches!(role(b), Some(Role::Reverse(_) | Role::Edge(..)));
        if ideas.room {
            let looked = room(func, ideas.worth, checks.is_some()).into_iter();
            self.asking.extend(looked.filter_map(|l| Some((role(l.header)?, l.outcome))));
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
        let wanted = ideas.lanes && has_lanes(isa);
        if wanted || ideas.stay {
            let reorder = |header| ideas.partial && reverses(header);
            // Shadows are undefined after a trap, what the primal stores is not.
            let stay = |header| ideas.stay && role(header).is_some_and(|r| !r.is_forward());
            let how = How { reorder: &reorder, watched, shadows, worth: ideas.worth, lanes: wanted, stay: &stay };
            self.in_lanes.extend(lanes(func, how).into_iter().filter_map(|l| Some((role(l.header)?, l.outcome))));
        }
        if ideas.preaccumulate && mode == Mode::Gradient {
            let found = preaccumulate(func, &reverses, ideas.worth);
            self.ahead.extend(found.into_iter().filter_map(|l| Some((role(l.header)?, l.factors))));
        }
        if ideas.quotient && has_lanes(isa) {
            quotients(func);
        }
        shape(func, isa);
    }
}
