//! Rebasing: shadow addresses that start from where the shadow starts.
//!
//! **Problem.** The shadow of what is at `base + i` is at `base + i + delta`. The processor adds
//! two numbers in an access for nothing, but not three, so each access of a shadow has an addition
//! of its own where the primal has none: WebAssembly's addresses are all of the form `memory + i`.
//!
//! **Answer.** Where base and delta are known before the block of the access, in one block or with
//! the help of the entry, their sum is computed there, and the shadow is at `shadow + i`. What is
//! not used any more is not compiled: Cranelift emits code for what has a use.
//!
//! **Why here.** In the graph an access names address and delta, and has to: all passes compare
//! those. And while blocks are being lowered, a variable in a loop is still a parameter of the
//! loop's header, whatever it turns out to be.
//!
//! **Invariant.** Every address is the number that it was: addition of integers wraps.
//!
//! ```text
//! block0(v0: i64, v1: i64):        block0(v0: i64, v1: i64):
//!     …                                v5 = iadd v0, v1
//! block1(v2: i64):           ⟶     block1(v2: i64):
//!     v3 = iadd v0, v2                 v3 = iadd v0, v2
//!     v4 = iadd v3, v1                 v4 = iadd v5, v2
//! ```
//!
//! **Cost.** A few look-ups for each shadow address.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, ValueDef};

use crate::map::HashMap;

/// Rewrite these sums of an address and a delta.
pub(super) fn rebase(func: &mut ir::Function, shadows: &[ir::Value]) {
    let mut starts: HashMap<(ir::Value, ir::Value), ir::Value> = HashMap::default();
    for &shadow in shadows {
        let Some((inst, [address, delta])) = sum(func, shadow) else { continue };
        let Some((_, [x, y])) = sum(func, address) else { continue };
        let here = func.layout.inst_block(inst);
        let known = |base| together(func, base, delta).filter(|&b| Some(b) != here);
        let Some((base, rest, block)) = [(x, y), (y, x)].into_iter().find_map(|(p, q)| Some((p, q, known(p)?))) else {
            continue;
        };
        let start = starts.entry((base, delta)).or_insert_with(|| {
            let at = first_after(func, block, base, delta);
            FuncCursor::new(func).at_inst(at).ins().iadd(base, delta)
        });
        let InstructionData::Binary { args, .. } = &mut func.dfg.insts[inst] else { unreachable!("a sum") };
        *args = [*start, rest];
    }
}

/// The sum that a value is.
fn sum(func: &ir::Function, v: ir::Value) -> Option<(ir::Inst, [ir::Value; 2])> {
    let inst = func.dfg.value_def(v).inst()?;
    match func.dfg.insts[inst] {
        InstructionData::Binary { opcode: Opcode::Iadd, args } => {
            Some((inst, args.map(|a| func.dfg.resolve_aliases(a))))
        }
        _ => None,
    }
}

fn home(func: &ir::Function, v: ir::Value) -> Option<ir::Block> {
    match func.dfg.value_def(v) {
        ValueDef::Param(b, _) => Some(b),
        ValueDef::Result(inst, _) => func.layout.inst_block(inst),
        ValueDef::Union(..) => None,
    }
}

/// The block in which the later of two values is defined, if that is plain: one block defines both,
/// or the entry defines one.
fn together(func: &ir::Function, x: ir::Value, y: ir::Value) -> Option<ir::Block> {
    let (x, y) = (home(func, x)?, home(func, y)?);
    let entry = func.layout.entry_block();
    match () {
        () if x == y || Some(x) == entry => Some(y),
        () if Some(y) == entry => Some(x),
        () => None,
    }
}

/// The first instruction of a block by which both values are there.
fn first_after(func: &ir::Function, block: ir::Block, x: ir::Value, y: ir::Value) -> ir::Inst {
    let last = [x, y]
        .into_iter()
        .filter_map(|v| func.dfg.value_def(v).inst())
        .filter(|&i| func.layout.inst_block(i) == Some(block))
        .max_by(|&i, &j| func.layout.pp_cmp(i, j));
    let next = match last {
        Some(inst) => func.layout.next_inst(inst),
        None => func.layout.first_inst(block),
    };
    next.expect("a block has a terminator")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instructions of a function, when these of its values have been rewritten as shadow
    /// addresses.
    fn rebased(text: &str, shadows: &[u32]) -> Vec<String> {
        let mut func = cranelift_reader::parse_functions(text).unwrap_or_else(|e| panic!("{e}")).remove(0);
        let shadows: Vec<ir::Value> = shadows.iter().map(|&n| ir::Value::from_u32(n)).collect();
        rebase(&mut func, &shadows);
        let target = cranelift_codegen::settings::Flags::new(cranelift_codegen::settings::builder());
        cranelift_codegen::verify_function(&func, &target).unwrap_or_else(|e| panic!("{e}: {func}"));
        let sums = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
        let sums = sums.filter(|&i| func.dfg.insts[i].opcode() == Opcode::Iadd);
        sums.map(|i| func.dfg.display_inst(i).to_string()).collect()
    }

    #[test]
    fn the_start_is_computed_where_it_is_known() {
        // v7 starts from parameters of the entry, v10 from those of a block on the way, with the
        // other operand first.
        let text = "function %f(i64, i64, i64) {
            block0(v0: i64, v1: i64, v2: i64):
                jump block1(v0, v1)
            block1(v3: i64, v4: i64):
                jump block2(v2)
            block2(v5: i64):
                v6 = iadd v0, v5
                v7 = iadd v6, v1
                v8 = load.f64 v7
                v9 = iadd v5, v3
                v10 = iadd v9, v4
                store v8, v10
                brif v5, block2(v5), block3
            block3:
                return
            }";
        let wanted = [
            "v11 = iadd.i64 v0, v1",
            "v12 = iadd.i64 v3, v4",
            "v6 = iadd.i64 v0, v5",
            "v7 = iadd.i64 v11, v5",
            "v9 = iadd.i64 v5, v3",
            "v10 = iadd.i64 v12, v5",
        ];
        assert_eq!(rebased(text, &[7, 10]), wanted);
    }

    #[test]
    fn what_stays() {
        // v6: the base is computed in the same block. v9: base and delta are known in different
        // blocks. v11: an address without a base.
        let text = "function %f(i64, i64) {
            block0(v0: i64, v1: i64):
                v2 = load.i64 v0
                jump block1(v2)
            block1(v3: i64):
                jump block2(v1)
            block2(v4: i64):
                v5 = iadd v4, v4
                v6 = iadd v5, v1
                store v0, v6
                jump block3
            block3:
                v7 = load.i64 v6
                v8 = iadd v4, v7
                v9 = iadd v8, v3
                store v0, v9
                v10 = load.i64 v0
                v11 = iadd v10, v1
                store v0, v11
                return
            }";
        let sums = [
            "v5 = iadd.i64 v4, v4",
            "v6 = iadd.i64 v5, v1",
            "v8 = iadd.i64 v4, v7",
            "v9 = iadd.i64 v8, v3",
            "v11 = iadd.i64 v10, v1",
        ];
        assert_eq!(rebased(text, &[6, 9, 11]), sums);
    }
}
