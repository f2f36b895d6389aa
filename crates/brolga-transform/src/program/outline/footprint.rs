//! Footprints.
use brolga_analysis::LoopId;
use brolga_ir::Program;
use brolga_ir::driver::StatePart;

use crate::primal::normalise::Normalised;

/// The memory that a loop changes, or why that is not known.
pub(super) fn of(_program: &Program, n: &Normalised, l: LoopId) -> Result<Vec<StatePart>, String> {
    let lp = &n.loops.loops[l];
    let blocks = n.func.layout.blocks().filter(|b| lp.blocks.contains(*b));
    for i in blocks.flat_map(|b| n.cfg.insts(b)) {
        let op = n.func.dfg.insts[*i].opcode();
        if op.can_store() || op.is_call() {
            return Err("writes memory of which it is not known how far it reaches".into());
        }
    }
    Ok(Vec::new())
}
